"""bailiff as Codex's executor: the protocol message by message, the requested sandbox, files, approvals, malformed clients."""

import base64
import json
import os
import pwd
import shutil
import signal
import tempfile

import harness
from codex import Codex, PROJECT, commands_of, entry, intent, live, special, uri, workspace_write
from harness import Home, until


def b64(data):
    return base64.b64encode(data).decode()


def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def names_in(folder):
    """Without the empty folders that stand for missing ones as long as a sandbox needs them."""
    return sorted(n for n in os.listdir(folder) if os.lstat(os.path.join(folder, n)).st_mode & 0o7777 != 0o1500)


class Policed(Home):
    def __init__(self, policy, **more):
        super().__init__(start=False, **more)
        with open(os.path.join(self.dir, "policy.json"), "w") as f:
            json.dump(policy, f)
        self.start()


# ---- the handshake ----

def test_requests_before_the_handshake_are_rejected(home):
    with Codex(home) as c:
        assert "must call initialize before using exec" in c.fails("process/start", {}, code=-32600).message
        assert "must call initialize before using filesystem" in c.fails("fs/readFile", {}, code=-32600).message
        assert c.fails("initialize", {}, code=-32602)
        result = c.call("initialize", {"clientName": "test"})
        info = result["environmentInfo"]
        assert result["sessionId"].startswith("sess_") and info["cwd"] == uri(os.path.realpath(home.work)), result
        assert info["shell"]["path"].startswith("/bin/") and info["capabilities"] == {} and info["platformOs"] == "linux", info
        assert "must send initialized" in c.fails("process/start", {}, code=-32600).message
        c.tell("initialized")
        assert "once per connection" in c.fails("initialize", {"clientName": "test"}, code=-32600).message
        assert c.call("environment/info")["shell"] == info["shell"]
        assert c.call("environment/status", {}) == {"status": "ready"}
        assert c.fails("process/resize", {}, code=-32601)


def test_command_runs_in_bailiffs_sandbox_and_the_events_prove_it(home):
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with Codex(home) as c, home.rpc() as rpc:
        session = c.hello()["sessionId"]
        request = c.send("process/start", {
            "processId": "54287-x", "metadata": {"threadId": "01a1de47-6de5", "toolCallId": "call_7"}, "argv": ["/bin/sh", "-c", "echo out; echo err >&2; exit 3"],
            "cwd": uri(home.work), "env": {"PATH": "/usr/bin:/bin"}, "tty": False, "pipeStdin": False, "arg0": None,
            "sandbox": workspace_write(home.work)}, trace={"traceparent": trace})
        assert c.reply(request) == {"processId": "54287-x", "sandboxType": "linuxSeccomp"}
        output, end = c.ended("54287-x")
        assert sorted(output.split()) == [b"err", b"out"] and end["exitCode"] == 3 and end["sandboxDenied"] is False, end
        streams = {n["params"]["stream"]: base64.b64decode(n["params"]["chunk"]) for n in c.about("54287-x") if n["method"] == "process/output"}
        assert streams == {"stdout": b"out\n", "stderr": b"err\n"}, streams
        events = rpc.events(sessionId=session)
        started = commands_of(events)
        assert len(started) == 1 and started[0]["toolCallId"] == "call_7" and started[0]["traceId"] == trace[3:35], started
        applied = [e for e in events if e["type"] == "sandbox.applied" and e["processId"] == started[0]["processId"]]
        profile = applied[0]["sandboxProfile"]
        assert profile["mode"] == "workspace" and profile["network"] == "none" and profile["writeRoots"] == [os.path.realpath(home.work)], profile
        why = [e["payload"]["justification"] for e in events if e["type"] == "permission.evaluated" and e["processId"] == started[0]["processId"]]
        assert why == ["Codex call call_7 in thread 01a1de47-6de5, process 54287-x"], why
        assert any(e["type"] == "channel.connected" and e["payload"].get("nativeProtocol") == "codex" for e in events), [e["type"] for e in events]
        harness.validate(harness.event_validators(), events)


def test_commands_of_a_codex_thread_share_a_bailiff_thread(home):
    with Codex(home) as c, home.rpc() as rpc:
        session = c.hello()["sessionId"]
        started = lambda: commands_of(rpc.events(sessionId=session))
        for i in range(3):
            c.run(f"p{i}", "true", metadata={"threadId": "t1", "toolCallId": f"c{i}"})
            rpc.wait(started()[-1]["processId"])    # its end is reported a moment before the daemon has released it
        c.shell("busy", "sleep 60", metadata={"threadId": "t1", "toolCallId": "c8"})
        c.run("parallel", "true", metadata={"threadId": "t1", "toolCallId": "c9"})
        threads = [e["threadId"] for e in started()]
        assert len(threads) == 5 and len(set(threads[:4])) == 1 and threads[4] != threads[3], threads


