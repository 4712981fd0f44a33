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
 * Deny over ask over allow, whatever the order, the layer or how special a rule is. Every simple command of a line
 * counts: one that is refused refuses the line, and only if each is allowed is the line. A workspace's file may only
 * tighten: what it allows is not taken, and said in a note. A session's rules are a set of their own, which is asked
 * together with the files'.
 *
 * Rules are found by the words they begin with, so that ten thousand of them cost what a few do.
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
/* −1: there is none. The conventions' names are known, too. */
int permission_mode_find(const char *name);
const char *permission_mode_name(enum permission_mode m);
const char *permission_mode_text(enum permission_mode m);
void permission_mode_names(struct buf *out); /* "default, untrusted, …" */
/* What is at least as strict as both; `from` where no mode is. */
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
	size_t *other[RULE_KINDS]; /* of the kinds that are not found by words */
	size_t nother[RULE_KINDS];
	char *file[RULE_LAYERS]; /* the first of each layer; NULL = there is none */
	char **files;            /* all, which rules point to */
	size_t nfiles;
	int mode; /* the most important file's defaultMode; −1 = none says */
	enum rule_layer mode_layer;
	int workspace_mode;    /* a workspace's, which only counts where it is stricter; −1 = none says */
	bool bypass;           /* the host's file says allowBypass */
	bool allows;           /* there is a rule that allows */
	bool sessions_tighten; /* a file says "sessionAllow": false: what sessions' rules allow does not count */
	bool strict;           /* a file says "strict": true: code that policy cannot see asks */
	const struct policy_hooks *hooks; /* of the same files (hooks.h), or NULL; its owner's */
	char **note;
	size_t nnotes;
};

/* `s` must be RULES_INIT at first. The more important layer first; on failure nothing of the file is taken. */
#define RULES_INIT ((struct policy_rules){ .mode = -1, .workspace_mode = -1 })
int policy_rules_parse(struct policy_rules *s, enum rule_layer layer, const char *file, const char *text, size_t len,
		       struct err *e);
void policy_rules_done(struct policy_rules *s);

/*
 * The rules that a session was given: {"deny"?:[…],"ask"?:[…],"allow"?:[…],"prefixRules"?:[…]}. Each knows its session,
 * its list and its number there. A fault is an error about permissions.deny[1] and the like, and nothing is taken. `s`
 * must be RULES_INIT.
 */
#define RULES_SESSION_MAX 256u
int policy_rules_session(struct policy_rules *s, const char *session_id, const struct json_t *permissions,
			 struct err *e);

/* ---- asking ---- */

struct rules_query {
	const struct command_facts *facts; /* of a command; NULL for a tool */
	const char *tool;                  /* or a tool's name … */
	const struct command_path *path;   /* … and the paths it was given */
	size_t npaths;
	const char *host; /* … and the host, or NULL */
	struct rule_base_paths bases;
	const struct policy_rules *session; /* the rules of its session, besides the files'; or NULL */
};

#define RULES_HITS_MAX 8
struct rules_verdict {
	enum rule_effect effect;                       /* RULE_NONE: they say nothing */
	const struct policy_rule *hit[RULES_HITS_MAX]; /* that say so */
	size_t nhits;
	bool maybe;  /* whether a rule applies is only known when it runs, so it asks */
	bool handed; /* … because what the program does with the words that the rule is about is not known */
	bool unseen; /* what runs is not known, and there are rules that would refuse or ask */
	bool strict; /* … or the policy is strict, and `command` runs code that is not in the words */
	int command; /* the one it is about, or −1 */
};
/* `s` may be NULL. */
void policy_rules_ask(const struct policy_rules *s, const struct rules_query *q, struct rules_verdict *ret);

/* Whether a rule allows this simple command, by itself. */
bool policy_rules_allow(const struct policy_rules *s, const struct command_simple *c);

/* {"file":…,"line":…,"rule":…,"layer":…}, of a session's rules
 * {"sessionId":…,"list":"deny","number":2,"rule":…,"layer":"session"} */
void policy_rule_json(const struct policy_rule *r, struct jw *w);
const char *policy_rule_list(const struct policy_rule *r); /* of a session's: deny, ask, allow, prefix */
/* "policy.json, line 3", "session sess_x, deny rule 2" */
void policy_rule_where(const struct policy_rule *r, char *ret, size_t size);
#define RULE_WHERE_MAX 128

#endif
