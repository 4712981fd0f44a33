/* rollback_thread, and the recovery of compactions and rollbacks after a restart. history.h describes both. */

#include "runtime/engine/turn/history.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/turn/history_private.h"
#include "runtime/view/view.h"
#include "runtime/view/view_subagent.h"

#define AFFECTED_MAX 100u
/* Bytes of ids in one rollback's facts: an event has at most EVENT_MAX bytes, and `affected` needs part of them. */
#define REMOVED_BYTES_MAX (24u << 10)

/* ---- a rollback in progress ---- */

/*
 * The part of a rollback that only memory holds: the waiting client, and the run whose files are being discarded. The
 * rest is in the log and is rebuilt from there.
 */
struct rollback {
	TAILQ_ENTRY(rollback) link;
	char thread_id[ID_SIZE];
	struct pending_reply reply; /* fn NULL: no client waits (found open after a restart) */
	char (*runs)[ID_SIZE];      /* copy-on-write processes, in the order in which they are discarded */
	size_t count, at;
	struct buf restored, kept; /* JSON arrays, open */
};

static struct rollback *rollback_new(struct engine *g, const char *thread_id)
{
	struct rollback *r = mem_zalloc(1, sizeof *r);

	id_copy(r->thread_id, thread_id);
	TAILQ_INSERT_TAIL(&g->turns->rollbacks, r, link);
	return r;
}

static void rollback_free(struct engine *g, struct rollback *r)
{
	TAILQ_REMOVE(&g->turns->rollbacks, r, link);
	reply_done(&r->reply);
	free(r->runs);
	buf_done(&r->restored);
	buf_done(&r->kept);
	free(r);
}

static struct rollback *rollback_of(struct engine *g, const char *thread_id)
{
	struct rollback *r;

	TAILQ_FOREACH (r, &g->turns->rollbacks, link)
		if (strcmp(r->thread_id, thread_id) == 0)
			return r;
	return NULL;
}

/* ---- what a rollback affects ---- */

/* Ids from an index with keys owner/id, up to `most`. */
struct gather {
	char (*ids)[ID_SIZE];
	size_t count, most;
};

static bool gather_member(void *ctx, const char *key, size_t key_len, const char *json, size_t len)
{
	const char *slash = memchr(key, '/', key_len);
	struct gather *w = ctx;

	if (slash && w->count < w->most) {
		w->ids = mem_realloc(w->ids, (w->count + 1) * ID_SIZE);
		snprintf(w->ids[w->count++], ID_SIZE, "%.*s", (int)(key + key_len - slash - 1), slash + 1);
	}
	return w->count < w->most;
}

static void gather_of(struct engine *g, enum view_kind kind, const char *owner, struct gather *w)
{
	mem_auto char *prefix = mem_printf("%s/", owner);
	struct err e = ERR_INIT;

	if (store_model_scan_speculative(g->o.store, kind, prefix, gather_member, w, &e) < 0)
		log_error("look for what a rollback affects: %s", e.message);
}

static void gather_write(struct jw *w, const char *key, const struct gather *found)
{
	jw_karr(w, key);
	for (size_t i = 0; i < found->count; i++)
		jw_str(w, found->ids[i]);
	jw_arr_end(w);
}

/* Subagents are indexed by thread, so they are filtered by the turn that spawned them. */
static void affected_subagents(struct engine *g, const struct history_scope *s, const struct history_turns *removed,
			       struct jw *w)
{
	struct gather all = { .most = SIZE_MAX };
	size_t n = 0;

	gather_of(g, VIEW_THREAD_SUBAGENT, s->thread_id, &all);
	jw_karr(w, "subagents");
	for (size_t i = 0; i < all.count && n < AFFECTED_MAX; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct subagent_doc d;
		struct err e = ERR_INIT;

		if (view_read_speculative(g->o.store, &subagent_schema, all.ids[i], &text, &d, &e) != 0)
			continue;
		for (size_t k = 0; k < removed->count; k++)
			if (strcmp(removed->ids[k], d.parentTurnId) == 0) {
				jw_str(w, all.ids[i]);
				n++;
				break;
			}
	}
	jw_arr_end(w);
	free(all.ids);
}

