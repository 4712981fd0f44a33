#ifndef BAILIFF_CONTROL_IDEMPOTENT_CALLS_H
#define BAILIFF_CONTROL_IDEMPOTENT_CALLS_H

/*
 * Requests with an idempotencyKey are executed once for each (uid, key). A request without one that gives the id of
 * what it creates in a PARAM_KEY has a key made of that id, while what it created exists and the record is kept
 * (idempotencyKeepDays).
 *
 * - The key is new: the handler runs, and the engine stores the result in its commit. If the reply says more (its
 * sequence), or no commit stored a result, it is stored here before it is sent.
 * - The same request again: the stored result, also after a restart; while the first one is in progress, its answer.
 * - Another request with the same key: conflict.
 * - A stored result `{"pending":true,…}`: the runtime died between intent and effect; unavailable, outcome unknown.
 * - A stored result `{"$error":{"code","message","data"}}`: that error again.
 */

#include <stdbool.h>

struct call;

/*
 * true: it is answered already, or waits for the answer of an equal request; the handler must not run. false: the
 * call's answer is stored under its key, if it has one, before it is sent, to it and to all that wait for it.
 */
bool idempotent_call_begin(struct call *c);

#endif
