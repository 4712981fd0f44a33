"""A raw MCP client on `bailiff mcp`: JSON lines, both eras, no implicit messages."""

import json
import os
import queue
import subprocess
import threading

import harness

META = "io.modelcontextprotocol/"
LEGACY = "2025-11-25"
MODERN = "2026-07-28"


class McpError(Exception):
    def __init__(self, error):
        super().__init__(json.dumps(error))
        self.code, self.message, self.data = error["code"], error["message"], error.get("data")


class Mcp:
    """One gateway process. Requests may be pipelined; notifications are kept in `notes` (requests of the server in `asked`)."""

    verb = "mcp"

    def __init__(self, home, *options, cwd=None, env=None, program=harness.CLI):
        self.process = subprocess.Popen([program, self.verb, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        cwd=cwd or home.work, env=harness.environment(BAILIFF_HOME=home.dir, **{"BAILIFF_MCP_HUMAN_MS": "0", **(env or {})}))
        self.lines, self.next_id = queue.Queue(), 0
        self.replies, self.notes, self.asked, self.odd, self.meta = {}, [], [], [], None
        self.stderr = b""
        self.hearing = threading.Event() # cleared: nothing more is read
        self.hearing.set()
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._complain, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
            self.hearing.wait()
        self.lines.put(None)

    def _complain(self):
        self.stderr = self.process.stderr.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Closes its stdin and waits; the exit status."""
        self.hearing.set()
        if not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        return self.process.wait(harness.PATIENCE)

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def write(self, message):
        self.raw(json.dumps(message).encode() + b"\n")

    def send(self, method, params=None, **more):
        self.next_id += 1
        message = {"jsonrpc": "2.0", "id": self.next_id, "method": method}
        params = dict(params or {}, **more)
        if self.meta is not None:
            params["_meta"] = dict(self.meta, **params.get("_meta", {}))
        if params:
            message["params"] = params
        self.write(message)
        return self.next_id

    def notify(self, method, **params):
        self.write({"jsonrpc": "2.0", "method": method, "params": params} if params else {"jsonrpc": "2.0", "method": method})

    def answer(self, request, result):
        self.write({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def pump(self, patience=None):
        """Takes one message; False when none came in time."""
        try:
            line = self.lines.get(timeout=harness.PATIENCE if patience is None else patience)
        except queue.Empty:
            return False
        if line is None:
            raise harness.Gone(self.stderr.decode("utf-8", "replace"))
        message = json.loads(line)
        assert message.get("jsonrpc") == "2.0", message
        if "method" in message and "id" in message:
            self.asked.append(message)
        elif "method" in message:
            self.notes.append(message)
        elif message.get("id") in range(1, self.next_id + 1):
            assert message["id"] not in self.replies, f"answered twice: {message}"
            self.replies[message["id"]] = message
        else:
            self.odd.append(message)
        return True

    def reply(self, request, patience=None):
        while request not in self.replies:
            assert self.pump(patience), f"no reply to request {request}"
        message = self.replies.pop(request)
        if "error" in message:
            raise McpError(message["error"])
        return message["result"]

    def call(self, method, params=None, **more):
        return self.reply(self.send(method, params, **more))

    def fails(self, method, params=None, code=None, **more):
        try:
            result = self.call(method, params, **more)
        except McpError as e:
            assert code is None or e.code == code, f"{method}: expected {code}, got {e}"
            return e
        raise AssertionError(f"{method} should fail; it answered {json.dumps(result)[:300]}")

    def request(self, patience=None):
        """The next request of the server."""
        while not self.asked:
            assert self.pump(patience), "the server asks nothing"
        return self.asked.pop(0)

    def note(self, method, patience=None):
        """The params of the next notification of this method."""
        while True:
            for i, note in enumerate(self.notes):
                if note["method"] == method:
                    return self.notes.pop(i).get("params", {})
            assert self.pump(patience), f"no {method} came"

    def initialize(self, version=LEGACY, **capabilities):
        result = self.call("initialize", protocolVersion=version, capabilities=capabilities, clientInfo={"name": "raw", "version": "1"})
        self.notify("notifications/initialized")
        return result

    def modern(self, **capabilities):
        """From now on every request is a modern one."""
        self.meta = {META + "protocolVersion": MODERN, META + "clientInfo": {"name": "raw", "version": "1"}, META + "clientCapabilities": capabilities}
        return self

    def tool(self, tool, arguments=None, **more):
        return self.call("tools/call", name=tool, arguments=dict(arguments or {}, **more))


def text_of(result):
    return "".join(c["text"] for c in result["content"] if c["type"] == "text")


def alive(pid):
    return os.path.exists(f"/proc/{pid}")
