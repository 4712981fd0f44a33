"""A logged-in page of the console, without a browser."""

import base64
import http.client
import json
import threading

from harness import PATIENCE

PAGE = {"X-Bailiff": "1"}


class Page:
    """One session: its cookie, calls and streams."""

    def __init__(self, serve, role=None, code=None):
        self.serve = serve
        self.cookie, self.key = log_in(serve, code or code_of(serve, role))

    @property
    def headers(self):
        return {"X-Bailiff": self.key, "Cookie": self.cookie}

    def ask(self, method, path, body=None, headers=None, **more):
        """(status, headers, body) with the session's headers; a value of None leaves one out."""
        sent = {k: v for k, v in dict(self.headers, **(headers or {}), **more).items() if v is not None}
        return self.serve.ask(method, path, json.dumps(body) if isinstance(body, (dict, list)) else body, sent, token=False)

    def reply(self, method, params=None):
        status, _, body = self.ask("POST", "/api/call", {"method": method, "params": params or {}})
        return status, json.loads(body)

    def call(self, method, **params):
        status, reply = self.reply(method, params)
        assert status == 200 and "result" in reply, (method, status, reply)
        return reply["result"]

    def stream(self, after=None):
        return EventStream(self, after)


class EventStream:
    """The frames of GET /api/stream, read by a thread of their own."""

    def __init__(self, page, after=None, read=True):
        self.page = page
        self.connection = http.client.HTTPConnection(page.serve.host, page.serve.port, timeout=PATIENCE)
        self.connection.request("GET", "/api/stream" + ("" if after is None else f"?after={after}"), headers=page.headers)
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, (self.answer.status, self.answer.read())
        self.frames, self.changed, self.ended = [], threading.Condition(), False
        self.thread = threading.Thread(target=self.read, daemon=True)
        if read:
            self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.sock and self.connection.sock.shutdown(2)
        if self.thread.is_alive():
            self.thread.join()
        self.answer.close()
        self.connection.close()

    def read(self):
        frame = {}
        try:
            while True:
                line = self.answer.readline().decode()
                if not line:
                    break
                line = line.rstrip("\n")
                if line:
                    name, _, value = line.partition(": ")
                    frame[name] = value
                elif "data" in frame:
                    with self.changed:
                        self.frames.append((frame["event"], frame.get("id"), json.loads(frame["data"])))
                        self.changed.notify_all()
                    frame = {}
                else:
                    frame = {}
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def of(self, kind):
        with self.changed:
            return [data for name, _, data in self.frames if name == kind]

    def until(self, what, condition):
        """Waits until condition() is true, which is checked after each frame; returns its value."""
        with self.changed:
            found = self.changed.wait_for(lambda: condition() or self.ended, PATIENCE)
            value = condition()
            assert found and value, (what, [f[0] for f in self.frames[-20:]], self.ended)
            return value

    def hello(self):
        return self.until("the stream begins", lambda: self.of("hello"))[0]

    def sequences(self):
        return [e["sequence"] for e in self.of("event")]

    def event(self, kind, **members):
        return self.until(kind, lambda: [e for e in self.of("event") if e["type"] == kind and all(e.get(k) == v for k, v in members.items())])[0]

    def watch(self, process, **more):
        return self.page.ask("POST", "/api/watch", dict({"stream": self.hello()["stream"], "processId": process, "on": True}, **more))

    def output(self, process, name="stdout"):
        """(offset of the first byte, bytes), without gaps and duplicates."""
        first, data = None, b""
        for frame in self.of("output"):
            if (frame["processId"], frame["stream"]) == (process, name):
                first = frame["offset"] if first is None else first
                assert frame["offset"] == first + len(data), frame["offset"]
                data += base64.b64decode(frame["data"])
        return first, data


def console_token(serve):
    """The header with the token of the console, which is not one of the agents' tokens."""
    if not hasattr(serve, "console"):
        serve.console = serve.home.cli("serve", "--print-token", "--client", "console").text.strip()
    return {"Authorization": f"Bearer {serve.console}"}


def code_of(serve, role=None):
    status, headers, body = serve.ask("POST", "/api/code", json.dumps({"role": role} if role else {}), dict(PAGE, **console_token(serve)))
    assert status == 200 and headers["Cache-Control"] == "no-store", (status, body)
    return json.loads(body)["code"]


def log_in(serve, code):
    """The cookie, as a browser would send it, and the key."""
    status, headers, body = serve.ask("POST", "/api/login", json.dumps({"code": code}), PAGE, token=False)
    assert status == 200, (status, body)
    cookie, *attributes = headers["Set-Cookie"].split("; ")
    assert attributes == ["HttpOnly", "SameSite=Strict", "Path=/api/"] and cookie.startswith(f"bailiff_console_{serve.port}="), headers["Set-Cookie"]
    return cookie, json.loads(body)["key"]
