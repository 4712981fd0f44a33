#include "supervisor/spawner/leftovers.h"

#include "runtime/base/buf.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/plan.h"
#include "sandbox/socket_counter.h"
#include "sandbox/steps/step.h"
#include "sandbox/steps/tree.h"
#include "supervisor/spawner/inherited.h"
#include "supervisor/spawner/net_state.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define ENTRIES_MAX 64 /* files and directories in the private ones of a new sandbox */
#define DEPTH_MAX 8

struct entry {
	uint64_t dev, ino, links;
	uint32_t mode, uid, gid, reserved;
	int64_t changed_s, changed_ns;    /* ctime; 0 of a file that the command's user cannot change */
	uint64_t free_blocks, free_files; /* of the file system; 0 if it is not a private directory itself */
};

enum entry_kind {
	ENTRY_BELOW,     /* in one of the others */
	ENTRY_PRIVATE,   /* a private directory itself */
	ENTRY_TERMINALS, /* the directory of terminals, whose ctime says nothing about its names */
};

/*
 * Files and directories with a descriptor of each. While the ctime of a directory is the same, so are the names in it.
 */
struct entries {
	struct entry list[ENTRIES_MAX];
	int fd[ENTRIES_MAX];
	enum entry_kind kind[ENTRIES_MAX];
	size_t count;
};

struct leftovers {
	uid_t uid;
	struct entries before; /* in private directories */
	int terminals;         /* the directory of terminals … */
	int terminals_before;  /* … and how many names it has */
	int queues;            /* the directory of POSIX message queues; −1 = the kernel has none */
	struct inherited inherited;
	bool own_network;
	struct net_state net;
	struct buf net_before, net_now;
	const volatile uint64_t *sockets; /* that were created in this sandbox and others; NULL = unknown */
	uint64_t sockets_before;          /* … when the network was last as in net_before */
};

/* ---- private directories ---- */

/*
 * A file without a name (O_TMPFILE) takes up space as long as a descriptor of it is open anywhere, and a lock lasts as
 * long.
 */
static int read_private(int fd, struct entry *ret)
{
	struct statfs fs;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 || flock(fd, LOCK_UN) < 0 || fstatfs(fd, &fs) < 0)
		return -1;
	ret->free_blocks = fs.f_bfree;
	ret->free_files = fs.f_ffree;
	return 0;
}

static int read_entry(int fd, enum entry_kind kind, uid_t uid, struct entry *ret)
{
	struct statx st;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &st) < 0)
		return -1;
	bool changeable = st.stx_uid == uid || (S_ISDIR(st.stx_mode) && kind != ENTRY_TERMINALS);
	*ret = (struct entry){ .dev = makedev(st.stx_dev_major, st.stx_dev_minor),
			       .ino = st.stx_ino,
			       .links = st.stx_nlink,
			       .mode = st.stx_mode,
			       .uid = st.stx_uid,
			       .gid = st.stx_gid,
			       .changed_s = changeable ? st.stx_ctime.tv_sec : 0,
			       .changed_ns = changeable ? st.stx_ctime.tv_nsec : 0 };
	return kind == ENTRY_BELOW ? 0 : read_private(fd, ret);
}

/* Takes the descriptor. */
static int add_entry(struct leftovers *l, int *fd, enum entry_kind kind)
{
	struct entries *e = &l->before;
	if (e->count == ENTRIES_MAX || read_entry(*fd, kind, l->uid, &e->list[e->count]) < 0)
		return -1;
	e->kind[e->count] = kind;
	e->fd[e->count++] = fd_take(fd);
	return 0;
}

static int add_folder(struct leftovers *l, int at, int depth);

/* What is mounted there is not the directory's own: it is shared with the host, or added by itself. */
static int add_name(struct leftovers *l, int at, const char *name, int depth)
{
	struct statx st;
	if (statx(at, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS, &st) < 0 ||
	    !(st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT))
		return -1;
	if (st.stx_attributes & STATX_ATTR_MOUNT_ROOT)
		return 0;
	bool folder = S_ISDIR(st.stx_mode);
	fd_auto int fd = openat(at, name, (folder ? O_RDONLY | O_DIRECTORY : O_PATH) | O_NOFOLLOW | O_CLOEXEC);
	int below = fd;
	if (fd < 0 || add_entry(l, &fd, ENTRY_BELOW) < 0)
		return -1;
	return !folder ? 0 : depth == DEPTH_MAX ? -1 : add_folder(l, below, depth + 1);
}

struct linux_dirent64 {
	uint64_t ino;
	int64_t next;
	uint16_t len;
	uint8_t type;
	char name[];
};

/* Calls add_name for each entry of the directory, or counts them if `l` is NULL. Returns their number, −1 on failure.
 */
static int list_folder(struct leftovers *l, int at, int depth)
{
	_Alignas(struct linux_dirent64) char room[2048];
	int count = 0;
	long n;
	while ((n = syscall(SYS_getdents64, at, room, sizeof room)) > 0) {
		for (long i = 0; i < n;) {
			const struct linux_dirent64 *f = (const struct linux_dirent64 *)(const void *)(room + i);
			i += f->len;
			if (strcmp(f->name, ".") == 0 || strcmp(f->name, "..") == 0)
				continue;
			if (l && add_name(l, at, f->name, depth) < 0)
				return -1;
			count++;
		}
	}
	return n < 0 ? -1 : count;
}

static int add_folder(struct leftovers *l, int at, int depth) { return list_folder(l, at, depth) < 0 ? -1 : 0; }

