#ifndef BAILIFF_TESTS_FLEET_BUS_H
#define BAILIFF_TESTS_FLEET_BUS_H

/*
 * The simulated server and the port to it, with the relevant behaviour of nats-server 2.9: documents with revisions and
 * updates from an expected one; a work queue that delivers messages again when they are not kept; acknowledgements,
 * keeps and naks of an old delivery that still take effect; a window in which an id of a message is accepted once;
 * entries of nodes that expire.
 */

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "tests/crash/fleet_world.h"

#include <stddef.h>

#define BUS_TASKS 64
#define BUS_CLASSES 4
#define BUS_IDS 4096
#define BUS_LATE 64
#define BUS_WINDOW_MS 120000u
#define BUS_NODE_MS 15000u
#define BUS_HOSTILE 99 /* an actor that only writes documents */

struct bus_task {
	char id[FLEET_ID_MAX + 1];
	struct buf text;
	uint64_t revision;
	enum fleet_state state;
};

/* What each node wrote last about a task, for the hostile client. */
struct bus_written {
	struct buf by[FLEET_NODES];
};

struct bus_record {
	char key[FLEET_ID_MAX + 1];
	struct buf text;
	uint64_t revision;
};

struct bus_message {
	char task[FLEET_ID_MAX + 1], class[FLEET_CLASS_TEXT];
	unsigned priority;
	uint64_t sequence, deliver_at; /* when a delivered one is delivered again */
};

struct bus_late {
	uint64_t at, revision, sequence; /* sequence: an acknowledgement */
	bool record;                     /* of a start; task: its key */
	char task[FLEET_ID_MAX + 1];
	struct buf text;
	int actor;
};

struct bus {
	struct fleet_world w; /* first: actors point to it */
	struct bus_task tasks[BUS_TASKS];
	struct bus_record records[BUS_TASKS];
	struct bus_written written[BUS_TASKS];
	struct bus_message messages[BUS_TASKS];
	struct {
		char key[64];
		struct buf needs;
	} classes[BUS_CLASSES];
	struct {
		char id[96];
		uint64_t until;
	} ids[BUS_IDS];
	struct bus_late late[BUS_LATE];
	size_t ntasks, nrecords, nmessages, nclasses, nids;
	uint64_t revision, sequence, node_until[FLEET_NODES];
};

static inline struct actor *actor_of(struct fleet_port *p)
{
	return (struct actor *)((char *)p - offsetof(struct actor, port));
}
static inline struct bus *bus_of(struct fleet_port *p) { return (struct bus *)actor_of(p)->w; }

/* ---- documents ---- */

static struct bus_task *bus_task(struct bus *b, const char *id)
{
	for (size_t i = 0; i < b->ntasks; i++)
		if (strcmp(b->tasks[i].id, id) == 0)
			return &b->tasks[i];
	return NULL;
}

/* Checks every write: an end is final, except that the client may retry a task that did not complete. */
static void bus_check_write(struct bus *b, const struct bus_task *t, enum fleet_state state, int actor)
{
	if (!fleet_state_ended(t->state) || actor == BUS_HOSTILE)
		return;
	if (t->state == FLEET_COMPLETED || actor != FLEET_NODES)
		world_wrong(&b->w, "task %s was %s and is written as %s by actor %d", t->id, fleet_state_name(t->state),
			    fleet_state_name(state), actor);
}

static uint64_t bus_write(struct bus *b, struct bus_task *t, const struct buf *text, int actor)
{
	struct fleet_task parsed;
	struct err e = ERR_INIT;

	if (fleet_task_parse(text->data, text->len, &parsed, &e) < 0) {
		world_wrong(&b->w, "an invalid document was written: %s", e.message);
		return 0;
	}
	if (t->text.len)
		bus_check_write(b, t, parsed.state, actor);
	t->state = parsed.state;
	t->revision = ++b->revision;
	world_tell(&b->w, "actor %d writes %s %s attempt %llu revision %llu: %s", actor, t->id,
		   fleet_state_name(parsed.state), (unsigned long long)parsed.attempt, (unsigned long long)t->revision,
		   parsed.reason);
	fleet_task_done(&parsed);
	buf_reset(&t->text);
	buf_append(&t->text, text->data, text->len);
	if (actor < FLEET_NODES) {
		struct buf *own = &b->written[t - b->tasks].by[actor];

		buf_reset(own);
		buf_append(own, text->data, text->len);
	}
	return t->revision;
}

