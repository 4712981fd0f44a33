#ifndef BAILIFF_CLI_OPTS_H
#define BAILIFF_CLI_OPTS_H

/*
 * A verb's command line taken apart: -x, -xVALUE, -x VALUE, -xyz (flags), --name, --name VALUE, --name=VALUE; "--" ends
 * the options. Options and arguments may be mixed unless the verb has VERB_STOP. Strings point into argv.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;
struct verb;

struct opts {
	struct opt_given {
		int option;        /* OPT_… */
		const char *value; /* NULL for flags */
	} * given;
	size_t ngiven;
	const char **args;
	size_t nargs;
	bool help; /* -h or --help was given */
};

/* ERR_INVALID names the option. */
int opts_parse(const struct verb *v, int argc, char **argv, struct opts *ret, struct err *e);
void opts_done(struct opts *o);

bool opts_has(const struct opts *o, int option);
const char *opts_get(const struct opts *o, int option); /* the last one given, or NULL */

#endif
