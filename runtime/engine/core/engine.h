#ifndef BAILIFF_ENGINE_ENGINE_H
#define BAILIFF_ENGINE_ENGINE_H

/*
 * The engine: the public interface to everything that bailiff does. It turns requests and reports from the host into
 * batches of events, and acts on the host only through `struct ports` (ports.h), so that tests can replace the host.
 *
 * Each request is answered exactly once, through its callback, either before the call returns or later. A reply that
 * reports a change is sent after the events of that change are committed. Results are complete JSON values.
 */

#include "sandbox/profile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct buf;
struct err;
struct json_t;
struct policy_profiles;
struct ports;
struct store;
struct engine;

enum engine_role { ROLE_OBSERVER, ROLE_AGENT, ROLE_OPERATOR };

/* The client whose request is being handled. Borrowed: code that needs it after the call uses caller_copy. */
struct caller {
	uint32_t uid, gid;
	int32_t pid;
	enum engine_role role;
	uint64_t connection;    /* 0 = none */
	int peer_fd;            /* the client's socket: passed to the spawner for its credentials */
	const char *request_id; /* the JSON-RPC id as text, or NULL */
	const char *trace_id;   /* of the caller's trace context, 32 hex digits, or NULL */
	const char *span_id;    /* likewise, 16 hex digits: the caller's span */
	const char *channel_id; /* the channel that the connection declared, or NULL */
	bool no_person;         /* the client declared that no person can answer questions through it */
	/* For idempotent requests: the result is stored under this key in the same commit. */
	const char *idem_key; /* or NULL */
	const char *idem_method;
	uint8_t idem_hash[32];
	/* The same request was under way when an earlier runtime ended, and may have had its effect. */
	bool repeated;
};

/* e == NULL: `json` is the result. Otherwise the request failed; `json`, if not NULL, has the members of the error's
 * `data` (`"stage":"cwd",…`).
 */
typedef void (*engine_reply_fn)(void *ctx, const struct err *e, const char *json, size_t len);

#define LIMIT_NONE UINT64_MAX
struct process_limits {
	uint64_t wall_ms, idle_ms, cpu_ms, open_files, file_bytes, output_bytes; /* LIMIT_NONE = none */
	/* Limits of the whole tree: the profile's, with the request's changes; 0 = none (tmp_bytes: the default). */
	struct plan_limits tree;
	uint64_t tmp_bytes;
};

/* A session sandbox is set up for this directory, whatever the working directory of a command in it is. */
struct sandbox_base {
	const char *cwd;    /* NULL = that of the request */
	const char *nested; /* the workspace's repositories when it was created, as in struct profile_paths */
	size_t nested_len;
	const char *git;
	size_t git_len;
};

/* The sandbox that a request asks for. */
struct sandbox_request {
	const char *profile;   /* NULL = the default */
	const char *cwd;       /* absolute; NULL = not given */
	const char *workspace; /* the caller's choice; NULL = find it from cwd */
	struct profile_change change;
	const char *own_program; /* a program of the runtime's own: visible read-only to every caller and in every
				    profile; or NULL */
	const struct sandbox_base *base; /* session sandboxes; else NULL */
	const char *group;               /* … one that starts of this session or thread share; else NULL */
	bool reads_only; /* only private directories are writable; overrides the profile and the request */
};

/* The approval of a start that waited for a person. */
struct start_approval {
	const char *action_id, *binding, *scope;
	const char *session_id, *thread_id, *turn_id;
	bool owns_turn;
	uint64_t connection; /* the process ends when this connection closes; 0 = none */
};

