/* Sessions: the snapshot, windows of it, and lists by owner. */

#include "runtime/view/view_documents.h"
#include "tests/unit/runtime/view/rig.h"

START_TEST(a_session_snapshot_has_the_members_that_the_schemas_require)
{
	static const char *const required[] = { "schemaVersion",    "runtimeId",   "sessionId",   "updatedAt",
						"threads",          "tasks",       "taskSummary", "routingLimitSummary",
						"telemetrySummary", "evidenceRefs" };
	static const char *const of_thread[] = { "threadId",    "status",    "turns",          "pendingRequests",
						 "queuedTurns", "incidents", "evidenceSummary" };
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	struct jval d, thread, turn;

	put_start();
	put_output(0, 5, "hello", "utf8", 5);
	put_end();
	ck_assert_msg(view_session(store, 1000, S1, NULL, &out, &e) == 0, "%s", e.message);
	d = value_of(&out);
	for (size_t i = 0; i < countof(required); i++)
		ck_assert_msg(jval_get(d, required[i]).type != JT_NONE, "%s", required[i]);
	thread = element(jval_get(d, "threads"), 0);
	for (size_t i = 0; i < countof(of_thread); i++)
		ck_assert_msg(jval_get(thread, of_thread[i]).type != JT_NONE, "%s", of_thread[i]);
	is_text(d, "title", "a title");
	is_text(thread, "status", "failed");
	is_absent(thread, "activeTurnId");
	turn = element(jval_get(thread, "turns"), 0);
	is_text(turn, "status", "failed");
	is_text(turn, "permissionState.decision", "allow");
	is_text(element(jval_get(turn, "processes"), 0), "processId", P1);
	is_text(element(jval_get(thread, "incidents"), 0), "category", "exit");
	if (getenv("VIEW_TEST_PRINT"))
		printf("%s\n", out.data);
	projects_again();
}
END_TEST

static void is_rules(const char *rules)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	struct jval d;

	ck_assert_msg(view_session(store, 1000, S1, NULL, &out, &e) == 0, "%s", e.message);
	d = jval_get(value_of(&out), "permissions");
	if (rules)
		ck_assert_msg(d.len == strlen(rules) && memcmp(d.text, rules, d.len) == 0, "%.*s", (int)d.len, d.text);
	else
		ck_assert_int_eq(d.type, JT_NONE);
}

START_TEST(a_session_has_its_newest_rules)
{
	const struct ids ids = { .session = S1, .thread = T1 };

	put_session();
	is_rules(NULL);
	put(EVENT_POLICY_CHANGED, ids, NULL,
	    "{\"layer\":\"session\",\"permissions\":{\"deny\":[\"Bash(rm:*)\"],\"ask\":[\"Bash\"]}}");
	is_rules("{\"deny\":[\"Bash(rm:*)\"],\"ask\":[\"Bash\"]}");
	/* Modes, titles and policy files do not affect them. */
	put(EVENT_POLICY_CHANGED, ids, NULL, "{\"layer\":\"session\",\"mode\":\"plan\"}");
	put(EVENT_SESSION_UPDATED, ids, NULL, "{\"title\":\"x\"}");
	put(EVENT_POLICY_CHANGED, ids, NULL, "{\"layer\":\"user\",\"newHash\":\"h\"}");
	is_rules("{\"deny\":[\"Bash(rm:*)\"],\"ask\":[\"Bash\"]}");
	put(EVENT_POLICY_CHANGED, ids, NULL, "{\"layer\":\"session\",\"permissions\":{\"allow\":[\"Bash(ls)\"]}}");
	is_rules("{\"allow\":[\"Bash(ls)\"]}");
	projects_again();
	put(EVENT_POLICY_CHANGED, ids, NULL, "{\"layer\":\"session\",\"permissions\":{}}");
	is_rules(NULL);
	projects_again();
}
END_TEST

