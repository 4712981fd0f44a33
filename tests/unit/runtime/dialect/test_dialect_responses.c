#include "tests/unit/runtime/dialect/dialect_rig.h"

#define EVENT(type, rest) "event: " type "\ndata: {\"type\":\"" type "\"" rest "}\n\n"
#define CREATED                                                                                                        \
	EVENT("response.created", ",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\"," \
				  "\"error\":null,\"output\":[]}")
#define ADDED(i, item) EVENT("response.output_item.added", ",\"output_index\":" i ",\"item\":{" item "}")
#define ITEM(i, item) EVENT("response.output_item.done", ",\"output_index\":" i ",\"item\":{" item "}")
#define DELTA(type, i, text) EVENT("response." type ".delta", ",\"output_index\":" i ",\"delta\":\"" text "\"")
#define ENDED(type, rest) EVENT("response." type, ",\"response\":{\"id\":\"resp_1\"," rest "}")
#define USAGE                                                                                                  \
	"\"usage\":{\"input_tokens\":90,\"input_tokens_details\":{\"cached_tokens\":64},\"output_tokens\":30," \
	"\"output_tokens_details\":{\"reasoning_tokens\":11}}"
#define MESSAGE(text)                                                                                          \
	"\"type\":\"message\",\"id\":\"msg_1\",\"status\":\"completed\",\"role\":\"assistant\",\"content\":[{" \
	"\"type\":\"output_text\",\"text\":\"" text "\",\"annotations\":[]}]"
#define REASONING                                                                                                 \
	"\"type\":\"reasoning\",\"id\":\"rs_1\",\"encrypted_content\":\"gAAA\",\"summary\":[{\"type\":\"summary_" \
	"text\",\"text\":\"One\"},{\"type\":\"summary_text\",\"text\":\"Two\"}]"
#define CALL(status, arguments)                                           \
	"\"type\":\"function_call\",\"id\":\"fc_1\",\"status\":\"" status \
	"\",\"call_id\":\"call_9\",\"name\":\"shell\",\"arguments\":\"" arguments "\""

static struct dialect_answer a;

static void done(void) { dialect_answer_done(&a); }

static const char *decode(const char *body) { return rig_decode(DIALECT_OPENAI_RESPONSES, body, &a); }

START_TEST(reasoning_text_and_calls_are_decoded)
{
	const char *seen = decode(
		STREAM(CREATED, ADDED("0", "\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[]"),
		       EVENT("response.reasoning_summary_part.added", ",\"output_index\":0,\"summary_index\":0"),
		       DELTA("reasoning_summary_text", "0", "One"),
		       EVENT("response.reasoning_summary_part.added", ",\"output_index\":0,\"summary_index\":1"),
		       DELTA("reasoning_summary_text", "0", "Two"), ITEM("0", REASONING),
		       ADDED("1", "\"type\":\"message\",\"id\":\"msg_1\",\"role\":\"assistant\",\"content\":[]"),
		       EVENT("response.content_part.added", ",\"output_index\":1"), DELTA("output_text", "1", "Look"),
		       DELTA("output_text", "1", "ing"),
		       EVENT("response.output_text.done", ",\"output_index\":1,\"text\":\"Looking\""),
		       ITEM("1", MESSAGE("Looking") ",\"phase\":\"commentary\""),
		       ADDED("2", "\"type\":\"function_call\",\"id\":\"fc_1\",\"call_id\":\"call_9\",\"name\":"
				  "\"shell\",\"arguments\":\"\""),
		       DELTA("function_call_arguments", "2", "{\\\"command\\\":"),
		       DELTA("function_call_arguments", "2", "\\\"ls\\\"}"),
		       ITEM("2", CALL("completed", "{\\\"command\\\":\\\"ls\\\"}")),
		       ENDED("completed", "\"status\":\"completed\",\"output\":[{}]," USAGE)));

	ck_assert_str_eq(seen, "<One><\n\n><Two>Looking{shell}");
	ck_assert(a.complete);
	ck_assert_int_eq(a.stop, DIALECT_STOP_CALLS);
	rig_assert_json(json_array_get(a.blocks, 1), "{'type':'text','text':'Looking','raw':{'phase':'commentary'}}");
	rig_assert_json(json_array_get(a.blocks, 2),
			"{'type':'tool_call','id':'call_9','name':'shell','arguments':{'command':'ls'}}");
	ck_assert_str_eq(json_get_text(json_array_get(a.blocks, 0), "text"), "One\n\nTwo");
	ck_assert_uint_eq(a.usage.input, 90);
	ck_assert_uint_eq(a.usage.cached, 64);
	ck_assert_uint_eq(a.usage.output, 30);
	ck_assert_uint_eq(a.usage.reasoning, 11);
	ck_assert(a.usage.known && !a.usage.estimated);

	json_auto_t *items = rig_items(DIALECT_OPENAI_RESPONSES, a.blocks);
	mem_auto char *body = rig_encode(DIALECT_OPENAI_RESPONSES, "model-1", items);
	static const char REASONED[] =
		"{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"One\"},{"
		"\"type\":\"summary_text\",\"text\":\"Two\"}],\"encrypted_content\":\"gAAA\"},";
	static const char REST[] = "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_"
				   "text\",\"text\":\"Looking\"}],\"phase\":\"commentary\"},{\"type\":\"function_"
				   "call\",\"call_id\":\"call_9\",\"name\":\"shell\",\"arguments\":\"{\\\"command\\\":"
				   "\\\"ls\\\"}\"},{\"type\":\"function_call_output\",\"call_id\":\"call_9\"";
	const char *at = strstr(body, REASONED);
	ck_assert(at && strncmp(at + sizeof(REASONED) - 1, REST, sizeof(REST) - 1) == 0);
	ck_assert(strstr(body, "\"store\":false") && strstr(body, "\"prompt_cache_key\":\"thr_1\"") &&
		  strstr(body, "\"include\":[\"reasoning.encrypted_content\"]"));
}
END_TEST