/* In the place of a sandbox's id: the one that commands of the session share (sandbox/sandbox_session.c) … */
#define SANDBOX_OF_SESSION "session"
/* … the same, but a subagent has its own for its thread … */
#define SANDBOX_OF_THREAD "thread"
/* … a single-use one. */
#define SANDBOX_OWN "own"
struct start_request {
	const char *const *argv; /* argc > 0, or command_line */
	size_t argc;
	const char *command_line;   /* run by /bin/sh -c */
	const char *const *env_set; /* "K=V", added to the base environment */
	size_t nenv_set;
	const char *const *env_unset; /* "K" */
	size_t nenv_unset;
	struct sandbox_request sandbox;
	bool stdin_pipe, stderr_merge, end_with_client;
	bool end_awaited;            /* the caller waits for the end: the reply to the start may come with it */
	bool keep_tree;              /* the command's descendants continue after its end … */
	bool end_tree;               /* … or not, also in the sandbox of the session, where they do by default */
	uint32_t tty_rows, tty_cols; /* size of the terminal; 0 = pipes */
	const struct port_publication *publish; /* before the command runs */
	size_t npublish;
	struct process_limits limits; /* fill with engine_default_limits first */
	const char *session_id, *thread_id, *turn_id, *task_id, *tool_call_id, *justification; /* or NULL */
	const char *trace_id;                                                                  /* NULL = the caller's */
	/* Set for starts that the engine makes itself (process_owner.h); 0 and NULL otherwise. */
	int owner;
	const char *owner_id, *run_id, *attempt_id, *step_id, *job_id, *job_item_id, *subagent_id;
	const char *process_id; /* NULL = generate one */
	char *ret_process_id;
	const char *sandbox_id; /* the session sandbox that it holds, or runs in (id or name); NULL = none */
	bool holder;            /* no command: the process holds a sandbox for members (engine/sandbox) */
	const char *within;     /* the process runs in the sandbox of this holder, by process id; NULL = in its own */
	struct plan_limits own_limits; /* … with these limits of its own, in addition to the sandbox's */
	const char *separate_reason;   /* why it does not run where the session's previous command ran; or NULL */
	const char *tool;              /* the process runs this tool; rules match its name … */
	const char *const *tool_paths; /* … these paths, spelled as in its arguments … */
	size_t ntool_paths;
	const char *tool_host;    /* … and this host; or NULL */
	const char *tool_command; /* … and a command line that an agent chose, evaluated like any other; or NULL */
	const char *tool_runner;  /* dry run: "client" if the client would run the tool itself; or NULL */
	const char *stdin_text;   /* the complete input, if known at the start; else NULL … */
	bool stdin_stays;         /* … its first line: the pipe stays open for write_stdin */
	const struct start_approval *approval; /* a person approved the start; NULL = none was asked */
	const struct start_hooked *hooked;     /* the verdict of its hooks (hook.h); NULL = they have not run */
};
static inline bool start_wants_session_sandbox(const struct start_request *r)
{
	return r->sandbox_id &&
	       (strcmp(r->sandbox_id, SANDBOX_OF_SESSION) == 0 || strcmp(r->sandbox_id, SANDBOX_OF_THREAD) == 0);
}

struct engine_options {
	struct store *store;
	const struct ports *ports;
	void *host; /* first argument of every port */
	struct process_limits defaults;
	uint8_t token_key[32];  /* from which resume tokens of channels are derived; not in the store's log */
	uint64_t stop_grace_ms; /* 0 = 5000 */
	uint64_t turn_grace_ms; /* how long a turn waits for another client after its own disconnected; 0 = no limit */
	uint32_t max_processes; /* 0 = 1024 */
	uint32_t max_processes_per_uid; /* does not limit root and owner_uid; 0 = half of max_processes */
	uint32_t inline_bytes;          /* 0 = 2048 */
	uint32_t max_tasks;             /* tasks whose commands run in parallel; 0 = 64 */
	uint64_t task_worker_ms;        /* how long a task's client may stay disconnected; 0 = no limit */
	uint64_t ask_ms;                /* timeout of an approval; 0 = none */
	uint64_t ask_alone_ms;          /* the same for a client with no_person; 0 = deny instead of asking */
	const char *tool_program;       /* runs the file tools inside sandboxes; NULL = none. Owned by the caller */
	const char *webhook_program;    /* sends hooks of type http; likewise */
	const char *model_program;      /* sends requests to model providers; likewise */
	const char *boot_id;
	uint32_t owner_uid;                 /* the daemon's uid; owns the system session */
	bool violations;                    /* the host reports exact violations (engine_on_violation) … */
	uint64_t violations_since_ns;       /* … since this boot time; 0 = since always */
	int (*sees_path)(const char *path); /* whether the daemon's user sees the path outside sandboxes: 1, 0, or −1 =
					       unknown; 2 = only a placeholder (sandbox/placeholder.h). NULL = always
					       unknown */
	const char *const *secrets;         /* bailiff's own paths: hidden in every sandbox. Owned by the caller */
	size_t nsecrets;
	const char *const *secret_folders; /* the directories that contain them */
	size_t nsecret_folders;
	const char (*publish_addresses)[48]; /* where ports may be published. Owned by the caller */
	size_t npublish_addresses;
};

