#!/usr/bin/python3
"""Terminals over the control socket: what programs find on one, typed input, and which of it becomes an event."""

import os
import re
import signal
import time

import harness
from harness import until

SHELL = ["bash", "--norc", "--noprofile", "-i"]


class Terminal:
    """A process on a terminal, watched through a subscription of its own."""

    def __init__(self, home, command, rows=24, cols=80, **more):
        self.rpc = home.rpc()
        self.rpc.call("subscribe_events", types=["process.*"])
        self.started = self.rpc.call("start_process", command=command, tty={"rows": rows, "cols": cols}, **more)
        self.id = self.started["processId"]
        self.text, self.at, self.ended = "", 0, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.rpc.end(self.id)
        finally:
            self.rpc.close()

    def note(self, event):
        if event.get("processId") != self.id:
            return
        if event["type"] == "process.output":
            payload = event["payload"]
            assert payload["stream"] == "pty" and payload["offset"] == self.at, payload
            self.at += payload["length"]
        elif event["type"] in harness.TERMINAL:
            self.ended = event

    def pump(self, patience):
        there = bool(self.rpc.notes) or self.rpc.pump(patience)
        while self.rpc.notes:
            self.note(self.rpc.notes.popleft()["params"]["event"])
        return there

    def output(self):
        return self.rpc.outputs(self.id).get("pty", b"").decode(errors="replace")

    def expect(self, pattern, patience=harness.PATIENCE):
        """Waits until the output since the last match contains the pattern."""
        end = time.monotonic() + patience
        while True:
            text = self.output()
            found = re.compile(pattern, re.S).search(text, len(self.text))
            if found:
                self.text = text[:found.end()]
                return found
            assert time.monotonic() < end and not self.ended, f"no {pattern!r} in {text[len(self.text):]!r}; before: {self.text[-300:]!r}"
            self.pump(1)

    def until_foreground(self, name):
        self.rpc.until_foreground(self.id, name)

    def type(self, data, **more):
        return self.rpc.call("write_process_stdin", processId=self.id, data=data, **more)

    def resize(self, rows, cols):
        return self.rpc.call("resize_process", processId=self.id, rows=rows, cols=cols)

    def eof(self):
        return self.rpc.call("close_process_stdin", processId=self.id)

    def wait(self):
        return self.rpc.call("wait_process", processId=self.id)

    def inputs(self):
        return [e["payload"] for e in self.rpc.events(processId=self.id) if e["type"] == "process.input"]


def test_command_has_a_controlling_terminal(home):
    program = ("import os,sys,termios\n"
               "print([os.isatty(i) for i in range(3)], os.ttyname(0), os.getsid(0) == os.getpid(), os.tcgetpgrp(0) == os.getpgrp())\n"
               "print(os.environ['TERM'], os.get_terminal_size())\n"
               "print(os.stat('/dev/tty').st_rdev == os.makedev(5, 0), os.path.samefile('/dev/console', os.ttyname(0)))\n"
               "print(os.stat(0).st_uid == os.getuid(), len(os.listdir('/proc/self/fd')), os.listdir('/dev/pts'))\n"
               "open('/dev/tty', 'w').write('by the way\\n')\n"
               "print('utf8', bool(termios.tcgetattr(0)[0] & 0o40000))\n")
    with Terminal(home, ["python3", "-c", program], rows=33, cols=101) as t:
        end = t.wait()
        assert end["status"] == "completed" and end["exitCode"] == 0, (end, t.output())
        text = t.output()
        assert "[True, True, True] /dev/pts/0 True True\r\n" in text, text
        assert "xterm-256color os.terminal_size(columns=101, lines=33)" in text, text
        assert "True True\r\n" in text and "True 4 ['0', 'ptmx']" in text.replace("['ptmx', '0']", "['0', 'ptmx']"), text
        assert "by the way\r\n" in text and "utf8 True" in text, text
        assert [o["stream"] for o in t.started["outputRefs"]] == ["pty"], t.started
        assert end["outputs"]["pty"]["bytes"] == len(text), end
        record = t.rpc.call("get_process", processId=t.id)
        assert record["tty"] == {"rows": 33, "cols": 101} and record["stdin"] == "tty", record


