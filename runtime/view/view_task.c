/*
 * Tasks. A task's document has everything of bounded size; attempts, edges, jobs and open actions have documents or
 * lists of their own. One table says which event means which status: the engine decides, the projection records.
 */

#include "runtime/view/view_task.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/projections.h"

static const struct {
	const char *name;
	enum task_class class;
} statuses[] = {
#define TASK_STATUS(NAME, name, class) [TASK_##NAME] = { #name, TASK_CLASS_##class },
#include "runtime/view/task_statuses.def"
#undef TASK_STATUS
};

const char *task_status_name(enum task_status s) { return s < TASK_STATUS_COUNT ? statuses[s].name : "unknown"; }

enum task_class task_status_class(enum task_status s)
{
	return s < TASK_STATUS_COUNT ? statuses[s].class : TASK_CLASS_LOST;
}

enum task_status task_status_find(const char *name)
{
	int i = 0;

	while (i < TASK_STATUS_COUNT && strcmp(statuses[i].name, name) != 0)
		i++;
	return (enum task_status)i;
}

/* ---- counts and lists ---- */

/* A counter that returns to 0 is removed, so that the document equals one that never had it. */
static void count_add(struct task_count_doc *d, enum task_status s, bool more)
{
	uint64_t *n = (uint64_t *)d + s;
	uint64_t now = view_add(*n, more ? 1 : -1);

	*n = now ? now : VIEW_ABSENT;
}

/* Moves one task between the counts of a session ('s') or thread ('t'). */
static int count_one(struct models *m, char scope, const char *id, enum task_status before, enum task_status after,
		     struct err *e)
{
	char key[ID_SIZE + 2];
	struct task_count_doc d;

	if (!*id)
		return 0;
	(void)snprintf(key, sizeof(key), "%c/%s", scope, id);
	if (view_load(m, &task_count_schema, key, &d, e) < 0)
		return -1;
	if (before < TASK_STATUS_COUNT)
		count_add(&d, before, false);
	if (after < TASK_STATUS_COUNT)
		count_add(&d, after, true);
	return view_save(m, &task_count_schema, key, &d, e);
}

static int set_member(struct models *m, enum view_kind kind, const char *owner, const char *member, bool there,
		      struct err *e)
{
	return there ? view_list_put(m, kind, owner, member, e) : view_list_del(m, kind, owner, member, e);
}

/* The state before an event, as far as lists and counts depend on it. */
struct before {
	enum task_status status; /* TASK_STATUS_COUNT: there was none */
	char thread[ID_SIZE], queue[VIEW_ORDER_KEY_MAX];
	bool in_queue, has_slot;
};

static bool waits_for_slot(const struct task_doc *d)
{
	return task_doc_status(d) == TASK_QUEUED && strcmp(d->queuedFor, "parallel_limit") == 0;
}

static bool has_slot(const struct task_doc *d)
{
	return d->attemptOpen && (strcmp(d->workerKind, "supervisor") == 0 || strcmp(d->workerKind, "agent") == 0);
}

static struct before before_of(const struct task_doc *d)
{
	struct before b = { .status = d->status[0] ? task_doc_status(d) : TASK_STATUS_COUNT,
			    .in_queue = waits_for_slot(d),
			    .has_slot = has_slot(d) };

	id_copy(b.thread, d->threadId);
	view_order_key(d->queuedAt, b.queue);
	return b;
}

/* Created by the runtime because a fact needs a task: found by its id; only retention has a list of them. */
static bool unlisted(const struct task_doc *d)
{
	return jval_is_str(d->taskKind, "routing") && jval_is_str(d->visibility, "internal");
}

/*
 * Updates counts and lists for the difference between `b` and the document. Each list has one meaning (view.h), so
 * every change of a status ends here.
 */
