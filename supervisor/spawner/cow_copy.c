/*
 * Copies the upper layers of a copy-on-write run to a directory of their own: a checkpoint of the run, or the layers
 * that another run starts with. A copy has the same layout as a run (sandbox/cow_layout.h).
 *
 * A copy is complete or absent. It is made under a name that no run can have (PARTIAL), written to the disk and then
 * renamed. What a crash left under that name is removed by a sweep, or by the repetition of the request, which waits
 * for the lock on the source. EEXIST: the copy is there, complete and durable.
 *
 * The source can be mounted: nothing runs in its sandbox, so nothing changes it meanwhile, and an overlay's files share
 * their pages with those of its upper layer, so what is read here is what was written there. The trees have untrusted
 * content: every descent is by descriptor and never follows a link.
 *
 * Overlayfs's own marks are copied as they are: whiteouts are devices, the rest is in user.* attributes. Attributes of
 * the security modules are not: labels are the kernel's decision, and file capabilities have no effect in a sandbox and
 * are never applied to the host.
 *
 * Copies have a budget for each owner. A copy records its size when it begins (COPIED), while the directory of all runs
 * is locked, so that copies that are made at the same time count, too. The record goes with the copy.
 */

#include "supervisor/spawner/cow.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PARTIAL ".partial"
#define LINKS "links"
#define COPIED "copied"
#define CHECKPOINT_PREFIX "ckp_"
#define ENTRY_BYTES 4096u /* that an entry counts in addition to its blocks: its inode and name */
#define COPY_CHUNK (128u * 1024)
#define FILE_FLAGS (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

struct copy {
	/*
	 * A directory with one name for each copied file that has several, its inode number in the source: the further
	 * names are linked to that. It needs no memory, and no path, which could be too long.
	 */
	int links;
	unsigned depth;
};

/* ---- attributes ---- */

static bool is_copied(const char *attribute)
{
	return strncmp(attribute, "user.", 5) == 0 || strncmp(attribute, "system.posix_acl_", 17) == 0;
}

static int copy_attribute(int from, int to, const char *name)
{
	mem_auto char *value = mem_alloc(XATTR_SIZE_MAX);
	ssize_t n = fgetxattr(from, name, value, XATTR_SIZE_MAX);
	return n < 0 ? -1 : fsetxattr(to, name, value, (size_t)n, 0);
}

static int copy_attributes(int from, int to)
{
	mem_auto char *names = mem_alloc(XATTR_LIST_MAX);
	ssize_t n = flistxattr(from, names, XATTR_LIST_MAX);
	if (n < 0)
		return errno == EOPNOTSUPP ? 0 : -1;
	for (const char *p = names; p < names + n; p += strlen(p) + 1) {
		if (is_copied(p) && copy_attribute(from, to, p) < 0)
			return -1;
	}
	return 0;
}

/* The owner first, because chown clears bits of the mode; the mode after the attributes, because an ACL is a part of
 * it. */
static int copy_metadata(int from, int to, const struct stat *st)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };
	struct stat now;
	if (fstat(to, &now) < 0)
		return -1;
	if ((now.st_uid != st->st_uid || now.st_gid != st->st_gid) && fchown(to, st->st_uid, st->st_gid) < 0)
		return -1;
	if (copy_attributes(from, to) < 0 || fchmod(to, st->st_mode & 07777) < 0)
		return -1;
	return futimens(to, times);
}

/* ---- files ---- */

static int copy_by_hand(int from, int to, off_t at, off_t end)
{
	mem_auto char *chunk = mem_alloc(COPY_CHUNK);
	while (at < end) {
		size_t want = end - at < (off_t)COPY_CHUNK ? (size_t)(end - at) : COPY_CHUNK;
		ssize_t n = fd_pread_all(from, chunk, want, (uint64_t)at);
		if (n <= 0)
			return (int)n;
		if (lseek(to, at, SEEK_SET) < 0 || fd_write_all(to, chunk, (size_t)n) < 0)
			return -1;
		at += n;
	}
	return 0;
}

