/* submit_turn. turn.h describes the module. */

#include "runtime/base/hash.h"
#include "runtime/base/json_get.h"
#include "runtime/base/text.h"
#include "runtime/engine/call/tool_call.h"
#include "runtime/engine/policy/sandbox_setup.h"
#include "runtime/engine/process/start_spec.h"
#include "runtime/engine/session/session_scope.h"
#include "runtime/engine/session/turn_owner.h"
#include "runtime/engine/turn/turn_private.h"

#define PREVIEW_MAX 256u
#define LEASE_MIN_MS 100
#define LEASE_MAX_MS 86400000
#define OPTIONS_MAX 16384u

/* A checked submit_turn request. */
struct turn_plan {
	struct session_scope scope;
	char *input, *options, *metadata, *loop_limits; /* JSON */
	const char *driver, *model;
	const struct turn_request *request;
	char hash[HASH_SHA256_TEXT];
	char preview[PREVIEW_MAX + 1];
	size_t parts, texts;
	json_t *kept; /* the parts as they are stored, new reference */
	struct turn_images images;
	bool reject, has_image;
};

/* A short description of the turn: the start of its first part. */
static void preview_of(const json_t *part, char ret[PREVIEW_MAX + 1])
{
	const char *const members[] = { "text", "commandLine", "toolName" };
	const json_t *argv = json_object_get(part, "command"), *v;
	buf_auto struct buf text = BUF_INIT;
	size_t i;

	for (i = 0; i < countof(members) && !text.len; i++)
		if (json_string_value(json_object_get(part, members[i])))
			buf_str(&text, json_string_value(json_object_get(part, members[i])));
	if (!text.len)
		json_array_foreach (argv, i, v)
			buf_printf(&text, "%s%s", i ? " " : "", json_string_value(v) ? json_string_value(v) : "");
	size_t n = text.len ? text_utf8_cut(text.data, text.len < PREVIEW_MAX ? text.len : PREVIEW_MAX) : 0;
	memcpy(ret, buf_cstr(&text), n);
	ret[n] = '\0';
}

/* Reports mistakes when the turn is submitted. What depends on the state at its start is checked again then. */
static int check_part(struct engine *engine, const struct turn_request *r, struct turn_plan *p, const json_t *part,
		      const struct caller *c, struct err *e)
{
	const char *type = json_string_value(json_object_get(part, "type"));
	const json_t *arguments = json_object_get(part, "arguments");

	if (!type)
		return err_field(e, "type", "missing; text, image, command or tool_call");
	if (strcmp(type, "text") == 0)
		return json_is_string(json_object_get(part, "text")) ? 0 : err_field(e, "text", "must be a string");
	if (strcmp(type, "image") == 0) {
		json_t *kept = turn_image_check(engine, part, c, &p->images, e);

		p->has_image = true;
		return kept ? json_array_set_new(p->kept, json_array_size(p->kept) - 1, kept) : -1;
	}
	if (strcmp(type, "command") == 0) {
		json_auto_t *merged = r->options ? json_copy((json_t *)(uintptr_t)r->options) : json_object();
		sandbox_setup_auto struct sandbox_setup f = { 0 };
		start_spec_auto struct start_spec spec = { 0 };

		json_object_update(merged, (json_t *)(uintptr_t)part);
		/* The sandbox is checked again when the turn runs; checking it now reports plain mistakes early. */
		if (start_spec_of(engine, merged, &spec, e) < 0 ||
		    sandbox_setup_make(engine, &spec.request.sandbox, c, &f, e) < 0)
			return -1;
		root_authorise(engine, &f, c, true);
		return 0;
	}
	if (strcmp(type, "tool_call") != 0)
		return err_field(e, "type", "'%.40s' is not text, image, command or tool_call", type);
	if (!json_is_string(json_object_get(part, "toolName")))
		return err_field(e, "toolName", "missing");
	if (arguments && !json_is_object(arguments))
		return err_field(e, "arguments", "must be an object");
	return tool_check(engine, json_string_value(json_object_get(part, "toolName")), arguments,
			  (struct tool_scope){ p->scope.uid, p->scope.session_id }, e);
}

static int check_input(struct engine *engine, const struct turn_request *r, const struct caller *c, struct turn_plan *p,
		       struct err *e)
{
	const json_t *part;
	size_t i;

