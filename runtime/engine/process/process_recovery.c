/*
 * Recovery after a restart of the runtime. A process that is live according to the log is adopted if the guard still
 * holds the same attempt that was committed, running or already exited; its output continues where the spool ends.
 * Otherwise it is lost. Pids are never compared, because the kernel reuses them. A process that the guard holds and
 * that is not live according to the log was never committed or has ended: it is abandoned.
 *
 * The gate of every adopted process is opened again. That is harmless: only a command that still waits there reads the
 * byte.
 *
 * The order is: adopt or collect as lost everything in the log, abandon the rest, record the lost ones, record
 * history.reconstructed, wait until all of that is durable, and only then free the lost processes and let the other
 * modules recover. Recovery itself can be interrupted: a process whose end was not recorded is still live in the log,
 * and the next runtime repeats the same steps.
 */

#include "runtime/engine/core/core.h"

#include "policy/rules.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/process/process_ports.h"
#include "runtime/engine/session/session.h"
#include "runtime/view/view.h"
#include "runtime/view/view_documents.h"
#include "runtime/view/view_task.h"

#define RECOVER_MAX 8192u /* above the limit of live processes (maxProcesses) */

struct recovery {
	struct engine *engine;
	const struct recovery_ports *ports;
	const struct port_held *held;
	size_t ndeferred;
	bool *claimed; /* by index in held: the log has this process */
	struct process **lost, **alive, **exited;
	size_t nlost, nalive, nexited;
	bool degraded; /* a part of the log could not be recovered */
};

/* ---- a process from its document (retention may have removed the event process.started) ---- */

static void copy_member(struct jval v, char *dst, size_t cap) { jval_str(v, dst, cap); }

static uint64_t limit_member(struct jval limits, const char *name)
{
	return jval_uint(jval_get(limits, name), LIMIT_NONE);
}

/* Streams that the document does not name count as ended, or the drain would wait for them. */
static void take_streams(struct process *p, struct jval refs)
{
	for (int i = 0; i < STREAM_COUNT; i++)
		p->streams[i].ended = true;
	for (struct jiter it = jiter_on(refs); jiter_next(&it);) {
		int i = stream_index(jval_get(it.value, "stream"));
		if (i < 0)
			continue;
		copy_member(jval_get(it.value, "outputRef"), p->streams[i].ref, sizeof p->streams[i].ref);
		p->streams[i].ended = false;
	}
}

static void take_owner(struct process *p, struct jval owner)
{
	char kind[32] = "";

	copy_member(jval_get(owner, "kind"), kind, sizeof kind);
	copy_member(jval_get(owner, "id"), p->owner_id, sizeof p->owner_id);
	p->owner = owner_kind_find(kind);
	p->engine->processes->hooks += p->owner == OWNER_HOOK;
	p->holder = p->owner == OWNER_SANDBOX;
	if (p->holder)
		id_copy(p->sandbox_id, p->owner_id);
}

/* The mode and home for which it was decided. A document of an earlier version has neither. */
static void take_decision(struct process *p, struct jval m)
{
	char name[32] = "";

	copy_member(jval_get(m, "permissionMode"), name, sizeof name);
	p->mode = permission_mode_find(name);
	if (jval_get(m, "home").type == JT_STRING)
		p->home = jval_strdup(jval_get(m, "home"));
}

/* The pauses of its task, which extend its wall limit. One that lasts is continued when the task is recovered. */
static int take_pauses(struct process *p, struct jval before_ms, struct err *e)
{
	const uint64_t before = jval_uint(before_ms, 0);
	uint64_t all;

	if (view_task_paused_ms(p->engine->o.store, p->task_id, engine_real(p->engine), &all, e) < 0)
		return -1;
	p->held_ns = all > before ? (all - before) * 1000000ull : 0;
	return 0;
}

