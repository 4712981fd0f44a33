#include "supervisor/spawner/keeper.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "sandbox/cgroup.h"
#include "supervisor/title.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define START_WAIT_MS 5000
#define FINISH_WAIT_MS 2000

struct placeholder {
	int folder;                /* the parent */
	char name[NAME_MAX + 1];
	bool is_folder;
	dev_t device;
	ino_t inode;
	uint32_t mount;            /* for which it was made */
	uint32_t len;              /* of the path up to it */
};

struct answer {
	int32_t error;
	uint32_t len[PLAN_MOUNTS_MAX];
};

struct keeper {
	const struct keeper_job *job;
	struct placeholder made[PLAN_MOUNTS_MAX];
	size_t nmade;
	struct answer answer;
};

static const char *path_of(const struct plan_head *p, uint32_t i)
{
	return plan_string(p, plan_mount(p, i)->path_off);
}

/* The write root in which mount i may need a placeholder; −1 = it needs none. */
static int write_root_of(const struct plan_head *p, uint32_t i)
{
	const struct plan_mount *m = plan_mount(p, i);
	if ((m->kind != PLAN_MOUNT_HIDE && m->kind != PLAN_MOUNT_PROTECT) || m->flags & PLAN_MOUNT_OPTIONAL)
		return -1;
	int below = plan_mount_below(p, i);
	return below >= 0 && plan_mount(p, (uint32_t)below)->kind == PLAN_MOUNT_WRITE ? below : -1;
}

/* A cheap look, so that most plans need no keeper; the keeper itself looks properly. */
static bool needed(const struct plan_head *p)
{
	struct stat st;
	for (uint32_t i = 0; i < p->mount_count; i++) {
		if (write_root_of(p, i) >= 0 && fstatat(AT_FDCWD, path_of(p, i), &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
			return true;
	}
	return false;
}

/* ---- the keeper's own process ---- */

static int open_path(int at, const char *path, uint64_t resolve)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = resolve | RESOLVE_NO_MAGICLINKS };
	return (int)syscall(SYS_openat2, at, path, &how, sizeof how);
}

/* true: something that was made for another mount already stands in the way of this one. */
static bool made_before(struct keeper *k, uint32_t i)
{
	const char *path = path_of(k->job->plan, i);
	for (size_t j = 0; j < k->nmade; j++) {
		uint32_t len = k->made[j].len;
		if (strncmp(path, path_of(k->job->plan, k->made[j].mount), len) == 0 && (!path[len] || path[len] == '/')) {
			k->answer.len[i] = len;
			return true;
		}
	}
	return false;
}

static int make(struct keeper *k, uint32_t i, int folder, const char *name, const char *end)
{
	const char *path = path_of(k->job->plan, i);
	struct placeholder *m = &k->made[k->nmade];
	struct stat st;
	/* Whatever is to go below it needs a folder; a protected path is one as a rule. */
	bool is_folder = *end || plan_mount(k->job->plan, i)->kind == PLAN_MOUNT_PROTECT;
	if (is_folder) {
		if (mkdirat(folder, name, 0555) < 0)
			return -1;
	} else {
		fd_auto int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0);
		if (fd < 0)
			return -1;
	}
	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	*m = (struct placeholder){ .is_folder = is_folder, .device = st.st_dev, .inode = st.st_ino, .mount = i,
				   .len = (uint32_t)(end - path) };
	memcpy(m->name, name, strlen(name) + 1);
	m->folder = fcntl(folder, F_DUPFD_CLOEXEC, 0);
	if (m->folder < 0)
		return -1;
	k->nmade++;
	k->answer.len[i] = m->len;
	return 0;
}

/* Where the peer may not make it, the command may not either; and what is there by now is hidden as it is. */
static bool not_ours_to_make(int errnum)
{
	return errnum == EACCES || errnum == EROFS || errnum == EPERM || errnum == EEXIST;
}

