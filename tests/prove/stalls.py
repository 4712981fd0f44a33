#!/usr/bin/python3
"""Faults of a daemon's environment: reads and kills stay fast, and the daemon recovers immediately.

    stalls.py [--only WORD] [arguments of proof.py]     a case is NAME:PARAMETER, such as stalled_disk:3000

Each case has a daemon of its own. One client reads all the time, and kills commands that were started before; others start commands, which may have to
wait or be rejected. A read is late if its answer takes more than 100 ms, a kill if the command lives longer than that. (The answer to a kill waits for the
record of the end, as every acknowledgement does.) Other work on the machine is allowed for: what a process that only sleeps was delayed by at most in the
same case is added to the limit. Under memory pressure the kernel makes every process wait that needs a page, so there the time during which it held a thread
of the runtime to free memory does not count as part of the read; it is traced, and the figures have both. When the trouble is over a command must run within
a second plus that delay, nothing acknowledged may be missing, and the store must verify. The same reads without trouble come first, for comparison.

Known-bad controls: the runtime is stopped for 400 ms, without trouble and under memory pressure.
"""

import contextlib
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from proof import ROOT, Proof

sys.path.insert(0, os.path.join(ROOT, "tests", "blackbox"))
import filesystems                                          # noqa: E402
import harness                                              # noqa: E402
from faults import Faults                                   # noqa: E402
from harness import Gone, Home, Rpc, RpcError, Skip, until  # noqa: E402

LIMIT_S, RECOVERY_S = 0.1, 1.0
WAKEUPS = 2         # a round trip waits for a processor twice, a process that only sleeps once
BEAT_S = 0.002
VICTIMS = 6
WRITES = ("pwrite", "write", "fdatasync", "fsync", "ftruncate", "mkdirat")


# ---- measuring ----

class Beat:
    """A process that only sleeps: its longest delay is the machine's, not the daemon's."""

    def __init__(self):
        self.worst, self.stop = multiprocessing.Value("d", 0.0), multiprocessing.Event()
        self.child = multiprocessing.Process(target=self.run, daemon=True)

    def run(self):
        while not self.stop.is_set():
            begin = time.monotonic()
            time.sleep(BEAT_S)
            self.worst.value = max(self.worst.value, time.monotonic() - begin - BEAT_S)

    def __enter__(self):
        self.child.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.child.join()


class Reclaim:
    """The times in which the kernel held a thread of a process to free memory of its cgroup; none where that cannot be traced."""

    LINE = re.compile(r".*-(\d+) +\[\d+\] .* (\d+\.\d+): mm_vmscan_memcg_reclaim_(begin|end):")

    def __init__(self, pid):
        self.threads = os.listdir(f"/proc/{pid}/task")
        self.times, self.stack = [], contextlib.ExitStack()

    def write(self, name, value):
        with open(os.path.join(self.dir, name), "w") as f:
            f.write(value)

    def __enter__(self):
        top = tempfile.mkdtemp(prefix="bl-tracing-")
        self.stack.callback(os.rmdir, top)
        if subprocess.run(["mount", "-t", "tracefs", "tracefs", top], stderr=subprocess.DEVNULL).returncode:
            return self
        self.stack.callback(subprocess.run, ["umount", top], check=True)
        self.dir = os.path.join(top, "instances", os.path.basename(top))
        os.mkdir(self.dir)
        self.stack.callback(os.rmdir, self.dir)
        self.write("trace_clock", "mono")
        for event in ("begin", "end"):
            self.write(f"events/vmscan/mm_vmscan_memcg_reclaim_{event}/filter", " || ".join(f"common_pid == {t}" for t in self.threads))
            self.write(f"events/vmscan/mm_vmscan_memcg_reclaim_{event}/enable", "1")
        self.stack.callback(self.collect)
        return self

    def collect(self):
        begun = {}
        with open(os.path.join(self.dir, "trace")) as f:
            for thread, at, event in (m.groups() for m in map(self.LINE.match, f) if m):
                if event == "begin":
                    begun[thread] = float(at)
                elif thread in begun:
                    self.times.append((begun.pop(thread), float(at)))

    def __exit__(self, *problem):
        return self.stack.__exit__(*problem)

    def within(self, begin, end):
        """How much of that period; two threads that were held at the same time count once."""
        total, at = 0.0, begin
        for first, last in sorted(self.times):
            first, last = max(first, at), min(last, end)
            if last > first:
                total, at = total + last - first, last
        return total


