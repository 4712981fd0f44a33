"""What fail_nth.py and kill_nth.py have in common: the calls of the scenario, workers, and known-bad controls."""

import collections
import errno
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import nth_scenario as scenario
from nth_scenario import harness
from proof import Proof

WORKERS = int(os.environ.get("WORKERS") or len(os.sched_getaffinity(0)) + 1)
COUNT_RUNS = 2


def count_calls(place):
    """How often each role makes each call: the larger number of two runs, which differ slightly."""
    counts = collections.Counter()
    for _ in range(COUNT_RUNS):
        c = scenario.run(place, [], strict=scenario.ALL)
        for key, n in c.counts.items():
            counts[key] = max(counts[key], n)
    return counts


def in_order(cases, rng):
    """Shuffled, but every kind of call of every role comes before the second case of any: a short run has been everywhere."""
    groups = collections.defaultdict(list)
    for case in cases:
        role, call, _ = case.split(" ", 2)
        groups[role, call].append(case)
    ranked = []
    for group in groups.values():
        rng.shuffle(group)
        ranked += [(n, rng.random(), case) for n, case in enumerate(group)]
    return [case for _, _, case in sorted(ranked)]


def run_case(place, case, rules):
    """(what it did, what the client noticed, the report of a failure or None)"""
    try:
        c = scenario.run(place, [case], **rules(case))
    except Exception as e:
        report = traceback.format_exc()
        parts = [f"case: {case}", f"nth: {getattr(e, 'nth', None)}", f"errors of steps: {getattr(e, 'errors', None)}", "log of the daemon:",
                 *(line.rstrip() for line in getattr(e, "log", [])[-40:]), report]
        return "failed", "", "\n".join(parts)
    return "missed" if not c.fired else "ended" if c.gone else "with errors" if c.errors else "unnoticed", str(c.errors or c.gone or ""), None


def work(cases, next_case, end, results, rules):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with scenario.Place() as place:
        while end is None or time.monotonic() < end:
            with next_case.get_lock():
                number = next_case.value
                next_case.value += 1
            if number >= len(cases):
                break
            results.put((cases[number], *run_case(place, cases[number], rules)))
    results.put(None)


def in_parallel(proof, cases, rules):
    """Runs the cases until the proof has enough. Returns how they ended."""
    outcomes, hit = collections.Counter(), set()
    results, next_case = multiprocessing.Queue(), multiprocessing.Value("q", 0)
    left = proof.left_s()
    end = None if left is None else time.monotonic() + left
    workers = [multiprocessing.Process(target=work, args=(cases, next_case, end, results, rules)) for _ in range(min(WORKERS, len(cases)))]
    for w in workers:
        w.start()
    open_workers = len(workers)
    while open_workers:
        result = results.get()
        if result is None:
            open_workers -= 1
            continue
        case, outcome, noticed, report = result
        outcomes[outcome] += 1
        with open(os.path.join(proof.out, "outcomes"), "a") as f:
            f.write(f"{case}: {outcome} {noticed}\n")
        if report:
            proof.fail(case, report)
        if outcome != "missed":
            hit.add(tuple(case.split()[:2]))
        proof.add(outcome != "missed", case)
        if not proof.goes_on():
            next_case.value = len(cases)
    for w in workers:
        w.join()
    return outcomes, hit


# ---- known-bad controls: each must fail ----

def save_store(c):
    shutil.copytree(os.path.join(c.home.dir, "store"), os.path.join(c.home.dir, "saved"))


def restore_store(c):
    shutil.rmtree(os.path.join(c.home.dir, "store"))
    os.rename(os.path.join(c.home.dir, "saved"), os.path.join(c.home.dir, "store"))


def repeat_effect(c):
    with open(os.path.join(c.home.work, "effects", "task"), "a") as f:
        f.write("task\n")


def leave_process(c):
    subprocess.Popen(["sh", "-c", "sleep 20", c.home.dir], start_new_session=True)


CONTROLS = {
    "acknowledged events are lost": dict(before={scenario.step_task: save_store}, between=restore_store),
    "an effect happens twice": dict(between=repeat_effect),
    "a process is left": dict(between=leave_process),
    "a request has no answer": dict(before={scenario.step_task: lambda c: c.home.kill_part("runtime", signal.SIGSTOP)}),
}


def call_fails():
    """Whether nth makes a call fail at all: otherwise every case would pass."""
    with tempfile.TemporaryDirectory(prefix="bl-nth-") as folder:
        program = shutil.copy("/bin/cat", os.path.join(folder, "bailiff-cat"))
        ran = subprocess.run([scenario.NTH, os.path.join(folder, "out"), f"cat openat 1 fail {errno.EMFILE}", "--", program, "/dev/null"],
                             env={"LC_ALL": "C"}, stderr=subprocess.PIPE, timeout=scenario.PATIENCE)
        return ran.returncode == 1 and b"Too many open files" in ran.stderr


def run_controls(place, names):
    """(caught, tried)"""
    assert call_fails(), f"{scenario.NTH} does not make a call fail"
    caught, patience = 0, scenario.PATIENCE
    scenario.PATIENCE = 4   # two of them are caught by a wait that is not met
    for name in names:
        try:
            scenario.run(place, [], **CONTROLS[name])
        except Exception as e:
            caught += isinstance(e, AssertionError) or isinstance(e, harness.RpcError)
    scenario.PATIENCE = patience
    return caught, len(names)


def main(name, make_cases, rules, short, claim):
    """`make_cases` lists the cases for the counts of calls; `rules` are the arguments of scenario.run for a case; `short` are the cases of --as-test."""
    proof = Proof(name, more=lambda parser: parser.add_argument("--only", help="a regular expression: only these cases"))
    if proof.case:
        with scenario.Place() as place:
            outcome, noticed, report = run_case(place, proof.case, rules)
        proof.add()
        if report:
            print(report, file=sys.stderr)
            proof.fail(proof.case, report)
        return proof.finish(claim, {"outcome": outcome, "noticed": noticed})
    with scenario.Place() as place:
        control = run_controls(place, list(CONTROLS)[:1 if proof.as_test else None])
        counts = {} if proof.as_test else count_calls(place)
    cases = short if proof.as_test else in_order(make_cases(counts), random.Random(proof.seed))
    cases = [c for c in cases if re.search(proof.options.only or "", c)]
    outcomes, hit = in_parallel(proof, cases, rules)
    roles = collections.Counter()
    for (role, _), n in counts.items():
        roles[role] += n
    figures = {"cases in all": len(cases), "kinds of calls": f"{len(hit)} of {len({tuple(c.split()[:2]) for c in cases})}",
               "outcomes": ", ".join(f"{n} {k}" for k, n in sorted(outcomes.items())),
               "calls": ", ".join(f"{role} {n}" for role, n in sorted(roles.items()))}
    return proof.finish(claim, figures, control)
