#ifndef BAILIFF_CLI_TERMINAL_LOG_H
#define BAILIFF_CLI_TERMINAL_LOG_H

/*
 * The output of a process's terminal from the event log: pieces of bytes, each with its time. Callbacks run during
 * terminal_log_read, in the order of the log; their arguments are valid only for the call. A callback that returns
 * false ends the reading without an error.
 */

#include "runtime/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli;
struct err;

struct terminal_log_start {
	unsigned rows, cols;
	uint64_t at_us;     /* since 1970 */
	struct buf command; /* one line */
};

struct terminal_log_fns {
	/* Called once, first. */
	bool (*start)(void *ctx, const struct terminal_log_start *s);
	/* n bytes were printed; or n = 0 and the terminal was resized. */
	bool (*piece)(void *ctx, uint64_t at_us, const char *bytes, size_t n, unsigned rows, unsigned cols);
	void *ctx;
};

/* Reads everything recorded so far, or until a callback returns false. ERR_STATE if the process has no terminal. */
int terminal_log_read(struct cli *c, const char *process_id, const struct terminal_log_fns *fns, struct err *e);

#endif
