/* The screen that results from a terminal's output. */

#include "pty/screen.h"
#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <limits.h>

static void feed(struct screen *s, const char *text) { screen_feed(s, text, strlen(text)); }

static struct screen *shown(unsigned rows, unsigned cols, const char *text)
{
	struct screen *s = screen_new(rows, cols, NULL);

	feed(s, text);
	return s;
}

static void expect_text(const struct screen *s, unsigned scrollback, const char *text)
{
	buf_auto struct buf b = BUF_INIT;

	screen_text(s, scrollback, &b);
	ck_assert_str_eq(buf_cstr(&b), text);
}

static void expect_drawn(const struct screen *s, uint64_t after, const char *text)
{
	buf_auto struct buf b = BUF_INIT;

	screen_drawn_after(s, after, false, &b);
	ck_assert_str_eq(buf_cstr(&b), text);
}

static void expect_cells(const struct screen *s, const char *json)
{
	buf_auto struct buf b = BUF_INIT;
	struct jw w = jw_on(&b);

	screen_cells(s, 0, &w);
	ck_assert_str_eq(buf_cstr(&b), json);
}

static uint64_t offset_of(const struct screen *s)
{
	struct screen_info i;

	screen_info(s, &i);
	return i.offset;
}

START_TEST(text_has_no_trailing_blanks)
{
	struct screen *s = shown(5, 20, "one   \r\n\r\n  two\r\n");
	buf_auto struct buf b = BUF_INIT;
	struct jw w = jw_on(&b);

	expect_text(s, 0, "one\n\n  two\n");
	screen_lines(s, 0, &w);
	ck_assert_str_eq(b.data, "[\"one\",\"\",\"  two\",\"\",\"\"]");
	screen_free(s);
	s = screen_new(5, 20, NULL);
	expect_text(s, 0, "");
	screen_free(s);
}
END_TEST

START_TEST(info_has_cursor_title_and_alternate_screen)
{
	struct screen *s = shown(
		10, 40, "$ vi\r\n\033]0;a t\xc3\xaftle\007\033[?1049h\033[H\033[2Jedit\033[3;7H\033[?25l\033[4 q");
	struct screen_info i;

	screen_info(s, &i);
	ck_assert(i.alternate && !i.cursor_visible);
	ck_assert_uint_eq(i.cursor_row, 2);
	ck_assert_uint_eq(i.cursor_col, 6);
	ck_assert_int_eq(i.cursor_shape, SCREEN_SHAPE_UNDERLINE);
	ck_assert_str_eq(i.title, "a t\xc3\xaftle");
	expect_text(s, 0, "edit\n");
	feed(s, "\033[?25h\033[?1049l");
	screen_info(s, &i);
	ck_assert(!i.alternate && i.cursor_visible);
	expect_text(s, 0, "$ vi\n");
	screen_free(s);
}
END_TEST

START_TEST(titles_are_clean_and_bounded)
{
	struct screen *s = shown(5, 20, "\033]2;x\xc2\x9b y\007");
	mem_auto char *title = mem_zalloc(2000, 1);
	struct screen_info i;

	screen_info(s, &i);
	ck_assert_str_eq(i.title, "x y");
	memset(title, 'a', 1500);
	feed(s, "\033]2;");
	feed(s, title);
	feed(s, "\007");
	screen_info(s, &i);
	ck_assert_uint_le(strlen(i.title), 256);
	screen_free(s);
}
END_TEST

START_TEST(wide_and_combining_characters_occupy_their_cells)
{
	struct screen *s = shown(3, 6,
				 "a\xe6\xbc\xa2"
				 "b\r\ne\xcc\x81x\r\nabcde\xe5\xad\x97");

	/* a wide character does not fit the last column: it goes to the next line, and the first one scrolls out */
	expect_text(s, UINT_MAX,
		    "a\xe6\xbc\xa2"
		    "b\ne\xcc\x81x\nabcde\n\xe5\xad\x97\n");
	expect_cells(s, "[[{\"text\":\"e\xcc\x81\",\"combined\":true},{\"text\":\"x\"}],[{\"text\":\"abcde\"}],"
			"[{\"text\":\"\xe5\xad\x97\",\"width\":2}]]");
	screen_free(s);
}
END_TEST

