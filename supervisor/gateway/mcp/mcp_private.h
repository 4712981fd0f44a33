#ifndef BAILIFF_MCP_PRIVATE_H
#define BAILIFF_MCP_PRIVATE_H

/* Shared by the files of the protocol; handlers of tools, resources and prompts do not include it. */

#include "supervisor/gateway/mcp/mcp_call.h"
#include "supervisor/gateway/mcp/mcp_session.h"

#include <event2/event_struct.h>
#include <jansson.h>
#include <stdbool.h>
#include <sys/queue.h>

struct rpc_message;

struct mcp_owned {
	LIST_ENTRY(mcp_owned) entry;
	char process_id[72];
};

/* A question to the client. */
struct mcp_question {
	TAILQ_ENTRY(mcp_question) entry;
	char key[64];
	const char *method;
	json_t *params;
	json_t *answer;    /* NULL: not answered, or not validly */
	uint64_t number;   /* id of the request to a legacy client; 0: none is pending */
	uint64_t asked_ns; /* 0: asked in an earlier round, whose state has the time */
};

struct mcp_call_private {
	struct mcp_call call;
	TAILQ_ENTRY(mcp_call_private) entry;
	uint64_t serial; /* increasing; calls are in this order */
	const struct mcp_method *method;
	const struct mcp_tool *tool; /* of tools/call */
	json_t *id;
	void *stream;
	enum mcp_era era;
	const char *version; /* static */
	json_t *client_caps; /* owned */
	int log_level;       /* minimum level that is sent; −1: none */
	char *traceparent;   /* or NULL */
	/* progress */
	json_t *progress_token; /* or NULL */
	double progress;        /* the last value sent */
	uint64_t began_ns, sent_ns;
	uint64_t ran_ns; /* running since: start of the call, or the last answer */
	struct event beat, later, slow, ask_timer;
	mcp_call_fn later_fn, slow_fn;
	void (*watch)(struct mcp_call *c, struct jval event);
	LIST_HEAD(, mcp_owned) owned;
	LIST_HEAD(, mcp_up) ups; /* requests to the daemon without a reply */
	/* questions */
	TAILQ_HEAD(, mcp_question) questions;
	json_t *responses; /* modern: inputResponses of this round, or NULL */
	mcp_call_fn answered;
	void (*approved)(struct mcp_call *c, enum mcp_approval a);
	json_t *approving;                      /* {processId, actionId} */
	bool asks_permission, allowing, asking; /* asks_permission: a question of mcp_call_approve is open; allowing:
						   the answer being sent is a yes; asking: ask_timer is initialised */
	char *root;                             /* modern: the client's root directory, or NULL */
	mcp_call_fn roots_then;
	unsigned ask_ms;            /* timeout of a question; 0: as configured */
	struct mcp_task *task;      /* the task that this call is, or NULL */
	const char *task_id;        /* … and its id */
	mcp_call_fn task_then;      /* called once the call is a task */
	bool becoming;              /* the daemon is creating the task */
	json_t *ended;              /* the response with which the call ended in the meantime */
	struct mcp_task *waits_for; /* tasks/result: the task that it waits for */
	bool parked;                /* waits for the daemon, or for other calls to end */
	bool counted;               /* counts as in progress */
	size_t weight;              /* size of its message in bytes */
	bool listens;               /* subscriptions/listen */
};

TAILQ_HEAD(mcp_calls, mcp_call_private);

/* Functions of the modules above that calls use; set by mcp_session.c. */
struct mcp_call_ops {
	int (*connect)(struct mcp_session *m, struct err *e); /* connects to the daemon if necessary */
	bool (*event)(struct mcp_call_private *p,
		      struct jval event); /* true: the event answered the call's question; the call may be freed */
	void (*drop_questions)(struct mcp_call_private *p); /* the call ends: withdraws open questions */
	bool (*can_be_task)(const struct mcp_call_private *p);
	void (*task_ended)(struct mcp_task *t, const json_t *message);
	void (*task_add_process)(struct mcp_task *t, const char *process_id);
	void (*task_asks)(struct mcp_task *t); /* the number of open questions has changed */
};

struct mcp_session {
	const struct mcp_call_ops *call_ops;
	struct mcp_session_options o;
	char *transport, *principal;
	struct mcp_client_state *memory; /* state of the tools */
	struct gateway_session *up;
	bool up_failed; /* connection lost; the next call reconnects */
	bool left;
	/* legacy */
	const char *version; /* NULL until initialize */
	bool modern;         /* modern requests were seen */
	json_t *client_caps, *client_info;
	char *root;       /* the client's root directory, or NULL */
	bool roots_known; /* the client was asked for its roots */
	int log_level;
	json_t *subscribed;   /* object: URI → true */
	json_t *unsent;       /* object: URI → true; changes not yet sent, because the client does not read */
	json_t *unsent_tasks; /* the same for ids of tasks */
	struct mcp_calls calls;
	size_t ncalls, nparked; /* ncalls: in progress, without tasks and listening calls; nparked: of these, parked */
	size_t weight, next_weight; /* bytes of all calls' messages; of the message being processed */
	uint64_t serials;
	struct event unpark; /* runs parked calls from the loop */
	uint64_t next_question;
	TAILQ_HEAD(, mcp_task) tasks;
	size_t ntasks, task_bytes; /* task_bytes: size of the results in memory */
};

