#!/usr/bin/python3
"""Denials by the sandbox become sandbox.violation: exactly, for the right process, in time, and counted.

Needs root and the kernel's audit. The commands run as an unprivileged peer.
"""

import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time

import harness
from harness import Home, until
from violations import CHMOD, NOBODY, PROGRAM, SERVANT, SETXATTRAT, Peer, has_call, python, run, violations, watched

FLOOD = int(os.environ.get("FLOOD", "1000000"))


def test_each_kind_of_denial_is_reported_exactly():
    wanted = [
        # attempt, kind, operation, what is named
        ("write:/etc/hosts", "filesystem", "write", {"path": "/etc/hosts", "pathIs": "entry"}),
        ("read:/etc/shadow", "filesystem", "read", {"path": "/etc/shadow", "pathIs": "entry"}),
        ("relative:/etc/passwd", "filesystem", "write", {"path": "/etc/passwd", "pathIs": "entry"}),
        ("chmod:/etc/hosts", "filesystem", "metadata", {"path": "/etc/hosts", "pathIs": "entry", "syscall": CHMOD}),
        ("utime:/etc/group", "filesystem", "metadata", {"path": "/etc/group", "pathIs": "entry"}),
        ("setxattr:/etc/fstab", "filesystem", "metadata", {"path": "/etc/fstab", "syscall": "setxattr"}),
        ("create:/etc/bailiff new", "filesystem", "create", {"path": "/etc", "pathIs": "directory"}),
        ("creat:/usr/bailiff-new", "filesystem", "create", {"path": "/usr", "pathIs": "directory"}),
        ("mkdir:/etc/bailiff-ö", "filesystem", "create", {"path": "/etc/bailiff-ö", "pathIs": "entry"}),
        ("unlink:/etc/hosts", "filesystem", "delete", {"path": "/etc/hosts"}),
        ("rename:/etc/passwd", "filesystem", "rename", {"path": "/etc/passwd"}),
        ("connect:255.255.255.255", "network", "connect", {"address": "255.255.255.255", "port": 443}),
        ("send:255.255.255.255", "network", "send", {"address": "255.255.255.255", "port": 53}),
        ("hostname:x", "syscall", "kernel", {"syscall": "sethostname"}),
        ("setreuid:0", "syscall", "identity", {"syscall": "setreuid"}),
    ]
    if has_call(SETXATTRAT):
        wanted.append(("setxattrat:/etc/profile", "filesystem", "metadata", {"path": "/etc/profile", "syscall": "setxattrat"}))
    with watched() as home, Peer(home.socket) as rpc:
        process, result = run(rpc, *[w[0] for w in wanted])
        found = violations(rpc, process)
        for attempt, kind, operation, named in wanted:
            match = [v for v in found if v["kind"] == kind and v["operation"] == operation and named.items() <= v.items()]
            assert len(match) == 1 and match[0]["count"] == 1, (attempt, found)
            assert match[0]["confidence"] == "exact" and match[0]["source"] in ("audit", "landlock", "seccomp"), match
            assert match[0]["comm"] == "python3" and match[0]["pid"] > 0, match
        assert len(found) == len(wanted), [v for v in found]
        assert result["violationCount"] == len(wanted) and len(result["violations"]) == len(wanted), result
        assert rpc.call("get_process", processId=process)["violations"] == result["violations"]
        events = rpc.events(processId=process)
        assert [e["type"] for e in events].index("sandbox.violation") > [e["type"] for e in events].index("process.started")
        assert events[-1]["type"] in ("process.completed", "turn.failed", "thread.updated") and \
            max(i for i, e in enumerate(events) if e["type"] == "sandbox.violation") < \
            [e["type"] for e in events].index("process.completed")
        assert [e["payload"]["violations"] for e in events if e["type"] == "sandbox.applied"] == ["enforced"], events
        completed = [e for e in events if e["type"] == "process.completed"][0]
        assert completed["payload"]["violationCount"] == len(wanted), completed
        harness.validate(harness.event_validators(), events)


