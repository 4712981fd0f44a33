/* Processes and lists of processes; a new projection gives the same bytes. */

#include "tests/unit/runtime/view/rig.h"

START_TEST(a_started_process_is_running)
{
	buf_auto struct buf out = BUF_INIT;
	struct jval d;

	put_start();
	d = process(&out);
	is_text(d, "processId", P1);
	is_text(d, "status", "running");
	is_raw(d, "command", "[\"ls\",\"a b\"]");
	is_text(d, "cwd", "/tmp");
	is_number(d, "pid", 42);
	is_number(d, "startTime", 9);
	is_number(d, "startedBootNs", 5);
	is_text(d, "stdin", "pipe");
	is_text(d, "stderr", "separate");
	is_text(d, "sandboxProfile", "plain");
	is_text(d, "taskId", "task_1");
	is_text(d, "sessionId", S1);
	is_number(d, "uid", 1000);
	is_number(d, "limits.wallMs", 1000);
	is_text(d, "outputs.stdout.outputRef", O1);
	is_number(d, "outputs.stdout.bytes", 0);
	is_text(d, "outputs.stderr.preview", "");
	is_raw(d, "violations", "[]");
	is_absent(d, "endedAt");
	is_absent(d, "exitCode");
	projects_again();
}
END_TEST

START_TEST(a_completed_process_has_its_exit_and_outputs)
{
	buf_auto struct buf out = BUF_INIT;
	struct view_output_brief b;
	struct err e = ERR_INIT;
	struct jval d;

	put_start();
	put_output(0, 5, "hello", "utf8", 5);
	put_end();
	d = process(&out);
	is_text(d, "status", "completed");
	is_number(d, "exitCode", 3);
	is_number(d, "durationMs", 12);
	is_number(d, "usage.maxRssBytes", 1);
	is_number(d, "outputs.stdout.bytes", 5);
	ck_assert_int_eq(jval_path(d, "endedAt").type, JT_STRING);
	ck_assert_int_eq(view_output_brief(store, 0, O1, &b, &e), 0);
	ck_assert(b.ended);
	/* also the one that the terminal event does not name */
	ck_assert_int_eq(view_output_brief(store, 0, O2, &b, &e), 0);
	ck_assert(b.ended);
	projects_again();
}
END_TEST

START_TEST(the_first_end_is_kept)
{
	buf_auto struct buf out = BUF_INIT;
	struct jval d;

	put_start();
	put_completed(P1, O1, 5);
	put(EVENT_PROCESS_TERMINATED, (struct ids){ S1, T1, U1, P1, NULL, NULL }, NULL,
	    "{\"reason\":\"user\",\"cause\":\"user\",\"requestedBy\":{\"uid\":1},\"signal\":\"TERM\",\"treeEmpty\":"
	    "true,\"durationMs\":99,\"outputs\":{}}");
	d = process(&out);
	is_text(d, "status", "completed");
	is_number(d, "durationMs", 12);
	projects_again();
}
END_TEST

START_TEST(ends_have_their_own_status)
{
	static const struct {
		enum event_type type;
		const char *envelope, *payload, *status, *reason;
	} rows[] = {
		{ EVENT_PROCESS_TERMINATED, NULL,
		  "{\"reason\":\"shutdown\",\"cause\":\"shutdown\",\"requestedBy\":{\"uid\":1},\"signal\":\"TERM\","
		  "\"treeEmpty\":true,\"durationMs\":9,\"outputs\":{}}",
		  "terminated", "shutdown" },
		{ EVENT_PROCESS_FAILED, "timed_out", "{\"category\":\"timeout\",\"message\":\"m\",\"limit\":\"wall\"}",
		  "failed", "timed_out" },
		{ EVENT_PROCESS_FAILED, "lost", "{\"category\":\"transport\",\"message\":\"m\"}", "lost", NULL },
		{ EVENT_PROCESS_FAILED, "failed",
		  "{\"category\":\"spawn\",\"stage\":\"exec\",\"errno\":2,\"errnoName\":\"ENOENT\",\"message\":\"m\"}",
		  "failed", NULL },
	};
	buf_auto struct buf out = BUF_INIT;
	struct jval d;

	put_start();
	put(rows[_i].type, (struct ids){ S1, T1, U1, P1, NULL, NULL }, rows[_i].envelope, rows[_i].payload);
	d = process(&out);
	is_text(d, "status", rows[_i].status);
	if (rows[_i].reason)
		is_text(d, "statusReason", rows[_i].reason);
	else
		is_absent(d, "statusReason");
	projects_again();
}
END_TEST

