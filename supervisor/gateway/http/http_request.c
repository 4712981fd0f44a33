#include "supervisor/gateway/http/http_request.h"

#include "runtime/base/mem.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

void http_request_init(struct http_request *r, size_t body_max) { *r = (struct http_request){ .body_max = body_max }; }

void http_request_done(struct http_request *r)
{
	buf_done(&r->head);
	buf_done(&r->body);
	free(r->method);
	free(r->path);
	*r = (struct http_request){ 0 };
}

static enum http_request_state reject_head(struct http_request *r, unsigned status, const char *why)
{
	r->status = status;
	r->why = why;
	return HTTP_REQUEST_BAD;
}

static enum http_request_state take_head(struct http_request *r)
{
	const struct http_head *h = &r->parsed;
	const char *why = NULL;

	switch (http_head_parse(r->head.data, r->head.len, &r->parsed, &why)) {
	case PARSED_MORE: return HTTP_REQUEST_MORE;
	case PARSED_BAD:
		return reject_head(r, r->head.len >= HTTP_HEAD_MAX || strcmp(why, HTTP_HEADERS_MANY) == 0 ? 431 : 400,
				   why);
	case PARSED_OK: break;
	}
	if (h->form == HTTP_CONNECT)
		return reject_head(r, 400, "not a proxy: CONNECT is not supported");
	if (h->body == HTTP_BODY_LENGTH && h->length > r->body_max)
		return reject_head(r, 413, HTTP_BODY_LONG);
	const char *path = r->head.data + h->path_at;
	size_t n = h->path_len;
	const char *query = memchr(path, '?', n), *fragment = memchr(path, '#', n);
	if (query)
		n = (size_t)(query - path);
	if (fragment && (size_t)(fragment - path) < n)
		n = (size_t)(fragment - path);
	r->method = mem_strndup(r->head.data, h->method_len);
	r->path = mem_strndup(n ? path : "/", n ? n : 1); /* http://HOST has none */
	r->have_head = true;
	http_body_begin(&r->framing, h);
	return HTTP_REQUEST_DONE;
}

/* Collects the head up to its empty line. Bytes after it belong to the body and are left to the caller. */
static enum http_request_state feed_head(struct http_request *r, const char *p, size_t n, size_t *used)
{
	size_t before = r->head.len;
	size_t room = HTTP_HEAD_MAX > before ? HTTP_HEAD_MAX - before : 0;

	buf_append(&r->head, p, n < room ? n : room);
	*used = r->head.len - before;
	/*
	 * Without a new line feed the head cannot be complete. This keeps a client that sends single bytes from making
	 * us parse the head again for each.
	 */
	if (r->head.len < HTTP_HEAD_MAX && !memchr(r->head.data + before, '\n', *used))
		return HTTP_REQUEST_MORE;
	enum http_request_state s = take_head(r);
	if (s == HTTP_REQUEST_DONE) {
		*used = r->parsed.len - before;
		r->head.len = r->parsed.len;
		r->head.data[r->head.len] = '\0';
	}
	return s;
}

enum http_request_state http_request_feed(struct http_request *r, const char *p, size_t n, size_t *ret_used)
{
	size_t used = 0;

	*ret_used = 0;
	if (!r->have_head) {
		enum http_request_state s = feed_head(r, p, n, &used);
		*ret_used = used;
		if (s != HTTP_REQUEST_DONE)
			return s;
	}
	used += http_body_read(&r->framing, p + used, n - used, &r->body, r->body_max);
	*ret_used = used;
	if (r->framing.bad)
		return reject_head(r, r->body.len > r->body_max ? 413 : 400,
				   r->body.len > r->body_max ? HTTP_BODY_LONG : "malformed chunked body");
	return r->framing.done ? HTTP_REQUEST_DONE : HTTP_REQUEST_MORE;
}

bool http_request_limit_body(struct http_request *r, size_t max)
{
	r->body_max = max < r->body_max ? max : r->body_max;
	return r->body.len <= max && (r->parsed.body != HTTP_BODY_LENGTH || r->parsed.length <= max);
}