def test_commands_with_the_same_permissions_share_a_sandbox(home):
    serve = ("import http.server,os;s=http.server.HTTPServer(('127.0.0.1',0),http.server.BaseHTTPRequestHandler);"
             "open('/tmp/port','w').write(str(s.server_port));s.serve_forever()")
    with Codex(home) as c, home.rpc() as rpc:
        session = c.hello()["sessionId"]
        same = {"sandbox": workspace_write(home.work)}
        assert "warnings" not in c.start("server", "python3", "-c", serve, **same)
        look = "until test -s /tmp/port; do sleep 0.05; done; exec 3<>/dev/tcp/127.0.0.1/$(cat /tmp/port) && echo reached; pgrep -x python3 >/dev/null && echo seen"
        c.start("client", "/bin/bash", "-c", look, **same)
        assert c.ended("client")[0] == b"reached\nseen\n"
        # Background processes of a command are there for the next one; for the client the command has ended.
        assert c.run("left", "sleep 1000 & until pgrep -x sleep >/dev/null; do :; done; echo done", **same)[0] == b"done\n"
        assert c.run("look", "pgrep -x sleep >/dev/null && echo there", **same)[0] == b"there\n"
        assert c.call("process/terminate", {"processId": "left"}) == {"running": True}
        assert c.run("again", "pgrep -x sleep || echo gone", **same)[0] == b"gone\n"
        assert c.run("last", "sleep 1000 &", **same)[1]["exitCode"] == 0
        # File methods with that sandbox see its /tmp, too.
        assert base64.b64decode(c.fs("readFile", path=uri("/tmp/port"), **same)["dataBase64"]).isdigit()
        c.fs("writeFile", path=uri("/tmp/x"), dataBase64=b64(b"written"), **same)
        assert c.run("cat", "cat /tmp/x", **same)[0] == b"written"
        # Another sandbox, which is reported to the client and shared by commands with the same permissions.
        for name, other in (("ro", intent(home.work)), ("none", None), ("hidden", workspace_write(home.work) | {"cwd": uri(home.work)})):
            if name == "hidden":
                other["permissions"]["file_system"]["entries"].append(entry("/opt", "deny"))
            told = c.shell(name, "test ! -e /tmp/x; echo $?; echo > /tmp/y", sandbox=other)["warnings"]
            assert len(told) == 1 and "asks for other access" in told[0], told
            assert c.ended(name)[0] == b"0\n"
            assert "warnings" not in c.shell(name + "2", "test -e /tmp/y; echo $?", sandbox=other)
            assert c.ended(name + "2")[0] == b"0\n"
            assert c.run(name + "3", "cat /tmp/x", **same)[0] == b"written"
        assert len(rpc.call("list_sandboxes", sessionId=session)["sandboxes"]) == 4
    with home.rpc() as rpc:
        until("the sandboxes end with the client", lambda: not rpc.call("list_sandboxes", sessionId=session)["sandboxes"])
        assert not live(rpc, session)


# ---- processes ----

def test_input_terminals_and_termination(home):
    with Codex(home) as c:
        c.hello()
        c.shell("cat", "cat; echo end", pipeStdin=True)
        assert c.write("cat", b"one\n", "w1") == "accepted"
        assert c.write("cat", b"one\n", "w1") == "accepted"     # the same write id: nothing is written
        assert c.write("cat", b"two\n", "w2") == "accepted"
        c.wrote("cat", b"two\n")
        assert c.output("cat") == b"one\ntwo\n"
        assert c.call("process/terminate", {"processId": "cat"}) == {"running": True}
        assert c.ended("cat")[1]["exitCode"] == 137
        assert c.call("process/terminate", {"processId": "cat"}) == {"running": False}
        assert c.write("cat", b"x", "w3") == "stdinClosed" and c.write("nobody", b"x") == "unknownProcess"

        c.shell("tty", "stty size; read x; echo got $x; exec sleep 60", tty=True)     # exec: as with "no" below
        c.wrote("tty", b"24 80")
        assert c.write("tty", b"hi\n") == "accepted"
        c.wrote("tty", b"got hi")
        assert {n["params"]["stream"] for n in c.about("tty") if n["method"] == "process/output"} == {"pty"}
        assert c.write("tty", b"\x03", "2") == "accepted"
        assert c.ended("tty")[1]["exitCode"] == 130

        c.start("no", "sleep", "60")     # no shell: one that is just starting records the signal and waits for its child
        assert c.write("no", b"x") == "stdinClosed"
        assert c.call("process/signal", {"processId": "no", "signal": "interrupt"}) == {}
        assert c.ended("no")[1]["exitCode"] == 130
        assert c.fails("process/signal", {"processId": "no", "signal": "kill"}, code=-32602)
        assert c.call("process/signal", {"processId": "nobody", "signal": "interrupt"}) == {}
        assert c.run("nine", "kill -9 $$")[1]["exitCode"] == 137
        c.start("named", "/bin/sh", "-c", "echo $0", arg0="other")
        assert c.ended("named")[0] == b"other\n"


def test_errors_have_the_protocols_codes(home):
    with Codex(home) as c:
        c.hello()
        good = {"processId": "p", "argv": ["true"], "cwd": uri(home.work), "env": {}, "tty": False, "arg0": None}
        for change, code, words in (
                ({"argv": []}, -32602, "argv must not be empty"), ({"argv": None}, -32602, "argv"), ({"argv": ["a\0b"]}, -32602, "NUL"),
                ({"cwd": home.work}, -32602, "file: URI"), ({"cwd": "file://elsewhere/x"}, -32602, "invalid on 'linux'"),
                ({"cwd": uri(home.work + "/none")}, -32603, "No such file or directory (os error 2)"),
                ({"argv": ["/no/such/program"]}, -32603, "No such file or directory (os error 2)"),
                ({"env": {"A": 1}}, -32602, "env"), ({"env": {"A=B": "1"}}, -32602, "env"), ({"tty": "yes"}, -32602, "tty"), ({"arg0": 5}, -32602, "arg0"),
                ({"envPolicy": {"inherit": "some"}}, -32602, "envPolicy.inherit"), ({"processId": "x" * 600}, -32602, "processId")):
            e = c.fails("process/start", dict(good, **change), code=code)
            assert words in e.message, (change, e)
        c.start("p", "sleep", "60")         # the name is still free
        assert "process p already exists" in c.fails("process/start", good, code=-32600).message
        assert "unknown process id q" in c.fails("process/read", {"processId": "q"}, code=-32600).message
        assert c.fails("process/write", {"processId": "p", "chunk": "!", "writeId": "1"}, code=-32602)
        assert "writeId must not be empty" in c.fails("process/write", {"processId": "p", "chunk": "aGk=", "writeId": ""}, code=-32602).message
        for name in ("afterSeq", "maxBytes", "waitMs"):
            for bad in (-1, "1", 1.5, True):
                assert name in c.fails("process/read", {"processId": "p", name: bad}, code=-32602).message


