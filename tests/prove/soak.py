#!/usr/bin/python3
"""Long use of one daemon: its resource use stays flat, and it does not become slower.

    soak.py [--round S] [arguments of proof.py]     a case is one action of a client

Two clients do everything that clients do, in random order: commands, input, terminals, session sandboxes, copy-on-write, approvals, tasks, jobs, turns of the
loop, gateways, subscriptions, connections that come and go. Idle subscribers stay connected; prune and compact run in between. After each round of --round
seconds the clients pause, and what the daemon then needs is measured: anonymous memory, descriptors and threads of each process, mounts, keys, cgroups,
processes, files, bytes. After the warm-up (the first third of the rounds) none of it may grow. The 99th percentile of the latencies of the last third may
be at most 1.2 times that of the first, unless a control that has nothing to do with bailiff (posix_spawn of `true`) slowed down likewise.

Known-bad control: a daemon whose clients never disconnect and whose commands never end.
"""

import collections
import contextlib
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback

import nth_scenario as scenario
from nth_scenario import Gone, Home, RpcError, harness, until
from mcp import Mcp
from proof import Proof
from stalls import Beat

IDLE_SUBSCRIBERS = 12
KEEP_EVENTS = 2000          # prune keeps the last ones, so that the store reaches its size
SETTLE_S = 7                # prebuilt sandboxes and idle leaders are dropped after 5 seconds
SLOWER = 1.2
P99_SAMPLES = 300           # of each part; fewer have no meaningful percentile
GROWTH = 0.05               # of what a value was after the warm-up, and in addition:
SLACK = {"memory KiB": 1024, "descriptors": 6, "threads": 1, "mounts": 4, "keys": 40, "cgroups": 4, "processes": 3, "files": 150, "disk KiB": 16384,
         "mapped files KiB": 65536}
POLICY = {"permissions": {"ask": ["Bash(touch:*)"]}}


# ---- actions of clients ----

def finish(rpc, started, code=0):
    ended = rpc.wait(started["processId"])
    assert ended["status"] == "completed" and ended["exitCode"] == code, ended
    return ended


def command(c):
    with c.timed("start"):
        started = c.rpc.start(["true"], cwd=c.work)
    finish(c.rpc, started)


def output(c):
    lines = c.rng.randrange(1, 20000)
    ended = finish(c.rpc, c.rpc.start(f"seq 1 {lines}; echo x >&2; exit 3", cwd=c.work), 3)
    text = c.rpc.output(ended["outputs"]["stdout"]["outputRef"])
    assert text == "".join(f"{n}\n" for n in range(1, lines + 1)).encode(), len(text)


def stdin(c):
    started = c.rpc.start(["cat"], stdin="pipe", cwd=c.work)
    c.rpc.call("write_process_stdin", processId=started["processId"], data="some input\n")
    c.rpc.call("close_process_stdin", processId=started["processId"])
    assert c.rpc.output(finish(c.rpc, started)["outputs"]["stdout"]["outputRef"]) == b"some input\n"


def terminal(c):
    started = c.rpc.start("stty -echo; echo ready; read x; echo got $x", tty={"rows": 24, "cols": 80}, cwd=c.work)
    ref = c.rpc.call("get_process", processId=started["processId"])["outputs"]["pty"]["outputRef"]
    until("the terminal is ready", lambda: b"ready" in c.rpc.output(ref))
    c.rpc.call("get_screen", processId=started["processId"])
    c.rpc.call("write_process_stdin", processId=started["processId"], data="abc\n")
    finish(c.rpc, started)


def session(c):
    known = c.rpc.call("create_session", title="soak")["sessionId"]
    for _ in range(3):
        finish(c.rpc, c.rpc.start("echo x >>/tmp/shared", sandboxId="session", sessionId=known, cwd=c.work))
    c.rpc.call("update_session", sessionId=known, archived=True)


def copy_on_write(c):
    started = c.rpc.start(f"echo {c.name} >cow-{c.name}", cow=True, cwd=c.work)
    finish(c.rpc, started)
    c.rpc.call(c.rng.choice(("apply_changes", "discard_changes")), processId=started["processId"])


def approval(c):
    started = c.rpc.start(f"touch asked-{c.name}", cwd=c.work)
    c.rpc.call("respond_action", actionId=started["actionId"], decision=c.rng.choice(("allow", "deny")))
    c.rpc.wait(started["processId"])


def task(c):
    known = c.rpc.call("create_task", objective="soak", commandLine="echo task", cwd=c.work, autoComplete=True)["taskId"]
    c.rpc.call("start_task", taskId=known)
    until("the task ends", lambda: c.rpc.call("get_task", taskId=known)["status"] == "completed")


