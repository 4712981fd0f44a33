/*
 * Parses the expression of find: tests joined by -a and -o, in parentheses, with actions in between. A file reaches an
 * action only through the tests before it, so its name is limited if one of these is -name, in every alternative. What
 * the tables do not have lets every name pass.
 */

#include "policy/find_search.h"

#include "policy/file_name.h"
#include "policy/shell/arena.h"
#include "policy/shell/shell.h"

#include <ctype.h>
#include <string.h>

#define DEPTH_MAX 16u

/* Tests with a value, tests without one, and actions by the number of their values; -exec ends at ; or +. */
static const char valued[] = "-newer*|-anewer|-cnewer|-user|-group|-uid|"
			     "-gid|-size|-mtime|-ctime|-atime|-mmin|-cmin|-amin|-perm|-type|-xtype|-maxdepth|-mindepth|"
			     "-links|-inum|-samefile|-fstype|-regextype|-used";
static const char plain[] =
	"-empty|-readable|-writable|-executable|-true|-false|-nouser|-nogroup|-mount|-xdev|-depth|-d|"
	"-daystart|-noleaf|-prune|-quit";
static const char actions[] = "-print|-print0|-ls|-delete";
static const char actions_to[] = "-printf|-fprint|-fprint0|-fls";
static const char names[] = "-name|-iname|-path|-ipath|-wholename|-iwholename|-lname|-ilname|-regex|-iregex";
static const char runs[] = "-exec|-execdir|-ok|-okdir";

struct parser {
	const struct command_word *word;
	size_t count, at;
	bool any;  /* an action gets files of any name */
	bool acts; /* there is an action: nothing is printed by default */
	const char **name;
	size_t nnames;
	struct shell_arena *arena;
};

static const char *peek(const struct parser *p) { return p->at < p->count ? p->word[p->at].value : NULL; }

static bool accept(struct parser *p, const char *words)
{
	const char *s = peek(p);
	const bool is = s && args_named(s, words);

	p->at += is;
	return is;
}

/* What is not understood ends the parsing: any name. */
static void give_up(struct parser *p)
{
	p->any = true;
	p->at = p->count;
}

/* Without quotes a value may be several words, among them other tests and actions. */
static void skip_values(struct parser *p, size_t n)
{
	for (; n && p->at < p->count; n--, p->at++)
		if (!p->word[p->at].value && p->word[p->at].many) {
			give_up(p);
			return;
		}
}

static void skip_command(struct parser *p)
{
	for (const char *before = ""; p->at < p->count; p->at++) {
		const char *s = peek(p);

		if (s && (strcmp(s, ";") == 0 || (strcmp(s, "+") == 0 && strcmp(before, "{}") == 0))) {
			p->at++;
			return;
		}
		before = s ? s : "";
	}
}

/* An action: it gets what the tests before it let pass. */
static bool parse_action(struct parser *p, bool limited)
{
	if (accept(p, runs))
		skip_command(p);
	else if (accept(p, actions_to))
		skip_values(p, 1);
	else if (accept(p, "-fprintf"))
		skip_values(p, 2);
	else if (!accept(p, actions))
		return false;
	p->acts = true;
	p->any |= !limited;
	return true;
}

/* A glob for the names of the paths that a regular expression matches, by its end: .*\.c; NULL: any name. */
static const char *name_of_regex(struct parser *p, const char *regex)
{
	const char *end = regex + strlen(regex);

	while (end > regex && (isalnum((unsigned char)end[-1]) || strchr("_-", end[-1])))
		end--;
	/* What is in front of a dot is any text; without one the end may be a part of an expression. */
	if (end < regex + 2 || strncmp(end - 2, "\\.", 2) != 0 || (end > regex + 2 && end[-3] == '\\') || !*end)
		return NULL;
	const size_t n = strlen(end);
	char *glob = shell_arena_alloc(p->arena, n + 3);
	memcpy(glob, "*.", 2);
	memcpy(glob + 2, end, n + 1);
	return glob;
}

enum name_kind { NAME_GLOB, PATH_GLOB, PATH_REGEX };

/* The value of -name and similar. `takes`: whether it is the names that pass. Returns whether it limits them. */
static bool parse_name(struct parser *p, enum name_kind kind, bool takes)
{
	const struct command_word *w = p->at < p->count ? &p->word[p->at++] : NULL;

	/* Unquoted, *.c may expand to one name like it; several are an error of find. */
	if (!w || (!w->value && w->unknown != SHELL_GLOB) || p->nnames == FIND_SEARCH_NAMES_MAX) {
		give_up(p);
		return false;
	}
	const char *name = kind == NAME_GLOB   ? w->plain
			   : kind == PATH_GLOB ? file_name_of_pattern(w->plain, p->arena)
					       : name_of_regex(p, w->plain);
	if (!takes || !name || strcmp(name, "*") == 0)
		return false;
	p->name = shell_arena_grow(p->arena, p->name, p->nnames, sizeof(*p->name));
	p->name[p->nnames++] = name;
	return true;
}

