#!/usr/bin/python3
"""The console over HTTP: its files, login, calls, the event stream, live output, downloads and numbers; and requests of other pages."""

import fcntl
import gzip
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import termios
import threading
import time

from console_client import PAGE, EventStream, Page, code_of, console_token, log_in
from harness import PATIENCE, Home, Skip, main, until
from http_client import Serve
from test_policy import Policed

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ENDPOINTS = (("POST", "/api/call"), ("POST", "/api/logout"), ("GET", "/api/stream"), ("POST", "/api/watch"), ("GET", "/api/output"),
             ("GET", "/api/series"))
HOSTILE = "\x1b]52;c;ZXZpbA==\x07<script>alert(1)</script>\u202e\x00\xff\n"


def fails(answer, status, word):
    assert answer[0] == status and word.encode() in answer[2], answer
    assert answer[1]["Cache-Control"] == "no-store", answer[1].items()


# ---- files ----

def test_the_page_has_exactly_its_headers_and_a_new_nonce():
    with Home() as home, Serve(home) as serve:
        nonces = set()
        for path in ("/ui/", "/ui/index.html"):
            status, headers, body = serve.ask("GET", path, token=False)
            nonce = re.search(rb'name="bailiff-nonce" content="([0-9a-f]{64})"', body).group(1).decode()
            nonces.add(nonce)
            assert status == 200 and b"__NONCE__" not in body and "ETag" not in headers and "Content-Encoding" not in headers
            assert headers["Content-Security-Policy"] == (
                f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; connect-src 'self'; "
                "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
                "trusted-types bailiff"), headers["Content-Security-Policy"]
            for name, value in (("Content-Type", "text/html; charset=utf-8"), ("X-Content-Type-Options", "nosniff"),
                                ("Referrer-Policy", "no-referrer"), ("Cross-Origin-Opener-Policy", "same-origin"),
                                ("Cross-Origin-Resource-Policy", "same-origin"), ("Cache-Control", "no-cache")):
                assert headers.get_all(name) == [value], (name, headers.get_all(name))
        assert len(nonces) == 2


def test_files_are_compressed_cached_by_hash_and_small():
    with Home() as home, Serve(home) as serve:
        total = len(serve.ask("GET", "/ui/", token=False)[2])
        folder = os.path.join(ROOT, "supervisor", "console")
        names = [os.path.relpath(os.path.join(d, f), folder) for d, _, files in os.walk(folder) for f in files
                 if f.endswith((".js", ".css")) and "node_modules" not in d]
        assert "app.js" in names, names
        for name in names:
            status, headers, body = serve.ask("GET", "/ui/" + name, headers={"Accept-Encoding": "gzip"}, token=False)
            with open(os.path.join(folder, name), "rb") as f:
                assert status == 200 and gzip.decompress(body) == f.read(), (name, status)
            assert headers["ETag"] == f'"{hashlib.sha256(body).hexdigest()[:32]}"' and headers["Cache-Control"] == "no-cache"
            assert headers["Content-Type"].startswith(("text/javascript", "text/css")), headers["Content-Type"]
            total += len(body)
        assert total <= 300_000, total
        status, headers, body = serve.ask("GET", "/ui/" + name, headers={"If-None-Match": headers["ETag"]}, token=False)
        assert (status, body) == (304, b""), (status, body)
        assert serve.ask("GET", "/ui/app.js", headers={"Accept-Encoding": "identity"}, token=False)[0] == 406
        for path in ("/ui/nothing.js", "/ui/../http-token", "/ui/package.json", "/ui/embed.py"):
            assert serve.ask("GET", path, token=False)[0] == 404, path
        assert serve.ask("POST", "/ui/", token=False)[0] == 405


# ---- access ----

