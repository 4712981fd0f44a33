#include "sandbox/probe.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/cgroup.h"
#include "sandbox/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

struct machine {
	bool root; /* the sandboxes' builder is root */
};

__attribute__((format(printf, 2, 3))) static void say(struct probe_row *r, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(r->detail, sizeof r->detail, fmt, ap);
	va_end(ap);
}

/* The number in a file of /proc/sys, or `otherwise` where there is no such file. */
static long sysctl_number(const char *path, long otherwise)
{
	char text[32];
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, sizeof text - 1);
	if (n <= 0)
		return otherwise;
	text[n] = 0;
	return strtol(text, NULL, 10);
}

static bool probe_user_namespaces(const struct machine *m, struct probe_row *r)
{
	if (access("/proc/self/ns/user", F_OK) < 0) {
		say(r, "the kernel has none");
		return false;
	}
	if (sysctl_number("/proc/sys/user/max_user_namespaces", 1) == 0 ||
	    sysctl_number("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0 ||
	    (!m->root && sysctl_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 1)) {
		say(r, "switched off by a sysctl");
		return false;
	}
	say(r, m->root ? "there, and not needed by a daemon with root" : "used to build sandboxes without root");
	return true;
}

static bool probe_namespaces(const struct machine *m, struct probe_row *r)
{
	struct probe_row user;
	if (access("/proc/self/ns/pid", F_OK) < 0 || access("/proc/self/ns/mnt", F_OK) < 0) {
		say(r, "the kernel has none");
		return false;
	}
	if (!m->root && !probe_user_namespaces(m, &user)) {
		say(r, "need root or user namespaces");
		return false;
	}
	say(r, "each sandbox has its own; killing its init kills its tree");
	return true;
}

static bool probe_landlock(const struct machine *m, struct probe_row *r)
{
	int abi = landlock_abi();
	if (abi == 0)
		say(r, errno == EOPNOTSUPP ? "switched off at boot" : "the kernel has none");
	else
		say(r, "ABI %d: files%s%s%s", abi, abi >= LANDLOCK_ABI_SCOPES ? ", signals and abstract sockets" :
		    "; with --net host the host's abstract sockets are reachable (needs 6)",
		    abi >= LANDLOCK_ABI_NAMED_SOCKETS ? ", sockets by name" : "; not sockets by name (needs 9)",
		    abi >= 3 ? "" : "; not truncation (needs 3)");
	return abi > 0;
}

static bool probe_seccomp(const struct machine *m, struct probe_row *r)
{
	uint32_t action = SECCOMP_RET_ERRNO;
	bool there = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
	say(r, there ? "system call filters" : "the kernel has no seccomp filters");
	return there;
}

static bool probe_cgroup_v2(const struct machine *m, struct probe_row *r)
{
	char path[PATH_MAX];
	struct err e = ERR_INIT;
	struct statvfs fs;
	if (cgroup_own_folder(path, &e) < 0) {
		say(r, "%.100s", e.message);
		return false;
	}
	if (statvfs(path, &fs) < 0 || fs.f_flag & ST_RDONLY) {
		say(r, "%.90s cannot be written", path);
		return false;
	}
	if (!m->root && access(path, W_OK) < 0) {
		say(r, "%.80s is not delegated to this user", path);
		return false;
	}
	say(r, "below %.100s", path);
	return true;
}

/* Controllers with a v1 hierarchy of their own: "4:memory:/…"; "0::" is v2 and "name=" is not a controller. */
static bool probe_cgroup_v1(const struct machine *m, struct probe_row *r)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[1024];
	size_t used = 0;
	r->detail[0] = 0;
	while (f && fgets(line, sizeof line, f)) {
		char *name = strchr(line, ':'), *end = name ? strchr(name + 1, ':') : NULL;
		if (!end || end == name + 1 || strncmp(name + 1, "name=", 5) == 0)
			continue;
		*end = 0;
		int n = snprintf(r->detail + used, sizeof r->detail - used, "%s%s", used ? " " : "", name + 1);
		used += (size_t)n;
		if (used >= sizeof r->detail)
			break;
	}
	if (f)
		fclose(f);
	if (!used)
		say(r, "no v1 controllers");
	else if (!m->root)
		say(r, "only root may use v1 controllers");
	return used && m->root;
}

static bool probe_audit(const struct machine *m, struct probe_row *r)
{
	fd_auto int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_AUDIT);
	if (fd < 0) {
		say(r, "the kernel has no audit");
		return false;
	}
	say(r, m->root ? "there, not used by this version" : "only root may read it");
	return false;
}

static bool probe_idmap(const struct machine *m, struct probe_row *r)
{
	/* With nothing asked for: only a kernel without the call says ENOSYS. */
	bool there = !(syscall(SYS_mount_setattr, -1, "", 0, NULL, (size_t)0) < 0 && errno == ENOSYS);
	say(r, !there ? "the kernel has none" : m->root ? "root's commands run as ids of their own" : "only root may make them");
	return there && m->root;
}

static const struct {
	const char *name;
	bool (*probe)(const struct machine *m, struct probe_row *r);
} probes[] = {
	{ "user_namespaces", probe_user_namespaces },
	{ "pid_and_mount_namespaces", probe_namespaces },
	{ "landlock", probe_landlock },
	{ "seccomp", probe_seccomp },
	{ "cgroup_v2", probe_cgroup_v2 },
	{ "cgroup_v1_controllers", probe_cgroup_v1 },
	{ "audit", probe_audit },
	{ "idmapped_mounts", probe_idmap },
};
_Static_assert(countof(probes) <= PROBE_ROWS_MAX, "PROBE_ROWS_MAX is too small");

static bool parent_is_root(void)
{
	char path[32];
	struct stat st;
	snprintf(path, sizeof path, "/proc/%d", getppid());
	return stat(path, &st) == 0 && st.st_uid == 0;
}

size_t probe_run(struct probe_row *rows, size_t cap)
{
	const struct machine m = { .root = geteuid() == 0 || parent_is_root() };
	size_t n = 0;
	for (; n < countof(probes) && n < cap; n++) {
		rows[n] = (struct probe_row){ .name = probes[n].name };
		rows[n].state = probes[n].probe(&m, &rows[n]) ? "enforced" : "unavailable";
	}
	return n;
}
