/* Subagents: spawning, their processes, input, resuming, and reports of clients. subagent.h describes the states. */

#include "runtime/engine/work/subagent.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/policy/sandbox_setup.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/process/start_spec.h"
#include "runtime/engine/work/subagent_private.h"
#include "runtime/engine/work/subagent_wait.h"
#include "runtime/engine/work/work.h"
#include "runtime/view/view.h"
#include "runtime/view/view_subagent.h"

#define START_MAX (16u * 1024) /* of the command's JSON, which is part of events and of the document */
#define INPUT_MAX (1u << 20)
#define OUTPUT_EVERY_NS 1000000000ull

const char *subagent_str(const json_t *params, const char *key)
{
	return json_string_value(json_object_get(params, key));
}

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

int subagent_load(struct engine *g, const char *id, const struct caller *c, struct buf *text, struct subagent_doc *d,
		  struct err *e)
{
	int r = view_read_speculative(g->o.store, &subagent_schema, id, text, d, e);

	if (r < 0)
		return -1;
	/* A subagent of another uid is reported as not found, so that its existence is not disclosed. */
	if (r > 0 || (c->uid != 0 && d->uid != c->uid)) {
		err_set(e, ERR_NOT_FOUND, "subagent '%.64s' is not known", id);
		snprintf(e->field, sizeof e->field, "subagentId");
		return -1;
	}
	return 0;
}

int subagent_text(const json_t *params, const char *key, size_t most, struct err *e)
{
	const char *s = subagent_str(params, key);

	return s && strlen(s) > most ? err_field(e, key, "must have at most %zu bytes", most) : 0;
}

/* ---- facts ---- */

