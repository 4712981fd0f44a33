#include "tests/unit/runtime/dialect/dialect_rig.h"

#define CHUNK(choice)                                                                                               \
	"data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0," choice "}]}" \
	"\n\n"
#define DELTA(delta) CHUNK("\"delta\":{" delta "},\"finish_reason\":null")
#define FINISH(reason) CHUNK("\"delta\":{},\"finish_reason\":\"" reason "\"")
#define CALL(call) DELTA("\"tool_calls\":[{" call "}]")
#define USAGE(usage) "data: {\"choices\":[],\"usage\":{" usage "}}\n\n"
#define DONE "data: [DONE]\n\n"
#define COUNTS "\"prompt_tokens\":100,\"completion_tokens\":20"

static struct dialect_answer a;

static void done(void) { dialect_answer_done(&a); }

static const char *decode(const char *body) { return rig_decode(DIALECT_OPENAI_CHAT, body, &a); }

START_TEST(text_and_calls_are_joined_from_fragments)
{
	const char *seen = decode(
		STREAM(": OPENROUTER PROCESSING\n\n", DELTA("\"role\":\"assistant\",\"content\":null"),
		       DELTA("\"role\":\"assistant\",\"content\":\"Su\""),
		       DELTA("\"role\":\"assistant\",\"content\":\"re\""), ":\n\n",
		       CALL("\"index\":0,\"id\":\"call_a\",\"type\":\"function\",\"function\":{\"name\":\"shell\","
			    "\"arguments\":\"\"}"),
		       CALL("\"index\":0,\"function\":{\"arguments\":\"{\\\"command\\\":\"}"),
		       CALL("\"index\":1,\"id\":\"call_b\",\"type\":\"function\",\"function\":{\"name\":\"list\","
			    "\"arguments\":null}"),
		       CALL("\"index\":0,\"function\":{\"arguments\":\"\\\"ls\\\"}\"}"), FINISH("tool_calls"),
		       USAGE(COUNTS ",\"prompt_tokens_details\":{\"cached_tokens\":64},\"completion_tokens_details\":{"
				    "\"reasoning_tokens\":5}"),
		       DONE));
	ck_assert_str_eq(seen, "Sure{shell}{list}");
	ck_assert(a.complete);
	ck_assert_int_eq(a.stop, DIALECT_STOP_CALLS);
	rig_assert_json(a.blocks, "[{'type':'text','text':'Sure'},{'type':'tool_call','id':'call_a','name':'shell','"
				  "arguments':{'command':'ls'}},"
				  "{'type':'tool_call','id':'call_b','name':'list','arguments':{}}]");
	ck_assert(a.usage.known && !a.usage.estimated);
	ck_assert_uint_eq(a.usage.input, 100);
	ck_assert_uint_eq(a.usage.output, 20);
	ck_assert_uint_eq(a.usage.cached, 64);
	ck_assert_uint_eq(a.usage.reasoning, 5);
}
END_TEST

START_TEST(usage_is_read_from_any_chunk)
{
	static const char *const STREAMS[][8] = {
		{ DELTA("\"content\":\"x\""), FINISH("stop"), USAGE(COUNTS), DONE },
		{ DELTA("\"content\":\"x\""),
		  "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{", COUNTS,
		  "}}\n\n", DONE },
		{ DELTA("\"content\":\"x\""),
		  "data: "
		  "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"x_groq\":{\"usage\":{"
		  "\"prompt_tokens\":1,\"completion_tokens\":1}}}\n\n",
		  USAGE(COUNTS), DONE },
		{ DELTA("\"content\":\"x\""), FINISH("stop"), FINISH("stop"),
		  USAGE("\"prompt_tokens\":1,\"completion_tokens\":1"), USAGE(COUNTS), DONE },
		{ DELTA("\"content\":\"x\""), FINISH("stop"), USAGE(COUNTS) },
	};

	for (size_t i = 0; i < countof(STREAMS); i++) {
		decode(rig_join("", "", STREAMS[i], ""));
		ck_assert(a.complete);
		ck_assert(!a.usage.estimated);
		ck_assert_uint_eq(a.usage.input, 100);
		ck_assert_uint_eq(a.usage.output, 20);
		rig_assert_json(a.blocks, "[{'type':'text','text':'x'}]");
		dialect_answer_done(&a);
	}
	decode(STREAM(DELTA("\"content\":\"123456789\""), FINISH("stop"), DONE));
	ck_assert(a.complete && a.usage.estimated && !a.usage.known);
	ck_assert_uint_eq(a.usage.output, 3);
	dialect_answer_done(&a);
	decode(STREAM(DELTA("\"content\":\"x\""), FINISH("stop"),
		      USAGE("\"prompt_tokens\":9,\"completion_tokens\":1,\"prompt_cache_hit_tokens\":8,\"cost\":0.25"),
		      DONE));
	ck_assert_uint_eq(a.usage.cached, 8);
	ck_assert(a.usage.cost_usd == 0.25);
}
END_TEST

