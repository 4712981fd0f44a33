/*
 * Edges between tasks and to other things. Each end has its own document (the event is written for both), so either
 * can be read without the other. A removed edge has no document, only its events.
 */

#include "runtime/view/projections.h"
#include "runtime/view/view_task.h"

#include "runtime/store/store.h"

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

int view_task_edge_on_updated(struct models *m, const struct event_view *ev, struct err *e)
{
	char task[ID_SIZE], kind[ID_SIZE] = "", target[ID_SIZE] = "", before[ID_SIZE], after[ID_SIZE] = "active",
			    key[VIEW_EDGE_KEY_MAX];
	struct jval payload = event_payload(ev);
	struct edge_doc d;
	int r;

	event_id_copy(ev, ID_TASK, task, sizeof(task));
	view_copy_string(kind, jval_get(payload, "kind"));
	view_copy_string(target, jval_get(payload, "targetId"));
	view_copy_string(after, jval_get(payload, "status"));
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
		if (jval_get(payload, "reason").type == JT_STRING)
			d.reason = jval_get(payload, "reason");
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
