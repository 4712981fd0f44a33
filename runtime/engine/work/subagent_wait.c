#include "runtime/engine/work/subagent_wait.h"

#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/work/subagent.h"
#include "runtime/engine/work/task_private.h"
#include "runtime/engine/work/work_state.h"
#include "runtime/view/view.h"
#include "runtime/view/view_subagent.h"

/* ---- waiting ---- */

static bool has_ended(struct engine *g, const char *id)
{
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc d;
	struct err e = ERR_INIT;

	/* Committed state only: a client that gets the reply can then read the end. */
	return view_read(g->o.store, &subagent_schema, id, &text, &d, &e) != 0 || subagent_doc_ended(&d);
}

static bool is_satisfied(struct engine *g, const struct subagent_waiter *w)
{
	size_t done = 0;

	for (size_t i = 0; i < w->count; i++)
		done += has_ended(g, w->ids[i]);
	return w->any ? done > 0 : done == w->count;
}

static void answer_waiter(struct engine *g, struct subagent_waiter *w, bool timed_out)
{
	buf_auto struct buf out = BUF_INIT, text = BUF_INIT;
	struct jw j = jw_on(&out);

	TAILQ_REMOVE(&g->work->subagents.waiters, w, link);
	jw_obj(&j);
	jw_karr(&j, "subagents");
	for (size_t i = 0; i < w->count; i++) {
		struct subagent_doc d;
		struct err e = ERR_INIT;

		if (view_read(g->o.store, &subagent_schema, w->ids[i], &text, &d, &e) == 0)
			subagent_json(&d, &j);
	}
	jw_arr_end(&j);
	jw_kbool(&j, "timedOut", timed_out);
	jw_obj_end(&j);
	reply_json(&w->reply, out.data, out.len);
	free(w);
}

static bool asks_for(const struct subagent_waiter *w, const char *id)
{
	for (size_t i = 0; i < w->count; i++)
		if (strcmp(w->ids[i], id) == 0)
			return true;
	return false;
}

/* Restarts the search after each reply, like the loops below: a reply may add or remove other waiters. */
static void waiters_answer(struct engine *g, const char *id)
{
	struct subagent_waiter *w;

	do {
		TAILQ_FOREACH (w, &g->work->subagents.waiters, link)
			if (asks_for(w, id) && is_satisfied(g, w))
				break;
		if (w)
			answer_waiter(g, w, false);
	} while (w);
}

void subagent_ended(struct engine *g, const char *id)
{
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc d;
	struct err e = ERR_INIT;

	waiters_answer(g, id);
	if (view_read_speculative(g->o.store, &subagent_schema, id, &text, &d, &e) == 0 && d.taskId[0])
		task_cancel_due(g, d.taskId);
}

static int take_ids(struct engine *g, const json_t *params, const struct caller *c, struct subagent_waiter *w,
		    struct err *e)
{
	const json_t *ids = json_object_get(params, "subagentIds"), *v;
	size_t i;

	if (json_array_size(ids) < 1 || json_array_size(ids) > SUBAGENT_WAIT_MAX)
		return err_field(e, "subagentIds", "must have 1 to %u ids", SUBAGENT_WAIT_MAX);
	json_array_foreach (ids, i, v) {
		const char *id = json_string_value(v);
		buf_auto struct buf text = BUF_INIT;
		struct subagent_doc d;
		int r = id_valid(id, strlen(id)) ? view_read_speculative(g->o.store, &subagent_schema, id, &text, &d, e)
						 : 1;

		if (r < 0)
			return -1;
		if (r > 0 || (c->uid != 0 && d.uid != c->uid)) {
			err_set(e, ERR_NOT_FOUND, "subagent '%.64s' is not known", id);
			snprintf(e->field, sizeof e->field, "subagentIds[%zu]", i);
			return -1;
		}
		id_copy(w->ids[w->count++], id);
	}
	return 0;
}

void engine_wait_subagents(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
			   void *ctx)
{
	const json_t *timeout = json_object_get(params, "timeoutMs");
	uint64_t ms = timeout ? (uint64_t)json_integer_value(timeout) : LIMIT_NONE;
	struct subagent_waiter *w = mem_zalloc(1, sizeof *w);
	struct err e = ERR_INIT;

	if (take_ids(g, params, c, w, &e) < 0) {
		free(w);
		fn(ctx, &e, NULL, 0);
		return;
	}
	/* The waiter outlives the request, so it copies the parts of the caller that the reply needs. */
	reply_copy(&w->reply, c, fn, ctx);
	w->uid = c->uid;
	w->any = json_is_true(json_object_get(params, "any"));
	w->deadline_ns = ms >= UINT64_MAX / 2000000 ? UINT64_MAX : engine_now(g) + ms * 1000000ull;
	TAILQ_INSERT_TAIL(&g->work->subagents.waiters, w, link);
	/* Added to the list first: answer_waiter removes it. */
	if (is_satisfied(g, w))
		answer_waiter(g, w, false);
	else if (w->deadline_ns != UINT64_MAX)
		engine_wake(g, w->deadline_ns);
}