class Watch:
    """Reads and kills, in a process of its own; `results` has the times of both."""

    def __init__(self, home, victims, known):
        self.home, self.victims, self.known = home, victims, known
        self.results, self.stop = multiprocessing.Queue(), multiprocessing.Event()
        self.rpc, self.socket = home.rpc(), home.socket
        self.child = multiprocessing.Process(target=self.run, daemon=True)

    def reads(self):
        process, ref = self.known
        return (("get_health", {}), ("list_processes", {"limit": 20}), ("get_process", {"processId": process}), ("read_output", {"outputRef": ref}),
                ("list_events", {"limit": 20, "order": "desc"}), ("list_sessions", {"limit": 5}), ("get_store_stats", {}))

    def kill(self, process, pid):
        begin = time.monotonic()
        self.rpc.send("terminate_process", processId=process, graceMs=0)
        until("the command is dead", lambda: not harness.alive(pid), 30)
        self.results.put(("kill", begin, time.monotonic()))

    def run(self):
        number, next_kill = 0, time.monotonic() + 0.1
        try:
            while not self.stop.is_set():
                for method, params in self.reads():
                    begin = time.monotonic()
                    self.rpc.call(method, params)
                    self.results.put((method, begin, time.monotonic()))
                if number < len(self.victims) and time.monotonic() > next_kill:
                    self.kill(*self.victims[number])
                    number, next_kill = number + 1, time.monotonic() + 0.1
                time.sleep(0.005)
        except Exception:
            self.results.put(("failed", traceback.format_exc(), None))
        self.results.put(None)

    def __enter__(self):
        self.child.start()
        self.rpc.close()        # the child's copy stays
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.taken = []
        while (item := self.results.get(timeout=harness.PATIENCE)) is not None:
            self.taken.append(item)
        self.child.join()
        failed = [text for kind, text, _ in self.taken if kind == "failed"]
        assert not failed, f"a client: {failed[0]}"

    def worst(self, kinds, reclaim=None):
        """(seconds, name), without what the kernel took to free memory."""
        return max(((end - begin - (reclaim.within(begin, end) if reclaim else 0), kind) for kind, begin, end in self.taken
                    if (kind == "kill") == (kinds == "kills")), default=(0.0, "none"))


class Starter(threading.Thread):
    """A client that starts commands throughout: acknowledged ones must exist afterwards; an error is a valid reply, too."""

    def __init__(self, home):
        super().__init__(daemon=True)
        self.rpc, self.home, self.over = home.rpc(), home, threading.Event()
        self.started, self.errors = [], []
        self.start()

    def run(self):
        while not self.over.is_set():
            try:
                self.started.append(self.rpc.call("start_process", command=["true"])["processId"])
            except RpcError as e:
                assert {"category", "retryable", "advice"} <= set(e.data), e
                self.errors.append(f"{e.data['category']}: {e.message}")
                time.sleep(0.02)
            except (Gone, OSError, AssertionError) as e:
                self.errors.append(repr(e))
                return
            time.sleep(0.01)

    def finish(self):
        self.over.set()
        self.join(harness.PATIENCE)
        assert not self.is_alive(), "a start has no answer"


# ---- troubles: each is a context manager that begins with the trouble and ends with its end ----

