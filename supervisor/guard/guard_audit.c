/*
 * Keeps audit usable while the daemon runs. It is polled, since the kernel does not report changes: another program may
 * remove all rules (an audit daemon does that when it starts), switch audit off, or make it available.
 *
 * The runtime reads the records and the spawner creates the sandboxes' sessions; both depend on arguments from their
 * start. So both are restarted when the state changes, or when records may have been lost; commands keep running. If
 * the state keeps changing, the checks become less frequent.
 *
 * The guard is the registered recipient of records only while no other program is (audit.c has the reason) and never
 * competes for that. It withdraws as soon as another program wants to register, and registers again only after several
 * consecutive checks have found no recipient, so that an audit daemon that is being restarted can register.
 */

#include "supervisor/guard/guard.h"

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "sandbox/audit.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MS_NS 1000000ull
#define CHANGES_MAX 7        /* consecutive; limits how often the interval is doubled */
#define FREE_CHECKS 2        /* that must find no recipient before the guard registers … */
#define FREE_CHECKS_ASKED 20 /* … and after another program tried to register: its next attempt may be manual */
#define TRIAL_MS 500         /* the guard blocks for this long */

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

/* ---- the recipient ---- */

/* `needed`: consecutive checks, including this one, that must have found no other recipient. */
static void register_recipient(struct guard *g, unsigned needed)
{
	pid_t owner;
	if (g->o->audit_fd < 0 || audit_owner(&owner) < 0)
		return;
	bool own = owner == getpid() && g->audit_recipient >= 0;
	if (own)
		return;
	if (g->audit_recipient >= 0)
		fd_close(&g->audit_recipient); /* the kernel has unregistered it */
	g->audit_free = owner == 0 || owner == getpid() ? g->audit_free + 1 : 0;
	if (g->audit_free < needed)
		return;
	g->audit_asked = false;
	g->audit_recipient = audit_recipient_open();
	if (g->audit_recipient < 0)
		log_info("audit records go to the kernel's log as well: %s", strerror(errno));
}

static void withdraw_recipient(struct guard *g)
{
	if (g->audit_recipient < 0)
		return;
	audit_recipient_close(fd_take(&g->audit_recipient));
	g->audit_free = 0;
}

void guard_audit_on_recipient(struct guard *g)
{
	if (!audit_recipient_wanted(g->audit_recipient))
		return;
	log_info("another program wants to be the recipient of audit records: withdrawing");
	withdraw_recipient(g);
	g->audit_asked = true;
}

/* ---- rules ---- */

static void set_since_now(struct guard *g)
{
	snprintf(g->o->audit->since, sizeof g->o->audit->since, "%" PRIu64, clock_boot_ns());
}

/* Returns true if the arguments of the children changed. */
static bool keep_audit(struct guard *g)
{
	struct guard_options *o = g->o;
	struct err e = ERR_INIT;
	int r = audit_keep(&e);
	if (r == 0)
		return false;
	if (r > 0) {
		log_warning("audit rules were removed by another program, and are added again");
		set_since_now(g);
		return true;
	}
	log_warning("audit is lost: %s", e.message);
	snprintf(o->audit->state, sizeof o->audit->state, "%s", e.message);
	withdraw_recipient(g);
	audit_leave();
	fd_close(&o->audit_fd);
	return true;
}

static bool acquire_audit(struct guard *g)
{
	struct guard_options *o = g->o;
	struct err e = ERR_INIT;
	if (audit_take(TRIAL_MS, &o->audit_fd, &e) < 0) {
		snprintf(o->audit->state, sizeof o->audit->state, "%s", e.message);
		return false;
	}
	snprintf(o->audit->state, sizeof o->audit->state, "on");
	set_since_now(g);
	log_info("audit is available now");
	return true;
}

/* The first check only registers; later ones wait until the children serve, since a change restarts them. */
void guard_audit_check(struct guard *g)
{
	uint64_t now = clock_boot_ns();
	if (now < guard_audit_due(g) || g->leaving || g->upgrade)
		return;
	if (!g->audit_at) {
		register_recipient(g, 1);
	} else if (children_serve(g)) {
		bool changed = g->o->audit_fd >= 0 ? keep_audit(g) : acquire_audit(g);
		if (changed)
			restart_children(g);
		g->audit_changes = !changed ? 0 : g->audit_changes < CHANGES_MAX ? g->audit_changes + 1 : CHANGES_MAX;
		register_recipient(g, g->audit_asked ? FREE_CHECKS_ASKED : FREE_CHECKS);
	}
	g->audit_at = now + (g->o->audit->check_ms * MS_NS << g->audit_changes);
}

/* ---- start and shutdown ---- */

/*
 * Versions before the multicast group were the host's only recipient. The runtime is replaced after an upgrade anyway.
 */
void guard_audit_resume(struct guard *g)
{
	struct guard_options *o = g->o;
	struct err e = ERR_INIT;
	if (o->audit_fd < 0 || audit_is_reader(o->audit_fd))
		return;
	audit_recipient_close(fd_take(&o->audit_fd));
	if (audit_take(TRIAL_MS, &o->audit_fd, &e) == 0) {
		set_since_now(g);
	} else {
		log_warning("audit is lost: %s", e.message);
		snprintf(o->audit->state, sizeof o->audit->state, "%s", e.message);
	}
}

void guard_audit_leave(struct guard *g)
{
	withdraw_recipient(g);
	if (g->o->audit_fd >= 0)
		audit_leave();
}
