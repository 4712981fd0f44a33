#ifndef BAILIFF_POLICY_TRANSPARENT_OPTIONS_H
#define BAILIFF_POLICY_TRANSPARENT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether this option of a transparent wrapper leaves it one (transparent_options.def): the letter, or the long option
 * `name` of n bytes, if that is not NULL.
 */
bool transparent_option(const char *program, char letter, const char *name, size_t n);

#endif
