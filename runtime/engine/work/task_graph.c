/*
 * Edges. An edge between two tasks is written for both, under the two names of its kind. Two kinds make one task wait
 * for another: `blocked_by`, and a parent's children (the parent is not complete before they have ended). Together
 * these must not form a cycle; the check follows both kinds.
 */

#include "runtime/engine/work/task_private.h"

#define WALK_MOST 20000u  /* tasks visited by the search for a cycle */
#define UPDATE_MOST 500u  /* edges updated in one commit */
#define COUNTERS_MS 1000u /* minimum interval between facts that only count children */

static const struct edge_kind {
	const char *name, *reverse; /* reverse: the kind's name at the other end; NULL = only this end keeps it */
	bool task;                  /* the target is a task */
	int waits;                  /* 1 = this end waits for the target, −1 = the target waits for this end */
} kinds[] = {
	{ "parent", "child", true, -1 },         { "child", "parent", true, 1 },
	{ "blocks", "blocked_by", true, -1 },    { "blocked_by", "blocks", true, 1 },
	{ "source_task", NULL, true, 0 },        { "source_attempt", NULL, false, 0 },
	{ "spawned_subagent", NULL, false, 0 },  { "assigned_thread", NULL, false, 0 },
	{ "produced_artifact", NULL, false, 0 }, { "consumed_artifact", NULL, false, 0 },
	{ "evidence", NULL, false, 0 },
};

