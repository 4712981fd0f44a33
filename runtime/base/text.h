#ifndef BAILIFF_BASE_TEXT_H
#define BAILIFF_BASE_TEXT_H

/* Texts that people and protocols write: UTF-8, base64, durations, sizes, globs, and what a terminal may be shown. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

/* The length of the character that s starts with; 0 if these bytes are no (complete, shortest-form) UTF-8. */
size_t text_utf8_len(const char *s, size_t n);
bool text_utf8_valid(const char *s, size_t n);
/* The number of a character whose UTF-8 is these len bytes. */
unsigned text_utf8_code(const char *s, size_t len);
/* The longest prefix of at most n bytes that does not cut a character in two (for previews). */
size_t text_utf8_cut(const char *s, size_t n);
/*
 * All of it, or of what is longer about so many bytes: both ends, and how much lies between them. Whoever is shown a
 * text to judge must not take its beginning for the whole, and padding would hide whatever follows it.
 */
void text_ends(const char *s, size_t n, size_t most, struct buf *out);

void text_base64_encode(const void *p, size_t n, struct buf *out);
int text_base64_decode(const char *s, size_t n, struct buf *out); /* −1 if it is not base64 */

/* "30s" "500ms" "5m" "2h" "1d"; a bare number is seconds. */
int text_duration_ms(const char *s, uint64_t *ret_ms, struct err *e);
/* "512M" "64KiB" "1G" (powers of 1024); a bare number is bytes. */
int text_size_bytes(const char *s, uint64_t *ret_bytes, struct err *e);
/* "1.5" → 1500; at most three digits count after the point. */
int text_thousandths(const char *s, uint64_t *ret, struct err *e);
void text_format_thousandths(uint64_t v, char out[32]); /* "1.5", "2" */
void text_format_size(uint64_t bytes, char out[16]);    /* "1.5M" */
void text_format_duration(uint64_t ms, char out[16]);   /* "1.2s", "3m05s" */

/* '*' any run, '?' one character; used for event types ("process.*"). */
bool text_glob(const char *pattern, const char *s);
/* What the name of an HTTP header is made of. */
bool text_http_token(const char *s);

/*
 * Appends s so that no control sequence of it reaches a terminal and nothing in it is hidden from a reader: tab and
 * newline stay, every other control character (C0, C1, DEL, and bytes that are not UTF-8) becomes a visible \xNN;
 * characters that change the direction of writing, other line ends, zero-width characters and tags become \uNNNN or
 * \UNNNNNNNN. Joiners stay where a script or an emoji needs them.
 */
void text_sanitize(const char *s, size_t n, struct buf *out);
/* The same for names and whatever else must not begin a line of its own: newline and tab become \n and \t. */
void text_sanitize_line(const char *s, size_t n, struct buf *out);
/* The same for JSON, which stays the same JSON: what is not to be shown becomes a \u escape. ASCII but DEL is left
 * alone. */
void text_json_visible(const char *s, size_t n, struct buf *out);

int text_signal_number(const char *name); /* "TERM", "SIGTERM", "15"; −1 if unknown */
const char *text_signal_name(int sig);    /* "TERM"; "RTMIN+1"; never NULL */

#endif
