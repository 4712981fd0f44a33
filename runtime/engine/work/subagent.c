/*
 * Subagents: spawning, their processes, input, resuming, reports of clients, closing with everything below them, and
 * recovery. work.h describes the states.
 */

#include "runtime/engine/core/ref.h"
#include "runtime/engine/policy/sandbox_setup.h"
#include "runtime/engine/process/start_spec.h"
#include "runtime/engine/work/subagent_private.h"
#include "runtime/view/view.h"

#include <signal.h>

#define START_MAX (16u * 1024) /* of the command's JSON, which is part of events and of the document */
#define INPUT_MAX (1u << 20)
#define OUTPUT_EVERY_NS 1000000000ull
#define PARENT_CLOSED "its parent was closed"

struct scope subagent_scope(const struct subagent_doc *d, const char *process_id, const char *request_id)
{
	return (struct scope){ .uid = (uint32_t)d->uid,
			       .session = d->sessionId,
			       .thread = d->parentThreadId,
			       .turn = d->parentTurnId,
			       .subagent = d->subagentId,
			       .task = d->taskId,
			       .process = process_id,
			       .request = request_id };
}

/* A text parameter: absent, or at most `most` bytes; unlike param_text it may be empty. */
static int text_check(const json_t *params, const char *key, size_t most, struct err *e)
{
	const char *text = param_str(params, key);

	return text && strlen(text) > most ? err_field(e, key, "must have at most %zu bytes", most) : 0;
}

static int subagent_load(struct engine *engine, const char *id, const struct caller *c, struct buf *text,
			 struct subagent_doc *d, struct err *e)
{
	int r = view_read_speculative(engine->o.store, &subagent_schema, id, text, d, e);

	if (r < 0)
		return -1;
	/* A subagent of another uid is reported as not found, so that its existence is not disclosed. */
	if (r > 0 || (c->uid != 0 && d->uid != c->uid))
		return err_not_known(e, "subagentId", id);
	return 0;
}

/* ---- facts ---- */

/* Keeps `closing` as long as the subagent is being closed: each status replaces the one before. */
static void subagent_status_fact(struct transaction *tx, const struct subagent_doc *d, const char *status,
				 const char *reason, bool resumed, bool closing, const char *process_id,
				 const char *request_id)
{
	EMIT(subagent_status, tx, subagent_scope(d, process_id, request_id),
	     .envelope = { .status = status, .status_reason = reason }, .status = status, .resumed = resumed,
	     .closing = closing);
}

void subagent_closed_fact(struct transaction *tx, const struct subagent_doc *d, const char *reason,
			  const char *request_id)
{
	/* Its process, if it had one, has terminated. */
	EMIT(subagent_closed, tx, subagent_scope(d, NULL, request_id),
	     .envelope = { .status = "closed", .status_reason = reason }, .reason = reason, .treeEmpty = OPT_BOOL_TRUE);
}

/* ---- starting its command ---- */

bool subagent_doc_of(struct engine *engine, const char *id, struct buf *text, struct subagent_doc *d)
{
	struct err e = ERR_INIT;

	if (view_read_speculative(engine->o.store, &subagent_schema, id, text, d, &e) == 0)
		return true;
	log_error("subagent %s: %s", id, e.code ? e.message : "not found");
	return false;
}

struct process_search {
	const char *subagent_id;
	struct process *found;
};

static void match_process(void *ctx, const char *id, void *value)
{
	struct process_search *s = ctx;
	struct process *p = value;

	if (p->owner == OWNER_SUBAGENT && strcmp(p->owner_id, s->subagent_id) == 0 && p->state < PROCESS_ENDING)
		s->found = p;
}

/* Also one that waits for permission or is being launched: the document names it only once it has begun. */
static struct process *live_process(struct engine *engine, const char *id)
{
	struct process_search s = { .subagent_id = id };

	strmap_each(&engine->processes->live, match_process, &s);
	return s.found;
}

