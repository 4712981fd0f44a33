#include "runtime/dialect/failure.h"

#include "runtime/base/buf.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/dialect/headers.h"

#include <stdio.h>
#include <string.h>

#define SLOW_DOWN_MS 15000 /* OpenAI asks to reduce the rate and gives no time */

enum retry { NEVER, RETRY };

/* Types, codes and statuses of all providers. Names are lower case. */
static const struct {
	const char *code, *category;
	enum retry retry;
} CODES[] = {
	/* Anthropic */
	{ "invalid_request_error", "invalid_request", NEVER },
	{ "authentication_error", "authentication", NEVER },
	{ "billing_error", "billing", NEVER },
	{ "permission_error", "permission", NEVER },
	{ "not_found_error", "not_found", NEVER },
	{ "request_too_large", "context_too_long", NEVER },
	{ "rate_limit_error", "rate_limit", RETRY },
	{ "api_error", "server", RETRY },
	{ "timeout_error", "timeout", RETRY },
	{ "overloaded_error", "overloaded", RETRY },
	/* OpenAI and those that follow it */
	{ "context_length_exceeded", "context_too_long", NEVER },
	{ "string_above_max_length", "context_too_long", NEVER },
	{ "insufficient_quota", "billing", NEVER },
	{ "billing_hard_limit_reached", "billing", NEVER },
	{ "billing_not_active", "billing", NEVER },
	{ "invalid_prompt", "content_filter", NEVER },
	{ "cyber_policy", "content_filter", NEVER },
	{ "content_filter", "content_filter", NEVER },
	{ "content_policy_violation", "content_filter", NEVER },
	{ "invalid_api_key", "authentication", NEVER },
	{ "account_deactivated", "permission", NEVER },
	{ "unsupported_country_region_territory", "permission", NEVER },
	{ "model_not_found", "not_found", NEVER },
	{ "deploymentnotfound", "not_found", NEVER },
	{ "rate_limit_exceeded", "rate_limit", RETRY },
	{ "server_is_overloaded", "overloaded", RETRY },
	{ "slow_down", "overloaded", RETRY },
	{ "server_error", "server", RETRY },
	{ "internal_server_error", "server", RETRY },
	/* llama.cpp */
	{ "exceed_context_size_error", "context_too_long", NEVER },
	{ "unavailable_error", "overloaded", RETRY },
	/* Gemini */
	{ "invalid_argument", "invalid_request", NEVER },
	{ "failed_precondition", "permission", NEVER },
	{ "out_of_range", "invalid_request", NEVER },
	{ "unauthenticated", "authentication", NEVER },
	{ "api_key_invalid", "authentication", NEVER },
	{ "permission_denied", "permission", NEVER },
	{ "not_found", "not_found", NEVER },
	{ "resource_exhausted", "rate_limit", RETRY },
	{ "internal", "server", RETRY },
	{ "unavailable", "overloaded", RETRY },
	{ "deadline_exceeded", "timeout", RETRY },
};

/* Ways to say it in a message only, in lower case. Not searched in rate limits: their messages speak of tokens, too. */
static const struct {
	const char *part, *category;
} MESSAGES[] = {
	{ "prompt is too long", "context_too_long" },
	{ "prompt too long", "context_too_long" },
	{ "input is too long", "context_too_long" },
	{ "exceed context limit", "context_too_long" },
	{ "context length", "context_too_long" },
	{ "context window", "context_too_long" },
	{ "context size", "context_too_long" },
	{ "context_length", "context_too_long" },
	{ "maximum model length", "context_too_long" },
	{ "maximum prompt length", "context_too_long" },
	{ "maximum number of tokens allowed", "context_too_long" },
	{ "reduce the length of the messages", "context_too_long" },
	{ "reduce your message size", "context_too_long" },
	{ "`max_new_tokens` must be", "context_too_long" },
	{ "request exceeds the maximum size", "context_too_long" },
	{ "credit balance", "billing" },
	{ "insufficient balance", "billing" },
	{ "insufficient credits", "billing" },
	{ "api key not valid", "authentication" },
};

