#ifndef BAILIFF_CLIENT_FIND_PROGRAM_H
#define BAILIFF_CLIENT_FIND_PROGRAM_H

#include <stddef.h>

/*
 * Another program of ours: the first of `places` (relative to the folder of this program: a build, then an
 * installation) that can be executed, else the bare name of the first, for a search in PATH.
 */
char *find_program(const char *const *places, size_t n);

#endif
