#ifndef BAILIFF_OTLP_CURSOR_H
#define BAILIFF_OTLP_CURSOR_H

/*
 * The position of the export in the log: a small file with the store's runtime id and a sequence number, "rt_… 123\n",
 * rewritten at offset 0 after each accepted batch. If it is lost or damaged, the export starts with new events.
 */

#include <stdint.h>

struct err;

/* 0 with *ret; 1: no position for this store. */
int cursor_read(int fd, const char *runtime_id, uint64_t *ret);
int cursor_write(int fd, const char *runtime_id, uint64_t sequence, struct err *e);

#endif
