#include "sandbox/cgroup_base.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "sandbox/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define OWN_LEAF "supervisor"              /* also a good name for DelegateSubgroup= in a unit */
#define CONTAINER_LEAF "init"              /* the name that other tools use when they free a container's root */
#define MOVE_ROUNDS_MAX 50                 /* processes can fork while they are moved */
#define SYSTEMD_MARK "/run/systemd/system" /* what sd_booted(3) checks */

__attribute__((format(printf, 3, 4))) static enum cgroup_base_result unfit(struct cgroup_base *b, const char *fix,
									   const char *why, ...)
{
	va_list ap;
	va_start(ap, why);
	vsnprintf(b->why, sizeof b->why, why, ap);
	va_end(ap);
	snprintf(b->fix, sizeof b->fix, "%s", fix);
	return CGROUP_BASE_DONE;
}

/* ---- one cgroup's files ---- */

static int open_file(const char *folder, const char *name, int flags)
{
	mem_auto char *path = mem_printf("%s/%s", folder, name);
	return open(path, flags | O_CLOEXEC);
}

static bool has_file(const char *folder, const char *name, int mode)
{
	mem_auto char *path = mem_printf("%s/%s", folder, name);
	return faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0;
}

static bool lists_controller(const char *folder, const char *file, const char *word)
{
	char text[1024], *save;
	fd_auto int fd = open_file(folder, file, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, sizeof text - 1);
	if (n <= 0)
		return false;
	text[n] = 0;
	for (char *w = strtok_r(text, " \n", &save); w; w = strtok_r(NULL, " \n", &save)) {
		if (strcmp(w, word) == 0)
			return true;
	}
	return false;
}

/* Whether the v2 tree has a controller that a limit could use. */
static bool offers_limits(const char *folder)
{
	static const char *const wanted[] = { "memory", "pids", "cpu", "io" };
	for (size_t i = 0; i < countof(wanted); i++) {
		if (lists_controller(folder, "cgroup.controllers", wanted[i]))
			return true;
	}
	return false;
}

/* The root of the whole hierarchy is the only cgroup without a type; a cgroup namespace's root has one. */
static bool is_real_root(const char *folder)
{
	return has_file(folder, "cgroup.procs", F_OK) && !has_file(folder, "cgroup.type", F_OK);
}

/*
 * Number of processes in the cgroup itself, except the two given (0 = none); −1 if unreadable. Processes of other pid
 * namespaces appear as 0 and count.
 */
static int count_others(const char *folder, pid_t a, pid_t b)
{
	mem_auto char *path = mem_printf("%s/cgroup.procs", folder);
	FILE *f = fopen(path, "re");
	int pid, others = 0;
	if (!f)
		return -1;
	while (fscanf(f, "%d", &pid) == 1)
		others += pid == 0 || (pid != a && pid != b);
	bool failed = ferror(f); /* EOPNOTSUPP in a threaded cgroup */
	fclose(f);
	return failed ? -1 : others;
}

static int move_process(const char *folder, pid_t pid)
{
	char text[16];
	fd_auto int fd = open_file(folder, "cgroup.procs", O_WRONLY);
	int n = snprintf(text, sizeof text, "%d", pid);
	return fd < 0 || write(fd, text, (size_t)n) < 0 ? -1 : 0;
}

