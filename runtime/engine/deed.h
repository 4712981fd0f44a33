#ifndef BAILIFF_ENGINE_DEED_H
#define BAILIFF_ENGINE_DEED_H

/*
 * A deed: everything that one request, or one thing that happened, writes. Its facts are one batch, so they commit
 *together or not at all; the answer is given once they are durable and has `sequence`, the number of the last of them.
 *A deed with an idempotency key leaves its answer in the same commit.
 *
 *	struct deed *d = deed_new(g, caller, fn, ctx);        or deed_own(g) for the engine's own doing
 *	... checks, from documents read ahead (view_read_speculative); deed_refuse(d, &e) and return when one fails ...
 *	fact_open(&f, …); … fact_close(&f, d->batch);
 *	jw_kstr(&d->w, "taskId", id);                         the result's members
 *	deed_commit(d);
 *
 * What has to happen in the world afterwards is given to deed_then: it runs after the commit and before the answer,
 * never when the commit was refused.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/engine/process.h"

struct caller;
struct engine;
struct store_batch;

typedef void (*deed_then_fn)(struct engine *g, const char *id);

struct deed {
	struct engine *engine;
	struct caller caller; /* a copy: its strings are valid only while the request is dealt with */
	struct store_batch *batch;
	struct pending_reply reply;
	struct buf result;
	struct jw w;    /* writes the result's members */
	unsigned flags; /* STORE_MUST for the engine's own deeds */
	struct deed_consequence {
		deed_then_fn fn;
		char id[ID_ROOM];
	} * then;
	size_t nthen;
};

struct deed *deed_new(struct engine *g, const struct caller *c, engine_reply_fn fn, void *ctx);
struct deed *deed_own(struct engine *g);
void deed_then(struct deed *d, deed_then_fn fn, const char *id);
/* Nothing is written; the caller learns why. Frees the deed. */
void deed_refuse(struct deed *d, const struct err *e);
void deed_refuse_data(struct deed *d, const struct err *e, const char *data, size_t len);
/* Submits, answers after the commit, frees. A deed without facts answers at once. */
void deed_commit(struct deed *d);
/* Who answers instead takes the reply; the deed then only commits. */
void deed_take_reply(struct deed *d, struct pending_reply *ret);

#endif
