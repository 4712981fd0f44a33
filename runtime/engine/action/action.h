#ifndef BAILIFF_ENGINE_ACTION_H
#define BAILIFF_ENGINE_ACTION_H

/*
 * Actions: something waits for a person. Only an answer (respond_action), the action's own time limit, or the end of
 * the work that asked, ends the wait; nothing that happens meanwhile counts as a yes.
 *
 * An action's kind (action_kinds.def) says what goes on when it is answered. What the kind needs for that is in the
 * action's `continuation`, a JSON object in its document, so that an answer after a restart finds the same way on:
 * `resolved` writes facts into the commit of action.resolved, `over` acts once that is durable.
 */

#include "runtime/engine/core/engine.h"
#include "runtime/engine/core/reply.h"
#include "runtime/view/view_documents.h"

struct transaction;
struct store_batch;

enum action_kind {
	ACTION_KIND_NONE,
#define ACTION_KIND(NAME, name) ACTION_KIND_##NAME,
#include "runtime/engine/action/action_kinds.def"
#undef ACTION_KIND
	ACTION_KIND_COUNT
};

struct action_spec {
	enum action_kind kind;
	uint32_t uid;                                 /* whose session it is */
	const char *session_id, *thread_id, *turn_id; /* turn_id NULL: the session's system turn */
	const char *task_id, *process_id, *tool_call_id, *step_id, *trace_id, *request_id; /* or NULL */
	const char *action_type; /* permission, approval, plan, input, credential, resource, … */
	const char *prompt;      /* or NULL */
	/* JSON, or NULL. decisions: an array of words; NULL = allow and deny. */
	const char *schema_json, *decisions_json, *scope_json, *policy_json, *continuation_json;
	uint64_t timeout_ms;          /* 0 = it waits for ever */
	const char *default_decision; /* when the time is over; NULL = deny */
	struct requester by;
};

/* How it was answered. */
struct action_outcome {
	const struct action_doc *action;
	const char *decision;               /* one of its decisions, or "cancelled" */
	const char *status;                 /* resolved, timed_out, cancelled */
	const char *source;                 /* user, host, timeout, turn_ended, task_ended */
	const char *scope;                  /* once, session, always; NULL = once */
	const char *note, *response_json;   /* or NULL */
	const char *kept_rules, *kept_file; /* scope always: the rules (JSON), and where they are; or NULL */
	unsigned kept_line;
	bool allowed; /* the decision is allow (or one that starts with it); never for timeouts without such a default
		       */
	struct requester by;
};

/* Operations of a kind, from the module that asks such questions. Each may be NULL. */
struct action_kind_ops {
	/*
	 * The answer is to last (scope always): 0 = it is given, through engine_respond_action again, when that is
	 * done. −1 with e: it cannot last.
	 */
	int (*persist)(struct engine *g, const struct action_doc *d, const struct action_answer *r, bool allow,
		       const struct caller *c, engine_reply_fn fn, void *ctx, struct err *e);
	bool (*is_persisting)(struct engine *g, const char *action_id);
	/* Facts beside action.resolved. May be NULL. */
	void (*resolved)(struct engine *g, const struct action_outcome *o, struct store_batch *b);
	/* That is durable; the action's document tells how it was answered. May be NULL. */
	void (*over)(struct engine *g, const char *action_id);
};

/* action.required was added (subject of its reactions). Ids may be NULL where the spec has none. */
struct action_opened_notice {
	const struct action_spec *spec;
	const char *action_id, *thread_id, *turn_id;
	const char *waiting; /* the status of what waits for it */
};
/* action.resolved was added. */
struct action_resolved_notice {
	const struct action_outcome *outcome;
	const struct caller *caller;
};

void action_init(struct engine *g);
void action_done(struct engine *g);
bool action_means_refuse(const char *decision);
/* Whether a question of this role may be answered with this decision without a person. */
bool action_may_decide_alone(enum engine_role role, const char *decision);

/*
 * Writes action.required (and that the turn's thread waits). −1 with e when something of it is too long. The id is made
 * and returned. Deadlines and tasks are taken care of.
 */
int action_open(struct engine *g, const struct action_spec *s, struct store_batch *b, char ret_id[ID_ROOM],
		struct err *e);
int action_read(struct engine *g, const char *action_id, struct buf *text, struct action_doc *ret, struct err *e);
/* The open action that a tool call of this turn waits for before it may begin, if there is one. */
bool action_of_call(struct engine *g, const char *turn_id, const char *call_id, struct buf *text,
		    struct action_doc *ret);
/* The engine's own answer (a hook, a host). What follows is hung on the transaction. */
void action_resolve(struct transaction *tx, const struct action_outcome *o);
/* The work that asked has ended. */
void action_cancel_of_turn(struct engine *g, const char *turn_id, const char *reason, struct transaction *tx);
void action_cancel_of_task(struct engine *g, const char *task_id, const char *reason, struct transaction *tx);
uint64_t action_tick(struct engine *g, uint64_t now);
void action_recover(struct engine *g);
void action_list_open(struct engine *g, struct jw *w); /* ids, for history.reconstructed */

#endif
