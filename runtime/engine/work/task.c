/* Creates and updates tasks. Also has the facts and parameters that all task methods share. */

#include "runtime/engine/work/task_private.h"
#include "runtime/view/view.h"

/* ---- create_task ---- */

/* A create_task request while it is checked. The document has no status yet. */
struct creation {
	struct engine *engine;
	const json_t *params;
	const struct caller *caller;
	struct task parent;
	bool has_parent, makes_session;
	struct task_doc d; /* only the ids */
	json_t *acceptance, *command, *delivery;
	char hash[65];
};

static void creation_done(struct creation *k)
{
	task_done(&k->parent);
	json_decref(k->acceptance);
	json_decref(k->command);
	json_decref(k->delivery);
}

/* The members with which a client describes a task. */
static const struct {
	const char *name;
	bool text;
	size_t most;
} described[] = {
	{ "title", true, 512 },
	{ "objective", true, TASK_TEXT_MAX },
	{ "taskKind", true, TASK_WORD_MAX },
	{ "taskFamily", true, TASK_WORD_MAX },
	{ "visibility", true, 32 },
	{ "priority", true, 64 },
	{ "requestedBy", false, 1024 },
	{ "owner", false, 1024 },
	{ "assignee", false, 1024 },
	{ "scope", false, 4096 },
	{ "constraints", false, TASK_JSON_MAX },
	{ "taskProfile", false, 4096 },
	{ "nativeStatus", true, TASK_WORD_MAX },
	{ "peer", false, 4096 },
	{ "evidenceRefs", false, TASK_JSON_MAX },
	{ "fleet", false, 1024 },
};

/* The members are stored as given; only their size is checked, and that limits are not 0. */
static int check_described(const json_t *params, struct err *e)
{
	for (size_t i = 0; i < countof(described); i++)
		if ((described[i].text ? param_text : param_small)(params, described[i].name, described[i].most, e) < 0)
			return -1;
	const json_t *most = json_object_get(json_object_get(params, "constraints"), "timeMs");
	if (most && (!json_is_integer(most) || json_integer_value(most) < 1))
		return err_field(e, "constraints.timeMs", "must be a number of milliseconds, at least 1");
	return param_retry_policy(params, e) < 0 || param_positive(params, NULL, "timeoutMs", e) < 0 ||
			       param_positive(params, NULL, "idleMs", e) < 0
		       ? -1
		       : 0;
}

/* The shorter of timeoutMs and constraints.timeMs. */
static struct opt_int time_limit_of(const json_t *params)
{
	const json_t *own = json_object_get(params, "timeoutMs"),
		     *most = json_object_get(json_object_get(params, "constraints"), "timeMs");

	return most && (!own || json_integer_value(most) < json_integer_value(own)) ? opt_int(json_integer_value(most))
										    : param_int(params, "timeoutMs");
}

/* Normalises criteria to objects with an id and `required`; a string is the criterion's text. */
static json_t *acceptance_of(const json_t *params, struct err *e)
{
	json_t *list = json_object_get(params, "acceptance") ? param_refs(params, "acceptance", "text", e) : NULL, *v;
	size_t i;

	json_array_foreach (list, i, v) {
		char made[24];
		snprintf(made, sizeof made, "a%zu", i + 1);
		if (!json_is_string(json_object_get(v, "id")))
			json_object_set_new(v, "id", json_string(made));
		if (!json_is_boolean(json_object_get(v, "required")))
			json_object_set_new(v, "required", json_true());
		if (!json_is_string(json_object_get(v, "status")))
			json_object_set_new(v, "status", json_string("pending"));
	}
	return list;
}