def test_output_is_read_by_sequence_number(home):
    with Codex(home) as c:
        c.hello()
        c.shell("p", "echo one; read x; echo two; read x; head -c 700000 /dev/zero; echo; exit 5", pipeStdin=True)
        first = c.call("process/read", {"processId": "p", "afterSeq": None, "maxBytes": None, "waitMs": 60000})
        assert [base64.b64decode(k["chunk"]) for k in first["chunks"]] == [b"one\n"] and first["nextSeq"] == 2 and not first["exited"], first
        waiting = c.send("process/read", {"processId": "p", "afterSeq": 1, "waitMs": 60000})
        assert c.write("p", b"\n", "1") == "accepted"
        assert [k["seq"] for k in c.reply(waiting)["chunks"]] == [2]
        short = c.call("process/read", {"processId": "p", "afterSeq": 2, "waitMs": 1})
        assert short["chunks"] == [] and short["nextSeq"] == 3 and short["exitCode"] is None, short
        assert c.write("p", b"\n", "2") == "accepted"
        output, end = c.ended("p")
        assert len(output) == 700009 and end["exitCode"] == 5
        data, after = b"", 0
        while True:
            part = c.call("process/read", {"processId": "p", "afterSeq": after, "maxBytes": 200000})
            if not part["chunks"]:
                break
            data += b"".join(base64.b64decode(k["chunk"]) for k in part["chunks"])
            assert part["nextSeq"] == part["chunks"][-1]["seq"] + 1 or part["nextSeq"] == end["seq"] + 2, part
            after = part["chunks"][-1]["seq"]
        assert data == output and part["nextSeq"] == end["seq"] + 2 and part["exited"] and part["closed"] and part["exitCode"] == 5, part
        one = c.call("process/read", {"processId": "p", "maxBytes": 1})
        assert len(one["chunks"]) == 1 and one["nextSeq"] == 2, one


def test_environment_follows_the_requested_policy(home):
    own = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "LANG": "C.UTF-8", "MY_TOKEN": "t", "SECRETLY": "s", "Akey": "k", "OTHER": "o", "LC_ALL": "C.UTF-8"}
    base = {"inherit": "all", "ignoreDefaultExcludes": True, "exclude": [], "set": {}, "includeOnly": []}
    with Codex(home, env=dict(own, BAILIFF_HOME=home.dir)) as c:
        c.hello()
        for i, (policy, env, expected) in enumerate((
                (None, {"A": "1"}, {"A"}),
                (base, {}, set(own) | {"BAILIFF_HOME"}),
                (dict(base, inherit="none"), {"B": "2"}, {"B"}),
                (dict(base, inherit="core", set={"C": "3"}), {}, {"PATH", "HOME", "LANG", "LC_ALL", "C"}),
                (dict(base, ignoreDefaultExcludes=False, set={"SET_KEY": "1"}), {}, {"PATH", "HOME", "LANG", "LC_ALL", "OTHER", "BAILIFF_HOME", "SET_KEY"}),
                (dict(base, exclude=["*token", "s?cret*", "lc_*"]), {}, {"PATH", "HOME", "LANG", "Akey", "OTHER", "BAILIFF_HOME"}),
                (dict(base, includeOnly=["pa?h", "[OP]THER"]), {}, {"PATH"}))):
            name = f"e{i}"
            c.start(name, "/usr/bin/env", "-0", envPolicy=policy, env=env)
            got = {v.split(b"=")[0].decode() for v in c.ended(name)[0].split(b"\0") if v}
            assert got == expected, (policy, got ^ expected)


# ---- the requested sandbox ----

def test_workspace_write_is_at_least_as_restrictive_as_codexs(home):
    os.makedirs(os.path.join(home.work, ".git", "hooks"))
    with Codex(home) as c:
        c.hello()
        sandbox = workspace_write(home.work)
        output, end = c.run("in", "echo x > file && mkdir sub && cat file && echo y > /tmp/y", sandbox=sandbox)
        assert output == b"x\n" and end["exitCode"] == 0, output
        assert read(os.path.join(home.work, "file")) == b"x\n" and not os.path.exists("/tmp/y")
        c.run("private", "echo z > ../outside", sandbox=sandbox)       # the home lies in /tmp, which is the sandbox's own
        assert not os.path.exists(os.path.join(home.dir, "outside"))
        for i, line in enumerate(("echo z > .git/config", "mkdir .codex", "echo z > .agents/f", "echo z > /etc/bailiff-test")):
            output, end = c.run(f"out{i}", line, sandbox=sandbox)
            assert end["exitCode"] != 0, (line, output)
            if "mkdir" not in line:
                assert end["sandboxDenied"] is True, (line, output, end)
        assert names_in(home.work) == [".git", "file", "sub"] and os.listdir(os.path.join(home.work, ".git")) == ["hooks"]
        output, end = c.run("failed", "echo nothing special; exit 4", sandbox=sandbox)
        assert end == {"processId": "failed", "seq": 2, "exitCode": 4, "sandboxDenied": False}, end


def test_placeholder_for_dot_git_is_not_a_repository(home):
    """The placeholder for a .git that must not be created is an empty folder, as in Codex's own sandbox; git ignores it."""
    with Codex(home) as c:
        c.hello()
        output, end = c.run("look", "stat -c '%A %F' .git .codex; ls -A .git; touch .git/x || rmdir .git || mv .git x || echo kept", sandbox=workspace_write(home.work))
        assert [l for l in output.splitlines() if b" directory" in l] == 2 * [b"dr-xr-xr-x directory"] and b"kept" in output, output
        if shutil.which("git"):
            output, end = c.run("git", "git status", sandbox=workspace_write(home.work))
            assert b"not a git repository" in output and end["exitCode"] == 128 and end["sandboxDenied"] is False, (output, end)
    until("nothing is left of it", lambda: os.listdir(home.work) == [])


