#!/usr/bin/python3
"""Faults of a fleet: no submitted task is lost, none completes twice, no two attempts of one run at once, and every lost one is reported.

    fleet.py [--seconds N] [--cases N] [--seed N] [--servers 1|3] [--jobs N] [--totals FILE]     (see proof.py)
    fleet.py --totals FILE --sum                                                                 what all runs together did, as a table

Three nodes and one nats-server, or a cluster of three (fleet_parts.py). A case is a fault: SIGKILL of a part of a node, of a whole node or of a server; SIGSTOP of
bailiff-fleet, of the runtime, of all processes of a node, or of a server, for up to six leases; a node that is cut off, or whose messages are delayed; a clock that is set to
another time; an upgrade of the daemon; a drain. Two faults at a time are under way, of different nodes. Meanwhile commands, jobs, agents and tasks that wait for
others run, and some are cancelled. Commands print their token and the time, five times a second.

A round ends when all of its tasks have ended; then fleet_check.py compares the documents on the bus with what the daemons of all nodes have recorded and
with what the commands have printed. --totals appends a line of JSON for each round that was checked, also those of earlier runs are in the sums.
--jobs runs several fleets at the same time, each with its own namespaces; every second one has three servers unless --servers says otherwise.
"""

import collections
import contextlib
import datetime
import json
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "blackbox")]
import proof     # noqa: E402
import harness   # noqa: E402
from harness import Gone, RpcError, until  # noqa: E402
from fleet_check import DRAIN_S, LEASE_S, WAKE_S, Task, Windows, check_task, control, read_attempts  # noqa: E402
from fleet_parts import PATIENCE, Fleet  # noqa: E402

FAULTS_A_ROUND = 30
AT_ONCE = 2
# Without a process of its own for each line: read waits for a pipe to which nothing is written.
SCRIPT = ('exec 3<> <(:); mark() { echo "$BAILIFF_FLEET_TOKEN ${EPOCHREALTIME/[.,]/}" $1; }; '
          'for ((i = 0; i < %d; i++)); do mark; read -t 0.2 -u 3; done; mark end')
SHORT, LONG = (0.3, 0.5, 1.2, 2), (6,)    # in leases; the server delivers a message again after 10 s, so others take over only in long ones
OUTCOMES = ("completed", "failed", "lost", "cancelled")


def now_us():
    return time.time_ns() // 1000


# ---- faults: each leaves the fleet as it was ----

def pause(pids, seconds):
    """SIGSTOP, and SIGCONT after that time; returns when they were woken up."""
    for sig in (signal.SIGSTOP, signal.SIGCONT):
        if sig == signal.SIGCONT:
            time.sleep(seconds)
        woken = now_us()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sig)
    return woken


def kill_part(r, home, rng, name):
    pid = home.part(name)
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    time.sleep(rng.random())


def kill_node(r, home, rng):
    home.guard.kill()
    home.guard.wait()
    home.guard = None
    time.sleep(rng.choice((0, 0.5, 1.5)) * LEASE_S)
    home.start()


def kill_server(r, server, rng):
    server.kill()
    time.sleep(rng.choice((0, 0.3, 1)) * LEASE_S)
    server.start()


def stop_fleet(r, home, rng):
    pause([p for p in [home.part("fleet")] if p], rng.choice(SHORT + LONG) * LEASE_S)


def stop_runtime(r, home, rng):
    """Commands continue, until the guard ends them with their leases."""
    pause([p for p in [home.part("runtime")] if p], rng.choice(SHORT + LONG) * LEASE_S)


def stop_node(r, home, rng):
    """Everything, commands included, as when a virtual machine is paused."""
    woken = pause(home.processes(), rng.choice(SHORT + LONG) * LEASE_S)
    r.windows.woken[home.name].append((woken, woken + WAKE_S * 1000000))


def stop_server(r, server, rng):
    pause([server.process.pid], rng.choice((0.2, 1)) * LEASE_S)


def cut(r, home, rng):
    r.fleet.network.cut(home.i)
    time.sleep(rng.choice(SHORT + LONG) * LEASE_S)
    r.fleet.network.cut(home.i, off=False)


def delay(r, home, rng):
    r.fleet.relay.delays[home.i] = rng.choice((0.05, 0.3, 1))
    time.sleep(rng.choice((0.5, 1.5)) * LEASE_S)
    r.fleet.relay.delays[home.i] = 0.0


