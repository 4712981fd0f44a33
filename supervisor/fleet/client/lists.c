/* `fleet list`, `show` and `nodes`. */

#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/fleet/client/client.h"
#include "supervisor/fleet/client/connection.h"
#include "supervisor/fleet/client/queue_hint.h"
#include "supervisor/fleet/client/task_view.h"

#define TASK_COLUMNS \
	"TASK=taskId STATE=state:status NODE=node EXIT=:exit SUBMITTED=submittedAt:ago DURATION=:duration WHAT=what"

int fleet_list(struct cli *c)
{
	connection_auto struct connection x = { 0 };
	fleet_entries_auto struct fleet_entries list = { 0 };
	buf_auto struct buf text = BUF_INIT;
	struct jw w = jw_on(&text);
	const char *job = opts_get(&c->opts, OPT_fleet_JOB);
	const bool all = opts_has(&c->opts, OPT_fleet_ALL) || job;
	struct err e = ERR_INIT;
	int status = connection_open(c, false, &x);

	if (status)
		return status;
	if (connection_list(&x, job, &list, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "fleet list");
	jw_arr(&w);
	for (size_t i = 0; i < list.n; i++)
		if (all || !fleet_state_ended(list.v[i].task.state))
			cli_as_json(c) ? task_view_write(&list.v[i].task, false, &w)
				       : task_view_row(&list.v[i].task, &w);
	jw_arr_end(&w);
	if (list.invalid)
		cli_error("fleet list: %zu documents are not signed tasks and are left out", list.invalid);
	return format_columns(TASK_COLUMNS, jval_of(text.data, text.len), cli_as_json(c));
}

int fleet_show(struct cli *c)
{
	connection_auto struct connection x = { 0 };
	fleet_entries_auto struct fleet_entries list = { 0 };
	buf_auto struct buf text = BUF_INIT, why = BUF_INIT;
	struct jw w = jw_on(&text);
	int status = connection_open(c, false, &x);

	if (status || (status = connection_find(&x, false, &list)))
		return status;
	task_view_write(&list.v[0].task, true, &w);
	if (list.v[0].task.state == FLEET_QUEUED) {
		queue_hint(&x, &list.v[0].task, &why);
		cli_hint("it is queued: %s", buf_cstr(&why));
	}
	return format_record(jval_of(text.data, text.len), cli_as_json(c));
}

/* ---- nodes ---- */

struct node_list {
	json_t **v;
	size_t n;
};

static void add_node(void *ctx, const char *key, const char *value, size_t len, uint64_t revision)
{
	struct node_list *l = ctx;
	json_t *node = json_loadb(value, len, JSON_REJECT_DUPLICATES, NULL);

	if (!json_is_object(node) || !json_text_is(node, "node", key)) {
		json_decref(node);
		return;
	}
	l->v = mem_realloc(l->v, (l->n + 1) * sizeof(*l->v));
	l->v[l->n++] = node;
}

static int compare_nodes(const void *a, const void *b)
{
	return strcmp(json_get_text(*(json_t *const *)a, "node"), json_get_text(*(json_t *const *)b, "node"));
}

static void write_size(struct jw *w, const char *name, struct jval v)
{
	char text[16];

	if (v.type != JT_NUMBER)
		return;
	text_format_size(jval_uint(v, 0), text);
	jw_kstr(w, name, text);
}

/* For people sizes and labels as text; otherwise the node's document as it is. */
static void write_node(const json_t *document, bool whole, struct jw *w)
{
	static const char *const copied[] = { "node", "arch", "version" };
	mem_auto char *text = json_dumps(document, JSON_COMPACT);
	buf_auto struct buf labels = BUF_INIT;
	struct jval node = jval_of(text ? text : "", text ? strlen(text) : 0);

	if (whole) {
		jw_raw(w, node.text, node.len);
		return;
	}
	for (struct jiter it = jiter_on(jval_get(node, "labels")); jiter_next(&it);) {
		buf_str(&labels, labels.len ? " " : "");
		format_scalar(it.key, &labels);
		buf_byte(&labels, '=');
		format_scalar(it.value, &labels);
	}
	jw_obj(w);
	jw_kstr(w, "state", jval_bool(jval_get(node, "draining"), false) ? "draining" : "ready");
	jw_kuint(w, "running", jval_uint(jval_get(node, "running"), 0));
	jw_kuint(w, "cpus", jval_uint(jval_get(node, "cpus"), 0));
	write_size(w, "memory", jval_get(node, "memory"));
	write_size(w, "free", jval_path(node, "free.memory"));
	jw_kstr(w, "labels", buf_cstr(&labels));
	for (size_t i = 0; i < countof(copied); i++)
		if (jval_get(node, copied[i]).type == JT_STRING)
			jw_kraw(w, copied[i], jval_get(node, copied[i]).text, jval_get(node, copied[i]).len);
	jw_obj_end(w);
}

/* What a node could not change about the server's streams, and that it takes no tasks: docs/fleet.md. */
static void report_problems(const json_t *document)
{
	buf_auto struct buf name = BUF_INIT, what = BUF_INIT;
	mem_auto char *text = json_dumps(document, JSON_COMPACT);
	struct jval node = jval_of(text ? text : "", text ? strlen(text) : 0), ahead = jval_get(node, "clockAheadMs");

	format_scalar(jval_get(node, "node"), &name);
	if (ahead.type == JT_NUMBER)
		cli_error(
			"fleet nodes: node %s: its clock is %lld s %s the server's: it takes no tasks until it is set",
			buf_cstr(&name), llabs((long long)jval_int(ahead, 0)) / 1000,
			jval_int(ahead, 0) < 0 ? "behind" : "ahead of");
	if (jval_get(node, "differs").type != JT_STRING)
		return;
	format_scalar(jval_get(node, "differs"), &what);
	cli_error("fleet nodes: node %s: the server stores the fleet with other settings than the node's: %s",
		  buf_cstr(&name), buf_cstr(&what));
}

int fleet_nodes(struct cli *c)
{
	connection_auto struct connection x = { 0 };
	buf_auto struct buf text = BUF_INIT;
	struct node_list l = { 0 };
	struct jw w = jw_on(&text);
	struct err e = ERR_INIT;
	int status = connection_open(c, false, &x);

	if (status)
		return status;
	if (x.port->ops->list_nodes(x.port, add_node, &l, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "fleet nodes");
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), compare_nodes);
	jw_arr(&w);
	for (size_t i = 0; i < l.n; i++) {
		write_node(l.v[i], cli_as_json(c), &w);
		if (!cli_as_json(c))
			report_problems(l.v[i]);
		json_decref(l.v[i]);
	}
	jw_arr_end(&w);
	free(l.v);
	return format_columns("NODE=node STATE=state:status RUNNING=running CPUS=cpus MEMORY=memory FREE=free "
			      "ARCH=arch VERSION=version:dim "
			      "LABELS=labels",
			      jval_of(text.data, text.len), cli_as_json(c));
}
