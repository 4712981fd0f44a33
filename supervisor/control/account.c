/*
 * Usage per uid against its limits, and the scheduling of control's next turn. Both are used by every file of this
 * folder, so they are apart from control.c, which sits above the connections.
 */

#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/control/control_private.h"
#include "supervisor/host/config.h"

/* The list is short: one entry per uid with a connection. An account is freed with its last user. */
struct account *control_account(struct control *k, uint32_t uid)
{
	struct account *a;
	LIST_FOREACH (a, &k->accounts, entry)
		if (a->uid == uid)
			break;
	if (!a) {
		a = mem_zalloc(1, sizeof *a);
		a->uid = uid;
		LIST_INSERT_HEAD(&k->accounts, a, entry);
	}
	a->users++;
	return a;
}

void account_release(struct control *k, struct account *a)
{
	if (--a->users)
		return;
	LIST_REMOVE(a, entry);
	free(a);
}

/* The quota covers the uid as a whole: opening more connections does not raise it. */
bool control_over_quota(const struct control *k, const struct account *a)
{
	return a->queued > k->o.config->max_queued_bytes_per_uid;
}

/* A timer of zero instead of a direct call: the loop polls its sockets before the turn runs. */
void control_turn(struct control *k)
{
	static const struct timeval now = { 0 };
	if (!event_pending(k->turn_ev, EV_TIMEOUT, NULL))
		loop_add(k->turn_ev, &now);
}
