/*
 * The facts of turns and of their queues, the effects that follow once they are durable, and the work of a turn: its
 * live processes and open tool calls.
 */

#include "runtime/base/hash.h"
#include "runtime/engine/action/action.h"
#include "runtime/engine/call/process_tools.h"
#include "runtime/engine/call/tool_call.h"
#include "runtime/engine/policy/policy_lookup.h"
#include "runtime/engine/policy/sandbox_setup.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/process/start_spec.h"
#include "runtime/engine/session/session_scope.h"
#include "runtime/engine/turn/turn_private.h"

#include <signal.h>
#include <sys/utsname.h>

#define ENDED_LISTED 50u

/* ---- the start ---- */

/* Writes executionEnvironment and, to `refs`, what the turn may know about the machine. */
static void environment_facts(struct engine *engine, const struct turn_doc *d, struct jw *w, struct jw *refs)
{
	json_auto_t *where = turn_part_merged(NULL, d, NULL);
	sandbox_spec_auto struct sandbox_spec spec = { 0 };
	sandbox_setup_auto struct sandbox_setup f = { 0 };
	struct requester by;
	struct utsname os;
	struct err e = ERR_INIT;

	turn_requester(d, &by);
	const struct caller c = { .uid = by.uid, .pid = by.pid, .role = by.role, .peer_fd = -1 };
	jw_obj(w);
	jw_kstr(w, "shell", "/bin/sh");
	jw_kstr(w, "os", "linux");
	if (uname(&os) == 0)
		jw_kstr(w, "arch", os.machine);
	if (sandbox_spec_of(where, &spec, &e) < 0 || sandbox_setup_make(engine, &spec.request, &c, &f, &e) < 0) {
		/* Its processes will fail for the same reason; the turn records it. */
		jw_kstr(w, "sandbox", "unavailable");
		jw_kstr(w, "unavailableReason", e.message);
	} else {
		struct process_limits limits = engine->o.defaults;
		char hash[HASH_SHA256_TEXT], id[24];

		if (f.workspace.path[0]) {
			/* A stable id for a directory, derived from its path. */
			hash_sha256_text(f.workspace.path, strlen(f.workspace.path), hash);
			snprintf(id, sizeof id, "ws_%.16s", hash);
			jw_kstr(w, "workspaceId", id);
			jw_kstr(refs, "workspaceRoot", f.workspace.path);
		}
		jw_kstr(w, "cwd", f.workspace.cwd);
		jw_kstrv(w, "additionalRoots", spec.request.change.write, spec.request.change.nwrite);
		jw_kstr(w, "sandbox", f.profile.name);
		jw_kstr(w, "network", profile_network_name(f.profile.network));
		limits.tree = f.profile.limits;
		limits.tmp_bytes = f.profile.tmp_bytes;
		json_value_member(w, "limits", json_limits(&limits));
		jw_kstr(refs, "profile", f.profile.name);
	}
	jw_obj_end(w);
}

/* The mode at the start, and the host's and the daemon's files; permission.evaluated names the rules of each decision.
 */
static void policy_facts(struct engine *engine, const struct turn_doc *d, struct jw *refs)
{
	const struct policy_rules *rules = engine->rules;

	jw_kobj(refs, "policy");
	jw_kstr(refs, "mode", permission_mode_name(permission_mode_of(engine, d->sessionId)));
	jw_karr(refs, "files");
	for (size_t i = 0; rules && i < rules->nfiles; i++)
		jw_str(refs, rules->files[i]);
	jw_arr_end(refs);
	jw_obj_end(refs);
}

void turn_start_facts(struct engine *engine, const struct turn_doc *d, bool from_queue, const char *hook_context,
		      struct transaction *tx)
{
	/* The runtime never reads the user's files; only commands inside the sandbox do. */
	static const char *const omissions[] = { "instruction_files" };
	buf_auto struct buf refs = BUF_INIT, environment = BUF_INIT, text = BUF_INIT;
	struct jw r = jw_on(&refs), w = jw_on(&environment);
	mem_auto char *driver = jval_strdup(d->driver);
	const struct scope s = turn_scope(d);
	struct session_doc session;
	struct err e = ERR_INIT;

