"""Ways out of a sandbox: each is tried outside, where it must be open, and inside every profile, where it must be shut.

The trying is done by probe (probe*.c), which prints `NAME[=ARG]: open|shut ERRNO …`. A row of a table here says what is
tried, for whom it is open outside ("any": everybody, "root": root; "-": nobody on every machine, or it would do harm), and how
it is refused inside. A way that is shut by another errno than these is a failure too: something else than the wall may
have been in the way.
"""

import contextlib
import ctypes
import os
import platform
import shutil
import socket
import stat
import subprocess
import sys

from tries import (ABSENT, FILTERED, GONE, HELD, NO_PROCESS, PROBE, PROFILES, REFUSED, ROOT, UNREACHABLE, WRITABLE, check, collected, filled,
                   harness, inside, inside_terminal, landlock_abi, outside, parse, repository, snapshot, words_of)
from harness import Home, Skip, until

# Nothing that is tried there depends on a file.
KERNEL = [
    ("open_tree", "root", FILTERED), ("open_tree_plain", "any", FILTERED), ("move_mount", "root", FILTERED),
    ("fsopen", "root", FILTERED), ("fspick", "root", FILTERED), ("pivot_root", "root", FILTERED), ("chroot", "root", FILTERED),
    ("unshare=10000000", "any", FILTERED), ("unshare=20000", "root", FILTERED), ("unshare=40000000", "root", FILTERED),
    ("unshare=80", "root", FILTERED), ("unshare=2000000", "root", FILTERED), ("unshare=8000000", "root", FILTERED),
    ("clone_user", "any", FILTERED), ("clone_user_high_bits", "any", FILTERED), ("clone3_user", "any", ABSENT),
    ("clone3_cgroup", "any", ABSENT),
    ("setns=/proc/self/ns/net", "root", FILTERED), ("setns=/proc/1/ns/mnt", "-", REFUSED | GONE),
    ("namespace_owner=/proc/self/ns/mnt", "root", FILTERED), ("namespace_parent=/proc/self/ns/pid", "-", FILTERED),
    ("namespace_parent=/proc/self/ns/user", "-", FILTERED),
    ("keyctl", "any", FILTERED), ("add_key", "any", FILTERED), ("request_key", "any", FILTERED),
    ("bpf", "root", FILTERED), ("perf", "-", FILTERED), ("userfaultfd", "any", FILTERED), ("io_uring", "any", ABSENT),
    ("kexec", "-", FILTERED), ("load_module", "-", FILTERED), ("delete_module", "-", FILTERED), ("kernel_log", "root", FILTERED),
    ("reboot", "root", FILTERED), ("swapoff", "root", FILTERED), ("acct", "root", FILTERED), ("set_hostname", "root", FILTERED),
    ("set_clock", "any", FILTERED), ("set_timeofday", "root", FILTERED), ("quota", "-", FILTERED),
    ("fanotify", "root", FILTERED), ("fanotify_unprivileged", "any", FILTERED), ("vhangup", "root", FILTERED),
    ("personality=0400000", "any", FILTERED), ("personality=0040000000400000", "-", FILTERED), ("personality=8", "any", FILTERED),
    ("foreign_calls", "-", ABSENT | {"SIGSYS", "ENOEXEC"}),
    ("type_into_terminal", "root", FILTERED), ("type_with_high_bits", "root", FILTERED), ("console_paste", "any", FILTERED),
    ("line_discipline", "any", FILTERED),
    ("descriptors", "-", {"ENODATA"}), ("privileges", "any", FILTERED), ("set_uid", "root", REFUSED | {"EINVAL"}),
    ("set_other_uid", "root", REFUSED | {"EINVAL"}), ("set_groups", "root", FILTERED), ("take_capability", "root", FILTERED),
    ("real_time", "root" if harness.real_time_is_permitted() else "-", FILTERED), ("nice", "root", REFUSED), ("oom_score", "-", REFUSED), ("raise_limit", "-", FILTERED),
    ("pin_memory", "root", {"ENOMEM", "EPERM", "EAGAIN"}),
    ("read=/proc/1/environ", "-", REFUSED), ("write=/proc/1/mem", "-", REFUSED), ("list=/proc/1/fd", "-", REFUSED | GONE),
    ("list=/proc/1/root/", "-", REFUSED), ("list=/proc/1/cwd/", "-", REFUSED), ("read=/proc/1/maps", "-", REFUSED),
    ("read=/proc/1/root/etc/shadow", "-", REFUSED), ("write=/proc/1/exe", "-", REFUSED), ("read=/proc/1/exe", "-", REFUSED),
    ("list=/proc/1/task/1/fd", "-", REFUSED | GONE), ("read=/proc/1/auxv", "-", REFUSED),
    ("write=/proc/1/oom_score_adj", "-", REFUSED), ("write=/proc/1/coredump_filter", "-", REFUSED),
    ("trace=1", "-", FILTERED), ("read_memory=1", "-", FILTERED), ("take_descriptor=1", "-", FILTERED),
    ("compare=1", "-", FILTERED), ("limit_other=1", "-", FILTERED),
    ("schedule_other=1", "root", FILTERED), ("schedule_other_param=1", "root", FILTERED), ("schedule_other_attr=1", "root", FILTERED),
    ("processors_of_other=1", "root", FILTERED), ("priority_of_other=1", "root", FILTERED), ("priority_of_user", "-", FILTERED),
    ("io_priority_of_other=1", "root", FILTERED), ("io_priority_of_user", "-", FILTERED), ("end_init", "-", FILTERED),
    ("write=/proc/self/exe", "-", REFUSED | {"ETXTBSY"}), ("map_ids", "-", REFUSED),
    ("rewrite=/proc/sys/kernel/core_pattern", "root", REFUSED), ("write=/proc/sys/kernel/hostname", "root", REFUSED),
    ("write=/proc/sys/vm/overcommit_memory", "root", REFUSED), ("write=/proc/sysrq-trigger", "-", REFUSED | GONE),
    ("write=/proc/sys/net/ipv4/ip_forward", "root", REFUSED | GONE), ("read=/proc/kcore", "-", REFUSED | GONE),
    ("read=/proc/keys", "-", REFUSED | GONE),
    ("read=/proc/kpagecount", "-", REFUSED | GONE),
    ("read=/dev/mem", "-", GONE), ("read=/dev/kmsg", "root", GONE), ("write=/dev/kmsg", "root", GONE), ("write=/dev/vda", "-", GONE),
    ("list=/dev/disk", "-", GONE), ("read=/dev/port", "-", GONE), ("write=/dev/loop-control", "-", GONE), ("write=/dev/fuse", "-", GONE),
    ("write=/dev/kvm", "-", GONE), ("write=/dev/net/tun", "-", GONE), ("write=/dev/uinput", "-", GONE), ("create=/dev/new", "root", REFUSED),
    ("list=/sys/fs/cgroup", "any", GONE), ("write=/sys/fs/cgroup/cgroup.procs", "-", GONE), ("list=/sys/kernel", "any", GONE),
    ("list=/sys/class", "any", GONE), ("write=/sys/fs/cgroup/release_agent", "-", GONE), ("create=/sys/new", "-", REFUSED),
    ("create=/proc/new", "-", REFUSED | GONE), ("create=/new", "root", REFUSED), ("create=/run/new", "root", REFUSED),
    ("mkdir=/new", "root", REFUSED), ("create=/etc/new", "root", REFUSED), ("create=/usr/bin/new", "root", REFUSED),
    ("list=/run", "any", GONE), ("list=/boot", "-", GONE), ("list=/mnt", "-", GONE), ("list=/var/run/", "any", GONE),
    ("read=/etc/shadow", "root", REFUSED), ("write=/etc/passwd", "root", REFUSED), ("rewrite=/etc/hosts", "root", REFUSED | GONE),
    ("reopen=/etc/passwd", "root", REFUSED), ("map=/etc/passwd", "root", REFUSED), ("soft_link=/etc/passwd", "root", HELD),
    ("hard_link=/etc/passwd", "-", HELD), ("link_from_descriptor=/etc/passwd", "-", HELD),
    ("chmod=/etc/passwd", "root", REFUSED), ("chmod_descriptor=/etc/passwd", "root", REFUSED), ("chown=/etc/passwd", "root", REFUSED),
    ("utimes=/etc/passwd", "root", REFUSED), ("setxattr=/etc/passwd", "root", REFUSED), ("truncate=/etc/passwd", "root", REFUSED),
    ("set_flags=/etc/hostname", "root", REFUSED), ("rename=/etc/hostname", "root", HELD), ("chmod=/", "root", REFUSED),
    ("chmod=/dev/null", "root", REFUSED), ("chown=/dev/null", "root", REFUSED | {"EINVAL"}),
    ("rename=/tmp", "-", HELD), ("setxattr=/etc", "root", REFUSED), ("utimes=/usr", "root", REFUSED), ("handle=/", "root", FILTERED),
    ("handle=/etc", "root", FILTERED), ("name_to_handle=/etc", "-", FILTERED), ("packet", "root", {"EAFNOSUPPORT"}), ("raw", "root", FILTERED), ("raw6", "-", FILTERED),
    ("netlink=0", "any", {"EAFNOSUPPORT"}), ("netlink=9", "-", {"EAFNOSUPPORT"}), ("netlink=15", "any", {"EAFNOSUPPORT"}),
    ("netlink_high_bits", "any", {"EAFNOSUPPORT"}), ("family=40", "any", {"EAFNOSUPPORT"}), ("family=38", "-", {"EAFNOSUPPORT"}),
    ("family=31", "-", {"EAFNOSUPPORT"}), ("family=44", "-", {"EAFNOSUPPORT"}), ("interface", "root", FILTERED),
]
# On a terminal of the sandbox's; {t} is one of the host's.
TERMINAL = [
    ("other_terminals", "-", GONE), ("other_side", "-", GONE), ("type_into_own", "-", FILTERED), ("paste_own", "-", FILTERED),
    ("discipline_own", "-", FILTERED), ("become_console", "-", FILTERED), ("steal_terminal", "-", FILTERED),
    ("read={t}", "any", GONE), ("write={t}", "any", GONE), ("write=/dev/tty0", "-", GONE), ("write=/dev/tty1", "-", GONE),
    ("read=/dev/vcs1", "-", GONE), ("write=/dev/ttyS0", "-", GONE), ("write=/dev/hvc0", "-", GONE), ("write=/proc/1/fd/0", "-", REFUSED | GONE),
    ("create=/dev/pts/new", "-", REFUSED),
]
# Each changes what the next would see: outside every one has a mount namespace of its own.
MOUNTS = [("mount", "root"), ("mount_bind", "root"), ("remount", "root"), ("mount_proc", "root"), ("mount_overlay", "root"), ("umount", "root"),
          ("mount_setattr", "root")]
