"""Common parts of fail_nth.py and kill_nth.py: the calls of the scenario, workers, and known-bad controls.

Several cases with the same rules share a run (--together): each fires at its own call, and the checks at the end hold for all of them. If such a run fails,
each of its cases is repeated alone, so that a failure has a name; if none fails alone, the group is the failed case. What did not fire because the daemon
had ended is repeated.
"""

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
import traceback

import nth_scenario as scenario
from nth_scenario import harness
from proof import Proof

WORKERS = int(os.environ.get("WORKERS") or 2 * len(os.sched_getaffinity(0)) + 2)    # a run mostly waits
COUNT_RUNS = 2
TOGETHER, TOGETHER_MAX = 8, 16       # PLANS of nth.c
JOINT = "; "                        # between the cases of a group


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


def in_groups(cases, rules, size):
    """Cases that follow each other and have the same rules; `size` says how many of the kind of a case share a run."""
    groups, open_groups = [], {}
    for case in cases:
        key = repr(rules(case))
        if size(case) == 1 or len(open_groups.get(key, ())) in (0, size(case)):
            groups.append([case])
            if size(case) > 1:
                open_groups[key] = groups[-1]
        else:
            open_groups[key].append(case)
    return groups


def run_group(place, group, rules):
    """(the cases that fired, what happened, what the client noticed, the report of a failure or None)"""
    try:
        c = scenario.run(place, group, **rules(group[0]))
    except Exception as e:
        fired = [line[6:] for line in getattr(e, "nth", None) or () if line.startswith("fired ")]
        parts = [f"case: {JOINT.join(group)}", f"nth: {getattr(e, 'nth', None)}", f"errors of steps: {getattr(e, 'errors', None)}", "log of the daemon:",
                 *(line.rstrip() for line in getattr(e, "log", [])[-40:]), traceback.format_exc()]
        return fired, "failed", "", "\n".join(parts)
    outcome = "missed" if not c.fired else "ended" if c.gone else "with errors" if c.errors else "unnoticed"
    return c.fired, outcome, str(c.errors or c.gone or ""), None


def run_cases(place, group, rules):
    """A list of (cases, those that fired, outcome, noticed, report): of the group, and of what had to be repeated."""
    fired, outcome, noticed, report = run_group(place, group, rules)
    rest = [c for c in group if c not in fired]
    if report and len(group) > 1:
        alone = [([case], *run_group(place, [case], rules)) for case in group]
        if any(r[-1] for r in alone):
            return alone    # the failure has a name
        return [(group, fired, outcome, noticed, report), *alone]
    if outcome == "ended" and rest and fired:
        return [(fired, fired, outcome, noticed, report), *run_cases(place, rest, rules)]
    return [(group, fired, outcome, noticed, report)]


def work(groups, next_group, results, rules):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with scenario.Place() as place:
        while True:
            with next_group.get_lock():
                number = next_group.value
                next_group.value += 1
            if number >= len(groups):
                break
            for result in run_cases(place, groups[number], rules):
                results.put(result)
    results.put(None)


def in_parallel(proof, groups, rules):
    """Runs the groups until the proof has enough. Returns how the runs ended, and the cases that fired."""
    outcomes, hit = collections.Counter(), set()
    results, next_group = multiprocessing.Queue(), multiprocessing.Value("q", 0)
    workers = [multiprocessing.Process(target=work, args=(groups, next_group, results, rules)) for _ in range(min(WORKERS, len(groups)))]
    for w in workers:
        w.start()
    open_workers = len(workers)
    while open_workers:
        result = results.get()
        if result is None:
            open_workers -= 1
            continue
        cases, fired, outcome, noticed, report = result
        outcomes["runs"] += 1
        outcomes[outcome] += outcome != "missed"
        outcomes["missed"] += len(cases) - len(fired)
        with open(os.path.join(proof.out, "outcomes"), "a") as f:
            f.write(f"{JOINT.join(fired or cases)}: {outcome} {noticed}\n")
        if report:
            proof.fail(JOINT.join(cases), report)
        new = set(fired) - hit
        hit |= new
        proof.add(len(new), cases[0])
        if not proof.has_time():
            next_group.value = len(groups)
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


def add_arguments(parser):
    parser.add_argument("--only", help="a regular expression: only these cases")
    parser.add_argument("--together", type=int, default=TOGETHER, choices=range(1, TOGETHER_MAX + 1), help="so many cases share a run")


def main(name, make_cases, rules, short, claim, most):
    """`make_cases` lists the cases for the counts of calls; `rules` are the arguments of scenario.run for a case; `short` are the cases of --as-test; `most`
    is how many cases like one may share a run, if less than --together."""
    proof = Proof(name, more=add_arguments)
    if proof.case:
        with scenario.Place() as place:
            fired, outcome, noticed, report = run_group(place, proof.case.split(JOINT), rules)
        proof.add(len(fired))
        if report:
            print(report, file=sys.stderr)
            proof.fail(proof.case, report)
        return proof.finish(claim, {"outcome": outcome, "noticed": noticed})
    with scenario.Place() as place:
        control = run_controls(place, list(CONTROLS)[:1 if proof.as_test else None])
        counts = {} if proof.as_test else count_calls(place)
    cases = short if proof.as_test else in_order(make_cases(counts), random.Random(proof.seed))
    cases = [c for c in cases if re.search(proof.options.only or "", c)]
    limit = 1 if proof.as_test else proof.options.together
    outcomes, hit = in_parallel(proof, in_groups(cases, rules, lambda case: min(limit, most(case) or limit)), rules)
    roles = collections.Counter()
    for (role, _), n in counts.items():
        roles[role] += n
    kinds, all_kinds = ({tuple(c.split()[:2]) for c in some} for some in (hit, cases))
    figures = {"cases in all": len(cases), "kinds of calls": f"{len(kinds)} of {len(all_kinds)}", "runs": outcomes.pop("runs", 0),
               "outcomes": ", ".join(f"{n} {k}" for k, n in sorted(outcomes.items())),
               "calls": ", ".join(f"{role} {n}" for role, n in sorted(roles.items()))}
    return proof.finish(claim, figures, control)
