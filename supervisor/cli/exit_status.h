#ifndef BAILIFF_CLI_EXIT_STATUS_H
#define BAILIFF_CLI_EXIT_STATUS_H

/*
 * The exit status for how a process ended: its own code; 128+N after signal N; 124 after a time limit; 125 when bailiff
 * failed (or lost the process); 126 denied or not executable; 127 not found.
 */

#include "runtime/base/jscan.h"

#include <stdbool.h>

struct cli;

struct exit_status {
	int status;
	char note[512];                 /* for stderr if the status alone is not clear; or "" */
	const char *option, *parameter; /* what has set the limit that was hit: of `run`, of start_process; or NULL */
};

/* Prints the note, if there is one, with the option. */
void exit_status_print(const struct exit_status *o, const char *name);

/* From process.command_exited: the command has ended, its background processes keep running (keepTree). False: another
 * event. */
bool exit_status_of_command(struct jval event, struct exit_status *ret);
/* From process.completed, failed or terminated. False: another event. */
bool exit_status_of_event(struct jval event, struct exit_status *ret);
/* From the result of wait_process or get_process; false while it runs. */
bool exit_status_of_process(struct jval process, struct exit_status *ret);
/* Prints the autorun report of a process, or of its end, to stderr. Without a process id it cannot be reverted. */
void print_autorun(struct cli *c, struct jval autorun, const char *process_id, bool cow);
/* From the error of a start_process that was rejected or failed. */
void exit_status_of_error(struct jval error, struct exit_status *ret);

#endif
