#include "supervisor/spawner/placeholder_helper.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/path.h"
#include "sandbox/become_peer.h"
#include "sandbox/cgroup.h"
#include "sandbox/placeholder.h"
#include "sandbox/steps.h"
#include "supervisor/common/process_title.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FINISH_WAIT_MS 2000
#define TRIES_MAX 100

struct placeholder {
	int folder; /* the parent */
	int self;   /* each helper whose sandbox mounts on it holds a lock on this */
	char name[NAME_MAX + 1];
	bool is_folder;
	uint32_t mount; /* index of the mount that needs it */
	uint32_t len;   /* of the path up to and including it */
};

struct placeholder_helper {
	const struct placeholder_job *job;
	struct placeholder made[PLAN_MOUNTS_MAX];
	size_t nmade;
	struct step_placeholders answer;
};

static const char *path_of(const struct plan_head *p, uint32_t i) { return plan_string(p, plan_mount(p, i)->path_off); }

/* Returns the write root in which mount i may need a placeholder, or −1. */
static int write_root_of(const struct plan_head *p, uint32_t i)
{
	const struct plan_mount *m = plan_mount(p, i);
	if ((m->kind != PLAN_MOUNT_HIDE && m->kind != PLAN_MOUNT_PROTECT) || m->flags & PLAN_MOUNT_OPTIONAL)
		return -1;
	int below = plan_mount_below(p, i);
	return below >= 0 && plan_mount(p, (uint32_t)below)->kind == PLAN_MOUNT_WRITE ? below : -1;
}

/* Resolves from the kernel's cache only, because a file system may hang; EAGAIN if that is not possible. */
static int open_cached(const char *path)
{
	struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
				.resolve = RESOLVE_CACHED | RESOLVE_NO_MAGICLINKS };
	return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

/* No placeholder is created in a directory that does not exist. */
static bool lacks_parent(const char *path)
{
	char parent[PATH_MAX];
	size_t n = (size_t)(strrchr(path, '/') - path);
	if (n == 0 || n >= sizeof parent)
		return false;
	memcpy(parent, path, n);
	parent[n] = 0;
	fd_auto int fd = open_cached(parent);
	return fd < 0 && errno == ENOENT;
}

static bool may_need(const struct plan_mount *m, const char *path)
{
	struct statx sx;
	fd_auto int fd = open_cached(path);
	if (fd < 0)
		return (errno == ENOENT || errno == EAGAIN) && !(m->flags & PLAN_MOUNT_IN_PARENT && lacks_parent(path));
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &sx) < 0)
		return true;
	struct stat st = { .st_mode = sx.stx_mode, .st_size = (off_t)sx.stx_size };
	return placeholder_is(&st);
}

/* A quick check, so that most plans need no helper. The helper itself checks thoroughly. */
static bool may_be_needed(const struct plan_head *p)
{
	for (uint32_t i = 0; i < p->mount_count; i++) {
		if (write_root_of(p, i) >= 0 && may_need(plan_mount(p, i), path_of(p, i)))
			return true;
	}
	return false;
}

/* ---- in the helper ---- */

static int open_path(int at, const char *path, uint64_t resolve)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = resolve | RESOLVE_NO_MAGICLINKS };
	return (int)syscall(SYS_openat2, at, path, &how, sizeof how);
}

/* True if a placeholder created for another mount already covers this one. */
static bool is_covered(struct placeholder_helper *k, uint32_t i)
{
	const char *path = path_of(k->job->plan, i);
	for (size_t j = 0; j < k->nmade; j++) {
		uint32_t len = k->made[j].len;
		if (strncmp(path, path_of(k->job->plan, k->made[j].mount), len) == 0 &&
		    (!path[len] || path[len] == '/')) {
			k->answer.len[i] = len;
			return true;
		}
	}
	return false;
}

