/* What each uid uses of its limits, and the request for control's next turn: what every file of this folder shares. */

#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/control/control_private.h"
#include "supervisor/host/config.h"

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

bool control_over_quota(const struct control *k, const struct account *a)
{
	return a->queued > k->o.config->max_queued_bytes_per_uid;
}

void control_turn(struct control *k)
{
	static const struct timeval now = { 0 };
	if (!event_pending(k->turn_ev, EV_TIMEOUT, NULL))
		loop_add(k->turn_ev, &now);
}
