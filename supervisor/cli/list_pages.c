#include "supervisor/cli/list_pages.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "supervisor/cli/cli.h"
#include "supervisor/client/remote.h"

#define PAGE 500

static int fetch_pages(struct cli *c, const char *method, const char *member, bool live_only, bool helpers,
		       list_pages_fn fn, void *ctx, struct err *e)
{
	char cursor[128] = "";

	do {
		buf_auto struct buf params = BUF_INIT;
		remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
		struct jw w = jw_on(&params);

		jw_obj(&w);
		jw_kuint(&w, "limit", PAGE);
		if (live_only)
			jw_kbool(&w, "liveOnly", true);
		if (!helpers)
			jw_kbool(&w, "helpers", false);
		if (cursor[0])
			jw_kstr(&w, "cursor", cursor);
		jw_obj_end(&w);
		if (cli_call(c, method, &params, &a, e) < 0)
			return -1;
		for (struct jiter it = jiter_on(jval_get(a.result, member)); jiter_next(&it);)
			fn(ctx, it.value);
		jval_str(jval_get(a.result, "nextCursor"), cursor, sizeof(cursor));
	} while (cursor[0]);
	return 0;
}

int list_pages_processes(struct cli *c, bool live_only, bool helpers, list_pages_fn fn, void *ctx, struct err *e)
{
	return fetch_pages(c, "list_processes", "processes", live_only, helpers, fn, ctx, e);
}

int list_pages(struct cli *c, const char *method, const char *member, bool live_only, list_pages_fn fn, void *ctx,
	       struct err *e)
{
	return fetch_pages(c, method, member, live_only, true, fn, ctx, e);
}

int list_pages_sessions(struct cli *c, list_pages_fn fn, void *ctx, struct err *e)
{
	return fetch_pages(c, "list_sessions", "sessions", false, true, fn, ctx, e);
}

/* Stops when a page does not advance: a daemon that reports hasMore without progress must not make it loop. */
int list_pages_events(struct cli *c, const struct buf *filter, uint64_t *sequence,
		      bool (*fn)(void *ctx, struct jval event), void *ctx, struct err *e)
{
	for (;;) {
		buf_auto struct buf params = BUF_INIT;
		remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
		uint64_t before = *sequence;

		buf_printf(&params, "{\"limit\":%d", PAGE);
		if (*sequence)
			buf_printf(&params, ",\"afterSequence\":%llu", (unsigned long long)*sequence);
		if (filter->len)
			buf_printf(&params, ",%s", filter->data);
		buf_byte(&params, '}');
		if (cli_call(c, "list_events", &params, &a, e) < 0)
			return -1;
		for (struct jiter it = jiter_on(jval_get(a.result, "events")); jiter_next(&it);) {
			*sequence = jval_uint(jval_get(it.value, "sequence"), *sequence);
			if (!fn(ctx, it.value))
				return 0;
		}
		/* A page without matches still reports how far it searched. */
		uint64_t looked = jval_uint(jval_get(a.result, "lastSequence"), 0);
		if (!jval_bool(jval_get(a.result, "hasMore"), false))
			return 0;
		if (*sequence == before && looked > before)
			*sequence = looked;
		if (*sequence == before)
			return 0;
	}
}
