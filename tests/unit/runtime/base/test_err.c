#include "runtime/base/err.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <string.h>

START_TEST(wrapping_prepends_context)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(err_sys(&e, ENOENT, "open '%s'", "/x"), -1);
	ck_assert_int_eq(err_wrap(&e, "load %s", "policy"), -1);
	ck_assert_str_eq(e.message, "load policy: open '/x': No such file or directory");
	ck_assert_int_eq(e.code, ERR_SYS);
	ck_assert_int_eq(e.sys, ENOENT);
}
END_TEST

START_TEST(a_field_survives_wrapping)
{
	struct err e = ERR_INIT;

	err_field(&e, "limits.wallMs", "must be at least %d", 1);
	err_wrap(&e, "start_process");
	ck_assert_int_eq(e.code, ERR_INVALID);
	ck_assert_str_eq(e.field, "limits.wallMs");
	ck_assert_str_eq(e.message, "start_process: must be at least 1");
}
END_TEST

START_TEST(errors_can_be_discarded_with_a_null_pointer)
{
	ck_assert_int_eq(err_set(NULL, ERR_STATE, "x"), -1);
	ck_assert_int_eq(err_field(NULL, "f", "x"), -1);
	ck_assert_int_eq(err_sys(NULL, EIO, "x"), -1);
	ck_assert_int_eq(err_wrap(NULL, "x"), -1);
}
END_TEST

START_TEST(long_messages_are_truncated)
{
	char longer[2 * ERR_MESSAGE_MAX];
	struct err e = ERR_INIT;

	memset(longer, 'y', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	err_sys(&e, EIO, "%s", longer);
	ck_assert_uint_eq(strlen(e.message), ERR_MESSAGE_MAX - 1);
	err_wrap(&e, "in front");
	ck_assert_uint_eq(strlen(e.message), ERR_MESSAGE_MAX - 1);
	ck_assert_int_eq(strncmp(e.message, "in front: yyy", 13), 0);
	err_field(&e, longer, "x");
	ck_assert_uint_eq(strlen(e.field), ERR_FIELD_MAX - 1);
}
END_TEST

START_TEST(an_error_can_quote_its_own_message)
{
	struct err e = ERR_INIT;

	err_set(&e, ERR_STATE, "inner");
	err_set(&e, ERR_CONFLICT, "outer (%s)", e.message);
	ck_assert_str_eq(e.message, "outer (inner)");
	err_wrap(&e, "%s", e.message);
	ck_assert_str_eq(e.message, "outer (inner): outer (inner)");
}
END_TEST

START_TEST(every_code_has_a_name)
{
	for (int c = ERR_NONE; c <= ERR_INTERNAL; c++)
		ck_assert_str_ne(err_code_name(c), "unknown");
	ck_assert_str_eq(err_code_name(ERR_INTERNAL + 1), "unknown");
}
END_TEST

int main(void)
{
	return SUITE("err", wrapping_prepends_context, a_field_survives_wrapping,
		     errors_can_be_discarded_with_a_null_pointer, long_messages_are_truncated,
		     an_error_can_quote_its_own_message, every_code_has_a_name);
}
