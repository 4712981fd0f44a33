#ifndef BAILIFF_VIEW_VIEW_H
#define BAILIFF_VIEW_VIEW_H

/*
 * The read models: pure projections of the log into small JSON documents, written in the same transaction as the
 * events. Deleting all and projecting the log again gives the same bytes (store_verify proves it).
 *
 * documents.def declares the documents, projections.def which events change them, view_<kind>.c has the projections
 * that are more than rows, and view_*query.c, view_snapshot.c … what clients read. view.c runs the table.
 *
 * Threads: projections run on the writer thread, for a group that is about to become durable, and on the loop thread
 * for speculative reads. Readers run on the loop thread. A projection sees only the event and earlier documents: no
 * clock, no file, no configuration. If it needs anything else, that belongs in the event.
 *
 * Readers with a `struct buf *out` append a complete value or, on failure, nothing. Those with a `struct jw *w` write
 * while they read: on failure the caller discards what was written.
 *
 * Two kinds of keys: a document has the id of what it describes; a list has "<owner>/<member>" and no content, so that
 * a prefix scan finds the members in order. A list that is meant to be short-lived ("while …") is how recovery and
 * schedulers find open work without reading everything.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct event_view;
struct models;
struct store;

enum view_kind {
	VIEW_RUNTIME = 1,    /* id "runtime": the system session and the last reconstruction */
	VIEW_SESSION = 2,    /* sessionId */
	VIEW_THREAD = 3,     /* threadId */
	VIEW_TURN = 4,       /* turnId */
	VIEW_PROCESS = 5,    /* processId */
	VIEW_OUTPUT = 6,     /* outputRef: owner, mediaType, encoding, bytes, truncated, omitted range, expired */
	VIEW_PREVIEW = 7,    /* outputRef: the stream's first bytes; separate, so that counting bytes stays cheap */
	VIEW_QUEUE = 40,     /* threadId, while turns wait */
	VIEW_TOOL_CALL = 41, /* toolCallId */
	VIEW_ACTION = 42,    /* actionId */
	VIEW_TURN_STEP = 43, /* "<turnId>/<stepId>": one step of a turn, a small document */
	VIEW_VIOLATION = 8,  /* processId: its violations; separate, since a flood rewrites it every second */
	/* lists: id "<owner>/<member>", document {} */
	VIEW_SESSION_THREAD = 16,
	VIEW_THREAD_TURN = 17, /* "<threadId>/~<number, 20 digits>/<turnId>" (view_turn.c) */
	VIEW_TURN_PROCESS = 18,
	VIEW_SESSION_PROCESS = 19,
	VIEW_LIVE_PROCESS = 20, /* id processId, while it has no terminal event: recovery starts here */
	VIEW_LIVE_TURN = 21,    /* id turnId, while it has not ended */
	VIEW_PROCESS_DIFF =
		24, /* "<processId>/<outputRef>": diffs of what a copy-on-write run changed, also expired ones */
	VIEW_COW_PROCESS = 25,  /* id processId, while its changes may be kept */
	VIEW_UNDO_PROCESS = 26, /* id processId, while what an apply of its changes replaced may be kept */
	VIEW_COST = 64,         /* ids: cost_key, limit_key */
	VIEW_LIMIT = 65,
	VIEW_ROUTING = 66,           /* turnId, threadId or sessionId */
	VIEW_MODEL_REQUEST = 67,     /* sessionId/modelRequestId */
	VIEW_TURN_OPEN_REQUEST = 68, /* "<turnId>/<modelRequestId>", while it has not ended */
	VIEW_MODEL = 69,             /* "<uid>/<name>": a registered model */
	VIEW_MCP_SERVER = 54,        /* "<uid>/<name>": a registered MCP server */
	VIEW_TURN_REQUEST = 53,      /* "<turnId>/<modelRequestId>": the requests of the loop */
	VIEW_CHANNEL = 70,           /* channelId */
	VIEW_SESSION_CHANNEL = 71,
	VIEW_LIVE_CHANNEL = 72, /* id channelId, while it is connected */
	VIEW_PEER_TASK = 73,    /* "<channelId>/<remoteTaskId>" */
	VIEW_TASK_PEER = 74,    /* "<taskId>/<channelId>/<remoteTaskId>" */
	VIEW_SANDBOX = 75,      /* sandboxId: a session sandbox */
	VIEW_SESSION_SANDBOX = 76,
	VIEW_LIVE_SANDBOX = 77,    /* id sandboxId, while it is open */
	VIEW_SANDBOX_PROCESS = 78, /* its commands, without the holder */
	VIEW_SANDBOX_RUNNING = 79, /* those that have not ended */
	VIEW_SUBAGENT = 120,       /* subagentId */
	VIEW_SESSION_SUBAGENT = 121,
	VIEW_THREAD_SUBAGENT = 122, /* by the parent's thread */
	VIEW_TASK_SUBAGENT = 123,
	VIEW_LIVE_SUBAGENT = 124, /* id subagentId, while it has not ended */
	VIEW_TURN_TOOL_CALL = 44,
	VIEW_LIVE_TOOL_CALL = 45, /* id toolCallId, while it has not ended */
	VIEW_THREAD_ACTION = 46,
	VIEW_OPEN_ACTION = 47,          /* "<threadId>/<actionId>", while unanswered */
	VIEW_TURN_OPEN_ACTION = 48,     /* "<turnId>/<actionId>", likewise */
	VIEW_TURN_OPEN_CALL = 49,       /* "<turnId>/<toolCallId>", while it has not ended */
	VIEW_TIMED_ACTION = 50,         /* "<expiresAt in microseconds, 20 digits>/<actionId>", while open */
	VIEW_EVIDENCE = 100,            /* evidenceId (view_evidence.h) */
	VIEW_OWNER_EVIDENCE = 101,      /* "<session, thread, turn or task id>/<evidenceId>" */
	VIEW_EVIDENCE_CONTENT = 102,    /* "<sessionId>/<sha256>" */
	VIEW_TRIAL = 103,               /* trialId */
	VIEW_BENCHMARK_KNOWN = 104,     /* ids: view_benchmark_key */
	VIEW_RUN_TRIAL = 105,           /* "<runId>/<trialId>", while the trial has not ended */
	VIEW_CONFIGURATION_TRIAL = 106, /* view_trial_key */
	VIEW_COMPARISON = 107,          /* "<sessionId>/<baseline>/<candidate>": the latest */
	VIEW_HOOK = 52,                 /* processId of a hook, while it runs */
	VIEW_SESSION_GRANT = 51,        /* "<sessionId>/<binding>": approvals for the session */
	VIEW_SESSION_TRACE = 108,       /* "<sessionId>/<traceId>": of its turns */
	VIEW_HISTORY = 110,             /* threadId: compactions and rollbacks */
	VIEW_ROLLED_BACK = 111,         /* "<threadId>/<turnId>" */
	VIEW_OPEN_HISTORY = 112,        /* id threadId, while a compaction or rollback is running */
	VIEW_ARTIFACT = 113,            /* "<sessionId>/<artifactId or path>" */
	VIEW_ENDED_PROCESS = 22, /* id "<sequence of its end, 20 digits>/<processId>", until its outputs expired */
	/* tasks and jobs (view_task.h, view_job.h) */
	VIEW_TASK = 80,         /* taskId */
	VIEW_TASK_ATTEMPT = 81, /* "<taskId>/<number, 6 digits>" */
	VIEW_TASK_EDGE = 82,    /* "<taskId>/<kind>/<targetId>" */
	VIEW_TASK_COUNT = 83,   /* "s/<sessionId>" or "t/<threadId>": how many tasks have each status */
	VIEW_SESSION_TASK = 84, /* lists */
	VIEW_THREAD_TASK = 85,
	VIEW_LIVE_TASK = 86,    /* id taskId, while it has not ended */
	VIEW_BLOCKED_TASK = 87, /* "<sessionId>/<taskId>", while it waits or is blocked */
	VIEW_TASK_QUEUE = 88,   /* "<queuedAt, 20 digits>/<taskId>", while only the parallel limit delays it */
	VIEW_TASK_SLOT = 89,    /* id taskId, while the supervisor runs an attempt */
	VIEW_TASK_ACTION = 90,  /* "<taskId>/<actionId>", while unresolved */
	VIEW_JOB = 91,          /* jobId */
	VIEW_JOB_ITEM = 92,     /* "<jobId>/<itemId>", once started */
	VIEW_LIVE_JOB = 93,     /* id jobId, while it has not ended */
	VIEW_TASK_JOB = 94,     /* "<taskId>/<jobId>" */
	VIEW_SESSION_JOB = 95,
	VIEW_JOB_RUNNING = 96,   /* "<jobId>/<itemId>" */
	VIEW_JOB_AGAIN = 97,     /* "<jobId>/<due, 20 digits>/<itemId>": to be retried */
	VIEW_JOB_PROCESS = 98,   /* processId, while it works on an item: {jobId, itemId} */
	VIEW_INTERNAL_TASK = 99, /* "<sessionId>/<taskId>": tasks of the runtime, which are in no other list */
};

