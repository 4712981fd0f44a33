/* compact_context: replaces a thread's past by a summary. turn.h describes it. */

#include "runtime/base/text.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/turn/turn_private.h"
#include "runtime/view/view.h"
#include "runtime/view/view_history.h"

#define SUMMARY_MAX (1u << 20)
#define TURNS_MAX 1000u
#define KEPT_MAX 100u
#define TIMEOUT_US (10ull * 60 * 1000000)

/* ---- the part of the past that a request refers to ---- */

void history_turns_of(struct engine *engine, const char *thread_id, struct view_ids *ret)
{
	struct err e = ERR_INIT;
	size_t kept = 0;

	id_list_read(engine, VIEW_THREAD_TURN, thread_id, ID_LIST_ALL, ret);
	/* The system turn only carries facts: it is not part of the past, and it never ends. */
	for (size_t i = 0; i < ret->n; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct turn_doc d;

		if (turn_read(engine, ret->id[i], &text, &d, &e) == 0 && !jval_is_str(d.source, "system"))
			memmove(ret->id[kept++], ret->id[i], ID_SIZE);
	}
	ret->n = kept;
}

/*
 * Facts about a thread need a turn. A thread without turns uses the session's system turn, which may have to be
 * created.
 */
int history_scope_of(struct engine *engine, const char *session_id, const char *thread_id, const struct caller *c,
		     struct history_scope *ret, struct err *e)
{
	view_ids_auto struct view_ids turns = VIEW_IDS_INIT;
	struct history_scope s = { 0 };
	struct view_thread_brief t;
	struct view_session_brief b;
	int r = view_thread_brief(engine->o.store, c->uid, thread_id, &t, e);

	if (r < 0)
		return -1;
	if (r > 0 || (session_id && strcmp(session_id, t.session_id) != 0))
		return err_at(e, ERR_NOT_FOUND, "threadId", "threadId '%.64s' is not known%s", thread_id,
			      session_id ? " in this session" : "");
	s.uid = t.uid;
	id_copy(s.session_id, t.session_id);
	id_copy(s.thread_id, thread_id);
	id_copy(s.active_turn, t.active_turn);
	id_copy(s.fact_thread, thread_id);
	history_turns_of(engine, thread_id, &turns);
	if (turns.n) {
		id_copy(s.fact_turn, turns.id[turns.n - 1]);
	} else if (view_session_brief(engine->o.store, c->uid, t.session_id, &b, e) == 0) {
		id_copy(s.fact_thread, b.first_thread);
		id_copy(s.fact_turn, b.system_turn);
		s.makes_turn = !b.system_turn[0];
		if (s.makes_turn)
			id_make(ID_KIND_TURN, s.fact_turn);
	}
	*ret = s;
	return 0;
}

/* ---- facts ---- */

static struct scope compaction_scope(const struct history_scope *s, const char *request_id)
{
	return (struct scope){ .uid = s->uid,
			       .session = s->session_id,
			       .thread = s->fact_thread,
			       .turn = s->fact_turn,
			       .request = request_id };
}

/*
 * What stays valid after the compaction: open actions, the turns that did not complete (the agent that continues needs
 * to know about them), and the session's artifacts and evidence.
 */
static void write_open(struct engine *engine, const struct history_scope *s, const struct view_ids *turns, struct jw *w)
{
	view_ids_auto struct view_ids actions = VIEW_IDS_INIT, artifacts = VIEW_IDS_INIT, evidence = VIEW_IDS_INIT;
	size_t n = 0;

	id_list_read(engine, VIEW_OPEN_ACTION, s->thread_id, KEPT_MAX, &actions);
	id_list_write(w, "keptActions", actions.id, actions.n);
	jw_karr(w, "incidents");
	for (size_t i = turns->n; i-- > 0 && n < KEPT_MAX;) {
		buf_auto struct buf text = BUF_INIT;
		struct turn_doc d;
		struct err e = ERR_INIT;

		if (turn_read(engine, turns->id[i], &text, &d, &e) != 0 || !d.completedAt ||
		    strcmp(d.status, "completed") == 0)
			continue;
		jw_obj(w);
		jw_kstr(w, "turnId", d.turnId);
		jw_kstr(w, "status", d.status);
		if (d.category.type == JT_STRING)
			jw_kraw(w, "category", d.category.text, d.category.len);
		jw_obj_end(w);
		n++;
	}
	jw_arr_end(w);
	id_list_read(engine, VIEW_ARTIFACT, s->session_id, KEPT_MAX, &artifacts);
	id_list_write(w, "artifactRefs", artifacts.id, artifacts.n);
	id_list_read(engine, VIEW_OWNER_EVIDENCE, s->session_id, KEPT_MAX, &evidence);
	id_list_write(w, "evidenceRefs", evidence.id, evidence.n);
}

