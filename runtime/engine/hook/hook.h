#ifndef BAILIFF_ENGINE_HOOK_H
#define BAILIFF_ENGINE_HOOK_H

/*
 * Hooks: programs of the policy's that look at a step of the work before or after it. Policy says which are meant
 * (policy/hooks.h) and what their answers come to (policy/hook_answer.h); here they run, each as a sandboxed process of
 * its own with its facts, all that are meant for one step side by side.
 *
 *   hook.c         their processes and facts
 *   hook_group.c   all that are meant for one step
 *   hook_recovery.c
 *   hook_lookup.c   which hold, where the files of a workspace may have to be looked at first
 *   hook_input.c   what they read: the conventions' JSON
 *   hook_start.c   before a process: pre_tool_use, permission_request
 *   hook_after.c   after it: post_tool_use, post_tool_failure
 *   hook_session.c session_start
 *
 * Hooks of calls that a client does are in call/tool_hooks.c, those of turns in turn/turn_hooks.c.
 *
 * A start that waits for hooks is a process in state WAITING of which the log knows its session, its turn and the hooks
 * that run. Nothing of it was judged, so after a crash nothing of it may run: hook_recover ends it as denied, except
 * where an owner (a tool call, a task …) makes the start again, which asks the hooks again.
 */

#include "policy/hook_answer.h"
#include "runtime/engine/process/process.h"
#include "runtime/view/view_documents.h"

#include <jansson.h>

struct caller;
struct sandbox_setup;
struct transaction;
struct err;
struct policy_decision;
struct store_batch;

/* The conventions' tools are about one file each. What is about several is told of each, as if it were a call of its
 * own. */
struct hook_texts {
	char **text;
	size_t count;
	size_t beyond; /* there were so many that only the first was written; or 0 */
};
#define HOOK_RUNS_MAX 64u /* of one step, where it is about several files */

/* What hooks are asked about. Only for the call, but for what the group copies. */
struct hook_subject {
	enum hook_point point;
	uint32_t uid;
	struct requester by;
	const char *session_id, *thread_id, *turn_id;
	const char *task_id, *tool_call_id, *trace_id, *process_id; /* or NULL or "" */
	const char *cwd;                                            /* where they run */
	const char *input;                                          /* what they read … */
	const struct hook_texts *texts;                             /* … or several, and each hook runs for each */
	const char *const *env; /* what the command was given: a hook gets of it what it asks for */
	size_t nenv;
	const char *waits;      /* process, turn, stop: what goes on after them; NULL = nothing does */
	const char *owner_kind; /* of a process that waits, or NULL */
	bool owns_turn;
	bool reads_only; /* what they look at may write nothing: then a workspace's own hooks may not either */
	bool untrusting; /* mode untrusted, if only by what a place says: a workspace's own hooks do not run unless
			    trusted */
};

struct hook_run {
	struct hook_group *group;
	struct hook_reply *said;
	const char *input; /* one of the group's */
	char process_id[ID_ROOM];
	char input_ref[ID_ROOM];   /* its updatedInput, kept; "" = none */
	char context_ref[ID_ROOM]; /* its additionalContext */
	bool over;
	/* what is needed to start it */
	char *command, *profile;
	char *host; /* that it may reach, of one that is sent (hook_http.h); or NULL */
	char **arg, **env;
	size_t nargs, nenv;
	const char *shell;
	bool has_args, async;
	uint64_t timeout_ms;
	char *passed_over; /* it is not started, and this is why; or NULL */
};

/* All have answered, or nobody waits for the rest. The group is freed afterwards. */
typedef void (*hook_then_fn)(struct hook_group *group, void *ctx);
struct hook_group {
	TAILQ_ENTRY(hook_group) link;
	struct engine *engine;
	enum hook_point point;
	struct requester by;
	char session_id[ID_ROOM], thread_id[ID_ROOM], turn_id[ID_ROOM], task_id[ID_ROOM], tool_call_id[ID_ROOM],
		trace_id[ID_ROOM];
	char *cwd, **input;
	size_t ninputs;
	size_t beyond; /* it is about so many files that none of them looks; or 0 */
	struct hook_run *run;
	struct hook_reply *said; /* by the same index */
	size_t count, open;
	bool cancelled; /* what waits is to end: the answers count no more */
	bool settled;   /* `then` was called; only hooks nobody waits for are left */
	hook_then_fn then;
	void *ctx;
	void (*drop)(void *ctx); /* `then` will not be called */
};

/* State of the module hook/. */
struct hook_state {
	TAILQ_HEAD(, hook_group) groups; /* under way */
	struct strmap runs;              /* process id → struct hook_run */
};

/* hook.started of each goes into `b`, which the caller submits before hook_group_go. */
struct hook_group *hook_group_new(struct engine *g, const struct hook_subject *s, const struct policy_hook *const *list,
				  size_t n, struct store_batch *b);
void hook_group_free(struct hook_group *group);
bool hook_run_waits(const struct hook_run *r);    /* somebody does, for its answer */
void hook_group_select(struct hook_group *group); /* something of it is over: calls `then` after the last, frees it when
						   nothing runs */