START_TEST(items_are_read_without_deltas_or_from_the_end)
{
	const char *seen = decode(STREAM(CREATED, ITEM("0", MESSAGE("Hi")), ENDED("completed", USAGE)));

	ck_assert_str_eq(seen, "Hi");
	rig_assert_json(a.blocks, "[{'type':'text','text':'Hi'}]");
	ck_assert_int_eq(a.stop, DIALECT_STOP_DONE);
	dialect_answer_done(&a);

	seen = decode(
		STREAM(CREATED, DELTA("output_text", "0", "H"),
		       ENDED("completed", "\"output\":[{" MESSAGE("Hi") "},{" CALL("completed", "{}") "}]," USAGE)));
	ck_assert_str_eq(seen, "H{shell}");
	rig_assert_json(
		a.blocks,
		"[{'type':'text','text':'Hi'},{'type':'tool_call','id':'call_9','name':'shell','arguments':{}}]");
	dialect_answer_done(&a);

	/* Arguments as an object. */
	decode(STREAM(CREATED,
		      ITEM("0", "\"type\":\"function_call\",\"id\":\"fc_1\",\"status\":\"completed\",\"call_id\":"
				"\"call_9\",\"name\":\"shell\",\"arguments\":{\"command\":\"ls\"}"),
		      ENDED("completed", USAGE)));
	rig_assert_json(a.blocks, "[{'type':'tool_call','id':'call_9','name':'shell','arguments':{'command':'ls'}}]");
	dialect_answer_done(&a);

	/* A repeated item is called once. */
	decode(STREAM(CREATED, ITEM("0", CALL("completed", "{}")), ITEM("0", CALL("completed", "{}")),
		      ENDED("completed", USAGE)));
	ck_assert_uint_eq(json_array_size(a.blocks), 1);
	dialect_answer_done(&a);

	/* llama.cpp sends no output_index; ids distinguish items. */
	decode(STREAM(
		"data: "
		"{\"type\":\"response.output_item.added\",\"item\":{\"type\":\"function_call\",\"id\":\"fc_1\",\"call_"
		"id\":\"c1\",\"name\":\"shell\"}}\n\ndata: "
		"{\"type\":\"response.function_call_arguments.delta\",\"item_id\":\"fc_1\",\"delta\":\"{}\"}\n\ndata: "
		"{\"type\":\"response.output_item.added\",\"item\":{\"type\":\"function_call\",\"id\":\"fc_2\",\"call_"
		"id\":\"c2\",\"name\":\"list\"}}\n\ndata: "
		"{\"type\":\"response.function_call_arguments.delta\",\"item_id\":\"fc_2\",\"delta\":\"{}\"}\n\ndata: "
		"{\"type\":\"response.output_item.done\",\"item\":{\"type\":\"function_call\",\"id\":\"fc_1\",\"call_"
		"id\":\"c1\",\"name\":\"shell\",\"arguments\":\"{}\"}}\n\ndata: "
		"{\"type\":\"response.output_item.done\",\"item\":{\"type\":\"function_call\",\"id\":\"fc_2\",\"call_"
		"id\":\"c2\",\"name\":\"list\",\"arguments\":\"{}\"}}\n\n",
		ENDED("completed", USAGE)));
	rig_assert_json(a.blocks, "[{'type':'tool_call','id':'c1','name':'shell','arguments':{}},{'type':'tool_call','"
				  "id':'c2','name':'list','arguments':{}}]");
}
END_TEST

