"""The control socket: framing, batches, pipelining, roles, bad input of every kind. The connection survives."""

import contextlib
import json
import os
import socket
import struct
import subprocess

import harness
from harness import Gone, Skip, until


def test_malformed_json_is_rejected_and_the_connection_survives(home):
    with home.rpc() as rpc:
        for line in (b"{", b"nonsense", b"[1,2", b'"just a string"', b"5", b"null", b"{}", b'{"jsonrpc":"2.0","id":77001}', b"[]",
                     b'{"jsonrpc":"1.0","id":77002,"method":"get_health"}', b'{"jsonrpc":"2.0","id":77003,"method":5}',
                     b'{"jsonrpc":"2.0","id":{},"method":"get_health"}', b'{"jsonrpc":"2.0","id":77004,"method":"get_health","params":5}'):
            rpc.raw(line + b"\n")
            reply = rpc.odd_reply()
            assert reply["error"]["code"] in (-32700, -32600, -32602), (line, reply)
            rpc.call("get_health")
        rpc.raw(b"{\n")
        assert rpc.odd_reply()["error"]["code"] == -32700


def test_empty_lines_and_crlf_are_accepted(home):
    with home.rpc() as rpc:
        rpc.raw(b"\n\r\n   \n")
        rpc.raw(b'{"jsonrpc":"2.0","id":9001,"method":"get_health"}\r\n')
        while True:
            reply = rpc.odd_reply()
            if reply.get("id") == 9001:
                break
            assert "error" in reply
        assert "result" in reply


def test_invalid_utf8_is_rejected(home):
    with home.rpc() as rpc:
        rpc.raw(b'{"jsonrpc":"2.0","id":9001,"method":"create_session","params":{"title":"\xff\xfe"}}\n')
        assert rpc.odd_reply()["error"]["code"] in (-32700, -32600, -32602)
        rpc.raw(b"\xff\xfe\x00\x01\n")
        assert rpc.odd_reply()["error"]["code"] in (-32700, -32600)
        rpc.call("get_health")
        assert not [e for e in rpc.events() if e["payload"].get("title")]


def test_deeply_nested_json_is_rejected(home):
    with home.rpc() as rpc:
        for depth in (100, 10000, 200000):
            rpc.raw(b'{"jsonrpc":"2.0","id":9001,"method":"get_health","params":' + b"[" * depth + b"]" * depth + b"}\n")
            assert rpc.odd_reply()["error"]["code"] in (-32700, -32600, -32602)
        rpc.call("get_health")


def test_nul_is_rejected(home):
    with home.rpc() as rpc:
        error = rpc.fails("start_process", {"command": ["echo", "a\0b"]}, code=-32602)
        assert "command" in error.message or "command" in str(error.data), error
        rpc.fails("start_process", {"command": ["true"], "env": {"A": "x\0y"}}, code=-32602)
        rpc.fails("start_process", {"command": ["true"], "cwd": "/tmp\0"}, code=-32602)
        # Also where the parameter can be any object or array: the runtime died when such a task was completed.
        rpc.fails("create_task", {"objective": "o", "acceptance": ["a\0b"]}, code=-32602)
        for part in ({"type": "text", "text": "a\0b"}, {"type": "command", "command": ["echo", "a\0b"]},
                     {"type": "tool_call", "toolName": "write_file", "arguments": {"path": "x", "content": "a\0b"}}):
            assert "u0000" in rpc.fails("submit_turn", {"input": [part]}, code=-32602).message, part


def test_deeply_nested_values_are_rejected(home):
    """The runtime wrote events that it could not read."""
    def nested(levels):
        return json.loads("[" * levels + "]" * levels)

    with home.rpc() as rpc:
        assert "48 levels" in rpc.fails("create_task", {"objective": "o", "taskProfile": {"a": nested(48)}}, code=-32602).message
        task = rpc.call("create_task", objective="o", taskProfile={"a": nested(47)})["taskId"]
        assert rpc.call("get_task", taskId=task)["taskProfile"] == {"a": nested(47)}
        home.cli("store", "verify")


