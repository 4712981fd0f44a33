#ifndef BAILIFF_FLEET_CLIENT_SUBMIT_H
#define BAILIFF_FLEET_CLIENT_SUBMIT_H

#include "supervisor/fleet/client/connection.h"

/* Whether the options make a valid task, before anything is sent. 0, or the exit status after an error. */
int submit_check(struct cli *c);

/*
 * Submits the task of the options. `id` is --id or a new one. A task with this id and the same content is the same
 * task: it is queued if it was not. 0, or the exit status after an error.
 */
int submit_task(struct connection *x, char ret_id[FLEET_ID_MAX + 1]);

/* Puts a queued task's message into the queue; one that is there stays the only one. */
int submit_enqueue(struct connection *x, const struct fleet_task *t, struct err *e);

#endif
