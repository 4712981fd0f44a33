#!/usr/bin/python3
"""Every system call of a scenario fails once, with each of three errors, and is delayed once, in every process of the daemon.

    fail_nth.py [--only REGEX] [arguments of proof.py]     a case is a plan of build/nth: "runtime fdatasync 3 fail 5"

Afterwards every request has an answer or an error in bounded time, the daemon serves (or has ended, and the next one does), nothing acknowledged is lost, no
effect happens twice, every process has one terminal event, the store verifies (its read models equal a fresh fold), SIGTERM ends the daemon in time, and
no process, mount or cgroup is left. A delay changes nothing: every step must succeed. See nth_scenario.py.

Not failed, only delayed: calls that cannot fail (getpid, rt_sigprocmask, brk, kill of a child ...) and futex, whose failures glibc does not survive.
"""

import errno
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import nth_loop             # noqa: E402
import nth_scenario         # noqa: E402

DELAY_MS = 200
# Calls, separated by spaces, and errors that are plausible for them.
ERRORS = {
    "openat openat2 open": "EMFILE ENOMEM EIO",
    "read readv": "EIO EINTR EAGAIN",
    "pread64 preadv": "EIO EINTR ENOMEM",
    "write writev": "ENOSPC EIO EINTR ENOMEM",
    "pwrite64 pwritev": "ENOSPC EIO EINTR",
    "fdatasync fsync msync sync_file_range": "EIO ENOSPC EINTR",
    "ftruncate fallocate truncate": "ENOSPC EIO EINTR",
    "mmap mremap": "ENOMEM EAGAIN ENFILE",
    "munmap mprotect madvise mlock mlock2": "ENOMEM EAGAIN EINVAL",
    "socket socketpair pipe2 eventfd2 epoll_create1 timerfd_create signalfd4 memfd_create inotify_init1 pidfd_open dup dup2 dup3": "EMFILE ENFILE ENOMEM",
    "fcntl": "EMFILE ENOLCK EAGAIN",
    "accept4 accept": "EMFILE ECONNABORTED ENOMEM",
    "connect": "ECONNREFUSED EAGAIN ENOMEM",
    "bind listen": "EADDRINUSE ENOMEM EACCES",
    "sendmsg sendto sendmmsg": "ENOBUFS EAGAIN ETOOMANYREFS",
    "recvmsg recvfrom": "ENOMEM EINTR EAGAIN",
    "getsockopt setsockopt getpeername shutdown": "ENOMEM ENOBUFS ENOTCONN",
    "getsockname": "ENOMEM ENOBUFS",
    "epoll_ctl": "ENOMEM ENOSPC EPERM",
    "epoll_wait epoll_pwait epoll_pwait2": "EINTR EINVAL EBADF",
    "poll ppoll pselect6": "EINTR ENOMEM EAGAIN",
    "clone clone3 fork vfork": "EAGAIN ENOMEM ENOSPC",
    "execve execveat": "ENOMEM EMFILE EIO",
    "mount umount2 move_mount open_tree fsopen fsconfig fsmount mount_setattr pivot_root chroot": "ENOMEM EPERM EBUSY",
    "mkdir mkdirat unlink unlinkat rename renameat renameat2 link linkat symlinkat mknodat rmdir": "ENOSPC EIO ENOMEM",
    "newfstatat fstat statx statfs fstatfs readlink readlinkat faccessat faccessat2 chdir fchdir getcwd": "ENOMEM EIO EACCES",
    "getdents64 lseek": "EIO ENOMEM EINVAL",
    "prctl seccomp capset landlock_create_ruleset landlock_add_rule landlock_restrict_self": "ENOMEM EPERM EINVAL",
    "unshare setns sethostname setsid": "ENOMEM EPERM ENOSPC",
    "setuid setgid setresuid setresgid setgroups setfsuid setfsgid": "EAGAIN EPERM ENOMEM",
    "prlimit64 sched_setaffinity sched_setscheduler setpriority ioprio_set": "EPERM ENOMEM EINVAL",
    "wait4 waitid": "EINTR",
    "splice sendfile copy_file_range tee": "EAGAIN EIO ENOMEM",
    "close": "EIO EINTR ENOSPC",
    "fchmod fchmodat fchown fchownat utimensat setxattr fsetxattr": "EIO EROFS ENOMEM",
    "flock": "EINTR ENOLCK EAGAIN",
    "ioctl": "ENOMEM EIO EINTR",
    "timerfd_settime inotify_add_watch name_to_handle_at open_by_handle_at add_key keyctl": "ENOMEM ENOSPC EIO",
    "getrandom nanosleep clock_nanosleep": "EINTR",
    "rt_sigtimedwait": "EINTR EAGAIN",
}
BY_CALL = {call: [getattr(errno, e) for e in errors.split()] for calls, errors in ERRORS.items() for call in calls.split()}
LASTING = ("seccomp", "landlock", "prctl")
NEVER = ("exit", "exit_group", "rt_sigreturn", "restart_syscall")
SHORT = ["runtime fdatasync 4 fail 5", "spawner clone3 3 fail 11", "guard ppoll 9 fail 12", "runtime recvmsg 5 fail 12", "runtime pwrite64 6 fail 28",
         "init read 2 fail 4", "runtime epoll_pwait 20 delay 200", "proxy accept4 1 fail 24", "runtime openat 15 fail 24", "spawner getsockname 1 fail 12",
         "model sendto 6 fail 105"]


def make_cases(counts):
    for (role, call), n in counts.items():
        if call in NEVER:
            continue
        for k in range(1, n + 1):
            for error in BY_CALL.get(call, ()):
                yield f"{role} {call} {k} fail {error}"
            yield f"{role} {call} {k} delay {DELAY_MS}"


def rules(case):
    _, call, _, action, value = case.split()
    if action == "delay":
        return {"strict": nth_scenario.ALL}
    # Out of memory aborts, by design: the guard starts the process again.
    return {"may_refuse": int(value) in (errno.EPERM, errno.EINVAL, errno.EACCES) or call.startswith(LASTING),
            "may_abort": int(value) in (errno.ENOMEM, errno.EAGAIN, errno.ENFILE) and call in ("mmap", "mremap", "mprotect", "clone", "clone3")}


def most_together(case):
    """After such an error the daemon may refuse every command: other faults would find nothing to do."""
    return 1 if " fail " in case and case.split()[1].startswith(LASTING) else None


if __name__ == "__main__":
    sys.exit(nth_loop.main("fail_nth", make_cases, rules, SHORT, "a system call that fails loses nothing, hangs nothing and leaves nothing", most_together))