START_TEST(characters_and_sequences_can_be_split_between_feeds)
{
	static const char text[] = "\xe6\xbc\xa2\xf0\x9f\x8e\x89 \033[1;31mred";
	struct screen *s = screen_new(2, 20, NULL);

	for (size_t i = 0; i + 1 < sizeof(text); i++)
		screen_feed(s, text + i, 1);
	expect_text(s, 0, "\xe6\xbc\xa2\xf0\x9f\x8e\x89 red\n");
	screen_free(s);
	s = shown(2, 20, "ab\xe6");
	feed(s, "\xbc\xa2\033[Kc\xe6\xbc");
	feed(s, "\xa2");
	expect_text(s, 0,
		    "ab\xe6\xbc\xa2"
		    "c\xe6\xbc\xa2\n");
	screen_free(s);
}
END_TEST

/* libvterm selects the set once for all text of a call. */
START_TEST(character_sets_do_not_depend_on_the_split)
{
	static const char text[] = "\033(0q\xc3\xa9q\033(Bq\xc3\xa9q";
	struct screen *whole = shown(2, 20, text), *bytes = screen_new(2, 20, NULL);

	for (size_t i = 0; i + 1 < sizeof(text); i++)
		screen_feed(bytes, text + i, 1);
	expect_text(whole, 0, "\xe2\x94\x80\xc3\xa9\xe2\x94\x80q\xc3\xa9q\n");
	expect_text(bytes, 0, "\xe2\x94\x80\xc3\xa9\xe2\x94\x80q\xc3\xa9q\n");
	screen_free(whole);
	screen_free(bytes);
}
END_TEST

/* libvterm would put the mark into the next row. */
START_TEST(marks_on_the_last_column_do_not_depend_on_the_split)
{
	static const char *const texts[] = { "abce\xcc\x81\xcc\x82x", "ab\xe6\xbc\xa2\xcc\x81x",
					     "\033[?7labcde\xcc\x81", "\033(0\0338abce\xcc\x81x" };

	for (size_t k = 0; k < countof(texts); k++) {
		struct screen *whole = shown(2, 4, texts[k]), *bytes = screen_new(2, 4, NULL);
		buf_auto struct buf b = BUF_INIT;
		struct jw w = jw_on(&b);

		for (size_t i = 0; texts[k][i]; i++)
			screen_feed(bytes, texts[k] + i, 1);
		screen_cells(whole, 0, &w);
		ck_assert_ptr_nonnull(strstr(buf_cstr(&b), "\xcc\x81"));
		expect_cells(bytes, buf_cstr(&b));
		screen_free(whole);
		screen_free(bytes);
	}
}
END_TEST

START_TEST(marks_after_skipped_output_do_not_depend_on_the_split)
{
	struct screen *whole = shown(2, 2, "ab"), *bytes = shown(2, 2, "ab");
	buf_auto struct buf b = BUF_INIT;
	struct jw w = jw_on(&b);

	screen_skip(whole, 10);
	screen_skip(bytes, 10);
	screen_feed(whole, "\xd9\x9a", 2);
	screen_feed(bytes, "\xd9", 1);
	screen_feed(bytes, "\x9a", 1);
	screen_cells(whole, 0, &w);
	expect_cells(bytes, buf_cstr(&b));
	screen_free(whole);
	screen_free(bytes);
}
END_TEST

START_TEST(lines_of_double_width_or_height_have_the_usual_size)
{
	static const char *const orders[] = { "\033#3", "\033#4", "\033#6", "" };

	for (size_t i = 0; i < countof(orders); i++) {
		struct screen *s = shown(2, 4, orders[i]);

		feed(s, "abcde");
		expect_text(s, 0, "abcd\ne\n");
		screen_free(s);
	}
}
END_TEST

/* With more than 16 parameters in one sequence libvterm would overwrite its memory. */
START_TEST(a_pen_with_every_attribute_and_two_direct_colours_is_restored)
{
	struct screen *s = shown(1, 4, "\033[1;3;4;5;7;9m\033[38;2;1;2;3m\033[48;2;4;5;6m\0337\033[0m\0338x");
	buf_auto struct buf ansi = BUF_INIT;

	expect_cells(s, "[[{\"text\":\"x\",\"fg\":\"#010203\",\"bg\":\"#040506\",\"bold\":true,\"italic\":true,"
			"\"underline\":true,\"blink\":true,\"reverse\":true,\"strike\":true}]]");
	screen_ansi(s, 0, true, &ansi);
	for (const char *at = buf_cstr(&ansi); (at = strstr(at, "\033[")); at += 2) {
		size_t parameters = 1;

		for (const char *p = at + 2; (*p >= '0' && *p <= '9') || *p == ';'; p++)
			parameters += *p == ';';
		ck_assert_uint_le(parameters, 16);
	}
	screen_free(s);
}
END_TEST

