#include "sandbox/steps/step.h"

static const struct {
	enum step_where where;
	int (*run)(struct step_context *c);
} steps[STEP_COUNT] = {
#define STEP(NAME, name, where, fn, summary) [STEP_##NAME] = { where, fn },
#include "sandbox/steps.def"
#undef STEP
};

int steps_run(struct step_context *c, enum step_where where, enum sandbox_step *ret_step)
{
	for (unsigned i = 0; i < STEP_COUNT; i++) {
		if (steps[i].where != where || !steps[i].run)
			continue;
		c->path[0] = 0;
		if (steps[i].run(c) < 0) {
			*ret_step = (enum sandbox_step)i;
			return -1;
		}
	}
	return 0;
}
