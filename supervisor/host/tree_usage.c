#include "supervisor/host/tree_usage.h"

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/common/earlier_use.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP_US (200u * 1000) /* pages of one listing use the same pass */
#define DEPTH_MAX 4096        /* parents may change while /proc is read: a longer chain to the root is a loop */

struct tree_usage_member {
	uint64_t pid, parent, start_time;
	uint64_t cpu_ticks, rss_pages, threads; /* with all descendants */
};

/* The name in parentheses may contain any character, so parse after the last ')'. */
static int read_member(const char *pid, struct tree_usage_member *ret)
{
	unsigned long long parent, utime, stime, threads, start, rss;
	long long children_utime, children_stime;
	char path[300], text[1024];
	const char *after;

	(void)snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return -1;
	text[n] = 0;
	after = strrchr(text, ')');
	if (!after ||
	    sscanf(after + 1,
		   " %*c %llu %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %lld %lld %*d %*d %llu %*d %llu %*u %llu",
		   &parent, &utime, &stime, &children_utime, &children_stime, &threads, &start, &rss) != 8)
		return -1;
	*ret = (struct tree_usage_member){ .pid = strtoull(pid, NULL, 10),
					   .parent = parent,
					   .start_time = start,
					   .threads = threads,
					   .rss_pages = rss,
					   .cpu_ticks = utime + stime + (uint64_t)children_utime +
							(uint64_t)children_stime };
	return 0;
}

static int compare_pid(const void *a, const void *b)
{
	uint64_t x = ((const struct tree_usage_member *)a)->pid, y = ((const struct tree_usage_member *)b)->pid;

	return x < y ? -1 : x > y;
}

static struct tree_usage_member *find_process(const struct tree_usage *u, uint64_t pid)
{
	struct tree_usage_member key = { .pid = pid };

	return u->count ? bsearch(&key, u->members, u->count, sizeof(key), compare_pid) : NULL;
}

/* Adds each member's own usage to all of its ancestors. */
static void add_to_ancestors(struct tree_usage *u)
{
	struct tree_usage_member *own = mem_alloc(u->count * sizeof(*own));

	memcpy(own, u->members, u->count * sizeof(*own));
	for (size_t i = 0; i < u->count; i++) {
		struct tree_usage_member *m = find_process(u, own[i].parent);

		for (unsigned depth = 0; m && depth < DEPTH_MAX; depth++, m = find_process(u, m->parent)) {
			m->cpu_ticks += own[i].cpu_ticks;
			m->rss_pages += own[i].rss_pages;
			m->threads += own[i].threads;
		}
	}
	free(own);
}

/* "36 35 98:0 /root /mount/point opts … - cgroup2 source opts" */
static void find_cgroup_mount(struct tree_usage *u)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[2 * PATH_MAX], root[PATH_MAX], point[PATH_MAX];

	while (f && !u->tree && fgets(line, sizeof(line), f)) {
		if (!strstr(line, " - cgroup2 ") || sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) != 2)
			continue;
		u->tree = mem_strdup(point);
		u->root = mem_strdup(strcmp(root, "/") == 0 ? "" : root);
	}
	if (f)
		fclose(f);
}

