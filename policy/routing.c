/*
 * Chooses the model for a request. Every model of the policy becomes a candidate with the first reason that excludes
 * it, so that the outcome can be explained; then the candidates are ranked. Nothing here reads a clock or a counter:
 * the caller reports limits and budgets through routing_limits_fn.
 */

#include "policy/routing.h"

#include "runtime/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const exclusions[ROUTING_EXCLUSION_COUNT] = {
	[ROUTING_FITS] = "fits",
	[ROUTING_DISABLED] = "disabled",
	[ROUTING_NOT_REQUESTED] = "not_requested",
	[ROUTING_FAILED_BEFORE] = "failed_before",
	[ROUTING_NOT_REGISTERED] = "not_registered",
	[ROUTING_CAPABILITY_MISSING] = "capability_missing",
	[ROUTING_TOO_DEAR] = "budget_class",
	[ROUTING_CONTEXT_TOO_SMALL] = "context_too_small",
	[ROUTING_PRICE_UNKNOWN] = "price_unknown",
	[ROUTING_RATE_LIMITED] = "rate_limited",
	[ROUTING_QUOTA_BLOCKED] = "quota_blocked",
	[ROUTING_BUDGET_BLOCKED] = "budget_blocked",
	[ROUTING_LIMIT_REACHED] = "limit_reached",
};
static const char *const modes[] = {
	[ROUTING_RANKED] = "ranked",     [ROUTING_REQUESTED] = "requested",       [ROUTING_SINGLE] = "single_candidate",
	[ROUTING_FALLBACK] = "fallback", [ROUTING_NOT_POSSIBLE] = "not_possible",
};
static const char *const fallbacks[FALLBACK_COUNT] = {
	[FALLBACK_NEXT] = "next",
	[FALLBACK_CHEAPEST] = "cheapest",
	[FALLBACK_NONE] = "none",
};

const char *routing_exclusion_name(enum routing_exclusion x) { return exclusions[x]; }

const char *routing_mode_name(enum routing_mode m) { return modes[m]; }

const char *fallback_policy_name(enum fallback_policy f) { return fallbacks[f]; }

int fallback_policy_find(const char *name)
{
	for (int i = 0; i < FALLBACK_COUNT; i++)
		if (strcmp(fallbacks[i], name) == 0)
			return i;
	return -1;
}

/* Whether the model is the named one; a missing name matches every model of the other. */
static bool is_named(const struct policy_model *m, const char *provider, const char *model)
{
	return (provider || model) && (!provider || strcmp(m->provider, provider) == 0) &&
	       (!model || strcmp(m->model, model) == 0);
}

static const char *missing_capability(const struct policy_model *m, const struct routing_request *r)
{
	for (size_t i = 0; i < r->ncapability; i++) {
		bool has = false;

		for (size_t k = 0; k < m->ncapability; k++)
			has |= strcmp(m->capability[k], r->capability[i]) == 0;
		if (!has)
			return r->capability[i];
	}
	return NULL;
}

/* The order matters: the first reason found is the one that is reported. */
static enum routing_exclusion find_exclusion(const struct policy_model *m, const struct routing_request *r,
					     const struct routing_limits *l, const char *missing)
{
	if (m->disabled)
		return ROUTING_DISABLED;
	if (!r->override && r->fallback == FALLBACK_NONE && (r->provider || r->model) &&
	    !is_named(m, r->provider, r->model))
		return ROUTING_NOT_REQUESTED;
	if (l->failed || is_named(m, r->failed_provider, r->failed_model))
		return ROUTING_FAILED_BEFORE;
	if (l->not_registered)
		return ROUTING_NOT_REGISTERED;
	if (missing)
		return ROUTING_CAPABILITY_MISSING;
	if (!r->override && m->budget_class > r->budget_class)
		return ROUTING_TOO_DEAR;
	if (m->context_tokens && r->input_tokens + r->output_tokens > m->context_tokens)
		return ROUTING_CONTEXT_TOO_SMALL;
	if (r->override)
		return ROUTING_FITS;
	if (l->price_unknown)
		return ROUTING_PRICE_UNKNOWN;
	if (l->rate_limited)
		return ROUTING_RATE_LIMITED;
	if (l->quota_blocked)
		return ROUTING_QUOTA_BLOCKED;
	if (l->budget_blocked)
		return ROUTING_BUDGET_BLOCKED;
	return l->limit_reached ? ROUTING_LIMIT_REACHED : ROUTING_FITS;
}