START_TEST(whole_calls_that_share_an_index_are_separate)
{
	static const char *const STREAMS[][8] = {
		{ DELTA("\"tool_calls\":[{\"index\":0,\"id\":\"x\",\"function\":{\"name\":\"shell\",\"arguments\":\"{"
			"\\\"n\\\":1}\"}},{\"index\":0,\"id\":\"x\",\"function\":{\"name\":\"list\",\"arguments\":\"{}"
			"\"}}]"),
		  FINISH("stop"), DONE },
		{ CALL("\"id\":\"\",\"function\":{\"name\":\"shell\",\"arguments\":{\"n\":1}}"),
		  CALL("\"function\":{\"name\":\"list\",\"arguments\":\"\"}"), FINISH("tool_calls"), DONE },
		{ CALL("\"index\":0,\"id\":\"a1\",\"function\":{\"name\":\"shell\",\"arguments\":\"{\\\"n\\\"\"}"),
		  CALL("\"index\":0,\"id\":\"a2\",\"function\":{\"name\":\"shell\",\"arguments\":\":1}\"}"),
		  CALL("\"index\":1,\"id\":\"a1\",\"function\":{\"name\":\"list\",\"arguments\":\"null\"}"),
		  FINISH("tool_calls"), DONE },
	};

	for (size_t i = 0; i < countof(STREAMS); i++) {
		decode(rig_join("", "", STREAMS[i], ""));
		ck_assert_msg(a.complete, "%zu: %s", i, a.failure.message);
		ck_assert_int_eq(a.stop, DIALECT_STOP_CALLS);
		ck_assert_uint_eq(json_array_size(a.blocks), 2);
		const json_t *first = json_array_get(a.blocks, 0), *second = json_array_get(a.blocks, 1);
		rig_assert_json(json_object_get(first, "arguments"), "{'n':1}");
		rig_assert_json(json_object_get(second, "arguments"), "{}");
		ck_assert_str_eq(json_get_text(second, "name"), "list");
		ck_assert(*json_get_text(first, "id") && *json_get_text(second, "id"));
		ck_assert_str_ne(json_get_text(first, "id"), json_get_text(second, "id"));
		dialect_answer_done(&a);
	}
}
END_TEST

START_TEST(two_calls_of_the_same_name_without_index_are_separate)
{
	decode(STREAM(DELTA("\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"list\",\"arguments\":\"\"}},{"
			    "\"id\":\"b\",\"function\":{\"name\":\"list\",\"arguments\":\"\"}}]"),
		      FINISH("tool_calls"), DONE));
	ck_assert(a.complete);
	ck_assert_uint_eq(json_array_size(a.blocks), 2);
}
END_TEST

START_TEST(repeated_call_runs_once)
{
	decode(STREAM(CALL("\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"list\",\"arguments\":\"{}\"}"),
		      CALL("\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"list\",\"arguments\":\"{}\"}"),
		      FINISH("tool_calls"), DONE));
	ck_assert(a.complete);
	ck_assert_uint_eq(json_array_size(a.blocks), 1);
}
END_TEST

