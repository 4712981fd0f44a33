/*
 * Checkpoints of copy-on-write sandboxes. All three operations are a copy of the layers, which the host makes in the
 * background (ports.h: copy_changes), and what follows it:
 *
 * - checkpoint: the holder's layers → a new checkpoint, recorded by sandbox.checkpointed
 * - restore: a checkpoint → the id of another holder, which is started with it. sandbox.restored makes it the
 *   sandbox's holder; then the previous one ends and its changes are discarded. If anything fails before, the sandbox
 *   continues with the previous holder, also after a crash: the document has the id of the one that counts.
 * - fork: a checkpoint, or the layers of the last holder → the holder of a new sandbox with the same request
 *
 * An upper layer must not change while it is copied: no command may run in the sandbox, and none is started meanwhile.
 * The list of checkpoints is a member of the sandbox's document. Each event has all of it, hence the limit.
 */

#include "runtime/engine/sandbox/sandbox_private.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/id_list.h"
#include "runtime/view/view_documents.h"

#define RUNNING_NAMED 5u /* in an error */
#define CHECKPOINTS_NAMED 5u

/* ---- replies ---- */

static const char *const lost_paths[] = { "/tmp", "/var/tmp", "/dev/shm" };

static void write_result(const struct sandbox_copy *x, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kstr(&w, "sandboxId", x->sandbox_id);
	jw_kstr(&w, "checkpointId", x->kind == COPY_CHECKPOINT ? x->to : x->checkpoint);
	jw_kopt(&w, "name", none_if_empty(x->name));
	if (x->kind == COPY_RESTORE) {
		jw_kstr(&w, "processId", x->to);
		jw_kstrv(&w, "lost", lost_paths, countof(lost_paths));
	}
	if (x->sequence)
		jw_kuint(&w, "sequence", x->sequence);
	jw_obj_end(&w);
}

/* In the commit that the reply waits for, so that a repeated request gets it again. */
static void store_result(struct transaction *tx, const struct sandbox_copy *x)
{
	buf_auto struct buf result = BUF_INIT;

	write_result(x, &result);
	transaction_store_reply(tx, &x->reply, result.data, result.len);
}

/* Ends the request. */
static void copy_done(struct engine *engine, struct sandbox_copy *x)
{
	struct pending_reply reply = x->reply;
	buf_auto struct buf result = BUF_INIT;

	x->reply = (struct pending_reply){ 0 };
	write_result(x, &result);
	sandbox_copy_free(engine, x);
	if (reply.fn)
		reply_json(&reply, result.data, result.len);
}

/* ---- what is copied ---- */

/* The document of the sandbox, open or closed. Only its owner: the holder runs with the caller's identity. */
static int read_source(struct engine *engine, const char *given, const struct caller *c, struct buf *text,
		       struct sandbox_doc *ret, struct err *e)
{
	char id[ID_SIZE];

	engine_sandbox_id(engine, given, c, id);
	int r = view_read_speculative(engine->o.store, &sandbox_schema, id, text, ret, e);
	if (r < 0)
		return -1;
	if (r > 0 || (c->uid != 0 && ret->uid != c->uid))
		return err_at(e, ERR_NOT_FOUND, "sandboxId",
			      "sandbox '%s' is not known; list_sandboxes shows those that are open", given);
	if (ret->uid != c->uid)
		return err_at(e, ERR_NOT_ALLOWED, "sandboxId",
			      "sandbox '%s' belongs to uid %u: make the request as that user", given,
			      (unsigned)ret->uid);
	if (!ret->cow)
		return err_because(e, ERR_STATE, REASON_NOT_COW,
				   "sandbox '%s' is not copy-on-write: it has no checkpoints", given);
	if (!engine->o.ports->copy_changes)
		return err_set(e, ERR_UNAVAILABLE, "this runtime does not serve copy-on-write runs");
	return sandbox_check_share(engine, c->uid, e);
}

/* The oldest ones, for an error. */
static void write_names(const struct sandbox_doc *d, struct buf *out)
{
	char text[ID_TEXT_MAX];
	size_t n = 0;

	for (struct jiter it = jiter_on(d->checkpoints); jiter_next(&it); n++) {
		const struct jval name = jval_get(it.value, "name");

		jval_str(name.type == JT_STRING ? name : jval_get(it.value, "checkpointId"), text, sizeof text);
		if (n < CHECKPOINTS_NAMED)
			buf_printf(out, "%s%s", n ? ", " : "", text);
	}
	if (n > CHECKPOINTS_NAMED)
		buf_printf(out, " and %zu more", n - CHECKPOINTS_NAMED);
}

