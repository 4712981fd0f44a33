#include "runtime/dialect/conversation.h"

#include "tests/unit/runtime/dialect/dialect_rig.h"

/* Encodes for every dialect; rig_encode checks what providers reject. */
static void encode_all(const json_t *items)
{
	for (int d = 0; d < DIALECT_COUNT; d++)
		free(rig_encode((enum dialect)d, "gemini-3-model", items));
}

static bool body_has(enum dialect d, const json_t *items, const char *text)
{
	mem_auto char *body = rig_encode(d, "model-1", items);

	return strstr(body, text) != NULL;
}

#define CALL(id) "{\"type\":\"tool_call\",\"id\":\"" id "\",\"name\":\"shell\",\"arguments\":{\"command\":\"ls\"}}"
#define ASSISTANT(blocks) "{\"type\":\"assistant\",\"model\":\"x/y\",\"dialect\":\"anthropic\",\"blocks\":[" blocks "]}"
#define RESULT(id, text) "{\"type\":\"tool_result\",\"id\":\"" id "\",\"name\":\"shell\",\"text\":\"" text "\"}"
#define TEXT(text) "{\"type\":\"text\",\"text\":\"" text "\"}"
#define THINKING "{\"type\":\"reasoning\",\"text\":\"hm\",\"raw\":{\"signature\":\"s\"}}"
#define LONG_ID "0123456789012345678901234567890123456789012345678901234567890123456789"
#define ODD_CALL "{\"type\":\"tool_call\",\"id\":\"" LONG_ID "\",\"name\":\"functions.shell:0\",\"arguments\":[]}"
#define IMAGE(type) "{\"type\":\"image\",\"ref\":\"out_1\",\"mediaType\":\"image/" type "\",\"data\":\"iVBORw==\"}"
#define USER(text) "{\"type\":\"user\",\"text\":\"" text "\"}"

START_TEST(a_call_without_result_gets_a_placeholder)
{
	json_auto_t *items = rig_json(
		ITEMS(USER("a"), ASSISTANT(CALL("c1") "," CALL("c2")), RESULT("c2", "two"), USER("b")));

	encode_all(items);
	for (int d = 0; d < DIALECT_COUNT; d++) {
		ck_assert(body_has((enum dialect)d, items, CONVERSATION_NO_RESULT));
		ck_assert(body_has((enum dialect)d, items, "\"two\""));
	}
	ck_assert(body_has(DIALECT_ANTHROPIC, items, "\"is_error\":true"));
	ck_assert(body_has(DIALECT_GEMINI, items, "\"response\":{\"error\":"));
}
END_TEST

START_TEST(result_without_call_is_dropped)
{
	json_auto_t *items = rig_json(ITEMS(USER("a"), RESULT("c0", "stray"), ASSISTANT(CALL("c1")),
					    RESULT("c1", "first"), RESULT("c1", "again"), ASSISTANT(TEXT("ok")),
					    RESULT("c1", "late")));

	encode_all(items);
	for (int d = 0; d < DIALECT_COUNT; d++) {
		ck_assert(body_has((enum dialect)d, items, "\"first\""));
		ck_assert(!body_has((enum dialect)d, items, "stray"));
		ck_assert(!body_has((enum dialect)d, items, "again"));
		ck_assert(!body_has((enum dialect)d, items, "late"));
	}
}
END_TEST

START_TEST(empty_messages_are_dropped)
{
	json_auto_t *items = rig_json(ITEMS(ASSISTANT(TEXT("first")), ASSISTANT(""), ASSISTANT(TEXT(" \\n")),
					    USER("  "), ASSISTANT(THINKING), ASSISTANT(TEXT("last"))));

	encode_all(items);
	ck_assert(body_has(DIALECT_ANTHROPIC, items, "first"));
	ck_assert(body_has(DIALECT_ANTHROPIC, items, "last"));
	ck_assert(body_has(DIALECT_ANTHROPIC, items, CONVERSATION_FILLER));
}
END_TEST

