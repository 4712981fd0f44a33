#ifndef BAILIFF_CLI_CLI_H
#define BAILIFF_CLI_CLI_H

/*
 * The command line `bailiff`: the context of every verb, and the functions for errors.
 *
 * A verb is one function in one file (cmd_<verb>.c) that returns the exit status. It calls the daemon with remote.h,
 * shows a process's output with output_stream.h, and prints errors with cli_error and cli_hint: what failed, why, and
 * what to do next.
 */

#include "supervisor/cli/verb.h"

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct remote;
struct remote_answer;

enum {
	EXIT_FAILED = 1, /* the request was rejected or failed */
	EXIT_USAGE = 2,
	EXIT_TIME_LIMIT = 124, /* of run and wait */
	EXIT_BAILIFF = 125,
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127,
};

struct cli {
	const struct verb_table *verbs;
	const struct verb *verb; /* the current verb */
	struct opts opts;
	struct remote *remote; /* after cli_connect */
	char advice[256];      /* the daemon's, from the last cli_call that failed; or "" */
};

/* Prints "bailiff: …" to stderr; control characters in quoted text are made visible. */
void cli_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Prints the next line: what to do about it. */
void cli_hint(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Prints the operation, the error, and the daemon's advice if the last reply had one; returns `status`. */
int cli_fail(struct cli *c, int status, const struct err *e, const char *what_fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Invalid command line: prints why, and the usage line. Returns the verb's exit status for that. */
int cli_usage(struct cli *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Whether a daemon is started if none answers. */
enum cli_start { CLI_START_ALWAYS, CLI_START_IF_STORE };
/* Fills c->remote, or prints the error and returns −1. */
int cli_connect(struct cli *c, enum cli_start start);
/* Like remote_call, but keeps the advice. */
int cli_call(struct cli *c, const char *method, const struct buf *params, struct remote_answer *ret, struct err *e);

#define VERB(name, flags, usage, summary, details) int cmd_##name(struct cli *c);
#define VERB_AS(key, name, flags, usage, summary, details) VERB(key, flags, usage, summary, details)
#include "supervisor/cli/verbs.def"
#undef VERB
#undef VERB_AS

#endif
