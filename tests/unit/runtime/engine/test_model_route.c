/* The choice of a model for a request, and its reservation in budgets. */

#include "runtime/engine/model/model_route.h"

#include "policy/model_list.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/dialect/dialect.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/model/model.h"
#include "runtime/engine/model/reservation.h"
#include "tests/unit/runtime/engine/fake_host.h"
#include "tests/unit/suite.h"

#include <string.h>

/* 1 USD for a million tokens of input, 10 for output; a cache write costs 2. */
#define PRICE "\"price\":{\"inputPerMTok\":1,\"outputPerMTok\":10,\"cachedPerMTok\":0.1,\"cacheWritePerMTok\":2}"
static const char policy[] = "{\"models\":["
			     "{\"provider\":\"big\",\"model\":\"m\"," PRICE "},"
			     "{\"provider\":\"elsewhere\",\"model\":\"m\"},"
			     "{\"provider\":\"old\",\"model\":\"m\",\"disabled\":\"retired\"," PRICE "}],"
			     "\"limits\":{\"budgets\":[{\"name\":\"daily\",\"window\":\"day\",\"usd\":1}]}}";

static struct fake_host w;
static struct fake_reply reply;
static struct model_list models;
static struct scope turn;
static struct model_choice choice;
static struct err e;
static char ids[3][ID_SIZE];

static void add(const char *name, uint64_t context)
{
	const struct model_registration r = {
		.name = name, .base_url = "http://127.0.0.1:1/v1", .model = "m", .context_tokens = context
	};

	fake_advance(&w, 1); /* models are ordered by their times */
	engine_add_model(w.engine, &r, &fake_caller, fake_reply_fn, &reply);
	fake_settle(&w);
	ck_assert_msg(reply.code == 0, "%s", reply.message);
}

static void set_up(void)
{
	fake_open(&w);
	reply = (struct fake_reply){ 0 };
	models = (struct model_list){ 0 };
	e = ERR_INIT;
	ck_assert_int_eq(model_list_parse(&models, "policy.json", policy, strlen(policy), &e), 0);
	engine_set_models(w.engine, &models);
	struct start_request run = fake_request(&w, "true");
	(void)fake_run(&w, &run, &reply);
	struct jval started = jval_of(reply.json.data, reply.json.len);
	static const char *const members[] = { "sessionId", "threadId", "turnId" };
	for (size_t i = 0; i < countof(members); i++)
		jval_str(jval_get(started, members[i]), ids[i], ID_SIZE);
	turn = (struct scope){
		.uid = fake_caller.uid, .session = ids[0], .thread = ids[1], .turn = ids[2], .model_request = "req_1"
	};
	choice = MODEL_CHOICE_INIT;
}

static void tear_down(void)
{
	model_choice_done(&choice);
	ck_assert(fake_verified(&w));
	engine_set_models(w.engine, NULL);
	model_list_done(&models);
	fake_close(&w);
	buf_done(&reply.json);
}

static struct model_route_ask ask_for(const char *requested)
{
	return (struct model_route_ask){
		.scope = turn, .requested = requested, .input_tokens = 10000, .output_tokens = 1000, .max_cost_usd = -1
	};
}

/* Routes, commits the facts, and returns the name of the model or NULL. */
static const char *route(const struct model_route_ask *a)
{
	struct transaction *tx = transaction_new_internal(w.engine);

	model_choice_done(&choice);
	choice = MODEL_CHOICE_INIT;
	e = ERR_INIT;
	int r = model_route(tx, a, &choice, &e);
	transaction_commit(tx);
	fake_settle(&w);
	return r == 0 ? choice.config.name : NULL;
}

static void settle(const char *request_id, struct dialect_usage u)
{
	struct transaction *tx = transaction_new_internal(w.engine);
	struct scope s = turn;

	s.model_request = request_id;
	u.cost_usd = -1;
	EMIT(model_completed, tx, s, .stopReason = "end_turn");
	model_settle(tx, &s, &choice.config, &u);
	transaction_commit(tx);
	fake_settle(&w);
}

static uint64_t reserved(void) { return reservation_sum(w.engine, turn.uid, NULL, NULL).micro_usd; }

