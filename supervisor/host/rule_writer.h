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
struct rule_write;
struct workspace_policies;
struct spawn_link;

struct rule_writer {
	struct event_base *base;
	struct engine *engine;
	struct spawn_link *spawner;
	struct guard_link *guard;
	struct workspace_policies *workspaces;
	bool peers; /* each has a file of its own; otherwise the guard hands it over */
	TAILQ_HEAD(rule_write_head, rule_write) queue; /* the first is under way */
};

void rule_writer_init(struct rule_writer *k, struct event_base *base, struct engine *engine, struct spawn_link *spawner,
		      struct guard_link *guard, struct workspace_policies *workspaces, bool peers);
void rule_writer_done(struct rule_writer *k);
/* ports.write_rule */
int rule_writer_add(struct rule_writer *k, const struct port_rule *r, struct err *e);
/* The policy files were read again. */
void rule_writer_on_reload(struct rule_writer *k);

#endif
