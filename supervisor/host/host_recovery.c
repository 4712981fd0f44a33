/* Takes over the processes that the guard has kept since an earlier runtime. */

#include "supervisor/host/host_ports.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/audit.h"
#include "supervisor/host/process_io.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

struct takeover {
	struct host_ports *host;
	struct guard_item *items;
	struct port_held *held;
	size_t count, size;
};

static struct guard_item *item_of(struct takeover *t, const struct port_held *held)
{
	return &t->items[held - t->held];
}

/* Whether it was a copy-on-write run is not known here: `cow` makes its end check (cow_changes_on_ended). */
static void recovery_adopt(void *host, const struct port_held *held, const struct port_streams *streams,
			   uint64_t size[STREAM_COUNT])
{
	struct host_ports *w = host;
	struct guard_item *item = item_of(w->takeover, held);
	struct process_io *io = process_io_new(host, held->id, streams);

	io->key = item->key;
	io->pid = io->within[0] ? streams->pid : item->pid;
	io->led = true;
	io->cow = true;
	io->limited = io->within[0]; /* not known either */
	io->flags = streams->holder ? PLAN_HOLDER : 0;
	process_io_take_fds(io, item->fds);
	process_io_find_spools(io, size);
	if (io->within[0])
		audit_reader_add_member(&w->audit, io);
	else if (held->watched)
		audit_reader_add(&w->audit, io, audit_session_of(io->pid));
	proxy_link_serve(&w->proxy, io);
	process_io_watch(io);
	if (!io->within[0])
		process_io_signal_init(io, STATUS_PORTS, 0); /* this runtime has no listening ports yet */
}

/* The guard ends it. A repeated start of the same id waits for the release (struct abandoned). */
static void recovery_abandon(void *host, const struct port_held *held)
{
	struct host_ports *w = host;
	const struct plan_key *key = &item_of(w->takeover, held)->key;

	struct abandoned *a = strmap_get(&w->abandoned, key->id);

	if (!a) {
		a = mem_zalloc(1, sizeof *a);
		strmap_put(&w->abandoned, key->id, a);
	}
	if (key->attempt > a->attempt)
		a->attempt = key->attempt;
	guard_link_release(&w->guard, key);
}

/* The guard no longer holds it: only its spool files are opened, to record what it printed. */
static void recovery_salvage(void *host, const char *id, const struct port_streams *streams,
			     uint64_t size[STREAM_COUNT])
{
	struct process_io *io = process_io_new(host, id, streams);

	io->cow = true;
	process_io_find_spools(io, size);
}

static const struct recovery_ports recovery_ports = {
	.adopt = recovery_adopt,
	.abandon = recovery_abandon,
	.salvage = recovery_salvage,
};

/* A pidfd is readable once its process has ended. A member has none; its status socket is closed then. */
static bool has_ended(const int fds[GUARD_SLOT_COUNT])
{
	struct pollfd p = { .fd = fds[GUARD_SLOT_PIDFD], .events = POLLIN };
	struct pollfd status = { .fd = fds[GUARD_SLOT_STATUS] };

	if (p.fd >= 0)
		return poll(&p, 1, 0) > 0;
	return status.fd >= 0 && poll(&status, 1, 0) > 0 && status.revents & POLLHUP;
}

/* Copies of clients' sockets are in the guard too, under names with GUARD_PEER_PREFIX: these are not processes. */
static int takeover_collect(struct takeover *t, struct err *e)
{
	struct host_ports *w = t->host;
	uint32_t index = 0;
	int r;

	for (;;) {
		struct guard_item item;
		r = guard_link_next(&w->guard, &index, &item, e);
		if (r != 0)
			break;
		if (t->count == t->size) {
			t->size = t->size ? t->size * 2 : 64;
			t->items = mem_realloc(t->items, t->size * sizeof *t->items);
		}
		item.key.id[sizeof item.key.id - 1] = '\0';
		if (strncmp(item.key.id, GUARD_PEER_PREFIX, strlen(GUARD_PEER_PREFIX)) == 0) {
			known_peers_restore(&w->peers, item.key.id, fd_take(&item.fds[GUARD_SLOT_STDIN]));
			continue;
		}
		t->items[t->count++] = item;
	}
	if (r < 0)
		return -1;
	t->held = mem_zalloc(t->count + 1, sizeof *t->held);
	for (size_t i = 0; i < t->count; i++)
		t->held[i] = (struct port_held){
			.id = t->items[i].key.id,
			.attempt = t->items[i].key.attempt,
			.started = t->items[i].fds[GUARD_SLOT_PIDFD] >= 0,
			.exited = has_ended(t->items[i].fds),
			.closed = process_io_closed_streams(t->items[i].fds),
			/* A member without pidfd: its holder is watched, if anything is. */
			.watched = t->items[i].fds[GUARD_SLOT_PIDFD] < 0
					   ? w->audit.fd >= 0
					   : audit_session_of(t->items[i].pid) != AUDIT_NO_SESSION,
		};
	return 0;
}

static void takeover_done(struct takeover *t)
{
	for (size_t i = 0; i < t->count; i++)
		for (int k = 0; k < GUARD_SLOT_COUNT; k++)
			fd_close(&t->items[i].fds[k]);
	free(t->items);
	free(t->held);
}

int host_ports_recover(struct host_ports *w, struct err *e)
{
	struct takeover t = { .host = w };

	/* Once the spawner answers this, everything that an earlier runtime asked for is deposited with the guard. */
	while (spawn_link_sync(&w->spawner) != 0)
		guard_link_receive(&w->guard);
	int r = takeover_collect(&t, e);
	if (r == 0) {
		w->takeover = &t;
		r = engine_recover(w->engine, &recovery_ports, t.held, t.count, e);
		w->takeover = NULL;
	}
	takeover_done(&t);
	return r;
}
