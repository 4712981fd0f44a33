#ifndef BAILIFF_SUPERVISOR_PROXY_HTTP_HEAD_H
#define BAILIFF_SUPERVISOR_PROXY_HTTP_HEAD_H

/*
 * The head of an HTTP/1 request, read strictly: what two programs could read in two ways (two lengths, a length and
 * chunks, folded lines, bare line feeds, two hosts) is no request. Pure: bytes in, struct out.
 */

#include "supervisor/proxy/connect_target.h"

struct buf;

#define HTTP_HEAD_MAX (32u * 1024)
#define HTTP_HEADERS_MAX 128u
#define HTTP_HEADERS_MANY "too many headers" /* the reason given where there are more */

enum http_form { HTTP_ORIGIN, HTTP_ABSOLUTE, HTTP_CONNECT };
enum http_body_kind { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED };

struct http_head {
	enum http_form form;
	struct connect_target target; /* ABSOLUTE, CONNECT: of the request line */
	bool has_host;
	struct connect_target host; /* of the Host header; its port is 0 where none was given */
	enum http_body_kind body;
	uint64_t length;                      /* BODY_LENGTH */
	size_t len;                           /* of the head itself, with its empty line */
	size_t method_len, path_at, path_len; /* of the request line; path: from its first '/', may be empty */
	unsigned minor;                       /* HTTP/1.minor */
};

/* *ret_why is set (static) for PARSED_BAD. */
enum parsed http_head_parse(const char *p, size_t n, struct http_head *ret, const char **ret_why);
/* A header that is put in, instead of those of the same name. */
struct http_extra {
	const char *name, *value;
};
/* The same request for the server itself: origin form, without what is meant for proxies; `close`: the last one there.
 */
void http_head_forward(const char *p, const struct http_head *h, bool close, const struct http_extra *extra,
		       struct buf *out);

/* ---- the body: where it ends ---- */

struct http_body {
	enum http_body_kind kind;
	uint64_t left; /* of the length, or of the chunk */
	int state;
	unsigned line; /* bytes of the line at hand */
	bool empty_line, seen_cr;
	bool done, bad;
};

void http_body_begin(struct http_body *b, const struct http_head *h);
/* How many of the n bytes belong to it; `done` or `bad` may be set. */
size_t http_body_take(struct http_body *b, const char *p, size_t n);
/* The same, and what it carries is appended to `data`; more than `most` bytes there are bad (data is then one byte
 * longer). */
size_t http_body_read(struct http_body *b, const char *p, size_t n, struct buf *data, size_t most);

#endif
