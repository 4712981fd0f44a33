#!/usr/bin/python3
"""What commands print and what they are called never drives the reader's terminal, nor looks like a line of our own."""

import re

import harness

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


def test_names():
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


def test_output():
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


def test_refusals():
    with harness.audit_turn(), harness.Home(options=()) as home:
        command = ["run", "--", "sh", "-c", 'echo > "/etc/$0"', NAME]
        done = home.cli(*command, status=None)
        assert done.status, done.out
        # what the shell itself says of it goes through as it is; what we say does not
        ours = [line for line in done.err.decode(errors="replace").split("\n") if line.startswith("bailiff:")]
        assert all(not BAD.search(line) for line in ours), ours


if __name__ == "__main__":
    harness.main(globals())
