/* rollback_thread, and the recovery of compactions and rollbacks after a restart. turn.h describes both. */

#include "runtime/base/log.h"
#include "runtime/engine/turn/turn_private.h"
#include "runtime/view/view.h"
#include "runtime/view/view_history.h"
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

static struct rollback *rollback_new(struct engine *engine, const char *thread_id)
{
	struct rollback *r = mem_zalloc(1, sizeof *r);

	id_copy(r->thread_id, thread_id);
	TAILQ_INSERT_TAIL(&engine->turns->rollbacks, r, link);
	return r;
}

static void rollback_free(struct engine *engine, struct rollback *r)
{
	TAILQ_REMOVE(&engine->turns->rollbacks, r, link);
	reply_done(&r->reply);
	free(r->runs);
	buf_done(&r->restored);
	buf_done(&r->kept);
	free(r);
}

/* ---- what a rollback affects ---- */

struct artifact_gather {
	const struct view_ids *removed;
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
	if (slash && id_list_has(a->removed->id, a->removed->n, turn)) {
		jw_strn(a->w, slash + 1, (size_t)(key + key_len - slash - 1));
		a->count++;
	}
	return a->count < AFFECTED_MAX;
}

/* Jobs belong to tasks, and these to the turn that created them. */
static void affected_jobs(struct engine *engine, const char *thread_id, const struct view_ids *removed, struct jw *w)
{
	view_ids_auto struct view_ids tasks = VIEW_IDS_INIT;
	size_t n = 0;

	id_list_read(engine, VIEW_THREAD_TASK, thread_id, ID_LIST_ALL, &tasks);
	jw_karr(w, "jobs");
	for (size_t i = 0; i < tasks.n && n < AFFECTED_MAX; i++) {
		view_ids_auto struct view_ids jobs = VIEW_IDS_INIT;
		buf_auto struct buf text = BUF_INIT;
		struct task_doc d;
		struct err e = ERR_INIT;

		if (view_read_speculative(engine->o.store, &task_schema, tasks.id[i], &text, &d, &e) != 0 ||
		    !id_list_has(removed->id, removed->n, d.turnId))
			continue;
		id_list_read(engine, VIEW_TASK_JOB, tasks.id[i], AFFECTED_MAX - n, &jobs);
		n += jobs.n;
		for (size_t k = 0; k < jobs.n; k++)
			jw_str(w, jobs.id[k]);
	}
	jw_arr_end(w);
}

/* The ids of what the removed turns did, at most AFFECTED_MAX of each kind. */
static void affected_json(struct engine *engine, const struct history_scope *s, const struct view_ids *removed,
			  struct jw *w)
{
	static const struct {
		const char *key;
		enum view_kind kind;
	} of_turn[] = { { "toolCalls", VIEW_TURN_TOOL_CALL }, { "processes", VIEW_TURN_PROCESS } };
	view_ids_auto struct view_ids subagents = VIEW_IDS_INIT;
	mem_auto char *prefix = mem_printf("%s/", s->session_id);
	struct artifact_gather artifacts = { .removed = removed, .w = w };
	struct err e = ERR_INIT;
	size_t n = 0;

	jw_obj(w);
	for (size_t k = 0; k < countof(of_turn); k++) {
		jw_karr(w, of_turn[k].key);
		n = 0;
		for (size_t i = 0; i < removed->n && n < AFFECTED_MAX; i++) {
			view_ids_auto struct view_ids ids = VIEW_IDS_INIT;

			id_list_read(engine, of_turn[k].kind, removed->id[i], AFFECTED_MAX - n, &ids);
			n += ids.n;
			for (size_t m = 0; m < ids.n; m++)
				jw_str(w, ids.id[m]);
		}
		jw_arr_end(w);
	}
	/* Subagents are indexed by thread, so they are filtered by the turn that spawned them. */
	id_list_read(engine, VIEW_THREAD_SUBAGENT, s->thread_id, ID_LIST_ALL, &subagents);
	jw_karr(w, "subagents");
	n = 0;
	for (size_t i = 0; i < subagents.n && n < AFFECTED_MAX; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct subagent_doc d;

		if (view_read_speculative(engine->o.store, &subagent_schema, subagents.id[i], &text, &d, &e) != 0 ||
		    !id_list_has(removed->id, removed->n, d.parentTurnId))
			continue;
		jw_str(w, subagents.id[i]);
		n++;
	}
	jw_arr_end(w);
	affected_jobs(engine, s->thread_id, removed, w);
	jw_karr(w, "artifacts");
	if (store_model_scan_speculative(engine->o.store, VIEW_ARTIFACT, prefix, artifact_of, &artifacts, &e) < 0)
		log_error("list the artifacts of session %s: %s", s->session_id, e.message);
	jw_arr_end(w);
	jw_obj_end(w);
}

