#include "supervisor/common/role_sandbox.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__x86_64__)
#define CALL_RESULT(u) ((u)->uc_mcontext.gregs[REG_RAX])
#define CALL_FIRST_ARGUMENT(u) ((u)->uc_mcontext.gregs[REG_RDI])
#elif defined(__aarch64__)
#define CALL_RESULT(u) ((u)->uc_mcontext.regs[0])
#define CALL_FIRST_ARGUMENT(u) ((u)->uc_mcontext.regs[0])
#else
#error "role_sandbox.c: which registers hold a system call's result and first argument?"
#endif

#define PR_SET_VMA_OPTION 0x53564d41 /* the C library names its heaps with it; younger than some headers */
#define FIRST_RECENT_CALL 451        /* of Linux 6.5: from there on a C library has an older call to fall back on */

enum role_bit {
	RUNTIME = 1 << ROLE_SANDBOX_RUNTIME,
	PROXY = 1 << ROLE_SANDBOX_PROXY,
	EXPORTER = 1 << ROLE_SANDBOX_EXPORTER,
	WEBHOOK = 1 << ROLE_SANDBOX_WEBHOOK,
	MODEL = 1 << ROLE_SANDBOX_MODEL,
	GATEWAY = 1 << ROLE_SANDBOX_GATEWAY,
	FLEET = 1 << ROLE_SANDBOX_FLEET,
	ALL = (1 << ROLE_SANDBOX_COUNT) - 1
};

/* AF_UNIX: the control socket, and the services behind getpwuid(). Roles with access to the internet lack it. */
static const struct {
	const char *name;
	int family[2];
	bool binds; /* to a TCP port of the host: published ports */
} roles[ROLE_SANDBOX_COUNT] = {
	[ROLE_SANDBOX_RUNTIME] = { "runtime", { AF_UNIX } },
	[ROLE_SANDBOX_PROXY] = { "proxy", { AF_INET, AF_INET6 }, .binds = true },
	[ROLE_SANDBOX_EXPORTER] = { "exporter", { AF_INET, AF_INET6 } },
	[ROLE_SANDBOX_WEBHOOK] = { "webhook", { AF_INET } },
	[ROLE_SANDBOX_MODEL] = { "model", { AF_INET } },
	[ROLE_SANDBOX_GATEWAY] = { "gateway", { AF_UNIX } },
	[ROLE_SANDBOX_FLEET] = { "fleet", { AF_INET, AF_INET6 } },
};

/* ---- denied calls ---- */

static _Atomic bool logged[1024]; /* denied calls that were logged, by number */

/*
 * The kernel delivers SIGSYS instead of making a denied call. Logs it and lets the call fail; a recent one as if the
 * kernel lacked it, so that the C library uses an older one. Only write(2) and the
 * stack are used: the call may come from any function. The C library tries AF_UNIX (nscd) and AF_NETLINK (which
 * addresses the host has) and does without, so those are not worth a line.
 */
static void on_denied_call(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	const unsigned nr = (unsigned)info->si_syscall;
	const bool is_socket = nr == SYS_socket;
	const int family = is_socket ? (int)CALL_FIRST_ARGUMENT(u) : 0;
	const bool expected = is_socket && (family == AF_UNIX || family == AF_NETLINK);
	int saved = errno;

	CALL_RESULT(u) = is_socket ? -EAFNOSUPPORT : nr >= FIRST_RECENT_CALL ? -ENOSYS : -EPERM;
	if (!expected && !atomic_exchange(&logged[nr % countof(logged)], true)) {
		char text[80] = "bailiff: sandbox denied system call 0000 of this process\n";
		char *digit = strstr(text, "0000");

		for (unsigned i = 4, rest = nr; i-- > 0; rest /= 10)
			digit[i] = (char)('0' + rest % 10);
		(void)!write(STDERR_FILENO, text, strlen(text));
	}
	errno = saved;
}

