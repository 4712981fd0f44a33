#include "supervisor/gateway/http/status_pages.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/client/link.h"
#include "supervisor/gateway/http/http_exchange.h"
#include "supervisor/gateway/http/http_server.h"
#include "supervisor/gateway/http/mcp_endpoint.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdint.h>
#include <string.h>
#include <sys/queue.h>

/* ---- Prometheus' text format ---- */

/* Version 0.0.4: a family is announced once, then its samples follow. */
#define PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum prometheus_kind { PROMETHEUS_COUNTER, PROMETHEUS_GAUGE, PROMETHEUS_HISTOGRAM };

/* One row of metrics.def. `label`: a family of counters, one for each member of an object; NULL: one number. */
static const struct {
	const char *member, *name;
	enum prometheus_kind kind;
	unsigned divisor;
	const char *label, *help;
} metric_rows[] = {
#define METRIC(member, name, kind, divisor, help) { #member, #name, PROMETHEUS_##kind, divisor, NULL, help },
#define COUNTERS(member, name, label, help) { #member, #name, PROMETHEUS_COUNTER, 1, #label, help },
#define HISTOGRAM(member, name, help) { #member, #name, PROMETHEUS_HISTOGRAM, 1, NULL, help },
#include "supervisor/gateway/http/metrics.def"
#undef METRIC
#undef COUNTERS
#undef HISTOGRAM
};

static void prometheus_family(struct buf *out, const char *name, enum prometheus_kind kind, const char *help)
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

/* label and text: one label, or NULL. value / divisor is written. */
static void prometheus_sample(struct buf *out, const char *name, const char *label, const char *text, uint64_t value,
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

/*
 * Writes the reply of get_metrics: the rows of metrics.def, and statistics by method. Members that are missing or of
 * another type are skipped.
 */
static void prometheus_metrics(struct buf *out, struct jval metrics)
{
	for (size_t i = 0; i < countof(metric_rows); i++) {
		const char *name = metric_rows[i].name, *member = metric_rows[i].member, *label = metric_rows[i].label;
		bool histogram = metric_rows[i].kind == PROMETHEUS_HISTOGRAM;
		struct jval v = jval_get(label       ? jval_get(metrics, "counters")
					 : histogram ? jval_get(metrics, "histograms")
						     : metrics,
					 member);

		if (v.type != (label || histogram ? JT_OBJECT : JT_NUMBER))
			continue;
		if (histogram) {
			write_histogram(out, name, metric_rows[i].help, v);
			continue;
		}
		prometheus_family(out, name, metric_rows[i].kind, metric_rows[i].help);
		if (!label)
			prometheus_sample(out, name, NULL, NULL, jval_uint(v, 0), metric_rows[i].divisor);
		for (struct jiter it = jiter_on(v); label && jiter_next(&it);) {
			mem_auto char *text = jval_strdup(it.key);
			if (text)
				prometheus_sample(out, name, label, text, jval_uint(it.value, 0), 1);
		}
	}
	static const struct {
		const char *member, *name, *help;
		unsigned divisor;
		enum prometheus_kind kind;
	} families[] = {
		{ "count", "bailiff_method_requests_total", "Requests by method.", 1, PROMETHEUS_COUNTER },
		{ "errors", "bailiff_method_errors_total", "Requests that were answered with an error, by method.", 1,
		  PROMETHEUS_COUNTER },
		{ "totalUs", "bailiff_method_seconds_total", "Time until the response, by method.", 1000000,
		  PROMETHEUS_COUNTER },
		{ "maxUs", "bailiff_method_max_seconds", "The longest time until a response, by method.", 1000000,
		  PROMETHEUS_GAUGE },
	};
	for (size_t i = 0; i < countof(families); i++) {
		prometheus_family(out, families[i].name, families[i].kind, families[i].help);
		for (struct jiter it = jiter_on(jval_get(metrics, "methods")); jiter_next(&it);) {
			mem_auto char *name = jval_strdup(it.key);
			if (name)
				prometheus_sample(out, families[i].name, "method", name,
						  jval_uint(jval_get(it.value, families[i].member), 0),
						  families[i].divisor);
		}
	}
}

#define HEALTH_MS 1000 /* timeout for the daemon: health checks expect a fast answer */
#define METRICS_MS 2000
#define HEALTH_KEPT_MS 1000

enum what { HEALTH, METRICS };

/* One request for a page. Lives until the daemon has replied or is lost, even if the HTTP client has disconnected. */
struct visit {
	TAILQ_ENTRY(visit) entry;
	struct status_pages *of;
	enum what what;
	struct http_exchange *x; /* NULL: already answered, or disconnected */
	struct event *late;
	struct buf health; /* METRICS: the reply of get_health, which is requested first */
};

struct status_pages {
	struct event_base *base;
	struct http_server *server;
	const struct mcp_endpoint *mcp;
	struct link *link;
	struct event *drop; /* frees a lost link outside of its own callback */
	bool lost;
	TAILQ_HEAD(, visit) visits;
	char word[16]; /* cached status of the last get_health */
	uint64_t word_ns;
};

/* ---- responses ---- */

static void reply_health(struct http_exchange *x, const char *word)
{
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);

	jw_obj(&w);
	jw_kstr(&w, "status", word);
	jw_obj_end(&w);
	buf_byte(&out, '\n');
	http_exchange_reply(x, strcmp(word, "unavailable") == 0 ? 503 : 200, "application/json", out.data, out.len);
}

