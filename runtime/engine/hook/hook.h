#ifndef BAILIFF_ENGINE_HOOK_H
#define BAILIFF_ENGINE_HOOK_H

/*
 * Hooks: programs named by the policy that inspect a step of the work before or after it. The policy selects the hooks
 * (policy/hooks.h) and combines their answers (policy/hook_answer.h). This module runs them: each hook is a sandboxed
 * process with its own events, and all hooks of one step run in parallel.
 *
 *   hook.c          processes and facts
 *   hook_group.c    all hooks of one step
 *   hook_recovery.c after a restart
 *   hook_lookup.c   which hooks apply, where a workspace's policy files may have to be read first
 *   hook_input.c    the JSON that hooks read
 *   hook_start.c    before a process: pre_tool_use, permission_request
 *   hook_after.c    after it: post_tool_use, post_tool_failure
 *   hook_session.c  session_start
 *   hook_stdin.c    before input of a running process: pre_tool_use
 *
 * Hooks of tool calls that a client executes are in call/tool_hooks.c, those of turns in turn/turn_hooks.c.
 *
 * A start that waits for hooks is a process in state WAITING. The log holds its session, its turn and the running
 * hooks. It has not been evaluated yet, so it must not run after a crash: hook_finish_due ends it as denied, unless an
 * owner (a tool call, a task …) repeats the start, which runs the hooks again.
 */

#include "policy/hook_answer.h"
#include "runtime/engine/process/process.h"
#include "runtime/view/view_documents.h"

#include <jansson.h>

struct caller;
struct sandbox_setup;
struct session_created_notice;
struct transaction;
struct err;
struct policy_decision;

/*
 * A tool of the convention works on one file. A call that works on several files is reported once per file, as if
 * each were a call of its own.
 */
struct hook_texts {
	char **text;
	size_t count;
	size_t beyond; /* number of files if there were too many and only the first was written; else 0 */
};
#define HOOK_RUNS_MAX 64u /* of one step that works on several files */
/* The step has ended, but its result is not read before the hooks have answered: they continue after a restart. */
#define HOOK_WAITS_RESULT "result"

/* The step that hooks inspect. Valid only during the call; the group copies what it needs. */
struct hook_subject {
	enum hook_point point;
	uint32_t uid;
	struct requester by;
	const char *session_id, *thread_id, *turn_id;
	const char *task_id, *tool_call_id, *trace_id, *process_id; /* or NULL or "" */
	const char *cwd;                                            /* their working directory */
	const char *input;                                          /* the JSON on stdin … */
	const struct hook_texts *texts; /* … or several; then each hook runs once per text */
	const char *const *env;         /* the command's environment; a hook gets the variables that it names */
	size_t nenv;
	const char *waits;      /* process, turn, stop, call, HOOK_WAITS_RESULT: what waits; NULL = nothing */
	const char *owner_kind; /* of a waiting process, or NULL */
	bool owns_turn;
	bool reads_only; /* the step cannot write; then a workspace's own hooks cannot either */
	/* Further hooks of the same step, which read another text: about the command that a tool starts. Their answers
	   come first. */
	const struct policy_hook *const *command_hooks;
	size_t ncommand_hooks;
	const char *command_input;
	bool untrusting; /* mode untrusted, also if only a policy file says so: untrusted workspace hooks do not run */
};

struct hook_run {
	struct hook_group *group;
	struct hook_reply *reply;
	const char *input; /* owned by the group */
	char process_id[ID_SIZE];
	char input_ref[ID_SIZE];   /* its stored updatedInput; "" = none */
	char context_ref[ID_SIZE]; /* its stored additionalContext */
	bool over;
	/* needed to start it */
	char *command, *profile;
	char *host; /* that an "http" hook may reach (hook_http.h); else NULL */
	char **arg, **env;
	size_t nargs, nenv;
	const char *shell;
	bool has_args, async;
	uint64_t timeout_ms;
	char *passed_over; /* why it is skipped, or NULL */
};