void subagent_status_fact(struct engine *g, struct transaction *tx, const struct subagent_doc *d, const char *status,
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

static void requester_from(struct jval v, uint32_t uid, struct requester *ret)
{
	char role[16] = "";

	jval_str(jval_get(v, "role"), role, sizeof role);
	*ret = (struct requester){ .uid = uid,
				   .pid = (int32_t)jval_int(jval_get(v, "pid"), 0),
				   .role = strcmp(role, "operator") == 0 ? ROLE_OPERATOR : ROLE_AGENT };
}

void subagent_launch(struct engine *g, const char *id)
{
	buf_auto struct buf text = BUF_INIT;
	start_spec_auto struct start_spec spec = { 0 };
	struct subagent_doc d;
	struct requester by;
	struct err e = ERR_INIT;
	char process_id[ID_TEXT_MAX];

	if (view_read_speculative(g->o.store, &subagent_schema, id, &text, &d, &e) != 0 || !d.supervised ||
	    subagent_doc_ended(&d))
		return;
	json_auto_t *start = json_loadb(d.start.text, d.start.len, 0, NULL);
	if (!start || start_spec_of(g, start, &spec, &e) < 0) {
		process_owner(g, OWNER_SUBAGENT)->refused(g, id, &e, NULL, 0);
		return;
	}
	requester_from(d.requestedBy, (uint32_t)d.uid, &by);
	spec.request.session_id = d.sessionId;
	spec.request.thread_id = d.threadId;
	spec.request.turn_id = NULL;
	spec.request.task_id = d.taskId[0] ? d.taskId : NULL;
	spec.request.subagent_id = d.subagentId;
	process_start_owned(g, &spec.request, &by, OWNER_SUBAGENT, id, process_id);
}

/* ---- spawn_subagent ---- */

/* Finds the parent's session, thread and turn. */
static int parent_of(struct engine *g, const json_t *params, const struct caller *c, struct subagent_doc *d,
		     struct err *e)
{
	const char *thread = subagent_str(params, "threadId"), *turn = subagent_str(params, "turnId"),
		   *session = subagent_str(params, "sessionId");
	struct view_thread_brief t;
	int r = view_thread_brief(g->o.store, c->uid, thread, &t, e);

	if (r != 0) {
		if (r > 0)
			err_set(e, ERR_NOT_FOUND, "threadId '%.64s' is not known", thread);
		snprintf(e->field, sizeof e->field, "threadId");
		return -1;
	}
	if (session && strcmp(session, t.session_id) != 0)
		return err_field(e, "sessionId", "the thread is not one of this session's");
	d->uid = t.uid;
	id_copy(d->sessionId, t.session_id);
	id_copy(d->parentThreadId, thread);
	struct view_turn_brief u;
	r = turn ? view_turn_brief(g->o.store, c->uid, turn, &u, e) : 0;
	if (r != 0 || (turn && strcmp(u.thread_id, thread) != 0))
		return r < 0 ? -1 : err_field(e, "turnId", "is not a turn of this thread");
	if (turn)
		id_copy(d->parentTurnId, turn);
	return 0;
}

/*
 * Merges the command with the sandbox that `isolation` requests, into one object as start_process takes it. NULL
 * without a command.
 */
static json_t *start_of(const json_t *params)
{
	static const char *const own[] = { "command", "commandLine", "cwd", "env", "limits", "tty" };
	const json_t *isolation = json_object_get(params, "isolation");
	json_t *start;

	if (!json_object_get(params, "command") && !json_object_get(params, "commandLine"))
		return NULL;
	start = isolation ? json_deep_copy(isolation) : json_object();
	for (size_t i = 0; i < countof(own); i++) {
		json_t *v = json_object_get(params, own[i]);

		if (v)
			json_object_set(start, own[i], v);
	}
	json_object_set_new(start, "stdin", json_string("pipe"));
	return start;
}

static void spawned_facts(struct engine *g, struct transaction *tx, const json_t *params,
			  const struct subagent_doc *doc, const char *start_json)
{
	const json_t *isolation = json_object_get(params, "isolation"),
		     *models = json_object_get(params, "modelPolicy");
	mem_auto char *isolation_json = isolation ? json_dumps(isolation, JSON_COMPACT) : NULL;
	mem_auto char *models_json = models ? json_dumps(models, JSON_COMPACT) : NULL;
	const struct requester by = requester_of(&tx->caller);
	const struct scope s = subagent_scope(doc, NULL, tx->caller.request_id),
			   child = { .uid = (uint32_t)doc->uid, .session = doc->sessionId, .thread = doc->threadId };

	/* The child's thread is part of the parent's session. */
	EMIT(thread_started, tx, child, .origin = "subagent", .parentThreadId = doc->parentThreadId);
	EMIT(subagent_spawned, tx, s, .envelope.status = "accepted", .parentSessionId = doc->sessionId,
	     .parentThreadId = doc->parentThreadId, .parentTurnId = none_if_empty(doc->parentTurnId),
	     .childThreadId = doc->threadId, .role = subagent_str(params, "role"),
	     .nickname = subagent_str(params, "nickname"), .isolation = json_from_text(isolation_json),
	     .modelPolicy = json_from_text(models_json), .supervised = opt_bool(start_json),
	     .start = json_from_text(start_json), .requestedBy = json_requester(&by));
	if (doc->taskId[0])
		EMIT(task_delegated, tx, s, .delegateKind = "subagent", .delegateId = doc->subagentId);
}

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

static int spawn_check(struct engine *g, const json_t *params, const json_t *start, const struct caller *c,
		       char **start_json, struct err *e)
{
	start_spec_auto struct start_spec spec = { 0 };

	if (subagent_text(params, "role", 64, e) < 0 || subagent_text(params, "nickname", 64, e) < 0 ||
	    subagent_text(params, "input", INPUT_MAX, e) < 0)
		return -1;
	if (!*subagent_str(params, "role"))
		return err_field(e, "role", "must not be empty");
	if (!start)
		return 0;
	if (start_spec_of(g, start, &spec, e) < 0)
		return -1;
	root_authorise_request(g, &spec.request.sandbox, c, true);
	*start_json = json_dumps(start, JSON_COMPACT);
	if (strlen(*start_json) > START_MAX)
		return err_field(
			e, "command",
			"the command with its environment must have at most %u bytes; put the rest into a file",
			START_MAX);
	return 0;
}

void engine_spawn_subagent(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
			   void *ctx)
{
	json_auto_t *start = start_of(params);
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	mem_auto char *start_json = NULL;
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc doc;
	struct err e = ERR_INIT;
	const char *given = subagent_str(params, "subagentId"), *task = subagent_str(params, "taskId"),
		   *input = subagent_str(params, "input");

	view_clear(&subagent_schema, &doc);
	if (given && view_read_speculative(g->o.store, &subagent_schema, given, &text, &doc, &e) == 0) {
		err_set(&e, ERR_CONFLICT, "subagent '%.64s' exists already", given);
		snprintf(e.field, sizeof e.field, "subagentId");
		transaction_reject(tx, &e);
		return;
	}
	if (parent_of(g, params, c, &doc, &e) < 0 || spawn_check(g, params, start, c, &start_json, &e) < 0 ||
	    (task && task_may_run(g, task, &e) < 0)) {
		transaction_reject(tx, &e);
		return;
	}
	if (given)
		id_copy(doc.subagentId, given);
	else
		id_make(ID_KIND_SUBAGENT, doc.subagentId);
	id_make(ID_KIND_THREAD, doc.threadId);
	id_copy(doc.taskId, task ? task : "");
	spawned_facts(g, tx, params, &doc, start_json);
	if (input)
		input_fact(tx, &doc, input, false);
	/* Without a command it is the client's, and running from the start. */
	if (!start_json)
		subagent_status_fact(g, tx, &doc, "running", "its client runs it", false, false, NULL, c->request_id);
	else
		transaction_after_commit(tx, subagent_launch, doc.subagentId);
	/* The input waits in memory until the process has started (subagent_wait.h). */
	if (input && start_json)
		subagent_first_input(g, doc.subagentId, input, false);
	jw_kstr(&tx->w, "subagentId", doc.subagentId);
	jw_kstr(&tx->w, "threadId", doc.threadId);
	jw_kstr(&tx->w, "status", start_json ? "accepted" : "running");
	transaction_commit(tx);
}

/* ---- its process ---- */

bool subagent_doc_of(struct engine *g, const char *id, struct buf *text, struct subagent_doc *d)
{
	struct err e = ERR_INIT;

	if (view_read_speculative(g->o.store, &subagent_schema, id, text, d, &e) == 0)
		return true;
	log_error("subagent %s: %s", id, e.code ? e.message : "is not there");
	return false;
}

void subagent_refused(struct engine *g, const char *id, const struct err *e, const char *data, unsigned long len)
{
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc d;

	if (!subagent_doc_of(g, id, &text, &d))
		return;
	struct transaction *own = transaction_new_internal(g);
	EMIT(subagent_failed, own, subagent_scope(&d, NULL, NULL),
	     .envelope = { .status = "failed", .status_reason = e->message },
	     .category = e->code == ERR_PERMISSION || e->code == ERR_NOT_ALLOWED ? "permission" : "spawn",
	     .message = e->message);
	transaction_commit(own);
	subagent_ended(g, id);
}

static void on_process_started(struct process *p, struct transaction *tx)
{
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc d;

	if (!subagent_doc_of(p->engine, p->owner_id, &text, &d))
		return;
	subagent_status_fact(p->engine, tx, &d, "running", NULL, false, d.closing, p->id, NULL);
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
	/* The process's end also completes a close_subagent that waited for it. */
	if (d.closing) {
		char reason[200] = "closed";

		if (d.statusReason.type == JT_STRING)
			jval_str(d.statusReason, reason, sizeof reason);
		subagent_closed_fact(tx, &d, reason, NULL);
	}
}

static void on_process_over(struct engine *g, const char *id) { subagent_ended(g, id); }

/* A start that waited for policy or hooks is dropped if the subagent was closed meanwhile. */
static bool subagent_wanted(struct engine *g, const char *id, const char *process_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc d;
	struct err e = ERR_INIT;

	return view_read_speculative(g->o.store, &subagent_schema, id, &text, &d, &e) == 0 && !subagent_doc_ended(&d);
}

const struct process_owner_ops subagent_process_owner = {
	.refused = subagent_refused,
	.wanted = subagent_wanted,
	.started = on_process_started,
	.output = on_process_output,
	.ended = on_process_ended,
	.over = on_process_over,
};

/* ---- send_subagent_input ---- */

static void ignore_reply(void *ctx, const struct err *e, const char *json, size_t len)
{
	if (e)
		log_debug("input of a subagent: %s", e->message);
}

static void send_to_process(struct engine *g, const struct subagent_doc *d, const char *input, bool eof)
{
	const struct caller c = { .uid = (uint32_t)d->uid, .role = ROLE_AGENT, .peer_fd = -1 };

	if (*input)
		engine_write_stdin(g, d->processId, input, strlen(input), &c, ignore_reply, NULL);
	if (eof)
		engine_close_stdin(g, d->processId, &c, ignore_reply, NULL);
}

void engine_send_subagent_input(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
				void *ctx)
{
	const char *id = subagent_str(params, "subagentId"), *input = subagent_str(params, "input");
	bool eof = json_is_true(json_object_get(params, "eof"));
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc doc;
	struct err e = ERR_INIT;

	if (subagent_load(g, id, c, &text, &doc, &e) < 0 || subagent_text(params, "input", INPUT_MAX, &e) < 0) {
		transaction_reject(tx, &e);
		return;
	}
	if (subagent_doc_ended(&doc) || doc.closing) {
		err_set(&e, ERR_STATE, "subagent '%.64s' is %s: resume_subagent can bring it back", id,
			doc.closing ? "being closed" : doc.status);
		transaction_reject(tx, &e);
		return;
	}
	input_fact(tx, &doc, input, eof);
	if (doc.supervised && doc.processId[0])
		send_to_process(g, &doc, input, eof);
	else if (doc.supervised)
		subagent_first_input(g, id, input, eof);
	jw_kstr(&tx->w, "subagentId", id);
	jw_kuint(&tx->w, "bytes", strlen(input));
	transaction_commit(tx);
}

/* ---- resume_subagent ---- */

void engine_resume_subagent(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
			    void *ctx)
{
	const char *id = subagent_str(params, "subagentId"), *input = subagent_str(params, "input");
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc doc;
	struct err e = ERR_INIT;

	if (subagent_load(g, id, c, &text, &doc, &e) < 0 || subagent_text(params, "input", INPUT_MAX, &e) < 0) {
		transaction_reject(tx, &e);
		return;
	}
	if (!subagent_doc_ended(&doc)) {
		err_set(&e, ERR_STATE, "subagent '%.64s' is %s: only one that has ended is resumed", id, doc.status);
		transaction_reject(tx, &e);
		return;
	}
	/* A resumed subagent keeps its id and thread, and gets a new process. */
	subagent_status_fact(g, tx, &doc, doc.supervised ? "accepted" : "running", "resumed", true, false, NULL,
			     c->request_id);
	if (input)
		input_fact(tx, &doc, input, false);
	if (input && doc.supervised)
		subagent_first_input(g, id, input, false);
	if (doc.supervised)
		transaction_after_commit(tx, subagent_launch, id);
	jw_kstr(&tx->w, "subagentId", id);
	jw_kstr(&tx->w, "threadId", doc.threadId);
	jw_kstr(&tx->w, "status", doc.supervised ? "accepted" : "running");
	transaction_commit(tx);
}

/* ---- report_subagent ---- */

static void report_end(struct transaction *tx, const struct subagent_doc *doc, const json_t *params, const char *status)
{
	const char *message = subagent_str(params, "message"), *category = subagent_str(params, "category"),
		   *last = subagent_str(params, "lastMessageRef");
	const struct envelope envelope = { .status = status, .status_reason = message };
	const struct scope s = subagent_scope(doc, NULL, tx->caller.request_id);

	if (strcmp(status, "completed") == 0)
		EMIT(subagent_completed, tx, s, .envelope = envelope, .outcome = message ? message : "reported",
		     .lastMessageRef = last);
	else
		EMIT(subagent_failed, tx, s, .envelope = envelope, .category = category ? category : "reported",
		     .message = message, .lastMessageRef = last);
}

void engine_report_subagent(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
			    void *ctx)
{
	const char *id = subagent_str(params, "subagentId"), *status = subagent_str(params, "status");
	bool ends = strcmp(status, "completed") == 0 || strcmp(status, "failed") == 0 ||
		    strcmp(status, "cancelled") == 0;
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc doc;
	struct err e = ERR_INIT;

	if (subagent_load(g, id, c, &text, &doc, &e) < 0 || subagent_text(params, "message", 1024, &e) < 0 ||
	    subagent_text(params, "category", 64, &e) < 0) {
		transaction_reject(tx, &e);
		return;
	}
	if (doc.supervised || subagent_doc_ended(&doc)) {
		err_set(&e, ERR_STATE,
			doc.supervised ? "subagent '%.64s' is a process of the runtime: what becomes of it is seen, "
					 "not reported"
				       : "subagent '%.64s' has ended: resume_subagent can bring it back",
			id);
		transaction_reject(tx, &e);
		return;
	}
	if (ends) {
		report_end(tx, &doc, params, status);
		transaction_after_commit(tx, subagent_ended, id);
	} else {
		EMIT(subagent_status, tx, subagent_scope(&doc, NULL, c->request_id),
		     .envelope = { .status = status, .status_reason = subagent_str(params, "message") },
		     .status = status, .lastMessageRef = subagent_str(params, "lastMessageRef"));
	}
	jw_kstr(&tx->w, "subagentId", id);
	jw_kstr(&tx->w, "status", status);
	transaction_commit(tx);
}
