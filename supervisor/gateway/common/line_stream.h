#ifndef BAILIFF_GATEWAY_LINE_STREAM_H
#define BAILIFF_GATEWAY_LINE_STREAM_H

/*
 * Lines from one descriptor and to another (stdin and stdout, or one socket), bounded in both directions.
 *
 * A line longer than `max_line` is announced and skipped. Nothing is read while more than a few MiB wait to be written,
 * nor while `ops.busy` returns true: a flooding peer is slowed down by its own pipe. Call line_stream_wake when `busy`
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
	bool (*busy)(void *ctx);                               /* true: read no further now */
	void (*end)(void *ctx);     /* end of file, or the reader is gone; once, from the loop. No more lines follow */
	void (*drained)(void *ctx); /* or NULL: line_stream_is_behind may have ended */
};

struct line_stream *line_stream_new(struct event_base *base, int in_fd, int out_fd, size_t max_line,
				    const struct line_stream_ops *ops, void *ctx);
/* Does not close the descriptors. Not from within `line`. */
void line_stream_free(struct line_stream *s);
/* `bytes` end with a newline. Kept until they can be written. */
void line_stream_write(struct line_stream *s, const char *bytes, size_t n);
void line_stream_wake(struct line_stream *s);
/* The peer reads slowly or not at all: postpone what is not urgent. `ops.drained` reports the end. */
bool line_stream_is_behind(const struct line_stream *s);
/* … and so much is buffered that nothing more is read from it. */
bool line_stream_full(const struct line_stream *s);
/* Whether everything was written. */
bool line_stream_flushed(const struct line_stream *s);

#endif
