#include "supervisor/control/event_metrics.h"

#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/event/event.h"
#include "runtime/store/store.h"

#include <stdlib.h>
#include <string.h>

#define PIECE 4096u     /* events per turn */
#define BACKLOG 512u    /* events that are counted together: the store still has them in memory */
#define OPEN_MAX 10000u /* starts that are remembered; what began after that many has no duration */

static const struct {
	const char *name, *labels[TALLY_LABELS];
} families[] = {
	[TALLY_DECISIONS] = { "permissionDecisions", { "allow", "ask", "deny" } },
	[TALLY_ACTIONS] = { "actions", { "required", "allow", "deny", "other" } },
	[TALLY_TASKS] = { "tasks", { "created", "completed", "failed", "cancelled", "timed_out", "lost", "retried" } },
	[TALLY_PROCESSES] = { "processes", { "completed", "failed", "terminated" } },
	[TALLY_VIOLATIONS] = { "sandboxViolations", { "filesystem", "network", "other" } },
	[TALLY_TURNS] = { "turns", { "submitted", "started", "completed", "failed" } },
	[TALLY_TOOLS] = { "toolCalls", { "started", "completed", "failed" } },
	[TALLY_MODELS] = { "modelRequests", { "requested", "completed", "failed", "retried" } },
	[TALLY_TOKENS] = { "tokens", { "input", "output", "cached" } },
	[TALLY_SPENT] = { "spent", { "cpuMs", "microUsd" } },
};

static const char *const timings[] = {
	[TALLY_PROCESS_TIME] = "processDuration", [TALLY_APPROVAL_TIME] = "approvalWait",
	[TALLY_TASK_TIME] = "taskDuration",       [TALLY_QUEUE_TIME] = "queueWait",
	[TALLY_TOOL_TIME] = "toolDuration",       [TALLY_MODEL_TIME] = "modelLatency",
};

static const unsigned bounds_ms[TALLY_BUCKETS] = { 5,    10,    50,    100,    500,     1000,
						   5000, 10000, 60000, 300000, 1800000, 7200000 };

/* How an event counts: as a label of a family. Label NULL: the payload's word at `member`, or else "other". */
static const struct {
	enum event_type type;
	enum tally_family family;
	const char *label, *member;
} rows[] = {
	{ EVENT_PERMISSION_EVALUATED, TALLY_DECISIONS, NULL, "permissionDecision.decision" },
	{ EVENT_ACTION_REQUIRED, TALLY_ACTIONS, "required", NULL },
	{ EVENT_ACTION_RESOLVED, TALLY_ACTIONS, NULL, "decision" },
	{ EVENT_TASK_CREATED, TALLY_TASKS, "created", NULL },
	{ EVENT_TASK_COMPLETED, TALLY_TASKS, "completed", NULL },
	{ EVENT_TASK_FAILED, TALLY_TASKS, "failed", NULL },
	{ EVENT_TASK_CANCELLED, TALLY_TASKS, "cancelled", NULL },
	{ EVENT_TASK_TIMED_OUT, TALLY_TASKS, "timed_out", NULL },
	{ EVENT_TASK_LOST, TALLY_TASKS, "lost", NULL },
	{ EVENT_PROCESS_COMPLETED, TALLY_PROCESSES, "completed", NULL },
	{ EVENT_PROCESS_FAILED, TALLY_PROCESSES, "failed", NULL },
	{ EVENT_PROCESS_TERMINATED, TALLY_PROCESSES, "terminated", NULL },
	{ EVENT_SANDBOX_VIOLATION, TALLY_VIOLATIONS, NULL, "kind" },
	{ EVENT_TASK_RETRYING, TALLY_TASKS, "retried", NULL },
	{ EVENT_TURN_SUBMITTED, TALLY_TURNS, "submitted", NULL },
	{ EVENT_TURN_STARTED, TALLY_TURNS, "started", NULL },
	{ EVENT_TURN_COMPLETED, TALLY_TURNS, "completed", NULL },
	{ EVENT_TURN_FAILED, TALLY_TURNS, "failed", NULL },
	{ EVENT_TOOL_STARTED, TALLY_TOOLS, "started", NULL },
	{ EVENT_TOOL_RESULT, TALLY_TOOLS, "completed", NULL },
	{ EVENT_TOOL_FAILED, TALLY_TOOLS, "failed", NULL },
	{ EVENT_MODEL_REQUESTED, TALLY_MODELS, "requested", NULL },
	{ EVENT_MODEL_COMPLETED, TALLY_MODELS, "completed", NULL },
	{ EVENT_MODEL_FAILED, TALLY_MODELS, "failed", NULL },
};

