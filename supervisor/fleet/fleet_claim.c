/*
 * Looking at messages of the queue: claim the task, or decide why not. Everything about a task is checked before it is
 * claimed, the signature first. A task that this node may not or cannot run goes back to the queue for others.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/fleet/fleet_node.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define OTHERS_MS 2000u     /* for another node to take what this one may not run */
#define AFTER_MS 1000u      /* between looks at what a task waits for */
#define CLOCKS_MS 86400000u /* that a submitter's clock may be ahead */
#define NEAR_MS 3000u       /* that nearer nodes have before the others: they look once a second */
#define NEAR_AGAIN_MS 100u
#define NEAR_RETRY_MS 1500u /* until this node looks again: after the others, which were woken at the same time */

/* ---- room ---- */

static bool has_labels(const struct fleet_node *n, const json_t *labels)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)labels, name, value)
		if (!json_equal(json_object_get(n->config->labels, name), value))
			return false;
	return true;
}

static bool satisfies(const struct fleet_node *n, const struct fleet_needs *needs)
{
	return (!needs->arch || strcmp(needs->arch, n->config->arch) == 0) && needs->memory <= n->config->memory &&
	       needs->cpus <= n->config->cpus && has_labels(n, needs->labels);
}

static bool has_room(const struct fleet_node *n, const struct fleet_needs *needs)
{
	uint64_t memory = needs->memory, cpus = needs->cpus, count = 1;

	for (const struct fleet_run *r = n->runs; r; r = r->next) {
		memory += r->task.spec.needs.memory;
		cpus += r->task.spec.needs.cpus;
		count++;
	}
	return count <= n->config->max_tasks && memory <= n->config->memory && cpus <= n->config->cpus;
}

static uint64_t running_of(const struct fleet_node *n, const char *key)
{
	uint64_t count = 0;

	for (const struct fleet_run *r = n->runs; r; r = r->next)
		count += strcmp(r->task.spec_text.key, key) == 0;
	return count;
}

/* ---- one message ---- */

/* A message with the document that it is about. */
struct candidate {
	struct fleet_node *n;
	const struct fleet_message *m;
	struct fleet_task *t;
	uint64_t revision, now, real;
};

static void put_back(const struct candidate *c, uint64_t delay_ms)
{
	struct err e = ERR_INIT;

	(void)c->n->port->ops->put_back(c->n->port, c->m, delay_ms, &e);
}

static void acknowledge(struct fleet_node *n, const struct fleet_message *m)
{
	struct err e = ERR_INIT;

	(void)n->port->ops->acknowledge(n->port, m, &e);
}

/* Ends a task that nobody may run (again), or queues it again. */
static void refuse(const struct candidate *c, enum fleet_state how, const char *reason)
{
	struct buf buf_auto text = BUF_INIT;
	struct err e = ERR_INIT;
	uint64_t revision;

	c->t->state = how;
	snprintf(c->t->reason, sizeof(c->t->reason), "%s", reason);
	fleet_task_write(c->t, &text);
	/* By the name of the message: what the document says of itself is not checked yet. */
	int done = c->n->port->ops->update_task(c->n->port, c->m->task, &text, c->revision, &revision, &e);
	if (done == 0) {
		log_info("task '%s' is %s: %s", c->m->task, fleet_state_name(how), reason);
		if (how == FLEET_QUEUED)
			put_back(c, 0);
		else
			acknowledge(c->n, c->m);
	} else {
		put_back(c, done < 0 ? OTHERS_MS : 0);
	}
}

enum dependency { AFTER_COMPLETED, AFTER_WAIT, AFTER_FAILED };

static enum dependency check_after(const struct candidate *c, char ret_failed[FLEET_ID_MAX + 1])
{
	enum dependency all = AFTER_COMPLETED;
	size_t i;
	json_t *id;

	json_array_foreach ((json_t *)c->t->spec.after, i, id) {
		struct buf buf_auto text = BUF_INIT;
		struct err e = ERR_INIT;
		struct fleet_task other;
		uint64_t revision;

		if (c->n->port->ops->get_task(c->n->port, json_string_value(id), &text, &revision, &e) != 0 ||
		    fleet_task_parse(text.data, text.len, &other, &e) < 0) {
			all = AFTER_WAIT; /* not submitted yet */
			continue;
		}
		enum fleet_state state = other.state;
		fleet_task_done(&other);
		if (state > FLEET_COMPLETED) {
			snprintf(ret_failed, FLEET_ID_MAX + 1, "%s", json_string_value(id));
			return AFTER_FAILED;
		}
		if (state != FLEET_COMPLETED)
			all = AFTER_WAIT;
	}
	return all;
}

/* ---- nearness ---- */

