#include "runtime/dialect/sse.h"

#include "tests/unit/suite.h"

#include <string.h>

static void show(void *ctx, const char *data, size_t n)
{
	ck_assert_uint_eq(strlen(data), n);
	buf_printf(ctx, "[%s]", data);
}

/* Writes all events of a stream that is cut at a position; a bar marks the end of the stream. */
static void decode(const char *text, size_t n, size_t max, size_t cut, struct buf *out, bool *ret_too_large)
{
	struct sse s;

	sse_init(&s, max);
	for (size_t i = 0; cut > n && i < n; i++)
		sse_feed(&s, text + i, 1, show, out);
	if (cut <= n) {
		sse_feed(&s, text, cut, show, out);
		sse_feed(&s, text + cut, n - cut, show, out);
	}
	buf_str(out, "|");
	sse_finish(&s, show, out);
	*ret_too_large = s.too_large;
	sse_done(&s);
}

static void check(const char *text, size_t max, const char *want, bool too_large)
{
	size_t n = strlen(text);

	for (size_t cut = 0; cut <= n + 1; cut++) {
		buf_auto struct buf out = BUF_INIT;
		bool got;
		decode(text, n, max, cut, &out, &got);
		ck_assert_str_eq(buf_cstr(&out), want);
		ck_assert_int_eq(got, too_large);
	}
}

START_TEST(events_are_the_same_with_every_line_ending)
{
	check("data: a\n\ndata: b\n\n", 100, "[a][b]|", false);
	check("data: a\r\n\r\ndata: b\r\n\r\n", 100, "[a][b]|", false);
	check("data: a\r\rdata: b\r\r", 100, "[a][b]|", false);
	check("data: a\r\n\rdata: b\n\r\n", 100, "[a][b]|", false);
}
END_TEST

START_TEST(only_data_fields_are_returned)
{
	check("\xef\xbb\xbf"
	      "event: x\nid: 7\nretry: 10\n: comment\nunknown\ndata:a\n:\ndata:  b\ndata\n\n\n: OPENROUTER "
	      "PROCESSING\n\ndatum: c\n\n",
	      100, "[a\n b\n]|", false);
}
END_TEST

START_TEST(characters_can_be_split_between_reads)
{
	check("data: \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\n\n", 100, "[\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80]|", false);
}
END_TEST

START_TEST(the_last_event_needs_no_line_ending)
{
	check("data: a\n\ndata: b", 100, "[a]|[b]", false);
	check("data: a\n\ndata: b\n", 100, "[a]|[b]", false);
	check("data: a\n\n: nothing", 100, "[a]|", false);
	check("", 100, "|", false);
}
END_TEST

START_TEST(large_events_are_skipped)
{
	check("data: 12345678\n\ndata: 123456789\n\ndata: a\n\n", 8, "[12345678][a]|", true);
	check("data: 1234\ndata: 567\n\ndata: a\n\n", 8, "[1234\n567][a]|", false);
	check("data: 1234\ndata: 5678\n\ndata: a\n\n", 8, "[a]|", true);
	check(": a comment that is far too long\n\ndata: a\n\n", 8, "[a]|", true);
	check("data: 1\nx: a line that is far too long\n\ndata: 2\n\n", 8, "[2]|", true);
}
END_TEST

int main(void)
{
	return SUITE("sse", events_are_the_same_with_every_line_ending, only_data_fields_are_returned,
		     characters_can_be_split_between_reads, the_last_event_needs_no_line_ending,
		     large_events_are_skipped);
}
