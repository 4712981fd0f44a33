#!/usr/bin/python3
"""The documents agree with the tables: every method, event type, configuration key and step has its row, links lead
somewhere, the tests that docs/testing.md names exist, and what is generated is up to date."""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD", "build")


def read(path):
    try:
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            return f.read()
    except OSError:
        return ""


def names(path, pattern):
    text = re.sub(r"/\*.*?\*/", "", read(path), flags=re.S)
    found = re.findall(pattern, text)
    return found or [f"(no names found in {path})"]


def links(problems):
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for path in out.split():
        for target in re.findall(r"\]\(([^)#\s]+)", read(path)):
            if "://" in target:
                continue
            if not os.path.exists(os.path.join(ROOT, os.path.dirname(path), target)):
                problems.append(f"{path}: the link to {target} leads nowhere")


def stale():
    """Programs that were built from other tables than those here: what they generate proves nothing about the documents."""
    found = []
    for program, folders, target in (("gen/event_doc", ["runtime/event"], "event-doc"), ("bailiff", ["supervisor/cli", "supervisor/client"], "all")):
        path = os.path.join(ROOT, BUILD, program)
        tables = [os.path.join(folder, n) for folder in folders for n in os.listdir(os.path.join(ROOT, folder)) if n.endswith(".def")]
        newest = max(tables, key=lambda t: os.path.getmtime(os.path.join(ROOT, t)))
        if not os.path.exists(path) and os.path.exists(os.path.join(ROOT, BUILD, "bailiffd")):
            found.append(f"{BUILD}/{program} is not built: make {target}")
        elif os.path.exists(path) and os.path.getmtime(path) < os.path.getmtime(os.path.join(ROOT, newest)):
            found.append(f"{BUILD}/{program} is older than {newest}, so documents cannot be compared with what it generates: make {target}")
    return found


def tests_exist(problems):
    """Every file in docs/testing.md is in the tree (a path may begin anywhere), and every test_… is a function of a test."""
    text = read("docs/testing.md")
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in sorted(set(re.findall(r"`([\w./-]+\.(?:c|h|py|txt))`", text))):
        if not any(("/" + path).endswith("/" + name) for path in listed):
            problems.append(f"docs/testing.md: there is no {name}")
    sources = "".join(read(path) for path in listed if path.startswith("tests/") and path.endswith((".c", ".py")))
    for name in sorted(set(re.findall(r"`(test_\w+)`", text)) - set(re.findall(r"\btest_\w+", sources))):
        problems.append(f"docs/testing.md: there is no {name}")


def main():
    problems = []
    for table, pattern, doc in (
            ("supervisor/control/methods.def", r"^METHOD\((\w+)", "docs/control.md"),
            ("runtime/event/event_types.def", r"\"([a-z_]+(?:\.[a-z_]+)+)\"", "docs/events.md"),
            ("supervisor/host/config_keys.def", r"CONFIG_\w+\(\w+, \"(\w+)\"", "docs/operations.md"),
            ("sandbox/steps.def", r"^STEP\((\w+)", "docs/architecture.md")):
        text = read(doc)
        if not text:
            problems.append(f"{doc} is missing")
            continue
        for name in names(table, re.compile(pattern, re.M)):
            if f"`{name}`" not in text and f"`{name.lower()}`" not in text:
                problems.append(f"{doc}: no row for {name} of {table}")
    links(problems)
    tests_exist(problems)
    generator = os.path.join(ROOT, "docs", "generate.py")
    old = stale()
    problems += old
    if not old and os.path.exists(os.path.join(ROOT, BUILD, "bailiffd")):
        done = subprocess.run([generator, "--build", BUILD, "--check"], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            problems.append((done.stdout + done.stderr).strip())
    print("\n".join(problems) if problems else "documents agree with the tables")
    return 1 if problems else 0


sys.exit(main())