/* Returns false if the process was never started. */
static bool take_document(struct process *p, struct jval m)
{
	const struct {
		const char *member;
		char *dst;
	} ids[] = {
		{ "sessionId", p->session_id }, { "threadId", p->thread_id },      { "turnId", p->turn_id },
		{ "taskId", p->task_id },       { "toolCallId", p->tool_call_id }, { "traceId", p->trace_id },
		{ "runId", p->run_id },         { "attemptId", p->attempt_id },    { "stepId", p->step_id },
		{ "jobId", p->job_id },         { "jobItemId", p->job_item_id },   { "subagentId", p->subagent_id },
		{ "sandboxId", p->sandbox_id },
	};
	struct jval limits = jval_get(m, "limits");
	char started[CLOCK_TEXT_MAX];

	if (jval_get(m, "startTime").type != JT_NUMBER)
		return false;
	for (size_t i = 0; i < countof(ids); i++)
		copy_member(jval_get(m, ids[i].member), ids[i].dst, ID_SIZE);
	p->uid = (uint32_t)jval_uint(jval_get(m, "uid"), 0);
	copy_member(jval_get(m, "startedAt"), started, sizeof started);
	(void)clock_parse(started, &p->started_real_us);
	take_owner(p, jval_get(m, "owner"));
	take_decision(p, m);
	copy_member(jval_get(m, "planHash"), p->plan_hash, sizeof p->plan_hash);
	p->profile = jval_strdup(jval_get(m, "sandboxProfile"));
	/* Which hooks apply after its end depends on them. */
	p->cwd = jval_strdup(jval_get(m, "cwd"));
	p->by = (struct requester){ .uid = p->uid, .role = ROLE_AGENT };
	p->of_operator = !jval_is_str(jval_get(jval_get(m, "startedBy"), "role"), role_name(ROLE_AGENT));
	p->pid = (int32_t)jval_int(jval_get(m, "pid"), 0);
	p->start_time = jval_uint(jval_get(m, "startTime"), 0);
	p->started_boot_ns = jval_uint(jval_get(m, "startedBootNs"), 0);
	p->attempt = (uint32_t)jval_uint(jval_get(m, "attempt"), 0);
	p->owns_turn = jval_bool(jval_get(m, "ownsTurn"), false);
	copy_member(jval_get(m, "within"), p->within, sizeof p->within);
	p->holder = p->owner == OWNER_SANDBOX;
	p->keep_tree = jval_bool(jval_get(m, "keepTree"), false);
	p->command_exited = p->command_exit_committed = jval_get(m, "commandExited").type == JT_OBJECT;
	p->stdin_pipe = jval_is_str(jval_get(m, "stdin"), "pipe");
	struct jval tty = jval_get(m, "tty");
	p->tty_rows = (uint32_t)jval_uint(jval_get(tty, "rows"), 0);
	p->tty_cols = (uint32_t)jval_uint(jval_get(tty, "cols"), 0);
	p->stderr_merge = jval_is_str(jval_get(m, "stderr"), "merge");
	p->end_with_client = jval_is_str(jval_get(m, "onDisconnect"), "terminate");
	process_ports_take(p, jval_get(m, "ports"));
	p->ports_missing = jval_get(m, "publish").type == JT_ARRAY && jval_get(m, "ports").type != JT_ARRAY;
	p->limits = (struct process_limits){
		.wall_ms = limit_member(limits, "wallMs"),
		.idle_ms = limit_member(limits, "idleMs"),
		.cpu_ms = limit_member(limits, "cpuMs"),
		.open_files = limit_member(limits, "openFiles"),
		.file_bytes = limit_member(limits, "fileBytes"),
		.output_bytes = limit_member(limits, "outputBytes"),
	};
	take_streams(p, jval_get(m, "outputRefs"));
	return true;
}

/*
 * Continues after the last byte that an event cites. Whether the stream is spilled is what the store says: the inline
 * limit of the configuration may have changed since, and release() deletes the spool files of streams that are not.
 */
static int cited_so_far(struct process *p, struct err *e)
{
	for (int i = 0; i < STREAM_COUNT; i++) {
		struct process_stream *s = &p->streams[i];
		struct view_output_brief o;

		if (!s->ref[0])
			continue;
		int r = view_output_brief(p->engine->o.store, VIEW_ANY_UID, s->ref, &o, e);
		if (r < 0)
			return -1;
		s->cited = s->size = r == 0 ? o.bytes : 0;
		s->spilled = r == 0 && o.spilled;
		s->summed = s->spilled ? process_output_kept(p, s->cited) : 0;
	}
	return 0;
}

/*
 * A start that was lost with its spawner is attempted again under the same id; only the attempt that was committed may
 * be adopted.
 */
