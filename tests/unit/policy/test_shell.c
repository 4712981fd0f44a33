/* The shell parser compared with real shells: which texts are well formed, and the expansion of words. */

#include "policy/command_analysis.h"
#include "policy/shell/shell.h"

#include "runtime/base/mem.h"
#include "tests/unit/policy/corpus.h"
#include "tests/unit/suite.h"

#include <string.h>
#include <sys/wait.h>

static int parses(const char *text, size_t len, enum shell_dialect dialect)
{
	struct shell_script s;
	int rc = shell_parse(text, len, dialect, &s);

	shell_script_done(&s);
	return rc == 0;
}

/* bash -n reports some errors only on stderr. */
static int shell_accepts(const char *shell, const char *text)
{
	const char *const argv[] = { shell, "-n", "-c", text, NULL };
	buf_auto struct buf said = BUF_INIT;
	int status = oracle_run(argv, 2, &said);

	ck_assert_msg(status >= 0, "%s cannot be run", shell);
	buf_byte(&said, '\0');
	return status == 0 && !strstr(said.data, "syntax error") && !strstr(said.data, "expected");
}

struct agreement {
	unsigned checked, bad;
};

static void agree(struct agreement *a, const char *shell, enum shell_dialect dialect, const char *text,
		  const char *where)
{
	int theirs = shell_accepts(shell, text), ours = parses(text, strlen(text), dialect);

	a->checked++;
	if (ours != theirs) {
		a->bad++;
		fprintf(stderr, "%s: %s: %s says %s, we say %s\n", where, text, shell, theirs ? "yes" : "no",
			ours ? "yes" : "no");
	}
}

static void corpus_line(void *ctx, const struct corpus_case *c)
{
	/* bash finds errors in backquotes and here-documents only when it executes them. */
	if (strstr(buf_cstr(&c->expected), "? syntax") &&
	    (strchr(buf_cstr(&c->line), '`') || strstr(buf_cstr(&c->line), "<<")))
		return;
	agree(ctx, "bash", SHELL_BASH, buf_cstr(&c->line), c->file);
}

START_TEST(the_parser_accepts_what_bash_accepts_in_the_corpus)
{
	struct agreement a = { 0 };

	for (size_t i = 0; corpus_names[i]; i++)
		corpus_each(corpus_names[i], corpus_line, &a);
	ck_assert_uint_eq(a.bad, 0);
	ck_assert_uint_ge(a.checked, 900);
}
END_TEST

static void unescape(char *s)
{
	char *out = s;

	for (; *s; s++)
		if (*s == '\\' && (s[1] == 'n' || s[1] == 't'))
			*out++ = *++s == 'n' ? '\n' : '\t';
		else
			*out++ = *s;
	*out = '\0';
}

START_TEST(the_parser_accepts_what_bash_and_dash_accept_in_the_grammar_list)
{
	FILE *f = fopen("tests/unit/policy/corpus/grammar.list", "r");
	struct agreement a = { 0 };
	char line[1024];

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (*line == '#')
			continue;
		unescape(line);
		agree(&a, "bash", SHELL_BASH, line, "grammar");
		agree(&a, "dash", SHELL_POSIX, line, "grammar");
	}
	(void)fclose(f);
	ck_assert_uint_eq(a.bad, 0);
	ck_assert_uint_ge(a.checked, 550);
}
END_TEST

/* ---- words ---- */

/* Each echo writes its words to descriptor 3, NUL after each and a newline as the last: <a\0b\0\n\0>.
 * The program printf writes all at once, unlike bash's own, so that commands in the background do not mix.
 */
#define RECORD "echo() { /usr/bin/printf '%s\\0' \"$@\" '\n' >&3; }; "

static bool has_record(const struct buf *all, const struct shell_command *c)
{
	buf_auto struct buf want = BUF_INIT;

	for (size_t i = 1; i < c->nwords; i++)
		buf_append(&want, c->word[i].value, strlen(c->word[i].value) + 1);
	buf_append(&want, "\n", 2);
	for (size_t at = 0; at + want.len <= all->len; at++)
		if ((at == 0 || (at >= 2 && all->data[at - 1] == '\0' && all->data[at - 2] == '\n')) &&
		    memcmp(all->data + at, want.data, want.len) == 0)
			return true;
	return false;
}

