#ifndef BAILIFF_ENGINE_PROCESS_H
#define BAILIFF_ENGINE_PROCESS_H

/*
 * A live process, as the engine sees it: from the request until its end is committed. Everything about it that must
 * outlive the runtime is in the log; what is here can be made again from process.started (recovery.c).
 *
 *   WAITING     for a person who may allow it (permission.c) → LAUNCHING, as another struct, or freed
 *   LAUNCHING   the spawner was asked                       → COMMITTING, or ENDING when it could not be started
 *   COMMITTING  the init waits at the gate, the facts commit → EXECING once they are durable and the sandbox is ready
 *   EXECING     the gate is open                            → RUNNING when the command was executed
 *   RUNNING                                                 → DRAINING when nothing but the init is left, or it is gone
 *   DRAINING    the rest of the output is taken             → ENDING at the end of both streams, or at the deadline
 *   ENDING      the terminal facts commit                   → freed
 *
 * process_state.c holds the [state][event] table. Files: process_start.c (request → launch → start facts),
 * process_output.c (process.output, spilled), process_violation.c, process_end.c (terminal facts), process_request.c
 * (what clients ask of one).
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
struct store_batch;

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
	PROCESS_EV_STARTED,
	PROCESS_EV_LAUNCH_FAILED,
	PROCESS_EV_READY,
	PROCESS_EV_COMMITTED,
	PROCESS_EV_REFUSED, /* the store did not take the start facts */
	PROCESS_EV_EXECED,
	PROCESS_EV_EXITED, /* the init has reaped the last of the tree and leaves */
	PROCESS_EV_GONE,
	PROCESS_EV_STREAM_END,
	PROCESS_EV_END_COMMITTED,
	PROCESS_EVENT_COUNT
};

/* Why bailiff itself ends a process. */
enum process_end {
	PROCESS_END_NONE,
	PROCESS_END_USER,
	PROCESS_END_CLIENT_GONE,
	PROCESS_END_SHUTDOWN,
	PROCESS_END_WALL,
	PROCESS_END_IDLE,
};

struct process_stream {
	char ref[PLAN_KEY_MAX]; /* "" = there is no such stream */
	uint64_t size;          /* bytes that came */
	uint64_t cited;         /* of which process.output events speak */
	uint64_t summed;        /* of which the store has checksums (once spilled) */
	bool spilled, ended, stalled;
};

/* A client that waits for the end. */
struct process_waiter {
	TAILQ_ENTRY(process_waiter) link;
	struct pending_reply reply;
	uint64_t deadline_ns; /* UINT64_MAX = none */
	bool terminate;       /* it asked for the end */
};

/* Input that the pipe has not taken yet; answered when all of it was. */
struct pending_input {
	TAILQ_ENTRY(pending_input) link;
	struct pending_reply reply;
	struct requester by;
	char *data;
	size_t len, done;
	bool eof;        /* close after this; for a terminal `data` is what says so */
	bool canonical;  /* the terminal's mode when that was sent */
	bool redacted;   /* typed while the terminal asked for a secret */
	bool intended;   /* the intent of an idempotent write is durable */
	uint64_t offset; /* of the terminal's output when it was typed */
};

/*
 * How a process that waits, for hooks or a person, is ended before it starts. Whoever lets it wait says so: the modules
 * are above this one.
 */
struct process_wait_ops {
	void (*cancel)(struct process *p, const char *reason, bool stopping); /* it is to end */
	void (*fail)(struct process *p, const struct err *e);                 /* it was allowed, and cannot start */
	void (*drop)(struct process *p, const char *reason);                  /* it is no longer wanted */
	void (*free_hooks)(struct hook_wait *w);
};

