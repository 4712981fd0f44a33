#include "pty/terminal_modes.h"

#include "runtime/base/buf.h"
#include "tests/unit/suite.h"

#include <string.h>

/* The sequences that undo this output, fed whole and byte by byte; both must give the same. */
static const char *undo_of(const char *bytes)
{
	static char text[256];
	struct terminal_modes whole = TERMINAL_MODES_INIT, pieces = TERMINAL_MODES_INIT;
	buf_auto struct buf a = BUF_INIT, b = BUF_INIT;

	terminal_modes_feed(&whole, bytes, strlen(bytes));
	for (size_t i = 0; bytes[i]; i++)
		terminal_modes_feed(&pieces, bytes + i, 1);
	terminal_modes_write_reset(&whole, &a);
	terminal_modes_write_reset(&pieces, &b);
	ck_assert_str_eq(buf_cstr(&a), buf_cstr(&b));
	ck_assert_int_eq(terminal_modes_is_default(&whole), a.len == 0);
	snprintf(text, sizeof(text), "%s", buf_cstr(&a));
	return text;
}

START_TEST(test_plain_output_needs_no_reset)
{
	ck_assert_str_eq(undo_of("hello\r\n\033[31mred\033[0m\033[2J\033[H\033[K"), "");
	ck_assert_str_eq(undo_of("\033]0;a title [?1049h\007after"), "");
	ck_assert_str_eq(undo_of("\033P+q544e\033\\\033[c"), "");
}
END_TEST

START_TEST(test_modes_that_the_program_reset_need_no_reset)
{
	ck_assert_str_eq(undo_of("\033[?1049h\033[?25l\033[?1000;1006h\033[?1h\033= "
				 "\033>\033[?1l\033[?1006;1000l\033[?25h\033[?1049l"),
			 "");
	ck_assert_str_eq(undo_of("\033[?1049h\033c"), "");
	ck_assert_str_eq(undo_of("\033[2;20r\033[r"), "");
}
END_TEST

START_TEST(test_modes_that_are_still_set_are_reset)
{
	ck_assert_str_eq(undo_of("\033[?1049h\033[?25l"), "\033[0m\033[?25h\033[?1049l");
	ck_assert_str_eq(undo_of("\033[?2004h"), "\033[0m\033[?2004l");
	ck_assert_str_eq(undo_of("\033[?1002;1006h"), "\033[0m\033[?1002l\033[?1006l");
	ck_assert_str_eq(undo_of("\033[?7l"), "\033[0m\033[?7h");
	ck_assert_str_eq(undo_of("\033[>4;2m"), "\033[0m\033[>4;0m");
	ck_assert_str_eq(undo_of("\033=\033(0\016"), "\033[0m\033>\033(B\033)B\017");
	ck_assert_str_eq(undo_of("\033[1;31mred"), "\033[0m");
	ck_assert_str_eq(undo_of("\033[3;20r"), "\033[0m\0337\033[r\0338");
	ck_assert_str_eq(undo_of("\033[4 q\033[4h"), "\033[0m\033[4l\033[0 q");
}
END_TEST

/* What editors and agents enable on terminals that have it: without the reset a shell gets "[99;5u" for Ctrl-C. */
START_TEST(test_keyboard_protocol_is_reset_on_both_screens)
{
	ck_assert_str_eq(undo_of("\033[>1u"), "\033[0m\033[<1u");
	ck_assert_str_eq(undo_of("\033[>1u\033[>5u\033[<u"), "\033[0m\033[<1u");
	ck_assert_str_eq(undo_of("\033[>1u\033[>5u\033[<2u\033[?u\033[u"), "");
	ck_assert_str_eq(undo_of("\033[=1;1u"), "\033[0m\033[=0u");
	ck_assert_str_eq(undo_of("\033[=3u\033[=1;3u"), "\033[0m\033[=0u");
	ck_assert_str_eq(undo_of("\033[=1u\033[=1;3u"), "");
	ck_assert_str_eq(undo_of("\033[>1u\033[?1049h\033[>3u"), "\033[0m\033[<1u\033[?1049l\033[<1u");
	ck_assert_str_eq(undo_of("\033[?1049h\033[>3u\033[?1049l"), "");
	ck_assert_str_eq(undo_of("\033[>1u\033c"), "");
	ck_assert_str_eq(undo_of("\033[?2031;2048h"), "\033[0m\033[?2031l\033[?2048l");
}
END_TEST

