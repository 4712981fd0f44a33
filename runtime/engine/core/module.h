#ifndef BAILIFF_ENGINE_MODULE_H
#define BAILIFF_ENGINE_MODULE_H

/*
 * The table of modules. A module calls the modules below it directly. Calls to the modules above go only through this
 * table, which is declared in runtime/engine/modules.def and passed to the core by engine_new. So no file includes a
 * header of a module above its own.
 *
 * Lists end with a NULL row. The order of rows is part of the behaviour: reactions add their facts to the same
 * transaction, after the fact that they react to, in the order of the rows.
 */

#include "runtime/event/event.h"

#include <stdbool.h>
#include <stdint.h>

struct action_kind_ops;
struct caller;
struct engine;
struct err;
struct jw;
struct process;
struct process_over;
struct process_owner_ops;
struct start_request;
struct envelope;
struct scope;
struct session_created_notice;
struct hook_stop_notice;
struct transaction;
struct turn_doc;

typedef void (*module_fn)(struct engine *engine);

/*
 * A reaction to a fact: adds facts to the same transaction, after the fact. It gets the scope and the typed payload of
 * the fact (modules.c casts it), both borrowed. Runs while the emitter does, so it must not commit anything itself.
 */
struct fact_reaction {
	enum event_type type;
	void (*on_fact)(struct transaction *tx, const struct scope *s, const struct envelope *payload);
};

/*
 * Work that a commit made due, done by a module that may be above the one that notices it. Each kind is one row DUE of
 * modules.def. The id says on which object; the facts that made the work due are durable.
 */
enum due_work {
	DUE_TURN_STEP,      /* turn: something that its next step waits for has ended */
	DUE_NEXT_TURN,      /* thread: its turn has ended */
	DUE_CALL_START,     /* tool call: it is allowed and recorded */
	DUE_SUBAGENT_CALL,  /* tool call: it runs a subagent */
	DUE_TASK_START,     /* task: its dependencies are met */
	DUE_TASK_PART_OVER, /* task: something that its end may wait for has ended */
	DUE_JOB_STEP,       /* job: an item has ended */
	DUE_WORK_COUNT
};
struct reconstructed_member {
	const char *key;
	void (*write)(struct engine *engine, struct jw *w); /* elements of an array */
};

struct engine_modules {
	const module_fn *init;
	/* The daemon stops: end the waits for the host. Runs in engine_stop and again in engine_free. */
	const module_fn *stop;
	const module_fn *done;
	const module_fn *before_recovery; /* before any process of the log is adopted or lost */
	const module_fn *recover;         /* after the ends of lost processes are durable */
	const module_fn *resume;          /* starts are possible again */
	uint64_t (*const *tick)(struct engine *engine, uint64_t now); /* returns the next deadline, UINT64_MAX = none */
	const module_fn *connected;
	void (*const *disconnected)(struct engine *engine, uint64_t connection);
	const struct fact_reaction *on_fact;
	void (*const *due)(struct engine *engine, const char *id); /* by enum due_work */
	void (*session_created)(struct engine *engine,
				const struct session_created_notice *n); /* the session is durable */
	void (*hook_stop)(struct engine *engine,
			  const struct hook_stop_notice *n);                  /* a hook ended the turn it ran for */
	void (*turn_driver)(struct engine *engine, const struct turn_doc *t); /* of turns with the driver "loop" */
	const struct reconstructed_member *reconstructed;                     /* of history.reconstructed */
	/* processes */
	const struct process_owner_ops *const *process_owners; /* by enum owner_kind */
	int (*const *may_start)(struct engine *engine, const struct start_request *r, struct err *e);
	void (*const *process_over)(struct engine *engine, const struct process_over *x);
	void (*start)(struct engine *engine, const struct start_request *r, const struct caller *c,
		      void (*fn)(void *ctx, const struct err *e, const char *json, size_t len), void *ctx);
	void (*process_event)(struct process *p, int event); /* runs the state machine; enum process_event */
	void (*process_finished)(struct process *p);         /* the end of the process is durable */
	/* actions */
	const struct action_kind_ops *const *action_kinds; /* by enum action_kind */
};

/* Calls each function of a phase, in the order of the rows. */
void modules_run(struct engine *engine, const module_fn *phase);
/* Does the work now. To do it after a commit, pass a function that calls this to transaction_after_commit. */
void modules_due(struct engine *engine, enum due_work work, const char *id);

#endif