static void words_line(void *ctx, const struct corpus_case *c)
{
	buf_auto struct buf text = BUF_INIT, said = BUF_INIT;
	struct agreement *a = ctx;
	struct shell_script s;
	bool known = false;

	if (c->line.len && c->line.data[c->line.len - 1] == '\\')
		return; /* whether bash treats it as a word depends on the text before it */
	(void)shell_parse(buf_cstr(&c->line), c->line.len, SHELL_BASH, &s);
	for (size_t i = 0; i < s.count; i++)
		known |= s.command[i].nwords && s.command[i].word[0].value &&
			 strcmp(s.command[i].word[0].value, "echo") == 0;
	if (known) {
		buf_str(&text, RECORD);
		buf_str(&text, buf_cstr(&c->line));
		const char *const argv[] = { "bash", "-c", text.data, NULL };
		ck_assert_int_ge(oracle_run(argv, 3, &said), 0);
	}
	for (size_t i = 0; known && i < s.count; i++) {
		const struct shell_command *k = &s.command[i];
		bool all = k->nwords && k->word[0].value && strcmp(k->word[0].value, "echo") == 0;

		for (size_t w = 1; w < k->nwords; w++)
			all &= k->word[w].value != NULL;
		if (!all)
			continue;
		a->checked++;
		if (!has_record(&said, k)) {
			a->bad++;
			fprintf(stderr, "%s:%u: bash did not run echo with these words: %s\n", c->file, c->number,
				buf_cstr(&c->line));
		}
	}
	shell_script_done(&s);
}

START_TEST(words_expand_as_in_bash)
{
	struct agreement a = { 0 };

	corpus_each("quoting", words_line, &a);
	ck_assert_uint_eq(a.bad, 0);
	ck_assert_uint_ge(a.checked, 40);
}
END_TEST

/* ---- every command that runs is found ---- */

static uint32_t rnd(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 10;
}

/* Commands among random pieces of shell syntax. */
static void random_line(uint32_t *state, struct buf *out)
{
	static const char *const pieces[] = {
		"'",     "\"",    "`",         "$(",    ")",           "(",           "{ ",
		" }",    ";",     "&&",        "||",    "|",           "\n",          " ",
		"#",     "\\",    "\\\n",      "\\ ",   "a[",          "]",           "]=",
		"a=",    "$'",    "${x:-",     "}",     "$((",         "))",          "((",
		"[[ ",   " ]]",   "cat <<E\n", "\nE\n", "cat <<'E'\n", "\t",          "case x in x) ",
		";;",    " esac", "if ",       "then ", "fi ",         "for i in 1;", "do ",
		"done ", "f() ",  "eval ",     "*",     "!",           "time ",       "{a,b}",
		"<<<",   "&",     "sh -c ",    "env ",  "\"$(",        "'\"'",        "\\\"",
		"\\`",   "${x#",  "$[",        "\r",    "é",           "command ",    "x=1 ",
	};
	unsigned number = 0;

	for (uint32_t n = 2 + rnd(state) % 11; n; n--) {
		if (rnd(state) % 4 == 0)
			buf_printf(out, "echo %u", ++number);
		else
			buf_str(out, pieces[rnd(state) % countof(pieces)]);
		if (rnd(state) % 5 < 2)
			buf_byte(out, ' ');
		if (rnd(state) % 8 == 0)
			buf_printf(out, "%s echo %u ", rnd(state) % 2 ? ";" : "\n", ++number);
	}
}

/* Whether a record of words matches a command of ours; an unknown word stands for any number of words. */
static bool covers(const struct command_simple *c, size_t i, const char *words, const char *end)
{
	if (i == c->argc)
		return words == end;
	if (c->argv[i]) {
		const size_t n = strlen(c->argv[i]) + 1;

		return (size_t)(end - words) >= n && memcmp(words, c->argv[i], n) == 0 &&
		       covers(c, i + 1, words + n, end);
	}
	for (;; words += strlen(words) + 1) {
		if (covers(c, i + 1, words, end))
			return true;
		if (words >= end)
			return false;
	}
}

