"""Processes that will not go, and floods: a sandbox takes neither the machine nor the daemon with it."""

import contextlib
import os
import shutil
import time

from tries import PROBE, PROFILES, harness, inside, parse, repository
from harness import Skip, marked, until

# ---- trees that will not go ----

def test_process_tree_that_resists_is_killed(home):
    repository(home)
    mark = f"resist-{os.getpid()}-"
    with home.rpc() as rpc:
        for command in (f"setsid sh -c 'trap \"\" TERM HUP INT; (sleep 600 & sleep 600 & wait) & wait' {mark} & trap '' TERM; echo up; wait",
                        f"sh -c 'kill -STOP $$' {mark} & (setsid setsid sh -c 'trap \"\" 15; while :; do sleep 1; done' {mark} &) ; echo up; sleep 600"):
            started = rpc.start(command, profile="workspace")
            until("it runs", lambda: rpc.output(started["outputRefs"][0]["outputRef"] if isinstance(started["outputRefs"], list)
                                                else started["outputRefs"]["stdout"]) == b"up\n")
            assert marked(mark)
            rpc.call("terminate_process", processId=started["processId"], reason="test", graceMs=50)
            assert not marked(mark), [harness.command_of(p) for p in marked(mark)]
            end = [e for e in rpc.events(processId=started["processId"]) if e["type"] == "process.terminated"]
            assert end and end[0]["payload"]["treeEmpty"] is True, end


def test_process_that_forks_during_the_kill_is_killed(home):
    """A process that is replaced by its child all the time, killed at any moment."""
    work = repository(home)
    program = os.path.join(work, "racer-%d-" % os.getpid())
    shutil.copy(PROBE, program)
    rounds = int(os.environ.get("RACES") or 60)
    with home.rpc() as rpc:
        for i in range(rounds):
            started = rpc.start([program, "fork_race"], profile="workspace", cwd=work)
            if i % 3:
                time.sleep(0.001 * (i % 7))  # the moment, not a condition
            rpc.call("terminate_process", processId=started["processId"], reason="test", graceMs=0)
            left = [p for p in marked(os.path.basename(program))]
            assert not left, f"round {i}: {[(p, harness.command_of(p)) for p in left]}"


def test_death_of_the_guard_during_setup_leaves_nothing(home):
    """At any moment of it; nothing of the sandbox survives."""
    work = repository(home)
    program = os.path.join(work, "orphan-%d-" % os.getpid())
    shutil.copy(PROBE, program)
    rounds = int(os.environ.get("GUARD_ROUNDS") or 40)
    for i in range(rounds):
        with contextlib.suppress(OSError, harness.Gone):
            with home.rpc() as rpc:
                for _ in range(3):
                    rpc.send("start_process", command=[program, "daemonize", "fork_race"], profile="workspace", cwd=work)
                time.sleep(0.0005 * (i % 40))
        home.note_tree()
        home.stop(sig=9)
        until("nothing survives", lambda: not marked(os.path.basename(program)))
        home.nothing_left() if i == rounds - 1 else None
        home.start()


# ---- floods ----

