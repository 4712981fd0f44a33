#include "supervisor/gateway/http/exposition.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"

#include <inttypes.h>

static const struct {
	const char *member, *name;
	enum exposition_kind kind;
	unsigned divisor;
	const char *help;
} rows[] = {
#define METRIC(member, name, kind, divisor, help) { #member, #name, EXPOSITION_##kind, divisor, help },
#include "supervisor/gateway/http/metrics.def"
#undef METRIC
};

void exposition_family(struct buf *out, const char *name, enum exposition_kind kind, const char *help)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind == EXPOSITION_COUNTER ? "counter" : "gauge");
}

static void escape(struct buf *out, const char *s)
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

void exposition_sample(struct buf *out, const char *name, const char *label, const char *text, uint64_t value, unsigned divisor)
{
	buf_str(out, name);
	if (label) {
		buf_printf(out, "{%s=\"", label);
		escape(out, text);
		buf_str(out, "\"}");
	}
	if (divisor == 1)
		buf_printf(out, " %" PRIu64 "\n", value);
	else
		buf_printf(out, " %.9g\n", (double)value / divisor);
}

static void methods(struct buf *out, struct jval all)
{
	static const struct {
		const char *member, *name, *help;
		unsigned divisor;
		enum exposition_kind kind;
	} families[] = {
		{ "count", "bailiff_method_requests_total", "Requests by method.", 1, EXPOSITION_COUNTER },
		{ "errors", "bailiff_method_errors_total", "Requests that were answered with an error, by method.", 1, EXPOSITION_COUNTER },
		{ "totalUs", "bailiff_method_seconds_total", "Time until the answer, by method.", 1000000, EXPOSITION_COUNTER },
		{ "maxUs", "bailiff_method_max_seconds", "The longest time until an answer, by method.", 1000000, EXPOSITION_GAUGE },
	};

	for (size_t i = 0; i < countof(families); i++) {
		exposition_family(out, families[i].name, families[i].kind, families[i].help);
		for (struct jiter it = jiter_on(all); jiter_next(&it);) {
			mem_auto char *name = jval_strdup(it.key);
			if (name)
				exposition_sample(out, families[i].name, "method", name, jval_uint(jval_get(it.value, families[i].member), 0),
						  families[i].divisor);
		}
	}
}

void exposition_metrics(struct buf *out, struct jval metrics)
{
	for (size_t i = 0; i < countof(rows); i++) {
		struct jval v = jval_get(metrics, rows[i].member);
		if (v.type != JT_NUMBER)
			continue;
		exposition_family(out, rows[i].name, rows[i].kind, rows[i].help);
		exposition_sample(out, rows[i].name, NULL, NULL, jval_uint(v, 0), rows[i].divisor);
	}
	methods(out, jval_get(metrics, "methods"));
}
