/*
 * The state machine of processes: one function for each transition. An empty cell of the [state][event] table is an
 * event that arrives too late, because the process has already moved on; it is ignored.
 *
 * The host and the store report independently of each other: the init may be ready before or after its start is
 * reported, and may die in every state. What a report says is therefore stored in the process first (pid, ready, gone,
 * last). A transition checks everything that it needs and does nothing if something is missing; the event that supplies
 * it calls the same code again.
 */

#include "runtime/engine/core/core.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/process/process_ports.h"
#include "runtime/engine/session/session.h"

#include <errno.h>
#include <signal.h>

typedef void (*transition_fn)(struct process *p);

/*
 * The command runs only after both: its start facts are durable, and the sandbox is ready. If the sandbox lacks a
 * layer that the facts name (layer_mismatch), the init is killed instead: the command must not run with less protection
 * than recorded. The same if a port that it was to have cannot be published, or if its end was requested meanwhile: a
 * lease may be over, and another node may run it.
 */
static void process_pass_gate(struct process *p)
{
	struct engine *engine = p->engine;

	if (!p->committed || !p->ready || p->gone)
		return;
	const bool unwanted = p->layer_mismatch || p->end != PROCESS_END_NONE;
	int ports = unwanted ? 0 : process_ports_pass(p);
	if (ports > 0 || p->state == PROCESS_EXECING)
		return;
	p->state = PROCESS_EXECING;
	if (unwanted || ports < 0)
		engine->o.ports->kill(engine->o.host, p->id);
	else
		engine->o.ports->open_gate(engine->o.host, p->id);
}

/*
 * The start facts name the layers that the sandbox has. They depend only on the machine and the plan, so after the
 * first start of a kind they are known in advance, and the commit overlaps with the building of the sandbox.
 */
static struct known_layers *known_layers(const struct process *p)
{
	struct engine *engine = p->engine;

	for (size_t i = 0; i < engine->processes->nknown_layers; i++)
		if (engine->processes->known_layers[i].flags == p->plan_kind &&
		    engine->processes->known_layers[i].asked == p->plan_layers)
			return &engine->processes->known_layers[i];
	return NULL;
}

static void remember_layers(const struct process *p)
{
	struct engine *engine = p->engine;
	struct known_layers *known = known_layers(p);

	/* If the cache is full, starts of further kinds wait for READY each time; they are only slower. */
	if (!known && engine->processes->nknown_layers < countof(engine->processes->known_layers))
		known = &engine->processes->known_layers[engine->processes->nknown_layers++];
	if (known)
		*known = (struct known_layers){ p->plan_kind, p->plan_layers, p->layers };
}

/* The next start of this kind waits for READY. */
static void forget_layers(const struct process *p)
{
	struct engine *engine = p->engine;
	struct known_layers *known = known_layers(p);

	if (known)
		*known = engine->processes->known_layers[--engine->processes->nknown_layers];
}

static void launching_started(struct process *p)
{
	const struct known_layers *known = known_layers(p);

	if (!p->ready && !known)
		return; /* the start facts name the layers: the first start of this kind waits for READY to know them */
	p->layers = p->ready ? p->layers : known->reached;
	p->state = PROCESS_COMMITTING;
	process_submit_start(p);
}

static void launching_ready(struct process *p)
{
	remember_layers(p);
	if (p->pid)
		launching_started(p);
}

/* The init died before the start facts were submitted: submits them; the end follows when they are committed. */
static void launching_gone(struct process *p)
{
	p->state = PROCESS_COMMITTING;
	process_submit_start(p);
}

static void launching_failed(struct process *p)
{
	/* Two batches; the store commits them in this order. */
	process_submit_unstarted(p);
	p->state = PROCESS_ENDING;
	process_submit_end(p);
}

static void process_drain(struct process *p)
{
	struct engine *engine = p->engine;

	p->state = PROCESS_DRAINING;
	p->drain_until_ns = engine_now(engine) + PROCESS_DRAIN_MS * 1000000ull;
	engine_wake(engine, p->drain_until_ns);
	/* The terminal event has the number of violations, so it waits for reports that are still on the way. */
	p->settling = engine->o.ports->settle && engine->o.ports->settle(engine->o.host, p->id);
	p->settle_until_ns = engine_now(engine) + PROCESS_SETTLE_MS * 1000000ull;
	process_inputs_fail(p, "the process has ended");
	/* All streams may have ended before; then no other event would follow. */
	process_handle_event(p, PROCESS_EV_STREAM_END);
}

static void committing_committed(struct process *p)
{
	p->committed = true;
	p->engine->counts.started += !p->holder; /* counts commands */
	if (p->gone)
		process_drain(p);
	else
		process_pass_gate(p);
}

/* The init died at the gate. If the start facts are not committed yet, committing_committed drains the process later.
 */
static void committing_gone(struct process *p)
{
	if (p->committed)
		process_drain(p);
}

