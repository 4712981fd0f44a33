#ifndef BAILIFF_ENGINE_START_H
#define BAILIFF_ENGINE_START_H

/*
 * A start request from its beginning to the launch: sandbox, policy lookup, hooks, approval; and what follows the end
 * of a process. Below this module nothing decides whether a process may run; modules above start one with
 * process_start.
 */

struct process;

/* The row PROCESS_FINISHED: frees the process and tells who needs to know. */
void start_process_finished(struct process *p);

#endif