static const struct port_held *held_of(struct recovery *r, const struct process *p)
{
	for (size_t i = 0; i < r->ndeferred; i++)
		/* A member has no pidfd of its own in the guard: that it was committed proves that it was started. */
		if ((r->held[i].started || p->within[0]) && r->held[i].attempt == p->attempt &&
		    strcmp(r->held[i].id, p->id) == 0) {
			r->claimed[i] = true;
			return &r->held[i];
		}
	return NULL;
}

static void port_streams_of(const struct process *p, struct port_streams *ret)
{
	*ret = (struct port_streams){ .uid = p->uid,
				      .limit = p->limits.output_bytes == LIMIT_NONE ? 0 : p->limits.output_bytes };
	ret->within = p->within[0] ? p->within : NULL;
	ret->pid = p->pid;
	ret->holder = p->holder;
	for (int i = 0; i < STREAM_COUNT; i++)
		memcpy(ret->ref[i], p->streams[i].ref, sizeof ret->ref[i]);
}

static void take_sizes(struct process *p, const uint64_t size[STREAM_COUNT])
{
	for (int i = 0; i < STREAM_COUNT; i++)
		if (size[i] > p->streams[i].size)
			p->streams[i].size = size[i];
}

static void adopt_process(struct recovery *r, struct process *p, const struct port_held *h)
{
	struct engine *engine = r->engine;
	uint64_t size[STREAM_COUNT] = { 0 };
	struct port_streams streams;

	port_streams_of(p, &streams);
	r->ports->adopt(engine->o.host, h, &streams, size);
	take_sizes(p, size);
	for (int i = 0; i < STREAM_COUNT; i++)
		p->streams[i].ended |= p->streams[i].ref[0] && (h->closed & 1u << i);
	/*
	 * It may still wait at the gate, which is opened below. Nothing of EXECING is left to do, because the client
	 * that waited for the reply to the start has lost its connection.
	 */
	p->state = PROCESS_RUNNING;
	p->committed = p->ready = p->execed = true;
	engine->counts.started += !p->holder;
	p->hooks_after = !owner_is_internal(p->owner) && !p->holder; /* unknown after a restart: check at its end */
	p->violations_before = view_violation_count(engine->o.store, p->id);
	p->unwatched = !h->watched;
	/* The reader of violations began after the process, or is unavailable now: some may be missing. */
	p->violations_missed = h->watched &&
			       (!engine->o.violations || p->started_boot_ns < engine->o.violations_since_ns);
	p->last_output_ns = engine_now(engine);
	if (p->end_with_client)
		p->follow_deadline_ns = engine_now(engine) + PROCESS_FOLLOW_MS * 1000000ull;
	if (p->owns_turn)
		thread_claim(engine, p->thread_id, p->turn_id, p);
	if (p->owner && process_owner(engine, p->owner)->abandoned &&
	    process_owner(engine, p->owner)->abandoned(engine, p->owner_id))
		process_enforce_end(p, PROCESS_END_USER, NULL, SIGKILL, 0,
				    "the work that it was started for has ended");
	else if (p->ports_missing)
		process_enforce_end(p, PROCESS_END_USER, NULL, SIGKILL, 0,
				    "it did not run: the runtime died before its ports were published");
	else
		engine->o.ports->open_gate(engine->o.host, p->id);
	if (p->keep_tree && !p->command_exited)
		/* The command may have exited unnoticed; signal 0 makes the init report that again. */
		engine->o.ports->signal(engine->o.host, p->id, 0);
	process_ports_resume(p);
	process_output_due(p);
	engine_wake(engine, engine_now(engine)); /* computes the deadlines of its limits */
	if (h->exited)
		r->exited[r->nexited++] = p;
	else
		r->alive[r->nalive++] = p;
}

