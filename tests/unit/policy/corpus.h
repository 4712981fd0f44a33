#ifndef BAILIFF_TESTS_POLICY_CORPUS_H
#define BAILIFF_TESTS_POLICY_CORPUS_H

/* The command lines of tests/unit/policy/corpus, and a way to run other programs on them for comparison. */

#include "runtime/base/buf.h"

#include <stddef.h>

struct corpus_case {
	const char *file;
	unsigned number; /* of the line where it begins */
	struct buf line, expected;
};

extern const char *const corpus_names[]; /* NULL at the end */

typedef void corpus_fn(void *ctx, const struct corpus_case *c);
/* Calls fn for each case; returns how many there are. */
unsigned corpus_each(const char *name, corpus_fn *fn, void *ctx);

/* Runs a program without input and appends what it writes to descriptor `fd` to `out`. Returns its wait status, or −1
 * if it cannot run. */
int oracle_run(const char *const *argv, int fd, struct buf *out);

#endif
