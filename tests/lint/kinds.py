#!/usr/bin/python3
"""Every kind of read model has a number of its own: they are stored, and two with the same one would mix their documents."""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main():
    with open(os.path.join(ROOT, "runtime", "view", "view.h")) as f:
        enum = re.search(r"enum view_kind \{(.*?)\};", f.read(), re.S).group(1)
    kinds = re.findall(r"(VIEW_\w+) = (\d+)", enum)
    names = {}
    for name, number in kinds:
        names.setdefault(int(number), []).append(name)
    wrong = [f"{n}: {' '.join(v)}" for n, v in sorted(names.items()) if len(v) > 1 or not 0 < n < 128]
    for line in wrong:
        print("not one number each, from 1 to 127:", line)
    print(f"{len(kinds)} kinds of read models")
    return 1 if wrong or len(kinds) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