static int copy_extent(int from, int to, off_t at, off_t end)
{
	off_t out = at;
	while (at < end) {
		ssize_t n = copy_file_range(from, &at, to, &out, (size_t)(end - at), 0);
		if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP))
			return copy_by_hand(from, to, at, end);
		if (n <= 0)
			return (int)n;
	}
	return 0;
}

int cow_copy_data(int from, int to, off_t size)
{
	if (ioctl(to, FICLONE, from) == 0)
		return 0;
	for (off_t at = 0; at < size;) {
		off_t data = lseek(from, at, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break;
		off_t end = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);
		if (end < 0 || copy_extent(from, to, data, end) < 0)
			return -1;
		at = end;
	}
	return ftruncate(to, size);
}

/*
 * Without privileges, a file or directory that its owner cannot read is made readable for the time of the copy. Returns
 * the descriptor; *ret_changed: its mode must be restored.
 */
static int open_source(int dir, const char *name, const struct stat *st, bool *ret_changed)
{
	bool folder = S_ISDIR(st->st_mode);
	int fd = folder ? cow_open_folder(dir, name) : openat(dir, name, FILE_FLAGS);
	bool denied = fd < 0 ? errno == EACCES : folder && faccessat(fd, ".", R_OK | X_OK, AT_EACCESS) < 0;
	*ret_changed = denied && fchmodat(dir, name, (st->st_mode & 07777) | 0700, AT_SYMLINK_NOFOLLOW) == 0;
	if (fd < 0 && *ret_changed)
		fd = folder ? cow_open_folder(dir, name) : openat(dir, name, FILE_FLAGS);
	return fd;
}

