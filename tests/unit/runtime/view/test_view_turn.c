/* Turns, queues, tool calls, actions and steps in the read models; also events that no writer should produce. */

#include "tests/unit/runtime/view/rig.h"

static void put_in(enum event_type type, const char *turn, const char *step, const char *call, const char *action,
		   const char *status, const char *payload)
{
	put(type,
	    (struct ids){ .session = S1, .thread = T1, .turn = turn, .step = step, .call = call, .action = action },
	    status, payload);
}

static bool document_has(enum view_kind kind, const char *id, const char *path, const char *value)
{
	buf_auto struct buf doc = BUF_INIT;
	struct err e = ERR_INIT;
	if (store_model_get(store, (uint8_t)kind, id, &doc, &e) != 0)
		return !value;
	struct jval v = jval_path(jval_of(doc.data, doc.len), path);
	return value && v.type != JT_NONE &&
	       (v.type == JT_STRING ? jval_is_str(v, value)
				    : v.len == strlen(value) && memcmp(v.text, value, v.len) == 0);
}

static bool document_exists(enum view_kind kind, const char *id)
{
	buf_auto struct buf doc = BUF_INIT;
	struct err e = ERR_INIT;
	return store_model_get(store, (uint8_t)kind, id, &doc, &e) == 0;
}

static void begin(void)
{
	put_in(EVENT_SESSION_CREATED, NULL, NULL, NULL, NULL, NULL, "{\"kind\":\"user\",\"createdBy\":{\"uid\":1000}}");
	put_in(EVENT_THREAD_STARTED, NULL, NULL, NULL, NULL, NULL, "{\"origin\":\"session\"}");
	put_in(EVENT_TURN_SUBMITTED, "turn_a", "step_0", NULL, NULL, "accepted",
	       "{\"source\":\"client\",\"status\":\"accepted\",\"parts\":3,\"driver\":\"runtime\",\"preview\":"
	       "\"hello\"}");
	put_in(EVENT_TURN_STARTED, "turn_a", NULL, NULL, NULL, "running", "{\"driver\":\"runtime\"}");
}

START_TEST(a_turn_counts_its_open_calls)
{
	begin();
	put_in(EVENT_TOOL_STARTED, "turn_a", "step_1", "call_1", NULL, "running",
	       "{\"toolName\":\"shell\",\"runner\":\"runtime\",\"part\":0}");
	put_in(EVENT_TOOL_STARTED, "turn_a", "step_2", "call_2", NULL, "running",
	       "{\"toolName\":\"x\",\"runner\":\"client\"}");
	ck_assert(document_has(VIEW_TURN, "turn_a", "openCalls", "2") &&
		  document_has(VIEW_TURN, "turn_a", "partsStarted", "1"));
	ck_assert(document_exists(VIEW_LIVE_TOOL_CALL, "call_1") &&
		  document_exists(VIEW_TURN_OPEN_CALL, "turn_a/call_1"));
	put_in(EVENT_TOOL_FAILED, "turn_a", "step_1", "call_1", NULL, "timed_out",
	       "{\"category\":\"timeout\",\"part\":0}");
	put_in(EVENT_TOOL_RESULT, "turn_a", "step_2", "call_2", NULL, "completed", "{}");
	ck_assert(document_has(VIEW_TURN, "turn_a", "openCalls", "0") &&
		  document_has(VIEW_TURN, "turn_a", "partsFailed", "1"));
	ck_assert(document_has(VIEW_TURN, "turn_a", "partsEnded", "1") &&
		  document_has(VIEW_TURN, "turn_a", "failedCallId", "call_1"));
	ck_assert(document_has(VIEW_TOOL_CALL, "call_1", "status", "timed_out") &&
		  document_has(VIEW_TOOL_CALL, "call_2", "status", "completed"));
	ck_assert(!document_exists(VIEW_LIVE_TOOL_CALL, "call_1") &&
		  !document_exists(VIEW_TURN_OPEN_CALL, "turn_a/call_2"));
	ck_assert(document_has(VIEW_TURN_STEP, "turn_a/step_0", "kind", "message"));
	ck_assert(document_has(VIEW_TURN_STEP, "turn_a/step_1", "kind", "command") &&
		  document_has(VIEW_TURN_STEP, "turn_a/step_1", "status", "timed_out"));
	/* A repeated end, or the end of a call that never began, does not make a count negative. */
	put_in(EVENT_TOOL_RESULT, "turn_a", "step_9", "call_9", NULL, NULL, "{}");
	ck_assert(document_has(VIEW_TURN, "turn_a", "openCalls", "0"));
}
END_TEST

