#ifndef BAILIFF_VIEW_DOCUMENTS_H
#define BAILIFF_VIEW_DOCUMENTS_H

/*
 * The documents as structs, generated from documents.def: struct <name>_doc with <name>_schema.
 *
 * Strings are copies; JSON members point into the text that was decoded. A struct may be copied, but its JSON members
 * are valid only as long as that text: for a projection until its next call on the models.
 */

#include "runtime/view/view_codec.h"

#define VIEW_DOCUMENT_MAX 4096 /* bytes of the largest struct */

#define DOCUMENT(name, KIND) struct name##_doc {
#define DOCUMENT_COMMITTED(name, KIND) DOCUMENT(name, KIND)
#define KEY(name, member, field) char member[ID_SIZE];
#define ID(name, member, field) char member[ID_SIZE];
#define STRING(name, member) char member[ID_SIZE];
#define STRING_INIT(name, member, initial) char member[ID_SIZE];
#define UINT(name, member) uint64_t member;
#define COUNT(name, member) uint64_t member;
#define UID(name) uint64_t uid;
#define TIME(name, member) uint64_t member;
#define CREATED(name, member) uint64_t member;
#define UPDATED(name, member) uint64_t member;
#define FLAG(name, member) bool member;
#define JSON(name, member) struct jval member;
#define JSON_AS(name, member, text) struct jval member; /* where C has a macro of that name: stdin */
#define DOCUMENT_END(name)                                                                       \
	}                                                                                        \
	;                                                                                        \
	_Static_assert(sizeof(struct name##_doc) <= VIEW_DOCUMENT_MAX, "document is too large"); \
	extern const struct view_schema name##_schema;
#include "runtime/view/documents.def"

#define VIEW_RUNTIME_ID "runtime"
#define VIEW_PREVIEW_BYTES 2048u

static inline bool turn_doc_ended(const struct turn_doc *d) { return d->completedAt != 0; }

static inline bool process_doc_ended(const struct process_doc *d) { return d->endedAt != 0; }
/* It runs no command: it holds a session sandbox. */
static inline bool process_doc_holds(const struct process_doc *d)
{
	return jval_is_str(jval_get(d->owner, "kind"), "sandbox");
}

static inline bool job_doc_ended(const struct job_doc *d) { return d->endedAt != 0; }

static inline bool subagent_doc_ended(const struct subagent_doc *d) { return d->endedAt != 0; }

/* Counts one more turn of the event's thread and returns its number, from 1. 1 when the event names no thread. */
int view_thread_next_turn(struct models *m, const struct event_view *ev, uint64_t *ret, struct err *e);
/* The member of VIEW_THREAD_TURN that stands for this turn: its number in the thread, then its id. */
#define VIEW_TURN_MEMBER_MAX (ID_SIZE + 24)
void view_turn_member(const struct turn_doc *d, char ret[VIEW_TURN_MEMBER_MAX]);
/* The status of what waits for an action of this type. */
const char *view_action_waiting(struct jval type);
/* A number as a key that sorts like it: of an ended process (its sequence), an open action (its expiry), a queued task.
 */
#define VIEW_ORDER_KEY_MAX 24
void view_order_key(uint64_t n, char ret[VIEW_ORDER_KEY_MAX]);

#endif
