#include "supervisor/guard/fd_store.h"

#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

void fd_store_init(struct fd_store *v, size_t cap)
{
	*v = (struct fd_store){
		.entries = mem_zalloc(cap, sizeof *v->entries),
		.hashes = mem_zalloc(cap, sizeof *v->hashes),
		.cap = cap,
	};
}

void fd_store_done(struct fd_store *v)
{
	for (size_t i = 0; i < v->high; i++) {
		if (v->entries[i].state != FD_STORE_FREE)
			fd_store_withdraw(v, &v->entries[i], ~0u);
	}
	free(v->entries);
	free(v->hashes);
	*v = (struct fd_store){ 0 };
}

/* FNV-1a; never 0, which marks a free entry. */
static uint32_t key_hash(const struct plan_key *key)
{
	const unsigned char *p = (const unsigned char *)key;
	uint32_t h = 2166136261u;
	for (size_t i = 0; i < sizeof *key; i++)
		h = (h ^ p[i]) * 16777619u;
	return h ? h : 1;
}

struct fd_store_entry *fd_store_find(const struct fd_store *v, const struct plan_key *key)
{
	uint32_t h = key_hash(key);
	for (size_t i = 0; i < v->high; i++) {
		if (v->hashes[i] == h && memcmp(&v->entries[i].key, key, sizeof *key) == 0)
			return &v->entries[i];
	}
	return NULL;
}

struct fd_store_entry *fd_store_get(struct fd_store *v, const struct plan_key *key)
{
	struct fd_store_entry *en = fd_store_find(v, key);
	if (en)
		return en;
	size_t i = 0;
	while (i < v->high && v->hashes[i])
		i++;
	if (i == v->cap)
		return NULL;
	if (i == v->high)
		v->high++;
	en = &v->entries[i];
	*en = (struct fd_store_entry){ .key = *key, .state = FD_STORE_HELD };
	for (int slot = 0; slot < GUARD_SLOT_COUNT; slot++)
		en->fd[slot] = -1;
	v->hashes[i] = key_hash(key);
	return en;
}

void fd_store_deposit(struct fd_store *v, struct fd_store_entry *en, uint32_t slots, const int *fds, pid_t pid)
{
	size_t n = 0;
	v->nlimited -= en->fd[GUARD_SLOT_LIMIT] >= 0;
	for (int slot = 0; slot < GUARD_SLOT_COUNT; slot++) {
		if (!(slots & 1u << slot))
			continue;
		fd_close(&en->fd[slot]);
		en->fd[slot] = fds[n++];
	}
	if (slots & 1u << GUARD_SLOT_PIDFD)
		en->pid = pid;
	v->nlimited += en->fd[GUARD_SLOT_LIMIT] >= 0;
}

void fd_store_withdraw(struct fd_store *v, struct fd_store_entry *en, uint32_t slots)
{
	v->nlimited -= slots & 1u << GUARD_SLOT_LIMIT && en->fd[GUARD_SLOT_LIMIT] >= 0;
	for (int slot = 0; slot < GUARD_SLOT_COUNT; slot++) {
		if (slots & 1u << slot)
			fd_close(&en->fd[slot]);
	}
}

size_t fd_store_list(const struct fd_store_entry *en, int fds[GUARD_SLOT_COUNT], uint32_t *ret_slots)
{
	size_t n = 0;
	*ret_slots = 0;
	for (int slot = 0; slot < GUARD_SLOT_COUNT && en->state == FD_STORE_HELD; slot++) {
		if (en->fd[slot] < 0)
			continue;
		fds[n++] = en->fd[slot];
		*ret_slots |= 1u << slot;
	}
	return n;
}

void fd_store_kill(struct fd_store_entry *en)
{
	en->killed = en->fd[GUARD_SLOT_PIDFD] >= 0;
	if (en->killed)
		fd_pidfd_signal(en->fd[GUARD_SLOT_PIDFD], SIGKILL);
}

static void set_state(struct fd_store *v, struct fd_store_entry *en, enum fd_store_state state)
{
	v->ndying -= en->state == FD_STORE_DYING;
	v->ngone -= en->state == FD_STORE_GONE;
	en->state = state;
	v->ndying += en->state == FD_STORE_DYING;
	v->ngone += en->state == FD_STORE_GONE;
}