# Where the sandbox may write: the workspace and the private /tmp.
PLACES = [
    (f"set_{way}", "any", FILTERED if way not in ("id_by_openat2",) else ABSENT)
    for way in ("id_by_chmod", "gid_by_chmod", "id_by_high_bits", "id_by_fchmod", "id_by_fchmodat2", "id_by_open", "id_by_creat",
                "id_by_openat2", "id_by_mknod", "id_by_tmpfile", "id_by_mkdir")
] + [
    # The kernel itself drops the bits of these.
    ("set_id_by_fifo", "-", FILTERED), ("set_id_by_socket", "-", FILTERED), ("set_id_queue", "any", FILTERED),
    ("lease", "any", FILTERED), ("lease_high_bits", "any", FILTERED),
    ("character_device", "root", FILTERED), ("block_device", "root", FILTERED), ("zero_device", "any", FILTERED),
    ("file_capability", "root", FILTERED), ("immutable", "-", {"EPERM", "ENOTTY", "EOPNOTSUPP"}), ("whiteout", "root", FILTERED | {"EINVAL"}),
    ("hard_link=/etc/hostname", "-", HELD), ("soft_link=/etc/hostname", "root", HELD), ("hard_link=/bin/true", "-", HELD),
]
# Of a repository in the workspace: {w} is its top. Owned by the caller, so that only the mounts deny access.
PROTECTED = [
    (f"{try_}={{w}}/.git/{name}", "any", HELD)
    for name in ("config", "hooks/pre-commit")
    for try_ in ("write", "reopen", "map", "truncate", "chmod", "chmod_descriptor", "chown", "utimes", "setxattr", "set_flags", "rename",
                 "exchange", "replace", "hard_link", "link_from_descriptor", "soft_link")
] + [
    (word, "any", HELD) for word in (
        "create={w}/.git/hooks/new", "mkdir={w}/.git/hooks/new", "rename={w}/.git/hooks", "exchange={w}/.git/hooks", "rename={w}/.git",
        "exchange={w}/.git", "chmod={w}/.git/hooks", "utimes={w}/.git/hooks", "setxattr={w}/.git/hooks", "rename={w}/.bailiff",
        "write={w}/.bailiff/policy.json", "replace={w}/.bailiff/policy.json", "create={w}/.bailiff/new", "reopen={w}/.bailiff/policy.json")
] + [(word, "-", HELD | {"ENOTEMPTY"}) for word in ("unlink={w}/.git/config", "unlink={w}/.git/hooks", "unlink={w}/.git", "unlink={w}", "rename={w}")]