static const struct {
	int status;
	const char *category;
	enum retry retry;
} STATUSES[] = {
	{ 401, "authentication", NEVER },   { 402, "billing", NEVER },    { 403, "permission", NEVER },
	{ 404, "not_found", NEVER },        { 408, "timeout", RETRY },    { 409, "server", RETRY },
	{ 413, "context_too_long", NEVER }, { 425, "server", RETRY },     { 429, "rate_limit", RETRY },
	{ 503, "overloaded", RETRY },       { 504, "timeout", RETRY },    { 522, "timeout", RETRY },
	{ 524, "timeout", RETRY },          { 529, "overloaded", RETRY },
};

static void set_category(struct dialect_failure *f, const char *category, enum retry retry)
{
	snprintf(f->category, sizeof(f->category), "%s", category);
	f->retryable = retry == RETRY;
}

void failure_message(struct dialect_failure *f, const char *text, size_t n)
{
	buf_auto struct buf line = BUF_INIT;

	text_sanitize_line(text, n, &line);
	size_t cut = text_utf8_cut(buf_cstr(&line), line.len < sizeof(f->message) ? line.len : sizeof(f->message) - 1);
	snprintf(f->message, sizeof(f->message), "%.*s", (int)cut, buf_cstr(&line));
}

static void from_status(int status, struct dialect_failure *f)
{
	for (size_t i = 0; i < countof(STATUSES); i++)
		if (STATUSES[i].status == status) {
			set_category(f, STATUSES[i].category, STATUSES[i].retry);
			return;
		}
	if (status >= 300 && status < 400)
		set_category(f, "protocol", NEVER); /* redirects are not followed: the key stays with its host */
	else if (status >= 400 && status < 500)
		set_category(f, "invalid_request", NEVER);
	else
		set_category(f, "server", RETRY);
}

static void from_code(const char *code, struct dialect_failure *f)
{
	for (size_t i = 0; i < countof(CODES); i++)
		if (strcasecmp(CODES[i].code, code) == 0) {
			set_category(f, CODES[i].category, CODES[i].retry);
			return;
		}
}

static void from_message(const char *message, struct dialect_failure *f)
{
	for (size_t i = 0; i < countof(MESSAGES); i++)
		if (strcasestr(message, MESSAGES[i].part)) {
			set_category(f, MESSAGES[i].category, NEVER);
			return;
		}
}

/* Categories that only say which side is to blame: the message's text may be more precise. */
static bool vague(const char *category)
{
	return strcmp(category, "invalid_request") == 0 || strcmp(category, "server") == 0 ||
	       strcmp(category, "permission") == 0;
}

/* "Please try again in 1.2s": the time after one of the usual phrases. */
static uint64_t retry_from_message(const char *message)
{
	static const char *const PHRASES[] = { "try again in ", "retry in ", "retry after ", "try again after " };
	uint64_t ms;

	for (size_t i = 0; i < countof(PHRASES); i++) {
		const char *at = strcasestr(message, PHRASES[i]);
		if (at && headers_duration_ms(at + strlen(PHRASES[i]), &ms))
			return ms;
	}
	return 0;
}

/* The provider's description: {"error":{…}}, {"error":"…"}, [{"error":…}], or the object itself. */
static const json_t *find_error(const json_t *error)
{
	if (json_is_array(error))
		error = json_array_get(error, 0);
	const json_t *inner = json_object_get(error, "error");
	return json_is_object(inner) || json_is_string(inner) ? inner : error;
}

static void gather_message(const json_t *error, struct buf *out)
{
	static const char *const KEYS[] = { "message", "detail", "error_description", "msg" };
	const char *raw = json_get_string(json_object_get(error, "metadata"),
					  "raw"); /* OpenRouter: its upstream's words */

	if (json_is_string(error))
		buf_str(out, json_string_value(error));
	for (size_t i = 0; i < countof(KEYS) && !out->len; i++) {
		const json_t *v = json_object_get(error, KEYS[i]);
		if (json_is_array(v)) /* FastAPI */
			v = json_object_get(json_array_get(v, 0), "msg");
		if (json_is_string(v))
			buf_str(out, json_string_value(v));
	}
	if (raw)
		buf_printf(out, "%s%s", out->len ? ": " : "", raw);
}

