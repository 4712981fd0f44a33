#ifndef BAILIFF_ENGINE_START_H
#define BAILIFF_ENGINE_START_H

/*
 * A start request from its arrival to the launch: sandbox, policy lookup, hooks, approval; and the steps after the
 * end of a process. No module below this one decides whether a process may run. Modules above start processes with
 * process_start.
 *
 * The one public function of the module is engine_start_process (engine.h), which process_start calls through the table
 * of modules. It replies exactly once: with the running process, the open question, or the reason why it does not
 * start.
 */

struct process;

/* The row PROCESS_FINISHED: frees the process and notifies its owner. */
void start_process_finished(struct process *p);

#endif
