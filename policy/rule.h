#ifndef BAILIFF_POLICY_RULE_H
#define BAILIFF_POLICY_RULE_H

/*
 * One rule, and what it matches.
 *
 *   Bash, Bash(*)              every command
 *   Bash(npm test)             just this one
 *   Bash(npm run test:*)       it alone or with more words behind it; the same as Bash(npm run test *)
 *   Bash(ls*)                  no word boundary: lsof as well. A * is anything, blanks too, wherever it stands
 *   Read(P)  Edit(P)  Write(P) paths as in .gitignore: //x is absolute, ~/x in the home, /x in the workspace, ./x and
 *     a/x in the
 *                              working directory, a name without a slash at any depth; ** crosses folders; what is
 *                                below a match matches.
 *                              Edit and Write are the same
 *   WebFetch(domain:H)         a host; *.H what is below it
 *   anything else              a tool by its name: mcp__server__tool, mcp__server (all of its tools), read_file; * at
 *                              the end
 *
 * and prefix rules: the first words of a command, each one word or several to choose from.
 *
 * A rule that refuses or asks is matched generously: /bin/rm is rm, 'r'm is rm, and a word that is only known when the
 * command runs may be what the rule speaks of (RULE_MAYBE). One that allows is matched by the words as they stand.
 */

#include "policy/command_analysis.h"

#include <stdbool.h>
#include <stddef.h>

struct err;

enum rule_effect { RULE_NONE, RULE_ALLOW, RULE_ASK, RULE_DENY }; /* the stricter the higher */
enum rule_layer { RULE_OF_HOST, RULE_OF_USER, RULE_OF_WORKSPACE, RULE_OF_SESSION, RULE_LAYERS };
enum rule_kind { RULE_BASH, RULE_READ, RULE_EDIT, RULE_FETCH, RULE_TOOL, RULE_PREFIX, RULE_KINDS };
enum rule_match { RULE_NO_MATCH, RULE_MAYBE, RULE_MATCH };
/* What a path pattern begins at. */
enum rule_base { RULE_AT_ROOT, RULE_AT_HOME, RULE_AT_WORKSPACE, RULE_AT_CWD, RULE_ANYWHERE, RULE_BASES };

#define RULE_TEXT_MAX 1024u
#define RULE_WORDS_MAX 32u
#define RULE_CHOICES_MAX 64u

struct rule_word {
	char **choice;
	size_t count;
};

struct policy_rule {
	enum rule_effect effect;
	enum rule_layer layer;
	enum rule_kind kind;
	char *text;             /* as the file has it */
	const char *file;       /* its owner's; a session's rule: the session's id … */
	unsigned line;          /* … and its number in its list, from 1 */
	char *pattern;          /* NULL: everything of its kind */
	size_t literal;         /* bytes of it before the first * */
	char *writes;           /* RULE_BASH: the redirections into files that it names; NULL: none */
	bool tail;              /* ends in " *": also matches without */
	enum rule_base base;    /* paths */
	bool at_root;           /* /etc/x: the workspace's, and the system's where the rule refuses or asks */
	struct rule_word *word; /* RULE_PREFIX */
	size_t nwords;
	char *justification; /* or NULL */
};

/* Where paths of patterns begin; any may be NULL. */
struct rule_base_paths {
	const char *cwd, *workspace, *home;
};

/* "Bash(npm test)" → kind and pattern; text, file, line, effect and layer are the caller's. */
int rule_parse(struct policy_rule *r, const char *text, struct err *e);
void rule_done(struct policy_rule *r);

/* RULE_BASH, RULE_PREFIX: whether it lets a command write by redirection (command_simple's writes; NULL: it does not).
 */
bool rule_allows_writes(const struct policy_rule *r, const char *writes);
bool rule_text_matches(const struct policy_rule *r, const char *text); /* RULE_BASH */
/* For each base whether rules that begin there can be about the path at all: most cannot, and need not be tried. */
void rule_path_candidates(const struct command_path *path, const struct rule_base_paths *bases,
			  bool ret_near[RULE_BASES]);
enum rule_match rule_path_matches(const struct policy_rule *r, const struct command_path *path,
				  const struct rule_base_paths *bases);
bool rule_host_matches(const struct policy_rule *r, const char *host);
bool rule_tool_matches(const struct policy_rule *r, const char *tool);
/* RULE_PREFIX; a NULL word may be any. */
enum rule_match rule_words_match(const struct policy_rule *r, const char *const *argv, size_t argc, const char *name);

const char *rule_effect_name(enum rule_effect e); /* allow, ask, deny */
const char *rule_layer_name(enum rule_layer l);
/* The convention's name of a tool that bailiff calls by another one: read_file is Read. */
enum rule_kind rule_kind_of_tool(const char *tool);

#endif