/* Gemini: {"details":[{"reason":"API_KEY_INVALID"},{"retryDelay":"17s"}]}. */
static void read_details(const json_t *error, struct dialect_failure *f)
{
	const json_t *row;
	size_t i;

	json_array_foreach (json_object_get(error, "details"), i, row) {
		uint64_t ms;
		if (headers_duration_ms(json_get_text(row, "retryDelay"), &ms) && f->retryable)
			f->retry_after_ms = ms;
		if (json_text_is(row, "reason", "API_KEY_INVALID"))
			set_category(f, "authentication", NEVER);
	}
}

static void apply_headers(const json_t *headers, struct dialect_failure *f)
{
	const char *should = json_get_text(headers, "x-should-retry");

	if (strcmp(should, "true") == 0 || strcmp(should, "false") == 0)
		f->retryable = *should == 't';
	uint64_t ms = headers_retry_after_ms(headers);
	if (ms && f->retryable)
		f->retry_after_ms = ms;
}

void failure_classify(int status, const json_t *headers, const json_t *error, struct dialect_failure *ret)
{
	static const char *const KEYS[] = { "type", "status", "code" }; /* the most specific last */
	buf_auto struct buf message = BUF_INIT;
	struct dialect_failure f = { 0 };

	error = find_error(error);
	if (status < 300)
		status = 0;
	json_int_t number = json_integer_value(json_object_get(error, "code"));
	if (!status && number >= 300 && number < 600)
		status = (int)number;
	from_status(status, &f);
	for (size_t i = 0; i < countof(KEYS); i++) {
		const char *code = json_get_text(error, KEYS[i]);
		if (!*code || strcmp(code, "error") == 0)
			continue;
		from_code(code, &f);
		headers_copy(f.code, sizeof(f.code), code);
	}
	gather_message(error, &message);
	if (vague(f.category))
		from_message(buf_cstr(&message), &f);
	if (status == 413) /* also where it is called a rate limit (Groq): the same request never succeeds */
		set_category(&f, "context_too_long", NEVER);
	if (f.retryable)
		f.retry_after_ms = retry_from_message(buf_cstr(&message));
	if (strcmp(f.code, "slow_down") == 0 || strcmp(f.code, "server_is_overloaded") == 0)
		f.retry_after_ms = SLOW_DOWN_MS;
	read_details(error, &f);
	apply_headers(headers, &f);
	if (!message.len && status)
		buf_printf(&message, "HTTP status %d without a description", status);
	else if (!message.len)
		buf_str(&message, "the provider reported an error without a description");
	failure_message(&f, message.data, message.len);
	*ret = f;
}

bool failure_is_html(const char *body, size_t n)
{
	while (n && strchr(" \t\r\n", *body))
		body++, n--;
	return n && *body == '<';
}

void failure_from_text(int status, const json_t *headers, const char *body, size_t n, struct dialect_failure *ret)
{
	buf_auto struct buf message = BUF_INIT;
	struct dialect_failure f = { 0 };
	const char *location = json_get_text(headers, "location");

	from_status(status, &f);
	if (status >= 300 && status < 400)
		buf_printf(&message, "HTTP status %d: redirects are not followed; set the base URL to %s", status,
			   *location ? location : "the address that the server means");
	else if (failure_is_html(body, n)) {
		const char *title = memmem(body, n, "<title>", 7);
		const char *end = title ? memmem(title, n - (size_t)(title - body), "</title>", 8) : NULL;
		buf_printf(&message, "HTTP status %d with a web page", status);
		if (end)
			buf_printf(&message, ": %.*s", (int)(end - title - 7), title + 7);
	} else {
		mem_auto char *text = mem_strndup(body, n);
		from_message(text, &f);
		buf_printf(&message, "HTTP status %d%s%s", status, n ? ": " : " with an empty body", text);
	}
	if (f.retryable)
		f.retry_after_ms = retry_from_message(buf_cstr(&message));
	apply_headers(headers, &f);
	failure_message(&f, message.data, message.len);
	*ret = f;
}