struct engine *engine_new(const struct engine_options *o);
void engine_free(struct engine *engine);
void engine_default_limits(const struct engine *engine, struct process_limits *ret);
const char *engine_tool_program(const struct engine *engine); /* or NULL */

/*
 * Policy from the host's files. Each call replaces the previous value; the caller owns the object and keeps it valid
 * until it has set another.
 */
void engine_set_profiles(struct engine *engine, const struct policy_profiles *profiles);
struct policy_rules;
void engine_set_rules(struct engine *engine, const struct policy_rules *rules);
struct policy_hooks;
void engine_set_hooks(struct engine *engine, const struct policy_hooks *hooks);
/* Sets the reason (copied) why the policy files are unusable. Starts are rejected until it is cleared with NULL. */
void engine_set_policy_problem(struct engine *engine, const char *why);
/*
 * Reports the current hash of a layer's policy file ("" = no file). Records policy.changed if it differs from the last
 * recorded hash, which may be from an earlier run. `summary` is for people.
 */
void engine_policy_is(struct engine *engine, const char *layer, const char *hash, const char *summary);
/* The same for a file that applies to one uid only: a workspace's or a user's. */
void engine_policy_file_is(struct engine *engine, const char *layer, const char *file, uint32_t uid, const char *hash,
			   const char *summary);

/* ---- requests ---- */

/*
 * Before a request that sets up sandboxes at once: whether the folders that it names were searched since then. 1: one
 * is being searched; `go` is called once, and has to ask again. −1: one cannot be searched.
 */
int engine_await_folders(struct engine *engine, const struct json_t *params, const struct caller *c, uint64_t since_ns,
			 void (*go)(struct engine *engine, void *ctx), void *ctx, struct err *e);
/* Describes the sandbox that a process of this request would get: the result of get_sandbox. */
int engine_show_sandbox(struct engine *engine, const struct sandbox_request *r, const struct caller *c, struct buf *out,
			struct err *e);

void engine_start_process(struct engine *engine, const struct start_request *r, const struct caller *c,
			  engine_reply_fn fn, void *ctx);
void engine_write_stdin(struct engine *engine, const char *process_id, const void *p, size_t n, const struct caller *c,
			engine_reply_fn fn, void *ctx);
void engine_close_stdin(struct engine *engine, const char *process_id, const struct caller *c, engine_reply_fn fn,
			void *ctx);
/* After the pre_tool_use hooks for the tool write_stdin, which may deny or rewrite it; `eof`: as close_stdin. */
void engine_type_stdin(struct engine *engine, const char *process_id, const void *data, size_t n, bool eof,
		       const struct caller *c, engine_reply_fn fn, void *ctx);
/* Closes the reading end of stdout or stderr: from now on a process that writes there gets SIGPIPE. */
void engine_close_output(struct engine *engine, const char *process_id, int stream, const struct caller *c,
			 engine_reply_fn fn, void *ctx);
/*
 * The ref of a live process's stdout or stderr (valid until the next call), and how many bytes at its beginning are
 * kept whatever follows (UINT64_MAX: all). Only for the uid that the process belongs to.
 */
int engine_live_output(struct engine *engine, const char *process_id, int stream, const struct caller *c,
		       const char **ret_ref, uint64_t *ret_kept, struct err *e);
void engine_signal_process(struct engine *engine, const char *process_id, int sig, const struct caller *c,
			   engine_reply_fn fn, void *ctx);
/* The current size of the process's terminal; ERR_STATE if it has none. */
int engine_terminal_size(struct engine *engine, const char *process_id, const struct caller *c, uint32_t *ret_rows,
			 uint32_t *ret_cols, struct err *e);
