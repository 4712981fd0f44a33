/*
 * Classifies a command: read-only (readonly.def), or running code that the list of commands does not contain
 * (executes.def).
 */

#include "policy/analysis.h"
#include "policy/shell_modes.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/base/text.h"

#include <ctype.h>
#include <limits.h>

static const char *const readonly[] = {
#define READONLY(pattern) pattern,
#include "policy/readonly.def"
#undef READONLY
};

static const struct execute {
	const char *pattern;
	unsigned unknown, flags;
} executes[] = {
#define EXECUTES(pattern, unknown, flags) { pattern, COMMAND_UNKNOWN(unknown), flags },
#include "policy/executes.def"
#undef EXECUTES
};

static bool is_name(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] != '_' && !isalnum((unsigned char)s[i]))
			return false;
	return n > 0;
}

/*
 * Records the variable that a word names, and its value; NULL: unknown. If the name itself is unknown, it may be any
 * variable.
 */
static void note_named_variable(struct analysis *r, const struct analysis_command *c, const struct command_word *w,
				const char *value)
{
	struct command_simple *s = analysis_simple(r, c->index);
	const size_t n = strcspn(w->plain, "=[+");

	if (!is_name(w->plain, n) || (!w->value && (w->many || !w->lead))) {
		s->flags |= COMMAND_EXECUTES;
		s->unknown |= COMMAND_UNKNOWN(VARIABLE);
		return;
	}
	const char *name = shell_arena_strndup(r->arena, w->plain, n);
	exec_variables_of_assignment(r, c->index, name, value);
}

/*
 * export A=b and similar builtins set variables by their operands. In a function, `local PATH` leaves PATH without a
 * value.
 */
static void note_declarations(struct analysis *r, const struct analysis_command *c)
{
	const struct command_simple *s = analysis_simple(r, c->index);
	/* `command export A=$x` is not an assignment for bash, so the value is split into words. */
	const bool splits = s->nwrappers && args_named(s->wrappers[s->nwrappers - 1], "command|builtin");
	const bool hides = args_named(c->args->name, "local|declare|typeset") &&
			   !args_match(c->args, "local|declare|typeset -p|-f|-F|-g");

	for (size_t i = 0; i < c->args->noperands; i++) {
		struct command_word w = *c->args->operand[i];
		const char *equals = strchr(w.plain, '=');
		const bool array = w.unknown == SHELL_ARRAY;

		if (!equals && w.value && !hides)
			continue;
		/* export A=$x is one word, except where it is not treated as an assignment. */
		if (equals && is_name(w.plain, strcspn(w.plain, "=[+")) && (array || !splits))
			w.many = false;
		/* Options may change what is assigned: declare -l PATH=/TMP */
		if (!equals || splits || c->args->noptions || strncmp(w.plain, "PATH=", 5) != 0 ||
		    !exec_variables_is_fixed_path(r, "PATH", w.from, strlen("PATH=")))
			note_named_variable(r, c, &w, equals && w.value ? strchr(w.value, '=') + 1 : NULL);
		if (equals && equals > w.plain)
			arithmetic_value(r, shell_arena_strndup(r->arena, w.plain, (size_t)(equals - w.plain)),
					 equals + 1);
	}
}

/* A variable whose value comes from outside of the text. */
static void note_filled_variable(struct analysis *r, const struct analysis_command *c, const struct command_word *w)
{
	note_named_variable(r, c, w, NULL);
	if (strcmp(c->args->name, "unset") != 0)
		arithmetic_value(r, shell_arena_strndup(r->arena, w->plain, strcspn(w->plain, "=[")), NULL);
}

/*
 * Builtins that set the variables named by their words: read PATH, printf -v PATH, getopts x PATH. Without a PATH,
 * programs are searched in the working directory.
 */
