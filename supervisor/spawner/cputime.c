#include "runtime/base/fd.h"
#include "supervisor/spawner/init.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
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

static uint64_t process_ticks(int proc_fd, const char *pid)
{
	char name[32], text[1024];
	snprintf(name, sizeof name, "%.20s/stat", pid);
	fd_auto int fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, sizeof text - 1);
	if (n <= 0)
		return 0;
	text[n] = 0;
	return stat_ticks(text);
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

uint64_t cputime_tree_us(void)
{
	DIR *d = opendir("/proc");
	uint64_t ticks = 0;
	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] >= '0' && e->d_name[0] <= '9' && strcmp(e->d_name, "1") != 0)
			ticks += process_ticks(dirfd(d), e->d_name);
	}
	if (d)
		closedir(d);
	return ticks * (1000000 / (uint64_t)sysconf(_SC_CLK_TCK));
}
