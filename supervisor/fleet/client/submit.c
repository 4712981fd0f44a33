/*
 * `fleet submit`. Three writes in this order: the class of the needs, the task's document, its message in the queue.
 * The document decides: after a failure in between, a node that sees a queued task without a message puts it into the
 * queue, and submitting again with the same id does the same.
 */

#include "supervisor/fleet/client/submit.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/fleet/client/client.h"
#include "supervisor/fleet/client/spec_options.h"
#include "supervisor/fleet/client/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define ITEMS_MAX 99999u

int submit_enqueue(struct connection *x, const struct fleet_task *t, struct err *e)
{
	buf_auto struct buf needs = BUF_INIT;
	char class[FLEET_CLASS_TEXT];
	const unsigned priority = (unsigned)t->spec.priority;

	fleet_needs_write(&t->spec.needs, &needs);
	fleet_needs_class(&t->spec.needs, class);
	if ((strcmp(x->class, class) != 0 || x->priority != priority) &&
	    x->port->ops->put_class(x->port, class, priority, &needs, e) < 0)
		return -1;
	memcpy(x->class, class, sizeof(class));
	x->priority = priority;
	return x->port->ops->enqueue(x->port, class, priority, t->spec.id, t->attempt + 1, e) < 0 ? -1 : 0;
}

/* Whether both specs ask for the same; only the times may differ. */
static bool specs_equal(const struct fleet_spec *a, const struct fleet_spec *b)
{
	json_auto_t *x = json_copy(a->root), *y = json_copy(b->root);

	json_object_del(x, "submittedAt"), json_object_del(y, "submittedAt");
	json_object_del(x, "notAfter"), json_object_del(y, "notAfter");
	return json_equal(x, y);
}

static int check_same(struct connection *x, const struct fleet_task *task, struct err *e)
{
	fleet_entry_auto struct fleet_entry there = { 0 };
	int r = connection_get(x, task->spec.id, &there, e);

	if (r < 0)
		return -1;
	if (r == 1 || strcmp(there.task.spec_text.key, task->spec_text.key) != 0 ||
	    !specs_equal(&there.task.spec, &task->spec))
		return err_set(e, ERR_CONFLICT, "there is another task with the id '%s'", task->spec.id);
	return there.task.state == FLEET_QUEUED ? submit_enqueue(x, &there.task, e) : 0;
}

static int submit_text(struct connection *x, const struct buf *text, struct err *e)
{
	buf_auto struct buf document = BUF_INIT;
	struct fleet_signed spec = { 0 };
	struct fleet_task task = { 0 };
	uint64_t revision;
	int r;

	if (fleet_signed_make(x->settings.seed, buf_cstr(text), &spec, e) < 0)
		return -1;
	if (fleet_task_make(&spec, &task, e) < 0) {
		fleet_signed_done(&spec);
		return -1;
	}
	fleet_task_write(&task, &document);
	r = x->port->ops->create_task(x->port, task.spec.id, &document, &revision, e);
	if (r == 1)
		r = check_same(x, &task, e);
	else if (r == 0 && submit_enqueue(x, &task, e) < 0)
		r = err_wrap(e, "task %s is stored, but not yet in the queue; nodes queue it within a minute",
			     task.spec.id);
	fleet_task_done(&task);
	return r;
}

/* 0, or the exit status. */
static int submit_one(struct connection *x, const char *id, const char *group, const struct spec_item *item,
		      const struct bundle *bundle)
{
	buf_auto struct buf text = BUF_INIT;
	struct err e = ERR_INIT;
	int status = spec_options_write(x->cli, id, group, item, bundle, &text);

	if (status)
		return status;
	return submit_text(x, &text, &e) < 0 ? cli_fail(x->cli, EXIT_FAILED, &e, "fleet submit") : 0;
}

