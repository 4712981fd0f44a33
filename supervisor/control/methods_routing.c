#include "supervisor/control/methods.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/engine/model/routing_facts.h"
#include "supervisor/control/control.h"

#define NAME_MAX_BYTES 64u
#define CAPABILITIES_MAX 64u

static int check_name(const char *field, const char *s, struct err *e)
{
	if (s && (!*s || strlen(s) > NAME_MAX_BYTES))
		return err_field(e, field, "must have 1 to %u bytes", NAME_MAX_BYTES);
	return 0;
}

/* ---- resolve_routing ---- */

/* The profile as it is recorded: with its defaults, so that a reader need not know them. */
static char *profile_text(json_t *profile, const struct routing_request *want)
{
	json_auto_t *whole = profile ? json_deep_copy(profile) : json_object();

	if (!json_object_get(whole, "kind"))
		json_object_set_new(whole, "kind", json_string("unknown"));
	if (!json_object_get(whole, "requiredCapabilities"))
		json_object_set_new(whole, "requiredCapabilities", json_array());
	json_object_set_new(whole, "budgetClass", json_string(budget_class_name(want->budget_class)));
	json_object_set_new(whole, "fallbackPolicy", json_string(fallback_policy_name(want->fallback)));
	return json_dumps(whole, JSON_COMPACT);
}

static int read_request(const struct resolve_routing_params *p, const char **capability, struct routing_request *ret,
			struct err *e)
{
	const struct taskProfile_members *profile = &p->taskProfile;
	const json_t *list = profile->requiredCapabilities, *v;
	const char *latency = profile->latencyTarget, *class = profile->budgetClass,
		   *fallback = profile->fallbackPolicy;
	struct routing_request r = {
		.kind = profile->kind,
		.capability = capability,
		.latency = latency ? (enum model_latency)model_latency_find(latency) : LATENCY_COUNT,
		.budget_class = class ? (enum budget_class)budget_class_find(class) : BUDGET_HIGH,
		.fallback = fallback ? (enum fallback_policy)fallback_policy_find(fallback) : FALLBACK_NEXT,
		.provider = p->requested.provider,
		.model = p->requested.model,
		.failed_provider = p->failed.provider,
		.failed_model = p->failed.model,
		.input_tokens = profile->inputTokens.value,
		.output_tokens = profile->outputTokens.value,
	};

	if (json_array_size(list) > CAPABILITIES_MAX)
		return err_field(e, "taskProfile.requiredCapabilities", "must have at most %u words", CAPABILITIES_MAX);
	json_array_foreach (list, r.ncapability, v)
		capability[r.ncapability] = json_string_value(v);
	if (check_name("taskProfile.kind", r.kind, e) < 0 || check_name("requested.provider", r.provider, e) < 0 ||
	    check_name("requested.model", r.model, e) < 0)
		return -1;
	*ret = r;
	return 0;
}

void method_resolve_routing(struct call *c, const struct resolve_routing_params *p)
{
	const char *capability[CAPABILITIES_MAX];
	struct routing_ask r = {
		.turn_id = p->turnId,
		.task_id = p->taskId,
		.failed_request_id = p->failed.modelRequestId,
		.failed_reason = p->failed.reason,
	};
	struct err e = ERR_INIT;

	if (read_request(p, capability, &r.want, &e) < 0) {
		call_fail(c, &e);
		return;
	}
	mem_auto char *profile = profile_text(p->taskProfile.json, &r.want);
	r.profile_json = profile;
	r.profile_len = strlen(profile);
	engine_resolve_routing(call_engine(c), &r, &c->caller, call_engine_reply, c);
}

/* ---- record_cost, record_limit ---- */

void method_record_cost(struct call *c, const struct record_cost_params *p)
{
	const struct cost_report r = {
		.turn_id = p->turnId,
		.provider = p->provider,
		.model = p->model,
		.model_request_id = p->modelRequestId,
		.input_tokens = p->inputTokens.value,
		.output_tokens = p->outputTokens.value,
		.cached_tokens = p->cachedTokens.value,
		.usd = p->costUsd.given ? p->costUsd.value : -1,
		.estimate = p->estimate.value,
	};
	struct err e = ERR_INIT;

	if (p->costUsd.given && (!(r.usd >= 0) || r.usd > 1e6))
		err_field(&e, "costUsd", "must be 0 to 1000000 US dollars");
	else if (r.input_tokens > 1ull << 40 || r.output_tokens > 1ull << 40)
		err_field(&e, r.input_tokens > 1ull << 40 ? "inputTokens" : "outputTokens",
			  "is larger than any request can be");
	else if (r.cached_tokens > r.input_tokens)
		err_field(&e, "cachedTokens", "cannot be more than inputTokens");
	else if (check_name("provider", r.provider, &e) == 0 && check_name("model", r.model, &e) == 0) {
		engine_record_cost(call_engine(c), &r, &c->caller, call_engine_reply, c);
		return;
	}
	call_fail(c, &e);
}

void method_record_limit(struct call *c, const struct record_limit_params *p)
{
	const struct limit_report r = {
		.turn_id = p->turnId,
		.provider = p->provider,
		.model = p->model,
		.kind = p->kind,
		.state = p->state,
		.reset_at = p->resetAt,
		.has_remaining = p->remaining.given,
		.remaining = p->remaining.value,
	};
	struct err e = ERR_INIT;
	uint64_t at;

	if (r.reset_at && clock_parse(r.reset_at, &at) < 0)
		err_field(&e, "resetAt", "expected a time as in 2026-11-15T02:00:00Z");
	else if (check_name("provider", r.provider, &e) == 0 && check_name("model", r.model, &e) == 0) {
		engine_record_limit(call_engine(c), &r, &c->caller, call_engine_reply, c);
		return;
	}
	call_fail(c, &e);
}
