#ifndef BAILIFF_ENGINE_MODULE_H
#define BAILIFF_ENGINE_MODULE_H

/*
 * How the engine reaches its modules. A module calls the modules below it; what happens below reaches the modules above
 * only through this table (runtime/engine/modules.def), which the folder at the top fills in and engine_new hands to
 * the core. So no file names a module above its own.
 *
 * Lists end with a NULL row. Their order is part of the behaviour: facts of reactions follow the fact that they react
 * to in the order of the rows, in the same batch.
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

/* `subject` is what the module that writes the fact says about it: its type is named with each row of modules.def. */
struct fact_reaction {
	enum event_type type;
	/* Adds facts to the batch of the fact. */
	void (*on_fact)(struct engine *g, const void *subject, struct store_batch *b);
};
struct commit_reaction {
	enum event_type type;
	/* The fact is durable: effects may follow. */
	void (*on_commit)(struct engine *g, const void *subject);
};
struct reconstructed_member {
	const char *key;
	void (*write)(struct engine *g, struct jw *w); /* elements of an array */
};

struct engine_modules {
	const module_fn *init;
	const module_fn *stop; /* the daemon stops: nothing new begins */
	const module_fn *done;
	const module_fn *before_recovery;                        /* nothing of the log has been settled yet */
	const module_fn *recover;                                /* the ends of lost processes are durable */
	const module_fn *resume;                                 /* things may be started again */
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
	void (*process_event)(struct process *p, int event); /* enum process_event: the state machine */
	void (*process_finished)(struct process *p);         /* its end is durable */
	/* actions */
	const struct action_kind_ops *const *action_kinds; /* by enum action_kind */
};

/* Calls each function of a phase. */
void modules_run(struct engine *g, const module_fn *phase);
/* A fact of this type was added to the batch: offers it to the modules above. */
void fact_added(struct engine *g, enum event_type type, const void *subject, struct store_batch *b);
/* A fact of this type is durable. */
void fact_committed(struct engine *g, enum event_type type, const void *subject);

#endif
