#ifndef BAILIFF_SUPERVISOR_PROXY_HTTP_HEAD_H
#define BAILIFF_SUPERVISOR_PROXY_HTTP_HEAD_H

/*
 * The head of an HTTP/1 request, parsed strictly: anything that two parsers could read in two ways (two lengths, a
 * length and chunks, folded lines, bare line feeds, two hosts) is rejected. Pure: bytes in, struct out.
 */

#include "supervisor/proxy/connect_target.h"

struct buf;

#define HTTP_HEAD_MAX (32u * 1024)
#define HTTP_HEADERS_MAX 128u
#define HTTP_HEADERS_MANY "too many headers" /* the reason for PARSED_BAD with more headers than that */

enum http_form { HTTP_ORIGIN, HTTP_ABSOLUTE, HTTP_CONNECT };
enum http_body_kind { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED };

struct http_head {
	enum http_form form;
	struct connect_target target; /* ABSOLUTE, CONNECT: from the request line */
	bool has_host;
	struct connect_target host; /* from the Host header; port 0 = not given */
	enum http_body_kind body;
	uint64_t length;                      /* BODY_LENGTH */
	size_t len;                           /* length of the head, including its empty line */
	size_t method_len, path_at, path_len; /* in the request line; path: from its first '/', may be empty */
	unsigned minor;                       /* HTTP/1.minor */
};

/* With PARSED_BAD, *ret_why is the reason (a static string). */
enum parsed http_head_parse(const char *p, size_t n, struct http_head *ret, const char **ret_why);
/* A header to insert; it replaces headers of the same name. */
struct http_extra {
	const char *name, *value;
};
/*
 * Writes the request as the server expects it: origin form, without headers for proxies. `close`: adds Connection:
 * close.
 */
void http_head_forward(const char *p, const struct http_head *h, bool close, const struct http_extra *extra,
		       struct buf *out);

/* ---- where the body ends ---- */

struct http_body {
	enum http_body_kind kind;
	uint64_t left; /* bytes left of the length or of the chunk */
	int state;
	unsigned line; /* bytes of the current line */
	bool empty_line, seen_cr;
	bool done, bad;
};

void http_body_begin(struct http_body *b, const struct http_head *h);
/* Returns how many of the n bytes belong to the body; may set `done` or `bad`. */
size_t http_body_take(struct http_body *b, const char *p, size_t n);
/*
 * Like http_body_take, and appends the content to `data`. More than `most` bytes there set `bad` (`data` is then one
 * byte longer than `most`).
 */
size_t http_body_read(struct http_body *b, const char *p, size_t n, struct buf *data, size_t most);

/* ---- responses ---- */

/*
 * The head of a server's response. It is relayed unchanged except for one header, Connection: close. The proxy asks the
 * server to close after this response, but not every server says so in its response; a client that does not see the
 * header would send its next request into a closing connection and get no response. Pure: bytes in, bytes out.
 */

/*
 * PARSED_OK: the first *ret_len bytes are a head; *ret_interim: another head follows (100 Continue and similar).
 * PARSED_BAD: not HTTP/1, or a head that is too long; relay it unchanged.
 */
enum parsed http_response_parse(const char *p, size_t n, size_t *ret_len, bool *ret_interim);
/* Appends the same head with Connection: close. */
void http_response_forward(const char *p, size_t len, struct buf *out);

#endif
