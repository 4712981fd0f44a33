#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <string.h>

static struct jval of(const char *text) { return jval_of(text, strlen(text)); }

START_TEST(members_are_found_by_path)
{
	struct jval v = of(" {\"a\":1, \"payload\" : {\"exitCode\":-3,\"deep\":{\"x\":\"y\"}} , "
			   "\"b\":[true,false,null]} trailing");

	ck_assert_int_eq(v.type, JT_OBJECT);
	ck_assert_int_eq(jval_int(jval_get(v, "a"), 0), 1);
	ck_assert_int_eq(jval_int(jval_path(v, "payload.exitCode"), 0), -3);
	ck_assert(jval_is_str(jval_path(v, "payload.deep.x"), "y"));
	ck_assert_int_eq(jval_get(v, "c").type, JT_NONE);
	ck_assert_int_eq(jval_path(v, "a.b").type, JT_NONE);
	ck_assert_int_eq(jval_path(v, "payload.exit").type, JT_NONE);
	ck_assert_int_eq(jval_get(jval_get(v, "b"), "a").type, JT_NONE);
}
END_TEST

START_TEST(brackets_and_quotes_in_strings_are_skipped)
{
	struct jval v = of("{\"a\":\"}]{[\\\"\\\\\",\"k\\\"ey\":{\"q\":\"\\\\\"},\"b\":2}");

	ck_assert_int_eq(jval_int(jval_get(v, "b"), 0), 2);
	ck_assert(jval_is_str(jval_get(v, "a"), "}]{[\"\\"));
	ck_assert_int_eq(jval_get(v, "k\"ey").type, JT_OBJECT);
	ck_assert_int_eq(jval_get(v, "k\\\"ey").type, JT_NONE);
}
END_TEST

START_TEST(a_member_of_a_nested_object_is_not_found)
{
	struct jval v = of("{\"x\":{\"b\":1},\"y\":[{\"b\":2}]}");

	ck_assert_int_eq(jval_get(v, "b").type, JT_NONE);
}
END_TEST

START_TEST(iteration_returns_all_elements_in_order)
{
	struct jval v = of("[1,\"two\",{\"three\":3},[4] ]");
	const char *const texts[] = { "1", "\"two\"", "{\"three\":3}", "[4]" };
	size_t n = 0;
	struct jiter it = jiter_on(v);

	for (; jiter_next(&it); n++) {
		ck_assert_uint_lt(n, 4);
		ck_assert_uint_eq(it.value.len, strlen(texts[n]));
		ck_assert_mem_eq(it.value.text, texts[n], it.value.len);
	}
	ck_assert_uint_eq(n, 4);
	ck_assert_ptr_eq(it.p, v.text + v.len);
	ck_assert(!jiter_next(&it));
	it = jiter_on(of("{ }"));
	ck_assert(!jiter_next(&it));
	ck_assert_ptr_nonnull(it.p);
	it = jiter_on(of("17"));
	ck_assert(!jiter_next(&it));
}
END_TEST

START_TEST(members_are_iterated_after_the_opening_brace)
{
	const char *text = "\"type\":\"x\",\"n\":7}";
	struct jiter it = jiter_inside(text, strlen(text));

	ck_assert(jiter_next(&it));
	ck_assert(jval_is_str(it.key, "type"));
	ck_assert(jiter_next(&it));
	ck_assert_int_eq(jval_int(it.value, 0), 7);
	ck_assert(!jiter_next(&it));
	ck_assert_ptr_eq(it.p, text + strlen(text));
}
END_TEST

START_TEST(invalid_json_has_no_type)
{
	static const char *const bad[] = {
		"",  " ",  "{",  "[",   "\"abc", "\"ab\\", "{\"a\":1", "{\"a\":[1}",       "[1}", "tru", "nul",
		"-", "1.", "1e", "1e+", "}",     "x",      "\"a\nb\"", "{\"a\":\"\x01\"}",
	};
	struct jiter it;

	for (size_t i = 0; i < countof(bad); i++)
		ck_assert_msg(of(bad[i]).type == JT_NONE, "%s", bad[i]);
	it = jiter_on(of("{\"a\" 1}"));
	ck_assert(!jiter_next(&it));
	ck_assert_ptr_null(it.p);
	it = jiter_on(of("[1 2]"));
	ck_assert(jiter_next(&it));
	ck_assert(!jiter_next(&it));
	ck_assert_ptr_null(it.p);
	it = jiter_on(of("{\"a\":1,}"));
	ck_assert(jiter_next(&it));
	ck_assert(!jiter_next(&it));
	ck_assert_ptr_null(it.p);
	it = jiter_on(of("{1:2}"));
	ck_assert(!jiter_next(&it));
}
END_TEST

