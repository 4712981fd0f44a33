#ifndef BAILIFF_ENGINE_TURN_READ_H
#define BAILIFF_ENGINE_TURN_READ_H

/*
 * Reads the documents and stored input of turns. Nothing here adds facts. The input is stored under a ref: it may be
 * long, and the values of environment variables, which may be secrets, must not be part of events.
 */

#include "runtime/base/buf.h"
#include "runtime/engine/core/reply.h"
#include "runtime/event/event.h"
#include "runtime/view/view_documents.h"

#include <jansson.h>

struct fact;
struct engine;
struct err;

#define TURN_PARTS_MAX 256u
#define TURN_INPUT_MAX (1u << 20)
#define TURN_QUEUE_MAX 100u

/* 0 = found, 1 = not found, −1 with e. Includes events that are not committed yet. `ret` points into `text`. */
int turn_read(struct engine *engine, const char *turn_id, struct buf *text, struct turn_doc *ret, struct err *e);
/*
 * The same for a caller, whose parameter `field` names it: ERR_NOT_FOUND also for turns of other users, ERR_STATE for a
 * system turn. A request inside of a turn uses turn_open_of_caller (turn_owner.h).
 */
int turn_of_caller(struct engine *engine, const char *field, const char *turn_id, const struct caller *c,
		   struct buf *text, struct turn_doc *ret, struct err *e);
/* The identity that its work runs with. An unknown role counts as agent, the one with fewer rights. */
void turn_requester(const struct turn_doc *d, struct requester *ret);
/*
 * The outcome of a completed turn that a process owns, compared by address: nothing but the process works in such a
 * turn, so that most reactions to its end need not read it.
 */
extern const char turn_outcome_process[];
static inline bool turn_driven_by_client(const struct turn_doc *d) { return jval_is_str(d->driver, "client"); }
static inline bool turn_driven_by_loop(const struct turn_doc *d) { return jval_is_str(d->driver, "loop"); }
struct scope turn_scope(const struct turn_doc *d);
/* The owner of a ref that belongs to the turn; kind and id are those of ref.h. */
struct ref_owner turn_ref_owner(const struct turn_doc *d, const char *kind, const char *id, const char *media_type);

/* The system prompt that was submitted with the turn; NULL = none, or with e. New reference. */
json_t *turn_system_prompt(struct engine *engine, const struct turn_doc *d, struct err *e);
json_t *turn_input(struct engine *engine, const struct turn_doc *d, struct err *e); /* its parts; NULL with e */
/*
 * A part of the input with the turn's options for cwd, profile, sandbox and limits as defaults. If `engine` is not
 * NULL, also with the options' environment, whose values are only in the stored input. New reference.
 */
json_t *turn_part_merged(struct engine *engine, const struct turn_doc *d, const json_t *part);

/* The turns that wait for a thread, in order. */
struct turn_queue {
	char thread_id[ID_SIZE], session_id[ID_SIZE];
	uint32_t uid;
	char ids[TURN_QUEUE_MAX][ID_SIZE];
	size_t count;
	bool held; /* the queue does not advance until a client resumes it */
};
bool turn_queue_is_empty(struct engine *engine, const char *thread_id); /* false also if it cannot be read */
int turn_queue_read(struct engine *engine, const char *thread_id, struct turn_queue *ret, struct err *e);

#endif
