#ifndef BAILIFF_ENGINE_ENGINE_PRIVATE_H
#define BAILIFF_ENGINE_ENGINE_PRIVATE_H

/* Shared by the files of runtime/engine only. */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/strmap.h"
#include "runtime/engine/core/engine.h"
#include "runtime/engine/core/fact.h"
#include "runtime/engine/core/ports.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/work/subagent_wait.h"
#include "runtime/event/event.h"
#include "runtime/store/store.h"

struct engine {
	struct engine_options o;
	char boot_id[40];
	struct strmap processes; /* id → struct process */
	struct subagent_waits subagents;
	TAILQ_HEAD(, rollback) rollbacks;  /* under way (history.c) */
	bool history_found;                /* by a start, and not looked at yet */
	struct strmap channels;            /* id → struct channel_live (channel.c) */
	struct strmap held_starts;         /* process id → pending_start that waits for the policy of its place */
	struct strmap turn_owners;         /* turn id → who drives it (turn_owner.c) */
	struct strmap busy_threads;        /* thread id → process whose own turn is, or will be, active there */
	TAILQ_HEAD(, external_tool) tools; /* that clients have registered */
	TAILQ_HEAD(, waiter) waiters;      /* for the ends of turns and tool calls */
	uint64_t next_action_ns;           /* when deadlines of actions are to be looked at next */
	char system_session[ID_ROOM], system_thread[ID_ROOM], system_turn[ID_ROOM];
	struct known_layers { /* what this machine's sandboxes reach, by what is asked of them */
		uint32_t flags, asked, reached;
	} known_layers[8];
	size_t nknown_layers;
	struct port_expected expected;          /* of the start request at hand */
	const struct policy_profiles *profiles; /* or NULL */
	const struct model_list *models;        /* or NULL */
	const struct policy_rules *rules;       /* or NULL */
	struct strmap session_rules;            /* session id → struct session_rules */
	TAILQ_HEAD(, tool_evaluation)
	judging;                      /* calls of others' tools, until they are allowed, asked about or refused */
	TAILQ_HEAD(, always) keeping; /* answers that are being made rules */
	TAILQ_HEAD(, policy_waiter) policy_waiters; /* for files of a place (policy_lookup.c) */
	const struct policy_hooks *hooks;           /* or NULL */
	TAILQ_HEAD(, hook_group) hook_groups;       /* under way (hook.c) */
	size_t hook_processes;                      /* of all processes */
	struct strmap hook_runs;                    /* process id → struct hook_run */
	struct strmap stops;                        /* turn id → struct stopping: hooks look at how it would end */
	struct strmap prompts; /* thread id → struct hook_prompt: hooks look at a turn that would begin there */
	TAILQ_HEAD(, reload_waiter) reloads; /* who waits for the policy files */
	uint64_t policy_sequence;            /* of the last policy.changed that a policy file caused */
	struct strmap policy_writes; /* key → struct policy_write: policy.changed facts that are not committed yet */
	char policy_problem[256];    /* "" = none */
	struct strmap task_workers;  /* task id → struct task_worker: on which connection a client's attempt hangs */
	bool work_waits;       /* something could not be launched for want of room, or of a client to run it for */
	uint64_t job_poll_ns;  /* the same of jobs */
	uint64_t task_poll_ns; /* when deadlines of tasks are to be looked at next; UINT64_MAX = never */
	bool stopping;
	void (*stopped)(void *ctx);
	void *stopped_ctx;
	struct engine_counts counts;
};

#define ENGINE_DRAIN_MS 2000u
#define ENGINE_FLUSH_MS 50u
#define ENGINE_FLUSH_TYPED_MS 5u
#define ENGINE_TYPED_MS 250u
#define ENGINE_SETTLE_MS 10000u
#define ENGINE_FOLLOW_MS 30000u

static inline uint64_t engine_now(struct engine *g) { return g->o.ports->boot_ns(g->o.host); }
void engine_wake(struct engine *g, uint64_t boot_ns);

const char *role_name(enum engine_role r);

/* Answers. A reply with an idempotency key is remembered in `b` before it is given (after b's commit). */
void reply_copy(struct pending_reply *r, const struct caller *c, engine_reply_fn fn, void *ctx);
void reply_done(struct pending_reply *r); /* frees */
void reply_store(const struct pending_reply *r, struct store_batch *b, const char *json, size_t len);
void reply_json(struct pending_reply *r, const char *json, size_t len); /* gives the answer and frees */
void reply_err(struct pending_reply *r, const struct err *e, const char *data, size_t len);
/* {"$error":…}: how an error is remembered for an idempotent request. */
void reply_error_record(const struct err *e, const char *data, size_t len, struct buf *out);

static inline struct requester requester_of(const struct caller *c)
{
	return (struct requester){ .uid = c->uid, .pid = c->pid, .role = c->role };
}

static inline bool process_is_controlled_by(const struct process *p, const struct caller *c)
{
	return c->uid == 0 || c->uid == p->uid;
}

/* The live process if the caller may steer it; ERR_NOT_FOUND, or ERR_STATE when it has ended. */
struct process *engine_live(struct engine *g, const char *id, const struct caller *c, struct err *e);
struct process *engine_process(struct engine *g, const char *id);

/* tasks (task_private.h has the rest) */
uint64_t task_tick(struct engine *g, uint64_t now);
void task_client_disconnected(struct engine *g, uint64_t connection);
void task_workers_free(struct engine *g);
void task_recover(struct engine *g);
void task_process_ended(struct engine *g, const char *task_id);
void task_client_connected(struct engine *g);
uint64_t job_tick(struct engine *g, uint64_t now);
void job_recover(struct engine *g);
void job_process_ended(struct engine *g, const char *job_id);
int task_may_run(struct engine *g, const char *task_id, struct err *e); /* a process that a client starts for it */

/* session.c */
int session_resolve(struct process *p, const struct start_request *r, const struct caller *c, struct err *e);
int session_facts(struct process *p,
		  struct store_batch *b); /* those of session, thread and turn that this process makes */
int session_end_facts(struct process *p, struct store_batch *b, const char *status, const char *category,
		      const char *message);
int session_system_facts(struct engine *g, struct store_batch *b);
/* A session with its first thread, made because a request names none. */
int session_make(struct engine *g, struct store_batch *b, const struct caller *c, const char *origin, const char *title,
		 char ret_session[ID_ROOM]);
/* The session's system turn (made on its first use) and its thread, for facts without a turn. */
int session_system_turn(struct engine *g, struct store_batch *b, uint32_t uid, const char *session,
			char ret_thread[ID_ROOM], char ret_turn[ID_ROOM], struct err *e);

#endif
