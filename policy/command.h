#ifndef BAILIFF_POLICY_COMMAND_H
#define BAILIFF_POLICY_COMMAND_H

/* Commands as people and facts see them. */

#include <stddef.h>

struct buf;

#define COMMAND_DISPLAY_MAX 4096 /* bytes of a display; what is longer ends with … */
#define COMMAND_ARGV_MAX 16384   /* bytes of arguments in command_json; what is longer is left out and said to be */

/*
 * Appends the arguments as a shell would take them, quoted where that is needed. Control characters and bytes that are not
 * UTF-8 appear as $'\xNN', so the text is harmless on a terminal and still means the same command.
 */
void command_display(const char *const *argv, size_t argc, struct buf *out);
/* One word, without a limit. */
void command_quote(const char *s, size_t n, struct buf *out);

/*
 * permission.evaluated's `command`: {"display":…,"argv":[…],"argvTruncated"?:true,"subcommands":[],"paths":[],"network":[]}.
 * The last three are what rules look at; they are empty until a rule needs the command taken apart.
 */
void command_json(const char *const *argv, size_t argc, struct buf *out);

#endif
