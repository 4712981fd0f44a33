/*
 * Finds the command inside a wrapper. The wrapper's own options are parsed by its row: options with a value take the
 * next word, the first operand begins the inner command, `--` ends the options. If an unknown word affects what is run,
 * the result says so (WRAPPED, EVALUATED). The best guess is still returned, because a rule may deny it.
 */

#include "policy/wrapper.h"

#include "policy/command_analysis.h"
#include "policy/command_text.h"
#include "policy/find_search.h"
#include "policy/shell/arena.h"
#include "policy/shell/shell.h"
#include "policy/shell_modes.h"
#include "policy/transparent_options.h"
#include "runtime/base/buf.h"
#include "runtime/base/mem.h"

#include <ctype.h>

enum how {
	HOW_ARGS,
	HOW_ENV,
	HOW_QUERY,
	HOW_SHELL,
	HOW_JOIN,
	HOW_OPTION_C,
	HOW_FIRST,
	HOW_EQUALS,
	HOW_FIND,
	HOW_XARGS,
	HOW_PARALLEL,
	HOW_AFTER,
	HOW_GIT_FOREACH,
	HOW_GIT_BISECT,
	HOW_GIT_DASHED,
	HOW_JOBS,
	HOW_REMOTE,
};
#define SPLIT_BLANKS " \t\n\v\f\r"
#define SPLITS_MAX 8
#define WRAP_T 1
#define WRAP_P 2

