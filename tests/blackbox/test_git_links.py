"""Git works in linked worktrees and submodules, whose git directory is outside of the workspace; a forged .git file gives access to nothing."""

import os
import subprocess

import harness
from harness import Skip
from files import get

WHO = "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b LC_ALL=C; "


def outside(cwd, script):
    env = harness.environment(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null", GIT_CONFIG_COUNT="1",
                              GIT_CONFIG_KEY_0="protocol.file.allow", GIT_CONFIG_VALUE_0="always")
    try:
        done = subprocess.run(["sh", "-ec", WHO + script], cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    except FileNotFoundError as e:
        raise Skip(str(e)) from e
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def inside(home, cwd, script, *options, status=0):
    return home.cli("run", "--profile", "workspace", *options, "--", "sh", "-ec", WHO + script, cwd=cwd, status=status)


def put(path, text=""):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)


def main_tree(home):
    """A repository with a commit."""
    path = os.path.join(home.work, "main")
    outside(home.work, "git init -q -b trunk main && cd main && echo x >f && git add f && git commit -qm first")
    return path


def linked(home, extra=""):
    path = os.path.join(home.work, "linked")
    main = main_tree(home)
    outside(main, f"git worktree add -q {extra} ../linked -b side")
    return main, path


def submodule(home):
    main_tree(home)
    outside(home.work, "git init -q -b trunk super && cd super && git submodule --quiet add ../main mod && git commit -qm start")
    return os.path.join(home.work, "super"), os.path.join(home.work, "super", "mod")


DAILY = """
    git status --short && echo 1 >>f && git commit -qam second && echo 2 >>f && git stash -q && git stash pop -q && git commit -qam third
    git checkout -qb topic HEAD~1 && echo new >g && git add g && git commit -qm fourth && git rebase -q - && git tag v1
    git fetch -q {other} trunk && git reflog -3 && git gc -q && git log --format=%s
"""
SUBJECTS = ["fourth", "third", "second", "first"]


def other_repository(home):
    """To fetch from; where every sandbox can read it."""
    outside(home.work, "git init -q -b trunk other && cd other && git commit -q --allow-empty -m elsewhere")
    return os.path.join(home.work, "other")


def test_git_works_in_a_linked_worktree(home):
    main, tree = linked(home)
    other = other_repository(home)
    assert inside(home, tree, DAILY.format(other=other), "--ro", other).text.split()[-4:] == SUBJECTS
    assert outside(main, "git log --format=%s topic").split() == SUBJECTS
    assert outside(tree, "git fsck --no-progress --no-dangling && git status --short") == ""


def test_git_works_in_a_submodule(home):
    top, tree = submodule(home)
    other = other_repository(home)
    assert inside(home, tree, DAILY.format(other=other), "--ro", other).text.split()[-4:] == SUBJECTS
    assert outside(tree, "git log --format=%s").split() == SUBJECTS
    assert "mod" in outside(top, "git status --short")


def test_git_works_in_worktrees_of_bare_and_inside_main_repositories(home):
    main = main_tree(home)
    outside(home.work, "git clone -q --bare main store && cd store && git worktree add -q ../one -b one && cd ../main && git worktree add -q inner -b inner")
    for tree in ("one", "main/inner"):
        inside(home, os.path.join(home.work, tree), "echo 1 >>f && git commit -qam second && ! echo x 2>/dev/null >$(git rev-parse --git-path hooks/x)")
    assert outside(os.path.join(home.work, "store"), "git log --format=%s one").split() == ["second", "first"]
    assert outside(main, "git log --format=%s inner --").split() == ["second", "first"]


def test_git_works_in_submodules_of_linked_worktrees(home):
    """Their directory is in the worktree's part of the main repository."""
    top, _ = submodule(home)
    outside(top, "git worktree add -q ../linked && cd ../linked && git submodule --quiet update --init")
    tree = os.path.join(home.work, "linked")
    inside(home, os.path.join(tree, "mod"), "git checkout -qb here && echo 1 >>f && git commit -qam second")
    inside(home, tree, "git -C mod log --format=%s | grep -q second && git commit -qam bump")
    for cwd in (tree, os.path.join(tree, "mod")):
        inside(home, cwd, f"cd {tree}/mod && ! git config a.b c 2>/dev/null && ! echo x 2>/dev/null >$(git rev-parse --git-path hooks/x)")