/* --id or a new one, and the workspace if one is to be sent. `bundle->bytes` is 0 without. 0, or the exit status. */
static int prepare(struct connection *x, char letter, char ret_id[FLEET_ID_MAX + 1], struct bundle *bundle)
{
	const char *given = opts_get(&x->cli->opts, OPT_fleet_ID), *folder = opts_get(&x->cli->opts, OPT_fleet_DIR);

	if (given && (!fleet_id_valid(given) || strlen(given) > FLEET_ID_MAX))
		return cli_usage(x->cli, "--id: '%s' must be 1 to %u letters, digits, '_' or '-'", given, FLEET_ID_MAX);
	if (given)
		snprintf(ret_id, FLEET_ID_MAX + 1, "%s", given);
	else
		fleet_new_id(letter, ret_id);
	return folder ? workspace_send(x, folder, bundle) : 0;
}

int submit_check(struct cli *c)
{
	buf_auto struct buf trial = BUF_INIT;

	return spec_options_write(c, "trial", NULL, NULL, NULL, &trial);
}

int submit_task(struct connection *x, char ret_id[FLEET_ID_MAX + 1])
{
	struct bundle bundle = { 0 };
	int status = prepare(x, 't', ret_id, &bundle);

	return status ? status : submit_one(x, ret_id, NULL, NULL, bundle.bytes ? &bundle : NULL);
}

/* ---- items ---- */

/* The lines of the file; empty ones are left out. −1 after an error. */
static int read_items(const char *path, struct bundle_names *ret)
{
	FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	mem_auto char *line = NULL;
	size_t cap = 0;

	if (!f) {
		cli_error("--items: %s: %s", path, strerror(errno));
		return -1;
	}
	for (ssize_t n; (n = getline(&line, &cap, f)) >= 0;) {
		line[strcspn(line, "\r\n")] = 0;
		if (line[0])
			bundle_names_add(ret, line);
	}
	if (f != stdin)
		fclose(f);
	if (ret->n == 0 || ret->n > ITEMS_MAX) {
		cli_error("--items: %s has %zu lines; 1 to %u are possible", path, ret->n, ITEMS_MAX);
		return -1;
	}
	return 0;
}

static int submit_items(struct connection *x, const char *path)
{
	buf_auto struct buf out = BUF_INIT;
	struct bundle_names items = { 0 };
	struct bundle bundle = { 0 };
	char group[FLEET_ID_MAX + 1];
	struct jw w = jw_on(&out);
	int status = read_items(path, &items) < 0 ? EXIT_FAILED : prepare(x, 'j', group, &bundle);

	if (status == 0 && strlen(group) > FLEET_ID_MAX - 6)
		status = cli_usage(x->cli, "--id: at most %u characters with --items", FLEET_ID_MAX - 6);
	for (size_t i = 0; i < items.n && status == 0; i++) {
		const struct spec_item item = { .text = items.names[i], .index = i + 1 };
		mem_auto char *id = mem_printf("%s-%zu", group, i + 1);

		status = submit_one(x, id, group, &item, bundle.bytes ? &bundle : NULL);
		if (status && i)
			cli_hint("%zu of %zu items were submitted, as job %s", i, items.n, group);
	}
	const size_t n = items.n;
	bundle_names_done(&items);
	if (status)
		return status;
	if (!cli_as_json(x->cli)) {
		buf_printf(&out, "%s\n", group);
		return format_out(&out);
	}
	jw_obj(&w);
	jw_kstr(&w, "job", group);
	jw_kuint(&w, "tasks", n);
	jw_obj_end(&w);
	return format_record(jval_of(out.data, out.len), true);
}

int fleet_submit(struct cli *c)
{
	connection_auto struct connection x = { 0 };
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);
	const char *items = opts_get(&c->opts, OPT_fleet_ITEMS);
	char id[FLEET_ID_MAX + 1];
	int status;

	if ((status = submit_check(c)) || (status = connection_open(c, true, &x)))
		return status;
	if (items)
		return submit_items(&x, items);
	if ((status = submit_task(&x, id)))
		return status;
	if (!cli_as_json(c)) {
		buf_printf(&out, "%s\n", id);
		return format_out(&out);
	}
	jw_obj(&w);
	jw_kstr(&w, "taskId", id);
	jw_obj_end(&w);
	return format_record(jval_of(out.data, out.len), true);
}
