#include "supervisor/spawner/cpu_affinity.h"

#include <string.h>

/* The kernel does not report whether an affinity was set (taskset). One was if a request for all CPUs yields more. */
void cpu_affinity_init(struct cpu_affinity *a)
{
	cpu_set_t given, all;
	*a = (struct cpu_affinity){ .from = -1 };
	if (sched_getaffinity(0, sizeof given, &given) < 0)
		return;
	memset(&a->whole, 0xff, sizeof a->whole);
	if (sched_setaffinity(0, sizeof a->whole, &a->whole) < 0 || sched_getaffinity(0, sizeof all, &all) < 0 ||
	    !CPU_EQUAL(&given, &all)) {
		a->whole = given;
		sched_setaffinity(0, sizeof given, &given);
	}
	a->count = CPU_COUNT(&given);
}

void cpu_affinity_avoid(struct cpu_affinity *a, int cpu)
{
	cpu_set_t others = a->whole;
	if (a->count < 2 || cpu == a->from || cpu < -1 || cpu >= CPU_SETSIZE ||
	    (cpu >= 0 && !CPU_ISSET(cpu, &a->whole)))
		return;
	if (cpu >= 0)
		CPU_CLR(cpu, &others);
	if (sched_setaffinity(0, sizeof others, &others) == 0)
		a->from = cpu;
}

void cpu_affinity_reset(const struct cpu_affinity *a)
{
	if (a->count >= 2) /* a sandbox cloned earlier may avoid a CPU even if we do not now */
		sched_setaffinity(0, sizeof a->whole, &a->whole);
}
