#include "supervisor/common/runtime_sandbox.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) || \
	__has_feature(thread_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* Names that this architecture does not have are passed over by libseccomp. */
static const char *const given_up[] = {
	"execve",
	"execveat",
	"fork",
	"vfork",
	"ptrace",
	"process_vm_readv",
	"process_vm_writev",
	"pidfd_getfd",
	"kcmp",
	"mount",
	"umount2",
	"pivot_root",
	"chroot",
	"open_tree",
	"move_mount",
	"fsopen",
	"fsconfig",
	"fsmount",
	"fspick",
	"mount_setattr",
	"setns",
	"unshare",
	"keyctl",
	"add_key",
	"request_key",
	"bpf",
	"perf_event_open",
	"userfaultfd",
	"io_uring_setup",
	"io_uring_enter",
	"io_uring_register",
	"init_module",
	"finit_module",
	"delete_module",
	"kexec_load",
	"kexec_file_load",
	"reboot",
	"swapon",
	"swapoff",
	"acct",
	"quotactl",
	"settimeofday",
	"clock_settime",
	"adjtimex",
	"clock_adjtime",
	"sethostname",
	"setdomainname",
	"syslog",
	"personality",
	"mknod",
	"mknodat",
	"iopl",
	"ioperm",
	"open_by_handle_at",
	"fanotify_init",
	"setuid",
	"setreuid",
	"setresuid",
	"setgid",
	"setregid",
	"setresgid",
	"setgroups",
	"chown",
	"fchown",
	"fchownat",
	"lchown",
};

static int refuse(scmp_filter_ctx f, struct err *e)
{
	for (size_t i = 0; i < countof(given_up); i++) {
		int nr = seccomp_syscall_resolve_name(given_up[i]);
		if (nr == __NR_SCMP_ERROR)
			continue; /* younger than the library */
		int r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), nr, 0);
		if (r < 0 && r != -EDOM)
			return err_sys(e, -r, "filter %s", given_up[i]);
	}
	/* Threads, but no processes. clone3 hides its flags: the C library then uses clone. */
	int r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
				 SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	return r < 0 ? err_sys(e, -r, "filter clone") : 0;
}

int runtime_sandbox_enter(struct err *e)
{
	if (SANITIZED)
		return 0; /* the sanitizers' own helpers trace and clone */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, errno, "confine the runtime: no_new_privs");
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	if (!f)
		return err_set(e, ERR_INTERNAL, "confine the runtime: no filter");
	int r = refuse(f, e);
	if (r == 0 && (r = seccomp_load(f)) < 0)
		r = err_sys(e, -r, "load the filter");
	seccomp_release(f);
	return r < 0 ? err_wrap(e, "confine the runtime") : 0;
}
