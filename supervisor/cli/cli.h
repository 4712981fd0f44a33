#ifndef BAILIFF_CLI_CLI_H
#define BAILIFF_CLI_CLI_H

/*
 * The command line `bailiff`: the tables of verbs and options, the context of a verb, requests and errors.
 *
 * verbs.def declares the verbs. A verb is either a function (cmd_<verb>) or a noun whose subverbs are rows (noun.h);
 * both return the exit status. options.def declares the options. Dispatch, help, completions and the man page use the
 * same tables. The table of verbs refers to the cmd_… functions and is therefore above them, in cli_main.c; lower
 * modules get it from struct cli.
 *
 * A verb sends requests with struct request, shows a process's output with output_stream.h, and prints errors with
 * cli_error and cli_hint: what failed, why, and which command to use next. Everything runs in one thread.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/opts.h"
#include "supervisor/client/remote.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct cli;

enum {
	EXIT_FAILED = 1, /* the request was rejected or failed */
	EXIT_USAGE = 2,
	EXIT_TIME_LIMIT = 124, /* of run and wait */
	EXIT_BAILIFF = 125,
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127,
};

/* ---- verbs and options ---- */

enum {
	VERB_STOP = 1, /* the first argument that is not an option ends the options */
	VERB_RUN = 2,  /* usage errors exit with 125 */
};

struct verb {
	const char *key; /* its name in options.def */
	const char *name;
	unsigned flags;
	const char *usage;
	const char *summary;
	const char *details; /* or NULL */
	int (*run)(struct cli *c);
};

/* A subverb of a noun ("bailiff turn complete …"); verbs.def describes the strings, noun.c interprets them. */
struct subverb {
	const char *noun;   /* the verb's key */
	const char *name;   /* "": the verb itself, which has no subverbs */
	size_t least, most; /* the number of arguments after the name */
	unsigned flags;
	const char *method;         /* NULL: `run` does it */
	const char *args, *options; /* the parameters that arguments and options become */
	const char *member;         /* of the result: the value to print, or the list; NULL: the whole record */
	const char *columns;        /* of a list; NULL: not a list */
	int (*run)(struct cli *c);
};
enum {
	SUB_READS = 1,    /* the method changes nothing and takes no idempotency key */
	SUB_STARTS = 2,   /* start a daemon for it even if there is no store */
	SUB_WHOLE = 4,    /* a list: --json prints the whole reply */
	SUB_OFFLINE = 16, /* `run` connects itself */
	SUB_LISTED = 8,   /* prints the element of the list in which the id of the first argument is looked up */
};

/* Verbs that help lists under one title: from `first` up to the next group. */
struct verb_group {
	const char *title;
	size_t first;
};

struct verb_table {
	const struct verb *rows;
	size_t n;
	const struct verb_group *groups;
	size_t ngroups;
	const struct subverb *subverbs;
	size_t nsubverbs;
};

enum {
#define OPTION(verb, name, letter, longname, arg, help) OPT_##verb##_##name,
#include "supervisor/cli/options.def"
#undef OPTION
	OPT_COUNT
};

extern const struct opt_row option_rows[OPT_COUNT]; /* a row's group is its verb's key */
struct opt_table verb_options(const struct verb *v);

const struct verb *verb_find(const struct verb_table *t, const char *name);
/* The most similar name by edit distance; NULL if none is similar. */
const char *verb_nearest(const struct verb_table *t, const char *name);
/* The only verb with this subverb: daemon for "stop"; NULL if there is none, or several. */
const struct verb *verb_of_subverb(const struct verb_table *t, const char *name);

void verb_help(const struct verb *v, struct buf *out);           /* usage, summary, details, options */
void verb_overview(const struct verb_table *t, struct buf *out); /* all verbs */

/* ---- the context of a verb ---- */

struct cli {
	const struct verb_table *verbs;
	const struct verb *verb; /* the current verb */
	struct opts opts;
	struct remote *remote; /* after cli_connect */
	char advice[256];      /* the daemon's, from the last call that failed; or "" */
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

/*
 * With --json: errors and hints are collected, and printed at the end to stderr as one object: error, or notice if the
 * exit status is 0, with message, code, hint and more.
 */
void cli_collect_errors(void);
void cli_print_errors(int status);
/* Prints them now, as a notice: a person has to read it before the verb ends. */
void cli_print_notice(void);

/* The verb was given --json. */
bool cli_as_json(const struct cli *c);
/* What a person can do about an error of this reason; NULL: no advice, or REASON_NONE. */
const char *cli_reason_advice(enum err_reason reason);
/* The verb's only argument is the process; other numbers of arguments are a usage error. 0, or the exit status. */
int cli_one_process(struct cli *c);

/* Whether a daemon is started if none answers. */
enum cli_start { CLI_START_ALWAYS, CLI_START_IF_STORE };
/* Fills c->remote, or prints the error and returns −1. */
int cli_connect(struct cli *c, enum cli_start start);

/* ---- requests ---- */

/*
 * One request: its parameters, then its answer. The caller writes members with `w`, without braces around them, and
 * sends it. It can be sent only once, and must not be moved. The result is valid until the cleanup.
 */
struct request {
	struct buf params;
	struct jw w;
	struct remote_answer answer;
	struct jval result;
	struct err e;
};
#define REQUEST_INIT(name)                    \
	{                                     \
		.w = {.buf = &(name).params } \
	}
#define request_auto __attribute__((cleanup(request_done)))
void request_done(struct request *q);

/* Sends it and waits. −1: q->e, and the daemon's advice in c->advice. */
int request_read(struct cli *c, struct request *q, const char *method);
/* The same for a method that changes something: adds an idempotency key, so that it takes effect once. */
int request_change(struct cli *c, struct request *q, const char *method);

#define VERB(name, flags, usage, summary, details) int cmd_##name(struct cli *c);
#define VERB_AS(key, name, flags, usage, summary, details) int cmd_##key(struct cli *c);
#define SUBVERB(noun, name, least, most, flags, function, options) int function(struct cli *c);
#include "supervisor/cli/verbs.def"

#endif
