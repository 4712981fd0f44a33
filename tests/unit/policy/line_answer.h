#ifndef BAILIFF_TESTS_LINE_ANSWER_H
#define BAILIFF_TESTS_LINE_ANSWER_H

/* What rules answer to command lines in the project /w/proj of a user with the home /home/u. */

#include <stdbool.h>
#include <stddef.h>

struct policy_rules;

/* Prints an answer that is another one. */
bool line_is_answered(const struct policy_rules *rules, const char *line, const char *answer);
/* How many of the lines have another answer, with one rule that denies. `terminal`: commands have one. */
unsigned lines_answered_otherwise(const char *rule, const char *const *lines, size_t n, const char *answer,
				  bool terminal);

#endif
