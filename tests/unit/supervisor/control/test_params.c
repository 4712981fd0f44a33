#include "runtime/base/err.h"
#include "supervisor/control/control.h"
#include "supervisor/control/method_params.h"
#include "supervisor/control/ownership.h"
#include "supervisor/control/request.h"
#include "tests/unit/supervisor/control/fake_engine.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct param inner[] = {
	{ "wallMs", PARAM_UINT, 0, NULL, NULL, "time" },
	{ "name", PARAM_STRING, PARAM_REQUIRED, NULL, NULL, "a name" },
	{ .name = NULL },
};
static const struct param *inner_rows(void) { return inner; }
static const struct param outer[] = {
	{ "text", PARAM_STRING, 0, NULL, NULL, "" },
	{ "bytes", PARAM_STRING, PARAM_NUL, NULL, NULL, "" },
	{ "id", PARAM_ID, 0, NULL, NULL, "" },
	{ "n", PARAM_UINT, 0, NULL, NULL, "" },
	{ "i", PARAM_INT, 0, NULL, NULL, "" },
	{ "flag", PARAM_BOOL, 0, NULL, NULL, "" },
	{ "limits", PARAM_OBJECT, 0, NULL, inner_rows, "" },
	{ "any", PARAM_OBJECT, 0, NULL, NULL, "" },
	{ "words", PARAM_STRINGS, 0, NULL, NULL, "" },
	{ "env", PARAM_ENV, 0, NULL, NULL, "" },
	{ "list", PARAM_ARRAY, 0, NULL, NULL, "" },
	{ "mode", PARAM_ENUM, 0, "none|pipe", NULL, "" },
	{ "cwd", PARAM_PATH, 0, NULL, NULL, "" },
	{ "what", PARAM_ANY, 0, NULL, NULL, "" },
	{ .name = NULL },
};

#define OPEN_8 "[[[[[[[["
#define CLOSE_8 "]]]]]]]]"
#define OPEN_48 OPEN_8 OPEN_8 OPEN_8 OPEN_8 OPEN_8 OPEN_8
#define CLOSE_48 CLOSE_8 CLOSE_8 CLOSE_8 CLOSE_8 CLOSE_8 CLOSE_8

static const struct {
	const char *json, *field, *part;
} bad[] = {
	{ "{\"text\":5}", "text", "expected a string, got an integer" },
	{ "{\"text\":null}", "text", "got null" },
	{ "{\"text\":\"a\\u0000b\"}", "text", "\\u0000" },
	{ "{\"id\":\"has space\"}", "id", "expected an id" },
	{ "{\"id\":\"\"}", "id", "expected an id" },
	{ "{\"id\":\"a\\u0000\"}", "id", "\\u0000" },
	{ "{\"n\":-1}", "n", "0 or more" },
	{ "{\"n\":1.5}", "n", "fraction" },
	{ "{\"n\":\"1\"}", "n", "got a string" },
	{ "{\"i\":1.5}", "i", "whole number" },
	{ "{\"flag\":1}", "flag", "true or false" },
	{ "{\"limits\":[]}", "limits", "an object" },
	{ "{\"limits\":{}}", "limits.name", "missing; a name" },
	{ "{\"limits\":{\"name\":\"x\",\"wallMs\":true}}", "limits.wallMs", "got true" },
	{ "{\"limits\":{\"name\":\"x\",\"walMs\":1}}", "limits.walMs", "did you mean wallMs?" },
	{ "{\"limits\":{\"name\":\"x\",\"unheardOf\":1}}", "limits.unheardOf", "expected wallMs, name" },
	{ "{\"words\":\"x\"}", "words", "array of strings" },
	{ "{\"words\":[\"a\",5]}", "words[1]", "expected a string" },
	{ "{\"words\":[\"a\\u0000\"]}", "words[0]", "\\u0000" },
	{ "{\"env\":[]}", "env", "object of strings" },
	{ "{\"env\":{\"A\":5}}", "env.A", "null to remove" },
	{ "{\"env\":{\"A=B\":\"x\"}}", "env.A=B", "without =" },
	{ "{\"env\":{\"\":\"x\"}}", "env.", "not empty" },
	{ "{\"env\":{\"A\":\"\\u0000\"}}", "env.A", "\\u0000" },
	{ "{\"list\":{}}", "list", "an array" },
	{ "{\"list\":[{\"a\":[\"b\",\"\\u0000\"]}]}", "list", "strings without \\u0000" },
	{ "{\"any\":{\"q\":[\"\\u0000\"]}}", "any", "strings without \\u0000" },
	{ "{\"what\":\"\\u0000\"}", "what", "strings without \\u0000" },
	{ "{\"list\":" OPEN_48 "[]" CLOSE_48 "}", "list", "at most 48 levels" },
	{ "{\"any\":{\"q\":" OPEN_48 CLOSE_48 "}}", "any", "at most 48 levels" },
	{ "{\"mode\":\"tube\"}", "mode", "none|pipe" },
	{ "{\"mode\":\"none|pipe\"}", "mode", "none|pipe" },
	{ "{\"mode\":\"\"}", "mode", "none|pipe" },
	{ "{\"mode\":false}", "mode", "got false" },
	{ "{\"cwd\":\"relative\"}", "cwd", "starts with /" },
	{ "{\"cwd\":\"\"}", "cwd", "starts with /" },
	{ "{\"nonsense\":1}", "nonsense", "unknown parameter" },
	{ "{\"\":1}", "\"\"", "unknown parameter" },
};

