#!/usr/bin/python3
"""Network `allow`: named hosts are reached through the proxy by common tools; traffic is counted and reported."""

import base64
import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tarfile
import time
import zipfile

import harness
from faults import Faults
from harness import Home, RpcError, Skip, until
from net import NAMES, PORT, Server, allow, ended, get, need, network_home, talk, violations


# ---- tools ----

def test_curl_and_wget_work_through_the_proxy():
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


def test_git_works_through_the_proxy():
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


def test_npm_works_through_the_proxy():
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


def test_pip_works_through_the_proxy():
    python = find_pip()
    name = "tiny_thing-1.0-py3-none-any.whl"
    with network_home() as home, Server({f"/files/{name}": make_wheel(), "/simple/tiny-thing/": f'<a href="/files/{name}">{name}</a>'.encode()}) as server:
        where, named = f"good.test:{server.port}", f"127.0.0.1:{server.port}"
        def install(hosts, target):
            return home.cli("run", *allow(*hosts), "--", python, "-m", "pip", "install", "-q", "--no-cache-dir", "--retries", "0", "--timeout", "100",
                            "--disable-pip-version-check", "--no-deps", "--target", target, "--trusted-host", "good.test", "--index-url",
                            f"http://{where}/simple/", "tiny-thing", status=None, patience=120)
        done = install((where, named), "lib")
        assert done.status == 0, done.err
        assert os.path.exists(os.path.join(home.work, "lib", "tiny_thing.py"))
        done = install((named,), "no")
        assert done.status != 0 and f"denied: connect {where} (not in the allowed hosts)" in done.err.decode(), done.err


def test_https_names_must_match_the_allowed_host():
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
            # The same address, but another server's name in TLS: the connection is not to the allowed host.
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

def test_connections_and_denials_are_counted_and_reported():
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


def test_responses_announce_the_end_of_the_connection():
    """Even if the server does not announce it; otherwise a client would send its next request on a closed connection."""
    with network_home() as home, Server() as server:
        where, named = f"good.test:{server.port}", f"127.0.0.1:{server.port}"
        post = f"POST http://{where}/ HTTP/1.1\r\nHost: {where}\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n".encode()
        (got, posted), _, _ = talk(home, (where, named), [get(where, extra="Connection: keep-alive\r\n")], [post, None, b"ok"])
        head, _, body = got.partition(b"\r\n\r\n")
        assert head.lower().count(b"\r\nconnection:") == 1 and b"\r\nConnection: close" in head and body == b"hello\n", got
        first, head, body = posted.split(b"\r\n\r\n")
        assert first == b"HTTP/1.1 100 Continue" and head.startswith(b"HTTP/1.1 200 ") and b"\r\nConnection: close" in head and body.endswith(b" 2\n"), posted


def test_credentials_are_added_outside_for_their_host_only():
    """The proxy adds them for one host and for profiles that allow it; the sandbox and other hosts never see them."""
    with Server() as server:
        config = {"proxyHosts": NAMES, "proxyCredentials": {"registry": {"host": f"good.test:{server.port}", "header": "X-Key", "value": "s3cret"}}}
        with Home(config=config, start=False) as home:
            hosts = [f"good.test:{server.port}", f"other.test:{server.port}", f"127.0.0.1:{server.port}"]
            with open(os.path.join(home.dir, "policy.json"), "w") as f:
                json.dump({"profiles": {"with": {"network": {"allow": hosts, "credentials": ["registry"]}}, "without": {"network": {"allow": hosts}}}}, f)
            home.start()
            jobs = [f"GET http://good.test:{server.port}/a HTTP/1.1\r\nHost: good.test:{server.port}\r\nX-Key: placeholder\r\n\r\n",
                    f"GET http://other.test:{server.port}/b HTTP/1.1\r\nHost: other.test:{server.port}\r\n\r\n",
                    f"CONNECT good.test:{server.port} HTTP/1.1\r\nHost: good.test:{server.port}\r\n\r\n"
                    f"GET /c HTTP/1.1\r\nHost: good.test:{server.port}\r\nConnection: close\r\n\r\n"]
            program = (f"import json,socket,sys\nfor text in json.loads(sys.argv[1]):\n s=socket.create_connection(('127.0.0.1',{PORT})); s.sendall(text.encode())\n"
                       " while s.recv(9999): pass\n")
            for profile in ("with", "without"):
                home.cli("run", "--profile", profile, "--", "/usr/bin/python3", "-c", program, json.dumps(jobs))
            assert server.keys == [("/a", ["s3cret"]), ("/b", None), ("/c", ["s3cret"]), ("/a", ["placeholder"]), ("/b", None), ("/c", None)], server.keys
            shown = home.cli("sandbox", "show", "with", "--json")
            assert shown.json["sandboxProfile"]["credentials"] == ["registry"] and b"s3cret" not in shown.out
            with home.rpc() as rpc:
                assert "s3cret" not in json.dumps(rpc.events())
    with Home(config={"proxyCredentials": {"x": {"host": "a.test:443", "header": "X", "value": "y"}}}, start=False) as home:
        home.spawn()
        until("it gives up", lambda: home.guard.poll() is not None)
        home.guard = None
        assert any("plain HTTP only" in line for line in home.log()), home.log()


