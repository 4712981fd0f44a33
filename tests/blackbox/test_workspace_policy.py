"""Workspace policy: .bailiff/policy.json, opened as the peer. It may only tighten, and applies as soon as it is written."""

import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading

import harness
from harness import Home, Skip, until, valid
from test_policy import Policed

DENY = {"permissions": {"deny": ["Bash(touch:*)"]}}


def write(where, what, name="policy.json"):
    """As an editor does: a new file takes the name."""
    folder = os.path.join(where, ".bailiff")
    os.makedirs(folder, exist_ok=True)
    temp = os.path.join(folder, name + ".new")
    with open(temp, "w") as f:
        f.write(what if isinstance(what, str) else json.dumps(what, indent=1))
    os.rename(temp, os.path.join(folder, name))


def touches(rpc, where, name="made"):
    """Whether `touch` is allowed there now."""
    try:
        return rpc.run(["touch", name], cwd=where)[1]["exitCode"] == 0
    except harness.RpcError as e:
        assert e.code == -32010, e
        return False


def changed(rpc, kind="policy.changed"):
    return [e["payload"] for e in rpc.events() if e["type"] == kind and e["payload"].get("layer") == "workspace"]


def test_workspace_policy_restricts_and_edits_apply_at_once():
    with Policed({"permissions": {"allow": ["Bash(touch:*)"]}}) as home, home.rpc() as rpc:
        assert touches(rpc, home.work)
        write(home.work, DENY)
        error = rpc.fails("start_process", command=["touch", "x"], cwd=home.work, code=-32010)
        rule, = error.data["permissionDecision"]["ruleRefs"]
        file = os.path.join(home.work, ".bailiff/policy.json")
        assert rule == {"file": file, "line": 4, "rule": "Bash(touch:*)", "effect": "deny", "layer": "workspace"}, rule
        assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0
        # In place, with the same size: every edit counts for the next start.
        for i in range(20):
            with open(file, "r+") as f:
                f.write(json.dumps({"permissions": {"deny": ["Bash(touch:*)" if i % 2 else "Bash(couch:*)"]}}, indent=1))
                f.truncate()
            assert touches(rpc, home.work) == (i % 2 == 0), i
        os.unlink(file)
        assert touches(rpc, home.work)
        write(home.work, DENY)
        assert not touches(rpc, home.work)
        shutil.rmtree(os.path.join(home.work, ".bailiff"))
        assert touches(rpc, home.work)
        told = changed(rpc)
        assert len(told) >= 20 and told[0]["file"] == file and told[0]["newHash"] and told[-1]["oldHash"] and "newHash" not in told[-1], told[-1]
        valid(home, rpc)


def test_workspace_policy_applies_to_nested_workspaces():
    with Home() as home, home.rpc() as rpc:
        inner = os.path.join(home.work, "a", "b")
        os.makedirs(os.path.join(inner, ".git"))
        os.mkdir(os.path.join(home.work, ".git"))
        write(home.work, DENY)
        assert not touches(rpc, os.path.join(home.work, "a"))
        # A repository made inside, or a workspace that is given, is no way around it.
        assert not touches(rpc, inner)
        rpc.fails("start_process", command=["touch", "x"], cwd=inner, sandbox={"workspace": inner}, code=-32010)
        write(inner, {"permissions": {"deny": ["Bash(true)"]}})
        rpc.fails("start_process", command=["true"], cwd=inner, code=-32010)
        assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0
        # Moved away with all that is above it, and another in its place.
        os.rename(home.work, home.work + ".old")
        os.mkdir(home.work)
        until("another folder is noticed", lambda: touches(rpc, home.work))


