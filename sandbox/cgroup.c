#include "sandbox/cgroup.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BUSY_TRIES_MAX 200
#define BUSY_PAUSE_MS 20
#define BUSY_PAUSE_LONG_MS 1000
#define SLOW_SWEEPS 300 /* of the last tries of a sweep, with the long pause */
#define KILL_WAIT_MS 10000

pid_t cgroup_clone(struct clone_args *a) { return (pid_t)syscall(SYS_clone3, a, sizeof *a); }

/* "0::/user.slice/x" → "/user.slice/x" */
static int own_path(char ret[PATH_MAX], struct err *e)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	if (!f)
		return err_sys(e, errno, "open /proc/self/cgroup");
	char line[PATH_MAX];
	int r = -1;
	while (r < 0 && fgets(line, sizeof line, f)) {
		if (strncmp(line, "0::/", 4) != 0)
			continue;
		line[strcspn(line, "\n")] = 0;
		snprintf(ret, PATH_MAX, "%s", line + 3);
		r = 0;
	}
	fclose(f);
	return r < 0 ? err_set(e, ERR_UNAVAILABLE, "the kernel has no cgroup v2 hierarchy") : 0;
}

/* One line of mountinfo: "36 35 98:0 /root /mount/point opts … - fstype source opts". Cuts root and point in place. */
static bool mount_line(char *line, char **ret_root, char **ret_point)
{
	char *type = strstr(line, " - ");
	if (!type || strncmp(type, " - cgroup2 ", 11) != 0)
		return false;
	char *field = line, *save[5];
	for (int i = 0; i < 5; i++) {
		save[i] = field;
		field = strchr(field, ' ');
		if (!field)
			return false;
		*field++ = 0;
	}
	*ret_root = save[3];
	*ret_point = save[4];
	return true;
}

int cgroup_location_find(struct cgroup_location *ret, struct err *e)
{
	char own[PATH_MAX];
	if (own_path(own, e) < 0)
		return -1;
	FILE *f = fopen("/proc/self/mountinfo", "re");
	if (!f)
		return err_sys(e, errno, "open /proc/self/mountinfo");
	char line[2 * PATH_MAX], *root, *point;
	int r = -1;
	while (r < 0 && fgets(line, sizeof line, f)) {
		if (!mount_line(line, &root, &point))
			continue;
		size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);
		if (strncmp(own, root, n) != 0)
			continue;
		const char *below = own + n;
		int len = snprintf(ret->own, PATH_MAX, "%s%s", point, strcmp(below, "/") == 0 ? "" : below);
		r = len < PATH_MAX ? 0 : -1;
		snprintf(ret->top, PATH_MAX, "%s", point);
		ret->whole = n == 0;
	}
	fclose(f);
	return r < 0 ? err_set(e, ERR_UNAVAILABLE, "no cgroup v2 tree is mounted") : 0;
}

int cgroup_own_folder(char ret[PATH_MAX], struct err *e)
{
	struct cgroup_location at;
	if (cgroup_location_find(&at, e) < 0)
		return -1;
	snprintf(ret, PATH_MAX, "%s", at.own);
	return 0;
}

void cgroup_leaf_name(const struct plan_key *key, char ret[CGROUP_LEAF_MAX])
{
	snprintf(ret, CGROUP_LEAF_MAX, "%.*s-%u", PLAN_KEY_MAX - 1, key->id, key->attempt);
}

/*
 * A child cloned into a new leaf must survive until it exits by itself. The leaf of an earlier probe may still be busy,
 * if its spawner was killed: each has a name of its own, and a sweep removes it.
 */
