"""A single-use sandbox is used again only by the same user with the same plan, and only if its command left nothing in it."""

import array
import contextlib
import os
import shutil
import signal
import socket
import time

import harness
from filesystems import replaced_resolver
from harness import TALKER, Home, Skip, children_of, until

NOTHING = ["true"]
SMALL = "./talker"  # uses little enough CPU time for its sandbox to come back: an interpreter's start takes too much
TRIES = 40  # commands, among which a sandbox that came back must be


def pid_of(rpc, home, command, **more):
    """The pid of the sandbox's init; the command must succeed."""
    started, ended = rpc.run(command, cwd=home.work, **more)
    assert ended.get("exitCode") == 0, (command, ended, rpc.outputs(started["processId"]))
    return started["pid"]


def find_reuse(rpc, home):
    """Runs commands that leave nothing until one of them has a sandbox that another one had."""
    seen = set()

    def again():
        pid = pid_of(rpc, home, NOTHING)
        known = pid in seen
        seen.add(pid)
        return known
    until("a sandbox is used again", again)


@contextlib.contextmanager
def reusing(**more):
    """A daemon that uses sandboxes again, and a connection to it."""
    with Home(**more) as home, home.rpc() as rpc:
        applied = [e for e in (rpc.run(NOTHING, cwd=home.work) and rpc.events()) if e["type"] == "sandbox.applied"]
        if "landlock" not in str(applied[-1]["payload"].get("layers")):
            raise Skip("without Landlock every sandbox is used once")
        shutil.copy(TALKER, home.work)
        find_reuse(rpc, home)
        yield home, rpc


def later_pids(rpc, home, count=TRIES):
    return {pid_of(rpc, home, NOTHING) for _ in range(count)}


def python(text):
    return ["python3", "-c", text]


# What a command may do without leaving anything.
HARMLESS = [
    ["cat", "/etc/hostname"],
    "ls -la /tmp /dev/shm ~ /proc/self >/dev/null",
    "echo x > in_the_workspace; rm in_the_workspace",
    "sleep 1000 & true",
    ["bash", "-c", "exec 3<>/dev/udp/127.0.0.1/9"],  # a socket without packets
]

# What it may leave, and where.
LEFTOVERS = {
    "a file": "echo x > /tmp/x",
    "a file that was removed": "echo x > /tmp/x; rm /tmp/x",
    "a file in /var/tmp": "echo x > /var/tmp/x",
    "shared memory of POSIX": "echo x > /dev/shm/x",
    "a mode": "chmod 755 /tmp",
    "a time": "touch -d 2001-01-01 /tmp",
    "a file in the home": "echo x > ~/x",
    "shared memory of System V": ["ipcmk", "-M", "100"],
    "a semaphore": ["ipcmk", "-S", "1"],
    "a message queue of System V": ["ipcmk", "-Q"],
    "a message queue of POSIX": [SMALL, "queue"],
    "packets": [SMALL, "packet"],
}


def test_sandbox_without_leftovers_is_used_again():
    with reusing() as (home, rpc):
        for command in HARMLESS:
            until(f"the sandbox of {command} comes back", lambda: pid_of(rpc, home, command) in later_pids(rpc, home, 3))


def test_a_sandbox_with_leftovers_is_not_used_again():
    with reusing() as (home, rpc):
        for what, command in LEFTOVERS.items():
            used = pid_of(rpc, home, command)
            assert used not in later_pids(rpc, home), what


# Joins a multicast group on loopback and ends at once. By default the kernel sends its reports some milliseconds to two seconds later.
JOIN = """
import os, socket, struct
six = FAMILY == "six"
s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
if six:
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, "ff02::1234") + struct.pack("i", 1))
else:
    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("224.1.2.3") + socket.inet_aton("127.0.0.1"))
os._exit(0)
"""
REPORTS_S = 1


def test_a_multicast_group_sends_nothing_later():
    with reusing() as (home, rpc):
        for family in ("four", "six"):
            for _ in range(2):
                joined, until_then = pid_of(rpc, home, python(f"FAMILY = '{family}'" + JOIN)), time.monotonic() + REPORTS_S
                while time.monotonic() < until_then:
                    started, _ = rpc.run(["cat", "/proc/net/dev"], cwd=home.work)
                    line = next(x for x in rpc.outputs(started["processId"])["stdout"].decode().splitlines() if "lo:" in x)
                    assert not int(line.split()[2]), f"packets in {started['pid']}, after {joined}: {line}"


