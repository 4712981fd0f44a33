/*
 * The answer of a provider, while it arrives. The program's standard output is one line about the response, then the
 * bytes of the body (supervisor/model). They are decoded from the spool as they come; text and reasoning are recorded
 * as deltas for clients that watch, and the whole answer when the program has ended.
 *
 * After a restart the stream is decoded again from its beginning. The offset in the request's document says up to where
 * deltas were recorded, so that none is recorded twice.
 */

#include "runtime/engine/loop/loop_private.h"

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/model/model_route.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/engine/turn/turn.h"

#define CHUNK 65536u
#define HEAD_MAX (256u << 10)
#define DELTA_MAX 8192u /* bytes of text in one event */
#define PREVIEW_MAX 2048u
#define STDERR_MAX 8192u
#define CALLS_MAX 128u

/* ---- the stream ---- */

static void take_text(void *ctx, const char *s, size_t n)
{
	struct loop_stream *x = ctx;

	if (!x->mute)
		buf_append(&x->text, s, n);
}

static void take_reasoning(void *ctx, const char *s, size_t n)
{
	struct loop_stream *x = ctx;

	if (!x->mute)
		buf_append(&x->reasoning, s, n);
}

static const struct dialect_sink sink = { .text = take_text, .reasoning = take_reasoning };

void loop_stream_free(struct loop_stream *s)
{
	if (!s)
		return;
	dialect_decoder_free(s->decoder);
	buf_done(&s->head);
	buf_done(&s->text);
	buf_done(&s->reasoning);
	free(s->input);
	free(s);
}

struct loop_stream *loop_stream_of(struct engine *engine, const char *turn_id)
{
	return strmap_get(&engine->loop->streams, turn_id);
}

/* The stream of a process that was adopted after a restart, or of one that this runtime has started. */
static struct loop_stream *stream_of(struct process *p)
{
	struct engine *engine = p->engine;
	struct loop_stream *s = loop_stream_of(engine, p->owner_id);
	buf_auto struct buf turn_text = BUF_INIT, text = BUF_INIT;
	struct model_request_doc r;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (s)
		return s;
	if (turn_read(engine, p->owner_id, &turn_text, &t, &e) != 0 || !t.lastRequestId[0] ||
	    loop_request_read(engine, &t, t.lastRequestId, &text, &r, &e) != 0)
		return NULL;
	mem_auto char *dialect = jval_strdup(r.dialect);
	int d = dialect ? dialect_find(dialect) : -1;
	if (strcmp(r.status, "open") != 0 || !jval_is_str(r.processId, p->id) || d < 0)
		return NULL;
	s = mem_zalloc(1, sizeof *s);
	id_copy(s->request_id, t.lastRequestId);
	id_copy(s->session_id, t.sessionId);
	id_copy(s->step_id, r.stepId);
	s->dialect = (enum dialect)d;
	s->recorded = view_counted(r.offset);
	strmap_put(&engine->loop->streams, p->owner_id, s);
	return s;
}

/* The line about the response. True: complete. */
static bool take_head(struct loop_stream *s)
{
	const char *end = s->head.len ? memchr(s->head.data, '\n', s->head.len) : NULL;

	if (!end)
		return false;
	json_auto_t *head = json_loadb(s->head.data, (size_t)(end - s->head.data), 0, NULL);
	s->status = (int)json_integer_value(json_object_get(head, "status"));
	s->decoder = dialect_decoder_new(s->dialect, &sink, s);
	dialect_decoder_head(s->decoder, s->status, json_object_get(head, "headers"));
	return true;
}

static void feed(struct loop_stream *s, const char *p, size_t n)
{
	if (s->decoder) {
		dialect_decoder_feed(s->decoder, p, n);
		return;
	}
	if (s->head.len + n > HEAD_MAX + CHUNK)
		return; /* not our program's output; finish reports a failure */
	buf_append(&s->head, p, n);
	if (!take_head(s))
		return;
	const size_t head = (size_t)((const char *)memchr(s->head.data, '\n', s->head.len) - s->head.data) + 1;
	if (s->head.len > head)
		dialect_decoder_feed(s->decoder, s->head.data + head, s->head.len - head);
}

