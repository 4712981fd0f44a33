#ifndef BAILIFF_STORE_SPOOL_H
#define BAILIFF_STORE_SPOOL_H

/*
 * Spool files: one for each output stream, named by its output ref. The stream is moved in with splice(2), never
 * through memory, so a killed runtime loses nothing: the file's size is the exact count of bytes that came.
 * Not O_APPEND (splice refuses that). Past the output limit the middle is punched out and the size still counts it.
 *
 * What is kept of a stream longer than the limit: the first three quarters of the limit and the last quarter. What lies
 * between is never read again, and its whole blocks are given back to the file system.
 */

#include <stddef.h>
#include <stdint.h>

struct err;

struct spool_file {
	int fd;
	uint64_t size;     /* bytes that came */
	uint64_t limit;    /* kept at most; 0 = all */
	uint64_t reserved; /* blocks are there up to this offset, ahead of a stream that is large */
	uint64_t punched;  /* end of the hole that was made so far; 0 = none */
};

#define SPOOL_FILE_INIT ((struct spool_file){ .fd = -1 })

/* Opens or makes <dir>/<output_ref> and finds its size (after a restart: all that came so far). */
int spool_open(int dir_fd, const char *output_ref, uint64_t limit, struct spool_file *ret, struct err *e);
void spool_done(struct spool_file *f);
/*
 * Moves what the pipe holds (at most max bytes) into the file. >0 bytes moved, 0 end of stream, −1 with errno: EAGAIN =
 * nothing there now, ENOSPC/EDQUOT = disk full (nothing is lost: it stays in the pipe).
 */
int64_t spool_take(struct spool_file *f, int pipe_fd, size_t max);
/* How much of a stream's beginning is kept whatever else comes. */
uint64_t spool_head(uint64_t limit);
/* The range [*from, *to) that was left out, empty when nothing was. */
void spool_hole(uint64_t size, uint64_t limit, uint64_t *ret_from, uint64_t *ret_to);
int spool_unlink(int dir_fd, const char *output_ref);

#endif
