#include "sandbox/steps/step.h"

#include "runtime/base/fd.h"
#include "sandbox/host_fingerprint.h"

#include <limits.h>
#include <string.h>

/* What a sandbox that waits for its command keeps in sight stays open, until it is used (sandbox/host_fingerprint.h).
 */
static int close_above(const struct step_context *c, unsigned first)
{
	if (!c->fingerprint || !c->fingerprint->pins || first > FINGERPRINT_PINS)
		return fd_close_range(first, UINT_MAX);
	if (first < FINGERPRINT_PINS && fd_close_range(first, FINGERPRINT_PINS - 1) < 0)
		return -1;
	return fd_close_range(FINGERPRINT_PINS + c->fingerprint->pins, UINT_MAX);
}

/* Sorts the few declared descriptors and closes the gaps between them; 0 to 2 are the init's own and replaced later. */
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
				 c->self_fds };
	int keep[sizeof declared / sizeof declared[0] + TREE_FILES];
	const int n = (int)(sizeof keep / sizeof keep[0]);
	memcpy(keep, declared, sizeof declared);
	memcpy(keep + sizeof declared / sizeof declared[0], c->tree.file, sizeof c->tree.file);
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
