#ifndef BAILIFF_POLICY_VARIABLES_H
#define BAILIFF_POLICY_VARIABLES_H

/*
 * The variables that a text sets, with the words that it assigns to them (word_values.h expands these). Private to
 * policy/. The positional parameters are one variable: the arguments of every `set --`, of every call of a function and
 * of every shell in the text.
 */

#include "policy/analysis.h"

#define VARIABLES_ARGUMENTS "@"

/* A value: the word without its first `skip` bytes. */
struct variable_value {
	const struct shell_word *word;
	size_t skip;
};

struct variable {
	const char *name;
	struct variable_value *given;
	size_t count;
	bool number; /* arithmetic sets it */
	bool open;   /* it may also have other values */
};

struct variables_words {
	const struct shell_word *word;
	size_t count;
	bool known; /* they could be parsed */
};

void variables_of_script(struct analysis *r, const struct shell_script *s);
/* The variables of the caller. */
void variables_of_environment(struct analysis *r);
/* "NAME=value" as written. */
void variables_set(struct analysis *r, const char *assignment);
/* The operands of a command, except `text`, are the positional parameters of the shell that runs the text. */
void variables_add_arguments(struct analysis *r, const struct command_args *a, const char *text);

/* NULL: the text does not set it. */
struct variable *variables_find(const struct analysis *r, const char *name, size_t n);
/* The length of the name at the beginning of a text; 0: there is none. */
size_t variables_name_length(const char *s, const char *end);

/* The words of a text, behind a `:` as the command's name; NULL: it cannot be parsed. */
const struct shell_command *variables_words_of(struct analysis *r, const char *text, size_t n);
/* The words of a list of `for`, and of an array: a=(…). */
struct variables_words variables_list(struct analysis *r, const char *text, size_t n);
struct variables_words variables_array(struct analysis *r, const struct shell_word *w);
/* Where the value of an element of an array begins: ([a]=x). */
size_t variables_element(const struct shell_word *w);

#endif