/* By id or name; NULL = the newest. */
static int find_checkpoint(const struct sandbox_doc *d, const char *given, char ret[ID_TEXT_MAX], struct err *e)
{
	*ret = '\0';
	for (struct jiter it = jiter_on(d->checkpoints); jiter_next(&it);)
		if (!given || jval_is_str(jval_get(it.value, "checkpointId"), given) ||
		    jval_is_str(jval_get(it.value, "name"), given))
			jval_str(jval_get(it.value, "checkpointId"), ret, ID_TEXT_MAX);
	if (!*ret && !given)
		return err_at(e, ERR_STATE, "checkpoint", "the sandbox has no checkpoint");
	if (*ret)
		return 0;
	buf_auto struct buf names = BUF_INIT;
	write_names(d, &names);
	return err_at(e, ERR_NOT_FOUND, "checkpoint", "'%s' is not a checkpoint of this sandbox%s%s", given,
		      names.len ? ", which has " : ": it has none", buf_cstr(&names));
}

/* Nothing runs in it, and nothing else is done with it. */
static int check_idle(const struct sandbox *s, const struct caller *c, struct err *e)
{
	view_ids_auto struct view_ids running = VIEW_IDS_INIT;
	buf_auto struct buf names = BUF_INIT;

	if (sandbox_check_open(s, c, e) < 0)
		return -1;
	sandbox_members(s, &running);
	if (!running.n)
		return 0;
	for (size_t i = 0; i < running.n && i < RUNNING_NAMED; i++) {
		const struct process *p = engine_process(s->engine, running.id[i]);

		buf_printf(&names, "%s%s (%.60s)", i ? ", " : "", running.id[i], p && p->display ? p->display : "");
	}
	return err_at(e, ERR_STATE, "sandboxId", "commands are running in the sandbox: %.300s%s; end them first",
		      buf_cstr(&names), running.n > RUNNING_NAMED ? " and more" : "");
}

/* Takes the reply over and asks the host; engine_on_copied continues. */
static void copy_begin(struct engine *engine, struct sandbox_copy *x, const char *from)
{
	struct err e = ERR_INIT;

	if (engine->o.ports->copy_changes(engine->o.host, from, x->to) == 0)
		return;
	err_set(&e, ERR_UNAVAILABLE, "this runtime does not serve copy-on-write runs");
	sandbox_copy_fail(engine, x, &e);
}

/* ---- checkpoint ---- */

static size_t count_checkpoints(const struct sandbox_doc *d)
{
	size_t n = 0;

	for (struct jiter it = jiter_on(d->checkpoints); jiter_next(&it);)
		n++;
	return n;
}

static int check_checkpoint(const struct sandbox_doc *d, const char *name, struct err *e)
{
	char id[ID_TEXT_MAX];
	struct err ignored = ERR_INIT;

	if (count_checkpoints(d) >= SANDBOX_CHECKPOINTS_MAX)
		return err_set(e, ERR_EXHAUSTED, "the sandbox has %u checkpoints, which is the limit: fork it to go on",
			       SANDBOX_CHECKPOINTS_MAX);
	if (!name)
		return 0;
	if (!id_valid(name, strlen(name)) || strncmp(name, id_prefix(ID_KIND_CHECKPOINT), 4) == 0)
		return err_field(e, "checkpoint", "must be 1 to %d of A-Z a-z 0-9 _ - . : and not begin with %s",
				 ID_GIVEN_MAX, id_prefix(ID_KIND_CHECKPOINT));
	if (find_checkpoint(d, name, id, &ignored) == 0)
		return err_at(e, ERR_CONFLICT, "checkpoint", "the sandbox has a checkpoint '%s': use another name",
			      name);
	return 0;
}