START_TEST(cells_have_colours_and_attributes)
{
	struct screen *s = shown(1, 30, "\033[32mg\033[1;38;5;200mp\033[0;48;2;1;2;255;4;7mt\033[0m n");

	expect_cells(s, "[[{\"text\":\"g\",\"fg\":2},{\"text\":\"p\",\"fg\":200,\"bold\":true},"
			"{\"text\":\"t\",\"bg\":\"#0102ff\",\"underline\":true,\"reverse\":true},{\"text\":\" n\"}]]");
	screen_free(s);
}
END_TEST

/* The ANSI form of a screen, drawn on another screen, gives the same screen. */
START_TEST(ansi_output_redraws_the_same_screen)
{
	static const char *const outputs[] = {
		"plain\r\ntext",
		"\033[41mbackground\033[K\r\n\033[0;3;9mx\033[m\r\n\033[5;5Hat",
		"\xe6\xbc\xa2\xe5\xad\x97 e\xcc\x81 \033[91;104mbright\033[0m",
		"1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\033[2;2H\033[?25l",
		"\033[?1049h\033[7mstatus line that fills it all here\033[m\033[6;1H~",
		"\xe6\xbc\xa2\xe5\xad\x97z\033[1Gx\r\n\xe6\xbc\xa2\xe5\xad\x97z\033[2Gx\033[4Gy",
	};

	for (size_t k = 0; k < countof(outputs); k++) {
		struct screen *a = shown(6, 20, outputs[k]),
			      *b = shown(6, 20, "something\r\nelse\033[3;4Hthere\033[44m");
		buf_auto struct buf ansi = BUF_INIT, ca = BUF_INIT, cb = BUF_INIT;
		struct jw wa = jw_on(&ca), wb = jw_on(&cb);
		struct screen_info ia, ib;

		screen_ansi(a, 0, false, &ansi);
		screen_feed(b, ansi.data, ansi.len);
		screen_cells(a, 0, &wa);
		screen_cells(b, 0, &wb);
		ck_assert_str_eq(ca.data, cb.data);
		screen_info(a, &ia);
		screen_info(b, &ib);
		ck_assert_uint_eq(ia.cursor_row, ib.cursor_row);
		ck_assert_uint_eq(ia.cursor_col, ib.cursor_col);
		ck_assert_int_eq(ia.cursor_visible, ib.cursor_visible);
		screen_free(a);
		screen_free(b);
	}
}
END_TEST

/* Whatever half of a wide character is left, each other character stays in its column. */
START_TEST(overwritten_halves_of_wide_characters_are_blanks)
{
	struct screen *s = shown(3, 8, "\xe6\xbc\xa2z\033[1Gx\r\n\xe6\xbc\xa2z\033[2G\xc3\xa9\r\n123456\xe6\xbc\xa2");

	expect_text(s, 0, "x z\n \xc3\xa9z\n123456\xe6\xbc\xa2\n");
	expect_cells(s, "[[{\"text\":\"x z\"}],[{\"text\":\" \xc3\xa9z\"}],[{\"text\":\"123456\"},"
			"{\"text\":\"\xe6\xbc\xa2\",\"width\":2}]]");
	screen_resize(s, 3, 7);
	expect_text(s, 0, "x z\n \xc3\xa9z\n123456\n");
	screen_free(s);
}
END_TEST

/* Drawn on a terminal in origin and insert mode, and with these modes restored, the cursor is where it was. */
START_TEST(ansi_output_keeps_the_cursor_in_origin_mode)
{
	struct screen *a = shown(6, 20, "top\033[3;5r\033[?6h\033[2;4Hx"),
		      *b = shown(6, 20, "\033[2;4r\033[?6h\033[4habc");
	buf_auto struct buf ansi = BUF_INIT;
	struct screen_info i;

	screen_ansi(a, 0, true, &ansi);
	screen_feed(b, ansi.data, ansi.len);
	expect_text(b, 0, "top\n\n\n   x\n");
	screen_info(b, &i);
	ck_assert_uint_eq(i.cursor_row, 3);
	ck_assert_uint_eq(i.cursor_col, 4);
	feed(b, "\033[1;1Hy"); /* counts from the region's first row */
	expect_text(b, 0, "top\n\ny\n   x\n");
	screen_free(a);
	screen_free(b);
}
END_TEST

