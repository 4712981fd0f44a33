#include "tests/escape/probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#define SET_IDS (S_ISUID | S_ISGID)

/* ---- contents ---- */

static int try_read(const char *path)
{
	static char text[16384]; /* the kernel's log gives whole records or nothing */
	int fd = open(path, O_RDONLY | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (n < 0 && errno == EPIPE) /* a record was overwritten just now */
		n = read(fd, text, sizeof text - 1);
	if (n < 0 && errno == EISDIR)
		return 0;
	if (n == 0) /* a device or a mask that has nothing to say */
		return probe_shut(ENODATA);
	for (char *p = text; *p; p++)
		if (*p < ' ')
			*p = ' ';
	probe_say("%.60s", text);
	return n < 0 ? -1 : 0;
}

static int try_list(const char *path)
{
	DIR *d = opendir(path);
	int found = 0;
	for (struct dirent *e; d && (e = readdir(d));)
		found += e->d_name[0] != '.';
	if (!d)
		return -1;
	probe_say("%d entries", found);
	return found ? 0 : probe_shut(ENODATA);
}

static int try_write(const char *path) { return open(path, O_WRONLY | O_NONBLOCK | O_APPEND); }

/* Writes the value that is there already, so that success does no harm. */
static int try_rewrite(const char *path)
{
	char text[4096];
	int in = open(path, O_RDONLY);
	ssize_t n = in < 0 ? -1 : read(in, text, sizeof text);
	int out = n < 0 ? -1 : open(path, O_WRONLY);
	return out < 0 ? -1 : (int)write(out, text, (size_t)n);
}

static int try_create(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
	return fd < 0 ? -1 : unlink(path);
}

static int try_make_folder(const char *path) { return mkdir(path, 0755) < 0 ? -1 : rmdir(path); }

static int try_truncate(const char *path)
{
	struct stat st;
	return stat(path, &st) < 0 ? -1 : truncate(path, st.st_size);
}

static int reopen(int fd)
{
	char name[64];
	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	return fd < 0 ? -1 : open(name, O_WRONLY);
}

static int try_reopen(const char *path) { return reopen(open(path, O_PATH)) < 0 ? -1 : reopen(open(path, O_RDONLY)); }

static int try_map(const char *path)
{
	int fd = open(path, O_RDWR);
	void *p = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? -1 : 0;
}

static int try_watch(const char *path) { return inotify_add_watch(inotify_init1(0), path, IN_ALL_EVENTS); }

/* ---- names ---- */

static int take_lease(const char *path, unsigned long command)
{
	int fd = open(path, O_RDONLY | O_CREAT, 0600);
	int r = fd < 0 ? -1 : (int)syscall(SYS_fcntl, fd, command, F_WRLCK);
	int error = errno;
	unlink(path);
	errno = error;
	return r;
}

static int try_lease(const char *path) { return take_lease("lease.probe", F_SETLEASE); }

static int try_lease_high_bits(const char *path) { return take_lease("lease.probe", 1ul << 32 | F_SETLEASE); }

static int try_rename(const char *path)
{
	char other[4200];
	snprintf(other, sizeof other, "%s.moved", path);
	return rename(path, other) < 0 ? -1 : rename(other, path);
}

/* A folder of ours in place of it. */
static int try_exchange(const char *path)
{
	char other[] = "exchange.probe";
	struct stat st;
	if (stat(path, &st) < 0)
		return -1;
	int made = S_ISDIR(st.st_mode) ? mkdir(other, 0755) : mknod(other, S_IFREG | 0644, 0);
	int r = made < 0 ? -1 : renameat2(AT_FDCWD, other, AT_FDCWD, path, RENAME_EXCHANGE);
	int error = errno;
	if (r == 0)
		renameat2(AT_FDCWD, other, AT_FDCWD, path, RENAME_EXCHANGE);
	if (remove(other) < 0 && r == 0)
		return -1;
	errno = error;
	return r;
}

/* A file of ours over it, as git and editors do. Only where it must fail, or on something that may go. */
static int try_replace(const char *path)
{
	char other[] = "replace.probe";
	int fd = open(other, O_WRONLY | O_CREAT, 0644);
	int r = fd < 0 ? -1 : rename(other, path);
	int error = errno;
	unlink(other);
	errno = error;
	return r;
}

static int try_unlink(const char *path) { return remove(path); }

static int try_hard_link(const char *path)
{
	int r = link(path, "link.probe");
	int fd = r < 0 ? -1 : open("link.probe", O_WRONLY);
	int error = errno;
	unlink("link.probe");
	errno = error;
	return fd;
}

static int try_link_from_descriptor(const char *path)
{
	char name[64];
	snprintf(name, sizeof name, "/proc/self/fd/%d", open(path, O_RDONLY));
	int r = linkat(AT_FDCWD, name, AT_FDCWD, "link2.probe", AT_SYMLINK_FOLLOW);
	int error = errno;
	unlink("link2.probe");
	errno = error;
	return r;
}

static int try_soft_link(const char *path)
{
	if (symlink(path, "soft.probe") < 0)
		return -1;
	int fd = open("soft.probe", O_WRONLY);
	int error = errno;
	unlink("soft.probe");
	errno = error;
	return fd;
}

static int try_whiteout(const char *path)
{
	int fd = open("white.probe", O_WRONLY | O_CREAT, 0644);
	int r = fd < 0 ? -1
		       : (int)syscall(SYS_renameat2, AT_FDCWD, "white.probe", AT_FDCWD, "white2.probe",
				      RENAME_WHITEOUT);
	int error = errno;
	unlink("white.probe");
	unlink("white2.probe");
	errno = error;
	return r;
}

/* ---- metadata ---- */

static int try_chmod(const char *path)
{
	struct stat st;
	return stat(path, &st) < 0 ? -1 : chmod(path, st.st_mode & 0777);
}

static int try_chmod_descriptor(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY);
	return fstat(fd, &st) < 0 ? -1 : fchmod(fd, st.st_mode & 0777);
}

