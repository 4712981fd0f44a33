"""bailiff-model alone: it sends a request to a model provider and writes the response as it arrives; its timers, its key, its failures."""

import contextlib
import errno
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

import harness
import npm
from harness import BUILD, PATIENCE, ROOT, Skip, environment, kernel_without, marked, until
from net import allow, network_home

sys.path.insert(0, os.path.join(ROOT, "tests", "fakes"))
from provider import Provider  # noqa: E402

MODEL = os.path.join(BUILD, "bailiff-model")
KEY = "sk-test/0123456789=abcdef"
BODY = {"model": "claude-fake", "max_tokens": 100, "stream": True, "messages": [{"role": "user", "content": "hello"}]}
PATIENT = {"connectMs": 60000, "firstByteMs": 60000, "idleMs": 60000, "silentMs": 60000, "totalMs": 60000}


class Folder:
    """A private folder with a key file."""

    def __init__(self, key=KEY):
        self.dir = tempfile.TemporaryDirectory(prefix="bl-model-")
        self.key = self.file("key", key + "\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.dir.cleanup()

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def file(self, name, content, mode=0o600):
        path = self.path(name)
        with open(path + ".new", "w") as f:
            os.fchmod(f.fileno(), mode)
            f.write(content)
        os.rename(path + ".new", path)
        return path


class Run:
    """One process of bailiff-model."""

    def __init__(self, line, body=b"", env=None, through=()):
        self.process = subprocess.Popen([*through, MODEL], env=environment(**(env or {})), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.feeder = threading.Thread(target=self.feed, args=(line.encode() + b"\n" + body,), daemon=True)
        self.feeder.start()

    def feed(self, data):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(data)
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def end(self, head_was_read=False):
        """(exit status, head, body, failure)"""
        try:
            out, chunks = self.process.stdout, []
            errors = threading.Thread(target=lambda: chunks.append(self.process.stderr.read()), daemon=True)
            errors.start()
            data = out.read()
            self.process.wait(PATIENCE)
            errors.join(PATIENCE)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            for f in (self.process.stdout, self.process.stderr):
                f.close()
        err = chunks[0].decode()
        assert err.count("\n") <= 1, err
        failure = json.loads(err) if err else None
        assert failure is None or set(failure) == {"category", "stage", "message", "retryable"}, failure
        head, _, body = (b"", b"", data) if head_was_read else data.partition(b"\n")
        return self.process.returncode, json.loads(head) if head else None, body, failure


def request(url, timeouts=PATIENT, **more):
    if not any(k in more for k in ("keyFile", "keyCommand")):
        more["headers"] = dict({"x-api-key": KEY}, **more.get("headers", {}))
    else:
        more["keyHeader"] = "x-api-key"
    more["headers"] = dict({"anthropic-version": "2023-06-01"}, **more.get("headers", {}))
    return json.dumps(dict({"url": url, "direct": True, "timeouts": timeouts}, **more))


def send(p, body=BODY, **more):
    return Run(request(p.url + "/messages", **more), json.dumps(body).encode()).end()


def fails(p, category, stage, retryable=None, **more):
    status, head, body, failure = send(p, **more)
    assert status == 1 and failure and (failure["category"], failure["stage"]) == (category, stage), (status, head, body[:300], failure)
    assert retryable is None or failure["retryable"] == retryable, failure
    return head, body, failure


def certificate(folder):
    key, cert = folder.path("tls.key"), folder.path("tls.pem")
    try:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        raise Skip("no openssl") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context, cert, key


def test_request_and_response_pass_unchanged():
    with Folder() as f, Provider("anthropic", ["hé🚀llo " * 50, {"text": "x", "split": 1}, {"status": 529, "message": "busy", "retry_after": 3}], keys=[KEY]) as p:
        status, head, body, failure = send(p, keyFile=f.key, headers={"X-Mine": "a b", "X-Empty": ""})
        assert status == 0 and failure is None and head["status"] == 200, (status, head, failure)
        assert head["headers"]["content-type"].startswith("text/event-stream") and head["headers"]["request-id"] == "req_1", head
        assert body.startswith(b"event: message_start\n") and body.endswith(b'data: {"type":"message_stop"}\n\n'), body
        seen = p.requests[0]
        assert seen.raw == json.dumps(BODY).encode() and seen.headers["x-api-key"] == KEY, seen.headers
        assert seen.headers["x-mine"] == "a b" and seen.headers["x-empty"] == "" and "expect" not in seen.headers, seen.headers
        assert seen.headers["content-type"] == "application/json" and seen.headers["user-agent"].startswith("bailiff/"), seen.headers
        assert send(p, keyFile=f.key)[2].endswith(b'"message_stop"}\n\n')
        # An error of the server is a response.
        status, head, body, failure = send(p, keyFile=f.key)
        assert status == 0 and head["status"] == 529 and head["headers"]["retry-after"] == "3" and json.loads(body)["error"]["type"] == "overloaded_error", (head, body)


def test_headers_are_joined_and_cookies_dropped():
    with Provider("anthropic", [{"text": "x", "headers": {"X-A": "1", "x-a": "2", "Set-Cookie": "session=1", "X-Long": "y" * 5000}}]) as p:
        head = send(p)[1]["headers"]
        assert head["x-a"] == "1, 2" and "set-cookie" not in head and head["x-long"] == "y" * 5000, head


def test_redirects_are_not_followed():
    with Provider("anthropic", [{"status": 307, "headers": {"Location": "/v1/messages"}}]) as p:
        status, head, _, _ = send(p)
        assert status == 0 and head["status"] == 307 and len(p.requests) == 1, head


def test_each_timeout_is_reported_with_its_stage():
    with socket.create_server(("127.0.0.1", 0)) as deaf:    # accepts, and never starts TLS
        run = Run(request(f"https://127.0.0.1:{deaf.getsockname()[1]}/", dict(PATIENT, connectMs=200)))
        status, head, _, failure = run.end()
        assert status == 1 and head is None and (failure["category"], failure["stage"], failure["retryable"]) == ("timeout", "connect", True), failure
        assert "200 ms" in failure["message"], failure
    quirks = [{"stall": "head"}, {"text": "x" * 300, "stall_after": 400}, {"silent": True}, {"text": "hi", "silent_after": 3}, {"silent": True}]
    with Provider("anthropic", quirks) as p:
        head, _, failure = fails(p, "timeout", "request", True, timeouts=dict(PATIENT, firstByteMs=200))
        assert head is None and "no response" in failure["message"], failure
        head, body, failure = fails(p, "timeout", "response", True, timeouts=dict(PATIENT, idleMs=200))
        assert head["status"] == 200 and len(body) == 400 and "stalled" in failure["message"], (head, body, failure)
        for _ in range(2):
            head, body, failure = fails(p, "timeout", "response", True, timeouts=dict(PATIENT, silentMs=300))
            assert b"event: ping" in body and "keep-alives" in failure["message"], (body, failure)
        failure = fails(p, "timeout", "response", True, timeouts=dict(PATIENT, totalMs=300))[2]
        assert "too long" in failure["message"], failure
        for r in p.requests:
            assert r.aborted.wait(PATIENCE)


def test_comments_keep_a_stream_alive_for_a_limited_time():
    chat = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]}
    with Provider("openai-chat", [{"silent": True}], keys=()) as p:
        _, _, body, failure = Run(request(p.url + "/chat/completions", dict(PATIENT, silentMs=300)), json.dumps(chat).encode()).end()
        assert body.startswith(b": OPENROUTER PROCESSING") and "keep-alives" in failure["message"], (body, failure)