/* A file of /proc or of a cgroup; false if it is gone, because its process has ended. */
static bool read_text(const char *path, char *text, size_t cap)
{
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, cap - 1);

	text[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* The directory of the cgroup of this sandbox alone: PROCESS-ATTEMPT, or ahead_… for a prebuilt sandbox. */
static bool find_leaf(const struct tree_usage *u, const char *process_id, uint64_t pid, char ret[PATH_MAX])
{
	char path[64], text[8192];
	const char *own, *name;

	(void)snprintf(path, sizeof(path), "/proc/%llu/cgroup", (unsigned long long)pid);
	if (!u->tree || !read_text(path, text, sizeof(text)) || !(own = strstr(text, "0::/")))
		return false;
	own += 3;
	text[strcspn(own, "\n") + (size_t)(own - text)] = 0;
	name = strrchr(own, '/') + 1;
	if (strncmp(name, "ahead_", 6) != 0 && strncmp(name, process_id, strlen(process_id)) != 0)
		return false;
	if (strncmp(own, u->root, strlen(u->root)) != 0)
		return false;
	return snprintf(ret, PATH_MAX, "%s%s", u->tree, own + strlen(u->root)) < PATH_MAX;
}

void tree_usage_refresh(struct tree_usage *u)
{
	uint64_t now = clock_boot_ns() / 1000;
	struct dirent *entry;
	size_t capacity = 0;

	if (u->members && now - u->read_us < KEEP_US)
		return;
	tree_usage_done(u);
	u->read_us = now;
	find_cgroup_mount(u);
	DIR *d = opendir("/proc");
	while (d && (entry = readdir(d))) {
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		if (u->count == capacity)
			u->members = mem_realloc(u->members,
						 (capacity = capacity ? 2 * capacity : 512) * sizeof(*u->members));
		if (read_member(entry->d_name, &u->members[u->count]) == 0)
			u->count++;
	}
	if (d)
		closedir(d);
	if (!u->count)
		return;
	qsort(u->members, u->count, sizeof(*u->members), compare_pid);
	add_to_ancestors(u);
}

void tree_usage_done(struct tree_usage *u)
{
	free(u->members);
	free(u->tree);
	free(u->root);
	*u = (struct tree_usage){ 0 };
}

/* "8:0 rbytes=12 wbytes=3 …", a line for each disk. */
static uint64_t sum_after(const char *text, const char *word)
{
	uint64_t sum = 0;

	for (const char *p = text; (p = strstr(p, word)); p += strlen(word))
		sum += strtoull(p + strlen(word), NULL, 10);
	return sum;
}

/* Values from the cgroup replace those that were summed up. */
static void read_cgroup(const char *leaf, struct tree_usage_values *ret)
{
	char path[PATH_MAX + 32], text[8192];
	const char *usage;

	(void)snprintf(path, sizeof(path), "%s/cpu.stat", leaf);
	if (read_text(path, text, sizeof(text)) && (usage = strstr(text, "usage_usec "))) {
		ret->cpu_us = strtoull(usage + 11, NULL, 10);
		ret->time_us = clock_boot_ns() / 1000;
	}
	(void)snprintf(path, sizeof(path), "%s/memory.current", leaf);
	if (read_text(path, text, sizeof(text)))
		ret->memory_bytes = strtoull(text, NULL, 10);
	(void)snprintf(path, sizeof(path), "%s/pids.current", leaf);
	if (read_text(path, text, sizeof(text)))
		ret->tasks = strtoull(text, NULL, 10);
	(void)snprintf(path, sizeof(path), "%s/io.stat", leaf);
	ret->io_known = access(path, R_OK) == 0; /* it is empty until something is read or written */
	if (ret->io_known && read_text(path, text, sizeof(text))) {
		ret->read_bytes = sum_after(text, "rbytes=");
		ret->write_bytes = sum_after(text, "wbytes=");
	}
}

static struct earlier_use read_earlier_use(uint64_t pid)
{
	char path[64], title[EARLIER_USE_MAX];

	(void)snprintf(path, sizeof(path), "/proc/%llu/cmdline", (unsigned long long)pid);
	return read_text(path, title, sizeof(title)) ? earlier_use_parse(title, sizeof(title))
						     : (struct earlier_use){ 0 };
}

static void subtract(uint64_t *from, uint64_t n) { *from = *from > n ? *from - n : 0; }

int tree_usage_get(const struct tree_usage *u, const struct tree_usage_process *p, struct tree_usage_values *ret)
{
	const struct tree_usage_member *m = find_process(u, p->pid);
	const struct earlier_use earlier = read_earlier_use(p->pid);
	char leaf[PATH_MAX];

	/* The pid may have been reused. */
	if (!m || (p->start_time && m->start_time != p->start_time))
		return -1;
	*ret = (struct tree_usage_values){
		.time_us = u->read_us,
		.cpu_us = m->cpu_ticks * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK),
		.memory_bytes = m->rss_pages * (uint64_t)sysconf(_SC_PAGESIZE),
		.tasks = m->threads,
	};
	if (!p->shares_cgroup && find_leaf(u, p->process_id, p->pid, leaf))
		read_cgroup(leaf, ret);
	subtract(&ret->cpu_us, earlier.cpu_us);
	subtract(&ret->read_bytes, earlier.read_bytes);
	subtract(&ret->write_bytes, earlier.write_bytes);
	return 0;
}
