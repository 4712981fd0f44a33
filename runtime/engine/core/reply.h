#ifndef BAILIFF_ENGINE_REPLY_H
#define BAILIFF_ENGINE_REPLY_H

/* Replies that are sent later than the request returns, and copies of the caller's identity that outlive it. */

#include "runtime/engine/core/engine.h"
#include "runtime/event/id.h"

#include <stddef.h>
#include <stdint.h>

struct buf;
struct engine;
struct err;

/* The identity of a caller, without anything that is bound to its connection. */
struct requester {
	uint32_t uid;
	int32_t pid;
	enum engine_role role;
};

/* A reply that is still to be sent; fn NULL = none, or already sent. Owns its strings. */
struct pending_reply {
	engine_reply_fn fn;
	void *ctx;
	uint64_t connection;
	char *idem_key, *idem_method; /* NULL = not idempotent */
	uint8_t idem_hash[32];
	uint32_t uid;
	char *request_id;
};

void reply_copy(struct pending_reply *r, const struct caller *c, engine_reply_fn fn, void *ctx);
void reply_done(struct pending_reply *r); /* frees without a reply */
/* Send the reply and free it. `r` is cleared before the callback runs, which may therefore free its container. */
void reply_json(struct pending_reply *r, const char *json, size_t len);
void reply_err(struct pending_reply *r, const struct err *e, const char *data, size_t len);
/*
 * The context (zeroed) of the reply to a request that the engine makes itself, such as the start of a process for a
 * task. The reply frees it. It has no other owner, so if the engine is freed first, that frees it without a reply; what
 * it points to has another owner.
 */
void *reply_context_new(struct engine *engine, size_t size);
void reply_context_free(void *ctx);
void reply_contexts_done(struct engine *engine);
/* {"$error":…}: the stored form of an error of an idempotent request. */
void reply_error_record(const struct err *e, const char *data, size_t len, struct buf *out);

static inline struct requester requester_of(const struct caller *c)
{
	return (struct requester){ .uid = c->uid, .pid = c->pid, .role = c->role };
}

const char *role_name(enum engine_role r);

/* A copy that outlives the call: it owns its strings and a duplicate of the descriptor. */
void caller_copy(struct caller *ret, const struct caller *c);
void caller_done(struct caller *c);

#endif
