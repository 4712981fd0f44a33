#include "supervisor/spawner/netpool.h"

#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "sandbox/loopback.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void netpool_init(struct netpool *p, bool privileged)
{
	*p = (struct netpool){ .home = privileged ? open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC) : -1 };
}

static int take_used(struct netpool *p, size_t i)
{
	int fd = p->used[i].fd;
	p->nused--;
	memmove(p->used + i, p->used + i + 1, (p->nused - i) * sizeof *p->used);
	return fd;
}

int netpool_take(struct netpool *p, uid_t owner)
{
	p->asked = true;
	for (size_t i = p->nused; i-- > 0;) {
		if (p->used[i].owner == owner)
			return take_used(p, i);
	}
	return p->count > 0 ? p->fd[--p->count] : -1;
}

bool netpool_is_short(const struct netpool *p) { return p->asked && p->home >= 0 && p->count < NETPOOL_NEW; }

static void close_files(struct netpool_files *f)
{
	if (f->id)
		net_state_close(&f->state);
	f->id = 0;
}

void netpool_done(struct netpool *p)
{
	while (p->count > 0)
		fd_close(&p->fd[--p->count]);
	while (p->nused > 0)
		fd_close(&p->used[--p->nused].fd);
	for (size_t i = 0; i < NETPOOL_OPEN; i++)
		close_files(&p->open[i]);
	fd_close(&p->home);
	buf_done(&p->fresh);
	buf_done(&p->seen);
}

static uint64_t id_of(int fd)
{
	struct stat st;
	return fstat(fd, &st) < 0 ? 0 : st.st_ino;
}

/* As long as they are open, no other namespace has the id. */
static struct netpool_files *files_of(struct netpool *p, uint64_t id)
{
	for (size_t i = 0; id && i < NETPOOL_OPEN; i++) {
		if (p->open[i].id == id)
			return &p->open[i];
	}
	return NULL;
}

static void forget_files(struct netpool *p, int fd)
{
	struct netpool_files *f = files_of(p, id_of(fd));
	if (f)
		close_files(f);
}

/* Instead of those of the namespace that was created first: usually a sandbox is still running in it. */
static struct netpool_files *oldest_files(struct netpool *p)
{
	struct netpool_files *f = &p->open[p->turn++ % NETPOOL_OPEN];
	close_files(f);
	return f;
}

/* Of the caller's namespace. */
static bool open_files(uint64_t id, struct netpool_files *ret)
{
	bool all = net_state_open(&ret->state);
	ret->id = all ? id : 0;
	return all;
}

/* No later work may happen in another namespace. */
static void return_home(const struct netpool *p)
{
	if (setns(p->home, CLONE_NEWNET) == 0)
		return;
	log_error("return to the own network namespace: %s; leaving", strerror(errno));
	_exit(1);
}

void netpool_fill(struct netpool *p)
{
	if (unshare(CLONE_NEWNET) < 0) {
		log_info("cannot prebuild network namespaces: %s", strerror(errno));
		netpool_done(p);
		return;
	}
	int fd = loopback_up() < 0 ? -1 : open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	/* Without a complete state to compare with, none is used again. */
	struct netpool_files *f = oldest_files(p);
	if (fd >= 0 && open_files(id_of(fd), f) && !p->fresh.len && !net_state_read(&f->state, &p->fresh))
		buf_reset(&p->fresh);
	return_home(p);
	if (fd < 0)
		netpool_done(p);
	else
		p->fd[p->count++] = fd;
}

/* Opens the files of a namespace again, after those of others have replaced them. */
static struct netpool_files *open_again(struct netpool *p, int fd)
{
	uint64_t id = id_of(fd);
	if (p->home < 0 || !id || setns(fd, CLONE_NEWNET) < 0)
		return NULL;
	struct netpool_files *f = oldest_files(p);
	bool all = open_files(id, f);
	return_home(p);
	return all ? f : NULL;
}

static bool is_unused(struct netpool *p, int fd)
{
	if (!net_state_has_no_socket(&p->fresh))
		return false;
	const struct netpool_files *f = files_of(p, id_of(fd));
	if (!f)
		f = open_again(p, fd);
	return f && net_state_read(&f->state, &p->seen) && p->seen.len == p->fresh.len &&
	       memcmp(p->seen.data, p->fresh.data, p->fresh.len) == 0;
}

void netpool_give_back(struct netpool *p, int fd, uid_t owner)
{
	fd_auto int ns = fd;
	if (ns < 0)
		return;
	if (!is_unused(p, ns)) {
		forget_files(p, ns);
		return;
	}
	if (p->nused == NETPOOL_MAX) {
		fd_auto int oldest = take_used(p, 0);
		forget_files(p, oldest);
	}
	p->used[p->nused].owner = owner;
	p->used[p->nused++].fd = fd_take(&ns);
}
