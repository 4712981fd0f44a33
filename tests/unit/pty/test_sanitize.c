#include "pty/sanitize.h"

#include "runtime/base/buf.h"
#include "tests/unit/suite.h"

#include <string.h>

/* Sanitizes in one piece and byte by byte; both must give the same result. */
static const char *shown(const char *bytes, size_t n)
{
	static char text[2][256];

	for (int each = 0; each < 2; each++) {
		struct sanitize s = SANITIZE_INIT;
		buf_auto struct buf out = BUF_INIT;

		if (!each)
			sanitize_feed(&s, bytes, n, &out);
		for (size_t i = 0; each && i < n; i++)
			sanitize_feed(&s, bytes + i, 1, &out);
		sanitize_end(&s, &out);
		snprintf(text[each], sizeof(text[each]), "%s", buf_cstr(&out));
	}
	ck_assert_str_eq(text[0], text[1]);
	return text[0];
}
#define SHOWN(literal) shown(literal, sizeof(literal) - 1)

START_TEST(test_escape_sequences_are_removed)
{
	ck_assert_str_eq(SHOWN("\033[31mred\033[0m\r\n"), "red\n");
	ck_assert_str_eq(SHOWN("a\033]0;title\ab\033]8;;http://x\033\\link\033]8;;\033\\c"), "ablinkc");
	ck_assert_str_eq(SHOWN("\033(B\033)0x\033=y\033Pq#0\033\\z\0337\0338\033M"), "xyz");
	ck_assert_str_eq(SHOWN("\033[?1049h\033[1;24r\033[>4;2m\033[0 q~\r\n"), "~\n");
}
END_TEST

/* Whether they stay depends on the character before, which an earlier piece may have ended with. */
START_TEST(test_variation_selectors_do_not_depend_on_pieces)
{
	ck_assert_str_eq(SHOWN("\u2764\ufe0f"), "\u2764\ufe0f");
	ck_assert_str_eq(SHOWN("\U0001f469\ufe0f\u200d\U0001f4bb"), "\U0001f469\ufe0f\u200d\U0001f4bb");
	ck_assert_str_eq(SHOWN("a\ufe0f"), "a\\ufe0f");
	ck_assert_str_eq(SHOWN("\xb8\xef\xb8\x8e"), "\\xb8\\ufe0e");
}
END_TEST

START_TEST(test_carriage_returns_become_line_breaks)
{
	ck_assert_str_eq(SHOWN("one\r\r\ntwo\r\n\r\n"), "one\ntwo\n\n");
	ck_assert_str_eq(SHOWN("10%\r20%\r\033[K30%\r\n"), "10%\n20%\n30%\n");
	ck_assert_str_eq(SHOWN("$ echo\r\n\033[?2004l\r42\r\n"), "$ echo\n42\n");
	ck_assert_str_eq(SHOWN("tab\tbs\b\a!"), "tab\tbs!");
}
END_TEST

START_TEST(test_control_characters_and_unterminated_sequences_are_harmless)
{
	ck_assert_str_eq(SHOWN("\001\177\xc2\x9b"
			       "31m \xff ok \xc3\xa9 \xc3"),
			 "\\x01\\x7f\\xc2\\x9b31m \\xff ok \xc3\xa9 \\xc3");
	/* an unterminated sequence does not hide the next line */
	ck_assert_str_eq(SHOWN("\033]0;never ends\r\nvisible\r\n"), "\nvisible\n");
	ck_assert_str_eq(SHOWN("\033[1;2\nvisible"), "\nvisible");
	ck_assert_str_eq(SHOWN("\033[1\030visible\033]x\032y"), "visibley");
}
END_TEST

int main(void)
{
	return SUITE("sanitize", test_escape_sequences_are_removed, test_variation_selectors_do_not_depend_on_pieces,
		     test_carriage_returns_become_line_breaks,
		     test_control_characters_and_unterminated_sequences_are_harmless);
}
