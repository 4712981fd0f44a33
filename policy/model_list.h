#ifndef BAILIFF_POLICY_MODEL_LIST_H
#define BAILIFF_POLICY_MODEL_LIST_H

/*
 * The models that turns may be routed to and the budgets they share, from the policy files:
 *
 *   "models": [{ "provider": "acme", "model": "large-2", "capabilities": ["tools", "vision"], "latency": "fast",
 *                "budgetClass": "standard", "contextTokens": 200000,
 *                "price": { "inputPerMTok": 3, "outputPerMTok": 15, "cachedPerMTok": 0.3, "cacheWritePerMTok": 3.75,
 *                           "cacheWrite1hPerMTok": 6, "above": { "tokens": 200000, "inputPerMTok": 6, … } },
 *                "disabled": "retired" }]
 *   "limits": { "budgets": [{ "name": "daily", "scope": "user", "window": "day", "usd": 20, "lowMark": 0.8 }] }
 *
 * The order of the list is the order of preference. latency: fast | balanced | slow (default balanced); budgetClass:
 * low | standard | high (default standard). A budget is of a user or of each session; window none | day | month.
 */

#include "policy/model_price.h"

#include <stddef.h>

struct err;

enum model_latency { LATENCY_FAST, LATENCY_BALANCED, LATENCY_SLOW, LATENCY_COUNT };
enum budget_class { BUDGET_LOW, BUDGET_STANDARD, BUDGET_HIGH, BUDGET_CLASS_COUNT };
enum budget_scope { BUDGET_OF_USER, BUDGET_OF_SESSION };
enum budget_window { BUDGET_EVER, BUDGET_DAY, BUDGET_MONTH };

struct policy_model {
	char *provider, *model, *disabled; /* disabled: the reason, or NULL */
	char **capability;
	size_t ncapability;
	enum model_latency latency;
	enum budget_class budget_class;
	uint64_t context_tokens; /* 0 = not given */
	struct model_price price;
};

struct policy_budget {
	char *name;
	enum budget_scope scope;
	enum budget_window window;
	uint64_t micro_usd;
	unsigned low_percent; /* percentage spent from which the budget is low */
};

struct model_list {
	struct policy_model *model;
	size_t count;
	struct policy_budget *budget;
	size_t nbudget;
};

/*
 * Adds the models and budgets of one file. Call it with the more important file first: existing entries are not
 * replaced.
 */
int model_list_parse(struct model_list *s, const char *file, const char *text, size_t len, struct err *e);
void model_list_done(struct model_list *s);
const struct policy_model *model_list_find(const struct model_list *s, const char *provider, const char *model);

const char *model_latency_name(enum model_latency l);
const char *budget_class_name(enum budget_class c);
int model_latency_find(const char *name); /* −1 = unknown */
int budget_class_find(const char *name);
const char *budget_window_name(enum budget_window w);

#endif
