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

/* ---- folding ---- */

static void fold_batch(struct store *store, struct store_batch *b, struct models *m)
{
	struct err e = ERR_INIT;

	m->ordinal = b->ordinal;
	for (size_t i = 0; i < b->nevents; i++) {
		struct event_view ev;

		if (event_view_of(b->records.data + b->events[i].offset, b->events[i].length, 0, &ev, &e) != 0 ||
		    store->project_speculative(m, &ev, &e) != 0)
			log_error("store: fold ahead: %s", e.message);
	}
}

void speculative_add(struct store *store, struct store_batch *b)
{
	struct speculative *a = &store->speculative;

	if (!store->project_speculative || !b->nevents)
		return;
	b->ordinal = ++a->ordinal;
	TAILQ_INSERT_TAIL(&a->undecided, b, undecided);
	a->unfolded++;
}

int speculative_refresh(struct store *store, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	struct speculative *a = &store->speculative;
	struct models m = { .docs = &a->docs };
	struct store_batch *b;
	uint64_t there = 0; /* by how many events this snapshot is ahead of what was dispatched */

	if (!a->unfolded)
		return 0;
	if (reader_begin(store, &r, e) != 0 || reader_models(&r, &m.dbi, e) != 0 || reader_last(&r, &there, e) != 0)
		return -1;
	there = there > store->last ? there - store->last : 0;
	m.txn = r.txn;
	m.over = r.over;
	TAILQ_FOREACH (b, &a->undecided, undecided) {
		bool committed = there >= b->nevents;

		there -= committed ? b->nevents : there;
		if (b->folded)
			continue;
		/* It will not be folded, so what earlier ones left here of the same documents would hide it. */
		if (committed)
			docs_sweep(&a->docs, b->ordinal);
		if (!committed)
			fold_batch(store, b, &m);
		b->folded = true;
		a->unfolded--;
	}
	return 0;
}

/* What was folded on top of a refused batch is wrong as well: from the beginning, when somebody asks. */
static void start_over(struct speculative *a)
{
	struct store_batch *b;

	docs_done(&a->docs);
	TAILQ_FOREACH (b, &a->undecided, undecided) {
		a->unfolded += b->folded;
		b->folded = false;
	}
}

void speculative_resolve(struct store *store, struct store_batch *b)
{
	struct speculative *a = &store->speculative;

	if (!b->ordinal)
		return;
	TAILQ_REMOVE(&a->undecided, b, undecided);
	if (!b->folded)
		a->unfolded--;
	else if (b->status != 0)
		start_over(a);
	else if (TAILQ_EMPTY(&a->undecided))
		docs_done(&a->docs);
	else
		docs_sweep(&a->docs, b->ordinal);
}
