#ifndef BAILIFF_POLICY_RULES_H
#define BAILIFF_POLICY_RULES_H

/*
 * The rules of the policy files:
 *
 *   "permissions": { "deny": ["Read(~/.ssh)"], "ask": ["Bash(git push *)"], "allow": ["Bash(npm run test:*)"],
 *                    "defaultMode": "default" }
 *   "prefixRules": [{ "pattern": ["git", ["push", "fetch"]], "decision": "prompt", "justification": "…",
 *                     "match": ["git push origin"], "notMatch": [["git", "status"]] }]
 *
 * Deny beats ask, and ask beats allow, regardless of order, layer or how specific a rule is. Every simple command of a
 * line is matched: one denied command denies the line, and the line is allowed only if each command is. A workspace's
 * file may only tighten: its allow rules are ignored, with a note. The rules of a session are a separate set, which is
 * evaluated together with the files' rules.
 *
 * Rules are indexed by their first words, so ten thousand rules cost about as much as a few.
 */

#include "policy/rule.h"
#include "runtime/base/strmap.h"

#include <stdint.h>

struct buf;
struct json_t;
struct jw;
struct policy_hooks;

enum permission_mode {
#define MODE(NAME, name, alias, text) MODE_##NAME,
#include "policy/modes.def"
#undef MODE
	MODE_COUNT
};
/* −1: unknown. Accepts the names of the conventions as well. */
int permission_mode_find(const char *name);
const char *permission_mode_name(enum permission_mode m);
const char *permission_mode_text(enum permission_mode m);
void permission_mode_names(struct buf *out); /* "default, untrusted, …" */
/* A mode at least as strict as both; `from` if there is no such mode. */
enum permission_mode permission_mode_join(enum permission_mode from, enum permission_mode with);

#define RULES_MAX 50000u

struct policy_rules {
	struct policy_rule *rule;
	size_t count, cap;
	struct strmap begins; /* the first words → struct rule_bucket */
	size_t *anywhere;     /* Bash rules that begin with a wildcard */
	size_t nanywhere;
	size_t *sorted; /* Bash rules that ask or deny, by pattern */
	size_t nsorted;
	size_t *other[RULE_KINDS]; /* by kind, for the kinds that are not indexed by words */
	size_t nother[RULE_KINDS];
	char *file[RULE_LAYERS]; /* the first file of each layer; NULL = none */
	char **files;            /* names of all files; rules point to them */
	size_t nfiles;
	int mode; /* defaultMode of the most important file that has one; −1 = none */
	enum rule_layer mode_layer;
	int workspace_mode;               /* of a workspace's file, used only if it is stricter; −1 = none */
	bool bypass;                      /* the host's file sets allowBypass */
	bool allows;                      /* there is a rule that allows */
	bool sessions_tighten;            /* a file sets "sessionAllow": false: allow rules of sessions are ignored */
	bool strict;                      /* a file sets "strict": true: code that the analysis cannot see asks */
	const struct policy_hooks *hooks; /* hooks of the same files (hooks.h), or NULL; borrowed */
	char **note;
	size_t nnotes;
};

/*
 * `s` must be RULES_INIT at first. Call it with the more important layer first; on failure nothing of the file is
 * added.
 */
#define RULES_INIT ((struct policy_rules){ .mode = -1, .workspace_mode = -1 })
int policy_rules_parse(struct policy_rules *s, enum rule_layer layer, const char *file, const char *text, size_t len,
		       struct err *e);
void policy_rules_done(struct policy_rules *s);

/*
 * The rules given to a session: {"deny"?:[…],"ask"?:[…],"allow"?:[…],"prefixRules"?:[…]}. Each rule records its
 * session, its list and its number there. An error names the element (permissions.deny[1]), and nothing is added. `s`
 * must be RULES_INIT.
 */
#define RULES_SESSION_MAX 256u
int policy_rules_session(struct policy_rules *s, const char *session_id, const struct json_t *permissions,
			 struct err *e);

/* ---- matching a request ---- */

struct rules_query {
	const struct command_facts *facts; /* of a command; NULL for a tool */
	const char *tool;                  /* or a tool's name … */
	const struct command_path *path;   /* … and the paths in its arguments */
	size_t npaths;
	const char *host; /* … and the host, or NULL */
	struct rule_base_paths bases;
	const struct policy_rules *session; /* the rules of its session, in addition to the files'; or NULL */
};

#define RULES_HITS_MAX 8
struct rules_verdict {
	enum rule_effect effect;                       /* RULE_NONE: no rule applies */
	const struct policy_rule *hit[RULES_HITS_MAX]; /* the rules with that effect */
	size_t nhits;
	bool maybe;   /* whether a rule applies is known only at run time, so it asks */
	bool handed;  /* … because it is unknown what the program does with the words that the rule matches */
	bool unknown; /* what runs is unknown, and there are rules that deny or ask */
	bool strict;  /* … or the policy is strict, and `command` runs code that is not in its words */
	int command;  /* index of the command concerned, or −1 */
};
/* `s` may be NULL. */
void policy_rules_ask(const struct policy_rules *s, const struct rules_query *q, struct rules_verdict *ret);

/* Whether a rule names files: Read(P), Edit(P) or Write(P). `s` may be NULL. */
bool policy_rules_name_files(const struct policy_rules *s);

/* Whether a rule allows this simple command, taken alone. */
bool policy_rules_allow(const struct policy_rules *s, const struct command_simple *c);

#endif
