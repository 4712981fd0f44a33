#ifndef BAILIFF_BASE_OPTS_H
#define BAILIFF_BASE_OPTS_H

/*
 * The argument parser of all programs. Accepts -x, -xVALUE, -x VALUE, -xyz (flags), --name, --name VALUE and
 * --name=VALUE; "--" ends the options. Options and arguments may be mixed. Strings point into argv.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;

struct opt_row {
	const char *group; /* rows of several commands may share a table; NULL where there is only one */
	char letter;       /* or 0 */
	const char *name;  /* without the dashes */
	const char *arg;   /* the value's name; NULL: a flag */
	const char *help;
};

struct opt_table {
	const struct opt_row *rows;
	size_t n;
	const char *group; /* only rows with this group are options; NULL: all rows */
	bool stop;         /* the first argument that is not an option ends the options */
};

struct opts {
	struct opt_given {
		int option;        /* index of the row */
		const char *value; /* NULL for flags */
	} * given;
	size_t ngiven;
	const char **args;
	size_t nargs;
	bool help; /* -h or --help was given and is not a row of the table */
};

/* ERR_INVALID names the option and suggests the nearest one. */
int opts_parse(const struct opt_table *t, int argc, char *const *argv, struct opts *ret, struct err *e);
void opts_done(struct opts *o);

bool opts_has(const struct opts *o, int option);
const char *opts_get(const struct opts *o, int option); /* the last one given, or NULL */

/* The nearest long name by edit distance, or NULL. */
const char *opts_nearest(const struct opt_table *t, const char *name);

#endif