/* Decodes what has arrived since the last call. */
static void read_output(struct process *p, struct loop_stream *s)
{
	struct engine *engine = p->engine;
	buf_auto struct buf chunk = BUF_INIT;

	while (s->offset < p->streams[STREAM_STDOUT].size) {
		uint64_t want = p->streams[STREAM_STDOUT].size - s->offset;

		if (s->offset < s->recorded && want > s->recorded - s->offset)
			want = s->recorded - s->offset;
		if (want > CHUNK)
			want = CHUNK;
		chunk.len = 0;
		char *at = buf_reserve(&chunk, (size_t)want);
		ssize_t n = engine->o.ports->peek_output(engine->o.host, p->id, STREAM_STDOUT, s->offset, at,
							 (size_t)want);
		if (n <= 0)
			return;
		s->mute = s->offset < s->recorded;
		if (!s->first_ns)
			s->first_ns = engine_now(engine);
		feed(s, at, (size_t)n);
		s->offset += (uint64_t)n;
	}
}

static struct scope request_scope(const struct turn_doc *t, const struct loop_stream *s)
{
	struct scope scope = turn_scope(t);

	scope.model_request = s->request_id;
	scope.step = none_if_empty(s->step_id);
	return scope;
}

/* Events for what was decoded. Text is cut at UTF-8 boundaries: decoders only deliver whole characters. */
static void delta_facts(struct loop_stream *s, const struct turn_doc *t, struct transaction *tx)
{
	const struct scope scope = request_scope(t, s);

	for (size_t at = 0; at < s->reasoning.len;) {
		size_t n = s->reasoning.len - at;

		n = text_utf8_cut(s->reasoning.data + at, n < DELTA_MAX ? n : DELTA_MAX);
		mem_auto char *text = mem_strndup(s->reasoning.data + at, n);
		EMIT(reasoning_delta, tx, scope, .text = text);
		at += n ? n : s->reasoning.len;
	}
	for (size_t at = 0; at < s->text.len;) {
		size_t n = s->text.len - at;

		n = text_utf8_cut(s->text.data + at, n < DELTA_MAX ? n : DELTA_MAX);
		mem_auto char *text = mem_strndup(s->text.data + at, n);
		at += n ? n : s->text.len;
		EMIT(model_delta, tx, scope, .text = text, .offset = opt_int_if(at >= s->text.len, s->offset));
	}
	if (s->reasoning.len && !s->text.len)
		EMIT(model_delta, tx, scope, .offset = opt_int(s->offset));
	if (s->text.len || s->reasoning.len)
		s->recorded = s->offset;
	s->text.len = s->reasoning.len = 0;
}

static void model_output(struct process *p, struct transaction *tx)
{
	struct loop_stream *s = stream_of(p);
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (!s || p->state > PROCESS_RUNNING || turn_read(p->engine, p->owner_id, &text, &t, &e) != 0)
		return;
	read_output(p, s);
	delta_facts(s, &t, tx);
}

/* ---- the end ---- */

static json_t *usage_json(const struct dialect_usage *u)
{
	json_t *v = json_pack("{s:I,s:I,s:I}", "inputTokens", (json_int_t)u->input, "outputTokens",
			      (json_int_t)u->output, "cachedTokens", (json_int_t)u->cached);

	if (u->cache_write)
		json_object_set_new(v, "cacheWriteTokens", json_integer((json_int_t)u->cache_write));
	if (u->reasoning)
		json_object_set_new(v, "reasoningTokens", json_integer((json_int_t)u->reasoning));
	if (u->estimated)
		json_object_set_new(v, "estimated", json_true());
	return v;
}

/*
 * The calls of an answer get their ids here, so that they are known before any of them begins. Those beyond the limit
 * are marked: they never run (conversation.h).
 */
