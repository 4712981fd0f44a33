/* What several files of the node look up: see fleet_node.h. */

#include "runtime/base/hash.h"
#include "runtime/base/mem.h"
#include "supervisor/fleet/fleet_node.h"

#include <stdio.h>
#include <string.h>

const struct fleet_submitter *fleet_node_submitter(const struct fleet_node *n, const char *key)
{
	for (size_t i = 0; i < n->config->nsubmitters; i++)
		if (strcmp(n->config->submitters[i].key, key) == 0)
			return &n->config->submitters[i];
	return NULL;
}

bool fleet_node_is_operator(void *node, const char *key)
{
	const struct fleet_submitter *s = fleet_node_submitter(node, key);

	return s && s->may_operate;
}

struct fleet_run *fleet_node_run(const struct fleet_node *n, const char *task_id)
{
	for (struct fleet_run *r = n->runs; r; r = r->next)
		if (strcmp(r->task.spec.id, task_id) == 0)
			return r;
	return NULL;
}

/* Claims from before instances were recorded have none. */
bool fleet_node_owns(const struct fleet_node *n, const struct fleet_task *t)
{
	return strcmp(t->node, n->config->node) == 0 &&
	       (!t->instance[0] || strcmp(t->instance, n->config->instance) == 0);
}

/* The same claim has the same local task, so a restarted node finds it. */
void fleet_local_id(const struct fleet_task *t, char ret[FLEET_LOCAL_ID])
{
	mem_auto char *text = mem_printf("%s %s", t->spec.id, t->claim);
	char hash[HASH_SHA256_TEXT];

	hash_sha256_text(text, strlen(text), hash);
	snprintf(ret, FLEET_LOCAL_ID, "task_%.24s", hash);
}