struct process {
	struct engine *engine;
	char id[ID_TEXT_MAX];
	char session_id[ID_ROOM], thread_id[ID_ROOM], turn_id[ID_ROOM];
	char task_id[ID_ROOM], tool_call_id[ID_ROOM], trace_id[ID_ROOM], span_id[ID_ROOM]; /* "" = none */
	char run_id[ID_ROOM], attempt_id[ID_ROOM], step_id[ID_ROOM], job_id[ID_ROOM], job_item_id[ID_ROOM],
		subagent_id[ID_ROOM];
	enum owner_kind owner; /* for whom it runs; OWNER_NONE = for a client */
	char owner_id[ID_ROOM];
	uint64_t owner_told_ns; /* when its owner last wrote of its output */
	bool makes_session, makes_thread, owns_turn;
	uint32_t uid;
	enum process_state state;

	/* the request, as far as facts and limits need it */
	char *decision_json, *judged_json; /* permission.evaluated's */
	char *exec_overrides; /* variables of the request's that change what runs, to be shown; NULL = there are none */
	char *suggestions_json;  /* which rules would answer for good; NULL = it is allowed */
	int answer, mode;        /* enum policy_answer, enum permission_mode */
	char *reason;            /* the decision's */
	char binding[65];        /* what an approval is bound to */
	char action_id[ID_ROOM]; /* the question it waits for, or was allowed by; "" = none */
	bool resumed;            /* it was waiting: its session's facts are written */
	bool hooked;             /* likewise, but for hooks: nobody was told of it */
	const struct process_wait_ops *wait_ops;
	struct hook_wait *hooks; /* while it waits for hooks; or NULL */
	bool hooks_begin;        /* there are some for the session that it makes … */
	bool hooks_after;        /* … and that look at how it ended */
	bool answered_by_hook;   /* a permission_request hook was asked instead of a person */
	bool dry;                /* nothing of it happens: it is only judged … */
	char *hooks_json;        /* … and these hooks would look at it */
	struct err *failure;     /* why it did not come to a start, while that is written */
	char *record;            /* its start, if it may be made again (start_record.h) */
	char *command_json, *display, *command_line, *cwd, *justification;
	char *prompt;      /* what a person is asked, if one is */
	char *command_ref; /* the whole argv behind a ref, when it is too long for an event */
	struct buf command_full;
	char *profile;      /* its name */
	char *home;         /* what ~ stands for inside, or NULL */
	char *sandbox_json; /* sandboxProfile */
	char *refusal;      /* "limits.cpus: …": which limit cannot be enforced, and why; or NULL */
	bool writes;        /* something besides its private folders */
	char plan_hash[65];
	uint32_t plan_layers, plan_kind; /* what is asked of the sandbox, and those flags that decide what can be had */
	bool stdin_pipe, stderr_merge, keep_tree, end_with_client;
	bool command_exited;         /* with keep_tree: the command has ended, and process.command_exited says so */
	uint32_t tty_rows, tty_cols; /* of its terminal, as it is now; 0 = pipes */
	struct process_limits limits;
	struct requester by;

	struct pending_reply start; /* fn NULL once answered */
	bool committed, ready, execed, follow_grace;
	int32_t pid;
	uint64_t start_time, started_boot_ns, started_real_us;
	uint32_t attempt, layers;
	uint64_t bound_connection;   /* end_with_client: whose */
	uint64_t follow_deadline_ns; /* after a restart: a client must follow it again until then */

	struct process_stream streams[STREAM_COUNT];
	uint64_t flush_at_ns, last_flush_ns, last_output_ns, drain_until_ns;
	bool drain_cut;

	TAILQ_HEAD(, process_waiter) waiters;
	TAILQ_HEAD(, pending_input) inputs;
	bool stdin_closed, input_busy;
	char *given_input; /* all that it has to read, until its start is written down; NULL = that is not known */
	bool typed;        /* into its terminal, since output was last cited */
	uint64_t typed_until_ns; /* somebody sits before it */
	char last_typed;         /* the last byte that the terminal took; '\n' = none */

	uint64_t sent_signals; /* bit n − 1 for signal n, by signal_process */
	struct requester signal_by;
	enum process_end end;
	struct requester end_by;
	char *end_reason;
	int end_signal;
	uint64_t kill_at_ns; /* next step of the escalation; UINT64_MAX = none */
	unsigned kill_step;

