#include "supervisor/spawner/leftovers.h"

#include "runtime/base/buf.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/plan.h"
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

#define FOLDERS_MAX 8
#define ENTRIES_MAX 64 /* files and directories in the private ones of a new sandbox */
#define DEPTH_MAX 8

struct entry {
	uint64_t dev, ino, links;
	uint32_t mode, uid, gid, reserved;
	int64_t changed_s, changed_ns;    /* ctime; 0 if the command's user cannot change it */
	uint64_t free_blocks, free_files; /* of the file system; 0 if it is not a private directory itself */
};

struct entries {
	struct entry list[ENTRIES_MAX];
	size_t count;
	size_t most; /* more is too many */
};

struct leftovers {
	uid_t uid;
	const char *folder[FOLDERS_MAX]; /* paths of private directories, valid as long as this */
	size_t nfolders;
	int queues; /* the directory of POSIX message queues; −1 = the kernel has none */
	struct entries before, now;
	struct inherited inherited;
	bool own_network;
	struct net_state net;
	struct buf net_before, net_now;
};

/* ---- private directories ---- */

static int add_entry(struct entries *e, const struct statx *st, uid_t uid)
{
	if (e->count == e->most)
		return -1;
	bool changeable = st->stx_uid == uid;
	e->list[e->count++] = (struct entry){ .dev = makedev(st->stx_dev_major, st->stx_dev_minor),
					      .ino = st->stx_ino,
					      .links = st->stx_nlink,
					      .mode = st->stx_mode,
					      .uid = st->stx_uid,
					      .gid = st->stx_gid,
					      .changed_s = changeable ? st->stx_ctime.tv_sec : 0,
					      .changed_ns = changeable ? st->stx_ctime.tv_nsec : 0 };
	return 0;
}

static int add_folder(struct entries *e, int at, uid_t uid, int depth);

/* What is mounted there is not the directory's own: it is shared with the host, or added by itself. */
static int add_name(struct entries *e, int at, const char *name, uid_t uid, int depth)
{
	struct statx st;
	if (statx(at, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS, &st) < 0 ||
	    !(st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT))
		return -1;
	if (st.stx_attributes & STATX_ATTR_MOUNT_ROOT)
		return 0;
	if (add_entry(e, &st, uid) < 0)
		return -1;
	if (!S_ISDIR(st.stx_mode))
		return 0;
	fd_auto int below = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return below < 0 || depth == DEPTH_MAX ? -1 : add_folder(e, below, uid, depth + 1);
}

struct linux_dirent64 {
	uint64_t ino;
	int64_t next;
	uint16_t len;
	uint8_t type;
	char name[];
};

/* Calls add_name for each entry of the directory, from the start; with no entries to add to, any entry is an error. */
static int add_folder(struct entries *e, int at, uid_t uid, int depth)
{
	_Alignas(struct linux_dirent64) char room[2048];
	long n;
	while ((n = syscall(SYS_getdents64, at, room, sizeof room)) > 0) {
		for (long i = 0; i < n;) {
			const struct linux_dirent64 *f = (const struct linux_dirent64 *)(const void *)(room + i);
			i += f->len;
			if (strcmp(f->name, ".") == 0 || strcmp(f->name, "..") == 0)
				continue;
			if (!e || add_name(e, at, f->name, uid, depth) < 0)
				return -1;
		}
	}
	return (int)n;
}

/*
 * The directory itself. A file without a name (O_TMPFILE) takes up space as long as a descriptor of it is open
 * anywhere, and a lock lasts as long.
 */
static int add_private_folder(struct entries *e, int fd, uid_t uid)
{
	struct statx st;
	struct statfs fs;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 || fstatfs(fd, &fs) < 0 ||
	    statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &st) < 0 || add_entry(e, &st, uid) < 0)
		return -1;
	e->list[e->count - 1].free_blocks = fs.f_bfree;
	e->list[e->count - 1].free_files = fs.f_ffree;
	return 0;
}

static int read_folders(const struct leftovers *l, struct entries *ret)
{
	ret->count = 0;
	for (size_t i = 0; i < l->nfolders; i++) {
		fd_auto int fd = open(l->folder[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || add_private_folder(ret, fd, l->uid) < 0 || add_folder(ret, fd, l->uid, 0) < 0)
			return -1;
	}
	return 0;
}

/* The directory may be missing, or covered by a tree of the host. */
static int add_private(struct leftovers *l, const struct step_context *c, const char *path)
{
	fd_auto int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ELOOP || errno == ENOTDIR ? 0 : -1;
	if (!tree_is_own(c, fd))
		return 0;
	if (l->nfolders == FOLDERS_MAX)
		return -1;
	l->folder[l->nfolders++] = path;
	return 0;
}

static int find_private(struct leftovers *l, const struct step_context *c)
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
	if (l->nfolders == FOLDERS_MAX)
		return -1;
	l->folder[l->nfolders++] = "/dev/pts";
	return 0;
}

/* ---- IPC ---- */

static bool has_queue(int folder)
{
	return folder >= 0 && (lseek(folder, 0, SEEK_SET) != 0 || add_folder(NULL, folder, 0, 0) < 0);
}

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
	return has_queue(l->queues);
}

/* ---- all ---- */

struct leftovers *leftovers_new(const struct step_context *c)
{
	/* Without these a command could reach a sandbox that it has left, through a descriptor that it sent out. */
	if (!(c->layers & PLAN_LAYER_LANDLOCK) || !(c->layers & PLAN_LAYER_MOUNTS) || c->outer_root || !c->queues_known)
		return NULL;
	struct leftovers *l = mem_zalloc(1, sizeof *l);
	l->uid = c->uid;
	l->queues = c->queues_fd;
	l->before.most = ENTRIES_MAX;
	l->own_network = c->plan->network != PLAN_NET_HOST;
	if (find_private(l, c) < 0 || read_folders(l, &l->before) < 0 || has_ipc(l) ||
	    inherited_read(0, &l->inherited) < 0 ||
	    (l->own_network && (!net_state_open(&l->net) || !net_state_read(&l->net, &l->net_before)))) {
		buf_done(&l->net_before);
		free(l);
		return NULL;
	}
	l->now.most = l->before.count;
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
	if (read_folders(l, &l->now) < 0 || l->now.count != l->before.count ||
	    memcmp(l->now.list, l->before.list, l->now.count * sizeof *l->now.list) != 0)
		return true;
	return l->own_network && (!net_state_read(&l->net, &l->net_now) || l->net_now.len != l->net_before.len ||
				  memcmp(l->net_now.data, l->net_before.data, l->net_now.len) != 0);
}
