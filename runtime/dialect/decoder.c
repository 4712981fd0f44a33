#include "runtime/dialect/decoder.h"

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/strmap.h"
#include "runtime/base/text.h"
#include "runtime/dialect/failure.h"
#include "runtime/dialect/headers.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define EVENT_MAX (8u << 20)   /* bytes of one event: the last one of a Responses stream repeats the whole answer */
#define ANSWER_MAX (32u << 20) /* bytes of all units */
#define UNITS_MAX 1024
#define BODY_MAX (64u << 10)  /* bytes that are kept of a body that is not an event stream */
#define DEPTH_MAX 256         /* of JSON: jansson reads 2,048 levels, and blocks are stored inside of other JSON */
#define CONTAINERS_MAX 200000 /* in one JSON text: each takes some hundred bytes of memory */
#define DONE "[DONE]"         /* an event that is not JSON */
#define CALL_NAME_MAX 128
#define CALL_ID_MAX 256

/* ---- units ---- */

struct unit *unit_new(struct dialect_decoder *x, enum unit_kind kind, int64_t key)
{
	if (x->nunits == UNITS_MAX) { /* nothing of a failed answer is used: it does not matter where the rest goes */
		decoder_fail(x, "protocol", false, "the answer has more than %d parts", UNITS_MAX);
		return x->units[x->nunits - 1];
	}
	if (x->nunits == x->units_cap) {
		x->units_cap = x->units_cap ? 2 * x->units_cap : 8;
		x->units = mem_realloc(x->units, x->units_cap * sizeof(*x->units));
	}
	struct unit *u = mem_zalloc(1, sizeof(*u));
	u->kind = kind;
	u->key = key;
	x->units[x->nunits++] = u;
	return u;
}

struct unit *unit_find(struct dialect_decoder *x, int64_t key)
{
	for (size_t i = x->nunits; i-- > 0;)
		if (x->units[i]->key == key && !x->units[i]->ended)
			return x->units[i];
	return NULL;
}

struct unit *unit_find_kind(struct dialect_decoder *x, enum unit_kind kind, int64_t key)
{
	for (size_t i = x->nunits; i-- > 0;)
		if (x->units[i]->key == key && x->units[i]->kind == kind && !x->units[i]->ended)
			return x->units[i];
	return NULL;
}

void unit_add(struct dialect_decoder *x, struct unit *u, const char *s, size_t n)
{
	if (!n || x->failure.category[0])
		return;
	if (x->received + n > ANSWER_MAX) {
		decoder_fail(x, "protocol", false, "the answer is larger than %u bytes", ANSWER_MAX);
		return;
	}
	x->received += n;
	buf_append(&u->text, s, n);
	if (u->kind == UNIT_TEXT && x->sink.text)
		x->sink.text(x->ctx, s, n);
	else if (u->kind == UNIT_REASONING && x->sink.reasoning)
		x->sink.reasoning(x->ctx, s, n);
}

void unit_set_text(struct dialect_decoder *x, struct unit *u, const char *s, size_t n)
{
	if (!u->text.len) {
		unit_add(x, u, s, n);
		return;
	}
	if (!n)
		return;
	x->received -= u->text.len;
	buf_reset(&u->text);
	u->scanned = u->depth = 0;
	u->inside = u->escaped = false;
	if (x->received + n > ANSWER_MAX)
		decoder_fail(x, "protocol", false, "the answer is larger than %u bytes", ANSWER_MAX);
	else {
		x->received += n;
		buf_append(&u->text, s, n);
	}
}

void unit_add_string(struct dialect_decoder *x, struct unit *u, const json_t *string_or_other)
{
	if (json_is_string(string_or_other))
		unit_add(x, u, json_string_value(string_or_other), json_string_length(string_or_other));
}

void unit_set_name(struct dialect_decoder *x, struct unit *u, const char *name_or_null)
{
	if (u->name || !name_or_null || !*name_or_null)
		return;
	u->name = mem_strndup(name_or_null, CALL_NAME_MAX + 1);
	if (x->sink.call && strlen(u->name) <= CALL_NAME_MAX)
		x->sink.call(x->ctx, u->name);
}