def test_large_arguments(home):
    with home.rpc() as rpc:
        for size in (100000, 1 << 20, 8 << 20):
            big = "x" * size
            try:
                _, end = rpc.run(["printf", "%s", big])
                assert end["exitCode"] == 0 and end["outputs"]["stdout"]["bytes"] == size
            except harness.RpcError as e:
                assert size > 100000, f"an argument of {size} bytes: {e}"
        _, end = rpc.run(["echo", *["y" * 1000] * 900])
        assert end["exitCode"] == 0
        harness.check_log(rpc.events())
        assert all(len(json.dumps(e, ensure_ascii=False, separators=(",", ":")).encode()) <= 65536 for e in rpc.events())


def test_oversize_line_is_rejected(home):
    with home.rpc() as rpc:
        refused = False
        try:
            for _ in range(17):
                rpc.raw(b"x" * (1 << 20))
            rpc.raw(b"\n")
            reply = rpc.odd_reply()
            refused = reply["error"]["code"] in (-32700, -32600, -32012)
        except Gone:
            refused = True
        assert refused
    with home.rpc() as rpc:
        rpc.call("get_health")


def test_batch_gets_one_array_of_replies(home):
    with home.rpc() as rpc:
        rpc.raw(json.dumps([{"jsonrpc": "2.0", "id": "a", "method": "get_health"}, {"jsonrpc": "2.0", "id": "b", "method": "nope"},
                            {"jsonrpc": "2.0", "method": "get_health"}, 5]).encode() + b"\n")
        replies = rpc.odd_reply()
        assert isinstance(replies, list) and len(replies) == 3, replies
        by_id = {r.get("id"): r for r in replies}
        assert "result" in by_id["a"] and by_id["b"]["error"]["code"] == -32601 and by_id[None]["error"]["code"] == -32600, by_id
        rpc.raw(json.dumps([{"jsonrpc": "2.0", "method": "get_health"}]).encode() + b"\n")
        rpc.call("get_health")
        assert not rpc.odd, rpc.odd


def test_batch_waits_for_all_of_its_starts(home):
    with home.rpc() as rpc:
        rpc.raw(json.dumps([{"jsonrpc": "2.0", "id": i, "method": "start_process", "params": {"commandLine": f"exit {i - 100}"}}
                            for i in range(100, 110)]).encode() + b"\n")
        replies = rpc.odd_reply()
        assert sorted(r["id"] for r in replies) == list(range(100, 110))
        for r in replies:
            assert rpc.wait(r["result"]["processId"])["exitCode"] == r["id"] - 100


def test_pipelining(home):
    with home.rpc() as rpc:
        slow = rpc.start(["sleep", "1000"])["processId"]
        waiting = rpc.send("wait_process", processId=slow)
        ids = [rpc.send("get_health") for _ in range(500)]
        for i in ids:
            rpc.reply(i)
        rpc.send("terminate_process", processId=slow)
        assert rpc.reply(waiting)["status"] == "terminated"


def test_request_may_arrive_byte_by_byte(home):
    with home.rpc() as rpc:
        for byte in b'{"jsonrpc":"2.0","id":9001,"method":"get_health"}\n':
            rpc.raw(bytes([byte]))
        assert "result" in rpc.odd_reply()


def test_request_ids_are_returned_unchanged(home):
    with home.rpc() as rpc:
        for ident in ("x", "", "ü\n\"", 0, -5, 2 ** 52, 1.5, "a" * 1000):
            rpc.raw(json.dumps({"jsonrpc": "2.0", "id": ident, "method": "get_health"}).encode() + b"\n")
            reply = rpc.odd_reply() if ident != 1 else None
            assert reply["id"] == ident or "error" in reply, (ident, reply)


def test_notifications_have_no_reply(home):
    with home.rpc() as rpc:
        rpc.raw(b'{"jsonrpc":"2.0","method":"create_session","params":{"title":"by notification"}}\n')
        rpc.raw(b'{"jsonrpc":"2.0","method":"nope"}\n')
        until("it was done", lambda: [s for s in rpc.call("list_sessions")["sessions"] if s.get("title") == "by notification"])
        assert not rpc.odd


