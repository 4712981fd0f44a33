#include "supervisor/host/screens.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/engine.h"
#include "runtime/engine/core/ports.h"
#include "runtime/loop/loop.h"
#include "runtime/store/spool.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"
#include "supervisor/host/host_ports.h"
#include "supervisor/host/process_io.h"
#include "supervisor/host/screen_history.h"

#include <event2/event.h>
#include <unistd.h>

#define SCRATCH (2u << 20)
#define SKIM_FROM (128u * 1024)   /* with this much to catch up with, search for output that need not be drawn */
#define READ (64u * 1024)         /* bytes per read, if nothing is skipped */
#define PIECE_MIN 4u              /* fed between checks of the clock: */
#define PIECE_CELLS (128u * 1024) /* this divided by the screen's cells, in bytes */
#define BUDGET_NS 2000000ull      /* of a turn */
#define REST_US 20000 /* after a full turn without requests: meanwhile output that need not be drawn accumulates */
#define ANSWER_NS 50000000ull      /* gives a client that is about to display the terminal time to reply first */
#define CATCH_UP_NS 20000000000ull /* how long a request waits for a screen that is behind */
#define CHECK_LONG_NS 1000000ull   /* matching that takes longer than this gets a share of the time */
#define CHECK_SHARE 10
#define ENDED_MAX 16u
#define ENDED_KEEP_NS 60000000000ull

/*
 * Drawing a terminal can cost far more than its output is long: three bytes can scroll or clear a large screen. A
 * command must not be able to block the runtime with that. So drawing has a budget of time for each turn of the loop,
 * which the screens share in order; a screen that is behind continues in a later turn. While no request waits, turns
 * that used up their budget are spaced (`tired`, `resting`), and with much to catch up with, output that will have
 * scrolled away or been cleared is skipped without being drawn (screen_skim).
 *
 * The same applies to patterns: matching that takes long is repeated only after ten times as long.
 *
 * Screens are a cache. Everything that they show can be rebuilt from the log and the output, so nothing is stored, and
 * one that fails is dropped or marked and built again by the next request.
 */

struct screens_wait {
	TAILQ_ENTRY(screens_wait) link;
	struct screens_request r;
	uint64_t upto; /* the screen must have seen this much */
	bool begun;    /* it has */
	uint64_t begun_ns, deadline_ns, catch_up_ns;
	uint64_t recheck_ns; /* a slow pattern is not tried again before */
	screens_fn fn;
	void *ctx;
};

struct cached_screen {
	struct screens *screens;
	TAILQ_ENTRY(cached_screen) busy_link, ended_link;
	bool busy;
	struct screen_history history;
	struct screen *screen;
	uint64_t target;       /* bytes of output */
	uint64_t skim_from;    /* output up to here was searched for parts that need not be drawn */
	uint64_t answer_from;  /* queries before this offset were for an earlier screen */
	uint64_t answer_at_ns; /* UINT64_MAX = nothing to answer */
	uint64_t output_ns, used_ns;
	size_t next_resize;
	bool ended, broken;
	TAILQ_HEAD(, screens_wait) waits;
};

static void on_turn(evutil_socket_t fd, short what, void *ctx);
static void on_time(void *ctx);

void screens_init(struct screens *s, struct event_base *base, struct store *store, struct engine *engine,
		  struct host_ports *host, struct screen_limits limits)
{
	*s = (struct screens){ .store = store, .engine = engine, .host = host, .limits = limits };
	TAILQ_INIT(&s->busy);
	TAILQ_INIT(&s->ended);
	s->turn = evtimer_new(base, on_turn, s);
	deadline_timer_init(&s->timer, base, on_time, s);
	s->scratch = mem_alloc(SCRATCH);
}

static struct cached_screen *cached_of(struct screens *s, const char *id) { return strmap_get(&s->by_id, id); }

/* ---- the cache ---- */