void engine_checkpoint_sandbox(struct engine *engine, const char *given, const char *name, const struct caller *c,
			       engine_reply_fn fn, void *ctx)
{
	buf_auto struct buf text = BUF_INIT;
	struct sandbox_doc d;
	struct err e = ERR_INIT;
	struct sandbox *s = sandbox_find(engine, given, c, &e);

	if (!s || read_source(engine, s->id, c, &text, &d, &e) < 0 || check_checkpoint(&d, name, &e) < 0 ||
	    check_idle(s, c, &e) < 0) {
		fn(ctx, &e, NULL, 0);
		return;
	}
	struct sandbox_copy *x = sandbox_copy_new(engine, COPY_CHECKPOINT, s->id, c);
	id_copy(x->name, name);
	id_copy(x->source_id, s->id);
	reply_copy(&x->reply, c, fn, ctx);
	copy_begin(engine, x, s->process_id);
}

struct checkpoint_list {
	const struct sandbox_copy *copy;
	struct jval before;
	uint64_t real_us;
};

static void write_checkpoints(struct jw *w, const void *list, size_t n)
{
	const struct checkpoint_list *l = list;
	char at[CLOCK_TEXT_MAX];

	clock_format(l->real_us, at);
	jw_arr(w);
	for (struct jiter it = jiter_on(l->before); jiter_next(&it);)
		jw_raw(w, it.value.text, it.value.len);
	jw_obj(w);
	jw_kstr(w, "checkpointId", l->copy->to);
	jw_kopt(w, "name", none_if_empty(l->copy->name));
	jw_kstr(w, "createdAt", at);
	jw_obj_end(w);
	jw_arr_end(w);
}

/* For the commit of what was copied, or the reply to the start of its holder. */
struct copy_commit {
	struct engine *engine;
	char to[ID_TEXT_MAX];
};

static struct copy_commit *commit_new(struct engine *engine, const struct sandbox_copy *x)
{
	struct copy_commit *k = reply_context_new(engine, sizeof *k);

	k->engine = engine;
	memcpy(k->to, x->to, sizeof k->to);
	return k;
}

static void on_checkpointed(void *ctx, const struct store_result *r)
{
	struct copy_commit *k = ctx;
	struct engine *engine = k->engine;
	struct sandbox_copy *x = sandbox_find_copy(engine, k->to);

	reply_context_free(k);
	if (x)
		x->sequence = r->last_sequence;
	if (x && r->status < 0)
		sandbox_copy_fail(engine, x, r->err);
	else if (x)
		copy_done(engine, x);
}

static void record_checkpoint(struct sandbox *s, struct sandbox_copy *x)
{
	struct engine *engine = s->engine;
	const struct process *p = engine_process(engine, s->process_id);
	const struct requester by = requester_of(&x->caller);
	buf_auto struct buf text = BUF_INIT;
	struct sandbox_doc d;
	struct err e = ERR_INIT;

	if (!p || read_source(engine, s->id, &x->caller, &text, &d, &e) < 0) {
		sandbox_copy_fail(engine, x, &e);
		return;
	}
	const struct checkpoint_list list = { x, d.checkpoints, engine->o.ports->real_us(engine->o.host) };
	struct transaction *tx = transaction_new_internal(engine);
	struct scope scope = process_scope(p);

	scope.sandbox = s->id;
	EMIT(sandbox_checkpointed, tx, scope, .checkpointId = x->to, .name = none_if_empty(x->name),
	     .checkpoints = json_from_writer(write_checkpoints, &list, 0), .requestedBy = json_requester(&by));
	store_result(tx, x);
	s->idle_since_ns = engine_now(engine);
	transaction_commit_then(tx, 0, on_checkpointed, commit_new(engine, x));
}

/* ---- restore ---- */

void engine_restore_sandbox(struct engine *engine, const char *given, const char *checkpoint, const struct caller *c,
			    engine_reply_fn fn, void *ctx)
{
	buf_auto struct buf text = BUF_INIT;
	char id[ID_TEXT_MAX];
	struct sandbox_doc d;
	struct err e = ERR_INIT;
	struct sandbox *s = sandbox_find(engine, given, c, &e);

	if (!s || read_source(engine, s->id, c, &text, &d, &e) < 0 || find_checkpoint(&d, checkpoint, id, &e) < 0 ||
	    check_idle(s, c, &e) < 0) {
		fn(ctx, &e, NULL, 0);
		return;
	}
	struct sandbox_copy *x = sandbox_copy_new(engine, COPY_RESTORE, s->id, c);
	memcpy(x->checkpoint, id, sizeof x->checkpoint);
	reply_copy(&x->reply, c, fn, ctx);
	copy_begin(engine, x, id);
}