def test_workspace_policy_loosens_nothing():
    loose = {"permissions": {"allow": ["Bash(rm:*)", "Bash(touch:*)"], "defaultMode": "bypass", "allowBypass": True},
             "prefixRules": [{"pattern": ["rm"], "decision": "allow"}]}
    with Policed({"permissions": {"deny": ["Bash(rm:*)"], "ask": ["Bash(touch:*)"], "defaultMode": "plan"}}) as home, home.rpc() as rpc:
        write(home.work, loose)
        rpc.fails("start_process", command=["rm", "x"], cwd=home.work, code=-32010)
        rpc.fails("start_process", command=["mkdir", "x"], cwd=home.work, code=-32010)
        write(home.work, {"permissions": {"defaultMode": "untrusted"}})
        rpc.fails("start_process", command=["mkdir", "x"], cwd=home.work, code=-32010)
    with Home() as home, home.rpc() as rpc:
        write(home.work, {"permissions": {"defaultMode": "plan"}})
        rpc.fails("start_process", command=["mkdir", "x"], cwd=home.work, code=-32010)
        assert rpc.run(["ls"], cwd=home.work)[1]["exitCode"] == 0
        # Nor by a session's mode.
        session = rpc.call("create_session", title="t")["sessionId"]
        rpc.call("set_permission_mode", sessionId=session, mode="on_request")
        rpc.fails("start_process", command=["mkdir", "x"], cwd=home.work, sessionId=session, code=-32010)


def test_invalid_workspace_policy_blocks_starts_or_keeps_the_last():
    with Home() as home, home.rpc() as rpc:
        write(home.work, '{\n "permissions": {\n  "deny": ["Bash(touch"]\n }\n}')
        error = rpc.fails("start_process", command=["true"], cwd=home.work, code=-32010)
        assert ".bailiff/policy.json: line 3: permissions.deny" in error.message, error.message
        assert error.data["permissionDecision"]["decision"] == "deny"
        rpc.fails("evaluate_permission", command=["true"], cwd=home.work, code=-32010)
        assert rpc.run(["true"], cwd="/tmp")[1]["exitCode"] == 0
        write(home.work, DENY)
        assert not touches(rpc, home.work)
        write(home.work, " \n")
        assert touches(rpc, home.work), "an empty file says nothing"
        write(home.work, DENY)
        assert not touches(rpc, home.work)
        write(home.work, "{")
        assert not touches(rpc, home.work), "what it said before holds"
        assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0
        warned = [e for e in rpc.events() if e["type"] == "runtime.warning" and e["payload"]["code"] == "policy_not_loaded"]
        assert len(warned) == 2 and "line 1" in warned[-1]["payload"]["detail"], warned
        home.kill_part("runtime")
        until("it answers", home.answers)
        with home.rpc() as again:
            again.fails("start_process", command=["true"], cwd=home.work, code=-32010)
            valid(home, again)


def test_special_files_and_links_as_policy_block_starts():
    """Each of these blocks starts there with the reason, delays no other request, and reveals nothing of its target."""
    with Home() as home, home.rpc() as rpc:
        folder = os.path.join(home.work, ".bailiff")
        file = os.path.join(folder, "policy.json")
        secret = os.path.join(home.dir, "secret")
        with open(secret, "w") as f:
            f.write("top-secret-words")
        os.chmod(secret, 0o600)
        outside = os.path.join(home.dir, "elsewhere")
        os.mkdir(outside)
        with open(os.path.join(outside, "policy.json"), "w") as f:
            json.dump(DENY, f)

        def clear():
            if os.path.islink(folder):
                os.unlink(folder)
            shutil.rmtree(folder, ignore_errors=True)

        def huge():
            with open(file, "w") as f:
                f.truncate(1 << 40)

        def inside(make):
            def made():
                os.mkdir(folder)
                make()
            return made

        tries = {
            "a link to a file that only others may read": (inside(lambda: os.symlink("/etc/shadow", file)), "symbolic link"),
            "a link to a file of one's own": (inside(lambda: os.symlink(secret, file)), "symbolic link"),
            "a link to a process's things": (inside(lambda: os.symlink("/proc/self/environ", file)), "symbolic link"),
            "a folder that is a link": (lambda: os.symlink(outside, folder), "symbolic link"),
            "a pipe": (inside(lambda: os.mkfifo(file)), "not a regular file"),
            "a folder": (inside(lambda: os.mkdir(file)), "not a regular file"),
            "a huge file": (inside(huge), "larger than 1 MiB"),
            "a file that is no JSON": (inside(lambda: shutil.copy(secret, file)), "line 1"),
        }
        if os.geteuid() != 0:
            tries["a file without rights"] = (inside(lambda: os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0))), "Permission denied")
        for what, (make, why) in tries.items():
            clear()
            make()
            error = rpc.fails("start_process", command=["true"], cwd=home.work, code=-32010)
            assert why in error.message, (what, error.message)
            assert "top-secret" not in error.message and "root:" not in error.message, error.message
            assert rpc.run(["true"], cwd="/tmp")[1]["exitCode"] == 0, what
        clear()
        assert touches(rpc, home.work)


