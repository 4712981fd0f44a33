#!/usr/bin/python3
"""Every test runs: in Python, a function test_… is defined once and before the call of main that runs the file's tests; in C, a START_TEST is
added to the suite. Otherwise the test is skipped silently."""

import ast
import collections
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTHON_RUNS = "def test_a():\n    pass\n\n\nif __name__ == '__main__':\n    harness.main(globals())\n"
C_RUNS = "START_TEST(it_works)\n{\n}\nEND_TEST\n\nint main(void) { return SUITE(\"noun\", it_works); }\n"
SELF_TESTS = (
    ("a.py", PYTHON_RUNS, 0),
    ("a.py", PYTHON_RUNS + "\n\ndef test_b():\n    pass\n", 1),
    ("a.py", "def test_a():\n    pass\n\n\n" + PYTHON_RUNS, 1),
    ("a.py", "def test_a():\n    pass\n", 1),
    ("a.c", C_RUNS, 0),
    ("a.c", C_RUNS + "\nSTART_TEST(it_is_forgotten)\n{\n}\nEND_TEST\n", 1),
)


def calls_main(node):
    """Whether a statement of a module calls a function or method of the name main."""
    return isinstance(node, (ast.Expr, ast.If)) and any(
        isinstance(n, ast.Call) and getattr(n.func, "id", getattr(n.func, "attr", None)) == "main" for n in ast.walk(node))


def check_python(path, text):
    body = ast.parse(text).body
    runs_at = min((n.lineno for n in body if calls_main(n)), default=0)
    tests = [n for n in body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")]
    count = collections.Counter(n.name for n in tests)
    return [f"{path}:{n.lineno}: {n.name} is defined after the call that runs the tests" for n in tests if n.lineno > runs_at] + \
        [f"{path}: {name} is defined {times} times" for name, times in count.items() if times > 1], len(tests)


def check_c(path, text):
    tests = re.findall(r"^START_TEST\((\w+)\)", text, re.M)
    return [f"{path}: {name} is in no suite" for name in tests if len(re.findall(rf"\b{name}\b", text)) < 2], len(tests)


def check(path, text):
    """(problems, number of tests)"""
    return (check_python if path.endswith(".py") else check_c)(path, text)


def main():
    for path, text, count in SELF_TESTS:
        if len(check(path, text)[0]) != count:
            print(f"self-test: expected {count} problems in:\n{text}")
            return 1
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "tests/*.py", "tests/*.c"], cwd=ROOT, capture_output=True,
                         text=True, check=True).stdout
    problems, total = [], 0
    for path in out.split():
        full = os.path.join(ROOT, path)
        if os.path.exists(full):
            with open(full, encoding="utf-8") as f:
                found, tests = check(path, f.read())
            problems += found
            total += tests
    if not total:
        problems.append("no tests found")
    print("\n".join(problems) if problems else f"{total} tests")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
