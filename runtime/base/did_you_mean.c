/*
 * Suggestions for misspelt words. The threshold grows with the length of the word, so that short words get no far-
 * fetched suggestion.
 */

#include "runtime/base/did_you_mean.h"

#include <string.h>

#define DID_YOU_MEAN_MAX 64 /* longer words are not suggested */

/* Levenshtein distance, ignoring the case of ASCII letters. */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned row[DID_YOU_MEAN_MAX + 1];
	size_t na = strlen(a), nb = strlen(b);
	if (na > DID_YOU_MEAN_MAX || nb > DID_YOU_MEAN_MAX)
		return DID_YOU_MEAN_MAX;
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

/* `distance` is exclusive: a word of n characters may differ in n/3 + 1 places. */
struct did_you_mean did_you_mean_for(const char *word)
{
	return (struct did_you_mean){ .word = word,
				      .distance = 1 + (unsigned)(strnlen(word, DID_YOU_MEAN_MAX) / 3 + 1) };
}

void did_you_mean_try(struct did_you_mean *n, const char *candidate)
{
	unsigned d = edit_distance(n->word, candidate);
	if (d < n->distance) {
		n->distance = d;
		n->best = candidate;
	}
}

void did_you_mean_try_prefix(struct did_you_mean *n, const char *candidate)
{
	size_t len = strlen(n->word);
	if (n->distance > 1 && len >= 3 && strncmp(candidate, n->word, len) == 0) {
		n->best = candidate;
		n->distance = 1;
	}
	did_you_mean_try(n, candidate);
}
