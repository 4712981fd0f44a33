/* What a task still waits for, and how it completes. */

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/action/action.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/work/peer_task.h"
#include "runtime/engine/work/task_private.h"
#include "runtime/engine/work/work.h"
#include <signal.h>

struct first_id {
	char id[ID_SIZE];
	const char *but;
};

static bool add_missing(struct jw *w, const char *what, const char *id)
{
	jw_obj(w);
	jw_kstr(w, "what", what);
	jw_kopt(w, "id", id);
	jw_obj_end(w);
	return true;
}

static bool take_member(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct first_id *f = ctx;
	const char *slash = memrchr(id, '/', id_len);

	if (!slash || (f->but && strncmp(slash + 1, f->but, id_len - (size_t)(slash + 1 - id)) == 0))
		return true;
	snprintf(f->id, sizeof f->id, "%.*s", (int)(id_len - (size_t)(slash + 1 - id)), slash + 1);
	return false;
}

/* Finds the first member of a list other than `but`. */
bool task_first_of(struct engine *g, enum view_kind kind, const char *owner, const char *but, char ret[ID_SIZE])
{
	struct first_id f = { .but = but };
	struct err e = ERR_INIT;
	char prefix[ID_SIZE + 1];

	snprintf(prefix, sizeof prefix, "%s/", owner);
	if (store_model_scan_speculative(g->o.store, (uint8_t)kind, prefix, take_member, &f, &e) < 0)
		log_error("look at what task %s has open: %s", owner, e.message);
	memcpy(ret, f.id, ID_SIZE);
	return f.id[0] != '\0';
}

static bool list_peer(void *ctx, const char *key, size_t key_len, const char *json, size_t len)
{
	const char *slash = memchr(key, '/', key_len);
	struct buf *list = ctx;

	if (slash)
		buf_printf(list, "%.*s\n", (int)(key + key_len - slash - 1),
			   slash + 1); /* "<channelId>/<remoteTaskId>" */
	return true;
}

bool peer_task_open(struct engine *g, const char *task_id, char ret_remote[ID_SIZE])
{
	mem_auto char *prefix = mem_printf("%s/", task_id);
	buf_auto struct buf list = BUF_INIT, text = BUF_INIT;
	struct peer_task_doc d;
	struct err e = ERR_INIT;
	char *next = NULL;

	ret_remote[0] = '\0';
	if (store_model_scan_speculative(g->o.store, VIEW_TASK_PEER, prefix, list_peer, &list, &e) < 0)
		log_error("look for peers of task %s: %s", task_id, e.message);
	mem_auto char *keys = mem_strdup(buf_cstr(&list));
	for (char *key = strtok_r(keys, "\n", &next); key && !ret_remote[0]; key = strtok_r(NULL, "\n", &next))
		/*
		 * A task that is unreachable, or that its peer no longer knows, counts as open: nothing proves its
		 * end.
		 */
		if (view_read_speculative(g->o.store, &peer_task_schema, key, &text, &d, &e) == 0 && d.remoteState[0] &&
		    strcmp(d.remoteState, "completed_undelivered") != 0)
			jval_str(d.remoteTaskId, ret_remote, ID_SIZE);
	return ret_remote[0] != '\0';
}

size_t task_missing(struct engine *g, const struct task *t, struct jval acceptance, struct jval delivery,
		    bool skip_attempt, struct buf *out)
{
	struct jw w = jw_on(out);
	char id[ID_SIZE];
	size_t n = 0;

	jw_arr(&w);
	if (!skip_attempt && t->d.attemptOpen && t->d.currentProcessId[0])
		n += add_missing(&w, "process_running", t->d.currentProcessId);
	if (task_first_of(g, VIEW_TASK_ACTION, t->d.taskId, NULL, id))
		n += add_missing(&w, "action_open", id);
	if (task_has_open_child(g, t->d.taskId, id))
		n += add_missing(&w, "child_unfinished", id);
	if (job_open_of_task(g, t->d.taskId, id))
		n += add_missing(&w, "job_unfinished", id);
	if (peer_task_open(g, t->d.taskId, id))
		n += add_missing(&w, "peer_task_unfinished", id);
	for (struct jiter it = jiter_on(acceptance); acceptance.type == JT_ARRAY && jiter_next(&it);) {
		struct jval status = jval_get(it.value, "status");
		if (!jval_bool(jval_get(it.value, "required"), true) || jval_is_str(status, "met") ||
		    jval_is_str(status, "waived"))
			continue;
		jval_str(jval_get(it.value, "id"), id, sizeof id);
		n += add_missing(&w, "acceptance_unmet", id);
	}
	if (delivery_is_open(delivery)) {
		jval_str(jval_get(delivery, "state"), id, sizeof id);
		n += add_missing(&w, "delivery_open", id);
	}
	jw_arr_end(&w);
	return n;
}

/* A child's result is delivered to its parent, if the parent is still open. */
static const char *delivery_to_parent(struct engine *g, const struct task *t)
{
	task_auto struct task parent = TASK_INIT;
	struct err e = ERR_INIT;

	if (!t->d.parentTaskId[0])
		return "not_applicable";
	if (task_read(g, t->d.parentTaskId, &parent, &e) != 0 || task_status_ended(parent.status) ||
	    parent.status == TASK_CANCELLING)
		return "parent_missing";
	return "delivered";
}

void task_completed_fact(struct engine *g, const struct task *t, struct transaction *tx, const struct caller *c,
			 const json_t *params, const char *acceptance, const char *declared_by)
{
	struct err e = ERR_INIT;
	json_auto_t *outputs = json_object_get(params, "outputs") ? task_outputs(params, &e) : NULL,
		    *artifacts = json_object_get(params, "artifacts")
					 ? param_refs(params, "artifacts", "artifactId", &e)
					 : NULL,
		    *delivery = param_delivery(params, "delivery", &e);
	const struct scope s = task_scope(&t->d, c);

	task_outputs_keep(&t->d, tx, outputs);
	/* A delivery state that was reported before stays; otherwise it is derived from the parent. */
	const struct json_value delivered = delivery ? json_from_tree(delivery)
					    : t->d.deliveryState.type == JT_OBJECT
						    ? JSON_NONE
						    : JSON_OBJECT(delivery, .state = delivery_to_parent(g, t));
	EMIT(task_completed, tx, s, .envelope.status = "completed", .acceptance = json_from_text(acceptance),
	     .outputs = json_from_tree(outputs), .artifacts = json_from_tree(artifacts),
	     .evidenceRefs = param_json(params, "evidenceRefs"), .deliveryState = delivered,
	     .completionSummary = param_str(params, "summary"), .declaredBy = declared_by);
	fact_snapshot(tx, &s);
}

bool task_actions_open(struct engine *g, const char *task_id)
{
	char action[ID_SIZE];

	return task_first_of(g, VIEW_TASK_ACTION, task_id, NULL, action);
}

void task_actions_end(struct engine *g, const char *task_id, const char *reason)
{
	if (!task_actions_open(g, task_id))
		return;
	struct transaction *tx = transaction_new_internal(g);
	action_cancel_of_task(g, task_id, reason, tx);
	transaction_commit(tx);
}
