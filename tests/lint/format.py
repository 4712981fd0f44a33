#!/usr/bin/python3
"""Every C source is formatted as .clang-format says. `make format` does it."""

import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHUNK = 40      # files of one call
VERSION = "14"  # of clang-format; others lay out some constructs differently


def unformatted(files):
    """The files of a chunk that clang-format would change."""
    out = subprocess.run(["clang-format", "--dry-run", *files], cwd=ROOT, capture_output=True, text=True, check=True).stderr
    return sorted({line.split(":", 1)[0] for line in out.splitlines() if "[-Wclang-format-violations]" in line})


def sees_violations():
    """The check must be able to fail."""
    out = subprocess.run(["clang-format", "--dry-run", "--assume-filename=x.c"], cwd=ROOT, input="int  x ;\n", capture_output=True, text=True,
                         check=True).stderr
    return "[-Wclang-format-violations]" in out


def main():
    if not shutil.which("clang-format"):
        print("clang-format is not installed (make deps)")
        return 1
    version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True, check=True).stdout
    if f"version {VERSION}." not in version:
        print(f"needs clang-format {VERSION}, found: {version.strip()}")
        return 77
    if not sees_violations():
        print("clang-format reports nothing for unformatted text")
        return 1
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.c", "*.h"], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout.split()
    files = [f for f in listed if os.path.exists(os.path.join(ROOT, f))]
    bad = [f for i in range(0, len(files), CHUNK) for f in unformatted(files[i:i + CHUNK])]
    print("\n".join(f"{f}: not formatted; run make format" for f in bad) or f"{len(files)} files")
    return 1 if bad else 0


sys.exit(main())
