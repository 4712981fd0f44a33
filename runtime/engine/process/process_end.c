/*
 * Ends of processes. Each process has exactly one terminal event, in one commit with the rest of its output and the end
 * of its turn. It is written after the init has reported that it reaped the last process of the tree, or after the init
 * itself is dead. So the event proves that nothing of the command is running. Waiting clients get their reply only when
 * the init is dead.
 *
 * The type is `failed` if the command never ran, a limit ended it or the init was killed; `terminated` if bailiff was
 * asked to end it or it died of a signal that a client sent through bailiff; otherwise `completed`.
 */

#include "runtime/engine/core/core.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/process/process_ports.h"
#include "runtime/store/spool.h"
#include "runtime/view/view.h"
#include "sandbox/userns.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

static const char *const end_names[] = {
	[PROCESS_END_USER] = "user",         [PROCESS_END_CLIENT_GONE] = "client_gone",
	[PROCESS_END_SHUTDOWN] = "shutdown", [PROCESS_END_WALL] = "wall",
	[PROCESS_END_IDLE] = "idle",
};

/* ---- the terminal facts ---- */

/* Boot time: unaffected by clock changes, and valid across restarts of the runtime within one boot. */
static uint64_t duration_ms(const struct process *p)
{
	uint64_t now = engine_now(p->engine);

	return p->started_boot_ns && now > p->started_boot_ns ? (now - p->started_boot_ns) / 1000000 : 0;
}

/* Counters that only a cgroup has. */
static void counted_members(const struct tree_count *c, struct jw *w)
{
	if (c->known & TREE_COUNT_MEMORY)
		jw_kuint(w, "memoryPeakBytes", c->memory_peak);
	if (c->known & TREE_COUNT_PIDS)
		jw_kuint(w, "pidsPeak", c->pids_peak);
	if (c->known & TREE_COUNT_IO) {
		jw_kuint(w, "ioReadBytes", c->io_read);
		jw_kuint(w, "ioWriteBytes", c->io_write);
	}
	if (c->known & TREE_COUNT_THROTTLE && c->throttled_periods) {
		jw_kuint(w, "throttledMs", c->throttled_us / 1000);
		jw_kuint(w, "throttledPeriods", c->throttled_periods);
	}
	if (c->known & TREE_COUNT_HIGH && c->high_events)
		jw_kuint(w, "memoryHighEvents", c->high_events);
}

/* `source` names the origin of the CPU time: rusage does not include children that were never waited for. */
static void usage_member(const struct process *p, struct jw *w)
{
	const struct status_msg *m = &p->last;
	bool cgroup = m->count.known & TREE_COUNT_CPU;

	if (!p->has_last || m->kind != STATUS_EXITED)
		return;
	jw_kobj(w, "usage");
	jw_kstr(w, "source", cgroup ? "cgroup" : "rusage");
	jw_kuint(w, "maxRssBytes", m->max_rss_bytes);
	jw_kuint(w, "userMs", (cgroup ? m->count.user_us : m->user_us) / 1000);
	jw_kuint(w, "systemMs", (cgroup ? m->count.system_us : m->system_us) / 1000);
	counted_members(&m->count, w);
	jw_kuint(w, "minorFaults", m->minor_faults);
	jw_kuint(w, "majorFaults", m->major_faults);
	jw_kuint(w, "inBlocks", m->in_blocks);
	jw_kuint(w, "outBlocks", m->out_blocks);
	jw_kuint(w, "voluntarySwitches", m->voluntary_switches);
	jw_kuint(w, "involuntarySwitches", m->involuntary_switches);
	jw_obj_end(w);
}

static void wait_status_members(int status, struct jw *w)
{
	if (WIFEXITED(status))
		jw_kint(w, "exitCode", WEXITSTATUS(status));
	else if (WIFSIGNALED(status))
		jw_kstr(w, "signal", text_signal_name(WTERMSIG(status)));
}

static void write_process_outputs(struct jw *w, const void *process, size_t n) { process_outputs_json(process, w); }

/* What ends is no command, but holds a session sandbox. */
void process_holder_member(const struct process *p, struct jw *w)
{
	if (!p->holder)
		return;
	jw_kobj(w, "owner");
	jw_kstr(w, "kind", owner_kind_name(p->owner));
	jw_kstr(w, "id", p->owner_id);
	jw_obj_end(w);
}