START_TEST(closing_stdin_is_recorded)
{
	buf_auto struct buf out = BUF_INIT;

	put_start();
	put(EVENT_PROCESS_INPUT, (struct ids){ S1, T1, U1, P1, NULL, NULL }, NULL,
	    "{\"kind\":\"data\",\"bytes\":1,\"preview\":\"x\",\"encoding\":\"utf8\",\"redacted\":false,\"by\":{\"uid\":"
	    "1}}");
	is_absent(process(&out), "stdinClosed");
	put(EVENT_PROCESS_INPUT, (struct ids){ S1, T1, U1, P1, NULL, NULL }, NULL,
	    "{\"kind\":\"eof\",\"redacted\":false,\"by\":{\"uid\":1}}");
	is_raw(process(&out), "stdinClosed", "true");
	projects_again();
}
END_TEST

START_TEST(other_users_see_no_documents)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	put_start();
	ck_assert_int_lt(view_process(store, 1001, P1, &out, &e), 0);
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
	ck_assert_int_lt(view_session(store, 1001, S1, NULL, &out, &e), 0);
	ck_assert_int_lt(view_thread(store, 1001, T1, NULL, &out, &e), 0);
	ck_assert_uint_eq(out.len, 0);
	ck_assert_int_eq(view_process(store, 0, P1, &out, &e), 0);
}
END_TEST

START_TEST(events_about_unknown_objects_create_documents)
{
	buf_auto struct buf out = BUF_INIT;
	struct jval d;

	put_completed(P1, "out_unknown", 5);
	put_output(7, 1, "!", "base64", 1);
	put(EVENT_TURN_STARTED, turn_ids, NULL, "{\"driver\":\"runtime\"}");
	put(EVENT_THREAD_UPDATED, (struct ids){ .session = S1, .thread = T1 }, NULL,
	    "{\"status\":\"waiting_permission\",\"previous\":\"\",\"reason\":\"\"}");
	d = process(&out);
	is_text(d, "status", "completed");
	is_raw(d, "outputs", "{}");
	projects_again();
}
END_TEST

START_TEST(a_wait_result_has_status_and_outputs)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	struct jval d;

	put_start();
	ck_assert_int_eq(view_wait_result(store, 1000, P1, true, &out, &e), 0);
	d = value_of(&out);
	is_text(d, "status", "running");
	is_raw(d, "timedOut", "true");
	put_output(0, 5, "hello", "utf8", 5);
	put_end();
	buf_reset(&out);
	ck_assert_int_eq(view_wait_result(store, 1000, P1, false, &out, &e), 0);
	d = value_of(&out);
	is_number(d, "exitCode", 3);
	is_raw(d, "timedOut", "false");
	is_text(d, "outputs.stdout.preview", "hello");
	is_raw(d, "outputs.stdout.truncated", "false");
	is_raw(d, "violations", "[]");
	ck_assert_int_lt(view_wait_result(store, 1001, P1, false, &out, &e), 0);
}
END_TEST

/* ---- lists ---- */

static struct jval list(struct view_process_query q, uint32_t uid, struct buf *out)
{
	struct err e = ERR_INIT;

	if (!q.limit)
		q.limit = 100;
	buf_reset(out);
	ck_assert_msg(view_processes(store, uid, &q, out, &e) == 0, "%s", e.message);
	return value_of(out);
}

static size_t listed(struct view_process_query q, uint32_t uid)
{
	buf_auto struct buf out = BUF_INIT;

	return count(jval_get(list(q, uid, &out), "processes"));
}

