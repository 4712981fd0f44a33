#ifndef BAILIFF_POLICY_RULES_INDEX_H
#define BAILIFF_POLICY_RULES_INDEX_H

struct policy_rules;

/* After rules were added or taken away. */
void policy_rules_index(struct policy_rules *s);

#endif
