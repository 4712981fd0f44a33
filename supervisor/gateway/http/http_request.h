#ifndef BAILIFF_GATEWAY_HTTP_REQUEST_H
#define BAILIFF_GATEWAY_HTTP_REQUEST_H

/*
 * One HTTP/1 request, built from bytes as they come. Pure: no descriptors, no clock, so that a fuzzer can hold it.
 *
 * The head is read by the proxy's strict parser (supervisor/proxy/http_head.h): what two programs could read in two
 * ways is refused. On top of it come the limits, the headers by name and the body's bytes without their framing.
 */

#include "runtime/base/buf.h"
#include "supervisor/proxy/http_head.h"

enum http_request_state {
	HTTP_REQUEST_MORE, /* bytes are missing */
	HTTP_REQUEST_DONE,
	HTTP_REQUEST_BAD, /* `status` and `why` say what to answer; nothing can follow on this connection */
};

struct http_request {
	struct buf head;         /* as it came, with its empty line */
	struct http_head parsed; /* once `have_head` */
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
/* Takes what belongs to this request of the n bytes; *ret_used says how many that were. Not called again once done or
 * bad. */
enum http_request_state http_request_feed(struct http_request *r, const char *p, size_t n, size_t *ret_used);
/* Something of it came already: a half request, unlike a connection that rests. */
bool http_request_begun(const struct http_request *r);

/* A header's value without blanks around it: a copy in `out` (empty when it is not there). Returns how often the header
 * came. */
unsigned http_request_header(const struct http_request *r, const char *name, struct buf *out);
/* The header is a list that has this word, in any spelling of case; parameters (";q=0.5") are left out. Several headers
 * are one list. */
bool http_request_lists(const struct http_request *r, const char *name, const char *word);
/* The client would like the connection closed after the answer. */
bool http_request_wants_close(const struct http_request *r);

#endif