def test_credential_is_sent_again_after_a_failed_attempt():
    """The runtime is out of descriptors for a moment; no other event would make it continue with the proxy's configuration."""
    with Faults() as faults, Server() as server:
        where = f"good.test:{server.port}"
        config = {"proxyHosts": NAMES, "proxyCredentials": {"registry": {"host": where, "header": "X-Key", "value": "s3cret"}}}
        with Home(config=config, start=False, env=faults.env) as home:
            with open(os.path.join(home.dir, "policy.json"), "w") as f:
                json.dump({"profiles": {"with": {"network": {"allow": [where, f"127.0.0.1:{server.port}"], "credentials": ["registry"]}}}}, f)
            faults.fail("bailiff-credential", "runtime", "EMFILE", count=2)
            home.start()
            program = (f"import socket\ns=socket.create_connection(('127.0.0.1',{PORT}))\n"
                       f"s.sendall(b'GET http://{where}/a HTTP/1.1\\r\\nHost: {where}\\r\\nX-Key: placeholder\\r\\n\\r\\n')\nwhile s.recv(9999): pass\n")
            home.cli("run", "--profile", "with", "--", "/usr/bin/python3", "-c", program)
            assert faults.done("bailiff-credential") and server.keys == [("/a", ["s3cret"])], server.keys


def test_network_and_terminal_work_together():
    """A sandbox with both sends two descriptors when it is ready."""
    need("curl")
    with network_home() as home, Server() as server, home.rpc() as rpc:
        where = f"good.test:{server.port}"
        process = rpc.start(["curl", "-sS", f"http://{where}/hello"], tty={"rows": 24, "cols": 80},
                            sandbox={"allowHosts": [where, f"127.0.0.1:{server.port}"]})["processId"]
        end = rpc.wait(process)
        assert end["exitCode"] == 0 and end["network"][0]["connections"] == 1, end
        assert b"hello" in b"".join(rpc.outputs(process).values()), rpc.outputs(process)


def test_proxy_variables_are_set():
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


def test_allowed_localhost_is_the_hosts():
    need("curl")
    with network_home() as home, Server() as server:
        url = f"http://localhost:{server.port}/hello"
        assert home.cli("run", *allow(f"localhost:{server.port}"), "--", "curl", "-sSf", url).text == "hello\n"
        home.cli("run", *allow(f"localhost:{server.port + 1}"), "--", "curl", "-sSf", url, status=22)
        home.cli("run", *allow("*"), "--", "curl", "-sSf", url, status=7)          # the sandbox's own loopback
        home.cli("run", *allow("*"), "--", "curl", "-sSf", "--noproxy", "", url, status=22)
        assert len(server.seen) == 1


def test_allowed_hosts_work_over_ipv6():
    need("curl")
    with network_home() as home, Server(address="::1") as server:
        for url, *hosts in ((f"http://six.test:{server.port}/hello", f"six.test:{server.port}", f"[::1]:{server.port}"),
                            (f"http://[::1]:{server.port}/hello", f"[::1]:{server.port}"), (f"http://localhost:{server.port}/hello", "localhost")):
            for more in ([], ["-p"]):
                done = home.cli("run", *allow(*hosts), "--", "curl", "-sSf", *more, url)
                assert done.text == "hello\n", (url, more, done.err)


