#include "sandbox/steps.h"

#include "sandbox/steps/step.h"

#include <string.h>

const struct step_info sandbox_steps[STEP_COUNT] = {
#define STEP(NAME, name, where, fn, summary) [STEP_##NAME] = { name, where, fn, summary },
#include "sandbox/steps.def"
#undef STEP
};

const char *sandbox_step_name(uint32_t step) { return step < STEP_COUNT ? sandbox_steps[step].name : "unknown"; }

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

static bool shape_hide(struct step_shape *s, size_t *used, const char *path)
{
	size_t n = strlen(path) + 1;
	if (n > sizeof s->hidden - *used - 1)
		return false;
	memcpy(s->hidden + *used, path, n);
	*used += n;
	return true;
}

bool step_shape_of(const struct plan_head *p, struct step_shape *ret)
{
	struct step_shape s;
	size_t used = 0;
	memset(&s, 0, sizeof s); /* shapes are compared as bytes */
	s.flags = p->flags & (PLAN_PRIVATE_ROOT | PLAN_TTY);
	s.layers = p->layers & PLAN_LAYER_CGROUP;
	s.network = p->network;
	s.tmp_bytes = p->tmp_bytes;
	if (!(s.flags & PLAN_PRIVATE_ROOT))
		return false;
	for (uint32_t i = 0; i < p->mount_count; i++) {
		const struct plan_mount *m = plan_mount(p, i);
		const char *path = plan_string(p, m->path_off);
		s.shows_host |= m->kind == PLAN_MOUNT_SYSTEM;
		if (m->kind == PLAN_MOUNT_HIDE && !strchr(path + 1, '/') && !shape_hide(&s, &used, path))
			return false;
	}
	*ret = s;
	return true;
}

void step_path(struct step_context *c, const char *path)
{
	size_t n = strnlen(path, sizeof c->path - 1);
	memcpy(c->path, path, n);
	c->path[n] = 0;
}
