/*
 * The end of session sandboxes. Its commands are ended first, gracefully, and the holder when the last of them is gone
 * or their time is up: the death of the holder kills everything that is left. The holder's end adds sandbox.closed
 * (sandbox.c), so a sandbox whose holder dies unexpectedly is recorded in the same way.
 */

#include "runtime/engine/sandbox/sandbox_private.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/id_list.h"
#include "runtime/view/view_documents.h"

#define CHECK_MS 100u        /* between looks for commands that are left */
#define AFTER_GRACE_MS 2000u /* for the ends of commands to be recorded, after the kill */
#define RUNNING_LISTED 200u

/* ---- its commands ---- */

struct member_list {
	const struct sandbox *sandbox;
	struct view_ids ids;
	size_t commands; /* those that have not exited; the others have left processes in the sandbox */
};

static void collect_member(void *ctx, const char *id, void *value)
{
	struct member_list *l = ctx;
	const struct process *p = value;

	if (p->holder || strcmp(p->sandbox_id, l->sandbox->id) != 0 || p->over)
		return;
	l->ids.id = mem_realloc(l->ids.id, (l->ids.n + 1) * sizeof *l->ids.id);
	id_copy(l->ids.id[l->ids.n++], id);
	l->commands += !p->command_exited;
}

static void list_members(const struct sandbox *s, struct member_list *ret)
{
	*ret = (struct member_list){ .sandbox = s };
	strmap_each(&s->engine->processes->live, collect_member, ret);
}

void sandbox_members(const struct sandbox *s, struct view_ids *ret)
{
	struct member_list l;

	list_members(s, &l);
	*ret = l.ids;
}

static bool has_members(const struct sandbox *s)
{
	struct member_list l;

	list_members(s, &l);
	bool any = l.ids.n > 0;
	view_ids_done(&l.ids);
	return any;
}

static bool has_commands(const struct sandbox *s)
{
	struct member_list l;

	list_members(s, &l);
	view_ids_done(&l.ids);
	return l.commands > 0;
}

static char *running_json(const struct sandbox *s, const struct view_ids *ids)
{
	struct buf text = BUF_INIT;
	struct jw w = jw_on(&text);

	jw_arr(&w);
	for (size_t i = 0; i < ids->n && i < RUNNING_LISTED; i++) {
		const struct process *p = engine_process(s->engine, ids->id[i]);

		jw_obj(&w);
		jw_kstr(&w, "processId", ids->id[i]);
		if (p && p->display)
			jw_kstrn(&w, "command", p->display, text_utf8_cut(p->display, strnlen(p->display, 200)));
		jw_obj_end(&w);
	}
	jw_arr_end(&w);
	return buf_take(&text);
}

/* ---- ending ---- */

static bool is_shutdown(const struct sandbox *s) { return strcmp(s->reason, "shutdown") == 0; }

static void end_process(struct sandbox *s, struct process *p, uint64_t grace_ms)
{
	process_enforce_end(p, is_shutdown(s) ? PROCESS_END_SHUTDOWN : PROCESS_END_USER,
			    s->by_client ? &s->closed_by : NULL, process_stop_signal(p), grace_ms,
			    is_shutdown(s) ? "the daemon is stopping" : "its sandbox is closed");
}

/* There is nothing to be graceful with: the holder runs no command. */
void sandbox_end_holder(struct sandbox *s)
{
	struct process *p = engine_process(s->engine, s->process_id);

	if (p && p->end == PROCESS_END_NONE)
		end_process(s, p, 0);
}

static void mark_ended(struct sandbox *s, const char *reason, const struct requester *by,
		       const struct view_ids *running)
{
	s->reason = reason;
	s->by_client = by != NULL;
	if (by)
		s->closed_by = *by;
	s->running = running_json(s, running);
}

void sandbox_mark_ended(struct sandbox *s, const char *reason, const struct requester *by)
{
	struct member_list l;

	list_members(s, &l);
	mark_ended(s, reason, by, &l.ids);
	view_ids_done(&l.ids);
}

void sandbox_end(struct sandbox *s, const char *reason, const struct requester *by)
{
	struct engine *engine = s->engine;
	struct member_list l;

	if (s->reason)
		return;
	list_members(s, &l);
	mark_ended(s, reason, by, &l.ids);
	for (size_t i = 0; i < l.ids.n; i++) {
		struct process *p = engine_process(engine, l.ids.id[i]);

		if (p)
			end_process(s, p, engine->o.stop_grace_ms);
	}
	view_ids_done(&l.ids);
	uint64_t now = engine_now(engine);
	s->holder_end_at_ns = now + (engine->o.stop_grace_ms + AFTER_GRACE_MS) * 1000000ull;
	if (has_members(s))
		engine_wake(engine, now + CHECK_MS * 1000000ull);
	else
		sandbox_end_holder(s);
}

