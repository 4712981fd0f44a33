"""`bailiff daemon`: status, stop, drain and logs; and `bailiff watch`."""

import os
import re
import shutil
import subprocess

import harness
from harness import Home, until
from window import Window


def test_status_reports_whether_a_daemon_runs():
    with Home() as home:
        state = home.cli("daemon", "status", "--json").json
        assert state["status"] in ("ok", "degraded") and state["socket"].startswith(home.dir) and state["processes"]["live"] == 0
        text = home.cli("daemon", "status").text
        assert state["version"] in text and "0 running" in text, text
        home.stop()
        assert b"no daemon is running" in home.cli("daemon", "status", status=3).err
        assert home.cli("daemon", "status", "--json", status=3).json == {"status": "not_running"}
        home.cli("daemon", "stop")
        home.cli("daemon", "drain")
        assert not home.answers(), "none of them starts a daemon"


def embedded(base, *args, **more):
    return harness.cli(*args, env={"BAILIFF_HOME": base}, cwd=os.path.join(base, "tree"), **more)


def with_embedded(test):
    """A daemon that the command line has started, which has a log file."""
    @harness.audit_turn()    # it takes audit
    def run():
        with Home(start=False) as home:
            try:
                embedded(home.dir, "run", "--", "true")
                test(home)
            finally:
                embedded(home.dir, "daemon", "stop", "--force")
    run.__name__ = test.__name__
    return run


@with_embedded
def test_stop_is_rejected_while_processes_run_unless_forced(home):
    process = embedded(home.dir, "run", "-d", "--", "sleep", "1000").text.strip()
    refused = embedded(home.dir, "daemon", "stop", status=1)
    assert b"1 process is running" in refused.err and b"drain" in refused.err, refused.err
    embedded(home.dir, "daemon", "stop", "--force")
    embedded(home.dir, "daemon", "status", status=3)
    assert embedded(home.dir, "ps", "-a", "--json").json[0]["processId"] == embedded(home.dir, "history", "--json", "--grep", "sleep").json[0]["processId"] == process


@with_embedded
def test_drain_waits_for_processes_and_starts_nothing_new(home):
    process = embedded(home.dir, "run", "-d", "-i", "--", "cat").text.strip()
    late = embedded(home.dir, "daemon", "drain", "--timeout", "100ms", status=124)
    assert b"still running" in late.err, late.err
    assert "draining" in embedded(home.dir, "daemon", "status").text
    assert b"starts nothing new" in embedded(home.dir, "run", "--", "true", status=125).err
    embedded(home.dir, "daemon", "drain", "--cancel")
    embedded(home.dir, "run", "--", "true")
    drain = subprocess.Popen([harness.CLI, "daemon", "drain"], env=harness.environment(BAILIFF_HOME=home.dir))
    until("it drains", lambda: "draining" in embedded(home.dir, "daemon", "status").text)
    embedded(home.dir, "input", "--eof", process, "bye")
    assert drain.wait(harness.PATIENCE) == 0
    embedded(home.dir, "daemon", "status", status=3)


@with_embedded
def test_daemon_logs_shows_the_end_of_the_log_file(home):
    with open(os.path.join(home.dir, "daemon.log"), "a") as f:       # it writes only about problems
        f.write("".join(f"line {i}\n" for i in range(20000)) + "\x1b[31mred\n")
    assert "line 0\nline 1\n" in embedded(home.dir, "daemon", "logs").text
    assert embedded(home.dir, "daemon", "logs", "--tail", "2").text == "line 19999\n\\x1b[31mred\n"
    assert embedded(home.dir, "daemon", "logs", "--tail", "0").text == ""
    assert b"--tail" in embedded(home.dir, "daemon", "logs", "--tail", "x", status=2).err
    embedded(home.dir, "daemon", "stop", "--force")
    last = embedded(home.dir, "daemon", "logs", "--tail", "1").text
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z bailiffd runtime: info: stopping\n", last), last


@with_embedded
def test_following_the_log_ends_with_its_reader(home):
    with open(os.path.join(home.dir, "daemon.log"), "a") as f:
        f.write("a line\n")
    follow = subprocess.Popen([harness.CLI, "daemon", "logs", "-f", "--tail", "1"], env=harness.environment(BAILIFF_HOME=home.dir), stdout=subprocess.PIPE)
    assert follow.stdout.readline() == b"a line\n"
    follow.stdout.close()
    follow.wait(harness.PATIENCE)


