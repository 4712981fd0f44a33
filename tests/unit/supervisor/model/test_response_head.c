#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "supervisor/model/response_head.h"
#include "tests/unit/suite.h"

START_TEST(headers_become_json)
{
	static const struct {
		const char *lines, *json;
		bool events;
	} rows[] = {
		{ "", "{}", false },
		{ "Content-Type: text/event-stream; charset=utf-8\r\n",
		  "{\"content-type\":\"text/event-stream; charset=utf-8\"}", true },
		{ "content-type:Text/Event-Stream\n", "{\"content-type\":\"Text/Event-Stream\"}", true },
		{ "Content-Type: application/json\r\nX-A:  1 \t\r\nx-a: 2\r\nX-Empty:\r\n",
		  "{\"content-type\":\"application/json\",\"x-a\":\"1, 2\",\"x-empty\":\"\"}", false },
		{ "Set-Cookie: a=b\r\nno header\r\n folded: x\r\nbad name: x\r\n: x\r\nOk: \"q\\\"\r\n",
		  "{\"ok\":\"\\\"q\\\\\\\"\"}", false },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		buf_auto struct buf out = BUF_INIT, expected = BUF_INIT;

		ck_assert_int_eq(response_head_json(200, rows[i].lines, &out), rows[i].events);
		buf_printf(&expected, "{\"status\":200,\"headers\":%s}\n", rows[i].json);
		ck_assert_str_eq(buf_cstr(&out), buf_cstr(&expected));
	}
}
END_TEST

START_TEST(too_many_headers_are_dropped)
{
	buf_auto struct buf lines = BUF_INIT, out = BUF_INIT;
	size_t names = 0;

	for (int i = 0; i < 1000; i++)
		buf_printf(&lines, "X-%d: v\r\n", i);
	response_head_json(500, buf_cstr(&lines), &out);
	for (const char *c = buf_cstr(&out); *c; c++)
		names += c[0] == '"' && c[1] == 'x';
	ck_assert_int_eq(names, RESPONSE_HEAD_HEADERS_MAX);
}
END_TEST

int main(void) { return SUITE("response_head", headers_become_json, too_many_headers_are_dropped); }