/* ---- running and completing a rollback ---- */

static void reverse_ids(char (*ids)[ID_SIZE], size_t n)
{
	for (size_t a = 0; a + 1 < n; a++) {
		char id[ID_SIZE];

		memcpy(id, ids[a], ID_SIZE);
		memcpy(ids[a], ids[--n], ID_SIZE);
		memcpy(ids[n], id, ID_SIZE);
	}
}

/* Appends to a JSON array that is still open; the bracket follows when the rollback is complete. */
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
static void discard_next(struct engine *engine, struct rollback *r)
{
	static const char *const repaired[] = { "thread_read_model" };
	static const char *const stale[] = { "what clients built from the removed turns" };
	buf_auto struct buf text = BUF_INIT;
	struct history_doc d;
	struct err e = ERR_INIT;

	while (r->at < r->count) {
		struct view_process_brief p;
		buf_auto struct buf run = BUF_INIT;
		bool left = store_model_get(engine->o.store, VIEW_COW_PROCESS, r->runs[r->at], &run, &e) == 0;

		if (left && view_process_brief(engine->o.store, VIEW_ANY_UID, r->runs[r->at], &p, &e) == 0 &&
		    engine->o.ports->discard_changes &&
		    engine->o.ports->discard_changes(engine->o.host, r->runs[r->at], p.uid) == 0)
			return; /* engine_on_discarded continues */
		note_run(&r->kept, r->runs[r->at++],
			 left ? "its changes cannot be reached" : "its changes were applied or discarded before");
	}
	if (view_read_speculative(engine->o.store, &history_schema, r->thread_id, &text, &d, &e) != 0)
		return rollback_free(engine, r);
	struct transaction *own = transaction_new_internal(engine);
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
	if (r->reply.fn) /* none after a restart: no client waits */
		transaction_give_reply(own, &r->reply);
	rollback_free(engine, r);
	transaction_commit(own);
}

/* A process belongs to one rollback at most: turns that were rolled back are not rolled back again. */
void engine_on_discarded(struct engine *engine, const char *process_id, const struct err *e)
{
	struct rollback *r;

	TAILQ_FOREACH (r, &engine->turns->rollbacks, link)
		if (r->at < r->count && strcmp(r->runs[r->at], process_id) == 0) {
			note_run(e ? &r->kept : &r->restored, process_id, e ? e->message : NULL);
			r->at++;
			discard_next(engine, r);
			return;
		}
}

/* Runs when history.rollback.started is durable, and after a restart that finds the rollback open. */
static void continue_rollback(struct engine *engine, const char *thread_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct history_doc d;
	struct rollback *r;
	struct err e = ERR_INIT;

	TAILQ_FOREACH (r, &engine->turns->rollbacks, link)
		if (strcmp(r->thread_id, thread_id) == 0)
			break;
	if (!r)
		r = rollback_new(engine, thread_id);
	buf_byte(&r->restored, '[');
	buf_byte(&r->kept, '[');
	if (view_read_speculative(engine->o.store, &history_schema, thread_id, &text, &d, &e) != 0)
		return rollback_free(engine, r);
	for (struct jiter it = jiter_on(d.removedTurns); jiter_next(&it);) {
		view_ids_auto struct view_ids processes = VIEW_IDS_INIT;
		char turn[ID_SIZE];

		jval_str(it.value, turn, sizeof turn);
		id_list_read(engine, VIEW_TURN_PROCESS, turn, ID_LIST_ALL, &processes);
		r->runs = mem_realloc(r->runs, (r->count + processes.n + 1) * sizeof r->runs[0]);
		for (size_t i = 0; i < processes.n; i++)
			id_copy(r->runs[r->count++], processes.id[i]);
	}
	/* Newest first: undo in reverse order. Only copy-on-write runs can be undone. */
	reverse_ids(r->runs, r->count);
	size_t kept = 0;
	for (size_t i = 0; i < r->count; i++) {
		struct view_process_brief p;

		if (view_process_brief(engine->o.store, VIEW_ANY_UID, r->runs[i], &p, &e) != 0)
			continue;
		if (p.cow)
			memmove(r->runs[kept++], r->runs[i], ID_SIZE);
		else if (p.started)
			note_run(&r->kept, r->runs[i], "it ran without copy-on-write: what it wrote stays");
	}
	r->count = kept;
	discard_next(engine, r);
}