uint64_t subagent_tick(struct engine *g, uint64_t now_ns)
{
	struct subagent_waiter *w;
	uint64_t soonest = UINT64_MAX;

	do {
		TAILQ_FOREACH (w, &g->work->subagents.waiters, link)
			if (now_ns >= w->deadline_ns)
				break;
		if (w)
			answer_waiter(g, w, true);
	} while (w);
	TAILQ_FOREACH (w, &g->work->subagents.waiters, link)
		if (w->deadline_ns < soonest)
			soonest = w->deadline_ns;
	return soonest;
}

static void reject_waiter(struct engine *g, struct subagent_waiter *w, const char *why)
{
	struct err e = ERR_INIT;

	err_set(&e, ERR_UNAVAILABLE, "%s", why);
	TAILQ_REMOVE(&g->work->subagents.waiters, w, link);
	reply_err(&w->reply, &e, NULL, 0);
	free(w);
}

void subagent_client_disconnected(struct engine *g, uint64_t connection)
{
	struct subagent_waiter *w;

	do {
		TAILQ_FOREACH (w, &g->work->subagents.waiters, link)
			if (w->reply.connection == connection)
				break;
		if (w)
			reject_waiter(g, w, "the client has gone");
	} while (w);
}

/* ---- input that comes before the process ---- */

void subagent_first_input(struct engine *g, const char *id, const char *text, bool eof)
{
	struct queued_input *n = mem_zalloc(1, sizeof *n);

	id_copy(n->id, id);
	n->text = mem_strdup(text);
	n->eof = eof;
	TAILQ_INSERT_TAIL(&g->work->subagents.inputs, n, link);
}

static void ignore_reply(void *ctx, const struct err *e, const char *json, size_t len) {}

void subagent_give_first_input(struct engine *g, const struct subagent_doc *d, const char *process_id)
{
	const struct caller c = { .uid = (uint32_t)d->uid, .role = ROLE_AGENT, .peer_fd = -1 };
	struct queued_input *n;

	/* In the order of arrival. An entry leaves the list before it is used; then the search starts again. */
	do {
		TAILQ_FOREACH (n, &g->work->subagents.inputs, link)
			if (strcmp(n->id, d->subagentId) == 0)
				break;
		if (n) {
			TAILQ_REMOVE(&g->work->subagents.inputs, n, link);
			if (*n->text)
				engine_write_stdin(g, process_id, n->text, strlen(n->text), &c, ignore_reply, NULL);
			if (n->eof)
				engine_close_stdin(g, process_id, &c, ignore_reply, NULL);
			free(n->text);
			free(n);
		}
	} while (n);
}

/* ---- steps after a commit ---- */

static void after_add(struct engine *g, const char *id, bool end)
{
	struct subagent_after *n = mem_zalloc(1, sizeof *n);

	id_copy(n->id, id);
	n->end = end;
	TAILQ_INSERT_TAIL(&g->work->subagents.after, n, link);
}

void subagent_end_after(struct engine *g, const char *id) { after_add(g, id, true); }

void subagent_answer_after(struct engine *g, const char *id) { after_add(g, id, false); }

/* Takes each entry off the list before acting on it, so that the list may change meanwhile. */
void subagent_run_after(struct engine *g, void (*end)(struct engine *g, const char *id))
{
	struct subagent_after *n;

	while ((n = TAILQ_FIRST(&g->work->subagents.after))) {
		TAILQ_REMOVE(&g->work->subagents.after, n, link);
		if (n->end)
			end(g, n->id);
		else
			subagent_ended(g, n->id);
		free(n);
	}
}

void subagent_done(struct engine *g)
{
	struct subagent_waiter *w;
	struct queued_input *n;
	struct subagent_after *a;

	while ((w = TAILQ_FIRST(&g->work->subagents.waiters)))
		reject_waiter(g, w, "the daemon is stopping");
	while ((n = TAILQ_FIRST(&g->work->subagents.inputs))) {
		TAILQ_REMOVE(&g->work->subagents.inputs, n, link);
		free(n->text);
		free(n);
	}
	while ((a = TAILQ_FIRST(&g->work->subagents.after))) {
		TAILQ_REMOVE(&g->work->subagents.after, a, link);
		free(a);
	}
}
