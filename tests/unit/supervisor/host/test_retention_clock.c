#include "supervisor/host/retention_clock.h"

#include "supervisor/host/config.h"

#include "tests/unit/suite.h"

#define HOUR_US 3600000000ull
#define DAY_US (24 * HOUR_US)
#define YEAR_US (365 * DAY_US)
#define START_US (50 * YEAR_US)
#define TOLERANCE_US (3 * DAY_US)
#define WEEK_US (7 * DAY_US)

static uint64_t read_at(struct retention_clock *c, const char *boot, uint64_t boot_us, uint64_t real_us)
{
	const struct retention_clock_reading now = { real_us, boot_us * 1000, boot };

	const struct retention_clock_limits limits = { TOLERANCE_US, WEEK_US * 1000 };

	return retention_clock_read(c, &now, &limits);
}

START_TEST(a_clock_that_agrees_is_followed)
{
	struct retention_clock c = { 0 };

	ck_assert_uint_eq(read_at(&c, "a", HOUR_US, START_US), START_US);
	ck_assert_uint_eq(read_at(&c, "a", 2 * HOUR_US, START_US + HOUR_US + 7), START_US + HOUR_US + 7);
	ck_assert(!retention_clock_waits(&c));
	/* suspended or busy for months: the boot clock has counted the time */
	ck_assert_uint_eq(read_at(&c, "a", YEAR_US, START_US + YEAR_US), START_US + YEAR_US);
	/* powered off for a weekend */
	ck_assert_uint_eq(read_at(&c, "b", 1, START_US + YEAR_US + 2 * DAY_US), START_US + YEAR_US + 2 * DAY_US);
	ck_assert(!retention_clock_waits(&c));
}
END_TEST

START_TEST(a_jump_ahead_is_not_accepted_immediately)
{
	struct retention_clock c = { 0 };

	read_at(&c, "a", HOUR_US, START_US);
	for (unsigned i = 1; i < 24; i++) {
		ck_assert_uint_eq(read_at(&c, "a", (1 + i) * HOUR_US, START_US + YEAR_US + i * HOUR_US),
				  START_US + i * HOUR_US);
		ck_assert(retention_clock_waits(&c));
	}
	/* corrected */
	ck_assert_uint_eq(read_at(&c, "a", 25 * HOUR_US, START_US + 24 * HOUR_US), START_US + 24 * HOUR_US);
	ck_assert(!retention_clock_waits(&c));
	ck_assert_uint_eq(c.waited_ns, 0);
}
END_TEST

START_TEST(a_jump_while_the_machine_was_off_is_not_accepted_immediately)
{
	struct retention_clock c = { 0 };

	read_at(&c, "a", HOUR_US, START_US);
	ck_assert_uint_eq(read_at(&c, "b", 60, START_US + YEAR_US), START_US);
	ck_assert(retention_clock_waits(&c));
	/* more reboots do not help */
	ck_assert_uint_eq(read_at(&c, "c", 60, START_US + 2 * YEAR_US), START_US);
	ck_assert(retention_clock_waits(&c));
}
END_TEST

START_TEST(a_lasting_difference_is_accepted)
{
	struct retention_clock c = { 0 };

	read_at(&c, "a", HOUR_US, START_US);
	/* a month without a difference does not count toward the wait */
	read_at(&c, "a", 31 * DAY_US, START_US + YEAR_US);
	ck_assert(retention_clock_waits(&c));
	read_at(&c, "a", 31 * DAY_US + WEEK_US - 1, START_US + YEAR_US + WEEK_US);
	ck_assert(retention_clock_waits(&c));
	ck_assert_uint_eq(read_at(&c, "a", 31 * DAY_US + WEEK_US, START_US + YEAR_US + WEEK_US),
			  START_US + YEAR_US + WEEK_US);
	ck_assert(!retention_clock_waits(&c));
}
END_TEST

START_TEST(only_the_part_that_lasted_is_accepted)
{
	struct retention_clock c = { 0 };

	read_at(&c, "a", HOUR_US, START_US);
	/* off for two weeks, then a jump on the sixth day of the wait */
	read_at(&c, "b", 0, START_US + 14 * DAY_US);
	read_at(&c, "b", 6 * DAY_US, START_US + 20 * DAY_US + YEAR_US);
	ck_assert_uint_eq(read_at(&c, "b", WEEK_US, START_US + 21 * DAY_US + YEAR_US), START_US + 21 * DAY_US);
	ck_assert(retention_clock_waits(&c));
	/* behind for six days, then ahead */
	c = (struct retention_clock){ 0 };
	read_at(&c, "a", 0, START_US);
	read_at(&c, "a", HOUR_US, START_US - 10 * DAY_US);
	read_at(&c, "a", 6 * DAY_US, START_US - 4 * DAY_US);
	ck_assert_uint_eq(read_at(&c, "a", 8 * DAY_US, START_US + YEAR_US), START_US + 8 * DAY_US);
	ck_assert(retention_clock_waits(&c));
}
END_TEST

/* A backup that is restored on a machine that has run for months. */
START_TEST(the_uptime_of_another_boot_is_ignored)
{
	struct retention_clock c = { 0 };

	read_at(&c, "a", HOUR_US, START_US);
	ck_assert_uint_eq(read_at(&c, "b", 300 * DAY_US, START_US + DAY_US), START_US + DAY_US);
	ck_assert_uint_eq(read_at(&c, "b", 300 * DAY_US + HOUR_US, START_US + 250 * DAY_US),
			  START_US + DAY_US + HOUR_US);
}
END_TEST

START_TEST(a_clock_that_is_behind_is_used_but_not_recorded)
{
	struct retention_clock c = { 0 };

	read_at(&c, "a", HOUR_US, START_US);
	/* without a battery: 1970 until the network is up */
	ck_assert_uint_eq(read_at(&c, "b", 60, 60), 60);
	ck_assert(retention_clock_waits(&c));
	ck_assert_uint_eq(read_at(&c, "b", 120, START_US + HOUR_US), START_US + HOUR_US);
	ck_assert(!retention_clock_waits(&c));
}
END_TEST

START_TEST(the_immediate_tolerance_is_less_than_the_retention)
{
	struct config c;

	config_defaults(&c);
	ck_assert_uint_eq(retention_clock_limits_of(&c).tolerance_us, TOLERANCE_US);
	ck_assert_uint_eq(retention_clock_limits_of(&c).wait_ns, WEEK_US * 1000);
	c.retain_days = 1;
	ck_assert_uint_eq(retention_clock_limits_of(&c).tolerance_us, 12 * HOUR_US);
	ck_assert_uint_eq(retention_clock_limits_of(&c).wait_ns, DAY_US * 1000);
	c.retain_days = 0;
	c.idem_keep_days = 2;
	ck_assert_uint_eq(retention_clock_limits_of(&c).tolerance_us, DAY_US);
}
END_TEST

int main(void)
{
	return SUITE("retention_clock", a_clock_that_agrees_is_followed, a_jump_ahead_is_not_accepted_immediately,
		     a_jump_while_the_machine_was_off_is_not_accepted_immediately, a_lasting_difference_is_accepted,
		     only_the_part_that_lasted_is_accepted, the_uptime_of_another_boot_is_ignored,
		     a_clock_that_is_behind_is_used_but_not_recorded,
		     the_immediate_tolerance_is_less_than_the_retention);
}
