#ifndef BAILIFF_FLEET_NODE_H
#define BAILIFF_FLEET_NODE_H

/*
 * The logic of a node: claims tasks from the queue, lets the daemon run them, renews their leases, and writes their
 * results. It has no clock, socket or thread of its own: fleet_node_tick does what is due at the given time through the
 * port (the bus) and the daemon.
 *
 * What makes a task run once:
 *
 * - A claim is an update of the task document from a known revision; of two nodes one wins. The revision of the claim
 * is the token, which the daemon records before the command can start.
 * - A node may run a task until two thirds of the lease after its last successful renewal was sent; the daemon itself
 *   enforces that. Another node takes the task away only after it has seen the same revision for a whole lease, by its
 *   own clock. So clocks need not agree, and a paused node cannot run into another's attempt.
 * - Before an attempt starts, it is recorded where only nodes can write (fleet_record.c). A document that a client has
 *   changed starts nothing again.
 * - A task taken away becomes lost. It starts again only if the spec asks for that (retryLost).
 * - A result is written from the last revision of the claim, so it is written once or not at all.
 *
 * The message in the queue only says that a node has to look at a task; it is acknowledged when the task has ended.
 */

#include "supervisor/fleet/fleet_daemon.h"
#include "supervisor/fleet/fleet_port.h"

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct err;

struct fleet_submitter {
	char key[FLEET_KEY_TEXT], name[FLEET_ID_MAX + 1];
	uint64_t max_tasks; /* at once on this node; 0 = no limit */
	bool may_operate;   /* may cancel, retry and read the tasks of others */
	json_t *profiles;   /* array of names, or NULL: any */
};

struct fleet_node_config {
	char node[FLEET_ID_MAX + 1], instance[FLEET_ID_MAX + 1], arch[FLEET_ID_MAX + 1];
	json_t *labels; /* name → value */
	uint64_t memory, cpus, max_tasks;
	struct fleet_submitter *submitters;
	size_t nsubmitters;
};

enum fleet_run_phase {
	FLEET_RUN_PREPARING, /* claimed; nothing was created */
	FLEET_RUN_RUNNING,
	FLEET_RUN_ENDING, /* the daemon was asked to cancel it */
	FLEET_RUN_ENDED,  /* the result is not written yet */
};

/* What is known of a task's attempts, whatever its document says. */
struct fleet_record {
	/* Of the last attempt; queued: it was not started after all, or there is none. */
	enum fleet_state state;
	uint64_t attempt, failed, lost; /* the latter two: how many ended so */
	char claim[FLEET_ID_MAX + 1];
};

/* A task that this node has claimed. */
struct fleet_run {
	struct fleet_run *next;
	struct fleet_task task; /* as this node last saw it */
	uint64_t revision, token;
	struct fleet_message message;
	bool has_message; /* not after a restart, until it is delivered again */
	char local_id[FLEET_LOCAL_ID];
	enum fleet_run_phase phase;
	uint64_t renewed_at; /* when the last successful renewal was sent */
	uint64_t renew_at, keep_at, check_at;
	bool cancelled;        /* its submitter asked for it */
	bool cancel_requested; /* by a signed request, whatever the document says */
	bool taken;            /* another node has taken the task away: nothing more is written */
	bool unsure;           /* whether the daemon has started it: it is to be ended in any case */
	const char *end_reason;
	struct fleet_record record; /* as it was before the start */
	uint64_t record_revision;
	uint64_t admit_at;         /* when to look at the record again; 0 = now */
	uint64_t wait_until;       /* for an earlier attempt whose end is not recorded; 0 = there is none */
	bool admitted;             /* the record permits the attempt */
	bool record_sent;          /* the start may have been recorded */
	bool refused;              /* the record does not permit the attempt */
	bool unstarted;            /* the daemon refused to start it: it goes back to the queue */
	enum fleet_state ended_as; /* what compose_end wrote */
	struct fleet_local local;
};

/* A message whose task another node has claimed: held until that claim has moved or its lease is over. */
struct fleet_suspect {
	struct fleet_suspect *next;
	struct fleet_message message;
	uint64_t revision, lease_ms, keep_at;
	uint64_t since; /* the first tick that began after the document was read; 0 = not yet */
};

struct fleet_class {
	struct fleet_class *next;
	char class[FLEET_CLASS_TEXT];
	unsigned priority;
	json_t *root;
	struct fleet_needs needs;
};

/* A task that this node leaves to another one that is nearer, for a moment. */
struct fleet_waiting {
	char task[FLEET_ID_MAX + 1];
	uint64_t since; /* boot clock, ms; 0 = free */
};