static void wait_free(struct cached_screen *k, struct screens_wait *w)
{
	TAILQ_REMOVE(&k->waits, w, link);
	screen_condition_done(&w->r.condition);
	free(w);
}

/* Requests that still wait are dropped without an answer: callers answered them before, or are shutting down. */
static void cached_free(struct cached_screen *k)
{
	struct screens *s = k->screens;

	while (!TAILQ_EMPTY(&k->waits))
		wait_free(k, TAILQ_FIRST(&k->waits));
	if (k->busy)
		TAILQ_REMOVE(&s->busy, k, busy_link);
	if (k->ended) {
		TAILQ_REMOVE(&s->ended, k, ended_link);
		s->nended--;
	}
	(void)strmap_del(&s->by_id, k->history.process_id);
	screen_free(k->screen);
	screen_history_done(&k->history);
	free(k);
}

static void free_cached(void *ctx, const char *key, void *value) { cached_free(value); }

void screens_done(struct screens *s)
{
	s->stopped = true;
	strmap_each(&s->by_id, free_cached, NULL);
	strmap_done(&s->by_id);
	if (s->turn)
		event_free(s->turn);
	deadline_timer_done(&s->timer);
	free(s->scratch);
}

/* Whether a request waits for it to catch up. */
static bool cached_asked(const struct cached_screen *k)
{
	const struct screens_wait *w;

	TAILQ_FOREACH (w, &k->waits, link)
		if (!w->begun)
			return true;
	return false;
}

/* Queues the screen for the next turn. After a full turn the next one is delayed, unless a request waits. */
static void cached_wake(struct cached_screen *k)
{
	struct screens *s = k->screens;
	const struct timeval soon = { 0 }, later = { .tv_usec = REST_US };
	bool rest = s->tired && !cached_asked(k);

	if (k->broken)
		return;
	if (!k->busy)
		TAILQ_INSERT_TAIL(&s->busy, k, busy_link);
	k->busy = true;
	if (!evtimer_pending(s->turn, NULL) || (!rest && s->resting))
		loop_add(s->turn, rest ? &later : &soon);
	s->resting = rest;
}

/* Drops ended ones that are too many or were not used for a while. */
static void forget_old(struct screens *s)
{
	struct cached_screen *k, *next;
	uint64_t now = clock_boot_ns();

	for (k = TAILQ_FIRST(&s->ended); k; k = next) {
		next = TAILQ_NEXT(k, ended_link);
		if (!TAILQ_EMPTY(&k->waits))
			continue;
		if (s->nended > ENDED_MAX || now - k->used_ns >= ENDED_KEEP_NS)
			cached_free(k);
	}
	if ((k = TAILQ_FIRST(&s->ended)))
		deadline_timer_arm(&s->timer, k->used_ns + ENDED_KEEP_NS);
}

static void cached_end(struct cached_screen *k)
{
	if (k->ended)
		return;
	k->ended = true;
	k->used_ns = clock_boot_ns();
	TAILQ_INSERT_TAIL(&k->screens->ended, k, ended_link);
	k->screens->nended++;
}

/* Builds one from the log; NULL with an error. */
static struct cached_screen *cached_new(struct screens *s, const char *id, uint32_t viewer, struct err *e)
{
	struct cached_screen *k = mem_zalloc(1, sizeof(*k));
	struct process_io *h;

	k->screens = s;
	TAILQ_INIT(&k->waits);
	k->answer_at_ns = UINT64_MAX;
	k->output_ns = k->used_ns = clock_boot_ns();
	if (screen_history_read(s->store, viewer, id, &k->history, e) < 0) {
		free(k);
		return NULL;
	}
	k->screen = screen_new(k->history.rows, k->history.cols, &s->limits);
	(void)strmap_put(&s->by_id, id, k);
	h = strmap_get(&s->host->process_ios, id);
	k->target = h ? h->streams[STREAM_PTY].spool.size : k->history.bytes;
	k->answer_from = h && h->tries ? 0 : k->target; /* launched by this runtime: no earlier screen replied */
	if (k->history.ended)
		cached_end(k);
	return k;
}

