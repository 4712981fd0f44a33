#ifndef BAILIFF_ENGINE_PERMISSION_H
#define BAILIFF_ENGINE_PERMISSION_H

/*
 * Applies the policy's decision to a start. Allow: the start continues. Deny: the process is recorded as one that
 * never ran. Ask: an action is opened and the process waits in the log. When a person allows it, exactly what was
 * shown is started. The binding guarantees that: it is a hash of the plan (program, arguments, working directory,
 * environment, mounts) and of the sandbox. If the same request would now produce a different binding, it is denied.
 *
 * Order of calls for one start: permission_confine, then permission_evaluate, then one of hook_defer_start,
 * permission_deny, permission_ask or the launch. Files: permission.c (decision, denial), permission_wait.c (a process
 * that waits for a person, and its recovery), permission_persist.c (scope always), permission_retry.c (mode
 * on_failure), permission_request.c (requests of clients about policy).
 */

#include "runtime/engine/core/engine.h"

struct caller;
struct sandbox_setup;
struct err;
struct policy_rules;
struct process;
struct transaction;

/* The home directory inside the sandbox, or NULL. */
const char *permission_home(const struct sandbox_setup *f, const struct start_request *r);
/* Determines the mode for the decision, and refuses_links. 1: the mode requires a narrower sandbox, and `f` has been
 * replaced by it. */
int permission_confine(struct process *p, const struct start_request *r, const struct caller *c,
		       const struct policy_rules *rules, struct sandbox_setup *f, struct err *e);
/*
 * Makes the process's decision, about the request that the process already holds. True: hooks have to run first
 * (hook_defer_start).
 */
bool permission_evaluate(struct process *p, const struct start_request *r, const struct sandbox_setup *f,
			 const char *const *argv, size_t argc, const struct policy_rules *rules,
			 const struct caller *c);
/* Adds permission.evaluated, and permission.resolved if a hook answered instead of a person. */
int permission_fact(const struct process *p, struct transaction *tx);
/* Both reply to the start, and take ownership of the process. */
void permission_deny(struct process *p);
void permission_ask(struct process *p, const struct start_request *r, const struct caller *c);
/* A start that was allowed cannot be carried out. */
void permission_fail(struct process *p, const struct err *e);
/* Cancels a start that waits for hooks or, after an approval, for the policy files of its workspace. */
void permission_drop(struct process *p, const char *reason);
/*
 * Replaces a waiting process by one that can run, and moves its waiters, its input and the pending reply to it. Frees
 * `waiting`.
 */
void permission_promote(struct process *waiting, struct engine *engine, const char *id, struct process **ret);
/*
 * The start waited (for hooks or a person, then for the policy of its workspace) and was ended meanwhile. Its caller
 * has been notified.
 */
bool permission_was_ended(struct engine *engine, const struct start_request *r);
/*
 * After a failure that the sandbox caused, in mode on_failure: offers to run the command again with the missing
 * access.
 */
void permission_offer_retry(struct process *p);
/* Rebuilds the processes that wait for a person. Starts nothing. */
void permission_recover(struct engine *engine);
uint64_t permission_reload_tick(struct engine *engine, uint64_t now);
void permission_client_connected(struct engine *engine);
void permission_resume(struct engine *engine); /* once starts are possible again */
void permission_init(struct engine *engine);
void permission_done(struct engine *engine);
extern const struct process_wait_ops permission_wait_ops; /* of processes that wait for a person or for hooks */

/* For other permission questions (tool calls). */
struct action_doc;
struct action_outcome;
struct policy_decision;
struct policy_request;
void permission_suggestions_json(const struct policy_request *r, const struct policy_decision *d, struct buf *out);
/* 0: the reply follows when the rules have been written. */
int permission_persist(struct engine *engine, const struct action_doc *d, const struct action_answer *r, bool allow,
		       const struct caller *c, engine_reply_fn fn, void *ctx, struct err *e);
bool permission_is_persisting(struct engine *engine, const char *action_id);
/* The same was allowed for the rest of the session. */
bool permission_is_granted(struct engine *engine, const char *session_id, const char *binding);
/* The facts that an answer adds to action.resolved. */
void permission_resolved(struct engine *engine, const struct action_outcome *o, struct transaction *tx);

#endif
