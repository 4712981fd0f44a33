#!/usr/bin/python3
"""Makes seccomp.json, a profile for containers in which bailiff runs, from a runtime's default profile.

    packaging/container/seccomp.py DEFAULT.json >packaging/container/seccomp.json

Docker's default refuses what a sandbox is built with to containers without CAP_SYS_ADMIN. This adds those calls and nothing else. None of them gives
a process more rights: each works only on namespaces that it has made itself. What is lost is a layer between it and errors in that code of the
kernel's. The commands in bailiff's sandboxes cannot make any of these calls.

DEFAULT.json is profiles/seccomp/default.json of Moby (https://github.com/moby/moby, Apache License 2.0). Podman's default needs no change.
"""

import json
import sys

ADDED = ["clone3", "fsconfig", "fsmount", "fsopen", "mount", "mount_setattr", "move_mount", "open_tree", "pivot_root", "sethostname", "umount2"]


def main(path):
    with open(path) as f:
        profile = json.load(f)
    rules = []
    for rule in profile["syscalls"]:
        # clone3 is ENOSYS there so that programs fall back to clone, whose flags can be filtered.
        names = [n for n in rule["names"] if rule["action"] == "SCMP_ACT_ALLOW" or n not in ADDED]
        if names:
            rules.append(dict({k: v for k, v in rule.items() if v not in (None, "", [], {})}, names=names))
    profile["syscalls"] = rules + [{"names": ADDED, "action": "SCMP_ACT_ALLOW", "comment": "bailiff builds its sandboxes with these"}]
    json.dump(profile, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.split("\n\n")[1].strip())
    main(sys.argv[1])
