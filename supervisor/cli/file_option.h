#ifndef BAILIFF_CLI_FILE_OPTION_H
#define BAILIFF_CLI_FILE_OPTION_H

/*
 * Paths on the command line. They are made absolute here, with the user's rights and working directory: the daemon may
 * be unable to read them, and must not guess what a relative path meant.
 */

#include <limits.h>
#include <stdbool.h>

struct cli;
struct err;
struct jw;

/*
 * Relative to the working directory, which NULL means; without "." and "..". The file need not exist; if it does and
 * `follow`, links are resolved. An empty path is an error: it often is a variable that is not set.
 */
int file_option_absolute(const char *given, bool follow, char ret[PATH_MAX], struct err *e);
/* Writes the member `cwd`: of this option (OPT_…; −1 = none), by default the working directory. 0, or the exit status.
 */
int file_option_cwd(struct cli *c, int option, struct jw *w);

/*
 * A file of which the daemon stores the path: a key, a certificate. Writes the absolute path as this parameter; NULL =
 * not given. `secret`: it must be a regular file that only its owner can access. 0, or the exit status.
 */
int file_option_write(const char *given, const char *option, bool secret, const char *parameter, struct jw *w);

#endif
