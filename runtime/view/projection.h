#ifndef BAILIFF_VIEW_PROJECTION_H
#define BAILIFF_VIEW_PROJECTION_H

/*
 * One event applied to one document: the document that the event names is read (or created), operations from a table
 * and then a function change it, it is written, and lists are updated.
 *
 * A projection never fails because of an event's content: an unknown id gets a new document, a member of an unexpected
 * type counts as absent, an event without the id of the document is skipped. −1 means that the store failed.
 */

#include "runtime/event/event.h"
#include "runtime/view/view_documents.h"

/* What projections.def says; `offset` is the member's. */
enum projection_op_code {
	OP_END,
	OP_MEMBERS,   /* every JSON member that document and payload have */
	OP_STRING,    /* OP_STRING to OP_JSON: the payload's member `text` */
	OP_UINT,      /* absent in the payload: absent in the document */
	OP_UINT_KEEP, /* absent in the payload: unchanged */
	OP_FLAG,      /* absent in the payload: false */
	OP_TIME,
	OP_JSON,     /* absent in the payload: absent in the document */
	OP_EVENT_ID, /* an id of the event */
	OP_STATUS,   /* the event's status, if it has one */
	OP_REASON,   /* the event's statusReason, if it has one, as JSON */
	OP_NOW,      /* the event's time */
	OP_SET,      /* `text` */
	OP_TRUE,
	OP_CLEAR, /* a JSON member */
	OP_CLEAR_TIME,
	OP_INCREMENT,
	OP_UNLESS, /* stop without a change when this time is set */
	OP_PUT,    /* add "<offset's string>/<other's string>" to a list */
	OP_DELETE,
};

struct projection_op {
	enum projection_op_code code;
	size_t offset;
	const char *text;
	enum id_field id;
	enum view_kind list;
	size_t other; /* OP_PUT, OP_DELETE: offset of the list's member; SIZE_MAX = none */
};

#define PROJECTION_LISTS_MAX 10

struct projection {
	struct models *models;
	const struct event_view *event;
	struct err *e;
	struct {
		enum view_kind kind;
		bool put;
		char owner[ID_SIZE], member[3 * ID_SIZE]; /* member "" = none */
	} lists[PROJECTION_LISTS_MAX];
	size_t nlists;
};

/* Changes the document; false: leave it, and the lists, as they were. May not use the models: JSON members point there.
 */
typedef bool (*projection_fn)(struct projection *p, void *doc);

/* `ops` and `change` may be NULL. */
int projection_run(struct models *m, const struct event_view *ev, const struct view_schema *schema,
		   const struct projection_op *ops, projection_fn change, struct err *e);
/* Changes of lists after the document is written; nothing happens when a part is "" (member NULL: just the owner). */
void projection_list(struct projection *p, bool put, enum view_kind kind, const char *owner, const char *member);

#endif
