#!/usr/bin/python3
"""docs/conformance.def has every requirement once, with tests or documents that exist, and a reason where one is not done."""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COUNT = 268  # requirements of the specification
STRING = r'"((?:\\.|[^"\\])*)"'
ROW = re.compile(rf"^REQUIREMENT\((\d+), (DONE|PARTIAL|NOT_DONE|NOT_APPLICABLE), {STRING}, {STRING}, {STRING}\)$")


def read(*path):
    try:
        with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
            return f.read()
    except OSError:
        return None


def missing(evidence):
    """What of FILE:TEST or docs/PAGE.md#section does not exist, or None."""
    if evidence.startswith("docs/"):
        page, _, section = evidence.partition("#")
        text = read(page)
        headings = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text or "", re.M)}
        return page if text is None else evidence if section and section not in headings else None
    file, _, test = evidence.partition(":")
    text = next((t for t in (read("tests", folder, file) for folder in ("blackbox", "escape", "")) if t is not None), None)
    pattern = rf"^def {test}\(" if file.endswith(".py") else rf"^(START_TEST|TEST)\({test}\)|^static void {test}\("
    return file if text is None else None if test and re.search(pattern, text, re.M) else evidence


def check(text):
    problems, seen, bare = [], [], 0
    for line in text.splitlines():
        if not line.startswith("REQUIREMENT"):
            continue
        m = ROW.match(line)
        if not m:
            problems.append(f"not a row: {line[:60]}")
            continue
        number, state, what, evidence, reason = m.groups()
        seen.append(int(number))
        problems += [f"{number}: no requirement"] if not what else []
        problems += [f"{number}: {e} does not exist" for e in map(missing, evidence.split()) if e]
        problems += [f"{number}: {state} needs a reason"] if state != "DONE" and not reason else []
        problems += [f"{number}: DONE has no reason"] if state == "DONE" and reason else []
        bare += state == "DONE" and not evidence
    problems += [] if seen == list(range(1, COUNT + 1)) else [f"the numbers are not 1 to {COUNT}, each once and in order"]
    problems += [f"{bare} requirements are done without evidence"] if bare else []
    return problems


def main():
    text = read("docs", "conformance.def") or ""
    if len(check(text.replace(":test_", ":no_test_", 1).replace("REQUIREMENT(2,", "REQUIREMENT(3,"))) < 2:
        print("the check does not see a missing test and a missing row")
        return 1
    problems = check(text)
    print("\n".join(problems) or f"{COUNT} requirements, {text.count(', DONE, ')} done")
    return 1 if problems else 0


sys.exit(main())
