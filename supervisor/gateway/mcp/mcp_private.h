#ifndef BAILIFF_MCP_PRIVATE_H
#define BAILIFF_MCP_PRIVATE_H

/* Shared by the files of the protocol; handlers of tools, resources and prompts do not include it. */

#include "supervisor/gateway/mcp/mcp_call.h"
#include "supervisor/gateway/mcp/mcp_session.h"

#include <event2/event_struct.h>
#include <sys/queue.h>

struct mcp_method;

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
	json_t *answer;    /* NULL until there is one, or none came */
	uint64_t number;   /* of the request to a legacy client; 0 = none is under way */
	uint64_t asked_ns; /* 0: in an earlier round, whose state says when */
};

struct mcp_call_private {
	struct mcp_call call;
	TAILQ_ENTRY(mcp_call_private) entry;
	uint64_t serial; /* in the order in which they came */
	const struct mcp_method *method;
	const struct mcp_tool *tool; /* of tools/call */
	json_t *id;
	void *stream;
	enum mcp_era era;
	const char *version; /* static */
	json_t *client_caps; /* owned */
	int log_level;       /* the least that is sent; −1 = none */
	char *traceparent;   /* or NULL */
	/* progress */
	json_t *progress_token; /* or NULL */
	double progress;        /* the last that was sent */
	uint64_t began_ns, said_ns;
	uint64_t ran_ns; /* since when it runs: it began, or the last question was answered */
	struct event beat, later, slow, ask_timer;
	mcp_call_fn later_fn, slow_fn;
	void (*watch)(struct mcp_call *c, struct jval event);
	LIST_HEAD(, mcp_owned) owned;
	LIST_HEAD(, mcp_up) ups; /* requests to the daemon that were not answered */
	/* questions */
	TAILQ_HEAD(, mcp_question) questions;
	json_t *responses; /* modern: inputResponses of this round, or NULL */
	mcp_call_fn answered;
	void (*approved)(struct mcp_call *c, enum mcp_approval a);
	json_t *approving;                      /* {processId, actionId} */
	bool asks_permission, allowing, asking; /* the answer that is being brought; ask_timer is set up */
	char *root;                             /* modern: where the client works, as it said; or NULL */
	mcp_call_fn roots_then;
	unsigned ask_ms;            /* how long the client has to answer; 0 = as configured */
	struct mcp_task *task;      /* the task that this call is, or NULL */
	const char *task_id;        /* … and its id */
	mcp_call_fn task_then;      /* once it is one */
	bool becoming;              /* the daemon is making the task */
	json_t *ended;              /* what it was ended with meanwhile */
	struct mcp_task *waits_for; /* tasks/result: until this one has ended */
	bool parked;                /* waits for the daemon, or for others to end */
	bool counted;               /* as under way */
	size_t weight;              /* of its message, in bytes */
	bool listens;               /* subscriptions/listen */
};

TAILQ_HEAD(mcp_calls, mcp_call_private);

/* What calls use of the files above them: set by mcp_session.c. */
struct mcp_call_ops {
	int (*connect)(struct mcp_session *m, struct err *e); /* opens the connection to the daemon if there is none */
	bool (*event)(struct mcp_call_private *p,
		      struct jval event);                   /* true: it answered the question that the call waits for */
	void (*drop_questions)(struct mcp_call_private *p); /* of a call that ends: withdraws what is open */
	bool (*can_be_task)(const struct mcp_call_private *p);
	void (*task_ended)(struct mcp_task *t, const json_t *message);
	void (*task_add_process)(struct mcp_task *t, const char *process_id);
	void (*task_asks)(struct mcp_task *t); /* it asks its client, or no longer does */
};

struct mcp_session {
	const struct mcp_call_ops *call_ops;
	struct mcp_session_options o;
	char *transport, *principal;
	struct mcp_client_state *memory; /* the tools' */
	struct gateway_session *up;
	bool up_failed; /* it was lost: opened anew by the next call */
	bool left;
	/* legacy */
	const char *version; /* NULL until initialize */
	bool modern;         /* modern requests were seen */
	json_t *client_caps, *client_info;
	char *root;       /* where the client works, as it said; or NULL */
	bool roots_known; /* it was asked */
	int log_level;
	json_t *subscribed;   /* object: URI → true */
	json_t *untold;       /* object: URI → true, of those that changed while the client did not read */
	json_t *untold_tasks; /* … and ids of tasks */
	struct mcp_calls calls;
	size_t ncalls, nparked;     /* under way, without tasks and those that listen; of these parked */
	size_t weight, next_weight; /* of all of them; of the message that is being fed */
	uint64_t serials;
	struct event unpark; /* calls that can be run are run from the loop */
	uint64_t next_question;
	TAILQ_HEAD(, mcp_task) tasks;
	size_t ntasks, task_bytes; /* task_bytes: of the results that are held */
};