def test_git_works_in_session_sandboxes(home):
    """Also if creating the sandbox is the daemon's first operation in the workspace."""
    main, tree = linked(home)
    outside(home.work, "git clone -q main linked/nested")
    sandbox = home.cli("sandbox", "create", cwd=tree).text.strip()
    script = WHO + "echo 1 >>f && git commit -qam second && ! git -C nested config a.b c && ! git config a.b c"
    home.cli("run", "--in", sandbox, "--", "sh", "-ec", script, cwd=tree)
    home.cli("sandbox", "close", sandbox)
    assert outside(main, "git log --format=%s side").split() == ["second", "first"]


def test_readonly_profile_can_read_but_not_write_the_main_repository(home):
    main, tree = linked(home)
    done = home.cli("run", "--profile", "readonly", "--", "git", "log", "--format=%s", cwd=tree)
    assert done.text == "first\n", done.text
    done = home.cli("run", "--profile", "readonly", "--", "sh", "-c", f"echo x >{main}/.git/x", cwd=tree, status=None)
    assert not os.path.exists(main + "/.git/x"), done.err


def test_commits_of_copy_on_write_runs_are_applied(home):
    main, tree = linked(home)
    inside(home, tree, "echo 1 >>f && git commit -qam second", "--cow")
    assert outside(main, "git log --format=%s side") == "first\n"
    process = home.cli("ps", "--all", "--json").json[0]["processId"]
    home.cli("apply", process)
    assert outside(tree, "git log --format=%s").split() == ["second", "first"]
    assert outside(tree, "git status --short") == ""


def test_hooks_and_config_of_the_main_repository_stay_read_only(home):
    """In the main repository, in the worktree's part of it, in other worktrees' and in submodules."""
    main, tree = linked(home)
    outside(main, "git worktree add -q ../second && git submodule --quiet add ../main mod && git commit -qm mod && git config extensions.worktreeConfig true && "
                  "git -C ../linked config --worktree a.b c")
    git = os.path.join(main, ".git")
    shut = ["hooks/pre-commit", "hooks/new", "config", "config.worktree", "worktrees/linked/gitdir", "worktrees/linked/commondir", "worktrees/linked/config.worktree",
            "worktrees/second/gitdir", "worktrees/second/HEAD", "worktrees/new", "modules/mod/config", "modules/mod/hooks/x", "modules/new"]
    put(os.path.join(git, "hooks", "pre-commit"), "#!/bin/sh\n")
    put(os.path.join(git, "config.worktree"), "[core]\n")
    shut = [os.path.join(git, p) for p in shut] + [os.path.join(tree, ".git")]
    before = {p: get(p) if os.path.exists(p) else None for p in shut}
    for path in shut:
        inside(home, tree, f"! echo evil 2>/dev/null >{path} && ! rm -f {path}.none/../x 2>/dev/null || true; ! mv -f f {path} 2>/dev/null")
    inside(home, tree, f"cd {git} && ! mv hooks h 2>/dev/null && ! mv worktrees w 2>/dev/null && ! mv worktrees/linked worktrees/x 2>/dev/null && ! mv ../.git ../g 2>/dev/null")
    for path, text in before.items():
        assert (get(path) if os.path.exists(path) else None) == text, path
    # The main working tree is not part of it; below a private /tmp a command can create such a path for itself.
    inside(home, tree, f"! cat {main}/f 2>/dev/null; echo evil 2>/dev/null >>{main}/f || true")
    assert get(main + "/f") == "x\n"


def test_requests_of_agents_lift_no_protection(home):
    main, tree = linked(home)
    outside(home.work, "git clone -q --bare main store && cd store && git worktree add -q ../one -b one")
    with home.rpc() as rpc:
        rpc.call("initialize", role="agent", clientName="test")
        ran = 0
        for top, git in ((tree, main + "/.git"), (os.path.join(home.work, "one"), os.path.join(home.work, "store"))):
            part = os.path.join(git, "worktrees", os.path.basename(top))
            assert rpc.run(["git", "status"], cwd=top, profile="workspace")[1]["exitCode"] == 0
            for path in (git + "/hooks/x", git + "/config", part + "/gitdir", part + "/commondir", git + "/worktrees/y"):
                old = get(path) if os.path.exists(path) else None
                above = [path]
                while os.path.dirname(above[-1]) != home.work:
                    above.append(os.path.dirname(above[-1]))
                for read in above[1:]:
                    for write in above:
                        try:
                            ran += rpc.run(["sh", "-c", f"echo evil >{path}"], cwd=top, profile="workspace", sandbox={"readRoots": [read], "writeRoots": [write]})[1]["exitCode"] != 0
                        except harness.RpcError:
                            pass
                        assert (get(path) if os.path.exists(path) else None) == old, f"{path}: {read} {write}"
        assert ran > 10, "no request was tried"