# ---- tables ----

def test_kernel_interfaces_are_out_of_reach(home):
    work = repository(home)
    with collected() as part:
        with part():
            check(KERNEL, outside(KERNEL, work), "outside", "open")
        for profile in PROFILES:
            with part():
                check(KERNEL, inside(home, profile, words_of(KERNEL), "/tmp"), profile, "shut")


@contextlib.contextmanager
def host_terminal():
    """One of the host's that has a higher number than a sandbox's first, and something to read on it."""
    held = [os.openpty() for _ in range(4)]
    try:
        os.write(held[-1][0], b"typed by a person\n")
        yield os.ttyname(held[-1][1])
    finally:
        for fd in (fd for pair in held for fd in pair):
            os.close(fd)


def test_terminals_of_the_host_are_out_of_reach(home):
    with host_terminal() as name, collected() as part:
        own = filled(TERMINAL, t=name)
        with part():
            check(own, outside(own, "/"), "outside", "open")
        for profile in PROFILES:
            with part():
                check(own, inside_terminal(home, profile, words_of(own), "/tmp"), f"{profile} on a terminal", "shut")
            with part():
                check(KERNEL, inside_terminal(home, profile, words_of(KERNEL), "/tmp"), f"{profile} on a terminal", "shut")


def test_mounting_is_denied(home):
    rows = [(word, bites, FILTERED) for word, bites in MOUNTS]
    with collected() as part:
        with part():
            check(rows, outside(rows, "/", each=True), "outside", "open")
        for profile in PROFILES:
            with part():
                check(rows, inside(home, profile, words_of(rows), "/tmp"), profile, "shut")


