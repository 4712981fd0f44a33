#include "sandbox/steps.h"

#include <string.h>

const char *sandbox_step_name(uint32_t step)
{
	static const char *const names[STEP_COUNT] = {
#define STEP(NAME, name, where, fn, summary) [STEP_##NAME] = name,
#include "sandbox/steps.def"
#undef STEP
	};
	return step < STEP_COUNT ? names[step] : "unknown";
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
