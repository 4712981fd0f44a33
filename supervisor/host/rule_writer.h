#ifndef BAILIFF_SUPERVISOR_HOST_RULE_WRITER_H
#define BAILIFF_SUPERVISOR_HOST_RULE_WRITER_H

/*
 * Rules put into a user's own policy file, as that user (look.h): read, changed as text (policy/policy_edit.h), and
 * replaced whole unless somebody else wrote it meanwhile; then it is tried again. One after another. The answer comes
 * once the rule is in force.
 */

#include "runtime/engine/core/ports.h"

#include <stdbool.h>
#include <sys/queue.h>

struct engine;
struct err;
struct event_base;
struct guard_link;
struct keeping;
struct place_policies;
struct spawn_link;

struct rule_keeper {
	struct event_base *base;
	struct engine *engine;
	struct spawn_link *spawner;
	struct guard_link *guard;
	struct place_policies *places;
	bool peers;                              /* each has a file of its own; otherwise the guard hands it over */
	TAILQ_HEAD(keeping_head, keeping) queue; /* the first is under way */
};

void rule_keeper_init(struct rule_keeper *k, struct event_base *base, struct engine *engine, struct spawn_link *spawner,
		      struct guard_link *guard, struct place_policies *places, bool peers);
void rule_keeper_done(struct rule_keeper *k);
/* ports.keep_rule */
int rule_keeper_add(struct rule_keeper *k, const struct port_rule *r, struct err *e);
/* The policy files were read again. */
void rule_keeper_loaded(struct rule_keeper *k);

#endif
