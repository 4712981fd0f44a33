#ifndef BAILIFF_ENGINE_PERMISSION_PRIVATE_H
#define BAILIFF_ENGINE_PERMISSION_PRIVATE_H

#include "policy/rules.h"
#include "runtime/engine/permission.h"

/* How a process ends that never ran. */
struct permission_end {
	const char *status, *category; /* the turn's */
	const char *message;
	bool terminated;          /* somebody ended it while it waited */
	bool tell_owner;
};
void permission_end_facts(struct process *p, const struct permission_end *how, struct store_batch *b);
struct action_outcome;
/* What an answer writes beside action.resolved. */
void permission_resolved(struct engine *g, const struct action_outcome *o, struct store_batch *b);
enum permission_mode permission_mode_of(struct engine *g, const char *session_id);

#endif
