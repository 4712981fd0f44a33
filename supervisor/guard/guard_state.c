#include "supervisor/guard/guard.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * An upgrade replaces the guard's program in the same process, because inits are its children and die with it. The new
 * program gets a memfd with the numbers of all descriptors that must survive, which lose CLOEXEC for the exec and get
 * it back afterwards, also if the exec fails.
 *
 * GONE entries are not saved: the runtime that waits for their answer is replaced as well. The children keep running
 * across the exec, and guard.c replaces them then: messages that they have sent are still in their links.
 *
 * The new program cannot go back. If it rejects the state, it exits, and all commands with it. So the format may only
 * grow at the end: of the head by roles (head_size), of an entry by slots (entry_size).
 */

#define STATE_MAGIC 0x54534742u /* "BGST" */
#define STATE_VERSION 2u

/* Descriptors are stored as numbers: the process stays the same across exec. */
struct state_head {
	uint32_t magic, version, head_size, entry_size, count;
	int32_t listen_fd, store_fd, spool_fd, lock_fd, audit_fd;
	struct {
		int32_t pid, pidfd, link;
	} child[GUARD_ROLES];
};

struct state_entry {
	struct plan_key key;
	int32_t pid;
	uint32_t dying;
	int32_t fd[GUARD_SLOT_COUNT];
};

static void set_inheritable(int fd, bool across_exec)
{
	if (fd >= 0)
		fd_cloexec(fd, !across_exec);
}

void guard_state_set_inheritable(const struct guard *g, bool across_exec)
{
	set_inheritable(g->o->listen_fd, across_exec);
	set_inheritable(g->o->store_fd, across_exec);
	set_inheritable(g->o->spool_fd, across_exec);
	set_inheritable(g->o->lock_fd, across_exec);
	set_inheritable(g->o->audit_fd, across_exec);
	for (int i = 0; i < GUARD_ROLES; i++) {
		set_inheritable(g->child[i].pidfd, across_exec);
		set_inheritable(g->child[i].link, across_exec);
	}
	for (size_t i = 0; i < g->store.high; i++) {
		if (g->store.entries[i].state == FD_STORE_FREE)
			continue;
		for (int slot = 0; slot < GUARD_SLOT_COUNT; slot++)
			set_inheritable(g->store.entries[i].fd[slot], across_exec);
	}
}

static int write_entries(const struct guard *g, int fd, uint32_t *ret_count)
{
	uint32_t count = 0;
	for (size_t i = 0; i < g->store.high; i++) {
		const struct fd_store_entry *en = &g->store.entries[i];
		if (en->state != FD_STORE_HELD && en->state != FD_STORE_DYING)
			continue;
		struct state_entry s = { .key = en->key, .pid = en->pid, .dying = en->state == FD_STORE_DYING };
		for (int slot = 0; slot < GUARD_SLOT_COUNT; slot++)
			s.fd[slot] = en->fd[slot];
		if (fd_write_all(fd, &s, sizeof s) < 0)
			return -1;
		count++;
	}
	*ret_count = count;
	return 0;
}

int guard_state_save(const struct guard *g)
{
	fd_auto int fd = memfd_create("bailiff-guard", 0);
	struct state_head h = {
		.magic = STATE_MAGIC,
		.version = STATE_VERSION,
		.head_size = sizeof h,
		.entry_size = sizeof(struct state_entry),
		.listen_fd = g->o->listen_fd,
		.store_fd = g->o->store_fd,
		.spool_fd = g->o->spool_fd,
		.lock_fd = g->o->lock_fd,
		.audit_fd = g->o->audit_fd,
	};
	for (int i = 0; i < GUARD_ROLES; i++) {
		h.child[i].pid = g->child[i].pid;
		h.child[i].pidfd = g->child[i].pidfd;
		h.child[i].link = g->child[i].link;
	}
	if (fd < 0 || fd_write_all(fd, &h, sizeof h) < 0 || write_entries(g, fd, &h.count) < 0)
		return -1;
	if (pwrite(fd, &h, sizeof h, 0) != (ssize_t)sizeof h || lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	guard_state_set_inheritable(g, true);
	return fd_take(&fd);
}

/* An older program had fewer slots: those that it lacks are empty. */
static int read_entry(struct guard *g, int fd, size_t size)
{
	struct state_entry s;
	for (int slot = 0; slot < GUARD_SLOT_COUNT; slot++)
		s.fd[slot] = -1;
	if (fd_read_all(fd, &s, size) != (ssize_t)size)
		return -1;
	struct fd_store_entry *en = fd_store_get(&g->store, &s.key);
	if (!en)
		return -1;
	en->pid = s.pid;
	for (int slot = 0; slot < GUARD_SLOT_COUNT; slot++)
		en->fd[slot] = s.fd[slot];
	g->store.nlimited += en->fd[GUARD_SLOT_LIMIT] >= 0;
	if (s.dying)
		fd_store_release(&g->store, en, false);
	return 0;
}

/* An older program had fewer roles: its head is shorter, and the roles that it lacks have no child. */
static int read_head(int fd, struct state_head *h)
{
	size_t start = offsetof(struct state_head, entry_size);
	*h = (struct state_head){ 0 };
	if (fd_read_all(fd, h, start) != (ssize_t)start || h->magic != STATE_MAGIC || h->version != STATE_VERSION ||
	    h->head_size < offsetof(struct state_head, child) || h->head_size > sizeof *h)
		return -1;
	for (int i = 0; i < GUARD_ROLES; i++)
		h->child[i].pidfd = h->child[i].link = -1;
	size_t rest = h->head_size - start;
	return fd_read_all(fd, (char *)h + start, rest) == (ssize_t)rest ? 0 : -1;
}

int guard_state_load(struct guard *g, struct guard_options *o, int fd)
{
	fd_auto int state = fd;
	struct state_head h;
	if (read_head(state, &h) < 0 || h.entry_size < offsetof(struct state_entry, fd) ||
	    h.entry_size > sizeof(struct state_entry))
		return -1;
	o->listen_fd = h.listen_fd;
	o->store_fd = h.store_fd;
	o->spool_fd = h.spool_fd;
	o->lock_fd = h.lock_fd;
	o->audit_fd = h.audit_fd;
	for (int i = 0; i < GUARD_ROLES; i++) {
		g->child[i].pid = h.child[i].pid;
		g->child[i].pidfd = h.child[i].pidfd;
		g->child[i].link = h.child[i].link;
	}
	for (uint32_t i = 0; i < h.count; i++) {
		if (read_entry(g, state, h.entry_size) < 0)
			return -1;
	}
	guard_state_set_inheritable(g, false);
	return 0;
}
