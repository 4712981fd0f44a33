#ifndef BAILIFF_ENGINE_PERMISSION_PRIVATE_H
#define BAILIFF_ENGINE_PERMISSION_PRIVATE_H

#include "policy/analysis_cache.h"
#include "policy/rules.h"
#include "runtime/base/strmap.h"
#include "runtime/engine/permission/permission.h"
#include "runtime/engine/policy/policy_lookup.h"

#include <sys/queue.h>

/* State of the module permission/. */
struct permission_state {
	TAILQ_HEAD(, always) persisting;     /* answers that are being written as rules */
	TAILQ_HEAD(, reload_waiter) reloads; /* requests that wait until the policy files are loaded */
	struct analysis_cache analyses;
	struct strmap held; /* ids of actions: allowed starts that wait for a client of their user */
};

/* How a process that never ran ends. */
struct permission_end {
	const char *status, *category; /* of its turn */
	const char *message;
	bool terminated; /* ended by a request while it waited */
	bool tell_owner; /* add the owner's facts; false: its callback `refused` follows instead */
};
void permission_end_facts(struct process *p, const struct permission_end *how, struct transaction *tx);
struct action_outcome;
/*
 * permission_persist.c: the rules that would make an answer permanent,
 * {"allow"?:[…],"why"?:…,"deny"?:…,"whyNotDeny"?:…}.
 */
struct policy_decision;
struct policy_request;
struct action_doc;
void permission_persist_done(struct engine *engine);

#endif