void unit_set_id(struct unit *u, const char *id_or_null)
{
	if (!u->id && id_or_null && *id_or_null && strlen(id_or_null) <= CALL_ID_MAX)
		u->id = mem_strdup(id_or_null);
}

void unit_set_raw(struct unit *u, const char *key, const json_t *value_or_null)
{
	if (!value_or_null || json_is_null(value_or_null) ||
	    (json_is_string(value_or_null) && !json_string_length(value_or_null)))
		return;
	if (!u->raw)
		u->raw = json_object();
	json_object_set(u->raw, key, (json_t *)value_or_null);
}

bool unit_is_whole(struct unit *u)
{
	for (; u->scanned < u->text.len; u->scanned++) {
		char c = u->text.data[u->scanned];
		if (u->escaped)
			u->escaped = false;
		else if (u->inside && c == '\\')
			u->escaped = true;
		else if (c == '"')
			u->inside = !u->inside;
		else if (!u->inside && (c == '{' || c == '['))
			u->depth++;
		else if (!u->inside && (c == '}' || c == ']') && u->depth)
			u->depth--;
	}
	const char *text = buf_cstr(&u->text);
	return text[strspn(text, " \t\r\n")] == '{' && text[u->text.len - 1] == '}' && !u->depth && !u->inside;
}

void units_end(struct dialect_decoder *x)
{
	for (size_t i = 0; i < x->nunits; i++)
		x->units[i]->ended = true;
}

void units_end_text(struct dialect_decoder *x)
{
	for (size_t i = 0; x->terminal && i < x->nunits; i++)
		x->units[i]->ended |= x->units[i]->kind == UNIT_TEXT;
}

static void unit_free(struct unit *u)
{
	buf_done(&u->text);
	free(u->id);
	free(u->name);
	json_decref(u->raw);
	free(u);
}

/* ---- what event functions report ---- */

void decoder_stop(struct dialect_decoder *x, const struct stop_word *words, size_t n, const char *word)
{
	headers_copy(x->native_stop, sizeof(x->native_stop), word);
	x->stop = DIALECT_STOP_DONE;
	for (size_t i = 0; i < n; i++)
		if (strcmp(words[i].word, word) == 0)
			x->stop = words[i].stop;
}

void decoder_fail(struct dialect_decoder *x, const char *category, bool retryable, const char *fmt, ...)
{
	buf_auto struct buf message = BUF_INIT;
	va_list ap;

	if (x->failure.category[0])
		return;
	va_start(ap, fmt);
	buf_vprintf(&message, fmt, ap);
	va_end(ap);
	snprintf(x->failure.category, sizeof(x->failure.category), "%s", category);
	x->failure.retryable = retryable;
	failure_message(&x->failure, message.data, message.len);
}

void decoder_fail_error(struct dialect_decoder *x, const json_t *error)
{
	const char *id = json_get_text(error, "request_id");

	if (!x->failure.category[0])
		failure_classify(x->status, x->headers, error, &x->failure);
	if (!x->request_id[0])
		headers_copy(x->request_id, sizeof(x->request_id), id);
}

void decoder_arguments(const json_t *string_or_object, struct buf *out)
{
	if (json_is_string(string_or_object))
		buf_append(out, json_string_value(string_or_object), json_string_length(string_or_object));
	else if (json_is_object(string_or_object)) {
		mem_auto char *text = json_dumps(string_or_object, JSON_COMPACT);
		buf_str(out, text);
	}
}

bool decoder_count(const json_t *object, const char *key, uint64_t *ret)
{
	const json_t *v = json_object_get(object, key);

	if (!json_is_number(v) || json_number_value(v) < 0 || json_number_value(v) > 1e15)
		return false;
	*ret = (uint64_t)json_number_value(v);
	return true;
}

