#include "supervisor/spawner/idmap.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "sandbox/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
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

/* 0 and the id change places, every other id is itself. */
static int write_map(pid_t pid, const char *which, uid_t id)
{
	char path[64], map[160];
	snprintf(path, sizeof path, "/proc/%d/%s", pid, which);
	int n = snprintf(map, sizeof map, "0 %u 1\n1 1 %u\n%u 0 1\n%u %u %u\n", id, id - 1, id, id + 1, id + 1, UINT32_MAX - 1 - id);
	fd_auto int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, map, (size_t)n) != n ? -1 : 0;
}

static int make(uid_t id, struct err *e)
{
	struct clone_args a = { .flags = CLONE_NEWUSER | CLONE_CLEAR_SIGHAND };
	pid_t self = getpid(), pid = cgroup_clone(&a);
	if (pid == 0) {
		/* Only as long as we are there to end it. */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != self)
			_exit(1);
		for (;;)
			pause();
	}
	if (pid < 0)
		return err_sys(e, errno, "make a user namespace");
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
	int fd = write_map(pid, "uid_map", id) < 0 || write_map(pid, "gid_map", id) < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	int errnum = errno;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		continue;
	return fd < 0 ? err_sys(e, errnum, "map ids in a user namespace") : fd;
}

static unsigned choose(struct idmap *m)
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
	unsigned i = choose(m);
	if (m->fd[i] < 0) {
		int fd = make(IDMAP_FIRST + i, e);
		if (fd < 0)
			return -1;
		m->fd[i] = fd;
	}
	m->taken[i] = true;
	m->by[i] = *key;
	*ret_id = IDMAP_FIRST + i;
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
