#ifndef BAILIFF_CLIENT_BESIDE_H
#define BAILIFF_CLIENT_BESIDE_H

#include <stddef.h>

/*
 * Another program of ours: the first of `places` (relative to the folder of this program: a build, then an
 * installation) that can be executed, else the bare name of the first, for a search in PATH.
 */
char *beside_path(const char *const *places, size_t n);

#endif
