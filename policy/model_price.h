#ifndef BAILIFF_POLICY_MODEL_PRICE_H
#define BAILIFF_POLICY_MODEL_PRICE_H

/*
 * What a request to a language model costs. Money is counted in millionths of a US dollar, so that sums are exact.
 *
 * A model may have a tier: if a request sends more than `above_tokens`, all of its tokens are charged at the rates of
 * the tier.
 */

#include <stdbool.h>
#include <stdint.h>

/* micro-USD for a million tokens */
struct model_rates {
	uint64_t input, output, cached;
	uint64_t cache_write, cache_write_1h; /* input that the provider writes to its cache, by how long it is kept */
};

struct model_price {
	bool known;
	struct model_rates base;
	uint64_t above_tokens; /* 0 = no tier */
	struct model_rates above;
};

/* The tokens of one request; `input` is everything that was sent, `cache_write` includes `cache_write_1h`. */
struct model_tokens {
	uint64_t input, output, cached, cache_write, cache_write_1h;
};

/* micro-USD, rounded up, so that many small requests are not free. */
uint64_t model_price_of(const struct model_price *p, const struct model_tokens *t);
/* The most that these tokens can cost, whatever the provider finds in its cache or writes to it. */
uint64_t model_price_bound(const struct model_price *p, uint64_t input, uint64_t output);
/* How many tokens of output this amount pays for, in addition to the input; 0 if it does not cover the input. */
uint64_t model_price_output(const struct model_price *p, uint64_t input, uint64_t micro_usd);

#endif
