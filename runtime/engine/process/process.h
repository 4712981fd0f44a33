#ifndef BAILIFF_ENGINE_PROCESS_H
#define BAILIFF_ENGINE_PROCESS_H

/*
 * A live process, from the request until its end is committed. All state that must survive the runtime is in the log;
 * this struct can be rebuilt from the document of the process (process_recovery.c).
 *
 *   WAITING     for hooks or an approval (permission/)      → LAUNCHING, as another struct, or freed
 *   LAUNCHING   the spawner has the plan                    → COMMITTING, or ENDING if the launch failed
 *   COMMITTING  init waits at the gate, the facts commit    → EXECING once they are durable and the sandbox is ready
 *   EXECING     the gate is open                            → RUNNING when the command was executed
 *   RUNNING                                                 → DRAINING when only the init is left, or it is gone
 *   DRAINING    the remaining output is read                → ENDING at the end of both streams, or at the deadline
 *   ENDING      the terminal facts commit                   → freed
 *
 * process_state.c has the [state][event] table. Files: start/process_start.c (request → launch), process_start_facts.c,
 * process_output.c (process.output, output.spilled), process_violation.c, process_end.c (terminal facts),
 * process_request.c (requests of clients about a live process).
 *
 * The table of live processes (struct process_table) owns each struct. Only the batches of the start and of the end
 * keep a pointer to it: COMMITTING and ENDING last until their batch is decided. Other callbacks keep the id and look
 * the process up again with engine_process.
 *
 * Everything here runs on the loop thread. Times ending in _ns are CLOCK_BOOTTIME, those ending in _us real time.
 */

#include "runtime/base/buf.h"
#include "runtime/base/strmap.h"
#include "runtime/engine/core/engine.h"
#include "runtime/engine/core/ports.h"
#include "runtime/engine/core/reply.h"
#include "runtime/engine/process/process_owner.h"
#include "runtime/event/event.h"
#include "runtime/event/id.h"

#include <signal.h>
#include <sys/queue.h>

struct fact;
struct err;
struct hook_wait;
struct jval;
struct jw;
struct transaction;

enum process_state {
	PROCESS_WAITING,
	PROCESS_LAUNCHING,
	PROCESS_COMMITTING,
	PROCESS_EXECING,
	PROCESS_RUNNING,
	PROCESS_DRAINING,
	PROCESS_ENDING,
	PROCESS_STATE_COUNT
};

enum process_event {
	/* The spawner has cloned the init; its pid is known. READY may arrive before or after this. */
	PROCESS_EV_STARTED,
	PROCESS_EV_LAUNCH_FAILED,
	PROCESS_EV_READY,
	/* The start facts are durable. */
	PROCESS_EV_COMMITTED,
	PROCESS_EV_REFUSED, /* the store rejected the start facts */
	PROCESS_EV_EXECED,
	PROCESS_EV_EXITED, /* the init has reaped the last process of the tree and is about to exit */
	PROCESS_EV_GONE,   /* the init is dead */
	/* A stream has ended, the drain deadline has passed, or all reports of violations have arrived. */
	PROCESS_EV_STREAM_END,
	PROCESS_EV_END_COMMITTED,
	PROCESS_EVENT_COUNT
};

/* The reason why bailiff ends a process. */
enum process_end {
	PROCESS_END_NONE,
	PROCESS_END_USER,
	PROCESS_END_CLIENT_GONE,
	PROCESS_END_SHUTDOWN,
	PROCESS_END_WALL,
	PROCESS_END_IDLE,
};

struct process_stream {
	char ref[PLAN_KEY_MAX]; /* "" = the process has no such stream */
	uint64_t size;          /* bytes received */
	uint64_t cited;         /* bytes covered by process.output events; cited <= size */
	uint64_t summed;        /* bytes that the store has checksums of (once spilled) */
	/*
	 * `spilled`: stored in the spool, see process_output.c. `ended`: no more bytes follow, also if there is no such
	 * stream. `stalled`: the host cannot write to the spool; the bytes stay in the pipe and the command blocks.
	 */
	bool spilled, ended, stalled;
};

/* A client that waits for the end of the process. */
struct process_waiter {
	TAILQ_ENTRY(process_waiter) link;
	struct pending_reply reply;
	uint64_t deadline_ns; /* UINT64_MAX = none */
	bool terminate;       /* the request is terminate_process */
	bool command;         /* it waits for the command, not for the rest of its tree (keep_tree) */
	bool brief;           /* it gets view_wait_brief */
};

