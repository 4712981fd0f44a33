/*
 * A request's head and body against other readers of HTTP. What the strict parser accepts, libevent's evhttp reads in
 * the same way if it accepts it, too: method, target, version, the host and port of a URL, the value of every header,
 * and where the head ends. A request that two programs read differently is how requests are smuggled past a proxy. The
 * chunks of a body are compared with a second, simpler reader below.
 */

#include "runtime/base/buf.h"
#include "supervisor/gateway/http/http_request.h"

#include <event2/buffer.h>
#include <event2/http.h>
#include <event2/http_struct.h>
#include <event2/keyvalq_struct.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BODY_MAX 4096u

/* Of evhttp, exported but in no header; 1 = complete. A libevent that hides them leaves only the comparison of bodies.
 */
int evhttp_parse_firstline_(struct evhttp_request *req, struct evbuffer *in) __attribute__((weak));
int evhttp_parse_headers_(struct evhttp_request *req, struct evbuffer *in) __attribute__((weak));
#define READ_ALL 1

/* ---- heads ---- */

static void compare_line(const struct evhttp_request *q, const char *p, const struct http_head *h)
{
	const char *target = p + h->method_len + 1;
	size_t n = strcspn(target, " ");

	if (q->major != 1 || (unsigned)q->minor != h->minor || strlen(q->uri) != n || memcmp(q->uri, target, n) != 0)
		abort();
	/* evhttp has a number for each method that it knows. */
	if ((q->type == EVHTTP_REQ_GET && memcmp(p, "GET ", 4) != 0) ||
	    (q->type == EVHTTP_REQ_POST && memcmp(p, "POST ", 5) != 0) ||
	    (q->type == EVHTTP_REQ_HEAD && memcmp(p, "HEAD ", 5) != 0) ||
	    (q->type == EVHTTP_REQ_CONNECT) > (h->form == HTTP_CONNECT))
		abort();
}

