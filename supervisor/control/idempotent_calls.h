#ifndef BAILIFF_CONTROL_IDEMPOTENT_CALLS_H
#define BAILIFF_CONTROL_IDEMPOTENT_CALLS_H

/*
 * Requests with an idempotencyKey are done once for each (uid, key).
 *
 *   the key is new            the handler runs; the engine stores the result in the commit of what it did; where the
 *                             reply
 *                             says more (its sequence), or no commit stored one, it is stored here before it is given
 *   the same request again    the stored result, also after a restart; while the first one is under way, its answer
 *   another request, same key conflict
 *   a stored result `{"pending":true,…}`  the runtime ended between intent and effect: unavailable, outcome unknown
 *   a stored result `{"$error":{"code","message","data"}}`  that error again
 */

#include <stdbool.h>
#include <stddef.h>

struct call;
struct err;

bool idempotent_call_begin(struct call *c); /* true: answered or parked; the handler must not run */
/* The answer of the call that a flight is for: to it and to all that wait for it. */
void idempotent_call_reply(struct call *c, const char *json, size_t len);
void idempotent_call_fail(struct call *c, const struct err *e, const char *data, size_t len);
/* The call is about to be freed without an answer. */
void idempotent_call_forget(struct call *c);

#endif