static void write_own_metrics(const struct status_pages *p, struct buf *out)
{
	const struct http_counts *h = http_server_counts(p->server);
	struct mcp_endpoint_counts m = mcp_endpoint_counts(p->mcp);
	const struct {
		const char *name;
		enum prometheus_kind kind;
		const char *help;
		uint64_t value;
	} rows[] = {
		{ "bailiff_http_connections", PROMETHEUS_GAUGE, "Connections to the HTTP listener.", h->connections },
		{ "bailiff_http_streams", PROMETHEUS_GAUGE, "Streaming responses in progress.", h->streams },
		{ "bailiff_http_connections_accepted_total", PROMETHEUS_COUNTER, "Connections that were accepted.",
		  h->accepted },
		{ "bailiff_http_connections_turned_away_total", PROMETHEUS_COUNTER,
		  "Connections rejected at the limit.", h->refused_connections },
		{ "bailiff_http_connections_evicted_total", PROMETHEUS_COUNTER, "Idle connections closed at the limit.",
		  h->evicted },
		{ "bailiff_http_requests_total", PROMETHEUS_COUNTER, "Requests that were complete.", h->requests },
		{ "bailiff_http_bad_requests_total", PROMETHEUS_COUNTER, "Malformed requests.", h->bad_requests },
		{ "bailiff_http_refused_total", PROMETHEUS_COUNTER,
		  "Requests rejected for their Host, Origin or token.", h->refused },
		{ "bailiff_mcp_sessions", PROMETHEUS_GAUGE, "MCP sessions over HTTP.", m.sessions },
		{ "bailiff_mcp_sessions_started_total", PROMETHEUS_COUNTER, "MCP sessions that began over HTTP.",
		  m.sessions_started },
		{ "bailiff_mcp_sessions_expired_total", PROMETHEUS_COUNTER,
		  "MCP sessions that expired without a connection.", m.sessions_expired },
	};
	static const char *const classes[] = { NULL, "1xx", "2xx", "3xx", "4xx", "5xx" };

	for (size_t i = 0; i < countof(rows); i++) {
		prometheus_family(out, rows[i].name, rows[i].kind, rows[i].help);
		prometheus_sample(out, rows[i].name, NULL, NULL, rows[i].value, 1);
	}
	prometheus_family(out, "bailiff_http_responses_total", PROMETHEUS_COUNTER, "Responses by status class.");
	for (size_t i = 2; i < countof(classes); i++)
		prometheus_sample(out, "bailiff_http_responses_total", "class", classes[i], h->by_class[i], 1);
}