def answers_quickly(home, what, limit=0.1, tries=20):
    """The median answer takes less than the limit; a single one may be late on a busy machine."""
    times = []
    with home.rpc() as rpc:
        for _ in range(tries):
            begin = time.monotonic()
            rpc.call("get_health")
            times.append(time.monotonic() - begin)
    middle = sorted(times)[tries // 2]
    assert middle < limit, f"{what}: {middle * 1000:.0f} ms"


def limited(home, rpc, words, **more):
    """Runs the probe with limits; (what it said, the end), or a skip where the machine cannot enforce them."""
    with open(PROBE, "rb") as f:
        program = f.read()
    path = os.path.join(home.work, "probe")
    if not os.path.exists(path):
        with open(path, "wb") as f:
            f.write(program)
        os.chmod(path, 0o755)
    try:
        started = rpc.start([path, *words], profile="workspace", cwd=home.work, **more)
    except harness.RpcError as e:
        if e.code in (-32011, -32014) and "cgroup" in str(e):
            raise Skip("no cgroup for limits of trees") from None
        raise
    return started


def test_fork_bomb_is_contained(home):
    repository(home)
    with home.rpc() as rpc:
        started = limited(home, rpc, ["fork_bomb"], limits={"pids": 64})
        until("the bomb went off", lambda: len(marked(os.path.join(home.work, "probe"))) >= 40)
        answers_quickly(home, "during a fork bomb")
        assert len(marked(os.path.join(home.work, "probe"))) <= 64
        rpc.call("terminate_process", processId=started["processId"], reason="test", graceMs=0)
        assert not marked(os.path.join(home.work, "probe"))


def test_memory_bombs_are_contained(home):
    repository(home)
    for word in ("fill_memory", "fill_memfd", "fill_file=/tmp/fill", "fill_file=/dev/shm/fill"):
        with home.rpc() as rpc:
            started = limited(home, rpc, [word], limits={"memoryBytes": 64 << 20})
            answers_quickly(home, f"during {word}")
            end = rpc.wait(started["processId"])
            lines = parse(rpc.outputs(started["processId"])["stdout"])
            assert lines.get(word, ["shut"])[0] != "open", lines
            assert end["usage"]["maxRssBytes"] < 256 << 20, end


def test_private_disks_are_limited(home):
    repository(home)
    for profile in PROFILES:
        lines = inside(home, profile, ["fill_file=/tmp/fill"], "/tmp") if profile == "workspace" else {}
        assert all(v[:2] == ["shut", "ENOSPC"] or v[:2] == ["shut", "EFBIG"] for v in lines.values()), lines
    lines = inside(home, "workspace", ["fill_inodes=/dev/shm", "fill_descriptors"], "/tmp")
    assert lines["fill_inodes=/dev/shm"][:2] == ["shut", "ENOSPC"] and lines["fill_descriptors"][:2] == ["shut", "EMFILE"], lines
    answers_quickly(home, "after filling disks")


def test_descriptors_in_flight_do_not_block_the_daemon(home):
    """They are counted by user; where that is the daemon's own, the daemon still needs some for each start."""
    repository(home)
    with home.rpc() as rpc:
        started = limited(home, rpc, ["fill_sockets"])
        until("no more can be sent", lambda: rpc.outputs(started["processId"])["stdout"])
        assert rpc.outputs(started["processId"])["stdout"] == b"full ETOOMANYREFS\n", rpc.outputs(started["processId"])
        for more in ({}, {"tty": {"rows": 24, "cols": 80}}):
            _, end = rpc.run("true", profile="workspace", limits={"wallMs": 20000}, **more)
            assert end["exitCode"] == 0, end
        rpc.call("terminate_process", processId=started["processId"], reason="test", graceMs=0)


def test_endless_orphans_do_not_block_the_init(home):
    """The init has to reap them, and must still find the time to look at limits and to listen."""
    repository(home)
    with home.rpc() as rpc:
        started = limited(home, rpc, ["orphans=1500"], limits={"cpuMs": 4000, "wallMs": 120000})
        end = rpc.wait(started["processId"])
        assert end["category"] == "timeout" and end["limit"] == "cpu" and "usage" in end, end
        assert not marked(os.path.join(home.work, "probe"))


def test_cpu_time_of_unreaped_children_counts(home):
    """Of children that are reaped by the kernel nothing is left to be counted, but in a cgroup; in a new sandbox and in prebuilt ones."""
    repository(home)
    with home.rpc() as rpc:
        for _ in range(4):
            started = limited(home, rpc, ["burn_unseen=600000"], limits={"cpuMs": 300, "wallMs": 120000})
            applied = [e["payload"] for e in rpc.events(processId=started["processId"]) if e["type"] == "sandbox.applied"]
            if applied[0]["layers"]["cgroup"] != "enforced":
                rpc.call("terminate_process", processId=started["processId"], reason="test", graceMs=0)
                raise Skip("no cgroup counts processes here")
            end = rpc.wait(started["processId"])
            assert end["category"] == "timeout" and end["limit"] == "cpu", end


def test_flood_of_output_is_contained(home):
    repository(home)
    size = 256 << 20
    with home.rpc() as rpc:
        started, end = rpc.run(f"head -c {size} /dev/zero", profile="workspace", limits={"outputBytes": 1 << 20})
        out = end["outputs"]["stdout"]
        assert end["exitCode"] == 0 and out["bytes"] == size and out["truncated"], end
        record = [e["payload"] for e in rpc.events(processId=started["processId"]) if e["type"] == "output.truncated"]
        assert record and record[0]["omittedBytes"] == record[0]["omittedTo"] - record[0]["omittedFrom"], record
        assert size - record[0]["omittedBytes"] <= 3 << 20, record


def test_continuous_screen_reads_do_not_delay_others(home):
    """A few bytes make a large screen redraw: a client that does so continuously does not delay others."""
    repository(home)
    with home.rpc() as rpc, home.rpc() as watcher:
        for rows, cols, sequence in ((131, 1000, "\\033#8"), (131, 1000, "\\033c"), (24, 80, "\\033#8"), (24, 80, "x\\033[9999b")):
            started = rpc.start(["sh", "-c", f"while :; do printf '{sequence * 200}'; done"], profile="workspace", tty={"rows": rows, "cols": cols})
            ref = started["outputRefs"][0]["outputRef"]
            until("there is much to draw", lambda: rpc.call("read_output", outputRef=ref, offset=0, length=32 << 10)["nextOffset"] > 16 << 10)
            watcher.send("get_screen", processId=started["processId"])
            answers_quickly(home, f"while {sequence} is drawn on {rows} x {cols}", limit=1)  # which was many seconds
            rpc.call("terminate_process", processId=started["processId"], reason="test", graceMs=0)


def test_flood_of_denials_is_survived(home):
    """That they are counted is a matter of the violations' tests; here the daemon only has to stand it."""
    repository(home)
    count = int(os.environ.get("DENIALS") or 100000)
    with home.rpc() as rpc:
        started = limited(home, rpc, [f"flood={count}"])
        answers_quickly(home, "during a flood of denials")
        assert rpc.wait(started["processId"])["exitCode"] == 0
        answers_quickly(home, "after a flood of denials")


if __name__ == "__main__":
    harness.main(globals())
