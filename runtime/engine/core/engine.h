#ifndef BAILIFF_ENGINE_ENGINE_H
#define BAILIFF_ENGINE_ENGINE_H

/*
 * The engine: what bailiff does, in terms of facts. It turns requests and what happens on the host into event
 * batches, and acts on the host only through `struct ports` (ports.h), so that it also runs against a fake one.
 *
 * Requests are answered by a callback, at once or later, exactly once; a reply that says something happened is
 * given after its events are committed. Results are complete JSON values.
 */

#include "sandbox/profile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct policy_profiles;
struct ports;
struct store;
struct engine;

enum engine_role { ROLE_OBSERVER, ROLE_AGENT, ROLE_OPERATOR };

/* Who asks. Copied where it must outlive the call. */
struct caller {
	uint32_t uid, gid;
	int32_t pid;
	enum engine_role role;
	uint64_t connection;    /* 0 = none */
	int peer_fd;            /* the client's socket: passed to the spawner for its credentials */
	const char *request_id; /* the JSON-RPC id as text, or NULL */
	const char *trace_id;   /* of the caller's trace context, 32 hex digits, or NULL */
	const char *span_id;    /* likewise, 16 hex digits: the caller's span */
	const char *channel_id; /* the channel that the connection said it belongs to, or NULL */
	bool no_person;         /* it said that nobody can be asked through it */
	/* For idempotent requests: the result is remembered under this key in the same commit. */
	const char *idem_key; /* or NULL */
	const char *idem_method;
	uint8_t idem_hash[32];
};

/* e == NULL: result is `json`. Otherwise an error; `json`, if given, is the error's `data` members (`"stage":"cwd",…`).
 */
typedef void (*engine_reply_fn)(void *ctx, const struct err *e, const char *json, size_t len);

#define LIMIT_NONE UINT64_MAX
struct process_limits {
	uint64_t wall_ms, idle_ms, cpu_ms, open_files, file_bytes, output_bytes; /* LIMIT_NONE = none */
	/* Of the whole tree, from the profile as the request changed it; 0 = none (tmp_bytes: the default). */
	struct plan_limits tree;
	uint64_t tmp_bytes;
};

/* Which sandbox is meant. */
struct sandbox_request {
	const char *profile;   /* NULL = the default */
	const char *cwd;       /* absolute; NULL = not given */
	const char *workspace; /* what the caller takes for it; NULL = look */
	struct profile_change change;
	const char *own_program; /* of the runtime's own: shown read-only, whoever asks and whatever the profile says;
				    or NULL */
	bool reads_only; /* nothing but its private folders can be written, whatever the profile says and was asked for
			  */
};

/* A person's answer, for a start that waited for it. */
struct start_approval {
	const char *action_id, *binding, *scope;
	const char *session_id, *thread_id, *turn_id;
	bool owns_turn;
	uint64_t connection; /* whose client it ends with; 0 = none */
};

struct start_request {
	const char *const *argv; /* argc > 0, or command_line */
	size_t argc;
	const char *command_line;   /* run by /bin/sh -c */
	const char *const *env_set; /* "K=V", added to the base environment */
	size_t nenv_set;
	const char *const *env_unset; /* "K" */
	size_t nenv_unset;
	struct sandbox_request sandbox;
	bool stdin_pipe, stderr_merge, keep_tree, end_with_client;
	uint32_t tty_rows, tty_cols;  /* of its terminal; 0 = pipes */
	struct process_limits limits; /* fill with engine_default_limits first */
	const char *session_id, *thread_id, *turn_id, *task_id, *tool_call_id, *justification; /* or NULL */
	const char *trace_id;                                                                  /* NULL = the caller's */
	/* Of starts that the engine makes itself (process_owner.h); 0 and NULL otherwise. */
	int owner;
	const char *owner_id, *run_id, *attempt_id, *step_id, *job_id, *job_item_id, *subagent_id;
	const char *process_id; /* NULL = made */
	char *ret_process_id;
	const char *tool;              /* a tool is what runs: rules speak of that … */
	const char *const *tool_paths; /* … and of these, as the tool was given them */
	size_t ntool_paths;
	const char *tool_host;                 /* … and of this, or NULL */
	const char *tool_runner;               /* who would do it instead of us, in a dry run; or NULL */
	const char *stdin_text;                /* all of its input, when it is known from the start; NULL = it is not */
	const struct start_approval *approval; /* it waited for a person, who allowed it */
	const struct start_hooked *hooked;     /* it waited for hooks, which have answered (hook.h) */
};

