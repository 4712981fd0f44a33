/*
 * A turn whose client has disconnected, and that no other client has taken over in time, is lost
 * (session/turn_owner.c).
 */

#include "runtime/base/log.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/turn/turn.h"
#include "runtime/view/view_channel.h"

static bool channel_is_there(struct engine *g, const struct turn_owner *d)
{
	buf_auto struct buf text = BUF_INIT;
	struct channel_doc c;
	struct err e = ERR_INIT;

	return d->channel_id[0] &&
	       view_read_speculative(g->o.store, &channel_schema, d->channel_id, &text, &c, &e) == 0 &&
	       strcmp(c.status, "connected") == 0;
}

static void lose_turn(struct engine *g, const struct turn_doc *t)
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

static void check_due(struct engine *g, const char *turn_id)
{
	struct turn_owner *d = turn_owner_of(g, turn_id);
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;
	int r = turn_read(g, turn_id, &text, &t, &e);

	if (r < 0)
		log_error("turn %s: %s", turn_id, e.message);
	if (!d || r > 0 || (r == 0 && turn_doc_ended(&t)))
		turn_owner_forget(g, turn_id);
	else if (r < 0 || !t.startedAt || t.ending.type == JT_OBJECT || turn_busy(g, &t) || channel_is_there(g, d))
		turn_owner_give_grace(g, d);
	else
		lose_turn(g, &t); /* also forgets its owner */
}

uint64_t turn_owner_tick(struct engine *g, uint64_t now)
{
	struct turn_owners_due due;

	if (g->stopping)
		return UINT64_MAX;
	uint64_t next = turn_owners_due(g, now, &due);
	for (size_t i = 0; i < due.count; i++)
		check_due(g, due.id[i]);
	free(due.id);
	return next;
}
