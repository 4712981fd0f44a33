/*
 * The creation of session sandboxes, and their holders.
 *
 * The request of the client is resolved once: which profile, which workspace, which nested repositories. That record is
 * what the holder is started from, what the document keeps, and what every command in the sandbox is set up from, so
 * that a `git init` in the workspace or another working directory does not give a different sandbox.
 *
 * All callbacks look the sandbox up by its id: the start of the holder can fail at several points, and each of them
 * may be the one that frees it.
 */

#include "runtime/engine/sandbox/sandbox_private.h"

#include "runtime/engine/core/core.h"
#include "runtime/engine/policy/sandbox_setup.h"
#include "runtime/engine/session/session.h"
#include "runtime/view/view.h"

/* ---- creating one ---- */

static void creation_result(const struct sandbox *s, uint64_t sequence, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kstr(&w, "sandboxId", s->id);
	jw_kopt(&w, "name", none_if_empty(s->name));
	jw_kstr(&w, "status", "open");
	jw_kstr(&w, "processId", s->process_id);
	jw_kstr(&w, "sessionId", s->session_id);
	jw_kopt(&w, "profile", s->spec.request.profile);
	if (s->spec.request.change.cow)
		jw_kbool(&w, "cow", true);
	jw_kuint(&w, "idleMs", s->idle_ms);
	if (sequence)
		jw_kuint(&w, "sequence", sequence);
	jw_obj_end(&w);
}

struct holder_start {
	struct engine *engine;
	char id[ID_SIZE];
};

/* The holder waits for commands, or will never do so. */
void sandbox_holder_replied(struct engine *engine, const char *id, const struct err *e, const char *json, size_t len)
{
	struct sandbox *s = sandbox_get(engine, id);
	buf_auto struct buf out = BUF_INIT;

	if (!s)
		return;
	if (!e) {
		s->ready = true;
		s->idle_since_ns = engine_now(s->engine);
		sandbox_wake(s);
		creation_result(s, jval_uint(jval_get(jval_of(json, len), "sequence"), 0), &out);
		reply_json(&s->create, out.data, out.len);
		return;
	}
	/* Once it is recorded, the end of the holder frees it. */
	struct pending_reply reply = s->create;
	s->create = (struct pending_reply){ 0 };
	if (!s->created)
		sandbox_free(s);
	reply_err(&reply, e, json, len);
}

static void on_holder(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct holder_start *h = ctx;

	sandbox_holder_replied(h->engine, h->id, e, json, len);
	reply_context_free(h);
}

/*
 * Nothing of a holder is limited in time: its own limits would be those of all its commands together. The tool program
 * is visible in every session sandbox, so that the tools of a turn can run in it.
 */
void sandbox_start_holder(struct sandbox *s, const char *session_id, const char *process_id, const struct caller *c,
			  engine_reply_fn fn, void *ctx)
{
	struct caller by = *c;
	const struct start_request r = {
		.holder = true,
		.sandbox_id = s->id,
		.sandbox = s->spec.request,
		.limits = { .wall_ms = LIMIT_NONE,
			    .idle_ms = LIMIT_NONE,
			    .cpu_ms = LIMIT_NONE,
			    .open_files = LIMIT_NONE,
			    .file_bytes = LIMIT_NONE,
			    .output_bytes = LIMIT_NONE },
		.session_id = session_id,
		.owner = OWNER_SANDBOX,
		.owner_id = s->id,
		.process_id = process_id,
		.ret_process_id = s->created ? NULL : s->process_id,
	};

	by.idem_key = NULL; /* the reply of create_sandbox is stored, not that of the start */
	process_start(s->engine, &r, &by, fn, ctx);
}

/* Sets up the sandbox once, to reject what cannot be one and to record what the request resolves to. */
static int resolve_request(struct sandbox *s, const struct sandbox_request *given, const struct caller *c,
			   struct err *e)
{
	sandbox_setup_auto struct sandbox_setup f = { 0 };
	buf_auto struct buf text = BUF_INIT;
	struct engine *engine = s->engine;
	struct sandbox_request r = *given;
	struct jw w = jw_on(&text);

