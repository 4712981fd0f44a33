#ifndef BAILIFF_SUPERVISOR_HOST_RULE_WRITER_H
#define BAILIFF_SUPERVISOR_HOST_RULE_WRITER_H

/*
 * Writes rules into a user's own policy file, as that user (peer_files.h): reads the file, changes its text
 * (policy/policy_edit.h) and replaces it unless it was written in the meantime; then it starts over. One write at a
 * time. The answer comes once the rule is in effect.
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
	bool peers; /* each peer has a file of its own; otherwise the guard hands the file over */
	TAILQ_HEAD(rule_write_head, rule_write) queue; /* the first one is in progress */
};

void rule_writer_init(struct rule_writer *k, struct event_base *base, struct engine *engine, struct spawn_link *spawner,
		      struct guard_link *guard, struct workspace_policies *workspaces, bool peers);
void rule_writer_done(struct rule_writer *k);
/* ports.write_rule */
int rule_writer_add(struct rule_writer *k, const struct port_rule *r, struct err *e);
/* The policy files were loaded again, as they were when `token` was requested or later. */
void rule_writer_on_reload(struct rule_writer *k, uint32_t token);

#endif