static bool hex4(const char *s, const char *end, unsigned *ret)
{
	*ret = 0;
	for (int i = 0; i < 4; i++, s++) {
		const char *digit = s < end && *s ? strchr("0123456789abcdef0123456789ABCDEF", *s) : NULL;
		if (!digit)
			return false;
		*ret = *ret * 16 + (unsigned)((digit - "0123456789abcdef0123456789ABCDEF") % 16);
	}
	return true;
}

/* One escape sequence of a string; U+FFFD for NUL and half surrogates. Returns its length. */
static size_t repair_escape(const char *p, const char *end, struct buf *out)
{
	unsigned c, low;

	if (end - p < 2 || p[1] != 'u' || !hex4(p + 2, end, &c)) {
		bool whole = end - p >= 2 && p[1] && text_utf8_len(p + 1, (size_t)(end - p - 1)) == 1;
		buf_append(out, p, whole ? 2 : 1);
		return whole ? 2 : 1;
	}
	if (c >= 0xd800 && c < 0xdc00 && end - p >= 12 && p[6] == '\\' && p[7] == 'u' && hex4(p + 8, end, &low) &&
	    low >= 0xdc00 && low < 0xe000) {
		buf_append(out, p, 12);
		return 12;
	}
	buf_append(out, c == 0 || (c >= 0xd800 && c < 0xe000) ? "\\ufffd" : p, 6);
	return 6;
}

/* A number; an integer that json_int_t cannot hold becomes a real. Returns its length. */
static size_t repair_number(const char *p, const char *end, struct buf *out)
{
	size_t n = 0;

	while (p + n < end && p[n] && strchr("-+.0123456789eE", p[n]))
		n++;
	mem_auto char *text = mem_strndup(p, n);
	errno = 0;
	(void)strtoll(text, NULL, 10);
	buf_printf(out, "%s%s", text, errno == ERANGE && !strpbrk(text, ".eE") ? ".0" : "");
	return n;
}

/*
 * The same JSON without what jansson refuses and models and servers write: in strings, control characters are escaped,
 * and what is not text becomes U+FFFD; integers beyond 64 bits are rounded, as most parsers do.
 */
static void repair_json(const char *p, size_t n, struct buf *out)
{
	const char *end = p + n;
	bool inside = false; /* a string */

	while (p < end) {
		size_t len = text_utf8_len(p, (size_t)(end - p));
		if (!len || *p == '\0') {
			buf_str(out, "\xef\xbf\xbd");
			p++;
		} else if (*p == '\\')
			p += repair_escape(p, end, out);
		else if (!inside && (*p == '-' || isdigit((unsigned char)*p)))
			p += repair_number(p, end, out);
		else if (inside && (unsigned char)*p < 0x20)
			buf_printf(out, "\\u%04x", (unsigned)*p++);
		else {
			inside ^= *p == '"';
			buf_append(out, p, len);
			p += len;
		}
	}
}

static bool is_reasonable(const char *text, size_t n)
{
	size_t depth = 0, containers = 0;
	bool inside = false; /* a string */

	for (size_t i = 0; i < n; i++) {
		char c = text[i];
		if (inside && c == '\\')
			i++;
		else if (c == '"')
			inside = !inside;
		else if (!inside && (c == '{' || c == '[')) {
			if (++depth > DEPTH_MAX || ++containers > CONTAINERS_MAX)
				return false;
		} else if (!inside && (c == '}' || c == ']') && depth)
			depth--;
	}
	return true;
}

/* *ret_why: what is wrong with it, or "" if it may only be incomplete. */
static json_t *parse_text(const char *text, size_t n, char ret_why[JSON_ERROR_TEXT_LENGTH])
{
	json_error_t e;

	*ret_why = '\0';
	if (!is_reasonable(text, n))
		return NULL;
	json_t *v = json_loadb(text, n, JSON_DECODE_ANY, NULL);

	if (!v) {
		buf_auto struct buf repaired = BUF_INIT;
		repair_json(text, n, &repaired);
		v = json_loadb(buf_cstr(&repaired), repaired.len, JSON_DECODE_ANY, &e);
		if (!v && json_error_code(&e) != json_error_premature_end_of_input) {
			buf_auto struct buf clean = BUF_INIT;
			text_sanitize_line(e.text, strlen(e.text), &clean);
			snprintf(ret_why, JSON_ERROR_TEXT_LENGTH, "%s", buf_cstr(&clean));
		}
	}
	return v;
}

