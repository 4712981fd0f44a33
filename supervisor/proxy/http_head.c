/*
 * Hand-written rather than llhttp. Debian 12 has no package of it (only node-llhttp, sources for Node.js), so it would
 * have to be vendored as 10,000 generated lines. And the point here is to reject what two parsers could read in two
 * ways (two lengths, a length and chunks, folded lines, bare line feeds, two hosts), which llhttp in part accepts for
 * compatibility. The parser is a pure function with fuzz targets (fuzz_proxy_http, fuzz_http_server); the gateway's
 * HTTP server uses it, too.
 */

#include "supervisor/proxy/http_head.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A range of bytes of the head. */
struct span {
	const char *p;
	size_t n;
};

static bool is_token(struct span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!((((unsigned char)s.p[i]) >= '0' && ((unsigned char)s.p[i]) <= '9') ||
		      (((unsigned char)s.p[i]) >= 'a' && ((unsigned char)s.p[i]) <= 'z') ||
		      (((unsigned char)s.p[i]) >= 'A' && ((unsigned char)s.p[i]) <= 'Z') ||
		      (((unsigned char)s.p[i]) && strchr("!#$%&'*+-.^_`|~", ((unsigned char)s.p[i])))))
			return false;
	return s.n > 0;
}

static bool span_equals(struct span s, const char *word)
{
	return s.n == strlen(word) && strncasecmp(s.p, word, s.n) == 0;
}

static struct span trim_span(struct span s)
{
	while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
		s.p++, s.n--;
	while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

/* Finds the empty line. Control characters other than tabs, and line endings other than CR LF, are invalid. */
static enum parsed find_end(const char *p, size_t n, size_t *ret_len, const char **ret_why)
{
	size_t most = n < HTTP_HEAD_MAX ? n : HTTP_HEAD_MAX;

	for (size_t i = 0; i < most; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c == '\n' || (c < ' ' && c != '\t' && c != '\r') || c == 0x7f) {
			*ret_why = "a control character in the head";
			return PARSED_BAD;
		}
		if (c != '\r')
			continue;
		if (i + 1 == most)
			break;
		if (p[i + 1] != '\n') {
			*ret_why = "malformed line ending";
			return PARSED_BAD;
		}
		i++;
		/* `i` is at the line feed; CR LF directly after it is the empty line. */
		if (most - i > 2 && p[i + 1] == '\r' && p[i + 2] == '\n') {
			*ret_len = i + 3;
			return PARSED_OK;
		}
	}
	if (n >= HTTP_HEAD_MAX) {
		*ret_why = "the head is too long";
		return PARSED_BAD;
	}
	return PARSED_MORE;
}

static bool parse_authority(struct http_head *h, struct span authority, uint16_t port)
{
	/* "user:password@host" makes one host look like another; rejected. */
	return !memchr(authority.p, '@', authority.n) &&
	       connect_target_parse(authority.p, authority.n, port, &h->target);
}

static const char *parse_request_line(struct http_head *h, const char *base, struct span line)
{
	const char *first = memchr(line.p, ' ', line.n);
	const char *second = first ? memchr(first + 1, ' ', line.n - (size_t)(first + 1 - line.p)) : NULL;

	if (!second || line.n - (size_t)(second + 1 - line.p) != 8)
		return "invalid request line";
	if (memcmp(second + 1, "HTTP/1.", 7) != 0 || (second[8] != '0' && second[8] != '1'))
		return "unsupported version: only HTTP/1.0 and HTTP/1.1 are";
	h->minor = second[8] == '1';
	h->method_len = (size_t)(first - line.p);
	if (!is_token((struct span){ line.p, h->method_len }))
		return "invalid method";
	struct span t = { first + 1, (size_t)(second - first) - 1 };
	for (size_t i = 0; i < t.n; i++)
		if ((unsigned char)t.p[i] <= ' ' || (unsigned char)t.p[i] >= 0x7f)
			return "invalid character in the URL";
	static const char scheme[] = "http://";
	const size_t skip = sizeof scheme - 1;
	if ((span_equals((struct span){ line.p, h->method_len }, "CONNECT"))) {
		h->form = HTTP_CONNECT;
		return parse_authority(h, t, 0) && h->target.port ? NULL : "CONNECT requires HOST:PORT";
	}
	if (t.n && t.p[0] == '/') {
		h->form = HTTP_ORIGIN;
		h->path_at = (size_t)(t.p - base);
		h->path_len = t.n;
		return NULL;
	}
	if (t.n < skip || strncasecmp(t.p, scheme, skip) != 0)
		return "unsupported request: only http:// URLs and CONNECT are";
	size_t n = skip;
	while (n < t.n && t.p[n] != '/' && t.p[n] != '?' && t.p[n] != '#')
		n++;
	h->form = HTTP_ABSOLUTE;
	h->path_at = (size_t)(t.p - base) + n;
	h->path_len = t.n - n;
	return parse_authority(h, (struct span){ t.p + skip, n - skip }, 80) ? NULL : "missing host in the URL";
}