static int try_chown(const char *path)
{
	struct stat st;
	return stat(path, &st) < 0 ? -1 : chown(path, st.st_uid, st.st_gid);
}

static int try_utimes(const char *path) { return utimensat(AT_FDCWD, path, NULL, 0); }

static int try_setxattr(const char *path)
{
	int r = setxattr(path, "user.probe", "x", 1, 0);
	if (r == 0)
		removexattr(path, "user.probe");
	return r;
}

static int try_set_flags(const char *path)
{
	int flags = 0, fd = open(path, O_RDONLY);
	return fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0 ? -1 : ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

static int try_immutable(const char *path)
{
	int flags = 0, fd = open("immutable.probe", O_RDWR | O_CREAT, 0644);
	if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return -1;
	int plain = flags, r;
	flags |= FS_IMMUTABLE_FL;
	r = ioctl(fd, FS_IOC_SETFLAGS, &flags);
	int error = errno;
	ioctl(fd, FS_IOC_SETFLAGS, &plain);
	unlink("immutable.probe");
	errno = error;
	return r;
}

static int try_file_capability(const char *path)
{
	struct vfs_cap_data cap = { .magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE,
				    .data[0].permitted = 1u << CAP_SYS_ADMIN };
	int fd = open("cap.probe", O_WRONLY | O_CREAT, 0755);
	int r = fd < 0 ? -1 : fsetxattr(fd, "security.capability", &cap, sizeof(__le32) * 5, 0);
	int error = errno;
	unlink("cap.probe");
	errno = error;
	return r;
}

/* ---- setuid and setgid files, by everything that takes a mode ---- */

static int set_id_by_chmod(const char *p) { return chmod(p, 04755); }

static int set_gid_by_chmod(const char *p) { return chmod(p, 02755); }

static int set_id_by_high_bits(const char *p) { return (int)syscall(SYS_fchmodat, AT_FDCWD, p, 04755ul | 1ul << 40); }

static int set_id_by_fchmod(const char *p) { return fchmod(open(p, O_RDWR), 06755); }

static int set_id_by_fchmodat2(const char *p)
{
	return (int)syscall(SYS_fchmodat2, AT_FDCWD, p, 04755, AT_SYMLINK_NOFOLLOW);
}

static int set_id_by_open(const char *p) { return unlink(p) < 0 ? -1 : open(p, O_CREAT | O_WRONLY | O_EXCL, 04755); }

static int set_id_by_creat(const char *p)
{
#ifdef SYS_creat
	return unlink(p) < 0 ? -1 : (int)syscall(SYS_creat, p, 04755);
#else
	return unlink(p) < 0 ? -1 : creat(p, 04755);
#endif
}

static int set_id_by_openat2(const char *p)
{
	struct open_how how = { .flags = O_CREAT | O_WRONLY | O_EXCL, .mode = 04755 };
	return unlink(p) < 0 ? -1 : (int)syscall(SYS_openat2, AT_FDCWD, p, &how, sizeof how);
}

static int set_id_by_mknod(const char *p) { return unlink(p) < 0 ? -1 : mknod(p, S_IFREG | 04755, 0); }

static int set_id_by_tmpfile(const char *p)
{
	char name[64];
	int fd = unlink(p) < 0 ? -1 : open(".", O_TMPFILE | O_WRONLY, 04755);
	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	return fd < 0 ? -1 : linkat(AT_FDCWD, name, AT_FDCWD, p, AT_SYMLINK_FOLLOW);
}

static int set_id_by_fifo(const char *p) { return unlink(p) < 0 ? -1 : mkfifo(p, 04755); }

static int set_id_by_mkdir(const char *p)
{
	if (unlink(p) < 0 || mkdir(p, 0755) < 0)
		return -1;
	return chmod(p, 02755);
}

static int set_id_by_socket(const char *p)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	snprintf(a.sun_path, sizeof a.sun_path, "%s", p);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (unlink(p) < 0 || fchmod(fd, 06777) < 0)
		return -1;
	return bind(fd, (struct sockaddr *)&a, sizeof a);
}

