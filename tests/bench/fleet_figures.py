"""bench.py fleet: short tasks a second with 1, 2 and 3 nodes of `bailiff fleet dev`, against one daemon; and from submission to start.

All of them share this machine's processors: the figures show what the fleet itself costs, not what more machines would bring.
"""

import datetime
import os
import statistics
import time

import fleet
from harness import Home

TASKS = int(os.environ.get("TASKS", "200"))
SINGLE = 20


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
    """Tasks a second, and the milliseconds from submission to claim of single ones."""
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
        waits = []
        for _ in range(SINGLE):
            task = f.fleet("submit", "--json", "--", "/bin/true", patience=60).json["taskId"]
            f.fleet("wait", task, patience=60)
            shown = f.show(task)
            waits.append(1000 * (moment(shown["startedAt"]) - moment(shown["submittedAt"])))
        return rate, submitted, statistics.median(waits), max(waits)


def bench_fleet():
    print(f"\n{TASKS} times /bin/true; load {os.getloadavg()[0]:.0f}")
    print(f"one daemon, without a fleet: {local_rate():.0f}/s", flush=True)
    for nodes in (1, 2, 3):
        rate, submitted, median, most = fleet_figures(nodes)
        print(f"fleet of {nodes}: {rate:.1f}/s ({TASKS / submitted:.0f}/s submitted); submission to claim: median {median:.0f} ms, longest {most:.0f} ms", flush=True)
