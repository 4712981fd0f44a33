#include "tests/unit/runtime/dialect/dialect_rig.h"

#define EVENT(type, rest) "event: " type "\ndata: {\"type\":\"" type "\"" rest "}\n\n"
#define START(usage)           \
	EVENT("message_start", \
	      ",\"message\":{\"id\":\"msg_1\",\"role\":\"assistant\",\"content\":[],\"usage\":{" usage "}}")
#define BLOCK(i, block) EVENT("content_block_start", ",\"index\":" i ",\"content_block\":{" block "}")
#define DELTA(i, delta) EVENT("content_block_delta", ",\"index\":" i ",\"delta\":{" delta "}")
#define TEXT(i, text) DELTA(i, "\"type\":\"text_delta\",\"text\":\"" text "\"")
#define JSON(i, text) DELTA(i, "\"type\":\"input_json_delta\",\"partial_json\":\"" text "\"")
#define STOP(i) EVENT("content_block_stop", ",\"index\":" i)
#define END(reason, usage)                                                                                \
	EVENT("message_delta",                                                                            \
	      ",\"delta\":{\"stop_reason\":\"" reason "\",\"stop_sequence\":null},\"usage\":{" usage "}") \
	EVENT("message_stop", "")
#define USAGE                                                                                                         \
	"\"input_tokens\":10,\"cache_creation_input_tokens\":200,\"cache_read_input_tokens\":3000,\"output_tokens\":" \
	"1,"                                                                                                          \
	"\"cache_creation\":{\"ephemeral_5m_input_tokens\":150,\"ephemeral_1h_input_tokens\":50}"

static struct dialect_answer a;

static void done(void) { dialect_answer_done(&a); }

START_TEST(text_reasoning_and_calls_are_decoded)
{
	const char *seen = rig_decode(
		DIALECT_ANTHROPIC,
		STREAM(START(USAGE), EVENT("ping", ""),
		       BLOCK("0", "\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\""),
		       DELTA("0", "\"type\":\"thinking_delta\",\"thinking\":\"Let me see.\""),
		       DELTA("0", "\"type\":\"signature_delta\",\"signature\":\"c2ln\""), STOP("0"),
		       BLOCK("1", "\"type\":\"redacted_thinking\",\"data\":\"b3BhcXVl\""), STOP("1"),
		       BLOCK("2", "\"type\":\"text\",\"text\":\"\""), TEXT("2", "Gr\xc3\xbc\xc3\x9f"),
		       TEXT("2", "e \\ud83d\\ude00"), STOP("2"), EVENT("shiny_new_event", ",\"x\":1"),
		       BLOCK("3", "\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"shell\",\"input\":{}"),
		       JSON("3", ""), JSON("3", "{\\\"command\\\": \\\"l"), JSON("3", "s\\\"}"), STOP("3"),
		       BLOCK("4", "\"type\":\"tool_use\",\"id\":\"toolu_2\",\"name\":\"list\",\"input\":{}"), STOP("4"),
		       "event: message_delta\ndata: {\"type\":\"message_delta\", "
		       "\"delta\":{\"stop_reason\":\"tool_use\"}, \"usage\":{\"output_tokens\":77}    }\n\n",
		       EVENT("message_stop", "")),
		&a);

	ck_assert_str_eq(seen, "<Let me see.>Gr\xc3\xbc\xc3\x9f"
			       "e \xf0\x9f\x98\x80{shell}{list}");
	ck_assert(a.complete);
	ck_assert_int_eq(a.stop, DIALECT_STOP_CALLS);
	ck_assert_str_eq(a.native_stop, "tool_use");
	rig_assert_json(a.blocks, "[{'type':'reasoning','text':'Let me see.','raw':{'signature':'c2ln'}},"
				  "{'type':'reasoning','text':'','raw':{'redacted':'b3BhcXVl'}},"
				  "{'type':'text','text':'Gr\xc3\xbc\xc3\x9f"
				  "e \xf0\x9f\x98\x80'},"
				  "{'type':'tool_call','id':'toolu_1','name':'shell','arguments':{'command':'ls'}},"
				  "{'type':'tool_call','id':'toolu_2','name':'list','arguments':{}}]");
	ck_assert_uint_eq(a.usage.input, 3210);
	ck_assert_uint_eq(a.usage.cached, 3000);
	ck_assert_uint_eq(a.usage.cache_write, 200);
	ck_assert_uint_eq(a.usage.cache_write_1h, 50);
	ck_assert_uint_eq(a.usage.output, 77);
	ck_assert(a.usage.known && !a.usage.estimated);

	/* Sent back: thinking unchanged, calls last, and everything answered in the next message. */
	json_auto_t *items = rig_items(DIALECT_ANTHROPIC, a.blocks);
	mem_auto char *body = rig_encode(DIALECT_ANTHROPIC, "model-1", items);
	ck_assert(strstr(body, "{\"type\":\"thinking\",\"thinking\":\"Let me see.\",\"signature\":\"c2ln\"},"
			       "{\"type\":\"redacted_thinking\",\"data\":\"b3BhcXVl\"}"));
	mem_auto char *other = rig_encode(DIALECT_OPENAI_CHAT, "model-1", items);
	ck_assert(!strstr(other, "Let me see"));
}
END_TEST