START_TEST(results_are_kept_across_an_empty_answer)
{
	json_auto_t *items = rig_json(ITEMS(USER("a"), ASSISTANT(CALL("c1")), ASSISTANT(""), RESULT("c1", "there")));

	for (int d = 0; d < DIALECT_COUNT; d++)
		ck_assert(body_has((enum dialect)d, items, "\"there\""));
}
END_TEST

START_TEST(ids_and_names_are_valid_for_every_dialect)
{
	json_auto_t *items = rig_json(
		ITEMS(USER("a"), ASSISTANT(CALL("call_1") "," CALL("call_1") "," CALL("with space") "," CALL("")),
		      RESULT("call_1", "one"), RESULT("call_1", "two"), RESULT("with space", "three"),
		      ASSISTANT(CALL("call_1") "," CALL("call_2_0") "," ODD_CALL)));

	encode_all(items);
	ck_assert(body_has(DIALECT_OPENAI_CHAT, items, "\"three\""));
	ck_assert(body_has(DIALECT_OPENAI_CHAT, items, "\"two\""));
	ck_assert(body_has(DIALECT_OPENAI_CHAT, items, "functions_shell_0"));
}
END_TEST

START_TEST(foreign_reasoning_is_dropped)
{
	static const char *const RAW[] = { "{\"signature\":\"s3cret\"}",
					   "{\"encrypted_content\":\"s3cret\",\"summary\":[]}",
					   "{\"member\":\"reasoning_content\"}", "{\"thoughtSignature\":\"s3cret\"}" };

	for (int d = 0; d < DIALECT_COUNT; d++)
		for (int own = 0; own < 3; own++) {
			mem_auto char *text = mem_printf(
				"[" USER("a") ",{\"type\":\"assistant\",\"model\":\"%s\",\"dialect\":\"%s\",\"blocks\":"
					      "[{\"type\":\"reasoning\","
					      "\"text\":\"s3cret\",\"raw\":%s}," CALL("c") "]}," RESULT("c", "ok") "]",
				own == 1 ? "acme/model-2" : RIG_IDENTITY,
				dialect_name((enum dialect)(own == 2 ? (d + 1) % DIALECT_COUNT : d)), RAW[d]);
			json_auto_t *items = rig_json(text);
			ck_assert_int_eq(body_has((enum dialect)d, items, "s3cret"), own == 0);
		}
}
END_TEST

START_TEST(calls_of_other_models_have_a_placeholder_signature)
{
	json_auto_t *items = rig_json(ITEMS(USER("a"), ASSISTANT(CALL("c1") "," CALL("c2"))));
	mem_auto char *third = rig_encode(DIALECT_GEMINI, "gemini-3-pro", items),
		      *second = rig_encode(DIALECT_GEMINI, "gemini-2.5-pro", items);
	const char *at = strstr(third, "skip_thought_signature_validator");

	ck_assert(at && !strstr(at + 1, "skip_thought_signature_validator"));
	ck_assert(!strstr(second, "thoughtSignature"));
}
END_TEST

START_TEST(errors_name_the_invalid_parameter)
{
	static const struct {
		const char *model, *items, *tools, *field;
	} CASES[] = { { "", "[" USER("a") "]", "[]", "model" },
		      { "m", "[]", "[]", "items" },
		      { "m", "[{\"type\":\"usr\"}]", "[]", "items" },
		      { "m", "[{\"type\":\"assistant\"}]", "[]", "items" },
		      { "m", "[" ASSISTANT("{\"type\":\"image\"}") "]", "[]", "items" },
		      { "m", "[" USER("a") "]", "[{\"name\":\"x\"}]", "tools" } };

	for (size_t i = 0; i < countof(CASES); i++) {
		json_auto_t *items = rig_json(CASES[i].items), *tools = rig_json(CASES[i].tools);
		struct dialect_request r = { .model = CASES[i].model, .items = items, .tools = tools };
		struct dialect_http http;
		struct err e = ERR_INIT;
		ck_assert_int_eq(dialect_encode(DIALECT_ANTHROPIC, &r, &http, &e), -1);
		ck_assert_int_eq(e.code, ERR_INVALID);
		ck_assert_str_eq(e.field, CASES[i].field);
	}
}
END_TEST