def test_broken_stream_is_a_retryable_failure():
    with Provider("anthropic", [{"text": "x" * 300, "cut_after": 500}, {"text": "x" * 300, "cut_after": 500, "cut": "reset"}, {"text": "x" * 300, "cut_after_events": 4},
                                {"text": "x" * 300, "cut_after": 500, "close": True}]) as p:
        for _ in range(2):
            head, body, _ = fails(p, "connect", "response", True)
            assert head["status"] == 200 and len(body) <= 500, body
        # These look like an end: only the terminal event shows that they are not.
        for _ in range(2):
            status, _, body, failure = send(p)
            assert status == 0 and failure is None and b"message_stop" not in body, (status, failure)


def test_connection_failures_are_categorised():
    with socket.socket() as nobody:     # has the port and does not listen
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/"
        status, head, _, failure = Run(request(url)).end()
        assert status == 1 and head is None and (failure["category"], failure["stage"], failure["retryable"]) == ("connect", "connect", True), failure
    failure = Run(request("http://nohost.invalid/")).end()[3]
    assert (failure["category"], failure["stage"]) == ("dns", "connect"), failure
    with socket.create_server(("127.0.0.1", 0)) as server:
        run = Run(request(f"http://127.0.0.1:{server.getsockname()[1]}/"), b"x")
        client = server.accept()[0]
        client.recv(65536)
        client.close()
        failure = run.end()[3]
        assert (failure["category"], failure["stage"], failure["retryable"]) == ("connect", "request", True), failure
        run = Run(request(f"http://127.0.0.1:{server.getsockname()[1]}/"), b"x")
        client = server.accept()[0]
        client.recv(65536)
        client.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
        client.close()
        failure = run.end()[3]
        assert (failure["category"], failure["retryable"]) == ("protocol", False), failure