def test_placeholder_outlives_the_end_of_another_command(home):
    """A missing .codex has a placeholder while a sandbox is open; the next sandbox must not treat it as the user's folder."""
    with Codex(home) as c:
        c.hello()
        sandbox = workspace_write(home.work)
        c.shell("first", "echo here; read x", sandbox=sandbox, pipeStdin=True)
        c.wrote("first", b"here")
        c.shell("second", "echo here; read x; mkdir .codex .agents .git || exit 7", sandbox=sandbox, pipeStdin=True)
        c.wrote("second", b"here")
        assert c.write("first", b"\n") == "accepted"
        c.ended("first")
        assert c.write("second", b"\n") == "accepted"
        output, end = c.ended("second")
        assert end["exitCode"] == 7, output
    until("nothing is left of it", lambda: os.listdir(home.work) == [])
    for i in range(5):         # each begins while the one before it ends
        with Codex(home) as c:
            c.hello()
            for k in range(5):
                c.shell(f"n{k}", "mkdir .codex || exit 7", sandbox=sandbox)
            for k in range(5):
                assert c.ended(f"n{k}")[1]["exitCode"] == 7


def test_read_only_and_path_permissions_are_enforced(home):
    for name in ("a", "b", "c/d"):
        os.makedirs(os.path.join(home.work, name))
    write(os.path.join(home.work, "b", "secret.env"), b"s")
    write(os.path.join(home.work, "c", "d", "deep.env"), b"s")
    here = os.path.realpath(home.work)
    at = lambda name: os.path.join(here, name)
    with Codex(home) as c:
        c.hello()
        number = [0]

        def status(line, sandbox, **more):
            number[0] += 1
            return c.run(f"r{number[0]}", line, sandbox=sandbox, **more)[1]["exitCode"]

        only = intent(here)
        assert status("echo x > file", only) != 0 and status("cat b/secret.env", only) == 0
        assert status("echo x > a/f", intent(here, PROJECT, entry(at("a"), "read"))) != 0
        assert status("echo x > b/f", intent(here, PROJECT, entry(at("a"), "read"))) == 0
        assert status("echo x > a/f", intent(here, PROJECT, entry(at("a"), "read"), entry(at("a"), "write"))) == 0   # as with Codex
        assert status("cat b/secret.env", intent(here, PROJECT, entry(at("b"), "deny"))) != 0
        assert status("cat b/secret.env", intent(here, PROJECT, entry(at("b"), "none"), entry(at("b"), "write"))) != 0
        assert status("cat b/secret.env", intent(here, PROJECT, entry(at("b"), "deny"), entry(at("b/secret.env"), "read"))) != 0   # as with Codex
        assert status("mkdir new", intent(here, PROJECT, entry(at("new"), "read"))) != 0
        globs = intent(here, PROJECT, {"path": {"type": "glob_pattern", "pattern": "**/*.env"}, "access": "deny"})
        assert status("cat b/secret.env", globs) != 0 and status("cat c/d/deep.env", globs) != 0 and status("echo x > b/ok && cat b/ok", globs) == 0
        for pattern in ("**/*.{env,key}", "**/secret\\.env", "/".join(["**"] * 9) + "/x"):     # which would hide less here than with Codex
            assert c.fails("process/start", {"processId": "glob", "argv": ["true"], "cwd": uri(here), "env": {}, "tty": False, "sandbox": intent(
                here, PROJECT, {"path": {"type": "glob_pattern", "pattern": pattern}, "access": "deny"})}, code=-32602)
        assert status("echo x > file", intent(here, special("current_working_directory", "write"))) == 0
        # The request cannot grant more than the profile.
        assert status("echo x > /var/bailiff-test", intent(here, PROJECT, entry("/var", "write"))) != 0
        assert status("echo x > /var/bailiff-test", intent(here, special("root", "write"))) != 0
        assert status("echo x > /var/bailiff-test", None) != 0 and status("echo x > file2", None) == 0
        # Only named paths can be read.
        minimal = intent(here, PROJECT)
        minimal["permissions"]["file_system"]["entries"][0] = special("minimal", "read")
        assert status("ls /usr/bin > /dev/null && cat b/secret.env", minimal) == 0
        shown = [d for d in ("/opt", "/srv", "/boot", "/mnt", "/media") if os.path.isdir(d)]
        for folder in shown:
            assert status(f"ls {folder}/.", minimal) != 0, folder


def test_network_access_never_exceeds_the_profile(home):
    look = "cat /proc/net/dev | tail -n +3 | wc -l"
    with Codex(home) as c:
        c.hello()
        for i, sandbox in enumerate((None, intent(home.work, PROJECT, network="enabled"), intent(home.work, PROJECT), {
                "permissions": {"type": "disabled"}, "cwd": uri(home.work), "windowsSandboxLevel": "disabled"}, {
                "permissions": {"type": "external", "network": "enabled"}, "cwd": uri(home.work), "windowsSandboxLevel": "disabled"})):
            output, end = c.run(f"n{i}", look, sandbox=sandbox)
            assert output.strip() == b"1" and end["exitCode"] == 0, (sandbox, output)


def test_requested_permissions_narrow_the_policys_profile():
    with tempfile.TemporaryDirectory(prefix="bl-next-") as other:
        other = os.path.realpath(other)
        with Policed({"profiles": {"wide": {"network": "host", "writeRoots": [other]}}}) as home, Codex(home, "--profile", "wide") as c, home.rpc() as rpc:
            session = c.hello()["sessionId"]
            line = f"echo x > {other}/f"
            assert c.run("a", line, sandbox=intent(home.work, PROJECT))[1]["exitCode"] != 0
            assert c.run("b", line, sandbox=intent(home.work, PROJECT, entry(other, "write"), network="enabled"))[1]["exitCode"] == 0
            assert c.run("c", line, sandbox=None, enforceManagedNetwork=True)[1]["exitCode"] == 0
            assert c.run("d", line, sandbox=None, managedNetwork={"loopbackPorts": []})[1]["exitCode"] == 0
            events = rpc.events(sessionId=session)
            commands = [e["processId"] for e in commands_of(events)]
            networks = [e["sandboxProfile"]["network"] for e in events if e["type"] == "sandbox.applied" and e["processId"] in commands]
            assert networks == ["none", "host", "none", "none"], networks


