#ifndef BAILIFF_DIALECT_HEADERS_H
#define BAILIFF_DIALECT_HEADERS_H

/*
 * What the headers of a response say, for all providers: {"name": "value"} with names in lower case, or NULL. Absolute
 * times are relative to the response's own date, so that no clock is needed.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "6m0s", "1.5s", "20 seconds", "250ms"; a bare number is seconds. False if the text starts with no number. */
bool headers_duration_ms(const char *text, uint64_t *ret_ms);
/* retry-after-ms, or retry-after (seconds or a date); 0 = not given. */
uint64_t headers_retry_after_ms(const json_t *headers);
/* [{"kind","limit","remaining","resetMs"}] of the rate limits, or NULL. */
json_t *headers_limits(const json_t *headers);
/* Copies text, cut to the space that there is and not inside a character. */
void headers_copy(char *ret, size_t cap, const char *text);
/* "" if there is none. */
void headers_request_id(const json_t *headers, char *ret, size_t cap);

#endif