struct artifact_gather {
	const struct history_turns *removed;
	struct jw *w;
	size_t count;
};

/* Artifacts are indexed by session, so they are filtered by turn. */
static bool artifact_of(void *ctx, const char *key, size_t key_len, const char *json, size_t len)
{
	const char *slash = memchr(key, '/', key_len);
	struct artifact_gather *a = ctx;
	char turn[ID_SIZE];

	jval_str(jval_get(jval_of(json, len), "turnId"), turn, sizeof turn);
	for (size_t i = 0; slash && i < a->removed->count; i++)
		if (strcmp(a->removed->ids[i], turn) == 0) {
			jw_strn(a->w, slash + 1, (size_t)(key + key_len - slash - 1));
			a->count++;
			break;
		}
	return a->count < AFFECTED_MAX;
}

static void affected_json(struct engine *g, const struct history_scope *s, const struct history_turns *removed,
			  struct jw *w)
{
	struct gather calls = { .most = AFFECTED_MAX }, processes = { .most = AFFECTED_MAX };
	mem_auto char *prefix = mem_printf("%s/", s->session_id);
	struct artifact_gather artifacts = { .removed = removed, .w = w };
	struct err e = ERR_INIT;

	for (size_t i = 0; i < removed->count; i++) {
		gather_of(g, VIEW_TURN_TOOL_CALL, removed->ids[i], &calls);
		gather_of(g, VIEW_TURN_PROCESS, removed->ids[i], &processes);
	}
	jw_obj(w);
	gather_write(w, "toolCalls", &calls);
	gather_write(w, "processes", &processes);
	affected_subagents(g, s, removed, w);
	jw_karr(w, "artifacts");
	if (store_model_scan_speculative(g->o.store, VIEW_ARTIFACT, prefix, artifact_of, &artifacts, &e) < 0)
		log_error("look for artifacts: %s", e.message);
	jw_arr_end(w);
	jw_obj_end(w);
	free(calls.ids);
	free(processes.ids);
}

/* ---- running and completing a rollback ---- */

static void complete_rollback(struct engine *g, struct rollback *r)
{
	buf_auto struct buf text = BUF_INIT;
	struct history_doc d;
	struct err e = ERR_INIT;

	if (view_read_speculative(g->o.store, &history_schema, r->thread_id, &text, &d, &e) != 0) {
		rollback_free(g, r);
		return;
	}
	struct transaction *own = transaction_new_internal(g);
	static const char *const repaired[] = { "thread_read_model" }, *const stale[] = {
		"what clients built from the removed turns"
	};
	const struct scope s = { .uid = (uint32_t)d.uid, .session = d.sessionId, .thread = d.threadId };
	buf_byte(&r->restored, ']');
	buf_byte(&r->kept, ']');
	EMIT(history_rollback_completed, own, s, .envelope.status = "completed",
	     .baseline = JSON_OBJECT(turn_target, .turnId = d.targetTurnId),
	     .removedTurns = json_from_jval(d.removedTurns), .filesRestored = json_from_buf(&r->restored),
	     .notRestored = json_from_buf(&r->kept), .repaired = json_from_strings(repaired, 1));
	EMIT(snapshot_repaired, own, s, .kind = "thread_read_model", .stale = json_from_strings(stale, 1));
	EMIT(thread_updated, own, s, .envelope.status = "idle", .status = "idle", .previous = "idle",
	     .reason = "rolled_back");
	jw_kstr(&own->w, "threadId", d.threadId);
	jw_kstr(&own->w, "baselineTurnId", d.targetTurnId);
	jw_kraw(&own->w, "removedTurns", d.removedTurns.text, d.removedTurns.len);
	jw_kraw(&own->w, "filesRestored", r->restored.data, r->restored.len);
	jw_kraw(&own->w, "notRestored", r->kept.data, r->kept.len);
	if (r->reply.fn) {
		transaction_give_reply(own, &r->reply);
	}
	rollback_free(g, r);
	transaction_commit(own);
}