def test_writes_outside_the_write_roots_are_denied(home):
    work = repository(home)
    before = snapshot(work)
    with collected() as part:
        with part():
            check(PLACES, outside(PLACES, work), "outside", "open")
        for profile in PROFILES:
            for place in ("/tmp",) if profile == "readonly" else ("/tmp", work):
                with part():
                    check(PLACES, inside(home, profile, words_of(PLACES), place), f"{profile} in {place}", "shut")
    assert snapshot(work) == before


def test_protected_paths_cannot_be_changed(home):
    rows = filled(PROTECTED, w=repository(home))
    with collected() as part:
        with part():
            check(rows, outside(rows, home.work), "outside", "open")
        with open(os.path.join(home.work, ".bailiff", "policy.json"), "w") as f:
            f.write("{}\n")  # which was overwritten: nothing starts with an unreadable policy
        before = snapshot(home.work)
        for profile in WRITABLE:
            with part():
                check(rows, inside(home, profile, words_of(rows), home.work), profile, "shut")
                assert snapshot(home.work) == before, f"{profile}: the tree is changed"
        with part():
            # From a folder below, the workspace is still the whole.
            below = os.path.join(home.work, "below")
            os.mkdir(below)
            check(rows, inside(home, "workspace", words_of(rows), below, cwd=below), "from below", "shut")


def test_readonly_workspace_cannot_be_written(home):
    work = repository(home)
    with open(os.path.join(work, "file"), "w") as f:
        f.write("x" * 5000)
    rows = filled([(f"{try_}={{w}}/file", "any", REFUSED) for try_ in (
        "write", "reopen", "map", "truncate", "chmod", "chmod_descriptor", "chown", "utimes", "setxattr", "set_flags", "rename")] +
        [(word, "any", REFUSED) for word in ("create={w}/new", "mkdir={w}/new", "chmod={w}", "utimes={w}", "setxattr={w}")] +
        [("unlink={w}/file", "-", REFUSED)], w=work)
    with collected() as part:
        with part():
            check(rows, outside(rows, work), "outside", "open")
        with part():
            check(rows, inside(home, "readonly", words_of(rows), "/tmp"), "readonly", "shut")


@contextlib.contextmanager
def processes_of_the_host(home):
    """Rows about this one, the daemon's parts, and a sleeper of the same user, which must still run afterwards."""
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        pids = [sleeper.pid, home.guard.pid] + [until(f"{part} runs", lambda: home.part(part)) for part in ("runtime", "spawner")]
        rows = [(f"{try_}={pid}", "any" if pid == sleeper.pid and try_ != "read_memory" else "-", NO_PROCESS) for pid in pids
                for try_ in ("see", "signal", "open_process", "trace", "read_memory", "take_descriptor", "compare", "limit_other")]
        rows += [(word.format(p=sleeper.pid), "any", GONE) for word in (
            "read=/proc/{p}/environ", "write=/proc/{p}/mem", "list=/proc/{p}/fd", "list=/proc/{p}/root/", "list=/proc/{p}/cwd/", "read=/proc/{p}/maps",
            "read=/proc/{p}/exe", "read=/proc/{p}/root/etc/passwd")]
        yield rows
        assert sleeper.poll() is None and home.answers()
    finally:
        sleeper.kill()
        sleeper.wait()


def test_processes_of_the_host_are_out_of_reach(home):
    with processes_of_the_host(home) as rows, collected() as part:
        with part():
            check(rows, outside(rows, "/"), "outside", "open")
        for profile in PROFILES:
            with part():
                check(rows, inside(home, profile, words_of(rows), "/tmp"), profile, "shut")
        home.cli("run", "--profile", "workspace", "--", "sh", "-c", "kill -9 -1", status=None)


class Shared:
    """System V objects, a queue and shared memory of a host process."""

    def __enter__(self):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.key = 0x5b000000 | os.getpid() & 0xffffff
        self.memory = self.libc.shmget(self.key, 4096, 0o1600)
        self.semaphore = self.libc.semget(self.key, 1, 0o1600)
        self.messages = self.libc.msgget(self.key, 0o1600)
        self.name = f"probe-{os.getpid()}"
        attributes = (ctypes.c_long * 8)(0, 4, 64, 0)
        self.queue = self.libc.mq_open(f"/{self.name}".encode(), os.O_CREAT | os.O_RDWR, 0o600, ctypes.byref(attributes))
        self.file = f"/dev/shm/{self.name}"
        with open(self.file, "w") as f:
            f.write("x")
        assert min(self.memory, self.semaphore, self.messages, self.queue) >= 0
        return self

    def __exit__(self, *_):
        self.libc.shmctl(self.memory, 0, None)
        self.libc.semctl(self.semaphore, 0, 0)
        self.libc.msgctl(self.messages, 0, None)
        self.libc.mq_unlink(f"/{self.name}".encode())
        os.unlink(self.file)


    def rows(self):
        return [(f"shared_memory={self.key}", "any", GONE), (f"semaphore={self.key}", "any", GONE), (f"message_queue={self.key}", "any", GONE),
                (f"posix_queue=/{self.name}", "any", GONE), (f"posix_memory=/{self.name}", "any", GONE), (f"read={self.file}", "any", GONE)]