	r.own_program = engine_tool_program(engine);
	if (sandbox_setup_make(engine, &r, c, &f, e) < 0)
		return -1;
	if (!f.profile.confined)
		return err_field(e, "profile", "'%s' provides no sandbox: use another profile", f.profile.name);
	r.profile = f.profile.name;
	r.cwd = f.workspace.cwd;
	r.workspace = none_if_empty(f.workspace.path);
	r.change.cow = f.profile.cow;
	sandbox_request_write(&r, &w);
	return sandbox_take_request(s, json_loadb(text.data, text.len, 0, NULL), e);
}

int sandbox_check_name(struct engine *engine, const char *name, const struct caller *c, struct err *e)
{
	if (!name)
		return 0;
	/* `bailiff cp NAME:PATH` needs the colon, and NAME must not look like an option or a path. */
	if (strcmp(name, SANDBOX_OF_SESSION) == 0 || strcmp(name, SANDBOX_OF_THREAD) == 0 ||
	    strcmp(name, SANDBOX_OWN) == 0)
		return err_field(e, "name", "'%s' stands for a sandbox without a name: use another one", name);
	if (!id_valid(name, strlen(name)) || strchr(name, ':') || *name == '-' || *name == '.' ||
	    strncmp(name, id_prefix(ID_KIND_SANDBOX), 4) == 0 || strncmp(name, id_prefix(ID_KIND_PROCESS), 5) == 0)
		return err_field(e, "name", "must be 1 to %d of A-Z a-z 0-9 _ - . and not begin with - . %s or %s",
				 ID_GIVEN_MAX, id_prefix(ID_KIND_SANDBOX), id_prefix(ID_KIND_PROCESS));
	const struct sandbox *other = sandbox_find_name(engine, name, c->uid);
	if (other && !sandbox_is_ending(other))
		return err_at(e, ERR_CONFLICT, "name",
			      "an open sandbox has the name '%s': close it, or use another name", name);
	return 0;
}

static int check_session(struct engine *engine, const char *session_id, const struct caller *c, struct err *e)
{
	struct view_session_brief brief;
	int r = session_id ? view_session_brief(engine->o.store, c->uid, session_id, &brief, e) : 0;

	return r > 0 ? err_not_known(e, "sessionId", session_id) : r;
}

void engine_create_sandbox(struct engine *engine, const struct sandbox_creation *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	struct err e = ERR_INIT;
	char id[ID_TEXT_MAX];
	struct sandbox *s;

	if (sandbox_check_name(engine, r->name, c, &e) < 0 || check_session(engine, r->session_id, c, &e) < 0) {
		fn(ctx, &e, NULL, 0);
		return;
	}
	id_make(ID_KIND_SANDBOX, id);
	s = sandbox_new(engine, id, c->uid);
	id_copy(s->name, r->name);
	s->by = requester_of(c);
	s->bound = r->session_id != NULL;
	s->idle_ms = r->idle_ms;
	s->end_with_client = r->end_with_client;
	s->connection = r->end_with_client ? c->connection : 0;
	if (resolve_request(s, &r->sandbox, c, &e) < 0) {
		sandbox_free(s);
		fn(ctx, &e, NULL, 0);
		return;
	}
	reply_copy(&s->create, c, fn, ctx);
	struct holder_start *h = reply_context_new(engine, sizeof *h);
	h->engine = engine;
	id_copy(h->id, s->id);
	sandbox_start_holder(s, r->session_id, NULL, c, on_holder, h);
}

/* ---- the owner of the holder ---- */

/* Replies to the clients that wait for its end. It is freed first: a reply may lead to the next request. */
static void free_and_answer(struct sandbox *s, const struct err *e, const char *data, size_t len)
{
	TAILQ_HEAD(, close_waiter) waiters = TAILQ_HEAD_INITIALIZER(waiters);
	struct close_waiter *w;

	TAILQ_CONCAT(&waiters, &s->waiters, link);
	sandbox_free(s);
	while ((w = TAILQ_FIRST(&waiters))) {
		TAILQ_REMOVE(&waiters, w, link);
		if (e)
			reply_err(&w->reply, e, data, len);
		else
			reply_json(&w->reply, data, len);
		free(w);
	}
}