	p->parts = json_array_size(r->input);
	if (p->parts < 1 || p->parts > TURN_PARTS_MAX)
		return err_field(e, "input", "must have 1 to %u parts", TURN_PARTS_MAX);
	p->kept = json_array();
	json_array_foreach (r->input, i, part) {
		json_array_append(p->kept, (json_t *)(uintptr_t)part);
		if (check_part(engine, r, p, part, c, e) < 0) {
			char field[ERR_FIELD_MAX];

			snprintf(field, sizeof field, "input[%u].%.32s", (unsigned)i, e->field);
			memcpy(e->field, field, sizeof field);
			return err_wrap(e, "input[%zu]", i);
		}
		p->texts += strcmp(json_string_value(json_object_get(part, "type")), "text") == 0;
	}
	for (i = 0; i < p->parts && !p->preview[0]; i++)
		preview_of(json_array_get(r->input, i), p->preview);
	if (p->has_image && !p->texts)
		return err_field(e, "input", "must have a text part: an image alone asks for nothing");
	return 0;
}

/* Sorted keys: the hash of the input must not depend on the order in which a client writes it. */
static int dump_json(const json_t *v, size_t most, const char *field, char **ret, struct err *e)
{
	*ret = v ? json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	if (*ret && strlen(*ret) > most)
		return err_field(e, field, "must have at most %zu bytes as JSON", most);
	return 0;
}

/*
 * Stores the parts and the values of variables behind a ref. Events show the other options, and only the names of the
 * variables.
 */
static int dump_input(const struct turn_request *r, struct turn_plan *p, struct err *e)
{
	json_t *env = json_object_get(r->options, "env");
	json_auto_t *kept = json_object(), *shown = NULL;
	bool changed;

	json_object_set(kept, "input", p->kept);
	if (env) {
		json_object_set(kept, "env", env);
		shown = tool_safe_arguments(r->options, &changed);
	}
	if (r->system_prompt)
		json_object_set_new(kept, "systemPrompt", json_string(r->system_prompt));
	return dump_json(kept, TURN_INPUT_MAX, "input", &p->input, e) < 0 ||
			       dump_json(shown ? shown : r->options, OPTIONS_MAX, "options", &p->options, e) < 0
		       ? -1
		       : 0;
}

/* Everything that can be checked before the thread is read. The plan owns its strings. */
static int check_lease(const struct turn_request *r, const struct turn_plan *p, struct err *e)
{
	const json_t *lease = json_object_get(r->options, "leaseMs");
	const json_int_t ms = json_integer_value(lease);

	if (!lease)
		return 0;
	if (ms < LEASE_MIN_MS || ms > LEASE_MAX_MS)
		return err_field(e, "options.leaseMs", "must be between 100 and 86400000");
	if (r->loop || !p->texts)
		return err_field(e, "options.leaseMs", "needs a turn with text that its client drives");
	if (json_text_is(r->options, "onDisconnect", "keep"))
		return err_field(e, "options.leaseMs", "cannot be combined with onDisconnect keep");
	return 0;
}

static int plan_turn(struct engine *engine, const struct turn_request *r, const struct caller *c, struct turn_plan *p,
		     struct err *e)
{
	const char *busy = json_string_value(json_object_get(r->options, "whenBusy"));
	buf_auto struct buf body = BUF_INIT;