/*
 * JSON text from outside, or NULL. What jansson refuses but models and providers write is accepted: NUL, half
 * surrogates and broken UTF-8 become U+FFFD, control characters stay, and integers beyond 64 bits become reals. Text
 * that is nested too deeply, or would need too much memory, is refused.
 */
static json_t *decoder_parse(const char *text, size_t n)
{
	char why[JSON_ERROR_TEXT_LENGTH];

	return parse_text(text, n, why);
}

/* ---- the stream ---- */

static void take_object(struct dialect_decoder *x, const json_t *event)
{
	const json_t *error = json_object_get(event, "error");

	x->events++;
	if (json_text_is(event, "type", "error") || json_is_object(error) ||
	    (json_is_string(error) && json_string_length(error)))
		decoder_fail_error(x, event);
	else
		x->codec->event(x, event);
}

static void take_event(void *ctx, const char *data, size_t n)
{
	struct dialect_decoder *x = ctx;

	if (x->failure.category[0] && !strstr(data, "usage"))
		return; /* nothing after a failure counts, except for what it cost */
	if (strncmp(data, DONE, strlen(DONE)) == 0 && !data[strlen(DONE) + strspn(data + strlen(DONE), " \t")]) {
		x->events++;
		return;
	}
	json_t *event = decoder_parse(data, n);
	if (json_is_object(event))
		take_object(x, event);
	else if (!x->ending) {
		x->events++;
		decoder_fail(x, "protocol", true, "malformed event in the stream: %.200s", data);
	}
	json_decref(event);
}

struct dialect_decoder *decoder_new(const struct dialect_codec *codec, const struct dialect_sink *sink_or_null,
				    void *ctx)
{
	struct dialect_decoder *x = mem_zalloc(1, sizeof(*x));

	x->codec = codec;
	if (sink_or_null)
		x->sink = *sink_or_null;
	x->ctx = ctx;
	x->usage.cost_usd = -1;
	sse_init(&x->sse, EVENT_MAX);
	return x;
}

void dialect_decoder_head(struct dialect_decoder *x, int status, const json_t *headers)
{
	x->status = status;
	x->headers = json_incref((json_t *)headers);
	headers_request_id(headers, x->request_id, sizeof(x->request_id));
}

static bool is_success(const struct dialect_decoder *x) { return x->status >= 200 && x->status < 300; }

void dialect_decoder_feed(struct dialect_decoder *x, const void *p, size_t n)
{
	size_t max = x->codec->array && is_success(x) ? EVENT_MAX : BODY_MAX;

	if (!x->events && x->body.len < max)
		buf_append(&x->body, p, n < max - x->body.len ? n : max - x->body.len);
	if (is_success(x))
		sse_feed(&x->sse, p, n, take_event, x);
}

/* ---- the answer ---- */

/* A server that ignores that events are wanted sends them all in one array, also an error. */
static void take_array(struct dialect_decoder *x)
{
	const char *body = buf_cstr(&x->body);
	const bool found = x->codec->array && is_success(x) && !x->events && body[strspn(body, " \t\r\n")] == '[';
	json_auto_t *events = found ? decoder_parse(body, x->body.len) : NULL;
	const json_t *event;
	size_t i;

	json_array_foreach (events, i, event)
		if (json_is_object(event) && !x->failure.category[0])
			take_object(x, event);
}