START_TEST(windows_page_backward_through_a_session)
{
	buf_auto struct buf out = BUF_INIT;
	struct view_window w = { .limit = 2 };
	struct err e = ERR_INIT;
	struct jval d;

	put_session();
	for (int i = 0; i < 3; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "thr_b%d", i);
		put(EVENT_THREAD_STARTED, (struct ids){ .session = S1, .thread = id }, NULL,
		    "{\"origin\":\"process\"}");
	}
	ck_assert_int_eq(view_session(store, 1000, S1, &w, &out, &e), 0);
	d = value_of(&out);
	is_text(element(jval_get(d, "threads"), 0), "threadId", "thr_b1");
	is_text(element(jval_get(d, "threads"), 1), "threadId", "thr_b2");
	is_text(d, "historyCursor", "thr_b1");
	buf_reset(&out);
	w.before = "thr_b1";
	ck_assert_int_eq(view_session(store, 1000, S1, &w, &out, &e), 0);
	d = value_of(&out);
	is_text(element(jval_get(d, "threads"), 0), "threadId", T1);
	is_absent(d, "historyCursor");
	w.before = T1;
	ck_assert_int_lt(view_session(store, 1000, S1, &w, &out, &e), 0);
	ck_assert_str_eq(e.field, "window.before");
}
END_TEST

START_TEST(sessions_are_listed_by_owner)
{
	buf_auto struct buf out = BUF_INIT;
	struct view_session_brief b;
	struct err e = ERR_INIT;

	put_session();
	put_as(1001, EVENT_SESSION_CREATED, (struct ids){ .session = "sess_b", .thread = "thr_c" }, NULL,
	       "{\"kind\":\"user\",\"createdBy\":{\"uid\":1001,\"pid\":7}}");
	ck_assert_int_eq(view_sessions(store, 1001, 10, NULL, &out, &e), 0);
	ck_assert_uint_eq(count(jval_get(value_of(&out), "sessions")), 1);
	buf_reset(&out);
	ck_assert_int_eq(view_sessions(store, 0, 1, NULL, &out, &e), 0);
	is_text(element(jval_get(value_of(&out), "sessions"), 0), "sessionId", "sess_b");
	is_text(value_of(&out), "nextCursor", "sess_b");
	buf_reset(&out);
	ck_assert_int_eq(view_sessions(store, 0, 1, "sess_b", &out, &e), 0);
	is_text(element(jval_get(value_of(&out), "sessions"), 0), "sessionId", S1);
	is_absent(value_of(&out), "nextCursor");
	ck_assert_int_eq(view_session_brief(store, 1000, S1, &b, &e), 0);
	ck_assert_str_eq(b.first_thread, T1);
	ck_assert_int_eq(view_session_brief(store, 1001, S1, &b, &e), 1);
}
END_TEST

/* `text` has only JSON members if the store kept a struct: the first member of a document is its id, a string. */
static void reads_the_same(const struct view_schema *schema, const char *id)
{
	_Alignas(max_align_t) char committed[VIEW_DOCUMENT_MAX], kept[VIEW_DOCUMENT_MAX];
	buf_auto struct buf text = BUF_INIT, members = BUF_INIT, before = BUF_INIT, after = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_int_eq(view_read(store, schema, id, &text, committed, &e), 0);
	view_encode(schema, committed, &before);
	ck_assert_int_eq(view_read_speculative(store, schema, id, &members, kept, &e), 0);
	ck_assert_ptr_null(strstr(buf_cstr(&members), id));
	put_as(1001, EVENT_SESSION_CREATED, (struct ids){ .session = "sess_b", .thread = "thr_c" }, NULL,
	       "{\"kind\":\"user\",\"createdBy\":{\"uid\":1001,\"pid\":7}}");
	view_encode(schema, kept, &after); /* a later group does not change it */
	ck_assert_str_eq(buf_cstr(&after), buf_cstr(&before));
}

START_TEST(a_document_that_the_store_keeps_as_a_struct_reads_like_its_text)
{
	put_session();
	put_turn();
	put_process(P1, O1, O2);
	reads_the_same(&session_schema, S1);
	reads_the_same(&thread_schema, T1);
	reads_the_same(&process_schema, P1);
}
END_TEST

int main(void)
{
	return VIEW_SUITE("view_session", { a_session_snapshot_has_the_members_that_the_schemas_require },
			  { a_session_has_its_newest_rules }, { windows_page_backward_through_a_session },
			  { sessions_are_listed_by_owner },
			  { a_document_that_the_store_keeps_as_a_struct_reads_like_its_text });
}