/* Runs after the commit, and at a restart if no process was recorded. */
static void subagent_launch(struct engine *engine, const char *id)
{
	buf_auto struct buf text = BUF_INIT;
	start_spec_auto struct start_spec spec = { 0 };
	struct subagent_doc d;
	struct err e = ERR_INIT;
	char process_id[ID_TEXT_MAX];

	if (view_read_speculative(engine->o.store, &subagent_schema, id, &text, &d, &e) != 0 || !d.supervised ||
	    subagent_doc_ended(&d))
		return;
	json_auto_t *start = json_loadb(d.start.text, d.start.len, 0, NULL);
	if (!start || start_spec_of(engine, start, &spec, &e) < 0) {
		process_owner(engine, OWNER_SUBAGENT)->refused(engine, id, &e, NULL, 0);
		return;
	}
	const struct requester by = { .uid = (uint32_t)d.uid,
				      .pid = (int32_t)jval_int(jval_get(d.requestedBy, "pid"), 0),
				      .role = jval_is_str(jval_get(d.requestedBy, "role"), "operator") ? ROLE_OPERATOR
												       : ROLE_AGENT };
	spec.request.session_id = d.sessionId;
	spec.request.thread_id = d.threadId;
	spec.request.turn_id = NULL;
	spec.request.task_id = d.taskId[0] ? d.taskId : NULL;
	spec.request.subagent_id = d.subagentId;
	process_start_owned(engine, &spec.request, &by, OWNER_SUBAGENT, id, process_id);
}

/* ---- spawn_subagent ---- */

/* A long input is stored behind a ref. The fact is recorded also if no process can take the input yet. */
static void input_fact(struct transaction *tx, const struct subagent_doc *doc, const char *input, bool eof)
{
	const struct ref_owner owner = { .uid = (uint32_t)doc->uid,
					 .session_id = doc->sessionId,
					 .thread_id = doc->parentThreadId,
					 .kind = "subagentId",
					 .id = doc->subagentId };
	const struct requester by = requester_of(&tx->caller);
	ref_text_auto struct ref_text text;

	ref_text_init(&text, tx, &owner, input, strlen(input));
	EMIT(subagent_input, tx, subagent_scope(doc, NULL, tx->caller.request_id), .bytes = opt_int(strlen(input)),
	     .preview = text.shown, .inputRef = none_if_empty(text.ref), .eof = eof, .by = json_requester(&by));
}

/* Finds the parent's session, thread and turn, and checks the other parameters. */
static int check_spawn(struct engine *engine, const json_t *params, const struct caller *c, struct subagent_doc *d,
		       struct err *e)
{
	const char *given = param_str(params, "subagentId"), *task = param_str(params, "taskId"),
		   *thread = param_str(params, "threadId"), *turn = param_str(params, "turnId"),
		   *session = param_str(params, "sessionId");
	buf_auto struct buf text = BUF_INIT;
	struct view_thread_brief t;
	struct view_turn_brief u;

	if (given && view_read_speculative(engine->o.store, &subagent_schema, given, &text, d, e) == 0)
		return err_at(e, ERR_CONFLICT, "subagentId", "subagent '%.64s' exists already", given);
	view_clear(&subagent_schema, d);
	int r = view_thread_brief(engine->o.store, c->uid, thread, &t, e);
	if (r != 0)
		return r < 0 ? -1 : err_not_known(e, "threadId", thread);
	if (session && strcmp(session, t.session_id) != 0)
		return err_field(e, "sessionId", "the thread is not one of this session's");
	r = turn ? view_turn_brief(engine->o.store, c->uid, turn, &u, e) : 0;
	if (r != 0 || (turn && strcmp(u.thread_id, thread) != 0))
		return r < 0 ? -1 : err_field(e, "turnId", "is not a turn of this thread");
	d->uid = t.uid;
	id_copy(d->sessionId, t.session_id);
	id_copy(d->parentThreadId, thread);
	id_copy(d->parentTurnId, turn);
	id_copy(d->taskId, task);
	id_copy(d->subagentId, given);
	if (!given)
		id_make(ID_KIND_SUBAGENT, d->subagentId);
	id_make(ID_KIND_THREAD, d->threadId);
	if (text_check(params, "role", 64, e) < 0 || text_check(params, "nickname", 64, e) < 0 ||
	    text_check(params, "input", INPUT_MAX, e) < 0)
		return -1;
	if (!*param_str(params, "role"))
		return err_field(e, "role", "must not be empty");
	return task ? task_may_run(engine, task, e) : 0;
}

