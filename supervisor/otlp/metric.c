#include "supervisor/otlp/metric.h"

#include "runtime/base/jw.h"
#include "runtime/base/mem.h"

#include <stdbool.h>
#include <stdio.h>

enum { GAUGE, COUNTER };

static const struct {
	const char *member, *name, *unit;
	int kind;
} rows[] = {
#define METRIC(member, name, unit, kind) { #member, name, unit, kind },
#include "supervisor/otlp/metrics.def"
#undef METRIC
};

static void write_uint(struct jw *w, const char *key, uint64_t v)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	jw_kstr(w, key, text);
}

void metric_write(struct jw *w, struct jval metrics, uint64_t since_us, uint64_t now_us)
{
	for (size_t i = 0; i < countof(rows); i++) {
		struct jval v = jval_get(metrics, rows[i].member);

		if (v.type != JT_NUMBER)
			continue;
		jw_obj(w);
		jw_kstr(w, "name", rows[i].name);
		jw_kstr(w, "unit", rows[i].unit);
		jw_kobj(w, rows[i].kind == COUNTER ? "sum" : "gauge");
		if (rows[i].kind == COUNTER) {
			jw_kuint(w, "aggregationTemporality", 2); /* cumulative */
			jw_kbool(w, "isMonotonic", true);
		}
		jw_karr(w, "dataPoints");
		jw_obj(w);
		write_uint(w, "startTimeUnixNano", since_us * 1000);
		write_uint(w, "timeUnixNano", now_us * 1000);
		write_uint(w, "asInt", jval_uint(v, 0));
		jw_obj_end(w);
		jw_arr_end(w);
		jw_obj_end(w);
		jw_obj_end(w);
	}
}
