/* The models and budgets of a policy file: rejected with a message that names the file, or usable for a decision. */

#include "policy/routing.h"
#include "runtime/base/err.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void limits(void *ctx, const struct policy_model *m, struct routing_limits *ret)
{
	ret->rate_limited = m->ncapability == 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct routing_request r = { .latency = LATENCY_FAST,
					   .budget_class = BUDGET_STANDARD,
					   .fallback = FALLBACK_CHEAPEST,
					   .input_tokens = 7 };
	static struct routing_outcome o;
	struct model_list m = { 0 };
	struct err e = ERR_INIT;

	if (model_list_parse(&m, "F", (const char *)data, size, &e) < 0) {
		if (e.code != ERR_INVALID || strncmp(e.message, "F: ", 3) != 0)
			abort();
	} else {
		routing_decide(&m, &r, limits, NULL, &o);
		if (o.count > m.count || o.eligible > o.count || (o.eligible > 0) != (o.mode != ROUTING_NOT_POSSIBLE))
			abort();
	}
	model_list_done(&m);
	return 0;
}
