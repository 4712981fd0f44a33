#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "supervisor/proxy/http_head.h"
#include "tests/unit/suite.h"

#include <string.h>

static struct http_head good(const char *text)
{
	struct http_head h;
	const char *why = "";
	enum parsed r = http_head_parse(text, strlen(text), &h, &why);
	ck_assert_msg(r == PARSED_OK, "%d %s: %s", r, why, text);
	/* No prefix of it is complete. */
	for (size_t n = 0; n < h.len; n++) {
		struct http_head part;
		ck_assert_msg(http_head_parse(text, n, &part, &why) == PARSED_MORE, "%zu bytes of %s", n, text);
	}
	return h;
}

START_TEST(the_forms_of_a_request_are_parsed)
{
	struct http_head h = good("GET http://Example.COM:8080/a?b HTTP/1.1\r\nHost: example.com:8080\r\n\r\nrest");
	ck_assert_int_eq(h.form, HTTP_ABSOLUTE);
	ck_assert_str_eq(h.target.host, "example.com");
	ck_assert_uint_eq(h.target.port, 8080);
	ck_assert(connect_target_agrees(&h.target, &h.host));
	h = good("GET http://[::1]/ HTTP/1.0\r\n\r\n");
	ck_assert(h.target.is_address && h.target.port == 80 && !h.has_host);
	h = good("CONNECT example.com:443 HTTP/1.1\r\nHost: other.test\r\n\r\n");
	ck_assert_int_eq(h.form, HTTP_CONNECT);
	ck_assert(!connect_target_agrees(&h.target, &h.host));
	h = good("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n");
	ck_assert(h.form == HTTP_ORIGIN && h.body == HTTP_BODY_LENGTH && h.length == 12);
	h = good("POST http://a/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
	ck_assert_int_eq(h.body, HTTP_BODY_CHUNKED);
}
END_TEST

START_TEST(ambiguous_heads_are_rejected)
{
	static const char *const bad[] = {
		"GET http://a/ HTTP/1.1\r\n\r\n", /* no Host */
		"GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\n Host: b\r\n\r\n", /* folded */
		"GET http://a/ HTTP/1.1\r\nHost : a\r\n\r\n",
		"GET http://a/ HTTP/1.1\nHost: a\n\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
		"GET http://a/ HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1,1\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n",
		"GET http://a@b/ HTTP/1.1\r\nHost: b\r\n\r\n",
		"GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http:// HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET  http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http://a/ HTTP/2.0\r\nHost: a\r\n\r\n",
		"GET http://a/\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\n",
		"\r\nGET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http://127.1/ HTTP/1.1\r\nHost: 127.1\r\n\r\n",
		"CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n",
		"CONNECT a:443 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a b\r\n\r\n",
	};
	for (size_t i = 0; i < countof(bad); i++) {
		struct http_head h;
		const char *why = "";
		ck_assert_msg(http_head_parse(bad[i], strlen(bad[i]), &h, &why) == PARSED_BAD, "%s", bad[i]);
		ck_assert(why[0]);
	}
}
END_TEST

START_TEST(the_size_of_a_head_is_limited)
{
	mem_auto char *text = mem_alloc(2 * HTTP_HEAD_MAX);
	struct http_head h;
	const char *why = "";
	memset(text, 'a', 2 * HTTP_HEAD_MAX);
	memcpy(text, "GET /", 5);
	ck_assert_int_eq(http_head_parse(text, HTTP_HEAD_MAX - 1, &h, &why), PARSED_MORE);
	ck_assert_int_eq(http_head_parse(text, HTTP_HEAD_MAX, &h, &why), PARSED_BAD);
	buf_auto struct buf many = BUF_INIT;
	buf_str(&many, "GET / HTTP/1.1\r\nHost: a\r\n");
	for (int i = 0; i < 200; i++)
		buf_str(&many, "a: b\r\n");
	buf_str(&many, "\r\n");
	ck_assert_int_eq(http_head_parse(many.data, many.len, &h, &why), PARSED_BAD);
}
END_TEST

START_TEST(forwarded_heads_have_no_hop_by_hop_headers)
{
	buf_auto struct buf out = BUF_INIT;
	const char *text =
		"GET http://a.test?q#f HTTP/1.1\r\nHost: a.test\r\nProxy-Authorization: x\r\nconnection: keep-alive\r\n"
		"Upgrade: h2c\r\nAccept: */*\r\n\r\n";
	struct http_head h = good(text);
	http_head_forward(text, &h, true, NULL, &out);
	ck_assert_str_eq(buf_cstr(&out),
			 "GET /?q HTTP/1.1\r\nHost: a.test\r\nAccept: */*\r\nConnection: close\r\n\r\n");
	buf_reset(&out);
	text = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Close\r\nConnection: upgrade\r\nUpgrade: "
	       "websocket\r\n\r\n";
	h = good(text); /* inside a tunnel */
	http_head_forward(text, &h, false, NULL, &out);
	ck_assert_str_eq(buf_cstr(&out), "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Close\r\n\r\n");
	buf_reset(&out);
	text = "GET / HTTP/1.1\r\nHost: a.test\r\nAUTHORIZATION: placeholder\r\n\r\n";
	h = good(text);
	http_head_forward(text, &h, false, &(struct http_extra){ "Authorization", "Bearer secret" }, &out);
	ck_assert_str_eq(buf_cstr(&out), "GET / HTTP/1.1\r\nHost: a.test\r\nAuthorization: Bearer secret\r\n\r\n");
	buf_reset(&out);
	text = "GET http://a.test HTTP/1.0\r\n\r\n";
	h = good(text);
	http_head_forward(text, &h, true, NULL, &out);
	ck_assert_str_eq(buf_cstr(&out), "GET / HTTP/1.0\r\nHost: a.test\r\nConnection: close\r\n\r\n");
}
END_TEST

static size_t body_len(const char *head, const char *text, bool *bad)
{
	struct http_head h = good(head);
	struct http_body all, single;
	http_body_begin(&all, &h);
	size_t n = http_body_take(&all, text, strlen(text)), k = 0;
	/* Fed byte by byte, the result is the same. */
	http_body_begin(&single, &h);
	for (; k < strlen(text) && !single.done && !single.bad; k++)
		if (http_body_take(&single, text + k, 1) != 1)
			break;
	ck_assert(all.bad == single.bad && all.done == single.done && n == k);
	*bad = all.bad;
	return all.done ? n : SIZE_MAX;
}

START_TEST(bodies_end_at_their_declared_length)
{
	static const char chunked[] = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
	static const struct {
		const char *text;
		size_t len; /* SIZE_MAX = not complete */
		bool bad;
	} rows[] = {
		{ "0\r\n\r\nGET", 5, false },
		{ "3\r\nabc\r\n0\r\n\r\nX", 13, false },
		{ "3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\nX", 23, false },
		{ "00a\r\n0123456789\r\n0\r\n\r\n", 22, false },
		{ "3\r\nab", SIZE_MAX, false },
		{ "3\r\nabcd\r\n", SIZE_MAX, true },
		{ "\r\n", SIZE_MAX, true },
		{ "x\r\n", SIZE_MAX, true },
		{ "3\nabc\r\n", SIZE_MAX, true },
		{ "fffffffffffffffff\r\n", SIZE_MAX, true },
		{ "0\r\nT: v\n\r\n", SIZE_MAX, true },
		{ "3 \r\nabc", SIZE_MAX, true },
		{ "-1\r\n", SIZE_MAX, true },
	};
	bool bad;
	for (size_t i = 0; i < countof(rows); i++) {
		size_t n = body_len(chunked, rows[i].text, &bad);
		ck_assert_msg(n == rows[i].len && bad == rows[i].bad, "%s: %zu %d", rows[i].text, n, bad);
	}
	ck_assert_uint_eq(body_len("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n", "abcGET", &bad), 3);
	ck_assert_uint_eq(body_len("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET", &bad), 0);
}
END_TEST

int main(void)
{
	return SUITE("http_head", the_forms_of_a_request_are_parsed, ambiguous_heads_are_rejected,
		     the_size_of_a_head_is_limited, forwarded_heads_have_no_hop_by_hop_headers,
		     bodies_end_at_their_declared_length);
}