static void write_lost(struct jw *w, const void *unused, size_t n)
{
	jw_arr(w);
	for (size_t i = 0; i < countof(lost_paths); i++)
		jw_str(w, lost_paths[i]);
	jw_arr_end(w);
}

/* The sandbox has its new holder. The reply follows when the previous one is gone. */
static void on_restored(void *ctx, const struct store_result *r)
{
	struct copy_commit *k = ctx;
	struct engine *engine = k->engine;
	struct sandbox_copy *x = sandbox_find_copy(engine, k->to);
	struct sandbox *s = x ? sandbox_get(engine, x->sandbox_id) : NULL;
	struct err e = ERR_INIT;

	if (!x || !s || r->status < 0) {
		sandbox_end_process(engine, k->to, "its sandbox was not restored");
		err_set(&e, ERR_STATE, "the sandbox was closed meanwhile");
		if (x)
			sandbox_copy_fail(engine, x, r->status < 0 ? r->err : &e);
	} else {
		x->sequence = r->last_sequence;
		memcpy(x->previous_id, s->process_id, sizeof x->previous_id);
		memcpy(s->process_id, x->to, sizeof s->process_id);
		s->idle_since_ns = engine_now(engine);
		sandbox_end_process(engine, x->previous_id, "its sandbox was restored to a checkpoint");
		if (s->reason)
			sandbox_end_holder(s); /* closed before: the end of the previous holder does not close it */
	}
	reply_context_free(k);
}

static void record_restore(struct sandbox *s, struct sandbox_copy *x)
{
	struct engine *engine = s->engine;
	const struct process *p = engine_process(engine, x->to);
	const struct requester by = requester_of(&x->caller);
	struct transaction *tx = transaction_new_internal(engine);
	struct scope scope = process_scope(p);

	scope.sandbox = s->id;
	EMIT(sandbox_restored, tx, scope, .checkpointId = x->checkpoint, .previousProcessId = s->process_id,
	     .lost = json_from_writer(write_lost, NULL, 0), .requestedBy = json_requester(&by));
	store_result(tx, x);
	transaction_commit_then(tx, 0, on_restored, commit_new(engine, x));
}

/* The reply to the start of the holder that is to take over. */
static void on_next_holder(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct copy_commit *k = ctx;
	struct engine *engine = k->engine;
	struct sandbox_copy *x = sandbox_find_copy(engine, k->to);
	struct sandbox *s = x ? sandbox_get(engine, x->sandbox_id) : NULL;
	struct err closed = ERR_INIT;

	if (s && !s->reason && !e) {
		record_restore(s, x);
	} else {
		err_set(&closed, ERR_STATE, "the sandbox was closed meanwhile");
		sandbox_end_process(engine, k->to, "its sandbox is closed");
		if (x)
			sandbox_copy_fail(engine, x, e ? e : &closed);
	}
	reply_context_free(k);
}

/* A holder has ended: the one that was replaced, or the last one of a sandbox. */
void sandbox_on_holder_over(struct engine *engine, const struct process_over *x)
{
	struct sandbox_copy *copy = x->owner == OWNER_SANDBOX ? sandbox_find_restore(engine, x->owner_id) : NULL;
	const struct sandbox *s = copy ? sandbox_get(engine, x->owner_id) : NULL;
	struct err e = ERR_INIT;

	if (!copy)
		return;
	if (!s) {
		err_set(&e, ERR_STATE, "the sandbox was closed meanwhile");
		sandbox_copy_fail(engine, copy, &e);
		return;
	}
	if (!copy->previous_id[0] || engine_process(engine, copy->previous_id))
		return;
	if (engine->o.ports->discard_changes &&
	    engine->o.ports->discard_changes(engine->o.host, copy->previous_id, s->uid) < 0)
		log_warning("the changes of %s, which a restore replaced, are not discarded", copy->previous_id);
	copy_done(engine, copy);
}

/* ---- fork ---- */

static int fork_source(struct engine *engine, const struct sandbox_doc *d, const char *checkpoint,
		       const struct caller *c, char ret[ID_TEXT_MAX], struct err *e)
{
	const struct sandbox *s = sandbox_get(engine, d->sandboxId);

	if (checkpoint)
		return find_checkpoint(d, checkpoint, ret, e);
	snprintf(ret, ID_TEXT_MAX, "%.*s", ID_TEXT_MAX - 1, s ? s->process_id : d->processId);
	return s ? check_idle(s, c, e) : 0;
}

