#include "supervisor/gateway/http/prometheus.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"

#include <inttypes.h>

static const struct {
	const char *member, *name;
	enum prometheus_kind kind;
	unsigned divisor;
	const char *help;
} rows[] = {
#define METRIC(member, name, kind, divisor, help) { #member, #name, PROMETHEUS_##kind, divisor, help },
#define COUNTERS(...)
#define HISTOGRAM(...)
#include "supervisor/gateway/http/metrics.def"
#undef METRIC
#undef COUNTERS
#undef HISTOGRAM
};

static const struct {
	const char *member, *name, *label, *help;
} label_rows[] = {
#define METRIC(...)
#define COUNTERS(member, name, label, help) { #member, #name, #label, help },
#define HISTOGRAM(...)
#include "supervisor/gateway/http/metrics.def"
#undef METRIC
#undef COUNTERS
#undef HISTOGRAM
};

static const struct {
	const char *member, *name, *help;
} histogram_rows[] = {
#define METRIC(...)
#define COUNTERS(...)
#define HISTOGRAM(member, name, help) { #member, #name, help },
#include "supervisor/gateway/http/metrics.def"
#undef METRIC
#undef COUNTERS
#undef HISTOGRAM
};

void prometheus_family(struct buf *out, const char *name, enum prometheus_kind kind, const char *help)
{
	static const char *const kinds[] = {
		[PROMETHEUS_COUNTER] = "counter", [PROMETHEUS_GAUGE] = "gauge", [PROMETHEUS_HISTOGRAM] = "histogram"
	};

	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kinds[kind]);
}

static void escape_label(struct buf *out, const char *s)
{
	for (; *s; s++) {
		if (*s == '\\' || *s == '"')
			buf_byte(out, '\\');
		if (*s == '\n')
			buf_str(out, "\\n");
		else
			buf_byte(out, *s);
	}
}

void prometheus_sample(struct buf *out, const char *name, const char *label, const char *text, uint64_t value,
		       unsigned divisor)
{
	buf_str(out, name);
	if (label) {
		buf_printf(out, "{%s=\"", label);
		escape_label(out, text);
		buf_str(out, "\"}");
	}
	if (divisor == 1)
		buf_printf(out, " %" PRIu64 "\n", value);
	else
		buf_printf(out, " %.9g\n", (double)value / divisor);
}

static void write_labelled(struct buf *out, struct jval counters)
{
	for (size_t i = 0; i < countof(label_rows); i++) {
		struct jval family = jval_get(counters, label_rows[i].member);

		if (family.type != JT_OBJECT)
			continue;
		prometheus_family(out, label_rows[i].name, PROMETHEUS_COUNTER, label_rows[i].help);
		for (struct jiter it = jiter_on(family); jiter_next(&it);) {
			mem_auto char *label = jval_strdup(it.key);
			if (label)
				prometheus_sample(out, label_rows[i].name, label_rows[i].label, label,
						  jval_uint(it.value, 0), 1);
		}
	}
}

/* Prometheus buckets are cumulative; the last one, +Inf, has no bound. */
static void write_histogram(struct buf *out, const char *name, const char *help, struct jval h)
{
	struct jiter bounds = jiter_on(jval_get(h, "boundsMs")), buckets = jiter_on(jval_get(h, "buckets"));
	mem_auto char *bucket = mem_printf("%s_bucket", name), *sum = mem_printf("%s_sum", name),
		      *count = mem_printf("%s_count", name);
	uint64_t all = 0;

	prometheus_family(out, name, PROMETHEUS_HISTOGRAM, help);
	while (jiter_next(&bounds) && jiter_next(&buckets)) {
		mem_auto char *bound = mem_printf("%.9g", (double)jval_uint(bounds.value, 0) / 1000);

		all += jval_uint(buckets.value, 0);
		prometheus_sample(out, bucket, "le", bound, all, 1);
	}
	prometheus_sample(out, bucket, "le", "+Inf", jval_uint(jval_get(h, "count"), 0), 1);
	prometheus_sample(out, sum, NULL, NULL, jval_uint(jval_get(h, "sumMs"), 0), 1000);
	prometheus_sample(out, count, NULL, NULL, jval_uint(jval_get(h, "count"), 0), 1);
}

static void write_histograms(struct buf *out, struct jval all)
{
	for (size_t i = 0; i < countof(histogram_rows); i++) {
		struct jval h = jval_get(all, histogram_rows[i].member);

		if (h.type == JT_OBJECT)
			write_histogram(out, histogram_rows[i].name, histogram_rows[i].help, h);
	}
}

static void write_methods(struct buf *out, struct jval all)
{
	static const struct {
		const char *member, *name, *help;
		unsigned divisor;
		enum prometheus_kind kind;
	} families[] = {
		{ "count", "bailiff_method_requests_total", "Requests by method.", 1, PROMETHEUS_COUNTER },
		{ "errors", "bailiff_method_errors_total", "Requests that were answered with an error, by method.", 1,
		  PROMETHEUS_COUNTER },
		{ "totalUs", "bailiff_method_seconds_total", "Time until the answer, by method.", 1000000,
		  PROMETHEUS_COUNTER },
		{ "maxUs", "bailiff_method_max_seconds", "The longest time until an answer, by method.", 1000000,
		  PROMETHEUS_GAUGE },
	};

	for (size_t i = 0; i < countof(families); i++) {
		prometheus_family(out, families[i].name, families[i].kind, families[i].help);
		for (struct jiter it = jiter_on(all); jiter_next(&it);) {
			mem_auto char *name = jval_strdup(it.key);
			if (name)
				prometheus_sample(out, families[i].name, "method", name,
						  jval_uint(jval_get(it.value, families[i].member), 0),
						  families[i].divisor);
		}
	}
}

void prometheus_metrics(struct buf *out, struct jval metrics)
{
	for (size_t i = 0; i < countof(rows); i++) {
		struct jval v = jval_get(metrics, rows[i].member);
		if (v.type != JT_NUMBER)
			continue;
		prometheus_family(out, rows[i].name, rows[i].kind, rows[i].help);
		prometheus_sample(out, rows[i].name, NULL, NULL, jval_uint(v, 0), rows[i].divisor);
	}
	write_labelled(out, jval_get(metrics, "counters"));
	write_histograms(out, jval_get(metrics, "histograms"));
	write_methods(out, jval_get(metrics, "methods"));
}
