#ifndef BAILIFF_ENGINE_ACTION_H
#define BAILIFF_ENGINE_ACTION_H

/*
 * Actions: open questions to a person. Only a response (respond_action), the action's own timeout or the end of the
 * work that asked ends the wait. No other event counts as an approval.
 *
 * The kind of an action (action_kinds.def) determines what follows its resolution. The data that the kind needs for
 * that is in the action's `continuation`, a JSON object in its document, so that a response after a restart has the
 * same effect: `resolved` adds facts to the commit of action.resolved, `over` acts once that is durable.
 *
 * An action is resolved exactly once. Its deadline is real time and survives restarts and reboots. Prompt, schema and
 * continuation are part of an event and limited by its size; longer data belongs under a ref.
 */

#include "runtime/engine/core/engine.h"
#include "runtime/engine/core/reply.h"
#include "runtime/view/view_documents.h"

struct transaction;
struct scope;
struct action_required;
struct action_resolved;

enum action_kind {
	ACTION_KIND_NONE,
#define ACTION_KIND(NAME, name) ACTION_KIND_##NAME,
#include "runtime/engine/action/action_kinds.def"
#undef ACTION_KIND
	ACTION_KIND_COUNT
};

struct action_spec {
	enum action_kind kind;
	uint32_t uid;                                 /* owner of the session */
	const char *session_id, *thread_id, *turn_id; /* turn_id NULL: the session's system turn */
	const char *task_id, *process_id, *tool_call_id, *step_id, *trace_id, *request_id; /* or NULL */
	const char *action_type; /* permission, approval, plan, input, credential, resource, … */
	const char *prompt;      /* or NULL */
	/* For lists: the command or tool call alone, its folder and its profile; or NULL. */
	const char *display, *cwd, *profile;
	/* JSON, or NULL. decisions: an array of words; NULL = allow and deny. */
	const char *schema_json, *decisions_json, *scope_json, *policy_json, *continuation_json;
	uint64_t timeout_ms;          /* 0 = no timeout */
	const char *default_decision; /* applies at the timeout; NULL = deny */
	struct requester by;
};

/* The resolution of an action. */
struct action_outcome {
	const struct action_doc *action;
	const char *decision;               /* one of its decisions, or "cancelled" */
	const char *status;                 /* resolved, timed_out, cancelled */
	const char *source;                 /* user, host, timeout, turn_ended, task_ended */
	const char *scope;                  /* once, session, always; NULL = once */
	const char *note, *response_json;   /* or NULL */
	const char *kept_rules, *kept_file; /* scope always: the new rules (JSON) and their policy file; or NULL */
	unsigned kept_line;
	bool allowed; /* the decision begins with "allow" or "approve"; a timeout only if its default decision does */
	struct requester by;
};

/* Operations of a kind, implemented by the module that opens such actions. Each may be NULL. */
struct action_kind_ops {
	/*
	 * Makes the response permanent (scope always). 0: the module calls engine_respond_action again when the rules
	 * are written. −1 with e: not possible.
	 */
	int (*persist)(struct engine *engine, const struct action_doc *d, const struct action_answer *r, bool allow,
		       const struct caller *c, engine_reply_fn fn, void *ctx, struct err *e);
	bool (*is_persisting)(struct engine *engine, const char *action_id);
	/* Adds facts to the batch of action.resolved. */
	void (*resolved)(struct engine *engine, const struct action_outcome *o, struct transaction *tx);
	/* action.resolved is durable; the action's document has the decision. */
	void (*over)(struct engine *engine, const char *action_id);
};

void action_init(struct engine *engine);
void action_done(struct engine *engine);
/* Decisions are words of the requester; those that begin like "deny", "reject", "decline" or "cancel" deny. */
bool action_means_refuse(const char *decision);
/* Whether this decision may be taken without a person, for a requester with this role. */
bool action_may_decide_alone(enum engine_role role, const char *decision);

/*
 * Adds action.required, and the waiting status of the turn's thread and task. Generates and returns the id and
 * schedules the timeout. −1 with e if a member is too long.
 */
int action_open(struct engine *engine, const struct action_spec *s, struct transaction *tx, char ret_id[ID_SIZE],
		struct err *e);
/* 0 = found, 1 = not found, −1 with e. Includes events that are not committed yet. `ret` points into `text`. */
int action_read(struct engine *engine, const char *action_id, struct buf *text, struct action_doc *ret, struct err *e);
/* The open action of this kind that a tool call of this turn waits for; false = none. */
bool action_of_call(struct engine *engine, enum action_kind kind, const char *turn_id, const char *call_id,
		    struct buf *text, struct action_doc *ret);
/* Adds action.resolved and its consequences to the transaction; effects follow its commit. Every resolution uses this.
 */
void action_resolve(struct transaction *tx, const struct action_outcome *o);
/* The work that asked has ended: resolves its open actions as cancelled. */
void action_cancel_of_turn(struct engine *engine, const char *turn_id, const char *reason, struct transaction *tx);
void action_cancel_of_task(struct engine *engine, const char *task_id, const char *reason, struct transaction *tx);
/* Resolves expired actions with their default decision; returns the next deadline. */
uint64_t action_tick(struct engine *engine, uint64_t now);
void action_recover(struct engine *engine);
/* Reactions to the module's own facts: the thread of the turn waits, or no longer does. */
void action_thread_waits(struct transaction *tx, const struct scope *s, const struct action_required *p);
void action_thread_resumes(struct transaction *tx, const struct scope *s, const struct action_resolved *p);
/* The status of a thread or task that waits for an action of this type. */
const char *action_waiting_status(const char *action_type);
void action_list_open(struct engine *engine, struct jw *w); /* ids, for history.reconstructed */

#endif
