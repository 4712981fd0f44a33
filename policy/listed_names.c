/*
 * Commands that list the names of files (role l of command_paths.def) do not read the files. But another command that
 * gets the names may, and which files those are is not known: then the command counts as reading all of them. A command
 * gets them through the pipeline, whose other commands have the same number `outermost`, or from a file. What cannot be
 * told from the text counts as passing the names on.
 */

#include "policy/analysis.h"
#include "policy/find_search.h"
#include "policy/sed_script.h"

#include <ctype.h>
#include <string.h>

/* Reasons that concern what a command itself runs, and not where the output of another one goes. */
#define RUNS_ITS_OWN (COMMAND_UNKNOWN(CODE) | COMMAND_UNKNOWN(REMOTE))

/* The line, with what is asked of each listing. */
struct listing {
	const struct command_facts *facts;
	const struct command_simple *command;
	bool functions; /* the text defines some, perhaps with the names of programs */
	bool terminal;
};

static bool is_ancestor(const struct listing *l, const struct command_simple *c)
{
	const struct command_facts *f = l->facts;

	for (int k = l->command->parent; k >= 0; k = f->command[k].parent)
		if (&f->command[k] == c)
			return true;
	return false;
}

/* ---- commands that get the names ---- */

static bool are_letters(const char *s, const char *letters)
{
	return *s == '-' && s[1] && !s[1 + strspn(s + 1, letters)];
}

static bool jq_only_prints(const struct command_simple *c)
{
	static const char longs[] = "--raw-input|--raw-output|--compact-output|--slurp|--null-input|--sort-keys|"
				    "--join-output|--ascii-output|--exit-status|--tab|--arg|--argjson|--indent";

	for (size_t k = 1; k < c->argc; k++) {
		const char *s = c->argv[k];

		if (*s == '-' ? !are_letters(s, "RrcnsaSjeMC") && !args_named(s, longs)
			      : strstr(s, "import") || strstr(s, "include"))
			return false;
	}
	return true;
}

/* A pager prints like cat if no person can type at it; its other options may name files. */
static bool pager_only_prints(const struct command_simple *c, bool terminal)
{
	for (size_t k = 1; k < c->argc; k++)
		if (!are_letters(c->argv[k], "eEfFgGiIMmnNqQrRsSuUwWX"))
			return false;
	return !terminal;
}

/* A wrapper whose own words change nothing: the command in it is listed, too. */
static bool only_wraps(const struct command_simple *c)
{
	return c->flags & COMMAND_TRANSPARENT && !c->unknown &&
	       args_named(c->name, "env|timeout|gtimeout|nice|ionice|stdbuf|time|command");
}

/* Whether it only prints what it gets, perhaps changed. */
static bool only_prints(const struct command_simple *c, bool terminal)
{
	static const char printing[] = "head|tail|wc|sort|uniq|grep|egrep|fgrep|cut|tr|nl|column|cat|rev|tac|true|echo";

	if (!c->name || c->flags & COMMAND_FUNCTION_CALL || !c->argv[0] || !command_class_is_system_program(c->argv[0]))
		return false;
	for (size_t k = 1; k < c->argc; k++)
		if (!c->argv[k])
			return false;
	if (args_named(c->name, "sed|gsed"))
		return sed_only_prints(c->argv, c->argc);
	if (strcmp(c->name, "jq") == 0)
		return jq_only_prints(c);
	if (args_named(c->name, "less|more"))
		return pager_only_prints(c, terminal);
	if (!args_named(c->name, printing))
		return only_wraps(c);
	for (size_t k = 1; k < c->argc; k++)
		if (strncmp(c->argv[k], "--f", 3) == 0 || strncmp(c->argv[k], "--co", 4) == 0)
			return false; /* --files0-from, --file, --compress-program */
	return true;
}

/* Whether it prints only numbers: wc -l, grep -c x. */
static bool only_counts(const struct command_simple *c)
{
	const bool greps = args_named(c->name, "grep|egrep|fgrep");
	size_t patterns = 0;
	bool counts = !greps;

	if (!greps && strcmp(c->name, "wc") != 0)
		return false;
	for (size_t k = 1; k < c->argc; k++) {
		const char *s = c->argv[k];

		if (greps && *s != '-')
			patterns++;
		else if (!are_letters(s, greps ? "cviEFPwx" : "lwcmL"))
			return false;
		else
			counts |= strchr(s, 'c') != NULL;
	}
	return counts && patterns == greps;
}

/* Whether the command may get the output of the listing. */
static bool may_get(const struct listing *l, const struct command_simple *c)
{
	if (c == l->command || is_ancestor(l, c))
		return false;
	const bool piped = l->command->context & SHELL_IN_PIPE_TO && c->context & SHELL_IN_PIPE_FROM;
	/* What is in front of a redirection to >(…) or a coprocess may be a group or exec. */
	if (l->facts->crosses)
		return piped || c->context & (SHELL_IN_SUBSTITUTION | SHELL_IN_BACKGROUND);
	return piped && c->outermost == l->command->outermost;
}

/*
 * Whether what leaves the pipeline of the listing is a number: each stage behind it is one command, which only prints,
 * and the last one only counts.
 */