def test_agents_cannot_add_hosts():
    with network_home() as home, home.rpc() as rpc:
        rpc.call("initialize", role="agent")
        for sandbox in ({"allowHosts": ["good.test"]}, {"network": "allow", "allowHosts": ["good.test"]}, {"network": "host"}):
            error = rpc.fails("start_process", {"command": ["true"], "sandbox": sandbox}, code=-32010)
            assert error.data["permissionDecision"]["decision"] == "deny", error.data


def test_long_host_lists_apply_completely():
    """More hosts than fit into an event: all of them apply, and the event has the number of those omitted."""
    with network_home() as home, Server() as server, home.rpc() as rpc:
        hosts = [f"{'a' * 60}.{'b' * 60}.{'c' * 60}.host{i}.test" for i in range(250)] + [f"good.test:{server.port}", f"127.0.0.1:{server.port}"]
        program = (f"import socket; s=socket.create_connection(('127.0.0.1',{PORT})); s.sendall(b'GET http://good.test:{server.port}/hello HTTP/1.0\\r\\n\\r\\n'); "
                   "print(s.recv(99).split()[1].decode())")
        started, end = rpc.run(["/usr/bin/python3", "-c", program], sandbox={"allowHosts": hosts})
        assert rpc.outputs(started["processId"])["stdout"] == b"200\n" and end["network"], end
        profile = rpc.events(processId=started["processId"], types=["sandbox.applied"])[0]["payload"]["sandboxProfile"]
        assert len(profile["allowedHosts"]) + profile["allowedHostsOmitted"] == len(hosts), profile
        error = rpc.fails("get_sandbox", sandbox={"allowHosts": [f"h{i}.test" for i in range(300)]}, code=-32602)
        assert error.data["field"] == "sandbox.allowHosts"


def test_invalid_host_lists_are_rejected_with_the_field():
    with network_home() as home, home.rpc() as rpc:
        for sandbox, field in (({"network": "allow"}, "sandbox.allowHosts"), ({"allowHosts": ["http://x/"]}, "sandbox.allowHosts"),
                               ({"network": "none", "allowHosts": ["x"]}, "sandbox.allowHosts"), ({"allowHosts": ["127.1"]}, "sandbox.allowHosts")):
            try:
                rpc.call("get_sandbox", sandbox=sandbox)
                raise AssertionError(f"{sandbox} was accepted")
            except RpcError as e:
                assert e.data.get("field") == field, (sandbox, e.data)


def test_profiles_and_policy_limit_hosts():
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
        assert status("other.test", *named, *allow("other.test")) == "403"  # a request cannot add hosts that the policy denies
        assert home.cli("sandbox", "show", "isolated", "--json").json["sandboxProfile"]["network"] == "none"


# ---- limits ----

def test_large_transfer_to_a_slow_reader_uses_bounded_memory():
    """The proxy buffers little, regardless of the amount of data and the speed of the reader."""
    program = f'''
import socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096); s.connect(("127.0.0.1", {PORT}))
s.sendall(sys.argv[1].encode() + b"\\r\\nHost: " + sys.argv[2].encode() + b"\\r\\n\\r\\n")
print(s.recv(10), flush=True)
sys.stdin.readline()
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
total = 10
while True:
    n = len(s.recv(1 << 20))
    if not n: break
    total += n
print(total, flush=True)
'''
    size = 96 << 20
    with network_home() as home, Server() as server, home.rpc() as rpc:
        where = f"good.test:{server.port}"
        started = rpc.start(["/usr/bin/python3", "-c", program, f"GET http://{where}/bytes/{size} HTTP/1.1", where], stdin="pipe",
                            sandbox={"allowHosts": [where, f"127.0.0.1:{server.port}"]})
        process = started["processId"]
        until("the answer begins", lambda: b"HTTP" in rpc.outputs(process)["stdout"])
        time.sleep(0.5)   # the amount that would be buffered without flow control
        with open(f"/proc/{home.part('proxy')}/status") as f:
            rss = int([line for line in f if line.startswith("VmRSS")][0].split()[1])
        assert rss < 64 << 10, f"the proxy has {rss} KiB"
        rpc.call("write_process_stdin", processId=process, data="\n")
        end = rpc.wait(process)
        assert end["exitCode"] == 0 and int(rpc.outputs(process)["stdout"].split()[-1]) > size, rpc.outputs(process)
        assert end["network"][0]["bytesReceived"] > size


