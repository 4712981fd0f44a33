#ifndef BAILIFF_POLICY_HOOK_ANSWER_H
#define BAILIFF_POLICY_HOOK_ANSWER_H

/*
 * What a hook said, by its exit code and what it printed, and what several of them come to:
 *
 *   exit 0   stdout is read: {"continue":…,"decision":…,"hookSpecificOutput":{…}}, or text, which is context where
 *            people's words
 *            and the beginning of a session are concerned and nothing elsewhere
 *   exit 2   no; stderr is the reason
 *   others   the hook failed, and so it did if it prints what begins like an object and is none, or is not what its
 *            point knows
 *
 * Of several, no before defer before ask before yes.
 */

#include "policy/hooks.h"

#include <stdbool.h>
#include <stddef.h>

struct err;
struct policy_decision;

enum hook_verdict {
	HOOK_SAYS_NOTHING,
	HOOK_SAYS_ALLOW,
	HOOK_SAYS_ASK,
	HOOK_SAYS_DEFER,
	HOOK_SAYS_DENY
};                                                  /* the stronger the higher */
const char *hook_verdict_name(enum hook_verdict v); /* continue, allow, ask, defer, deny */

struct hook_answer {
	enum hook_verdict verdict; /* at points that decide nothing, deny means block: what was done should not stand */
	bool failed;
	char *reason;  /* or NULL; of a failure: what is wrong */
	char *context; /* for the model, or NULL */
	char *message; /* for people, or NULL */
	char *input;   /* updatedInput, a JSON object, or NULL */
	char *output;  /* updatedToolOutput, JSON, or NULL */
	bool stop;     /* continue: false */
	bool suppress;
	bool async; /* it goes on and is not waited for */
};

struct hook_output {
	int exit_code; /* −1 = it has none: a signal, a time limit, never ran */
	const char *out, *err;
	size_t nout, nerr;
};
#define HOOK_OUTPUT_MAX (1u << 20)
/* A failure is an answer, too: `failed`, and the reason. */
void hook_answer_read(enum hook_point point, const struct hook_output *o, struct hook_answer *ret);
/* Of a hook that did not come to an answer. */
void hook_answer_fail(struct hook_answer *ret, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The beginning of its output says that nobody shall wait for the rest. */
bool hook_answer_is_async(const char *out, size_t n);
void hook_answer_done(struct hook_answer *a);

/* A hook, as far as decisions tell of it: outlives the policy that it stood in. */
struct hook_ref {
	char *file, *text;
	unsigned line;
	enum hook_point point;
	enum rule_layer layer;
	bool closed; /* its failure refuses */
};
void hook_ref_of(const struct policy_hook *h, struct hook_ref *ret);
void hook_ref_done(struct hook_ref *r);
void hook_ref_json(const struct hook_ref *r, struct jw *w);

struct hook_reply {
	struct hook_ref ref;
	struct hook_answer answer;
};

/* What all of them come to. Borrows from them. */
struct hook_result {
	enum hook_verdict verdict;
	const struct hook_reply *by;       /* whose word that is; NULL = nobody said anything */
	const struct hook_reply *rewriter; /* whose updatedInput counts, or NULL */
	const struct hook_reply *stopper;  /* who said continue: false, or NULL */
};
void hook_result_of(const struct hook_reply *said, size_t n, struct hook_result *ret);
/* "hook ./check.sh (policy.json, line 7): its reason", or how it failed */
void hook_result_reason(const struct hook_result *s, char *ret, size_t cap);

/* The rules' decision, and what hooks say to it. */
void policy_decision_hooks(struct policy_decision *d, int mode, const struct hook_result *s);

#endif
