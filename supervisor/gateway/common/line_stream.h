#ifndef BAILIFF_GATEWAY_LINE_STREAM_H
#define BAILIFF_GATEWAY_LINE_STREAM_H

/*
 * Lines from one descriptor and to another (stdin and stdout, or one socket), bounded in both directions.
 *
 * A line longer than `max_line` is reported and skipped. Reading stops while more than a few MiB wait to be written,
 * and while `ops.busy` returns true, so a flooding peer is throttled by its own pipe. Call line_stream_wake when `busy`
 * may have become false.
 */

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct event_base;
struct line_stream;

struct line_stream_ops {
	void (*line)(void *ctx, const char *line, size_t len); /* never empty or blank */
	void (*too_long)(void *ctx);                           /* the rest of that line is skipped */
	bool (*busy)(void *ctx);                               /* true: stop reading for now */
	void (*end)(void *ctx);     /* end of file, or no reader left; called once, from the loop. No line follows */
	void (*drained)(void *ctx); /* or NULL: line_stream_is_behind may have become false */
};

struct line_stream *line_stream_new(struct event_base *base, int in_fd, int out_fd, size_t max_line,
				    const struct line_stream_ops *ops, void *ctx);
/* Does not close the descriptors. Must not be called from `line`. */
void line_stream_free(struct line_stream *s);
/* `bytes` must end with a newline. Copied; buffered until they can be written. */
void line_stream_write(struct line_stream *s, const char *bytes, size_t n);
void line_stream_wake(struct line_stream *s);
/*
 * The peer reads slowly or not at all: defer messages that are not urgent. `ops.drained` reports when it has caught up.
 */
bool line_stream_is_behind(const struct line_stream *s);
/* So much is buffered that reading from the peer has stopped. */
bool line_stream_full(const struct line_stream *s);
/* All output has been written. */
bool line_stream_flushed(const struct line_stream *s);

#endif