/* Input that is not fully written to the pipe yet. The reply is sent when all of it is. */
struct pending_input {
	TAILQ_ENTRY(pending_input) link;
	struct pending_reply reply;
	struct requester by;
	char *data;
	size_t len, done;
	bool eof;        /* end of input: close the pipe; for a terminal `data` is its EOF character */
	bool canonical;  /* the terminal's mode when the EOF character was sent */
	bool redacted;   /* typed while the terminal read a secret (canonical, no echo) */
	bool intended;   /* the intent of an idempotent write is durable */
	uint64_t offset; /* size of the terminal's output when it was typed */
};

/*
 * How to end a process that waits for hooks or an approval and has not started. Set by the module that makes it wait,
 * which is above this one.
 */
struct process_wait_ops {
	void (*cancel)(struct process *p, const char *reason, bool stopping); /* end was requested */
	void (*fail)(struct process *p, const struct err *e);                 /* allowed, but the start failed */
	void (*drop)(struct process *p, const char *reason);                  /* its owner no longer needs it */
	void (*free_hooks)(struct hook_wait *w);
};

struct process {
	struct engine *engine;
	char id[ID_TEXT_MAX];
	char session_id[ID_SIZE], thread_id[ID_SIZE], turn_id[ID_SIZE];
	char task_id[ID_SIZE], tool_call_id[ID_SIZE], trace_id[ID_SIZE], span_id[ID_SIZE]; /* "" = none */
	char run_id[ID_SIZE], attempt_id[ID_SIZE], step_id[ID_SIZE], job_id[ID_SIZE], job_item_id[ID_SIZE],
		subagent_id[ID_SIZE];
	enum owner_kind owner; /* OWNER_NONE = a client started it */
	char owner_id[ID_SIZE];
	uint64_t owner_told_ns;                      /* when its owner last recorded progress of its output */
	bool makes_session, makes_thread, owns_turn; /* its start facts create the session, the thread, the turn */
	uint32_t uid;
	enum process_state state;

	/* The parts of the request that facts and limits need. Strings are owned. */
	char *decision_json, *evaluated_json; /* of permission.evaluated */
	char *exec_overrides;    /* variables that change which programs run, for the approver; NULL = none */
	char *suggestions_json;  /* rules that would decide this for good; NULL = it is allowed */
	int answer, mode;        /* enum policy_answer, enum permission_mode */
	bool refuses_links;      /* it is a file tool, and rules about files were matched against its paths */
	char *reason;            /* of the decision */
	char binding[65];        /* hash of the request that an approval applies to; "" = not needed */
	char action_id[ID_SIZE]; /* the approval that it waits for, or that allowed it; "" = none */
	bool resumed;            /* it waited for an approval: the facts of its session are already recorded */
	bool hooked;             /* likewise for hooks; no event has named the process yet */
	const struct process_wait_ops *wait_ops;
	struct hook_wait *hooks; /* while it waits for hooks; or NULL */
	bool hooks_begin;        /* hooks run for the start of the session that it creates */
	bool hooks_after;        /* hooks run after its end */
	bool answered_by_hook;   /* a permission_request hook decided instead of a person */
	bool dry;                /* dry run: evaluate the request, start nothing */
	char *hooks_json;        /* dry run: the hooks that would run */
	struct err *failure;     /* why the start failed, until that is recorded */
	char *record;            /* its start in stored form (start_record.h), if it can be retried */
	char *command_json, *display, *command_line, *cwd, *justification;
	char *prompt;      /* the question to the approver, or NULL */
	char *command_ref; /* ref of the whole argv, if it is too long for an event */
	struct buf command_full;
	char *profile;                 /* name of the profile */
	char *home;                    /* the meaning of ~ in the sandbox, or NULL */
	char *sandbox_json;            /* sandboxProfile */
	enum err_reason launch_reason; /* of a launch that failed */
	char *refusal;                 /* "limits.cpus: …": the limit that cannot be enforced, and why; or NULL */
	bool writes;                   /* the sandbox has a write root in addition to its private directories */
	char plan_hash[65];
	uint32_t plan_layers, plan_kind; /* the requested layers, and the flags of the plan that determine support */
	bool stdin_pipe, stderr_merge, keep_tree, end_with_client;
	bool cwd_is_private;         /* the working directory is deleted with the sandbox */
	bool denied_shown;           /* rules deny to read more than the sandbox hides */
	bool holder;                 /* no command: it holds a sandbox for members */
	char within[ID_TEXT_MAX];    /* the holder in whose sandbox it runs; "" = in its own */
	char *sandbox_note;          /* why the sandbox of its session is a new one; NULL = it is not */
	char *separate_reason;       /* why it does not run where the session's previous command ran; or NULL */
	char sandbox_id[ID_SIZE];    /* the sandbox of that holder; "" = none */
	bool command_exited;         /* keep_tree: the command has exited; process.command_exited is submitted … */
	bool command_exit_committed; /* … and durable */
	uint32_t tty_rows, tty_cols; /* current size of its terminal; 0 = pipes */
	struct process_limits limits;
	struct requester by;
	bool of_operator; /* it has an operator's rights, or that is not known: agents write nothing to it */

