#ifndef BAILIFF_POLICY_RULE_H
#define BAILIFF_POLICY_RULE_H

/*
 * One rule, and what it matches.
 *
 *   Bash, Bash(*)              every command
 *   Bash(npm test)             exactly this command
 *   Bash(npm run test:*)       alone or followed by more words; the same as Bash(npm run test *)
 *   Bash(ls*)                  no word boundary: matches lsof as well. A * matches anything, including blanks, anywhere
 *   Read(P)  Edit(P)  Write(P) paths as in .gitignore: //x is absolute, ~/x in the home directory, /x in the workspace,
 *                              ./x and a/x in the working directory, a name without a slash at any depth; ** crosses
 *                              directories; everything below a match matches. Edit and Write are the same
 *   WebFetch(domain:H)         a host; *.H matches the hosts below it
 *   anything else              a tool by its name: mcp__server__tool, mcp__server (all of its tools), read_file; * at
 *                              the end
 *
 * and prefix rules: the first words of a command, each of them one word or several alternatives.
 *
 * A rule that denies or asks is matched generously: /bin/rm is rm, 'r'm is rm, and a word that is known only at run
 * time may be the one that the rule names (RULE_MAYBE). A rule that allows is matched against the words as written.
 */

#include "policy/command_analysis.h"

#include <stdbool.h>
#include <stddef.h>

struct err;
struct jw;

enum rule_effect { RULE_NONE, RULE_ALLOW, RULE_ASK, RULE_DENY }; /* from weak to strict */
enum rule_layer { RULE_OF_HOST, RULE_OF_USER, RULE_OF_WORKSPACE, RULE_OF_SESSION, RULE_LAYERS };
enum rule_kind { RULE_BASH, RULE_READ, RULE_EDIT, RULE_FETCH, RULE_TOOL, RULE_PREFIX, RULE_KINDS };
enum rule_match { RULE_NO_MATCH, RULE_MAYBE, RULE_MATCH };
/* Where a path pattern starts. */
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
	char *text;          /* as written in the file */
	const char *file;    /* owned by the set; of a session's rule: the session's id … */
	unsigned line;       /* … and its number in its list, from 1 */
	char *pattern;       /* NULL: everything of its kind */
	size_t literal;      /* number of bytes before the first * */
	char *writes;        /* RULE_BASH: the redirections to files that it names; NULL: none */
	bool tail;           /* ends in " *": also matches without it */
	enum rule_base base; /* paths */
	bool at_root; /* /etc/x: relative to the workspace, and also the absolute path if the rule denies or asks */
	struct rule_word *word; /* RULE_PREFIX */
	size_t nwords;
	char *justification; /* or NULL */
};

/* The directories where path patterns start; any may be NULL. */
struct rule_base_paths {
	const char *cwd, *workspace, *home;
};

/* "Bash(npm test)" → kind and pattern; the caller sets text, file, line, effect and layer. */
int rule_parse(struct policy_rule *r, const char *text, struct err *e);
void rule_done(struct policy_rule *r);

/*
 * RULE_BASH, RULE_PREFIX: whether the rule covers the redirections of a command (`writes` of command_simple; NULL: the
 * command has none).
 */
bool rule_allows_writes(const struct policy_rule *r, const char *writes);
/* The directory where the pattern of a rule about paths starts; NULL: unknown, and the rule cannot match. */
const char *rule_base(const struct policy_rule *r, const struct rule_base_paths *bases);
bool rule_text_matches(const struct policy_rule *r, const char *text); /* RULE_BASH */
/* For each base, whether its rules can match the path at all. Most cannot, and are skipped. */
void rule_path_candidates(const struct command_path *path, const struct rule_base_paths *bases,
			  bool ret_near[RULE_BASES]);
enum rule_match rule_path_matches(const struct policy_rule *r, const struct command_path *path,
				  const struct rule_base_paths *bases);
/*
 * The same for a path whose use is unknown. A folder that a container gets with everything below it may match rules
 * about paths below it, but not those about a name in any folder: that every `docker run -v .:/x` asks helps nobody.
 */
enum rule_match rule_match_named(const struct policy_rule *r, const struct command_path *path,
				 const struct rule_base_paths *bases);
bool rule_host_matches(const struct policy_rule *r, const char *host);
bool rule_tool_matches(const struct policy_rule *r, const char *tool);
/* RULE_PREFIX; a NULL word is unknown and may be any. */
enum rule_match rule_words_match(const struct policy_rule *r, const char *const *argv, size_t argc, const char *name);

const char *rule_layer_name(enum rule_layer l);
/* The kind of rule for a tool that the conventions call by another name: read_file is Read. */
enum rule_kind rule_kind_of_tool(const char *tool);

/*
 * {"file":…,"line":…,"rule":…,"layer":…}; for a rule of a session
 * {"sessionId":…,"list":"deny","number":2,"rule":…,"layer":"session"}
 */
void policy_rule_json(const struct policy_rule *r, struct jw *w);
const char *policy_rule_list(const struct policy_rule *r); /* of a session's rule: deny, ask, allow, prefix */
/* "policy.json, line 3", "session sess_x, deny rule 2" */
void policy_rule_where(const struct policy_rule *r, char *ret, size_t size);
#define RULE_WHERE_MAX 128

#endif