static int save_status(struct models *m, const struct task_doc *d, const struct before *b, struct err *e)
{
	enum task_status now = task_doc_status(d);
	bool fresh = b->status == TASK_STATUS_COUNT, moved = strcmp(b->thread, d->threadId) != 0;
	char queue[VIEW_ORDER_KEY_MAX];

	view_order_key(d->queuedAt, queue);
	if (now != b->status && count_one(m, 's', d->sessionId, b->status, now, e) < 0)
		return -1;
	if (moved && b->thread[0] &&
	    (count_one(m, 't', b->thread, b->status, TASK_STATUS_COUNT, e) < 0 ||
	     view_list_del(m, VIEW_THREAD_TASK, b->thread, d->taskId, e) < 0))
		return -1;
	if ((moved || now != b->status) &&
	    count_one(m, 't', d->threadId, moved ? TASK_STATUS_COUNT : b->status, now, e) < 0)
		return -1;
	if (fresh && view_list_put(m, VIEW_SESSION_TASK, d->sessionId, d->taskId, e) < 0)
		return -1;
	if (moved && view_list_put(m, VIEW_THREAD_TASK, d->threadId, d->taskId, e) < 0)
		return -1;
	if (set_member(m, VIEW_LIVE_TASK, d->taskId, NULL, !task_status_ended(now), e) < 0 ||
	    set_member(m, VIEW_BLOCKED_TASK, d->sessionId, d->taskId, task_status_class(now) == TASK_CLASS_WAITING, e) <
		    0)
		return -1;
	if (b->in_queue && view_list_del(m, VIEW_TASK_QUEUE, b->queue, d->taskId, e) < 0)
		return -1;
	if (waits_for_slot(d) && view_list_put(m, VIEW_TASK_QUEUE, queue, d->taskId, e) < 0)
		return -1;
	return has_slot(d) == b->has_slot ? 0 : set_member(m, VIEW_TASK_SLOT, d->taskId, NULL, has_slot(d), e);
}

/* ---- projections ---- */

/* The document comes first, because its JSON members point into the stored text, which the lists' writes invalidate. */
static int save_task(struct models *m, const struct task_doc *d, const struct before *b, struct err *e)
{
	bool listed = !unlisted(d); /* before the JSON members become invalid */

	if (view_save(m, &task_schema, d->taskId, d, e) < 0)
		return -1;
	return listed ? save_status(m, d, b, e) : view_list_put(m, VIEW_INTERNAL_TASK, d->sessionId, d->taskId, e);
}

static void copy_uint(struct jval payload, const char *member, uint64_t *ret)
{
	*ret = jval_uint(jval_get(payload, member), *ret);
}

uint64_t task_doc_paused_ms(const struct task_doc *d, uint64_t real_us)
{
	const uint64_t now = d->pausedAt && real_us > d->pausedAt ? (real_us - d->pausedAt) / 1000 : 0;

	return view_counted(d->pausedMs) + now;
}

static void begin_pause(struct task_doc *d, uint64_t real_us)
{
	id_copy(d->pausedFrom, d->status);
	d->pausedAt = real_us;
}

/* No report of the worker was due during the pause. */
static void end_pause(struct task_doc *d, uint64_t real_us)
{
	d->pausedMs = task_doc_paused_ms(d, real_us);
	d->pausedAt = 0;
	d->pausedFrom[0] = '\0';
	if (d->attemptOpen)
		d->lastSeenAt = real_us;
}

/* Enters a status: clears what belonged to the one before, and sets or clears the end. */
static void set_status(struct task_doc *d, const struct event_view *ev, const char *status)
{
	struct jval reason = event_member(ev, "statusReason");
	bool was_paused = strcmp(d->status, "paused") == 0, pauses = strcmp(status, "paused") == 0;

	if (task_status_find(status) == TASK_STATUS_COUNT)
		return;
	if (pauses && !was_paused)
		begin_pause(d, ev->real_us);
	else if (was_paused && !pauses)
		end_pause(d, ev->real_us);
	/* Members that belong to one status are cleared with it; resume_task needs the action of the one before. */
	d->waitingFor = d->blocker = d->statusReason = (struct jval){ 0 };
	d->queuedFor[0] = '\0';
	if (!pauses)
		d->actionId[0] = '\0';
	d->dueAt = d->queuedAt = 0;
	if (reason.type == JT_STRING)
		d->statusReason = reason;
	id_copy(d->status, status);
	d->endedAt = task_status_ended(task_doc_status(d)) ? (d->endedAt ? d->endedAt : ev->real_us) : 0;
}