/* A client that attaches later gets all state that it needs to continue. */
START_TEST(ansi_output_with_modes_restores_the_terminal_state)
{
	struct screen *s = shown(
		6, 20,
		"\033[?1049h\033[?1h\033=\033[?2004h\033[?1000;1006h\033[2;5r\033[3;4H\033[1;38;5;77m\033[?25lx");
	buf_auto struct buf plain = BUF_INIT, modes = BUF_INIT;

	screen_ansi(s, 0, false, &plain);
	ck_assert_ptr_null(strstr(plain.data, "1049"));
	ck_assert_ptr_null(strstr(plain.data, "1000"));
	screen_ansi(s, 0, true, &modes);
	static const char *const on[] = { "\033[?1h",
					  "\033=",
					  "\033[?2004h",
					  "\033[?1000h",
					  "\033[?1006h",
					  "\033[2;5r",
					  "\033[?25l\033[0;1;38;5;77m" };
	for (size_t i = 0; i < countof(on); i++)
		ck_assert_msg(strstr(modes.data, on[i]) != NULL, "%s", on[i] + 1);
	/* margins move the cursor, so its position is set after them */
	ck_assert_ptr_nonnull(strstr(strstr(modes.data, "\033[2;5r"), "\033[3;5H"));
	screen_free(s);
}
END_TEST

START_TEST(scrollback_is_bounded)
{
	const struct screen_limits few = { .lines = 5, .bytes = 1 << 20 }, small = { .lines = 1000, .bytes = 2000 };
	struct screen *s = screen_new(2, 10, &few), *t = screen_new(2, 10, &small);
	struct screen_info i;

	for (int n = 0; n < 100; n++) {
		char line[16];

		snprintf(line, sizeof(line), "%d\r\n", n);
		feed(s, line);
		feed(t, line);
	}
	screen_info(s, &i);
	ck_assert_uint_eq(i.scrollback, 5);
	expect_text(s, UINT_MAX, "94\n95\n96\n97\n98\n99\n");
	expect_text(s, 1, "98\n99\n");
	expect_text(s, 0, "99\n");
	screen_info(t, &i);
	ck_assert(i.scrollback > 2 && i.scrollback < 50);
	screen_free(s);
	screen_free(t);
}
END_TEST

START_TEST(a_resize_moves_lines_between_screen_and_scrollback)
{
	struct screen *s = shown(4, 10, "1\r\n2\r\n3\r\n4");
	struct screen_info i;

	screen_resize(s, 2, 10);
	expect_text(s, 0, "3\n4\n");
	expect_text(s, UINT_MAX, "1\n2\n3\n4\n");
	screen_resize(s, 4, 20);
	expect_text(s, 0, "1\n2\n3\n4\n"); /* restored from the scrollback */
	feed(s, "\033[4;20Hx");
	expect_text(s, 0, "1\n2\n3\n4                  x\n");
	screen_resize(s, 0, 0);
	screen_info(s, &i);
	ck_assert(screen_size_ok(i.rows, i.cols));
	screen_resize(s, 100000, 100000);
	screen_info(s, &i);
	ck_assert(screen_size_ok(i.rows, i.cols));
	screen_free(s);
}
END_TEST

START_TEST(replies_are_returned_once_and_bounded)
{
	struct screen *s = shown(24, 80, "\033[5;6H\033[6n");
	buf_auto struct buf out = BUF_INIT;

	screen_replies(s, &out);
	ck_assert_str_eq(buf_cstr(&out), "\033[5;6R");
	screen_replies(s, &out);
	ck_assert_uint_eq(out.len, 6);
	for (int n = 0; n < 10000; n++)
		feed(s, "\033[c");
	buf_reset(&out);
	screen_replies(s, &out);
	ck_assert(out.len > 0 && out.len <= SCREEN_REPLY_MAX);
	screen_free(s);
}
END_TEST

