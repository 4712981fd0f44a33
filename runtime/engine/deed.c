#include "runtime/engine/deed.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/engine_private.h"

static struct deed *deed_make(struct engine *g)
{
	struct deed *d = mem_zalloc(1, sizeof *d);

	d->engine = g;
	d->batch = store_batch_new(g->o.store);
	d->w = jw_on(&d->result);
	jw_obj(&d->w);
	return d;
}

struct deed *deed_new(struct engine *g, const struct caller *c, engine_reply_fn fn, void *ctx)
{
	struct deed *d = deed_make(g);

	d->caller = *c;
	reply_keep(&d->reply, c, fn, ctx);
	return d;
}

struct deed *deed_own(struct engine *g)
{
	struct deed *d = deed_make(g);

	d->caller = (struct caller){ .uid = g->o.owner_uid, .role = ROLE_OPERATOR, .peer_fd = -1 };
	d->flags = STORE_MUST;
	return d;
}

static void deed_free(struct deed *d)
{
	store_batch_free(d->batch);
	reply_done(&d->reply);
	buf_done(&d->result);
	free(d->then);
	free(d);
}

void deed_then(struct deed *d, deed_then_fn fn, const char *id)
{
	d->then = mem_realloc(d->then, (d->nthen + 1) * sizeof *d->then);
	d->then[d->nthen].fn = fn;
	snprintf(d->then[d->nthen++].id, ID_ROOM, "%s", id);
}

void deed_refuse_data(struct deed *d, const struct err *e, const char *data, size_t len)
{
	if (!d->reply.fn)
		log_error("%s", e->message);
	reply_err(&d->reply, e, data, len);
	deed_free(d);
}

void deed_refuse(struct deed *d, const struct err *e) { deed_refuse_data(d, e, NULL, 0); }

void deed_take_reply(struct deed *d, struct pending_reply *ret)
{
	*ret = d->reply;
	d->reply = (struct pending_reply){ 0 };
}

static void on_decided(void *ctx, const struct store_result *r)
{
	struct deed *d = ctx;

	d->batch = NULL;
	if (r->status < 0) {
		if (!d->reply.fn)
			log_error("record: %s", r->err->message);
		reply_err(&d->reply, r->err, NULL, 0);
		deed_free(d);
		return;
	}
	for (size_t i = 0; i < d->nthen; i++)
		d->then[i].fn(d->engine, d->then[i].id);
	if (r->last_sequence)
		jw_kuint(&d->w, "sequence", r->last_sequence);
	jw_obj_end(&d->w);
	reply_json(&d->reply, d->result.data, d->result.len);
	deed_free(d);
}

void deed_commit(struct deed *d)
{
	struct store_batch *b = d->batch;
	const struct err *problem = store_batch_problem(b);

	/* All or nothing: a request that cannot be written down whole has no effect. What the engine found must be told
	 * as far as it can. */
	if (problem && d->reply.fn) {
		struct err e = *problem;

		err_wrap(&e, "write it down");
		deed_refuse(d, &e);
		return;
	}

	if (d->reply.idem_key) {
		buf_auto struct buf kept = BUF_INIT;

		buf_append(&kept, d->result.data, d->result.len);
		buf_byte(&kept, '}');
		reply_remember(&d->reply, b, kept.data, kept.len);
	}
	d->batch = NULL;
	store_submit(d->engine->o.store, b, d->flags, on_decided, d);
}
