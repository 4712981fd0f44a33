#ifndef BAILIFF_ENGINE_START_H
#define BAILIFF_ENGINE_START_H

/*
 * A start request from its arrival to the launch: sandbox, policy lookup, hooks, approval; and the steps after the
 * end of a process. No module below this one decides whether a process may run. Modules above start processes with
 * process_start.
 */

struct process;

/* The row PROCESS_FINISHED: frees the process and notifies its owner. */
void start_process_finished(struct process *p);

#endif
