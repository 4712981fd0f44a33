#!/usr/bin/python3
"""Prints the line coverage per folder of a build with MODE=coverage (`make coverage`).

    tests/coverage.py BUILD [FOLDER]      with FOLDER: one row per file below it

Runs gcov on every object of that build, so that a file which no test executes counts with all of its lines. A line is covered
if any test program executed it.
Processes that end by _exit or a signal write no counts, so the figures of code that runs in sandboxes are too low.
"""

import collections
import concurrent.futures
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read_counts(path):
    """The report of gcov about one object file: for each source file and line, how often it was executed."""
    out = subprocess.run(["gcov", "--json-format", "--stdout", path], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [(f["file"], [(line["line_number"], line["count"]) for line in f["lines"]])
            for report in out.splitlines() for f in json.loads(report)["files"]]


def main(build, only=None):
    found = [os.path.join(d, f) for d, _, files in os.walk(os.path.join(ROOT, build)) for f in files]
    data = [f for f in found if f.endswith(".gcno")] if any(f.endswith(".gcda") for f in found) else []
    lines = collections.defaultdict(lambda: collections.defaultdict(int))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for report in pool.map(read_counts, data):
            for name, counts in report:
                name = os.path.normpath(os.path.relpath(name, ROOT) if os.path.isabs(name) else name)
                if name.startswith(("..", "tests/")):
                    continue    # system headers and the tests themselves
                for number, count in counts:
                    lines[name][number] += count
    rows = collections.defaultdict(lambda: [0, 0])
    for name, counts in lines.items():
        if only and not name.startswith(only.rstrip("/") + "/"):
            continue
        for key in (name if only else os.path.dirname(name), "all"):
            rows[key][0] += sum(1 for count in counts.values() if count)
            rows[key][1] += len(counts)
    if not rows:
        print(f"coverage: no counts below {build}; run `make coverage`", file=sys.stderr)
        return 1
    for key in sorted(rows, key=lambda k: (k == "all", k)):
        covered, total = rows[key]
        print(f"{key:<40} {covered:7} of {total:7} lines  {100 * covered / total:5.1f} %")
    return 0


sys.exit(main(*sys.argv[1:]))
