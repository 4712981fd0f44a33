#ifndef BAILIFF_ENGINE_SANDBOX_H
#define BAILIFF_ENGINE_SANDBOX_H

/*
 * Session sandboxes: a sandbox that several commands share, one after the other or at the same time. They have the same
 * /tmp, loopback and process ids; each keeps its own policy decision, facts, streams and end.
 *
 * A sandbox has an id, and a name if the client gave one (unique among the open sandboxes of a uid). Its live part is a
 * holder: a process without a command, with this module as its owner (process_owner.h). sandbox.created is part of the
 * commit that starts the holder, sandbox.closed of the one that records its end, so a sandbox is open exactly as long
 * as its holder is live. The document has everything that a restarted runtime needs.
 *
 * The request of create_sandbox is stored with all that was resolved from it: profile, workspace, nested repositories.
 * A command in the sandbox is set up from that record, and its plan must have the same hash (sandbox/plan.h:
 * plan_sandbox_hash). If policy has changed since, the hashes differ and the command is rejected.
 *
 * A sandbox ends by close_sandbox, with the session or connection it is bound to, after an idle period without a
 * command, with the daemon, or if its holder dies. Commands that still run are terminated first and listed in
 * sandbox.closed.
 */

#include "runtime/engine/core/engine.h"
#include "runtime/engine/process/process.h"

struct plan_head;
struct session_updated;

#define SANDBOX_IDLE_MS (30u * 60 * 1000) /* unless the request gives another period */

struct sandbox_creation {
	const char *name;       /* or NULL */
	const char *session_id; /* the sandbox ends with this session; NULL = it gets a session of its own */
	struct sandbox_request sandbox;
	uint64_t idle_ms;     /* 0 = no limit */
	bool end_with_client; /* it ends when the connection closes that created it */
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
 * Copy-on-write sandboxes (sandbox_checkpoint.c). A checkpoint is given by its id or name.
 * checkpoint: replies {sandboxId, checkpointId, name?}. restore: {sandboxId, checkpointId, processId, lost}; processes
 * in the sandbox get another /tmp. fork: as engine_create_sandbox; `checkpoint` NULL = the sandbox as it is, or was
 * when it was closed.
 */
#define SANDBOX_CHECKPOINTS_MAX 64u
void engine_checkpoint_sandbox(struct engine *engine, const char *given, const char *name, const struct caller *c,
			       engine_reply_fn fn, void *ctx);
void engine_restore_sandbox(struct engine *engine, const char *given, const char *checkpoint, const struct caller *c,
			    engine_reply_fn fn, void *ctx);
void engine_fork_sandbox(struct engine *engine, const char *given, const char *checkpoint, const char *name,
			 const struct caller *c, engine_reply_fn fn, void *ctx);
/* The id of a sandbox that may be given by its name. An id is not looked up: it may be that of a closed sandbox. */
void engine_sandbox_id(struct engine *engine, const char *given, const struct caller *c, char ret[ID_SIZE]);

/* The holder of an open sandbox, by id or name. */
int engine_sandbox_process(struct engine *engine, const char *given, const struct caller *c, char ret[ID_TEXT_MAX],
			   struct err *e);

/* The ports of a process's sandbox, or of the session sandbox that it runs in (process/process_ports.h). */
void engine_publish_port(struct engine *engine, const char *process_id, const struct port_publication *given,
			 const struct caller *c, engine_reply_fn fn, void *ctx);
void engine_unpublish_port(struct engine *engine, const char *process_id, uint16_t port, const struct caller *c,
			   engine_reply_fn fn, void *ctx);

#define SANDBOX_PUBLISH_MAX 32u
/* Creates a sandbox and publishes these ports of it; if one fails, the sandbox is closed again. */
void engine_create_published(struct engine *engine, const struct sandbox_creation *r,
			     const struct port_publication *ports, size_t n, const struct caller *c, engine_reply_fn fn,
			     void *ctx);

/* Whether the session of this turn has a sandbox that its commands share. */
bool sandbox_session_is_open(struct engine *engine, const char *turn_id, uint32_t uid);

/* ---- for start/ ---- */

/* Whether the start has to wait for sandbox_session_create first. */
bool sandbox_session_missing(struct engine *engine, const struct start_request *r, const struct caller *c);
typedef void (*sandbox_session_fn)(struct engine *engine, void *ctx, const struct err *e);
/* Creates it with the options of this request. `replaces`: why the session's earlier one is not used; or NULL. */
void sandbox_session_create(struct engine *engine, const struct start_request *r, const struct caller *c,
			    const char *replaces, sandbox_session_fn fn, void *ctx);
/* The sandbox does not fit any longer: it ends with its last command, and the next start creates another. */
void sandbox_session_replace(struct engine *engine, const struct start_request *r, const struct caller *c);
/* What to say about a new sandbox to the first start in it; owned by the caller. NULL = nothing. */
char *sandbox_take_note(struct engine *engine, const char *sandbox_id);

/*
 * The request with what it takes over from its sandbox, if it names one; otherwise a copy. ERR_NOT_FOUND, ERR_STATE, or
 * ERR_INVALID for an option that would change the sandbox. *ret borrows from the sandbox: valid during the call.
 */
int sandbox_enter(struct engine *engine, const struct start_request *r, const struct caller *c,
		  struct start_request *ret, struct err *e);
/* The holder's plan is recorded; that of a command must fit it, else ERR_STATE with the first difference. */
int sandbox_check_plan(struct process *p, const struct plan_head *plan, struct err *e);

/* The layers of this holder are a copy, made before its start. */
bool sandbox_starts_copied(const struct process *p);

/* ---- rows of modules.def ---- */

void sandbox_init(struct engine *engine);
void sandbox_done(struct engine *engine);
void sandbox_load(struct engine *engine);    /* before recovery: the open ones */
void sandbox_recover(struct engine *engine); /* after it: closes those whose holder is gone */
uint64_t sandbox_tick(struct engine *engine, uint64_t now_ns);
void sandbox_client_disconnected(struct engine *engine, uint64_t connection);
void sandbox_on_holder_over(struct engine *engine, const struct process_over *x);
void sandbox_on_process_over(struct engine *engine, const struct process_over *x);
void sandbox_on_session_updated(struct transaction *tx, const struct scope *s, const struct session_updated *p);

#endif
