/*
 * Whether the client that drives a turn is still there. A turn with text ends by its client's word; one whose client
 * has gone would be `running` for ever and hold up the queue behind it.
 *
 * The connection that submitted the turn drives it, until another one asks for something in it (a tool call, an event,
 * an action, the same turn again): then that one does. When the driving connection ends, or the runtime was restarted,
 * somebody has turn_grace_ms to take the turn over; then it is lost. It is not while something of it still runs, which
 * its own end ends, and not where its client said that it may stay without one (options.onDisconnect: keep), as the
 * command line does, or belongs to a channel that is connected.
 *
 * Nothing of this is a fact: connections do not outlive the runtime.
 */

#include "runtime/engine/turn/turn.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/engine_private.h"
#include "runtime/engine/core/transaction.h"
#include "runtime/view/view_channel.h"

struct turn_owner {
	uint64_t connection;      /* 0 = it has gone */
	uint64_t deadline_ns;     /* then: until when it may be taken over */
	char channel_id[ID_ROOM]; /* or "" */
};

static void give_grace(struct engine *g, struct turn_owner *d)
{
	d->connection = 0;
	d->deadline_ns = engine_now(g) + g->o.turn_grace_ms * 1000000ull;
	engine_wake(g, d->deadline_ns);
}

void turn_owner_seen(struct engine *g, const struct turn_doc *t, uint64_t connection, const char *channel_id)
{
	struct turn_owner *d = strmap_get(&g->turn_owners, t->turnId);

	if (!g->o.turn_grace_ms || !turn_driven_by_client(t) || turn_doc_ended(t) ||
	    jval_is_str(jval_get(t->options, "onDisconnect"), "keep"))
		return;
	if (!d) {
		d = mem_zalloc(1, sizeof *d);
		strmap_put(&g->turn_owners, t->turnId, d);
	}
	if (channel_id)
		snprintf(d->channel_id, sizeof d->channel_id, "%s", channel_id);
	d->connection = connection;
	if (!connection)
		give_grace(g, d);
}

void turn_owner_forget(struct engine *g, const char *turn_id) { free(strmap_del(&g->turn_owners, turn_id)); }

struct driver_scan {
	struct engine *engine;
	uint64_t connection, now, next;
	char (*due)[ID_ROOM];
	size_t count;
};

static void see_gone(void *ctx, const char *turn_id, void *value)
{
	struct driver_scan *s = ctx;
	struct turn_owner *d = value;

	if (d->connection == s->connection)
		give_grace(s->engine, d);
}

void turn_owner_disconnected(struct engine *g, uint64_t connection)
{
	struct driver_scan s = { .engine = g, .connection = connection };

	strmap_each(&g->turn_owners, see_gone, &s);
}

static void see_due(void *ctx, const char *turn_id, void *value)
{
	struct driver_scan *s = ctx;
	const struct turn_owner *d = value;

	if (d->connection)
		return;
	if (s->now >= d->deadline_ns)
		snprintf(s->due[s->count++], ID_ROOM, "%s", turn_id);
	else if (d->deadline_ns < s->next)
		s->next = d->deadline_ns;
}

static bool channel_is_there(struct engine *g, const struct turn_owner *d)
{
	buf_auto struct buf text = BUF_INIT;
	struct channel_doc c;
	struct err e = ERR_INIT;

	return d->channel_id[0] &&
	       view_read_speculative(g->o.store, &channel_schema, d->channel_id, &text, &c, &e) == 0 &&
	       strcmp(c.status, "connected") == 0;
}

static void lose(struct engine *g, const struct turn_doc *t)
{
	static const struct turn_end end = { .status = "lost",
					     .category = "client_gone",
					     .retryable = true,
					     .message = "the client that drives it has gone, and nobody took it over" };
	struct transaction *tx = transaction_new_internal(g);

	turn_end_facts(g, t, &end, tx);
	transaction_after_commit(tx, turn_thread_free, t->threadId);
	transaction_commit(tx);
}

static void judge_due(struct engine *g, const char *turn_id)
{
	struct turn_owner *d = strmap_get(&g->turn_owners, turn_id);
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;
	int r = turn_read(g, turn_id, &text, &t, &e);

	if (r < 0)
		log_error("turn %s: %s", turn_id, e.message);
	if (!d || r > 0 || (r == 0 && turn_doc_ended(&t)))
		turn_owner_forget(g, turn_id);
	else if (r < 0 || !t.startedAt || t.ending.type == JT_OBJECT || turn_busy(g, &t) || channel_is_there(g, d))
		give_grace(g, d);
	else
		lose(g, &t); /* which forgets it */
}

uint64_t turn_owner_tick(struct engine *g, uint64_t now)
{
	struct driver_scan s = { .now = now, .next = UINT64_MAX };

	if (!g->turn_owners.count || g->stopping)
		return UINT64_MAX;
	s.due = mem_zalloc(g->turn_owners.count, ID_ROOM);
	strmap_each(&g->turn_owners, see_due, &s);
	for (size_t i = 0; i < s.count; i++)
		judge_due(g, s.due[i]);
	free(s.due);
	return s.next;
}

static void free_one(void *ctx, const char *turn_id, void *value) { free(value); }

void turn_owners_done(struct engine *g)
{
	strmap_each(&g->turn_owners, free_one, NULL);
	strmap_done(&g->turn_owners);
}