/* ---- feeding ---- */

/* At most n bytes from the screen's offset, up to a gap of the spool; at a gap, its length in *ret_hole. */
static ssize_t cached_read(struct cached_screen *k, uint64_t at, size_t n, uint64_t *ret_hole, struct err *e)
{
	struct screens *s = k->screens;
	struct process_io *h = strmap_get(&s->host->process_ios, k->history.process_id);
	uint64_t from = k->history.omitted_from, to = k->history.omitted_to;
	buf_auto struct buf bytes = BUF_INIT;
	ssize_t got;

	*ret_hole = 0;
	if (h)
		spool_hole(k->target, h->names.limit, &from, &to);
	if (to > from && at >= from && at < to) {
		*ret_hole = (to < k->target ? to : k->target) - at;
		return 0;
	}
	if (n > k->target - at)
		n = (size_t)(k->target - at);
	if (to > from && at < from && n > from - at)
		n = (size_t)(from - at);
	if (h) {
		got = s->host->ports->peek_output(s->host, k->history.process_id, STREAM_PTY, at, s->scratch, n);
		return got < 0 ? err_sys(e, errno, "read the output") : got;
	}
	if (store_output_read(s->store, k->history.output_ref, at, n, &bytes, e) < 0)
		return -1;
	memcpy(s->scratch, buf_cstr(&bytes), bytes.len);
	return (ssize_t)bytes.len;
}

static uint64_t cached_offset(const struct cached_screen *k)
{
	struct screen_info i;

	screen_info(k->screen, &i);
	return i.offset;
}

/* Applies resizes that are due; returns the offset up to which output can be fed before the next. */
static uint64_t cached_resize_due(struct cached_screen *k, uint64_t at)
{
	const struct screen_history *h = &k->history;

	while (k->next_resize < h->nresizes && h->resizes[k->next_resize].offset <= at) {
		screen_resize(k->screen, h->resizes[k->next_resize].rows, h->resizes[k->next_resize].cols);
		k->next_resize++;
	}
	return k->next_resize < h->nresizes && h->resizes[k->next_resize].offset < k->target
		       ? h->resizes[k->next_resize].offset
		       : k->target;
}

/* Replies to terminal queries wait ANSWER_NS, so that a client that is about to display the terminal replies first. */
static void cached_replies(struct cached_screen *k, bool answer)
{
	struct screens *s = k->screens;

	if (!answer || k->ended) {
		screen_replies(k->screen, NULL);
	} else if (k->answer_at_ns == UINT64_MAX && screen_has_replies(k->screen)) {
		k->answer_at_ns = clock_boot_ns() + ANSWER_NS;
		deadline_timer_arm(&s->timer, k->answer_at_ns);
	}
}

/* Three bytes can redraw every cell: the more cells, the sooner the clock must be checked again. */
static size_t piece_of(const struct screen *screen)
{
	struct screen_info i;
	screen_info(screen, &i);
	size_t n = PIECE_CELLS / (i.rows * i.cols);
	return n > PIECE_MIN ? n : PIECE_MIN;
}

