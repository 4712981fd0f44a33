#include "pty/excerpt.h"

#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <string.h>

static void fill(struct excerpt *x, const char *bytes, size_t n)
{
	x->total = n;
	buf_append(&x->first, bytes + x->from, x->head);
	buf_append(&x->last, bytes + n - x->tail, x->tail);
}

START_TEST(the_budget_is_shared_between_streams)
{
	struct excerpt x[3] = { { .total = 1000 }, { .from = 5, .total = 10 }, { .total = 1000 } };

	excerpt_plan(x, 3, 205);
	ck_assert_uint_eq(x[1].head, 5); /* the short one is shown whole */
	ck_assert_uint_eq(x[1].tail, 0);
	ck_assert_uint_eq(x[0].head + x[0].tail, 100);
	ck_assert_uint_eq(x[2].head + x[2].tail, 100);
	excerpt_plan(x, 3, 100000);
	for (size_t i = 0; i < 3; i++)
		ck_assert_uint_eq(x[i].head, x[i].total - x[i].from);
	/* One that is longer than its equal share, when the other leaves room. */
	struct excerpt y[2] = { { .total = 70 }, { .total = 10 } };
	excerpt_plan(y, 2, 80);
	ck_assert_uint_eq(y[0].head, 70);
	ck_assert_uint_eq(y[0].tail, 0);
	excerpt_plan(y, 0, 80);
}
END_TEST

START_TEST(both_ends_are_shown_and_the_rest_is_counted)
{
	struct excerpt x = { .total = 1000 };
	char bytes[1000];
	buf_auto struct buf out = BUF_INIT;

	memset(bytes, 'a', sizeof(bytes));
	memset(bytes + 500, 'b', 500);
	excerpt_plan(&x, 1, 10);
	fill(&x, bytes, sizeof(bytes));
	ck_assert_uint_eq(excerpt_omitted(&x), 990);
	excerpt_text(&x, &out);
	ck_assert_str_eq(out.data, "aaaaa\n[… 990 bytes left out …]\nbbbbb");
	excerpt_done(&x);
}
END_TEST

/* For every budget. */
START_TEST(characters_are_never_cut)
{
	const char *text = "é€𝄞é€𝄞é€𝄞é€𝄞é€𝄞é€𝄞";

	for (size_t budget = 2; budget < strlen(text); budget++) {
		struct excerpt x = { .total = strlen(text) };
		buf_auto struct buf out = BUF_INIT;

		excerpt_plan(&x, 1, budget);
		fill(&x, text, strlen(text));
		excerpt_text(&x, &out);
		ck_assert_msg(!strstr(out.data, "\\x"), "budget %zu: %s", budget, out.data);
		/* Shown and omitted bytes add up to the total. */
		uint64_t omitted = excerpt_omitted(&x);
		const char *note = strstr(out.data, "[…"), *begin = strchr(note, '\n') + 1;
		size_t before = (size_t)(note - out.data);
		before -= before > 0; /* the line feed before the note */
		ck_assert_uint_eq(before + strlen(begin) + omitted, strlen(text));
		excerpt_done(&x);
	}
}
END_TEST

/* The rest of the character has not been printed yet. */
START_TEST(an_incomplete_character_is_kept_for_the_next_excerpt)
{
	static const char bytes[] = "a\xe2\x82\xac"
				    "b";
	struct excerpt x = { .total = 3, .open = true }, y = { .total = 5 }, binary = { .total = 2 };
	buf_auto struct buf out = BUF_INIT;

	excerpt_plan(&x, 1, 100);
	fill(&x, bytes, 3);
	excerpt_text(&x, &out);
	ck_assert_str_eq(out.data, "a");
	ck_assert_uint_eq(excerpt_end(&x), 1);
	ck_assert_uint_eq(excerpt_omitted(&x), 0);
	y.from = excerpt_end(&x);
	excerpt_plan(&y, 1, 100);
	fill(&y, bytes, 5);
	buf_reset(&out);
	excerpt_text(&y, &out);
	ck_assert_str_eq(out.data, "€b");
	ck_assert_uint_eq(excerpt_end(&y), 5);
	excerpt_plan(&binary, 1, 100);
	fill(&binary, "\xe2\x82", 2); /* without a rest it is shown escaped */
	buf_reset(&out);
	excerpt_text(&binary, &out);
	ck_assert_str_eq(out.data, "\\xe2\\x82");
	excerpt_done(&x);
	excerpt_done(&y);
	excerpt_done(&binary);
}
END_TEST

START_TEST(binary_output_is_reported_and_not_shown_whole)
{
	static const struct {
		const char *repeated;
		size_t n;
		bool text;
	} cases[] = {
		{ "\x80\xff\x01 ", 4, false }, { "\x01", 1, false }, { "word\xe4 ", 6, true }, { "\0a", 2, true },
		{ "\033[31m\r\n", 7, true },   { "é€𝄞", 9, true },
	};

	for (size_t i = 0; i < countof(cases); i++)
		for (int open = 0; open < 2; open++) {
			struct excerpt x = { .open = open };
			buf_auto struct buf bytes = BUF_INIT, out = BUF_INIT;

			while (bytes.len < 5000)
				buf_append(&bytes, cases[i].repeated, cases[i].n);
			x.total = bytes.len;
			excerpt_plan(&x, 1, 3000);
			fill(&x, bytes.data, bytes.len);
			excerpt_text(&x, &out);
			ck_assert_msg((strstr(out.data, "this is not text") == NULL) == cases[i].text, "%zu: %s", i,
				      out.data);
			ck_assert_uint_lt(out.len, 5000);
			ck_assert_uint_eq(excerpt_end(&x), bytes.len);
			if (!cases[i].text)
				ck_assert_uint_eq(excerpt_omitted(&x), bytes.len - 256);
			excerpt_done(&x);
		}
}
END_TEST

START_TEST(the_last_line_is_the_last_nonblank_one_without_sequences)
{
	static const struct {
		const char *bytes, *line;
	} cases[] = {
		{ "", "" },
		{ "\n\n", "" },
		{ "one", "one" },
		{ "one\ntwo\n\n", "two" },
		{ "a\r\033[31m50 %\033[0m", "50 %" },
		{ "x\n  spaced  \n", "  spaced" },
		{ "0123456789abcdef", "0123456789…" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		buf_auto struct buf out = BUF_INIT;

		excerpt_last_line(cases[i].bytes, strlen(cases[i].bytes), 10, &out);
		ck_assert_str_eq(buf_cstr(&out), cases[i].line);
	}
}
END_TEST

int main(void)
{
	return SUITE("excerpt", the_budget_is_shared_between_streams, both_ends_are_shown_and_the_rest_is_counted,
		     characters_are_never_cut, an_incomplete_character_is_kept_for_the_next_excerpt,
		     binary_output_is_reported_and_not_shown_whole,
		     the_last_line_is_the_last_nonblank_one_without_sequences);
}
