#!/usr/bin/python3
"""Compares the policy parser with real shells: the parser must find every command that bash or dash executes.

    tests/fuzz/shell_differential.py [--count N] [--seed N] [--only NUMBER] [--keep FILE]      COUNT and SEED of the environment are the defaults

Each generated script (shell_generator.py) runs as `bash -c` and as `dash -c` in an empty folder with a PATH that has nothing but shells, wrappers and
recorders. What was recorded, name and arguments, must be among the commands that build/shell_reader lists for the same text, unless the
reader says that it does not understand the text: such a line is never allowed without a question. First comes a control: the same
comparison with a reader that is blind to one of the commands must fail. Scripts never run as root: their redirections write files anywhere.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import shell_generator  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD") or "build")
SHELLS = ("bash", "dash")
PROGRAMS = ("bash", "dash", "sh", "env", "xargs", "timeout", "nice", "nohup")
DEADLINE_S = 20         # for the scripts of one shell; beyond it each is run alone, and what it has recorded by then is compared
BATCH = 200             # scripts for one worker at a time
PER_SHELL = 50          # of them for one shell
SCRIPT_UID = 61234      # of scripts, if this runs as root
LIFE_FD = 20            # a pipe that every process of a shell has open
SEPARATORS = re.compile(r"\\c[]>_}~^]")     # $'…' with what separates records
UNDERSTOOD_MIN = 0.35   # of the runs: below that, the comparison would say little
# Recorders as functions, which cost no process; a loop without end is left after 60 records. Programs of the same name are for what does not
# run in the same shell, and for arguments with newlines, which shells write in several pieces.
RECORDER = """NAME() {
	case "$*" in
	*"$_newline"*) command NAME "$@";;
	*) printf '%s\\037' '\036NAME' "$@" >&9;;
	esac
	_n=$((_n+1))
	[ $_n -lt 60 ] || exit 3
	return STATUS
}
"""
PRELUDE = "_n=0 y=abcd _newline='\n'\n" + \
    "".join(RECORDER.replace("NAME", name).replace("STATUS", str(int(name[1:]) % 2)) for name in shell_generator.NAMES)
# The arguments are a folder and scripts; the records of each go to a file of its own. eval reads a text as -c does.
ALONE = PRELUDE + "ulimit -t 2; ulimit -f 2048; exec 9>\"$1/0\"; _script=$2; set -- a; eval \"$_script\"\n"
# A forked subshell takes half the time of a new shell. A script that ends its subshell leaves no mark behind.
TOGETHER = PRELUDE + "_out=$1; shift; _i=0; for _script do\n" \
    "(ulimit -t 2; ulimit -f 2048; set -- a; eval \"$_script\"; printf '\035' >&9) 9>\"$_out/$_i\"; _i=$((_i+1)); done\n"


class Scratch:
    """The folder in which scripts run, and what they may run."""

    def __init__(self):
        self.drop = [] if os.geteuid() else [shutil.which("setpriv"), f"--reuid={SCRIPT_UID}", f"--regid={SCRIPT_UID}", "--clear-groups", "--no-new-privs"]
        self.top = tempfile.mkdtemp(prefix="bailiff-differential-")
        os.chmod(self.top, 0o711)
        self.bin = os.path.join(self.top, "bin")
        os.mkdir(self.bin)
        for name in PROGRAMS:
            os.symlink(shutil.which(name), os.path.join(self.bin, name))
        shutil.copy(os.path.join(BUILD, "shell_stub"), os.path.join(self.bin, shell_generator.NAMES[0]))
        for name in shell_generator.NAMES[1:]:
            os.link(os.path.join(self.bin, shell_generator.NAMES[0]), os.path.join(self.bin, name))

    def folder(self):
        folder = tempfile.mkdtemp(dir=self.top)
        if self.drop:
            os.chown(folder, SCRIPT_UID, SCRIPT_UID)
        return folder

    def remove(self):
        shutil.rmtree(self.top, ignore_errors=True)


def run_shell(scratch, folder, shell, program, out, scripts):
    """Lets one shell run the scripts and waits for all of their processes; whether they ended in time."""
    read, write = os.pipe()
    argv = [*scratch.drop, os.path.join(scratch.bin, shell), "-c", program, shell, out, *scripts]
    pid = os.posix_spawn(argv[0], argv, {"PATH": scratch.bin, "HOME": folder, "LC_ALL": "C.UTF-8"},
                         file_actions=[(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)] + [(os.POSIX_SPAWN_DUP2, write, LIFE_FD)],
                         setsid=True)
    os.close(write)
    in_time = bool(select.select([read], [], [], DEADLINE_S)[0])     # the end of the pipe: every process has ended
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    os.waitpid(pid, 0)
    os.close(read)
    return in_time


def records_in(out, i):
    with contextlib.suppress(FileNotFoundError), open(os.path.join(out, str(i)), "rb") as f:
        return f.read()
    return b""


def parse_records(data):
    return [[w.decode(errors="replace") for w in r.split(b"\037")[:-1]] for r in data.replace(b"\035", b"").split(b"\036")[1:]]


def records_alone(scratch, folder, shell, script):
    """What the shell ran: a list of lists of words; and whether it was over in time."""
    out = scratch.folder()
    in_time = run_shell(scratch, folder, shell, ALONE, out, [script])
    data = records_in(out, 0)
    shutil.rmtree(out)
    return parse_records(data), in_time


def records(scratch, folder, shell, scripts):
    """records_alone() of each script. An error that only ends a command of bash ends a subshell: such a script is run again, alone."""
    out = scratch.folder()
    in_time = run_shell(scratch, folder, shell, TOGETHER, out, scripts)
    data = [records_in(out, i) for i in range(len(scripts))]
    shutil.rmtree(out)
    return [(parse_records(d), True) if in_time and (b"\035" in d or shell == "dash") else records_alone(scratch, folder, shell, s) for s, d in zip(scripts, data)]


def read_scripts(pairs):
    """The parser's result for each (shell, script)."""
    told = subprocess.run([os.path.join(BUILD, "shell_reader")], input=b"".join(s.encode() + b"\0" + t.encode() + b"\0" for s, t in pairs),
                          stdout=subprocess.PIPE, check=True).stdout.decode(errors="replace").splitlines()
    if len(told) != len(pairs):
        raise RuntimeError(f"shell_reader answered {len(told)} of {len(pairs)} scripts")
    return [json.loads(line) for line in told]