START_TEST(errors_name_the_field)
{
	struct err e = ERR_INIT;
	json_auto_t *v = json_loads(bad[_i].json, JSON_ALLOW_NUL, NULL);
	ck_assert_ptr_nonnull(v);
	ck_assert_int_eq(params_check(outer, v, "", &e), -1);
	ck_assert_int_eq(e.code, ERR_INVALID);
	ck_assert_str_eq(e.field, bad[_i].field);
	ck_assert_msg(strstr(e.message, bad[_i].part) != NULL, "%s", e.message);
}
END_TEST

START_TEST(valid_parameters_are_accepted)
{
	struct err e = ERR_INIT;
	json_auto_t *v = json_loads(
		"{\"text\":\"\",\"bytes\":\"a\\u0000b\",\"id\":\"proc_1:x\",\"n\":0,\"i\":-5,\"flag\":false,"
		"\"limits\":{\"name\":\"x\",\"wallMs\":9007199254740993},\"any\":{\"q\":[1]},\"words\":[],\"env\":{"
		"\"A\":\"\",\"B\":null},"
		"\"list\":" OPEN_48 CLOSE_48 ",\"mode\":\"pipe\",\"cwd\":\"/\",\"what\":null}",
		JSON_ALLOW_NUL, NULL);
	ck_assert_msg(params_check(outer, v, "", &e) == 0, "%s: %s", e.field, e.message);
	json_auto_t *none = json_object();
	ck_assert_int_eq(params_check(outer, none, "", &e), 0);
}
END_TEST

START_TEST(a_long_unknown_name_is_rejected)
{
	struct err e = ERR_INIT;
	char key[5000];
	memset(key, 'k', sizeof key - 1);
	key[sizeof key - 1] = '\0';
	json_auto_t *v = json_pack("{s:i}", key, 1);
	ck_assert_int_eq(params_check(outer, v, "", &e), -1);
	ck_assert_str_eq(e.message, "unknown parameter; expected text, bytes, id, n, i, flag, limits, any, words, env, "
				    "list, mode, cwd, what");
}
END_TEST

