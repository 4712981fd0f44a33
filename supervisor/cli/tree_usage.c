#include "supervisor/cli/tree_usage.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Parents may change while /proc is read: more links than this to the root are a loop. */
#define DEPTH_MAX 4096

static int read_member(const char *pid, struct tree_usage_member *ret)
{
	unsigned long long parent, utime, stime, start, rss;
	long long children_utime, children_stime;
	char path[64], text[1024];
	const char *after;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return -1;
	text[n] = 0;
	after = strrchr(text, ')');
	if (!after || sscanf(after + 1, " %*c %llu %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %lld %lld %*d %*d %*d %*d %llu %*u %llu", &parent,
			     &utime, &stime, &children_utime, &children_stime, &start, &rss) != 7)
		return -1;
	*ret = (struct tree_usage_member){ .pid = strtoull(pid, NULL, 10), .parent = parent, .start_time = start, .rss_pages = rss,
					   .cpu_ticks = utime + stime + (uint64_t)children_utime + (uint64_t)children_stime };
	return 0;
}

static int by_pid(const void *a, const void *b)
{
	uint64_t x = ((const struct tree_usage_member *)a)->pid, y = ((const struct tree_usage_member *)b)->pid;

	return x < y ? -1 : x > y;
}

static struct tree_usage_member *find(const struct tree_usage *u, uint64_t pid)
{
	struct tree_usage_member key = { .pid = pid };

	return u->count ? bsearch(&key, u->members, u->count, sizeof(key), by_pid) : NULL;
}

/* Every member's own figures are added to all of its ancestors. */
static void add_to_ancestors(struct tree_usage *u)
{
	struct tree_usage_member *own = mem_alloc(u->count * sizeof(*own));

	memcpy(own, u->members, u->count * sizeof(*own));
	for (size_t i = 0; i < u->count; i++) {
		struct tree_usage_member *m = find(u, own[i].parent);

		for (unsigned depth = 0; m && depth < DEPTH_MAX; depth++, m = find(u, m->parent)) {
			m->cpu_ticks += own[i].cpu_ticks;
			m->rss_pages += own[i].rss_pages;
		}
	}
	free(own);
}

void tree_usage_read(struct tree_usage *u)
{
	DIR *d = opendir("/proc");
	struct dirent *entry;
	size_t room = 0;

	while (d && (entry = readdir(d))) {
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		if (u->count == room)
			u->members = mem_realloc(u->members, (room = room ? 2 * room : 512) * sizeof(*u->members));
		if (read_member(entry->d_name, &u->members[u->count]) == 0)
			u->count++;
	}
	if (d)
		closedir(d);
	if (!u->count)
		return;
	qsort(u->members, u->count, sizeof(*u->members), by_pid);
	add_to_ancestors(u);
}

void tree_usage_done(struct tree_usage *u)
{
	free(u->members);
	*u = TREE_USAGE_INIT;
}

int tree_usage_get(const struct tree_usage *u, uint64_t pid, uint64_t start_time, uint64_t *ret_cpu_ms, uint64_t *ret_rss_bytes)
{
	const struct tree_usage_member *m = find(u, pid);

	/* Another process may have the number by now. */
	if (!m || (start_time && m->start_time != start_time))
		return -1;
	*ret_cpu_ms = m->cpu_ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
	*ret_rss_bytes = m->rss_pages * (uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}
