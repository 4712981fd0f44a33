/* Conditions to wait for on a screen. */

#include "pty/screen.h"
#include "pty/screen_condition.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

static struct screen *shown(const char *text)
{
	struct screen *s = screen_new(5, 30, NULL);

	screen_feed(s, text, strlen(text));
	return s;
}

static enum screen_match match(const struct screen *s, const char *text, const char *regex, int64_t after)
{
	struct screen_condition u;
	struct err e = ERR_INIT;
	enum screen_match m;

	ck_assert_int_eq(screen_condition_init(&u, text, regex, &e), 0);
	u.has_after = after >= 0;
	u.after = after >= 0 ? (uint64_t)after : 0;
	m = screen_condition_check(&u, s);
	screen_condition_done(&u);
	return m;
}

START_TEST(a_text_or_an_expression_matches_the_screen)
{
	struct screen *s = shown("login: \r\n$ ");

	ck_assert_int_eq(match(s, "login", NULL, -1), SCREEN_CONDITION_TEXT);
	ck_assert_int_eq(match(s, "$ ", NULL, -1), SCREEN_CONDITION_TEXT);
	ck_assert_int_eq(match(s, "password", NULL, -1), SCREEN_CONDITION_NONE);
	ck_assert_int_eq(match(s, "password", "^\\$ ?$", -1), SCREEN_CONDITION_REGEX);
	ck_assert_int_eq(match(s, "login", "^\\$", -1), SCREEN_CONDITION_TEXT);
	ck_assert_int_eq(match(s, NULL, NULL, -1), SCREEN_CONDITION_NONE);
	screen_free(s);
}
END_TEST

START_TEST(output_before_the_offset_does_not_match)
{
	struct screen *s = shown("$ ");

	ck_assert_int_eq(match(s, NULL, "\\$ $", 2), SCREEN_CONDITION_NONE);
	screen_feed(s, "make\r\n", 6);
	ck_assert_int_eq(match(s, "$ ", "\\$ $", 2), SCREEN_CONDITION_NONE);
	screen_feed(s, "done\r\n$ ", 8);
	ck_assert_int_eq(match(s, NULL, "\\$ $", 2), SCREEN_CONDITION_REGEX);
	ck_assert_int_eq(match(s, "$ ", NULL, 2), SCREEN_CONDITION_TEXT);
	screen_free(s);
}
END_TEST

START_TEST(trailing_blanks_match_with_and_without)
{
	struct screen *s = shown("-- INSERT --            \r\nx");

	ck_assert_int_eq(match(s, NULL, "INSERT --$", -1), SCREEN_CONDITION_REGEX);
	ck_assert_int_eq(match(s, NULL, "INSERT -- +$", -1), SCREEN_CONDITION_REGEX);
	screen_free(s);
}
END_TEST

START_TEST(output_that_has_scrolled_out_matches)
{
	struct screen *s = shown("start\r\n");

	screen_feed(s, "READY\r\n", 7);
	for (int i = 0; i < 50; i++)
		screen_feed(s, "more\r\n", 6);
	ck_assert_int_eq(match(s, "READY", NULL, -1), SCREEN_CONDITION_NONE);
	ck_assert_int_eq(match(s, "READY", NULL, 7), SCREEN_CONDITION_TEXT);
	screen_free(s);
}
END_TEST

START_TEST(invalid_patterns_are_rejected)
{
	static const char *const bad[] = {
		"(",
		"a{2",
		"[z-a]",
		"(a)\\1",
		"a{2000}",
		"((a{50}){50}){50}",
		"a{1,100}{1,100}",
		"",
		"e+++++++++++++++++++++++++",
		"((((((((((a+)+)+)+)+)+)+)+)+)+",
		"[]+[:alpha:]]*+*+*+*+*+*+*+*+*+*+*+",
		"(a{30}+){20}",
	};
	mem_auto char *large = mem_zalloc(2000, 1);
	struct screen_condition u;

	memset(large, 'a', 1999);
	for (size_t i = 0; i <= countof(bad); i++) {
		struct err e = ERR_INIT;

		ck_assert_msg(screen_condition_init(&u, NULL, i < countof(bad) ? bad[i] : large, &e) < 0, "%s",
			      i < countof(bad) ? bad[i] : "long");
		ck_assert_str_eq(e.field, "until.regex");
		ck_assert(e.message[0]);
	}
	struct err e = ERR_INIT;
	ck_assert_int_eq(screen_condition_init(&u, "", NULL, &e), -1);
	ck_assert_str_eq(e.field, "until.text");
	static const char *const good[] = { "x{3,9}[{]\\{", "[+]++[]{]{9}", "a{1000}", "(([a-z]+)+:)+ \\+{99}",
					    "(a|b){,200}" };
	for (size_t i = 0; i < countof(good); i++) {
		ck_assert_msg(screen_condition_init(&u, NULL, good[i], &e) == 0, "%s: %s", good[i], e.message);
		screen_condition_done(&u);
	}
}
END_TEST

int main(void)
{
	return SUITE("screen_condition", a_text_or_an_expression_matches_the_screen,
		     output_before_the_offset_does_not_match, trailing_blanks_match_with_and_without,
		     output_that_has_scrolled_out_matches, invalid_patterns_are_rejected);
}
