#include "supervisor/gateway/mcp/mcp_request_state.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <string.h>

static const uint8_t key[32] = "a key that is only for this test";

static json_t *open_with(struct mcp_request_state s, const char *text)
{
	struct err e = ERR_INIT;
	json_t *kept = mcp_request_state_verify(&s, text, &e);

	ck_assert_msg(kept || strcmp(e.field, "requestState") == 0, "%s", e.message);
	return kept;
}

START_TEST(test_a_state_is_bound_to_its_request_and_principal)
{
	json_auto_t *params = json_pack("{ss s{si}}", "name", "exec", "arguments", "a", 1),
		    *other = json_pack("{ss s{si}}", "name", "exec", "arguments", "a", 2);
	json_auto_t *more = json_pack("{ss s{si} ss ss}", "name", "exec", "arguments", "a", 1, "requestState", "x",
				      "_meta", "y");
	json_auto_t *kept = json_pack("{ss}", "processId", "proc_1");
	const struct mcp_request_state s = {
		.key = key, .method = "tools/call", .params = params, .principal = "uid:1", .now_s = 1000
	};
	mem_auto char *text = mcp_request_state_sign(&s, kept);
	struct mcp_request_state t = s;
	json_auto_t *back = open_with(s, text);

	ck_assert(json_equal(back, kept));
	t.params = more; /* members that are not part of the request are ignored */
	json_auto_t *again = open_with(t, text);
	ck_assert(json_equal(again, kept));
	t.params = other;
	ck_assert_ptr_null(open_with(t, text));
	t = s;
	t.method = "prompts/get";
	ck_assert_ptr_null(open_with(t, text));
	t = s;
	t.principal = "uid:2";
	ck_assert_ptr_null(open_with(t, text));
	t = s;
	t.key = (const uint8_t *)"another key that is for this test";
	ck_assert_ptr_null(open_with(t, text));
	t = s;
	t.now_s += MCP_REQUEST_STATE_LIFE_S;
	json_auto_t *last = open_with(t, text);
	ck_assert_ptr_nonnull(last);
	t.now_s++;
	ck_assert_ptr_null(open_with(t, text));
}
END_TEST

START_TEST(test_every_changed_byte_is_detected)
{
	json_auto_t *params = json_pack("{ss}", "uri", "x://y"), *kept = json_pack("[i]", 1);
	const struct mcp_request_state s = { .key = key, .method = "resources/read", .params = params, .now_s = 5 };
	mem_auto char *text = mcp_request_state_sign(&s, kept);

	for (size_t i = 0; text[i]; i++) {
		char was = text[i];

		for (int with = 1; with < 128; with++) {
			text[i] = (char)with;
			if (with != was)
				ck_assert_msg(open_with(s, text) == NULL, "byte %zu as %d", i, with);
		}
		text[i] = was;
	}
	static const char *const odd[] = {
		"", ".", "..", "...", "1..", "1.a.", "99999999999999999999999999.a.b", "-1.a.b", "1.a.b.c"
	};
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		ck_assert_ptr_null(open_with(s, odd[i]));
}
END_TEST

int main(void)
{
	return SUITE("mcp_request_state", test_a_state_is_bound_to_its_request_and_principal,
		     test_every_changed_byte_is_detected);
}
