"""Autorun files, which git, editors and agents execute outside the sandbox, are read-only, or their changes are reported."""

import os
import re
import signal
import subprocess

import harness
from harness import Skip, until
from files import get, put
from mcp_clients import Raw
from mcp import text_of

TABLE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "sandbox", "autorun.def")
HOOK = "#!/bin/sh\ntouch /tmp/owned\n"


def content(path):
    return get(path) if os.path.isfile(path) else None


def git(*args, cwd):
    env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null", GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@b",
               GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@b")
    subprocess.run(["git", "-c", "protocol.file.allow=always", *args], cwd=cwd, env=env, check=True, capture_output=True)


def project(home, bare=False):
    tree = os.path.join(home.work, "proj")
    os.mkdir(tree)
    git("init", "-q", *(["--bare"] if bare else []), ".", cwd=tree)
    return tree


def run(rpc, tree, script, **more):
    started, result = rpc.run(["sh", "-c", script], cwd=tree, **more)
    return started["processId"], result


def reported(result):
    return {f["path"]: f["change"] for f in result.get("autorun", {}).get("files", [])}


def never_silent(home, tree, paths, script):
    """A command writes these files: each one is unchanged afterwards, or reported."""
    before = {p: content(os.path.join(tree, p)) for p in paths}
    with home.rpc() as rpc:
        _, result = run(rpc, tree, script)
    told = reported(result)
    for p in paths:
        whole = os.path.join(tree, p)
        now = content(whole)
        if now == before[p]:
            assert whole not in told, (p, told)
        else:
            assert told.get(whole) == ("added" if before[p] is None else "modified"), (p, now, result.get("autorun"))
    return told


def test_new_config_worktree_is_protected_or_reported(home):
    tree = project(home)
    never_silent(home, tree, [".git/config.worktree"], "echo '[core]' > .git/config.worktree")


def test_config_worktree_of_linked_worktrees_is_protected_or_reported(home):
    tree = project(home)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=tree)
    git("worktree", "add", "-q", os.path.join(home.work, "linked"), cwd=tree)
    told = never_silent(home, tree, [".git/worktrees/linked/config.worktree", ".git/worktrees/linked/gitdir"],
                        "echo '[core]' > .git/worktrees/linked/config.worktree; echo /x > .git/worktrees/linked/gitdir")
    assert len(told) == 2, told


def test_git_directories_of_submodules_are_protected_or_reported(home):
    tree = project(home)
    other = os.path.join(home.work, "other")
    os.mkdir(other)
    git("init", "-q", ".", cwd=other)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=other)
    git("submodule", "--quiet", "add", other, "deep/sub", cwd=tree)
    names = [f".git/modules/deep/sub/{n}" for n in ("config", "config.worktree", "hooks/post-checkout", "commondir")]
    never_silent(home, tree, names, "".join(f"echo x > {n};" for n in names))


def test_hooks_of_bare_repositories_are_protected_or_reported(home):
    tree = project(home)
    git("init", "-q", "--bare", "a/b/c/d/store", cwd=tree)
    git("init", "-q", "--bare", "near.git", cwd=tree)
    names = [f"{repo}/{n}" for repo in ("a/b/c/d/store", "near.git") for n in ("hooks/post-receive", "config", "config.worktree")]
    told = never_silent(home, tree, names, "".join(f"echo x >> {n};" for n in names))
    # The near one was found and is protected; what can be created in it has no effect without a setting in its config.
    assert sorted(os.path.relpath(p, tree) for p in told if "near" in p) == ["near.git/config.worktree"], told
    with home.rpc() as rpc:
        who = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; "
        _, result = run(rpc, tree, who + "git commit -q --allow-empty -m x && git push -q ./near.git HEAD:refs/heads/x && git -C near.git gc -q")
        assert result["exitCode"] == 0, rpc.outputs(result["processId"])


def test_bare_repository_as_workspace_is_protected(home):
    tree = project(home, bare=True)
    names = ["hooks/post-receive", "config", "config.worktree", "commondir"]
    told = never_silent(home, tree, names, "".join(f"echo x >> {n};" for n in names))
    assert sorted(os.path.relpath(p, tree) for p in told) == ["commondir", "config.worktree"], told


