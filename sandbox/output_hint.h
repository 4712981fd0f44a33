#ifndef BAILIFF_SANDBOX_OUTPUT_HINT_H
#define BAILIFF_SANDBOX_OUTPUT_HINT_H

/*
 * What a failed command printed about a denied operation: "touch: cannot touch '/etc/x': Read-only file system". Pure:
 * text in, structs out. A hint only has what the text says; the caller checks whether the sandbox would have denied it.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTPUT_HINT_PATHS 4
#define OUTPUT_HINT_PATH_MAX 1024
#define OUTPUT_HINT_LINE 200

struct output_hint {
	const char *kind;      /* "filesystem", "network", "syscall" */
	const char *operation; /* as in sandbox.violation */
	int error;             /* errno; 0 = unknown */
	char paths[OUTPUT_HINT_PATHS]
		  [OUTPUT_HINT_PATH_MAX]; /* that the text names, most likely first; may be relative */
	size_t npaths;
	bool this_host;              /* the address is the loopback device's, or none is named */
	char host[256];              /* "" = none */
	char address[48];            /* "" = none */
	int32_t port;                /* −1 = none */
	char line[OUTPUT_HINT_LINE]; /* the printed line, without escape sequences */
};

typedef void output_hint_fn(void *ctx, const struct output_hint *h);

/* Calls `fn` for each line that reports a denial. */
void output_hints(const char *text, size_t len, output_hint_fn *fn, void *ctx);

#endif
