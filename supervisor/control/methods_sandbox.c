/* Profiles and session sandboxes. A session sandbox may be given by its id or by its name. */

#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/engine/process/process_ports.h"
#include "runtime/engine/process/start_spec.h"
#include "runtime/engine/sandbox/sandbox.h"
#include "runtime/view/view_sandbox.h"
#include "supervisor/control/control_private.h"

#include <string.h>

int method_get_sandbox(struct call *c, const struct get_sandbox_params *p, struct buf *out, struct err *e)
{
	sandbox_spec_auto struct sandbox_spec s = { 0 };
	char id[ID_SIZE];

	if (p->sandboxId && (p->profile || p->cwd || json_object_get(c->params, "sandbox")))
		return err_field(e, "sandboxId", "leave out profile, cwd and sandbox: it has its own");
	if (p->sandboxId) {
		engine_sandbox_id(call_engine(c), p->sandboxId, &c->caller, id);
		return view_sandbox(call_store(c), call_visible_uid(c), id, out, e);
	}
	if (sandbox_spec_of(c->params, &s, e) < 0)
		return -1;
	return engine_show_sandbox(call_engine(c), &s.request, &c->caller, out, e);
}

static int check_port(uint64_t port, uint64_t least, const char *field, struct err *e)
{
	return port < least || port > UINT16_MAX
		       ? err_field(e, field, "must be %llu to 65535", (unsigned long long)least)
		       : 0;
}

int method_create_sandbox(struct call *c, const struct create_sandbox_params *p, struct buf *out, struct err *e)
{
	sandbox_spec_auto struct sandbox_spec s = { 0 };
	struct port_publication ports[START_PUBLISH_MAX];
	int n = port_publications_of(p->publish, ports, e);

	if (n < 0 || sandbox_spec_of(c->params, &s, e) < 0)
		return -1;
	const struct sandbox_creation r = {
		.name = p->name,
		.session_id = p->sessionId,
		.sandbox = s.request,
		.end_with_client = p->onDisconnect && strcmp(p->onDisconnect, "terminate") == 0,
		.idle_ms = p->idleMs.given ? p->idleMs.value : SANDBOX_IDLE_MS,
	};
	if (n)
		engine_create_published(call_engine(c), &r, ports, (size_t)n, &c->caller, call_engine_reply, c);
	else
		engine_create_sandbox(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_list_sandboxes(struct call *c, const struct list_sandboxes_params *p, struct buf *out, struct err *e)
{
	const struct view_sandbox_query q = {
		.session_id = p->sessionId,
		.closed = p->closed.value,
		.limit = param_page_limit(p->limit, 100),
		.cursor = p->cursor,
	};

	return view_sandboxes(call_store(c), call_visible_uid(c), &q, out, e);
}

int method_close_sandbox(struct call *c, const struct close_sandbox_params *p, struct buf *out, struct err *e)
{
	engine_close_sandbox(call_engine(c), p->sandboxId, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_checkpoint_sandbox(struct call *c, const struct checkpoint_sandbox_params *p, struct buf *out, struct err *e)
{
	engine_checkpoint_sandbox(call_engine(c), p->sandboxId, p->checkpoint, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_restore_sandbox(struct call *c, const struct restore_sandbox_params *p, struct buf *out, struct err *e)
{
	engine_restore_sandbox(call_engine(c), p->sandboxId, p->checkpoint, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_fork_sandbox(struct call *c, const struct fork_sandbox_params *p, struct buf *out, struct err *e)
{
	engine_fork_sandbox(call_engine(c), p->sandboxId, p->checkpoint, p->name, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

/* ---- published ports ---- */

/* The process whose sandbox it is: the holder of a session sandbox, or a process with a sandbox of its own. */
static int port_owner(struct call *c, const char *sandbox, const char *process, char ret[ID_TEXT_MAX], struct err *e)
{
	if (!sandbox == !process)
		return err_field(e, "sandboxId", "give either sandboxId or processId");
	if (sandbox)
		return engine_sandbox_process(call_engine(c), sandbox, &c->caller, ret, e);
	snprintf(ret, ID_TEXT_MAX, "%s", process);
	return 0;
}

int method_publish_port(struct call *c, const struct publish_port_params *p, struct buf *out, struct err *e)
{
	const struct port_publication given = { .address = p->hostAddress ? p->hostAddress : "127.0.0.1",
						.host_port = (uint16_t)p->hostPort.value,
						.port = (uint16_t)p->port.value };
	char id[ID_TEXT_MAX];

	if (check_port(p->port.value, 1, "port", e) < 0 || check_port(p->hostPort.value, 0, "hostPort", e) < 0 ||
	    port_owner(c, p->sandboxId, p->processId, id, e) < 0)
		return -1;
	engine_publish_port(call_engine(c), id, &given, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_unpublish_port(struct call *c, const struct unpublish_port_params *p, struct buf *out, struct err *e)
{
	char id[ID_TEXT_MAX];

	if (check_port(p->port.value, 1, "port", e) < 0 || port_owner(c, p->sandboxId, p->processId, id, e) < 0)
		return -1;
	engine_unpublish_port(call_engine(c), id, (uint16_t)p->port.value, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_list_ports(struct call *c, const struct list_ports_params *p, struct buf *out, struct err *e)
{
	bool all = !p->sandboxId && !p->processId;
	char id[ID_TEXT_MAX];

	if (!all && port_owner(c, p->sandboxId, p->processId, id, e) < 0)
		return -1;
	engine_list_ports(call_engine(c), all ? NULL : id, call_visible_uid(c), out);
	return 0;
}