static json_t *calls_of(const json_t *blocks)
{
	json_t *calls = json_array(), *b;
	size_t i;

	json_array_foreach (blocks, i, b) {
		char id[ID_TEXT_MAX];

		if (!json_text_is(b, "type", "tool_call"))
			continue;
		if (json_array_size(calls) >= CALLS_MAX) {
			json_object_set_new(b, "skipped", json_true());
			continue;
		}
		id_make(ID_KIND_TOOL_CALL, id);
		json_array_append_new(calls, json_pack("{s:s,s:s,s:s}", "toolCallId", id, "id", json_get_text(b, "id"),
						       "name", json_get_text(b, "name")));
	}
	return calls;
}

static char *preview_of(const json_t *blocks)
{
	struct buf text = BUF_INIT;
	const json_t *b;
	size_t i;

	json_array_foreach (blocks, i, b)
		if (json_text_is(b, "type", "text") && text.len < PREVIEW_MAX)
			buf_str(&text, json_get_text(b, "text"));
	if (text.len > PREVIEW_MAX)
		text.len = text_utf8_cut(text.data, PREVIEW_MAX);
	return buf_take(&text);
}

static void completed_facts(struct process *p, struct loop_stream *s, const struct turn_doc *t,
			    const struct model_request_doc *r, const struct dialect_answer *a, struct transaction *tx)
{
	const uint64_t now = engine_real(p->engine);
	const double latency = (double)(now > r->startedAt ? now - r->startedAt : 0) / 1000,
		     first = (double)(s->first_ns > s->started_ns ? s->first_ns - s->started_ns : 0) / 1e6;
	mem_auto char *provider = jval_strdup(r->provider), *model = jval_strdup(r->model),
		      *identity = mem_printf("%s/%s", provider ? provider : "", model ? model : ""),
		      *preview = preview_of(a->blocks);
	json_auto_t *item = json_pack("{s:s,s:s,s:s,s:O}", "type", "assistant", "model", identity, "dialect",
				      dialect_name(s->dialect), "blocks", a->blocks),
		    *calls = calls_of(a->blocks), *usage = usage_json(&a->usage);
	mem_auto char *text = json_dumps(item, JSON_COMPACT);
	const struct ref_owner owner = turn_ref_owner(t, "modelRequest", s->request_id, "application/json");
	char ref[ID_TEXT_MAX];
	struct scope scope = request_scope(t, s);

	ref_store(tx, &owner, text, strlen(text), ref);
	scope.process = p->id;
	EMIT(model_completed, tx, scope, .envelope.status = "completed", .usage = json_from_tree(usage),
	     .stopReason = dialect_stop_name(a->stop), .latencyMs = json_from_real(&latency),
	     .timeToFirstTokenMs = s->started_ns ? json_from_real(&first) : JSON_NONE, .responseRef = ref,
	     .preview = preview, .calls = json_from_tree(calls), .rawRef = p->streams[STREAM_STDOUT].ref,
	     .providerRequestId = none_if_empty(a->request_id));
}

/* Why there is no complete answer: what the provider said, else what the program said, else how it ended. */
struct stream_failure {
	char category[32], message[512], code[64];
	bool retryable;
	uint64_t retry_after_ms;
};

