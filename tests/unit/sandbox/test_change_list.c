#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "sandbox/change_list.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

static void add(struct buf *out, const char *path, enum change_kind kind, const char *note, const char *diff)
{
	const struct change c = { .kind = kind,
				  .path = path,
				  .path_len = strlen(path),
				  .note = note,
				  .note_len = strlen(note),
				  .diff = diff,
				  .diff_len = strlen(diff),
				  .bytes = 5,
				  .mode = 0100644 };
	change_list_add(out, &c);
}

START_TEST(a_list_is_written_and_read_back)
{
	buf_auto struct buf b = BUF_INIT;
	struct err e = ERR_INIT;
	struct change c;
	size_t at = 0;
	change_list_begin(&b);
	add(&b, "/w/\xff\n", CHANGE_KIND_ADDED, "", "@@ -0,0 +1 @@\n+a\n");
	add(&b, "/w/b", CHANGE_KIND_DELETED, "why", "");
	change_list_end(&b);
	ck_assert_msg(change_list_check(b.data, b.len, &e) == 0, "%s", e.message);
	ck_assert(change_list_next(b.data, &at, &c));
	ck_assert_uint_eq(c.path_len, 5);
	ck_assert(memcmp(c.path, "/w/\xff\n", 5) == 0);
	ck_assert_uint_eq(c.bytes, 5);
	ck_assert(c.diff_len == 17 && memcmp(c.diff, "@@ -0", 5) == 0);
	ck_assert(change_list_next(b.data, &at, &c));
	ck_assert_int_eq(c.kind, CHANGE_KIND_DELETED);
	ck_assert(c.note_len == 3 && memcmp(c.note, "why", 3) == 0);
	ck_assert(!change_list_next(b.data, &at, &c));
	const struct change_list_head *h = (const void *)b.data;
	ck_assert_uint_eq(h->kinds[CHANGE_KIND_ADDED], 1);
	ck_assert_uint_eq(h->outcomes[CHANGE_OUTCOME_PENDING], 2);
}
END_TEST

START_TEST(the_number_of_records_is_bounded)
{
	buf_auto struct buf b = BUF_INIT;
	struct err e = ERR_INIT;
	change_list_begin(&b);
	for (unsigned i = 0; i < CHANGE_LIST_RECORDS_MAX + 10; i++)
		add(&b, "/w/a", CHANGE_KIND_ADDED, "", "");
	change_list_end(&b);
	ck_assert_msg(change_list_check(b.data, b.len, &e) == 0, "%s", e.message);
	const struct change_list_head *h = (const void *)b.data;
	ck_assert_uint_eq(h->count, CHANGE_LIST_RECORDS_MAX);
	ck_assert_uint_eq(h->kinds[CHANGE_KIND_ADDED], CHANGE_LIST_RECORDS_MAX + 10);
}
END_TEST

/* Truncated or modified bytes are rejected, or still a valid list. */
START_TEST(damaged_lists_are_rejected_or_valid)
{
	buf_auto struct buf b = BUF_INIT;
	change_list_begin(&b);
	add(&b, "/w/a", CHANGE_KIND_ADDED, "note", "diff");
	add(&b, "/w/b", CHANGE_KIND_MODIFIED, "", "");
	change_list_end(&b);
	for (size_t n = 0; n < b.len; n++) {
		mem_auto void *cut = mem_dup(b.data, n + 1);
		ck_assert_int_lt(change_list_check(cut, n, NULL), 0);
	}
	for (size_t i = 0; i < b.len; i++)
		for (int bit = 0; bit < 8; bit++) {
			mem_auto char *bad = mem_dup(b.data, b.len);
			struct change c;
			size_t at = 0;
			bad[i] ^= (char)(1 << bit);
			if (change_list_check(bad, b.len, NULL) == 0)
				while (change_list_next(bad, &at, &c))
					ck_assert(c.path[0] == '/');
		}
}
END_TEST

START_TEST(paths_select_changes)
{
	static const char paths[] = "/w/a\0/w/dir/";
	const size_t n = sizeof paths;
	ck_assert(change_list_selects("", 0, "/x", 2));
	ck_assert(change_list_selects(paths, n, "/w/a", 4));
	ck_assert(change_list_selects(paths, n, "/w/a/b", 6));
	ck_assert(!change_list_selects(paths, n, "/w/ab", 5));
	ck_assert(change_list_selects(paths, n, "/w/dir", 6));
	ck_assert(change_list_selects(paths, n, "/w/dir/x", 8));
	ck_assert(!change_list_selects(paths, n, "/w", 2));
	ck_assert(change_list_leads_to(paths, n, "/w", 2));
	ck_assert(!change_list_leads_to(paths, n, "/v", 2));
	ck_assert(change_list_selects("/", 2, "/v", 2));
}
END_TEST

int main(void)
{
	return SUITE("change_list", a_list_is_written_and_read_back, the_number_of_records_is_bounded,
		     damaged_lists_are_rejected_or_valid, paths_select_changes);
}
