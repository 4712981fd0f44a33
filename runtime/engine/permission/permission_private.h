#ifndef BAILIFF_ENGINE_PERMISSION_PRIVATE_H
#define BAILIFF_ENGINE_PERMISSION_PRIVATE_H

#include "policy/rules.h"
#include "runtime/base/strmap.h"
#include "runtime/engine/permission/permission.h"
#include "runtime/engine/policy/policy_lookup.h"

#include <sys/queue.h>

/* State of the module permission/. */
struct permission_state {
	TAILQ_HEAD(, always) persisting;     /* answers that are being made rules */
	TAILQ_HEAD(, reload_waiter) reloads; /* requests that wait for the policy files */
};

/* How a process ends that never ran. */
struct permission_end {
	const char *status, *category; /* the turn's */
	const char *message;
	bool terminated; /* somebody ended it while it waited */
	bool tell_owner;
};
void permission_end_facts(struct process *p, const struct permission_end *how, struct store_batch *b);
struct action_outcome;
/* permission_always.c: which rules would make an answer last, {"allow"?:[…],"why"?:…,"deny"?:…,"whyNotDeny"?:…}. */
struct policy_decision;
struct policy_request;
struct action_doc;
void permission_persist_done(struct engine *g);

#endif
