#ifndef BAILIFF_FLEET_CLIENT_TASK_VIEW_H
#define BAILIFF_FLEET_CLIENT_TASK_VIEW_H

/* A task as the command line shows it: docs/json.md, "Fleet task". */

#include "supervisor/fleet/fleet_doc.h"

#include <stdbool.h>

struct jw;

/* `whole`: also what only `show` prints (environment, inputs, earlier attempts). */
void task_view_write(const struct fleet_task *t, bool whole, struct jw *w);
/* A row of the table for people: `what` is its title, prompt or command. */
void task_view_row(const struct fleet_task *t, struct jw *w);
/* The exit status for an ended task, as of `run`; a sentence for stderr if the status alone is not clear, or "". */
int task_view_exit(const struct fleet_task *t, char ret_note[512]);

#endif
