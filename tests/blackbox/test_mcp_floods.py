"""Clients of `bailiff mcp` that request more than they read: the memory for them is bounded."""

import contextlib
import fcntl
import json
import os
import struct
import termios
import threading
import time

import harness
from harness import until
from mcp import Mcp
from mcp_clients import Raw
from test_mcp_protocol import running


def rss_kib(mcp):
    with open(f"/proc/{mcp.process.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def unread(mcp):
    """Bytes in its stdin that it has not read."""
    return struct.unpack("i", fcntl.ioctl(mcp.process.stdin, termios.FIONREAD, b"\0" * 4))[0]


def is_idle(pid):
    """Whether the process sleeps and has not been scheduled for half a second."""
    def runs():
        with open(f"/proc/{pid}/status") as f:
            return [line for line in f if "ctxt_switches" in line]
    before = runs()
    time.sleep(0.5)
    return harness.stat_of(pid)[1] == "S" and runs() == before


def test_client_that_does_not_read_uses_bounded_memory(home):
    """While a command prints a gigabyte, and while silent commands send endless heartbeats."""
    with Mcp(home, "--structured", env={"BAILIFF_MCP_HEARTBEAT_MS": "1"}) as mcp, home.rpc() as rpc:
        mcp.initialize()
        fcntl.fcntl(mcp.process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        mcp.hearing.clear()
        gate = os.path.join(home.work, "gate")
        os.mkfifo(gate)
        silent = [mcp.send("tools/call", name="exec", arguments={"command": f"cat {gate}", "cwd": home.work, "yieldMs": 600000}, _meta={"progressToken": f"silent {i}"})
                  for i in range(20)]
        until("they run", lambda: len(running(rpc)) == 20)
        loud = mcp.send("tools/call", name="exec", _meta={"progressToken": "loud"},
                        arguments={"command": "head -c 1073741824 /dev/zero | tr '\\0' x", "maxOutputBytes": 1000000, "yieldMs": 600000, "cwd": home.work})
        until("it runs", lambda: len(running(rpc)) == 21)
        most = 0

        def over():
            nonlocal most
            most = max(most, rss_kib(mcp))
            return len(running(rpc)) == 20
        until("it has printed all of it", over)

        def release():
            with contextlib.suppress(OSError):  # not read by the client
                os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
            return not running(rpc)
        until("the silent ones end", release)
        most = max(most, rss_kib(mcp))
        assert most < 60000, f"{most} KiB"
        mcp.hearing.set()
        result = mcp.reply(loud)["structuredContent"]
        assert result["exitCode"] == 0 and result["outputs"][0]["bytes"] == 1 << 30, {**result, "stdout": None}
        for call in silent:
            assert mcp.reply(call)["structuredContent"]["exitCode"] == 0
        beats = len([n for n in mcp.notes if n["method"] == "notifications/progress"])
        assert 20 <= beats < 1000, f"{beats} words of progress were kept for it"


def test_ten_thousand_unread_answers_use_bounded_memory(home):
    n = 10_000
    with Mcp(home, "--structured") as mcp:
        mcp.initialize()
        mcp.hearing.clear()
        sent = []
        writer = threading.Thread(target=lambda: sent.extend(mcp.send("prompts/list") for _ in range(n)))
        writer.start()
        until("it is held back", lambda: unread(mcp) > 60000)
        assert len(sent) < n and rss_kib(mcp) < 60000, (len(sent), rss_kib(mcp))
        mcp.hearing.set()
        for i in range(n):
            until("it is sent", lambda: len(sent) > i)
            assert len(mcp.reply(sent[i])["prompts"]) > 4
        writer.join()


def test_ten_thousand_slow_requests_use_bounded_memory(home):
    with home.rpc() as rpc:
        with Mcp(home, "--structured") as mcp:
            mcp.initialize()
            line = json.dumps({"jsonrpc": "2.0", "id": "ID", "method": "tools/call", "params": {"name": "exec", "arguments": {"command": "sleep 100000", "yieldMs": 600000}}})
            os.set_blocking(mcp.process.stdin.fileno(), False)
            left = "".join(line.replace("ID", str(i)) + "\n" for i in range(10_000)).encode()

            def write():
                nonlocal left
                with contextlib.suppress(BlockingIOError):
                    left = left[os.write(mcp.process.stdin.fileno(), left):]
            until("as many run as may", lambda: write() or len(running(rpc)) == 64)
            until("it is held back", lambda: write() or unread(mcp) > 60000)
            assert len(left) > 1_000_000 and rss_kib(mcp) < 60000, (len(left), rss_kib(mcp))
            assert len(running(rpc)) == 64
        until("nothing is left", lambda: not running(rpc))


def test_gateway_holds_only_a_few_results_of_many_tasks(home):
    """The daemon stores the results: a gateway with many long ones keeps a few in memory, and delivers all of them."""
    with Mcp(home, "--structured") as mcp:
        mcp.initialize()
        made = []
        for i in range(50):
            made.append(mcp.call("tools/call", name="exec", arguments={"command": f"head -c 900000 /dev/zero | tr '\\0' x; echo task {i}", "maxOutputBytes": 1000000},
                                 task={})["task"]["taskId"])
            if i % 10 == 9:
                for id in made[-10:]:
                    mcp.call("tasks/result", taskId=id)
        assert rss_kib(mcp) < 100_000, f"{rss_kib(mcp)} KiB for 50 results of 1.8 MB"
        for i, id in enumerate(made):
            if i % 9 == 0:
                assert mcp.call("tasks/result", taskId=id)["structuredContent"]["stdout"].endswith(f"xtask {i}\n"), i
        assert len(mcp.call("tasks/list")["tasks"]) == 50


def test_subscriber_that_does_not_read_gets_one_notification_per_resource(home):
    """It gets one notification per resource, however often that changed, when it reads again."""
    for modern in (False, True):
        with Raw(home, modern) as mcp:
            fcntl.fcntl(mcp.process.stdout, fcntl.F_SETPIPE_SZ, 4096)
            told, _ = mcp.exec("while read x; do echo got $x; done", interactive=True, yieldMs=0)
            uri = f"bailiff://output/{told['processId']}/stdout"
            for one in (uri, "bailiff://events", "bailiff://processes"):
                mcp.subscribe(one)
            with home.rpc() as rpc:
                session = rpc.call("get_process", processId=told["processId"])["sessionId"]
            with Raw(home, args=("--session", session)) as other:
                mcp.mcp.hearing.clear()
                for _ in range(8):
                    for n in [other.begin("exec", command="true") for _ in range(10)]:
                        other.finish(n)
                other.call("write_stdin", processId=told["processId"], text="one\n", yieldMs=0)
                until("it is there", lambda: other.read(uri)[0]["text"] == "got one\n")
                with home.rpc() as rpc:
                    happened = len([e for e in rpc.events() if e.get("sessionId") == session])
                assert happened > 600, f"only {happened} events: that proves nothing"
                until("its gateway has taken them all", lambda: is_idle(mcp.process.pid))
                mcp.mcp.hearing.set()
                mcp.wait_for(lambda: uri in mcp.updates(), "word that the output has changed")
                assert mcp.updates().count("bailiff://events") < 400, (happened, len(mcp.updates()))
                assert mcp.updates().count(uri) == 1, mcp.updates().count(uri)
                before = mcp.updates().count("bailiff://processes")
                other.exec("true")
                mcp.wait_for(lambda: mcp.updates().count("bailiff://processes") > before, "word of what happens now")


if __name__ == "__main__":
    harness.main(globals())
