/*
 * Suggestions for misspelt words. The threshold grows with the length of the word, so that short words get no far-
 * fetched suggestion.
 */

#include "runtime/base/did_you_mean.h"

#include <stdbool.h>
#include <string.h>

#define DID_YOU_MEAN_MAX 64 /* longer words are not suggested */

static bool same_letter(char a, char b) { return (a | 0x20) == (b | 0x20); }

/* Characters that are inserted, removed, replaced or swapped with their neighbour; ASCII case is ignored. */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned rows[3][DID_YOU_MEAN_MAX + 1];
	unsigned *above = rows[0], *row = rows[1],
		 *next = rows[2]; /* of the last two characters of a, and of this one */
	size_t na = strlen(a), nb = strlen(b);
	if (na > DID_YOU_MEAN_MAX || nb > DID_YOU_MEAN_MAX)
		return DID_YOU_MEAN_MAX;
	for (size_t j = 0; j <= nb; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		next[0] = (unsigned)i;
		for (size_t j = 1; j <= nb; j++) {
			unsigned best = row[j - 1] + !same_letter(a[i - 1], b[j - 1]);
			best = row[j] + 1 < best ? row[j] + 1 : best;
			best = next[j - 1] + 1 < best ? next[j - 1] + 1 : best;
			if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]) &&
			    above[j - 2] + 1 < best)
				best = above[j - 2] + 1;
			next[j] = best;
		}
		unsigned *oldest = above;
		above = row;
		row = next;
		next = oldest;
	}
	return row[nb];
}

/* `distance` is exclusive: a word of n characters may differ in n/3 places, and at least in one. */
struct did_you_mean did_you_mean_for(const char *word)
{
	size_t places = strnlen(word, DID_YOU_MEAN_MAX) / 3;

	return (struct did_you_mean){ .word = word, .distance = 1 + (places ? (unsigned)places : 1) };
}

void did_you_mean_try(struct did_you_mean *n, const char *candidate)
{
	size_t a = strlen(n->word), b = strlen(candidate);
	if ((a > b ? a - b : b - a) >= n->distance)
		return; /* so many characters at least are inserted or removed */
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
