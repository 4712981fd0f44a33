#ifndef BAILIFF_GATEWAY_HTTP_CONSOLE_REPLY_H
#define BAILIFF_GATEWAY_HTTP_CONSOLE_REPLY_H

/* The JSON of /api/: bodies of requests, results, and errors in the shape of the daemon's. */

#include "runtime/base/jscan.h"

#include <jansson.h>

struct http_exchange;

/* The body as an object, or NULL after an error was sent. An empty body is an empty object. */
json_t *console_reply_body(struct http_exchange *x);
/* {"error":{"code","message"}} */
void console_reply_error(struct http_exchange *x, unsigned status, const char *code, const char *message);
/* {key:value} */
void console_reply_raw(struct http_exchange *x, unsigned status, const char *key, struct jval value);

#endif
