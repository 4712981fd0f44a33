#ifndef BAILIFF_VIEW_PAGE_H
#define BAILIFF_VIEW_PAGE_H

/*
 * One page of a list_* method: {"<plural>":[…],"nextCursor"?:…}, newest first. A call looks at a bounded number of
 * documents, so a page may hold fewer than `limit` and still have a cursor.
 */

#include "runtime/base/jw.h"
#include "runtime/view/view_ids.h"

#define VIEW_PAGE_IDS 256u         /* read at a time */
#define VIEW_PAGE_SEEN 20000u      /* documents that one call looks at */
#define VIEW_PAGE_SEEN_IDS 200000u /* ids, where it looks for how they end */
#define VIEW_PAGE_BYTES (4u << 20)

struct view_page {
	struct store *store;
	unsigned limit;     /* 1 … 1000 */
	const char *cursor; /* NULL = from the newest */
	/* Writes the document of this id through `w`: 1; 0 = it is not wanted; −1. */
	int (*give)(struct view_page *p, void *ctx, const char *id, struct err *e);
	void *ctx;

	struct jw w;
	unsigned found, seen;
	bool more;
	char last[VIEW_ID_MAX]; /* looked at last: the next cursor */
};

int view_page_check(unsigned limit, const char *cursor, struct err *e);
void view_page_begin(struct view_page *p, const char *plural, struct buf *out);
/* Goes through the ids until the page is full; `owner`: how keys begin, where they are a list's. Several may follow
 * each other. */
int view_page_scan(struct view_page *p, struct view_ids_query q, const char *owner, struct err *e);
void view_page_end(struct view_page *p);

#endif
