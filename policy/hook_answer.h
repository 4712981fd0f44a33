#ifndef BAILIFF_POLICY_HOOK_ANSWER_H
#define BAILIFF_POLICY_HOOK_ANSWER_H

/*
 * Parses the answer of a hook from its exit code and output, and combines the answers of several hooks:
 *
 *   exit 0   stdout is read: {"continue":…,"decision":…,"hookSpecificOutput":{…}}, or text. Text is context for the
 *            model at user_prompt_submit and session_start, and is ignored at other points
 *   exit 2   deny; stderr is the reason
 *   others   the hook failed. It also failed if its output begins with { and is not valid JSON, or has members that are
 *            invalid at its point
 *
 * Of several answers the strictest is used: deny, defer, ask, allow.
 */

#include "policy/hooks.h"

#include <stdbool.h>
#include <stddef.h>

struct err;
struct policy_decision;

enum hook_verdict {
	HOOK_VERDICT_NONE,
	HOOK_VERDICT_ALLOW,
	HOOK_VERDICT_ASK,
	HOOK_VERDICT_DEFER,
	HOOK_VERDICT_DENY
};                                                  /* from weak to strong */
const char *hook_verdict_name(enum hook_verdict v); /* continue, allow, ask, defer, deny */

struct hook_answer {
	enum hook_verdict verdict; /* at points that decide nothing, deny means block: the result of the step should not
				      be used */
	bool failed;
	char *reason;  /* or NULL; of a failure: the cause */
	char *context; /* text for the model, or NULL */
	char *message; /* text for people, or NULL */
	char *input;   /* updatedInput, a JSON object, or NULL */
	char *output;  /* updatedToolOutput, JSON, or NULL */
	bool stop;     /* continue: false */
	bool suppress;
	bool async; /* it keeps running and is not waited for */
};

struct hook_output {
	int exit_code; /* −1 = none: killed by a signal, timed out, or never ran */
	const char *out, *err;
	size_t nout, nerr;
};
#define HOOK_OUTPUT_MAX (1u << 20)
/* A failure is also an answer: `failed` is set, with the reason. */
void hook_answer_read(enum hook_point point, const struct hook_output *o, struct hook_answer *ret);
/* Sets the answer of a hook that failed before it could answer. */
void hook_answer_fail(struct hook_answer *ret, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Whether the first line of the output says that the hook continues asynchronously. */
bool hook_answer_is_async(const char *out, size_t n);
void hook_answer_done(struct hook_answer *a);

/* The data of a hook that decisions refer to. A copy: it outlives the policy that the hook came from. */
struct hook_ref {
	char *file, *text;
	unsigned line;
	enum hook_point point;
	enum rule_layer layer;
	bool closed; /* its failure denies */
};
void hook_ref_of(const struct policy_hook *h, struct hook_ref *ret);
void hook_ref_copy(const struct hook_ref *r, struct hook_ref *ret);
void hook_ref_done(struct hook_ref *r);
/* {"file":…,"line":…,"rule":"PreToolUse(Bash) ./check.sh","effect":"hook","layer":…}, the form of a rule in ruleRefs */
void hook_ref_json(const struct hook_ref *r, struct jw *w);

struct hook_reply {
	struct hook_ref ref;
	struct hook_answer answer;
};

/* The combined answer. Borrows from the replies. */
struct hook_result {
	enum hook_verdict verdict;
	const struct hook_reply *by;       /* the reply that decided; NULL = no hook decided anything */
	const struct hook_reply *rewriter; /* the reply whose updatedInput is used, or NULL */
	const struct hook_reply *stopper;  /* the reply with continue: false, or NULL */
};
void hook_result_of(const struct hook_reply *reply, size_t n, struct hook_result *ret);
/* "hook ./check.sh (policy.json, line 7): its reason", or how it failed */
void hook_result_reason(const struct hook_result *s, char *ret, size_t cap);

/* Applies the answers of hooks to the decision of the rules. */
void policy_decision_hooks(struct policy_decision *d, int mode, const struct hook_result *s);

#endif
