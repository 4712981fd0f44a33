#!/usr/bin/python3
"""Network `allow`, ways around it: past the proxy, through it to unnamed hosts, and under another host's name."""

import base64
import contextlib
import json
import os
import random
import socket
import threading

from tries import ROOT, harness
from harness import Skip
from net import NAMES, Server, allow, client_hello, connect, ended, get, need, network_home, origin, talk, violations


# Tries every way to a server that does not use the proxy; the argument is its port.
BYPASS = r'''
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


@contextlib.contextmanager
def abstract_socket(server):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as hidden:
        hidden.bind(f"\0bailiff-test-{server.port}")
        hidden.listen()
        yield


def nothing_worked(text):
    assert len(text.splitlines()) == 22 and "WORKED" not in text, text


def test_traffic_cannot_bypass_the_proxy():
    """Traffic that does not use the proxy goes nowhere."""
    with network_home() as home, Server() as server, abstract_socket(server):
        nothing_worked(home.cli("run", *allow(f"good.test:{server.port}", f"127.0.0.1:{server.port}"), "--", "/usr/bin/python3", "-c", BYPASS, str(server.port)).text)
        assert not server.seen


def test_traffic_of_session_sandboxes_cannot_bypass_the_proxy():
    """Nor that of a later command, also after a restore and in a fork."""
    fetch = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).status)"
    with network_home() as home, Server() as server, abstract_socket(server):
        home.cli("sandbox", "create", "--cow", "--name", "one", *allow(f"good.test:{server.port}", f"127.0.0.1:{server.port}"))

        def check(name):
            for _ in range(2):
                nothing_worked(home.cli("exec", name, "--", "/usr/bin/python3", "-c", BYPASS, str(server.port)).text)
            before = len(server.seen)
            assert home.cli("exec", name, "--", "/usr/bin/python3", "-c", fetch, f"http://good.test:{server.port}/").text == "200\n"
            assert home.cli("exec", name, "--", "/usr/bin/python3", "-c", fetch, f"http://private.test:{server.port}/", status=None).status == 1
            assert len(server.seen) == before + 1, server.seen
        check("one")
        home.cli("sandbox", "checkpoint", "one", "ready")
        home.cli("sandbox", "restore", "one", "ready")
        check("one")
        home.cli("sandbox", "fork", "one", "ready", "--name", "two")
        check("two")
        check("one")


def test_internal_names_and_addresses_are_denied():
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


def test_redirects_are_checked():
    need("curl")
    with network_home() as home, Server() as server:
        where, named = f"good.test:{server.port}", f"127.0.0.1:{server.port}"
        for target, host in (("http://169.254.169.254/latest/", "169.254.169.254"), (f"http://other.test:{server.port}/hello", "other.test"),
                             ("http://metadata.test/", "metadata.test")):
            done = home.cli("run", *allow(where, named), "--", "curl", "-sSfL", f"http://{where}/redirect?{target}", status=22)
            assert f"denied: connect {host}:" in done.err.decode(), done.err
        assert {path.partition("?")[0] for _, path, _ in server.seen} == {"/redirect"}


def test_contradicting_host_names_are_rejected():
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
            [*tunnel, b"GET /\xff HTTP/1.1\r\nHost: other.test:%d\r\n\r\n" % p],
            [*tunnel, b"GET /\x01 HTTP/1.1\r\nHost: other.test:%d\r\n\r\n" % p],
            [*tunnel, b"X\t/\xff HTTP/1.1\r\nHost: other.test:%d\r\n\r\n" % p],
            [*tunnel, b"GET /hello\r\n\r\n"],
            [*tunnel, b" GET /hello HTTP/1.1\r\nHost: other.test:%d\r\n\r\n" % p],
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
            [get(where, extra="Content-Length: 4\r\nTransfer-Encoding: chunked\r\n")],
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


def test_socks_requests_are_checked():
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


def test_other_protocols_pass_to_allowed_hosts():
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


def test_web_ports_accept_only_http_and_tls():
    if not ROOT:
        raise Skip("only root can serve port 80")
    with network_home() as home, contextlib.closing(socket.create_server((NAMES["web.test"], 80))) as listening:
        heard = []

        def serve():
            while listening.fileno() >= 0:
                with contextlib.suppress(OSError):
                    client, _ = listening.accept()
                    with client:
                        heard.append(client.recv(100))
                        client.sendall(b"HTTP/1.0 204 Fine\r\n\r\n")
        threading.Thread(target=serve, daemon=True).start()
        tunnel = [connect("web.test:80"), None]
        said, process, _ = talk(home, ("web.test", NAMES["web.test"]), [*tunnel, b"EHLO me\r\n"], [*tunnel, b"\0binary"], [*tunnel, b"SSH-2.0-me\r\n"],
                                [*tunnel, origin("web.test")])
        assert [b"403 Forbidden" in a for a in said] == [True, True, False, False], said
        assert {v["reason"] for v in violations(home, process)} == {"neither TLS nor HTTP on a port of the web"}
        assert sorted(h[:4] for h in heard if h) == [b"GET ", b"SSH-"], heard


# Pieces of conversations, broken off, torn apart, repeated and mixed; many at once.
NOISE = r'''
import base64, json, random, socket, struct, sys, threading, time
pieces, seed, count = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
pieces = [base64.b64decode(p) for p in pieces]
def one(r):
    s = socket.create_connection(("127.0.0.1", 61080), 20)
    s.settimeout(0.2)
    try:
        for _ in range(r.randint(1, 4)):
            p = bytearray(r.choice(pieces))
            for _ in range(r.choice((0, 0, 1, 3))):
                p[r.randrange(len(p))] = r.randrange(256)
            if r.random() < 0.3: p = p[:r.randrange(len(p) + 1)]
            while p:
                n = r.choice((1, 7, 100, 10000))
                s.sendall(p[:n]); p = p[n:]
                if r.random() < 0.05: time.sleep(0.001)
            if r.random() < 0.3:
                s.recv(r.choice((1, 100, 100000)))
        if r.random() < 0.3: s.shutdown(socket.SHUT_WR)
        if r.random() < 0.3: s.recv(1000)
        if r.random() < 0.5: s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass
    s.close()
