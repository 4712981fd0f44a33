"""A command in a sandbox reaches another daemon's control socket: that daemon must reject it, regardless of which daemon started the sandbox.

Each way is also tried from outside, which proves that the socket answers, and from a foreign container, which must be served.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

from tries import ROOT, harness
from harness import Home, Skip, no_sandbox

# Sheds what a process can (its parent, session, name and environment), then speaks to the socket.
ASK = r"""
import contextlib, ctypes, json, os, socket, sys
told, tell = os.pipe()
if os.fork():
    os.close(tell)
    print(open(told).read())
    sys.exit()
os.setsid()
middle = os.getpid()
if os.fork():
    os._exit(0)
while os.getppid() == middle:
    pass
ctypes.CDLL(None).prctl(15, b"init", 0, 0, 0)
os.environ.clear()
s = socket.socket(socket.AF_UNIX)
s.settimeout(60)
try:
    s.connect(sys.argv[1])
    with contextlib.suppress(BrokenPipeError):  # refused: the reason is there to be read
        s.sendall(b'{"jsonrpc":"2.0","id":1,"method":"get_health"}\n')
    os.write(tell, s.makefile("rb").readline())
except OSError as e:
    os.write(tell, json.dumps({"unreachable": e.strerror}).encode())
"""


@contextlib.contextmanager
def daemon_in(folder, **more):
    """A daemon whose home is below that folder."""
    before, tempfile.tempdir = tempfile.tempdir, folder
    try:
        home = Home(**more)
    finally:
        tempfile.tempdir = before
    with home:
        yield home


def answer_of(line):
    return json.loads(line) if line.strip() else {}


def is_served(answer):
    return "result" in answer


def is_refused(answer):
    return "inside a sandbox" in answer.get("error", {}).get("message", "")


def from_host(path):
    done = subprocess.run([sys.executable, "-c", ASK, path], capture_output=True, text=True, timeout=120)
    return answer_of(done.stdout)


def from_inside(home, path, cwd, profile="workspace", **sandbox):
    with home.rpc() as rpc:
        started, end = rpc.run(["/usr/bin/python3", "-c", ASK, path], profile=profile, cwd=cwd, **({"sandbox": sandbox} if sandbox else {}))
        said = rpc.outputs(started["processId"])
        assert said["stdout"], (end, said)
        return answer_of(said["stdout"].decode())


def test_daemon_in_the_workspace_rejects_the_command():
    """As root these are two root daemons: the socket is root's, and the workspace shows it to the command as its own."""
    with Home() as first, daemon_in(first.work) as second:
        assert is_served(from_host(second.socket))
        for profile in ("workspace", "ci"):
            answer = from_inside(first, second.socket, first.work, profile)
            assert is_refused(answer), (profile, answer)
        with second.rpc() as rpc:   # and it still serves
            assert rpc.call("get_health")


def test_world_writable_socket_rejects_the_command():
    with Home() as first, Home(options=("--audit", "off", "--socket-mode", "0666")) as second:
        os.chmod(second.dir, 0o755)
        assert is_served(from_host(second.socket))
        answer = from_inside(first, second.socket, first.work, readRoots=[second.dir])
        assert is_refused(answer), answer


def test_own_socket_is_unreachable_by_another_name():
    """What it hides by itself is reached by another name; a socket has none of its own."""
    with Home(options=("--audit", "off", "--socket-mode", "0666")) as home:
        shown = os.path.join(home.work, "socket")
        os.link(home.socket, shown)
        answer = from_inside(home, shown, home.work)
        assert is_refused(answer), answer


def test_commands_without_a_sandbox_are_rejected_too():
    with Home(options=("--audit", "off", *no_sandbox())) as first, Home() as second:
        answer = from_inside(first, second.socket, "/", profile="host")
        assert is_refused(answer), answer


def test_clients_in_other_containers_are_served():
    with Home() as home:
        argv = ["unshare", *([] if ROOT else ["--user", "--map-current-user"]), "--pid", "--fork", "--mount-proc" if ROOT else "--kill-child",
                sys.executable, "-c", ASK, home.socket]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
        if done.returncode and not done.stdout:
            raise Skip(f"no namespaces here: {done.stderr.strip()}")
        assert is_served(answer_of(done.stdout)), done.stdout


def test_clients_invisible_to_the_daemon_are_rejected():
    """The daemon is in a pid namespace of its own and the client outside of that: nobody can tell where it is."""
    through = ("unshare", *([] if ROOT else ["--user", "--map-current-user"]), "--pid", "--fork", "--mount-proc", "--kill-child")
    if subprocess.run([*through, "true"], capture_output=True).returncode:
        raise Skip("no namespaces here")
    with contextlib.ExitStack() as stack:
        folder = tempfile.mkdtemp(prefix="bl-unseen-")
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        daemon = subprocess.Popen([*through, harness.DAEMON, "--foreground", "--home", folder, "--audit", "off"], env=harness.environment(), cwd="/",
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stack.callback(daemon.wait)
        stack.callback(daemon.kill)
        path = os.path.join(folder, "control.sock")

        def connected():
            with socket.socket(socket.AF_UNIX) as s, contextlib.suppress(OSError):
                s.connect(path)
                return True
        harness.until("the daemon listens", connected)
        answer = from_host(path)
        assert "pid namespace that the daemon cannot see" in answer.get("error", {}).get("message", ""), answer


if __name__ == "__main__":
    harness.main(globals())
