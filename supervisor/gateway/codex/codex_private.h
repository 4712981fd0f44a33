#ifndef BAILIFF_GATEWAY_CODEX_PRIVATE_H
#define BAILIFF_GATEWAY_CODEX_PRIVATE_H

/*
 * Private to supervisor/gateway/codex: the server, its calls and its processes. Ownership goes down: the server owns
 * calls and processes; a call refers to at most one process, which counts it in `users` and is not dropped before.
 */
#include "runtime/base/buf.h"
#include "runtime/base/strmap.h"
#include "supervisor/gateway/codex/codex_server.h"
#include "supervisor/gateway/codex/sandbox_intent.h"
#include "supervisor/gateway/common/gateway_session.h"
#include "supervisor/gateway/common/rpc_message.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <jansson.h>
#include <sys/queue.h>

struct err;

#define CODEX_ID_MAX 72
#define CODEX_NOT_FOUND (-32004)
#define CODEX_ALREADY_ATTACHED (-32010)
#define CODEX_FILE_REASON \
	"Codex fs/" /* what the justification of a file method's process begins with; the method's name follows */

struct codex_call;
struct codex_process;

struct codex_method {
	const char *name, *family;
	void (*run)(struct codex_call *c);
};

struct codex_server {
	struct event_base *base;
	struct codex_options o;
	struct codex_server_ops ops;
	void *ctx;
	struct gateway_session *session;
	struct codex_call *opening; /* the pending initialize */
	bool opened, initialized;
	json_t *backlog; /* events received while earlier ones are still being loaded; NULL: handle events immediately
			  */
	uint64_t recovered; /* sequence number up to which events were loaded */
	bool exact;         /* the kernel reports violations, so denials are exact */
	TAILQ_HEAD(, codex_call) calls;
	size_t ncalls, nparked; /* parked: of the calls */
	size_t parked_bytes;    /* that parked calls have to write */
	TAILQ_HEAD(, codex_process) processes;
	size_t nprocesses;
	struct strmap by_name, by_id; /* keys: the client's ids, the daemon's ids */
	struct strmap threads;        /* client's thread id → daemon's, a heap string */
	struct strmap handles;        /* struct codex_handle */
	struct strmap sandboxes;      /* ids of the session's sandboxes, which end with the client */
	struct strmap file_questions; /* processes of file methods that policy asks a person about */
	struct event later;           /* sends more output when the client has read some */
	char *tool;                   /* bailiff-tool */
};

struct codex_call {
	TAILQ_ENTRY(codex_call) entry;
	struct codex_server *server;
	const struct codex_method *method;
	json_t *id, *params;
	char trace[56]; /* traceparent; "" = none */
	/* codex_launch */
	struct sandbox_intent intent;
	char *cwd;     /* NULL = none */
	json_t *start; /* start_process's parameters */
	void (*launched)(struct codex_call *c, json_t *result, json_t *error);
	char action[CODEX_ID_MAX];
	bool asked;    /* waiting for a person's approval */
	bool unplaced; /* retried without a working directory */
	bool confined;
	json_t *warnings; /* of the start, for the client; or NULL */
	/* requests about a process */
	struct codex_process *process;
	struct event timer;
	bool timed;
	void (*late)(struct codex_call *c);
	TAILQ_ENTRY(codex_call) waiting;
	bool waits;  /* among the process's readers */
	bool queued; /* among its writers */
	bool parked;
	void (*resume)(struct codex_call *c); /* called when there is news of the process */
	json_t *chunks;                       /* result of process/read so far */
	uint64_t max_bytes, bytes;
	size_t at;
	/* file methods */
	const struct codex_fs_row *row;
	char file_process[CODEX_ID_MAX], file_output[CODEX_ID_MAX];
	struct buf file; /* contents or input to write, or contents read */
	size_t sent;
	uint64_t total, offset, length;
	void (*read_done)(struct codex_call *c); /* receives the bytes read; NULL: they become the result */
};

/* ---- calls ---- */

struct codex_call *codex_call_new(struct codex_server *s, const struct codex_method *method,
				  const struct rpc_message *m);
void codex_call_free(struct codex_call *c);
/*
 * The call may wait without a limit: for output, for a process that does not read, for a person. It does not count as
 * one that the gateway is busy with, or a client with many of them could not even end the processes that they wait for.
 */
