#include "runtime/store/ring.h"

#include "runtime/base/mem.h"

static struct ring_part *part_at(const struct ring *r, size_t i) { return &r->parts[(r->head + i) % r->cap]; }

/* The capacity and not the length of the records: it is what the memory limit is about. */
static size_t part_bytes(const struct ring_part *p)
{
	return sizeof(*p) + p->records.cap + p->count * sizeof(*p->events);
}

static void drop_first(struct ring *r)
{
	struct ring_part *p = part_at(r, 0);

	r->bytes -= part_bytes(p);
	free(p->events);
	buf_done(&p->records);
	r->head = (r->head + 1) % r->cap;
	r->count--;
}

void ring_done(struct ring *r)
{
	while (r->count)
		drop_first(r);
	free(r->parts);
	*r = (struct ring){ 0 };
}

static void double_cap(struct ring *r)
{
	size_t cap = r->cap ? r->cap * 2 : 64;
	struct ring_part *parts = mem_zalloc(cap, sizeof(*parts));

	for (size_t i = 0; i < r->count; i++)
		parts[i] = *part_at(r, i);
	free(r->parts);
	r->parts = parts;
	r->head = 0;
	r->cap = cap;
}

static uint64_t last_of(const struct ring_part *p) { return p->first + p->count - 1; }

/* Takes the records and not copies: the batch is freed right after its dispatch. */
void ring_push(struct ring *r, struct store_batch *b, uint64_t settled)
{
	struct ring_part *p;

	if (b->nevents == 0)
		return;
	if (r->count == r->cap)
		double_cap(r);
	p = part_at(r, r->count++);
	*p = (struct ring_part){
		.first = b->first_sequence,
		.count = b->nevents,
		.events = mem_realloc(mem_take(&b->events), b->nevents * sizeof(*b->events)),
		.records = b->records,
	};
	b->records = BUF_INIT;
	b->nevents = b->events_cap = 0;
	r->bytes += part_bytes(p);
	/* keep the newest part, however large: the range must end at the last sequence */
	while (r->bytes > RING_BYTES_MAX && r->count > 1 && last_of(part_at(r, 0)) <= settled)
		drop_first(r);
}

uint64_t ring_first(const struct ring *r) { return r->count ? part_at(r, 0)->first : 0; }

const void *ring_get(const struct ring *r, uint64_t sequence, size_t *ret_len)
{
	size_t lo = 0, hi = r->count;

	if (r->count == 0 || sequence < ring_first(r))
		return NULL;
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (part_at(r, mid)->first <= sequence)
			lo = mid;
		else
			hi = mid;
	}
	const struct ring_part *p = part_at(r, lo);
	if (sequence - p->first >= p->count)
		return NULL;
	const struct batch_event *ev = &p->events[sequence - p->first];
	*ret_len = ev->length;
	return p->records.data + ev->offset;
}