def set_clock(r, home, rng):
    """Stays until it is set again."""
    home.set_clock(rng.choice((-86400, -3600, -100, 0, 100, 3600, 86400)))
    time.sleep(rng.random() * LEASE_S / 2)


def upgrade(r, home, rng):
    """As a package does it: the guard executes the programs anew, and commands go on."""
    before = home.part("runtime")
    home.guard.send_signal(signal.SIGUSR2)
    until("the runtime is another one", lambda: home.part("runtime") not in (None, before))
    until("the daemon answers", home.answers)


def drain(r, home, rng):
    with home.rpc() as rpc:
        rpc.call("drain")
        begin = now_us()
        time.sleep(rng.choice((0.5, 1, 1.5)) * LEASE_S)
        r.windows.drained[home.name].append((begin + DRAIN_S * 1000000, now_us()))
        rpc.call("drain", on=False)


# name: (whom, what, weight)
FAULTS = {
    "kill bailiff-fleet": ("node", lambda *a: kill_part(*a, "fleet"), 2),
    "kill runtime": ("node", lambda *a: kill_part(*a, "runtime"), 2),
    "kill spawner": ("node", lambda *a: kill_part(*a, "spawner"), 2),
    "kill node": ("node", kill_node, 3),
    "kill server": ("server", kill_server, 2),
    "stop bailiff-fleet": ("node", stop_fleet, 2),
    "stop runtime": ("node", stop_runtime, 2),
    "stop node": ("node", stop_node, 2),
    "stop server": ("server", stop_server, 1),
    "partition": ("node", cut, 3),
    "delay": ("node", delay, 2),
    "clock": ("node", set_clock, 1),
    "upgrade": ("node", upgrade, 2),
    "drain": ("node", drain, 1),
}


# ---- a round ----

