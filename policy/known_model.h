#ifndef BAILIFF_POLICY_KNOWN_MODEL_H
#define BAILIFF_POLICY_KNOWN_MODEL_H

/*
 * Built-in defaults: the providers that can be named without a URL, and the list prices and context sizes of some of
 * their models. The models of the policy take precedence. A model that is not listed has an unknown price.
 */

#include "policy/model_price.h"

/* The day on which the prices were taken from the providers' price lists. */
#define KNOWN_MODELS_DATE "2026-11-16"

struct known_provider {
	const char *name, *dialect, *model; /* model: the default */
};
const struct known_provider *known_provider_find(const char *name);  /* NULL = not known */
const struct known_provider *known_provider_of(const char *dialect); /* whose own dialect it is; NULL = none */

struct known_model {
	const char *provider, *model;
	uint64_t context_tokens, max_output_tokens;
	struct model_price price;
};
/* Also finds a dated version of a listed model ("gpt-5-2025-08-07"). NULL = not known. */
const struct known_model *known_model_find(const char *provider, const char *model);

#endif