static bool is_found(const struct command_facts *f, const char *words, const char *end)
{
	for (size_t i = 0; i < f->ncommands; i++)
		if (f->command[i].name && strcmp(f->command[i].name, "echo") == 0 &&
		    covers(&f->command[i], 1, words, end))
			return true;
	return false;
}

START_TEST(every_command_that_a_shell_runs_is_found)
{
	static const struct analysis_options o = { .cwd = "/w/proj" };
	static const char *const shells[] = { "bash", "dash" };
	uint32_t state = 20240611;
	unsigned ran = 0, bad = 0;

	for (unsigned round = 0; round < 4000 && ran < 300; round++) {
		buf_auto struct buf line = BUF_INIT, text = BUF_INIT;
		command_facts_auto struct command_facts f = { 0 };

		random_line(&state, &line);
		command_analyse_line(line.data, line.len, &o, &f);
		if (f.unknown) /* the parser reported that anything may happen */
			continue;
		buf_str(&text, RECORD);
		buf_append(&text, line.data, line.len);
		for (size_t i = 0; i < countof(shells); i++) {
			const char *const argv[] = { "timeout", "5", shells[i], "-c", text.data, NULL };
			buf_auto struct buf said = BUF_INIT;

			(void)oracle_run(argv, 3, &said);
			for (const char *at = said.data, *end = at + said.len, *stop; at && at < end; at = stop + 2) {
				for (stop = at; stop + 1 < end && !(stop[0] == '\n' && stop[1] == '\0' &&
								    (stop == at || stop[-1] == '\0'));
				     stop++)
					;
				ran++;
				if (is_found(&f, at, stop))
					continue;
				fprintf(stderr, "%s ran echo %s, which is not listed for: %s\n", shells[i], at,
					line.data);
				bad++;
			}
		}
	}
	ck_assert_uint_eq(bad, 0);
	ck_assert_uint_ge(ran, 300);
}
END_TEST

/* ---- properties that cannot be compared with a shell ---- */

START_TEST(commands_have_their_context)
{
	static const char text[] = "a | (b; c) &\nif d; then e $(f); fi\ng() { h; }";
	static const struct {
		const char *name;
		unsigned context;
	} expected[] = {
		{ "a", SHELL_IN_PIPE_TO | SHELL_IN_BACKGROUND },
		{ "b", SHELL_IN_PIPE_FROM | SHELL_IN_SUBSHELL | SHELL_IN_BACKGROUND },
		{ "c", SHELL_IN_PIPE_FROM | SHELL_IN_SUBSHELL | SHELL_IN_BACKGROUND },
		{ "d", SHELL_IN_CONDITION },
		{ "f", SHELL_IN_BRANCH | SHELL_IN_SUBSTITUTION },
		{ "e", SHELL_IN_BRANCH },
		{ "h", SHELL_IN_FUNCTION },
	};
	struct shell_script s;

	ck_assert_int_eq(shell_parse(text, strlen(text), SHELL_BASH, &s), 0);
	ck_assert_uint_eq(s.count, countof(expected));
	for (size_t i = 0; i < s.count; i++) {
		ck_assert_str_eq(s.command[i].word[0].value, expected[i].name);
		ck_assert_msg(s.command[i].context == expected[i].context, "%s: %#x", expected[i].name,
			      s.command[i].context);
	}
	ck_assert_uint_eq(s.command[0].pipeline, s.command[2].pipeline);
	ck_assert_uint_eq(s.command[2].stage, 1);
	ck_assert_str_eq(s.command[6].function, "g");
	shell_script_done(&s);
}
END_TEST

