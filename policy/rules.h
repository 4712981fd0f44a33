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
 * Deny over ask over allow, whatever the order, the layer or how special a rule is. Every simple command of a line counts: one
 * that is refused refuses the line, and only if each is allowed is the line. A workspace's file may only tighten: what it
 * allows is not taken, and said in a note.
 *
 * Rules are found by the words they begin with, so that ten thousand of them cost what a few do.
 */

#include "policy/rule.h"
#include "runtime/base/strmap.h"

#include <stdint.h>

struct buf;
struct jw;

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

#define RULES_MAX 50000u

struct policy_rules {
	struct policy_rule *rule;
	size_t count, cap;
	struct strmap begins;         /* the first words → struct rule_bucket */
	size_t *anywhere;             /* Bash rules that begin with a wildcard */
	size_t nanywhere;
	size_t *sorted;               /* Bash rules that ask or deny, by pattern */
	size_t nsorted;
	size_t *other[RULE_KINDS];    /* of the kinds that are not found by words */
	size_t nother[RULE_KINDS];
	char *file[RULE_LAYERS];
	int mode;                     /* the most important file's defaultMode; −1 = none says */
	enum rule_layer mode_layer;
	bool bypass;                  /* the host's file says allowBypass */
	char **note;
	size_t nnotes;
};

/* `s` must be RULES_INIT at first. The more important layer first; on failure nothing of the file is taken. */
#define RULES_INIT ((struct policy_rules){ .mode = -1 })
int policy_rules_parse(struct policy_rules *s, enum rule_layer layer, const char *file, const char *text, size_t len, struct err *e);
void policy_rules_done(struct policy_rules *s);

/* ---- asking ---- */

struct rules_query {
	const struct command_facts *facts;   /* of a command; NULL for a tool */
	const char *tool;                    /* or a tool's name … */
	const struct command_path *path;     /* … and the paths it was given */
	size_t npaths;
	struct rule_place place;
};

#define RULES_HITS_MAX 8
struct rules_verdict {
	enum rule_effect effect;             /* RULE_NONE: they say nothing */
	const struct policy_rule *hit[RULES_HITS_MAX]; /* that say so */
	size_t nhits;
	bool maybe;                          /* whether a rule applies is only known when it runs, so it asks */
	bool unseen;                         /* what runs is not known, and there are rules that would refuse or ask */
	int command;                         /* the one it is about, or −1 */
};
void policy_rules_ask(const struct policy_rules *s, const struct rules_query *q, struct rules_verdict *ret);

/* {"file":…,"line":…,"rule":…,"layer":…} */
void policy_rule_json(const struct policy_rule *r, struct jw *w);

#endif