def test_requests_of_other_pages_are_rejected():
    with Home() as home, Serve(home) as serve:
        page = Page(serve)
        host = f"{serve.host}:{serve.port}"
        for method, path in ENDPOINTS + (("POST", "/api/login"), ("POST", "/api/code")):
            token = dict(serve.headers() if path == "/api/code" else {}, **({"X-Bailiff": "1"} if path in ("/api/code", "/api/login") else {}))
            for headers in ({"Origin": "http://evil.example.com"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"},
                            {"Origin": f"https://{host}"}, {"Host": "evil.example.com"}, {"Host": "evil.example.com", "Origin": "http://evil.example.com"},
                            {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "none"}):
                assert page.ask(method, path, headers=dict(token, **headers))[0] == 403, (path, headers)
            if path != "/api/output":
                fails(page.ask(method, path, headers=dict(token, **{"X-Bailiff": None})), 403, "X-Bailiff")
        own = {"Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
        assert page.ask("POST", "/api/call", {"method": "get_health"}, own)[0] == 200


def test_requests_without_a_session_are_rejected():
    with Home() as home, Serve(home) as serve:
        page = Page(serve)
        name, _, value = page.cookie.partition("=")
        for method, path in ENDPOINTS:
            if path != "/api/output":
                for key in ("1", "0" * 64, page.key[:-1], Page(serve).key):
                    fails(page.ask(method, path, headers={"X-Bailiff": key}), 401, "bailiff console")    # the cookie alone is not enough
            for cookie in (None, f"{name}=", f"{name}={'0' * 64}", f"other={value}", f"{page.cookie}; {page.cookie}", page.cookie[:-1]):
                fails(page.ask(method, path, headers={"Cookie": cookie}), 401, "bailiff console")
            assert serve.ask(method, path, headers=PAGE)[0] == 401, "the token is not a session"
        assert page.ask("POST", "/api/call", {"method": "get_health"}, {"Cookie": f"a=b; {page.cookie}; c=d"})[0] == 200
        assert page.ask("POST", "/api/logout")[0] == 204
        fails(page.ask("POST", "/api/call", {"method": "get_health"}), 401, "session")
        assert serve.ask("POST", "/api/code", "{}", PAGE, token=False)[0] == 401


def test_login_code_is_valid_once():
    with Home() as home, Serve(home) as serve:
        code = code_of(serve)
        assert re.fullmatch("[0-9a-f]{64}", code)
        for wrong in ("", "0" * 64, code[:-1], code + "0"):
            fails(serve.ask("POST", "/api/login", json.dumps({"code": wrong}), PAGE, token=False), 403, "bailiff console")
        first = log_in(serve, code)
        fails(serve.ask("POST", "/api/login", json.dumps({"code": code}), PAGE, token=False), 403, "used already")
        assert log_in(serve, code_of(serve)) != first
        for body, word in (("[]", "object"), ("{", "object"), ("{}", "code"), ('{"code":1}', "code")):
            fails(serve.ask("POST", "/api/login", body, PAGE, token=False), 400, word)
        fails(serve.ask("POST", "/api/code", '{"role":"root"}', dict(PAGE, **console_token(serve))), 400, "role")
        codes = [code_of(serve) for _ in range(17)]
        fails(serve.ask("POST", "/api/login", json.dumps({"code": codes[0]}), PAGE, token=False), 403, "code")
        log_in(serve, codes[-1])


def test_tokens_of_agents_cannot_open_the_console():
    with Home() as home, Serve(home) as serve:
        agent = home.cli("serve", "--print-token", "--client", "agent").text.strip()
        for token in (serve.token, agent):
            assert serve.ask("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})[0] == 200
            fails(serve.ask("POST", "/api/code", "{}", dict(PAGE, Authorization=f"Bearer {token}")), 403, "agents")


def test_the_token_is_not_sent_to_another_user():
    if os.getuid() != 0:
        raise Skip("only root can listen as another user")
    listener = "import os, socket, sys; os.setuid(65534); s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); " \
               "c = s.accept()[0]; c.settimeout(60); print(c.recv(4096), flush=True)"
    other = subprocess.Popen([sys.executable, "-c", listener], stdout=subprocess.PIPE)
    try:
        port = other.stdout.readline().decode().strip()
        with Home() as home:
            refused = home.cli("console", "--print", "--listen", f"127.0.0.1:{port}", status=1)
            assert "another user (uid 65534)" in refused.err.decode(), refused.err
        assert other.stdout.readline() == b"b''\n", "nothing was sent"
    finally:
        other.kill()
        other.wait()
        other.stdout.close()


def test_the_token_is_not_sent_to_another_program_of_the_user():
    """A sandboxed command with the host's network has the same uid, and a published port belongs to the daemon's proxy."""
    with Home() as home, socket.create_server(("127.0.0.1", 0)) as listener:
        got = []

        def take():
            listener.settimeout(PATIENCE)
            with listener.accept()[0] as peer:
                peer.settimeout(PATIENCE)
                got.append(peer.recv(4096))

        thread = threading.Thread(target=take)
        thread.start()
        refused = home.cli("console", "--print", "--listen", f"127.0.0.1:{listener.getsockname()[1]}", status=1)
        thread.join()
        assert got == [b""] and "is not known to be bailiff serve of this installation" in refused.err.decode(), (got, refused.err)


def test_a_removed_token_ends_the_sessions_that_began_with_it():
    with Home() as home, Serve(home) as serve:
        page, code = Page(serve), code_of(serve)
        with page.stream() as stream:
            stream.hello()
            with open(os.path.join(home.dir, "http-token"), "w") as f:
                f.write("other " + "a" * 64 + "\n")
            until("the session ends", lambda: serve.ask("GET", "/metrics")[0] == 401 and page.ask("GET", "/api/series")[0] == 401)
            until("and its stream", lambda: stream.ended)
        fails(serve.ask("POST", "/api/login", json.dumps({"code": code}), PAGE, token=False), 403, "code")


def test_least_recently_used_session_is_evicted():
    with Home() as home, Serve(home) as serve:
        pages = [Page(serve) for _ in range(64)]
        assert pages[0].ask("GET", "/api/series")[0] == 200
        Page(serve)
        assert pages[0].ask("GET", "/api/series")[0] == 200 and pages[1].ask("GET", "/api/series")[0] == 401


# ---- calls ----

def test_calls_answer_as_the_socket_does():
    with Home() as home, Serve(home) as serve, home.rpc() as rpc:
        page = Page(serve)
        process = page.call("start_process", command=["echo", "hello"], yieldMs=10000)
        assert process["output"]["stdout"]["data"] == "hello\n", process
        one = page.call("get_process", processId=process["processId"])
        assert one == rpc.call("get_process", processId=process["processId"])
        status, reply = page.reply("get_process", {"processId": "proc_nothing"})
        assert status == 200 and reply["error"]["code"] == -32004 and reply["error"]["data"]["category"] == "not_found", reply
        assert page.reply("nonsense")[1]["error"]["code"] == -32601
        for method in ("initialize", "open_output", "subscribe_events", "unsubscribe_events", "connect_channel", "reconnect_channel", "register_tools"):
            status, reply = page.reply(method)
            assert status == 400 and method in reply["error"]["message"], (method, reply)
        fails(page.ask("POST", "/api/call", {"method": "start_process", "params": {"command": ["true"], "subscribe": True}}), 400, "subscribe")
        for body, word in (({"method": 1}, "method"), ({"method": "get_health", "params": []}, "params"), ("{}", "method"), ("x", "object"),
                           ('{"method":"a","method":"b"}', "object")):
            fails(page.ask("POST", "/api/call", body), 400, word)
        assert page.ask("GET", "/api/call")[0] == 405


def test_the_daemon_decides_what_a_role_may_do():
    with Home() as home, Serve(home) as serve, home.rpc() as rpc:
        process = rpc.start(["sleep", "1000"])["processId"]
        observer, agent, operator = (Page(serve, role) for role in ("observer", "agent", "operator"))
        for params in ({"processId": process}, {"processId": process, "idempotencyKey": "k"}):
            status, reply = observer.reply("terminate_process", params)
            assert status == 200 and reply["error"]["code"] == -32003, reply
        assert observer.call("get_process", processId=process)["status"] == "running"
        assert agent.reply("prune_store")[1]["error"]["code"] == -32003
        with observer.stream() as stream:
            assert stream.hello()["role"] == "observer"
        with Page(serve).stream() as stream:
            assert stream.hello()["role"] == "operator"
        assert operator.call("terminate_process", processId=process)["status"] == "terminated"


def test_two_sessions_answer_one_action_and_one_wins():
    with Policed({"permissions": {"ask": ["Bash(touch:*)"]}}) as home, Serve(home) as serve:
        pages = [Page(serve) for _ in range(4)]
        for n in range(3):
            pages[0].call("start_process", command=["touch", f"asked{n}"], cwd=home.work)
            action = pages[0].call("list_actions", status="pending")["actions"][0]["actionId"]
            replies, ready = [], threading.Barrier(len(pages))

            def answer(page, decision):
                ready.wait()
                replies.append((decision, page.reply("respond_action", {"actionId": action, "decision": decision})[1]))

            threads = [threading.Thread(target=answer, args=(page, ("allow", "deny")[i % 2])) for i, page in enumerate(pages)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            won = [decision for decision, reply in replies if "result" in reply]
            assert len(replies) == 4 and len(won) == 1, replies
            assert all(reply["error"]["code"] in (-32015, -32009) for _, reply in replies if "error" in reply), replies
            resolved = pages[0].call("list_events", types=["action.resolved"])["events"]
            assert len(resolved) == n + 1 and resolved[-1]["payload"]["decision"] == won[0], resolved


def test_calls_wait_while_the_daemon_restarts():
    with Home() as home, Serve(home) as serve:
        page = Page(serve)
        page.call("get_health")
        home.stop()
        found = []
        threads = [threading.Thread(target=lambda: found.append(page.reply("get_health"))),
                   threading.Thread(target=lambda: found.append(page.reply("start_process", {"command": ["true"]})))]
        for t in threads:
            t.start()
        home.start()
        for t in threads:
            t.join()
        assert [status for status, _ in found] == [200, 200] and all("result" in reply for _, reply in found), found
        with home.rpc() as rpc:
            assert len(rpc.call("list_processes")["processes"]) == 1


# ---- the stream ----

def test_stream_begins_with_new_events_or_after_a_sequence_number():
    with Home() as home, Serve(home) as serve, home.rpc() as rpc:
        page = Page(serve)
        rpc.run(["true"])
        last = rpc.call("initialize")["lastSequence"]
        with page.stream() as stream:
            hello = stream.hello()
            assert hello["seq"] == last and hello["version"] and re.fullmatch("[0-9a-f]{64}", hello["stream"]), hello
            assert stream.until("the state", lambda: stream.of("state")) == [{"daemon": "connected"}]
            assert stream.answer.headers["Content-Type"] == "text/event-stream" and stream.answer.headers["Cache-Control"] == "no-store"
            process = rpc.run(["echo", HOSTILE.replace("\0", "")])[0]["processId"]
            done = stream.event("process.completed", processId=process)
            log = {e["sequence"]: e for e in rpc.events()}
            for name, number, event in stream.frames:
                if name == "event":
                    assert event == log[int(number)] and event["sequence"] == int(number), number
        with page.stream(after=0) as stream:
            stream.event("process.completed", processId=process)
            assert stream.sequences()[:done["sequence"]] == list(range(1, done["sequence"] + 1))
        for after in ("x", "", "-1", "1&after=2", "99999999999999999999"):
            assert page.ask("GET", f"/api/stream?after={after}")[0] == 400, after


def test_the_stream_resumes_without_gap_or_duplicate_when_the_daemon_is_killed():
    with Home() as home, Serve(home) as serve:
        page = Page(serve)
        with page.stream() as stream:
            first = stream.hello()["seq"]
            for n in range(3):
                process = page.call("start_process", command=["sh", "-c", f"echo {n}; exit {n}"])["processId"]
                stream.event("process.completed", processId=process)
                if n == 0:
                    home.kill_part("runtime")
                else:
                    home.stop(signal.SIGKILL, expect=False)
                    home.start()
                stream.until("it says so", lambda n=n: [s["daemon"] for s in stream.of("state")] == ["connected"] + ["disconnected", "connected"] * (n + 1))
            process = page.call("start_process", command=["true"])["processId"]
            last = stream.event("process.completed", processId=process)["sequence"]
            with home.rpc() as rpc:
                want = [e["sequence"] for e in rpc.events() if first < e["sequence"] <= last]
            assert stream.sequences()[:len(want)] == want, (stream.sequences(), want)


def test_pruned_or_unknown_sequence_is_reported_as_expired():
    with Home() as home, Serve(home) as serve, home.rpc() as rpc:
        page = Page(serve)
        rpc.run(["true"])
        rpc.call("prune_store", beforeSequence=8)
        oldest = rpc.call("initialize")["firstSequence"]
        assert oldest > 1, oldest
        for after in (0, 10 ** 9):
            with page.stream(after=after) as stream:
                assert stream.until("it says so", lambda: stream.of("expired"))[0] == {"oldest": oldest}
                process = rpc.run(["true"])[0]["processId"]
                stream.event("process.completed", processId=process)


def test_slow_reader_delays_no_other_client():
    """Some megabytes of events for a page that does not read: it gets all of them later, and memory stays bounded."""
    with Home() as home, Serve(home) as serve, home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        page = Page(serve)
        slow = EventStream(page, read=False)
        with page.stream() as quick:
            quick.hello()
            for _ in range(16):
                rpc.call("emit_events", sessionId=session, events=[
                    {"type": "run.status", "payload": {"phase": "running", "title": "x" * 60000}} for _ in range(10)])
            last = rpc.call("initialize")["lastSequence"]
            quick.until("the other one gets all", lambda: last in quick.sequences()[-1:])
            with open(f"/proc/{serve.process.pid}/status") as f:
                kb = int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))
            assert kb < 100_000, kb
            with slow:
                slow.thread.start()
                slow.until("and the slow one, too", lambda: last in slow.sequences()[-1:])
                assert slow.sequences() == quick.sequences()


# ---- output ----

def test_watched_output_is_exact_and_encoded():
    with Home() as home, Serve(home) as serve, home.rpc() as rpc:
        page = Page(serve)
        process = rpc.call("start_process", command=["sh", "-c", 'read x; printf "%s" "$x"; read x; head -c 3000000 /dev/urandom | tee copy; printf err >&2; read x'],
                           stdin="pipe", cwd=home.work)["processId"]
        with page.stream() as stream:
            assert stream.watch(process)[0] == 204
            rpc.call("write_process_stdin", processId=process, data=HOSTILE.replace("\0", ""))
            want = HOSTILE.replace("\0", "").strip().encode()
            stream.until("the text", lambda: stream.output(process)[1] == want)
            assert all(b"\x1b" not in json.dumps(f).encode() for f in stream.frames), "no raw control character is sent"
            rpc.call("write_process_stdin", processId=process, data="\n")
            stream.until("all bytes", lambda: len(stream.output(process)[1]) == len(want) + 3000000)
            with open(os.path.join(home.work, "copy"), "rb") as f:
                assert stream.output(process) == (0, want + f.read())
            stream.until("stderr", lambda: stream.output(process, "stderr") == (0, b"err"))
            with page.stream() as other:
                assert other.watch(process, offset=3, request=7)[0] == 204
                other.until("from an offset", lambda: len(other.output(process)[1]) == len(want) + 3000000 - 3)
                assert other.output(process)[0] == 3
                assert all(f["request"] == 7 for f in other.of("output")), "the page can tell the bytes of one request from those of another"
            assert stream.watch(process, on=False)[0] == 204
            n = len(stream.of("output"))
            rpc.end(process)
            stream.event("process.terminated", processId=process)
            assert len(stream.of("output")) == n
            fails(stream.watch("proc_nothing"), 404, "proc_nothing")
            for body, word in (({"stream": "x"}, "stream"), ({"processId": 1}, "processId"), ({"on": 1}, "on"), ({"offset": -1}, "offset"), ({"request": -1}, "request")):
                fails(stream.watch(process, **body), 404 if "stream" in body else 400, word)
            fails(Page(serve).ask("POST", "/api/watch", {"stream": stream.hello()["stream"], "processId": process}), 404, "stream")


def test_watched_output_continues_after_a_restart():
    with Home() as home, Serve(home) as serve:
        page = Page(serve)
        process = page.call("start_process", command=["cat"], stdin="pipe")["processId"]
        with page.stream() as stream:
            assert stream.watch(process)[0] == 204
            want = b""
            for n in range(3):
                line = f"line {n}\n"
                page.call("write_process_stdin", processId=process, data=line)
                want += line.encode()
                stream.until("the line", lambda: stream.output(process)[1] == want)
                home.kill_part("runtime")
            page.call("terminate_process", processId=process)


def test_terminal_is_watched_from_the_offset_of_its_screen():
    with Home() as home, Serve(home) as serve:
        page = Page(serve)
        process = page.call("start_process", command=["cat"], tty={"rows": 5, "cols": 40})["processId"]
        page.call("write_process_stdin", processId=process, data="one\r")
        until("the screen shows it", lambda: page.call("get_screen", processId=process)["text"].count("one") == 2)
        screen = page.call("get_screen", processId=process, format="ansi", modes=True)
        with page.stream() as stream:
            assert stream.watch(process, offset=screen["offset"])[0] == 204
            page.call("write_process_stdin", processId=process, data="two\r")
            stream.until("what comes then", lambda: stream.output(process, "terminal") == (screen["offset"], b"two\r\ntwo\r\n"))
            page.call("terminate_process", processId=process)


def test_output_is_downloaded_as_a_file():
    with Home() as home, Serve(home) as serve, home.rpc() as rpc:
        page = Page(serve)
        process = rpc.run(["sh", "-c", "head -c 3000000 /dev/urandom | tee copy; echo '<script>' >&2"], cwd=home.work)[0]["processId"]
        path = f"/api/output?processId={process}&stream="
        status, headers, body = page.ask("GET", path + "stdout", headers={"X-Bailiff": None})
        with open(os.path.join(home.work, "copy"), "rb") as f:
            assert status == 200 and body == f.read(), (status, len(body))
        assert headers["Content-Type"] == "application/octet-stream" and headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Content-Disposition"] == f'attachment; filename="{process}-stdout.log"' and headers["Cache-Control"] == "no-store"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin" and not [h for h in headers if h.startswith("Access-Control")]
        assert page.ask("GET", path + "stderr")[2] == b"<script>\n"
        fails(page.ask("GET", path + "terminal"), 404, "stream")
        fails(page.ask("GET", "/api/output?processId=proc_nothing&stream=stdout"), 404, "proc_nothing")
        for query in ("", f"?processId={process}", "?stream=stdout", f"?processId={process}&stream=pty", f"?processId={process}%22&stream=stdout",
                      f"?processId={process}&processId={process}&stream=stdout"):
            assert page.ask("GET", "/api/output" + query)[0] == 400, query


def test_a_download_ends_with_its_session():
    with Home() as home, Serve(home) as serve, home.rpc() as rpc:
        page, other = Page(serve), Page(serve)
        size = 40 << 20     # more than sockets and the gateway keep for a client that does not read
        process = rpc.run(["head", "-c", str(size), "/dev/zero"])[0]["processId"]
        connection = http.client.HTTPConnection(serve.host, serve.port, timeout=PATIENCE)
        connection.request("GET", f"/api/output?processId={process}&stream=stdout", headers={"Cookie": page.cookie})
        answer = connection.getresponse()
        assert answer.status == 200

        def stalled():
            waiting = [fcntl.ioctl(connection.sock, termios.FIONREAD, bytes(4)) for _ in range(5) if not time.sleep(0.1)]
            return waiting[0] == waiting[-1] != bytes(4)
        until("the gateway waits for the client", stalled)
        assert page.ask("POST", "/api/logout")[0] == 204
        got = 0
        try:
            while piece := answer.read(1 << 20):
                got += len(piece)
        except (http.client.IncompleteRead, ConnectionResetError):
            pass
        connection.close()
        assert got < size - 1, "it breaks off"
        assert other.call("get_health")["status"]


# ---- bailiff console ----

def address_of(line):
    return re.fullmatch(r"http://127\.0\.0\.1:(\d+)/ui/#code=([0-9a-f]{64})", line.strip())


def test_console_verb_prints_the_address_of_a_running_server():
    with Home() as home, Serve(home) as serve:
        found = address_of(home.cli("console", "--print", "--listen", str(serve.port), "--role", "observer").text)
        assert found and int(found.group(1)) == serve.port
        with Page(serve, code=found.group(2)).stream() as stream:
            assert stream.hello()["role"] == "observer"
        assert b"--role" in home.cli("console", "--role", "root", status=2).err
        assert b"127.0.0.1:PORT" in home.cli("console", "--listen", "0.0.0.0:1", status=2).err
        with Home() as other:
            assert b"--listen" in other.cli("console", "--print", "--listen", str(serve.port), status=1).err


def test_console_verb_starts_a_server_if_none_listens():
    with Home() as home:
        process = home.cli_start("console", "--print", "--listen", "0", stdout=subprocess.PIPE)
        try:
            lines = [process.stdout.readline().decode() for _ in range(2)]
            found = address_of(lines[1])
            assert lines[0] == f"listening on http://127.0.0.1:{found.group(1)}/mcp\n", lines
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def test_login_code_is_not_in_the_browsers_arguments():
    with Home() as home, Serve(home) as serve:
        tools, seen = os.path.join(home.dir, "tools"), os.path.join(home.work, "seen")
        os.mkdir(tools)
        with open(os.path.join(tools, "xdg-open"), "w") as f:
            f.write(f'#!/bin/sh\nprintf "%s\\n" "$*" >{seen}; stat -c %a "$1" >>{seen}; cat "$1" >>{seen}\n')
        os.chmod(f.name, 0o755)
        env = {"DISPLAY": ":9", "PATH": tools + ":" + os.environ["PATH"]}
        done = home.cli("console", "--listen", str(serve.port), env=env)
        with open(seen, encoding="utf-8") as f:
            argv, mode, page = f.readline().strip(), f.readline().strip(), f.read()
        assert argv == os.path.join(home.dir, "console.html") and mode == "600" and "code=" not in (done.out + done.err).decode(), (argv, mode)
        log_in(serve, re.search(r"#code=([0-9a-f]{64})", page).group(1))
        with home.rpc() as rpc:
            hidden = rpc.call("get_sandbox", cwd=home.dir)["sandboxProfile"]["hidden"]
            assert argv in hidden or home.dir in hidden, hidden
        os.unlink(os.path.join(tools, "xdg-open"))
        assert address_of(home.cli("console", "--listen", str(serve.port), env=dict(env, PATH=tools)).text), "without a browser it is printed"


# ---- slow checks (ten seconds) ----

def check_away(home, serve):
    """The daemon stays away: calls, streams and watches fail."""
    page = Page(serve)
    process = page.call("start_process", command=["true"], yieldMs=10000)["processId"]
    stream = page.stream()
    stream.hello()
    home.stop()
    stream.until("it is away", lambda: {"daemon": "disconnected"} in stream.of("state"))
    found, began = [], time.monotonic()
    threads = [threading.Thread(target=lambda: found.append(page.reply("get_health"))),
               threading.Thread(target=lambda: found.append((page.ask("GET", "/api/stream")[0], {"error": {"code": "unavailable"}}))),
               threading.Thread(target=lambda: found.append((lambda answer: (answer[0], json.loads(answer[2])))(stream.watch(process))))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 3 and all(status == 503 and reply["error"]["code"] == "unavailable" for status, reply in found), found
    assert 9 < time.monotonic() - began
    home.start()
    assert page.reply("get_health")[0] == 200
    with stream:
        stream.until("it is back", lambda: stream.of("state")[-1] == {"daemon": "connected"})
        assert stream.watch(process)[0] == 204


RUNNING = 105   # more than a page of console_series.c


def check_series(serve):
    """Every ten seconds there is a point, with a value for each name; running commands are all counted, also those of further pages."""
    page = Page(serve)
    with serve.home.rpc() as rpc:
        sandbox = rpc.call("create_sandbox", cwd=serve.home.work)["sandboxId"]
        for request in [rpc.send("start_process", command=["sleep", "1000"], sandboxId=sandbox) for _ in range(RUNNING)]:
            rpc.reply(request)
    for n in range(3):
        page.call("start_process", command=["sh", "-c", "echo hello; i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done"], yieldMs=10000)

    def points():
        status, _, body = page.ask("GET", "/api/series")
        assert status == 200
        series = json.loads(body)
        return series["points"] and series["points"][-1][2] == RUNNING and series
    series = until("a sample with all of them", points)
    assert series["intervalMs"] == 10000 and series["names"] == [
        "commandsPerSecond", "running", "cpuPercent", "daemonMemoryBytes", "outputBytesPerSecond", "costUsd", "approvals", "denials"], series
    point = dict(zip(["time"] + series["names"], map(max, zip(*series["points"]))))   # on a slow machine the commands end in a later one
    assert all(len(p) == 9 for p in series["points"]) and abs(point["time"] / 1000 - time.time()) < 60, point
    assert all(point[name] > 0 for name in ("commandsPerSecond", "cpuPercent", "daemonMemoryBytes", "outputBytesPerSecond")), point
    assert point["denials"] == 0, point


def test_calls_fail_without_a_daemon_and_series_are_recorded():
    with Home() as home, Serve(home) as serve, Home() as other, Serve(other) as counted:
        waiting = threading.Thread(target=check_away, args=(home, serve))
        failed = []
        threading.excepthook = lambda a: failed.append(a.exc_value)
        waiting.start()
        check_series(counted)
        waiting.join()
        assert not failed, failed


if __name__ == "__main__":
    main(globals())
