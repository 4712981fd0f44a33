"""What is nested in a workspace stays protected whatever commands do to hide it.

It is looked for again every few seconds, in so many folders, as the peer: each of these tries makes the look miss it.
"""

import contextlib
import os

from tries import ROOT, harness
from harness import until

HOOK = "sub/.git/hooks/pre-commit"
DEEP = "deep/er/sub/.git/hooks/pre-commit"
MODULE = ".git/modules/one/hooks/post-checkout"
TOP = ".git/hooks/pre-commit"

# What the first command does, what the last one undoes before it writes there.
TRIES = {
    "folders": ("mkdir $(seq -f a%g 1 400)", "", HOOK),
    "files": ("mkdir .a && cd .a && seq 1 70000 | xargs touch", "", DEEP),
    "modules": ("cd .git/modules && mkdir $(seq -f a%g 1 300)", "", MODULE),
    "policies": ("for i in $(seq 1 70); do mkdir -p b$i/.bailiff; done", "", HOOK),
    "repositories": ("for i in $(seq 1 70); do mkdir -p b$i/.git; done", "", DEEP),
    "long names": ("n=$(printf %0200d 1); for i in $(seq 1 70); do mkdir -p $n$i/.bailiff; done", "", HOOK),
    "a link": ("ln -s x sub/.git/config.worktree", "rm sub/.git/config.worktree;", HOOK),
    "no rights": ("chmod 0 sub", "chmod 755 sub;", HOOK),
    "no search": ("chmod 444 sub", "chmod 755 sub;", HOOK),
    "no rights above": ("chmod 0 deep", "chmod 755 deep;", DEEP),
    "no rights of modules": ("chmod 0 .git/modules", "chmod 755 .git/modules;", MODULE),
    "no rights at the top": ("chmod 0 .", "chmod 755 .;", HOOK),
    "no rights of git's": ("chmod 0 .git", "chmod 755 .git;", TOP),
}


def repository(path):
    os.makedirs(os.path.join(path, "hooks"))
    for name in ("config", "HEAD", "hooks/pre-commit", "hooks/post-checkout"):
        with open(os.path.join(path, name), "w") as f:
            f.write("old\n")


def workspace(home, name):
    top = os.path.join(home.dir, name.replace(" ", "-"))
    for path in (".git", ".git/modules/one", "sub/.git", "deep/er/sub/.git"):
        repository(os.path.join(top, path))
    return top


def attempt(rpc, script, cwd):
    """The exit code; None: it did not start, which is no way in either."""
    try:
        return rpc.run(script, cwd=cwd, profile="workspace")[1].get("exitCode")
    except harness.RpcError:
        return None


def group_of_another():
    """A group of ours that is not the first: one that a user namespace of our own knows nothing of."""
    return next((g for g in os.getgroups() if g != os.getegid()), None)


def look_again(home, rpc, tops):
    """Until there was a look at each of them."""
    late = workspace(home, "control")
    assert attempt(rpc, "true", late) == 0
    os.makedirs(os.path.join(late, "new", ".bailiff"))

    def seen():
        for top in tops:
            attempt(rpc, "true", top)
        attempt(rpc, "true", late)
        return "new/.bailiff" in home.cli("sandbox", "show", "workspace", cwd=late).text
    until("it is checked again", seen)
    for top in tops:
        attempt(rpc, "true", top)


def test_nested_repositories_stay_protected(home):
    tops = {name: workspace(home, name) for name in TRIES}
    group = None if ROOT else group_of_another()
    if group is not None:
        tops["another group"] = workspace(home, "another group")
        for folder in (".git", "sub"):
            os.chown(os.path.join(tops["another group"], folder), -1, group)
    tries = dict(TRIES, **{"another group": ("chmod 0 .git sub", "chmod 755 .git sub;", TOP)})
    with home.rpc() as rpc:
        for name, top in tops.items():
            for hook in (HOOK, DEEP, MODULE, TOP):
                assert attempt(rpc, f"echo evil >{hook}", top) == 2, f"{name}: {hook} can be written"
            assert attempt(rpc, tries[name][0], top) == 0, f"{name}: the command fails"
        look_again(home, rpc, list(tops.values()))
        bad = []
        for name, top in tops.items():
            _, undo, hook = tries[name]
            attempt(rpc, f"{undo} echo evil >{hook}; echo evil >{TOP}", top)
            for path in (".", ".git", ".git/modules", "sub", "deep"):
                os.chmod(os.path.normpath(os.path.join(top, path)), 0o755)
            for path in (hook, TOP):
                with open(os.path.join(top, path)) as f:
                    if f.read() != "old\n":
                        bad.append(f"{name}: {path}")
        assert not bad, bad


