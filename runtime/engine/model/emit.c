/*
 * emit_events: facts that clients report (model, reasoning, context, artifacts …). The runtime checks that clients
 * may write the type and that the session is the client's, records the sender, and derives no status from it.
 */

#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/model/model.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/session/turn_owner.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/engine/turn/turn.h"
#include "runtime/engine/work/work.h"
#include "runtime/view/view.h"
#include "runtime/view/view_evidence.h"

struct emission {
	struct pending_reply reply;
	size_t count;
};

static void on_emitted(void *ctx, const struct store_result *r)
{
	struct emission *m = ctx;
	buf_auto struct buf out = BUF_INIT;

	if (r->status < 0) {
		reply_err(&m->reply, r->err, NULL, 0);
	} else {
		struct jw w = jw_on(&out);
		jw_obj(&w);
		jw_kuint(&w, "count", m->count);
		jw_kuint(&w, "firstSequence", r->first_sequence);
		jw_kuint(&w, "sequence", r->last_sequence);
		jw_obj_end(&w);
		reply_json(&m->reply, out.data, out.len);
	}
	free(m);
}

/* Names the event by its index, since a request may have many. */
static int emit_refuse(struct err *e, enum err_code code, size_t i, const char *member, const char *what)
{
	err_set(e, code, "events[%zu].%s %s", i, member, what);
	snprintf(e->field, sizeof e->field, "events[%zu].%s", i, member);
	return -1;
}

/*
 * The ids of an event must be within the client's reach: threads and turns of the session; tasks, processes and
 * evidence of its owner. Otherwise one uid could write into what another uid reads.
 */
static int emit_scope_of(struct engine *engine, enum id_field f, const char *id, const char *session, uint32_t uid,
			 struct err *e)
{
	struct view_thread_brief thread;
	struct view_turn_brief turn;
	struct view_process_brief process;
	buf_auto struct buf text = BUF_INIT;
	struct evidence_doc evidence;
	task_auto struct task task = TASK_INIT;
	int r;

	switch (f) {
	case ID_THREAD:
		r = view_thread_brief(engine->o.store, uid, id, &thread, e);
		return r ? r : strcmp(thread.session_id, session) != 0;
	case ID_TURN:
		r = view_turn_brief(engine->o.store, uid, id, &turn, e);
		return r ? r : strcmp(turn.session_id, session) != 0;
	case ID_TASK: r = task_read(engine, id, &task, e); return r ? r : task.d.uid != uid;
	case ID_PROCESS: return view_process_brief(engine->o.store, uid, id, &process, e);
	case ID_EVIDENCE: /* may be new */
		r = view_read_speculative(engine->o.store, &evidence_schema, id, &text, &evidence, e);
		return r ? (r < 0 ? -1 : 0) : evidence.uid != uid;
	default: return 0;
	}
}

/* A turn that has ended, or is about to, requests no model. Its costs and artifacts may still be reported later. */
static int emit_check_turn(struct engine *engine, const struct emit_event *ev, size_t i, const struct caller *c,
			   struct err *e)
{
	const char *turn = ev->ids[ID_TURN];
	bool model = strncmp(ev->type, "model.", 6) == 0 || strncmp(ev->type, "reasoning.", 10) == 0;
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;

	if (!turn)
		return 0;
	/* The previous event was checked for the same turn and type. */
	if (i && (ev - 1)->ids[ID_TURN] && strcmp(turn, (ev - 1)->ids[ID_TURN]) == 0 &&
	    strcmp(ev->type, (ev - 1)->type) == 0)
		return 0;
	int r = turn_read(engine, turn, &text, &t, e);
	if (r)
		return r < 0 ? -1 : emit_refuse(e, ERR_NOT_FOUND, i, "turnId", "is not known");
	if (turn_owner_seen(engine, &t, c->connection, c->channel_id, e) < 0)
		return -1;
	if (model && turn_doc_ended(&t))
		return emit_refuse(e, ERR_STATE, i, "turnId", "has ended");
	if (t.ending.type == JT_OBJECT && strcmp(ev->type, "model.requested") == 0)
		return emit_refuse(e, ERR_STATE, i, "turnId", "is ending");
	return 0;
}

/* The sender is part of every event, so that readers can tell a client's events from the runtime's. */
static void write_members(const struct emit_event *ev, const struct caller *c, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_kobj(&w, "correlation");
	jw_kobj(&w, "emittedBy");
	jw_kuint(&w, "uid", c->uid);
	jw_kstr(&w, "role", role_name(c->role));
	jw_obj_end(&w);
	jw_obj_end(&w);
	if (ev->members_len) {
		buf_byte(out, ',');
		buf_append(out, ev->members, ev->members_len);
	}
}

/* A stream repeats the same ids: only those that differ from the previous event's are checked. */
static int check_ids(struct engine *engine, const struct emit_event *ev, size_t i, uint32_t uid, struct err *e)
{
	static const enum id_field checked[] = { ID_THREAD, ID_TURN, ID_TASK, ID_PROCESS, ID_EVIDENCE };

	for (size_t k = 0; k < countof(checked); k++) {
		const char *id = ev->ids[checked[k]], *same = i ? (ev - 1)->ids[checked[k]] : NULL;

		if (!id || (same && strcmp(id, same) == 0))
			continue;
		int r = emit_scope_of(engine, checked[k], id, ev->ids[ID_SESSION], uid, e);
		if (r)
			return r < 0 ? -1
				     : emit_refuse(e, ERR_NOT_FOUND, i, id_field_member(checked[k]),
						   "is not known, or not of this session");
	}
	return 0;
}