static void write_end(struct jw *w, const void *process, size_t n)
{
	const struct process *p = process;

	if (p->has_last && p->last.kind == STATUS_EXITED)
		wait_status_members(p->last.wait_status, w);
	jw_kuint(w, "durationMs", p->duration_ms);
	usage_member(p, w);
	jw_key(w, "outputs");
	process_outputs_json(p, w);
	if (p->drain_cut)
		jw_kbool(w, "drainTimedOut", true);
	/* Also if the command succeeded: a build may have lost a worker to the limit and worked around it. */
	if (p->has_last && (p->last.oom_kills || p->last.pids_refused || p->last.tmp_full)) {
		jw_kobj(w, "limitsHit");
		jw_kuint(w, "memory", p->last.oom_kills);
		jw_kuint(w, "pids", p->last.pids_refused);
		jw_kuint(w, "tmp", p->last.tmp_full);
		jw_obj_end(w);
	}
	process_violations_members(p, w);
	process_network_members(p, w);
	process_autorun_member(p, w);
	process_holder_member(p, w);
}

void process_truncated_facts(struct process *p, struct transaction *tx)
{
	uint64_t limit = p->limits.output_bytes == LIMIT_NONE ? 0 : p->limits.output_bytes;

	for (int i = 0; i < STREAM_COUNT; i++) {
		struct process_stream *s = &p->streams[i];
		uint64_t from = 0, to = 0;
		int fd;

		if (!s->ref[0] || !s->spilled)
			continue;
		spool_hole(s->size, limit, &from, &to);
		if (to <= from)
			to = s->summed; /* nothing was dropped: checksum the rest */
		fd = p->engine->o.ports->output_fd(p->engine->o.host, p->id, i);
		if (fd >= 0 && s->size > to)
			transaction_add_spool(tx, s->ref, fd, to, s->size - to);
		spool_hole(s->size, limit, &from, &to);
		if (to <= from)
			continue;
		struct scope scope = process_scope(p);
		scope.output = s->ref;
		EMIT(output_truncated, tx, scope, .outputRef = s->ref, .stream = stream_name(i), .bytes = s->size,
		     .omittedBytes = to - from, .omittedFrom = from, .omittedTo = to, .limit = limit,
		     .reason = "output_limit");
	}
}

/* The outcome of a process as the terminal event and the end of its turn record it. */
struct ending {
	enum event_type type;
	const char *status;   /* envelope */
	const char *category; /* process.failed */
	const char *stage, *limit;
	int error;
	char message[ERR_MESSAGE_MAX];
	const char *turn_status, *turn_category; /* NULL category = completed */
};

/* The list of the sandbox that names the path, if it is missing; else NULL. */
static const char *missing_root_list(const struct process *p)
{
	static const char *const lists[] = { "writeRoots", "readRoots" };

	if (p->last.step != STEP_TREES || p->last.error != ENOENT || !p->sandbox_json)
		return NULL;
	const struct jval made = jval_of(p->sandbox_json, strlen(p->sandbox_json));
	for (size_t i = 0; i < countof(lists); i++)
		if (process_path_depth(p->last.path, jval_get(made, lists[i])) == strlen(p->last.path))
			return lists[i];
	return NULL;
}

