#!/usr/bin/python3
"""Every event type that bailiff writes is caused by some black-box test: docs/event-coverage.md, which `make event-coverage` writes, lists them."""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Types of RUNTIME or OWNER that nothing writes yet, or that a test cannot cause from outside, with the reason.
EXCUSED = {
}


def main():
    with open(os.path.join(ROOT, "runtime/event/event_types.def"), encoding="utf-8") as f:
        types = re.findall(r'^EVENT_TYPE\(\w+, \w+, "([a-z_.]+)", \w+, (\w+)', f.read(), re.M)
    with open(os.path.join(ROOT, "docs/event-coverage.md"), encoding="utf-8") as f:
        table = dict(re.findall(r"^\| `([a-z_.]+)` \| [^|]* \| ([^|]*) \|", f.read(), re.M))
    problems = []
    for name, origin in types:
        programs = re.findall(r"`(\w+\.py)`", table.get(name, ""))
        if name not in table:
            problems.append(f"docs/event-coverage.md has no row for {name} (make event-coverage)")
        elif not programs and origin != "CLIENT" and name not in EXCUSED:
            problems.append(f"no black-box test causes {name}; write one, then make event-coverage")
        elif programs and name in EXCUSED:
            problems.append(f"{name} is caused by {programs[0]}: take its excuse out of tests/lint/event_coverage.py")
        problems += [f"docs/event-coverage.md names {p}, which is not there" for p in programs
                     if not any(os.path.exists(os.path.join(ROOT, folder, p)) for folder in ("tests/blackbox", "tests/escape"))]
    print("\n".join(problems) or f"{len(types)} event types, {len(EXCUSED)} excused")
    return 1 if problems else 0


sys.exit(main())