/* ---- methods (mcp_methods.def) ---- */

enum mcp_method_flags {
	MCP_NEEDS_UP = 1, /* needs the daemon */
	MCP_CACHED = 2,   /* modern results carry a lifetime */
	MCP_MAY_ASK = 4,  /* supports rounds of input */
	MCP_EARLY = 8,    /* legacy: allowed before initialize */
};
struct mcp_method {
	const char *name;
	unsigned eras, flags;
	mcp_call_fn run;
};
#define MCP_METHOD(name, eras, flags, run) void run(struct mcp_call *c);
#include "supervisor/gateway/mcp/mcp_methods.def"
#undef MCP_METHOD

/* ---- calls (mcp_call.c) ---- */

struct mcp_call_private *mcp_call_new(struct mcp_session *m, const struct mcp_method *method, json_t *id, void *stream);
void mcp_call_run(struct mcp_call_private
			  *p); /* parks the call if the daemon is not connected or too many calls are in progress */
void mcp_call_unpark(struct mcp_session *m); /* runs parked calls that can run */
/*
 * The first call with a greater serial. Handling one call may free others, so iterate by serial:
 *
 *   for (p = mcp_call_after(m, 0); p; p = mcp_call_after(m, at)) { at = p->serial; … }
 */
struct mcp_call_private *mcp_call_after(const struct mcp_session *m, uint64_t serial);
void mcp_call_uncount(struct mcp_call_private *p); /* it may last indefinitely and does not count as in progress */
void mcp_call_slow(struct mcp_call_private *p, unsigned ms, mcp_call_fn fn); /* a timer of the protocol layer */
/* Removes structuredContent from a result before it is sent, unless the gateway runs with --structured. */
void mcp_call_plain(const struct mcp_session *m, json_t *result);
void mcp_call_add_meta(struct mcp_call_private *p,
		       json_t *result); /* adds the members that every result of this era has */
/* Frees the call; its processes and requests continue. */
void mcp_call_detach(struct mcp_call_private *p);
/*
 * Ends the call with this response. While the daemon is creating its task, the response is stored and used afterwards.
 */
void mcp_call_end(struct mcp_call_private *p, json_t *message);
/* Cancels what the call does and frees it. No response is sent; the stream is closed. */
void mcp_call_cancel(struct mcp_call_private *p);
/*
 * create_task. The reply is delivered even if the handler has ended the call; if the call is cancelled first, the task
 * is cancelled too.
 */
void mcp_call_task(struct mcp_call *c, json_t *params, mcp_call_reply_fn fn);
size_t mcp_call_count(const struct mcp_session *m, bool (*which)(const struct mcp_call_private *p));
void mcp_call_event(struct mcp_call_private *p, struct jval event);
static inline struct mcp_call_private *mcp_priv(const struct mcp_call *c) { return c->priv; }

/* ---- questions (mcp_question.c) ---- */

#define MCP_ROOT "root" /* in a request state: the client's root directory */

void mcp_question_response(struct mcp_session *m, const json_t *id, json_t *result, json_t *error);
void mcp_question_update(struct mcp_call_private *p, json_t *responses); /* answers of a task */
bool mcp_question_event(struct mcp_call_private *p,
			struct jval event);         /* true: it was the answer that the call waits for */
void mcp_question_done(struct mcp_call_private *p); /* the call ends: withdraws open questions */

/* ---- sending (mcp_call.c) ---- */

json_t *mcp_server_info(void);
unsigned mcp_session_max_calls(const struct mcp_session *m);

void mcp_send(struct mcp_session *m, void *stream, json_t *message, bool last);
int mcp_log_level(const char *name);             /* −1 if unknown */
bool mcp_is_behind(const struct mcp_session *m); /* the client does not read; see struct mcp_out */

/* ---- subscriptions/listen (mcp_listen.c) ---- */

/* subscriptions/listen: the notifications that a modern client subscribes to. The call lasts until it is cancelled. */

/* Sends notifications/resources/updated to listening calls and legacy subscribers. */
void mcp_listen_notify_updated(struct mcp_session *m, const char *uri);
/* `task`: in the format of tasks/get. */
void mcp_listen_task(struct mcp_session *m, const char *id, const json_t *task);
/* Ends all listening calls when the server exits. */
void mcp_listen_end(struct mcp_session *m);

#endif
