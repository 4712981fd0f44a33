#ifndef BAILIFF_SUPERVISOR_COMMON_OPTIONS_H
#define BAILIFF_SUPERVISOR_COMMON_OPTIONS_H

/* bailiffd's command line, from the table options.def. A flag that was given is "". */

#include <stdint.h>
#include <stdio.h>

struct err;

struct options {
#define OPTION(field, letter, name, value, help) const char *field;
#include "supervisor/common/options.def"
#undef OPTION
};

/* --name VALUE, --name=VALUE, -x. An error names the option. Strings point into argv. */
int options_parse(int argc, char *const *argv, struct options *ret, struct err *e);
void options_help(FILE *out);
/* A decimal number of at most `most`. */
int options_number(const char *name, const char *text, uint64_t most, uint64_t *ret, struct err *e);

#endif