void engine_resize_process(struct engine *engine, const char *process_id, uint32_t rows, uint32_t cols,
			   const struct caller *c, engine_reply_fn fn, void *ctx);
/* Replies when the whole tree has terminated. sig 0 = TERM, or HUP with a terminal; grace_ms LIMIT_NONE = the default.
 */
void engine_terminate_process(struct engine *engine, const char *process_id, const char *reason, int sig,
			      uint64_t grace_ms, const struct caller *c, engine_reply_fn fn, void *ctx);
/* timeout_ms LIMIT_NONE = no timeout. After a timeout the result has timedOut: true. */
void engine_wait_process(struct engine *engine, const char *process_id, uint64_t timeout_ms, const struct caller *c,
			 engine_reply_fn fn, void *ctx);
/* The same, but with keep_tree only until the command has ended. */
void engine_wait_command(struct engine *engine, const char *process_id, uint64_t timeout_ms, const struct caller *c,
			 engine_reply_fn fn, void *ctx);
/* The same, with the result of view_wait_brief. */
void engine_wait_briefly(struct engine *engine, const char *process_id, uint64_t timeout_ms, const struct caller *c,
			 engine_reply_fn fn, void *ctx);

struct session_rules_request;
struct session_request {
	const char *session_id, *title, *workspace_id, *scope_json;
	size_t scope_len;
	const struct session_rules_request *rules; /* NULL = none */
};
void engine_create_session(struct engine *engine, const struct session_request *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx);

struct json_t;
struct turn_request {
	const char *session_id, *thread_id, *turn_id;
	const struct json_t *input, *options, *metadata; /* already validated; NULL = not given */
	bool new_thread;                                 /* in a new thread of the session */
	bool loop;                                       /* text goes to a model; the loop drives the turn */
	const char *model;                               /* of the loop: its name, or NULL */
	const struct json_t *loop_limits;                /* likewise */
	const char *task_id, *run_id, *attempt_id;       /* the work that it does; only from the engine itself */
	const char *tool_call_id;                        /* the call that it answers; likewise */
	const char *system_prompt;                       /* of the loop, instead of the default; or NULL */
};
void engine_submit_turn(struct engine *engine, const struct turn_request *r, const struct caller *c, engine_reply_fn fn,
			void *ctx);
/* The caller drives the turn: renews its lease, or takes it over from a client that is gone. */
void engine_claim_turn(struct engine *engine, const char *turn_id, const struct caller *c, engine_reply_fn fn,
		       void *ctx);
struct turn_verdict {
	const char *turn_id;
	const char *outcome, *summary, *usage_json; /* complete_turn */
	const char *category, *message;             /* fail_turn */
	bool retryable;
};
void engine_complete_turn(struct engine *engine, const struct turn_verdict *v, const struct caller *c,
			  engine_reply_fn fn, void *ctx);
void engine_fail_turn(struct engine *engine, const struct turn_verdict *v, const struct caller *c, engine_reply_fn fn,
		      void *ctx);
/* Replies when all processes and tool calls of the turn have ended. */
struct turn_interrupt {
	const char *session_id, *thread_id, *turn_id, *reason;
	bool clear_queue, end_processes;
};
void engine_interrupt_turn(struct engine *engine, const struct turn_interrupt *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx);
void engine_remove_queued_turn(struct engine *engine, const char *turn_id, const char *reason, const struct caller *c,
			       engine_reply_fn fn, void *ctx);
void engine_promote_queued_turn(struct engine *engine, const char *turn_id, const struct caller *c, engine_reply_fn fn,
				void *ctx);
void engine_resume_thread(struct engine *engine, const char *session_id, const char *thread_id, const struct caller *c,
			  engine_reply_fn fn, void *ctx);
/* {"mode":…,"tools":[…]}, with what policy says about each tool in that directory and mode. */
struct inventory_query {
	const char *session_id, *cwd, *mode; /* or NULL */
};
void engine_tool_inventory(struct engine *engine, const struct inventory_query *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx);
/* The same at once: without the policy files of a workspace, and with the status unknown while others are being read.
 */