static bool recover_process(void *ctx, const char *id, const char *json, size_t len)
{
	struct recovery *r = ctx;
	struct process *p = process_new(r->engine, id);
	struct jval doc = jval_of(json, len);
	struct err e = ERR_INIT;

	if (!take_document(p, doc) || cited_so_far(p, &e) < 0) {
		log_error("recover %s: %s", id, e.code ? e.message : "its document does not say how it was started");
		r->degraded = true;
		process_free(p);
		return true;
	}
	/* It continues, but its wall limit ends it as if its task had not been paused. */
	if (take_pauses(p, jval_get(doc, "taskPausedMs"), &e) < 0) {
		log_error("recover %s: read the pauses of its task: %s", id, e.message);
		r->degraded = true;
	}
	p->stdin_closed = !p->stdin_pipe || jval_bool(jval_get(doc, "stdinClosed"), false);
	const struct port_held *h = held_of(r, p);
	if (r->nlost + r->nalive + r->nexited >= RECOVER_MAX) {
		r->degraded = true;
		process_free(p);
		return false;
	}
	if (h)
		adopt_process(r, p, h);
	else
		r->lost[r->nlost++] = p;
	return true;
}

/* ---- facts ---- */

static void write_lost_end(struct jw *w, const void *process, size_t n)
{
	jw_key(w, "outputs");
	process_outputs_json(process, w);
	process_autorun_member(process, w);
	process_holder_member(process, w);
}

static void lost_facts(struct recovery *r, struct process *p, struct transaction *tx)
{
	uint64_t size[STREAM_COUNT] = { 0 };
	struct port_streams streams;

	port_streams_of(p, &streams);
	r->ports->salvage(r->engine->o.host, p->id, &streams, size);
	take_sizes(p, size);
	process_output_flush(p, tx);
	process_truncated_facts(p, tx);
	static const char why[] = "the guard that held the process is gone; what became of it cannot be proved";
	p->execed = true; /* not known; assume that the command ran */
	EMIT(process_failed, tx, process_scope(p), .envelope = { .status = "lost", .status_reason = why },
	     .category = "transport", .message = why, .status = "lost", .end = json_from_writer(write_lost_end, p, 0));
	process_session_end_facts(p, tx, "lost", "lost", "the process was lost");
	const struct process_outcome o = {
		.ran = true, .exit_code = -1, .status = "lost", .category = "lost", .message = "the process was lost"
	};
	if (p->owner)
		process_owner(p->engine, p->owner)->ended(p, &o, tx);
}

