/* Threads: what their turns make of them. */

#include "tests/unit/runtime/view/rig.h"

START_TEST(a_thread_follows_its_turn)
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
	ck_assert_int_eq(view_thread(store, 1000, T1, &out, &e), 0);
	d = value_of(&out);
	is_text(d, "sessionId", S1);
	ck_assert_int_eq(jval_get(d, "updatedAt").type, JT_STRING);
}
END_TEST

START_TEST(fine_statuses_become_the_small_ones)
{
	static const char *const rows[][2] = { { "accepted", "running" }, { "waiting_permission", "blocked" }, { "timed_out", "failed" },
					       { "lost", "unknown" },     { "cancelled", "cancelled" },        { "no such", "unknown" } };
	mem_auto char *payload = mem_printf("{\"status\":\"%s\",\"previous\":\"idle\",\"reason\":\"r\"}", rows[_i][0]);
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	put_session();
	put(EVENT_THREAD_UPDATED, (struct ids){ .session = S1, .thread = T1 }, NULL, payload);
	ck_assert_int_eq(view_thread(store, 1000, T1, &out, &e), 0);
	is_text(value_of(&out), "status", rows[_i][1]);
	if (strcmp(rows[_i][0], rows[_i][1]) != 0)
		is_text(value_of(&out), "phase", rows[_i][0]);
}
END_TEST

int main(void)
{
	return VIEW_SUITE("view_thread", { a_thread_follows_its_turn }, { fine_statuses_become_the_small_ones, 6 });
}