static void ending_failed_step(const struct process *p, struct ending *r)
{
	/* A missing working directory already fails when its tree is mounted. Report it as the cwd step, which is what
	 * the caller can correct. */
	bool is_cwd = p->last.step == STEP_TREES && p->cwd &&
		      strncmp(p->last.path, p->cwd, sizeof p->last.path - 1) == 0;
	uint32_t at = is_cwd ? STEP_CWD : p->last.step;
	bool spawn = at == STEP_CLONE || at == STEP_CWD || at == STEP_EXEC;

	r->type = EVENT_PROCESS_FAILED;
	r->status = r->turn_status = "failed";
	r->category = r->turn_category = spawn ? "spawn" : "sandbox";
	r->stage = sandbox_step_name(at);
	r->error = p->last.error;
	const struct userns_text *userns = userns_text_of_path(p->last.path);
	const char *missing = is_cwd ? NULL : missing_root_list(p);
	if (userns) {
		r->category = r->turn_category = "sandbox";
		snprintf(r->message, sizeof r->message, "%s: %s; %s", r->stage, userns->cause, userns->fix);
	} else if (p->refusal) {
		snprintf(r->message, sizeof r->message, "%s", p->refusal);
	} else if (p->within[0] && at == STEP_CLONE && p->last.error == ECONNRESET) {
		r->category = r->turn_category = "sandbox";
		snprintf(r->message, sizeof r->message, "its session sandbox ended before it was started there");
	} else if (missing) {
		snprintf(r->message, sizeof r->message,
			 "%s: sandbox.%s: '%s' does not exist: create it before the process starts, or leave it out "
			 "(--%s)",
			 r->stage, missing, p->last.path, strcmp(missing, "writeRoots") == 0 ? "rw" : "ro");
	} else if (p->last.path[0] && !p->last.error) {
		snprintf(r->message, sizeof r->message, "%s: %s", r->stage, p->last.path);
	} else if (p->last.path[0]) {
		snprintf(r->message, sizeof r->message, "%s: %s: %s", r->stage, p->last.path, strerror(p->last.error));
	} else {
		snprintf(r->message, sizeof r->message, "%s: %s", r->stage, strerror(p->last.error));
	}
}

static void ending_limit(struct ending *r, const char *limit, uint64_t value)
{
	r->type = EVENT_PROCESS_FAILED;
	r->status = r->turn_status = "timed_out";
	r->category = r->turn_category = "timeout";
	r->limit = limit;
	snprintf(r->message, sizeof r->message, "the %s time limit of %llu ms was reached", limit,
		 (unsigned long long)value);
}

/* Died of the signal, or exited with the status 128 + signal that a shell returns for its command. */
static bool ended_by(const struct status_msg *m, int sig)
{
	return WIFSIGNALED(m->wait_status) ? WTERMSIG(m->wait_status) == sig : WEXITSTATUS(m->wait_status) == 128 + sig;
}

/* If the command failed and a resource limit had an effect on its tree, reports the limit as the reason. */
static bool ending_resource(const struct process *p, int sig, struct ending *r)
{
	const struct status_msg *m = &p->last;

	if (!sig && WEXITSTATUS(m->wait_status) == 0)
		return false;
	if (m->oom_kills) {
		r->limit = "memory";
		snprintf(r->message, sizeof r->message,
			 "the memory limit was reached: the kernel killed %llu of its processes",
			 (unsigned long long)m->oom_kills);
	} else if (m->pids_refused) {
		r->limit = "pids";
		snprintf(r->message, sizeof r->message, "the limit on processes was reached: %llu more were refused",
			 (unsigned long long)m->pids_refused);
	} else if (ended_by(m, SIGXFSZ) && p->limits.file_bytes != LIMIT_NONE) {
		r->limit = "fileBytes";
		snprintf(r->message, sizeof r->message, "a file would have grown past the limit of %llu bytes",
			 (unsigned long long)p->limits.file_bytes);
	} else if (m->tmp_full) {
		r->limit = "tmpBytes";
		snprintf(r->message, sizeof r->message,
			 "the private /tmp was full in the end; a larger one is --tmp-size, or sandbox.tmpBytes");
	} else {
		return false;
	}
	r->type = EVENT_PROCESS_FAILED;
	r->status = r->turn_status = "failed";
	r->category = r->turn_category = "sandbox";
	return true;
}

/* Whether a client has sent this signal; 0 = none. */
static bool was_sent(const struct process *p, int sig) { return sig && (p->sent_signals >> (sig - 1) & 1); }

static void ending_terminated(const struct process *p, struct ending *r)
{
	r->type = EVENT_PROCESS_TERMINATED;
	r->status = "terminated";
	r->turn_status = r->turn_category = "cancelled";
	snprintf(r->message, sizeof r->message, "the process was ended: %s",
		 p->end_reason ? p->end_reason : "by a signal");
}

static void ending_completed(int wait_status, struct ending *r)
{
	r->type = EVENT_PROCESS_COMPLETED;
	r->status = "completed";
	r->turn_status = "completed";
	if (wait_status == 0)
		return;
	r->turn_status = "failed";
	r->turn_category = "exit";
	if (WIFSIGNALED(wait_status))
		snprintf(r->message, sizeof r->message, "killed by signal %s", text_signal_name(WTERMSIG(wait_status)));
	else
		snprintf(r->message, sizeof r->message, "exit code %d", WEXITSTATUS(wait_status));
}

