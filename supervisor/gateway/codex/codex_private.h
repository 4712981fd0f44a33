#ifndef BAILIFF_GATEWAY_CODEX_PRIVATE_H
#define BAILIFF_GATEWAY_CODEX_PRIVATE_H

#include "runtime/base/buf.h"
#include "runtime/base/strmap.h"
#include "supervisor/gateway/codex/codex_server.h"
#include "supervisor/gateway/codex/sandbox_intent.h"
#include "supervisor/gateway/common/gateway_session.h"
#include "supervisor/gateway/common/rpc_message.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/queue.h>

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
	struct codex_call *opening; /* the initialize that is not answered yet */
	bool opened, initialized;
	json_t *backlog; /* events that came while earlier ones are still being read; NULL = they are taken at once */
	uint64_t recovered; /* sequence number up to which they were */
	bool exact;         /* violations are known, so a denial is a fact */
	TAILQ_HEAD(, codex_call) calls;
	size_t ncalls;
	TAILQ_HEAD(, codex_process) processes;
	size_t nprocesses;
	struct strmap by_name, by_id; /* the client's ids, the daemon's */
	struct strmap threads;        /* the client's threads: the daemon's ids, as heap strings */
	struct strmap handles;        /* struct codex_handle */
	struct strmap file_questions; /* the daemon's ids of file methods that policy asks about */
	struct event later;           /* tells what waits until the client has taken more */
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
	bool asked;    /* policy asks a person, and the start waits for the answer */
	bool unplaced; /* tried again without a folder */
	bool confined;
	/* about a process */
	struct codex_process *process;
	struct event timer;
	bool timed;
	void (*late)(struct codex_call *c);
	TAILQ_ENTRY(codex_call) waiting;
	bool waits;
	void (*resume)(struct codex_call *c); /* it waits for news of the process, which have come */
	json_t *chunks;                       /* what process/read has so far */
	uint64_t max_bytes, bytes;
	size_t at;
	/* about files */
	const struct codex_fs_row *row;
	char file_process[CODEX_ID_MAX], file_output[CODEX_ID_MAX];
	struct buf file; /* what is written, or was read */
	size_t sent;
	uint64_t total, offset, length;
	void (*read_done)(
		struct codex_call *c); /* gets the bytes that were read; NULL: the call is answered with them */
};

/* ---- calls ---- */

struct codex_call *codex_call_new(struct codex_server *s, const struct codex_method *method,
				  const struct rpc_message *m);
void codex_call_free(struct codex_call *c);
/* Both end the call. `result` is taken over. */
void codex_call_reply(struct codex_call *c, json_t *result);
void codex_call_fail(struct codex_call *c, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A failure of ours: what is wrong with the parameters. */
void codex_call_refuse(struct codex_call *c, const struct err *e);
/* The daemon's error, as Codex's own executor would put it. */
void codex_call_fail_daemon(struct codex_call *c, const json_t *error);
void codex_call_time(struct codex_call *c, uint64_t ms, void (*fn)(struct codex_call *c));

/* A member of the parameters. NULL: it is missing or no string, and the call was answered. */
const char *codex_call_str(struct codex_call *c, const char *name);
/* A path; false: the call was answered. */
bool codex_call_path(struct codex_call *c, const char *name, char *ret);

/* ---- launches ---- */

/*
 * Starts what c->start says in c->cwd and in the sandbox that `sandbox` means, then calls `launched` with the daemon's
 * answer. The call may be answered before that.
 */
void codex_launch(struct codex_call *c, const json_t *sandbox,
		  void (*launched)(struct codex_call *c, json_t *result, json_t *error));

/* ---- processes ---- */

struct codex_chunk {
	uint64_t offset;
	uint32_t length;
	uint8_t stream;
	char *base64; /* its bytes, until they were told; NULL = they are to be read */
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
	struct codex_call *start; /* not answered yet */
	bool unwanted;            /* ended by its client before the daemon's id was known */
	bool answered;            /* things may be told about it */
	bool reading;
	struct codex_chunk *chunk; /* the piece with sequence number i + 1 */
	size_t count, room, told;
	bool ended, end_told;
	int exit_code;
	uint64_t by_mode; /* violations that are none of the sandbox's: owner and mode of a file refused */
	bool denied, looks_denied;
	char *failure;
	struct strmap writes; /* writeIds that were carried out */
	size_t users;         /* calls */
	TAILQ_HEAD(codex_readers, codex_call) readers;
};

struct codex_process *codex_process_new(struct codex_server *s, const char *name);
void codex_process_free(struct codex_process *p);
/* The daemon's id is known. */
void codex_process_bind(struct codex_process *p, const char *id);
/* It never ran: its name is free again. */
void codex_process_drop(struct codex_process *p);
void codex_process_answered(struct codex_process *p);
/* Ends it; if it waits for permission, its start is answered. */
void codex_process_end(struct codex_process *p);
/* Takes an event of the session. */
void codex_process_fold(struct codex_server *s, const json_t *event);
/* After the events from before this connection: nothing of them is told again. */
void codex_process_recovered(struct codex_server *s);
void codex_process_tell(struct codex_process *p);
/* The process that a call is about; NULL if there is none. */
struct codex_process *codex_process_of(struct codex_call *c);
void codex_process_add_waiter(struct codex_process *p, struct codex_call *c);
/* The daemon's thread for one of the client's, if nothing runs in it: a thread does one thing at a time. Else NULL. */
const char *codex_process_idle_thread(const struct codex_server *s, const char *thread);
bool codex_process_starting(const struct codex_process *p);
const char *codex_stream_name(unsigned stream);
/* The justification of a start: "Codex call C in thread T, process P". */
bool codex_process_word(const char *s); /* can be an id in bailiff's facts */
void codex_process_justify(const json_t *metadata, const char *name, struct buf *out);

#define METHOD(name, family, run) void run(struct codex_call *c);
#include "supervisor/gateway/codex/codex_methods.def"
#undef METHOD

void codex_handle_free_all(struct codex_server *s);
json_t *codex_environment_json(const struct codex_server *s);

#endif
