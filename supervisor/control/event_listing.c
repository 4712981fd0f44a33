#include "supervisor/control/event_listing.h"

#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "supervisor/control/control_private.h"

#include <stdio.h>

/*
 * The loop must not be blocked by a filter that matches little in a long log. A listing reads at most PIECE_LOOKED
 * events in one turn and continues after its cursor in the next. No read transaction is held between pieces: events
 * that are committed meanwhile are seen, and if retention removes events at the cursor, the listing fails with
 * sequence_expired like a request for those events would.
 */
#define PIECE_LOOKED 8192
#define RESULT_MAX (4u << 20) /* bytes of events; the event that reaches it is the page's last */

static void event_listing_free(struct event_listing *l)
{
	filter_done(&l->filter);
	buf_done(&l->events);
	free(l);
}

/* The cursor also advances over events that do not match, so that the next piece starts behind them. */
static bool one_event(void *ctx, const struct event_view *ev)
{
	struct event_listing *l = ctx;
	if (l->looked >= PIECE_LOOKED) {
		l->ended = false;
		return false;
	}
	l->looked++;
	if (!filter_match(&l->filter, ev)) {
		l->cursor = ev->sequence;
		return true;
	}
	if (l->found >= l->limit || l->events.len >= RESULT_MAX) {
		l->more = true;
		return false;
	}
	if (l->found++)
		buf_byte(&l->events, ',');
	event_json(ev, &l->events);
	l->cursor = ev->sequence;
	return true;
}

/* `hasMore` is about matching events only: the log may continue after the last one that was returned. */
static void reply_listing(struct event_listing *l)
{
	struct store *s = call_store(l->call);
	struct buf buf_auto out = BUF_INIT;
	buf_str(&out, "{\"events\":[");
	if (l->events.len)
		buf_append(&out, l->events.data, l->events.len);
	buf_printf(&out, "],\"firstSequence\":%llu,\"lastSequence\":%llu,\"hasMore\":%s}",
		   (unsigned long long)store_first_sequence(s), (unsigned long long)store_last_sequence(s),
		   l->more ? "true" : "false");
	call_reply(l->call, out.data, out.len);
}

static void fail_listing(struct event_listing *l, const struct err *e)
{
	char data[64];
	int n = snprintf(data, sizeof data, "\"firstSequence\":%llu",
			 (unsigned long long)store_first_sequence(call_store(l->call)));
	if (e->code == ERR_EXPIRED)
		call_fail_data(l->call, e, data, (size_t)n);
	else
		call_fail(l->call, e);
}

/* True when the call is answered (and the listing freed). */
static bool read_piece(struct event_listing *l)
{
	struct err e = ERR_INIT;
	struct store_query q = { .after = l->cursor, .before = l->before };
	filter_query(&l->filter, &q);
	l->looked = 0;
	l->ended = true;
	int r = l->call->client ? store_events(call_store(l->call), &q, one_event, l, &e)
				: 0; /* the client has disconnected: finish without reading */
	if (r == 0 && !l->ended)
		return false;
	if (r == 0)
		reply_listing(l);
	else
		fail_listing(l, &e);
	event_listing_free(l);
	return true;
}

/* Short listings are answered at once; only one that needs more than a piece is queued. */
void event_listing_run(struct call *c, struct filter *f, uint64_t after, uint64_t before, size_t limit)
{
	struct event_listing *l = mem_zalloc(1, sizeof *l);
	l->call = c;
	l->filter = *f;
	*f = (struct filter){ 0 };
	l->cursor = after;
	l->before = before;
	l->limit = limit;
	struct control *k = c->control;
	if (read_piece(l))
		return;
	TAILQ_INSERT_TAIL(&k->listings, l, entry);
	control_turn(k);
}

void event_listing_turn(struct control *k)
{
	struct event_listing *l = TAILQ_FIRST(&k->listings);
	if (!l)
		return;
	TAILQ_REMOVE(&k->listings, l, entry);
	if (!read_piece(l))
		TAILQ_INSERT_TAIL(&k->listings, l, entry);
}

/* The calls themselves are freed with their clients. */
void event_listing_drop_all(struct control *k)
{
	struct event_listing *l;
	while ((l = TAILQ_FIRST(&k->listings))) {
		TAILQ_REMOVE(&k->listings, l, entry);
		event_listing_free(l);
	}
}