static const struct edge_kind *kind_find(const char *name)
{
	for (size_t i = 0; i < countof(kinds); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

/* ---- walking ---- */

struct edge_list {
	struct edge_at {
		char target[ID_SIZE], status[32];
	} * at;
	size_t n, cap;
};

static bool collect_edge(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct edge_list *l = ctx;
	struct jval doc = jval_of(json, len);

	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 8;
		l->at = mem_realloc(l->at, l->cap * sizeof *l->at);
	}
	jval_str(jval_get(doc, "targetId"), l->at[l->n].target, sizeof l->at[l->n].target);
	jval_str(jval_get(doc, "status"), l->at[l->n].status, sizeof l->at[l->n].status);
	l->n++;
	return true;
}

static void edges_of(struct engine *engine, const char *task_id, const char *kind, struct edge_list *ret)
{
	char prefix[VIEW_EDGE_KEY_MAX];
	struct err e = ERR_INIT;

	view_edge_key(task_id, kind, NULL, prefix);
	if (store_model_scan_speculative(engine->o.store, VIEW_TASK_EDGE, prefix, collect_edge, ret, &e) < 0)
		log_error("read the edges of task %s: %s", task_id, e.message);
}

void task_each_edge(struct engine *engine, const char *task_id, const char *kind, task_edge_fn fn, void *ctx)
{
	struct edge_list l = { 0 };

	edges_of(engine, task_id, kind, &l);
	for (size_t i = 0; i < l.n && fn(ctx, l.at[i].target, l.at[i].status); i++)
		;
	free(l.at);
}

/* The tasks that `from` waits for or descends from, transitively; true if `to` is among them. */
struct graph_walk {
	struct engine *engine;
	struct strmap seen;
	char (*todo)[ID_SIZE];
	size_t n, cap;
};

/* Bounded: a graph that is larger than the limit is searched in part, and the search ends. */
static bool walk_add(void *ctx, const char *target, const char *status)
{
	struct graph_walk *w = ctx;

	if (strmap_get(&w->seen, target) || w->seen.count >= WALK_MOST)
		return true;
	strmap_put(&w->seen, target, w);
	if (w->n == w->cap) {
		w->cap = w->cap ? 2 * w->cap : 16;
		w->todo = mem_realloc(w->todo, w->cap * sizeof *w->todo);
	}
	id_copy(w->todo[w->n++], target);
	return true;
}

/*
 * Depth-first search with an explicit stack. With `waits` it follows the edges that make a task wait, else the
 * origins.
 */
static bool leads_to(struct engine *engine, const char *from, const char *to, bool waits)
{
	struct graph_walk w = { .engine = engine };

	walk_add(&w, from, "");
	while (w.n > 0 && !strmap_get(&w.seen, to)) {
		char id[ID_SIZE];
		memcpy(id, w.todo[--w.n], sizeof id);
		if (waits) {
			task_each_edge(engine, id, "blocked_by", walk_add, &w);
			task_each_edge(engine, id, "child", walk_add, &w);
		} else {
			task_each_edge(engine, id, "source_task", walk_add, &w);
		}
	}
	bool found = strmap_get(&w.seen, to) != NULL;
	strmap_done(&w.seen);
	free(w.todo);
	return found;
}

bool task_waits_for(struct engine *engine, const char *from, const char *to)
{
	return leads_to(engine, from, to, true);
}

/* The levels of children below a task: 0 = it has none. */
static int levels_below(struct engine *engine, const char *task_id)
{
	struct graph_walk w = { .engine = engine };
	int levels = -1;

	walk_add(&w, task_id, "");
	/* One level in each round: the next one is collected behind the present one. */
	for (size_t at = 0, end; at < w.n; at = end, levels++) {
		end = w.n;
		for (size_t i = at; i < end; i++) {
			char id[ID_SIZE];
			memcpy(id, w.todo[i], sizeof id); /* walk_add may move the list */
			task_each_edge(engine, id, "child", walk_add, &w);
		}
	}
	strmap_done(&w.seen);
	free(w.todo);
	return levels;
}

/* Counts the ancestors of the parent; the caller knows how many levels are below. */
int task_check_depth(struct engine *engine, const struct task *parent, int below, struct err *e)
{
	task_auto struct task up = TASK_INIT;
	char id[ID_SIZE];
	int above = 0;

	id_copy(id, parent->d.parentTaskId);
	for (; id[0] && above < TASK_DEPTH_MAX && task_read(engine, id, &up, e) == 0; above++)
		id_copy(id, up.d.parentTaskId);
	return above + below >= TASK_DEPTH_MAX
		       ? err_field(e, "parentTaskId", "tasks may be nested %d deep", TASK_DEPTH_MAX)
		       : 0;
}

/* ---- facts ---- */

void task_edge_fact(const struct task_doc *d, struct transaction *tx, const struct caller *c, const char *kind,
		    const char *target, const char *status, const char *reason)
{
	EMIT(task_dependency_updated, tx, task_scope(d, c), .kind = kind, .targetId = target, .status = status,
	     .reason = reason);
}

/* Writes the edge at both ends, in one batch. */
void task_link_facts(const struct task *t, const struct task *other, struct transaction *tx, const struct caller *c,
		     const char *kind, const char *target, const char *status, const char *reason)
{
	const struct edge_kind *k = kind_find(kind);

	task_edge_fact(&t->d, tx, c, kind, target, status, reason);
	if (k->reverse && other)
		task_edge_fact(&other->d, tx, c, k->reverse, t->d.taskId, status, reason);
}

/* ---- link_tasks and unlink_tasks ---- */

/*
 * Checks an edge from `t` to the target: the target exists, there is no cycle, and a child has one parent and is not
 * nested too deep, with everything below it.
 */
static int check_link(struct engine *engine, const struct task *t, const struct edge_kind *k, const char *target,
		      const struct caller *c, struct task *ret_other, struct err *e)
{
	if (!k->task)
		return 0;
	if (task_get(engine, target, c, ret_other, e) < 0) {
		snprintf(e->field, sizeof e->field, "targetId");
		return -1;
	}
	/* An edge "waiter waits for awaited" closes a cycle if the awaited task already leads to the waiter. */
	const char *waiter = k->waits >= 0 ? t->d.taskId : target, *awaited = k->waits >= 0 ? target : t->d.taskId;
	if (strcmp(t->d.taskId, target) == 0 || leads_to(engine, awaited, waiter, k->waits != 0))
		return err_at(e, ERR_CONFLICT, "targetId", "that would be a cycle: '%s' already leads to '%s'", awaited,
			      waiter);
	const bool to_parent = strcmp(k->name, "parent") == 0;
	if (!to_parent && strcmp(k->name, "child") != 0)
		return 0;
	const struct task *child = to_parent ? t : ret_other, *parent = to_parent ? ret_other : t;
	if (child->d.parentTaskId[0])
		return err_set(e, ERR_CONFLICT, "task '%s' has a parent already: '%s'; unlink that first",
			       child->d.taskId, child->d.parentTaskId);
	if (task_check_depth(engine, parent, levels_below(engine, child->d.taskId), e) < 0) {
		snprintf(e->field, sizeof e->field, "targetId");
		return -1;
	}
	return task_may(parent, TASK_VERB_ADD, e);
}

static void edge_result(struct transaction *tx, const struct task *t, const char *kind, const char *target,
			const char *status)
{
	jw_kstr(&tx->w, "taskId", t->d.taskId);
	jw_kstr(&tx->w, "kind", kind);
	jw_kstr(&tx->w, "targetId", target);
	jw_kstr(&tx->w, "status", status);
	transaction_commit(tx);
}

/* Without the edge, the task may start, or its cancellation may have nothing to wait for. */
static void reconsider_both(struct engine *engine, const char *task_id)
{
	task_reconsider(engine, task_id);
	task_part_over(engine, task_id);
}

void engine_link_tasks(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
		       void *ctx)
{
	const char *kind = param_str(params, "kind"), *target = param_str(params, "targetId"), *status = "active";
	const struct edge_kind *k = kind_find(kind);
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	task_auto struct task t = TASK_INIT, other = TASK_INIT;
	struct err e = ERR_INIT;

	if (!k)
		err_field(&e, "kind", "no edge is called '%.40s'", kind);
	if (e.code || param_text(params, "reason", TASK_REASON_MAX, &e) < 0 ||
	    task_get(engine, param_str(params, "taskId"), c, &t, &e) < 0 || task_may(&t, TASK_VERB_LINK, &e) < 0 ||
	    check_link(engine, &t, k, target, c, &other, &e) < 0)
		return transaction_reject(tx, &e);
	/* The awaited task may have ended before. */
	const struct task *awaited = k->waits > 0 ? &other : k->waits < 0 ? &t : NULL;
	if (awaited && task_status_ended(awaited->status))
		status = awaited->status == TASK_COMPLETED ? "satisfied" : "broken";
	task_link_facts(&t, k->task ? &other : NULL, tx, c, kind, target, status, param_str(params, "reason"));
	edge_result(tx, &t, kind, target, "active");
}

/* Possible in every status. The other end may be gone; then only this end is updated. */
void engine_unlink_tasks(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
			 void *ctx)
{
	const char *kind = param_str(params, "kind"), *target = param_str(params, "targetId");
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	task_auto struct task t = TASK_INIT, other = TASK_INIT;
	buf_auto struct buf text = BUF_INIT;
	char key[VIEW_EDGE_KEY_MAX];
	struct edge_doc edge;
	struct err e = ERR_INIT;

	const struct edge_kind *k = kind_find(kind);
	if (!k)
		err_field(&e, "kind", "no edge is called '%.40s'", kind);
	if (e.code || param_text(params, "reason", TASK_REASON_MAX, &e) < 0 ||
	    task_get(engine, param_str(params, "taskId"), c, &t, &e) < 0)
		return transaction_reject(tx, &e);
	view_edge_key(t.d.taskId, kind, target, key);
	int r = view_read_speculative(engine->o.store, &edge_schema, key, &text, &edge, &e);
	if (r > 0)
		err_at(&e, ERR_NOT_FOUND, "targetId", "task '%s' has no edge %s to '%s'", t.d.taskId, kind, target);
	if (r != 0)
		return transaction_reject(tx, &e);
	bool both = k->task && task_read(engine, target, &other, &e) == 0;
	task_link_facts(&t, both ? &other : NULL, tx, c, kind, target, "removed", param_str(params, "reason"));
	transaction_after_commit(tx, reconsider_both, t.d.taskId);
	if (both)
		transaction_after_commit(tx, reconsider_both, target);
	edge_result(tx, &t, kind, target, "removed");
}

/* ---- waiting and releasing ---- */

enum task_wait task_blockers(struct engine *engine, const char *task_id, char ret_blocker[ID_SIZE])
{
	enum task_wait worst = TASK_WAIT_NOTHING;
	struct edge_list l = { 0 };

	ret_blocker[0] = '\0';
	edges_of(engine, task_id, "blocked_by", &l);
	for (size_t i = 0; i < l.n; i++) {
		enum task_wait w = strcmp(l.at[i].status, "satisfied") == 0 ? TASK_WAIT_NOTHING
				   : strcmp(l.at[i].status, "broken") == 0  ? TASK_WAIT_BROKEN
									    : TASK_WAIT_UNFINISHED;

		/* Keep the worst: broken over unfinished over satisfied. */
		if (w > worst) {
			worst = w;
			id_copy(ret_blocker, l.at[i].target);
		}
	}
	free(l.at);
	return worst;
}

void task_reconsider(struct engine *engine, const char *task_id)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;
	char blocker[ID_SIZE];

	/* An attempt in progress is not interrupted by a change of its blockers. */
	if (task_read(engine, task_id, &t, &e) != 0 || t.d.attemptOpen)
		return;
	bool queued = t.status == TASK_QUEUED && strcmp(t.d.queuedFor, "blocked_by") == 0;
	bool blocked = t.status == TASK_BLOCKED && jval_is_str(jval_get(t.d.blocker, "kind"), "task");
	enum task_wait w = queued || blocked ? task_blockers(engine, task_id, blocker) : TASK_WAIT_UNFINISHED;
	/*
	 * Only a change is reported: a queued task is released or becomes blocked, a blocked task is queued or
	 * released.
	 */
	if ((queued && w != TASK_WAIT_UNFINISHED) || (blocked && w != TASK_WAIT_BROKEN))
		modules_due(engine, DUE_TASK_START, task_id);
}

