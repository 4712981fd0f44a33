#!/usr/bin/python3
"""SIGKILL of the runtime, the spawner, or both, at random moments, while commands run.

    kill_loop.py [--kills N] [--seed S] [--homes H]

In each home a rolling set of commands, a third of them on terminals, prints numbered, hashed records slowly and exits with
a known code. Clients start them with an idempotency key, so that a request whose reply was lost is simply sent again.
Whatever was killed: every output is complete, every exit code exact, the log has no gap, each start exactly one terminal event, and the store
verifies. The checks are first run against a log and an output that lack one record (the known-bad control).
"""

import argparse
import collections
import os
import random
import signal
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "blackbox"))
import harness  # noqa: E402
from harness import Gone, Home, Rpc, RpcError, TALKER, until  # noqa: E402

CLIENTS = 10


class Linked:
    """A client with `home` that connects when it calls; `again` counts its lost connections."""

    again, link = 0, None

    def call(self, method, **params):
        """Retries until it is answered, also after a lost connection."""
        while True:
            try:
                if self.link is None:
                    self.link = Rpc(self.home.socket)
                return self.link.call(method, **params)
            except (Gone, OSError):
                self.again += 1
                if self.link:
                    self.link.close()
                self.link = None
                time.sleep(0.001)


class Retrying(Linked):
    """Also retries what the daemon reports as retryable."""

    def call(self, method, **params):
        while True:
            try:
                return super().call(method, **params)
            except RpcError as e:
                if not e.data.get("retryable"):
                    raise
                time.sleep(0.01)


class Client(Linked, threading.Thread):
    """One command after the other: start, wait, compare."""

    def __init__(self, home, number, rng, stop):
        super().__init__(daemon=True)
        self.home, self.number, self.rng, self.stop = home, number, rng, stop
        self.state, self.done, self.again, self.refused, self.error = "idle", 0, 0, 0, None
        self.link = None

    def output(self, ref):
        import base64
        data, offset = b"", 0
        while True:
            part = self.call("read_output", outputRef=ref, offset=offset, length=1 << 20, encoding="base64")
            data += base64.b64decode(part["data"])
            if part["eof"]:
                return data
            assert part["nextOffset"] > offset, part
            offset = part["nextOffset"]

    def start_one(self, seed, count, delay, code, more):
        attempt = 0
        while True:
            key = f"k-{self.number}-{self.done}-{attempt}"
            try:
                return self.call("start_process", command=[TALKER, "talk", str(seed), str(count), str(delay), str(code)], idempotencyKey=key,
                                 **more)
            except RpcError as e:
                # A start that is rejected because a part has just died is reported as retryable.
                if not e.data.get("retryable"):
                    raise
                self.refused += 1
                attempt += 1

    def one(self):
        seed, count, code = self.rng.randrange(1 << 32), self.rng.randrange(1, 60), self.rng.randrange(0, 120)
        delay = self.rng.choice((0, 1000, 5000, 20000))
        self.state = "starting"
        tty = self.rng.randrange(3) == 0
        process = self.start_one(seed, count, delay, code, {"tty": {"rows": 24, "cols": 80}} if tty else {})["processId"]
        self.state = "running"
        end = self.call("wait_process", processId=process)
        self.state = "checking"
        assert end["status"] == "completed", f"{process}: {end}"
        assert end["exitCode"] == code, f"{process}: exit code {end['exitCode']}, expected {code}"
        names = ("pty",) if tty else ("stdout", "stderr")
        check_output(process, {n: self.output(end["outputs"][n]["outputRef"]) for n in names}, seed, count)
        self.done += 1

    def run(self):
        try:
            while not self.stop.is_set():
                self.one()
            self.state = "idle"
        except Exception:
            self.error = traceback.format_exc()
            self.state = "failed"


def check_output(process, got, seed, count):
    expected = dict(zip(("stdout", "stderr"), harness.talker_output(seed, count)), pty=harness.talker_terminal(seed, count))
    for name, have in got.items():
        want = expected[name]
        if have != want:
            at = next((i for i, (a, b) in enumerate(zip(have, want)) if a != b), min(len(have), len(want)))
            raise AssertionError(f"{process}: {name} has {len(have)} bytes of {len(want)}, first difference at {at}")


