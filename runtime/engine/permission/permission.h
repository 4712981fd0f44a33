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

/* A person's answer, for a start that waited for it. */
struct start_approval {
	const char *action_id, *binding, *scope;
	const char *session_id, *thread_id, *turn_id;
	bool owns_turn;
	uint64_t connection; /* whose client it ends with; 0 = none */
};

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
void permission_done(struct engine *g);

#endif
