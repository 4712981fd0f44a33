#ifndef BAILIFF_CONTROL_EVENT_METRICS_H
#define BAILIFF_CONTROL_EVENT_METRICS_H

/*
 * Counters and histograms for get_metrics, counted from the log since the runtime started: decisions, denials,
 * approvals, tasks, turns, tool calls, model requests with their tokens, CPU time and cost, and durations. Events that
 * clients wrote are not counted. Counting follows the log in pieces: when metrics are requested, and when many events
 * were committed since the last time.
 */

#include "runtime/base/strmap.h"

#include <stdint.h>

struct jw;
struct store;

#define TALLY_LABELS 7
#define TALLY_BUCKETS 12

struct tally_histogram {
	uint64_t bucket[TALLY_BUCKETS]; /* not cumulative; longer durations are only in `count` */
	uint64_t count, sum_ms;
};

enum tally_family {
	TALLY_DECISIONS,
	TALLY_ACTIONS,
	TALLY_TASKS,
	TALLY_PROCESSES,
	TALLY_VIOLATIONS,
	TALLY_TURNS,
	TALLY_TOOLS,
	TALLY_MODELS,
	TALLY_TOKENS,
	TALLY_SPENT,
	TALLY_FAMILIES
};
enum tally_timing {
	TALLY_PROCESS_TIME,
	TALLY_APPROVAL_TIME,
	TALLY_TASK_TIME,
	TALLY_QUEUE_TIME,
	TALLY_TOOL_TIME,
	TALLY_MODEL_TIME,
	TALLY_TIMINGS
};

struct event_metrics {
	struct store *store;
	uint64_t counted; /* the last event that was processed */
	uint64_t count[TALLY_FAMILIES][TALLY_LABELS];
	struct tally_histogram histogram[TALLY_TIMINGS];
	struct strmap open; /* id of open work → uint64_t *: its start in µs */
};

void event_metrics_init(struct event_metrics *t, struct store *s);
void event_metrics_done(struct event_metrics *t);
/* Events were committed: counts them if there are many. */
void event_metrics_committed(struct event_metrics *t, uint64_t last_sequence);
/* Members "counters": {family: {label: n}} and "histograms": {name: {"bounds": […], "buckets": […], "count", "sumMs"}},
 * in an open object. */
void event_metrics_write(struct event_metrics *t, struct jw *w);

#endif
