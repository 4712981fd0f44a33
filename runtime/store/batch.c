#include "runtime/store/batch.h"

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/store/idempotency_records.h"
#include "runtime/store/store_private.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The number of puts of a projection is not known yet; most events change a few documents. */
#define WEIGHT_PROJECTION 4

struct store_batch *store_batch_new(struct store *store)
{
	struct store_batch *b = mem_zalloc(1, sizeof(*b));

	b->store = store;
	return b;
}

/* Closes the duplicated spool descriptors, too. */
void store_batch_free(struct store_batch *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->nranges; i++) {
		fd_close(&b->ranges[i].fd);
		free(b->ranges[i].chunks);
	}
	for (size_t i = 0; i < b->nitems; i++) {
		free(b->items[i].key);
		buf_done(&b->items[i].value);
	}
	free(b->ranges);
	free(b->items);
	free(b->events);
	buf_done(&b->records);
	free(b);
}

/* Grows an array if it is full. */
static void *grow_array(void *array, size_t count, size_t *cap, size_t size)
{
	if (count < *cap)
		return array;
	*cap = *cap ? *cap * 2 : 4;
	return mem_realloc(array, *cap * size);
}

const struct err *store_batch_problem(const struct store_batch *b) { return b->problem.code ? &b->problem : NULL; }

/* An event that cannot be encoded leaves the batch as it was. */
static int add_event(struct store_batch *b, const struct event_draft *d, struct err *e)
{
	struct event_draft timed = *d;
	size_t before = b->records.len;

	if (!timed.real_us && b->store->real_us)
		timed.real_us = b->store->real_us(b->store->clock);
	if (b->nevents >= BATCH_EVENTS_MAX)
		return err_set(e, ERR_EXHAUSTED, "more than %d events in one batch", BATCH_EVENTS_MAX);
	if (event_encode(&b->store->env, &timed, &b->records, e) != 0) {
		b->records.len = before;
		return -1;
	}
	b->events = grow_array(b->events, b->nevents, &b->events_cap, sizeof(*b->events));
	b->events[b->nevents++] = (struct batch_event){
		.offset = (uint32_t)before,
		.length = (uint32_t)(b->records.len - before),
		.payload = d->payload ? (uint32_t)(b->records.len - before - d->payload_len - 1) : 0,
	};
	b->weight += 1 + WEIGHT_PROJECTION;
	for (int f = 0; f < ID_FIELD_COUNT; f++)
		b->weight += d->ids[f] && id_field_indexed((enum id_field)f);
	if (event_info(d->type)->class == EVENT_NOW)
		b->now = true;
	return 0;
}

int store_batch_event(struct store_batch *b, const struct event_draft *d, struct err *e)
{
	int r = add_event(b, d, e);

	if (r < 0 && !b->problem.code)
		b->problem = *e;
	return r;
}

/* The descriptor is duplicated: the caller may close its own before the writer syncs the bytes. */
void store_batch_spool(struct store_batch *b, const char *output_ref, int fd, uint64_t offset, uint64_t length)
{
	struct batch_range *r;
	size_t n = strlen(output_ref);

	if (n >= BATCH_REF_MAX)
		abort(); /* refs are ids, which are shorter */
	if (length == 0)
		return;
	b->ranges = grow_array(b->ranges, b->nranges, &b->ranges_cap, sizeof(*b->ranges));
	r = &b->ranges[b->nranges++];
	*r = (struct batch_range){ .offset = offset, .length = length };
	memcpy(r->ref, output_ref, n + 1);
	/* −1 if there are no descriptors left; the writer then opens the file by name */
	r->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	b->weight += 1 + (unsigned)(length >> 18);
}

static struct batch_item *add_item(struct store_batch *b, enum batch_item_kind kind, const char *key)
{
	struct batch_item *it;

	b->items = grow_array(b->items, b->nitems, &b->items_cap, sizeof(*b->items));
	it = &b->items[b->nitems++];
	*it = (struct batch_item){ .kind = kind, .key = mem_strdup(key) };
	b->weight += 2;
	return it;
}

void store_batch_inline(struct store_batch *b, const char *output_ref, const void *p, size_t n)
{
	struct batch_item *it = add_item(b, ITEM_INLINE, output_ref);

	buf_byte(&it->value, 0);
	buf_append(&it->value, p, n);
}

void store_batch_expire_output(struct store_batch *b, const char *output_ref) { add_item(b, ITEM_EXPIRE, output_ref); }

void store_batch_meta(struct store_batch *b, const char *key, const void *p, size_t n)
{
	struct batch_item *it = add_item(b, ITEM_META, key);

	buf_append(&it->value, p, n);
}

void store_batch_idempotency(struct store_batch *b, uint32_t uid, const char *key, const char *method,
			     const uint8_t body_hash[32], const char *result_json, size_t n)
{
	struct batch_item *it = add_item(b, ITEM_IDEM, key);

	it->uid = uid;
	it->real_us = clock_real_us();
	idempotency_record_encode(&it->value, it->real_us, method, body_hash, result_json, n);
}

void batch_reject(struct store_batch *b, const struct err *why)
{
	b->status = -1;
	b->err = *why;
	if (why->code != ERR_SYS)
		return;
	b->err.code = ERR_UNAVAILABLE;
	err_wrap(&b->err, "the store's disk failed");
}