static void ending_by_sandbox(struct ending *r)
{
	r->type = EVENT_PROCESS_FAILED;
	r->status = r->turn_status = "failed";
	r->category = r->turn_category = "sandbox";
}

/*
 * Derives the outcome from what is known about the end. The order of the checks is their precedence. A failed step and
 * a missing layer come first: the command never ran. A limit comes before a request, and both before the wait status,
 * since a command may handle the signal and exit with 0. Resource limits are only an explanation for a failure that has
 * no other cause.
 *
 * Called again for each reply, so it depends only on the process, which no longer changes.
 */
static void ending_of(const struct process *p, struct ending *r)
{
	bool exited = p->has_last && p->last.kind == STATUS_EXITED;
	int sig = exited && WIFSIGNALED(p->last.wait_status) ? WTERMSIG(p->last.wait_status) : 0;
	char why[STATUS_CAUSE_TEXT];

	*r = (struct ending){ 0 };
	if (p->has_last && p->last.kind == STATUS_FAILED) {
		ending_failed_step(p, r);
	} else if (p->layer_mismatch) {
		ending_by_sandbox(r);
		snprintf(r->message, sizeof r->message, "the sandbox lacks a layer that had been recorded: %s",
			 profile_layer_name((unsigned)__builtin_ctz(p->layer_mismatch)));
	} else if (p->ports_failure) {
		ending_by_sandbox(r);
		snprintf(r->message, sizeof r->message, "%s", p->ports_failure->message);
	} else if (exited && p->last.cause == STATUS_CAUSE_CPU) {
		ending_limit(r, "cpu", p->limits.cpu_ms);
	} else if (p->end == PROCESS_END_WALL) {
		ending_limit(r, "wall", p->limits.wall_ms);
	} else if (p->end == PROCESS_END_IDLE) {
		ending_limit(r, "idle", p->limits.idle_ms);
	} else if (p->end != PROCESS_END_NONE || was_sent(p, sig)) {
		ending_terminated(p, r);
	} else if (exited && p->last.cause == STATUS_CAUSE_LEADER && p->last.oom_kills) {
		(void)ending_resource(p, sig, r); /* the kernel has probably killed the leader */
	} else if (exited && status_cause_text(&p->last, why)) {
		ending_by_sandbox(r);
		snprintf(r->message, sizeof r->message, "%s", why);
	} else if (!exited) {
		ending_by_sandbox(r);
		/* A command can lower its own oom_score_adj, so that the OOM killer picks the init. Only the init could
		 * have reported that. */
		snprintf(r->message, sizeof r->message,
			 "the sandbox's init was killed from outside%s; how the command ended is not known",
			 p->limits.tree.value[PLAN_LIMIT_MEMORY]
				 ? ", or by the kernel because the memory limit was reached"
				 : "");
	} else if (!ending_resource(p, sig, r)) {
		ending_completed(p->last.wait_status, r);
	}
}

static void ending_fact(struct process *p, const struct ending *r, struct transaction *tx)
{
	const struct json_value end = json_from_writer(write_end, p, 0);
	const struct scope s = process_scope(p);

	if (r->type == EVENT_PROCESS_FAILED) {
		EMIT(process_failed, tx, s, .envelope = { .status = r->status, .status_reason = r->message },
		     .category = r->category, .stage = r->stage, .error = opt_int_if(r->error, r->error),
		     .errnoName = r->error ? strerrorname_np(r->error) : NULL, .limit = r->limit, .message = r->message,
		     .status = r->status, .end = end);
	} else if (r->type == EVENT_PROCESS_TERMINATED) {
		bool by_signal = p->end == PROCESS_END_NONE,
		     given = p->end == PROCESS_END_USER && p->end_reason && *p->end_reason;
		const char *cause = by_signal ? "user" : end_names[p->end];

		EMIT(process_terminated, tx, s, .envelope.status = r->status, .reason = given ? p->end_reason : cause,
		     .cause = cause, .requestedBy = json_requester(by_signal ? &p->signal_by : &p->end_by),
		     .treeEmpty = true, .status = r->status, .signal = p->has_last ? NULL : "KILL", .end = end,
		     .leftBehind = opt_int_if(p->has_last, p->last.left_behind));
	} else {
		EMIT(process_completed, tx, s, .envelope.status = r->status, .status = r->status, .end = end,
		     .leftBehind = p->last.left_behind);
	}
}

