#ifndef BAILIFF_SUPERVISOR_MODEL_RESPONSE_HEAD_H
#define BAILIFF_SUPERVISOR_MODEL_RESPONSE_HEAD_H

/*
 * Appends {"status":…,"headers":{…}} and a line feed: names in lower case, values of repeated headers joined by ", ".
 * Set-Cookie is left out: it is a credential. `lines` are the header lines. Returns whether the body is a stream of
 * server-sent events.
 */

#include <stdbool.h>

struct buf;

#define RESPONSE_HEAD_HEADERS_MAX 128 /* further ones are dropped */

bool response_head_json(long status, const char *lines, struct buf *out);

#endif
