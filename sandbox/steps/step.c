#include "sandbox/steps/step.h"

#include <string.h>

void step_path(struct step_context *c, const char *path)
{
	size_t n = strnlen(path, sizeof c->path - 1);
	memcpy(c->path, path, n);
	c->path[n] = 0;
}
