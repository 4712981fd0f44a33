/*
 * The proxy parses what sandboxes send it, so it is the first thing of bailiff's that somebody inside would try to take
 * over. What that would give: sockets to the internet, which it has anyway, and nothing else. No program can be
 * executed, no process made or touched, no unix socket connected to (the control socket is one), and no file is there
 * but in the folders where the C library's resolver reads. Landlock says which files; the filter says which calls.
 */

#include "supervisor/proxy/proxy_sandbox.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) || \
	__has_feature(thread_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* Kernel headers may be older than the kernel. */
#define FS_ALL ((1ull << 16) - 1) /* every right on files that there is, up to ioctl on devices */
#define NET_BIND 1ull
#define SCOPE_ALL 3ull /* abstract unix sockets, signals */

struct rules_attr {
	uint64_t fs, net, scoped;
};

static uint64_t fs_rights(int abi)
{
	return abi >= 5 ? FS_ALL : abi >= 3 ? FS_ALL >> 1 : abi >= 2 ? FS_ALL >> 2 : FS_ALL >> 3;
}

static int allow_reading(int ruleset, const char *path)
{
	fd_auto int fd = open(path, O_PATH | O_CLOEXEC);
	const struct landlock_path_beneath_attr a = { .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE, .parent_fd = fd };

	if (fd < 0)
		return 0;
	return (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &a, 0);
}

static int confine_files(struct err *e)
{
	/*
	 * /etc as a whole, and where its resolv.conf may be a link to: these files are replaced while we run, and a
	 * rule about a file is about the file that was there. The last ones: what the C library loads to look up names.
	 */
	static const char *const readable[] = {
		"/etc/",
		"/run/systemd/resolve/",
		"/run/NetworkManager/",
		"/run/resolvconf/",
		"/run/connman/",
		"/usr/lib/",
		"/lib/",
		"/lib64/",
		"/usr/lib64/",
	};
	int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (abi < 1) {
		log_info("no Landlock for the proxy: %s", strerror(errno));
		return 0;
	}
	const struct rules_attr attr = { fs_rights(abi), abi >= 4 ? NET_BIND : 0, abi >= 6 ? SCOPE_ALL : 0 };
	size_t size = abi >= 6   ? sizeof attr
		      : abi >= 4 ? offsetof(struct rules_attr, scoped)
				 : offsetof(struct rules_attr, net);
	fd_auto int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (ruleset < 0)
		return err_sys(e, errno, "make a Landlock ruleset");
	for (size_t i = 0; i < countof(readable); i++)
		if (allow_reading(ruleset, readable[i]) < 0)
			return err_sys(e, errno, "Landlock: %s", readable[i]);
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return err_sys(e, errno, "enter the Landlock domain");
	return 0;
}

/* Names that an architecture does not have are passed over. */
static const char *const permitted[] = {
	"read",
	"write",
	"readv",
	"writev",
	"pread64",
	"pwrite64",
	"close",
	"close_range",
	"lseek",
	"fcntl",
	"ioctl",
	"dup",
	"dup3",
	"recvfrom",
	"recvmsg",
	"recvmmsg",
	"sendto",
	"sendmsg",
	"sendmmsg",
	"sendfile",
	"splice",
	"connect",
	"accept4",
	"shutdown",
	"bind",
	"getsockopt",
	"setsockopt",
	"getsockname",
	"getpeername",
	"socketpair",
	"poll",
	"ppoll",
	"pselect6",
	"select",
	"epoll_create1",
	"epoll_ctl",
	"epoll_pwait",
	"epoll_pwait2",
	"epoll_wait",
	"eventfd2",
	"timerfd_create",
	"timerfd_settime",
	"pipe2",
	"openat",
	"open",
	"stat",
	"fstat",
	"newfstatat",
	"statx",
	"lstat",
	"access",
	"faccessat",
	"faccessat2",
	"readlink",
	"readlinkat",
	"getdents64",
	"mmap",
	"munmap",
	"mremap",
	"mprotect",
	"madvise",
	"brk",
	"futex",
	"futex_wait",
	"futex_wake",
	"set_robust_list",
	"rseq",
	"sched_yield",
	"sched_getaffinity",
	"nanosleep",
	"clock_nanosleep",
	"clock_gettime",
	"clock_getres",
	"gettimeofday",
	"time",
	"getrandom",
	"getpid",
	"gettid",
	"getppid",
	"getuid",
	"geteuid",
	"getgid",
	"getegid",
	"uname",
	"sysinfo",
	"getcwd",
	"rt_sigaction",
	"rt_sigprocmask",
	"rt_sigreturn",
	"sigaltstack",
	"restart_syscall",
	"exit",
	"exit_group",
	"tgkill",
	"prlimit64",
	"getrlimit",
	"prctl",
	"set_tid_address",
	"membarrier",
};

static int allow_sockets(scmp_filter_ctx f)
{
	static const int families[] = { AF_INET, AF_INET6 };

	for (size_t i = 0; i < countof(families); i++) {
		int r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
					 SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]));
		if (r < 0)
			return r;
	}
	/* Threads, but no processes. clone3 hides its flags: the C library then uses clone. */
	int r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				 SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
	return r < 0 ? r : seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

static int confine_calls(struct err *e)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r = f ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < countof(permitted); i++) {
		int nr = seccomp_syscall_resolve_name(permitted[i]);
		if (nr == __NR_SCMP_ERROR || nr < 0)
			continue; /* younger than the library, or not of this architecture */
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, nr, 0);
	}
	if (r == 0)
		r = allow_sockets(f);
	if (r == 0)
		r = seccomp_load(f);
	seccomp_release(f);
	return r < 0 ? err_sys(e, -r, "filter system calls") : 0;
}

int proxy_sandbox_enter(struct err *e)
{
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, errno, "confine the proxy: no_new_privs");
	if (SANITIZED)
		return 0; /* the sanitizers' own helpers trace and clone */
	return confine_files(e) < 0 || confine_calls(e) < 0 ? err_wrap(e, "confine the proxy") : 0;
}
