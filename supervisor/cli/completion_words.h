#ifndef BAILIFF_CLI_COMPLETION_WORDS_H
#define BAILIFF_CLI_COMPLETION_WORDS_H

/*
 * The candidates for a word of the command line: the output of `bailiff completion words`, which the shells' completion
 * functions call.
 */

#include <stddef.h>

struct buf;
struct cli;

/* If this is the only candidate, the shell completes files or commands itself. */
#define COMPLETION_WORDS_FILES "@files"
#define COMPLETION_WORDS_COMMANDS "@commands"

/*
 * `words` are those after "bailiff" up to the one being completed, which is the last and may be empty. Writes one
 * candidate per line, each beginning with that last word. Ids come from a running daemon; none is started.
 */
void completion_words_write(struct cli *c, const char *const *words, size_t n, struct buf *out);

#endif
