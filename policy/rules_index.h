#ifndef BAILIFF_POLICY_RULES_INDEX_H
#define BAILIFF_POLICY_RULES_INDEX_H

/* How rules are found: by the words that they begin with. */

#include <stddef.h>

struct policy_rules;

#define RULES_KEY_WORDS 4u /* as many first words lead to a rule */

struct rule_bucket {
	size_t *rule;
	size_t count;
};

/* After rules were added or taken away. */
void policy_rules_index(struct policy_rules *s);
void policy_rules_unindex(struct policy_rules *s);
/* Where the k-th word of a text ends; 0: it has fewer. */
size_t rules_words_end(const char *text, unsigned k);

#endif
