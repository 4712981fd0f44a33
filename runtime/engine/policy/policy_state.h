#ifndef BAILIFF_ENGINE_POLICY_STATE_H
#define BAILIFF_ENGINE_POLICY_STATE_H

/* State of the module policy/, private to its files. */

#include "runtime/base/strmap.h"
#include "runtime/engine/core/reply.h"
#include "sandbox/profile.h"

#include <stdint.h>
#include <sys/queue.h>

struct compiled_profile;
struct engine;

struct policy_state {
	struct strmap session_rules;          /* session id → struct session_rules */
	TAILQ_HEAD(, policy_waiter) waiters;  /* for files of a workspace (policy_lookup.c) */
	bool reloading;                       /* reload_policy waits for the files, */
	struct requester reload_by;           /* requested by this client */
	uint64_t sequence;                    /* of the last policy.changed that a policy file caused */
	struct compiled_profile *compiled[8]; /* of recent setups (sandbox_setup.c); any may be NULL */
	unsigned ncompiled;                   /* how many were added */
	struct {
		char *name; /* NULL = none */
		uint64_t generation;
		struct profile profile;
	} base;               /* the profile of the last setup, as the policy has it */
	struct strmap writes; /* key → struct policy_write: submitted policy.changed facts; freed by their commit */
};

void session_rules_done(struct engine *engine);

#endif
