/* The node's tick: recovery, runs, suspects, new claims, and its own entry on the bus. */

#include "supervisor/fleet/fleet_node.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/jw.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"

#include <stdlib.h>
#include <string.h>

#define ANNOUNCE_MS 5000u
#define ANNOUNCE_AGAIN_MS 500u
#define CLOCK_DIFFERENCE_MS \
	300000 /* by which a node's clock may differ from the server's: as for requests (node_requests.c) */
#define CLASSES_MS 10000u
#define FETCH_MS 1000u
#define SCAN_MS 60000u
#define TICK_MS 200u
#define LISTED_CHECK 64u /* documents of a list, after which the clock is read */

static void renew_while_listing(struct fleet_node *n);

void fleet_node_init(struct fleet_node *n, struct fleet_port *p, struct fleet_daemon *d, struct fleet_node_config *c)
{
	*n = (struct fleet_node){ .port = p,
				  .daemon = d,
				  .config = c,
				  .woken = true,
				  .delivered = json_object(),
				  .empty = json_object(),
				  .listed = renew_while_listing };
}

static void free_classes(struct fleet_node *n)
{
	for (struct fleet_class *c; (c = n->classes);) {
		n->classes = c->next;
		json_decref(c->root);
		free(c);
	}
}

void fleet_node_done(struct fleet_node *n)
{
	free_classes(n);
	for (struct fleet_run *r; (r = n->runs);) {
		n->runs = r->next;
		fleet_run_free(r);
	}
	for (struct fleet_suspect *s; (s = n->suspects);) {
		n->suspects = s->next;
		free(s);
	}
	json_decref(n->scanned);
	json_decref(n->delivered);
	json_decref(n->empty);
}

/* ---- recovery ---- */

struct stale_tasks {
	struct fleet_node *n;
	uint64_t now;
	bool failed;
	json_t *claims; /* ids */
};

/* A local task that runs: continues if the bus still says that it is ours, ends otherwise. */
static void recover_local(void *ctx, const char *local_id, const struct fleet_local *l)
{
	struct stale_tasks *s = ctx;
	struct fleet_node *n = s->n;
	struct buf buf_auto text = BUF_INIT;
	struct err e = ERR_INIT;
	struct fleet_task t;
	uint64_t revision = 0;
	char own[FLEET_LOCAL_ID] = "";

	if (fleet_node_run(n, l->fleet_id))
		return;
	int r = n->port->ops->get_task(n->port, l->fleet_id, &text, &revision, &e);
	if (r < 0) {
		s->failed = true;
		return;
	}
	if (r == 0 && fleet_task_parse(text.data, text.len, &t, &e) == 0) {
		fleet_local_id(&t, own);
		if (t.state == FLEET_RUNNING && fleet_node_owns(n, &t) && strcmp(own, local_id) == 0 &&
		    fleet_run_adopt(n, &t, revision, NULL, s->now) == 0)
			return;
		fleet_task_done(&t);
	}
	log_warning("task '%s' is no longer this node's: its processes are ended", l->fleet_id);
	e = ERR_INIT;
	if (n->daemon->ops->cancel(n->daemon, local_id, "claim_taken", &e) < 0)
		s->failed = true;
}

/* Claims of this node on the bus, by id: the listing is still being read. */
static void find_claim(void *ctx, const char *key, const char *value, size_t len, uint64_t revision)
{
	struct stale_tasks *s = ctx;
	struct fleet_task t;
	struct err e = ERR_INIT;

	s->n->listed(s->n);
	if (fleet_task_parse(value, len, &t, &e) < 0)
		return;
	if (t.state == FLEET_RUNNING && fleet_node_owns(s->n, &t) && !fleet_node_run(s->n, t.spec.id))
		json_array_append_new(s->claims, json_string(t.spec.id));
	fleet_task_done(&t);
}

/*
 * What ended here while this process did not run: its result is not written yet, and another node would take it for
 * lost. What the daemon does not know was not started; its message brings it back.
 */
static void recover_claim(struct stale_tasks *s, const char *id)
{
	struct fleet_node *n = s->n;
	struct buf buf_auto text = BUF_INIT;
	struct err e = ERR_INIT;
	struct fleet_task t;
	uint64_t revision = 0;
	int r = n->port->ops->get_task(n->port, id, &text, &revision, &e);

	if (r != 0 || fleet_task_parse(text.data, text.len, &t, &e) < 0) {
		s->failed |= r < 0;
		return;
	}
	if (t.state == FLEET_RUNNING && fleet_node_owns(n, &t) && !fleet_node_run(n, id))
		s->failed |= fleet_run_adopt(n, &t, revision, NULL, s->now) < 0;
	fleet_task_done(&t);
}