/* ---- methods (mcp_methods.def) ---- */

enum mcp_method_flags {
	MCP_NEEDS_UP = 1, /* the daemon */
	MCP_CACHED = 2,   /* modern results say how long they hold */
	MCP_MAY_ASK = 4,  /* takes part in rounds of input */
	MCP_EARLY = 8,    /* legacy: also before initialize */
};
struct mcp_method {
	const char *name;
	unsigned eras, flags;
	mcp_call_fn run;
};
#define MCP_METHOD(name, eras, flags, run) void run(struct mcp_call *c);
#include "supervisor/gateway/mcp/mcp_methods.def"
#undef MCP_METHOD
const struct mcp_method *mcp_method_find(const char *name);

/* ---- calls (mcp_call.c) ---- */

struct mcp_call_private *mcp_call_new(struct mcp_session *m, const struct mcp_method *method, json_t *id, void *stream);
void mcp_call_run(struct mcp_call_private *p); /* or parks it until the daemon is there, or others have ended */
void mcp_call_unpark(struct mcp_session *m);   /* runs those that can be */
/*
 * The first call that came after this one. What is done for one call may end others, so whoever does something for all
 * of them goes from serial to serial: for (p = mcp_call_after(m, 0); p; p = mcp_call_after(m, at)) { at = p->serial; …
 * }
 */
struct mcp_call_private *mcp_call_after(const struct mcp_session *m, uint64_t serial);
void mcp_call_uncount(struct mcp_call_private *p); /* it may last indefinitely and does not count as in progress */
void mcp_call_slow(struct mcp_call_private *p, unsigned ms, mcp_call_fn fn); /* a timer of the protocol's own */
/* Deletes the structured content of a result that is about to be sent, unless the gateway was started with
 * --structured. */
void mcp_call_plain(const struct mcp_session *m, json_t *result);
void mcp_call_add_meta(struct mcp_call_private *p, json_t *result); /* what every result of this era has */
void mcp_call_free(struct mcp_call_private *p);
/* The same, but its processes and requests continue. */
void mcp_call_detach(struct mcp_call_private *p);
/* What it was ended with while it was becoming a task is its answer now, or the task's. */
void mcp_call_end(struct mcp_call_private *p, json_t *message);
/* Ends what it does; no answer is sent but that the place is done. Frees it. */
void mcp_call_cancel(struct mcp_call_private *p);
/* create_task: its answer comes also when the handler has ended the call; if the call is cancelled first, so is the
 * task. */
void mcp_call_task(struct mcp_call *c, json_t *params, mcp_call_reply_fn fn);
size_t mcp_call_count(const struct mcp_session *m, bool (*which)(const struct mcp_call_private *p));
void mcp_call_event(struct mcp_call_private *p, struct jval event);
static inline struct mcp_call_private *mcp_priv(const struct mcp_call *c) { return c->priv; }

/* ---- questions (mcp_ask.c) ---- */

#define MCP_ROOT "root" /* in a request state: where the client works, as it said */

void mcp_question_response(struct mcp_session *m, const json_t *id, json_t *result, json_t *error);
void mcp_question_update(struct mcp_call_private *p, json_t *responses); /* of a task */
bool mcp_question_event(struct mcp_call_private *p,
			struct jval event);         /* true: it was the answer that the call waits for */
void mcp_question_done(struct mcp_call_private *p); /* of a call that ends: withdraws what is open */

/* ---- sending (mcp_out.c) ---- */

json_t *mcp_server_info(void);
unsigned mcp_session_max_calls(const struct mcp_session *m);

void mcp_send(struct mcp_session *m, void *stream, json_t *message, bool last);
int mcp_log_level(const char *name);             /* −1 if there is none */
bool mcp_is_behind(const struct mcp_session *m); /* mcp_out's */
bool mcp_full(const struct mcp_session *m);

#endif