@contextlib.contextmanager
def stalled_disk(case, ms):
    """Each sync of the runtime takes that long."""
    for call in ("fdatasync", "fsync"):
        case.faults.fail(call, "runtime", -int(ms), count=-1)
    yield max(1.0, 1.2 * float(ms) / 1000)
    case.faults.heal()


@contextlib.contextmanager
def read_only(case, _):
    """Every change of a file fails with EROFS."""
    for call in WRITES:
        case.faults.fail(call, "runtime", "EROFS", count=-1, link=case.home.dir + "/")
    yield 1.0
    case.faults.heal()


@contextlib.contextmanager
def failing_disk(case, _):
    for call in ("pwrite", "fdatasync"):
        case.faults.fail(call, "runtime", "EIO", count=-1, link=case.home.dir + "/")
    yield 1.0
    case.faults.heal()


@contextlib.contextmanager
def full_disk(case, _):
    """The file system has no byte left."""
    path = os.path.join(os.path.dirname(case.home.dir), "filler")
    with open(path, "wb", buffering=0) as f:
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while f.write(b"x" * size):
                    pass
    yield 1.5
    os.unlink(path)


@contextlib.contextmanager
def vanished_home(case, _):
    """The folder has another name for a while."""
    away = case.home.dir + "-away"
    os.rename(case.home.dir, away)
    yield 1.0
    os.rename(away, case.home.dir)


@contextlib.contextmanager
def clock_jump(case, seconds):
    """The wall clock is wrong, then right again."""
    case.faults.fail("clock", "runtime", int(seconds), count=-1)
    with case.home.rpc() as rpc:
        begin = time.monotonic()
        ended = rpc.run(["sleep", "1000"], limits={"wallMs": 300})[1]
        assert ended["status"] != "completed" and time.monotonic() - begin < 30, ended
        yield 0.5
    case.faults.heal()


@contextlib.contextmanager
def memory_pressure(case, _):
    """Page cache that another process uses pushes out the daemon's; all share a small limit."""
    group = case.group
    group.limit(group.used() + (6 << 20))
    script = f"for i in 1 2 3 4 5 6; do head -c 60000000 /dev/zero >{case.home.dir}/pages; cat {case.home.dir}/pages >/dev/null; done"
    hog = subprocess.Popen([*group.command, "sh", "-c", script])
    yield 1.5
    hog.kill()
    hog.wait()
    group.limit(None)


@contextlib.contextmanager
def descriptors(case, _):
    """1,024 descriptors, all in use by connections; accepting must not become a busy loop."""
    links = []
    with contextlib.suppress(OSError, Gone):
        for _ in range(1100):
            links.append(Rpc(case.home.socket, patience=1))
    runtime = case.home.part("runtime")
    before, begin = cpu_s(runtime), time.monotonic()
    yield 1.5
    share = (cpu_s(runtime) - before) / (time.monotonic() - begin)
    assert share < 0.7, f"the runtime used {share:.0%} of a processor while it could accept nothing"
    for link in links:
        link.close()


@contextlib.contextmanager
def stopped_runtime(case, _):
    """A known-bad control."""
    pid = case.home.part("runtime")
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.4)
    os.kill(pid, signal.SIGCONT)
    yield 0.2


@contextlib.contextmanager
def memory_pressure_stopped(case, _):
    """The same under memory pressure."""
    with memory_pressure(case, _) as seconds, stopped_runtime(case, _):
        yield seconds


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


TROUBLES = {f.__name__: f for f in (stalled_disk, read_only, failing_disk, full_disk, vanished_home, clock_jump, memory_pressure, descriptors)}
CONTROLS = {f.__name__: f for f in (stopped_runtime, memory_pressure_stopped)}
MOUNTED = ("full_disk",)


# ---- a case ----