/* Feeds until it has caught up or the time is up. 1 = there is more, 0 = caught up, −1 = failure. */
static int cached_feed(struct cached_screen *k, uint64_t until_ns, struct err *e)
{
	struct screens *s = k->screens;
	uint64_t at, hole;

	while ((at = cached_offset(k)) < k->target) {
		uint64_t end = cached_resize_due(k, at);
		size_t want = end - at < SCRATCH ? (size_t)(end - at) : SCRATCH, done = 0;
		/* skim again only after another SKIM_FROM bytes, when earlier output may have scrolled out */
		bool skim = want >= SKIM_FROM && (at >= k->skim_from || at + want - k->skim_from >= SKIM_FROM);
		ssize_t n = cached_read(k, at, skim || want < READ ? want : READ, &hole, e);

		if (n < 0)
			return -1;
		if (hole) {
			screen_skip(k->screen, hole);
			continue;
		}
		if (n == 0)
			return err_set(e, ERR_CORRUPT, "the output of '%s' ends at %llu of %llu bytes",
				       k->history.process_id, (unsigned long long)at, (unsigned long long)k->target);
		if (skim) {
			done = screen_skim(k->screen, s->scratch, (size_t)n);
			k->skim_from = at + (uint64_t)n;
		}
		while (done < (size_t)n) {
			size_t most = piece_of(k->screen), piece = (size_t)n - done < most ? (size_t)n - done : most;

			screen_feed(k->screen, s->scratch + done, piece);
			done += piece;
			cached_replies(k, at + done > k->answer_from);
			if (clock_boot_ns() >= until_ns)
				return cached_offset(k) < k->target;
		}
	}
	(void)cached_resize_due(k, at);
	return 0;
}

/* ---- waiting ---- */

static void wait_answer(struct cached_screen *k, struct screens_wait *w, const struct err *e, enum screens_reason why)
{
	screens_fn fn = w->fn;
	void *ctx = w->ctx;

	wait_free(k, w);
	k->used_ns = clock_boot_ns();
	if (k->ended) { /* keep the order of use */
		TAILQ_REMOVE(&k->screens->ended, k, ended_link);
		TAILQ_INSERT_TAIL(&k->screens->ended, k, ended_link);
	}
	fn(ctx, e, k->screen, why, k->ended);
}

/* When the request counts as idle: idle_ms after the last output, or after it began if that was later. */
static uint64_t idle_at(const struct cached_screen *k, const struct screens_wait *w)
{
	uint64_t from = k->output_ns > w->begun_ns ? k->output_ns : w->begun_ns;

	return w->r.idle_ms == UINT64_MAX ? UINT64_MAX : from + w->r.idle_ms * 1000000;
}

/* Answers a request whose condition is met; true if it did. */
static bool wait_check(struct cached_screen *k, struct screens_wait *w, uint64_t now)
{
	bool caught_up = cached_offset(k) >= k->target;
	enum screen_match m = SCREEN_CONDITION_NONE;
	struct err e = ERR_INIT;

	if (!w->begun && cached_offset(k) < w->upto) {
		if (now < w->catch_up_ns)
			return false;
		err_set(&e, ERR_UNAVAILABLE, "the screen of '%s' is still being drawn (%llu of %llu bytes); ask again",
			k->history.process_id, (unsigned long long)cached_offset(k), (unsigned long long)w->upto);
		wait_answer(k, w, &e, SCREENS_NOW);
		return true;
	}
	if (!w->begun) {
		w->begun = true;
		w->begun_ns = now;
		if (!w->r.condition.has_after)
			w->r.condition.after = cached_offset(k);
	}
	if (!w->r.wait) {
		wait_answer(k, w, NULL, SCREENS_NOW);
		return true;
	}
	if (now >= w->recheck_ns || now >= w->deadline_ns || (caught_up && (k->ended || now >= idle_at(k, w)))) {
		uint64_t from = clock_boot_ns(), took;

		m = screen_condition_check(&w->r.condition, k->screen);
		took = clock_boot_ns() - from;
		w->recheck_ns = took > CHECK_LONG_NS ? from + CHECK_SHARE * took : 0;
	}
	if (m == SCREEN_CONDITION_NONE && w->r.exit && k->ended && caught_up)
		wait_answer(k, w, NULL, SCREENS_EXIT);
	else if (m == SCREEN_CONDITION_NONE && caught_up && now >= idle_at(k, w))
		wait_answer(k, w, NULL, SCREENS_IDLE);
	else if (m == SCREEN_CONDITION_NONE && (now >= w->deadline_ns || (k->ended && caught_up)))
		wait_answer(k, w, NULL, k->ended && now < w->deadline_ns ? SCREENS_EXIT : SCREENS_TIMED_OUT);
	else if (m != SCREEN_CONDITION_NONE)
		wait_answer(k, w, NULL, m == SCREEN_CONDITION_TEXT ? SCREENS_TEXT : SCREENS_REGEX);
	else
		return false;
	return true;
}