/*
 * Merges the command with the sandbox that `isolation` requests, into one object as start_process takes it. NULL
 * without a command, or with an error.
 */
static char *start_of(struct engine *engine, const json_t *params, const struct caller *c, struct err *e)
{
	static const char *const own[] = { "command", "commandLine", "cwd", "env", "limits", "tty" };
	const json_t *isolation = json_object_get(params, "isolation");
	json_auto_t *start = isolation ? json_deep_copy(isolation) : json_object();
	start_spec_auto struct start_spec spec = { 0 };

	if (!json_object_get(params, "command") && !json_object_get(params, "commandLine"))
		return NULL;
	for (size_t i = 0; i < countof(own); i++)
		if (json_object_get(params, own[i]))
			json_object_set(start, own[i], json_object_get(params, own[i]));
	json_object_set_new(start, "stdin", json_string("pipe"));
	if (start_spec_of(engine, start, &spec, e) < 0)
		return NULL;
	root_authorise_request(engine, &spec.request.sandbox, c);
	char *text = json_dumps(start, JSON_COMPACT);
	if (strlen(text) > START_MAX)
		err_field(e, "command",
			  "the command with its environment must have at most %u bytes; put the rest into a file",
			  START_MAX);
	return text;
}

void engine_spawn_subagent(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
			   void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	const char *input = param_str(params, "input");
	const struct requester by = requester_of(c);
	struct subagent_doc doc;
	struct err e = ERR_INIT;

	mem_auto char *start = check_spawn(engine, params, c, &doc, &e) == 0 ? start_of(engine, params, c, &e) : NULL;
	if (e.code)
		return transaction_reject(tx, &e);
	const struct scope s = subagent_scope(&doc, NULL, c->request_id),
			   child = { .uid = (uint32_t)doc.uid, .session = doc.sessionId, .thread = doc.threadId };
	/* The child's thread is part of the parent's session. */
	EMIT(thread_started, tx, child, .origin = "subagent", .parentThreadId = doc.parentThreadId);
	EMIT(subagent_spawned, tx, s, .envelope.status = "accepted", .parentSessionId = doc.sessionId,
	     .parentThreadId = doc.parentThreadId, .parentTurnId = none_if_empty(doc.parentTurnId),
	     .childThreadId = doc.threadId, .role = param_str(params, "role"),
	     .nickname = param_str(params, "nickname"), .isolation = param_json(params, "isolation"),
	     .modelPolicy = param_json(params, "modelPolicy"), .supervised = opt_bool(start),
	     .start = json_from_text(start), .requestedBy = json_requester(&by));
	if (doc.taskId[0])
		EMIT(task_delegated, tx, s, .delegateKind = "subagent", .delegateId = doc.subagentId);
	if (input)
		input_fact(tx, &doc, input, false);
	/* Without a command it is the client's, and running from the start. */
	if (!start)
		subagent_status_fact(tx, &doc, "running", "its client runs it", false, false, NULL, c->request_id);
	else
		transaction_after_commit(tx, subagent_launch, doc.subagentId);
	/* The input waits in memory until the process has started (subagent_wait.c). */
	if (input && start)
		subagent_first_input(engine, doc.subagentId, input, false);
	jw_kstr(&tx->w, "subagentId", doc.subagentId);
	jw_kstr(&tx->w, "threadId", doc.threadId);
	jw_kstr(&tx->w, "status", start ? "accepted" : "running");
	transaction_commit(tx);
}

/* ---- its process ---- */

/* The end of its process also completes a close_subagent that waited for it. */
static void finish_closing(struct transaction *tx, const struct subagent_doc *d)
{
	char reason[200] = "closed";

	if (!d->closing)
		return;
	if (d->statusReason.type == JT_STRING)
		jval_str(d->statusReason, reason, sizeof reason);
	subagent_closed_fact(tx, d, reason, NULL);
}

