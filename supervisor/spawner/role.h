#ifndef BAILIFF_SUPERVISOR_SPAWNER_ROLE_H
#define BAILIFF_SUPERVISOR_SPAWNER_ROLE_H

struct options;
struct process_title;

/* Runs the spawner with the guard's command line. Returns the exit status. */
int spawner_role(const struct options *o, struct process_title *t);

#endif
