"""A fleet for tests: a nats-server alone, or one with nodes (`bailiff fleet dev`)."""

import json
import os
import shutil
import signal
import subprocess
import tempfile

import harness
from harness import Skip, descendants_of, alive, until

CLIENT = os.path.join(harness.BUILD, "bailiff-fleet-client")


def require():
    if not os.path.exists(CLIENT):
        raise Skip("bailiff-fleet-client is not built: libnats is missing")
    if not shutil.which("nats-server", path=harness.PATH):
        raise Skip("nats-server is not installed")


class Fleet:
    """`bailiff fleet ARG…` with its environment. The folder is the caller's to use."""

    def __init__(self):
        require()
        self.dir = tempfile.mkdtemp(prefix="fl-")
        self.work = os.path.join(self.dir, "work")
        os.mkdir(self.work)
        self.env = {"HOME": self.dir}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir, ignore_errors=True)

    def fleet(self, *args, env=None, **more):
        return harness.cli("fleet", *args, env=dict(self.env, **(env or {})), **dict({"cwd": self.work}, **more))

    def show(self, task):
        return self.fleet("show", "--json", task).json

    def start(self, *args):
        return subprocess.Popen([harness.CLI, "fleet", *args], cwd=self.work, env=harness.environment(**self.env), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Server(Fleet):
    """A nats-server without nodes: tasks stay queued."""

    def __init__(self):
        super().__init__()
        self.process = subprocess.Popen(["nats-server", "-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", self.dir, "-js", "-sd", os.path.join(self.dir, "js"), *self.arguments()],
                                        env=harness.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ports = os.path.join(self.dir, f"nats-server_{self.process.pid}.ports")

        def listens():
            try:
                with open(ports) as f:
                    return json.load(f)
            except (OSError, ValueError):
                return None
        try:
            self.ports = until("nats-server listens", listens)
            self.env["BAILIFF_FLEET"] = self.ports["nats"][0]
            self.key = self.fleet("key").text.strip()
        except BaseException:
            self.__exit__()
            raise

    def arguments(self):
        """More of them, of another class."""
        return []

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(harness.PATIENCE)
        super().__exit__()


class Dev(Fleet):
    """`bailiff fleet dev`: a server and nodes. Its end checks that nothing is left."""

    def __init__(self, nodes=2):
        if "--fleet" not in subprocess.run([harness.DAEMON, "--help"], stdout=subprocess.PIPE, text=True).stdout:
            raise Skip("this bailiffd cannot be a node")
        super().__init__()
        self.env["TMPDIR"] = self.dir
        self.process = self.start("dev", "--nodes", str(nodes), "--json")
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        self.dev = json.loads(line)
        self.env.update(self.dev["environment"])
        del self.env["TMPDIR"]

    def __exit__(self, kind, *_):
        if kind:
            for node in self.dev["nodes"]:
                with open(os.path.join(node["home"], "log"), errors="replace") as f:
                    print("".join(f"# {node['node']}: {line}" for line in f.readlines()[-30:]), end="")
        seen = set(descendants_of(self.process.pid))
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=harness.PATIENCE)
        if kind is None:
            assert self.process.returncode == 0, (self.process.returncode, out, err)
            until("no process of the fleet is left", lambda: not [p for p, s in seen if alive(p, s)])
            assert not os.path.exists(self.dev["folder"]), os.listdir(self.dev["folder"])
        super().__exit__()
