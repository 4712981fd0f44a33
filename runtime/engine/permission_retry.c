#include "runtime/engine/permission.h"

#include "runtime/engine/action.h"
#include "runtime/engine/engine_private.h"

void permission_offer_retry(struct process *p)
{
	(void)p;
}

const struct action_kind_ops permission_retry_ops = { 0 };