class MemoryGroup:
    """A cgroup with a limit of memory, of either version."""

    V1, V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"

    def __init__(self):
        self.v2 = not os.path.exists(os.path.join(self.V1, "tasks"))
        if os.geteuid() != 0 or self.v2 and not self.delegated():
            raise Skip("no memory cgroup can be made here")
        self.dir = tempfile.mkdtemp(prefix="bl-stalls-", dir=self.V2 if self.v2 else self.V1)
        self.command = ("sh", "-c", f'echo $$ >{self.dir}/cgroup.procs; exec "$@"', "sh")

    def delegated(self):
        control = os.path.join(self.V2, "cgroup.subtree_control")
        with contextlib.suppress(OSError):
            with open(control, "w") as f:
                f.write("+memory")
            with open(control) as f:
                return "memory" in f.read().split()
        return False

    def write(self, name, value):
        with open(os.path.join(self.dir, name), "w") as f:
            f.write(str(value))

    def join(self):
        self.write("cgroup.procs", os.getpid())

    def used(self):
        with open(os.path.join(self.dir, "memory.current" if self.v2 else "memory.usage_in_bytes")) as f:
            return int(f.read())

    def limit(self, size):
        self.write("memory.max" if self.v2 else "memory.limit_in_bytes", size or ("max" if self.v2 else -1))

    def remove(self):
        for d, folders, _ in os.walk(self.dir, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(d)
        return not os.path.exists(self.dir)


class Case:
    """A daemon in the surroundings that its trouble needs."""

    def __init__(self, name, parameter):
        self.name, self.parameter, self.stack, self.group = name, parameter, contextlib.ExitStack(), None

    def __enter__(self):
        with self.stack:
            self.faults = self.stack.enter_context(Faults())
            folder = self.stack.enter_context(filesystems.mounted("ext4")) if self.name in MOUNTED else None
            through = ()
            if self.name == "descriptors":
                through = ("prlimit", "--nofile=1024:1024")
            if self.name.startswith("memory_pressure"):
                self.group = MemoryGroup()
                self.stack.callback(until, "the cgroup is empty", self.group.remove)
                through = self.group.command
            usual, tempfile.tempdir = tempfile.tempdir, folder or tempfile.tempdir
            try:
                self.home = Home({"stopGraceMs": 1000, "maxConnectionsPerUid": 4096}, start=False, env=self.faults.env, through=through)
            finally:
                tempfile.tempdir = usual
            self.home.start()
            self.stack.push(self.home)
            self.stack = self.stack.pop_all()
        return self

    def __exit__(self, *problem):
        return self.stack.__exit__(*problem)


def watched(case, rpc, count, known, trouble):
    """Figures, in seconds, and the name of the worst read."""
    victims = [(p, rpc.call("get_process", processId=p)["pid"]) for p in [rpc.start(["sleep", "1000"])["processId"] for _ in range(count)]]
    with Reclaim(case.home.part("runtime")) if case.group else contextlib.nullcontext() as reclaim:
        with Beat() as beat, Watch(case.home, victims, known) as watch:
            with trouble(case, case.parameter) as seconds:
                time.sleep(seconds)
            begin = time.monotonic()
            if count:
                until("a command runs again", lambda: runs(rpc))
            recovery = time.monotonic() - begin
    read, late = watch.worst("reads", reclaim)
    return {"read": read, "with reclaim": watch.worst("reads")[0], "kill": watch.worst("kills")[0], "delay": beat.worst.value,
            "recovery": recovery, "killed": sum(kind == "kill" for kind, _, _ in watch.taken)}, late


def runs(rpc):
    try:
        return rpc.run(["true"])[1]["exitCode"] == 0
    except RpcError:
        return False


@contextlib.contextmanager
def no_trouble(*_):
    yield 0.3


def run_case(text):
    """Figures of one case, in ms."""
    name, _, parameter = text.partition(":")
    trouble = {**TROUBLES, **CONTROLS}[name]
    with Case(name, parameter) as case, case.home.rpc() as rpc:
        first, _ = rpc.run("seq 1 20000")
        known = first["processId"], rpc.call("get_process", processId=first["processId"])["outputs"]["stdout"]["outputRef"]
        quiet, _ = watched(case, rpc, 0, known, no_trouble)
        starter = Starter(case.home)
        figures, late = watched(case, rpc, VICTIMS, known, trouble)
        starter.finish()
        for process in starter.started:
            ended = rpc.wait(process)
            assert ended["status"] in ("completed", "failed"), ended
        for process in rpc.call("list_processes", status="running")["processes"]:
            rpc.end(process["processId"])   # commands that there was no time to kill
        until("all commands have ended", lambda: not rpc.call("list_processes", status="running")["processes"])
        harness.check_log(rpc.events())
        assert rpc.call("verify_store")["ok"] is True
        figures = {"quiet": quiet["read"], **figures, "refused": len(starter.errors), "started": len(starter.started)}
        shown = ", ".join(f"{k} {v * 1000:.0f} ms" if isinstance(v, float) else f"{k} {v}" for k, v in figures.items())
        limit = LIMIT_S + WAKEUPS * figures["delay"]
        assert figures["read"] < limit, f"late read: {late} ({shown})"
        assert figures["kill"] < limit, f"late kill ({shown})"
        assert figures["recovery"] < RECOVERY_S + figures["delay"], f"late recovery ({shown}; {starter.errors[-1:]})"
        assert figures["killed"], f"nothing was killed ({shown})"
    return figures


# ---- the program ----

def cases(proof):
    rng = random.Random(proof.seed)
    if proof.as_test:
        yield from ("stalled_disk:1000", "read_only:", f"clock_jump:{-86400}")
        return
    while True:
        yield f"stalled_disk:{rng.choice((1000, 2000, 5000, 10000, 30000))}"
        yield from (f"{name}:" for name in TROUBLES if name not in ("stalled_disk", "clock_jump"))
        yield f"clock_jump:{rng.choice((-1, 1)) * rng.choice((3600, 86400, 30 * 86400))}"


SHOWN = ("quiet", "read", "with reclaim", "kill", "delay", "recovery")


def run_all(proof):
    worst, counts, skipped = {}, {}, {}
    for case in cases(proof):
        name = case.split(":")[0]
        if not proof.as_test and not proof.has_time():
            break
        if proof.options.only and proof.options.only not in case or name in skipped:
            if len(skipped) == len(TROUBLES):
                break
            continue
        try:
            figures = run_case(case)
            for k, v in figures.items():
                if isinstance(v, float):
                    worst[name, k] = max(worst.get((name, k), 0), v)
        except Skip as e:
            skipped[name] = str(e)
            continue
        except (AssertionError, RpcError, Gone, OSError, KeyError, subprocess.SubprocessError):
            proof.fail(case, traceback.format_exc())
        counts[name] = counts.get(name, 0) + 1
        proof.add(1, case)
    text = {name: f"{n} times, " + ", ".join(f"{k} {worst.get((name, k), 0) * 1000:.0f}" for k in SHOWN)
            for name, n in counts.items()}
    return {**text, **({"skipped": skipped} if skipped else {})}


def main():
    proof = Proof("stalls", more=lambda parser: parser.add_argument("--only", help="cases with this word"))
    if proof.case:
        print(run_case(proof.case))
        return 0
    caught, controls = 0, 0
    for name in CONTROLS:
        with contextlib.suppress(Skip):
            try:
                with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
                    run_case(name + ":")
            except AssertionError as e:
                caught += str(e).startswith("late read")
            controls += 1
    figures = run_all(proof)
    return proof.finish("reads and kills stay fast during faults, and the daemon recovers immediately",
                        {"worst ms": "; ".join(f"{k}: {v}" for k, v in figures.items())}, (caught, controls))


if __name__ == "__main__":
    sys.exit(main())
