#ifndef BAILIFF_CONTROL_EVENT_METRICS_H
#define BAILIFF_CONTROL_EVENT_METRICS_H

/*
 * Counters and histograms for get_metrics, counted from the log since the runtime began: decisions, denials, approvals,
 * tasks and how long things took. Events that clients brought are not counted. Counting follows the log in pieces: when
 * metrics are asked for, and when much has been committed since the last time.
 */

#include "runtime/base/strmap.h"

#include <stdint.h>

struct jw;
struct store;

#define TALLY_LABELS 6
#define TALLY_BUCKETS 12

struct tally_histogram {
	uint64_t bucket[TALLY_BUCKETS]; /* not cumulative; what is longer than all is in `count` alone */
	uint64_t count, sum_ms;
};

enum tally_family { TALLY_DECISIONS, TALLY_ACTIONS, TALLY_TASKS, TALLY_PROCESSES, TALLY_VIOLATIONS, TALLY_FAMILIES };
enum tally_timing { TALLY_PROCESS_TIME, TALLY_APPROVAL_TIME, TALLY_TASK_TIME, TALLY_TIMINGS };

struct event_metrics {
	struct store *store;
	uint64_t counted; /* the last event that was looked at */
	uint64_t count[TALLY_FAMILIES][TALLY_LABELS];
	struct tally_histogram histogram[TALLY_TIMINGS];
	struct strmap open; /* id of an action or a task that has begun → uint64_t *: when, in µs */
};

void event_metrics_init(struct event_metrics *t, struct store *s);
void event_metrics_done(struct event_metrics *t);
/* Something was committed: counts if much was. */
void event_metrics_committed(struct event_metrics *t, uint64_t last_sequence);
/* Members "counters": {family: {label: n}} and "histograms": {name: {"bounds": […], "buckets": […], "count", "sumMs"}},
 * in an open object. */
void event_metrics_write(struct event_metrics *t, struct jw *w);

#endif
