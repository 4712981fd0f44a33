#!/usr/bin/python3
"""A function that a header declares is used by another file than the one that defines it; otherwise it is static, or dead. Read as text, so that
it also holds for parts that this machine does not build."""

import collections
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.S)
# A prototype in the first column, over one or several lines; not a definition, a typedef or a macro.
PROTOTYPE = re.compile(r"^(?!static|typedef|return|#)[A-Za-z_][\w \t*]*?\b(\w+)\([^;{}#]*\)[^;{}#]*;", re.M)
SELF_TEST = {
    "a.h": "/* shared() */\nint shared(int a,\n\t   int b);\nvoid alone(void);\nstatic inline int here(void) { return 0; }\nextern int (*hook)(void);\n",
    "a.c": "int shared(int a, int b) { return a + b; }\nvoid alone(void) { shared(1, 2); }\n",
    "b.c": "int main(void) { return shared(1, 2) + \"alone()\"[0]; }\n",
}


def unshared(texts):
    """(header, function) of each function that no file uses except for the header and the source that defines it."""
    codes = {path: COMMENT.sub(" ", text) for path, text in texts.items()}
    files = collections.defaultdict(set)
    for path, code in codes.items():
        for word in set(re.findall(r"\w+", code)):
            files[word].add(path)
    found = []
    for path, code in codes.items():
        for name in PROTOTYPE.findall(code) if path.endswith(".h") else ():
            sources = [f for f in files[name] if f != path]
            if len(sources) < 2 and len(re.findall(rf"\b{name}\b", code)) == 1:
                found.append((path, name))
    return sorted(found)


def main():
    if unshared(SELF_TEST) != [("a.h", "alone")]:
        print(f"self-test: found {unshared(SELF_TEST)}")
        return 1
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.c", "*.h", "*.def", "tests/*.py"], cwd=ROOT, capture_output=True, text=True,
                         check=True).stdout
    texts = {}
    for path in out.split():
        if os.path.exists(os.path.join(ROOT, path)):
            with open(os.path.join(ROOT, path), encoding="utf-8") as f:
                texts[path] = f.read()
    found = unshared(texts)
    for path, name in found:
        print(f"{path}: {name} is used by no other file: make it static, or remove it")
    print(f"{len(texts)} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
