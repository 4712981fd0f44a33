#!/usr/bin/python3
"""Files of at most 700 lines (unit tests 1,000), functions of at most 80: what does not fit a screen or two is split by noun."""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FILE_LINES, TEST_LINES, FUNCTION_LINES, COLUMNS = 700, 1000, 80, 120
ALLOWED_FUNCTIONS = set()   # "path:function": none



def functions(lines):
    """(name, first line, number of lines): a function's braces stand in the first column."""
    head, start = "", None
    for i, line in enumerate(lines):
        if start is None:
            if line.startswith("{") and head:
                start = i
            elif re.match(r"^[A-Za-z_]", line) and "(" in line and not line.rstrip().endswith(";"):
                head = line
                if line.rstrip().endswith("{") and not re.match(r"^(struct|enum|union|static const|const|extern)\b[^()]*\{", line):
                    start = i
            elif line.strip() == "" or line.startswith("#"):
                head = ""
        elif line.startswith("}"):
            m = re.search(r"([A-Za-z_0-9]+)\s*\(", head)
            yield (m.group(1) if m else "?"), start + 1, i - start + 1
            head, start = "", None


def main():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.c", "*.h", "*.py", "*.sh"], cwd=ROOT,
                         capture_output=True, text=True, check=True).stdout
    problems, longest = [], []
    for path in out.split():
        full = os.path.join(ROOT, path)
        if not os.path.exists(full):
            continue
        with open(full, encoding="utf-8") as f:
            lines = f.read().splitlines()
        most = TEST_LINES if path.startswith("tests/unit/") else FILE_LINES
        if len(lines) > most:
            problems.append(f"{path}: {len(lines)} lines (at most {most})")
        for number, line in enumerate(lines, 1):
            if path.endswith((".c", ".h")) and len(line.expandtabs(8)) > COLUMNS:
                problems.append(f"{path}:{number}: {len(line.expandtabs(8))} columns (at most {COLUMNS})")
        if not path.endswith(".c"):
            continue
        for name, first, count in functions(lines):
            longest.append((count, f"{path}:{first} {name}"))
            if count > FUNCTION_LINES and f"{path}:{name}" not in ALLOWED_FUNCTIONS:
                problems.append(f"{path}:{first}: {name} has {count} lines (at most {FUNCTION_LINES})")
    longest.sort(reverse=True)
    for count, where in longest[:5]:
        print(f"# longest functions: {count} {where}")
    print("\n".join(problems) if problems else f"{len(longest)} functions")
    return 1 if problems else 0


sys.exit(main())