class Round:
    """Tasks and faults at the same time. Everything random comes from the seed and the number, but not how the threads meet."""

    def __init__(self, fleet, p, number, faults):
        self.fleet, self.p, self.number, self.rng = fleet, p, number, random.Random(f"{p.seed} {number}")
        self.tasks, self.cancelled, self.windows, self.figures = [], {}, Windows(), collections.Counter()
        self.done, self.error, self.over, self.lock = [], None, threading.Event(), threading.Lock()
        self.plan = queue.SimpleQueue()
        usable = {k: v[2] for k, v in FAULTS.items() if (k != "partition" or fleet.network.real) and (k != "clock" or fleet.homes[0].faults)}
        for kind in self.rng.choices(list(usable), list(usable.values()), k=faults):
            self.plan.put((kind, self.rng.randrange(3), self.rng.getrandbits(32)))

    # -- tasks --

    def submit(self, task, argv, stdin=None):
        """Until it is acknowledged, as a person would. False: the round is over before that."""
        def accepted():
            return self.fleet.cli("submit", "--id", task, "--lease", f"{LEASE_S}s", *argv, check=False, stdin=stdin).returncode == 0
        until(f"task {task} is accepted", accepted, PATIENCE)

    def submit_some(self, n):
        """One task or a few that belong together."""
        rng, task = self.rng, f"r{self.number}-{n}"
        kind = rng.choices(("command", "job", "agent", "after", "cancel"), (6, 1, 1, 1, 2))[0]
        tries = ["--retries", "1", "--retry-lost", str(rng.choice((0, 3, 5)))]
        command = ["--", "bash", "-c", SCRIPT % rng.choice((1, 5, 15, 30))]
        if kind == "agent":
            self.submit(task, [*tries, "--agent", f"Do what {task} wants.", "--model", "fake"])
        elif kind == "job":
            self.submit(task, [*tries, "--items", "-", "--", "bash", "-c", SCRIPT % 5 + "; : {item}"], stdin="one\ntwo\nthree\n")
            self.tasks += [Task(f"{task}-{i}", kind) for i in (1, 2, 3)]
            return
        elif kind == "after":
            self.submit(task + "a", [*tries, *command])
            self.tasks.append(Task(task + "a", "command"))
            self.submit(task, [*tries, "--after", task + "a", *command])
        else:
            self.submit(task, [*tries, *command])
        self.tasks.append(Task(task, kind, task + "a" if kind == "after" else None))
        if kind == "cancel":
            time.sleep(rng.choice((0, 0.3, 2)))
            until(f"the cancel of {task} is accepted", lambda: self.fleet.cli("cancel", task, check=False).returncode == 0, PATIENCE)
            self.cancelled[task] = now_us()

    def submit_tasks(self):
        n = 0
        while n < 2 or not self.over.wait(self.rng.random() * 1.5):
            self.submit_some(n)
            n += 1

    # -- faults --

    def cause(self, kind, target, seed):
        rng = random.Random(seed)
        time.sleep(rng.random() * 0.7)
        whom, what, _ = FAULTS[kind]
        if whom == "server":
            with self.fleet.servers_busy:
                what(self, self.fleet.servers[target % len(self.fleet.servers)], rng)
        else:
            with self.fleet.homes[target].busy:
                what(self, self.fleet.homes[target], rng)
        with self.lock:
            self.done.append(f"{kind} ({target})")
            self.figures[kind] += 1
            self.p.add(1, note=f"round {self.number}: {kind}")

    def cause_faults(self):
        with contextlib.suppress(queue.Empty):
            while self.p.has_time() and not self.error:
                self.cause(*self.plan.get_nowait())

    # -- the end --

    def guarded(self, function):
        def call():
            try:
                function()
            except (AssertionError, Gone, RpcError, OSError, subprocess.SubprocessError):
                self.error = self.error or traceback.format_exc()
        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        return thread

    def run(self):
        submitter = self.guarded(self.submit_tasks)
        for thread in [self.guarded(self.cause_faults) for _ in range(AT_ONCE)]:
            thread.join()
        self.over.set()
        submitter.join()
        assert not self.error, self.error

    def wait_for_end(self):
        def ended():
            listed = self.fleet.cli("list", "--all", "--json", check=False)
            states = {t["taskId"]: t["state"] for t in json.loads(listed.stdout)} if listed.returncode == 0 else {}
            self.left = [(t.id, states.get(t.id)) for t in self.tasks if states.get(t.id) not in OUTCOMES]
            return not self.left
        try:
            until("every task has ended", ended, PATIENCE)
        except AssertionError as e:
            nodes = self.fleet.cli("nodes", "--json", check=False).stdout
            parts = [f"{h.name}: fleet {h.part('fleet')} runtime {h.part('runtime')}" for h in self.fleet.homes]
            raise AssertionError(f"{e}: {[self.show(t) for t, _ in self.left]}; nodes {nodes}; {parts}; {self.fleet.queue()}") from None

    def retry_lost(self):
        """Retries some of them, as a person could."""
        for t in self.tasks[:]:
            if t.kind == "command" and self.figures["retried"] < 3 and self.show(t.id)["state"] == "lost":
                self.fleet.cli("retry", t.id)
                self.figures["retried"] += 1

    def show(self, task):
        return json.loads(self.fleet.cli("show", "--json", task).stdout)

    def check(self, known):
        self.wait_for_end()
        self.retry_lost()
        self.wait_for_end()
        attempts = collections.defaultdict(list)
        for home in self.fleet.homes:
            for task, found in read_attempts(home, known.setdefault(home.name, set())).items():
                attempts[task] += found
        documents, problems = {t.id: self.show(t.id) for t in self.tasks}, []
        for t in self.tasks:
            document = documents[t.id]
            self.figures[document["state"]] += 1
            self.figures["attempts lost"] += sum(e["state"] == "lost" for e in document.get("attempts") or [])
            self.figures[f"tasks: {t.kind}"] += 1
            if document["state"] == "failed":
                self.figures[f"failed: {t.kind}: {re.sub('[0-9]+|task .*,', '', document.get('reason') or '')[:60]}"] += 1
            before = (documents[t.after], attempts[t.after]) if t.after else None
            problems += check_task(document, attempts[t.id], self.windows, self.figures, self.cancelled.get(t.id, 0), before)
        problems += [f"{task} ran and was not submitted" for task in attempts if task.startswith(f"r{self.number}-") and task not in documents]
        return problems


# ---- runs ----

def keep(p, number, report, fleet):
    folder = p.fail(f"round-{number}", report)
    if folder:
        for home in fleet.homes:
            shutil.copyfile(home.log_path, os.path.join(folder, f"{home.name}.log"))


