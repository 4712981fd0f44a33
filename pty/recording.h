#ifndef BAILIFF_PTY_RECORDING_H
#define BAILIFF_PTY_RECORDING_H

/*
 * Terminal recordings as asciicast version 2: a line with a JSON object (the header), then a line for each event, a
 * JSON array [seconds since the start, code, data] with code "o" (output), "i" (input), "r" (resize, "COLSxROWS") or
 * "m" (a marker).
 *
 * struct recording writes one from pieces of output and their times. JSON is UTF-8 only, so a character that is split
 * between two pieces is written with the second, and invalid bytes become U+FFFD.
 *
 * recording_parse_* read one line by line. The input is untrusted; errors name the line.
 */

#include "runtime/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct recording_header {
	unsigned cols, rows;
	uint64_t timestamp_s;        /* start, seconds since 1970; 0 = unknown */
	double duration_s;           /* 0 = unknown */
	const char *command, *title; /* or NULL */
	const char *term, *shell;    /* environment variables, or NULL */
};

struct recording {
	uint64_t start_us, last_us;
	char cut[4]; /* the first bytes of a split character */
	size_t ncut;
};

/* All functions below append complete lines to `out`. Times that go backwards are replaced with the previous one. */
void recording_begin(struct recording *r, const struct recording_header *h, uint64_t start_us, struct buf *out);
void recording_output(struct recording *r, uint64_t at_us, const void *p, size_t n, struct buf *out);
void recording_resize(struct recording *r, uint64_t at_us, unsigned rows, unsigned cols, struct buf *out);
/* Writes the rest of a split character. */
void recording_end(struct recording *r, struct buf *out);

struct recording_event {
	uint64_t at_us;      /* since the start */
	char code;           /* 'o', 'i', 'r', 'm', or another one to ignore */
	unsigned rows, cols; /* of 'r' */
	struct buf data;     /* bytes; NUL-terminated like every buf, but may contain NULs */
};
void recording_event_done(struct recording_event *ev);

#define RECORDING_LINE_MAX (8u * 1024 * 1024)
/* Strings of *ret are NULL or owned by the caller; free them with recording_header_free. */
int recording_parse_header(const char *line, size_t n, struct recording_header *ret, struct err *e);
void recording_header_free(struct recording_header *h);
/* Resets and fills `ret->data`; the rest of *ret is unchanged on failure. Returns 1 for an empty line. */
int recording_parse_event(const char *line, size_t n, struct recording_event *ret, struct err *e);

/*
 * How long a player waits. Pauses longer than idle_us are shortened to it (0 = no limit); speed 2 halves all pauses.
 * `at_us` can start at any value; the first call does not wait.
 */
struct recording_pace {
	double speed;
	uint64_t idle_us;
	uint64_t last_us;
	bool begun;
};
uint64_t recording_pause(struct recording_pace *p, uint64_t at_us);

#endif
