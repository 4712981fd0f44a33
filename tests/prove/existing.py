#!/usr/bin/python3
"""Programs of other folders as proofs: each is run in rounds, with a seed for each round, until the time or the number of cases is reached.

    existing.py PROGRAM [arguments of proof.py]     PROGRAM: one of ROUNDS, or fuzz

Their known-bad controls are part of each round: a round whose control is not caught fails.
"""

import collections
import concurrent.futures
import os
import re
import subprocess
import sys

from proof import BUILD, ROOT, Proof

Round = collections.namedtuple("Round", "cases argv env count claim")


def python(script, *args):
    return ["/usr/bin/python3", os.path.join("tests", "crash", script), *args]


# cases: in a round. {n} and {seed} in argv and env are the round's. count: matches what a round did in its output.
ROUNDS = {
    "simulator": Round(150000, ["{release}/crash/crash_engine"], {"SIM_STEPS": "{n}", "SEED": "{seed}", "SIM_JOBS": "{processors}"}, r"^(\d+) steps: \d+ requests",
                       "the engine's facts hold in every simulated step"),
    "fleet_simulator": Round(1000000, ["{release}/crash/crash_fleet"], {"FLEET_STEPS": "{n}", "SEED": "{seed}"}, r"^(\d+) steps: \d+ fleets",
                             "tasks of a simulated fleet run once"),
    "store_kills": Round(300, ["{build}/crash/crash_store"], {"STORE_N": "{n}", "SEED": "{seed}"}, r"^# (\d+) kills",
                         "acknowledged events survive SIGKILL"),
    "disk_cuts": Round(80, ["{build}/crash/crash_power"], {"POWER_N": "{n}", "SEED": "{seed}"}, r"^# (\d+) power cuts",
                       "acknowledged events survive the shutdown of their file system"),
    "kill_loop": Round(400, python("kill_loop.py", "--kills", "{n}", "--seed", "{seed}"), {}, r"^ok 1 - (\d+) kills",
                       "outputs and exit codes are exact although runtime and spawner are killed"),
    "guard_loop": Round(200, python("guard_loop.py", "--kills", "{n}", "--seed", "{seed}"), {}, r"^ok 1 - (\d+) kills",
                        "nothing survives the guard, and each acknowledged process is reported as lost"),
    "agent_loop": Round(100, python("agent_loop.py", "--kills", "{n}", "--seed", "{seed}", "--homes", "2"), {}, r"^ok 1 - (\d+) kills",
                        "no effect of a turn happens twice and none is lost"),
    "shell_scripts": Round(20000, ["/usr/bin/python3", "tests/fuzz/shell_differential.py", "--count", "{n}"], {"SEED": "{seed}"},
                           r"(\d+) scripts", "the policy parser finds all commands that bash and dash execute"),
}


def rounds(proof, row):
    number = 0
    release = os.path.join(ROOT, "build-release")
    while proof.has_time():
        n = min(row.cases, proof.cases - proof.done) if proof.cases else row.cases
        if proof.done and proof.left_s() is not None:   # a last round that is as long as the time left
            n = max(1, min(n, int(proof.done / (proof.seconds - proof.left_s()) * proof.left_s())))
        seed = proof.seed + number * row.cases if proof.case is None else int(proof.case)
        fill = dict(n=n, seed=seed, build=os.path.relpath(BUILD, ROOT), release=os.path.relpath(release, ROOT),
                    processors=len(os.sched_getaffinity(0)))
        argv, env = [w.format(**fill) for w in row.argv], {k: v.format(**fill) for k, v in row.env.items()}
        env["BUILD"] = os.path.relpath(BUILD, ROOT)
        ran = subprocess.run(argv, cwd=ROOT, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, errors="replace")
        found = re.search(row.count, ran.stdout, re.M)
        proof.add(int(found.group(1)) if found else 0, next((line for line in reversed(ran.stdout.splitlines()) if " " in line), "")[:120])
        if ran.returncode or not found:
            proof.fail(f"seed-{seed}", ran.stdout[-20000:], argv, env)
        number += 1
        if proof.case is not None or proof.failed > 20:
            break
    return proof.finish(row.claim, {"rounds": number})


# ---- fuzz targets ----

WANTED_RATE = 1000      # executions per second of processor time


def fuzz_one(name, seconds, seed):
    """A target: what it printed, its executions and the processor time that they took (other work on the machine does not count)."""
    env = {"FUZZ_S": str(seconds), "SEED": str(seed)}
    argv = ["tests/fuzz/run", "build-fuzz/fuzz", name]
    with subprocess.Popen(argv, cwd=ROOT, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace") as child:
        text = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    found = re.search(r"Done (\d+) runs", text)
    return name, argv, env, child.returncode, text, int(found.group(1)) if found else 0, used.ru_utime + used.ru_stime


def fuzz(proof):
    """Every target gets the same time; several passes, so that an interrupted run has been everywhere."""
    folder = os.path.join(ROOT, "build-fuzz", "fuzz")
    names = sorted(n for n in os.listdir(folder) if n.startswith("fuzz_"))
    processors, runs, seconds, number = len(os.sched_getaffinity(0)), collections.Counter(), collections.Counter(), 0
    whole = (proof.seconds or 600) * processors / len(names)
    each = max(2, int(min(60, whole)))
    while proof.has_time():
        with concurrent.futures.ThreadPoolExecutor(processors) as pool:
            for name, argv, env, status, text, count, took in pool.map(lambda n: fuzz_one(n, each, proof.seed + number), names):
                runs[name] += count
                seconds[name] += took
                proof.add(count, f"{name}: {count / max(took, 0.1):.0f} executions per second of processor time")
                if status:
                    proof.fail(f"{name}-seed-{proof.seed + number}", text[-20000:], argv, env)
        number += 1
    rates = {n: int(runs[n] / max(seconds[n], 0.1)) for n in names}
    slow = sorted((r, n) for n, r in rates.items() if r < WANTED_RATE)
    figures = {"targets": len(names), "executions/s, median": sorted(rates.values())[len(rates) // 2],
               f"below {WANTED_RATE}/s": ", ".join(f"{n[5:]} {r}" for r, n in slow) or "none"}
    return proof.finish("no fuzz target crashes", figures)


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in (*ROUNDS, "fuzz"):
        print(f"{__doc__}\nROUNDS: {', '.join(ROUNDS)}", file=sys.stderr)
        return 2
    name = sys.argv[1]
    proof = Proof(name, sys.argv[2:])
    return fuzz(proof) if name == "fuzz" else rounds(proof, ROUNDS[name])


if __name__ == "__main__":
    sys.exit(main())