def test_job_control(home):
    with Terminal(home, SHELL, env={"PS1": "ready> "}) as t:
        t.expect(r"ready> $")
        t.type("tty; echo $TERM\r")
        t.expect(r"/dev/pts/0\r\nxterm-256color\r\n.*ready> $")
        t.type("sleep 1000\r")
        t.until_foreground("sleep")
        t.type("\x1a")
        t.expect(r"Stopped +sleep 1000\r\n.*ready> $")
        t.type("jobs; fg\r")
        t.expect(r"Stopped +sleep 1000\r\n.*sleep 1000\r\n")
        t.until_foreground("sleep")
        t.type("\x03")
        t.expect(r"\^C\r\n.*ready> $")
        t.type("echo $?\r")
        t.expect(r"130\r\n.*ready> $")
        t.type("cat\r")
        t.until_foreground("cat")
        t.type("one line\r")
        t.expect(r"one line\r\none line\r\n")
        assert t.eof()["canonical"] is True
        t.expect(r"ready> $")
        assert t.eof()["canonical"] is False # the shell reads keys by itself, and takes this one for the end
        end = t.wait()
        assert end["status"] == "completed", end


def test_resize_reaches_the_command(home):
    with Terminal(home, SHELL, rows=10, cols=20, env={"PS1": "ready> "}) as t:
        t.expect(r"ready> $")
        t.type("trap 'echo winch $(stty size)' WINCH; stty size\r")
        t.expect(r"\r10 20\r\n.*ready> $")
        answer = t.resize(40, 132)
        assert (answer["rows"], answer["cols"]) == (40, 132) and answer["sequence"] > 0, answer
        t.expect(r"winch 40 132")
        t.type("\rstty size\r")
        t.expect(r"\r40 132\r\n")
        assert t.rpc.call("get_process", processId=t.id)["tty"] == {"rows": 40, "cols": 132}
        sized = [i for i in t.inputs() if i["kind"] == "resize"]
        assert [(i["rows"], i["cols"], i["redacted"]) for i in sized] == [(40, 132, False)], sized
        assert t.rpc.fails("resize_process", processId=t.id, rows=0, cols=80).data["field"] == "rows"
        assert t.rpc.fails("resize_process", processId=t.id, rows=24, cols=70000).data["field"] == "cols"
    with home.rpc() as rpc:
        started = rpc.call("start_process", command=["sleep", "1000"])
        assert "no terminal" in rpc.fails("resize_process", processId=started["processId"], rows=24, cols=80).message
        rpc.call("terminate_process", processId=started["processId"], graceMs=0)
        for tty, field in (({"rows": 0, "cols": 80}, "tty.rows"), ({"rows": 24, "cols": 1001}, "tty.cols"), ({"rows": 24}, "tty.cols")):
            assert rpc.fails("start_process", command=["true"], tty=tty).data["field"] == field
        assert rpc.fails("start_process", command=["true"], tty={"rows": 24, "cols": 80}, stderr="separate").data["field"] == "stderr"


def test_events_of_a_terminal_match_the_schemas(home):
    validators = harness.event_validators()
    with Terminal(home, ["sh", "-c", "stty -echo; trap '' USR1; echo ready; exec cat"]) as t:
        t.expect("ready")
        t.type("secret\n")
        t.resize(30, 90)
        t.rpc.call("signal_process", processId=t.id, signal="USR1")
        t.eof()
        assert t.wait()["status"] == "completed"
        assert [i["kind"] for i in t.inputs()] == ["data", "resize", "signal", "eof"]
        harness.validate(validators, t.rpc.events())


def test_python_repl_works_on_a_terminal(home):
    with Terminal(home, ["env", "PYTHON_BASIC_REPL=1", "python3", "-q"]) as t:     # Python 3.13's own colours its prompt
        t.expect(r">>> $")
        t.type("6 * 7\r")
        t.expect(r"42\r\n>>> $")
        t.type("while True: said = print('bu' 'sy') if 'said' not in globals() else None\r")
        t.expect(r"\.\.\. $")
        t.type("\r")
        t.expect(r"busy\r\n")
        t.type("\x03")
        t.expect(r"KeyboardInterrupt.*>>> $")
        t.type("exit(5)\r")
        assert t.wait()["exitCode"] == 5