START_TEST(reasoning_is_read_under_both_names)
{
	const char *seen = decode(
		STREAM(DELTA("\"content\":\"\",\"reasoning_content\":\"Hm\""),
		       DELTA("\"reasoning_content\":\"m\",\"reasoning\":\"m\""),
		       CALL("\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"shell\",\"arguments\":\"{}\"}"),
		       FINISH("tool_calls"), DONE));

	ck_assert_str_eq(seen, "<Hm><m>{shell}");
	json_auto_t *items = rig_items(DIALECT_OPENAI_CHAT, a.blocks);
	mem_auto char *body = rig_encode(DIALECT_OPENAI_CHAT, "m", items);
	ck_assert(strstr(body, "\"content\":null,\"reasoning_content\":\"Hmm\",\"tool_calls\":"));
	dialect_answer_done(&a);

	decode(STREAM(DELTA("\"reasoning\":\"Hm\""), DELTA("\"content\":\"Yes\""), FINISH("stop"), DONE));
	rig_assert_json(a.blocks,
			"[{'type':'reasoning','text':'Hm','raw':{'member':'reasoning'}},{'type':'text','text':'Yes'}]");
	json_auto_t *plain = rig_items(DIALECT_OPENAI_CHAT, a.blocks);
	mem_auto char *second = rig_encode(DIALECT_OPENAI_CHAT, "m", plain);
	ck_assert(!strstr(second, "Hm")); /* without calls it need not be sent back */
	dialect_answer_done(&a);

	seen = decode(STREAM(DELTA("\"content\":[{\"type\":\"thinking\",\"thinking\":[{\"type\":\"text\",\"text\":"
				   "\"Hm\"}]},{\"type\":\"text\",\"text\":\"Yes\"}]"),
			     FINISH("stop"), DONE));
	ck_assert_str_eq(seen, "<Hm>Yes");
}
END_TEST

START_TEST(signatures_of_calls_are_sent_back)
{
	decode(STREAM(CALL("\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"shell\",\"arguments\":\"{}\"},\"extra_"
			   "content\":{\"google\":{\"thought_signature\":\"sig\"}}"),
		      FINISH("tool_calls"), DONE));
	json_auto_t *items = rig_items(DIALECT_OPENAI_CHAT, a.blocks);
	mem_auto char *body = rig_encode(DIALECT_OPENAI_CHAT, "m", items);
	ck_assert(strstr(body, "\"extra_content\":{\"google\":{\"thought_signature\":\"sig\"}}"));
}
END_TEST

START_TEST(truncated_calls_are_dropped)
{
	decode(STREAM(CALL("\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"shell\",\"arguments\":\"{}\"}"),
		      CALL("\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"shell\",\"arguments\":\"{\\\"comm\"}"),
		      FINISH("length"), DONE));
	ck_assert(a.complete);
	ck_assert_int_eq(a.stop, DIALECT_STOP_MAX_TOKENS);
	rig_assert_json(a.blocks, "[{'type':'tool_call','id':'a','name':'shell','arguments':{}}]");
	dialect_answer_done(&a);

	/* The server reports tool_calls, but the call is truncated. */
	decode(STREAM(CALL("\"index\":0,\"id\":\"b\",\"function\":{\"name\":\"shell\",\"arguments\":\"{\\\"comm\"}"),
		      FINISH("tool_calls"), DONE));
	ck_assert(!a.complete);
	ck_assert_str_eq(a.failure.category, "protocol");
	ck_assert_uint_eq(json_array_size(a.blocks), 0);
	dialect_answer_done(&a);

	/* Without finish_reason no call is used. */
	decode(STREAM(DELTA("\"content\":\"Half\""),
		      CALL("\"index\":0,\"id\":\"b\",\"function\":{\"name\":\"shell\",\"arguments\":\"{}\"}"), DONE));
	ck_assert(!a.complete);
	ck_assert_uint_eq(json_array_size(a.blocks), 0);
	ck_assert_str_eq(a.partial_text, "Half");
	ck_assert(a.failure.retryable && a.usage.estimated);
}
END_TEST

START_TEST(errors_in_the_stream_have_their_category)
{
	decode(STREAM(DELTA("\"content\":\"Half\""),
		      "data: {\"error\":{\"message\":\"Upstream overloaded\",\"code\":529}}\n\n"));
	ck_assert(!a.complete);
	ck_assert_str_eq(a.failure.category, "overloaded");
	ck_assert_str_eq(a.partial_text, "Half");
	dialect_answer_done(&a);

	decode("data: {\"error\":{\"code\":400,\"message\":\"request (9000 tokens) exceeds the available context size "
	       "(4096 tokens)\","
	       "\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":9000,\"n_ctx\":4096}}\n\n");
	ck_assert_str_eq(a.failure.category, "context_too_long");
	ck_assert(!a.failure.retryable);
	dialect_answer_done(&a);

	decode(STREAM(DELTA("\"content\":\"Half\""), FINISH("insufficient_system_resource"), DONE));
	ck_assert(!a.complete);
	ck_assert_str_eq(a.failure.category, "overloaded");
	dialect_answer_done(&a);

	decode(STREAM(DELTA("\"content\":\"Half\""), "data: {oops\n\n", DELTA("\"content\":\" more\""), FINISH("stop"),
		      DONE));
	ck_assert(!a.complete);
	ck_assert_str_eq(a.failure.category, "protocol");
}
END_TEST

