#include "runtime/base/nearest.h"

#include <string.h>

#define NEAREST_MAX 64 /* longer words are no misspellings */

/* Levenshtein's distance, letter case free. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[NEAREST_MAX + 1];
	size_t na = strlen(a), nb = strlen(b);
	if (na > NEAREST_MAX || nb > NEAREST_MAX)
		return NEAREST_MAX;
	for (size_t j = 0; j <= nb; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		unsigned diagonal = row[0];
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= nb; j++) {
			unsigned cost = (a[i - 1] | 0x20) == (b[j - 1] | 0x20) ? 0 : 1;
			unsigned best = diagonal + cost;
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diagonal = row[j];
			row[j] = best;
		}
	}
	return row[nb];
}

struct nearest nearest_to(const char *word)
{
	return (struct nearest){ .word = word, .distance = 1 + (unsigned)(strnlen(word, NEAREST_MAX) / 3 + 1) };
}

void nearest_try(struct nearest *n, const char *candidate)
{
	unsigned d = distance(n->word, candidate);
	if (d < n->distance) {
		n->distance = d;
		n->best = candidate;
	}
}