/* The authority of a URL: the host that is checked must be the one that another program connects to. */
static void compare_url(const char *p, const struct http_head *h)
{
	char url[HTTP_HEAD_MAX];
	size_t n = strcspn(p + h->method_len + 1, " ");
	struct connect_target t;

	memcpy(url, p + h->method_len + 1, n);
	url[n] = '\0';
	struct evhttp_uri *u = evhttp_uri_parse(url);
	if (!u)
		return;
	const char *host = evhttp_uri_get_host(u);
	int port = evhttp_uri_get_port(u);
	if (!host || evhttp_uri_get_userinfo(u) || !connect_target_parse(host, strlen(host), 0, &t) ||
	    strcmp(t.host, h->target.host) != 0 || (port > 0 ? port : 80) != h->target.port)
		abort();
	evhttp_uri_free(u);
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static void compare_headers(const struct evhttp_request *q, const struct http_request *r)
{
	buf_auto struct buf mine = BUF_INIT;
	struct evkeyval *kv;

	for (kv = q->input_headers->tqh_first; kv; kv = kv->next.tqe_next) {
		const char *first = evhttp_find_header(q->input_headers, kv->key);
		size_t n = strlen(first);

		while (n && is_blank(*first))
			first++, n--;
		while (n && is_blank(first[n - 1]))
			n--;
		if (!http_request_header(r, kv->key, &mine) || mine.len != n || memcmp(buf_cstr(&mine), first, n) != 0)
			abort();
	}
	const char *length = evhttp_find_header(q->input_headers, "Content-Length"),
		   *coding = evhttp_find_header(q->input_headers, "Transfer-Encoding");
	if (!length != (r->parsed.body != HTTP_BODY_LENGTH) || !coding != (r->parsed.body != HTTP_BODY_CHUNKED) ||
	    (length && strtoull(length, NULL, 10) != r->parsed.length))
		abort();
}

/* `p` ends with a NUL. */
static void compare_head(const char *p, size_t size, const struct http_head *h)
{
	struct http_request r = { .parsed = *h, .have_head = true };
	struct evhttp_request *q = evhttp_request_new(NULL, NULL);
	struct evbuffer *in = evbuffer_new();
	bool same;

	evbuffer_add(in, p, size);
	q->kind = EVHTTP_REQUEST;
	if (h->form == HTTP_ABSOLUTE) { /* evhttp looks these up in its server, which does not exist here */
		compare_url(p, h);
		evbuffer_drain(in, (size_t)(strstr(p, "\r\n") + 2 - p));
		same = true;
	} else {
		same = evhttp_parse_firstline_(q, in) == READ_ALL;
		if (same)
			compare_line(q, p, h);
	}
	same = same && evhttp_parse_headers_(q, in) == READ_ALL;
	if (same && evbuffer_get_length(in) != size - h->len)
		abort();
	buf_append(&r.head, p, h->len);
	if (same)
		compare_headers(q, &r);
	buf_done(&r.head);
	evbuffer_free(in);
	evhttp_request_free(q);
}

/* ---- bodies ---- */

struct plain_body {
	bool done, limited; /* limited: something is longer than the strict parser accepts */
	size_t used;
	struct buf content;
};

/* The length of the line at p, which ends with CR LF and has no other control character; −1: none. */
static ssize_t plain_line(const char *p, size_t n)
{
	for (size_t i = 0; i + 1 < n; i++) {
		if (p[i] == '\r' && p[i + 1] == '\n')
			return (ssize_t)i;
		if ((unsigned char)p[i] < ' ')
			return -1;
	}
	return -1;
}

static void read_chunks(const char *p, size_t n, struct plain_body *b)
{
	size_t at = 0, size;
	ssize_t line;

	do {
		line = plain_line(p + at, n - at);
		if (line < 0)
			return;
		size_t digits = strspn(p + at, "0123456789abcdefABCDEF");
		if (!digits || digits > (size_t)line || (digits < (size_t)line && p[at + digits] != ';'))
			return;
		b->limited |= digits > 15 || (size_t)line - digits > 256;
		size = strtoull(p + at, NULL, 16);
		at += (size_t)line + 2;
		if (size && (n - at < 2 || size > n - at - 2 || memcmp(p + at + size, "\r\n", 2) != 0))
			return;
		buf_append(&b->content, p + at, size);
		at += size ? size + 2 : 0;
	} while (size);
	do {
		line = plain_line(p + at, n - at);
		if (line < 0)
			return;
		b->limited |= line > 1024;
		at += (size_t)line + 2;
	} while (line);
	b->done = true;
	b->used = at;
}

static void compare_body(const char *p, size_t n, const struct http_head *h, size_t step)
{
	struct plain_body plain = { .content = BUF_INIT };
	buf_auto struct buf mine = BUF_INIT;
	struct http_body b;
	size_t used = 0;

	http_body_begin(&b, h);
	while (used < n && !b.done && !b.bad) {
		size_t part = step < n - used ? step : n - used, took;

		took = http_body_read(&b, p + used, part, &mine, BODY_MAX);
		if (took > part || (!b.done && !b.bad && took != part))
			abort();
		used += took;
	}
	if (h->body == HTTP_BODY_CHUNKED) {
		read_chunks(p, n, &plain);
	} else if (h->body == HTTP_BODY_LENGTH && h->length <= n) {
		plain.done = true;
		plain.used = h->length;
		buf_append(&plain.content, p, h->length);
	} else {
		plain.done = h->body == HTTP_BODY_NONE;
	}
	plain.limited |= plain.content.len > BODY_MAX;
	if (b.done ? !plain.done || used != plain.used || mine.len != plain.content.len ||
			     (mine.len && memcmp(mine.data, plain.content.data, mine.len) != 0)
		   : plain.done && !plain.limited)
		abort();
	buf_done(&plain.content);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_head h;
	const char *why = "";

	if (size < 1)
		return 0;
	size_t n = size - 1;
	char *p = malloc(n + 1);
	if (!p)
		abort();
	memcpy(p, data + 1, n);
	p[n] = '\0';
	if (http_head_parse(p, n, &h, &why) == PARSED_OK) {
		if (evhttp_parse_firstline_ && evhttp_parse_headers_)
			compare_head(p, n, &h);
		compare_body(p + h.len, n - h.len, &h, 1u + data[0]);
	}
	free(p);
	return 0;
}