/* ---- any items ---- */

START_TEST(images_are_encoded_in_every_dialect)
{
	static const char *const PARTS[DIALECT_COUNT] = {
		[DIALECT_ANTHROPIC] = "[{\"type\":\"text\",\"text\":\"look\"},{\"type\":\"image\",\"source\":{\"type\":"
				      "\"base64\",\"media_type\":\"image/png\",\"data\":\"iVBORw==\"}},{\"type\":"
				      "\"text\",\"text\":\"closely\"",
		[DIALECT_OPENAI_RESPONSES] = "\"content\":[{\"type\":\"input_image\",\"detail\":\"auto\",\"image_url\":"
					     "\"data:image/png;base64,iVBORw==\"}]}",
		[DIALECT_OPENAI_CHAT] = "\"content\":[{\"type\":\"text\",\"text\":\"look\"},{\"type\":\"image_url\","
					"\"image_url\":{\"url\":\"data:image/png;base64,iVBORw==\"}},{\"type\":"
					"\"text\",\"text\":\"closely\"}]}",
		[DIALECT_GEMINI] = "\"parts\":[{\"text\":\"look\"},{\"inlineData\":{\"mimeType\":\"image/png\","
				   "\"data\":\"iVBORw==\"}},{\"text\":\"closely\"}]}",
	};
	json_auto_t *items = rig_json(ITEMS(USER("look"), IMAGE("png"), USER("closely")));
	json_auto_t *last = rig_json(ITEMS(USER("a"), ASSISTANT(CALL("c1")), RESULT("c1", "r"), IMAGE("png")));
	json_auto_t *gif = rig_json(ITEMS(USER("look"), IMAGE("gif")));

	for (int d = 0; d < DIALECT_COUNT; d++)
		ck_assert_msg(body_has((enum dialect)d, items, PARTS[d]), "%s", dialect_name((enum dialect)d));
	encode_all(last);
	ck_assert(body_has(DIALECT_ANTHROPIC, last,
			   "\"data\":\"iVBORw==\"},\"cache_control\":{\"type\":\"ephemeral\"}}]}"));
	for (int d = 0; d < DIALECT_COUNT; d++)
		ck_assert(body_has((enum dialect)d, gif, "image/gif") == (d != DIALECT_GEMINI));
	ck_assert(body_has(DIALECT_GEMINI, gif, CONVERSATION_UNSEEN));
}
END_TEST

START_TEST(an_image_without_its_bytes_is_an_error)
{
	json_auto_t *items = rig_json("[{\"type\":\"image\",\"ref\":\"out_1\",\"mediaType\":\"image/png\"}]");
	const struct dialect_request r = { .model = "m", .identity = RIG_IDENTITY, .items = items };
	struct dialect_http http;
	struct err e = ERR_INIT;

	for (int d = 0; d < DIALECT_COUNT; d++) {
		ck_assert_int_lt(dialect_encode((enum dialect)d, &r, &http, &e), 0);
		ck_assert_msg(strstr(e.message, "items[0]") != NULL, "%s", e.message);
	}
}
END_TEST

static unsigned long seed;

static unsigned pick(unsigned n)
{
	seed = seed * 6364136223846793005ul + 1442695040888963407ul;
	return (unsigned)(seed >> 33) % n;
}

