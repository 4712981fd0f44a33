/*
 * Pages of the list_* methods. Ids are collected in portions; each document is read, checked against the uid and the
 * filter, and written. A page ends at its limit, after VIEW_PAGE_SEEN documents or after VIEW_PAGE_BYTES, whichever
 * comes first, so that a filter that matches nothing cannot block the loop thread; the cursor continues where it
 * ended.
 */

#include "runtime/view/view_page.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/event/id.h"
#include "runtime/view/view_documents.h"

static bool is_full(const struct view_page *p)
{
	return p->found == p->limit || p->seen == VIEW_PAGE_SEEN || p->w.buf->len > VIEW_PAGE_BYTES ||
	       (p->deadline_ns && p->seen && clock_boot_ns() > p->deadline_ns);
}

/* Counts and writes a document if the uid may see it and it matches. */
static int write_document(struct view_page *p, const char *id, struct err *e)
{
	_Alignas(max_align_t) char doc[VIEW_DOCUMENT_MAX];
	int r = view_read(p->store, p->list->schema, id, &p->text, doc, e);

	if (r || !view_is_visible(p->list->schema, doc, p->uid) ||
	    (p->list->matches && !p->list->matches(p->query, doc)))
		return r < 0 ? -1 : 0;
	p->found++;
	if (p->list->write)
		return p->list->write(p, doc, e);
	jw_raw(&p->w, p->text.data, p->text.len);
	return 0;
}

static int write_all(struct view_page *p, const struct view_ids *ids, struct err *e)
{
	for (size_t i = 0; i < ids->n; i++) {
		if (p->floor && strcmp(ids->id[i], p->floor) < 0) {
			p->below_floor = true;
			return 0;
		}
		if (is_full(p)) {
			p->more = true;
			return 0;
		}
		p->seen++;
		id_copy(p->last, ids->id[i]);
		if (write_document(p, ids->id[i], e) < 0)
			return -1;
	}
	return 0;
}

/* Continues at the cursor, if there is one, and sets p->more when documents are left. */
int view_page_scan(struct view_page *p, struct view_ids_query q, const char *owner, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	char after[VIEW_KEY_MAX + ID_SIZE], last[VIEW_KEY_MAX];
	int more;

	if (p->cursor) {
		(void)snprintf(after, sizeof(after), "%s%s", owner, p->cursor);
		q.after = after;
	}
	do {
		more = view_ids(p->store, &q, &ids, last, e);
		if (more < 0 || write_all(p, &ids, e) < 0)
			return -1;
		memcpy(after, last, sizeof(last));
		q.after = after;
	} while (more && !p->more && !p->below_floor && ids.n && !is_full(p));
	/* A full page that ends with the last id of a read: there may be more. */
	if (more && !p->below_floor)
		p->more = true;
	return 0;
}

int view_page_scan_list(struct view_page *p, enum view_kind kind, const char *owner, struct err *e)
{
	struct view_ids_query q = VIEW_PAGE_QUERY(kind);
	char prefix[VIEW_KEY_MAX];

	(void)snprintf(prefix, sizeof(prefix), "%s/", owner);
	q.prefix = prefix;
	return view_page_scan(p, q, prefix, e);
}

/* The beginning is found by a prefix scan; the end of an id only by comparing all of them. */
int view_page_find_match(struct view_page *p, const char *prefix, const char *match, struct err *e)
{
	struct view_ids_query q = VIEW_PAGE_QUERY(p->list->schema->kind);
	char whole[VIEW_KEY_MAX];

	(void)snprintf(whole, sizeof(whole), "%s%s", prefix, match);
	const char *const starts[] = { match, whole };
	for (size_t i = 0; i < 2; i++) {
		q.prefix = starts[i];
		if (view_page_scan(p, q, "", e) < 0)
			return -1;
		if (p->found || p->more)
			return 0;
	}
	if (strlen(match) < 4)
		return 0;
	q.prefix = NULL;
	q.ending = match;
	q.max_seen = VIEW_PAGE_SEEN_IDS;
	return view_page_scan(p, q, "", e);
}

/* Checks limit and cursor, runs the list's `find`, and appends the page when it is complete. */
int view_page_write(const struct view_list *list, struct store *s, uint32_t uid, unsigned limit, const char *cursor,
		    const void *query, struct buf *out, struct err *e)
{
	struct view_page p = { .list = list, .store = s, .uid = uid, .limit = limit, .cursor = cursor, .query = query };
	buf_auto struct buf page = BUF_INIT;

	if (limit < 1 || limit > 1000)
		return err_field(e, "limit", "must be 1 to 1000");
	if (cursor && !id_valid(cursor, strlen(cursor)))
		return err_field(e, "cursor", "not an id: 1 to %d of A-Z a-z 0-9 _ - . :", ID_GIVEN_MAX);
	p.w = jw_on(&page);
	jw_obj(&p.w);
	jw_karr(&p.w, list->plural);
	int r = list->find ? list->find(&p, e) : view_page_scan(&p, VIEW_PAGE_QUERY(list->schema->kind), "", e);
	buf_done(&p.text);
	if (r < 0)
		return -1;
	jw_arr_end(&p.w);
	if (p.more && p.last[0])
		jw_kstr(&p.w, list->next ? list->next : "nextCursor", p.last);
	jw_obj_end(&p.w);
	buf_append(out, page.data, page.len);
	return 0;
}
