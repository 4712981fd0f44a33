#!/usr/bin/python3
"""A model provider for tests: one of four dialects over HTTP, answering by a script, and as strict as the real one.

    provider.py --dialect anthropic|openai-responses|openai-chat|gemini --script FILE [--port 0] [--key KEY] [--repeat]

prints its base URL. FILE is JSON, a list of steps, or Python with a function reply(request). GET /_requests lists what was received, POST /_release lets
gated streams go on by one event. Importers use `with Provider(dialect, script) as p:` and p.url, p.requests, p.violations, p.release().

Each request is checked against the provider's rules (required members, order, pairs of calls and results, signatures) and gets the provider's 400 if it
violates one, which p.violations records. Otherwise it takes the next step. A step is a text, a function of the request that returns a step, or an object:

    text, reasoning, calls: [{name, arguments, id?, raw?}], stop                 an answer; `raw` replaces the JSON text of the arguments
    usage: {input, output, cached, written, reasoning} | "missing"               otherwise estimated, with a simulated prompt cache
    status, message, code, type, headers, retry_after, retry_delay, echo_key     an error; echo_key: the message repeats the key
    error_body                                                                   an error in the body of a 200
    piece: N                                                                     characters of a delta
    split: N                                                                     bytes of a chunk, regardless of events and characters
    pace: S                                                                      seconds before each event
    gated: true | gate_after: N                                                  every event, or those after the first N, wait for release()
    cut_after: N | cut_after_events: N, cut: "broken" | "eof" | "reset"          the connection breaks; "eof": the stream ends without its end
    stall: "head" | stall_after: N                                               silence, before the head or after N bytes, until the client leaves
    silent: true | silent_after: N                                               only keep-alives (after N events), until the client leaves
    comments: true                                                               a keep-alive before each event
    drop_terminal: true                                                          without the events that end the answer
    error_after: N                                                               an error event after N events, then the end
    malformed_after: N                                                           an event that is not JSON
    close: true                                                                  the body ends with the connection, without length or chunks

Any step may have `headers`. Quirks of one dialect are in its module.
"""

import argparse
import collections
import http.server
import itertools
import json
import os
import runpy
import select
import socket
import struct
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from wire import Problem, compact, event                # noqa: E402
from wire_anthropic import Anthropic                    # noqa: E402
from wire_chat import Chat                              # noqa: E402
from wire_gemini import Gemini                          # noqa: E402
from wire_responses import Responses                    # noqa: E402

DIALECTS = {d.name: d for d in (Anthropic(), Responses(), Chat(), Gemini())}
PATIENCE = 60   # of a test that waits for the fake
BODY_MAX = 64 << 20


class Gone(Exception):
    """The client has closed the connection."""


class Request:
    """A request as it came; with `dialect`'s view of it for scripts that react."""

    def __init__(self, provider, handler, raw):
        split = urllib.parse.urlsplit(handler.path)
        self.dialect = provider.dialect
        self.method, self.path, self.raw = handler.command, split.path, raw
        self.query = dict(urllib.parse.parse_qsl(split.query))
        self.headers = {k.lower(): v for k, v in handler.headers.items()}
        self.key = self.dialect.key(self.headers, self.query)
        self.number = 0
        self.body = None
        self.model = None
        self.stream = False
        self.status = None          # of the response
        self.violation = None       # the rule that it breaks
        self.aborted = threading.Event()    # the client left before the response ended
        self.done = threading.Event()

    def parse(self, known):
        try:
            self.body = json.loads(self.raw)
        except ValueError:
            raise Problem("We could not parse the JSON body of your request.") from None
        if not isinstance(self.body, dict):
            raise Problem("The body of the request must be an object.")
        self.model = known.get("model") or self.body.get("model")
        self.stream = known.get("stream", bool(self.body.get("stream")))

    results = property(lambda self: self.dialect.results(self.body))
    texts = property(lambda self: self.dialect.texts(self.body))
    system = property(lambda self: self.dialect.system(self.body))
    tools = property(lambda self: self.dialect.tools(self.body))