def test_connections_of_one_sandbox_do_not_block_another():
    """Connections beyond the limit of one sandbox wait; those of another sandbox do not."""
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

def test_proxy_is_confined_and_unprivileged():
    if "asan" in harness.BUILD:
        raise Skip("the sanitizers' own helpers trace and clone")
    with network_home() as home:
        assert home.part("proxy") is None   # not needed so far
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


def test_connections_work_after_restarts_of_the_parts():
    """After the death of proxy, runtime or spawner, running sandboxes reach the same hosts as before."""
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
        for what in ("nothing", "proxy", "runtime", "proxy", "spawner", "both", "upgrade"):
            old = home.part("proxy")
            for part in {"nothing": (), "both": ("runtime", "proxy"), "upgrade": ()}.get(what, (what,)):
                home.kill_part(part)
            if what == "upgrade":
                os.kill(home.guard.pid, signal.SIGUSR2)
            if what in ("proxy", "both", "upgrade"):
                until("another proxy", lambda: home.part("proxy") not in (None, old))
            if what in ("runtime", "both", "upgrade"):
                until("another runtime", home.answers)
            # A connection that the old proxy still took may break; the next one must not.
            until(f"{where} is reached after {what}", lambda: answer(where) == "200")
            said = answer(f"other.test:{server.port}")
            assert said == "403", (what, said)
            good += 1
        with home.rpc() as rpc:
            rpc.call("close_process_stdin", processId=process)
            end = rpc.wait(process)
            told = violations(home, process)
        # Counts that a killed runtime had not written are lost, and that is reported.
        assert 1 <= sum(v["count"] for v in told) <= good and end["violationCount"] >= 1, told
        assert end["network"][0]["host"] == "good.test" and end["network"][0]["connections"] >= 1, end
        home.note_tree()


def test_connections_work_while_the_runtime_restarts():
    """While there is no runtime, and while the next one starts, names resolve and credentials are added as before."""
    program = f'''
import os, socket, sys
while not os.path.exists("enough"):
    s = socket.create_connection(("127.0.0.1", {PORT}), 50)
    s.sendall(sys.argv[1].encode().decode("unicode_escape").encode())
    said = b""
    while more := s.recv(4096):
        said += more
    if said.split()[1] != b"200":
        print(said)
'''
    with Server() as server:
        where, named = f"good.test:{server.port}", f"127.0.0.1:{server.port}"
        config = {"proxyHosts": NAMES, "proxyCredentials": {"registry": {"host": where, "header": "X-Key", "value": "s3cret"}}}
        with Home(config=config, start=False) as home:
            with open(os.path.join(home.dir, "policy.json"), "w") as f:
                json.dump({"profiles": {"with": {"network": {"allow": [where, named], "credentials": ["registry"]}}}}, f)
            home.start()
            with home.rpc() as rpc:
                request = get(where).decode().encode("unicode_escape").decode()
                process = rpc.start(["/usr/bin/python3", "-c", program, request], profile="with", cwd=home.work)["processId"]
            for _ in range(3):
                asked = len(server.seen)
                until("it asks", lambda: len(server.seen) > asked + 5)
                home.kill_part("runtime")
                until("another runtime", home.answers)
            open(os.path.join(home.work, "enough"), "w").close()
            with home.rpc() as rpc:
                assert rpc.wait(process)["exitCode"] == 0
                assert rpc.outputs(process) == {"stdout": b"", "stderr": b""}, rpc.outputs(process)
        assert all(key == ["s3cret"] for _, key in server.keys), server.keys


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
