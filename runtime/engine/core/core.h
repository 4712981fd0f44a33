#ifndef BAILIFF_ENGINE_CORE_H
#define BAILIFF_ENGINE_CORE_H

/*
 * The core of the engine, for its modules: struct engine with its clock and the inputs from the host, facts, replies
 * and the table of modules. Each module keeps its state behind a pointer to an incomplete type; only the module's own
 * header or source file completes it, so no other module can read that state.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/strmap.h"
#include "runtime/engine/core/engine.h"
#include "runtime/engine/core/fact.h"
#include "runtime/engine/core/module.h"
#include "runtime/engine/core/ports.h"
#include "runtime/engine/core/reply.h"
#include "runtime/engine/core/transaction.h"
#include "runtime/store/store.h"

#include <sys/queue.h>

struct engine {
	struct engine_options o;
	const struct engine_modules *modules;
	char boot_id[40];
	char system_session[ID_SIZE], system_thread[ID_SIZE], system_turn[ID_SIZE];
	bool stopping;
	bool model_requested; /* an event of this runtime may have opened a model request */
	bool turns_queued;    /* an event of this runtime has put a turn into a queue */
	bool store_full;      /* when the store was last checked */
	uint64_t full_reported_ns;
	struct engine_counts counts;
	/* Contents of the policy files, as the host parsed them. Borrowed from the host; each may be NULL. */
	const struct policy_profiles *profiles;
	uint64_t profiles_generation; /* counts engine_set_profiles: the policy may have changed what `profiles` points
					 to */
	const struct model_list *models;
	const struct policy_rules *rules;
	const struct policy_hooks *hooks;
	char policy_problem[256]; /* why the files cannot be used; "" = they can */
	LIST_HEAD(, reply_context) reply_contexts;

	/* State of the modules. Each module allocates its own in its INIT row and frees it in its DONE row. */
	struct policy_state *policy;
	struct session_state *sessions;
	struct tool_state *tools;
	struct process_table *processes;
	struct action_state *actions;
	struct hook_state *hook;
	struct permission_state *permissions;
	struct call_state *calls;
	struct mcp_server_state *mcp_servers;
	struct turn_state *turns;
	struct work_state *work;
	struct loop_state *loop;
	struct channel_state *channels;
	struct sandbox_state *sandboxes;
	struct reservation_table *reservations;
	char *budgets; /* of the policy, as model/ reported them last */
};

static inline uint64_t engine_now(struct engine *engine) { return engine->o.ports->boot_ns(engine->o.host); }
static inline uint64_t engine_real(struct engine *engine) { return engine->o.ports->real_us(engine->o.host); }
/* Requests engine_tick at this time (CLOCK_BOOTTIME). */
void engine_wake(struct engine *engine, uint64_t boot_ns);

/* Creates an engine with this table of modules. engine_new (modules.c) passes the table of all modules. */
struct engine *engine_create(const struct engine_options *o, const struct engine_modules *modules);

#endif
