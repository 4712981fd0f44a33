/* Tasks of nodes that may be gone, and queued tasks whose message is missing. */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/fleet/fleet_node.h"

#include <stdio.h>
#include <string.h>

#define KEEP_MS (FLEET_KEEP_MS / 3)
#define SUSPECTS_MAX 1000
#define EMPTY_MIN 20u /* of about 60 requests between two scans */
#define UNHELD_LEASE_MS 30000u

/* ---- suspects ---- */

void fleet_suspect_add(struct fleet_node *n, const struct fleet_message *m, const struct fleet_task *t,
		       uint64_t revision)
{
	struct fleet_suspect *s;
	int count = 0;

	for (s = n->suspects; s; s = s->next, count++)
		if (strcmp(s->message.task, m->task) == 0) { /* delivered again: the newer message counts */
			s->message = *m;
			return;
		}
	if (count >= SUSPECTS_MAX)
		return; /* it comes again */
	s = mem_zalloc(1, sizeof(*s));
	s->message = *m;
	s->revision = revision;
	s->lease_ms = t->spec.lease_ms;
	s->next = n->suspects;
	n->suspects = s;
}

/* The node did not renew for a whole lease: its attempt is over, by its own rule already before. */
static int declare_lost(struct fleet_node *n, struct fleet_suspect *s, struct fleet_task *t, struct err *e)
{
	struct buf buf_auto text = BUF_INIT;
	char reason[FLEET_REASON_MAX];
	uint64_t revision;

	snprintf(reason, sizeof(reason), "node '%s' did not renew its lease", t->node);
	fleet_attempt_ended(t, FLEET_LOST, -1, reason);
	fleet_task_write(t, &text);
	int done = n->port->ops->update_task(n->port, s->message.task, &text, s->revision, &revision, e);
	if (done == 0) {
		fleet_record_lost(n, t); /* if that fails, the next attempt waits for another lease */
		log_warning("task '%s' is %s: %s (attempt %llu, token %llu)", t->spec.id,
			    t->state == FLEET_QUEUED ? "queued again" : "lost", reason, (unsigned long long)t->attempt,
			    (unsigned long long)t->token);
	}
	return done;
}

/* Whether the suspect is settled. */
static bool settle(struct fleet_node *n, struct fleet_suspect *s)
{
	struct buf buf_auto text = BUF_INIT;
	struct err e = ERR_INIT;
	struct fleet_task t;
	uint64_t revision;
	int r = n->port->ops->get_task(n->port, s->message.task, &text, &revision, &e);

	if (r < 0)
		return false;
	if (r == 1 || fleet_task_parse(text.data, text.len, &t, &e) < 0)
		return n->port->ops->acknowledge(n->port, &s->message, &e) == 0;
	if (t.state == FLEET_RUNNING && revision == s->revision)
		r = declare_lost(n, s, &t, &e);
	enum fleet_state state = t.state;
	uint64_t lease_ms = t.spec.lease_ms;
	fleet_task_done(&t);
	if (r < 0)
		return false;
	if (r == 1) /* it was renewed after all */
		state = FLEET_RUNNING;
	if (fleet_state_ended(state))
		return n->port->ops->acknowledge(n->port, &s->message, &e) == 0;
	(void)n->port->ops->put_back(n->port, &s->message, state == FLEET_QUEUED ? 0 : lease_ms / 2, &e);
	n->woken |= state == FLEET_QUEUED;
	return true;
}

void fleet_suspect_tick(struct fleet_node *n, uint64_t now)
{
	for (struct fleet_suspect **at = &n->suspects, *s; (s = *at);) {
		struct err e = ERR_INIT;

		if (!s->since) { /* the document was read before this tick, not before the last one */
			s->since = now;
			s->keep_at = now + KEEP_MS;
		}
		if (now >= s->keep_at) {
			(void)n->port->ops->keep(n->port, &s->message, &e);
			s->keep_at = now + KEEP_MS;
		}
		if (now < s->since + s->lease_ms || !settle(n, s)) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		free(s);
	}
}

/* ---- the scan ---- */

struct first_node {
	char name[FLEET_ID_MAX + 1];
};