	struct pending_reply start; /* fn NULL once answered */
	/* The start facts are durable; the init has run its steps; the command was executed. */
	bool committed, ready, execed, follow_grace;
	int32_t pid;
	uint64_t start_time, started_boot_ns, started_real_us;
	uint32_t attempt, layers;
	uint64_t bound_connection;   /* end_with_client: the connection that it ends with */
	uint64_t follow_deadline_ns; /* after a restart: ends unless a client follows it again by then */

	struct process_stream streams[STREAM_COUNT];
	/* Of the shell tool: the model was shown each stream up to here (call/process_report.h); else not known. */
	uint64_t reported[STREAM_COUNT];
	bool reported_known;
	uint64_t flush_at_ns, last_flush_ns, last_output_ns, drain_until_ns;
	bool drain_cut;
	bool output_given_up; /* its end was requested: output does not wait until there is space */

	TAILQ_HEAD(, process_waiter) waiters;
	TAILQ_HEAD(, pending_input) inputs;
	bool stdin_closed, input_busy;
	char *given_input; /* its complete input, until its start is recorded; NULL = input comes by write_stdin */
	bool typed;        /* its terminal got input since output was last cited */
	uint64_t typed_until_ns; /* until then the terminal is interactive: output is flushed more often */
	char last_typed;         /* the last byte written to the terminal; '\n' = the input line is empty */

	uint64_t sent_signals; /* bit n − 1 for signal n, by signal_process */
	struct requester signal_by;
	enum process_end end;
	struct requester end_by;
	char *end_reason;
	int end_signal;
	uint64_t kill_at_ns; /* next step of the escalation; UINT64_MAX = none */
	unsigned kill_step;

	/* The state of its end. `last` may be known before `gone`: the init sends it and then exits. */
	struct transaction *facts; /* start facts, until they are submitted; owned */
	bool gone, has_last;       /* the init is dead; `last` is its last message */
	bool over;                 /* its waiters have their replies; only hooks after its end may still run */
	bool leaving;              /* its end was derived from `last` while the init had not exited yet */
	bool end_committed;        /* the terminal event is durable, or could not be written */
	bool end_recorded;         /* … is durable */
	uint64_t duration_ms;      /* as the terminal event has it */
	struct status_msg last;
	uint32_t layer_mismatch; /* layers that were recorded and that the sandbox lacks */

	struct process_violations *violations; /* NULL = none so far */
	struct process_network *network;       /* traffic through the proxy; NULL = none so far */
	struct err *ports_failure;             /* why a port could not be published before the command ran; or NULL */
	bool ports_missing;                    /* recovered: they had not been published yet, so it has not run */
	struct process_ports *ports;           /* published and listening ports; NULL = none so far */
	struct buf autorun;                    /* the init's report on autorun files, validated; empty = none */
	char autorun_ref[ID_TEXT_MAX];         /* the ref of that report */
	uint64_t violations_before;            /* recorded by an earlier runtime */
	bool violations_missed;                /* some may have gone unreported: the count is a minimum */
	bool unwatched;                        /* started without exact reports of violations */
	bool paused;                           /* its task is paused: time limits do not run */
	uint64_t paused_ns, held_ns;           /* start of this pause; duration of the earlier ones */

	bool settling; /* reports of violations may still arrive */
	uint64_t settle_until_ns;
	struct terminate_intent *intent;           /* of terminate_process, until it is durable; freed by its commit */
	uint64_t started_sequence, ended_sequence; /* the last one that each commit had */
	bool denying;         /* ends with the resolution of its action, which is not durable yet */
	const char *ended_as; /* the status of a process that never ran; NULL otherwise */
};

#define PROCESS_DRAIN_MS 2000u          /* timeout for the rest of the output, after the tree has terminated */
#define PROCESS_FLUSH_MS 50u            /* minimum interval between process.output events … */
#define PROCESS_FLUSH_BYTES (16u << 20) /* … unless this much is not cited yet: the end waits until it is durable */
#define PROCESS_FLUSH_TYPED_MS 5u       /* … while the terminal is interactive */
#define PROCESS_TYPED_MS 250u           /* how long a terminal counts as interactive after input */
#define PROCESS_SETTLE_MS 10000u        /* timeout for reports of violations, after the tree has terminated */
#define PROCESS_FOLLOW_MS 30000u        /* how long a process with end_with_client waits for a client after a restart */