/* Only the init has the other end of the status socket. It closes that when no process of the command is left. */
static bool has_ended_command(const struct fd_store_entry *en)
{
	struct pollfd p = { .fd = en->fd[GUARD_SLOT_STATUS] };
	return p.fd >= 0 && poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

/*
 * A dead init is reaped at once. A live one is killed, and the loop polls its pidfd: the guard never waits for it,
 * since an init in uninterruptible sleep would block everything else.
 */
void fd_store_release(struct fd_store *v, struct fd_store_entry *en, bool keep)
{
	if (en->state != FD_STORE_HELD)
		return;
	struct pollfd p = { .fd = en->fd[GUARD_SLOT_PIDFD], .events = POLLIN };
	if (p.fd >= 0 && poll(&p, 1, 0) == 0 && keep && !en->killed && has_ended_command(en)) {
		fd_store_withdraw(v, en, ~0u);
		en->pid = 0;
		set_state(v, en, FD_STORE_GONE);
		return;
	}
	if (p.fd >= 0 && poll(&p, 1, 0) == 0) {
		en->was_alive = true;
		fd_store_kill(en);
		/* A stopped or gated command must see its pipes close no later than its init's death. */
		fd_store_withdraw(v, en, ~(1u << GUARD_SLOT_PIDFD));
		set_state(v, en, FD_STORE_DYING);
		return;
	}
	set_state(v, en, FD_STORE_DYING);
	fd_store_reap(v, en);
}

void fd_store_reap(struct fd_store *v, struct fd_store_entry *en)
{
	siginfo_t info = { 0 };
	if (en->fd[GUARD_SLOT_PIDFD] >= 0)
		waitid(P_PIDFD, (id_t)en->fd[GUARD_SLOT_PIDFD], &info, WEXITED | WNOHANG);
	/* The exit status is the runtime's concern; log only an end that the guard did not cause, for the operator. */
	if (!en->was_alive && info.si_code != 0 && (info.si_code != CLD_EXITED || info.si_status != 0))
		log_info("the init of %s %s %d", en->key.id,
			 info.si_code == CLD_EXITED ? "left with status" : "was killed by signal", info.si_status);
	fd_store_withdraw(v, en, ~0u);
	en->pid = 0;
	set_state(v, en, FD_STORE_GONE);
}

/* `high` shrinks, so that scans stay short after a burst of processes. */
void fd_store_forget(struct fd_store *v, struct fd_store_entry *en)
{
	fd_store_withdraw(v, en, ~0u);
	set_state(v, en, FD_STORE_FREE);
	v->hashes[en - v->entries] = 0;
	memset(&en->key, 0, sizeof en->key);
	while (v->high && !v->hashes[v->high - 1])
		v->high--;
}

/* −1: nothing to wait for. A timer counts only once there is an init to kill: before, the gate is closed. */
static int awaited_fd(const struct fd_store_entry *en)
{
	if (en->state == FD_STORE_DYING)
		return en->fd[GUARD_SLOT_PIDFD];
	return en->state == FD_STORE_HELD && en->fd[GUARD_SLOT_PIDFD] >= 0 ? en->fd[GUARD_SLOT_LIMIT] : -1;
}

size_t fd_store_fill_polls(const struct fd_store *v, struct pollfd *ret)
{
	size_t n = 0;
	for (size_t i = 0; (v->ndying || v->nlimited) && i < v->high; i++) {
		int fd = awaited_fd(&v->entries[i]);
		if (fd >= 0)
			ret[n++] = (struct pollfd){ .fd = fd, .events = POLLIN };
	}
	return n;
}

/* The timer is closed after its expiry: it would stay readable. The entry stays for the runtime, like after a kill. */
void fd_store_handle_polls(struct fd_store *v, const struct pollfd *polls)
{
	size_t n = 0;
	for (size_t i = 0; (v->ndying || v->nlimited) && i < v->high; i++) {
		struct fd_store_entry *en = &v->entries[i];
		if (awaited_fd(en) < 0 || !polls[n++].revents)
			continue;
		if (en->state == FD_STORE_DYING) {
			fd_store_reap(v, en);
			continue;
		}
		log_warning("the time of %s is over: its init is killed", en->key.id);
		fd_store_kill(en);
		fd_store_withdraw(v, en, 1u << GUARD_SLOT_LIMIT);
	}
}

struct fd_store_entry *fd_store_next(const struct fd_store *v, size_t index)
{
	for (size_t i = index; i < v->high; i++) {
		if (v->entries[i].state == FD_STORE_HELD || v->entries[i].state == FD_STORE_DYING)
			return &v->entries[i];
	}
	return NULL;
}

bool fd_store_owns_pid(const struct fd_store *v, pid_t pid)
{
	for (size_t i = 0; i < v->high; i++) {
		if (v->entries[i].state != FD_STORE_FREE && v->entries[i].pid == pid)
			return true;
	}
	return false;
}

void fd_store_disconnect_clients(struct fd_store *v)
{
	for (size_t i = 0; i < v->high; i++) {
		const struct fd_store_entry *en = &v->entries[i];

		if (en->state == FD_STORE_HELD &&
		    strncmp(en->key.id, GUARD_PEER_PREFIX, strlen(GUARD_PEER_PREFIX)) == 0)
			shutdown(en->fd[GUARD_SLOT_STDIN], SHUT_RDWR);
	}
}