void codex_call_park(struct codex_call *c);
/* Both send the response and free the call. `result`: ownership is taken. */
void codex_call_reply(struct codex_call *c, json_t *result);
void codex_call_fail(struct codex_call *c, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Fails with invalid parameters. */
void codex_call_reject(struct codex_call *c, const struct err *e);
/* Maps the daemon's error to the error that Codex's own executor would send. */
void codex_call_fail_daemon(struct codex_call *c, const json_t *error);
void codex_call_time(struct codex_call *c, uint64_t ms, void (*fn)(struct codex_call *c));

/* A string parameter. NULL: missing or not a string, and the call has failed. */
const char *codex_call_str(struct codex_call *c, const char *name);
/* A path parameter. False: the call has failed. */
bool codex_call_path(struct codex_call *c, const char *name, char *ret);

/* ---- launches ---- */

/*
 * Runs c->start in c->cwd, in the sandbox that `sandbox` describes, then calls `launched` with the daemon's reply. If
 * the parameters are invalid, the call fails and `launched` is not called.
 */
void codex_launch(struct codex_call *c, const json_t *sandbox,
		  void (*launched)(struct codex_call *c, json_t *result, json_t *error));

/* ---- processes ---- */

struct codex_chunk {
	uint64_t offset;
	uint32_t length;
	uint8_t stream;
	char *base64; /* the bytes until they were sent; NULL: read them from the spool */
};

enum { CODEX_STREAMS = 3 };

struct codex_process {
	TAILQ_ENTRY(codex_process) entry;
	struct codex_server *server;
	char *name;                /* the client's id */
	char id[CODEX_ID_MAX];     /* the daemon's; "" until it is known */
	char thread[CODEX_ID_MAX]; /* the daemon's */
	char ref[CODEX_STREAMS][CODEX_ID_MAX];
	bool tty, stdin_open;
	struct codex_call *start; /* the pending process/start */
	bool unwanted;            /* the client terminated it before the daemon's id was known */
	bool started;             /* process.started arrived: tty and stdin_open are the event's */
	bool answered;            /* process/start was answered, so notifications may be sent */
	bool reading;
	struct codex_chunk *chunk; /* chunk[i] has the sequence number i + 1 */
	size_t count, capacity, sent;
	bool ended, end_sent;
	bool has_left; /* the command has ended, which ends it for the client, and left processes running */
	int exit_code;
	uint64_t violations; /* events so far … */
	uint64_t by_mode;    /* … of them caused by file owner and mode, not by the sandbox */
	bool denied, looks_denied;
	char *failure;
	struct strmap writes; /* writeIds already handled */
	size_t users;         /* calls that refer to it */
	TAILQ_HEAD(codex_readers, codex_call) readers;
	TAILQ_HEAD(codex_writers, codex_call) writers; /* the first one writes */
};

struct codex_process *codex_process_new(struct codex_server *s, const char *name);
void codex_process_free(struct codex_process *p);
/* Sets the daemon's id. */
void codex_process_bind(struct codex_process *p, const char *id);
/* The process runs: answers its process/start. Notifications about it may follow. */
void codex_process_started(struct codex_process *p);
/* Terminates it. If it waits for approval, its start fails. */
void codex_process_end(struct codex_process *p);
/* Applies an event of the session. */
void codex_process_fold(struct codex_server *s, const json_t *event);
/* Called after the events from before this connection: they are not reported again. */
void codex_process_recovered(struct codex_server *s);
void codex_process_notify(struct codex_process *p);
/* The process named by a call; NULL if there is none. */
struct codex_process *codex_process_of(struct codex_call *c);
void codex_process_add_waiter(struct codex_process *p, struct codex_call *c);
/*
 * The daemon's thread for a client's thread if no process runs in it, else NULL: a thread runs one process at a time.
 */
const char *codex_process_idle_thread(const struct codex_server *s, const char *thread);
bool codex_process_starting(const struct codex_process *p);
const char *codex_stream_name(unsigned stream);
/* Writes the justification of a start: "Codex call C in thread T, process P". */
bool codex_process_word(const char *s); /* valid as an id in events */
void codex_process_justify(const json_t *metadata, const char *name, struct buf *out);

#define METHOD(name, family, run) void run(struct codex_call *c);
#include "supervisor/gateway/codex/codex_methods.def"
#undef METHOD

void codex_handle_free_all(struct codex_server *s);
json_t *codex_environment_json(void);

/* ---- the environment of a command ---- */

/*
 * The environment of a command that Codex starts: the executor's variables that its envPolicy selects, overridden by
 * `env`. Without a policy, only `env`.
 *
 * start_process adds default variables; those that Codex does not want are removed by name.
 */

/* `own`: "K=V" strings, NULL-terminated. *ret becomes start_process's `env`. ERR_INVALID with the field. */
int environment_of(const json_t *policy, const json_t *env, char *const *own, json_t **ret, struct err *e);

#endif
