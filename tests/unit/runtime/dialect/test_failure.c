#include "runtime/dialect/headers.h"

#include "tests/unit/runtime/dialect/dialect_rig.h"

static struct dialect_answer a;

static void done(void) { dialect_answer_done(&a); }

static void decode(enum dialect d, int status, const char *headers, const char *body)
{
	buf_auto struct buf sink = BUF_INIT;

	rig_decode_with(d, status, headers, body, &sink, &a);
	ck_assert(!a.complete);
	ck_assert_uint_eq(sink.len, 0);
}

#define R true
#define N false

static const struct {
	enum dialect d;
	int status;
	const char *headers, *body, *category;
	bool retryable;
	uint64_t after;
} CASES[] = {
	{ DIALECT_ANTHROPIC, 400, "{}",
	  "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"max_tokens: required\"}}",
	  "invalid_request", N, 0 },
	{ DIALECT_ANTHROPIC, 400, "{}",
	  "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 210000 "
	  "tokens > 200000 maximum\"}}",
	  "context_too_long", N, 0 },
	{ DIALECT_ANTHROPIC, 400, "{}",
	  "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"input length and "
	  "`max_tokens` exceed context limit: 1 + 2 > 2\"}}",
	  "context_too_long", N, 0 },
	{ DIALECT_ANTHROPIC, 400, "{}",
	  "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"Your credit balance is too "
	  "low\"}}",
	  "billing", N, 0 },
	{ DIALECT_ANTHROPIC, 401, "{}",
	  "{\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"invalid x-api-key\"}}",
	  "authentication", N, 0 },
	{ DIALECT_ANTHROPIC, 402, "{}", "{\"error\":{\"type\":\"billing_error\",\"message\":\"pay\"}}", "billing", N,
	  0 },
	{ DIALECT_ANTHROPIC, 403, "{}", "{\"error\":{\"type\":\"permission_error\",\"message\":\"no\"}}", "permission",
	  N, 0 },
	{ DIALECT_ANTHROPIC, 404, "{}", "{\"error\":{\"type\":\"not_found_error\",\"message\":\"model: x\"}}",
	  "not_found", N, 0 },
	{ DIALECT_ANTHROPIC, 413, "{}",
	  "{\"error\":{\"type\":\"request_too_large\",\"message\":\"Request exceeds the maximum size\"}}",
	  "context_too_long", N, 0 },
	{ DIALECT_ANTHROPIC, 429, "{\"retry-after\":\"12\"}",
	  "{\"error\":{\"type\":\"rate_limit_error\",\"message\":\"would exceed 40000 input tokens per minute\"}}",
	  "rate_limit", R, 12000 },
	{ DIALECT_ANTHROPIC, 429, "{\"retry-after\":\"12\",\"retry-after-ms\":\"1500.5\"}",
	  "{\"error\":{\"type\":\"rate_limit_error\",\"message\":\"x\"}}", "rate_limit", R, 1501 },
	{ DIALECT_ANTHROPIC, 500, "{}", "{\"error\":{\"type\":\"api_error\",\"message\":\"Internal server error\"}}",
	  "server", R, 0 },
	{ DIALECT_ANTHROPIC, 500, "{\"x-should-retry\":\"false\"}",
	  "{\"error\":{\"type\":\"api_error\",\"message\":\"x\"}}", "server", N, 0 },
	{ DIALECT_ANTHROPIC, 504, "{}", "{\"error\":{\"type\":\"timeout_error\",\"message\":\"x\"}}", "timeout", R, 0 },
	{ DIALECT_ANTHROPIC, 529, "{}", "{\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}",
	  "overloaded", R, 0 },
	{ DIALECT_OPENAI_RESPONSES, 400, "{}",
	  "{\"error\":{\"message\":\"Your input exceeds the context window of this "
	  "model.\",\"type\":\"invalid_request_error\",\"param\":\"input\",\"code\":\"context_length_exceeded\"}}",
	  "context_too_long", N, 0 },
	{ DIALECT_OPENAI_RESPONSES, 429, "{}",
	  "{\"error\":{\"message\":\"You exceeded your current "
	  "quota\",\"type\":\"insufficient_quota\",\"param\":null,\"code\":\"insufficient_quota\"}}",
	  "billing", N, 0 },
	{ DIALECT_OPENAI_RESPONSES, 429, "{}",
	  "{\"error\":{\"message\":\"Rate limit reached for x in organization y on tokens per min (TPM): Limit 30000. "
	  "Please try again in 6m0.5s.\",\"type\":\"tokens\",\"code\":\"rate_limit_exceeded\"}}",
	  "rate_limit", R, 360500 },
	{ DIALECT_OPENAI_CHAT, 401, "{}",
	  "{\"error\":{\"message\":\"Incorrect API "
	  "key\",\"type\":\"invalid_request_error\",\"code\":\"invalid_api_key\"}}",
	  "authentication", N, 0 },
	{ DIALECT_OPENAI_CHAT, 400, "{}",
	  "{\"object\":\"error\",\"message\":\"This model's maximum context length is 4096 "
	  "tokens.\",\"type\":\"BadRequestError\",\"code\":400}",
	  "context_too_long", N, 0 },
	{ DIALECT_OPENAI_CHAT, 400, "{}",
	  "{\"error\":{\"code\":400,\"message\":\"the request exceeds the available context "
	  "size\",\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":5000,\"n_ctx\":4096}}",
	  "context_too_long", N, 0 },
	{ DIALECT_OPENAI_CHAT, 413, "{}",
	  "{\"error\":{\"message\":\"Request too large for model on tokens per minute (TPM): Limit 6000, Requested "
	  "9000, please reduce your message size and try "
	  "again.\",\"type\":\"tokens\",\"code\":\"rate_limit_exceeded\"}}",
	  "context_too_long", N, 0 },
	{ DIALECT_OPENAI_CHAT, 400, "{}",
	  "{\"error\":{\"message\":\"Provider returned "
	  "error\",\"code\":400,\"metadata\":{\"raw\":\"{\\\"error\\\":\\\"prompt is too long\\\"}\"}}}",
	  "context_too_long", N, 0 },
	{ DIALECT_OPENAI_CHAT, 404, "{}", "{\"error\":\"model 'x' not found\"}", "not_found", N, 0 },
	{ DIALECT_OPENAI_CHAT, 422, "{}", "{\"detail\":[{\"msg\":\"extra fields not permitted\"}]}", "invalid_request",
	  N, 0 },
	{ DIALECT_OPENAI_CHAT, 503, "{}",
	  "{\"error\":{\"code\":503,\"message\":\"Loading model\",\"type\":\"unavailable_error\"}}", "overloaded", R,
	  0 },
	{ DIALECT_OPENAI_CHAT, 200, "{}",
	  "{\"error\":{\"message\":\"Rate limited. Try again in 20 seconds\",\"code\":429}}", "rate_limit", R, 20000 },
	{ DIALECT_OPENAI_CHAT, 200, "{}",
	  "{\n  \"error\": {\n\n    \"message\": \"no such model\",\n    \"code\": 404\n  }\n}\n", "not_found", N, 0 },
	{ DIALECT_GEMINI, 400, "{}",
	  "[{\"error\":{\"code\":400,\"message\":\"API key not valid. Please pass a valid API "
	  "key.\",\"status\":\"INVALID_ARGUMENT\",\"details\":[{\"reason\":\"API_KEY_INVALID\"}]}}]",
	  "authentication", N, 0 },
	{ DIALECT_GEMINI, 400, "{}",
	  "{\"error\":{\"code\":400,\"message\":\"The input token count (1200000) exceeds the maximum number of tokens "
	  "allowed (1048576).\",\"status\":\"INVALID_ARGUMENT\"}}",
	  "context_too_long", N, 0 },
	{ DIALECT_GEMINI, 429, "{}",
	  "{\"error\":{\"code\":429,\"message\":\"You exceeded your current quota, please check your plan and billing "
	  "details.\",\"status\":\"RESOURCE_EXHAUSTED\",\"details\":[{\"@type\":\"x\"},{\"retryDelay\":\"17s\"}]}}",
	  "rate_limit", R, 17000 },
	{ DIALECT_GEMINI, 500, "{}", "{\"error\":{\"code\":500,\"message\":\"x\",\"status\":\"INTERNAL\"}}", "server",
	  R, 0 },
	/* not the provider itself */
	{ DIALECT_ANTHROPIC, 502, "{}", "<html><head><title>502 Bad Gateway</title></head></html>", "server", R, 0 },
	{ DIALECT_ANTHROPIC, 503,
	  "{\"retry-after\":\"Mon, 16 Nov 2026 10:00:30 GMT\",\"date\":\"Mon, 16 Nov 2026 10:00:00 GMT\"}", "",
	  "overloaded", R, 30000 },
	{ DIALECT_ANTHROPIC, 503,
	  "{\"retry-after\":\"Monday, 16-Nov-26 10:00:30 GMT\",\"date\":\"Mon, 16 Nov 2026 10:00:00 GMT\"}", "",
	  "overloaded", R, 30000 },
	{ DIALECT_ANTHROPIC, 503,
	  "{\"retry-after\":\"Fri Nov  6 10:00:30 2026\",\"date\":\"Fri Nov  6 10:00:00 2026\"}", "", "overloaded", R,
	  30000 },
	{ DIALECT_ANTHROPIC, 407, "{}", "proxy authentication required", "invalid_request", N, 0 },
	{ DIALECT_ANTHROPIC, 302, "{\"location\":\"https://elsewhere.example/\"}", "", "protocol", N, 0 },
	{ DIALECT_ANTHROPIC, 200, "{}", "  <!DOCTYPE html><html><body>Log in</body></html>", "protocol", N, 0 },
	{ DIALECT_OPENAI_CHAT, 200, "{}", "{\"id\":\"x\",\"choices\":[]}", "protocol", N, 0 },
	{ DIALECT_OPENAI_CHAT, 200, "{}", "", "protocol", R, 0 },
	{ DIALECT_OPENAI_CHAT, 200, "{}", " \r\n\r\n", "protocol", R, 0 },
	{ DIALECT_OPENAI_CHAT, 200, "{}", "upstream connect error", "protocol", R, 0 },
	{ DIALECT_OPENAI_CHAT, 200, "{}", "data: {\"cho", "protocol", R, 0 },
	{ DIALECT_GEMINI, 0, "{}", "", "protocol", R, 0 },
};

