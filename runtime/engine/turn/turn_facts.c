/* The facts of turns and of their queues, and the effects that follow once they are durable. */

#include "runtime/base/hash.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/action/action.h"
#include "runtime/engine/call/tool_call.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/policy/sandbox_setup.h"
#include "runtime/engine/process/start_spec.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/session/session_scope.h"
#include "runtime/engine/turn/turn.h"
#include "runtime/engine/turn/turn_hooks.h"
#include "runtime/view/view_ids.h"
#include <sys/utsname.h>

#define ENDED_LISTED 50u

/* ---- the start ---- */

/* A stable id for a directory, derived from its path. */
static void workspace_id(const char *path, char ret[24])
{
	char hash[HASH_SHA256_TEXT];

	hash_sha256_text(path, strlen(path), hash);
	snprintf(ret, 24, "ws_%.16s", hash);
}

static void limits_json(const struct engine *g, const struct profile *p, struct jw *w)
{
	struct process_limits l = g->o.defaults;

	l.tree = p->limits;
	l.tmp_bytes = p->tmp_bytes;
	json_value_member(w, "limits", json_limits(&l));
}

/* Writes executionEnvironment and, to `refs`, what the turn may know about the machine. */
static void environment_facts(struct engine *g, const struct turn_doc *d, struct jw *w, struct jw *refs)
{
	json_t *where = turn_part_merged(NULL, d, NULL);
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
	if (sandbox_spec_of(where, &spec, &e) < 0 || sandbox_setup_make(g, &spec.request, &c, &f, &e) < 0) {
		/* Its processes will fail for the same reason; the turn records it. */
		jw_kstr(w, "sandbox", "unavailable");
		jw_kstr(w, "unavailableReason", e.message);
	} else {
		char id[24];

		if (f.workspace.path[0]) {
			workspace_id(f.workspace.path, id);
			jw_kstr(w, "workspaceId", id);
			jw_kstr(refs, "workspaceRoot", f.workspace.path);
		}
		jw_kstr(w, "cwd", f.workspace.cwd);
		jw_karr(w, "additionalRoots");
		for (size_t i = 0; i < spec.request.change.nwrite; i++)
			jw_str(w, spec.request.change.write[i]);
		jw_arr_end(w);
		jw_kstr(w, "sandbox", f.profile.name);
		jw_kstr(w, "network", profile_network_name(f.profile.network));
		limits_json(g, &f.profile, w);
		jw_kstr(refs, "profile", f.profile.name);
	}
	jw_obj_end(w);
	json_decref(where);
}

/* Refs to the context that hooks added at the start of the session and to this turn. */
static void hook_refs(struct engine *g, const struct turn_doc *d, const char *hook_context, struct jw *refs)
{
	buf_auto struct buf text = BUF_INIT;
	struct session_doc s;
	struct err e = ERR_INIT;

	if (hook_context && strlen(hook_context) > 2)
		jw_kraw(refs, "hookContext", hook_context, strlen(hook_context));
	if (view_read_speculative(g->o.store, &session_schema, d->sessionId, &text, &s, &e) == 0 &&
	    s.hookContextRefs.type == JT_ARRAY)
		jw_kraw(refs, "sessionHookContext", s.hookContextRefs.text, s.hookContextRefs.len);
}

void turn_start_facts(struct engine *g, const struct turn_doc *d, bool from_queue, const char *hook_context,
		      struct transaction *tx)
{
	/* The runtime never reads the user's files; only commands inside the sandbox do. */
	static const char *const omissions[] = { "instruction_files" };
	buf_auto struct buf refs = BUF_INIT, environment = BUF_INIT;
	struct jw r = jw_on(&refs), w = jw_on(&environment);
	mem_auto char *driver = jval_strdup(d->driver);
	const struct scope s = turn_scope(d);

	jw_obj(&r);
	environment_facts(g, d, &w, &r);
	EMIT(turn_started, tx, s, .envelope.status = "running", .driver = driver, .fromQueue = from_queue,
	     .executionEnvironment = json_from_buf(&environment));
	hook_refs(g, d, hook_context, &r);
	jw_obj_end(&r);
	thread_status_fact(g, (uint32_t)d->uid, d->sessionId, d->threadId, "running", "turn_started", tx);
	EMIT(context_resolved, tx, s, .refs = json_from_buf(&refs), .omissions = json_from_strings(omissions, 1),
	     .missing = JSON_EMPTY_ARRAY);
	EMIT(run_status, tx, s, .envelope.phase = "running", .phase = "running",
	     .title = turn_driven_by_client(d) ? "driven by its client" : "run by the execution loop");
}

/* ---- the end ---- */

static void ended_processes(struct engine *g, const char *turn_id, struct jw *w)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT, refs = BUF_INIT;
	char prefix[VIEW_KEY_MAX];
	const struct view_ids_query q = { .kind = VIEW_TURN_PROCESS, .prefix = prefix, .max = ENDED_LISTED };
	struct jw r = jw_on(&refs);
	struct err e = ERR_INIT;

	snprintf(prefix, sizeof prefix, "%s/", turn_id);
	(void)view_ids(g->o.store, &q, &ids, NULL, &e);
	jw_arr(&r);
	jw_karr(w, "processes");
	for (size_t i = 0; i < ids.n; i++) {
		struct process_doc p;

		jw_str(w, ids.id[i]);
		if (view_read(g->o.store, &process_schema, ids.id[i], &text, &p, &e) != 0)
			continue;
		for (struct jiter it = jiter_on(p.outputRefs); jiter_next(&it);)
			jw_raw(&r, it.value.text, it.value.len);
	}
	jw_arr_end(w);
	jw_arr_end(&r);
	jw_kraw(w, "outputRefs", refs.data, refs.len);
}

void turn_end_facts(struct engine *g, const struct turn_doc *t, const struct turn_end *end, struct transaction *tx)
{
	const char *thread = strcmp(end->status, "timed_out") == 0 ? "failed"
			     : strcmp(end->status, "lost") == 0    ? "unknown"
								   : end->status;

	turn_owner_forget(g, t->turnId);
	action_cancel_of_turn(g, t->turnId, "the turn has ended", tx);
	turn_close_requests(g, (uint32_t)t->uid, t->sessionId, t->threadId, t->turnId, tx);
	buf_auto struct buf work = BUF_INIT;
	struct jw w = jw_on(&work);
	ended_processes(g, t->turnId, &w);
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
		thread_status_fact(g, (uint32_t)t->uid, t->sessionId, t->threadId, thread,
				   end->category ? "turn_failed" : "turn_completed", tx);
	fact_snapshot(tx, &(struct scope){ .uid = (uint32_t)t->uid, .session = t->sessionId, .thread = t->threadId });
}

/* ---- the queue ---- */

void turn_queue_fact(const struct turn_queue *q, const char *change, const char *turn_id, const char *request_id,
		     struct transaction *tx)
{
	const struct scope s = {
		.uid = q->uid, .session = q->session_id, .thread = q->thread_id, .turn = turn_id, .request = request_id
	};

	EMIT(queue_changed, tx, s, .order = json_from_ids(q->ids, q->count), .change = change, .queuedTurnId = turn_id,
	     .policy = "in_order", .resumeState = q->held ? "held" : "running");
}

/* ---- effects ---- */

void turn_step_due(struct engine *g, const char *turn_id) { modules_due(g, DUE_TURN_STEP, turn_id); }

void turn_thread_is_free(struct engine *g, const char *thread_id) { modules_due(g, DUE_NEXT_TURN, thread_id); }
