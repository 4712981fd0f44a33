/*
 * Effects of command lines, from a corpus: tests/unit/policy/corpus/NAME.txt. A case is
 *
 *   $ the line              > its further lines
 *   = a simple command, in order (\n for a newline in it)
 *   ! its harm              ? why it is unknown         read-only
 *   r w d paths             @ host intent
 *
 * and each case is complete: anything that is not listed must not be found. The working directory and workspace is
 * /w/proj, the home /home/u.
 */

#include "policy/args.h"
#include "policy/command_analysis.h"
#include "policy/command_text.h"
#include "policy/decision.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "tests/unit/policy/corpus.h"
#include "tests/unit/suite.h"

#include <string.h>
#include <time.h>

static const struct analysis_options here = { .cwd = "/w/proj", .workspace = "/w/proj", .home = "/home/u" };

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
		add_line(out,
			 f->path[i].access & COMMAND_DELETES  ? "d "
			 : f->path[i].access & COMMAND_WRITES ? "w "
							      : "r ",
			 f->path[i].path);
	for (size_t i = 0; i < f->nhosts; i++)
		buf_printf(out, "@ %s %s\n", f->host[i].host ? f->host[i].host : "-", f->host[i].intent);
}

static void check_one(void *bad, const struct corpus_case *c)
{
	command_facts_auto struct command_facts f = { 0 };
	buf_auto struct buf found = BUF_INIT;

	command_analyse_line(buf_cstr(&c->line), c->line.len, &here, &f);
	describe(&f, &found);
	if (strcmp(buf_cstr(&found), buf_cstr(&c->expected)) == 0)
		return;
	fprintf(stderr, "%s:%u: %s\nexpected:\n%sfound:\n%s\n", c->file, c->number, buf_cstr(&c->line),
		buf_cstr(&c->expected), buf_cstr(&found));
	++*(unsigned *)bad;
}

START_TEST(facts_of_the_corpus_are_as_listed)
{
	unsigned bad = 0, count = 0;

	for (size_t i = 0; corpus_names[i]; i++)
		count += corpus_each(corpus_names[i], check_one, &bad);
	ck_assert_msg(bad == 0, "%u of %u lines are analysed differently", bad, count);
	ck_assert_uint_ge(count, 900);
}
END_TEST

/* ---- decisions ---- */

/* The corpus's own classification of a line, independent of the parser. */
struct stated {
	bool read_only, harm, unknown; /* harm: destructive or worse; unknown: for a reason that no rule covers */
	bool removes, pushes, git;     /* one of its commands is rm; git push; anything with git */
	bool plain;                    /* all of it is known, and no word is a variable or pattern */
};

static bool is_word(const char *text, size_t len, const char *word)
{
	size_t n = strlen(word);

	return len >= n && strncmp(text, word, n) == 0 && (len == n || text[n] == ' ');
}

static void take_stated(struct stated *t, const char *line, size_t len)
{
	if (len > 2 && strncmp(line, "= ", 2) == 0) {
		const char *name = line + 2, *slash = memchr(name, ' ', len - 2);
		size_t n = slash ? (size_t)(slash - name) : len - 2;
		const char *base = memrchr(name, '/', n);

		if (base) {
			len -= (size_t)(base + 1 - line) - 2;
			name = base + 1;
		}
		/* A name that is a pattern is not known: that asks. */
		t->removes |= is_word(name, len - 2, "rm") && !memchr(line + 2, '?', n) && !memchr(line + 2, '*', n);
		t->git |= is_word(name, len - 2, "git");
		t->pushes |= is_word(name, len - 2, "git push");
		t->plain &= !memchr(line, '$', len) && !memchr(line, '*', len) && !memchr(line, '?', len) &&
			    !memchr(line, '[', len) && !memchr(line, '`', len) && !memchr(line, '{', len) &&
			    !memchr(line, '<', len);
	} else if (len > 2 && line[0] == '!') {
		t->harm = !is_word(line + 2, len - 2, "risky");
	} else if (len > 2 && line[0] == '?') {
		for (const char *s = line + 2; s < line + len;) {
			size_t n = strcspn(s, " \n");

			t->unknown |= !is_word(s, n, "sourced") && !is_word(s, n, "remote") && !is_word(s, n, "code");
			s += n + 1;
		}
		t->plain = false;
	} else if (is_word(line, len, "read-only")) {
		t->read_only = true;
	}
}