def test_shared_memory_and_queues_are_private(home):
    with Shared() as s, collected() as part:
        with part():
            check(s.rows(), outside(s.rows(), "/"), "outside", "open")
        for profile in PROFILES:
            with part():
                check(s.rows(), inside(home, profile, words_of(s.rows()), "/tmp"), profile, "shut")


@contextlib.contextmanager
def network_of_the_host():
    """Rows about servers of this process, and a datagram to it that the probe must not be able to send."""
    with contextlib.ExitStack() as stack:
        four = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        six = stack.enter_context(socket.create_server(("::1", 0), family=socket.AF_INET6, backlog=64))
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        name = f"probe-{os.getpid()}"
        abstract.bind("\0" + name)
        abstract.listen(64)
        datagrams = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        datagrams.bind(("127.0.0.1", 0))
        port, port6, udp = four.getsockname()[1], six.getsockname()[1], datagrams.getsockname()[1]
        yield [(f"connect=127.0.0.1,{port}", "any", UNREACHABLE), (f"connect=::1,{port6}", "any", UNREACHABLE),
               (f"connect=::ffff:127.0.0.1,{port}", "any", UNREACHABLE), (f"connect=0.0.0.0,{port}", "any", UNREACHABLE),
               (f"connect=127.1.2.3,{port}", "-", UNREACHABLE), (f"fast_open=127.0.0.1,{port}", "any", UNREACHABLE),
               ("connect=169.254.169.254,80", "-", UNREACHABLE), ("connect=192.0.2.1,443", "-", UNREACHABLE),
               ("connect=2001:db8::1,443", "-", UNREACHABLE), ("connect=10.0.0.1,22", "-", UNREACHABLE),
               ("send=169.254.169.254,80", "-", UNREACHABLE), ("send=192.0.2.1,53", "-", UNREACHABLE),
               ("send=8.8.8.8,53", "-", UNREACHABLE), ("send=255.255.255.255,9", "-", UNREACHABLE | REFUSED),
               (f"abstract={name}", "any", UNREACHABLE | FILTERED)], [f"send=127.0.0.1,{udp}"]
        datagrams.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            data = datagrams.recv(10)
            raise AssertionError(f"a datagram arrived from inside: {data}")


def test_network_is_out_of_reach(home):
    with network_of_the_host() as (rows, datagram), collected() as part:
        with part():
            check(rows, outside(rows, "/"), "outside", "open")
        for profile in PROFILES:
            with part():
                check(rows, inside(home, profile, words_of(rows) + datagram, "/tmp"), profile, "shut")


def test_sockets_of_the_host_are_out_of_reach(home):
    paths = ["/run/dbus/system_bus_socket", "/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock",
             "/run/systemd/private", "/run/systemd/notify", "/run/systemd/journal/socket", "/dev/log", "/run/podman/podman.sock",
             "/run/udev/control", "/run/snapd.socket", f"/run/user/{os.geteuid()}/bus", "/run/bailiff/control.sock"]
    rows = [(f"unix={p}", "-", GONE) for p in paths] + [("list=/run/systemd", "-", GONE), ("list=/run/dbus", "-", GONE)]
    with collected() as part:
        for profile in PROFILES:
            with part():
                check(rows, inside(home, profile, words_of(rows), "/tmp"), profile, "shut")


def test_named_sockets_in_read_only_folders_are_out_of_reach(home):
    """In a folder that is shown and may not be written; where the kernel can tell."""
    if landlock_abi() < 9:
        raise Skip("needs Landlock ABI 9")
    work = repository(home)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listening:
        path = os.path.join(work, "service.sock")
        listening.bind(path)
        os.chmod(path, 0o777)
        listening.listen(8)
        rows = [(f"unix={path}", "any", {"EACCES"})]
        check(rows, outside(rows, "/"), "outside", "open")
        check(rows, inside(home, "readonly", words_of(rows), "/tmp", cwd=work), "readonly", "shut")
        check(rows, inside(home, "workspace", words_of(rows), "/tmp", cwd=work), "workspace", "open")


# ---- bailiff itself ----