def fits(seen, ran):
    """Whether a command of the parser's list can have become what ran; null stands for any number of words."""
    if not seen:
        return not ran
    if seen[0] is None:
        return any(fits(seen[1:], ran[i:]) for i in range(len(ran) + 1))
    return bool(ran) and seen[0] == ran[0] and fits(seen[1:], ran[1:])


def missed(facts, ran):
    """Commands that ran and were not found."""
    return [] if not facts or not facts["understood"] is True else [r for r in ran if not any(fits(c, r) for c in facts["commands"])]


def run_batch(scratch, seed, numbers):
    """(number, shell, script, executed, facts, in time) of each."""
    folder, out = scratch.folder(), []
    os.chdir(folder)
    scripts = [shell_generator.script(seed, n) for n in numbers]
    for shell in SHELLS:
        seen, ran = read_scripts([(shell, s) for s in scripts]), []
        for i in range(0, len(scripts), PER_SHELL):
            ran += records(scratch, folder, shell, scripts[i:i + PER_SHELL])
        out += [(number, shell, script, r, facts, in_time) for number, script, facts, (r, in_time) in zip(numbers, scripts, seen, ran)]
    os.chdir(scratch.top)
    shutil.rmtree(folder, ignore_errors=True)
    return out


def blind(facts):
    """The facts of a parser that overlooks the last command of a line."""
    return dict(facts, commands=facts["commands"][:-1])


class Tally:
    def __init__(self):
        self.runs = self.understood = self.executed = self.records = self.late = self.control = 0
        self.misses = []

    def add(self, number, shell, script, ran, facts, in_time):
        self.runs += 1
        self.understood += facts["understood"]
        self.executed += bool(ran)
        self.records += len(ran)
        self.late += not in_time
        self.control += bool(missed(blind(facts), ran))
        lost = [] if SEPARATORS.search(script) else missed(facts, ran)
        if lost:
            self.misses.append((number, shell, script, lost))

    def summary(self):
        return f"{self.runs} runs, {self.executed} of them executed something ({self.records} commands), {self.understood} understood, " \
            f"{self.late} not over in {DEADLINE_S} s, {len(self.misses)} misses; a blind parser would have missed {self.control}"


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("--count", type=int, default=int(os.environ.get("COUNT") or 2000))
    p.add_argument("--seed", default=os.environ.get("SEED") or str(int.from_bytes(os.urandom(4), "big")))
    p.add_argument("--only", type=int)
    p.add_argument("--keep")
    a = p.parse_args()
    absent = [s for s in PROGRAMS + (() if os.geteuid() else ("setpriv",)) if not shutil.which(s)]
    if absent:
        print("ok 1 - the parser finds what shells execute # SKIP no " + ", ".join(absent))
        return 77
    print(f"# seed {a.seed}, {a.count} scripts in {' and '.join(SHELLS)}", flush=True)
    scratch, tally = Scratch(), Tally()
    try:
        numbers = [a.only] if a.only is not None else list(range(a.count))
        batches = [numbers[i:i + BATCH] for i in range(0, len(numbers), BATCH)]
        with concurrent.futures.ProcessPoolExecutor(max(1, min(4, len(os.sched_getaffinity(0))))) as pool:
            for done in concurrent.futures.as_completed([pool.submit(run_batch, scratch, a.seed, b) for b in batches]):
                for result in done.result():
                    tally.add(*result)
                    if a.only is not None:
                        print(result[1], "\n" + result[2], "\nran:", result[3], "\nfacts:", json.dumps(result[4]))
    finally:
        scratch.remove()
    for number, shell, script, lost in tally.misses[:20]:
        print(f"# script {number} in {shell} (--seed {a.seed} --only {number}) executed what the parser did not see: {lost}")
        print("".join(f"#   | {line}\n" for line in script.split("\n")), end="")
    if a.keep:
        with open(a.keep, "w") as f:
            json.dump(tally.misses, f)
    print("# " + tally.summary())
    if a.only is None:
        good = tally.control > tally.runs // 20
        print(f"{'ok' if good else 'not ok'} 1 - a parser that overlooks a command is caught")
        fair = tally.understood >= UNDERSTOOD_MIN * tally.runs and tally.executed >= tally.runs // 2
        print(f"{'ok' if fair else 'not ok'} 2 - most scripts are executed and a good share of them is understood")
    print(f"{'not ok' if tally.misses else 'ok'} 3 - the parser finds all commands that bash and dash execute")
    return 1 if tally.misses or (a.only is None and not (good and fair)) else 0


if __name__ == "__main__":
    sys.exit(main())
