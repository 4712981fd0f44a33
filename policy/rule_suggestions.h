#ifndef BAILIFF_POLICY_LASTING_H
#define BAILIFF_POLICY_LASTING_H

/*
 * An answer that lasts, as rules: the fewest that let just this pass from now on, or that refuse it. They are exact: no
 * wildcard, no folder. Where no rule can do it (another one that asks or denies is stronger, what runs is not known,
 * more than a sandbox would be opened), the reason is told instead.
 */

#include "policy/rule.h"

#include <stdbool.h>
#include <stddef.h>

struct policy_request;

#define RULE_SUGGESTIONS_MAX 16u

struct rule_suggestions {
	char *rule[RULE_SUGGESTIONS_MAX]; /* "Bash(npm test)" */
	size_t count;
	char why[240]; /* there are none because … */
};

/* For a request that was not allowed. effect: RULE_ALLOW or RULE_DENY. */
void rule_suggestions_make(const struct policy_request *r, enum rule_effect effect, struct rule_suggestions *ret);
void rule_suggestions_done(struct rule_suggestions *l);
#define rule_suggestions_auto __attribute__((cleanup(rule_suggestions_done)))

#endif
