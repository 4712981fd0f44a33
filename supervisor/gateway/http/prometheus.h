#ifndef BAILIFF_GATEWAY_PROMETHEUS_H
#define BAILIFF_GATEWAY_PROMETHEUS_H

/* Metrics in Prometheus' text format 0.0.4: a family is announced once, then its samples follow. */

#include "runtime/base/jscan.h"

#include <stdint.h>

struct buf;

#define PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum prometheus_kind { PROMETHEUS_COUNTER, PROMETHEUS_GAUGE, PROMETHEUS_HISTOGRAM };

void prometheus_family(struct buf *out, const char *name, enum prometheus_kind kind, const char *help);
/* label and text: one label, or NULL. value / divisor is written. */
void prometheus_sample(struct buf *out, const char *name, const char *label, const char *text, uint64_t value,
		       unsigned divisor);
/*
 * Writes the reply of get_metrics: the rows of metrics.def, counters by label, histograms, and statistics by method.
 * Missing members are skipped.
 */
void prometheus_metrics(struct buf *out, struct jval metrics);

#endif
