#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/http/http_access.h"
#include "supervisor/gateway/http/http_request.h"
#include "supervisor/gateway/http/http_tokens.h"
#include "tests/unit/suite.h"

#include <string.h>

#define BODY_MAX 64

/* Feeds a request in pieces of `step` bytes, or whole (0); sets how many bytes were used. */
static enum http_request_state fed(struct http_request *r, const char *text, size_t step, size_t *used)
{
	size_t n = strlen(text);
	enum http_request_state s = HTTP_REQUEST_MORE;

	http_request_init(r, BODY_MAX);
	*used = 0;
	while (*used < n && s == HTTP_REQUEST_MORE) {
		size_t k = 0, part = step && step < n - *used ? step : n - *used;
		s = http_request_feed(r, text + *used, part, &k);
		ck_assert(s != HTTP_REQUEST_MORE || k == part);
		*used += k;
	}
	return s;
}

START_TEST(requests_are_parsed_in_any_pieces)
{
	static const char text[] =
		"POST /mcp?x=1 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nX-A:  b \r\n\r\n"
		"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: t\r\n\r\nGET / HTTP/1.1\r\n";

	for (size_t step = 0; step < 20; step++) {
		struct http_request r;
		size_t used;
		buf_auto struct buf v = BUF_INIT;
		ck_assert_int_eq(fed(&r, text, step, &used), HTTP_REQUEST_DONE);
		ck_assert_str_eq(r.method, "POST");
		ck_assert_str_eq(r.path, "/mcp");
		ck_assert_uint_eq(r.body.len, 5);
		ck_assert_str_eq(r.body.data, "abcde");
		ck_assert_uint_eq(http_request_header(&r, "x-a", &v), 1);
		ck_assert_str_eq(v.data, "b");
		ck_assert_uint_eq(http_request_header(&r, "x-b", &v), 0);
		ck_assert_str_eq(text + used, "GET / HTTP/1.1\r\n");
		http_request_done(&r);
	}
}
END_TEST