/* The gate was never opened, so nothing of the command has run. */
static void committing_refused(struct process *p)
{
	struct engine *engine = p->engine;

	engine->o.ports->release(engine->o.host, p->id, 0);
	process_free(p);
}

static void execing_execed(struct process *p)
{
	struct engine *engine = p->engine;

	p->state = PROCESS_RUNNING;
	p->execed = true;
	/* The tick computes the deadlines of its limits. */
	engine_wake(engine, engine_now(engine));
	process_answer_start(p);
	/* Its end, or a pause, was requested before there was a command to signal. */
	if (p->end != PROCESS_END_NONE) {
		p->kill_step = 0;
		process_escalate(p, engine_now(engine));
	}
	if (p->paused)
		engine->o.ports->signal(engine->o.host, p->id, SIGSTOP);
	process_inputs_pump(p);
}

/*
 * If the process ends on its own, its end is certain as soon as pid 1 has reaped the last process of its namespace; the
 * commit then overlaps with the kernel's teardown of the namespaces. If bailiff ends the process, wait for the init's
 * own death.
 */
static void running_exited(struct process *p)
{
	if (p->end != PROCESS_END_NONE || p->last.kind != STATUS_EXITED || p->last.cause != STATUS_CAUSE_NONE)
		return;
	p->leaving = true;
	process_drain(p);
}

/* The report of exec was left out, because the command ended at once (port_streams.end_awaited). */
static void execing_exited(struct process *p)
{
	if (p->last.kind != STATUS_EXITED)
		return;
	p->state = PROCESS_RUNNING;
	p->execed = true;
	running_exited(p);
}

static void draining_stream_end(struct process *p)
{
	bool ended = true;

	for (int i = 0; i < STREAM_COUNT; i++)
		ended &= p->streams[i].ended;
	if ((!ended && !p->drain_cut) || p->settling)
		return;
	p->state = PROCESS_ENDING;
	process_submit_end(p);
}

/* Replies to waiting clients need both: the committed end and the death of the init. */
static void ending_finish(struct process *p)
{
	struct engine *engine = p->engine;

	if (!p->end_committed || (p->leaving && !p->gone))
		return;
	p->over = true;
	process_answer_waiters(p);
	engine->o.ports->release(engine->o.host, p->id, process_unspilled(p));
	/* A start that was rejected or failed was never counted as started. */
	engine->counts.ended += p->committed && !p->holder;
	process_finished(p);
}

void process_finished(struct process *p) { p->engine->modules->process_finished(p); }

static const transition_fn machine[PROCESS_STATE_COUNT][PROCESS_EVENT_COUNT] = {
	[PROCESS_LAUNCHING] = {
		[PROCESS_EV_STARTED] = launching_started,
		[PROCESS_EV_READY] = launching_ready,
		[PROCESS_EV_LAUNCH_FAILED] = launching_failed,
		[PROCESS_EV_GONE] = launching_gone,
	},
	[PROCESS_COMMITTING] = {
		[PROCESS_EV_READY] = process_pass_gate,
		[PROCESS_EV_COMMITTED] = committing_committed,
		[PROCESS_EV_REFUSED] = committing_refused,
		[PROCESS_EV_GONE] = committing_gone,
	},
	[PROCESS_EXECING] = {
		[PROCESS_EV_EXECED] = execing_execed,
		[PROCESS_EV_EXITED] = execing_exited,
		[PROCESS_EV_GONE] = process_drain,
	},
	[PROCESS_RUNNING] = {
		[PROCESS_EV_EXITED] = running_exited,
		[PROCESS_EV_GONE] = process_drain,
	},
	[PROCESS_DRAINING] = {
		[PROCESS_EV_STREAM_END] = draining_stream_end,
	},
	[PROCESS_ENDING] = {
		[PROCESS_EV_END_COMMITTED] = ending_finish,
		[PROCESS_EV_GONE] = ending_finish,
	},
};

void process_handle_event(struct process *p, int event)
{
	const enum process_event ev = (enum process_event)event;
	transition_fn fn = machine[p->state][ev];

	if (fn)
		fn(p);
	else
		log_debug("%s: event %d means nothing in state %d", p->id, (int)ev, (int)p->state);
}

void process_free(struct process *p)
{
	struct engine *engine = p->engine;

	/* Removed from the table first: the replies below may lead to requests that look the process up. */
	strmap_del(&engine->processes->live, p->id);
	engine->processes->hooks -= p->owner == OWNER_HOOK;
	thread_release(engine, p->thread_id, p);
	process_inputs_fail(p, "the process has ended");
	if (p->facts)
		transaction_free(p->facts);
	free(p->profile);
	free(p->sandbox_json);
	free(p->sandbox_note);
	free(p->separate_reason);
	free(p->refusal);
	free(p->ports_failure);
	free(p->decision_json);
	free(p->reason);
	free(p->home);
	free(p->record);
	free(p->hooks_json);
	free(p->failure);
	free(p->given_input);
	if (p->hooks)
		p->wait_ops->free_hooks(p->hooks);
	free(p->evaluated_json);
	free(p->suggestions_json);
	free(p->exec_overrides);
	free(p->command_json);
	free(p->display);
	free(p->prompt);
	free(p->command_line);
	free(p->cwd);
	free(p->justification);
	free(p->command_ref);
	free(p->end_reason);
	buf_done(&p->command_full);
	process_violations_free(p);
	process_network_free(p);
	process_ports_free(p);
	buf_done(&p->autorun);
	reply_done(&p->start);
	free(p);
	if (engine->stopping && engine->processes->live.count == 0 && engine->processes->stopped) {
		void (*stopped)(void *) = engine->processes->stopped;
		engine->processes->stopped = NULL;
		stopped(engine->processes->stopped_ctx);
	}
}

