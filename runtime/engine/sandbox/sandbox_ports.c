#include "runtime/engine/sandbox/sandbox_private.h"

#include "runtime/base/err.h"

#include <string.h>

int engine_sandbox_process(struct engine *engine, const char *given, const struct caller *c, char ret[ID_TEXT_MAX],
			   struct err *e)
{
	const struct sandbox *s = sandbox_find(engine, given, c, e);

	if (!s)
		return -1;
	if (!s->ready)
		return err_at(e, ERR_STATE, "sandboxId", "sandbox '%s' is not ready yet", given);
	memcpy(ret, s->process_id, sizeof s->process_id);
	return 0;
}
