#include "runtime/store/durable.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/store/commit.h"
#include "runtime/store/layer.h"
#include "runtime/store/reader.h"
#include "runtime/store/store_dirs.h"
#include "runtime/store/store_meta.h"
#include "runtime/store/store_private.h"

#include <string.h>

/* Limits for unsettled groups: they take memory, every reader searches them, and settling must not take long. */
#define DEPTH_MAX 64u
#define WEIGHT_MAX 4000u
/* While the database is copied, when settling would make the copy useless. */
#define HELD_DEPTH_MAX 512u
#define HELD_WEIGHT_MAX 8000u
#define JOURNAL_RETRY_NS (10ull * 1000 * 1000 * 1000)
/* No warm-up on a disk so slow that it might not finish before the group arrives, nor so soon after a write that
 * nothing is gained. */
#define WARM_UP_QUICK_NS (500u * 1000)
#define WARM_UP_AFTER_NS (2ull * 1000 * 1000)

static uint64_t newest_sequence(const struct store *store)
{
	return store->layers ? store->layers->last_sequence : store->settled.sequence;
}

/* ---- the journal ---- */

static void publish_journal_state(struct store *store)
{
	pthread_mutex_lock(&store->mutex);
	store->stats.journal_bytes = store->journal.fd >= 0 ? store->journal.size : 0;
	snprintf(store->journal_note, sizeof(store->journal_note), "%s", store->journal.why);
	pthread_mutex_unlock(&store->mutex);
}

/* Without a journal the store works, but each group waits for an LMDB commit. */
static void open_journal(struct store *store)
{
	struct err e = ERR_INIT;

	if (store->journal_bytes == 0)
		return;
	if (journal_open(&store->journal, store->dir_fd, store->journal_bytes, &e) == 0) {
		journal_reset(&store->journal, store->settled.checksum);
	} else {
		log_warning("store: %s; until it works, each group is committed to the database directly", e.message);
		store->journal.retry_ns = clock_mono_ns() + JOURNAL_RETRY_NS;
	}
	publish_journal_state(store);
}

/*
 * The journal must contain exactly the groups after META_APPLIED, which is not the case after a failure; and the
 * database must have space to take them later.
 */
static bool can_journal(struct store *store, const struct layer *l)
{
	if (store->journal.fd < 0 && store->journal.retry_ns && !store->layers &&
	    clock_mono_ns() >= store->journal.retry_ns)
		open_journal(store);
	return !store->settle_retry && store->ordinal == store->applied + store->journal.records &&
	       journal_fits(&store->journal, l->group.len) &&
	       l->weight <= (store->held ? HELD_WEIGHT_MAX : WEIGHT_MAX) &&
	       space_has_reserve(store, l->bytes + l->weight * 64);
}

static void note_journal_time(struct store *store, uint64_t start)
{
	uint64_t now = clock_mono_ns();

	store->journal_ns = now;
	store->journal_took_ns = now - start;
}

static int on_journal_error(struct store *store, const struct err *why)
{
	log_warning("store: %s; until it works, each group is committed to the database directly", why->message);
	store->journal.retry_ns = clock_mono_ns() + JOURNAL_RETRY_NS;
	publish_journal_state(store);
	return -1;
}

static int append_to_journal(struct store *store, struct layer *l)
{
	uint64_t start = clock_mono_ns();
	struct err e = ERR_INIT;

	store->ordinal++; /* even if it fails: the record may have been written */
	if (journal_append(&store->journal, store->ordinal, &l->group, &e) != 0)
		return on_journal_error(store, &e);
	l->ordinal = store->ordinal;
	note_journal_time(store, start);
	return 0;
}

bool durable_warm_up_pays(struct store *store)
{
	return store->journal_took_ns <= WARM_UP_QUICK_NS && clock_mono_ns() - store->journal_ns >= WARM_UP_AFTER_NS;
}

/* Announced by the engine while a command is being started (store_prepare). */
void durable_prepare(struct store *store)
{
	uint64_t start = clock_mono_ns();
	struct err e = ERR_INIT;

	if (store->journal.fd < 0 || store->settle_retry)
		return;
	if (journal_warm_up(&store->journal, &e) != 0)
		(void)on_journal_error(store, &e);
	else
		note_journal_time(store, start);
}

/* ---- groups ---- */

struct layer *durable_publish_locked(struct store *store)
{
	struct layer *before = store->layers;

	if (!store->new_layer)
		return NULL;
	store->layers = mem_take(&store->new_layer);
	store->stats.journal_groups = store->layers->depth;
	store->settle_at_ns = clock_mono_ns() + store->settle_ns;
	return before; /* the new layer has its own reference to it */
}

