#include "runtime/base/buf.h"
#include "supervisor/proxy/http_head.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

/* The length of a text's first head. */
static size_t head_of(const char *text, bool *ret_interim)
{
	size_t len = 0;
	enum parsed r = http_response_parse(text, strlen(text), &len, ret_interim);
	ck_assert_msg(r == PARSED_OK, "%d: %s", r, text);
	for (size_t n = 0; n < len; n++) {
		size_t part;
		bool interim;
		ck_assert_msg(http_response_parse(text, n, &part, &interim) == PARSED_MORE, "%zu bytes of %s", n, text);
	}
	return len;
}

static void check_forwarded(const char *text, const char *expected)
{
	bool interim;
	buf_auto struct buf out = BUF_INIT;
	http_response_forward(text, head_of(text, &interim), &out);
	ck_assert(!interim);
	ck_assert_str_eq(buf_cstr(&out), expected);
}

START_TEST(a_forwarded_response_closes_the_connection)
{
	check_forwarded("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n");
	check_forwarded("HTTP/1.0 404 Not here\r\n\r\n", "HTTP/1.0 404 Not here\r\nConnection: close\r\n\r\n");
	check_forwarded(
		"HTTP/1.1 200 OK\r\nconnection : keep-alive\r\nKeep-Alive: timeout=5,\r\n max=9\r\nProxy-Connection: "
		"x\r\nX: y\r\n z\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: y\r\n z\r\nConnection: close\r\n\r\n");
	check_forwarded("HTTP/1.1 200 OK\nX-Connection: y\n\n",
			"HTTP/1.1 200 OK\nX-Connection: y\nConnection: close\r\n\n");
	check_forwarded("HTTP/1.1 200\r\nno colon\r\n: nameless\r\n\r\n",
			"HTTP/1.1 200\r\nno colon\r\n: nameless\r\nConnection: close\r\n\r\n");
	check_forwarded("HTTP/1.1 101 Switching\r\n\r\n", "HTTP/1.1 101 Switching\r\nConnection: close\r\n\r\n");
}
END_TEST

START_TEST(interim_responses_are_recognized)
{
	const char *text =
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 201 Made\r\n\r\n";
	bool interim;
	size_t at = head_of(text, &interim);
	ck_assert(interim && at == 25);
	at += head_of(text + at, &interim);
	ck_assert(interim);
	head_of(text + at, &interim);
	ck_assert(!interim);
}
END_TEST

START_TEST(invalid_heads_are_rejected)
{
	size_t len;
	bool interim;
	ck_assert(http_response_parse("", 0, &len, &interim) == PARSED_MORE);
	ck_assert(http_response_parse("HTTP/2 200\r\n\r\n", 14, &len, &interim) == PARSED_BAD);
	ck_assert(http_response_parse("<html>", 6, &len, &interim) == PARSED_BAD);
	ck_assert(http_response_parse("\n", 1, &len, &interim) == PARSED_BAD);
	char *endless = malloc(HTTP_HEAD_MAX);
	memset(endless, 'a', HTTP_HEAD_MAX);
	memcpy(endless, "HTTP/1.1 200 OK\r\n", 17);
	ck_assert(http_response_parse(endless, HTTP_HEAD_MAX - 1, &len, &interim) == PARSED_MORE);
	ck_assert(http_response_parse(endless, HTTP_HEAD_MAX, &len, &interim) == PARSED_BAD);
	free(endless);
}
END_TEST

int main(void)
{
	return SUITE("http_response", a_forwarded_response_closes_the_connection, interim_responses_are_recognized,
		     invalid_heads_are_rejected);
}
