/*
 * Hooks after a restart. A step that waited for hooks was not evaluated and does not run; hooks whose answer nothing
 * waits for keep running. So do those that check a result, which is still not read before they have answered.
 *
 * Denying is the safe outcome: the request was never evaluated, the connection of its client is gone, and the policy
 * may have changed. Starts with an owner are not ended here; the owner repeats them during its own recovery, and their
 * hooks run again.
 */

#include "runtime/engine/hook/hook.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/process/process.h"
#include "runtime/view/view_ids.h"

#include <signal.h>

#define RECOVER_MAX 4096u

/* Ends the start that waited for the hook, which no longer has a caller: an unevaluated start must not run. */
static void settle_start(struct engine *engine, const struct hook_doc *d, struct transaction *own)
{
	static const char why[] =
		"the runtime was restarted while hooks checked it: it is denied, and can be started again";

	buf_auto struct buf text = BUF_INIT;
	struct process_doc p;
	struct err e = ERR_INIT;

	if (d->ownerKind[0] || !d->subjectId[0] || engine_process(engine, d->subjectId))
		return;
	/* An earlier restart has ended it; the hook's own process lives on until it has been killed. */
	if (view_read(engine->o.store, &process_schema, d->subjectId, &text, &p, &e) == 0 && process_doc_ended(&p))
		return;
	const struct scope s = { .uid = (uint32_t)d->uid,
				 .session = d->sessionId,
				 .thread = d->threadId,
				 .turn = d->turnId,
				 .process = d->subjectId,
				 .task = d->taskId,
				 .trace = d->traceId };
	EMIT(process_failed, own, s, .envelope = { .status = "failed", .status_reason = why }, .category = "permission",
	     .stage = "permission", .message = why, .status = "failed");
}

/* Runs before the rest of recovery, which records lost hooks as ended; they could not be found afterwards. */
void hook_finish_due(struct engine *engine)
{
	view_ids_auto struct view_ids hooks = VIEW_IDS_INIT;
	const struct view_ids_query live = { .kind = VIEW_HOOK, .prefix = "", .max = RECOVER_MAX };
	struct strmap settled = { 0 };
	struct err e = ERR_INIT;

	if (view_ids(engine->o.store, &live, &hooks, NULL, &e) < 0)
		log_error("look for hooks that ran: %s", e.message);
	struct transaction *own = hooks.n ? transaction_new_internal(engine) : NULL;
	for (size_t i = 0; i < hooks.n; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct hook_doc d;

		if (view_read(engine->o.store, &hook_schema, hooks.id[i], &text, &d, &e) != 0 ||
		    strcmp(d.waits, "process") != 0 || strmap_get(&settled, d.subjectId))
			continue;
		settle_start(engine, &d, own);
		/* Several hooks may belong to one start, which ends once. */
		strmap_put(&settled, d.subjectId, engine);
	}
	if (own)
		transaction_commit(own);
	strmap_done(&settled);
}

static struct hook_group *resumed_group(struct engine *engine, enum hook_point point, const struct hook_doc *d)
{
	struct hook_group *group;

	TAILQ_FOREACH (group, &engine->hook->groups, link)
		if (group->resumed && group->point == point && group->count < HOOK_RUNS_MAX &&
		    strcmp(group->turn_id, d->turnId) == 0 && strcmp(group->tool_call_id, d->toolCallId) == 0 &&
		    strcmp(group->process_id, d->subjectId) == 0)
			return group;
	return NULL;
}

static void on_resumed_replies(struct hook_group *group, void *ctx) { hook_on_reply(group); }

/* The step is known from the hook's document; what starts a hook is not needed any longer. */
static struct hook_group *resumed_group_new(struct process *p, enum hook_point point, const struct hook_doc *d)
{
	struct hook_group *group = mem_zalloc(1, sizeof *group);

	group->engine = p->engine;
	group->resumed = true;
	group->point = point;
	group->by = (struct requester){ .uid = (uint32_t)d->uid, .role = ROLE_OPERATOR };
	id_copy(group->session_id, d->sessionId);
	id_copy(group->thread_id, d->threadId);
	id_copy(group->turn_id, d->turnId);
	id_copy(group->task_id, d->taskId);
	id_copy(group->tool_call_id, d->toolCallId);
	id_copy(group->trace_id, d->traceId);
	id_copy(group->process_id, d->subjectId);
	group->run = mem_zalloc(HOOK_RUNS_MAX, sizeof *group->run);
	group->replies = mem_zalloc(HOOK_RUNS_MAX, sizeof *group->replies);
	group->then = on_resumed_replies;
	TAILQ_INSERT_TAIL(&p->engine->hook->groups, group, link);
	return group;
}

/*
 * Adds a hook that still runs to the group of its step, which is made with the first. The answer ends the turn if the
 * hook says so; a module above may set another `then` (tool_hooks_recover).
 */
static void resume_hook(struct process *p, const struct hook_doc *d)
{
	const int point = hook_point_find(d->hookPoint);
	mem_auto char *handler = jval_strdup(d->handler);

	if (point < 0)
		return;
	struct hook_group *group = resumed_group(p->engine, (enum hook_point)point, d);
	if (!group)
		group = resumed_group_new(p, (enum hook_point)point, d);
	struct hook_run *r = &group->run[group->count];
	*r = (struct hook_run){ .group = group, .reply = &group->replies[group->count++] };
	r->reply->ref = (struct hook_ref){ .file = mem_strdup(""),
					   .text = mem_strdup(handler ? handler : ""),
					   .point = group->point,
					   .closed = d->failsClosed };
	hook_answer_fail(&r->reply->answer, "it has not answered"); /* until it does */
	id_copy(r->process_id, p->id);
	strmap_put(&p->engine->hook->runs, r->process_id, r);
	/* It may have reported before the restart that it continues in the background. */
	hook_note_async(p, r);
}

static void recover_hook(struct engine *engine, const char *id)
{
	struct process *p = engine_process(engine, id);
	const struct requester by = { .uid = engine->o.owner_uid, .role = ROLE_OPERATOR };
	buf_auto struct buf text = BUF_INIT;
	struct hook_doc d;
	struct err e = ERR_INIT;

	if (view_read_speculative(engine->o.store, &hook_schema, id, &text, &d, &e) != 0)
		return;
	if (!p) {
		struct transaction *own = transaction_new_internal(engine);

		hook_failed_fact(engine, &d, "lost", "the runtime was restarted before it began", own);
		transaction_commit(own);
	} else if (strcmp(d.waits, HOOK_WAITS_RESULT) == 0) {
		resume_hook(p, &d);
	} else if (d.waits[0]) {
		process_enforce_end(p, PROCESS_END_USER, &by, SIGKILL, 0,
				    "the runtime was restarted: its answer would no longer decide anything");
	}
}

void hook_recover(struct engine *engine)
{
	view_ids_auto struct view_ids hooks = VIEW_IDS_INIT;
	const struct view_ids_query live = { .kind = VIEW_HOOK, .prefix = "", .max = RECOVER_MAX };
	struct err e = ERR_INIT;

	/* Hooks that recovery found lost must not be listed as live any longer: view_ids reads committed documents. */
	store_flush(engine->o.store);
	if (view_ids(engine->o.store, &live, &hooks, NULL, &e) < 0)
		log_error("look for hooks that ran: %s", e.message);
	for (size_t i = 0; i < hooks.n; i++)
		recover_hook(engine, hooks.id[i]);
}