static int try_set_id(int (*way)(const char *path))
{
	static const char name[] = "setid.probe";
	struct stat st;
	remove(name);
	umask(0);
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0755);
	if (fd < 0)
		return -1;
	close(fd);
	int r = way(name), error = errno;
	if (stat(name, &st) == 0) {
		probe_say("mode %o", st.st_mode & 07777);
		if (r >= 0 && !(st.st_mode & SET_IDS)) { /* done, but without the bits */
			r = -1;
			error = EILSEQ;
		}
	}
	remove(name);
	errno = error;
	return r;
}

#define SET_ID(way) \
	static int try_##way(const char *arg) { return try_set_id(way); }
SET_ID(set_id_by_chmod)
SET_ID(set_gid_by_chmod)
SET_ID(set_id_by_high_bits)
SET_ID(set_id_by_fchmod)
SET_ID(set_id_by_fchmodat2)
SET_ID(set_id_by_open)
SET_ID(set_id_by_creat)
SET_ID(set_id_by_openat2)
SET_ID(set_id_by_mknod)
SET_ID(set_id_by_tmpfile)
SET_ID(set_id_by_fifo)
SET_ID(set_id_by_mkdir)
SET_ID(set_id_by_socket)

static int try_set_id_queue(const char *arg)
{
	mqd_t q = mq_open("/setid.probe", O_CREAT | O_RDWR, 04700, NULL);
	int error = errno;
	mq_unlink("/setid.probe");
	errno = error;
	return q;
}

/* ---- devices ---- */

static int try_device(mode_t type, unsigned major_, unsigned minor_)
{
	int r = mknod("dev.probe", type | 0666, makedev(major_, minor_));
	int error = errno;
	unlink("dev.probe");
	errno = error;
	return r;
}

static int try_character_device(const char *arg) { return try_device(S_IFCHR, 1, 3); }

static int try_block_device(const char *arg) { return try_device(S_IFBLK, 254, 0); }

/* The marker of a removed file in overlayfs; the kernel lets any user create it. */
static int try_zero_device(const char *arg) { return try_device(S_IFCHR, 0, 0); }

/* ---- by handle ---- */

static int try_handle(const char *path)
{
	union {
		struct file_handle h;
		char space[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} u = { .h.handle_bytes = MAX_HANDLE_SZ };
	int mount_id;
	if (name_to_handle_at(AT_FDCWD, path, &u.h, &mount_id, 0) < 0)
		return -1;
	return open_by_handle_at(open(path, O_RDONLY), &u.h, O_RDONLY);
}

/* A handle alone tells inode numbers, and is half of the way to open any file of the file system. */
static int try_name_to_handle(const char *path)
{
	union {
		struct file_handle h;
		char space[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} u = { .h.handle_bytes = MAX_HANDLE_SZ };
	int mount_id;
	return name_to_handle_at(AT_FDCWD, path, &u.h, &mount_id, 0);
}

const struct probe probe_files[] = {
	{ "read", try_read },
	{ "list", try_list },
	{ "write", try_write },
	{ "rewrite", try_rewrite },
	{ "create", try_create },
	{ "mkdir", try_make_folder },
	{ "truncate", try_truncate },
	{ "reopen", try_reopen },
	{ "map", try_map },
	{ "watch", try_watch },
	{ "lease", try_lease },
	{ "lease_high_bits", try_lease_high_bits },
	{ "rename", try_rename },
	{ "exchange", try_exchange },
	{ "replace", try_replace },
	{ "unlink", try_unlink },
	{ "hard_link", try_hard_link },
	{ "link_from_descriptor", try_link_from_descriptor },
	{ "soft_link", try_soft_link },
	{ "whiteout", try_whiteout },
	{ "chmod", try_chmod },
	{ "chmod_descriptor", try_chmod_descriptor },
	{ "chown", try_chown },
	{ "utimes", try_utimes },
	{ "setxattr", try_setxattr },
	{ "set_flags", try_set_flags },
	{ "immutable", try_immutable },
	{ "file_capability", try_file_capability },
	{ "set_id_by_chmod", try_set_id_by_chmod },
	{ "set_gid_by_chmod", try_set_gid_by_chmod },
	{ "set_id_by_high_bits", try_set_id_by_high_bits },
	{ "set_id_by_fchmod", try_set_id_by_fchmod },
	{ "set_id_by_fchmodat2", try_set_id_by_fchmodat2 },
	{ "set_id_by_open", try_set_id_by_open },
	{ "set_id_by_creat", try_set_id_by_creat },
	{ "set_id_by_openat2", try_set_id_by_openat2 },
	{ "set_id_by_mknod", try_set_id_by_mknod },
	{ "set_id_by_tmpfile", try_set_id_by_tmpfile },
	{ "set_id_by_fifo", try_set_id_by_fifo },
	{ "set_id_by_mkdir", try_set_id_by_mkdir },
	{ "set_id_by_socket", try_set_id_by_socket },
	{ "set_id_queue", try_set_id_queue },
	{ "character_device", try_character_device },
	{ "block_device", try_block_device },
	{ "zero_device", try_zero_device },
	{ "handle", try_handle },
	{ "name_to_handle", try_name_to_handle },
	{ 0 },
};