def test_files_of_bailiff_are_hidden(home):
    repository(home)
    rows = filled([("unix={h}/control.sock", "any", GONE), ("list={h}/store", "any", GONE | REFUSED), ("list={h}/spool", "-", GONE | REFUSED),
                   ("read={h}/store/data.mdb", "any", GONE | REFUSED)], h=home.dir)
    # Where even the workspace holds the daemon's home, its secrets are out of reach.
    hard = [(word, bites, errors | REFUSED | {"ECONNREFUSED"}) for word, bites, errors in rows] + filled([
        (word, "-", HELD | GONE | {"ENXIO", "EEXIST", "ENOTEMPTY"}) for word in (
            "write={h}/control.sock", "create={h}/store/new", "create={h}/policy.json", "create={h}/config.json", "replace={h}/control.sock",
            "replace={h}/policy.json", "rename={h}/store", "exchange={h}/store", "unlink={h}/control.sock", "unlink={h}/store", "rename={h}")],
        h=home.dir)
    with collected() as part:
        with part():
            check(rows, outside(rows, "/"), "outside", "open")
        for profile in PROFILES:
            with part():
                check(rows, inside(home, profile, words_of(rows), "/tmp"), profile, "shut")
        with part():
            check(hard, inside(home, "workspace", words_of(hard), home.dir, cwd=home.dir), "with the daemon's home as workspace", "shut")
        with part():
            assert not {"policy.json", "config.json"} & set(os.listdir(home.dir)), "placeholders are left"
            home.cli("ps")
        with part():
            done = home.cli("run", "--profile", "workspace", "--env", f"BAILIFF_HOME={home.dir}", "--", "sh", "-c",
                            f'{harness.CLI} ps || {harness.CLI} approve act_x', status=None)
            assert done.status != 0, done.out


def test_environment_is_clean(home):
    leaks = {"LD_PRELOAD": "/nonexistent/evil.so", "BASH_ENV": "/tmp/evil", "GIT_DIR": "/tmp/evil", "GIT_SSH_COMMAND": "evil",
             "AWS_SECRET_ACCESS_KEY": "secret", "SECRET_TOKEN": "secret", "ENV": "/tmp/evil", "PYTHONPATH": "/tmp/evil", "NOTIFY_SOCKET": "/run/x",
             "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/x", "SSH_AUTH_SOCK": "/tmp/agent", "XDG_RUNTIME_DIR": "/run/user/0"}
    plain = harness.environment
    home.stop()
    harness.environment = lambda **more: plain(**dict(leaks, **more))
    try:
        home.start()
    finally:
        harness.environment = plain
    for profile in PROFILES:
        done = home.cli("run", "--profile", profile, "--", "env", env={"SECRET_OF_CALLER": "x"})
        names = {line.partition("=")[0] for line in done.text.splitlines()}
        assert not names & (set(leaks) | {"SECRET_OF_CALLER", "BAILIFF_HOME"}), f"{profile}: {sorted(names)}"


# ---- files that another program left in the workspace ----

def test_set_uid_programs_gain_nothing(home):
    if not ROOT:
        raise Skip("requires root to create set-uid programs")
    repository(home)
    way = os.path.join(home.work, "elevated")
    for prepare in (lambda: os.chmod(way, 0o6755), lambda: os.setxattr(way, "security.capability", bytes.fromhex("0100000200002000000000000000000000000000"))):
        shutil.copy(PROBE, way)
        os.chown(way, 65534, 65534)
        os.chmod(way, 0o755)
        prepare()
        name = "effective_uid" if os.stat(way).st_mode & stat.S_ISUID else "privileges"
        os.chmod(home.dir, 0o755)
        try:
            assert parse(subprocess.run(["setpriv", "--reuid=61235", "--regid=61235", "--clear-groups", way, name], stdout=subprocess.PIPE,
                                        cwd="/").stdout)[name][0] == "open"
        finally:
            os.chmod(home.dir, 0o700)
        for profile in ("workspace", "readonly", "ci"):
            said = parse(home.cli("run", "--profile", profile, "--", way, name).out)[name]
            assert said[0] == "shut", f"{profile}: {said[2]}"
    os.unlink(way)


def test_devices_in_the_workspace_are_inert(home):
    if not ROOT:
        raise Skip("only root can make devices")
    repository(home)
    for name, kind, number in (("zero", stat.S_IFCHR, os.makedev(1, 5)), ("disk", stat.S_IFBLK, os.stat("/").st_dev)):
        os.mknod(os.path.join(home.work, name), kind | 0o666, number)
    rows = [(f"{try_}={home.work}/{name}", "-" if name == "disk" else "any", REFUSED) for name in ("zero", "disk") for try_ in ("read", "write")]
    check(rows, outside(rows, "/"), "outside", "open")
    for profile in ("workspace", "readonly", "ci"):
        check(rows, inside(home, profile, words_of(rows), "/tmp"), profile, "shut")


