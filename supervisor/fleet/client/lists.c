/* `fleet list`, `show` and `nodes`. */

#include "runtime/base/err.h"
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
	struct jw w;
	bool sizes; /* as text, for people */
};

static void write_size(struct jw *w, const char *name, struct jval v)
{
	char text[16];

	if (v.type != JT_NUMBER)
		return;
	text_format_size(jval_uint(v, 0), text);
	jw_kstr(w, name, text);
}

/* The node's document as it is, and for people sizes and labels as text. */
static void add_node(void *ctx, const char *key, const char *value, size_t len, uint64_t revision)
{
	struct node_list *l = ctx;
	json_auto_t *root = json_loadb(value, len, JSON_REJECT_DUPLICATES, NULL);
	mem_auto char *text = json_is_object(root) ? json_dumps(root, JSON_COMPACT) : NULL;
	buf_auto struct buf labels = BUF_INIT;
	struct jval node = jval_of(text ? text : "", text ? strlen(text) : 0);

	if (!text)
		return;
	if (!l->sizes) {
		jw_raw(&l->w, node.text, node.len);
		return;
	}
	for (struct jiter it = jiter_on(jval_get(node, "labels")); jiter_next(&it);) {
		buf_str(&labels, labels.len ? " " : "");
		format_scalar(it.key, &labels);
		buf_byte(&labels, '=');
		format_scalar(it.value, &labels);
	}
	jw_obj(&l->w);
	jw_kstr(&l->w, "node", key);
	jw_kstr(&l->w, "state", jval_bool(jval_get(node, "draining"), false) ? "draining" : "ready");
	jw_kuint(&l->w, "running", jval_uint(jval_get(node, "running"), 0));
	jw_kuint(&l->w, "cpus", jval_uint(jval_get(node, "cpus"), 0));
	write_size(&l->w, "memory", jval_get(node, "memory"));
	write_size(&l->w, "free", jval_path(node, "free.memory"));
	jw_kstr(&l->w, "labels", buf_cstr(&labels));
	static const char *const copied[] = { "arch", "version" };
	for (size_t i = 0; i < countof(copied); i++)
		if (jval_get(node, copied[i]).type == JT_STRING)
			jw_kraw(&l->w, copied[i], jval_get(node, copied[i]).text, jval_get(node, copied[i]).len);
	jw_obj_end(&l->w);
}

int fleet_nodes(struct cli *c)
{
	connection_auto struct connection x = { 0 };
	buf_auto struct buf text = BUF_INIT;
	struct node_list l = { .w = jw_on(&text), .sizes = !cli_as_json(c) };
	struct err e = ERR_INIT;
	int status = connection_open(c, false, &x);

	if (status)
		return status;
	jw_arr(&l.w);
	if (x.port->ops->list_nodes(x.port, add_node, &l, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "fleet nodes");
	jw_arr_end(&l.w);
	return format_columns("NODE=node STATE=state:status RUNNING=running CPUS=cpus MEMORY=memory FREE=free "
			      "ARCH=arch VERSION=version:dim "
			      "LABELS=labels",
			      jval_of(text.data, text.len), cli_as_json(c));
}