/* Policy, hooks or a person rejected the start, or the sandbox could not be built. */
static void subagent_refused(struct engine *engine, const char *id, const struct err *e, const char *data,
			     unsigned long len)
{
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc d;

	if (!subagent_doc_of(engine, id, &text, &d) || subagent_doc_ended(&d))
		return;
	struct transaction *own = transaction_new_internal(engine);
	EMIT(subagent_failed, own, subagent_scope(&d, NULL, NULL),
	     .envelope = { .status = "failed", .status_reason = e->message },
	     .category = e->code == ERR_PERMISSION || e->code == ERR_NOT_ALLOWED ? "permission" : "spawn",
	     .message = e->message);
	finish_closing(own, &d);
	transaction_commit(own);
	subagent_ended(engine, id);
}

static void on_process_started(struct process *p, struct transaction *tx)
{
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc d;

	if (!subagent_doc_of(p->engine, p->owner_id, &text, &d))
		return;
	subagent_status_fact(tx, &d, "running", NULL, false, d.closing, p->id, NULL);
	/* The input was recorded with its request; now there is a process to read it. */
	subagent_give_first_input(p->engine, &d, p->id);
}

/* Reports its newest output, at most once a second. */
static void on_process_output(struct process *p, struct transaction *tx)
{
	const struct process_stream *out = &p->streams[0];
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc d;
	uint64_t now = engine_now(p->engine);

	if (now - p->owner_told_ns < OUTPUT_EVERY_NS || !out->ref[0] ||
	    !subagent_doc_of(p->engine, p->owner_id, &text, &d))
		return;
	p->owner_told_ns = now;
	struct scope s = subagent_scope(&d, p->id, NULL);
	s.output = out->ref;
	EMIT(subagent_output, tx, s, .outputRef = out->ref, .offset = opt_int(0), .length = opt_int(out->size));
	s.output = NULL;
	EMIT(subagent_status, tx, s, .envelope.status = "running", .status = "running", .lastMessageRef = out->ref,
	     .closing = d.closing);
}

static void on_process_ended(struct process *p, const struct process_outcome *o, struct transaction *tx)
{
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc d;

	if (!subagent_doc_of(p->engine, p->owner_id, &text, &d))
		return;
	const struct opt_int code = opt_int_if(o->exit_code >= 0, o->exit_code);
	const struct scope s = subagent_scope(&d, p->id, NULL);
	if (o->clean)
		EMIT(subagent_completed, tx, s, .envelope.status = o->status, .outcome = "process_completed",
		     .exitCode = code, .outputRefs = json_stream_names(p));
	else
		EMIT(subagent_failed, tx, s, .envelope = { .status = o->status, .status_reason = o->message },
		     .category = o->category, .message = o->message, .exitCode = code,
		     .outputRefs = json_stream_names(p));
	finish_closing(tx, &d);
}

/* A start that waited for policy or hooks is dropped if the subagent was closed meanwhile. */
static bool subagent_wanted(struct engine *engine, const char *id, const char *process_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc d;
	struct err e = ERR_INIT;

	return view_read_speculative(engine->o.store, &subagent_schema, id, &text, &d, &e) == 0 &&
	       !subagent_doc_ended(&d);
}

const struct process_owner_ops subagent_process_owner = {
	.refused = subagent_refused,
	.wanted = subagent_wanted,
	.started = on_process_started,
	.output = on_process_output,
	.ended = on_process_ended,
	.over = subagent_ended,
};

/* The subagent of a tool call is a turn of the loop, not a process. */
static bool refuse_turn(const struct subagent_doc *d, const char *instead, struct err *e)
{
	char turn[ID_SIZE];

	if (subagent_turn_of(d, turn))
		err_set(e, ERR_STATE, "subagent '%.64s' is the turn '%.64s' of a tool call: %s", d->subagentId, turn,
			instead);
	return e->code;
}

