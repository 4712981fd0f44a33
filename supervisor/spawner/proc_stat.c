#include "supervisor/spawner/proc_stat.h"

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ssize_t proc_read(pid_t pid, const char *file, char *text, size_t cap)
{
	char name[64];
	snprintf(name, sizeof name, "/proc/%d/%.32s", pid, file);
	fd_auto int fd = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, cap - 1);
	if (n <= 0)
		return -1;
	text[n] = 0;
	return n;
}

/* A field of stat after the name, by its number in proc_pid_stat(5). */
static uint64_t stat_field(pid_t pid, int wanted)
{
	char text[1024];
	if (pid <= 0 || proc_read(pid, "stat", text, sizeof text) < 0)
		return 0;
	const char *p = strrchr(text, ')');
	for (int field = 2; p && field < wanted; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

uint64_t proc_start_time(pid_t pid) { return stat_field(pid, 22); }

/* If no tick began since then, the process started in the current one. */
uint64_t proc_start_time_since(pid_t pid, uint64_t since_ns)
{
	const uint64_t tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK), tick = clock_boot_ns() / tick_ns;
	return since_ns && since_ns / tick_ns == tick ? tick : proc_start_time(pid);
}

pid_t proc_parent(pid_t pid) { return (pid_t)stat_field(pid, 4); }