/*
 * All awaited hooks have answered. Called exactly once for each group that runs, unless `then` was cleared or the
 * engine shuts down first (`drop`). The group is freed after the call, once no asynchronous hook runs; the callback
 * must not free it.
 */
typedef void (*hook_then_fn)(struct hook_group *group, void *ctx);
struct hook_group {
	TAILQ_ENTRY(hook_group) link;
	struct engine *engine;
	enum hook_point point;
	struct requester by;
	char session_id[ID_SIZE], thread_id[ID_SIZE], turn_id[ID_SIZE], task_id[ID_SIZE], tool_call_id[ID_SIZE],
		trace_id[ID_SIZE];
	char process_id[ID_SIZE]; /* that the hooks of a resumed group are about */
	char *cwd, **input, *command_input;
	size_t ninputs;
	size_t beyond; /* number of files, if there are too many to run a hook for each; else 0 */
	struct hook_run *run;
	struct hook_reply *replies; /* same index as `run` */
	/* `open`: number of callers on the stack that still use the group; it is not freed before that is 0. */
	size_t count, open;
	bool cancelled; /* the waiting step is to end; ignore the answers */
	bool settled;   /* `then` was called; only asynchronous hooks are left */
	bool resumed;   /* made again after a restart, for the hooks that still run */
	hook_then_fn then;
	void *ctx;
	void (*drop)(void *ctx); /* called instead of `then` when the engine shuts down */
};

/* State of the module hook/. */
struct hook_state {
	TAILQ_HEAD(, hook_group) groups; /* running */
	struct strmap runs;              /* process id → struct hook_run */
};

/* Adds hook.started of each hook to `b`. The caller submits `b` before it calls hook_group_run. */
struct hook_group *hook_group_new(struct engine *engine, const struct hook_subject *s,
				  const struct policy_hook *const *list, size_t n, struct transaction *tx);
void hook_group_free(struct hook_group *group);
bool hook_run_waits(const struct hook_run *r); /* is its answer awaited? */
/* Has the hook printed that it continues in the background? Then its group no longer waits. */
void hook_note_async(struct process *p, struct hook_run *r);
/* Call after a hook has ended. Calls `then` after the last awaited hook, and frees the group when nothing runs. */
void hook_group_select(struct hook_group *group);
/* May call `then` before it returns. */
void hook_group_run(struct hook_group *group, hook_then_fn then, void *ctx);
/* Kills the awaited hooks. `then` is still called, with `cancelled` set; asynchronous hooks continue. */
void hook_group_cancel(struct hook_group *group, const char *reason);
void hook_group_sum(const struct hook_group *group, struct hook_result *ret);
/* Transfers ownership of the answers to the caller. */
void hook_group_take(struct hook_group *group, struct hook_reply **ret, size_t *ret_n);
void hook_replies_free(struct hook_reply *replies, size_t n);
const char *hook_group_input_ref(const struct hook_group *group, const struct hook_reply *reply);
void hook_context_refs(const struct hook_group *group, struct jw *w); /* ["out_…",…] */
/*
 * hook_lookup.c: the hooks that apply to this uid's work in `cwd`. False: not known (yet); hooks_wait reports them,
 * possibly before it returns.
 */
bool hooks_for_workspace(struct engine *engine, const char *cwd, const struct requester *by,
			 const struct policy_hooks **ret);
/*
 * With `e` set, `hooks` has only those that apply everywhere; the workspace's own could not be read. The caller must
 * not do anything that one of them might have denied.
 */
typedef void (*hooks_known_fn)(struct engine *engine, const struct policy_hooks *hooks, const struct err *e, void *ctx);
void hooks_wait(struct engine *engine, const char *cwd, const struct requester *by, hooks_known_fn fn, void *ctx);
bool hooks_are_at(const struct policy_hooks *hooks, enum hook_point point);
void hook_failed_fact(struct engine *engine, const struct hook_doc *d, const char *category, const char *message,
		      struct transaction *tx);