/* A sandbox with the same request, which waits for its layers. */
static struct sandbox *fork_new(struct engine *engine, const struct sandbox_doc *d, const char *name,
				const struct caller *c, struct err *e)
{
	char id[ID_TEXT_MAX];
	json_t *request = json_loadb(d->request.text, d->request.len, 0, NULL);

	if (!request) {
		err_set(e, ERR_CORRUPT, "the request of the sandbox is unreadable");
		return NULL;
	}
	id_make(ID_KIND_SANDBOX, id);
	struct sandbox *s = sandbox_new(engine, id, c->uid);
	id_copy(s->name, name);
	s->by = requester_of(c);
	s->bound = d->bound;
	s->idle_ms = view_counted(d->idleMs);
	s->end_with_client = d->endsWithClient;
	s->connection = d->endsWithClient ? c->connection : 0;
	if (s->bound)
		id_copy(s->session_id, d->sessionId);
	if (sandbox_take_request(s, request, e) < 0) {
		sandbox_free(s);
		return NULL;
	}
	s->spec.request.group = NULL;
	return s;
}

void engine_fork_sandbox(struct engine *engine, const char *given, const char *checkpoint, const char *name,
			 const struct caller *c, engine_reply_fn fn, void *ctx)
{
	buf_auto struct buf text = BUF_INIT;
	char from[ID_TEXT_MAX];
	struct sandbox_doc d;
	struct err e = ERR_INIT;
	struct sandbox *s = NULL;

	if (sandbox_check_name(engine, name, c, &e) == 0 && read_source(engine, given, c, &text, &d, &e) == 0 &&
	    fork_source(engine, &d, checkpoint, c, from, &e) == 0)
		s = fork_new(engine, &d, name, c, &e);
	if (!s) {
		fn(ctx, &e, NULL, 0);
		return;
	}
	struct sandbox_copy *x = sandbox_copy_new(engine, COPY_FORK, s->id, c);
	id_copy(s->forked_from, d.sandboxId);
	if (checkpoint)
		memcpy(s->forked_checkpoint, from, sizeof s->forked_checkpoint);
	else
		id_copy(x->source_id, d.sandboxId);
	reply_copy(&s->create, c, fn, ctx);
	copy_begin(engine, x, from);
}

/* The reply to the start of its holder. */
static void on_fork_holder(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct copy_commit *k = ctx;
	struct sandbox_copy *x = sandbox_find_copy(k->engine, k->to);
	char id[ID_SIZE];

	if (e)
		sandbox_drop_copy(k->engine, k->to);
	if (x) {
		id_copy(id, x->sandbox_id);
		sandbox_copy_free(k->engine, x);
		sandbox_holder_replied(k->engine, id, e, json, len);
	}
	reply_context_free(k);
}

/* ---- the copy is made, or failed ---- */

/* The sandbox of a fork that has no layers to start with. */
static void fork_fail(struct sandbox *s, const struct err *e)
{
	struct pending_reply reply = s->create;

	s->create = (struct pending_reply){ 0 };
	sandbox_free(s);
	reply_err(&reply, e, NULL, 0);
}

void engine_on_copied(struct engine *engine, const char *to, const struct err *e)
{
	struct sandbox_copy *x = sandbox_find_copy(engine, to);
	struct sandbox *s = x ? sandbox_get(engine, x->sandbox_id) : NULL;
	struct err closed = ERR_INIT;

	if (!x) {
		sandbox_drop_copy(engine, to);
		return;
	}
	if (!e && (!s || s->reason || engine->stopping)) {
		err_set(&closed, ERR_STATE, "the sandbox was closed meanwhile");
		e = &closed;
	}
	x->source_id[0] = '\0'; /* commands may start again */
	if (e && x->kind == COPY_FORK) {
		sandbox_copy_fail(engine, x, e);
		if (s)
			fork_fail(s, e);
	} else if (e) {
		sandbox_copy_fail(engine, x, e);
	} else if (x->kind == COPY_CHECKPOINT) {
		record_checkpoint(s, x);
	} else {
		sandbox_start_holder(s, none_if_empty(s->session_id), x->to, &x->caller,
				     x->kind == COPY_FORK ? on_fork_holder : on_next_holder, commit_new(engine, x));
	}
}