def test_input_without_echo_is_not_recorded(home):
    program = "stty -a | grep -o -- '-*echo '; read -r -s -p 'Password: ' p; echo; echo \"got ${#p}\"; read -r -p 'Name: ' n; echo \"hello $n\""
    with Terminal(home, ["bash", "-c", program]) as t:
        t.expect(r"Password: $")
        t.type("hunter2-and-more\n")
        t.expect(r"got 16\r\n.*Name: $")
        t.type("anna\n")
        t.expect(r"hello anna\r\n")
        assert t.wait()["exitCode"] == 0
        first, second = t.inputs()
        assert first["redacted"] is True and first["bytes"] == 17 and "preview" not in first, first
        assert second["redacted"] is False and second["preview"] == "anna\n", second
        assert second["by"]["uid"] == os.getuid()
        told = [e["payload"] for e in t.rpc.events() if e["type"] == "output.redacted"]
        assert [(r["count"], r["rule"]) for r in told] == [(17, "echo_off")], told
        everything = repr(t.rpc.events())
        assert "hunter2" not in everything and "hunter2" not in t.output()


def test_closing_stdin_sends_end_of_file(home):
    with Terminal(home, ["cat"]) as t:
        t.type("half a line")
        t.expect("half a line")
        answer = t.eof()
        assert (answer["sent"], answer["canonical"], answer["bytes"]) == ("eof", True, 2), answer
        assert t.wait()["exitCode"] == 0
        assert t.output() == "half a linehalf a line", t.output()
        assert [i["kind"] for i in t.inputs()] == ["data", "eof"]
        assert "has ended" in t.rpc.fails("write_process_stdin", processId=t.id, data="x").message
    with Terminal(home, ["sh", "-c", "stty eof undef; echo ready; exec cat"]) as t:
        t.expect("ready")
        assert "no EOF character" in t.rpc.fails("close_process_stdin", processId=t.id).message


def test_unread_input_is_kept_until_it_is_read(home):
    go = os.path.join(home.work, "go")
    os.mkfifo(go)
    os.chmod(go, 0o666)
    with Terminal(home, ["sh", "-c", "stty raw -echo; echo ready; read go < go; head -c 300000 | wc -c; echo done"], cwd=home.work) as t:
        t.expect("ready")
        with home.rpc() as other:
            request = other.send("write_process_stdin", processId=t.id, data="x" * 300000)
            assert not other.pump(0.3), "nobody reads, and yet it was all taken"
            _, end = t.rpc.run(["echo", "others go on"])
            assert end["exitCode"] == 0
            with open(go, "w") as f:
                f.write("go\n")
            assert other.reply(request)["bytes"] == 300000
        t.expect("300000\r?\n.*done")


def test_start_and_write_with_yield_return_the_output(home):
    with home.rpc() as rpc:
        started = rpc.call("start_process", command=["sh", "-c", "echo hello; read -r go"], tty={"rows": 24, "cols": 80}, yieldMs=60000,
                           limits={"wallMs": 5000})
        assert started["output"]["pty"]["data"] == "hello\r\n" and started["status"] == "failed", started
        process = rpc.call("start_process", command=SHELL, tty={"rows": 24, "cols": 80}, env={"PS1": "ready> "})["processId"]
        answer = rpc.call("write_process_stdin", processId=process, data="echo $((40 + 2)); exit 3\r", yieldMs=60000)
        assert answer["bytes"] == 25 and "42\r\n" in answer["output"]["pty"]["data"], answer
        assert (answer["status"], answer["exitCode"]) == ("completed", 3), answer


def test_failed_start_of_a_terminal_leaves_no_request_waiting(home):
    """Before there is a terminal, and after it: no request waits for output that cannot come."""
    with home.rpc() as rpc:
        for more, stage in (({"sandbox": {"readRoots": ["/nonexistent"]}}, "trees"), ({"command": ["/nonexistent"]}, "exec")):
            error = rpc.fails("start_process", **dict(dict(command=["true"], tty={"rows": 24, "cols": 80}), **more))
            assert error.data["stage"] == stage, error
        ends = [e for e in rpc.events() if e["type"] == "process.failed"]
        assert len(ends) == 2 and not any(e["payload"].get("drainTimedOut") for e in ends), ends


