#ifndef BAILIFF_POLICY_SED_SCRIPT_H
#define BAILIFF_POLICY_SED_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether sed with these arguments (argv[0] is the program) only prints its input, changed: it opens no other file,
 * writes none and runs nothing. False if that is not certain: a script of a file, a command that is not understood.
 */
bool sed_only_prints(const char *const *argv, size_t argc);

#endif
