#ifndef BAILIFF_CLI_JUNIT_H
#define BAILIFF_CLI_JUNIT_H

/* A report in the JUnit XML format, as CI systems read it: one suite with one case for each step. */

#include <stddef.h>
#include <stdint.h>

struct buf;

struct junit_case {
	const char *name;
	uint64_t duration_ms;
	enum { JUNIT_PASSED, JUNIT_FAILED, JUNIT_SKIPPED } result;
	const char *message;         /* of a failure, or why it was skipped; NULL = none */
	const struct buf *out, *err; /* what it printed; NULL = nothing */
};

void junit_write(const char *suite, const struct junit_case *cases, size_t n, struct buf *out);

#endif
