#include "supervisor/fleet/node_config.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "supervisor/fleet/member.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define CONFIG_MAX (1u << 20)
#define SUBMITTERS_MAX 1000u
#define LABELS_MAX 64u
#define KEEP_HOURS 24u

/* ---- keys ---- */

static int read_submitter(const json_t *v, struct fleet_submitter *ret, struct err *e)
{
	static const char *const known[] = { "key", "name", "maxTasks", "profiles", "operator", NULL };
	const char *key = NULL, *name = NULL;
	const json_t *profiles = NULL;

	if (!json_is_object(v))
		return err_set(e, ERR_INVALID, "each must be an object with key and name");
	if (member_known(v, "submitter", known, e) < 0 || member_string(v, "key", 1, 128, &key, e) < 0 ||
	    member_id(v, "name", &name, e) < 0 || member_uint(v, "maxTasks", 1, 1u << 20, &ret->max_tasks, e) < 0 ||
	    member_ids(v, "profiles", LABELS_MAX, &profiles, e) < 0 ||
	    member_flag(v, "operator", &ret->may_operate, e) < 0)
		return -1;
	if (!key || !name)
		return err_field(e, !key ? "key" : "name", "missing");
	if (fleet_key_check(key, e) < 0)
		return -1;
	snprintf(ret->key, sizeof(ret->key), "%s", key);
	snprintf(ret->name, sizeof(ret->name), "%s", name);
	ret->profiles = profiles ? json_incref((json_t *)profiles) : NULL;
	return 0;
}

static int read_submitters(const json_t *list, struct fleet_node_config *ret, struct err *e)
{
	size_t i;
	json_t *v;

	if (json_array_size(list) > SUBMITTERS_MAX)
		return err_field(e, "fleet.submitters", "at most %u", SUBMITTERS_MAX);
	ret->submitters = mem_zalloc(json_array_size(list) + 1, sizeof(*ret->submitters));
	json_array_foreach ((json_t *)list, i, v) {
		if (read_submitter(v, &ret->submitters[i], e) < 0) {
			char inner[ERR_FIELD_MAX + 8];

			snprintf(inner, sizeof(inner), "%s%s", e->field, e->field[0] ? ": " : "");
			struct err why = *e;
			return err_field(e, "fleet.submitters", "[%zu]: %s%.300s", i, inner, why.message);
		}
		ret->nsubmitters = i + 1;
	}
	return 0;
}

static int check_labels(const json_t *labels, struct err *e)
{
	const char *name;
	json_t *value;

	if (json_object_size(labels) > LABELS_MAX)
		return err_field(e, "fleet.labels", "at most %u", LABELS_MAX);
	json_object_foreach ((json_t *)labels, name, value)
		if (!fleet_id_valid(name) || !json_is_string(value) || json_string_length(value) > FLEET_ID_MAX)
			return err_field(e, "fleet.labels",
					 "'%.64s': a label is NAME=VALUE, with at most %u characters each", name,
					 FLEET_ID_MAX);
	return 0;
}

static int read_keys(struct node_config *c, struct err *e)
{
	static const char *const known[] = { "fleet.url",        "fleet.user",     "fleet.node",      "fleet.creds",
					     "fleet.tlsCa",      "fleet.tlsCert",  "fleet.tlsKey",    "fleet.labels",
					     "fleet.maxTasks",   "fleet.workDir",  "fleet.memory",    "fleet.cpus",
					     "fleet.submitters", "fleet.replicas", "fleet.keepHours", NULL };
	const json_t *labels = NULL, *submitters = NULL;
	const char *node = NULL, *name;
	uint64_t replicas = 1, keep_hours = KEEP_HOURS;
	json_t *v;
	void *next;

	json_object_foreach_safe (c->root, next, name, v)
		if (strncmp(name, "fleet.", 6) != 0)
			json_object_del(c->root, name); /* the runtime's */
	if (member_known(c->root, "configuration", known, e) < 0 ||
	    member_string(c->root, "fleet.url", 1, 1024, &c->bus.url, e) < 0 ||
	    member_string(c->root, "fleet.creds", 1, 4095, &c->bus.creds, e) < 0 ||
	    member_string(c->root, "fleet.tlsCa", 1, 4095, &c->bus.tls_ca, e) < 0 ||
	    member_string(c->root, "fleet.tlsCert", 1, 4095, &c->bus.tls_cert, e) < 0 ||
	    member_string(c->root, "fleet.tlsKey", 1, 4095, &c->bus.tls_key, e) < 0 ||
	    member_string(c->root, "fleet.workDir", 1, 3000, &c->work, e) < 0 ||
	    member_id(c->root, "fleet.node", &node, e) < 0 ||
	    member_uint(c->root, "fleet.maxTasks", 1, 4096, &c->node.max_tasks, e) < 0 ||
	    member_uint(c->root, "fleet.memory", 1, 1ull << 50, &c->node.memory, e) < 0 ||
	    member_uint(c->root, "fleet.cpus", 1, 1u << 16, &c->node.cpus, e) < 0 ||
	    member_uint(c->root, "fleet.replicas", 1, 5, &replicas, e) < 0 ||
	    member_uint(c->root, "fleet.keepHours", 0, 100000, &keep_hours, e) < 0 ||
	    member_typed(c->root, "fleet.labels", JSON_OBJECT, &labels, e) < 0 ||
	    member_typed(c->root, "fleet.submitters", JSON_ARRAY, &submitters, e) < 0)
		return -1;
	c->bus.replicas = (unsigned)replicas;
	c->bus.updates = true;
	c->keep_ms = keep_hours * 3600000;
	if (node)
		snprintf(c->node.node, sizeof(c->node.node), "%s", node);
	if (labels && check_labels(labels, e) < 0)
		return -1;
	json_object_update(c->node.labels, (json_t *)labels);
	return submitters ? read_submitters(submitters, &c->node, e) : 0;
}

