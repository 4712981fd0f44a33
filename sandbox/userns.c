#include "sandbox/userns.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_PREFIX "userns:"

static const struct userns_text texts[USERNS_CAUSES] = {
#define USERNS_CAUSE(NAME, key, cause, fix) [USERNS_##NAME] = { key, cause, fix },
#include "sandbox/userns.def"
#undef USERNS_CAUSE
};

static const char *const paths[USERNS_CAUSES] = {
#define USERNS_CAUSE(NAME, key, cause, fix) [USERNS_##NAME] = PATH_PREFIX key,
#include "sandbox/userns.def"
#undef USERNS_CAUSE
};

const struct userns_text *userns_text(enum userns_cause cause) { return &texts[cause]; }

const char *userns_path(enum userns_cause cause) { return paths[cause]; }

const struct userns_text *userns_text_of_path(const char *path)
{
	for (int i = USERNS_WORKS + 1; i < USERNS_CAUSES; i++) {
		if (strcmp(paths[i], path) == 0)
			return &texts[i];
	}
	return NULL;
}

/* ---- causes ---- */

static size_t read_text(const char *path, char *buf, size_t cap)
{
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, buf, cap - 1);
	buf[n > 0 ? n : 0] = 0;
	return n > 0 ? (size_t)n : 0;
}

/* Returns `otherwise` if there is no such file. */
static long read_number(const char *path, long otherwise)
{
	char text[32];
	return read_text(path, text, sizeof text) ? strtol(text, NULL, 10) : otherwise;
}

static bool is_filtered(void)
{
	char text[4096];
	const char *p = read_text("/proc/self/status", text, sizeof text) ? strstr(text, "\nSeccomp:") : NULL;
	return p && strtol(p + 9, NULL, 10) == 2;
}

