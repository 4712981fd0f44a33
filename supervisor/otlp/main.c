/*
 * bailiff-otlp: exports the log to an OpenTelemetry collector.
 *
 * The guard starts it when OTEL_EXPORTER_OTLP_ENDPOINT is set, as an unprivileged observer on the control socket, and
 * restarts it when it exits. The daemon never waits for it: a slow or unreachable collector blocks only this process,
 * and the events stay in the log until the collector accepts them. Batches are sent one at a time, and the cursor moves
 * after each. After a crash a batch may be sent twice, with the same span ids, but none is left out (unless retention
 * removed events that were never exported, which is logged).
 *
 * The order of events is simple, because one thread does everything: read an event, add the span that it ends to the
 * batch, send the batch when it is full or its oldest span has waited long enough, write the cursor. Metrics are
 * requested and sent in between, at a fixed interval. While a batch is retried nothing is read: the subscription's
 * cursor in the daemon stays where it is, so a collector that is down for hours costs no memory.
 *
 * The cursor names the last event that was read before the batch was sent. A span that is open at that moment has its
 * start before the cursor; after a restart its start is read from the log.
 */

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/common/event_link.h"
#include "supervisor/common/role_sandbox.h"
#include "supervisor/guard/guard_msg.h"
#include "supervisor/otlp/otlp_http.h"
#include "supervisor/otlp/span.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- metrics ---- */

/*
 * Writes the result of get_metrics as members of an array of OTLP metrics. `now_us`: the time of the call; `since_us`:
 * when the runtime started counting, constant across exports, because a collector takes another start time as a reset
 * of the counters.
 */

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

