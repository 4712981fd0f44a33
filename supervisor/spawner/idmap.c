#include "supervisor/spawner/idmap.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/path.h"
#include "sandbox/cgroup.h"
#include "sandbox/host_fingerprint.h"
#include "sandbox/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

void idmap_init(struct idmap *m, uid_t avoid)
{
	unsigned from = 0;
	if (getrandom(&from, sizeof from, GRND_NONBLOCK) != (ssize_t)sizeof from)
		from = (unsigned)getpid();
	*m = (struct idmap){ .avoid = avoid, .from = from % IDMAP_COUNT };
	for (unsigned i = 0; i < IDMAP_COUNT; i++)
		m->fd[i] = -1;
}

void idmap_done(struct idmap *m)
{
	for (unsigned i = 0; i < IDMAP_COUNT; i++)
		fd_close(&m->fd[i]);
}

static int make_userns(uid_t id, struct err *e)
{
	struct clone_args a = { .flags = CLONE_NEWUSER | CLONE_CLEAR_SIGHAND };
	pid_t self = getpid(), pid = cgroup_clone(&a);
	if (pid == 0) {
		/* The child must not outlive the spawner. */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != self)
			_exit(1);
		for (;;)
			pause();
	}
	if (pid < 0)
		return userns_failed(USERNS_STAGE_CLONE, errno, e); /* user.max_user_namespaces limits root, too */
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
	int fd = userns_write_swap(pid, id) < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	int errnum = errno;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		continue;
	return fd < 0 ? err_sys(e, errnum, "map ids in a user namespace") : fd;
}

static unsigned choose_id(struct idmap *m)
{
	unsigned i;
	for (unsigned n = 0; n < IDMAP_COUNT; n++) {
		i = (m->from + n) % IDMAP_COUNT;
		if (!m->taken[i] && IDMAP_FIRST + i != m->avoid)
			return i;
	}
	do
		i = m->turn++ % IDMAP_COUNT;
	while (IDMAP_FIRST + i == m->avoid);
	return i;
}

int idmap_take(struct idmap *m, const struct plan_key *key, uid_t *ret_id, int *ret_fd, struct err *e)
{
	unsigned i = choose_id(m);
	if (ret_fd && m->fd[i] < 0) {
		int fd = make_userns(IDMAP_FIRST + i, e);
		if (fd < 0)
			return -1;
		m->fd[i] = fd;
	}
	m->taken[i] = true;
	m->by[i] = *key;
	*ret_id = IDMAP_FIRST + i;
	if (ret_fd)
		*ret_fd = m->fd[i];
	return 0;
}

void idmap_pass_on(struct idmap *m, const struct plan_key *from, const struct plan_key *to)
{
	for (unsigned i = 0; i < IDMAP_COUNT; i++) {
		if (m->taken[i] && memcmp(&m->by[i], from, sizeof *from) == 0)
			m->by[i] = *to;
	}
}

void idmap_release(struct idmap *m, const struct plan_key *key)
{
	for (unsigned i = 0; i < IDMAP_COUNT; i++) {
		if (m->taken[i] && memcmp(&m->by[i], key, sizeof *key) == 0)
			m->taken[i] = false;
	}
}

/* ---- supported file systems ---- */

/* Returns 1 if ids can be mapped, 0 if this file system does not support it, −1 if unknown. */
static int try_mapping(int source, int userns)
{
	struct mount_attr a = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns };
	fd_auto int tree = open_tree(source, "", (unsigned)(OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH));
	if (tree < 0)
		return -1;
	if (mount_setattr(tree, "", AT_EMPTY_PATH, &a, sizeof a) == 0)
		return 1;
	/*
	 * EINVAL: not supported here; EPERM: the mount belongs to an outer user namespace; ENOSYS: the kernel is too
	 * old.
	 */
	return errno == EINVAL || errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS ? 0 : -1;
}

/* Its file system may never answer: if the path is not cached, the nearest folder on the way that is stands for it. */
static int open_cached(const char *path)
{
	char at[PATH_MAX];
	int fd;
	snprintf(at, sizeof at, "%s", path);
	do
		fd = fingerprint_open(at, true, true);
	while (fd < 0 && errno == EAGAIN && path_up(at));
	return fd;
}

bool idmap_can_map(struct idmap *m, const char *path, int userns)
{
	struct statx st;
	fd_auto int source = open_cached(path);
	if (source < 0 || statx(source, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0)
		return true; /* a missing path is reported by a later step */
	const dev_t device = makedev(st.stx_dev_major, st.stx_dev_minor);
	for (size_t i = 0; i < m->ndevices; i++) {
		if (m->device[i] == device)
			return m->mapped[i];
	}
	int r = try_mapping(source, userns);
	if (r < 0)
		return true;
	size_t at = m->ndevices < IDMAP_DEVICES ? m->ndevices++ : m->turn++ % IDMAP_DEVICES;
	m->device[at] = device;
	m->mapped[at] = r;
	return r;
}

void idmap_forget_devices(struct idmap *m) { m->ndevices = 0; }