static const char *answer_of(const struct command_facts *f, const struct policy_rules *rules, int mode,
			     struct policy_decision *d)
{
	const struct policy_request q = { .cwd = here.cwd,
					  .workspace = here.workspace,
					  .home = here.home,
					  .mode = mode,
					  .facts = f,
					  .rules = rules,
					  .profile = "workspace" };

	policy_decide(&q, d);
	return policy_answer_name(d->answer);
}

static const struct policy_rules *stopping;

static void decide_one(void *bad, const struct corpus_case *c)
{
	command_facts_auto struct command_facts f = { 0 };
	struct stated t = { .plain = true };
	struct policy_decision d;

	for (const char *s = buf_cstr(&c->expected); *s; s += strcspn(s, "\n"), s += *s == '\n')
		take_stated(&t, s, strcspn(s, "\n"));
	command_analyse_line(buf_cstr(&c->line), c->line.len, &here, &f);
	const struct {
		const char *what, *wanted;
		int mode;
	} rows[] = {
		{ "plan", t.read_only ? "allow" : "deny", MODE_PLAN },
		{ "untrusted", t.read_only ? "allow" : "ask", MODE_UNTRUSTED },
		{ "never", "allow", MODE_NEVER },
		{ "auto", t.unknown || t.harm ? "ask" : "allow", MODE_AUTO },
		{ "on_request", t.harm ? "ask" : "allow", MODE_ON_REQUEST },
	};
	for (size_t i = 0; i < countof(rows); i++) {
		const char *found = answer_of(&f, NULL, rows[i].mode, &d);

		if (strcmp(found, rows[i].wanted) != 0 || d.destructive != t.harm) {
			fprintf(stderr, "%s:%u: %s\nmode %s: %s, not %s: %s\n", c->file, c->number, buf_cstr(&c->line),
				rows[i].what, found, rows[i].wanted, d.reason);
			++*(unsigned *)bad;
		}
	}
	/* deny Bash(rm:*), ask Bash(git push:*): both match in every spelling, and other commands are not affected. */
	const char *found = answer_of(&f, stopping, MODE_DEFAULT, &d);
	bool right = t.removes               ? strcmp(found, "deny") == 0
		     : t.unknown || t.pushes ? strcmp(found, "allow") != 0
					     : !t.plain || t.git || strcmp(found, "allow") == 0;
	if (!right) {
		fprintf(stderr, "%s:%u: %s\nrules: %s: %s\n", c->file, c->number, buf_cstr(&c->line), found, d.reason);
		++*(unsigned *)bad;
	}
}

START_TEST(decisions_about_the_corpus_follow_its_classification)
{
	static const char text[] = "{\"permissions\":{\"deny\":[\"Bash(rm:*)\"],\"ask\":[\"Bash(git push:*)\"]}}";
	struct policy_rules rules = RULES_INIT;
	unsigned bad = 0, count = 0;
	struct err e = ERR_INIT;

	ck_assert_int_eq(policy_rules_parse(&rules, RULE_OF_USER, "p", text, sizeof text - 1, &e), 0);
	stopping = &rules;
	for (size_t i = 0; corpus_names[i]; i++)
		count += corpus_each(corpus_names[i], decide_one, &bad);
	policy_rules_done(&rules);
	ck_assert_msg(bad == 0, "%u of the decisions about %u lines differ", bad, count);
	ck_assert_uint_ge(count, 900);
}
END_TEST

static void analyse(const char *line, struct command_facts *f) { command_analyse_line(line, strlen(line), &here, f); }

