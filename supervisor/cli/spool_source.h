#ifndef BAILIFF_CLI_SPOOL_SOURCE_H
#define BAILIFF_CLI_SPOOL_SOURCE_H

/*
 * The spool file of a running process's stdout or stderr, of which the daemon passes a read-only descriptor
 * (open_output). Its size is the number of bytes that the process has printed, also those that no event cites yet. It
 * stays readable when the daemon restarts, which continues to write to the same file.
 */

#include "runtime/base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct remote;

struct spool_source {
	int fd;        /* −1 = not available: read_output is used instead */
	uint64_t kept; /* bytes at the beginning that can be read; later ones may be dropped (output limit) */
	bool requested, opening;
	/* The request was answered. */
	void (*opened)(void *ctx);
	void *ctx;
	struct remote *remote;
};

#define SPOOL_SOURCE_INIT ((struct spool_source){ .fd = -1 })

/* Requests the descriptor, only once. The struct must not move while `opening`. */
void spool_source_open(struct spool_source *s, const char *process_id, const char *stream);
/* How far it can be read now. */
uint64_t spool_source_end(const struct spool_source *s);
/*
 * Copies at most `length` bytes at `offset` to a pipe, without blocking and without a copy in memory; or appends them
 * to `data` if `pipe_fd` is −1. The number of bytes, or −1 with errno. Any failure but EAGAIN (the pipe is full), EPIPE
 * and EINTR closes the file, and read_output reports the reason.
 */
ssize_t spool_source_copy(struct spool_source *s, uint64_t offset, uint64_t length, int pipe_fd, struct buf *data);

#endif
