/* Model routing: the chosen model, and why each other one was excluded. */

#include "tests/unit/suite.h"

#include "policy/known_model.h"
#include "policy/routing.h"
#include "runtime/base/err.h"

#include <string.h>

static const char file[] =
	"{\"models\":["
	"{\"provider\":\"a\",\"model\":\"big\",\"capabilities\":[\"tools\",\"vision\"],\"latency\":\"slow\","
	"\"budgetClass\":\"high\","
	"\"price\":{\"inputPerMTok\":10,\"outputPerMTok\":50},\"contextTokens\":1000},"
	"{\"provider\":\"a\",\"model\":\"small\",\"capabilities\":[\"tools\"],\"latency\":\"fast\",\"budgetClass\":"
	"\"low\","
	"\"price\":{\"inputPerMTok\":1,\"outputPerMTok\":5,\"cachedPerMTok\":0.1}},"
	"{\"provider\":\"b\",\"model\":\"free\",\"capabilities\":[\"tools\"]},"
	"{\"provider\":\"b\",\"model\":\"old\",\"capabilities\":[\"tools\",\"vision\"],\"disabled\":\"retired\"}],"
	"\"limits\":{\"budgets\":[{\"name\":\"daily\",\"window\":\"day\",\"usd\":2.5}]}}";

static struct model_list models;
static const char *limited; /* the model that is rate limited */

static void setup(void)
{
	struct err e = ERR_INIT;

	limited = NULL;
	model_list_done(&models);
	models = (struct model_list){ 0 };
	ck_assert_msg(model_list_parse(&models, "policy.json", file, strlen(file), &e) == 0, "%s", e.message);
}

static void limits(void *ctx, const struct policy_model *m, struct routing_limits *ret)
{
	if (limited && strcmp(m->model, limited) == 0)
		ret->rate_limited = true;
}

static const char *chosen(const struct routing_request *r, struct routing_outcome *o)
{
	routing_decide(&models, r, limits, NULL, o);
	return o->eligible ? o->candidate[0].model->model : NULL;
}

static enum routing_exclusion exclusion_of(const struct routing_outcome *o, const char *model)
{
	for (size_t i = 0; i < o->count; i++)
		if (strcmp(o->candidate[i].model->model, model) == 0)
			return o->candidate[i].excluded;
	ck_abort_msg("%s was not weighed", model);
	return ROUTING_FITS;
}

static const struct routing_request any = { .latency = LATENCY_COUNT, .budget_class = BUDGET_HIGH };

START_TEST(models_are_preferred_in_the_order_of_the_policy)
{
	struct routing_outcome o;

	setup();
	ck_assert_str_eq(chosen(&any, &o), "big");
	ck_assert_int_eq(o.mode, ROUTING_RANKED);
	ck_assert_uint_eq(o.eligible, 3);
	ck_assert_int_eq(exclusion_of(&o, "old"), ROUTING_DISABLED);
}
END_TEST

START_TEST(missing_capabilities_and_budget_exclude_models)
{
	const char *const vision[] = { "vision" };
	struct routing_request r = any;
	struct routing_outcome o;

	setup();
	r.capability = vision;
	r.ncapability = 1;
	ck_assert_str_eq(chosen(&r, &o), "big");
	ck_assert_int_eq(o.mode, ROUTING_SINGLE);
	ck_assert_int_eq(exclusion_of(&o, "small"), ROUTING_CAPABILITY_MISSING);
	r.budget_class = BUDGET_STANDARD;
	ck_assert_ptr_null(chosen(&r, &o));
	ck_assert_int_eq(o.mode, ROUTING_NOT_POSSIBLE);
	ck_assert_int_eq(exclusion_of(&o, "big"), ROUTING_TOO_DEAR);
	ck_assert(o.requires_override);
}
END_TEST

