#!/usr/bin/python3
"""Every kind of read model has a number of its own: they are stored, and two with the same one would mix their documents.
And every kind has an end: retention removes its documents with their session (view_expiry.c), or it is in the table here."""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

ENDS = {
    "VIEW_RUNTIME": "one document",
    "VIEW_MODEL": "remove_model",
    "VIEW_MCP_SERVER": "remove_mcp_server",
    "VIEW_LIMIT": "one for each limit that a provider reports",
    "VIEW_TIMED_ACTION": "while the action is open",
    "VIEW_TASK_QUEUE": "while the task waits for a slot",
    "VIEW_ENDED_PROCESS": "until the outputs expired, which retention does before it removes the session",
}


def read(name):
    with open(os.path.join(ROOT, "runtime", "view", name)) as f:
        return f.read()


def main():
    enum = re.search(r"enum view_kind \{(.*?)\};", read("view.h"), re.S).group(1)
    kinds = re.findall(r"(VIEW_\w+) = (\d+)", enum)
    names = {}
    for name, number in kinds:
        names.setdefault(int(number), []).append(name)
    wrong = [f"{n}: {' '.join(v)}" for n, v in sorted(names.items()) if len(v) > 1 or not 0 < n < 128]
    for line in wrong:
        print("not one number each, from 1 to 127:", line)
    removed = set(re.findall(r"\bVIEW_[A-Z_]+\b", read("view_expiry.c")))
    names = {name for name, _ in kinds}
    endless = sorted(names - removed - set(ENDS))
    for name in endless:
        print(f"{name}: what removes its documents? Neither view_expiry.c nor the table of this file says so")
    stale = sorted(set(ENDS) & removed | set(ENDS) - names)
    for name in stale:
        print(f"{name}: remove it from the table of this file")
    print(f"{len(kinds)} kinds of read models")
    return 1 if wrong or endless or stale or len(kinds) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
