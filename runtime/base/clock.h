#ifndef BAILIFF_BASE_CLOCK_H
#define BAILIFF_BASE_CLOCK_H

/*
 * Three clocks, and times as text.
 *
 * Stored and shown times are microseconds of real time, which may jump. Everything that waits or measures uses one of
 * the other two, which do not: deadlines of processes count time in suspend (boot), condition variables do not (mono).
 * Values of different clocks are never compared.
 */

#include <stddef.h>
#include <stdint.h>

#define CLOCK_TEXT_MAX 32

uint64_t clock_real_us(void); /* microseconds since 1970, UTC */
uint64_t clock_boot_ns(void); /* CLOCK_BOOTTIME: keeps counting during suspend; the clock of all deadlines */
static inline uint64_t clock_boot_ms(void) { return clock_boot_ns() / 1000000; }
uint64_t clock_mono_ns(void); /* CLOCK_MONOTONIC: the clock that condition variables can wait for */

void clock_format(uint64_t real_us, char out[CLOCK_TEXT_MAX]); /* 2026-11-15T02:00:00.123456Z */
int clock_parse(const char *text, uint64_t *ret_real_us);      /* RFC 3339, any offset; −1 if it is not */

#endif
