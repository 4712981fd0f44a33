#include "policy/model_price.h"

#define MILLION 1000000u

static const struct model_rates *rates_for(const struct model_price *p, uint64_t input)
{
	return p->above_tokens && input > p->above_tokens ? &p->above : &p->base;
}

static uint64_t take_at_most(uint64_t *rest, uint64_t n)
{
	if (n > *rest)
		n = *rest;
	*rest -= n;
	return n;
}

static uint64_t round_up(__uint128_t sum)
{
	sum = (sum + MILLION - 1) / MILLION;
	return sum > UINT64_MAX ? UINT64_MAX : (uint64_t)sum;
}

/* Parts that add up to more than the input are cut, so that a wrong report cannot cost less than nothing. */
uint64_t model_price_of(const struct model_price *p, const struct model_tokens *t)
{
	const struct model_rates *r = rates_for(p, t->input);
	uint64_t rest = t->input;
	__uint128_t sum = (__uint128_t)take_at_most(&rest, t->cached) * r->cached;
	uint64_t written = take_at_most(&rest, t->cache_write), kept = take_at_most(&written, t->cache_write_1h);

	sum += (__uint128_t)written * r->cache_write + (__uint128_t)kept * r->cache_write_1h;
	sum += (__uint128_t)rest * r->input + (__uint128_t)t->output * r->output;
	return round_up(sum);
}

/* The loop never asks a provider to keep what it caches for an hour. */
static uint64_t highest_input_rate(const struct model_rates *r)
{
	uint64_t most = r->input > r->cached ? r->input : r->cached;

	return most > r->cache_write ? most : r->cache_write;
}

uint64_t model_price_bound(const struct model_price *p, uint64_t input, uint64_t output)
{
	const struct model_rates *r = rates_for(p, input);

	return round_up((__uint128_t)input * highest_input_rate(r) + (__uint128_t)output * r->output);
}

uint64_t model_price_output(const struct model_price *p, uint64_t input, uint64_t micro_usd)
{
	const struct model_rates *r = rates_for(p, input);
	__uint128_t paid = (__uint128_t)micro_usd * MILLION, sent = (__uint128_t)input * highest_input_rate(r);

	if (paid <= sent)
		return 0;
	if (!r->output)
		return UINT64_MAX;
	__uint128_t n = (paid - sent) / r->output;
	return n > UINT64_MAX ? UINT64_MAX : (uint64_t)n;
}