static int read_file(int fd, struct node_config *c, struct err *e)
{
	struct buf buf_auto text = BUF_INIT;
	ssize_t n = fd < 0 ? 0 : fd_pread_all(fd, buf_reserve(&text, CONFIG_MAX), CONFIG_MAX, 0);

	if (n <= 0) { /* not there, or closed: the runtime reports one that cannot be read */
		c->root = json_object();
		return 0;
	}
	buf_extend(&text, (size_t)n);
	c->root = member_object(text.data, text.len, CONFIG_MAX, "configuration", e);
	return c->root ? read_keys(c, e) : -1;
}

/* ---- options ---- */

static int add_labels(const char *text, struct node_config *c, struct err *e)
{
	mem_auto char *copy = mem_strdup(text);
	char *save = NULL;

	for (char *one = strtok_r(copy, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
		char *value = strchr(one, '=');

		if (!value)
			return err_field(e, "--label", "'%.64s' is not NAME=VALUE", one);
		*value++ = '\0';
		json_object_set_new(c->node.labels, one, json_string(value));
	}
	return check_labels(c->node.labels, e);
}

static int read_options(int argc, char **argv, struct node_config *c, const char **ret_work, struct err *e)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		const char *name = argv[i], *value = argv[i + 1];

		if (strcmp(name, "--url") == 0)
			c->bus.url = value;
		else if (strcmp(name, "--creds") == 0)
			c->bus.creds = value;
		else if (strcmp(name, "--tls-ca") == 0)
			c->bus.tls_ca = value;
		else if (strcmp(name, "--default-work") == 0)
			*ret_work = value;
		else if (strcmp(name, "--log") == 0)
			c->log_format = value;
		else if (strcmp(name, "--labels") == 0 && add_labels(value, c, e) < 0)
			return -1;
		else if (strcmp(name, "--name") == 0) {
			if (!fleet_id_valid(value))
				return err_field(e, "--fleet-node",
						 "'%.64s' must be 1 to 64 letters, digits, '_' and '-'", value);
			snprintf(c->node.node, sizeof(c->node.node), "%s", value);
		}
	}
	return 0;
}

/* The host's name with what a subject may not contain replaced. */
static void default_name(const char *host, char *ret, size_t size)
{
	snprintf(ret, size, "%s", host[0] ? host : "node");
	ret[strcspn(ret, ".")] = '\0';
	for (char *p = ret; *p; p++) {
		char one[2] = { *p };

		if (!fleet_id_valid(one))
			*p = '-';
	}
}

static void set_defaults(struct fleet_node_config *n)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE), cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct utsname u;

	uname(&u);
	snprintf(n->arch, sizeof(n->arch), "%.*s", (int)FLEET_ID_MAX, u.machine);
	default_name(u.nodename, n->node, sizeof(n->node));
	n->memory = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
	n->cpus = cpus > 0 ? (uint64_t)cpus : 1;
	n->labels = json_object();
}

int node_config_read(int argc, char **argv, int config_fd, struct node_config *ret, struct err *e)
{
	struct node_config c = { .keep_ms = KEEP_HOURS * 3600000ull };
	const char *work = NULL;

	set_defaults(&c.node);
	if (read_file(config_fd, &c, e) < 0 || read_options(argc, argv, &c, &work, e) < 0)
		goto failed;
	if (!c.work)
		c.work = work;
	if (!c.node.max_tasks)
		c.node.max_tasks = c.node.cpus;
	if (!c.bus.url && err_field(e, "fleet.url", "missing: the URL of a NATS server, or --fleet"))
		goto failed;
	if (!c.bus.tls_cert != !c.bus.tls_key &&
	    err_field(e, c.bus.tls_cert ? "fleet.tlsKey" : "fleet.tlsCert",
		      "missing: a certificate and its key (fleet.tlsCert, fleet.tlsKey) are given together"))
		goto failed;
	if ((!c.work || c.work[0] != '/') &&
	    err_field(e, "fleet.workDir", "must be the absolute path of a directory for workspaces"))
		goto failed;
	*ret = c;
	ret->bus.name = ret->node.node;
	return 0;
failed:
	node_config_done(&c);
	return -1;
}

void node_config_done(struct node_config *c)
{
	for (size_t i = 0; i < c->node.nsubmitters; i++)
		json_decref(c->node.submitters[i].profiles);
	free(c->node.submitters);
	json_decref(c->node.labels);
	json_decref(c->root);
	*c = (struct node_config){ 0 };
}
