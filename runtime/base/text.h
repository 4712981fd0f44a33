#ifndef BAILIFF_BASE_TEXT_H
#define BAILIFF_BASE_TEXT_H

/* UTF-8, base64, durations, sizes, globs, and text that is safe for a terminal. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

/* The length of the first character of s; 0 if it is not complete, shortest-form UTF-8. */
size_t text_utf8_len(const char *s, size_t n);
bool text_utf8_valid(const char *s, size_t n);
/* The code point of a character of len bytes. */
unsigned text_utf8_code(const char *s, size_t len);
/* Writes a code point as UTF-8; returns the number of bytes. */
size_t text_utf8_encode(uint32_t c, char out[4]);
/* The longest prefix of at most n bytes that does not split a character. */
size_t text_utf8_cut(const char *s, size_t n);
/*
 * Appends the text or, if it is longer than about `most` bytes, both ends and the size of the omitted middle. A person
 * who approves a text must not mistake its beginning for the whole, and padding must not hide its end.
 */
void text_ends(const char *s, size_t n, size_t most, struct buf *out);

void text_base64_encode(const void *p, size_t n, struct buf *out);
int text_base64_decode(const char *s, size_t n, struct buf *out); /* −1 if it is not base64 */

/* "30s" "500ms" "5m" "2h" "1d"; a bare number is seconds. */
int text_duration_ms(const char *s, uint64_t *ret_ms, struct err *e);
/* "512M" "64KiB" "1G" (powers of 1024); a bare number is bytes. */
int text_size_bytes(const char *s, uint64_t *ret_bytes, struct err *e);
/* Digits only. */
int text_count(const char *s, uint64_t *ret, struct err *e);
/* "1.5" → 1500; at most three digits after the point. */
int text_thousandths(const char *s, uint64_t *ret, struct err *e);
void text_format_thousandths(uint64_t v, char out[32]); /* "1.5", "2" */
void text_format_size(uint64_t bytes, char out[16]);    /* "1.5M" */
void text_format_duration(uint64_t ms, char out[16]);   /* "1.2s", "3m05s" */

/* '*' any run, '?' one character; used for event types ("process.*"). */
bool text_glob(const char *pattern, const char *s);
/* Whether s is a valid name of an HTTP header. */
bool text_http_token(const char *s);

/*
 * Appends s without control sequences or invisible characters: tab and newline stay; other control characters (C0, C1,
 * DEL) and bytes that are not UTF-8 become a visible \xNN; characters that change the writing direction, other line
 * ends, zero-width characters and tags become \uNNNN or \UNNNNNNNN. Joiners stay where a script or an emoji needs them.
 */
void text_sanitize(const char *s, size_t n, struct buf *out);
/*
 * The same for text that comes in pieces, cut anywhere: an incomplete character waits for the rest, and whether a
 * joiner stays depends on the end of the piece before.
 */
#define TEXT_STREAM_CONTEXT 7 /* bytes on which a character depends: a variation selector and what it is for */
struct text_stream {
	char bytes[TEXT_STREAM_CONTEXT + 4]; /* private */
	size_t shown, n;                     /* private: of `bytes`, those that are appended already, and all */
};
void text_stream_feed(struct text_stream *t, const char *s, size_t n, struct buf *out);
/* At the end of input: appends an incomplete character. */
void text_stream_end(struct text_stream *t, struct buf *out);
bool text_stream_waits(const struct text_stream *t); /* there is one */
/* The same for text that must stay on one line, such as names: newline and tab become \n and \t. */
void text_sanitize_line(const char *s, size_t n, struct buf *out);
/* The same for JSON, which stays equivalent: such characters become \u escapes. ASCII except for DEL stays. */
void text_json_visible(const char *s, size_t n, struct buf *out);

int text_signal_number(const char *name); /* "TERM", "SIGTERM", "15"; −1 if unknown */
const char *text_signal_name(int sig);    /* "TERM"; "RTMIN+1"; never NULL */

#endif
