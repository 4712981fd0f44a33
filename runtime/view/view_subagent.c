/*
 * Subagents. A subagent is listed under its session, its parent's thread and its task; VIEW_LIVE_SUBAGENT has those
 * that have not ended. A resumed subagent is the same document with its end cleared.
 */

#include "runtime/view/view_subagent.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/store/store.h"
#include "runtime/view/projections.h"
#include "runtime/view/view_page.h"

#include <string.h>

#define SHOWN 50u
/* Bounds of one reply; the depth also ends a recursion that follows ids in documents. */
#define DESCENDANTS_MAX 1000u
#define DEPTH_MAX 32u

/* ---- projections ---- */

/* Also called for events that do not end it: a resumed subagent is live again. */
bool subagent_list_live(struct projection *p, void *doc)
{
	const struct subagent_doc *d = doc;

	projection_list(p, !subagent_doc_ended(d), VIEW_LIVE_SUBAGENT, d->subagentId, NULL);
	return true;
}

/* For status and end. */
static bool set_reason(struct projection *p, struct subagent_doc *d)
{
	d->statusReason = event_member(p->event, "statusReason");
	if (p->event->ids[ID_PROCESS].text)
		event_id_copy(p->event, ID_PROCESS, d->processId, sizeof d->processId);
	return subagent_list_live(p, d);
}

bool subagent_on_status(struct projection *p, void *doc)
{
	struct subagent_doc *d = doc;

	if (jval_bool(event_payload_member(p->event, "resumed"), false)) {
		d->resumes = view_add(d->resumes, 1);
		d->endedAt = 0;
		d->exitCode = d->category = d->outcome = d->outputRefs = (struct jval){ 0 };
	}
	return set_reason(p, d);
}

bool subagent_on_ended(struct projection *p, void *doc)
{
	struct subagent_doc *d = doc;

	d->closing = false;
	return set_reason(p, d);
}

/* ---- for readers ---- */

void subagent_json(const struct subagent_doc *d, struct jw *w)
{
	jw_obj(w);
	view_write_members(w, &subagent_schema, d,
			   "subagentId status statusReason role nickname parentSessionId=sessionId parentThreadId "
			   "parentTurnId threadId taskId processId isolation modelPolicy category exitCode outcome "
			   "outputRefs");
	for (struct jiter it = jiter_on(d->outputRefs); jiter_next(&it);) {
		struct jval ref = jval_get(it.value, "outputRef");
		if (ref.type == JT_STRING) { /* standard output, which most callers want */
			jw_kraw(w, "outputRef", ref.text, ref.len);
			break;
		}
	}
	view_write_members(w, &subagent_schema, d, "lastMessageRef");
	jw_kbool(w, "supervised", d->supervised);
	view_write_members(w, &subagent_schema, d, "closing");
	jw_kuint(w, "inputs", view_counted(d->inputs));
	jw_kuint(w, "resumes", view_counted(d->resumes));
	jw_kbool(w, "resumable", subagent_doc_ended(d) && (!d->supervised || d->start.type == JT_OBJECT));
	view_write_members(w, &subagent_schema, d, "uid spawnedAt updatedAt endedAt");
	jw_obj_end(w);
}

/* 1: there is no such subagent, or the page's uid may not see it. */
static int write_subagent(struct view_page *p, const char *id, struct subagent_doc *d, struct err *e)
{
	int r = view_read(p->store, &subagent_schema, id, &p->text, d, e);

	if (r || !view_is_visible(&subagent_schema, d, p->uid))
		return r < 0 ? -1 : 1;
	subagent_json(d, &p->w);
	p->found++;
	return 0;
}

/* The children of a thread, each followed by its own if `descendants`. */
static int write_tree(struct view_page *p, const char *thread_id, bool descendants, unsigned depth, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;

	if (view_members(p->store, VIEW_THREAD_SUBAGENT, thread_id, VIEW_NEWEST_FIRST, DESCENDANTS_MAX, &ids, e) < 0)
		return -1;
	for (size_t i = 0; i < ids.n && p->found < p->limit; i++) {
		struct subagent_doc d;
		int r = write_subagent(p, ids.id[i], &d, e);

		if (r < 0 || (r == 0 && descendants && depth < DEPTH_MAX && d.threadId[0] &&
			      write_tree(p, d.threadId, true, depth + 1, e) < 0))
			return -1;
	}
	return 0;
}

static int write_listed_subagent(struct view_page *p, const void *doc, struct err *e)
{
	subagent_json(doc, &p->w);
	return 0;
}

static int find_subagents(struct view_page *p, struct err *e)
{
	const struct view_subagent_query *q = p->query;

	if (q->parent_thread_id)
		return write_tree(p, q->parent_thread_id, q->descendants, 0, e);
	if (q->session_id)
		return view_page_scan_list(p, VIEW_SESSION_SUBAGENT, q->session_id, e);
	return view_page_scan(p, VIEW_PAGE_QUERY(VIEW_SUBAGENT), "", e);
}

int view_subagents(struct store *s, uint32_t uid, const struct view_subagent_query *q, struct buf *out, struct err *e)
{
	static const struct view_list list = { "subagents", &subagent_schema, .find = find_subagents,
					       .write = write_listed_subagent };

	return view_page_write(&list, s, uid, q->limit, q->cursor, q, out, e);
}

int view_write_subagents(struct store *s, const char *session_id, const char *thread_id, struct jw *w, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc d;

	if (view_members(s, thread_id ? VIEW_THREAD_SUBAGENT : VIEW_SESSION_SUBAGENT,
			 thread_id ? thread_id : session_id, VIEW_NEWEST_FIRST, SHOWN, &ids, e) < 0)
		return -1;
	jw_arr(w);
	for (size_t i = 0; i < ids.n; i++) {
		int r = view_read(s, &subagent_schema, ids.id[i], &text, &d, e);

		if (r < 0)
			return -1;
		if (r == 0)
			subagent_json(&d, w);
	}
	jw_arr_end(w);
	return 0;
}
