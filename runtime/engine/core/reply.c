/* Pending replies, and copies of callers. */

#include "runtime/engine/core/reply.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"

#include <fcntl.h>

void reply_copy(struct pending_reply *r, const struct caller *c, engine_reply_fn fn, void *ctx)
{
	*r = (struct pending_reply){
		.fn = fn,
		.ctx = ctx,
		.connection = c->connection,
		.uid = c->uid,
		.idem_key = mem_strdup(c->idem_key),
		.idem_method = c->idem_key ? mem_strdup(c->idem_method) : NULL,
		.request_id = mem_strdup(c->request_id),
	};
	memcpy(r->idem_hash, c->idem_hash, sizeof r->idem_hash);
}

void reply_done(struct pending_reply *r)
{
	free(r->idem_key);
	free(r->idem_method);
	free(r->request_id);
	*r = (struct pending_reply){ 0 };
}

void reply_json(struct pending_reply *r, const char *json, size_t len)
{
	struct pending_reply given = *r;

	*r = (struct pending_reply){ 0 };
	if (given.fn)
		given.fn(given.ctx, NULL, json, len);
	reply_done(&given);
}

void reply_err(struct pending_reply *r, const struct err *e, const char *data, size_t len)
{
	struct pending_reply given = *r;

	*r = (struct pending_reply){ 0 };
	if (given.fn)
		given.fn(given.ctx, e, data, len);
	reply_done(&given);
}

struct reply_context {
	LIST_ENTRY(reply_context) link;
	max_align_t memory[];
};

void *reply_context_new(struct engine *engine, size_t size)
{
	struct reply_context *x = mem_zalloc(1, sizeof *x + size);

	LIST_INSERT_HEAD(&engine->reply_contexts, x, link);
	return x->memory;
}

void reply_context_free(void *ctx)
{
	struct reply_context *x = (void *)((char *)ctx - offsetof(struct reply_context, memory));

	LIST_REMOVE(x, link);
	free(x);
}

void reply_contexts_done(struct engine *engine)
{
	while (!LIST_EMPTY(&engine->reply_contexts))
		reply_context_free(LIST_FIRST(&engine->reply_contexts)->memory);
}

void reply_error_record(const struct err *e, const char *data, size_t len, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kobj(&w, "$error");
	jw_kstr(&w, "code", err_code_name(e->code));
	jw_kstr(&w, "message", e->message);
	if (e->field[0])
		jw_kstr(&w, "field", e->field);
	jw_kopt(&w, "reason", err_reason_name(e->reason));
	jw_key(&w, "data");
	buf_byte(out, '{');
	buf_append(out, data ? data : "", data ? len : 0);
	buf_byte(out, '}');
	w.need_comma = true;
	jw_obj_end(&w);
	jw_obj_end(&w);
}

void caller_copy(struct caller *ret, const struct caller *c)
{
	*ret = *c;
	ret->request_id = mem_strdup(c->request_id);
	ret->trace_id = mem_strdup(c->trace_id);
	ret->span_id = mem_strdup(c->span_id);
	ret->channel_id = mem_strdup(c->channel_id);
	ret->idem_key = mem_strdup(c->idem_key);
	ret->idem_method = mem_strdup(c->idem_method);
	ret->peer_fd = c->peer_fd < 0 ? -1 : fcntl(c->peer_fd, F_DUPFD_CLOEXEC, 3);
}

static void free_text(const char *s) { free((void *)(uintptr_t)s); }

void caller_done(struct caller *c)
{
	free_text(c->request_id);
	free_text(c->trace_id);
	free_text(c->span_id);
	free_text(c->channel_id);
	free_text(c->idem_key);
	free_text(c->idem_method);
	fd_close(&c->peer_fd);
}
