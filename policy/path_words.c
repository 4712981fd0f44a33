/*
 * Paths in words for which no table has a role: operands of programs that are in no table, values of options, text
 * after an @ or =, values of variables and lists of loops. A rule against reading such a path denies; a rule against
 * writing it asks, if a write is likely.
 */

#include "policy/analysis.h"
#include "policy/variables.h"
#include "policy/word_values.h"

#include "runtime/base/mem.h"
#include "runtime/base/path.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Programs whose words are only data: a word that looks like a path is text. */
static const char data_only[] = "echo|printf|:|true|false|test|[|[[|((|let|set|unset|alias|type|which|whereis|hash|"
				"basename|dirname|expr|seq|sleep|exit|return|kill|trap|eval";
/* Programs whose options, and the values of these, are patterns. */
static const char searches[] = "find|gfind|fd|fdfind|grep|egrep|fgrep|zgrep|rgrep|rg|ag|ack|locate|tree";
static const char patterns[] =
	"exclude*|include|include-from|ignore*|hide|name|iname|glob|pattern*|regex*|message|filter*|"
	"grep|author|format|title|body|label";
/* … unless the patterns are in a file: exclude-from, ignore-revs-file. */
static const char pattern_files[] = "*-from|*-file";
/* Options with a letter whose value is no path: a script, a pattern, a separator. */
static const struct {
	const char *names, *letters;
} texts_of[] = {
	{ "sed|gsed", "el" }, { "awk|gawk|mawk|nawk", "F" }, { "perl|ruby", "eEF" },      { "cut", "bcdf" },
	{ "sort", "kSt" },    { "ls|dir|vdir", "ITw" },      { "diff|colordiff", "xFI" }, { "zip", "xi" },
	{ "git", "SGme" },    { "curl", "HuXAe" },           { "column", "s" },
};
/* Options whose value, in the next word, is text for people. */
static const char texts[] = "--message|--title|--body|--notes|--description|--subject";
static const char declares[] = "export|declare|typeset|local|readonly";

/* Programs that show folders of the host, with everything below them, to what they run. */
static const char containers[] = "docker|podman|nerdctl|docker-compose|podman-compose|bwrap|systemd-nspawn|firejail|"
				 "toolbox|distrobox|proot|runc|crun|lxc|incus";

#define LETTERS_MAX 4u /* of a cluster: each is tried as the one with a value */
#define PARTS_MAX 32u  /* a=b,c=d … in one word: each costs its length */

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
	const char *name = analysis_simple(r, index)->name;
	const bool mounted = name && args_named(name, containers);
	if (mounted && how == NAMED_READ)
		how = NAMED_PERHAPS;
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
						       .access = COMMAND_READS | (written ? COMMAND_WRITES : 0) |
								 (mounted ? COMMAND_RECURSES : 0),
						       .command = index };
}

/* git commands that print the content of files: operands are revisions, files or both (HEAD:file). */
static bool shows_files(const struct analysis_command *c)
{
	return args_match(c->args, "git =log|show|diff|blame|annotate|cat-file|whatchanged|diff-index|diff-files|"
				   "diff-tree|range-diff|archive|format-patch");
}

/* HEAD:file, -L 1,9:file or -L :function:file. The path begins at the top of the repository, or, with a dot, here. */
static void add_object(struct analysis *r, const struct analysis_command *c, const char *text)
{
	const char *colon = strrchr(text, ':');

	if (!colon || strpbrk(colon, "$`") || !shows_files(c))
		return;
	add_path_word(r, c->index, c->cwd, colon + 1, true, NAMED_READ);
	if (c->cwd && path_within(r->workspace, c->cwd))
		add_path_word(r, c->index, r->workspace, colon + 1, true, NAMED_READ);
}

/* Adds the text after a mark such as =, and what is before the next comma or semicolon in it: src=file,dst=x. */
static void add_part(struct analysis *r, const struct analysis_command *c, const char *text, enum named how)
{
	const size_t n = strcspn(text, ",;");

	add_path_word(r, c->index, c->cwd, text, true, how);
	if (text[n])
		add_path_word(r, c->index, c->cwd, shell_arena_strndup(r->arena, text, n), true, how);
}

/* Whether the text begins with a name and an @: curl's name@file. user@host is one, too, and then no path of a rule. */
static bool is_named_file(const char *text, const char *at)
{
	return at && at > text &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-0123456789") == (size_t)(at - text);
}

/* Adds the text itself, and the parts after an @ or = in it: @file, name=@file, if=file; for git also HEAD:file. */
static void add_value(struct analysis *r, const struct analysis_command *c, const char *text, enum named how,
		      bool whole)
{
	const char *at = strchr(text, '@'), *colon = strchr(text, ':');
	unsigned parts = PARTS_MAX;

	if (whole)
		add_path_word(r, c->index, c->cwd, text, true, how);
	for (const char *s = strchr(text, '='); s && parts--; s = strchr(s + 1, '='))
		add_part(r, c, s + 1 + (s[1] == '@' || s[1] == '<'), how);
	/* a volume: ~/x:/y, ./x:/y */
	if (colon && colon > text && strchr("/~.", *text))
		add_path_word(r, c->index, c->cwd, shell_arena_strndup(r->arena, text, (size_t)(colon - text)), true,
			      how);
	if (strncasecmp(text, "file:", 5) == 0 && text[5] != '/') /* openssl -pass file:x, socat FILE:x,rdonly */
		add_part(r, c, text + 5, how);
	add_object(r, c, text);
	if (at == text)
		add_part(r, c, at + 1, how);
}