def test_autorun_files_of_the_main_repository_are_compared(home):
    main, tree = linked(home)
    with home.rpc() as rpc:
        _, result = rpc.run(["sh", "-c", f"mkdir -p {main}/.git/new && cd {main}/.git && echo /x >commondir"], cwd=tree)
        files = {f["path"]: f["change"] for f in result.get("autorun", {}).get("files", [])}
        assert files == {f"{main}/.git/commondir": "added"}, result
        os.unlink(f"{main}/.git/commondir")
        _, result = rpc.run(["sh", "-c", WHO + "echo 1 >>f; git commit -qam second"], cwd=tree)
        assert result["exitCode"] == 0 and "autorun" not in result, result


# ---- forged files ----


def forged(home, target):
    """A workspace of its own whose .git names something else."""
    path = os.path.join(home.work, "forged")
    os.makedirs(path, exist_ok=True)
    put(os.path.join(path, ".git"), f"gitdir: {target}\n")
    return path


def gives_nothing(home, target, probe):
    """Checks that nothing of it can be written; returns the message of the command line about a failed git."""
    tree = forged(home, target)
    inside(home, tree, f"! echo evil 2>/dev/null >{probe}")
    assert not os.path.exists(probe), f"{target} can be written"
    shown = home.cli("sandbox", "show", "workspace", "--json", cwd=tree).json["sandboxProfile"]["writeRoots"]
    assert shown == [tree], shown
    return inside(home, tree, "git status", status=128).err.decode()


def test_forged_link_to_a_plain_directory_gives_no_access(home):
    secret = os.path.join(home.work, "secret")
    put(os.path.join(secret, "key"), "x")
    gives_nothing(home, secret, secret + "/evil")
    gives_nothing(home, "../secret", secret + "/evil")
    put(os.path.join(secret, "worktrees", "x", "gitdir"), os.path.join(home.work, "forged", ".git\n"))
    put(os.path.join(secret, "worktrees", "x", "commondir"), "../..\n")
    put(os.path.join(secret, "worktrees", "x", "HEAD"), "ref: refs/heads/x\n")
    gives_nothing(home, secret + "/worktrees/x", secret + "/evil")


def test_link_to_a_repository_without_backlink_gives_no_access(home):
    main, _ = linked(home)
    err = gives_nothing(home, main + "/.git/worktrees/linked", main + "/.git/evil")
    assert f"--rw {main}/.git " in err and "does not name the workspace" in err, err
    err = gives_nothing(home, main + "/.git", main + "/.git/evil")
    assert f"--rw {main}/.git " in err, err


def test_hint_never_suggests_a_directory_that_is_not_a_repositorys(home):
    for name in (".ssh", ".ssh/worktrees/x", ".password-store/.git", "secret", ".config/x.git"):
        target = os.path.join(home.work, name)
        os.makedirs(target, exist_ok=True)
        err = gives_nothing(home, target, target + "/evil")
        assert "--rw" not in err and "--ro" not in err and "not named like a repository" in err, (name, err)
    for target in (os.path.join(os.path.expanduser("~"), ".ssh"), "/etc/.git", "/var/lib/bailiff/x.git", "/"):
        err = inside(home, forged(home, target), "git status", status=128).err.decode()
        assert "--rw" not in err and "--ro" not in err, (target, err)
    with home.rpc() as rpc:
        opened = [e["payload"]["wouldOpen"] for e in rpc.events() if "wouldOpen" in e["payload"]]
    assert not any(name in root for o in opened for root in o["writeRoots"] + o["readRoots"] for name in (".ssh", ".password-store", "secret", ".config", "/etc")), opened