static void reply_metrics(const struct status_pages *p, struct http_exchange *x, struct jval health,
			  struct jval metrics)
{
	buf_auto struct buf out = BUF_INIT;
	struct jval store = jval_get(health, "store");

	prometheus_family(&out, "bailiff_up", PROMETHEUS_GAUGE, "Whether the daemon responds.");
	prometheus_sample(&out, "bailiff_up", NULL, NULL, metrics.type == JT_OBJECT, 1);
	if (health.type == JT_OBJECT) {
		prometheus_family(&out, "bailiff_degraded", PROMETHEUS_GAUGE,
				  "Whether a part of the daemon does not work.");
		prometheus_sample(&out, "bailiff_degraded", NULL, NULL, !jval_is_str(jval_get(health, "status"), "ok"),
				  1);
		prometheus_family(&out, "bailiff_store_full", PROMETHEUS_GAUGE, "Whether the store is full.");
		prometheus_sample(&out, "bailiff_store_full", NULL, NULL, jval_bool(jval_get(store, "full"), false), 1);
		prometheus_family(&out, "bailiff_store_quota_bytes", PROMETHEUS_GAUGE, "Quota of the store.");
		prometheus_sample(&out, "bailiff_store_quota_bytes", NULL, NULL,
				  jval_uint(jval_get(store, "quotaBytes"), 0), 1);
	}
	if (metrics.type == JT_OBJECT)
		prometheus_metrics(&out, metrics);
	write_own_metrics(p, &out);
	http_exchange_reply(x, 200, PROMETHEUS_TYPE, out.data, out.len);
}

/* Sends the page unless the HTTP client has disconnected or was answered after the timeout. */
static void reply_page(struct visit *v, struct jval health, struct jval metrics)
{
	struct http_exchange *x = v->x;
	char word[16] = "unavailable";

	v->x = NULL;
	if (!x)
		return;
	if (v->what == METRICS)
		return reply_metrics(v->of, x, health, metrics);
	jval_str(jval_get(health, "status"), word, sizeof(word));
	reply_health(x, word[0] ? word : "unavailable");
}

/* ---- visits ---- */

static void end_visit(struct visit *v)
{
	TAILQ_REMOVE(&v->of->visits, v, entry);
	event_free(v->late);
	buf_done(&v->health);
	free(v);
}

static void on_gone(void *ctx) { ((struct visit *)ctx)->x = NULL; }

/* The daemon did not reply in time: report it as unavailable. The visit stays until the reply arrives. */
static void on_late(evutil_socket_t fd, short what, void *arg)
{
	reply_page(arg, (struct jval){ 0 }, (struct jval){ 0 });
}

static void on_metrics(void *ctx, struct jval result, struct jval error)
{
	struct visit *v = ctx;

	reply_page(v, jval_of(buf_cstr(&v->health), v->health.len), result);
	end_visit(v);
}

/* /metrics needs both replies, so it requests get_metrics after get_health. */
static void on_health(void *ctx, struct jval result, struct jval error)
{
	struct visit *v = ctx;
	struct status_pages *p = v->of;

	p->word[0] = '\0';
	jval_str(jval_get(result, "status"), p->word, sizeof(p->word));
	p->word_ns = clock_boot_ns();
	if (v->what == HEALTH) {
		reply_page(v, result, (struct jval){ 0 });
		end_visit(v);
		return;
	}
	if (result.type == JT_OBJECT)
		buf_append(&v->health, result.text, result.len);
	link_send(p->link, "get_metrics", NULL, on_metrics, v);
}

/* ---- the daemon ---- */

static void on_drop(evutil_socket_t fd, short what, void *arg)
{
	struct status_pages *p = arg;

	link_free(p->link);
	p->link = NULL;
	p->lost = false;
}