def test_policy_that_is_replaced_while_read_is_one_version():
    """A file that is replaced all the time: each decision uses one whole version, and none hangs."""
    with Home() as home, home.rpc() as rpc:
        padding = " " * 200000
        texts = [json.dumps({"permissions": {"deny": [f"Bash(touch {i} :*)", "Bash(touch:*)"]}}) + padding for i in range(2)]
        write(home.work, texts[0])
        stop = threading.Event()

        def replace():
            i = 0
            while not stop.is_set():
                i += 1
                write(home.work, texts[i % 2])

        writer = threading.Thread(target=replace)
        writer.start()
        try:
            for _ in range(30):
                error = rpc.fails("start_process", command=["touch", "x"], cwd=home.work, code=-32010)
                refs = error.data["permissionDecision"]["ruleRefs"]
                assert not refs or refs[0]["layer"] == "workspace", error.message
                assert refs or "being written" in error.message, error.message
        finally:
            stop.set()
            writer.join()
        assert not touches(rpc, home.work)


def test_changing_workspace_does_not_delay_starts():
    with Home() as home, home.rpc() as rpc:
        stop = threading.Event()

        def busy():
            i = 0
            while not stop.is_set():
                i += 1
                name = os.path.join(home.work, f"f{i % 10}")
                with open(name, "w"):
                    pass
                os.unlink(name)

        worker = threading.Thread(target=busy)
        worker.start()
        try:
            for _ in range(10):
                assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0
        finally:
            stop.set()
            worker.join()


def test_replaced_workspace_folder_uses_its_own_policy():
    with Home() as home, home.rpc() as rpc:
        place = os.path.join(home.work, "place")
        for i in range(5):
            os.makedirs(os.path.join(place, ".git"))
            assert touches(rpc, place) and touches(rpc, place, "more")
            os.rename(place, os.path.join(home.work, f"old{i}"))
            os.makedirs(os.path.join(place, ".git"))
            write(place, DENY)
            assert not touches(rpc, place), i
            shutil.rmtree(place)


def test_many_starts_in_a_new_workspace_wait_for_its_policy():
    with Home() as home, home.rpc() as rpc:
        write(home.work, DENY)
        asked = [rpc.send("start_process", command=["touch" if i % 3 == 0 else "true"], cwd=home.work) for i in range(30)]
        for i, request in enumerate(asked):
            try:
                started = rpc.reply(request)
                assert i % 3, started
                assert rpc.wait(started["processId"])["exitCode"] == 0
            except harness.RpcError as e:
                assert i % 3 == 0 and e.code == -32010, (i, e)
        valid(home, rpc)


def test_command_cannot_write_the_workspace_policy():
    with Home() as home, home.rpc() as rpc:
        write(home.work, DENY)
        for line in ("echo '{}' > .bailiff/policy.json", "rm -f .bailiff/policy.json", "mv .bailiff away", "ln -sf /dev/null .bailiff/policy.json"):
            assert rpc.run(["sh", "-c", line + " 2>/dev/null"], cwd=home.work)[1]["exitCode"] != 0, line
        assert not touches(rpc, home.work)
        # Where there is none, a command may make one: it can only tighten, so nothing is gained by it.
        shutil.rmtree(os.path.join(home.work, ".bailiff"))
        made = "mkdir .bailiff && echo '{\"permissions\":{\"allow\":[\"Bash(rm:*)\"],\"deny\":[\"Bash(touch:*)\"]}}' > .bailiff/policy.json"
        assert rpc.run(["sh", "-c", made], cwd=home.work)[1]["exitCode"] == 0
        assert not touches(rpc, home.work)


