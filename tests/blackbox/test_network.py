#!/usr/bin/python3
"""Network `allow`: what is named is reached through the proxy, by the tools that people use; nothing else is, by no trick.

Servers are this program's own, on the loopback device; names come from the daemon's configuration (proxyHosts), never from
the machine's files.
"""

import base64
import contextlib
import hashlib
import http.server
import io
import json
import os
import shutil
import socket
import ssl
import subprocess
import tarfile
import threading
import time
import zipfile

import harness
from harness import Home, RpcError, Skip, until

PORT = 61080
NAMES = {"good.test": "127.0.0.1", "other.test": "127.0.0.1", "metadata.test": "169.254.169.254", "mapped.test": "::ffff:127.0.0.1",
         "private.test": "10.9.8.7", "zero.test": "0.0.0.0", "six.test": "::1", "link.test": "fe80::1", "dead.test": "127.0.0.1"}


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
        self.files, self.seen, self.lock = dict({"/": b"index\n", "/hello": b"hello\n"}, **(files or {})), [], threading.Lock()
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
    s = socket.create_connection(("127.0.0.1", 61080), 20)
    said = b""
    try:
        for part in parts:
            if part is None:
                said += s.recv(65536)
            else:
                s.sendall(base64.b64decode(part))
        s.settimeout(5)
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


# ---- tools ----

def test_curl_and_wget():
    need("curl", "wget")
    with network_home() as home, Server() as server:
        where, named = f"good.test:{server.port}", f"127.0.0.1:{server.port}"
        url = f"http://{where}/hello"
        for tool in (["curl", "-sSf"], ["curl", "-sSfp"], ["curl", "-sSf", "--socks5-hostname", f"127.0.0.1:{PORT}"], ["wget", "-qO-"]):
            assert home.cli("run", *allow(where, named), "--", *tool, url).text == "hello\n", tool
        for tool in (["curl", "-sS"], ["curl", "-sSp"], ["wget", "-O-"]):
            done = home.cli("run", *allow(where, named), "--", *tool, f"http://other.test:{server.port}/hello", status=None)
            assert f"bailiff: denied: connect other.test:{server.port} (not in the allowed hosts)" in done.err.decode(), done.err
            assert f"--allow-host other.test:{server.port}" in done.err.decode()
            assert b"hello" not in done.out
            if tool[-1] != "-sS":
                assert done.status != 0 and "403" in done.err.decode(), (tool, done.status, done.err)
        assert all(host == where for _, _, host in server.seen), server.seen
        # Uploads, with their length and in chunks, large enough for every buffer on the way.
        data = os.urandom(3 << 20)
        with open(os.path.join(home.work, "data"), "wb") as f:
            f.write(data)
        said = f"{hashlib.sha256(data).hexdigest()} {len(data)}\n"
        for how in ("--data-binary @data", "-T data", "-T - <data"):
            assert home.cli("run", *allow(where, named), "--", "sh", "-c", f"curl -sSf {how} {url}").text == said, how


def make_repository(home):
    work, bare = os.path.join(home.dir, "origin"), os.path.join(home.dir, "origin.git")
    env = dict(harness.environment(), GIT_CONFIG_NOSYSTEM="1", HOME=home.dir, GIT_AUTHOR_NAME="A", GIT_AUTHOR_EMAIL="a@example.org",
               GIT_COMMITTER_NAME="A", GIT_COMMITTER_EMAIL="a@example.org")
    os.mkdir(work)
    with open(os.path.join(work, "file"), "w") as f:
        f.write("content\n")
    for cwd, args in ((work, ["init", "-q", "-b", "main"]), (work, ["add", "file"]), (work, ["commit", "-qm", "one"]),
                      (home.dir, ["clone", "-q", "--bare", work, bare]), (bare, ["update-server-info"])):
        subprocess.run(["git", *args], cwd=cwd, env=env, check=True)
    return {"/origin.git" + os.path.join(d, f)[len(bare):]: open(os.path.join(d, f), "rb").read() for d, _, files in os.walk(bare) for f in files}


