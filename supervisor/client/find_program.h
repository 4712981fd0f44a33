#ifndef BAILIFF_CLIENT_FIND_PROGRAM_H
#define BAILIFF_CLIENT_FIND_PROGRAM_H

#include <stddef.h>

/*
 * Finds another program of bailiff: the first executable of `places` (relative to the directory of this program: a
 * build, then an installation), else the bare name of the first, for a search in PATH. The caller frees it.
 */
char *find_program(const char *const *places, size_t n);

#endif
