/* What turns, queues, tool calls, actions and steps leave in the read models; also what nobody should write. */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"
#include "tests/unit/suite.h"

#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char home[64];
static struct store *store;
static uint64_t now_us = 1700000000000000ull;

static void set_up(void)
{
	static char dir[96], spool[96];
	struct err e = ERR_INIT;
	(void)snprintf(home, sizeof home, "/tmp/bailiff-view.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(home));
	(void)snprintf(dir, sizeof dir, "%s/store", home);
	(void)snprintf(spool, sizeof spool, "%s/spool", home);
	ck_assert(mkdir(dir, 0700) == 0 && mkdir(spool, 0700) == 0);
	const struct store_options o = { .dir = dir, .spool_dir = spool, .fold = view_fold, .map_bytes = 64 << 20 };
	ck_assert_msg(store_open(&o, &store, &e) == 0, "%s", e.message);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	return remove(path);
}

static void tear_down(void)
{
	store_close(store);
	nftw(home, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* `ids`: what the event is about besides session, thread and turn: "step call action". */
static void put(enum event_type type, const char *turn, const char *step, const char *call, const char *action, const char *status,
		const char *payload)
{
	struct store_batch *b = store_batch_new(store);
	struct err e = ERR_INIT;
	struct event_draft d = { .type = type, .uid = 1000, .real_us = ++now_us, .status = status, .payload = payload, .payload_len = strlen(payload) };
	d.ids[ID_SESSION] = "sess_a";
	d.ids[ID_THREAD] = "thr_a";
	d.ids[ID_TURN] = turn;
	d.ids[ID_STEP] = step;
	d.ids[ID_TOOL_CALL] = call;
	d.ids[ID_ACTION] = action;
	ck_assert_msg(store_batch_event(b, &d, &e) == 0, "%s: %s", e.field, e.message);
	store_submit(store, b, 0, NULL, NULL);
	store_flush(store);
}

static bool doc_says(enum view_kind kind, const char *id, const char *path, const char *value)
{
	buf_auto struct buf doc = BUF_INIT;
	struct err e = ERR_INIT;
	if (store_model_get(store, (uint8_t)kind, id, &doc, &e) != 0)
		return !value;
	struct jval v = jval_path(jval_of(doc.data, doc.len), path);
	return value && v.type != JT_NONE && (v.type == JT_STRING ? jval_is_str(v, value) : v.len == strlen(value) && memcmp(v.text, value, v.len) == 0);
}

static bool there(enum view_kind kind, const char *id)
{
	buf_auto struct buf doc = BUF_INIT;
	struct err e = ERR_INIT;
	return store_model_get(store, (uint8_t)kind, id, &doc, &e) == 0;
}

static void begin(void)
{
	put(EVENT_SESSION_CREATED, NULL, NULL, NULL, NULL, NULL, "{\"kind\":\"user\",\"createdBy\":{\"uid\":1000}}");
	put(EVENT_THREAD_STARTED, NULL, NULL, NULL, NULL, NULL, "{\"origin\":\"session\"}");
	put(EVENT_TURN_SUBMITTED, "turn_a", "step_0", NULL, NULL, "accepted",
	    "{\"source\":\"client\",\"status\":\"accepted\",\"parts\":3,\"driver\":\"runtime\",\"preview\":\"hello\"}");
	put(EVENT_TURN_STARTED, "turn_a", NULL, NULL, NULL, "running", "{\"driver\":\"runtime\"}");
}

START_TEST(calls_count_in_their_turn)
{
	set_up();
	begin();
	put(EVENT_TOOL_STARTED, "turn_a", "step_1", "call_1", NULL, "running", "{\"toolName\":\"shell\",\"runner\":\"runtime\",\"part\":0}");
	put(EVENT_TOOL_STARTED, "turn_a", "step_2", "call_2", NULL, "running", "{\"toolName\":\"x\",\"runner\":\"client\"}");
	ck_assert(doc_says(VIEW_TURN, "turn_a", "openCalls", "2") && doc_says(VIEW_TURN, "turn_a", "partsStarted", "1"));
	ck_assert(there(VIEW_LIVE_TOOL_CALL, "call_1") && there(VIEW_TURN_OPEN_CALL, "turn_a/call_1"));
	put(EVENT_TOOL_FAILED, "turn_a", "step_1", "call_1", NULL, "timed_out", "{\"category\":\"timeout\",\"part\":0}");
	put(EVENT_TOOL_RESULT, "turn_a", "step_2", "call_2", NULL, "completed", "{}");
	ck_assert(doc_says(VIEW_TURN, "turn_a", "openCalls", "0") && doc_says(VIEW_TURN, "turn_a", "partsFailed", "1"));
	ck_assert(doc_says(VIEW_TURN, "turn_a", "partsEnded", "1") && doc_says(VIEW_TURN, "turn_a", "failedCallId", "call_1"));
	ck_assert(doc_says(VIEW_TOOL_CALL, "call_1", "status", "timed_out") && doc_says(VIEW_TOOL_CALL, "call_2", "status", "completed"));
	ck_assert(!there(VIEW_LIVE_TOOL_CALL, "call_1") && !there(VIEW_TURN_OPEN_CALL, "turn_a/call_2"));
	ck_assert(doc_says(VIEW_TURN_STEP, "turn_a/step_0", "kind", "message"));
	ck_assert(doc_says(VIEW_TURN_STEP, "turn_a/step_1", "kind", "command") && doc_says(VIEW_TURN_STEP, "turn_a/step_1", "status", "timed_out"));
	/* An end that is told twice, or of a call that nobody began, takes nothing below zero. */
	put(EVENT_TOOL_RESULT, "turn_a", "step_9", "call_9", NULL, NULL, "{}");
	ck_assert(doc_says(VIEW_TURN, "turn_a", "openCalls", "0"));
	tear_down();
}
END_TEST

START_TEST(actions_hold_their_turn)
{
	buf_auto struct buf out = BUF_INIT;
	struct view_action_query q = { .limit = 10, .status = "pending" };
	struct err e = ERR_INIT;

	set_up();
	begin();
	put(EVENT_ACTION_REQUIRED, "turn_a", "step_1", NULL, "act_1", "pending",
	    "{\"actionType\":\"permission\",\"kind\":\"request\",\"expiresAt\":\"2026-01-01T00:00:00Z\",\"decisions\":[\"allow\"]}");
	put(EVENT_ACTION_REQUIRED, "turn_a", "step_2", NULL, "act_2", "pending", "{\"actionType\":\"input\",\"prompt\":\"?\"}");
	ck_assert(doc_says(VIEW_TURN, "turn_a", "status", "waiting_input"));
	ck_assert(there(VIEW_TIMED_ACTION, "00001767225600000000/act_1") && there(VIEW_OPEN_ACTION, "thr_a/act_2"));
	ck_assert_int_eq(view_actions(store, 1000, &q, &out, &e), 0);
	ck_assert_ptr_nonnull(strstr(out.data, "act_2\""));
	ck_assert(strstr(out.data, "act_2\"") < strstr(out.data, "act_1\"")); /* newest first */
	put(EVENT_ACTION_RESOLVED, "turn_a", "step_2", NULL, "act_2", "resolved", "{\"decision\":\"allow\",\"source\":\"user\",\"note\":\"n\"}");
	ck_assert(doc_says(VIEW_TURN, "turn_a", "openActions", "1") && doc_says(VIEW_TURN, "turn_a", "status", "waiting_input"));
	put(EVENT_ACTION_RESOLVED, "turn_a", "step_1", NULL, "act_1", "timed_out", "{\"decision\":\"deny\",\"source\":\"timeout\"}");
	ck_assert(doc_says(VIEW_TURN, "turn_a", "status", "running"));
	ck_assert(doc_says(VIEW_ACTION, "act_1", "status", "timed_out") && doc_says(VIEW_ACTION, "act_2", "note", "n"));
	ck_assert(!there(VIEW_TIMED_ACTION, "00001767225600000000/act_1") && !there(VIEW_OPEN_ACTION, "thr_a/act_2"));
	buf_reset(&out);
	ck_assert_int_eq(view_actions(store, 1001, &q, &out, &e), 0);
	ck_assert_str_eq(out.data, "{\"actions\":[]}");
	q.limit = 0;
	ck_assert_int_eq(view_actions(store, 1000, &q, &out, &e), -1);
	tear_down();
}
END_TEST

START_TEST(a_queue_is_there_while_somebody_waits)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	set_up();
	begin();
	put(EVENT_QUEUE_CHANGED, "turn_b", NULL, NULL, NULL, NULL, "{\"order\":[\"turn_b\",\"turn_c\"],\"change\":\"queued\",\"resumeState\":\"held\"}");
	ck_assert(doc_says(VIEW_QUEUE, "thr_a", "resumeState", "held") && doc_says(VIEW_QUEUE, "thr_a", "order", "[\"turn_b\",\"turn_c\"]"));
	ck_assert_int_eq(view_queue_snapshot(store, 1000, "thr_a", &out, &e), 0);
	ck_assert_ptr_nonnull(strstr(out.data, "\"activeTurnId\":\"turn_a\""));
	ck_assert_int_eq(view_queue_snapshot(store, 1001, "thr_a", &out, &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
	put(EVENT_QUEUE_CHANGED, "turn_b", NULL, NULL, NULL, NULL, "{\"order\":[\"turn_c\"],\"change\":\"taken\",\"resumeState\":\"running\"}");
	ck_assert(!doc_says(VIEW_QUEUE, "thr_a", "resumeState", "held") && doc_says(VIEW_QUEUE, "thr_a", "order", "[\"turn_c\"]"));
	put(EVENT_QUEUE_CHANGED, "turn_c", NULL, NULL, NULL, NULL, "{\"order\":[],\"change\":\"taken\"}");
	ck_assert(!there(VIEW_QUEUE, "thr_a"));
	tear_down();
}
END_TEST

int main(void)
{
	return SUITE("view_turn", calls_count_in_their_turn, actions_hold_their_turn, a_queue_is_there_while_somebody_waits);
}