/* The hostile client restores what a node wrote last, whatever others have written since. */
static void bus_flip(struct bus *b, struct bus_task *t, int actor)
{
	if (!t || !b->w.flips || actor >= FLEET_NODES)
		return;
	const struct buf *own = &b->written[t - b->tasks].by[actor];
	if (!own->len || (own->len == t->text.len && memcmp(own->data, t->text.data, own->len) == 0) ||
	    !world_fault(&b->w, 9000))
		return;
	b->w.counts[COUNT_HOSTILE]++;
	bus_write(b, t, own, BUS_HOSTILE);
}

static int bus_update(struct bus *b, const char *id, const struct buf *text, uint64_t revision, int actor,
		      uint64_t *ret_revision)
{
	struct bus_task *t = bus_task(b, id);

	if (!t || (t->revision != revision && b->w.fault != FAULT_NO_CAS))
		return 1;
	*ret_revision = bus_write(b, t, text, actor);
	return 0;
}

static int bus_get_task(struct fleet_port *p, const char *id, struct buf *ret, uint64_t *ret_revision, struct err *e)
{
	enum call_fate fate = call_begin(actor_of(p));
	struct bus_task *t = bus_task(bus_of(p), id);

	bus_flip(bus_of(p), t, actor_of(p)->number);
	uint64_t revision = t ? t->revision : 0;

	buf_reset(ret);
	if (t)
		buf_append(ret, t->text.data, t->text.len);
	if (call_end(actor_of(p), fate, e) < 0)
		return -1;
	*ret_revision = revision;
	return t ? 0 : 1;
}

static int bus_create_task(struct fleet_port *p, const char *id, const struct buf *text, uint64_t *ret_revision,
			   struct err *e)
{
	struct bus *b = bus_of(p);
	enum call_fate fate = call_begin(actor_of(p));
	int r = 0;

	if (fate == CALL_DONE || fate == CALL_UNANSWERED) {
		r = bus_task(b, id) != NULL;
		if (r == 0 && b->ntasks < BUS_TASKS) {
			struct bus_task *t = &b->tasks[b->ntasks++];

			snprintf(t->id, sizeof(t->id), "%s", id);
			*ret_revision = bus_write(b, t, text, actor_of(p)->number);
		}
	}
	return call_end(actor_of(p), fate, e) < 0 ? -1 : r;
}

static struct bus_late *bus_late_new(struct bus *b)
{
	for (size_t i = 0; i < BUS_LATE; i++)
		if (!b->late[i].at) {
			b->late[i].at = b->w.now + 1 + world_pick(&b->w, 6000);
			return &b->late[i];
		}
	return NULL;
}

static int bus_update_task(struct fleet_port *p, const char *id, const struct buf *text, uint64_t revision,
			   uint64_t *ret_revision, struct err *e)
{
	struct bus *b = bus_of(p);
	enum call_fate fate = call_begin(actor_of(p));
	uint64_t written = 0;
	int r = 1;

	if (fate == CALL_DONE || fate == CALL_UNANSWERED)
		r = bus_update(b, id, text, revision, actor_of(p)->number, &written);
	struct bus_late *late = fate == CALL_LATE ? bus_late_new(b) : NULL;
	if (late) {
		snprintf(late->task, sizeof(late->task), "%s", id);
		buf_reset(&late->text);
		buf_append(&late->text, text->data, text->len);
		late->revision = revision;
		late->sequence = 0;
		late->record = false;
		late->actor = actor_of(p)->number;
	}
	if (call_end(actor_of(p), fate, e) < 0)
		return -1;
	*ret_revision = written;
	return r;
}

static int bus_list_tasks(struct fleet_port *p, fleet_entry_fn fn, void *ctx, struct err *e)
{
	struct bus *b = bus_of(p);
	enum call_fate fate = call_begin(actor_of(p));

	for (size_t i = 0; i < b->ntasks; i++)
		fn(ctx, b->tasks[i].id, b->tasks[i].text.data, b->tasks[i].text.len, b->tasks[i].revision);
	return call_end(actor_of(p), fate, e);
}

/* ---- records of starts ---- */

