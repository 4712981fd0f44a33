"""Processes as /proc shows them: which are alive, their parents and their cgroups."""

import contextlib
import os


def stat_of(pid):
    """(ppid, state, start time, comm), or None."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            text = f.read()
    except OSError:
        return None
    comm, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
    return int(rest[1]), rest[0], int(rest[19]), comm


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def in_own_namespace(pid):
    """Also matches the init of a sandbox, which starts as a copy of the spawner and has its name for a moment."""
    try:
        with open(f"/proc/{pid}/status") as f:
            return any(line.startswith("NSpid:") and len(line.split()) > 2 for line in f)
    except OSError:
        return True


def all_pids():
    return [int(p) for p in os.listdir("/proc") if p.isdigit()]


def alive(pid, start=None):
    st = stat_of(pid)
    return bool(st) and st[1] not in "ZX" and (start is None or st[2] == start)


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(p) for p in f.read().split()]
    except OSError:
        return [p for p in all_pids() if (stat_of(p) or (0,))[0] == pid]


def descendants_of(pid):
    found, todo = [], [pid]
    while todo:
        for child in children_of(todo.pop()):
            st = stat_of(child)
            if st:
                found.append((child, st[2]))
                todo.append(child)
    return found


def has_terminal(root, name):
    """Whether a program of that name, a descendant of root's, is in the foreground of its terminal: keys are its own, those that signal too."""
    for pid, _ in descendants_of(root):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as f:
            comm, rest = f.read().partition("(")[2].rsplit(")", 1)
            fields = rest.split()
            if comm == name and fields[2] == fields[5]: # its process group, and the terminal's
                return True
    return False


def marked(mark):
    """Processes whose arguments or environment hold the mark, zombies left out."""
    mark, found = mark.encode(), []
    for pid in all_pids():
        if pid == os.getpid():
            continue
        for name in ("cmdline", "environ"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as f:
                    if mark in f.read() and alive(pid):
                        found.append(pid)
                        break
            except OSError:
                pass
    return found


def daemon_cgroups(pid):
    """The folders of a daemon's own that a process of it is in."""
    found = set()
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cgroup") as f:
        for line in f:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            tag = next((part for part in path.split("/") if part.startswith("bailiff-")), None)
            if tag:
                hierarchy = controllers.removeprefix("name=") or "unified"
                for top in (f"/sys/fs/cgroup/{hierarchy}", "/sys/fs/cgroup"):
                    folder = top + path[:path.index(tag)] + tag
                    if os.path.isdir(folder):
                        found.add(folder)
    return found
