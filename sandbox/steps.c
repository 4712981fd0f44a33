#include "sandbox/steps.h"

#include "sandbox/steps/step.h"

#include <string.h>

const struct step_info sandbox_steps[STEP_COUNT] = {
#define STEP(NAME, name, where, fn, summary) [STEP_##NAME] = { name, where, fn, summary },
#include "sandbox/steps.def"
#undef STEP
};

const char *sandbox_step_name(uint32_t step)
{
	return step < STEP_COUNT ? sandbox_steps[step].name : "unknown";
}

int sandbox_steps_run(struct step_context *c, enum step_where where, enum sandbox_step *ret_step)
{
	for (unsigned i = 0; i < STEP_COUNT; i++) {
		if (sandbox_steps[i].where != where || !sandbox_steps[i].run)
			continue;
		c->path[0] = 0;
		if (sandbox_steps[i].run(c) < 0) {
			*ret_step = (enum sandbox_step)i;
			return -1;
		}
	}
	return 0;
}

void step_path(struct step_context *c, const char *path)
{
	size_t n = strnlen(path, sizeof c->path - 1);
	memcpy(c->path, path, n);
	c->path[n] = 0;
}