static struct bus_record *bus_record(struct bus *b, const char *key)
{
	for (size_t i = 0; i < b->nrecords; i++)
		if (strcmp(b->records[i].key, key) == 0)
			return &b->records[i];
	return NULL;
}

static int bus_write_record(struct bus *b, const char *key, const struct buf *text, uint64_t revision)
{
	struct bus_record *c = bus_record(b, key);

	if ((c ? c->revision : 0) != revision)
		return 1;
	if (!c && b->nrecords == BUS_TASKS)
		return 1;
	if (!c) {
		c = &b->records[b->nrecords++];
		snprintf(c->key, sizeof(c->key), "%s", key);
	}
	buf_reset(&c->text);
	buf_append(&c->text, text->data, text->len);
	c->revision = ++b->revision;
	world_tell(&b->w, "record %.8s revision %llu: %s", key, (unsigned long long)c->revision, buf_cstr(&c->text));
	return 0;
}

static int bus_get_record(struct fleet_port *p, const char *key, struct buf *ret, uint64_t *ret_revision, struct err *e)
{
	enum call_fate fate = call_begin(actor_of(p));
	const struct bus_record *c = bus_record(bus_of(p), key);
	const bool found = c && bus_of(p)->w.fault != FAULT_NO_RECORDS;
	const uint64_t revision = found ? c->revision : 0;

	buf_reset(ret);
	if (found)
		buf_append(ret, c->text.data, c->text.len);
	if (call_end(actor_of(p), fate, e) < 0)
		return -1;
	*ret_revision = revision;
	return found ? 0 : 1;
}

static int bus_put_record(struct fleet_port *p, const char *key, const struct buf *text, uint64_t revision,
			  struct err *e)
{
	struct bus *b = bus_of(p);
	enum call_fate fate = call_begin(actor_of(p));
	int r = 1;

	if (fate == CALL_DONE || fate == CALL_UNANSWERED)
		r = b->w.fault == FAULT_NO_RECORDS ? 0 : bus_write_record(b, key, text, revision);
	struct bus_late *late = fate == CALL_LATE ? bus_late_new(b) : NULL;
	if (late) {
		snprintf(late->task, sizeof(late->task), "%s", key);
		buf_reset(&late->text);
		buf_append(&late->text, text->data, text->len);
		late->revision = revision;
		late->sequence = 0;
		late->record = true;
	}
	return call_end(actor_of(p), fate, e) < 0 ? -1 : r;
}

/* ---- the queue ---- */

static struct bus_message *bus_message(struct bus *b, uint64_t sequence)
{
	for (size_t i = 0; i < b->nmessages; i++)
		if (b->messages[i].sequence == sequence)
			return &b->messages[i];
	return NULL;
}

static void bus_remove(struct bus *b, uint64_t sequence)
{
	struct bus_message *m = bus_message(b, sequence);

	if (m)
		*m = b->messages[--b->nmessages];
}

static int bus_put_class(struct fleet_port *p, const char *class, unsigned priority, const struct buf *needs,
			 struct err *e)
{
	struct bus *b = bus_of(p);
	enum call_fate fate = call_begin(actor_of(p));
	char key[64];
	size_t i = 0;

	snprintf(key, sizeof(key), "%s.%u", class, priority);
	while (i < b->nclasses && strcmp(b->classes[i].key, key) != 0)
		i++;
	if ((fate == CALL_DONE || fate == CALL_UNANSWERED) && i == b->nclasses && i < BUS_CLASSES) {
		snprintf(b->classes[i].key, sizeof(key), "%s", key);
		buf_append(&b->classes[i].needs, needs->data, needs->len);
		b->nclasses++;
	}
	return call_end(actor_of(p), fate, e);
}

static int bus_list_classes(struct fleet_port *p, fleet_entry_fn fn, void *ctx, struct err *e)
{
	struct bus *b = bus_of(p);
	enum call_fate fate = call_begin(actor_of(p));

	for (size_t i = 0; i < b->nclasses && fate == CALL_DONE; i++)
		fn(ctx, b->classes[i].key, b->classes[i].needs.data, b->classes[i].needs.len, i + 1);
	return call_end(actor_of(p), fate, e);
}

/* Whether this id of a message was accepted a short while ago. */
static bool bus_known_id(struct bus *b, const char *id)
{
	for (size_t i = 0; i < b->nids && i < BUS_IDS; i++)
		if (b->ids[i].until > b->w.now && strcmp(b->ids[i].id, id) == 0)
			return true;
	return false;
}

