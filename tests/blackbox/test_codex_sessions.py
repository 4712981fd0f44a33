"""A Codex client that disconnects and resumes its session, which no other client can use."""

import base64
import os
import signal

import harness
from codex import Codex, CodexError, commands_of, live, uri
from harness import until


def reasons(rpc, session):
    events = rpc.events(sessionId=session)
    commands = [e["processId"] for e in commands_of(events)]
    return [e["payload"]["reason"] for e in events if e["type"] == "process.terminated" and e["processId"] in commands]


def test_processes_end_when_the_client_disconnects(home):
    with home.rpc() as rpc:
        c = Codex(home)
        session = c.hello()["sessionId"]
        c.shell("p", "sleep 1000 & sleep 1000", tty=True)
        c.shell("q", "trap '' TERM; sleep 1000")
        assert len(live(rpc, session)) == 2
        assert c.close() == 0
        until("its processes are gone", lambda: not live(rpc, session))
        assert set(reasons(rpc, session)) == {"its client has gone"}
        until("its sandbox is closed", lambda: not rpc.call("list_sandboxes", sessionId=session)["sandboxes"])


def test_processes_are_found_again_after_the_gateway_was_killed(home):
    with home.rpc() as rpc:
        c = Codex(home)
        session = c.hello()["sessionId"]
        c.shell("p", "echo one; read x; echo got $x; read y; exit 7", pipeStdin=True, metadata={"threadId": "t", "toolCallId": "c"})
        c.run("done", "echo done; exit 2")
        c.wrote("p", b"one\n")
        c.kill()
        with Codex(home) as again:
            assert again.hello(resumeSessionId=session)["sessionId"] == session
            assert "already exists" in again.fails("process/start", {"processId": "p", "argv": ["true"], "cwd": uri(home.work), "env": {}, "tty": False}, code=-32600).message
            ended = again.call("process/read", {"processId": "done", "afterSeq": 0})
            assert [base64.b64decode(k["chunk"]) for k in ended["chunks"]] == [b"done\n"] and ended["exitCode"] == 2 and ended["nextSeq"] == 4, ended
            before = again.call("process/read", {"processId": "p", "afterSeq": 0})
            assert [(k["seq"], base64.b64decode(k["chunk"])) for k in before["chunks"]] == [(1, b"one\n")] and not before["exited"], before
            assert again.write("p", b"two\n") == "accepted"
            again.wrote("p", b"got two\n")
            assert again.about("p")[0]["params"]["seq"] == 2, again.about("p")
            assert again.write("p", b"\n", "2") == "accepted"
            assert again.ended("p")[1]["exitCode"] == 7
        assert live(rpc) == []
        with Codex(home) as third:
            assert third.fails("initialize", {"clientName": "x", "resumeSessionId": "sess_none"}, code=-32600).message.startswith("unknown session id sess_none")
            assert third.hello()["sessionId"] != session


def test_session_has_one_client_at_a_time(home):
    with home.rpc() as rpc, Codex(home) as late:
        c = Codex(home)
        session = c.hello()["sessionId"]
        c.shell("p", "echo one; read x; echo got $x", pipeStdin=True)
        c.wrote("p", b"one\n")
        e = late.fails("initialize", {"clientName": "x", "resumeSessionId": session}, code=-32010)
        assert e.message == f"session {session} is already attached to another connection", e
        with Codex(home) as other:      # a rejected client leaves nothing behind and ends nothing
            assert other.fails("initialize", {"clientName": "x", "resumeSessionId": session}, code=-32010)
            assert other.hello()["sessionId"] != session
        assert len(live(rpc, session)) == 1
        c.kill()
        until("it can have it now", lambda: attached(late, session))
        late.tell("initialized")
        assert late.write("p", b"two\n") == "accepted"
        late.wrote("p", b"got two\n")


def attached(c, session):
    try:
        return c.call("initialize", {"clientName": "x", "resumeSessionId": session})
    except CodexError as e:
        assert e.code == -32010, e
        return None


