/*
 * Sessions, threads and turns, as far as processes need them: each process belongs to one of each, made when the
 * request names none. A turn that was made for a process ends with it; a turn that the client named is the client's.
 */

#include "runtime/engine/core/engine_private.h"

#include "runtime/base/mem.h"
#include "runtime/engine/core/transaction.h"
#include "runtime/engine/hook/hook.h"
#include "runtime/engine/model/routing_facts.h"
#include "runtime/engine/policy/session_rules.h"
#include "runtime/engine/turn/turn.h"
#include "runtime/view/view.h"

static int field_err(struct err *e, enum err_code code, const char *field, const char *what, const char *id)
{
	err_set(e, code, "%s '%s' %s", field, id, what);
	snprintf(e->field, sizeof e->field, "%s", field);
	return -1;
}

static int resolve_turn(struct process *p, const char *turn_id, struct err *e)
{
	struct view_turn_brief t;
	int r = view_turn_brief(p->engine->o.store, p->uid, turn_id, &t, e);

	if (r != 0)
		return r < 0 ? -1 : field_err(e, ERR_NOT_FOUND, "turnId", "is not known", turn_id);
	if (t.ended)
		return field_err(e, ERR_STATE, "turnId", "has ended", turn_id);
	if (t.ending)
		return field_err(e, ERR_STATE, "turnId", "is ending", turn_id);
	if (!t.started)
		return field_err(e, ERR_STATE, "turnId", "has not started: it waits for its thread", turn_id);
	snprintf(p->session_id, sizeof p->session_id, "%s", t.session_id);
	snprintf(p->thread_id, sizeof p->thread_id, "%s", t.thread_id);
	snprintf(p->turn_id, sizeof p->turn_id, "%s", turn_id);
	return 0;
}

static int resolve_thread(struct process *p, const char *thread_id, struct err *e)
{
	struct view_thread_brief t;
	int r = view_thread_brief(p->engine->o.store, p->uid, thread_id, &t, e);

	if (r != 0)
		return r < 0 ? -1 : field_err(e, ERR_NOT_FOUND, "threadId", "is not known", thread_id);
	struct turn_queue q;
	char active[ID_ROOM];
	if (turn_queue_read(p->engine, thread_id, &q, e) < 0 ||
	    (r = turn_thread_busy(p->engine, thread_id, active, e)) < 0)
		return -1;
	if (r || q.count)
		return field_err(e, ERR_CONFLICT, "threadId",
				 r ? "has an active turn: wait for it, or leave threadId out"
				   : "has turns that wait for it: submit_turn queues behind them",
				 thread_id);
	snprintf(p->session_id, sizeof p->session_id, "%s", t.session_id);
	snprintf(p->thread_id, sizeof p->thread_id, "%s", thread_id);
	return 0;
}

static int resolve_session(struct process *p, const char *session_id, struct err *e)
{
	struct view_session_brief s;
	int r = view_session_brief(p->engine->o.store, p->uid, session_id, &s, e);

	if (r != 0)
		return r < 0 ? -1 : field_err(e, ERR_NOT_FOUND, "sessionId", "is not known", session_id);
	snprintf(p->session_id, sizeof p->session_id, "%s", session_id);
	return 0;
}

static int mismatch(const char *field, const char *given, const char *found, struct err *e)
{
	if (!given || strcmp(given, found) == 0)
		return 0;
	return field_err(e, ERR_INVALID, field, "does not belong to the others that were given", given);
}

int session_resolve(struct process *p, const struct start_request *r, const struct caller *c, struct err *e)
{
	if (!p->step_id[0])
		id_make(ID_KIND_STEP, p->step_id);
	if (p->owner == OWNER_HOOK) { /* where what it looks at is */
		snprintf(p->session_id, sizeof p->session_id, "%s", r->session_id);
		snprintf(p->thread_id, sizeof p->thread_id, "%s", r->thread_id);
		snprintf(p->turn_id, sizeof p->turn_id, "%s", r->turn_id);
		return 0;
	}
	if (r->turn_id) {
		if (resolve_turn(p, r->turn_id, e) < 0 || mismatch("threadId", r->thread_id, p->thread_id, e) < 0 ||
		    mismatch("sessionId", r->session_id, p->session_id, e) < 0)
			return -1;
		return 0;
	}
	if (r->thread_id) {
		if (resolve_thread(p, r->thread_id, e) < 0 ||
		    mismatch("sessionId", r->session_id, p->session_id, e) < 0)
			return -1;
	} else {
		if (r->session_id) {
			if (resolve_session(p, r->session_id, e) < 0)
				return -1;
		} else {
			id_make(ID_KIND_SESSION, p->session_id);
			p->makes_session = true;
		}
		id_make(ID_KIND_THREAD, p->thread_id);
		p->makes_thread = true;
	}
	id_make(ID_KIND_TURN, p->turn_id);
	p->owns_turn = true;
	return 0;
}

