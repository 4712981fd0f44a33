#include "supervisor/control/subscription.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "supervisor/control/client.h"
#include "supervisor/control/control_private.h"
#include "supervisor/control/item.h"
#include "supervisor/control/rpc.h"

#include <stdio.h>
#include <string.h>

/*
 * Fairness has two limits. A subscription's piece ends after PIECE_SENT events sent or PIECE_LOOKED read, then the next
 * one in `ready` continues; a turn ends after TURN_LOOKED events of all of them, then the loop serves sockets and
 * commits. So neither a subscriber with a long way to catch up nor a filter that matches nothing delays the others.
 *
 * The cursor is the only state: every event up to it was queued for the connection or did not match. A client that
 * connects again passes the last sequence number that it processed and gets the rest; nothing is kept for it meanwhile.
 */

#define TURN_LOOKED 4096 /* events read in one turn, by all subscriptions together */
#define PIECE_SENT 256   /* events sent by one subscription before the next one's turn */
#define PIECE_LOOKED 1024
#define RECENT 1024 /* this close to the end, reading all events from memory is faster than the index */

/* `held` keeps it inactive until its own reply is queued. */
struct subscription *subscription_new(struct client *cl, struct filter *f, uint64_t after)
{
	struct control *k = cl->control;
	struct subscription *s = mem_zalloc(1, sizeof *s);
	s->client = cl;
	s->filter = *f;
	*f = (struct filter){ 0 };
	s->cursor = after;
	snprintf(s->id, sizeof s->id, "stream_%llu", (unsigned long long)++k->next_subscription);
	LIST_INSERT_HEAD(&k->subscriptions, s, entry);
	LIST_INSERT_HEAD(&cl->subscriptions, s, mine);
	k->nsubscriptions++;
	cl->account->subscriptions++;
	s->held = (const void *)s; /* not a batch: nothing releases it before subscription_start */
	return s;
}

static void remove_from_ready(struct subscription *s)
{
	if (s->queued)
		TAILQ_REMOVE(&s->client->control->ready, s, queue);
	s->queued = false;
}

void subscription_free(struct subscription *s)
{
	remove_from_ready(s);
	LIST_REMOVE(s, entry);
	LIST_REMOVE(s, mine);
	s->client->control->nsubscriptions--;
	s->client->account->subscriptions--;
	filter_done(&s->filter);
	free(s);
}

struct subscription *subscription_find(struct client *cl, const char *id)
{
	struct subscription *s;
	LIST_FOREACH (s, &cl->subscriptions, mine)
		if (strcmp(s->id, id) == 0)
			return s;
	return NULL;
}

/* ---- being ready ---- */

/* Queues it unless it is queued, waits for its own reply, has caught up, or its connection has enough unsent bytes. */
static void make_ready(struct subscription *s)
{
	struct control *k = s->client->control;
	if (s->queued || s->held || s->cursor >= store_last_sequence(k->o.store) ||
	    client_unsent(s->client) >= CLIENT_OUT_LOW)
		return;
	TAILQ_INSERT_TAIL(&k->ready, s, queue);
	s->queued = true;
	control_turn(k);
}

void subscription_start(struct subscription *s, const struct batch *in)
{
	s->held = in;
	make_ready(s);
}

void subscription_release(struct client *cl, const struct batch *b)
{
	struct subscription *s;
	LIST_FOREACH (s, &cl->subscriptions, mine)
		if (s->held == b) {
			s->held = NULL;
			make_ready(s);
		}
}

void subscription_drained(struct client *cl)
{
	struct subscription *s;
	LIST_FOREACH (s, &cl->subscriptions, mine)
		make_ready(s);
}

void subscription_committed(struct control *k)
{
	struct subscription *s;
	LIST_FOREACH (s, &k->subscriptions, entry)
		make_ready(s);
}

/* ---- sending ---- */

struct event_piece {
	struct subscription *s;
	struct buf out;
	size_t space; /* bytes that may still be queued for the client */
	unsigned looked, sent;
	bool stopped; /* before the end of the log */
};

static void write_event(struct event_piece *p, const struct event_view *ev,
			void (*write)(const struct event_view *ev, struct buf *out))
{
	buf_printf(
		&p->out,
		"{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"subscriptionId\":\"%s\",\"event\":", p->s->id);
	write(ev, &p->out);
	buf_str(&p->out, "}}\n");
	p->sent++;
}