START_TEST(items_that_no_event_ended_are_taken_from_the_whole_response)
{
	static const char *const STREAMS[][8] = {
		/* The message ends, the call does not. */
		{ CREATED, DELTA("output_text", "0", "Look"), ITEM("0", MESSAGE("Look")),
		  ADDED("1", CALL("in_progress", "")), DELTA("function_call_arguments", "1", "{\\\"n\\\":1"),
		  ENDED("completed",
			"\"output\":[{" MESSAGE("Look") "},{" CALL("completed", "{\\\"n\\\":1}") "}]," USAGE) },
		/* The call has no event at all. */
		{ CREATED, ITEM("0", MESSAGE("Look")),
		  ENDED("completed",
			"\"output\":[{" MESSAGE("Look") "},{" CALL("completed", "{\\\"n\\\":1}") "}]," USAGE) },
		/* The call ends, the message does not; the response counts items otherwise. */
		{ CREATED, ITEM("0", REASONING), DELTA("output_text", "1", "Lo"),
		  ITEM("2", CALL("completed", "{\\\"n\\\":1}")),
		  ENDED("completed",
			"\"output\":[{" MESSAGE("Look") "},{" CALL("completed", "{\\\"n\\\":1}") "}]," USAGE) },
	};

	for (size_t i = 0; i < countof(STREAMS); i++) {
		decode(rig_join("", "", STREAMS[i], ""));
		ck_assert_msg(a.complete, "%zu: %s", i, a.failure.message);
		ck_assert_int_eq(a.stop, DIALECT_STOP_CALLS);
		size_t n = json_array_size(a.blocks);
		ck_assert_uint_eq(n, i == 2 ? 3 : 2);
		rig_assert_json(json_array_get(a.blocks, n - 2), "{'type':'text','text':'Look'}");
		rig_assert_json(json_array_get(a.blocks, n - 1),
				"{'type':'tool_call','id':'call_9','name':'shell','arguments':{'n':1}}");
		dialect_answer_done(&a);
	}
}
END_TEST

START_TEST(incomplete_responses_keep_complete_items)
{
	decode(STREAM(CREATED, ITEM("0", MESSAGE("Part")), ITEM("1", CALL("incomplete", "{}")),
		      ENDED("incomplete", "\"incomplete_details\":{\"reason\":\"max_output_tokens\"}," USAGE)));
	ck_assert(a.complete);
	ck_assert_int_eq(a.stop, DIALECT_STOP_MAX_TOKENS);
	rig_assert_json(a.blocks, "[{'type':'text','text':'Part'}]");
	dialect_answer_done(&a);

	decode(STREAM(CREATED, DELTA("output_text", "0", "Par"),
		      ENDED("incomplete", "\"incomplete_details\":{\"reason\":\"content_filter\"}," USAGE)));
	ck_assert(a.complete);
	ck_assert_int_eq(a.stop, DIALECT_STOP_FILTERED);
	rig_assert_json(a.blocks, "[{'type':'text','text':'Par'}]");
	dialect_answer_done(&a);

	/* Reasoning alone is never sent back. */
	decode(STREAM(CREATED, ITEM("0", REASONING),
		      ENDED("incomplete", "\"incomplete_details\":{\"reason\":\"max_output_tokens\"}," USAGE)));
	json_auto_t *items = rig_items(DIALECT_OPENAI_RESPONSES, a.blocks);
	mem_auto char *body = rig_encode(DIALECT_OPENAI_RESPONSES, "model-1", items);
	ck_assert(!strstr(body, "gAAA"));
}
END_TEST