/*
 * The version of the projections. If a store's models have another one, the log is projected again before anything is
 * read. Raise it whenever the same events would give other documents.
 */
#define VIEW_VERSION "12"

/* Kinds with a document or list entry for each command, turn or call (struct store_options: growing_models). */
extern const uint8_t view_growing_kinds[];

/* For store_open. */
int view_project(struct models *m, const struct event_view *ev, struct err *e);
/* The part that also runs before the commit: documents that decisions are made from. */
int view_project_speculative(struct models *m, const struct event_view *ev, struct err *e);

/*
 * Below, uid is the asking peer's: 0 sees everything, others only their own; the rest is ERR_NOT_FOUND. Documents are
 * appended to `out` as they are sent to clients.
 */
#define VIEW_ANY_UID 0u

/* The number of violations recorded for this process. */
uint64_t view_violation_count(struct store *s, const char *process_id);
int view_process(struct store *s, uint32_t uid, const char *process_id, struct buf *out, struct err *e);
struct view_process_query {
	const char *session_id, *task_id, *sandbox_id, *status; /* NULL = any */
	const char *match; /* NULL, or typed by a person: the start of the id, with or without "proc_", or its last ≥ 4
			      characters */
	const char *except; /* NULL, or the tool program: bailiff's helpers are left out */
	bool live_only;
	bool cow;           /* only copy-on-write runs … */
	bool held;          /* … that have ended with changes to apply or discard */
	bool holders;       /* also the holders of session sandboxes */
	unsigned limit;     /* 1 … 1000 */
	const char *cursor; /* NULL = newest first from the start */
};
/*
 * {"processes":[…],"nextCursor"?:…}, newest first, without the outputs' previews. A page may have fewer than `limit`
 * entries and still a nextCursor: one call examines a bounded number of documents.
 */