static int bus_accept(struct bus *b, const char *class, unsigned priority, const char *id, uint64_t attempt)
{
	char text[96];

	snprintf(text, sizeof(text), "%s.%llu", id, (unsigned long long)attempt);
	if (bus_known_id(b, text))
		return 0;
	for (size_t i = 0; i < b->nmessages; i++)
		if (strcmp(b->messages[i].task, id) == 0 && b->messages[i].priority == priority &&
		    strcmp(b->messages[i].class, class) == 0)
			return 1;
	if (b->nmessages == BUS_TASKS)
		return 1;
	struct bus_message *m = &b->messages[b->nmessages++];
	*m = (struct bus_message){ .priority = priority, .sequence = ++b->sequence };
	snprintf(m->task, sizeof(m->task), "%s", id);
	snprintf(m->class, sizeof(m->class), "%s", class);
	snprintf(b->ids[b->nids % BUS_IDS].id, sizeof(text), "%s", text);
	b->ids[b->nids++ % BUS_IDS].until = b->w.now + BUS_WINDOW_MS;
	for (int i = 0; i < FLEET_NODES; i++)
		b->w.actors[i].woken |= actor_connected(&b->w.actors[i]);
	return 0;
}

static int bus_enqueue(struct fleet_port *p, const char *class, unsigned priority, const char *id, uint64_t attempt,
		       struct err *e)
{
	enum call_fate fate = call_begin(actor_of(p));
	int r = 0;

	if (fate == CALL_DONE || fate == CALL_UNANSWERED)
		r = bus_accept(bus_of(p), class, priority, id, attempt);
	return call_end(actor_of(p), fate, e) < 0 ? -1 : r;
}

static int bus_fetch(struct fleet_port *p, const char *class, unsigned priority, struct fleet_message *ret,
		     struct err *e)
{
	struct bus *b = bus_of(p);
	enum call_fate fate = call_begin(actor_of(p));
	struct bus_message *first = NULL;
	struct fleet_message m = { 0 };

	for (size_t i = 0; i < b->nmessages; i++) {
		struct bus_message *c = &b->messages[i];

		if (c->deliver_at <= b->w.now && c->priority == priority && strcmp(c->class, class) == 0 &&
		    (!first || c->sequence < first->sequence))
			first = c;
	}
	if (first && (fate == CALL_DONE || fate == CALL_UNANSWERED)) {
		first->deliver_at = b->w.now + FLEET_KEEP_MS;
		snprintf(m.task, sizeof(m.task), "%s", first->task);
		snprintf(m.handle, sizeof(m.handle), "%llu", (unsigned long long)first->sequence);
	}
	if (call_end(actor_of(p), fate, e) < 0)
		return -1;
	*ret = m;
	return m.task[0] ? 0 : 1;
}

static int bus_acknowledge(struct fleet_port *p, const struct fleet_message *m, struct err *e)
{
	struct bus *b = bus_of(p);
	enum call_fate fate = call_begin(actor_of(p));
	uint64_t sequence = strtoull(m->handle, NULL, 10);

	if (fate == CALL_DONE || fate == CALL_UNANSWERED)
		bus_remove(b, sequence);
	struct bus_late *late = fate == CALL_LATE ? bus_late_new(b) : NULL;
	if (late)
		late->sequence = sequence;
	return call_end(actor_of(p), fate, e);
}

/* These two are sent without a reply. */
static int bus_delay(struct fleet_port *p, const struct fleet_message *m, uint64_t ms, struct err *e)
{
	struct bus *b = bus_of(p);
	struct actor *a = actor_of(p);

	b->w.steps++;
	actor_mishap(a);
	if (a->killed || !actor_connected(a))
		return err_set(e, ERR_UNAVAILABLE, "simulated: not connected");
	struct bus_message *there = bus_message(b, strtoull(m->handle, NULL, 10));
	if (there && !actor_cut(a) && !world_fault(&b->w, 50))
		there->deliver_at = world_fault(&b->w, 10) ? UINT64_MAX
							   : b->w.now + ms; /* the previous delivery: it is forgotten */
	return 0;
}

static int bus_put_back(struct fleet_port *p, const struct fleet_message *m, uint64_t delay_ms, struct err *e)
{
	return bus_delay(p, m, delay_ms, e);
}

