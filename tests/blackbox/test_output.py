"""Output of commands: large, limited, binary, and read in pieces."""

import base64
import errno
import hashlib
import os
import signal
import socket
import subprocess
import time

import harness
from harness import TALKER


def events_of(rpc, process, kind):
    return [e for e in rpc.events(processId=process) if e["type"] == kind]


def spew_hash(seed, count):
    """SHA-256 of `talker spew`, from the program itself."""
    digest, left = hashlib.sha256(), 0
    with subprocess.Popen([TALKER, "spew", str(seed), str(count)], stdout=subprocess.PIPE) as p:
        while True:
            data = p.stdout.read(1 << 20)
            if not data:
                break
            digest.update(data)
            left += len(data)
    assert left == count
    return digest.hexdigest()


def test_50_megabytes_are_exact(home):
    size = 50 * 1000 * 1000
    with home.rpc() as rpc:
        started, end = rpc.run([TALKER, "spew", "42", str(size)])
        assert end["exitCode"] == 0 and end["outputs"]["stdout"]["bytes"] == size, end
        assert not end["outputs"]["stdout"]["truncated"]
        data = rpc.outputs(started["processId"])["stdout"]
        assert len(data) == size and hashlib.sha256(data).hexdigest() == spew_hash(42, size)
        assert len(events_of(rpc, started["processId"], "output.spilled")) == 1
        at = 0
        for event in events_of(rpc, started["processId"], "process.output"):
            assert event["payload"]["offset"] == at, "output events must be without gaps"
            at += event["payload"]["length"]
        assert at == size
    done = home.cli("logs", "--raw", started["processId"])
    assert hashlib.sha256(done.out).hexdigest() == hashlib.sha256(data).hexdigest()


def test_cli_streams_50_megabytes(home):
    size = 50 * 1000 * 1000
    done = home.cli("run", "--", TALKER, "spew", "43", str(size))
    assert hashlib.sha256(done.out).hexdigest() == spew_hash(43, size)


def test_cli_copies_to_files_and_slow_pipes(home):
    size = 20 * 1000 * 1000
    target = os.path.join(home.dir, "target")
    for mode in ("wb", "ab"):
        with open(target, mode) as f:
            assert home.cli_start("run", "--", TALKER, "spew", "44", str(size), stdout=f).wait(harness.PATIENCE) == 0
    with open(target, "rb") as f:
        for _ in range(2):
            assert hashlib.sha256(f.read(size)).hexdigest() == spew_hash(44, size)
        assert not f.read(1)
    with home.cli_start("run", "--", TALKER, "spew", "45", str(size)) as run:
        digest = hashlib.sha256()
        for n in range(1 << 30):
            data = run.stdout.read(70001)
            if not data:
                break
            digest.update(data)
            if n % 50 == 0:
                time.sleep(0.01)
        assert digest.hexdigest() == spew_hash(45, size) and run.wait(harness.PATIENCE) == 0