def test_endless_response_head_is_rejected():
    with socket.create_server(("127.0.0.1", 0)) as server:
        run = Run(request(f"http://127.0.0.1:{server.getsockname()[1]}/"), b"x")
        client = server.accept()[0]
        client.recv(65536)
        with contextlib.suppress(OSError):
            client.sendall(b"HTTP/1.1 200 OK\r\n" + b"X-Header: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n" * 20000)
        status, head, _, failure = run.end()
        client.close()
        assert status == 1 and head is None and failure["category"] == "protocol", failure


def test_key_files_are_private_and_one_line():
    with Folder() as f, Provider("anthropic", ["yes"] * 3, keys=[KEY]) as p:
        def refused(words, path):
            failure = fails(p, "key", "key", False, keyFile=path)[2]
            assert words in failure["message"], failure

        for mode in (0o644, 0o640, 0o604, 0o610, 0o602):
            refused("chmod 600", f.file("open", KEY, mode))
        refused("No such file", f.path("missing"))
        refused("not a regular file", f.dir.name)
        os.mkfifo(f.path("fifo"), 0o600)
        refused("not a regular file", f.path("fifo"))
        refused("empty", f.file("empty", "\n"))
        refused("one line", f.file("two", KEY + "\n" + KEY + "\n"))
        refused("one line", f.file("space", "sk test"))
        refused("one line", f.file("latin", "sk-tést-0123456789"))
        refused("longer than", f.file("long", "x" * 16385))
        assert not p.requests
        # What is fine: no line feed, a link.
        assert send(p, keyFile=f.file("bare", KEY))[1]["status"] == 200
        os.symlink(f.key, f.path("link"))
        assert send(p, keyFile=f.path("link"))[1]["status"] == 200
        assert send(p, keyFile=f.file("dos", KEY + "\r\n", 0o400))[1]["status"] == 200


def test_key_command_output_is_the_key():
    with Folder() as f, Provider("anthropic", ["yes"] * 3, keys=[KEY]) as p:
        assert send(p, keyCommand=f"cat '{f.key}'")[1]["status"] == 200
        # A process that is left behind delays nothing, and is ended.
        mark = f"mark-{os.getpid()}-left"
        assert send(p, keyCommand=f"MARK={mark} sleep 1000 & cat '{f.key}'")[1]["status"] == 200
        until("it has ended", lambda: not marked(mark))
        for words, command in (("status 3", "echo secret-output; exit 3"), ("signal 9", "kill -9 $$"), ("empty", "true"), ("longer than", "yes x | tr -d '\\n'"), ("one line", "echo a b")):
            failure = fails(p, "key", "key", False, keyCommand=command)[2]
            assert words in failure["message"] and "secret-output" not in failure["message"], failure
        assert len(p.requests) == 2