def test_denials_of_a_private_root_are_reported():
    """The walls themselves: read-only binds, protected and hidden paths, no network, filtered system calls."""
    script = """
        echo x >/etc/hosts; chmod 777 /etc/hosts; mkdir /etc/new; mv .git moved; cat /etc/shadow; unshare -U true
        python3 -I -S -c 'import socket; socket.socket().connect(("203.0.113.7", 80))'
        python3 -I -S -c 'import socket; socket.socket(socket.AF_UNIX).bind(".git/hooks/s")'
    """
    # outside /tmp, which is private inside; below a folder that others may enter
    with watched() as home, tempfile.TemporaryDirectory(dir="/srv", prefix="bailiff-test-") as work, home.rpc() as rpc:
        os.makedirs(os.path.join(work, ".git", "hooks"))
        started, result = rpc.run(script, cwd=work, profile="workspace")
        told = violations(rpc, started["processId"])
        for wanted in (
            {"kind": "filesystem", "operation": "write", "path": "/etc/hosts", "reason": "outside the write roots"},
            {"kind": "filesystem", "operation": "metadata", "path": "/etc/hosts", "reason": "outside the write roots"},
            {"kind": "filesystem", "operation": "create", "path": "/etc", "pathIs": "directory"},
            {"kind": "filesystem", "operation": "rename", "path": work + "/.git", "reason": "protected"},
            {"kind": "filesystem", "operation": "read", "path": "/etc/shadow"},
            {"kind": "network", "operation": "connect", "address": "203.0.113.7", "port": 80, "reason": "no network"},
            {"kind": "network", "operation": "bind", "path": work + "/.git/hooks/s"},
            {"kind": "syscall", "syscall": "unshare", "source": "seccomp"},
        ):
            assert len([v for v in told if wanted.items() <= v.items()]) == 1, (wanted, told)
        assert result["violationCount"] == sum(v["count"] for v in told) == 8, told
        # With a proxy: what does not go through it is refused by the kernel, what does by the proxy; both are reported, once each.
        around = """python3 -I -S -c 'import socket; socket.socket().connect(("203.0.113.7", 80))'
            python3 -I -S -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("203.0.113.7", 53))'
            python3 -I -S -c 'import socket; s = socket.create_connection(("127.0.0.1", 61080)); s.sendall(b"CONNECT 203.0.113.7:80 HTTP/1.0\\r\\n\\r\\n"); s.recv(9)'
        """
        started, result = rpc.run(around, cwd=work, profile="workspace", sandbox={"allowHosts": ["example.com"]})
        told = [(v["source"], v["operation"], v.get("address") or v.get("host"), v["port"], v["reason"]) for v in violations(rpc, started["processId"])]
        assert sorted(told) == [("audit", "connect", "203.0.113.7", 80, "only through the proxy"), ("audit", "send", "203.0.113.7", 53, "only through the proxy"),
                                ("proxy", "connect", "203.0.113.7", 80, "not in the allowed hosts")], told
        assert result["violationCount"] == 3, result
        done = home.cli("run", "--profile", "workspace", "--", "/bin/sh", "-c", "echo x >/etc/hosts", cwd=work, status=None)
        assert "bailiff: denied: write /etc/hosts (outside the write roots)" in done.err.decode(), done.err


def test_32_bit_program_is_killed_and_reported():
    """Its first system call ends it. The name of that call is in the 32-bit table, and its arguments do not matter."""
    probe = os.path.join(harness.BUILD, "probe")
    outside = subprocess.run([probe, "foreign_calls"], capture_output=True, text=True, check=True).stdout
    if "open" not in outside:
        raise harness.Skip("this kernel runs no 32-bit programs: " + outside.strip())
    with watched() as home, tempfile.TemporaryDirectory(dir="/srv", prefix="bailiff-test-") as work, home.rpc() as rpc:
        shutil.copy(probe, work)
        started, result = rpc.run("./probe foreign_calls", cwd=work, profile="workspace")
        told = violations(rpc, started["processId"])
        assert "shut" in rpc.outputs(started["processId"])["stdout"].decode(), result
        assert [(v["kind"], v["operation"], v["source"], v["reason"]) for v in told] == \
            [("syscall", "call", "seccomp", "not for sandboxes: 32-bit system calls")], told


