#!/usr/bin/python3
"""Without exact reports, the output of a failed command is compared with its sandbox, and matches are reported as hints."""

import os
import pwd
import shutil
import tempfile

import harness
from codex import Codex, workspace_write
from harness import Home, Skip, until

UNAVAILABLE = ("--audit", "off")     # as without root, or in a container


def hints(rpc, process):
    return [e["payload"] for e in rpc.events(processId=process, types=["sandbox.violation"])]


def messages(home, *command, status=None):
    """The lines that bailiff itself prints after a command."""
    lines = home.cli("run", "--", *command, cwd=home.work, status=status).err.decode().split("\n")
    return [line for line in lines if line.startswith(("bailiff: ", "  "))]


def test_write_outside_is_hinted_with_the_option_that_allows_it():
    """As root, in a folder that is read-only inside; as a plain user, in /tmp, which is private inside."""
    root = os.geteuid() == 0
    with Home(options=UNAVAILABLE) as home, tempfile.TemporaryDirectory(dir="/srv" if root else "/tmp", prefix="bailiff-test-") as other:
        os.chmod(other, 0o755)
        script = f"echo x >{other}/file"
        lines = messages(home, "sh", "-c", script, status=2)
        assert lines[0].startswith("bailiff: probably denied: create ") and f"{other}/file ({'outside the write roots' if root else 'hidden'})" in lines[0], lines
        assert f"--rw {other} " in lines[1], lines
        assert home.cli("run", "--rw", other, "--", "sh", "-c", script, cwd=home.work).err == b""
        with home.rpc() as rpc:
            started, result = rpc.run(["sh", "-c", script], cwd=home.work)
            payload, = hints(rpc, started["processId"])
            assert (payload["kind"], payload["confidence"], payload["source"], payload["errnoName"]) == ("filesystem", "hint", "output", "EROFS" if root else "ENOENT"), payload
            assert payload["path"] == f"{other}/file" and f"{other}/file" in payload["evidence"], payload
            assert result["violations"][0]["confidence"] == "hint" and result["violationCount"] == 0, result
            completed, = rpc.events(processId=started["processId"], types=["process.completed"])
            assert completed["payload"]["violationHints"] == 1 and "violationCount" not in completed["payload"], completed
            assert completed["payload"]["wouldOpen"]["writeRoots"] == [other], completed
            assert f"run --rw {other}" in home.cli("policy", "suggest", started["processId"]).text


def test_terminal_output_is_searched_for_hints():
    with Home(options=UNAVAILABLE) as home, home.rpc() as rpc:
        started, _ = rpc.run(["sh", "-c", r"printf '\033[31mx: cannot touch \033[1m/etc/bailiff-x\033[0m: Read-only file system\r\n'; exit 1"], cwd=home.work,
                             tty={"rows": 24, "cols": 80})
        payload, = hints(rpc, started["processId"])
        assert payload["path"] == "/etc/bailiff-x" and "\033" not in payload["evidence"], payload


def test_errors_that_the_sandbox_did_not_cause_give_no_hint():
    """No hint: paths that are accessible, denied to any user, or only mentioned, and errors despite which the command succeeded."""
    with Home(options=UNAVAILABLE) as home, home.rpc() as rpc:
        for script in (f"echo 'x: {home.work}/x: Read-only file system'; false", "cat /etc/shadow", "echo Permission denied; false", "cat missing",
                       "touch /etc/bailiff-x; true", "false"):
            started, _ = rpc.run(["sh", "-c", script], cwd=home.work)
            assert hints(rpc, started["processId"]) == [], script


def test_hidden_file_is_hinted_if_it_exists():
    if os.geteuid() == 0:
        raise Skip("the runtime of a daemon with root does not look at users' files")
    with Home(options=UNAVAILABLE) as home, tempfile.NamedTemporaryFile(dir="/tmp", prefix="bailiff-test-") as hidden:
        lines = messages(home, "cat", hidden.name, status=1)
        assert lines == [f"bailiff: probably denied: read {hidden.name} (hidden), guessed from the output",
                         f"  --ro {hidden.name} to let it read (where the policy permits it)"], lines
        # A file that does not exist may have been created by an earlier command.
        what = f"read {hidden.name}-not-there (each command has a /tmp of its own)"
        assert messages(home, "cat", hidden.name + "-not-there", status=1) == [line.format(what=what) for line in ELSEWHERE]
        home.cli("run", "--ro", hidden.name, "--", "cat", hidden.name, cwd=home.work)


def test_protected_path_is_hinted_without_an_option():
    with Home(options=UNAVAILABLE) as home:
        os.makedirs(os.path.join(home.work, ".git", "hooks"))
        lines = messages(home, "sh", "-c", "echo x >.git/hooks/pre-commit", status=2)
        assert len(lines) == 2 and lines[0].startswith("bailiff: probably denied: ") and "/.git/hooks/pre-commit (protected)" in lines[0], lines
        assert "a person can" in lines[1] and "--" not in lines[1], lines


def test_denied_addresses_are_hints_and_denied_names_exact():
    connect = "import socket, sys\ntry: socket.create_connection(('203.0.113.7', 80), 3)\nexcept OSError as e: sys.exit(f'203.0.113.7:80: {e.strerror}')"
    lookup = "import socket, sys\ntry: socket.getaddrinfo('name.example', 80)\nexcept OSError as e: sys.exit(f'could not resolve host: name.example')"
    with Home(options=UNAVAILABLE) as home:
        lines = messages(home, "/usr/bin/python3", "-c", connect, status=1)
        assert lines == ["bailiff: probably denied: connect 203.0.113.7:80 (no network), guessed from the output",
                         "  --allow-host 203.0.113.7:80 to let it reach that (where the policy permits it)"], lines
        lines = messages(home, "/usr/bin/python3", "-c", lookup, status=1)
        assert lines[0] == "bailiff: denied: lookup name.example (no network)" and len(lines) == 2, lines


