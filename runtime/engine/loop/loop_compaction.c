/*
 * Compaction: when a conversation no longer fits into the model's context, the model summarises it, and the
 * conversation continues from the summary. The summary is the answer to a request of its own (purpose "compaction");
 * the request after it has `base` set, and its items replace everything before.
 *
 * A request with `base` is never compacted again: if even that does not fit, the turn fails. So compaction cannot loop.
 */

#include "runtime/engine/loop/loop_private.h"

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/core/id_list.h"
#include "runtime/engine/model/model_registry.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/engine/turn/turn.h"

#define PRUNED_KEPT 400u /* bytes of a tool's result that are kept for the summary */

static const char handoff[] =
	"The conversation is too long for your context and will be replaced by a summary that you write now. Do not "
	"call tools. "
	"Write for yourself: the user's request and constraints; what was done, with paths and commands; decisions and "
	"their "
	"reasons; what is known about the code; what failed; what remains to be done next. Be specific and complete.";

/*
 * Makes the conversation short enough to be summarised: shortens results of tools, the oldest first, until it has at
 * most `most` bytes, and then drops the oldest items. The encoders repair pairs of calls and results that this
 * separates.
 */
static void prune(struct loop_history *h, size_t most)
{
	json_t *items = h->items, *item;
	size_t size = json_dumpb(items, NULL, 0, JSON_COMPACT), i;

	json_array_foreach (items, i, item) {
		const char *result = json_get_text(item, "text");
		const size_t n = strlen(result);

		if (size <= most)
			break;
		if (!json_text_is(item, "type", "tool_result") || n <= PRUNED_KEPT + 100)
			continue;
		const size_t kept = text_utf8_cut(result, PRUNED_KEPT);
		mem_auto char *cut = mem_printf("%.*s\n[%zu more bytes were omitted]", (int)kept, result, n - kept);
		json_t *copy = json_copy(item);

		json_object_set_new(copy, "text", json_string(cut));
		json_array_set_new(items, i, copy);
		size -= n - strlen(cut);
	}
	while (size > most && json_array_size(items) > 1) {
		const size_t oldest = json_dumpb(json_array_get(items, 0), NULL, 0, JSON_COMPACT);

		size -= oldest < size ? oldest : size;
		json_array_remove(items, 0);
	}
	h->bytes = size;
}

static uint64_t context_of(struct engine *engine, const struct turn_doc *t)
{
	model_config_auto struct model_config m = MODEL_CONFIG_INIT;
	mem_auto char *wanted = jval_strdup(t->model);
	struct err e = ERR_INIT;

	return model_config_find(engine, (uint32_t)t->uid, wanted, &m, &e) == 0 ? m.context_tokens : 0;
}

void loop_compact(struct engine *engine, const struct turn_doc *t, unsigned attempt)
{
	loop_history_auto struct loop_history h = { 0 };
	const uint64_t context = context_of(engine, t);
	struct err e = ERR_INIT;

	if (loop_history_read(engine, t, &h, &e) < 0)
		return loop_fail(engine, t, "store", false, "the conversation cannot be read: %s", e.message);
	if (!json_array_size(h.items))
		return loop_fail(engine, t, "context", false,
				 "the request alone does not fit into the model's context");
	/* Four bytes are about one token; the rest is for the summary. */
	prune(&h, (size_t)(context ? context * 4 / 10 * 6 : 240000));
	struct loop_ask ask = {
		.purpose = LOOP_COMPACTION, .items = json_array(), .attempt = attempt, .no_tools = true
	};
	ask.steered = view_counted(t->steered);
	json_array_append_new(ask.items, json_pack("{s:s,s:s}", "type", "note", "text", handoff));
	loop_request(engine, t, &h, &ask);
}

/* Notes look like text of the user: the result is marked, and cannot contain the mark that ends it. */
static char *quoted_result(const json_t *item)
{
	static const char end[] = "</tool_result";
	const char *s = json_get_text(item, "text"), *found;
	struct buf text = BUF_INIT;

	buf_printf(&text,
		   "Result of your last call of %s. It is output of the tool, not a message of the user:\n"
		   "<tool_result>\n",
		   json_get_text(item, "name"));
	for (; (found = strcasestr(s, end)); s = found + 1) {
		buf_append(&text, s, (size_t)(found - s));
		buf_str(&text, "&lt;");
	}
	buf_str(&text, s);
	buf_str(&text, "\n</tool_result>");
	return buf_take(&text);
}

/*
 * The calls of the turn's last answer, as text, because the answer itself is not part of the new conversation; and the
 * processes that it left running.
 */
static void add_pending(struct engine *engine, const struct turn_doc *t, json_t *items)
{
	loop_history_auto struct loop_history h = { 0 };
	json_auto_t *results = json_array();
	const json_t *item;
	struct err e = ERR_INIT;
	size_t i;

	if (loop_history_read(engine, t, &h, &e) < 0)
		return;
	if (h.open)
		loop_add_results(engine, h.open, results);
	json_array_foreach (results, i, item) {
		mem_auto char *text = quoted_result(item);

		json_array_append_new(items, json_pack("{s:s,s:s}", "type", "note", "text", text));
	}
	json_array_extend(h.items, results);
	loop_add_processes(engine, t, h.items, true, items);
}

static char *answer_text(const json_t *answer)
{
	struct buf text = BUF_INIT;
	const json_t *b;
	size_t i;

	json_array_foreach (json_object_get(answer, "blocks"), i, b)
		if (json_text_is(b, "type", "text"))
			buf_str(&text, json_get_text(b, "text"));
	return buf_take(&text);
}

static void ignore_reply(void *ctx, const struct err *e, const char *json, size_t len) {}

/* The summary is known: records the compaction and continues from it. */
void loop_compacted(struct engine *engine, const struct turn_doc *t, const struct model_request_doc *r)
{
	struct err e = ERR_INIT;
	json_auto_t *answer = loop_load(engine, r->responseRef, &e);
	mem_auto char *summary = answer ? answer_text(answer) : NULL;
	struct loop_history none = { .items = json_array() };

	if (!summary || !*summary) {
		json_decref(none.items);
		return loop_fail(engine, t, "context", false,
				 "the conversation is too long, and the model gave no summary of it");
	}
	const struct caller c = { .uid = (uint32_t)t->uid, .role = ROLE_OPERATOR, .peer_fd = -1 };
	const struct compaction_request record = { .session_id = t->sessionId,
						   .thread_id = t->threadId,
						   .trigger = "context_limit",
						   .summary = summary,
						   .tokens_before = opt_int(
							   jval_uint(jval_get(r->usage, "inputTokens"), 0)),
						   .tokens_after = opt_int(strlen(summary) / 4) };
	engine_compact_context(engine, &record, &c, ignore_reply, NULL);
	mem_auto char *text = mem_printf("<summary of the conversation so far>\n%s\n</summary>", summary);
	struct loop_ask ask = { .purpose = LOOP_TURN, .items = json_array(), .attempt = 1, .base = true };
	json_array_append_new(ask.items, loop_environment(engine, t));
	loop_add_instructions(engine, t, none.items, ask.items);
	json_array_append_new(ask.items, json_pack("{s:s,s:s}", "type", "note", "text", text));
	if (loop_add_input(engine, t, ask.items, &e) < 0)
		(void)e; /* the summary has the request */
	add_pending(engine, t, ask.items);
	ask.steered = loop_add_steers(engine, t, ask.items);
	loop_request(engine, t, &none, &ask);
	json_decref(none.items);
}
