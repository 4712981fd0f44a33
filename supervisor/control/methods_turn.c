#include "supervisor/control/methods.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/control/control.h"

#include <string.h>

#define WORD_MAX 64u
#define REASON_MAX 256u
#define SUMMARY_MAX 16384u
#define USAGE_MAX 8192u

static int check_length(const char *text, const char *field, size_t most, struct err *e)
{
	return text && strlen(text) > most ? err_field(e, field, "must have at most %zu bytes", most) : 0;
}

void method_submit_turn(struct call *c, const struct submit_turn_params *p)
{
	const struct turn_request r = {
		.session_id = p->sessionId,
		.thread_id = p->threadId,
		.turn_id = p->turnId,
		.input = p->input,
		.options = p->options.json,
		.metadata = p->metadata,
	};

	engine_submit_turn(call_engine(c), &r, &c->caller, call_engine_reply, c);
}

static bool check_verdict(struct call *c, const struct turn_verdict *v)
{
	struct err e = ERR_INIT;

	if (v->usage_json && strlen(v->usage_json) > USAGE_MAX)
		err_field(&e, "usage", "must have at most %u bytes as JSON", USAGE_MAX);
	else if (check_length(v->outcome, "outcome", WORD_MAX, &e) == 0 &&
		 check_length(v->category, "category", WORD_MAX, &e) == 0 &&
		 check_length(v->message, "message", SUMMARY_MAX, &e) == 0 &&
		 check_length(v->summary, "summary", SUMMARY_MAX, &e) == 0)
		return true;
	call_fail(c, &e);
	return false;
}

void method_complete_turn(struct call *c, const struct complete_turn_params *p)
{
	mem_auto char *usage_json = p->usage ? json_dumps(p->usage, JSON_COMPACT) : NULL;
	const struct turn_verdict v = {
		.turn_id = p->turnId, .outcome = p->outcome, .summary = p->summary, .usage_json = usage_json
	};

	if (check_verdict(c, &v))
		engine_complete_turn(call_engine(c), &v, &c->caller, call_engine_reply, c);
}

void method_fail_turn(struct call *c, const struct fail_turn_params *p)
{
	const struct turn_verdict v = {
		.turn_id = p->turnId, .category = p->category, .message = p->message, .retryable = p->retryable.value
	};

	if (check_verdict(c, &v))
		engine_fail_turn(call_engine(c), &v, &c->caller, call_engine_reply, c);
}

/* False when the call was answered because the reason is too long. */
static bool check_reason(struct call *c, const char *reason)
{
	struct err e = ERR_INIT;

	if (check_length(reason, "reason", REASON_MAX, &e) == 0)
		return true;
	call_fail(c, &e);
	return false;
}

void method_interrupt_turn(struct call *c, const struct interrupt_turn_params *p)
{
	const struct turn_interrupt r = {
		.reason = p->reason,
		.session_id = p->sessionId,
		.thread_id = p->threadId,
		.turn_id = p->turnId,
		.clear_queue = p->clearQueue.value,
	};

	if (check_reason(c, p->reason))
		engine_interrupt_turn(call_engine(c), &r, &c->caller, call_engine_reply, c);
}

void method_remove_queued_turn(struct call *c, const struct remove_queued_turn_params *p)
{
	if (check_reason(c, p->reason))
		engine_remove_queued_turn(call_engine(c), p->turnId, p->reason, &c->caller, call_engine_reply, c);
}

void method_promote_queued_turn(struct call *c, const struct promote_queued_turn_params *p)
{
	engine_promote_queued_turn(call_engine(c), p->turnId, &c->caller, call_engine_reply, c);
}
