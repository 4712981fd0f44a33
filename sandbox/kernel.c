#include "sandbox/kernel.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/capability.h"
#include "sandbox/cgroup.h"
#include "sandbox/landlock.h"
#include "sandbox/userns.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#define NOT_NEEDED (-1)

/* A probe returns 0, an errno, or NOT_NEEDED; it may add detail and fix. */
typedef int probe_fn(struct kernel_feature *f);

/* Any error but ENOSYS proves that the call exists. */
static int unless_missing(long result) { return result >= 0 || errno != ENOSYS ? 0 : ENOSYS; }

/* Runs the probe in a child, where it can do no harm; the exit status is its errno. */
static int in_child(int (*probe)(void))
{
	pid_t pid = fork();
	int status = 0;
	if (pid == 0)
		_exit(probe());
	if (pid < 0)
		return errno;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

/* ---- required ---- */

static int probe_clone3(struct kernel_feature *f)
{
	int pidfd = -1;
	siginfo_t end = { 0 };
	struct clone_args a = { .flags = CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
				.pidfd = (uint64_t)(uintptr_t)&pidfd,
				.exit_signal = SIGCHLD };
	pid_t pid = cgroup_clone(&a);
	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return errno;
	while (waitid(P_PIDFD, (id_t)pidfd, &end, WEXITED) < 0 && errno == EINTR)
		continue;
	close(pidfd);
	return 0;
}

static int probe_pidfd(struct kernel_feature *f)
{
	fd_auto int fd = fd_pidfd_open(getpid());
	return unless_missing(fd);
}

static int probe_pidfd_signal(struct kernel_feature *f) { return unless_missing(fd_pidfd_signal(-1, 0)); }

static int probe_openat2(struct kernel_feature *f)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS };
	fd_auto int fd = (int)syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof how);
	return unless_missing(fd);
}

static int probe_close_range(struct kernel_feature *f) { return unless_missing(fd_close_range(~0u, ~0u)); }

static int probe_mount_api(struct kernel_feature *f)
{
	fd_auto int tree = open_tree(AT_FDCWD, "/", (unsigned)OPEN_TREE_CLOEXEC);
	if (unless_missing(tree) != 0 || unless_missing(move_mount(-1, "", -1, "", 0)) != 0)
		return ENOSYS;
	fd_auto int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	return fs < 0 && errno == ENODEV ? ENODEV : unless_missing(fs);
}

static int probe_mount_setattr(struct kernel_feature *f) { return unless_missing(mount_setattr(-1, "", 0, NULL, 0)); }

static int probe_seccomp(struct kernel_feature *f)
{
	uint32_t action = SECCOMP_RET_ERRNO;
	return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0 ? 0 : errno;
}

static int probe_namespaces(struct kernel_feature *f)
{
	static const char *const names[] = { "pid", "mnt", "net", "ipc", "uts", "cgroup" };
	for (size_t i = 0; i < countof(names); i++) {
		char path[32];
		snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
		if (access(path, F_OK) < 0) {
			snprintf(f->detail, sizeof f->detail, "%s is not there", path);
			return errno;
		}
	}
	return 0;
}