static int copy_file(int from_dir, int to_dir, const char *name, const struct stat *st)
{
	bool changed;
	fd_auto int from = open_source(from_dir, name, st, &changed);
	fd_auto int to = from < 0 ? -1 : openat(to_dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = to < 0 || cow_copy_data(from, to, st->st_size) < 0 || copy_metadata(from, to, st) < 0 ? -1 : 0;
	int saved = errno;
	if (changed && fchmodat(from_dir, name, st->st_mode & 07777, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	errno = saved;
	return r;
}

/* Symbolic links, and what has no content: whiteouts, pipes, sockets, devices. */
static int copy_special(int from_dir, int to_dir, const char *name, const struct stat *st)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };
	char target[PATH_MAX];
	struct stat now;
	if (S_ISLNK(st->st_mode)) {
		ssize_t n = readlinkat(from_dir, name, target, sizeof target - 1);
		target[n > 0 ? n : 0] = 0;
		if (n < 0 || symlinkat(target, to_dir, name) < 0)
			return -1;
	} else if (mknodat(to_dir, name, (st->st_mode & S_IFMT) | 0600, st->st_rdev) < 0) {
		return -1;
	}
	if (fstatat(to_dir, name, &now, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if ((now.st_uid != st->st_uid || now.st_gid != st->st_gid) &&
	    fchownat(to_dir, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (!S_ISLNK(st->st_mode) && fchmodat(to_dir, name, st->st_mode & 07777, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	return utimensat(to_dir, name, times, AT_SYMLINK_NOFOLLOW);
}

/* ---- trees ---- */

static int copy_entries(struct copy *c, int from, int to);

static int copy_folder(struct copy *c, int from_dir, int to_dir, const char *name, const struct stat *st)
{
	bool changed = false;
	if (c->depth >= COW_DEPTH_MAX) {
		errno = ELOOP;
		return -1;
	}
	fd_auto int from = open_source(from_dir, name, st, &changed);
	fd_auto int to = from < 0 || mkdirat(to_dir, name, 0700) < 0 ? -1 : cow_open_folder(to_dir, name);
	c->depth++;
	int r = to < 0 || copy_entries(c, from, to) < 0 || copy_metadata(from, to, st) < 0 ? -1 : 0;
	c->depth--;
	int saved = errno;
	if (changed && fchmodat(from_dir, name, st->st_mode & 07777, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	errno = saved;
	return r;
}

static int copy_entry(struct copy *c, int from_dir, int to_dir, const char *name)
{
	char link[24];
	struct stat st;
	if (fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (S_ISDIR(st.st_mode))
		return copy_folder(c, from_dir, to_dir, name, &st);
	snprintf(link, sizeof link, "%llx", (unsigned long long)st.st_ino);
	if (st.st_nlink > 1 && linkat(c->links, link, to_dir, name, 0) == 0)
		return 0;
	if (st.st_nlink > 1 && errno != ENOENT)
		return -1;
	if ((S_ISREG(st.st_mode) ? copy_file : copy_special)(from_dir, to_dir, name, &st) < 0)
		return -1;
	return st.st_nlink > 1 ? linkat(to_dir, name, c->links, link, 0) : 0;
}

static int copy_entries(struct copy *c, int from, int to)
{
	int r = 0, fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		fd_close(&fd);
		return -1;
	}
	for (const struct dirent *en; r == 0 && (errno = 0, en = readdir(d));) {
		if (strcmp(en->d_name, ".") != 0 && strcmp(en->d_name, "..") != 0)
			r = copy_entry(c, from, to, en->d_name);
	}
	int saved = errno;
	closedir(d);
	errno = saved;
	return r < 0 || saved ? -1 : 0;
}

/* ---- the budget ---- */

struct copied {
	uint32_t magic, uid;
	uint64_t bytes;
};

struct measure {
	uint64_t bytes;
	unsigned depth;
};

static int measure_entry(void *measure, int dir, const char *name)
{
	struct measure *m = measure;
	bool changed = false;
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	m->bytes += ENTRY_BYTES + (uint64_t)st.st_blocks * 512 / (S_ISDIR(st.st_mode) ? 1 : st.st_nlink);
	if (!S_ISDIR(st.st_mode))
		return 0;
	if (m->depth >= COW_DEPTH_MAX) {
		errno = ELOOP;
		return -1;
	}
	fd_auto int folder = open_source(dir, name, &st, &changed);
	m->depth++;
	int r = folder < 0 ? -1 : cow_each_entry(folder, measure_entry, m);
	m->depth--;
	int saved = errno;
	if (changed && fchmodat(dir, name, st.st_mode & 07777, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	errno = saved;
	return r;
}

/* What of a run is copied. */
static int measure_run(int run, const struct cow_owner *owner, uint64_t *ret)
{
	struct measure m = { 0 };
	char name[32];
	for (uint32_t i = 0; i < owner->nroots; i++) {
		snprintf(name, sizeof name, "%u/upper", i);
		if (measure_entry(&m, run, name) < 0)
			return -1;
	}
	*ret = m.bytes;
	return 0;
}

struct budget {
	uint32_t uid;
	uint64_t used;
};

/* Whether it is a copy of another user. One whose owner is not known counts for every user. */
static bool is_of_another(int run, uint32_t uid)
{
	struct cow_owner o;
	fd_auto int fd = openat(run, COW_OWNER_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && fd_read_all(fd, &o, sizeof o) == (ssize_t)sizeof o && o.magic == COW_MAGIC && o.uid != uid;
}

/* Adds a copy. One without a complete record, which a crash or an earlier version left, is measured. */
static int add_copy(void *budget, int folder, const char *name)
{
	struct budget *b = budget;
	struct copied record;
	struct measure m = { 0 };
	if (name[0] == '.')
		return 0;
	fd_auto int run = cow_open_folder(folder, name);
	fd_auto int fd = run < 0 ? -1 : openat(run, COPIED, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (run < 0 || (fd < 0 && errno == ENOENT && strncmp(name, CHECKPOINT_PREFIX, strlen(CHECKPOINT_PREFIX)) != 0))
		return 0; /* removed meanwhile, or not a copy */
	if (fd >= 0 && fd_read_all(fd, &record, sizeof record) == (ssize_t)sizeof record && record.magic == COW_MAGIC) {
		b->used += record.uid == b->uid ? record.bytes : 0;
		return 0;
	}
	if (is_of_another(run, b->uid))
		return 0;
	if (measure_entry(&m, folder, name) < 0 && errno != ENOENT)
		return -1;
	b->used += m.bytes;
	return 0;
}

static int write_copied(int target, const struct copied *record)
{
	fd_auto int fd = openat(target, COPIED, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? -1 : fd_write_all(fd, record, sizeof *record);
}

/* Records the size of the copy if it fits into its owner's budget; COW_OVER_BUDGET otherwise. */
static int reserve(int folder, int run, int target, const struct cow_owner *owner, uint64_t budget)
{
	struct copied record = { .magic = COW_MAGIC, .uid = owner->uid };
	struct budget b = { .uid = owner->uid };
	fd_auto int lock = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lock < 0 || measure_run(run, owner, &record.bytes) < 0 || flock(lock, LOCK_EX) < 0)
		return -1;
	if (budget && cow_each_entry(folder, add_copy, &b) < 0)
		return -1;
	if (budget && (b.used > budget || record.bytes > budget - b.used)) {
		errno = COW_OVER_BUDGET;
		return -1;
	}
	return write_copied(target, &record);
}

/* ---- the run ---- */

/* One write root: its identity, its upper layer, and a work directory, which starts empty. */
static int copy_layer(struct copy *c, int from, int to, uint32_t number)
{
	char name[16];
	struct stat st;
	snprintf(name, sizeof name, "%u", number);
	fd_auto int source = cow_open_folder(from, name);
	fd_auto int target = source < 0 || mkdirat(to, name, 0700) < 0 ? -1 : cow_open_folder(to, name);
	if (target < 0 || fstatat(source, "upper", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (copy_entry(c, source, target, "root") < 0 && errno != ENOENT)
		return -1; /* no record: the sandbox was never completed, so the layer is empty */
	if (copy_folder(c, source, target, "upper", &st) < 0)
		return -1;
	return mkdirat(target, "work", 0700);
}

static int copy_run(int from, int to, const struct cow_owner *owner)
{
	struct copy c = { .links = -1 };
	if (mkdirat(to, LINKS, 0700) < 0 || (c.links = cow_open_folder(to, LINKS)) < 0)
		return -1;
	int r = copy_entry(&c, from, to, COW_OWNER_NAME);
	for (uint32_t i = 0; r == 0 && i < owner->nroots; i++)
		r = copy_layer(&c, from, to, i);
	fd_close(&c.links);
	return r < 0 || cow_remove(to, LINKS) < 0 ? -1 : syncfs(to);
}

int cow_copy(int folder, int run, const struct cow_owner *owner, const char *to, uint64_t budget)
{
	char partial[PLAN_KEY_MAX + sizeof PARTIAL];
	struct stat st;
	snprintf(partial, sizeof partial, "%s" PARTIAL, to);
	if (fstatat(folder, to, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		if (fsync(folder) == 0)
			errno = EEXIST;
		return -1;
	}
	if (cow_remove(folder, partial) < 0 || mkdirat(folder, partial, 0700) < 0)
		return -1;
	fd_auto int target = cow_open_folder(folder, partial);
	if (target >= 0 && reserve(folder, run, target, owner, budget) == 0 && copy_run(run, target, owner) == 0 &&
	    renameat2(folder, partial, folder, to, RENAME_NOREPLACE) == 0 && fsync(folder) == 0)
		return 0;
	int saved = errno;
	cow_remove(folder, partial);
	cow_remove(folder, to); /* if only the last fsync failed */
	errno = saved;
	return -1;
}