def test_files_that_redirect_git_are_reported(home):
    tree = project(home)
    os.mkdir(os.path.join(tree, "sub"))
    told = never_silent(home, tree, [".git/commondir", ".git/gitdir", "sub/.git"],
                        "echo ../evil > .git/commondir; echo ../evil > .git/gitdir; echo 'gitdir: ../evil' > sub/.git")
    assert len(told) == 3, told


def test_link_named_dot_git_is_reported_and_reverted(home):
    tree = project(home)
    with home.rpc() as rpc:
        process, result = run(rpc, tree, "mkdir sub; ln -s ../evil sub/.git")
        assert reported(result) == {os.path.join(tree, "sub/.git"): "added"}, result
        assert rpc.call("revert_autorun", processId=process)["reverted"] == [os.path.join(tree, "sub/.git")]
    assert not os.path.lexists(os.path.join(tree, "sub/.git"))


def test_missing_git_config_is_protected_or_reported(home):
    tree = project(home)
    os.unlink(os.path.join(tree, ".git/config"))
    never_silent(home, tree, [".git/config"], "printf '[core]\\nfsmonitor = ./evil\\n' > .git/config")


def test_new_and_deeply_nested_repositories_are_reported(home):
    tree = project(home)
    told = never_silent(home, tree, ["n/.git/config", "a/b/c/d/e/f/.git/config", "a/b/c/d/e/f/.git/hooks/pre-commit", "c/x/config", "c/x/hooks/update"],
                        "git init -q n; git init -q a/b/c/d/e/f; echo x > a/b/c/d/e/f/.git/hooks/pre-commit;"
                        "mkdir -p c/x/hooks c/x/refs c/x/objects; echo 'ref: refs/heads/x' > c/x/HEAD; echo x > c/x/config; echo x > c/x/hooks/update")
    assert len(told) == 5, told


def test_renaming_a_folder_into_a_repository_is_reported(home):
    """The second run only renames a folder."""
    tree = project(home)
    with home.rpc() as rpc:
        _, result = run(rpc, tree, "mkdir -p sub/prepared/hooks; echo x > sub/prepared/config; echo x > sub/prepared/hooks/pre-commit")
        assert not reported(result), result
        _, result = run(rpc, tree, "mv sub/prepared sub/.git")
        assert set(reported(result)) == {os.path.join(tree, "sub/.git", n) for n in ("config", "hooks/pre-commit")}, result


def test_change_of_a_config_that_the_host_replaced_is_reported_and_reverted(home):
    """The kernel removes the mount together with the replaced file: the new file is writable inside."""
    tree = project(home)
    config = os.path.join(tree, ".git/config")
    with home.rpc() as rpc:
        started = rpc.start(["sh", "-c", "touch ready; while [ ! -e go ]; do sleep 0.05; done; echo '[core] fsmonitor = ./evil' >> .git/config; true"], cwd=tree)
        until("the command runs", lambda: os.path.exists(os.path.join(tree, "ready")))
        git("config", "user.name", "someone", cwd=tree)
        put(os.path.join(tree, "go"))
        result = rpc.wait(started["processId"])
        assert reported(result) == {config: "modified"}, result
        assert "fsmonitor" in get(config)
        rpc.call("revert_autorun", processId=started["processId"])
        assert "fsmonitor" not in get(config)


def test_long_protected_file_is_compared(home):
    """Its content is not read as long as it cannot be written at its path; through another name it can."""
    tree = project(home)
    hook, other = os.path.join(tree, ".git/hooks/pre-commit"), os.path.join(tree, "other")
    put(hook, "#!/bin/sh\n" + "# long\n" * 20000, 0o755)
    os.link(hook, other)
    with home.rpc() as rpc:
        _, result = run(rpc, tree, "cat .git/hooks/pre-commit other >/dev/null; ! echo evil >>.git/hooks/pre-commit")
        assert result["exitCode"] == 0 and "autorun" not in result, result
        _, result = run(rpc, tree, "echo evil >>other")
        assert reported(result) == {hook: "modified"} and get(hook).endswith("evil\n"), result


def test_included_config_files_and_hooks_path_are_reported(home):
    tree = project(home)
    git("config", "core.hooksPath", "scripts/hooks", cwd=tree)
    git("config", "include.path", "../tools/gitconfig", cwd=tree)
    put(os.path.join(tree, "tools/gitconfig"), "[include]\n\tpath = more\n")
    told = never_silent(home, tree, ["scripts/hooks/pre-commit", "tools/gitconfig", "tools/more"],
                        "mkdir -p scripts/hooks; echo x > scripts/hooks/pre-commit; echo x >> tools/gitconfig; echo x > tools/more")
    assert len(told) == 3, told