/* Its command may have access that agents do not get, and may run what it reads (process_write_own does not ask). */
static bool refuse_agent(const struct subagent_doc *d, const struct caller *c, struct err *e)
{
	if (d->supervised && c->role != ROLE_OPERATOR &&
	    !jval_is_str(jval_get(d->requestedBy, "role"), role_name(ROLE_AGENT)))
		err_set(e, ERR_NOT_ALLOWED,
			"the command of subagent '%.64s' was started by an operator: only operators "
			"can write to it",
			d->subagentId);
	return e->code;
}

/* ---- send_subagent_input ---- */

void engine_send_subagent_input(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
				void *ctx)
{
	const char *id = param_str(params, "subagentId"), *input = param_str(params, "input");
	bool eof = json_is_true(json_object_get(params, "eof"));
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc doc;
	struct err e = ERR_INIT;

	if (subagent_load(engine, id, c, &text, &doc, &e) < 0 || text_check(params, "input", INPUT_MAX, &e) < 0)
		return transaction_reject(tx, &e);
	if (refuse_turn(&doc, "steer_turn adds input to it", &e) || refuse_agent(&doc, c, &e))
		return transaction_reject(tx, &e);
	if (subagent_doc_ended(&doc) || doc.closing) {
		err_set(&e, ERR_STATE, "subagent '%.64s' is %s: resume_subagent can bring it back", id,
			doc.closing ? "being closed" : doc.status);
		return transaction_reject(tx, &e);
	}
	input_fact(tx, &doc, input, eof);
	/* Until it has begun (again), processId is that of the run before, if any. */
	if (doc.supervised && strcmp(doc.status, "accepted") == 0)
		subagent_first_input(engine, id, input, eof);
	else if (doc.supervised)
		subagent_write_input(engine, &doc, doc.processId, input, eof);
	jw_kstr(&tx->w, "subagentId", id);
	jw_kuint(&tx->w, "bytes", strlen(input));
	transaction_commit(tx);
}

/* ---- resume_subagent ---- */

void engine_resume_subagent(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
			    void *ctx)
{
	const char *id = param_str(params, "subagentId"), *input = param_str(params, "input");
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc doc;
	struct err e = ERR_INIT;

	if (subagent_load(engine, id, c, &text, &doc, &e) < 0 || text_check(params, "input", INPUT_MAX, &e) < 0)
		return transaction_reject(tx, &e);
	if (refuse_turn(&doc, "submit_turn continues its thread", &e) || (input && refuse_agent(&doc, c, &e)))
		return transaction_reject(tx, &e);
	if (!subagent_doc_ended(&doc)) {
		err_set(&e, ERR_STATE, "subagent '%.64s' is %s: only one that has ended is resumed", id, doc.status);
		return transaction_reject(tx, &e);
	}
	/* A resumed subagent keeps its id and thread, and gets a new process. */
	subagent_status_fact(tx, &doc, doc.supervised ? "accepted" : "running", "resumed", true, false, NULL,
			     c->request_id);
	subagent_forget_input(engine, id); /* of a start that was rejected */
	if (input)
		input_fact(tx, &doc, input, false);
	if (input && doc.supervised)
		subagent_first_input(engine, id, input, false);
	if (doc.supervised)
		transaction_after_commit(tx, subagent_launch, id);
	jw_kstr(&tx->w, "subagentId", id);
	jw_kstr(&tx->w, "threadId", doc.threadId);
	jw_kstr(&tx->w, "status", doc.supervised ? "accepted" : "running");
	transaction_commit(tx);
}

/* ---- report_subagent ---- */

