/* Speculative reads: models that include submitted, uncommitted batches, for decisions. */

#include "tests/unit/runtime/store/rig.h"

/* The projection for speculative reads: kind 1 only. */
static int project_speculative(struct models *m, const struct event_view *ev, struct err *e)
{
	struct event_view without = *ev;

	ck_assert_uint_eq(ev->sequence, 0); /* not known yet */
	without.ids[ID_PROCESS] = (struct id_text){ 0 };
	return rig_fold(m, &without, e);
}

static uint64_t count_of(struct rig *r, const char *id, bool speculative)
{
	buf_auto struct buf text = BUF_INIT;
	struct err e = ERR_INIT;
	int found = (speculative ? store_model_get_speculative : store_model_get)(r->s, 1, id, &text, &e);

	ck_assert_int_ge(found, 0);
	return found ? 0 : jval_uint(jval_get(jval_of(text.data, text.len), "count"), 0);
}

static void submit(struct rig *r, const char *session, unsigned n)
{
	struct store_batch *b = store_batch_new(r->s);

	for (unsigned i = 0; i < n; i++)
		rig_event(b, EVENT_RUNTIME_WARNING, session, NULL, i);
	store_submit(r->s, b, 0, rig_result, r);
}

static void open_rig(struct rig *r)
{
	rig_init(r);
	r->o.project_speculative = project_speculative;
	rig_open(r);
}

START_TEST(submitted_batches_are_visible_to_speculative_reads)
{
	struct rig r;

	open_rig(&r);
	submit(&r, "sess_a", 2);
	submit(&r, "sess_a", 3);
	submit(&r, "sess_b", 1);
	/* Whether the writer has committed yet or not, decisions see all batches. */
	ck_assert_uint_eq(count_of(&r, "sess_a", true), 5);
	ck_assert_uint_eq(count_of(&r, "sess_b", true), 1);
	store_flush(r.s);
	ck_assert_uint_eq(count_of(&r, "sess_a", false), 5);
	ck_assert_uint_eq(count_of(&r, "sess_a", true), 5);
	submit(&r, "sess_a", 1);
	ck_assert_uint_eq(count_of(&r, "sess_a", true), 6);
	rig_done(&r);
}
END_TEST

struct listing {
	char text[400];
};

static bool list(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct listing *l = ctx;
	size_t n = strlen(l->text);

	snprintf(l->text + n, sizeof l->text - n, "%.*s=%.*s ", (int)id_len, id, (int)len, json);
	return true;
}

START_TEST(lists_are_merged_in_order)
{
	struct listing l = { "" };
	struct err e = ERR_INIT;
	struct rig r;

	open_rig(&r);
	submit(&r, "sess_b", 1);
	submit(&r, "sess_d", 1);
	store_flush(r.s);
	submit(&r, "sess_a", 1);
	submit(&r, "sess_b", 1);
	submit(&r, "sess_c", 1);
	submit(&r, "sess_e", 1);
	submit(&r, "other", 1);
	ck_assert_int_eq(store_model_scan_speculative(r.s, 1, "sess_", list, &l, &e), 0);
	ck_assert_str_eq(l.text, "sess_a={\"count\":1} sess_b={\"count\":2} sess_c={\"count\":1} sess_d={\"count\":1} "
				 "sess_e={\"count\":1} ");
	rig_done(&r);
}
END_TEST

START_TEST(a_snapshot_does_not_change)
{
	struct rig r;

	open_rig(&r);
	submit(&r, "sess_a", 2);
	store_flush(r.s);
	{
		store_snapshot_auto struct store *held = r.s;

		store_snapshot_begin(held);
		submit(&r, "sess_a", 3);
		store_flush(r.s);
		ck_assert_uint_eq(count_of(&r, "sess_a", false), 2);
		ck_assert_uint_eq(count_of(&r, "sess_a", true), 5); /* decisions use the current state */
		{
			store_snapshot_auto struct store *again = r.s;

			store_snapshot_begin(again);
			ck_assert_uint_eq(count_of(&r, "sess_a", false), 2);
		}
		ck_assert_uint_eq(count_of(&r, "sess_a", false), 2);
	}
	ck_assert_uint_eq(count_of(&r, "sess_a", false), 5);
	rig_done(&r);
}
END_TEST

/* A full store: speculative documents of rejected batches must disappear, those of the others stay. */
START_TEST(rejected_batches_leave_nothing)
{
	struct rig r;

	rig_init(&r);
	r.o.project_speculative = project_speculative;
	r.o.quota_bytes = 1 << 20;
	rig_open(&r);
	for (unsigned i = 0; i < 4000 && !r.failed; i++) {
		submit(&r, "sess_a", 50);
		store_flush(r.s);
	}
	ck_assert_uint_gt(r.failed, 0);
	uint64_t kept = count_of(&r, "sess_a", false);
	ck_assert_uint_eq(count_of(&r, "sess_a", true), kept);
	submit(&r, "sess_a", 1);
	submit(&r, "sess_b", 1);
	store_flush(r.s);
	ck_assert_uint_eq(count_of(&r, "sess_a", true), count_of(&r, "sess_a", false));
	ck_assert_uint_eq(count_of(&r, "sess_b", true), count_of(&r, "sess_b", false));
	rig_done(&r);
}
END_TEST

START_TEST(the_problem_of_an_invalid_event_is_kept)
{
	struct event_draft d = { .type = EVENT_RUNTIME_WARNING, .payload = "{}", .payload_len = 2 };
	struct err e = ERR_INIT;
	struct rig r;

	open_rig(&r);
	struct store_batch *b = store_batch_new(r.s);
	rig_event(b, EVENT_RUNTIME_WARNING, "sess_a", NULL, 1);
	ck_assert_ptr_null(store_batch_problem(b));
	d.ids[ID_SESSION] = "sess_a";
	ck_assert_int_lt(store_batch_event(b, &d, &e), 0); /* required members are missing */
	ck_assert_ptr_nonnull(store_batch_problem(b));
	store_batch_free(b);
	rig_done(&r);
}
END_TEST

int main(void)
{
	return SUITE("speculative", submitted_batches_are_visible_to_speculative_reads, a_snapshot_does_not_change,
		     lists_are_merged_in_order, rejected_batches_leave_nothing,
		     the_problem_of_an_invalid_event_is_kept);
}
