#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"
#include "runtime/view/view_channel.h"
#include "runtime/view/view_cost.h"
#include "runtime/view/view_environment.h"
#include "runtime/view/view_evidence.h"
#include "runtime/view/view_history.h"
#include "runtime/view/view_job.h"
#include "runtime/view/view_subagent.h"
#include "runtime/view/view_task.h"
#include "supervisor/control/control.h"

#include <string.h>

/*
 * get_snapshot: one row for each kind of the specification, with the ids that select it. A row's function writes one
 * JSON object. find_owner has already checked that the caller may see the session or thread.
 */
enum { BY_SESSION = 1, BY_THREAD = 2, BY_TASK = 4, BY_TURN = 8 };

struct snapshot_call {
	struct call *call;
	struct store *store;
	uint32_t viewer, owner; /* owner: the uid that owns the session or thread */
	const char *session_id, *thread_id, *task_id, *turn_id;
};
typedef int (*snapshot_fn)(const struct snapshot_call *c, struct buf *out, struct err *e);
typedef int (*summary_fn)(struct store *s, const char *id, struct jw *w, struct err *e);

static int session_snapshot(const struct snapshot_call *c, struct buf *out, struct err *e)
{
	return view_session(c->store, c->viewer, c->session_id, NULL, out, e);
}

static int thread_read_model(const struct snapshot_call *c, struct buf *out, struct err *e)
{
	return view_thread(c->store, c->viewer, c->thread_id, NULL, out, e);
}

static int tool_inventory(const struct snapshot_call *c, struct buf *out, struct err *e)
{
	engine_tool_inventory_now(call_engine(c->call), c->session_id, &c->call->caller, out);
	return 0;
}

static int write_queue(const struct snapshot_call *c, struct buf *out, struct err *e)
{
	return view_queue_snapshot(c->store, c->viewer, c->thread_id, out, e);
}

static int write_tasks(const struct snapshot_call *c, struct buf *out, struct err *e)
{
	const bool by_task = c->task_id, by_thread = !by_task && c->thread_id;

	return view_snapshot_task(c->store, c->viewer, by_task || by_thread ? NULL : c->session_id,
				  by_thread ? c->thread_id : NULL, c->task_id, out, e);
}

static int permission_sandbox(const struct snapshot_call *c, struct buf *out, struct err *e)
{
	const struct view_scope scope = { c->session_id, c->thread_id, c->turn_id };

	return view_permission_sandbox(c->store, c->viewer, &scope, out, e);
}

static int write_environment(const struct snapshot_call *c, struct buf *out, struct err *e)
{
	const struct view_scope scope = { c->session_id, c->thread_id, c->turn_id };

	return view_execution_environment(c->store, c->viewer, &scope, out, e);
}

static int write_routing(const struct snapshot_call *c, struct buf *out, struct err *e)
{
	struct jw w = jw_on(out);

	return view_routing_summary(c->store, c->owner, c->session_id, c->thread_id, &w, e);
}

/* Jobs belong to a session, not to a thread: a thread's summary has none. */
static int subagents_jobs(const struct snapshot_call *c, struct buf *out, struct err *e)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_key(&w, "subagents");
	if (view_write_subagents(c->store, c->session_id, c->thread_id, &w, e) < 0)
		return -1;
	if (!c->thread_id && view_jobs_of_session(c->store, c->session_id, &w, e) < 0)
		return -1;
	jw_obj_end(&w);
	return 0;
}

static const struct snapshot_kind {
	const char *name;
	unsigned by; /* BY_…: at least one of these ids must be given; 0 = none is needed */
	snapshot_fn fn;
	summary_fn summary; /* instead of fn: gets the id of the thread with BY_THREAD, else of the session */
} kinds[] = {
	{ "session_snapshot", BY_SESSION, session_snapshot },
	{ "thread_read_model", BY_THREAD, thread_read_model },
	{ "tool_inventory_snapshot", 0, tool_inventory },
	{ "queue_snapshot", BY_THREAD, write_queue },
	{ "task_snapshot", BY_SESSION | BY_THREAD | BY_TASK, write_tasks },
	{ "context_boundary_snapshot", BY_THREAD, .summary = view_context_boundary },
	{ "artifact_checkpoint_summary", BY_SESSION, .summary = view_artifact_summary },
	{ "permission_sandbox_summary", BY_SESSION | BY_THREAD | BY_TURN, permission_sandbox },
	{ "execution_environment_snapshot", BY_SESSION | BY_THREAD | BY_TURN, write_environment },
	{ "routing_limit_summary", BY_SESSION | BY_THREAD, write_routing },
	{ "subagent_job_summary", BY_SESSION | BY_THREAD, subagents_jobs },
	{ "channel_summary", BY_SESSION, .summary = view_channel_summary },
	{ "evidence_summary", BY_SESSION, .summary = view_evidence_summary },
	{ "benchmark_summary", BY_SESSION, .summary = view_benchmark_summary },
};