static int session_created(struct store_batch *b, uint32_t uid, const char *session, const char *thread,
			   const char *kind, const struct session_request *r, const struct requester *by)
{
	struct fact f;

	fact_open(&f, EVENT_SESSION_CREATED, uid, session, thread, NULL);
	jw_kstr(&f.w, "kind", kind);
	if (r) {
		jw_kopt(&f.w, "title", r->title);
		jw_kopt(&f.w, "workspaceId", r->workspace_id);
		if (r->scope_json)
			jw_kraw(&f.w, "scope", r->scope_json, r->scope_len);
	}
	fact_requester(&f.w, "createdBy", by);
	return fact_close(&f, b);
}

static int thread_started(struct store_batch *b, uint32_t uid, const char *session, const char *thread,
			  const char *origin)
{
	struct fact f;

	fact_open(&f, EVENT_THREAD_STARTED, uid, session, thread, NULL);
	jw_kstr(&f.w, "origin", origin);
	return fact_close(&f, b);
}

static int turn_submitted(struct store_batch *b, uint32_t uid, const char *session, const char *thread,
			  const char *turn, const char *source, const char *preview, const struct process *p)
{
	struct fact f;

	fact_open(&f, EVENT_TURN_SUBMITTED, uid, session, thread, turn);
	if (p) {
		f.draft.ids[ID_REQUEST] = p->start.request_id;
		f.draft.ids[ID_TRACE] = p->trace_id[0] ? p->trace_id : NULL;
		f.draft.ids[ID_SPAN] = p->span_id[0] ? p->span_id : NULL;
	}
	f.draft.status = "accepted";
	jw_kstr(&f.w, "source", source);
	jw_kstr(&f.w, "status", "accepted");
	jw_kopt(&f.w, "preview", preview);
	return fact_close(&f, b);
}

static int thread_updated(struct process *p, struct store_batch *b, const char *status, const char *previous,
			  const char *reason)
{
	struct fact f;

	fact_open(&f, EVENT_THREAD_UPDATED, p->uid, p->session_id, p->thread_id, NULL);
	f.draft.status = status;
	jw_kstr(&f.w, "status", status);
	jw_kstr(&f.w, "previous", previous);
	jw_kstr(&f.w, "reason", reason);
	return fact_close(&f, b);
}

int session_facts(struct process *p, struct store_batch *b)
{
	struct fact f;

	if (p->hooked)
		return 0; /* they are there since hooks began to look at it */
	if (p->makes_session)
		session_created(b, p->uid, p->session_id, p->thread_id, "user", NULL, &p->by);
	if (p->makes_thread)
		thread_started(b, p->uid, p->session_id, p->thread_id, p->makes_session ? "session" : "process");
	if (!p->owns_turn)
		return 0;
	turn_submitted(b, p->uid, p->session_id, p->thread_id, p->turn_id, "process", p->display, p);
	fact_open(&f, EVENT_TURN_STARTED, p->uid, p->session_id, p->thread_id, p->turn_id);
	f.draft.ids[ID_TRACE] = p->trace_id[0] ? p->trace_id : NULL;
	f.draft.status = "running";
	jw_kstr(&f.w, "driver", "runtime");
	fact_close(&f, b);
	return thread_updated(p, b, "running", "idle", "turn_started");
}