struct engine_options {
	struct store *store;
	const struct ports *ports;
	void *host; /* first argument of every port */
	struct process_limits defaults;
	uint64_t stop_grace_ms; /* 0 = 5000 */
	uint64_t turn_grace_ms; /* how long a turn waits for another client when the one that drives it has gone; 0 =
				   for ever */
	uint32_t max_processes; /* 0 = 1024 */
	uint32_t max_processes_per_uid; /* of them, but for root and owner_uid; 0 = half */
	uint32_t inline_bytes;          /* 0 = 2048 */
	uint32_t max_tasks;             /* whose commands run at once; 0 = 64 */
	uint64_t task_worker_ms;        /* how long a client that works on a task may be gone; 0 = for ever */
	uint64_t ask_ms;                /* how long a question about permission waits; 0 = for ever */
	uint64_t ask_alone_ms; /* the same where the client says that nobody can be asked; 0 = it is refused at once */
	const char
		*tool_program; /* runs the file tools inside of sandboxes; NULL = there is none. Kept by the caller */
	const char *webhook_program; /* sends hooks of type http, likewise */
	const char *boot_id;
	uint32_t owner_uid;                 /* of the system session; the daemon's own */
	bool violations;                    /* what the kernel refuses will be told (engine_on_violation) */
	uint64_t violations_since_ns;       /* … and has been since then (boot time); 0 = always */
	int (*sees_path)(const char *path); /* whether the daemon's user sees it outside sandboxes: 1, 0, or −1 = not
					       known. NULL = never known */
	const char *const *secrets; /* bailiff's own files and folders: never visible inside. Kept by the caller */
	size_t nsecrets;
	const char *const *secret_folders; /* that hold them */
	size_t nsecret_folders;
};

struct engine *engine_new(const struct engine_options *o);
void engine_free(struct engine *g);
void engine_default_limits(const struct engine *g, struct process_limits *ret);
const char *engine_tool_program(const struct engine *g); /* or NULL */

/* The policy files' profiles, from now on; kept by the caller, until there are others. */
void engine_set_profiles(struct engine *g, const struct policy_profiles *profiles);
struct policy_rules;
void engine_set_rules(struct engine *g, const struct policy_rules *rules);
struct policy_hooks;
void engine_set_hooks(struct engine *g, const struct policy_hooks *hooks);
/* The policy cannot be read, and this is why (copied): nothing is started until it can (NULL). */
void engine_set_policy_problem(struct engine *g, const char *why);
/*
 * This layer's policy file has this hash now ("" = there is none): policy.changed if that is news, also since an
 * earlier run. `summary` for people.
 */
void engine_policy_is(struct engine *g, const char *layer, const char *hash, const char *summary);
/* The same of a file that is not there for everybody: a workspace's, or a peer's. */
void engine_policy_file_is(struct engine *g, const char *layer, const char *file, uint32_t uid, const char *hash,
			   const char *summary);

/* ---- requests ---- */

/* What a process of this request would be confined to: get_sandbox's answer. */
int engine_show_sandbox(struct engine *g, const struct sandbox_request *r, const struct caller *c, struct buf *out,
			struct err *e);

void engine_start_process(struct engine *g, const struct start_request *r, const struct caller *c, engine_reply_fn fn,
			  void *ctx);
void engine_write_stdin(struct engine *g, const char *process_id, const void *p, size_t n, const struct caller *c,
			engine_reply_fn fn, void *ctx);
void engine_close_stdin(struct engine *g, const char *process_id, const struct caller *c, engine_reply_fn fn,
			void *ctx);
/* Nobody reads its stdout or stderr any more: as at the end of a pipe, whoever writes there gets SIGPIPE. */
void engine_close_output(struct engine *g, const char *process_id, int stream, const struct caller *c,
			 engine_reply_fn fn, void *ctx);
void engine_signal_process(struct engine *g, const char *process_id, int sig, const struct caller *c,
			   engine_reply_fn fn, void *ctx);
/* Of its terminal; ERR_STATE when it has none. */
int engine_terminal_size(struct engine *g, const char *process_id, const struct caller *c, uint32_t *ret_rows,
			 uint32_t *ret_cols, struct err *e);
void engine_resize_process(struct engine *g, const char *process_id, uint32_t rows, uint32_t cols,
			   const struct caller *c, engine_reply_fn fn, void *ctx);
/* Answers when the whole tree is proved gone. sig 0 = TERM, or HUP with a terminal; grace_ms LIMIT_NONE = the default.
 */
void engine_terminate_process(struct engine *g, const char *process_id, const char *reason, int sig, uint64_t grace_ms,
			      const struct caller *c, engine_reply_fn fn, void *ctx);
/* timeout_ms LIMIT_NONE = for ever. The result has timedOut: true when the time was over first. */
void engine_wait_process(struct engine *g, const char *process_id, uint64_t timeout_ms, const struct caller *c,
			 engine_reply_fn fn, void *ctx);

struct session_rules_request;
struct session_request {
	const char *session_id, *title, *workspace_id, *scope_json;
	size_t scope_len;
	const struct session_rules_request *rules; /* NULL = none */
};
void engine_create_session(struct engine *g, const struct session_request *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx);

struct json_t;
struct turn_request {
	const char *session_id, *thread_id, *turn_id;
	const struct json_t *input, *options, *metadata; /* members were checked; NULL = not given */
};
void engine_submit_turn(struct engine *g, const struct turn_request *r, const struct caller *c, engine_reply_fn fn,
			void *ctx);
struct turn_verdict {
	const char *turn_id;
	const char *outcome, *summary, *usage_json; /* complete_turn */
	const char *category, *message;             /* fail_turn */
	bool retryable;
};
void engine_complete_turn(struct engine *g, const struct turn_verdict *v, const struct caller *c, engine_reply_fn fn,
			  void *ctx);
