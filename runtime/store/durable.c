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

/* So much at most lies over the database: it is memory, every reader looks through it, and settling must not take long.
 */
#define DEPTH_MAX 64u
#define WEIGHT_MAX 4000u
#define JOURNAL_RETRY_NS (10ull * 1000 * 1000 * 1000)
/* A rehearsal must be over when the group comes, which nobody knows of a disk that is slower; and so soon after a write
 * there is nothing to gain. */
#define WARM_UP_QUICK_NS (500u * 1000)
#define WARM_UP_AFTER_NS (2ull * 1000 * 1000)

static uint64_t newest(const struct store *store)
{
	return store->layers ? store->layers->last_sequence : store->settled.sequence;
}

/* ---- the journal ---- */

static void tell_journal(struct store *store)
{
	pthread_mutex_lock(&store->mutex);
	store->stats.journal_bytes = store->journal.fd >= 0 ? store->journal.size : 0;
	snprintf(store->journal_note, sizeof(store->journal_note), "%s", store->journal.why);
	pthread_mutex_unlock(&store->mutex);
}

static void open_journal(struct store *store)
{
	struct err e = ERR_INIT;

	if (store->journal_bytes == 0)
		return;
	if (journal_open(&store->journal, store->dir_fd, store->journal_bytes, &e) == 0) {
		journal_reset(&store->journal, store->settled.checksum);
	} else {
		log_warning("store: %s; each group is committed to the database before it is acknowledged", e.message);
		store->journal.retry_ns = clock_mono_ns() + JOURNAL_RETRY_NS;
	}
	tell_journal(store);
}

/*
 * The journal must hold every group behind META_APPLIED and no other, which is not so after a failure; and what it
 * takes, the database must be able to take later.
 */
static bool may_journal(struct store *store, const struct layer *l)
{
	if (store->journal.fd < 0 && store->journal.retry_ns && !store->layers &&
	    clock_mono_ns() >= store->journal.retry_ns)
		open_journal(store);
	return !store->settle_retry && store->ordinal == store->applied + store->journal.records &&
	       journal_fits(&store->journal, l->group.len) && l->weight <= WEIGHT_MAX &&
	       space_has_reserve(store, l->bytes + l->weight * 64);
}

static void journal_written(struct store *store, uint64_t start)
{
	store->journal_ns = clock_mono_ns();
	store->journal_took_ns = store->journal_ns - start;
}

static int journal_failed(struct store *store, const struct err *why)
{
	log_warning("store: %s; each group is committed to the database before it is acknowledged", why->message);
	store->journal.retry_ns = clock_mono_ns() + JOURNAL_RETRY_NS;
	tell_journal(store);
	return -1;
}

/* 0 it is in the journal. */
static int to_journal(struct store *store, struct layer *l)
{
	uint64_t start = clock_mono_ns();
	struct err e = ERR_INIT;

	store->ordinal++; /* also when it fails: the record may be there */
	if (journal_append(&store->journal, store->ordinal, &l->group, &e) != 0)
		return journal_failed(store, &e);
	l->ordinal = store->ordinal;
	journal_written(store, start);
	return 0;
}

void durable_prepare(struct store *store)
{
	uint64_t start = clock_mono_ns();
	struct err e = ERR_INIT;

	if (store->journal.fd < 0 || store->settle_retry || store->journal_took_ns > WARM_UP_QUICK_NS ||
	    start - store->journal_ns < WARM_UP_AFTER_NS)
		return;
	if (journal_warm_up(&store->journal, &e) != 0)
		(void)journal_failed(store, &e);
	else
		journal_written(store, start);
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
	return before; /* the new one has its own reference */
}

static void show(struct store *store)
{
	struct layer *before;

	pthread_mutex_lock(&store->mutex);
	before = durable_publish_locked(store);
	pthread_mutex_unlock(&store->mutex);
	layer_unref(before);
}

static void accept(struct store *store, struct store_batch *group, const struct layer *l)
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

static int fold_group(struct store *store, const struct store_batch *group, struct layer **ret, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	buf_auto struct buf bytes = BUF_INIT;
	MDB_dbi models;

	if (group_check(group, e) != 0 || reader_begin(store, &r, e) != 0 || reader_models(&r, &models, e) != 0)
		return -1;
	group_encode(&bytes, group);
	return layer_new(store, &bytes, store->layers, newest(store), r.txn, models, ret, e);
}

static void settled(struct store *store)
{
	if (store->settle_retry)
		log_info("store: what was in the journal only is in the database now");
	commit_settled(store, mem_take(&store->commit_in_doubt));
	journal_reset(&store->journal, store->settled.checksum);
}

