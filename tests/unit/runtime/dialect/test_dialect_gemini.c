#include "tests/unit/runtime/dialect/dialect_rig.h"

#define USAGE                                                                                                   \
	"\"usageMetadata\":{\"promptTokenCount\":50,\"cachedContentTokenCount\":40,\"candidatesTokenCount\":7," \
	"\"thoughtsTokenCount\":5}"
#define CHUNK(parts)                                                                                          \
	"data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[" parts "]},\"index\":0}]," USAGE \
	",\"responseId\":\"r1\"}\r\n\r\n"
#define LAST(parts, reason)                                                                                         \
	"data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[" parts "]},\"finishReason\":\"" reason \
	"\"}]," USAGE "}\r\n\r\n"
#define TEXT(text) "{\"text\":\"" text "\"}"

static struct dialect_answer a;

static void done(void) { dialect_answer_done(&a); }

static const char *decode(const char *body) { return rig_decode(DIALECT_GEMINI, body, &a); }

START_TEST(thoughts_text_and_calls_are_decoded)
{
	const char *seen = decode(STREAM(
		CHUNK("{\"text\":\"Pondering\",\"thought\":true}"), CHUNK(TEXT("Let ")), CHUNK(TEXT("me")),
		CHUNK("{\"functionCall\":{\"name\":\"shell\",\"args\":{\"command\":\"ls\"},\"id\":\"f1\"},"
		      "\"thoughtSignature\":\"c2ln\"}"),
		LAST("{\"functionCall\":{\"name\":\"shell\",\"args\":{}}},{\"functionCall\":{\"name\":\"list\"}}",
		     "STOP")));

	ck_assert_str_eq(seen, "<Pondering>Let me{shell}{shell}{list}");
	ck_assert(a.complete);
	ck_assert_int_eq(a.stop, DIALECT_STOP_CALLS);
	ck_assert_str_eq(a.native_stop, "STOP");
	ck_assert_str_eq(a.request_id, "r1");
	rig_assert_json(a.blocks, "[{'type':'reasoning','text':'Pondering'},{'type':'text','text':'Let me'},"
				  "{'type':'tool_call','id':'f1','name':'shell','arguments':{'command':'ls'},'raw':{'"
				  "id':'f1','thoughtSignature':'c2ln'}},"
				  "{'type':'tool_call','id':'call_1','name':'shell','arguments':{}},{'type':'tool_call'"
				  ",'id':'call_2','name':'list','arguments':{}}]");
	ck_assert_uint_eq(a.usage.input, 50);
	ck_assert_uint_eq(a.usage.cached, 40);
	ck_assert_uint_eq(a.usage.output, 12);
	ck_assert_uint_eq(a.usage.reasoning, 5);
	ck_assert(a.usage.known && !a.usage.estimated);

	json_auto_t *items = rig_items(DIALECT_GEMINI, a.blocks);
	mem_auto char *body = rig_encode(DIALECT_GEMINI, "gemini-3-pro", items);
	ck_assert(strstr(body,
			 "{\"role\":\"model\",\"parts\":[{\"text\":\"Let "
			 "me\"},{\"functionCall\":{\"id\":\"f1\",\"name\":\"shell\",\"args\":{\"command\":\"ls\"}},"
			 "\"thoughtSignature\":\"c2ln\"},{\"functionCall\":{\"name\":\"shell\",\"args\":{}}},{"
			 "\"functionCall\":{\"name\":\"list\",\"args\":{}}}]}"));
	ck_assert(!strstr(body, "Pondering") && !strstr(body, "skip_thought_signature_validator"));
}
END_TEST

START_TEST(a_signature_stays_with_its_part)
{
	decode(STREAM(CHUNK(TEXT("A")), CHUNK(TEXT("B")),
		      LAST("{\"text\":\"\",\"thoughtSignature\":\"ZW5k\"}", "STOP")));
	ck_assert(a.complete);
	rig_assert_json(a.blocks,
			"[{'type':'text','text':'AB'},{'type':'text','text':'','raw':{'thoughtSignature':'ZW5k'}}]");
	json_auto_t *items = rig_items(DIALECT_GEMINI, a.blocks);
	mem_auto char *body = rig_encode(DIALECT_GEMINI, "gemini-3-pro", items);
	ck_assert(strstr(body, "{\"text\":\"AB\"},{\"text\":\"\",\"thoughtSignature\":\"ZW5k\"}"));
}
END_TEST

START_TEST(finish_reasons_are_mapped)
{
	static const struct {
		const char *word;
		enum dialect_stop stop;
		const char *category;
	} WORDS[] = { { "STOP", DIALECT_STOP_DONE, "" },
		      { "MAX_TOKENS", DIALECT_STOP_MAX_TOKENS, "" },
		      { "SAFETY", DIALECT_STOP_FILTERED, "" },
		      { "PROHIBITED_CONTENT", DIALECT_STOP_FILTERED, "" },
		      { "MALFORMED_FUNCTION_CALL", DIALECT_STOP_DONE, "protocol" },
		      { "SOMETHING_NEW", DIALECT_STOP_DONE, "" } };

	for (size_t i = 0; i < countof(WORDS); i++) {
		mem_auto char *body = mem_printf(
			"data: "
			"{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"x\"}]},\"finishReason\":\"%s\"}]}\n\n",
			WORDS[i].word);
		decode(body);
		ck_assert_str_eq(a.failure.category, WORDS[i].category);
		ck_assert_int_eq(a.complete, !*WORDS[i].category);
		ck_assert_int_eq(a.stop, WORDS[i].stop);
		ck_assert_str_eq(a.native_stop, WORDS[i].word);
		dialect_answer_done(&a);
	}
}
END_TEST