void engine_fail_turn(struct engine *g, const struct turn_verdict *v, const struct caller *c, engine_reply_fn fn,
		      void *ctx);
/* Answers when everything of the turn has ended. */
struct turn_interrupt {
	const char *session_id, *thread_id, *turn_id, *reason;
	bool clear_queue;
};
void engine_interrupt_turn(struct engine *g, const struct turn_interrupt *r, const struct caller *c, engine_reply_fn fn,
			   void *ctx);
void engine_remove_queued_turn(struct engine *g, const char *turn_id, const char *reason, const struct caller *c,
			       engine_reply_fn fn, void *ctx);
void engine_promote_queued_turn(struct engine *g, const char *turn_id, const struct caller *c, engine_reply_fn fn,
				void *ctx);
void engine_resume_thread(struct engine *g, const char *session_id, const char *thread_id, const struct caller *c,
			  engine_reply_fn fn, void *ctx);
void engine_tool_inventory(struct engine *g, const char *session_id, const struct caller *c,
			   struct buf *out); /* {"tools":[…]} */
void engine_register_tools(struct engine *g, const struct json_t *tools, const char *session_id, const struct caller *c,
			   engine_reply_fn fn, void *ctx);
struct tool_request {
	const char *turn_id, *tool, *call_id;
	const struct json_t *arguments;
	uint64_t timeout_ms; /* how long to wait for its end; LIMIT_NONE = as long as it takes */
};
void engine_invoke_tool(struct engine *g, const struct tool_request *r, const struct caller *c, engine_reply_fn fn,
			void *ctx);
struct tool_report {
	const char *call_id, *turn_id, *tool, *status, *preview, *category, *message, *advice;
	const struct json_t *arguments, *result, *artifacts;
	bool retryable;
};
void engine_report_tool_call(struct engine *g, const struct tool_report *r, const struct caller *c, engine_reply_fn fn,
			     void *ctx);

struct action_request {
	const char *turn_id, *task_id, *action_type, *prompt, *schema_json, *decisions_json, *default_decision;
	uint64_t timeout_ms; /* 0 = for ever */
};
void engine_request_action(struct engine *g, const struct action_request *r, const struct caller *c, engine_reply_fn fn,
			   void *ctx);
struct action_answer {
	const char *action_id, *decision, *scope, *note, *response_json, *source;
	const char *kept_rules, *kept_file; /* of an answer that lasts, once it is a rule (permission_always.c) */
	unsigned kept_line;
};
void engine_respond_action(struct engine *g, const struct action_answer *r, const struct caller *c, engine_reply_fn fn,
			   void *ctx);
/* permission_request.c */
void engine_evaluate_permission(struct engine *g, const struct start_request *r, const struct caller *c,
				engine_reply_fn fn, void *ctx);
void engine_show_policy(struct engine *g, const char *session_id, const char *cwd, const struct caller *c,
			engine_reply_fn fn, void *ctx);
void engine_set_permission_mode(struct engine *g, const char *session_id, const char *mode, const struct caller *c,
				engine_reply_fn fn, void *ctx);
void engine_reload_policy(struct engine *g, const struct caller *c, engine_reply_fn fn, void *ctx);
void engine_policy_loaded(struct engine *g, const char *problem); /* the files were read; problem NULL = and taken */
struct session_change {
	const char *session_id, *title; /* NULL = as it is */
	const char *scope_json, *pinned_json;
	const struct session_rules_request *rules;
	int archived; /* −1 = as it is */
};
void engine_update_session(struct engine *g, const struct session_change *r, const struct caller *c, engine_reply_fn fn,
			   void *ctx);

/*
 * emit_events: facts of families that the runtime does not own, written together or not at all. Ids not given for
 * thread or turn, where the type needs them, are the session's system turn's. Result {"sequence":last,"eventIds"?:…}.
 */
struct emit_event {
	const char *type;
	const char *ids[24]; /* by enum id_field; NULL = absent */
	const char *status, *status_reason, *phase;
	const char *payload; /* JSON object */
	size_t payload_len;
	const char *members; /* `"refs":{…}` or NULL */
	size_t members_len;
};
void engine_emit_events(struct engine *g, const struct emit_event *ev, size_t n, const struct caller *c,
			engine_reply_fn fn, void *ctx);

/* A client is there; work that it leaves behind can then be started in its name. */
void engine_client_connected(struct engine *g, const struct caller *c);
/* A client's connection ended: processes bound to it are ended, its waits are answered (ERR_UNAVAILABLE). */
void engine_client_disconnected(struct engine *g, uint64_t connection);
/* A wait or subscription for this process binds it to that connection again after a restart. */
void engine_client_follows(struct engine *g, const char *process_id, const struct caller *c);

/* `started` counts what an earlier runtime left running, too: started − ended is what runs. */
struct engine_counts {
	unsigned live, starting, ending, waiters;
	uint64_t started, ended, output_bytes;
};
void engine_counts_get(const struct engine *g, struct engine_counts *ret);

#endif
