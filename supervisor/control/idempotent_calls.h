#ifndef BAILIFF_CONTROL_IDEMPOTENT_CALLS_H
#define BAILIFF_CONTROL_IDEMPOTENT_CALLS_H

/*
 * Requests with an idempotencyKey are done once for each (uid, key).
 *
 *   the key is new            the handler runs; the engine stores the result in the commit of what it did; where the
 *                             reply says more (its sequence), or no commit stored one, it is stored here before it is
 * given the same request again    the stored result, also after a restart; while the first one is under way, its answer
 *   another request, same key conflict
 *   a stored result `{"pending":true,…}`  the runtime ended between intent and effect: unavailable, outcome unknown
 *   a stored result `{"$error":{"code","message","data"}}`  that error again
 */

#include <stdbool.h>

struct call;

/*
 * true: it is answered already, or waits for the answer of an equal request; the handler must not run. false: the
 * call's answer is stored under its key before it is sent, to it and to all that wait for it.
 */
bool idempotent_call_begin(struct call *c);

#endif
