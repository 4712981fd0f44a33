/*
 * Tracks whether the client that drives a turn is connected. Only its client ends a turn with text. If that client has
 * disconnected, the turn would stay `running` forever and block the queue of its thread.
 *
 * The connection that submitted the turn drives it, until another connection makes a request in it (a tool call, an
 * event, an action, the same turn again) and takes over. When the driving connection closes, or the runtime restarts,
 * another client has turn_grace_ms to take over. After half of it the turn is stalled, then it is lost
 * (turn/turn_end.c). The period is renewed while work of the turn still runs, or while its channel is connected. Turns
 * whose client asked to keep them (options.onDisconnect: keep), as the command line does, are not tracked.
 *
 * With a lease (options.leaseMs) a connection is not enough: the client must use the turn at least that often
 * (claim_turn does nothing else), and while it does, requests of other connections in the turn are rejected. A lease
 * that has expired makes the turn stalled, and another such period lost.
 *
 * The lease and `stalled` are part of the turn's document. Connections are not recorded, because they do not survive a
 * restart of the runtime: the period begins anew then, and the first client that uses the turn drives it.
 */

#include "runtime/engine/session/turn_owner.h"

#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/fact.h"
#include "runtime/engine/session/session_state.h"
#include "runtime/engine/session/turn_read.h"

void turn_owner_renew(struct engine *engine, struct turn_owner *d)
{
	d->deadline_ns = engine_now(engine) + d->period_ns;
	if (d->leased || !d->connection)
		engine_wake(engine, d->deadline_ns);
}

/* A client uses a stalled turn. */
static void resumed_fact(struct engine *engine, const struct turn_doc *t)
{
	struct transaction *tx = transaction_new_internal(engine);
	const struct scope s = turn_scope(t);

	EMIT(run_status, tx, s, .envelope.phase = "running", .phase = "running",
	     .detail = "a client drives the turn again");
	transaction_commit(tx);
}

int turn_owner_seen(struct engine *engine, const struct turn_doc *t, uint64_t connection, const char *channel_id,
		    struct err *e)
{
	struct turn_owner *d = strmap_get(&engine->sessions->turn_owners, t->turnId);
	const uint64_t lease_ms = jval_uint(jval_get(t->options, "leaseMs"), 0);

	if ((!engine->o.turn_grace_ms && !lease_ms) || !turn_driven_by_client(t) || turn_doc_ended(t) ||
	    jval_is_str(jval_get(t->options, "onDisconnect"), "keep"))
		return 0;
	if (d && d->leased && connection && d->connection && d->connection != connection)
		return err_at(e, ERR_CONFLICT, "turnId",
			      "turn '%s' is leased to another client, which has used it in the last %llu ms; "
			      "interrupt_turn ends it",
			      t->turnId, (unsigned long long)lease_ms);
	if (!d) {
		d = mem_zalloc(1, sizeof *d);
		d->leased = lease_ms != 0;
		d->period_ns = (lease_ms ? lease_ms : (engine->o.turn_grace_ms + 1) / 2) * 1000000ull;
		strmap_put(&engine->sessions->turn_owners, t->turnId, d);
	}
	if (channel_id)
		id_copy(d->channel_id, channel_id);
	d->connection = connection;
	turn_owner_renew(engine, d);
	if (connection && strcmp(t->phase, "stalled") == 0)
		resumed_fact(engine, t);
	return 0;
}

int turn_open_of_caller(struct engine *engine, const char *turn_id, const struct caller *c, struct buf *text,
			struct turn_doc *ret, struct err *e)
{
	if (turn_of_caller(engine, "turnId", turn_id, c, text, ret, e) < 0)
		return -1;
	if (turn_doc_ended(ret))
		return err_because(e, ERR_STATE, REASON_TURN_ENDED, "turn '%s' has ended (%s)", turn_id, ret->status);
	if (ret->ending.type == JT_OBJECT)
		return err_set(e, ERR_STATE, "turn '%s' is ending", turn_id);
	if (!ret->startedAt)
		return err_set(e, ERR_STATE, "turn '%s' has not started (%s)", turn_id, ret->status);
	return turn_owner_seen(engine, ret, c->connection, c->channel_id, e);
}

void turn_owner_forget(struct engine *engine, const char *turn_id)
{
	free(strmap_del(&engine->sessions->turn_owners, turn_id));
}

struct owner_scan {
	struct engine *engine;
	uint64_t connection, now, next;
	struct turn_owners_due *due;
};

static void begin_grace(void *ctx, const char *turn_id, void *value)
{
	struct owner_scan *s = ctx;
	struct turn_owner *d = value;

	if (d->connection != s->connection)
		return;
	d->connection = 0;
	turn_owner_renew(s->engine, d);
}

void turn_owner_disconnected(struct engine *engine, uint64_t connection)
{
	struct owner_scan s = { .engine = engine, .connection = connection };

	strmap_each(&engine->sessions->turn_owners, begin_grace, &s);
}

/* Only collects: the caller ends the turns afterwards, which changes the map. */
static void collect_due(void *ctx, const char *turn_id, void *value)
{
	struct owner_scan *s = ctx;
	const struct turn_owner *d = value;

	if (d->connection && !d->leased)
		return;
	if (s->now >= d->deadline_ns)
		id_copy(s->due->id[s->due->count++], turn_id);
	else if (d->deadline_ns < s->next)
		s->next = d->deadline_ns;
}

uint64_t turn_owners_due(struct engine *engine, uint64_t now, struct turn_owners_due *ret)
{
	struct owner_scan s = { .now = now, .next = UINT64_MAX, .due = ret };

	*ret = (struct turn_owners_due){ .id = mem_zalloc(engine->sessions->turn_owners.count + 1, ID_SIZE) };
	strmap_each(&engine->sessions->turn_owners, collect_due, &s);
	return s.next;
}

struct turn_owner *turn_owner_of(struct engine *engine, const char *turn_id)
{
	return strmap_get(&engine->sessions->turn_owners, turn_id);
}