static void publish_layer(struct store *store)
{
	struct layer *before;

	pthread_mutex_lock(&store->mutex);
	before = durable_publish_locked(store);
	pthread_mutex_unlock(&store->mutex);
	layer_unref(before);
}

/* Numbers the events of each batch, in the order of submission. */
static void set_committed(struct store *store, struct store_batch *group, const struct layer *l)
{
	uint64_t next = l->first_sequence;
	int64_t bytes = 0, files = 0;

	for (struct store_batch *b = group; b; b = b->next) {
		b->status = 0;
		if (b->nevents) {
			b->first_sequence = next;
			b->last_sequence = next + b->nevents - 1;
			next += b->nevents;
		}
		for (size_t i = 0; i < b->nranges; i++) {
			bytes += (int64_t)b->ranges[i].length;
			files += b->ranges[i].first_cited;
		}
	}
	if (bytes)
		space_spool_add(store, bytes, files);
}

static int project_group(struct store *store, const struct store_batch *group, struct layer **ret, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	buf_auto struct buf bytes = BUF_INIT;
	MDB_dbi models;

	if (group_check(group, e) != 0 || reader_begin(store, &r, e) != 0 || reader_models(&r, &models, e) != 0)
		return -1;
	group_encode(&bytes, group);
	return layer_new(store, &bytes, group, store->layers, newest_sequence(store), r.txn, models, ret, e);
}

static void on_settled(struct store *store)
{
	if (store->settle_retry)
		log_info("store: the journal is settled now");
	commit_settled(store, mem_take(&store->commit_in_doubt));
	journal_reset(&store->journal, store->settled.checksum);
}

/*
 * Projection comes first: a group that cannot be projected must not reach the disk, where recovery would fail on it
 * again. A group that does not go to the journal settles everything below it in the same transaction, so the database
 * never skips one.
 */
int durable_group(struct store *store, struct store_batch *group, bool *ret_in_doubt, struct err *e)
{
	uint64_t start = clock_mono_ns();
	struct layer *l;

	*ret_in_doubt = false;
	if (store_dirs_sync_name(store, e) != 0 || project_group(store, group, &l, e) != 0)
		return -1;
	if (can_journal(store, l) && append_to_journal(store, l) == 0) {
		set_committed(store, group, l);
		store->new_layer = l;
		commit_count(store, start);
		return 0;
	}
	l->ordinal = ++store->ordinal;
	if (commit_layers(store, l, &store->commit_in_doubt, ret_in_doubt, e) == 0) {
		on_settled(store);
		set_committed(store, group, l);
		layer_unref(l);
		commit_count(store, start);
		return 0;
	}
	if (*ret_in_doubt)
		store->tentative = l;
	else
		layer_unref(l);
	return -1;
}

/* The commit in doubt did happen. */
void durable_confirm(struct store *store, struct store_batch *group)
{
	on_settled(store);
	if (group)
		set_committed(store, group, store->tentative);
	layer_unref(mem_take(&store->tentative));
}

/* The commit in doubt did not happen, or that is unknown: the layers below it stay unsettled and readable. */
void durable_abort(struct store *store)
{
	if (store->commit_in_doubt)
		commit_undone(store, mem_take(&store->commit_in_doubt));
	layer_unref(mem_take(&store->tentative));
}

/* ---- settling ---- */

bool durable_settle_due(const struct store *store)
{
	const struct layer *l = store->layers;

	if (store->held)
		return l && (l->depth >= HELD_DEPTH_MAX || l->weight >= HELD_WEIGHT_MAX);
	return l && (l->depth >= DEPTH_MAX || l->weight >= WEIGHT_MAX || store->journal.at > store->journal.size / 2);
}

/* On the writer thread after idle time, before jobs and at the end; at open before there is a writer. */
int durable_settle(struct store *store, bool *ret_in_doubt, struct err *e)
{
	*ret_in_doubt = false;
	if (!store->layers)
		return 0;
	if (store_dirs_sync_name(store, e) != 0)
		return -1;
	if (store->applied_there >= store->layers->ordinal) { /* a commit in doubt did happen, but may not be durable */
		int rc = mdb_env_sync(store->db.env, 1);

		if (rc != 0)
			return db_err(e, rc, "sync the database");
		on_settled(store);
		return 0;
	}
	if (commit_layers(store, store->layers, &store->commit_in_doubt, ret_in_doubt, e) != 0)
		return -1;
	on_settled(store);
	return 0;
}

