#ifndef BAILIFF_PTY_RECORDING_H
#define BAILIFF_PTY_RECORDING_H

/*
 * Terminal recordings as asciicast version 2: a line with a JSON object (the header), then a line for each event, a
 * JSON array [seconds since the beginning, code, data] with code "o" (output), "i" (input), "r" (resize, "COLSxROWS")
 * or "m" (a marker).
 *
 * struct recording writes one from pieces of output and their times. JSON holds only UTF-8, so a character that two
 * pieces share goes whole into the second, and bytes that are none become U+FFFD.
 *
 * recording_parse_* read one again, line by line, from wherever it came: any bytes, errors name the line.
 */

#include "runtime/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct recording_header {
	unsigned cols, rows;
	uint64_t timestamp_s;        /* when it began, since 1970; 0 = not said */
	double duration_s;           /* 0 = not said */
	const char *command, *title; /* or NULL */
	const char *term, *shell;    /* of the environment; or NULL */
};

struct recording {
	uint64_t start_us, last_us;
	char cut[4]; /* the beginning of a character */
	size_t ncut;
};

/* Everything below appends complete lines to `out`. Times that go backwards are taken as the last one. */
void recording_begin(struct recording *r, const struct recording_header *h, uint64_t start_us, struct buf *out);
void recording_output(struct recording *r, uint64_t at_us, const void *p, size_t n, struct buf *out);
void recording_input(struct recording *r, uint64_t at_us, const void *p, size_t n, struct buf *out);
void recording_resize(struct recording *r, uint64_t at_us, unsigned rows, unsigned cols, struct buf *out);
void recording_marker(struct recording *r, uint64_t at_us, const char *label, struct buf *out);
/* What is left of a cut character. */
void recording_end(struct recording *r, struct buf *out);

struct recording_event {
	uint64_t at_us;      /* since the beginning */
	char code;           /* 'o', 'i', 'r', 'm', or one that is to be ignored */
	unsigned rows, cols; /* of 'r' */
	struct buf data;     /* bytes; NUL-terminated as every buf, but may hold NULs */
};
void recording_event_done(struct recording_event *ev);

#define RECORDING_LINE_MAX (8u * 1024 * 1024)
/* Strings of *ret are NULL or to be freed with recording_header_free. */
int recording_parse_header(const char *line, size_t n, struct recording_header *ret, struct err *e);
void recording_header_free(struct recording_header *h);
/* `ret->data` is reset and filled; on failure *ret is as it was, but for data. 1 = an empty line, nothing to play. */
int recording_parse_event(const char *line, size_t n, struct recording_event *ret, struct err *e);

/*
 * How long a player waits. Pauses longer than idle_us are shortened to it (0 = no limit); speed 2 halves all pauses.
 * `at_us` may have any beginning; the first call waits for nothing.
 */
struct recording_pace {
	double speed;
	uint64_t idle_us;
	uint64_t last_us;
	bool begun;
};
uint64_t recording_pause(struct recording_pace *p, uint64_t at_us);

#endif