/* ---- reports from the host ---- */

void engine_on_started(struct engine *engine, const char *id, const struct port_started *s)
{
	struct process *p = engine_process(engine, id);

	if (!p)
		return;
	p->pid = s->pid;
	p->start_time = s->start_time;
	p->attempt = s->attempt;
	process_handle_event(p, PROCESS_EV_STARTED);
}

void engine_on_launch_failed(struct engine *engine, const char *id, uint32_t step, int error, enum err_reason reason,
			     const char *path)
{
	struct process *p = engine_process(engine, id);

	if (!p)
		return;
	p->has_last = true;
	p->last = (struct status_msg){ .kind = STATUS_FAILED, .step = step, .error = error };
	snprintf(p->last.path, sizeof p->last.path, "%s", path);
	p->launch_reason = reason;
	if (step == STEP_LIMITS && error == EOPNOTSUPP && path[0])
		p->refusal = mem_strdup(path);
	process_handle_event(p, PROCESS_EV_LAUNCH_FAILED);
}

void engine_on_ready(struct engine *engine, const char *id, uint32_t layers)
{
	struct process *p = engine_process(engine, id);

	if (!p || p->ready)
		return;
	p->ready = true;
	/* In COMMITTING the facts already name the layers. More than recorded is harmless, less is not. */
	layers &= p->plan_layers;
	if (p->state == PROCESS_LAUNCHING)
		p->layers = layers;
	else if (p->state == PROCESS_COMMITTING)
		p->layer_mismatch = p->layers & ~layers;
	if (p->layer_mismatch)
		forget_layers(p);
	process_handle_event(p, PROCESS_EV_READY);
}

void engine_on_execed(struct engine *engine, const char *id)
{
	struct process *p = engine_process(engine, id);

	if (p)
		process_handle_event(p, PROCESS_EV_EXECED);
}

void engine_on_exited(struct engine *engine, const char *id, const struct status_msg *last)
{
	struct process *p = engine_process(engine, id);

	if (!p || p->gone)
		return;
	p->has_last = true;
	p->last = *last;
	process_handle_event(p, PROCESS_EV_EXITED);
}

void engine_on_gone(struct engine *engine, const char *id, const struct status_msg *last)
{
	struct process *p = engine_process(engine, id);

	if (!p || p->gone)
		return;
	p->gone = true;
	if (last) {
		p->has_last = true;
		p->last = *last;
	}
	process_handle_event(p, PROCESS_EV_GONE);
}

void engine_on_output(struct engine *engine, const char *id, int stream, uint64_t size)
{
	struct process *p = engine_process(engine, id);

	if (!p || size <= p->streams[stream].size)
		return;
	engine->counts.output_bytes += size - p->streams[stream].size;
	p->streams[stream].size = size;
	p->last_output_ns = engine_now(engine);
	/* The terminal batch cites what arrives later. */
	if (p->state == PROCESS_RUNNING || p->state == PROCESS_EXECING)
		process_output_due(p);
}

void engine_on_output_end(struct engine *engine, const char *id, int stream)
{
	struct process *p = engine_process(engine, id);

	if (!p)
		return;
	p->streams[stream].ended = true;
	process_handle_event(p, PROCESS_EV_STREAM_END);
}

/* In the scope of the process: those who wait for it must learn why. */
static void note_stall(struct process *p, int stream, int error)
{
	char detail[256];
	struct transaction *tx = transaction_new_internal(p->engine);

	snprintf(detail, sizeof(detail), "%s of %s cannot be written: %s", stream_name(stream), p->id, strerror(error));
	log_error("%s", detail);
	if (EMIT(runtime_error, tx, process_scope(p), .code = "output_stalled", .detail = detail,
		 .advice = "free disk space or raise the quota; the process waits and loses nothing") < 0)
		transaction_free(tx);
	else
		transaction_commit(tx);
}

void engine_on_output_stalled(struct engine *engine, const char *id, int stream, int error)
{
	struct process *p = engine_process(engine, id);

	if (!p || p->streams[stream].stalled == (error != 0))
		return;
	p->streams[stream].stalled = error != 0;
	if (error)
		note_stall(p, stream, error);
}

void engine_on_stdin_room(struct engine *engine, const char *id)
{
	struct process *p = engine_process(engine, id);

	if (p)
		process_inputs_pump(p);
}
