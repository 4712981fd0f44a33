#include "runtime/base/err.h"
#include "runtime/event/event.h"
#include "runtime/event/payload.h"
#include "tests/unit/suite.h"

#include <string.h>

static const struct event_info row = {
	.name = "test.type",
	.payload = "s:string i?:int n?:number b?:bool o?:object a?:array x?:any z:string",
	.required_members = "one two",
};

static int check(const char *json, struct err *e) { return payload_check(&row, json, strlen(json), e); }

static void check_accepted(const char *json)
{
	struct err e = ERR_INIT;

	ck_assert_msg(check(json, &e) == 0, "%s: %s", json, e.message);
}

static void check_rejected(const char *json, const char *field)
{
	struct err e = ERR_INIT;

	ck_assert_msg(check(json, &e) == -1, "%s", json);
	ck_assert_int_eq(e.code, ERR_INVALID);
	ck_assert_str_eq(e.field, field);
	ck_assert_ptr_nonnull(strstr(e.message, "test.type"));
}

START_TEST(payloads_that_match_the_row_are_accepted)
{
	check_accepted("{\"s\":\"\",\"z\":\"\"}");
	check_accepted("{\"s\":\"\",\"i\":-12,\"n\":1.5,\"b\":false,\"o\":{},\"a\":[],\"x\":[1],\"z\":\"\"}");
	check_accepted("{\"n\":3,\"s\":\"\",\"z\":\"\"}");
}
END_TEST

START_TEST(members_can_be_in_any_order_and_more_can_follow)
{
	check_accepted("{\"z\":\"\",\"extra\":{\"s\":1},\"o\":{\"z\":2},\"i\":1,\"s\":\"\"}");
	check_accepted("{\"x\":1,\"a\":[],\"o\":{},\"b\":true,\"n\":0,\"i\":0,\"z\":\"\",\"s\":\"\"}");
}
END_TEST

START_TEST(errors_name_missing_members)
{
	check_rejected("{}", "payload.s");
	check_rejected("{\"s\":\"\"}", "payload.z");
	check_rejected("{\"z\":\"\",\"o\":{\"s\":\"nested does not count\"}}", "payload.s");
}
END_TEST

START_TEST(types_are_checked)
{
	check_rejected("{\"s\":1,\"z\":\"\"}", "payload.s");
	check_rejected("{\"s\":\"\",\"z\":\"\",\"i\":1.5}", "payload.i");
	check_rejected("{\"s\":\"\",\"z\":\"\",\"i\":1e2}", "payload.i");
	check_rejected("{\"s\":\"\",\"z\":\"\",\"i\":\"1\"}", "payload.i");
	check_rejected("{\"s\":\"\",\"z\":\"\",\"n\":\"1\"}", "payload.n");
	check_rejected("{\"s\":\"\",\"z\":\"\",\"b\":1}", "payload.b");
	check_rejected("{\"s\":\"\",\"z\":\"\",\"o\":[]}", "payload.o");
	check_rejected("{\"s\":\"\",\"z\":\"\",\"a\":{}}", "payload.a");
	check_rejected("{\"s\":\"\",\"z\":\"\",\"x\":null}", "payload");
}
END_TEST

START_TEST(only_a_complete_object_is_a_payload)
{
	check_rejected("", "payload");
	check_rejected("[]", "payload");
	check_rejected("{", "payload");
	check_rejected("{}}", "payload");
	check_rejected("{} ", "payload");
	check_rejected("{\"s\":\"\",\"z\":\"\"},\"status\":\"forged\"", "payload");
	check_rejected("{\"s\":\"\" \"z\":\"\"}", "payload");
	check_rejected("{\"s\":\"\",\"z\":\"\"", "payload");
}
END_TEST

START_TEST(required_top_level_members_are_checked)
{
	struct err e = ERR_INIT;
	uint64_t seen = 0;

	ck_assert_int_eq(payload_names_missing(&row, seen, &e), -1);
	ck_assert_str_eq(e.field, "one");
	payload_name_seen(row.required_members, jval_of("\"one\"", 5), &seen);
	ck_assert_int_eq(payload_names_missing(&row, seen, &e), -1);
	ck_assert_str_eq(e.field, "two");
	payload_name_seen(row.required_members, jval_of("\"tw\"", 4), &seen);
	ck_assert_int_eq(payload_names_missing(&row, seen, &e), -1);
	payload_name_seen(row.required_members, jval_of("\"two\"", 5), &seen);
	ck_assert_int_eq(payload_names_missing(&row, seen, &e), 0);
}
END_TEST

int main(void)
{
	return SUITE("payload", payloads_that_match_the_row_are_accepted,
		     members_can_be_in_any_order_and_more_can_follow, errors_name_missing_members, types_are_checked,
		     only_a_complete_object_is_a_payload, required_top_level_members_are_checked);
}