/* A response without any event: an error, a proxy's page, nothing. */
static void explain_body(struct dialect_decoder *x)
{
	const char *body = buf_cstr(&x->body);
	json_t *json = decoder_parse(body, x->body.len);
	bool is_error = json_object_get(json, "error") || json_is_array(json) || json_text_is(json, "object", "error");

	if (!x->status)
		decoder_fail(x, "protocol", true, "no response arrived");
	else if (!is_success(x) && (json_is_object(json) || json_is_array(json)))
		decoder_fail_error(x, json);
	else if (!is_success(x))
		failure_from_text(x->status, x->headers, body, x->body.len, &x->failure);
	else if (is_error)
		decoder_fail_error(x, json);
	else if (json)
		decoder_fail(x, "protocol", false, "the response is not an event stream but JSON: %.200s", body);
	else if (failure_is_html(body, x->body.len))
		decoder_fail(x, "protocol", false,
			     "the response is a web page; check the base URL and the proxy on the way");
	else if (!body[strspn(body, " \t\r\n")])
		decoder_fail(x, "protocol", true, "the response is empty");
	else
		decoder_fail(x, "protocol", true, "the response has no events: %.200s", body);
	json_decref(json);
}

static bool is_truncated(enum dialect_stop stop)
{
	return stop == DIALECT_STOP_MAX_TOKENS || stop == DIALECT_STOP_CONTEXT_FULL || stop == DIALECT_STOP_FILTERED ||
	       stop == DIALECT_STOP_REFUSAL;
}

/* The arguments as an object; NULL if they are not one. Some servers send null, or the object's text in a string. */
static json_t *parse_arguments(const struct unit *u, char ret_why[JSON_ERROR_TEXT_LENGTH])
{
	const char *text = buf_cstr(&u->text);

	*ret_why = '\0';
	if (!text[strspn(text, " \t\r\n")])
		return json_object();
	json_t *v = parse_text(text, u->text.len, ret_why);
	const bool quoted = json_is_string(v);
	if (quoted) {
		json_t *inner = decoder_parse(json_string_value(v), json_string_length(v));
		json_decref(v);
		v = inner;
	}
	if (json_is_null(v)) {
		json_decref(v);
		v = json_object();
	}
	if (json_is_object(v))
		return v;
	if (v || quoted)
		snprintf(ret_why, JSON_ERROR_TEXT_LENGTH, "it is %s",
			 json_is_array(v)          ? "an array"
			 : json_is_string(v) || !v ? "a string"
			 : json_is_number(v)       ? "a number"
						   : "a boolean");
	json_decref(v);
	return NULL;
}

/* The provider's id for the first call that has it, else one that no other call has. */
static json_t *make_id(const struct unit *u, struct strmap *owners)
{
	char made[32];

	if (u->id && strmap_get(owners, u->id) == u)
		return json_string(u->id);
	for (size_t n = 1; n == 1 || strmap_get(owners, made); n++)
		snprintf(made, sizeof(made), "call_%zu", n);
	strmap_put(owners, made, owners);
	return json_string(made);
}

static void add_call(struct dialect_decoder *x, size_t at, struct strmap *owners, json_t *blocks)
{
	const struct unit *u = x->units[at];
	bool cut = is_truncated(x->stop) && x->terminal;

	/* A call that was cut may parse by accident (nothing = no arguments): the last one is never believed. */
	if (!u->ended || (cut && at + 1 == x->nunits)) {
		if (!cut && x->terminal)
			decoder_fail(x, "protocol", true, "tool call %s did not end",
				     u->name ? u->name : "without a name");
		return;
	}
	char why[JSON_ERROR_TEXT_LENGTH];
	json_t *arguments = parse_arguments(u, why);
	/* The model's mistake, which it can correct. What was cut off is not, and the last call may have been. */
	const bool malformed = !arguments && *why && !cut;
	if (malformed)
		arguments = json_object();
	if (!arguments || !u->name || strlen(u->name) > CALL_NAME_MAX) {
		if (!cut && (!u->name || arguments))
			decoder_fail(x, "protocol", true, "a tool call has no name, or one that is too long");
		else if (!cut)
			decoder_fail(x, "protocol", true, "the arguments of tool call %s are not a JSON object",
				     u->name);
		json_decref(arguments);
		return;
	}
	json_t *block = json_pack("{s:s, s:o, s:s, s:o}", "type", "tool_call", "id", make_id(u, owners), "name",
				  u->name, "arguments", arguments);
	if (u->raw)
		json_object_set(block, "raw", u->raw);
	if (malformed) {
		json_t *text = json_string(why); /* NULL if a character of it is cut */
		json_object_set_new(block, "malformed", text ? text : json_string("invalid syntax"));
	}
	json_array_append_new(blocks, block);
}

