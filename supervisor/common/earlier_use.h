#ifndef BAILIFF_SUPERVISOR_COMMON_EARLIER_USE_H
#define BAILIFF_SUPERVISOR_COMMON_EARLIER_USE_H

/*
 * What an init or a leader and its earlier commands have used before the command that it runs now. The kernel's
 * counters of such a process include it. The process writes it into its title, where every runtime finds it, also one
 * that was started later.
 */

#include <stddef.h>
#include <stdint.h>

#define EARLIER_USE_MAX 128 /* bytes of a title with it */

struct earlier_use {
	uint64_t cpu_us, read_bytes, write_bytes;
};

void earlier_use_format(const struct earlier_use *u, const char *role, char ret_title[EARLIER_USE_MAX]);
/* All 0 if the title, of `len` bytes, does not have it. */
struct earlier_use earlier_use_parse(const char *title, size_t len);

#endif
