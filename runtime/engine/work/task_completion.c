/* What a task still waits for, and how it completes. */

#include "runtime/engine/action/action.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/work/task_private.h"
#include "runtime/view/view_channel.h"

static bool add_missing(struct jw *w, const char *what, const char *id)
{
	jw_obj(w);
	jw_kstr(w, "what", what);
	jw_kopt(w, "id", id);
	jw_obj_end(w);
	return true;
}

/* Collects the keys "<channelId>/<remoteTaskId>", which contain a slash themselves (so id_list does not fit). */
static bool list_peer(void *ctx, const char *key, size_t key_len, const char *json, size_t len)
{
	const char *slash = memchr(key, '/', key_len);

	if (slash)
		buf_printf(ctx, "%.*s\n", (int)(key + key_len - slash - 1), slash + 1);
	return true;
}

/* True if a linked peer's task has not ended, as far as is known; returns its remote id. */
static bool peer_task_open(struct engine *engine, const char *task_id, char ret_remote[ID_SIZE])
{
	mem_auto char *prefix = mem_printf("%s/", task_id);
	buf_auto struct buf list = BUF_INIT, text = BUF_INIT;
	struct peer_task_doc d;
	struct err e = ERR_INIT;
	char *next = NULL;

	ret_remote[0] = '\0';
	if (store_model_scan_speculative(engine->o.store, VIEW_TASK_PEER, prefix, list_peer, &list, &e) < 0) {
		log_error("list the peers of task %s: %s", task_id, e.message);
		snprintf(ret_remote, ID_SIZE, "%s", task_id);
	}
	for (char *key = strtok_r((char *)(uintptr_t)buf_cstr(&list), "\n", &next); key && !ret_remote[0];
	     key = strtok_r(NULL, "\n", &next)) {
		const int r = view_read_speculative(engine->o.store, &peer_task_schema, key, &text, &d, &e);

		/* Unreadable, unreachable, or no longer known to its peer: counts as open, because nothing proves its
		 * end. */
		if (r < 0)
			snprintf(ret_remote, ID_SIZE, "%s", key);
		else if (r == 0 && d.remoteState[0] && strcmp(d.remoteState, "completed_undelivered") != 0)
			jval_str(d.remoteTaskId, ret_remote, ID_SIZE);
	}
	return ret_remote[0] != '\0';
}

