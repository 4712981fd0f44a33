#include "runtime/view/view_sandbox.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/store/store.h"
#include "runtime/view/view_page.h"
#include "runtime/view/view_write.h"

#define RUNNING_SHOWN 200u

/* The start or end of its newest command; without one, its own beginning. */
static int last_used(struct store *s, const struct sandbox_doc *d, uint64_t *ret, struct err *e)
{
	view_ids_auto struct view_ids newest = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	struct process_doc p;

	*ret = d->createdAt;
	if (view_members(s, VIEW_SANDBOX_PROCESS, d->sandboxId, VIEW_NEWEST_FIRST, 1, &newest, e) < 0)
		return -1;
	int r = newest.n ? view_read(s, &process_schema, newest.id[0], &text, &p, e) : 1;
	if (r == 0)
		*ret = p.endedAt ? p.endedAt : p.startedAt;
	return r < 0 ? -1 : 0;
}

static int write_use(struct store *s, const struct sandbox_doc *d, struct jw *w, struct err *e)
{
	view_ids_auto struct view_ids running = VIEW_IDS_INIT;
	uint64_t used;

	if (last_used(s, d, &used, e) < 0 ||
	    view_members(s, VIEW_SANDBOX_RUNNING, d->sandboxId, VIEW_OLDEST_FIRST, RUNNING_SHOWN, &running, e) < 0)
		return -1;
	view_write_time(w, "lastUsedAt", used);
	jw_karr(w, "processes");
	for (size_t i = 0; i < running.n; i++)
		jw_str(w, running.id[i]);
	jw_arr_end(w);
	return 0;
}

int view_sandbox(struct store *s, uint32_t uid, const char *sandbox_id, struct buf *out, struct err *e)
{
	buf_auto struct buf text = BUF_INIT, whole = BUF_INIT;
	struct jw w = jw_on(&whole);
	struct sandbox_doc d;

	if (view_read_visible(s, &sandbox_schema, uid, "sandboxId", sandbox_id, &text, &d, e) < 0)
		return -1;
	view_write_stored(&w, &text);
	if (write_use(s, &d, &w, e) < 0)
		return -1;
	jw_obj_end(&w);
	buf_append(out, whole.data, whole.len);
	return 0;
}

static bool sandbox_matches(const void *query, const void *doc)
{
	const struct view_sandbox_query *q = query;
	const struct sandbox_doc *d = doc;

	return view_is(q->session_id, d->sessionId) && (q->closed || !d->closedAt);
}

static int write_listed_sandbox(struct view_page *p, const void *doc, struct err *e)
{
	jw_obj(&p->w);
	view_write_members(&p->w, &sandbox_schema, doc,
			   "sandboxId name status processId sessionId bound profile cow idleMs createdBy createdAt "
			   "closedAt reason message running uid");
	if (write_use(p->store, doc, &p->w, e) < 0)
		return -1;
	jw_obj_end(&p->w);
	return 0;
}

static int find_sandboxes(struct view_page *p, struct err *e)
{
	const struct view_sandbox_query *q = p->query;

	if (!q->closed)
		return view_page_scan(p, VIEW_PAGE_QUERY(VIEW_LIVE_SANDBOX), "", e);
	if (q->session_id)
		return view_page_scan_list(p, VIEW_SESSION_SANDBOX, q->session_id, e);
	return view_page_scan(p, VIEW_PAGE_QUERY(VIEW_SANDBOX), "", e);
}

int view_sandboxes(struct store *s, uint32_t uid, const struct view_sandbox_query *q, struct buf *out, struct err *e)
{
	static const struct view_list list = { "sandboxes", &sandbox_schema, .matches = sandbox_matches,
					       .find = find_sandboxes, .write = write_listed_sandbox };

	return view_page_write(&list, s, uid, q->limit, q->cursor, q, out, e);
}

int view_checkpoints(struct store *s, bool (*fn)(void *ctx, const char *checkpoint_id), void *ctx, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	const struct view_ids_query q = { .kind = VIEW_SANDBOX, .max = SIZE_MAX };

	if (view_ids(s, &q, &ids, NULL, e) < 0)
		return -1;
	for (size_t i = 0; i < ids.n; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct sandbox_doc d;
		char id[ID_SIZE];
		int r = view_read(s, &sandbox_schema, ids.id[i], &text, &d, e);

		if (r < 0)
			return -1;
		if (r > 0)
			continue;
		for (struct jiter it = jiter_on(d.checkpoints); jiter_next(&it);) {
			jval_str(jval_get(it.value, "checkpointId"), id, sizeof id);
			if (!fn(ctx, id))
				return 0;
		}
	}
	return 0;
}
