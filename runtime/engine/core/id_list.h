#ifndef BAILIFF_ENGINE_ID_LIST_H
#define BAILIFF_ENGINE_ID_LIST_H

/*
 * Ids from an index of the read models. They are collected before any of them is acted upon, because acting changes the
 * index and a scan must not submit. Includes what is submitted and not durable yet. The caller frees the list
 * (view_ids_auto).
 */

#include "runtime/view/view_ids.h"

struct engine;
struct jw;

#define ID_LIST_ALL SIZE_MAX
/* The members of `owner` (NULL = the whole index), at most `max`. An error is logged and gives an empty list. */
void id_list_read(struct engine *engine, enum view_kind kind, const char *owner, size_t max, struct view_ids *ret);
/* The first member other than `except` (or NULL); "" and false if there is none. */
bool id_list_first(struct engine *engine, enum view_kind kind, const char *owner, const char *except,
		   char ret[ID_SIZE]);
bool id_list_has(const char (*ids)[ID_SIZE], size_t n, const char *id);
/* "key":["id",…] */
void id_list_write(struct jw *w, const char *key, const char (*ids)[ID_SIZE], size_t n);

#endif
