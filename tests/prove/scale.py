#!/usr/bin/python3
"""A large store: the daemon starts fast, the cost of a query depends on its window, and maintenance blocks no client.

    scale.py [--events N] [--output-mb N] [arguments of proof.py]     a case is an event; --case N: one store with N events

A daemon runs one command; scale_fill.c then writes its events for many other processes, 100 events each, with the store's own code. The sizes are 10,000,
100,000, 1,000,000 and 10,000,000 events, as far as the time or --events goes; the largest store also gets 1 KB of output for each event, by real
commands. At each size: the start until the first answer, windows of every kind of list at the beginning, in the middle and at the end, search, export, verify,
backup, rebuild, prune and compact. A query may take at most 3 times as long as in the smallest store, plus 10 ms. While maintenance runs, a read may take
100 ms, plus twice what a process that only sleeps was delayed by; a request that is answered after a commit also what three syncs of another file take.

Known-bad controls: a query that must read the whole log is seen to grow; a runtime that is stopped for 400 ms is seen to block.
"""

import contextlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback

from proof import BUILD, Proof
from stalls import WAKEUPS, Beat, harness
from harness import Gone, Home, RpcError, until

FILL = os.path.join(BUILD, "scale_fill")
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
SHORT = (1_000, 10_000)
EVENTS_EACH = 100
READS = (("get_health", {}), ("list_processes", {"limit": 5}))
WRITES = (("create_session", {}),)
START_S, BLOCK_S = 0.5, 0.1
FACTOR, PLUS_S = 3.0, 0.01
REPEAT = 25
SYNCS = 3                   # a commit may wait for a transaction of maintenance, which syncs twice
OUTPUT_MB = 64              # of one command
FREE_BYTES = 8 << 30        # on the disk, after everything
CONFIG = {"stopGraceMs": 1000, "retainDays": 0, "storeQuotaBytes": 0}
ID = re.compile(r"\b((?:sess|thr|turn|proc|step)_[0-9a-z]{10})[0-9a-z]{16}\b")
TOP = ("sequence", "type", "eventId", "timestamp", "schemaVersion", "runtimeId", "status", "statusReason", "phase", "payload")


def template(rpc, work):
    """The events of one process, for scale_fill.c; without those of outputs, whose bytes it would not have."""
    process = rpc.start(["cat"], stdin="pipe", cwd=work)["processId"]
    rpc.call("write_process_stdin", processId=process, data="x")
    rpc.call("close_process_stdin", processId=process)
    rpc.wait(process)
    session = rpc.call("get_process", processId=process)["sessionId"]
    lines, repeated = [], False
    for event in rpc.events(sessionId=session):
        if event["type"].startswith(("process.output", "output.")):
            continue
        for k in ("outputRefs", "outputs"):
            if k in event["payload"]:
                event["payload"][k] = type(event["payload"][k])()
        ids = [f"{k}={v}" for k, v in event.items() if k not in TOP and isinstance(v, str)]
        members = ",".join(f"{json.dumps(k)}:{json.dumps(v)}" for k, v in event.items() if k not in TOP and not isinstance(v, str))
        mark = "" if repeated or event["type"] != "process.input" else "*"
        repeated |= bool(mark)
        lines.append(mark + ID.sub(r"\1" + "#" * 16, "\t".join((event["type"], event.get("status", ""), ",".join(ids), members, json.dumps(event["payload"])))))
    return "\n".join(lines) + "\n"