static int keep(struct keeper *k, uint32_t i, const char *root)
{
	const char *p = path_of(k->job->plan, i) + strlen(root);
	char name[NAME_MAX + 1];
	if (made_before(k, i))
		return 0;
	fd_auto int at = open_path(AT_FDCWD, root, 0);
	while (at >= 0 && *p == '/') {
		size_t n = strcspn(++p, "/");
		if (n > NAME_MAX) {
			errno = ENAMETOOLONG;
			return -1;
		}
		memcpy(name, p, n);
		name[n] = 0;
		p += n;
		int next = open_path(at, name, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
		if (next < 0 && errno == ENOENT)
			return make(k, i, at, name, p) == 0 || not_ours_to_make(errno) ? 0 : -1;
		fd_close(&at);
		at = next;
	}
	/* Anything else that is wrong with the path is told by the step that mounts there. */
	return 0;
}

static void remove_all(struct keeper *k)
{
	struct stat st;
	while (k->nmade > 0) {
		struct placeholder *m = &k->made[--k->nmade];
		if (fstatat(m->folder, m->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == m->device && st.st_ino == m->inode &&
		    S_ISDIR(st.st_mode) == m->is_folder && (m->is_folder || st.st_size == 0))
			unlinkat(m->folder, m->name, m->is_folder ? AT_REMOVEDIR : 0);
		fd_close(&m->folder);
	}
}

/* For good. */
static int become_peer(const struct keeper_job *j)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };
	if (j->privileged &&
	    (syscall(SYS_setgroups, j->ngroups, j->groups) < 0 || syscall(SYS_setresgid, j->gid, j->gid, j->gid) < 0 ||
	     syscall(SYS_setresuid, j->uid, j->uid, j->uid) < 0))
		return -1;
	if (j->uid == 0)
		return 0; /* a root peer's: it acts as root does */
	return (int)syscall(SYS_capset, &head, none);
}

static _Noreturn void keeper_main(const struct keeper_job *job, int fd)
{
	struct keeper k = { .job = job };
	char byte;
	title_set(job->title, "bailiffd: keeper");
	umask(0);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (fd_close_range(0, (unsigned)fd - 1) < 0 || fd_close_range((unsigned)fd + 1, UINT_MAX) < 0 || become_peer(job) < 0)
		_exit(1);
	for (uint32_t i = 0; i < job->plan->mount_count && !k.answer.error; i++) {
		int root = write_root_of(job->plan, i);
		if (root >= 0 && keep(&k, i, path_of(job->plan, (uint32_t)root)) < 0)
			k.answer.error = errno ? errno : EIO;
	}
	if (k.answer.error)
		remove_all(&k);
	ssize_t n = send(fd, &k.answer, sizeof k.answer, MSG_NOSIGNAL);
	/* A byte from the init, or the end of everybody who holds the other end. */
	while (n > 0 && k.nmade && (n = recv(fd, &byte, 1, 0)) < 0 && errno == EINTR)
		n = 1;
	remove_all(&k);
	if (n == 1)
		send(fd, "", 1, MSG_NOSIGNAL);
	_exit(0);
}

/* ---- in the spawner ---- */

/* The guard is its parent and reaps it, as it does inits. */
static pid_t clone_keeper(const struct keeper_job *job, int fd)
{
	struct clone_args a = { .flags = CLONE_PARENT | CLONE_CLEAR_SIGHAND };
	pid_t pid = cgroup_clone(&a);
	if (pid == 0)
		keeper_main(job, fd);
	return pid;
}

static int take_answer(const struct keeper_job *job, int fd, uint32_t *placeholder, struct err *e)
{
	struct answer a;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;
	while ((n = poll(&p, 1, START_WAIT_MS)) < 0 && errno == EINTR)
		continue;
	if (n == 0)
		return err_sys(e, ETIMEDOUT, "make placeholders");
	if (recv(fd, &a, sizeof a, 0) != (ssize_t)sizeof a)
		return err_sys(e, EIO, "make placeholders");
	if (a.error)
		return err_sys(e, a.error, "make placeholders");
	for (uint32_t i = 0; i < job->plan->mount_count; i++)
		placeholder[i] = a.len[i] <= strlen(path_of(job->plan, i)) ? a.len[i] : 0;
	return 0;
}

int keeper_start(const struct keeper_job *job, uint32_t *placeholder, int *ret_fd, struct err *e)
{
	memset(placeholder, 0, job->plan->mount_count * sizeof *placeholder);
	if (job->plan->flags & PLAN_COW || !needed(job->plan)) {
		*ret_fd = -1;
		return 0;
	}
	int fds[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return err_sys(e, errno, "make a socket for the keeper");
	fd_auto int ours = fds[0], theirs = fds[1];
	if (clone_keeper(job, theirs) < 0)
		return err_sys(e, errno, "clone the keeper");
	fd_close(&theirs);
	if (take_answer(job, ours, placeholder, e) < 0)
		return -1;
	*ret_fd = fd_take(&ours);
	return 0;
}

/* ---- in the init ---- */

void keeper_finish(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	if (fd >= 0 && send(fd, "", 1, MSG_NOSIGNAL) == 1)
		poll(&p, 1, FINISH_WAIT_MS);
}
