#include "runtime/dialect/dialect.h"

#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/dialect/conversation.h"
#include "runtime/dialect/decoder.h"

#include <string.h>

static const struct dialect_codec *const CODECS[DIALECT_COUNT] = {
	[DIALECT_ANTHROPIC] = &dialect_anthropic,
	[DIALECT_OPENAI_RESPONSES] = &dialect_responses,
	[DIALECT_OPENAI_CHAT] = &dialect_chat,
	[DIALECT_GEMINI] = &dialect_gemini,
};

int dialect_find(const char *name)
{
	for (int d = 0; name && d < DIALECT_COUNT; d++)
		if (strcmp(CODECS[d]->name, name) == 0)
			return d;
	return -1;
}

const char *dialect_name(enum dialect d) { return CODECS[d]->name; }

const char *dialect_base_url(enum dialect d) { return CODECS[d]->base_url; }

const char *dialect_stop_name(enum dialect_stop stop)
{
	static const char *const NAMES[] = {
		[DIALECT_STOP_DONE] = "done",
		[DIALECT_STOP_CALLS] = "calls",
		[DIALECT_STOP_MAX_TOKENS] = "max_tokens",
		[DIALECT_STOP_REFUSAL] = "refusal",
		[DIALECT_STOP_CONTEXT_FULL] = "context_full",
		[DIALECT_STOP_PAUSED] = "paused",
		[DIALECT_STOP_FILTERED] = "filtered",
	};

	return NAMES[stop];
}

static int check_tools(const json_t *tools, struct err *e)
{
	const json_t *tool;
	size_t i;

	json_array_foreach (tools, i, tool) {
		if (!*json_get_text(tool, "name"))
			return err_field(e, "tools", "tools[%zu] has no name", i);
		if (!json_is_object(json_object_get(tool, "schema")))
			return err_field(e, "tools", "tools[%zu] (%s) has no schema", i, json_get_text(tool, "name"));
	}
	return 0;
}

static json_t *make_headers(const struct dialect_codec *codec)
{
	json_t *headers = json_pack("{s:s, s:s}", "content-type", "application/json", "accept", "text/event-stream");

	if (codec->version_header)
		json_object_set_new(headers, codec->version_header, json_string(codec->version));
	return headers;
}

int dialect_encode(enum dialect d, const struct dialect_request *r, struct dialect_http *ret, struct err *e)
{
	const struct dialect_codec *codec = CODECS[d];
	buf_auto struct buf url = BUF_INIT, body = BUF_INIT;
	struct jw w = jw_on(&body);
	struct conversation c;

	if (!r->model || !*r->model)
		return err_field(e, "model", "the provider's id of the model is missing");
	if (json_array_size(r->items) == 0)
		return err_field(e, "items", "the conversation has no items");
	if (check_tools(r->tools, e) < 0 || conversation_init(&c, r->items, r->identity, codec->name, e) < 0)
		return -1;
	codec->encode(r, &c, &w);
	conversation_done(&c);
	buf_str(&url, r->base_url && *r->base_url ? r->base_url : codec->base_url);
	while (url.len && url.data[url.len - 1] == '/')
		url.data[--url.len] = '\0';
	codec->path(r, &url);
	*ret = (struct dialect_http){ .headers = make_headers(codec),
				      .key_header = codec->key_header,
				      .key_prefix = codec->key_prefix,
				      .body_len = body.len };
	ret->url = buf_take(&url);
	ret->body = buf_take(&body);
	return 0;
}

struct dialect_decoder *dialect_decoder_new(enum dialect d, const struct dialect_sink *sink_or_null, void *ctx)
{
	return decoder_new(CODECS[d], sink_or_null, ctx);
}

void dialect_http_done(struct dialect_http *h)
{
	free(h->url);
	free(h->body);
	json_decref(h->headers);
	*h = (struct dialect_http){ 0 };
}

void dialect_answer_done(struct dialect_answer *a)
{
	json_decref(a->blocks);
	json_decref(a->limits);
	free(a->partial_text);
	*a = (struct dialect_answer){ 0 };
}