static void completed_fact(struct engine *engine, struct transaction *tx, const struct history_scope *s,
			   const struct compaction_request *r, const struct view_ids *turns)
{
	const size_t length = strlen(r->summary);
	const struct ref_owner owner = { .uid = s->uid,
					 .session_id = s->session_id,
					 .thread_id = s->thread_id,
					 .kind = "threadId",
					 .id = s->thread_id };
	mem_auto char *preview = mem_strndup(r->summary, length > 500 ? text_utf8_cut(r->summary, 500) : length);
	buf_auto struct buf open = BUF_INIT;
	struct jw w = jw_on(&open);
	char ref[ID_TEXT_MAX];

	ref_store(tx, &owner, r->summary, length, ref);
	/* What stays valid is computed at completion: actions may have been resolved since the start. */
	write_open(engine, s, turns, &w);
	EMIT(context_compaction_completed, tx, compaction_scope(s, tx->caller.request_id),
	     .envelope.status = "completed", .threadId = s->thread_id, .summaryRef = ref, .preview = preview,
	     .open = json_from_buf(&open), .continuation = json_from_tree(r->continuation),
	     .tokensAfter = r->tokens_after);
	fact_snapshot(tx, &(struct scope){ .uid = s->uid, .session = s->session_id, .thread = s->thread_id });
	jw_kstr(&tx->w, "summaryRef", ref);
}

void compaction_failed_fact(struct transaction *tx, const struct history_scope *s, const char *reason, bool retryable,
			    const char *request_id)
{
	EMIT(context_compaction_failed, tx, compaction_scope(s, request_id),
	     .envelope = { .status = "failed", .status_reason = reason }, .threadId = s->thread_id, .reason = reason,
	     .retryable = retryable);
}

/* ---- the request ---- */

/* `open`: a compaction was started earlier, and this request must end it. */
static int compaction_check(struct engine *engine, const struct compaction_request *r, bool open, struct err *e)
{
	const json_t *v;
	size_t i;

	if (r->summary && r->failure)
		return err_field(e, "failure", "give summary or failure, not both");
	if (r->summary && (!*r->summary || strlen(r->summary) > SUMMARY_MAX))
		return err_field(e, "summary", "must have 1 to %u bytes", SUMMARY_MAX);
	if (r->failure && (!*r->failure || strlen(r->failure) > 1024))
		return err_field(e, "failure", "must have 1 to 1024 bytes");
	if (r->trigger && (!*r->trigger || strlen(r->trigger) > 64))
		return err_field(e, "trigger", "must have 1 to 64 bytes");
	if (!open && !r->trigger)
		return err_field(e, "trigger", "missing: why the context is compacted (manual, auto, token_limit …)");
	if (open && !r->summary && !r->failure)
		return err_set(e, ERR_STATE,
			       "a compaction of this thread is in progress: send its summary or its failure");
	if (json_array_size(r->affected_turns) > TURNS_MAX)
		return err_field(e, "affectedTurns", "must have at most %u turns", TURNS_MAX);
	json_array_foreach (r->affected_turns, i, v) {
		buf_auto struct buf text = BUF_INIT;
		struct turn_doc d;
		int found = turn_read(engine, json_string_value(v), &text, &d, e);

		if (found < 0)
			return -1;
		if (found > 0 || strcmp(d.threadId, r->thread_id) != 0)
			return err_at(e, ERR_NOT_FOUND, "affectedTurns",
				      "affectedTurns: '%.80s' is not a turn of thread '%.80s'", json_string_value(v),
				      r->thread_id);
	}
	return 0;
}

/* One request may start and end a compaction; then both facts are in one commit. */
void engine_compact_context(struct engine *engine, const struct compaction_request *r, const struct caller *c,
			    engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	view_ids_auto struct view_ids turns = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	struct history_doc doc;
	struct history_scope s;
	struct err e = ERR_INIT;

	if (history_scope_of(engine, r->session_id, r->thread_id, c, &s, &e) < 0)
		return transaction_reject(tx, &e);
	int known = view_read_speculative(engine->o.store, &history_schema, s.thread_id, &text, &doc, &e);
	const bool open = known == 0 && strcmp(doc.compaction, "open") == 0;
	if (known < 0 || compaction_check(engine, r, open, &e) < 0)
		return transaction_reject(tx, &e);
	/* Started and completed belong to the same turn, though the thread may have newer ones by now. */
	if (open && doc.compactionTurnId[0])
		id_copy(s.fact_turn, doc.compactionTurnId);
	if (s.makes_turn) {
		const struct scope of = {
			.uid = s.uid, .session = s.session_id, .thread = s.fact_thread, .turn = s.fact_turn
		};

		EMIT(turn_submitted, tx, of, .envelope.status = "accepted", .source = "system", .status = "accepted");
	}
	history_turns_of(engine, s.thread_id, &turns);
	if (!open) {
		/* Without a list from the client: the newest turns, as many as fit into the event. */
		const size_t first = turns.n > 200 ? turns.n - 200 : 0;

		EMIT(context_compaction_started, tx, compaction_scope(&s, c->request_id), .envelope.status = "running",
		     .threadId = s.thread_id, .trigger = r->trigger,
		     .turns = r->affected_turns ? json_from_tree(r->affected_turns)
						: json_from_ids(turns.id + first, turns.n - first),
		     .tokensBefore = r->tokens_before, .dueUs = opt_int(engine_real(engine) + TIMEOUT_US));
		const uint64_t due_ns = engine_now(engine) + TIMEOUT_US * 1000;

		if (due_ns < engine->turns->history_due_ns)
			engine->turns->history_due_ns = due_ns;
		engine_wake(engine, due_ns);
	}
	if (r->failure)
		compaction_failed_fact(tx, &s, r->failure, true, c->request_id);
	else if (r->summary)
		completed_fact(engine, tx, &s, r, &turns);
	jw_kstr(&tx->w, "threadId", s.thread_id);
	jw_kstr(&tx->w, "status", r->failure ? "failed" : r->summary ? "completed" : "open");
	transaction_commit(tx);
}
