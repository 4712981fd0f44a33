#include "supervisor/gateway/common/rpc_message.h"

#include "tests/unit/suite.h"

#include <string.h>

static int parse(const char *text, enum rpc_dialect d, struct rpc_message *m, struct rpc_problem *p)
{
	return rpc_message_parse(text, strlen(text), d, m, p);
}

START_TEST(test_kinds_of_messages_are_recognized)
{
	static const struct {
		const char *text;
		enum rpc_dialect dialect;
		enum rpc_kind kind;
	} rows[] = {
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}", RPC_VERSIONED, RPC_REQUEST },
		{ "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}", RPC_VERSIONED, RPC_REQUEST },
		{ "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"m\",\"params\":[1]}", RPC_VERSIONED, RPC_REQUEST },
		{ "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":null}", RPC_VERSIONED, RPC_NOTIFICATION },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}", RPC_VERSIONED, RPC_RESPONSE },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":null}", RPC_VERSIONED, RPC_RESPONSE },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1}}", RPC_VERSIONED, RPC_RESPONSE },
		{ "{\"id\":1,\"method\":\"m\"}", RPC_BARE, RPC_REQUEST },
		{ "{\"method\":\"m\",\"more\":1}", RPC_BARE, RPC_NOTIFICATION },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		rpc_message_auto struct rpc_message m = { 0 };
		struct rpc_problem p = { 0 };

		ck_assert_msg(parse(rows[i].text, rows[i].dialect, &m, &p) == 0, "%s: %s", rows[i].text, p.message);
		ck_assert_int_eq(m.kind, rows[i].kind);
	}
}
END_TEST

START_TEST(test_invalid_messages_are_rejected_with_code_and_id)
{
	static const struct {
		const char *text;
		int code;
		const char *id; /* NULL = null */
	} rows[] = {
		{ "", RPC_PARSE_ERROR, NULL },
		{ "{", RPC_PARSE_ERROR, NULL },
		{ "{\"id\":1} x", RPC_PARSE_ERROR, NULL },
		{ "[]", RPC_INVALID_REQUEST, NULL },
		{ "\"x\"", RPC_INVALID_REQUEST, NULL },
		{ "{\"jsonrpc\":\"2.0\"}", RPC_INVALID_REQUEST, NULL },
		{ "{\"jsonrpc\":\"2.0\",\"id\":\"a\"}", RPC_INVALID_REQUEST, "a" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":1,\"error\":{}}", RPC_INVALID_REQUEST, "a" },
		{ "{\"id\":\"a\",\"method\":\"m\"}", RPC_INVALID_REQUEST, "a" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"m\"}", RPC_INVALID_REQUEST, NULL },
		{ "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"m\"}", RPC_INVALID_REQUEST, NULL },
		{ "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"\"}", RPC_INVALID_REQUEST, "a" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"a\\u0000b\"}", RPC_INVALID_REQUEST, "a" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"m\",\"params\":3}", RPC_INVALID_REQUEST, "a" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rpc_message m = { 0 };
		struct rpc_problem p = { 0 };

		ck_assert_msg(parse(rows[i].text, RPC_VERSIONED, &m, &p) < 0, "%s", rows[i].text);
		ck_assert_msg(p.code == rows[i].code, "%s: %d %s", rows[i].text, p.code, p.message);
		if (rows[i].id)
			ck_assert_str_eq(json_string_value(p.id), rows[i].id);
		else
			ck_assert(json_is_null(p.id));
		rpc_problem_done(&p);
	}
}
END_TEST

START_TEST(test_written_messages_are_read_back)
{
	json_auto_t *id = json_string("7");
	json_t *messages[] = {
		rpc_message_request(RPC_VERSIONED, id, "m", json_object()),
		rpc_message_notification(RPC_VERSIONED, "m", NULL),
		rpc_message_result(RPC_VERSIONED, id, json_object()),
		rpc_message_error(RPC_VERSIONED, id, -1, "\xff", NULL),
	};
	static const enum rpc_kind kinds[] = { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESPONSE, RPC_RESPONSE };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		buf_auto struct buf line = BUF_INIT;
		rpc_message_auto struct rpc_message m = { 0 };
		struct rpc_problem p = { 0 };

		rpc_message_write(messages[i], true, &line);
		json_decref(messages[i]);
		ck_assert_int_eq(line.data[line.len - 1], '\n');
		ck_assert_int_eq(rpc_message_parse(line.data, line.len, RPC_VERSIONED, &m, &p), 0);
		ck_assert_int_eq(m.kind, kinds[i]);
	}
}
END_TEST

START_TEST(test_the_id_of_invalid_json_is_found)
{
	static const struct {
		const char *text;
		int id; /* 0: not found */
	} rows[] = {
		{ "{\"id\": 7, \"method\": \"x\", \"params\": {\"a\": \"\\ud800\"}}", 7 },
		{ "{\"method\": \"x\", \"params\": [1e999], \"id\": 8}", 8 },
		{ "{\"id\": 1e999, \"method\": \"x\"}", 0 },
		{ "{\"id\": 7, \"result\": 1e999}", 0 },
		{ "{\"id\": {}, \"method\": \"x\"}", 0 },
		{ "nonsense", 0 },
		{ "", 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_auto_t *id = rpc_message_find_id(rows[i].text, strlen(rows[i].text));

		ck_assert_msg(json_integer_value(id) == rows[i].id, "%s", rows[i].text);
	}
}
END_TEST

START_TEST(test_text_is_always_utf8)
{
	json_auto_t *good = rpc_message_text("a\xc3\xa4", 3),
		    *bad = rpc_message_text("a\xff"
					    "b\xc3",
					    4),
		    *nul = rpc_message_text("a\0b", 3);

	ck_assert_str_eq(json_string_value(good), "a\xc3\xa4");
	ck_assert_str_eq(json_string_value(bad), "a\xef\xbf\xbd"
						 "b\xef\xbf\xbd");
	ck_assert_uint_eq(json_string_length(nul), 3);
}
END_TEST

int main(void)
{
	return SUITE("rpc_message", test_kinds_of_messages_are_recognized,
		     test_invalid_messages_are_rejected_with_code_and_id, test_written_messages_are_read_back,
		     test_the_id_of_invalid_json_is_found, test_text_is_always_utf8);
}
