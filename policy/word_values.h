#ifndef BAILIFF_POLICY_WORD_VALUES_H
#define BAILIFF_POLICY_WORD_VALUES_H

/* What a word with variables and substitutions may expand to. Private to policy/. */

#include "policy/analysis.h"

struct word_value {
	const char *text;
	bool glob; /* its * ? [ are wildcards */
	bool name; /* its beginning is a number or a name, which begins with neither a dash nor a dot */
};

struct word_values {
	struct word_value *text;
	size_t count;
	bool open; /* it may also be any other text */
	bool lost; /* … which the text may have: the analysis has given up */
	bool dash; /* … that begins with a dash */
};

/* What a word without its first `skip` bytes may expand to; if to several words, any of them. */
struct word_values word_values_of(struct analysis *r, const struct command_word *w, size_t skip);
/* Whether an unknown word may be an option, or expand to one. */
bool word_values_may_be_option(struct analysis *r, const struct command_word *w);
/* Whether the command inside $(…) prints a number and nothing else. */
bool word_values_prints_number(const char *s, size_t n);

#endif
