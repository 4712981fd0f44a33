#ifndef BAILIFF_OTLP_METRIC_H
#define BAILIFF_OTLP_METRIC_H

#include "runtime/base/jscan.h"

#include <stdint.h>

struct jw;

/*
 * Writes the result of get_metrics as members of an array of OTLP metrics. `now_us`: the time of the call; `since_us`:
 * when the runtime started counting, constant across exports, because a collector takes another start time as a reset
 * of the counters.
 */
void metric_write(struct jw *w, struct jval metrics, uint64_t since_us, uint64_t now_us);

#endif
