#ifndef BAILIFF_VIEW_CODEC_H
#define BAILIFF_VIEW_CODEC_H

/*
 * Read-model documents between their text and a struct, driven by field tables.
 *
 * The members of a document are always written in the order of its table and absent ones are left out, so that the
 * same facts give the same bytes. VIEW_JSON fields are slices of text (of the old document or of the event) and are
 * valid as long as that text is: until the next call on the models.
 */

#include "runtime/base/jscan.h"
#include "runtime/view/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct event_view;
struct models;
struct store;

#define VIEW_ID_MAX 72
#define VIEW_ABSENT UINT64_MAX

enum view_type {
	VIEW_ID,   /* char[VIEW_ID_MAX]: an id or a short word; "" = absent */
	VIEW_UINT, /* uint64_t; VIEW_ABSENT = absent */
	VIEW_TIME, /* uint64_t: microseconds since 1970, written as RFC 3339; 0 = absent */
	VIEW_FLAG, /* bool; false = absent */
	VIEW_JSON, /* struct jval: any value as it was written */
};

struct view_field {
	const char *member;
	enum view_type type;
	size_t offset;
};

struct view_schema {
	enum view_kind kind;
	size_t size;
	const struct view_field *fields;
	size_t nfields;
};

void view_clear(const struct view_schema *shape, void *ret); /* everything absent */
void view_decode(const struct view_schema *shape, struct jval doc, void *ret);
void view_encode(const struct view_schema *shape, const void *doc, struct buf *out);
/* Takes over every VIEW_JSON member of the shape that the payload has. */
void view_copy_members(const struct view_schema *shape, void *doc, struct jval payload);

/* ---- for folds ---- */

/* 0 found, 1 a fresh one (cleared), −1. */
int view_load(struct models *m, const struct view_schema *shape, const char *id, void *ret, struct err *e);
int view_save(struct models *m, const struct view_schema *shape, const char *id, const void *doc, struct err *e);
/* The entry "<owner>/<member>" of a list (member NULL: just "<owner>"). Nothing happens when a part is "". */
int view_list_put(struct models *m, enum view_kind kind, const char *owner, const char *member, struct err *e);
int view_list_del(struct models *m, enum view_kind kind, const char *owner, const char *member, struct err *e);
/* The string at the front of dst is replaced; anything else than a string leaves it alone. */
void view_copy_string(char dst[VIEW_ID_MAX], struct jval v);
void view_set_string(char dst[VIEW_ID_MAX], const char *s);

/* ---- for readers ---- */

/* As view_load, from the store; `text` (replaced) holds what the slices point into. 0 found, 1 not there, −1. */
int view_read(struct store *s, const struct view_schema *shape, const char *id, struct buf *text, void *ret,
	      struct err *e);
/* The same with what is submitted but not committed reckoned in: for decisions. */
int view_read_speculative(struct store *s, const struct view_schema *shape, const char *id, struct buf *text, void *ret,
			  struct err *e);
/* Whose document it is, what is not committed reckoned in; one that does not say is the system's (uid 0). 0 found, 1
 * not there, −1. */
int view_owner(struct store *s, const struct view_schema *shape, const char *id, uint32_t *ret, struct err *e);

#endif
