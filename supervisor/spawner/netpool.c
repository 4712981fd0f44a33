#include "supervisor/spawner/netpool.h"

#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "sandbox/loopback.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#define READ_MAX 16384

void netpool_init(struct netpool *p, bool privileged)
{
	*p = (struct netpool){ .home = privileged ? open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC) : -1 };
}

void netpool_done(struct netpool *p)
{
	while (p->count > 0)
		fd_close(&p->fd[--p->count]);
	while (p->nused > 0)
		fd_close(&p->used[--p->nused].fd);
	fd_close(&p->home);
	buf_done(&p->fresh);
	buf_done(&p->seen);
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

bool netpool_wants(const struct netpool *p) { return p->asked && p->home >= 0 && p->count < NETPOOL_NEW; }

static bool read_file(int folder, const char *name, bool first_line, struct buf *out)
{
	fd_auto int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
	size_t begin = out->len;
	ssize_t n;
	if (fd < 0)
		return false;
	while ((n = read(fd, buf_reserve(out, READ_MAX), READ_MAX)) > 0)
		buf_extend(out, (size_t)n);
	const char *end = first_line && out->len > begin ? memchr(out->data + begin, '\n', out->len - begin) : NULL;
	if (end)
		out->len = (size_t)(end - out->data) + 1;
	return n == 0 && out->len > begin;
}

/* Reads all that the kernel reports about use of the caller's network namespace. False = it does not report all. */
static bool read_state(struct buf *out)
{
	static const struct {
		const char *name;
		bool first_line; /* the others of sockstat are about the whole machine */
	} files[] = { { "sockstat", true }, { "dev", false },     { "snmp", false },
		      { "snmp6", false },   { "netstat", false }, { "ip6_flowlabel", false } };
	fd_auto int folder = open("/proc/self/net", O_PATH | O_DIRECTORY | O_CLOEXEC);
	buf_reset(out);
	for (size_t i = 0; i < countof(files); i++) {
		if (folder < 0 || !read_file(folder, files[i].name, files[i].first_line, out))
			return false;
	}
	return true;
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
		log_info("no network namespaces are made ahead: %s", strerror(errno));
		netpool_done(p);
		return;
	}
	int fd = loopback_up() < 0 ? -1 : open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	/* Without a complete state to compare with, none is used again. */
	if (!p->fresh.len && !read_state(&p->fresh))
		buf_reset(&p->fresh);
	return_home(p);
	if (fd < 0)
		netpool_done(p);
	else
		p->fd[p->count++] = fd;
}

static bool is_unused(struct netpool *p, int fd)
{
	static const char no_socket[] = "sockets: used 0\n";
	if (p->home < 0 || p->fresh.len < sizeof no_socket ||
	    memcmp(p->fresh.data, no_socket, sizeof no_socket - 1) != 0 || setns(fd, CLONE_NEWNET) < 0)
		return false;
	bool same = read_state(&p->seen) && p->seen.len == p->fresh.len &&
		    memcmp(p->seen.data, p->fresh.data, p->fresh.len) == 0;
	return_home(p);
	return same;
}

void netpool_give_back(struct netpool *p, int fd, uid_t owner)
{
	fd_auto int ns = fd;
	if (ns < 0 || !is_unused(p, ns))
		return;
	if (p->nused == NETPOOL_MAX) {
		fd_auto int oldest = take_used(p, 0);
		(void)oldest;
	}
	p->used[p->nused].owner = owner;
	p->used[p->nused++].fd = fd_take(&ns);
}
