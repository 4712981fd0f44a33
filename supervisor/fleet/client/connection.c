#include "supervisor/fleet/client/connection.h"

#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"

#include <stdio.h>

#define REQUEST_MS 10000

int connection_open(struct cli *c, bool signs, struct connection *ret)
{
	struct connection x = { .cli = c };
	struct err e = ERR_INIT;
	int status = fleet_settings_read(c, &x.settings);

	if (status)
		return status;
	if (signs && !x.settings.key[0]) {
		cli_error("fleet: there is no key in %s", x.settings.key_file);
		cli_hint("bailiff fleet key makes one; its public key belongs into fleet.submitters of the nodes");
		connection_done(&x);
		return EXIT_FAILED;
	}
	const struct fleet_nats_options o = { .url = x.settings.url,
					      .name = "bailiff fleet",
					      .creds = x.settings.creds,
					      .tls_ca = x.settings.ca,
					      .tls_cert = x.settings.cert,
					      .tls_key = x.settings.cert_key };
	if (fleet_nats_new(&o, &x.port, &e) < 0) {
		cli_error("fleet: %s: %s", x.settings.url, e.message);
		cli_hint("check the address, and that the server runs with JetStream and admits this key or these "
			 "credentials");
		connection_done(&x);
		return EXIT_FAILED;
	}
	*ret = x;
	return 0;
}

void connection_done(struct connection *x)
{
	if (x->port)
		x->port->ops->free(x->port);
	fleet_settings_done(&x->settings);
	x->port = NULL;
}

/* ---- tasks ---- */

void fleet_entry_done(struct fleet_entry *t) { fleet_task_done(&t->task); }

void fleet_entries_done(struct fleet_entries *l)
{
	for (size_t i = 0; i < l->n; i++)
		fleet_entry_done(&l->v[i]);
	free(l->v);
	*l = (struct fleet_entries){ 0 };
}

static int parse_entry(const char *id, const char *text, size_t n, uint64_t revision, struct fleet_entry *ret,
		       struct err *e)
{
	struct fleet_entry t = { .revision = revision };

	if (fleet_task_parse(text, n, &t.task, e) < 0)
		return -1;
	if (fleet_task_verify(&t.task, e) < 0 || strcmp(t.task.spec.id, id) != 0) {
		fleet_entry_done(&t);
		return err_set(e, ERR_CORRUPT, "the document of task %s is not signed by its submitter", id);
	}
	*ret = t;
	return 0;
}

int connection_get(struct connection *x, const char *id, struct fleet_entry *ret, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	uint64_t revision;
	int r = x->port->ops->get_task(x->port, id, &text, &revision, e);

	return r ? r : parse_entry(id, text.data, text.len, revision, ret, e);
}

struct listing {
	const char *group;
	struct fleet_entries list;
};

static void add_entry(void *ctx, const char *key, const char *value, size_t len, uint64_t revision)
{
	struct listing *l = ctx;
	struct fleet_entry t;
	struct err e = ERR_INIT;

	if (parse_entry(key, value, len, revision, &t, &e) < 0) {
		l->list.invalid++;
		return;
	}
	if (l->group && (!t.task.spec.group || strcmp(t.task.spec.group, l->group) != 0)) {
		fleet_entry_done(&t);
		return;
	}
	if ((l->list.n & (l->list.n - 1)) == 0)
		l->list.v = mem_realloc(l->list.v, (l->list.n ? 2 * l->list.n : 1) * sizeof(*l->list.v));
	l->list.v[l->list.n++] = t;
}

static int compare_entries(const void *a, const void *b)
{
	const struct fleet_spec *x = &((const struct fleet_entry *)a)->task.spec,
				*y = &((const struct fleet_entry *)b)->task.spec;

	if (x->submitted_at != y->submitted_at)
		return x->submitted_at < y->submitted_at ? -1 : 1;
	return strcmp(x->id, y->id);
}

int connection_list(struct connection *x, const char *group, struct fleet_entries *ret, struct err *e)
{
	struct listing l = { .group = group };

	if (x->port->ops->list_tasks(x->port, add_entry, &l, e) < 0) {
		fleet_entries_done(&l.list);
		return -1;
	}
	if (l.list.n)
		qsort(l.list.v, l.list.n, sizeof(*l.list.v), compare_entries);
	*ret = l.list;
	return 0;
}

/* ---- arguments ---- */

