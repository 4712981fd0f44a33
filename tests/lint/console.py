#!/usr/bin/python3
"""supervisor/console/: the vendored files are those of SHA256SUMS, all files together stay within 300 KB gzipped, and no module uses
what the content security policy forbids or what could turn hostile text into markup."""

import glob
import gzip
import hashlib
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONSOLE = os.path.join(ROOT, "supervisor", "console")
MOST_BYTES = 300_000
SERVED = (".html", ".css", ".js")
# HTML from text, code from text, inline styles and handlers.
FORBIDDEN = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function|srcdoc|javascript:|"
                       r"\son[a-z]+=\"|<script>|<style|\sstyle=\"")
problems = []


def read(path):
    with open(path, "rb") as f:
        return f.read()


def check_sums():
    vendor = os.path.join(CONSOLE, "vendor")
    listed = dict(reversed(line.split()) for line in read(os.path.join(vendor, "SHA256SUMS")).decode().splitlines())
    present = {name for name in os.listdir(vendor) if name != "SHA256SUMS"}
    for name in sorted(present ^ set(listed)):
        problems.append(f"vendor/{name}: " + ("missing" if name in listed else "not in SHA256SUMS (run make ui)"))
    for name in sorted(present & set(listed)):
        if hashlib.sha256(read(os.path.join(vendor, name))).hexdigest() != listed[name]:
            problems.append(f"vendor/{name}: differs from SHA256SUMS; change package.json and run make ui instead of editing it")
    licences = read(os.path.join(vendor, "LICENSES")).decode()
    for name in sorted(present - {"LICENSES"}):
        if f"==== {name}: " not in licences:
            problems.append(f"vendor/{name}: no licence in vendor/LICENSES")


def check_size():
    files = [p for p in glob.glob(os.path.join(CONSOLE, "**", "*"), recursive=True) if p.endswith(SERVED)]
    total = sum(len(gzip.compress(read(p), 9)) for p in files)
    if total > MOST_BYTES:
        problems.append(f"{total} bytes gzipped (at most {MOST_BYTES})")
    return len(files), total


def check_modules():
    for path in sorted(glob.glob(os.path.join(CONSOLE, "*.*"))):
        if path.endswith(SERVED):
            for number, line in enumerate(read(path).decode().splitlines(), 1):
                found = FORBIDDEN.search(line)
                if found:
                    problems.append(f"{os.path.relpath(path, ROOT)}:{number}: {found.group().strip()}")


check_sums()
count, total = check_size()
check_modules()
print("\n".join(problems) if problems else f"{count} files, {total} bytes gzipped")
sys.exit(1 if problems else 0)
