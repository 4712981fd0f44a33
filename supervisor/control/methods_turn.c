#include "supervisor/control/methods.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/control/control.h"

#include <string.h>

#define WORD_MAX 64u
#define REASON_MAX 256u
#define SUMMARY_MAX 16384u
#define USAGE_MAX 8192u

static int check_lengths(const struct call *c, const char *const *names, const size_t *most, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		const char *text = call_str(c, names[i]);

		if (text && strlen(text) > most[i])
			return err_field(e, names[i], "must have at most %zu bytes", most[i]);
	}
	return 0;
}

void method_submit_turn(struct call *c)
{
	const struct turn_request r = {
		.session_id = call_str(c, "sessionId"),
		.thread_id = call_str(c, "threadId"),
		.turn_id = call_str(c, "turnId"),
		.input = json_object_get(c->params, "input"),
		.options = call_obj(c, "options"),
		.metadata = call_obj(c, "metadata"),
	};

	engine_submit_turn(call_engine(c), &r, &c->caller, call_engine_reply, c);
}

static void verdict(struct call *c, bool failed)
{
	static const char *const names[] = { "outcome", "category", "message", "summary" };
	static const size_t most[] = { WORD_MAX, WORD_MAX, SUMMARY_MAX, SUMMARY_MAX };
	json_t *usage = call_obj(c, "usage");
	mem_auto char *usage_json = usage ? json_dumps(usage, JSON_COMPACT) : NULL;
	const struct turn_verdict v = {
		.turn_id = call_str(c, "turnId"),
		.outcome = call_str(c, "outcome"),
		.summary = call_str(c, "summary"),
		.usage_json = usage_json,
		.category = call_str(c, "category"),
		.message = call_str(c, "message"),
		.retryable = call_bool(c, "retryable", false),
	};
	struct err e = ERR_INIT;

	if (usage_json && strlen(usage_json) > USAGE_MAX)
		err_field(&e, "usage", "must have at most %u bytes as JSON", USAGE_MAX);
	if (e.code || check_lengths(c, names, most, countof(names), &e) < 0)
		call_fail(c, &e);
	else if (failed)
		engine_fail_turn(call_engine(c), &v, &c->caller, call_engine_reply, c);
	else
		engine_complete_turn(call_engine(c), &v, &c->caller, call_engine_reply, c);
}

void method_complete_turn(struct call *c) { verdict(c, false); }

void method_fail_turn(struct call *c) { verdict(c, true); }

/* The reason, if it is short enough; false when the call was answered because it is not. */
static bool take_reason(struct call *c, const char **ret)
{
	static const char *const names[] = { "reason" };
	static const size_t most[] = { REASON_MAX };
	struct err e = ERR_INIT;

	*ret = call_str(c, "reason");
	if (check_lengths(c, names, most, 1, &e) == 0)
		return true;
	call_fail(c, &e);
	return false;
}

void method_interrupt_turn(struct call *c)
{
	struct turn_interrupt r = {
		.session_id = call_str(c, "sessionId"),
		.thread_id = call_str(c, "threadId"),
		.turn_id = call_str(c, "turnId"),
		.clear_queue = call_bool(c, "clearQueue", false),
	};

	if (take_reason(c, &r.reason))
		engine_interrupt_turn(call_engine(c), &r, &c->caller, call_engine_reply, c);
}

void method_remove_queued_turn(struct call *c)
{
	const char *reason;

	if (take_reason(c, &reason))
		engine_remove_queued_turn(call_engine(c), call_str(c, "turnId"), reason, &c->caller, call_engine_reply,
					  c);
}

void method_promote_queued_turn(struct call *c)
{
	engine_promote_queued_turn(call_engine(c), call_str(c, "turnId"), &c->caller, call_engine_reply, c);
}
