#include "runtime/store/layer.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/event/event.h"
#include "runtime/store/read_models.h"
#include "runtime/store/store_private.h"

#include <string.h>

struct layer *layer_ref(struct layer *l)
{
	if (l)
		atomic_fetch_add(&l->refs, 1);
	return l;
}

/* Iterative: dropping the newest layer may drop all of them. */
void layer_unref(struct layer *l)
{
	while (l && atomic_fetch_sub(&l->refs, 1) == 1) {
		struct layer *older = l->older;

		docs_done(&l->docs);
		buf_done(&l->group);
		free(l->notes);
		free(l);
		l = older;
	}
}

/* The next event of a list of batches. */
struct batch_cursor {
	const struct store_batch *batch;
	size_t event;
};

/* The payload of the group's next event, which is the last member of its record (event.h); none if it is not known. */
static struct jval next_payload(struct batch_cursor *at, const struct group_entry *n)
{
	size_t offset;

	while (at->batch && at->event == at->batch->nevents)
		*at = (struct batch_cursor){ .batch = at->batch->next };
	offset = at->batch ? at->batch->events[at->event++].payload : 0;
	if (!offset || n->data[offset] != '{' || n->data[n->len - 2] != '}')
		return (struct jval){ 0 };
	return (struct jval){ .type = JT_OBJECT, .text = n->data + offset, .len = n->len - 1 - offset };
}

/* Also adds to the weight, an estimate of the puts that settling will need. */
static int project_event(struct store *store, struct layer *l, const struct group_entry *n, struct jval payload,
			 struct models *m, struct err *e)
{
	struct event_view ev;

	if (event_view_of(n->data, n->len, l->last_sequence + 1, &ev, e) != 0)
		return -1;
	ev.payload = payload;
	for (int f = 0; f < ID_FIELD_COUNT; f++)
		l->weight += ev.ids[f].text && id_field_indexed((enum id_field)f);
	l->last_sequence++;
	int rc = store->project ? store->project(m, &ev, e) : 0;
	models_release(m);
	if (rc != 0)
		return err_wrap(e, "project event %llu (%s)", (unsigned long long)ev.sequence,
				event_info(ev.type)->name);
	return 0;
}

/* Everything but events and documents is kept as notes: inline outputs, ranges, idempotency records, meta values. */
static int project_group(struct store *store, struct layer *l, const struct store_batch *batches, struct models *m,
			 struct err *e)
{
	struct batch_cursor event = { .batch = batches };
	struct group_entry n;
	size_t at = 0, cap = 0;
	int rc;

	while ((rc = group_next(l->group.data, l->group.len, &at, &n, e)) > 0) {
		l->weight++;
		if (n.tag == GROUP_EVENT) {
			if (project_event(store, l, &n, next_payload(&event, &n), m, e) != 0)
				return -1;
			continue;
		}
		if (l->nnotes == cap) {
			cap = cap ? cap * 2 : 8;
			l->notes = mem_realloc(l->notes, cap * sizeof(*l->notes));
		}
		l->notes[l->nnotes++] = n;
		l->weight += n.len / 64; /* a range has one row per chunk */
	}
	l->weight += l->docs.count;
	return rc < 0 ? -1 : docs_check_sizes(&l->docs, l->group.len, DB_SEALED_MAX, e);
}

/* The bit within its word, which the upper seven bits of the hash select. */
static uint64_t hash_bit(uint64_t hash) { return 1ull << (hash >> 51 & 63); }

/* What may be found in this layer and those below. */
static void summarize_docs(struct layer *l)
{
	const struct layer *older = l->older;

	if (older)
		memcpy(l->hashes, older->hashes, sizeof(l->hashes));
	for (size_t i = 0; i < l->docs.nslots; i++)
		for (const struct doc *n = l->docs.slots[i]; n; n = n->next)
			l->hashes[n->hash >> 57] |= hash_bit(n->hash);
	for (size_t i = 0; i < countof(l->kinds); i++)
		l->kinds[i] = l->docs.kinds[i] | (older ? older->kinds[i] : 0);
}

/*
 * The bytes of `group` are taken on failure, too. Reads of the projection see this group, then `older`, then the table.
 */
int layer_new(struct store *store, struct buf *group, const struct store_batch *batches, struct layer *older,
	      uint64_t last, MDB_txn *txn, MDB_dbi models, struct layer **ret, struct err *e)
{
	struct layer *l = mem_zalloc(1, sizeof(*l));
	struct models m = { .txn = txn, .dbi = models, .docs = &l->docs, .over = older, .group = &l->group };

	atomic_init(&l->refs, 1);
	l->docs.in_blocks = true;
	l->group = *group;
	*group = BUF_INIT;
	l->older = layer_ref(older);
	l->first_sequence = last + 1;
	l->last_sequence = last;
	l->depth = older ? older->depth + 1 : 1;
	l->weight = older ? older->weight : 0;
	l->bytes = l->group.len + (older ? older->bytes : 0);
	if (project_group(store, l, batches, &m, e) != 0) {
		layer_unref(l);
		return -1;
	}
	summarize_docs(l);
	*ret = l;
	return 0;
}

static bool may_have_kind(const struct layer *l, uint8_t kind) { return l->kinds[kind / 64] >> kind % 64 & 1; }

/* The oldest layer begins right after the newest event of the database. */
uint64_t layer_settled(const struct layer *l, uint64_t last)
{
	for (; l; l = l->older)
		last = l->first_sequence - 1;
	return last;
}

const struct doc *layer_doc(const struct layer *l, const struct docs_key *key)
{
	const struct doc *n = NULL;

	for (; l && !n && l->hashes[key->hash >> 57] & hash_bit(key->hash); l = l->older)
		n = docs_find(&l->docs, key);
	return n;
}

void layer_docs(const struct layer *l, struct docs_list *list, int kind, const char *prefix)
{
	if (l && kind >= 0 && !may_have_kind(l, (uint8_t)kind))
		return;
	for (; l; l = l->older)
		docs_list_add(list, &l->docs, kind, prefix);
}

/* Newest first, also within a layer: the last entry for a key wins, as it will in the database. */
const struct group_entry *layer_note(const struct layer *l, unsigned tags, uint32_t uid, const char *key)
{
	for (; l; l = l->older)
		for (size_t i = l->nnotes; i-- > 0;) {
			const struct group_entry *n = &l->notes[i];

			if (tags & 1u << n->tag && (n->tag != GROUP_IDEM || n->uid == uid) && strcmp(n->key, key) == 0)
				return n;
		}
	return NULL;
}

static bool find_chunk(const struct group_entry *n, uint64_t offset, struct chunk *ret)
{
	for (size_t i = 0; i < group_chunks(n); i++) {
		struct chunk c = group_chunk(n, i);

		if (offset >= c.offset && offset - c.offset < c.length) {
			*ret = c;
			return true;
		}
	}
	return false;
}

bool layer_chunk(const struct layer *l, const char *ref, uint64_t offset, struct chunk *ret)
{
	for (; l; l = l->older)
		for (size_t i = l->nnotes; i-- > 0;) {
			const struct group_entry *n = &l->notes[i];

			if (n->tag == GROUP_RANGE && strcmp(n->key, ref) == 0 && find_chunk(n, offset, ret))
				return true;
		}
	return false;
}