def test_command_cannot_write_policies_of_nested_workspaces():
    with Home() as home, home.rpc() as rpc:
        inner = os.path.join(home.work, "a", "b")
        for where in (home.work, inner):
            os.makedirs(os.path.join(where, ".git"))
        write(inner, DENY)

        def tries(name):
            for script in (f"rm -rf {name}/.bailiff", f"rm {name}/.bailiff/policy.json", f"echo '{{}}' >{name}/.bailiff/policy.json",
                           f"mv {name}/.bailiff x", f"mv {name} x", f"echo '{{}}' >p && mv p {name}/.bailiff/policy.json"):
                assert rpc.run(script, cwd=home.work)[1]["exitCode"] != 0, script
            assert rpc.run(["cat", f"{name}/.bailiff/policy.json"], cwd=home.work)[1]["exitCode"] == 0
            assert not touches(rpc, os.path.join(home.work, name))
        tries("a/b")
        assert rpc.run("mv a x", cwd=home.work)[1]["exitCode"] != 0
        assert rpc.run("touch a/b/f a/f && mv a/f a/b/g && mkdir a/b/h && rm -r a/b/h", cwd=home.work)[1]["exitCode"] == 0
        # One that came later is protected from when it held for something.
        later = os.path.join(home.work, "later")
        os.makedirs(os.path.join(later, ".git"))
        write(later, DENY)
        assert not touches(rpc, later)
        tries("later")
        # Also where it is not the workspace that can be written.
        between = os.path.join(home.work, "w")
        deep = os.path.join(between, "deep")
        os.makedirs(os.path.join(deep, ".git"))
        write(between, DENY)
        assert not touches(rpc, deep)
        sandbox = {"workspace": deep, "writeRoots": [home.work]}
        assert rpc.run("rm -rf ../.bailiff", cwd=deep, sandbox=sandbox)[1]["exitCode"] != 0
        assert not touches(rpc, deep)


def test_file_tools_and_dry_runs_use_the_workspace_policy():
    with Home() as home, home.rpc() as rpc:
        write(home.work, {"permissions": {"deny": ["Read(secret.txt)", "Edit(/locked/**)"]}})
        said = rpc.call("evaluate_permission", toolName="read_file", arguments={"path": "secret.txt"}, cwd=home.work)["permissionDecision"]
        assert said["decision"] == "deny" and said["ruleRefs"][0]["layer"] == "workspace", said
        said = rpc.call("evaluate_permission", commandLine="cat sub/secret.txt", cwd=home.work)["permissionDecision"]
        assert said["decision"] == "deny", said
        shown = home.cli("policy", "check", "--", "cat", "secret.txt", status=1)
        assert b".bailiff/policy.json, line" in shown.out, shown.out
        shown = rpc.call("get_policy", cwd=os.path.join(home.work, "."))
        assert [s["file"] for s in shown["sources"]] == [os.path.join(home.work, ".bailiff/policy.json")] and len(shown["rules"]) == 2, shown
        assert rpc.call("get_policy")["sources"] == []
        assert b"secret.txt" in home.cli("policy", "show").out
        assert rpc.call("evaluate_permission", commandLine="cat other", cwd=home.work)["permissionDecision"]["decision"] == "allow"


INSIDE = "--system"     # as an argument: this program is in a mount namespace of its own


