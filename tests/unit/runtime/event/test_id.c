#include "runtime/base/clock.h"
#include "runtime/base/mem.h"
#include "runtime/event/id.h"
#include "tests/unit/suite.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

START_TEST(ids_ascend_even_within_a_millisecond)
{
	char last[ID_TEXT_MAX], id[ID_TEXT_MAX];

	id_make(ID_KIND_EVENT, last);
	for (int i = 0; i < 20000; i++) {
		id_make(ID_KIND_EVENT, id);
		ck_assert_int_lt(strcmp(last, id), 0);
		memcpy(last, id, sizeof(last));
	}
}
END_TEST

START_TEST(an_id_contains_kind_and_time)
{
	static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";
	uint64_t before = clock_real_us() / 1000, ms = 0;
	char id[ID_TEXT_MAX];

	id_make(ID_KIND_PROCESS, id);
	ck_assert_int_eq(strncmp(id, "proc_", 5), 0);
	ck_assert_uint_eq(strlen(id), 5 + 26);
	for (int i = 5; i < 15; i++)
		ms = ms * 32 + (uint64_t)(strchr(digits, id[i]) - digits);
	ck_assert_uint_ge(ms, before);
	ck_assert_uint_le(ms, clock_real_us() / 1000);
	ck_assert(id_valid(id, strlen(id)));
}
END_TEST

START_TEST(every_kind_has_its_own_prefix)
{
	for (int a = 0; a < ID_KIND_COUNT; a++) {
		char id[ID_TEXT_MAX];

		id_make(a, id);
		ck_assert_uint_gt(strlen(id_prefix(a)), 2);
		ck_assert_int_eq(strncmp(id, id_prefix(a), strlen(id_prefix(a))), 0);
		for (int b = 0; b < a; b++)
			ck_assert_str_ne(id_prefix(a), id_prefix(b));
	}
}
END_TEST

START_TEST(ids_from_callers_are_checked)
{
	char longest[ID_GIVEN_MAX + 1];

	memset(longest, 'a', sizeof(longest));
	ck_assert(id_valid("A-z_0.9:", 8));
	ck_assert(id_valid(longest, ID_GIVEN_MAX));
	ck_assert(!id_valid(longest, ID_GIVEN_MAX + 1));
	ck_assert(!id_valid("", 0));
	for (int c = 0; c < 256; c++) {
		char one = (char)c;
		bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			    (c && strchr("_-.:", c));

		ck_assert_msg(id_valid(&one, 1) == fine, "byte %d", c);
	}
}
END_TEST

int main(void)
{
	return SUITE("id", ids_ascend_even_within_a_millisecond, an_id_contains_kind_and_time,
		     every_kind_has_its_own_prefix, ids_from_callers_are_checked);
}
