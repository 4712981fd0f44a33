#include "supervisor/fleet/fleet_report.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/json_get.h"
#include "runtime/base/jw.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/common/event_link.h"
#include "supervisor/fleet/fleet_node.h"

#include <stdio.h>
#include <string.h>

#define REPORT_MS 1000u
#define LIST_MS 2000u
#define LIST_SHARE 20u           /* a list is read again after this many times as long as it took */
#define TAKES_SHARE 10u          /* of the time between two renewals, which a list may take while tasks run here */
#define ENTRIES_MAX 5000u        /* task documents, up to which a list is read while tasks run here */
#define AGAIN_MS 300000u         /* after which one that was too long is tried again, if that cannot end a lease */
#define TASKS_MAX 500u           /* in a report */
#define ATTEMPTS_MAX 10u         /* of a task: the latest */
#define LIST_BYTES (1500u << 10) /* of each list; the daemon takes 2 MiB */
#define LABELS_MAX 64u
#define NODES_MAX 2000u    /* in a report */
#define NODE_TEXT_MAX 4096 /* of a node that reports more, nothing is shown */

/* ---- lists ---- */

struct task_list {
	struct fleet_task *v;
	size_t n, all, entries; /* all: valid ones */
};

/* Those that have not ended first, then the latest. */
static int compare_tasks(const struct fleet_task *a, const struct fleet_task *b)
{
	const bool ended_a = fleet_state_ended(a->state), ended_b = fleet_state_ended(b->state);

	if (ended_a != ended_b)
		return ended_a ? 1 : -1;
	return a->spec.submitted_at < b->spec.submitted_at ? 1 : a->spec.submitted_at > b->spec.submitted_at ? -1 : 0;
}

/* Keeps the first TASKS_MAX, in order. Listing calls it while it reads: no calls of the port here. */
static void add_task(void *ctx, const char *key, const char *value, size_t len, uint64_t revision)
{
	struct task_list *l = ctx;
	struct fleet_task t;
	struct err e = ERR_INIT;
	size_t at = l->n;

	l->entries++;
	if (fleet_task_parse(value, len, &t, &e) < 0)
		return;
	if (strcmp(t.spec.id, key) != 0) { /* a copy of another task's document */
		fleet_task_done(&t);
		return;
	}
	l->all++;
	while (at > 0 && compare_tasks(&t, &l->v[at - 1]) < 0)
		at--;
	if (at == TASKS_MAX) {
		fleet_task_done(&t);
		return;
	}
	if (l->n == TASKS_MAX)
		fleet_task_done(&l->v[--l->n]);
	memmove(&l->v[at + 1], &l->v[at], (l->n - at) * sizeof(t));
	l->v[at] = t;
	l->n++;
}

/* Members of others' documents: each with its type and a bound, or not at all. */
static void write_member(struct jw *w, const json_t *object, const char *name, json_type type)
{
	const json_t *v = json_object_get(object, name);

	if (type == JSON_STRING && json_is_string(v) && json_string_length(v) <= FLEET_REASON_MAX)
		jw_kstrn(w, name, json_string_value(v), json_string_length(v));
	if (type == JSON_INTEGER && json_is_integer(v))
		jw_kint(w, name, json_integer_value(v));
	if (type == JSON_TRUE && json_is_boolean(v))
		jw_kbool(w, name, json_is_true(v));
}

struct shown {
	const char *name;
	json_type type;
};

static void write_members(struct jw *w, const json_t *object, const struct shown *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		write_member(w, object, v[i].name, v[i].type);
}

