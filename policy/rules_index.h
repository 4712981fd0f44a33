#ifndef BAILIFF_POLICY_RULES_INDEX_H
#define BAILIFF_POLICY_RULES_INDEX_H

/* The index of the rules, by their first words. */

#include <stddef.h>

struct policy_rules;

#define RULES_KEY_WORDS 4u /* number of first words in a key */

struct rule_bucket {
	size_t *rule;
	size_t count;
};

/* Call after rules were added or removed. */
void policy_rules_index(struct policy_rules *s);
void policy_rules_unindex(struct policy_rules *s);
/* Where the k-th word of a text ends; 0: the text has fewer words. */
size_t rules_words_end(const char *text, unsigned k);

#endif
