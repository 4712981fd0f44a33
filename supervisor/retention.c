#include "supervisor/retention.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"
#include "supervisor/config.h"
#include "supervisor/snapshot_facts.h"

#define PROCESSES_AT_ONCE 16u /* a transaction stays small */
#define DAY_US (24ull * 60 * 60 * 1000000)

struct retention {
	struct store *store;
	uint64_t floor, idem_before_us;
	retention_done_fn done;
	void *ctx;
	struct retention_result result;
};

static void finish(struct retention *r, const struct err *e)
{
	r->done(r->ctx, &r->result, e);
	free(r);
}

static void on_pruned(void *ctx, uint64_t removed, const struct err *e)
{
	struct retention *r = ctx;

	r->result.events = removed;
	if (removed)
		snapshot_fact_stored(r->store, store_first_sequence(r->store));
	finish(r, e && e->code ? e : NULL);
}

/* ---- one batch of outputs ---- */

struct expiry {
	struct retention *retention;
	struct store_batch *batch;
	unsigned outputs;
	uint64_t bytes;
	struct err err;
};

static void write_payload(const struct view_expirable *x, uint64_t now_us, struct buf *out)
{
	char at[CLOCK_TEXT_MAX];
	struct jw w = jw_on(out);

	clock_format(now_us, at);
	jw_obj(&w);
	jw_kstr(&w, "outputRef", x->output_ref);
	jw_kuint(&w, "bytes", x->bytes);
	jw_kstr(&w, "policy", "retention");
	jw_kstr(&w, "expiredAt", at);
	jw_obj_end(&w);
}

static const char *or_null(const char *id)
{
	return *id ? id : NULL;
}

static bool on_expirable(void *ctx, const struct view_expirable *x)
{
	struct expiry *ex = ctx;
	buf_auto struct buf payload = BUF_INIT;
	struct event_draft d = { .type = EVENT_OUTPUT_EXPIRED, .uid = x->uid, .real_us = clock_real_us() };

	write_payload(x, d.real_us, &payload);
	d.ids[ID_SESSION] = x->session_id;
	d.ids[ID_THREAD] = or_null(x->thread_id);
	d.ids[ID_TURN] = or_null(x->turn_id);
	d.ids[ID_TASK] = or_null(x->task_id);
	d.ids[ID_PROCESS] = x->process_id;
	d.ids[ID_OUTPUT] = x->output_ref;
	d.payload = payload.data;
	d.payload_len = payload.len;
	if (store_batch_event(ex->batch, &d, &ex->err) < 0)
		return false;
	store_batch_expire_output(ex->batch, x->output_ref);
	ex->outputs++;
	ex->bytes += x->bytes;
	return true;
}

static void next(struct retention *r);

static void on_expired(void *ctx, const struct store_result *result)
{
	struct retention *r = ctx;

	if (result->status < 0)
		finish(r, result->err);
	else
		next(r);
}

/* Expires some outputs; when none are left, prunes. */
static void next(struct retention *r)
{
	struct expiry ex = { .retention = r, .batch = store_batch_new(r->store) };

	if (view_expirable_outputs(r->store, r->floor, PROCESSES_AT_ONCE, on_expirable, &ex, &ex.err) < 0 || ex.err.code) {
		store_batch_free(ex.batch);
		err_wrap(&ex.err, "expire outputs");
		finish(r, &ex.err);
		return;
	}
	if (!ex.outputs) {
		store_batch_free(ex.batch);
		store_prune(r->store, r->floor, r->idem_before_us, on_pruned, r);
		return;
	}
	r->result.outputs += ex.outputs;
	r->result.bytes += ex.bytes;
	/* Removing must work on a full disk too. */
	store_submit(r->store, ex.batch, STORE_MUST, on_expired, r);
}

void retention_run(struct store *s, uint64_t floor, uint64_t idem_before_us, retention_done_fn done, void *ctx)
{
	struct retention *r = mem_zalloc(1, sizeof(*r));

	r->store = s;
	r->floor = floor;
	r->idem_before_us = idem_before_us;
	r->done = done;
	r->ctx = ctx;
	next(r);
}

/* ---- what the configuration asks for ---- */

static uint64_t before_days(uint64_t now_us, uint64_t days)
{
	return now_us > days * DAY_US ? now_us - days * DAY_US : 0;
}

int retention_floor(struct store *s, const struct config *c, uint64_t now_us, uint64_t *ret, struct err *e)
{
	uint64_t last = store_last_sequence(s), floor = 0, by_age = 0;

	if (c->retain_days && store_sequence_at(s, before_days(now_us, c->retain_days), &by_age, e) < 0)
		return err_wrap(e, "find what is older than %llu days", (unsigned long long)c->retain_days);
	if (c->retain_events && last > c->retain_events)
		floor = last - c->retain_events + 1;
	if (by_age > floor)
		floor = by_age;
	*ret = floor > store_first_sequence(s) ? floor : 0;
	return 0;
}

uint64_t retention_idem_before(const struct config *c, uint64_t now_us)
{
	return before_days(now_us, c->idem_keep_days);
}
