#ifndef BAILIFF_CLI_EXIT_STATUS_H
#define BAILIFF_CLI_EXIT_STATUS_H

/*
 * How a process ended, as an exit status: its own code; 128+N after signal N; 124 after a time limit; 125 when bailiff
 * failed (or lost the process); 126 denied or not executable; 127 not found.
 */

#include "runtime/base/jscan.h"

#include <stdbool.h>

struct exit_status {
	int status;
	char note[512]; /* for stderr when the status alone does not say it; or "" */
};

/* True if the event is one of process.completed, failed and terminated. */
/* Of a command that ended while what it left running goes on (keepTree). */
bool exit_status_of_command(struct jval event, struct exit_status *ret);
bool exit_status_of_event(struct jval event, struct exit_status *ret);
/* From a process as wait_process and get_process tell it; false while it runs. */
bool exit_status_of_process(struct jval process, struct exit_status *ret);
/* What `autorun` of a process or of its end says, to stderr. */
void print_autorun(struct jval autorun, const char *process_id, bool cow);
/* From the error of a start_process that was refused or failed. */
void exit_status_of_error(struct jval error, struct exit_status *ret);

#endif
