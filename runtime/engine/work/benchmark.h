#ifndef BAILIFF_ENGINE_BENCHMARK_H
#define BAILIFF_ENGINE_BENCHMARK_H

/*
 * Benchmark trials: one task of a dataset, done with one configuration, bound to one run of a task. The trial ends with
 * that run, in the same commit. Rewards are recorded as the verifier reported them and not interpreted.
 *
 * benchmark.c             trials and rewards
 * benchmark_comparison.c  compares two configurations
 */

#include "runtime/engine/core/engine.h"

#include <jansson.h>

struct transaction;
struct trial_doc;

/* Parameters as their methods' rows declare them. */
void engine_start_benchmark_trial(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
				  void *ctx);
void engine_record_benchmark_reward(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
				    void *ctx);
void engine_compare_benchmark_runs(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
				   void *ctx);

/* A run has ended; status NULL = completed. Its open trials end in the same batch. */
struct run_end {
	const char *status, *category, *message;
};
void benchmark_run_ended(struct engine *g, struct transaction *tx, const char *run_id, const struct run_end *end);

#endif