def test_watch_follows_a_session_and_asks_for_approvals():
    with Home(options=("--audit", "off", *harness.host_policy(ask=["Bash(touch:*)"]))) as home, home.rpc() as rpc:
        session = rpc.call("create_session", title="the one")["sessionId"]
        rpc.run(["echo", "earlier"], sessionId=session)
        with Window(home, "watch", "the one", cols=120) as w:
            w.expect("run echo earlier.*exit 0")
            started = rpc.start(["touch", "made"], sessionId=session, cwd=home.work)
            w.expect(r"asks .*touch made.*\[e\]xplain: ")
            w.type("y\n")
            w.expect("answer allow")
            w.expect("run touch made.*exit 0")
            rpc.wait(started["processId"])
            w.type("\x03")
            w.wait()
            w.restored()
        assert os.path.exists(os.path.join(home.work, "made"))
        with Window(home, "watch", "--new", "--json", session) as w:
            until("it is watched", lambda: rpc.call("get_health")["subscriptions"] >= 1)
            rpc.run(["echo", "later"], sessionId=session)
            w.expect('"process.completed"')
        assert b"earlier" not in w.seen


def test_watch_asks_each_of_several_questions():
    with Home(options=("--audit", "off", *harness.host_policy(ask=["Bash(touch:*)"]))) as home, home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        started = [rpc.start(["touch", name], sessionId=session, cwd=home.work)["processId"] for name in ("first", "second", "third")]
        action = rpc.call("get_process", processId=started[1])["actionId"]
        rpc.call("respond_action", actionId=action, decision="deny")
        with Window(home, "watch", session, cols=120) as w:
            w.expect(r"asks .*touch first.*asks .*touch third.*touch first.*\[e\]xplain: ")
            w.type("y\n")
            w.expect(r"touch third.*\[e\]xplain: ")
            w.type("y\n")
            assert [rpc.wait(process)["status"] for process in started] == ["completed", "failed", "completed"]
            w.type("\x03")
            w.wait()
        assert w.seen.count(b"[e]xplain") == 2, w.seen


def test_completion_describes_ids(home):
    with home.rpc() as rpc:
        process = rpc.run(["echo", "what it was"])[0]["processId"]
        session = rpc.call("create_session", title="a title")["sessionId"]
    lines = home.cli("completion", "described", "logs", "").text.splitlines()
    assert f"{process}\techo 'what it was'" in lines, lines
    assert f"{session}\ta title" in home.cli("completion", "described", "watch", "").text.splitlines()
    assert home.cli("completion", "words", "logs", "").text.split() == [process]


def test_shells_show_the_descriptions(home):
    """Runs the completion scripts in fish and zsh, if these are installed (they are not a dependency)."""
    shells = [name for name in ("fish", "zsh") if shutil.which(name)]
    if not shells:
        raise harness.Skip("neither fish nor zsh is installed")
    with home.rpc() as rpc:
        process = rpc.run(["echo", "what it was"])[0]["processId"]
    path = os.path.join(home.work, "bin")
    os.mkdir(path)
    os.symlink(harness.CLI, os.path.join(path, "bailiff"))
    env = {"PATH": f"{path}:{os.environ['PATH']}", "HOME": home.work}
    for shell, name in (("fish", "bailiff.fish"), ("zsh", "_bailiff")):
        with open(os.path.join(home.work, name), "w") as f:
            f.write(home.cli("completion", shell).text)
    if "fish" in shells:
        with Window(home, "--no-config", env=env, program="fish", cols=200) as w:
            w.type("source bailiff.fish; complete -C 'bailiff logs '\r")
            w.expect(f"{process}\\s+echo 'what it was'")
    if "zsh" in shells:
        with Window(home, "-f", "-i", env=env, program="zsh", cols=200) as w:
            w.type("fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; print do''ne\r")
            w.expect("done.*\x1b\\[\\?2004h", escapes=True)      # the line editor reads again; before, the terminal driver would interpret ^D
            w.type("bailiff logs \x04")       # lists the candidates
            w.expect(f"{process}  -- echo 'what it was'")
        with Window(home, "-f", "-i", env=env, program="zsh", cols=200) as w:
            w.type("autoload -Uz compinit; compinit -u -D; source <(bailiff completion zsh); print do''ne\r")
            assert b"compadd" not in w.expect("done.*\x1b\\[\\?2004h", escapes=True).group()
            w.type("bailiff logs \x04")
            w.expect(f"{process}  -- echo 'what it was'")


if __name__ == "__main__":
    harness.main(globals())