static void note_filled_variables(struct analysis *r, const struct analysis_command *c)
{
	static const struct {
		const char *names;
		char letter;        /* the option whose value is a name */
		size_t first, last; /* the operands that are names */
	} rows[] = {
		{ "read", 'a', 0, SIZE_MAX }, { "mapfile|readarray", 0, 0, 0 },
		{ "getopts", 0, 1, 1 },       { "printf", 'v', 1, 0 },
		{ "wait", 'p', 1, 0 },        { "unset", 0, 0, SIZE_MAX },
	};
	const struct command_args *a = c->args;

	for (size_t i = 0; i < countof(rows); i++) {
		if (!args_named(a->name, rows[i].names))
			continue;
		/* printf -v NAME, read -a NAME, wait -p NAME */
		for (size_t k = 0; rows[i].letter && k < a->noptions; k++) {
			const struct command_option *o = &a->option[k];
			const struct command_word joined = { .value = o->value,
							     .plain = o->value ? o->value : "",
							     .lead = o->value != NULL };

			if (o->letter == rows[i].letter)
				note_filled_variable(r, c, o->value_word ? o->value_word : &joined);
		}
		for (size_t k = rows[i].first; k < a->noperands && k <= rows[i].last; k++)
			if (strcmp(a->name, "unset") != 0 || !a->operand[k]->value ||
			    strcmp(a->operand[k]->value, "PATH") == 0)
				note_filled_variable(r, c, a->operand[k]);
	}
	if (!args_match(a, "declare|typeset|local|readonly|export -n"))
		return;
	/* declare -n p=PATH: an assignment to p changes PATH. */
	for (size_t i = 0; i < a->noperands; i++) {
		const struct command_word *w = a->operand[i];
		const char *equals = strchr(w->plain, '=');
		const struct command_word target = { .value = equals && w->value ? equals + 1 : NULL,
						     .plain = equals ? equals + 1 : "",
						     .lead = w->value != NULL };

		/* declare -n p; p=PATH: the first assignment names the variable. export -n is something else. */
		if (equals || args_named(a->name, "declare|typeset|local"))
			note_named_variable(r, c, &target, NULL);
	}
}

/* ---- git -c ---- */

/* Settings with values, in lower case, that make git run nothing. */
static const char git_settings[] = "user.*|author.*|committer.*|color.*|advice.*|log.*|status.*|column.*|fetch.*|pull.*"
				   "|push.default=*|push.autosetupremote=*|rebase.autostash=*|rebase.autosquash=*|"
				   "merge.conflictstyle=*|merge.ff=*|diff.renames=*|diff.renamelimit=*|diff.context=*|"
				   "diff.algorithm=*|diff.noprefix=*|diff.mnemonicprefix=*|diff.colormoved=*|"
				   "diff.submodule=*|diff.wserrorhighlight=*|init.defaultbranch=*|safe.directory=*|gc."
				   "auto=*|maintenance.auto=*|http.postbuffer=*|http.version=*|http.lowspeed*|"
				   "protocol.version=*|commit.gpgsign=false|commit.verbose=*|commit.cleanup=*|tag."
				   "gpgsign=false|index.*|pack.*|feature.*|checkout.*|grep.*|blame.*|"
				   "core.quotepath=*|core.autocrlf=*|core.eol=*|core.safecrlf=*|core.abbrev=*|core."
				   "filemode=*|core.ignorecase=*|core.longpaths=*|core.symlinks=*|core.whitespace=*|"
				   "core.precomposeunicode=*|core.preloadindex=*|core.untrackedcache=*|core."
				   "commentchar=*|core.compression=*|core.fsmonitor=false|"
				   "core.hookspath=/dev/"
				   "null|core.pager=|core.pager=cat|core.pager=less|core.editor=true|core.editor=:|"
				   "sequence.editor=true|sequence.editor=:";

/* Whether a git -c KEY=VALUE before the subcommand may make git run something. */
static bool git_is_set(const struct command_args *a)
{
	static const char *const takes[] = { "-C",          "--git-dir",      "--work-tree",
					     "--namespace", "--super-prefix", "--attr-source" };

	for (size_t i = 1; i < a->count && *a->word[i].plain == '-'; i++) {
		const char *word = a->word[i].plain, *value = i + 1 < a->count ? a->word[i + 1].value : NULL;

		for (size_t k = 0; k < countof(takes); k++)
			if (strcmp(word, takes[k]) == 0)
				i++;
		if (strncmp(word, "-c", 2) != 0)
			continue;
		if (word[2] || !value || strlen(value) >= 256)
			return true;
		char small[256];
		size_t n = 0;
		for (; value[n]; n++)
			small[n] = (char)tolower((unsigned char)value[n]);
		small[n] = '\0';
		if (!args_named(small, git_settings))
			return true;
		i++;
	}
	return false;
}

/* ---- sed ---- */

/*
 * Finds the end of a regular expression. For GNU sed a delimiter in brackets, s/[/]/x/, does not end it; for other
 * implementations it does. Returns NULL for it, as if there were no end.
 */
static const char *sed_regex(const char *s, char delimiter)
{
	for (; *s && *s != delimiter; s++) {
		if (*s == '\\' && s[1]) {
			s++;
		} else if (*s == '[') {
			s += s[1] == '^';
			for (s += s[1] == ']' ? 2 : 1; *s && *s != ']'; s++) {
				if (*s == delimiter)
					return NULL;
				if (*s == '[' && s[1] && strchr(":.=", s[1])) {
					const char close[] = { s[1], ']', '\0' };

					s = strstr(s + 2, close);
					if (!s)
						return NULL;
					s++;
				} else if (*s == '\\' && s[1] == delimiter) {
					s++;
				}
			}
			if (!*s)
				return NULL;
		}
	}
	return *s ? s : NULL;
}