static const char *read_length(struct http_head *h, struct span v)
{
	uint64_t n = 0;

	if (h->body != HTTP_BODY_NONE)
		return "conflicting body lengths";
	/* 18 digits fit into 64 bits, so the sum below cannot overflow. */
	if (v.n == 0 || v.n > 18)
		return "invalid Content-Length";
	for (size_t i = 0; i < v.n; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return "invalid Content-Length";
		n = n * 10 + (uint64_t)(v.p[i] - '0');
	}
	h->body = HTTP_BODY_LENGTH;
	h->length = n;
	return NULL;
}

static const char *read_header(struct http_head *h, struct span name, struct span value)
{
	if (span_equals(name, "host")) {
		if (h->has_host)
			return "more than one Host header";
		h->has_host = true;
		return connect_target_parse(value.p, value.n, 0, &h->host) ? NULL : "invalid Host header";
	}
	if (span_equals(name, "content-length"))
		return read_length(h, value);
	if (!span_equals(name, "transfer-encoding"))
		return NULL;
	if (h->body != HTTP_BODY_NONE)
		return "conflicting body lengths";
	if (!h->minor || !span_equals(value, "chunked"))
		return "unsupported Transfer-Encoding: only chunked is";
	h->body = HTTP_BODY_CHUNKED;
	return NULL;
}

/* The next line in [*at, len), without its line ending. */
static struct span next_line(const char *p, size_t len, size_t *at)
{
	const char *end = memchr(p + *at, '\r', len - *at);
	struct span line = { p + *at, (size_t)(end - (p + *at)) };

	*at += line.n + 2;
	return line;
}

enum parsed http_head_parse(const char *p, size_t n, struct http_head *ret, const char **ret_why)
{
	struct http_head h = { 0 };
	size_t at = 0;
	enum parsed r = find_end(p, n, &h.len, ret_why);

	if (r != PARSED_OK)
		return r;
	const char *why = parse_request_line(&h, p, next_line(p, h.len, &at));
	for (unsigned i = 0; !why; i++) {
		struct span line = next_line(p, h.len, &at), name, value;

		if (line.n == 0)
			break;
		const char *colon = memchr(line.p, ':', line.n);
		name = (struct span){ line.p, colon ? (size_t)(colon - line.p) : 0 };
		if (i >= HTTP_HEADERS_MAX || !is_token(name)) {
			why = i >= HTTP_HEADERS_MAX ? HTTP_HEADERS_MANY : "invalid header name";
			break;
		}
		value = trim_span((struct span){ colon + 1, line.n - name.n - 1 });
		why = read_header(&h, name, value);
	}
	if (!why && h.form == HTTP_CONNECT && h.body != HTTP_BODY_NONE)
		why = "CONNECT with a body";
	if (!why && h.minor && !h.has_host)
		why = "missing Host header";
	if (why) {
		*ret_why = why;
		return PARSED_BAD;
	}
	*ret = h;
	return PARSED_OK;
}

/*
 * Headers about this connection, not about the request. Upgrade and TE are among them: a protocol switch would end the
 * parsing of requests on this connection.
 */
static bool is_for_proxies(struct span name)
{
	static const char *const names[] = {
		"connection", "proxy-connection", "proxy-authorization", "proxy-authenticate", "keep-alive",
		"te",         "upgrade",          "http2-settings",
	};

	for (size_t i = 0; i < countof(names); i++)
		if (span_equals(name, names[i]))
			return true;
	return false;
}