/* Which labels of a family begin and end a duration, by the id that both events have. NULL = every other label. */
static const struct {
	enum tally_family family;
	const char *first, *last;
	enum id_field id;
	enum tally_timing timing;
} durations[] = {
	{ TALLY_ACTIONS, "required", NULL, ID_ACTION, TALLY_APPROVAL_TIME },
	{ TALLY_TASKS, "created", NULL, ID_TASK, TALLY_TASK_TIME },
	{ TALLY_TURNS, "submitted", "started", ID_TURN, TALLY_QUEUE_TIME },
	{ TALLY_TOOLS, "started", NULL, ID_TOOL_CALL, TALLY_TOOL_TIME },
	{ TALLY_MODELS, "requested", NULL, ID_MODEL_REQUEST, TALLY_MODEL_TIME },
};

void event_metrics_init(struct event_metrics *t, struct store *s)
{
	*t = (struct event_metrics){ .store = s, .counted = store_last_sequence(s), .open = STRMAP_INIT };
}

static void free_start(void *ctx, const char *key, void *value)
{
	free(value);
	strmap_del(ctx, key);
}

void event_metrics_done(struct event_metrics *t)
{
	strmap_each(&t->open, free_start, &t->open);
	strmap_done(&t->open);
}

/* ---- counting ---- */

/* Buckets are not cumulative here; longer durations count only in `count` and `sum_ms`. */
static void add_time(struct tally_histogram *h, uint64_t ms)
{
	h->count++;
	h->sum_ms += ms;
	for (size_t i = 0; i < TALLY_BUCKETS; i++)
		if (ms <= bounds_ms[i]) {
			h->bucket[i]++;
			return;
		}
}

/* Beyond OPEN_MAX the start is not remembered, and the action or task gets no duration. */
static void start_timing(struct event_metrics *t, const struct event_view *ev, enum id_field field)
{
	char id[72];
	uint64_t *at;

	event_id_copy(ev, field, id, sizeof(id));
	if (!id[0] || t->open.count >= OPEN_MAX)
		return;
	at = mem_alloc(sizeof(*at));
	*at = ev->real_us;
	free(strmap_put(&t->open, id, at));
}

/* Real time may jump backwards; such a duration is dropped, as is that of work which ended in another way. */
static void end_timing(struct event_metrics *t, const struct event_view *ev, enum id_field field,
		       enum tally_timing timing, bool counts)
{
	char id[72];
	uint64_t *began;

	event_id_copy(ev, field, id, sizeof(id));
	began = id[0] ? strmap_del(&t->open, id) : NULL;
	if (began && counts && ev->real_us >= *began)
		add_time(&t->histogram[timing], (ev->real_us - *began) / 1000);
	free(began);
}

static void time_event(struct event_metrics *t, const struct event_view *ev, enum tally_family family,
		       const char *label)
{
	for (size_t i = 0; i < countof(durations); i++) {
		if (durations[i].family != family || (label && strcmp(label, "retried") == 0))
			continue;
		if (label && strcmp(label, durations[i].first) == 0)
			start_timing(t, ev, durations[i].id);
		else
			end_timing(t, ev, durations[i].id, durations[i].timing,
				   !durations[i].last || strcmp(durations[i].last, label) == 0);
	}
}

/* A word without a label of its own counts as "other", which comes last in the list. */
static void count_label(struct event_metrics *t, enum tally_family family, const char *word)
{
	const char *const *labels = families[family].labels;

	for (size_t i = 0; i < TALLY_LABELS && labels[i]; i++)
		if (strcmp(labels[i], word) == 0 || strcmp(labels[i], "other") == 0) {
			t->count[family][i]++;
			return;
		}
}

/* Tokens, and requests that repeat a failed one. */
static void count_model(struct event_metrics *t, const struct event_view *ev)
{
	static const char *const members[] = { "inputTokens", "outputTokens", "cachedTokens" };
	struct jval payload = event_payload(ev), usage = jval_get(payload, "usage");

	for (size_t i = 0; i < countof(members); i++)
		t->count[TALLY_TOKENS][i] += jval_uint(jval_get(usage, members[i]), 0);
	if (jval_uint(jval_get(payload, "attempt"), 1) > 1)
		count_label(t, TALLY_MODELS, "retried");
}