def test_reason_of_a_denial_is_the_deepest_rule():
    """The deepest rule about a path decides; what the kernel does not name is not guessed."""
    script = """
        cd sub; touch ../../../../usr/climbed; cd ..
        touch linked/x; touch shown/x; touch shut/x; touch locked/x
        python3 -I -S -c 'import os; os.unlink("x", dir_fd=os.open("/usr", 0))'; chmod u+s file
        python3 -I -S -c 'import socket; socket.socket().bind(("", 80))'
        python3 -I -S -c 'import socket; socket.socket(socket.AF_PACKET)'
    """
    with watched() as home, tempfile.TemporaryDirectory(dir="/srv", prefix="bailiff-test-") as work, Peer(home.socket) as rpc:
        for name in ("sub", "shown", "shut", "locked"):
            os.mkdir(os.path.join(work, name))
        os.symlink("/usr/share", os.path.join(work, "linked"))
        open(os.path.join(work, "file"), "w").close()
        for name in ("", "sub", "shown", "shut", "file"):
            os.chown(os.path.join(work, name), NOBODY, NOBODY)
        os.chmod(os.path.join(work, "locked"), 0o755)
        os.chmod(work, 0o755)
        started, _ = rpc.run(script, cwd=work, profile="workspace", sandbox={"readRoots": [work + "/shown"], "hidden": [work + "/shut"]})
        told = violations(rpc, started["processId"])
        for wanted in (
            {"operation": "create", "path": "/usr", "reason": "outside the write roots"},
            {"operation": "create", "path": work + "/linked", "reason": "leads out of the write roots"},
            {"operation": "create", "path": work + "/shown", "reason": "outside the write roots"},
            {"operation": "create", "path": work + "/shut", "reason": "hidden"},
            {"operation": "create", "path": work + "/locked", "reason": "not permitted to its user"},
            {"operation": "delete", "pathIs": "directory", "syscall": "unlinkat", "reason": "read-only there"},
            {"syscall": "fchmodat", "source": "seccomp", "reason": "not for sandboxes: setuid and setgid bits"},
            {"operation": "bind", "address": "0.0.0.0", "port": 80, "reason": "a port below 1024"},
            {"syscall": "socket", "source": "seccomp", "reason": "not for sandboxes with these arguments"},
        ):
            assert len([v for v in told if wanted.items() <= v.items()]) == 1, (wanted, told)
        assert len(told) == 9, told
        # Where the command line says which folder was opened, it is told.
        started, _ = rpc.run("cp file /usr/; ln -s bailiff-none /usr/share/", cwd=work, profile="workspace")
        named = {(v["operation"], v.get("path"), v["reason"]) for v in violations(rpc, started["processId"])}
        assert {("create", "/usr", "outside the write roots"), ("create", "/usr/share", "outside the write roots")} == named, named
        unnamed, = [v for v in told if v["operation"] == "delete"]
        assert "path" not in unnamed and unnamed["count"] >= 1, unnamed


def test_denial_is_reported_within_200_ms():
    with watched() as home, Peer(home.socket) as rpc:
        process = rpc.start(python(SERVANT), stdin="pipe", cwd="/", profile="host")["processId"]
        rpc.call("subscribe_events", processId=process, types=["sandbox.violation"])
        took = []
        for i in range(20):
            begin = time.monotonic()
            rpc.call("write_process_stdin", processId=process, data=f"mkdir:/etc/bailiff-{i}\n", encoding="utf8")
            event = rpc.event()
            took.append(time.monotonic() - begin)
            assert event["payload"]["path"] == f"/etc/bailiff-{i}", event
            assert event["processId"] == process, event
        rpc.call("close_process_stdin", processId=process)
        rpc.wait(process)
        assert statistics.median(took) < 0.2, took


def test_denials_of_parallel_commands_are_kept_apart():
    with watched() as home, Peer(home.socket) as rpc:
        ids = [rpc.start(python(SERVANT), stdin="pipe", cwd="/", profile="host")["processId"] for _ in range(50)]
        requests = [rpc.send("write_process_stdin", processId=p, encoding="utf8",
                             data="".join(f"mkdir:/etc/bailiff-{p}-{k}\n" for k in range(20)) + "read:/etc/shadow\n" * 7)
                    for p in ids]
        for request in requests:
            rpc.reply(request)
        for p in ids:
            rpc.call("close_process_stdin", processId=p)
        for p in ids:
            result = rpc.wait(p)
            told = violations(rpc, p)
            paths = sorted(v["path"] for v in told if v["operation"] == "create")
            assert paths == sorted(f"/etc/bailiff-{p}-{k}" for k in range(20)), (p, paths)
            assert sum(v["count"] for v in told if v["operation"] == "read") == 7, told
            assert result["violationCount"] == 27, result