START_TEST(refusals_and_filters_are_reported)
{
	decode(STREAM(DELTA("\"refusal\":\"I can't\""), FINISH("stop"), DONE));
	ck_assert(a.complete);
	ck_assert_int_eq(a.stop, DIALECT_STOP_REFUSAL);
	dialect_answer_done(&a);
	decode(STREAM(DELTA("\"content\":\"Some\""), FINISH("content_filter"), DONE));
	ck_assert(a.complete);
	ck_assert_int_eq(a.stop, DIALECT_STOP_FILTERED);
}
END_TEST

START_TEST(text_that_json_libraries_reject_is_replaced)
{
	decode(STREAM(DELTA("\"content\":\"a\\u0000b\\ud83dc\\\\u0000\""), DELTA("\"content\":\"\xff\""),
		      DELTA("\"content\":\"\\ud83d\\ude00\\ud83d\""), FINISH("stop"), DONE));
	ck_assert_msg(a.complete, "%s", a.failure.message);
	ck_assert_str_eq(json_get_text(json_array_get(a.blocks, 0), "text"),
			 "a\xef\xbf\xbd"
			 "b\xef\xbf\xbd"
			 "c\\u0000\xef\xbf\xbd\xf0\x9f\x98\x80\xef\xbf\xbd");
}
END_TEST

START_TEST(arguments_that_json_libraries_reject_are_read)
{
	decode(STREAM(CALL("\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"shell\",\"arguments\":\"{\\\"command\\\":"
			   "\\\"a\\nb\\\\\\\"\\tc\\\",\\n\\\"n\\\":[18446744073709551616,-9223372036854775808]}\"}"),
		      FINISH("tool_calls"), DONE));
	ck_assert_msg(a.complete, "%s", a.failure.message);
	const json_t *arguments = json_object_get(json_array_get(a.blocks, 0), "arguments");
	const json_t *n = json_object_get(arguments, "n");
	ck_assert_str_eq(json_get_text(arguments, "command"), "a\nb\"\tc");
	ck_assert(json_is_real(json_array_get(n, 0)));
	ck_assert(json_real_value(json_array_get(n, 0)) == 18446744073709551616.0);
	ck_assert(json_integer_value(json_array_get(n, 1)) == INT64_MIN);
	dialect_answer_done(&a);

	/* In an event, too. */
	decode(STREAM("data: {\"created\":99999999999999999999,\"choices\":[{\"delta\":{\"content\":\"a\tb\"}}]}\n\n",
		      FINISH("stop"), DONE));
	ck_assert_msg(a.complete, "%s", a.failure.message);
	ck_assert_str_eq(json_get_text(json_array_get(a.blocks, 0), "text"), "a\tb");
}
END_TEST

START_TEST(calls_with_arguments_that_are_not_json_are_marked)
{
	decode(STREAM(
		CALL("\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"shell\",\"arguments\":\"{'n':1}\"}"),
		CALL("\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"list\",\"arguments\":\"{\\\"n\\\":1,}\"}"),
		FINISH("tool_calls"), DONE));
	ck_assert_msg(a.complete, "%s", a.failure.message);
	ck_assert_int_eq(a.stop, DIALECT_STOP_CALLS);
	for (size_t i = 0; i < 2; i++) {
		ck_assert(strstr(json_get_text(json_array_get(a.blocks, i), "malformed"), "expected near"));
		rig_assert_json(json_object_get(json_array_get(a.blocks, i), "arguments"), "{}");
	}
}
END_TEST

/* Looking at all of the text for each fragment would take minutes. */
START_TEST(a_name_in_every_fragment_takes_no_longer)
{
	buf_auto struct buf body = BUF_INIT, sink = BUF_INIT;
	json_auto_t *headers = json_object();

	buf_str(&body,
		CALL("\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"shell\",\"arguments\":\"{\\\"a\\\":\\\"\"}"));
	for (int i = 0; i < 300000; i++)
		buf_str(&body, CALL("\"index\":0,\"function\":{\"name\":\"shell\",\"arguments\":\"}\"}"));
	buf_str(&body, CALL("\"index\":0,\"function\":{\"name\":\"shell\",\"arguments\":\"\\\"}\"}"));
	buf_str(&body, FINISH("tool_calls"));
	rig_feed(DIALECT_OPENAI_CHAT, 200, headers, body.data, body.len, &sink, &a);
	ck_assert_msg(a.complete, "%s", a.failure.message);
	ck_assert_uint_eq(json_array_size(a.blocks), 1);
	const json_t *arguments = json_object_get(json_array_get(a.blocks, 0), "arguments");
	ck_assert_uint_eq(json_string_length(json_object_get(arguments, "a")), 300000);
}
END_TEST