def test_init_cannot_be_changed_by_a_command():
    """Every command inherits the same state from the init, whatever an earlier command tried to change."""
    show = python("import os, resource as r; print([r.getrlimit(i) for i in range(16)], os.nice(0), os.sched_getscheduler(0), os.sched_getaffinity(0))")
    with reusing() as (home, rpc):
        started, _ = rpc.run(show, cwd=home.work)
        before = rpc.outputs(started["processId"])["stdout"]
        for change in ("prlimit --pid 1 --nofile=100:", "renice -n 5 -p 1", "chrt -i -p 0 1", "taskset -p 1 1", "ionice -c 3 -p 1", "kill -STOP 1", "kill -9 1"):
            pid_of(rpc, home, f"{change} >/dev/null 2>&1 || true")
            for _ in range(3):
                started, _ = rpc.run(show, cwd=home.work)
                assert rpc.outputs(started["processId"])["stdout"] == before, change


def send_out(home, rpc, what):
    """Runs a command that sends a descriptor to this process, through a socket in the workspace. Returns (pid, descriptor)."""
    path = os.path.join(home.work, "out")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        os.chmod(path, 0o777)
        listener.listen()
        listener.settimeout(harness.PATIENCE)
        started = rpc.start([SMALL, "send", what], cwd=home.work)
        connection, _ = listener.accept()
        with connection:
            _, rights, _, _ = connection.recvmsg(1, socket.CMSG_LEN(4))
    os.unlink(path)
    assert rpc.wait(started["processId"])["exitCode"] == 0
    return started["pid"], array.array("i", rights[0][2])[0]


def comes_back(home, rpc, what):
    pid, fd = send_out(home, rpc, what)
    try:
        return pid in later_pids(rpc, home, 10)
    finally:
        os.close(fd)


def test_sandbox_is_not_reused_if_a_descriptor_was_sent_out():
    with reusing() as (home, rpc):
        until("a sandbox of which nothing was sent out comes back", lambda: comes_back(home, rpc, "nothing"))
        for what in ("locked", "file", "terminal", "unix", "inet", "inet6"):
            for _ in range(3):
                assert not comes_back(home, rpc, what), what


def test_directory_descriptor_sent_out_is_closed_to_other_users():
    if os.geteuid() != 0:
        raise Skip("requires root")
    with reusing() as (home, rpc):
        _, fd = send_out(home, rpc, "folder")
        pid = os.fork()
        if pid == 0:
            os.setgid(65534)
            os.setuid(65534)
            try:
                os.open("x", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=fd)
            except PermissionError:
                os._exit(0)
            os._exit(1)
        os.close(fd)
        assert os.waitpid(pid, 0)[1] == 0


def test_sandbox_is_not_reused_while_another_command_of_the_user_runs():
    """With a descriptor of a directory, a command of the same uid could connect to sockets that a later command creates there."""
    with reusing() as (home, rpc):
        for more in ({}, {"sandbox": {"readRoots": ["/usr/share"]}}):
            beside = rpc.start(["sleep", "1000"], cwd=home.work, **more)
            if os.geteuid() == 0:   # root's commands have an id of each sandbox's own
                find_reuse(rpc, home)
            else:
                pids = [pid_of(rpc, home, NOTHING) for _ in range(10)]
                assert len(set(pids)) == len(pids), pids
            rpc.end(beside["processId"])
            find_reuse(rpc, home)


def test_another_plan_gets_another_sandbox():
    with reusing() as (home, rpc):
        ours = later_pids(rpc, home, 5)
        for more in ({"profile": "isolated"}, {"sandbox": {"readRoots": ["/usr/share"]}}, {"limits": {"cpuMs": 60000}, "sandbox": {"tmpBytes": 1 << 20}}):
            for _ in range(3):
                assert pid_of(rpc, home, NOTHING, **more) not in ours, more


def test_sandbox_of_a_terminated_command_is_not_reused():
    with reusing() as (home, rpc):
        for how in ("signal", "terminate"):
            started = rpc.start(["sleep", "1000"], cwd=home.work)
            if how == "signal":
                rpc.call("signal_process", processId=started["processId"], signal="TERM")
            else:
                rpc.call("terminate_process", processId=started["processId"])
            rpc.wait(started["processId"])
            assert started["pid"] not in later_pids(rpc, home, 10), how