def test_unknown_methods_and_parameters_are_rejected(home):
    with home.rpc() as rpc:
        error = rpc.fails("frobnicate", code=-32601)
        assert "frobnicate" in error.message, error
        error = rpc.fails("get_health", {"bogus": 1}, code=-32602)
        assert "bogus" in error.message, error
        error = rpc.fails("start_process", {"command": ["true"], "limits": {"wallMs": 5, "wibble": 1}}, code=-32602)
        assert "limits.wibble" in error.message, error
        error = rpc.fails("get_process", {}, code=-32602)
        assert "processId" in error.message, error


def test_replies_are_sent_after_a_half_close(home):
    with home.rpc() as rpc:
        ids = [rpc.send("start_process", commandLine=f"exit {n}") for n in range(5)]
        rpc.sock.shutdown(socket.SHUT_WR)
        for i in ids:
            assert rpc.reply(i)["processId"]


def test_many_connections_are_served(home):
    links = [home.rpc() for _ in range(200)]
    try:
        ids = [(rpc, rpc.send("get_health")) for rpc in links]
        for rpc, i in ids:
            rpc.reply(i)
    finally:
        for rpc in links:
            rpc.close()


def test_connections_beyond_the_limit_are_rejected():
    with harness.Home({"maxConnectionsPerUid": 10}) as home:
        links = []
        try:
            refused = 0
            for _ in range(20):
                try:
                    rpc = home.rpc(patience=10)
                    links.append(rpc)
                    rpc.call("get_health")
                except harness.RpcError as e:
                    assert e.code == -32012, e
                    refused += 1
                except (Gone, OSError):
                    refused += 1
            assert refused >= 10, refused
        finally:
            for rpc in links:
                rpc.close()
        until("it serves again", home.answers)


def test_abrupt_disconnects_do_no_harm(home):
    for n in range(50):
        rpc = home.rpc()
        if n % 2:
            rpc.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        rpc.send("subscribe_events", afterSequence=0)
        rpc.raw(b'{"jsonrpc":"2.0","id":1,"meth')
        rpc.close()
    until("it still answers", home.answers)


def test_role_limits_the_allowed_methods(home):
    with home.rpc() as rpc:
        assert rpc.call("initialize")["role"] == "operator"
        assert rpc.call("initialize", role="agent", clientName="test")["role"] == "agent"
        rpc.fails("verify_store", code=-32003)
        rpc.fails("initialize", {"role": "operator"}, code=-32003)
        assert rpc.run(["true"])[1]["exitCode"] == 0
        assert rpc.call("initialize", role="observer")["role"] == "observer"
        rpc.fails("start_process", {"command": ["true"]}, code=-32003)
        rpc.call("list_processes")
        rpc.fails("initialize", {"role": "king"}, code=-32602)
    with home.rpc() as rpc:
        assert rpc.call("verify_store")["ok"] is True


def test_initialize_reports_runtime_and_capabilities(home):
    with home.rpc() as rpc:
        hello = rpc.call("initialize", clientName="x", clientVersion="1")
        assert {"runtimeId", "serverVersion", "role", "lastSequence", "capabilities"} <= set(hello), hello
        assert hello["runtimeId"].startswith("rt_")


def test_health_and_metrics_are_reported(home):
    with home.rpc() as rpc:
        health, metrics = rpc.call("get_health"), rpc.call("get_metrics")
        assert health and metrics
        rpc.run(["true"])
        assert rpc.call("get_metrics") != metrics


def test_another_user_sees_no_processes_or_events(home):
    """A peer sees only its own uid's sessions, and cannot open the socket of a private home."""
    if os.geteuid() != 0:
        raise Skip("needs root to become another user")
    assert os.stat(home.socket).st_mode & 0o077 == 0
    with home.rpc() as rpc:
        process = rpc.run(["true"])[0]["processId"]
    os.chmod(home.dir, 0o755)
    os.chmod(home.socket, 0o666)
    code = ("import json,socket,sys\n"
            "s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f=s.makefile('rw')\n"
            "for m,p in (('list_processes',{}),('get_process',{'processId':sys.argv[2]}),('list_events',{}),('list_sessions',{})):\n"
            "    f.write(json.dumps({'jsonrpc':'2.0','id':1,'method':m,'params':p})+'\\n'); f.flush(); print(f.readline().strip())\n")
    done = subprocess.run(["setpriv", "--reuid=61235", "--regid=61235", "--clear-groups", "/usr/bin/python3", "-c", code, home.socket, process],
                          capture_output=True, text=True, timeout=harness.PATIENCE)
    replies = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    assert len(replies) == 4, done
    assert replies[0]["result"]["processes"] == [] and replies[1]["error"]["code"] == -32004, replies
    assert replies[2]["result"]["events"] == [] and replies[3]["result"]["sessions"] == [], replies


