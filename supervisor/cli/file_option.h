#ifndef BAILIFF_CLI_FILE_OPTION_H
#define BAILIFF_CLI_FILE_OPTION_H

/* Options that name files of which the daemon stores the absolute path: keys, certificates. */

#include <stdbool.h>

struct jw;

/*
 * Writes the absolute path as this parameter; NULL = not given. `secret`: it must be a regular file that only its owner
 * can access. 0, or the exit status.
 */
int file_option_write(const char *given, const char *option, bool secret, const char *parameter, struct jw *w);

#endif
