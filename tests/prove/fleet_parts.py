"""A fleet for tests/prove/fleet.py: its network, its servers and its nodes.

As root each node has a network namespace of its own, which can be cut off; the namespaces are connected by a bridge in another one, in which
this process, the servers and the clients are, so nothing of the machine's own network changes. As a user all use the loopback device, and nothing is
cut off. Nodes reach the servers through a relay that can delay what passes, in both directions: not every kernel has netem.
"""

import asyncio
import collections
import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import harness
from faults import LIBRARY, Faults
from fleet_bus import Bus
from harness import Home, descendants_of, until

sys.path.insert(0, os.path.join(harness.ROOT, "tests", "fakes"))
from provider import Provider   # noqa: E402

NODES = 3
PATIENCE = 300  # until every task has ended; a busy machine, and several leases
CLONE_NEWNET = 0x40000000
AGENT_KEY = "sk-" + "test-" + "f1ee7" * 5


def run(*argv):
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class Network:
    """Namespaces bfPIDb (the bridge, this process and all that it starts) and bfPID0… (nodes), or the loopback device."""

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
            with open(f"/run/netns/{self.name}b") as f:     # threads inherit it: none has been started yet
                if ctypes.CDLL(None, use_errno=True).setns(f.fileno(), CLONE_NEWNET) < 0:
                    raise OSError(ctypes.get_errno(), "setns")
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

    def inside(self, i):
        """Executes a program there. `ip netns exec` would hide the cgroups."""
        return ("nsenter", f"--net=/run/netns/{self.name}{i}") if self.real else ()

    def cut(self, i, off=True):
        run("ip", "-n", self.name + "b", "link", "set", f"v{i}", "down" if off else "up")

    def remove(self):
        for name in self.namespaces:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)
        self.namespaces = []


