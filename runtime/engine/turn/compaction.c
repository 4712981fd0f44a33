/* compact_context: replaces a thread's past by a summary. history.h describes it. */

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/turn/history_private.h"
#include "runtime/engine/turn/turn.h"
#include "runtime/view/view.h"

#define SUMMARY_MAX (1u << 20)
#define TURNS_MAX 1000u
#define KEPT_MAX 100u
#define PATIENCE_US (10ull * 60 * 1000000)

/* ---- what stays valid ---- */

struct kept {
	struct jw *w;
	size_t count;
};

static bool keep_action(void *ctx, const char *key, size_t key_len, const char *json, size_t len)
{
	const char *slash = memchr(key, '/', key_len);
	struct kept *k = ctx;

	if (slash)
		jw_strn(k->w, slash + 1, (size_t)(key + key_len - slash - 1));
	return ++k->count < KEPT_MAX;
}

static void kept_actions(struct engine *g, const char *thread_id, struct jw *w)
{
	mem_auto char *prefix = mem_printf("%s/", thread_id);
	struct kept k = { .w = w };
	struct err e = ERR_INIT;

	jw_karr(w, "keptActions");
	if (store_model_scan_speculative(g->o.store, VIEW_OPEN_ACTION, prefix, keep_action, &k, &e) < 0)
		log_error("list open actions: %s", e.message);
	jw_arr_end(w);
}