static void write_processes(struct jw *w, const void *processes, size_t n)
{
	struct process *const *list = processes;

	jw_arr(w);
	/* The lists are for people and bounded by the size of an event; the counts next to them are exact. */
	for (size_t i = 0; i < n && i < 200; i++) {
		jw_obj(w);
		jw_kstr(w, "processId", list[i]->id);
		jw_kint(w, "pid", list[i]->pid);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

static void list_outputs(struct jw *w, struct process *const *list, size_t n, size_t *shown)
{
	for (size_t i = 0; i < n; i++)
		for (int s = 0; s < STREAM_COUNT; s++) {
			const struct process_stream *stream = &list[i]->streams[s];
			if (!stream->ref[0] || !stream->size || (*shown)++ >= 400)
				continue;
			jw_obj(w);
			jw_kstr(w, "outputRef", stream->ref);
			jw_kuint(w, "durableBytes", stream->size);
			jw_obj_end(w);
		}
}

static void write_outputs(struct jw *w, const void *recovery, size_t n)
{
	const struct recovery *r = recovery;
	size_t shown = 0;

	jw_arr(w);
	list_outputs(w, r->alive, r->nalive, &shown);
	list_outputs(w, r->exited, r->nexited, &shown);
	list_outputs(w, r->lost, r->nlost, &shown);
	jw_arr_end(w);
}

/* Writes the array whose elements come from the RECONSTRUCTED row with this key. */
static void write_member(struct engine *engine, const char *key, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_arr(&w);
	for (const struct reconstructed_member *m = engine->modules->reconstructed; m->key; m++)
		if (strcmp(m->key, key) == 0)
			m->write(engine, &w);
	jw_arr_end(&w);
}

static void reconstructed_fact(struct recovery *r, struct transaction *tx, size_t aborted)
{
	struct engine *engine = r->engine;
	const struct scope s = { .uid = engine->o.owner_uid,
				 .session = engine->system_session,
				 .thread = engine->system_thread };
	buf_auto struct buf actions = BUF_INIT, turns = BUF_INIT;

	write_member(engine, "openActions", &actions);
	write_member(engine, "queuedTurns", &turns);
	EMIT(history_reconstructed, tx, s, .bootId = engine->boot_id,
	     .alive = json_from_writer(write_processes, r->alive, r->nalive),
	     .exited = json_from_writer(write_processes, r->exited, r->nexited),
	     .lost = json_from_writer(write_processes, r->lost, r->nlost), .aliveCount = opt_int(r->nalive),
	     .exitedCount = opt_int(r->nexited), .lostCount = opt_int(r->nlost), .aborted = aborted,
	     .outputs = json_from_writer(write_outputs, r, 0), .openActions = json_from_buf(&actions),
	     .queuedTurns = json_from_buf(&turns), .degraded = r->degraded);
}

static void on_recorded(void *ctx, const struct store_result *r)
{
	int *status = ctx;

	if (r->status < 0) {
		log_error("record the recovery: %s", r->err->message);
		*status = -1;
	}
}

static int find_system_session(struct engine *engine, struct err *e)
{
	int r = view_system_ids(engine->o.store, engine->system_session, engine->system_thread, engine->system_turn, e);

	if (r <= 0)
		return r;
	struct transaction *tx = transaction_new_internal(engine);
	int status = 0;
	session_system_facts(engine, tx);
	transaction_commit_then(tx, 0, on_recorded, &status);
	/* Returns after on_recorded has run, which writes to this stack frame. */
	store_flush(engine->o.store);
	return status < 0 ? err_set(e, ERR_UNAVAILABLE, "the system session cannot be recorded") : 1;
}

static void release_lost(struct process *p)
{
	struct engine *engine = p->engine;

	engine->o.ports->release(engine->o.host, p->id, process_unspilled(p));
	process_free(p);
}

/* Returns the number of interrupted starts. Processes whose end is recorded were only not released yet. */
static size_t abandon_the_rest(struct recovery *r)
{
	struct engine *engine = r->engine;
	size_t n = 0;

	for (size_t i = 0; i < r->ndeferred; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct process_doc d;
		struct err e = ERR_INIT;

		if (r->claimed[i])
			continue;
		n += view_read(engine->o.store, &process_schema, r->held[i].id, &text, &d, &e) != 0 ||
		     !process_doc_ended(&d);
		r->ports->abandon(engine->o.host, &r->held[i]);
	}
	return n;
}

int engine_recover(struct engine *engine, const struct recovery_ports *ports, const struct port_held *held,
		   size_t ndeferred, struct err *e)
{
	struct recovery r = { .engine = engine, .ports = ports, .held = held, .ndeferred = ndeferred };
	int status = 0, fresh = find_system_session(engine, e);

	if (fresh < 0)
		return err_wrap(e, "recover");
	modules_run(engine, engine->modules->before_recovery);
	r.claimed = mem_zalloc(ndeferred + 1, sizeof *r.claimed);
	r.lost = mem_zalloc(RECOVER_MAX, sizeof(struct process *));
	r.alive = mem_zalloc(RECOVER_MAX, sizeof(struct process *));
	r.exited = mem_zalloc(RECOVER_MAX, sizeof(struct process *));
	if (view_live_processes(engine->o.store, recover_process, &r, e) < 0)
		status = err_wrap(e, "recover");
	size_t aborted = status == 0 ? abandon_the_rest(&r) : 0;
	for (size_t i = 0; status == 0 && i < r.nlost; i++) {
		struct transaction *tx = transaction_new_internal(engine);
		lost_facts(&r, r.lost[i], tx);
		transaction_commit_then(tx, STORE_MUST, on_recorded, &status);
	}
	if (status == 0 && !fresh) {
		struct transaction *tx = transaction_new_internal(engine);
		reconstructed_fact(&r, tx, aborted);
		transaction_commit_then(tx, STORE_MUST, on_recorded, &status);
	}
	store_flush(engine->o.store); /* all callbacks have run: they refer to `status` and to the lost processes */
	for (size_t i = 0; i < r.nlost; i++)
		release_lost(r.lost[i]);
	if (status == 0)
		modules_run(engine, engine->modules->recover);
	free(r.claimed);
	free(r.lost);
	free(r.alive);
	free(r.exited);
	return status < 0 && !e->code ? err_set(e, ERR_UNAVAILABLE, "the recovery cannot be recorded") : status;
}