/* Answers what can be answered and arms the timer for the next time that something may change. */
static void cached_check_waits(struct cached_screen *k)
{
	uint64_t now = clock_boot_ns();
	struct screens_wait *w;

	/* An answer may disconnect its client and remove other requests of the list. */
	for (w = TAILQ_FIRST(&k->waits); w;)
		w = wait_check(k, w, now) ? TAILQ_FIRST(&k->waits) : TAILQ_NEXT(w, link);
	TAILQ_FOREACH (w, &k->waits, link) {
		uint64_t at = w->begun ? idle_at(k, w) : w->catch_up_ns;

		if (w->recheck_ns && w->recheck_ns < at)
			at = w->recheck_ns;
		deadline_timer_arm(&k->screens->timer, at < w->deadline_ns ? at : w->deadline_ns);
	}
}

/* A live screen stays, marked as broken; one of an ended process is dropped, and the next request builds it again. */
static void cached_fail(struct cached_screen *k, const struct err *e)
{
	while (!TAILQ_EMPTY(&k->waits))
		wait_answer(k, TAILQ_FIRST(&k->waits), e, SCREENS_NOW);
	if (k->ended) {
		cached_free(k);
		return;
	}
	log_warning("the screen of %s: %s", k->history.process_id, e->message);
	k->broken = true; /* until the next request */
}

/* Feeds screens in order until the budget is used; the one that was interrupted goes to the end of the queue. */
static void on_turn(evutil_socket_t fd, short what, void *ctx)
{
	struct screens *s = ctx;
	uint64_t until_ns = clock_boot_ns() + BUDGET_NS;
	struct cached_screen *k;

	s->tired = s->resting = false;
	while ((k = TAILQ_FIRST(&s->busy))) {
		struct err e = ERR_INIT;
		int r;

		TAILQ_REMOVE(&s->busy, k, busy_link);
		k->busy = false;
		r = cached_feed(k, until_ns, &e);
		if (r < 0) {
			cached_fail(k, &e);
			continue;
		}
		cached_check_waits(k);
		s->tired = clock_boot_ns() >= until_ns;
		if (r > 0)
			cached_wake(k);
		if (s->tired)
			break;
	}
	if ((k = TAILQ_FIRST(&s->busy)))
		cached_wake(k);
	forget_old(s);
}

/* ---- replies to terminal queries ---- */

static void on_answered(void *ctx, const struct err *e, const char *json, size_t len)
{
	if (e)
		log_debug("reply to a terminal query: %s", e->message);
}

/* The replies are taken off the screen in any case, so that none is sent twice. */
static void cached_answer(struct cached_screen *k)
{
	struct screens *s = k->screens;
	const struct caller self = { .uid = k->history.uid, .role = ROLE_OPERATOR, .pid = getpid(), .peer_fd = -1 };
	buf_auto struct buf out = BUF_INIT;
	bool attended = s->attended && s->attended(s->attended_ctx, k->history.process_id);

	k->answer_at_ns = UINT64_MAX;
	screen_replies(k->screen, &out);
	if (out.len && !attended && !k->ended)
		engine_write_stdin(s->engine, k->history.process_id, out.data, out.len, &self, on_answered, NULL);
}

static void check_deadlines(void *ctx, const char *key, void *value)
{
	struct cached_screen *k = value;
	uint64_t now = clock_boot_ns();

	if (k->answer_at_ns <= now)
		cached_answer(k);
	else
		deadline_timer_arm(&k->screens->timer, k->answer_at_ns);
	cached_check_waits(k);
}

