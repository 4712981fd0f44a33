/* Outputs: counts, previews, omitted ranges, and expiry. */

#include "tests/unit/runtime/view/rig.h"

START_TEST(output_is_counted_and_its_beginning_kept)
{
	buf_auto struct buf out = BUF_INIT;
	struct view_output_brief b;
	struct err e = ERR_INIT;
	struct jval d;

	put_start();
	put_output(0, 3, "ab\\n", "utf8", 3);
	put_output(3, 2, "w6Q=", "base64", 2);
	put_output(5, 1000000, "cd", "utf8", 2);
	put_output(1000005, 1, "z", "utf8", 1);
	d = process(&out);
	is_number(d, "outputs.stdout.bytes", 1000006);
	is_text(d, "outputs.stdout.preview", "ab\näcd");
	ck_assert_int_eq(view_output_brief(store, 1000, O1, &b, &e), 0);
	ck_assert_uint_eq(b.bytes, 1000006);
	ck_assert_str_eq(b.process_id, P1);
	ck_assert(!b.ended && !b.expired);
	ck_assert_int_eq(view_output_brief(store, 1001, O1, &b, &e), 1);
	projects_again();
}
END_TEST

START_TEST(a_character_split_between_events_is_joined)
{
	buf_auto struct buf out = BUF_INIT;

	put_start();
	put_output(0, 1, "ww==", "base64", 1);
	put_output(1, 1, "pA==", "base64", 1);
	is_text(process(&out), "outputs.stdout.preview", "ä");
}
END_TEST

START_TEST(a_preview_stops_at_its_limit)
{
	buf_auto struct buf out = BUF_INIT, text = BUF_INIT;

	memset(buf_reserve(&text, 1500), 'x', 1500);
	text.len = 1500;
	text.data[1500] = '\0';
	put_start();
	put_output(0, 1500, text.data, "utf8", 1500);
	put_output(1500, 1500, text.data, "utf8", 1500);
	put_output(3000, 1500, text.data, "utf8", 1500);
	ck_assert_uint_eq(jval_path(process(&out), "outputs.stdout.preview").len, 2048 + 2);
}
END_TEST

START_TEST(truncation_is_exact)
{
	buf_auto struct buf out = BUF_INIT;
	struct view_output_brief b;
	struct err e = ERR_INIT;
	struct jval d;

	put_start();
	put_output(0, 9000, "", "utf8", 0);
	put(EVENT_OUTPUT_TRUNCATED, (struct ids){ S1, T1, U1, P1, O1, NULL }, NULL,
	    "{\"outputRef\":\"" O1
	    "\",\"stream\":\"stdout\",\"bytes\":9000,\"omittedBytes\":4096,\"omittedFrom\":1000,\"omittedTo\":5096,"
	    "\"limit\":4000,\"reason\":\"output_limit\"}");
	d = process(&out);
	is_raw(d, "outputs.stdout.truncated", "true");
	is_number(d, "outputs.stdout.omittedBytes", 4096);
	ck_assert_int_eq(view_output_brief(store, 0, O1, &b, &e), 0);
	ck_assert_uint_eq(b.omitted_from, 1000);
	ck_assert_uint_eq(b.omitted_to, 5096);
}
END_TEST

static bool on_expirable(void *ctx, const struct view_expirable *x)
{
	size_t *n = ctx;

	ck_assert_str_eq(x->session_id, S1);
	ck_assert_uint_eq(x->uid, 1000);
	(*n)++;
	return true;
}

static size_t expirable(uint64_t floor)
{
	size_t n = 0;
	struct err e = ERR_INIT;

	ck_assert_int_eq(view_expirable_outputs(store, floor, NULL, 10, on_expirable, &n, NULL, &e), 0);
	return n;
}

START_TEST(ended_outputs_expire_once)
{
	buf_auto struct buf out = BUF_INIT;
	uint64_t end;

	put_start();
	put_output(0, 5, "hello", "utf8", 5);
	ck_assert_uint_eq(expirable(1000), 0);
	put_completed(P1, O1, 5);
	end = store_last_sequence(store);
	ck_assert_uint_eq(expirable(end), 0);
	ck_assert_uint_eq(expirable(end + 1), 2);
	put(EVENT_OUTPUT_EXPIRED, (struct ids){ S1, T1, U1, P1, O1, NULL }, NULL,
	    "{\"outputRef\":\"" O1 "\",\"bytes\":5,\"policy\":\"retention\",\"expiredAt\":\"2026-01-01T00:00:00Z\"}");
	ck_assert_uint_eq(expirable(end + 1), 0);
	is_raw(process(&out), "outputs.stdout.expired", "true");
	is_text(process(&out), "outputs.stdout.preview", "");
	projects_again();
}
END_TEST

static void on_pruned(void *ctx, uint64_t removed, const struct err *e)
{
	ck_assert(!e);
	*(bool *)ctx = true;
}

static void prune_before(uint64_t floor)
{
	struct pollfd wake = { .fd = store_dispatch_fd(store), .events = POLLIN };
	bool done = false;

	store_prune(store, floor, 0, on_pruned, &done);
	while (!done && poll(&wake, 1, 10000) == 1)
		store_dispatch(store);
	ck_assert(done);
}

/* 0 or the code of the error. */
static enum err_code read_code(const char *ref)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	return store_output_read(store, ref, 0, 100, &out, &e) < 0 ? e.code : 0;
}

START_TEST(expired_outputs_are_forgotten_with_the_removal_of_their_session)
{
	struct store_batch *b = store_batch_new(store);

	put_session();
	store_batch_inline(b, O1, "hello", 5);
	store_batch_expire_output(b, O1);
	store_batch_expire_output(b, O2);
	store_submit(store, b, 0, NULL, NULL);
	put(EVENT_SESSION_EXPIRED, (struct ids){ .session = S1 }, NULL,
	    "{\"policy\":\"retention\",\"expiredAt\":\"2026-01-01T00:00:00Z\",\"documents\":[\"6/" O1 "\"]}");
	const uint64_t removal = store_last_sequence(store);
	put_turn();
	prune_before(removal); /* the event is still in the log */
	ck_assert_int_eq(read_code(O1), ERR_EXPIRED);
	prune_before(removal + 1);
	ck_assert_int_eq(read_code(O1), 0);
	ck_assert_int_eq(read_code(O2), ERR_EXPIRED); /* it was not in the event */
}
END_TEST

int main(void)
{
	return VIEW_SUITE("view_output", { output_is_counted_and_its_beginning_kept },
			  { a_character_split_between_events_is_joined }, { a_preview_stops_at_its_limit },
			  { truncation_is_exact }, { ended_outputs_expire_once },
			  { expired_outputs_are_forgotten_with_the_removal_of_their_session });
}