def test_git():
    need("git")
    with network_home() as home, Server() as server:
        server.files.update(make_repository(home))
        where, named = f"good.test:{server.port}", f"127.0.0.1:{server.port}"
        home.cli("run", *allow(where, named), "--", "git", "clone", "-q", f"http://{where}/origin.git", "copy")
        with open(os.path.join(home.work, "copy", "file")) as f:
            assert f.read() == "content\n"
        done = home.cli("run", *allow(named), "--", "git", "clone", "-q", f"http://{where}/origin.git", "again", status=None)
        assert done.status != 0 and f"denied: connect {where} (not in the allowed hosts)" in done.err.decode(), done.err
        assert not os.path.exists(os.path.join(home.work, "again"))


def make_npm_package(where):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in (("package/package.json", json.dumps({"name": "tiny-thing", "version": "1.0.0", "main": "index.js"})),
                           ("package/index.js", "module.exports = 42\n")):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    data = packed.getvalue()
    dist = {"tarball": f"http://{where}/tiny-thing/-/tiny-thing-1.0.0.tgz", "shasum": hashlib.sha1(data).hexdigest(),
            "integrity": "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()}
    about = {"name": "tiny-thing", "dist-tags": {"latest": "1.0.0"},
             "versions": {"1.0.0": {"name": "tiny-thing", "version": "1.0.0", "main": "index.js", "dist": dist}}}
    return {"/tiny-thing": json.dumps(about).encode(), "/tiny-thing/-/tiny-thing-1.0.0.tgz": data}


def test_npm():
    need("npm", "node")
    with network_home() as home, Server() as server:
        where, named = f"good.test:{server.port}", f"127.0.0.1:{server.port}"
        server.files.update(make_npm_package(where))
        script = f"npm install --no-audit --no-fund --no-update-notifier --fetch-retries=0 --registry http://{where}/ tiny-thing >npm.log 2>&1"
        done = home.cli("run", *allow(where, named), "--", "sh", "-c", f"{script} && node -p 'require(\"tiny-thing\")'", status=None, patience=180)
        assert done.text == "42\n", (done.status, done.err, open(os.path.join(home.work, "npm.log")).read()[-2000:])
        shutil.rmtree(os.path.join(home.work, "node_modules"))
        done = home.cli("run", *allow(named), "--", "sh", "-c", script.replace("tiny-thing", "tiny-thing --prefer-online"), status=None, patience=180)
        assert done.status != 0 and f"denied: connect {where} (not in the allowed hosts)" in done.err.decode(), (done.status, done.err)


def make_wheel():
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as z:
        z.writestr("tiny_thing.py", "answer = 42\n")
        z.writestr("tiny_thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n")
        z.writestr("tiny_thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("tiny_thing-1.0.dist-info/RECORD", "tiny_thing.py,,\ntiny_thing-1.0.dist-info/METADATA,,\ntiny_thing-1.0.dist-info/WHEEL,,\n"
                                                      "tiny_thing-1.0.dist-info/RECORD,,\n")
    return wheel.getvalue()


def find_pip():
    for python in ("/usr/bin/python3", shutil.which("python3") or ""):
        if python and subprocess.run([python, "-m", "pip", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
            return python
    raise Skip("pip is not installed")


def test_pip():
    python = find_pip()
    name = "tiny_thing-1.0-py3-none-any.whl"
    with network_home() as home, Server({f"/files/{name}": make_wheel(), "/simple/tiny-thing/": f'<a href="/files/{name}">{name}</a>'.encode()}) as server:
        where, named = f"good.test:{server.port}", f"127.0.0.1:{server.port}"
        def install(hosts, target):
            return home.cli("run", *allow(*hosts), "--", python, "-m", "pip", "install", "-q", "--no-cache-dir", "--retries", "0",
                            "--disable-pip-version-check", "--no-deps", "--target", target, "--trusted-host", "good.test", "--index-url",
                            f"http://{where}/simple/", "tiny-thing", status=None, patience=120)
        done = install((where, named), "lib")
        assert done.status == 0, done.err
        assert os.path.exists(os.path.join(home.work, "lib", "tiny_thing.py"))
        done = install((named,), "no")
        assert done.status != 0 and f"denied: connect {where} (not in the allowed hosts)" in done.err.decode(), done.err


def test_https():
    need("curl", "openssl")
    with network_home() as home:
        key, cert = os.path.join(home.dir, "key.pem"), os.path.join(home.work, "cert.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=good.test",
                        "-addext", "subjectAltName=DNS:good.test,DNS:other.test", "-keyout", key, "-out", cert], check=True,
                       stderr=subprocess.DEVNULL)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(cert, key)
        with Server(tls=tls) as server:
            where, named = f"good.test:{server.port}", f"127.0.0.1:{server.port}"
            curl = ["curl", "-sS", "--cacert", "cert.pem"]
            assert home.cli("run", *allow(where, named), "--", *curl, f"https://{where}/hello").text == "hello\n"
            # The same address, another server's name in TLS: what it is let out for is not what it asks for.
            done = home.cli("run", *allow(where, named), "--", *curl, "--connect-to", f"other.test:{server.port}:{where}",
                            f"https://other.test:{server.port}/hello", status=None)
            assert done.status != 0 and "the TLS server name is another host's" in done.err.decode(), done.err
            # No name at all; only an address that is itself named may go without.
            done = home.cli("run", *allow(where, named), "--", "curl", "-sSk", "--connect-to", f"127.0.0.1:{server.port}:{where}",
                            f"https://127.0.0.1:{server.port}/hello", status=None)
            assert done.status != 0 and "TLS without a server name" in done.err.decode(), done.err
            assert home.cli("run", *allow(where, named), "--", "curl", "-sSk", f"https://{named}/hello").text == "hello\n"
            done = home.cli("run", *allow(where, named), "--", *curl, f"https://other.test:{server.port}/", status=None)
            assert done.status == 56 and "not in the allowed hosts" in done.err.decode(), (done.status, done.err)
            assert {host for _, _, host in server.seen} == {where, named}, server.seen


# ---- facts ----

def test_what_is_told():
    with network_home() as home, Server() as server:
        where, named = f"good.test:{server.port}", f"127.0.0.1:{server.port}"
        jobs = [[get(where)], [get(where)], [get(f"other.test:{server.port}")], [get(f"other.test:{server.port}")], [get("example.org")]]
        said, process, _ = talk(home, (where, named), *jobs)
        assert said[0].endswith(b"hello\n") and said[2].startswith(b"HTTP/1.1 403 "), said
        assert b"bailiff: denied: connect example.org:80 (not in the allowed hosts)" in said[4], said[4]
        told = violations(home, process)
        assert {(v["kind"], v["operation"], v["source"], v["confidence"], v["reason"]) for v in told} == \
            {("network", "connect", "proxy", "exact", "not in the allowed hosts")}, told
        counts = {}
        for v in told:
            counts[v["host"], v["port"]] = counts.get((v["host"], v["port"]), 0) + v["count"]
        assert counts == {("other.test", server.port): 2, ("example.org", 80): 1}, counts
        end = ended(home, process)
        assert end["violationCount"] == 3
        row, = end["network"]
        assert (row["host"], row["port"], row["connections"]) == ("good.test", server.port, 2), row
        assert row["bytesSent"] > 60 and row["bytesReceived"] > 60
        with home.rpc() as rpc:
            for answer in (rpc.wait(process), rpc.call("get_process", processId=process)):
                assert answer["network"] == [row], answer
            assert rpc.wait(process)["violationCount"] == 3
            applied, = rpc.events(processId=process, types=["sandbox.applied"])
            profile = applied["payload"]["sandboxProfile"]
            assert profile["network"] == "allow" and profile["allowedHosts"] == [where, named] and profile["deniedHosts"] == []
            harness.validate(harness.event_validators(), rpc.events(processId=process))
        shown = home.cli("sandbox", "show", process).text
        assert f"allowed    {where} {named}\n" in shown, shown


def test_variables():
    with network_home() as home:
        def variables(*hosts):
            return dict(line.partition("=")[::2] for line in home.cli("run", *allow(*hosts), "--", "env").text.splitlines())
        env = variables("example.com")
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            assert env[name] == f"http://127.0.0.1:{PORT}", name
        assert env["NO_PROXY"] == env["no_proxy"] == "localhost,127.0.0.1,::1"
        assert variables("localhost:8080", "127.0.0.0/8")["NO_PROXY"] == "::1"
        assert not [name for name in variables() if "proxy" in name.lower()]
        assert home.cli("run", "--env", "HTTP_PROXY=mine", *allow("example.com"), "--", "printenv", "HTTP_PROXY").text == "mine\n"


def test_localhost_is_the_hosts_if_it_is_named():
    need("curl")
    with network_home() as home, Server() as server:
        url = f"http://localhost:{server.port}/hello"
        assert home.cli("run", *allow(f"localhost:{server.port}"), "--", "curl", "-sSf", url).text == "hello\n"
        home.cli("run", *allow(f"localhost:{server.port + 1}"), "--", "curl", "-sSf", url, status=22)
        home.cli("run", *allow("*"), "--", "curl", "-sSf", url, status=7)          # the sandbox's own loopback
        home.cli("run", *allow("*"), "--", "curl", "-sSf", "--noproxy", "", url, status=22)
        assert len(server.seen) == 1


def test_agents_may_have_less_but_not_more():
    with network_home() as home, home.rpc() as rpc:
        rpc.call("initialize", role="agent")
        for sandbox in ({"allowHosts": ["good.test"]}, {"network": "allow", "allowHosts": ["good.test"]}, {"network": "host"}):
            error = rpc.fails("start_process", {"command": ["true"], "sandbox": sandbox}, code=-32010)
            assert error.data["permissionDecision"]["decision"] == "deny", error.data


def test_bad_requests_are_explained():
    with network_home() as home, home.rpc() as rpc:
        for sandbox, field in (({"network": "allow"}, "sandbox.allowHosts"), ({"allowHosts": ["http://x/"]}, "sandbox.allowHosts"),
                               ({"network": "none", "allowHosts": ["x"]}, "sandbox.allowHosts"), ({"allowHosts": ["127.1"]}, "sandbox.allowHosts")):
            try:
                rpc.call("get_sandbox", sandbox=sandbox)
                raise AssertionError(f"{sandbox} was accepted")
            except RpcError as e:
                assert e.data.get("field") == field, (sandbox, e.data)


def test_profiles_and_policy():
    with Home(config={"proxyHosts": NAMES}, start=False) as home, Server() as server:
        with open(os.path.join(home.dir, "policy.json"), "w") as f:
            json.dump({"sandbox": {"network": {"allowedDomains": [f"good.test:{server.port}"], "deniedDomains": ["other.test"]}},
                       "profiles": {"web": {"network": {"allow": ["*.test", f"127.0.0.1:{server.port}"], "deny": [f"dead.test:{server.port}"]}}}}, f)
        home.start()
        def status(host, *options):
            script = f"import os,socket; s=socket.create_connection(('127.0.0.1',{PORT})); s.sendall(b'GET http://{host}:{server.port}/hello HTTP/1.0\\r\\n\\r\\n'); print(s.recv(99).split()[1].decode())"
            return home.cli("run", *options, "--", "/usr/bin/python3", "-c", script).text.strip()
        named = allow(f"127.0.0.1:{server.port}")
        assert status("good.test", *named) == "200"
        assert status("good.test", "--profile", "web") == "200"
        assert status("dead.test", "--profile", "web") == "403"
        assert status("other.test", "--profile", "web") == "403"
        assert status("other.test", *named, *allow("other.test")) == "403"  # a request adds nothing to what is denied
        assert home.cli("sandbox", "show", "isolated", "--json").json["sandboxProfile"]["network"] == "none"


# ---- ways around ----

def test_no_way_around_the_proxy():
    """What is not asked of the proxy goes nowhere."""
    program = r'''
import socket, sys
def attempt(name, f):
    try:
        f()
        print(name, "WORKED")
    except OSError as e:
        print(name, type(e).__name__)
def tcp(family, address):
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(3); s.connect(address)
def udp(family, address):
    socket.socket(family, socket.SOCK_DGRAM).sendto(b"x", address)
port = int(sys.argv[1])
for address in ("192.0.2.1", "169.254.169.254", "10.0.0.1", "8.8.8.8"):
    attempt("tcp " + address, lambda: tcp(socket.AF_INET, (address, 80)))
    attempt("udp " + address, lambda: udp(socket.AF_INET, (address, 53)))
for address in ("2001:db8::1", "fe80::1", "fd00:ec2::254"):
    attempt("tcp " + address, lambda: tcp(socket.AF_INET6, (address, 80)))
    attempt("udp " + address, lambda: udp(socket.AF_INET6, (address, 53)))
for address in ("127.0.0.1", "0.0.0.0", "127.1.2.3"):
    attempt("host " + address, lambda: tcp(socket.AF_INET, (address, port)))
for address in ("::1", "::ffff:127.0.0.1"):
    attempt("host " + address, lambda: tcp(socket.AF_INET6, (address, port)))
attempt("name", lambda: socket.getaddrinfo("good.test", 80))
attempt("abstract", lambda: tcp(socket.AF_UNIX, "\0bailiff-test-%d" % port))
attempt("bind", lambda: socket.socket().bind(("127.0.0.1", 61080)))
'''
    with network_home() as home, Server() as server:
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as hidden:
            hidden.bind(f"\0bailiff-test-{server.port}")
            hidden.listen()
            text = home.cli("run", *allow(f"good.test:{server.port}", f"127.0.0.1:{server.port}"), "--", "/usr/bin/python3", "-c", program,
                            str(server.port)).text
        assert len(text.splitlines()) == 22 and "WORKED" not in text, text
        assert not server.seen


def test_names_and_addresses_that_lead_inside():
    with network_home() as home, Server() as server, Server(address="::1") as six:
        p = server.port
        # Every name is allowed here, and addresses of the internet; what is inside must be named as such, and is not.
        inside = ["good.test", "metadata.test", "mapped.test", "private.test", "zero.test", "link.test", "localhost"]
        addresses = ["127.0.0.1", "127.8.8.8", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "169.254.169.254", "10.0.0.1", "192.168.0.1",
                     "172.16.0.1", "100.64.0.1", "[fd00:ec2::254]", "[fe80::1]", "[64:ff9b::7f00:1]", "224.0.0.1", "255.255.255.255"]
        jobs = [[get(f"{host}:{p}")] for host in inside + addresses] + [[connect(f"{host}:{p}")] for host in inside + addresses] + [[connect(f"six.test:{six.port}")]]
        said, process, _ = talk(home, ("*", "0.0.0.0/0", "::/0"), *jobs)
        for job, answer in zip(jobs, said):
            assert answer.startswith(b"HTTP/1.1 403 "), (job, answer)
        told = violations(home, process)
        assert all(v["reason"] == "leads to an address that must be named" for v in told), told
        assert ("metadata.test", "169.254.169.254") in {(v["host"], v.get("address")) for v in told}, told
        assert sum(v["count"] for v in told) == len(jobs), told
        assert not server.seen and not six.seen and "network" not in ended(home, process)
        # An address as such needs a rule of addresses; other ways of writing numbers are no host at all.
        said, process, _ = talk(home, (f"good.test:{p}",), [connect(f"127.0.0.1:{p}")], [connect("8.8.8.8:443")], [connect(f"127.1:{p}")],
                                [connect(f"2130706433:{p}")], [connect(f"0x7f.0.0.1:{p}")], [get(f"good.test:{p}@127.0.0.1:{p}")])
        assert [a.split()[1] for a in said] == [b"403", b"403", b"400", b"400", b"400", b"400"], said
        assert {v["reason"] for v in violations(home, process)} == {"not in the allowed hosts"}
        assert not server.seen


def test_redirects_are_judged_like_everything_else():
    need("curl")
    with network_home() as home, Server() as server:
        where, named = f"good.test:{server.port}", f"127.0.0.1:{server.port}"
        for target, host in (("http://169.254.169.254/latest/", "169.254.169.254"), (f"http://other.test:{server.port}/hello", "other.test"),
                             ("http://metadata.test/", "metadata.test")):
            done = home.cli("run", *allow(where, named), "--", "curl", "-sSfL", f"http://{where}/redirect?{target}", status=22)
            assert f"denied: connect {host}:" in done.err.decode(), done.err
        assert {path.partition("?")[0] for _, path, _ in server.seen} == {"/redirect"}


def test_whom_it_is_meant_for_must_agree():
    """Host, in requests and in tunnels; and what could be read in two ways is read in none."""
    with network_home() as home, Server() as server:
        p = server.port
        where = f"good.test:{p}"
        tunnel = [connect(where), None]
        smuggled = origin(f"other.test:{p}")
        refused = [
            [get(where, header=f"other.test:{p}")],
            [connect(where, header=f"other.test:{p}")],
            [*tunnel, origin(f"other.test:{p}")],
            [*tunnel, b"\r\n" + origin(where)],
            [*tunnel, origin(where).replace(b"\r\n", b"\n")],
            [*tunnel, b"GET /hello HTTP/1.0\r\n\r\n"],
            [*tunnel, f"GET http://other.test:{p}/hello HTTP/1.1\r\nHost: good.test:{p}\r\n\r\n".encode()],
            [*tunnel, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
            # The second request of a tunnel, behind a body, behind chunks.
            [*tunnel, f"GET /hello HTTP/1.1\r\nHost: {where}\r\n\r\n".encode() + smuggled],
            [*tunnel, f"POST / HTTP/1.1\r\nHost: {where}\r\nContent-Length: 3\r\n\r\nabc".encode() + smuggled],
            [*tunnel, f"POST / HTTP/1.1\r\nHost: {where}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".encode() + smuggled],
            [*tunnel, f"POST / HTTP/1.1\r\nHost: {where}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".encode() + smuggled],
            [*tunnel, client_hello("other.test")],
            [*tunnel, client_hello(None)],
            [*tunnel, b"\x16\x03\x01\x40\x00\x01\x00\xff\xff" + bytes(100)],
        ]
        answered = [
            [get(where, extra=f"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n")],
            [get(where, extra=f"Host: other.test:{p}\r\n")],
            [get(where, extra="Content-Length: 1\r\nContent-Length: 2\r\n")],
            [get(where, extra=" folded: line\r\n")],
            [get(where, extra="a" * 40000 + ": b\r\n")],
            [origin(where)],
            [f"GET https://{where}/ HTTP/1.1\r\nHost: {where}\r\n\r\n".encode()],
            [b"\x16\x03\x01\x00\x05hello"],
        ]
        said, process, _ = talk(home, (where, f"other.test:{p + 1}", f"127.0.0.1:{p}"), *refused, *answered)
        for job, answer in zip(refused, said):
            assert b"hello\n" not in answer.partition(b"403 Forbidden")[2] and (b"403 Forbidden" in answer or answer.endswith(b"\x15\x03\x01\x00\x02\x02\x31")), (job, answer[:500])
        for job, answer in zip(answered, said[len(refused):]):
            assert answer.startswith(b"HTTP/1.1 400 "), (job, answer)
        told = violations(home, process)
        assert sum(v["count"] for v in told) == len(refused), told
        assert {v["host"] for v in told} == {"good.test"}
        assert {v["reason"] for v in told} == {"the Host header names another host", "the TLS server name is another host's", "TLS without a server name",
                                               "a request that can be read in two ways"}, told
        assert {host for _, _, host in server.seen} <= {where}, server.seen
        # What agrees goes through, several times on one connection.
        twice = f"GET /hello HTTP/1.1\r\nHost: {where}\r\n\r\n".encode() + origin("GOOD.test.:%d" % p)
        (answer,), _, _ = talk(home, (where, f"127.0.0.1:{p}"), [*tunnel, twice])
        assert answer.count(b"hello\n") == 2, answer


def test_socks():
    def ask(kind, address, port, command=1):
        return b"\5\1\0" + bytes([5, command, 0, kind]) + address + port.to_bytes(2, "big")
    def name(text):
        return bytes([len(text)]) + text.encode()
    with network_home() as home, Server() as server:
        p = server.port
        where = f"good.test:{p}"
        jobs = [
            [ask(3, name("good.test"), p), None, origin(where)],
            [ask(1, bytes([127, 0, 0, 1]), p), None, origin(f"127.0.0.1:{p}")],
            [ask(3, name("other.test"), p)],
            [ask(1, bytes([127, 0, 0, 2]), p)],
            [ask(4, socket.inet_pton(socket.AF_INET6, "::1"), p)],
            [ask(4, socket.inet_pton(socket.AF_INET6, "::ffff:127.0.0.2"), p)],
            [ask(3, name("metadata.test"), 80)],
            [ask(3, name("good.test"), p, command=2)],
            [ask(3, name("good.test"), p, command=3)],
            [b"\5\1\2" + ask(3, name("good.test"), p)[3:]],
            [ask(3, name("good.test"), p), None, origin(f"other.test:{p}")],
            [b"\4\1\0\x50\x7f\0\0\1user\0"],
        ]
        said, process, _ = talk(home, (where, f"127.0.0.1:{p}", "metadata.test"), *jobs)
        assert said[0].startswith(b"\5\0\5\0\0\1") and said[0].endswith(b"hello\n"), said[0]
        assert said[1].endswith(b"hello\n"), said[1]
        for answer in said[2:7]:
            assert answer == b"\5\0\5\2\0\1" + bytes(6), answer
        for answer in said[7:9]:
            assert answer.startswith(b"\5\0\5\7"), answer
        assert said[9] == b"\5\xff", said[9]
        assert b"403 Forbidden" in said[10] and b"hello" not in said[10], said[10]
        assert said[11].startswith(b"HTTP/1.1 400") or not said[11].strip() or b"<" in said[11], said[11]
        assert sum(v["count"] for v in violations(home, process)) == 6


def test_other_protocols_pass_but_not_on_ports_of_the_web():
    with network_home() as home, contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]

        def serve():
            for _ in range(2):
                client, _ = listening.accept()
                client.sendall(b"220 ready\r\n")  # the server speaks first
                client.sendall(b"you said " + client.recv(100))
                client.close()
        threading.Thread(target=serve, daemon=True).start()
        where = f"good.test:{port}"
        said, _, _ = talk(home, (where, f"127.0.0.1:{port}"), [connect(where), None, b"EHLO me\r\n"], [connect(where), None, b"\0\0\0\x08binary"])
        assert said[0].endswith(b"220 ready\r\nyou said EHLO me\r\n"), said
        assert said[1].endswith(b"you said \0\0\0\x08binary"), said


# ---- limits ----

def test_large_and_slow():
    """The proxy holds little, however much goes through it and however slowly it is read."""
    program = f'''
import socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096); s.connect(("127.0.0.1", {PORT}))
s.sendall(sys.argv[1].encode() + b"\\r\\nHost: " + sys.argv[2].encode() + b"\\r\\n\\r\\n")
print(s.recv(10), flush=True)
sys.stdin.readline()
total = 10
while True:
    n = len(s.recv(1 << 20))
    if not n: break
    total += n
print(total, flush=True)
'''
    size = 256 << 20
    with network_home() as home, Server() as server, home.rpc() as rpc:
        where = f"good.test:{server.port}"
        started = rpc.start(["/usr/bin/python3", "-c", program, f"GET http://{where}/bytes/{size} HTTP/1.1", where], stdin="pipe",
                            sandbox={"allowHosts": [where, f"127.0.0.1:{server.port}"]})
        process = started["processId"]
        until("the answer begins", lambda: b"HTTP" in rpc.outputs(process)["stdout"])
        time.sleep(0.5)   # what would be taken in if nothing held it back
        with open(f"/proc/{home.part('proxy')}/status") as f:
            rss = int([line for line in f if line.startswith("VmRSS")][0].split()[1])
        assert rss < 64 << 10, f"the proxy has {rss} KiB"
        rpc.call("write_process_stdin", processId=process, data="\n")
        end = rpc.wait(process)
        assert end["exitCode"] == 0 and int(rpc.outputs(process)["stdout"].split()[-1]) > size, rpc.outputs(process)
        assert end["network"][0]["bytesReceived"] > size


def test_one_sandbox_does_not_keep_others_out():
    """Connections past the limit of one sandbox wait; another's do not notice."""
    program = f'''
import socket
held = [socket.create_connection(("127.0.0.1", {PORT})) for _ in range(380)]
for s in held[:300]: s.sendall(b"GET http")
print("held", flush=True)
input()
'''
    with network_home() as home, Server() as server, home.rpc() as rpc:
        where = f"good.test:{server.port}"
        hosts = {"allowHosts": [where, f"127.0.0.1:{server.port}"]}
        process = rpc.start(["/usr/bin/python3", "-c", program], stdin="pipe", sandbox=hosts)["processId"]
        until("they are held", lambda: b"held" in rpc.outputs(process)["stdout"])
        proxy = home.part("proxy")
        until("the proxy holds as many as it takes", lambda: os.geteuid() != 0 or len(os.listdir(f"/proc/{proxy}/fd")) > 256)
        assert os.geteuid() != 0 or len(os.listdir(f"/proc/{proxy}/fd")) < 290
        (answer,), _, _ = talk(home, hosts["allowHosts"], [get(where)])
        assert answer.endswith(b"hello\n"), answer
        rpc.call("write_process_stdin", processId=process, data="\n")
        assert rpc.wait(process)["exitCode"] == 0


# ---- the process itself ----

def test_the_proxy_has_nothing_to_gain():
    with network_home() as home:
        assert home.part("proxy") is None   # nobody has wanted it
        with home.rpc() as rpc:
            process = rpc.start(["sleep", "60"], sandbox={"allowHosts": ["good.test"]})["processId"]
            pid = until("the proxy runs", lambda: home.part("proxy"))
            until("it has confined itself", lambda: "Seccomp:\t2" in open(f"/proc/{pid}/status").read())
            status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status").read().splitlines())
            assert status["CapEff"].strip() == status["CapPrm"].strip() == "0000000000000000" and status["NoNewPrivs"].strip() == "1"
            uid = int(status["Uid"].split()[0])
            if os.geteuid() == 0:
                assert uid not in (0, int(open(f"/proc/{home.part('runtime')}/status").read().split("Uid:")[1].split()[0])), uid
                assert status["CapBnd"].strip() == "0000000000000000"
            rpc.call("terminate_process", processId=process)


def test_restarts():
    """A killed proxy, runtime or spawner: sandboxes that live on reach what they did before."""
    program = f'''
import socket, sys
for line in sys.stdin:
    try:
        s = socket.create_connection(("127.0.0.1", {PORT}), 30); s.settimeout(30)
        s.sendall(line.strip().encode().decode("unicode_escape").encode())
        said = b""
        while True:
            more = s.recv(4096)
            if not more: break
            said += more
        how = said.split()[1].decode()
    except OSError as e:
        how = type(e).__name__
    sys.stdout.write("answer " + how + chr(10))
    sys.stdout.flush()
'''
    with network_home() as home, Server() as server:
        where = f"good.test:{server.port}"
        with home.rpc() as rpc:
            process = rpc.start(["/usr/bin/python3", "-c", program], stdin="pipe",
                                sandbox={"allowHosts": [where, f"127.0.0.1:{server.port}"]})["processId"]
        asked = 0

        def answer(host):
            nonlocal asked
            request = get(host).decode().encode("unicode_escape").decode()
            asked += 1
            with home.rpc() as rpc:
                rpc.call("write_process_stdin", processId=process, data=request + "\n")
                until("an answer", lambda: rpc.outputs(process)["stdout"].count(b"answer") == asked)
                return rpc.outputs(process)["stdout"].split()[-1].decode()
        good = 0
        for what in ("nothing", "proxy", "runtime", "proxy", "spawner", "both"):
            old = home.part("proxy")
            for part in {"nothing": (), "both": ("runtime", "proxy")}.get(what, (what,)):
                home.kill_part(part)
            if what in ("proxy", "both"):
                until("another proxy", lambda: home.part("proxy") not in (None, old))
            if what in ("runtime", "both"):
                until("another runtime", home.answers)
            # A connection that the old proxy still took may break; the next one must not.
            until(f"{where} is reached after {what}", lambda: answer(where) == "200", 20)
            said = answer(f"other.test:{server.port}")
            assert said == "403", (what, said)
            good += 1
        with home.rpc() as rpc:
            rpc.call("close_process_stdin", processId=process)
            end = rpc.wait(process)
            told = violations(home, process)
        # What a killed runtime had counted and not written yet is lost with it, and that is said.
        assert 1 <= sum(v["count"] for v in told) <= good and end["violationCount"] >= 1, told
        assert end["network"][0]["host"] == "good.test" and end["network"][0]["connections"] >= 1, end
        home.note_tree()


def test_the_end_of_a_sandbox_ends_its_connections():
    with network_home() as home, contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listening, home.rpc() as rpc:
        port = listening.getsockname()[1]
        program = f'''
import socket, time
s = socket.create_connection(("127.0.0.1", {PORT}))
s.sendall(b"CONNECT good.test:{port} HTTP/1.1\\r\\nHost: good.test:{port}\\r\\n\\r\\n")
s.recv(100); s.sendall(b"\\0hello"); time.sleep(600)
'''
        process = rpc.start(["/usr/bin/python3", "-c", program], sandbox={"allowHosts": [f"good.test:{port}", f"127.0.0.1:{port}"]})["processId"]
        client, _ = listening.accept()
        client.settimeout(harness.PATIENCE)
        assert client.recv(100) == b"\0hello"
        rpc.call("terminate_process", processId=process, graceMs=0)
        assert client.recv(100) == b""
        assert rpc.wait(process)["network"] == [{"host": "good.test", "port": port, "connections": 1, "bytesSent": 6, "bytesReceived": 0}]
        client.close()


if __name__ == "__main__":
    harness.main(globals())