/* State of the module process/. */
struct process_table {
	struct strmap live;    /* id → struct process */
	struct strmap pending; /* process id → struct pending_start: waits for a policy or for its session's sandbox */
	size_t hooks;          /* number of live processes that are hooks */
	struct known_layers {  /* cache: the layers that this machine supports of those requested */
		uint32_t flags, asked, reached;
	} known_layers[8];
	size_t nknown_layers;
	struct port_expected expected; /* of the start request being handled */
	void (*stopped)(void *ctx);    /* shutdown: called once, when the last process has ended; or NULL */
	void *stopped_ctx;
};

void process_init(struct engine *engine);
void process_free_all(struct engine *engine);
void process_done(struct engine *engine);
uint64_t process_tick(struct engine *engine, uint64_t now);
void process_client_disconnected(struct engine *engine, uint64_t connection);
struct scope process_scope(const struct process *p);
/* The owner of a text that is stored for the process outside its events. Borrows from the process. */
struct ref_owner process_ref_owner(const struct process *p, const char *media_type);

static inline bool process_is_controlled_by(const struct process *p, const struct caller *c)
{
	return c->uid == 0 || c->uid == p->uid;
}

/* The live process if the caller may control it; ERR_NOT_FOUND, or ERR_STATE when it has ended. */
struct process *engine_live(struct engine *engine, const char *id, const struct caller *c, struct err *e);
struct process *engine_process(struct engine *engine, const char *id);
/*
 * Input from the turn or subagent that the process belongs to. Clients' requests (engine_write_stdin) may name any
 * process of their user.
 */
void process_write_own(struct engine *engine, const char *process_id, const void *p, size_t n, const struct caller *c,
		       engine_reply_fn fn, void *ctx);
void process_close_own(struct engine *engine, const char *process_id, const struct caller *c, engine_reply_fn fn,
		       void *ctx);

/* A copy-on-write run with changes of its own; those of a command in a session sandbox are the sandbox's. */
static inline bool process_has_changes(const struct process *p) { return p->plan_kind & PLAN_COW && !p->within[0]; }

static inline bool process_has_tty(const struct process *p) { return p->tty_rows != 0; }

/* The signal for a graceful end. Closing a terminal is a hangup, and interactive shells ignore SIGTERM. */
static inline int process_stop_signal(const struct process *p) { return process_has_tty(p) ? SIGHUP : SIGTERM; }

/* process_state.c */
/* Sends an event to the state machine, through the table of modules; process_handle_event is its entry. */
void process_event(struct process *p, enum process_event ev);
void process_handle_event(struct process *p, int event);
/*
 * Removes the process from the table and frees it. Records nothing. Fails queued input, but does not answer waiters:
 * callers do that before, or move them. During a shutdown, the last process completes it (engine_stop).
 */
void process_free(struct process *p);
void process_finished(struct process *p); /* its end is durable: frees it and notifies its owner and the modules */

/* Begins a start, or continues one that waited. Implemented by the module start/, above this one (module.h: start). */
void process_start(struct engine *engine, const struct start_request *r, const struct caller *c, engine_reply_fn fn,
		   void *ctx);
/* Creates a process in state WAITING, without an owner, and adds it to the table, which owns it. */
struct process *process_new(struct engine *engine, const char *id);
/* Answers all waiters with the error. */
void process_waiters_fail(struct process *p, const struct err *e);
struct json_value json_command_line(const struct process *p); /* command, commandLine …, for WRITTEN members */
/*
 * Submit the prepared start facts and take p->facts: with process.started and the stored reply, or as they are if there
 * was no clone. process_answer_start sends the reply when the command was executed; it does nothing the second time.
 */
void process_submit_start(struct process *p);
void process_submit_unstarted(struct process *p);
void process_answer_start(struct process *p);

/* process_session.c: each process belongs to a session, a thread and a turn, created if the request names none */
/* −1 with e if an id is unknown to the uid or the ids do not belong together. Adds no facts. */
int process_find_session(struct process *p, const struct start_request *r, struct err *e);
int process_session_facts(struct process *p, struct transaction *tx); /* for those that this process creates */
/* `category` NULL = the turn completed. `status` is the turn's: completed, failed, cancelled, timed_out, lost. */
int process_session_end_facts(struct process *p, struct transaction *tx, const char *status, const char *category,
			      const char *message);

