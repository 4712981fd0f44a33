"""Hooks of type http: input and response are those of command hooks, sent to a URL through the proxy of a sandbox."""

import contextlib
import http.server
import json
import os
import socket
import ssl
import subprocess
import threading

import harness
from harness import Skip, valid
from hooks import Hooked, denied, hooks_of, run_turn


class Server(http.server.ThreadingHTTPServer):
    """Records requests and sends the configured responses."""
    daemon_threads = True

    def __init__(self, where="127.0.0.1"):
        super().__init__((where, 0), Handler)
        self.seen, self.status, self.answer, self.headers, self.lock = [], 200, b"", {}, threading.Lock()

    @property
    def port(self):
        return self.server_address[1]

    def says(self, status=200, headers=None, **answer):
        self.status, self.answer, self.headers = status, json.dumps(answer).encode() if answer else b"", headers or {}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.seen.append((self.path, dict(self.headers), body))
        answer = self.server.answer
        if callable(answer):
            answer = answer(json.loads(body))
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(answer)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def server(**more):
    s = Server(**more)
    thread = threading.Thread(target=s.serve_forever, daemon=True)
    thread.start()
    try:
        yield s
    finally:
        s.shutdown()
        s.server_close()


def web(url, matcher=None, **more):
    group = {"hooks": [dict({"type": "http", "url": url}, **more)]}
    if matcher is not None:
        group["matcher"] = matcher
    return group


def decides(decision, reason="says the server"):
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason}}


def test_response_of_the_server_decides():
    with server() as s, Hooked({"PreToolUse": [web(f"http://127.0.0.1:{s.port}/check?key=secret-in-the-query", "Bash")]}) as home, home.rpc() as rpc:
        assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0  # an empty response counts as no answer
        (path, headers, body), = s.seen
        assert path == "/check?key=secret-in-the-query" and headers["Content-Type"] == "application/json", (path, headers)
        said = json.loads(body)
        assert said["hook_event_name"] == "PreToolUse" and said["tool_name"] == "Bash" and said["tool_input"]["command"] == "true", said
        s.says(**decides("deny"))
        error = denied(rpc, home, "true")
        assert "says the server" in error.message and f"POST http://127.0.0.1:{s.port}/check" in error.message, error.message
        s.says(**decides("ask"))
        assert rpc.call("start_process", command=["true"], cwd=home.work)["status"] == "waiting_permission"
        s.says(hookSpecificOutput={"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": {"command": "touch instead"}})
        assert rpc.run("touch asked-for", cwd=home.work)[1]["exitCode"] == 0
        assert home.text("instead") == "" and home.text("asked-for") is None
        # It is a process of its own, in a sandbox that reaches this host alone and sees nothing of the project.
        hook = hooks_of(rpc, "hook.started")[0]["payload"]
        applied, = [e["payload"] for e in rpc.events() if e["type"] == "sandbox.applied" and e["processId"] == hook["processId"]]
        profile = applied["sandboxProfile"]
        assert profile["network"] == "allow" and profile["allowedHosts"] == [f"127.0.0.1:{s.port}"] and not profile["writeRoots"], profile
        assert "secret-in-the-query" not in json.dumps(rpc.events())
        valid(home, rpc)


def test_invalid_or_missing_response_denies():
    with server() as s, Hooked({"PreToolUse": [web(f"http://localhost:{s.port}/")]}) as home, home.rpc() as rpc:
        assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0
        for status in (404, 500, 302):
            s.says(status, headers={"Location": f"http://localhost:{s.port}/elsewhere"}, **decides("allow"))
            assert f"HTTP {status}" in denied(rpc, home, "true").message
        assert "/elsewhere" not in [path for path, _, _ in s.seen]
        s.says()
        s.answer = b"{ this is not"
        assert "not valid JSON" in denied(rpc, home, "true").message
        s.answer = b"x" * (2 << 20)
        assert "too long" in denied(rpc, home, "true").message
        s.says()
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # takes connections and never answers
        port = deaf.getsockname()[1]
        with Hooked({"PreToolUse": [web(f"http://127.0.0.1:{port}/", timeout=0.5)]}) as home, home.rpc() as rpc:
            assert "in time" in denied(rpc, home, "true").message
            assert hooks_of(rpc, "hook.failed")[0]["payload"]["category"] == "timeout"
            home.policy({"hooks": {"PreToolUse": [web(f"http://127.0.0.1:{port}/", timeout=0.5, onFailure="allow")]}})
            rpc.call("reload_policy")
            assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0
    with socket.socket() as nobody:     # has the port, so that no other test gets it, and does not listen
        nobody.bind(("127.0.0.1", 0))
        with Hooked({"PreToolUse": [web(f"http://127.0.0.1:{nobody.getsockname()[1]}/")]}) as home, home.rpc() as rpc:
            denied(rpc, home, "true")
            valid(home, rpc)


