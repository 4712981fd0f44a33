/*
 * Paths in words for which no table has a role: operands of programs that are in no table, values of options, text
 * after an @ or =, values of variables and lists of loops. A rule against reading such a path denies; a rule against
 * writing it asks, if a write is likely.
 */

#include "policy/analysis.h"

#include "runtime/base/mem.h"
#include "runtime/base/path.h"

#include <string.h>

/* Programs whose words are only data: a word that looks like a path is text. */
static const char data_only[] = "echo|printf|:|true|false|test|[|[[|((|let|set|unset|alias|type|which|whereis|hash|"
				"basename|dirname|expr|seq|sleep|exit|return|kill|trap|eval";
/* Programs whose options, and the values of these, are patterns. */
static const char searches[] = "find|gfind|fd|fdfind|grep|egrep|fgrep|zgrep|rgrep|rg|ag|ack|locate|tree";
static const char patterns[] = "exclude*|include|include-from|ignore*|name|iname|glob|pattern*|regex*|message|filter*|"
			       "grep|author|format|title|body|label";
static const char declares[] = "export|declare|typeset|local|readonly";

/* How likely it is that the path is written. */
enum named { NAMED_READ, NAMED_PERHAPS, NAMED_OUTPUT };

/* Adds a path whose use is unknown; `how` is the likelihood that it is written. */
static void add_path_word(struct analysis *r, size_t index, const char *cwd, const char *text, bool exact,
			  enum named how)
{
	struct command_facts *f = r->facts;
	const char *path = NULL, *slash = strchr(text, '/');
	const bool home = *text == '~' && r->o->home && !r->home_changed;

	if (strncmp(text, "file://", 7) == 0)
		text += 7;
	/* ~name is treated as the caller's home: other users' home directories are not looked up. */
	if (home)
		path = slash ? command_paths_absolute(r, r->o->home, slash + 1) : r->o->home;
	else if (*text && !strstr(text, "://"))
		path = command_paths_absolute(r, cwd, text);
	if (!path || command_paths_harmless_target(path))
		return;
	/* Programs get the project's files as arguments all the time; that alone does not mean a write. */
	const bool written = how == NAMED_OUTPUT || (how == NAMED_PERHAPS && !path_within(r->workspace, path));
	for (size_t i = f->nnamed; i-- > 0 && f->nnamed - i < 32;)
		if (f->named[i].exact == exact && (!written || f->named[i].access & COMMAND_WRITES) &&
		    strcmp(f->named[i].path, path) == 0)
			return;
	f->named = shell_arena_grow(r->arena, f->named, f->nnamed, sizeof(*f->named));
	f->named[f->nnamed++] = (struct command_path){ .path = path,
						       .word = text,
						       .exact = exact,
						       .outside = !path_within(r->workspace, path),
						       .access = COMMAND_READS | (written ? COMMAND_WRITES : 0),
						       .command = index };
}

/* git commands that print the content of files: operands are revisions, files or both (HEAD:file). */
static bool shows_files(const struct analysis_command *c)
{
	return args_match(c->args, "git =log|show|diff|blame|annotate|cat-file|whatchanged|diff-index|diff-files|"
				   "diff-tree|range-diff|archive|format-patch");
}

/* Adds the text itself, and the part after an @ or = in it: @file, name=@file, if=file; for git also HEAD:file. */
static void add_value(struct analysis *r, const struct analysis_command *c, const char *text, enum named how,
		      bool whole)
{
	const char *equals = strchr(text, '='), *at = strchr(text, '@'), *colon = strchr(text, ':');

	if (whole)
		add_path_word(r, c->index, c->cwd, text, true, how);
	if (equals)
		add_path_word(r, c->index, c->cwd, equals + 1 + (equals[1] == '@'), true, how);
	/* a volume: ~/x:/y */
	if (colon && strchr("/~", *text))
		add_path_word(r, c->index, c->cwd, shell_arena_strndup(r->arena, text, (size_t)(colon - text)), true,
			      how);
	if (colon && shows_files(c))
		add_path_word(r, c->index, c->cwd, colon + 1, true, how);
	if (at == text)
		add_path_word(r, c->index, c->cwd, at + 1, true, how);
}

/* Whether the word cannot be a file name: push, x. */
static bool is_plain(const char *word) { return !strpbrk(word, "./~"); }