static void find_first(void *ctx, const char *key, const char *value, size_t len, uint64_t revision)
{
	struct first_node *f = ctx;
	json_auto_t *entry = json_loadb(value, len, JSON_REJECT_DUPLICATES, NULL);

	if (!json_text_is(entry, "node", key)) /* not written by a node */
		return;
	if (!f->name[0] || strcmp(key, f->name) < 0)
		snprintf(f->name, sizeof(f->name), "%s", key);
}

struct scan {
	struct fleet_node *n;
	json_t *seen;
	struct missing {
		struct missing *next;
		char id[FLEET_ID_MAX + 1], class[FLEET_CLASS_TEXT];
		unsigned priority;
		uint64_t attempt;
		bool unheld; /* no node that works keeps its message for this long */
		struct buf needs;
	} * missing;
};

uint64_t fleet_scan_count(struct fleet_node *n, const char *class, unsigned priority, unsigned more)
{
	char key[64];

	snprintf(key, sizeof(key), "%s.%u", class, priority);
	const uint64_t count = json_get_uint(n->empty, key) + more;
	if (more)
		json_object_set_new(n->empty, key, json_integer((json_int_t)count));
	return count;
}

/* The listing is still being read: what is missing is enqueued afterwards. */
static void scan_task(void *ctx, const char *key, const char *value, size_t len, uint64_t revision)
{
	struct scan *s = ctx;
	struct fleet_task t;
	struct err e = ERR_INIT;

	s->n->listed(s->n);
	if (!fleet_id_valid(key) || fleet_task_parse(value, len, &t, &e) < 0)
		return;
	if (!fleet_state_ended(t.state)) {
		json_object_set_new(s->seen, key, json_integer((json_int_t)revision));
		if (json_get_uint(s->n->scanned, key) == revision) { /* it did not change since the last scan */
			struct missing *m = mem_zalloc(1, sizeof(*m));

			snprintf(m->id, sizeof(m->id), "%s", key);
			fleet_needs_class(&t.spec.needs, m->class);
			m->priority = (unsigned)t.spec.priority;
			m->attempt = t.attempt + 1;
			m->unheld = t.state == FLEET_QUEUED || t.spec.lease_ms <= UNHELD_LEASE_MS;
			fleet_needs_write(&t.spec.needs, &m->needs);
			m->next = s->missing;
			s->missing = m;
		}
	}
	fleet_task_done(&t);
}

/*
 * One node, the first by name, looks at all tasks: one that has not ended and has not changed since the last scan
 * should have a message. The server refuses a second one, so nothing is doubled. If there is a message that no node
 * holds, and this node asked for one again and again and did not get it, the server has forgotten it.
 */
void fleet_scan(struct fleet_node *n)
{
	struct first_node first = { 0 };
	struct scan s = { .n = n, .seen = json_object() };
	struct err e = ERR_INIT;

	if (n->port->ops->list_nodes(n->port, find_first, &first, &e) == 0 &&
	    strcmp(first.name, n->config->node) == 0 && n->port->ops->list_tasks(n->port, scan_task, &s, &e) == 0) {
		json_decref(n->scanned);
		n->scanned = json_incref(s.seen);
	}
	for (struct missing *m; (m = s.missing);) {
		s.missing = m->next;
		int there = -1;
		/* The client may not even have come to the class. */
		if (n->port->ops->put_class(n->port, m->class, m->priority, &m->needs, &e) == 0)
			there = n->port->ops->enqueue(n->port, m->class, m->priority, m->id, m->attempt, &e);
		if (there == 0)
			log_warning("task '%s' had no message in the queue: it was enqueued again", m->id);
		if (there == 1 && m->unheld && !json_object_get(n->delivered, m->id) &&
		    fleet_scan_count(n, m->class, m->priority, 0) >= EMPTY_MIN) {
			n->port->ops->deliver_again(n->port, m->class, m->priority);
			json_object_clear(n->empty); /* once is enough, also for other tasks of the class */
		}
		buf_done(&m->needs);
		free(m);
	}
	json_decref(s.seen);
	json_object_clear(n->delivered);
	json_object_clear(n->empty);
}