int view_processes(struct store *s, uint32_t uid, const struct view_process_query *q, struct buf *out, struct err *e);

/* The value of the store's metadata that has the last recorded hash of a policy file. The caller frees the name. */
char *view_policy_file_key(const char *layer, const char *file, uint32_t uid);

/*
 * A search for the documents of a session and of everything that belongs to it, for session.expired. They are read as
 * committed, in steps: before and after the search, ask store_events and store_undispatched whether the session has
 * changed.
 */
struct view_expiry;
enum view_expiry_result { VIEW_EXPIRY_FAILED = -1, VIEW_EXPIRY_DONE, VIEW_EXPIRY_MORE, VIEW_EXPIRY_ALIVE };
struct view_expiry *view_expiry_new(struct store *s, const char *session_id);
/*
 * Continues until the monotonic time `until_ns`, but by at least one step; fn is called for each document. ALIVE:
 * something of the session is still active (ignore what fn got).
 */
enum view_expiry_result view_expiry_step(struct view_expiry *x, uint64_t until_ns,
					 bool (*fn)(void *ctx, uint8_t kind, const char *id), void *ctx, struct err *e);
void view_expiry_free(struct view_expiry *x); /* ignores NULL */

int view_sessions(struct store *s, uint32_t uid, unsigned limit, const char *cursor, struct buf *out, struct err *e);
/*
 * The session snapshot of the specification (valid under the public and the stricter profile's schema): the latest
 * `limit` threads (of each the latest VIEW_WINDOW turns) below thread id `before`; `historyCursor` is the next
 * `before`.
 */
#define VIEW_WINDOW 50u
struct view_window {
	unsigned limit;     /* 1 … VIEW_WINDOW */
	const char *before; /* NULL = from the newest */
};
int view_session(struct store *s, uint32_t uid, const char *session_id, const struct view_window *w, struct buf *out,
		 struct err *e);
/*
 * The thread element plus sessionId, runtimeId, schemaVersion, updatedAt. With a window its turns are the latest
 * `limit` (1 … VIEW_TURNS_MAX) below turn id `before`, newest first; without one the latest VIEW_WINDOW, oldest first.
 * `historyCursor`, where there are older turns, is the next `before`. A page ends early when it gets long.
 */
#define VIEW_TURNS_MAX 1000u
int view_thread(struct store *s, uint32_t uid, const char *thread_id, const struct view_window *w, struct buf *out,
		struct err *e);

struct view_action_query {
	const char *status, *session_id, *thread_id, *turn_id, *task_id; /* NULL = any */
	unsigned limit;                                                  /* 1 … 1000 */
	const char *cursor;                                              /* NULL = newest first from the start */
};
/* {"actions":[…],"nextCursor"?:…}, newest first; as for processes a page may hold fewer than `limit`. */
int view_actions(struct store *s, uint32_t uid, const struct view_action_query *q, struct buf *out, struct err *e);
/* The queue of a thread: {"threadId","sessionId","activeTurnId"?,"order":[…],"queuedTurns":[{…}],"resumeState"}. */
int view_queue_snapshot(struct store *s, uint32_t uid, const char *thread_id, struct buf *out, struct err *e);

