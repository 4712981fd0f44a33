#ifndef BAILIFF_ENGINE_COST_H
#define BAILIFF_ENGINE_COST_H

/* Budgets: what of the policy's amounts is spent. */

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct jw;

/* Nothing is left of some budget that this user or session draws on; *reset_us becomes when there is again, if that is known. */
bool budget_spent(struct engine *g, uint32_t uid, const char *session_id, uint64_t now_us, uint64_t *reset_us);
/* "budgets":[{name, scope, window, limitMicroUsd, spentMicroUsd, state}] */
void budget_json(struct engine *g, uint32_t uid, const char *session_id, uint64_t now_us, struct jw *w);

#endif
