/*
 * The table of modules: the only file that includes the headers of all of them.
 *
 * Each list below is built by including modules.def with one macro defined; the file gives all others an empty
 * definition and undefines every macro at its end. A module below another one thus calls it through this table, without
 * a header of it, and the compiler still checks the type of each function.
 */

#include "runtime/engine/action/action.h"
#include "runtime/engine/call/mcp_server.h"
#include "runtime/engine/call/process_tools.h"
#include "runtime/engine/call/tool_call.h"
#include "runtime/engine/channel/channel.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/hook/hook.h"
#include "runtime/engine/loop/loop.h"
#include "runtime/engine/model/model.h"
#include "runtime/engine/model/model_route.h"
#include "runtime/engine/model/reservation.h"
#include "runtime/engine/permission/permission.h"
#include "runtime/engine/policy/policy_lookup.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/sandbox/sandbox.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/session/turn_owner.h"
#include "runtime/engine/session/waiter.h"
#include "runtime/engine/start/start.h"
#include "runtime/engine/tool/tool.h"
#include "runtime/engine/turn/turn.h"
#include "runtime/engine/work/work.h"

#define PROCESS_OWNER(NAME, ops) extern const struct process_owner_ops ops;
#define ACTION_OPS(NAME, ops) extern const struct action_kind_ops ops;
#include "runtime/engine/modules.def"

static const module_fn init[] = {
#define INIT(fn) fn,
#include "runtime/engine/modules.def"
	NULL
};
static const module_fn stop[] = {
#define STOP(fn) fn,
#include "runtime/engine/modules.def"
	NULL
};
static const module_fn done[] = {
#define DONE(fn) fn,
#include "runtime/engine/modules.def"
	NULL
};
static const module_fn before_recovery[] = {
#define BEFORE_RECOVERY(fn) fn,
#include "runtime/engine/modules.def"
	NULL
};
static const module_fn recover[] = {
#define RECOVER(fn) fn,
#include "runtime/engine/modules.def"
	NULL
};
static const module_fn resume[] = {
#define RESUME(fn) fn,
#include "runtime/engine/modules.def"
	NULL
};
static const module_fn connected[] = {
#define CONNECTED(fn) fn,
#include "runtime/engine/modules.def"
	NULL
};
static uint64_t (*const tick[])(struct engine *engine, uint64_t now) = {
#define TICK(fn) fn,
#include "runtime/engine/modules.def"
	NULL
};
static void (*const disconnected[])(struct engine *engine, uint64_t connection) = {
#define DISCONNECTED(fn) fn,
#include "runtime/engine/modules.def"
	NULL
};
static int (*const may_start[])(struct engine *engine, const struct start_request *r, struct err *e) = {
#define MAY_START(fn) fn,
#include "runtime/engine/modules.def"
	NULL
};
static void (*const over[])(struct engine *engine, const struct process_over *x) = {
#define PROCESS_OVER(fn) fn,
#include "runtime/engine/modules.def"
	NULL
};
/* Reactions with the type of their payload: the envelope is its first member. */
#define ON_FACT(TYPE, type, fn)                                                                              \
	static void call_##fn(struct transaction *tx, const struct scope *s, const struct envelope *payload) \
	{                                                                                                    \
		fn(tx, s, (const struct type *)payload);                                                     \
	}
#include "runtime/engine/modules.def"
static const struct fact_reaction on_fact[] = {
#define ON_FACT(TYPE, type, fn) { EVENT_##TYPE, call_##fn },
#include "runtime/engine/modules.def"
	{ 0 }
};
static void (*const due[DUE_WORK_COUNT])(struct engine *engine, const char *id) = {
#define DUE(WORK, fn) [DUE_##WORK] = fn,
#include "runtime/engine/modules.def"
};
static const struct reconstructed_member reconstructed[] = {
#define RECONSTRUCTED(key, fn) { key, fn },
#include "runtime/engine/modules.def"
	{ 0 }
};
static const struct process_owner_ops *const owners[OWNER_KIND_COUNT] = {
#define PROCESS_OWNER(NAME, ops) [OWNER_##NAME] = &(ops),
#include "runtime/engine/modules.def"
};
static const struct action_kind_ops *const kinds[ACTION_KIND_COUNT] = {
#define ACTION_OPS(NAME, ops) [ACTION_KIND_##NAME] = &(ops),
#include "runtime/engine/modules.def"
};

static const struct engine_modules modules = {
	.init = init,
	.stop = stop,
	.done = done,
	.before_recovery = before_recovery,
	.recover = recover,
	.resume = resume,
	.tick = tick,
	.connected = connected,
	.disconnected = disconnected,
	.on_fact = on_fact,
	.due = due,
#define SESSION_CREATED(fn) .session_created = fn,
#define HOOK_STOP(fn) .hook_stop = fn,
#define TURN_DRIVER(fn) .turn_driver = fn,
#include "runtime/engine/modules.def"
	.reconstructed = reconstructed,
	.process_owners = owners,
	.may_start = may_start,
	.process_over = over,
	.start = engine_start_process,
	.process_event = process_handle_event,
	.process_finished = start_process_finished,
	.action_kinds = kinds,
};

struct engine *engine_new(const struct engine_options *o) { return engine_create(o, &modules); }