static void note_run(struct buf *list, const char *process_id, const char *reason)
{
	struct jw w = jw_on(list);

	if (list->len > 1)
		buf_byte(list, ',');
	jw_obj(&w);
	jw_kstr(&w, "processId", process_id);
	jw_kopt(&w, "reason", reason);
	jw_obj_end(&w);
}

/* Discards the next run's changes; completes the rollback after the last. */
static void discard_next(struct engine *g, struct rollback *r)
{
	while (r->at < r->count) {
		struct view_process_brief p;
		struct err e = ERR_INIT;

		buf_auto struct buf text = BUF_INIT;
		bool left = store_model_get(g->o.store, VIEW_COW_PROCESS, r->runs[r->at], &text, &e) == 0;

		if (left && view_process_brief(g->o.store, VIEW_ANY_UID, r->runs[r->at], &p, &e) == 0 &&
		    g->o.ports->discard_changes && g->o.ports->discard_changes(g->o.host, r->runs[r->at], p.uid) == 0)
			return; /* engine_on_discarded continues */
		note_run(&r->kept, r->runs[r->at++],
			 left ? "its changes cannot be reached" : "its changes were applied or discarded before");
	}
	complete_rollback(g, r);
}

void engine_on_discarded(struct engine *g, const char *process_id, const struct err *e)
{
	struct rollback *r;

	TAILQ_FOREACH (r, &g->turns->rollbacks, link)
		if (r->at < r->count && strcmp(r->runs[r->at], process_id) == 0) {
			note_run(e ? &r->kept : &r->restored, process_id, e ? e->message : NULL);
			r->at++;
			discard_next(g, r);
			return;
		}
}

/* Runs when history.rollback.started is durable, and after a restart that finds the rollback open. */
static void continue_rollback(struct engine *g, const char *thread_id)
{
	struct rollback *r = rollback_of(g, thread_id);
	struct gather processes = { .most = 10000 };
	buf_auto struct buf text = BUF_INIT;
	struct history_doc d;
	struct err e = ERR_INIT;

	if (!r)
		r = rollback_new(g, thread_id);
	buf_byte(&r->restored, '[');
	buf_byte(&r->kept, '[');
	if (view_read_speculative(g->o.store, &history_schema, thread_id, &text, &d, &e) != 0) {
		rollback_free(g, r);
		return;
	}
	for (struct jiter it = jiter_on(d.removedTurns); jiter_next(&it);) {
		char turn[ID_SIZE];

		jval_str(it.value, turn, sizeof turn);
		gather_of(g, VIEW_TURN_PROCESS, turn, &processes);
	}
	/* Newest first: undo in reverse order. */
	r->runs = mem_zalloc(processes.count + 1, ID_SIZE);
	for (size_t i = processes.count; i-- > 0;) {
		struct view_process_brief p;

		if (view_process_brief(g->o.store, VIEW_ANY_UID, processes.ids[i], &p, &e) != 0)
			continue;
		if (p.cow)
			memcpy(r->runs[r->count++], processes.ids[i], ID_SIZE);
		else if (p.started)
			note_run(&r->kept, processes.ids[i], "it ran without copy-on-write: what it wrote stays");
	}
	free(processes.ids);
	discard_next(g, r);
}

/* ---- rollback_thread ---- */

