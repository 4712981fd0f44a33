#include "supervisor/fleet/client/queue_hint.h"

#include "runtime/base/err.h"
#include "runtime/base/json_get.h"

struct census {
	const struct fleet_needs *needs;
	size_t nodes, draining, eligible;
};

static bool has_labels(const json_t *node, const json_t *labels)
{
	const json_t *own = json_object_get(node, "labels");
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)labels, name, value)
		if (!json_equal(json_object_get(own, name), value))
			return false;
	return true;
}

static void count_node(void *ctx, const char *key, const char *value, size_t len, uint64_t revision)
{
	struct census *c = ctx;
	json_auto_t *node = json_loadb(value, len, JSON_REJECT_DUPLICATES, NULL);

	if (!json_is_object(node))
		return;
	c->nodes++;
	if (json_get_flag(node, "draining"))
		c->draining++;
	else if ((!c->needs->arch || json_text_is(node, "arch", c->needs->arch)) &&
		 json_get_uint(node, "memory") >= c->needs->memory && json_get_uint(node, "cpus") >= c->needs->cpus &&
		 has_labels(node, c->needs->labels))
		c->eligible++;
}

void queue_hint(struct connection *x, const struct fleet_task *t, struct buf *ret)
{
	buf_auto struct buf needs = BUF_INIT;
	struct census c = { .needs = &t->spec.needs };
	struct err e = ERR_INIT;
	const size_t after = json_array_size(t->spec.after);

	if (x->port->ops->list_nodes(x->port, count_node, &c, &e) < 0)
		buf_printf(ret, "the server does not answer: %s", e.message);
	else if (c.nodes == 0)
		buf_str(ret, "no node answers");
	else if (c.eligible == 0) {
		fleet_needs_write(&t->spec.needs, &needs);
		buf_printf(ret, "none of %zu nodes", c.nodes);
		if (c.draining)
			buf_printf(ret, " (%zu draining)", c.draining);
		buf_printf(ret, " has what it needs: %s", buf_cstr(&needs));
	} else if (after)
		buf_printf(ret, "it waits for %zu other task%s", after, after == 1 ? "" : "s");
	else
		buf_printf(ret, "%zu node%s could take it, but %s busy, or do not accept this key", c.eligible,
			   c.eligible == 1 ? "" : "s", c.eligible == 1 ? "is" : "are");
}