def test_option_in_the_hint_makes_git_work(home):
    main, _ = linked(home)
    tree = forged(home, main + "/.git")
    inside(home, tree, "git log --format=%s && ! echo x 2>/dev/null >$(git rev-parse --git-path hooks/x)", "--rw", main + "/.git")
    outside(home.work, "git clone -q --bare main store")
    tree = forged(home, "../store")
    inside(home, tree, "git log --format=%s && ! echo x 2>/dev/null >../store/hooks/x && ! echo x 2>/dev/null >>../store/config", "--rw", os.path.join(home.work, "store"))


def test_forged_commondir_in_the_workspace_gives_no_access(home):
    main = main_tree(home)
    tree = forged(home, os.path.join(home.work, "forged", "part"))
    for name, text in (("gitdir", f"{tree}/.git\n"), ("commondir", f"{main}/.git\n"), ("HEAD", "ref: refs/heads/trunk\n")):
        put(os.path.join(tree, "part", name), text)
    inside(home, tree, f"! echo evil 2>/dev/null >{main}/.git/evil")
    assert home.cli("sandbox", "show", "workspace", "--json", cwd=tree).json["sandboxProfile"]["writeRoots"] == [tree]


def test_symlinks_in_the_chain_give_no_access(home):
    """In the path of .git, of the worktree's directory and of the common directory: a symlink proves nothing."""
    main, tree = linked(home)
    real = os.path.join(home.work, "real")
    os.rename(main, real)
    os.symlink(real, main)
    inside(home, tree, f"! echo evil 2>/dev/null >{real}/.git/evil")
    os.unlink(main)
    os.rename(real, main)
    inside(home, tree, "git status")
    secret = os.path.join(home.work, "secret")
    os.rename(main + "/.git/worktrees/linked", secret)
    os.symlink(secret, main + "/.git/worktrees/linked")
    for _ in range(3):  # also right after a start for which it was proven
        home.cli("run", "--profile", "workspace", "--", "sh", "-c", f"echo evil >{secret}/evil", cwd=tree, status=None)
        assert not os.path.exists(secret + "/evil")


def test_linked_hooks_of_nested_repositories_stay_protected(home):
    """The link and its neighbours stay unchanged. Its target is protected if it can be resolved; if not, commands start anyway."""
    targets = {"simple": "../../tools/githooks", "system": "/usr/local/bin", "odd": "../nowhere", "far": "../../tools/../tools/other", "up": "../../.."}
    tree = os.path.join(home.work, "tree")
    put(os.path.join(tree, ".git", "config"), "[core]\n")
    for name in ("tools/githooks", "tools/other", "elsewhere"):
        os.makedirs(os.path.join(tree, name))
    for name, target in targets.items():
        os.makedirs(os.path.join(tree, name, ".git"))
        os.symlink(target, os.path.join(tree, name, ".git", "hooks"))
        put(os.path.join(tree, name, ".git", "config"), "[core]\n")
    tries = [script for name in targets for script in (f"ln -sfn ../../elsewhere {name}/.git/hooks", f"rm {name}/.git/hooks", f"mv {name}/.git/hooks x",
                                                             f"echo x >>{name}/.git/config", f"mv {name} x")]
    tries += ["echo x >simple/.git/hooks/pre-commit", "echo x >tools/githooks/pre-commit", "mv tools x"]
    for options in ((), ("--cow",)):
        inside(home, tree, "\n".join(f"! ( {script} ) 2>/dev/null || {{ echo 'done: {script}'; exit 1; }}" for script in tries), *options)
    for name, target in targets.items():
        assert os.readlink(os.path.join(tree, name, ".git", "hooks")) == target
    assert not os.listdir(os.path.join(tree, "tools", "githooks"))
    # Unprotected targets are reported one by one, unless they are all files of the workspace.
    os.unlink(os.path.join(tree, "up", ".git", "hooks"))
    done = inside(home, tree, "echo x >tools/other/pre-commit")
    assert b"files that git executes outside" in done.err and b"pre-commit" in done.err, done.err


def test_a_submodule_must_be_in_its_superproject(home):
    """Commands that can write a git directory can name any working tree in it; only one inside the superproject is accepted."""
    top, tree = submodule(home)
    out = forged(home, top + "/.git/modules/mod")
    outside(top, f"git config -f .git/modules/mod/config core.worktree {out}")
    gives_nothing(home, top + "/.git/modules/mod", top + "/.git/modules/mod/evil")
    inside(home, tree, f"! echo evil 2>/dev/null >{top}/.git/modules/mod/evil")
    outside(top, "git config -f .git/modules/mod/config core.worktree ../../../mod")
    inside(home, tree, "git status")


