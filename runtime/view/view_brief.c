/* A few members of one document, for decisions of the engine and the control socket. */

#include "runtime/view/view_documents.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/store/store.h"

int view_session_brief(struct store *s, uint32_t uid, const char *session_id, struct view_session_brief *ret,
		       struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct session_doc d;
	int r = view_read_speculative(s, &session_schema, session_id, &text, &d, e);

	if (r || !view_is_visible(&session_schema, &d, uid))
		return r < 0 ? -1 : 1;
	*ret = (struct view_session_brief){ .uid = (uint32_t)d.uid };
	id_copy(ret->first_thread, d.firstThreadId);
	id_copy(ret->system_turn, d.systemTurnId);
	return 0;
}

int view_thread_brief(struct store *s, uint32_t uid, const char *thread_id, struct view_thread_brief *ret,
		      struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct thread_doc d;
	int r = view_read_speculative(s, &thread_schema, thread_id, &text, &d, e);

	if (r || !view_is_visible(&thread_schema, &d, uid))
		return r < 0 ? -1 : 1;
	*ret = (struct view_thread_brief){ .uid = (uint32_t)d.uid };
	id_copy(ret->session_id, d.sessionId);
	id_copy(ret->active_turn, d.activeTurnId);
	(void)snprintf(ret->status, sizeof(ret->status), "%.15s", d.status);
	return 0;
}

int view_turn_brief(struct store *s, uint32_t uid, const char *turn_id, struct view_turn_brief *ret, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc d;
	int r = view_read_speculative(s, &turn_schema, turn_id, &text, &d, e);

	if (r || !view_is_visible(&turn_schema, &d, uid))
		return r < 0 ? -1 : 1;
	*ret = (struct view_turn_brief){
		.uid = (uint32_t)d.uid,
		.started = d.startedAt || jval_is_str(d.source, "system"),
		.ending = d.ending.type == JT_OBJECT,
		.ended = d.completedAt != 0,
	};
	id_copy(ret->session_id, d.sessionId);
	id_copy(ret->thread_id, d.threadId);
	id_copy(ret->task_id, d.taskId);
	return 0;
}

int view_process_brief(struct store *s, uint32_t uid, const char *process_id, struct view_process_brief *ret,
		       struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct process_doc d;
	int r = view_read(s, &process_schema, process_id, &text, &d, e);

	if (r || !view_is_visible(&process_schema, &d, uid))
		return r < 0 ? -1 : 1;
	*ret = (struct view_process_brief){ .uid = (uint32_t)d.uid,
					    .cow = jval_bool(d.cow, false),
					    .started = d.startedAt != 0,
					    .ended = process_doc_ended(&d) };
	ret->end_sequence = view_counted(d.endSequence);
	id_copy(ret->session_id, d.sessionId);
	id_copy(ret->thread_id, d.threadId);
	id_copy(ret->turn_id, d.turnId);
	id_copy(ret->task_id, d.taskId);
	id_copy(ret->tool_call_id, d.toolCallId);
	return 0;
}

int view_output_brief(struct store *s, uint32_t uid, const char *output_ref, struct view_output_brief *ret,
		      struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct output_doc d;
	int r = view_read(s, &output_schema, output_ref, &text, &d, e);

	if (r || !view_is_visible(&output_schema, &d, uid))
		return r < 0 ? -1 : 1;
	*ret = (struct view_output_brief){
		.uid = (uint32_t)d.uid,
		.bytes = view_counted(d.bytes),
		.omitted_from = view_counted(d.omittedFrom),
		.omitted_to = view_counted(d.omittedTo),
		.expired = d.expired,
		.ended = d.ended,
	};
	id_copy(ret->process_id, d.processId);
	return 0;
}

int view_system_ids(struct store *s, char session[72], char thread[72], char turn[72], struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct view_session_brief b;
	struct runtime_doc d;
	int r = view_read(s, &runtime_schema, VIEW_RUNTIME_ID, &text, &d, e);

	if (r == 0 && !d.systemSessionId[0])
		r = 1;
	if (r == 0)
		r = view_session_brief(s, VIEW_ANY_UID, d.systemSessionId, &b, e);
	if (r)
		return r < 0 ? -1 : 1;
	id_copy(session, d.systemSessionId);
	id_copy(thread, b.first_thread);
	id_copy(turn, b.system_turn);
	return 0;
}

int view_runtime(struct store *s, struct buf *out, struct err *e)
{
	return store_model_get(s, VIEW_RUNTIME, VIEW_RUNTIME_ID, out, e);
}