static int probe_memfd(struct kernel_feature *f)
{
	fd_auto int fd = memfd_create("probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return unless_missing(fd);
}

/* ---- optional ---- */

static int write_text(const char *path, const char *text)
{
	fd_auto int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 || fd_write_all(fd, text, strlen(text)) < 0 ? errno : 0;
}

static int enter_user_namespace(void)
{
	uid_t uid = geteuid();
	char map[64];
	if (unshare(CLONE_NEWUSER) < 0)
		return errno;
	int r = write_text("/proc/self/setgroups", "deny");
	snprintf(map, sizeof map, "%u %u 1", uid, uid);
	return r ? r : write_text("/proc/self/uid_map", map);
}

static int probe_user_namespaces(struct kernel_feature *f)
{
	int error = 0;
	enum userns_cause cause = userns_try(&error);
	if (cause == USERNS_WORKS)
		return 0;
	f->fix = userns_text(cause)->fix;
	snprintf(f->detail, sizeof f->detail, "%s", userns_text(cause)->cause);
	return error;
}

static int probe_landlock(struct kernel_feature *f)
{
	int abi = landlock_abi(), errnum = errno;
	if (abi)
		snprintf(f->detail, sizeof f->detail, "ABI %d", abi);
	else if (errnum == EOPNOTSUPP)
		snprintf(f->detail, sizeof f->detail, "not in the kernel's list of security modules (lsm=)");
	f->fix = errnum == EOPNOTSUPP ? "boot with lsm=landlock, in front of what /sys/kernel/security/lsm lists"
				      : "use Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK, and a container "
					"profile that permits landlock_*";
	return abi ? 0 : errnum;
}

static int landlock_at_least(int abi, struct kernel_feature *f)
{
	if (landlock_abi() >= abi)
		return 0;
	snprintf(f->detail, sizeof f->detail, "needs Landlock ABI %d", abi);
	return EOPNOTSUPP;
}

static int probe_landlock_refer(struct kernel_feature *f)
{
	return landlock_abi() == 0 ? NOT_NEEDED : landlock_at_least(2, f);
}

static int probe_landlock_truncate(struct kernel_feature *f) { return landlock_at_least(3, f); }

static int probe_landlock_ioctl(struct kernel_feature *f) { return landlock_at_least(5, f); }

static int probe_landlock_scopes(struct kernel_feature *f) { return landlock_at_least(LANDLOCK_ABI_SCOPES, f); }

static int probe_landlock_audit(struct kernel_feature *f) { return landlock_at_least(7, f); }

static int probe_landlock_named_sockets(struct kernel_feature *f)
{
	return landlock_at_least(LANDLOCK_ABI_NAMED_SOCKETS, f);
}

/*
 * Creates a user namespace in which ids 0 and 1 are swapped. It belongs to process `ret_pid`, which lives until it is
 * killed.
 */
static int swapped_ids(pid_t *ret_pid)
{
	int ready[2];
	char path[64], byte;
	*ret_pid = -1;
	if (pipe2(ready, O_CLOEXEC) < 0)
		return -1;
	fd_auto int in = ready[0];
	pid_t pid = *ret_pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWUSER) < 0)
			_exit(errno);
		close(ready[1]);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (pid < 0)
		return -1;
	while (read(in, &byte, 1) < 0 && errno == EINTR)
		continue;
	snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
	int error = write_text(path, "0 1 1\n1 0 1\n");
	snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
	error = error ? error : write_text(path, "0 1 1\n1 0 1\n");
	snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
	errno = error;
	return error ? -1 : open(path, O_RDONLY | O_CLOEXEC);
}

static int map_ids_of(int tree)
{
	pid_t pid;
	if (tree < 0)
		return errno;
	fd_auto int ids = swapped_ids(&pid);
	struct mount_attr a = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)ids };
	int error = ids < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &a, sizeof a) < 0 ? errno : 0;
	if (pid > 0) {
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			continue;
	}
	return error;
}

