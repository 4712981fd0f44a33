#include "runtime/dialect/conversation.h"

#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/strmap.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Makes space for one more element of an array that doubles. */
#define GROW(array, n, cap)                                                       \
	do {                                                                      \
		if ((n) == (cap)) {                                               \
			(cap) = (cap) ? 2 * (cap) : 4;                            \
			(array) = mem_realloc((array), (cap) * sizeof(*(array))); \
		}                                                                 \
	} while (0)

bool conversation_blank(const char *text) { return text[strspn(text, " \t\r\n\v\f")] == '\0'; }

bool conversation_is_image(const json_t *item) { return json_text_is(item, "type", "image"); }

const char *conversation_result(const struct conversation_call *call, bool *ret_error)
{
	*ret_error = !call->result || json_get_flag(call->result, "isError");
	if (call->result)
		return json_get_text(call->result, "text");
	return json_get_flag(call->block, "skipped") ? CONVERSATION_SKIPPED : CONVERSATION_NO_RESULT;
}

static struct conversation_exchange *add_exchange(struct conversation *c)
{
	GROW(c->exchanges, c->nexchanges, c->cap);
	c->exchanges[c->nexchanges] = (struct conversation_exchange){ 0 };
	return &c->exchanges[c->nexchanges++];
}

static bool allowed(char ch) { return isalnum((unsigned char)ch) || ch == '_' || ch == '-'; }

static void copy_name(char out[CONVERSATION_NAME_MAX + 1], const char *name)
{
	size_t n = 0;

	for (; name[n] && n < CONVERSATION_NAME_MAX; n++)
		out[n] = allowed(name[n]) ? name[n] : '_';
	out[n] = '\0';
	if (n == 0)
		snprintf(out, CONVERSATION_NAME_MAX + 1, "unknown");
}

/* The call's own id where providers accept it and no earlier call has it; else one made of its position. */
static void set_id(struct conversation_call *call, struct strmap *used, size_t exchange, size_t position)
{
	const char *id = json_get_text(call->block, "id");
	size_t n = 0;

	while (n <= CONVERSATION_NAME_MAX && allowed(id[n]))
		n++;
	if (n > 0 && n <= CONVERSATION_NAME_MAX && id[n] == '\0' && !strmap_get(used, id))
		snprintf(call->id, sizeof(call->id), "%s", id);
	else
		for (unsigned attempt = 0; attempt == 0 || strmap_get(used, call->id); attempt++)
			snprintf(call->id, sizeof(call->id), attempt ? "call_%zu_%zu_%u" : "call_%zu_%zu", exchange,
				 position, attempt);
	strmap_put(used, call->id, used);
}

static int add_assistant(struct conversation *c, const json_t *item, size_t at, const char *identity,
			 const char *dialect, struct strmap *used, struct err *e)
{
	const json_t *blocks = json_object_get(item, "blocks"), *block;
	bool visible = false;
	size_t i;

	if (!json_is_array(blocks))
		return err_field(e, "items", "items[%zu].blocks is not an array", at);
	json_array_foreach (blocks, i, block) {
		if (json_text_is(block, "type", "tool_call") ||
		    (json_text_is(block, "type", "text") && !conversation_blank(json_get_text(block, "text"))))
			visible = true;
		else if (!json_text_is(block, "type", "text") && !json_text_is(block, "type", "reasoning"))
			return err_field(e, "items", "items[%zu].blocks[%zu] has the unknown type \"%s\"", at, i,
					 json_get_text(block, "type"));
	}
	if (!visible)
		return 0;
	struct conversation_exchange *exchange = add_exchange(c);
	exchange->blocks = blocks;
	exchange->own = identity && json_text_is(item, "model", identity) && json_text_is(item, "dialect", dialect);
	json_array_foreach (blocks, i, block) {
		if (!json_text_is(block, "type", "tool_call"))
			continue;
		GROW(exchange->calls, exchange->ncalls, exchange->calls_cap);
		struct conversation_call *call = &exchange->calls[exchange->ncalls];
		*call = (struct conversation_call){ .block = block };
		copy_name(call->name, json_get_text(block, "name"));
		set_id(call, used, c->nexchanges - 1, exchange->ncalls++);
	}
	return 0;
}

static void add_result(struct conversation_exchange *exchange, const json_t *item)
{
	const char *id = json_get_text(item, "id");

	for (size_t i = 0; i < exchange->ncalls; i++)
		if (!exchange->calls[i].result && json_text_is(exchange->calls[i].block, "id", id)) {
			exchange->calls[i].result = item;
			return;
		}
}

int conversation_init(struct conversation *c, const json_t *items, const char *identity, const char *dialect,
		      struct err *e)
{
	struct strmap used = STRMAP_INIT; /* ids */
	const json_t *item;
	size_t i;
	int r = 0;

	*c = (struct conversation){ 0 };
	add_exchange(c);
	json_array_foreach (items, i, item) {
		struct conversation_exchange *exchange = &c->exchanges[c->nexchanges - 1];
		const char *type = json_get_text(item, "type");
		const bool image = conversation_is_image(item);
		if (image && (!json_get_string(item, "data") || !json_get_string(item, "mediaType")))
			r = err_field(e, "items", "items[%zu] is an image without data or mediaType", i);
		else if (image || strcmp(type, "user") == 0 || strcmp(type, "note") == 0) {
			GROW(exchange->texts, exchange->ntexts, exchange->texts_cap);
			if (image || !conversation_blank(json_get_text(item, "text")))
				exchange->texts[exchange->ntexts++] = item;
		} else if (strcmp(type, "tool_result") == 0)
			add_result(exchange, item);
		else if (strcmp(type, "assistant") == 0)
			r = add_assistant(c, item, i, identity, dialect, &used, e);
		else
			r = err_field(e, "items", "items[%zu] has the unknown type \"%s\"", i, type);
		if (r < 0)
			break;
	}
	strmap_done(&used);
	if (r < 0)
		conversation_done(c);
	return r;
}

void conversation_done(struct conversation *c)
{
	for (size_t i = 0; i < c->nexchanges; i++) {
		free(c->exchanges[i].calls);
		free(c->exchanges[i].texts);
	}
	free(c->exchanges);
	*c = (struct conversation){ 0 };
}