static const char *const by_names[] = { "sessionId", "threadId", "taskId", "turnId" };

/* Any one of the ids that a kind is selected by is enough. */
static int check_scope(const struct snapshot_kind *k, const struct snapshot_call *c, struct err *e)
{
	const char *const given[] = { c->session_id, c->thread_id, c->task_id, c->turn_id };
	const char *first = NULL;

	for (size_t i = 0; i < countof(by_names); i++) {
		if (!(k->by & (1u << i)))
			continue;
		if (given[i])
			return 0;
		if (!first)
			first = by_names[i];
	}
	return first ? err_field(e, first, "missing; required for a %s", k->name) : 0;
}

static int not_found(const char *field, const char *id, struct err *e)
{
	return err_at(e, ERR_NOT_FOUND, field, "%s '%.80s' is not known, or not of what else is named", field, id);
}

/* Looks up every given id, checks that they belong together, and sets `owner`. Invisible documents are not found. */
static int find_owner(struct snapshot_call *c, struct err *e)
{
	struct view_session_brief s;
	struct view_thread_brief t;
	struct view_turn_brief turn;
	int r;

	if (c->session_id) {
		r = view_session_brief(c->store, c->viewer, c->session_id, &s, e);
		if (r)
			return r < 0 ? -1 : not_found("sessionId", c->session_id, e);
		c->owner = s.uid;
	}
	if (c->thread_id) {
		r = view_thread_brief(c->store, c->viewer, c->thread_id, &t, e);
		if (r || (c->session_id && strcmp(t.session_id, c->session_id) != 0))
			return r < 0 ? -1 : not_found("threadId", c->thread_id, e);
		c->owner = t.uid;
	}
	if (c->turn_id) {
		r = view_turn_brief(c->store, c->viewer, c->turn_id, &turn, e);
		if (r || (c->session_id && strcmp(turn.session_id, c->session_id) != 0) ||
		    (c->thread_id && strcmp(turn.thread_id, c->thread_id) != 0))
			return r < 0 ? -1 : not_found("turnId", c->turn_id, e);
	}
	if (c->task_id) {
		buf_auto struct buf text = BUF_INIT;
		struct task_doc task;

		if (view_read_visible(c->store, &task_schema, c->viewer, "taskId", c->task_id, &text, &task, e) < 0)
			return -1;
		if ((c->session_id && strcmp(task.sessionId, c->session_id) != 0) ||
		    (c->thread_id && strcmp(task.threadId, c->thread_id) != 0))
			return not_found("taskId", c->task_id, e);
	}
	return 0;
}

static int write_snapshot(struct call *c, const struct snapshot_kind *k, struct snapshot_call *s, struct buf *out,
			  struct err *e)
{
	struct jw w = jw_on(out);

	s->call = c;
	s->store = call_store(c);
	s->viewer = call_visible_uid(c);
	s->owner = c->caller.uid;
	if (check_scope(k, s, e) < 0 || find_owner(s, e) < 0)
		return -1;
	return k->fn ? k->fn(s, out, e)
		     : k->summary(s->store, k->by == BY_THREAD ? s->thread_id : s->session_id, &w, e);
}

static const struct snapshot_kind *kind_find(const char *name)
{
	for (size_t i = 0; i < countof(kinds); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

int method_get_snapshot(struct call *c, const struct get_snapshot_params *p, struct buf *out, struct err *e)
{
	const struct snapshot_kind *k = kind_find(p->kind); /* the row admits only the names of kinds */
	struct snapshot_call s = {
		.session_id = p->sessionId, .thread_id = p->threadId, .task_id = p->taskId, .turn_id = p->turnId
	};
	buf_auto struct buf snapshot = BUF_INIT;
	struct jw w = jw_on(out);

	if (write_snapshot(c, k, &s, &snapshot, e) < 0)
		return -1;
	jw_obj(&w);
	jw_kstr(&w, "kind", k->name);
	jw_kuint(&w, "atSequence", store_last_sequence(s.store));
	jw_kraw(&w, "snapshot", snapshot.data, snapshot.len);
	jw_obj_end(&w);
	return CALL_REPLY;
}

int method_get_execution_environment(struct call *c, const struct get_execution_environment_params *p, struct buf *out,
				     struct err *e)
{
	struct snapshot_call s = { .session_id = p->sessionId, .thread_id = p->threadId, .turn_id = p->turnId };

	return write_snapshot(c, kind_find("execution_environment_snapshot"), &s, out, e);
}