def test_sandboxed_command_cannot_use_the_control_socket(home):
    code = ("import socket,sys\n"
            "s=socket.socket(socket.AF_UNIX)\n"
            "try:\n    s.connect(sys.argv[1]); s.sendall(b'{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"list_processes\"}\\n'); print(s.recv(65536).decode())\n"
            "except OSError as e: print('oserror', e)\n")
    with home.rpc() as rpc:
        started, end = rpc.run(["/usr/bin/python3", "-c", code, home.socket])
        said = rpc.outputs(started["processId"])["stdout"].decode()
        assert end["exitCode"] == 0 and said.startswith("oserror"), said


def test_connections_leave_descriptors_for_work():
    """1,024 descriptors, as many connections as are accepted: those that exist can still read outputs and run commands."""
    with harness.Home({"maxConnectionsPerUid": 65536}, through=("prlimit", "--nofile=1024:1024")) as home, home.rpc() as rpc:
        started, _ = rpc.run("seq 1 20000")
        links = []
        try:
            for _ in range(1100):
                links.append(harness.Rpc(home.socket))
            with contextlib.suppress(harness.Gone):     # rejected, with the reason
                links[-1].send("get_health")
            if b"file descriptors" not in (links[-1].line(10) or b""):
                raise harness.Skip("the daemon may raise its limit here")
            assert rpc.outputs(started["processId"])["stdout"].startswith(b"1\n2\n")
            assert rpc.run(["true"])[1]["exitCode"] == 0
        finally:
            for link in links:
                link.close()
        harness.until("connections are accepted again", home.answers)


def test_errors_have_reasons_for_clients_with_better_advice(home):
    """The same reason again if the error is a stored one, and none where the category says all."""
    with home.rpc() as rpc:
        running = rpc.start(["sleep", "1000"])["processId"]
        task = rpc.call("create_task", objective="x", acceptance=["a criterion"])["taskId"]
        rpc.call("start_task", taskId=task)
        for method, reason, params in (("resize_process", "no_terminal", {"processId": running, "rows": 9, "cols": 9}), ("get_screen", "no_terminal", {"processId": running}),
                                       ("write_process_stdin", "no_stdin", {"processId": running, "data": "x"}), ("list_changes", "not_cow", {"processId": running}),
                                       ("unpublish_port", "not_published", {"processId": running, "port": 77}), ("complete_task", "task_incomplete", {"taskId": task}),
                                       ("get_process", None, {"processId": "proc_x"}), ("start_process", None, {"command": []})):
            key = {} if method.startswith(("get", "list")) else {"idempotencyKey": f"key-{method}"}
            for _ in range(2):
                error = rpc.fails(method, **params, **key)
                assert error.data.get("reason") == reason and error.data["advice"], (method, error)
                assert "start_process" not in error.message and "list_" not in error.message, error.message
        rpc.call("drain", on=True)
        assert rpc.fails("start_process", command=["true"]).data["reason"] == "draining"


def test_draining_daemon_starts_nothing(home):
    with home.rpc() as rpc:
        rpc.call("drain")
        for method, params in (("start_process", {"command": ["true"]}), ("create_sandbox", {}), ("test_model", {"name": "m"}),
                               ("add_mcp_server", {"name": "m", "command": ["true"]}), ("test_mcp_server", {"name": "m"})):
            assert "about to stop" in str(rpc.fails(method, params, code=-32011)), method
        rpc.call("drain", on=False)
        assert rpc.run(["true"])[1]["exitCode"] == 0


if __name__ == "__main__":
    harness.main(globals())