	jw_obj(&r);
	environment_facts(engine, d, &w, &r);
	policy_facts(engine, d, &r);
	EMIT(turn_started, tx, s, .envelope.status = "running", .driver = driver, .fromQueue = from_queue,
	     .executionEnvironment = json_from_buf(&environment));
	/* The context that hooks added to this turn ("[]" = none) and at the start of the session. */
	if (hook_context && strlen(hook_context) > 2)
		jw_kraw(&r, "hookContext", hook_context, strlen(hook_context));
	if (view_read_speculative(engine->o.store, &session_schema, d->sessionId, &text, &session, &e) == 0 &&
	    session.hookContextRefs.type == JT_ARRAY)
		jw_kraw(&r, "sessionHookContext", session.hookContextRefs.text, session.hookContextRefs.len);
	jw_obj_end(&r);
	thread_status_fact(engine, (uint32_t)d->uid, d->sessionId, d->threadId, "running", "turn_started", tx);
	/* The loop reads the instruction files in the sandbox, and adds another context.resolved. */
	EMIT(context_resolved, tx, s, .refs = json_from_buf(&refs),
	     .omissions = json_from_strings(omissions, turn_driven_by_loop(d) ? 0 : 1), .missing = JSON_EMPTY_ARRAY);
	EMIT(run_status, tx, s, .envelope.phase = "running", .phase = "running",
	     .title = turn_driven_by_client(d) ? "driven by its client"
		      : turn_driven_by_loop(d) ? "driven by the loop"
					       : "run by the execution loop");
}

/* ---- the end ---- */

/* Lists the processes of the turn and their outputs. */
static void ended_processes(struct engine *engine, const char *turn_id, struct jw *w)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT, refs = BUF_INIT;
	struct jw r = jw_on(&refs);
	struct err e = ERR_INIT;

	(void)view_members(engine->o.store, VIEW_TURN_PROCESS, turn_id, VIEW_OLDEST_FIRST, ENDED_LISTED, &ids, &e);
	id_list_write(w, "processes", ids.id, ids.n);
	jw_arr(&r);
	for (size_t i = 0; i < ids.n; i++) {
		struct process_doc p;

		if (view_read(engine->o.store, &process_schema, ids.id[i], &text, &p, &e) != 0)
			continue;
		for (struct jiter it = jiter_on(p.outputRefs); jiter_next(&it);)
			jw_raw(&r, it.value.text, it.value.len);
	}
	jw_arr_end(&r);
	jw_kraw(w, "outputRefs", refs.data, refs.len);
}

/*
 * Everything that ends with a turn, in one transaction: open actions and model requests, then the turn, then the
 * status of the thread. Clients rely on that order.
 */
void turn_end_facts(struct engine *engine, const struct turn_doc *t, const struct turn_end *end, struct transaction *tx)
{
	const char *thread = strcmp(end->status, "timed_out") == 0 ? "failed"
			     : strcmp(end->status, "lost") == 0    ? "unknown"
								   : end->status;

	turn_owner_forget(engine, t->turnId);
	action_cancel_of_turn(engine, t->turnId, "the turn has ended", tx);
	turn_close_requests(engine, (uint32_t)t->uid, t->sessionId, t->threadId, t->turnId, tx);
	buf_auto struct buf work = BUF_INIT;
	struct jw w = jw_on(&work);
	ended_processes(engine, t->turnId, &w);
	const struct opt_int parts = opt_int_if(t->parts != VIEW_ABSENT, t->parts),
			     failed = opt_int_if(t->partsFailed != VIEW_ABSENT, t->partsFailed);
	if (end->category)
		EMIT(turn_failed, tx, turn_scope(t),
		     .envelope = { .status = end->status, .status_reason = end->message }, .category = end->category,
		     .message = end->message, .retryable = end->retryable, .toolCallId = end->call_id,
		     .work = json_from_buf(&work), .parts = parts, .partsFailed = failed);
	else
		EMIT(turn_completed, tx, turn_scope(t), .envelope.status = end->status, .outcome = end->outcome,
		     .summary = end->summary, .usage = json_from_text(end->usage), .work = json_from_buf(&work),
		     .parts = parts, .partsFailed = failed);
	if (t->startedAt)
		thread_status_fact(engine, (uint32_t)t->uid, t->sessionId, t->threadId, thread,
				   end->category ? "turn_failed" : "turn_completed", tx);
	fact_snapshot(tx, &(struct scope){ .uid = (uint32_t)t->uid, .session = t->sessionId, .thread = t->threadId });
}

