#ifndef BAILIFF_SUPERVISOR_CONTROL_H
#define BAILIFF_SUPERVISOR_CONTROL_H

/*
 * The control socket: newline-delimited JSON-RPC 2.0 on a unix stream socket. From the bottom up:
 *
 * rpc.c               writes replies and errors
 * client.c            one connection: reading, writing, backpressure, and what each uid uses of its limits
 * peer.c              the peer's identity, and whether it is inside a sandbox
 * filter.c            selects events
 * item.c              derives events of a turn's steps
 * subscription.c      event streams: a cursor in the log, never a queue of events in memory
 * event_listing.c     pages of the log
 * event_metrics.c     counters and histograms, counted from the log
 * attachment.c        which connections display which terminals
 * call.c              one request from arrival to answer
 * idempotent_calls.c  requests with an idempotency key
 * params.c            checks parameters against their declarations, names the field that is wrong, fills the
 *                     handler's struct
 * ownership.c         hides what belongs to other uids
 * request.c           parses a line into one call or a batch, looks up the method's row, checks the call as it says,
 *                     runs the handler
 * control.c           the listener and the turns of the loop that connections share
 * methods_*.c         the handlers; methods.c the table (methods.def)
 *
 * Nothing here survives the runtime: connections, subscriptions and calls in progress end with it, and clients connect
 * again. What they rely on is in the store: events, documents, and the results of requests with an idempotency key.
 *
 * Everything here runs on the runtime's loop thread, except the background read of methods_export.c.
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
	struct screens *screens;            /* of terminals; NULL = not served */
	struct cow_changes *changes;        /* of copy-on-write runs; NULL = not served */
	struct retention_queue *retention;
	const struct config *config;
	int listen_fd; /* non-blocking, not closed by control */
	void *ctx;
	/* Whether replies to a root client, given by its socket, are delayed; control_resume_replies ends that. May be
	 * NULL. */
	bool (*delays_root_reply)(void *ctx, int client);
	uint64_t started_real_us;
	/* JSON object: which limits of trees are enforced, and why others are not; NULL = not known */
	const char *limits;
	const char *audit_state; /* "on": denials are read from audit records; else the reason why not */
	/* For get_health: writes members (`"spawner":"ok",…`) about the other processes. May be NULL. */
	void (*health)(void *ctx, struct buf *members);
	int32_t (*fleet_pid)(void *ctx); /* of the guard's bailiff-fleet, 0 = none. NULL: there is never one */
};

struct control *control_new(const struct control_options *o);
/* Before engine_free, which then must not call callbacks that control passed to it. */
void control_free(struct control *k);
void control_stop_accepting(struct control *k);
/* Sends delayed replies. */
void control_resume_replies(struct control *k);
/* Whether a client displays this process's terminal to a person (resize_process with policy). */
bool control_displays_terminal(void *control, const char *process_id);
bool control_has_active_client(const struct control *k); /* not only observers (idle exit of an embedded daemon) */

/* ---- what a handler sees ---- */

/*
 * One request. It lives until it is answered, exactly once, now or later; if the client has disconnected by then, the
 * answer is dropped. `params` are checked against the method's row before the handler runs: declared parameters have
 * the right type, and there are no others.
 */
struct call {
	struct control *control;
	struct client *client; /* NULL once the connection has ended */
	json_t *params;        /* an object, never NULL */
	struct caller caller;
	char trace_id[33], span_id[17]; /* caller.trace_id and .span_id point here, if it was given them */
	const struct method *method;
	/* private to request.c, call.c and idempotent_calls.c */
	struct call_private *priv;
};

enum { CALL_REPLY = 0, CALL_PENDING = 1 }; /* outcomes of a handler: methods.h */

void call_reply(struct call *c, const char *json, size_t len); /* result: a complete JSON value */
void call_fail(struct call *c, const struct err *e);
/* `data`: further members of error.data (`"stage":"cwd"`), may be NULL */
void call_fail_data(struct call *c, const struct err *e, const char *data, size_t len);
/* For an output whose bytes retention has removed. */
void call_fail_expired_output(struct call *c, const struct err *e);
/* An engine_reply_fn: ctx is the call. */
void call_engine_reply(void *call, const struct err *e, const char *json, size_t len);

struct store *call_store(const struct call *c);
struct engine *call_engine(const struct call *c);
const struct config *call_config(const struct call *c);

bool call_may_approve(const struct call *c); /* by its user or one of its groups (configuration: approvers) */
/* A peer sees what belongs to its uid; root and the daemon's own uid see everything. */
bool call_sees(const struct call *c, uint32_t uid);
bool call_sees_all(const struct call *c);
/* For methods on the store or the policy files as a whole: −1 = the caller does not see everything. */
int call_require_full_view(const struct call *c, struct err *e);
uint32_t call_visible_uid(const struct call *c); /* the viewer for the views: its uid, or VIEW_ANY_UID */
/* A parameter by name, where several methods share code. Handlers read their struct. */
uint64_t call_uint(const struct call *c, const char *name, uint64_t otherwise);

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
	PARAM_NUL = 2,   /* a string that may contain \u0000: the handler needs its length */
	PARAM_MAKES = 4, /* the id of something that the method creates: another uid's is "taken", not "unknown" */
	/* … and the idempotency key of a request without one (idempotent_calls.h); not if the result belongs to a
	 * connection, or is a secret */
	PARAM_KEY = 8,
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

enum method_flag { METHOD_STARTS = 1, METHOD_USES_FOLDERS = 2 }; /* see methods.def */

struct method {
	const char *name;
	enum engine_role role; /* the minimum role */
	bool mutating;         /* takes idempotencyKey and traceparent (declared for all of these by the table) */
	unsigned flags;        /* of enum method_flag */
	/* methods.h; params: struct <name>_params */
	int (*handler)(struct call *c, const void *params, struct buf *out, struct err *e);
	const struct param *(*params)(void); /* ends with name == NULL */
	const char *summary;
};

struct method_table {
	const struct method *rows;
	size_t count;
};
/* From methods.def. It sits above the handlers; code below them gets it through control_options. */
extern const struct method_table control_methods;

/* Checks `value` (an object) against declarations; ERR_INVALID with field "limits.wallMs". */
int params_check(const struct param *params, json_t *value, const char *prefix, struct err *e);
/* The same, and fills the struct that the offsets are of (zeroed before). It borrows strings and objects of `value`. */
int params_parse(const struct param *params, json_t *value, void *ret, struct err *e);
/* Checks the length of a string in bytes; NULL (not given) passes. */
int param_length(const char *field, const char *s, size_t least, size_t most, struct err *e);
/* The compact JSON text of `v`, to be freed; NULL if it is not given, or longer than `most`: then `e` is set. */
char *param_json_text(const char *field, const json_t *v, size_t most, struct err *e);

#endif