START_TEST(test_colours_are_reset)
{
	ck_assert_str_eq(undo_of("\033]11;#ffffff\007"), "\033[0m\033]111\a");
	ck_assert_str_eq(undo_of("\033]10;red;blue;?\033\\"), "\033[0m\033]110\a\033]111\a");
	ck_assert_str_eq(undo_of("\033]4;1;?;2;rgb:0/0/0\007\033]12;green\007"), "\033[0m\033]104\a\033]112\a");
	ck_assert_str_eq(undo_of("\033]5;0;red\007\033]19;red;blue\007"), "\033[0m\033]105\a\033]119\a");
	ck_assert_str_eq(undo_of("\033]4;1;?\007\033]11;?\007\033]2;10;red\007\033]1x;a\007\033]99999999999;a\007"),
			 "");
	ck_assert_str_eq(undo_of("\033]4;1;red\007\033]11;red\007\033]104\007\033]111\033\\"), "");
	ck_assert_str_eq(undo_of("\033]4;1;red\007\033]104;1\007"), "\033[0m\033]104\a");
	ck_assert_str_eq(undo_of("\033]11;red\007\033c"), "\033[0m\033]111\a");
	ck_assert_str_eq(undo_of("\033]11;red\030\033]12;red\033[m"), "");
	ck_assert_str_eq(undo_of("\033%@"), "\033[0m\033%G");
	ck_assert_str_eq(undo_of("\033%@\033%G"), "");
}
END_TEST

static unsigned queries_of(const char *bytes)
{
	struct terminal_modes t = TERMINAL_MODES_INIT;

	terminal_modes_feed(&t, bytes, strlen(bytes));
	return terminal_modes_queries(&t);
}

START_TEST(test_queries_are_counted)
{
	ck_assert_uint_eq(queries_of("\033[c\033[>c\033[6n\033[?996n\033[>q\033[?2026$p\033[14t\033[?u\033[?4m"), 9);
	ck_assert_uint_eq(queries_of("\033]10;?;?\007\033]4;1;?;2;?\033\\\033]52;c;?\007"), 5);
	ck_assert_uint_eq(queries_of("\033P+q544e\033\\\033P$qm\033\\\033_Gi=1,a=q;AAAA\033\\"), 3);
	ck_assert_uint_eq(
		queries_of(
			"\033[22;0t\033[8;24;80t\033[2 q\033[>4;2m\033[?1c\033[u\033[=1u\033]0;what?\007\033P0q\033\\"),
		0);
}
END_TEST

START_TEST(test_incomplete_sequences_are_cancelled)
{
	ck_assert_str_eq(undo_of("\033]0;half a ti"), "\030\033[0m");
	ck_assert_str_eq(undo_of("\033[?10"), "\030\033[0m");
	ck_assert_str_eq(undo_of("\033]0;t\033[?1049h"), "\033[0m\033[?1049l");
	ck_assert_str_eq(undo_of("\033[?99999999999999999h\033[1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17;18;19;20;0m"),
			 "");
}
END_TEST

START_TEST(test_modes_are_restored_on_another_terminal)
{
	static const char vim[] =
		"\033[?1049h\033[>4;2m\033[?1h\033=\033[?2004h\033[?1000;1006h\033[1;23r\033[?25l\033[?7l\033[31m"
		"\033[>1u\033[>3u";
	struct terminal_modes here = TERMINAL_MODES_INIT, there = TERMINAL_MODES_INIT;
	buf_auto struct buf redo = BUF_INIT, a = BUF_INIT, b = BUF_INIT;

	terminal_modes_feed(&here, vim, sizeof(vim) - 1);
	terminal_modes_write_restore(&here, &redo);
	ck_assert_str_eq(buf_cstr(&redo), "\033[?1h\033[?1000h\033[?1006h\033[?2004h\033[?7l\033=\033[>4;2m"
					  "\033[>1u\033[>3u\033[1;23r");
	/* together with screen and cursor, which are restored elsewhere, the state is the same */
	buf_reset(&redo);
	buf_str(&redo, "\033[?1049h");
	terminal_modes_write_restore(&here, &redo);
	buf_str(&redo, "\033[?25l\033[31m");
	terminal_modes_feed(&there, redo.data, redo.len);
	terminal_modes_write_reset(&here, &a);
	terminal_modes_write_reset(&there, &b);
	ck_assert_str_eq(buf_cstr(&a), buf_cstr(&b));
}
END_TEST

int main(void)
{
	return SUITE("terminal_modes", test_plain_output_needs_no_reset,
		     test_modes_that_the_program_reset_need_no_reset, test_modes_that_are_still_set_are_reset,
		     test_keyboard_protocol_is_reset_on_both_screens, test_colours_are_reset, test_queries_are_counted,
		     test_incomplete_sequences_are_cancelled, test_modes_are_restored_on_another_terminal);
}