/* Lists the turns that did not complete: the agent that continues needs to know about them. */
static void write_incidents(struct engine *g, const struct history_turns *turns, struct jw *w)
{
	size_t n = 0;

	jw_karr(w, "incidents");
	for (size_t i = turns->count; i-- > 0 && n < KEPT_MAX;) {
		buf_auto struct buf text = BUF_INIT;
		struct turn_doc d;
		struct err e = ERR_INIT;

		if (view_read_speculative(g->o.store, &turn_schema, turns->ids[i], &text, &d, &e) != 0 ||
		    !d.completedAt || strcmp(d.status, "completed") == 0)
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
}

static bool keep_artifact(void *ctx, const char *key, size_t key_len, const char *json, size_t len)
{
	const char *slash = memchr(key, '/', key_len);
	struct kept *k = ctx;

	if (slash)
		jw_strn(k->w, slash + 1, (size_t)(key + key_len - slash - 1));
	return ++k->count < KEPT_MAX;
}

static void refs_of_session(struct engine *g, enum view_kind kind, const char *key, const char *session_id,
			    struct jw *w)
{
	mem_auto char *prefix = mem_printf("%s/", session_id);
	struct kept k = { .w = w };
	struct err e = ERR_INIT;

	jw_karr(w, key);
	if (store_model_scan_speculative(g->o.store, kind, prefix, keep_artifact, &k, &e) < 0)
		log_error("list refs: %s", e.message);
	jw_arr_end(w);
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

static void write_turns(const json_t *params, const struct history_turns *all, struct jw *w)
{
	const json_t *given = json_object_get(params, "affectedTurns"), *v;
	size_t i;

	jw_arr(w);
	if (given) {
		json_array_foreach (given, i, v)
			jw_str(w, json_string_value(v));
	} else {
		/* Without a list from the client: the newest turns, as many as fit into the event. */
		for (i = all->count > 200 ? all->count - 200 : 0; i < all->count; i++)
			jw_str(w, all->ids[i]);
	}
	jw_arr_end(w);
}

static struct opt_int number_of(const json_t *params, const char *key)
{
	const json_t *v = json_object_get(params, key);

	return opt_int_if(v, json_integer_value(v));
}

static void started_fact(struct engine *g, struct transaction *tx, const struct history_scope *s, const json_t *params,
			 const struct history_turns *turns)
{
	uint64_t due = g->o.ports->real_us(g->o.host) + PATIENCE_US;

	buf_auto struct buf list = BUF_INIT;
	struct jw w = jw_on(&list);
	write_turns(params, turns, &w);
	EMIT(context_compaction_started, tx, compaction_scope(s, tx->caller.request_id), .envelope.status = "running",
	     .threadId = s->thread_id, .trigger = json_string_value(json_object_get(params, "trigger")),
	     .turns = json_from_buf(&list), .tokensBefore = number_of(params, "tokensBefore"), .dueUs = opt_int(due));
	engine_wake(g, engine_now(g) + PATIENCE_US * 1000);
}

static void completed_fact(struct engine *g, struct transaction *tx, const struct history_scope *s,
			   const json_t *params, const struct history_turns *turns)
{
	const char *summary = json_string_value(json_object_get(params, "summary"));
	const struct ref_owner owner = { .uid = s->uid,
					 .session_id = s->session_id,
					 .thread_id = s->thread_id,
					 .kind = "threadId",
					 .id = s->thread_id };
	const json_t *continuation = json_object_get(params, "continuation");
	mem_auto char *continuation_json = continuation ? json_dumps(continuation, JSON_COMPACT | JSON_ENCODE_ANY)
							: NULL;
	char ref[ID_TEXT_MAX];

	ref_store(tx, &owner, summary, strlen(summary), ref);
	mem_auto char *preview = mem_strndup(summary,
					     strlen(summary) > 500 ? text_utf8_cut(summary, 500) : strlen(summary));
	/* What stays valid is computed at completion: actions may have been resolved since the start. */
	buf_auto struct buf open = BUF_INIT;
	struct jw w = jw_on(&open);
	kept_actions(g, s->thread_id, &w);
	write_incidents(g, turns, &w);
	refs_of_session(g, VIEW_ARTIFACT, "artifactRefs", s->session_id, &w);
	EMIT(context_compaction_completed, tx, compaction_scope(s, tx->caller.request_id),
	     .envelope.status = "completed", .threadId = s->thread_id, .summaryRef = ref, .preview = preview,
	     .open = json_from_buf(&open), .evidenceRefs = JSON_EMPTY_ARRAY,
	     .continuation = json_from_text(continuation_json), .tokensAfter = number_of(params, "tokensAfter"));
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

static int affected_check(struct engine *g, const char *thread_id, const json_t *given, struct err *e)
{
	const json_t *v;
	size_t i;

	if (json_array_size(given) > TURNS_MAX)
		return err_field(e, "affectedTurns", "must have at most %u turns", TURNS_MAX);
	json_array_foreach (given, i, v) {
		buf_auto struct buf text = BUF_INIT;
		struct turn_doc d;
		int r = turn_read(g, json_string_value(v), &text, &d, e);

		if (r < 0)
			return -1;
		if (r > 0 || strcmp(d.threadId, thread_id) != 0) {
			err_set(e, ERR_NOT_FOUND, "affectedTurns: '%.80s' is not a turn of thread '%.80s'",
				json_string_value(v), thread_id);
			snprintf(e->field, sizeof e->field, "affectedTurns");
			return -1;
		}
	}
	return 0;
}

static int compaction_check(const json_t *params, bool open, struct err *e)
{
	const char *summary = json_string_value(json_object_get(params, "summary")),
		   *failure = json_string_value(json_object_get(params, "failure"));
	const char *trigger = json_string_value(json_object_get(params, "trigger"));

	if (summary && failure)
		return err_field(e, "failure", "give summary or failure, not both");
	if (summary && (!*summary || strlen(summary) > SUMMARY_MAX))
		return err_field(e, "summary", "must have 1 to %u bytes", SUMMARY_MAX);
	if (failure && (!*failure || strlen(failure) > 1024))
		return err_field(e, "failure", "must have 1 to 1024 bytes");
	if (trigger && (!*trigger || strlen(trigger) > 64))
		return err_field(e, "trigger", "must have 1 to 64 bytes");
	if (!open && !trigger)
		return err_field(e, "trigger", "missing: why the context is compacted (manual, auto, token_limit …)");
	if (open && !summary && !failure)
		return err_set(e, ERR_STATE,
			       "a compaction of this thread is under way: bring its summary or its failure");
	return 0;
}

void engine_compact_context(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
			    void *ctx)
{
	const bool fails = json_object_get(params, "failure") != NULL,
		   ends = fails || json_object_get(params, "summary") != NULL;
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct history_doc doc;
	struct history_scope s;
	struct history_turns turns = { 0 };
	struct err e = ERR_INIT;

	if (history_scope_of(g, params, c, &s, &e) < 0)
		goto refuse;
	int known = view_read_speculative(g->o.store, &history_schema, s.thread_id, &text, &doc, &e);
	bool open = known == 0 && strcmp(doc.compaction, "open") == 0;
	if (known < 0 || compaction_check(params, open, &e) < 0 ||
	    affected_check(g, s.thread_id, json_object_get(params, "affectedTurns"), &e) < 0)
		goto refuse;
	/* The thread may have newer turns by now. */
	if (open && doc.compactionTurnId[0])
		id_copy(s.fact_turn, doc.compactionTurnId); /* started and completed belong to the same turn */
	if (history_turn_fact(g, tx, &s) < 0) {
		err_set(&e, ERR_INTERNAL, "the turn that the facts hang on cannot be written");
		goto refuse;
	}
	history_turns_of(g, s.thread_id, &turns);
	if (!open)
		started_fact(g, tx, &s, params, &turns);
	if (fails)
		compaction_failed_fact(tx, &s, json_string_value(json_object_get(params, "failure")), true,
				       c->request_id);
	else if (ends)
		completed_fact(g, tx, &s, params, &turns);
	jw_kstr(&tx->w, "threadId", s.thread_id);
	jw_kstr(&tx->w, "status", fails ? "failed" : ends ? "completed" : "open");
	transaction_commit(tx);
	history_turns_done(&turns);
	return;
refuse:
	transaction_reject(tx, &e);
}