void engine_report_subagent(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
			    void *ctx)
{
	const char *id = param_str(params, "subagentId"), *status = param_str(params, "status"),
		   *message = param_str(params, "message"), *category = param_str(params, "category"),
		   *last = param_str(params, "lastMessageRef");
	bool ends = strcmp(status, "completed") == 0 || strcmp(status, "failed") == 0 ||
		    strcmp(status, "cancelled") == 0;
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc doc;
	struct err e = ERR_INIT;

	if (subagent_load(engine, id, c, &text, &doc, &e) < 0 || text_check(params, "message", 1024, &e) < 0 ||
	    text_check(params, "category", 64, &e) < 0)
		return transaction_reject(tx, &e);
	if (doc.supervised || subagent_doc_ended(&doc)) {
		err_set(&e, ERR_STATE,
			doc.supervised ? "subagent '%.64s' is a process of the runtime, which observes its outcome; "
					 "it cannot be reported"
				       : "subagent '%.64s' has ended: resume_subagent can bring it back",
			id);
		return transaction_reject(tx, &e);
	}
	const struct envelope envelope = { .status = status, .status_reason = message };
	const struct scope s = subagent_scope(&doc, NULL, c->request_id);
	if (ends) {
		if (strcmp(status, "completed") == 0)
			EMIT(subagent_completed, tx, s, .envelope = envelope, .outcome = message ? message : "reported",
			     .lastMessageRef = last);
		else
			EMIT(subagent_failed, tx, s, .envelope = envelope, .category = category ? category : "reported",
			     .message = message, .lastMessageRef = last);
		transaction_after_commit(tx, subagent_ended, id);
	} else {
		EMIT(subagent_status, tx, s, .envelope = envelope, .status = status, .lastMessageRef = last);
	}
	jw_kstr(&tx->w, "subagentId", id);
	jw_kstr(&tx->w, "status", status);
	transaction_commit(tx);
}

/* ---- close_subagent ---- */

/* SIGTERM first; the process is killed after the grace period. */
static void end_process(struct engine *engine, const char *id)
{
	struct process *p = live_process(engine, id);

	if (p)
		process_enforce_end(p, PROCESS_END_USER, &p->by, SIGTERM, engine->o.stop_grace_ms, "parent_cancelled");
}

/*
 * Records the intent first. A process is asked to end after the commit, and subagent.closed follows its end.
 */
static void close_one(struct transaction *tx, const struct subagent_doc *doc, const char *reason)
{
	struct process *p = live_process(tx->engine, doc->subagentId);

	if (p)
		subagent_status_fact(tx, doc, doc->status, reason, false, true, p->id, tx->caller.request_id);
	else
		subagent_closed_fact(tx, doc, reason, tx->caller.request_id);
	transaction_after_commit(tx, p ? end_process : subagent_ended, doc->subagentId);
}

/* Subagents to close, parents before their children. */
struct subagent_tree {
	struct subagent_node {
		char id[ID_SIZE], thread[ID_SIZE];
		bool live;
	} * nodes;
	size_t count, cap;
	struct strmap seen;
};

static void tree_done(struct subagent_tree *t)
{
	free(t->nodes);
	strmap_done(&t->seen);
}

/* Of this thread or task, without those below. */
static void tree_add(struct subagent_tree *t, struct engine *engine, enum view_kind kind, const char *owner)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;

	id_list_read(engine, kind, owner, ID_LIST_ALL, &ids);
	for (size_t i = 0; i < ids.n; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct subagent_doc d;

		if (!subagent_doc_of(engine, ids.id[i], &text, &d) || strmap_put(&t->seen, ids.id[i], t))
			continue;
		if (t->count == t->cap) {
			t->cap = t->cap ? 2 * t->cap : 16;
			t->nodes = mem_realloc(t->nodes, t->cap * sizeof *t->nodes);
		}
		struct subagent_node *n = &t->nodes[t->count++];
		id_copy(n->id, d.subagentId);
		id_copy(n->thread, d.threadId);
		n->live = !subagent_doc_ended(&d) && !d.closing;
	}
}

/* Closes those that are live, of this thread or task and below, also below those that have ended. */
static void close_below(struct transaction *tx, enum view_kind kind, const char *owner, const char *reason)
{
	struct subagent_tree tree = { 0 };

	tree_add(&tree, tx->engine, kind, owner);
	const size_t direct = tree.count;
	for (size_t i = 0; i < tree.count; i++)
		tree_add(&tree, tx->engine, VIEW_THREAD_SUBAGENT, tree.nodes[i].thread);
	for (size_t i = tree.count; i-- > 0;) {
		buf_auto struct buf text = BUF_INIT;
		struct subagent_doc d;

		if (tree.nodes[i].live && subagent_doc_of(tx->engine, tree.nodes[i].id, &text, &d))
			close_one(tx, &d, i < direct ? reason : PARENT_CLOSED);
	}
	tree_done(&tree);
}