def test_links_in_place_of_protected_paths_are_rejected_or_closed(home):
    """A repository whose hooks lead elsewhere: either refused at set-up or shut; nothing there is touched."""
    work = repository(home)
    elsewhere = os.path.join(home.dir, "elsewhere")
    os.mkdir(elsewhere)
    with open(os.path.join(elsewhere, "pre-commit"), "w") as f:
        f.write("x")
    before = snapshot(elsewhere)
    for name in (".git/hooks", ".git", ".bailiff"):
        path = os.path.join(work, name)
        shutil.rmtree(path)
        os.symlink(elsewhere, path)
        done = home.cli("run", "--profile", "workspace", "--", "sh", "-c", f"echo evil >{path}/new; echo evil >{path}/pre-commit", status=None)
        assert done.status != 0, f"{name}: {done.out} {done.err}"
        assert snapshot(elsewhere) == before, f"{name}: {snapshot(elsewhere)}"
        os.unlink(path)
        repository(home)


def test_hidden_paths_cannot_be_created(home):
    work = repository(home)
    before = snapshot(work)
    hidden = os.path.join(work, "not-there", "secret")
    rows = [(f"{try_}={hidden}", "-", HELD | GONE | {"EEXIST"}) for try_ in ("create", "mkdir", "read", "replace", "write", "unlink")] + \
        [(f"{try_}={os.path.dirname(hidden)}", "-", HELD | GONE | {"EEXIST"}) for try_ in ("rename", "exchange")]
    for _ in range(2):
        check(rows, inside(home, "workspace", words_of(rows), work, "--hide", hidden), "hidden", "shut")
        assert snapshot(work) == before, f"left on the host: {set(snapshot(work)) ^ set(before)}"


def test_hidden_paths_in_closed_folders_cannot_be_created(home):
    """By a command, which its successor can undo: nothing is left there, and nothing can be made there either."""
    work = repository(home)
    folders = [os.path.join(work, d) for d in ("d", ".git")]
    os.mkdir(folders[0])
    shutil.rmtree(os.path.join(work, ".git", "hooks"))
    before = snapshot(work)
    hide = {"sandbox": {"hidden": [os.path.join(work, "d", "secret")]}, "cwd": work, "profile": "workspace"}
    with home.rpc() as rpc:
        for mode in ("555", "444", "0"):
            assert rpc.run(f"chmod {mode} d .git", **hide)[1]["exitCode"] == 0
            for _ in range(2):
                with contextlib.suppress(harness.RpcError):
                    rpc.run("chmod 755 d .git; mkdir .git/hooks; echo x >.git/hooks/new; echo x >d/secret; chmod %s d .git" % mode, **hide)
            for path in folders:
                os.chmod(path, 0o755)
            assert snapshot(work) == before, f"{mode}: {set(snapshot(work)) ^ set(before)}"


def test_missing_hooks_folder_is_protected(home):
    """A path is protected before it exists."""
    work = repository(home)
    shutil.rmtree(os.path.join(work, ".git", "hooks"))
    before = snapshot(work)
    rows = [(word.format(w=work), "-", HELD | {"EEXIST"}) for word in ("mkdir={w}/.git/hooks", "create={w}/.git/hooks/pre-commit")]
    lines = inside(home, "workspace", words_of(rows), work)
    check(rows, {k: (v if v[1] != "ENOENT" else ["shut", "EPERM", v[2]]) for k, v in lines.items()}, "without hooks", "shut")
    assert snapshot(work) == before


def test_working_folder_cannot_be_forged(home):
    repository(home)
    link = os.path.join(home.dir, "link")
    os.symlink("/etc", link)
    with home.rpc() as rpc:
        for cwd in ("/proc/self/fd/3", "/proc/self/root", "/proc/1/root", "/dev/fd/3", f"{home.work}/../../../etc"):
            try:
                started, end = rpc.run("pwd; echo >./probe-was-here", cwd=cwd, profile="workspace")
            except harness.RpcError:
                continue
            assert end["exitCode"] != 0, f"{cwd}: {end}"
            assert not os.path.exists("/etc/probe-was-here")
        for fd in range(3, 160):    # of the init, whose sandbox was used before
            try:
                _, end = rpc.run("pwd", cwd=f"/proc/self/fd/{fd}", profile="workspace")
                assert end["exitCode"] != 0, f"{fd}: {end}"
            except harness.RpcError:
                continue
        try:
            _, end = rpc.run("echo >./probe-was-here", cwd=link, profile="workspace")
            assert end["exitCode"] != 0, "a link to /etc became the workspace"
        except harness.RpcError:
            pass
        assert not os.path.exists("/etc/probe-was-here")


def test_folder_swapped_during_setup_is_not_escaped(home):
    """cwd is exchanged with a link all the time: the file is created in one of the two, never anywhere else."""
    real, other = os.path.join(home.dir, "real"), os.path.join(home.dir, "other")
    for d in (real, other):
        os.mkdir(d)
    link = os.path.join(home.dir, "swap")
    os.symlink(other, link)
    swapper = subprocess.Popen([sys.executable, "-c", (
        "import ctypes,sys\nlibc=ctypes.CDLL(None)\n"
        "while True: libc.renameat2(-100,sys.argv[1].encode(),-100,sys.argv[2].encode(),2)"), real, link])
    try:
        with home.rpc() as rpc:
            for i in range(40):
                try:
                    rpc.run(f"echo x >./f{i}", cwd=real, profile="workspace")
                except harness.RpcError:
                    pass
    finally:
        swapper.kill()
        swapper.wait()
    outside_of = {n for n in os.listdir(home.dir)} - {"real", "other", "swap", "tree", "control.sock", "store", "spool", "log"}
    assert not {n for n in outside_of if n.startswith("f")}, outside_of