static json_t *random_block(enum dialect d)
{
	static const char *const TEXTS[] = { "", " ", "hello", "\xe2\x82\xac" };
	static const char *const IDS[] = { "", "call_1", "call_2", "c 3", "toolu_4" };

	switch (pick(4)) {
	case 0:
		return json_pack("{s:s,s:s,s:{s:s,s:s,s:[],s:s}}", "type", "reasoning", "text", TEXTS[pick(4)], "raw",
				 "signature", "s", "encrypted_content", "e", "summary",
				 pick(2) ? "thoughtSignature" : "member", "reasoning_content");
	case 1:
		return json_pack("{s:s,s:s,s:{s:s}}", "type", "text", "text", TEXTS[pick(4)], "raw",
				 pick(3) ? "x" : "thoughtSignature", "t");
	default:
		return json_pack("{s:s,s:s,s:s,s:{s:i}}", "type", "tool_call", "id", IDS[pick(5)], "name",
				 pick(3) ? "shell" : "", "arguments", "n", (int)pick(100));
	}
}

static json_t *random_item(enum dialect d)
{
	static const char *const IDS[] = { "", "call_1", "call_2", "c 3", "toolu_4" };

	switch (pick(6)) {
	case 5:
		return json_pack("{s:s,s:s,s:s,s:s}", "type", "image", "ref", "out_1", "mediaType",
				 pick(2) ? "image/png" : "image/gif", "data", "iVBORw==");
	case 0: return json_pack("{s:s,s:s}", "type", pick(2) ? "user" : "note", "text", pick(4) ? "do it" : "");
	case 1:
	case 2: {
		json_t *blocks = json_array();
		for (unsigned n = pick(5); n > 0; n--)
			json_array_append_new(blocks, random_block(d));
		return json_pack("{s:s,s:s,s:s,s:o}", "type", "assistant", "model", pick(3) ? RIG_IDENTITY : "o/m",
				 "dialect", dialect_name(d), "blocks", blocks);
	}
	default:
		return json_pack("{s:s,s:s,s:s,s:s,s:b}", "type", "tool_result", "id", IDS[pick(5)], "name", "shell",
				 "text", pick(3) ? "out" : "", "isError", (int)pick(2));
	}
}

/* Removes Anthropic's breakpoints, which move and are not part of the cached text. */
static void strip_breakpoints(char *body)
{
	static const char MARK[] = ",\"cache_control\":{\"type\":\"ephemeral\"}";

	for (char *at; (at = strstr(body, MARK));)
		memmove(at, at + sizeof(MARK) - 1, strlen(at + sizeof(MARK) - 1) + 1);
}

/* The request for the next answer begins with the same bytes, so that the provider's cache is used. */
START_TEST(any_items_give_a_valid_request)
{
	for (seed = 1; seed < 3000; seed += 7) {
		unsigned long start = seed;
		enum dialect d = (enum dialect)pick(DIALECT_COUNT);
		json_auto_t *items = json_array();
		for (unsigned n = 1 + pick(12); n > 0; n--)
			json_array_append_new(items, random_item(d));
		mem_auto char *before = rig_encode(d, "gemini-3", items);
		json_array_append_new(items, rig_json(ASSISTANT(TEXT("next") "," CALL("z"))));
		json_array_append_new(items, rig_json(RESULT("z", "end")));
		mem_auto char *after = rig_encode(d, "gemini-3", items);
		strip_breakpoints(before);
		strip_breakpoints(after);
		ck_assert_msg(strncmp(before, after, strlen(before) - 2) == 0, "seed %lu, %s:\n%s\n%s", start,
			      dialect_name(d), before, after);
		seed = start;
	}
}
END_TEST

int main(void)
{
	return SUITE("conversation", a_call_without_result_gets_a_placeholder, result_without_call_is_dropped,
		     empty_messages_are_dropped, results_are_kept_across_an_empty_answer,
		     ids_and_names_are_valid_for_every_dialect, foreign_reasoning_is_dropped,
		     calls_of_other_models_have_a_placeholder_signature, errors_name_the_invalid_parameter,
		     images_are_encoded_in_every_dialect, an_image_without_its_bytes_is_an_error,
		     any_items_give_a_valid_request);
}