def test_hanging_key_command_is_killed():
    mark = f"mark-{os.getpid()}-hangs"
    with Provider("anthropic", []) as p:
        failure = fails(p, "key", "key", False, keyCommand=f"MARK={mark} sleep 1000")[2]
        assert "10 seconds" in failure["message"], failure
        until("it has ended", lambda: not marked(mark))


def test_a_key_that_cannot_be_handed_over_is_an_error():
    """The first send of this program asks the process that reads the key, the second one is the answer."""
    with Folder() as f:
        through = os.path.join(BUILD, "nth"), f.path("nth"), f"model sendto 2 fail {errno.ENOBUFS}", "--"
        status, _, _, failure = Run(request("http://127.0.0.1:1/", keyFile=f.key), through=through).end()
        with open(f.path("nth")) as report:
            assert "fired " in report.read()
        assert status == 1 and (failure["category"], failure["stage"]) == ("key", "key") and "has ended" in failure["message"], failure


def test_a_key_command_ends_with_the_process():
    mark = f"mark-{os.getpid()}-killed"
    run = Run(request("http://127.0.0.1:1/", keyCommand=f"MARK={mark} sleep 1000"))
    until("it runs", lambda: marked(mark))
    run.process.kill()
    run.end()
    until("it has ended", lambda: not marked(mark))


def test_an_expired_key_is_read_again_once():
    old, new = "sk-old-0123456789abcdef", "sk-new-0123456789abcdef"
    with Folder() as f, Provider("anthropic", ["welcome"], keys=[new]) as p:
        command = f"if [ -e {f.path('first')} ]; then echo {new}; else touch {f.path('first')}; echo {old}; fi"
        status, head, body, failure = send(p, keyCommand=command)
        assert status == 0 and head["status"] == 200 and failure is None, (head, failure)
        assert [(r.key, r.status) for r in p.requests] == [(old, 401), (new, 200)]
        assert p.requests[0].raw == p.requests[1].raw and b"authentication_error" not in body
    with Folder(old) as f, Provider("anthropic", [], keys=[new]) as p:
        # The same key again: the rejection is the response.
        status, head, body, failure = send(p, keyFile=f.key)
        assert status == 0 and head["status"] == 401 and b"invalid x-api-key" in body and len(p.requests) == 1, (head, body)
        # Another wrong one: not a third time.
        command = f"echo x >>{f.path('count')}; echo sk-$(wc -l <{f.path('count')})-0123456789abcdef"
        status, head, _, _ = send(p, keyCommand=command)
        assert status == 0 and head["status"] == 401 and len(p.requests) == 3, head
        with open(f.path("count")) as lines:
            assert len(lines.readlines()) == 2
        # It cannot be read a second time.
        failure = fails(p, "key", "key", False, keyCommand=f"rm {f.key} && echo {old}")[2]
        assert "rejected" in failure["message"] and "status 1" in failure["message"], failure


def test_a_key_that_is_echoed_is_redacted():
    escaped = KEY.replace("/", "\\/").replace("=", "\\u003d")
    step = {"text": "your key:", "echo_key": True}
    answers = [{"status": 400, "echo_key": True}, step, dict(step, split=1), dict(step, split=3), {"text": escaped, "piece": 100, "split": 2}]
    with Folder() as f, Provider("anthropic", answers, keys=[KEY]) as p:
        for _ in answers:
            run = Run(request(p.url + "/messages", keyFile=f.key), json.dumps(BODY).encode())
            status, head, body, failure = run.end()
            told = json.dumps(head) + body.decode()
            assert status == 0 and KEY not in told and escaped not in told and "0123456789" not in told and "[redacted]" in told, told
            assert failure is None
        assert not p.unscripted
    # The key of a local server may be an ordinary word.
    with Folder("ollama") as f, Provider("anthropic", ["an ollama"], keys=["ollama"]) as p:
        assert b"an ollama" in send(p, keyFile=f.key)[2]


def test_key_is_not_in_arguments_or_environment():
    with Folder() as f, Provider("anthropic", [{"text": "x", "gated": True}], keys=[KEY]) as p:
        run = Run(request(p.url + "/messages", keyFile=f.key), json.dumps(BODY).encode())
        p.wait(lambda _: p.requests)
        at = f"/proc/{run.process.pid}/"
        for name in ("cmdline", "environ"):
            with contextlib.suppress(PermissionError), open(at + name, "rb") as file:
                assert KEY.encode() not in file.read(), name
        with open(at + "status") as file:
            state = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
        sanitized = "asan" in BUILD or "tsan" in BUILD
        assert state["NoNewPrivs"] == "1" and (sanitized or state["Seccomp"] == "2"), state
        p.release(100)
        assert run.end()[0] == 0


def test_failure_is_reported_without_landlock():
    status, head, _, failure = Run(request("http://127.0.0.1:1/"), through=kernel_without("landlock_create_ruleset")).end()
    assert status == 1 and head is None and failure["category"] == "connect", failure


def test_bodies_of_several_megabytes():
    words = "".join(f"{i:07d} " for i in range(1 << 20))    # 8 MiB
    body = dict(BODY, messages=[{"role": "user", "content": words}])
    with Folder() as f, Provider("anthropic", [{"text": words, "piece": 100000}, {"text": words, "piece": 5000, "split": 4093}], keys=[KEY]) as p:
        for _ in range(2):
            status, _, out, failure = send(p, body, keyFile=f.key)
            assert status == 0 and failure is None, failure
            events = [json.loads(line[6:]) for line in out.decode().splitlines() if line.startswith("data: ")]
            assert "".join(e["delta"].get("text", "") for e in events if e["type"] == "content_block_delta") == words
        assert p.requests[0].raw == json.dumps(body).encode()


def test_slow_reader_does_not_cause_a_timeout():
    with Provider("anthropic", [{"text": "x" * 300000, "piece": 1000}]) as p:
        run = Run(request(p.url + "/messages", dict(PATIENT, idleMs=1500, silentMs=1500)), json.dumps(BODY).encode())
        p.wait(lambda _: p.requests and p.requests[0].done.is_set())    # all is sent, and more than the pipe holds
        sent = time.monotonic()
        until("the limit has passed", lambda: time.monotonic() > sent + 2)
        assert run.end()[0] == 0


def test_program_exits_when_its_reader_closes_the_pipe():
    with Provider("anthropic", [{"text": "x" * 300000, "piece": 1000}]) as p:
        run = Run(request(p.url + "/messages"), json.dumps(BODY).encode())
        run.process.stdout.readline()
        run.process.stdout.close()
        assert run.process.wait(PATIENCE) == 1 and b"reader has gone" in run.process.stderr.read()
        run.process.stderr.close()


def test_killing_the_program_closes_the_connection():
    for sig in (signal.SIGKILL, signal.SIGTERM):
        with Folder() as f, Provider("anthropic", [{"text": "hello", "gate_after": 2}], keys=[KEY]) as p:
            mark = f"mark-{os.getpid()}-{sig}"
            run = Run(request(p.url + "/messages", keyFile=f.key), json.dumps(BODY).encode(), env={"MARK": mark})
            assert json.loads(run.process.stdout.readline())["status"] == 200   # written at once, before the response has ended
            assert run.process.stdout.readline() == b"event: message_start\n"
            run.process.send_signal(sig)
            assert p.requests[0].aborted.wait(PATIENCE)
            assert run.end(head_was_read=True)[0] == -sig
            until("the reader of the key has ended", lambda: not marked(mark))


def test_events_are_written_as_they_arrive():
    with Provider("anthropic", [{"text": "abc", "piece": 1, "gated": True}]) as p:
        run = Run(request(p.url + "/messages"), json.dumps(BODY).encode())
        assert json.loads(run.process.stdout.readline())["status"] == 200
        for name in (b"message_start", b"content_block_start", b"ping", b"content_block_delta"):
            p.release()
            assert run.process.stdout.readline() == b"event: " + name + b"\n"
            run.process.stdout.readline(), run.process.stdout.readline()
        p.release(100)
        assert run.end(head_was_read=True)[0] == 0


def test_tls_is_verified():
    with Folder() as f:
        context, cert, _ = certificate(f)
        with Provider("anthropic", ["secret"] * 2, keys=[KEY], tls=context) as p:
            status, head, body, failure = send(p, keyFile=f.key, caFile=cert)
            assert status == 0 and head["status"] == 200 and b"secret" in body, failure
            failure = fails(p, "tls", "connect", False, keyFile=f.key)[2]
            assert "certificate" in failure["message"], failure
            for path, words in ((f.file("none.pem", ""), "empty"), (f.path("missing"), "No such file"), (f.file("bad.pem", "nonsense"), "")):
                failure = fails(p, "tls", "connect", False, keyFile=f.key, caFile=path)[2]
                assert words in failure["message"], failure
            run = Run(request(p.url.replace("localhost", "127.0.0.1") + "/messages", keyFile=f.key, caFile=cert), json.dumps(BODY).encode())
            status, _, _, failure = run.end()     # the certificate is for another name
            assert status == 1 and failure["category"] == "tls", failure
            assert len(p.requests) == 1


