#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "sandbox/autorun_report.h"
#include "tests/unit/suite.h"

#include <string.h>

static const uint8_t key[AUTORUN_SEAL_BYTES] = { 1, 2, 3 };

static void write_report(struct buf *out)
{
	const struct autorun_record changed = {
		.path = "/w/.envrc",
		.path_len = 9,
		.program = "direnv",
		.program_len = 6,
		.before = { .type = AUTORUN_TYPE_FILE, .mode = 0644, .kept = true, .text = "a\n", .len = 2 },
		.after = { .type = AUTORUN_TYPE_FILE, .mode = 0644, .kept = true, .text = "evil\n", .len = 5 },
	};
	const struct autorun_record gone = {
		.path = "/w/x/.git/config",
		.path_len = 16,
		.program = "git",
		.program_len = 3,
		.before = { .type = AUTORUN_TYPE_LINK, .mode = 0777, .kept = true, .text = "../y", .len = 4 },
		.after = { .type = AUTORUN_TYPE_NONE, .text = "" },
	};
	autorun_report_begin(out);
	autorun_report_add(out, &changed);
	autorun_report_add(out, &gone);
	autorun_report_end(out, 1000, 100, AUTORUN_PARTIAL_TIME, key);
}

START_TEST(a_written_report_is_read_back)
{
	buf_auto struct buf b = BUF_INIT;
	struct autorun_record r;
	size_t at = 0;
	write_report(&b);
	ck_assert_int_eq(autorun_report_check(b.data, b.len, NULL), 0);
	const struct autorun_head *h = (const struct autorun_head *)(const void *)b.data;
	ck_assert(h->changed == 2 && h->uid == 1000 && h->gid == 100 && h->partial == AUTORUN_PARTIAL_TIME);
	ck_assert(autorun_report_next(b.data, &at, &r));
	ck_assert(r.path_len == 9 && memcmp(r.path, "/w/.envrc", 9) == 0 && r.before.len == 2 &&
		  memcmp(r.after.text, "evil\n", 5) == 0);
	ck_assert_str_eq(autorun_record_change(&r), "modified");
	ck_assert(autorun_report_next(b.data, &at, &r));
	ck_assert_str_eq(autorun_record_change(&r), "deleted");
	ck_assert(!autorun_report_next(b.data, &at, &r));
	ck_assert_str_eq(autorun_partial_name(AUTORUN_PARTIAL_BIT_TIME), "time");
	ck_assert_ptr_null(autorun_partial_name(AUTORUN_PARTIAL_COUNT));
}
END_TEST

START_TEST(every_changed_byte_breaks_the_seal)
{
	static const uint8_t other[AUTORUN_SEAL_BYTES] = { 1, 2, 4 };
	buf_auto struct buf b = BUF_INIT;
	write_report(&b);
	ck_assert(autorun_report_sealed(b.data, key));
	ck_assert(!autorun_report_sealed(b.data, other));
	for (size_t i = 0; i < b.len; i++) {
		mem_auto char *bad = mem_dup(b.data, b.len);
		bad[i] ^= 1;
		ck_assert(autorun_report_check(bad, b.len, NULL) < 0 || !autorun_report_sealed(bad, key));
	}
}
END_TEST

START_TEST(truncated_reports_are_rejected)
{
	buf_auto struct buf b = BUF_INIT;
	write_report(&b);
	for (size_t n = 0; n < b.len; n++) {
		mem_auto void *cut = mem_dup(b.data, n + 1);
		ck_assert_int_lt(autorun_report_check(cut, n, NULL), 0);
	}
}
END_TEST

int main(void)
{
	return SUITE("autorun_report", a_written_report_is_read_back, every_changed_byte_breaks_the_seal,
		     truncated_reports_are_rejected);
}
