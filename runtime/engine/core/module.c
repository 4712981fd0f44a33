#include "runtime/engine/core/module.h"

#include "runtime/engine/core/core.h"

void modules_run(struct engine *g, const module_fn *phase)
{
	for (; *phase; phase++)
		(*phase)(g);
}

void modules_due(struct engine *g, enum due_work work, const char *id) { g->modules->due[work](g, id); }
