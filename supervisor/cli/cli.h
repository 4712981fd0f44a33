#ifndef BAILIFF_CLI_CLI_H
#define BAILIFF_CLI_CLI_H

/*
 * The command line `bailiff`: what every verb gets and how it speaks.
 *
 * A verb is one function in one file (cmd_<verb>.c) that returns the exit status. It talks to the daemon with remote.h,
 * shows a process's bytes with output_stream.h, and prints its own errors with cli_error and cli_hint: what went wrong,
 * why, and what to do next.
 */

#include "supervisor/cli/verb.h"

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct remote;
struct remote_answer;

enum {
	EXIT_FAILED = 1, /* the request was refused or failed */
	EXIT_USAGE = 2,
	EXIT_TIME_LIMIT = 124, /* of run and wait */
	EXIT_BAILIFF = 125,
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127,
};

struct cli {
	const struct verb_table *verbs;
	const struct verb *verb; /* the one that runs */
	struct opts opts;
	struct remote *remote; /* after cli_connect */
	char advice[256];      /* the daemon's, of the last cli_call that failed; or "" */
};

/* "bailiff: …" on stderr; control characters of what it quotes are made visible. */
void cli_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The next line: what to do about it. */
void cli_hint(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Prints what = the verb's doing, the error, and the daemon's advice if the last answer had one; returns `status`. */
int cli_fail(struct cli *c, int status, const struct err *e, const char *what_fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* A wrong command line: why, and the usage line. Returns the verb's status for that. */
int cli_usage(struct cli *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Who may start a daemon when none answers. */
enum cli_start { CLI_START_ALWAYS, CLI_START_IF_STORE };
/* Fills c->remote, or prints why not and returns −1. */
int cli_connect(struct cli *c, enum cli_start start);
/* remote_call that keeps the advice. */
int cli_call(struct cli *c, const char *method, const struct buf *params, struct remote_answer *ret, struct err *e);

#define VERB(name, flags, usage, summary, details) int cmd_##name(struct cli *c);
#define VERB_AS(key, name, flags, usage, summary, details) VERB(key, flags, usage, summary, details)
#include "supervisor/cli/verbs.def"
#undef VERB
#undef VERB_AS

#endif