/* Skips addresses: /…/, 1, $, with ! , and blanks. NULL: something else. */
static const char *sed_address(const char *s)
{
	for (;;) {
		s += strspn(s, "0123456789$,!~+ \t");
		if (*s != '/')
			return s;
		s = sed_regex(s + 1, '/');
		if (!s)
			return NULL;
		s++;
		s += *s == 'I';
	}
}

/* Skips s/a/b/g; NULL for the flags that write or execute. */
static const char *sed_substitute(const char *s)
{
	const char delimiter = *++s;

	s = sed_regex(s + 1, delimiter);
	if (!s)
		return NULL;
	for (s++; *s && *s != delimiter; s++)
		if (*s == '\\' && s[1])
			s++;
	if (!*s)
		return NULL;
	s++;
	return s + strspn(s, "gpiIm0123456789");
}

/* Whether a script only prints, deletes and substitutes: sed can also write files and run commands. */
static bool sed_is_plain(const char *script)
{
	for (const char *s = script; *s;) {
		s += strspn(s, "; \t\n{}");
		if (!*s)
			break;
		s = sed_address(s);
		if (!s || !*s)
			return false;
		if (*s == '{')
			continue;
		if (*s == 's' && s[1] && !isalnum((unsigned char)s[1]) && s[1] != '\\' && s[1] != '\n')
			s = sed_substitute(s);
		else if (strchr("pdqDPNnhHgGx=l", *s))
			s++;
		else
			return false;
		if (!s || (*s && !strchr("; \t\n}", *s)))
			return false;
	}
	return true;
}

/* Every script of the command only prints; a script in a file is unknown. */
static bool sed_harmless(const struct command_args *a)
{
	bool expressions = false;

	for (size_t i = 0; i < a->noptions; i++) {
		const struct command_option *o = &a->option[i];

		if (o->letter != 'e' &&
		    !(o->name && o->name_len >= 3 && strncmp(o->name, "expression", o->name_len) == 0))
			continue;
		expressions = true;
		if (!o->value || !sed_is_plain(o->value))
			return false;
	}
	if (args_option(a, 'f', "file"))
		return false;
	return expressions || (a->noperands && a->operand[0]->value && sed_is_plain(a->operand[0]->value));
}

/* ---- read-only ---- */

/* A program in a directory of the project could be anything. */
bool command_class_is_system_program(const char *word)
{
	static const char *const folders[] = { "/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/" };
	const char *slash = strrchr(word, '/');

	if (!slash)
		return true;
	for (size_t i = 0; i < countof(folders); i++)
		if (strlen(folders[i]) == (size_t)(slash + 1 - word) &&
		    strncmp(word, folders[i], (size_t)(slash + 1 - word)) == 0)
			return true;
	return false;
}

/* Redirections to descriptors and to /dev/null write no file. */
static bool redirects_only_read(const struct analysis_command *c)
{
	for (size_t i = 0; i < c->nredirects; i++) {
		const struct shell_redirect *d = &c->redirect[i];
		const char *to = d->target.value;

		if (d->op == SHELL_READ || d->op == SHELL_HEREDOC || d->op == SHELL_HERESTRING ||
		    d->op == SHELL_DUP_IN) {
			const char *plain = d->target.plain;

			if (strncmp(plain, "/dev/tcp/", 9) == 0 || strncmp(plain, "/dev/udp/", 9) == 0)
				return false;
			continue;
		}
		if (d->op == SHELL_DUP_OUT && to && (!to[strspn(to, "0123456789")] || strcmp(to, "-") == 0))
			continue;
		if (!to || !command_paths_harmless_target(to))
			return false;
	}
	return true;
}

/* On a terminal these programs show their output in a pager such as less, which runs commands typed after a `!`. */
static bool can_run_from_pager(const struct analysis *r, const struct analysis_command *c)
{
	static const char pagers[] = "less|more|most|man|git|bat|batcat|systemctl|journalctl|gh|apt|apt-cache|dmesg";

	return r->o->terminal && args_named(c->args->name, pagers) &&
	       !args_match(c->args, "git|systemctl|journalctl --no-pager") &&
	       !(analysis_simple(r, c->index)->context & SHELL_IN_PIPE_TO);
}

bool command_class_does_more(const struct command_args *a)
{
	static const char *const rows[] = {
		"perf =record",
		"perf -o|--output",
		"fakeroot -s",
		"valgrind --log-file|--xml-file|--tool",
		"parallel --results|--joblog|--tmpdir",
		/* These read the project's configuration first and run what it names. */
		"bundle|poetry|pipenv|uv|rye|hatch|pdm|conda|mamba|micromamba|rbenv|pyenv|nodenv|asdf|mise",
	};

	for (size_t i = 0; a->name && i < countof(rows); i++)
		if (args_match(a, rows[i]))
			return true;
	return false;
}

