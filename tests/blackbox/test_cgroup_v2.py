"""Where a daemon's cgroups are (a scope of systemd's, a container, or none, with a reason), and that its limits are enforced there."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import harness
from harness import Home, RpcError, Skip, until

LIMITS = {"memory": {"memoryBytes": 64 << 20}, "pids": {"pids": 10}}
EXCEED = {
    "memory": ["python3", "-c", "bytearray(300 << 20)"],
    "pids": ["python3", "-c", "import os, time\ntry:\n while True:\n  if os.fork() == 0: time.sleep(1000)\nexcept OSError: os._exit(9)\n"],
}


def v2_top():
    """The mount point of a v2 tree that has controllers for limits."""
    with open("/proc/self/mountinfo") as f:
        points = [line.split()[4] for line in f if " - cgroup2 " in line]
    for point in points:
        with contextlib.suppress(OSError):
            if {"memory", "pids"} & set(read(point, "cgroup.controllers").split()):
                return point
    raise Skip("the v2 tree has no controllers: this machine uses cgroup v1")


def with_systemd():
    if not os.path.isdir("/run/systemd/system"):
        raise Skip("systemd does not run here")
    return v2_top()


def read(folder, name):
    with open(os.path.join(folder, name)) as f:
        return f.read().strip()


def own_folder(pid, top):
    with open(f"/proc/{pid}/cgroup") as f:
        return (top + next(line[3:].rstrip("\n") for line in f if line.startswith("0::"))).rstrip("/")


def controllers(home):
    with home.rpc() as rpc:
        limits = rpc.call("get_health")["limits"]
    return limits["cgroup"], {c["name"]: c for c in limits["controllers"]}


def exceed(home, name):
    with home.rpc() as rpc:
        started, _ = rpc.run(EXCEED[name], profile="workspace", cwd=home.work, limits=LIMITS[name])
        return rpc.events(processId=started["processId"])[-1]


def check_limits(home):
    """Memory and pids are enforced on v2, and a command that exceeds one ends with that reason."""
    base, rows = controllers(home)
    for name in LIMITS:
        assert rows[name]["state"] == "enforced" and rows[name]["cgroupVersion"] == 2, rows
        told = exceed(home, name)
        assert told["type"] == "process.failed" and told["payload"]["limit"] == name, told
    return base


def enforced_home(**more):
    """A daemon on a machine where v2 limits must work for this user; elsewhere the test is skipped with the daemon's reason."""
    top = v2_top()
    if os.geteuid() and not os.path.exists(f"/run/user/{os.geteuid()}/systemd/private"):
        raise Skip("this user has no systemd of its own, and no cgroup is delegated to it")
    if os.geteuid() == 0 and not os.access(top, os.W_OK):
        raise Skip("the cgroup tree cannot be written")
    return Home(**more)


def test_enforced_limits_apply_and_unavailable_ones_have_a_reason(home):
    _, rows = controllers(home)
    assert {"memory", "pids"} <= set(rows), rows
    for name in LIMITS:
        row = rows[name]
        if row["state"] == "enforced":
            assert exceed(home, name)["payload"]["limit"] == name
            continue
        assert row["state"] == "unavailable" and row["why"] and row["fix"], row
        try:
            exceed(home, name)
            raise AssertionError(f"{name} is unavailable, but the command ran with it")
        except RpcError as e:
            assert row["why"] in str(e) and row["fix"] in str(e), (str(e), row)
    with home.rpc() as rpc:     # without a limit everything works
        assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0


def check_rules(folder, top):
    """No cgroup has both processes and children with controllers, and none is threaded or invalid."""
    for at, _, _ in os.walk(folder):
        if at == top and not os.path.exists(os.path.join(at, "cgroup.type")):
            continue
        with contextlib.suppress(FileNotFoundError):    # a leaf that is removed meanwhile
            assert read(at, "cgroup.type") == "domain", (at, read(at, "cgroup.type"))
            assert not (read(at, "cgroup.procs") and read(at, "cgroup.subtree_control")), at


def test_no_cgroup_with_processes_delegates_controllers():
    top = v2_top()
    own = own_folder("self", top)
    before = [read(own, f) for f in ("cgroup.subtree_control", "cgroup.type")] if own != top else None
    with Home() as home:
        base, rows = controllers(home)
        with home.rpc() as rpc:
            limits = {k: v for name in LIMITS if rows[name]["state"] == "enforced" for k, v in LIMITS[name].items()}
            process = rpc.start(["sleep", "1000"], limits=limits, profile="workspace", cwd=home.work)
            check_rules(base, top)
            if limits:
                leaf = own_folder(process["pid"], top)
                assert leaf.startswith(f"{base}/bailiff-"), (leaf, base)
                assert read(leaf, "memory.max") == str(64 << 20), leaf
            rpc.call("terminate_process", processId=process["processId"])
    if before:
        assert before == [read(own, f) for f in ("cgroup.subtree_control", "cgroup.type")]


def test_limits_are_enforced_on_v2():
    with enforced_home() as home:
        check_limits(home)


def test_guard_is_in_a_leaf_of_a_scope_that_ends_with_it():
    top = with_systemd()
    with enforced_home() as home:
        base = check_limits(home)
        assert re.search(r"/(app|system)\.slice/bailiff-[0-9a-f]{16}\.scope$", base), base
        assert own_folder(home.guard.pid, top) == f"{base}/supervisor"
        home.restart()
        assert check_limits(home) == base   # the name is the home's
        home.stop()
        until("the scope is gone", lambda: not os.path.exists(base))


