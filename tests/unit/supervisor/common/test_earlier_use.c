#include "supervisor/common/earlier_use.h"

#include "tests/unit/suite.h"

#include <string.h>

START_TEST(a_formatted_title_is_parsed_back)
{
	const struct earlier_use written = { .cpu_us = UINT64_MAX,
					     .read_bytes = UINT64_MAX,
					     .write_bytes = UINT64_MAX };
	char title[EARLIER_USE_MAX];

	earlier_use_format(&written, "leader", title);
	ck_assert_int_eq(strncmp(title, "bailiffd: leader ", 17), 0);
	const struct earlier_use read = earlier_use_parse(title, sizeof title);
	ck_assert_mem_eq(&read, &written, sizeof read);
}
END_TEST

START_TEST(other_and_truncated_titles_give_zero)
{
	const struct earlier_use written = { .cpu_us = 12, .read_bytes = 34, .write_bytes = 56 }, none = { 0 };
	char title[EARLIER_USE_MAX];

	earlier_use_format(&written, "init", title);
	for (size_t len = 0; len <= strlen(title); len++) {
		const struct earlier_use read = earlier_use_parse(title, len);
		ck_assert_mem_eq(&read, len < strlen(title) ? &none : &written, sizeof read);
	}
	const struct earlier_use plain = earlier_use_parse("bailiffd: init", 14);
	ck_assert_mem_eq(&plain, &none, sizeof plain);
}
END_TEST

int main(void) { return SUITE("earlier_use", a_formatted_title_is_parsed_back, other_and_truncated_titles_give_zero); }