def job(c):
    known = c.rpc.call("create_job", items=[{"itemId": "a"}, {"itemId": "b"}], commandLine="echo {itemId}", cwd=c.work, maxParallel=2)["jobId"]
    until("the job ends", lambda: c.rpc.call("get_job", jobId=known)["status"] == "completed")


def turn(c):
    submitted = c.rpc.call("submit_turn", driver="loop", model="fake", input=[{"type": "text", "text": "go"}], options={"cwd": c.work})
    until("the turn ends", lambda: [e for e in c.rpc.call("list_events", turnId=submitted["turnId"], limit=1000)["events"] if e["type"] in scenario.TURN_ENDS])
    c.rpc.call("update_session", sessionId=submitted["sessionId"], archived=True)   # otherwise its sandbox stays for half an hour


def gateway(c):
    with Mcp(c.home, cwd=c.work) as mcp:
        mcp.call("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}})
        result = mcp.call("tools/call", {"name": "exec", "arguments": {"command": "echo by gateway"}})
        assert "by gateway" in str(result), result
    for sandbox in c.rpc.call("list_sandboxes")["sandboxes"]:
        if sandbox["createdBy"]["pid"] == mcp.process.pid:
            c.rpc.call("close_sandbox", sandboxId=sandbox["sandboxId"])


def killed(c):
    started = c.rpc.start("sleep 1000 & sleep 1000", cwd=c.work)
    with c.timed("kill"):
        c.rpc.call("terminate_process", processId=started["processId"], graceMs=0)
    assert c.rpc.wait(started["processId"])["status"] == "terminated"


def subscriber(c):
    """Reads events, and disconnects before the end."""
    with c.home.rpc() as rpc:
        rpc.call("subscribe_events", afterSequence=max(0, rpc.call("initialize")["lastSequence"] - c.rng.randrange(1, 200)))
        for _ in range(c.rng.randrange(1, 50)):
            if rpc.event(0.2) is None:
                break


def reader(c):
    for method, params in (("get_health", {}), ("list_processes", {"limit": 20}), ("list_sessions", {"limit": 20}), ("list_tasks", {"limit": 20}),
                           ("list_events", {"limit": 50})):
        with c.timed("read"):
            c.rpc.call(method, params)


def reconnect(c):
    c.rpc.close()
    c.rpc = c.home.rpc()


def command_line(c):
    c.home.cli("run", "--", "echo", "by command line")


ACTIONS = {command: 12, output: 4, stdin: 3, terminal: 3, session: 2, copy_on_write: 2, approval: 2, task: 2, job: 1, turn: 2, gateway: 1, killed: 3,
           subscriber: 3, reader: 12, reconnect: 3, command_line: 2}


class Client:
    """One client, in a process of its own: other clients do not delay its measurements."""

    def __init__(self, home, number, seed, go, results):
        self.home, self.name, self.work, self.go, self.results = home, f"c{number}", home.work, go, results
        self.rng, self.rpc, self.times = random.Random(seed), None, []

    @contextlib.contextmanager
    def timed(self, kind):
        begin = time.monotonic()
        yield
        self.times.append((kind, (time.monotonic() - begin) * 1000))

    def control(self):
        with self.timed("control"):
            pid = os.posix_spawn("/bin/true", ["true"], {})
            os.waitpid(pid, 0)

    def run(self):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.rpc = self.home.rpc()
        actions, weights = list(ACTIONS), list(ACTIONS.values())
        while True:
            if not self.go.is_set():
                self.rpc.close()
                self.results.put((self.name, "paused", [], None))
                self.go.wait()
                self.rpc = self.home.rpc()
            action, self.times, report = self.rng.choices(actions, weights)[0], [], None
            try:
                action(self)
                self.control()
            except (AssertionError, RpcError, Gone, OSError, KeyError, subprocess.SubprocessError):
                report = traceback.format_exc()
                with contextlib.suppress(OSError):
                    reconnect(self)
            self.results.put((self.name, action.__name__, self.times, report))


# ---- resource use of the daemon ----

def count_lines(path):
    with contextlib.suppress(OSError), open(path) as f:
        return sum(1 for _ in f)
    return 0


def anonymous_kib(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith(("RssAnon:", "VmSwap:")))
    return 0


def file_kib(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith(("RssFile:", "RssShmem:")))
    return 0


def keys_of(uids):
    """Quota of keys that these users have used, as the kernel counts it."""
    with contextlib.suppress(OSError), open("/proc/key-users") as f:
        return sum(int(line.split()[2].split("/")[0]) for line in f if int(line.split(":")[0]) in uids)
    return 0


def measure(home):
    """A dictionary of values; those of one process are named after it."""
    parts = {"guard": home.guard.pid, **{n: home.part(n) for n in ("runtime", "spawner")}}
    values, uids = {}, set()
    for name, pid in parts.items():
        if not pid:
            continue
        values[f"{name}: memory KiB"] = anonymous_kib(pid)
        values[f"{name}: mapped files KiB"] = file_kib(pid)
        values[f"{name}: descriptors"] = len(os.listdir(f"/proc/{pid}/fd"))
        values[f"{name}: threads"] = len(os.listdir(f"/proc/{pid}/task"))
        uids.add(os.stat(f"/proc/{pid}").st_uid)
    values["spawner: mounts"] = count_lines(f"/proc/{parts['spawner']}/mountinfo")
    values["keys"] = keys_of(uids)
    below = harness.descendants_of(home.guard.pid)
    values["processes"] = len(below)
    tops = {t for pid, _ in below for t in harness.daemon_cgroups(pid)}
    values["cgroups"] = sum(len(folders) for t in tops for _, folders, _ in os.walk(t))
    files = [os.path.join(d, f) for top in (home.dir,) for d, _, names in os.walk(top) for f in names]
    values["files"] = len(files)
    values["disk KiB"] = sum(os.lstat(f).st_blocks for f in files if os.path.lexists(f) and os.path.basename(f) != "log") // 2
    return values


def third(rows, n):
    size = max(1, len(rows) // 3)
    return rows[n * size:(n + 1) * size] if n < 2 else rows[-size:]


def median(values):
    return sorted(values)[len(values) // 2]


def grown(samples):
    """{name: (after the warm-up, at the end)} of what is not flat."""
    found = {}
    for name in samples[0]:
        early, late = (median([s[name] for s in third(samples, n) if name in s]) for n in (1, 2))
        if late > early * (1 + GROWTH) + SLACK[name.split(": ")[-1]]:
            found[name] = early, late
    return found


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, int(len(values) * p))]


def slower(parts):
    """({kind: text}, {kind: factor} of those that became slower). `parts` are lists of (kind, ms), by round."""
    text, bad, first, last = {}, {}, collections.defaultdict(list), collections.defaultdict(list)
    for to, rounds in ((first, third(parts, 0)), (last, third(parts, 2))):
        for kind, ms in (t for r in rounds for t in r):
            to[kind].append(ms)
    if min(len(first["control"]), len(last["control"])) < P99_SAMPLES:
        return text, bad
    load = max(1.0, percentile(last["control"], 0.99) / percentile(first["control"], 0.99))
    for kind in sorted(first):
        if min(len(first[kind]), len(last[kind])) >= P99_SAMPLES:
            a, b = percentile(first[kind], 0.99), percentile(last[kind], 0.99)
            text[kind] = f"{a:.1f} to {b:.1f}"
            if kind != "control" and b / a / load > SLOWER:
                bad[kind] = b / a / load
    return text, bad


# ---- a run ----

class Soak:
    """A daemon with its clients. `bad`: the clients of the known-bad control."""

    def __init__(self, seed, place, bad=False):
        self.home, self.bad, self.place = Home({"stopGraceMs": 1000, "maxConnectionsPerUid": 4096}, start=False), bad, place
        with open(os.path.join(self.home.dir, "policy.json"), "w") as f:
            f.write(harness.json.dumps(POLICY))
        self.home.start()
        self.go, self.results = multiprocessing.Event(), multiprocessing.Queue()
        self.counts, self.times, self.samples, self.peaks, self.failures = collections.Counter(), [], [], {}, []
        self.slowest, self.delay, self.kept = 0.0, 0.0, []
        with self.home.rpc() as rpc:
            rpc.call("add_model", name="fake", baseUrl=place.provider.url, dialect="anthropic", model="fake-1", keyFile=place.key_file)
        self.clients = [multiprocessing.Process(target=Client(self.home, n, seed + n, self.go, self.results).run, daemon=True) for n in range(2)]
        for c in self.clients:
            c.start()
        self.subscribers = [self.home.rpc() for _ in range(IDLE_SUBSCRIBERS)]
        for rpc in self.subscribers:
            rpc.call("subscribe_events", afterSequence=0)
        self.take(self.all_paused)

    def close(self):
        for c in self.clients:
            c.kill()
            c.join()
        for rpc in self.subscribers + self.kept:
            rpc.close()
        self.home.__exit__(None)

    def take(self, enough, on_action=lambda: None):
        """Takes results until enough() is true."""
        self.paused = set()
        while not enough():
            try:
                name, action, times, report = self.results.get(timeout=0.2)
            except multiprocessing.queues.Empty:
                assert all(c.is_alive() for c in self.clients), "a client has ended"
                continue
            if action == "paused":
                self.paused.add(name)
                continue
            self.counts[action] += 1
            self.times[-1].extend(times)
            if report:
                self.failures.append((action, report))
            on_action()

    def all_paused(self):
        return len(self.paused) == len(self.clients)

    def maintain(self):
        """Prune and compact; what a read takes meanwhile, and what a process that only sleeps is delayed by."""
        with self.home.rpc() as rpc, self.home.rpc() as other, Beat() as beat:
            last = rpc.call("initialize")["lastSequence"]
            requests = [rpc.send("prune_store", beforeSequence=last - KEEP_EVENTS)] if last > KEEP_EVENTS else []
            requests.append(rpc.send("compact_store"))
            done = threading.Event()

            def probe():
                while not done.is_set():
                    begin = time.monotonic()
                    other.call("list_processes", limit=5)
                    self.slowest = max(self.slowest, time.monotonic() - begin)
                    time.sleep(0.01)
            thread = threading.Thread(target=probe)
            thread.start()
            try:
                for r in requests:
                    try:
                        rpc.reply(r)
                    except RpcError as e:
                        if not e.data.get("retryable"):     # a compact during too many events; the next one follows
                            raise
            finally:
                done.set()
                thread.join()
        self.delay = max(self.delay, beat.worst.value)

    def misbehave(self):
        """What the control does: connections and commands that stay."""
        for _ in range(6):
            rpc = self.home.rpc()
            rpc.call("subscribe_events", afterSequence=rpc.call("initialize")["lastSequence"])
            rpc.start(["sleep", "1000"], cwd=self.home.work)
            self.kept.append(rpc)

    def round(self, seconds, settle, on_action=lambda: None):
        self.times.append([])
        end = time.monotonic() + seconds
        self.go.set()
        self.take(lambda: time.monotonic() > end - seconds / 2, on_action)
        self.maintain()
        for name, value in measure(self.home).items():
            self.peaks[name] = max(value, self.peaks.get(name, 0))
        self.take(lambda: time.monotonic() > end, on_action)
        if self.bad:
            self.misbehave()
        self.go.clear()
        self.take(self.all_paused, on_action)
        self.maintain()     # so that each sample has about as many events, however fast the clients were
        time.sleep(settle)
        self.samples.append(measure(self.home))


def run_control(proof, place):
    """(caught, tried): values that must be seen to grow."""
    soak = Soak(proof.seed, place, bad=True)
    try:
        for _ in range(4 if proof.as_test else 9):
            soak.round(0.3 if proof.as_test else 4, 0.3 if proof.as_test else 2)
        wanted = {"runtime: descriptors", "processes", "cgroups"}
        return len(wanted & set(grown(soak.samples))), len(wanted)
    finally:
        soak.close()


def run(proof, soak, round_s, settle):
    limit = proof.left_s()
    end = None if limit is None else time.monotonic() + limit
    while len(soak.samples) < 3 or ((end is None or time.monotonic() + round_s + settle < end) and proof.has_time()):
        soak.round(round_s, settle, lambda: proof.add(1, f"round {len(soak.samples) + 1}: {soak.counts.most_common(1)}"))
        with open(os.path.join(proof.out, "samples"), "a") as f:
            f.write(harness.json.dumps({"seconds": round(time.monotonic() - proof.begin), **soak.samples[-1], "actions": sum(soak.counts.values())}) + "\n")
    for action, report in soak.failures:
        proof.fail(action, report)


def main():
    proof = Proof("soak", more=lambda parser: parser.add_argument("--round", type=float, help="seconds of each round"))
    round_s = proof.options.round or (0.8 if proof.as_test else min(60, max(5, (proof.seconds or 3600) / 20)))
    settle = 0.3 if proof.as_test else SETTLE_S
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with scenario.Place() as place:
        control = run_control(proof, place)
        soak = Soak(proof.seed, place)
        try:
            run(proof, soak, round_s, settle)
            percentiles, bad = slower(soak.times)
            more = {} if proof.as_test else grown(soak.samples)     # a few seconds are all warm-up
            for name, (early, late) in more.items():
                proof.fail(f"grown-{name}", f"{name} grew from {early} after the warm-up to {late}")
            for kind, factor in bad.items():
                proof.fail(f"slower-{kind}", f"the 99th percentile of {kind} became {factor:.2f} times that of the beginning")
            middle, last = (third(soak.samples, n)[-1] for n in (1, 2))
            figures = {"rounds": len(soak.samples), "actions": ", ".join(f"{k} {v}" for k, v in soak.counts.most_common()),
                       "after the warm-up and at the end": ", ".join(f"{k} {middle[k]} {last[k]}" for k in last),
                       "p99 ms, first and last third": ", ".join(f"{k} {v}" for k, v in percentiles.items()) or "too few",
                       "slowest read during prune and compact ms": f"{soak.slowest * 1000:.0f} (delay of the machine {soak.delay * 1000:.0f})"}
        finally:
            soak.close()
    return proof.finish("the daemon's resource use and latencies stay flat", figures, control)


if __name__ == "__main__":
    sys.exit(main())