/* The next header line at *at; false at the empty line. The parser has checked that each line has a colon. */
static bool next_header(const struct http_request *r, size_t *at, const char **name, size_t *name_len,
			const char **value, size_t *value_len)
{
	const char *line = r->head.data + *at;
	const char *end = memchr(line, '\r', r->head.len - *at);

	if (!end || end == line)
		return false;
	*at += (size_t)(end - line) + 2;
	const char *colon = memchr(line, ':', (size_t)(end - line));
	*name = line;
	*name_len = (size_t)(colon - line);
	const char *v = colon + 1;
	while (v < end && (*v == ' ' || *v == '\t'))
		v++;
	while (end > v && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*value = v;
	*value_len = (size_t)(end - v);
	return true;
}

static size_t first_header(const struct http_request *r)
{
	const char *end = memchr(r->head.data, '\r', r->head.len);

	return (size_t)(end - r->head.data) + 2;
}

unsigned http_request_header(const struct http_request *r, const char *name, struct buf *out)
{
	const char *k, *v;
	size_t kn, vn, want = strlen(name);
	unsigned found = 0;

	buf_reset(out);
	if (!r->have_head)
		return 0;
	for (size_t at = first_header(r); next_header(r, &at, &k, &kn, &v, &vn);) {
		if (kn != want || strncasecmp(k, name, kn) != 0)
			continue;
		if (found++ == 0)
			buf_append(out, v, vn);
	}
	return found;
}

bool http_request_has_type(const struct http_request *r, const char *type)
{
	buf_auto struct buf value = BUF_INIT;
	const size_t want = strlen(type);

	if (http_request_header(r, "Content-Type", &value) != 1 || value.len < want ||
	    strncasecmp(value.data, type, want) != 0)
		return false;
	const char *rest = buf_cstr(&value) + want;
	rest += strspn(rest, " \t");
	return !*rest || *rest == ';';
}

static bool list_has(const char *v, size_t n, const char *word)
{
	size_t want = strlen(word);

	for (size_t at = 0; at <= n;) {
		const char *comma = memchr(v + at, ',', n - at);
		size_t end = comma ? (size_t)(comma - v) : n;
		const char *semicolon = memchr(v + at, ';', end - at);
		size_t from = at, to = semicolon ? (size_t)(semicolon - v) : end;
		while (from < to && (v[from] == ' ' || v[from] == '\t'))
			from++;
		while (to > from && (v[to - 1] == ' ' || v[to - 1] == '\t'))
			to--;
		if (to - from == want && strncasecmp(v + from, word, want) == 0)
			return true;
		at = end + 1;
	}
	return false;
}

bool http_request_lists(const struct http_request *r, const char *name, const char *word)
{
	const char *k, *v;
	size_t kn, vn, want = strlen(name);

	if (!r->have_head)
		return false;
	for (size_t at = first_header(r); next_header(r, &at, &k, &kn, &v, &vn);)
		if (kn == want && strncasecmp(k, name, kn) == 0 && list_has(v, vn, word))
			return true;
	return false;
}

/* NAME=VALUE parts between separators: copies the first value. Returns how many parts have the name. */
static unsigned find_pair(const char *p, size_t n, char separator, const char *name, struct buf *out)
{
	size_t want = strlen(name);
	unsigned found = 0;

	buf_reset(out);
	for (size_t at = 0; at < n;) {
		const char *end = memchr(p + at, separator, n - at);
		size_t to = end ? (size_t)(end - p) : n;

		while (at < to && p[at] == ' ')
			at++;
		if (to - at > want && memcmp(p + at, name, want) == 0 && p[at + want] == '=' && found++ == 0)
			buf_append(out, p + at + want + 1, to - at - want - 1);
		at = to + 1;
	}
	return found;
}

int http_request_query(const struct http_request *r, const char *name, struct buf *out)
{
	const char *path = r->head.data + r->parsed.path_at;
	const char *query = r->have_head ? memchr(path, '?', r->parsed.path_len) : NULL;
	unsigned found;

	buf_reset(out);
	if (!query)
		return 0;
	query++;
	found = find_pair(query, r->parsed.path_len - (size_t)(query - path), '&', name, out);
	for (size_t i = 0; i < out->len; i++)
		if (!isalnum((unsigned char)out->data[i]) && !strchr("._-", out->data[i]))
			return -1;
	return found > 1 ? -1 : (int)found;
}

bool http_request_cookie(const struct http_request *r, const char *name, struct buf *out)
{
	buf_auto struct buf all = BUF_INIT;

	buf_reset(out);
	return http_request_header(r, "Cookie", &all) == 1 && all.len &&
	       find_pair(all.data, all.len, ';', name, out) == 1;
}

bool http_request_wants_close(const struct http_request *r)
{
	if (http_request_lists(r, "Connection", "close"))
		return true;
	return !r->parsed.minor && !http_request_lists(r, "Connection", "keep-alive");
}
