"""CPU time per command by process, exactly: `bench.py BUILD parts`."""

import contextlib
import os
import statistics
import subprocess
import tempfile
import time

import harness
from harness import BUILD, Home


def threads_of(pid):
    """Of the event loop and of all other threads: seconds of CPU by the scheduler's count, which is exact, and context switches."""
    used = {"event loop": [0, 0], "writer": [0, 0]}
    for tid in os.listdir(f"/proc/{pid}/task"):
        total = used["event loop" if int(tid) == pid else "writer"]
        with open(f"/proc/{pid}/task/{tid}/schedstat") as f:
            total[0] += int(f.read().split()[0]) / 1e9
        total[1] += sum(int(line.split()[1]) for line in open(f"/proc/{pid}/task/{tid}/status") if "ctxt_switches" in line)
    return used


class Accounted:
    """A daemon of `build` in a cgroup of its own, which counts the CPU time of all of its processes, also those that have exited."""

    ROOT = "/sys/fs/cgroup/cpuacct"

    def __init__(self, stack, build):
        self.group = tempfile.mkdtemp(prefix="bl-bench-", dir=self.ROOT)
        stack.callback(os.rmdir, self.group)
        daemon, harness.DAEMON = harness.DAEMON, os.path.join(build, "bailiffd")
        self.home = stack.enter_context(Home(through=("sh", "-c", f'echo $$ > {self.group}/cgroup.procs && exec "$@"', "sh")))
        harness.DAEMON = daemon
        with self.home.rpc() as rpc:
            made = rpc.call("create_sandbox", name="bench", profile="workspace", cwd=self.home.work)
            self.holder = rpc.call("get_process", processId=made["processId"])["pid"]

    def used(self):
        """Seconds: all, and the parts that keep running."""
        def scheduled(pid):
            with open(f"/proc/{pid}/schedstat") as f:
                return int(f.read().split()[0]) / 1e9
        with open(f"{self.group}/cpuacct.usage") as f:
            used = {"all": int(f.read()) / 1e9}
        used.update((k, v[0]) for k, v in threads_of(self.home.part("runtime")).items())
        used.update(guard=scheduled(self.home.guard.pid), spawner=scheduled(self.home.part("spawner")), holder=scheduled(self.holder))
        return used

    def run(self, way, count, by=1):
        """CPU time per command by part, in µs; of a way without a daemon: the client's children."""
        before = self.used()
        done = subprocess.run([os.path.join(BUILD, "bench", "bench_spawn"), self.home.socket, self.home.work, str(count), "0", "", "", way, str(by)],
                              stdout=subprocess.PIPE, text=True, check=True)
        if way == "vfork+exec":
            return {"all": float(done.stdout.split("\t")[1]) / count}
        time.sleep(0.6) # until the journal is settled
        after = self.used()
        used = {k: (v - before[k]) / (count * by) * 1e6 for k, v in after.items()}
        return dict(used, others=2 * used["all"] - sum(used.values()))


def bench_parts(rounds=int(os.environ.get("ROUNDS", "6")), commands=int(os.environ.get("COMMANDS", "200")), clients=8):
    """Alternating. "others" are inits, leaders and commands. The prebuilt sandboxes that are left count, too."""
    if not os.access(Accounted.ROOT, os.W_OK):
        print(f"\nparts: requires root and {Accounted.ROOT}")
        return
    reference = os.environ.get("REFERENCE")
    with contextlib.ExitStack() as stack:
        daemons = {"this": Accounted(stack, BUILD)}
        if reference:
            daemons["reference"] = Accounted(stack, reference)
        print(f"\nCPU time per command /bin/true by process, µs, mean of {rounds} rounds of {commands} commands; load {os.getloadavg()[0]:.0f}:")
        for way, by in (("session", 1), ("session", clients), ("workspace", 1)):
            if way not in os.environ.get("WAYS", "session workspace").split():
                continue
            used, plain = {k: [] for k in daemons}, []
            for round_ in range(-1, rounds):
                for name, daemon in daemons.items():
                    row = daemon.run(way, commands // by, by)
                    plain.append(daemon.run("vfork+exec", commands)["all"])
                    if round_ >= 0:
                        used[name].append(row)
            floor = statistics.median(plain)
            for name, rows in used.items():
                mean = {k: statistics.mean(row[k] for row in rows) for k in rows[0]}
                print(f"  {f'{way}, clients: {by}, {name}':<32} {mean['all']:6.0f} ({', '.join('%.0f' % row['all'] for row in rows)})"
                      f"  ÷ posix_spawn ({floor:.0f}) {mean['all'] / floor:.2f}   " + ", ".join(f"{k} {v:.0f}" for k, v in mean.items() if k != "all"), flush=True)
