#ifndef BAILIFF_ENGINE_SANDBOX_H
#define BAILIFF_ENGINE_SANDBOX_H

/*
 * Session sandboxes: each is shared by several commands, one after the other or at the same time. They have the same
 * /tmp, loopback and process ids; each keeps its own policy decision, facts, streams and end.
 *
 * A sandbox has an id, and a name if the client gave one (unique among the open sandboxes of a uid). A holder keeps it
 * alive: a process without a command, with this module as its owner (process_owner.h). sandbox.created is part of the
 * commit that starts the holder, sandbox.closed of the one that records its end, so a sandbox is open exactly as long
 * as its holder is live. A restore replaces the holder (sandbox_checkpoint.c). The document has everything that a
 * restarted runtime needs.
 *
 * The request of create_sandbox is stored with all that was resolved from it: profile, workspace, nested repositories.
 * A command in the sandbox is set up from that record, and its plan must have the same hash (sandbox/plan.h:
 * plan_sandbox_hash). If policy has changed since, the hashes differ and the command is rejected.
 *
 * A sandbox ends by close_sandbox, with the session or connection it is bound to, after an idle period without a
 * command, with the daemon, or if its holder dies. Commands that still run, and processes that ended commands have
 * left, are terminated first and listed in sandbox.closed.
 */

#include "runtime/engine/core/engine.h"
#include "runtime/engine/process/process.h"

struct plan_head;
struct sandbox_setup;
struct process_command_exited;
struct process_failed;
struct session_updated;
struct subagent_closed;

#define SANDBOX_IDLE_MS (30u * 60 * 1000) /* unless the request gives another period */

struct sandbox_creation {
	const char *name;       /* or NULL */
	const char *session_id; /* the sandbox ends with this session; NULL = creates one for it */
	struct sandbox_request sandbox;
	uint64_t idle_ms;     /* 0 = no limit */
	bool end_with_client; /* it ends with the connection that created it */
};
/* Replies {sandboxId, name?, status, processId, sessionId, profile, cow?, idleMs, sequence} when commands can be
 * started in it.
 */
void engine_create_sandbox(struct engine *engine, const struct sandbox_creation *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx);
/* Replies {sandboxId, status, reason, running, sequence} when everything in it has ended. `given` is an id or a name.
 */
void engine_close_sandbox(struct engine *engine, const char *given, const struct caller *c, engine_reply_fn fn,
			  void *ctx);
/*
 * Copy-on-write sandboxes (sandbox_checkpoint.c). A checkpoint is given by its id or name; NULL = the newest.
 * checkpoint: replies {sandboxId, checkpointId, name?, sequence}; `name` NULL = none.
 * restore: replies {sandboxId, checkpointId, processId, lost, sequence}. `lost`: the private directories, which are
 * empty afterwards.
 * fork: replies like engine_create_sandbox; `checkpoint` NULL = the current state of the sandbox, or its last one if it
 * is closed.
 */
#define SANDBOX_CHECKPOINTS_MAX 64u
void engine_checkpoint_sandbox(struct engine *engine, const char *given, const char *name, const struct caller *c,
			       engine_reply_fn fn, void *ctx);
void engine_restore_sandbox(struct engine *engine, const char *given, const char *checkpoint, const struct caller *c,
			    engine_reply_fn fn, void *ctx);
void engine_fork_sandbox(struct engine *engine, const char *given, const char *checkpoint, const char *name,
			 const struct caller *c, engine_reply_fn fn, void *ctx);
/* The id of a sandbox that may be given by its name. An id is returned unchecked: the sandbox may be closed. */
void engine_sandbox_id(struct engine *engine, const char *given, const struct caller *c, char ret[ID_SIZE]);

/* The holder of an open sandbox, by id or name. */
int engine_sandbox_process(struct engine *engine, const char *given, const struct caller *c, char ret[ID_TEXT_MAX],
			   struct err *e);

/* The ports of a process's sandbox, or of the session sandbox that it runs in (process/process_ports.h). */
void engine_publish_port(struct engine *engine, const char *process_id, const struct port_publication *given,
			 const struct caller *c, engine_reply_fn fn, void *ctx);
void engine_unpublish_port(struct engine *engine, const char *process_id, uint16_t port, const struct caller *c,
			   engine_reply_fn fn, void *ctx);

/* Creates a sandbox and publishes these ports of it; if one fails, the sandbox is closed again. */
void engine_create_published(struct engine *engine, const struct sandbox_creation *r,
			     const struct port_publication *ports, size_t n, const struct caller *c, engine_reply_fn fn,
			     void *ctx);

/* ---- for start/ ---- */

/* Whether the start names the sandbox of its session and has to wait for sandbox_session_create first. */
bool sandbox_session_missing(struct engine *engine, const struct start_request *r, const struct caller *c);
typedef void (*sandbox_session_fn)(struct engine *engine, void *ctx, const struct err *e);
/* Creates it with the options of this request. `replaces`: why an earlier one is no longer used, or NULL. */
void sandbox_session_create(struct engine *engine, const struct start_request *r, const struct caller *c,
			    const char *replaces, sandbox_session_fn fn, void *ctx);
/* The sandbox no longer fits: it ends with its last command, and the next start creates another. */
void sandbox_session_replace(struct engine *engine, const struct start_request *r, const struct caller *c);
/*
 * A command is being started in it. Returns why this sandbox replaces an earlier one, for the reply to the first start;
 * the caller frees it. NULL = none.
 */
char *sandbox_take_note(struct engine *engine, const char *sandbox_id);

/*
 * Copies the request, with the options of its sandbox if it names one. ERR_NOT_FOUND, ERR_STATE, ERR_NOT_ALLOWED
 * (another user's), or ERR_INVALID for an option that would change the sandbox. *ret borrows from the sandbox: do not
 * keep it.
 */
int sandbox_enter(struct engine *engine, const struct start_request *r, const struct caller *c,
		  struct start_request *ret, struct err *e);
/* Records the plan of a first holder. Any other plan must fit it, else ERR_STATE with the first difference. */
int sandbox_check_plan(struct process *p, const struct sandbox_setup *f, const struct plan_head *plan, struct err *e);

/* Whether the copy-on-write layers of this holder are a copy that exists before its start (restore, fork). */
bool sandbox_starts_copied(const struct process *p);

/* ---- rows of modules.def ---- */

void sandbox_init(struct engine *engine);
/* The engine is freed: first the waits for sandboxes that are being created, then the sandboxes. */
void sandbox_session_done(struct engine *engine);
void sandbox_done(struct engine *engine);
void sandbox_load(struct engine *engine);    /* before recovery: the open ones */
void sandbox_recover(struct engine *engine); /* after it: closes those whose holder is gone */
uint64_t sandbox_tick(struct engine *engine, uint64_t now_ns);
void sandbox_client_disconnected(struct engine *engine, uint64_t connection);
void sandbox_on_holder_over(struct engine *engine, const struct process_over *x);
void sandbox_on_process_over(struct engine *engine, const struct process_over *x);
void sandbox_on_command_exited(struct transaction *tx, const struct scope *s, const struct process_command_exited *p);
void sandbox_on_process_failed(struct transaction *tx, const struct scope *s, const struct process_failed *p);
void sandbox_on_subagent_closed(struct transaction *tx, const struct scope *s, const struct subagent_closed *p);
void sandbox_on_session_updated(struct transaction *tx, const struct scope *s, const struct session_updated *p);

#endif
