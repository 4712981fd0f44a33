/* Clients that wait for subagents, and input that arrives before a process. */

#include "runtime/engine/work/subagent_private.h"
#include "runtime/view/view.h"

/* ---- waiting ---- */

static bool is_satisfied(struct engine *engine, const struct subagent_waiter *w)
{
	size_t ended = 0;

	/* Committed state only: a client that gets the reply can then read the end. */
	for (size_t i = 0; i < w->count; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct subagent_doc d;
		struct err e = ERR_INIT;

		ended += view_read(engine->o.store, &subagent_schema, w->ids[i], &text, &d, &e) != 0 ||
			 subagent_doc_ended(&d);
	}
	return w->any ? ended > 0 : ended == w->count;
}

/* The waiter leaves the list before the callback runs. */
static void answer_waiter(struct engine *engine, struct subagent_waiter *w, bool timed_out)
{
	buf_auto struct buf out = BUF_INIT, text = BUF_INIT;
	struct jw j = jw_on(&out);

	TAILQ_REMOVE(&engine->work->subagents.waiters, w, link);
	jw_obj(&j);
	jw_karr(&j, "subagents");
	for (size_t i = 0; i < w->count; i++) {
		struct subagent_doc d;
		struct err e = ERR_INIT;

		if (view_read(engine->o.store, &subagent_schema, w->ids[i], &text, &d, &e) == 0)
			subagent_json(&d, &j);
	}
	jw_arr_end(&j);
	jw_kbool(&j, "timedOut", timed_out);
	jw_obj_end(&j);
	reply_json(&w->reply, out.data, out.len);
	free(w);
}

/* Restarts the search after each reply, like the loops below: a reply may add or remove other waiters. */
void subagent_ended(struct engine *engine, const char *id)
{
	buf_auto struct buf text = BUF_INIT;
	struct subagent_waiter *w;
	struct subagent_doc d;
	struct err e = ERR_INIT;

	do {
		TAILQ_FOREACH (w, &engine->work->subagents.waiters, link)
			if (id_list_has(w->ids, w->count, id) && is_satisfied(engine, w))
				break;
		if (w)
			answer_waiter(engine, w, false);
	} while (w);
	if (view_read_speculative(engine->o.store, &subagent_schema, id, &text, &d, &e) == 0 && d.taskId[0])
		task_part_over(engine, d.taskId);
}

void engine_wait_subagents(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
			   void *ctx)
{
	const json_t *timeout = json_object_get(params, "timeoutMs"), *ids = json_object_get(params, "subagentIds");
	uint64_t ms = timeout ? (uint64_t)json_integer_value(timeout) : LIMIT_NONE;
	struct subagent_waiter *w = mem_zalloc(1, sizeof *w);
	struct err e = ERR_INIT;

	if (json_array_size(ids) < 1 || json_array_size(ids) > SUBAGENT_WAIT_MAX)
		err_field(&e, "subagentIds", "must have 1 to %u ids", SUBAGENT_WAIT_MAX);
	for (size_t i = 0; i < json_array_size(ids) && !e.code; i++) {
		const char *id = json_string_value(json_array_get(ids, i));
		buf_auto struct buf text = BUF_INIT;
		struct subagent_doc d;
		int r = id_valid(id, strlen(id))
				? view_read_speculative(engine->o.store, &subagent_schema, id, &text, &d, &e)
				: 1;

		if (r > 0 || (r == 0 && c->uid != 0 && d.uid != c->uid)) {
			mem_auto char *field = mem_printf("subagentIds[%zu]", i);

			err_not_known(&e, field, id);
		} else if (r == 0) {
			id_copy(w->ids[w->count++], id);
		}
	}
	if (e.code) {
		free(w);
		fn(ctx, &e, NULL, 0);
		return;
	}
	/* The waiter outlives the request, so it copies the parts of the caller that the reply needs. */
	reply_copy(&w->reply, c, fn, ctx);
	w->uid = c->uid;
	w->any = json_is_true(json_object_get(params, "any"));
	w->deadline_ns = ms >= UINT64_MAX / 2000000 ? UINT64_MAX : engine_now(engine) + ms * 1000000ull;
	TAILQ_INSERT_TAIL(&engine->work->subagents.waiters, w, link);
	/* Added to the list first: answer_waiter removes it. */
	if (is_satisfied(engine, w))
		answer_waiter(engine, w, false);
	else if (w->deadline_ns != UINT64_MAX)
		engine_wake(engine, w->deadline_ns);
}