/* `category` NULL = the turn completed. `status` is the turn's: completed, failed, cancelled, timed_out, lost. */
int session_end_facts(struct process *p, struct store_batch *b, const char *status, const char *category,
		      const char *message)
{
	struct fact f;

	if (!p->owns_turn)
		return 0;
	routing_close_requests(p->engine, p->uid, p->session_id, p->thread_id, p->turn_id, b);
	fact_open(&f, category ? EVENT_TURN_FAILED : EVENT_TURN_COMPLETED, p->uid, p->session_id, p->thread_id,
		  p->turn_id);
	f.draft.ids[ID_TRACE] = p->trace_id[0] ? p->trace_id : NULL;
	f.draft.status = status;
	if (category) {
		f.draft.status_reason = message;
		jw_kstr(&f.w, "category", category);
		jw_kstr(&f.w, "message", message);
		jw_kbool(&f.w, "retryable", strcmp(status, "lost") == 0);
	} else {
		jw_kstr(&f.w, "outcome", "process_completed");
	}
	jw_karr(&f.w, "processes");
	jw_str(&f.w, p->id);
	jw_arr_end(&f.w);
	jw_key(&f.w, "outputRefs");
	process_stream_names(p, &f.w);
	fact_close(&f, b);

	const char *thread = strcmp(status, "timed_out") == 0 ? "failed"
			     : strcmp(status, "lost") == 0    ? "unknown"
							      : status;
	return thread_updated(p, b, thread, "running", category ? "turn_failed" : "turn_completed");
}

int session_system_facts(struct engine *g, struct store_batch *b)
{
	const struct requester by = { .uid = g->o.owner_uid, .role = ROLE_OPERATOR };

	id_make(ID_KIND_SESSION, g->system_session);
	id_make(ID_KIND_THREAD, g->system_thread);
	id_make(ID_KIND_TURN, g->system_turn);
	if (session_created(b, g->o.owner_uid, g->system_session, g->system_thread, "system", NULL, &by) < 0 ||
	    thread_started(b, g->o.owner_uid, g->system_session, g->system_thread, "system") < 0)
		return -1;
	return turn_submitted(b, g->o.owner_uid, g->system_session, g->system_thread, g->system_turn, "system", NULL,
			      NULL);
}

int session_make(struct engine *g, struct store_batch *b, const struct caller *c, const char *origin, const char *title,
		 char ret_session[ID_ROOM])
{
	const struct session_request r = { .title = title };
	const struct requester by = requester_of(c);
	char thread[ID_ROOM];

	id_make(ID_KIND_SESSION, ret_session);
	id_make(ID_KIND_THREAD, thread);
	if (session_created(b, c->uid, ret_session, thread, "user", title ? &r : NULL, &by) < 0)
		return -1;
	return thread_started(b, c->uid, ret_session, thread, origin);
}

int session_system_turn(struct engine *g, struct store_batch *b, uint32_t uid, const char *session,
			char ret_thread[ID_ROOM], char ret_turn[ID_ROOM], struct err *e)
{
	struct view_session_brief s;
	int r = view_session_brief(g->o.store, VIEW_ANY_UID, session, &s, e);

	if (r != 0)
		return r < 0 ? -1 : field_err(e, ERR_NOT_FOUND, "sessionId", "is not known", session);
	snprintf(ret_thread, ID_ROOM, "%s", s.first_thread);
	if (s.system_turn[0]) {
		snprintf(ret_turn, ID_ROOM, "%s", s.system_turn);
		return 0;
	}
	id_make(ID_KIND_TURN, ret_turn);
	return turn_submitted(b, uid, session, ret_thread, ret_turn, "system", NULL, NULL);
}

/* ---- update_session ---- */

static bool changes_document(const struct session_change *r)
{
	return r->title || r->scope_json || r->pinned_json || r->archived >= 0;
}

static int updated(const struct session_change *r, const struct view_session_brief *s, const struct caller *c,
		   struct store_batch *b)
{
	struct fact f;

	fact_open(&f, EVENT_SESSION_UPDATED, s->uid, r->session_id, s->first_thread, NULL);
	f.draft.ids[ID_REQUEST] = c->request_id;
	jw_kopt(&f.w, "title", r->title);
	if (r->scope_json)
		jw_kraw(&f.w, "scope", r->scope_json, strlen(r->scope_json));
	if (r->pinned_json)
		jw_kraw(&f.w, "pinnedThreadIds", r->pinned_json, strlen(r->pinned_json));
	if (r->archived >= 0)
		jw_kbool(&f.w, "archived", r->archived > 0);
	return fact_close(&f, b);
}

