"""The bus of a fleet without libnats: what a stranger could send, and what the server says of its streams."""

import base64
import hashlib
import json
import socket

import harness


class Denied(Exception):
    """The server says that this user may not."""


class Bus:
    """A client of the bus that follows no rule of bailiff's. With a key it authenticates: an object with public and sign(bytes)."""

    def __init__(self, url, key=None):
        host, port = url.removeprefix("nats://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=harness.PATIENCE)
        self.file = self.socket.makefile("rb")
        info = json.loads(self.file.readline().removeprefix(b"INFO "))
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
        self.inbox = "_INBOX.test"
        if key:
            options.update(nkey=key.public, sig=base64.urlsafe_b64encode(key.sign(info["nonce"].encode())).decode().rstrip("="))
            self.inbox = f"_INBOX.{key.public}.test"
        self.send(b"CONNECT %s\r\n" % json.dumps(options).encode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def receive(self):
        """The next message. What the server denies before is an error; None if it has answered a ping before."""
        while True:
            line = self.file.readline()
            words = line.split()
            if not line:
                raise EOFError("the server closed the connection")
            if words and words[0] == b"PING":
                self.send(b"PONG\r\n")
            elif words and words[0] == b"PONG":
                return None
            elif words and words[0] == b"-ERR":
                raise Denied(line.decode().strip())
            elif words and words[0] in (b"MSG", b"HMSG"):
                size = int(words[-1])
                self.asked_by = words[3]    # if it is a request
                return self.file.read(size + 2)[:size]

    def request(self, subject, data=b"", reply=None):
        """The answer, or with `reply` as the address of the answer nothing."""
        reply = reply or self.inbox
        own = reply == self.inbox
        self.send((b"SUB %s 1\r\nUNSUB 1 1\r\n" % reply.encode() if own else b"") + b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), reply.encode(), len(data), data)
                  + (b"" if own else b"PING\r\n"))
        return self.receive()

    def subscribe(self, subject):
        """Raises Denied."""
        self.send(b"SUB %s 2\r\nPING\r\n" % subject.encode())
        assert self.receive() is None

    def answer(self, data):
        """To the request that was received last."""
        self.send(b"PUB %s %d\r\n%s\r\n" % (self.asked_by, len(data), data))

    def document(self, task):
        """The stored text of a task."""
        answer = json.loads(self.request("$JS.API.STREAM.MSG.GET.KV_bailiff_tasks", json.dumps({"last_by_subj": f"$KV.bailiff_tasks.{task}"}).encode()))
        return json.loads(base64.b64decode(answer["message"]["data"]))

    def overwrite(self, task, document):
        return json.loads(self.request(f"$KV.bailiff_tasks.{task}", json.dumps(document).encode()))

    def enqueue(self, task):
        """A message for a task that needs nothing in particular."""
        return json.loads(self.request(f"bailiff.queue.{hashlib.sha256(b'{}').hexdigest()[:16]}.5.{task}", task.encode()))

    def queued(self):
        return json.loads(self.request("$JS.API.STREAM.INFO.bailiff_queue"))["state"]["messages"]