def test_repeated_write_is_executed_once_across_gateways(home):
    c = Codex(home)
    session = c.hello()["sessionId"]
    c.shell("p", "cat", pipeStdin=True)
    assert c.write("p", b"one\n", "w1") == "accepted"
    c.wrote("p", b"one\n")
    c.kill()        # and the client does not know whether it was written
    with Codex(home) as again:
        again.hello(resumeSessionId=session)
        assert again.write("p", b"one\n", "w1") == "accepted" and again.write("p", b"1\n", "w1") == "accepted"
        assert again.write("p", b"two\n", "w2") == "accepted"
        again.wrote("p", b"two\n")
        assert again.output("p") == b"two\n", again.output("p")


def test_calls_that_wait_do_not_delay_others(home):
    with Codex(home) as c:
        c.hello()
        c.shell("quiet", "exec sleep 1000", pipeStdin=True)
        reads = [c.send("process/read", {"processId": "quiet", "afterSeq": 0, "waitMs": 600000}) for _ in range(100)]
        writes = [c.send("process/write", {"processId": "quiet", "chunk": base64.b64encode(b"x" * 4096).decode(), "writeId": str(i)}) for i in range(100)]
        assert c.call("process/terminate", {"processId": "quiet"}) == {"running": True}
        assert all(c.reply(r)["exited"] for r in reads)
        assert {c.reply(w)["status"] for w in writes} <= {"accepted", "stdinClosed"}


class StoppedReaper:
    """The process that outlives the gateway, stopped: its timer runs, but it checks only after it is continued."""

    def __init__(self, c):
        self.pid = until("there is a session reaper", lambda: harness.children_of(c.process.pid))[0]

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)
        return self

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGCONT)

    def gone(self):
        return not harness.alive(self.pid)


def test_the_session_reaper_ends_abandoned_processes(home):
    with home.rpc() as rpc:
        c = Codex(home, "--linger", "100ms")
        session = c.hello()["sessionId"]
        c.shell("p", "sleep 1000")
        with StoppedReaper(c):
            c.kill()
            assert len(live(rpc, session)) == 1
        until("its process is gone", lambda: not live(rpc, session))
        c = Codex(home, "--linger", "100ms")
        session = c.hello()["sessionId"]
        c.shell("p", "sleep 1000")
        with Codex(home, "--linger", "60s") as again:
            with StoppedReaper(c) as reaper:
                c.kill()
                again.hello(resumeSessionId=session)
            until("the session reaper has checked", reaper.gone)
            assert len(live(rpc, session)) == 1 and not again.call("process/read", {"processId": "p"})["exited"]


def test_processes_end_when_the_client_disconnects_during_a_restart(home):
    c = Codex(home, "--linger", "3s")
    session = c.hello()["sessionId"]
    c.shell("p", "sleep 1000")
    os.kill(home.guard.pid, signal.SIGSTOP)     # or there would be a new one at once
    try:
        home.kill_part("runtime")
        assert c.close() == 0
    finally:
        os.kill(home.guard.pid, signal.SIGCONT)
    with home.rpc() as rpc:
        until("its process is gone", lambda: not live(rpc, session))
        assert reasons(rpc, session) == ["its client has gone"]
        until("its sandbox is closed", lambda: not rpc.call("list_sandboxes", sessionId=session)["sandboxes"])


def test_session_survives_a_new_runtime(home):
    with Codex(home) as c:
        c.hello()
        c.shell("p", "echo one; read x; echo got $x", pipeStdin=True)
        c.wrote("p", b"one\n")
        home.kill_part("runtime")
        assert c.write("p", b"two\n") == "accepted"
        output, end = c.ended("p")
        assert output == b"one\ngot two\n" and end["exitCode"] == 0, output
        assert c.run("q", "echo more")[0] == b"more\n"


if __name__ == "__main__":
    harness.main(globals())