class Relay(threading.Thread):
    """Listens once for each node and server. `delays` has seconds by node: each piece waits for up to twice that, in order."""

    def __init__(self, host, servers):
        super().__init__(daemon=True)
        self.host, self.servers, self.delays = host, servers, [0.0] * NODES
        self.ports, self.loop, self.ready = [[] for _ in range(NODES)], asyncio.new_event_loop(), threading.Event()
        self.start()
        self.ready.wait()

    def run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.listen())
        self.ready.set()
        self.loop.run_forever()

    async def listen(self):
        for i in range(NODES):
            for port in self.servers:
                server = await asyncio.start_server(lambda r, w, i=i, port=port: self.connect(i, port, r, w), self.host, 0)
                self.ports[i].append(server.sockets[0].getsockname()[1])

    async def connect(self, i, port, reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            up_reader, up_writer = await asyncio.open_connection(self.host, port)
            pumps = [asyncio.ensure_future(self.pump(i, r, w)) for r, w in ((reader, up_writer), (up_reader, writer))]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for p in pumps:
                p.cancel()
            up_writer.close()
        writer.close()

    async def pump(self, i, reader, writer):
        """Ends when one side does, or has sent everything that came before."""
        queue = collections.deque()
        arrived = asyncio.Event()

        async def send():
            while True:
                while not queue:
                    arrived.clear()
                    await arrived.wait()
                due, data = queue.popleft()
                await asyncio.sleep(max(0, due - self.loop.time()))
                if not data:
                    return
                writer.write(data)
                await writer.drain()
        sender = asyncio.ensure_future(send())
        try:
            due = 0.0
            while not sender.done():
                with contextlib.suppress(OSError):
                    data = b""
                    data = await reader.read(1 << 16)
                due = max(due, self.loop.time() + self.delays[i] * 2 * random.random())
                queue.append((due, data))
                arrived.set()
                if not data:
                    break
            with contextlib.suppress(OSError):
                await sender
        finally:
            sender.cancel()

    def url(self, i):
        return ",".join(f"nats://{self.host}:{p}" for p in self.ports[i])

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.join(10)


class Server:
    def __init__(self, fleet, i, ports, routes):
        self.fleet, self.i, self.process = fleet, i, None
        self.argv = ["nats-server", "-a", fleet.network.address, "-p", str(ports[i]), "-js", "-sd", os.path.join(fleet.dir, f"js{i}")]
        if len(ports) > 1:   # without --no_advertise, nodes would learn the addresses behind the relay
            self.argv += ["--server_name", f"s{i}", "--cluster_name", "c", "--cluster", f"nats://{fleet.network.address}:{routes[i]}", "--no_advertise=true", "--routes",
                          ",".join(f"nats://{fleet.network.address}:{r}" for n, r in enumerate(routes) if n != i)]
        self.start()

    def start(self):
        with open(os.path.join(self.fleet.dir, f"nats{self.i}.log"), "ab") as log:
            self.process = subprocess.Popen(self.argv, env=harness.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Node(Home):
    """A daemon whose clock may be wrong: tests/faults/faults.c is preloaded."""

    def __init__(self, fleet, i, config):
        self.i, self.name, self.busy = i, f"n{i}", threading.Lock()     # busy: a fault is under way
        self.faults = Faults() if os.path.exists(LIBRARY) else None
        super().__init__(config, start=False, through=fleet.network.inside(i), env=self.faults.env if self.faults else None,
                         options=("--audit", "off", "--fleet", fleet.relay.url(i), "--fleet-node", self.name))

    def set_clock(self, seconds):
        """Of the parts that read it. A wait that is under way notices, too."""
        for part in ("runtime", "fleet"):
            self.faults.fail("clock", part, seconds, count=-1, row=f"clock of {part}")

    def processes(self):
        return [self.guard.pid, *(p for p, _ in descendants_of(self.guard.pid))] if self.guard else []

    def close(self):
        if self.guard:
            for pid in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired, AssertionError):
                self.stop(expect=False)
        if self.guard:
            self.guard.kill()
            self.guard.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
        if self.faults:
            self.faults.__exit__()


def answer_agent(request):
    """Two commands, then the end. What was done before is in the conversation."""
    text = request.raw.decode()
    mark = "echo agent $(date +%s%6N)"
    if "echo stage2" in text:
        return {"text": "Done."}
    if "echo stage1" in text:
        return {"calls": [{"name": "shell", "arguments": {"command": f"echo stage2; {mark} end"}}]}
    return {"calls": [{"name": "shell", "arguments": {"command": f"echo stage1; for i in 1 2 3 4; do {mark}; sleep 0.2; done"}}]}


class Fleet:
    def __init__(self, servers):
        self.dir, self.network, self.homes, self.servers, self.relay, self.provider = tempfile.mkdtemp(prefix="bf-"), Network(), [], [], None, None
        try:
            ports = free_ports(2 * servers)
            self.servers = [Server(self, i, ports[:servers], ports[servers:]) for i in range(servers)]
            self.servers_busy = threading.Lock()
            self.relay = Relay(self.network.address, ports[:servers])
            self.env = {"HOME": self.dir, "BAILIFF_FLEET": ",".join(f"nats://{self.network.address}:{p}" for p in ports[:servers])}
            self.provider = Provider("openai-chat", answer_agent, keys=(AGENT_KEY,), host=self.network.address)
            self.provider.__enter__()
            self.start_nodes(self.cli("key").stdout.strip(), servers)
        except BaseException:
            self.close()
            raise

    def start_nodes(self, key, servers):
        config = {"fleet.submitters": [{"key": key, "name": "prove"}], "fleet.replicas": servers, "fleet.maxTasks": 6}
        if os.geteuid() == 0:
            config.update({"fleet.user": "root", "fleet.workDir": os.path.join(self.dir, "work")})
        key_file = os.path.join(self.dir, "model.key")
        with open(os.open(key_file, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write(AGENT_KEY + "\n")
        self.homes = [Node(self, i, config) for i in range(NODES)]
        for home in self.homes:
            home.start()
            with home.rpc() as rpc:
                rpc.call("add_model", name="fake", baseUrl=self.provider.url, dialect="openai-chat", model="fake-1", keyFile=key_file, insecure=True)
        until("all nodes are in the fleet", lambda: len(json.loads(self.cli("nodes", "--json", check=False).stdout or "[]")) == NODES, PATIENCE)

    def close(self):
        for home in self.homes:
            home.close()
        for server in self.servers:
            with contextlib.suppress(ProcessLookupError):
                server.process.send_signal(signal.SIGCONT)
            server.kill()
        if self.relay:
            self.relay.close()
        if self.provider:
            self.provider.__exit__()
        self.network.remove()
        shutil.rmtree(self.dir, ignore_errors=True)

    def queue(self):
        """The server's report about its queue."""
        with Bus(self.env["BAILIFF_FLEET"].split(",")[0]) as bus:
            stream = json.loads(bus.request("$JS.API.STREAM.INFO.bailiff_queue", b'{"subjects_filter":">"}'))
            consumers = json.loads(bus.request("$JS.API.CONSUMER.LIST.bailiff_queue", b"{}"))["consumers"]
        return stream["state"], [{k: c.get(k) for k in ("name", "delivered", "ack_floor", "num_ack_pending", "num_redelivered", "num_pending")} for c in consumers]

    def cli(self, *args, check=True, stdin=None):
        done = subprocess.run([harness.CLI, "fleet", *args], env=harness.environment(**self.env), cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, **({"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}))
        assert not check or done.returncode == 0, f"bailiff fleet {' '.join(args)}: {done.returncode}: {done.stderr}"
        return done


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports
