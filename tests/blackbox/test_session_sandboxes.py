"""The sandboxes that commands of a session share: which starts share one, and what a command leaves running in it."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile

import harness
from filesystems import copied_etc, drive, mounted, replaced_resolver
from harness import Home, until
from test_sandboxes import INVALID, closed_event, create, listed, said


def test_commands_of_a_session_share_a_sandbox_with_the_same_access():
    """Commands that name "session" share a sandbox, as far as they ask for the same; a changed policy replaces it, and the reply says so."""
    with Home(start=False) as home:
        policy, elsewhere = os.path.join(home.dir, "host.json"), os.path.join(home.dir, "elsewhere")
        os.mkdir(elsewhere)
        with open(policy, "w") as f:
            f.write('{"profiles": {"mine": {"extends": "workspace"}}}')
        home.options = ("--audit", "off", "--host-policy", policy)
        home.start()
        with home.rpc() as rpc:
            rpc.fails("start_process", {"command": ["true"], "sandboxId": "session"}, code=INVALID)
            rpc.fails("create_sandbox", {"name": "session", "cwd": home.work}, code=INVALID)
            session = rpc.call("create_session")["sessionId"]

            def start(command, **more):
                return rpc.start(command, **dict({"sandboxId": "session", "sessionId": session, "cwd": home.work, "profile": "mine"}, **more))
            both = [start(f"echo {i} > /tmp/{i}; until test -s /tmp/{1 - i}; do sleep 0.01; done") for i in (0, 1)]
            first = both[0]["sandboxId"]
            assert {p["sandboxId"] for p in both} == {first} and [rpc.wait(p["processId"])["exitCode"] for p in both] == [0, 0]
            assert "warnings" not in both[0] and "warnings" not in start("true")
            # Copy-on-write: a sandbox of its own. Limits on the tree are the command's.
            single = start("test ! -e /tmp/0", cow=True)
            assert "sandboxId" not in single and rpc.wait(single["processId"])["exitCode"] == 0, single
            assert len(single["warnings"]) == 1 and "copy-on-write" in single["warnings"][0] and "/tmp" in single["warnings"][0], single
            if os.getuid() == 0:    # others may have no cgroup
                limited = start("test -e /tmp/0", limits={"pids": 50})
                assert limited["sandboxId"] == first and rpc.wait(limited["processId"])["exitCode"] == 0, limited
                assert rpc.call("get_process", processId=limited["processId"])["limits"]["pids"] == 50
            else:
                start("true")
            # Other access, another profile or workspace: another one to share, with the starts that ask for exactly that.
            others = set()
            for more in ({"cwd": elsewhere}, {"sandbox": {"hidden": ["/opt"]}}, {"profile": "readonly"}, {"profile": "readonly", "sandbox": {"hidden": ["/opt"]}}):
                alone, again, back = start("test ! -e /tmp/0; echo > /tmp/2", **more), start("until test -e /tmp/2; do sleep 0.01; done", **more), start("test -e /tmp/0")
                assert [rpc.wait(p["processId"])["exitCode"] for p in (alone, again, back)] == [0, 0, 0], more
                assert alone["sandboxId"] == again["sandboxId"] != back["sandboxId"] == first, (alone, again, back)
                assert first in alone["warnings"][0] and "warnings" not in again and alone["sandboxId"] in back["warnings"][0], (alone, again, back)
                others.add(alone["sandboxId"])
            assert len(others) == 4, others
            # A session has a limited number of them.
            many = [start("true", sandbox={"hidden": [f"/opt/{i}"]}) for i in range(6)]
            assert ["sandboxId" in p for p in many] == [True] * 3 + [False] * 3 and "too many" in many[-1]["warnings"][0], many
            # A directory that is private in every sandbox is not another workspace.
            start("true")
            temporary = start("test -e /tmp/0 && test $PWD = /tmp", cwd="/tmp")
            assert temporary["sandboxId"] == first and rpc.wait(temporary["processId"])["exitCode"] == 0, temporary
            other = rpc.call("create_session")["sessionId"]
            made = [start("true", sessionId=other, cwd=cwd)["sandboxId"] for cwd in ("/tmp", home.work, "/tmp")]
            assert made[0] != made[1] == made[2], made
            rpc.call("update_session", sessionId=other, archived=True)
            with open(policy, "w") as f:
                f.write('{"profiles": {"mine": {"extends": "workspace", "hidden": ["/srv"]}}}')
            rpc.call("reload_policy")

            def replaced():
                again = start("test ! -e /tmp/0")
                return again if again["sandboxId"] != first else None
            again = until("the new profile is in effect", replaced)
            assert session in again["sandboxReplaced"] and again["sandboxReplaced"].endswith('"/srv", which this command would get now'), again
            assert rpc.wait(again["processId"])["exitCode"] == 0
            until("the old one ends", lambda: first not in listed(rpc))
            assert start("true")["sandboxId"] == again["sandboxId"]
            rpc.call("update_session", sessionId=session, archived=True)
            until("they end with the session", lambda: not listed(rpc))


def test_starts_of_a_session_share_only_what_was_created_for_them(home):
    """A client can give its own sandbox, with other access, the name that the next start of the session would look for."""
    with home.rpc() as rpc, home.rpc() as agent:
        agent.call("initialize", role="agent")
        session, other = (rpc.call("create_session", sessionId=name)["sessionId"] for name in ("one", "other"))
        own = {agent.call("create_sandbox", name=name, sessionId=session, cwd=home.work)["sandboxId"] for name in ("one", "one.readonly")}
        own |= {agent.call("create_sandbox", name=f"one.{i}", sessionId=other, cwd=home.work)["sandboxId"] for i in range(8)}

        def start(command, **more):
            started = rpc.start(command, sandboxId="session", sessionId=session, cwd=home.work, **more)
            return started.get("sandboxId"), rpc.wait(started["processId"])["exitCode"], started.get("warnings")
        sandbox, status, warnings = start("touch /tmp/first")
        assert sandbox and sandbox not in own and status == 0 and not warnings, (sandbox, status, warnings)
        readonly, status, warnings = start("touch made", profile="readonly")
        assert readonly and readonly not in own | {sandbox} and status != 0 and sandbox in warnings[0], (readonly, status, warnings)
        assert not os.path.exists(os.path.join(home.work, "made"))
        home.kill_part("runtime")
        until("the runtime is back", home.answers)
    with home.rpc() as rpc:
        assert start("test -e /tmp/first")[:2] == (sandbox, 0)


def test_background_processes_outlive_their_command_in_the_sandbox_of_a_session(home):
    """`server &` is there for the next command, although the first has ended, with a time limit, too; it ends with the sandbox or by request."""
    with home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]

        def start(command, **more):
            return rpc.start(command, **dict({"sandboxId": "session", "sessionId": session, "cwd": home.work}, **more))
        first = start("echo begun; sleep 1000 & until grep -q sleep /proc/$!/comm; do :; done; while :; do sleep 0.1; echo on; done & exit 3", yieldMs=20000, limits={"wallMs": 1000})
        exited = first["commandExited"]
        assert first["status"] == "running" and exited["exitCode"] == 3 and "begun" in first["output"]["stdout"]["data"], first
        assert {p["name"] for p in exited["running"]} <= {"sh", "sleep"} and exited["runningCount"] == len(exited["running"]) >= 2, exited
        waited = rpc.call("wait_process", processId=first["processId"], until="command")
        assert waited["commandExited"] == exited and waited["timedOut"] is False and waited["status"] == "running", waited
        assert rpc.call("wait_process", processId=first["processId"], timeoutMs=1)["timedOut"]
        # Longer than its limit. The pids are those that the next command sees.
        looked = start("sleep 1.2; kill -0 " + " ".join(str(p["pid"]) for p in exited["running"][:2]) + " && pgrep -x sleep >/dev/null", yieldMs=20000)
        assert looked["status"] == "completed" and looked["exitCode"] == 0 and looked["sandboxId"] == first["sandboxId"], looked
        until("its output is still recorded", lambda: rpc.outputs(first["processId"])["stdout"].count(b"on\n") > 5)
        # Ending the process ends what its command left, and nothing else.
        second = start("sleep 2000 & until grep -q sleep /proc/$!/comm; do :; done", yieldMs=20000)
        rpc.call("terminate_process", processId=first["processId"])
        assert rpc.wait(first["processId"])["status"] == "terminated"
        assert rpc.outputs(start("pgrep -af 'sleep [12]000'", yieldMs=20000)["processId"])["stdout"].split()[1:] == [b"sleep", b"2000"]
        # On request the tree ends with its command.
        third = start("sleep 3000 &", yieldMs=20000, keepTree=False)
        assert third["status"] == "completed" and "commandExited" not in third, third
        gone = rpc.call("close_sandbox", sandboxId=first["sandboxId"])
        assert [p["processId"] for p in gone["running"]] == [second["processId"]], gone
        assert rpc.wait(second["processId"])["status"] == "terminated"
        harness.check_log(rpc.events())


def test_background_processes_survive_the_runtime_and_do_not_prevent_the_idle_end(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        left = rpc.start("sleep 1000 & exit 4", sandboxId="session", sessionId=session, cwd=home.work, yieldMs=20000)
        idle = create(rpc, home, idleMs=500)
        ended = rpc.start("sleep 1000 &", sandboxId=idle, keepTree=True, yieldMs=20000)
        assert ended["commandExited"]["exitCode"] == 0, ended
        until("a sandbox without a command ends", lambda: idle not in listed(rpc))
        assert [p["processId"] for p in closed_event(rpc, idle)[0]["payload"]["running"]] == [ended["processId"]]
    home.kill_part("runtime")
    until("the daemon answers", home.answers)
    with home.rpc() as rpc:
        waited = rpc.call("wait_process", processId=left["processId"], until="command")
        assert waited["commandExited"]["exitCode"] == 4 and waited["status"] == "running", waited
        again = rpc.start("pgrep -x sleep", sandboxId="session", sessionId=session, cwd=home.work, yieldMs=20000)
        assert again["exitCode"] == 0 and again["sandboxId"] == left["sandboxId"], again
        rpc.call("update_session", sessionId=session, archived=True)
        assert rpc.wait(left["processId"])["exitCode"] == 4


def test_sandbox_ends_when_a_protected_path_is_removed_on_the_host(home):
    """Removing a file on the host unmounts what protects it in sandboxes; the next command gets a new sandbox, with the protection."""
    subprocess.run(["git", "init", "-q", home.work], check=True)
    with home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]

        def start(command):
            started = rpc.start(command, sandboxId="session", sessionId=session, cwd=home.work)
            return started["sandboxId"], rpc.wait(started["processId"])["exitCode"]
        attack = "echo evil > .git/config"
        first, status = start(attack)
        assert status != 0
        with open(os.path.join(home.work, ".git", "config")) as f:
            text = f.read()
        server = rpc.start("sleep 1000", sandboxId="session", sessionId=session, cwd=home.work)
        assert server["sandboxId"] == first, server
        os.unlink(os.path.join(home.work, ".git", "config"))
        with open(os.path.join(home.work, ".git", "config"), "w") as f:
            f.write(text)
        until("the sandbox ends", lambda: first not in listed(rpc))
        why = f"its session sandbox ended: {home.work}/.git/config was replaced on the host; use a new one"
        end = rpc.wait(server["processId"])
        assert (end["status"], end["signal"], end["message"]) == ("failed", "KILL", why), end
        closed = [e["payload"] for e in rpc.events(sessionId=session) if e["type"] == "sandbox.closed"]
        assert [(c["reason"], c["message"]) for c in closed] == [("failed", why)], closed
        second, status = start(attack)
        assert second != first and status != 0
        with open(os.path.join(home.work, ".git", "config")) as f:
            assert f.read() == text


def test_sandbox_ends_when_a_protected_path_was_moved_on_the_host(home):
    """What protects a path moves along with it, and something new can be in its place. The kernel reports no such change: the next start finds it."""
    sub = os.path.join(home.work, "sub")
    for repository in (home.work, sub):
        subprocess.run(["git", "init", "-q", repository], check=True)
    with home.rpc() as rpc, tempfile.TemporaryDirectory() as shown:
        os.chmod(shown, 0o755)
        session = rpc.call("create_session")["sessionId"]

        def start(command, **more):
            started = rpc.start(command, sandboxId="session", sessionId=session, cwd=home.work, **more)
            return started["sandboxId"], rpc.wait(started["processId"])["exitCode"]

        def moved(folder, path, attack, **more):
            first, status = start(attack, **more)
            assert status != 0, attack
            assert start("true", **more)[0] == first
            os.rename(folder, folder + ".old")
            shutil.copytree(folder + ".old", folder)
            e = rpc.fails("start_process", commandLine=attack, sandboxId="session", sessionId=session, cwd=home.work, **more)
            assert "its session sandbox ended: " in e.message and f"{path[-40:]} was replaced on the host; use a new one" in e.message, e
            second, status = start(attack, **more)
            assert status != 0 and second != first, attack
        for folder, path in ((sub, f"{sub}/.git/config"), (os.path.join(home.work, ".git"), f"{home.work}/.git/config")):
            moved(folder, path, f"echo evil >> {path}")
        for count in (1, 100):      # so many are compared in another way
            hidden = [os.path.join(shown, str(count), str(i)) for i in range(count)]
            for name in hidden:
                os.makedirs(os.path.join(name, "inside"))
            moved(hidden[-1], hidden[-1], f"test -e {hidden[-1]}/inside", sandbox={"readRoots": [shown], "hidden": hidden})


def test_sandbox_ends_when_a_root_was_replaced_on_the_host(home):
    """It would show what was at the path before: the workspace, or another root, may be moved, removed, or in a folder that is."""
    with home.rpc() as rpc, tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        session = rpc.call("create_session")["sessionId"]

        def rename(path):
            os.rename(path, path + ".old")

        def replaced(away, root=".", **more):
            """`away` is done to a folder that contains the root; afterwards there is another one."""
            folder = tempfile.mkdtemp(dir=top)
            path = os.path.normpath(os.path.join(folder, root))
            options = dict(sandboxId="session", sessionId=session, cwd=path)
            if more:
                options.update(cwd=home.work, sandbox={key: [path] for key in more})
            for text in "before", "after":
                os.makedirs(path, exist_ok=True)
                os.chmod(folder, 0o755)
                with open(os.path.join(path, "file"), "w") as f:
                    f.write(text)
                if text == "before":
                    first = rpc.start(f"sleep 1000 & grep before {path}/file", yieldMs=20000, **options)
                    assert first["commandExited"]["exitCode"] == 0, first
                    away(folder)
            e = rpc.fails("start_process", commandLine=f"echo wrong > {path}/file", **options)
            assert "its session sandbox ended: " in e.message and f"{path[-40:]} was replaced on the host; use a new one" in e.message, e
            second, end = rpc.run(f"grep after {path}/file", **options)
            assert end["exitCode"] == 0 and second["sandboxId"] != first["sandboxId"], (first, second, end)
            assert rpc.wait(first["processId"])["status"] == "failed"
        for away in rename, shutil.rmtree:
            replaced(away)
            replaced(away, root="in/it")
            replaced(away, writeRoots=True)
            replaced(away, root="in/it", readRoots=True)


def test_sandbox_survives_the_replacement_of_an_optional_file(home):
    """Such as ~/.gitconfig, which git config replaces. The sandbox continues to show the previous one."""
    shown = os.path.join(home.dir, "shown")
    with open(shown, "w") as f:
        f.write("before")
    with open(os.path.join(home.dir, "policy.json"), "w") as f:
        f.write('{"profiles": {"mine": {"extends": "workspace", "readRoots": ["%s?"]}}}' % shown)
    home.restart()
    with home.rpc() as rpc:
        sandbox = create(rpc, home, profile="mine")
        os.unlink(shown)
        said(rpc, sandbox, f"grep before {shown}")
        with open(shown, "w") as f:
            f.write("after")
        said(rpc, sandbox, f"grep before {shown}")


def test_copy_on_write_sandbox_ends_when_its_workspace_was_replaced_on_the_host(home):
    """The changes belong to the folder that was there: nothing of them gets into the other one, and they apply when it is back."""
    work = os.path.join(home.work, "project")

    def make(text):
        os.mkdir(work)
        with open(os.path.join(work, "file"), "w") as f:
            f.write(text)
    make("before\n")
    with home.rpc() as rpc:
        sandbox = create(rpc, home, cwd=work, cow=True)
        said(rpc, sandbox, "echo changed >> file; echo new > added")
        os.rename(work, work + ".old")
        make("other\n")
        e = rpc.fails("start_process", commandLine="cat file", sandboxId=sandbox)
        assert f"{work[-40:]} was replaced on the host; use a new one" in e.message and e.data["reason"] == "sandbox_ended", e
        e = rpc.fails("start_process", commandLine="cat file", sandboxId=sandbox)
        assert "create another one" in e.message, e
        until("the sandbox ends", lambda: sandbox not in listed(rpc))
        for method in "list_changes", "apply_changes":
            e = rpc.fails(method, sandboxId=sandbox)
            assert "a write root is no longer the directory that it was" in e.message and "put that one back" in e.message, e
        assert sorted(os.listdir(work)) == ["file"]
        os.rename(work, work + ".new")
        os.rename(work + ".old", work)
        rpc.call("apply_changes", sandboxId=sandbox)
        with open(os.path.join(work, "file")) as f:
            assert f.read() == "before\nchanged\n" and sorted(os.listdir(work)) == ["added", "file"]


def test_changes_are_not_applied_to_another_folder_with_the_same_inode():
    """A file system gives the inode of a removed folder to the next one, once nothing has it open any longer."""
    with mounted("ext4") as top, Home() as home:
        work = os.path.join(top, "project")

        def make():
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(work)
            os.mkdir(work)
            return os.stat(work).st_ino
        inode = make()
        with home.rpc() as rpc:
            sandbox = create(rpc, home, cwd=work, cow=True)
            said(rpc, sandbox, "echo new > added")
            rpc.call("close_sandbox", sandboxId=sandbox)
        home.stop()
        until("the inode is used again", lambda: make() == inode)
        home.start()
        with home.rpc() as rpc:
            e = rpc.fails("apply_changes", sandboxId=sandbox)
            assert "a write root is no longer the directory that it was" in e.message and os.listdir(work) == [], e


def test_sandbox_ends_when_a_hidden_path_appears_on_the_host(home):
    """Nothing covers a path that is missing. The next command does not see it; what a command creates in a private folder is its own."""
    with home.rpc() as rpc, tempfile.TemporaryDirectory() as shown:
        os.chmod(shown, 0o755)
        secret, own = os.path.join(shown, "folder", "secret"), f"/tmp/own-{os.getpid()}"
        session = rpc.call("create_session")["sessionId"]
        more = dict(sandboxId="session", sessionId=session, cwd=home.work, sandbox={"readRoots": [shown], "hidden": [secret, own]})
        first = rpc.run(f"mkdir {own} && test ! -e {secret}", **more)
        os.mkdir(os.path.dirname(secret))
        second = rpc.run(f"test -e {own} && test -e {os.path.dirname(secret)}", **more)
        assert first[1]["exitCode"] == second[1]["exitCode"] == 0 and first[0]["sandboxId"] == second[0]["sandboxId"], (first, second)
        with open(secret, "w") as f:
            f.write("secret")
        e = rpc.fails("start_process", commandLine=f"cat {secret}", **more)
        assert f"its session sandbox ended: {secret} is hidden and now exists; use a new one" in e.message, e
        until("the sandbox ends", lambda: first[0]["sandboxId"] not in listed(rpc))
        closed = closed_event(rpc, first[0]["sandboxId"])[0]["payload"]
        assert closed["reason"] == "failed" and "is hidden and now exists" in closed["message"], closed
        started, end = rpc.run(f"cat {secret}", **more)
        assert end["exitCode"] != 0 and b"secret" not in rpc.outputs(started["processId"])["stdout"], end


def test_the_reason_of_an_end_has_the_end_of_a_long_path(home):
    with home.rpc() as rpc:
        for padding in ("x", "xx"):     # one of them would split a character
            work = os.path.join(home.work, padding + "ä" * 80, "with blanks")
            subprocess.run(["git", "init", "-q", work], check=True)
            sandbox = create(rpc, home, cwd=work)
            command = rpc.start("sleep 1000", sandboxId=sandbox)["processId"]
            os.unlink(os.path.join(work, ".git", "config"))
            end = rpc.wait(command)
            before, after = "its session sandbox ended: …", "ä/with blanks/.git/config was replaced on the host; use a new one"
            assert end["message"].startswith(before + "ä") and end["message"].endswith(after) and "\ufffd" not in end["message"], end


def test_sandbox_survives_a_new_resolver_file_of_the_host():
    """Network managers replace resolv.conf, which unmounts what covers it in sandboxes. Names cannot be looked up there, now as before."""
    with replaced_resolver() as (through, replace), Home(through=through) as home, home.rpc() as rpc:
        sandbox = create(rpc, home)
        server = rpc.start("sleep 1000", sandboxId=sandbox)["processId"]
        assert rpc.run("echo kept > /tmp/x; ! grep 192.0.2 /etc/resolv.conf", sandboxId=sandbox)[1]["exitCode"] == 0
        for i in (2, 3):
            replace(i)
            assert rpc.run(f"until grep 192.0.2.{i} /etc/resolv.conf; do sleep 0.01; done; cat /tmp/x; ! getent hosts example.com", sandboxId=sandbox)[1]["exitCode"] == 0
        assert listed(rpc)[sandbox]["status"] == "open" and rpc.call("get_process", processId=server)["status"] == "running"


def test_sandbox_survives_new_account_files_of_the_host():
    """Adding a user replaces passwd, which unmounts the copy that has the command's own name."""
    with copied_etc() as (through, replace), Home(through=through) as home, home.rpc() as rpc:
        sandbox = create(rpc, home)
        server = rpc.start("sleep 1000", sandboxId=sandbox)["processId"]
        assert said(rpc, sandbox, "whoami") == "bailiff-sandbox\n"
        for name in ("passwd", "group"):
            with open(os.path.join("/etc", name)) as f:
                replace(name, f.read() + "added:x:12345:\n")
            said(rpc, sandbox, f"until grep added /etc/{name}; do sleep 0.01; done; ! echo x >> /etc/{name}")
        assert listed(rpc)[sandbox]["status"] == "open" and rpc.call("get_process", processId=server)["status"] == "running"