START_TEST(broken_stream_keeps_whole_blocks)
{
	rig_decode(DIALECT_ANTHROPIC,
		   STREAM(START(USAGE), BLOCK("0", "\"type\":\"text\",\"text\":\"\""), TEXT("0", "First."), STOP("0"),
			  BLOCK("1", "\"type\":\"text\",\"text\":\"\""), TEXT("1", "Second, whi")),
		   &a);
	ck_assert(!a.complete);
	rig_assert_json(a.blocks, "[{'type':'text','text':'First.'}]");
	ck_assert_str_eq(a.partial_text, "Second, whi");
	ck_assert_str_eq(a.failure.category, "protocol");
	ck_assert(a.failure.retryable);
	ck_assert_uint_eq(a.usage.input, 3210);
	ck_assert(a.usage.known && a.usage.estimated);
	ck_assert_uint_eq(a.usage.output, 5); /* 17 bytes */
}
END_TEST

START_TEST(thinking_without_signature_is_not_sent_back)
{
	rig_decode(DIALECT_ANTHROPIC,
		   STREAM(START(USAGE), BLOCK("0", "\"type\":\"thinking\",\"thinking\":\"\""),
			  DELTA("0", "\"type\":\"thinking_delta\",\"thinking\":\"Hidden\""), STOP("0"),
			  BLOCK("1", "\"type\":\"text\",\"text\":\"\""), TEXT("1", "Hi"), STOP("1"),
			  END("end_turn", "\"output_tokens\":3")),
		   &a);
	ck_assert(a.complete);
	ck_assert_int_eq(a.stop, DIALECT_STOP_DONE);
	json_auto_t *items = rig_items(DIALECT_ANTHROPIC, a.blocks);
	mem_auto char *body = rig_encode(DIALECT_ANTHROPIC, "model-1", items);
	ck_assert(!strstr(body, "Hidden"));
}
END_TEST

START_TEST(truncated_call_is_dropped)
{
	static const char *const ARGUMENTS[] = { JSON("1", "{\\\"command\\\": \\\"rm -rf /tmp/x"), JSON("1", "") };

	for (size_t i = 0; i < countof(ARGUMENTS); i++) {
		rig_decode(DIALECT_ANTHROPIC,
			   STREAM(START(USAGE), BLOCK("0", "\"type\":\"text\",\"text\":\"\""), TEXT("0", "Now"),
				  STOP("0"),
				  BLOCK("1", "\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"shell\",\"input\":{}"),
				  ARGUMENTS[i], STOP("1"), END("max_tokens", "\"output_tokens\":9")),
			   &a);
		ck_assert(a.complete);
		ck_assert_int_eq(a.stop, DIALECT_STOP_MAX_TOKENS);
		rig_assert_json(a.blocks, "[{'type':'text','text':'Now'}]");
		dialect_answer_done(&a);
	}
}
END_TEST

START_TEST(call_without_an_object_is_the_mistake_of_the_model)
{
	rig_decode(DIALECT_ANTHROPIC,
		   STREAM(START(USAGE),
			  BLOCK("0", "\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"shell\",\"input\":{}"),
			  JSON("0", "[1,2]"), STOP("0"), END("tool_use", "\"output_tokens\":9")),
		   &a);
	ck_assert(a.complete);
	rig_assert_json(a.blocks, "[{'type':'tool_call','id':'t','name':'shell','arguments':{},'malformed':'it is an "
				  "array'}]");
	dialect_answer_done(&a);
}
END_TEST

START_TEST(unparsable_call_is_a_failure)
{
	rig_decode(DIALECT_ANTHROPIC,
		   STREAM(START(USAGE),
			  BLOCK("0", "\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"shell\",\"input\":{}"),
			  JSON("0", "{\\\"x\\\":"), STOP("0"), END("tool_use", "\"output_tokens\":9")),
		   &a);
	ck_assert(!a.complete);
	ck_assert_uint_eq(json_array_size(a.blocks), 0);
	ck_assert_str_eq(a.failure.category, "protocol");
	ck_assert(strstr(a.failure.message, "shell"));
}
END_TEST

START_TEST(an_error_event_fails_a_started_stream)
{
	rig_decode(DIALECT_ANTHROPIC,
		   STREAM(START(USAGE), BLOCK("0", "\"type\":\"text\",\"text\":\"\""), TEXT("0", "He"),
			  "event: error\ndata: "
			  "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"},"
			  "\"request_id\":\"req_9\"}\n\n"),
		   &a);
	ck_assert(!a.complete);
	ck_assert_str_eq(a.failure.category, "overloaded");
	ck_assert_str_eq(a.failure.code, "overloaded_error");
	ck_assert(a.failure.retryable);
	ck_assert_str_eq(a.partial_text, "He");
	ck_assert_str_eq(a.request_id, "req_9");
}
END_TEST