/* All of it must be known: the program, its words and its redirections. */
static bool only_reads(const struct analysis *r, const struct analysis_command *c)
{
	static uint64_t first[countof(readonly)];
	const struct command_args *a = c->args;

	if (!redirects_only_read(c) || analysis_simple(r, c->index)->unknown)
		return false;
	if (!a->count)
		return true;
	if (!a->name || !command_class_is_system_program(a->word[0].value))
		return false;
	if (can_run_from_pager(r, c))
		return false;
	if (strcmp(a->name, "[[") == 0 || strcmp(a->name, "((") == 0)
		return true;
	for (size_t i = 0; i < countof(readonly); i++)
		if (args_may_name(a->name, readonly[i], &first[i]) && args_match(a, readonly[i]))
			return true;
	return false;
}

/* strace -o '|text' runs the text in a shell, with the trace as its input; so does '!text'. */
static bool strace_pipes(const struct command_args *a)
{
	for (size_t i = 0; i < a->noptions; i++) {
		const struct command_option *o = &a->option[i];
		const bool output = o->letter == 'o' ||
				    (o->name && o->name_len >= 2 && strncmp(o->name, "output", o->name_len) == 0);

		if (output && (!o->value || *o->value == '|' || *o->value == '!'))
			return true;
	}
	return false;
}

/* rsync -e 'ssh -p 22' connects as rsync does without it; any other program or option of ssh may run something. */
static bool rsync_runs(struct analysis *r, const struct command_args *a)
{
	for (size_t i = 0; i < a->noptions; i++) {
		const struct command_option *o = &a->option[i];

		if (o->letter != 'e' && !(o->name && o->name_len && strncmp(o->name, "rsh", o->name_len) == 0))
			continue;
		if (!o->value || !(o->value_word ? o->value_word : o->word)->value)
			return true;
		char *rest = NULL, *word = strtok_r(shell_arena_strdup(r->arena, o->value), " ", &rest);
		if (!word || strcmp(word, "ssh") != 0)
			return true;
		while ((word = strtok_r(NULL, " ", &rest))) {
			const char *port = strcmp(word, "-p") == 0 ? strtok_r(NULL, " ", &rest) : NULL;

			if (port ? port[strspn(port, "0123456789")] != '\0' : !args_named(word, "-q|-T|-C|-x|-4|-6"))
				return true;
		}
	}
	return false;
}

void command_class_of_command(struct analysis *r, const struct analysis_command *c)
{
	static const char declares[] = "export|declare|typeset|local|readonly";
	static uint64_t first[countof(executes)];
	const struct command_args *a = c->args;
	struct command_simple *s = analysis_simple(r, c->index);

	if (a->name && args_named(a->name, declares))
		note_declarations(r, c);
	if (a->name) {
		note_filled_variables(r, c);
		/* set -k, shopt -s expand_aliases: they change the meaning of the text after them. */
		if (args_named(a->name, "set|shopt") && !shell_modes_known(a->word, a->count)) {
			s->flags |= COMMAND_EXECUTES;
			s->unknown |= COMMAND_UNKNOWN(OPTION);
		}
	}
	arithmetic_of_command(r, a);
	for (size_t i = 0; a->name && i < countof(executes); i++)
		if (args_may_name(a->name, executes[i].pattern, &first[i]) && args_match(a, executes[i].pattern)) {
			s->unknown |= executes[i].unknown;
			s->flags |= executes[i].flags;
		}
	if (a->name &&
	    ((strcmp(a->name, "git") == 0 && git_is_set(a)) || (strcmp(a->name, "strace") == 0 && strace_pipes(a)) ||
	     (strcmp(a->name, "rsync") == 0 && rsync_runs(r, a)))) {
		s->unknown |= COMMAND_UNKNOWN(OPTION);
		s->flags |= COMMAND_EXECUTES;
	}
	/* . <(…): the output of that command is not in the text. */
	if (a->name && args_named(a->name, ".|source") && a->noperands) {
		if (a->operand[0]->unknown & SHELL_PROCESS)
			s->unknown |= COMMAND_UNKNOWN(EVALUATED);
		if (a->operand[0]->value && args_is_descriptor(a->operand[0]->value))
			s->unknown |= COMMAND_UNKNOWN(STDIN);
	}
	if (a->name && strcmp(a->name, "sed") == 0 && !sed_harmless(a)) {
		s->unknown |= COMMAND_UNKNOWN(CODE);
		s->flags |= COMMAND_CODE;
	}
	for (size_t i = 0; i < a->count; i++)
		if (a->word[i].unknown & SHELL_EVALUATES)
			s->unknown |= COMMAND_UNKNOWN(EVALUATED);
	if (only_reads(r, c))
		s->flags |= COMMAND_READ_ONLY;
}
