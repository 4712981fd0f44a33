#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "sandbox/diff.h"
#include "tests/unit/sandbox/patch.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

static void check(const char *a, const char *b, const char *want)
{
	buf_auto struct buf out = BUF_INIT, again = BUF_INIT;
	bool differ = diff_unified(a, strlen(a), b, strlen(b), &out);
	ck_assert(differ == (strcmp(a, b) != 0));
	ck_assert_str_eq(buf_cstr(&out), want);
	ck_assert(patch_apply(a, strlen(a), buf_cstr(&out), out.len, &again));
	ck_assert_str_eq(buf_cstr(&again), b);
}

START_TEST(diffs_of_small_texts_are_exact)
{
	check("", "", "");
	check("a\n", "a\n", "");
	check("", "a\n", "@@ -0,0 +1 @@\n+a\n");
	check("a\n", "", "@@ -1 +0,0 @@\n-a\n");
	check("a\nb\n", "a\nc\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
	check("a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
	check("a\nb", "a\nc",
	      "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n");
	check("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n5\n6\n7\n8\n9\n",
	      "@@ -2,6 +2,7 @@\n 2\n 3\n 4\n+x\n 5\n 6\n 7\n");
}
END_TEST

/* Changes with up to six equal lines between them share a hunk. */
START_TEST(close_changes_share_a_hunk)
{
	check("a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n",
	      "@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n");
	check("a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n",
	      "@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n");
}
END_TEST

static void random_text(struct buf *out, unsigned lines, unsigned kinds)
{
	for (unsigned i = 0; i < lines; i++)
		buf_printf(out, "line %u\n", (unsigned)rand() % kinds);
	if (lines && rand() % 4 == 0)
		out->data[--out->len] = 0;
}

START_TEST(applying_a_diff_gives_the_new_text)
{
	srand(7);
	for (int i = 0; i < 2000; i++) {
		buf_auto struct buf a = BUF_INIT, b = BUF_INIT, out = BUF_INIT, again = BUF_INIT;
		random_text(&a, (unsigned)rand() % 40, 8);
		random_text(&b, (unsigned)rand() % 40, 8);
		diff_unified(buf_cstr(&a), a.len, buf_cstr(&b), b.len, &out);
		ck_assert(patch_apply(buf_cstr(&a), a.len, buf_cstr(&out), out.len, &again));
		ck_assert_uint_eq(again.len, b.len);
		ck_assert(b.len == 0 || memcmp(again.data, b.data, b.len) == 0);
	}
}
END_TEST

/* Beyond the bounds of the search the diff is longer, but correct. */
START_TEST(large_texts_without_common_lines_give_a_correct_diff)
{
	buf_auto struct buf a = BUF_INIT, b = BUF_INIT, out = BUF_INIT, again = BUF_INIT;
	for (int i = 0; i < 100000; i++) {
		buf_printf(&a, "a%d\n", i);
		buf_printf(&b, "%c%d\n", i % 3 ? 'b' : 'a', i);
	}
	ck_assert(diff_unified(a.data, a.len, b.data, b.len, &out));
	ck_assert(patch_apply(a.data, a.len, out.data, out.len, &again));
	ck_assert_uint_eq(again.len, b.len);
	ck_assert(memcmp(again.data, b.data, b.len) == 0);
}
END_TEST

START_TEST(text_has_no_nul_byte)
{
	ck_assert(diff_is_text("", 0));
	ck_assert(diff_is_text("\xff\x01", 2));
	ck_assert(!diff_is_text("a\0b", 3));
}
END_TEST

static void check_name(const char *path, const char *want)
{
	buf_auto struct buf out = BUF_INIT;
	diff_name("b/", path, &out);
	ck_assert_str_eq(buf_cstr(&out), want);
}

/* As git writes them with core.quotePath off. */
START_TEST(names_in_headers_are_quoted_as_by_git)
{
	check_name("src/main.c", "b/src/main.c");
	check_name(" a b ", "b/ a b ");
	check_name("\xc3\xa4\xff", "b/\xc3\xa4\xff");
	check_name("a\n+++ b/evil", "\"b/a\\n+++ b/evil\"");
	check_name("\"\\", "\"b/\\\"\\\\\"");
	check_name("\a\b\t\n\v\f\r\x1b\x7f\x01", "\"b/\\a\\b\\t\\n\\v\\f\\r\\033\\177\\001\"");
}
END_TEST

int main(void)
{
	return SUITE("diff", diffs_of_small_texts_are_exact, close_changes_share_a_hunk,
		     applying_a_diff_gives_the_new_text, large_texts_without_common_lines_give_a_correct_diff,
		     text_has_no_nul_byte, names_in_headers_are_quoted_as_by_git);
}