static bool parse_either(struct parser *p, bool limited, bool negated, unsigned depth);

/* Returns whether the names are limited behind this test or action. */
static bool parse_test(struct parser *p, bool limited, bool negated, unsigned depth)
{
	if (depth > DEPTH_MAX) {
		give_up(p);
		return false;
	}
	if (accept(p, "!|-not"))
		return parse_test(p, limited, true, depth + 1);
	if (accept(p, "(")) {
		const bool is = parse_either(p, limited, negated, depth + 1);

		if (!accept(p, ")"))
			give_up(p);
		return is;
	}
	if (accept(p, "-name|-iname"))
		return parse_name(p, NAME_GLOB, !negated) || limited;
	if (accept(p, "-path|-ipath|-wholename|-iwholename"))
		return parse_name(p, PATH_GLOB, !negated) || limited;
	if (accept(p, "-regex|-iregex"))
		return parse_name(p, PATH_REGEX, !negated) || limited;
	if (accept(p, valued))
		skip_values(p, 1);
	else if (!parse_action(p, limited) && !accept(p, plain))
		give_up(p);
	return limited;
}

/* Tests in a row: each limits what the next ones get. */
static bool parse_all(struct parser *p, bool limited, bool negated, unsigned depth)
{
	do {
		limited = parse_test(p, limited, negated, depth);
		(void)accept(p, "-a|-and");
	} while (p->at < p->count && !p->any && (!peek(p) || !args_named(peek(p), "-o|-or|)|,")));
	return limited;
}

/* Alternatives: each gets what is before all of them. */
static bool parse_either(struct parser *p, bool limited, bool negated, unsigned depth)
{
	bool all = true;

	do
		all &= p->at < p->count && parse_all(p, limited, negated, depth);
	while (accept(p, "-o|-or"));
	return all;
}

/* Whether what looks like a folder may be a part of the expression at run time: "$x" may be ! */
static bool may_be_test(const struct command_word *w)
{
	return !w->value && (!w->lead || (w->many && w->unknown != SHELL_GLOB));
}

const struct find_search *find_search_of(const struct command_word *word, size_t count, struct shell_arena *arena)
{
	struct find_search *s = shell_arena_alloc(arena, sizeof(*s));
	struct parser p = { .word = word, .count = count, .at = 1, .arena = arena };

	while (accept(&p, "-H|-L|-P|-O*"))
		;
	*s = (struct find_search){ .start = word + p.at };
	for (; p.at < count && !(word[p.at].lead && strchr("-(!", *word[p.at].plain)); p.at++)
		p.any |= may_be_test(&word[p.at]);
	s->count = p.at - (size_t)(s->start - word);
	s->expression = p.at;
	const bool limited = parse_either(&p, false, false, 0);
	if (!p.any && p.at == count && (limited || p.acts)) {
		s->name = p.name;
		s->nnames = p.nnames;
	}
	return s;
}

bool find_search_takes_value(const char *word)
{
	return args_named(word, names) || args_named(word, valued) || args_named(word, actions_to);
}

bool find_search_finds_files(const struct find_search *s)
{
	size_t n = 0;

	while (n < s->nnames && file_name_is_usual(s->name[n]))
		n++;
	return n && n == s->nnames;
}

struct command_word find_search_file(const struct find_search *s, const struct command_word *w,
				     struct shell_arena *arena)
{
	const char *start = s->count && s->start->value ? s->start->value : ".";
	const char *text = w->value;
	struct command_word file = { .plain = w->plain, .unknown = SHELL_GLOB, .lead = true };

	while (strncmp(text, "./", 2) == 0)
		text += 2;
	if (strcmp(text, "{}") == 0) {
		const size_t n = strlen(start);
		char *path = shell_arena_alloc(arena, n + 4);

		memcpy(path, start, n);
		memcpy(path + n - (n && start[n - 1] == '/'), "/{}", 3);
		file.plain = path;
		file.found = s;
	} else if (strncmp(text, "{}", 2) == 0) { /* {}.bak: there, with another name */
		struct find_search *renamed = shell_arena_alloc(arena, sizeof(*renamed));

		*renamed = *s;
		renamed->nnames = 0;
		file.found = renamed;
	}
	return file;
}