def test_sandbox_survives_the_removal_of_a_drive():
    """A mount point that is removed on the host is unmounted everywhere. What is then there is shown as the rest of the tree, read-only."""
    with drive() as (top, through, unplug), Home(through=through) as home, home.rpc() as rpc:
        sandbox = create(rpc, home, sandbox={"readRoots": [top]})
        server = rpc.start("sleep 1000", sandboxId=sandbox)["processId"]
        said(rpc, sandbox, f"echo kept > /tmp/x; test -s {top}/usb/file")
        unplug(home)
        said(rpc, sandbox, f"until test ! -e {top}/usb; do sleep 0.01; done; cat /tmp/x; ! mkdir {top}/usb; ! echo x > {top}/new")
        os.makedirs(os.path.join(top, "usb", "again"))
        said(rpc, sandbox, f"test -d {top}/usb/again; ! mkdir {top}/usb/new; ! rmdir {top}/usb/again")
        assert listed(rpc)[sandbox]["status"] == "open" and rpc.call("get_process", processId=server)["status"] == "running"


def test_sandbox_ends_when_the_removal_of_a_drive_may_lift_a_protection():
    """The plan names something on the drive, or the drive was mounted in a write root, where its folder may contain repositories."""
    for access in ({"hidden": "usb/secret"}, {"hidden": "usb/missing"}, {"writeRoots": "usb/tree"}, {"hidden": "usb"}, {"writeRoots": "."}):
        with drive() as (top, through, unplug), Home(through=through) as home, home.rpc() as rpc:
            paths = {key: [os.path.normpath(os.path.join(top, path))] for key, path in access.items()}
            sandbox = create(rpc, home, sandbox=paths if [top] in paths.values() else {"readRoots": [top], **paths})
            server = rpc.start("sleep 1000", sandboxId=sandbox)["processId"]
            said(rpc, sandbox, f"test ! -e {top}/usb/secret/x")
            unplug(home)
            end = rpc.wait(server)
            assert end["status"] == "failed" and f"{top}/usb" in end["message"] and end["message"].endswith("was replaced on the host; use a new one"), (access, end)
            until("the sandbox ends", lambda: sandbox not in listed(rpc))


