#ifndef BAILIFF_FLEET_PORT_H
#define BAILIFF_FLEET_PORT_H

/*
 * The port between the fleet's logic and the bus. fleet_nats.c implements it with NATS JetStream; unit tests and the
 * simulator with memory.
 *
 * Calls block, for five seconds at most, and fail at once while the bus is not connected. A failed call may have had
 * its effect (the answer was lost): callers read the document again before they draw conclusions. One thread.
 *
 * Results: 0 done; 1 the outcome that the comment names; −1 the bus is unavailable or refused (e).
 */

#include "supervisor/fleet/fleet_doc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

/* A message of the queue: a task that waits for a node. It comes back to the queue unless it is acknowledged. */
struct fleet_message {
	char task[FLEET_ID_MAX + 1];
	char handle[256];
};

/* A request of a client to this node. */
struct fleet_incoming {
	char verb[FLEET_ID_MAX + 1];
	char reply[256];
	char *data; /* to be freed */
	size_t len;
};

typedef void (*fleet_entry_fn)(void *ctx, const char *key, const char *value, size_t len, uint64_t revision);

struct fleet_port;
struct fleet_port_ops {
	bool (*connected)(struct fleet_port *p);

	/* Task documents. get: 1 = there is none. create: 1 = there is one. update: 1 = another revision is the last.
	 */
	int (*get_task)(struct fleet_port *p, const char *id, struct buf *ret, uint64_t *ret_revision, struct err *e);
	int (*create_task)(struct fleet_port *p, const char *id, const struct buf *text, uint64_t *ret_revision,
			   struct err *e);
	int (*update_task)(struct fleet_port *p, const char *id, const struct buf *text, uint64_t revision,
			   uint64_t *ret_revision, struct err *e);
	/* `fn` may make any call except lists. */
	int (*list_tasks)(struct fleet_port *p, fleet_entry_fn fn, void *ctx, struct err *e);
	int (*remove_task)(struct fleet_port *p, const char *id, struct err *e); /* its id can be used again */

	/* The queue: one message for each task. put_class before the first enqueue of a class and priority. */
	int (*put_class)(struct fleet_port *p, const char *class, unsigned priority, const struct buf *needs,
			 struct err *e);
	int (*list_classes)(struct fleet_port *p, fleet_entry_fn fn, void *ctx,
			    struct err *e); /* key: CLASS.PRIORITY */
	/* 1 = its message is in the queue. `attempt`: the one that would begin. */
	int (*enqueue)(struct fleet_port *p, const char *class, unsigned priority, const char *id, uint64_t attempt,
		       struct err *e);
	int (*fetch)(struct fleet_port *p, const char *class, unsigned priority, struct fleet_message *ret,
		     struct err *e); /* 1 = empty */
	int (*acknowledge)(struct fleet_port *p, const struct fleet_message *m,
			   struct err *e); /* waits for the server */
	int (*put_back)(struct fleet_port *p, const struct fleet_message *m, uint64_t delay_ms, struct err *e);
	int (*keep)(struct fleet_port *p, const struct fleet_message *m, struct err *e); /* for another FLEET_KEEP_MS */
	/* Lets the server deliver all messages again: it has forgotten one. */
	void (*deliver_again)(struct fleet_port *p, const char *class, unsigned priority);

	/*
	 * Records of starts (fleet_record.c): an entry vanishes 32 days after its last put. get: 1 = there is none.
	 * put: 1 = another revision is the last (0: there is an entry).
	 */
	int (*get_record)(struct fleet_port *p, const char *key, struct buf *ret, uint64_t *ret_revision,
			  struct err *e);
	int (*put_record)(struct fleet_port *p, const char *key, const struct buf *text, uint64_t revision,
			  struct err *e);

	/*
	 * Nodes: an entry vanishes 15 s after its last put. get: 1 = there is none. put: 1 = another revision is the
	 * last (0: there is an entry).
	 */
	int (*get_node)(struct fleet_port *p, const char *node, struct buf *ret, uint64_t *ret_revision, struct err *e);
	int (*put_node)(struct fleet_port *p, const char *node, const struct buf *text, uint64_t revision,
			uint64_t *ret_revision, struct err *e);
	int (*list_nodes)(struct fleet_port *p, fleet_entry_fn fn, void *ctx, struct err *e);
	/* The server's wall clock, in ms, when it stored the entry. 1 = there is none. */
	int (*node_stored_at)(struct fleet_port *p, const char *node, uint64_t *ret, struct err *e);

	/* Stored messages of a stream: events and blobs. get_stored: 1 = there is none; ret NULL: only looks. */
	int (*store)(struct fleet_port *p, const char *subject, const void *data, size_t n, struct err *e);
	int (*get_stored)(struct fleet_port *p, const char *subject, struct buf *ret, struct err *e);

	/* Requests. serve: this process answers those to `node`. next_request: 1 = there is none now. */
	int (*serve)(struct fleet_port *p, const char *node, struct err *e);
	int (*next_request)(struct fleet_port *p, struct fleet_incoming *ret);
	int (*reply)(struct fleet_port *p, const char *to, const void *data, size_t n, struct err *e);
	int (*request)(struct fleet_port *p, const char *node, const char *verb, const struct buf *data, int timeout_ms,
		       struct buf *ret, struct err *e); /* 1 = the node does not answer */

	/* Readable after a request arrived or something was enqueued; take_wake: whether the latter happened since. */
	int (*wake_fd)(struct fleet_port *p);
	bool (*take_wake)(struct fleet_port *p);
	/* Forgets `differs` if the server has the settings now. */
	void (*check_settings)(struct fleet_port *p);
	void (*free)(struct fleet_port *p);
};

struct fleet_port {
	const struct fleet_port_ops *ops;
	char *differs; /* what the server has with other settings than this node would create it with, or NULL */
};

#define FLEET_KEEP_MS 10000u
#define FLEET_CHUNK (512u << 10) /* payload of a reply or blob */
#define FLEET_EVENT_SUBJECT "evt."
#define FLEET_BLOB_SUBJECT "bailiff.blob."

struct fleet_nats_options {
	const char *url;  /* nats://HOST:4222 or tls://…; several separated by commas */
	const char *name; /* shown by the server */
	/* Files; each may be NULL. creds: a creds file of NATS, or an nkey seed. */
	const char *creds, *tls_ca, *tls_cert, *tls_key;
	unsigned replicas; /* of what is created; 0: 1 */
	bool updates;      /* a node: also changes what exists with fewer replicas, or is not protected */
};

/* Connects, and creates buckets and streams that are missing. */
int fleet_nats_new(const struct fleet_nats_options *o, struct fleet_port **ret, struct err *e);

#endif