/* Whether the word cannot be a file name: push, x. */
static bool is_plain(const char *word) { return !strpbrk(word, "./~"); }

/* A word whose value is unknown is added only if its beginning says where it leads: a glob, a tilde. */
static void add_word(struct analysis *r, const struct analysis_command *c, const struct command_word *w, enum named how,
		     bool whole)
{
	const struct word_values v = w->value ? (struct word_values){ 0 } : word_values_of(r, w, 0);

	for (size_t i = 0; i < v.count && w->unknown != SHELL_GLOB; i++)
		if (!v.text[i].glob)
			add_value(r, c, v.text[i].text, how, whole);
	if (w->value)
		add_value(r, c, w->value, how, whole);
	else if (whole && (w->unknown == SHELL_GLOB || *w->plain == '~' || strncmp(w->plain, "file://", 7) == 0))
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

/* How an operand is used that may be the value of the option in front of it: mytool -o file. */
static enum named how_after(const struct analysis_command *c, const struct command_word *w)
{
	const char *s = w > c->args->word + 1 ? w[-1].plain : "";
	struct command_option o = { 0 };

	if (s[0] != '-' || !s[1] || strchr(s, '='))
		return NAMED_PERHAPS;
	if (s[1] == '-')
		o = (struct command_option){ .name = s + 2, .name_len = strlen(s + 2) };
	else
		o.letter = s[strlen(s) - 1];
	return how_named(&o) == NAMED_OUTPUT ? NAMED_OUTPUT : NAMED_PERHAPS;
}

/* Whether the value of this option is no path, although it may look like one. */
static bool is_text_option(const struct command_args *a, char letter)
{
	for (size_t i = 0; i < countof(texts_of); i++)
		if (letter && args_named(a->name, texts_of[i].names))
			return strchr(texts_of[i].letters, letter);
	return false;
}

/*
 * -ofile, if it is not known that -o takes a value, and git's -L1,9:x. Letters in front may be options without a value:
 * -aFfile. `known`: the option that has the rest of the word as its value, or the next word, according to the tables.
 */
static void add_cluster(struct analysis *r, const struct analysis_command *c, const struct command_word *w,
			const struct command_option *known)
{
	const char *s = w->value;

	if (w->plain[0] == '-' && w->plain[1] == 'L')
		add_object(r, c, w->plain);
	if (!s || s[0] != '-' || s[1] == '-' || args_named(c->args->name, searches))
		return;
	if (known && is_text_option(c->args, known->letter))
		return;
	for (size_t i = 1; i <= LETTERS_MAX && isalpha((unsigned char)s[i]); i++) {
		const enum named how = how_named(&(struct command_option){ .letter = s[i] });
		const bool first = i == 1 || strchr("/~", s[i + 1]);

		if (is_text_option(c->args, s[i]) || (known && known->letter == s[i]))
			return;
		if (s[i + 1] && (!is_plain(s + i + 1) || (first && how == NAMED_OUTPUT)))
			add_path_word(r, c->index, c->cwd, s + i + 1, true, first ? how : NAMED_READ);
	}
}

static void add_clusters(struct analysis *r, const struct analysis_command *c)
{
	const struct command_args *a = c->args;

	/* Options are in the order of their words. */
	for (size_t i = 1, k = 0; i < a->count; i++) {
		const struct command_option *known = NULL;

		for (; k < a->noptions && (!a->option[k].word || a->option[k].word <= &a->word[i]); k++)
			if (a->option[k].word == &a->word[i] && (a->option[k].value || a->option[k].value_word))
				known = &a->option[k];
		add_cluster(r, c, &a->word[i], known);
	}
}

/* docker run -v, --volume, --mount */
static bool is_mount(const struct analysis_command *c, const struct command_option *o)
{
	return args_named(c->args->name, containers) &&
	       (o->letter ? o->letter == 'v'
			  : o->name_len >= 3 && (memcmp(o->name, "vol", 3) == 0 || memcmp(o->name, "mou", 3) == 0));
}

/* A path that may be any. */
static void add_unknown(struct analysis *r, const struct analysis_command *c, const char *plain)
{
	struct command_facts *f = r->facts;

	f->named = shell_arena_grow(r->arena, f->named, f->nnamed, sizeof(*f->named));
	f->named[f->nnamed++] = (struct command_path){ .path = plain,
						       .word = plain,
						       .unknown = true,
						       .outside = true,
						       .access = COMMAND_READS | COMMAND_WRITES,
						       .command = c->index };
}

/* The values of options, for programs whose options are not patterns. */
static void add_options(struct analysis *r, const struct analysis_command *c)
{
	const struct command_args *a = c->args;

	for (size_t i = 0; i < a->noptions && !args_named(a->name, searches); i++) {
		const struct command_option *o = &a->option[i];

		const char *name = o->name ? shell_arena_strndup(r->arena, o->name, o->name_len) : "";
		const bool whole = !is_text_option(a, o->letter);

		if (args_named(name, patterns) && !args_named(name, pattern_files))
			continue;
		const struct command_word *w = o->value_word ? o->value_word : o->word;

		if (is_mount(c, o) && !w->value && word_values_of(r, w, 0).open)
			add_unknown(r, c, w->plain);
		if (o->value_word)
			add_word(r, c, o->value_word, how_named(o), whole);
		else if (o->value && !w->value)
			add_word(r, c, w, how_named(o), false);
		else if (o->value)
			add_value(r, c, o->value, how_named(o), whole);
		if (o->value && is_named_file(o->value, strchr(o->value, '@')))
			add_part(r, c, strchr(o->value, '@') + 1, how_named(o));
	}
}

/*
 * What a wrapper has around the inner command: env d=~/.ssh x, and the arguments in parallel x ::: ~/.ssh/id. The inner
 * command is analysed on its own.
 */
static void add_wrapping_words(struct analysis *r, const struct analysis_command *c)
{
	const struct command_args *a = c->args;
	bool listed = false;

	for (size_t i = 0; i < a->noperands && args_is_assignment(a->operand[i]->plain); i++)
		add_word(r, c, a->operand[i], NAMED_READ, false);
	for (size_t i = 1; i < a->count; i++) {
		if (listed)
			add_word(r, c, &a->word[i], NAMED_PERHAPS, !is_plain(a->word[i].plain));
		listed |= strncmp(a->word[i].plain, ":::", 3) == 0;
	}
}

/* An operand is added if it may be a path; one that is no path according to the table, only if it clearly is one. */
static void add_operand(struct analysis *r, const struct analysis_command *c, const char *roles, size_t i, bool strange)
{
	const struct command_word *w = c->args->operand[i];
	const enum named how = strange ? how_after(c, w) : NAMED_READ;
	const bool listed = roles && command_paths_has_role(roles, i, c->args->noperands);
	const struct word_values v = w->value ? (struct word_values){ 0 } : word_values_of(r, w, 0);

	/* --notes of git log has no value. */
	if (!shows_files(c) && args_named(w[-1].plain, texts))
		return;
	if (v.open && args_named(c->args->name, containers) && args_named(w[-1].plain, "-v|--volume|--mount|--*bind"))
		add_unknown(r, c, w->plain);
	for (size_t k = 0; k <= v.count; k++) {
		const char *text = k < v.count ? v.text[k].text : w->plain;
		const bool clear = *text == '/' || strncmp(text, "file://", 7) == 0,
			   whole = ((strange || shows_files(c)) && (!is_plain(text) || how == NAMED_OUTPUT)) ||
				   *w->plain == '~' || (clear && !listed);

		/* No table has ~name. */
		if (k == v.count) {
			add_word(r, c, w, how, whole);
			add_object(r, c, w->value ? "" : w->plain);
		} else if (!v.text[k].glob)
			add_value(r, c, text, how, whole);
		else if (whole)
			add_path_word(r, c->index, c->cwd, text, false, how);
	}
}

void path_words_of_command(struct analysis *r, const struct analysis_command *c, const char *roles, bool wraps)
{
	const struct command_args *a = c->args;

	if (!a->name || args_named(a->name, data_only))
		return;
	add_options(r, c);
	add_clusters(r, c);
	if (wraps)
		add_wrapping_words(r, c);
	const bool unlisted = !roles && !args_named(a->name, declares);
	for (size_t i = 0; i < a->noperands; i++) {
		const bool may_be = roles && command_paths_may_be(roles, i, a->noperands);

		if (!wraps || may_be)
			add_operand(r, c, roles, i, unlisted || may_be);
	}
}

void path_words_of_assignment(struct analysis *r, size_t index, const char *cwd, const struct shell_word *value)
{
	const struct command_word w = analysis_word(r, value);

	if (w.value || w.unknown == SHELL_GLOB)
		add_path_word(r, index, cwd, w.plain, w.value != NULL, NAMED_READ);
	if (!(w.unknown & SHELL_ARRAY))
		return;
	const struct variables_words list = variables_array(r, value);
	for (size_t i = 0; i < list.count; i++) {
		const struct command_word item = analysis_word(r, &list.word[i]);

		if (item.value || item.unknown == SHELL_GLOB)
			add_path_word(r, index, cwd, item.plain + variables_element(&list.word[i]), item.value != NULL,
				      NAMED_READ);
	}
}

/* The list of a loop is stored as text. */
void path_words_of_script(struct analysis *r, const struct shell_script *s, const char *cwd)
{
	for (size_t i = 0; i < s->nset && r->facts->ncommands; i++) {
		const char *list = s->set[i].list ? s->set[i].list : "";
		const struct variables_words words = variables_list(r, list, strlen(list));

		for (size_t k = 0; k < words.count; k++)
			path_words_of_assignment(r, r->facts->ncommands - 1, cwd, &words.word[k]);
	}
}