def test_both_streams_in_one_pipe_stay_in_order(home):
    script = "for i in 1 2 3; do head -c 3000000 /dev/zero | tr '\\0' $i; read x; echo end $i >&2; read x; done"
    with home.cli_start("run", "--", "sh", "-c", script, stdin=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        for i in (1, 2, 3):
            for want in (b"%d" % i * 3000000, b"end %d\n" % i):
                got = b""
                while len(got) < len(want):
                    got += run.stdout.read(len(want) - len(got)) or b"nothing more"
                assert got == want
                run.stdin.write(b"\n")
        assert not run.stdout.read() and run.wait(harness.PATIENCE) == 0


def test_the_limit_applies_to_what_the_cli_copies(home):
    size, limit = 30 * 1000 * 1000, 16 << 20
    done = home.cli("run", "--output-limit", str(limit), "--", TALKER, "spew", "46", str(size))
    with subprocess.Popen([TALKER, "spew", "46", str(size)], stdout=subprocess.PIPE) as p:
        whole = p.stdout.read()
    assert done.out == whole[:limit // 4 * 3] + whole[-limit // 4:]
    assert b"%d bytes of stdout were omitted" % (size - limit) in done.err, done.err


def test_much_output_arrives_whole_when_the_runtime_is_killed(home):
    size = 100 * 1000 * 1000
    with home.cli_start("run", "--", TALKER, "spew", "47", str(size)) as run:
        digest = hashlib.sha256()
        for _ in range(5):
            digest.update(run.stdout.read(5 * 1000 * 1000))
            home.kill_part("runtime")
        digest.update(run.stdout.read())
        assert digest.hexdigest() == spew_hash(47, size) and run.wait(harness.PATIENCE) == 0


def open_output(rpc, process, stream="stdout"):
    """(descriptor or None, reply)"""
    rpc.raw(rpc.request("open_output", processId=process, stream=stream))
    data, fds, *_ = socket.recv_fds(rpc.sock, 1 << 16, 4)
    rpc.buffer += data
    reply = None
    try:
        reply = rpc.reply(rpc.next_id)
    except harness.RpcError as e:
        reply = e
    assert len(fds) <= 1
    return (fds[0] if fds else None), reply


def test_a_descriptor_of_live_output_can_only_be_read(home):
    with home.rpc() as rpc:
        process = rpc.call("start_process", command=["sh", "-c", "echo first; exec cat"], stdin="pipe")["processId"]
        harness.until("its output is recorded", lambda: rpc.call("get_process", processId=process)["outputs"]["stdout"]["bytes"] == 6)
        fd, reply = open_output(rpc, process)
        assert reply["outputRef"] == rpc.call("get_process", processId=process)["outputs"]["stdout"]["outputRef"] and "keptBytes" in reply, reply
        assert os.read(fd, 100) == b"first\n"
        rpc.call("write_process_stdin", processId=process, data="second\n")
        harness.until("the file has it", lambda: os.fstat(fd).st_size == 13)
        assert os.pread(fd, 100, 6) == b"second\n"
        for change in (lambda: os.write(fd, b"x"), lambda: os.ftruncate(fd, 0)):
            try:
                change()
                assert False, "the descriptor must be read-only"
            except OSError as e:
                assert e.errno in (errno.EBADF, errno.EINVAL), e
        os.close(fd)
        with home.rpc() as agent:
            agent.call("initialize", role="agent")
            fd, reply = open_output(agent, process)
            assert fd is None and "needs the role operator" in reply.message, reply
        rpc.call("close_process_stdin", processId=process)
        rpc.call("wait_process", processId=process)
        fd, reply = open_output(rpc, process)
        assert fd is None and "has ended" in reply.message, reply


def test_much_output_can_still_be_opened_when_the_process_has_just_ended(home):
    """A client that follows a process may learn of its output and of its end at the same time."""
    size = 5 * 1000 * 1000
    with home.rpc() as rpc:
        started, _ = rpc.run([TALKER, "spew", "48", str(size)])
        fd, reply = open_output(rpc, started["processId"])
        with open(fd, "rb") as f:
            assert hashlib.sha256(f.read()).hexdigest() == spew_hash(48, size), reply
        fd, reply = open_output(rpc, started["processId"], "stderr")
        assert fd is None and "has ended" in reply.message, reply
        started, _ = rpc.run([TALKER, "spew", "48", str(size)], limits={"outputBytes": 1 << 20})
        fd, reply = open_output(rpc, started["processId"])
        assert reply["keptBytes"] == 3 << 18, reply
        os.close(fd)


def test_small_output_is_inline(home):
    with home.rpc() as rpc:
        started, _ = rpc.run("printf abc; printf def >&2")
        process = started["processId"]
        assert not events_of(rpc, process, "output.spilled")
        shown = {e["payload"]["stream"]: e["payload"] for e in events_of(rpc, process, "process.output")}
        assert shown["stdout"]["preview"] == "abc" and shown["stderr"]["preview"] == "def" and shown["stdout"]["encoding"] == "utf8", shown


def test_output_spilled_is_recorded_once_per_stream(home):
    with home.rpc() as rpc:
        started, _ = rpc.run("for i in 1 2 3 4 5 6; do head -c 1000 /dev/zero; head -c 1000 /dev/zero >&2; sleep 0.06; done")
        spilled = events_of(rpc, started["processId"], "output.spilled")
        assert sorted(e["payload"]["stream"] for e in spilled) == ["stderr", "stdout"], spilled


def test_output_limit_keeps_head_and_tail(home):
    """Head and tail are kept, and the count of omitted bytes is exact."""
    size, limit = 1000000, 100000
    with home.rpc() as rpc:
        started, end = rpc.run([TALKER, "spew", "7", str(size)], limits={"outputBytes": limit})
        process = started["processId"]
        truncated = events_of(rpc, process, "output.truncated")
        assert len(truncated) == 1, truncated
        fact = truncated[0]["payload"]
        out = end["outputs"]["stdout"]
        assert end["exitCode"] == 0 and out["bytes"] == size and out["truncated"] is True, out
        assert fact["omittedBytes"] == fact["omittedTo"] - fact["omittedFrom"] == out["omittedBytes"], (fact, out)
        assert 0 < fact["omittedFrom"] < fact["omittedTo"] < size, "both ends are kept"
        kept = size - fact["omittedBytes"]
        assert kept == limit, kept
        import subprocess
        whole = subprocess.run([TALKER, "spew", "7", str(size)], stdout=subprocess.PIPE).stdout
        ref = out["outputRef"]
        head = rpc.call("read_output", outputRef=ref, offset=0, length=min(1000, fact["omittedFrom"]), encoding="base64")
        assert base64.b64decode(head["data"]) == whole[:min(1000, fact["omittedFrom"])]
        tail = rpc.call("read_output", outputRef=ref, offset=fact["omittedTo"], length=1 << 20, encoding="base64")
        assert base64.b64decode(tail["data"]) == whole[fact["omittedTo"]:]
        assert tail["eof"] and tail["totalBytes"] == size
        middle = rpc.call("read_output", outputRef=ref, offset=fact["omittedFrom"], length=1000, encoding="base64")
        data = base64.b64decode(middle["data"])
        assert middle["nextOffset"] >= fact["omittedTo"] or data == b"" or middle.get("omittedBytes"), middle


def test_a_small_output_limit_is_exact(home):
    """Below the size that lives in the database, below a file system's block, and byte by byte."""
    wanted = b"".join(b"%d\n" % i for i in range(1, 100001))
    for limit in (1, 7, 1000, 1024, 3000, 5000):
        done = home.cli("run", "--output-limit", str(limit), "--", "seq", "1", "100000")
        assert done.out == wanted[:limit - limit // 4] + (wanted[-(limit // 4):] if limit >= 4 else b""), (limit, len(done.out))
        assert b"%d bytes of stdout were omitted" % (len(wanted) - limit) in done.err, done.err
    with home.rpc() as rpc:
        started, end = rpc.run("for i in 1 2 3 4 5 6; do printf 0123456789; sleep 0.06; done", limits={"outputBytes": 16})
        out = end["outputs"]["stdout"]
        assert out["truncated"] and (out["omittedFrom"], out["omittedTo"], out["bytes"]) == (12, 56, 60), out
        assert rpc.outputs(started["processId"])["stdout"] == b"0123456789016789", rpc.outputs(started["processId"])
        assert len(events_of(rpc, started["processId"], "output.truncated")) == 1
        read = rpc.call("read_output", outputRef=out["outputRef"], offset=0, length=1000)
        assert read["data"] == "012345678901" and read["nextOffset"] in (12, 56), read
    home.restart()
    assert home.cli("logs", started["processId"]).out == b"0123456789016789"
    assert b"ok" in home.cli("store", "verify").out


def test_output_at_the_limit_is_complete(home):
    with home.rpc() as rpc:
        started, end = rpc.run([TALKER, "spew", "7", "65536"], limits={"outputBytes": 65536})
        assert not end["outputs"]["stdout"]["truncated"] and not events_of(rpc, started["processId"], "output.truncated")


def test_output_can_be_read_in_pieces(home):
    with home.rpc() as rpc:
        started, end = rpc.run("printf 0123456789")
        ref = end["outputs"]["stdout"]["outputRef"]
        part = rpc.call("read_output", outputRef=ref, offset=3, length=4)
        assert (part["data"], part["nextOffset"], part["totalBytes"], part["eof"]) == ("3456", 7, 10, False), part
        part = rpc.call("read_output", outputRef=ref, offset=7, length=100)
        assert (part["data"], part["nextOffset"], part["eof"]) == ("789", 10, True), part
        part = rpc.call("read_output", outputRef=ref, offset=10)
        assert (part["data"], part["eof"]) == ("", True), part
        try:
            part = rpc.call("read_output", outputRef=ref, offset=1000)
            assert part["data"] == ""
        except harness.RpcError as e:
            assert e.code == -32602, e


def minor_faults(pid):
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rsplit(")", 1)[1].split()[7])


def test_reading_reuses_memory(home):
    """Under memory pressure each new page may wait for the disk, and the loop with it."""
    count = 100
    with home.rpc() as rpc:
        ref = rpc.run("seq 1 20000")[1]["outputs"]["stdout"]["outputRef"]
        for _ in range(10):
            rpc.call("read_output", outputRef=ref)
        runtime = home.part("runtime")
        before = minor_faults(runtime)
        for _ in range(count):
            rpc.call("read_output", outputRef=ref)
        assert minor_faults(runtime) - before < 5 * count, f"{(minor_faults(runtime) - before) / count} new pages for each read"


def test_utf8_characters_are_not_split(home):
    with home.rpc() as rpc:
        started, end = rpc.run("printf 'aé€😀'")
        ref = end["outputs"]["stdout"]["outputRef"]
        text, offset = "", 0
        while True:
            part = rpc.call("read_output", outputRef=ref, offset=offset, length=4, encoding="utf8")
            assert part.get("encoding", "utf8") == "utf8", part
            text += part["data"]
            if part["eof"]:
                break
            assert part["nextOffset"] > offset, part
            offset = part["nextOffset"]
        assert text == "aé€😀", text


def test_binary_output_is_exact(home):
    with home.rpc() as rpc:
        started, end = rpc.run("printf '\\377\\376\\000\\001'")
        event = events_of(rpc, started["processId"], "process.output")[0]["payload"]
        assert event["encoding"] == "base64" and base64.b64decode(event["preview"]) == b"\xff\xfe\x00\x01", event
        assert rpc.outputs(started["processId"])["stdout"] == b"\xff\xfe\x00\x01"


def test_output_can_be_read_while_the_process_runs(home):
    with home.rpc() as rpc:
        process = rpc.start("echo first; read x; echo second", stdin="pipe")["processId"]
        harness.until("the first line", lambda: rpc.outputs(process)["stdout"] == b"first\n")
        ref = rpc.call("get_process", processId=process)["outputs"]["stdout"]["outputRef"]
        assert rpc.call("read_output", outputRef=ref)["eof"] is False
        rpc.call("close_process_stdin", processId=process)
        rpc.wait(process)
        assert rpc.outputs(process)["stdout"] == b"first\nsecond\n"


def test_process_without_output_has_empty_streams(home):
    with home.rpc() as rpc:
        started, end = rpc.run(["true"])
        assert end["outputs"]["stdout"]["bytes"] == 0 and end["outputs"]["stderr"]["bytes"] == 0
        assert not events_of(rpc, started["processId"], "process.output")
        assert rpc.outputs(started["processId"]) == {"stdout": b"", "stderr": b""}


def test_same_bytes_after_a_restart(home):
    with home.rpc() as rpc:
        started, _ = rpc.run([TALKER, "spew", "3", "300000"])
        before = rpc.outputs(started["processId"])
    home.restart()
    with home.rpc() as rpc:
        assert rpc.outputs(started["processId"]) == before


def test_yield_keeps_both_ends(home):
    text = "".join(f"{n}\n" for n in range(1, 20001))
    with home.rpc() as rpc:
        for limit in (1, 2, 7, 200, 5000):
            out = rpc.call("start_process", command=["seq", "1", "20000"], yieldMs=60000, maxOutputBytes=limit)["output"]["stdout"]
            tail = out.get("tail", {"data": "", "offset": len(text)})
            assert len(out["data"]) + len(tail["data"]) == limit, out
            assert text.startswith(out["data"]) and text.endswith(tail["data"]) and out["totalBytes"] == len(text), out
            assert out["omittedBytes"] == len(text) - limit and tail["offset"] == len(text) - len(tail["data"]), out
        whole = rpc.call("start_process", command=["seq", "1", "10"], yieldMs=60000, maxOutputBytes=5000)["output"]["stdout"]
        assert "tail" not in whole and "omittedBytes" not in whole and whole["eof"], whole
        accents = rpc.call("start_process", commandLine="for i in $(seq 100); do printf é; done", yieldMs=60000, maxOutputBytes=11)["output"]["stdout"]
        assert set(accents["data"]) == set(accents["tail"]["data"]) == {"é"} and accents["tail"]["encoding"] == "utf8", accents


def test_yield_result_matches_get_process(home):
    ends = (["true"], ["false"], ["sh", "-c", "kill -9 $$"], ["sh", "-c", "kill -TERM $$"], ["seq", "1", "20000"], ["/does/not/exist"])
    with home.rpc() as rpc:
        for command in ends:
            for limits in ({}, {"limits": {"outputBytes": 8192}}):
                try:
                    said = rpc.call("start_process", command=command, yieldMs=60000, **limits)
                except harness.RpcError as e:
                    assert command == ends[-1], e
                    continue
                process = rpc.call("get_process", processId=said["processId"])
                for member in ("status", "exitCode", "signal", "durationMs"):
                    assert said.get(member) == process.get(member), (command, member, said, process)
                for stream, output in process["outputs"].items():
                    assert said["output"][stream]["totalBytes"] == output["bytes"], (said, process)
        slow = rpc.call("start_process", command=["sleep", "60"], limits={"wallMs": 50}, yieldMs=60000)
        assert slow["status"] == "failed" == rpc.call("get_process", processId=slow["processId"])["status"], slow


def test_following_ends_with_its_reader(home):
    """At once, and not at the next output: `logs -f | head -1`."""
    with home.rpc() as rpc:
        process = rpc.start(["sh", "-c", "echo out; echo err >&2; exec sleep 1000"])["processId"]
        for verb, stream in ((("logs", "-f"), "stdout"), (("logs", "-f", "--json"), "stdout"), (("logs", "-f", "--stream", "stderr"), "stderr"), (("attach",), "stdout")):
            pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: subprocess.PIPE}
            follow = subprocess.Popen([harness.CLI, *verb, process], env=harness.environment(BAILIFF_HOME=home.dir), stdin=subprocess.DEVNULL, **pipes)
            reader = getattr(follow, stream)
            if verb[0] == "logs":
                assert reader.readline(), verb
            reader.close()
            assert follow.wait(harness.PATIENCE) == 128 + signal.SIGPIPE, verb
        assert rpc.call("get_process", processId=process)["status"] == "running"


if __name__ == "__main__":
    harness.main(globals())