def test_approved_start_in_an_ended_sandbox_fails_with_advice(home):
    """All sandboxes end when the guard dies; what waited in one for an approval does not run, and says what to do."""
    with open(os.path.join(home.dir, "policy.json"), "w") as f:
        f.write('{"permissions": {"ask": ["Bash(touch:*)"]}}')
    home.restart()
    with home.rpc() as rpc:
        sandbox = rpc.call("create_sandbox", cwd=home.work, name="dev")["sandboxId"]
        waiting = rpc.start(["touch", "made"], sandboxId="dev")
        assert waiting["status"] == "waiting_permission", waiting
    home.stop(sig=signal.SIGKILL, expect=False)
    home.start()
    with home.rpc() as rpc:
        rpc.call("respond_action", actionId=waiting["actionId"], decision="allow")
        end = rpc.wait(waiting["processId"])
        assert end["status"] == "failed" and sandbox in end["message"], end
        assert end["message"].startswith("it did not run, although it was approved") and "start it again" in end["message"], end
        assert not os.path.exists(os.path.join(home.work, "made"))


STOPS_THE_NEXT_PROCESS = """
import os, signal
pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
print("ready", flush=True)
while True:
    try:
        os.kill(pid + 1, signal.SIGSTOP)
        break
    except ProcessLookupError:
        pass
try:
    with open(f"/proc/{pid + 1}/stat") as f:
        print("leader" if f.read().rsplit(")", 1)[1].split()[1] == "1" else "command", flush=True)
except OSError:
    print("gone", flush=True)
"""