def check(dialect, body, headers=None, model=None):
    """The rule of a dialect that a request breaks, or None. For checkers of histories."""
    request = collections.namedtuple("Checked", "body headers model")(body, headers or {"anthropic-version": "2023-06-01"}, model or body.get("model", "gemini-3-fake"))
    try:
        DIALECTS[dialect].check(request)
    except Problem as p:
        return p.message
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except (ConnectionError, Gone, ValueError, OSError):
            pass

    # ---- reading ----

    def read_body(self):
        if "chunked" in (self.headers.get("transfer-encoding") or ""):
            out = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                out += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return out
        return self.rfile.read(min(int(self.headers.get("content-length") or 0), BODY_MAX))

    def do_GET(self):
        provider = self.server.provider
        if self.path == "/_requests":
            return self.send_json(200, [{"path": r.path, "headers": r.headers, "body": r.body, "status": r.status, "violation": r.violation, "aborted": r.aborted.is_set()} for r in provider.requests])
        if self.path.rstrip("/") == provider.dialect.base + "/models":
            name = "models" if provider.dialect.name == "gemini" else "data"
            return self.send_json(200, {"object": "list", name: [{"id": "fake-1", "name": "models/fake-1", "object": "model"}]})
        return self.send_json(404, provider.dialect.error(404, f"Not found: {self.path}", {}))

    def do_POST(self):
        provider, raw = self.server.provider, self.read_body()
        if self.path == "/_release":
            provider.release()
            return self.send_json(200, {})
        request = Request(provider, self, raw)
        try:
            self.answer(provider, request)
        except (ConnectionError, Gone):
            request.aborted.set()
            self.close_connection = True
        finally:
            request.done.set()
            provider.notify()

    def answer(self, provider, request):
        known = provider.dialect.paths(request.path)
        counting = request.path in ("/v1/messages/count_tokens",)
        try:
            if known is None and not counting:
                raise Problem(f"Not found: {request.path}", 404)
            request.parse(known or {})
            if counting:
                return self.send_json(200, {"input_tokens": len(request.raw) // 4})
            provider.admit(request)
        except Problem as p:
            if known is None:
                provider.keep(request)
            request.status = p.status
            return self.send_json(p.status, provider.dialect.error(p.status, p.message, p.more), provider.dialect.headers(request, {"input": 0}))
        step = provider.next_step(request)
        self.perform(provider, request, step, provider.usage(request, step))

    # ---- answering ----

    def send_json(self, status, body, headers=None):
        data = compact(body).encode()
        self.start(status, dict({"content-type": "application/json", "content-length": str(len(data))}, **headers or {}))
        self.wfile.write(data)

    def start(self, status, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def perform(self, provider, request, step, usage):
        dialect = provider.dialect
        headers = dict(dialect.headers(request, usage), **step.get("headers", {}))
        if "retry_after" in step:
            headers["retry-after"] = str(step["retry_after"])
        if step.get("stall") == "head":
            self.wait_for_end()
        status = step.get("status", 200)
        request.status = status
        message = step.get("message", "the script wants this error")
        if step.get("echo_key"):
            message += f" {request.key} "
            headers["x-echo"] = request.key
        if status >= 300 or step.get("error_body"):
            return self.send_json(status, dialect.error(step.get("error_status", status), message, step), headers)
        if not request.stream:
            return self.send_json(status, dialect.whole(request, step, usage), headers)
        headers["content-type"] = "text/event-stream" if dialect.name == "gemini" else "text/event-stream; charset=utf-8"
        headers["cache-control"] = "no-cache"
        self.closing = bool(step.get("close"))
        if self.closing:
            headers["connection"] = "close"
            self.close_connection = True
        else:
            headers["transfer-encoding"] = "chunked"
        self.start(status, headers)
        self.send_stream(provider, request, step, usage)

    def events(self, request, step, usage):
        """The events of the answer as the step wants them; None stands for a gate, an Exception class for what happens there."""
        dialect = self.server.provider.dialect
        echo = f" {request.key}" if step.get("echo_key") else ""
        if echo:
            step = dict(step, text=(step.get("text") or "") + echo, piece=1 << 20)
        for n, (data, end) in enumerate(dialect.stream(request, step, usage)):
            if n == step.get("error_after"):
                yield from dialect.stream_error(step, n)
                return
            if n == step.get("malformed_after"):
                yield event("{not json")
            if n == step.get("cut_after_events") or (end and step.get("drop_terminal")):
                return
            if n == step.get("silent_after") or step.get("silent"):
                while True:
                    yield dialect.keep_alive(step)
                    self.wait_for_end(0.02)
            if step.get("pace"):
                time.sleep(step["pace"])
            if step.get("gated") or n >= step.get("gate_after", 1 << 30):
                yield None
            yield (dialect.keep_alive(step) if step.get("comments") else b"") + data

    def send_stream(self, provider, request, step, usage):
        limit = min(step.get("cut_after", 1 << 62), step.get("stall_after", 1 << 62))
        sent = 0
        for data in self.events(request, step, usage):
            if data is None:
                provider.wait_at_gate(self)
                continue
            size = step.get("split") or len(data)
            for i in range(0, len(data), size):
                part = data[i:i + size][:limit - sent]
                if part:
                    self.send_chunk(part)
                sent += len(part)
                if sent >= limit:
                    break
            if sent >= limit:
                break
        if "stall_after" in step:
            self.wait_for_end()
        kind = step.get("cut") or ("broken" if "cut_after" in step else "eof")
        if kind == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if kind != "eof":
            self.close_connection = True
        elif not self.closing:
            self.wfile.write(b"0\r\n\r\n")

    def send_chunk(self, data):
        self.wfile.write(data if self.closing else b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def wait_for_end(self, seconds=None):
        """Until the client closes the connection, which it does not survive; or for some seconds."""
        if select.select([self.connection], [], [], seconds)[0]:
            raise Gone

    def closed(self):
        return bool(select.select([self.connection], [], [], 0)[0])


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    context = None

    def finish_request(self, request, client_address):
        if self.context:    # here, so that a handshake that fails or stalls concerns only its connection
            try:
                request = self.context.wrap_socket(request, server_side=True)
            except OSError:
                return
        super().finish_request(request, client_address)
        if self.context:
            request.close()

    def handle_error(self, request, client_address):
        pass


class Provider:
    """A fake provider on the loopback device. keys: the valid ones; None = any, () = none is needed. tls: an ssl.SSLContext."""

    def __init__(self, dialect, script, keys=None, tls=None, port=0, repeat=False, host="127.0.0.1"):
        self.dialect = DIALECTS[dialect]
        self.script = script
        self.steps = None if callable(script) else iter(itertools.cycle(script) if repeat else script)
        self.keys = keys
        self.requests, self.violations, self.unscripted = [], [], []
        self.parts = []
        self.changed = threading.Condition()
        self.tokens = 0
        self.server = Server((host, port), Handler)
        self.server.provider = self
        self.server.context = tls
        self.port = self.server.server_port
        self.origin = f"{'https' if tls else 'http'}://{'localhost' if tls else host}:{self.port}"
        self.url = self.origin + self.dialect.base
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.release(1 << 30)

    def notify(self):
        with self.changed:
            self.changed.notify_all()

    def wait(self, condition, patience=PATIENCE):
        """Until condition(self) holds; it is checked whenever something happens here."""
        with self.changed:
            if not self.changed.wait_for(lambda: condition(self), patience):
                raise AssertionError(f"not in {patience} s; requests: {[(r.path, r.status) for r in self.requests]}")

    def keep(self, request):
        with self.changed:
            self.requests.append(request)
            request.number = len(self.requests)
            self.changed.notify_all()

    def admit(self, request):
        """Records the request and checks it: its key, then the rules."""
        self.keep(request)
        name = self.dialect.name
        if self.keys != () and not request.key:
            raise Problem({"anthropic": "x-api-key header is required", "gemini": "Method doesn't allow unregistered callers (callers without established identity)."}
                          .get(name, "Missing bearer or basic authentication in header"), 403 if name == "gemini" else 401)
        if self.keys and request.key not in self.keys:
            raise Problem({"anthropic": "invalid x-api-key", "gemini": "API key not valid. Please pass a valid API key."}
                          .get(name, f"Incorrect API key provided: {request.key[:3]}***{request.key[-4:]}."), 400 if name == "gemini" else 401)
        try:
            self.dialect.check(request)
        except Problem as p:
            request.violation = p.message
            with self.changed:
                self.violations.append(p.message)
            raise

    def next_step(self, request):
        step = self.script if callable(self.script) else None
        if step is None:
            with self.changed:
                step = next(self.steps, None)
        while callable(step):
            step = step(request)
        if step is None:
            self.unscripted.append(request)
            step = {"status": 400, "message": "the script of this fake has ended"}
        if isinstance(step, str):
            step = {"text": step}
        prefix = {"anthropic": "toolu", "gemini": "fc"}.get(self.dialect.name, "call")
        return dict(step, _id=f"{prefix}_{request.number}")

    def usage(self, request, step):
        """Estimated: four bytes a token; what an earlier request began with comes from the cache."""
        with self.changed:
            parts = [compact(p) for p in self.dialect.cached_parts(request.body)]
            common = max((sum(1 for _ in itertools.takewhile(lambda ab: ab[0] == ab[1], zip(parts, old))) for old in self.parts), default=0)
            self.parts.append(parts)
        total = len(request.raw) // 4 + 1
        cached = min(sum(len(p) for p in parts[:common]) // 4, total) if common > 2 else 0
        thought = len(step.get("reasoning") or "") // 4
        said = len(step.get("text") or "") + sum(len(compact(c.get("arguments", {}))) for c in step.get("calls") or [])
        usage = {"input": total, "cached": cached, "written": total - cached if parts else 0, "reasoning": thought, "output": said // 4 + 1 + thought}
        usage.update(step["usage"] if isinstance(step.get("usage"), dict) else {})
        return usage

    # ---- gates ----

    def release(self, n=1):
        """Lets n events of gated streams pass."""
        with self.changed:
            self.tokens += n
            self.changed.notify_all()

    def wait_at_gate(self, handler):
        with self.changed:
            while not self.changed.wait_for(lambda: self.tokens > 0, 0.05):
                if handler.closed():
                    raise Gone
            self.tokens -= 1


def read_script(path):
    if path.endswith(".py"):
        return runpy.run_path(path)["reply"]
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def main():
    parser = argparse.ArgumentParser(description="A model provider for tests.")
    parser.add_argument("--dialect", required=True, choices=DIALECTS)
    parser.add_argument("--script", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key", action="append")
    parser.add_argument("--repeat", action="store_true", help="begin again after the last step")
    o = parser.parse_args()
    with Provider(o.dialect, read_script(o.script), keys=o.key, port=o.port, repeat=o.repeat) as p:
        print(p.url, flush=True)
        try:
            p.thread.join()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