/* From the start, as it is now. */
static int count_names(int folder) { return lseek(folder, 0, SEEK_SET) != 0 ? -1 : list_folder(NULL, folder, 0); }

/* The directory may be missing, or covered by a tree of the host. */
static int add_private(struct leftovers *l, const struct step_context *c, const char *path)
{
	fd_auto int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ELOOP || errno == ENOTDIR ? 0 : -1;
	int folder = fd;
	if (!tree_is_own(c, fd))
		return 0;
	return add_entry(l, &fd, ENTRY_PRIVATE) < 0 ? -1 : add_folder(l, folder, 0);
}

static int add_all_private(struct leftovers *l, const struct step_context *c)
{
	static const char *const always[] = { "/tmp", "/var/tmp", "/dev/shm" };
	for (size_t i = 0; i < countof(always); i++) {
		if (add_private(l, c, always[i]) < 0)
			return -1;
	}
	for (uint32_t i = 0; i < c->plan->mount_count; i++) {
		const struct plan_mount *m = plan_mount(c->plan, i);
		if (m->kind == PLAN_MOUNT_EMPTY && add_private(l, c, plan_string(c->plan, m->path_off)) < 0)
			return -1;
	}
	return 0;
}

static int add_terminals(struct leftovers *l)
{
	fd_auto int fd = open("/dev/pts", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	l->terminals = fd;
	if (fd < 0 || add_entry(l, &fd, ENTRY_TERMINALS) < 0)
		return -1;
	l->terminals_before = list_folder(l, l->terminals, 0);
	return l->terminals_before < 0 ? -1 : 0;
}

static bool folders_changed(const struct leftovers *l)
{
	const struct entries *e = &l->before;
	for (size_t i = 0; i < e->count; i++) {
		struct entry now;
		if (read_entry(e->fd[i], e->kind[i], l->uid, &now) < 0 || memcmp(&now, &e->list[i], sizeof now) != 0)
			return true;
	}
	return count_names(l->terminals) != l->terminals_before;
}

/* ---- IPC ---- */

static bool has_ipc(const struct leftovers *l)
{
	struct shm_info shm;
	struct seminfo sem;
	struct msginfo msg;
	/* ENOSYS: the kernel has none. */
	if (shmctl(0, SHM_INFO, (struct shmid_ds *)(void *)&shm) < 0 ? errno != ENOSYS : shm.used_ids != 0)
		return true;
	if (semctl(0, 0, SEM_INFO, &sem) < 0 ? errno != ENOSYS : sem.semusz != 0)
		return true;
	if (msgctl(0, MSG_INFO, (struct msqid_ds *)(void *)&msg) < 0 ? errno != ENOSYS : msg.msgpool != 0)
		return true;
	return l->queues >= 0 && count_names(l->queues) != 0;
}

/* ---- network ---- */

/* The counters are read after the count of sockets: a socket that is created in between makes the next check read them.
 */
static bool record_network(struct leftovers *l, const volatile uint64_t *sockets)
{
	l->sockets = sockets && socket_counter_works(sockets) ? sockets : NULL;
	l->sockets_before = l->sockets ? *l->sockets : 0;
	return net_state_open(&l->net) && net_state_read(&l->net, &l->net_before);
}

static bool network_changed(struct leftovers *l)
{
	uint64_t sockets = l->sockets ? *l->sockets : 0;
	if (l->sockets && sockets == l->sockets_before)
		return !net_state_has_same_sockets(&l->net, &l->net_before);
	l->sockets_before = sockets;
	return !net_state_read(&l->net, &l->net_now) || l->net_now.len != l->net_before.len ||
	       memcmp(l->net_now.data, l->net_before.data, l->net_now.len) != 0;
}

/* ---- all ---- */

struct leftovers *leftovers_new(const struct step_context *c, const volatile uint64_t *sockets)
{
	/* Without these a command could reach a sandbox that it has left, through a descriptor that it sent out. */
	if (!(c->layers & PLAN_LAYER_LANDLOCK) || !(c->layers & PLAN_LAYER_MOUNTS) || c->outer_root || !c->queues_known)
		return NULL;
	struct leftovers *l = mem_zalloc(1, sizeof *l);
	l->uid = c->uid;
	l->queues = c->queues_fd;
	l->own_network = c->plan->network != PLAN_NET_HOST;
	if (add_all_private(l, c) < 0 || add_terminals(l) < 0 || has_ipc(l) || inherited_read(0, &l->inherited) < 0 ||
	    (l->own_network && !record_network(l, sockets))) {
		for (size_t i = 0; i < l->before.count; i++)
			fd_close(&l->before.fd[i]);
		buf_done(&l->net_before);
		free(l);
		return NULL;
	}
	return l;
}

bool leftovers_are_settled(const struct leftovers *l)
{
	struct timespec now;
	if (clock_gettime(CLOCK_REALTIME_COARSE, &now) < 0)
		return false;
	for (size_t i = 0; i < l->before.count; i++) {
		const struct entry *e = &l->before.list[i];
		if (e->changed_s > now.tv_sec || (e->changed_s == now.tv_sec && e->changed_ns >= now.tv_nsec))
			return false;
	}
	return true;
}

bool leftovers_exist(struct leftovers *l)
{
	struct inherited inherited;
	if (inherited_read(0, &inherited) < 0 || memcmp(&inherited, &l->inherited, sizeof inherited) != 0 || has_ipc(l))
		return true;
	if (folders_changed(l))
		return true;
	return l->own_network && network_changed(l);
}