def filled(events):
    """A stopped home with that many events."""
    home = Home(CONFIG)
    with home.rpc() as rpc:
        text = template(rpc, home.work)
    home.stop()
    owner = os.stat(os.path.join(home.dir, "store"))
    begin = time.monotonic()
    subprocess.run([FILL, home.dir, str(max(1, events // EVENTS_EACH)), str(events)], input=text.encode(), check=True, stdout=subprocess.DEVNULL,
                   env=harness.environment())
    for d, _, files in os.walk(os.path.join(home.dir, "store")):
        for f in files:
            os.chown(os.path.join(d, f), owner.st_uid, owner.st_gid)
    return home, time.monotonic() - begin


class DiskBeat(Beat):
    """A process that syncs a small file on the same disk."""

    def __init__(self, home):
        super().__init__()
        self.path = os.path.join(home.dir, "beat")

    def run(self):
        with open(self.path, "wb") as f:
            while not self.stop.is_set():
                begin = time.monotonic()
                os.pwrite(f.fileno(), os.urandom(4096), 0)
                os.fdatasync(f.fileno())
                self.worst.value = max(self.worst.value, time.monotonic() - begin)
                time.sleep(0.005)


class Probe:
    """A client that sends these requests all the time, in a process of its own."""

    def __init__(self, home, requests):
        self.worst, self.stop, self.rpc, self.requests = multiprocessing.Value("d", 0.0), multiprocessing.Event(), home.rpc(patience=600), requests
        self.child = multiprocessing.Process(target=self.run, daemon=True)

    def run(self):
        with contextlib.suppress(Gone):
            while not self.stop.is_set():
                for method, params in self.requests:
                    begin = time.monotonic()
                    self.rpc.call(method, params)
                    self.worst.value = max(self.worst.value, time.monotonic() - begin)
                time.sleep(0.005)

    def __enter__(self):
        self.child.start()
        self.rpc.close()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.child.join()


class Scale:
    def __init__(self, proof):
        self.proof, self.curves, self.blocked, self.sizes, self.output = proof, {}, {}, [], ""

    def note(self, what, size, seconds):
        self.curves.setdefault(what, {})[size] = seconds

    def best(self, what, size, function):
        """The shortest of several: other work only adds to it."""
        times = []
        for _ in range(REPEAT):
            begin = time.monotonic()
            function()
            times.append(time.monotonic() - begin)
        self.note(what, size, min(times))

    def maintenance(self, home, what, size, function):
        """How long it takes, and how long other requests wait."""
        with Beat() as beat, DiskBeat(home) as disk, Probe(home, READS) as reader, Probe(home, WRITES) as writer:
            begin = time.monotonic()
            function()
            self.note(what, size, time.monotonic() - begin)
        for kind, probe, allowed in (("read", reader, 0.0), ("commit", writer, SYNCS * disk.worst.value)):
            self.blocked[what, kind, size] = probe.worst.value
            if probe.worst.value > BLOCK_S + WAKEUPS * beat.worst.value + allowed:
                self.proof.fail(f"{size}", f"a {kind} took {probe.worst.value * 1000:.0f} ms during {what} (delay of the machine {beat.worst.value * 1000:.0f} ms, "
                                           f"a sync {disk.worst.value * 1000:.0f} ms)")

    def queries(self, rpc, size):
        first = rpc.call("list_events", limit=1)["firstSequence"]
        last = rpc.call("initialize")["lastSequence"]
        middle = (first + last) // 2
        page = rpc.call("list_events", afterSequence=middle, limit=200)["events"]
        process, session = (next(e[k] for e in page if e.get(k)) for k in ("processId", "sessionId"))
        for name, method, params in (
                ("events, first 100", "list_events", {"limit": 100}), ("events, middle 100", "list_events", {"afterSequence": middle, "limit": 100}),
                ("events, last 100", "list_events", {"order": "desc", "limit": 100}), ("events of a process", "list_events", {"processId": process, "limit": 100}),
                ("processes, last 20", "list_processes", {"limit": 20}), ("sessions, last 20", "list_sessions", {"limit": 20}),
                ("a process", "get_process", {"processId": process}), ("a session", "get_session", {"sessionId": session}),
                ("search, last 20", "search_history", {"limit": 20}), ("statistics", "get_store_stats", {}), ("metrics", "get_metrics", {})):
            self.best(name, size, lambda method=method, params=params: rpc.call(method, params))
        self.best("control: whole log", size, lambda: rpc.call("list_events", types=["benchmark.trial.completed"], limit=1))
        return session

    def start(self, home, size):
        times = []
        for _ in range(3):
            with Beat() as beat:
                begin = time.monotonic()
                home.spawn()
                until("the daemon answers", home.answers)
                times.append(max(0.0, time.monotonic() - begin - beat.worst.value))
            if len(times) < 3:
                home.stop()
        self.note("start", size, min(times))
        if min(times) > START_S:
            self.proof.fail(f"{size}", f"the start took {min(times) * 1000:.0f} ms")

    def one_size(self, size, output_mb):
        home, took = filled(size)
        with home:
            self.note("fill", size, took)
            self.start(home, size)
            with home.rpc(patience=3600) as rpc:
                session = self.queries(rpc, size)
                if output_mb:
                    self.outputs(home, rpc, output_mb)
                self.all_maintenance(home, rpc, size, session)
                started, ended = rpc.run(["echo", "after"])
                assert ended["exitCode"] == 0 and rpc.outputs(started["processId"])["stdout"] == b"after\n"
                self.note("database MB", size, os.stat(os.path.join(home.dir, "store", "data.mdb")).st_size / 1e6)

    def all_maintenance(self, home, rpc, size, session):
        copy = os.path.join(home.dir, "copy")
        self.maintenance(home, "export", size, lambda: home.cli("export", session, "--output", os.path.join(home.dir, "pack"), status=None, patience=3600))
        self.maintenance(home, "verify", size, lambda: rpc.call("verify_store"))
        self.maintenance(home, "backup", size, lambda: home.cli("store", "backup", copy, patience=3600))
        shutil.rmtree(copy, ignore_errors=True)
        self.maintenance(home, "rebuild", size, lambda: rpc.call("rebuild_store"))
        middle = rpc.call("initialize")["lastSequence"] // 2
        self.maintenance(home, "prune", size, lambda: rpc.call("prune_store", beforeSequence=middle))
        self.maintenance(home, "compact", size, lambda: rpc.call("compact_store"))
        assert rpc.call("verify_store")["ok"] is True

    def outputs(self, home, rpc, total):
        """Real commands, and windows of their outputs."""
        begin, done, refs = time.monotonic(), 0, []
        while done < total:
            started, ended = rpc.run(f"head -c {OUTPUT_MB << 20} /dev/zero | tr '\\0' x", cwd=home.work)
            assert ended["exitCode"] == 0, ended
            refs.append(rpc.call("get_process", processId=started["processId"])["outputs"]["stdout"]["outputRef"])
            done += OUTPUT_MB
        took, windows = time.monotonic() - begin, []
        for at in (0, OUTPUT_MB << 19, (OUTPUT_MB << 20) - 4096):
            begin = time.monotonic()
            part = rpc.call("read_output", outputRef=refs[len(refs) // 2], offset=at, length=4096)
            windows.append(time.monotonic() - begin)
            assert part["data"] == "x" * 4096, part["data"][:80]
        self.output = f"{done} MB at {done / took:.0f} MB/s; 4 KB at the beginning, in the middle and at the end in {', '.join(f'{w * 1000:.1f}' for w in windows)} ms"

    def compare(self):
        """Queries must not grow with the log; returns whether the control does."""
        small, large = self.sizes[0], self.sizes[-1]
        maintenance = {what for what, _, _ in self.blocked} | {"fill", "start", "database MB"}

        def grew(what, plus=PLUS_S):
            return self.curves[what][large] > FACTOR * self.curves[what][small] + plus
        for what in self.curves:
            if what not in maintenance and not what.startswith("control") and large > small and grew(what):
                self.proof.fail(f"{large}", f"{what}: {self.curves[what][small] * 1000:.1f} ms with {small} events, {self.curves[what][large] * 1000:.1f} ms with {large}")
        return grew("control: whole log", 0)

    def figures(self):
        ms = {what: ", ".join(f"{v * (1 if what == 'database MB' else 1000):.1f}" for _, v in sorted(curve.items())) for what, curve in self.curves.items()}
        worst = {kind: ", ".join(f"{what} {max(b for (w, k, _), b in self.blocked.items() if (w, k) == (what, kind)) * 1000:.0f}"
                                 for what in {w: 1 for w, _, _ in self.blocked}) for kind in ("read", "commit")}
        return {"events": ", ".join(map(str, self.sizes)), "ms at these sizes": "; ".join(f"{k}: {v}" for k, v in ms.items()),
                "longest read during maintenance ms": worst["read"], "longest commit ms": worst["commit"], **({"output": self.output} if self.output else {})}


def blocking_is_seen():
    """The control: a stopped runtime."""
    with Home(CONFIG) as home, Beat() as beat, Probe(home, READS) as probe:
        pid = home.part("runtime")
        until("it reads", lambda: probe.worst.value > 0)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.4)
        os.kill(pid, signal.SIGCONT)
        until("it reads again", lambda: probe.worst.value > BLOCK_S + beat.worst.value, 5)
    return True


def main():
    def more(parser):
        parser.add_argument("--events", type=int, help="the largest store; default: as large as the time permits")
        parser.add_argument("--output-mb", type=int, help="output of commands in the largest store")
    proof = Proof("scale", more=more)
    scale, sizes = Scale(proof), SHORT if proof.as_test else (int(proof.case),) if proof.case else SIZES
    last_s = 0.0
    for size in sizes:
        enough_time = proof.left_s() is None or proof.as_test or not last_s or 10 * last_s < proof.left_s()
        enough_disk = shutil.disk_usage("/tmp").free > FREE_BYTES + size * 1500
        if size > (proof.options.events or sizes[-1]) or not enough_time or not enough_disk:
            break
        begin, largest = time.monotonic(), size in (proof.options.events, sizes[-1])
        megabytes = proof.options.output_mb if proof.options.output_mb is not None else min(10_000, size // 1000) if largest and not proof.as_test else 0
        try:
            scale.one_size(size, megabytes)
        except (AssertionError, RpcError, Gone, OSError, subprocess.SubprocessError):
            proof.fail(str(size), traceback.format_exc())
            break
        last_s = time.monotonic() - begin
        scale.sizes.append(size)
        proof.add(size, f"{size} events in {last_s:.0f} s")
    caught = int(blocking_is_seen()) + int(bool(scale.sizes) and scale.compare())
    return proof.finish("a store of any size starts fast and blocks no client", scale.figures(), (caught, 2))


if __name__ == "__main__":
    sys.exit(main())