def test_headers_expand_only_allowed_variables():
    headers = {"Authorization": "Bearer $TOKEN", "X-More": "a ${TOKEN} b ${OTHER}$OTHER $ $9 ${ c", "X-Empty": "$OTHER", "X-Literal": "literal-secret"}
    with server() as s:
        with Hooked({"PreToolUse": [web(f"http://localhost:{s.port}/", headers=headers, allowedEnvVars=["TOKEN"])]}) as home, home.rpc() as rpc:
            assert rpc.run(["true"], cwd=home.work, env={"TOKEN": "s3cret-value", "OTHER": "not-for-hooks"})[1]["exitCode"] == 0
            _, got, body = s.seen[-1]
            assert got["Authorization"] == "Bearer s3cret-value", got
            assert got["X-More"] == "a s3cret-value b  $ $9 ${ c" and got["X-Empty"] == "", got
            assert b"s3cret-value" not in body and b"not-for-hooks" not in body
            told = json.dumps(rpc.events())
            assert "s3cret-value" not in told and "literal-secret" not in told
            # This would inject a second header.
            denied(rpc, home, "true", env={"TOKEN": "a\r\nX-Evil: 1"})
            assert all("X-Evil" not in h for _, h, _ in s.seen)


def test_http_hooks_work_at_prompt_post_and_stop_points():
    with server() as s:
        url = f"http://localhost:{s.port}"
        hooks = {"UserPromptSubmit": [web(url + "/prompt")], "PostToolUse": [web(url + "/after", "Bash")], "Stop": [web(url + "/stop")]}
        with Hooked(hooks) as home, home.rpc() as rpc:
            s.answer = lambda v: b"some context" if v["hook_event_name"] == "UserPromptSubmit" else b""
            turn = rpc.call("submit_turn", input=[{"type": "text", "text": "hello"}], options={"cwd": home.work})
            resolved, = [e for e in rpc.events() if e["type"] == "context.resolved" and e.get("turnId") == turn["turnId"]]
            assert rpc.output(resolved["payload"]["refs"]["hookContext"][0]) == b"some context"
            s.answer = lambda v: json.dumps({"decision": "block", "reason": "not yet"}).encode() if v["hook_event_name"] == "Stop" else b""
            assert "not yet" in rpc.fails("complete_turn", turnId=turn["turnId"], code=-32015).message
            # A failure there delays no request.
            s.says(500)
            assert rpc.call("complete_turn", turnId=turn["turnId"])["status"] == "completed"
            s.says()
            assert run_turn(rpc, home, {"type": "command", "commandLine": "true"})["type"] == "turn.completed"
            assert {path for path, _, _ in s.seen} == {"/prompt", "/after", "/stop"}
            valid(home, rpc)


def test_https_certificate_is_verified():
    with server() as s, Hooked({}) as home, home.rpc() as rpc:
        key, cert = os.path.join(home.dir, "key.pem"), os.path.join(home.dir, "cert.pem")
        try:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                            "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            raise Skip("no openssl")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        s.socket = context.wrap_socket(s.socket, server_side=True)
        home.policy({"hooks": {"PreToolUse": [web(f"https://localhost:{s.port}/")]}})
        rpc.call("reload_policy")
        assert "certificate" in denied(rpc, home, "true").message  # self-signed: the authority is unknown
        assert not s.seen


def test_invalid_http_hooks_are_reported_by_lint():
    rows = (({"url": "x"}, "url must begin"), ({"url": "http://"}, "url"), ({"url": "http://*.test/"}, "one host"), ({"url": "http://10.0.0.0/8"}, None),
            ({"url": "http://a:b@x/"}, "no user or password"), ({"url": "http://x/ y"}, "characters"), ({}, "url must be"), ({"url": 7}, "url must be"),
            ({"url": "http://x/", "headers": []}, "headers must be"), ({"url": "http://x/", "headers": {"a b": "c"}}, "not a valid header name"),
            ({"url": "http://x/", "headers": {"a": "b\nc"}}, "one line"), ({"url": "http://x/", "allowedEnvVars": ["BAILIFF_HOOK_URL"]}, "a hook may read"))
    with Hooked({}) as home, home.rpc() as rpc:
        for members, words in rows:
            home.policy({"hooks": {"PreToolUse": [{"hooks": [dict(members, type="http")]}]}})
            done = home.cli("policy", "lint", os.path.join(home.dir, "policy.json"), status=None)
            assert (done.status != 0 and words.encode() in done.out) if words else done.status == 0, (members, done.out)
        # A repository's file sends nothing anywhere.
        home.policy({})
        os.makedirs(home.made(".bailiff"))
        with open(home.made(".bailiff/policy.json"), "w") as f:
            json.dump({"hooks": {"PostToolUse": [web("http://localhost:1/")]}}, f)
        error = rpc.fails("start_process", command=["true"], cwd=home.work, code=-32010)
        assert "have no network" in error.message, error.message


if __name__ == "__main__":
    harness.main(globals())
