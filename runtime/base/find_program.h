#ifndef BAILIFF_BASE_FIND_PROGRAM_H
#define BAILIFF_BASE_FIND_PROGRAM_H

/* Finds another program of bailiff, relative to the directory of this one: in a build, then in an installation. */

#include <stddef.h>

/* The first executable of `places`, which the caller frees; NULL = there is none. */
char *find_installed_program(const char *const *places, size_t n);
/* The same; without one the bare name of the first, for a search in PATH. */
char *find_program(const char *const *places, size_t n);

#endif