def work(seed):
    r = random.Random(seed)
    for _ in range(count): one(r)
threads = [threading.Thread(target=work, args=(seed + i,)) for i in range(16)]
for t in threads: t.start()
for t in threads: t.join()
print("done")
'''


def test_malformed_requests_are_survived():
    with network_home() as home, Server() as server:
        where, named = f"good.test:{server.port}", f"127.0.0.1:{server.port}"
        pieces = [get(where), get(f"other.test:{server.port}"), get(where, path="/bytes/300000"), connect(where), connect(f"dead.test:{server.port + 1}"),
                  origin(where), origin("other.test"), client_hello("good.test"), client_hello("other.test"), b"\5\1\0",
                  b"\5\1\0\3\x09good.test" + server.port.to_bytes(2, "big"), b"\5\1\0\1\x7f\0\0\1" + server.port.to_bytes(2, "big"),
                  f"POST http://{where}/ HTTP/1.1\r\nHost: {where}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".encode(),
                  f"PUT http://{where}/ HTTP/1.1\r\nHost: {where}\r\nContent-Length: 70000\r\n\r\n".encode() + bytes(70000), bytes(range(256))]
        seed = int(os.environ.get("SEED") or random.randrange(1 << 30))
        print(f"# seed {seed}")
        talk(home, (where, named), [get(where)])
        proxy = home.part("proxy")
        text = json.dumps([base64.b64encode(p).decode() for p in pieces])
        done = home.cli("run", *allow(where, named, "dead.test"), "--", "/usr/bin/python3", "-c", NOISE, text, str(seed), "40", patience=120)
        assert done.text == "done\n"
        (answer,), _, _ = talk(home, (where, named), [get(where)])
        assert answer.endswith(b"hello\n"), answer
        assert home.part("proxy") == proxy, "the proxy was started anew"
        hosts = {host.lower() for _, _, host in server.seen if host}
        assert hosts <= {where, named}, hosts - {where, named}


if __name__ == "__main__":
    harness.main(globals())