static void failure_of_program(struct process *p, const struct process_outcome *o, struct stream_failure *ret)
{
	struct engine *engine = p->engine;
	char text[STDERR_MAX];
	size_t want = p->streams[STREAM_STDERR].size < sizeof text ? (size_t)p->streams[STREAM_STDERR].size
								   : sizeof text;
	ssize_t n = want ? engine->o.ports->peek_output(engine->o.host, p->id, STREAM_STDERR, 0, text, want) : 0;
	json_auto_t *reported = n > 0 ? json_loadb(text, (size_t)n, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
	const char *message = json_get_string(reported, "message");
	const bool ended = strcmp(o->status, "completed") == 0 || strcmp(o->status, "failed") == 0;

	if (message && ended) {
		snprintf(ret->category, sizeof ret->category, "%s", json_get_text(reported, "category"));
		snprintf(ret->message, sizeof ret->message, "%s", message);
		ret->retryable = json_get_flag(reported, "retryable");
		return;
	}
	snprintf(ret->category, sizeof ret->category, "%s",
		 ended && o->clean ? "protocol"
		 : ended           ? "program"
				   : o->status);
	snprintf(ret->message, sizeof ret->message, "%s",
		 o->clean                      ? "the response ended before it was complete"
		 : o->message && o->message[0] ? o->message
					       : "bailiff-model failed");
	/* A program that was killed from outside has not answered; one that exited with a failure would do so again. A
	 * layer that was expected and is missing (the spawner may have been restarted) is not expected next time. */
	const bool killed = ended && o->ran && o->exit_code < 0 && !o->limit;
	ret->retryable = o->clean || killed || p->layer_mismatch || strcmp(o->status, "lost") == 0 ||
			 strcmp(o->status, "timed_out") == 0;
}

static void failure_of(struct process *p, const struct process_outcome *o, const struct dialect_answer *a,
		       struct stream_failure *ret)
{
	const bool ended = strcmp(o->status, "completed") == 0 || strcmp(o->status, "failed") == 0;

	*ret = (struct stream_failure){ 0 };
	/*
	 * A response that is incomplete or malformed because the connection broke: the program knows why. An error that
	 * the provider reported counts also if the connection broke after it.
	 */
	const bool reported = a && a->failure.category[0] && strcmp(a->failure.category, "protocol") != 0;
	if (a && a->failure.category[0] && (o->clean || (reported && ended))) {
		snprintf(ret->category, sizeof ret->category, "%.31s", a->failure.category);
		snprintf(ret->message, sizeof ret->message, "%.511s", a->failure.message);
		snprintf(ret->code, sizeof ret->code, "%.63s", a->failure.code);
		ret->retryable = a->failure.retryable;
		ret->retry_after_ms = a->failure.retry_after_ms;
		return;
	}
	failure_of_program(p, o, ret);
}

static void failed_facts(struct process *p, const struct loop_stream *s, const struct turn_doc *t,
			 const struct stream_failure *f, const struct dialect_answer *a, struct transaction *tx)
{
	json_auto_t *usage = a && a->usage.known ? usage_json(&a->usage) : NULL;
	struct scope scope = request_scope(t, s);

	scope.process = p->id;
	EMIT(model_failed, tx, scope, .envelope = { .status = "failed", .status_reason = f->message },
	     .category = f->category, .message = f->message, .retryable = opt_bool(f->retryable),
	     .providerCode = f->code[0] ? json_from_string(f->code) : JSON_NONE,
	     .retryAfterMs = opt_int_if(f->retry_after_ms, f->retry_after_ms), .usage = json_from_tree(usage),
	     .rawRef = none_if_empty(p->streams[STREAM_STDOUT].ref),
	     .providerRequestId = a ? none_if_empty(a->request_id) : NULL);
}

/* The cost of the request. A response that broke off was paid for, too: what is not known of it is estimated. */
static void settle(struct process *p, const struct loop_stream *s, const struct turn_doc *t,
		   const struct model_request_doc *r, const struct dialect_answer *a, struct transaction *tx)
{
	/* What the request was sent to: the model may have been removed or replaced since. */
	model_config_auto struct model_config m = { .provider = jval_strdup(r->provider),
						    .model = jval_strdup(r->model) };
	struct dialect_usage usage = a->usage;
	struct scope scope = request_scope(t, s);

	if (!s->decoder || !m.provider || !m.model)
		return;
	if (a->failure.retry_after_ms && strcmp(a->failure.category, "rate_limit") == 0)
		model_limited(tx, &scope, &m, "rate_limit", engine_real(p->engine) + a->failure.retry_after_ms * 1000);
	if (s->status < 200 || s->status > 299)
		return;
	if (!usage.known) {
		usage.input = jval_uint(r->estimatedTokens, 0);
		usage.estimated = true;
	}
	model_settle(tx, &scope, &m, &usage);
}

/* In the commit of the process's end: the answer with its cost, or the failure. */
static void model_ended(struct process *p, const struct process_outcome *o, struct transaction *tx)
{
	struct engine *engine = p->engine;
	struct loop_stream *s = stream_of(p);
	buf_auto struct buf turn_text = BUF_INIT, text = BUF_INIT;
	struct dialect_answer a = { 0 };
	struct model_request_doc r;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (!s || turn_read(engine, p->owner_id, &turn_text, &t, &e) != 0 ||
	    loop_request_read(engine, &t, s->request_id, &text, &r, &e) != 0)
		return;
	read_output(p, s);
	delta_facts(s, &t, tx);
	if (s->decoder)
		dialect_decoder_finish(s->decoder, &a);
	/* The request may have been closed with its turn. */
	if (strcmp(r.status, "open") == 0) {
		if (s->decoder && a.complete && strcmp(o->status, "cancelled") != 0) {
			completed_facts(p, s, &t, &r, &a, tx);
		} else {
			struct stream_failure f;

			failure_of(p, o, s->decoder ? &a : NULL, &f);
			failed_facts(p, s, &t, &f, s->decoder ? &a : NULL, tx);
		}
	}
	if (strcmp(r.status, "open") == 0)
		settle(p, s, &t, &r, &a, tx);
	dialect_answer_done(&a);
	strmap_del(&engine->loop->streams, p->owner_id);
	loop_stream_free(s);
}

static void model_refused(struct engine *engine, const char *turn_id, const struct err *why, const char *data,
			  unsigned long len)
{
	struct loop_stream *s = loop_stream_of(engine, turn_id);
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (!s)
		return;
	strmap_del(&engine->loop->streams, turn_id);
	/* The request may have been closed with its turn. */
	if (turn_read(engine, turn_id, &text, &t, &e) == 0 && !turn_doc_ended(&t)) {
		struct transaction *tx = transaction_new_internal(engine);
		/* A part of the daemon may just be restarting. */
		const bool passing = why->code == ERR_UNAVAILABLE || why->code == ERR_EXHAUSTED || why->code == ERR_SYS;

		EMIT(model_failed, tx, request_scope(&t, s),
		     .envelope = { .status = "failed", .status_reason = why->message }, .category = "program",
		     .message = why->message, .retryable = opt_bool(passing));
		transaction_after_commit(tx, loop_step_due, turn_id);
		transaction_commit(tx);
	}
	loop_stream_free(s);
}

static bool model_wanted(struct engine *engine, const char *turn_id, const char *process_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	return turn_read(engine, turn_id, &text, &t, &e) == 0 && !turn_doc_ended(&t) && t.ending.type != JT_OBJECT;
}

void loop_step_due(struct engine *engine, const char *turn_id) { modules_due(engine, DUE_TURN_STEP, turn_id); }

/* The answer is durable: runs the hooks for it, and continues the turn. */
static void model_over(struct engine *engine, const char *turn_id)
{
	buf_auto struct buf turn_text = BUF_INIT, text = BUF_INIT, payload = BUF_INIT;
	struct jw w = jw_on(&payload);
	struct model_request_doc r;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (turn_read(engine, turn_id, &turn_text, &t, &e) == 0 && t.lastRequestId[0] &&
	    loop_request_read(engine, &t, t.lastRequestId, &text, &r, &e) == 0 && strcmp(r.status, "completed") == 0) {
		jw_obj(&w);
		view_write_members(&w, &model_request_schema, &r,
				   "modelRequestId provider model usage stopReason preview");
		jw_obj_end(&w);
		turn_hooks_sampled(engine, t.turnId, payload.data, payload.len);
	}
	loop_step_due(engine, turn_id);
}

const struct process_owner_ops loop_owner = {
	.refused = model_refused,
	.wanted = model_wanted,
	.output = model_output,
	.ended = model_ended,
	.over = model_over,
};
