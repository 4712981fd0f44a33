#!/usr/bin/python3
"""SIGKILL of the guard, alone or together with the others: no sandboxed process survives, and each is reported lost.

    guard_loop.py [--kills N] [--seed S] [--homes H]

Each round runs processes of several kinds (plain, in a session of their own, double-forked, ignoring every signal, a
small tree), each with a mark in its arguments by which it is found in /proc, and one start that is still on its way.
"""

import collections
import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kill_loop  # noqa: E402
import harness  # noqa: E402
from harness import Gone, Home, Rpc, RpcError, TALKER, until  # noqa: E402

KINDS = ("plain", "setsid", "daemon", "ignore", "many")


def start_some(home, rng, mark):
    """Starts a few; returns those that were acknowledged, and the open link with one more on its way."""
    rpc, ids = Rpc(home.socket), []
    for kind in rng.sample(KINDS, rng.randrange(1, 4)):
        terminal = {"tty": {"rows": 24, "cols": 80}} if rng.randrange(3) == 0 else {}
        ids.append(rpc.start([TALKER, "hold", kind, mark], **terminal)["processId"])
    if rng.random() < 0.5:
        for process in ids:
            until("it is ready", lambda p=process: b"ready" in b"".join(rpc.outputs(p).values()))
    if rng.random() < 0.7:
        rpc.send("start_process", command=[TALKER, "hold", rng.choice(KINDS), mark])
        time.sleep(rng.random() * 0.004)
    return rpc, ids


def kill_guard(home, rng):
    """Kills, and returns the killed parts."""
    parts = [n for n in ("runtime", "spawner") if rng.random() < 0.4]
    pids = [home.guard.pid] + [p for p in (home.part(n) for n in parts) if p]
    rng.shuffle(pids)
    home.note_tree()
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    home.guard.wait()
    home.guard = None
    return "guard" + "".join("+" + p for p in parts)


def lost(rpc, process):
    record = rpc.call("get_process", processId=process)
    assert record["status"] == "lost", f"{process} is {record['status']}, not lost"
    ends = [e for e in rpc.events(processId=process) if e["type"] in harness.TERMINAL]
    assert len(ends) == 1 and ends[0]["type"] == "process.failed" and ends[0]["status"] == "lost", ends


def work(kills, seed):
    rng, figures = random.Random(seed), collections.Counter()
    mark = f"guard-loop-{os.getpid()}-{seed}"
    with Home() as home:
        for _ in range(kills):
            rpc, ids = start_some(home, rng, mark)
            figures["processes"] += len(ids)
            figures["marked at the kill"] += len(harness.marked(mark))
            figures["kill " + kill_guard(home, rng)] += 1
            rpc.close()
            begin = time.monotonic()
            until("no sandboxed process survives the guard", lambda: not harness.marked(mark))
            figures["ms until all were gone"] += int((time.monotonic() - begin) * 1000)
            home.start()
            with home.rpc() as rpc:
                for process in ids:
                    lost(rpc, process)
                assert not rpc.call("list_processes", liveOnly=True)["processes"]
        with home.rpc() as rpc:
            log = rpc.events()
            harness.check_log(log)
            report = rpc.call("verify_store")
            assert report["ok"] is True, report
    assert not harness.marked(mark)
    return figures


def main():
    o, shares = kill_loop.options(500)
    # The known-bad control: a process that nothing ties to a guard is seen as a survivor.
    mark = f"guard-loop-control-{os.getpid()}"
    pid = os.posix_spawn(TALKER, [TALKER, "hold", "plain", mark], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    until("the control is seen", lambda: pid in harness.marked(mark))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    begin = time.monotonic()
    ok, figures = kill_loop.in_parallel(work, shares)
    print(f"# {time.monotonic() - begin:.0f} s: " + ", ".join(f"{v} {k}" for k, v in sorted(figures.items())))
    print(f"{'ok' if ok else 'not ok'} 1 - {o.kills} kills of the guard")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
