"""`bailiff serve` for tests, and a client of it that can also misbehave."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess

from harness import CLI, PATIENCE, environment, until

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
META = "io.modelcontextprotocol/"
BOTH = "application/json, text/event-stream"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class Serve:
    """One `bailiff serve` on a free port, in a home of the harness."""

    def __init__(self, home, *options, address="0", program=CLI):
        self.home = home
        self.log = open(os.path.join(home.dir, "serve.log"), "ab")
        self.process = home.cli_start("serve", "--listen", address, *options, stdout=subprocess.PIPE, stderr=self.log,
                                      program=program, env=environment(BAILIFF_HOME=home.dir, BAILIFF_MCP_HUMAN_MS="0"))
        line = self.process.stdout.readline().decode()
        found = re.match(r"listening on http://([^/]+):(\d+)/mcp$", line.strip())
        assert found, f"it said {line!r}; " + self.said()
        self.host, self.port = found.group(1).strip("[]"), int(found.group(2))
        path = options[options.index("--token-file") + 1] if "--token-file" in options else os.path.join(home.dir, "http-token")
        with open(path) as f:
            self.token = f.read().strip()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            print("".join(f"# serve: {line}\n" for line in self.said().splitlines()[-20:]), end="")
        try:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
            status = self.process.wait(PATIENCE)
            assert kind or status == 0, f"bailiff serve left with {status}: {self.said()}"
        finally:
            with contextlib.suppress(OSError):
                self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.log.close()

    def said(self):
        with open(os.path.join(self.home.dir, "serve.log"), errors="replace") as f:
            return f.read()

    def headers(self, **more):
        return {"Authorization": f"Bearer {self.token}", **{k.replace("_", "-"): v for k, v in more.items()}}

    def ask(self, method, path, body=None, headers=None, token=True):
        """(status, headers, body) over a connection of its own."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body=body, headers=dict(self.headers() if token else {}, **(headers or {})))
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def raw(self, data=b""):
        sock = socket.create_connection((self.host, self.port), timeout=PATIENCE)
        sock.sendall(data)
        return sock

    # ---- MCP ----

    def post(self, message, session=None, stream=False, **headers):
        """A message; the answer's status, headers and JSON (None for no body). stream: the Stream itself."""
        head = {"Content-Type": "application/json", "Accept": BOTH, **{k.replace("_", "-"): v for k, v in headers.items()}}
        if session:
            head.update({"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY})
        answer = Stream(self, "POST", message if isinstance(message, bytes) else json.dumps(message).encode(), {k: v for k, v in head.items() if v is not None})
        if stream:
            return answer
        with answer:
            return answer.status, answer.headers, answer.last()

    def initialize(self, version=LEGACY, **capabilities):
        status, headers, answer = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"}}})
        assert status == 200 and answer["result"]["protocolVersion"] == version, (status, answer)
        session = headers["Mcp-Session-Id"]
        status, _, _ = self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
        assert status == 202, status
        return session

    def get(self, session, after=None):
        head = {"Accept": "text/event-stream", "Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY}
        return Stream(self, "GET", None, dict(head, **({"Last-Event-ID": after} if after else {})))

    def modern(self, method, params=None, id=1, stream=False, capabilities=None, **headers):
        params = dict(params or {})
        params["_meta"] = {META + "protocolVersion": MODERN, META + "clientCapabilities": capabilities or {}, **params.get("_meta", {})}
        head = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        name = params.get("name", params.get("uri", params.get("taskId")))
        if name:
            head["Mcp-Name"] = name
        return self.post({"jsonrpc": "2.0", "id": id, "method": method, "params": params}, stream=stream,
                         **{k.replace("-", "_"): v for k, v in dict(head, **headers).items()})

    def tool(self, session, name, id=1, stream=False, **arguments):
        return self.post({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}}, session, stream)

    def metric(self, name):
        status, _, body = self.ask("GET", "/metrics")
        assert status == 200, status
        for line in body.decode().splitlines():
            if line.split(" ")[0] == name:
                return float(line.split(" ")[1])
        raise AssertionError(f"no {name} in:\n{body.decode()}")


class Stream:
    """An answer that may be JSON or server-sent events: events() yields (id, data) as they come."""

    def __init__(self, serve, method, body, headers):
        self.connection = http.client.HTTPConnection(serve.host, serve.port, timeout=PATIENCE)
        self.connection.request(method, "/mcp", body=body, headers=dict(serve.headers(), **headers))
        self.answer = self.connection.getresponse()
        self.status, self.headers = self.answer.status, self.answer.headers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.answer.close()
        self.connection.close()

    @property
    def is_events(self):
        return self.headers.get("Content-Type", "").startswith("text/event-stream")

    def events(self):
        assert self.is_events, (self.status, self.headers.items(), self.answer.read())
        name, data = None, []
        while True:
            line = self.answer.readline()
            if not line:
                return
            line = line.decode().rstrip("\n")
            if line.startswith("id:"):
                name = line[3:].strip()
            elif line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
            elif not line and data:
                yield name, "\n".join(data)
                name, data = None, []

    def messages(self):
        for _, data in self.events():
            if data:
                yield json.loads(data)

    def last(self):
        """The response itself: the JSON body, or the last event of the stream."""
        if not self.is_events:
            body = self.answer.read()
            return json.loads(body) if body else None
        found = None
        for found in self.messages():
            pass
        return found


def text_of(answer):
    return "".join(c.get("text", "") for c in answer["result"]["content"])


def gone(sock):
    """The other side has closed it."""
    sock.settimeout(0.01)
    try:
        return sock.recv(1 << 16) == b""
    except (socket.timeout, BlockingIOError):
        return False
    except ConnectionError:
        return True


def wait_gone(sock, what):
    until(what, lambda: gone(sock))
