#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "tests/unit/suite.h"

#include <signal.h>
#include <string.h>

START_TEST(invalid_utf8_is_detected)
{
	static const char *const good[] = {
		"", "abc", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xef\xbf\xbf", "\xf4\x8f\xbf\xbf"
	};
	static const char *const bad[] = { "\x80",
					   "\xc3",
					   "\xc0\xaf",
					   "\xc1\xbf",
					   "\xe0\x9f\xbf",
					   "\xed\xa0\x80",
					   "\xf0\x8f\xbf\xbf",
					   "\xf4\x90\x80\x80",
					   "\xf5\x80\x80\x80",
					   "\xff",
					   "a\xe2\x82",
					   "\xe2\x28\xa1" };

	for (size_t i = 0; i < countof(good); i++)
		ck_assert(text_utf8_valid(good[i], strlen(good[i])));
	for (size_t i = 0; i < countof(bad); i++)
		ck_assert_msg(!text_utf8_valid(bad[i], strlen(bad[i])), "case %zu", i);
	ck_assert(text_utf8_valid("a\0b", 3));
}
END_TEST

START_TEST(truncation_never_splits_a_character)
{
	const char *s = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
	const size_t want[] = { 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10 };

	for (size_t n = 0; n <= 10; n++)
		ck_assert_uint_eq(text_utf8_cut(s, n), want[n]);
	ck_assert_uint_eq(text_utf8_cut("\x80\x80\x80\x80\x80", 5), 5); /* no character boundary */
}
END_TEST

static void base64_pair(const char *bytes, size_t n, const char *text)
{
	buf_auto struct buf out = BUF_INIT;

	text_base64_encode(bytes, n, &out);
	ck_assert_str_eq(buf_cstr(&out), text);
	buf_reset(&out);
	buf_str(&out, "<");
	ck_assert_int_eq(text_base64_decode(text, strlen(text), &out), 0);
	ck_assert_uint_eq(out.len, n + 1);
	if (n)
		ck_assert_mem_eq(out.data + 1, bytes, n);
}

START_TEST(base64_is_encoded_and_decoded)
{
	char all[256];
	buf_auto struct buf text = BUF_INIT, back = BUF_INIT;

	base64_pair("", 0, "");
	base64_pair("f", 1, "Zg==");
	base64_pair("fo", 2, "Zm8=");
	base64_pair("foo", 3, "Zm9v");
	base64_pair("foob", 4, "Zm9vYg==");
	base64_pair("\xff\xef\xbe", 3, "/+++");
	for (int i = 0; i < 256; i++)
		all[i] = (char)i;
	for (size_t n = 0; n <= 256; n++) {
		buf_reset(&text);
		buf_reset(&back);
		text_base64_encode(all, n, &text);
		ck_assert_int_eq(text_base64_decode(buf_cstr(&text), text.len, &back), 0);
		ck_assert_uint_eq(back.len, n);
		ck_assert(!n || memcmp(back.data, all, n) == 0);
	}
}
END_TEST

START_TEST(invalid_base64_is_rejected)
{
	static const char *const bad[] = { "Z",      "Zg",   "Zg=",  "Zg===",    "=",    "====", "Z===",
					   "Zm9v\n", "Zm 9", "Zm9-", "Zg==Zg==", "Zh==", "Zm9=", "Zm=v" };
	buf_auto struct buf out = BUF_INIT;

	buf_str(&out, "kept");
	for (size_t i = 0; i < countof(bad); i++)
		ck_assert_msg(text_base64_decode(bad[i], strlen(bad[i]), &out) == -1, "%s", bad[i]);
	ck_assert_str_eq(out.data, "kept");
	ck_assert_uint_eq(out.len, 4);
}
END_TEST

static void duration(const char *s, uint64_t ms)
{
	uint64_t got = 0;
	struct err e = ERR_INIT;

	ck_assert_msg(text_duration_ms(s, &got, &e) == 0, "%s: %s", s, e.message);
	ck_assert_uint_eq(got, ms);
}