bool task_has_open_child(struct engine *engine, const char *task_id, char ret_child[ID_SIZE])
{
	struct edge_list l = { 0 };

	ret_child[0] = '\0';
	edges_of(engine, task_id, "child", &l);
	for (size_t i = 0; i < l.n && !ret_child[0]; i++)
		if (strcmp(l.at[i].status, "active") == 0)
			id_copy(ret_child, l.at[i].target);
	free(l.at);
	return ret_child[0] != '\0';
}

/*
 * Updates the edges of this kind at both ends, now that the task has ended; then checks the tasks at the other ends.
 */
static void update_edges(struct engine *engine, const struct task *t, const char *kind)
{
	const bool completed = t->status == TASK_COMPLETED, to_parent = strcmp(kind, "parent") == 0;
	const char *status = completed ? "satisfied" : "broken", *reverse = kind_find(kind)->reverse;
	struct edge_list l = { 0 };
	size_t updated = 0, from = 0;

	edges_of(engine, t->d.taskId, kind, &l);
	while (from < l.n) {
		struct transaction *tx = transaction_new_internal(engine);
		for (updated = 0; from < l.n && updated < UPDATE_MOST; from++) {
			task_auto struct task other = TASK_INIT;
			struct err e = ERR_INIT;
			if (strcmp(l.at[from].status, status) == 0 ||
			    task_read(engine, l.at[from].target, &other, &e) != 0)
				continue;
			task_edge_fact(&other.d, tx, NULL, reverse, t->d.taskId, status, t->d.status);
			task_edge_fact(&t->d, tx, NULL, kind, l.at[from].target, status, NULL);
			updated++;
			if (!to_parent || strcmp(l.at[from].status, "active") != 0 || task_status_ended(other.status))
				continue;
			/* The parent's progress: at a limited rate, but always when the last child has ended. */
			const uint64_t all = view_counted(other.d.childCount),
				       ended = view_counted(other.d.childrenEnded) + 1;
			if (ended >= all || engine_real(engine) >= other.d.progressAt + COUNTERS_MS * 1000)
				EMIT(task_progress, tx, task_scope(&other.d, NULL),
				     .counters = JSON_OBJECT(
					     child_counters, .children = all,
					     .childrenCompleted = view_counted(other.d.childrenCompleted) + completed,
					     .childrenEnded = ended),
				     .derived = true);
		}
		transaction_commit(tx);
	}
	for (size_t i = 0; i < l.n; i++) {
		task_reconsider(engine, l.at[i].target);
		task_part_over(engine, l.at[i].target);
	}
	free(l.at);
}

/* Archived tasks have updated their edges when they ended. */
void task_notify_edges(struct engine *engine, const char *task_id)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	if (task_read(engine, task_id, &t, &e) != 0 || !task_status_ended(t.status) || t.status == TASK_ARCHIVED)
		return;
	update_edges(engine, &t, "blocks");
	update_edges(engine, &t, "parent");
}
