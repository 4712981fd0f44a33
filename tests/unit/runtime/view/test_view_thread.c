/* Threads: the status that follows from their turns. */

#include "tests/unit/runtime/view/rig.h"

START_TEST(the_status_of_a_thread_follows_its_turn)
{
	buf_auto struct buf out = BUF_INIT;
	struct view_thread_brief t;
	struct view_turn_brief u;
	struct err e = ERR_INIT;
	struct jval d;

	put_start();
	ck_assert_int_eq(view_thread_brief(store, 1000, T1, &t, &e), 0);
	ck_assert_str_eq(t.session_id, S1);
	ck_assert_str_eq(t.active_turn, U1);
	ck_assert_str_eq(t.status, "running");
	ck_assert_int_eq(view_turn_brief(store, 1000, U1, &u, &e), 0);
	ck_assert(!u.ended);
	ck_assert_str_eq(u.thread_id, T1);
	put_end();
	ck_assert_int_eq(view_thread_brief(store, 1000, T1, &t, &e), 0);
	ck_assert_str_eq(t.active_turn, "");
	ck_assert_str_eq(t.status, "failed");
	ck_assert_int_eq(view_turn_brief(store, 1000, U1, &u, &e), 0);
	ck_assert(u.ended);
	ck_assert_int_eq(view_turn_brief(store, 1000, "turn_none", &u, &e), 1);
	ck_assert_int_eq(view_thread(store, 1000, T1, NULL, &out, &e), 0);
	d = value_of(&out);
	is_text(d, "sessionId", S1);
	ck_assert_int_eq(jval_get(d, "updatedAt").type, JT_STRING);
}
END_TEST

START_TEST(detailed_statuses_map_to_those_of_the_schema)
{
	static const char *const rows[][2] = { { "accepted", "running" },    { "waiting_permission", "blocked" },
					       { "timed_out", "failed" },    { "lost", "unknown" },
					       { "cancelled", "cancelled" }, { "no such", "unknown" } };
	mem_auto char *payload = mem_printf("{\"status\":\"%s\",\"previous\":\"idle\",\"reason\":\"r\"}", rows[_i][0]);
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	put_session();
	put(EVENT_THREAD_UPDATED, (struct ids){ .session = S1, .thread = T1 }, NULL, payload);
	ck_assert_int_eq(view_thread(store, 1000, T1, NULL, &out, &e), 0);
	is_text(value_of(&out), "status", rows[_i][1]);
	if (strcmp(rows[_i][0], rows[_i][1]) != 0)
		is_text(value_of(&out), "phase", rows[_i][0]);
}
END_TEST

START_TEST(a_thread_is_stale_while_its_turn_is_stalled)
{
	const struct ids ids = { .session = S1, .thread = T1, .turn = U1 };
	buf_auto struct buf thread = BUF_INIT, session = BUF_INIT, again = BUF_INIT;
	struct err e = ERR_INIT;

	put_start();
	put(EVENT_RUN_STATUS, ids, NULL, "{\"phase\":\"stalled\"}");
	ck_assert_int_eq(view_thread(store, 1000, T1, NULL, &thread, &e), 0);
	is_text(value_of(&thread), "status", "stale");
	is_text(value_of(&thread), "phase", "stalled");
	is_text(element(jval_get(value_of(&thread), "turns"), 0), "status", "stalled");
	ck_assert(jval_is_str(element(jval_path(value_of(&thread), "diagnosticsSummary.stalledTurns"), 0), U1));
	ck_assert_int_eq(view_session(store, 1000, S1, NULL, &session, &e), 0);
	ck_assert(jval_bool(jval_get(value_of(&session), "stale"), false));
	put(EVENT_RUN_STATUS, ids, NULL, "{\"phase\":\"running\"}");
	ck_assert_int_eq(view_thread(store, 1000, T1, NULL, &again, &e), 0);
	is_text(value_of(&again), "status", "running");
}
END_TEST

/* ---- stores from before turns had a number ---- */

