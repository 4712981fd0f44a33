#include "runtime/view/view_page.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/event/id.h"

#include <string.h>

int view_page_check(unsigned limit, const char *cursor, struct err *e)
{
	if (limit < 1 || limit > 1000)
		return err_field(e, "limit", "must be 1 to 1000");
	if (cursor && !id_valid(cursor, strlen(cursor)))
		return err_field(e, "cursor", "not an id: 1 to %d of A-Z a-z 0-9 _ - . :", ID_GIVEN_MAX);
	return 0;
}

void view_page_begin(struct view_page *p, const char *plural, struct buf *out)
{
	p->w = jw_on(out);
	jw_obj(&p->w);
	jw_karr(&p->w, plural);
}

static bool full(const struct view_page *p)
{
	return p->found == p->limit || p->seen == VIEW_PAGE_SEEN || p->w.buf->len > VIEW_PAGE_BYTES;
}

static int give_all(struct view_page *p, const struct view_ids *ids, struct err *e)
{
	for (size_t i = 0; i < ids->n; i++) {
		if (full(p)) {
			p->more = true;
			return 0;
		}
		p->seen++;
		view_set_string(p->last, ids->id[i]);
		int r = p->give(p, p->ctx, ids->id[i], e);
		if (r < 0)
			return -1;
		p->found += (unsigned)r;
	}
	return 0;
}

int view_page_scan(struct view_page *p, struct view_ids_query q, const char *owner, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	char after[VIEW_KEY_MAX + VIEW_ID_MAX], last[VIEW_KEY_MAX];
	int more;

	if (p->cursor) {
		(void)snprintf(after, sizeof(after), "%s%s", owner, p->cursor);
		q.after = after;
	}
	do {
		more = view_ids(p->store, &q, &ids, last, e);
		if (more < 0 || give_all(p, &ids, e) < 0)
			return -1;
		memcpy(after, last, sizeof(last));
		q.after = after;
	} while (more && !p->more && ids.n && !full(p));
	/* A full page that ends with the last id of a read: there may be more. */
	if (more)
		p->more = true;
	return 0;
}

void view_page_end(struct view_page *p)
{
	jw_arr_end(&p->w);
	if (p->more && p->last[0])
		jw_kstr(&p->w, "nextCursor", p->last);
	jw_obj_end(&p->w);
}
