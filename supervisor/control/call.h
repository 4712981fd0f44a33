#ifndef BAILIFF_CONTROL_CALL_H
#define BAILIFF_CONTROL_CALL_H

/*
 * A request in progress, inside control. It belongs to a client (`home`), which stays in memory, socket included, until
 * all its calls are answered: the spawner may be reading the peer's credentials from that descriptor.
 */

#include "runtime/base/buf.h"
#include "supervisor/control/control.h"
#include "supervisor/control/method_params.h"

#include <sys/queue.h>

struct idempotent_call;

/* The replies of a batch are sent together. */
struct batch {
	struct client *home;
	size_t open;    /* unanswered calls; +1 while it is being read */
	struct buf out; /* `[{…},{…}` */
};

/* Takes over the end of a call: idempotent_calls.c stores a reply before it is sent. */
struct call_interceptor {
	void (*reply)(struct call *c, const char *json, size_t len);
	void (*fail)(struct call *c, const struct err *e, const char *data, size_t len);
	void (*dropped)(struct call *c); /* the call is about to be freed without an answer */
};

struct call_private {
	struct call call;                /* first: a call is its private part */
	TAILQ_ENTRY(call_private) entry; /* home's calls */
	struct client *home;
	struct batch *batch; /* or NULL */
	char *id;            /* JSON text; NULL = a notification: no reply */
	char *request_id;
	union method_params parsed; /* what request.c read from call.params; its strings point there */
	uint64_t started_ns;
	struct call **watch;                        /* or NULL; see call_watch */
	const struct call_interceptor *interceptor; /* NULL: replies are sent as they are */
	/* idempotent_calls.c */
	struct idempotent_call *flight; /* set in the first call with its key */
	TAILQ_ENTRY(call_private) follower;
	struct idempotent_call *follows; /* set in calls that wait for the first one's answer */
};

/*
 * A call of this client. `id` (JSON text or NULL) is taken, `params` too (NULL = none). It counts as one of the
 * client's requests in flight until it is answered.
 */
struct call *call_new(struct client *home, struct batch *batch, const struct method *m, char *id, json_t *params);
/* Every call ends in one of these: they write the reply, if the client wants one and is connected, and free it. */
void call_finish(struct call *c, const char *json, size_t len);
void call_finish_error(struct call *c, const struct err *e, const char *data, size_t len);
/* Sets *slot to NULL when the call is freed: for callbacks of the store, which may come after control_free. */
void call_watch(struct call *c, struct call **slot);
/* Frees it without an answer: the client disconnected, and nothing else will answer it. */
void call_drop(struct call *c);
/*
 * The client has disconnected. Calls that only wait for another call's answer are dropped; the others continue without
 * a client, and their answers are discarded.
 */
void call_drop_client(struct client *cl);

struct batch *batch_new(struct client *home);
void batch_add(struct batch *b, const char *json, size_t len); /* one element */
bool batch_full(const struct batch *b);
void batch_close(struct batch *b); /* one of `open` is done; the last one sends and frees */

#endif