def test_a_start_that_another_command_stops_is_answered(home):
    """Commands of a sandbox can signal each other, also before the exec of one of them. A stopped leader is killed, and the start fails."""
    with home.rpc() as rpc:
        sandbox, hit = create(rpc, home), ""
        for _ in range(20):
            before = rpc.start(["sleep", "1000"], sandboxId=sandbox)["processId"]
            stopper = rpc.start(["python3", "-c", STOPS_THE_NEXT_PROCESS], sandboxId=sandbox)["processId"]
            until("it waits", lambda: rpc.outputs(stopper)["stdout"])
            rpc.end(before)     # its leader waits for the next command
            with contextlib.suppress(harness.RpcError):
                rpc.end(rpc.start(["true"], sandboxId=sandbox)["processId"])    # which stays stopped if it was hit after its exec
            rpc.end(stopper)    # on a busy machine it may have missed the process, and looks for it without end
            hit = rpc.outputs(stopper)["stdout"].decode().split()[-1]
            if hit == "command":
                break
        assert hit == "command", hit
        assert said(rpc, sandbox, ["echo", "still"]) == "still\n"


TRACEABLE = """
import ctypes, os, time
ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)    # PR_SET_PTRACER: any, where the kernel restricts who may trace
print(os.getpid(), flush=True)
time.sleep(1000)
"""
TRACES = """
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
print("traces" if libc.ptrace(0x4206, int(sys.argv[1]), 0, 0) == 0 else ctypes.get_errno(), flush=True)     # PTRACE_SEIZE
time.sleep(1000)
"""


