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

static uint64_t newest(const struct store *s) { return s->layers ? s->layers->last_sequence : s->settled.sequence; }

/* ---- the journal ---- */

static void tell_journal(struct store *s)
{
	pthread_mutex_lock(&s->mutex);
	s->stats.journal_bytes = s->journal.fd >= 0 ? s->journal.size : 0;
	snprintf(s->journal_note, sizeof(s->journal_note), "%s", s->journal.why);
	pthread_mutex_unlock(&s->mutex);
}

static void open_journal(struct store *s)
{
	struct err e = ERR_INIT;

	if (s->journal_bytes == 0)
		return;
	if (journal_open(&s->journal, s->dir_fd, s->journal_bytes, &e) == 0) {
		journal_reset(&s->journal, s->settled.checksum);
	} else {
		log_warning("store: %s; each group is committed to the database before it is acknowledged", e.message);
		s->journal.retry_ns = clock_mono_ns() + JOURNAL_RETRY_NS;
	}
	tell_journal(s);
}

/*
 * The journal must hold every group behind META_APPLIED and no other, which is not so after a failure; and what it
 * takes, the database must be able to take later.
 */
static bool may_journal(struct store *s, const struct layer *l)
{
	if (s->journal.fd < 0 && s->journal.retry_ns && !s->layers && clock_mono_ns() >= s->journal.retry_ns)
		open_journal(s);
	return !s->settle_retry && s->ordinal == s->applied + s->journal.records &&
	       journal_fits(&s->journal, l->group.len) && l->weight <= WEIGHT_MAX &&
	       space_has_reserve(s, l->bytes + l->weight * 64);
}

static void journal_written(struct store *s, uint64_t start)
{
	s->journal_ns = clock_mono_ns();
	s->journal_took_ns = s->journal_ns - start;
}

static int journal_failed(struct store *s, const struct err *why)
{
	log_warning("store: %s; each group is committed to the database before it is acknowledged", why->message);
	s->journal.retry_ns = clock_mono_ns() + JOURNAL_RETRY_NS;
	tell_journal(s);
	return -1;
}

/* 0 it is in the journal. */
static int to_journal(struct store *s, struct layer *l)
{
	uint64_t start = clock_mono_ns();
	struct err e = ERR_INIT;

	s->ordinal++; /* also when it fails: the record may be there */
	if (journal_append(&s->journal, s->ordinal, &l->group, &e) != 0)
		return journal_failed(s, &e);
	l->ordinal = s->ordinal;
	journal_written(s, start);
	return 0;
}

void durable_prepare(struct store *s)
{
	uint64_t start = clock_mono_ns();
	struct err e = ERR_INIT;

	if (s->journal.fd < 0 || s->settle_retry || s->journal_took_ns > WARM_UP_QUICK_NS ||
	    start - s->journal_ns < WARM_UP_AFTER_NS)
		return;
	if (journal_warm_up(&s->journal, &e) != 0)
		(void)journal_failed(s, &e);
	else
		journal_written(s, start);
}

/* ---- groups ---- */

struct layer *durable_publish_locked(struct store *s)
{
	struct layer *before = s->layers;

	if (!s->new_layer)
		return NULL;
	s->layers = mem_take(&s->new_layer);
	s->stats.journal_groups = s->layers->depth;
	s->settle_at_ns = clock_mono_ns() + s->settle_ns;
	return before; /* the new one has its own reference */
}

static void show(struct store *s)
{
	struct layer *before;

	pthread_mutex_lock(&s->mutex);
	before = durable_publish_locked(s);
	pthread_mutex_unlock(&s->mutex);
	layer_unref(before);
}

static void accept(struct store *s, struct store_batch *group, const struct layer *l)
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
		space_spool_add(s, bytes, files);
}

static int fold_group(struct store *s, const struct store_batch *group, struct layer **ret, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	buf_auto struct buf bytes = BUF_INIT;
	MDB_dbi models;

	if (group_check(group, e) != 0 || reader_begin(s, &r, e) != 0 || reader_models(&r, &models, e) != 0)
		return -1;
	group_encode(&bytes, group);
	return layer_new(s, &bytes, s->layers, newest(s), r.txn, models, ret, e);
}

static void settled(struct store *s)
{
	if (s->settle_retry)
		log_info("store: what was in the journal only is in the database now");
	commit_settled(s, mem_take(&s->commit_in_doubt));
	journal_reset(&s->journal, s->settled.checksum);
}

int durable_group(struct store *s, struct store_batch *group, bool *ret_in_doubt, struct err *e)
{
	uint64_t start = clock_mono_ns();
	struct layer *l;

	*ret_in_doubt = false;
	if (store_dirs_sync_name(s, e) != 0 || fold_group(s, group, &l, e) != 0)
		return -1;
	if (may_journal(s, l) && to_journal(s, l) == 0) {
		accept(s, group, l);
		s->new_layer = l;
		commit_count(s, start);
		return 0;
	}
	l->ordinal = ++s->ordinal;
	if (commit_layers(s, l, &s->commit_in_doubt, ret_in_doubt, e) == 0) {
		settled(s);
		accept(s, group, l);
		layer_unref(l);
		commit_count(s, start);
		return 0;
	}
	if (*ret_in_doubt)
		s->tentative = l;
	else
		layer_unref(l);
	return -1;
}