/* Whether the name still refers to the opened inode: another helper may have removed it before the lock was taken. */
static bool is_still_named(const struct placeholder *m)
{
	struct stat named, opened;
	return fstatat(m->folder, m->name, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(m->self, &opened) == 0 &&
	       named.st_dev == opened.st_dev && named.st_ino == opened.st_ino && placeholder_is(&opened);
}

/*
 * Shares an existing placeholder, created by another helper or left over. Returns 1 if shared, 0 if it was removed
 * meanwhile.
 */
static int adopt_placeholder(struct placeholder *m)
{
	m->self = openat(m->folder, m->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	/* An exclusive lock is held only during a removal; do not wait for it, retry instead. */
	if (m->self >= 0 && flock(m->self, LOCK_SH | LOCK_NB) == 0 && is_still_named(m))
		return 1;
	int errnum = m->self < 0 ? errno : ENOENT;
	fd_close(&m->self);
	errno = errnum;
	return errnum == ENOENT ? 0 : -1;
}

static bool is_own(int folder, struct stat *ret) { return fstat(folder, ret) == 0 && ret->st_uid == geteuid(); }

/*
 * A command may have removed its own permissions on a directory; the next command could restore them, so the directory
 * counts as writable. The helper restores them for the duration of one operation.
 */
static int act_in_opened_folder(const struct placeholder *m, int (*what)(const struct placeholder *m))
{
	char path[32];
	struct stat st;
	int r = what(m), errnum = errno;
	if (r < 0 && errnum == EACCES && is_own(m->folder, &st)) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", m->folder);
		if (chmod(path, (st.st_mode & 07777) | S_IRWXU) == 0) {
			r = what(m);
			errnum = errno;
			chmod(path, st.st_mode & 07777);
		}
	}
	errno = errnum;
	return r;
}

static int remove_one(const struct placeholder *m)
{
	errno = 0;
	if (!is_still_named(m))
		return errno == EACCES ? -1 : 0;
	return unlinkat(m->folder, m->name, m->is_folder ? AT_REMOVEDIR : 0);
}

static int make_new(const struct placeholder *m)
{
	if (m->is_folder)
		return mkdirat(m->folder, m->name, PLACEHOLDER_FOLDER_MODE);
	fd_auto int fd = openat(m->folder, m->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				PLACEHOLDER_FILE_MODE);
	return fd < 0 ? -1 : 0;
}

/* `end` points behind the name in the mount's path. */
static int create_placeholder(struct placeholder_helper *k, uint32_t i, int folder, const char *name, const char *end)
{
	struct placeholder *m = &k->made[k->nmade];
	struct stat st;
	*m = (struct placeholder){ .self = -1, .mount = i, .len = (uint32_t)(end - path_of(k->job->plan, i)) };
	/* A name with components below it must be a directory; so is a protected path, by default. */
	m->is_folder = *end || plan_mount(k->job->plan, i)->kind == PLAN_MOUNT_PROTECT;
	memcpy(m->name, name, strlen(name) + 1);
	m->folder = fcntl(folder, F_DUPFD_CLOEXEC, 0);
	int r = m->folder < 0 ? -1 : 0;
	for (int tries = 0; r == 0 && tries < TRIES_MAX; tries++) {
		if (tries)
			poll(NULL, 0, 1);
		r = act_in_opened_folder(m, make_new);
		if (r < 0 && errno == EEXIST &&
		    (fstatat(m->folder, m->name, &st, AT_SYMLINK_NOFOLLOW) < 0 || placeholder_is(&st)))
			r = 0;
		if (r == 0)
			r = adopt_placeholder(m);
	}
	if (r <= 0) {
		int errnum = r < 0 ? errno : EBUSY;
		fd_close(&m->folder);
		errno = errnum;
		return -1;
	}
	m->is_folder = fstat(m->self, &st) == 0 && S_ISDIR(st.st_mode);
	k->nmade++;
	k->answer.len[i] = m->len;
	return 0;
}

/* If the peer cannot create it, neither can the command. An entry that exists by now is covered as it is. */
static int create_if_permitted(struct placeholder_helper *k, uint32_t i, int folder, const char *name, const char *end)
{
	if (create_placeholder(k, i, folder, name, end) == 0 || errno == EEXIST)
		return 0;
	if (errno != EACCES && errno != EROFS && errno != EPERM)
		return -1;
	k->answer.len[i] = STEP_PLACEHOLDER_NEEDLESS;
	return 0;
}

static int make_placeholder(struct placeholder_helper *k, uint32_t i, const char *root)
{
	const char *p = path_of(k->job->plan, i) + strlen(root);
	bool in_parent = plan_mount(k->job->plan, i)->flags & PLAN_MOUNT_IN_PARENT;
	char name[NAME_MAX + 1];
	if (is_covered(k, i))
		return 0;
	fd_auto int at = open_path(AT_FDCWD, root, RESOLVE_NO_SYMLINKS);
	while (at >= 0 && *p == '/') {
		if (path_step(&p, name) < 0)
			return -1;
		struct stat st;
		int next = open_path(at, name, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
		bool held = next >= 0 && fstat(next, &st) == 0 && placeholder_is(&st);
		if (held)
			close(next);
		if (held || (next < 0 && errno == ENOENT))
			return *p && !held && in_parent ? 0 : create_if_permitted(k, i, at, name, p);
		/* The helper cannot look into its own directory, but the command could after a chmod. */
		if (next < 0 && errno == EACCES && is_own(at, &st)) {
			k->answer.len[i] = STEP_PLACEHOLDER_UNSEEN;
			return 0;
		}
		fd_close(&at);
		at = next;
	}
	/* Other problems with the path are reported by the step that mounts there. */
	return 0;
}

/* The last helper that holds a placeholder removes it, if it is unchanged and still empty. */
static void remove_all(struct placeholder_helper *k)
{
	while (k->nmade > 0) {
		struct placeholder *m = &k->made[--k->nmade];
		if (flock(m->self, LOCK_EX | LOCK_NB) == 0)
			act_in_opened_folder(m, remove_one);
		fd_close(&m->self);
		fd_close(&m->folder);
	}
}

static _Noreturn void helper_main(const struct placeholder_job *job, int fd)
{
	struct placeholder_helper k = { .job = job };
	char byte;
	process_title_set(job->title, "bailiffd: placeholder");
	umask(0);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (fd_close_range(0, (unsigned)fd - 1) < 0 || fd_close_range((unsigned)fd + 1, UINT_MAX) < 0 ||
	    become_peer(job->privileged, job->uid, job->gid, job->groups, job->ngroups) < 0)
		_exit(1);
	for (uint32_t i = 0; i < job->plan->mount_count && !k.answer.error; i++) {
		int root = write_root_of(job->plan, i);
		if (root >= 0 && make_placeholder(&k, i, path_of(job->plan, (uint32_t)root)) < 0)
			k.answer.error = errno ? errno : EIO;
	}
	if (k.answer.error)
		remove_all(&k);
	ssize_t n = send(fd, &k.answer, sizeof k.answer, MSG_NOSIGNAL);
	/* Waits for a byte from the init, or until every holder of the other end has closed it. */
	while (n > 0 && k.nmade && (n = recv(fd, &byte, 1, 0)) < 0 && errno == EINTR)
		n = 1;
	remove_all(&k);
	if (n == 1)
		send(fd, "", 1, MSG_NOSIGNAL);
	_exit(0);
}

/* ---- in the spawner ---- */

bool placeholder_helper_reap(void)
{
	pid_t pid;
	while ((pid = waitpid(-1, NULL, WNOHANG | __WCLONE)) > 0)
		continue;
	return pid == 0;
}

/* The spawner's own child, without an exit signal. */
static pid_t clone_helper(const struct placeholder_job *job, int fd)
{
	struct clone_args a = { .flags = CLONE_CLEAR_SIGHAND };
	pid_t pid = cgroup_clone(&a);
	if (pid == 0)
		helper_main(job, fd);
	return pid;
}

int placeholder_helper_start(const struct placeholder_job *job, int *ret_fd, struct err *e)
{
	if (job->plan->flags & PLAN_COW || !may_be_needed(job->plan)) {
		*ret_fd = -1;
		return 0;
	}
	int fds[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return err_sys(e, errno, "create a socket for the placeholder helper");
	fd_auto int ours = fds[0], theirs = fds[1];
	if (clone_helper(job, theirs) < 0)
		return err_sys(e, errno, "clone the placeholder helper");
	*ret_fd = fd_take(&ours);
	return 0;
}

/* ---- in the init ---- */

void placeholder_helper_finish(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	if (fd >= 0 && send(fd, "", 1, MSG_NOSIGNAL) == 1)
		poll(&p, 1, FINISH_WAIT_MS);
}
