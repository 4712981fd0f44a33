#ifndef BAILIFF_SUPERVISOR_SPAWNER_CPU_AFFINITY_H
#define BAILIFF_SUPERVISOR_SPAWNER_CPU_AFFINITY_H

/*
 * Keeps the spawner off the runtime's CPU. While the spawner checks a sandbox and its init gets ready, the runtime
 * works for the same command; but a socket wakeup tends to move the woken task to the waker's CPU, where the two then
 * queue while another CPU is idle. So the spawner and its clones avoid the CPU from which the runtime last sent a
 * message or, after a command, the one from which it reported the end, because the next request arrives there. When
 * starts follow each other closely nothing is avoided: then all CPUs are busy anyway. The command itself runs wherever
 * it could have run without this (cpu_affinity_reset).
 */

#include <sched.h>

struct cpu_affinity {
	cpu_set_t whole; /* where we may run; all CPUs if no affinity was set, since a cgroup's cpuset may change */
	int from;        /* the CPU that is avoided; −1 = none */
	int count;       /* CPUs to choose from; below 2 nothing is done */
};

void cpu_affinity_init(struct cpu_affinity *a);
void cpu_affinity_avoid(struct cpu_affinity *a, int cpu); /* −1 = none */
/* In a process that is about to execute a command. */
void cpu_affinity_reset(const struct cpu_affinity *a);

#endif