START_TEST(the_default_is_chosen_and_the_chain_follows_the_policy)
{
	struct model_route_ask a = ask_for(NULL);

	ck_assert_ptr_null(route(&a));
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
	add("free", 0);
	add("other", 0);
	add("big", 0);
	ck_assert_str_eq(route(&a), "free");
	ck_assert_uint_eq(fake_count(&w, "routing.decided"), 1);
	mem_auto char *set = fake_event(&w, "routing.candidates.resolved");
	ck_assert_ptr_nonnull(strstr(set, "not_registered"));
	/* The next request goes to the same model: nothing is decided. */
	ck_assert_str_eq(route(&a), "free");
	ck_assert_uint_eq(fake_count(&w, "routing.decided"), 1);
	ck_assert_uint_eq(fake_count(&w, "task.profile.resolved"), 1);
	/* After a failure the policy's models come first. */
	const char *failed[] = { "free", "big" };
	a.failed = failed;
	a.nfailed = 1;
	a.failed_reason = "overloaded";
	ck_assert_str_eq(route(&a), "big");
	ck_assert_uint_eq(fake_count(&w, "routing.fallback.applied"), 1);
	a.nfailed = 2;
	ck_assert_str_eq(route(&a), "other");
	a.fallback = FALLBACK_NONE;
	ck_assert_ptr_null(route(&a));
	ck_assert_str_eq(choice.category, "model");
	ck_assert_uint_eq(fake_count(&w, "routing.not_possible"), 1);
	a = ask_for("big");
	ck_assert_str_eq(route(&a), "big");
	a = ask_for("none");
	ck_assert_ptr_null(route(&a));
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
}
END_TEST

START_TEST(a_request_reserves_the_most_that_it_can_cost)
{
	struct model_route_ask a = ask_for(NULL);

	add("big", 0);
	ck_assert_str_eq(route(&a), "big");
	/* Up to 10,000 tokens written to the cache, and 1,000 of output. */
	ck_assert_uint_eq(choice.reserved_micro_usd, 20000 + 10000);
	ck_assert_uint_eq(choice.max_output_tokens, 1000);
	ck_assert_uint_eq(reserved(), 30000);
	settle("req_1", (struct dialect_usage){ .known = true, .input = 10000, .cached = 9000, .output = 100 });
	ck_assert_uint_eq(reserved(), 0);
	mem_auto char *cost = fake_event(&w, "cost.recorded");
	ck_assert_uint_eq(jval_uint(jval_path(jval_of(cost, strlen(cost)), "payload.microUsd"), 0), 1000 + 900 + 1000);
	ck_assert(jval_is_str(jval_path(jval_of(cost, strlen(cost)), "payload.basis"), "price_table"));
}
END_TEST

START_TEST(open_requests_share_a_budget)
{
	struct model_route_ask a = ask_for(NULL);

	add("big", 0);
	/* 0.6 of 1 USD each: the second answer is limited to what is left, the third request is not sent. */
	a.input_tokens = 100000;
	a.output_tokens = 40000;
	ck_assert_str_eq(route(&a), "big");
	a.scope.model_request = "req_2";
	ck_assert_str_eq(route(&a), "big");
	ck_assert_uint_eq(choice.max_output_tokens, 20000);
	ck_assert_uint_eq(reserved(), 1000000);
	a.scope.model_request = "req_3";
	ck_assert_ptr_null(route(&a));
	ck_assert_str_eq(choice.category, "budget");
	ck_assert_int_eq(e.code, ERR_EXHAUSTED);
	ck_assert_ptr_nonnull(strstr(e.message, "daily"));
	ck_assert_uint_ne(choice.reset_us, 0);
	/* One of them ends and was cheap. */
	reservation_release(w.engine, "req_1");
	ck_assert_str_eq(route(&a), "big");
	/* A free model is not affected. */
	add("free", 0);
	a = ask_for("free");
	ck_assert_str_eq(route(&a), "free");
	ck_assert_uint_eq(choice.reserved_micro_usd, 0);
}
END_TEST

START_TEST(limits_of_the_turn_count_what_is_used_and_reserved)
{
	struct model_route_ask a = ask_for(NULL);

	add("big", 0);
	a.max_cost_usd = 0.05;
	ck_assert_str_eq(route(&a), "big");
	settle("req_1", (struct dialect_usage){ .known = true, .input = 10000, .output = 1000 });
	/* 0.02 are used. Of the other 0.03 the input may take 0.02. */
	a.output_tokens = 5000;
	a.scope.model_request = "req_2";
	ck_assert_str_eq(route(&a), "big");
	ck_assert_uint_eq(choice.max_output_tokens, 1000);
	a.scope.model_request = "req_3";
	ck_assert_ptr_null(route(&a));
	ck_assert_str_eq(choice.category, "limit");
	ck_assert_str_eq(e.field, "limits.maxCostUsd");
	reservation_release(w.engine, "req_2");
	/* 11,000 tokens are used. */
	a.max_cost_usd = -1;
	a.max_tokens = 22000;
	ck_assert_str_eq(route(&a), "big");
	ck_assert_uint_eq(choice.max_output_tokens, 1000);
	reservation_release(w.engine, "req_3");
	a.max_tokens = 21000;
	ck_assert_ptr_null(route(&a));
	ck_assert_str_eq(e.field, "limits.maxTokens");
}
END_TEST