/* The duration and CPU time of a command that ended. */
static void count_process(struct event_metrics *t, const struct event_view *ev)
{
	struct jval payload = event_payload(ev), took = jval_get(payload, "durationMs"),
		    usage = jval_get(payload, "usage");

	if (took.type == JT_NUMBER)
		add_time(&t->histogram[TALLY_PROCESS_TIME], jval_uint(took, 0));
	t->count[TALLY_SPENT][0] += jval_uint(jval_get(usage, "userMs"), 0) + jval_uint(jval_get(usage, "systemMs"), 0);
}

struct metrics_piece {
	struct event_metrics *tally;
	unsigned left;
};

static bool is_dry_run(const struct event_view *ev)
{
	return ev->type == EVENT_PERMISSION_EVALUATED && jval_bool(jval_get(event_payload(ev), "dryRun"), false);
}

static bool count_event(void *ctx, const struct event_view *ev)
{
	struct metrics_piece *p = ctx;
	char word[32];

	if (!p->left)
		return false;
	p->left--;
	p->tally->counted = ev->sequence;
	/* Every event passes here, so a payload is searched for only where one of its members counts. */
	for (size_t i = 0; i < countof(rows); i++) {
		if (rows[i].type != ev->type)
			continue;
		if (event_from_client(ev) || is_dry_run(ev))
			break;
		if (!rows[i].label)
			jval_str(jval_path(event_payload(ev), rows[i].member), word, sizeof(word));
		count_label(p->tally, rows[i].family, rows[i].label ? rows[i].label : word);
		time_event(p->tally, ev, rows[i].family, rows[i].label);
		if (rows[i].family == TALLY_MODELS)
			count_model(p->tally, ev);
		if (rows[i].family == TALLY_PROCESSES)
			count_process(p->tally, ev);
		break;
	}
	if (ev->type == EVENT_COST_RECORDED && !event_from_client(ev))
		p->tally->count[TALLY_SPENT][1] += jval_uint(jval_get(event_payload(ev), "microUsd"), 0);
	return true;
}

/* True: there is more. */
static bool count_piece(struct event_metrics *t)
{
	const struct store_query q = { .after = t->counted, .index = -1 };
	struct metrics_piece p = { t, PIECE };
	struct err e = ERR_INIT;

	if (store_events(t->store, &q, count_event, &p, &e) < 0) {
		/* Events that retention removed in the meantime, or that cannot be read, are not counted. */
		log_warning("events are left out of the metrics: %s", e.message);
		t->counted = store_last_sequence(t->store);
		return false;
	}
	return !p.left;
}

void event_metrics_committed(struct event_metrics *t, uint64_t last_sequence)
{
	if (last_sequence > t->counted + BACKLOG)
		(void)count_piece(t);
}

/* ---- writing ---- */

void event_metrics_write(struct event_metrics *t, struct jw *w)
{
	while (count_piece(t))
		;
	jw_kobj(w, "counters");
	for (size_t f = 0; f < TALLY_FAMILIES; f++) {
		jw_kobj(w, families[f].name);
		for (size_t i = 0; i < TALLY_LABELS && families[f].labels[i]; i++)
			jw_kuint(w, families[f].labels[i], t->count[f][i]);
		jw_obj_end(w);
	}
	jw_obj_end(w);
	jw_kobj(w, "histograms");
	for (size_t i = 0; i < TALLY_TIMINGS; i++) {
		const struct tally_histogram *h = &t->histogram[i];

		jw_kobj(w, timings[i]);
		jw_karr(w, "boundsMs");
		for (size_t k = 0; k < TALLY_BUCKETS; k++)
			jw_uint(w, bounds_ms[k]);
		jw_arr_end(w);
		jw_karr(w, "buckets");
		for (size_t k = 0; k < TALLY_BUCKETS; k++)
			jw_uint(w, h->bucket[k]);
		jw_arr_end(w);
		jw_kuint(w, "count", h->count);
		jw_kuint(w, "sumMs", h->sum_ms);
		jw_obj_end(w);
	}
	jw_obj_end(w);
}
