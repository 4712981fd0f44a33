#include "runtime/base/mem.h"
#include "supervisor/model/redactor.h"
#include "tests/unit/suite.h"

#include <string.h>

#define KEY "sk-test/0123456=abc"
#define OTHER "sk-test/99999999999"

/* Feeds the text in two pieces, split at every position, and byte by byte. */
static void expect(const char *text, const char *expected)
{
	const size_t n = strlen(text);

	for (size_t split = 0; split <= n + 1; split++) {
		buf_auto struct buf out = BUF_INIT;
		struct redactor r = REDACTOR_INIT;

		redactor_add(&r, KEY);
		redactor_add(&r, OTHER);
		if (split <= n) {
			redactor_feed(&r, text, split, false, &out);
			redactor_feed(&r, text + split, n - split, true, &out);
		} else {
			for (size_t i = 0; i < n; i++)
				redactor_feed(&r, text + i, 1, false, &out);
			redactor_feed(&r, "", 0, true, &out);
		}
		ck_assert_msg(strcmp(buf_cstr(&out), expected) == 0, "%s split at %zu: %s", text, split,
			      buf_cstr(&out));
		redactor_done(&r);
	}
}

START_TEST(keys_are_replaced_however_they_are_split_and_escaped)
{
	static const struct {
		const char *text, *expected;
	} rows[] = {
		{ "", "" },
		{ "nothing", "nothing" },
		{ KEY, REDACTED },
		{ "a " KEY " b " KEY, "a " REDACTED " b " REDACTED },
		{ KEY KEY OTHER, REDACTED REDACTED REDACTED },
		{ "sk-test/012345", "sk-test/012345" },
		{ "sk-test/sk-test/0123456=abc", "sk-test/" REDACTED },
		{ "sk-tesk-test/0123456=abcc", "sk-te" REDACTED "c" },
		{ "\"sk-test\\/0123456=abc\"", "\"" REDACTED "\"" },
		{ "\"sk-test/0123456\\u003dabc\"", "\"" REDACTED "\"" },
		{ "\"sk-test\\u002F0123456\\u003Dabc\"", "\"" REDACTED "\"" },
		{ "\"\\u0073k-test\\\\\\/0123456\\\\u003dabc\"", "\"" REDACTED "\"" },
		{ "sk-test\\n0123456=abc", "sk-test\\n0123456=abc" },
		{ "sk-test\\u00", "sk-test\\u00" },
		{ "\\\\\\\\\\\\\\\\\\\\\\\\", "\\\\\\\\\\\\\\\\\\\\\\\\" },
	};

	for (size_t i = 0; i < countof(rows); i++)
		expect(rows[i].text, rows[i].expected);
}
END_TEST

START_TEST(only_a_possible_key_is_held_back)
{
	buf_auto struct buf out = BUF_INIT;
	struct redactor r = REDACTOR_INIT;

	redactor_add(&r, KEY);
	redactor_feed(&r, "data: {}\n\n", 10, false, &out);
	ck_assert_str_eq(buf_cstr(&out), "data: {}\n\n");
	redactor_feed(&r, "is sk-t", 7, false, &out);
	ck_assert_str_eq(buf_cstr(&out), "data: {}\n\nis ");
	redactor_feed(&r, "ea", 2, false, &out);
	ck_assert_str_eq(buf_cstr(&out), "data: {}\n\nis sk-tea");
	redactor_done(&r);
}
END_TEST

START_TEST(short_keys_are_not_replaced)
{
	buf_auto struct buf out = BUF_INIT;
	struct redactor r = REDACTOR_INIT;

	redactor_add(&r, NULL);
	redactor_add(&r, "");
	redactor_add(&r, "ollama");
	redactor_add(&r, KEY);
	redactor_add(&r, KEY); /* known */
	redactor_feed(&r, "ollama\0" KEY, 7 + strlen(KEY), true, &out);
	ck_assert_int_eq(out.len, 7 + strlen(REDACTED));
	ck_assert_int_eq(memcmp(out.data, "ollama\0" REDACTED, out.len), 0);
	redactor_done(&r);
}
END_TEST

int main(void)
{
	return SUITE("redactor", keys_are_replaced_however_they_are_split_and_escaped, only_a_possible_key_is_held_back,
		     short_keys_are_not_replaced);
}