START_TEST(commands_have_position_parent_and_wrappers)
{
	command_facts_auto struct command_facts f = { 0 };

	analyse("true\n  sudo env X=1 sh -c 'rm x'", &f);
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

START_TEST(unknown_words_are_null)
{
	command_facts_auto struct command_facts f = { 0 };

	analyse("A=1 B=$X git commit -m \"$MSG\" *.c", &f);
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

START_TEST(an_argv_is_not_parsed_as_shell_text)
{
	static const char *const argv[] = { "echo", "$(rm -rf /)", ";", "rm" }, *const shell[] = { "sh", "-c",
												   "rm -rf /; echo" };
	command_facts_auto struct command_facts f = { 0 }, g = { 0 };

	command_analyse_argv(argv, countof(argv), &here, &f);
	ck_assert_uint_eq(f.ncommands, 1);
	ck_assert_int_eq(f.harm, COMMAND_HARMLESS);
	command_analyse_argv(shell, countof(shell), &here, &g);
	ck_assert_uint_eq(g.ncommands, 3);
	ck_assert_int_eq(g.harm, COMMAND_CATASTROPHIC);
	ck_assert_ptr_nonnull(g.impact);
	ck_assert_ptr_nonnull(g.advice);
}
END_TEST

START_TEST(variables_of_the_caller_are_analysed)
{
	static const char *const env[] = { "LD_PRELOAD=/tmp/x.so" };
	const struct analysis_options o = { .cwd = "/w/proj", .env = env, .nenv = 1 };
	command_facts_auto struct command_facts f = { 0 };

	command_analyse_line("ls", 2, &o, &f);
	ck_assert(f.unknown & COMMAND_UNKNOWN(VARIABLE));
	ck_assert(!(f.flags & COMMAND_READ_ONLY));

	/* bash expands a value that it uses in arithmetic. */
	static const char *const value[] = { "x=a[$(touch y)]" };
	static const char *const argv[] = { "bash", "-c", "echo $((x))" };
	const struct analysis_options given = { .cwd = "/w/proj", .env = value, .nenv = 1 },
				      none = { .cwd = "/w/proj" };
	command_facts_auto struct command_facts with = { 0 }, without = { 0 };
	command_analyse_argv(argv, 3, &given, &with);
	ck_assert(with.unknown & COMMAND_UNKNOWN(EVALUATED));
	command_analyse_argv(argv, 3, &none, &without);
	ck_assert(without.flags & COMMAND_READ_ONLY);
}
END_TEST

START_TEST(a_path_that_adds_folders_which_cannot_be_written_changes_nothing)
{
	static const char *const writable[] = { "/tmp", "/w" };
	static const char *const fixed[] = {
		"export PATH=\"$HOME/.local/bin:$PATH\"",
		"PATH=~/.cargo/bin:${PATH} cargo test",
		"export PATH=$PATH:/usr/local/go/bin; go test",
		"f() { local PATH=$PATH:/opt/x; ls; }; f",
	};
	static const char *const open[] = {
		"export PATH='$HOME/bin':$PATH",
		"export PATH=\"~/bin:$PATH\"",
		"export PATH=$PATH:",
		"export PATH=.:$PATH",
		"export PATH=$PWD/bin:$PATH",
		"export PATH=$PATH/x",
		"export PATH=$PATH:$X/bin",
		"export PATH=/opt/../tmp:$PATH",
		"PATH=/w/bin:$PATH ls",
		"PATH+=:/opt/x ls",
		"PATH=(/opt /tmp)",
		"PATH=$'\\001':$PATH ls",
		"declare -l PATH=/TMP/x:$PATH",
		"HOME=/tmp; export PATH=$HOME/bin:$PATH",
		"command export PATH=$PATH:/opt/x",
	};
	struct analysis_options o = {
		.cwd = "/w/proj", .home = "/home/u", .writable = writable, .nwritable = countof(writable)
	};

	for (size_t i = 0; i < countof(fixed) + countof(open); i++) {
		const char *line = i < countof(fixed) ? fixed[i] : open[i - countof(fixed)];
		command_facts_auto struct command_facts f = { 0 }, unknown = { 0 };

		command_analyse_line(line, strlen(line), &o, &f);
		ck_assert_msg(!(f.unknown & COMMAND_UNKNOWN(VARIABLE)) == (i < countof(fixed)), "%s", line);
		command_analyse_line(line, strlen(line), &here, &unknown);
		ck_assert_msg(unknown.unknown & COMMAND_UNKNOWN(VARIABLE), "%s: nothing is known", line);
	}
}
END_TEST

static const char *const not_read_only[] = {
	"git cat-file -p --filters HEAD:x",
	/* a value that looks like an option: not all subcommands have one behind this letter */
	"git diff -C --output=x",
	"git log -C --output=x",
	"git show -C --ext-diff",
	"git diff -C \"$x\"",
	"journalctl -n --vacuum-size=1K",
	"journalctl --lines --vacuum-size=1K",
	"sdiff -W -o x a b",
	"ss -t -K dst x",
	"ss -d -D file",
	"ip -d -b addr",
	"kubectl logs -f --kubeconfig=./x pod",
	/* values and operands that may be several words */
	"x='1 -o y'; sort -k $x z",
	"sort -k * z",
	"sort --key $x z",
	"tar tf *.tar",
	"tar -C $x -tf y",
	"git -C $x log",
	"date -d $x",
	"uniq a*",
	"uniq -f 1* x",
	"xxd ./*",
	"stty a*",
	/* options and operands that are easily missed */
	"less --LOG-FILE=x y",
	"less --Log-file=x y",
	"mount --source=/dev/x --target=/mnt",
	"mount -Lx",
	"bat cache -b",
	"bat cache --clear",
	"yq --split-exp-file x . y",
	"lspci -q",
	"lspci -O x=y",
	"kubectl get -k .",
	"kubectl -s https://h get pods",
	"kubectl get pods --server=https://h",
	"journalctl --smart-relinquish-var",
	"git remote show origin",
};

static const char *const only_reading[] = {
	"git -C x log",
	"git -C \"$x\" log",
	"git diff -C",
	"head -n -5 x",
	"sort -k 2 -t - x",
	"sort -k2 \"a$x\"",
	"journalctl -n 50",
	"ss -tlnp",
	"ip -d addr",
	"ip -f inet addr",
	"kubectl logs -f pod",
	"grep -A $n x y",
	"head -n $n x",
	"find . -mtime -1 -size -10k",
	"date -d '-1 day'",
	"date -d -1day",
	"tar tf x.tar",
	"uniq -c x",
	"xxd -l 16 x",
	"ls a*",
	"sort a*",
	"mount",
	"mount -l",
	"bat x",
	"yq .a x",
	"lspci -v",
	"git remote show",
	"git remote show -n origin",
	"git remote -v",
	"git cat-file -p HEAD",
	"gh run list",
};

START_TEST(what_may_write_run_or_connect_is_not_read_only)
{
	for (size_t i = 0; i < countof(not_read_only); i++) {
		command_facts_auto struct command_facts f = { 0 };

		analyse(not_read_only[i], &f);
		ck_assert_msg(!(f.flags & COMMAND_READ_ONLY), "%s", not_read_only[i]);
	}
	for (size_t i = 0; i < countof(only_reading); i++) {
		command_facts_auto struct command_facts f = { 0 };

		analyse(only_reading[i], &f);
		ck_assert_msg(f.flags & COMMAND_READ_ONLY, "%s", only_reading[i]);
	}
}
END_TEST

START_TEST(variables_that_run_code_are_known)
{
	static const char *const lines[] = {
		"GROFF_BIN_PATH=. man ls",
		"COMPILER_PATH=. gcc x.c",
		"GCC_EXEC_PREFIX=./ gcc x.c",
		"SYSTEM_WGETRC=x wget h",
		"DBUS_SYSTEM_BUS_ADDRESS=unixexec:path=./x busctl list",
		"SSLKEYLOGFILE=x curl https://h",
		"KRB5_TRACE=x ls",
		"RSYNC_CONNECT_PROG=./x rsync h::",
		"PERLDOC_PAGER=./x perldoc y",
		"BAT_CONFIG_DIR=. bat x",
		"GH_EDITOR=./x gh pr create",
		"SSH_SK_HELPER=./x ssh h",
		"GOAUTH=./x go mod download",
		"GNUPGHOME=. gpg -d x",
	};
	static const char *const harmless[] = { "GH_PAGER=cat gh pr list", "GIT_PAGER=less git log",
						"GH_EDITOR=true gh pr list", "DBUS_SESSION_BUS_ADDRESS=/dev/null ls",
						"SSH_AUTH_SOCK=x ls" };

	for (size_t i = 0; i < countof(lines) + countof(harmless); i++) {
		const bool runs = i < countof(lines);
		const char *line = runs ? lines[i] : harmless[i - countof(lines)];
		command_facts_auto struct command_facts f = { 0 };

		analyse(line, &f);
		ck_assert_msg(runs == ((f.unknown & COMMAND_UNKNOWN(VARIABLE)) != 0), "%s", line);
	}
}
END_TEST

START_TEST(programs_that_run_code_are_known)
{
	static const struct {
		const char *line;
		unsigned unknown;
	} rows[] = {
		{ "yt-dlp --exec 'rm x' u", COMMAND_UNKNOWN(OPTION) },
		{ "ssh-copy-id -o ProxyCommand='rm x' h", COMMAND_UNKNOWN(OPTION) },
		{ "lftp -c 'shell rm x'", COMMAND_UNKNOWN(OPTION) },
		{ "rclone --password-command ./x ls y", COMMAND_UNKNOWN(OPTION) },
		{ "borg --rsh ./x list", COMMAND_UNKNOWN(OPTION) },
		{ "hg --config alias.x='!rm' x", COMMAND_UNKNOWN(OPTION) },
		{ "svn diff --diff-cmd ./x", COMMAND_UNKNOWN(OPTION) },
		{ "rustc -C linker=./x y.rs", COMMAND_UNKNOWN(OPTION) },
		{ "git init --template=x", COMMAND_UNKNOWN(OPTION) },
		{ "git config protocol.allow always", COMMAND_UNKNOWN(OPTION) },
		{ "git clone -u ./x h:y", COMMAND_UNKNOWN(OPTION) },
		{ "git push -u origin main", 0 },
		{ "git push --set-upstream origin main", 0 },
		{ "terraform plan", COMMAND_UNKNOWN(CODE) },
		{ "terraform fmt", 0 },
		{ "eslint .", COMMAND_UNKNOWN(CODE) },
		{ "mypy x", COMMAND_UNKNOWN(CODE) },
		{ "duckdb -c '.shell x'", COMMAND_UNKNOWN(CODE) },
		{ "mongosh --eval x", COMMAND_UNKNOWN(CODE) },
		{ "ldd ./x", COMMAND_UNKNOWN(CODE) },
		{ "psql -f x", COMMAND_UNKNOWN(SOURCED) },
		{ "python3 -v", COMMAND_UNKNOWN(CODE) },
		{ "node -v x", COMMAND_UNKNOWN(CODE) },
		{ "make --version", 0 },
		{ "node -v", 0 },
		{ "java -version", 0 },
		{ "eslint --version", 0 },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		command_facts_auto struct command_facts f = { 0 };

		analyse(rows[i].line, &f);
		ck_assert_msg(f.unknown == rows[i].unknown, "%s: %x", rows[i].line, f.unknown);
		/* What only prints a version is read-only. */
		if (!rows[i].unknown && strchr(rows[i].line, 'v') && !strstr(rows[i].line, "git"))
			ck_assert_msg(f.flags & COMMAND_READ_ONLY, "%s", rows[i].line);
	}
}
END_TEST

START_TEST(home_is_unknown_once_the_command_line_sets_it)
{
	command_facts_auto struct command_facts f = { 0 }, g = { 0 };

	analyse("rm -rf $HOME/x", &f);
	ck_assert_str_eq(f.command[0].argv[2], "/home/u/x");
	analyse("for HOME in /; do rm -rf $HOME/x ~/y; done", &g);
	ck_assert_ptr_null(g.command[0].argv[2]);
	ck_assert_ptr_null(g.command[0].argv[3]);
}
END_TEST

START_TEST(syntax_errors_have_line_and_column)
{
	command_facts_auto struct command_facts f = { 0 };

	analyse("echo a\necho b )\n", &f);
	ck_assert_str_eq(f.error, "2:8: unexpected ')'");
	ck_assert_uint_eq(f.ncommands, 2);
}
END_TEST

/* However deep command lines are nested, the result stays small and the time short. */
START_TEST(deep_nesting_is_bounded)
{
	buf_auto struct buf line = BUF_INIT;
	command_facts_auto struct command_facts f = { 0 }, g = { 0 };
	struct timespec a, b;

	for (int i = 0; i < 4000; i++)
		buf_str(&line, "env sudo nice ");
	buf_str(&line, "ls");
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	command_analyse_line(line.data, line.len, &here, &f);
	ck_assert(f.unknown & COMMAND_UNKNOWN(TOO_MUCH));
	ck_assert_uint_le(f.ncommands, COMMAND_NESTING_MAX);
	buf_reset(&line);
	for (int i = 0; i < 3000; i++)
		buf_str(&line, "((eval 'eval \"eval {a,b}{c,d}\"'));");
	command_analyse_line(line.data, line.len, &here, &g);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	ck_assert(g.unknown & COMMAND_UNKNOWN(TOO_MUCH));
	ck_assert_int_lt(b.tv_sec - a.tv_sec, 20);
}
END_TEST

/* A command that only the other shell would run is found behind any number of others, or the result is unknown. */
START_TEST(a_reading_by_the_other_shell_is_found_behind_many_commands)
{
	buf_auto struct buf line = BUF_INIT;
	command_facts_auto struct command_facts f = { 0 }, g = { 0 };

	for (int i = 0; i < 600; i++)
		buf_str(&line, "true;");
	buf_str(&line, "((rm -rf x))");
	command_analyse_line(line.data, line.len, &here, &f);
	ck_assert_int_eq(f.harm, COMMAND_DESTRUCTIVE);
	buf_reset(&line);
	for (int i = 0; i < 120; i++)
		buf_byte(&line, '(');
	buf_str(&line, "rm -rf x");
	for (int i = 0; i < 120; i++)
		buf_byte(&line, ')');
	command_analyse_line(line.data, line.len, &here, &g);
	ck_assert(g.unknown & COMMAND_UNKNOWN(TOO_MUCH));
}
END_TEST

START_TEST(every_unknown_has_a_name_and_a_text)
{
	for (unsigned i = 0; i < COMMAND_UNKNOWN_COUNT; i++) {
		ck_assert_uint_gt(strlen(command_unknown_name(i)), 2);
		ck_assert_uint_gt(strlen(command_unknown_text(i)), 10);
	}
	ck_assert(COMMAND_UNKNOWN_COVERED & COMMAND_UNKNOWN(CODE));
	ck_assert(!(COMMAND_UNKNOWN_COVERED & COMMAND_UNKNOWN(COMMAND_NAME)));
}
END_TEST

START_TEST(the_index_by_first_character_skips_no_matching_row)
{
	static const char *const patterns[] = { "rm|unlink", "git =push", "*sum -c",    "a|?sh|z",
						"",          "p|",        "\xc3\xa9|x", "2to3 -w" };
	static const char *const names[] = { "rm", "unlink", "git", "md5sum", "a",    "bash",     "dsh",
					     "z",  "",       "p",   "2to3",   "Zsum", "\xc3\xa9", "x" };

	for (size_t i = 0; i < countof(patterns); i++) {
		uint64_t first = 0;

		for (size_t k = 0; k < countof(names); k++)
			ck_assert_msg(args_may_name(names[k], patterns[i], &first) ||
					      !args_named(names[k], patterns[i]),
				      "'%s' is not found in '%s'", names[k], patterns[i]);
		ck_assert_uint_eq(first, args_first_characters(patterns[i]));
	}
	ck_assert(!args_may_name("git", "rm|unlink", &(uint64_t){ 0 }));
}
END_TEST

int main(void)
{
	return SUITE("command_analysis", facts_of_the_corpus_are_as_listed,
		     decisions_about_the_corpus_follow_its_classification, commands_have_position_parent_and_wrappers,
		     unknown_words_are_null, an_argv_is_not_parsed_as_shell_text, variables_of_the_caller_are_analysed,
		     a_path_that_adds_folders_which_cannot_be_written_changes_nothing,
		     what_may_write_run_or_connect_is_not_read_only, variables_that_run_code_are_known,
		     programs_that_run_code_are_known, home_is_unknown_once_the_command_line_sets_it,
		     syntax_errors_have_line_and_column, deep_nesting_is_bounded,
		     a_reading_by_the_other_shell_is_found_behind_many_commands, every_unknown_has_a_name_and_a_text,
		     the_index_by_first_character_skips_no_matching_row);
}