static void write_attempts(const struct fleet_task *t, struct jw *w)
{
	static const struct shown shown[] = { { "attempt", JSON_INTEGER }, { "node", JSON_STRING },
					      { "token", JSON_INTEGER },   { "state", JSON_STRING },
					      { "reason", JSON_STRING },   { "exitCode", JSON_INTEGER } };
	const size_t n = json_array_size(t->attempts);

	jw_karr(w, "attempts");
	for (size_t i = n > ATTEMPTS_MAX ? n - ATTEMPTS_MAX : 0; i < n; i++) {
		jw_obj(w);
		write_members(w, json_array_get(t->attempts, i), shown, countof(shown));
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

static void write_task(const struct fleet_node *n, const struct fleet_task *t, struct jw *w)
{
	const struct fleet_submitter *s = fleet_node_submitter(n, t->spec_text.key);
	struct jval result = jval_of(t->result ? t->result : "", t->result ? strlen(t->result) : 0);
	char local_id[FLEET_LOCAL_ID];
	struct err e = ERR_INIT;

	jw_obj(w);
	jw_kstr(w, "taskId", t->spec.id);
	jw_kstr(w, "state", fleet_state_name(t->state));
	/* The text is the submitter's only with a valid signature; anyone with access to the bus could name a key. */
	if (fleet_task_verify(t, &e) == 0) {
		jw_kopt(w, "submitter", s ? s->name : NULL);
		jw_kstr(w, "submitterKey", t->spec_text.key);
	}
	jw_kopt(w, "job", t->spec.group);
	jw_kstr(w, "kind", t->spec.agent ? "agent" : "command");
	jw_kuint(w, "priority", t->spec.priority);
	if (t->node[0])
		jw_kstr(w, "node", t->node);
	if (t->claim[0] && strcmp(t->node, n->config->node) == 0) {
		fleet_local_id(t, local_id);
		jw_kstr(w, "localTaskId", local_id);
	}
	jw_kuint(w, "attempt", t->attempt);
	if (t->token)
		jw_kuint(w, "token", t->token);
	if (t->cancel.text && !fleet_state_ended(t->state))
		jw_kbool(w, "cancelRequested", true);
	if (t->reason[0])
		jw_kstr(w, "reason", t->reason);
	fleet_write_time(w, "submittedAt", t->spec.submitted_at);
	if (t->attempt)
		fleet_write_time(w, "startedAt", t->claimed_at);
	if (jval_get(result, "exitCode").type == JT_NUMBER)
		jw_kint(w, "exitCode", jval_int(jval_get(result, "exitCode"), 0));
	if (jval_get(result, "durationMs").type == JT_NUMBER)
		jw_kuint(w, "durationMs", jval_uint(jval_get(result, "durationMs"), 0));
	write_attempts(t, w);
	jw_obj_end(w);
}

struct node_list {
	struct buf text;
	struct jw w;
	unsigned n;
};

static void write_labels(struct jw *w, const json_t *labels)
{
	unsigned count = 0;
	const char *name;
	json_t *value;

	jw_kobj(w, "labels");
	json_object_foreach ((json_t *)labels, name, value)
		if (fleet_id_valid(name) && count++ < LABELS_MAX)
			write_member(w, labels, name, JSON_STRING);
	jw_obj_end(w);
}

static void write_node(struct jw *w, const json_t *node)
{
	static const struct shown shown[] = { { "node", JSON_STRING },     { "instance", JSON_STRING },
					      { "arch", JSON_STRING },     { "memory", JSON_INTEGER },
					      { "cpus", JSON_INTEGER },    { "maxTasks", JSON_INTEGER },
					      { "running", JSON_INTEGER }, { "version", JSON_STRING },
					      { "draining", JSON_TRUE } };
	static const struct shown room[] = { { "memory", JSON_INTEGER }, { "tasks", JSON_INTEGER } };

	jw_obj(w);
	write_members(w, node, shown, countof(shown));
	write_labels(w, json_object_get(node, "labels"));
	jw_kobj(w, "free");
	write_members(w, json_object_get(node, "free"), room, countof(room));
	jw_obj_end(w);
	jw_obj_end(w);
}

static void add_node(void *ctx, const char *key, const char *value, size_t len, uint64_t revision)
{
	struct node_list *l = ctx;
	json_auto_t *node = len <= NODE_TEXT_MAX ? json_loadb(value, len, JSON_REJECT_DUPLICATES, NULL) : NULL;

	if (!json_text_is(node, "node", key) || l->n == NODES_MAX || l->text.len >= LIST_BYTES)
		return;
	write_node(&l->w, node);
	l->n++;
}

static void write_tasks(const struct fleet_node *n, const struct task_list *l, struct jw *w)
{
	struct buf buf_auto text = BUF_INIT;
	struct jw list = jw_on(&text);

	jw_arr(&list);
	for (size_t i = 0; i < l->n && text.len < LIST_BYTES; i++)
		write_task(n, &l->v[i], &list);
	jw_arr_end(&list);
	jw_kraw(w, "tasks", text.data, text.len);
	jw_kuint(w, "taskCount", l->all);
}

/* Members of a report; nothing if they cannot be read. Returns how many task documents there are. */
static size_t write_lists(struct fleet_node *n, struct jw *w)
{
	struct task_list tasks = { .v = mem_zalloc(TASKS_MAX, sizeof(*tasks.v)) };
	struct node_list nodes = { .text = BUF_INIT };
	struct err e = ERR_INIT;

	nodes.w = jw_on(&nodes.text);
	jw_arr(&nodes.w);
	if (n->port->ops->list_nodes(n->port, add_node, &nodes, &e) == 0 &&
	    n->port->ops->list_tasks(n->port, add_task, &tasks, &e) == 0) {
		jw_arr_end(&nodes.w);
		jw_kraw(w, "nodes", nodes.text.data, nodes.text.len);
		write_tasks(n, &tasks, w);
	}
	for (size_t i = 0; i < tasks.n; i++)
		fleet_task_done(&tasks.v[i]);
	free(tasks.v);
	buf_done(&nodes.text);
	return tasks.entries;
}

bool fleet_report_may_list(const struct fleet_report *r, const struct fleet_node *n, uint64_t now)
{
	uint64_t renewal = UINT64_MAX; /* the time from one to the next */

	for (const struct fleet_run *run = n->runs; run; run = run->next)
		if (run->task.spec.lease_ms / 3 < renewal)
			renewal = run->task.spec.lease_ms / 3;
	if (!n->runs || (r->took_ms <= renewal / TAKES_SHARE && r->entries <= ENTRIES_MAX))
		return true;
	return r->took_ms < renewal / 2 && now >= r->read_at + AGAIN_MS;
}

/* ---- reports ---- */

static void begin(struct buf *params, struct jw *w, const char *node, bool connected)
{
	*w = jw_on(params);
	jw_obj(w);
	jw_kstr(w, "node", node);
	jw_kbool(w, "connected", connected);
}

static void send(struct fleet_report *r, struct buf *params, struct jw *w)
{
	struct buf buf_auto answer = BUF_INIT;
	struct err e = ERR_INIT;

	jw_obj_end(w);
	const bool done = event_link_call(r->link, "report_fleet", params, &answer, &e) == 0;
	if (!done && !r->failed && answer.len) /* refused; that the daemon is gone is noticed elsewhere */
		log_warning("the daemon does not take reports about the fleet: %s%s%s", e.field, e.field[0] ? ": " : "",
			    e.message);
	r->failed = !done;
	r->wanted = done && jval_bool(jval_get(jval_of(answer.data, answer.len), "wanted"), false);
}

void fleet_report_problem(struct fleet_report *r, const char *node, const char *problem)
{
	struct buf buf_auto params = BUF_INIT;
	struct jw w;

	begin(&params, &w, node, false);
	jw_kstr(&w, "problem", problem);
	send(r, &params, &w);
}

void fleet_report_tick(struct fleet_report *r, struct fleet_node *n)
{
	struct buf buf_auto params = BUF_INIT;
	const uint64_t now = clock_boot_ms();
	const bool connected = n->port->ops->connected(n->port);
	struct jw w;

	if (now < r->report_at)
		return;
	r->report_at = now + REPORT_MS;
	begin(&params, &w, n->config->node, connected);
	if (!connected)
		jw_kstr(&w, "problem", "the connection to the server is interrupted");
	if (connected && r->wanted && !fleet_report_may_list(r, n, now)) {
		char why[160];

		snprintf(why, sizeof(why),
			 "the lists are not read while tasks run here: reading %zu tasks took %llu ms (see 'bailiff "
			 "fleet "
			 "prune')",
			 r->entries, (unsigned long long)r->took_ms);
		jw_kstr(&w, "problem", why);
	} else if (connected && r->wanted && now >= r->list_at) {
		r->entries = write_lists(n, &w);
		r->read_at = clock_boot_ms();
		r->took_ms = r->read_at - now;
		r->list_at = now + (r->took_ms * LIST_SHARE > LIST_MS ? r->took_ms * LIST_SHARE : LIST_MS);
	}
	send(r, &params, &w);
}