START_TEST(actions_keep_their_turn_waiting)
{
	buf_auto struct buf out = BUF_INIT;
	struct view_action_query q = { .limit = 10, .status = "pending" };
	struct err e = ERR_INIT;

	begin();
	put_in(EVENT_ACTION_REQUIRED, "turn_a", "step_1", NULL, "act_1", "pending",
	       "{\"actionType\":\"permission\",\"kind\":\"request\",\"expiresAt\":\"2026-01-01T00:00:00Z\","
	       "\"decisions\":[\"allow\"]}");
	put_in(EVENT_ACTION_REQUIRED, "turn_a", "step_2", NULL, "act_2", "pending",
	       "{\"actionType\":\"input\",\"prompt\":\"?\"}");
	ck_assert(document_has(VIEW_TURN, "turn_a", "status", "waiting_input"));
	ck_assert(document_exists(VIEW_TIMED_ACTION, "00001767225600000000/act_1") &&
		  document_exists(VIEW_OPEN_ACTION, "thr_a/act_2"));
	ck_assert_int_eq(view_actions(store, 1000, &q, &out, &e), 0);
	ck_assert_ptr_nonnull(strstr(out.data, "act_2\""));
	ck_assert(strstr(out.data, "act_2\"") < strstr(out.data, "act_1\"")); /* newest first */
	put_in(EVENT_ACTION_RESOLVED, "turn_a", "step_2", NULL, "act_2", "resolved",
	       "{\"decision\":\"allow\",\"source\":\"user\",\"note\":\"n\"}");
	ck_assert(document_has(VIEW_TURN, "turn_a", "openActions", "1") &&
		  document_has(VIEW_TURN, "turn_a", "status", "waiting_input"));
	put_in(EVENT_ACTION_RESOLVED, "turn_a", "step_1", NULL, "act_1", "timed_out",
	       "{\"decision\":\"deny\",\"source\":\"timeout\"}");
	ck_assert(document_has(VIEW_TURN, "turn_a", "status", "running"));
	ck_assert(document_has(VIEW_ACTION, "act_1", "status", "timed_out") &&
		  document_has(VIEW_ACTION, "act_2", "note", "n"));
	ck_assert(!document_exists(VIEW_TIMED_ACTION, "00001767225600000000/act_1") &&
		  !document_exists(VIEW_OPEN_ACTION, "thr_a/act_2"));
	buf_reset(&out);
	ck_assert_int_eq(view_actions(store, 1001, &q, &out, &e), 0);
	ck_assert_str_eq(out.data, "{\"actions\":[]}");
	q.limit = 0;
	ck_assert_int_eq(view_actions(store, 1000, &q, &out, &e), -1);
}
END_TEST

START_TEST(a_queue_exists_while_a_turn_waits)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	begin();
	put_in(EVENT_QUEUE_CHANGED, "turn_b", NULL, NULL, NULL, NULL,
	       "{\"order\":[\"turn_b\",\"turn_c\"],\"change\":\"queued\",\"resumeState\":\"held\"}");
	ck_assert(document_has(VIEW_QUEUE, "thr_a", "resumeState", "held") &&
		  document_has(VIEW_QUEUE, "thr_a", "order", "[\"turn_b\",\"turn_c\"]"));
	ck_assert_int_eq(view_queue_snapshot(store, 1000, "thr_a", &out, &e), 0);
	ck_assert_ptr_nonnull(strstr(out.data, "\"activeTurnId\":\"turn_a\""));
	ck_assert_int_eq(view_queue_snapshot(store, 1001, "thr_a", &out, &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
	put_in(EVENT_QUEUE_CHANGED, "turn_b", NULL, NULL, NULL, NULL,
	       "{\"order\":[\"turn_c\"],\"change\":\"taken\",\"resumeState\":\"running\"}");
	ck_assert(!document_has(VIEW_QUEUE, "thr_a", "resumeState", "held") &&
		  document_has(VIEW_QUEUE, "thr_a", "order", "[\"turn_c\"]"));
	put_in(EVENT_QUEUE_CHANGED, "turn_c", NULL, NULL, NULL, NULL, "{\"order\":[],\"change\":\"taken\"}");
	ck_assert(!document_exists(VIEW_QUEUE, "thr_a"));
}
END_TEST

int main(void)
{
	return VIEW_SUITE("view_turn", { a_turn_counts_its_open_calls }, { actions_keep_their_turn_waiting },
			  { a_queue_exists_while_a_turn_waits });
}
