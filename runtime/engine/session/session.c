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

static int session_created(struct store_batch *b, struct scope s, const char *kind, const struct session_request *r,
			   const struct requester *by)
{
	const struct session_request none = { 0 };

	if (!r)
		r = &none;
	return EMIT(session_created, b, s, .kind = kind, .title = r->title, .workspaceId = r->workspace_id,
		    .scope = { .value = r->scope_json, .n = r->scope_len }, .createdBy = json_requester(by));
}

static int system_turn_submitted(struct store_batch *b, struct scope s)
{
	return EMIT(turn_submitted, b, s, .envelope.status = "accepted", .source = "system", .status = "accepted");
}

static int thread_updated(const struct process *p, struct store_batch *b, const char *status, const char *previous,
			  const char *reason)
{
	const struct scope s = { .uid = p->uid, .session = p->session_id, .thread = p->thread_id };

	return EMIT(thread_updated, b, s, .envelope.status = status, .status = status, .previous = previous,
		    .reason = reason);
}

int session_facts(struct process *p, struct store_batch *b)
{
	struct scope s = { .uid = p->uid, .session = p->session_id, .thread = p->thread_id };

	if (p->hooked)
		return 0; /* written when its hooks started */
	if (p->makes_session)
		session_created(b, s, "user", NULL, &p->by);
	if (p->makes_thread)
		EMIT(thread_started, b, s, .origin = p->makes_session ? "session" : "process");
	if (!p->owns_turn)
		return 0;
	s.turn = p->turn_id;
	s.trace = p->trace_id;
	s.request = p->start.request_id;
	s.span = p->span_id;
	EMIT(turn_submitted, b, s, .envelope.status = "accepted", .source = "process", .status = "accepted",
	     .preview = p->display);
	s.request = s.span = NULL;
	EMIT(turn_started, b, s, .envelope.status = "running", .driver = "runtime");
	return thread_updated(p, b, "running", "idle", "turn_started");
}

/* The turn of a process has that process and its outputs. */
static void write_work(struct jw *w, const void *process, size_t n)
{
	const struct process *p = process;

	jw_kstrv(w, "processes", &(const char *){ p->id }, 1);
	jw_key(w, "outputRefs");
	process_stream_names(p, w);
}

/* `category` NULL = the turn completed. `status` is the turn's: completed, failed, cancelled, timed_out, lost. */
int session_end_facts(struct process *p, struct store_batch *b, const char *status, const char *category,
		      const char *message)
{
	if (!p->owns_turn)
		return 0;
	routing_close_requests(p->engine, p->uid, p->session_id, p->thread_id, p->turn_id, b);
	const struct scope s = { .uid = p->uid,
				 .session = p->session_id,
				 .thread = p->thread_id,
				 .turn = p->turn_id,
				 .trace = p->trace_id };
	const struct json_value work = json_from_writer(write_work, p, 0);
	if (category)
		EMIT(turn_failed, b, s, .envelope = { .status = status, .status_reason = message },
		     .category = category, .message = message, .retryable = strcmp(status, "lost") == 0, .work = work);
	else
		EMIT(turn_completed, b, s, .envelope.status = status, .outcome = "process_completed", .work = work);
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
	struct scope s = { .uid = g->o.owner_uid, .session = g->system_session, .thread = g->system_thread };
	if (session_created(b, s, "system", NULL, &by) < 0 || EMIT(thread_started, b, s, .origin = "system") < 0)
		return -1;
	s.turn = g->system_turn;
	return system_turn_submitted(b, s);
}

int session_make(struct engine *g, struct store_batch *b, const struct caller *c, const char *origin, const char *title,
		 char ret_session[ID_ROOM])
{
	const struct session_request r = { .title = title };
	const struct requester by = requester_of(c);
	char thread[ID_ROOM];

	id_make(ID_KIND_SESSION, ret_session);
	id_make(ID_KIND_THREAD, thread);
	const struct scope s = { .uid = c->uid, .session = ret_session, .thread = thread };
	return session_created(b, s, "user", &r, &by) < 0 ? -1 : EMIT(thread_started, b, s, .origin = origin);
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
	return system_turn_submitted(
		b, (struct scope){ .uid = uid, .session = session, .thread = ret_thread, .turn = ret_turn });
}

/* ---- update_session ---- */

static bool changes_document(const struct session_change *r)
{
	return r->title || r->scope_json || r->pinned_json || r->archived >= 0;
}

static int updated(const struct session_change *r, const struct view_session_brief *s, const struct caller *c,
		   struct store_batch *b)
{
	const struct scope scope = {
		.uid = s->uid, .session = r->session_id, .thread = s->first_thread, .request = c->request_id
	};

	return EMIT(session_updated, b, scope, .title = r->title, .scope = json_from_text(r->scope_json),
		    .pinnedThreadIds = json_from_text(r->pinned_json),
		    .archived = r->archived >= 0 ? opt_bool(r->archived > 0) : OPT_BOOL_ABSENT);
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
	const struct scope scope = { .uid = c->uid, .session = s->session_id, .thread = s->thread_id };
	if (session_created(b, scope, "user", r, &by) < 0 || EMIT(thread_started, b, scope, .origin = "session") < 0)
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