/* A word whose value is unknown is added only if its beginning says where it leads: a glob, a tilde. */
static void add_word(struct analysis *r, const struct analysis_command *c, const struct command_word *w, enum named how,
		     bool whole)
{
	if (w->value)
		add_value(r, c, w->value, how, whole);
	else if (whole && (w->unknown == SHELL_GLOB || *w->plain == '~'))
		add_path_word(r, c->index, c->cwd, w->plain, false, how);
}

/* -o, --output, --target-dir …: the value is likely to be written. */
static enum named how_named(const struct command_option *o)
{
	static const char *const beginnings[] = { "out", "target",  "prefix", "dest",  "root",   "log", "save",
						  "dir", "install", "write",  "trace", "stderr", "to" };

	if (o->letter)
		return strchr("oOw", o->letter)     ? NAMED_OUTPUT
		       : strchr("dDPtf", o->letter) ? NAMED_PERHAPS
						    : NAMED_READ;
	for (size_t i = 0; i < countof(beginnings); i++)
		if (o->name_len >= strlen(beginnings[i]) && memcmp(o->name, beginnings[i], strlen(beginnings[i])) == 0)
			return NAMED_OUTPUT;
	return NAMED_READ;
}

/* -o/x, if it is not known that -o takes a value. */
static void add_cluster(struct analysis *r, const struct analysis_command *c, const struct command_word *w)
{
	if (w->value && w->value[0] == '-' && w->value[1] && w->value[1] != '-' && w->value[2] &&
	    strchr("/~", w->value[2]))
		add_path_word(r, c->index, c->cwd, w->value + 2, true,
			      how_named(&(struct command_option){ .letter = w->value[1] }));
}

void path_words_of_command(struct analysis *r, const struct analysis_command *c, const char *roles, bool wraps)
{
	const struct command_args *a = c->args;

	if (!a->name || args_named(a->name, data_only))
		return;
	for (size_t i = 0; i < a->noptions && !args_named(a->name, searches); i++) {
		const struct command_option *o = &a->option[i];

		if (o->name && args_named(shell_arena_strndup(r->arena, o->name, o->name_len), patterns))
			continue;
		if (o->value_word)
			add_word(r, c, o->value_word, how_named(o), true);
		else if (o->value)
			add_value(r, c, o->value, how_named(o), true);
	}
	for (size_t i = 1; i < a->count; i++)
		add_cluster(r, c, &a->word[i]);
	const bool strange = !roles && !args_named(a->name, declares), may_name = strange || shows_files(c);
	for (size_t i = 0; i < a->noperands && !wraps; i++) {
		const struct command_word *w = a->operand[i];
		const bool has_role = roles && command_paths_has_role(roles, i, a->noperands);

		/*
		 * An operand that is not a path according to the table is added only if it clearly is one; no table has
		 * ~name.
		 */
		const bool clear = *w->plain == '/' || strncmp(w->plain, "file://", 7) == 0;
		add_word(r, c, w, strange ? NAMED_PERHAPS : NAMED_READ,
			 (may_name && !is_plain(w->plain)) || *w->plain == '~' || (!has_role && clear));
	}
}

void path_words_of_assignment(struct analysis *r, size_t index, const char *cwd, const struct shell_word *value)
{
	const struct command_word w = analysis_word(r, value);

	if (w.value || w.unknown == SHELL_GLOB)
		add_path_word(r, index, cwd, w.plain, w.value != NULL, NAMED_READ);
}

/* for x in …: the list is stored as text. */
static void add_list_words(struct analysis *r, const char *list, size_t index, const char *cwd)
{
	static const char head[] = ": ";
	const size_t n = strlen(list);
	char *text = shell_arena_alloc(r->arena, sizeof(head) + n);
	struct shell_script s;

	if (!n || n > r->budget)
		return;
	r->budget -= n;
	memcpy(text, head, sizeof(head) - 1);
	memcpy(text + sizeof(head) - 1, list, n);
	(void)shell_parse_into(r->arena, text, sizeof(head) - 1 + n, SHELL_BASH, &s);
	for (size_t i = 0; i < s.count; i++)
		for (size_t k = 1; k < s.command[i].nwords && s.command[i].offset == 0; k++)
			path_words_of_assignment(r, index, cwd, &s.command[i].word[k]);
}

void path_words_of_script(struct analysis *r, const struct shell_script *s, const char *cwd)
{
	for (size_t i = 0; i < s->nset; i++)
		if (s->set[i].list && r->facts->ncommands)
			add_list_words(r, s->set[i].list, r->facts->ncommands - 1, cwd);
}
