#ifndef BAILIFF_ENGINE_REPLY_H
#define BAILIFF_ENGINE_REPLY_H

/* Replies that are owed to clients, and the identities that outlive a request. */

#include "runtime/engine/core/engine.h"

#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct store_batch;

#define ID_ROOM 72 /* any id, also a caller's, with its NUL: as the views hand them out */

/* The identity behind a request, kept. */
struct requester {
	uint32_t uid;
	int32_t pid;
	enum engine_role role;
};

/* A reply that is owed. */
struct pending_reply {
	engine_reply_fn fn;
	void *ctx;
	uint64_t connection;
	char *idem_key, *idem_method; /* NULL = not idempotent */
	uint8_t idem_hash[32];
	uint32_t uid;
	char *request_id;
};

/* A reply with an idempotency key is stored in `b` before it is sent (after b's commit). */
void reply_copy(struct pending_reply *r, const struct caller *c, engine_reply_fn fn, void *ctx);
void reply_done(struct pending_reply *r); /* frees */
void reply_store(const struct pending_reply *r, struct store_batch *b, const char *json, size_t len);
void reply_json(struct pending_reply *r, const char *json, size_t len); /* gives the answer and frees */
void reply_err(struct pending_reply *r, const struct err *e, const char *data, size_t len);
/* {"$error":…}: how an error is remembered for an idempotent request. */
void reply_error_record(const struct err *e, const char *data, size_t len, struct buf *out);

static inline struct requester requester_of(const struct caller *c)
{
	return (struct requester){ .uid = c->uid, .pid = c->pid, .role = c->role };
}

const char *role_name(enum engine_role r);

/* A caller that outlives the call: its strings and its descriptor are copies. */
void caller_copy(struct caller *ret, const struct caller *c);
void caller_done(struct caller *c);

#endif