def test_flood_of_denials_is_counted():
    flood = "import os\nfor i in range(%d):\n try: os.open('/etc/shadow', 0)\n except OSError: pass\n" % FLOOD
    with watched() as home, Peer(home.socket) as rpc, home.rpc() as other:
        process = rpc.start(python(flood), cwd="/", profile="host")["processId"]
        took, done = [], threading.Event()

        def ask():
            while not done.is_set():
                begin = time.monotonic()
                other.call("get_health")
                took.append(time.monotonic() - begin)
                done.wait(0.02)
        asker = threading.Thread(target=ask)
        asker.start()
        try:
            result = rpc.reply(rpc.send("wait_process", processId=process), patience=8 * harness.PATIENCE)  # a million takes a busy machine a minute
        finally:
            done.set()
            asker.join()
        told = violations(rpc, process)
        assert {v["path"] for v in told} == {"/etc/shadow"}, told
        assert sum(v["count"] for v in told) == FLOOD, (sum(v["count"] for v in told), len(told))
        assert result["violationCount"] == FLOOD and result["violations"][0]["count"] == FLOOD, result
        took.sort()
        assert took[len(took) * 95 // 100] < 0.1, took[-10:]
        print(f"# {FLOOD} refusals in {result['durationMs']} ms, {len(told)} events; get_health 95 % within "
              f"{took[len(took) * 95 // 100] * 1000:.1f} ms, worst {took[-1] * 1000:.1f} ms")


def congestions(pid):
    """How often the kernel found no room for audit records in time, as it counts that for the process's sockets."""
    with open("/proc/net/netlink") as f:
        head, *rows = [line.split() for line in f]
    held = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            held.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:       # closed meanwhile
            pass
    sockets = [dict(zip(head, row)) for row in rows]
    return sum(int(s["Drops"]) for s in sockets if f"socket:[{s['Inode']}]" in held)


def test_lost_audit_records_make_the_count_a_minimum():
    """A runtime that does not get to run in a flood until the kernel's patience ends: the count is said to be the least."""
    size = 150000
    if FLOOD < size:
        raise harness.Skip("needs more denials than FLOOD permits")
    flood = f"""import os, sys, time
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
for i in range({size}):
    try: os.open('/etc/shadow', 0)
    except OSError: pass
"""
    with watched() as home, Peer(home.socket) as rpc, home.rpc() as root:
        begin, before = os.path.join(home.dir, "begin"), congestions(home.part("runtime"))
        process = rpc.start(python(flood, begin), cwd="/", profile="host")["processId"]
        runtime = home.kill_part("runtime", signal.SIGSTOP)
        try:
            open(begin, "w").close()
            until("the queue is full", lambda: congestions(runtime) > before, patience=3 * harness.PATIENCE)  # the kernel waits for a minute
        finally:
            os.kill(runtime, signal.SIGCONT)
        result = rpc.wait(process)
        completed, = rpc.events(processId=process, types=["process.completed"])
        assert completed["payload"]["violationCountIsLeast"] is True, completed
        assert 0 < completed["payload"]["violationCount"] == result["violationCount"] <= size, (completed, result)
        assert "violations_lost" in [e["payload"].get("code") for e in root.events(types=["runtime.warning"])]
        process, _ = run(rpc, "read:/etc/shadow")
        completed, = rpc.events(processId=process, types=["process.completed"])
        assert completed["payload"]["violationCount"] == 1 and "violationCountIsLeast" not in completed["payload"], completed


def test_denials_beyond_a_limit_are_counted_together():
    """Past a number of different ones the rest is counted together."""
    many = "import os\nfor i in range(500):\n try: os.mkdir('/etc/bailiff-%d' % i)\n except OSError: pass\n"
    with watched() as home, Peer(home.socket) as rpc:
        started, result = rpc.run(python(many), cwd="/", profile="host")
        told = violations(rpc, started["processId"])
        assert sum(v["count"] for v in told) == 500, told
        assert 32 <= len(told) < 100, len(told)
        assert "other" in {v["operation"] for v in told}
        assert result["violationCount"] == 500 and len(result["violations"]) == 32, result


def test_denials_are_reported_after_restarts():
    with watched() as home, Peer(home.socket) as rpc:
        process = rpc.start(python(SERVANT), stdin="pipe", cwd="/", profile="host")["processId"]

        def provoke(rpc, name):
            rpc.call("write_process_stdin", processId=process, data=f"mkdir:/etc/{name}\n", encoding="utf8")
            until(name, lambda: [v for v in violations(rpc, process) if v["path"] == f"/etc/{name}"])
        provoke(rpc, "bailiff-first")
        home.kill_part("spawner")
        provoke(rpc, "bailiff-spawner")
        started, result = rpc.run(python(PROGRAM, "read:/etc/shadow"), cwd="/", profile="host")
        assert result["violationCount"] == 1, result
        home.kill_part("runtime")
        until("the daemon answers", home.answers)
        with Peer(home.socket) as again:
            provoke(again, "bailiff-runtime")
            _, result = again.run(python(PROGRAM, "read:/etc/shadow"), cwd="/", profile="host")
            assert result["violationCount"] == 1, result
            again.call("close_process_stdin", processId=process)
            assert again.wait(process)["violationCount"] == 3


def test_denials_are_reported_after_an_upgrade():
    with watched() as home, Peer(home.socket) as rpc:
        process = rpc.start(python(SERVANT), stdin="pipe", cwd="/", profile="host")["processId"]
        runtime = until("the runtime runs", lambda: home.part("runtime"))
        home.guard.send_signal(signal.SIGUSR2)
        until("another runtime runs", lambda: home.part("runtime") not in (None, runtime))
        until("the daemon answers", home.answers)
        with Peer(home.socket) as again:
            assert again.call("get_health")["violations"]["state"] == "enforced"
            again.call("write_process_stdin", processId=process, data="mkdir:/etc/bailiff-x\n", encoding="utf8")
            again.call("close_process_stdin", processId=process)
            assert again.wait(process)["violationCount"] == 1
            assert run(again, "read:/etc/shadow")[1]["violationCount"] == 1


def test_audit_is_taken_over_from_a_killed_daemon():
    with watched() as home:
        home.note_tree()
        home.guard.kill()
        home.guard.wait()
        home.start()
        with Peer(home.socket) as rpc:
            assert rpc.call("get_health")["violations"]["state"] == "enforced"
            assert run(rpc, "read:/etc/shadow")[1]["violationCount"] == 1




def test_everyday_denials_are_only_counted():
    with watched() as home, Peer(home.socket) as rpc:
        words = ["read:/root/.bashrc", "read:/root/.config/git/config", "read:/proc/1/environ"]
        process, result = run(rpc, *words, "read:/etc/shadow")
        assert [v["path"] for v in violations(rpc, process)] == ["/etc/shadow"], violations(rpc, process)
        assert result["benignRefusals"] == len(words), result


def test_git_stash_reports_no_denial():
    """git also tries to remove the folder of a temporary file, its git directory: that fails anywhere."""
    who = "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b; "
    with watched(host=False) as home, tempfile.TemporaryDirectory(dir="/srv", prefix="bailiff-test-") as work, home.rpc() as rpc:
        subprocess.run(["sh", "-ec", who + "git init -q src; cd src; echo x >f; git add f; git commit -qm first; git worktree add -q ../linked; cd ..; git init -q main; cd main; "
                        "git -c protocol.file.allow=always submodule --quiet add ../src libs/mod; git commit -qm start"],
                       cwd=work, env=harness.environment(HOME=home.dir), check=True, stdout=subprocess.DEVNULL)
        for where in ("src", "linked", "main", "main/libs/mod"):
            script = who + "echo y >new && git add new && git stash -q && git stash pop -q && test -f new"
            started, result = rpc.run(["sh", "-c", script], cwd=os.path.join(work, where))
            assert result["exitCode"] == 0 and result["benignRefusals"] > 0, (where, result, rpc.outputs(started["processId"]))
            assert not violations(rpc, started["processId"]), (where, violations(rpc, started["processId"]))


def test_offered_access_is_sufficient_and_minimal():
    """Mode on_failure: the offer names exactly what is opened, and with just that it passes; with any of it missing it does not."""
    with watched(host=False) as home, tempfile.TemporaryDirectory(dir="/srv", prefix="bailiff-test-") as work, \
            tempfile.TemporaryDirectory(dir="/srv", prefix="bailiff-test-") as other, home.rpc() as rpc:
        os.chmod(work, 0o755)
        os.chmod(other, 0o755)
        for name in ("a", "b", "deep/c"):
            os.makedirs(os.path.dirname(os.path.join(other, name)), exist_ok=True)
            open(os.path.join(other, name), "w").close()
        os.mkdir(os.path.join(other, "new"))
        # Written in place, twice; made; and made in a folder below one that is made in already.
        script = f"cd {other}; r=0; echo x >a || r=1; chmod 644 b || r=1; touch new/one || r=1; mkdir new/sub || r=1; echo y >a || r=1; exit $r"
        session = rpc.call("create_session", title="t")["sessionId"]
        rpc.call("set_permission_mode", sessionId=session, mode="on_failure")
        one, done = rpc.run(script, cwd=work, sessionId=session)
        assert done["exitCode"] == 1, done
        wanted = {"writeRoots": sorted(os.path.join(other, n) for n in ("a", "b", "new")), "readRoots": [], "allowHosts": []}
        completed, = rpc.events(processId=one["processId"], types=["process.completed"])
        found = completed["payload"]["wouldOpen"]
        assert dict(found, writeRoots=sorted(found["writeRoots"])) == wanted, found
        text = home.cli("policy", "suggest", one["processId"]).text.split("\n")
        assert sorted(text)[1:] == [f"run --rw {p}" for p in wanted["writeRoots"]], text
        for missing in wanted["writeRoots"] + [None]:
            roots = [p for p in wanted["writeRoots"] if p != missing]
            assert (rpc.run(script, cwd=work, sandbox={"writeRoots": roots})[1]["exitCode"] == 0) == (missing is None), missing
            shutil.rmtree(os.path.join(other, "new", "sub"), ignore_errors=True)
        action = until("it is offered", lambda: [a for a in rpc.call("list_actions", status="pending")["actions"] if a["processId"] == one["processId"]])[0]
        assert dict(action["scope"], writeRoots=sorted(action["scope"]["writeRoots"])) == wanted, action
        assert all(p in action["prompt"] for p in wanted["writeRoots"]), action["prompt"]
        before = {p["processId"] for p in rpc.call("list_processes")["processes"]}
        rpc.call("respond_action", actionId=action["actionId"], decision="allow")
        again = until("it runs again", lambda: [p for p in rpc.call("list_processes")["processes"] if p["processId"] not in before])[0]["processId"]
        assert rpc.wait(again)["exitCode"] == 0
        profile = rpc.events(processId=again, types=["sandbox.applied"])[0]["payload"]["sandboxProfile"]
        assert set(profile["writeRoots"]) == {work, *wanted["writeRoots"]}, profile["writeRoots"]
        # Protected paths and those that the user cannot access are not offered: opening them would not help, or is not allowed.
        os.makedirs(os.path.join(work, ".git", "hooks"))
        two, done = rpc.run("echo x >.git/hooks/pre-commit; cat /etc/shadow; false", cwd=work, sessionId=session)
        assert done["violationCount"] >= 1, done
        assert "wouldOpen" not in rpc.events(processId=two["processId"], types=["process.completed"])[0]["payload"]
        assert not [a for a in rpc.call("list_actions", status="pending")["actions"] if a.get("processId") == two["processId"]]


def test_run_prints_denials_on_stderr():
    code = "import socket,sys\ntry: socket.socket().connect(('255.255.255.255', 443))\nexcept OSError: pass\n"
    with watched() as home:
        done = home.cli("run", "--", *python(code))
        assert "bailiff: denied: connect 255.255.255.255:443 (no network)" in done.err.decode(), done.err
        assert "--allow-host 255.255.255.255:443" in done.err.decode(), done.err
        # git status does without the index that it would have refreshed; git commit does not.
        subprocess.run(["git", "init", "-q"], cwd=home.work, check=True, env=harness.environment())
        with open(os.path.join(home.work, "tracked"), "w") as f:
            f.write("x")
        subprocess.run(["git", "add", "."], cwd=home.work, check=True, env=harness.environment())
        os.utime(os.path.join(home.work, "tracked"), (1, 1))
        done = home.cli("run", "--profile", "readonly", "--", "git", "status", "--short")
        assert done.err == b"" and "tracked" in done.text, done.err
        done = home.cli("run", "--profile", "readonly", "--", "git", "commit", "-am", "x", status=128)
        assert f"bailiff: denied: create in {home.work}/.git (outside the write roots)" in done.err.decode(), done.err
        # A command with the host's network gets no suggestion to request it.
        done = home.cli("run", "--profile", "host", "--", *python(code))
        assert "bailiff: denied: connect 255.255.255.255:443" in done.err.decode(), done.err
        assert "--net host" not in done.err.decode() and "--allow-host" not in done.err.decode(), done.err


def test_denials_are_guessed_without_audit():
    with Home() as home, home.rpc() as rpc:
        state = rpc.call("get_health")
        assert state["violations"]["state"] == "unavailable" and state["violations"]["why"], state
        _, result = rpc.run(["true"])
        assert result["violations"] == [] and result["exitCode"] == 0


if __name__ == "__main__":
    harness.main(globals())