static void close_attempt(struct task_doc *d)
{
	d->attemptOpen = false;
	d->currentProcessId[0] = '\0';
}

/* The status that an event means; for others it is the payload's, if it has one. */
static const struct {
	enum event_type type;
	const char *status;
} meanings[] = {
	{ EVENT_TASK_CREATED, "draft" },
	{ EVENT_TASK_ACCEPTED, "accepted" },
	{ EVENT_TASK_QUEUED, "queued" },
	{ EVENT_TASK_BLOCKED, "blocked" },
	{ EVENT_TASK_PAUSED, "paused" },
	{ EVENT_TASK_RETRYING, "retrying" },
	{ EVENT_TASK_CANCEL_REQUESTED, "cancelling" },
	{ EVENT_TASK_CANCELLED, "cancelled" },
	{ EVENT_TASK_TIMED_OUT, "timed_out" },
	{ EVENT_TASK_FAILED, "failed" },
	{ EVENT_TASK_LOST, "lost" },
	{ EVENT_TASK_COMPLETED, "completed" },
	{ EVENT_TASK_ARCHIVED, "archived" },
};

/* The engine's decision, taken from the event; unknown statuses change nothing. */
static void project_status(struct task_doc *d, const struct event_view *ev, struct jval payload)
{
	char named[ID_SIZE] = "";

	for (size_t i = 0; i < countof(meanings); i++)
		if (meanings[i].type == ev->type) {
			set_status(d, ev, meanings[i].status);
			return;
		}
	view_copy_string(named, jval_get(payload, "status"));
	if (*named && ev->type != EVENT_TASK_ATTEMPT_FAILED && ev->type != EVENT_TASK_ATTEMPT_COMPLETED)
		set_status(d, ev, named);
}

static void project_created(struct task_doc *d, const struct event_view *ev, struct jval payload)
{
	event_id_copy(ev, ID_THREAD, d->threadId, sizeof(d->threadId));
	event_id_copy(ev, ID_TURN, d->turnId, sizeof(d->turnId));
	event_id_copy(ev, ID_PARENT_TASK, d->parentTaskId, sizeof(d->parentTaskId));
	view_copy_string(d->bodyHash, jval_get(payload, "bodyHash"));
	d->autoComplete = jval_bool(jval_get(payload, "autoComplete"), false);
}

static void project_attempt(struct task_doc *d, const struct event_view *ev, struct jval payload)
{
	event_id_copy(ev, ID_RUN, d->currentRunId, sizeof(d->currentRunId));
	event_id_copy(ev, ID_ATTEMPT, d->currentAttemptId, sizeof(d->currentAttemptId));
	d->currentProcessId[0] = '\0';
	event_id_copy(ev, ID_PROCESS, d->currentProcessId, sizeof(d->currentProcessId));
	view_copy_string(d->workerKind, jval_get(jval_get(payload, "worker"), "kind"));
	copy_uint(payload, "attempt", &d->attemptCount);
	d->attemptOpen = true;
	d->attemptStartedAt = d->lastSeenAt = ev->real_us;
	d->attemptPausedMs = d->pausedMs;
}

