/*
 * Sessions: their facts, the requests create_session and update_session, and claims of threads.
 *
 * A session is created together with its first thread, because facts about the session itself are recorded there. Facts
 * without a turn of their own, such as a hook of the session or the decision of a dry run, belong to the system turn of
 * the session: a turn on the first thread that is submitted on first use and never starts. The runtime has a system
 * session for facts without a session.
 *
 * Claims close the gap between a decision and its commit. Which turn is active on a thread is read from the log, and a
 * start that waits for hooks, a person or the spawner is not there yet. The claim is held in memory only: after a crash
 * the start is not in the log either, or is rebuilt together with its claim.
 */

#include "runtime/engine/session/session.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/policy/session_rules.h"
#include "runtime/engine/session/session_state.h"
#include "runtime/view/view.h"
#include "runtime/view/view_cost.h"
#include "runtime/view/view_documents.h"

int session_field_err(struct err *e, enum err_code code, const char *field, const char *what, const char *id)
{
	err_set(e, code, "%s '%s' %s", field, id, what);
	snprintf(e->field, sizeof e->field, "%s", field);
	return -1;
}

int session_created_fact(struct transaction *tx, struct scope s, const char *kind, const struct session_request *r,
			 const struct requester *by)
{
	const struct session_request none = { 0 };

	if (!r)
		r = &none;
	return EMIT(session_created, tx, s, .kind = kind, .title = r->title, .workspaceId = r->workspace_id,
		    .scope = { .value = r->scope_json, .n = r->scope_len }, .createdBy = json_requester(by));
}

static int system_turn_submitted(struct transaction *tx, struct scope s)
{
	return EMIT(turn_submitted, tx, s, .envelope.status = "accepted", .source = "system", .status = "accepted");
}

/* The ids are set before the commit: facts of the same batch and later warnings refer to the system session. */
int session_system_facts(struct engine *engine, struct transaction *tx)
{
	const struct requester by = { .uid = engine->o.owner_uid, .role = ROLE_OPERATOR };

	id_make(ID_KIND_SESSION, engine->system_session);
	id_make(ID_KIND_THREAD, engine->system_thread);
	id_make(ID_KIND_TURN, engine->system_turn);
	struct scope s = { .uid = engine->o.owner_uid,
			   .session = engine->system_session,
			   .thread = engine->system_thread };
	if (session_created_fact(tx, s, "system", NULL, &by) < 0 || EMIT(thread_started, tx, s, .origin = "system") < 0)
		return -1;
	s.turn = engine->system_turn;
	return system_turn_submitted(tx, s);
}

int session_make(struct transaction *tx, const struct caller *c, const char *origin, const char *title,
		 char ret_session[ID_SIZE])
{
	const struct session_request r = { .title = title };
	const struct requester by = requester_of(c);
	char thread[ID_SIZE];

	id_make(ID_KIND_SESSION, ret_session);
	id_make(ID_KIND_THREAD, thread);
	const struct scope s = { .uid = c->uid, .session = ret_session, .thread = thread };
	return session_created_fact(tx, s, "user", &r, &by) < 0 ? -1 : EMIT(thread_started, tx, s, .origin = origin);
}

int session_system_turn(struct engine *engine, struct transaction *tx, uint32_t uid, const char *session,
			char ret_thread[ID_SIZE], char ret_turn[ID_SIZE], struct err *e)
{
	struct view_session_brief s;
	int r = view_session_brief(engine->o.store, VIEW_ANY_UID, session, &s, e);

	if (r != 0)
		return r < 0 ? -1 : err_not_known(e, "sessionId", session);
	id_copy(ret_thread, s.first_thread);
	if (s.system_turn[0]) {
		id_copy(ret_turn, s.system_turn);
		return 0;
	}
	id_make(ID_KIND_TURN, ret_turn);
	return system_turn_submitted(
		tx, (struct scope){ .uid = uid, .session = session, .thread = ret_thread, .turn = ret_turn });
}

/* ---- update_session ---- */

static bool changes_document(const struct session_change *r)
{
	return r->title || r->scope_json || r->pinned_json || r->archived >= 0;
}

