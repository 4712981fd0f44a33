/*
 * Has audit become free, or was it lost? Looked at from time to time: the kernel tells neither.
 *
 * bailiff never competes for audit. The kernel refuses to replace a live reader, and what another reader has left is taken only if
 * it is found free twice in a row, so that an audit daemon that is being restarted finds it free.
 *
 * The runtime reads the records and the spawner gives sandboxes their sessions, each by what it was started with. So both are started
 * anew when that changes; commands go on. If the state keeps changing, the looks become less frequent.
 */

#include "supervisor/guard/guard.h"

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "sandbox/audit.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define MS_NS 1000000ull
#define CHANGES_MAX 7 /* in a row: the interval is doubled so many times at most */

uint64_t guard_audit_due(const struct guard *g)
{
	return g->o->audit && g->o->audit->check_ms && !g->stopping ? g->audit_at : UINT64_MAX;
}

static bool children_serve(const struct guard *g)
{
	return g->served && g->child[GUARD_RUNTIME].ready && g->child[GUARD_SPAWNER].ready;
}

static void restart_children(struct guard *g)
{
	fd_pidfd_signal(g->child[GUARD_RUNTIME].pidfd, SIGKILL);
	fd_pidfd_signal(g->child[GUARD_SPAWNER].pidfd, SIGKILL);
}

/* true = the children know something else. Nobody is waited for here: with another reader around, this is tried again later. */
static bool take(struct guard *g)
{
	struct guard_options *o = g->o;
	struct err e = ERR_INIT;
	bool had = o->audit_fd >= 0;
	int fd = -1;
	if (audit_take(0, &fd, &e) < 0) {
		snprintf(o->audit->state, sizeof o->audit->state, "%s", e.message);
		if (!had)
			return false;
		log_warning("audit is lost: %s", e.message);
		audit_leave(o->audit_fd);
	} else {
		snprintf(o->audit->state, sizeof o->audit->state, "on");
		snprintf(o->audit->since, sizeof o->audit->since, "%" PRIu64, clock_boot_ns());
		log_info("audit was %s: it is ours now", had ? "lost" : "free");
	}
	fd_close(&o->audit_fd);
	o->audit_fd = fd;
	return true;
}

static bool look(struct guard *g)
{
	bool had = g->o->audit_fd >= 0, was_free = g->audit_free;
	pid_t owner;
	if (audit_owner(&owner) < 0)
		return false;
	g->audit_free = owner == 0;
	if (had ? owner == getpid() : owner != 0 || !was_free)
		return false;
	return take(g);
}

void guard_audit_check(struct guard *g)
{
	uint64_t now = clock_boot_ns();
	if (now < guard_audit_due(g) || g->leaving || g->upgrade)
		return;
	if (g->audit_at && children_serve(g)) {
		bool changed = look(g);
		if (changed)
			restart_children(g);
		g->audit_changes = !changed ? 0 : g->audit_changes < CHANGES_MAX ? g->audit_changes + 1 : CHANGES_MAX;
	}
	g->audit_at = now + (g->o->audit->check_ms * MS_NS << g->audit_changes);
}