/* After a command is typed, waiting for a prompt ignores the old one. */
START_TEST(only_output_after_an_offset_is_returned)
{
	struct screen *s = shown(5, 30, "welcome\r\n$ ");
	uint64_t then = offset_of(s);

	expect_drawn(s, 0, "welcome\n$ \n\n\n\n");
	expect_drawn(s, then, "");
	feed(s, "make");
	expect_drawn(s, then, "make\n");
	feed(s, "\r\nok\r\n$ ");
	expect_drawn(s, then, "make\nok\n$ \n");
	feed(s, "seq 9\r\n1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9\r\n$ ");
	/* also what has scrolled out */
	expect_drawn(s, then, "make\nok\n$ seq 9\n1\n2\n3\n4\n5\n6\n7\n8\n9\n$ \n");
	screen_free(s);
}
END_TEST

START_TEST(leaving_the_alternate_screen_draws_nothing_new)
{
	struct screen *s = shown(5, 30, "$ vi\r\n\033[?1049h\033[2J\033[Hhello");
	uint64_t then = offset_of(s);

	feed(s, "\033[?1049l");
	expect_drawn(s, then, "");
	feed(s, "$ ");
	expect_drawn(s, then, "$ \n");
	screen_free(s);
}
END_TEST

START_TEST(skipped_output_is_counted)
{
	struct screen *s = shown(5, 30, "before\r\n\033[3");
	struct screen_info i;

	screen_skip(s, 1000);
	feed(s, "after");
	screen_info(s, &i);
	ck_assert_uint_eq(i.skipped, 1000);
	ck_assert_uint_eq(i.offset, 11 + 1000 + 5);
	expect_text(s, 0, "before\nafter\n");
	screen_free(s);
}
END_TEST

/* libvterm would keep them all and scan them again for each one. */
START_TEST(combining_characters_of_a_cell_are_bounded)
{
	struct screen *s = shown(3, 10, "a");
	mem_auto char *flood = mem_alloc(65536);

	for (size_t i = 0; i < 65536; i += 2)
		memcpy(flood + i, "\xcc\x81", 2);
	for (int n = 0; n < 200; n++) {
		screen_feed(s, flood, 65536);
		feed(s, "\033[m");
	}
	feed(s, "b\r\n\xe6\xbc\xa2");
	expect_text(s, 0,
		    "a\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81"
		    "b\n\xe6\xbc\xa2\n");
	screen_free(s);
}
END_TEST

/* A flood is not drawn line by line, and the result is the same. */
START_TEST(skimming_gives_the_same_screen)
{
	static const char *const units[] = {
		"y\r\n",
		"line\033[K\r\n",
		"\033[1;3%dmcoloured \xe6\xbc\xa2\033[K line %d\r\n",
		"a long line that wraps around %d and continues\r\n",
		"stairs %d\n",
		"no end of a line %d;",
		"%d\r\n\033[3;5r",
		"%d\r\n\033[?1049h",
		"\033[2A%d\033[2B\r\n",
		"%d\r\n\033[4;3",
	};
	const struct screen_limits limits = { .lines = 20, .bytes = 100000 };

	for (size_t k = 0; k < countof(units); k++) {
		struct screen *a = screen_new(6, 20, &limits), *b = screen_new(6, 20, &limits);
		buf_auto struct buf flood = BUF_INIT, ca = BUF_INIT, cb = BUF_INIT;
		struct jw wa = jw_on(&ca), wb = jw_on(&cb);
		size_t skimmed;

		feed(a, "stale\r\nlines\r\nhere\033[2;3H");
		feed(b, "stale\r\nlines\r\nhere\033[2;3H");
		for (int n = 0; n < 300; n++) {
			char line[100];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
			snprintf(line, sizeof(line), units[k], n % 8, n);
#pragma GCC diagnostic pop
			buf_str(&flood, line);
		}
		screen_feed(a, flood.data, flood.len);
		skimmed = screen_skim(b, flood.data, flood.len);
		ck_assert_uint_eq(skimmed > flood.len / 2, k < 4);
		screen_feed(b, flood.data + skimmed, flood.len - skimmed);
		ck_assert_uint_eq(offset_of(a), offset_of(b));
		feed(a, "now");
		feed(b, "now");
		screen_cells(a, UINT_MAX, &wa);
		screen_cells(b, UINT_MAX, &wb);
		ck_assert_msg(strcmp(ca.data, cb.data) == 0, "after lines of '%s'", units[k]);
		screen_free(a);
		screen_free(b);
	}
}
END_TEST

