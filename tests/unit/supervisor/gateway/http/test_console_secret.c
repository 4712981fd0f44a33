#include "supervisor/gateway/http/console_secret.h"
#include "tests/unit/suite.h"

#include <string.h>

#define NOW 1000000

START_TEST(a_code_is_valid_once)
{
	struct console_codes codes = { 0 };
	struct console_code got;
	char text[CONSOLE_SECRET_TEXT];

	snprintf(text, sizeof(text), "%s", console_codes_add(&codes, "observer", "token:1", NOW));
	ck_assert_uint_eq(strlen(text), CONSOLE_SECRET_TEXT - 1);
	ck_assert(!console_codes_take(&codes, "", NOW, &got));
	ck_assert(console_codes_take(&codes, text, NOW + CONSOLE_CODE_MS - 1, &got));
	ck_assert_str_eq(got.role, "observer");
	ck_assert_str_eq(got.principal, "token:1");
	ck_assert(!console_codes_take(&codes, text, NOW + CONSOLE_CODE_MS - 1, &got));
}
END_TEST

START_TEST(a_code_expires_after_a_minute)
{
	struct console_codes codes = { 0 };
	struct console_code got;
	char text[CONSOLE_SECRET_TEXT];

	snprintf(text, sizeof(text), "%s", console_codes_add(&codes, "", "token:1", NOW));
	ck_assert(!console_codes_take(&codes, text, NOW + CONSOLE_CODE_MS, &got));
	ck_assert_msg(!console_codes_take(&codes, text, NOW, &got), "an attempt consumes it");
}
END_TEST

START_TEST(the_oldest_code_is_evicted)
{
	struct console_codes codes = { 0 };
	struct console_code got;
	char text[CONSOLE_CODES_MOST + 1][CONSOLE_SECRET_TEXT];

	for (size_t i = 0; i <= CONSOLE_CODES_MOST; i++)
		snprintf(text[i], sizeof(text[i]), "%s", console_codes_add(&codes, "", "token:1", NOW + i));
	ck_assert(!console_codes_take(&codes, text[0], NOW, &got));
	for (size_t i = 1; i <= CONSOLE_CODES_MOST; i++)
		ck_assert(console_codes_take(&codes, text[i], NOW, &got));
}
END_TEST

START_TEST(codes_of_a_removed_token_are_removed)
{
	struct console_codes codes = { 0 };
	struct console_code got;
	char one[CONSOLE_SECRET_TEXT], two[CONSOLE_SECRET_TEXT];

	snprintf(one, sizeof(one), "%s", console_codes_add(&codes, "", "token:1", NOW));
	snprintf(two, sizeof(two), "%s", console_codes_add(&codes, "", "token:2", NOW));
	console_codes_forget(&codes, "token:1");
	ck_assert(!console_codes_take(&codes, one, NOW, &got));
	ck_assert(console_codes_take(&codes, two, NOW, &got));
}
END_TEST

int main(void)
{
	return SUITE("console_secret", a_code_is_valid_once, a_code_expires_after_a_minute, the_oldest_code_is_evicted,
		     codes_of_a_removed_token_are_removed);
}