START_TEST(redirections_and_assignments_are_parsed)
{
	static const char text[] = "A=1 B+='x y' cmd <in 2>>log >&2 {fd}>o <<E <<<w\nbody\nE\n";
	static const struct {
		enum shell_redirect_op op;
		int fd;
		const char *target;
	} expected[] = {
		{ SHELL_READ, -1, "in" }, { SHELL_APPEND, 2, "log" }, { SHELL_DUP_OUT, -1, "2" },
		{ SHELL_WRITE, 10, "o" }, { SHELL_HEREDOC, -1, "E" }, { SHELL_HERESTRING, -1, "w" },
	};
	struct shell_script s;

	ck_assert_int_eq(shell_parse(text, strlen(text), SHELL_BASH, &s), 0);
	ck_assert_uint_eq(s.count, 1);
	ck_assert_uint_eq(s.command[0].nassignments, 2);
	ck_assert_str_eq(s.command[0].assignment[1].value.value, "x y");
	ck_assert(s.command[0].assignment[1].append);
	ck_assert_uint_eq(s.command[0].nredirects, countof(expected));
	for (size_t i = 0; i < countof(expected); i++) {
		ck_assert_int_eq(s.command[0].redirect[i].op, expected[i].op);
		ck_assert_int_eq(s.command[0].redirect[i].fd, expected[i].fd);
		ck_assert_str_eq(s.command[0].redirect[i].target.value, expected[i].target);
	}
	ck_assert_str_eq(*s.command[0].redirect[4].body, "body\n");
	ck_assert_str_eq(*s.command[0].redirect[5].body, "w");
	shell_script_done(&s);
}
END_TEST

START_TEST(dialects_differ_where_the_shells_do)
{
	struct shell_script s;

	ck_assert_int_eq(shell_parse("((rm -rf x))", 12, SHELL_BASH, &s), 0);
	ck_assert_uint_eq(s.count, 1);
	ck_assert_int_eq(s.command[0].kind, SHELL_COMPUTE);
	ck_assert(s.bashisms);
	shell_script_done(&s);
	ck_assert_int_eq(shell_parse("((rm -rf x))", 12, SHELL_POSIX, &s), 0);
	ck_assert_str_eq(s.command[0].word[0].value, "rm");
	shell_script_done(&s);
	ck_assert_int_eq(shell_parse("ls | wc", 7, SHELL_BASH, &s), 0);
	ck_assert(!s.bashisms);
	shell_script_done(&s);
}
END_TEST

static void check_rejected(const char *piece, size_t times, const char *message)
{
	buf_auto struct buf text = BUF_INIT;
	struct shell_script s;

	while (times--)
		buf_str(&text, piece);
	ck_assert_int_eq(shell_parse(text.data, text.len, SHELL_BASH, &s), 1);
	ck_assert_msg(s.error.limit && strcmp(s.error.message, message) == 0, "%s: %s", piece, s.error.message);
	shell_script_done(&s);
}

START_TEST(texts_beyond_the_limits_are_rejected)
{
	check_rejected("(", 1000, "nested too deeply");
	check_rejected("$(", 1000, "nested too deeply");
	check_rejected("${x:-", 1000, "nested too deeply");
	check_rejected("{ ", 1000, "nested too deeply");
	check_rejected("a;", SHELL_COMMANDS_MAX + 1, "too many commands");
	check_rejected("a b c d e f g h ", (SHELL_TEXT_MAX >> 4) + 1, "too long");
}
END_TEST

START_TEST(commands_before_a_syntax_error_are_kept)
{
	static const char text[] = "rm x\necho 'a' )\nls";
	struct shell_script s;

	ck_assert_int_eq(shell_parse(text, strlen(text), SHELL_BASH, &s), 1);
	ck_assert_uint_eq(s.error.line, 2);
	ck_assert_uint_eq(s.error.column, 10);
	ck_assert_uint_eq(s.count, 2);
	shell_script_done(&s);
	ck_assert_int_eq(shell_parse("ls\0rm", 5, SHELL_BASH, &s), 1);
	shell_script_done(&s);
}
END_TEST

int main(void)
{
	return SUITE("shell", the_parser_accepts_what_bash_accepts_in_the_corpus,
		     the_parser_accepts_what_bash_and_dash_accept_in_the_grammar_list, words_expand_as_in_bash,
		     every_command_that_a_shell_runs_is_found, commands_have_their_context,
		     redirections_and_assignments_are_parsed, dialects_differ_where_the_shells_do,
		     texts_beyond_the_limits_are_rejected, commands_before_a_syntax_error_are_kept);
}