def test_changes_of_the_host_are_visible():
    with reusing() as (home, rpc):
        hooks = os.path.join(home.work, ".git", "hooks")
        os.makedirs(hooks)
        for _ in range(5):
            pid_of(rpc, home, "! echo x 2>/dev/null > .git/hooks/pre-commit")
        assert not os.listdir(hooks)


def test_a_new_resolver_file_of_the_host_is_not_shown():
    """When a file is replaced, the kernel removes what is mounted on it in every sandbox. Network managers do that with resolv.conf."""
    with replaced_resolver() as (through, replace), reusing(through=through) as (home, rpc):
        for i in range(2, 5):
            waiting = pid_of(rpc, home, NOTHING)
            replace(i)
            until("an init notices the loss of a mount by itself", lambda: not os.path.exists(f"/proc/{waiting}"))
            for _ in range(5):
                pid_of(rpc, home, "! grep 192.0.2 /etc/resolv.conf")
            find_reuse(rpc, home)


def test_every_command_has_its_own_events():
    """Output, exit status, usage and denials of one command are never another's."""
    with reusing() as (home, rpc):
        for i in range(20):
            started, ended = rpc.run(f"echo {i}; exit {i}", cwd=home.work)
            assert ended["exitCode"] == i and rpc.outputs(started["processId"])["stdout"] == f"{i}\n".encode()
        started, ended = rpc.run("echo x > /etc/x", cwd=home.work)
        assert ended["exitCode"] != 0
        for _ in range(5):
            started, ended = rpc.run(NOTHING, cwd=home.work)
            facts = [e["type"] for e in rpc.events() if e.get("processId") == started["processId"]]
            assert "sandbox.violation" not in facts and facts.count("process.completed") == 1, facts


def test_reused_sandboxes_survive_the_runtime_but_not_the_spawner():
    """A kept sandbox outlives the runtime, not the spawner; commands are neither lost nor run twice."""
    with reusing() as (home, rpc):
        for part in ("runtime", "spawner"):
            command = ["sh", "-c", f"while [ ! -e {part} ]; do sleep 0.02; done; echo x >> {part}.ran"]
            with home.rpc() as client:
                started = client.start(command, cwd=home.work)
            home.kill_part(part)
            with open(os.path.join(home.work, part), "w"):
                pass
            with home.rpc() as client:
                assert client.wait(started["processId"])["exitCode"] == 0
                assert open(os.path.join(home.work, f"{part}.ran")).read() == "x\n"
                for _ in range(5):
                    pid_of(client, home, NOTHING)


def test_unreturned_sandbox_ends():
    """The runtime dies after it released a command and before it notified the spawner."""
    with reusing() as (home, rpc):
        guard = home.guard.pid
        kept = rpc.start(["sh", "-c", "while [ ! -e go ]; do sleep 0.02; done"], cwd=home.work)
        os.kill(guard, signal.SIGSTOP)
        try:
            with open(os.path.join(home.work, "go"), "w"):
                pass
            assert rpc.wait(kept["processId"])["exitCode"] == 0
            home.kill_part("runtime")
        finally:
            os.kill(guard, signal.SIGCONT)
        until("its init is gone", lambda: kept["pid"] not in children_of(guard))
        with home.rpc() as client:
            pid_of(client, home, NOTHING)


def test_new_spawner_does_not_reuse_next_to_unknown_commands():
    if os.geteuid() == 0:
        raise Skip("root's sandboxes have ids of their own")
    with reusing() as (home, rpc):
        beside = rpc.start(["sleep", "1000"], cwd=home.work)
        home.kill_part("spawner")
        pids = [pid_of(rpc, home, NOTHING) for _ in range(TRIES // 4)]
        assert len(set(pids)) == len(pids), pids
        rpc.end(beside["processId"])


def test_dead_prebuilt_init_is_replaced():
    if os.geteuid() != 0:
        raise Skip("requires root")
    with reusing() as (home, rpc):
        used = later_pids(rpc, home, 4)
        for pid in used:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until("they are gone", lambda: not any(os.path.exists(f"/proc/{pid}") for pid in used))
        for _ in range(10):
            pid_of(rpc, home, NOTHING)


if __name__ == "__main__":
    harness.main(globals())