static bool is_counted(const struct listing *l)
{
	const struct command_simple *from = l->command;
	const struct command_facts *f = l->facts;
	size_t stages = 0, last = 0, seen = 0;
	bool counts = false;

	if (!from->pipeline || !from->alone || from->output || f->crosses || l->functions)
		return false;
	for (int k = from->parent; k >= 0; k = f->command[k].parent)
		if (f->command[k].output)
			return false;
	for (size_t i = 0; i < f->ncommands; i++)
		if (f->command[i].pipeline == from->pipeline && f->command[i].stage > last)
			last = f->command[i].stage;
	for (size_t i = 0; i < f->ncommands; i++) {
		const struct command_simple *c = &f->command[i];

		if (c->pipeline != from->pipeline || c->stage <= from->stage)
			continue;
		if (!c->alone || !only_prints(c, l->terminal) || (c->stage < last && c->output))
			return false;
		/* The stages of a script are in order. */
		stages += c->stage != seen;
		seen = c->stage;
		if (c->stage == last && !only_wraps(c))
			counts = only_counts(c);
	}
	return counts && stages == last - from->stage;
}

/* ---- files ---- */

/*
 * Error messages have the names of folders that could not be read, which no other command can read, either. `find -D`
 * and `rg --debug` print more, and other options may write to /dev/stderr.
 */
static bool stores_only_errors(const struct command_simple *c)
{
	if (c->output != COMMAND_ERRORS_STORED || !args_named(c->name, "find|ls|dir|vdir|du|fd|fdfind|rg"))
		return false;
	for (size_t k = 1; k < c->argc; k++)
		if (strncmp(c->plain[k], "-D", 2) == 0 || strncmp(c->plain[k], "--debug", 7) == 0 ||
		    strncmp(c->plain[k], "--trace", 7) == 0)
			return false;
	return true;
}

/* Whether a redirection of this command may be in effect for others: that of a group, of exec. */
static bool redirects_others(const struct command_simple *c)
{
	static const char builtins[] = "exec|command|builtin|eval|.|source";

	return !c->argc || !c->name || c->flags & COMMAND_FUNCTION_CALL || args_named(c->name, builtins);
}

/* Whether the line may store the names in a file. */
static bool stores_names(const struct listing *l)
{
	const struct command_facts *f = l->facts;

	for (size_t i = 0; i < f->ncommands; i++) {
		const struct command_simple *c = &f->command[i];
		const bool redirects = c->output & (COMMAND_OUTPUT_STORED | COMMAND_ERRORS_STORED);
		const bool involved = c == l->command || is_ancestor(l, c) || may_get(l, c);

		if (involved && c->output & COMMAND_FILE_WRITTEN)
			return true;
		if (redirects && (involved || f->crosses || redirects_others(c)) &&
		    !(c == l->command && stores_only_errors(c)))
			return true;
	}
	return false;
}

/* ---- the listing ---- */

/* Wrappers that leave the output of a command where it goes: not nohup and systemd-cat, which may store it. */
static const char passing[] = "env|timeout|gtimeout|nice|ionice|chrt|taskset|stdbuf|setsid|time|gtime|command|builtin|"
			      "exec|eval|sh|dash|ash|bash|xargs|gxargs|parallel|busybox|watch|strace|ltrace";

/* Whether something around the listing, or a word of it, may do more with the names than its own program. */
static bool is_run_otherwise(const struct listing *l)
{
	const struct command_simple *c = l->command;

	for (size_t k = 0; k < c->argc; k++) {
		if (c->option[k] || (!c->argv[k] && c->plain[k][0] == '-'))
			return true; /* it may be an option that runs a command */
		if (c->argv[k] && args_named(c->name, "find|gfind") && find_search_takes_value(c->argv[k]))
			k++;
	}
	for (int k = c->parent; k >= 0; k = l->facts->command[k].parent) {
		const struct command_simple *around = &l->facts->command[k];

		if (around->unknown || !around->name ||
		    !(args_named(around->name, "sudo|doas") ||
		      (around->flags & COMMAND_TRANSPARENT && args_named(around->name, passing))))
			return true;
	}
	return c->unknown || c->flags & COMMAND_FUNCTION_CALL;
}

/* Whether another command may get what this one prints, other than to print it, too. */
static bool passes_names_on(const struct listing *l)
{
	const struct command_facts *f = l->facts;

	if (f->unknown & ~RUNS_ITS_OWN || is_run_otherwise(l))
		return true;
	if (is_counted(l))
		return false;
	if (l->command->context & (SHELL_IN_SUBSTITUTION | SHELL_IN_FUNCTION | SHELL_IN_BACKGROUND))
		return true;
	for (size_t i = 0; i < f->ncommands; i++)
		if (may_get(l, &f->command[i]) && (l->functions || !only_prints(&f->command[i], l->terminal)))
			return true;
	return stores_names(l);
}

void listed_names_of_line(struct analysis *r)
{
	struct command_facts *f = r->facts;
	struct listing l = { .facts = f, .terminal = r->o->terminal };

	for (size_t i = 0; i < f->ncommands; i++)
		l.functions |= (f->command[i].context & SHELL_IN_FUNCTION) != 0;
	for (size_t i = 0; i < f->npaths; i++) {
		struct command_path *p = &f->path[i];

		l.command = &f->command[p->command];
		if (p->access & COMMAND_LISTS && passes_names_on(&l))
			p->access |= COMMAND_RECURSES;
	}
}