START_TEST(streams_without_finish_reason_or_content_are_broken)
{
	decode(STREAM(CHUNK(TEXT("Hal")), CHUNK("{\"functionCall\":{\"name\":\"shell\",\"args\":{}}}")));
	ck_assert(!a.complete);
	ck_assert_uint_eq(json_array_size(a.blocks), 0);
	ck_assert_str_eq(a.partial_text, "Hal");
	ck_assert(a.usage.known && a.usage.estimated);
	dialect_answer_done(&a);

	static const char *const EMPTY[] = { "", ",\"parts\":[]", ",\"parts\":[{\"text\":\"\"}]",
					     ",\"parts\":[{\"text\":\"Hm.\",\"thought\":true}]" };
	for (size_t i = 0; i < countof(EMPTY); i++) {
		decode(STREAM("data: {\"candidates\":[{\"content\":{\"role\":\"model\"", EMPTY[i],
			      "},\"finishReason\":\"STOP\"}],", USAGE, "}\n\n"));
		ck_assert(!a.complete);
		ck_assert(a.failure.retryable);
		ck_assert(strstr(a.failure.message, "empty"));
		dialect_answer_done(&a);
	}

	decode(STREAM("data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"},", USAGE, "}\n\n"));
	ck_assert(!a.complete);
	ck_assert_str_eq(a.failure.category, "content_filter");
	dialect_answer_done(&a);

	decode(STREAM(CHUNK(TEXT("Hal")), "data: {\"error\":{\"code\":503,\"message\":\"The model is "
					  "overloaded.\",\"status\":\"UNAVAILABLE\"}}\n\n"));
	ck_assert_str_eq(a.failure.category, "overloaded");
	ck_assert_str_eq(a.partial_text, "Hal");
}
END_TEST

START_TEST(events_in_one_array_are_decoded)
{
	static const char FIRST[] = "[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hel\"}]}}]}\r\n,\r\n";

	const char *seen = decode(
		STREAM("\n", FIRST,
		       "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"lo\"},{\"functionCall\":{"
		       "\"name\":\"shell\",\"args\":{\"n\":1}}}]},\"finishReason\":\"STOP\"}],",
		       USAGE, "}]\n"));
	ck_assert_str_eq(seen, "Hello{shell}");
	ck_assert_msg(a.complete, "%s", a.failure.message);
	ck_assert_int_eq(a.stop, DIALECT_STOP_CALLS);
	rig_assert_json(a.blocks, "[{'type':'text','text':'Hello'},{'type':'tool_call','id':'call_1','name':'shell',"
				  "'arguments':{'n':1}}]");
	dialect_answer_done(&a);

	decode(STREAM(FIRST, "{\"error\":{\"code\":503,\"message\":\"busy\",\"status\":\"UNAVAILABLE\"}}]"));
	ck_assert(!a.complete);
	ck_assert_str_eq(a.failure.category, "overloaded");
	dialect_answer_done(&a);

	decode(FIRST);
	ck_assert(!a.complete && a.failure.retryable);
}
END_TEST

START_TEST(requests_have_address_and_options)
{
	json_auto_t *items = rig_json("[{\"type\":\"user\",\"text\":\"one\"}]");
	json_auto_t *tools = rig_json("[{\"name\":\"a\",\"schema\":{\"type\":\"object\"}}]");
	struct dialect_request r = { .model = "gemini-3 x",
				     .items = items,
				     .tools = tools,
				     .no_tools = true,
				     .effort = "max",
				     .max_output_tokens = 9 };
	struct dialect_http http;

	ck_assert_int_eq(dialect_encode(DIALECT_GEMINI, &r, &http, NULL), 0);
	ck_assert_str_eq(
		http.url,
		"https://generativelanguage.googleapis.com/v1beta/models/gemini-3%20x:streamGenerateContent?alt=sse");
	ck_assert_str_eq(http.key_header, "x-goog-api-key");
	ck_assert_str_eq(http.body, "{\"tools\":[{\"functionDeclarations\":[{\"name\":\"a\",\"parametersJsonSchema\":{"
				    "\"type\":\"object\"}}]}],"
				    "\"toolConfig\":{\"functionCallingConfig\":{\"mode\":\"NONE\"}},"
				    "\"generationConfig\":{\"maxOutputTokens\":9,"
				    "\"thinkingConfig\":{\"includeThoughts\":true,\"thinkingLevel\":\"high\"}},"
				    "\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"one\"}]}]}");
	dialect_http_done(&http);
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "gemini", NULL, done, 120,
		  SUITE_TESTS(thoughts_text_and_calls_are_decoded, a_signature_stays_with_its_part,
			      finish_reasons_are_mapped, streams_without_finish_reason_or_content_are_broken,
			      events_in_one_array_are_decoded, requests_have_address_and_options) }
	};

	return suite_run_cases("dialect_gemini", cases, 1);
}