def test_a_worktree_cannot_register_another(home):
    main, tree = linked(home)
    target = os.path.join(home.work, "target")
    put(target + "/.git", f"gitdir: {main}/.git/worktrees/target\n")
    inside(home, tree, f"""cd {main}/.git
        ! mkdir worktrees/target 2>/dev/null
        ! cp -r worktrees/linked worktrees/target 2>/dev/null
        ! echo {target}/.git 2>/dev/null >worktrees/linked/gitdir
        mkdir -p x/worktrees/target && cp -r worktrees/linked/* x/worktrees/target && echo {target}/.git >x/worktrees/target/gitdir""")
    inside(home, target, f"! echo evil 2>/dev/null >{main}/.git/evil")


def forge_common(home, tree, common, name):
    """A command in `tree` makes a directory of it the main repository of a worktree `name`, which then is a workspace."""
    inside(home, tree, f"""mkdir -p {common}/objects {common}/refs {common}/worktrees/{name} {name}
        echo ref: refs/heads/x | tee {common}/HEAD >{common}/worktrees/{name}/HEAD
        echo ../.. >{common}/worktrees/{name}/commondir; echo $PWD/{name}/.git >{common}/worktrees/{name}/gitdir
        echo gitdir: $PWD/{common}/worktrees/{name} >{name}/.git""")
    return os.path.join(tree, name)


def test_forged_repository_around_protected_paths_gives_no_access(home):
    """A nested repository, one that is the forged one's own .git, and a submodule's directory."""
    tree = main_tree(home)
    outside(tree, "git clone -q . deep/lib && git clone -q . lib && git submodule --quiet add $PWD/lib mod")
    forged_ones = [("deep", "deep/lib/.git"), ("lib", "lib/.git"), (".git/modules", ".git/modules/mod")]
    for i, (common, git) in enumerate(forged_ones):
        assert not os.path.exists(os.path.join(tree, git, "hooks/pre-commit"))
        inside(home, forge_common(home, tree, common, f"w{i}"), f"! echo evil 2>/dev/null >{tree}/{git}/hooks/pre-commit; ! echo evil 2>/dev/null >>{tree}/{git}/config")
        assert "evil" not in get(os.path.join(tree, git, "config")) and not os.path.exists(os.path.join(tree, git, "hooks/pre-commit")), git


def test_forged_repository_of_writable_files_is_accepted(home):
    """Everything in it was writable anyway. This shows that the forgeries above are complete."""
    tree = main_tree(home)
    inside(home, forge_common(home, tree, "plain", "w"), f"echo x >{tree}/plain/x")


def test_git_files_of_another_user_give_no_access(home):
    if os.geteuid() != 0:
        raise Skip("requires root to change the owner")
    main, tree = linked(home)
    os.chown(main + "/.git/worktrees/linked/gitdir", 65534, 65534)
    inside(home, tree, f"! echo evil 2>/dev/null >{main}/.git/evil")
    os.chown(main + "/.git/worktrees/linked/gitdir", 0, 0)
    os.chown(main + "/.git", 65534, 65534)
    inside(home, tree, f"! echo evil 2>/dev/null >{main}/.git/evil")


def test_removed_main_repository_is_not_recreated(home):
    main, tree = linked(home)
    inside(home, tree, "git status --short")
    os.rename(main, main + ".away")
    inside(home, tree, "! git status 2>/dev/null")
    assert not os.path.exists(main), "something was created in its place"
    os.rename(main + ".away", main)
    inside(home, tree, "git status --short")


def test_removed_worktree_loses_its_access(home):
    """A proof of a moment ago is checked again."""
    main, tree = linked(home)
    inside(home, tree, "git status --short")
    outside(main, "git worktree remove ../linked && git worktree add -q ../linked -b again")
    inside(home, tree, "echo 1 >>f && git commit -qam second")
    outside(main, "git worktree remove --force ../linked && git worktree prune && mkdir ../linked")
    inside(home, tree, f"! echo evil 2>/dev/null >{main}/.git/evil")


if __name__ == "__main__":
    harness.main(globals())