void turn_result(struct transaction *tx, const struct turn_doc *t, const char *status)
{
	jw_kstr(&tx->w, "sessionId", t->sessionId);
	jw_kstr(&tx->w, "threadId", t->threadId);
	jw_kstr(&tx->w, "turnId", t->turnId);
	jw_kstr(&tx->w, "status", status);
}

/* ---- the queue ---- */

void turn_queue_fact(const struct turn_queue *q, const char *change, const char *turn_id, const char *request_id,
		     struct transaction *tx)
{
	const struct scope s = {
		.uid = q->uid, .session = q->session_id, .thread = q->thread_id, .turn = turn_id, .request = request_id
	};

	tx->engine->turns_queued |= q->count > 0;
	EMIT(queue_changed, tx, s, .order = json_from_ids(q->ids, q->count), .change = change, .queuedTurnId = turn_id,
	     .policy = "in_order", .resumeState = q->held ? "held" : "running");
}

/* ---- effects ---- */

void turn_step_due(struct engine *engine, const char *turn_id) { modules_due(engine, DUE_TURN_STEP, turn_id); }

void turn_thread_is_free(struct engine *engine, const char *thread_id)
{
	modules_due(engine, DUE_NEXT_TURN, thread_id);
}

/* ---- the work of a turn ---- */

/* A visit to the live processes of a turn. */
struct turn_work {
	const char *turn_id;
	char first[ID_SIZE]; /* "" = there is none */
	size_t count, hooks;
	const struct requester *end_by; /* asks each to end; NULL = only counts them */
	const char *reason;
};

/* With strmap_each only to count: ending a process may change the map. */
static void visit_process(void *ctx, const char *id, void *value)
{
	struct turn_work *w = ctx;
	struct process *p = value;

	if (strcmp(p->turn_id, w->turn_id) != 0)
		return;
	/* What an ended command left in a session sandbox does not keep the turn open, but ends when it is interrupted.
	 * Neither applies to a command in the background. */
	if ((p->command_exited && p->within[0] && !w->end_by) || process_in_background(p))
		return;
	if (!w->count++)
		id_copy(w->first, id);
	w->hooks += p->owner == OWNER_HOOK;
	if (w->end_by)
		process_enforce_end(p, PROCESS_END_USER, w->end_by, SIGTERM, p->engine->o.stop_grace_ms, w->reason);
}

bool turn_busy(struct engine *engine, const struct turn_doc *d)
{
	struct turn_work w = { .turn_id = d->turnId };

	strmap_each(&engine->processes->live, visit_process, &w);
	return view_counted(d->openCalls) || w.count;
}

bool turn_has_work(struct engine *engine, const struct turn_doc *d)
{
	struct turn_work w = { .turn_id = d->turnId };

	strmap_each(&engine->processes->live, visit_process, &w);
	return view_counted(d->openCalls) || w.count > w.hooks;
}

void turn_stop_work(struct engine *engine, const char *turn_id, const struct requester *by, const char *reason)
{
	struct turn_work w = { .turn_id = turn_id, .end_by = by, .reason = reason };

	/* strmap_visit: ending a process may remove it, and others, from the map. */
	strmap_visit(&engine->processes->live, visit_process, &w);
	tool_cancel_of_turn(engine, turn_id, reason);
}

int turn_may_complete(struct engine *engine, const struct turn_doc *t, struct err *e)
{
	struct turn_work w = { .turn_id = t->turnId };

	if (!turn_driven_by_client(t))
		return err_set(e, ERR_STATE,
			       "turn '%s' is run by the runtime and ends by itself; interrupt_turn ends it before",
			       t->turnId);
	strmap_each(&engine->processes->live, visit_process, &w);
	if (w.count)
		return err_set(e, ERR_STATE, "turn '%s' has a running process, '%s': wait for it or end it first",
			       t->turnId, w.first);
	if (view_counted(t->openCalls))
		return err_set(e, ERR_STATE, "turn '%s' has %llu open tool calls: report their ends first", t->turnId,
			       (unsigned long long)t->openCalls);
	if (view_counted(t->openActions))
		return err_set(e, ERR_STATE, "turn '%s' has an open action: it must be answered first (list_actions)",
			       t->turnId);
	return 0;
}
