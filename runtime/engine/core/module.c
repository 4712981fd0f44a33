#include "runtime/engine/core/module.h"

#include "runtime/engine/core/core.h"

void modules_run(struct engine *engine, const module_fn *phase)
{
	for (; *phase; phase++)
		(*phase)(engine);
}

void modules_due(struct engine *engine, enum due_work work, const char *id) { engine->modules->due[work](engine, id); }