def run_fleet(p, fleet, figures):
    number, known = int((p.case or "0").removeprefix("round-")), {}
    while p.has_time():
        r = Round(fleet, p, number, 2 if p.as_test else FAULTS_A_ROUND)
        try:
            r.run()
            problems = r.check(known)
        except (AssertionError, Gone, RpcError, OSError, subprocess.SubprocessError) as e:
            keep(p, number, f"faults: {', '.join(r.done)}\n{type(e).__name__}: {e}", fleet)
            return      # the fleet is not in its expected state
        if problems:
            keep(p, number, f"faults: {', '.join(r.done)}\n" + "\n".join(problems), fleet)
        figures.update(r.figures)
        if p.options.totals:
            add_total(p, number, r, problems)
        number += 1
        if p.case is not None:
            return


def add_total(p, number, r, problems):
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=proof.ROOT, stdout=subprocess.PIPE, text=True).stdout.strip()
    line = {"time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "commit": commit, "seed": p.seed, "round": number,
            "servers": len(r.fleet.servers), "faults": len(r.done), "problems": len(problems), "tasks": len(r.tasks), "figures": dict(r.figures)}
    with open(p.options.totals, "a") as f:
        f.write(json.dumps(line) + "\n")


def print_sum(path):
    with open(path) as f:
        rounds = [json.loads(line) for line in f]
    figures = collections.Counter()
    for r in rounds:
        figures.update(r["figures"])
    print(f"{sum(r['faults'] for r in rounds)} faults in {len(rounds)} rounds, {rounds[0]['time']} to {rounds[-1]['time']}, commits {', '.join(dict.fromkeys(r['commit'] for r in rounds))}")
    print(f"{sum(r['tasks'] for r in rounds)} tasks; {sum(bool(r['problems']) for r in rounds)} rounds with problems; "
          + "; ".join(f"{sum(r['faults'] for r in rounds if r['servers'] == n)} faults with {n} server{'s' * (n > 1)}" for n in (1, 3)))
    for name, count in sorted(figures.items()):
        print(f"  {count:6} {name}")


def run_jobs(p):
    """Several fleets, each in a process of its own; their progress is added up. One whose fleet is no longer what it should be is replaced."""
    figures, reports, lock = collections.Counter(), {}, threading.Lock()

    def take(i, number, line):
        with lock:
            reports[i, number] = report = json.loads(line)
            p.done, p.failed, p.note = sum(x["done"] for x in reports.values()), sum(x["failed"] for x in reports.values()), f"fleet {i}: {report['note']}"
            p.add(0)
            figures.update({k: v for k, v in report.get("figures", {}).items() if isinstance(v, int)})

    def follow(i):
        for number in range(1000):
            share = ["--cases", str(-(-(p.cases - p.done) // p.options.jobs))] if p.cases else []
            child = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--seed", str(p.seed + i + 100 * number), "--out", os.path.join(p.out, f"fleet-{i}-{number}"),
                                      "--seconds", str(p.left_s() or 0), "--servers", str(p.options.servers or (1, 3)[i % 2]), *share,
                                      *(["--totals", p.options.totals] if p.options.totals else [])], stdout=subprocess.PIPE, text=True)
            for line in child.stdout:
                take(i, number, line)
            if child.wait() == 0 or not p.has_time():
                return
    threads = [threading.Thread(target=follow, args=(i,)) for i in range(p.options.jobs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return figures


def add_options(parser):
    parser.add_argument("--servers", type=int, choices=(1, 3))
    parser.add_argument("--jobs", type=int, default=1, help="fleets at the same time")
    parser.add_argument("--totals", help="a file to which each round's figures are added")
    parser.add_argument("--sum", action="store_true", help="only print what is in --totals")


def main():
    p = proof.Proof("fleet", more=add_options)
    if p.options.sum:
        print_sum(p.options.totals)
        return 0
    figures = collections.Counter()
    caught = control()
    if not os.path.exists(os.path.join(harness.BUILD, "bailiff-fleet")) or not shutil.which("nats-server", path=harness.PATH):
        print("1..0 # SKIP bailiff-fleet is not built, or nats-server is not installed" if p.as_test else json.dumps({"done": 0, "failed": 0, "final": True}))
        return 77 if p.as_test else 0
    if p.options.jobs > 1:
        figures = run_jobs(p)
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        fleet = Fleet(p.options.servers or 1)
        try:
            run_fleet(p, fleet, figures)
        finally:
            fleet.close()
    return p.finish("tasks of a fleet run once although nodes and servers fail", dict(figures), caught)


if __name__ == "__main__":
    sys.exit(main())
