#include "runtime/base/opts.h"

#include "runtime/base/err.h"
#include "supervisor/cli/cli_main.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

#define MOST 16

/* Splits at spaces; the words stay alive until the test ends. */
static int parse(const char *verb, const char *line, struct opts *o, struct err *e)
{
	static char text[256];
	char *argv[MOST];
	int argc = 0;

	snprintf(text, sizeof(text), "%s", line);
	for (char *p = text, *save = NULL, *w; argc < MOST && (w = strtok_r(p, " ", &save)); p = NULL)
		argv[argc++] = w;
	struct opt_table table = verb_options(verb_find(&cli_verbs, verb));
	return opts_parse(&table, argc, argv, o, e);
}

START_TEST(test_options_are_parsed_in_all_forms)
{
	struct opts o;
	struct err e = ERR_INIT;

	ck_assert_int_eq(parse("kill", "-s TERM a -sINT --signal HUP b --signal=9", &o, &e), 0);
	ck_assert_uint_eq(o.nargs, 2);
	ck_assert_str_eq(o.args[1], "b");
	ck_assert_uint_eq(o.ngiven, 4);
	ck_assert_str_eq(o.given[0].value, "TERM");
	ck_assert_str_eq(o.given[1].value, "INT");
	ck_assert_str_eq(o.given[2].value, "HUP");
	ck_assert_str_eq(opts_get(&o, OPT_kill_SIGNAL), "9");
	opts_done(&o);
}
END_TEST

START_TEST(test_short_flags_can_be_combined)
{
	struct opts o;
	struct err e = ERR_INIT;

	ck_assert_int_eq(parse("run", "-dit ls -l --json", &o, &e), 0);
	ck_assert(opts_has(&o, OPT_run_DETACH) && opts_has(&o, OPT_run_INTERACTIVE) && opts_has(&o, OPT_run_TTY));
	ck_assert(!opts_has(&o, OPT_run_JSON));
	ck_assert_uint_eq(o.nargs, 3);
	opts_done(&o);
}
END_TEST

START_TEST(test_two_hyphens_end_the_options)
{
	struct opts o;
	struct err e = ERR_INIT;

	ck_assert_int_eq(parse("run", "--cwd / -- --json --", &o, &e), 0);
	ck_assert_uint_eq(o.nargs, 2);
	ck_assert_str_eq(o.args[0], "--json");
	ck_assert_str_eq(o.args[1], "--");
	ck_assert_str_eq(opts_get(&o, OPT_run_CWD), "/");
	opts_done(&o);
	ck_assert_int_eq(parse("call", "get_health -", &o, &e), 0);
	ck_assert_uint_eq(o.nargs, 2);
	opts_done(&o);
}
END_TEST

START_TEST(test_errors_name_the_option)
{
	static const struct {
		const char *verb, *line, *field;
	} bad[] = {
		{ "run", "--rx /x ls", "--rx" },
		{ "run", "--memories=5 ls", "--memories" },
		{ "run", "-z ls", "-z" },
		{ "run", "--cwd", "--cwd" },
		{ "run", "--json=yes ls", "--json" },
		{ "kill", "-s", "-s" },
		{ "ps", "--follow", "--follow" },
		{ "logs", "-fq x", "-q" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct opts o = { 0 };
		struct err e = ERR_INIT;

		ck_assert_int_eq(parse(bad[i].verb, bad[i].line, &o, &e), -1);
		ck_assert_str_eq(e.field, bad[i].field);
		ck_assert_ptr_nonnull(strstr(e.message, bad[i].field));
	}
}
END_TEST

START_TEST(test_every_verb_has_help)
{
	for (size_t i = 0; i < cli_verbs.n; i++) {
		struct opts o;
		struct err e = ERR_INIT;

		ck_assert_int_eq(parse(cli_verbs.rows[i].name, "--help", &o, &e), 0);
		ck_assert(o.help);
		opts_done(&o);
	}
}
END_TEST

int main(void)
{
	return SUITE("opts", test_options_are_parsed_in_all_forms, test_short_flags_can_be_combined,
		     test_two_hyphens_end_the_options, test_errors_name_the_option, test_every_verb_has_help);
}
