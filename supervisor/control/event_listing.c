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

/* ---- newest first ---- */

/*
 * The store reads forwards, so a listing with the newest events first reads windows of the log, the last one first, and
 * reverses each. The first window has as many sequence numbers as events are wanted, and the next ones grow as long as
 * little is read in them: without an id up to PIECE_LOOKED, with one over gaps of any length.
 */
#define SPAN_GROWTH 4u

static void empty_window(struct event_listing *l)
{
	for (size_t i = l->kept.first; i < l->kept.count; i++)
		buf_done(&l->kept.texts[i]);
	l->kept.first = l->kept.count = l->kept.bytes = 0;
}

/* Of a window only its last events are kept, as many as the page still takes. */
static bool keep_event(void *ctx, const struct event_view *ev)
{
	struct event_listing *l = ctx;
	struct event_listing_window *k = &l->kept;

	if (l->looked >= PIECE_LOOKED) {
		l->ended = false;
		return false;
	}
	l->looked++;
	if (!filter_match(&l->filter, ev))
		return true;
	if (l->found >= l->limit || l->events.len >= RESULT_MAX) {
		l->more = true;
		return false;
	}
	if (k->count == k->size) {
		k->size = k->size ? 2 * k->size : 64;
		k->texts = mem_realloc(k->texts, k->size * sizeof(*k->texts));
	}
	k->texts[k->count] = BUF_INIT;
	event_json(ev, &k->texts[k->count]);
	k->bytes += k->texts[k->count++].len;
	while (k->count - k->first > l->limit - l->found ||
	       l->events.len + k->bytes - k->texts[k->first].len >= RESULT_MAX) {
		k->bytes -= k->texts[k->first].len;
		buf_done(&k->texts[k->first++]);
		l->more = true;
	}
	return true;
}

/* The window was read: its events are the next of the page. */
static void take_window(struct event_listing *l)
{
	struct event_listing_window *k = &l->kept;

	for (size_t i = k->count; i > k->first; i--) {
		if (l->found++)
			buf_byte(&l->events, ',');
		buf_append(&l->events, k->texts[i - 1].data, k->texts[i - 1].len);
	}
	empty_window(l);
}

/* Reads one window; sets l->ended when no more is needed. */
static int read_window(struct event_listing *l, struct store_query *q, struct err *e)
{
	struct store *s = call_store(l->call);
	uint64_t floor = store_first_sequence(s) - 1;

	if (l->cursor < floor)
		l->cursor = floor; /* removed meanwhile */
	if (l->before <= l->cursor + 1)
		return 0;
	q->after = l->before - l->cursor - 1 > l->span ? l->before - l->span - 1 : l->cursor;
	q->before = l->before;
	if (store_events(s, q, keep_event, l, e) < 0)
		return -1;
	if (!l->ended) { /* too much for one piece */
		empty_window(l);
		l->more = false;
		l->span = l->span > SPAN_GROWTH ? l->span / SPAN_GROWTH : 1;
		return 0;
	}
	take_window(l);
	l->before = q->after + 1;
	if (l->looked <= PIECE_LOOKED / SPAN_GROWTH && l->span < UINT64_MAX / SPAN_GROWTH)
		l->span *= SPAN_GROWTH;
	l->ended = l->more;
	return 0;
}

static void event_listing_free(struct event_listing *l)
{
	empty_window(l);
	free(l->kept.texts);
	filter_done(&l->filter);
	buf_done(&l->events);
	free(l);
}

/* ---- oldest first ---- */

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
	/* Once an event was listed, one that is gone would be a gap; newest first, the listing ends where the log
	 * begins. */
	struct store_query q = { .after = l->cursor,
				 .before = l->before,
				 .kept = l->span || (l->from_first && !l->found) };
	int r = 0;

	filter_query(&l->filter, &q);
	l->looked = 0;
	l->ended = true;
	if (l->call->client) /* else it has disconnected: finish without reading */
		r = l->span ? read_window(l, &q, &e) : store_events(call_store(l->call), &q, one_event, l, &e);
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
void event_listing_run(struct call *c, struct filter *f, uint64_t after, uint64_t before, size_t limit,
		       bool newest_first)
{
	uint64_t end = store_last_sequence(call_store(c)) + 1;
	struct event_listing *l = mem_zalloc(1, sizeof *l);
	l->call = c;
	l->filter = *f;
	*f = (struct filter){ 0 };
	l->from_first = after == EVENT_LISTING_FIRST;
	l->cursor = l->from_first ? store_first_sequence(call_store(c)) - 1 : after;
	l->before = newest_first && (!before || before > end) ? end : before;
	l->span = newest_first ? limit + 1 : 0;
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
