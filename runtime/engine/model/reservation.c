#include "runtime/engine/model/reservation.h"

#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"

/* As many as there are open requests: a list is enough. */
struct reservation_table {
	struct reservation *row;
	size_t count;
};

void reservation_init(struct engine *engine) { engine->reservations = mem_zalloc(1, sizeof *engine->reservations); }

void reservation_done(struct engine *engine)
{
	if (engine->reservations)
		free(engine->reservations->row);
	free(engine->reservations);
	engine->reservations = NULL;
}

static struct reservation *find_row(struct engine *engine, const char *request_id)
{
	struct reservation_table *t = engine->reservations;

	for (size_t i = 0; i < t->count; i++)
		if (strcmp(t->row[i].request_id, request_id) == 0)
			return &t->row[i];
	return NULL;
}

void reservation_set(struct engine *engine, const struct reservation *r)
{
	struct reservation_table *t = engine->reservations;
	struct reservation *row = find_row(engine, r->request_id);

	if (!row) {
		t->row = mem_realloc(t->row, (t->count + 1) * sizeof *t->row);
		row = &t->row[t->count++];
	}
	*row = *r;
}

void reservation_release(struct engine *engine, const char *request_id)
{
	struct reservation *row = find_row(engine, request_id);

	if (row)
		*row = engine->reservations->row[--engine->reservations->count];
}

void reservation_settle(struct engine *engine, const char *request_id, uint64_t micro_usd, uint64_t tokens)
{
	struct reservation *row = find_row(engine, request_id);

	if (!row)
		return;
	row->micro_usd = micro_usd;
	row->tokens = tokens;
}

struct reserved reservation_sum(struct engine *engine, uint32_t uid, const char *session_id, const char *turn_id)
{
	const struct reservation_table *t = engine->reservations;
	struct reserved sum = { 0 };

	for (size_t i = 0; i < t->count; i++) {
		const struct reservation *r = &t->row[i];

		if (r->uid != uid || (session_id && strcmp(r->session_id, session_id) != 0) ||
		    (turn_id && strcmp(r->turn_id, turn_id) != 0))
			continue;
		sum.micro_usd += r->micro_usd;
		sum.tokens += r->tokens;
	}
	return sum;
}

static void release_after(struct transaction *tx, const struct scope *s)
{
	if (s->model_request)
		transaction_after_commit(tx, reservation_release, s->model_request);
}

void reservation_on_completed(struct transaction *tx, const struct scope *s, const struct model_completed *p)
{
	release_after(tx, s);
}

void reservation_on_failed(struct transaction *tx, const struct scope *s, const struct model_failed *p)
{
	release_after(tx, s);
}
