#ifndef BAILIFF_SUPERVISOR_CONTROL_H
#define BAILIFF_SUPERVISOR_CONTROL_H

/*
 * The control socket: newline-delimited JSON-RPC 2.0 on a unix stream socket.
 *
 * control.c  the listener, what each uid uses of its limits, and the loop turns that connections share
 * client.c   one connection: reading, writing, backpressure; lines.c its framing, peer.c who is at the other end
 * request.c  a line to one call or a batch of them
 * call.c     one request from its arrival to its answer; idempotent_calls.c those with an idempotency key
 * method.c   looks up a row, checks role and parameters as it says, then calls the handler; methods.c the table
 * params.c   checks parameters against their declarations, names the field that is wrong, fills the handler's struct
 * rpc.c      how replies and errors are written
 * subscription.c  event streams: always a cursor in the log, never a queue of events in memory; filter.c which events
 * methods_*.c     the handlers
 */

#include "runtime/engine/core/engine.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct cow_changes;
struct config;
struct control;
struct client;
struct err;
struct event_base;
struct screens;
struct store;

struct control_options {
	struct event_base *base;
	struct store *store;
	struct engine *engine;
	const struct method_table *methods; /* &control_methods */
	struct screens *screens;            /* of terminals; NULL = there are none */
	struct cow_changes *changes;        /* of copy-on-write runs; NULL = there are none */
	const struct config *config;
	int listen_fd; /* non-blocking, not closed by control */
	void *ctx;
	/* Replies to a root client, by its socket, have to wait; control_resume_replies is called when they need not
	 * any more. May be NULL. */
	bool (*holds_root_back)(void *ctx, int client);
	uint64_t started_real_us;
	/* For get_health: writes members (`"spawner":"ok",…`) about the other processes. May be NULL. */
	const char
		*limits; /* JSON object: which limits of trees are enforced, and why others are not; NULL = not known */
	const char *audit_state; /* "on": sandboxes' refusals are learnt from audit; else why not */
	void (*health)(void *ctx, struct buf *members);
};

struct control *control_new(const struct control_options *o);
/* Before engine_free, which then must call none of the callbacks that were given to it. */
void control_free(struct control *k);
void control_stop_accepting(struct control *k);
/* Replies that were held back may go. */
void control_resume_replies(struct control *k);
/* Whether some client shows this process's terminal to somebody (resize_process with policy). */
bool control_displays_terminal(void *control, const char *process_id);
bool control_has_active_client(
	const struct control *k); /* by a client that does more than look on (embedded idle exit) */

/* ---- what a handler sees ---- */

/*
 * One request. It lives until it is answered, which happens exactly once, now or later; if the client has gone by
 * then the answer is dropped. `params` are checked against the method's row before the handler runs: what is declared
 * is there with the right type, what is not declared is not there.
 */
struct call {
	struct control *control;
	struct client *client; /* NULL once the connection is gone */
	json_t *params;        /* an object, never NULL */
	struct caller caller;
	char trace_id[33], span_id[17]; /* caller.trace_id and .span_id point here, if it was given them */
	const struct method *method;
	/* private to method.c and client.c */
	struct call_private *priv;
};

void call_reply(struct call *c, const char *json, size_t len); /* result: a complete JSON value */
void call_fail(struct call *c, const struct err *e);
/* `data`: further members of error.data (`"stage":"cwd"`), may be NULL */
void call_fail_data(struct call *c, const struct err *e, const char *data, size_t len);
/* An engine_reply_fn: ctx is the call. */
void call_engine_reply(void *call, const struct err *e, const char *json, size_t len);

struct store *call_store(const struct call *c);
struct engine *call_engine(const struct call *c);
const struct config *call_config(const struct call *c);

/* A peer sees its own uid's things; root, and the uid that the daemon runs as, see all. */
bool call_sees(const struct call *c, uint32_t uid);
bool call_sees_all(const struct call *c);
/* For what is everybody's, like the store and the policy files: who does not see all has been answered, with a refusal.
 */
bool call_require_full_view(struct call *c);
uint32_t call_visible_uid(const struct call *c); /* what the views take: its uid, or VIEW_ANY_UID */
/* Ends a call that reads: with what is in `out`, or, if r is negative, with the error. */
void call_reply_or_fail(struct call *c, int r, const struct buf *out, const struct err *e);

/* Parameters by name, where several methods share code; absent gives NULL / `otherwise`. Handlers read their struct. */
const char *call_str(const struct call *c, const char *name);
uint64_t call_uint(const struct call *c, const char *name, uint64_t otherwise);
bool call_bool(const struct call *c, const char *name, bool otherwise);
json_t *call_obj(const struct call *c, const char *name);

/* ---- the method table ---- */

enum param_type {
	PARAM_STRING,
	PARAM_ID,
	PARAM_UINT,
	PARAM_INT,
	PARAM_BOOL,
	PARAM_OBJECT,
	PARAM_STRINGS,
	PARAM_ENV,
	PARAM_ARRAY,
	PARAM_ENUM,
	PARAM_PATH,
	PARAM_NUMBER,
	PARAM_ANY,
};
enum {
	PARAM_REQUIRED = 1,
	PARAM_NUL = 2, /* a string that may hold \u0000: the handler asks for its length */
	PARAM_MAKES =
		4, /* an id that the method gives to something new: one that is another uid's is taken, not unknown */
};

struct param {
	const char *name;
	enum param_type type;
	unsigned flags;
	const char *detail;                   /* PARAM_ENUM: "none|pipe"; PARAM_OBJECT: see `members` */
	const struct param *(*members)(void); /* PARAM_OBJECT with declared members; NULL = any */
	const char *summary;
	size_t offset; /* of its member in the method's struct: method_params.h */
};

struct method {
	const char *name;
	enum engine_role role; /* the least role that may call it */
	bool mutating;         /* takes idempotencyKey and traceparent (declared for all of these by the table) */
	void (*handler)(struct call *c, const void *params); /* params: struct <name>_params */
	const struct param *(*params)(void);                 /* ends with name == NULL */
	const char *summary;
};

struct method_table {
	const struct method *rows;
	size_t count;
};
/* methods.def. It sits above the handlers: what is below gets it from control_options. */
extern const struct method_table control_methods;

/* Checks `value` (an object) against declarations; ERR_INVALID with field "limits.wallMs". */
int params_check(const struct param *params, json_t *value, const char *prefix, struct err *e);
/* The same, and fills the struct that the offsets are of (zeroed before). It borrows strings and objects of `value`. */
int params_parse(const struct param *params, json_t *value, void *ret, struct err *e);

#endif