START_TEST(durations_are_parsed)
{
	static const char *const bad[] = {
		"",     "s",  "-1", "1x", "1 s", "1s ", ".5s", "1.s", "99999999999999999999", "999999999999999999d",
		"0x10", "1e3"
	};
	uint64_t ms = 42;

	duration("30s", 30000);
	duration("500ms", 500);
	duration("5m", 300000);
	duration("2h", 7200000);
	duration("1d", 86400000);
	duration("7", 7000);
	duration("0", 0);
	duration("1.5s", 1500);
	duration("0.25h", 900000);
	for (size_t i = 0; i < countof(bad); i++) {
		struct err e = ERR_INIT;

		ck_assert_msg(text_duration_ms(bad[i], &ms, &e) == -1, "%s", bad[i]);
		ck_assert_int_eq(e.code, ERR_INVALID);
		ck_assert_ptr_nonnull(strstr(e.message, bad[i]));
		ck_assert_ptr_nonnull(strstr(e.message, "30s"));
	}
	ck_assert_uint_eq(ms, 42);
}
END_TEST

START_TEST(sizes_are_parsed)
{
	static const struct {
		const char *s;
		uint64_t bytes;
	} good[] = {
		{ "0", 0 },           { "17", 17 },           { "17B", 17 },
		{ "1K", 1024 },       { "64KiB", 65536 },     { "512M", 512ull << 20 },
		{ "1g", 1ull << 30 }, { "2TiB", 2ull << 40 }, { "1.5M", 3ull << 19 },
	};
	static const char *const bad[] = { "", "M", "1KB", "1X", "-1", "1 M", "16777216T", "1.2.3M" };
	uint64_t got;

	for (size_t i = 0; i < countof(good); i++) {
		ck_assert_msg(text_size_bytes(good[i].s, &got, NULL) == 0, "%s", good[i].s);
		ck_assert_uint_eq(got, good[i].bytes);
	}
	for (size_t i = 0; i < countof(bad); i++) {
		struct err e = ERR_INIT;

		ck_assert_msg(text_size_bytes(bad[i], &got, &e) == -1, "%s", bad[i]);
		ck_assert_ptr_nonnull(strstr(e.message, "512M"));
	}
}
END_TEST

START_TEST(thousandths_are_parsed_and_formatted)
{
	static const struct {
		const char *s;
		uint64_t v;
		const char *back;
	} good[] = {
		{ "1.5", 1500, "1.5" }, { "2", 2000, "2" }, { "0.010", 10, "0.01" },
		{ "10", 10000, "10" },  { "0", 0, "0" },    { "0.0019", 1, "0.001" },
	};
	static const char *const bad[] = { "", "x", "-1", "1m", "1.", "1.2.3", ".5" };
	char text[32];
	uint64_t got;

	for (size_t i = 0; i < countof(good); i++) {
		ck_assert_msg(text_thousandths(good[i].s, &got, NULL) == 0, "%s", good[i].s);
		ck_assert_uint_eq(got, good[i].v);
		text_format_thousandths(got, text);
		ck_assert_str_eq(text, good[i].back);
	}
	for (size_t i = 0; i < countof(bad); i++)
		ck_assert_msg(text_thousandths(bad[i], &got, NULL) == -1, "%s", bad[i]);
}
END_TEST

static const char *size_text(uint64_t bytes)
{
	static char out[16];

	text_format_size(bytes, out);
	return out;
}

static const char *duration_text(uint64_t ms)
{
	static char out[16];

	text_format_duration(ms, out);
	return out;
}

START_TEST(sizes_and_durations_are_formatted_for_people)
{
	ck_assert_str_eq(size_text(0), "0B");
	ck_assert_str_eq(size_text(1023), "1023B");
	ck_assert_str_eq(size_text(1024), "1K");
	ck_assert_str_eq(size_text(3ull << 19), "1.5M");
	ck_assert_str_eq(size_text((1ull << 20) - 1), "1M");
	ck_assert_str_eq(size_text(UINT64_MAX), "16E");
	ck_assert_str_eq(duration_text(0), "0ms");
	ck_assert_str_eq(duration_text(999), "999ms");
	ck_assert_str_eq(duration_text(1200), "1.2s");
	ck_assert_str_eq(duration_text(185000), "3m05s");
	ck_assert_str_eq(duration_text(7500000), "2h05m");
	ck_assert_str_eq(duration_text(90000000), "1d01h");
	ck_assert_uint_lt(strlen(duration_text(UINT64_MAX)), 16);
}
END_TEST

