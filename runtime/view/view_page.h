#ifndef BAILIFF_VIEW_PAGE_H
#define BAILIFF_VIEW_PAGE_H

/*
 * One page of a list_* method: {"<plural>":[…],"nextCursor"?:…}, newest first. A call examines a bounded number of
 * documents, so a page may have fewer than `limit` entries and still a cursor.
 */

#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "runtime/view/view_ids.h"

#include <string.h>

#define VIEW_PAGE_IDS 256u         /* read at a time */
#define VIEW_PAGE_SEEN 20000u      /* documents that one call examines */
#define VIEW_PAGE_SEEN_IDS 200000u /* ids, where it compares how they end */
#define VIEW_PAGE_BYTES (4u << 20)

struct view_page;

/* One list_* method. */
struct view_list {
	const char *plural;
	const struct view_schema *schema;
	bool (*matches)(const void *query, const void *doc); /* NULL = all */
	/* Calls view_page_scan; NULL = all documents of the schema. */
	int (*find)(struct view_page *p, struct err *e);
	/* Writes one through `w`, with its stored text in `text`; NULL = as it is stored. */
	int (*write)(struct view_page *p, const void *doc, struct err *e);
	const char *next; /* the member with the cursor of the next page; NULL = nextCursor */
};

struct view_page {
	const struct view_list *list;
	struct store *store;
	uint32_t uid;       /* documents that it may not see are left out */
	unsigned limit;     /* 1 … 1000 */
	const char *cursor; /* NULL = from the newest */
	const void *query;
	/* Set by `find`: ids below `floor` end the list; the page ends at `deadline_ns` (clock_boot_ns, 0 = none). */
	const char *floor;
	uint64_t deadline_ns;

	struct jw w;
	struct buf text;
	unsigned found, seen;
	bool more, below_floor;
	char last[ID_SIZE]; /* examined last: the next cursor */
};

/* Appends the page to `out`, which is untouched on failure. The other parameters are members of struct view_page. */
int view_page_write(const struct view_list *list, struct store *s, uint32_t uid, unsigned limit, const char *cursor,
		    const void *query, struct buf *out, struct err *e);
/* For `find`: until the page is full. `owner`: how keys begin, where they are a list's. May be called several times. */
int view_page_scan(struct view_page *p, struct view_ids_query q, const char *owner, struct err *e);
#define VIEW_PAGE_QUERY(kind_) ((struct view_ids_query){ .kind = kind_, .descending = true, .max = VIEW_PAGE_IDS })
/* The same over the list "<owner>/…". */
int view_page_scan_list(struct view_page *p, enum view_kind kind, const char *owner, struct err *e);
/* Documents whose id a person typed in part: its beginning, with or without `prefix`, or its last ≥ 4 characters. */
int view_page_find_match(struct view_page *p, const char *prefix, const char *match, struct err *e);

/* For `matches`: a filter that is not given matches everything. */
static inline bool view_is(const char *want, const char *value) { return !want || strcmp(want, value) == 0; }

#endif