static void move_entry(struct fleet_entries *from, size_t i, struct fleet_entries *to)
{
	to->v = mem_realloc(to->v, (to->n + 1) * sizeof(*to->v));
	to->v[to->n++] = from->v[i];
	from->v[i] = (struct fleet_entry){ 0 };
}

/* What `name` means among all tasks: a job's tasks, or the only task whose id begins with it. */
static int find_among(struct connection *x, const char *name, bool jobs, struct fleet_entries *ret)
{
	fleet_entries_auto struct fleet_entries all = { 0 };
	struct err e = ERR_INIT;
	size_t found = 0, match = 0;

	if (connection_list(x, NULL, &all, &e) < 0)
		return cli_fail(x->cli, EXIT_FAILED, &e, "fleet");
	for (size_t i = 0; i < all.n; i++)
		if (jobs && all.v[i].task.spec.group && strcmp(all.v[i].task.spec.group, name) == 0) {
			move_entry(&all, i, ret);
			found++;
		}
	if (found)
		return 0;
	for (size_t i = 0; i < all.n; i++)
		if (strncmp(all.v[i].task.spec.id, name, strlen(name)) == 0) {
			match = i;
			found++;
		}
	if (found == 1) {
		move_entry(&all, match, ret);
		return 0;
	}
	if (found)
		cli_error("fleet: %zu tasks begin with '%s'", found, name);
	else
		cli_error("fleet: there is no task '%s'", name);
	cli_hint("bailiff fleet list -a lists the tasks");
	return EXIT_FAILED;
}

int connection_find(struct connection *x, bool jobs, struct fleet_entries *ret)
{
	fleet_entries_auto struct fleet_entries list = { 0 };

	for (size_t i = 1; i < x->cli->opts.nargs; i++) {
		const char *name = x->cli->opts.args[i];
		struct fleet_entries one = { .v = mem_zalloc(1, sizeof(*one.v)), .n = 1 };
		struct err e = ERR_INIT;
		int r = fleet_id_valid(name) ? connection_get(x, name, one.v, &e) : 1, status = 0;

		if (r == 0)
			move_entry(&one, 0, &list);
		else if (r < 0)
			status = cli_fail(x->cli, EXIT_FAILED, &e, "fleet");
		else
			status = find_among(x, name, jobs, &list);
		fleet_entries_done(&one);
		if (status)
			return status;
	}
	*ret = list;
	list = (struct fleet_entries){ 0 };
	return 0;
}

/* ---- requests ---- */

int connection_ask(struct connection *x, const struct fleet_task *t, const char *verb, const char *args,
		   struct buf *ret_header, struct buf *ret_bytes, struct err *e)
{
	buf_auto struct buf request = BUF_INIT, reply = BUF_INIT;
	struct fleet_signed envelope = { 0 };

	if (!t->node[0])
		return err_set(e, ERR_STATE, "task %s has not run on a node", t->spec.id);
	mem_auto char *all = mem_printf("{\"node\":\"%s\"%s%s}", t->node, args ? "," : "", args ? args : "");
	if (fleet_request_make(x->settings.seed, verb, t->spec.id, all, &envelope, e) < 0)
		return -1;
	fleet_signed_write(&envelope, &request);
	fleet_signed_done(&envelope);
	int r = x->port->ops->request(x->port, t->node, verb, &request, REQUEST_MS, &reply, e);
	if (r)
		return r;
	const char *end = reply.len ? memchr(reply.data, '\n', reply.len) : NULL;
	struct jval header = jval_of(buf_cstr(&reply), end ? (size_t)(end - reply.data) : 0);
	char message[ERR_MESSAGE_MAX] = "an unreadable reply";
	if (!end || !jval_bool(jval_get(header, "ok"), false)) {
		const bool denied = jval_is_str(jval_get(header, "code"), err_code_name(ERR_NOT_ALLOWED));

		jval_str(jval_get(header, "error"), message, sizeof(message));
		return err_set(e, denied ? ERR_NOT_ALLOWED : ERR_STATE, "node %s: %s", t->node,
			       message[0] ? message : "an unreadable reply");
	}
	buf_reset(ret_header), buf_reset(ret_bytes);
	buf_append(ret_header, header.text, header.len);
	buf_append(ret_bytes, end + 1, reply.len - (size_t)(end + 1 - reply.data));
	return 0;
}