static int rollback_check(struct engine *g, const struct history_scope *s, const char *target,
			  const struct history_turns *turns, size_t *ret_first, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct history_doc doc;
	size_t at = 0;

	while (at < turns->count && strcmp(turns->ids[at], target) != 0)
		at++;
	if (at == turns->count) {
		err_set(e, ERR_NOT_FOUND, "toTurnId '%.64s' is not a turn of this thread", target);
		snprintf(e->field, sizeof e->field, "toTurnId");
		return -1;
	}
	/* A turn that was rolled back is no longer part of the history. */
	if (view_turn_rolled_back(g->o.store, s->thread_id, target))
		return err_field(e, "toTurnId", "was itself rolled back");
	if (s->active_turn[0])
		return err_set(e, ERR_STATE, "turn '%.64s' is active on the thread: interrupt it first",
			       s->active_turn);
	if (view_read_speculative(g->o.store, &history_schema, s->thread_id, &text, &doc, e) == 0 &&
	    strcmp(doc.rollback, "open") == 0)
		return err_set(e, ERR_STATE, "a rollback of this thread is under way");
	/* Turns in the queue have not ended either. */
	for (size_t i = at + 1; i < turns->count; i++) {
		struct view_turn_brief t;

		if (view_turn_brief(g->o.store, VIEW_ANY_UID, turns->ids[i], &t, e) == 0 && !t.ended)
			return err_set(e, ERR_STATE,
				       "turn '%.64s' has not ended: interrupt it, or remove it from the queue",
				       turns->ids[i]);
	}
	*ret_first = at + 1;
	return 0;
}

/*
 * Collects the turns that the rollback removes: all that follow the target and are still part of the history. A
 * rollback whose turns do not fit into the facts is rejected; the error names the turn to roll back to first.
 */
static int removed_turns(struct engine *g, const struct history_scope *s, const struct history_turns *turns,
			 size_t first, struct history_turns *ret, struct err *e)
{
	size_t bytes = 0;

	*ret = (struct history_turns){ .ids = mem_zalloc(turns->count + 1, ID_SIZE) };
	for (size_t i = turns->count; i-- > first;) {
		if (view_turn_rolled_back(g->o.store, s->thread_id, turns->ids[i]))
			continue;
		bytes += strlen(turns->ids[i]) + 3;
		if (bytes > REMOVED_BYTES_MAX)
			return err_field(e, "toTurnId",
					 "lies too far back to remove everything behind it at once: roll back to '%s' "
					 "first, then again",
					 turns->ids[i]);
		memcpy(ret->ids[ret->count++], turns->ids[i], ID_SIZE);
	}
	for (size_t a = 0, b = ret->count; a + 1 < b; a++) { /* oldest first */
		char id[ID_SIZE];

		memcpy(id, ret->ids[a], ID_SIZE);
		memcpy(ret->ids[a], ret->ids[--b], ID_SIZE);
		memcpy(ret->ids[b], id, ID_SIZE);
	}
	return 0;
}

void engine_rollback_thread(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
			    void *ctx)
{
	const char *target = json_string_value(json_object_get(params, "toTurnId")),
		   *reason = json_string_value(json_object_get(params, "reason"));
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	struct history_turns turns = { 0 }, removed = { 0 };
	const struct requester by = requester_of(c);
	struct history_scope s;
	struct err e = ERR_INIT;
	size_t first = 0;

	if (reason && strlen(reason) > 1024)
		err_field(&e, "reason", "must have at most 1024 bytes");
	else if (history_scope_of(g, params, c, &s, &e) == 0)
		history_turns_of(g, s.thread_id, &turns);
	if (e.code || rollback_check(g, &s, target, &turns, &first, &e) < 0) {
		history_turns_done(&turns);
		transaction_reject(tx, &e);
		return;
	}
	if (removed_turns(g, &s, &turns, first, &removed, &e) < 0) {
		history_turns_done(&turns);
		history_turns_done(&removed);
		transaction_reject(tx, &e);
		return;
	}
	const struct scope of = {
		.uid = s.uid, .session = s.session_id, .thread = s.thread_id, .request = c->request_id
	};
	buf_auto struct buf affected = BUF_INIT;
	struct jw w = jw_on(&affected);
	affected_json(g, &s, &removed, &w);
	EMIT(history_rollback_started, tx, of, .envelope.status = "running",
	     .target = JSON_OBJECT(turn_target, .turnId = target),
	     .removedTurns = json_from_ids(removed.ids, removed.count), .affected = json_from_buf(&affected),
	     .reason = reason, .by = json_requester(&by));
	if (!transaction_problem(tx)) { /* otherwise transaction_commit rejects the request */
		struct rollback *r = rollback_new(g, s.thread_id);

		transaction_take_reply(tx, &r->reply); /* sent when the rollback is complete */
		transaction_after_commit(tx, continue_rollback, s.thread_id);
	}
	transaction_commit(tx);
	history_turns_done(&turns);
	history_turns_done(&removed);
}

