#ifndef BAILIFF_OTLP_CURSOR_H
#define BAILIFF_OTLP_CURSOR_H

/*
 * How far the log has been exported: a small file with the runtime's id (of the store) and a sequence number, "rt_…
 * 123\n", written whole at offset 0 after each batch that was taken. Lost or damaged, the export begins with what comes
 * from then on.
 */

#include <stdint.h>

struct err;

/* 0 with *ret; 1: nothing is known for this store. */
int cursor_read(int fd, const char *runtime_id, uint64_t *ret);
int cursor_write(int fd, const char *runtime_id, uint64_t sequence, struct err *e);

#endif