/* For the worker: returns when everything acknowledged before the call is in the database. */
int durable_wait(struct store *store, struct err *e)
{
	uint64_t want, failures;
	int rc = 0;

	if (store->read_only)
		return 0;
	pthread_mutex_lock(&store->mutex);
	want = store->layers ? store->layers->ordinal : 0;
	failures = store->settle_failures;
	while (store->applied < want && !store->worker_end) {
		if (store->settle_failures != failures) {
			*e = store->settle_error;
			rc = -1;
			break;
		}
		store->settle_asked = true;
		pthread_cond_signal(&store->wake);
		pthread_cond_wait(&store->decided, &store->mutex);
	}
	pthread_mutex_unlock(&store->mutex);
	return rc;
}

/* ---- recovery ---- */

/*
 * The same code path as for a new group: the journal has events and not documents, and projecting them again gives the
 * same documents. The first record must be chained to the newest event of the database: otherwise data.mdb was
 * replaced.
 */
static int replay_group(struct store *store, const struct journal_cursor *c, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	buf_auto struct buf bytes = BUF_INIT;
	struct layer *l;
	MDB_dbi models;

	if (c->head.ordinal != store->ordinal + 1 || (!store->layers && c->head.ordinal == store->applied + 1 &&
						      c->first && c->head.previous != store->settled.checksum))
		return err_set(e, ERR_CORRUPT,
			       "the journal continues with group %llu, but the database ends with group %llu or is "
			       "a different one, so acknowledged events are missing. If data.mdb was deliberately "
			       "replaced by a copy, move the file '" JOURNAL_NAME "' away",
			       (unsigned long long)c->head.ordinal, (unsigned long long)store->applied);
	if (reader_begin(store, &r, e) != 0 || reader_models(&r, &models, e) != 0)
		return -1;
	buf_append(&bytes, c->payload, c->head.length);
	if (layer_new(store, &bytes, NULL, store->layers, newest_sequence(store), r.txn, models, &l, e) != 0)
		return err_wrap(e, "group %llu of the journal", (unsigned long long)c->head.ordinal);
	l->ordinal = store->ordinal = c->head.ordinal;
	store->new_layer = l;
	publish_layer(store);
	/* Readers expect unsettled events in the ring. */
	struct store_batch *b = store_batch_new(store);
	struct group_entry n;
	size_t at = 0;

	b->first_sequence = l->first_sequence;
	b->events = mem_zalloc(l->last_sequence - l->first_sequence + 2, sizeof(*b->events));
	while (group_next(l->group.data, l->group.len, &at, &n, NULL) > 0) {
		if (n.tag != GROUP_EVENT)
			continue;
		b->events[b->nevents++] = (struct batch_event){ .offset = (uint32_t)b->records.len,
								.length = (uint32_t)n.len };
		buf_append(&b->records, n.data, n.len);
	}
	ring_push(&store->ring, b, store->settled.sequence);
	store_batch_free(b);
	store->last = l->last_sequence;
	return 0;
}

static int replay_journal(struct store *store, struct err *e)
{
	buf_auto struct buf file = BUF_INIT;
	struct journal_cursor c = { .seed = store->journal.seed };
	int rc = journal_read(store->dir_fd, &file, e);

	if (rc != 0)
		return rc < 0 ? -1 : 0;
	while (journal_next(&c, file.data, file.len))
		if (c.head.ordinal > store->applied && replay_group(store, &c, e) != 0)
			return -1;
	if (store->layers)
		log_info("store: recovering %u groups, up to event %llu, from the journal", store->layers->depth,
			 (unsigned long long)store->layers->last_sequence);
	return 0;
}

/* Before the writer starts. Lack of space is no reason not to start: the journal keeps the groups. */
int durable_recover(struct store *store, struct err *e)
{
	bool in_doubt = false;

	store->ordinal = store->applied;
	if (replay_journal(store, e) != 0)
		return -1;
	if (store->read_only)
		return 0;
	if (durable_settle(store, &in_doubt, e) != 0) {
		/*
		 * Lack of space may pass; any other failure at this point means that acknowledged groups cannot be
		 * stored.
		 */
		if (in_doubt || e->code != ERR_EXHAUSTED) {
			durable_abort(store);
			return err_wrap(e, "settle the journal");
		}
		log_warning("store: %s; settling the journal waits for space", e->message);
		(void)space_failed(store, e);
		store->settle_retry = true;
		store->journal.retry_ns = clock_mono_ns();
		*e = ERR_INIT;
		return 0;
	}
	open_journal(store);
	return 0;
}