def test_limits_apply_after_an_upgrade():
    with enforced_home() as home:
        base = check_limits(home)
        runtime = home.part("runtime")
        home.guard.send_signal(signal.SIGUSR2)
        until("another runtime", lambda: home.part("runtime") not in (None, runtime) and home.answers())
        assert check_limits(home) == base


def test_two_daemons_have_separate_cgroups():
    with enforced_home() as one, Home() as two:
        check_limits(one)
        check_limits(two)
        one.restart()
        check_limits(one)
        check_limits(two)


def test_daemon_starts_after_its_guard_was_killed():
    with enforced_home() as home:
        base = check_limits(home)
        with home.rpc() as rpc:
            rpc.start(["sleep", "1000"], profile="workspace", cwd=home.work)
        home.note_tree()
        home.stop(signal.SIGKILL)
        home.start()
        assert check_limits(home) == base


@contextlib.contextmanager
def silent_bus(folder):
    """A socket that accepts connections and never answers."""
    os.mkdir(folder, 0o700)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(os.path.join(folder, "bus"))
        s.listen(8)
        try:
            yield
        finally:
            shutil.rmtree(folder)


def test_unresponsive_bus_delays_the_start_by_seconds_only():
    with_systemd()
    home = enforced_home(start=False)
    folder = os.path.join(home.dir, "run")
    home.env = {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={folder}/bus"} if os.geteuid() == 0 else {"XDG_RUNTIME_DIR": folder}
    with home, silent_bus(folder):
        begin = time.monotonic()
        home.start()
        assert time.monotonic() - begin < 2 + harness.PATIENCE / 2
        if os.geteuid() == 0:   # systemd's own socket is the second choice
            check_limits(home)
            return
        _, rows = controllers(home)
        assert rows["memory"]["state"] == "unavailable" and "no answer within" in rows["memory"]["why"], rows
        assert "loginctl enable-linger" in rows["memory"]["fix"], rows
        with home.rpc() as rpc:
            assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0


CONTAINER = r"""
set -e
mount -t tmpfs none /run/systemd 2>/dev/null || true
umount -l "$1"; mount -t cgroup2 none "$1"
sleep 1000 & # some other process of the container
"$2" --home "$4" --audit off
export BAILIFF_HOME="$4"
cd "$4/tree"
"$3" call get_health >"$4/health"
"$3" run --memory 64M -- python3 -c 'bytearray(300 << 20)' 2>"$4/memory" || true
"$3" run --pids 4 -- sh -c 'for i in 1 2 3 4 5 6 7 8; do sleep 9 & done; wait' 2>"$4/pids" || true
touch "$4/done"
wait
"""


@contextlib.contextmanager
def container_cgroup(top):
    """A cgroup as a container runtime creates it: below one that delegates controllers."""
    if os.geteuid():
        raise Skip("requires root")
    parent = os.path.join(top, f"test-container-{os.getpid()}")
    for folder in (parent, os.path.join(parent, "inner")):
        os.mkdir(folder)
        if folder == parent:
            with open(os.path.join(parent, "cgroup.subtree_control"), "w") as f:
                f.write("+memory +pids")
    try:
        yield os.path.join(parent, "inner")
    finally:
        with contextlib.suppress(OSError), open(os.path.join(parent, "cgroup.kill"), "w") as f:
            f.write("1")
        for at, folders, _ in list(os.walk(parent, topdown=False)):
            until(f"{at} is empty", lambda at=at: "populated 0" in read(at, "cgroup.events"))
            os.rmdir(at)


def test_root_cgroup_of_a_container_is_emptied():
    top = v2_top()
    if not {"memory", "pids"} <= set(read(top, "cgroup.subtree_control").split()):
        raise Skip("the root of the v2 tree delegates no controllers")
    with container_cgroup(top) as inner, Home(start=False) as home:
        # The container's first process enters the cgroup by itself: what waits for it outside is not in there.
        begin = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c",
                 f'echo 0 >{inner}/cgroup.procs; exec unshare --cgroup "$@"', "sh"]
        with open(home.log_path, "ab") as log:
            outer = subprocess.Popen([*begin, "sh", "-c", CONTAINER, "sh", top, harness.DAEMON, harness.CLI, home.dir], stdin=subprocess.DEVNULL,
                                     stdout=log, stderr=log, env=harness.environment())
        try:
            until("the commands have run", lambda: outer.poll() is not None or os.path.exists(os.path.join(home.dir, "done")))
            assert outer.poll() is None, home.log()
            health = json.loads(read(home.dir, "health"))
            limits = health.get("result", health)["limits"]
            assert limits["cgroup"] == top, limits
            assert {c["name"] for c in limits["controllers"] if c["state"] == "enforced"} >= {"memory", "pids"}, limits
            assert "the memory limit was reached" in read(home.dir, "memory"), read(home.dir, "memory")
            assert "the limit on processes was reached" in read(home.dir, "pids"), read(home.dir, "pids")
            assert not read(inner, "cgroup.procs") and len(read(inner, "init/cgroup.procs").split()) >= 4
            check_rules(inner, top)
        finally:
            outer.kill()
            outer.wait()


if __name__ == "__main__":
    harness.main(globals())
