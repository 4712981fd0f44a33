#ifndef BAILIFF_POLICY_COMMAND_TEXT_H
#define BAILIFF_POLICY_COMMAND_TEXT_H

/* Commands as text for people, and as JSON for events. */

#include "policy/command_analysis.h"

#include <stddef.h>

struct buf;

#define COMMAND_DISPLAY_MAX 4096 /* bytes of a display; longer text is shortened in the middle */
#define COMMAND_PARTS_MAX 32     /* of each list in command_json */
#define COMMAND_TEXT_MAX 512     /* bytes of a text in these lists */
#define COMMAND_ARGV_MAX 16384   /* bytes of arguments in command_json; longer ones are left out, with argvTruncated */

/*
 * Appends the arguments in shell syntax, quoted where needed. Control characters and bytes that are not UTF-8 appear as
 * $'\xNN', so the text is harmless on a terminal and still means the same command.
 */
void command_display(const char *const *argv, size_t argc, size_t most, struct buf *out);
/* Quotes one word, without a length limit. */
void command_quote(const char *s, size_t n, struct buf *out);

/*
 * permission.evaluated's `command`: {"display":…,"argv":[…],"argvTruncated"?:true,
 *   "subcommands":[{"text","wrappers"?,"readOnly"?,"harm"?,"impact"?,"unknown"?}],
 *   "paths":[{"path","access":"read"|"write"|"delete","recursive"?,"exact"?:false,"outside"?}],
 *   "network":[{"host"?,"port"?,"intent"}], "environment"?:[{"text":"NAME=value"}], "partsTruncated"?:true,
 *     "readOnly":…, "harm"?, "unknown"?:[…], "syntaxError"?}.
 */
void command_json(const char *const *argv, size_t argc, const struct command_facts *facts, struct buf *out);

const char *command_unknown_name(enum command_unknown bit); /* "commandName" */
const char *command_unknown_text(enum command_unknown bit); /* "the name of the command is known only at run time" */
const char *command_harm_name(enum command_harm h);         /* "destructive" */

#endif
