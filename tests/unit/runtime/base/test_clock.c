#include "runtime/base/clock.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <time.h>

START_TEST(texts_are_rfc_3339_with_microseconds)
{
	char text[CLOCK_TEXT_MAX];

	clock_format(0, text);
	ck_assert_str_eq(text, "1970-01-01T00:00:00.000000Z");
	clock_format(1794708000123456ull, text);
	ck_assert_str_eq(text, "2026-11-15T02:00:00.123456Z");
	clock_format(1709164799999999ull, text);
	ck_assert_str_eq(text, "2024-02-28T23:59:59.999999Z");
	clock_format(1709164800000000ull, text);
	ck_assert_str_eq(text, "2024-02-29T00:00:00.000000Z");
}
END_TEST

/* Compared over leap years and centuries. */
START_TEST(the_calendar_agrees_with_libc)
{
	for (time_t day = 0; day < 60000; day += 13) {
		time_t secs = day * 86400 + day % 86400;
		char mine[CLOCK_TEXT_MAX], theirs[CLOCK_TEXT_MAX];
		uint64_t back;
		struct tm tm;

		clock_format((uint64_t)secs * 1000000, mine);
		strftime(theirs, sizeof(theirs), "%Y-%m-%dT%H:%M:%S.000000Z", gmtime_r(&secs, &tm));
		ck_assert_str_eq(mine, theirs);
		ck_assert_int_eq(clock_parse(mine, &back), 0);
		ck_assert_uint_eq(back, (uint64_t)secs * 1000000);
	}
}
END_TEST

START_TEST(offsets_and_fractions_are_parsed)
{
	uint64_t us;

	ck_assert_int_eq(clock_parse("2026-11-15T04:00:00+02:00", &us), 0);
	ck_assert_uint_eq(us, 1794708000000000ull);
	ck_assert_int_eq(clock_parse("2026-11-14t18:30:00.5-07:30", &us), 0);
	ck_assert_uint_eq(us, 1794708000500000ull);
	ck_assert_int_eq(clock_parse("2026-11-15 02:00:00.1234567899z", &us), 0);
	ck_assert_uint_eq(us, 1794708000123456ull);
	ck_assert_int_eq(clock_parse("2016-12-31T23:59:60Z", &us), 0);
}
END_TEST

START_TEST(invalid_times_are_rejected)
{
	static const char *const bad[] = {
		"",
		"2026",
		"2026-11-15",
		"2026-11-15T02:00Z",
		"2026-11-15T02:00:00",
		"2026-13-01T00:00:00Z",
		"2026-00-01T00:00:00Z",
		"2026-02-29T00:00:00Z",
		"2026-04-31T00:00:00Z",
		"2026-11-15T24:00:00Z",
		"2026-11-15T02:60:00Z",
		"2026-11-15T02:00:00.Z",
		"2026-11-15T02:00:00Zx",
		"2026-11-15T02:00:00+2:00",
		"2026-11-15T02:00:00+0200",
		"1969-12-31T23:59:59Z",
		"1970-01-01T00:00:00+01:00",
		" 2026-11-15T02:00:00Z",
		"20261115T020000Z",
	};
	uint64_t us = 42;

	for (size_t i = 0; i < countof(bad); i++)
		ck_assert_msg(clock_parse(bad[i], &us) == -1, "%s", bad[i]);
	ck_assert_uint_eq(us, 42);
}
END_TEST

START_TEST(clocks_advance)
{
	uint64_t boot = clock_boot_ns();

	ck_assert_uint_gt(clock_real_us(), 1577836800000000ull);
	while (clock_boot_ns() == boot)
		;
	ck_assert_uint_gt(clock_boot_ns(), boot);
}
END_TEST

int main(void)
{
	return SUITE("clock", texts_are_rfc_3339_with_microseconds, the_calendar_agrees_with_libc,
		     offsets_and_fractions_are_parsed, invalid_times_are_rejected, clocks_advance);
}