static void on_time(void *ctx)
{
	struct screens *s = ctx;

	strmap_visit(&s->by_id, check_deadlines, NULL); /* an answer may cause a request for another screen */
	forget_old(s);
}

/* ---- events ---- */

/* Every terminal gets a screen with its first output, because programs query it without any client. */
void screens_on_output(struct screens *s, const char *id, uint64_t size)
{
	struct cached_screen *k = cached_of(s, id);
	struct err e = ERR_INIT;

	if (s->stopped)
		return;
	if (!k && !(k = cached_new(s, id, VIEW_ANY_UID, &e))) {
		log_warning("the screen of %s: %s", id, e.message);
		return;
	}
	k->target = size;
	k->output_ns = clock_boot_ns();
	cached_wake(k);
}

void screens_on_resize(struct screens *s, const char *id, uint64_t offset, unsigned rows, unsigned cols)
{
	struct cached_screen *k = cached_of(s, id);

	if (!k)
		return;
	screen_history_resize(&k->history, offset, rows, cols);
	cached_wake(k);
}

/* The document has the final byte counts and the omitted part, which the live screen did not know. */
void screens_on_ended(struct screens *s, const char *id)
{
	struct cached_screen *k = cached_of(s, id);
	struct screen_history fresh;
	struct err e = ERR_INIT;

	if (!k)
		return;
	/* from now on output is read from the store */
	if (screen_history_read(s->store, VIEW_ANY_UID, id, &fresh, &e) == 0) {
		memcpy(k->history.output_ref, fresh.output_ref, sizeof(k->history.output_ref));
		k->history.omitted_from = fresh.omitted_from;
		k->history.omitted_to = fresh.omitted_to;
		screen_history_done(&fresh);
	}
	cached_end(k);
	cached_wake(k);
}

/* ---- requests ---- */

/* A cached screen of another user must look as if it did not exist. */
void screens_submit(struct screens *s, struct screens_request *r, screens_fn fn, void *ctx)
{
	struct cached_screen *k = cached_of(s, r->process_id);
	uint64_t now = clock_boot_ns();
	struct screens_wait *w;
	struct err e = ERR_INIT;

	if (k && r->viewer != VIEW_ANY_UID && r->viewer != k->history.uid)
		err_not_known(&e, "processId", r->process_id);
	else if (!k)
		k = cached_new(s, r->process_id, r->viewer, &e);
	if (e.code) {
		screen_condition_done(&r->condition);
		fn(ctx, &e, NULL, SCREENS_NOW, false);
		return;
	}
	w = mem_zalloc(1, sizeof(*w));
	w->r = *r;
	w->r.process_id = k->history.process_id;
	w->upto = k->target;
	w->catch_up_ns = now + CATCH_UP_NS;
	w->deadline_ns = r->timeout_ms > UINT64_MAX / 2000000 ? UINT64_MAX : now + r->timeout_ms * 1000000;
	w->fn = fn;
	w->ctx = ctx;
	TAILQ_INSERT_TAIL(&k->waits, w, link);
	k->broken = false;
	cached_wake(k);
}

/* The list is restarted after each answer, whose callback may change it. */
static void drop_waits_of(void *ctx, const char *key, void *value)
{
	struct cached_screen *k = value;
	struct screens_wait *w;
	struct err e = ERR_INIT;

	err_set(&e, ERR_UNAVAILABLE, "the connection has ended");
	for (w = TAILQ_FIRST(&k->waits); w;) {
		if (w->r.connection != *(uint64_t *)ctx) {
			w = TAILQ_NEXT(w, link);
			continue;
		}
		wait_answer(k, w, &e, SCREENS_NOW);
		w = TAILQ_FIRST(&k->waits);
	}
}

void screens_client_disconnected(struct screens *s, uint64_t connection)
{
	strmap_visit(&s->by_id, drop_waits_of, &connection);
}