/* Whether the client may write this event; `ev` is the i-th of the request. */
static int check_event(struct engine *engine, const struct emit_event *ev, size_t i, const struct caller *c,
		       enum event_type *ret_type, struct view_session_brief *ret_session, struct err *e)
{
	int type = event_type_find(ev->type, strlen(ev->type));

	if (type < 0)
		return emit_refuse(e, ERR_INVALID, i, "type", "is not an event type; see docs/events.md");
	/* Clients cannot write the runtime's own events. */
	if (event_info((enum event_type)type)->origin != EVENT_BY_CLIENT)
		return emit_refuse(e, ERR_NOT_ALLOWED, i, "type", "is written by the runtime only");
	if (!ev->ids[ID_SESSION])
		return emit_refuse(e, ERR_INVALID, i, "sessionId", "is missing");
	if (strcmp(ev->ids[ID_SESSION], (ev - i)->ids[ID_SESSION]) != 0)
		return emit_refuse(e, ERR_INVALID, i, "sessionId", "is not the session of the first event");
	int r = view_session_brief(engine->o.store, c->uid, ev->ids[ID_SESSION], ret_session, e);
	if (r != 0)
		return r < 0 ? -1 : emit_refuse(e, ERR_NOT_FOUND, i, "sessionId", "is not known");
	*ret_type = (enum event_type)type;
	if (check_ids(engine, ev, i, ret_session->uid, e) < 0)
		return -1;
	return emit_check_turn(engine, ev, i, c, e);
}

static int emit_one(struct engine *engine, struct transaction *tx, const struct emit_event *ev, size_t i,
		    const struct caller *c, char turn[ID_SIZE], struct cost_pending *pending, struct err *e)
{
	struct view_session_brief session;
	struct event_draft d = { 0 };
	char thread[ID_SIZE];

	if (check_event(engine, ev, i, c, &d.type, &session, e) < 0)
		return -1;
	d.uid = session.uid;
	memcpy(d.ids, ev->ids, sizeof d.ids);
	if ((event_info(d.type)->required_ids & (1u << ID_TURN)) && !d.ids[ID_TURN]) {
		/* The session's system turn, created on first use; the rest of the request's events share it. */
		id_copy(thread, session.first_thread);
		if (!turn[0] && session_system_turn(engine, tx, session.uid, d.ids[ID_SESSION], thread, turn, e) < 0)
			return -1;
		d.ids[ID_TURN] = turn;
		d.ids[ID_THREAD] = thread;
	}
	if (!d.ids[ID_REQUEST])
		d.ids[ID_REQUEST] = c->request_id;
	if (!d.ids[ID_TRACE])
		d.ids[ID_TRACE] = c->trace_id;
	d.status = ev->status;
	d.status_reason = ev->status_reason;
	d.phase = ev->phase;
	d.payload = ev->payload;
	d.payload_len = ev->payload_len;
	buf_auto struct buf members = BUF_INIT;
	write_members(ev, c, &members);
	d.members = members.data;
	d.members_len = members.len;
	if (routing_check_model_event(engine, ev - i, i, e) < 0) {
		err_wrap(e, "events[%zu]", i);
		return -1;
	}
	bool cost = d.type == EVENT_COST_RECORDED || d.type == EVENT_COST_ESTIMATED;
	if ((cost && cost_emitted(engine, tx, &d, pending, e) < 0) || transaction_add_event(tx, &d, e) < 0) {
		char member[ERR_FIELD_MAX];
		memcpy(member, e->field, sizeof member);
		err_wrap(e, "events[%zu]", i);
		snprintf(e->field, sizeof e->field, "events[%u].%.32s", (unsigned)i, member);
		return -1;
	}
	if (d.type == EVENT_MODEL_COMPLETED)
		routing_model_completed(engine, tx, ev - i, i, c->uid, pending);
	return 0;
}

/* Hooks for a model's answer run after the request is submitted; nothing waits for them. */
void engine_emit_events(struct engine *engine, const struct emit_event *ev, size_t n, const struct caller *c,
			engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new_internal(engine);
	struct err e = ERR_INIT;
	char turn[ID_SIZE] = "";
	cost_pending_auto struct cost_pending pending = { 0 };

	/* All or nothing: the first invalid event rejects the request. */
	for (size_t i = 0; i < n; i++)
		if (emit_one(engine, tx, &ev[i], i, c, turn, &pending, &e) < 0) {
			transaction_free(tx);
			fn(ctx, &e, NULL, 0);
			return;
		}
	struct emission *m = mem_zalloc(1, sizeof *m);
	reply_copy(&m->reply, c, fn, ctx);
	m->count = n;
	if (m->reply.idem_key) {
		buf_auto struct buf out = BUF_INIT;
		buf_printf(&out, "{\"count\":%zu}", n);
		transaction_store_reply(tx, &m->reply, out.data, out.len);
	}
	transaction_commit_then(tx, 0, on_emitted, m);
	for (size_t i = 0; i < n; i++)
		if (strcmp(ev[i].type, "model.completed") == 0)
			turn_hooks_sampled(engine, ev[i].ids[ID_TURN] ? ev[i].ids[ID_TURN] : turn, ev[i].payload,
					   ev[i].payload_len);
}