def test_unknown_sandbox_settings_are_rejected(home):
    with Codex(home) as c, home.rpc() as rpc:
        c.hello()
        good = intent(home.work, PROJECT)
        real = dict(good, policyContext={"cwd": good["cwd"], "workspaceRoots": good["workspaceRoots"]}, userHomeDir="file:///root", temporaryDirectories=[],
                    windowsSandboxProxySettingsMode="reconcile", somethingNew=None)

        def without(change):
            bad = json.loads(json.dumps(good))
            change(bad)
            return bad
        entries = lambda s: s["permissions"]["file_system"]["entries"]
        for change, words in (
                (lambda s: entries(s).append(special("moon", "read")), "entries[2]"),
                (lambda s: entries(s).append(special("unknown", "read", path=":x")), "entries[2]"),
                (lambda s: entries(s).append({"path": {"type": "inode"}, "access": "read"}), "path.type"),
                (lambda s: entries(s).append(special("root", "execute")), "access 'execute'"),
                (lambda s: entries(s).append(dict(special("root", "read"), missing_path_behavior="create")), "missing_path_behavior"),
                (lambda s: entries(s).append(special("project_roots", "write", subpath="../../etc")), "leads out"),
                (lambda s: entries(s).append({"path": {"type": "path", "path": "/etc"}, "access": "read"}), "file: URI"),
                (lambda s: entries(s).append({"path": {"type": "glob_pattern", "pattern": "*"}, "access": "write"}), "only deny"),
                (lambda s: entries(s).append(entry(home.work, "deny")), ""),
                (lambda s: s["permissions"].update(type="wonderful"), "type 'wonderful'"),
                (lambda s: s["permissions"].update(devices="none"), "'devices'"),
                (lambda s: s["permissions"]["file_system"].update(quota=1), "'quota'"),
                (lambda s: entries(s)[1].update(unless="x"), "'unless'"),
                (lambda s: entries(s)[0]["path"]["value"].update(subpath="usr"), "subpath"),
                (lambda s: s["permissions"].update(network="some"), "network"),
                (lambda s: s["permissions"].pop("network"), "network"),
                (lambda s: s["permissions"]["file_system"].update(type="odd"), "file_system"),
                (lambda s: s["permissions"]["file_system"].update(entries="all"), "entries"),
                (lambda s: entries(s).pop(0), "system's programs"),
                (lambda s: s.update(cwd="here"), "sandbox.cwd"),
                (lambda s: s.update(seccomp="strict"), "'seccomp'"),
                (lambda s: s.update(policyContext={"cwd": "file:///"}), "policyContext: its cwd"),
                (lambda s: s.update(policyContext={"cwd": s["cwd"], "workspaceRoots": s["workspaceRoots"], "umask": 0}), "'umask'"),
                (lambda s: s.update(permissions=None), "permissions")):
            params = {"processId": "p", "argv": ["true"], "cwd": uri(home.work), "env": {}, "tty": False, "sandbox": without(change)}
            e = c.fails("process/start", params, code=-32602)
            assert words in e.message, (words, e)
            assert c.fails("fs/getMetadata", {"path": uri(home.work), "sandbox": without(change)}, code=-32602)
        assert rpc.call("list_processes")["processes"] == []
        assert c.run("real", "echo fine", sandbox=real)[0] == b"fine\n"


def test_writable_and_read_only_folders_can_be_nested(home):
    for name in ("out/deep", "src", ".git/hooks"):
        os.makedirs(os.path.join(home.work, name))
    at = lambda name: os.path.join(home.work, name)
    with Codex(home) as c:
        c.hello()
        # The project is readable, two folders in it are writable, one of which has a read-only folder; git hooks stay protected.
        sandbox = intent(home.work, special("project_roots", "read"), entry(at("out"), "write"), entry(at("out/deep"), "read"), entry(at(".git"), "write"),
                         entry(at("missing"), "write"))
        wants = {"out/x": True, "out/deep/x": False, "src/x": False, "x": False, ".git/x": True, ".git/hooks/x": False, "missing/x": False}
        for name, fine in wants.items():
            assert (c.run(name, f"touch {name}", sandbox=sandbox)[1]["exitCode"] == 0) == fine, name
        for name in ("mv out other", "mv .git other", "rm -r out/deep", "mkdir missing", "mkdir out/.codex"):
            assert c.run(name, name, sandbox=sandbox)[1]["exitCode"] != 0, name
        sandbox = intent(home.work, special("project_roots", "write"), entry(at("src"), "read"), entry(at("out"), "deny"), entry(at("out/deep"), "write"))
        for name, fine in {"x2": True, "src/x2": False, "out/x2": False, "out/deep/x2": True}.items():
            assert (c.run(name, f"touch {name}", sandbox=sandbox)[1]["exitCode"] == 0) == fine, name


def test_protected_links_cannot_be_replaced(home):
    with Codex(home) as c:
        c.hello()
        os.mkdir(os.path.join(home.work, "settings"))
        os.symlink("settings", os.path.join(home.work, ".codex"))
        tries = "for t in 'touch .codex/x' 'touch settings/x' 'rm .codex' 'mv settings x' 'ln -sfn /tmp .codex'; do sh -c \"$t\" 2>/dev/null && echo \"$t\"; done; touch free && ls .codex/"
        output, end = c.run("kept", tries, sandbox=workspace_write(home.work))
        assert output == b"" and end["exitCode"] == 0, (output, end)
        assert os.readlink(os.path.join(home.work, ".codex")) == "settings" and os.listdir(os.path.join(home.work, "settings")) == []
        hidden = intent(home.work, PROJECT, entry(os.path.join(home.work, ".codex"), "deny"))
        params = {"processId": "p", "argv": ["true"], "cwd": uri(home.work), "env": {}, "tty": False, "sandbox": hidden}
        assert f"'{home.work}/.codex' is a symbolic link" in c.fails("process/start", params, code=-32602).message


