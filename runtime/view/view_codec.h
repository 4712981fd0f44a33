#ifndef BAILIFF_VIEW_CODEC_H
#define BAILIFF_VIEW_CODEC_H

/*
 * Read-model documents between their text and a struct, driven by field tables.
 *
 * The members of a document are written in the order of its table and absent ones are left out, so the same events give
 * the same bytes. VIEW_JSON fields point into text (of the old document or of the event) and are valid as long as that
 * text is: until the next call on the models.
 */

#include "runtime/base/jscan.h"
#include "runtime/event/event.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"

#include "runtime/event/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct jw;
struct event_view;
struct models;
struct store;

#define VIEW_ABSENT UINT64_MAX

enum view_type {
	VIEW_STRING, /* char[ID_SIZE]: an id or a short word; "" = absent */
	VIEW_UINT,   /* uint64_t; VIEW_ABSENT = absent */
	VIEW_TIME,   /* uint64_t: microseconds since 1970, written as RFC 3339; 0 = absent */
	VIEW_FLAG,   /* bool; false = absent */
	VIEW_JSON,   /* struct jval: any value as it was written */
};

/* What a field gets when an event creates the document; FILL_UPDATED with each later event as well. */
enum view_fill { FILL_NOTHING, FILL_ID, FILL_TEXT, FILL_ZERO, FILL_UID, FILL_CREATED, FILL_UPDATED };

/* Small: each event goes through the fields of all documents that it changes. */
struct view_field {
	const char *member;
	uint16_t offset;
	uint8_t length; /* of the member's name */
	enum view_type type : 8;
	enum view_fill fill : 8;
	enum id_field id : 8; /* FILL_ID */
	const char *initial;  /* FILL_TEXT */
};

struct view_schema {
	struct model_form form; /* its struct; the first member, because view_encode_form is called with it */
	enum view_kind kind;
	bool speculative; /* projected before the commit as well (documents.def) */
	const struct view_field *fields;
	size_t nfields;
};

void view_clear(const struct view_schema *schema, void *ret); /* everything absent */
void view_decode(const struct view_schema *schema, struct jval doc, void *ret);
void view_encode(const struct view_schema *schema, const void *doc, struct buf *out);
void view_encode_form(const struct model_form *form, const void *doc, struct buf *out);
/*
 * Writes members of a document in the order of `names` ("status exitCode at=endedAt": the last one as "at") into an
 * object that is open; absent ones are left out.
 */
void view_write_members(struct jw *w, const struct view_schema *schema, const void *doc, const char *names);
/* Takes over every VIEW_JSON member of the schema that the object, or the event's payload, has. */
void view_copy_members(const struct view_schema *schema, void *doc, struct jval object);
void view_copy_payload(const struct view_schema *schema, void *doc, const struct event_view *ev);

/* ---- for projections (projection.h) ---- */

/* 0 found, 1 a fresh one (cleared), −1. */
int view_load(struct models *m, const struct view_schema *schema, const char *id, void *ret, struct err *e);
/* A cleared document with what documents.def fills in from the event. */
void view_create(const struct view_schema *schema, const struct event_view *ev, void *ret);
/* The document with this id; created if there is none. 0 or −1. */
int view_open(struct models *m, const struct view_schema *schema, const struct event_view *ev, const char *id,
	      void *ret, struct err *e);
/* The document that the event names by the schema's key. 1: it names none. */
int view_open_event(struct models *m, const struct view_schema *schema, const struct event_view *ev, void *ret,
		    struct err *e);
int view_save(struct models *m, const struct view_schema *schema, const char *id, const void *doc, struct err *e);
/* The entry "<owner>/<member>" of a list (member NULL: just "<owner>"). Nothing happens when a part is "". */
int view_list_put(struct models *m, enum view_kind kind, const char *owner, const char *member, struct err *e);
int view_list_del(struct models *m, enum view_kind kind, const char *owner, const char *member, struct err *e);
/* These leave dst alone when the value is not a string, or not a time. */
void view_copy_string(char dst[ID_SIZE], struct jval v);
void view_copy_time(uint64_t *dst, struct jval v);
/* Counters: VIEW_ABSENT counts as 0. view_add never goes below 0. */
static inline uint64_t view_counted(uint64_t n) { return n == VIEW_ABSENT ? 0 : n; }

static inline uint64_t view_add(uint64_t n, int by)
{
	n = view_counted(n);
	return by < 0 && n < (uint64_t)-by ? 0 : n + (uint64_t)(int64_t)by;
}

/* ---- for readers ---- */

/* As view_load, from the store; `text` (replaced) is what JSON members point into. 0 found, 1 not there, −1. */
int view_read(struct store *s, const struct view_schema *schema, const char *id, struct buf *text, void *ret,
	      struct err *e);
/* Whether this uid may see the document: its own, or VIEW_ANY_UID. */
bool view_is_visible(const struct view_schema *schema, const void *doc, uint32_t uid);

/* As view_read; err_not_known(field, id) unless it is there and `uid` may see it. */
int view_read_visible(struct store *s, const struct view_schema *schema, uint32_t uid, const char *field,
		      const char *id, struct buf *text, void *ret, struct err *e);
/* The same including batches that are submitted but not committed: for decisions. */
int view_read_speculative(struct store *s, const struct view_schema *schema, const char *id, struct buf *text,
			  void *ret, struct err *e);
/* The uid that owns the document, uncommitted batches included; 0, the system's, if it has none. 0 found, 1 not there,
 * −1.
 */
int view_owner(struct store *s, const struct view_schema *schema, const char *id, uint32_t *ret, struct err *e);

#endif