def as_user(uid, function):
    """Runs it in a process of this uid's, and gives what it returns."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            answer = json.dumps(function())
        except BaseException as e:      # the other process tells
            answer = json.dumps({"failed": repr(e)})
        os.write(into, answer.encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as f:
        answer = json.load(f)
    os.waitpid(pid, 0)
    assert not (isinstance(answer, dict) and "failed" in answer), answer
    return answer


def private_system(folder):
    """/etc, /run and /var/lib of our own, with two users; nothing of the machine is touched."""
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    etc = os.path.join(folder, "etc")
    os.mkdir(etc)
    for name in ("passwd", "group", "nsswitch.conf", "ld.so.cache", "ld.so.conf", "hosts"):
        if os.path.exists("/etc/" + name):
            shutil.copy("/etc/" + name, etc)
    users = {}
    with open(os.path.join(etc, "passwd"), "a") as f:
        for i, name in enumerate(("blann", "blbob")):
            users[name] = (61010 + i, os.path.join(folder, "home", name))
            f.write(f"{name}:x:{61010 + i}:{61010 + i}::{users[name][1]}:/bin/sh\n")
            os.makedirs(users[name][1])
            os.chown(users[name][1], 61010 + i, 61010 + i)
            os.chmod(users[name][1], 0o700)
    subprocess.run(["mount", "--bind", etc, "/etc"], check=True)
    for name in ("/run", "/var/lib"):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", name], check=True)
    os.makedirs("/etc/bailiff")
    return users


def answers(daemon):
    assert daemon.poll() is None, daemon.returncode
    try:
        with harness.Rpc("/run/bailiff/control.sock") as rpc:
            return rpc.call("get_health")
    except (FileNotFoundError, ConnectionRefusedError):     # the socket's name exists before the daemon listens
        return False


def in_the_system(folder):
    users = private_system(folder)
    with open("/etc/bailiff/policy.json", "w") as f:
        json.dump({"permissions": {"deny": ["Bash(shred:*)"]}}, f)
    daemon = subprocess.Popen([harness.DAEMON, "--foreground", "--audit", "off"], env=harness.environment(), stdin=subprocess.DEVNULL)
    try:
        until("it answers", lambda: answers(daemon))
        work = {name: os.path.join(home, "work") for name, (_, home) in users.items()}

        def decide(name, line, where=None):
            def asked():
                with harness.Rpc("/run/bailiff/control.sock") as rpc:
                    try:
                        said = rpc.call("evaluate_permission", commandLine=line, cwd=where or work[name])["permissionDecision"]
                    except harness.RpcError as e:
                        return [e.message]
                    return [said["decision"]] + [[r["layer"], r["file"]] for r in said["ruleRefs"]]
            return as_user(users[name][0], asked)

        def put(name, path, what):
            def made():
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w") as f:
                    f.write(what if isinstance(what, str) else json.dumps(what))
                os.chmod(path, 0o600)
            as_user(users[name][0], made)

        for name, (uid, _) in users.items():
            as_user(uid, lambda: os.mkdir(work[name], 0o700))
        host = [["host", "the host's policy.json"]]
        assert decide("blann", "shred x") == ["deny"] + host and decide("blann", "touch x") == ["allow"]
        # Only the peer can read these, not the runtime's own uid.
        own = os.path.join(users["blann"][1], ".config/bailiff/policy.json")
        put("blann", own, {"permissions": {"deny": ["Bash(touch:*)"], "allow": ["Bash(shred:*)"]}})
        assert decide("blann", "touch x") == ["deny", ["user", own]], decide("blann", "touch x")
        assert decide("blann", "shred x") == ["deny"] + host
        assert decide("blbob", "touch x") == ["allow"], "another user's policy does not apply"
        place = os.path.join(work["blann"], ".bailiff/policy.json")
        put("blann", place, {"permissions": {"deny": ["Bash(cat:*)"]}})
        assert decide("blann", "cat x") == ["deny", ["workspace", place]]
        # A file that the peer may not read does not become readable by asking for it.
        os.unlink(place)
        assert decide("blann", "cat x") == ["allow"]
        shutil.copy(own, place)
        os.chown(place, 0, 0)
        os.chmod(place, 0o600)
        assert "Permission denied" in decide("blann", "cat x")[0], decide("blann", "cat x")
        os.unlink(place)
        assert decide("blann", "cat x") == ["allow"]
        as_user(users["blann"][0], lambda: os.symlink("/etc/bailiff/policy.json", place))
        assert "symbolic link" in decide("blann", "cat x")[0]
        os.unlink(place)
        assert decide("blann", "cat x") == ["allow"]
        os.unlink(own)
        assert decide("blann", "touch x") == ["allow"]

        # A lasting answer goes into the peer's own file, as the peer; not even root writes it for another user.
        shutil.rmtree(os.path.dirname(own))

        def asked(answer):
            def made():
                with harness.Rpc("/run/bailiff/control.sock") as rpc:
                    session = rpc.call("create_session", title="t")["sessionId"]
                    rpc.call("set_permission_mode", sessionId=session, mode="untrusted")
                    started = rpc.call("start_process", command=["touch", "kept"], cwd=work["blann"], sessionId=session)
                    if not answer:
                        return started["actionId"]
                    done = rpc.call("respond_action", actionId=started["actionId"], decision="allow", scope="always")
                    assert rpc.wait(started["processId"])["exitCode"] == 0
                    again = rpc.run(["touch", "kept"], cwd=work["blann"], sessionId=session)[1]
                    return [done["file"], done["rules"], again["exitCode"]]
            return as_user(users["blann"][0], made)

        open_action = asked(False)
        with harness.Rpc("/run/bailiff/control.sock") as root:
            error = root.fails("respond_action", actionId=open_action, decision="allow", scope="always", code=-32011)
            assert "another user's policy" in error.message and not os.path.exists(own), error.message
        assert asked(True) == [own, ["Bash(touch kept)"], 0]
        st = os.stat(own)
        assert st.st_uid == users["blann"][0] and st.st_mode & 0o777 == 0o600, st
        with open("/etc/bailiff/policy.json") as f:
            assert "touch" not in f.read()
    finally:
        daemon.terminate()
        daemon.wait()


def test_root_daemon_reads_policies_as_the_client():
    """Root's daemon: files that only the peer may read are read as the peer, its own policy in its home applies, and no other user's."""
    if os.geteuid() != 0:
        raise Skip("requires root")
    with tempfile.TemporaryDirectory(prefix="bl-") as folder:
        os.chmod(folder, 0o755)
        done = subprocess.run(["unshare", "-m", sys.executable, os.path.abspath(__file__), INSIDE, folder], capture_output=True, text=True,
                              timeout=harness.PATIENCE * 2)
    if done.returncode == 77:
        raise Skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_start_uses_the_policy_of_its_own_workspace():
    """More than are remembered, all asked for before the first is known: each start waits for its own files."""
    with Home(config={"maxProcesses": 1000}) as home, home.rpc() as rpc:
        places = [os.path.join(home.work, f"w{i}") for i in range(150)]
        for place in places:
            os.makedirs(os.path.join(place, ".git"))
            write(place, DENY)
        asked = rpc.send_together(*[("start_process", {"command": ["touch", "made"], "cwd": place}) for place in places for _ in range(2)])
        codes = collections.Counter()
        for number in asked:
            try:
                rpc.reply(number)
                codes["started"] += 1
            except harness.RpcError as e:
                codes[e.code] += 1
        # A start whose files could not be read in time fails as unavailable; none is started.
        assert codes["started"] == 0 and codes[-32010] and set(codes) <= {-32010, -32011}, codes
        assert not [place for place in places if os.path.exists(os.path.join(place, "made"))]
        for place in places:
            until("it is known again", lambda: rpc_code(rpc, place) == -32010)


def rpc_code(rpc, where):
    return rpc.fails("start_process", command=["touch", "made"], cwd=where).code


def test_unreadable_parent_folder_denies_starts():
    with Home() as home, home.rpc() as rpc:
        write(home.work, DENY)
        deep = os.path.join(home.work, *["d"] * 50)
        os.makedirs(os.path.join(deep, ".git"))
        error = rpc.fails("start_process", command=["touch", "made"], cwd=deep, code=-32010)
        assert "more than" in error.message and "directories" in error.message, error.message
        near = os.path.join(home.work, *["d"] * 20)
        os.makedirs(os.path.join(near, ".git"))
        assert not touches(rpc, near) and rpc.run(["true"], cwd=near)[1]["exitCode"] == 0


if __name__ == "__main__":
    if sys.argv[1:2] == [INSIDE]:
        in_the_system(sys.argv[2])
    else:
        harness.main(globals())
