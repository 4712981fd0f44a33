/* Recordings: those written follow the format, and those of other programs can be played. */

#include "pty/recording.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

static const struct recording_header plain = { .cols = 80, .rows = 24 };

START_TEST(headers_are_written_and_read_back)
{
	const struct recording_header h = {
		.cols = 100,
		.rows = 30,
		.timestamp_s = 1504467315,
		.duration_s = 1.5,
		.command = "vi \"x\"",
		.term = "xterm-256color",
	};
	struct recording_header back = { 0 };
	buf_auto struct buf out = BUF_INIT;
	struct recording r;
	struct err e = ERR_INIT;

	recording_begin(&r, &h, 0, &out);
	ck_assert_str_eq(out.data,
			 "{\"version\":2,\"width\":100,\"height\":30,\"timestamp\":1504467315,\"duration\":1.5,"
			 "\"command\":\"vi \\\"x\\\"\",\"env\":{\"TERM\":\"xterm-256color\"}}\n");
	ck_assert_int_eq(recording_parse_header(out.data, out.len, &back, &e), 0);
	ck_assert_uint_eq(back.cols, 100);
	ck_assert_uint_eq(back.rows, 30);
	ck_assert_str_eq(back.command, "vi \"x\"");
	ck_assert_str_eq(back.term, "xterm-256color");
	ck_assert_ptr_null(back.title);
	recording_header_free(&back);
}
END_TEST

START_TEST(events_are_written_with_relative_times)
{
	buf_auto struct buf out = BUF_INIT;
	struct recording r;

	recording_begin(&r, &plain, 1000000, &out);
	buf_reset(&out);
	recording_output(&r, 1250000, "a\033[1mb\r\n", 8, &out);
	recording_resize(&r, 2000001, 40, 120, &out);
	recording_output(&r, 1500000, "q", 1, &out); /* the clock went back */
	recording_output(&r, 4000000, "", 0, &out);
	recording_end(&r, &out);
	ck_assert_str_eq(out.data, "[0.250000,\"o\",\"a\\u001b[1mb\\r\\n\"]\n[1.000001,\"r\",\"120x40\"]\n"
				   "[1.000001,\"o\",\"q\"]\n");
}
END_TEST

START_TEST(split_characters_are_joined)
{
	buf_auto struct buf out = BUF_INIT;
	struct recording r;

	recording_begin(&r, &plain, 0, &out);
	buf_reset(&out);
	recording_output(&r, 1, "x\xe6\xbc", 3, &out);
	recording_output(&r, 2, "\xa2", 1, &out);
	recording_output(&r, 3, "\xff\xe6", 2, &out);
	recording_end(&r, &out);
	ck_assert_str_eq(
		out.data,
		"[0.000001,\"o\",\"x\"]\n[0.000002,\"o\",\"\xe6\xbc\xa2\"]\n[0.000003,\"o\",\"\xef\xbf\xbd\"]\n"
		"[0.000003,\"o\",\"\xef\xbf\xbd\"]\n");
}
END_TEST

START_TEST(events_are_read_and_invalid_ones_rejected)
{
	static const char *const bad[] = {
		"{}",
		"[1,\"o\"]",
		"[\"1\",\"o\",\"x\"]",
		"[-1,\"o\",\"x\"]",
		"[1e300,\"o\",\"x\"]",
		"[1,\"r\",\"80\"]",
		"[1,\"r\",\"0x0\"]",
		"[1,\"r\",\"80x24x\"]",
		"[1,\"o\",5]",
		"[1,\"o\",\"x\"",
		"null",
	};
	static const char good[] = "[1.5, \"o\", \"hi\\u0000!\"]\r";
	struct recording_event ev = { 0 };
	struct err e = ERR_INIT;

	ck_assert_int_eq(recording_parse_event(good, strlen(good), &ev, &e), 0);
	ck_assert_uint_eq(ev.at_us, 1500000);
	ck_assert_uint_eq(ev.data.len, 4);
	ck_assert_int_eq(ev.code, 'o');
	ck_assert_int_eq(recording_parse_event("[2, \"r\", \"90x30\"]", 17, &ev, &e), 0);
	ck_assert_uint_eq(ev.cols, 90);
	ck_assert_uint_eq(ev.rows, 30);
	ck_assert_int_eq(recording_parse_event(" \r", 2, &ev, &e), 1);
	for (size_t i = 0; i < countof(bad); i++) {
		struct err why = ERR_INIT;

		ck_assert_msg(recording_parse_event(bad[i], strlen(bad[i]), &ev, &why) < 0, "%s", bad[i]);
		ck_assert(why.message[0]);
	}
	recording_event_done(&ev);
}
END_TEST

START_TEST(invalid_headers_are_rejected_with_the_field)
{
	static const struct {
		const char *line, *field;
	} bad[] = {
		{ "{\"version\":1,\"width\":80,\"height\":24}", "version" },
		{ "{\"version\":2,\"height\":24}", "width" },
		{ "{\"version\":2,\"width\":80,\"height\":-3}", "height" },
		{ "{\"version\":2,\"width\":\"80\",\"height\":3}", "width" },
		{ "[]", "" },
		{ "not json", "" },
	};
	struct recording_header h = { 0 };

	for (size_t i = 0; i < countof(bad); i++) {
		struct err e = ERR_INIT;

		ck_assert_int_eq(recording_parse_header(bad[i].line, strlen(bad[i].line), &h, &e), -1);
		ck_assert_str_eq(e.field, bad[i].field);
		ck_assert(e.message[0]);
	}
}
END_TEST

START_TEST(pauses_follow_speed_and_idle_limit)
{
	struct recording_pace p = { .speed = 2, .idle_us = 1000 };

	ck_assert_uint_eq(recording_pause(&p, 500), 0);
	ck_assert_uint_eq(recording_pause(&p, 600), 50);
	ck_assert_uint_eq(recording_pause(&p, 100), 0);
	ck_assert_uint_eq(recording_pause(&p, 99999), 500);
	p = (struct recording_pace){ 0 };
	recording_pause(&p, 0);
	ck_assert_uint_eq(recording_pause(&p, 99999), 99999);
}
END_TEST

int main(void)
{
	return SUITE("recording", headers_are_written_and_read_back, events_are_written_with_relative_times,
		     split_characters_are_joined, events_are_read_and_invalid_ones_rejected,
		     invalid_headers_are_rejected_with_the_field, pauses_follow_speed_and_idle_limit);
}