/* May call `then` before it returns. */
void hook_group_run(struct hook_group *group, hook_then_fn then, void *ctx);
void hook_group_cancel(struct hook_group *group, const char *reason);
void hook_group_sum(const struct hook_group *group, struct hook_result *ret);
/* The answers change hands. */
void hook_group_take(struct hook_group *group, struct hook_reply **ret, size_t *ret_n);
void hook_said_free(struct hook_reply *said, size_t n);
const char *hook_group_input_ref(const struct hook_group *group, const struct hook_reply *said);
void hook_context_refs(const struct hook_group *group, struct jw *w); /* ["out_…",…] */
/* hook_lookup.c: the hooks that hold for this uid's work there. False: that is not known (yet); hooks_wait tells
 * (perhaps at once). */
bool hooks_for_workspace(struct engine *g, const char *cwd, const struct requester *by,
			 const struct policy_hooks **ret);
/* With e, only those that hold everywhere are known, and the place's own are not: what they might forbid must not
 * happen. */
typedef void (*hooks_known_fn)(struct engine *g, const struct policy_hooks *hooks, const struct err *e, void *ctx);
void hooks_wait(struct engine *g, const char *cwd, const struct requester *by, hooks_known_fn fn, void *ctx);
bool hooks_are_at(const struct policy_hooks *hooks, enum hook_point point);
void hook_failed_fact(struct engine *g, const struct hook_doc *d, const char *category, const char *message,
		      struct store_batch *b);
void hook_init(struct engine *g);
uint64_t hook_tick(struct engine *g, uint64_t now);
void hook_finish_due(struct engine *g);
void hook_recover(struct engine *g);
void hook_done(struct engine *g);

/* hook_input.c */
const char *hook_mode_name(int mode);
struct hook_tool {
	const char *names[6]; /* the first is what hooks are told */
	size_t nnames;
	json_t *input; /* tool_input */
	bool each;     /* it has several file_paths, and hooks are told of each */
};
/* A command (tool NULL), or a tool's call. */
void hook_tool_of_command(const char *command, const char *description, uint64_t wall_ms, struct hook_tool *ret);
void hook_tool_of_call(const char *tool, const json_t *arguments, const char *cwd, struct hook_tool *ret);
void hook_tool_done(struct hook_tool *t);
/* A tool's arguments from what a hook made of its input. New reference. */
json_t *hook_tool_arguments(const char *tool, const json_t *arguments, const char *cwd, const json_t *input);
bool hook_tool_is_same(const struct hook_tool *t, const json_t *input); /* as hooks were told */
/* The members that all have; the caller adds its own. New reference. */
json_t *hook_input(const struct hook_subject *s, int mode);
char *hook_input_text(json_t *input); /* and drops it */
void hook_texts_of(const struct hook_tool *t, json_t *input,
		   struct hook_texts *ret); /* with tool_input; and drops it */
void hook_texts_done(struct hook_texts *t);

/* hook_start.c */
struct hook_wait;
/* Of a start that has been before hooks: what they said, and where it belongs. */
struct start_hooked {
	const char *session_id, *thread_id, *turn_id;
	bool owns_turn;
	const struct hook_result *before;  /* pre_tool_use */
	const struct hook_result *instead; /* permission_request, or NULL: not asked yet */
	const char *updated_ref;           /* or NULL */
	struct hook_wait *wait;            /* that holds all this */
};
struct hook_evaluation {
	struct process *process;
	const struct start_request *request;
	const struct policy_hooks *hooks; /* that hold there, or NULL */
	const struct rules_query *use;
};
/* Are there hooks at this point for it? Then it has to wait (hook_hold). */
bool hook_wanted(const struct hook_evaluation *j, enum hook_point point);
void hook_list_json(const struct hook_evaluation *j, struct jw *w); /* those before it, for a dry run */
bool hook_would_be_skipped(const struct hook_evaluation *j);        /* one of them: then a person is asked */
void hook_defer_start(struct process *p, const struct start_request *r, const struct caller *c);
void hook_cancel(struct process *p, const char *reason);
void hook_wait_free(struct hook_wait *w);

/* hook_after.c: hooks that look at a process which has ended; NULL = there are none. The caller lets them go. */
struct hook_group *hook_after(struct process *p, const struct policy_hooks *hooks);
void hook_on_reply(struct hook_group *group);
/* A hook said `continue: false` after the step (subject of hook.completed). */
struct hook_stop_notice {
	const char *turn_id;
	const struct requester *by;
	const char *reason;
};

/* hook_session.c: session_start. The reaction to session.created (struct session_created_notice). */
void hook_on_session_created(struct engine *g, const void *subject);
/* Hooks at this point, of those that are known; none while the daemon stops. */
size_t hook_select(struct engine *g, const struct policy_hooks *hooks, enum hook_point point, const char *name,
		   const struct policy_hook *list[HOOKS_SELECTED_MAX]);
#define HOOK_NOWHERE "/tmp" /* where hooks run when the work has no directory of its own: the sandbox's private one */

#endif
