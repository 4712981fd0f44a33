#!/usr/bin/python3
"""The unit tests under tools that find what tests cannot: leaks, races, reads of uninitialized memory.

    sanitizers.py [leaks|races|valgrind] [arguments of proof.py]     a case is a program, such as runtime/store/test_store

    leaks      LeakSanitizer: the programs of build-asan-clang (or build-asan) with detect_leaks=1, all tests of a program in one process
               (the check takes seconds for each process on aarch64); if tests fail that way, which may end their process or leave state for the
               next one, again with a process for each test
    races      ThreadSanitizer: the programs of build-tsan
    valgrind   memcheck with its leak check: the programs of the normal build

Without a word, a few programs of each tool whose programs are there: the share of make check. Known-bad control: sanitizer_control.c.
"""

import os
import re
import shutil
import subprocess
import sys

from proof import BUILD, ROOT, Proof

LIMIT_S = 1800
VALGRIND = ["valgrind", "-q", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite", "--show-leak-kinds=definite",
            "--num-callers=20", "--gen-suppressions=no", "--suppressions=" + os.path.join(ROOT, "tests/prove/valgrind.supp")]
FOUND = re.compile(r"ERROR: LeakSanitizer|WARNING: ThreadSanitizer|==\d+== (?:Invalid|Conditional|Use of uninit|Syscall param|[\d,]+ bytes in .* definitely lost)")

# Programs (the beginning of the name) that a tool cannot run, and why. Everything else runs; single tests ask suite_under.
CANNOT = {
    "leaks": {"sandbox/": "filters and namespaces of the tests deny the ptrace of the leak check", "supervisor/spawner/": "the same",
              "supervisor/common/test_role_sandbox": "the same"},
    "races": {"sandbox/": "clone3 with namespaces and filters bypass the tool's interceptors", "supervisor/spawner/": "the same",
              "supervisor/guard/": "the same", "supervisor/common/test_role_sandbox": "the filter denies the tool's own calls"},
    "valgrind": {"sandbox/": "valgrind lacks clone3, Landlock and mount calls", "supervisor/spawner/": "the same", "supervisor/guard/": "the same",
                 "supervisor/common/test_role_sandbox": "the same", "supervisor/proxy/test_proxy": "starts a guard, which needs pidfd_open"},
}
SHORT = {"leaks": ("runtime/base/test_buf",), "races": ("runtime/store/test_store",), "valgrind": ()}    # too slow


def builds(tool):
    return {"leaks": [os.path.join(ROOT, "build-asan-clang"), os.path.join(ROOT, "build-asan")], "races": [os.path.join(ROOT, "build-tsan")],
            "valgrind": [BUILD]}[tool]


def programs(tool):
    """{name: path} of what is built."""
    for build in builds(tool):
        top = os.path.join(build, "unit")
        found = {os.path.relpath(os.path.join(d, f), top): os.path.join(d, f) for d, _, files in os.walk(top) for f in files
                 if os.access(os.path.join(d, f), os.X_OK)}
        if found:
            return dict(sorted(found.items()))
    return {}


def available(tool):
    return bool(programs(tool)) and (tool != "valgrind" or bool(shutil.which("valgrind")))


def run_tool(tool, argv, fork=True):
    """(whether it is clean, output)"""
    env = {**os.environ, "CK_TIMEOUT_MULTIPLIER": "30", "CK_DEFAULT_TIMEOUT": "600", "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0",
           "TSAN_OPTIONS": "halt_on_error=0:exitcode=66:second_deadlock_stack=1", "CK_FORK": "yes" if fork else "no", "SUITE_TOOL": tool}
    done = subprocess.run(VALGRIND + argv if tool == "valgrind" else argv, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT_S)
    return done.returncode == 0 and not FOUND.search(done.stdout), done.stdout


def control(tool, folder):
    """Whether the tool detects what is wrong in sanitizer_control.c."""
    program = os.path.join(folder, f"control-{tool}")
    flags = {"leaks": ["-fsanitize=address"], "races": ["-fsanitize=thread"], "valgrind": []}[tool]
    subprocess.run([tool != "valgrind" and shutil.which("clang") or "cc", "-g", "-O0", *flags, "-o", program, os.path.join(ROOT, "tests/prove/sanitizer_control.c"), "-lpthread"], check=True)
    word = "race" if tool == "races" else "leak"
    clean, _ = run_tool(tool, [program])
    bad, _ = run_tool(tool, [program, word])
    return clean and not bad


def run(proof, tool, names, have, counts):
    for name in names:
        if name not in have:
            continue
        if any(name.startswith(p) for p in CANNOT[tool]):
            counts["not possible"] = counts.get("not possible", 0) + 1
            continue
        if not proof.as_test and not proof.has_time():
            break
        try:
            clean, text = run_tool(tool, [have[name]], fork=tool != "leaks")
            if not clean and tool == "leaks" and (not FOUND.search(text) or "Failures: 0, Errors: 0" not in text):
                clean, text = run_tool(tool, [have[name]])
        except subprocess.TimeoutExpired:
            clean, text = False, f"{name} took more than {LIMIT_S} s"
        if not clean:
            report = FOUND.search(text)
            proof.fail(f"{tool}-{name}", text[-30000:] + f"\n{name}: {report.group(0) if report else 'a test failed'}",
                       ["python3", "tests/prove/sanitizers.py", tool, "--case", name])
        counts[tool] = counts.get(tool, 0) + 1
        proof.add(1, f"{tool}: {name}")


def main():
    tools = [sys.argv[1]] if len(sys.argv) > 1 and sys.argv[1] in CANNOT else list(CANNOT)
    proof = Proof(tools[0] if len(tools) == 1 else "sanitizers", sys.argv[1 + (len(tools) == 1):])
    usable = [t for t in tools if available(t) and (SHORT[t] or not proof.as_test)]
    if not usable:
        print(f"1..0 # SKIP {', '.join(tools)}: programs or tool are missing (make MODE=asan|tsan unit-programs, apt install valgrind)")
        return 77
    counts, caught = {}, 0
    for tool in usable:
        have = programs(tool)
        caught += control(tool, proof.out)
        names = [proof.case] if proof.case else SHORT[tool] if proof.as_test else list(have)
        run(proof, tool, names, have, counts)
    return proof.finish("the unit tests are clean under the sanitizers", counts, (caught if caught == len(usable) else 0, len(usable)))


if __name__ == "__main__":
    sys.exit(main())
