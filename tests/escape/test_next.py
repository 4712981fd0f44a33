"""Nothing of a command is there for the next one in the same workspace, nor for a parallel one.

From the second time on commands get prebuilt sandboxes (architecture.md): whatever those had in common with one that was used
before, or with each other, would show here.
"""

import os

from tries import harness, repository
from harness import until

# Prints what it finds, then leaves everything that it can behind: in every place that may be written, in the kernel's name spaces, running.
SCRIPT = r"""
import ctypes, os, signal, socket, subprocess, sys
mark, key = "left-behind", 0x5b5b5b
libc = ctypes.CDLL(None, use_errno=True)
places = ["/tmp", "/var/tmp", "/dev/shm", os.path.expanduser("~")]
found = [p for p in places if os.path.exists(os.path.join(p, mark))]
objects = (("memory", libc.shmget, (key, 4096)), ("semaphore", libc.semget, (key, 1)), ("messages", libc.msgget, (key,)))
found += [name for name, get, args in objects if get(*args, 0) >= 0]
held = []
for name, family, address in (("port", socket.AF_INET, ("127.0.0.1", 28080)), ("abstract", socket.AF_UNIX, "\0left-behind")):
    held += [socket.socket(family), socket.socket(family)]
    if held[-1].connect_ex(address) == 0:
        found.append(name)
        continue
    held[-2].bind(address)
    held[-2].listen()
    os.set_inheritable(held[-2].fileno(), True)
found += ["process"] * any(b"left-running" in open(f"/proc/{pid}/cmdline", "rb").read() for pid in os.listdir("/proc") if pid.isdigit())
print("found:", *found, flush=True)
for p in places:
    if os.access(p, os.W_OK):
        open(os.path.join(p, mark), "w").close()
for _, get, args in objects:
    get(*args, 0o1600)
subprocess.Popen(["sh", "-c", "trap '' TERM HUP INT; sleep 600; :", "left-running"], close_fds=False, start_new_session=True)
if len(sys.argv) > 1:
    signal.pause()
"""
ALL = ["/tmp", "/var/tmp", "/dev/shm", "memory", "semaphore", "messages", "port", "abstract", "process"]


def found(rpc, ref):
    return [line.split()[1:] for line in rpc.output(ref).decode().splitlines() if line.startswith("found:")]


def ref_of(started):
    return started["outputRefs"][0]["outputRef"]


def script(home):
    work = repository(home)
    with open(os.path.join(work, "leave.py"), "w") as f:
        f.write(SCRIPT)
    return {"profile": "workspace", "cwd": work}


def test_command_leaves_nothing_to_the_next(home):
    where = script(home)
    with home.rpc() as rpc:
        started, _ = rpc.run("python3 leave.py; python3 leave.py", **where)
        first, second = found(rpc, ref_of(started))
        assert first == [] and set(ALL) <= set(second), f"what is left is not found: {second}"
        for more in ({}, {"tty": {"rows": 24, "cols": 80}}, {"cow": True}, {"sandbox": {"network": "allow", "allowHosts": ["example.com"]}}):
            for i in range(5):
                started, end = rpc.run(["python3", "leave.py"], **where, **more)
                assert end["exitCode"] == 0 and found(rpc, ref_of(started)) == [[]], f"{more}, start {i}: {found(rpc, ref_of(started))} {end}"


def test_parallel_commands_do_not_see_each_other(home):
    where = script(home)
    with home.rpc() as rpc:
        holders = []
        for i in range(3):
            holders.append(rpc.start(["python3", "leave.py", "hold"], **where))
            until("it has left everything", lambda: found(rpc, ref_of(holders[-1])))
            for _ in range(2):
                started, _ = rpc.run(["python3", "leave.py"], **where)
                assert found(rpc, ref_of(started)) == [[]], f"parallel {i + 1}: {found(rpc, ref_of(started))}"
        for holder in holders:
            assert found(rpc, ref_of(holder)) == [[]], found(rpc, ref_of(holder))
            rpc.call("terminate_process", processId=holder["processId"], reason="test", graceMs=0)


if __name__ == "__main__":
    harness.main(globals())