def test_denials_are_recorded_where_the_kernel_reports_them():
    with harness.audit_turn(), Home(options=()) as home, home.rpc() as rpc:
        state = rpc.call("get_health")["violations"]
        if state["state"] != "enforced":
            raise harness.Skip(f"violations are unavailable: {state.get('why')}")
        with Codex(home) as c:
            c.hello()
            sandbox = workspace_write(home.work)
            assert c.run("quiet", "echo x 2> /dev/null > /etc/bailiff-test; exit 1", sandbox=sandbox)[1]["sandboxDenied"] is True
            assert c.run("words", "echo 'Permission denied' >&2; exit 1", sandbox=sandbox)[1]["sandboxDenied"] is False
            assert c.run("fine", "echo x 2> /dev/null > /etc/bailiff-test; true", sandbox=sandbox)[1]["sandboxDenied"] is False
            # Denied by owner and mode, not by the sandbox.
            for name, line in (("mode", "echo exit > script; ./script"), ("closed", "echo x > closed; chmod 0 closed; cat closed")):
                output, end = c.run(name, line, sandbox=sandbox)
                assert b"Permission denied" in output and end["exitCode"] != 0 and end["sandboxDenied"] is False, (output, end)
            assert c.run("both", "cat closed; echo x > /etc/bailiff-test", sandbox=sandbox)[1]["sandboxDenied"] is True
            connect = "import socket; socket.create_connection(('192.0.2.1', 80), 5)"
            c.start("network", "/usr/bin/python3", "-c", connect, sandbox=sandbox)
            assert c.ended("network")[1]["sandboxDenied"] is True


# ---- files ----

def test_file_methods(home):
    here = os.path.realpath(home.work)
    at = lambda name: uri(os.path.join(here, name))
    with Codex(home) as c:
        c.hello()
        for round_, sandbox in enumerate((None, workspace_write(here))):
            fails = lambda method, code, **p: c.fails("fs/" + method, dict(p, sandbox=sandbox), code=code)
            assert "(os error 2)" in fails("readFile", -32004, path=at("none")).message
            assert fails("writeFile", -32004, path=at("new/x"), dataBase64=b64(b"hi"))
            assert fails("createDirectory", -32004, path=at("new/deep"), recursive=False)
            assert c.fs("createDirectory", sandbox, path=at("new/deep"), recursive=True) == {}
            assert c.fs("createDirectory", sandbox, path=at("new/deep")) == {}
            assert "(os error 17)" in fails("createDirectory", -32603, path=at("new/deep"), recursive=False).message
            data = os.urandom(300000) if round_ else "grüße\n".encode()
            assert c.fs("writeFile", sandbox, path=at("new/x%20y"), dataBase64=b64(data)) == {}
            assert read(os.path.join(here, "new", "x y")) == data
            assert base64.b64decode(c.fs("readFile", sandbox, path=at("new/x%20y"))["dataBase64"]) == data
            assert c.fs("writeFile", sandbox, path=at("new/empty"), dataBase64="") == {} and c.fs("readFile", sandbox, path=at("new/empty")) == {"dataBase64": ""}
            assert fails("writeFile", -32600, path=at("new/x"), dataBase64="!")
            assert "(os error 21)" in fails("writeFile", -32603, path=at("new"), dataBase64=b64(b"hi")).message
            assert "is not a file" in fails("readFile", -32600, path=at("new")).message
            os.symlink("x y", os.path.join(here, "new", "link"))
            meta = c.fs("getMetadata", sandbox, path=at("new/link"))
            assert meta["isFile"] and meta["isSymlink"] and not meta["isDirectory"] and meta["size"] == len(data), meta
            assert abs(meta["modifiedAtMs"] / 1000 - os.stat(os.path.join(here, "new", "x y")).st_mtime) < 0.01
            assert "symbolic link" in fails("getMetadata", -32600, path=at("new/link"), followSymlinks=False).message
            assert c.fs("canonicalize", sandbox, path=at("new/link")) == {"path": at("new/x%20y")}
            names = {e["fileName"]: (e["isDirectory"], e["isFile"]) for e in c.fs("readDirectory", sandbox, path=at("new"))["entries"]}
            assert names == {"deep": (True, False), "x y": (False, True), "empty": (False, True), "link": (False, True)}, names
            limits = {"maxDepth": 5, "maxDirectories": 50, "maxEntries": 50, "followDirectorySymlinks": False}
            walked = c.fs("walk", sandbox, path=at("new"), options=limits)
            assert [(e["path"], e["kind"]) for e in walked["entries"]] == [(at("new/deep"), "directory"), (at("new/empty"), "file"),
                                                                         (at("new/x%20y"), "file")] and not walked["truncated"], walked
            assert c.fs("walk", sandbox, path=at("new"), options=dict(limits, maxEntries=1))["truncated"]
            os.symlink("../..", os.path.join(here, "new", "deep", "up"))     # cycles end where a directory is entered again
            walked = c.fs("walk", sandbox, path=at("new"), options=dict(limits, followDirectorySymlinks=True))
            paths = [e["path"] for e in walked["entries"]]
            assert at("new/deep/up/new") in paths and at("new/deep/up/new/deep") not in paths and not walked["truncated"], walked
            os.unlink(os.path.join(here, "new", "deep", "up"))
            assert fails("walk", -32602, path=at("new"), options={})
            assert c.fs("copy", sandbox, sourcePath=at("new/x%20y"), destinationPath=at("y"), recursive=False) == {}
            assert fails("copy", -32600, sourcePath=at("new"), destinationPath=at("z"), recursive=False)
            assert fails("copy", -32600, sourcePath=at("new"), destinationPath=at("new/in"), recursive=True)
            assert c.fs("copy", sandbox, sourcePath=at("new"), destinationPath=at("z"), recursive=True) == {}
            assert read(os.path.join(here, "z", "x y")) == data and os.path.islink(os.path.join(here, "z", "link"))
            assert c.fs("open", sandbox, handleId="h", path=at("y")) == {"handleId": "h"}
            assert fails("open", -32600, handleId="h", path=at("y")) and fails("open", -32004, handleId="i", path=at("none"))
            block = c.call("fs/readBlock", {"handleId": "h", "offset": 1, "len": 3})
            assert base64.b64decode(block["chunk"]) == data[1:4] and not block["eof"], block
            block = c.call("fs/readBlock", {"handleId": "h", "offset": len(data) - 2, "len": 10})
            assert base64.b64decode(block["chunk"]) == data[-2:] and block["eof"], block
            assert c.fails("fs/readBlock", {"handleId": "h", "offset": 0, "len": 0}, code=-32600)
            assert c.call("fs/close", {"handleId": "h"}) == {} and c.fails("fs/readBlock", {"handleId": "h", "offset": 0, "len": 1}, code=-32004)
            assert "(os error 39)" in fails("remove", -32603, path=at("new"), recursive=False, force=False).message
            assert fails("remove", -32004, path=at("none"), recursive=False, force=False) and c.fs("remove", sandbox, path=at("none")) == {}
            for name in ("new", "y", "z"):
                assert c.fs("remove", sandbox, path=at(name)) == {}
            assert names_in(here) == []


