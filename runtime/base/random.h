#ifndef BAILIFF_BASE_RANDOM_H
#define BAILIFF_BASE_RANDOM_H

#include <stddef.h>

/* From the kernel. Aborts if it has none: nothing may continue with ids or tokens that can be guessed. */
void random_bytes(void *p, size_t n);

#endif