def test_target_of_a_linked_autorun_file_is_reported(home):
    tree = project(home)
    put(os.path.join(tree, "env/shared"), "export A=1\n")
    os.symlink("env/shared", os.path.join(tree, ".envrc"))
    told = never_silent(home, tree, ["env/shared"], "echo evil >> env/shared")
    assert set(told) == {os.path.join(tree, "env/shared")}, told


def test_retargeted_link_is_reported(home):
    tree = project(home)
    os.symlink("made/env", os.path.join(tree, ".envrc"))  # leads to nothing yet
    put(os.path.join(tree, "v1/rc"), "old\n")
    put(os.path.join(tree, "v2/rc"), "prepared\n")
    os.symlink("v1", os.path.join(tree, "current"))
    os.symlink("current/rc", os.path.join(tree, ".vimrc"))
    with home.rpc() as rpc:
        _, result = run(rpc, tree, "mkdir made; echo evil > made/env; ln -sfn v2 current")
        assert set(reported(result)) == {os.path.join(tree, "made/env"), os.path.join(tree, "v2/rc")}, result


def test_revert_keeps_files_that_existed_before_the_run(home):
    tree = project(home)
    for name in ("src/build.sh", "scripts/deploy", "notes"):
        put(os.path.join(tree, name), "mine\n")
    with home.rpc() as rpc:
        process, result = run(rpc, tree, "ln -s src/build.sh .envrc; git init -q sub; "
                              f"git -C sub config core.hooksPath {tree}/scripts; git -C sub config include.path {tree}/notes")
        assert {os.path.join(tree, n) for n in (".envrc", "sub/.git/config", "src/build.sh", "scripts/deploy", "notes")} == set(reported(result)), result
        done = rpc.call("revert_autorun", processId=process)
        assert done["reverted"] == [os.path.join(tree, n) for n in (".envrc", "sub/.git/config")], done
        assert all("before the run" in c["reason"] for c in done["conflicts"]) and len(done["conflicts"]) == 3, done
    for name in ("src/build.sh", "scripts/deploy", "notes"):
        assert get(os.path.join(tree, name)) == "mine\n", name
    assert not os.path.lexists(os.path.join(tree, ".envrc"))


def test_folder_made_unreadable_is_reported_as_not_examined(home):
    tree = project(home)
    with home.rpc() as rpc:
        for mode in ("000", "300", "400"):
            _, result = run(rpc, tree, f"mkdir -p in{mode}/deeper; echo evil > in{mode}/deeper/.envrc; chmod {mode} in{mode}")
            assert "shut" in result.get("autorun", {}).get("notExamined", []), (mode, result)
            os.chmod(os.path.join(tree, f"in{mode}"), 0o755)


def test_every_path_of_the_autorun_table_is_reported(home):
    tree = project(home)
    rows = re.findall(r'^AUTORUN\((FILE|TREE), "([^"]+)", "([^"]+)"', get(TABLE), re.M)
    assert len(rows) > 40, rows
    expected = {}
    for kind, path, program in rows:
        if path == ".git":
            continue
        name = path.replace("*", "any") + ("/deep/file" if kind == "TREE" else "")
        expected[os.path.join(tree, "at", "some", "depth", name)] = program
    script = "".join(f"mkdir -p '{os.path.dirname(p)}'; echo x > '{p}';" for p in expected)
    with home.rpc() as rpc:
        process, result = run(rpc, tree, script)
        assert result["autorun"]["changed"] == len(expected) and result["autorun"]["omitted"] == len(expected) - 20, result["autorun"]
        event, = rpc.events(processId=process, types=["sandbox.autorun.changed"])
        found = {f["path"]: f["program"] for f in event["payload"]["files"]}
        assert found == expected, set(found.items()) ^ set(expected.items())


def test_ordinary_work_is_not_reported(home):
    tree = project(home)
    with home.rpc() as rpc:
        _, result = run(rpc, tree, "echo x > file; mkdir -p src/deep; touch src/deep/Makefile package.json; git add . ; git -c user.name=a -c user.email=a@b commit -qm x; "
                        "git branch other; git checkout -q other; git gc -q; cp .git/HEAD src/HEAD")
        assert result["exitCode"] == 0 and "autorun" not in result, result
        _, result = run(rpc, tree, "true", sandbox={"readRoots": [tree]})
        assert "autorun" not in result, result
        _, result = run(rpc, tree, "touch x/.envrc")
        assert "autorun" not in result, result


