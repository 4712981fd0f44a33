/* Untrusted plans: everything that the spawner reads of them after plan_check has accepted them. */

#include "sandbox/plan.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	void *plan = malloc(size ? size : 1); /* aligned, as a mapping is, and just as long */
	if (!plan)
		abort();
	memcpy(plan, data, size);
	if (plan_check(plan, size, NULL) == 0) {
		const struct plan_head *p = plan;
		size_t sum = strlen(plan_string(p, p->cwd_off));
		for (uint32_t i = 0; i < p->argc; i++)
			sum += strlen(plan_arg(p, i));
		for (uint32_t i = 0; i < p->envc; i++)
			sum += strlen(plan_env(p, i));
		if (sum > size * 2 * (size_t)PLAN_ARGS_MAX)
			abort();
	}
	free(plan);
	return 0;
}