struct fleet_node {
	struct fleet_port *port;
	struct fleet_daemon *daemon;
	struct fleet_node_config *config;
	struct fleet_run *runs;
	struct fleet_suspect *suspects;
	struct fleet_waiting waiting[64];
	struct fleet_class *classes; /* higher priorities first */
	uint64_t classes_at, refreshed_at, fetch_at, announce_at, scan_at;
	uint64_t entry_revision; /* of the node's own entry; 0 = unknown */
	bool named;              /* the entry of this name is this daemon's: it takes tasks and answers requests */
	bool refused;            /* another daemon has the name */
	bool clock_known;        /* it was compared at the last announcement */
	int64_t clock_ahead;     /* ms, of this machine's wall clock, compared with the server's */
	bool recovered;          /* what ran before this process was started has been adopted */
	bool woken;              /* something was enqueued, or a task ended */
	bool checks;             /* the daemon reported something about a task */
	json_t *scanned;         /* revisions of the last scan */
	json_t *delivered;       /* since then: ids of the tasks whose messages came … */
	json_t *empty;           /* … and how often a class had none: CLASS.PRIORITY → number */
	uint64_t claims, finished, taken_away;
	/*
	 * Called for each document of a list: with many of them, reading the list takes longer than a lease. Renews
	 * what is due, by `clock`; NULL = no time passes within a tick.
	 */
	void (*listed)(struct fleet_node *n);
	void (*clock)(uint64_t *ret_now, uint64_t *ret_real);
	unsigned nlisted;
	uint64_t renew_at; /* of the next renewals while a list is read */
};

void fleet_node_init(struct fleet_node *n, struct fleet_port *p, struct fleet_daemon *d, struct fleet_node_config *c);
void fleet_node_done(struct fleet_node *n);
/*
 * now: boot clock; real: wall clock; both in ms. Returns when it wants to be called again at the latest; `now` only if
 * it can act then, not while it has to wait (draining, without the bus or the name).
 */
uint64_t fleet_node_tick(struct fleet_node *n, uint64_t now, uint64_t real);

const struct fleet_submitter *fleet_node_submitter(const struct fleet_node *n, const char *key);
struct fleet_run *fleet_node_run(const struct fleet_node *n, const char *task_id);
/* Whether this daemon made the claim, not another one that had the same name. */
bool fleet_node_owns(const struct fleet_node *n, const struct fleet_task *t);
bool fleet_node_is_operator(void *node, const char *key);
void fleet_local_id(const struct fleet_task *t, char ret[FLEET_LOCAL_ID]);

/* ---- between the files of the node ---- */

void fleet_run_tick(struct fleet_node *n, struct fleet_run *r, uint64_t now, uint64_t real);
void fleet_run_begin(struct fleet_node *n, struct fleet_task *t, uint64_t revision, const struct fleet_message *m,
		     uint64_t sent_at);
/* Adopts a claim of an earlier process of this node. 1 = the daemon does not know it: nothing was started. */
int fleet_run_adopt(struct fleet_node *n, struct fleet_task *t, uint64_t revision, const struct fleet_message *m,
		    uint64_t now);
/* Removes runs whose `next` the caller keeps track of. */
void fleet_run_free(struct fleet_run *r);
void fleet_claim_fetch(struct fleet_node *n, uint64_t now, uint64_t real);
void fleet_suspect_tick(struct fleet_node *n, uint64_t now);
void fleet_suspect_add(struct fleet_node *n, const struct fleet_message *m, const struct fleet_task *t,
		       uint64_t revision);
/* The state after a lost or failed attempt, which is noted: queued again, or ended. */
void fleet_attempt_ended(struct fleet_task *t, enum fleet_state how, int exit_code, const char *reason);
void fleet_scan(struct fleet_node *n);
/* Adds to how often the class had no message, and returns that. */
uint64_t fleet_scan_count(struct fleet_node *n, const char *class, unsigned priority, unsigned more);

/* Whether the claimed attempt may start. 1 = not yet; −1 = never (e). */
int fleet_record_admit(struct fleet_node *n, struct fleet_run *r, uint64_t now, struct err *e);
/* Records the start of an admitted attempt, right before it. −1 = it must not start (e); it may be recorded all the
 * same. */
int fleet_record_start(struct fleet_node *n, struct fleet_run *r, struct err *e);
/* Whether the record still has the claim of a running attempt. 1 = not. */
int fleet_record_held(struct fleet_node *n, const struct fleet_run *r, struct err *e);
/* Records the end; queued: it was not started. −1 = to be tried again. */
int fleet_record_end(struct fleet_node *n, struct fleet_run *r, enum fleet_state how);
/* Of a task that was declared lost. Best effort. */
void fleet_record_lost(struct fleet_node *n, const struct fleet_task *t);

#endif