/* The root directory of a mount namespace is a mount point; that of a chroot usually is not. */
static bool is_chroot(void)
{
	struct statx st;
	return statx(AT_FDCWD, "/", AT_NO_AUTOMOUNT, STATX_BASIC_STATS, &st) == 0 &&
	       !(st.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

static bool apparmor_restricts(void)
{
	return read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 1;
}

static enum userns_cause classify_clone(int error)
{
	if (access("/proc/self/ns/user", F_OK) < 0 && access("/proc/self/ns/mnt", F_OK) == 0)
		return USERNS_KERNEL;
	if (error == ENOSPC || error == EUSERS || read_number("/proc/sys/user/max_user_namespaces", 1) == 0)
		return USERNS_COUNT;
	if (geteuid() != 0 && read_number("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
		return USERNS_SYSCTL;
	if (error == EACCES)
		return apparmor_restricts() ? USERNS_APPARMOR : USERNS_SELINUX;
	if (is_chroot())
		return USERNS_CHROOT;
	if ((error == EPERM || error == ENOSYS) && is_filtered())
		return USERNS_SECCOMP;
	return error == EINVAL ? USERNS_KERNEL : USERNS_OTHER;
}

/*
 * Ubuntu allows the namespace but removes every capability in it: the first use fails, with EACCES on setgroups (a file
 * that AppArmor's profile for such processes denies) or with EPERM on a map.
 */
static enum userns_cause classify_maps(int error)
{
	if (apparmor_restricts())
		return USERNS_APPARMOR;
	return geteuid() == 0 && error == EPERM ? USERNS_ROOT_MAP : USERNS_OTHER;
}

enum userns_cause userns_classify(enum userns_stage stage, int error)
{
	switch (stage) {
	case USERNS_STAGE_CLONE: return classify_clone(error);
	case USERNS_STAGE_MAPS: return classify_maps(error);
	case USERNS_STAGE_MOUNT: return apparmor_restricts() && !is_filtered() ? USERNS_APPARMOR : USERNS_MOUNT;
	case USERNS_STAGE_PROC: return error == EPERM ? USERNS_PROC : USERNS_MOUNT;
	}
	return USERNS_OTHER;
}

/* ---- maps ---- */

static int write_file(const char *path, const char *text)
{
	fd_auto int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -1 : 0;
}

static int write_swap(pid_t pid, const char *which, uid_t id, uint32_t end)
{
	char path[64], map[160];
	snprintf(path, sizeof path, "/proc/%d/%s", pid, which);
	int n = snprintf(map, sizeof map, "0 %u 1\n%u 0 1\n", id, id);
	if (end > id + 1)
		snprintf(map + n, sizeof map - (size_t)n, "1 1 %u\n%u %u %u\n", id - 1, id + 1, id + 1, end - id - 1);
	return write_file(path, map);
}

/*
 * A host has all ids; a rootless container usually the first 65,536, or a few more. Only the two swapped ids are
 * required.
 */
int userns_write_swap(pid_t pid, uid_t id)
{
	static const uint32_t ends[] = { UINT32_MAX, 65536, 0 };
	static const char *const files[] = { "uid_map", "gid_map" };
	for (size_t f = 0; f < countof(files); f++) {
		int r = -1;
		for (size_t i = 0; r < 0 && i < countof(ends); i++)
			r = write_swap(pid, files[f], id, ends[i]);
		if (r < 0)
			return -1;
	}
	return 0;
}

/* ---- probing ---- */

#define TRY_ID 64700u /* any id but 0 */

struct outcome {
	int stage; /* enum userns_stage; −1 = everything works */
	int error;
};

static int map_self(uid_t uid, gid_t gid)
{
	char map[64];
	snprintf(map, sizeof map, "%u %u 1", uid, uid);
	if (write_file("/proc/self/setgroups", "deny") < 0 || write_file("/proc/self/uid_map", map) < 0)
		return -1;
	snprintf(map, sizeof map, "%u %u 1", gid, gid);
	return write_file("/proc/self/gid_map", map);
}

/* Runs in the child. The parent maps root's ids and confirms with a byte. */
static struct outcome try_inside(uid_t uid, gid_t gid, int link)
{
	char byte;
	if (uid == 0 ? read(link, &byte, 1) != 1 : map_self(uid, gid) < 0)
		return (struct outcome){ USERNS_STAGE_MAPS, uid == 0 ? EPERM : errno };
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return (struct outcome){ USERNS_STAGE_MOUNT, errno };
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return (struct outcome){ USERNS_STAGE_PROC, errno };
	return (struct outcome){ -1, 0 };
}

/* Clones in the same way as sandboxes (start.c): a seccomp filter may allow clone but not clone3. */
static struct outcome try_in_child(void)
{
	int link[2];
	uid_t uid = geteuid();
	gid_t gid = getegid();
	struct outcome out = { USERNS_STAGE_CLONE, 0 };
	struct clone_args a = { .flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_CLEAR_SIGHAND,
				.exit_signal = SIGCHLD };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) < 0)
		return (struct outcome){ USERNS_STAGE_CLONE, errno };
	fd_auto int ours = link[0];
	fd_auto int theirs = link[1];
	pid_t pid = cgroup_clone(&a);
	if (pid == 0) {
		close(ours);
		out = try_inside(uid, gid, theirs);
		_exit(write(theirs, &out, sizeof out) == (ssize_t)sizeof out ? 0 : 1);
	}
	out.error = errno;
	if (pid < 0)
		return out;
	fd_close(&theirs);
	int mapped = uid == 0 ? userns_write_swap(pid, TRY_ID) : 0;
	int why = errno;
	if (mapped == 0 && uid == 0)
		(void)!write(ours, "m", 1);
	if (mapped < 0 || read(ours, &out, sizeof out) != (ssize_t)sizeof out)
		out = (struct outcome){ USERNS_STAGE_MAPS, mapped < 0 ? why : EIO };
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	return out;
}

int userns_failed(enum userns_stage stage, int error, struct err *e)
{
	err_set(e, ERR_INTERNAL, "%s", userns_path(userns_classify(stage, error)));
	e->sys = error;
	return -1;
}

enum userns_cause userns_try(int *ret_error)
{
	struct outcome out = try_in_child();
	if (out.stage < 0)
		return USERNS_WORKS;
	*ret_error = out.error;
	return userns_classify((enum userns_stage)out.stage, out.error);
}