START_TEST(a_requested_model_comes_first_and_without_fallback_is_the_only_one)
{
	struct routing_request r = any;
	struct routing_outcome o;

	setup();
	r.provider = "b";
	r.model = "free";
	ck_assert_str_eq(chosen(&r, &o), "free");
	ck_assert_int_eq(o.mode, ROUTING_REQUESTED);
	limited = "free";
	ck_assert_str_eq(chosen(&r, &o), "big");
	r.fallback = FALLBACK_NONE;
	ck_assert_ptr_null(chosen(&r, &o));
	ck_assert_int_eq(exclusion_of(&o, "big"), ROUTING_NOT_REQUESTED);
	ck_assert_int_eq(exclusion_of(&o, "free"), ROUTING_RATE_LIMITED);
}
END_TEST

START_TEST(models_are_ranked_by_latency_and_price)
{
	struct routing_request r = any;
	struct routing_outcome o;

	setup();
	r.latency = LATENCY_FAST;
	ck_assert_str_eq(chosen(&r, &o), "small");
	r = any;
	r.fallback = FALLBACK_CHEAPEST;
	r.input_tokens = r.output_tokens = 100;
	ck_assert_str_eq(chosen(&r, &o), "small");
	r.input_tokens = 5000;
	(void)chosen(&r, &o);
	ck_assert_int_eq(exclusion_of(&o, "big"), ROUTING_CONTEXT_TOO_SMALL);
}
END_TEST

START_TEST(a_failed_model_is_not_chosen_again)
{
	struct routing_request r = any;
	struct routing_outcome o;

	setup();
	r.failed_provider = "a";
	r.failed_model = "big";
	ck_assert_str_eq(chosen(&r, &o), "small");
	ck_assert_int_eq(o.mode, ROUTING_FALLBACK);
	ck_assert_int_eq(exclusion_of(&o, "big"), ROUTING_FAILED_BEFORE);
}
END_TEST

#define price(m, ...) model_price_of(&(m)->price, &(struct model_tokens){ __VA_ARGS__ })

START_TEST(prices_are_exact_and_rounded_up)
{
	setup();
	const struct policy_model *m = model_list_find(&models, "a", "small");

	ck_assert_uint_eq(price(m, .input = 1000000), 1000000);
	ck_assert_uint_eq(price(m, .input = 1000000, .output = 1000000, .cached = 500000), 500000 + 50000 + 5000000);
	ck_assert_uint_eq(price(m, .input = 1, .cached = 1), 1);
	ck_assert_uint_eq(models.budget[0].micro_usd, 2500000);
}
END_TEST

START_TEST(cache_writes_and_tiers_have_their_own_prices)
{
	static const char text[] =
		"{\"models\":[{\"provider\":\"c\",\"model\":\"m\",\"price\":{\"inputPerMTok\":4,\"outputPerMTok\":20,"
		"\"cachedPerMTok\":0.4,\"cacheWritePerMTok\":5,\"cacheWrite1hPerMTok\":8,"
		"\"above\":{\"tokens\":200000,\"inputPerMTok\":8,\"outputPerMTok\":30}}}]}";
	struct model_list list = { 0 };
	struct err e = ERR_INIT;

	ck_assert_int_eq(model_list_parse(&list, "p", text, strlen(text), &e), 0);
	const struct policy_model *m = &list.model[0];
	/* 100,000 sent: 40,000 cached, 40,000 written, of which 10,000 for an hour, 20,000 neither. */
	ck_assert_uint_eq(price(m, .input = 100000, .output = 1000, .cached = 40000, .cache_write = 40000,
				.cache_write_1h = 10000),
			  16000 + 150000 + 80000 + 80000 + 20000);
	/* One token more than the tier's limit: everything costs more. A price that the tier does not list is that of
	 * input. */
	ck_assert_uint_eq(price(m, .input = 200000), 800000);
	ck_assert_uint_eq(price(m, .input = 200001, .cached = 200001, .output = 100), 1600008 + 3000);
	/* Cached and written tokens exceed the input. */
	ck_assert_uint_eq(price(m, .input = 10, .cached = 5, .cache_write = 100), 27);
	/* The highest price of 1,000 tokens is that of a cache write. */
	ck_assert_uint_eq(model_price_bound(&m->price, 1000, 100), 5000 + 2000);
	ck_assert_uint_eq(model_price_output(&m->price, 1000, 7000), 100);
	ck_assert_uint_eq(model_price_output(&m->price, 1000, 5000), 0);
	model_list_done(&list);
}
END_TEST

