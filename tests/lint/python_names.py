#!/usr/bin/python3
"""Python sources use every name that they import, and no name that nothing defines: a misspelt name in a branch that rarely runs is found
before it does."""

import ast
import builtins
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ALWAYS = set(dir(builtins)) | {"__file__"}
SELF_TESTS = (
    ("import os, sys\nfrom a import b as c\nasync def f(x):\n    print(x, os, sys, c)\n    return f\n", 0),
    ("import os\n", 1),
    ("import os  # noqa: F401\n", 0),
    ("def f():\n    return missing\n", 1),
    ("try:\n    pass\nexcept OSError as e:\n    print([e for e in (1, 2)], __file__)\n", 0),
)


def imports(tree):
    """(name, line) of each name that an import statement binds."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (((a.asname or a.name).split(".")[0], node.lineno) for a in node.names)


def definitions(tree):
    """Every name that is bound anywhere in the file: scopes are not distinguished."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def check(path, text):
    tree, lines = ast.parse(text), text.split("\n")
    imported = dict(imports(tree))
    used = {n.id: n.lineno for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    known = ALWAYS | set(imported) | set(definitions(tree))
    return [f"{path}:{line}: {name} is imported and not used" for name, line in imported.items()
            if name not in used and "noqa" not in lines[line - 1]] + \
        [f"{path}:{line}: {name} is not defined" for name, line in used.items() if name not in known]


def main():
    for text, count in SELF_TESTS:
        if len(check("self-test", text)) != count:
            print(f"self-test: expected {count} problems in:\n{text}")
            return 1
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    problems, files = [], [f for f in out.split() if os.path.exists(os.path.join(ROOT, f))]
    for path in files:
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            problems += check(path, f.read())
    print("\n".join(problems) if problems else f"{len(files)} files")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