START_TEST(every_failure_has_its_category)
{
	for (size_t i = 0; i < countof(CASES); i++) {
		decode(CASES[i].d, CASES[i].status, CASES[i].headers, CASES[i].body);
		const struct dialect_failure *f = &a.failure;
		ck_assert_msg(strcmp(f->category, CASES[i].category) == 0 && f->retryable == CASES[i].retryable &&
				      f->retry_after_ms == CASES[i].after && *f->message,
			      "%s: %s, retryable %d after %lu ms: %s", CASES[i].body, f->category, f->retryable,
			      (unsigned long)f->retry_after_ms, f->message);
		ck_assert_uint_eq(json_array_size(a.blocks), 0);
		dialect_answer_done(&a);
	}
}
END_TEST

START_TEST(messages_are_one_line_without_control_characters)
{
	buf_auto struct buf body = BUF_INIT;

	decode(DIALECT_ANTHROPIC, 502, "{}", "<html><title>Bad\\nGateway</title>");
	ck_assert(strstr(a.failure.message, "502") && strstr(a.failure.message, "Gateway"));
	dialect_answer_done(&a);
	decode(DIALECT_ANTHROPIC, 400, "{}", "{\"error\":{\"message\":\"a\\nb\\u001b[31m\"}}");
	ck_assert(!strpbrk(a.failure.message, "\n\033"));
	dialect_answer_done(&a);
	buf_str(&body, "{\"error\":{\"message\":\"");
	for (int i = 0; i < 400; i++)
		buf_str(&body, "\xe2\x82\xac");
	buf_str(&body, "\"}}");
	decode(DIALECT_ANTHROPIC, 400, "{}", body.data);
	ck_assert_uint_eq(strlen(a.failure.message) % 3, 0);
	dialect_answer_done(&a);
	decode(DIALECT_OPENAI_CHAT, 302, "{\"location\":\"https://elsewhere.example/\"}", "");
	ck_assert(strstr(a.failure.message, "https://elsewhere.example/"));
}
END_TEST

