"""What the tests of network `allow` share: servers of their own, on the loopback device, and raw conversations with the proxy.

Names come from the daemon's configuration (proxyHosts), never from the machine's files.
"""

import base64
import contextlib
import hashlib
import http.server
import json
import shutil
import socket
import ssl
import threading

import harness
from harness import Home, Skip

PORT = 61080
NAMES = {"good.test": "127.0.0.1", "other.test": "127.0.0.1", "metadata.test": "169.254.169.254", "mapped.test": "::ffff:127.0.0.1",
         "private.test": "10.9.8.7", "zero.test": "0.0.0.0", "six.test": "::1", "link.test": "fe80::1", "dead.test": "127.0.0.1",
         "web.test": "127.77.0.1"}


# ---- servers ----

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status=200, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def note(self):
        with self.server.lock:
            self.server.seen.append((self.command, self.path, self.headers.get("Host")))
            self.server.keys.append((self.path, self.headers.get_all("X-Key")))

    def do_GET(self):
        self.note()
        if self.path.startswith("/redirect?"):
            return self.answer(302, Location=self.path.partition("?")[2])
        if self.path.startswith("/bytes/"):
            self.send_response(200)
            count = int(self.path.rpartition("/")[2])
            self.send_header("Content-Length", str(count))
            self.end_headers()
            while count:
                part = min(count, 65536)
                try:
                    self.wfile.write(b"x" * part)
                except OSError:
                    return None
                count -= part
            return None
        body = self.server.files.get(self.path.partition("?")[0])
        if body is None:
            return self.answer(404, b"not here\n")
        return self.answer(200, body, Content_Type="text/html" if self.path.endswith("/") else "application/octet-stream")

    def do_POST(self):
        self.note()
        length, body = self.headers.get("Content-Length"), b""
        if length is not None:
            body = self.rfile.read(int(length))
        elif self.headers.get("Transfer-Encoding") == "chunked":
            while True:
                size = int(self.rfile.readline().strip().partition(b";")[0], 16)
                body += self.rfile.read(size)
                self.rfile.readline()
                if not size:
                    break
        self.answer(200, hashlib.sha256(body).hexdigest().encode() + b" %d\n" % len(body))

    do_PUT = do_POST

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, files=None, tls=None, address="127.0.0.1"):
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, 0), Handler)
        self.files, self.seen, self.keys, self.lock = dict({"/": b"index\n", "/hello": b"hello\n"}, **(files or {})), [], [], threading.Lock()
        self.port = self.server_address[1]
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        pass


def network_home():
    return Home(config={"proxyHosts": NAMES})


def allow(*hosts):
    return [word for host in hosts for word in ("--allow-host", host)]


def need(*tools):
    missing = [t for t in tools if not shutil.which(t, path=harness.PATH)]
    if missing:
        raise Skip(f"{', '.join(missing)} is not installed")


def violations(home, process):
    with home.rpc() as rpc:
        return [e["payload"] for e in rpc.events(processId=process, types=["sandbox.violation"])]


def last_process(home):
    with home.rpc() as rpc:
        return rpc.events(types=["process.started"])[-1]["processId"]


def ended(home, process):
    with home.rpc() as rpc:
        return rpc.events(processId=process, types=["process.completed", "process.failed", "process.terminated"])[-1]["payload"]


# ---- raw conversations ----

# Connects to the proxy for each job, sends its parts, and prints all answers: [[parts, wait for bytes between?]…] as JSON.
TALK = r'''
import base64, json, socket, sys
out = []
for parts in json.load(sys.stdin):
    s = socket.create_connection(("127.0.0.1", 61080), 50)
    said = b""
    try:
        for part in parts:
            if part is None:
                said += s.recv(65536)
            else:
                s.sendall(base64.b64decode(part))
        while True:
            more = s.recv(65536)
            if not more:
                break
            said += more
    except OSError as e:
        said += b" <" + type(e).__name__.encode() + b">"
    s.close()
    out.append(base64.b64encode(said).decode())
print(json.dumps(out))
'''


def talk(home, hosts, *jobs):
    """Each job: parts to send; None waits for an answer first. The answers, and the process."""
    text = json.dumps([[p if p is None else base64.b64encode(p).decode() for p in job] for job in jobs]).encode()
    done = home.cli("run", *allow(*hosts), "--", "/usr/bin/python3", "-c", TALK, stdin=text)
    return [base64.b64decode(a) for a in json.loads(done.text.splitlines()[-1])], last_process(home), done.err.decode()


def get(host, path="/hello", header=None, extra=""):
    return f"GET http://{host}{path} HTTP/1.1\r\nHost: {header or host}\r\n{extra}\r\n".encode()


def connect(host, header=None):
    return f"CONNECT {host} HTTP/1.1\r\nHost: {header or host}\r\n\r\n".encode()


def origin(host, path="/hello"):
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()


def client_hello(name):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    got, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    side = context.wrap_bio(got, sent, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        side.do_handshake()
    return sent.read()
