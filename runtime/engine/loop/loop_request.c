/*
 * One request to a model: routed, encoded, recorded, and sent by a process of its own. The process may reach the
 * provider's host and read the file with the key; nothing else of the user is visible to it.
 */

#include "runtime/engine/loop/loop_private.h"

#include "runtime/base/image.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/dialect/conversation.h"
#include "runtime/engine/core/id_list.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/model/model_route.h"
#include "runtime/engine/model/reservation.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/engine/turn/turn.h"
#include "runtime/engine/work/work.h"

#include <stdarg.h>
#include <stdlib.h>

/* Timeouts of bailiff-model. A model may think for minutes before the first byte, and streams can be long. */
#define CONNECT_MS 15000
#define FIRST_BYTE_MS 600000
#define IDLE_MS 300000
#define TOTAL_MS 3600000
#define BODY_MAX (48u << 20)
#define FAILED_MAX 32
#define IMAGE_TOKENS 1600   /* of a large image, about */
#define RAW_MAX (64u << 20) /* of the response */

void loop_fail(struct engine *engine, const struct turn_doc *t, const char *category, bool retryable, const char *fmt,
	       ...)
{
	char message[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	const struct turn_end end = {
		.status = "failed", .category = category, .message = message, .retryable = retryable
	};
	turn_finish(engine, t, &end);
}

/* The input of bailiff-model: a line of parameters, then the body. */
static char *program_input(const struct model_config *m, const struct dialect_http *http)
{
	json_auto_t *head = json_pack("{s:s,s:O,s:s,s:s,s:s*,s:s*,s:s*,s:{s:i,s:i,s:i,s:i}}", "url", http->url,
				      "headers", http->headers, "keyHeader", http->key_header, "keyPrefix",
				      http->key_prefix, "keyFile", m->key_file, "keyCommand", m->key_command, "caFile",
				      m->ca_file, "timeouts", "connectMs", CONNECT_MS, "firstByteMs", FIRST_BYTE_MS,
				      "idleMs", IDLE_MS, "totalMs", TOTAL_MS);
	mem_auto char *line = json_dumps(head, JSON_COMPACT);

	return mem_printf("%s\n%s", line, http->body);
}

/*
 * The operator who registered the model has decided what it may reach; the turn may have been submitted by an agent.
 */
static void start_program(struct engine *engine, const struct turn_doc *t, const struct model_config *m,
			  const char *process_id, const char *input)
{
	const char *const argv[] = { engine->o.model_program, m->name }, *const hosts[] = { m->host };
	const struct requester by = { .uid = (uint32_t)t->uid, .role = ROLE_OPERATOR };
	const char *reads[2];
	size_t nreads = 0;
	char started[ID_TEXT_MAX];

	if (m->key_file)
		reads[nreads++] = m->key_file;
	if (m->ca_file)
		reads[nreads++] = m->ca_file;
	struct start_request start = {
		.argv = argv,
		.argc = countof(argv),
		.sandbox = { .profile = m->key_command ? "readonly" : "isolated",
			     .cwd = "/",
			     .own_program = engine->o.model_program,
			     .change = { .network = "allow",
					 .hosts = hosts,
					 .nhosts = 1,
					 .read = reads,
					 .nread = nreads } },
		.stdin_pipe = true,
		.stdin_text = input,
		.session_id = t->sessionId,
		.thread_id = t->threadId,
		.turn_id = t->turnId,
		.task_id = none_if_empty(t->taskId),
		.trace_id = none_if_empty(t->traceId),
		.process_id = process_id,
	};
	engine_default_limits(engine, &start.limits);
	start.limits.wall_ms = TOTAL_MS + 60000;
	start.limits.idle_ms = LIMIT_NONE; /* the program has timeouts of its own */
	start.limits.output_bytes = RAW_MAX;
	process_start_owned(engine, &start, &by, OWNER_MODEL, t->turnId, started);
}

/* The facts are durable: starts the program (an effect of model.requested). */
static void launch(struct engine *engine, const char *turn_id)
{
	struct loop_stream *s = loop_stream_of(engine, turn_id);
	buf_auto struct buf text = BUF_INIT, request_text = BUF_INIT;
	model_config_auto struct model_config m = MODEL_CONFIG_INIT;
	struct model_request_doc r;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (!s || !s->input || turn_read(engine, turn_id, &text, &t, &e) != 0)
		return;
	if (loop_request_read(engine, &t, s->request_id, &request_text, &r, &e) != 0) {
		/* Nothing else would end the request: it is not in the turn's document. */
		strmap_del(&engine->loop->streams, turn_id);
		reservation_release(engine, s->request_id);
		loop_stream_free(s);
		return loop_fail(engine, &t, "store", true, "the request could not be recorded: %s", e.message);
	}
	mem_auto char *name = jval_strdup(r.name), *process_id = jval_strdup(r.processId), *input = mem_take(&s->input);
	if (strcmp(r.status, "open") != 0 || turn_doc_ended(&t) || t.ending.type == JT_OBJECT)
		err_set(&e, ERR_STATE, "the turn was ended before the request was sent");
	else if (!engine->o.model_program)
		err_set(&e, ERR_NOT_FOUND, "bailiff-model, which calls models, was not found next to bailiffd");
	if (e.code || model_config_find(engine, (uint32_t)t.uid, name, &m, &e) < 0) {
		loop_owner.refused(engine, turn_id, &e, NULL, 0);
		return;
	}
	s->started_ns = engine_now(engine);
	start_program(engine, &t, &m, process_id, input);
}

/* What a request sends: the prompt, the tools, and the conversation with the new items. */
struct request_text {
	struct buf prompt;
	json_t *tools, *items;
	uint64_t tokens; /* an estimate: four bytes are about one token */
};

static int text_init(struct request_text *x, struct engine *engine, const struct turn_doc *t,
		     const struct loop_history *h, const struct loop_ask *ask, struct err *e)
{
	size_t tools;

	*x = (struct request_text){ .tools = loop_tools(engine, t, &tools), .items = json_copy(h->items) };
	json_array_extend(x->items, ask->items);
	if (loop_system_prompt(engine, t, &x->prompt, e) < 0)
		return -1;
	const size_t added = json_dumpb(ask->items, NULL, 0, JSON_COMPACT);
	x->tokens = (h->bytes + added + tools + x->prompt.len) / 4;
	const json_t *item;
	size_t i;
	json_array_foreach (x->items, i, item)
		x->tokens += conversation_is_image(item) ? IMAGE_TOKENS : 0;
	return 0;
}

/*
 * Replaces the refs of images by their bytes, or by a note where the model cannot see them. Only for this request: the
 * conversation keeps the refs. The bytes behind a ref never change, so that equal items are equal text.
 */
static int load_images(struct engine *engine, const struct model_config *m, json_t *items, struct err *e)
{
	json_t *item;
	size_t i;

	json_array_foreach (items, i, item) {
		buf_auto struct buf bytes = BUF_INIT, data = BUF_INIT;
		const char *note = m->text_only ? CONVERSATION_UNSEEN : NULL;

		if (!conversation_is_image(item))
			continue;
		if (note) {
			json_array_set_new(items, i, json_pack("{s:s,s:s}", "type", "note", "text", note));
			continue;
		}
		if (store_output_whole(engine->o.store, json_get_text(item, "ref"), IMAGE_MAX, &bytes, e) < 0)
			return err_wrap(e, "an image of the conversation");
		if (!bytes.len)
			return err_set(e, ERR_CORRUPT, "output '%s', an image of the conversation, is missing",
				       json_get_text(item, "ref"));
		text_base64_encode(bytes.data, bytes.len, &data);
		json_t *loaded = json_copy(item);
		json_object_set_new(loaded, "data", json_stringn_nocheck(data.data, data.len));
		json_array_set_new(items, i, loaded);
	}
	return 0;
}

static void text_done(struct request_text *x)
{
	buf_done(&x->prompt);
	json_decref(x->tools);
	json_decref(x->items);
}

static int encode(const struct turn_doc *t, const struct model_choice *c, const struct request_text *x, bool no_tools,
		  struct dialect_http *ret, struct err *e)
{
	const struct model_config *m = &c->config;
	mem_auto char *identity = mem_printf("%s/%s", m->provider, m->model);
	const struct dialect_request r = {
		.base_url = m->base_url,
		.model = m->model,
		.identity = identity,
		.instructions = buf_cstr((struct buf *)(uintptr_t)&x->prompt),
		.tools = x->tools,
		.items = x->items,
		.max_output_tokens = c->max_output_tokens,
		.cache_key = t->threadId,
		.effort = m->effort,
		.no_tools = no_tools,
	};

	if (dialect_encode(m->dialect, &r, ret, e) < 0)
		return -1;
	if (ret->body_len > BODY_MAX)
		return err_set(e, ERR_EXHAUSTED, "the request has %zu bytes; at most %u are sent", ret->body_len,
			       BODY_MAX);
	return 0;
}

/* model.requested, what the request adds to the conversation, and the process that follows. */
static void requested_facts(struct transaction *tx, const struct turn_doc *t, const char *request_id,
			    const struct model_config *m, const struct loop_ask *ask, uint64_t tokens, char *input)
{
	struct engine *engine = tx->engine;
	struct loop_stream *s = mem_zalloc(1, sizeof *s);
	char process_id[ID_TEXT_MAX], items_ref[ID_TEXT_MAX], step[ID_TEXT_MAX];
	mem_auto char *items = json_dumps(ask->items, JSON_COMPACT);
	struct scope scope = turn_scope(t);
	const struct ref_owner owner = turn_ref_owner(t, "modelRequest", request_id, "application/json");

	id_make(ID_KIND_PROCESS, process_id);
	id_make(ID_KIND_STEP, step);
	ref_store(tx, &owner, items, strlen(items), items_ref);
	scope.model_request = request_id;
	scope.step = step;
	EMIT(model_requested, tx, scope, .envelope.status = "running", .modelRequestId = request_id,
	     .provider = m->provider, .model = m->model, .name = m->name, .dialect = dialect_name(m->dialect),
	     .purpose = ask->purpose == LOOP_COMPACTION ? "compaction" : "turn", .attempt = opt_int(ask->attempt),
	     .processId = process_id, .itemsRef = items_ref, .base = ask->base, .steered = opt_int(ask->steered),
	     .estimatedTokens = opt_int(tokens));
	id_copy(s->request_id, request_id);
	id_copy(s->session_id, t->sessionId);
	id_copy(s->step_id, step);
	s->dialect = m->dialect;
	s->input = input;
	strmap_put(&engine->loop->streams, t->turnId, s);
	transaction_after_commit(tx, launch, t->turnId);
	transaction_commit(tx);
}

static bool can_compact(const struct loop_ask *ask) { return !ask->base && ask->purpose == LOOP_TURN; }

/* A tenth of the context is for the answer. */
static bool fits(const struct model_config *m, uint64_t tokens)
{
	return !m->context_tokens || tokens < m->context_tokens - m->context_tokens / 10;
}

/*
 * The names of the models that were given up in this turn, so that they are not tried again: each failed, and the next
 * request went to another one. `last`: the last request counts, too.
 */
static size_t failed_models(struct engine *engine, const struct turn_doc *t, bool last, char *ret[FAILED_MAX])
{
	view_ids_auto struct view_ids requests = VIEW_IDS_INIT;
	bool open = false; /* ret[n - 1] is the request before */
	size_t n = 0;

	id_list_read(engine, VIEW_TURN_REQUEST, t->turnId, ID_LIST_ALL, &requests);
	for (size_t i = 0; i < requests.n && n < FAILED_MAX; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct model_request_doc r;
		struct err e = ERR_INIT;

		if (loop_request_read(engine, t, requests.id[i], &text, &r, &e) != 0)
			continue;
		/* The next request went to the same model: it was not given up. */
		if (n && open && jval_is_str(r.name, ret[n - 1]))
			free(ret[--n]);
		open = strcmp(r.status, "failed") == 0 && r.name.type == JT_STRING;
		if (open)
			ret[n++] = jval_strdup(r.name);
	}
	if (n && open && !last)
		free(ret[--n]);
	return n;
}

static int route(struct transaction *tx, const struct turn_doc *t, const char *request_id, const struct loop_ask *ask,
		 uint64_t tokens, struct model_choice *ret, struct err *e)
{
	mem_auto char *wanted = jval_strdup(t->model);
	char *failed[FAILED_MAX] = { 0 }, cost[32] = "";
	struct agent_usage below;
	struct jval most = jval_get(t->loopLimits, "maxCostUsd");

	if (most.type == JT_NUMBER)
		snprintf(cost, sizeof cost, "%.*s", (int)most.len, most.text);
	subagent_usage(tx->engine, t, &below);
	struct model_route_ask r = {
		.scope = turn_scope(t),
		.requested = wanted,
		.fallback = wanted ? FALLBACK_NONE : FALLBACK_NEXT,
		.input_tokens = tokens,
		.max_cost_usd = cost[0] ? strtod(cost, NULL) : -1,
		.max_tokens = jval_uint(jval_get(t->loopLimits, "maxTokens"), 0),
		.used_tokens = below.input + below.output,
		.used_micro_usd = below.micro_usd,
		.failed_request_id = ask->fallback ? t->lastRequestId : NULL,
		.failed_reason = ask->fallback,
	};
	r.scope.model_request = request_id;
	r.nfailed = failed_models(tx->engine, t, ask->fallback != NULL, failed);
	r.failed = (const char *const *)failed;
	int rc = model_route(tx, &r, ret, e);
	for (size_t i = 0; i < r.nfailed; i++)
		free(failed[i]);
	return rc;
}

void loop_wait(struct engine *engine, const char *turn_id, uint64_t ms)
{
	struct loop_wait *w = mem_zalloc(1, sizeof *w);

	w->due_ns = engine_now(engine) + ms * 1000000;
	free(strmap_del(&engine->loop->waits, turn_id));
	strmap_put(&engine->loop->waits, turn_id, w);
	engine_wake(engine, w->due_ns);
}

/* Another request met the provider's rate limit: this one waits as well, unless the limit lasts too long. */
static bool wait_for_rate(struct engine *engine, const struct turn_doc *t, const struct model_choice *c)
{
	const uint64_t now = engine_real(engine);

	if (!c->category || strcmp(c->category, "rate_limit") != 0 || c->reset_us <= now ||
	    c->reset_us - now > WAIT_MOST_MS * 1000ull)
		return false;
	loop_wait(engine, t->turnId, (c->reset_us - now) / 1000 + 1);
	return true;
}

bool loop_request(struct engine *engine, const struct turn_doc *t, struct loop_history *history, struct loop_ask *ask)
{
	model_choice_auto struct model_choice c = MODEL_CHOICE_INIT;
	struct transaction *tx = transaction_new_internal(engine);
	struct dialect_http http = { 0 };
	struct request_text x;
	struct err e = ERR_INIT;
	char id[ID_TEXT_MAX];
	bool sent = true;

	free(strmap_del(&engine->loop->waits, t->turnId));
	id_make(ID_KIND_MODEL_REQUEST, id);
	if (text_init(&x, engine, t, history, ask, &e) < 0) {
		transaction_free(tx);
		loop_fail(engine, t, "store", false, "the system prompt cannot be read: %s", e.message);
	} else if (route(tx, t, id, ask, x.tokens, &c, &e) < 0) {
		sent = !(c.category && strcmp(c.category, "context") == 0 && can_compact(ask));
		if (sent) {
			transaction_commit(tx); /* the facts say why no model was chosen */
			if (ask->fallback || !wait_for_rate(engine, t, &c))
				loop_fail(engine, t,
					  ask->fallback ? "model"
					  : c.category  ? c.category
							: "routing",
					  false, "%s%s%s", ask->fallback ? ask->fallback : "",
					  ask->fallback ? "; no other model: " : "", e.message);
		} else {
			transaction_free(tx);
		}
	} else if ((can_compact(ask) && !(sent = fits(&c.config, x.tokens))) ||
		   load_images(engine, &c.config, x.items, &e) < 0 || encode(t, &c, &x, ask->no_tools, &http, &e) < 0) {
		reservation_release(engine, id);
		transaction_free(tx);
		if (sent)
			loop_fail(engine, t, "model", false, "%s", e.message);
	} else {
		requested_facts(tx, t, id, &c.config, ask, x.tokens, program_input(&c.config, &http));
	}
	json_decref(ask->items);
	dialect_http_done(&http);
	text_done(&x);
	return sent;
}
