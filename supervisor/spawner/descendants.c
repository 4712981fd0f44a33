#include "supervisor/spawner/descendants.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAT_MAX 1024

struct entry {
	pid_t pid, parent;
	bool below; /* it is one of those that were asked for */
};

struct snapshot {
	struct entry *entry;
	size_t count, size;
};

/* Reads /proc/PID/stat through the directory of the process, so that a new process with the same pid is not meant. */
static bool read_stat(int process_fd, char text[STAT_MAX], pid_t *ret_parent)
{
	fd_auto int fd = openat(process_fd, "stat", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, STAT_MAX - 1);
	if (n == 0)
		errno = ESRCH;
	if (n <= 0)
		return false;
	text[n] = 0;
	const char *p = strrchr(text, ')'); /* the name before it can contain any character; then " S PPID" */
	if (!p || strlen(p) < 4)
		return false;
	*ret_parent = (pid_t)strtol(p + 4, NULL, 10);
	return true;
}

static int open_process(int proc_fd, pid_t pid)
{
	char name[16];
	snprintf(name, sizeof name, "%d", pid);
	return openat(proc_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* False: a process that exists could not be read. */
static bool take_snapshot(DIR *d, struct snapshot *s)
{
	bool complete = true;
	char text[STAT_MAX];
	for (struct dirent *e; (e = readdir(d));) {
		pid_t parent;
		if (e->d_name[0] < '0' || e->d_name[0] > '9')
			continue;
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
		fd_auto int fd = open_process(dirfd(d), pid);
		if (fd < 0 || !read_stat(fd, text, &parent)) {
			complete &= errno == ENOENT || errno == ESRCH;
			continue;
		}
		if (s->count == s->size) {
			s->size = s->size ? 2 * s->size : 64;
			s->entry = mem_realloc(s->entry, s->size * sizeof *s->entry);
		}
		s->entry[s->count++] = (struct entry){ .pid = pid, .parent = parent };
	}
	return complete;
}

static bool is_below(const struct snapshot *s, pid_t pid)
{
	for (size_t i = 0; i < s->count; i++) {
		if (s->entry[i].pid == pid)
			return s->entry[i].below;
	}
	return false;
}

static bool is_listed(const pid_t *list, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i] == pid)
			return true;
	}
	return false;
}

/* Marks the children of `root`, then their children, until nothing changes: pids are in no order. */
static void mark_below(struct snapshot *s, pid_t root, const pid_t *spared, size_t nspared)
{
	for (bool changed = true; changed;) {
		changed = false;
		for (size_t i = 0; i < s->count; i++) {
			struct entry *e = &s->entry[i];
			if (e->below ||
			    (e->parent == root ? is_listed(spared, nspared, e->pid) : !is_below(s, e->parent)))
				continue;
			e->below = changed = true;
		}
	}
}

bool descendants_each(pid_t root, const pid_t *spared, size_t nspared, descendant_fn fn, void *ctx)
{
	char text[STAT_MAX];
	struct snapshot s = { 0 };
	DIR *d = opendir("/proc");
	if (!d)
		return false;
	bool complete = take_snapshot(d, &s);
	mark_below(&s, root, spared, nspared);
	for (size_t i = 0; i < s.count; i++) {
		pid_t parent;
		if (!s.entry[i].below)
			continue;
		fd_auto int fd = open_process(dirfd(d), s.entry[i].pid);
		/* Its parent may have exited since: then it belongs to the root, or to another process below it. */
		if (fd >= 0 && read_stat(fd, text, &parent) && (parent == root || is_below(&s, parent)))
			fn(ctx, fd, text);
	}
	closedir(d);
	free(s.entry);
	return complete;
}

static bool has_exited(const char *stat)
{
	const char *p = strrchr(stat, ')'); /* then " S" */
	return p && strlen(p) > 2 && (p[2] == 'Z' || p[2] == 'X');
}

/* A process whose first thread has exited looks like a zombie while others run. After a SIGKILL there are no new ones.
 */
static bool is_dead(int process_fd, const char *stat)
{
	char text[STAT_MAX];
	pid_t parent;
	fd_auto int tasks = has_exited(stat) ? openat(process_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	DIR *d = tasks < 0 ? NULL : fdopendir(tasks);
	if (!d)
		return has_exited(stat) && (errno == ENOENT || errno == ESRCH);
	tasks = -1;
	bool dead = true;
	for (struct dirent *e; dead && (e = readdir(d));) {
		if (e->d_name[0] < '0' || e->d_name[0] > '9')
			continue;
		fd_auto int fd = open_process(dirfd(d), (pid_t)strtol(e->d_name, NULL, 10));
		dead = fd >= 0 && read_stat(fd, text, &parent) ? has_exited(text) : errno == ENOENT || errno == ESRCH;
	}
	closedir(d);
	return dead;
}

static void kill_process(void *ctx, int process_fd, const char *stat)
{
	bool *any = ctx;
	fd_pidfd_signal(process_fd, SIGKILL); /* accepts the directory of a process in /proc */
	*any |= !is_dead(process_fd, stat);
}

bool descendants_kill(pid_t root, const pid_t *spared, size_t nspared)
{
	bool any = false;
	return !descendants_each(root, spared, nspared, kill_process, &any) || any;
}
