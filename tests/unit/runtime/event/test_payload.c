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

static void fits(const char *json)
{
	struct err e = ERR_INIT;

	ck_assert_msg(check(json, &e) == 0, "%s: %s", json, e.message);
}

static void refuses(const char *json, const char *field)
{
	struct err e = ERR_INIT;

	ck_assert_msg(check(json, &e) == -1, "%s", json);
	ck_assert_int_eq(e.code, ERR_INVALID);
	ck_assert_str_eq(e.field, field);
	ck_assert_ptr_nonnull(strstr(e.message, "test.type"));
}

START_TEST(what_the_row_says)
{
	fits("{\"s\":\"\",\"z\":\"\"}");
	fits("{\"s\":\"\",\"i\":-12,\"n\":1.5,\"b\":false,\"o\":{},\"a\":[],\"x\":[1],\"z\":\"\"}");
	fits("{\"n\":3,\"s\":\"\",\"z\":\"\"}");
}
END_TEST

START_TEST(order_does_not_matter_and_more_is_welcome)
{
	fits("{\"z\":\"\",\"extra\":{\"s\":1},\"o\":{\"z\":2},\"i\":1,\"s\":\"\"}");
	fits("{\"x\":1,\"a\":[],\"o\":{},\"b\":true,\"n\":0,\"i\":0,\"z\":\"\",\"s\":\"\"}");
}
END_TEST

START_TEST(missing_members_are_named)
{
	refuses("{}", "payload.s");
	refuses("{\"s\":\"\"}", "payload.z");
	refuses("{\"z\":\"\",\"o\":{\"s\":\"nested does not count\"}}", "payload.s");
}
END_TEST

START_TEST(types_are_held_to)
{
	refuses("{\"s\":1,\"z\":\"\"}", "payload.s");
	refuses("{\"s\":\"\",\"z\":\"\",\"i\":1.5}", "payload.i");
	refuses("{\"s\":\"\",\"z\":\"\",\"i\":1e2}", "payload.i");
	refuses("{\"s\":\"\",\"z\":\"\",\"i\":\"1\"}", "payload.i");
	refuses("{\"s\":\"\",\"z\":\"\",\"n\":\"1\"}", "payload.n");
	refuses("{\"s\":\"\",\"z\":\"\",\"b\":1}", "payload.b");
	refuses("{\"s\":\"\",\"z\":\"\",\"o\":[]}", "payload.o");
	refuses("{\"s\":\"\",\"z\":\"\",\"a\":{}}", "payload.a");
	refuses("{\"s\":\"\",\"z\":\"\",\"x\":null}", "payload");
}
END_TEST

START_TEST(only_a_whole_object_is_a_payload)
{
	refuses("", "payload");
	refuses("[]", "payload");
	refuses("{", "payload");
	refuses("{}}", "payload");
	refuses("{} ", "payload");
	refuses("{\"s\":\"\",\"z\":\"\"},\"status\":\"forged\"", "payload");
	refuses("{\"s\":\"\" \"z\":\"\"}", "payload");
	refuses("{\"s\":\"\",\"z\":\"\"", "payload");
}
END_TEST

START_TEST(top_level_names)
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
	return SUITE("payload", what_the_row_says, order_does_not_matter_and_more_is_welcome, missing_members_are_named,
		     types_are_held_to, only_a_whole_object_is_a_payload, top_level_names);
}
