#include "sandbox/userns.h"

#include "tests/unit/suite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

START_TEST(each_cause_is_found_by_its_path_and_fits_into_a_message)
{
	for (int i = USERNS_WORKS + 1; i < USERNS_CAUSES; i++) {
		const struct userns_text *t = userns_text((enum userns_cause)i);
		char message[256]; /* as long as that of process.failed */
		int n = snprintf(message, sizeof message, "%s: %s; %s", "no_new_privs", t->cause, t->fix);
		ck_assert_ptr_eq(userns_text_of_path(userns_path((enum userns_cause)i)), t);
		ck_assert_msg(n < (int)sizeof message, "%s: %d bytes", t->key, n);
	}
}
END_TEST

START_TEST(an_ordinary_path_is_not_a_cause)
{
	static const char *const paths[] = { "", "/", "/srv/userns:proc", "userns:", "userns:unknown" };
	for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
		ck_assert_ptr_null(userns_text_of_path(paths[i]));
}
END_TEST

START_TEST(every_failed_stage_has_a_cause)
{
	ck_assert_int_eq(userns_classify(USERNS_STAGE_CLONE, ENOSPC), USERNS_COUNT);
	ck_assert_int_eq(userns_classify(USERNS_STAGE_PROC, EPERM), USERNS_PROC);
	for (int error = 1; error < 40; error++) {
		for (int stage = USERNS_STAGE_CLONE; stage <= USERNS_STAGE_PROC; stage++)
			ck_assert_int_ne(userns_classify((enum userns_stage)stage, error), USERNS_WORKS);
	}
}
END_TEST

START_TEST(a_failed_try_has_an_error)
{
	int error = 0;
	enum userns_cause cause = userns_try(&error);
	ck_assert_msg(cause == USERNS_WORKS || error > 0, "cause %d without an error", (int)cause);
}
END_TEST

int main(void)
{
	return SUITE("userns", each_cause_is_found_by_its_path_and_fits_into_a_message, an_ordinary_path_is_not_a_cause,
		     every_failed_stage_has_a_cause, a_failed_try_has_an_error);
}
