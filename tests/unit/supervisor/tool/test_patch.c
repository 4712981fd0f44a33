/* Patches: both formats, the position of hunks, and hunks that do not apply. */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "sandbox/diff.h"
#include "supervisor/tool/patch.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

/* The first file's text after the patch, or the error's message. */
static const char *applied(const char *patch, const char *old)
{
	static struct buf out;
	static struct err e;
	patch_auto struct patch p = { 0 };

	buf_done(&out);
	e = ERR_INIT;
	if (patch_parse(patch, strlen(patch), &p, &e) < 0 || patch_text(&p.files[0], old, strlen(old), &out, &e) < 0)
		return e.message;
	return buf_cstr(&out);
}

#define UPDATE(hunks) "*** Begin Patch\n*** Update File: f\n" hunks "*** End Patch\n"

START_TEST(an_envelope_updates_adds_and_deletes)
{
	const char *text = "*** Begin Patch\n*** Add File: a/b\n+one\n+\n+two\n*** Delete File: gone\n*** Update File: "
			   "from\n*** Move to: to\n"
			   "@@ f()\n x\n-y\n+z\n*** End Patch\n";
	patch_auto struct patch p = { 0 };
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_int_eq(patch_parse(text, strlen(text), &p, &e), 0);
	ck_assert_uint_eq(p.nfiles, 3);
	ck_assert_str_eq(p.files[0].path, "a/b");
	ck_assert_int_eq(patch_text(&p.files[0], "", 0, &out, &e), 0);
	ck_assert_str_eq(out.data, "one\n\ntwo\n");
	ck_assert_int_eq(p.files[1].change, PATCH_DELETE);
	ck_assert_str_eq(p.files[2].move_to, "to");
}
END_TEST

START_TEST(hunks_apply_where_their_lines_are)
{
	ck_assert_str_eq(applied(UPDATE("@@\n b\n-c\n+C\n"), "a\nb\nc\nd\n"), "a\nb\nC\nd\n");
	ck_assert_str_eq(applied(UPDATE("@@\n-x\n+1\n@@\n-x\n+2\n"), "x\nx\nx\n"), "1\n2\nx\n");
	ck_assert_str_eq(applied(UPDATE("@@ g:\n-x\n+1\n"), "f:\nx\ng:\nx\n"), "f:\nx\ng:\n1\n");
	ck_assert_str_eq(applied(UPDATE("@@\n-x\n+1\n*** End of File\n"), "x\ny\nx\n"), "x\ny\n1\n");
	/* Trailing spaces are ignored, and kept. */
	ck_assert_str_eq(applied(UPDATE("@@\n a\n-b\n+c\n"), "a  \nb\t\n"), "a  \nc\n");
	/* Additions alone: after the header, or at the end. */
	ck_assert_str_eq(applied(UPDATE("@@ a\n+new\n"), "a\nb\n"), "a\nnew\nb\n");
	ck_assert_str_eq(applied(UPDATE("@@\n+new\n"), "a\nb\n"), "a\nb\nnew\n");
	/* A context line whose space a mailer or model has lost. */
	ck_assert_str_eq(applied(UPDATE("@@\n a\n\n-b\n+c\n"), "a\n\nb\n"), "a\n\nc\n");
	/* The last line's missing newline stays missing unless it is changed. */
	ck_assert_str_eq(applied(UPDATE("@@\n-a\n+A\n"), "a\nb"), "A\nb");
	ck_assert_str_eq(applied(UPDATE("@@\n-b\n+B\n"), "a\nb"), "a\nB\n");
}
END_TEST

START_TEST(carriage_returns_are_kept)
{
	ck_assert_str_eq(applied(UPDATE("@@\n a\n-b\n+B\n+C\n"), "a\r\nb\r\nc\r\n"), "a\r\nB\r\nC\r\nc\r\n");
	ck_assert_str_eq(applied(UPDATE("@@\n+new\n"), "a\r\nb\r\n"), "a\r\nb\r\nnew\r\n");
	ck_assert_str_eq(applied(UPDATE("@@\n-a\n+A\n"), "a\r\nb"), "A\r\nb");
	ck_assert_str_eq(
		applied("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n\\ No newline at end of file\n", "a\r\nb\r\n"),
		"a\r\nB");
	/* A text with both line endings, a patch that has some itself, and one without context. */
	ck_assert_str_eq(applied(UPDATE("@@\n-a\n+A\n"), "a\r\nb\n"), "A\nb\n");
	ck_assert_str_eq(applied("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\r\n-b\r\n+a\n+b\n", "a\r\nb\r\n"), "a\nb\n");
	ck_assert_str_eq(applied("--- a/f\n+++ b/f\n@@ -1,0 +2 @@\n+new\n", "a\r\nb\r\n"), "a\r\nnew\nb\r\n");
	/* If every line of a patch has one, they belong to the patch. */
	ck_assert_str_eq(
		applied("*** Begin Patch\r\n*** Update File: f\r\n@@\r\n-a\r\n+A\r\n*** End Patch\r\n", "a\nb\n"),
		"A\nb\n");
	ck_assert_str_eq(
		applied("*** Begin Patch\r\n*** Update File: f\r\n@@\r\n-a\r\n+A\r\n*** End Patch\r\n", "a\r\nb\r\n"),
		"A\r\nb\r\n");
	ck_assert_str_eq(applied("*** Begin Patch\n*** Add File: f\n+a\r\n*** End Patch\n", ""), "a\r\n");
	ck_assert_str_eq(applied("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+B\r\n", "a\r\nb\r\n"), "a\r\nB\r\n");
}
END_TEST

