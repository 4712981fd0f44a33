#!/usr/bin/python3
"""No file and no folder depends on itself through others. A file depends on another when its object uses a symbol that only the other
defines; objects are read from $BUILD/obj. Mutually recursive parsers are the only exception.

    tests/lint/cycles.py [--edges]      --edges prints what ties each cycle together
"""

import collections
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OBJECTS = os.path.join(ROOT, os.environ.get("BUILD", "build"), "obj")
LAYERS = ("runtime/", "sandbox/", "pty/", "policy/", "supervisor/")
# Sets of files that may call each other in a circle.
RECURSIVE_PARSERS = [
    # The shell's grammar: a list has words, a word may be $(a list); redirections, here-documents and [[ ]] have words.
    {f"policy/shell/{name}.c" for name in ("conditional", "grammar", "heredoc", "lexer", "word")},
]
# Circles of the past that are being untied: files in circles, by the folder of the first. A number only goes down; 0 goes away.
OLD_FILES = {
}
OLD_FOLDERS = 0


def symbols():
    """(file, symbols it defines, symbols it uses) of each object whose source exists."""
    objects = [os.path.relpath(os.path.join(d, f), OBJECTS) for d, _, files in os.walk(OBJECTS) for f in files if f.endswith(".o")]
    objects = sorted(o for o in objects if o.startswith(LAYERS) and os.path.exists(os.path.join(ROOT, o[:-2] + ".c")))
    out = subprocess.run(["nm", "-A", "-P", "--", *objects], cwd=OBJECTS, capture_output=True, text=True, check=True).stdout
    defined, used = collections.defaultdict(set), collections.defaultdict(set)
    for line in out.splitlines():
        path, name, kind = line.split()[:3]
        source = path[:path.index(".o")] + ".c"
        if kind == "U":
            used[source].add(name)
        elif kind.isupper():
            defined[source].add(name)
    return defined, used


def edges(defined, used):
    """file -> file -> the names that tie them. A name defined twice (main) ties nothing."""
    owners = collections.defaultdict(list)
    for path, names in defined.items():
        for name in names:
            owners[name].append(path)
    graph = collections.defaultdict(lambda: collections.defaultdict(set))
    for path, names in used.items():
        for name in names:
            if len(owners[name]) == 1 and owners[name][0] != path:
                graph[path][owners[name][0]].add(name)
    return graph


def components(graph):
    """Strongly connected components with more than one node (Tarjan, without recursion)."""
    index, low, on, stack, found = {}, {}, set(), [], []
    nodes = sorted(set(graph) | {b for a in graph for b in graph[a]})
    for start in nodes:
        if start in index:
            continue
        work = [(start, iter(sorted(graph.get(start, ()))))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on.add(start)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on.add(other)
                    work.append((other, iter(sorted(graph.get(other, ())))))
                    break
                if other in on:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = []
                    while True:
                        members.append(stack.pop())
                        on.discard(members[-1])
                        if members[-1] == node:
                            break
                    if len(members) > 1:
                        found.append(sorted(members))
    return found


def folders(graph):
    above = collections.defaultdict(lambda: collections.defaultdict(set))
    for a in graph:
        for b, names in graph[a].items():
            if os.path.dirname(a) != os.path.dirname(b):
                above[os.path.dirname(a)][os.path.dirname(b)] |= {f"{a} uses {n}" for n in names}
    return above


def circles(kind, graph, allowed, show):
    """The circles that are not allowed, printed."""
    found = [members for members in components(graph) if set(members) not in allowed]
    for members in found if show else ():
        print(f"{len(members)} {kind} in a circle: {' '.join(members)}")
        for a in members:
            for b in members:
                if b in graph.get(a, {}):
                    print(f"    {a} -> {b}: {' '.join(sorted(graph[a][b])[:6])}")
    return found


def main():
    # The lint must detect a violation.
    assert components({"a": {"b": 1}, "b": {"c": 1}, "c": {"a": 1}, "d": {"a": 1}}) == [["a", "b", "c"]]
    graph = edges(*symbols())
    if len(graph) < 100:
        print(f"{OBJECTS}: only {len(graph)} objects; build first")
        return 1
    show = "--edges" in sys.argv
    tied = collections.Counter()
    for members in circles("files", graph, RECURSIVE_PARSERS, show):
        tied[os.path.dirname(members[0])] += len(members)
    tied_folders = sum(len(members) for members in circles("folders", folders(graph), [], show))
    problems = [f"{folder}: {count} files in circles, {OLD_FILES.get(folder, 0)} before (--edges shows them)"
                for folder, count in tied.items() if count > OLD_FILES.get(folder, 0)]
    if tied_folders > OLD_FOLDERS:
        problems.append(f"{tied_folders} folders in circles, {OLD_FOLDERS} before (--edges shows them)")
    print("\n".join(problems + [f"{len(graph)} files, {sum(tied.values())} of them in circles; {tied_folders} folders in circles"]))
    return 1 if problems else 0


sys.exit(main())