/* Everything that is missing, not only the first: a client can then fix all of it at once. */
size_t task_missing(struct engine *engine, const struct task *t, struct jval acceptance, struct jval delivery,
		    bool skip_attempt, struct buf *out)
{
	struct jw w = jw_on(out);
	char id[ID_SIZE];
	size_t n = 0;

	jw_arr(&w);
	if (!skip_attempt && t->d.attemptOpen && t->d.currentProcessId[0])
		n += add_missing(&w, "process_running", t->d.currentProcessId);
	if (!skip_attempt && t->d.attemptOpen && task_agent_turn(t, id))
		n += add_missing(&w, "turn_running", id);
	if (id_list_first(engine, VIEW_TASK_ACTION, t->d.taskId, NULL, id))
		n += add_missing(&w, "action_open", id);
	if (task_has_open_child(engine, t->d.taskId, id))
		n += add_missing(&w, "child_unfinished", id);
	if (job_open_of_task(engine, t->d.taskId, id))
		n += add_missing(&w, "job_unfinished", id);
	if (peer_task_open(engine, t->d.taskId, id))
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

/* ---- outputs ---- */

/*
 * If the `content` of an output object is longer than a fact may be, the text is stored behind an output ref, and the
 * fact holds the ref instead. NULL: there is no content, or it is short enough for the fact.
 */
static const json_t *long_content(const json_t *output)
{
	const json_t *content = json_object_get(output, "content");

	return json_string_length(content) > REF_INLINE_MAX ? content : NULL;
}

json_t *task_outputs(const json_t *params, struct err *e)
{
	const json_t *given = json_object_get(params, "outputs");
	json_auto_t *short_ones = json_array(), *with_short = json_object();
	size_t i, total = 0;
	json_t *v;

	/* The size limit of the fact applies to everything except the long contents. */
	json_array_foreach (given, i, v) {
		json_t *one = json_is_object(v) ? json_copy(v) : json_incref(v);
		const json_t *content = long_content(v);
		char field[ERR_FIELD_MAX];

		json_array_append_new(short_ones, one);
		if (!content)
			continue;
		json_object_del(one, "content");
		total += json_string_length(content);
		snprintf(field, sizeof field, "outputs[%zu].content", i);
		if (json_object_get(v, "outputRef"))
			err_field(e, field, "an output has either a content or an outputRef");
		else if (total > TASK_OUTPUT_MAX)
			err_field(e, field, "the contents of a task's outputs may have %u bytes together",
				  TASK_OUTPUT_MAX);
		if (e->code)
			return NULL;
	}
	json_object_set(with_short, "outputs", short_ones);
	json_t *refs = param_refs(with_short, "outputs", "outputRef", e);
	for (i = 0; refs && i < json_array_size(refs); i++)
		if (long_content(json_array_get(given, i)))
			json_object_set(json_array_get(refs, i), "content",
					json_object_get(json_array_get(given, i), "content"));
	return refs;
}

/* Puts long contents behind refs. */
static void keep_outputs(const struct task_doc *d, struct transaction *tx, json_t *outputs)
{
	size_t i;
	json_t *v;

	json_array_foreach (outputs, i, v) {
		const json_t *content = long_content(v);
		const char *type = json_string_value(json_object_get(v, "mediaType"));
		const struct ref_owner owner = {
			.uid = (uint32_t)d->uid,
			.session_id = d->sessionId,
			.thread_id = none_if_empty(d->threadId),
			.task_id = d->taskId,
			.kind = "taskId",
			.id = d->taskId,
			.media_type = type,
		};
		char ref[ID_TEXT_MAX];

		if (!content)
			continue;
		ref_store(tx, &owner, json_string_value(content), json_string_length(content), ref);
		json_object_set_new(v, "outputRef", json_string(ref));
		json_object_set_new(v, "bytes", json_integer((json_int_t)json_string_length(content)));
		json_object_del(v, "content");
	}
}

/* ---- completion ---- */

/* `params` NULL: the runtime completes the task after a clean exit of its command. */
void task_completed_fact(struct engine *engine, const struct task *t, struct transaction *tx, const struct caller *c,
			 const json_t *params, const char *acceptance, const char *declared_by)
{
	struct err e = ERR_INIT;
	json_auto_t *outputs = json_object_get(params, "outputs") ? task_outputs(params, &e) : NULL,
		    *artifacts = json_object_get(params, "artifacts")
					 ? param_refs(params, "artifacts", "artifactId", &e)
					 : NULL,
		    *delivery = param_delivery(params, "delivery", &e);
	const struct scope s = task_scope(&t->d, c);

	keep_outputs(&t->d, tx, outputs);
	/*
	 * A delivery state that was reported before stays; otherwise it is derived: a child's result is delivered to
	 * its parent, if the parent is still open.
	 */
	task_auto struct task parent = TASK_INIT;
	const char *state = "delivered";
	if (!t->d.parentTaskId[0])
		state = "not_applicable";
	else if (task_read(engine, t->d.parentTaskId, &parent, &e) != 0 || task_status_ended(parent.status) ||
		 parent.status == TASK_CANCELLING)
		state = "parent_missing";
	const struct json_value delivered = delivery ? json_from_tree(delivery)
					    : t->d.deliveryState.type == JT_OBJECT
						    ? JSON_NONE
						    : JSON_OBJECT(delivery, .state = state);
	EMIT(task_completed, tx, s, .envelope.status = "completed", .acceptance = json_from_text(acceptance),
	     .outputs = json_from_tree(outputs), .artifacts = json_from_tree(artifacts),
	     .evidenceRefs = param_json(params, "evidenceRefs"), .deliveryState = delivered,
	     .completionSummary = param_str(params, "summary"), .declaredBy = declared_by);
	fact_snapshot(tx, &s);
}

bool task_actions_open(struct engine *engine, const char *task_id)
{
	char action[ID_SIZE];

	return id_list_first(engine, VIEW_TASK_ACTION, task_id, NULL, action);
}

/* Answers that arrive later are rejected: the action is no longer open. */
void task_actions_end(struct engine *engine, const char *task_id, const char *reason)
{
	if (!task_actions_open(engine, task_id))
		return;
	struct transaction *tx = transaction_new_internal(engine);
	action_cancel_of_task(engine, task_id, reason, tx);
	transaction_commit(tx);
}