def test_file_methods_cannot_leave_the_sandbox(home):
    here = os.path.realpath(home.work)
    write(os.path.join(here, "f"), b"x")
    os.mkdir(os.path.join(here, ".git"))
    outside = os.path.join(home.dir, "config.json")
    write(outside, b"{}")
    with Codex(home) as c, home.rpc() as rpc:
        session = c.hello()["sessionId"]
        sandbox = workspace_write(here)
        for s in (None, sandbox):
            assert c.fails("fs/readFile", {"path": uri(outside), "sandbox": s})
            assert "(os error 30)" in c.fails("fs/writeFile", {"path": uri("/etc/bailiff-test"), "dataBase64": "", "sandbox": s}, code=-32603).message
        assert c.fails("fs/writeFile", {"path": uri(here + "/.git/x"), "dataBase64": "", "sandbox": sandbox})
        # The file's own folder is not a project: an intent that needs one and names none is rejected.
        nowhere = dict(intent(here, PROJECT), cwd=None, workspaceRoots=[])
        assert c.fails("fs/writeFile", {"path": uri(here + "/f"), "dataBase64": "", "sandbox": nowhere}, code=-32602)
        assert c.fails("fs/writeFile", {"path": uri(here + "/f"), "dataBase64": "", "sandbox": intent(here)}, code=-32603)
        assert c.fails("fs/remove", {"path": uri(here + "/f"), "sandbox": intent(here)}, code=-32603)
        assert c.fails("fs/copy", {"sourcePath": uri(here + "/f"), "destinationPath": uri(here + "/g"), "recursive": False, "sandbox": intent(here)}, code=-32603)
        assert c.fails("fs/readFile", {"path": uri(here + "/f"), "sandbox": intent(here, PROJECT, entry(here + "/f", "deny"))})
        os.symlink(outside, os.path.join(here, "way-out"))
        assert c.fails("fs/readFile", {"path": uri(here + "/way-out"), "sandbox": sandbox})
        assert read(os.path.join(here, "f")) == b"x"
        tools = commands_of(rpc.events(sessionId=session))
        assert len(tools) >= 8 and all(os.path.basename(e["payload"]["command"][0]) == "bailiff-tool" for e in tools), tools


def test_rules_about_files_apply():
    with Policed({"permissions": {"deny": ["Read(*.pem)"], "ask": ["Edit(*.lock)"]}}) as home, Codex(home) as c:
        write(os.path.join(home.work, "key.pem"), b"k")
        c.hello()
        e = c.fails("fs/readFile", {"path": uri(home.work + "/key.pem"), "sandbox": workspace_write(home.work)}, code=-32600)
        assert "policy" in e.message and c.fails("fs/getMetadata", {"path": uri(home.work + "/key.pem")}, code=-32600)
        e = c.fails("fs/writeFile", {"path": uri(home.work + "/a.lock"), "dataBase64": "", "sandbox": workspace_write(home.work)}, code=-32600)
        assert "asks an operator" in e.message and not os.path.exists(home.work + "/a.lock"), e
        assert c.fs("writeFile", workspace_write(home.work), path=uri(home.work + "/a.txt"), dataBase64="") == {}
        os.symlink("key.pem", os.path.join(home.work, "link"))
        for method, more in (("readFile", {}), ("getMetadata", {}), ("writeFile", {"dataBase64": ""}),
                             ("copy", {"sourcePath": uri(home.work + "/a.txt"), "destinationPath": uri(home.work + "/link"), "recursive": False})):
            e = c.fails("fs/" + method, {"path": uri(home.work + "/link"), "sandbox": workspace_write(home.work), **more})
            assert "is a symbolic link" in e.message, (method, e)
        assert c.fs("remove", workspace_write(home.work), path=uri(home.work + "/link")) == {} and os.path.exists(home.work + "/key.pem")


def test_file_operations_that_need_approval_are_rejected():
    with Policed({"permissions": {"ask": ["Edit(*.lock)", "Bash(touch:*)"]}}) as home, Codex(home) as c, home.rpc() as rpc:
        session = c.hello()["sessionId"]
        mine = rpc.call("start_process", command=["touch", "mine"], cwd=home.work, sessionId=session)
        assert mine["status"] == "waiting_permission", mine
        assert c.fails("fs/writeFile", {"path": uri(home.work + "/a.lock"), "dataBase64": ""}, code=-32600)
        why = [e["payload"].get("justification") for e in rpc.events(sessionId=session) if e["type"] == "permission.evaluated"]
        assert why == [None, "Codex fs/writeFile"], why
        rpc.call("respond_action", actionId=mine["actionId"], decision="allow")
        assert rpc.wait(mine["processId"])["exitCode"] == 0


# ---- approvals ----

