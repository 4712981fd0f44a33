#ifndef BAILIFF_VIEW_TASK_H
#define BAILIFF_VIEW_TASK_H

/* Statuses of tasks, keys of attempts and edges, and what clients read (view_task_query.c). */

#include "runtime/view/view_documents.h"

enum task_status {
#define TASK_STATUS(NAME, name, class) TASK_##NAME,
#include "runtime/view/task_statuses.def"
#undef TASK_STATUS
	TASK_STATUS_COUNT
};
enum task_class {
	TASK_CLASS_ACTIVE,
	TASK_CLASS_WAITING,
	TASK_CLASS_FAILED,
	TASK_CLASS_LOST,
	TASK_CLASS_DONE,
	TASK_CLASS_COUNT
};

const char *task_status_name(enum task_status s);
enum task_status task_status_find(const char *name); /* TASK_STATUS_COUNT: unknown */
enum task_class task_status_class(enum task_status s);
static inline bool task_status_ended(enum task_status s) { return task_status_class(s) >= TASK_CLASS_FAILED; }

/* How long the task has been paused, until `real_us`. */
uint64_t task_doc_paused_ms(const struct task_doc *d, uint64_t real_us);
/* The same of a stored one; "" = no task, which is never paused. */
int view_task_paused_ms(struct store *s, const char *task_id, uint64_t real_us, uint64_t *ret, struct err *e);

static inline enum task_status task_doc_status(const struct task_doc *d) { return task_status_find(d->status); }

/* The key of an attempt: "<taskId>/<number>", in order. */
#define VIEW_ATTEMPT_KEY_MAX (ID_SIZE + 16)
void view_attempt_key(const char *task_id, uint64_t attempt, char ret[VIEW_ATTEMPT_KEY_MAX]);

#define VIEW_EDGE_KEY_MAX (3 * ID_SIZE)
/* "<taskId>/<kind>/<targetId>"; kind and target may be NULL: the prefix of all, or of all of a kind. */
void view_edge_key(const char *task_id, const char *kind, const char *target, char ret[VIEW_EDGE_KEY_MAX]);

/* ---- for clients and snapshots ---- */

struct jw;
/* The whole record: the document with its attempts, relationships, jobs and open actions. Valid as the snapshot
 * schema's task. */
int view_task(struct store *s, uint32_t uid, const char *task_id, struct buf *out, struct err *e);
struct view_task_query {
	const char *session_id, *thread_id, *parent_id, *status; /* NULL = any */
	const char *match; /* NULL, or typed by a person: the start of the id, with or without "task_", or its end */
	bool live_only;
	unsigned limit; /* 1 … 1000 */
	const char *cursor;
};
int view_tasks(struct store *s, uint32_t uid, const struct view_task_query *q, struct buf *out, struct err *e);
/* `"tasks":[…],"taskSummary":{…},"taskGraph":{…},"blockedTasks":[…]` of a session or a thread, in an object that is
 * open. */
int view_tasks_of_session(struct store *s, const char *session_id, struct jw *w, struct err *e);
int view_tasks_of_thread(struct store *s, const char *thread_id, struct jw *w, struct err *e);
/* The task_snapshot of get_snapshot: one task, or the tasks of a session or thread. Exactly one id is given. */
int view_snapshot_task(struct store *s, uint32_t uid, const char *session_id, const char *thread_id,
		       const char *task_id, struct buf *out, struct err *e);

#endif