uint64_t subagent_tick(struct engine *engine, uint64_t now_ns)
{
	struct subagent_waiter *w;
	uint64_t soonest = UINT64_MAX;

	do {
		TAILQ_FOREACH (w, &engine->work->subagents.waiters, link)
			if (now_ns >= w->deadline_ns)
				break;
		if (w)
			answer_waiter(engine, w, true);
	} while (w);
	TAILQ_FOREACH (w, &engine->work->subagents.waiters, link)
		if (w->deadline_ns < soonest)
			soonest = w->deadline_ns;
	return soonest;
}

static void reject_waiter(struct engine *engine, struct subagent_waiter *w, const char *why)
{
	struct err e = ERR_INIT;

	err_set(&e, ERR_UNAVAILABLE, "%s", why);
	TAILQ_REMOVE(&engine->work->subagents.waiters, w, link);
	reply_err(&w->reply, &e, NULL, 0);
	free(w);
}

void subagent_client_disconnected(struct engine *engine, uint64_t connection)
{
	struct subagent_waiter *w;

	do {
		TAILQ_FOREACH (w, &engine->work->subagents.waiters, link)
			if (w->reply.connection == connection)
				break;
		if (w)
			reject_waiter(engine, w, "the client has disconnected");
	} while (w);
}

/* ---- input that comes before the process ---- */

/*
 * In memory only. If the runtime dies before the start, subagent_recover fails the subagent instead of starting it
 * without its input.
 */
static void free_input(struct engine *engine, struct queued_input *n)
{
	TAILQ_REMOVE(&engine->work->subagents.inputs, n, link);
	free(n->text);
	free(n);
}

/* Also drops the input of subagents that will not start: they have ended, or could not be recorded. */
void subagent_first_input(struct engine *engine, const char *id, const char *text, bool eof)
{
	struct queued_input *old, *next;

	for (old = TAILQ_FIRST(&engine->work->subagents.inputs); old; old = next) {
		buf_auto struct buf doc = BUF_INIT;
		struct subagent_doc d;
		struct err e = ERR_INIT;
		const int r = view_read_speculative(engine->o.store, &subagent_schema, old->id, &doc, &d, &e);

		next = TAILQ_NEXT(old, link);
		if (strcmp(old->id, id) != 0 && (r > 0 || (r == 0 && subagent_doc_ended(&d))))
			free_input(engine, old);
	}
	struct queued_input *n = mem_zalloc(1, sizeof *n);

	id_copy(n->id, id);
	n->text = mem_strdup(text);
	n->eof = eof;
	TAILQ_INSERT_TAIL(&engine->work->subagents.inputs, n, link);
}

void subagent_forget_input(struct engine *engine, const char *id)
{
	struct queued_input *n, *next;

	for (n = TAILQ_FIRST(&engine->work->subagents.inputs); n; n = next) {
		next = TAILQ_NEXT(n, link);
		if (strcmp(n->id, id) == 0)
			free_input(engine, n);
	}
}

static void ignore_reply(void *ctx, const struct err *e, const char *json, size_t len)
{
	if (e)
		log_debug("input of a subagent: %s", e->message);
}

void subagent_write_input(struct engine *engine, const struct subagent_doc *d, const char *process_id,
			  const char *input, bool eof)
{
	const struct caller c = { .uid = (uint32_t)d->uid, .role = ROLE_AGENT, .peer_fd = -1 };

	if (*input)
		process_write_own(engine, process_id, input, strlen(input), &c, ignore_reply, NULL);
	if (eof)
		process_close_own(engine, process_id, &c, ignore_reply, NULL);
}

void subagent_give_first_input(struct engine *engine, const struct subagent_doc *d, const char *process_id)
{
	struct queued_input *n;

	/* In the order of arrival. An entry leaves the list before it is used; then the search starts again. */
	do {
		TAILQ_FOREACH (n, &engine->work->subagents.inputs, link)
			if (strcmp(n->id, d->subagentId) == 0)
				break;
		if (n) {
			TAILQ_REMOVE(&engine->work->subagents.inputs, n, link);
			subagent_write_input(engine, d, process_id, n->text, n->eof);
			free(n->text);
			free(n);
		}
	} while (n);
}

/* At shutdown every waiting client gets an error; the rest is repeated by recovery or dropped. */
void subagent_done(struct engine *engine)
{
	struct subagent_waiter *w;
	struct queued_input *n;

	while ((w = TAILQ_FIRST(&engine->work->subagents.waiters)))
		reject_waiter(engine, w, "the daemon is stopping");
	while ((n = TAILQ_FIRST(&engine->work->subagents.inputs)))
		free_input(engine, n);
}
