#ifndef BAILIFF_ENGINE_COST_H
#define BAILIFF_ENGINE_COST_H

/* Budgets: how much of the policy's amounts is spent. */

#include "runtime/engine/process/process.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct err;
struct event_draft;
struct jw;
struct transaction;

/*
 * True if a budget that applies to this user or session is used up; *reset_us is raised to the end of its window, if
 * that is later.
 */
bool budget_spent(struct engine *g, uint32_t uid, const char *session_id, uint64_t now_us, uint64_t *reset_us);
/* "budgets":[{name, scope, window, limitMicroUsd, spentMicroUsd, state}] */
void budget_json(struct engine *g, uint32_t uid, const char *session_id, uint64_t now_us, struct jw *w);

/*
 * The costs of the batch under construction. Budgets are read before the batch is submitted, so these are added to
 * what the store knows.
 */
struct cost_pending {
	struct cost_pending_row {
		char session_id[ID_SIZE];
		uint32_t uid;
		uint64_t micro_usd;
	} * row;
	size_t count;
};
void cost_pending_done(struct cost_pending *p);
#define cost_pending_auto __attribute__((cleanup(cost_pending_done)))
/*
 * A cost that a client reports as an event. Like record_cost, it must be a valid amount (−1 with the member as the
 * field) and counts against budgets. `ids` are the event's, `uid` is the session owner's.
 */
int cost_emitted(struct engine *g, struct transaction *tx, const struct event_draft *d, struct cost_pending *pending,
		 struct err *e);

#endif