def test_terminal_works_with_profiles_and_copy_on_write(home):
    tty = {"rows": 24, "cols": 80}
    with home.rpc() as rpc:
        started, end = rpc.run("echo x >file; tty", tty=tty, cow=True, cwd=home.work)
        assert end["exitCode"] == 0 and rpc.outputs(started["processId"]) == {"pty": b"/dev/pts/0\r\n"}
        assert os.listdir(home.work) == []
        for profile in ("readonly", "isolated", "ci"):
            started, end = rpc.run("tty", tty=tty, profile=profile)
            assert end["exitCode"] == 0 and rpc.outputs(started["processId"]) == {"pty": b"/dev/pts/0\r\n"}, profile
        process = rpc.call("start_process", command=["cat"], tty=tty)["processId"]
        for method, params in (("resize_process", {"rows": 30, "cols": 90}), ("write_process_stdin", {"data": "once\n"}),
                               ("close_process_stdin", {})):
            first = rpc.call(method, params, processId=process, idempotencyKey=method)
            assert rpc.call(method, params, processId=process, idempotencyKey=method) == first, method
        assert rpc.wait(process)["exitCode"] == 0
        assert rpc.outputs(process) == {"pty": b"once\r\nonce\r\n"}


def test_limits_apply_to_terminals(home):
    with Terminal(home, ["sh", "-c", "echo silent; sleep 1000"], limits={"idleMs": 300}) as t:
        end = t.wait()
        assert end["status"] == "failed" and end["limit"] == "idle", end
    with Terminal(home, ["cat"], limits={"wallMs": 300}) as t:
        end = t.wait()
        assert end["status"] == "failed" and end["limit"] == "wall", end
    with Terminal(home, ["sh", "-c", "stty -opost; head -c 4000000 /dev/zero | tr '\\0' x"], limits={"outputBytes": 1 << 20}) as t:
        end = t.wait()
        assert end["outputs"]["pty"]["bytes"] == 4000000 and end["outputs"]["pty"]["truncated"], end


def test_closing_a_terminal_ends_its_shell(home):
    """A shell that is typed to ignores SIGTERM; closing its terminal ends it, with everything on it."""
    with Terminal(home, SHELL, env={"PS1": "ready> "}) as t:
        t.expect(r"ready> $")
        t.type("sleep 1000 &\r")
        t.expect(r"\[1\].*ready> $")
        before = time.monotonic()
        end = t.rpc.call("terminate_process", processId=t.id, graceMs=60000)
        assert end["status"] == "terminated" and end["treeEmpty"] and time.monotonic() - before < 30, end
    with home.rpc() as rpc:
        with home.rpc() as bound:
            process = bound.call("start_process", command=SHELL, tty={"rows": 24, "cols": 80}, onDisconnect="terminate")["processId"]
        end = rpc.call("wait_process", processId=process)
        assert end["status"] == "terminated", end


def test_background_process_keeps_its_terminal(home):
    line = "trap '' HUP; (sleep 0.5; echo late) & echo early"
    with Terminal(home, ["sh", "-c", line], keepTree=True) as t:
        assert t.wait()["exitCode"] == 0
        assert t.output() == "early\r\nlate\r\n", t.output()


def test_many_terminals_and_watchers(home):
    count, lines = 100, 50
    watchers = [home.rpc() for _ in range(5)]
    for rpc in watchers:
        rpc.call("subscribe_events", types=["process.output", "process.completed"])
    with home.rpc() as rpc:
        program = f"i=0; while [ $i -lt {lines} ]; do i=$((i+1)); echo terminal $1 line $i; done"
        requests = [rpc.send("start_process", command=["sh", "-c", program, "x", str(i)], tty={"rows": 24, "cols": 80})
                    for i in range(count)]
        ids = [rpc.reply(r)["processId"] for r in requests]
        for i, process in enumerate(ids):
            assert rpc.call("wait_process", processId=process)["exitCode"] == 0
            wanted = "".join(f"terminal {i} line {n + 1}\r\n" for n in range(lines)).encode()
            assert rpc.outputs(process)["pty"] == wanted
    for rpc in watchers:
        with rpc:
            seen, done = dict.fromkeys(ids, 0), set()
            while len(done) < count:
                assert rpc.notes or rpc.pump(), "events are missing"
                while rpc.notes:
                    event = rpc.notes.popleft()["params"]["event"]
                    if event["type"] == "process.completed":
                        done.add(event["processId"])
                    else:
                        assert event["payload"]["offset"] == seen[event["processId"]], event
                        seen[event["processId"]] += event["payload"]["length"]
            assert all(seen.values())


