/* Requests about published ports: which process they are about. process/process_ports.c does the rest. */

#include "runtime/engine/sandbox/sandbox_private.h"

#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/engine/process/process_ports.h"

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

/* The process whose init has the network namespace: itself, or the holder of its session sandbox. */
static struct process *find_owner(struct engine *engine, const char *process_id, const struct caller *c, struct err *e)
{
	struct process *p = engine_live(engine, process_id, c, e);

	return p && p->within[0] ? engine_live(engine, p->within, c, e) : p;
}

static bool has_host_network(const struct process *p)
{
	struct jval profile = jval_of(p->sandbox_json ? p->sandbox_json : "",
				      p->sandbox_json ? strlen(p->sandbox_json) : 0);

	return jval_is_str(jval_get(profile, "network"), "host");
}

/* The same, if a port of it can be published now. */
static struct process *find_publishable(struct engine *engine, const char *process_id, const struct caller *c,
					struct err *e)
{
	struct process *p = find_owner(engine, process_id, c, e);

	if (!p)
		return NULL;
	if (p->state != PROCESS_RUNNING)
		err_set(e, ERR_STATE, "process '%s' is not running", p->id);
	else if (has_host_network(p))
		err_set(e, ERR_STATE, "process '%s' uses the host's network: its ports are open there already", p->id);
	return e->code ? NULL : p;
}

void engine_publish_port(struct engine *engine, const char *process_id, const struct port_publication *given,
			 const struct caller *c, engine_reply_fn fn, void *ctx)
{
	struct err e = ERR_INIT;
	struct process *p = find_publishable(engine, process_id, c, &e);

	if (p)
		process_ports_publish(p, given, c, fn, ctx);
	else
		fn(ctx, &e, NULL, 0);
}

void engine_unpublish_port(struct engine *engine, const char *process_id, uint16_t port, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	struct err e = ERR_INIT;
	struct process *p = find_owner(engine, process_id, c, &e);

	if (p)
		process_ports_unpublish(p, port, c, fn, ctx);
	else
		fn(ctx, &e, NULL, 0);
}
