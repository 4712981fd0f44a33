#ifndef BAILIFF_POLICY_DECISION_H
#define BAILIFF_POLICY_DECISION_H

/*
 * Decides whether a request may run. A pure function of the request, the mode and the rules: it reads no clock and no
 * files and asks no questions. The request contains everything the decision depends on; the engine acts on the result.
 *
 * In this order: a rule that denies; a rule that asks (mode `never` denies instead, because it never asks a person);
 * rules that allow every part; the mode. Known harm is reported with every decision.
 */

#include "policy/rules.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct command_facts;
struct hook_ref;

enum policy_answer { POLICY_ALLOW, POLICY_DENY, POLICY_ASK, POLICY_UNAVAILABLE, POLICY_SANDBOXED };
/* What the decision is based on. */
enum policy_source {
	POLICY_BY_MODE,
	POLICY_BY_RULE,
	POLICY_BY_HOOK,
	POLICY_BY_PERSON,
	POLICY_BY_CLASSIFIER,
	POLICY_BY_HOST,
	POLICY_BY_SANDBOX
};
/* How long an approval is valid. */
enum policy_scope { POLICY_ONCE, POLICY_SESSION, POLICY_ALWAYS };

struct policy_request {
	uint32_t uid;            /* of the caller */
	const char *const *argv; /* the command as it will be executed */
	size_t argc;
	const char *command_line;           /* the text for the shell, or NULL */
	const char *cwd, *workspace, *home; /* or NULL */
	const char *profile;                /* the sandbox that it will run in */
	bool unconfined;                    /* it runs without a sandbox */
	bool wider;                         /* the request asks for more access than the profile gives */
	int mode;                           /* enum permission_mode */
	const char *justification; /* the caller's text, or NULL: recorded, but it does not affect the decision */
	const struct command_facts *facts;    /* the analysis of the command */
	const char *tool;                     /* a tool of bailiff or of the client, if it is not a command … */
	const struct command_path *tool_path; /* … and the paths in its arguments */
	size_t ntool_paths;
	const char *tool_host;                    /* … the host that it would connect to, or NULL */
	bool foreign;                             /* the client runs it: no sandbox of ours confines it */
	const struct policy_rules *rules;         /* or NULL */
	const struct policy_rules *session_rules; /* in addition to `rules`, or NULL */
};

#define POLICY_REASON_MAX 400
struct policy_decision {
	enum policy_answer answer;
	enum policy_source source;
	enum policy_scope scope;
	char reason[POLICY_REASON_MAX];
	const struct policy_rule *rules[RULES_HITS_MAX]; /* the rules that applied; borrowed from the rule set */
	size_t nrules;
	bool ruled;                  /* a rule asks, or may ask: a hook's `allow` does not override it */
	bool deferred;               /* a hook defers to a person */
	const struct hook_ref *hook; /* the hook that decided, or NULL; borrowed */
	const char *updated_ref;     /* ref of the input as a hook rewrote it, or NULL */
	const char *action_id;       /* of the approval that decided, or NULL */
	const char *expires_at;      /* or NULL */
	bool destructive;            /* known to destroy something … */
	const char *impact;          /* … what; NULL unless there is harm. A static string of the tables */
	const char *advice;          /* how to recover or avoid it */
};

/* What the request asks the rules. */
struct rules_query policy_request_query(const struct policy_request *r);
void policy_decide(const struct policy_request *r, struct policy_decision *ret);
/*
 * permissionDecision: {"decision":…,"decisionSource":…,"decisionReason":…,"ruleRefs":[{file,line,rule
 * …}],"scope":…,"destructive":…,
 * "updatedInputRef"?:…,"approvalActionId"?:…,"expiresAt"?:…,"impact"?:…,"rollbackAdvice"?:…}
 */
void policy_decision_json(const struct policy_decision *d, struct buf *out);
const char *policy_answer_name(enum policy_answer a);

#endif
