/* What retention removes while processes end. */

#include "supervisor/host/retention.h"

#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/view/view.h"
#include "runtime/view/view_documents.h"
#include "sandbox/status.h"
#include "tests/unit/runtime/engine/fake_host.h"
#include "tests/unit/suite.h"

#include <time.h>

static struct fake_host w;
static struct fake_reply reply;
static struct retention_queue queue;
static unsigned finished;

static void set_up(void)
{
	fake_open(&w);
	reply = (struct fake_reply){ 0 };
	finished = 0;
}

static void tear_down(void)
{
	fake_close(&w);
	buf_done(&reply.json);
}

static void on_done(void *ctx, const struct retention_result *r, const struct err *e)
{
	ck_assert_ptr_null(e);
	finished++;
}

static bool is_committed_as_ended(const char *process)
{
	buf_auto struct buf text = BUF_INIT;
	struct process_doc d;
	struct err e = ERR_INIT;

	ck_assert_int_eq(view_read(w.store, &process_schema, process, &text, &d, &e), 0);
	return d.endSequence != VIEW_ABSENT;
}

/* The end is committed but not dispatched when the session is checked: documents show it, the list of events does not
 * yet. */
START_TEST(the_output_of_a_process_that_has_just_ended_is_kept)
{
	const struct status_msg end = { .kind = STATUS_EXITED };
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct start_request r = fake_request(&w, "x");
	struct fake_process *p = fake_run(&w, &r, &reply);
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	fake_print(&w, p, STREAM_STDOUT, "kept\n", 5);
	fake_advance(&w, 60);
	fake_run(&w, &r, &reply); /* in a session of its own, which has the newest event */
	retention_run(&queue, w.store, store_last_sequence(w.store), 0, on_done, NULL);
	engine_on_exited(w.engine, p->id, &end);
	engine_on_gone(w.engine, p->id, &end);
	engine_on_output_end(w.engine, p->id, STREAM_STDOUT);
	engine_on_output_end(w.engine, p->id, STREAM_STDERR);
	while (!is_committed_as_ended(p->id))
		nanosleep(&pause, NULL);
	fake_settle(&w);
	while (!finished)
		store_flush(w.store);
	ck_assert_int_eq(store_output_read(w.store, p->streams.ref[0], 0, 100, &out, &e), 0);
	ck_assert_str_eq(buf_cstr(&out), "kept\n");

	/* The next run removes it. */
	retention_run(&queue, w.store, UINT64_MAX, 0, on_done, NULL);
	while (finished < 2)
		store_flush(w.store);
	ck_assert_int_lt(store_output_read(w.store, p->streams.ref[0], 0, 100, &out, &e), 0);
	ck_assert_int_eq(e.code, ERR_EXPIRED);
}
END_TEST

static bool count_document(void *ctx, uint8_t kind, const char *id)
{
	buf_printf(ctx, "%u/%s ", kind, id);
	return true;
}

/* Time that is over allows the smallest step. All steps together find what one without a limit finds. */
START_TEST(a_session_is_searched_in_steps)
{
	const struct status_msg end = { .kind = STATUS_EXITED };
	struct start_request r = fake_request(&w, "x");
	buf_auto struct buf at_once = BUF_INIT, in_steps = BUF_INIT;
	struct view_expiry *x;
	struct err e = ERR_INIT;
	buf_auto struct buf text = BUF_INIT;
	struct process_doc d;
	unsigned steps = 0;

	struct fake_process *p = fake_run(&w, &r, &reply);
	engine_on_exited(w.engine, p->id, &end);
	engine_on_gone(w.engine, p->id, &end);
	engine_on_output_end(w.engine, p->id, STREAM_STDOUT);
	engine_on_output_end(w.engine, p->id, STREAM_STDERR);
	fake_settle(&w);
	store_flush(w.store);
	ck_assert_int_eq(view_read(w.store, &process_schema, p->id, &text, &d, &e), 0);
	x = view_expiry_new(w.store, d.sessionId);
	ck_assert_int_eq(view_expiry_step(x, UINT64_MAX, count_document, &at_once, &e), VIEW_EXPIRY_DONE);
	view_expiry_free(x);
	x = view_expiry_new(w.store, d.sessionId);
	while (view_expiry_step(x, 0, count_document, &in_steps, &e) == VIEW_EXPIRY_MORE)
		steps++;
	view_expiry_free(x);
	ck_assert_uint_gt(steps, 3); /* thread, turn, process, outputs */
	ck_assert_str_eq(buf_cstr(&at_once), buf_cstr(&in_steps));
}
END_TEST

int main(void)
{
	const struct suite_case all = { "all", set_up, tear_down, 60,
					SUITE_TESTS(the_output_of_a_process_that_has_just_ended_is_kept,
						    a_session_is_searched_in_steps) };

	return suite_run_cases("retention", &all, 1);
}