void durable_confirm(struct store *s, struct store_batch *group)
{
	settled(s);
	if (group)
		accept(s, group, s->tentative);
	layer_unref(mem_take(&s->tentative));
}

void durable_abort(struct store *s)
{
	if (s->commit_in_doubt)
		commit_undone(s, mem_take(&s->commit_in_doubt));
	layer_unref(mem_take(&s->tentative));
}

/* ---- settling ---- */

bool durable_settle_due(const struct store *s)
{
	const struct layer *l = s->layers;

	return l && (l->depth >= DEPTH_MAX || l->weight >= WEIGHT_MAX || s->journal.at > s->journal.size / 2);
}

int durable_settle(struct store *s, bool *ret_in_doubt, struct err *e)
{
	*ret_in_doubt = false;
	if (!s->layers)
		return 0;
	if (store_dirs_sync_name(s, e) != 0)
		return -1;
	if (s->applied_there >=
	    s->layers->ordinal) { /* a commit in doubt that did happen, but was not known to be durable */
		int rc = mdb_env_sync(s->db.env, 1);

		if (rc != 0)
			return db_err(e, rc, "sync the database");
		settled(s);
		return 0;
	}
	if (commit_layers(s, s->layers, &s->commit_in_doubt, ret_in_doubt, e) != 0)
		return -1;
	settled(s);
	return 0;
}

int durable_wait(struct store *s, struct err *e)
{
	uint64_t want, failures;
	int rc = 0;

	if (s->read_only)
		return 0;
	pthread_mutex_lock(&s->mutex);
	want = s->layers ? s->layers->ordinal : 0;
	failures = s->settle_failures;
	while (s->applied < want && !s->worker_end) {
		if (s->settle_failures != failures) {
			*e = s->settle_error;
			rc = -1;
			break;
		}
		s->settle_asked = true;
		pthread_cond_signal(&s->wake);
		pthread_cond_wait(&s->decided, &s->mutex);
	}
	pthread_mutex_unlock(&s->mutex);
	return rc;
}

/* ---- recovery ---- */

/* Recent events are read from memory, and these are in no database yet. */
static void remember(struct store *s, const struct layer *l)
{
	struct store_batch *b = store_batch_new(s);
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
	ring_push(&s->ring, b);
	store_batch_free(b);
	s->last = l->last_sequence;
}

static int replay_one(struct store *s, const struct journal_cursor *c, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	buf_auto struct buf bytes = BUF_INIT;
	struct layer *l;
	MDB_dbi models;

	if (c->head.ordinal != s->ordinal + 1 ||
	    (!s->layers && c->head.ordinal == s->applied + 1 && c->first && c->head.previous != s->settled.checksum))
		return err_set(e, ERR_CORRUPT,
			       "the journal goes on with group %llu, but the database ends with group %llu, or was "
			       "another one: what lies between "
			       "them was acknowledged. If data.mdb was put back from a copy on purpose, move the file "
			       "'" JOURNAL_NAME "' away",
			       (unsigned long long)c->head.ordinal, (unsigned long long)s->applied);
	if (reader_begin(s, &r, e) != 0 || reader_models(&r, &models, e) != 0)
		return -1;
	buf_append(&bytes, c->payload, c->head.length);
	if (layer_new(s, &bytes, s->layers, newest(s), r.txn, models, &l, e) != 0)
		return err_wrap(e, "group %llu of the journal", (unsigned long long)c->head.ordinal);
	l->ordinal = s->ordinal = c->head.ordinal;
	s->new_layer = l;
	show(s);
	remember(s, l);
	return 0;
}

static int replay(struct store *s, struct err *e)
{
	buf_auto struct buf file = BUF_INIT;
	struct journal_cursor c = { .seed = s->journal.seed };
	int rc = journal_read(s->dir_fd, &file, e);

	if (rc != 0)
		return rc < 0 ? -1 : 0;
	while (journal_next(&c, file.data, file.len))
		if (c.head.ordinal > s->applied && replay_one(s, &c, e) != 0)
			return -1;
	if (s->layers)
		log_info("store: the journal has %u groups, up to event %llu, that the database has not",
			 s->layers->depth, (unsigned long long)s->layers->last_sequence);
	return 0;
}

int durable_recover(struct store *s, struct err *e)
{
	bool in_doubt = false;

	s->ordinal = s->applied;
	if (replay(s, e) != 0)
		return -1;
	if (s->read_only)
		return 0;
	if (durable_settle(s, &in_doubt, e) != 0) {
		if (in_doubt || e->code != ERR_EXHAUSTED) {
			durable_abort(s);
			return err_wrap(e, "settle what the journal has");
		}
		log_warning("store: %s; what the journal has waits for room", e->message);
		(void)space_failed(s, e);
		s->settle_retry = true;
		s->journal.retry_ns = clock_mono_ns();
		*e = ERR_INIT;
		return 0;
	}
	open_journal(s);
	return 0;
}