/* The error of start_process if the command never ran. */
static void start_error(const struct process *p, const struct ending *r, struct err *e, struct buf *data)
{
	struct jw w = jw_on(data);

	if (p->refusal) {
		err_because(e, ERR_UNAVAILABLE, REASON_NOT_ENFORCEABLE, "%s", p->refusal);
		snprintf(e->field, sizeof e->field, "%.*s", (int)strcspn(p->refusal, ":"), p->refusal);
		jw_kbool(&w, "retryable", false);
	} else if (p->ports_failure) {
		*e = *p->ports_failure;
	} else {
		const bool holder = p->owner == OWNER_SANDBOX;
		err_because(e, ERR_SANDBOX, p->launch_reason, holder ? "start %s: %s" : "start '%s': %s",
			    holder ? "the sandbox" : (p->display ? p->display : ""), r->message);
		if (userns_text_of_path(p->last.path))
			e->reason = REASON_NO_USER_NAMESPACES;
		jw_kbool(&w, "retryable", p->layer_mismatch != 0); /* the command did not run */
	}
	jw_kstr(&w, "processId", p->id);
	jw_kstr(&w, "processCategory", r->category ? r->category : "");
	jw_kopt(&w, "stage", r->stage);
	if (r->error) {
		jw_kint(&w, "errno", r->error);
		jw_kopt(&w, "errnoName", strerrorname_np(r->error));
	}
}

static void on_end_committed(void *ctx, const struct store_result *r)
{
	struct process *p = ctx;

	/* The command is gone whether or not that could be recorded, and its clients wait. If the event is missing, the
	 * next runtime finds a live process that the guard does not hold, and records it as lost. */
	if (r->status < 0)
		log_error("record the end of %s: %s", p->id, r->err->message);
	p->ended_sequence = r->last_sequence;
	p->end_committed = true;
	p->end_recorded = r->status >= 0;
	if (p->start.fn) {
		struct ending how;
		struct err e = ERR_INIT;
		buf_auto struct buf data = BUF_INIT;

		ending_of(p, &how);
		if (p->execed || (p->has_last && p->last.kind == STATUS_EXITED)) {
			process_answer_start(p);
		} else {
			start_error(p, &how, &e, &data);
			reply_err(&p->start, &e, data.data, data.len);
		}
	}
	process_event(p, PROCESS_EV_END_COMMITTED);
}

static struct process_outcome outcome_of(const struct ending *how, bool ran, int exit_code)
{
	return (struct process_outcome){
		.clean = !how->turn_category,
		.ran = ran,
		.exit_code = exit_code,
		.status = how->turn_status,
		.category = how->turn_category,
		.limit = how->limit,
		.message = how->message,
	};
}

static void add_owner_facts(struct process *p, const struct ending *how, struct transaction *tx)
{
	bool reported = p->has_last && p->last.kind == STATUS_EXITED;
	const struct process_outcome o = outcome_of(
		how, p->execed || reported,
		reported && WIFEXITED(p->last.wait_status) ? WEXITSTATUS(p->last.wait_status) : -1);

	if (p->owner)
		process_owner(p->engine, p->owner)->ended(p, &o, tx);
}

/* One batch with everything that the end implies. The order of the calls is the order of the events. */
void process_submit_end(struct process *p)
{
	struct transaction *tx = transaction_new_internal(p->engine);
	struct ending how;

	ending_of(p, &how);
	p->duration_ms = duration_ms(p);
	process_output_flush(p, tx);
	process_truncated_facts(p, tx);
	process_violations_flush(p, tx);
	process_hint_facts(p, tx);
	process_autorun_facts(p, tx);
	process_ports_end(p, tx);
	ending_fact(p, &how, tx);
	process_session_end_facts(p, tx, how.turn_status, how.turn_category, how.message);
	add_owner_facts(p, &how, tx);
	/* The command never ran: the start gets an error. It is stored here, so that a retry gets the same one. */
	if (p->start.fn && !p->execed && !(p->has_last && p->last.kind == STATUS_EXITED)) {
		struct err e = ERR_INIT;
		buf_auto struct buf data = BUF_INIT, record = BUF_INIT;

		start_error(p, &how, &e, &data);
		reply_error_record(&e, data.data, data.len, &record);
		transaction_store_reply(tx, &p->start, record.data, record.len);
	}
	transaction_commit_then(tx, STORE_MUST, on_end_committed, p);
}