/* The new status comes from the table above or, for events that are not in it, from the payload. */
int view_task_on_event(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	struct task_doc d;
	int r = view_open_event(m, &task_schema, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	const struct before b = before_of(&d);
	project_status(&d, ev, payload);
	view_copy_payload(&task_schema, &d, ev);
	copy_uint(payload, "timeoutMs", &d.timeoutMs);
	copy_uint(payload, "idleMs", &d.idleMs);
	copy_uint(payload, "heartbeatMs", &d.heartbeatMs);
	switch (ev->type) {
	case EVENT_TASK_CREATED: project_created(&d, ev, payload); break;
	case EVENT_TASK_QUEUED:
		view_copy_string(d.queuedFor, event_payload_member(ev, "reason"));
		view_copy_time(&d.dueAt, event_payload_member(ev, "dueAt"));
		d.queuedAt = ev->real_us;
		break;
	case EVENT_TASK_RETRYING: view_copy_time(&d.dueAt, event_payload_member(ev, "notBefore")); break;
	case EVENT_TASK_STARTED: d.startedAt = ev->real_us; break;
	case EVENT_TASK_WAITING:
		event_id_copy(ev, ID_ACTION, d.actionId, sizeof(d.actionId));
		view_copy_time(&d.dueAt, event_payload_member(ev, "dueAt"));
		break;
	case EVENT_TASK_ATTEMPT_STARTED: project_attempt(&d, ev, payload); break;
	case EVENT_TASK_ATTEMPT_COMPLETED:
	case EVENT_TASK_ATTEMPT_FAILED: close_attempt(&d); break;
	default: break;
	}
	return save_task(m, &d, &b, e);
}

/* Members are taken from `changes`; of the payload itself only the status and byWorker are used. */
int view_task_on_updated(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval changes = event_payload_member(ev, "changes"), flag = jval_get(changes, "autoComplete");
	char status[ID_SIZE] = "";
	struct task_doc d;
	int r = view_open_event(m, &task_schema, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	const struct before b = before_of(&d);
	view_copy_string(status, event_payload_member(ev, "status"));
	if (*status)
		set_status(&d, ev, status);
	view_copy_members(&task_schema, &d, changes);
	if (jval_get(changes, "command").type == JT_OBJECT || jval_get(changes, "commandRef").type == JT_STRING) {
		d.command = jval_get(changes, "command");
		d.commandRef = jval_get(changes, "commandRef");
	}
	if (event_payload_member(ev, "nativeStatus").type == JT_STRING)
		d.nativeStatus = event_payload_member(ev, "nativeStatus");
	if (flag.type != JT_NONE)
		d.autoComplete = jval_bool(flag, false);
	copy_uint(changes, "timeoutMs", &d.timeoutMs);
	copy_uint(changes, "idleMs", &d.idleMs);
	copy_uint(changes, "heartbeatMs", &d.heartbeatMs);
	if (jval_bool(event_payload_member(ev, "byWorker"), false))
		d.lastSeenAt = ev->real_us;
	return save_task(m, &d, &b, e);
}

/* ---- progress: members of the event replace earlier ones, the others stay ---- */

static const char *const progress_members[] = { "phase",      "percent", "step",       "summary", "counters",
						"outputRefs", "plan",    "validation", "usage" };

static void merge_progress(struct jval old, struct jval payload, uint64_t real_us, struct buf *out)
{
	struct jw w = jw_on(out);
	char at[CLOCK_TEXT_MAX];

	jw_obj(&w);
	for (size_t i = 0; i < countof(progress_members); i++) {
		struct jval v = jval_get(payload, progress_members[i]);

		if (v.type == JT_NONE)
			v = jval_get(old, progress_members[i]);
		if (v.type != JT_NONE)
			jw_kraw(&w, progress_members[i], v.text, v.len);
	}
	clock_format(real_us, at);
	jw_kstr(&w, "updatedAt", at);
	jw_obj_end(&w);
}

/* Does not touch lists or counts: progress is frequent. */
int view_task_on_progress(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev), delivery = event_payload_member(ev, "delivery"),
		    acceptance = event_payload_member(ev, "acceptance");
	buf_auto struct buf merged = BUF_INIT;
	struct task_doc d;
	int r = view_open_event(m, &task_schema, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	merge_progress(d.progress, payload, ev->real_us, &merged);
	d.progress = jval_of(merged.data, merged.len);
	d.progressAt = ev->real_us;
	if (delivery.type == JT_OBJECT)
		d.deliveryState = delivery;
	if (acceptance.type == JT_ARRAY)
		d.acceptance = acceptance;
	/* Progress that the runtime derives from children or job items is not a report of the worker. */
	if (!jval_bool(event_payload_member(ev, "derived"), false))
		d.lastSeenAt = ev->real_us;
	return view_save(m, &task_schema, d.taskId, &d, e);
}

int view_task_on_lease(struct models *m, const struct event_view *ev, struct err *e)
{
	struct task_doc d;
	int r = view_open_event(m, &task_schema, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	const uint64_t until = jval_uint(event_payload_member(ev, "leaseUntil"), 0);
	d.leaseUntil = until ? until : VIEW_ABSENT;
	d.leaseBootId[0] = '\0';
	if (until)
		jval_str(event_payload_member(ev, "bootId"), d.leaseBootId, sizeof(d.leaseBootId));
	return view_save(m, &task_schema, d.taskId, &d, e);
}

/* The supervised attempt has started to run, in this turn. */
int view_task_on_run_status(struct models *m, const struct event_view *ev, struct err *e)
{
	struct task_doc d;
	int r = event_from_client(ev) ? 1 : view_open_event(m, &task_schema, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	const struct before b = before_of(&d);
	if (!jval_is_str(event_payload_member(ev, "phase"), "running") || !d.attemptOpen)
		return 0;
	if (strcmp(d.status, "preparing") == 0 || strcmp(d.status, "waiting_resource") == 0)
		set_status(&d, ev, "running");
	event_id_copy(ev, ID_THREAD, d.threadId, sizeof(d.threadId));
	event_id_copy(ev, ID_TURN, d.turnId, sizeof(d.turnId));
	d.lastSeenAt = ev->real_us;
	return save_task(m, &d, &b, e);
}

/* The open actions of a task. */
int view_task_on_action(struct models *m, const struct event_view *ev, struct err *e)
{
	char task[ID_SIZE], action[ID_SIZE];

	event_id_copy(ev, ID_TASK, task, sizeof(task));
	event_id_copy(ev, ID_ACTION, action, sizeof(action));
	return set_member(m, VIEW_TASK_ACTION, task, action, ev->type == EVENT_ACTION_REQUIRED, e);
}

/* ---- task attempt ---- */

/* A fixed width, so that attempts sort by number. */
void view_attempt_key(const char *task_id, uint64_t attempt, char ret[VIEW_ATTEMPT_KEY_MAX])
{
	(void)snprintf(ret, VIEW_ATTEMPT_KEY_MAX, "%s/%06llu", task_id, (unsigned long long)attempt % 1000000);
}

/* 1 when the event names no attempt. */
static int load_attempt(struct models *m, const struct event_view *ev, char key[VIEW_ATTEMPT_KEY_MAX],
			struct attempt_doc *d, struct err *e)
{
	uint64_t attempt = jval_uint(event_payload_member(ev, "attempt"), 0);
	char task[ID_SIZE];

	event_id_copy(ev, ID_TASK, task, sizeof(task));
	if (!*task || !attempt)
		return 1;
	view_attempt_key(task, attempt, key);
	if (view_load(m, &attempt_schema, key, d, e) < 0)
		return -1;
	d->attempt = attempt;
	event_id_copy(ev, ID_RUN, d->runId, sizeof(d->runId));
	event_id_copy(ev, ID_ATTEMPT, d->attemptId, sizeof(d->attemptId));
	return 0;
}

/* Attempts are numbered from 1. */
int view_task_attempt_on_started(struct models *m, const struct event_view *ev, struct err *e)
{
	char key[VIEW_ATTEMPT_KEY_MAX];
	struct attempt_doc d;
	int r = load_attempt(m, ev, key, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_copy_payload(&attempt_schema, &d, ev);
	view_copy_string(d.status, event_payload_member(ev, "status"));
	event_id_copy(ev, ID_PROCESS, d.processId, sizeof(d.processId));
	d.startedAt = ev->real_us;
	return view_save(m, &attempt_schema, key, &d, e);
}

int view_task_attempt_on_ended(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval summary = event_payload_member(ev, "summary");
	char key[VIEW_ATTEMPT_KEY_MAX];
	struct attempt_doc d;
	int r = load_attempt(m, ev, key, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_copy_payload(&attempt_schema, &d, ev);
	if (summary.type == JT_STRING)
		d.completionSummary = summary;
	id_copy(d.status, ev->type == EVENT_TASK_ATTEMPT_COMPLETED ? "completed" : "failed");
	view_copy_string(d.status, event_payload_member(ev, "status"));
	d.endedAt = ev->real_us;
	return view_save(m, &attempt_schema, key, &d, e);
}

/* Only the reports of the runtime count. */
int view_task_attempt_on_run_status(struct models *m, const struct event_view *ev, struct err *e)
{
	char key[VIEW_ATTEMPT_KEY_MAX];
	struct attempt_doc d;
	int r = event_from_client(ev) ? 1 : load_attempt(m, ev, key, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (d.endedAt)
		return 0;
	view_copy_string(d.status, event_payload_member(ev, "phase"));
	event_id_copy(ev, ID_PROCESS, d.processId, sizeof(d.processId));
	event_id_copy(ev, ID_THREAD, d.threadId, sizeof(d.threadId));
	event_id_copy(ev, ID_TURN, d.turnId, sizeof(d.turnId));
	return view_save(m, &attempt_schema, key, &d, e);
}

/*
 * Edges between tasks and to other things. Each end has its own document (the event is written for both), so either
 * can be read without the other. A removed edge has no document, only its events.
 */

void view_edge_key(const char *task_id, const char *kind, const char *target, char ret[VIEW_EDGE_KEY_MAX])
{
	(void)snprintf(ret, VIEW_EDGE_KEY_MAX, "%s/%s%s%s", task_id, kind ? kind : "", kind ? "/" : "",
		       target ? target : "");
}

/* A counter at 0 is absent. */
static void change_count(uint64_t *count, int by)
{
	uint64_t n = view_add(*count, by);

	*count = n ? n : VIEW_ABSENT;
}

/* Updates a task's counts of children after the status of a child edge changed ("" = no edge). */
static int count_child(struct models *m, const char *task, const char *before, const char *after, struct err *e)
{
	bool was = *before != '\0', is = *after != '\0';
	bool was_done = strcmp(before, "satisfied") == 0, is_done = strcmp(after, "satisfied") == 0;
	bool was_over = was && strcmp(before, "active") != 0, is_over = is && strcmp(after, "active") != 0;
	struct task_doc d;
	int r = view_load(m, &task_schema, task, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	change_count(&d.childCount, is - was);
	change_count(&d.childrenCompleted, is_done - was_done);
	change_count(&d.childrenEnded, is_over - was_over);
	return view_save(m, &task_schema, task, &d, e);
}

static int set_parent(struct models *m, const char *task, const char *parent, struct err *e)
{
	struct task_doc d;
	int r = view_load(m, &task_schema, task, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	id_copy(d.parentTaskId, parent);
	return view_save(m, &task_schema, task, &d, e);
}

/* Also maintains the parent's counts of children and the child's parent. */
int view_task_edge_on_updated(struct models *m, const struct event_view *ev, struct err *e)
{
	char task[ID_SIZE], kind[ID_SIZE] = "", target[ID_SIZE] = "", before[ID_SIZE], after[ID_SIZE] = "active",
			    key[VIEW_EDGE_KEY_MAX];
	struct edge_doc d;
	int r;

	event_id_copy(ev, ID_TASK, task, sizeof(task));
	view_copy_string(kind, event_payload_member(ev, "kind"));
	view_copy_string(target, event_payload_member(ev, "targetId"));
	view_copy_string(after, event_payload_member(ev, "status"));
	if (!*task || !*kind || !*target)
		return 0;
	view_edge_key(task, kind, target, key);
	if (view_load(m, &edge_schema, key, &d, e) < 0)
		return -1;
	memcpy(before, d.status, sizeof(before));
	if (strcmp(after, "removed") == 0) {
		after[0] = '\0';
		r = models_del(m, VIEW_TASK_EDGE, key, strlen(key), e) < 0 ? -1 : 0;
	} else {
		id_copy(d.kind, kind);
		id_copy(d.targetId, target);
		id_copy(d.status, after);
		if (event_payload_member(ev, "reason").type == JT_STRING)
			d.reason = event_payload_member(ev, "reason");
		d.createdAt = d.createdAt ? d.createdAt : ev->real_us;
		d.updatedAt = ev->real_us;
		r = view_save(m, &edge_schema, key, &d, e);
	}
	if (r == 0 && strcmp(kind, "child") == 0)
		r = count_child(m, task, before, after, e);
	if (r == 0 && strcmp(kind, "parent") == 0)
		r = set_parent(m, task, *after ? target : "", e);
	return r;
}
