#ifndef BAILIFF_SUPERVISOR_HOST_HOST_PORTS_H
#define BAILIFF_SUPERVISOR_HOST_HOST_PORTS_H

/*
 * The engine's ports on a real host: pipes and processes, the links to guard, spawner and proxy, and one timer. The
 * engine calls host_ports_table; what happens on the host is reported with the engine_on_… functions of ports.h.
 * Everything runs on the runtime's one event loop.
 *
 * Set-up has three steps. host_ports_init connects the parts. host_ports_recover runs before the loop, with blocking
 * reads: it waits until the spawner has finished what an earlier runtime requested, takes over all descriptors from the
 * guard, and lets the engine adopt, abandon or salvage each process. host_ports_listen starts the event handlers; until
 * then nothing new can be started, so no reply can be confused with one to an earlier runtime.
 *
 * A port never calls back into the engine before it returns: the engine may be inside a transaction. A result that is
 * known at once is reported from the loop (struct stillborn, struct discard).
 */

#include "runtime/base/strmap.h"
#include "runtime/engine/core/ports.h"
#include "supervisor/host/audit_reader.h"
#include "supervisor/host/base_env.h"
#include "supervisor/host/deadline_timer.h"
#include "supervisor/host/guard_link.h"
#include "supervisor/host/known_peer.h"
#include "supervisor/host/proxy_link.h"
#include "supervisor/host/root_grant.h"
#include "supervisor/host/spawn_link.h"

#include <stdbool.h>
#include <stdint.h>

struct cow_changes;
struct engine;
struct err;
struct event_base;
struct git_searches;
struct process_io;
struct workspace_policies;
struct rule_writer;
struct screens;
struct store;
struct takeover;

/*
 * A start whose events were not durable when the runtime died is repeated, possibly under the same id. The guard ends
 * the earlier attempt, which owns the directories named after the id until then: the next attempt waits for its release
 * and uses a new key.
 */
struct abandoned {
	uint32_t attempt; /* the newest one that the guard had and that was not adopted */
	bool released;
};

struct host_ports {
	const struct ports *ports; /* &host_ports_table, for the files below that use a port themselves */
	/* A report that was awaited after the end of this process has arrived; the last one completes its record. */
	void (*drained)(struct host_ports *w, const char *id);
	struct event_base *base;
	struct engine *engine;
	struct store *store;
	struct guard_link guard;
	struct spawn_link spawner;
	struct audit_reader audit;
	struct proxy_link proxy;
	int spool_dir;             /* O_DIRECTORY */
	struct strmap process_ios; /* id → struct process_io */
	size_t members;            /* those of them that run in a session sandbox */
	struct strmap abandoned;   /* id → struct abandoned: found in the guard at the start and not adopted */
	struct known_peers peers;
	struct root_grants grants;
	struct deadline_timer timer;
	uint64_t process_ios_made;
	unsigned grown_pipes;
	struct screens *screens; /* of terminals; NULL = none are kept */
	struct base_env base_env;
	struct git_searches *searches;
	struct workspace_policies *workspaces; /* NULL = only the policy that applies everywhere */
	struct rule_writer *rule_writer;
	struct cow_changes *changes; /* of copy-on-write runs; NULL = not served */
	struct takeover *takeover;   /* only during engine_recover: what the guard handed over */
	/* Whether a start that failed was lost with its spawner, and is repeated. */
	bool (*launch_again)(struct process_io *io, const struct status_msg *last);
	int32_t fleet_pid;       /* of bailiff-fleet, as the guard says; 0 = none */
	void (*stop)(void *ctx); /* the guard asks the runtime to stop */
	void (*reload)(void *ctx, const int files[GUARD_FILES], uint32_t token);
	void *ctx;
};

extern const struct ports host_ports_table;

void host_ports_init(struct host_ports *w, struct event_base *base, struct store *store, int guard_fd, int spawner_fd,
		     int spool_dir, int audit_fd);
void host_ports_done(struct host_ports *w);
/* Takes over the guard's descriptors and lets the engine recover from them. Before the loop runs. */
int host_ports_recover(struct host_ports *w, struct err *e);
void host_ports_listen(struct host_ports *w);
#endif
