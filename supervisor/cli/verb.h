#ifndef BAILIFF_CLI_VERB_H
#define BAILIFF_CLI_VERB_H

/*
 * The tables of the command line as data: verbs.def and options.def. Dispatch, help, completions and the man page use
 * them. The table of verbs refers to the cmd_… functions and is therefore above them, in cli_main.c; lower modules get
 * it as an argument or from struct cli.
 */

#include "runtime/base/opts.h"

#include <stddef.h>

struct buf;
struct cli;

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
struct verb_table {
	const struct verb *rows;
	size_t n;
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

void verb_usage(const struct verb *v, struct buf *out);          /* "usage: bailiff run …\n" */
void verb_help(const struct verb *v, struct buf *out);           /* usage, summary, details, options */
void verb_overview(const struct verb_table *t, struct buf *out); /* all verbs */

#endif
