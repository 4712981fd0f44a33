#!/usr/bin/python3
"""`bailiff serve`: authorisation, valid requests, MCP's HTTP transport, and hostile clients."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time

from harness import CONFORMANCE_GATEWAY, PATIENCE, Home, Skip, alive, main, marked, until
from http_client import BOTH, LEGACY, META, MODERN, PING, Serve, text_of, wait_gone
from test_policy import Policed

LONG = [10_000_000 + os.getpid() * 10 + i for i in range(5)]   # seconds to sleep, and marks of our own in /proc
YIELD = 300000                  # how long a call waits for its command


def answers(sock, n):
    """The statuses of n answers with a length."""
    f = sock.makefile("rb")
    found = []
    for _ in range(n):
        line = f.readline()
        if not line:
            break
        length = 0
        while True:
            header = f.readline().strip()
            if not header:
                break
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        f.read(length)
        found.append(int(line.split()[1]))
    return found


def status_of(serve, data):
    with serve.raw(data) as sock:
        return (answers(sock, 1) or [None])[0]


# ---- authorisation ----

def test_only_loopback_addresses_can_be_listened_on():
    with Home() as home:
        for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.com:80"):
            done = home.cli("serve", "--listen", address, status=2)
            assert b"127.0.0.1:PORT" in done.err, done.err
        for options, word in ((("--listen", "70000"), b"65535"), (("--max-connections", "0"), b"--max-connections"),
                              (("--session-idle", "soon"), b"--session-idle"), (("extra",), b"extra")):
            done = home.cli("serve", *options, status=None)
            assert done.status == 2 and word in done.err, (options, done.status, done.err)


def test_token_host_and_origin_are_checked():
    with Home() as home, Serve(home) as serve:
        good = {"Content-Type": "application/json", "Accept": BOTH}
        for path in ("/mcp", "/metrics", "/", "/nothing"):
            assert serve.ask("GET", path, token=False)[0] == 401, path
        for value in ("Bearer " + "0" * 64, "Bearer", f"Basic {serve.token}", serve.token, f"Bearer {serve.token[:-1]}", f"Bearer {serve.token}x"):
            status, headers, _ = serve.ask("POST", "/mcp", json.dumps(PING), dict(good, Authorization=value), token=False)
            assert status == 401 and headers["WWW-Authenticate"].startswith("Bearer"), (value, status)
        for host in ("evil.example.com", "localhost.evil.example.com", "127.0.0.1.nip.io", "192.168.1.1", ""):
            for path in ("/mcp", "/healthz", "/metrics"):
                assert serve.ask("GET", path, headers={"Host": host})[0] in (400, 403), (host, path)
        for origin in ("http://evil.example.com", "null", "https://localhost.evil.example.com", "file://"):
            for path in ("/mcp", "/healthz"):
                status, headers, _ = serve.ask("GET", path, headers={"Origin": origin})
                assert status == 403 and "Access-Control-Allow-Origin" not in headers, (origin, path)
        for host in ("localhost", "localhost:1", "127.0.0.1", "[::1]:8080"):
            assert serve.ask("GET", "/healthz", headers={"Host": host, "Origin": f"http://{host}"}, token=False)[0] == 200, host
        assert serve.ask("GET", "/nothing")[0] == 404
        assert serve.ask("PUT", "/mcp")[0] == 405 and serve.ask("POST", "/healthz")[0] == 405
        assert serve.metric("bailiff_http_refused_total") >= 20


def test_unauthorized_request_is_rejected_before_its_body():
    with Home() as home, Serve(home) as serve:
        half = "Content-Length: 1000000\r\nContent-Type: application/json\r\n\r\n{"
        assert status_of(serve, f"POST /mcp HTTP/1.1\r\nHost: localhost\r\n{half}".encode()) == 401
        assert status_of(serve, f"POST /healthz HTTP/1.1\r\nHost: evil.example.com\r\n{half}".encode()) == 403
        for expects in ("", "Expect: 100-continue\r\n"):
            with serve.raw(f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n{expects}Transfer-Encoding: chunked\r\n\r\n".encode()) as sock:
                assert answers(sock, 1) == [401]
                wait_gone(sock, "and the connection closes")
        head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {serve.token}\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        with serve.raw(head.encode()) as sock:
            assert answers(sock, 1) == [100], "an authorized client is asked for the body"
            sock.sendall(b"{}")
            assert answers(sock, 1) == [415]


def test_body_without_a_token_is_limited():
    """Bodies are kept in memory, and every user of this machine can connect."""
    with Home() as home, Serve(home) as serve:
        for path in ("POST /api/login", "GET /ui/", "GET /healthz", "POST /metrics"):
            head = f"{path} HTTP/1.1\r\nHost: localhost\r\nX-Bailiff: 1\r\n"
            wanted = 401 if "metrics" in path else 413
            assert status_of(serve, f"{head}Content-Length: 1000000\r\n\r\nx".encode()) == wanted, path
            assert status_of(serve, f"{head}Transfer-Encoding: chunked\r\n\r\n100000\r\n{'x' * 100000}".encode()) == wanted, path


# ---- pages ----

def test_healthz_reports_whether_the_daemon_answers():
    with Home() as home, Serve(home) as serve:
        status, _, body = serve.ask("GET", "/healthz", token=False)
        assert status == 200 and json.loads(body) == {"status": "ok"}, body
        home.stop()
        until("the missing daemon is reported", lambda: serve.ask("GET", "/healthz", token=False)[0] == 503)
        assert serve.metric("bailiff_up") == 0
        home.start()
        until("it is well again", lambda: serve.ask("GET", "/healthz", token=False)[0] == 200)
        assert serve.metric("bailiff_up") == 1


def test_a_session_outlives_restarts_of_the_daemon():
    with Home() as home, Serve(home) as serve:
        sessions = [serve.initialize() for _ in range(5)]
        for n in range(3):
            for s in sessions:
                assert text_of(serve.tool(s, "exec", command=f"echo run {n}")[2]).startswith(f"run {n}\n")
            home.restart()
        with home.rpc() as rpc:
            until("they are back", lambda: all(text_of(serve.tool(s, "exec", command="echo here")[2]).startswith("here\n") for s in sessions))
            channels = rpc.call("list_channels")["channels"]
            assert len(channels) == 5 and "resume" not in serve.said(), (channels, serve.said())


def test_slow_daemon_delays_only_its_own_request():
    """Opening a session takes several messages to the daemon and may be slow: other requests are served meanwhile."""
    with Home() as home, Serve(home) as serve:
        known = serve.initialize()
        assert text_of(serve.tool(known, "exec", command="echo here")[2]).startswith("here")
        runtime = home.kill_part("runtime", signal.SIGSTOP)
        try:
            waiting = [serve.tool(serve.initialize(), "exec", command=f"echo late {i}", stream=True) for i in range(3)]
            assert serve.post(PING, known)[2]["result"] == {}
            assert serve.ask("GET", "/healthz", token=False)[0] == 503, "and says that the daemon does not answer"
        finally:
            os.kill(runtime, signal.SIGCONT)
        for i, stream in enumerate(waiting):
            assert text_of(stream.last()).startswith(f"late {i}\n")
            stream.close()


def test_metrics_count_denials_approvals_tasks_and_durations():
    with Home(start=False) as home:
        with open(os.path.join(home.dir, "policy.json"), "w") as f:
            json.dump({"permissions": {"deny": ["Bash(rm:*)"], "ask": ["Bash(touch:*)"]}}, f)
        home.start()
        with Serve(home) as serve, home.rpc() as rpc:
            def of(name, **label):
                return serve.metric(name + "".join('{%s="%s"}' % pair for pair in label.items()))
            assert of("bailiff_permission_decisions_total", decision="deny") == 0 and of("bailiff_process_duration_seconds_count") == 0
            rpc.wait(rpc.call("start_process", command=["true"], cwd=home.work)["processId"])
            rpc.wait(rpc.call("start_process", command=["sleep", "0.2"], cwd=home.work)["processId"])
            rpc.fails("start_process", command=["rm", "x"], cwd=home.work, code=-32010)
            asked = rpc.call("start_process", command=["touch", "made"], cwd=home.work)
            assert of("bailiff_actions_total", state="required") == 1 and of("bailiff_approval_wait_seconds_count") == 0
            rpc.call("respond_action", actionId=asked["actionId"], decision="allow")
            rpc.wait(asked["processId"])
            task = rpc.call("create_task", objective="nothing")["taskId"]
            rpc.call("cancel_task", taskId=task)
            rpc.call("evaluate_permission", command=["rm", "x"], cwd=home.work)
            assert of("bailiff_permission_decisions_total", decision="deny") == 1, "a dry run denies nothing"
            assert of("bailiff_permission_decisions_total", decision="ask") == 1 and of("bailiff_permission_decisions_total", decision="allow") >= 2
            assert of("bailiff_actions_total", state="allow") == 1 and of("bailiff_approval_wait_seconds_count") == 1
            assert of("bailiff_tasks_total", status="created") == 1 and of("bailiff_tasks_total", status="cancelled") == 1
            assert of("bailiff_task_duration_seconds_count") == 1 and of("bailiff_processes_outcome_total", status="completed") == 3
            assert of("bailiff_process_duration_seconds_count") >= 3 and of("bailiff_process_duration_seconds_sum") >= 0.2
            whole = of("bailiff_process_duration_seconds_bucket", le="+Inf")
            assert of("bailiff_process_duration_seconds_bucket", le="0.1") < whole == of("bailiff_process_duration_seconds_count")


def test_metrics_are_prometheus_text():
    with Home() as home, Serve(home, "--metrics-open") as serve:
        session = serve.initialize()
        assert text_of(serve.tool(session, "exec", command="echo hello")[2]).startswith("hello")
        status, headers, body = serve.ask("GET", "/metrics", token=False)
        assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4"), headers["Content-Type"]
        assert serve.metric("bailiff_processes_started_total") == 1 and serve.metric("bailiff_mcp_sessions") == 1
        assert serve.metric('bailiff_method_requests_total{method="start_process"}') == 1
        if not shutil.which("promtool"):
            raise Skip("promtool (package prometheus) is not installed; what it checks was not checked")
        done = subprocess.run(["promtool", "check", "metrics"], input=body, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0 and not done.stdout.strip(), done.stdout.decode()


# ---- malformed requests ----

def test_malformed_requests_are_rejected():
    long = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 40000 + b"\r\n\r\n"
    many = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(200)) + b"\r\n"
    with Home() as home, Serve(home) as serve:
        auth = b"Authorization: Bearer " + serve.token.encode() + b"\r\n"
        rows = [
            (long, 431), (many, 431), (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400), (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
            (b"GET /healthz HTTP/1.1\nHost: localhost\n\n", 400), (b"GET  HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
            (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
            (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n Folded: x\r\n\r\n", 400),
            (b"GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
            (b"GET http://[::1]:99/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
            (b"GET http://evil.example.com/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 403),
            (b"GET http://localhost/healthz HTTP/1.1\r\nHost: evil.example.com\r\n\r\n", 403),
            (b"GET http://evil.example.com@localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
            (b"GET https://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
            (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
            (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + auth + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + auth + b"Content-Length: 99999999999\r\n\r\n", 413),
            (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + auth + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
            (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + auth + b"Content-Length: -1\r\n\r\n", 400),
            (b"GET /healthz HTTP/1.0\r\n\r\n", 200), (b"\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        ]
        for data, want in rows:
            assert status_of(serve, data) == want, (data[:80], want)
        chance = random.Random(7)
        for _ in range(200):
            data = bytearray(chance.choice(rows)[0][:2000])
            for _ in range(chance.randrange(1, 20)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            with serve.raw(bytes(data)) as sock:
                sock.shutdown(socket.SHUT_WR)
                answers(sock, 1)
        assert serve.ask("GET", "/healthz")[0] == 200


def test_bodies_that_are_not_messages_are_rejected():
    with Home() as home, Serve(home) as serve:
        session = serve.initialize()
        for body, status, code in ((b"{", 400, -32700), (b"", 400, -32700), (b"[]", 400, -32600), (b"17", 400, -32600), (b"\xff\xfe", 400, -32700),
                                   (json.dumps([PING]).encode(), 400, -32600), (b"[" * 100000, 400, -32700)):
            found, _, answer = serve.post(body, session)
            assert found == status and answer["error"]["code"] == code, (body[:40], found, answer)
        # As over stdio: the id of what cannot be parsed is in the answer, and a NUL in an argument is an error of the tool.
        exec_call = {"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {"name": "exec", "arguments": {"command": "echo \ud83d"}}}
        found, _, answer = serve.post(exec_call, session)
        assert found == 400 and answer["id"] == 8 and answer["error"]["code"] == -32700 and "D83D" in answer["error"]["message"], answer
        exec_call["params"]["arguments"]["command"] = "echo \0"
        found, _, answer = serve.post(exec_call, session)
        assert found == 200 and answer["result"]["isError"] and "u0000" in text_of(answer), answer
        assert serve.post({"jsonrpc": "2.0", "id": 1}, session)[0] == 400
        for kind in ("text/plain", "text/plain, application/json", "application/json, text/plain", "application/jsonl", "application/json x"):
            assert serve.post(PING, session, Content_Type=kind)[0] == 415, kind
        for kind in ("application/json; charset=utf-8", "Application/JSON ;charset=utf-8"):
            assert serve.post(PING, session, Content_Type=kind)[0] == 200, kind
        for accept in ("application/json", "text/event-stream", "text/html", None):
            assert serve.post(PING, session, Accept=accept)[0] == (406 if accept != "*/*" else 200), accept
        assert serve.post(PING, session, Accept="*/*")[0] == 200
        # One character in each chunk is a body as well.
        text = json.dumps(PING).encode()
        head = (f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {serve.token}\r\nContent-Type: application/json\r\nAccept: {BOTH}\r\n"
                f"Mcp-Session-Id: {session}\r\nTransfer-Encoding: chunked\r\n\r\n").encode()
        assert status_of(serve, head + b"".join(b"1\r\n%c\r\n" % c for c in text) + b"0\r\n\r\n") == 200


# ---- hostile clients ----

def test_slow_requests_do_not_occupy_a_connection_slot():
    with Home() as home, Serve(home, "--request-timeout", "300ms", "--max-connections", "20") as serve:
        slow = [serve.raw(b"POST /mcp HTTP/1.1\r\nHost: local") for _ in range(20)]
        assert serve.ask("GET", "/healthz")[0] == 200, "others are served meanwhile"
        # Sending a byte now and then does not extend the deadline, which counts from the first.
        def dripped(sock):
            try:
                sock.send(b"a")
            except OSError:
                return True
            return False
        for sock in slow:
            until("the slow one is cut off", lambda: dripped(sock))
            sock.close()
        with serve.raw(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{") as sock:
            wait_gone(sock, "a slow body is cut off too")


def test_connections_without_token_are_evicted_first():
    with Home() as home, Serve(home, "--max-connections", "8") as serve:
        friend = serve.raw(f"GET /nothing HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {serve.token}\r\n\r\n".encode())
        assert answers(friend, 1) == [404]
        strangers = [serve.raw() for _ in range(30)]
        until("connections without a token are evicted", lambda: serve.metric("bailiff_http_connections_evicted_total") >= 20)
        friend.sendall(f"GET /nothing HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {serve.token}\r\n\r\n".encode())
        assert answers(friend, 1) == [404], "the connection with the token stayed"
        for sock in (*strangers, friend):
            sock.close()
        # All slots are taken by responses in progress: the error says that.
        session = serve.initialize()
        streams = [serve.post({"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": {"name": "exec", "arguments": {"command": f"sleep {LONG[0]}", "yieldMs": YIELD}}},
                              session, stream=True) for i in range(8)]
        with serve.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") as sock:
            assert answers(sock, 1) == [503]
        for stream in streams:
            stream.close()
        until("there is room again", lambda: status_of(serve, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") == 200)


def test_pipelined_requests_are_answered_in_order():
    with Home() as home, Serve(home) as serve:
        auth = f"Authorization: Bearer {serve.token}\r\n"
        one = f"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /nothing HTTP/1.1\r\nHost: localhost\r\n{auth}\r\n".encode()
        with serve.raw(one * 50) as sock:
            assert answers(sock, 100) == [200, 404] * 50
        with serve.raw(one + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" + one) as sock:
            assert answers(sock, 10) == [200, 404, 200], "no response after the one that closes"


def rss(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def test_client_that_never_reads_is_throttled():
    with Home() as home, Serve(home) as serve:
        request = f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {serve.token}\r\n\r\n".encode()
        deaf = [serve.raw() for _ in range(4)]
        sent = 0
        for sock in deaf:
            sock.settimeout(0.5)
            try:
                while sent < 64 << 20:
                    sent += sock.send(request * 500)
            except socket.timeout:
                pass    # the server stopped reading, as expected
            else:
                raise AssertionError("64 MiB of requests were accepted without reading the answers")
        assert rss(serve.process.pid) < 200 << 10, f"{rss(serve.process.pid)} KiB"
        assert serve.ask("GET", "/healthz")[0] == 200
        for sock in deaf:
            sock.close()
        until("they are gone", lambda: serve.metric("bailiff_http_connections") <= 1)


def test_hundred_streams_are_served_in_parallel():
    with Home() as home, Serve(home) as serve:
        sessions = [serve.initialize() for _ in range(100)]
        streams = [serve.get(s) for s in sessions]
        try:
            assert all(s.status == 200 and s.is_events for s in streams)
            assert serve.metric("bailiff_http_streams") == 100 and serve.metric("bailiff_mcp_sessions") == 100
            for s in sessions[:10]:
                assert serve.post(PING, s)[2]["result"] == {}
            for s in sessions:
                assert serve.ask("DELETE", "/mcp", headers={"Mcp-Session-Id": s})[0] == 204
            for s in streams:
                assert list(s.messages()) == [], "the stream ends with its session"
        finally:
            for s in streams:
                s.close()
        assert serve.metric("bailiff_mcp_sessions") == 0


# ---- sessions ----

def test_sessions_are_created_and_deleted():
    with Home() as home, Serve(home) as serve:
        session = serve.initialize()
        assert all("!" <= c <= "~" for c in session)
        assert serve.post(PING, session)[2] == {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert serve.post(PING)[0] == 400, "without a session"
        assert serve.post(PING, "0" * 32)[0] == 404
        assert serve.get("0" * 32).status == 404
        assert serve.post(PING, session, **{"MCP-Protocol-Version": None})[0] == 200
        status, _, answer = serve.post(PING, None, Mcp_Session_Id=session, MCP_Protocol_Version="1999-01-01")
        assert status == 400 and "error" in answer
        assert serve.ask("GET", "/mcp", headers={"Mcp-Session-Id": session, "Accept": "application/json"})[0] == 406
        assert serve.ask("DELETE", "/mcp", headers={"Mcp-Session-Id": session})[0] == 204
        assert serve.post(PING, session)[0] == 404 and serve.get(session).status == 404
        assert serve.ask("DELETE", "/mcp", headers={"Mcp-Session-Id": session})[0] == 404
        status, headers, answer = serve.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}})
        assert "error" in answer and "Mcp-Session-Id" not in headers, (status, answer)
        assert serve.metric("bailiff_mcp_sessions") == 0


def test_a_session_without_connections_expires():
    with Home() as home, Serve(home, "--session-idle", "3s") as serve:
        with_stream = serve.initialize()
        with serve.get(with_stream) as stream:
            assert stream.status == 200
            without = serve.initialize()
            until("it expires", lambda: serve.metric("bailiff_mcp_sessions") == 1)
            assert serve.post(PING, without)[0] == 404
            assert serve.post(PING, with_stream)[0] == 200, "a session with a reader does not expire"
        until("so does the other, once nobody reads", lambda: serve.metric("bailiff_mcp_sessions") == 0)


def fifo(home, name="go"):
    path = os.path.join(home.work, name)
    os.mkfifo(path)
    os.chmod(path, 0o666)
    return path


def release(path):
    """Ends a command that reads the fifo."""
    with open(path, "w") as f:
        f.write("go\n")


def test_a_broken_connection_is_resumed():
    with Home() as home, Serve(home) as serve:
        session, path = serve.initialize(), fifo(home)
        call = {"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": {"name": "exec", "arguments": {
            "command": f"read x < {path}; echo done-$x", "cwd": home.work, "yieldMs": YIELD}}}
        with serve.post(call, session, stream=True) as stream:
            assert stream.headers["X-Accel-Buffering"] == "no"
            first, data = next(stream.events())
            assert first and data == "", "a stream begins with an id to resume after"
        # It disconnected, and the command continues: that was not a cancellation.
        with serve.get(session, first) as again:
            assert again.status == 200
            release(path)
            answer = [m for m in again.messages() if m.get("id") == "slow"]
            assert len(answer) == 1 and "done-go" in text_of(answer[0]), answer
        # Also when it ended while no client was connected, and repeatedly.
        for _ in range(2):
            with serve.get(session, first) as again:
                assert [m.get("id") for m in again.messages() if "result" in m] == ["slow"]
        for bad, status in (("x", 400), ("999-1", 404), (first.split("-")[0] + "-999", 404), ("1-", 400), ("-", 400)):
            assert serve.get(session, bad).status == status, bad


def test_new_general_stream_replaces_the_previous_one():
    with Home() as home, Serve(home) as serve:
        session = serve.initialize()
        with serve.get(session) as first, serve.get(session) as second:
            assert list(first.messages()) == [], "the first one ends"
            assert serve.metric("bailiff_http_streams") == 1
            assert second.status == 200


def test_clients_of_old_versions_get_no_empty_events():
    with Home() as home, Serve(home) as serve:
        session, path = serve.initialize("2025-03-26"), fifo(home)
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "exec", "arguments": {"command": f"cat {path}", "cwd": home.work, "yieldMs": YIELD}}}
        with serve.post(call, None, stream=True, Mcp_Session_Id=session) as stream:
            release(path)
            assert all(data for _, data in stream.events())


# ---- the modern era ----

def test_modern_requests_need_no_session():
    with Home() as home, Serve(home) as serve:
        status, headers, answer = serve.modern("server/discover")
        assert status == 200 and MODERN in answer["result"]["supportedVersions"] and "Mcp-Session-Id" not in headers
        status, _, answer = serve.modern("tools/call", {"name": "exec", "arguments": {"command": "echo hi"}})
        assert status == 200 and "hi" in text_of(answer), answer
        for method, code, status in (("ping", -32601, 404), ("initialize", -32601, 404), ("no/such", -32601, 404)):
            found, _, answer = serve.modern(method)
            assert found == status and answer["error"]["code"] == code and answer["id"] == 1, (method, found, answer)
        for headers in ({"Mcp-Method": "tools/list"}, {"MCP-Protocol-Version": LEGACY}, {"Mcp-Method": None}, {"MCP-Protocol-Version": None}):
            found, _, answer = serve.modern("server/discover", **headers)
            assert found == 400 and answer["error"]["code"] == -32020, (headers, found, answer)
        found, _, answer = serve.modern("tools/call", {"name": "exec", "arguments": {"command": "true"}}, **{"Mcp-Name": "other"})
        assert found == 400 and answer["error"]["code"] == -32020
        assert serve.modern("tools/call", {"name": "exec", "arguments": {"command": "true"}}, **{"Mcp-Name": "=?base64?ZXhlYw==?="})[0] == 200
        for method in ("GET", "DELETE"):
            status, headers, _ = serve.ask(method, "/mcp", headers={"MCP-Protocol-Version": MODERN, "Accept": "text/event-stream"})
            assert status == 405 and headers["Allow"] == "POST", (method, status)


def test_modern_ids_of_different_clients_may_be_the_same():
    with Home() as home, Serve(home) as serve:
        found, paths = {}, [fifo(home, word) for word in ("alpha", "beta")]

        def one(word):
            found[word] = serve.modern("tools/call", {"name": "exec", "arguments": {"command": f"cat {word} >/dev/null; echo {word}", "cwd": home.work, "yieldMs": YIELD}}, id=1)[2]
        threads = [threading.Thread(target=one, args=(w,)) for w in ("alpha", "beta")]
        for t in threads:
            t.start()
        with home.rpc() as rpc:
            until("both run", lambda: sum(p["status"] == "running" for p in rpc.call("list_processes")["processes"]) == 2)
        for path in paths:
            release(path)
        for t in threads:
            t.join(PATIENCE)
        assert all(w in text_of(found[w]) for w in ("alpha", "beta")), found


def test_disconnect_of_a_modern_client_cancels_its_call():
    with Home() as home, Serve(home) as serve:
        stream = serve.modern("tools/call", {"name": "exec", "arguments": {"command": f"sh -c 'sleep {LONG[0]} & sleep {LONG[1]}; :'", "yieldMs": YIELD}}, stream=True)
        pids = until("it runs", lambda: marked(f"sleep\x00{LONG[0]}") and marked(f"sleep\x00{LONG[1]}"))
        pids += marked(f"sleep\x00{LONG[0]}")
        stream.close()
        until("the whole tree is ended", lambda: not any(alive(p) for p in pids))
        with home.rpc() as rpc:
            until("and it is recorded", lambda: all(p["status"] not in ("running", "starting") for p in rpc.call("list_processes")["processes"]))
        # A client cannot cancel another client's request by its id.
        stream = serve.modern("tools/call", {"name": "exec", "arguments": {"command": f"sleep {LONG[2]}", "yieldMs": YIELD}}, id=1, stream=True)
        pids = until("it runs", lambda: marked(f"sleep\x00{LONG[2]}"))
        assert serve.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}, MCP_Protocol_Version=MODERN,
                          Mcp_Method="notifications/cancelled")[0] == 202
        assert "still" in text_of(serve.modern("tools/call", {"name": "exec", "arguments": {"command": "echo still"}})[2]) and all(map(alive, pids))
        stream.close()
        until("its own end of the connection cancels", lambda: not any(map(alive, pids)))
        # Also before the answer began to be a stream.
        sock = serve.raw()
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "exec", "arguments": {"command": f"sleep {LONG[2]}", "yieldMs": YIELD}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}}})
        sock.sendall((f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {serve.token}\r\nContent-Type: application/json\r\nAccept: {BOTH}\r\n"
                      f"MCP-Protocol-Version: {MODERN}\r\nMcp-Method: tools/call\r\nMcp-Name: exec\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode())
        sock.close()
        with home.rpc() as rpc:
            until("nothing of it runs", lambda: not marked(f"sleep\x00{LONG[2]}") and
                  all(p["status"] not in ("running", "starting", "queued") for p in rpc.call("list_processes")["processes"]))


# ---- questions, floods, subscriptions ----

ASK = {"permissions": {"ask": ["Bash(touch:*)"]}}


def allow(question):
    return {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"decision": "allow_once"}}}


def test_a_question_survives_a_broken_connection():
    with Policed(ASK) as home, home.rpc() as rpc, Serve(home) as serve:
        session, other = serve.initialize(elicitation={}), serve.initialize(elicitation={})
        path = os.path.join(home.work, "made")
        with serve.tool(session, "exec", id="x", stream=True, command="touch made", cwd=home.work) as stream:
            seen, data = next((i, d) for i, d in stream.events() if d)
            question = json.loads(data)
            assert question["method"] == "elicitation/create" and "touch" in question["params"]["message"], question
        # Another client's answer to a question with the same id is ignored.
        assert serve.post(allow(question), other)[0] == 202
        before = seen.split("-")[0] + "-" + str(int(seen.split("-")[1]) - 1)
        with serve.get(session, before) as again:
            messages = again.messages()
            assert next(messages) == question, "the question is repeated to the client that did not get it"
            assert rpc.call("list_actions", status="pending")["actions"] and not os.path.exists(path)
            assert serve.post(allow(question), session)[0] == 202
            answer = next(m for m in messages if m.get("id") == "x")
            assert not answer["result"].get("isError") and os.path.exists(path), answer
        returned = [e for e in rpc.events() if e["type"] == "channel.permission_returned"]
        assert [e["payload"]["decidedBy"] for e in returned] == ["peer"], returned


def test_modern_approval_round_needs_no_session():
    with Policed(ASK) as home, Serve(home) as serve:
        run = {"name": "exec", "arguments": {"command": "touch made", "cwd": home.work}}
        can = {"elicitation": {"form": {}}}
        first = serve.modern("tools/call", run, capabilities=can)[2]["result"]
        assert first["resultType"] == "input_required", first
        # These clients share a session: an approval by one user must not apply to all of them.
        assert first["inputRequests"]["approve"]["params"]["requestedSchema"]["properties"]["decision"]["enum"] == ["allow_once", "deny"], first
        yes = {"approve": {"action": "accept", "content": {"decision": "allow_once"}}}
        status, _, answer = serve.modern("tools/call", dict(run, requestState=first["requestState"][:-2] + "AA", inputResponses=yes), capabilities=can)
        assert answer["error"]["code"] == -32602 and not os.path.exists(os.path.join(home.work, "made")), (status, answer)
        done = serve.modern("tools/call", dict(run, requestState=first["requestState"], inputResponses=yes), id="later", capabilities=can)[2]
        assert done["result"]["resultType"] == "complete" and os.path.exists(os.path.join(home.work, "made")), done


def test_hundred_subscriptions_are_notified_of_a_change():
    with Home() as home, Serve(home, program=CONFORMANCE_GATEWAY) as serve:
        listening = [serve.modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=i, stream=True) for i in range(100)]
        try:
            heard = [s.messages() for s in listening]
            for i, messages in enumerate(heard):
                note = next(messages)
                assert note["method"] == "notifications/subscriptions/acknowledged" and note["params"]["_meta"][META + "subscriptionId"] == i, note
            assert serve.modern("tools/call", {"name": "test_trigger_tool_change", "arguments": {}})[0] == 200
            for messages in heard:
                assert next(messages)["method"] == "notifications/tools/list_changed"
        finally:
            for s in listening:
                s.close()
        until("they are gone", lambda: serve.metric("bailiff_http_streams") == 0)


def test_flood_of_calls_is_throttled():
    with Home() as home, Serve(home) as serve:
        session, other = serve.initialize(), serve.initialize()
        head = (f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {serve.token}\r\nContent-Type: application/json\r\nAccept: {BOTH}\r\n"
                f"Mcp-Session-Id: {session}\r\n")
        socks = []
        for i in range(80):
            body = json.dumps({"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": {"name": "exec", "arguments": {"command": f"sleep {LONG[0]}", "yieldMs": YIELD}}})
            socks.append(serve.raw(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()))
        with home.rpc() as rpc:
            def started():
                return [e for e in rpc.events(types=["process.started"]) if "owner" not in e["payload"]]  # without the holders of sandboxes
            until("as many run as may", lambda: len(started()) == 64)
            assert serve.post(PING, other)[0] == 200 and "hi" in text_of(serve.tool(other, "exec", command="echo hi")[2]), "others do not suffer"
            assert len(started()) == 65, "nothing else has been started meanwhile"
            for i in range(3):
                assert serve.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": i}}, session)[0] == 202
            until("others take their place", lambda: len(started()) == 68)
        assert serve.ask("DELETE", "/mcp", headers={"Mcp-Session-Id": session})[0] == 204
        for sock in socks:
            sock.close()


# ---- ends ----

def test_a_restart_of_the_daemon_is_survived():
    with Home() as home, Serve(home) as serve:
        session = serve.initialize()
        assert "one" in text_of(serve.tool(session, "exec", command="echo one")[2])
        with serve.get(session) as stream:
            home.restart()
            assert "two" in text_of(serve.tool(session, "exec", command="echo two")[2])
            assert "three" in text_of(serve.modern("tools/call", {"name": "exec", "arguments": {"command": "echo three"}})[2])
            assert stream.status == 200
        home.kill_part("runtime")
        assert "four" in text_of(serve.tool(session, "exec", command="echo four")[2])


def test_deleting_a_session_ends_its_commands():
    with Home() as home, Serve(home) as serve:
        session = serve.initialize()
        stream = serve.tool(session, "exec", stream=True, command=f"sleep {LONG[3]}", yieldMs=YIELD)
        pids = until("it runs", lambda: marked(f"sleep\x00{LONG[3]}"))
        assert serve.ask("DELETE", "/mcp", headers={"Mcp-Session-Id": session})[0] == 204
        assert not [m for m in stream.messages() if m.get("id") == 1]
        stream.close()
        until("it is ended", lambda: not any(alive(p) for p in pids))


def test_signal_ends_the_server_orderly():
    for sig in (signal.SIGTERM, signal.SIGINT):
        with Home() as home, Serve(home) as serve:
            session = serve.initialize()
            idle = serve.raw()
            general = serve.get(session)
            call = serve.tool(session, "exec", stream=True, command=f"sleep {LONG[4]}", yieldMs=YIELD)
            listening = serve.modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="listen", stream=True)
            pids = until("it runs", lambda: marked(f"sleep\x00{LONG[4]}"))
            serve.process.send_signal(sig)
            assert serve.process.wait(PATIENCE) == 0
            assert list(general.messages()) == []
            assert [m["id"] for m in listening.messages() if "result" in m] == ["listen"], "a subscription ends with a result"
            until("what it ran is ended", lambda: not any(alive(p) for p in pids))
            wait_gone(idle, "connections are closed")
            for s in (idle, general, call, listening):
                s.close()


def test_server_exits_without_starting_a_missing_daemon():
    with Home() as home:
        with Serve(home) as serve:
            session = serve.initialize()
            assert serve.tool(session, "exec", command="true")[0] == 200 and serve.ask("GET", "/healthz")[0] == 200
            home.stop()
            time.sleep(1)   # longer than the server waits before it would start a daemon for a connected client
        assert not home.answers(), "an exiting server starts no daemon"
        home.start()


def test_ipv6_loopback_can_be_listened_on():
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as sock:
            sock.bind(("::1", 0))
    except OSError as e:
        raise Skip(f"there is no ::1 here: {e.strerror}") from None
    with Home() as home, Serve(home, address="[::1]:0") as serve:
        assert serve.host == "::1" and serve.ask("GET", "/healthz", headers={"Host": f"[::1]:{serve.port}"})[0] == 200
        assert serve.post(PING, serve.initialize())[0] == 200


if __name__ == "__main__":
    main(globals())
