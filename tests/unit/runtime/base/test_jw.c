#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "tests/unit/suite.h"

#include <math.h>
#include <string.h>

START_TEST(commas_are_written_automatically)
{
	buf_auto struct buf b = BUF_INIT;
	struct jw w = jw_on(&b);
	const char *const words[] = { "x", "y" };

	jw_obj(&w);
	jw_kstr(&w, "a", "1");
	jw_kopt(&w, "absent", NULL);
	jw_kopt(&w, "there", "t");
	jw_karr(&w, "list");
	jw_int(&w, -5);
	jw_obj(&w);
	jw_obj_end(&w);
	jw_arr(&w);
	jw_arr_end(&w);
	jw_null(&w);
	jw_arr_end(&w);
	jw_kobj(&w, "o");
	jw_kbool(&w, "t", true);
	jw_kbool(&w, "f", false);
	jw_obj_end(&w);
	jw_kstrv(&w, "words", words, 2);
	jw_kstrv(&w, "none", NULL, 0);
	jw_kraw(&w, "raw", "[1]", 3);
	jw_obj_end(&w);
	ck_assert_str_eq(b.data, "{\"a\":\"1\",\"there\":\"t\",\"list\":[-5,{},[],null],\"o\":{\"t\":true,\"f\":false},"
				 "\"words\":[\"x\",\"y\"],\"none\":[],\"raw\":[1]}");
}
END_TEST

static void writes_string(const char *bytes, size_t n, const char *json)
{
	buf_auto struct buf b = BUF_INIT;
	struct jw w = jw_on(&b);

	jw_strn(&w, bytes, n);
	ck_assert_str_eq(b.data, json);
}

START_TEST(strings_are_escaped)
{
	writes_string("a\"b\\c/d", 7, "\"a\\\"b\\\\c/d\"");
	writes_string("\b\f\n\r\t\x01\x1f\x7f", 8, "\"\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"");
	writes_string("a\0b", 3, "\"a\\u0000b\"");
	writes_string(NULL, 0, "\"\"");
}
END_TEST

START_TEST(strings_become_valid_utf8)
{
	writes_string("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9, "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
	writes_string("a\xff"
		      "b",
		      3,
		      "\"a\xef\xbf\xbd"
		      "b\"");
	writes_string("\xc0\xaf", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");                 /* overlong */
	writes_string("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""); /* a surrogate */
	writes_string("x\xe2\x82", 3, "\"x\xef\xbf\xbd\xef\xbf\xbd\"");               /* truncated */
}
END_TEST

START_TEST(numbers_are_written_over_their_whole_range)
{
	buf_auto struct buf b = BUF_INIT;
	struct jw w = jw_on(&b);

	jw_arr(&w);
	jw_int(&w, INT64_MIN);
	jw_int(&w, INT64_MAX);
	jw_uint(&w, UINT64_MAX);
	jw_uint(&w, 0);
	jw_real(&w, 0.1);
	jw_real(&w, 1.0 / 3);
	jw_real(&w, 1e300);
	jw_real(&w, NAN);
	jw_real(&w, -INFINITY);
	jw_arr_end(&w);
	ck_assert_str_eq(b.data, "[-9223372036854775808,9223372036854775807,18446744073709551615,0,0.1,0."
				 "3333333333333333,1e+300,null,null]");
}
END_TEST

START_TEST(base64_is_written_as_a_string)
{
	buf_auto struct buf b = BUF_INIT;
	struct jw w = jw_on(&b);

	jw_arr(&w);
	jw_base64(&w, "\xff\xfe\xfd\xfc", 4);
	jw_base64(&w, "", 0);
	jw_arr_end(&w);
	ck_assert_str_eq(b.data, "[\"//79/A==\",\"\"]");
}
END_TEST

/* Long strings are scanned in steps of eight bytes: special bytes are found at every position, and no others. */
START_TEST(every_byte_is_escaped_at_every_position)
{
	char text[48], back[48];

	for (size_t len = 1; len < 28; len++)
		for (size_t at = 0; at < len; at++)
			for (int c = 1; c < 0x80; c++) {
				buf_auto struct buf b = BUF_INIT;
				struct jw w = jw_on(&b);
				struct jval v;

				memset(text, 'a' + (int)at % 20, len);
				text[len] = '\0';
				text[at] = (char)c;
				jw_arr(&w);
				jw_str(&w, text);
				jw_str(&w, "next");
				jw_arr_end(&w);
				struct jiter it = jiter_on(jval_of(b.data, b.len));
				if (!jiter_next(&it))
					ck_abort_msg("%s", b.data);
				v = it.value;
				if (jval_str(v, back, sizeof(back)) != len || strcmp(text, back) != 0)
					ck_abort_msg("byte %d at %zu of %zu: %s", c, at, len, b.data);
				if ((c == '"' || c == '\\' || c < 0x20) == (v.len == len + 2))
					ck_abort_msg("byte %d at %zu of %zu is %.*s", c, at, len, (int)v.len, v.text);
				if (!jiter_next(&it) || !jval_is_str(it.value, "next"))
					ck_abort_msg("%s", b.data);
				if (c >= 0x20 && c != '"' && c != '\\')
					continue;
				/* unescaped, it either ends the string or makes the JSON invalid */
				b.data[1 + 1 + at] = (char)c;
				it = jiter_on((struct jval){ .type = JT_ARRAY, .text = b.data, .len = b.len });
				if (c < 0x20 && jiter_next(&it))
					ck_abort_msg("a control character in a string: %s", b.data);
			}
}
END_TEST

int main(void)
{
	return SUITE("jw", commas_are_written_automatically, strings_are_escaped, strings_become_valid_utf8,
		     numbers_are_written_over_their_whole_range, base64_is_written_as_a_string,
		     every_byte_is_escaped_at_every_position);
}
