#ifndef BAILIFF_VIEW_IDS_H
#define BAILIFF_VIEW_IDS_H

/* Ids of documents or of a list's members: collected first, so that documents are read outside the scan. */

#include "runtime/view/view_codec.h"

struct view_ids {
	char (*id)[ID_SIZE]; /* of a list "<owner>/<member>": the member */
	size_t n;
};

#define VIEW_IDS_INIT ((struct view_ids){ 0 })
void view_ids_done(struct view_ids *v);
#define view_ids_auto __attribute__((cleanup(view_ids_done)))

struct view_ids_query {
	enum view_kind kind;
	const char *prefix; /* of the whole key; NULL = all ("<owner>/" for a list) */
	const char *after;  /* a whole key; NULL = from the end where the scan starts */
	const char *ending; /* NULL, or the end of the id */
	bool descending;
	size_t max;      /* collected */
	size_t max_seen; /* examined; 0 = max */
};
/*
 * Replaces *ret. 0 = the scan reached its end, 1 = there is more: continue after *ret_last (VIEW_KEY_MAX bytes, the
 * last key examined; may be NULL).
 */
#define VIEW_KEY_MAX (4 * ID_SIZE + 32)
int view_ids(struct store *s, const struct view_ids_query *q, struct view_ids *ret, char *ret_last, struct err *e);

/*
 * Also reads batches that are submitted and not durable yet, for decisions. The members of "<owner>/…", or with owner
 * NULL all documents of the kind; at most `max`, in the order of their keys.
 */
int view_ids_speculative(struct store *s, enum view_kind kind, const char *owner, size_t max, struct view_ids *ret,
			 struct err *e);

/*
 * The members of the list "<owner>/…", at most `max`: the newest first, or the oldest. 0 = these are all, 1 = there are
 * more.
 */
enum view_order { VIEW_NEWEST_FIRST, VIEW_OLDEST_FIRST };
int view_members(struct store *s, enum view_kind kind, const char *owner, enum view_order order, size_t max,
		 struct view_ids *ret, struct err *e);

#endif