/* Smaller is better; candidates of equal rank keep the policy's order. */
static int candidate_rank(const struct routing_candidate *c, const struct routing_request *r)
{
	int penalty = 0;

	/* A model that was not requested ranks below every requested one, whatever its latency. */
	if ((r->provider || r->model) && !is_named(c->model, r->provider, r->model))
		penalty += 100;
	if (r->latency != LATENCY_COUNT && c->model->latency > r->latency)
		penalty += 10 * ((int)c->model->latency - (int)r->latency);
	return penalty;
}

/* Usable models first, then by rank, then by price if the request prefers cheap ones. */
static bool candidate_is_better(const struct routing_candidate *a, const struct routing_candidate *b,
				const struct routing_request *r)
{
	if ((a->excluded == ROUTING_FITS) != (b->excluded == ROUTING_FITS))
		return a->excluded == ROUTING_FITS;
	int x = candidate_rank(a, r), y = candidate_rank(b, r);
	if (x != y)
		return x < y;
	if (r->fallback != FALLBACK_CHEAPEST)
		return false;
	if (a->priced != b->priced)
		return a->priced;
	return a->estimate < b->estimate;
}

/* Insertion sort: stable, so the order of the policy decides between equal candidates. The list is short. */
static void sort_candidates(struct routing_outcome *o, const struct routing_request *r)
{
	for (size_t i = 1; i < o->count; i++)
		for (size_t k = i; k > 0 && candidate_is_better(&o->candidate[k], &o->candidate[k - 1], r); k--) {
			struct routing_candidate t = o->candidate[k];

			o->candidate[k] = o->candidate[k - 1];
			o->candidate[k - 1] = t;
		}
}

/* A sentence for people, and whether an override would help. */
static void explain_outcome(struct routing_outcome *o)
{
	const struct policy_model *m = o->eligible ? o->candidate[0].model : NULL;

	if (!o->count) {
		snprintf(o->reason, sizeof o->reason, "the policy lists no models (section \"models\")");
	} else if (!m) {
		snprintf(o->reason, sizeof o->reason, "none of %zu models can be used", o->count);
		/*
		 * An override can lift a limit, a budget or the restriction to the requested model, but not add a
		 * capability.
		 */
		for (size_t i = 0; i < o->count; i++)
			o->requires_override |= o->candidate[i].excluded >= ROUTING_RATE_LIMITED ||
						o->candidate[i].excluded == ROUTING_NOT_REQUESTED ||
						o->candidate[i].excluded == ROUTING_TOO_DEAR;
	} else if (o->mode == ROUTING_SINGLE) {
		snprintf(o->reason, sizeof o->reason, "%.60s/%.60s is the only one of %zu that fits", m->provider,
			 m->model, o->count);
	} else if (o->mode == ROUTING_FALLBACK) {
		snprintf(o->reason, sizeof o->reason, "%.60s/%.60s is next after the model that failed", m->provider,
			 m->model);
	} else if (o->mode == ROUTING_REQUESTED) {
		snprintf(o->reason, sizeof o->reason, "%.60s/%.60s was requested and fits", m->provider, m->model);
	} else {
		snprintf(o->reason, sizeof o->reason, "%.60s/%.60s ranks first of %zu that fit", m->provider, m->model,
			 o->eligible);
	}
}

void routing_decide(const struct model_list *models, const struct routing_request *r, routing_limits_fn limits,
		    void *ctx, struct routing_outcome *ret)
{
	*ret = (struct routing_outcome){ 0 };
	for (size_t i = 0; models && i < models->count && i < ROUTING_CANDIDATES_MAX; i++) {
		const struct policy_model *m = &models->model[i];
		struct routing_candidate *c = &ret->candidate[ret->count++];
		struct routing_limits l = { 0 };

		limits(ctx, m, &l);
		*c = (struct routing_candidate){ .model = m,
						 .reset_us = l.reset_us,
						 .missing = missing_capability(m, r),
						 .priced = m->price.known };
		c->excluded = find_exclusion(m, r, &l, c->missing);
		if (m->price.known)
			c->estimate = model_price_of(&m->price, &(struct model_tokens){ .input = r->input_tokens,
											.output = r->output_tokens });
		ret->eligible += c->excluded == ROUTING_FITS;
	}
	sort_candidates(ret, r);
	const bool asked = ret->eligible && is_named(ret->candidate[0].model, r->provider, r->model);
	ret->mode = !ret->eligible                          ? ROUTING_NOT_POSSIBLE
		    : r->failed_provider || r->failed_model ? ROUTING_FALLBACK
		    : ret->eligible == 1                    ? ROUTING_SINGLE
		    : asked                                 ? ROUTING_REQUESTED
							    : ROUTING_RANKED;
	explain_outcome(ret);
}
