#include "supervisor/gateway/http/console_series.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/gateway/http/console_link.h"

#include <event2/event.h>
#include <string.h>

enum kind { GAUGE, RATE, TOTAL }; /* RATE: per second; TOTAL: since the daemon started */

/* `paths`: members of get_metrics, added up. The value is divided by the divisor. CPU, RUNNING: see add_live. */
static const struct {
	const char *name;
	enum kind kind;
	double divisor;
	const char *paths[4];
} rows[] = {
	{ "commandsPerSecond", RATE, 1, { "processesStarted" } },
	{ "running", GAUGE, 1, { NULL } },
	{ "cpuPercent", RATE, 10, { "counters.spent.cpuMs" } }, /* 10 ms each second are 1 % of one processor */
	{ "daemonMemoryBytes", GAUGE, 1, { "memoryBytes" } },
	{ "outputBytesPerSecond", RATE, 1, { "outputBytes" } },
	{ "costUsd", TOTAL, 1000000, { "counters.spent.microUsd" } },
	{ "approvals", TOTAL, 1, { "counters.actions.required" } },
	{ "denials",
	  TOTAL,
	  1,
	  { "counters.permissionDecisions.deny", "counters.sandboxViolations.filesystem",
	    "counters.sandboxViolations.network", "counters.sandboxViolations.other" } },
};
#define SERIES countof(rows)
#define RUNNING 1 /* indexes */
#define CPU 2
#define PAGE 100 /* processes that are read at a time */

struct point {
	uint64_t at_ms;
	double values[SERIES];
};

struct console_series {
	struct event_base *loop;
	struct event *timer;
	struct console_link *link; /* NULL between two samples: an idle daemon may exit */
	struct buf metrics;        /* of the sample that is being taken … */
	double live[SERIES];       /* … and what running commands add to it */
	struct point *points;      /* a ring */
	size_t count, first;
	double base[SERIES]; /* counters of the latest sample … */
	uint64_t base_ns;    /* … and its time; 0: the daemon did not answer then */
};

/*
 * Counters of get_metrics have the CPU time of ended commands only; running ones add what they have used so far. Its
 * gauge of live processes includes those that run no command, such as holders of sandboxes.
 */
static void add_live(struct jval processes, double *values)
{
	for (struct jiter it = jiter_on(processes); jiter_next(&it);) {
		values[CPU] += (double)jval_uint(jval_path(it.value, "usage.cpuUs"), 0) / 1000;
		values[RUNNING] += jval_is_str(jval_get(it.value, "status"), "running");
	}
}

static void add_point(struct console_series *s, const struct point *p)
{
	s->points[(s->first + s->count) % CONSOLE_SERIES_POINTS] = *p;
	if (s->count < CONSOLE_SERIES_POINTS)
		s->count++;
	else
		s->first = (s->first + 1) % CONSOLE_SERIES_POINTS;
}

/* A counter that decreased is one of another runtime: this sample only sets its base. */
static void take_sample(struct console_series *s)
{
	struct jval metrics = jval_of(buf_cstr(&s->metrics), s->metrics.len);
	struct point p = { .at_ms = clock_real_us() / 1000 };
	uint64_t now = clock_boot_ns();
	double seconds = (double)(now - s->base_ns) / 1e9;

	for (size_t i = 0; i < SERIES; i++) {
		double v = s->live[i];

		for (size_t k = 0; k < countof(rows[i].paths) && rows[i].paths[k]; k++)
			v += (double)jval_uint(jval_path(metrics, rows[i].paths[k]), 0);
		double since = v < s->base[i] ? 0 : v - s->base[i];
		p.values[i] = (rows[i].kind == RATE ? since / (seconds > 0 ? seconds : 1) : v) / rows[i].divisor;
		s->base[i] = v;
	}
	if (s->base_ns)
		add_point(s, &p);
	s->base_ns = now;
}

static void on_processes(void *ctx, struct jval result, struct jval error);

/* `cursor`: of the last page; JT_NONE for the first one. */
static void read_processes(struct console_series *s, struct jval cursor)
{
	buf_auto struct buf params = BUF_INIT;

	buf_printf(&params, "{\"liveOnly\":true,\"helpers\":false,\"usage\":true,\"limit\":%d", PAGE);
	if (cursor.type == JT_STRING)
		buf_printf(&params, ",\"cursor\":%.*s", (int)cursor.len, cursor.text);
	buf_byte(&params, '}');
	console_link_send(s->link, "list_processes", &params, on_processes, s);
}

static void on_processes(void *ctx, struct jval result, struct jval error)
{
	struct console_series *s = ctx;
	struct jval next = jval_get(result, "nextCursor");

	add_live(jval_get(result, "processes"), s->live);
	if (next.type == JT_STRING) {
		read_processes(s, next);
		return;
	}
	if (result.type == JT_OBJECT)
		take_sample(s);
	console_link_free(s->link);
	s->link = NULL;
}

static void on_metrics(void *ctx, struct jval result, struct jval error)
{
	struct console_series *s = ctx;

	if (result.type != JT_OBJECT)
		return;
	buf_reset(&s->metrics);
	buf_append(&s->metrics, result.text, result.len);
	memset(s->live, 0, sizeof(s->live));
	read_processes(s, (struct jval){ 0 });
}

static void on_up(void *ctx, struct jval hello)
{
	struct console_series *s = ctx;

	console_link_send(s->link, "get_metrics", NULL, on_metrics, s);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	static const struct console_link_ops ops = { .up = on_up };
	struct console_series *s = arg;

	if (s->link)
		s->base_ns = 0; /* no answer to the last one */
	console_link_free(s->link);
	s->link = console_link_new(s->loop, "observer", &ops, s);
}

struct console_series *console_series_new(struct event_base *base)
{
	static const struct timeval tv = { CONSOLE_SERIES_MS / 1000, 0 };
	struct console_series *s = mem_zalloc(1, sizeof(*s));

	s->loop = base;
	s->points = mem_zalloc(CONSOLE_SERIES_POINTS, sizeof(*s->points));
	s->timer = event_new(base, -1, EV_PERSIST, on_tick, s);
	if (!s->timer)
		abort();
	loop_add(s->timer, &tv);
	on_tick(-1, 0, s);
	return s;
}

void console_series_free(struct console_series *s)
{
	if (!s)
		return;
	console_link_free(s->link);
	event_free(s->timer);
	buf_done(&s->metrics);
	free(s->points);
	free(s);
}

void console_series_write(const struct console_series *s, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kuint(&w, "intervalMs", CONSOLE_SERIES_MS);
	jw_karr(&w, "names");
	for (size_t i = 0; i < SERIES; i++)
		jw_str(&w, rows[i].name);
	jw_arr_end(&w);
	jw_karr(&w, "points");
	for (size_t i = 0; i < s->count; i++) {
		const struct point *p = &s->points[(s->first + i) % CONSOLE_SERIES_POINTS];

		jw_arr(&w);
		jw_uint(&w, p->at_ms);
		for (size_t k = 0; k < SERIES; k++)
			jw_real(&w, p->values[k]);
		jw_arr_end(&w);
	}
	jw_arr_end(&w);
	jw_obj_end(&w);
}