	struct store_batch *facts; /* of its start, until they are submitted */
	bool gone, has_last;       /* the init is dead; `last` is its last word */
	bool over;                 /* its waiters were answered; what is left are hooks that look at it */
	bool leaving;              /* its end was taken from that word, while the init was still on its way out */
	bool end_committed;        /* the terminal event is durable */
	struct status_msg last;
	bool layer_mismatch;

	struct process_violations *violations; /* NULL = none so far */
	struct process_network *network;       /* what went through the proxy; NULL = nothing so far */
	struct buf autorun;                    /* the init's report on autorun files, checked; empty = none */
	char autorun_ref[ID_TEXT_MAX];         /* behind which it is kept */
	uint64_t violations_before;            /* told by an earlier runtime */
	bool violations_missed;                /* there may have been more */
	bool unwatched;                        /* it was started while nothing reported refusals exactly */
	bool paused;                           /* its task is: no time limit runs */
	uint64_t paused_ns, held_ns;           /* since when, and how long before that */

	bool settling; /* refusals may still be on their way */
	uint64_t settle_until_ns;
	uint64_t ended_sequence;
	const char *ended_as; /* of one that never ran: its status; NULL otherwise */
};

#define PROCESS_DRAIN_MS 2000u
#define PROCESS_FLUSH_MS 50u
#define PROCESS_FLUSH_TYPED_MS 5u
#define PROCESS_TYPED_MS 250u
#define PROCESS_SETTLE_MS 10000u
#define PROCESS_FOLLOW_MS 30000u

/* State of the module process/. */
struct process_table {
	struct strmap live;    /* id → struct process */
	struct strmap pending; /* process id → struct pending_start that waits for the policy of its workspace */
	size_t hooks;          /* of the live ones, those that are hooks */
	struct known_layers {  /* which layers sandboxes get on this machine, by what is requested */
		uint32_t flags, asked, reached;
	} known_layers[8];
	size_t nknown_layers;
	struct port_expected expected; /* of the start request being handled */
	void (*stopped)(void *ctx);    /* called when the daemon stops and the last process is gone */
	void *stopped_ctx;
};

void process_init(struct engine *g);
void process_free_all(struct engine *g);
void process_done(struct engine *g);
uint64_t process_tick(struct engine *g, uint64_t now);
void process_client_disconnected(struct engine *g, uint64_t connection);
struct scope process_scope(const struct process *p);

static inline bool process_is_controlled_by(const struct process *p, const struct caller *c)
{
	return c->uid == 0 || c->uid == p->uid;
}

/* The live process if the caller may control it; ERR_NOT_FOUND, or ERR_STATE when it has ended. */
struct process *engine_live(struct engine *g, const char *id, const struct caller *c, struct err *e);
struct process *engine_process(struct engine *g, const char *id);

static inline bool process_has_tty(const struct process *p) { return p->tty_rows != 0; }

/* What ends it politely: closing a terminal is a hangup, and shells that are typed to ignore SIGTERM. */
static inline int process_stop_signal(const struct process *p) { return process_has_tty(p) ? SIGHUP : SIGTERM; }

/* process_state.c */
/* Something happened to it; process_handle_event, the row of the table of modules, acts on it. */
void process_event(struct process *p, enum process_event ev);
void process_handle_event(struct process *p, int event);
void process_free(struct process *p);
void process_finished(struct process *p); /* its end is durable: frees it and tells who needs to know */

/* Begins a start, or continues one that waited: the module start/ does it (row START). */
void process_start(struct engine *g, const struct start_request *r, const struct caller *c, engine_reply_fn fn,
		   void *ctx);
struct process *process_new(struct engine *g, const char *id);
void process_command_members(const struct process *p, struct jw *w); /* command, commandLine … */
struct json_value json_command_line(const struct process *p);        /* the same, for WRITTEN members */
void process_submit_start(struct process *p);
void process_submit_unstarted(struct process *p);
void process_answer_start(struct process *p);