int durable_group(struct store *store, struct store_batch *group, bool *ret_in_doubt, struct err *e)
{
	uint64_t start = clock_mono_ns();
	struct layer *l;

	*ret_in_doubt = false;
	if (store_dirs_sync_name(store, e) != 0 || fold_group(store, group, &l, e) != 0)
		return -1;
	if (may_journal(store, l) && to_journal(store, l) == 0) {
		accept(store, group, l);
		store->new_layer = l;
		commit_count(store, start);
		return 0;
	}
	l->ordinal = ++store->ordinal;
	if (commit_layers(store, l, &store->commit_in_doubt, ret_in_doubt, e) == 0) {
		settled(store);
		accept(store, group, l);
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

void durable_confirm(struct store *store, struct store_batch *group)
{
	settled(store);
	if (group)
		accept(store, group, store->tentative);
	layer_unref(mem_take(&store->tentative));
}

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

	return l && (l->depth >= DEPTH_MAX || l->weight >= WEIGHT_MAX || store->journal.at > store->journal.size / 2);
}

int durable_settle(struct store *store, bool *ret_in_doubt, struct err *e)
{
	*ret_in_doubt = false;
	if (!store->layers)
		return 0;
	if (store_dirs_sync_name(store, e) != 0)
		return -1;
	if (store->applied_there >=
	    store->layers->ordinal) { /* a commit in doubt that did happen, but was not known to be durable */
		int rc = mdb_env_sync(store->db.env, 1);

		if (rc != 0)
			return db_err(e, rc, "sync the database");
		settled(store);
		return 0;
	}
	if (commit_layers(store, store->layers, &store->commit_in_doubt, ret_in_doubt, e) != 0)
		return -1;
	settled(store);
	return 0;
}

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

/* Recent events are read from memory, and these are in no database yet. */
static void remember(struct store *store, const struct layer *l)
{
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
	ring_push(&store->ring, b);
	store_batch_free(b);
	store->last = l->last_sequence;
}

static int replay_one(struct store *store, const struct journal_cursor *c, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	buf_auto struct buf bytes = BUF_INIT;
	struct layer *l;
	MDB_dbi models;

	if (c->head.ordinal != store->ordinal + 1 || (!store->layers && c->head.ordinal == store->applied + 1 &&
						      c->first && c->head.previous != store->settled.checksum))
		return err_set(e, ERR_CORRUPT,
			       "the journal goes on with group %llu, but the database ends with group %llu, or was "
			       "another one: what lies between "
			       "them was acknowledged. If data.mdb was put back from a copy on purpose, move the file "
			       "'" JOURNAL_NAME "' away",
			       (unsigned long long)c->head.ordinal, (unsigned long long)store->applied);
	if (reader_begin(store, &r, e) != 0 || reader_models(&r, &models, e) != 0)
		return -1;
	buf_append(&bytes, c->payload, c->head.length);
	if (layer_new(store, &bytes, store->layers, newest(store), r.txn, models, &l, e) != 0)
		return err_wrap(e, "group %llu of the journal", (unsigned long long)c->head.ordinal);
	l->ordinal = store->ordinal = c->head.ordinal;
	store->new_layer = l;
	show(store);
	remember(store, l);
	return 0;
}

static int replay(struct store *store, struct err *e)
{
	buf_auto struct buf file = BUF_INIT;
	struct journal_cursor c = { .seed = store->journal.seed };
	int rc = journal_read(store->dir_fd, &file, e);

	if (rc != 0)
		return rc < 0 ? -1 : 0;
	while (journal_next(&c, file.data, file.len))
		if (c.head.ordinal > store->applied && replay_one(store, &c, e) != 0)
			return -1;
	if (store->layers)
		log_info("store: the journal has %u groups, up to event %llu, that the database has not",
			 store->layers->depth, (unsigned long long)store->layers->last_sequence);
	return 0;
}

int durable_recover(struct store *store, struct err *e)
{
	bool in_doubt = false;

	store->ordinal = store->applied;
	if (replay(store, e) != 0)
		return -1;
	if (store->read_only)
		return 0;
	if (durable_settle(store, &in_doubt, e) != 0) {
		if (in_doubt || e->code != ERR_EXHAUSTED) {
			durable_abort(store);
			return err_wrap(e, "settle what the journal has");
		}
		log_warning("store: %s; what the journal has waits for room", e->message);
		(void)space_failed(store, e);
		store->settle_retry = true;
		store->journal.retry_ns = clock_mono_ns();
		*e = ERR_INIT;
		return 0;
	}
	open_journal(store);
	return 0;
}