static const struct row {
	const char *names, *second;
	enum how how;
	unsigned flags;
	const char *letters, *longs;
	size_t skip;
} rows[] = {
#define WRAPPER(names, second, how, flags, letters, longs, skip) \
	{ names, second, HOW_##how, flags, letters, longs, skip },
#include "policy/wrappers.def"
#undef WRAPPER
};

struct unwrap {
	const struct row *row;
	const struct command_word *word;
	size_t count, at;         /* at: the first word that is not an option */
	const char *command_text; /* the value of -c */
	bool has_c, lookup, stdin_shell, executes, prints, posix;
	const char *replace; /* of xargs -I */
	struct shell_arena *arena;
	struct wrapper_found *found;
};

/* The first row for the program, and for its first operand where the row names one, behind options with values. */
static const struct row *row_of(const struct command_word *word, size_t count)
{
	static uint64_t first[countof(rows)];
	const char *name = count && word[0].value ? args_basename(word[0].value) : NULL;

	for (size_t i = 0; name && i < countof(rows); i++) {
		if (!args_may_name(name, rows[i].names, &first[i]) || !args_named(name, rows[i].names))
			continue;
		if (!*rows[i].second)
			return &rows[i];
		for (size_t k = 1; k < count; k++)
			if (word[k].value && word[k].value[0] != '-') {
				if (args_named(word[k].value, rows[i].second))
					return &rows[i];
				if (word[k - 1].plain[0] != '-')
					break;
			}
	}
	return NULL;
}

/* 1: the long option takes a value; 2: it may, because it is an abbreviation, or in no table. */
static int is_listed(const char *longs, const char *name, size_t n)
{
	for (const char *s = longs; *s;) {
		size_t len = strcspn(s, " ");

		if (*s == '!' && n == len - 1 && memcmp(s + 1, name, n) == 0)
			return 0;
		if (n && n <= len && memcmp(s, name, n) == 0)
			return n < len ? 2 : 1;
		s += len + (s[len] == ' ');
	}
	return 0;
}

static void add_unknown(struct unwrap *u, unsigned bit) { u->found->unknown |= bit; }

static void add_inner(struct unwrap *u, struct wrapper_inner inner)
{
	if (u->found->ninner >= WRAPPER_INNER_MAX)
		add_unknown(u, COMMAND_UNKNOWN(TOO_MUCH));
	else
		u->found->inner[u->found->ninner++] = inner;
}

static void add_text(struct unwrap *u, const struct command_word *w)
{
	if (w->value)
		add_inner(u, (struct wrapper_inner){ .text = w->value });
	else
		add_unknown(u, COMMAND_UNKNOWN(EVALUATED));
}

/* Records the value of an option that has a meaning for the analysis. */
static void note_value(struct unwrap *u, char letter, const char *name, size_t n, const char *value)
{
	const bool command = letter == 'c' ||
			     (name && n &&
			      (strncmp(name, "command", n) == 0 || strncmp(name, "session-command", n) == 0));

	if (command && u->row->how == HOW_OPTION_C) {
		u->has_c = true;
		u->command_text = value;
	}
	if (u->row->how == HOW_ENV && (letter == 'S' || (name && n && strncmp(name, "split-string", n) == 0)) &&
	    !args_named("sudo", u->row->names)) {
		u->has_c = true;
		u->command_text = value;
	}
	const bool sudo = u->found->privileged;
	if (u->row->how == HOW_ENV && (letter == (sudo ? 'D' : 'C') || (name && n && strncmp(name, "chdir", n) == 0))) {
		u->found->moves = true;
		u->found->cwd = value;
	}
	if (letter == 'I' || (name && n && strncmp(name, "replace", n) == 0))
		u->replace = value ? value : "{}";
}

/* An option of the wrapper itself: a letter, or a long one's name of n bytes. Most make it more than a mere wrapper. */
static void check_transparent(struct unwrap *u, char letter, const char *name, size_t n)
{
	/* A shell's are in shell_modes.def; those of git-push are git's. */
	if (u->row->how != HOW_SHELL && u->row->how != HOW_GIT_DASHED)
		u->found->transparent &= transparent_option(args_basename(u->word[0].value), letter, name, n);
}

/* Parses one word of options at u->at and advances. */
static void unwrap_option(struct unwrap *u)
{
	const char *s = u->word[u->at].plain;
	const struct command_word *next = u->at + 1 < u->count ? &u->word[u->at + 1] : NULL;

	u->at++;
	if (!u->word[u->at - 1].value && !strchr(s, '='))
		add_unknown(u, COMMAND_UNKNOWN(WRAPPED));
	if (s[1] == '-') {
		const char *equals = strchr(s, '=');
		size_t n = equals ? (size_t)(equals - s) - 2 : strlen(s) - 2;
		const int listed = next && !equals ? is_listed(u->row->longs, s + 2, n) : 0;

		check_transparent(u, 0, s + 2, n);
		if (equals) {
			note_value(u, 0, s + 2, n, u->word[u->at - 1].value ? equals + 1 : NULL);
		} else if (listed) {
			if (next->many || listed > 1)
				add_unknown(u, COMMAND_UNKNOWN(WRAPPED));
			u->at++;
			note_value(u, 0, s + 2, n, next->value);
		}
		return;
	}
	for (s++; *s; s++) {
		check_transparent(u, *s, NULL, 0);
		u->lookup |= *s == 'v' || *s == 'V';
		u->executes |= *s == 'x';
		u->stdin_shell |= *s == 's' || (*s == 'i' && u->found->privileged);
		u->has_c |= u->row->how == HOW_SHELL && *s == 'c';
		if (!strchr(u->row->letters, *s) || (isdigit((unsigned char)*s)))
			continue;
		if (s[1]) {
			note_value(u, *s, NULL, 0, u->word[u->at - 1].value ? s + 1 : NULL);
		} else if (next) {
			if (next->many)
				add_unknown(u, COMMAND_UNKNOWN(WRAPPED));
			u->at++;
			note_value(u, *s, NULL, 0, next->value);
		}
		return;
	}
}

/* Skips options, assignments where the wrapper takes them, and the operands before the command. */
static void skip_options(struct unwrap *u)
{
	size_t skip = u->row->skip > 8 ? u->row->skip - 8 : u->row->skip, nassign = 0;
	const char **assign = shell_arena_alloc(u->arena, u->count * sizeof(*assign));

	for (u->at = 1; u->at < u->count;) {
		const struct command_word *w = &u->word[u->at];
		const char *s = w->plain;

		if (!w->value && (w->many || (!w->lead && !skip)))
			add_unknown(u, COMMAND_UNKNOWN(WRAPPED));
		if (w->lead && s[0] == '-' && s[1] == '-' && !s[2]) {
			u->at++;
			u->at += u->count - u->at < skip ? u->count - u->at : skip;
			break;
		}
		if (w->lead && s[0] == '-' && (s[1] || u->row->how == HOW_OPTION_C || u->row->how == HOW_JOIN)) {
			unwrap_option(u);
		} else if (u->row->how == HOW_ENV && strcmp(s, "-") == 0) {
			u->at++; /* the same as -i */
		} else if (u->row->how == HOW_ENV && (args_is_assignment(s) || (w->value && strchr(s, '=')))) {
			assign[nassign++] = s;
			u->at++;
		} else if (skip) {
			skip--;
			u->at++;
		} else {
			break;
		}
	}
	u->found->assign = assign;
	u->found->nassign = nassign;
}

/* The remaining words are program and arguments. */
static void unwrap_rest(struct unwrap *u)
{
	u->at += u->at < u->count && u->word[u->at].value && strcmp(u->word[u->at].value, "--") == 0;
	if (u->at < u->count)
		add_inner(u, (struct wrapper_inner){ .word = u->word + u->at, .count = u->count - u->at });
}

/* The remaining words, joined with blanks, are text for a shell. */
static void unwrap_joined(struct unwrap *u)
{
	buf_auto struct buf text = BUF_INIT;

	for (size_t i = u->at; i < u->count; i++) {
		if (!u->word[i].value) {
			add_unknown(u, COMMAND_UNKNOWN(EVALUATED));
			return;
		}
		if (i > u->at)
			buf_byte(&text, ' ');
		buf_str(&text, u->word[i].value);
	}
	if (text.len)
		add_inner(u, (struct wrapper_inner){ .text = shell_arena_strndup(u->arena, text.data, text.len) });
}

static bool is_one_of(const char *s, const char *const *list, size_t n)
{
	for (size_t i = 0; s && i < n; i++)
		if (strcmp(s, list[i]) == 0)
			return true;
	return false;
}

/* The options of shells whose language the parser supports (shell_modes.h). */
static void shell_options(struct unwrap *u)
{
	struct shell_flags f;

	shell_flags_of_shell(u->word, u->count, &f);
	u->at = f.next;
	u->has_c = f.command;
	u->stdin_shell = f.from_stdin;
	u->prints = f.prints;
	u->posix = f.posix;
	if (f.strange)
		add_unknown(u, COMMAND_UNKNOWN(OPTION));
	if (f.open)
		add_unknown(u, COMMAND_UNKNOWN(WRAPPED));
	if (f.sources)
		add_unknown(u, COMMAND_UNKNOWN(SOURCED));
}

/*
 * ${(e)x} of zsh evaluates its value; `path` is PATH as a list, and a redirection without a command runs NULLCMD. So
 * these names must not be set; as parts of paths and options they are harmless.
 */
static bool zsh_does_more(const char *text)
{
	static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

	if (strstr(text, "${("))
		return true;
	for (const char *s = text; *s;) {
		const size_t n = strspn(s, name);
		char word[16];

		if (n && n < sizeof(word)) {
			memcpy(word, s, n);
			word[n] = '\0';
			if (args_named(word, "path|fpath|cdpath|module_path|NULLCMD|READNULLCMD") &&
			    !(s > text && strchr("$/.-", s[-1])) && !(s[n] && strchr("/.-", s[n])))
				return true;
		}
		s += n + !n;
	}
	return false;
}

/* A shell runs the text of -c, a file, or its standard input. */
static void unwrap_shell(struct unwrap *u)
{
	const char *name = args_basename(u->word[0].value);
	const bool foreign = !(u->row->flags & WRAP_T);
	static const char *const inputs[] = { "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0" };

	if (u->has_c) {
		const char *text = u->at < u->count ? u->word[u->at].value : NULL;

		if (u->at >= u->count)
			return;
		if (!text || foreign || (strcmp(name, "zsh") == 0 && zsh_does_more(text)))
			add_unknown(u, COMMAND_UNKNOWN(EVALUATED));
		if (text && !foreign)
			add_inner(u, (struct wrapper_inner){ .text = text,
							     .bash_only = strcmp(name, "bash") == 0 && !u->posix });
	} else if (u->at < u->count && !u->stdin_shell && !is_one_of(u->word[u->at].value, inputs, countof(inputs))) {
		const bool open = u->word[u->at].value && args_is_descriptor(u->word[u->at].value);

		add_unknown(u, open ? COMMAND_UNKNOWN(STDIN) : COMMAND_UNKNOWN(SOURCED));
	} else {
		u->found->reads_stdin = !u->prints;
	}
}

/* find may have several -exec; each is a command of its own. */
static void unwrap_find(struct unwrap *u)
{
	static const char *const runs[] = { "-exec", "-execdir", "-ok", "-okdir" };
	const struct find_search *search = find_search_of(u->word, u->count, u->arena);

	for (size_t i = 1; i < u->count; i++) {
		if (u->word[i].value && find_search_takes_value(u->word[i].value) && i + 1 < u->count &&
		    !u->word[i + 1].many) {
			i++; /* its value */
			continue;
		}
		if (!u->word[i].value &&
		    (u->word[i].many ? u->word[i].unknown != SHELL_GLOB : !u->word[i].lead || *u->word[i].plain == '-'))
			add_unknown(u, COMMAND_UNKNOWN(WRAPPED)); /* could be -exec */
		if (!is_one_of(u->word[i].value, runs, countof(runs)))
			continue;
		size_t from = i + 1, to = from;
		while (to < u->count &&
		       !(u->word[to].value && (strcmp(u->word[to].value, ";") == 0 ||
					       (strcmp(u->word[to].value, "+") == 0 && to > from &&
						u->word[to - 1].value && strcmp(u->word[to - 1].value, "{}") == 0))))
			to++;
		struct command_word *copy = shell_arena_alloc(u->arena, (to - from + 1) * sizeof(*copy));
		for (size_t k = from; k < to; k++) {
			copy[k - from] = u->word[k];
			if (u->word[k].value && strstr(u->word[k].value, "{}"))
				copy[k - from] = find_search_file(search, &u->word[k], u->arena);
		}
		if (to > from)
			add_inner(u, (struct wrapper_inner){ .word = copy, .count = to - from });
		i = to;
	}
}

/*
 * Whether parallel passes its words to a shell as one text: a single word with blanks or characters that are special to
 * a shell, or several words of which one has such characters.
 */
static bool is_text(const struct unwrap *u, size_t to)
{
	for (size_t i = u->at; i < to; i++)
		if (u->word[i].value &&
		    strpbrk(u->word[i].value, to == u->at + 1 ? " ;&|<>()$`\\'\"\n" : ";&|<>()$`\\'\"\n"))
			return true;
	return false;
}

/* With unknown words appended, or inserted for {}. */
static void unwrap_appended(struct unwrap *u, bool arguments)
{
	const char *mark = u->replace ? u->replace : "{}";
	size_t n = 0, to = u->count;
	bool placed = false;

	for (size_t i = u->at; arguments && i < u->count; i++)
		if (u->word[i].value && strncmp(u->word[i].value, ":::", 3) == 0) {
			to = i;
			break;
		}
	if (u->at >= to) {
		if (arguments)
			add_unknown(u, COMMAND_UNKNOWN(STDIN));
		return;
	}
	if (arguments && is_text(u, to)) {
		u->count = to;
		unwrap_joined(u);
		return;
	}
	struct command_word *copy = shell_arena_alloc(u->arena, (to - u->at + 1) * sizeof(*copy));
	for (size_t i = u->at; i < to; i++) {
		copy[n] = u->word[i];
		if ((u->replace || arguments) && copy[n].value && *mark && strstr(copy[n].value, mark)) {
			copy[n] = (struct command_word){ .plain = copy[n].plain,
							 .unknown = SHELL_VARIABLE,
							 .lead = strncmp(copy[n].value, mark, strlen(mark)) != 0 };
			placed = true;
		}
		n++;
	}
	if (!placed && !u->replace)
		copy[n++] = (struct command_word){ .plain = "…", .unknown = SHELL_VARIABLE, .many = true };
	add_inner(u, (struct wrapper_inner){ .word = copy, .count = n });
}

/* jobs -x cmd %1: the id of a process group takes the place of a job's name. */
static void unwrap_jobs(struct unwrap *u)
{
	for (size_t i = u->at; u->executes && i < u->count; i++)
		if (*u->word[i].plain == '%')
			add_unknown(u, COMMAND_UNKNOWN(WRAPPED));
	if (u->executes)
		unwrap_rest(u);
}

/* alias x='text': each value is text for a shell. */
static void unwrap_assignments(struct unwrap *u)
{
	for (size_t i = u->at; i < u->count; i++) {
		const char *value = u->word[i].value ? strchr(u->word[i].value, '=') : NULL;

		if (value)
			add_inner(u, (struct wrapper_inner){ .text = value + 1 });
		else if (!u->word[i].value)
			add_unknown(u, COMMAND_UNKNOWN(EVALUATED));
	}
}

/* `git submodule foreach text`, `git bisect run cmd …`: the command follows a word. */
static void unwrap_after_word(struct unwrap *u, const char *word, bool text)
{
	for (size_t i = 1; i < u->count; i++)
		if (u->word[i].value && strcmp(u->word[i].value, word) == 0) {
			u->at = i + 1;
			while (text && u->at < u->count && u->word[u->at].value &&
			       strcmp(u->word[u->at].value, "--recursive") == 0)
				u->at++;
			if (text)
				unwrap_joined(u);
			else
				unwrap_rest(u);
			return;
		}
	u->found->wraps = u->found->transparent = false;
}

/* git-push is git push. */
static void unwrap_git_dashed(struct unwrap *u)
{
	const char *name = args_basename(u->word[0].value) + strlen("git-");
	struct command_word *word = shell_arena_alloc(u->arena, (u->count + 1) * sizeof(*word));

	if (!*name)
		return;
	word[0] = (struct command_word){ .value = "git", .plain = "git", .lead = true };
	word[1] = (struct command_word){ .value = name, .plain = name, .lead = true };
	memcpy(word + 2, u->word + 1, (u->count - 1) * sizeof(*word));
	add_inner(u, (struct wrapper_inner){ .word = word, .count = u->count + 1 });
}

/*
 * ssh [options] host [options] text …: the known part of the text can be denied; the shell of the host is unknown.
 */
static void unwrap_remote(struct unwrap *u)
{
	bool names = false;

	u->at++; /* the host */
	while (u->at < u->count && u->word[u->at].lead && u->word[u->at].plain[0] == '-' && u->word[u->at].plain[1]) {
		if (strcmp(u->word[u->at].plain, "--") == 0) {
			u->at++;
			break;
		}
		names |= u->word[u->at].plain[1] == 'F' || u->word[u->at].plain[1] == 'I';
		unwrap_option(u);
	}
	u->found->remote = true;
	/* executes.def has a row for the program, which reports the rest; -F file and -I library may name programs. */
	u->found->unknown = names ? COMMAND_UNKNOWN(OPTION) : 0;
	size_t known = u->at;
	while (known < u->count && u->word[known].value)
		known++;
	if (known < u->count) /* as words, which a rule may match; and the words before them as text */
		unwrap_rest(u);
	u->count = known;
	unwrap_joined(u);
}

/* su -c text, script -c text; without it the program starts a shell that reads standard input. */
static void unwrap_option_c(struct unwrap *u)
{
	if (u->has_c && u->command_text)
		add_inner(u, (struct wrapper_inner){ .text = u->command_text });
	else if (u->has_c)
		add_unknown(u, COMMAND_UNKNOWN(EVALUATED));
	else if (u->row->skip > 8)
		unwrap_rest(u);
	else {
		/*
		 * su user -c text, script file -c text: options may follow the operand; script file -- program …;
		 * runuser -u user program …
		 */
		const struct row plain = { .names = u->row->names,
					   .second = "",
					   .how = HOW_OPTION_C,
					   .letters = u->row->letters,
					   .longs = u->row->longs };
		const char *name = args_basename(u->word[0].value);

		if (strcmp(name, "runuser") == 0 && u->at == 2 && u->word[1].value &&
		    strcmp(u->word[1].value, "-u") == 0) {
			u->at++;
			unwrap_rest(u);
			return;
		}
		for (size_t i = u->at; i < u->count && !u->has_c; i++)
			if (strcmp(name, "script") == 0 && u->word[i].value && strcmp(u->word[i].value, "--") == 0) {
				u->at = i;
				unwrap_rest(u);
				return;
			} else if (u->word[i].value && u->word[i].value[0] == '-' && u->word[i].value[1]) {
				u->row = &plain;
				u->at = i;
				unwrap_option(u);
			}
		if (u->has_c)
			unwrap_option_c(u);
		else
			u->found->reads_stdin = true;
	}
}

/* Parses one word of env -S at `s` and moves past it; false: it has escapes specific to env, or no end. */
static bool split_word(struct unwrap *u, const char **s, struct command_word *ret)
{
	buf_auto struct buf text = BUF_INIT;
	bool known = true;
	char quote = 0;

	for (; **s && (quote || !strchr(SPLIT_BLANKS, **s)); ++*s) {
		if (**s == '\\')
			return false;
		known &= **s != '$' || quote == '\'';
		if (quote ? **s == quote : **s == '\'' || **s == '"')
			quote = quote ? 0 : **s;
		else
			buf_byte(&text, **s);
	}
	const char *plain = shell_arena_strndup(u->arena, buf_cstr(&text), text.len);
	*ret = (struct command_word){ .value = known ? plain : NULL,
				      .plain = plain,
				      .unknown = known ? 0 : SHELL_VARIABLE,
				      .lead = *plain != '$' };
	return !quote;
}

/* env -S 'a b' c: as if the words of the text were there; they may include options of env. */
static bool split_string(struct unwrap *u)
{
	const char *s = u->command_text;
	const size_t rest = u->count - u->at;
	struct command_word *word = shell_arena_alloc(u->arena, (strlen(s) + rest + 2) * sizeof(*word));
	size_t n = 0;

	word[n++] = u->word[0];
	for (s += strspn(s, SPLIT_BLANKS); *s && *s != '#'; s += strspn(s, SPLIT_BLANKS))
		if (!split_word(u, &s, &word[n++]))
			return false;
	memcpy(word + n, u->word + u->at, rest * sizeof(*word));
	u->word = word;
	u->count = n + rest;
	u->has_c = false;
	return true;
}

/* env, sudo: assignments before the program, and env -S, which may add options. */
static void unwrap_environment(struct unwrap *u)
{
	for (unsigned n = 0; u->has_c; n++) {
		if (!u->command_text || n == SPLITS_MAX || !split_string(u)) {
			add_unknown(u, COMMAND_UNKNOWN(EVALUATED));
			return;
		}
		skip_options(u);
	}
	unwrap_rest(u);
	u->found->reads_stdin = u->stdin_shell && u->found->privileged && !u->found->ninner; /* sudo -s, sudo -i */
}

static void unwrap_command(struct unwrap *u)
{
	switch (u->row->how) {
	case HOW_ARGS: unwrap_rest(u); break;
	case HOW_ENV: unwrap_environment(u); break;
	case HOW_QUERY:
		if (!u->lookup)
			unwrap_rest(u);
		break;
	case HOW_SHELL: unwrap_shell(u); break;
	case HOW_JOIN: unwrap_joined(u); break;
	case HOW_OPTION_C: unwrap_option_c(u); break;
	case HOW_FIRST:
		/* trap - and trap '' only remove a trap */
		if (u->at + 1 < u->count && *u->word[u->at].plain && strcmp(u->word[u->at].plain, "-") != 0)
			add_text(u, &u->word[u->at]);
		break;
	case HOW_EQUALS: unwrap_assignments(u); break;
	case HOW_FIND: unwrap_find(u); break;
	case HOW_XARGS:
	case HOW_PARALLEL: unwrap_appended(u, u->row->how == HOW_PARALLEL); break;
	case HOW_AFTER: unwrap_after_word(u, "--args", false); break;
	case HOW_GIT_FOREACH: unwrap_after_word(u, "foreach", true); break;
	case HOW_GIT_BISECT: unwrap_after_word(u, "run", false); break;
	case HOW_GIT_DASHED: unwrap_git_dashed(u); break;
	case HOW_JOBS: unwrap_jobs(u); break;
	case HOW_REMOTE: unwrap_remote(u); break;
	}
}

/* Programs that start a shell if no command is given: linux64, unshare -r, sg users, setarch i686. */
static bool starts_shell(const struct unwrap *u)
{
	static const char shells[] = "setarch|linux32|linux64|i386|i686|x86_64|aarch64|uname26|fakeroot|fakechroot|"
				     "unshare|nsenter|chroot|sg";
	static const char *const prints[] = { "--help", "--version", "-h", "-V", "--list" };
	const char *name = args_basename(u->word[0].value);

	if (!args_named(name, shells) || (u->count == 2 && is_one_of(u->word[1].value, prints, countof(prints))))
		return false;
	size_t options = u->at + 1;
	while (options < u->count && *u->word[options].plain == '-')
		options++;
	/* setarch [ARCH] [OPTIONS] [PROGRAM …] */
	return !u->found->ninner || (strcmp(name, "setarch") == 0 && u->at == 1 && options == u->count);
}

void wrapper_find(const struct command_word *word, size_t count, struct shell_arena *arena, struct wrapper_found *ret)
{
	struct unwrap u = { .row = row_of(word, count), .word = word, .count = count, .arena = arena, .found = ret };

	*ret = (struct wrapper_found){ 0 };
	if (!u.row)
		return;
	ret->wraps = true;
	ret->transparent = u.row->flags & WRAP_T;
	ret->privileged = u.row->flags & WRAP_P;
	if (u.row->how == HOW_FIND) {
		u.at = 1;
		unwrap_find(&u);
		ret->wraps = ret->ninner || ret->unknown;
		return;
	}
	if (u.row->how == HOW_SHELL && ret->transparent)
		shell_options(&u);
	else
		skip_options(&u);
	unwrap_command(&u);
	ret->reads_stdin |= starts_shell(&u);
	if (!ret->ninner && !ret->unknown && !ret->reads_stdin)
		ret->wraps = ret->transparent = false; /* env, alias or trap without a command: nothing runs */
}