/* The node where a named task ran, or the named node. */
static void node_of(const struct candidate *c, const char *name, char ret[FLEET_ID_MAX + 1])
{
	struct buf buf_auto text = BUF_INIT;
	struct err e = ERR_INIT;
	struct fleet_task other;
	uint64_t revision;

	snprintf(ret, FLEET_ID_MAX + 1, "%s", name);
	if (c->n->port->ops->get_task(c->n->port, name, &text, &revision, &e) != 0 ||
	    fleet_task_parse(text.data, text.len, &other, &e) < 0)
		return;
	snprintf(ret, FLEET_ID_MAX + 1, "%s", other.node);
	fleet_task_done(&other);
}

struct near_nodes {
	const json_t *names; /* of the nodes that the task would rather run on */
	bool any_free;
};

static bool has_name(const json_t *names, const char *name)
{
	size_t i;
	json_t *v;

	json_array_foreach ((json_t *)names, i, v)
		if (strcmp(json_string_value(v), name) == 0)
			return true;
	return false;
}

static void find_free(void *ctx, const char *key, const char *value, size_t len, uint64_t revision)
{
	struct near_nodes *near = ctx;
	json_auto_t *entry = has_name(near->names, key) ? json_loadb(value, len, 0, NULL) : NULL;

	near->any_free |= entry && !json_is_true(json_object_get(entry, "draining")) &&
			  json_get_uint(json_object_get(entry, "free"), "tasks") > 0;
}

/* When this node first saw the task, by its own clock. 0 = too many tasks wait like this one. */
static uint64_t first_seen(const struct candidate *c)
{
	struct fleet_waiting *free_row = NULL;

	for (size_t i = 0; i < countof(c->n->waiting); i++) {
		struct fleet_waiting *w = &c->n->waiting[i];

		if (w->since && strcmp(w->task, c->m->task) == 0)
			return w->since;
		if (!w->since || c->now >= w->since + 2 * NEAR_MS)
			free_row = w;
	}
	if (!free_row)
		return 0;
	memcpy(free_row->task, c->m->task, sizeof(free_row->task));
	return free_row->since = c->now;
}

/* Whether this node leaves the task to one that is nearer for now: that has room, and has had little time to take it.
 */
static bool leaves_to_nearer(const struct candidate *c)
{
	json_auto_t *names = json_array();
	struct near_nodes near = { .names = names };
	struct err e = ERR_INIT;
	size_t i;
	json_t *name;

	json_array_foreach ((json_t *)c->t->spec.near, i, name) {
		char node[FLEET_ID_MAX + 1];

		node_of(c, json_string_value(name), node);
		json_array_append_new(names, json_string(node));
	}
	if (!json_array_size(names) || has_name(names, c->n->config->node))
		return false;
	const uint64_t since = first_seen(c);
	return since && c->now < since + NEAR_MS &&
	       c->n->port->ops->list_nodes(c->n->port, find_free, &near, &e) == 0 && near.any_free;
}

static bool profile_allowed(const struct fleet_submitter *s, const char *profile)
{
	size_t i;
	json_t *name;

	json_array_foreach (s->profiles, i, name)
		if (strcmp(json_string_value(name), profile ? profile : "default") == 0)
			return true;
	return s->profiles == NULL;
}

/* More than any node writes. What makes it so large is dropped. */
static void refuse_large(const struct candidate *c)
{
	json_array_clear(c->t->attempts);
	fleet_signed_done(&c->t->cancel);
	fleet_signed_done(&c->t->retry);
	refuse(c, FLEET_FAILED, "its document is too large");
}

static void claim(const struct candidate *c)
{
	struct buf buf_auto text = BUF_INIT;
	struct err e = ERR_INIT;
	struct fleet_task *t = c->t;
	uint64_t revision = 0, random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return put_back(c, OTHERS_MS);
	t->state = FLEET_RUNNING;
	snprintf(t->node, sizeof(t->node), "%s", c->n->config->node);
	snprintf(t->instance, sizeof(t->instance), "%s", c->n->config->instance);
	snprintf(t->claim, sizeof(t->claim), "%016llx", (unsigned long long)random);
	t->attempt++;
	t->token = 0;
	t->claimed_at = t->heartbeat_at = c->real;
	t->reason[0] = '\0';
	free(t->result);
	t->result = NULL;
	fleet_task_write(t, &text);
	if (text.len > FLEET_TASK_MAX / 4 * 3) /* there must be room for requests and the result */
		return refuse_large(c);
	int done = c->n->port->ops->update_task(c->n->port, t->spec.id, &text, c->revision, &revision, &e);
	if (done == 0)
		return fleet_run_begin(c->n, t, revision, c->m, c->now);
	/*
	 * 1: another was faster. −1: unknown; if the claim was written, its message comes again and finds a claim of
	 * this node that nothing was created for.
	 */
	if (done == 1)
		put_back(c, 0);
}

