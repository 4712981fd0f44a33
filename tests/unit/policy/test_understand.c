/*
 * What command lines would do, from a corpus: tests/unit/policy/corpus/NAME.txt. A case is
 *
 *   $ the line              > its further lines
 *   = a simple command, in order (\n for a newline in it)
 *   ! how bad it is         ? what is not known         read-only
 *   r w d paths             @ host intent
 *
 * and each case says everything: what is not listed must not be found. The working directory and workspace is /w/proj, the
 * home /home/u.
 */

#include "policy/understand.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "tests/unit/policy/corpus.h"
#include "tests/unit/suite.h"

#include <string.h>
#include <time.h>

static const struct understand_options here = { .cwd = "/w/proj", .workspace = "/w/proj", .home = "/home/u" };

static void add_line(struct buf *out, const char *mark, const char *text)
{
	buf_str(out, mark);
	for (; *text; text++)
		if (*text == '\n')
			buf_str(out, "\\n");
		else
			buf_byte(out, *text);
	buf_byte(out, '\n');
}

/* The facts in the form of the corpus. */
static void describe(const struct command_facts *f, struct buf *out)
{
	for (size_t i = 0; i < f->ncommands; i++)
		add_line(out, f->command[i].argc ? "= " : "=", f->command[i].text);
	if (f->harm)
		add_line(out, "! ", command_harm_name(f->harm));
	if (f->unknown) {
		buf_byte(out, '?');
		for (unsigned i = 0; i < COMMAND_UNKNOWN_COUNT; i++)
			if (f->unknown & 1u << i)
				buf_printf(out, " %s", command_unknown_name(i));
		buf_byte(out, '\n');
	}
	if (f->flags & COMMAND_READ_ONLY)
		buf_str(out, "read-only\n");
	for (size_t i = 0; i < f->npaths; i++)
		add_line(out, f->path[i].access & COMMAND_DELETES ? "d " : f->path[i].access & COMMAND_WRITES ? "w " : "r ", f->path[i].path);
	for (size_t i = 0; i < f->nhosts; i++)
		buf_printf(out, "@ %s %s\n", f->host[i].host ? f->host[i].host : "-", f->host[i].intent);
}

static void check_one(void *bad, const struct corpus_case *c)
{
	command_facts_auto struct command_facts f = { 0 };
	buf_auto struct buf found = BUF_INIT;

	command_understand_line(buf_cstr(&c->line), c->line.len, &here, &f);
	describe(&f, &found);
	if (strcmp(buf_cstr(&found), buf_cstr(&c->expected)) == 0)
		return;
	fprintf(stderr, "%s:%u: %s\nexpected:\n%sfound:\n%s\n", c->file, c->number, buf_cstr(&c->line), buf_cstr(&c->expected), buf_cstr(&found));
	++*(unsigned *)bad;
}

START_TEST(the_corpus_is_understood)
{
	unsigned bad = 0, count = 0;

	for (size_t i = 0; corpus_names[i]; i++)
		count += corpus_each(corpus_names[i], check_one, &bad);
	ck_assert_msg(bad == 0, "%u of %u lines are understood differently", bad, count);
	ck_assert_uint_ge(count, 900);
}
END_TEST

static void understand(const char *line, struct command_facts *f)
{
	command_understand_line(line, strlen(line), &here, f);
}

START_TEST(commands_know_their_place)
{
	command_facts_auto struct command_facts f = { 0 };

	understand("true\n  sudo env X=1 sh -c 'rm x'", &f);
	ck_assert_uint_eq(f.ncommands, 5);
	ck_assert_uint_eq(f.command[1].line, 2);
	ck_assert_uint_eq(f.command[1].column, 3);
	ck_assert_str_eq(f.command[4].text, "rm x");
	ck_assert_int_eq(f.command[4].parent, 3);
	ck_assert_uint_eq(f.command[4].nwrappers, 3);
	ck_assert_str_eq(f.command[4].wrappers[0], "sudo");
	ck_assert_str_eq(f.command[4].wrappers[2], "sh");
	ck_assert(f.command[4].flags & COMMAND_PRIVILEGED);
	ck_assert(!(f.command[1].flags & COMMAND_TRANSPARENT));
	ck_assert(f.command[2].flags & COMMAND_TRANSPARENT);
}
END_TEST

START_TEST(words_that_are_not_known_are_null)
{
	command_facts_auto struct command_facts f = { 0 };

	understand("A=1 B=$X git commit -m \"$MSG\" *.c", &f);
	ck_assert_uint_eq(f.ncommands, 1);
	ck_assert_uint_eq(f.command[0].argc, 5);
	ck_assert_str_eq(f.command[0].argv[1], "commit");
	ck_assert_ptr_null(f.command[0].argv[3]);
	ck_assert_str_eq(f.command[0].plain[3], "$MSG");
	ck_assert_ptr_null(f.command[0].argv[4]);
	ck_assert_uint_eq(f.command[0].nassign, 2);
	ck_assert_str_eq(f.command[0].assign[1], "B=$X");
	ck_assert_uint_eq(f.unknown, 0);
}
END_TEST

