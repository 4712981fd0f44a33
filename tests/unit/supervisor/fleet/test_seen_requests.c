#include "supervisor/fleet/seen_requests.h"

#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

static struct seen_requests *s;

static void begin(void) { s = mem_zalloc(1, sizeof(*s)); }

static void end(void) { free(s); }

static void make_requests(uint64_t from, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		ck_assert(!seen_requests_repeats(s, from + i, "a"));
}

START_TEST(test_a_repeated_request_is_recognized)
{
	ck_assert(!seen_requests_repeats(s, 5, "a"));
	ck_assert(!seen_requests_repeats(s, 5, "b"));
	ck_assert(!seen_requests_repeats(s, 4, "a"));
	ck_assert(seen_requests_repeats(s, 5, "a"));
	ck_assert(seen_requests_repeats(s, 4, "a"));
}
END_TEST

START_TEST(test_what_may_have_been_forgotten_counts_as_repeated)
{
	make_requests(1000, SEEN_REQUESTS_MAX);
	ck_assert(!seen_requests_repeats(s, 90000, "a"));
	ck_assert(seen_requests_repeats(s, 1000, "a"));
	ck_assert(seen_requests_repeats(s, 999, "b"));
	ck_assert(seen_requests_repeats(s, 1001, "a"));
	ck_assert(!seen_requests_repeats(s, 1001, "b"));
	ck_assert(seen_requests_repeats(s, 1001, "b"));
}
END_TEST

/* Two clients with one key: the clock of one is four minutes ahead, and it reads a long output in pieces. */
START_TEST(test_a_client_whose_clock_is_behind_is_served)
{
	make_requests(240000, 10000);
	for (unsigned i = 1; i < 100; i++) {
		ck_assert(!seen_requests_repeats(s, i, "b"));
		ck_assert(seen_requests_repeats(s, i, "b"));
		ck_assert(!seen_requests_repeats(s, 270000 + i, "a"));
		ck_assert(seen_requests_repeats(s, 270000 + i, "a"));
	}
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "seen_requests", begin, end, 60,
		  SUITE_TESTS(test_a_repeated_request_is_recognized,
			      test_what_may_have_been_forgotten_counts_as_repeated,
			      test_a_client_whose_clock_is_behind_is_served) },
	};

	return suite_run_cases("seen_requests", cases, 1);
}
