#ifndef BAILIFF_BASE_NEAREST_H
#define BAILIFF_BASE_NEAREST_H

/* "Did you mean …?": the candidate nearest to a misspelt word. */

#include <stddef.h>

struct nearest {
	const char *word;
	const char *best; /* NULL while nothing is near enough */
	unsigned distance;
};

struct nearest nearest_to(const char *word);
void nearest_try(struct nearest *n, const char *candidate);

#endif
