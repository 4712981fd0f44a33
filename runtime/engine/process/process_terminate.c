/*
 * Ending a process has three steps, each bounded in time: a signal to the command, which may clean up during the grace
 * period; a request to the init to kill its tree, after which the init still reports the outcome and the resource
 * usage; and the death of the init, which takes the whole pid namespace with it but leaves no report. How an end is
 * recorded: process_end.c.
 */

#include "runtime/engine/core/core.h"

#include "runtime/base/mem.h"
#include "runtime/engine/process/process.h"

#include <signal.h>
#include <string.h>

#define KILL_PATIENCE_MS 2000u /* timeout for KILL_TREE; then the guard kills the init */
#define EXEC_PATIENCE_MS 250u  /* how long a kill waits for the exec */

struct terminate_intent {
	struct engine *engine;
	char process_id[ID_TEXT_MAX];
	struct requester by;
	int sig;
	uint64_t grace_ms, until_ns;
	char *reason;
};

static void terminate_now(struct process *p)
{
	const struct terminate_intent *i = p->intent;

	p->intent = NULL;
	process_enforce_end(p, PROCESS_END_USER, &i->by, i->sig, i->grace_ms, i->reason);
}

/* An earlier terminate_process acts first. true = it has cancelled the start, and the process may be freed. */
static bool run_intent(struct process *p)
{
	const bool waiting = p->state == PROCESS_WAITING;

	terminate_now(p);
	return waiting;
}

/* A stopped process gets other signals only when it is continued. */
static void send_stop_signal(const struct process *p, int sig)
{
	const struct ports *ports = p->engine->o.ports;

	ports->signal(p->engine->o.host, p->id, sig);
	ports->signal(p->engine->o.host, p->id, SIGCONT);
}

void process_enforce_end(struct process *p, enum process_end why, const struct requester *by, int sig,
			 uint64_t grace_ms, const char *reason)
{
	uint64_t now = engine_now(p->engine);

	p->output_given_up |= why == PROCESS_END_USER || why == PROCESS_END_CLIENT_GONE || why == PROCESS_END_SHUTDOWN;
	if (p->state > PROCESS_RUNNING || (p->intent && run_intent(p)))
		return; /* it has already ended, or an earlier request has cancelled its start */
	if (p->state == PROCESS_WAITING) {
		if (by)
			p->end_by = *by;
		p->wait_ops->cancel(p, reason, why == PROCESS_END_SHUTDOWN);
		return;
	}
	/* The first reason is the one that is recorded; later requests can only shorten the grace period. */
	if (p->end == PROCESS_END_NONE) {
		p->end = why;
		p->end_by = by ? *by : (struct requester){ .uid = p->engine->o.owner_uid, .role = ROLE_OPERATOR };
		p->end_signal = sig;
		p->end_reason = mem_strdup(reason);
	}
	if (p->gone)
		return;
	/* A grace period whose nanoseconds would not fit is unlimited. */
	uint64_t kill_at = grace_ms > UINT64_MAX / 2000000 ? UINT64_MAX : now + grace_ms * 1000000ull;
	if (sig != SIGKILL && grace_ms > 0) {
		if (p->state == PROCESS_RUNNING)
			send_stop_signal(p, sig);
		process_set_paused(p, false);
		/* Once the kill has begun, kill_at_ns is the deadline of its current step. */
		if (p->kill_step == 0 && kill_at < p->kill_at_ns)
			p->kill_at_ns = kill_at;
		engine_wake(p->engine, p->kill_at_ns);
		return;
	}
	/*
	 * Before RUNNING there is no command to kill; execing_execed does it then. If the command's process hangs
	 * before its exec, the tick does.
	 */
	p->kill_at_ns = now;
	p->end_signal = SIGKILL;
	if (p->state == PROCESS_RUNNING)
		process_escalate(p, now);
	else if (p->state == PROCESS_EXECING)
		engine_wake(p->engine, now + EXEC_PATIENCE_MS * 1000000ull);
}

/* After the signal and the grace period: the init kills its tree; if that takes too long, the guard kills the init. */
void process_escalate(struct process *p, uint64_t now)
{
	struct engine *engine = p->engine;

	if (p->state != PROCESS_RUNNING && p->state != PROCESS_EXECING)
		return;
	if (now < p->kill_at_ns) { /* reached RUNNING after its end was requested: the signal is still to be sent */
		send_stop_signal(p, p->end_signal);
		return;
	}
	if (p->kill_step++ == 0)
		engine->o.ports->kill_tree(engine->o.host, p->id);
	else
		engine->o.ports->kill(engine->o.host, p->id);
	p->kill_at_ns = now + KILL_PATIENCE_MS * 1000000ull;
	engine_wake(engine, p->kill_at_ns);
}

void process_set_paused(struct process *p, bool hold)
{
	uint64_t now = engine_now(p->engine);

	if (p->paused == hold)
		return;
	p->paused = hold;
	if (hold) {
		p->paused_ns = now;
	} else {
		/* Time spent in a pause counts neither as wall time nor as time without output. */
		p->held_ns += now - p->paused_ns;
		p->last_output_ns = now;
		engine_wake(p->engine, now);
	}
	if (p->state == PROCESS_RUNNING)
		p->engine->o.ports->signal(p->engine->o.host, p->id, hold ? SIGSTOP : SIGCONT);
}

/* ---- terminate_process with an idempotency key ---- */

/*
 * It can be repeated: if the runtime dies before the reply is stored, the next one must know that a request with this
 * key has begun, because the process may have ended meanwhile. So the intent is durable before anything is sent to the
 * process, except on a disk so slow that ending the process would take too long.
 */
static const char begun_record[] = "{\"begun\":true}";
#define INTENT_WAIT_NS (25u * 1000 * 1000)

static void on_terminate_intended(void *ctx, const struct store_result *r)
{
	struct terminate_intent *i = ctx;
	struct process *p = engine_process(i->engine, i->process_id);

	if (p && p->intent == i)
		terminate_now(p);
	free(i->reason);
	free(i);
}

uint64_t process_intent_tick(struct process *p, uint64_t now)
{
	/* A start that waits has no command to end in time, and cancelling it may free the process that is being
	 * visited. */
	if (!p->intent || p->state == PROCESS_WAITING)
		return UINT64_MAX;
	if (now >= p->intent->until_ns)
		terminate_now(p);
	return p->intent ? p->intent->until_ns : UINT64_MAX;
}

void process_intend_end(struct process *p, const struct pending_reply *reply, const struct requester *by, int sig,
			uint64_t grace_ms, const char *reason)
{
	struct transaction *tx = transaction_new_internal(p->engine);
	struct terminate_intent *i = mem_zalloc(1, sizeof *i);

	*i = (struct terminate_intent){ .engine = p->engine,
					.by = *by,
					.sig = sig,
					.grace_ms = grace_ms,
					.until_ns = engine_now(p->engine) + INTENT_WAIT_NS,
					.reason = mem_strdup(reason) };
	memcpy(i->process_id, p->id, sizeof i->process_id);
	p->intent = i;
	engine_wake(p->engine, i->until_ns);
	transaction_store_reply(tx, reply, begun_record, sizeof begun_record - 1);
	transaction_commit_then(tx, STORE_NOW, on_terminate_intended, i);
}