def test_the_beginning_of_long_output_is_not_searched():
    with Home(options=UNAVAILABLE) as home, home.rpc() as rpc:
        line = "echo 'x: /etc/bailiff-x: Read-only file system'"
        filler = "i=0; while [ $i -lt 2000 ]; do echo 0123456789; i=$((i+1)); done"
        for script, wanted in ((f"{line}; {filler}; false", 0), (f"{filler}; {line}; false", 1)):
            started, _ = rpc.run(["sh", "-c", script], cwd=home.work)
            assert len(hints(rpc, started["processId"])) == wanted, script


ELSEWHERE = ["bailiff: probably in the sandbox of another command: {what}, guessed from the output",
             "  bailiff sandbox create, then bailiff run --in SANDBOX for each of them: such commands share /tmp and localhost"]


def test_missing_files_and_servers_of_an_earlier_command_are_explained():
    """Nothing is denied, so there is no report: each command has its own /tmp and loopback."""
    connect = "import socket, sys\ntry: socket.create_connection(('127.0.0.1', 3000), 3)\nexcept OSError as e: sys.exit(e.strerror)"
    with Home(options=UNAVAILABLE) as home, home.rpc() as rpc:
        home.cli("run", "--", "sh", "-c", "echo x >/tmp/bailiff-left", cwd=home.work)
        for command, what in ((("cat", "/tmp/bailiff-left"), "read /tmp/bailiff-left (each command has a /tmp of its own)"),
                              (("sh", "-c", "echo 'curl: (7) Failed to connect to localhost port 3000 after 0 ms: Could not connect to server'; exit 7"),
                               "connect localhost:3000 (each command has a loopback of its own)"),
                              (("sh", "-c", "echo 'Error: connect ECONNREFUSED 127.0.0.1:3000'; exit 1"), "connect localhost:3000 (each command has a loopback of its own)"),
                              (("/usr/bin/python3", "-c", connect), "connect (each command has a loopback of its own)")):
            assert messages(home, *command) == [line.format(what=what) for line in ELSEWHERE], command
            started, result = rpc.run(list(command), cwd=home.work)
            assert [h["confidence"] for h in hints(rpc, started["processId"])] == ["hint"] and result["violationCount"] == 0, result
        # Not if it is the host's, was not the reason, or another machine refused the connection.
        for command in (("run", "--net", "host", "--", "sh", "-c", "echo 'connect ECONNREFUSED 127.0.0.1:3000'; exit 1"), ("run", "--", "sh", "-c", "cat /tmp/x; true"),
                        ("run", "--", "sh", "-c", "echo 'connect to db.example port 5432: Connection refused'; exit 1"),
                        ("run", "--", "cat", home.work + "/missing")):
            assert "sandbox of another" not in home.cli(*command, cwd=home.work, status=None).err.decode(), command


def test_git_init_blocked_by_an_open_sandbox_is_explained(home):
    if not shutil.which("git"):
        raise Skip("git is not installed")
    with Codex(home) as c:
        c.hello()
        output, end = c.run("git", "git init", sandbox=workspace_write(home.work))
        assert b"Read-only file system" in output and end["exitCode"] == 128, (output, end)
        denied = home.cli("run", "--", "git", "init", cwd=home.work, status=128).err.decode()
        assert f"denied: create {os.path.realpath(home.work)}/.git (it does not exist, and a sandbox that is open keeps it from being created)" in denied, denied
        assert "/usr/share" not in denied.split("bailiff: ", 1)[1] and "--rw" not in denied and "close that sandbox" in denied, denied
    until("nothing is left of it", lambda: os.listdir(home.work) == [])
    home.cli("run", "--", "git", "init", cwd=home.work)


def test_health_reports_the_sources_of_denials():
    with Home(options=UNAVAILABLE) as home, home.rpc() as rpc:
        state = rpc.call("get_health")["violations"]
        assert state["confidence"] == "hint" and "output" in state["sources"] and state["why"] and state["fix"], state


def test_no_hints_if_reports_are_exact():
    if os.geteuid() != 0:
        raise Skip("audit requires root")
    with harness.audit_turn(), Home(options=("--audit", "auto")) as home, home.rpc() as rpc:
        state = rpc.call("get_health")["violations"]
        if state["state"] != "enforced":
            raise Skip(state["why"])
        assert state["confidence"] == "exact" and "output" not in state["sources"], state
        started, _ = rpc.run(["sh", "-c", "touch /etc/bailiff-x"], cwd=home.work)
        assert {v["confidence"] for v in hints(rpc, started["processId"])} == {"exact"}
        # The kernel denied nothing here.
        started, _ = rpc.run(["cat", "/tmp/bailiff-left"], cwd=home.work)
        assert [(v["confidence"], v["reason"]) for v in hints(rpc, started["processId"])] == [("hint", "each command has a /tmp of its own")]
        # Nor here: what is hidden does not exist inside.
        notes = os.path.join(pwd.getpwuid(0).pw_dir, "bailiff-notes")
        started, _ = rpc.run(["cat", notes], cwd=home.work)
        assert [(v["confidence"], v["path"], v["reason"]) for v in hints(rpc, started["processId"])] == [("hint", notes, "hidden")]


if __name__ == "__main__":
    harness.main(globals())