static int bus_keep(struct fleet_port *p, const struct fleet_message *m, struct err *e)
{
	return bus_delay(p, m, FLEET_KEEP_MS, e);
}

static void bus_deliver_again(struct fleet_port *p, const char *class, unsigned priority)
{
	struct bus *b = bus_of(p);

	for (size_t i = 0; i < b->nmessages; i++)
		b->messages[i].deliver_at = b->w.now;
}

/* ---- the rest ---- */

/* Every node has its own name. */
static int bus_get_node(struct fleet_port *p, const char *node, struct buf *ret, uint64_t *ret_revision, struct err *e)
{
	int done = call_end(actor_of(p), call_begin(actor_of(p)), e);

	return done == 0 ? 1 : done;
}

static int bus_put_node(struct fleet_port *p, const char *node, const struct buf *text, uint64_t revision,
			uint64_t *ret_revision, struct err *e)
{
	struct bus *b = bus_of(p);
	enum call_fate fate = call_begin(actor_of(p));

	if (fate == CALL_DONE || fate == CALL_UNANSWERED)
		b->node_until[actor_of(p)->number] = b->w.now + BUS_NODE_MS;
	*ret_revision = 1;
	return call_end(actor_of(p), fate, e);
}

static int bus_node_stored_at(struct fleet_port *p, const char *node, uint64_t *ret, struct err *e)
{
	enum call_fate fate = call_begin(actor_of(p));

	*ret = actor_real(actor_of(p)) - (uint64_t)actor_of(p)->skew;
	return call_end(actor_of(p), fate, e);
}

static int bus_list_nodes(struct fleet_port *p, fleet_entry_fn fn, void *ctx, struct err *e)
{
	struct bus *b = bus_of(p);
	enum call_fate fate = call_begin(actor_of(p));

	for (int i = 0; i < FLEET_NODES && fate == CALL_DONE; i++)
		if (b->node_until[i] > b->w.now) {
			mem_auto char *entry = mem_printf("{\"node\":\"n%d\"}", i);

			fn(ctx, b->w.actors[i].config.node, entry, strlen(entry), 1);
		}
	return call_end(actor_of(p), fate, e);
}

static bool bus_connected(struct fleet_port *p) { return !actor_of(p)->killed && actor_connected(actor_of(p)); }

static const struct fleet_port_ops bus_ops = { .connected = bus_connected,
					       .get_task = bus_get_task,
					       .create_task = bus_create_task,
					       .update_task = bus_update_task,
					       .list_tasks = bus_list_tasks,
					       .put_class = bus_put_class,
					       .list_classes = bus_list_classes,
					       .enqueue = bus_enqueue,
					       .fetch = bus_fetch,
					       .acknowledge = bus_acknowledge,
					       .put_back = bus_put_back,
					       .keep = bus_keep,
					       .deliver_again = bus_deliver_again,
					       .get_node = bus_get_node,
					       .put_node = bus_put_node,
					       .list_nodes = bus_list_nodes,
					       .node_stored_at = bus_node_stored_at,
					       .get_record = bus_get_record,
					       .put_record = bus_put_record };

/* Delivers messages whose sender has given up. */
static void bus_tick(struct bus *b)
{
	for (size_t i = 0; i < BUS_LATE; i++) {
		struct bus_late *l = &b->late[i];
		uint64_t revision;

		if (!l->at || l->at > b->w.now || b->w.now < b->w.server_down_until)
			continue;
		l->at = 0;
		if (l->sequence)
			bus_remove(b, l->sequence);
		else if (l->record)
			(void)bus_write_record(b, l->task, &l->text, l->revision);
		else
			(void)bus_update(b, l->task, &l->text, l->revision, l->actor, &revision);
	}
}

static void bus_done(struct bus *b)
{
	for (size_t i = 0; i < BUS_TASKS; i++)
		buf_done(&b->tasks[i].text), buf_done(&b->records[i].text);
	for (size_t i = 0; i < BUS_TASKS; i++)
		for (int k = 0; k < FLEET_NODES; k++)
			buf_done(&b->written[i].by[k]);
	for (size_t i = 0; i < BUS_CLASSES; i++)
		buf_done(&b->classes[i].needs);
	for (size_t i = 0; i < BUS_LATE; i++)
		buf_done(&b->late[i].text);
}

#endif