void engine_update_session(struct engine *g, const struct session_change *r, const struct caller *c, engine_reply_fn fn,
			   void *ctx)
{
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	struct view_session_brief s;
	struct err e = ERR_INIT;
	int found = view_session_brief(g->o.store, c->uid, r->session_id, &s, &e);

	if (found > 0)
		field_err(&e, ERR_NOT_FOUND, "sessionId", "is not known", r->session_id);
	else if (found == 0 && !changes_document(r) && !r->rules)
		err_field(&e, "title",
			  "nothing to change: give title, scope, pinnedThreadIds, archived or permissions");
	else if (found == 0 && r->rules)
		(void)session_rules_fact(g, r->session_id, s.first_thread, r->rules, c, tx->batch, &e);
	if (!e.code && changes_document(r) && updated(r, &s, c, tx->batch) < 0)
		err_set(&e, ERR_INVALID, "the session cannot be written: title, scope or pinnedThreadIds is too long");
	if (e.code) {
		transaction_reject(tx, &e);
		return;
	}
	jw_kstr(&tx->w, "sessionId", r->session_id);
	transaction_commit(tx);
}

/* ---- create_session ---- */

struct session_creation {
	struct engine *engine;
	struct pending_reply reply;
	struct requester by;
	uint64_t sequence;
	char session_id[ID_ROOM], thread_id[ID_ROOM];
};

static void session_result(const struct session_creation *s, uint64_t sequence, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kstr(&w, "sessionId", s->session_id);
	jw_kstr(&w, "threadId", s->thread_id);
	if (sequence)
		jw_kuint(&w, "sequence", sequence);
	jw_obj_end(&w);
}

static void session_answer(void *ctx)
{
	struct session_creation *s = ctx;
	buf_auto struct buf out = BUF_INIT;

	session_result(s, s->sequence, &out);
	reply_json(&s->reply, out.data, out.len);
	free(s);
}

static void on_session_decided(void *ctx, const struct store_result *r)
{
	struct session_creation *s = ctx;
	const struct hook_after_session after = { .fn = session_answer, .ctx = s };

	if (r->status < 0) {
		reply_err(&s->reply, r->err, NULL, 0);
		free(s);
		return;
	}
	s->sequence = r->last_sequence;
	hook_session_started(s->engine, s->session_id, s->by.uid, &s->by, NULL, &after);
}

void engine_create_session(struct engine *g, const struct session_request *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	struct view_session_brief known;
	struct err e = ERR_INIT;
	buf_auto struct buf out = BUF_INIT;

	/* Asked with every uid's eyes: an id that another user has is taken, too. */
	if (r->session_id && view_session_brief(g->o.store, VIEW_ANY_UID, r->session_id, &known, &e) == 0) {
		field_err(&e, ERR_CONFLICT, "sessionId", "exists already", r->session_id);
		fn(ctx, &e, NULL, 0);
		return;
	}
	struct session_creation *s = mem_zalloc(1, sizeof *s);
	const struct requester by = requester_of(c);

	if (r->session_id)
		snprintf(s->session_id, sizeof s->session_id, "%s", r->session_id);
	else
		id_make(ID_KIND_SESSION, s->session_id);
	id_make(ID_KIND_THREAD, s->thread_id);
	s->engine = g;
	s->by = by;
	reply_copy(&s->reply, c, fn, ctx);
	struct store_batch *b = store_batch_new(g->o.store);
	if (session_created(b, c->uid, s->session_id, s->thread_id, "user", r, &by) < 0 ||
	    thread_started(b, c->uid, s->session_id, s->thread_id, "session") < 0)
		err_set(&e, ERR_INVALID, "the session cannot be written: title, workspaceId or scope is too long");
	else if (r->rules)
		(void)session_rules_fact(g, s->session_id, s->thread_id, r->rules, c, b, &e);
	if (e.code) {
		store_batch_free(b);
		reply_err(&s->reply, &e, NULL, 0);
		free(s);
		return;
	}
	session_result(s, 0, &out);
	reply_store(&s->reply, b, out.data, out.len);
	store_submit(g->o.store, b, 0, on_session_decided, s);
}