START_TEST(stop_reasons_are_mapped)
{
	static const struct {
		const char *word;
		enum dialect_stop stop;
	} WORDS[] = { { "end_turn", DIALECT_STOP_DONE },
		      { "stop_sequence", DIALECT_STOP_DONE },
		      { "pause_turn", DIALECT_STOP_PAUSED },
		      { "refusal", DIALECT_STOP_REFUSAL },
		      { "tool_use", DIALECT_STOP_DONE /* without any */ },
		      { "model_context_window_exceeded", DIALECT_STOP_CONTEXT_FULL } };

	for (size_t i = 0; i < countof(WORDS); i++) {
		mem_auto char *body = mem_printf(
			"%s%s%s", START(USAGE) "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"",
			WORDS[i].word, "\"},\"usage\":{\"output_tokens\":0}}\n\ndata: {\"type\":\"message_stop\"}\n\n");
		rig_decode(DIALECT_ANTHROPIC, body, &a);
		ck_assert(a.complete);
		ck_assert_int_eq(a.stop, WORDS[i].stop);
		ck_assert_str_eq(a.native_stop, WORDS[i].word);
		dialect_answer_done(&a);
	}
}
END_TEST

START_TEST(blocks_of_unknown_types_are_skipped)
{
	rig_decode(DIALECT_ANTHROPIC,
		   STREAM(START(USAGE), BLOCK("0", "\"type\":\"server_tool_use\",\"id\":\"s\",\"name\":\"web\""),
			  JSON("0", "{}"), STOP("0"), BLOCK("1", "\"type\":\"text\",\"text\":\"Half \""),
			  DELTA("1", "\"type\":\"citations_delta\",\"citation\":{}"), TEXT("1", "whole"), STOP("1"),
			  END("end_turn", "\"output_tokens\":9")),
		   &a);
	ck_assert(a.complete);
	rig_assert_json(a.blocks, "[{'type':'text','text':'Half whole'}]");
}
END_TEST

START_TEST(data_without_a_block_is_malformed)
{
	rig_decode(DIALECT_ANTHROPIC, STREAM(START(USAGE), TEXT("0", "lost"), END("end_turn", "\"output_tokens\":9")),
		   &a);
	ck_assert(!a.complete);
	ck_assert_str_eq(a.failure.category, "protocol");
}
END_TEST

START_TEST(requests_have_breakpoints_and_options)
{
	json_auto_t *items = rig_json("[{\"type\":\"user\",\"text\":\"one\"}]");
	json_auto_t *tools = rig_json("[{\"name\":\"a\",\"description\":\"A\",\"schema\":{}},{\"name\":\"b\","
				      "\"description\":\"B\",\"schema\":{}}]");
	struct dialect_request r = { .base_url = "http://127.0.0.1:9/v1/",
				     .model = "m",
				     .items = items,
				     .tools = tools,
				     .effort = "high",
				     .max_output_tokens = 5,
				     .no_tools = true };
	struct dialect_http http;

	ck_assert_int_eq(dialect_encode(DIALECT_ANTHROPIC, &r, &http, NULL), 0);
	ck_assert_str_eq(http.url, "http://127.0.0.1:9/v1/messages");
	ck_assert_str_eq(http.key_header, "x-api-key");
	ck_assert_str_eq(json_get_text(http.headers, "anthropic-version"), "2023-06-01");
	ck_assert_str_eq(
		http.body,
		"{\"model\":\"m\",\"max_tokens\":5,\"stream\":true,\"tools\":[{\"name\":\"a\",\"description\":\"A\","
		"\"input_schema\":{}},"
		"{\"name\":\"b\",\"description\":\"B\",\"input_schema\":{},\"cache_control\":{\"type\":\"ephemeral\"}}]"
		","
		"\"tool_choice\":{\"type\":\"none\"},\"thinking\":{\"type\":\"adaptive\",\"display\":\"summarized\"},"
		"\"output_config\":{\"effort\":\"high\"},\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
		"\"text\",\"text\":\"one\","
		"\"cache_control\":{\"type\":\"ephemeral\"}}]}]}");
	dialect_http_done(&http);
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "anthropic", NULL, done, 120,
		  SUITE_TESTS(text_reasoning_and_calls_are_decoded, broken_stream_keeps_whole_blocks,
			      thinking_without_signature_is_not_sent_back, truncated_call_is_dropped,
			      call_without_an_object_is_the_mistake_of_the_model, unparsable_call_is_a_failure,
			      an_error_event_fails_a_started_stream, stop_reasons_are_mapped,
			      blocks_of_unknown_types_are_skipped, data_without_a_block_is_malformed,
			      requests_have_breakpoints_and_options) }
	};

	return suite_run_cases("dialect_anthropic", cases, 1);
}
