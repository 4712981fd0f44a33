#ifndef BAILIFF_GATEWAY_HTTP_REQUEST_H
#define BAILIFF_GATEWAY_HTTP_REQUEST_H

/*
 * One HTTP/1 request, built incrementally from bytes. Pure: no descriptors and no clock, so that it can be fuzzed.
 *
 * The head is parsed by the proxy's strict parser (supervisor/proxy/http_head.h), which rejects whatever two programs
 * could interpret differently. This module adds limits, headers by name, and the body without its framing.
 */

#include "runtime/base/buf.h"
#include "supervisor/proxy/http_head.h"

#define HTTP_BODY_LONG "the body is too long"

enum http_request_state {
	HTTP_REQUEST_MORE, /* bytes are missing */
	HTTP_REQUEST_DONE,
	HTTP_REQUEST_BAD, /* reply with `status` and `why`, then close: the rest of the input cannot be parsed */
};

struct http_request {
	struct buf head;         /* as received, with its empty line */
	struct http_head parsed; /* valid if `have_head` */
	bool have_head;
	struct http_body framing;
	struct buf body;
	size_t body_max;
	char *method, *path; /* path: without the query; not decoded */
	unsigned status;
	const char *why; /* static */
};

void http_request_init(struct http_request *r, size_t body_max);
void http_request_done(struct http_request *r);
/*
 * Consumes the bytes that belong to this request; *ret_used is their number. Must not be called again after DONE or
 * BAD.
 */
enum http_request_state http_request_feed(struct http_request *r, const char *p, size_t n, size_t *ret_used);
/* Lowers the limit of the body, once the head is complete. False: the body is longer. */
bool http_request_limit_body(struct http_request *r, size_t max);

/*
 * Copies a header's value, trimmed, to `out` (empty if missing). Returns how many times the header occurs; the first
 * one is copied.
 */
unsigned http_request_header(const struct http_request *r, const char *name, struct buf *out);
/* The header Content-Type occurs once and is this type, ignoring case and parameters. */
bool http_request_has_type(const struct http_request *r, const char *type);
/*
 * The header is a comma-separated list with this word, ignoring case and parameters (";q=0.5"). Repeated headers form
 * one list.
 */
bool http_request_lists(const struct http_request *r, const char *name, const char *word);
/*
 * Copies the value of a parameter of the query, undecoded, to `out`. 1: found; 0: missing; −1: repeated, or it has
 * characters other than letters, digits, '.', '_' and '-', which ids and numbers do not need.
 */
int http_request_query(const struct http_request *r, const char *name, struct buf *out);
/* Copies the value of a cookie to `out`. False: it is missing or sent more than once. */
bool http_request_cookie(const struct http_request *r, const char *name, struct buf *out);
/* The connection must close after the response. */
bool http_request_wants_close(const struct http_request *r);

#endif