/*
 * The result of wait_process: {processId, status, exitCode?, signal?, durationMs?, timedOut, outputs, usage?,
 * violations, …}. `timed_out` is the waiter's, not the process's.
 */
int view_wait_result(struct store *s, uint32_t uid, const char *process_id, bool timed_out, struct buf *out,
		     struct err *e);
/* The part of it that the reply to a start with yieldMs needs: {status, exitCode?, signal?, durationMs?,
 * commandExited?, outputs}, without previews. */
int view_wait_brief(struct store *s, uint32_t uid, const char *process_id, struct buf *out, struct err *e);

/*
 * Recovery starts from these: every process without a terminal event and every turn that has not ended, oldest id
 * first. A process is given as by view_process, with the members of process.started (startTime, bootId, startedBootNs,
 * stdin, stderr, keepTree, onDisconnect, planHash, limits, outputRefs), stdinClosed and outputs.<stream>.bytes; a turn
 * as it is stored. fn returns false to stop; it may use the store.
 */
typedef bool (*view_each_fn)(void *ctx, const char *id, const char *json, size_t len);
int view_live_processes(struct store *s, view_each_fn fn, void *ctx, struct err *e);
int view_live_turns(struct store *s, view_each_fn fn, void *ctx, struct err *e);
/* The system session, its first thread and its system turn. 0 found, 1 not there yet, −1 failure. */
int view_system_ids(struct store *s, char session[72], char thread[72], char turn[72], struct err *e);
/*
 * Outputs that retention may remove: not expired, of processes that ended below `floor`, oldest end first, at most
 * `limit` processes' in one call (call again once output.expired is written for them). Processes with damaged documents
 * are skipped. 0 = there are no others; 1 = there may be more: if these had none, continue after *ret_last.
 */
struct view_expirable {
	char output_ref[72], process_id[72], session_id[72], thread_id[72], turn_id[72], task_id[72];
	uint32_t uid;
	uint64_t bytes;
};
int view_expirable_outputs(struct store *s, uint64_t floor, const char *after, unsigned limit,
			   bool (*fn)(void *ctx, const struct view_expirable *x), void *ctx, char *ret_last,
			   struct err *e);

/* For decisions of the engine. 0 found, 1 not there (or not this uid's), −1 failure. */
struct view_session_brief {
	uint32_t uid;
	char first_thread[72];
	char system_turn[72];
}; /* system_turn: "" until there is one */
int view_session_brief(struct store *s, uint32_t uid, const char *session_id, struct view_session_brief *ret,
		       struct err *e);
struct view_thread_brief {
	uint32_t uid;
	char session_id[72];
	char active_turn[72];
	char status[16];
};
int view_thread_brief(struct store *s, uint32_t uid, const char *thread_id, struct view_thread_brief *ret,
		      struct err *e);
struct view_turn_brief {
	uint32_t uid;
	char session_id[72];
	char thread_id[72];
	char task_id[72];
	bool started, ending, ended;
};
int view_turn_brief(struct store *s, uint32_t uid, const char *turn_id, struct view_turn_brief *ret, struct err *e);
struct view_process_brief {
	uint32_t uid;
	char session_id[72], thread_id[72], turn_id[72], task_id[72], tool_call_id[72]; /* "" = none */
	char holds[72];                                                                 /* its session sandbox */
	char within[72];          /* the holder in whose sandbox it ran; "" = its own */
	bool cow, started, ended; /* cow: a copy-on-write run */
	uint64_t end_sequence;
};
int view_process_brief(struct store *s, uint32_t uid, const char *process_id, struct view_process_brief *ret,
		       struct err *e);
/* Copy-on-write runs of which something may still be kept, changes or what an apply replaced: all (floor 0), or those
 * that ended below `floor`. */
int view_cow_processes(struct store *s, uint64_t floor, bool (*fn)(void *ctx, const char *process_id), void *ctx,
		       struct err *e);
struct view_output_brief {
	uint32_t uid;
	char process_id[72];
	uint64_t bytes;                    /* cited so far by committed events */
	uint64_t omitted_from, omitted_to; /* equal = nothing omitted */
	bool spilled, expired, ended;      /* spilled: stored in the spool; ended: the stream is complete */
};
int view_output_brief(struct store *s, uint32_t uid, const char *output_ref, struct view_output_brief *ret,
		      struct err *e);

#endif
