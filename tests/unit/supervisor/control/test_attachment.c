#include "supervisor/control/attachment.h"

#include "runtime/base/buf.h"
#include "tests/unit/suite.h"

#include <string.h>

#define A "proc_a"
#define B "proc_b"

static void put(struct attachments *a, const char *process, uint64_t connection, uint32_t rows, uint32_t cols,
		enum attachment_policy policy)
{
	struct caller c = { .connection = connection, .uid = 1000 };

	ck_assert(attachment_put(a, process, &c, (struct attachment_size){ rows, cols }, policy));
}

static void expect(const struct attachments *a, const char *process, uint32_t rows, uint32_t cols)
{
	struct attachment_size size;

	ck_assert(attachment_size(a, process, &size));
	ck_assert_uint_eq(size.rows, rows);
	ck_assert_uint_eq(size.cols, cols);
}

static void note(void *ctx, const char *process_id, const struct caller *c, struct attachment_size size)
{
	ck_assert_uint_eq(c->uid, 1000);
	buf_printf(ctx, "%s %u:%ux%u ", process_id, (unsigned)c->connection, size.rows, size.cols);
}

START_TEST(test_the_newest_client_sets_the_size)
{
	buf_auto struct buf told = BUF_INIT;
	struct attachment_size size;
	struct attachments a;

	attachments_init(&a);
	ck_assert(!attachment_size(&a, A, &size));
	put(&a, A, 1, 24, 80, ATTACHMENT_NEWEST);
	put(&a, A, 2, 50, 132, ATTACHMENT_NEWEST);
	put(&a, B, 2, 10, 10, ATTACHMENT_NEWEST);
	expect(&a, A, 50, 132);
	put(&a, A, 1, 25, 81, ATTACHMENT_NEWEST); /* its window changed: it is the newest */
	expect(&a, A, 25, 81);
	attachment_gone(&a, 1, note, &told);
	ck_assert_str_eq(buf_cstr(&told), A " 2:50x132 ");
	buf_reset(&told);
	put(&a, A, 3, 50, 132, ATTACHMENT_NEWEST);
	attachment_gone(&a, 3, note, &told); /* nothing changes */
	attachment_gone(&a, 2, note, &told); /* no display is left */
	ck_assert_uint_eq(told.len, 0);
	ck_assert(!attachment_size(&a, A, &size));
	attachments_done(&a);
}
END_TEST

START_TEST(test_the_smallest_size_is_used)
{
	buf_auto struct buf told = BUF_INIT;
	struct attachments a;

	attachments_init(&a);
	put(&a, A, 1, 24, 132, ATTACHMENT_NEWEST);
	put(&a, A, 2, 50, 80, ATTACHMENT_SMALLEST);
	put(&a, B, 3, 5, 5, ATTACHMENT_NEWEST);
	expect(&a, A, 24, 80);
	attachment_gone(&a, 1, note, &told);
	ck_assert_str_eq(buf_cstr(&told), A " 2:50x80 ");
	put(&a, A, 4, 60, 200, ATTACHMENT_NEWEST); /* the policy of the newest client applies */
	expect(&a, A, 60, 200);
	attachment_remove(&a, A, 4);
	expect(&a, A, 50, 80);
	attachments_done(&a);
}
END_TEST

START_TEST(test_a_client_that_keeps_the_size_does_not_set_it)
{
	buf_auto struct buf told = BUF_INIT;
	struct attachment_size size;
	struct attachments a;

	attachments_init(&a);
	put(&a, A, 1, 5, 10, ATTACHMENT_KEEP);
	ck_assert(!attachment_size(&a, A, &size));
	ck_assert(attachment_any(&a, A) && !attachment_any(&a, B));
	put(&a, A, 2, 50, 132, ATTACHMENT_SMALLEST);
	put(&a, A, 3, 6, 12, ATTACHMENT_KEEP);
	expect(&a, A, 50, 132);
	attachment_gone(&a, 3, note, &told);
	attachment_gone(&a, 2, note, &told);
	ck_assert_uint_eq(told.len, 0);
	ck_assert(attachment_any(&a, A));
	attachment_gone(&a, 1, note, &told);
	ck_assert(!attachment_any(&a, A));
	attachments_done(&a);
}
END_TEST

START_TEST(test_attachments_of_a_client_are_bounded)
{
	struct attachments a;
	struct caller c = { .connection = 1 };
	char id[32];

	attachments_init(&a);
	for (int i = 0; i < ATTACHMENTS_MAX; i++) {
		snprintf(id, sizeof(id), "proc_%d", i);
		put(&a, id, 1, 24, 80, ATTACHMENT_NEWEST);
	}
	put(&a, "proc_3", 1, 25, 80, ATTACHMENT_NEWEST);
	ck_assert(!attachment_put(&a, A, &c, (struct attachment_size){ 1, 1 }, ATTACHMENT_NEWEST));
	put(&a, A, 2, 24, 80, ATTACHMENT_NEWEST);
	attachments_done(&a);
}
END_TEST

int main(void)
{
	return SUITE("attachment", test_the_newest_client_sets_the_size, test_the_smallest_size_is_used,
		     test_a_client_that_keeps_the_size_does_not_set_it, test_attachments_of_a_client_are_bounded);
}
