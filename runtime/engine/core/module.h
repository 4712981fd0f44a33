#ifndef BAILIFF_ENGINE_MODULE_H
#define BAILIFF_ENGINE_MODULE_H

/*
 * The table of modules. A module calls the modules below it directly. Calls to the modules above go only through this
 * table, which is declared in runtime/engine/modules.def and passed to the core by engine_new. So no file includes a
 * header of a module above its own.
 *
 * Lists end with a NULL row. The order of rows is part of the behaviour: reactions add their facts to the same batch,
 * after the fact that they react to, in the order of the rows.
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
struct store_batch;

typedef void (*module_fn)(struct engine *g);

/* `subject` is passed by the module that adds the fact; modules.def names its type next to each row. Borrowed. */
struct fact_reaction {
	enum event_type type;
	/* Adds facts to the batch of the fact. */
	void (*on_fact)(struct engine *g, const void *subject, struct store_batch *b);
};
struct commit_reaction {
	enum event_type type;
	/* The fact is durable: effects on the host and replies are allowed now. */
	void (*on_commit)(struct engine *g, const void *subject);
};
struct reconstructed_member {
	const char *key;
	void (*write)(struct engine *g, struct jw *w); /* elements of an array */
};

struct engine_modules {
	const module_fn *init;
	/* The daemon stops: end the waits for the host. Runs in engine_stop and again in engine_free. */
	const module_fn *stop;
	const module_fn *done;
	const module_fn *before_recovery;                        /* before any process of the log is adopted or lost */
	const module_fn *recover;                                /* after the ends of lost processes are durable */
	const module_fn *resume;                                 /* starts are possible again */
	uint64_t (*const *tick)(struct engine *g, uint64_t now); /* returns the next deadline, UINT64_MAX = none */
	const module_fn *connected;
	void (*const *disconnected)(struct engine *g, uint64_t connection);
	const struct fact_reaction *on_fact;
	const struct commit_reaction *on_commit;
	const struct reconstructed_member *reconstructed; /* of history.reconstructed */
	/* processes */
	const struct process_owner_ops *const *process_owners; /* by enum owner_kind */
	int (*const *may_start)(struct engine *g, const struct start_request *r, struct err *e);
	void (*const *process_over)(struct engine *g, const struct process_over *x);
	void (*start)(struct engine *g, const struct start_request *r, const struct caller *c,
		      void (*fn)(void *ctx, const struct err *e, const char *json, size_t len), void *ctx);
	void (*process_event)(struct process *p, int event); /* runs the state machine; enum process_event */
	void (*process_finished)(struct process *p);         /* the end of the process is durable */
	/* actions */
	const struct action_kind_ops *const *action_kinds; /* by enum action_kind */
};

/* Calls each function of a phase, in the order of the rows. */
void modules_run(struct engine *g, const module_fn *phase);
/* A fact of this type was added to the batch: runs the on_fact reactions, which may add more. */
void fact_added(struct engine *g, enum event_type type, const void *subject, struct store_batch *b);
/* A fact of this type is durable: runs the on_commit reactions. */
void fact_committed(struct engine *g, enum event_type type, const void *subject);

#endif
