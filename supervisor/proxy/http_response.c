#include "supervisor/proxy/http_response.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "supervisor/proxy/http_head.h"

#include <string.h>
#include <strings.h>

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