START_TEST(depth_is_bounded)
{
	buf_auto struct buf b = BUF_INIT;

	for (int i = 0; i < JSCAN_DEPTH; i++)
		buf_byte(&b, '[');
	for (int i = 0; i < JSCAN_DEPTH; i++)
		buf_byte(&b, ']');
	ck_assert_int_eq(jval_of(b.data, b.len).type, JT_ARRAY);
	buf_reset(&b);
	for (int i = 0; i <= JSCAN_DEPTH; i++)
		buf_byte(&b, '[');
	for (int i = 0; i <= JSCAN_DEPTH; i++)
		buf_byte(&b, ']');
	ck_assert_int_eq(jval_of(b.data, b.len).type, JT_NONE);
}
END_TEST

START_TEST(strings_are_unescaped)
{
	mem_auto char *s = jval_strdup(of("\"a\\n\\t\\/\\b\\f\\r\\u00e9\\u20ac\\ud83d\\ude00\""));

	ck_assert_str_eq(s, "a\n\t/\b\f\r\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
	ck_assert_ptr_null(jval_strdup(of("17")));
}
END_TEST

START_TEST(half_a_surrogate_pair_is_replaced)
{
	ck_assert(jval_is_str(of("\"\\ud83dx\""), "\xef\xbf\xbdx"));
	ck_assert(jval_is_str(of("\"\\ude00\""), "\xef\xbf\xbd"));
	ck_assert(jval_is_str(of("\"\\ud83d\\ud83d\""), "\xef\xbf\xbd\xef\xbf\xbd"));
	ck_assert(jval_is_str(of("\"\\uzzzz\""), "\xef\xbf\xbdzzzz"));
	ck_assert(jval_is_str(of("\"\\u12\""), "\xef\xbf\xbd"
					       "12"));
}
END_TEST

START_TEST(an_escaped_nul_does_not_end_a_string)
{
	char out[8];

	ck_assert_uint_eq(jval_str(of("\"a\\u0000b\""), out, sizeof(out)), 3);
	ck_assert_mem_eq(out, "a\0b", 4);
	ck_assert(!jval_is_str(of("\"a\\u0000b\""), "a"));
	ck_assert_int_eq(jval_get(of("{\"a\\u0000\":1}"), "a").type, JT_NONE);
}
END_TEST

START_TEST(copies_are_truncated_between_characters)
{
	char out[6];

	ck_assert_uint_eq(jval_str(of("\"abcd\\u20acx\""), out, sizeof(out)), 8);
	ck_assert_str_eq(out, "abcd");
	ck_assert_uint_eq(jval_str(of("\"abcd\xe2\x82\xacx\""), out, sizeof(out)), 8);
	ck_assert_str_eq(out, "abcd");
	ck_assert_uint_eq(jval_str(of("\"abcdef\""), out, sizeof(out)), 6);
	ck_assert_str_eq(out, "abcde");
	ck_assert_uint_eq(jval_str(of("12"), out, sizeof(out)), 0);
	ck_assert_str_eq(out, "");
	ck_assert_uint_eq(jval_str(of("\"abc\""), NULL, 0), 3);
}
END_TEST

START_TEST(numbers_out_of_range_give_the_default)
{
	ck_assert_int_eq(jval_int(of("9223372036854775807"), 1), INT64_MAX);
	ck_assert_int_eq(jval_int(of("-9223372036854775808"), 1), INT64_MIN);
	ck_assert_int_eq(jval_int(of("9223372036854775808"), 1), 1);
	ck_assert_int_eq(jval_int(of("-9223372036854775809"), 1), 1);
	ck_assert_uint_eq(jval_uint(of("18446744073709551615"), 1), UINT64_MAX);
	ck_assert_uint_eq(jval_uint(of("18446744073709551616"), 1), 1);
	ck_assert_uint_eq(jval_uint(of("-1"), 7), 7);
	ck_assert_int_eq(jval_int(of("1.5"), 7), 7);
	ck_assert_int_eq(jval_int(of("1e3"), 7), 7);
	ck_assert_int_eq(jval_int(of("\"5\""), 7), 7);
	ck_assert(jval_bool(of("true"), false));
	ck_assert(!jval_bool(of("false"), true));
	ck_assert(jval_bool(of("1"), true));
}
END_TEST

int main(void)
{
	return SUITE("jscan", members_are_found_by_path, brackets_and_quotes_in_strings_are_skipped,
		     a_member_of_a_nested_object_is_not_found, iteration_returns_all_elements_in_order,
		     members_are_iterated_after_the_opening_brace, invalid_json_has_no_type, depth_is_bounded,
		     strings_are_unescaped, half_a_surrogate_pair_is_replaced, an_escaped_nul_does_not_end_a_string,
		     copies_are_truncated_between_characters, numbers_out_of_range_give_the_default);
}
