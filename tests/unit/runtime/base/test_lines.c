#include "runtime/base/lines.h"

#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

static const char text[] = "one\n\ntwo two\nthree";

/* The lines are the same whatever pieces the bytes arrive in. */
START_TEST(lines_are_the_same_for_every_split)
{
	for (size_t piece = 1; piece <= sizeof text; piece++) {
		struct lines l;
		struct buf got = BUF_INIT;
		const char *line;
		size_t len;
		lines_init(&l, 100);
		for (size_t at = 0; at < sizeof text - 1; at += piece) {
			size_t n = sizeof text - 1 - at < piece ? sizeof text - 1 - at : piece;
			lines_add(&l, text + at, n);
			while (lines_next(&l, &line, &len) == LINES_LINE)
				buf_printf(&got, "[%.*s]", (int)len, line);
		}
		ck_assert_str_eq(got.data, "[one][][two two]");
		ck_assert_int_eq(lines_rest(&l, &line, &len), LINES_LINE);
		ck_assert_int_eq(len, 5);
		ck_assert_mem_eq(line, "three", 5);
		ck_assert_int_eq(lines_rest(&l, &line, &len), LINES_NONE);
		buf_done(&got);
		lines_done(&l);
	}
}
END_TEST

START_TEST(a_line_that_is_too_long_is_reported_once_and_skipped)
{
	for (size_t piece = 1; piece < 70; piece++) {
		struct lines l;
		struct buf got = BUF_INIT, in = BUF_INIT;
		const char *line;
		size_t len;
		buf_printf(&in, "%010d\n%050d\n%011d\nok\n", 1, 2, 3);
		lines_init(&l, 10);
		for (size_t at = 0; at < in.len; at += piece) {
			enum lines_next what;
			lines_add(&l, in.data + at, in.len - at < piece ? in.len - at : piece);
			while ((what = lines_next(&l, &line, &len)) != LINES_NONE)
				buf_printf(&got, "%c%d ", what == LINES_LINE ? 'L' : 'T',
					   what == LINES_LINE ? (int)len : 0);
			ck_assert_uint_le(lines_buffered(&l), 10);
		}
		ck_assert_str_eq(got.data, "L10 T0 T0 L2 ");
		buf_done(&got);
		buf_done(&in);
		lines_done(&l);
	}
}
END_TEST

START_TEST(an_idle_reader_holds_no_memory)
{
	struct lines l;
	const char *line;
	size_t len;
	lines_init(&l, 1000);
	lines_add(&l, "abc\n", 4);
	ck_assert_int_eq(lines_next(&l, &line, &len), LINES_LINE);
	ck_assert_int_eq(lines_next(&l, &line, &len), LINES_NONE);
	ck_assert_uint_eq(l.buf.cap, 0);
	lines_add(&l, "half", 4);
	ck_assert_int_eq(lines_next(&l, &line, &len), LINES_NONE);
	lines_skip(&l);
	ck_assert_uint_eq(l.buf.cap, 0);
	lines_add(&l, " a line\nnext\n", 13);
	ck_assert_int_eq(lines_next(&l, &line, &len), LINES_LINE);
	ck_assert_int_eq(len, 4);
	lines_done(&l);
}
END_TEST

int main(void)
{
	return SUITE("lines", lines_are_the_same_for_every_split, a_line_that_is_too_long_is_reported_once_and_skipped,
		     an_idle_reader_holds_no_memory);
}
