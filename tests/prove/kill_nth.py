#!/usr/bin/python3
"""SIGKILL at every system call of a scenario, in every process of the daemon, alone and together with another one.

    kill_nth.py [--only REGEX] [arguments of proof.py]     a case is a plan of build/nth: "runtime pwrite64 7 kill", "spawner clone3 2 kill+runtime"

The call does not take place. The checks are those of fail_nth.py. If the runtime, the spawner or the proxy is killed, the commands keep running: what
was acknowledged ends as if nothing had happened.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import nth_loop             # noqa: E402
import nth_scenario         # noqa: E402

PAIRS = {"runtime": ("spawner", "guard", "proxy", "model"), "spawner": ("runtime", "guard"), "proxy": ("runtime", "model"), "model": ("runtime",),
         "guard": ("runtime", "spawner"), "init": ("runtime", "spawner"), "leader": ("runtime", "spawner"), "zygote": ("spawner",), "gateway": ("runtime",)}
SHORT = ["runtime pwrite64 9 kill", "spawner clone3 3 kill", "runtime sendmsg 12 kill+spawner", "guard recvmsg 30 kill", "init write 3 kill",
         "model connect 1 kill", "proxy accept4 1 kill", "runtime fdatasync 9 kill",
         "runtime splice 2 kill+spawner"]   # output is in the relay, and not in the spool yet
MODEL_ATTEMPTS = 5
NOT_STRICT = {"init", "leader", "zygote", "placeho", "guard", "tool"}     # placeho: names have 15 characters


def make_cases(counts):
    for (role, call), n in counts.items():
        for k in range(1, n + 1):
            yield f"{role} {call} {k} kill"
            for other in PAIRS.get(role, ()):
                yield f"{role} {call} {k} kill+{other}"


def rules(case):
    role, _, _, action = case.split()
    killed = {role, action.partition("+")[2]}
    if killed & NOT_STRICT:
        return {}
    own = {"gateway", "bailiff"} & killed
    return {"strict": tuple(s for s in nth_scenario.ALL if s != "gateway" or not own)}


def most_together(case):
    """The death of the guard ends the run. The loop tries a model five times: were more of its processes killed in one turn, it would fail, and rightly."""
    return 1 if "guard" in case else MODEL_ATTEMPTS - 1 if rules(case) else None


if __name__ == "__main__":
    sys.exit(nth_loop.main("kill_nth", make_cases, rules, SHORT, "SIGKILL at any system call loses nothing and repeats nothing", most_together))
