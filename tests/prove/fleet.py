#!/usr/bin/python3
"""Faults of a fleet: no submitted task is lost, none completes twice, no two attempts of one run at once, and every lost one is reported.

    fleet.py [--seconds N] [--cases N] [--seed N] [--servers 1|3]     (see proof.py)

Three nodes and one nats-server, or a cluster of three. As root each node has a network namespace of its own, which can be cut off; the namespaces are
connected by a bridge in another one, so nothing of the machine's own network changes. As a user all use the loopback device, and nothing is cut off.

A case is a fault: SIGKILL of a part of a node, of a whole node or of a server, SIGSTOP of bailiff-fleet or of a server for up to two leases, and
partitions. Meanwhile tasks run that print their token and the time, five times a second. After each round the faults end, every task has to
end, and the checker compares the documents on the bus with what the daemons of all nodes have recorded and with what the commands have printed.
"""

import collections
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "blackbox")]
import proof     # noqa: E402
import harness   # noqa: E402
from harness import Gone, Home, RpcError, Skip, until  # noqa: E402

NODES = 3
LEASE_S = 4
FAULTS_A_ROUND = 20
PATIENCE = 300  # until every task has ended; a busy machine, and several leases
# The token is that of the attempt; %N is nanoseconds.
SCRIPT = ('i=0; while [ $i -lt {n} ]; do echo "$BAILIFF_FLEET_TOKEN $(date +%s%N)"; sleep 0.2; i=$((i+1)); done; '
          'echo "$BAILIFF_FLEET_TOKEN $(date +%s%N) end"')
Attempt = collections.namedtuple("Attempt", "node token attempt status first last ended")


def run(*argv):
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class Network:
    """Namespaces bfPIDb (the bridge, the servers, the clients) and bfPID0… (nodes), or the loopback device."""

    def __init__(self):
        self.namespaces, self.name = [], f"bf{os.getpid()}"
        self.real = os.geteuid() == 0 and self.make()
        self.address = "10.99.0.1" if self.real else "127.0.0.1"

    def make(self):
        try:
            self.add("b")
            run("ip", "-n", self.name + "b", "link", "add", "br0", "type", "bridge")
            run("ip", "-n", self.name + "b", "addr", "add", "10.99.0.1/24", "dev", "br0")
            run("ip", "-n", self.name + "b", "link", "set", "br0", "up")
            for i in range(NODES):
                node = self.add(str(i))
                run("ip", "-n", self.name + "b", "link", "add", f"v{i}", "type", "veth", "peer", "name", "e0", "netns", node)
                run("ip", "-n", self.name + "b", "link", "set", f"v{i}", "master", "br0", "up")
                run("ip", "-n", node, "addr", "add", f"10.99.0.{10 + i}/24", "dev", "e0")
                run("ip", "-n", node, "link", "set", "e0", "up")
        except (OSError, subprocess.CalledProcessError) as e:
            print(f"# no network namespaces: {e}", file=sys.stderr)
            self.remove()
            return False
        return True

    def add(self, suffix):
        run("ip", "netns", "add", self.name + suffix)
        self.namespaces.append(self.name + suffix)
        run("ip", "-n", self.name + suffix, "link", "set", "lo", "up")
        return self.name + suffix

    def inside(self, suffix):
        return ("ip", "netns", "exec", self.name + suffix) if self.real else ()

    def cut(self, i, off=True):
        run("ip", "-n", self.name + "b", "link", "set", f"v{i}", "down" if off else "up")

    def remove(self):
        for name in self.namespaces:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)
        self.namespaces = []


