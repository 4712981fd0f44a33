"""Commands that cause violations, and daemons that report them exactly: for the tests of violations and of audit."""

import contextlib
import ctypes
import errno
import os
import platform

import harness
from harness import Gone, Home, Rpc, Skip, until

NOBODY = 65534
SETXATTRAT = 463    # on all architectures
OFTEN = ("--audit-check-ms", "100")

# A small language: each word is one attempt that is denied, so that a test names the violation that it needs.
ATTEMPTS = r'''
import ctypes, os, socket, sys
def attempt(what, arg):
    try:
        if what == "write": os.open(arg, os.O_WRONLY)
        elif what == "read": os.open(arg, os.O_RDONLY)
        elif what == "create": os.open(arg, os.O_WRONLY | os.O_CREAT, 0o600)
        elif what == "creat":   # creat(2), where the architecture has it
            if ctypes.CDLL(None, use_errno=True).creat(arg.encode(), 0o600) < 0: raise OSError(ctypes.get_errno(), arg)
        elif what == "mkdir": os.mkdir(arg)
        elif what == "chmod": os.chmod(arg, 0o777)
        elif what == "utime": os.utime(arg, (1, 1))
        elif what == "setxattr": os.setxattr(arg, "user.x", b"1")
        elif what == "setxattrat":  # of Linux 6.13
            buffer = ctypes.create_string_buffer(b"1")
            value = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 1)
            if ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(463), ctypes.c_long(-100), arg.encode(), ctypes.c_long(0), b"user.x", value, ctypes.c_size_t(16)) < 0: raise OSError(ctypes.get_errno(), arg)
        elif what == "setreuid": os.setreuid(int(arg), int(arg))
        elif what == "unlink": os.unlink(arg)
        elif what == "rename": os.rename(arg, arg + "2")
        elif what == "relative":
            os.chdir(os.path.dirname(arg)); os.open("./" + os.path.basename(arg), os.O_WRONLY)
        elif what == "connect":
            socket.socket(socket.AF_INET, socket.SOCK_STREAM).connect((arg, 443))
        elif what == "send":
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (arg, 53))
        elif what == "hostname": socket.sethostname(arg)
        else: raise SystemExit("what is " + what)
    except OSError as e:
        return e.errno
    raise SystemExit(what + " " + arg + " was not refused")
'''
PROGRAM = ATTEMPTS + r'''
for word in sys.argv[1:]:
    attempt(*word.split(":", 1))
'''
# Attempts as they are asked for, one a line of stdin.
SERVANT = ATTEMPTS + r'''
print("ready", flush=True)
for line in sys.stdin:
    attempt(*line.strip().split(":", 1))
    print("done", flush=True)
'''


def has_call(number):
    """Whether the kernel has a system call, by one with descriptors and addresses that are not valid."""
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(number, -1, None, -1, None, None, 0) == 0 or ctypes.get_errno() != errno.ENOSYS


def python(program, *args):
    return ["/usr/bin/python3", "-I", "-S", "-B", "-c", program, *args]


class Peer(Rpc):
    """A connection whose peer is the user nobody: the kernel records the credentials at connect()."""

    def __init__(self, path):
        groups = os.getgroups()
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, 0)
        os.setresuid(NOBODY, NOBODY, 0)
        try:
            super().__init__(path)
        finally:
            os.setresuid(0, 0, 0)
            os.setresgid(0, 0, 0)
            os.setgroups(groups)


CHMOD = "chmod" if platform.machine() == "x86_64" else "fchmodat"   # newer architectures have no chmod(2)


@contextlib.contextmanager
def watched(host=True, options=()):
    """A daemon that has audit."""
    if os.geteuid() != 0:
        raise Skip("audit requires root")
    with harness.audit_turn(), taken(host, options) as home:
        yield home


def new_home(host, options):
    home = Home(start=False, options=("--audit", "auto", "--socket-mode", "0666", *options, *(harness.no_sandbox() if host else ())))
    os.chmod(home.dir, 0o755)
    return home


@contextlib.contextmanager
def taken(host=True, options=()):
    home = new_home(host, options)
    with home:
        home.start()
        with home.rpc() as rpc:
            state = rpc.call("get_health")["violations"]
        if state["state"] != "enforced":
            raise Skip(state["why"])
        yield home


def violations(rpc, process):
    return [e["payload"] for e in rpc.events(processId=process, types=["sandbox.violation"])]


def run(rpc, *words):
    started, result = rpc.run(python(PROGRAM, *words), cwd="/", profile="host")
    process = started["processId"]
    assert result["exitCode"] == 0, (result, rpc.outputs(process))
    return process, result


def state_of(home):
    with contextlib.suppress(OSError, Gone), home.rpc() as rpc:
        return rpc.call("get_health")["violations"]
    return {"state": "not answering"}


def until_state(home, state):
    return until(f"violations are {state}", lambda: [s for s in [state_of(home)] if s["state"] == state])[0]


def servant(rpc):
    return rpc.start(python(SERVANT), stdin="pipe", cwd="/", profile="host")["processId"]


def provoke(rpc, process, name):
    """Causes one violation; returns once the command has got the error."""
    had = rpc.outputs(process)["stdout"].count(b"done")
    rpc.call("write_process_stdin", processId=process, data=f"mkdir:/etc/{name}\n", encoding="utf8")
    until("it was refused", lambda: rpc.outputs(process)["stdout"].count(b"done") > had)


def finish(rpc, process, refusals):
    """Its end, with all of its output; the payload of the terminal event."""
    rpc.call("close_process_stdin", processId=process)
    assert rpc.wait(process)["exitCode"] == 0
    assert rpc.outputs(process)["stdout"] == b"ready\n" + b"done\n" * refusals, rpc.outputs(process)
    completed, = rpc.events(processId=process, types=["process.completed"])
    return completed["payload"]


def paths_of(rpc, process):
    return [v["path"] for v in violations(rpc, process)]


def applied(rpc, process):
    event, = rpc.events(processId=process, types=["sandbox.applied"])
    return event["payload"]["violations"]


def exact(rpc):
    """The violations of a new command are reported exactly."""
    process, result = run(rpc, "read:/etc/shadow", "mkdir:/etc/bailiff-new")
    assert sorted(paths_of(rpc, process)) == ["/etc/bailiff-new", "/etc/shadow"] and result["violationCount"] == 2, result
    completed, = rpc.events(processId=process, types=["process.completed"])
    assert "violationCountIsLeast" not in completed["payload"] and applied(rpc, process) == "enforced", completed