/* process_session.c: each process belongs to a session, a thread and a turn, made when the request names none */
int process_find_session(struct process *p, const struct start_request *r, const struct caller *c, struct err *e);
int process_session_facts(struct process *p, struct store_batch *b); /* of those that this process makes */
/* `category` NULL = the turn completed. `status` is the turn's: completed, failed, cancelled, timed_out, lost. */
int process_session_end_facts(struct process *p, struct store_batch *b, const char *status, const char *category,
			      const char *message);

/* process_autorun.c */
void process_autorun_facts(struct process *p, struct store_batch *b);
void process_autorun_member(const struct process *p, struct jw *w);

/* process_output.c */
struct json_value;
struct store_batch;
void process_output_due(struct process *p);                         /* bytes came: when shall the next event be */
int process_output_flush(struct process *p, struct store_batch *b); /* adds events for what is not cited; how many */
void process_output_submit(struct process *p);
void process_outputs_json(const struct process *p, struct jw *w); /* {"stdout":{…},…} */
void process_stream_names(const struct process *p, struct jw *w); /* [{outputRef,stream,…}] */
struct json_value json_stream_names(const struct process *p);
const char *stream_name(int stream);
int stream_index(struct jval name);                           /* −1 = there is no such stream */
void process_tty_json(const struct process *p, struct jw *w); /* {rows, cols}, or false */
/* Its working directory is in what a sandbox has for /tmp or a hidden home: whatever it writes there goes with it. */
bool process_cwd_is_private(const struct process *p);
/* Of so many bytes of a stream: how many from its beginning are kept whatever else comes; and whether they live in the
 * spool. */
uint64_t process_output_kept(const struct process *p, uint64_t size);
bool process_output_spills(const struct process *p, uint64_t size);
unsigned process_unspilled(const struct process *p); /* streams that live in the database, as bits */

/* process_violation.c */
int process_violations_flush(struct process *p, struct store_batch *b); /* adds events for what is untold; how many */
uint64_t process_violations_tick(struct process *p, uint64_t now);      /* when it wants the next one */
void process_violations_members(const struct process *p, struct jw *w);
bool process_violations_open(const struct process *p,
			     struct buf *out); /* what would let it pass: {"writeRoots":[…],…}; false = nothing would */
void process_violations_free(struct process *p);
bool process_violations_any(const struct process *p, const char *kind); /* some of that kind was refused */
bool process_violations_guessed(const struct process *p);               /* some are hints */
/* Adds an event for a guess. It does not count as a violation. */
void process_violation_hint(struct process *p, const struct violation *v, struct store_batch *b);
/* Why, in plain words; NULL where the sandbox's make-up does not tell. */
const char *process_violation_reason(const struct process *p, const struct violation *v);
/* How deep the list's deepest entry is that is the path, or that it lies below; 0 = none does. */
size_t process_path_depth(const char *path, struct jval list);

/* process_hint.c */
/* Of a command that failed, where nothing reports refusals exactly: what its output says about them, if its sandbox
 * would have refused that. */
void process_hint_facts(struct process *p, struct store_batch *b);

/* process_network.c */
void process_network_members(const struct process *p, struct jw *w);
void process_network_free(struct process *p);

/* process_end.c */
void process_waiters_expire(struct process *p, uint64_t now);
void process_submit_end(struct process *p);
void process_truncated_facts(struct process *p, struct store_batch *b); /* and sums the kept tail */
void process_answer_waiters(struct process *p);
void process_enforce_end(struct process *p, enum process_end why, const struct requester *by, int sig,
			 uint64_t grace_ms, const char *reason);
void process_set_paused(struct process *p, bool hold); /* stops the command's process group, or lets it go on */
void process_escalate(struct process *p, uint64_t now);

/* process_input.c */
struct scope process_input_scope(const struct process *p, const char *request_id);
void process_input_fact(struct process *p, struct store_batch *b, const struct pending_input *in);
/* The input that was given with its start, and that there is no more. */
void process_given_facts(struct process *p, struct store_batch *b);

/* process_request.c */
void process_inputs_pump(struct process *p);
void process_inputs_fail(struct process *p, const char *why);

#endif