static void holder_refused(struct engine *engine, const char *owner_id, const struct err *e, const char *data,
			   unsigned long len)
{
	struct sandbox *s = sandbox_get(engine, owner_id);
	struct pending_reply reply;

	/* If it is recorded, or on_holder got the same error, there is nothing to do. The commit may have failed. */
	if (!s || (s->created && engine_process(engine, s->process_id)))
		return;
	reply = s->create;
	s->create = (struct pending_reply){ 0 };
	free_and_answer(s, e, data, len);
	if (reply.fn)
		reply_err(&reply, e, data, len);
}

static void write_request(struct jw *w, const void *sandbox, size_t n)
{
	sandbox_request_write(&((const struct sandbox *)sandbox)->spec.request, w);
}

static void write_fork(struct jw *w, const void *sandbox, size_t n)
{
	const struct sandbox *s = sandbox;

	jw_obj(w);
	jw_kstr(w, "sandboxId", s->forked_from);
	jw_kopt(w, "checkpointId", none_if_empty(s->forked_checkpoint));
	jw_obj_end(w);
}

static void holder_started(struct process *p, struct transaction *tx)
{
	struct sandbox *s = sandbox_get(p->engine, p->owner_id);
	buf_auto struct buf result = BUF_INIT;
	struct scope scope = process_scope(p);

	if (!s || s->created)
		return;
	s->created = true;
	id_copy(s->session_id, p->session_id);
	memcpy(s->process_id, p->id, sizeof s->process_id);
	scope.sandbox = s->id;
	EMIT(sandbox_created, tx, scope, .envelope.status = "open", .name = none_if_empty(s->name),
	     .profile = p->profile, .sandboxProfile = json_from_text(s->profile_json), .sandboxHash = s->hash,
	     .request = json_from_writer(write_request, s, 0), .cow = s->spec.request.change.cow,
	     .idleMs = (int64_t)s->idle_ms, .bound = s->bound, .endsWithClient = s->end_with_client,
	     .createdBy = json_requester(&s->by),
	     .forkedFrom = s->forked_from[0] ? json_from_writer(write_fork, s, 0) : JSON_NONE);
	creation_result(s, 0, &result);
	transaction_store_reply(tx, &s->create, result.data, result.len);
}

static const char *end_reason(const struct sandbox *s, const struct process *p, const struct process_outcome *o)
{
	return s->reason                        ? s->reason
	       : p->end == PROCESS_END_USER     ? "closed"
	       : p->end == PROCESS_END_SHUTDOWN ? "shutdown"
	       : strcmp(o->status, "lost") == 0 ? "lost"
						: "failed";
}

/* Closes it from here on: the facts of its end are part of this transaction. */
static void holder_ended(struct process *p, const struct process_outcome *o, struct transaction *tx)
{
	struct sandbox *s = sandbox_get(p->engine, p->owner_id);
	const struct close_waiter *w;
	buf_auto struct buf result = BUF_INIT;
	struct scope scope = process_scope(p);

	if (!s || !s->created || strcmp(p->id, s->process_id) != 0)
		return;
	const bool expected = s->reason != NULL;
	if (!expected)
		sandbox_mark_ended(s, end_reason(s, p, o), p->end == PROCESS_END_USER ? &p->end_by : NULL);
	scope.sandbox = s->id;
	sandbox_drop_checkpoints(s, tx);
	EMIT(sandbox_closed, tx, scope, .envelope.status = "closed", .reason = s->reason,
	     .message = expected        ? NULL
			: o->message[0] ? o->message
					: "its holder exited",
	     .running = json_from_text(s->running),
	     .requestedBy = s->by_client ? json_requester(&s->closed_by) : JSON_NONE,
	     .checkpoints = sandbox_keeps_checkpoints(s) ? JSON_NONE : json_from_text("[]"));
	sandbox_result(s, 0, &result);
	TAILQ_FOREACH (w, &s->waiters, link)
		transaction_store_reply(tx, &w->reply, result.data, result.len);
}

static void holder_over(struct engine *engine, const char *owner_id)
{
	struct sandbox *s = sandbox_get(engine, owner_id);
	buf_auto struct buf result = BUF_INIT;

	if (!s || engine_process(engine, s->process_id))
		return; /* that was the holder before a restore */
	sandbox_result(s, store_last_sequence(engine->o.store), &result);
	free_and_answer(s, NULL, result.data, result.len);
}

const struct process_owner_ops sandbox_owner = {
	.refused = holder_refused,
	.started = holder_started,
	.ended = holder_ended,
	.over = holder_over,
};