def control_bad():
    """The checks must detect a loss."""
    out, err = harness.talker_output(1, 20)
    lines = out.splitlines(True)
    events = [{"sequence": i + 1, "eventId": f"e{i}", "type": t, "processId": "p"} for i, t in
              enumerate(("process.started", "process.output", "process.completed"))]
    seen = harness.talker_terminal(1, 20).splitlines(True)
    bad = [lambda: check_output("p", {"stdout": b"".join(lines[:4] + lines[5:]), "stderr": err}, 1, 20),
           lambda: check_output("p", {"pty": b"".join(seen[:9] + seen[8:])}, 1, 20), lambda: harness.check_log(events[:1] + events[2:]),
           lambda: harness.check_log(events[:2]), lambda: harness.check_log(events + [dict(events[2], sequence=4, eventId="e9")])]
    for n, check in enumerate(bad):
        try:
            check()
        except AssertionError:
            continue
        raise SystemExit(f"the checker does not see known-bad case {n}")


class Killer:
    """Kills parts of one home and records the activity at that moment."""

    def __init__(self, home, clients, rng):
        self.home, self.clients, self.rng = home, clients, rng
        self.targets, self.windows, self.at_start = collections.Counter(), collections.Counter(), 0

    def kill(self):
        target = self.rng.choice(("runtime", "runtime", "spawner", "both"))
        names = ("runtime", "spawner") if target == "both" else (target,)
        pids = [until(f"{n} runs", lambda n=n: self.home.part(n)) for n in names]
        # Mostly into the work, sometimes into the start of the part itself.
        early = self.rng.random() < 0.2
        if not early:
            until("a client is served", lambda: self.served())
            time.sleep(self.rng.random() ** 2 * 0.06)
            pids = [self.home.part(n) for n in names]
        self.at_start += early
        self.targets[target] += 1
        for state in {c.state for c in self.clients}:
            self.windows[state] += 1
        for pid in pids:
            if pid:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for pid in pids:
            if pid:
                until("it is dead", lambda pid=pid: not harness.alive(pid))

    def served(self):
        assert self.home.guard.poll() is None, "the guard has died:\n" + "".join(self.home.log()[-20:])
        failed = [c for c in self.clients if c.error]
        assert not failed, failed[0].error
        return self.home.answers()


def work(kills, seed):
    """One home. Returns figures."""
    rng, stop = random.Random(seed), threading.Event()
    with Home() as home:
        clients = [Client(home, n, random.Random(rng.random()), stop) for n in range(CLIENTS)]
        for c in clients:
            c.start()
        killer = Killer(home, clients, rng)
        for _ in range(kills):
            killer.kill()
            failed = [c for c in clients if c.error]
            assert not failed, failed[0].error
        stop.set()
        for c in clients:
            c.join(harness.PATIENCE)
            assert not c.error, c.error
            assert not c.is_alive(), f"client {c.number} hangs in state {c.state}"
        with home.rpc() as rpc:
            log = rpc.events()
            started = harness.check_log(log)
            report = rpc.call("verify_store")
            assert report["ok"] is True, report
        figures = collections.Counter(commands=sum(c.done for c in clients), again=sum(c.again for c in clients),
                                      refused=sum(c.refused for c in clients), events=len(log), started=len(started), early=killer.at_start,
                                      recoveries=sum(e["type"] == "history.reconstructed" for e in log))
        figures.update({f"kill {k}": v for k, v in killer.targets.items()})
        figures.update({f"while {k}": v for k, v in killer.windows.items()})
        return figures


def in_parallel(function, shares):
    """Runs function(*share) in a process for each share; the sum of what they return."""
    children, total, ok = [], collections.Counter(), True
    for share in shares:
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(r)
                result = function(*share)
                os.write(w, repr(dict(result)).encode())
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        os.close(w)
        children.append((pid, r))
    for pid, r in children:
        with os.fdopen(r, "rb") as f:
            text = f.read().decode()
        _, status = os.waitpid(pid, 0)
        ok = ok and status == 0
        if text:
            total.update(eval(text, {}))  # our own repr of a dict of counts
    return ok, total


def options(kills, homes=min(4, (os.cpu_count() or 2) + 1)):
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=kills)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--homes", type=int, default=homes)
    o = parser.parse_args()
    o.homes = max(1, min(o.homes, o.kills))
    print(f"# seed {o.seed}, {o.kills} kills in {o.homes} homes", flush=True)
    share = [o.kills // o.homes + (n < o.kills % o.homes) for n in range(o.homes)]
    return o, [(count, o.seed + n) for n, count in enumerate(share)]


def main():
    o, shares = options(2000)
    control_bad()
    begin = time.monotonic()
    ok, figures = in_parallel(work, shares)
    print(f"# {time.monotonic() - begin:.0f} s: " + ", ".join(f"{v} {k}" for k, v in sorted(figures.items())))
    print(f"{'ok' if ok else 'not ok'} 1 - {o.kills} kills of runtime and spawner")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