def test_death_of_runtime_or_spawner_loses_no_output(home):
    """A terminal that prints numbers while the runtime and the spawner are killed again and again, and that is typed to."""
    program = ("stty -echo; i=0; until [ $((i % 100)) = 0 -a -e enough ]; do i=$((i+1)); echo $i; [ $((i % 100)) -gt 0 ] || sleep 0.01; done; "
               "echo all; read -r line; echo \"read $line\"")
    with home.rpc() as rpc:
        process = rpc.call("start_process", command=["sh", "-c", program], tty={"rows": 24, "cols": 80}, cwd=home.work)["processId"]
    for i in range(6):
        home.kill_part("runtime" if i % 3 != 2 else "spawner")
        if i % 2:
            home.kill_part("spawner")
        until("the daemon answers", home.answers)
    with home.rpc() as rpc:
        until("it prints long enough", lambda: rpc.outputs(process)["pty"].count(b"\n") >= 20000)
        open(os.path.join(home.work, "enough"), "w").close()
        until("all is printed", lambda: rpc.outputs(process)["pty"].endswith(b"\nall\r\n"))
        home.kill_part("runtime")
    until("the daemon answers", home.answers)
    with home.rpc() as rpc:
        rpc.call("resize_process", processId=process, rows=50, cols=100)
        rpc.call("write_process_stdin", processId=process, data="this\n")
        assert rpc.call("wait_process", processId=process)["exitCode"] == 0
        text = rpc.outputs(process)["pty"]
        numbers = "".join(f"{n + 1}\r\n" for n in range(text.count(b"\n") - 2))
        assert text == numbers.encode() + b"all\r\nread this\r\n", text[-200:]
        assert rpc.call("get_process", processId=process)["tty"] == {"rows": 50, "cols": 100}
        at = 0
        for event in rpc.events(processId=process):
            if event["type"] == "process.output":
                assert event["payload"]["offset"] == at, event["payload"]
                at += event["payload"]["length"]
        assert at == len(text)


def test_death_of_the_runtime_loses_no_fast_output(home):
    """Output between terminal and spool is recovered by the next runtime, exactly once."""
    count = 400000
    with home.rpc() as rpc:
        process = rpc.call("start_process", command=["seq", "1", str(count)], tty={"rows": 24, "cols": 80},
                           limits={"outputBytes": 1 << 30})["processId"]
    kills, running = 0, True
    while running:
        home.kill_part("runtime")
        kills += 1
        until("the daemon answers", home.answers)
        with home.rpc() as rpc:
            running = rpc.call("get_process", processId=process)["status"] == "running"
    with home.rpc() as rpc:
        assert rpc.call("wait_process", processId=process)["exitCode"] == 0
        assert rpc.outputs(process)["pty"] == "".join(f"{n + 1}\r\n" for n in range(count)).encode(), f"after {kills} kills"


def test_terminal_survives_an_upgrade(home):
    with home.rpc() as rpc:
        process = rpc.call("start_process", command=SHELL, tty={"rows": 24, "cols": 80}, env={"PS1": "ready> "})["processId"]
        until("the prompt is there", lambda: b"ready> " in rpc.outputs(process).get("pty", b""))
    before = home.part("runtime")
    home.guard.send_signal(signal.SIGUSR2)
    until("there is another runtime", lambda: home.part("runtime") not in (None, before) and home.answers())
    with home.rpc() as rpc:
        rpc.call("write_process_stdin", processId=process, data="echo still $((1 + 1)); exit\r")
        assert rpc.call("wait_process", processId=process)["exitCode"] == 0
        assert b"still 2\r\n" in rpc.outputs(process)["pty"]


def test_terminal_works_without_a_sandbox():
    with harness.Home(options=("--audit", "off", *harness.no_sandbox())) as home:
        with Terminal(home, ["sh", "-c", "tty; stty size; test -t 1 && echo terminal"], profile="host", rows=7, cols=8) as t:
            assert t.wait()["exitCode"] == 0, t.output()
            assert re.fullmatch(r"/dev/pts/\d+\r\n7 8\r\nterminal\r\n", t.output()), t.output()


if __name__ == "__main__":
    harness.main(globals())