/* Control strings that libvterm does not support. */
START_TEST(control_strings_are_neither_shown_nor_answered)
{
	struct screen *s = shown(3, 40,
				 "a\033P$qi\033\\b\033_Gf=1\033\\c\033\001\177P$qm\033\\d\033ktitle\033\\e\033^x\007f");
	buf_auto struct buf out = BUF_INIT;

	expect_text(s, 0, "abcdef\n");
	screen_replies(s, &out);
	ck_assert_uint_eq(out.len, 0);
	screen_free(s);
}
END_TEST

/* Sequences that no program writes, some of which libvterm handles badly, leave nothing on the screen. */
START_TEST(malformed_sequences_are_not_shown)
{
	struct screen *s = screen_new(4, 40, NULL);
	mem_auto char *many = mem_zalloc(5000, 1);

	memset(many, ':', 4000);
	feed(s, "a\033[1");
	feed(s, many);
	feed(s, "mb\033[99999999999999999999Cc\033[999999999999;5Hd\033[?\030e\033[1\r\n;3Hf\033[>>>4;2mg\033[ "
		"!qh\033%@i\033[31\xc3\xa9");
	expect_text(s, UINT_MAX, "ab                                     c\n  fghi\xc3\xa9\n\n    de\n");
	screen_free(s);
}
END_TEST

START_TEST(repetition_is_bounded)
{
	struct screen *s = shown(2, 30, "x\033[4b-\xe6\xbc\xa2\033[b");

	expect_text(s, 0, "xxxxx-\xe6\xbc\xa2\xe6\xbc\xa2\n");
	feed(s, "\033[99999999b");
	ck_assert_uint_eq(offset_of(s), 23);
	screen_free(s);
}
END_TEST

START_TEST(control_characters_are_never_shown)
{
	struct screen *s = shown(4, 30,
				 "a\xc2\x85"
				 "b\xc2\x9b"
				 "31mc\x9b"
				 "1md\x01\x7f\xe2\x80\xae"
				 "e\033]52;c;aGk=\007f\033]8;;http://x\033\\g");
	buf_auto struct buf b = BUF_INIT;

	screen_text(s, 0, &b);
	for (size_t i = 0; i < b.len; i++) {
		ck_assert((unsigned char)b.data[i] >= 0x20 || b.data[i] == '\n');
		ck_assert(!(b.data[i] == '\xc2' && (unsigned char)b.data[i + 1] < 0xa0));
	}
	ck_assert_ptr_nonnull(strstr(b.data, "fg"));
	screen_free(s);
}
END_TEST

static void expect_cursor(const struct screen *s, unsigned row, unsigned col)
{
	struct screen_info i;

	screen_info(s, &i);
	ck_assert_uint_eq(i.cursor_row, row);
	ck_assert_uint_eq(i.cursor_col, col);
	ck_assert(i.cursor_visible);
}

/* Also with the alternate screen's sequence, which many programs write at their end. */
START_TEST(a_cursor_that_was_not_saved_is_restored_to_the_first_cell)
{
	static const char *const restores[] = { "\0338", "\033[u", "\033[?1048l", "\033[?1049l" };

	for (size_t i = 0; i < countof(restores); i++) {
		struct screen *s = shown(2, 10, "abc\r\n\033[31m\033(0");

		feed(s, restores[i]);
		expect_cursor(s, 0, 0);
		feed(s, "q");
		expect_cells(s, "[[{\"text\":\"qbc\"}],[]]");
		screen_free(s);
	}
}
END_TEST

START_TEST(a_saved_cursor_has_pen_sets_and_origin_mode)
{
	struct screen *s = shown(6, 10, "\033[3;5r\033[?6h\033[2;2H\033[32m\033(0\0337\033[r\033[?6l\033[m\033(B");

	feed(s, "\033[3;5r\033[6;1H\0338q\033[1;1Hx");
	expect_cells(s, "[[],[],[{\"text\":\"\xe2\x94\x82\",\"fg\":2}],[{\"text\":\" \"},"
			"{\"text\":\"\xe2\x94\x80\",\"fg\":2}],[],[]]");
	screen_free(s);
	/* whether it is shown, and how, is not saved */
	s = shown(2, 10, "\033[?25l\0337\033[?25h\033[5 q\0338");
	struct screen_info i;
	screen_info(s, &i);
	ck_assert(i.cursor_visible && i.cursor_shape == SCREEN_SHAPE_BAR);
	screen_free(s);
}
END_TEST