void engine_tool_inventory_now(struct engine *engine, const char *session_id, const struct caller *c, struct buf *out);
void engine_register_tools(struct engine *engine, const struct json_t *tools, const char *session_id,
			   const struct caller *c, engine_reply_fn fn, void *ctx);
struct tool_request {
	const char *turn_id, *tool, *call_id;
	const struct json_t *arguments;
	uint64_t timeout_ms; /* how long the reply waits for the end of the call; LIMIT_NONE = no timeout */
};
void engine_invoke_tool(struct engine *engine, const struct tool_request *r, const struct caller *c, engine_reply_fn fn,
			void *ctx);
struct tool_report {
	const char *call_id, *turn_id, *tool, *status, *preview, *category, *message, *advice;
	const struct json_t *arguments, *result, *artifacts;
	bool retryable;
};
void engine_report_tool_call(struct engine *engine, const struct tool_report *r, const struct caller *c,
			     engine_reply_fn fn, void *ctx);

struct action_request {
	const char *turn_id, *task_id, *action_type, *prompt, *schema_json, *decisions_json, *default_decision;
	uint64_t timeout_ms; /* 0 = no timeout */
};
void engine_request_action(struct engine *engine, const struct action_request *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx);
struct action_answer {
	const char *action_id, *decision, *scope, *note, *response_json, *source;
	/* scope "always": the rules (JSON) and the policy file they were written to; NULL until they are. */
	const char *kept_rules, *kept_file;
	unsigned kept_line;
};
void engine_respond_action(struct engine *engine, const struct action_answer *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx);
/* permission_request.c */
void engine_evaluate_permission(struct engine *engine, const struct start_request *r, const struct caller *c,
				engine_reply_fn fn, void *ctx);
void engine_show_policy(struct engine *engine, const char *session_id, const char *cwd, const struct caller *c,
			engine_reply_fn fn, void *ctx);
void engine_set_permission_mode(struct engine *engine, const char *session_id, const char *mode, const struct caller *c,
				engine_reply_fn fn, void *ctx);
void engine_reload_policy(struct engine *engine, const struct caller *c, engine_reply_fn fn, void *ctx);
/* The policy files were read; problem NULL = they are valid and in effect. token: of the last request (want_reload)
 * before they were opened; 0 = none. */
void engine_policy_loaded(struct engine *engine, uint32_t token, const char *problem);
struct session_change {
	const char *session_id, *title; /* NULL = unchanged, also for the members below */
	const char *scope_json, *pinned_json;
	const struct session_rules_request *rules;
	int archived; /* −1 = unchanged */
};
void engine_update_session(struct engine *engine, const struct session_change *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx);

/*
 * emit_events: events of families that the runtime does not own, committed all or none. If the type requires a thread
 * or turn and none is given, the session's system turn is used. Result {"sequence":last,"eventIds"?:…}.
 */
struct emit_event {
	const char *type;
	const char *ids[25]; /* by enum id_field; NULL = absent */
	const char *status, *status_reason, *phase;
	const char *payload; /* JSON object */
	size_t payload_len;
	const char *members; /* `"refs":{…}` or NULL */
	size_t members_len;
};
void engine_emit_events(struct engine *engine, const struct emit_event *ev, size_t n, const struct caller *c,
			engine_reply_fn fn, void *ctx);

/* A client connected. Keeps its socket as proof of identity, so that its work can start after it has disconnected. */
void engine_client_connected(struct engine *engine, const struct caller *c);
/* A client disconnected: ends the processes bound to the connection and fails its waits with ERR_UNAVAILABLE. */
void engine_client_disconnected(struct engine *engine, uint64_t connection);
/* The client waits for this process or subscribes to it; after a restart that binds the process to the connection. */
void engine_client_follows(struct engine *engine, const char *process_id, const struct caller *c);

/* `started` includes processes adopted from an earlier runtime, so started − ended is the number that runs. */
struct engine_counts {
	unsigned live, starting, ending, waiters;
	uint64_t started, ended, output_bytes;
};
void engine_counts_get(const struct engine *engine, struct engine_counts *ret);

#endif