def test_nested_repositories_are_remembered_among_many_workspaces(home):
    """A daemon knows so many workspaces: making more of them, each with something nested, does not make it begin anew with one."""
    top, many = workspace(home, "first"), os.path.join(home.dir, "many")
    os.mkdir(many)
    with home.rpc() as rpc:
        assert attempt(rpc, f"echo evil >{HOOK}", top) == 2
        assert attempt(rpc, TRIES["folders"][0], top) == 0
        assert attempt(rpc, "mkdir -p $(seq -f %g/.git 1 140) $(seq -f %g/x/.git 1 140)", many) == 0
        for i in range(1, 141):
            done = rpc.run("true", cwd=os.path.join(many, str(i)), profile="workspace")[1]
            assert done["exitCode"] == 0, done
        assert attempt(rpc, f"echo evil >{HOOK}", top) == 2, "what is nested was forgotten"


def test_requests_of_agents_lift_no_protection(home):
    """What is asked for with a start may take away from a profile, keep something of what is taken away, and choose the folder."""
    top = workspace(home, "asked")
    linked = os.path.join(home.dir, "linked")
    files = {"mod/.git": "gitdir: ../.git/modules/one\n", "p/.bailiff/policy.json": "{}\n", "p/.claude/hooks/check": "exit 0\n", ".claude/hooks/check": "exit 0\n"}
    paths = [os.path.join(top, p) for p in (*files, TOP, ".git/config", HOOK, "sub/.git/config", MODULE, ".git/modules/one/config")] + [os.path.join(linked, ".git")]
    for path in paths:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.exists(path):
            with open(path, "w") as f:
                f.write(files.get(os.path.relpath(path, top), "gitdir: elsewhere\n"))
    before = {path: open(path).read() for path in paths}
    with home.rpc() as rpc:
        rpc.call("initialize", role="agent", clientName="test")
        for path in paths:
            tree = linked if path.startswith(linked) else top
            above = [path]
            while os.path.dirname(above[-1]) != tree:
                above.append(os.path.dirname(above[-1]))
            asked = [(tree, {"readRoots": [tree], "writeRoots": [p]}) for p in above] + [(tree, {"writeRoots": [p]}) for p in above] + \
                [(p, {}) for p in above[1:]] + [(p, {"workspace": p}) for p in above[1:]]
            for cwd, sandbox in asked:
                with contextlib.suppress(harness.RpcError):
                    rpc.run(f"echo evil >{path}", cwd=cwd, profile="workspace", sandbox=sandbox)
                assert open(path).read() == before[path], f"{path}: in {cwd} with {sandbox}"


def test_removed_repository_is_no_longer_protected(home):
    """Taken away outside, it is the commands' to make anew."""
    top = workspace(home, "gone")
    with home.rpc() as rpc:
        assert attempt(rpc, f"echo evil >{HOOK}", top) == 2
        os.rename(os.path.join(top, "sub"), os.path.join(home.dir, "sub"))
        look_again(home, rpc, [top])
        until("it is forgotten", lambda: attempt(rpc, "true", top) == 0 and "/sub/.git" not in home.cli("sandbox", "show", "workspace", cwd=top).text.replace(
            "/er/sub/.git", ""))
        assert attempt(rpc, f"mkdir -p {os.path.dirname(HOOK)} && echo own >{HOOK}", top) == 0
        assert attempt(rpc, "rm -r sub", top) == 0


if __name__ == "__main__":
    harness.main(globals())
