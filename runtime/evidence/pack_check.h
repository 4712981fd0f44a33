#ifndef BAILIFF_EVIDENCE_PACK_CHECK_H
#define BAILIFF_EVIDENCE_PACK_CHECK_H

/*
 * Checks a pack: its events are projected again into fresh read models, which must equal the pack's byte for byte; and
 * its seal must match the rest of the file. Needs neither a store nor a daemon. The text is untrusted.
 */

#include "runtime/base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define PACK_PROBLEMS_MAX 16u
#define PACK_BYTES_MAX (1ull << 30)

struct pack_verdict {
	bool ok;
	char kind[40];
	char sha256[HASH_SHA256_TEXT];
	uint64_t events, models, first, last;
	size_t nproblems; /* all of them, also those past the array */
	char problem[PACK_PROBLEMS_MAX][240];
};

/* −1: not a pack that can be checked (ERR_INVALID says why). */
int pack_check(const char *text, size_t len, struct pack_verdict *ret, struct err *e);

#endif