/* A queued task whose signature holds. */
static void consider(const struct candidate *c)
{
	const struct fleet_submitter *s = fleet_node_submitter(c->n, c->t->spec_text.key);
	char failed[FLEET_ID_MAX + 1], reason[FLEET_REASON_MAX];

	if (fleet_task_cancelled(c->t, fleet_node_is_operator, c->n))
		return refuse(c, FLEET_CANCELLED, "cancelled before it started");
	if (c->real > c->t->spec.not_after)
		return refuse(c, FLEET_FAILED, "it was not started before its notAfter");
	if (c->t->attempt >= fleet_task_attempts_allowed(c->t, fleet_node_is_operator, c->n))
		return refuse(c, FLEET_FAILED, "all attempts are used up");
	/* From the future: one of the clocks is wrong, and the record of its start could be removed too early. */
	if (c->t->spec.submitted_at > c->real + CLOCKS_MS || !s || !profile_allowed(s, c->t->spec.profile) ||
	    (s->max_tasks && running_of(c->n, s->key) >= s->max_tasks) || !has_room(c->n, &c->t->spec.needs) ||
	    !satisfies(c->n, &c->t->spec.needs))
		return put_back(c, OTHERS_MS);
	switch (check_after(c, failed)) {
	case AFTER_WAIT: return put_back(c, AFTER_MS);
	case AFTER_FAILED:
		snprintf(reason, sizeof(reason), "task '%s', which it waits for, did not complete", failed);
		return refuse(c, FLEET_FAILED, reason);
	case AFTER_COMPLETED: break;
	}
	if (leaves_to_nearer(c)) {
		c->n->fetch_at = c->now + NEAR_RETRY_MS;
		return put_back(c, NEAR_AGAIN_MS);
	}
	claim(c);
}

/* A claim of this node that this process does not know: of an earlier process, or whose answer was lost. */
static void own_claim(const struct candidate *c)
{
	struct fleet_run *r = fleet_node_run(c->n, c->t->spec.id);

	if (r && strcmp(r->task.claim, c->t->claim) == 0) {
		if (!r->has_message) {
			r->message = *c->m;
			r->has_message = true;
		}
		return;
	}
	int known = fleet_run_adopt(c->n, c->t, c->revision, c->m, c->now);
	if (known < 0)
		return put_back(c, OTHERS_MS);
	if (known == 0)
		return;
	/*
	 * The daemon has no such task. Without a token in the document it was not started, and the attempt does not
	 * count. With one it may have been: the store was replaced, or retention removed the task.
	 */
	if (!c->t->token) {
		c->t->attempt--;
		return refuse(c, FLEET_QUEUED, "the node restarted before it started the task");
	}
	fleet_attempt_ended(c->t, FLEET_LOST, -1, "the node no longer knows the task");
	refuse(c, c->t->state, "the node no longer knows the task");
}

static void handle_candidate(const struct candidate *c)
{
	struct err e = ERR_INIT;

	if (fleet_state_ended(c->t->state))
		return acknowledge(c->n, c->m);
	if (strcmp(c->t->spec.id, c->m->task) != 0 || fleet_task_verify(c->t, &e) < 0)
		return refuse(c, FLEET_FAILED,
			      e.message[0] ? "the signature is not the submitter's"
					   : "the signed spec is of another task");
	if (c->t->state == FLEET_QUEUED)
		return consider(c);
	if (fleet_node_owns(c->n, c->t))
		return own_claim(c);
	if (!fleet_node_submitter(c->n, c->t->spec_text.key)) /* for nodes that know it */
		return put_back(c, OTHERS_MS);
	fleet_suspect_add(c->n, c->m, c->t, c->revision);
}

/* 1 = the queue of the class is empty. */
static int fetch_one(struct fleet_node *n, const struct fleet_class *class, uint64_t now, uint64_t real)
{
	struct buf buf_auto text = BUF_INIT;
	struct err e = ERR_INIT;
	struct fleet_message m;
	struct fleet_task t;
	uint64_t revision;
	int r = n->port->ops->fetch(n->port, class->class, class->priority, &m, &e);

	if (r == 1)
		fleet_scan_count(n, class->class, class->priority, 1);
	if (r != 0)
		return r;
	json_object_set_new(n->delivered, m.task, json_true());
	r = n->port->ops->get_task(n->port, m.task, &text, &revision, &e);
	if (r < 0)
		return -1;
	if (r == 1) { /* no document: nothing to run */
		acknowledge(n, &m);
		return 0;
	}
	if (fleet_task_parse(text.data, text.len, &t, &e) < 0) {
		log_warning("the document of task '%s' is ignored: %s%s%s", m.task, e.field, e.field[0] ? ": " : "",
			    e.message);
		acknowledge(n, &m);
		return 0;
	}
	handle_candidate(&(struct candidate){ n, &m, &t, revision, now, real });
	fleet_task_done(&t); /* empty if it was taken over */
	return 0;
}

void fleet_claim_fetch(struct fleet_node *n, uint64_t now, uint64_t real)
{
	const unsigned most = 16; /* of one class in one tick: leases have to be renewed in between */

	for (const struct fleet_class *c = n->classes; c; c = c->next) {
		int r = 0;

		for (unsigned i = 0; r == 0 && i < most && satisfies(n, &c->needs) && has_room(n, &c->needs); i++)
			r = fetch_one(n, c, now, real);
		if (r < 0)
			return;
	}
}