/* Finds the session, thread and turn of the task. They must belong together; the session defaults to the parent's. */
static int creation_scope(struct creation *k, struct err *e)
{
	const char *session = param_str(k->params, "sessionId"), *thread = param_str(k->params, "threadId"),
		   *turn = param_str(k->params, "turnId");
	struct store *s = k->engine->o.store;
	struct view_session_brief sb;
	struct view_thread_brief tb;
	struct view_turn_brief ub;
	int r = 0;

	if (turn && (r = view_turn_brief(s, k->caller->uid, turn, &ub, e)) != 0)
		return r < 0 ? -1 : err_not_known(e, "turnId", turn);
	if (turn && ((thread && strcmp(thread, ub.thread_id) != 0) || (session && strcmp(session, ub.session_id) != 0)))
		return err_field(e, "turnId", "does not belong to the others that were given");
	thread = turn ? ub.thread_id : thread;
	if (thread && (r = view_thread_brief(s, k->caller->uid, thread, &tb, e)) != 0)
		return r < 0 ? -1 : err_not_known(e, "threadId", thread);
	if (thread && session && strcmp(session, tb.session_id) != 0)
		return err_field(e, "threadId", "does not belong to the session that was given");
	session = thread ? tb.session_id : session ? session : k->has_parent ? k->parent.d.sessionId : NULL;
	if (session && (r = view_session_brief(s, k->caller->uid, session, &sb, e)) != 0)
		return r < 0 ? -1 : err_not_known(e, "sessionId", session);
	k->d.uid = session ? sb.uid : k->caller->uid;
	id_copy(k->d.turnId, turn);
	id_copy(k->d.threadId, thread);
	k->makes_session = !session;
	id_copy(k->d.sessionId, session);
	return 0;
}

static struct task_description_part description_of(const json_t *params)
{
	return (struct task_description_part){ .taskKind = param_str(params, "taskKind"),
					       .taskFamily = param_str(params, "taskFamily"),
					       .visibility = param_str(params, "visibility"),
					       .priority = param_str(params, "priority"),
					       .requestedBy = param_json(params, "requestedBy"),
					       .owner = param_json(params, "owner"),
					       .assignee = param_json(params, "assignee"),
					       .scope = param_json(params, "scope"),
					       .constraints = param_json(params, "constraints"),
					       .taskProfile = param_json(params, "taskProfile"),
					       .retryPolicy = param_json(params, "retryPolicy"),
					       .nativeStatus = param_str(params, "nativeStatus"),
					       .peer = param_json(params, "peer"),
					       .evidenceRefs = param_json(params, "evidenceRefs") };
}

static struct task_limits_part limits_of(const json_t *params)
{
	const json_t *complete = json_object_get(params, "autoComplete");

	return (struct task_limits_part){ .autoComplete = complete ? opt_bool(json_is_true(complete)) : OPT_BOOL_ABSENT,
					  .timeoutMs = time_limit_of(params),
					  .idleMs = param_int(params, "idleMs"),
					  .heartbeatMs = param_int(params, "heartbeatMs") };
}

/* The owner is the given one, else the caller. */
static void accepted_fact(const struct task_doc *d, const json_t *owner, struct transaction *tx, const struct caller *c)
{
	const struct requester by = requester_of(c);

	EMIT(task_accepted, tx, task_scope(d, c), .envelope.status = "accepted",
	     .owner = owner ? json_from_tree(owner) : json_requester(&by));
}

static int check_creation(struct creation *k, struct err *e)
{
	const char *parent = param_str(k->params, "parentTaskId");

	if (check_described(k->params, e) < 0 || task_lease_check(k->engine, k->params, e) < 0)
		return -1;
	if (parent &&
	    (task_get(k->engine, parent, k->caller, &k->parent, e) < 0 || task_may(&k->parent, TASK_VERB_ADD, e) < 0)) {
		snprintf(e->field, sizeof e->field, "parentTaskId");
		return -1;
	}
	k->has_parent = parent != NULL;
	id_copy(k->d.parentTaskId, parent);
	if ((parent && task_check_depth(k->engine, &k->parent, 0, e) < 0) || creation_scope(k, e) < 0)
		return -1;
	k->acceptance = acceptance_of(k->params, e);
	k->delivery = param_delivery(k->params, "delivery", e);
	k->command = command_of(k->params, k->caller);
	if (e->code)
		return -1;
	return k->command ? command_check(k->engine, k->command, k->caller, e) : 0;
}