def test_http_2_is_supported():
    server = """
        const http2 = require('node:http2'), fs = require('node:fs');
        const s = http2.createSecureServer({ key: fs.readFileSync(process.argv[1]), cert: fs.readFileSync(process.argv[2]), allowHTTP1: false });
        s.on('stream', (stream, headers) => {
          let n = 0;
          stream.on('error', () => {});
          stream.on('data', (d) => (n += d.length));
          stream.on('end', () => {
            stream.respond({ ':status': 200, 'content-type': 'text/event-stream', 'x-got': String(n), 'x-key': headers['x-api-key'] });
            for (let i = 0; i < 3000; i++) stream.write(`data: ${i} ${headers['x-api-key']}\\n\\n`);
            if (headers[':path'] === '/cut') return stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);
            stream.end('data: end\\n\\n');
          });
        });
        s.listen(0, '127.0.0.1', () => console.log(s.address().port));
        process.stdin.on('end', () => process.exit(0)).resume();
    """
    with Folder() as f:
        _, cert, key = certificate(f)
        node = subprocess.Popen([npm.node(20), "-e", server, key, cert], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            origin = f"https://localhost:{int(node.stdout.readline())}"
            status, head, body, failure = Run(request(origin + "/x", keyFile=f.key, caFile=cert), b"y" * 3000000).end()
            assert status == 0 and head["headers"]["x-got"] == "3000000" and head["headers"]["x-key"] == "[redacted]", (head, failure)
            assert body.count(b"[redacted]") == 3000 and KEY.encode() not in body and body.endswith(b"data: end\n\n"), body[-100:]
            status, head, body, failure = Run(request(origin + "/cut", keyFile=f.key, caFile=cert), b"y").end()
            assert status == 1 and (failure["category"], failure["retryable"]) == ("connect", True), failure
        finally:
            node.communicate()


def test_invalid_input_names_the_member():
    url = "http://127.0.0.1:1/"
    rows = (("", "JSON object"), ("[]", "JSON object"), ("{", "JSON object"), ('{"url":"x"}{}', "JSON object"), ({}, "url"), ({"url": "ftp://x/"}, "url"), ({"url": 7}, "url"),
            ({"url": "http://a:b@x/"}, "no user or password"), ({"url": "http://x/\r\nX: y"}, "url"), ({"url": url, "headers": []}, "headers"), ({"url": url, "headers": {"a b": "c"}}, "a b"),
            ({"url": url, "headers": {"a": "b\r\nc: d"}}, "'a'"), ({"url": url, "headers": {"a": 1}}, "'a'"), ({"url": url, "keyFile": "/x"}, "keyHeader"),
            ({"url": url, "keyHeader": "a b", "keyFile": "/x"}, "keyHeader"), ({"url": url, "keyHeader": "a", "keyFile": "/x", "keyCommand": "x"}, "keyCommand"),
            ({"url": url, "keyHeader": "a", "headers": {"A": "b"}}, "header of the key"), ({"url": url, "keyHeader": "a", "keyFile": "/x\0y"}, "keyFile"),
            ({"url": url, "timeouts": 5}, "timeouts"), ({"url": url, "timeouts": {"idleMs": 0}}, "idleMs"), ({"url": url, "timeouts": {"totalMs": 10**9}}, "totalMs"),
            ({"url": url, "timeouts": {"connectMs": "1s"}}, "connectMs"), ({"url": url, "headers": {f"h{i}": "x" for i in range(65)}}, "more than 64"),
            ({"url": "http://" + "x" * (300 << 10)}, "line of JSON"))
    for line, words in rows:
        status, head, _, failure = Run(line if isinstance(line, str) else json.dumps(line), b"body").end()
        assert status == 2 and head is None and failure["category"] == "input" and words in failure["message"], (line if len(line) < 300 else "long", failure)
    done = subprocess.run([MODEL], stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode == 2 and b"line of JSON" in done.stderr


def test_requests_work_in_a_sandbox_through_its_proxy():
    with network_home() as home, Folder() as f, Provider("anthropic", ["out there"] * 3, keys=[KEY]) as p:
        context, cert, _ = certificate(f)
        key = os.path.join(home.work, "key")
        with open(key, "w") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(KEY)

        def inside(url, hosts, **more):
            line = request(url + "/messages", keyFile=key, direct=False, **more)
            done = home.cli("run", *allow(*hosts), "--ro", MODEL, "--ro", cert, "--", MODEL, cwd=home.work, stdin=line.encode() + b"\n" + json.dumps(BODY).encode(), status=None)
            head, _, body = done.out.partition(b"\n")
            failures = [json.loads(text) for text in done.err.decode().splitlines() if text.startswith("{")]
            return done.status, head, body, failures[0] if failures else done.err

        where = f"127.0.0.1:{p.port}"
        status, head, body, failure = inside(p.url, [where])
        assert status == 0 and json.loads(head)["status"] == 200 and b"out there" in body, (status, head, failure)
        status, _, _, failure = inside(p.url, ["good.test:1"])
        assert status == 1 and (failure["category"], failure["retryable"]) == ("proxy", False) and f"denied: connect {where}" in failure["message"], failure
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            port = nobody.getsockname()[1]
            status, _, _, failure = inside(f"http://127.0.0.1:{port}", [f"127.0.0.1:{port}"])
            assert status == 1 and (failure["category"], failure["stage"], failure["retryable"]) == ("connect", "connect", True), failure
            assert failure["message"] == f"connect 127.0.0.1:{port}: Connection refused", failure
        status, _, _, failure = inside("http://nohost.invalid", ["nohost.invalid:80"])
        assert status == 1 and (failure["category"], failure["stage"], failure["retryable"]) == ("dns", "connect", True), failure
        with Provider("anthropic", ["encrypted"], keys=[KEY], tls=context) as q:
            status, head, body, failure = inside(q.url, [f"localhost:{q.port}"], caFile=cert)
            assert status == 0 and b"encrypted" in body, (status, failure)


if __name__ == "__main__":
    harness.main(globals())
