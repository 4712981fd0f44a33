#ifndef BAILIFF_TESTS_SUITE_H
#define BAILIFF_TESTS_SUITE_H

/* A Check program of one suite: int main(void) { return SUITE("noun", a_test, another_test); } */

#include <check.h>
#include <stddef.h>

static inline int suite_run(const char *name, const TTest *const *tests, size_t n)
{
	Suite *s = suite_create(name);
	TCase *t = tcase_create(name);
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 120);
	for (size_t i = 0; i < n; i++)
		tcase_add_test(t, tests[i]);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}

#define SUITE(name, ...)                                                      \
	suite_run(name, (const TTest *const[]){ __VA_ARGS__ },                \
		sizeof((const TTest *const[]){ __VA_ARGS__ }) / sizeof(const TTest *))

#endif