/* ---- time and restarts ---- */

static bool find_open(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct gather *w = ctx;

	w->ids = mem_realloc(w->ids, (w->count + 1) * ID_SIZE);
	snprintf(w->ids[w->count++], ID_SIZE, "%.*s", (int)id_len, id);
	return true;
}

static void fail_compaction(struct engine *g, const struct history_doc *doc, const char *reason)
{
	struct history_scope s = { .uid = (uint32_t)doc->uid };
	struct transaction *tx = transaction_new_internal(g);

	id_copy(s.session_id, doc->sessionId);
	id_copy(s.thread_id, doc->threadId);
	id_copy(s.fact_thread, doc->threadId);
	id_copy(s.fact_turn, doc->compactionTurnId);
	compaction_failed_fact(tx, &s, reason, true, NULL);
	transaction_commit(tx);
}

static uint64_t check_open_histories(struct engine *g, bool at_start)
{
	struct gather open = { 0 };
	struct err e = ERR_INIT;
	uint64_t now = g->o.ports->real_us(g->o.host), next = UINT64_MAX;

	if (store_model_scan_speculative(g->o.store, VIEW_OPEN_HISTORY, NULL, find_open, &open, &e) < 0)
		log_error("look for open compactions: %s", e.message);
	for (size_t i = 0; i < open.count; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct history_doc d;

		if (view_read_speculative(g->o.store, &history_schema, open.ids[i], &text, &d, &e) != 0)
			continue;
		if (strcmp(d.compaction, "open") == 0) {
			if (at_start)
				fail_compaction(g, &d, "the runtime was restarted before the summary came");
			else if (d.dueUs != VIEW_ABSENT && now >= d.dueUs)
				fail_compaction(g, &d, "no summary came in time");
			else if (d.dueUs != VIEW_ABSENT && d.dueUs - now < next)
				next = d.dueUs - now;
		}
		if (at_start && strcmp(d.rollback, "open") == 0)
			continue_rollback(g, open.ids[i]);
	}
	free(open.ids);
	return next;
}

void history_recover(struct engine *g)
{
	/* Deferred to the first tick: the host can discard files only when everything is running. */
	g->turns->history_found = true;
	engine_wake(g, engine_now(g));
}

uint64_t history_tick(struct engine *g, uint64_t now_ns)
{
	uint64_t us = check_open_histories(g, g->turns->history_found);

	g->turns->history_found = false;

	return us == UINT64_MAX ? UINT64_MAX : now_ns + us * 1000;
}

void history_done(struct engine *g)
{
	struct rollback *r;
	struct err e = ERR_INIT;

	err_set(&e, ERR_UNAVAILABLE, "the daemon is stopping; the rollback is finished at its next start");
	while ((r = TAILQ_FIRST(&g->turns->rollbacks))) {
		reply_err(&r->reply, &e, NULL, 0);
		rollback_free(g, r);
	}
}

void engine_window_loaded(struct engine *g, uint32_t uid, const char *session_id, const char *thread_id,
			  const char *cursor, uint64_t from, uint64_t to, bool truncated)
{
	struct transaction *tx = transaction_new_internal(g);

	const struct scope s = { .uid = uid, .session = session_id, .thread = thread_id };
	EMIT(history_window_loaded, tx, s, .cursor = json_from_string(cursor), .from = from, .to = to,
	     .truncated = truncated);
	transaction_commit(tx);
}
