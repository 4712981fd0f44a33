"""Common parts of all proofs: arguments, progress, and kept cases.

    NAME.py [--seconds N] [--cases N] [--seed N] [--out DIR] [--as-test] [--case TEXT]

Progress is one JSON object a line on stdout: {"done", "failed", "note"}, at the end also "final" and "figures". With --as-test it is TAP for
tests/run instead, and the proof does its short share. A failed case is kept in a folder of its own in DIR: `report`, and `command`, which repeats it.
"""

import argparse
import collections
import json
import os
import random
import re
import shlex
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD") or "build")
SHORT_S = 8             # the time limit of --as-test
PROGRESS_S = 1.0
KEPT, KEPT_ALIKE = 50, 3   # failed cases that are kept, in all and with the same message; the rest is only counted


class Proof:
    """The state of one run: what was asked for, what is done, what failed."""

    def __init__(self, name, args=None, more=None):
        """`more` adds arguments of the proof's own to the parser; they are in `options`, and part of every `command`."""
        parser = argparse.ArgumentParser(prog=f"tests/prove/{name}.py")
        parser.add_argument("--seconds", type=float, default=0, help="time budget; 0 = no limit")
        parser.add_argument("--cases", type=int, default=0, help="upper bound; 0 = none")
        parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
        parser.add_argument("--out", default=os.path.join(BUILD, "prove", name))
        parser.add_argument("--as-test", action="store_true", help="TAP, and only a short share")
        parser.add_argument("--case", help="repeat one case")
        own = {a.dest for a in parser._actions}
        if more:
            more(parser)
        self.options = o = parser.parse_args(args)
        self.more = [w for k, v in vars(o).items() if k not in own and v is not None and v is not False
                     for w in ["--" + k.replace("_", "-")] + ([] if v is True else [str(v)])]
        self.name, self.seed, self.out, self.as_test, self.case = name, o.seed, os.path.abspath(o.out), o.as_test, o.case
        self.seconds = o.seconds or (SHORT_S if o.as_test else 0)
        self.cases, self.done, self.failed, self.note = o.cases, 0, 0, ""
        self.begin, self.alike = time.monotonic(), collections.Counter()
        self.shown = self.begin
        os.makedirs(self.out, exist_ok=True)
        print(f"# {name}: seed {self.seed}", file=sys.stdout if o.as_test else sys.stderr, flush=True)

    def left_s(self):
        """Seconds left, or None without a limit."""
        return max(0.0, self.seconds - (time.monotonic() - self.begin)) if self.seconds else None

    def has_time(self):
        """Whether another case is wanted. A test has at least one, however slow the machine is."""
        if self.cases and self.done >= self.cases:
            return False
        return self.left_s() != 0.0 or self.as_test and not self.done

    def add(self, done=1, note=None):
        """Counts cases and reports now and then."""
        self.done += done
        self.note = note if note is not None else self.note
        if time.monotonic() - self.shown >= PROGRESS_S:
            self.shown = time.monotonic()
            self.show()

    def show(self, **more):
        line = {"done": self.done, "failed": self.failed, "note": self.note, **more}
        print(("# " if self.as_test else "") + json.dumps(line), flush=True)

    def fail(self, case, report, argv=None, env=None):
        """Counts a failure and keeps it; returns its folder, or None if enough like it are kept. `argv` if --case is not how it is repeated."""
        self.failed += 1
        kind = re.sub(r"[0-9]+|/\S*/", "", report.strip().splitlines()[-1] if report.strip() else "")
        self.alike[kind] += 1
        if self.alike[kind] > KEPT_ALIKE or len(self.alike) * KEPT_ALIKE > KEPT:
            return None
        folder = os.path.join(self.out, re.sub(r"[^A-Za-z0-9_.-]+", "-", case)[:100] or "case")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "report"), "w") as f:
            f.write(report.rstrip("\n") + "\n")
        argv = argv or ["python3", os.path.relpath(os.path.abspath(sys.argv[0]), ROOT), "--seed", str(self.seed), *self.more, "--case", case]
        with open(os.path.join(folder, "command"), "w") as f:
            f.write(" ".join([f"cd {shlex.quote(ROOT)} &&", *(f"{k}={shlex.quote(v)}" for k, v in (env or {}).items()), shlex.join(argv)]) + "\n")
        print(f"# FAILED {case} (kept in {os.path.relpath(folder, ROOT)}): {report.strip().splitlines()[-1] if report.strip() else ''}",
              file=sys.stdout if self.as_test else sys.stderr, flush=True)
        return folder

    def finish(self, claim, figures, control=None):
        """The last line. `claim` is the test's name; `control` is (caught, tried) of the known-bad control, which must be caught."""
        tests = [(claim, self.failed == 0 and self.done > 0)]
        if control:
            figures = {**figures, "control": f"caught {control[0]} of {control[1]}"}
            tests.append(("the known-bad control is caught", control[0] > 0))
        if self.as_test:
            print(f"# {self.done} cases in {time.monotonic() - self.begin:.1f} s; " + ", ".join(f"{k}: {v}" for k, v in figures.items()))
            for n, (text, ok) in enumerate(tests, 1):
                print(f"{'ok' if ok else 'not ok'} {n} - {text}", flush=True)
        else:
            missed = sum(not ok for _, ok in tests[1:])
            self.failed += missed
            self.note = "the known-bad control was not caught" if missed else self.note
            self.show(final=True, figures=figures)
        return 0 if all(ok for _, ok in tests) and not self.failed else 1
