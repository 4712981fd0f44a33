#ifndef BAILIFF_SANDBOX_CAPABILITY_H
#define BAILIFF_SANDBOX_CAPABILITY_H

#include <stdbool.h>

/* Whether this process has the capability (CAP_…) now. Being root says little about it: a container takes most of them
 * away. */
bool capability_has(int capability);

#endif
