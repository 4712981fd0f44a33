#ifndef BAILIFF_CLI_COMPLETION_WORDS_H
#define BAILIFF_CLI_COMPLETION_WORDS_H

/*
 * What may stand at a point of the command line: the answer that the shells' completion functions ask `bailiff
 * completion words` for.
 */

#include <stddef.h>

struct buf;
struct cli;

/* One of these alone means that the shell should complete by itself. */
#define COMPLETION_WORDS_FILES "@files"
#define COMPLETION_WORDS_COMMANDS "@commands"

/*
 * `words` are those after "bailiff" up to the one that is being completed, which is the last and may be empty. Writes
 * one candidate a line, each beginning with that last word. Ids come from a daemon that runs already; without one there
 * are none.
 */
void completion_words_write(struct cli *c, const char *const *words, size_t n, struct buf *out);

#endif