START_TEST(a_cost_limit_needs_a_price)
{
	struct model_route_ask a = ask_for(NULL);

	add("free", 0);
	a.max_cost_usd = 1;
	ck_assert_ptr_null(route(&a));
	ck_assert_str_eq(choice.category, "price");
	ck_assert_str_eq(e.field, "limits.maxCostUsd");
	/* A model that has a price is used instead. */
	add("big", 0);
	ck_assert_str_eq(route(&a), "big");
}
END_TEST

START_TEST(the_answer_is_limited_to_the_context)
{
	struct model_route_ask a = ask_for(NULL);

	add("free", 10500);
	ck_assert_str_eq(route(&a), "free");
	ck_assert_uint_eq(choice.max_output_tokens, 500);
	a.input_tokens = 10400;
	ck_assert_ptr_null(route(&a));
	ck_assert_str_eq(choice.category, "context");
}
END_TEST

START_TEST(a_limited_model_is_avoided_until_it_resets)
{
	struct model_route_ask a = ask_for(NULL);

	add("free", 0);
	add("big", 0);
	ck_assert_str_eq(route(&a), "free");
	struct transaction *tx = transaction_new_internal(w.engine);
	const uint64_t reset = engine_real(w.engine) + 60000000;
	model_limited(tx, &turn, &choice.config, "rate_limit", reset);
	transaction_commit(tx);
	fake_settle(&w);
	ck_assert_uint_eq(fake_count(&w, "rate_limit.hit"), 1);
	ck_assert_str_eq(route(&a), "big");
	a.requested = "free";
	a.fallback = FALLBACK_NONE;
	ck_assert_ptr_null(route(&a));
	ck_assert_str_eq(choice.category, "rate_limit");
	ck_assert_uint_eq(choice.reset_us, reset);
}
END_TEST

START_TEST(a_failed_request_ends_its_reservation_and_estimates_are_marked)
{
	struct model_route_ask a = ask_for(NULL);

	add("big", 0);
	ck_assert_str_eq(route(&a), "big");
	struct transaction *tx = transaction_new_internal(w.engine);
	const struct dialect_usage lost = { .input = 10000, .output = 10, .estimated = true, .cost_usd = -1 };
	EMIT(model_failed, tx, turn, .category = "timeout");
	model_settle(tx, &turn, &choice.config, &lost);
	/* Until the commit the real cost is counted. */
	ck_assert_uint_eq(reserved(), 10100);
	transaction_commit(tx);
	fake_settle(&w);
	ck_assert_uint_eq(reserved(), 0);
	mem_auto char *cost = fake_event(&w, "cost.recorded");
	ck_assert(jval_is_str(jval_path(jval_of(cost, strlen(cost)), "payload.basis"), "estimated_usage"));
}
END_TEST

START_TEST(open_requests_are_reserved_again_after_a_restart)
{
	const struct model_registration known = { .name = "anthropic", .model = "claude-opus-4-6", .key_file = "/k" };
	struct transaction *tx = transaction_new_internal(w.engine);

	engine_add_model(w.engine, &known, &fake_caller, fake_reply_fn, &reply);
	fake_settle(&w);
	EMIT(model_requested, tx, turn, .modelRequestId = "req_1", .name = "anthropic",
	     .estimatedTokens = opt_int(1000));
	transaction_commit(tx);
	fake_settle(&w);
	const struct port_held held = { .id = fake_last(&w)->id, .attempt = 1, .started = true };
	fake_crash(&w);
	fake_reopen(&w, &held, 1);
	fake_settle(&w);
	/* Up to 1,000 tokens written to the cache at 6.25, and 32,000 of output at 25 USD. */
	ck_assert_uint_eq(reserved(), 6250 + 800000);
	tx = transaction_new_internal(w.engine);
	EMIT(model_failed, tx, turn, .category = "timeout");
	transaction_commit(tx);
	fake_settle(&w);
	ck_assert_uint_eq(reserved(), 0);
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "route", set_up, tear_down, 60,
		  SUITE_TESTS(the_default_is_chosen_and_the_chain_follows_the_policy,
			      a_request_reserves_the_most_that_it_can_cost, open_requests_share_a_budget,
			      limits_of_the_turn_count_what_is_used_and_reserved, a_cost_limit_needs_a_price,
			      the_answer_is_limited_to_the_context, a_limited_model_is_avoided_until_it_resets,
			      a_failed_request_ends_its_reservation_and_estimates_are_marked,
			      open_requests_are_reserved_again_after_a_restart) },
	};

	return suite_run_cases("model_route", cases, 1);
}
