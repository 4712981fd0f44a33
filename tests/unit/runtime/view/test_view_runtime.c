/* The runtime itself: the system session, and the documents that a recovery reads. */

#include "runtime/view/view_documents.h"
#include "tests/unit/runtime/view/rig.h"

START_TEST(the_system_session_is_found)
{
	char session[72], thread[72], turn[72];
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_int_eq(view_system_ids(store, session, thread, turn, &e), 1);
	put_session();
	put_as(0, EVENT_SESSION_CREATED, (struct ids){ .session = "sess_s", .thread = "thr_s" }, NULL,
	       "{\"kind\":\"system\",\"createdBy\":{\"uid\":0,\"pid\":1}}");
	put_as(0, EVENT_THREAD_STARTED, (struct ids){ .session = "sess_s", .thread = "thr_s" }, NULL,
	       "{\"origin\":\"system\"}");
	put_as(0, EVENT_TURN_SUBMITTED, (struct ids){ .session = "sess_s", .thread = "thr_s", .turn = "turn_s" }, NULL,
	       "{\"source\":\"system\",\"status\":\"accepted\"}");
	put_as(0, EVENT_HISTORY_RECONSTRUCTED, (struct ids){ .session = "sess_s", .thread = "thr_s", .turn = "turn_s" },
	       NULL,
	       "{\"bootId\":\"b\",\"alive\":[{\"processId\":\"p\"}],\"exited\":[],\"lost\":[{},{}],\"aborted\":0,"
	       "\"outputs\":[],"
	       "\"openActions\":[],\"queuedTurns\":[],\"degraded\":false}");
	ck_assert_int_eq(view_system_ids(store, session, thread, turn, &e), 0);
	ck_assert_str_eq(session, "sess_s");
	ck_assert_str_eq(thread, "thr_s");
	ck_assert_str_eq(turn, "turn_s");
	ck_assert_int_eq(store_model_get(store, VIEW_RUNTIME, VIEW_RUNTIME_ID, &out, &e), 0);
	is_number(value_of(&out), "alive", 1);
	is_number(value_of(&out), "lost", 2);
	is_number(value_of(&out), "reconstructions", 1);
	projects_again();
}
END_TEST

struct each {
	char ids[8][72];
	size_t n;
	uint64_t bytes;
};

static bool on_each(void *ctx, const char *id, const char *json, size_t len)
{
	struct each *s = ctx;

	ck_assert_uint_lt(s->n, countof(s->ids));
	(void)snprintf(s->ids[s->n++], sizeof(s->ids[0]), "%s", id);
	s->bytes = jval_uint(jval_path(jval_of(json, len), "outputs.stdout.bytes"), 0);
	return true;
}

START_TEST(only_processes_and_turns_that_have_not_ended_are_live)
{
	struct each p = { 0 }, t = { 0 }, none = { 0 };
	struct err e = ERR_INIT;

	put_start();
	put_output(0, 5, "hello", "utf8", 5);
	put_process(P2, "out_3", "out_4");
	put_completed(P2, "out_3", 1);
	ck_assert_int_eq(view_live_processes(store, on_each, &p, &e), 0);
	ck_assert_uint_eq(p.n, 1);
	ck_assert_str_eq(p.ids[0], P1);
	ck_assert_uint_eq(p.bytes, 5);
	ck_assert_int_eq(view_live_turns(store, on_each, &t, &e), 0);
	ck_assert_uint_eq(t.n, 1);
	ck_assert_str_eq(t.ids[0], U1);
	put_end();
	ck_assert_int_eq(view_live_processes(store, on_each, &none, &e), 0);
	ck_assert_int_eq(view_live_turns(store, on_each, &none, &e), 0);
	ck_assert_uint_eq(none.n, 0);
}
END_TEST

int main(void)
{
	return VIEW_SUITE("view_runtime", { the_system_session_is_found },
			  { only_processes_and_turns_that_have_not_ended_are_live });
}