START_TEST(a_function_call_of_the_api_before_tools_is_a_call)
{
	const char *seen = decode(STREAM(
		DELTA("\"content\":null,\"function_call\":{\"name\":\"shell\",\"arguments\":\"\"}"),
		DELTA("\"function_call\":{\"arguments\":\"{\\\"n\\\"\"}"),
		DELTA("\"function_call\":{\"arguments\":\":1}\"}"), FINISH("function_call"), "data: [DONE] \n\n"));
	ck_assert_str_eq(seen, "{shell}");
	ck_assert_msg(a.complete, "%s", a.failure.message);
	ck_assert_int_eq(a.stop, DIALECT_STOP_CALLS);
	rig_assert_json(a.blocks, "[{'type':'tool_call','id':'call_1','name':'shell','arguments':{'n':1}}]");
}
END_TEST

START_TEST(deeply_nested_arguments_are_rejected)
{
	buf_auto struct buf call = BUF_INIT;

	for (int depth = 200; depth <= 300; depth += 100) {
		buf_reset(&call);
		buf_str(&call,
			"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{"
			"\"name\":\"x\",\"arguments\":\"{\\\"a\\\":");
		for (int i = 0; i < depth; i++)
			buf_byte(&call, '[');
		for (int i = 0; i < depth; i++)
			buf_byte(&call, ']');
		buf_str(&call, "}\"}}]}}]}\n\n");
		decode(STREAM(call.data, FINISH("tool_calls")));
		ck_assert_int_eq(a.complete, depth == 200);
		dialect_answer_done(&a);
	}
}
END_TEST

START_TEST(request_members_depend_on_the_server)
{
	json_auto_t *items = rig_json("[{\"type\":\"user\",\"text\":\"one\"},{\"type\":\"note\",\"text\":\"two\"}]");
	struct dialect_request r = {
		.model = "m", .items = items, .cache_key = "thr_1", .max_output_tokens = 7, .effort = "low"
	};
	struct dialect_http http;

	ck_assert_int_eq(dialect_encode(DIALECT_OPENAI_CHAT, &r, &http, NULL), 0);
	ck_assert_str_eq(http.url, "https://api.openai.com/v1/chat/completions");
	ck_assert_str_eq(http.key_prefix, "Bearer ");
	ck_assert_str_eq(http.body, "{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
				    "\"max_completion_tokens\":7,"
				    "\"reasoning_effort\":\"low\",\"prompt_cache_key\":\"thr_1\",\"messages\":[{"
				    "\"role\":\"user\",\"content\":\"one\\n\\ntwo\"}]}");
	dialect_http_done(&http);
	r.base_url = "http://127.0.0.1:11434/v1";
	ck_assert_int_eq(dialect_encode(DIALECT_OPENAI_CHAT, &r, &http, NULL), 0);
	ck_assert(strstr(http.body, "\"max_tokens\":7") && !strstr(http.body, "prompt_cache_key"));
	dialect_http_done(&http);
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "chat", NULL, done, 120,
		  SUITE_TESTS(text_and_calls_are_joined_from_fragments, usage_is_read_from_any_chunk,
			      whole_calls_that_share_an_index_are_separate,
			      two_calls_of_the_same_name_without_index_are_separate, repeated_call_runs_once,
			      reasoning_is_read_under_both_names, signatures_of_calls_are_sent_back,
			      truncated_calls_are_dropped, errors_in_the_stream_have_their_category,
			      refusals_and_filters_are_reported, text_that_json_libraries_reject_is_replaced,
			      arguments_that_json_libraries_reject_are_read,
			      calls_with_arguments_that_are_not_json_are_marked,
			      a_name_in_every_fragment_takes_no_longer,
			      a_function_call_of_the_api_before_tools_is_a_call, deeply_nested_arguments_are_rejected,
			      request_members_depend_on_the_server) }
	};

	return suite_run_cases("dialect_chat", cases, 1);
}
