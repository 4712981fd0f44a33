#include "runtime/engine/process/process_ports.h"

#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/process/process.h"
#include "runtime/view/view.h"
#include "sandbox/net_address.h"
#include "sandbox/plan.h"

#include <errno.h>
#include <string.h>

#define PORTS_MAX 32u     /* published ports of one process */
#define DETECTED_MAX 256u /* events port.detected of one process: a command can open and close ports in a loop */

struct process_port {
	uint16_t port, host_port; /* host_port: as requested, 0 = any; then the actual one */
	char address[NET_ADDRESS_TEXT];
	bool open;                   /* port.published is recorded or being committed */
	bool wanted, listens;        /* wanted: before the command runs; listens: the host does */
	struct pending_reply opened; /* of publish_port, until then */
	struct pending_reply closed; /* of unpublish_port, while it waits for the proxy */
	bool ending;
	struct requester by, closed_by;
	uint64_t connections, sent, received;
};

struct process_ports {
	struct process_port row[PORTS_MAX];
	size_t count;
	struct status_ports listening;
	unsigned detected;
	/* Of the wanted ones: requested; port.published is durable for all. */
	bool requested, recorded;
};

static struct process_ports *ports_of(struct process *p)
{
	if (!p->ports)
		p->ports = mem_zalloc(1, sizeof *p->ports);
	return p->ports;
}

static struct process_port *find_port(const struct process *p, uint16_t port)
{
	for (size_t i = 0; p && p->ports && i < p->ports->count; i++)
		if (p->ports->row[i].port == port)
			return &p->ports->row[i];
	return NULL;
}

static void remove_port(struct process *p, struct process_port *r)
{
	reply_done(&r->opened);
	reply_done(&r->closed);
	size_t after = p->ports->count - (size_t)(r - p->ports->row) - 1;
	memmove(r, r + 1, after * sizeof *r);
	p->ports->count--;
}

void process_ports_free(struct process *p)
{
	struct err e = ERR_INIT;

	if (!p->ports)
		return;
	err_set(&e, ERR_STATE, "process '%s' has ended", p->id);
	for (size_t i = 0; i < p->ports->count; i++) {
		struct process_port *r = &p->ports->row[i];
		if (r->opened.fn)
			reply_err(&r->opened, &e, NULL, 0);
		if (r->closed.fn)
			reply_err(&r->closed, &e, NULL, 0);
	}
	free(p->ports);
	p->ports = NULL;
}

/* ---- facts ---- */

static struct scope port_scope(const struct process *p)
{
	struct scope s = process_scope(p);

	s.sandbox = p->sandbox_id;
	return s;
}