START_TEST(known_models_have_a_price_also_in_dated_versions)
{
	const struct known_model *opus = known_model_find("anthropic", "claude-opus-4-6");

	ck_assert_ptr_nonnull(opus);
	ck_assert_uint_eq(opus->price.base.input, 5000000);
	ck_assert_uint_eq(opus->price.base.cache_write, 6250000);
	ck_assert_uint_eq(opus->price.base.cache_write_1h, 10000000);
	ck_assert_ptr_eq(known_model_find("anthropic", "claude-opus-4-6-20260205"), opus);
	ck_assert_str_eq(known_model_find("openai", "gpt-5-2025-08-07")->model, "gpt-5");
	ck_assert_str_eq(known_model_find("openai", "gpt-5-mini")->model, "gpt-5-mini");
	ck_assert_ptr_null(known_model_find("openai", "gpt-5-max"));
	ck_assert_ptr_null(known_model_find("else", "claude-opus-4-6"));
	ck_assert_uint_eq(known_model_find("gemini", "gemini-2.5-pro")->price.above_tokens, 200000);
	ck_assert_str_eq(known_provider_of("openai-responses")->name, "openai");
	ck_assert_ptr_null(known_provider_find("acme"));
}
END_TEST

START_TEST(errors_name_the_field)
{
	static const struct {
		const char *text, *field;
	} bad[] = {
		{ "{\"models\":{}}", "models" },
		{ "{\"models\":[{\"provider\":\"a\"}]}", "models[0].model" },
		{ "{\"models\":[{\"provider\":\"a\",\"model\":\"b\",\"colour\":1}]}", "models[0].colour" },
		{ "{\"models\":[{\"provider\":\"a\",\"model\":\"b\",\"latency\":\"quick\"}]}", "models[0].latency" },
		{ "{\"models\":[{\"provider\":\"a\",\"model\":\"b\",\"price\":{\"inputPerMTok\":-1,\"outputPerMTok\":1}"
		  "}]}",
		  "models[0].inputPerMTok" },
		{ "{\"models\":[{\"provider\":\"a\",\"model\":\"b\",\"price\":{\"inputPerMTok\":1,\"outputPerMTok\":1,"
		  "\"cachePerMTok\":1}}]}",
		  "models[0].price" },
		{ "{\"models\":[{\"provider\":\"a\",\"model\":\"b\",\"price\":{\"inputPerMTok\":1,\"outputPerMTok\":1,"
		  "\"above\":{\"inputPerMTok\":1,\"outputPerMTok\":1}}}]}",
		  "models[0].price.above.tokens" },
		{ "{\"limits\":{\"budgets\":[{\"name\":\"x\"}]}}", "limits.budgets[0].usd" },
		{ "{\"limits\":{\"budgets\":[{\"name\":\"x\",\"usd\":1,\"scope\":\"session\",\"window\":\"day\"}]}}",
		  "limits.budgets[0].window" },
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct model_list m = { 0 };
		struct err e = ERR_INIT;

		ck_assert_int_eq(model_list_parse(&m, "policy.json", bad[i].text, strlen(bad[i].text), &e), -1);
		ck_assert_str_eq(e.field, bad[i].field);
		model_list_done(&m);
	}
}
END_TEST

int main(void)
{
	return SUITE("routing", models_are_preferred_in_the_order_of_the_policy,
		     missing_capabilities_and_budget_exclude_models,
		     a_requested_model_comes_first_and_without_fallback_is_the_only_one,
		     models_are_ranked_by_latency_and_price, a_failed_model_is_not_chosen_again,
		     prices_are_exact_and_rounded_up, cache_writes_and_tiers_have_their_own_prices,
		     known_models_have_a_price_also_in_dated_versions, errors_name_the_field);
}