/* task.created and the edges to the tasks that block the new one. */
static int created_facts(struct creation *k, struct transaction *tx, struct err *e)
{
	const json_t *blockers = json_object_get(k->params, "blockedBy"), *v;
	const struct scope s = task_scope(&k->d, k->caller);
	const struct requester by = requester_of(k->caller);
	const struct task self = { .d = k->d, .status = TASK_ACCEPTED };
	command_fact_auto struct command_fact command;
	struct task_created made = { .envelope.status = "draft",
				     .title = param_str(k->params, "title"),
				     .objective = param_str(k->params, "objective"),
				     .described = description_of(k->params),
				     .acceptance = json_from_tree(k->acceptance),
				     .deliveryState = json_from_tree(k->delivery),
				     .limits = limits_of(k->params),
				     .bodyHash = k->hash,
				     .fleet = param_json(k->params, "fleet") };
	size_t i;

	command_fact_init(&command, k->command, &s, tx);
	made.run = command_part(&command);
	if (!json_object_get(k->params, "requestedBy"))
		made.described.requestedBy = json_requester(&by);
	if (emit_task_created(tx, s, &made) < 0)
		return err_set(e, ERR_INVALID,
			       "the task is too large for one event: shorten its texts or put them behind refs");
	if (json_array_size(blockers) > 256)
		return err_field(e, "blockedBy", "must have at most 256 tasks");
	json_array_foreach (blockers, i, v) {
		task_auto struct task other = TASK_INIT;
		char field[ERR_FIELD_MAX];

		snprintf(field, sizeof field, "blockedBy[%zu]", i);
		if (task_get(k->engine, json_string_value(v), k->caller, &other, e) < 0) {
			memcpy(e->field, field, sizeof field);
			return -1;
		}
		/*
		 * The new task has no edges in the store yet, so only its parent can close a cycle: the parent waits
		 * for the new task, which must not wait for the parent.
		 */
		if (k->has_parent && task_waits_for(k->engine, other.d.taskId, k->d.parentTaskId))
			return err_at(e, ERR_CONFLICT, field,
				      "that would be a cycle: '%s' waits for the parent '%s', which waits for its "
				      "children",
				      other.d.taskId, k->d.parentTaskId);
		/* A completed task blocks nothing. */
		if (other.status != TASK_COMPLETED)
			task_link_facts(&self, &other, tx, k->caller, "blocked_by", other.d.taskId,
					task_status_ended(other.status) ? "broken" : "active", NULL);
	}
	return 0;
}

static bool is_draft(const json_t *params) { return json_is_true(json_object_get(params, "draft")); }

/* Also its session if it needs a new one, its blockers, and the edge to its parent. */
static int create(struct creation *k, struct transaction *tx, struct err *e)
{
	const struct caller *c = k->caller;

	if (check_creation(k, e) < 0)
		return -1;
	if (k->makes_session)
		session_make(tx, c, "session", NULL, k->d.sessionId);
	if (created_facts(k, tx, e) < 0)
		return -1;
	if (!is_draft(k->params))
		accepted_fact(&k->d, json_object_get(k->params, "owner"), tx, c);
	task_lease_begin(k->engine, k->d.taskId, k->params);
	if (k->has_parent) {
		const struct task self = { .d = k->d };

		task_link_facts(&self, &k->parent, tx, c, "parent", k->d.parentTaskId, "active", NULL);
		EMIT(task_delegated, tx, task_scope(&k->parent.d, c), .delegateKind = "task",
		     .delegateId = k->d.taskId);
	}
	return 0;
}