def test_ordinary_programs_work(home):
    repository(home)
    for profile in PROFILES:
        lines = inside(home, profile, ["threads", "own_child", "exec_memory"], "/tmp")
        assert all(v[0] == "open" for v in lines.values()), f"{profile}: {lines}"


def test_fallbacks_of_libc_are_not_reported():
    """libc asks for clone3 and others for openat2, and they have a fallback: no violation should be reported."""
    if not ROOT:
        raise Skip("audit requires root")
    with harness.audit_turn(), Home(options=("--audit", "auto")) as home, home.rpc() as rpc:
        state = rpc.call("get_health")["violations"]
        if state["state"] != "enforced":
            raise Skip(state["why"])
        repository(home)

        def told():
            return [e["payload"] for e in rpc.events() if e["type"] == "sandbox.violation"]
        inside(home, "workspace", ["threads", "own_child", "exec_memory", "clone3_user", "set_id_by_openat2", "io_uring"], "/tmp")
        before = told()
        inside(home, "workspace", ["write=/etc/passwd", "keyctl"], "/tmp")
        assert told(), "a refusal is not told"
        assert not before, before


def test_host_network_shares_nothing_else(home):
    """With the host's network namespace, its abstract sockets and its kernel's knobs are still out of reach."""
    repository(home)
    with contextlib.ExitStack() as stack:
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        name = f"probe-host-{os.getpid()}"
        abstract.bind("\0" + name)
        abstract.listen(64)
        four = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        rows = [(f"abstract={name}", "any", FILTERED)] if landlock_abi() >= 6 else []   # docs/platforms.md: landlock_scopes
        rows += [("netlink=0", "any", {"EAFNOSUPPORT"}), ("packet", "root", {"EAFNOSUPPORT"}),
                 ("raw", "root", FILTERED), ("interface", "root", FILTERED), ("list=/run/systemd", "-", GONE), ("list=/sys/class", "any", GONE)]
        with collected() as part:
            with part():
                check(rows, outside(rows, "/"), "outside", "open")
            with part():
                lines = inside(home, "workspace", words_of(rows) + [f"connect=127.0.0.1,{four.getsockname()[1]}"], "/tmp", "--net", "host")
                check(rows, lines, "with the host's network", "shut")
                assert lines[f"connect=127.0.0.1,{four.getsockname()[1]}"][0] == "open", "the host's network was asked for"


# Becomes traced by its parent, which is its init or leader, and gets a signal; then the same with exec.
TRACED = r"""
import ctypes, os, signal, sys
libc, got = ctypes.CDLL(None, use_errno=True), []
def be_traced():
    if libc.ptrace(0, 0, 0, 0) < 0:
        sys.exit("PTRACE_TRACEME: " + os.strerror(ctypes.get_errno()))
signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
be_traced()
os.kill(os.getpid(), signal.SIGUSR1)
be_traced()
if got:
    os.execvp("sh", ["sh", "-c", "echo continues; exit 7"])
"""


def test_command_traced_by_its_init_has_not_ended(home):
    """A stop of a traced child looks like its end to a process that waits for its children and does not look closely."""
    with home.rpc() as rpc:
        command = ["python3", "-c", TRACED]
        started, ended = rpc.run(command, cwd=home.work)
        assert ended.get("exitCode") == 7 and rpc.outputs(started["processId"])["stdout"] == b"continues\n", ended
        for keep in (False, True):
            started = rpc.start(command, cwd=home.work, sandboxId="session", sessionId=started["sessionId"], keepTree=keep)
            ended = rpc.wait(started["processId"])
            assert ended.get("exitCode") == 7 and rpc.outputs(started["processId"])["stdout"] == b"continues\n", ended
            told = [e["payload"]["commandExited"] for e in rpc.events() if e["type"] == "process.command_exited" and e["processId"] == started["processId"]]
            assert all(t["exitCode"] == 7 for t in told), told


def test_signals_to_the_init_change_nothing(home):
    repository(home)
    with home.rpc() as rpc:
        script = "for s in $(seq 1 64); do kill -$s 1 2>/dev/null; done; sleep 0.2; echo alive"
        _, end = rpc.run(["sh", "-c", script], profile="workspace")
        assert end["exitCode"] == 0 and end["status"] == "completed", end


if platform.machine() == "x86_64":
    KERNEL.append(("x32", "-", ABSENT | {"SIGSYS"}))

if __name__ == "__main__":
    harness.main(globals())