void http_head_forward(const char *p, const struct http_head *h, bool close, const struct http_extra *extra,
		       struct buf *out)
{
	size_t at = 0;

	next_line(p, h->len, &at);
	buf_append(out, p, h->method_len);
	buf_str(out, h->path_len && p[h->path_at] == '/' ? " " : " /");
	/* A fragment is the client's own and must not be sent. */
	const char *fragment = memchr(p + h->path_at, '#', h->path_len);
	buf_append(out, p + h->path_at, fragment ? (size_t)(fragment - p) - h->path_at : h->path_len);
	buf_printf(out, " HTTP/1.%u\r\n", h->minor);
	for (;;) {
		struct span line = next_line(p, h->len, &at);

		if (line.n == 0)
			break;
		const char *colon = memchr(line.p, ':', line.n);
		struct span name = { line.p, (size_t)(colon - line.p) },
			    value = trim_span((struct span){ colon + 1, line.n - name.n - 1 });
		bool theirs = !close && span_equals(name, "connection") &&
			      (span_equals(value, "close") || span_equals(value, "keep-alive"));
		if ((is_for_proxies(name) && !theirs) || (extra && span_equals(name, extra->name)))
			continue;
		buf_append(out, line.p, line.n);
		buf_str(out, "\r\n");
	}
	/* Only an HTTP/1.0 request can be without a Host. */
	if (!h->has_host && h->form == HTTP_ABSOLUTE) {
		bool six = strchr(h->target.host, ':');
		buf_printf(out, "Host: %s%s%s", six ? "[" : "", h->target.host, six ? "]" : "");
		if (h->target.port != 80)
			buf_printf(out, ":%u", h->target.port);
		buf_str(out, "\r\n");
	}
	if (extra)
		buf_printf(out, "%s: %s\r\n", extra->name, extra->value);
	buf_str(out, close ? "Connection: close\r\n\r\n" : "\r\n");
}

/* ---- bodies ---- */

enum { CHUNK_SIZE, CHUNK_EXTENSION, CHUNK_SIZE_LF, CHUNK_DATA, CHUNK_CR, CHUNK_LF, TRAILER };

void http_body_begin(struct http_body *b, const struct http_head *h)
{
	*b = (struct http_body){ .kind = h->body, .left = h->length, .state = CHUNK_SIZE };
	b->done = h->body == HTTP_BODY_NONE || (h->body == HTTP_BODY_LENGTH && h->length == 0);
}

/* One byte of the framing around chunks; their data is skipped in blocks by consume_body. */
static void take_chunk_byte(struct http_body *b, char c)
{
	int digit = c >= '0' && c <= '9'   ? c - '0'
		    : c >= 'a' && c <= 'f' ? c - 'a' + 10
		    : c >= 'A' && c <= 'F' ? c - 'A' + 10
					   : -1;

	switch (b->state) {
	case CHUNK_SIZE:
	case CHUNK_EXTENSION:
		/*
		 * 15 hexadecimal digits fit into 64 bits. Other parsers overflow at different lengths, so a longer size
		 * is rejected.
		 */
		if (b->state == CHUNK_SIZE && digit >= 0 && b->line < 15) {
			b->left = b->left * 16 + (uint64_t)digit;
			b->line++;
		} else if (b->state == CHUNK_SIZE && b->line && c == ';') {
			b->state = CHUNK_EXTENSION;
			b->line = 0;
		} else if (c == '\r' && (b->state == CHUNK_EXTENSION || b->line)) {
			b->state = CHUNK_SIZE_LF;
		} else if (b->state != CHUNK_EXTENSION || (unsigned char)c < ' ' || ++b->line > 256) {
			b->bad = true;
		}
		break;
	case CHUNK_SIZE_LF:
		b->bad |= c != '\n';
		b->state = b->left ? CHUNK_DATA : TRAILER;
		b->line = 0;
		break;
	case CHUNK_CR:
		b->bad |= c != '\r';
		b->state = CHUNK_LF;
		break;
	case CHUNK_LF:
		b->bad |= c != '\n';
		b->state = CHUNK_SIZE;
		b->line = 0;
		break;
	default: /* Trailer headers after the last chunk, up to an empty line. */
		if (b->seen_cr) {
			b->bad |= c != '\n';
			b->done = !b->bad && b->line == 0;
			b->line = 0;
			b->seen_cr = false;
		} else if (c == '\r') {
			b->seen_cr = true;
		} else if ((unsigned char)c < ' ' || ++b->line > 1024) {
			b->bad = true;
		}
	}
}