void engine_update_session(struct engine *engine, const struct session_change *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	struct view_session_brief s = { 0 };
	struct err e = ERR_INIT;
	/* Nothing is reported about sessions of other users, not even that they exist. */
	int found = view_session_brief(engine->o.store, c->uid, r->session_id, &s, &e);

	if (found > 0)
		err_not_known(&e, "sessionId", r->session_id);
	else if (found == 0 && !changes_document(r) && !r->rules)
		err_field(&e, "title",
			  "nothing to change: give title, scope, pinnedThreadIds, archived or permissions");
	else if (found == 0 && r->rules)
		(void)session_rules_fact(engine, r->session_id, s.first_thread, r->rules, c, tx, &e);
	const struct scope scope = {
		.uid = s.uid, .session = r->session_id, .thread = s.first_thread, .request = c->request_id
	};
	if (!e.code && changes_document(r) &&
	    EMIT(session_updated, tx, scope, .title = r->title, .scope = json_from_text(r->scope_json),
		 .pinnedThreadIds = json_from_text(r->pinned_json),
		 .archived = r->archived >= 0 ? opt_bool(r->archived > 0) : OPT_BOOL_ABSENT) < 0)
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
	char session_id[ID_SIZE], thread_id[ID_SIZE];
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

/* Sent after the commit and after the hooks for the start of the session. */
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
	if (r->status < 0) {
		reply_err(&s->reply, r->err, NULL, 0);
		free(s);
		return;
	}
	s->sequence = r->last_sequence;
	s->engine->modules->session_created(s->engine, &(struct session_created_notice){ .session_id = s->session_id,
											 .uid = s->by.uid,
											 .by = &s->by,
											 .then = session_answer,
											 .ctx = s });
}

void engine_create_session(struct engine *engine, const struct session_request *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	struct view_session_brief known;
	struct err e = ERR_INIT;
	buf_auto struct buf out = BUF_INIT;

	/* Checks the sessions of all uids: ids are unique across users. */
	if (r->session_id && view_session_brief(engine->o.store, VIEW_ANY_UID, r->session_id, &known, &e) == 0) {
		session_field_err(&e, ERR_CONFLICT, "sessionId", "exists already", r->session_id);
		fn(ctx, &e, NULL, 0);
		return;
	}
	struct session_creation *s = mem_zalloc(1, sizeof *s);
	const struct requester by = requester_of(c);

	if (r->session_id)
		id_copy(s->session_id, r->session_id);
	else
		id_make(ID_KIND_SESSION, s->session_id);
	id_make(ID_KIND_THREAD, s->thread_id);
	s->engine = engine;
	s->by = by;
	reply_copy(&s->reply, c, fn, ctx);
	struct transaction *tx = transaction_new_internal(engine);
	const struct scope scope = { .uid = c->uid, .session = s->session_id, .thread = s->thread_id };
	if (session_created_fact(tx, scope, "user", r, &by) < 0 ||
	    EMIT(thread_started, tx, scope, .origin = "session") < 0)
		err_set(&e, ERR_INVALID, "the session cannot be written: title, workspaceId or scope is too long");
	else if (r->rules)
		(void)session_rules_fact(engine, s->session_id, s->thread_id, r->rules, c, tx, &e);
	if (e.code) {
		transaction_free(tx);
		reply_err(&s->reply, &e, NULL, 0);
		free(s);
		return;
	}
	/* The stored reply has no `sequence`, which is known only after the commit. */
	session_result(s, 0, &out);
	transaction_store_reply(tx, &s->reply, out.data, out.len);
	transaction_commit_then(tx, 0, on_session_decided, s);
}

/* ---- claims of threads ---- */

/* A turn that is or will be active on a thread but is not in the log yet. */
struct claim {
	const void *owner;
	char turn_id[ID_SIZE];
};

void thread_claim(struct engine *engine, const char *thread_id, const char *turn_id, const void *owner)
{
	struct claim *c = strmap_get(&engine->sessions->claims, thread_id);

	if (!c) {
		c = mem_zalloc(1, sizeof *c);
		strmap_put(&engine->sessions->claims, thread_id, c);
	}
	c->owner = owner;
	id_copy(c->turn_id, turn_id);
}

void thread_release(struct engine *engine, const char *thread_id, const void *owner)
{
	const struct claim *c = strmap_get(&engine->sessions->claims, thread_id);

	if (c && c->owner == owner)
		free(strmap_del(&engine->sessions->claims, thread_id));
}

