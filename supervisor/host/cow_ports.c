#include "supervisor/host/cow_ports.h"

#include "runtime/base/mem.h"
#include "runtime/engine/turn/turn.h"
#include "supervisor/host/cow_changes.h"
#include "supervisor/host/host_ports.h"

#include <event2/event.h>
#include <stdio.h>

/* A request of the engine's, which is made from the loop: the engine calls the ports inside a transaction. */
struct cow_request {
	struct host_ports *host;
	char id[PLAN_KEY_MAX], to[PLAN_KEY_MAX];
	uint32_t uid;
};

static int make_later(void *host, const char *id, const char *to, uint32_t uid, event_callback_fn fn)
{
	const struct timeval now = { 0 };
	struct host_ports *w = host;

	if (!w->changes)
		return -1;
	struct cow_request *r = mem_zalloc(1, sizeof *r);
	r->host = w;
	r->uid = uid;
	snprintf(r->id, sizeof r->id, "%s", id);
	snprintf(r->to, sizeof r->to, "%s", to);
	if (event_base_once(w->base, -1, EV_TIMEOUT, fn, r, &now) == 0)
		return 0;
	free(r);
	return -1;
}

static void on_discarded(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct cow_request *r = ctx;

	engine_on_discarded(r->host->engine, r->id, e);
	free(r);
}

static void discard_now(evutil_socket_t fd, short what, void *ctx)
{
	struct cow_request *r = ctx;
	const struct host_ports *w = r->host;
	const struct caller c = { .uid = r->uid,
				  .role = ROLE_OPERATOR,
				  .peer_fd = w->ports->find_peer(r->host, r->uid) };

	const struct change_request discard = { .op = CHANGE_OP_DISCARD, .process_id = r->id };

	cow_changes_request(w->changes, &discard, &c, on_discarded, r);
}

int cow_port_discard(void *host, const char *id, uint32_t uid) { return make_later(host, id, "", uid, discard_now); }

static void on_copied(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct cow_request *r = ctx;

	engine_on_copied(r->host->engine, r->to, e);
	free(r);
}

static void copy_now(evutil_socket_t fd, short what, void *ctx)
{
	struct cow_request *r = ctx;

	cow_changes_copy(r->host->changes, r->id, r->to, on_copied, r);
}

int cow_port_copy(void *host, const char *from, const char *to) { return make_later(host, from, to, 0, copy_now); }

static void drop_now(evutil_socket_t fd, short what, void *ctx)
{
	struct cow_request *r = ctx;

	cow_changes_drop(r->host->changes, r->id);
	free(r);
}

void cow_port_drop(void *host, const char *id) { make_later(host, id, "", 0, drop_now); }