/* ---- waiting clients ---- */

static void answer_terminated(struct process *p, struct buf *out)
{
	struct ending how;
	struct jw j = jw_on(out);

	ending_of(p, &how);
	jw_obj(&j);
	jw_kstr(&j, "processId", p->id);
	jw_kstr(&j, "status", p->ended_as ? p->ended_as : how.status);
	jw_kbool(&j, "treeEmpty", true);
	jw_kuint(&j, "sequence", p->ended_as ? store_last_sequence(p->engine->o.store) : p->ended_sequence);
	jw_obj_end(&j);
}

static int write_waited(struct store *s, uint32_t uid, const char *id, bool brief, bool timed_out, struct buf *out,
			struct err *e)
{
	return brief ? view_wait_brief(s, uid, id, out, e) : view_wait_result(s, uid, id, timed_out, out, e);
}

/*
 * The result of view_wait_brief for a command that completed. Its end is durable, so that the documents say the same;
 * reading them again would take longer than all else in the reply.
 */
static void write_completed(const struct process *p, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kstr(&w, "status", "completed");
	wait_status_members(p->last.wait_status, &w);
	jw_kuint(&w, "durationMs", p->duration_ms);
	jw_key(&w, "outputs");
	process_outputs_json(p, &w);
	jw_obj_end(&w);
}

static bool has_completed(const struct process *p)
{
	struct ending how;

	if (!p->end_recorded)
		return false;
	ending_of(p, &how);
	return how.type == EVENT_PROCESS_COMPLETED;
}

static void answer_waiter(struct process *p, struct process_waiter *w, bool timed_out)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	if (w->terminate)
		answer_terminated(p, &out);
	else if (w->brief && has_completed(p))
		write_completed(p, &out);
	else if (write_waited(p->engine->o.store, VIEW_ANY_UID, p->id, w->brief, timed_out, &out, &e) < 0) {
		reply_err(&w->reply, &e, NULL, 0);
		free(w);
		return;
	}
	/* Not waited for: until it is stored, a retry is answered from the document (engine_terminate_process). */
	if (w->terminate && w->reply.idem_key) {
		struct transaction *tx = transaction_new_internal(p->engine);
		transaction_store_reply(tx, &w->reply, out.data, out.len);
		transaction_commit_then(tx, 0, NULL, NULL);
	}
	reply_json(&w->reply, out.data, out.len);
	free(w);
}

void process_answer_waiters(struct process *p)
{
	struct process_waiter *w;

	while ((w = TAILQ_FIRST(&p->waiters))) {
		TAILQ_REMOVE(&p->waiters, w, link);
		answer_waiter(p, w, false);
	}
}

void process_waiters_expire(struct process *p, uint64_t now)
{
	struct process_waiter *w;

	do {
		TAILQ_FOREACH (w, &p->waiters, link)
			if (now >= w->deadline_ns)
				break;
		if (w) {
			TAILQ_REMOVE(&p->waiters, w, link);
			answer_waiter(p, w, true);
		}
	} while (w);
}

enum wait_kind { WAIT_TREE, WAIT_COMMAND, WAIT_BRIEFLY /* for the command, with a brief reply */ };

static void wait_for(struct engine *engine, const char *process_id, enum wait_kind kind, uint64_t timeout_ms,
		     const struct caller *c, engine_reply_fn fn, void *ctx)
{
	const bool command = kind != WAIT_TREE, brief = kind == WAIT_BRIEFLY;
	struct process *p = engine_process(engine, process_id);
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	/* Ended, or of another user: the document has the answer, and view_wait_result checks the uid. */
	if (!p || p->over || !process_is_controlled_by(p, c) || (command && p->command_exit_committed)) {
		int found = write_waited(engine->o.store, c->uid, process_id, brief, false, &out, &e);
		fn(ctx, found < 0 ? &e : NULL, out.data, out.len);
		return;
	}
	engine_client_follows(engine, process_id, c);
	struct process_waiter *w = mem_zalloc(1, sizeof *w);
	reply_copy(&w->reply, c, fn, ctx);
	w->command = command;
	w->brief = brief;
	w->deadline_ns = timeout_ms >= UINT64_MAX / 2000000 ? UINT64_MAX : engine_now(engine) + timeout_ms * 1000000ull;
	TAILQ_INSERT_TAIL(&p->waiters, w, link);
	if (w->deadline_ns != UINT64_MAX)
		engine_wake(engine, w->deadline_ns);
}

