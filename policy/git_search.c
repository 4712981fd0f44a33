/*
 * Options and operands of the git commands that print files. An operand in front of -- may be a revision or a path. It
 * is a path if its name is that of a file; a branch with such a name is rare. Behind -- all are paths.
 */

#include "policy/git_search.h"

#include "policy/file_name.h"
#include "policy/shell/arena.h"
#include "policy/shell/shell.h"
#include "runtime/base/mem.h"

#include <string.h>

/* Options of git itself with a value in the next word. */
static const char front_values[] = "-C|-c|--git-dir|--work-tree|--namespace|--super-prefix|--config-env|--attr-source";

static const char always[] = "diff|show|grep|range-diff|format-patch|archive|fast-export";

/* Options that print the content of files, and the commands that do so only with one of them. */
static const char patches[] = "-p|-u|--pa|--pat|--patc|--patch|--patch-with-*|-U*|--unified*|--word-diff*|"
			      "--color-words*|-c|--cc|--dd|--remerge-diff|--diff-merges*|--binary|-W|"
			      "--function-context";
static const struct {
	const char *commands, *options;
} with_patch[] = {
	{ "log|reflog|whatchanged|stash|diff-tree|diff-index|diff-files", patches },
	{ "status", "-v|-vv|--verbose" },
};

/* What these commands print instead of a patch; -s of format-patch is another option. */
static const char summarising[] = "diff|show|grep|range-diff";
static const char summaries[] =
	"--stat*|--shortstat|--numstat|--dirstat*|--summary|--compact-summary|--cumulative|--name-only|--name-status|"
	"--raw|-s|--no-patch|--quiet";
/* Options of these commands with a value in the next word. */
static const char values[] =
	"-S|-G|-n|-L|-I|-O|-o|--author|--committer|--grep|--grep-reflog|--since|--until|--after|--before|"
	"--max-count|--skip|--date|--output|--output-directory|--diff-filter|--find-object|--word-diff-regex|"
	"--anchored|--ws-error-highlight|--src-prefix|--dst-prefix|--line-prefix|--inter-hunk-context|--encoding|"
	"--glob|--stat-width|--prefix|--remote|--add-file|--to|--in-reply-to|--subject-prefix|"
	"--start-number|--suffix|--signature|--base";
static const char grep_values[] = "-e|-f|-A|-B|-C|-m|-O|--max-depth|--max-count|--context|--after-context|"
				  "--before-context|--threads";

struct operands {
	const struct command_word **word;
	size_t n, revisions; /* the first `revisions` are in front of -- */
	bool ended;          /* there is a -- */
};

/* A revision is no path: a..b, HEAD~1, @{u}, v1^. HEAD:x names a file, which is not searched for. */
static bool is_path(const char *s)
{
	return !strstr(s, "..") && !strpbrk(s, "~^@:{") && file_name_is_usual(file_name_of(s));
}

/* HEAD:x prints one file, and :/x is the text of a commit's message. In braces are times and texts: @{10:00}. */
static bool is_object(const char *s)
{
	const char *at = s;

	for (size_t braces = 0; *at && (braces || *at != ':'); at++)
		if (*at == '{')
			braces++;
		else if (*at == '}' && braces)
			braces--;
	return *at && strncmp(s, ":/", 2) != 0 && !strstr(s, "..");
}

static size_t find_command(const struct command_word *word, size_t count)
{
	size_t i = 1;

	for (; i < count && *word[i].plain == '-'; i++)
		i += args_named(word[i].plain, front_values);
	return i;
}

/* The options of a command that make it print files; NULL: none does. */
static const char *patch_options(const struct command_word *word, size_t count, size_t at)
{
	const char *next = at + 1 < count ? word[at + 1].plain : "";

	if (args_named(word[at].value, always))
		return patches;
	/* git stash -u is another option. */
	if (strcmp(word[at].value, "stash") == 0 && !args_named(next, "show|list"))
		return NULL;
	for (size_t i = 0; i < countof(with_patch); i++)
		if (args_named(word[at].value, with_patch[i].commands))
			return with_patch[i].options;
	return NULL;
}

static struct operands read_operands(const struct command_word *word, size_t count, size_t from, const char *prints,
				     struct git_search *s, struct shell_arena *arena)
{
	struct operands o = { .word = shell_arena_alloc(arena, count * sizeof(struct command_word *)) };
	const bool summarises = args_named(word[from - 1].value, summarising);
	bool patch = false, summary = false, untracked = false, pattern = s->greps;

	for (size_t i = from; i < count; i++) {
		const char *text = word[i].plain;

		if (o.ended || *text != '-' || !text[1]) {
			if (!pattern)
				o.word[o.n++] = &word[i];
			pattern = false;
		} else if (strcmp(text, "--") == 0) {
			o.ended = true;
			o.revisions = o.n;
		} else {
			untracked |= !s->greps && strcmp(text, "--no-index") == 0;
			patch |= args_named(text, prints);
			summary |= summarises && args_named(text, summaries);
			pattern &= !args_named(text, "-e*|-f*|--regexp*|--file*");
			i += args_named(text, s->greps ? grep_values : values);
		}
	}
	if (!o.ended)
		o.revisions = o.n;
	s->prints = !untracked && (patch || (s->prints && !summary));
	return o;
}

struct git_search git_search_of(const struct command_word *word, size_t count, struct shell_arena *arena)
{
	const size_t at = find_command(word, count);
	const char *command = at < count ? word[at].value : NULL;
	const char *options = command ? patch_options(word, count, at) : NULL;
	struct git_search s = { .prints = options && args_named(command, always) };

	if (!options)
		return s;
	s.greps = strcmp(command, "grep") == 0;
	const struct operands o = read_operands(word, count, at + 1, options, &s, arena);
	size_t objects = 0, first = o.revisions;

	for (size_t i = 0; i < o.revisions; i++)
		objects += is_object(o.word[i]->plain);
	/* Behind the first path all are paths. */
	for (size_t i = 0; i < o.revisions && !o.ended && first == o.revisions; i++)
		if ((o.word[i]->value || o.word[i]->unknown == SHELL_GLOB) && is_path(o.word[i]->plain))
			first = i;
	s.path = o.word + first;
	s.npaths = o.n - first;
	s.all = !s.npaths && !(objects && objects == o.n && strcmp(command, "show") == 0);
	return s;
}
