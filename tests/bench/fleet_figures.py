"""bench.py fleet: short tasks a second with 1, 2 and 3 nodes of `bailiff fleet dev`, against one daemon; from submission to claim, and to the first
instruction of the command; and what nodes and tasks cost the server.

All of them share this machine's processors: the figures show what the fleet itself costs, not what more machines would bring.
"""

import contextlib
import datetime
import json
import os
import statistics
import time
import urllib.request

import fleet
from harness import Home
from test_fleet import Node

TASKS = int(os.environ.get("TASKS", "200"))
SINGLE = 20
IDLE_S = 20     # of a node's polls and reports
TICK = os.sysconf("SC_CLK_TCK")
COUNTS = ("in_msgs", "out_msgs", "in_bytes", "out_bytes", "cpu_ms")


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def local_rate():
    """Tasks of one daemon, two at a time as a node of two processors has them."""
    with Home() as home, home.rpc() as rpc:
        begin, waiting = time.monotonic(), []
        for _ in range(TASKS):
            waiting.append(rpc.call("start_process", command=["/bin/true"], cwd=home.work)["processId"])
            if len(waiting) == 2:
                rpc.call("wait_process", processId=waiting.pop(0))
        for process in waiting:
            rpc.call("wait_process", processId=process)
        return TASKS / (time.monotonic() - begin)


def fleet_figures(nodes):
    """Tasks a second, how long their submission took, and single_waits."""
    with fleet.Dev(nodes) as f:
        items = os.path.join(f.work, "items")
        with open(items, "w") as out:
            out.writelines(f"{i}\n" for i in range(TASKS))
        f.fleet("run", "--", "/bin/true", patience=60)
        begin = time.monotonic()
        job = f.fleet("submit", "--items", items, "--json", "--", "/bin/true", "{item}", patience=300).json["job"]
        submitted = time.monotonic() - begin
        f.fleet("wait", job, patience=600)
        rate = TASKS / (time.monotonic() - begin)
        return rate, submitted, *single_waits(f)


def single_waits(f):
    """Milliseconds from submission to claim and to the command's first instruction: date is the command, on the same clock."""
    claims, starts = [], []
    for _ in range(SINGLE):
        task = f.fleet("submit", "--json", "--", "date", "+%s%6N", patience=60).json["taskId"]
        f.fleet("wait", task, patience=60)
        shown = f.show(task)
        claims.append(1000 * (moment(shown["startedAt"]) - moment(shown["submittedAt"])))
        starts.append(int(f.fleet("logs", task, patience=60).text) / 1000 - 1000 * moment(shown["submittedAt"]))
    return claims, starts


class Costs(fleet.Server):
    """A server that counts."""

    def arguments(self):
        return ["-m", "-1"]

    def counts(self):
        with urllib.request.urlopen(self.ports["monitoring"][0] + "/varz", timeout=30) as reply:
            seen = json.load(reply)
        with open(f"/proc/{self.process.pid}/stat") as f:
            user, system = f.read().rpartition(")")[2].split()[11:13]
        return dict({k: seen[k] for k in COUNTS[:4]}, cpu_ms=1000 * (int(user) + int(system)) / TICK)


def server_costs(nodes):
    """({count: for each node and second, when idle}, {count: for each task}) of a server with that many nodes."""
    with Costs() as s, contextlib.ExitStack() as stack:
        for i in range(nodes):
            stack.enter_context(Node(s, f"n{i}"))
        for _ in range(nodes):
            s.fleet("run", "--", "/bin/true", patience=60)
        before, begin = s.counts(), time.monotonic()
        time.sleep(IDLE_S)
        after, seconds = s.counts(), time.monotonic() - begin
        idle = {k: (after[k] - before[k]) / seconds for k in COUNTS}
        items = os.path.join(s.work, "items")
        with open(items, "w") as out:
            out.writelines(f"{i}\n" for i in range(TASKS))
        before, begin = s.counts(), time.monotonic()
        job = s.fleet("submit", "--items", items, "--json", "--", "/bin/true", "{item}", patience=300).json["job"]
        # Without `fleet wait`, which would read documents all the time.
        while any(t["state"] in ("queued", "running") for t in s.fleet("list", "--job", job, "--json", patience=60).json):
            time.sleep(2)
        after, seconds = s.counts(), time.monotonic() - begin
        return {k: v / nodes for k, v in idle.items()}, {k: (after[k] - before[k] - idle[k] * seconds) / TASKS for k in COUNTS}


def describe(counts):
    return (f"{counts['in_msgs']:.1f} messages in, {counts['out_msgs']:.1f} out; {counts['in_bytes'] / 1000:.1f} kB in, {counts['out_bytes'] / 1000:.1f} kB out; "
            f"{counts['cpu_ms']:.2f} ms of processor")


def bench_fleet():
    print(f"\n{TASKS} times /bin/true; load {os.getloadavg()[0]:.0f}")
    print(f"one daemon, without a fleet: {local_rate():.0f}/s", flush=True)
    for nodes in (1, 2, 3):
        rate, submitted, claims, starts = fleet_figures(nodes)
        print(f"fleet of {nodes}: {rate:.1f}/s ({TASKS / submitted:.0f}/s submitted); submission to claim: median {statistics.median(claims):.0f} ms, longest {max(claims):.0f} ms; "
              f"to the command: median {statistics.median(starts):.0f} ms, longest {max(starts):.0f} ms", flush=True)
    for nodes in (1, 3):
        idle, task = server_costs(nodes)
        print(f"the server, {nodes} nodes: for each idle node and second {describe(idle)}; for each task {describe(task)}", flush=True)
