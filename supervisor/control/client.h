#ifndef BAILIFF_CONTROL_CLIENT_H
#define BAILIFF_CONTROL_CLIENT_H

/*
 * One connection. It is edge-triggered: the socket is registered once, `readable` and `writable` record the last event,
 * and work continues in turns of bounded length. So pausing costs no system call, and a disconnect is noticed even
 * while nothing is read.
 *
 * Reading pauses while the peer does not read its replies (more than CLIENT_OUT_HIGH unsent, until less than
 * CLIENT_OUT_LOW) or while CLIENT_CALLS_MAX requests are unanswered. A peer that has shut down its sending side still
 * gets its replies and events. A disconnected client is dead at once: its calls lose their client, and it stays in
 * memory (in control's `leaving`) until they are answered.
 */

#include "runtime/base/lines.h"
#include "supervisor/control/control.h"
#include "supervisor/control/peer.h"

#include <event2/event_struct.h>
#include <stdint.h>
#include <sys/queue.h>

struct account;
struct call_private;
struct evbuffer;
struct subscription;

#define CLIENT_LINE_MAX (16u << 20)
#define CLIENT_OUT_HIGH (1u << 20)
#define CLIENT_OUT_LOW (256u << 10)
#define CLIENT_CALLS_MAX 256

struct client {
	LIST_ENTRY(client) entry; /* control's clients or leaving */
	TAILQ_ENTRY(client) turn; /* control's again */
	struct control *control;
	struct account *account;
	uint64_t number;
	int fd;
	struct peer peer;
	enum engine_role role;
	char name[64];        /* from initialize */
	uint64_t windows[16]; /* hashes of the parts of histories that it loaded last */
	unsigned nwindows;
	bool no_person;        /* interactive: false, no person can be asked through it */
	char channel_id[72];   /* the channel that it belongs to; "" = none */
	struct event ev;       /* readable, or work to continue */
	struct event write_ev; /* writable again; pending only while the socket is full */
	struct lines in;
	size_t in_counted;    /* bytes of `in` that are counted in the account */
	struct evbuffer *out; /* NULL while there is nothing to send */
	int passed;           /* a descriptor that is sent with a byte of `out`; −1 = none */
	size_t before_passed; /* … after this many bytes of it */
	TAILQ_HEAD(, call_private) calls;
	unsigned ncalls;
	LIST_HEAD(, subscription) subscriptions;
	unsigned busy; /* functions of client.c on the stack: it is not freed before they return */
	bool readable, writable, eof, paused, again, dead, active;
};

/* Callbacks to control, which sits above the connections. */
struct client_events {
	void (*line)(struct client *cl, const char *line, size_t len);
	void (*drained)(struct client *cl); /* little is left to send: subscriptions may continue */
	void (*ended)(struct client *cl);   /* it is dead, and freed once its calls are answered */
};

struct client *client_new(struct control *k, int fd, const struct peer *peer);
/*
 * The peer has disconnected, or the daemon disconnects it. Ends its subscriptions and the calls that only wait; the
 * client is freed once its remaining calls are answered.
 */
void client_end(struct client *cl);
/* Queues bytes (whole lines); dropped if the client is dead. */
void client_send(struct client *cl, const void *p, size_t n);
/*
 * Sends a descriptor with the first byte of what is queued next; takes it. One at a time: no further request of the
 * client is read before it is sent. −1 (only within a batch): another one is waiting.
 */
int client_pass(struct client *cl, int *fd);
size_t client_unsent(const struct client *cl);
/* A call of this client was freed. */
void client_call_done(struct client *cl);
/* A subscription ended, or other work may be possible: checks again soon. */
void client_wake(struct client *cl);
/* Called from control's turn: continues where the last piece of work stopped. */
void client_turn(struct client *cl);

#endif
