#ifndef BAILIFF_OTLP_METRIC_H
#define BAILIFF_OTLP_METRIC_H

#include "runtime/base/jscan.h"

#include <stdint.h>

struct jw;

/*
 * The answer of get_metrics as the members of an array of OTLP metrics. `now_us`: when it was asked; `since_us`: when
 * the runtime began to count, the same in every export, since another start means to a collector that the counters
 * began anew.
 */
void metric_write(struct jw *w, struct jval metrics, uint64_t since_us, uint64_t now_us);

#endif
