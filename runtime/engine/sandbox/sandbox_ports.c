/* Requests about published ports: which process they are about. process/process_ports.c does the rest. */

#include "runtime/engine/sandbox/sandbox_private.h"

#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/transaction.h"
#include "runtime/engine/process/process_ports.h"
#include "runtime/engine/process/start_spec.h"

#include <stdio.h>
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

/* The same, if a port of it can be published now. */
static struct process *find_publishable(struct engine *engine, const char *process_id, const struct caller *c,
					struct err *e)
{
	struct process *p = find_owner(engine, process_id, c, e);

	if (!p)
		return NULL;
	if (p->state != PROCESS_RUNNING && p->state != PROCESS_EXECING)
		err_set(e, ERR_STATE, "process '%s' is not running", p->id);
	else if (process_has_host_network(p))
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

/* ---- ports that are published with the creation of a sandbox ---- */

/* One create_sandbox, until its last port is published. */
struct published_creation {
	struct engine *engine;
	struct caller caller;
	struct pending_reply reply;
	struct buf result;
	char process_id[ID_TEXT_MAX], sandbox_id[ID_SIZE];
	size_t count, next;
	struct {
		char address[48];
		uint16_t host_port, port;
	} row[START_PUBLISH_MAX];
};

/* The reply is stored for a retry when the ports are open, not before. It does not wait for that commit. */
static void end_creation(struct published_creation *x, const struct err *e, const char *json, size_t len)
{
	if (!e && x->reply.idem_key) {
		struct transaction *tx = transaction_new_internal(x->engine);

		transaction_store_reply(tx, &x->reply, json, len);
		transaction_commit_then(tx, 0, NULL, NULL);
	}
	if (e)
		reply_err(&x->reply, e, json, len);
	else
		reply_json(&x->reply, json, len);
	caller_done(&x->caller);
	buf_done(&x->result);
	free(x);
}

static void on_failed_closed(void *ctx, const struct err *e, const char *json, size_t len) {}

static void publish_next(struct published_creation *x);

static void on_port(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct published_creation *x = ctx;
	struct err why;

	if (!e) {
		x->next++;
		publish_next(x);
		return;
	}
	why = *e;
	err_wrap(&why, "publish port %u: the sandbox is closed", x->row[x->next].port);
	engine_close_sandbox(x->engine, x->sandbox_id, &x->caller, on_failed_closed, NULL);
	end_creation(x, &why, json, len);
}

static void publish_next(struct published_creation *x)
{
	if (x->next == x->count) {
		end_creation(x, NULL, x->result.data, x->result.len);
		return;
	}
	const struct port_publication p = { x->row[x->next].address, x->row[x->next].host_port, x->row[x->next].port };
	engine_publish_port(x->engine, x->process_id, &p, &x->caller, on_port, x);
}

static void on_created(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct published_creation *x = ctx;
	struct jval made = jval_of(json, len);

	if (e) {
		end_creation(x, e, json, len);
		return;
	}
	buf_append(&x->result, json, len);
	jval_str(jval_get(made, "processId"), x->process_id, sizeof x->process_id);
	jval_str(jval_get(made, "sandboxId"), x->sandbox_id, sizeof x->sandbox_id);
	publish_next(x);
}

void engine_create_published(struct engine *engine, const struct sandbox_creation *r,
			     const struct port_publication *ports, size_t n, const struct caller *c, engine_reply_fn fn,
			     void *ctx)
{
	struct published_creation *x = mem_zalloc(1, sizeof *x);
	struct caller by = *c;

	by.idem_key = NULL; /* the reply to the whole request is stored, not those of its parts */
	*x = (struct published_creation){ .engine = engine };
	reply_copy(&x->reply, c, fn, ctx);
	caller_copy(&x->caller, &by);
	for (; x->count < n && x->count < START_PUBLISH_MAX; x->count++) {
		x->row[x->count].host_port = ports[x->count].host_port;
		x->row[x->count].port = ports[x->count].port;
		snprintf(x->row[x->count].address, sizeof x->row[0].address, "%s", ports[x->count].address);
	}
	engine_create_sandbox(engine, r, &by, on_created, x);
}
