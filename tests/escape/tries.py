"""Shared by the escape tests: the probe, run outside and inside, and the expected results."""

import contextlib
import ctypes
import os
import platform
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "blackbox"))
import harness  # noqa: E402, F401 (for those who import this)
from harness import BUILD  # noqa: E402

PROBE = os.path.join(BUILD, "probe")
ROOT = os.geteuid() == 0
PROFILES = ("workspace", "readonly", "isolated", "ci")
WRITABLE = ("workspace", "ci")

REFUSED = {"EPERM", "EACCES", "EROFS"}
FILTERED = {"EPERM"}
ABSENT = {"ENOSYS"}
GONE = {"ENOENT", "ENOTDIR", "ENODATA"}
NO_PROCESS = {"ESRCH", "ENOENT", "EINVAL"}
HELD = REFUSED | {"EBUSY", "EXDEV"}
UNREACHABLE = {"ENETUNREACH", "ECONNREFUSED", "EADDRNOTAVAIL", "EHOSTUNREACH"}


def outside(rows, place, each=False):
    """The probe's result on the host, in a mount and host-name namespace that goes away again."""
    lines, words = {}, [word for word, bites, _ in rows if bites == "any" or bites == "root" and ROOT]
    for batch in [[w] for w in words] if each else [words]:
        argv = (["unshare", "--mount", "--uts", "--propagation", "private"] if ROOT else []) + [PROBE, *batch]
        done = subprocess.run(argv, cwd=place, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        assert done.returncode == 0, done.stderr
        lines.update(parse(done.stdout))
    return lines


def parse(output):
    lines = {}
    for line in output.decode(errors="replace").splitlines():
        name, _, said = line.partition(": ")
        lines[name] = (said.split() + ["", ""])[:2] + [said]
    return lines


SCRIPT = 'cat >/tmp/probe && chmod 700 /tmp/probe && cd "$1" && shift && exec /tmp/probe "$@"'


def inside(home, profile, words, place, *options, cwd=None):
    """The same inside; the program comes through stdin, because nothing of ours is visible in every profile."""
    with open(PROBE, "rb") as f:
        program = f.read()
    done = home.cli("run", "--profile", profile, *options, "--", "sh", "-c", SCRIPT, "sh", place, *words, stdin=program, cwd=cwd,
                    status=None, patience=120)
    assert done.status == 0, f"{profile}: status {done.status}: {done.err[-400:]}"
    return parse(done.out)


def inside_terminal(home, profile, words, place):
    """The same on a terminal of the sandbox's."""
    with home.rpc() as rpc:
        _, end = rpc.run([PROBE, *words], profile=profile, cwd=place, tty={"rows": 24, "cols": 200}, sandbox={"readRoots": [PROBE]})
        output = rpc.output(end["outputs"]["pty"]["outputRef"])
        assert end.get("exitCode") == 0, f"{profile}: {end}: {output[-400:]}"
    return parse(output)


def landlock_abi():
    """0 = the kernel has no Landlock, or the machine is of a kind that we do not know."""
    number = {"x86_64": 444, "aarch64": 444}.get(platform.machine())
    return max(0, ctypes.CDLL(None).syscall(number, None, 0, 1)) if number else 0


def check(rows, lines, where, wanted):
    """wanted: "open" outside for those whom it concerns, "shut" inside."""
    bad = []
    for word, bites, errors in rows:
        if wanted == "open" and (bites == "-" or bites == "root" and not ROOT):
            continue
        outcome, error, said = lines.get(word, ["nothing", "", "nothing"])
        if wanted == "open" and error == "ENOSYS":
            continue    # this kernel does not have the call
        if outcome != wanted or wanted == "shut" and error not in errors:
            bad.append(f"{word}: {said}" + (f" (expected shut by {' '.join(sorted(errors))})" if wanted == "shut" else " (expected open)"))
    assert not bad, f"{where}:\n  " + "\n  ".join(bad)


@contextlib.contextmanager
def collected():
    """Several checks of one test: all failures are shown."""
    problems = []

    @contextlib.contextmanager
    def part():
        try:
            yield
        except AssertionError as e:
            problems.append(str(e))
    yield part
    assert not problems, "\n".join(problems)


def repository(home):
    """The workspace as a repository with its protected files."""
    os.makedirs(os.path.join(home.work, ".git", "hooks"), exist_ok=True)
    os.makedirs(os.path.join(home.work, ".git", "objects"), exist_ok=True)
    os.makedirs(os.path.join(home.work, ".bailiff"), exist_ok=True)
    for name, text in (("config", "[core]\n\tbare = false\n"), ("HEAD", "ref: refs/heads/main\n"), ("hooks/pre-commit", "#!/bin/sh\n"),
                       ("../.bailiff/policy.json", "{}\n")):
        with open(os.path.join(home.work, ".git", name), "w") as f:
            f.write(text + " " * 5000)
    return home.work


def filled(rows, **world):
    return [(word.format(**world), bites, errors) for word, bites, errors in rows]


def words_of(rows):
    return [r[0] for r in rows]


def snapshot(folder):
    """A snapshot of a tree, to detect changes and leftovers."""
    found = {}
    for d, names, files in os.walk(folder):
        for name in names + files:
            path = os.path.join(d, name)
            st = os.lstat(path)
            found[os.path.relpath(path, folder)] = (st.st_mode, st.st_uid, st.st_size)
    return found
