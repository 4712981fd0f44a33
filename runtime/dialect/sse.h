#ifndef BAILIFF_DIALECT_SSE_H
#define BAILIFF_DIALECT_SSE_H

/*
 * Server-sent events from bytes that arrive in pieces, split anywhere. Lines end with LF, CRLF or CR; comments, ids,
 * retry times and unknown fields are skipped; the data lines of an event are joined with LF.
 *
 * An event whose data, or a line that, is longer than `max` bytes is skipped and sets `too_large`.
 */

#include "runtime/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct sse {
	size_t max;
	struct buf line; /* unfinished */
	struct buf data; /* of the event that is not complete yet */
	bool has_data;
	bool skip_line, skip_event; /* too large */
	bool skip_lf;               /* the last byte was the CR that ended a line */
	bool started;               /* the first line was read; a byte order mark is no longer skipped */
	bool too_large;             /* at least one event was skipped */
};

/* `data` is NUL-terminated and valid during the call. */
typedef void sse_event_fn(void *ctx, const char *data, size_t n);

void sse_init(struct sse *s, size_t max);
void sse_done(struct sse *s);
void sse_feed(struct sse *s, const void *p, size_t n, sse_event_fn *fn, void *ctx);
/* End of the stream: an event that lacks only its line ends is delivered, too. Its data may be truncated. */
void sse_finish(struct sse *s, sse_event_fn *fn, void *ctx);

#endif