	if (engine->stopping)
		return err_set(e, ERR_UNAVAILABLE, "the daemon is stopping");
	if (r->new_thread && r->thread_id)
		return err_field(e, "newThread", "cannot be combined with threadId");
	if (session_scope_find(engine, r->session_id, r->thread_id,
			       r->new_thread ? SCOPE_NEW_THREAD : SCOPE_FIRST_THREAD, c, &p->scope, e) < 0 ||
	    check_input(engine, r, c, p, e) < 0 || dump_input(r, p, e) < 0 ||
	    dump_json(r->metadata, OPTIONS_MAX, "metadata", &p->metadata, e) < 0)
		return -1;
	p->reject = busy && strcmp(busy, "reject") == 0;
	/* A turn with text is driven by its client, unless the loop is to send the text to a model. */
	if (check_lease(r, p, e) < 0)
		return -1;
	p->driver = r->loop ? "\"loop\"" : p->texts ? "\"client\"" : "\"runtime\"";
	if (r->loop && !p->texts)
		return err_field(e, "input", "must have a text part: that is what the model is asked");
	if (!r->loop && (r->model || r->loop_limits || r->system_prompt))
		return err_field(e,
				 r->model         ? "model"
				 : r->loop_limits ? "limits"
						  : "systemPrompt",
				 "needs driver loop");
	p->model = r->model;
	if (dump_json(r->loop_limits, OPTIONS_MAX, "limits", &p->loop_limits, e) < 0)
		return -1;
	/* The hash recognises a repeated request with the same turnId. */
	buf_printf(&body, "%s\n%s", p->input, p->options ? p->options : "{}");
	if (r->loop)
		buf_printf(&body, "\nloop %s %s", p->model ? p->model : "", p->loop_limits ? p->loop_limits : "");
	hash_sha256_text(body.data, body.len, p->hash);
	if (!p->images.n)
		return 0;
	/* The refs are new each time, so they are not part of the hash. */
	turn_images_name(&p->images);
	free(mem_take(&p->input));
	free(mem_take(&p->options));
	return dump_input(r, p, e);
}

/* Predicts the document that the events will produce, for other facts of the same batch. */
static void doc_of_plan(const struct turn_plan *p, const char *turn_id, const char *by_json, const struct caller *c,
			struct turn_doc *ret)
{
	view_clear(&turn_schema, ret);
	id_copy(ret->turnId, turn_id);
	id_copy(ret->sessionId, p->scope.session_id);
	id_copy(ret->threadId, p->scope.thread_id);
	ret->uid = p->scope.uid;
	id_copy(ret->taskId, p->request->task_id);
	id_copy(ret->runId, p->request->run_id);
	id_copy(ret->attemptId, p->request->attempt_id);
	id_copy(ret->toolCallId, p->request->tool_call_id);
	ret->driver = jval_of(p->driver, strlen(p->driver));
	if (p->options)
		ret->options = jval_of(p->options, strlen(p->options));
	ret->requestedBy = jval_of(by_json, strlen(by_json));
	if (c->trace_id)
		id_copy(ret->traceId, c->trace_id);
}

static void submitted_fact(const struct turn_plan *p, const struct turn_doc *d, const char *status,
			   const struct caller *c, const char *input_ref, struct transaction *tx)
{
	struct scope s = turn_scope(d);
	char step[ID_TEXT_MAX] = "";

	if (p->texts)
		id_make(ID_KIND_STEP, step);
	s.step = step;
	s.run = d->runId;
	s.attempt = d->attemptId;
	s.tool_call = d->toolCallId;
	s.request = c->request_id;
	s.span = c->span_id;
	s.channel = c->channel_id;
	EMIT(turn_submitted, tx, s, .envelope.status = status, .source = "client", .status = status,
	     .preview = p->preview, .inputRef = input_ref, .inputBytes = opt_int(strlen(p->input)),
	     .inputHash = p->hash, .parts = opt_int(p->parts), .driver = json_from_jval(d->driver),
	     .options = json_from_text(p->options), .metadata = json_from_text(p->metadata),
	     .requestedBy = json_from_jval(d->requestedBy), .model = p->model,
	     .loopLimits = json_from_text(p->loop_limits));
	transaction_add_output(tx, input_ref, p->input, strlen(p->input));
	turn_images_store(&p->images, d, tx);
}

/* 1 = the turn already exists, and the request has its reply. */
static int submit_again(struct engine *engine, struct transaction *tx, const struct turn_request *r,
			const struct turn_plan *p)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;
	int found = r->turn_id ? turn_read(engine, r->turn_id, &text, &t, &e) : 1;

	if (found > 0)
		return 0;
	bool elsewhere = found == 0 && ((r->session_id && strcmp(r->session_id, t.sessionId) != 0) ||
					(r->thread_id && strcmp(r->thread_id, t.threadId) != 0));

	if (elsewhere || (found == 0 && (t.uid != tx->caller.uid || strcmp(t.inputHash, p->hash) != 0)))
		err_at(&e, ERR_CONFLICT, "turnId", "turnId '%.80s' is taken by another turn", r->turn_id);
	if (e.code) {
		transaction_reject(tx, &e);
		return 1;
	}
	/* The turn is the same whether or not another client drives it now. */
	(void)turn_owner_seen(engine, &t, tx->caller.connection, tx->caller.channel_id, &e);
	turn_result(tx, &t, t.status);
	if (strcmp(t.status, "queued") == 0)
		jw_kstr(&tx->w, "queuedTurnId", t.turnId);
	transaction_commit(tx);
	return 1;
}