START_TEST(each_screen_saves_its_own_cursor)
{
	struct screen *s = shown(4, 10, "one\r\n$ \033[?1049h\033[4;4H\0337\033[1;1H\0338z");

	expect_cursor(s, 3, 4);
	feed(s, "\033[?1049lx");
	expect_text(s, 0, "one\n$ x\n");
	feed(s, "\033[s\033[4;1Hstatus\033[uy");
	expect_text(s, 0, "one\n$ xy\n\nstatus\n");
	screen_free(s);
}
END_TEST

/* As in xterm. */
START_TEST(movements_stop_at_the_edges_of_the_region)
{
	static const struct {
		const char *text;
		unsigned row, col;
	} cases[] = {
		{ "\033[4;3H\033[9A", 2, 2 }, { "\033[4;3H\033[9B", 5, 2 }, { "\033[4;3H\033[9E", 5, 0 },
		{ "\033[4;3H\033[9F", 2, 0 }, { "\033[2;3H\033[9A", 0, 2 }, { "\033[7;3H\033[9B", 7, 2 },
		{ "\033[2;3H\033[9B", 5, 2 }, { "\033[7;3H\033[9A", 2, 2 }, { "\033[3;3H\033[A", 2, 2 },
		{ "\033[3;3H\033[F", 2, 0 },  { "\033[4;3H\033[A", 2, 2 },
	};

	for (size_t i = 0; i < countof(cases); i++) {
		struct screen *s = shown(8, 10, "\033[3;6r");

		feed(s, cases[i].text);
		expect_cursor(s, cases[i].row, cases[i].col);
		screen_free(s);
	}
}
END_TEST

START_TEST(characters_are_inserted_and_deleted_outside_the_region)
{
	struct screen *s = shown(4, 10, "\033[1;2rabc\033[4;1Hdef\033[4;2H\033[P\033[2@x");

	expect_text(s, 0, "abc\n\n\ndx f\n");
	expect_cursor(s, 3, 2);
	feed(s, "\033[2;1H\r\n1\r\n2");
	expect_text(s, 0, "1\n2\n\ndx f\n"); /* and the region is still there */
	screen_free(s);
	/* one of less than two rows is ignored */
	s = shown(3, 10, "\033[1;2r\033[3;1Hend\033[2;2r");
	expect_cursor(s, 2, 3);
	screen_free(s);
}
END_TEST

int main(void)
{
	return SUITE("screen", text_has_no_trailing_blanks, info_has_cursor_title_and_alternate_screen,
		     titles_are_clean_and_bounded, wide_and_combining_characters_occupy_their_cells,
		     characters_and_sequences_can_be_split_between_feeds, character_sets_do_not_depend_on_the_split,
		     marks_on_the_last_column_do_not_depend_on_the_split,
		     marks_after_skipped_output_do_not_depend_on_the_split,
		     lines_of_double_width_or_height_have_the_usual_size,
		     a_pen_with_every_attribute_and_two_direct_colours_is_restored, cells_have_colours_and_attributes,
		     ansi_output_redraws_the_same_screen, overwritten_halves_of_wide_characters_are_blanks,
		     ansi_output_keeps_the_cursor_in_origin_mode, ansi_output_with_modes_restores_the_terminal_state,
		     scrollback_is_bounded, a_resize_moves_lines_between_screen_and_scrollback,
		     replies_are_returned_once_and_bounded, only_output_after_an_offset_is_returned,
		     leaving_the_alternate_screen_draws_nothing_new, skipped_output_is_counted,
		     combining_characters_of_a_cell_are_bounded, skimming_gives_the_same_screen,
		     control_strings_are_neither_shown_nor_answered, malformed_sequences_are_not_shown,
		     repetition_is_bounded, control_characters_are_never_shown,
		     a_cursor_that_was_not_saved_is_restored_to_the_first_cell,
		     a_saved_cursor_has_pen_sets_and_origin_mode, each_screen_saves_its_own_cursor,
		     movements_stop_at_the_edges_of_the_region, characters_are_inserted_and_deleted_outside_the_region);
}
