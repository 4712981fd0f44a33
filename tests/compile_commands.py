#!/usr/bin/python3
"""Reads the commands that `make -n` prints and writes the compilation database of those that compile one source."""

import json
import os
import shlex
import sys

entries = []
for line in sys.stdin:
    words = shlex.split(line, comments=True) if " -c -o " in line else []
    if words and words[-1].endswith(".c"):
        entries.append({"directory": os.getcwd(), "file": words[-1], "arguments": words})
json.dump(entries, sys.stdout, indent=1)
print()
sys.exit(0 if entries else "no compile commands found in the input")
