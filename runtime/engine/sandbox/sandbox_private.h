#ifndef BAILIFF_ENGINE_SANDBOX_PRIVATE_H
#define BAILIFF_ENGINE_SANDBOX_PRIVATE_H

/*
 * Shared by the files of this module:
 *   sandbox_table.c       the table of open sandboxes, their requests, lookups
 *   sandbox.c             creation; the end of a holder
 *   sandbox_end.c         reasons to end a sandbox, deadlines, recovery
 *   sandbox_member.c      commands in a sandbox: their options and plans
 *   sandbox_session.c     the sandbox that commands of a session share
 *   sandbox_checkpoint.c  checkpoint, restore and fork; sandbox_copy.c: their copies in progress
 *   sandbox_ports.c       published ports
 */

#include "runtime/base/strmap.h"
#include "runtime/engine/process/start_spec.h"
#include "runtime/engine/sandbox/sandbox.h"

struct sandbox_copy;
struct transaction;
struct view_ids;

/* Ends the message about a command that the sandbox does not fit. */
#define SANDBOX_ADVICE \
	": create another sandbox (bailiff cp copies files out of this one), or start the command outside it"

/* A client that waits for the end of the sandbox. */
struct close_waiter {
	TAILQ_ENTRY(close_waiter) link;
	struct pending_reply reply;
};

struct sandbox {
	struct engine *engine;
	char id[ID_SIZE], name[ID_SIZE], session_id[ID_SIZE];
	char process_id[ID_TEXT_MAX]; /* its holder */
	uint32_t uid;
	struct requester by;
	bool bound;   /* ends with its session */
	bool created; /* sandbox.created is submitted */
	bool ready;   /* commands can be started */
	uint64_t idle_ms, idle_since_ns;
	bool end_with_client;
	uint64_t connection; /* with which it ends; 0 = none */

	json_t *request;          /* as stored; `spec` and `base` point into it */
	struct sandbox_spec spec; /* what the holder and all commands are set up from … */
	struct sandbox_base base; /* … and for which directory */
	struct buf nested, git;   /* of `base` */
	char hash[PLAN_SANDBOX_HASH];
	char *profile_json;    /* the holder's sandboxProfile … */
	char network[16];      /* … and its member network */
	char *replaces;        /* sandbox of a session: why it replaces an earlier one, for the first start; or NULL */
	uint64_t used;         /* … the number of its last start, counted over all of them; 0 = none yet */
	char *separate_reason; /* … text about the next start (struct start_request) */

	char forked_from[ID_SIZE], forked_checkpoint[ID_TEXT_MAX]; /* "" = none */

	struct pending_reply create; /* fn NULL once answered */
	bool lost;                   /* a start failed because it has ended; its holder's end has not been seen yet */
	const char *reason;          /* of its end; NULL = open */
	struct requester closed_by;
	bool by_client;
	char *running;             /* JSON: the commands that its end terminates */
	uint64_t holder_end_at_ns; /* when the holder is ended although a command is left */
	TAILQ_HEAD(, close_waiter) waiters;
};

static inline bool sandbox_is_ending(const struct sandbox *s) { return s->reason || s->lost; }

#define SESSION_SANDBOXES_MAX 8u /* of one group, each for other options or another workspace */

struct sandbox_state {
	uint64_t starts;        /* in sandboxes of sessions */
	struct strmap open;     /* id → struct sandbox */
	struct strmap creating; /* uid and name → struct session_creation (sandbox_session.c) */
	TAILQ_HEAD(, sandbox_copy) copies;
};

struct sandbox *sandbox_get(struct engine *engine, const char *id);
struct sandbox *sandbox_new(struct engine *engine, const char *id, uint32_t uid);
void sandbox_free(struct sandbox *s);
/* Takes `request`, a JSON object as sandbox_request_write writes it. −1: it is not valid. */
int sandbox_take_request(struct sandbox *s, json_t *request, struct err *e);
void sandbox_take_profile(struct sandbox *s, const char *json, size_t len); /* a copy of the holder's sandboxProfile */
/* Takes the repositories of its workspace as they are known now. */
void sandbox_take_repos(struct sandbox *s);
void sandbox_request_write(const struct sandbox_request *r, struct jw *w);
struct sandbox *sandbox_find_name(struct engine *engine, const char *name, uint32_t uid); /* or NULL */
/* The sandbox, by id or by name; with an error that says whether it is closed or not known. */
struct sandbox *sandbox_find(struct engine *engine, const char *given, const struct caller *c, struct err *e);
/* The sandbox of the request's session; NULL with ERR_STATE: it has none. */
struct sandbox *sandbox_of_session(struct engine *engine, const struct start_request *r, const struct caller *c,
				   struct err *e);
