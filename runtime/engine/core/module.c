#include "runtime/engine/core/module.h"

#include "runtime/engine/core/core.h"

void modules_run(struct engine *g, const module_fn *phase)
{
	for (; *phase; phase++)
		(*phase)(g);
}

void fact_added(struct engine *g, enum event_type type, const void *subject, struct store_batch *b)
{
	for (const struct fact_reaction *r = g->modules->on_fact; r->on_fact; r++)
		if (r->type == type)
			r->on_fact(g, subject, b);
}

void fact_committed(struct engine *g, enum event_type type, const void *subject)
{
	for (const struct commit_reaction *r = g->modules->on_commit; r->on_commit; r++)
		if (r->type == type)
			r->on_commit(g, subject);
}