/* ---- system calls ---- */

static int allow_names(scmp_filter_ctx f, const char *names)
{
	for (const char *at = names; *at;) {
		char name[32];
		size_t n = strcspn(at, " ");

		snprintf(name, sizeof name, "%.*s", (int)n, at);
		int nr = seccomp_syscall_resolve_name(name);
		int r = nr == __NR_SCMP_ERROR || nr < 0 ? 0 : seccomp_rule_add(f, SCMP_ACT_ALLOW, nr, 0);
		if (r < 0)
			return r;
		at += n + strspn(at + n, " ");
	}
	return 0;
}

static int allow_calls(scmp_filter_ctx f, enum role_sandbox role)
{
	static const struct {
		int roles;
		const char *names;
	} calls[] = {
#define CALLS(roles, names) { roles, names },
#include "supervisor/common/role_calls.def"
#undef CALLS
	};
	/* A thread's name and its heaps' names; whether the process may dump core was decided before. */
	static const scmp_datum_t prctl_options[] = { PR_SET_NAME, PR_GET_NAME, PR_SET_VMA_OPTION };
	int r = 0;

	for (size_t i = 0; r == 0 && i < countof(calls); i++)
		if (calls[i].roles & 1 << role)
			r = allow_names(f, calls[i].names);
	for (size_t i = 0; r == 0 && i < countof(roles[role].family) && roles[role].family[i]; i++)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
				     SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)roles[role].family[i]));
	for (size_t i = 0; r == 0 && i < countof(prctl_options); i++)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1, SCMP_A0(SCMP_CMP_EQ, prctl_options[i]));
	if (r == 0) /* abort() */
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				     SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
	/* Threads, but no processes. clone3 hides its flags: the C library then uses clone. */
	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				     SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	return r;
}

static int filter_calls(enum role_sandbox role, struct err *e)
{
	const struct sigaction denied = { .sa_sigaction = on_denied_call, .sa_flags = SA_SIGINFO | SA_NODEFER };
	sigset_t sigsys;

	sigemptyset(&sigsys);
	sigaddset(&sigsys, SIGSYS);
	if (sigaction(SIGSYS, &denied, NULL) < 0 || sigprocmask(SIG_UNBLOCK, &sigsys, NULL) < 0)
		return err_sys(e, errno, "handle SIGSYS");
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_TRAP);
	int r = f ? allow_calls(f, role) : -ENOMEM;
	if (r == 0)
		r = seccomp_load(f);
	seccomp_release(f);
	return r < 0 ? err_sys(e, -r, "filter system calls") : 0;
}

/* ---- files ---- */

/* Kernel headers may be older than the kernel. */
#define FS_OF_FILES (FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV)
#define FS_WRITE_FILE (1ull << 1)
#define FS_READ_FILE (1ull << 2)
#define FS_READ_DIR (1ull << 3)
#define FS_EXECUTE (1ull << 0)
#define FS_TRUNCATE (1ull << 14)
#define FS_IOCTL_DEV (1ull << 15)
#define FS_ALL ((1ull << 16) - 1)
#define NET_BIND 1ull
#define SCOPE_ALL 3ull /* abstract unix sockets, signals */

struct ruleset_attr {
	uint64_t fs, net, scoped;
};

static uint64_t rights_of(int abi)
{
	return abi >= 5 ? FS_ALL : abi >= 3 ? FS_ALL >> 1 : abi >= 2 ? FS_ALL >> 2 : FS_ALL >> 3;
}

