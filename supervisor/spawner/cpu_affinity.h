#ifndef BAILIFF_SUPERVISOR_SPAWNER_CPU_AFFINITY_H
#define BAILIFF_SUPERVISOR_SPAWNER_CPU_AFFINITY_H

/*
 * Out of the runtime's way. While the spawner looks at a sandbox and its init gets ready, the runtime has things to do
 * for the same command; but who wakes somebody over a socket pulls him over to its own processor, and there they stand
 * in line while another one is idle. So the spawner, and what it clones, run anywhere but where the runtime was when it
 * last sent a message, or, after a command, where it was when it told the client of the end: from there the next
 * request comes. If one start follows the other, anywhere: then there is enough to do for all. A command runs wherever
 * it could have run without that (cpu_affinity_reset).
 */

#include <sched.h>

struct cpu_affinity {
	cpu_set_t whole; /* where we may run; all, if nobody has said: what a control group permits may change */
	int from;        /* that processor; −1 = none */
	int count;       /* of those to choose from; below 2 nothing is done */
};

void cpu_affinity_init(struct cpu_affinity *a);
void cpu_affinity_avoid(struct cpu_affinity *a, int cpu); /* −1 = from none */
/* In a process that is about to become somebody else's. */
void cpu_affinity_reset(const struct cpu_affinity *a);

#endif
