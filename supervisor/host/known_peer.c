#include "supervisor/host/known_peer.h"

#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/host/guard_link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GROUPS_COMPARED 1024 /* groups that are compared; a peer with more always counts as changed */

void known_peers_init(struct known_peers *k, struct guard_link *guard) { *k = (struct known_peers){ .guard = guard }; }

static void close_one(void *ctx, const char *name, void *value) { close((int)(intptr_t)value - 1); }

void known_peers_done(struct known_peers *k)
{
	strmap_each(&k->by_name, close_one, NULL);
	strmap_done(&k->by_name);
	for (size_t i = 0; i < k->npresent; i++)
		close(k->present[i]);
	free(k->present);
}

static void name_of(uint32_t uid, char ret[PLAN_KEY_MAX]) { snprintf(ret, PLAN_KEY_MAX, GUARD_PEER_PREFIX "%u", uid); }

void known_peers_restore(struct known_peers *k, const char *name, int fd)
{
	void *earlier = strmap_put(&k->by_name, name, (void *)(intptr_t)(fd + 1));

	if (earlier)
		close_one(NULL, name, earlier);
}

/* Without requested events poll reports only hangups and errors. */
static bool has_hung_up(int fd)
{
	struct pollfd p = { .fd = fd };

	return poll(&p, 1, 0) < 0 || p.revents;
}

/* Compacts in place; the order by age is kept. */
static void forget_absent(struct known_peers *k)
{
	size_t n = 0;

	for (size_t i = 0; i < k->npresent; i++) {
		if (has_hung_up(k->present[i]))
			close(k->present[i]);
		else
			k->present[n++] = k->present[i];
	}
	k->npresent = n;
}

/* The new socket goes to the end: `present` is ordered by age. */
static void note_present(struct known_peers *k, int peer_fd)
{
	int fd = fcntl(peer_fd, F_DUPFD_CLOEXEC, 3);

	forget_absent(k);
	if (fd < 0)
		return;
	k->present = mem_realloc(k->present, (k->npresent + 1) * sizeof *k->present);
	k->present[k->npresent++] = fd;
}

int known_peers_find(struct known_peers *k, uint32_t uid)
{
	char name[PLAN_KEY_MAX];

	if (uid == 0)
		forget_absent(k);
	if (uid == 0 && k->npresent)
		return k->present[0]; /* the oldest connection is the least likely to end now */
	name_of(uid, name);
	return (int)(intptr_t)strmap_get(&k->by_name, name) - 1;
}

/* The gid, then the supplementary groups; −1 = unknown. */
static ssize_t groups_of(int fd, gid_t ret[GROUPS_COMPARED])
{
	struct ucred cred;
	socklen_t len = sizeof cred, size = (GROUPS_COMPARED - 1) * sizeof *ret;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, ret + 1, &size) < 0)
		return -1;
	ret[0] = cred.gid;
	return 1 + (ssize_t)(size / sizeof *ret);
}

static bool same_groups(int a, int b)
{
	gid_t one[GROUPS_COMPARED], other[GROUPS_COMPARED];
	ssize_t n = groups_of(a, one);

	return n >= 0 && groups_of(b, other) == n && memcmp(one, other, (size_t)n * sizeof *one) == 0;
}

/* The socket that is kept identifies the peer as long as its groups are the same, even after it was disconnected. */
void known_peers_add(struct known_peers *k, uint32_t uid, int peer_fd)
{
	struct plan_key key = { 0 };
	int fds[GUARD_SLOT_COUNT];

	name_of(uid, key.id);
	int earlier = (int)(intptr_t)strmap_get(&k->by_name, key.id) - 1;
	if (uid == 0)
		note_present(k, peer_fd);
	if (earlier >= 0 && same_groups(earlier, peer_fd))
		return;
	int fd = fcntl(peer_fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0) {
		log_warning("keep the socket of uid %u: %s", uid, strerror(errno));
		return;
	}
	for (int i = 0; i < GUARD_SLOT_COUNT; i++)
		fds[i] = i == GUARD_SLOT_STDIN ? fd : -1;
	guard_link_deposit(k->guard, &key, 1u << GUARD_SLOT_STDIN, fds);
	known_peers_restore(k, key.id, fd);
}