void sandbox_result(const struct sandbox *s, uint64_t sequence, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kstr(&w, "sandboxId", s->id);
	jw_kstr(&w, "status", "closed");
	jw_kopt(&w, "reason", s->reason);
	if (s->running)
		jw_kraw(&w, "running", s->running, strlen(s->running));
	if (s->spec.request.change.cow)
		jw_kbool(&w, "cow", true);
	if (sequence)
		jw_kuint(&w, "sequence", sequence);
	jw_obj_end(&w);
}

void engine_close_sandbox(struct engine *engine, const char *given, const struct caller *c, engine_reply_fn fn,
			  void *ctx)
{
	const struct requester by = requester_of(c);
	struct err e = ERR_INIT;
	struct sandbox *s = sandbox_find(engine, given, c, &e);

	/* Without a holder there is no end that a reply could wait for. */
	if (s && !s->created)
		err_at(&e, ERR_STATE, "sandboxId", "sandbox '%s' is being created: try again when that is done", given);
	if (!s || !s->created) {
		fn(ctx, &e, NULL, 0);
		return;
	}
	struct close_waiter *w = mem_zalloc(1, sizeof *w);
	reply_copy(&w->reply, c, fn, ctx);
	TAILQ_INSERT_TAIL(&s->waiters, w, link);
	sandbox_end(s, "closed", &by);
}

static uint64_t idle_deadline(const struct sandbox *s)
{
	/* After a restart of the runtime its client must use it again, which binds it to the new connection. */
	bool unclaimed = s->end_with_client && !s->connection;
	uint64_t ms = unclaimed && (!s->idle_ms || s->idle_ms > PROCESS_FOLLOW_MS) ? PROCESS_FOLLOW_MS : s->idle_ms;

	return s->ready && !s->reason && ms && ms < UINT64_MAX / 2000000 ? s->idle_since_ns + ms * 1000000ull
									 : UINT64_MAX;
}

void sandbox_wake(const struct sandbox *s)
{
	if (idle_deadline(s) != UINT64_MAX)
		engine_wake(s->engine, idle_deadline(s));
}

void sandbox_on_process_over(struct engine *engine, const struct process_over *x)
{
	struct sandbox *s = x->sandbox_id[0] ? sandbox_get(engine, x->sandbox_id) : NULL;

	if (!s || x->owner == OWNER_SANDBOX)
		return;
	s->idle_since_ns = engine_now(engine);
	if (s->reason && !has_members(s))
		sandbox_end_holder(s);
	else
		sandbox_wake(s);
}

void sandbox_on_command_exited(struct transaction *tx, const struct scope *s, const struct process_command_exited *p)
{
	const struct process *process = engine_process(tx->engine, s->process);
	struct sandbox *sandbox = process ? sandbox_get(tx->engine, process->sandbox_id) : NULL;

	if (sandbox)
		sandbox->idle_since_ns = engine_now(tx->engine);
}

/* The next start must not wait for the end of the holder to be recorded. */
void sandbox_on_process_failed(struct transaction *tx, const struct scope *s, const struct process_failed *p)
{
	const struct process *process = engine_process(tx->engine, s->process);
	struct sandbox *sandbox = process ? sandbox_get(tx->engine, process->sandbox_id) : NULL;

	if (sandbox && process->launch_reason == REASON_SANDBOX_ENDED)
		sandbox->lost = true;
}

/* ---- deadlines ---- */

struct sandbox_visit {
	uint64_t now, next;
	const char *session_id;
	uint64_t connection;
};

static void check_deadline(void *ctx, const char *id, void *value)
{
	struct sandbox_visit *v = ctx;
	struct sandbox *s = value;
	uint64_t next;

	if (!s->reason && s->engine->stopping)
		sandbox_end(s, "shutdown", NULL);
	else if (!s->reason && v->now >= idle_deadline(s) && has_commands(s))
		s->idle_since_ns = v->now; /* the end of its last command restarts the period */
	else if (!s->reason && v->now >= idle_deadline(s))
		sandbox_end(s, "idle", NULL);
	next = idle_deadline(s);
	if (s->reason) {
		if (v->now >= s->holder_end_at_ns || !has_members(s))
			sandbox_end_holder(s);
		else
			next = v->now + CHECK_MS * 1000000ull;
	}
	v->next = next < v->next ? next : v->next;
}

uint64_t sandbox_tick(struct engine *engine, uint64_t now_ns)
{
	struct sandbox_visit v = { .now = now_ns, .next = UINT64_MAX };

	strmap_visit(&engine->sandboxes->open, check_deadline, &v);
	return v.next;
}