static void metric_write(struct jw *w, struct jval metrics, uint64_t since_us, uint64_t now_us)
{
	for (size_t i = 0; i < countof(rows); i++) {
		struct jval v = jval_path(metrics, rows[i].member);

		/* A member that the daemon does not report is left out: 0 would be a measurement. */
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

#define SCHEMA_URL "https://opentelemetry.io/schemas/1.37.0" /* of the semantic conventions whose names are used */
/* A batch is sent when it reaches one of these limits. */
#define SPANS_MAX 512u
#define BYTES_MAX (1u << 20)
#define DELAY_MS 1000u    /* how long a span waits for others to be sent with it: OTEL_BSP_SCHEDULE_DELAY */
#define METRICS_MS 60000u /* OTEL_METRIC_EXPORT_INTERVAL */
#define SETTING_MAX_MS 86400000u
#define REWIND_MAX 10000u /* events to go back in the log at the first start */
#define BACKOFF_MS 500u
#define BACKOFF_MAX_MS 30000u
#define SLICE_MS 250u

static volatile sig_atomic_t exit_requested;

struct exporter {
	struct event_link link;
	struct span_table book;
	struct otlp_http *post;
	struct buf spans;
	unsigned nspans;
	uint64_t first_ns;      /* when the oldest of `spans` was added */
	uint64_t sequence;      /* of the last event processed */
	uint64_t saved;         /* of the last event whose spans the collector accepted */
	uint64_t started_us;    /* when the runtime started */
	uint64_t not_before_us; /* spans that ended earlier are not exported: the export was not enabled then */
	uint64_t delay_ms, metrics_ms, metrics_at_ns;
	char runtime_id[64];
};

/* The guard sends SIGTERM at the end and waits a second. There is no SA_RESTART, so a blocked poll() returns. */
static void on_term(int sig) { exit_requested = 1; }

/* ---- request bodies ---- */

static void resource_attribute(void *ctx, const char *name, const char *value)
{
	struct jw *w = ctx;

	jw_obj(w);
	jw_kstr(w, "key", name);
	jw_kobj(w, "value");
	jw_kstr(w, "stringValue", value);
	jw_obj_end(w);
	jw_obj_end(w);
}

enum { SERVICE_NAME, SERVICE_VERSION, SERVICE_INSTANCE, SERVICE_ATTRIBUTES };
static const char *const service_attributes[SERVICE_ATTRIBUTES] = { "service.name", "service.version",
								    "service.instance.id" };

struct resource {
	struct jw *w;
	const char *own[SERVICE_ATTRIBUTES]; /* our values; NULL: OTEL_RESOURCE_ATTRIBUTES has the key */
	bool named;                          /* OTEL_SERVICE_NAME is set and takes precedence */
};

/* Keys must be unique: an attribute of the environment replaces ours. */
static void add_given_attribute(void *ctx, const char *name, const char *value)
{
	struct resource *r = ctx;

	for (size_t i = 0; i < SERVICE_ATTRIBUTES; i++)
		if (strcmp(name, service_attributes[i]) == 0) {
			if (i == SERVICE_NAME && r->named)
				return;
			r->own[i] = NULL;
		}
	resource_attribute(r->w, name, value);
}

/* {"resourceSpans":[{"resource":…,"scopeSpans":[{"scope":…,"spans":[…]}]}]}, and the same structure for metrics. */
static void write_body(const struct exporter *x, const char *outer, const char *inner, const char *list,
		       const struct buf *items, struct buf *ret)
{
	struct jw w = jw_on(ret);

	jw_obj(&w);
	jw_karr(&w, outer);
	jw_obj(&w);
	const char *name = getenv("OTEL_SERVICE_NAME"), *more = getenv("OTEL_RESOURCE_ATTRIBUTES");
	const bool named = name && name[0];
	struct resource r = { .w = &w,
			      .own = { named ? name : "bailiff", BAILIFF_VERSION, x->runtime_id },
			      .named = named };
	jw_kobj(&w, "resource");
	jw_karr(&w, "attributes");
	if (more)
		(void)otlp_http_headers_each(more, add_given_attribute, &r); /* same syntax; configure has checked it */
	for (size_t i = 0; i < SERVICE_ATTRIBUTES; i++)
		if (r.own[i])
			resource_attribute(&w, service_attributes[i], r.own[i]);
	jw_arr_end(&w);
	jw_obj_end(&w);
	jw_karr(&w, inner);
	jw_obj(&w);
	jw_kobj(&w, "scope");
	jw_kstr(&w, "name", "bailiff");
	jw_kstr(&w, "version", BAILIFF_VERSION);
	jw_obj_end(&w);
	jw_karr(&w, list);
	buf_append(ret, items->data, items->len);
	jw_arr_end(&w);
	jw_kstr(&w, "schemaUrl", SCHEMA_URL);
	jw_obj_end(&w);
	jw_arr_end(&w);
	jw_kstr(&w, "schemaUrl", SCHEMA_URL);
	jw_obj_end(&w);
	jw_arr_end(&w);
	jw_obj_end(&w);
}

/*
 * A failed write is logged and not repeated before the next batch: the export itself works, and a restart only repeats
 * spans.
 */
static void save_cursor(struct exporter *x)
{
	struct err e = ERR_INIT;

	if (x->saved == x->sequence)
		return;
	if (cursor_write(GUARD_FD_STORE, x->runtime_id, x->sequence, &e) < 0)
		log_warning("%s", e.message);
	x->saved = x->sequence;
}

/* Retries until the batch is accepted or permanently rejected; false: asked to exit before that. */
static bool send_spans(struct exporter *x, const struct buf *body)
{
	uint64_t backoff = BACKOFF_MS, wait;
	bool reported = false;

	for (;;) {
		struct err e = ERR_INIT;
		enum otlp_http_result r = otlp_http_send(x->post, OTLP_HTTP_TRACES, body, &wait, &e);

		if (r == OTLP_HTTP_PARTLY)
			log_warning("the endpoint rejected some of %u spans: %s", x->nspans, e.message);
		if (r == OTLP_HTTP_DONE || r == OTLP_HTTP_PARTLY) {
			if (reported)
				log_info("the endpoint accepts spans again");
			return true;
		}
		if (r == OTLP_HTTP_REFUSED) {
			log_error("%u spans are dropped: %s", x->nspans, e.message);
			return true;
		}
		if (!reported)
			log_warning("spans are delayed: %s", e.message);
		reported = true;
		if (exit_requested)
			return false;
		/* Jitter: when a collector comes back, exporters should not all retry at the same moment. */
		/* Sleeps in slices: a signal that arrives between the check and poll() delays the exit by one slice at
		 * most. */
		const uint64_t until = clock_boot_ns() +
				       (wait > backoff ? wait : backoff + clock_boot_ns() % (backoff / 4)) * 1000000;
		for (uint64_t now; !exit_requested && (now = clock_boot_ns()) < until;) {
			uint64_t left = (until - now) / 1000000 + 1;

			poll(NULL, 0, (int)(left < SLICE_MS ? left : SLICE_MS));
		}
		backoff = backoff * 2 < BACKOFF_MAX_MS ? backoff * 2 : BACKOFF_MAX_MS;
	}
}

/*
 * Sends the batch, and only then moves the cursor: a crash in between sends the batch again. At the exit there may be
 * no spans; then only the cursor moves, past the events that had none.
 */
static void flush_spans(struct exporter *x)
{
	struct buf buf_auto body = BUF_INIT;

	if (!x->nspans)
		return save_cursor(x);
	write_body(x, "resourceSpans", "scopeSpans", "spans", &x->spans, &body);
	if (!send_spans(x, &body))
		return;
	buf_reset(&x->spans);
	x->nspans = 0;
	save_cursor(x);
}

/*
 * Values are absolute, so a lost request needs no retry. A temporary error is not logged either: the next export sends
 * the current values. −1: the daemon did not answer.
 */
static int post_metrics(struct exporter *x, struct err *e)
{
	struct buf buf_auto answer = BUF_INIT, items = BUF_INIT, body = BUF_INIT;
	struct jw w = jw_on(&items);
	struct err why = ERR_INIT;
	uint64_t wait;

	x->metrics_at_ns = clock_boot_ns() + x->metrics_ms * 1000000;
	if (!otlp_http_wanted(x->post, OTLP_HTTP_METRICS))
		return 0;
	if (event_link_call(&x->link, "get_metrics", NULL, &answer, e) < 0)
		return -1;
	metric_write(&w, jval_of(answer.data, answer.len), x->started_us, clock_real_us());
	write_body(x, "resourceMetrics", "scopeMetrics", "metrics", &items, &body);
	enum otlp_http_result r = otlp_http_send(x->post, OTLP_HTTP_METRICS, &body, &wait, &why);
	if (r == OTLP_HTTP_REFUSED || r == OTLP_HTTP_PARTLY)
		log_error("metrics are dropped: %s", why.message);
	if (wait > x->metrics_ms)
		x->metrics_at_ns = clock_boot_ns() + wait * 1000000;
	return 0;
}

/* ---- reading the log ---- */

/* Callback of span_table: queries the log for a start event that is not in memory. */
static int find_start(void *ctx, const char *type, const char *id_member, const char *id, struct jval like,
		      struct buf *ret)
{
	static const char *const scopes[] = { "processId", "turnId", "taskId" };
	struct exporter *x = ctx;
	struct buf buf_auto params = BUF_INIT, answer = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;
	bool scoped = false;

	jw_obj(&w);
	for (size_t i = 0; i < countof(scopes) && !scoped; i++) {
		char value[128] = "";

		/* Every process event has a turn id as well, but only its own id is selective. */
		if (i == 0 && strcmp(id_member, scopes[0]) != 0)
			continue;
		jval_str(jval_get(like, scopes[i]), value, sizeof(value));
		if (!value[0])
			continue;
		jw_kstr(&w, scopes[i], value);
		scoped = true;
	}
	jw_kstrv(&w, "types", &type, 1);
	/*
	 * The start is among the first events of its type in that scope; one page is enough except for turns with more
	 * than a thousand of them, whose start is then unknown.
	 */
	jw_kuint(&w, "limit", 1000);
	jw_obj_end(&w);
	if (!scoped || event_link_call(&x->link, "list_events", &params, &answer, &e) < 0)
		return -1;
	for (struct jiter it = jiter_on(jval_get(jval_of(answer.data, answer.len), "events")); jiter_next(&it);)
		if (jval_is_str(jval_get(it.value, id_member), id)) {
			buf_append(ret, it.value.text, it.value.len);
			return 0;
		}
	return -1;
}

static int subscribe_after(struct exporter *x, uint64_t after, struct err *e)
{
	struct buf buf_auto params = BUF_INIT, types = BUF_INIT, answer = BUF_INIT;
	struct jw w = jw_on(&params);

	span_types(&types);
	jw_obj(&w);
	jw_kuint(&w, "afterSequence", after);
	jw_kraw(&w, "types", types.data, types.len);
	jw_obj_end(&w);
	/* Even before the first event: the position that a flush without spans may save. */
	x->sequence = x->saved = after;
	return event_link_call(&x->link, "subscribe_events", &params, &answer, e);
}

static int request_start_time(struct exporter *x, struct err *e)
{
	struct buf buf_auto answer = BUF_INIT;
	char text[CLOCK_TEXT_MAX];

	if (event_link_call(&x->link, "get_health", NULL, &answer, e) < 0)
		return -1;
	jval_str(jval_get(jval_of(answer.data, answer.len), "startedAt"), text, sizeof(text));
	if (clock_parse(text, &x->started_us) < 0)
		return err_set(e, ERR_INTERNAL, "the daemon did not report when it started");
	return 0;
}

/* Subscribes from the cursor; if retention has removed those events, from the first one left. */
static int subscribe_events(struct exporter *x, uint64_t last, struct err *e)
{
	struct buf buf_auto params = BUF_INIT, answer = BUF_INIT;
	uint64_t after = last;

	if (cursor_read(GUARD_FD_STORE, x->runtime_id, &after) != 0) {
		/*
		 * First export: include the events since the start of this runtime, which may have run commands before
		 * this process started.
		 */
		x->not_before_us = x->started_us;
		after = last > REWIND_MAX ? last - REWIND_MAX : 0;
	}
	/*
	 * The log may be shorter than the position if the store was replaced by an older copy: continue with new
	 * events.
	 */
	if (after > last)
		after = last;
	if (subscribe_after(x, after, e) == 0)
		return 0;
	*e = ERR_INIT;
	buf_str(&params, "{\"limit\":1}");
	if (event_link_call(&x->link, "list_events", &params, &answer, e) < 0)
		return -1;
	/*
	 * subscribe_after failed most likely because the cursor is before the first event that retention has left. If
	 * that is not the reason, the second attempt fails as well, and the process exits.
	 */
	uint64_t first = jval_uint(jval_get(jval_of(answer.data, answer.len), "firstSequence"), 1);
	if (!x->not_before_us)
		log_warning("events %llu to %llu were removed from the log before they were exported",
			    (unsigned long long)after + 1, (unsigned long long)first - 1);
	return subscribe_after(x, first - 1, e);
}

static int begin_export(struct exporter *x, struct err *e)
{
	struct buf buf_auto params = BUF_INIT, answer = BUF_INIT;

	event_link_init(&x->link, GUARD_FD_LISTEN);
	x->spans = BUF_INIT;
	buf_str(&params, "{\"clientName\":\"bailiff-otlp\",\"role\":\"observer\"}");
	if (event_link_call(&x->link, "initialize", &params, &answer, e) < 0)
		return -1;
	struct jval r = jval_of(answer.data, answer.len);
	jval_str(jval_get(r, "runtimeId"), x->runtime_id, sizeof(x->runtime_id));
	span_table_init(&x->book, x->runtime_id);
	x->book.find_start = find_start;
	x->book.ctx = x;
	uint64_t last = jval_uint(jval_get(r, "lastSequence"), 0);
	return request_start_time(x, e) < 0 ? -1 : subscribe_events(x, last, e);
}

static int wait_ms(const struct exporter *x)
{
	uint64_t now = clock_boot_ns(), until = x->metrics_at_ns;

	if (x->nspans && x->first_ns + x->delay_ms * 1000000 < until)
		until = x->first_ns + x->delay_ms * 1000000;
	return until <= now ? 0 : (int)((until - now) / 1000000) + 1;
}

/*
 * Only at the first export: REWIND_MAX goes back to events before the start of this runtime, which the user did not ask
 * to export.
 */
static bool is_too_old(const struct exporter *x, struct jval event)
{
	char text[CLOCK_TEXT_MAX];
	uint64_t us = 0;

	if (!x->not_before_us)
		return false;
	jval_str(jval_get(event, "timestamp"), text, sizeof(text));
	return clock_parse(text, &us) == 0 && us < x->not_before_us;
}

static int run_exporter(struct exporter *x, struct err *e)
{
	while (!exit_requested) {
		struct jval event;
		int n = event_link_next(&x->link, wait_ms(x), &event);

		if (n < 0)
			break;
		if (n > 0) {
			if (!is_too_old(x, event) && otlp_http_wanted(x->post, OTLP_HTTP_TRACES) &&
			    span_table_event(&x->book, event, &x->spans) && x->nspans++ == 0)
				x->first_ns = clock_boot_ns();
			/* After the span was added: a flush then covers this event. */
			x->sequence = jval_uint(jval_get(event, "sequence"), x->sequence);
		}
		uint64_t now = clock_boot_ns();
		if (x->nspans >= SPANS_MAX || x->spans.len >= BYTES_MAX ||
		    (x->nspans && now >= x->first_ns + x->delay_ms * 1000000))
			flush_spans(x);
		if (now >= x->metrics_at_ns && post_metrics(x, e) < 0) {
			log_error("cannot read the metrics: %s", e->message);
			break;
		}
	}
	/* One last attempt. If it fails temporarily the cursor stays, and the next exporter sends the batch again. */
	flush_spans(x);
	return 0;
}

/* ---- startup ---- */

static void ignore_attribute(void *ctx, const char *name, const char *value) {}

static int read_settings(struct exporter *x, struct err *e)
{
	const char *attributes = getenv("OTEL_RESOURCE_ATTRIBUTES");

	if (attributes && otlp_http_headers_each(attributes, ignore_attribute, NULL) < 0)
		return err_set(e, ERR_INVALID, "OTEL_RESOURCE_ATTRIBUTES: expected name=value,name=value");
	if (env_setting_ms("OTEL_BSP_SCHEDULE_DELAY", DELAY_MS, SETTING_MAX_MS, &x->delay_ms, e) < 0 ||
	    env_setting_ms("OTEL_METRIC_EXPORT_INTERVAL", METRICS_MS, SETTING_MAX_MS, &x->metrics_ms, e) < 0)
		return -1;
	/*
	 * The first export follows soon after the start, so that a daemon that runs only briefly reports metrics, too.
	 */
	x->metrics_at_ns = clock_boot_ns() + (x->metrics_ms < 1000 ? x->metrics_ms : 1000) * 1000000;
	return otlp_http_new(&x->post, e);
}

int main(int argc, char **argv)
{
	static struct exporter x;
	const struct guard_msg ready = { .kind = GUARD_READY };
	const struct sigaction term = { .sa_handler = on_term };
	const struct role_sandbox_path certificates[] = ROLE_SANDBOX_CERTIFICATES;
	struct err e = ERR_INIT;

	log_setup("bailiffd otlp", LOG_LEVEL_INFO, argc > 1 && strcmp(argv[1], "json") == 0);
	sigaction(SIGTERM, &term, NULL);
	signal(SIGPIPE, SIG_IGN);
	/*
	 * Before the sandbox: libcurl initialises itself here. GUARD_EXIT_CONFIG keeps the guard from restarting a
	 * process that would fail the same way.
	 */
	if (read_settings(&x, &e) < 0) {
		log_error("%s; nothing is exported", e.message);
		return GUARD_EXIT_CONFIG;
	}
	if (role_sandbox_enter(ROLE_SANDBOX_EXPORTER, certificates, countof(certificates), &e) < 0 ||
	    begin_export(&x, &e) < 0) {
		log_error("%s", e.message);
		return 1;
	}
	if (fd_send(GUARD_FD_LINK, &ready, sizeof(ready), NULL, 0, 0) < 0)
		return 1;
	int r = run_exporter(&x, &e);
	span_table_done(&x.book);
	event_link_done(&x.link);
	buf_done(&x.spans);
	otlp_http_free(x.post);
	return r < 0 ? 1 : 0;
}
