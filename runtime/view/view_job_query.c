#include "runtime/view/view_job.h"
#include "runtime/view/view_page.h"
#include "runtime/view/view_write.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/event/id.h"
#include "runtime/store/store.h"

int view_job_piece(struct store *s, const struct job_doc *d, uint64_t piece, struct buf *out, struct err *e)
{
	uint64_t i = 0;

	for (struct jiter it = jiter_on(d->inputRefs); jiter_next(&it); i++) {
		char ref[ID_SIZE] = "";

		if (i != piece)
			continue;
		view_copy_string(ref, jval_get(it.value, "outputRef"));
		return store_output_whole(s, ref, VIEW_JOB_BYTES, out, e) < 0
			       ? err_wrap(e, "read the items of job '%s'", d->jobId)
			       : 0;
	}
	return err_set(e, ERR_CORRUPT, "job '%s' has no items at %llu", d->jobId,
		       (unsigned long long)(piece * VIEW_JOB_PIECE));
}

/* The item as it was given, and its document if it has started. */
static int write_item(struct store *s, const struct job_doc *d, struct jval given, uint64_t index, struct jw *w,
		      struct err *e)
{
	static const char *const kept[] = { "input", "command", "commandLine" };
	buf_auto struct buf text = BUF_INIT;
	char id[ID_SIZE] = "", key[VIEW_JOB_ITEM_KEY_MAX];
	struct job_item_doc item;
	int r;

	view_copy_string(id, jval_get(given, "itemId"));
	view_job_item_key(d->jobId, id, key);
	r = view_read(s, &job_item_schema, key, &text, &item, e);
	if (r < 0)
		return -1;
	if (r == 0) {
		view_write_stored(w, &text);
		if (item.outputRefs.type == JT_NONE)
			jw_kraw(w, "outputRefs", "[]", 2);
	} else {
		jw_obj(w);
		jw_kstr(w, "itemId", id);
		jw_kuint(w, "index", index);
		jw_kstr(w, "status", "pending");
		jw_kuint(w, "attemptCount", 0);
		jw_kraw(w, "outputRefs", "[]", 2);
	}
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		struct jval v = jval_get(given, kept[i]);

		if (v.type != JT_NONE && v.len <= 1024)
			jw_kraw(w, kept[i], v.text, v.len);
	}
	jw_obj_end(w);
	return 0;
}

static void write_progress(const struct job_doc *d, struct jw *w)
{
	uint64_t ended = d->completed + d->failed + d->reported;

	jw_kobj(w, "progress");
	jw_kuint(w, "total", d->itemCount);
	jw_kuint(w, "pending", d->itemCount > ended + d->running ? d->itemCount - ended - d->running : 0);
	jw_kuint(w, "running", d->running);
	jw_kuint(w, "completed", d->completed);
	jw_kuint(w, "failed", d->failed);
	jw_kuint(w, "reported", d->reported);
	jw_obj_end(w);
}

static int write_items(struct store *s, const struct job_doc *d, uint64_t from, unsigned limit, struct jw *w,
		       struct err *e)
{
	buf_auto struct buf piece = BUF_INIT;
	uint64_t index = from, end = from + limit < d->itemCount ? from + limit : d->itemCount;

	jw_karr(w, "items");
	while (index < end && w->buf->len < VIEW_PAGE_BYTES) {
		uint64_t at = index / VIEW_JOB_PIECE * VIEW_JOB_PIECE, before = index;

		buf_reset(&piece);
		if (view_job_piece(s, d, index / VIEW_JOB_PIECE, &piece, e) < 0)
			return -1;
		for (struct jiter it = jiter_on(jval_of(piece.data, piece.len)); index < end && jiter_next(&it); at++)
			if (at == index && write_item(s, d, it.value, index++, w, e) < 0)
				return -1;
		if (index == before)
			return err_set(e, ERR_CORRUPT, "job '%s' has no item %llu", d->jobId,
				       (unsigned long long)index);
	}
	jw_arr_end(w);
	if (index < d->itemCount) {
		char next[24];

		(void)snprintf(next, sizeof(next), "%llu", (unsigned long long)index);
		jw_kstr(w, "nextCursor", next);
	}
	return 0;
}

int view_job(struct store *s, uint32_t uid, const char *job_id, uint64_t from, unsigned limit, struct buf *out,
	     struct err *e)
{
	buf_auto struct buf text = BUF_INIT, whole = BUF_INIT;
	struct jw w = jw_on(&whole);
	struct job_doc d;

	if (limit < 1 || limit > 1000)
		return err_field(e, "limit", "must be 1 to 1000");
	if (view_read_visible(s, &job_schema, uid, "job", job_id, &text, &d, e) < 0)
		return -1;
	view_write_stored(&w, &text);
	write_progress(&d, &w);
	if (write_items(s, &d, from, limit, &w, e) < 0)
		return -1;
	jw_obj_end(&w);
	buf_append(out, whole.data, whole.len);
	return 0;
}

static void write_brief(const struct buf *text, const struct job_doc *d, struct jw *w)
{
	view_write_stored(w, text);
	write_progress(d, w);
	jw_obj_end(w);
}

static int write_listed_job(struct view_page *p, const void *doc, struct err *e)
{
	write_brief(&p->text, doc, &p->w);
	return 0;
}

static bool job_matches(const void *query, const void *doc)
{
	const struct view_job_query *q = query;
	const struct job_doc *d = doc;

	return view_is(q->session_id, d->sessionId) && view_is(q->task_id, d->taskId) && view_is(q->status, d->status);
}

static int find_jobs(struct view_page *p, struct err *e)
{
	const struct view_job_query *q = p->query;

	if (q->live_only)
		return view_page_scan(p, VIEW_PAGE_QUERY(VIEW_LIVE_JOB), "", e);
	if (q->task_id)
		return view_page_scan_list(p, VIEW_TASK_JOB, q->task_id, e);
	if (q->session_id)
		return view_page_scan_list(p, VIEW_SESSION_JOB, q->session_id, e);
	return view_page_scan(p, VIEW_PAGE_QUERY(VIEW_JOB), "", e);
}

int view_jobs(struct store *s, uint32_t uid, const struct view_job_query *q, struct buf *out, struct err *e)
{
	static const struct view_list list = { "jobs", &job_schema, .matches = job_matches, .find = find_jobs,
					       .write = write_listed_job };

	return view_page_write(&list, s, uid, q->limit, q->cursor, q, out, e);
}

int view_jobs_of_session(struct store *s, const char *session_id, struct jw *w, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	struct job_doc d;

	if (view_members(s, VIEW_SESSION_JOB, session_id, VIEW_NEWEST_FIRST, VIEW_WINDOW, &ids, e) < 0)
		return -1;
	jw_karr(w, "jobs");
	for (size_t i = 0; i < ids.n; i++) {
		int r = view_read(s, &job_schema, ids.id[i], &text, &d, e);

		if (r < 0)
			return -1;
		if (r == 0)
			write_brief(&text, &d, w);
	}
	jw_arr_end(w);
	return 0;
}