START_TEST(an_argv_is_no_text)
{
	static const char *const argv[] = { "echo", "$(rm -rf /)", ";", "rm" }, *const shell[] = { "sh", "-c", "rm -rf /; echo" };
	command_facts_auto struct command_facts f = { 0 }, g = { 0 };

	command_understand_argv(argv, countof(argv), &here, &f);
	ck_assert_uint_eq(f.ncommands, 1);
	ck_assert_int_eq(f.harm, COMMAND_HARMLESS);
	command_understand_argv(shell, countof(shell), &here, &g);
	ck_assert_uint_eq(g.ncommands, 3);
	ck_assert_int_eq(g.harm, COMMAND_CATASTROPHIC);
	ck_assert_ptr_nonnull(g.impact);
	ck_assert_ptr_nonnull(g.advice);
}
END_TEST

START_TEST(the_callers_variables_count)
{
	static const char *const env[] = { "LD_PRELOAD=/tmp/x.so" };
	const struct understand_options o = { .cwd = "/w/proj", .env = env, .nenv = 1 };
	command_facts_auto struct command_facts f = { 0 };

	command_understand_line("ls", 2, &o, &f);
	ck_assert(f.unknown & COMMAND_UNKNOWN(VARIABLE));
	ck_assert(!(f.flags & COMMAND_READ_ONLY));
}
END_TEST

START_TEST(home_is_only_known_while_nobody_sets_it)
{
	command_facts_auto struct command_facts f = { 0 }, g = { 0 };

	understand("rm -rf $HOME/x", &f);
	ck_assert_str_eq(f.command[0].argv[2], "/home/u/x");
	understand("for HOME in /; do rm -rf $HOME/x ~/y; done", &g);
	ck_assert_ptr_null(g.command[0].argv[2]);
	ck_assert_ptr_null(g.command[0].argv[3]);
}
END_TEST

START_TEST(mistakes_are_located)
{
	command_facts_auto struct command_facts f = { 0 };

	understand("echo a\necho b )\n", &f);
	ck_assert_str_eq(f.error, "2:8: unexpected ')'");
	ck_assert_uint_eq(f.ncommands, 2);
}
END_TEST

/* Texts in texts in texts: the whole stays small. */
START_TEST(nesting_has_an_end)
{
	buf_auto struct buf line = BUF_INIT;
	command_facts_auto struct command_facts f = { 0 }, g = { 0 };
	struct timespec a, b;

	for (int i = 0; i < 4000; i++)
		buf_str(&line, "env sudo nice ");
	buf_str(&line, "ls");
	clock_gettime(CLOCK_MONOTONIC, &a);
	command_understand_line(line.data, line.len, &here, &f);
	ck_assert(f.unknown & COMMAND_UNKNOWN(TOO_MUCH));
	ck_assert_uint_le(f.ncommands, COMMAND_NESTING_MAX);
	buf_reset(&line);
	for (int i = 0; i < 3000; i++)
		buf_str(&line, "((eval 'eval \"eval {a,b}{c,d}\"'));");
	command_understand_line(line.data, line.len, &here, &g);
	clock_gettime(CLOCK_MONOTONIC, &b);
	ck_assert(g.unknown & COMMAND_UNKNOWN(TOO_MUCH));
	ck_assert_int_lt(b.tv_sec - a.tv_sec, 20);
}
END_TEST

/* What only the other shell would run is found behind any number of other commands, or it is said that it is not. */
START_TEST(the_other_reading_is_not_crowded_out)
{
	buf_auto struct buf line = BUF_INIT;
	command_facts_auto struct command_facts f = { 0 }, g = { 0 };

	for (int i = 0; i < 600; i++)
		buf_str(&line, "true;");
	buf_str(&line, "((rm -rf x))");
	command_understand_line(line.data, line.len, &here, &f);
	ck_assert_int_eq(f.harm, COMMAND_DESTRUCTIVE);
	buf_reset(&line);
	for (int i = 0; i < 120; i++)
		buf_byte(&line, '(');
	buf_str(&line, "rm -rf x");
	for (int i = 0; i < 120; i++)
		buf_byte(&line, ')');
	command_understand_line(line.data, line.len, &here, &g);
	ck_assert(g.unknown & COMMAND_UNKNOWN(TOO_MUCH));
}
END_TEST

START_TEST(every_reason_has_a_name)
{
	for (unsigned i = 0; i < COMMAND_UNKNOWN_COUNT; i++) {
		ck_assert_uint_gt(strlen(command_unknown_name(i)), 2);
		ck_assert_uint_gt(strlen(command_unknown_text(i)), 10);
	}
	ck_assert(COMMAND_UNKNOWN_COVERED & COMMAND_UNKNOWN(CODE));
	ck_assert(!(COMMAND_UNKNOWN_COVERED & COMMAND_UNKNOWN(COMMAND_NAME)));
}
END_TEST

int main(void)
{
	return SUITE("understand", the_corpus_is_understood, commands_know_their_place, words_that_are_not_known_are_null, an_argv_is_no_text,
		     the_callers_variables_count, home_is_only_known_while_nobody_sets_it, mistakes_are_located, nesting_has_an_end, the_other_reading_is_not_crowded_out,
		     every_reason_has_a_name);
}
