#ifndef BAILIFF_ENGINE_TURN_HOOKS_H
#define BAILIFF_ENGINE_TURN_HOOKS_H

/* Hooks before a turn begins and before it ends, and after a model's answer. */

#include "runtime/view/view_documents.h"

#include <jansson.h>
#include <stdbool.h>

struct engine;
struct transaction;

/* A client reported a model's answer; nothing waits for the hooks. */
void turn_hooks_sampled(struct engine *g, const char *turn_id, const char *payload, size_t len);
/*
 * A turn with text is about to begin; turn.submitted is in the transaction's batch or before it. True: hooks look at it
 * first. The transaction is committed then and its reply given later, with turn.started or turn.failed.
 */
bool turn_hooks_prompt(struct engine *g, const struct turn_doc *t, const json_t *input, struct transaction *tx);
/* A turn is about to end well. True: hooks are asked first; its end, or the refusal of `tx` (its client's; NULL = the
 * loop's), follows. */
struct turn_end;
bool turn_hooks_stop(struct engine *g, const struct turn_doc *t, const struct turn_end *end, struct transaction *tx);
void turn_hooks_recover(struct engine *g);

#endif
