"""The bus of a fleet without libnats: what a stranger could send, and what the server says of its streams."""

import base64
import hashlib
import json
import socket

import harness


class Bus:
    """A client of the bus that follows no rule of bailiff's."""

    def __init__(self, url):
        host, port = url.removeprefix("nats://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=harness.PATIENCE)
        self.file = self.socket.makefile("rb")
        self.file.readline()
        self.send(b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def request(self, subject, data=b""):
        self.send(b"SUB _INBOX.test 1\r\nUNSUB 1 1\r\nPUB %s _INBOX.test %d\r\n%s\r\n" % (subject.encode(), len(data), data))
        while True:
            words = self.file.readline().split()
            if words and words[0] == b"PING":
                self.send(b"PONG\r\n")
            elif words and words[0] in (b"MSG", b"HMSG"):
                size = int(words[-1])
                return self.file.read(size + 2)[:size]

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
