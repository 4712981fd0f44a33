#include "supervisor/host/config.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include "tests/unit/suite.h"

static void check_parsed(const char *text, struct config *c)
{
	struct err e = ERR_INIT;

	ck_assert_msg(config_parse(text, strlen(text), c, &e) == 0, "%s: %s", e.field, e.message);
}

/* Checks that the text is rejected with `field` and with `part` in the message, and that the result is unchanged. */
static void check_rejected(const char *text, const char *field, const char *part)
{
	struct config c;
	struct err e = ERR_INIT;

	config_defaults(&c);
	c.stop_grace_ms = 77;
	ck_assert_int_lt(config_parse(text, strlen(text), &c, &e), 0);
	ck_assert_int_eq(e.code, ERR_INVALID);
	ck_assert_str_eq(e.field, field);
	ck_assert_msg(strstr(e.message, part) != NULL, "%s", e.message);
	ck_assert_uint_eq(c.stop_grace_ms, 77);
}

START_TEST(defaults_are_within_their_own_bounds)
{
	struct config c;

	config_defaults(&c);
#define CONFIG_STRING(field, key, def, help) ck_assert_str_ne(c.field, "");
#define CONFIG_UINT(field, key, def, min, max, help) \
	ck_assert(c.field + 1 > (uint64_t)(min) && c.field <= (uint64_t)(max));
#include "supervisor/host/config_keys.def"
#undef CONFIG_STRING
#undef CONFIG_UINT
	ck_assert_uint_eq(c.napprover_uids, 0);
}
END_TEST

START_TEST(an_empty_object_gives_the_defaults)
{
	struct config a, b;

	config_defaults(&a);
	check_parsed("{}", &b);
	ck_assert_int_eq(memcmp(&a, &b, sizeof(a)), 0);
}
END_TEST

START_TEST(keys_set_their_values)
{
	struct config c;

	check_parsed("{\"stopGraceMs\":0,\"schemaVersion\":\"x-1\",\"approvers\":{\"uids\":[0,1000],\"gids\":[27]},"
		     "\"retainDays\":30}",
		     &c);
	ck_assert_uint_eq(c.stop_grace_ms, 0);
	ck_assert_str_eq(c.schema_version, "x-1");
	ck_assert_uint_eq(c.retain_days, 30);
	ck_assert_uint_eq(c.napprover_uids, 2);
	ck_assert_uint_eq(c.approver_uids[1], 1000);
	ck_assert_uint_eq(c.napprover_gids, 1);
	ck_assert_uint_eq(c.approver_gids[0], 27);
	ck_assert_uint_eq(c.max_processes, 1024);
}
END_TEST

START_TEST(errors_name_the_key)
{
	check_rejected("{\"stopGrace\":1}", "stopGrace", "unknown key");
	check_rejected("{\"stopGraceMs\":\"5s\"}", "stopGraceMs", "not a string");
	check_rejected("{\"stopGraceMs\":1.5}", "stopGraceMs", "not a fraction");
	check_rejected("{\"stopGraceMs\":-1}", "stopGraceMs", "0 to 600000");
	check_rejected("{\"stopGraceMs\":600001}", "stopGraceMs", "0 to 600000");
	check_rejected("{\"idleExitMs\":1}", "idleExitMs", "1000 or more");
	check_rejected("{\"maxProcesses\":null}", "maxProcesses", "not null");
	check_rejected("{\"schemaVersion\":7}", "schemaVersion", "must be a string");
	check_rejected("{\"schemaVersion\":\"\"}", "schemaVersion", "1 to 127");
	check_rejected("{\"schemaVersion\":\"a\\nb\"}", "schemaVersion", "control");
	check_rejected("{\"approvers\":[]}", "approvers", "not an array");
	check_rejected("{\"approvers\":{\"users\":[]}}", "approvers.users", "unknown key");
	check_rejected("{\"approvers\":{\"uids\":7}}", "approvers.uids", "not an integer");
	check_rejected("{\"approvers\":{\"uids\":[1,-2]}}", "approvers.uids[1]", "must be an id");
	check_rejected("{\"approvers\":{\"gids\":[4294967295]}}", "approvers.gids[0]", "must be an id");
}
END_TEST

START_TEST(errors_in_json_name_the_line)
{
	check_rejected("{\n\"stopGraceMs\": }", "", "line 2");
	check_rejected("{\"a\":1,\"a\":2}", "", "duplicate");
	check_rejected("[]", "", "must be an object");
	check_rejected("", "", "line");
	check_rejected("{\"stopGraceMs\":99999999999999999999}", "", "too big");
}
END_TEST

START_TEST(sizes_are_capped)
{
	buf_auto struct buf b = BUF_INIT;
	struct config c;
	struct err e = ERR_INIT;

	buf_str(&b, "{\"approvers\":{\"uids\":[0");
	for (int i = 0; i < 32; i++)
		buf_printf(&b, ",%d", i);
	buf_str(&b, "]}}");
	check_rejected(b.data, "approvers.uids", "at most 32");
	memset(buf_reserve(&b, 2 << 20), ' ', 2 << 20);
	ck_assert_int_lt(config_parse(b.data, 2 << 20, &c, &e), 0);
}
END_TEST

int main(void)
{
	return SUITE("config", defaults_are_within_their_own_bounds, an_empty_object_gives_the_defaults,
		     keys_set_their_values, errors_name_the_key, errors_in_json_name_the_line, sizes_are_capped);
}