/* The cursor moves before the filter is applied: events that do not match are not read again. */
static bool one_event(void *ctx, const struct event_view *ev)
{
	struct event_piece *p = ctx;
	struct subscription *s = p->s;
	if (p->looked >= PIECE_LOOKED || p->sent >= PIECE_SENT || p->out.len >= p->space) {
		p->stopped = true;
		return false;
	}
	p->looked++;
	s->cursor = ev->sequence;
	if (!filter_concerns(&s->filter, ev))
		return true;
	if (filter_accepts(&s->filter, ev->type))
		write_event(p, ev, event_json);
	int item = s->filter.items ? item_type(ev) : -1;
	if (item >= 0 && filter_accepts(&s->filter, (enum event_type)item))
		write_event(p, ev, item_json);
	return true;
}

/* Retention has removed events at the cursor: report the gap and continue with the first event that is kept. */
static void write_gap(struct subscription *s, struct buf *out)
{
	uint64_t first = store_first_sequence(s->client->control->o.store);
	buf_printf(out,
		   "{\"jsonrpc\":\"2.0\",\"method\":\"event_gap\",\"params\":{\"subscriptionId\":\"%s\","
		   "\"firstSequence\":%llu,"
		   "\"lostAfter\":%llu,\"lostBefore\":%llu,\"recoveryMode\":\"snapshot_then_events\"}}\n",
		   s->id, (unsigned long long)first, (unsigned long long)s->cursor, (unsigned long long)first);
	s->cursor = first - 1;
}

/* The log cannot be read here: ends the stream with a message that has the position and the reason. */
static void write_end(struct subscription *s, const struct err *e, struct buf *out)
{
	log_error("subscription %s ends after sequence %llu: %s", s->id, (unsigned long long)s->cursor, e->message);
	buf_str(out, "{\"jsonrpc\":\"2.0\",\"method\":\"event_end\",\"params\":");
	struct jw w = jw_on(out);
	jw_obj(&w);
	jw_kstr(&w, "subscriptionId", s->id);
	jw_kuint(&w, "afterSequence", s->cursor);
	jw_kstr(&w, "category", rpc_category(e->code));
	jw_kstr(&w, "message", e->message);
	jw_obj_end(&w);
	buf_str(out, "}\n");
}

/* Reads from the cursor on; false if the subscription must end. */
static bool read_log(struct event_piece *p)
{
	struct subscription *s = p->s;
	struct store *store = s->client->control->o.store;
	uint64_t last = store_last_sequence(store);
	struct err e = ERR_INIT;
	if (s->cursor + 1 < store_first_sequence(store))
		write_gap(s, &p->out);
	struct store_query q = { .after = s->cursor, .before = last + 1, .index = -1 };
	if (last - s->cursor > RECENT)
		filter_query(&s->filter, &q);
	if (store_events(store, &q, one_event, p, &e) == 0) {
		/* No more matching events up to `last`, also where the index skipped others. */
		if (!p->stopped && s->cursor < last)
			s->cursor = last;
		return true;
	}
	if (e.code == ERR_EXPIRED) { /* retention pruned it since the check above; the next piece reports the gap */
		p->stopped = true;
		return true;
	}
	write_end(s, &e, &p->out);
	return false;
}

/* One subscription's piece of a turn; returns how much work it was. */
static unsigned send_piece(struct subscription *s)
{
	struct client *cl = s->client;
	struct control *k = cl->control;
	size_t unsent = client_unsent(cl);
	struct event_piece p = { .s = s, .space = unsent < CLIENT_OUT_LOW ? CLIENT_OUT_LOW - unsent : 0 };
	bool continues = true;
	if (p.space)
		continues = read_log(&p);
	if (p.out.len)
		client_send(cl, p.out.data, p.out.len);
	buf_done(&p.out);
	k->counts.events_sent += p.sent;
	if (continues)
		make_ready(s);
	else
		subscription_free(s);
	return p.looked + 1;
}

bool subscription_turn(struct control *k)
{
	unsigned looked = 0;
	struct subscription *s;
	while (looked < TURN_LOOKED && (s = TAILQ_FIRST(&k->ready))) {
		remove_from_ready(s);
		looked += send_piece(s);
	}
	return !TAILQ_EMPTY(&k->ready);
}
