#ifndef BAILIFF_CONTROL_CONTROL_PRIVATE_H
#define BAILIFF_CONTROL_CONTROL_PRIVATE_H

/* State that the connections share. Owned by control.c; used by the other files of this folder. */

#include "runtime/base/buf.h"
#include "runtime/base/strmap.h"
#include "supervisor/control/attachment.h"
#include "supervisor/control/control.h"
#include "supervisor/control/event_metrics.h"
#include "supervisor/control/fleet_board.h"
#include "supervisor/host/tree_usage.h"

#include <event2/event.h>
#include <sys/queue.h>

struct call_private;
struct client;
struct client_events;
struct event_listing;
struct subscription;

/*
 * Usage of one uid against its limits. Limits are per uid and not per connection, because a client can open as many
 * connections as it likes, and users share one runtime. Exists while the uid has a connection or an unanswered call.
 */
struct account {
	LIST_ENTRY(account) entry;
	uint32_t uid;
	unsigned users; /* clients, including those kept only for unanswered calls */
	unsigned connections;
	unsigned subscriptions;
	uint64_t queued; /* bytes: unfinished lines, unsent replies and events */
};

struct method_count {
	uint64_t requests, errors, total_us, max_us;
};

struct control_counts {
	uint64_t accepted, refused, requests, errors, events_sent, bytes_in, bytes_out, protocol_errors, replayed;
};

struct control {
	struct control_options o;
	const struct client_events *client_events;
	uint32_t owner_uid; /* sees everything, as root does */
	struct event *accept_ev, *accept_again_ev, *turn_ev;
	int max_fd;   /* connections with this descriptor or a higher one are rejected */
	int spare_fd; /* closed for a moment to reject a connection when no descriptors are left */
	bool accepting, exhausted;
	bool draining; /* drain: nothing new is started */
	LIST_HEAD(, account) accounts;
	LIST_HEAD(, client) clients; /* connected */
	unsigned nclients;
	LIST_HEAD(, client) leaving;      /* disconnected, with unanswered calls */
	TAILQ_HEAD(, client) again;       /* have more to do in the next turn */
	TAILQ_HEAD(, subscription) ready; /* have events to send */
	LIST_HEAD(, subscription) subscriptions;
	unsigned nsubscriptions;
	TAILQ_HEAD(, event_listing) listings; /* in progress */
	struct attachments attachments;       /* which connections display which terminals */
	struct strmap flights;                /* idempotent_calls.c: "uid:key" → the first call with it */
	uint64_t next_connection, next_subscription;
	struct method_count *methods; /* like o.methods->rows */
	struct control_counts counts;
	struct event_metrics tally; /* counted from the log since the start, for get_metrics */
	struct tree_usage usage;    /* of the latest list_processes that wanted it */
	struct fleet_board fleet;   /* methods_fleet.c */
	uint64_t started_boot_ns;
	char *scratch; /* read buffer of all sockets */
};

#define CONTROL_SCRATCH (64u * 1024)

struct account *control_account(struct control *k, uint32_t uid); /* users + 1 */
void account_release(struct account *a);                          /* users − 1 */
/* Schedules control's next turn, after the loop has checked all sockets. */
void control_turn(struct control *k);
bool control_over_quota(const struct control *k, const struct account *a);
/* A connection on an accepted socket (taken); what accept does after its checks. For tests too. */
struct peer;
struct client *control_adopt(struct control *k, int fd, const struct peer *peer);

#endif