static void add_text(struct dialect_decoder *x, const struct unit *u, json_t *blocks, struct buf *partial)
{
	if (!u->ended && u->kind == UNIT_TEXT)
		buf_append(partial, buf_cstr(&u->text), u->text.len);
	if (!u->ended || (!u->text.len && !u->raw))
		return;
	json_t *block = json_pack("{s:s, s:s%}", "type", u->kind == UNIT_TEXT ? "text" : "reasoning", "text",
				  buf_cstr(&u->text), u->text.len);
	if (u->raw)
		json_object_set(block, "raw", u->raw);
	json_array_append_new(blocks, block);
}

static void make_blocks(struct dialect_decoder *x, struct dialect_answer *ret)
{
	struct strmap owners = STRMAP_INIT; /* of ids */
	buf_auto struct buf partial = BUF_INIT;
	bool calls = false;

	for (size_t i = 0; i < x->nunits; i++)
		if (x->units[i]->id && !strmap_get(&owners, x->units[i]->id))
			strmap_put(&owners, x->units[i]->id, x->units[i]);
	for (size_t i = 0; i < x->nunits; i++) {
		if (x->units[i]->kind == UNIT_CALL) {
			size_t before = json_array_size(ret->blocks);
			add_call(x, i, &owners, ret->blocks);
			calls |= json_array_size(ret->blocks) > before;
		} else if (x->units[i]->kind != UNIT_OTHER)
			add_text(x, x->units[i], ret->blocks, &partial);
	}
	strmap_done(&owners);
	if (partial.len)
		ret->partial_text = buf_take(&partial);
	if (x->refused && !calls)
		x->stop = DIALECT_STOP_REFUSAL;
	if (!is_truncated(x->stop) && x->stop != DIALECT_STOP_PAUSED)
		x->stop = calls ? DIALECT_STOP_CALLS : DIALECT_STOP_DONE; /* by the calls: the words are unreliable */
}

void dialect_decoder_finish(struct dialect_decoder *x, struct dialect_answer *ret)
{
	x->ending = true;
	if (is_success(x))
		sse_finish(&x->sse, take_event, x);
	if (x->sse.too_large)
		decoder_fail(x, "protocol", false, "an event in the stream is larger than %u bytes", EVENT_MAX);
	take_array(x);
	if (!x->events)
		explain_body(x);
	else if (x->codec->end)
		x->codec->end(x);
	*ret = (struct dialect_answer){ .blocks = json_array() };
	make_blocks(x, ret);
	if (!x->terminal)
		decoder_fail(x, "protocol", true, "the stream ended without %s", x->codec->ending);
	ret->complete = x->terminal && !x->failure.category[0];
	ret->stop = x->stop;
	memcpy(ret->native_stop, x->native_stop, sizeof(ret->native_stop));
	if (is_success(x) && !x->reported) {
		uint64_t estimate = (x->received + 3) / 4;
		x->usage.estimated = true;
		if (x->usage.output < estimate)
			x->usage.output = estimate;
	}
	ret->usage = x->usage;
	ret->failure = x->failure;
	ret->limits = headers_limits(x->headers);
	memcpy(ret->request_id, x->request_id, sizeof(ret->request_id));
}

void dialect_decoder_free(struct dialect_decoder *x)
{
	if (!x)
		return;
	for (size_t i = 0; i < x->nunits; i++)
		unit_free(x->units[i]);
	free(x->units);
	sse_done(&x->sse);
	buf_done(&x->body);
	json_decref(x->headers);
	free(x);
}