def changes_of_everything(tree):
    put(os.path.join(tree, ".envrc"), "export A=1\n", 0o640)
    put(os.path.join(tree, ".husky/pre-commit"), "npm test\n", 0o755)
    os.symlink("elsewhere", os.path.join(tree, ".vimrc"))
    return ("echo evil >> .envrc; rm -r .husky; ln -sfn evil .vimrc; mkdir .vscode; echo {} > .vscode/tasks.json; git init -q sub;"
            "printf '%s' '#!/bin/sh' > sub/.git/hooks/pre-commit; chmod +x sub/.git/hooks/pre-commit")


def test_revert_restores_every_kind_of_change(home):
    tree = project(home)
    script = changes_of_everything(tree)
    with home.rpc() as rpc:
        process, result = run(rpc, tree, script)
        told = {os.path.relpath(p, tree): c for p, c in reported(result).items()}
        assert told == {".envrc": "modified", ".husky/pre-commit": "deleted", ".vimrc": "modified", ".vscode/tasks.json": "added",
                        "sub/.git/config": "added", "sub/.git/hooks/pre-commit": "added"}, told
        assert rpc.call("get_process", processId=process)["autorun"] == result["autorun"]
        one = rpc.call("revert_autorun", processId=process, paths=[os.path.join(tree, ".vscode")])
        assert one["reverted"] == [os.path.join(tree, ".vscode/tasks.json")] and not one["conflicts"], one
        put(os.path.join(tree, "sub/.git/hooks/pre-commit"), "mine by now\n")
        done = rpc.call("revert_autorun", processId=process)
        assert [c["path"] for c in done["conflicts"]] == [os.path.join(tree, "sub/.git/hooks/pre-commit")], done
        assert "since" in done["conflicts"][0]["reason"], done
        facts = rpc.events(processId=process, types=["artifact.changed"])
        assert [f["payload"]["change"] for f in facts][:3] == ["requested", "added", "summary"], facts
        assert all(f["payload"]["source"] == "revert" and f["payload"]["by"]["uid"] == os.geteuid() for f in facts), facts
    assert get(os.path.join(tree, ".envrc")) == "export A=1\n" and os.stat(os.path.join(tree, ".envrc")).st_mode & 0o777 == 0o640
    assert os.stat(os.path.join(tree, ".envrc")).st_uid == os.geteuid()
    assert get(os.path.join(tree, ".husky/pre-commit")) == "npm test\n" and os.access(os.path.join(tree, ".husky/pre-commit"), os.X_OK)
    assert os.readlink(os.path.join(tree, ".vimrc")) == "elsewhere"
    assert not os.path.exists(os.path.join(tree, ".vscode/tasks.json")) and not os.path.exists(os.path.join(tree, "sub/.git/config"))
    assert get(os.path.join(tree, "sub/.git/hooks/pre-commit")) == "mine by now\n"


def test_revert_without_changes_is_rejected(home):
    tree = project(home)
    with home.rpc() as rpc:
        process, _ = run(rpc, tree, "true")
        assert "nothing to revert" in rpc.fails("revert_autorun", processId=process).message
        rpc.fails("revert_autorun", processId="proc_none")
        process, result = run(rpc, tree, "echo x > .envrc", cow=True)
        assert "copy-on-write" in rpc.fails("revert_autorun", processId=process).message


def test_command_line_reports_changed_autorun_files(home):
    tree = project(home)
    done = home.cli("run", "--", "sh", "-c", "echo x > .envrc; git init -q sub", cwd=tree).err.decode()
    assert "this command changed files that git executes outside the sandbox: added " + os.path.join(tree, "sub/.git/config") in done, done
    assert "direnv executes" in done and "bailiff revert proc_" in done, done
    process = re.search(r"bailiff revert (proc_\w+)", done).group(1)
    assert b"direnv executes" in home.cli("wait", process, cwd=tree).err
    assert b"reverted" in home.cli("revert", process, os.path.join(tree, ".envrc"), cwd=tree).out
    again = home.cli("revert", process, ".envrc", cwd=tree)
    assert again.out == b"" and again.err == b"bailiff: no changes left to be reverted\n", again.err
    changes = home.cli("revert", "--json", process, ".envrc", cwd=tree).json
    assert changes["reverted"] == [] and [c["outcome"] for c in changes["changes"]] == ["unchanged"], changes
    # It was no copy-on-write run, so there is no diff to look at.
    said = home.cli("revert", process, "elsewhere", cwd=tree, status=1).err.decode()
    assert "elsewhere: no changes" in said and f"bailiff wait {process} lists the files" in said, said
    assert not os.path.exists(os.path.join(tree, ".envrc")) and os.path.exists(os.path.join(tree, "sub/.git/config"))
    assert not home.cli("run", "--", "true", cwd=tree).err


