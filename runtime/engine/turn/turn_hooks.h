#ifndef BAILIFF_ENGINE_TURN_HOOKS_H
#define BAILIFF_ENGINE_TURN_HOOKS_H

/* Hooks before a turn starts, before it ends, and after a model's answer. */

#include "runtime/view/view_documents.h"

#include <jansson.h>
#include <stdbool.h>

struct engine;
struct transaction;

/* A client reported a model's answer; nothing waits for the hooks. */
void turn_hooks_sampled(struct engine *g, const char *turn_id, const char *payload, size_t len);
/*
 * A turn with text is about to start; turn.submitted is in the transaction's batch or committed. True: hooks run
 * first. The transaction is then committed, and its reply follows with turn.started or turn.failed.
 */
bool turn_hooks_prompt(struct engine *g, const struct turn_doc *t, const json_t *input, struct transaction *tx);
/*
 * A turn is about to complete. True: hooks run first; the turn's end follows, or the rejection of `tx` (the client's
 * request; NULL = the loop).
 */
struct turn_end;
bool turn_hooks_stop(struct engine *g, const struct turn_doc *t, const struct turn_end *end, struct transaction *tx);
void turn_hooks_recover(struct engine *g);

#endif