/* process_autorun.c: the event, which stores the report first, and the member `autorun` of the terminal event */
void process_autorun_facts(struct process *p, struct transaction *tx);
void process_autorun_member(const struct process *p, struct jw *w);
void process_holder_member(const struct process *p, struct jw *w);

/* process_output.c */
struct json_value;
void process_output_due(struct process *p); /* output arrived: schedules the next event */
/* Adds events for output that is not cited yet; returns their number. */
int process_output_flush(struct process *p, struct transaction *tx);
void process_output_submit(struct process *p);
void process_outputs_json(const struct process *p, struct jw *w); /* {"stdout":{…},…} */
void process_stream_names(const struct process *p, struct jw *w); /* [{outputRef,stream,…}] */
struct json_value json_stream_names(const struct process *p);
const char *stream_name(int stream);
int stream_index(struct jval name); /* −1 = no such stream */
/* For a stream of `size` bytes: how many from its beginning are certain to be kept however long it becomes. */
uint64_t process_output_kept(const struct process *p, uint64_t size);
unsigned process_unspilled(const struct process *p); /* streams stored in the database, as bits 1u << stream */

/* process_violation.c */
/* Adds events for violations that are not recorded yet; returns their number. */
int process_violations_flush(struct process *p, struct transaction *tx);
uint64_t process_violations_tick(struct process *p, uint64_t now); /* returns the next deadline */
void process_violations_members(const struct process *p, struct jw *w);
/* The sandbox options that would have allowed the blocked operations, {"writeRoots":[…],…}; false = there are none. */
bool process_violations_open(const struct process *p, struct buf *out);
void process_violations_free(struct process *p);
bool process_violations_any(const struct process *p, const char *kind); /* there is one of this kind */
bool process_violations_guessed(const struct process *p);               /* some are hints */
/* Adds an event for a hint, which is not counted as a violation. */
void process_violation_hint(struct process *p, const struct violation *v, struct transaction *tx);
/* The reason for people; NULL if it cannot be derived from the sandbox's profile. */
const char *process_violation_reason(const struct process *p, const struct violation *v);
/* Whether a reason is that the path is hidden, by the profile, the request or the policy. */
bool process_violation_is_hidden(const char *reason);
/* That reason for a hidden path, according to the member sandboxProfile. */
const char *process_violation_hidden(struct jval made, const char *path);
/* The length of the longest path in the list that is equal to `path` or one of its parents; 0 = none. */
size_t process_path_depth(const char *path, struct jval list);

/* process_hint.c */
/* Adds hints from the output of a failed command. */
#define PROCESS_REASON_GIT_LEFT_OUT "the workspace's .git file names it, but it does not name the workspace"
void process_hint_facts(struct process *p, struct transaction *tx);

/* process_network.c */
void process_network_members(const struct process *p, struct jw *w);
void process_network_free(struct process *p);

/* process_end.c */
void process_waiters_expire(struct process *p, uint64_t now);
/* Ends the process although the intent of terminate_process is not durable yet. Returns when to call it again. */
uint64_t process_intent_tick(struct process *p, uint64_t now);
/* Ends the process once it is durable that the request with this key has begun. */
void process_intend_end(struct process *p, const struct pending_reply *reply, const struct requester *by, int sig,
			uint64_t grace_ms, const char *reason);
/* Submits the terminal facts; PROCESS_EV_END_COMMITTED follows. The batch is not rejected when space is short. */
void process_submit_end(struct process *p);
void process_truncated_facts(struct process *p, struct transaction *tx); /* also adds checksums of the kept tail */
void process_answer_waiters(struct process *p);
/*
 * Begins to end a process: `sig`, then after the grace period the kill (process_escalate). Returns immediately. A start
 * that still waits is cancelled instead, which may free the process. No effect once the tree has ended. `by` NULL = the
 * daemon. `reason` is copied; the first reason of several is the one that is recorded.
 */
void process_enforce_end(struct process *p, enum process_end why, const struct requester *by, int sig,
			 uint64_t grace_ms, const char *reason);
void process_set_paused(struct process *p, bool hold); /* SIGSTOP or SIGCONT to the command's process group */
/* The next step of an end that was requested. Called again by the tick until the process has left RUNNING. */
void process_escalate(struct process *p, uint64_t now);

/* process_input.c */
struct scope process_input_scope(const struct process *p, const char *request_id);
void process_input_fact(struct process *p, struct transaction *tx, const struct pending_input *in);
/* Records the input that was given with the start, and its end. */
void process_given_facts(struct process *p, struct transaction *tx);

/* process_request.c: writes queued input as far as the pipe accepts it; fails all that is queued */
void process_inputs_pump(struct process *p);
void process_inputs_fail(struct process *p, const char *why);

#endif
