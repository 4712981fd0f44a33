#!/usr/bin/python3
"""What must not stand in the tree: unfinished work, names of somebody's machine, functions without a safe use, loose ends."""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

SELF = "tests/lint/words.py"
EVERYWHERE = [
    (re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b"), "unfinished work"),
    (re.compile(r"/(work|root|home/[a-z]+)/(main|shared|src|bailiff)\b"), "a path of one machine"),
    (re.compile(r"/tmp/brief"), "a path of one machine"),
    (re.compile(r"^(<{7}|>{7}|={7})( |$)", re.M), "a conflict marker"),
]
CODE = [
    (re.compile(r"\bnot (yet )?implemented\b", re.I), "a promise instead of code"),
    (re.compile(r"\b(alloca|atoi|atol|putenv)\s*\("), "a function with no place here"),
    (re.compile(r"[^\t\n -~\u00a0-\uffff\U00010000-\U0010ffff]"), "a control character"),
    (re.compile(r"[ \t]+$", re.M), "white space at the end of a line"),
    (re.compile(r"^ {4,}[^\s\\]", re.M), "spaces where a tab belongs"),
]
# Where a rule of CODE does not apply: file and what it may say.
EXCEPT = {}


def comment_free(text):
    text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", "", m.group()), text, flags=re.S)
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


def main():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    problems, count = [], 0
    for path in out.split("\n"):
        full = os.path.join(ROOT, path)
        if not path or path == SELF or not os.path.isfile(full) or path.startswith("tests/fuzz/corpus/") or path == "LICENSE":
            continue
        with open(full, "rb") as f:
            raw = f.read()
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            problems.append(f"{path}: not UTF-8")
            continue
        count += 1
        if raw and not raw.endswith(b"\n"):
            problems.append(f"{path}: no newline at the end")
        rules = [(r, what, text) for r, what in EVERYWHERE]
        if path.endswith((".c", ".h")):
            bare = comment_free(text)
            if not path.startswith("tests/"):
                rules.append((CODE[1][0], CODE[1][1], bare))
            rules.append((CODE[2][0], CODE[2][1], text))
            rules += [(CODE[0][0], CODE[0][1], text), (CODE[3][0], CODE[3][1], text), (CODE[4][0], CODE[4][1], text)]
        for rule, what, where in rules:
            for m in rule.finditer(where):
                if (path, m.group().strip()) in EXCEPT:
                    continue
                problems.append(f"{path}:{where.count(chr(10), 0, m.start()) + 1}: {what}: {m.group().strip()[:60]!r}")
    print("\n".join(problems) if problems else f"{count} files")
    return 1 if problems else 0


sys.exit(main())
