#ifndef BAILIFF_CLI_APPROVAL_H
#define BAILIFF_CLI_APPROVAL_H

/* Asks the person at the terminal for an approval, in place: `run`, `exec`, `attach`, `watch` and `agent`. */

#include "supervisor/cli/cli.h"

#define APPROVAL_LINE_MAX 4096 /* a line of a terminal has no more */

/*
 * A descriptor of the terminal to ask on; −1: there is none, or this program is in the background of it, or nobody
 * would see the question because stderr goes elsewhere.
 */
int approval_terminal(void);

/*
 * Prints the text and a prompt, and reads a line. Keys that were pressed before do not answer it. −1: Ctrl-C, or the
 * end of input. Signals are not used, so the caller may have blocked them. `gone` (may be NULL) is called from time to
 * time: true = another client has answered, which returns 1.
 */
int approval_read(int terminal, const char *text, const char *prompt, bool (*gone)(void *ctx), void *ctx,
		  char line[APPROVAL_LINE_MAX]);

/*
 * Asks whether the action is approved until there is an answer that the daemon accepts ("e" explains it first). 0:
 * answered here or by another client; 1: cancelled with Ctrl-C; −1: the daemon cannot be reached, which was printed.
 * `prompt` NULL: the action's own.
 */
int approval_ask(struct cli *c, int terminal, const char *action_id, const char *prompt);

#endif
