#ifndef BAILIFF_TESTS_SUITE_H
#define BAILIFF_TESTS_SUITE_H

/* A Check program of one suite: int main(void) { return SUITE("noun", a_test, another_test); } */

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct suite_case {
	const char *name;
	SFun setup, teardown; /* of every test; or NULL */
	double seconds;       /* that a test may take */
	const TTest *const *tests;
	size_t n;
};

/* The last two members. */
#define SUITE_TESTS(...) \
	(const TTest *const[]){ __VA_ARGS__ }, sizeof((const TTest *const[]){ __VA_ARGS__ }) / sizeof(const TTest *)

static inline int suite_run_cases(const char *name, const struct suite_case *cases, size_t n)
{
	Suite *s = suite_create(name);
	SRunner *r;
	int failed;

	for (const struct suite_case *c = cases; c < cases + n; c++) {
		TCase *t = tcase_create(c->name);
		tcase_add_checked_fixture(t, c->setup, c->teardown);
		tcase_set_timeout(t, c->seconds);
		for (size_t i = 0; i < c->n; i++)
			tcase_add_test(t, c->tests[i]);
		suite_add_tcase(s, t);
	}
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}

/*
 * Ends the test, which is then counted as skipped: SKIP_IF(geteuid() != 0, "requires root"). Check has no such result;
 * tests/run reads this line. Only in the test's own function, and before it has checked anything.
 */
#define SKIP_IF(condition, ...)                                                                                        \
	do {                                                                                                           \
		if (condition) {                                                                                       \
			char reason_[256];                                                                             \
			snprintf(reason_, sizeof(reason_), __VA_ARGS__);                                               \
			/* START_TEST(name) is the function name_fn */                                                 \
			dprintf(STDOUT_FILENO, "skipped: %.*s: %s\n", (int)(strlen(__func__) - 3), __func__, reason_); \
			return;                                                                                        \
		}                                                                                                      \
	} while (0)

/* Whether the test runs under that tool (tests/prove/sanitizers.py). */
static inline bool suite_under(const char *tool)
{
	const char *current = getenv("SUITE_TOOL");

	return current && strcmp(current, tool) == 0;
}

#define SUITE(name, ...) \
	suite_run_cases(name, (const struct suite_case[]){ { name, NULL, NULL, 120, SUITE_TESTS(__VA_ARGS__) } }, 1)

#endif
