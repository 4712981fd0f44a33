#ifndef BAILIFF_CLI_VERB_H
#define BAILIFF_CLI_VERB_H

/*
 * The tables of the command line: verbs.def and options.def as data. Dispatch, help, completions and the man page's
 * table all read these.
 */

#include <stddef.h>

struct buf;
struct cli;

enum {
	VERB_STOP = 1, /* the first argument that is not an option ends the options */
	VERB_RUN = 2,  /* usage errors exit with 125 */
};

struct verb {
	const char *key; /* what options.def calls it */
	const char *name;
	unsigned flags;
	const char *usage;
	const char *summary;
	const char *details; /* or NULL */
	int (*run)(struct cli *c);
};
extern const struct verb verbs[];
extern const size_t nverbs;

enum {
#define OPTION(verb, name, letter, longname, arg, help) OPT_##verb##_##name,
#include "supervisor/cli/options.def"
#undef OPTION
	OPT_COUNT
};

struct option_row {
	const char *verb;
	char letter;      /* or 0 */
	const char *name; /* without the dashes */
	const char *arg;  /* NULL: a flag */
	const char *help;
};
extern const struct option_row option_rows[OPT_COUNT];

const struct verb *verb_find(const char *name);
/* The nearest of the names by edit distance, or NULL if none is near. */
const char *verb_nearest(const char *name);
const char *verb_nearest_option(const struct verb *v, const char *name);

void verb_usage(const struct verb *v, struct buf *out); /* "usage: bailiff run …\n" */
void verb_help(const struct verb *v, struct buf *out);  /* usage, summary, details, options */
void verb_overview(struct buf *out);                    /* all verbs */

#endif