/* Also for one that has ended: its children may outlive it. The reply does not wait for processes to end. */
void engine_close_subagent(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
			   void *ctx)
{
	const char *id = param_str(params, "subagentId"), *reason = param_str(params, "reason");
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	const bool runs = live_process(engine, id) != NULL;
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc doc;
	struct err e = ERR_INIT;

	if (subagent_load(engine, id, c, &text, &doc, &e) < 0 || text_check(params, "reason", 200, &e) < 0)
		return transaction_reject(tx, &e);
	if (strcmp(doc.status, "closed") == 0 || doc.closing) {
		err_set(&e, ERR_STATE, "subagent '%.64s' is %s already", id, doc.closing ? "being closed" : "closed");
		return transaction_reject(tx, &e);
	}
	close_below(tx, VIEW_THREAD_SUBAGENT, doc.threadId, PARENT_CLOSED);
	close_one(tx, &doc, reason ? reason : "closed");
	jw_kstr(&tx->w, "subagentId", id);
	jw_kstr(&tx->w, "status", runs ? "closing" : "closed");
	transaction_commit(tx);
}

/* ---- for tasks above them ---- */

bool task_subagents_open(struct engine *engine, const char *task_id)
{
	view_ids_auto struct view_ids subagents = VIEW_IDS_INIT;

	id_list_read(engine, VIEW_TASK_SUBAGENT, task_id, ID_LIST_ALL, &subagents);
	for (size_t i = 0; i < subagents.n; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct subagent_doc doc;

		/* A subagent that is being closed is still open: its process has to end first. */
		if (subagent_doc_of(engine, subagents.id[i], &text, &doc) && !subagent_doc_ended(&doc))
			return true;
	}
	return false;
}

/* All in one transaction. Those whose process has to end first report their end later. */
void task_subagents_end(struct engine *engine, const char *task_id, const char *reason)
{
	struct transaction *tx = transaction_new_internal(engine);

	close_below(tx, VIEW_TASK_SUBAGENT, task_id, reason);
	transaction_commit(tx);
}

#define INPUT_LOST "the runtime was restarted before it started, and its input was lost: resume it with the input"

/* Continues one that has no outcome yet. Running processes have their own recovery. */
static void recover_one(struct engine *engine, const struct subagent_doc *d)
{
	const bool unstarted = strcmp(d->status, "accepted") == 0;
	/* The first input was only in memory. Do not start the command without it. */
	const bool lost = unstarted && d->inputs != VIEW_ABSENT;
	struct process *p = live_process(engine, d->subagentId);

	if (p && d->closing) {
		end_process(engine, d->subagentId);
	} else if (p && lost) { /* it waits for permission */
		process_enforce_end(p, PROCESS_END_USER, NULL, SIGTERM, 0, INPUT_LOST);
	} else if (!p && d->closing) { /* its process was being launched, and never ran */
		struct transaction *tx = transaction_new_internal(engine);

		finish_closing(tx, d);
		transaction_commit(tx);
	} else if (!p && lost) {
		struct err e = ERR_INIT;

		err_set(&e, ERR_UNAVAILABLE, INPUT_LOST);
		subagent_refused(engine, d->subagentId, &e, NULL, 0);
	} else if (!p && unstarted) {
		subagent_launch(engine, d->subagentId);
	}
}

/* After permission_resume: a start that was allowed is not repeated. */
void subagent_recover(struct engine *engine)
{
	view_ids_auto struct view_ids live = VIEW_IDS_INIT;

	id_list_read(engine, VIEW_LIVE_SUBAGENT, NULL, ID_LIST_ALL, &live);
	for (size_t i = 0; i < live.n; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct subagent_doc doc;
		char turn[ID_SIZE];

		/* The turn of a tool call is submitted by the recovery of the call. */
		if (subagent_doc_of(engine, live.id[i], &text, &doc) && doc.supervised && !subagent_turn_of(&doc, turn))
			recover_one(engine, &doc);
	}
}
