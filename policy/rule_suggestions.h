#ifndef BAILIFF_POLICY_RULE_SUGGESTIONS_H
#define BAILIFF_POLICY_RULE_SUGGESTIONS_H

/*
 * The rules that would decide a request permanently: the fewest that allow exactly this request, or deny it. They have
 * no wildcards and no directories. Where no rule can do it (a stronger rule asks or denies, the program that runs is
 * unknown, the sandbox would have to be widened), the reason is returned instead.
 */

#include "policy/rule.h"

#include <stdbool.h>
#include <stddef.h>

struct policy_request;

#define RULE_SUGGESTIONS_MAX 16u

struct rule_suggestions {
	char *rule[RULE_SUGGESTIONS_MAX]; /* "Bash(npm test)" */
	size_t count;
	char why[240]; /* why there are none */
};

/* For a request that was not allowed. effect: RULE_ALLOW or RULE_DENY. */
void rule_suggestions_make(const struct policy_request *r, enum rule_effect effect, struct rule_suggestions *ret);
void rule_suggestions_done(struct rule_suggestions *l);
#define rule_suggestions_auto __attribute__((cleanup(rule_suggestions_done)))

#endif