def test_mcp_result_reports_changed_autorun_files(home):
    tree = project(home)
    with Raw(home, cwd=tree) as client:
        said = text_of(client.call("exec", command="echo x > .envrc; echo fine"))
        assert "direnv executes outside the sandbox: added " + os.path.join(tree, ".envrc") in said and "fine" in said, said


def test_apply_holds_autorun_files_back_until_they_are_named(home):
    tree = project(home)
    with home.rpc() as rpc:
        process, result = run(rpc, tree, "echo x > .envrc; echo x > file; git init -q sub", cow=True)
        if result["status"] == "failed":
            raise Skip("no copy-on-write here")
        assert set(reported(result)) == {os.path.join(tree, n) for n in (".envrc", "sub/.git/config")}, result
        assert not os.path.exists(os.path.join(tree, ".envrc"))
        done = rpc.call("apply_changes", processId=process)
        held = {c["path"]: c["reason"] for c in done["conflicts"]}
        assert set(held) == set(reported(result)) and "name it" in held[os.path.join(tree, ".envrc")], done
        assert os.path.exists(os.path.join(tree, "file")) and os.path.exists(os.path.join(tree, "sub/.git/HEAD"))
        assert not os.path.exists(os.path.join(tree, ".envrc")) and not os.path.exists(os.path.join(tree, "sub/.git/config"))
        done = rpc.call("apply_changes", processId=process, paths=[os.path.join(tree, ".envrc")])
        assert done["applied"] == [os.path.join(tree, ".envrc")], done
        assert get(os.path.join(tree, ".envrc")) == "x\n"


def test_apply_holds_autorun_files_back_in_folders_made_unreadable(home):
    """The comparison does not reach a folder that the command made unreadable; apply does."""
    tree = project(home)
    script = "mkdir -p shut/.git/hooks; echo x > shut/.envrc; echo x > shut/.git/hooks/pre-commit; echo x > shut/file; chmod 0 shut"
    held = [os.path.join(tree, "shut", n) for n in (".envrc", ".git/hooks/pre-commit")]
    with home.rpc() as rpc:
        process, result = run(rpc, tree, script, cow=True)
        if result["status"] == "failed":
            raise Skip("no copy-on-write here")
        assert result["autorun"]["notExamined"] == ["shut"], result
        done = rpc.call("apply_changes", processId=process)
        assert sorted(c["path"] for c in done["conflicts"]) == held and "name it" in done["conflicts"][0]["reason"], done
        os.chmod(os.path.join(tree, "shut"), 0o700)
        assert os.path.exists(os.path.join(tree, "shut/file")) and not any(os.path.exists(path) for path in held)
        assert held[0] in rpc.call("apply_changes", processId=process, paths=held[:1])["applied"]
        # In a session sandbox, if any of its commands did that.
        box = rpc.call("create_sandbox", cwd=tree, cow=True)["sandboxId"]
        rpc.run(["sh", "-c", script.replace("shut", "again")], sandboxId=box)
        rpc.run(["sh", "-c", "chmod 700 again"], sandboxId=box)
        holder = rpc.call("get_sandbox", sandboxId=box)["processId"]
        rpc.call("close_sandbox", sandboxId=box)
        done = rpc.call("apply_changes", processId=holder)
        assert sorted(c["path"] for c in done["conflicts"]) == [path.replace("shut", "again") for path in held], done


