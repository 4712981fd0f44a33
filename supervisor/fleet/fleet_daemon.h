#ifndef BAILIFF_FLEET_DAEMON_H
#define BAILIFF_FLEET_DAEMON_H

/*
 * What the node needs of its daemon. daemon_link.c implements it over the control socket; unit tests and the simulator
 * with memory. Times are milliseconds of the boot clock. Results: 0 done, 1 the outcome that the comment names, −1 (e).
 */

#include "supervisor/fleet/fleet_doc.h"

#include <stdbool.h>
#include <stdint.h>

struct err;

#define FLEET_LOCAL_ID 40

/* A task of the daemon that a claim created. */
struct fleet_local {
	bool started, ended;
	char status[32]; /* the daemon's: completed, failed, cancelled … */
	char reason[FLEET_REASON_MAX];
	int exit_code;     /* −1 = none */
	uint64_t ended_at; /* real time, ms */
	uint64_t token;
	char fleet_id[FLEET_ID_MAX + 1], submitter_key[FLEET_KEY_TEXT];
	char *result; /* JSON of an object, once ended; to be freed */
};

struct fleet_start {
	const char *local_id;
	const struct fleet_task *task;
	const char *node, *submitter; /* names */
	uint64_t token, lease_until;
};

typedef void (*fleet_local_fn)(void *ctx, const char *local_id, const struct fleet_local *l);

struct fleet_daemon;
struct fleet_daemon_ops {
	/* Makes the workspace and the inputs. 1 = not finished yet, call again (inputs are fetched piece by piece). */
	int (*prepare)(struct fleet_daemon *d, const struct fleet_start *s, struct err *e);
	/* Durable when it returns; nothing runs yet. */
	int (*create)(struct fleet_daemon *d, const struct fleet_start *s, struct err *e);
	int (*start)(struct fleet_daemon *d, const char *local_id, struct err *e);
	int (*renew)(struct fleet_daemon *d, const char *local_id, uint64_t until, struct err *e);
	int (*cancel)(struct fleet_daemon *d, const char *local_id, const char *reason, struct err *e);
	int (*status)(struct fleet_daemon *d, const char *local_id, struct fleet_local *ret,
		      struct err *e); /* 1 = unknown */
	int (*list)(struct fleet_daemon *d, fleet_local_fn fn, void *ctx,
		    struct err *e); /* those that have not ended */
	bool (*draining)(struct fleet_daemon *d);
	/* Ends what prepare has begun. */
	void (*forget)(struct fleet_daemon *d, const char *local_id);
};

struct fleet_daemon {
	const struct fleet_daemon_ops *ops;
};

#endif