START_TEST(limits_and_ids_come_from_headers)
{
	decode(DIALECT_ANTHROPIC, 429,
	       "{\"date\":\"Mon, 16 Nov 2026 10:00:00 "
	       "GMT\",\"request-id\":\"req_1\",\"anthropic-ratelimit-requests-limit\":\"50\","
	       "\"anthropic-ratelimit-requests-remaining\":\"49\",\"anthropic-ratelimit-requests-reset\":\"2026-11-"
	       "16T10:00:02Z\","
	       "\"anthropic-ratelimit-input-tokens-limit\":\"30000\",\"anthropic-ratelimit-input-tokens-remaining\":"
	       "\"0\"}",
	       "");
	rig_assert_json(a.limits, "[{'kind':'requests','limit':50,'remaining':49,'resetMs':2000},{'kind':'input-tokens'"
				  ",'limit':30000,'remaining':0}]");
	ck_assert_str_eq(a.request_id, "req_1");
	dialect_answer_done(&a);
	decode(DIALECT_OPENAI_CHAT, 429,
	       "{\"x-request-id\":\"req_2\",\"x-ratelimit-limit-requests\":\"500\",\"x-ratelimit-remaining-requests\":"
	       "\"499\",\"x-ratelimit-reset-requests\":\"120ms\","
	       "\"x-ratelimit-limit-tokens\":\"30000\",\"x-ratelimit-remaining-tokens\":\"29000\",\"x-ratelimit-reset-"
	       "tokens\":\"6m0s\"}",
	       "");
	rig_assert_json(a.limits, "[{'kind':'requests','limit':500,'remaining':499,'resetMs':120},{'kind':'tokens','"
				  "limit':30000,'remaining':29000,'resetMs':360000}]");
	ck_assert_str_eq(a.request_id, "req_2");
	dialect_answer_done(&a);
	decode(DIALECT_OPENAI_CHAT, 429, "{\"x-ratelimit-limit-tokens\":\"-1\",\"x-ratelimit-remaining-tokens\":\"0\"}",
	       "");
	ck_assert_ptr_null(a.limits);
}
END_TEST

START_TEST(durations_are_parsed)
{
	static const struct {
		const char *text;
		bool valid;
		uint64_t ms;
	} TEXTS[] = { { "6m0s", true, 360000 },
		      { "1.5s", true, 1500 },
		      { "20 seconds", true, 20000 },
		      { "7", true, 7000 },
		      { "250ms", true, 250 },
		      { "1h2m", true, 3720000 },
		      { "soon", false, 0 },
		      { "", false, 0 },
		      { "99999999999999999999d", true, 2592000000 },
		      { "2 minutes.", true, 120000 },
		      { "3 monkeys", true, 3000 } };

	for (size_t i = 0; i < countof(TEXTS); i++) {
		uint64_t ms = 0;
		ck_assert_int_eq(headers_duration_ms(TEXTS[i].text, &ms), TEXTS[i].valid);
		ck_assert_msg(ms == TEXTS[i].ms, "%s: %lu", TEXTS[i].text, (unsigned long)ms);
	}
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = { { "failure", NULL, done, 120,
					      SUITE_TESTS(every_failure_has_its_category,
							  messages_are_one_line_without_control_characters,
							  limits_and_ids_come_from_headers, durations_are_parsed) } };

	return suite_run_cases("failure", cases, 1);
}
