#ifndef BAILIFF_BASE_DID_YOU_MEAN_H
#define BAILIFF_BASE_DID_YOU_MEAN_H

/*
 * "Did you mean …?": the candidate with the smallest edit distance to a misspelt word.
 *
 *     struct did_you_mean near = did_you_mean_for(word);
 *     for (each candidate) did_you_mean_try(&near, candidate);
 *     if (near.best) …
 *
 * Strings are borrowed.
 */

#include <stddef.h>

struct did_you_mean {
	const char *word;
	const char *best; /* NULL while no candidate is close enough */
	unsigned distance;
};

struct did_you_mean did_you_mean_for(const char *word);
void did_you_mean_try(struct did_you_mean *n, const char *candidate);
/* The same, but a candidate that begins with the word (3 characters or more) counts as near. */
void did_you_mean_try_prefix(struct did_you_mean *n, const char *candidate);

#endif