/* ---- its session and its client ---- */

static void end_bound(void *ctx, const char *id, void *value)
{
	const struct sandbox_visit *v = ctx;
	struct sandbox *s = value;

	if (s->bound && strcmp(s->session_id, v->session_id) == 0)
		sandbox_end(s, "session_ended", NULL);
}

static void end_session(struct engine *engine, const char *session_id)
{
	struct sandbox_visit v = { .session_id = session_id };

	strmap_visit(&engine->sandboxes->open, end_bound, &v);
}

static void end_connected(void *ctx, const char *id, void *value)
{
	const struct sandbox_visit *v = ctx;
	struct sandbox *s = value;

	if (s->connection == v->connection)
		sandbox_end(s, "session_ended", NULL);
}

void sandbox_client_disconnected(struct engine *engine, uint64_t connection)
{
	struct sandbox_visit v = { .connection = connection };

	strmap_visit(&engine->sandboxes->open, end_connected, &v);
}

void sandbox_on_session_updated(struct transaction *tx, const struct scope *s, const struct session_updated *p)
{
	if (p->archived == OPT_BOOL_TRUE)
		transaction_after_commit(tx, end_session, s->session);
}

/* ---- after a restart ---- */

static int load_sandbox(struct engine *engine, const char *id, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct sandbox_doc d;
	int r = view_read_speculative(engine->o.store, &sandbox_schema, id, &text, &d, e);

	if (r != 0)
		return r < 0 ? -1 : 0;
	json_t *request = json_loadb(d.request.text, d.request.len, 0, NULL);
	if (!request)
		return err_set(e, ERR_CORRUPT, "its request is unreadable");
	struct sandbox *s = sandbox_new(engine, id, (uint32_t)d.uid);
	jval_str(d.name, s->name, sizeof s->name);
	id_copy(s->session_id, d.sessionId);
	snprintf(s->process_id, sizeof s->process_id, "%.*s", (int)sizeof s->process_id - 1, d.processId);
	snprintf(s->hash, sizeof s->hash, "%.*s", (int)sizeof s->hash - 1, d.sandboxHash);
	sandbox_take_profile(s, d.sandboxProfile.text, d.sandboxProfile.len);
	s->idle_ms = view_counted(d.idleMs);
	s->bound = d.bound;
	s->end_with_client = d.endsWithClient;
	s->created = s->ready = true;
	if (sandbox_take_request(s, request, e) < 0) {
		sandbox_free(s);
		return -1;
	}
	return 0;
}

void sandbox_load(struct engine *engine)
{
	view_ids_auto struct view_ids open = VIEW_IDS_INIT;

	id_list_read(engine, VIEW_LIVE_SANDBOX, NULL, ID_LIST_ALL, &open);
	for (size_t i = 0; i < open.n; i++) {
		struct err e = ERR_INIT;

		if (load_sandbox(engine, open.id[i], &e) < 0)
			log_error("sandbox %s: %s", open.id[i], e.message);
	}
}

/* A session that cannot be read counts as archived. */
static bool session_is_archived(const struct sandbox *s)
{
	buf_auto struct buf text = BUF_INIT;
	struct session_doc d;
	struct err e = ERR_INIT;

	return view_read_speculative(s->engine->o.store, &session_schema, s->session_id, &text, &d, &e) != 0 ||
	       jval_bool(d.archived, false);
}

/* A holder that was lost has recorded the end of its sandbox; its process is gone without another report. */
static void drop_lost(void *ctx, const char *id, void *value)
{
	struct sandbox *s = value;

	if (!engine_process(s->engine, s->process_id))
		sandbox_free(s);
	else if (s->bound && session_is_archived(s))
		sandbox_end(s, "session_ended", NULL); /* the runtime died between the two */
	else
		sandbox_wake(s);
}

void sandbox_end_process(struct engine *engine, const char *id, const char *why)
{
	struct process *p = engine_process(engine, id);

	if (p && p->end == PROCESS_END_NONE)
		process_enforce_end(p, PROCESS_END_USER, NULL, process_stop_signal(p), 0, why);
}

/* A restore was interrupted: the sandbox has another holder. */
static void end_stray(void *ctx, const char *id, void *value)
{
	const struct process *p = value;
	const struct sandbox *s = p->holder ? sandbox_get(p->engine, p->owner_id) : NULL;

	if (p->holder && (!s || strcmp(s->process_id, p->id) != 0))
		sandbox_end_process(p->engine, p->id, "its sandbox has another holder");
}

void sandbox_recover(struct engine *engine)
{
	strmap_visit(&engine->sandboxes->open, drop_lost, NULL);
	strmap_visit(&engine->processes->live, end_stray, NULL);
}
