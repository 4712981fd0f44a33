#include "runtime/view/view_subagent.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/projections.h"
#include "runtime/view/view_ids.h"
#include "runtime/view/view_write.h"

#include <string.h>

#define SHOWN 50u
#define DESCENDANTS_MAX 1000u
#define DEPTH_MAX 32u

/* ---- projections ---- */

bool subagent_list_live(struct projection *p, void *doc)
{
	const struct subagent_doc *d = doc;

	projection_list(p, !subagent_doc_ended(d), VIEW_LIVE_SUBAGENT, d->subagentId, NULL);
	return true;
}

/* What a status and an end have in common. */
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

	if (jval_bool(jval_get(p->payload, "resumed"), false)) {
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
	jw_kstr(w, "subagentId", d->subagentId);
	jw_kstr(w, "status", d->status);
	view_write_json(w, "statusReason", d->statusReason);
	view_write_json(w, "role", d->role);
	view_write_json(w, "nickname", d->nickname);
	jw_kstr(w, "parentSessionId", d->sessionId);
	view_write_word(w, "parentThreadId", d->parentThreadId);
	view_write_word(w, "parentTurnId", d->parentTurnId);
	view_write_word(w, "threadId", d->threadId);
	view_write_word(w, "taskId", d->taskId);
	view_write_word(w, "processId", d->processId);
	view_write_json(w, "isolation", d->isolation);
	view_write_json(w, "modelPolicy", d->modelPolicy);
	view_write_json(w, "category", d->category);
	view_write_json(w, "exitCode", d->exitCode);
	view_write_json(w, "outcome", d->outcome);
	view_write_json(w, "outputRefs", d->outputRefs);
	for (struct jiter it = jiter_on(d->outputRefs); jiter_next(&it);) {
		struct jval ref = jval_get(it.value, "outputRef");
		if (ref.type == JT_STRING) { /* its standard output: what most ask for */
			jw_kraw(w, "outputRef", ref.text, ref.len);
			break;
		}
	}
	view_write_json(w, "lastMessageRef", d->lastMessageRef);
	jw_kbool(w, "supervised", d->supervised);
	if (d->closing)
		jw_kbool(w, "closing", true);
	jw_kuint(w, "inputs", view_counted(d->inputs));
	jw_kuint(w, "resumes", view_counted(d->resumes));
	jw_kbool(w, "resumable", subagent_doc_ended(d) && (!d->supervised || d->start.type == JT_OBJECT));
	jw_kuint(w, "uid", d->uid);
	view_write_time(w, "spawnedAt", d->spawnedAt);
	view_write_time(w, "updatedAt", d->updatedAt);
	view_write_time(w, "endedAt", d->endedAt);
	jw_obj_end(w);
}

struct listing {
	struct store *store;
	struct jw *w;
	uint32_t uid;
	unsigned limit, given;
	struct buf text;
};

static int give(struct listing *l, const char *id, struct subagent_doc *d, struct err *e)
{
	int r = view_read(l->store, &subagent_schema, id, &l->text, d, e);

	if (r)
		return r;
	if (l->uid != VIEW_ANY_UID && d->uid != l->uid)
		return 1;
	subagent_json(d, l->w);
	l->given++;
	return 0;
}

static int give_tree(struct listing *l, const char *thread_id, bool descendants, unsigned depth, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	char prefix[VIEW_KEY_MAX];
	const struct view_ids_query q = {
		.kind = VIEW_THREAD_SUBAGENT, .prefix = prefix, .descending = true, .max = DESCENDANTS_MAX
	};

	snprintf(prefix, sizeof prefix, "%s/", thread_id);
	if (view_ids(l->store, &q, &ids, NULL, e) < 0)
		return -1;
	for (size_t i = 0; i < ids.n && l->given < l->limit; i++) {
		struct subagent_doc d;
		int r = give(l, ids.id[i], &d, e);

		if (r < 0)
			return -1;
		if (r == 0 && descendants && d.threadId[0] && depth < DEPTH_MAX) {
			char child[VIEW_ID_MAX];

			memcpy(child, d.threadId, sizeof child);
			if (give_tree(l, child, true, depth + 1, e) < 0)
				return -1;
		}
	}
	return 0;
}

static int give_page(struct listing *l, const struct view_subagent_query *q, bool *more, char last[VIEW_KEY_MAX],
		     struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	char prefix[VIEW_KEY_MAX], after[VIEW_KEY_MAX];
	struct view_ids_query page = { .kind = q->session_id ? VIEW_SESSION_SUBAGENT : VIEW_SUBAGENT,
				       .descending = true,
				       .max = q->limit };

	if (q->session_id) {
		snprintf(prefix, sizeof prefix, "%s/", q->session_id);
		page.prefix = prefix;
	}
	if (q->cursor) {
		snprintf(after, sizeof after, "%s%s%s", q->session_id ? q->session_id : "", q->session_id ? "/" : "",
			 q->cursor);
		page.after = after;
	}
	int r = view_ids(l->store, &page, &ids, NULL, e);
	if (r < 0)
		return -1;
	*more = r > 0 && ids.n;
	if (ids.n)
		snprintf(last, VIEW_KEY_MAX, "%s", ids.id[ids.n - 1]);
	for (size_t i = 0; i < ids.n; i++) {
		struct subagent_doc d;

		if (give(l, ids.id[i], &d, e) < 0)
			return -1;
	}
	return 0;
}

int view_subagents(struct store *s, uint32_t uid, const struct view_subagent_query *q, struct buf *out, struct err *e)
{
	struct jw w = jw_on(out);
	struct listing l = { .store = s, .w = &w, .uid = uid, .limit = q->limit };
	char last[VIEW_KEY_MAX] = "";
	bool more = false;

	if (q->limit < 1 || q->limit > 1000)
		return err_field(e, "limit", "must be 1 to 1000");
	if (q->cursor && !id_valid(q->cursor, strlen(q->cursor)))
		return err_field(e, "cursor", "not a cursor of this method");
	jw_obj(&w);
	jw_karr(&w, "subagents");
	int r = q->parent_thread_id ? give_tree(&l, q->parent_thread_id, q->descendants, 0, e)
				    : give_page(&l, q, &more, last, e);
	buf_done(&l.text);
	if (r < 0)
		return -1;
	jw_arr_end(&w);
	if (more)
		jw_kstr(&w, "nextCursor", last);
	jw_obj_end(&w);
	return 0;
}

int view_write_subagents(struct store *s, const char *session_id, const char *thread_id, struct jw *w, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	char prefix[VIEW_KEY_MAX];
	const struct view_ids_query q = { .kind = thread_id ? VIEW_THREAD_SUBAGENT : VIEW_SESSION_SUBAGENT,
					  .prefix = prefix,
					  .descending = true,
					  .max = SHOWN };
	struct listing l = { .store = s, .w = w, .uid = VIEW_ANY_UID, .limit = SHOWN };
	int r = 0;

	snprintf(prefix, sizeof prefix, "%s/", thread_id ? thread_id : session_id);
	if (view_ids(s, &q, &ids, NULL, e) < 0)
		return -1;
	jw_arr(w);
	for (size_t i = 0; i < ids.n && r >= 0; i++) {
		struct subagent_doc d;

		r = give(&l, ids.id[i], &d, e);
	}
	jw_arr_end(w);
	buf_done(&l.text);
	return r < 0 ? -1 : 0;
}