static int allow_path(int ruleset, uint64_t handled, const struct role_sandbox_path *p)
{
	static const uint64_t rights[] = {
		[ROLE_SANDBOX_LIST] = FS_READ_DIR,
		[ROLE_SANDBOX_READ] = FS_READ_DIR | FS_READ_FILE,
		[ROLE_SANDBOX_WRITE] = FS_ALL & ~FS_EXECUTE & ~FS_IOCTL_DEV,
	};
	fd_auto int fd = p->path ? open(p->path, O_PATH | O_CLOEXEC) : fcntl(p->fd, F_DUPFD_CLOEXEC, 0);
	struct stat st;

	/* What is missing needs no rule. After a shortage of descriptors it would be missing for good: another start.
	 */
	if (fd < 0)
		return errno == ENOMEM || errno == EMFILE || errno == ENFILE || errno == EIO ? -1 : 0;
	if (fstat(fd, &st) < 0)
		return -1;
	const struct landlock_path_beneath_attr rule = {
		.allowed_access = rights[p->access] & handled & (S_ISDIR(st.st_mode) ? FS_ALL : FS_OF_FILES),
		.parent_fd = fd,
	};
	if (!rule.allowed_access)
		return 0;
	return (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

static int allow_paths(int ruleset, uint64_t handled, const struct role_sandbox_path *paths, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++)
		if (allow_path(ruleset, handled, &paths[i]) < 0)
			return err_sys(e, errno, "Landlock: %s", paths[i].path ? paths[i].path : "a directory");
	return 0;
}

static int restrict_files(enum role_sandbox role, const struct role_sandbox_path *own, size_t n, struct err *e)
{
	/*
	 * /etc as a whole, and the targets that its resolv.conf may link to: these files are replaced while the process
	 * runs, and a Landlock rule applies to the inode that existed when it was added. The libraries: modules that
	 * the C library loads to look up names and accounts.
	 */
	static const struct role_sandbox_path common[] = {
		{ ROLE_SANDBOX_READ, "/etc", -1 },
		{ ROLE_SANDBOX_READ, "/run/systemd/resolve", -1 },
		{ ROLE_SANDBOX_READ, "/run/NetworkManager", -1 },
		{ ROLE_SANDBOX_READ, "/run/resolvconf", -1 },
		{ ROLE_SANDBOX_READ, "/run/connman", -1 },
		{ ROLE_SANDBOX_READ, "/usr/lib", -1 },
		{ ROLE_SANDBOX_READ, "/lib", -1 },
		{ ROLE_SANDBOX_READ, "/lib64", -1 },
		{ ROLE_SANDBOX_READ, "/usr/lib64", -1 },
		{ ROLE_SANDBOX_READ, "/usr/share/zoneinfo", -1 },
		{ ROLE_SANDBOX_READ, "/dev/null", -1 },
		{ ROLE_SANDBOX_READ, "/dev/urandom", -1 },
	};
	int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	if (abi < 1) {
		log_info("no Landlock for the %s: %s", roles[role].name, strerror(errno));
		return 0;
	}
	const struct ruleset_attr attr = { rights_of(abi), abi >= 4 && !roles[role].binds ? NET_BIND : 0,
					   abi >= 6 ? SCOPE_ALL : 0 };
	size_t size = abi >= 6   ? sizeof attr
		      : abi >= 4 ? offsetof(struct ruleset_attr, scoped)
				 : offsetof(struct ruleset_attr, net);
	fd_auto int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (ruleset < 0)
		return err_sys(e, errno, "create a Landlock ruleset");
	if (allow_paths(ruleset, attr.fs, common, countof(common), e) < 0 ||
	    allow_paths(ruleset, attr.fs, own, n, e) < 0)
		return -1;
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return err_sys(e, errno, "enter the Landlock domain");
	return 0;
}

int role_sandbox_enter(enum role_sandbox role, const struct role_sandbox_path *own, size_t n, struct err *e)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, errno, "sandbox of the %s: no_new_privs", roles[role].name);
	if (ROLE_SANDBOX_SANITIZED)
		return 0;
	if (restrict_files(role, own, n, e) < 0 || filter_calls(role, e) < 0)
		return err_wrap(e, "sandbox of the %s", roles[role].name);
	return 0;
}