START_TEST(the_method_table_is_consistent)
{
	for (size_t i = 0; i < control_methods.count; i++) {
		const struct method *m = &control_methods.rows[i];
		ck_assert_ptr_eq(method_find(&control_methods, m->name), m);
		ck_assert(m->handler && m->summary && *m->summary);
		bool key = false;
		for (const struct param *p = m->params(); p->name; p++) {
			key |= strcmp(p->name, "idempotencyKey") == 0;
			ck_assert_msg((p->type == PARAM_ENUM) == (p->detail != NULL), "%s.%s", m->name, p->name);
			ck_assert_msg(p->summary && *p->summary, "%s.%s", m->name, p->name);
			for (const struct param *q = m->params(); q < p; q++)
				ck_assert_str_ne(p->name, q->name);
		}
		ck_assert(key == m->mutating);
	}
	ck_assert_ptr_null(method_find(&control_methods, "nope"));
	ck_assert_str_eq(method_nearest(&control_methods, "start_proces"), "start_process");
	ck_assert_ptr_null(method_nearest(&control_methods, "completely_different_thing"));
}
END_TEST

static void check_rows(const struct method *m, const struct param *params)
{
	for (const struct param *p = params; p->name; p++) {
		ck_assert_msg(p->type != PARAM_ID || ownership_knows(p->name), "%s.%s: owned_ids.def has no row for it",
			      m->name, p->name);
		if (p->members)
			check_rows(m, p->members());
	}
}

START_TEST(every_id_parameter_has_a_known_owner)
{
	for (size_t i = 0; i < control_methods.count; i++)
		check_rows(&control_methods.rows[i], control_methods.rows[i].params());
	ck_assert(!ownership_knows("surprise"));
}
END_TEST

START_TEST(a_struct_is_filled_from_the_parameters)
{
	json_auto_t *given = json_loads(
		"{\"processId\":\"proc_1\",\"until\":{\"text\":\"$ \",\"exit\":true},\"after\":0}", 0, NULL);
	const struct method *m = method_find(&control_methods, "wait_screen");
	struct wait_screen_params p = { 0 };
	struct err e = ERR_INIT;

	ck_assert_int_eq(params_parse(m->params(), given, &p, &e), 0);
	ck_assert_str_eq(p.processId, "proc_1");
	ck_assert_ptr_eq(p.until.json, json_object_get(given, "until"));
	ck_assert_str_eq(p.until.text, "$ ");
	ck_assert_ptr_null(p.until.regex);
	ck_assert(p.until.exit.given && p.until.exit.value);
	ck_assert(!p.until.idleMs.given);
	ck_assert(p.after.given && p.after.value == 0);
	ck_assert(!p.timeoutMs.given);
	ck_assert_uint_eq(param_uint_or(p.timeoutMs, 7), 7);
}
END_TEST

START_TEST(a_mutating_method_has_its_idempotency_key)
{
	json_auto_t *given = json_loads("{\"idempotencyKey\":\"k\",\"processId\":\"proc_1\",\"data\":\"x\"}", 0, NULL);
	const struct method *m = method_find(&control_methods, "write_process_stdin");
	union method_params p = { 0 };
	struct err e = ERR_INIT;

	ck_assert_int_eq(params_parse(m->params(), given, &p, &e), 0);
	ck_assert_str_eq(p.mutating.idempotencyKey, "k");
	ck_assert_ptr_null(p.mutating.traceparent);
	ck_assert_str_eq(p.write_process_stdin.data, "x");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("params");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, errors_name_the_field, 0, (int)(sizeof bad / sizeof *bad));
	tcase_add_test(t, valid_parameters_are_accepted);
	tcase_add_test(t, a_long_unknown_name_is_rejected);
	tcase_add_test(t, the_method_table_is_consistent);
	tcase_add_test(t, every_id_parameter_has_a_known_owner);
	tcase_add_test(t, a_struct_is_filled_from_the_parameters);
	tcase_add_test(t, a_mutating_method_has_its_idempotency_key);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