static int map_ids_of_tmpfs(void)
{
	fd_auto int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	if (fs < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return errno;
	fd_auto int tree = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	return map_ids_of(tree);
}

/* Support depends on the file system: a root on overlayfs lacks it, even if the kernel and another disk have it. */
static int map_ids_of_any(void)
{
	static const char *const places[] = { "/", "/var", "/srv", "/home" };
	int error = 0;
	for (size_t i = 0; i < countof(places); i++) {
		fd_auto int tree = open_tree(AT_FDCWD, places[i], (unsigned)(OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
		error = map_ids_of(tree);
		if (!error)
			return 0;
	}
	return map_ids_of_tmpfs() ? error : 0;
}

static int probe_idmapped_mounts(struct kernel_feature *f) { return geteuid() ? NOT_NEEDED : in_child(map_ids_of_any); }

static int probe_idmapped_tmpfs(struct kernel_feature *f)
{
	return geteuid() ? NOT_NEEDED : in_child(map_ids_of_tmpfs);
}

/* A kernel that accepts the option supports the file system; only a mount, which needs more setup, would show more. */
static int open_overlay(void)
{
	int error = capability_has(CAP_SYS_ADMIN) ? 0 : enter_user_namespace();
	if (error || unshare(CLONE_NEWNS) < 0)
		return error ? error : errno;
	fd_auto int fs = fsopen("overlay", FSOPEN_CLOEXEC);
	return fs < 0 || fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0 ? errno : 0;
}

static int probe_overlayfs(struct kernel_feature *f) { return in_child(open_overlay); }

/* Uses an invalid cgroup descriptor: a kernel without the flag rejects the flag before it checks the descriptor. */
static int probe_clone_into_cgroup(struct kernel_feature *f)
{
	struct clone_args a = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = INT32_MAX };
	pid_t pid = cgroup_clone(&a);
	if (pid == 0)
		_exit(0);
	return pid < 0 && errno == EBADF ? 0 : errno;
}

/* The root cgroup does not have this file; every other does. */
static int probe_cgroup_kill(struct kernel_feature *f)
{
	char own[PATH_MAX];
	struct err e = ERR_INIT;
	if (cgroup_own_folder(own, &e) < 0) {
		snprintf(f->detail, sizeof f->detail, "%.120s", e.message);
		return ENOENT;
	}
	DIR *d = opendir(own);
	bool found = d && faccessat(dirfd(d), "cgroup.kill", F_OK, 0) == 0, empty = true;
	for (struct dirent *entry; d && !found && (entry = readdir(d));) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		fd_auto int below = openat(dirfd(d), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		found = below >= 0 && faccessat(below, "cgroup.kill", F_OK, 0) == 0;
		empty = false;
	}
	bool root = d && faccessat(dirfd(d), "cgroup.type", F_OK, 0) < 0;
	if (d)
		closedir(d);
	if (!found && root && empty)
		snprintf(f->detail, sizeof f->detail, "cannot be seen: there is only the root cgroup");
	return found ? 0 : ENOENT;
}

static int probe_peer_pidfd(struct kernel_feature *f)
{
	int pair[2], pidfd = -1;
	socklen_t len = sizeof pidfd;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return errno;
	int error = getsockopt(pair[0], SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) < 0 ? errno : 0;
	close(pair[0]);
	close(pair[1]);
	if (!error && pidfd >= 0)
		close(pidfd);
	return error;
}

static int probe_audit(struct kernel_feature *f)
{
	fd_auto int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_AUDIT);
	return fd < 0 ? errno : 0;
}

/* ---- the table ---- */

enum { OPTIONAL, REQUIRED };

static const struct {
	probe_fn *probe;
	const char *name;
	bool required;
	unsigned major, minor;
	const char *lost;
} rows[] = {
#define FEATURE(probe, name, kind, major, minor, lost) { probe_##probe, name, kind, major, minor, lost },
#include "sandbox/kernel_features.def"
#undef FEATURE
};
_Static_assert(countof(rows) <= KERNEL_FEATURES_MAX, "KERNEL_FEATURES_MAX is too small");

const char *kernel_state_name(enum kernel_state state)
{
	static const char *const names[] = {
		[KERNEL_AVAILABLE] = "available", [KERNEL_MISSING] = "unavailable", [KERNEL_NOT_NEEDED] = "not needed"
	};
	return names[state];
}

void kernel_release(char ret[KERNEL_RELEASE_MAX])
{
	struct utsname u;
	snprintf(ret, KERNEL_RELEASE_MAX, "%.65s", uname(&u) == 0 ? u.release : "unknown");
}

static void try_feature(size_t i, struct kernel_feature *ret)
{
	*ret = (struct kernel_feature){ .name = rows[i].name,
					.required = rows[i].required,
					.major = rows[i].major,
					.minor = rows[i].minor,
					.lost = rows[i].lost };
	int r = rows[i].probe(ret);
	ret->state = r == 0 ? KERNEL_AVAILABLE : r == NOT_NEEDED ? KERNEL_NOT_NEEDED : KERNEL_MISSING;
	if (ret->state == KERNEL_MISSING && !ret->detail[0])
		snprintf(ret->detail, sizeof ret->detail, "%s", strerror(r));
}

size_t kernel_probe(struct kernel_feature ret[KERNEL_FEATURES_MAX])
{
	for (size_t i = 0; i < countof(rows); i++)
		try_feature(i, &ret[i]);
	return countof(rows);
}

struct release {
	unsigned major, minor;
};

static bool is_older_than(struct release a, struct release b)
{
	return a.major < b.major || (a.major == b.major && a.minor < b.minor);
}

static struct release oldest_supported(void)
{
	struct release newest = { 0 };
	for (size_t i = 0; i < countof(rows); i++) {
		struct release r = { rows[i].major, rows[i].minor };
		if (rows[i].required && is_older_than(newest, r))
			newest = r;
	}
	return newest;
}

static bool is_filtered(void)
{
	char text[4096];
	fd_auto int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, sizeof text - 1);
	text[n > 0 ? n : 0] = 0;
	return strstr(text, "\nSeccomp:\t2") != NULL;
}

int kernel_check(struct err *e)
{
	char missing[256] = "", found[KERNEL_RELEASE_MAX];
	size_t used = 0;
	const struct release least = oldest_supported();
	struct release here = { 0 };
	struct kernel_feature f = { 0 };
	const char *lost = NULL;
	for (size_t i = 0; i < countof(rows); i++) {
		if (!rows[i].required)
			continue;
		try_feature(i, &f);
		if (f.state != KERNEL_MISSING)
			continue;
		lost = lost ? lost : f.lost;
		used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%s", used ? ", " : "", f.name);
		used = used < sizeof missing ? used : sizeof missing - 1;
	}
	if (!lost)
		return 0;
	kernel_release(found);
	if (sscanf(found, "%u.%u", &here.major, &here.minor) == 2 && is_older_than(here, least))
		return err_set(e, ERR_UNAVAILABLE,
			       "Linux %u.%u is too old: bailiff needs %u.%u or newer (found %s, which lacks %s)",
			       here.major, here.minor, least.major, least.minor, found, missing);
	if (is_filtered())
		return err_set(
			e, ERR_UNAVAILABLE,
			"a system call filter around bailiffd (a container's seccomp profile?) refuses %s, so %s; "
			"use bailiff's profile for containers (docs/setup/containers.md), or --security-opt "
			"seccomp=unconfined (Linux %s)",
			missing, lost, found);
	return err_set(e, ERR_UNAVAILABLE, "Linux %s was built without %s, so %s; use a kernel that has it", found,
		       missing, lost);
}
