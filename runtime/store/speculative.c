#include "runtime/store/speculative.h"

#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/store/read_models.h"
#include "runtime/store/reader.h"
#include "runtime/store/store_private.h"

void speculative_init(struct speculative *a)
{
	*a = (struct speculative){ 0 };
	TAILQ_INIT(&a->undecided);
}

void speculative_done(struct speculative *a) { docs_done(&a->docs); }

/* ---- projecting ---- */

/* A failure is only logged: the commit projects the batch again and reports it to the submitter. */
static void project_batch(struct store *store, struct store_batch *b, struct models *m)
{
	struct err e = ERR_INIT;

	m->ordinal = b->ordinal;
	for (size_t i = 0; i < b->nevents; i++) {
		struct event_view ev;

		if (event_view_of(b->records.data + b->events[i].offset, b->events[i].length, 0, &ev, &e) != 0 ||
		    store->project_speculative(m, &ev, &e) != 0)
			log_error("store: project a submitted batch: %s", e.message);
		models_release(m);
	}
}

void speculative_add(struct store *store, struct store_batch *b)
{
	struct speculative *a = &store->speculative;

	if (!b->nevents)
		return;
	b->ordinal = ++a->ordinal;
	TAILQ_INSERT_TAIL(&a->undecided, b, undecided);
	a->unprojected++;
}

/* Projects batches that were submitted since the last call; cheap when there are none. */
int speculative_refresh(struct store *store, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	struct speculative *a = &store->speculative;
	struct models m = { .docs = &a->docs };
	struct store_batch *b;
	uint64_t there = 0; /* how many events of the snapshot are not dispatched yet */

	if (!a->unprojected)
		return 0;
	if (reader_begin(store, &r, e) != 0 || reader_models(&r, &m.dbi, e) != 0 || reader_last(&r, &there, e) != 0)
		return -1;
	there = there > store->last ? there - store->last : 0;
	m.txn = r.txn;
	m.over = r.over;
	TAILQ_FOREACH (b, &a->undecided, undecided) {
		bool committed = there >= b->nevents;

		there -= committed ? b->nevents : there;
		if (b->projected)
			continue;
		/* The snapshot has its documents; older versions of them in the map would hide those. */
		if (committed)
			docs_sweep(&a->docs, b->ordinal);
		if (!committed && store->project_speculative)
			project_batch(store, b, &m);
		b->projected = true;
		a->unprojected--;
	}
	return 0;
}

/* What was projected on top of a rejected batch is wrong too: start over at the next read. */
static void start_over(struct speculative *a)
{
	struct store_batch *b;

	docs_done(&a->docs);
	TAILQ_FOREACH (b, &a->undecided, undecided) {
		a->unprojected += b->projected;
		b->projected = false;
	}
}

/*
 * Called when the batch is dispatched; a second call has no effect. A rejected one invalidates what was projected after
 * it; a committed one only removes its documents from the map, since readers now find them in the store.
 */
void speculative_resolve(struct store *store, struct store_batch *b)
{
	struct speculative *a = &store->speculative;
	uint64_t ordinal = b->ordinal;

	if (!ordinal)
		return;
	TAILQ_REMOVE(&a->undecided, b, undecided);
	b->ordinal = 0;
	if (!b->projected)
		a->unprojected--;
	else if (b->status != 0)
		start_over(a);
	else if (TAILQ_EMPTY(&a->undecided))
		docs_done(&a->docs);
	else
		docs_sweep(&a->docs, ordinal);
}

bool speculative_has_id(const struct store *store, enum id_field field, const char *id)
{
	const size_t len = strlen(id);
	const struct store_batch *b;
	struct err e = ERR_INIT;

	TAILQ_FOREACH (b, &store->speculative.undecided, undecided) {
		for (size_t i = 0; i < b->nevents; i++) {
			const struct batch_event *at = &b->events[i];
			struct event_view ev;

			if (event_view_of(b->records.data + at->offset, at->length, 0, &ev, &e) != 0)
				return true; /* unknown */
			if (ev.ids[field].text && ev.ids[field].len == len && memcmp(ev.ids[field].text, id, len) == 0)
				return true;
		}
	}
	return false;
}