START_TEST(errors_name_the_hunk_or_line)
{
	ck_assert_ptr_nonnull(strstr(applied(UPDATE("@@\n-nope\n+x\n"), "a\n"), "hunk 1 of 'f' does not apply"));
	ck_assert_ptr_nonnull(strstr(applied(UPDATE("@@ nope\n-a\n+x\n"), "a\n"), "line after @@"));
	ck_assert_ptr_nonnull(strstr(applied("hello\n", ""), "neither"));
	ck_assert_ptr_nonnull(
		strstr(applied("*** Begin Patch\n*** Update File: f\n@@\n-a\n", "a\n"), "End Patch is missing"));
	ck_assert_ptr_nonnull(strstr(applied(UPDATE("@@\nbad\n"), "a\n"), "line 4: expected a line"));
	ck_assert_ptr_nonnull(strstr(applied("*** Begin Patch\n*** End Patch\n", ""), "changes nothing"));
	ck_assert_ptr_nonnull(strstr(applied("*** Begin Patch\n*** Frob: f\n*** End Patch\n", ""), "line 2"));
	ck_assert_ptr_nonnull(strstr(applied("--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n-a\n", "a\n"), "ends early"));
	ck_assert_ptr_nonnull(strstr(applied("--- a/f\n+++ b/f\n@@ nonsense\n", "a\n"), "hunks"));
	ck_assert_ptr_nonnull(strstr(applied("--- a/f\n+++ \n", "a\n"), "a path is missing"));
}
END_TEST

START_TEST(unified_diffs_apply)
{
	ck_assert_str_eq(
		applied("diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -2 +2 @@\n-b\n+B\n", "a\nb\n"),
		"a\nB\n");
	/* Lines were added before it: the nearest position is used. */
	ck_assert_str_eq(applied("--- f\n+++ f\n@@ -1 +1 @@\n-b\n+B\n", "x\ny\nb\n"), "x\ny\nB\n");
	ck_assert_str_eq(applied("--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n", ""),
			 "a\nb");
	ck_assert_str_eq(applied("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n", "a"), "a\n");
	ck_assert_str_eq(applied("--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n a\n+x\n b\n", "a\nb"), "a\nx\nb");
}
END_TEST

/* Checked with a few hundred random pairs of texts. */
START_TEST(applying_a_diff_gives_the_new_text)
{
	unsigned seed = 7;

	for (int round = 0; round < 500; round++) {
		buf_auto struct buf a = BUF_INIT, b = BUF_INIT, text = BUF_INIT, out = BUF_INIT;
		patch_auto struct patch p = { 0 };
		struct err e = ERR_INIT;
		struct buf *const both[] = { &a, &b };

		for (int k = 0; k < 2; k++)
			for (int n = rand_r(&seed) % 12; n > 0; n--)
				buf_printf(both[k], "%c%s", 'a' + rand_r(&seed) % 4,
					   n == 1 && rand_r(&seed) % 4 == 0 ? "" : "\n");
		buf_str(&text, "--- a/f\n+++ b/f\n");
		if (!diff_unified(buf_cstr(&a), a.len, buf_cstr(&b), b.len, &text))
			continue;
		ck_assert_msg(patch_parse(text.data, text.len, &p, &e) == 0, "%s\n%s", e.message, text.data);
		ck_assert_msg(patch_text(&p.files[0], buf_cstr(&a), a.len, &out, &e) == 0, "%s\n%s", e.message,
			      text.data);
		ck_assert_msg(out.len == b.len && memcmp(buf_cstr(&out), buf_cstr(&b), b.len) == 0,
			      "of\n%s\nby\n%s\ncame\n%s", buf_cstr(&a), text.data, buf_cstr(&out));
	}
}
END_TEST

int main(void)
{
	return SUITE("patch", an_envelope_updates_adds_and_deletes, hunks_apply_where_their_lines_are,
		     carriage_returns_are_kept, errors_name_the_hunk_or_line, unified_diffs_apply,
		     applying_a_diff_gives_the_new_text);
}
