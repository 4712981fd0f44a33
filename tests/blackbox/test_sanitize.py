#!/usr/bin/python3
"""Output and names of commands cannot control the reader's terminal or imitate a line of bailiff's."""

import json
import re

import harness
from window import Window

ESC, CSI8, BIDI = "\x1b[31m", "\x9b31m", "\u202e"
NAME = f"x{ESC}{CSI8}{BIDI}\x1b]52;c;aGk=\x07\rforged\nforged: line"
BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def clean(done, shown="x"):
    """Of what a verb printed, on both outputs."""
    for text in (done.out.decode(), done.err.decode()):
        assert not BAD.search(text), repr(text)
        assert not re.search("^forged", text, re.M), repr(text)
    assert shown in done.out.decode() + done.err.decode(), (done.out, done.err)
    return done


def run(rpc, command, **more):
    process = rpc.start(command, **more)["processId"]
    rpc.call("wait_process", processId=process)
    return process


def test_names_of_commands_cannot_control_the_terminal():
    with harness.Home() as home, home.rpc() as rpc:
        process = run(rpc, ["sh", "-c", "exit 3", NAME])
        session = rpc.call("create_session", title=NAME)["sessionId"]
        live = rpc.start(["sleep", "1000"], cwd="/tmp", sessionId=session, justification=NAME, env={"X": NAME})["processId"]
        for verb in (["ps", "-a"], ["events"], ["sandbox", "show", process], ["session", "list"], ["session", "show", session]):
            clean(home.cli(*verb, status=None), "")
        assert "\\x1b[31m" in clean(home.cli("ps", "-a"), "exit 3").out.decode()
        rpc.call("terminate_process", processId=live, graceMs=0, reason=NAME)
        clean(home.cli("events"), "process.terminated")
        clean(home.cli("logs", NAME, status=None), "")
        clean(home.cli("run", "--", NAME, status=None), "\\x1b[31m")
        clean(home.cli("run", "--profile", NAME, "--", "true", status=None), "")
        clean(home.cli(NAME, status=None), "\\x1b")


def test_output_cannot_control_the_terminal():
    script = r"printf 'one\033[31mtwo\033]52;c;aGk=\007\302\2333\2334\342\200\256five\rsix\n\033]8;;http://x\033\\seven\n'"
    with harness.Home() as home, home.rpc() as rpc:
        plain = run(rpc, ["sh", "-c", script])
        assert "\\x1b[31mtwo" in clean(home.cli("logs", plain), "seven").out.decode()
        tty = run(rpc, ["sh", "-c", script], tty={"rows": 24, "cols": 80})
        clean(home.cli("logs", tty), "seven")
        clean(home.cli("screen", tty), "seven")
        clean(home.cli("events"), "process.output")
        clean(home.cli("call", "get_process", '{"processId":"%s"}' % tty, status=None), "")
        assert b"\x1b[31mtwo" in home.cli("logs", "--raw", plain).out


def test_denial_messages_cannot_control_the_terminal():
    with harness.audit_turn(), harness.Home(options=()) as home, home.rpc() as rpc:
        command = ["run", "--", "sh", "-c", 'echo > "/etc/$0"', NAME]
        done = home.cli(*command, status=None)
        assert done.status, done.out
        # the shell's own message is passed through unchanged; bailiff's message is sanitized
        ours = [line for line in done.err.decode(errors="replace").split("\n") if line.startswith("bailiff:")]
        assert all(not BAD.search(line) for line in ours), ours
        if rpc.call("get_health")["violations"]["state"] == "enforced":     # otherwise denials are guessed from messages that can be parsed
            assert any("denied" in line for line in ours), done.err


# A C1 control, DEL, a zero-width space and joiner, a byte order mark, a soft hyphen, a tag, a variation selector
HIDDEN = "\x9b31m\x7f\u200b\u200d\ufeff\u00ad\U000e0041\ufe01\u2066"
INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]")


def at_terminal(home, *verb):
    """What a person at a terminal is shown."""
    with Window(home, *verb, rows=50, cols=8000) as window:
        window.wait(0)
        shown = window.seen.decode().replace("\r\n", "\n")
    assert "seen" in shown, shown
    found = INVISIBLE.search(shown)
    assert not found, (verb, shown[max(0, found.start() - 60):found.end() + 20])
    return shown


def test_nothing_invisible_reaches_a_terminal():
    name = "seen" + HIDDEN
    script = ["printf", "%s", name]
    with harness.Home() as home, home.rpc() as rpc:
        session = rpc.call("create_session", title=name)["sessionId"]
        task = rpc.call("create_task", title=name, objective=name, sessionId=session)["taskId"]
        turn = rpc.call("submit_turn", sessionId=session, input=[{"type": "text", "text": name}])["turnId"]
        rpc.call("emit_events", sessionId=session, events=[{"type": "run.status", "payload": {"phase": "running", "title": name}}])
        rpc.call("request_action", turnId=turn, actionType="input", prompt=name)
        plain = run(rpc, script, sessionId=session)
        tty = run(rpc, script, tty={"rows": 24, "cols": 80})
        for verb in (["events"], ["events", "--json"], ["logs", plain], ["logs", tty], ["screen", tty], ["screen", "--format", "ansi", tty],
                     ["screen", "--format", "cells", tty], ["screen", "--json", tty], ["session", "show", session], ["session", "list"],
                     ["session", "list", "--json"], ["session", "show", "--json", session], ["task", "show", task], ["task", "list", "--json"],
                     ["task", "show", "--json", task], ["ps", "-a"], ["ps", "-a", "--json"], ["pending"], ["pending", "--json"],
                     ["call", "get_session", json.dumps({"sessionId": session})], ["snapshot", "--session", session, "session_snapshot"],
                     ["export", "transcript", session], ["export", "evidence", session], ["export", "cast", tty], ["policy", "explain", plain],
                     ["run", "--json", "--", *script]):
            at_terminal(home, *verb)


def test_json_at_a_terminal_is_the_same_json():
    name = "seen" + HIDDEN
    with harness.Home() as home, home.rpc() as rpc:
        session = rpc.call("create_session", title=name)["sessionId"]
        piped = home.cli("session", "show", "--json", session).json
        shown = json.loads(at_terminal(home, "session", "show", "--json", session))
        assert piped == shown and shown["title"] == name, shown
        events = [json.loads(line) for line in home.cli("events", "--json").out.decode().splitlines()]
        assert [json.loads(line) for line in at_terminal(home, "events", "--json").splitlines()] == events


if __name__ == "__main__":
    harness.main(globals())
