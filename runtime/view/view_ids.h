#ifndef BAILIFF_VIEW_IDS_H
#define BAILIFF_VIEW_IDS_H

/* A page of ids out of a model kind or a list: collected first, so that documents are read outside the scan. */

#include "runtime/view/view_codec.h"

struct view_ids {
	char (*id)[VIEW_ID_MAX]; /* of a list "<owner>/<member>": the member */
	size_t n;
};

#define VIEW_IDS_INIT ((struct view_ids){ 0 })
void view_ids_done(struct view_ids *v);
#define view_ids_auto __attribute__((cleanup(view_ids_done)))

struct view_ids_query {
	enum view_kind kind;
	const char *prefix; /* of the whole key; NULL = all ("<owner>/" for a list) */
	const char *after;  /* a whole key; NULL = from the end where the scan starts */
	const char *ending; /* NULL, or what the id ends with */
	bool descending;
	size_t max;      /* collected */
	size_t max_seen; /* looked at; 0 = max */
};
/*
 * Replaces what *ret held. 0 = the scan came to its end, 1 = there is more: go on after *ret_last (VIEW_KEY_MAX bytes,
 * the last key that was looked at; may be NULL).
 */
#define VIEW_KEY_MAX (2 * VIEW_ID_MAX + 32)
int view_ids(struct store *s, const struct view_ids_query *q, struct view_ids *ret, char *ret_last, struct err *e);

#endif