class Server:
    def __init__(self, fleet, i, ports, routes):
        self.fleet, self.i, self.process = fleet, i, None
        self.argv = [*fleet.network.inside("b"), "nats-server", "-a", fleet.network.address, "-p", str(ports[i]), "-js", "-sd", os.path.join(fleet.dir, f"js{i}")]
        if len(ports) > 1:
            self.argv += ["--server_name", f"s{i}", "--cluster_name", "c", "--cluster", f"nats://{fleet.network.address}:{routes[i]}", "--routes",
                          ",".join(f"nats://{fleet.network.address}:{r}" for n, r in enumerate(routes) if n != i)]
        self.start()

    def start(self):
        with open(os.path.join(self.fleet.dir, f"nats{self.i}.log"), "ab") as log:
            self.process = subprocess.Popen(self.argv, env=harness.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def kill(self):
        self.process.kill()
        self.process.wait()


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Fleet:
    def __init__(self, servers):
        self.dir, self.network, self.homes, self.servers = tempfile.mkdtemp(prefix="bf-"), Network(), [], []
        try:
            ports = free_ports(2 * servers)
            self.servers = [Server(self, i, ports[:servers], ports[servers:]) for i in range(servers)]
            self.url = ",".join(f"nats://{self.network.address}:{p}" for p in ports[:servers])
            self.env = {"HOME": self.dir, "BAILIFF_FLEET": self.url}
            key = self.cli("key").stdout.strip()
            config = {"fleet.submitters": [{"key": key, "name": "prove"}], "fleet.replicas": servers, "fleet.maxTasks": 6}
            if os.geteuid() == 0:
                config.update({"fleet.user": "root", "fleet.workDir": os.path.join(self.dir, "work")})
            for i in range(NODES):
                self.homes.append(Home(config, start=False, through=self.network.inside(str(i)),
                                       options=("--audit", "off", "--fleet", self.url, "--fleet-node", f"n{i}")))
            for home in self.homes:
                home.start()
            until("all nodes are in the fleet", lambda: len(json.loads(self.cli("nodes", "--json", check=False).stdout or "[]")) == NODES, PATIENCE)
        except BaseException:
            self.close()
            raise

    def close(self):
        for home in self.homes:
            if home.guard:
                self.resume(home)
                with contextlib.suppress(subprocess.TimeoutExpired, AssertionError):
                    home.stop(expect=False)
            if home.guard:
                home.guard.kill()
                home.guard.wait()
            shutil.rmtree(home.dir, ignore_errors=True)
        for server in self.servers:
            with contextlib.suppress(ProcessLookupError):
                server.process.send_signal(signal.SIGCONT)
            server.kill()
        self.network.remove()
        shutil.rmtree(self.dir, ignore_errors=True)

    def cli(self, *args, check=True):
        done = subprocess.run([*self.network.inside("b"), harness.CLI, "fleet", *args], env=harness.environment(**self.env), cwd=self.dir,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert not check or done.returncode == 0, f"bailiff fleet {' '.join(args)}: {done.returncode}: {done.stderr}"
        return done

    def parts(self, home):
        return [p for p in (home.part(n) for n in ("fleet", "runtime", "spawner")) if p] if home.guard else []

    def resume(self, home):
        for pid in [home.guard.pid, *self.parts(home)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def submit(self, task, rng):
        """Until it is acknowledged, as a person would."""
        argv = ["submit", "--id", task, "--lease", f"{LEASE_S}s", "--retries", "1", "--retry-lost", str(rng.choice((0, 3, 5))), "--", "sh", "-c",
                SCRIPT.format(n=rng.choice((1, 5, 20, 40)))]
        until(f"task {task} is accepted", lambda: self.cli(*argv, check=False).returncode == 0, PATIENCE)


# ---- faults ----

def signal_for(pids, seconds):
    """SIGSTOP, and SIGCONT after that time."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def kill_part(fleet, home, rng, name):
    pid = home.part(name)
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_node(fleet, home, rng):
    home.guard.kill()
    home.guard.wait()
    home.guard = None
    time.sleep(rng.choice((0, LEASE_S * 1.5)))
    home.start()


def kill_server(fleet, home, rng):
    server = rng.choice(fleet.servers)
    server.kill()
    time.sleep(rng.choice((0, 1, LEASE_S)))
    server.start()


def stop_fleet(fleet, home, rng):
    signal_for([p for p in [home.part("fleet")] if p], rng.choice((0.3, 1.2, 2)) * LEASE_S)


def stop_server(fleet, home, rng):
    signal_for([rng.choice(fleet.servers).process.pid], rng.choice((0.2, 1)) * LEASE_S)


def cut(fleet, home, rng):
    i = fleet.homes.index(home)
    fleet.network.cut(i)
    time.sleep(rng.choice((0.2, 1, 2)) * LEASE_S)
    fleet.network.cut(i, off=False)


FAULTS = {
    "kill bailiff-fleet": lambda *a: kill_part(*a, "fleet"),
    "kill runtime": lambda *a: kill_part(*a, "runtime"),
    "kill spawner": lambda *a: kill_part(*a, "spawner"),
    "kill node": kill_node,
    "kill server": kill_server,
    "stop bailiff-fleet": stop_fleet,
    "stop server": stop_server,
    "partition": cut,
}


# ---- the checker ----

def read_output(rpc, process):
    return b"".join(rpc.outputs(process).values()).decode(errors="replace")


def read_attempts(home, name):
    """What the daemon of a node knows: {fleet task: [Attempt]}."""
    found, cursor = collections.defaultdict(list), {}
    with home.rpc() as rpc:
        while True:
            page = rpc.call("list_tasks", limit=100, **cursor)
            for t in page["tasks"]:
                if not t.get("fleet"):
                    continue
                process = (t.get("worker") or {}).get("processId")
                marks = [line.split() for line in read_output(rpc, process).splitlines()] if process else []
                times = [int(m[1]) for m in marks if len(m) >= 2 and m[0].isdigit() and m[1].isdigit()]
                wrong = [m for m in marks if m and m[0].isdigit() and int(m[0]) != t["fleet"]["token"]]
                assert not wrong, f"{t['fleet']['taskId']}: the command has token {wrong[0][0]}, its record {t['fleet']['token']}"
                found[t["fleet"]["taskId"]].append(Attempt(name, t["fleet"]["token"], t["fleet"]["attempt"], t["status"], min(times, default=0),
                                                           max(times, default=0), any(m[-1:] == ["end"] for m in marks)))
            cursor = {"cursor": page["nextCursor"]} if page.get("nextCursor") else None
            if not cursor:
                return found


def check_task(document, attempts):
    """Problems of one task."""
    task, entries = document["taskId"], document.get("attempts") or []
    ran = sorted((a for a in attempts if a.first), key=lambda a: a.first)
    problems = [f"{task} is {document['state']}"] if document["state"] not in ("completed", "failed", "lost", "cancelled") else []
    completed = [e for e in entries if e["state"] == "completed"]
    if len(completed) > 1 or bool(completed) != (document["state"] == "completed"):
        problems.append(f"{task} is {document['state']} and has {len(completed)} completed attempts")
    for e in completed:
        if not [a for a in ran if a.attempt == e["attempt"] and a.ended]:
            problems.append(f"{task}: attempt {e['attempt']} is reported as completed; its command did not")
    for a in ran:
        if len([e for e in entries if e["attempt"] == a.attempt]) != 1:
            problems.append(f"{task}: attempt {a.attempt} (token {a.token}) ran on {a.node} and is reported {[e for e in entries if e['attempt'] == a.attempt]}")
    for a, b in zip(ran, ran[1:]):
        if b.first <= a.last:
            problems.append(f"{task}: token {b.token} on {b.node} began {(a.last - b.first) / 1e6:.0f} ms before token {a.token} on {a.node} had ended")
        if b.token <= a.token or b.attempt <= a.attempt:
            problems.append(f"{task}: token {b.token} (attempt {b.attempt}) ran after token {a.token} (attempt {a.attempt})")
    return problems


def control():
    """What the checker must catch: (caught, tried)."""
    entry = {"attempt": 1, "state": "completed"}
    good = {"taskId": "t", "state": "completed", "attempts": [entry]}
    one, two = Attempt("n0", 5, 1, "completed", 10, 20, True), Attempt("n1", 9, 2, "completed", 15, 25, True)
    assert not check_task(good, [one])
    bad = [(dict(good, state="running", attempts=[]), [one]), (good, [one, two]), (good, []), (good, [one._replace(ended=False)]),
           (dict(good, attempts=[entry, dict(entry, attempt=2)]), [one, two._replace(first=21)]),
           (dict(good, attempts=[dict(entry, state="lost"), dict(entry, attempt=2)]), [one, two]),
           (dict(good, attempts=[dict(entry, state="lost"), dict(entry, attempt=2)]), [one, two._replace(first=21, token=4)])]
    return sum(bool(check_task(*b)) for b in bad), len(bad)


# ---- rounds ----

def ended(fleet, tasks):
    listed = fleet.cli("list", "--all", "--json", check=False)
    states = {t["taskId"]: t["state"] for t in json.loads(listed.stdout)} if listed.returncode == 0 else {}
    return all(states.get(t) not in (None, "queued", "running") for t in tasks)


def check_round(fleet, tasks, figures):
    until("every task has ended", lambda: ended(fleet, tasks), PATIENCE)
    known = [read_attempts(home, f"n{i}") for i, home in enumerate(fleet.homes)]
    problems = []
    for task in tasks:
        document = json.loads(fleet.cli("show", "--json", task).stdout)
        figures[document["state"]] += 1
        figures["attempts lost"] += sum(e["state"] == "lost" for e in document.get("attempts") or [])
        problems += check_task(document, [a for k in known for a in k[task]])
    return problems


def round_of_faults(fleet, p, number, figures, faults):
    rng = random.Random(f"{p.seed} {number}")
    kinds = [k for k in FAULTS if k != "partition" or fleet.network.real]
    tasks, done = [], []
    for n in range(faults):
        for _ in range(rng.randrange(1, 4)):
            tasks.append(f"r{number}-{len(tasks)}")
            fleet.submit(tasks[-1], rng)
        time.sleep(rng.random() * 1.5)
        kind = rng.choice(kinds)
        home = rng.choice(fleet.homes)
        FAULTS[kind](fleet, home, rng)
        done.append(f"{kind} ({fleet.homes.index(home)})")
        figures[kind] += 1
        p.add(1, note=f"round {number}: {kind}")
        if not p.goes_on():
            break
    figures["tasks"] += len(tasks)
    problems = check_round(fleet, tasks, figures)
    if problems:
        p.fail(f"round-{number}", "faults: " + ", ".join(done) + "\n" + "\n".join(problems))
        for i, home in enumerate(fleet.homes):
            shutil.copyfile(home.log_path, os.path.join(p.out, f"round-{number}", f"n{i}.log"))


def main():
    p = proof.Proof("fleet", more=lambda parser: parser.add_argument("--servers", type=int, choices=(1, 3), default=1))
    figures = collections.Counter()
    caught = control()
    if not os.path.exists(os.path.join(harness.BUILD, "bailiff-fleet")) or not shutil.which("nats-server", path=harness.PATH):
        print("1..0 # SKIP bailiff-fleet is not built, or nats-server is not installed" if p.as_test else json.dumps({"done": 0, "failed": 0, "final": True}))
        return 77 if p.as_test else 0
    fleet, number = Fleet(p.options.servers), int(p.case or 0)
    try:
        while p.goes_on():
            try:
                round_of_faults(fleet, p, number, figures, 2 if p.as_test else FAULTS_A_ROUND)
            except (AssertionError, Gone, RpcError, OSError) as e:
                folder = p.fail(f"round-{number}", f"{type(e).__name__}: {e}")
                for i, home in enumerate(fleet.homes if folder else []):
                    shutil.copyfile(home.log_path, os.path.join(folder, f"n{i}.log"))
                break   # the fleet is not what it should be
            number += 1
            if p.case is not None:
                break
    finally:
        fleet.close()
    return p.finish("tasks of a fleet run once although nodes and servers fail", dict(figures), caught)


if __name__ == "__main__":
    sys.exit(main())
