#ifndef BAILIFF_ENGINE_PERMISSION_H
#define BAILIFF_ENGINE_PERMISSION_H

/*
 * What policy's answer does to a start. Allowed: it goes on. Denied: the process is a fact that never ran. Asked: an
 * action is opened and the process waits in the log; when a person allows it, exactly what was shown to him is started,
 * which the binding proves: a hash of the plan (program, arguments, working directory, environment, mounts) and of its
 * sandbox. If the same request would now become something else, it is refused.
 */

#include "runtime/engine/core/engine.h"

struct caller;
struct sandbox_setup;
struct err;
struct policy_rules;
struct process;
struct store_batch;

/* What ~ stands for inside, or NULL. */
const char *permission_home(const struct sandbox_setup *f, const struct start_request *r);
/* Finds the mode that it will be judged in. 1: that wants another sandbox, which it has now. */
int permission_confine(struct process *p, const struct start_request *r, const struct caller *c,
		       const struct policy_rules *rules, struct sandbox_setup *f, struct err *e);
/* The process's decision; what it is about is in the process already. True: hooks have to be asked first (hook_hold).
 */
bool permission_judge(struct process *p, const struct start_request *r, const struct sandbox_setup *f,
		      const char *const *argv, size_t argc, const struct policy_rules *rules, const struct caller *c);
int permission_fact(const struct process *p, struct store_batch *b);
/* Both answer the start, and own the process from then on. */
void permission_deny(struct process *p);
void permission_ask(struct process *p, const struct start_request *r, const struct caller *c);
/* A start that was allowed cannot be made after all. */
void permission_fail(struct process *p, const struct err *e);
/* It waited for hooks, or for the files of its place after it was allowed, and is not to be. */
void permission_drop(struct process *p, const char *reason);
/* The waiting process takes its place among those that run: its waiters, its input and the answer that is owed go with
 * it. Frees `waiting`. */
void permission_promote(struct process *waiting, struct engine *g, const char *id, struct process **ret);
/* The start is one that waited, for hooks or a person and then for the policy of its place, and somebody has ended it
 * since; who asked knows. */
bool permission_was_ended(struct engine *g, const struct start_request *r);
/* A process that waits is to end. */
void permission_cancel(struct process *p, const char *reason, bool stopping);
/* Its end is on a failure of the sandbox, and the mode is on_failure: offers to run it again with what it lacked. */
void permission_offer_retry(struct process *p);
void permission_recover(struct engine *g);
void permission_resume(struct engine *g); /* … once things are started again */
void permission_init(struct engine *g);
void permission_done(struct engine *g);
extern const struct process_wait_ops permission_wait_ops; /* of processes that wait for a person or for hooks */

/* For other questions about permission (tool calls). */
struct action_doc;
struct action_outcome;
struct policy_decision;
struct policy_request;
void permission_suggestions_json(const struct policy_request *r, const struct policy_decision *d, struct buf *out);
/* 0: the answer is given when its rules are written. */
int permission_persist(struct engine *g, const struct action_doc *d, const struct action_answer *r, bool allow,
		       const struct caller *c, engine_reply_fn fn, void *ctx, struct err *e);
bool permission_is_persisting(struct engine *g, const char *action_id);
/* The same was allowed for the rest of the session. */
bool permission_is_granted(struct engine *g, const char *session_id, const char *binding);
/* What an answer writes beside action.resolved. */
void permission_resolved(struct engine *g, const struct action_outcome *o, struct store_batch *b);

#endif
