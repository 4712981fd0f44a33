#include "supervisor/spawner/descendants.h"
#include "supervisor/spawner/init.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Fields 14 to 17 of /proc/PID/stat, in ticks: utime, stime and those of its waited-for children. */
static uint64_t stat_ticks(const char *text)
{
	const char *p = strrchr(text, ')'); /* the name before it can contain any character */
	for (int field = 2; p && field < 14; field++) {
		p = strchr(p + 1, ' ');
	}
	uint64_t sum = 0;
	for (int i = 0; p && i < 4; i++) {
		char *end;
		sum += strtoull(p, &end, 10);
		p = end;
	}
	return sum;
}

uint64_t cputime_cgroup_us(int stat_fd)
{
	static const char name[] = "usage_usec ";
	char text[512];
	ssize_t n = pread(stat_fd, text, sizeof text - 1, 0);
	text[n > 0 ? n : 0] = 0;
	const char *p = strstr(text, name);
	return p ? strtoull(p + sizeof name - 1, NULL, 10) : 0;
}

static void add_ticks(void *ctx, int process_fd, const char *stat)
{
	uint64_t *ticks = ctx;
	*ticks += stat_ticks(stat);
}

uint64_t cputime_tree_us(pid_t root)
{
	uint64_t ticks = 0;
	if (!descendants_each(root, NULL, 0, add_ticks, &ticks))
		return UINT64_MAX / 2; /* not known: as if the limit were reached */
	return ticks * (1000000 / (uint64_t)sysconf(_SC_CLK_TCK));
}