START_TEST(lists_are_filtered)
{
	buf_auto struct buf out = BUF_INIT;
	struct jval d;

	put_start();
	put_process(P2, "out_3", "out_4");
	put_completed(P2, "out_3", 1);
	d = list((struct view_process_query){ 0 }, 1000, &out);
	is_text(element(jval_get(d, "processes"), 0), "processId", P2);
	is_text(element(jval_get(d, "processes"), 1), "processId", P1);
	is_absent(d, "nextCursor");
	ck_assert_uint_eq(listed((struct view_process_query){ .live_only = true }, 1000), 1);
	ck_assert_uint_eq(listed((struct view_process_query){ .status = "completed" }, 1000), 1);
	ck_assert_uint_eq(listed((struct view_process_query){ .status = "running" }, 1000), 1);
	ck_assert_uint_eq(listed((struct view_process_query){ .session_id = S1 }, 0), 2);
	ck_assert_uint_eq(listed((struct view_process_query){ .session_id = "sess_b" }, 0), 0);
	ck_assert_uint_eq(listed((struct view_process_query){ .task_id = "task_2" }, 0), 0);
	ck_assert_uint_eq(listed((struct view_process_query){ 0 }, 1001), 0);
	ck_assert_uint_eq(listed((struct view_process_query){ .match = P2 }, 0), 1);
	ck_assert_uint_eq(listed((struct view_process_query){ .match = "pro" }, 0), 2);
	ck_assert_uint_eq(listed((struct view_process_query){ .match = "000000000" }, 0), 2);
	ck_assert_uint_eq(listed((struct view_process_query){ .match = "0002" }, 0), 1);
	ck_assert_uint_eq(listed((struct view_process_query){ .match = "002" }, 0), 0);
	ck_assert_uint_eq(listed((struct view_process_query){ .match = "nothing" }, 0), 0);
}
END_TEST

START_TEST(pages_follow_each_other)
{
	buf_auto struct buf out = BUF_INIT;
	char cursor[80] = "";
	size_t seen = 0;

	put_session();
	put_turn();
	for (int i = 0; i < 7; i++) {
		char id[40], ref[40], other[40];

		(void)snprintf(id, sizeof(id), "proc_%d", i);
		(void)snprintf(ref, sizeof(ref), "out_%d", i);
		(void)snprintf(other, sizeof(other), "err_%d", i);
		put_process(id, ref, other);
	}
	do {
		struct jval d = list((struct view_process_query){ .limit = 3,
								  .cursor = *cursor ? cursor : NULL,
								  .session_id = _i ? S1 : NULL },
				     1000, &out);
		struct jval next = jval_get(d, "nextCursor");

		for (struct jiter it = jiter_on(jval_get(d, "processes")); jiter_next(&it); seen++) {
			char expected[40];

			(void)snprintf(expected, sizeof(expected), "proc_%zu", 6 - seen);
			is_text(it.value, "processId", expected);
		}
		cursor[0] = '\0';
		if (next.type == JT_STRING)
			(void)jval_str(next, cursor, sizeof(cursor));
	} while (*cursor);
	ck_assert_uint_eq(seen, 7);
}
END_TEST

START_TEST(errors_of_queries_name_the_field)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_int_lt(view_processes(store, 0, &(struct view_process_query){ .limit = 0 }, &out, &e), 0);
	ck_assert_str_eq(e.field, "limit");
	ck_assert_int_lt(
		view_processes(store, 0, &(struct view_process_query){ .limit = 1, .cursor = "a/b" }, &out, &e), 0);
	ck_assert_str_eq(e.field, "cursor");
	ck_assert_int_lt(view_processes(store, 0, &(struct view_process_query){ .limit = 1, .match = "*" }, &out, &e),
			 0);
	ck_assert_str_eq(e.field, "match");
	ck_assert_int_lt(view_sessions(store, 0, 2000, NULL, &out, &e), 0);
	ck_assert_str_eq(e.field, "limit");
	ck_assert_uint_eq(out.len, 0);
}
END_TEST

int main(void)
{
	return VIEW_SUITE("view_process", { a_started_process_is_running },
			  { a_completed_process_has_its_exit_and_outputs }, { the_first_end_is_kept },
			  { ends_have_their_own_status, 4 }, { closing_stdin_is_recorded },
			  { other_users_see_no_documents }, { events_about_unknown_objects_create_documents },
			  { a_wait_result_has_status_and_outputs }, { lists_are_filtered },
			  { pages_follow_each_other, 2 }, { errors_of_queries_name_the_field });
}