START_TEST(exceeded_limits_have_their_status)
{
	mem_auto char *huge = mem_alloc(HTTP_HEAD_MAX + 64);
	int n = snprintf(huge, 64, "GET / HTTP/1.1\r\nHost: localhost\r\nX: ");
	memset(huge + n, 'a', HTTP_HEAD_MAX + 63 - (size_t)n);
	huge[HTTP_HEAD_MAX + 63] = '\0';
	const struct {
		const char *text;
		unsigned status;
	} rows[] = {
		{ huge, 431 },
		{ "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65\r\n\r\n", 413 },
		{ "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n41\r\n"
		  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		  413 },
		{ "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400 },
		{ "GET / HTTP/1.1\r\n\r\n", 400 },
		{ "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\nHost: localhost\n\n", 400 },
		{ "GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", 400 },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		struct http_request r;
		size_t used;
		ck_assert_msg(fed(&r, rows[i].text, 0, &used) == HTTP_REQUEST_BAD, "row %zu", i);
		ck_assert_msg(r.status == rows[i].status, "row %zu: %u", i, r.status);
		http_request_done(&r);
	}
}
END_TEST

START_TEST(a_url_in_the_request_line_has_its_path)
{
	static const struct {
		const char *url, *path, *x;
	} rows[] = { { "http://localhost/a/b?x=1", "/a/b", "1" },
		     { "HTTP://localhost:80", "/", "" },
		     { "http://[::1]?x=2", "/", "2" } };

	for (size_t i = 0; i < countof(rows); i++) {
		mem_auto char *text = mem_printf("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", rows[i].url);
		buf_auto struct buf x = BUF_INIT;
		struct http_request r;
		size_t used;
		ck_assert_int_eq(fed(&r, text, 0, &used), HTTP_REQUEST_DONE);
		ck_assert_str_eq(r.path, rows[i].path);
		ck_assert_int_eq(http_request_query(&r, "x", &x), *rows[i].x != '\0');
		ck_assert_str_eq(buf_cstr(&x), rows[i].x);
		http_request_done(&r);
	}
}
END_TEST

START_TEST(lists_of_words_are_searched)
{
	struct http_request r;
	size_t used;

	ck_assert_int_eq(fed(&r,
			     "GET / HTTP/1.1\r\nHost: a\r\nAccept: text/html;q=0.5 , "
			     "Application/JSON\r\nAccept:text/event-stream; x=1\r\n\r\n",
			     0, &used),
			 HTTP_REQUEST_DONE);
	ck_assert(http_request_lists(&r, "accept", "application/json"));
	ck_assert(http_request_lists(&r, "accept", "text/event-stream"));
	ck_assert(http_request_lists(&r, "accept", "text/html"));
	ck_assert(!http_request_lists(&r, "accept", "text"));
	ck_assert(!http_request_lists(&r, "accept", "q=0.5"));
	ck_assert(!http_request_wants_close(&r));
	http_request_done(&r);
}
END_TEST

START_TEST(queries_and_cookies_are_parsed)
{
	static const struct {
		const char *query;
		int found;
		const char *value;
	} queries[] = {
		{ "", 0, "" },
		{ "?", 0, "" },
		{ "?b=1", 0, "" },
		{ "?a", 0, "" },
		{ "?a=", 1, "" },
		{ "?a=x.y_z-1", 1, "x.y_z-1" },
		{ "?aa=2&a=1&b", 1, "1" },
		{ "?a=1&a=2", -1, NULL },
		{ "?a=%31", -1, NULL },
		{ "?a=1=2", -1, NULL },
		{ "?&&a=1", 1, "1" },
	};
	static const struct {
		const char *header, *value; /* NULL: not found */
	} cookies[] = {
		{ "", NULL },
		{ "Cookie: a=1\r\n", "1" },
		{ "Cookie: b=2; a=1; c=3\r\n", "1" },
		{ "Cookie: aa=1; a\r\n", NULL },
		{ "Cookie: a=1; a=1\r\n", NULL },
		{ "Cookie: a=1\r\nCookie: b=2\r\n", NULL },
		{ "Cookie: a=x=y\r\n", "x=y" },
	};

	for (size_t i = 0; i < countof(queries) + countof(cookies); i++) {
		bool query = i < countof(queries);
		size_t k = query ? i : i - countof(queries), used;
		mem_auto char *text = mem_printf("GET /x%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n",
						 query ? queries[k].query : "", query ? "" : cookies[k].header);
		buf_auto struct buf v = BUF_INIT;
		struct http_request r;

		ck_assert_int_eq(fed(&r, text, 0, &used), HTTP_REQUEST_DONE);
		if (query)
			ck_assert_msg(http_request_query(&r, "a", &v) == queries[k].found, "%s", text);
		else
			ck_assert_msg(http_request_cookie(&r, "a", &v) == (cookies[k].value != NULL), "%s", text);
		if (query ? queries[k].value : cookies[k].value)
			ck_assert_str_eq(buf_cstr(&v), query ? queries[k].value : cookies[k].value);
		http_request_done(&r);
	}
}
END_TEST

START_TEST(only_local_host_names_are_accepted)
{
	static const char *const local[] = { "localhost",       "LocalHost:80", "127.0.0.1",
					     "127.0.0.1:65535", "[::1]",        "[::1]:1" };
	static const char *const foreign[] = { "",
					       "evil.example.com",
					       "localhost.evil.com",
					       "localhost:",
					       "localhost:x",
					       "localhost:0",
					       "localhost:65536",
					       "127.0.0.1.evil.com",
					       "127.0.0.2",
					       "::1",
					       "[::1",
					       "[::1]x",
					       "localhost:80@evil.com",
					       "xlocalhost",
					       " localhost" };
	static const char *const origins[] = { "http://localhost", "https://127.0.0.1:8443", "http://[::1]:80" };
	static const char *const others[] = { "null",
					      "http://",
					      "localhost",
					      "http://evil.com",
					      "http://localhost.evil.com",
					      "file://localhost",
					      "http://localhost/",
					      "http://evil.com#http://localhost" };

	for (size_t i = 0; i < countof(local); i++)
		ck_assert_msg(http_access_is_local(local[i], strlen(local[i])), "%s", local[i]);
	for (size_t i = 0; i < countof(foreign); i++)
		ck_assert_msg(!http_access_is_local(foreign[i], strlen(foreign[i])), "%s", foreign[i]);
	for (size_t i = 0; i < countof(origins); i++)
		ck_assert_msg(http_access_is_local_origin(origins[i], strlen(origins[i])), "%s", origins[i]);
	for (size_t i = 0; i < countof(others); i++)
		ck_assert_msg(!http_access_is_local_origin(others[i], strlen(others[i])), "%s", others[i]);
}
END_TEST

static unsigned access_status(const char *headers, const char *token)
{
	mem_auto char *text = mem_printf("GET / HTTP/1.1\r\n%s\r\n", headers);
	struct http_request r;
	struct http_refusal no = { 200, NULL };
	size_t used;

	ck_assert_int_eq(fed(&r, text, 0, &used), HTTP_REQUEST_DONE);
	const struct http_token *who = NULL;
	struct http_token tokens[] = { { .text = (char[]){ "another secret" } }, { .text = (char *)token } };
	struct http_access a = { .open = !token, .tokens = tokens, .ntokens = token ? 2 : 0 };
	if (http_access_allows(&a, &r, &who, &no))
		ck_assert_ptr_eq(who, token ? &tokens[1] : NULL);
	http_request_done(&r);
	return no.status;
}

START_TEST(access_requires_token_host_and_origin)
{
	ck_assert_uint_eq(access_status("Host: localhost\r\n", NULL), 200);
	ck_assert_uint_eq(access_status("Host: localhost\r\n", "secret"), 401);
	ck_assert_uint_eq(access_status("Host: localhost\r\nAuthorization: Bearer secret\r\n", "secret"), 200);
	ck_assert_uint_eq(access_status("Host: localhost\r\nAuthorization: bearer   secret\r\n", "secret"), 200);
	ck_assert_uint_eq(access_status("Host: localhost\r\nAuthorization: Bearer secre\r\n", "secret"), 401);
	ck_assert_uint_eq(access_status("Host: localhost\r\nAuthorization: Bearer secrets\r\n", "secret"), 401);
	ck_assert_uint_eq(access_status("Host: localhost\r\nAuthorization: Bearer \r\n", "secret"), 401);
	ck_assert_uint_eq(access_status("Host: localhost\r\nAuthorization: Basic secret\r\n", "secret"), 401);
	ck_assert_uint_eq(
		access_status("Host: localhost\r\nAuthorization: Bearer secret\r\nAuthorization: Bearer secret\r\n",
			      "secret"),
		401);
	/* A valid token does not excuse a wrong Host or Origin. */
	ck_assert_uint_eq(access_status("Host: evil.com\r\nAuthorization: Bearer secret\r\n", "secret"), 403);
	ck_assert_uint_eq(
		access_status("Host: localhost\r\nOrigin: http://evil.com\r\nAuthorization: Bearer secret\r\n",
			      "secret"),
		403);
	ck_assert_uint_eq(
		access_status("Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.com\r\n", NULL), 403);
	ck_assert_uint_eq(access_status("Host: localhost\r\nOrigin: http://localhost:3000\r\n", NULL), 200);
}
END_TEST

START_TEST(only_loopback_addresses_are_accepted)
{
	static const struct {
		const char *text, *shown;
	} good[] = {
		{ "127.0.0.1:80", "127.0.0.1:80" }, { "0", "127.0.0.1:0" },   { ":8080", "127.0.0.1:8080" },
		{ "localhost:1", "127.0.0.1:1" },   { "[::1]:7", "[::1]:7" },
	};
	static const char *const bad[] = {
		"",          "0.0.0.0:80", "[::]:80",         "::1:80",       "192.168.0.1:80", "example.com:80",
		"127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:8x",   "127.0.0.2:80",
		"65536"
	};
	struct http_address a;
	struct err e = ERR_INIT;
	char text[HTTP_ADDRESS_TEXT];

	for (size_t i = 0; i < countof(good); i++) {
		ck_assert_msg(http_address_parse(good[i].text, &a, &e) == 0, "%s: %s", good[i].text, e.message);
		http_address_format(&a, text);
		ck_assert_str_eq(text, good[i].shown);
	}
	for (size_t i = 0; i < countof(bad); i++)
		ck_assert_msg(http_address_parse(bad[i], &a, &e) < 0 && strcmp(e.field, "--listen") == 0, "%s", bad[i]);
}
END_TEST

int main(void)
{
	return SUITE("http_request", requests_are_parsed_in_any_pieces, exceeded_limits_have_their_status,
		     a_url_in_the_request_line_has_its_path, lists_of_words_are_searched,
		     queries_and_cookies_are_parsed, only_local_host_names_are_accepted,
		     access_requires_token_host_and_origin, only_loopback_addresses_are_accepted);
}