/* The link cannot be freed in its own callback; on_drop does it. */
static void on_lost(void *ctx, const struct err *e)
{
	struct status_pages *p = ctx;
	struct visit *v;

	p->lost = true;
	p->word_ns = 0;
	while ((v = TAILQ_FIRST(&p->visits))) {
		reply_page(v, (struct jval){ 0 }, (struct jval){ 0 });
		end_visit(v);
	}
	event_active(p->drop, EV_TIMEOUT, 0);
}

static int connect_daemon(struct status_pages *p)
{
	static const struct link_ops ops = { .lost = on_lost };
	static const struct remote_options options = { .later = true };
	buf_auto struct buf params = BUF_INIT;
	struct remote *r;
	struct err e = ERR_INIT;

	if (p->link)
		return p->lost ? -1 : 0;
	buf_str(&params, "{\"clientName\":\"bailiff serve\",\"role\":\"observer\"}");
	if (remote_open(&options, &r, &e) < 0)
		return -1;
	remote_handshake_async(r, "initialize", &params, NULL, NULL);
	p->link = link_new(p->base, r, &ops, p);
	return 0;
}

static void start_visit(struct status_pages *p, struct http_exchange *x, enum what what)
{
	static const struct http_exchange_ops ops = { .gone = on_gone };
	struct timeval tv = { (what == HEALTH ? HEALTH_MS : METRICS_MS) / 1000, 0 };
	struct visit *v;

	if (connect_daemon(p) < 0) {
		if (what == HEALTH)
			reply_health(x, "unavailable");
		else
			reply_metrics(p, x, (struct jval){ 0 }, (struct jval){ 0 });
		return;
	}
	v = mem_zalloc(1, sizeof(*v));
	v->of = p;
	v->what = what;
	v->x = x;
	v->late = evtimer_new(p->base, on_late, v);
	if (!v->late)
		abort();
	loop_add(v->late, &tv);
	TAILQ_INSERT_TAIL(&p->visits, v, entry);
	http_exchange_listen(x, &ops, v);
	link_send(p->link, "get_health", NULL, on_health, v);
}

static void handle_health(void *ctx, struct http_exchange *x)
{
	struct status_pages *p = ctx;

	if (p->word[0] && p->word_ns && clock_boot_ns() - p->word_ns < HEALTH_KEPT_MS * 1000000ull)
		reply_health(x, p->word);
	else
		start_visit(p, x, HEALTH);
}

static void handle_metrics(void *ctx, struct http_exchange *x) { start_visit(ctx, x, METRICS); }

struct status_pages *status_pages_new(struct event_base *base, struct http_server *server,
				      const struct mcp_endpoint *mcp, bool metrics_open)
{
	struct status_pages *p = mem_zalloc(1, sizeof(*p));

	p->base = base;
	p->server = server;
	p->mcp = mcp;
	p->drop = evtimer_new(base, on_drop, p);
	if (!p->drop)
		abort();
	TAILQ_INIT(&p->visits);
	http_server_route(server,
			  &(struct http_route){ .path = "/healthz",
						.methods = "GET, HEAD",
						.open = true,
						.body_bytes = HTTP_ANONYMOUS_BYTES,
						.handle = handle_health },
			  p);
	http_server_route(server,
			  &(struct http_route){ .path = "/metrics",
						.methods = "GET, HEAD",
						.open = metrics_open,
						.body_bytes = HTTP_ANONYMOUS_BYTES,
						.handle = handle_metrics },
			  p);
	return p;
}

void status_pages_free(struct status_pages *p)
{
	struct visit *v;

	if (!p)
		return;
	while ((v = TAILQ_FIRST(&p->visits))) {
		reply_page(v, (struct jval){ 0 }, (struct jval){ 0 });
		end_visit(v);
	}
	if (p->link)
		link_free(p->link);
	event_free(p->drop);
	free(p);
}
