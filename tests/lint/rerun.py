#!/usr/bin/python3
"""tests/run: a program that fails once is flaky, one that keeps failing has failed, and four flaky ones fail the run. A test of a Check program
that reports that it was skipped is not counted as passed. More programs run at a time while processors are idle."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def load_runner():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("test_runner", os.path.join(ROOT, "tests", "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("test_runner", loader))
    loader.exec_module(module)
    module.RERUNS = 2
    return module


def run(module, folder, failures):
    """A run of one program per entry, which fails that often and then passes; the exit status and what was printed."""
    runner = module.Runner("build", "make")
    runner.logs, runner.word = folder, ""
    items = []
    for i, count in enumerate(failures):
        counter = os.path.join(folder, f"{len(os.listdir(folder))}-{i}")
        script = (f'n=$(cat {counter} 2>/dev/null || echo 0); echo $((n + 1)) >{counter}\n'
                  f'echo "run $n"; if [ "$n" -lt {count} ]; then echo "not ok 1 - claim"; else echo "ok 1 - claim"; fi')
        items.append(module.Item(f"program-{i}", ["/bin/sh", "-c", script]))
    with contextlib.redirect_stdout(io.StringIO()) as out:
        if not runner.run(items):
            runner.rerun(items)
        status = runner.summarize()
    return status, out.getvalue(), items


def run_check_program(module, folder):
    """A Check program with a test that passes, one that is skipped in one of two cases and one that reports a skip and then fails; what was counted."""
    runner = module.Runner("build", "make")
    runner.logs, runner.word = folder, ""
    script = ('echo "skipped: second: requires root"; echo "skipped: third: requires root"\n'
              'for t in first second second; do echo "ok 1 - file.c:suite:$t: Passed"; done >$CK_TAP_LOG_FILE_NAME\n'
              'echo "not ok 3 - file.c:suite:third: Assertion failed" >>$CK_TAP_LOG_FILE_NAME; exit 1')
    item = module.Item("check", ["/bin/sh", "-c", script], tap_file=True)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runner.run([item])
        runner.summarize()
    return out.getvalue()


def most_at_a_time(module, folder, idle):
    """How many programs ran at the same time at most, on a machine that is always idle or never."""
    module.IdleTime.some = lambda self: idle
    runner, running, most = module.Runner("build", "make"), [], [0]

    def run_one(item):
        running.append(item)
        time.sleep(0.05)
        most[0] = max(most[0], len(running))
        running.remove(item)
    runner.logs, runner.word, runner.run_one = folder, "", run_one
    runner.run([module.Item(f"program-{i}", []) for i in range(4 * module.TOGETHER * module.processors())])
    return most[0]


def main():
    module, number, failed = load_runner(), 0, 0
    many = module.RERUN_PROGRAMS + 1
    cases = (
        ("a program that passes is run once", [0], 0, "1 passed, 0 failed, 0 skipped", 0),
        ("a program that fails once is flaky and passes the run", [1], 0, "1 passed, 0 failed, 0 skipped", 1),
        ("a program that fails twice is flaky and passes the run", [2], 0, "1 passed, 0 failed, 0 skipped", 1),
        ("a program that fails three times has failed", [3], 1, "0 passed, 1 failed, 0 skipped", 0),
        ("three flaky programs pass the run", [1, 1, 2, 0], 0, "4 passed, 0 failed, 0 skipped", 3),
        ("four flaky programs fail the run", [1, 1, 1, 1], 1, "4 passed, 4 failed, 0 skipped", 4),
        ("a suite with many failures is not rerun", [1] * many, 1, f"0 passed, {many} failed, 0 skipped", 0),
    )
    for name, failures, want_status, want_last, want_flaky in cases:
        with tempfile.TemporaryDirectory() as folder:
            status, text, items = run(module, folder, failures)
            logs = [i.flaky_log for i in items if i.flaky_log]
            kept = all("not ok 1 - claim" in open(log).read() for log in logs)
        ok = (status == want_status and text.rstrip().endswith(want_last) and len(logs) == want_flaky and kept
              and text.count("\nflaky: ") == want_flaky)
        number += 1
        failed += not ok
        print(f"{'ok' if ok else 'not ok'} {number} - {name}")
        if not ok:
            print(text)
    with tempfile.TemporaryDirectory() as folder:
        text = run_check_program(module, folder)
    ok = text.rstrip().endswith("2 passed, 1 failed, 1 skipped") and "(requires root)" in text
    number += 1
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} {number} - a skipped test of a Check program is not counted as passed")
    for name, idle, want in (("a busy machine runs a program per processor", False, max(2, module.processors())),
                             ("an idle machine runs several programs per processor", True, module.TOGETHER * module.processors())):
        with tempfile.TemporaryDirectory() as folder:
            most = most_at_a_time(module, folder, idle)
        number += 1
        failed += most != want
        print(f"{'ok' if most == want else 'not ok'} {number} - {name} ({most} of {want})")
    return 1 if failed else 0


sys.exit(main())