int task_create_facts(struct transaction *tx, const json_t *params, struct task_doc *ret, struct err *e)
{
	struct creation __attribute__((cleanup(creation_done)))
	k = { .engine = tx->engine, .params = params, .caller = &tx->caller };

	param_hash(params, k.hash);
	id_make(ID_KIND_TASK, k.d.taskId);
	if (create(&k, tx, e) < 0)
		return -1;
	*ret = k.d;
	return 0;
}

void engine_create_task(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
			void *ctx)
{
	struct creation __attribute__((cleanup(creation_done))) k = { .engine = engine, .params = params, .caller = c };
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	task_auto struct task known = TASK_INIT;
	const char *given = param_str(params, "taskId");
	struct err e = ERR_INIT;
	int r = given ? task_read(engine, given, &known, &e) : 1;

	param_hash(params, k.hash);
	id_copy(k.d.taskId, given);
	if (!given)
		id_make(ID_KIND_TASK, k.d.taskId);
	/* The id is taken: a repeated request gets the same reply. */
	if (r == 0 && (strcmp(known.d.bodyHash, k.hash) != 0 || known.d.uid != c->uid))
		err_at(&e, ERR_CONFLICT, "taskId", "taskId '%s' exists already", known.d.uid == c->uid ? given : "…");
	if (r < 0 || e.code || (r > 0 && create(&k, tx, &e) < 0))
		return transaction_reject(tx, &e);
	jw_kstr(&tx->w, "taskId", k.d.taskId);
	jw_kstr(&tx->w, "status", r == 0 ? known.d.status : is_draft(params) ? "draft" : "accepted");
	jw_kstr(&tx->w, "sessionId", r == 0 ? known.d.sessionId : k.d.sessionId);
	transaction_commit(tx);
}

/* ---- update_task ---- */

/* The statuses that a client may set: waiting for something, no longer waiting, and the end of a draft. */
static int check_status(const struct task *t, const char *status, const char *reason, struct err *e)
{
	enum task_status to = task_status_find(status);
	const bool waiting = task_status_class(to) == TASK_CLASS_WAITING;
	const bool works = t->d.attemptOpen && t->status != TASK_PAUSED && t->status != TASK_CANCELLING;

	if (to == TASK_ACCEPTED && t->status == TASK_DRAFT)
		return 0;
	if (to == TASK_RUNNING ? works : waiting && (works || (to == TASK_BLOCKED && !t->d.attemptOpen)))
		return !waiting || reason ? 0 : err_field(e, "reason", "missing; say what the task waits for");
	return err_at(e, ERR_STATE, "status",
		      "task '%s' is %s and cannot become %s: accepted ends a draft; running, waiting_input, "
		      "waiting_permission, waiting_resource and blocked need an attempt in progress",
		      t->d.taskId, t->d.status, status);
}

static void status_fact(const struct task *t, const json_t *params, struct transaction *tx, const struct caller *c)
{
	const char *status = param_str(params, "status"), *reason = param_str(params, "reason"),
		   *blocker = param_str(params, "blockerId"), *kind = blocker ? "named" : "external";
	const struct envelope envelope = { .status = status, .status_reason = reason };
	const struct scope s = task_scope(&t->d, c);

	switch (task_status_find(status)) {
	case TASK_ACCEPTED: accepted_fact(&t->d, json_object_get(params, "owner"), tx, c); break;
	case TASK_RUNNING: EMIT(task_resumed, tx, s, .envelope = envelope, .status = status, .reason = reason); break;
	case TASK_BLOCKED:
		EMIT(task_blocked, tx, s, .envelope = envelope, .blockerKind = kind, .blockerId = blocker,
		     .blocker = JSON_OBJECT(blocker, .kind = kind, .id = blocker, .reason = reason), .reason = reason);
		break;
	default:
		EMIT(task_waiting, tx, s, .envelope = envelope, .status = status, .waitingFor = reason,
		     .reason = reason);
	}
}

#define BLOCKED_BY_ROUTING "routing"