static void write_ports(struct jw *w, const struct process *p, bool (*selects)(const struct process_port *r))
{
	const struct process_ports *s = p->ports;

	jw_arr(w);
	for (size_t i = 0; s && i < s->count; i++) {
		if (!selects(&s->row[i]))
			continue;
		jw_obj(w);
		jw_kuint(w, "port", s->row[i].port);
		jw_kstr(w, "hostAddress", s->row[i].address);
		jw_kuint(w, "hostPort", s->row[i].host_port);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

static bool is_open(const struct process_port *r) { return r->open; }

/* The open ones, for the document. `value` is the process. */
static void write_open(struct jw *w, const void *value, size_t n) { write_ports(w, value, is_open); }

/* Its row must be removed, or no longer open: the fact has the list without it. */
static void closed_fact(const struct process *p, const struct process_port *r, const char *reason, const char *message,
			struct transaction *tx)
{
	EMIT(port_closed, tx, port_scope(p), .port = r->port, .hostAddress = r->address, .hostPort = r->host_port,
	     .reason = reason, .message = message, .connections = (int64_t)r->connections,
	     .bytesSent = (int64_t)r->sent, .bytesReceived = (int64_t)r->received,
	     .ports = json_from_writer(write_open, p, 0),
	     .requestedBy = r->ending ? json_requester(&r->closed_by) : JSON_NONE);
}

static void write_result(struct jw *w, const struct process *p, const struct process_port *r)
{
	jw_kstr(w, "processId", p->id);
	jw_kuint(w, "port", r->port);
	jw_kstr(w, "hostAddress", r->address);
	jw_kuint(w, "hostPort", r->host_port);
}

/* ---- publishing ---- */

bool process_has_host_network(const struct process *p)
{
	struct jval profile = jval_of(p->sandbox_json ? p->sandbox_json : "",
				      p->sandbox_json ? strlen(p->sandbox_json) : 0);

	return jval_is_str(jval_get(profile, "network"), "host");
}

/* Only addresses that the configuration names: any other would open the port to other machines. */
static int check_address(const struct engine *engine, const char *given, char ret[NET_ADDRESS_TEXT], struct err *e)
{
	struct net_address a;

	if (!net_address_parse(given, &a))
		return err_field(e, "hostAddress", "'%.60s' is not an IPv4 or IPv6 address", given);
	net_address_text(&a, ret);
	for (size_t i = 0; i < engine->o.npublish_addresses; i++)
		if (strcmp(engine->o.publish_addresses[i], ret) == 0)
			return 0;
	return err_at(e, ERR_NOT_ALLOWED, "hostAddress",
		      "ports may not be published at %s: add it to publishAddresses in the daemon's configuration",
		      ret);
}

static int check_free(const struct process *p, uint16_t port, struct err *e)
{
	const struct process_port *r = find_port(p, port);

	/* Others could use the proxy with this sandbox's rights and credentials. */
	if (port == PLAN_PROXY_PORT)
		return err_at(e, ERR_NOT_ALLOWED, "port", "port %u is the proxy's and cannot be published", port);
	if (r && r->open)
		return err_at(e, ERR_CONFLICT, "port",
			      "port %u is published already, at %s port %u: unpublish it first", port, r->address,
			      r->host_port);
	if (r)
		return err_at(e, ERR_CONFLICT, "port", "port %u is being published by another request", port);
	if (p->ports && p->ports->count == PORTS_MAX)
		return err_at(e, ERR_EXHAUSTED, "port", "%u ports are published: unpublish one first", PORTS_MAX);
	return 0;
}

void process_ports_publish(struct process *p, const struct port_publication *given, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	struct err e = ERR_INIT;
	struct engine *engine = p->engine;
	struct process_port r = { .port = given->port, .host_port = given->host_port, .by = requester_of(c) };

	if (check_address(engine, given->address, r.address, &e) < 0 || check_free(p, given->port, &e) < 0) {
		fn(ctx, &e, NULL, 0);
		return;
	}
	const struct port_publication wanted = { r.address, given->host_port, given->port };
	if (!engine->o.ports->publish || engine->o.ports->publish(engine->o.host, p->id, &wanted) < 0) {
		if (!engine->o.ports->publish)
			err_set(&e, ERR_UNAVAILABLE, "publish port %u: not possible here", given->port);
		else if (errno == EPIPE || errno == ECONNRESET || errno == ESRCH) /* its init is gone */
			err_set(&e, ERR_STATE, "process '%s' has ended", p->id);
		else
			err_set(&e, ERR_UNAVAILABLE, "publish port %u: %s", given->port, strerror(errno));
		fn(ctx, &e, NULL, 0);
		return;
	}
	reply_copy(&r.opened, c, fn, ctx);
	struct process_ports *s = ports_of(p);
	s->row[s->count++] = r;
}

static void failure_text(const struct process_port *r, int error, struct err *e)
{
	if (error == EADDRINUSE)
		err_at(e, ERR_CONFLICT, "hostPort",
		       "%s port %u is in use on this host: choose another port, or none to get a free one", r->address,
		       r->host_port);
	else if (error == EACCES)
		err_at(e, ERR_NOT_ALLOWED, "hostPort",
		       "port %u needs a privilege that the daemon's proxy does not have: choose one above 1023",
		       r->host_port);
	else if (error == EADDRNOTAVAIL)
		err_field(e, "hostAddress", "%s is not an address of this host", r->address);
	else
		err_sys(e, error, "listen at %s port %u", r->address, r->host_port);
}

/*
 * ---- ports that are published before the command runs ----
 *
 * The gate opens when port.published is durable for all of them. If one cannot be published, the command does not run.
 */

int process_ports_want(struct process *p, const struct start_request *r, struct err *e)
{
	if (r->npublish && p->within[0])
		return err_field(e, "publish", "the sandbox exists already: publish_port opens its ports");
	if (r->npublish && process_has_host_network(p))
		return err_field(e, "publish", "it would use the host's network: its ports are open there already");
	for (size_t i = 0; i < r->npublish; i++) {
		struct process_port row = {
			.port = r->publish[i].port, .host_port = r->publish[i].host_port, .wanted = true, .by = p->by
		};

		if (find_port(p, row.port))
			return err_field(e, "publish", "port %u is named twice", row.port);
		if (check_address(p->engine, r->publish[i].address, row.address, e) < 0 ||
		    check_free(p, row.port, e) < 0)
			return -1;
		struct process_ports *s = ports_of(p);
		s->row[s->count++] = row;
	}
	return 0;
}

static bool is_wanted(const struct process_port *r) { return r->wanted; }

void process_ports_write_wanted(struct jw *w, const void *process, size_t n) { write_ports(w, process, is_wanted); }

static void fail_start(struct process *p, const struct err *e)
{
	if (!p->ports_failure)
		p->ports_failure = mem_dup(e, sizeof *e);
}

int process_ports_pass(struct process *p)
{
	struct engine *engine = p->engine;
	struct process_ports *s = p->ports;
	struct err e = ERR_INIT;
	size_t wanted = 0;

	if (p->ports_failure)
		return -1;
	for (size_t i = 0; s && i < s->count; i++)
		wanted += s->row[i].wanted;
	if (!wanted || s->recorded)
		return 0;
	if (s->requested)
		return 1;
	s->requested = true;
	for (size_t i = 0; i < wanted; i++) { /* they are the first ones: others need a command that runs */
		const struct port_publication one = { s->row[i].address, s->row[i].host_port, s->row[i].port };

		if (engine->o.ports->publish && engine->o.ports->publish(engine->o.host, p->id, &one) == 0)
			continue;
		err_set(&e, ERR_UNAVAILABLE, "publish port %u: %s", one.port,
			engine->o.ports->publish ? strerror(errno) : "not possible here");
		fail_start(p, &e);
		return -1;
	}
	return s->recorded ? 0 : 1;
}

struct wanted_ports {
	struct engine *engine;
	char process_id[ID_TEXT_MAX];
};

static void on_wanted_recorded(void *ctx, const struct store_result *r)
{
	struct wanted_ports *x = ctx;
	struct process *p = engine_process(x->engine, x->process_id);

	if (p && p->ports && r->status < 0)
		fail_start(p, r->err);
	else if (p && p->ports)
		p->ports->recorded = true;
	free(x);
	if (p)
		process_event(p, PROCESS_EV_READY);
}

/* All facts are one commit: after a restart of the runtime the list of open ports says whether the command may run. */
static void on_wanted_published(struct process *p, struct process_port *row, uint16_t host_port, int error)
{
	struct process_ports *s = p->ports;
	struct err e = ERR_INIT;
	bool all = true;

	if (error) {
		failure_text(row, error, &e);
		fail_start(p, &e);
		process_event(p, PROCESS_EV_READY);
		return;
	}
	row->listens = true;
	row->host_port = host_port;
	for (size_t i = 0; i < s->count; i++)
		all &= s->row[i].listens;
	if (!all || p->ports_failure)
		return;
	struct transaction *tx = transaction_new_internal(p->engine);
	for (size_t i = 0; i < s->count; i++)
		s->row[i].open = true;
	for (size_t i = 0; i < s->count; i++)
		EMIT(port_published, tx, port_scope(p), .port = s->row[i].port, .hostAddress = s->row[i].address,
		     .hostPort = s->row[i].host_port, .ports = json_from_writer(write_open, p, 0),
		     .requestedBy = json_requester(&s->row[i].by));
	struct wanted_ports *x = mem_zalloc(1, sizeof *x);
	x->engine = p->engine;
	memcpy(x->process_id, p->id, sizeof x->process_id);
	transaction_commit_then(tx, STORE_NOW, on_wanted_recorded, x);
}

/* It could not be published; or no longer, because the proxy had to be restarted. */
static void publication_failed(struct process *p, struct process_port *row, int error)
{
	struct err e = ERR_INIT;
	struct process_port r = *row;
	struct pending_reply reply = r.opened;

	failure_text(&r, error, &e);
	row->opened = (struct pending_reply){ 0 };
	remove_port(p, row);
	if (r.open) {
		struct transaction *tx = transaction_new_internal(p->engine);
		closed_fact(p, &r, "failed", e.message, tx);
		transaction_commit(tx);
	}
	if (reply.fn)
		reply_err(&reply, &e, NULL, 0);
}

void engine_on_published(struct engine *engine, const char *id, uint16_t port, uint16_t host_port, int error)
{
	struct process *p = engine_process(engine, id);
	struct process_port *r = find_port(p, port);

	if (!r || p->state == PROCESS_ENDING)
		return;
	if (r->wanted && !r->open) {
		on_wanted_published(p, r, host_port, error);
		return;
	}
	if (error) {
		publication_failed(p, r, error);
		return;
	}
	if (r->open)
		return; /* published before the restart of this runtime */
	r->open = true;
	r->host_port = host_port;
	struct transaction *tx = transaction_new_internal(engine);
	EMIT(port_published, tx, port_scope(p), .port = port, .hostAddress = r->address, .hostPort = host_port,
	     .ports = json_from_writer(write_open, p, 0), .requestedBy = json_requester(&r->by));
	write_result(&tx->w, p, r);
	transaction_give_reply(tx, &r->opened);
	transaction_commit(tx);
}

void engine_on_port_traffic(struct engine *engine, const char *id, const struct port_traffic *t)
{
	struct process_port *r = find_port(engine_process(engine, id), (uint16_t)t->port);

	if (!r)
		return;
	r->connections += t->connections;
	r->sent += t->sent;
	r->received += t->received;
}

/* ---- closing ---- */

void engine_on_unpublished(struct engine *engine, const char *id, uint16_t port)
{
	struct process *p = engine_process(engine, id);
	struct process_port *row = find_port(p, port);

	if (!row || !row->ending || p->state == PROCESS_ENDING)
		return;
	struct transaction *tx = transaction_new_internal(engine);
	struct process_port r = *row;
	row->closed = (struct pending_reply){ 0 };
	remove_port(p, row);
	closed_fact(p, &r, "unpublished", NULL, tx);
	write_result(&tx->w, p, &r);
	transaction_give_reply(tx, &r.closed);
	transaction_commit(tx);
}

void process_ports_unpublish(struct process *p, uint16_t port, const struct caller *c, engine_reply_fn fn, void *ctx)
{
	struct err e = ERR_INIT;
	struct engine *engine = p->engine;
	struct process_port *r = find_port(p, port);

	if (!r || !r->open) {
		err_at(&e, ERR_NOT_FOUND, "port", "port %u is not published", port);
		e.reason = REASON_NOT_PUBLISHED;
	} else if (r->ending) {
		err_at(&e, ERR_CONFLICT, "port", "port %u is being unpublished by another request", port);
	}
	if (e.code) {
		fn(ctx, &e, NULL, 0);
		return;
	}
	r->ending = true;
	r->closed_by = requester_of(c);
	reply_copy(&r->closed, c, fn, ctx);
	if (engine->o.ports->unpublish(engine->o.host, p->id, port) != 0)
		engine_on_unpublished(engine, p->id, port);
}

void process_ports_end(struct process *p, struct transaction *tx)
{
	for (size_t i = 0; p->ports && i < p->ports->count; i++) {
		struct process_port *r = &p->ports->row[i];

		if (!r->open)
			continue;
		r->open = false;
		closed_fact(p, r, "ended", NULL, tx);
	}
}

/* ---- recovery ---- */

void process_ports_take(struct process *p, struct jval list)
{
	for (struct jiter it = jiter_on(list); jiter_next(&it) && ports_of(p)->count < PORTS_MAX;) {
		struct process_port *r = &p->ports->row[p->ports->count++];

		*r = (struct process_port){ .open = true };
		r->port = (uint16_t)jval_uint(jval_get(it.value, "port"), 0);
		r->host_port = (uint16_t)jval_uint(jval_get(it.value, "hostPort"), 0);
		jval_str(jval_get(it.value, "hostAddress"), r->address, sizeof r->address);
	}
}

void process_ports_resume(struct process *p)
{
	struct engine *engine = p->engine;

	for (size_t i = p->ports ? p->ports->count : 0; i-- > 0;) {
		struct process_port *r = &p->ports->row[i];
		const struct port_publication wanted = { r->address, r->host_port, r->port };

		if (engine->o.ports->publish && engine->o.ports->publish(engine->o.host, p->id, &wanted) < 0)
			publication_failed(p, r, errno);
	}
}

/* ---- listening ports ---- */

static bool is_listening(const struct status_ports *s, uint16_t port)
{
	for (unsigned i = 0; i < s->count && i < STATUS_PORTS_MAX; i++)
		if (s->port[i] == port)
			return true;
	return false;
}

struct newest {
	const struct process *holder, *found;
};

/* Ids grow with time. */
static void take_newer(void *ctx, const char *id, void *value)
{
	struct newest *n = ctx;
	const struct process *p = value;

	if (strcmp(p->within, n->holder->id) == 0 && p->state == PROCESS_RUNNING &&
	    (!n->found || strcmp(p->id, n->found->id) > 0))
		n->found = p;
}

/* The command that is likely to listen: of those in a session sandbox the one that was started last. */
static const struct process *listening_command(const struct process *p)
{
	struct newest n = { .holder = p };

	if (p->holder)
		strmap_each(&p->engine->processes->live, take_newer, &n);
	return n.found ? n.found : p;
}

void engine_on_ports(struct engine *engine, const char *id, const struct status_ports *now)
{
	struct process *p = engine_process(engine, id);
	struct transaction *tx = NULL;

	if (!p || p->state != PROCESS_RUNNING)
		return;
	struct process_ports *s = ports_of(p);
	for (unsigned i = 0; i < now->count && i < STATUS_PORTS_MAX; i++) {
		uint16_t port = now->port[i];

		if (is_listening(&s->listening, port) || find_port(p, port) || s->detected >= DETECTED_MAX)
			continue;
		s->detected++;
		tx = tx ? tx : transaction_new_internal(engine);
		EMIT(port_detected, tx, port_scope(listening_command(p)), .port = port);
	}
	s->listening = *now;
	if (tx)
		transaction_commit(tx);
}

/* ---- the list ---- */

struct listing {
	struct jw w;
	uint32_t uid;
	const struct process *only; /* NULL = all */
};

static void write_head(struct jw *w, const struct process *p, uint16_t port)
{
	jw_obj(w);
	jw_kopt(w, "sandboxId", none_if_empty(p->sandbox_id));
	jw_kstr(w, "processId", p->id);
	jw_kuint(w, "port", port);
	jw_kbool(w, "listening", is_listening(&p->ports->listening, port));
}

static void list_process(void *ctx, const char *id, void *value)
{
	struct listing *l = ctx;
	const struct process *p = value;
	const struct process_ports *s = p->ports;

	if (!s || (l->uid != VIEW_ANY_UID && l->uid != p->uid) || (l->only && l->only != p))
		return;
	for (size_t i = 0; i < s->count; i++) {
		const struct process_port *r = &s->row[i];
		if (!r->open)
			continue;
		write_head(&l->w, p, r->port);
		jw_kstr(&l->w, "status", "published");
		jw_kstr(&l->w, "hostAddress", r->address);
		jw_kuint(&l->w, "hostPort", r->host_port);
		jw_kuint(&l->w, "connections", r->connections);
		jw_kuint(&l->w, "bytesSent", r->sent);
		jw_kuint(&l->w, "bytesReceived", r->received);
		jw_obj_end(&l->w);
	}
	for (unsigned i = 0; i < s->listening.count && i < STATUS_PORTS_MAX; i++) {
		const struct process_port *r = find_port(p, s->listening.port[i]);
		if (r && r->open)
			continue;
		write_head(&l->w, p, s->listening.port[i]);
		jw_kstr(&l->w, "status", "detected");
		jw_obj_end(&l->w);
	}
}

void engine_list_ports(struct engine *engine, const char *process_id, uint32_t uid, struct buf *out)
{
	struct listing l = { .w = jw_on(out), .uid = uid };

	if (process_id) {
		l.only = engine_process(engine, process_id);
		if (l.only && l.only->within[0])
			l.only = engine_process(engine, l.only->within);
	}
	jw_obj(&l.w);
	jw_karr(&l.w, "ports");
	if (!process_id || l.only)
		strmap_each(&engine->processes->live, list_process, &l);
	jw_arr_end(&l.w);
	jw_obj_end(&l.w);
}