def test_apply_holds_bare_repositories_and_hooks_back_in_folders_made_unreadable(home):
    """A bare repository is recognised by its files, a target of core.hooksPath by the names of hooks."""
    tree = project(home)
    script = ("mkdir -p shut/bare/objects shut/bare/refs shut/bare/hooks/lib shut/tools shut/plain/hooks; cd shut; echo x > bare/HEAD; echo x > bare/config; "
              "echo x > bare/hooks/lib/x; echo x > tools/pre-push; echo x > tools/common.sh; echo x > plain/config; echo x > plain/hooks/use.ts; cd ..; chmod 0 shut")
    held = sorted(os.path.join(tree, "shut", n) for n in ("bare/config", "bare/hooks/lib/x", "tools/pre-push", "tools/common.sh"))
    with home.rpc() as rpc:
        process, result = run(rpc, tree, script, cow=True)
        if result["status"] == "failed":
            raise Skip("no copy-on-write here")
        assert result["autorun"]["notExamined"] == ["shut"], result
        for _ in range(2):  # also after the rest of the repository was applied
            done = rpc.call("apply_changes", processId=process)
            assert sorted(c["path"] for c in done["conflicts"]) == held, done
        os.chmod(os.path.join(tree, "shut"), 0o700)
        assert os.path.exists(os.path.join(tree, "shut/plain/hooks/use.ts")) and os.path.exists(os.path.join(tree, "shut/bare/HEAD"))
        assert not any(os.path.exists(path) for path in held)
        assert rpc.call("apply_changes", processId=process, paths=held)["applied"], done


def wait_and_write(rpc, tree):
    started = rpc.start(["sh", "-c", "touch ready; while [ ! -e go ]; do sleep 0.05; done; echo x > .envrc"], cwd=tree, onDisconnect="keep")
    until("the command runs", lambda: os.path.exists(os.path.join(tree, "ready")))
    return started["processId"]


def test_changes_are_reported_after_the_death_of_runtime_and_spawner(home):
    tree = project(home)
    with home.rpc() as rpc:
        process = wait_and_write(rpc, tree)
    home.note_tree()
    for part in ("runtime", "spawner"):
        gone = home.kill_part(part)
        until(f"there is another {part}", lambda: home.part(part) not in (None, gone))
    until("the daemon answers", home.answers)
    put(os.path.join(tree, "go"))
    with home.rpc() as rpc:
        result = rpc.wait(process)
        assert reported(result) == {os.path.join(tree, ".envrc"): "added"}, result
        assert rpc.call("revert_autorun", processId=process)["reverted"] == [os.path.join(tree, ".envrc")]


def test_killed_sandbox_is_reported_as_not_examined(home):
    tree = project(home)
    with home.rpc() as rpc:
        process = wait_and_write(rpc, tree)
        os.kill(rpc.call("get_process", processId=process)["pid"], signal.SIGKILL)
        result = rpc.wait(process)
        assert result["autorun"] == {"changed": 0, "examined": "none", "notExamined": ["failed"]}, result


def test_terminated_command_is_examined(home):
    tree = project(home)
    with home.rpc() as rpc:
        started = rpc.start(["sh", "-c", "echo x > .envrc; touch ready; exec sleep 1000"], cwd=tree)
        until("the command runs", lambda: os.path.exists(os.path.join(tree, "ready")))
        rpc.end(started["processId"])
        result = rpc.wait(started["processId"])
        assert reported(result) == {os.path.join(tree, ".envrc"): "added"}, result


def test_huge_tree_is_examined_in_part_and_reported_so(home):
    tree = project(home)
    put(os.path.join(tree, "near/.envrc"), "a\n")
    for i in range(9000):
        os.makedirs(os.path.join(tree, "many", str(i % 90), str(i)))
    old = os.path.join(tree, "many/1/1/.envrc")
    put(old, "old\n")
    os.utime(old, (1, 1))
    with home.rpc() as rpc:
        _, result = run(rpc, tree, "true")
        assert result["autorun"]["examined"] == "part" and "folders" in result["autorun"]["notExamined"], result
        _, result = run(rpc, tree, "echo evil >> near/.envrc; mkdir -p new/deeper; echo x > new/deeper/.envrc")
        told = reported(result)
        assert {os.path.join(tree, "near/.envrc"): "modified", os.path.join(tree, "new/deeper/.envrc"): "modified"}.items() <= told.items(), result
    done = home.cli("run", "--", "true", cwd=tree).err.decode()
    assert "not all files that programs execute outside the sandbox were examined for changes (there are too many folders" in done, done


if __name__ == "__main__":
    harness.main(globals())
