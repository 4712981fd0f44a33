#ifndef BAILIFF_STORE_SPOOL_H
#define BAILIFF_STORE_SPOOL_H

/*
 * Spool files: one for each output stream, named after its output ref. The stream is moved with splice(2), never
 * through memory, so a killed runtime loses nothing: the size of the file is the number of bytes received. Not
 * O_APPEND, which splice does not support.
 *
 * Of a stream longer than the limit the first three quarters of the limit and the last quarter are kept. The bytes
 * between them still count in the size but are never read again, and a hole is punched there.
 */

#include <stddef.h>
#include <stdint.h>

struct err;

struct spool_file {
	int fd;
	uint64_t size;    /* bytes received */
	uint64_t limit;   /* bytes to keep; 0 = all */
	uint64_t punched; /* end of the hole so far; 0 = none */
};

#define SPOOL_FILE_INIT ((struct spool_file){ .fd = -1 })

/* Opens or creates <dir>/<output_ref>; after a restart its size is what was received before. */
int spool_open(int dir_fd, const char *output_ref, uint64_t limit, struct spool_file *ret, struct err *e);
void spool_done(struct spool_file *f);
/*
 * Moves at most max bytes from the pipe to the file. >0 bytes moved, 0 end of stream, −1 with errno: EAGAIN = the pipe
 * is empty, ENOSPC or EDQUOT = the disk is full (the bytes stay in the pipe).
 */
int64_t spool_take(struct spool_file *f, int pipe_fd, size_t max);
/* How many bytes at the beginning of a stream are always kept. */
uint64_t spool_head(uint64_t limit);
/* The range [*from, *to) that is not kept; empty if everything is. */
void spool_hole(uint64_t size, uint64_t limit, uint64_t *ret_from, uint64_t *ret_to);
int spool_unlink(int dir_fd, const char *output_ref);

#endif