static int probe_clone(int tree_fd, struct err *e)
{
	char name[CGROUP_LEAF_MAX];
	snprintf(name, sizeof name, CGROUP_PREBUILT "probe-%d", getpid());
	if (unlinkat(tree_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_sys(e, errno, "remove an old probe cgroup");
	if (mkdirat(tree_fd, name, 0755) < 0)
		return err_sys(e, errno, "make a probe cgroup");
	fd_auto int leaf = openat(tree_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct clone_args a = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)leaf };
	pid_t pid = leaf < 0 ? -1 : cgroup_clone(&a);
	if (pid == 0)
		_exit(0);
	int status = 0, errnum = errno;
	if (pid > 0) {
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			continue;
	}
	for (int i = 0; i < BUSY_TRIES_MAX && unlinkat(tree_fd, name, AT_REMOVEDIR) < 0 && errno == EBUSY; i++)
		poll(NULL, 0, 1);
	if (pid < 0)
		return err_sys(e, errnum, "clone into a cgroup");
	if (!WIFEXITED(status))
		return err_set(e, ERR_UNAVAILABLE, "children cloned into a cgroup here are killed at birth");
	return 0;
}

int cgroup_tree_open(struct cgroup_tree *t, const char *base, const char *tag, struct err *e)
{
	*t = (struct cgroup_tree){ .fd = -1 };
	if (!base[0])
		return err_set(e, ERR_UNAVAILABLE, "there is no cgroup v2 tree");
	if (snprintf(t->path, sizeof t->path, "%s/%s", base, tag) >= (int)sizeof t->path)
		return err_set(e, ERR_UNAVAILABLE, "the cgroup's path is too long");
	if (mkdir(t->path, 0755) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make cgroup %s", t->path);
	t->fd = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->fd < 0)
		return err_sys(e, errno, "open cgroup %s", t->path);
	if (probe_clone(t->fd, e) < 0) {
		cgroup_tree_close(t);
		return -1;
	}
	return 0;
}

void cgroup_tree_close(struct cgroup_tree *t)
{
	cgroup_tree_tick(t);
	free(t->pending);
	t->pending = NULL;
	t->npending = t->pending_cap = 0;
	if (t->fd >= 0)
		rmdir(t->path);
	fd_close(&t->fd);
}

int cgroup_tree_make(struct cgroup_tree *t, const struct plan_key *key)
{
	char name[CGROUP_LEAF_MAX];
	if (t->fd < 0) {
		errno = ENOENT;
		return -1;
	}
	cgroup_leaf_name(key, name);
	if (mkdirat(t->fd, name, 0755) < 0 && errno != EEXIST) /* a limit may have created it */
		return -1;
	return openat(t->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int cgroup_make_holder(int leaf)
{
	if (mkdirat(leaf, CGROUP_HOLDER, 0755) < 0 && errno != EEXIST)
		return -1;
	return openat(leaf, CGROUP_HOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int cgroup_tree_enter_holder(struct cgroup_tree *t, const struct plan_key *key, pid_t pid)
{
	char text[16];
	fd_auto int leaf = cgroup_tree_make(t, key);
	fd_auto int holder = leaf < 0 ? -1 : cgroup_make_holder(leaf);
	fd_auto int procs = holder < 0 ? -1 : openat(holder, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	int n = snprintf(text, sizeof text, "%d", pid);
	return procs < 0 || write(procs, text, (size_t)n) < 0 ? -1 : 0;
}

bool cgroup_holder_leaf(pid_t pid, char ret[CGROUP_LEAF_MAX])
{
	char file[32], text[8192];
	snprintf(file, sizeof file, "/proc/%d/cgroup", pid);
	fd_auto int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, sizeof text - 1);
	text[n > 0 ? n : 0] = 0;
	char *path = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
	if (!path)
		return false;
	path += *path == '\n';
	path[strcspn(path, "\n")] = 0;
	char *last = strrchr(path, '/');
	if (strcmp(last, "/" CGROUP_HOLDER) != 0)
		return false;
	*last = 0;
	const char *leaf = strrchr(path, '/');
	return leaf && (size_t)snprintf(ret, CGROUP_LEAF_MAX, "%s", leaf + 1) < CGROUP_LEAF_MAX;
}

int cgroup_remove(int folder, const char *name)
{
	if (unlinkat(folder, name, AT_REMOVEDIR) == 0)
		return 0;
	if (errno != EBUSY)
		return -1;
	int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *entry; d && (entry = readdir(d));) {
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			unlinkat(fd, entry->d_name, AT_REMOVEDIR);
	}
	if (d)
		closedir(d);
	else
		fd_close(&fd);
	return unlinkat(folder, name, AT_REMOVEDIR);
}

/* Returns true if no retry is needed. */
static bool remove_leaf(struct cgroup_tree *t, const struct plan_key *key)
{
	char name[CGROUP_LEAF_MAX];
	cgroup_leaf_name(key, name);
	return cgroup_remove(t->fd, name) == 0 || errno != EBUSY;
}

bool cgroup_tree_remove(struct cgroup_tree *t, const struct plan_key *key)
{
	errno = 0;
	if (t->fd < 0 || remove_leaf(t, key))
		return errno != ENOENT;
	if (t->npending == t->pending_cap) {
		t->pending_cap = t->pending_cap ? 2 * t->pending_cap : 16;
		t->pending = mem_realloc(t->pending, t->pending_cap * sizeof *t->pending);
	}
	t->pending[t->npending++] = (struct cgroup_pending){ .key = *key };
	return true;
}

static bool is_populated(int leaf)
{
	char text[256];
	fd_auto int fd = openat(leaf, "cgroup.events", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, sizeof text - 1);
	if (n < 0)
		return false;
	text[n] = 0;
	return strstr(text, "populated 1") != NULL;
}

static bool is_leaf_populated(int folder, const char *name)
{
	fd_auto int leaf = openat(folder, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return leaf >= 0 && is_populated(leaf);
}

/*
 * Returns true if a retry is worthwhile. What has processes is in use, by a session's sandbox: it may have an empty
 * cgroup for a command that is about to start.
 */
static bool sweep_leaves(struct cgroup_tree *t)
{
	bool busy = false;
	int fd = t->fd < 0 ? -1 : openat(t->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		fd_close(&fd);
		return false;
	}
	for (struct dirent *entry; (entry = readdir(d));) {
		if (strncmp(entry->d_name, CGROUP_PREBUILT, strlen(CGROUP_PREBUILT)) == 0 &&
		    strncmp(entry->d_name, t->own, strlen(t->own)) != 0)
			busy |= is_leaf_populated(t->fd, entry->d_name) ||
				(cgroup_remove(t->fd, entry->d_name) < 0 && errno == EBUSY);
	}
	closedir(d);
	return busy;
}

void cgroup_tree_sweep(struct cgroup_tree *t, const char *own)
{
	snprintf(t->own, sizeof t->own, "%s", own);
	t->sweeps = sweep_leaves(t) ? BUSY_TRIES_MAX + SLOW_SWEEPS : 0;
}

int cgroup_tree_tick(struct cgroup_tree *t)
{
	int pause_ms = -1;

	for (size_t i = 0; i < t->npending;) {
		if (remove_leaf(t, &t->pending[i].key)) {
			t->pending[i] = t->pending[--t->npending];
			continue;
		}
		/* Most need milliseconds; a process that the kernel cannot kill soon must not cost CPU time. */
		if (++t->pending[i].tries < BUSY_TRIES_MAX)
			pause_ms = BUSY_PAUSE_MS;
		else if (pause_ms < 0)
			pause_ms = BUSY_PAUSE_LONG_MS;
		i++;
	}
	if (t->sweeps)
		t->sweeps = sweep_leaves(t) ? t->sweeps - 1 : 0;
	if (t->sweeps > SLOW_SWEEPS)
		return BUSY_PAUSE_MS;
	return t->sweeps && pause_ms < 0 ? BUSY_PAUSE_LONG_MS : pause_ms;
}

static void kill_leaf(int tree_fd, const char *name)
{
	fd_auto int leaf = openat(tree_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (leaf < 0)
		return;
	if (is_populated(leaf)) {
		fd_auto int kill_fd = openat(leaf, "cgroup.kill", O_WRONLY | O_CLOEXEC);
		if (kill_fd < 0 || fd_write_all(kill_fd, "1", 1) < 0)
			return;
		for (int ms = 0; is_populated(leaf) && ms < KILL_WAIT_MS; ms++)
			poll(NULL, 0, 1);
	}
	(void)!cgroup_remove(tree_fd, name);
}

void cgroup_kill_leftovers(const char *base, const char *tag)
{
	/*
	 * The guard is in the base, next to the tag's directory, or above the base, so no leaf can be an ancestor of
	 * its own cgroup.
	 */
	mem_auto char *path = mem_printf("%s/%s", base, tag);
	DIR *d = opendir(path);
	for (struct dirent *entry; d && (entry = readdir(d));) {
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			kill_leaf(dirfd(d), entry->d_name);
	}
	if (d) {
		closedir(d);
		rmdir(path);
	}
}