static int make_leaf(const char *folder, const char *name, char ret[PATH_MAX])
{
	if (snprintf(ret, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return mkdir(ret, 0755) < 0 && errno != EEXIST ? -1 : 0;
}

static bool is_read_only(const char *folder)
{
	struct statvfs fs;
	return statvfs(folder, &fs) == 0 && fs.f_flag & ST_RDONLY;
}

int cgroup_base_enable(const char *folder, const char *controller, char *why, size_t cap)
{
	if (!lists_controller(folder, "cgroup.controllers", controller)) {
		snprintf(why, cap, "the cgroup %.120s has no %s controller", folder, controller);
		return -1;
	}
	if (lists_controller(folder, "cgroup.subtree_control", controller))
		return 0;
	if (!is_real_root(folder) && count_others(folder, 0, 0) != 0) {
		snprintf(why, cap, "processes are in the cgroup %.120s, so it cannot hand down controllers", folder);
		return -1;
	}
	mem_auto char *word = mem_printf("+%s", controller);
	fd_auto int fd = open_file(folder, "cgroup.subtree_control", O_WRONLY);
	if (fd < 0 || write(fd, word, strlen(word)) < 0) {
		snprintf(why, cap, "enable the %s controller in %.120s: %s", controller, folder, strerror(errno));
		return -1;
	}
	return 0;
}

/* ---- the situations ---- */

/* Moves this process from the cgroup that becomes the base into a leaf of it. */
static enum cgroup_base_result enter_leaf(struct cgroup_base *b, pid_t companion)
{
	char leaf[PATH_MAX];
	bool together = companion && count_others(b->path, getpid(), 0) > 0;
	if (make_leaf(b->path, OWN_LEAF, leaf) < 0 ||
	    (together && move_process(leaf, companion) < 0 && errno != ESRCH) || move_process(leaf, getpid()) < 0)
		return unfit(b, "make the cgroup writable for the user that bailiffd runs as",
			     "the daemon cannot move into a cgroup below %.120s: %s", b->path, strerror(errno));
	return CGROUP_BASE_DONE;
}

static bool has_mark(const char *folder, const char *name)
{
	char value[8];
	return lgetxattr(folder, name, value, sizeof value) >= 1 && value[0] == '1';
}

/*
 * systemd marks the cgroups that it delegates: with trusted.delegate, which only root can read, and since version 251
 * with user.delegate. An older user manager leaves no mark that its user can read; there, ownership of the cgroup has
 * to suffice.
 */
static bool is_delegated(const char *top, const char *folder)
{
	char at[PATH_MAX];
	if (has_mark(folder, "user.delegate") || has_mark(folder, "trusted.delegate"))
		return true;
	if (geteuid() == 0)
		return false;
	snprintf(at, sizeof at, "%s", folder);
	while (strlen(at) > strlen(top) && path_up(at)) {
		if (has_mark(at, "user.delegate"))
			return false;
	}
	return has_file(folder, "cgroup.procs", W_OK);
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);
	return n >= m && strcmp(text + n - m, end) == 0;
}

/*
 * True if this process was started in the leaf, by DelegateSubgroup= or by the cgroup's creator: the base is its
 * parent.
 */
static bool is_in_leaf(const struct cgroup_location *at, char ret_base[PATH_MAX])
{
	snprintf(ret_base, PATH_MAX, "%s", at->own);
	return ends_with(at->own, "/" OWN_LEAF) && path_up(ret_base) && count_others(ret_base, 0, 0) == 0;
}

static enum cgroup_base_result find_with_systemd(const struct cgroup_location *at, struct cgroup_base *b,
						 pid_t companion, bool granted)
{
	char above[PATH_MAX];
	if (is_in_leaf(at, above) && is_delegated(at->top, above)) {
		snprintf(b->path, sizeof b->path, "%s", above);
		return CGROUP_BASE_DONE;
	}
	bool alone = count_others(at->own, getpid(), companion) == 0;
	if (alone && (granted || is_delegated(at->top, at->own)))
		return enter_leaf(b, companion);
	if (granted)
		return unfit(b, "stop the other processes in it and restart the daemon",
			     "other processes are in %.160s, which systemd made for the daemon", at->own);
	if (alone && ends_with(at->own, ".service"))
		return unfit(b, "add Delegate=yes to the unit's [Service] section and restart it",
			     "systemd does not delegate the cgroup of %.120s", strrchr(at->own, '/') + 1);
	return CGROUP_BASE_NEEDS_SCOPE;
}

/* Moves all processes out of the container's root cgroup, so that controllers can be enabled there. */
static enum cgroup_base_result empty_container(struct cgroup_base *b, const char *top)
{
	char leaf[PATH_MAX];
	mem_auto char *procs = mem_printf("%s/cgroup.procs", top);
	if (make_leaf(top, CONTAINER_LEAF, leaf) < 0)
		return unfit(b,
			     "start the container with a writable cgroup tree (docker run --privileged; podman run "
			     "--security-opt unmask=/sys/fs/cgroup)",
			     "the container's cgroup tree cannot be written: %s", strerror(errno));
	for (int round = 0; round < MOVE_ROUNDS_MAX && count_others(top, 0, 0) > 0; round++) {
		FILE *f = fopen(procs, "re");
		for (int pid; f && fscanf(f, "%d", &pid) == 1;) {
			if (pid > 0 && move_process(leaf, pid) < 0 && errno != ESRCH)
				round = MOVE_ROUNDS_MAX;
		}
		if (f)
			fclose(f);
	}
	if (count_others(top, 0, 0) != 0)
		return unfit(b,
			     "start bailiffd as the container's root, in a container with a pid namespace of its own",
			     "processes in the container's root cgroup cannot be moved out of it");
	snprintf(b->path, sizeof b->path, "%s", top);
	return CGROUP_BASE_DONE;
}

/*
 * The cgroup namespace is the container's if the container's init shares it. Otherwise (unshare -C, a shared namespace)
 * the visible root is another party's cgroup, and its processes must not be moved.
 */
static bool owns_namespace(void)
{
	struct stat own, init;
	return stat("/proc/self/ns/cgroup", &own) == 0 && stat("/proc/1/ns/cgroup", &init) == 0 &&
	       own.st_ino == init.st_ino && own.st_dev == init.st_dev;
}

static enum cgroup_base_result find_without_systemd(const struct cgroup_location *at, struct cgroup_base *b,
						    pid_t companion)
{
	char above[PATH_MAX];
	/* A host's tree that is visible in a container belongs to the host's systemd. */
	bool real_root = at->whole && is_real_root(at->top) && !has_file(at->top, "init.scope", F_OK);
	if (is_read_only(at->top))
		return unfit(b,
			     "start the container with a writable cgroup tree (docker run --privileged; podman run "
			     "--security-opt unmask=/sys/fs/cgroup)",
			     "the cgroup tree is mounted read-only");
	if (geteuid() == 0 && real_root) {
		snprintf(b->path, sizeof b->path, "%s", at->top);
		return CGROUP_BASE_DONE;
	}
	if (is_in_leaf(at, above) && has_file(above, "cgroup.procs", W_OK)) {
		snprintf(b->path, sizeof b->path, "%s", above);
		return CGROUP_BASE_DONE;
	}
	if (has_file(at->own, "cgroup.procs", W_OK) && count_others(at->own, getpid(), companion) == 0)
		return enter_leaf(b, companion);
	if (geteuid() == 0 && at->whole && owns_namespace())
		return empty_container(b, at->top);
	if (geteuid() == 0)
		return unfit(b,
			     "start bailiffd alone in a cgroup of its own, or in a container with a cgroup namespace "
			     "of its own (--cgroupns=private)",
			     "other processes are in the cgroup of the daemon");
	return unfit(
		b,
		"have root make a cgroup that belongs to this user, with nothing else in it, and start bailiffd there",
		"the cgroup of the daemon is not delegated to uid %u", (unsigned)geteuid());
}

enum cgroup_base_result cgroup_base_find(struct cgroup_base *ret, pid_t companion, bool granted)
{
	struct cgroup_location at;
	struct err e = ERR_INIT;
	*ret = (struct cgroup_base){ 0 };
	if (cgroup_location_find(&at, &e) < 0)
		return unfit(ret,
			     "boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1), or mount the cgroup2 "
			     "filesystem at /sys/fs/cgroup",
			     "%.200s", e.message);
	snprintf(ret->path, sizeof ret->path, "%s", at.own);
	if (!offers_limits(at.top) && !offers_limits(at.own))
		return CGROUP_BASE_DONE;
	if (access(SYSTEMD_MARK, F_OK) == 0)
		return find_with_systemd(&at, ret, companion, granted);
	return find_without_systemd(&at, ret, companion);
}
