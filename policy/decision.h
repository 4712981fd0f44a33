#ifndef BAILIFF_POLICY_DECISION_H
#define BAILIFF_POLICY_DECISION_H

/*
 * May this run? A pure function of the request, the mode and the rules: no clock, no files, no questions asked. What
 * it needs to know of the world is in the request; what has to be done about the answer is the engine's.
 *
 * In this order: a rule that denies; a rule that asks (which mode `never` refuses, because nobody is asked there); a
 * rule that allows every part; the mode. What would be destroyed is said whatever the answer is.
 */

#include "policy/rules.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct command_facts;
struct hook_ref;

enum policy_answer { POLICY_ALLOW, POLICY_DENY, POLICY_ASK, POLICY_UNAVAILABLE, POLICY_SANDBOXED };
/* What decided. */
enum policy_source {
	POLICY_BY_MODE,
	POLICY_BY_RULE,
	POLICY_BY_HOOK,
	POLICY_BY_PERSON,
	POLICY_BY_CLASSIFIER,
	POLICY_BY_HOST,
	POLICY_BY_SANDBOX
};
/* How long the answer holds. */
enum policy_scope { POLICY_ONCE, POLICY_SESSION, POLICY_ALWAYS };

struct policy_request {
	uint32_t uid;            /* who asks */
	const char *const *argv; /* what is to run, as it will be executed */
	size_t argc;
	const char *command_line;             /* the shell's text, or NULL */
	const char *cwd, *workspace, *home;   /* or NULL */
	const char *profile;                  /* the sandbox it will run in */
	bool unconfined;                      /* which is none */
	bool wider;                           /* the request opens more than the profile does */
	int mode;                             /* enum permission_mode */
	const char *justification;            /* the caller's words, or NULL: recorded, never believed */
	const struct command_facts *facts;    /* what the command would do */
	const char *tool;                     /* one of bailiff's own or a client's tools, if it is not a command … */
	const struct command_path *tool_path; /* … and what it was given */
	size_t ntool_paths;
	const char *tool_host;                    /* … the host it would reach, or NULL */
	bool foreign;                             /* somebody else does it: no sandbox of ours confines it */
	const struct policy_rules *rules;         /* or NULL */
	const struct policy_rules *session_rules; /* besides them, or NULL */
};

#define POLICY_REASON_MAX 400
struct policy_decision {
	enum policy_answer answer;
	enum policy_source source;
	enum policy_scope scope;
	char reason[POLICY_REASON_MAX];
	const struct policy_rule *rules[RULES_HITS_MAX]; /* that applied; borrowed from the rule set */
	size_t nrules;
	bool ruled;                  /* a rule asks, or may: no hook's yes is stronger */
	bool deferred;               /* a hook leaves it to a person */
	const struct hook_ref *hook; /* that decided, or NULL; borrowed */
	const char *updated_ref;     /* what a hook made of the input, behind this; or NULL */
	const char *action_id;       /* whose answer it is, or NULL */
	const char *expires_at;      /* or NULL */
	bool destructive;            /* known to destroy something … */
	const char *impact;          /* … namely; NULL unless there is harm. A string of the tables */
	const char *advice;          /* how to get it back or avoid it */
};

void policy_decide(const struct policy_request *r, struct policy_decision *ret);
/*
 * permissionDecision: {"decision":…,"decisionSource":…,"decisionReason":…,"ruleRefs":[{file,line,rule
 * …}],"scope":…,"destructive":…,
 * "updatedInputRef"?:…,"approvalActionId"?:…,"expiresAt"?:…,"impact"?:…,"rollbackAdvice"?:…}
 */
void policy_decision_json(const struct policy_decision *d, struct buf *out);
const char *policy_answer_name(enum policy_answer a);

#endif