def test_a_command_ends_while_another_one_traces_its_processes(home):
    """A debugger that does not wait keeps a dead process from being reaped. That neither delays the end nor costs the sandbox."""
    with home.rpc() as rpc:
        sandbox, tracers = create(rpc, home), []

        def start_traced(command):
            traced = rpc.start(command, sandboxId=sandbox, stdin="pipe")["processId"]
            until("it runs", lambda: rpc.outputs(traced)["stdout"])
            tracers.append(rpc.start(["python3", "-c", TRACES, rpc.outputs(traced)["stdout"].decode().strip()], sandboxId=sandbox)["processId"])
            until("it is traced", lambda: rpc.outputs(tracers[-1])["stdout"])
            if rpc.outputs(tracers[-1])["stdout"] != b"traces\n":
                raise harness.Skip("no process may be traced here")
            return traced
        leaves = start_traced(["sh", "-c", 'python3 -c "$1" & read line; exit 3', "sh", TRACEABLE])
        rpc.call("close_process_stdin", processId=leaves)
        end = rpc.wait(leaves)
        assert (end["status"], end["exitCode"]) == ("completed", 3), end
        killed = start_traced(["python3", "-c", TRACEABLE])
        rpc.call("terminate_process", processId=killed, graceMs=0)
        end = rpc.wait(killed)
        assert (end["status"], end["signal"]) == ("terminated", "KILL"), end
        assert said(rpc, sandbox, ["echo", "still"]) == "still\n"
        assert all(rpc.call("get_process", processId=t)["status"] == "running" for t in tracers)


if __name__ == "__main__":
    harness.main(globals())