START_TEST(globs_match)
{
	ck_assert(text_glob("process.*", "process.started"));
	ck_assert(!text_glob("process.*", "processes"));
	ck_assert(text_glob("*", ""));
	ck_assert(text_glob("", ""));
	ck_assert(!text_glob("", "a"));
	ck_assert(text_glob("*.failed", "task.attempt.failed"));
	ck_assert(!text_glob("*.failed", "task.failed.x"));
	ck_assert(text_glob("a*b*c", "aXbXbXc"));
	ck_assert(!text_glob("a*b*c", "aXbXbX"));
	ck_assert(text_glob("?", "\xe2\x82\xac"));
	ck_assert(!text_glob("?", "ab"));
	ck_assert(!text_glob("?", ""));
	ck_assert(text_glob("**a", "bba"));
	ck_assert(!text_glob("*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}
END_TEST

static const char *sane(const char *s, size_t n)
{
	static struct buf out;

	buf_reset(&out);
	text_sanitize(s, n, &out);
	return buf_cstr(&out);
}

START_TEST(control_characters_are_escaped)
{
	ck_assert_str_eq(sane("plain\ttext\n", 11), "plain\ttext\n");
	ck_assert_str_eq(sane("\033[31mred", 8), "\\x1b[31mred");
	ck_assert_str_eq(sane("a\rb\bc\x7f", 6), "a\\x0db\\x08c\\x7f");
	ck_assert_str_eq(sane("a\0b", 3), "a\\x00b");
	ck_assert_str_eq(sane("\xc2\x9b"
			      "31m",
			      5),
			 "\\xc2\\x9b31m"); /* C1's CSI */
	ck_assert_str_eq(sane("\x9b"
			      "31m",
			      4),
			 "\\x9b31m");
	ck_assert_str_eq(sane("\xc2\xa0\xc3\xa9\xe2\x82\xac", 7), "\xc2\xa0\xc3\xa9\xe2\x82\xac");
	ck_assert_str_eq(sane("x\xe2\x82", 3), "x\\xe2\\x82");
	ck_assert_str_eq(sane(NULL, 0), "");
	/* characters that change the direction of writing, and Unicode line separators */
	ck_assert_str_eq(sane("a\xe2\x80\xae"
			      "b\xe2\x81\xa6\xd8\x9c\xe2\x80\xa8"
			      "c",
			      14),
			 "a\\u202eb\\u2066\\u061c\\u2028c");
}
END_TEST

START_TEST(invisible_characters_are_escaped)
{
	static const struct {
		const char *given, *shown;
	} rows[] = {
		{ "a\u200bb\ufeffc\u00add\u2060e", "a\\u200bb\\ufeffc\\u00add\\u2060e" },
		{ "a\U000e0041\U000e007f", "a\\U000e0041\\U000e007f" },
		{ "a\u200db\u200c", "a\\u200db\\u200c" },       /* joins nothing */
		{ "\u06cc\u200c\u06a9", "\u06cc\u200c\u06a9" }, /* Persian */
		{ "\u06cc\u200c\u200d\u200c", "\u06cc\u200c\\u200d\\u200c" },
		{ "\u2764\ufe0f\u200d\U0001f525", "\u2764\ufe0f\u200d\U0001f525" }, /* an emoji of two */
		{ "\u2764\ufe0f\ufe0f\ufe01", "\u2764\ufe0f\\ufe0f\\ufe01" },
		{ "\u200d\u0627", "\\u200d\u0627" },
		{ "\u00e9\u20ac\U0001f600", "\u00e9\u20ac\U0001f600" },
	};

	for (size_t i = 0; i < countof(rows); i++)
		ck_assert_str_eq(sane(rows[i].given, strlen(rows[i].given)), rows[i].shown);
}
END_TEST

START_TEST(invisible_characters_in_json_become_equivalent_escapes)
{
	buf_auto struct buf out = BUF_INIT;
	static const char json[] = "{\"a\":\"\xc2\x9b"
				   "1\x7f"
				   "\U000e0041\u200b\u00e9\\n\"}\n";

	text_json_visible(json, sizeof json - 1, &out);
	ck_assert_str_eq(buf_cstr(&out), "{\"a\":\"\\u009b1\\u007f\\udb40\\udc41\\u200b\u00e9\\n\"}\n");
	buf_reset(&out);
	text_json_visible("\xe2\x80", 2, &out); /* invalid UTF-8 is not valid JSON; the function still returns */
	ck_assert_uint_eq(out.len, 2);
}
END_TEST

START_TEST(sanitized_names_have_no_line_breaks)
{
	buf_auto struct buf out = BUF_INIT;

	text_sanitize_line("a\nb\tc\033\xc3\xa9", 8, &out);
	ck_assert_str_eq(buf_cstr(&out), "a\\nb\\tc\\x1b\xc3\xa9");
}
END_TEST

START_TEST(a_long_text_is_shortened_to_both_ends)
{
	buf_auto struct buf whole = BUF_INIT, ends = BUF_INIT, wide = BUF_INIT;

	text_ends("as it is", 8, 8, &whole);
	ck_assert_str_eq(whole.data, "as it is");
	text_ends("beginning, the middle of it, the end", 36, 12, &ends);
	ck_assert_str_eq(ends.data, "beginnin … [24 bytes left out] …  end");
	for (size_t most = 1; most < 30; most++) {
		wide.len = 0;
		text_ends("äöüäöüäöüäöüäöü", 30, most, &wide);
		ck_assert(text_utf8_valid(wide.data, wide.len));
	}
}
END_TEST

START_TEST(signals_are_parsed_by_name_and_number)
{
	ck_assert_int_eq(text_signal_number("TERM"), SIGTERM);
	ck_assert_int_eq(text_signal_number("SIGTERM"), SIGTERM);
	ck_assert_int_eq(text_signal_number("sigkill"), SIGKILL);
	ck_assert_int_eq(text_signal_number("15"), SIGTERM);
	ck_assert_int_eq(text_signal_number("RTMIN+1"), SIGRTMIN + 1);
	ck_assert_int_eq(text_signal_number("RTMAX"), SIGRTMAX);
	ck_assert_int_eq(text_signal_number("0"), -1);
	ck_assert_int_eq(text_signal_number("65"), -1);
	ck_assert_int_eq(text_signal_number("99999999999"), -1);
	ck_assert_int_eq(text_signal_number("15x"), -1);
	ck_assert_int_eq(text_signal_number("NOPE"), -1);
	ck_assert_int_eq(text_signal_number("unknown"), -1);
	ck_assert_int_eq(text_signal_number(""), -1);
	ck_assert_str_eq(text_signal_name(SIGTERM), "TERM");
	ck_assert_str_eq(text_signal_name(SIGRTMIN + 1), "RTMIN+1");
	ck_assert_str_eq(text_signal_name(0), "unknown");
	ck_assert_str_eq(text_signal_name(-5), "unknown");
	ck_assert_str_eq(text_signal_name(1000), "unknown");
	for (int sig = 1; sig < 32; sig++)
		ck_assert_int_eq(text_signal_number(text_signal_name(sig)), sig);
}
END_TEST

int main(void)
{
	return SUITE("text", invalid_utf8_is_detected, truncation_never_splits_a_character,
		     base64_is_encoded_and_decoded, invalid_base64_is_rejected, durations_are_parsed, sizes_are_parsed,
		     thousandths_are_parsed_and_formatted, sizes_and_durations_are_formatted_for_people, globs_match,
		     control_characters_are_escaped, invisible_characters_are_escaped,
		     invisible_characters_in_json_become_equivalent_escapes, sanitized_names_have_no_line_breaks,
		     a_long_text_is_shortened_to_both_ends, signals_are_parsed_by_name_and_number);
}