START_TEST(broken_stream_keeps_whole_items)
{
	decode(STREAM(CREATED, ITEM("0", REASONING), ITEM("1", CALL("completed", "{}")),
		      DELTA("output_text", "2", "An")));
	ck_assert(!a.complete);
	ck_assert_uint_eq(json_array_size(a.blocks), 2);
	ck_assert_str_eq(a.partial_text, "An");
	ck_assert_str_eq(a.failure.category, "protocol");
	ck_assert(a.failure.retryable && a.usage.estimated && !a.usage.known);
}
END_TEST

START_TEST(failures_have_their_category)
{
	static const struct {
		const char *stream, *category;
		bool retryable;
		uint64_t after;
	} CASES[] = {
		{ ENDED("failed", "\"status\":\"failed\",\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":"
				  "\"Rate limit reached. Please try again in 11.054s. Visit us.\"}"),
		  "rate_limit", true, 11054 },
		{ ENDED("failed", "\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"Your input exceeds "
				  "the context window of this model.\"}"),
		  "context_too_long", false, 0 },
		{ ENDED("failed",
			"\"error\":{\"code\":\"insufficient_quota\",\"message\":\"You exceeded your current quota\"}"),
		  "billing", false, 0 },
		{ ENDED("failed", "\"error\":{\"code\":\"cyber_policy\",\"message\":\"no\"}"), "content_filter", false,
		  0 },
		{ ENDED("failed", "\"error\":{\"code\":\"slow_down\",\"message\":\"Slow down\"}"), "overloaded", true,
		  15000 },
		{ ENDED("failed", "\"error\":{\"code\":\"server_error\",\"message\":\"An error occurred\"}"), "server",
		  true, 0 },
		{ EVENT("error",
			",\"code\":\"server_error\",\"message\":\"oops\",\"param\":null,\"sequence_number\":1"),
		  "server", true, 0 },
		{ EVENT("error", ",\"error\":{\"type\":\"invalid_request_error\",\"code\":null,\"message\":\"bad\"}"),
		  "invalid_request", false, 0 },
	};

	for (size_t i = 0; i < countof(CASES); i++) {
		mem_auto char *body = mem_printf("%s%s", CREATED, CASES[i].stream);
		decode(body);
		ck_assert(!a.complete);
		ck_assert_str_eq(a.failure.category, CASES[i].category);
		ck_assert_int_eq(a.failure.retryable, CASES[i].retryable);
		ck_assert_uint_eq(a.failure.retry_after_ms, CASES[i].after);
		dialect_answer_done(&a);
	}
	decode(STREAM(CREATED, ENDED("failed", "\"error\":{\"code\":\"server_error\",\"message\":\"x\"}," USAGE)));
	ck_assert(a.usage.known && !a.usage.estimated); /* its usage is known nevertheless */
}
END_TEST

START_TEST(refusals_are_reported)
{
	const char *seen = decode(
		STREAM(CREATED, DELTA("refusal", "0", "No"),
		       ITEM("0", "\"type\":\"message\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"No.\"}]"),
		       ENDED("completed", USAGE)));

	ck_assert_str_eq(seen, "No");
	ck_assert_int_eq(a.stop, DIALECT_STOP_REFUSAL);
	rig_assert_json(a.blocks, "[{'type':'text','text':'No.'}]");
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "responses", NULL, done, 120,
		  SUITE_TESTS(reasoning_text_and_calls_are_decoded, items_are_read_without_deltas_or_from_the_end,
			      items_that_no_event_ended_are_taken_from_the_whole_response,
			      incomplete_responses_keep_complete_items, broken_stream_keeps_whole_items,
			      failures_have_their_category, refusals_are_reported) }
	};

	return suite_run_cases("dialect_responses", cases, 1);
}
