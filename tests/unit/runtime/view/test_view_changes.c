/* Copy-on-write runs in the read models: which runs may have pending changes, and diffs as outputs that expire. */

#include "tests/unit/runtime/view/rig.h"

static void put_of(enum event_type type, const char *process, const char *payload)
{
	put(type, (struct ids){ S1, T1, U1, process }, NULL, payload);
}

static void put_run(const char *id, const char *cow)
{
	mem_auto char *payload = mem_printf(
		"{\"command\":[\"ls\"],\"cwd\":\"/tmp\",\"tty\":false,\"pid\":42,\"startTime\":9,\"bootId\":\"b\","
		"\"startedBootNs\":5,\"attempt\":1,\"planHash\":\"h\",\"profile\":\"workspace\",%s\"stdin\":\"none\","
		"\"stderr\":\"separate\",\"keepTree\":false,\"onDisconnect\":\"keep\",\"ownsTurn\":true,\"limits\":{},"
		"\"outputRefs\":[]}",
		cow);
	put_of(EVENT_PROCESS_STARTED, id, payload);
}

static void put_run_end(const char *id)
{
	put_of(EVENT_PROCESS_COMPLETED, id,
	       "{\"exitCode\":0,\"durationMs\":5,\"status\":\"completed\",\"usage\":{},\"outputs\":{},\"leftBehind\":"
	       "0}");
}

static bool note(void *ctx, const char *id)
{
	buf_printf(ctx, "%s ", id);
	return true;
}

static void check_kept(uint64_t floor, const char *want)
{
	buf_auto struct buf found = BUF_INIT;
	struct err e = ERR_INIT;
	ck_assert_msg(view_cow_processes(store, floor, note, &found, &e) == 0, "%s", e.message);
	ck_assert_str_eq(buf_cstr(&found), want);
}

START_TEST(runs_are_listed_until_their_changes_are_removed)
{
	struct view_process_brief b;
	struct err e = ERR_INIT;
	put_run(P1, "\"cow\":true,");
	put_run(P2, "");
	check_kept(0, P1 " ");
	ck_assert_int_eq(view_process_brief(store, 1000, P1, &b, &e), 0);
	ck_assert(b.cow && !b.ended && b.uid == 1000);
	ck_assert_str_eq(b.turn_id, "turn_a");
	ck_assert_int_eq(view_process_brief(store, 1001, P1, &b, &e), 1);
	ck_assert_int_eq(view_process_brief(store, 1000, P2, &b, &e), 0);
	ck_assert(!b.cow);
	put_run_end(P1);
	ck_assert_int_eq(view_process_brief(store, 1000, P1, &b, &e), 0);
	ck_assert(b.ended && b.end_sequence == 3);
	check_kept(3, "");
	check_kept(4, P1 " ");
	put_of(EVENT_ARTIFACT_CHANGED, P1, "{\"source\":\"run\",\"change\":\"summary\",\"kept\":true}");
	check_kept(0, P1 " ");
	put_of(EVENT_ARTIFACT_CHANGED, P1, "{\"source\":\"discard\",\"change\":\"summary\",\"kept\":false}");
	check_kept(0, "");
	put_of(EVENT_ARTIFACT_CHANGED, P1,
	       "{\"source\":\"apply\",\"change\":\"summary\",\"kept\":false,\"undoable\":1}");
	check_kept(0, P1 " ");
	put_of(EVENT_ARTIFACT_CHANGED, P1, "{\"source\":\"undo\",\"change\":\"summary\",\"kept\":true}");
	check_kept(4, P1 " ");
	put_of(EVENT_ARTIFACT_CHANGED, P1, "{\"source\":\"retention\",\"change\":\"summary\",\"kept\":false}");
	check_kept(0, "");
}
END_TEST

static bool take(void *ctx, const struct view_expirable *x)
{
	buf_printf(ctx, "%s:%llu ", x->output_ref, (unsigned long long)x->bytes);
	return true;
}

START_TEST(diffs_are_outputs_of_the_process)
{
	struct view_output_brief o;
	struct err e = ERR_INIT;
	put_run(P1, "\"cow\":true,");
	put_run_end(P1);
	put_of(EVENT_ARTIFACT_CHANGED, P1,
	       "{\"source\":\"run\",\"change\":\"modified\",\"path\":\"/w/a\",\"diffRef\":\"out_d\",\"diffBytes\":12}");
	/* A second event must not change what the first one recorded. */
	put_of(EVENT_ARTIFACT_CHANGED, P2,
	       "{\"source\":\"run\",\"change\":\"modified\",\"path\":\"/w/b\",\"diffRef\":\"out_d\",\"diffBytes\":99}");
	put_of(EVENT_ARTIFACT_CHANGED, NULL, "{\"diffRef\":\"out_c\"}");
	ck_assert_int_eq(view_output_brief(store, 1000, "out_d", &o, &e), 0);
	ck_assert(o.ended && o.bytes == 12);
	ck_assert_str_eq(o.process_id, P1);
	ck_assert_int_eq(view_output_brief(store, 1000, "out_c", &o, &e), 1);
}
END_TEST

START_TEST(diffs_expire_with_the_outputs)
{
	buf_auto struct buf found = BUF_INIT;
	struct err e = ERR_INIT;
	put_of(EVENT_PROCESS_STARTED, P1,
	       "{\"command\":[\"ls\"],\"cwd\":\"/"
	       "tmp\",\"tty\":false,\"pid\":42,\"startTime\":9,\"bootId\":\"b\",\"startedBootNs\":5,"
	       "\"attempt\":1,\"planHash\":\"h\",\"profile\":\"workspace\",\"cow\":true,\"stdin\":\"none\",\"stderr\":"
	       "\"separate\",\"keepTree\":false,"
	       "\"onDisconnect\":\"keep\",\"ownsTurn\":true,\"limits\":{},\"outputRefs\":[{\"outputRef\":\"out_1\","
	       "\"stream\":\"stdout\"}]}");
	put_run_end(P1);
	put_of(EVENT_ARTIFACT_CHANGED, P1,
	       "{\"source\":\"run\",\"change\":\"modified\",\"path\":\"/w/a\",\"diffRef\":\"out_d\",\"diffBytes\":12}");
	ck_assert_msg(view_expirable_outputs(store, 100, NULL, 10, take, &found, NULL, &e) == 0, "%s", e.message);
	ck_assert_str_eq(buf_cstr(&found), "out_1:0 out_d:12 ");
}
END_TEST

int main(void)
{
	return VIEW_SUITE("view_changes", { runs_are_listed_until_their_changes_are_removed },
			  { diffs_are_outputs_of_the_process }, { diffs_expire_with_the_outputs });
}