/* ---- rollback_thread ---- */

/*
 * Checks the target and collects the turns that the rollback removes, oldest first: all that follow the target and are
 * still part of the history. A rollback whose turns do not fit into the facts is rejected; the error names the turn to
 * roll back to first.
 */
static int removed_turns(struct engine *engine, const struct history_scope *s, const char *target, struct view_ids *ret,
			 struct err *e)
{
	view_ids_auto struct view_ids turns = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	struct history_doc doc;
	size_t at = 0, bytes = 0;

	history_turns_of(engine, s->thread_id, &turns);
	while (at < turns.n && strcmp(turns.id[at], target) != 0)
		at++;
	if (at == turns.n)
		return err_at(e, ERR_NOT_FOUND, "toTurnId", "toTurnId '%.64s' is not a turn of this thread", target);
	if (view_turn_rolled_back(engine->o.store, s->thread_id, target))
		return err_field(e, "toTurnId", "was itself rolled back");
	if (s->active_turn[0])
		return err_set(e, ERR_STATE, "turn '%.64s' is active on the thread: interrupt it first",
			       s->active_turn);
	if (view_read_speculative(engine->o.store, &history_schema, s->thread_id, &text, &doc, e) == 0 &&
	    strcmp(doc.rollback, "open") == 0)
		return err_set(e, ERR_STATE, "a rollback of this thread is in progress");
	/* Turns in the queue have not ended either. */
	for (size_t i = at + 1; i < turns.n; i++) {
		struct view_turn_brief t;

		if (view_turn_brief(engine->o.store, VIEW_ANY_UID, turns.id[i], &t, e) == 0 && !t.ended)
			return err_set(e, ERR_STATE,
				       "turn '%.64s' has not ended: interrupt it, or remove it from the queue",
				       turns.id[i]);
	}
	ret->id = mem_zalloc(turns.n + 1, ID_SIZE);
	for (size_t i = turns.n; i-- > at + 1;) {
		if (view_turn_rolled_back(engine->o.store, s->thread_id, turns.id[i]))
			continue;
		bytes += strlen(turns.id[i]) + 3;
		if (bytes > REMOVED_BYTES_MAX)
			return err_field(e, "toTurnId",
					 "too many turns follow it for one rollback: roll back to '%s' first, then "
					 "again",
					 turns.id[i]);
		id_copy(ret->id[ret->n++], turns.id[i]);
	}
	reverse_ids(ret->id, ret->n);
	return 0;
}

/* As for discard_changes: what an operator's run changed is not for agents to discard. */
static int check_discards(struct engine *engine, const struct view_ids *removed, const struct caller *c, struct err *e)
{
	for (size_t i = 0; c->role != ROLE_OPERATOR && i < removed->n; i++) {
		view_ids_auto struct view_ids processes = VIEW_IDS_INIT;

		id_list_read(engine, VIEW_TURN_PROCESS, removed->id[i], ID_LIST_ALL, &processes);
		for (size_t k = 0; k < processes.n; k++) {
			buf_auto struct buf changes = BUF_INIT, text = BUF_INIT;
			struct process_doc d;
			const char *id = processes.id[k];

			int r = store_model_get(engine->o.store, VIEW_COW_PROCESS, id, &changes, e);

			if (r == 0)
				r = view_read_speculative(engine->o.store, &process_schema, id, &text, &d, e);
			if (r < 0)
				return -1;
			if (r > 0 || jval_is_str(jval_get(d.startedBy, "role"), role_name(ROLE_AGENT)))
				continue;
			return err_set(e, ERR_NOT_ALLOWED,
				       "process '%s' was started by an operator, and its changes are neither applied "
				       "nor discarded: only operators can discard them",
				       id);
		}
	}
	return 0;
}

