/*
 * Edges. An edge between two tasks is written for both, under the two names of its kind. Two kinds make one task wait
 * for another: `blocked_by`, and a parent's children (the parent is not complete before they have ended). Together
 * these must not form a cycle; the check follows both kinds.
 */

#include "runtime/engine/work/task_private.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"

#define WALK_MOST 20000u  /* tasks visited by the search for a cycle */
#define TELL_MOST 500u    /* edges updated in one commit */
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

bool task_edge_known(const char *kind) { return kind_find(kind) != NULL; }

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

static void edges_of(struct engine *g, const char *task_id, const char *kind, struct edge_list *ret)
{
	char prefix[VIEW_EDGE_KEY_MAX];
	struct err e = ERR_INIT;

	view_edge_key(task_id, kind, NULL, prefix);
	if (store_model_scan_speculative(g->o.store, VIEW_TASK_EDGE, prefix, collect_edge, ret, &e) < 0)
		log_error("read the edges of task %s: %s", task_id, e.message);
}

void task_each_edge(struct engine *g, const char *task_id, const char *kind, task_edge_fn fn, void *ctx)
{
	struct edge_list l = { 0 };

	edges_of(g, task_id, kind, &l);
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
static bool leads_to(struct engine *g, const char *from, const char *to, bool waits)
{
	struct graph_walk w = { .engine = g };

	walk_add(&w, from, "");
	while (w.n > 0 && !strmap_get(&w.seen, to)) {
		char id[ID_SIZE];
		memcpy(id, w.todo[--w.n], sizeof id);
		if (waits) {
			task_each_edge(g, id, "blocked_by", walk_add, &w);
			task_each_edge(g, id, "child", walk_add, &w);
		} else {
			task_each_edge(g, id, "source_task", walk_add, &w);
		}
	}
	bool found = strmap_get(&w.seen, to) != NULL;
	strmap_done(&w.seen);
	free(w.todo);
	return found;
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

static int check_parent(struct engine *g, const struct task *child, const struct task *parent, struct err *e)
{
	task_auto struct task up = TASK_INIT;
	char id[ID_SIZE];
	int depth = 0;

	if (child->d.parentTaskId[0])
		return err_set(e, ERR_CONFLICT, "task '%s' has a parent already: '%s'; unlink that first",
			       child->d.taskId, child->d.parentTaskId);
	id_copy(id, parent->d.parentTaskId);
	/* Bounds the depth. Only the ancestors of the parent are counted, not the levels below the child. */
	for (; id[0] && depth < TASK_DEPTH_MAX && task_read(g, id, &up, e) == 0; depth++)
		id_copy(id, up.d.parentTaskId);
	return depth >= TASK_DEPTH_MAX ? err_set(e, ERR_INVALID, "tasks may be nested %d deep", TASK_DEPTH_MAX)
				       : task_may(parent, TASK_VERB_ADD, e);
}

int task_link_check(struct engine *g, const struct task *t, const char *kind, const char *target,
		    const struct caller *c, struct task *ret_other, struct err *e)
{
	const struct edge_kind *k = kind_find(kind);

	if (!k->task)
		return 0;
	if (task_get(g, target, c, ret_other, e) < 0) {
		snprintf(e->field, sizeof e->field, "targetId");
		return -1;
	}
	/* An edge "waiter waits for awaited" closes a cycle if the awaited task already leads to the waiter. */
	const char *waiter = k->waits >= 0 ? t->d.taskId : target, *awaited = k->waits >= 0 ? target : t->d.taskId;
	if (strcmp(t->d.taskId, target) == 0 || leads_to(g, awaited, waiter, k->waits != 0)) {
		err_set(e, ERR_CONFLICT, "that would be a cycle: '%s' already leads to '%s'", awaited, waiter);
		snprintf(e->field, sizeof e->field, "targetId");
		return -1;
	}
	if (strcmp(kind, "parent") == 0)
		return check_parent(g, t, ret_other, e);
	return strcmp(kind, "child") == 0 ? check_parent(g, ret_other, t, e) : 0;
}

static int check_edge(const json_t *params, struct err *e)
{
	const char *kind = param_str(params, "kind");

	if (!task_edge_known(kind))
		return err_field(e, "kind", "no edge is called '%.40s'", kind);
	return param_text(params, "reason", TASK_REASON_MAX, e);
}

/* The status of a new edge: the awaited task may have ended before. */
static const char *status_of_target(const struct edge_kind *k, const struct task *t, const struct task *other)
{
	const struct task *awaited = k->waits > 0 ? other : k->waits < 0 ? t : NULL;

	if (!awaited || !task_status_ended(awaited->status))
		return "active";
	return awaited->status == TASK_COMPLETED ? "satisfied" : "broken";
}

static void reconsider_both(struct engine *g, const char *task_id)
{
	task_reconsider(g, task_id);
	task_cancel_due(g, task_id);
}

void engine_link_tasks(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn, void *ctx)
{
	const char *kind = param_str(params, "kind"), *target = param_str(params, "targetId");
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	task_auto struct task t = TASK_INIT, other = TASK_INIT;
	struct err e = ERR_INIT;

	if (check_edge(params, &e) < 0 || task_get(g, param_str(params, "taskId"), c, &t, &e) < 0 ||
	    task_may(&t, TASK_VERB_LINK, &e) < 0 || task_link_check(g, &t, kind, target, c, &other, &e) < 0) {
		transaction_reject(tx, &e);
		return;
	}
	const struct edge_kind *k = kind_find(kind);
	task_link_facts(&t, k->task ? &other : NULL, tx, c, kind, target, status_of_target(k, &t, &other),
			param_str(params, "reason"));
	jw_kstr(&tx->w, "taskId", t.d.taskId);
	jw_kstr(&tx->w, "kind", kind);
	jw_kstr(&tx->w, "targetId", target);
	jw_kstr(&tx->w, "status", "active");
	transaction_commit(tx);
}

void engine_unlink_tasks(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn, void *ctx)
{
	const char *kind = param_str(params, "kind"), *target = param_str(params, "targetId");
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	task_auto struct task t = TASK_INIT, other = TASK_INIT;
	buf_auto struct buf text = BUF_INIT;
	char key[VIEW_EDGE_KEY_MAX];
	struct edge_doc edge;
	struct err e = ERR_INIT;

	if (check_edge(params, &e) < 0 || task_get(g, param_str(params, "taskId"), c, &t, &e) < 0) {
		transaction_reject(tx, &e);
		return;
	}
	view_edge_key(t.d.taskId, kind, target, key);
	int r = view_read_speculative(g->o.store, &edge_schema, key, &text, &edge, &e);
	if (r != 0) {
		if (r > 0)
			err_set(&e, ERR_NOT_FOUND, "task '%s' has no edge %s to '%s'", t.d.taskId, kind, target);
		transaction_reject(tx, &e);
		return;
	}
	const struct edge_kind *k = kind_find(kind);
	bool both = k->task && task_read(g, target, &other, &e) == 0;
	task_link_facts(&t, both ? &other : NULL, tx, c, kind, target, "removed", param_str(params, "reason"));
	transaction_after_commit(tx, reconsider_both, t.d.taskId);
	if (both)
		transaction_after_commit(tx, reconsider_both, target);
	jw_kstr(&tx->w, "taskId", t.d.taskId);
	jw_kstr(&tx->w, "kind", kind);
	jw_kstr(&tx->w, "targetId", target);
	jw_kstr(&tx->w, "status", "removed");
	transaction_commit(tx);
}

/* ---- waiting and releasing ---- */

struct blockers {
	enum task_wait wait;
	char id[ID_SIZE];
};

static bool check_blocker(void *ctx, const char *target, const char *status)
{
	struct blockers *b = ctx;
	enum task_wait w = strcmp(status, "satisfied") == 0 ? TASK_WAIT_NOTHING
			   : strcmp(status, "broken") == 0  ? TASK_WAIT_BROKEN
							    : TASK_WAIT_UNFINISHED;

	/* Keep the worst: broken over unfinished over satisfied. */
	if (w > b->wait) {
		b->wait = w;
		id_copy(b->id, target);
	}
	return w != TASK_WAIT_BROKEN;
}

enum task_wait task_blockers(struct engine *g, const char *task_id, char ret_blocker[ID_SIZE])
{
	struct blockers b = { TASK_WAIT_NOTHING, "" };

	task_each_edge(g, task_id, "blocked_by", check_blocker, &b);
	memcpy(ret_blocker, b.id, ID_SIZE);
	return b.wait;
}

void task_reconsider(struct engine *g, const char *task_id)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;
	char blocker[ID_SIZE];

	/* An attempt in progress is not interrupted by a change of its blockers. */
	if (task_read(g, task_id, &t, &e) != 0 || t.d.attemptOpen)
		return;
	bool queued = t.status == TASK_QUEUED && strcmp(t.d.queuedFor, "blocked_by") == 0;
	bool blocked = t.status == TASK_BLOCKED && jval_is_str(jval_get(t.d.blocker, "kind"), "task");
	enum task_wait w = queued || blocked ? task_blockers(g, task_id, blocker) : TASK_WAIT_UNFINISHED;
	/*
	 * Only a change is reported: a queued task is released or becomes blocked, a blocked task is queued or
	 * released.
	 */
	if ((queued && w != TASK_WAIT_UNFINISHED) || (blocked && w != TASK_WAIT_BROKEN))
		modules_due(g, DUE_TASK_START, task_id);
}

static bool find_open(void *ctx, const char *target, const char *status)
{
	if (strcmp(status, "active") != 0)
		return true;
	id_copy(ctx, target);
	return false;
}

bool task_has_open_child(struct engine *g, const char *task_id, char ret_child[ID_SIZE])
{
	ret_child[0] = '\0';
	task_each_edge(g, task_id, "child", find_open, ret_child);
	return ret_child[0] != '\0';
}

/* Updates the parent's progress: at a limited rate, but always when the last child has ended. */
static void count_children(struct engine *g, const struct task *parent, bool completed, struct transaction *tx)
{
	uint64_t all = parent->d.childCount == VIEW_ABSENT ? 0 : parent->d.childCount;
	uint64_t ended = (parent->d.childrenEnded == VIEW_ABSENT ? 0 : parent->d.childrenEnded) + 1;
	uint64_t done = (parent->d.childrenCompleted == VIEW_ABSENT ? 0 : parent->d.childrenCompleted) + completed;
	const struct scope s = task_scope(&parent->d, NULL);

	if (task_status_ended(parent->status))
		return; /* it makes no more progress */
	if (ended < all && engine_real(g) < parent->d.progressAt + COUNTERS_MS * 1000)
		return;
	EMIT(task_progress, tx, s,
	     .counters = JSON_OBJECT(child_counters, .children = all, .childrenCompleted = done,
				     .childrenEnded = ended),
	     .derived = true);
}

/*
 * Updates the edges of this kind at both ends, now that the task has ended; then checks the tasks at the other ends.
 */
static void update_edges(struct engine *g, const struct task *t, const char *kind)
{
	const char *status = t->status == TASK_COMPLETED ? "satisfied" : "broken", *reverse = kind_find(kind)->reverse;
	struct edge_list l = { 0 };
	size_t told = 0, from = 0;

	edges_of(g, t->d.taskId, kind, &l);
	for (size_t i = 0; i < l.n; i = from) {
		struct transaction *tx = transaction_new_internal(g);
		for (told = 0; from < l.n && told < TELL_MOST; from++) {
			task_auto struct task other = TASK_INIT;
			struct err e = ERR_INIT;
			if (strcmp(l.at[from].status, status) == 0 || task_read(g, l.at[from].target, &other, &e) != 0)
				continue;
			task_edge_fact(&other.d, tx, NULL, reverse, t->d.taskId, status, t->d.status);
			task_edge_fact(&t->d, tx, NULL, kind, l.at[from].target, status, NULL);
			if (strcmp(kind, "parent") == 0 && strcmp(l.at[from].status, "active") == 0)
				count_children(g, &other, t->status == TASK_COMPLETED, tx);
			told++;
		}
		transaction_commit(tx);
	}
	for (size_t i = 0; i < l.n; i++) {
		task_reconsider(g, l.at[i].target);
		task_cancel_due(g, l.at[i].target);
	}
	free(l.at);
}

void task_notify_edges(struct engine *g, const char *task_id)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	if (task_read(g, task_id, &t, &e) != 0 || !task_status_ended(t.status) || t.status == TASK_ARCHIVED)
		return;
	update_edges(g, &t, "blocks");
	update_edges(g, &t, "parent");
}