static int fold_of_version_4(struct models *m, const struct event_view *ev, struct err *e)
{
	static const char mark[] = "\"number\":";
	const char *doc, *at;
	size_t len;
	char turn[72], text[4096], key[192];

	if (view_project(m, ev, e) < 0)
		return -1;
	if (ev->type != EVENT_TURN_SUBMITTED)
		return 0;
	event_id_copy(ev, ID_TURN, turn, sizeof turn);
	ck_assert_int_eq(models_get(m, VIEW_TURN, turn, strlen(turn), &doc, &len, e), 0);
	at = memmem(doc, len, mark, strlen(mark));
	ck_assert_ptr_nonnull(at);
	unsigned long long number = strtoull(at + strlen(mark), NULL, 10);
	const char *rest = memchr(at, ',', len - (size_t)(at - doc));
	int n = snprintf(text, sizeof text, "%.*s%.*s", (int)(at - doc), doc, (int)(doc + len - rest - 1), rest + 1);
	ck_assert_int_eq(models_put(m, VIEW_TURN, turn, strlen(turn), text, (size_t)n, e), 0);
	n = snprintf(key, sizeof key, T1 "/~%020llu/%s", number, turn);
	ck_assert_int_eq(models_del(m, VIEW_THREAD_TURN, key, (size_t)n, e), 0);
	n = snprintf(key, sizeof key, T1 "/%s", turn);
	return models_put(m, VIEW_THREAD_TURN, key, (size_t)n, "{}", 2, e);
}

static void reopen(store_project_fn project)
{
	char dir[96], spool[96];
	const struct store_options o = { .dir = dir, .spool_dir = spool, .project = project, .map_bytes = 64 << 20 };
	struct err e = ERR_INIT;

	store_close(store);
	(void)snprintf(dir, sizeof dir, "%s/store", home);
	(void)snprintf(spool, sizeof spool, "%s/spool", home);
	ck_assert_msg(store_open(&o, &store, &e) == 0, "%s", e.message);
}

static void pruned(void *ctx, uint64_t removed, const struct err *e)
{
	ck_assert_ptr_null(e);
	*(bool *)ctx = true;
}

static void submit(const char *turn)
{
	put(EVENT_TURN_SUBMITTED, (struct ids){ .session = S1, .thread = T1, .turn = turn }, "accepted",
	    "{\"source\":\"client\",\"status\":\"accepted\"}");
}

static void is_window(const char *before, unsigned limit, const char *expected)
{
	const struct view_window w = { .limit = limit, .before = before };
	buf_auto struct buf out = BUF_INIT, found = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_msg(view_thread(store, 1000, T1, &w, &out, &e) == 0, "%s", e.message);
	for (struct jiter it = jiter_on(jval_get(value_of(&out), "turns")); jiter_next(&it);) {
		char turn[72];

		jval_str(jval_get(it.value, "turnId"), turn, sizeof turn);
		buf_printf(&found, "%s ", turn);
	}
	ck_assert_str_eq(buf_cstr(&found), expected);
}

START_TEST(turns_whose_submission_was_pruned_before_the_upgrade_are_the_oldest)
{
	struct verdict rebuilt = { 0 };
	bool done = false;

	reopen(fold_of_version_4);
	put_session();
	submit("turn_z");
	submit("turn_y");
	submit("turn_c");
	/* The first two are in the snapshot that retention keeps, which the next version uses unchanged. */
	store_prune(store, store_last_sequence(store), 0, pruned, &done);
	wait_for(&done);
	reopen(view_project);
	store_rebuild(store, on_verdict, &rebuilt);
	wait_for(&rebuilt.done);
	ck_assert_msg(rebuilt.ok, "%s", rebuilt.what);
	submit("turn_b");
	submit("a");
	is_window(NULL, 10, "a turn_b turn_c turn_z turn_y ");
	is_window("turn_c", 1, "turn_z ");
	is_window("turn_z", 10, "turn_y ");
	projects_again();
}
END_TEST

int main(void)
{
	return VIEW_SUITE("view_thread", { the_status_of_a_thread_follows_its_turn },
			  { detailed_statuses_map_to_those_of_the_schema, 6 },
			  { a_thread_is_stale_while_its_turn_is_stalled },
			  { turns_whose_submission_was_pruned_before_the_upgrade_are_the_oldest });
}