/* The log has precedence; a claim counts only until the turn's facts are in the log. */
int thread_busy(struct engine *engine, const char *thread_id, char ret_turn[ID_SIZE], struct err *e)
{
	const struct claim *c = strmap_get(&engine->sessions->claims, thread_id);
	buf_auto struct buf text = BUF_INIT;
	struct thread_doc t;
	int r = view_read_speculative(engine->o.store, &thread_schema, thread_id, &text, &t, e);

	if (r < 0)
		return -1;
	if (r == 0 && t.activeTurnId[0])
		id_copy(ret_turn, t.activeTurnId);
	else if (c)
		id_copy(ret_turn, c->turn_id);
	return (r == 0 && t.activeTurnId[0]) || c;
}

static void free_value(void *ctx, const char *key, void *value) { free(value); }

void session_init(struct engine *engine)
{
	engine->sessions = mem_zalloc(1, sizeof *engine->sessions);
	TAILQ_INIT(&engine->sessions->waiters);
}

void session_done(struct engine *engine)
{
	strmap_each(&engine->sessions->claims, free_value, NULL);
	strmap_done(&engine->sessions->claims);
	strmap_each(&engine->sessions->turn_owners, free_value, NULL);
	strmap_done(&engine->sessions->turn_owners);
	free(engine->sessions);
}

/* Keys are TURN/REQUEST. Collects the ids first: no facts are added while the models are scanned. */
static bool list_request(void *ctx, const char *key, size_t key_len, const char *json, size_t len)
{
	const char *slash = memchr(key, '/', key_len);
	struct buf *list = ctx;

	if (slash)
		buf_printf(list, "%.*s\n", (int)(key + key_len - slash - 1), slash + 1); /* ids contain no newline */
	return true;
}

static bool find_any(void *ctx, const char *key, size_t key_len, const char *json, size_t len)
{
	*(bool *)ctx = true;
	return false;
}

/* Most daemons serve no models. Requests that an earlier runtime left open are looked for once. */
static bool has_open_requests(struct engine *engine)
{
	struct session_state *s = engine->sessions;
	struct err e = ERR_INIT;

	if (!s->requests_found && !s->requests_searched) {
		s->requests_searched = true;
		s->requests_found = store_model_scan_speculative(engine->o.store, VIEW_TURN_OPEN_REQUEST, "", find_any,
								 &s->requests_found, &e) < 0 ||
				    s->requests_found;
	}
	return s->requests_found || engine->model_requested;
}

void turn_close_requests(struct engine *engine, uint32_t uid, const char *session_id, const char *thread_id,
			 const char *turn_id, struct transaction *tx)
{
	buf_auto struct buf list = BUF_INIT;
	struct err e = ERR_INIT;
	char *next = NULL;

	if (!has_open_requests(engine))
		return;
	mem_auto char *prefix = mem_printf("%s/", turn_id);
	/* A failed scan must not keep the turn from ending; its requests then stay open in the log. */
	if (store_model_scan_speculative(engine->o.store, VIEW_TURN_OPEN_REQUEST, prefix, list_request, &list, &e) < 0)
		log_error("look for open model requests: %s", e.message);
	mem_auto char *ids = mem_strdup(buf_cstr(&list));
	for (char *id = strtok_r(ids, "\n", &next); id; id = strtok_r(NULL, "\n", &next)) {
		char key[VIEW_REQUEST_KEY_MAX];
		buf_auto struct buf text = BUF_INIT;
		struct model_request_doc d;

		view_model_request_key(session_id, id, key);
		const bool found = view_read_speculative(engine->o.store, &model_request_schema, key, &text, &d, &e) ==
				   0;
		const struct scope s = { .uid = uid,
					 .session = session_id,
					 .thread = thread_id,
					 .turn = turn_id,
					 .model_request = id,
					 .step = found && d.stepId[0] ? d.stepId : NULL };

		EMIT(model_failed, tx, s,
		     .envelope = { .status = "cancelled", .status_reason = "the turn ended first" },
		     .category = "cancelled", .message = "the turn ended before an answer was reported",
		     .retryable = OPT_BOOL_FALSE);
	}
}