void engine_wait_process(struct engine *engine, const char *process_id, uint64_t timeout_ms, const struct caller *c,
			 engine_reply_fn fn, void *ctx)
{
	wait_for(engine, process_id, WAIT_TREE, timeout_ms, c, fn, ctx);
}

void engine_wait_command(struct engine *engine, const char *process_id, uint64_t timeout_ms, const struct caller *c,
			 engine_reply_fn fn, void *ctx)
{
	wait_for(engine, process_id, WAIT_COMMAND, timeout_ms, c, fn, ctx);
}

void engine_wait_briefly(struct engine *engine, const char *process_id, uint64_t timeout_ms, const struct caller *c,
			 engine_reply_fn fn, void *ctx)
{
	wait_for(engine, process_id, WAIT_BRIEFLY, timeout_ms, c, fn, ctx);
}

/* ---- commands that end before the rest of their tree (keepTree) ---- */

static void write_left(struct jw *w, const void *status, size_t n)
{
	const struct status_msg *m = status;

	jw_arr(w);
	for (size_t i = 0; i < STATUS_LEFT_MAX && m->left[i].pid; i++) {
		jw_obj(w);
		jw_kint(w, "pid", m->left[i].pid);
		jw_kstrn(w, "name", m->left[i].name, strnlen(m->left[i].name, sizeof m->left[i].name));
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

/* What waits for the command continues; the clients of wait_process wait for the rest. */
static void on_command_exit_durable(struct engine *engine, const char *id)
{
	struct process *p = engine_process(engine, id);
	struct process_waiter *w;

	if (!p)
		return;
	p->command_exit_committed = true;
	do {
		TAILQ_FOREACH (w, &p->waiters, link)
			if (w->command)
				break;
		if (w) {
			TAILQ_REMOVE(&p->waiters, w, link);
			answer_waiter(p, w, false);
		}
	} while (w);
}

void engine_on_command_exited(struct engine *engine, const char *id, const struct status_msg *m)
{
	struct process *p = engine_process(engine, id);
	const int status = m->wait_status;
	struct ending how = { 0 };

	/* If the process is being ended, that is how its command ended, too: its end follows. */
	if (!p || !p->keep_tree || p->command_exited || p->state != PROCESS_RUNNING || p->end != PROCESS_END_NONE)
		return;
	p->command_exited = true;
	struct transaction *tx = transaction_new_internal(engine);
	(void)process_output_flush(p, tx);
	(void)process_violations_flush(p, tx);
	EMIT(process_command_exited, tx, process_scope(p),
	     .commandExited = JSON_OBJECT(command_end, .exitCode = opt_int_if(WIFEXITED(status), WEXITSTATUS(status)),
					  .signal = WIFSIGNALED(status) ? text_signal_name(WTERMSIG(status)) : NULL,
					  .durationMs = duration_ms(p),
					  .runningCount = opt_int_if(m->left_behind, m->left_behind),
					  .running = json_from_writer(write_left, m, 0)),
	     .outputs = json_from_writer(write_process_outputs, p, 0));
	if (was_sent(p, WIFSIGNALED(status) ? WTERMSIG(status) : 0))
		ending_terminated(p, &how);
	else
		ending_completed(status, &how);
	const struct process_outcome o = outcome_of(&how, true, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	const struct process_owner_ops *owner = p->owner && p->within[0] ? process_owner(engine, p->owner) : NULL;
	if (owner && owner->command_exited) {
		owner->command_exited(p, &o, tx);
		transaction_after_commit(tx, owner->over, p->owner_id);
	}
	transaction_after_commit(tx, on_command_exit_durable, p->id);
	transaction_commit(tx);
}