static void recover(struct fleet_node *n, uint64_t now)
{
	struct stale_tasks s = { .n = n, .now = now, .claims = json_array() };
	struct err e = ERR_INIT;
	size_t i;
	json_t *id;

	if (n->daemon->ops->list(n->daemon, recover_local, &s, &e) == 0 &&
	    n->port->ops->list_tasks(n->port, find_claim, &s, &e) == 0) {
		json_array_foreach (s.claims, i, id)
			recover_claim(&s, json_string_value(id));
		n->recovered = !s.failed;
	}
	json_decref(s.claims);
}

/* ---- classes ---- */

static void add_class(void *ctx, const char *key, const char *value, size_t len, uint64_t revision)
{
	struct fleet_node *n = ctx;
	struct fleet_class **at = &n->classes, *c = mem_zalloc(1, sizeof(*c));
	struct err e = ERR_INIT;
	int used = 0;

	c->root = json_loadb(value, len, JSON_REJECT_DUPLICATES, NULL);
	if (sscanf(key, "%16[0-9a-f].%u%n", c->class, &c->priority, &used) != 2 || key[used] || c->priority > 9 ||
	    !json_is_object(c->root) || fleet_needs_read(c->root, &c->needs, &e) < 0) {
		json_decref(c->root);
		free(c);
		return;
	}
	while (*at && (*at)->priority >= c->priority)
		at = &(*at)->next;
	c->next = *at;
	*at = c;
}

static void refresh_classes(struct fleet_node *n, uint64_t now)
{
	struct err e = ERR_INIT;

	free_classes(n);
	n->refreshed_at = now;
	n->woken = true;
	n->classes_at = now + (n->port->ops->list_classes(n->port, add_class, n, &e) == 0 ? CLASSES_MS : FETCH_MS);
}

/* ---- the node's own entry ---- */

/* With a wrong clock the node would take the tasks of others for expired. */
static bool clock_is_right(const struct fleet_node *n)
{
	return n->clock_known && llabs(n->clock_ahead) <= FLEET_CLOCK_MS;
}

static void write_entry(const struct fleet_node *n, bool draining, struct buf *ret)
{
	struct jw w = jw_on(ret);
	mem_auto char *labels = json_dumps(n->config->labels, JSON_COMPACT | JSON_SORT_KEYS);
	uint64_t memory = 0, running = 0;

	for (const struct fleet_run *r = n->runs; r; r = r->next) {
		memory += r->task.spec.needs.memory;
		running++;
	}
	jw_obj(&w);
	jw_kuint(&w, "v", 1);
	jw_kstr(&w, "node", n->config->node);
	jw_kstr(&w, "instance", n->config->instance);
	jw_kraw(&w, "labels", labels ? labels : "{}", strlen(labels ? labels : "{}"));
	jw_kstr(&w, "arch", n->config->arch);
	jw_kuint(&w, "memory", n->config->memory);
	jw_kuint(&w, "cpus", n->config->cpus);
	jw_kuint(&w, "maxTasks", n->config->max_tasks);
	jw_kuint(&w, "running", running);
	jw_kobj(&w, "free");
	jw_kuint(&w, "memory", memory < n->config->memory ? n->config->memory - memory : 0);
	jw_kuint(&w, "tasks", running < n->config->max_tasks ? n->config->max_tasks - running : 0);
	jw_obj_end(&w);
	jw_kstr(&w, "version", BAILIFF_VERSION);
	jw_kbool(&w, "draining", draining);
	if (n->port->differs)
		jw_kstr(&w, "differs", n->port->differs);
	if (llabs(n->clock_ahead) > FLEET_CLOCK_MS)
		jw_kint(&w, "clockAheadMs", n->clock_ahead);
	jw_obj_end(&w);
}

/* Another daemon with this name. Tasks that this one has claimed are finished; nothing else is done under the name. */
static void refuse_name(struct fleet_node *n)
{
	if (!n->refused)
		log_warning(
			"another daemon is node '%s' of this fleet: this one takes no tasks until the other has been "
			"gone for 15 s; give it another name with --fleet-node or fleet.node",
			n->config->node);
	n->refused = true;
	n->named = false;
}

/* Finds the revision of the entry, if it is this daemon's: of an earlier process, or whose answer was lost. 1 = not. */
static int find_entry(struct fleet_node *n)
{
	struct buf buf_auto text = BUF_INIT;
	struct err e = ERR_INIT;
	uint64_t revision = 0;
	int r = n->port->ops->get_node(n->port, n->config->node, &text, &revision, &e);

	if (r != 0)
		return r < 0 ? -1 : 0; /* none: the name is free */
	json_auto_t *entry = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
	/* What names no daemon is not a node's: any user of the server can have its answers stored there. */
	if (json_get_text(entry, "instance")[0] && !json_text_is(entry, "instance", n->config->instance))
		return 1;
	n->entry_revision = revision;
	return 0;
}