/* The reply waits until the files are discarded. It moves to the rollback, because the transaction ends before. */
void engine_rollback_thread(struct engine *engine, const struct rollback_request *r, const struct caller *c,
			    engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	view_ids_auto struct view_ids removed = VIEW_IDS_INIT;
	const struct requester by = requester_of(c);
	buf_auto struct buf affected = BUF_INIT;
	struct jw w = jw_on(&affected);
	struct history_scope s;
	struct err e = ERR_INIT;

	if (r->reason && strlen(r->reason) > 1024)
		err_field(&e, "reason", "must have at most 1024 bytes");
	if (e.code || history_scope_of(engine, r->session_id, r->thread_id, c, &s, &e) < 0 ||
	    removed_turns(engine, &s, r->to_turn_id, &removed, &e) < 0 || check_discards(engine, &removed, c, &e) < 0)
		return transaction_reject(tx, &e);
	const struct scope of = {
		.uid = s.uid, .session = s.session_id, .thread = s.thread_id, .request = c->request_id
	};
	affected_json(engine, &s, &removed, &w);
	EMIT(history_rollback_started, tx, of, .envelope.status = "running",
	     .target = JSON_OBJECT(turn_target, .turnId = r->to_turn_id),
	     .removedTurns = json_from_ids(removed.id, removed.n), .affected = json_from_buf(&affected),
	     .reason = r->reason, .by = json_requester(&by));
	if (!transaction_problem(tx)) { /* otherwise transaction_commit rejects the request */
		transaction_take_reply(tx, &rollback_new(engine, s.thread_id)->reply); /* sent when it is complete */
		transaction_after_commit(tx, continue_rollback, s.thread_id);
	}
	transaction_commit(tx);
}

/* ---- time and restarts ---- */

void history_recover(struct engine *engine)
{
	/* Deferred to the first tick: the host can discard files only when everything is running. */
	engine->turns->history_found = true;
	engine->turns->history_due_ns = 0;
	engine_wake(engine, engine_now(engine));
}

/* Deadlines are in real time, because they survive a restart; ticks are in boot time. */
uint64_t history_tick(struct engine *engine, uint64_t now_ns)
{
	const bool at_start = engine->turns->history_found;
	const uint64_t now = engine_real(engine);
	view_ids_auto struct view_ids open = VIEW_IDS_INIT;
	uint64_t next = UINT64_MAX;

	if (now_ns < engine->turns->history_due_ns)
		return engine->turns->history_due_ns;
	engine->turns->history_found = false;
	id_list_read(engine, VIEW_OPEN_HISTORY, NULL, ID_LIST_ALL, &open);
	for (size_t i = 0; i < open.n; i++) {
		const char *failed = NULL;
		buf_auto struct buf text = BUF_INIT;
		struct history_doc d;
		struct err e = ERR_INIT;

		if (view_read_speculative(engine->o.store, &history_schema, open.id[i], &text, &d, &e) != 0)
			continue;
		if (strcmp(d.compaction, "open") == 0) {
			if (at_start)
				failed = "the runtime was restarted before the summary arrived";
			else if (d.dueUs != VIEW_ABSENT && now >= d.dueUs)
				failed = "the summary did not arrive in time";
			else if (d.dueUs != VIEW_ABSENT && d.dueUs - now < next)
				next = d.dueUs - now;
		}
		if (failed) {
			struct history_scope s = { .uid = (uint32_t)d.uid };
			struct transaction *tx = transaction_new_internal(engine);

			id_copy(s.session_id, d.sessionId);
			id_copy(s.thread_id, d.threadId);
			id_copy(s.fact_thread, d.threadId);
			id_copy(s.fact_turn, d.compactionTurnId);
			compaction_failed_fact(tx, &s, failed, true, NULL);
			transaction_commit(tx);
		}
		if (at_start && strcmp(d.rollback, "open") == 0)
			continue_rollback(engine, open.id[i]);
	}
	engine->turns->history_due_ns = next == UINT64_MAX ? UINT64_MAX : now_ns + next * 1000;
	return engine->turns->history_due_ns;
}

void history_done(struct engine *engine)
{
	struct rollback *r;
	struct err e = ERR_INIT;

	err_set(&e, ERR_UNAVAILABLE, "the daemon is stopping; the rollback is finished at its next start");
	while ((r = TAILQ_FIRST(&engine->turns->rollbacks))) {
		reply_err(&r->reply, &e, NULL, 0);
		rollback_free(engine, r);
	}
}

void engine_window_loaded(struct engine *engine, uint32_t uid, const char *session_id, const char *thread_id,
			  const char *cursor, uint64_t from, uint64_t to, bool truncated)
{
	struct transaction *tx = transaction_new_internal(engine);

	const struct scope s = { .uid = uid, .session = session_id, .thread = thread_id };
	EMIT(history_window_loaded, tx, s, .cursor = json_from_string(cursor), .from = from, .to = to,
	     .truncated = truncated);
	transaction_commit(tx);
}
