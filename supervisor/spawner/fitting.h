#ifndef BAILIFF_SUPERVISOR_FITTING_H
#define BAILIFF_SUPERVISOR_FITTING_H

/*
 * What sandboxes are built for that wait complete (zygote.h): a plan without its command, and the peer that it is for.
 * Who has other groups, or another HOME, or one path more, is another peer with another plan.
 */

#include "sandbox/plan.h"
#include "sandbox/sight.h"
#include "supervisor/spawner/order.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct spawn_identity;

struct fitting {
	struct plan_head *plan; /* NULL = none */
	uid_t uid;              /* the peer's */
	gid_t gid;
	size_t ngroups;
	gid_t groups[ORDER_GROUPS_MAX];
};

/* Whether there can be one: not with a terminal, copy-on-write, or a plan or peer too large for an order. */
bool fitting_possible(const struct plan_head *plan, const struct spawn_identity *id);
int fitting_init(struct fitting *f, const struct plan_head *plan, const struct spawn_identity *id);
void fitting_done(struct fitting *f);
bool fitting_is_for(const struct fitting *f, const struct plan_head *plan, const struct spawn_identity *id);
/* A root peer's commands run as an id of their own. */
bool fitting_is_mapped(const struct fitting *f);
/* Whether a sandbox that was made from this is what would be made now. */
bool fitting_holds(const struct fitting *f, const struct sight *s, bool privileged);

#endif