/* From the time of the entry that was sent at `real`. False if that is unknown, or something has changed. */
static bool compare_clocks(struct fleet_node *n, uint64_t real)
{
	const bool was_right = llabs(n->clock_ahead) <= FLEET_CLOCK_MS;
	struct err e = ERR_INIT;
	uint64_t stored = 0;

	n->clock_known = n->port->ops->node_stored_at(n->port, n->config->node, &stored, &e) == 0;
	if (!n->clock_known)
		return false;
	n->clock_ahead = (int64_t)(real - stored);
	if (clock_is_right(n) == was_right)
		return true;
	if (was_right)
		log_warning("this machine's clock is %lld s %s the server's: this node takes no tasks until it is set",
			    (long long)(llabs(n->clock_ahead) / 1000), n->clock_ahead < 0 ? "behind" : "ahead of");
	else
		log_info("this machine's clock agrees with the server's again");
	return false;
}

/*
 * The entry is written from the revision that this daemon wrote last: of two with the same name one has it, and the
 * other notices. Returns when to do it again.
 */
static uint64_t announce(struct fleet_node *n, bool draining, uint64_t real)
{
	struct buf buf_auto text = BUF_INIT;
	struct err e = ERR_INIT;
	int done = n->entry_revision ? 0 : find_entry(n);

	if (done == 1)
		refuse_name(n);
	if (done != 0)
		return ANNOUNCE_AGAIN_MS;
	write_entry(n, draining, &text);
	done = n->port->ops->put_node(n->port, n->config->node, &text, n->entry_revision, &n->entry_revision, &e);
	if (done != 0) { /* it has expired, another has the name, or the answer was lost */
		n->entry_revision = 0;
		return ANNOUNCE_AGAIN_MS;
	}
	if (n->refused)
		log_info("the other node '%s' is gone", n->config->node);
	n->named = true;
	n->refused = false;
	return compare_clocks(n, real) ? ANNOUNCE_MS : ANNOUNCE_AGAIN_MS;
}

/* ---- the tick ---- */

static void tick_runs(struct fleet_node *n, uint64_t now, uint64_t real)
{
	for (struct fleet_run **at = &n->runs, *r; (r = *at);) {
		fleet_run_tick(n, r, now, real);
		if (r->phase != FLEET_RUN_ENDED || r->task.spec_text.text) {
			at = &r->next;
			continue;
		}
		*at = r->next; /* fleet_run_tick has finished with it */
		fleet_run_free(r);
		n->woken = true;
	}
	n->checks = false;
}

static void renew_while_listing(struct fleet_node *n)
{
	uint64_t now, real;

	if (!n->clock || ++n->nlisted % LISTED_CHECK)
		return;
	n->clock(&now, &real);
	if (now < n->renew_at || !n->port->ops->connected(n->port))
		return;
	n->renew_at = now + TICK_MS;
	tick_runs(n, now, real);
	if (n->named && now >= n->announce_at) /* or the name would be free after 15 s */
		n->announce_at = now + announce(n, n->daemon->ops->draining(n->daemon), real);
}

/* What was just claimed starts, or gets the next piece of its workspace, without a pause. */
static bool prepares(const struct fleet_node *n)
{
	for (const struct fleet_run *r = n->runs; r; r = r->next)
		if (r->phase == FLEET_RUN_PREPARING && !r->admit_at)
			return true;
	return false;
}

uint64_t fleet_node_tick(struct fleet_node *n, uint64_t now, uint64_t real)
{
	bool connected = n->port->ops->connected(n->port), draining;

	tick_runs(n, now, real); /* also without the bus: leases end */
	if (!connected)
		return now + TICK_MS;
	draining = n->daemon->ops->draining(n->daemon);
	if (now >= n->announce_at)
		n->announce_at = now + announce(n, draining, real);
	if (!n->named)
		return now + TICK_MS;
	if (!n->recovered)
		recover(n, now);
	fleet_suspect_tick(n, now);
	if (!n->recovered || draining || !clock_is_right(n))
		return now + TICK_MS;
	/* What was enqueued may be of a class that is not known yet. */
	if (n->woken && n->classes_at > n->refreshed_at + FETCH_MS)
		n->classes_at = n->refreshed_at + FETCH_MS;
	if (now >= n->classes_at) {
		refresh_classes(n, now);
		if (n->port->differs)
			n->port->ops->check_settings(n->port);
	}
	if (n->woken || now >= n->fetch_at) {
		n->woken = false;
		n->fetch_at = now + FETCH_MS;
		fleet_claim_fetch(n, now, real);
	}
	if (now >= n->scan_at) {
		n->scan_at = now + SCAN_MS;
		fleet_scan(n);
	}
	return n->woken || prepares(n) ? now : now + TICK_MS;
}
