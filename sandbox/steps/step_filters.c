/* The last steps of the init: descriptors, Landlock and the system call filter. */

#include "sandbox/steps/step.h"

#include "runtime/base/fd.h"
#include "sandbox/host_fingerprint.h"
#include "sandbox/landlock.h"
#include "sandbox/plan.h"
#include "sandbox/sysfilter.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* The pins of a dedicated prebuilt sandbox stay open until it is used (sandbox/host_fingerprint.h). */
static int close_above(const struct step_context *c, unsigned first)
{
	if (!c->fingerprint || !c->fingerprint->pins || first > FINGERPRINT_PINS)
		return fd_close_range(first, UINT_MAX);
	if (first < FINGERPRINT_PINS && fd_close_range(first, FINGERPRINT_PINS - 1) < 0)
		return -1;
	return fd_close_range(FINGERPRINT_PINS + c->fingerprint->pins, UINT_MAX);
}

/* Sorts the few known descriptors and closes the gaps between them; 0 to 2 are the init's own and replaced later. */
int step_descriptors(struct step_context *c)
{
	const int declared[] = { 2,
				 c->stdin_fd,
				 c->stdout_fd,
				 c->stderr_fd,
				 c->status_fd,
				 c->gate_fd,
				 c->guard_pidfd,
				 c->placeholder_fd,
				 c->master_fd,
				 c->slave_fd,
				 c->prebuilt_fd,
				 c->net_fd,
				 c->oom_fd,
				 c->listen_fd,
				 c->resolver_fd,
				 c->queues_fd,
				 c->self_fds };
	const int known = (int)(sizeof declared / sizeof declared[0]), n = known + TREE_FILES + (int)c->host_roots;
	int keep[sizeof declared / sizeof declared[0] + TREE_FILES + PLAN_MOUNTS_MAX];
	memcpy(keep, declared, sizeof declared);
	memcpy(keep + known, c->tree.file, sizeof c->tree.file);
	memcpy(keep + known + TREE_FILES, c->host_root_fd, c->host_roots * sizeof c->host_root_fd[0]);
	for (int i = 1; i < n; i++) {
		int v = keep[i], j = i;
		for (; j > 0 && keep[j - 1] > v; j--)
			keep[j] = keep[j - 1];
		keep[j] = v;
	}
	for (int i = 0; i < n; i++) {
		if (keep[i] < 2)
			continue;
		unsigned first = (unsigned)keep[i] + 1;
		if (i + 1 == n)
			return close_above(c, first);
		unsigned last = (unsigned)keep[i + 1];
		if (last > first && fd_close_range(first, last - 1) < 0)
			return -1;
	}
	return 0;
}

/*
 * A private root always gets it if the kernel supports it; the sender of the plan cannot opt out. Init and command are
 * in one domain, so the init can still signal its tree; the guard is outside and can signal both.
 */
int step_landlock(struct step_context *c)
{
	int abi = step_confined(c) || c->plan->layers & PLAN_LAYER_LANDLOCK ? landlock_abi() : 0;
	if (step_confined(c) && landlock_shuts_abstract_sockets(abi, c->plan->network))
		c->layers |= PLAN_LAYER_ABSTRACT_SOCKETS;
	if (abi == 0)
		return 0;
	const char *path;
	if (landlock_confine(abi, c->plan, c->logged, &path) < 0) {
		if (path)
			step_path(c, path);
		return -1;
	}
	c->layers |= PLAN_LAYER_LANDLOCK;
	return 0;
}

/*
 * The last step of the init: whatever it does from here on, the filter must allow. A private root always has the
 * filter: without it a command could create setuid files in an idmapped write root, which are root's outside, and the
 * sender of a plan must not be able to omit it.
 */
int step_seccomp(struct step_context *c)
{
	if (step_confined(c) && !c->filter) {
		errno = EOPNOTSUPP;
		return -1;
	}
	if (!(step_confined(c) || c->plan->layers & PLAN_LAYER_SECCOMP) || !c->filter)
		return 0;
	if (sysfilter_install(c->filter, c->logged) < 0)
		return -1;
	c->layers |= PLAN_LAYER_SECCOMP;
	return 0;
}