def test_command_waits_for_its_approval():
    with Policed({"permissions": {"ask": ["Bash(touch:*)"]}}) as home, home.rpc() as rpc, Codex(home, "--approval-timeout", "60s") as c:
        c.hello()
        params = {"argv": ["touch", "made"], "cwd": uri(home.work), "env": {"PATH": "/usr/bin:/bin"}, "tty": False, "sandbox": workspace_write(home.work)}

        def asked(name):
            request = c.send("process/start", dict(params, processId=name))
            return request, until("it is asked", lambda: rpc.call("list_actions", status="pending")["actions"])[0]["actionId"]
        request, action = asked("yes")
        assert c.call("environment/status") == {"status": "ready"}      # other requests are served meanwhile
        assert c.write("yes", b"x") == "starting"
        rpc.call("respond_action", actionId=action, decision="allow")
        assert c.reply(request)["processId"] == "yes"
        assert c.ended("yes")[1]["exitCode"] == 0 and os.path.exists(home.work + "/made")
        request, action = asked("no")
        rpc.call("respond_action", actionId=action, decision="deny")
        c.replies.pop(request, None)
        answer = c.until("the refusal", lambda: c.replies.pop(request, None))
        assert answer["error"]["code"] == -32600, answer
        c.run("no", "true")         # its name is free
        # A command that the client terminates meanwhile does not start when the question is answered later.
        os.unlink(home.work + "/made")
        request, action = asked("ended")
        c.call("process/terminate", {"processId": "ended"})
        assert c.until("its end", lambda: c.replies.pop(request, None))["error"]["code"] == -32600
        until("the question is gone", lambda: not rpc.call("list_actions", status="pending")["actions"])
        assert not os.path.exists(home.work + "/made") and live(rpc) == []
        # Nor does one that is terminated before the daemon has replied.
        runtime = home.kill_part("runtime", signal.SIGSTOP)
        request, running = c.send("process/start", dict(params, processId="early")), c.send("process/start", dict(params, processId="runs", argv=["sleep", "1000"]))
        assert [c.call("process/terminate", {"processId": name}) for name in ("early", "runs")] == [{"running": False}] * 2
        os.kill(runtime, signal.SIGCONT)
        assert c.until("its end", lambda: c.replies.pop(request, None))["error"]["code"] == -32600
        assert c.reply(running)["processId"] == "runs" and c.ended("runs")[1]["exitCode"] == 137
        until("nothing of it is left", lambda: live(rpc) == [] and not rpc.call("list_actions", status="pending")["actions"])


def test_codexs_home_and_path_do_not_require_approval():
    """HOME and PATH come with every command; an unrelated rule does not make each command wait for approval."""
    try:
        own = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise harness.Skip("this user has no home") from None
    with Policed({"permissions": {"deny": ["Bash(rm:*)"], "ask": ["Bash(touch:*)"]}}) as home, home.rpc() as rpc, Codex(home) as c:
        c.hello()
        c.start("p", "ls", env={"HOME": own, "PATH": own + "/.local/bin:/opt/tools/bin:/usr/local/bin:/usr/bin:/bin"})
        assert c.ended("p")[1]["exitCode"] == 0
        assert not rpc.call("list_actions")["actions"]


def test_approval_times_out():
    with Policed({"permissions": {"ask": ["Bash(touch:*)"]}}) as home, home.rpc() as rpc, Codex(home, "--approval-timeout", "1s") as c:
        c.hello()
        e = c.fails("process/start", {"processId": "p", "argv": ["touch", "made"], "cwd": uri(home.work), "env": {}, "tty": False}, code=-32600)
        assert "was not answered within 1 s" in e.message and "action act_" in e.message and "within 1 s" in e.message, e
        until("the question is gone", lambda: not rpc.call("list_actions", status="pending")["actions"])
        assert not os.path.exists(home.work + "/made") and live(rpc) == []


# ---- malformed and excessive requests ----

def test_malformed_messages_are_answered_and_nothing_breaks(home):
    with Codex(home) as c:
        c.hello()
        for line in (b"nonsense", b"[]", b"{}", b"null", b"\xff\xfe", b'{"id":1}', b'{"id":{},"method":"x"}', b'{"id":7,"method":5}', b'{"method":"process/start"}',
                     b'{"id":8,"method":"process/start","params":[1]}', b'{"id":9,"method":"process/start","params":"x"}', b"[" * 100000,
                     b'{"id":"s","method":"fs/readFile","params":{"path":"file:///%zz"}}', b'{"id":10,"result":{}}',
                     b'{"id":11,"method":"initialize","params":{"clientName":"\\u0000"}}'):
            c.raw(line + b"\n")
        assert c.call("environment/status") == {"status": "ready"}
        assert len(c.odd) >= 6 and all(m["id"] == -1 and m["error"]["code"] == -32600 for m in c.odd), c.odd
        assert c.run("p", "echo still here")[0] == b"still here\n"


def test_flood_of_requests_is_throttled_and_served(home):
    with Codex(home) as c, home.rpc() as rpc:
        c.hello()
        wanted = [c.send("fs/getMetadata", {"path": uri(home.work)}) for _ in range(300)]
        wanted += [c.send("environment/status") for _ in range(2000)]
        for request in wanted:
            assert c.reply(request)
        c.shell("loud", "head -c 30000000 /dev/zero", sandbox=workspace_write(home.work))
        rss = 0
        until("it has ended", lambda: not live(rpc))
        for line in open(f"/proc/{c.process.pid}/status"):
            if line.startswith("VmRSS"):
                rss = int(line.split()[1])
        assert rss < 100000, f"{rss} KiB are kept for a client that does not read"
        assert len(c.ended("loud")[0]) == 30000000


def test_a_file_that_is_copied_onto_itself_keeps_its_contents(home):
    """Under its own name, through a link, and under a second name: the copy is rejected before anything is truncated."""
    here = os.path.join(home.work, "same")
    os.mkdir(here)
    write(os.path.join(here, "f"), b"precious")
    os.symlink("f", os.path.join(here, "link"))
    os.link(os.path.join(here, "f"), os.path.join(here, "second"))
    write(os.path.join(here, "longer"), b"something longer than that")
    with Codex(home) as c:
        c.hello()
        copy = lambda to: {"sourcePath": uri(here + "/f"), "destinationPath": uri(here + "/" + to), "recursive": False, "sandbox": workspace_write(here)}
        for name in ("f", "link", "second"):
            assert "itself" in c.fails("fs/copy", copy(name)).message, name
            assert read(os.path.join(here, "f")) == b"precious", name
        c.call("fs/copy", copy("longer"))
        assert read(os.path.join(here, "longer")) == b"precious"


if __name__ == "__main__":
    harness.main(globals())