void task_routing_changed(struct transaction *tx, const char *id, const char *reason)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	if (task_read(tx->engine, id, &t, &e) != 0 || !t.d.attemptOpen)
		return;
	const struct scope s = task_scope(&t.d, &tx->caller);
	if (reason && check_status(&t, "blocked", reason, &e) == 0)
		EMIT(task_blocked, tx, s, .envelope = { .status = "blocked", .status_reason = reason },
		     .blockerKind = BLOCKED_BY_ROUTING,
		     .blocker = JSON_OBJECT(blocker, .kind = BLOCKED_BY_ROUTING, .reason = reason), .reason = reason);
	else if (!reason && t.status == TASK_BLOCKED && jval_is_str(jval_get(t.d.blocker, "kind"), BLOCKED_BY_ROUTING))
		EMIT(task_resumed, tx, s, .envelope.status = "running", .status = "running",
		     .reason = "a model can be used again");
}

/* byWorker: an update by the client that works on the task is also a sign of life. */
static int updated_fact(struct engine *engine, const struct task *t, const json_t *params, struct transaction *tx,
			const struct caller *c, struct err *e)
{
	json_auto_t *acceptance = acceptance_of(params, e), *delivery = param_delivery(params, "delivery", e),
		    *command = command_of(params, c),
		    *artifacts = json_object_get(params, "artifacts") ? param_refs(params, "artifacts", "artifactId", e)
								      : NULL;
	const struct scope s = task_scope(&t->d, c);

	if (e->code || (command && command_check(engine, command, c, e) < 0))
		return -1;
	command_fact_auto struct command_fact run;
	command_fact_init(&run, command, &s, tx);
	const struct json_value changes = JSON_OBJECT(
		task_changes, .title = param_str(params, "title"), .objective = param_str(params, "objective"),
		.described = description_of(params), .acceptance = json_from_tree(acceptance),
		.deliveryState = json_from_tree(delivery), .artifacts = json_from_tree(artifacts),
		.limits = limits_of(params), .run = command_part(&run));
	bool by_worker = t->d.attemptOpen && strcmp(t->d.workerKind, "client") == 0;
	if (EMIT(task_updated, tx, s, .changes = changes, .byWorker = by_worker) < 0)
		return err_set(e, ERR_INVALID,
			       "the changes are too large for one event: shorten the texts or put them behind refs");
	return 0;
}

/* A change of members and a change of the status may come in one request. */
void engine_update_task(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
			void *ctx)
{
	static const char *const not_changes[] = { "taskId", "status", "reason", "blockerId", "idempotencyKey" };
	const char *status = param_str(params, "status"), *assigned;
	size_t changes = json_object_size(params);
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < countof(not_changes); i++)
		changes -= json_object_get(params, not_changes[i]) != NULL;
	if (task_get(engine, param_str(params, "taskId"), c, &t, &e) < 0 || task_may(&t, TASK_VERB_UPDATE, &e) < 0 ||
	    check_described(params, &e) < 0 || param_text(params, "reason", TASK_REASON_MAX, &e) < 0 ||
	    (status && check_status(&t, status, param_str(params, "reason"), &e) < 0) ||
	    (changes && updated_fact(engine, &t, params, tx, c, &e) < 0))
		return transaction_reject(tx, &e);
	assigned = param_str(json_object_get(params, "assignee"), "id");
	if (assigned && strlen(assigned) < ID_SIZE)
		EMIT(task_delegated, tx, task_scope(&t.d, c), .delegateKind = "worker", .delegateId = assigned);
	if (status)
		status_fact(&t, params, tx, c);
	if (t.d.attemptOpen)
		task_set_worker(engine, t.d.taskId, c);
	transaction_after_commit(tx, task_part_over, t.d.taskId);
	jw_kstr(&tx->w, "taskId", t.d.taskId);
	jw_kstr(&tx->w, "status", status ? status : t.d.status);
	transaction_commit(tx);
}