/*
 * The thread may be busy: then the turn is queued, or rejected if the client requests that. Otherwise it starts in the
 * same commit, unless hooks have to run first.
 */
static void submit_turn(struct engine *engine, struct transaction *tx, const struct turn_request *r,
			const struct turn_plan *p)
{
	char turn_id[ID_SIZE], input_ref[ID_TEXT_MAX], active[ID_SIZE] = "";
	const struct requester by = requester_of(&tx->caller);
	buf_auto struct buf by_json = BUF_INIT;
	struct turn_queue q = { 0 };
	struct err e = ERR_INIT;
	struct turn_doc t;
	struct jw w = jw_on(&by_json);
	int busy = 0;

	if (r->turn_id)
		id_copy(turn_id, r->turn_id);
	else
		id_make(ID_KIND_TURN, turn_id);
	id_make(ID_KIND_OUTPUT, input_ref);
	if (!p->scope.makes_thread) {
		busy = thread_busy(engine, p->scope.thread_id, active, &e);
		if (busy < 0 || turn_queue_read(engine, p->scope.thread_id, &q, &e) < 0)
			return transaction_reject(tx, &e);
		busy |= q.count > 0;
	}
	if (busy && p->reject)
		err_set(&e, ERR_CONFLICT, "thread '%s' is busy with turn '%s', and whenBusy is reject",
			p->scope.thread_id, active);
	else if (busy && q.count >= TURN_QUEUE_MAX)
		err_set(&e, ERR_EXHAUSTED, "%zu turns wait in thread '%s', which is the limit", q.count,
			p->scope.thread_id);
	if (e.code)
		return transaction_reject(tx, &e);
	json_value_write(&w, json_requester(&by));
	doc_of_plan(p, turn_id, buf_cstr(&by_json), &tx->caller, &t);
	if (turn_owner_seen(engine, &t, tx->caller.connection, tx->caller.channel_id, &e) < 0)
		return transaction_reject(tx, &e);
	session_scope_facts(&p->scope, "turn", NULL, &by, tx);
	submitted_fact(p, &t, busy ? "queued" : "accepted", &tx->caller, input_ref, tx);
	if (busy) {
		id_copy(q.ids[q.count++], turn_id);
		turn_queue_fact(&q, "queued", turn_id, tx->caller.request_id, tx);
	} else if (turn_hooks_prompt(engine, &t, p->kept, tx)) {
		return; /* the hooks run first; the reply follows their answers */
	} else {
		turn_start_facts(engine, &t, false, NULL, tx);
		transaction_after_commit(tx, turn_step, turn_id);
	}
	turn_result(tx, &t, busy ? "queued" : "accepted");
	if (busy)
		jw_kstr(&tx->w, "queuedTurnId", turn_id);
	transaction_commit(tx);
}

void engine_submit_turn(struct engine *engine, const struct turn_request *r, const struct caller *c, engine_reply_fn fn,
			void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	struct turn_plan p = { .request = r };
	struct err e = ERR_INIT;

	if (plan_turn(engine, r, c, &p, &e) < 0)
		transaction_reject(tx, &e);
	else if (submit_again(engine, tx, r, &p) == 0) {
		const struct requester by = requester_of(c);
		sandbox_spec_auto struct sandbox_spec spec = { 0 };

		/* Authorise the sandbox now: the turn's tools and hooks may run after the client has disconnected. */
		if (c->uid == 0 && r->options && sandbox_spec_of(r->options, &spec, &e) == 0)
			root_authorise_request(engine, &spec.request, c);
		submit_turn(engine, tx, r, &p);
		if (p.scope.makes_session)
			engine->modules->session_created(
				engine, &(struct session_created_notice){
						.session_id = p.scope.session_id,
						.uid = p.scope.uid,
						.by = &by,
						.cwd = json_string_value(json_object_get(r->options, "cwd")) });
	}
	json_decref(p.kept);
	turn_images_done(&p.images);
	free(p.input);
	free(p.options);
	free(p.metadata);
	free(p.loop_limits);
}
