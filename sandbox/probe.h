#ifndef BAILIFF_SANDBOX_PROBE_H
#define BAILIFF_SANDBOX_PROBE_H

/*
 * What this machine lets the daemon enforce, for get_health and `bailiff doctor`: looked at, not tried, so that it is
 * cheap and may run in the unprivileged runtime. Sandboxes are built by a sibling with the parent's rights (the spawner
 * under the guard), so it is the parent's owner that decides where rights matter.
 */

#include <stddef.h>

#define PROBE_ROWS_MAX 16

struct probe_row {
	const char *name;
	const char *state;   /* "enforced" or "unavailable" */
	char detail[128];
};

/* Fills at most cap rows; how many there are. */
size_t probe_run(struct probe_row *rows, size_t cap);

#endif