/* The starts that can share a sandbox: those of a session, which may be named by its turn or thread, or of a subagent.
 */
struct sandbox_group {
	char session[ID_SIZE];
	char key[ID_SIZE]; /* the session's id, or that of the subagent's thread */
};
int sandbox_group_of(struct engine *engine, const struct start_request *r, const struct caller *c,
		     struct sandbox_group *ret, struct err *e);
/* Why this start cannot share a sandbox with others; NULL = it can. */
const char *sandbox_not_shared(const struct start_request *r);
/* Of its open sandboxes, the one with the last start; NULL = none has had one since the runtime started. */
const struct sandbox *sandbox_latest(struct engine *engine, const struct sandbox_group *g);

/* A name that a new sandbox of the caller can have; NULL = none. */
int sandbox_check_name(struct engine *engine, const char *name, const struct caller *c, struct err *e);
/* Starts a holder for it: the first one, or for a restore another one. `process_id` NULL = generate one. */
void sandbox_start_holder(struct sandbox *s, const char *session_id, const char *process_id, const struct caller *c,
			  engine_reply_fn fn, void *ctx);
/* The reply to the start of its first holder. After an error the sandbox is freed, now or when the holder has ended. */
void sandbox_holder_replied(struct engine *engine, const char *id, const struct err *e, const char *json, size_t len);
/* Commands can be started in it, by this caller. */
int sandbox_check_open(const struct sandbox *s, const struct caller *c, struct err *e);

/* ---- sandbox_copy.c ---- */

enum copy_kind { COPY_CHECKPOINT, COPY_RESTORE, COPY_FORK };

/* One request in progress. */
struct sandbox_copy {
	TAILQ_ENTRY(sandbox_copy) link;
	enum copy_kind kind;
	char to[ID_TEXT_MAX];          /* the new checkpoint, or the holder that starts with the copy */
	char sandbox_id[ID_SIZE];      /* that is copied or restored; FORK: the new one */
	char source_id[ID_SIZE];       /* whose layers are read: no command may start in it; "" = a checkpoint's */
	char name[ID_SIZE];            /* of the new checkpoint; "" = none */
	char checkpoint[ID_TEXT_MAX];  /* that is copied; "" = the holder's layers */
	char previous_id[ID_TEXT_MAX]; /* RESTORE: the holder that is replaced, once sandbox.restored is durable */
	struct caller caller;          /* a copy */
	struct pending_reply reply;
	uint64_t sequence; /* of the event that records it; 0 = not committed yet */
};

struct sandbox_copy *sandbox_copy_new(struct engine *engine, enum copy_kind kind, const char *sandbox_id,
				      const struct caller *c);
void sandbox_copy_free(struct engine *engine, struct sandbox_copy *x);
/* Ends the request with an error. Nothing is left of the copy. */
void sandbox_copy_fail(struct engine *engine, struct sandbox_copy *x, const struct err *e);
struct sandbox_copy *sandbox_find_copy(struct engine *engine, const char *to);
/* The restore of this sandbox that is in progress, or NULL. */
struct sandbox_copy *sandbox_find_restore(struct engine *engine, const char *sandbox_id);
int sandbox_check_share(struct engine *engine, uint32_t uid, struct err *e); /* ERR_EXHAUSTED: the uid has too many */
void sandbox_copies_free(struct engine *engine);
void sandbox_drop_copy(struct engine *engine, const char *id);
int sandbox_check_copying(const struct sandbox *s, struct err *e); /* ERR_STATE while its layers are copied */
/* Whether its checkpoints stay after its end; otherwise they are removed after the commit that records the end. */
bool sandbox_keeps_checkpoints(const struct sandbox *s);
void sandbox_drop_checkpoints(const struct sandbox *s, struct transaction *tx);

/* sandbox_end.c: the commands that run in it */
void sandbox_members(const struct sandbox *s, struct view_ids *ret);
void sandbox_end_holder(struct sandbox *s);
void sandbox_end_process(struct engine *engine, const char *id, const char *why);
/* sandbox_end.c: begins its end; no effect if it has begun. `by` NULL = the daemon. */
void sandbox_end(struct sandbox *s, const char *reason, const struct requester *by);
/* Its holder has ended without sandbox_end: the commands end with it. */
void sandbox_mark_ended(struct sandbox *s, const char *reason, const struct requester *by);
/* Its idle period has started again: schedules the check of its deadline. */
void sandbox_wake(const struct sandbox *s);
/* Writes the reply to close_sandbox; sequence 0 = not known yet. */
void sandbox_result(const struct sandbox *s, uint64_t sequence, struct buf *out);

#endif