/* Appends the content of the body to `data` unless that is NULL. */
static size_t consume_body(struct http_body *b, const char *p, size_t n, struct buf *data, size_t most)
{
	size_t at = 0;

	while (at < n && !b->done && !b->bad) {
		if (b->kind == HTTP_BODY_LENGTH || b->state == CHUNK_DATA) {
			size_t part = b->left < n - at ? (size_t)b->left : n - at;

			if (data) {
				size_t room = most - data->len;
				b->bad = part > room;
				buf_append(data, p + at, b->bad ? room + 1 : part);
			}
			at += part;
			b->left -= part;
			if (b->left == 0 && b->kind == HTTP_BODY_LENGTH)
				b->done = true;
			else if (b->left == 0)
				b->state = CHUNK_CR;
			continue;
		}
		take_chunk_byte(b, p[at]);
		at += !b->bad;
	}
	return at;
}

size_t http_body_take(struct http_body *b, const char *p, size_t n) { return consume_body(b, p, n, NULL, 0); }

size_t http_body_read(struct http_body *b, const char *p, size_t n, struct buf *data, size_t most)
{
	return consume_body(b, p, n, data, most);
}

/* ---- responses ---- */

static const char start[] = "HTTP/1.0 000"; /* 0 matches any digit */
#define STATUS_AT 9u

/* The length of the line at p with its line ending; 0 = the n bytes contain no line ending. */
static size_t line_bytes(const char *p, size_t n)
{
	const char *end = memchr(p, '\n', n);

	return end ? (size_t)(end - p) + 1 : 0;
}

static bool is_empty(const char *line, size_t n) { return n == 1 || (n == 2 && line[0] == '\r'); }

/* Whether the bytes received so far are a prefix of a status line. */
static bool is_status_prefix(const char *p, size_t n)
{
	for (size_t i = 0; i < n && start[i]; i++)
		if (start[i] == '0' ? p[i] < '0' || p[i] > '9' : p[i] != start[i])
			return false;
	return true;
}

enum parsed http_response_parse(const char *p, size_t n, size_t *ret_len, bool *ret_interim)
{
	const size_t most = n < HTTP_HEAD_MAX ? n : HTTP_HEAD_MAX;
	size_t at = 0, line;

	if (!is_status_prefix(p, n))
		return PARSED_BAD;
	do {
		line = line_bytes(p + at, most - at);
		if (line == 0)
			return n < HTTP_HEAD_MAX ? PARSED_MORE : PARSED_BAD;
		at += line;
	} while (!is_empty(p + at - line, line));
	*ret_len = at;
	*ret_interim = p[STATUS_AT] == '1' && memcmp(p + STATUS_AT, "101", 3) != 0;
	return PARSED_OK;
}

/*
 * Servers are parsed leniently (blanks before the colon, bare line feeds): a response cannot change what the sandbox
 * may access.
 */
static bool is_connection_header(const char *line, size_t n)
{
	static const char *const names[] = { "connection", "proxy-connection", "keep-alive" };
	const char *colon = memchr(line, ':', n);
	size_t len = colon ? (size_t)(colon - line) : 0;

	while (len && (line[len - 1] == ' ' || line[len - 1] == '\t'))
		len--;
	for (size_t i = 0; i < countof(names); i++)
		if (len == strlen(names[i]) && strncasecmp(line, names[i], len) == 0)
			return true;
	return false;
}

void http_response_forward(const char *p, size_t len, struct buf *out)
{
	bool dropped = false;
	size_t line;

	for (size_t at = 0; at < len; at += line) {
		line = line_bytes(p + at, len - at);
		if (is_empty(p + at, line))
			buf_str(out, "Connection: close\r\n");
		else if (p[at] != ' ' && p[at] != '\t') /* otherwise a continuation of the previous line */
			dropped = is_connection_header(p + at, line);
		if (!dropped || is_empty(p + at, line))
			buf_append(out, p + at, line);
	}
}