void hook_init(struct engine *engine);
uint64_t hook_tick(struct engine *engine, uint64_t now);
/* Recovery in two steps: the starts that waited for hooks end before processes are recovered, the hooks after that. */
void hook_finish_due(struct engine *engine);
void hook_recover(struct engine *engine);
void hook_done(struct engine *engine);

/* hook_input.c */
struct hook_tool {
	const char *names[6]; /* the first is the name that hooks read */
	size_t nnames;
	json_t *input; /* tool_input */
	bool each;     /* it has several file_paths; hooks run once per path */
};
/* For a command (tool NULL) or a tool call. */
void hook_tool_of_command(const char *command, const char *description, uint64_t wall_ms, struct hook_tool *ret);
void hook_tool_of_call(const char *tool, const json_t *arguments, const char *cwd, struct hook_tool *ret);
void hook_tool_done(struct hook_tool *t);
/* Converts a hook's updatedInput back to the tool's arguments. New reference. */
json_t *hook_tool_arguments(const char *tool, const json_t *arguments, const char *cwd, const json_t *input);
bool hook_tool_is_same(const struct hook_tool *t, const json_t *input); /* is `input` what the hooks have read? */
/* The work of a process, without what only its start has (environment, waiting step …). Borrows from the process. */
struct hook_subject hook_subject_of(const struct process *p, enum hook_point point);
/* The members common to all hook points; the caller adds its own. New reference. */
json_t *hook_input(const struct hook_subject *s, int mode);
char *hook_input_text(json_t *input); /* consumes `input` */
void hook_texts_of(const struct hook_tool *t, json_t *input,
		   struct hook_texts *ret); /* with tool_input; consumes `input` */
void hook_texts_done(struct hook_texts *t);

/* hook_start.c */
struct hook_wait;
/* The hooks' answers for a start that is repeated after they have answered, and the ids that it already has. */
struct start_hooked {
	const char *session_id, *thread_id, *turn_id;
	bool owns_turn;
	const struct hook_result *before;  /* pre_tool_use */
	const struct hook_result *instead; /* permission_request, or NULL: not run yet */
	const char *updated_ref;           /* or NULL */
	struct hook_wait *wait;            /* owns everything above */
};
struct hook_evaluation {
	struct process *process;
	const struct start_request *request;
	const struct policy_hooks *hooks; /* that apply in this workspace, or NULL */
	const struct rules_query *use;
	const struct rules_query *command_use; /* of the request's tool_command */
};
/* Are there hooks at this point for the start? Then it has to wait (hook_defer_start). */
bool hook_wanted(const struct hook_evaluation *j, enum hook_point point);
void hook_list_json(const struct hook_evaluation *j, struct jw *w); /* the pre_tool_use hooks, for a dry run */
bool hook_would_be_skipped(const struct hook_evaluation *j); /* would one of them be skipped? Then a person is asked */
/* Records the waiting start and runs the hooks that hook_wanted has selected. The start is repeated afterwards. */
void hook_defer_start(struct process *p, const struct start_request *r, const struct caller *c);
/* Ends the wait: kills the hooks; the start is dropped when they are gone. */
void hook_cancel(struct process *p, const char *reason);
void hook_wait_free(struct hook_wait *w);

/* hook_after.c: the hooks for a process that has ended; NULL = none. The caller runs the group. */
struct hook_group *hook_after(struct process *p, const struct policy_hooks *hooks);
void hook_on_reply(struct hook_group *group);
/* A hook returned `continue: false` after the step: the turn ends (row HOOK_STOP). */
struct hook_stop_notice {
	const char *turn_id;
	const struct requester *by;
	const char *reason;
};

/* hook_session.c: session_start hooks of a new session (row SESSION_CREATED). */
void hook_on_session_created(struct engine *engine, const struct session_created_notice *s);
/* Selects the hooks at this point; none while the daemon is stopping. */
size_t hook_select(struct engine *engine, const struct policy_hooks *hooks, enum hook_point point, const char *name,
		   const struct policy_hook *list[HOOKS_SELECTED_MAX]);
#define HOOK_NOWHERE "/tmp" /* working directory of hooks when the work has none: the sandbox's private /tmp */

#endif
