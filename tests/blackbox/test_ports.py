#!/usr/bin/python3
"""Published ports: a port of a sandbox is reachable on the host until it is unpublished or the sandbox ends; listening ports are detected."""

import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import threading
import urllib.request

import harness
from harness import Home, Skip, until

NOT_FOUND, CONFLICT, NOT_ALLOWED, INVALID = -32004, -32009, -32003, -32602
ALICE, BOB = 61301, 61302

# Answers each connection with the SHA-256 of everything that it sent, after the client's half is closed, and then with as many bytes as its first line says.
SERVER = """
import hashlib, socket, sys, threading
s = socket.create_server(({address!r}, {port}), family=socket.AF_INET6 if ':' in {address!r} else socket.AF_INET)
def serve(c):
    f, h, n = c.makefile('rb'), hashlib.sha256(), int(c.makefile('rb', 0).readline())
    while p := f.read(65536):
        h.update(p)
    c.sendall(h.hexdigest().encode())
    while n:
        p = min(n, 1 << 16)
        c.sendall(b'y' * p)
        n -= p
    c.close()
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""


def server(port, address="127.0.0.1"):
    return ["python3", "-c", SERVER.format(port=port, address=address)]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listed(rpc, **more):
    return {p["port"]: p for p in rpc.call("list_ports", **more)["ports"]}


def listening(rpc, port, **more):
    until(f"port {port} listens", lambda: listed(rpc, **more).get(port, {}).get("listening"))


def exchange(host_port, send=b"", want=0, host="127.0.0.1"):
    """Sends, closes its half, and returns the hash and the number of the bytes after it."""
    with socket.create_connection((host, host_port), harness.PATIENCE) as s:
        s.sendall(b"%d\n" % want)
        def send_all():
            with contextlib.suppress(OSError):  # reset by the peer; the reader reports it
                s.sendall(send)
                s.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send_all)
        sender.start()
        got = bytearray()
        while part := s.recv(1 << 16):
            got += part
        sender.join()
    return bytes(got[:64]).decode(), len(got) - 64


def refused(host_port):
    try:
        socket.create_connection(("127.0.0.1", host_port), harness.PATIENCE).close()
    except ConnectionRefusedError:
        return True
    return False


def events(rpc, kind):
    return [e for e in rpc.events() if e["type"] == kind]


def digest(data):
    return hashlib.sha256(data).hexdigest()


def test_a_web_server_in_a_sandbox_is_reached_from_the_host(home):
    with home.rpc() as rpc:
        sandbox = rpc.call("create_sandbox", cwd=home.work, name="dev")
        with open(os.path.join(home.work, "page"), "w") as f:
            f.write("served\n")
        rpc.start(["python3", "-m", "http.server", "3000"], sandboxId="dev")
        listening(rpc, 3000, sandboxId="dev")
        assert listed(rpc)[3000]["status"] == "detected"
        until("it is recorded", lambda: [e["payload"]["port"] for e in events(rpc, "port.detected")] == [3000])
        made = rpc.call("publish_port", sandboxId="dev", port=3000)
        assert made["hostAddress"] == "127.0.0.1" and made["hostPort"] > 0, made
        with urllib.request.urlopen(f"http://127.0.0.1:{made['hostPort']}/page", timeout=harness.PATIENCE) as page:
            assert page.read() == b"served\n"
        until("its traffic is counted", lambda: listed(rpc, sandboxId="dev")[3000]["connections"] == 1)
        row = listed(rpc)[3000]
        assert row["status"] == "published" and row["sandboxId"] == sandbox["sandboxId"] and row["bytesSent"] > 7 and row["bytesReceived"] > 7, row
        # The next command in the sandbox reaches the same port; one outside the sandbox does not.
        rpc.fails("publish_port", sandboxId="dev", port=3000, code=CONFLICT)
        assert not rpc.call("list_ports", processId=rpc.start(["sleep", "1000"])["processId"])["ports"]
        published, = events(rpc, "port.published")
        assert published["processId"] == sandbox["processId"] and published["payload"]["hostPort"] == made["hostPort"], published
        rpc.call("close_sandbox", sandboxId="dev")
        closed, = events(rpc, "port.closed")
        assert closed["payload"]["reason"] == "ended" and closed["payload"]["connections"] == 1 and closed["payload"]["ports"] == [], closed
        assert refused(made["hostPort"])
        harness.check_facts(home, rpc)


def test_large_transfers_in_both_directions_with_half_close(home):
    data = os.urandom(24 << 20)
    with home.rpc() as rpc:
        process = rpc.start(server(4000))["processId"]
        port = rpc.call("publish_port", processId=process, port=4000)["hostPort"]
        listening(rpc, 4000)
        assert exchange(port, data, 40 << 20) == (digest(data), 40 << 20)
        found, problems = [], []
        def one(i):
            part = data[i << 16:(i + 1) << 18]
            try:
                found.append(exchange(port, part, i << 14) == (digest(part), i << 14))
            except OSError as e:
                problems.append(e)
        threads = [threading.Thread(target=one, args=(i,)) for i in range(40)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert found == [True] * 40 and not problems, (found, problems)
        until("all are counted", lambda: listed(rpc)[4000]["connections"] == 41)
        assert listed(rpc)[4000]["bytesReceived"] > len(data)


def test_a_server_on_the_ipv6_loopback_is_reached(home):
    if not os.path.exists("/proc/net/if_inet6"):
        raise Skip("no IPv6")
    with home.rpc() as rpc:
        process = rpc.start(server(4001, "::1"))["processId"]
        listening(rpc, 4001)
        port = rpc.call("publish_port", processId=process, port=4001)["hostPort"]
        assert exchange(port, b"six") == (digest(b"six"), 0)


def test_unpublish_closes_the_port_and_its_connections(home):
    with home.rpc() as rpc:
        process = rpc.start(server(4002))["processId"]
        port = rpc.call("publish_port", processId=process, port=4002)["hostPort"]
        listening(rpc, 4002)
        with socket.create_connection(("127.0.0.1", port), harness.PATIENCE) as live:
            live.sendall(b"0\nsome")
            assert exchange(port) == (digest(b""), 0)
            done = rpc.call("unpublish_port", processId=process, port=4002)
            assert done["hostPort"] == port, done
            live.settimeout(harness.PATIENCE)
            with contextlib.suppress(ConnectionResetError):
                assert live.recv(1) == b""
        assert refused(port) and listed(rpc)[4002]["status"] == "detected"
        closed, = events(rpc, "port.closed")
        assert closed["payload"]["reason"] == "unpublished" and closed["payload"]["connections"] == 2, closed
        rpc.fails("unpublish_port", processId=process, port=4002, code=NOT_FOUND)
        # The same port of the host again, at once.
        assert rpc.call("publish_port", processId=process, port=4002, hostPort=port)["hostPort"] == port
        assert exchange(port, b"again") == (digest(b"again"), 0)


def test_a_port_is_published_before_its_server_listens_and_outlives_it(home):
    with home.rpc() as rpc:
        sandbox = rpc.call("create_sandbox", cwd=home.work)["sandboxId"]
        port = rpc.call("publish_port", sandboxId=sandbox, port=4003)["hostPort"]
        # Nothing listens: the connection is accepted and reset.
        with contextlib.suppress(ConnectionResetError), socket.create_connection(("127.0.0.1", port), harness.PATIENCE) as s:
            assert s.recv(1) == b""
        for text in (b"one", b"two"):
            process = rpc.start(server(4003), sandboxId=sandbox)["processId"]
            listening(rpc, 4003)
            assert exchange(port, text) == (digest(text), 0)
            rpc.end(process)
            until("it no longer listens", lambda: not listed(rpc)[4003]["listening"])


def test_errors_name_the_field_and_the_fix(home):
    with home.rpc() as rpc, socket.create_server(("127.0.0.1", 0)) as taken:
        process = rpc.start(["sleep", "1000"])["processId"]
        used = taken.getsockname()[1]
        error = rpc.fails("publish_port", processId=process, port=80, hostPort=used, code=CONFLICT)
        assert "in use" in str(error) and str(used) in str(error), error
        assert not rpc.call("list_ports")["ports"]
        for address in ("0.0.0.0", "192.0.2.1", "::"):
            error = rpc.fails("publish_port", processId=process, port=80, hostAddress=address, code=NOT_ALLOWED)
            assert "publishAddresses" in str(error), error
        rpc.fails("publish_port", processId=process, port=80, hostAddress="localhost", code=INVALID)
        for port in (0, 65536):
            rpc.fails("publish_port", processId=process, port=port, code=INVALID)
        rpc.fails("publish_port", processId=process, port=80, hostPort=65536, code=INVALID)
        assert "proxy" in str(rpc.fails("publish_port", processId=process, port=61080, code=NOT_ALLOWED))
        assert "proxy" in str(rpc.fails("create_sandbox", cwd=home.work, publish=[{"port": 61080}], code=NOT_ALLOWED))
        rpc.fails("publish_port", port=80, code=INVALID)
        for wrong in ([80], [{"port": 0}], [{"port": 80, "hostPort": -1}], [{"port": 80, "hostAddress": 1}], [{"port": 80}] * 33):
            assert "publish" in str(rpc.fails("create_sandbox", cwd=home.work, publish=wrong, code=INVALID))
        rpc.fails("create_sandbox", cwd=home.work, publish=[{"port": 80}, {"port": 81, "hostPort": used}], code=CONFLICT)
        until("nothing is left of it", lambda: not rpc.call("list_sandboxes")["sandboxes"] and not rpc.call("list_ports")["ports"])
        rpc.fails("publish_port", sandboxId="nosuch", port=80, code=NOT_FOUND)
        rpc.fails("publish_port", processId="proc_nosuch", port=80, code=NOT_FOUND)
        shared = rpc.start(["sleep", "1000"], sandbox={"network": "host"})["processId"]
        assert "host's network" in str(rpc.fails("publish_port", processId=shared, port=80))
        rpc.end(process)
        rpc.fails("publish_port", processId=process, port=80)


def test_other_addresses_need_the_configuration():
    with Home(config={"publishAddresses": ["127.0.0.2", "::1"]}) as home, home.rpc() as rpc:
        process = rpc.start(server(4004))["processId"]
        port = rpc.call("publish_port", processId=process, port=4004, hostAddress="127.0.0.2")["hostPort"]
        listening(rpc, 4004)
        assert exchange(port, b"x", host="127.0.0.2") == (digest(b"x"), 0)
        assert refused(port), "only at the requested address"
        rpc.fails("publish_port", processId=process, port=4005, code=NOT_ALLOWED)


def test_published_ports_survive_restarts_of_proxy_and_runtime(home):
    with home.rpc() as rpc:
        sandbox = rpc.call("create_sandbox", cwd=home.work, name="dev")["sandboxId"]
        process = rpc.start(server(4006), sandboxId="dev")["processId"]
        port = rpc.call("publish_port", sandboxId="dev", port=4006)["hostPort"]
        listening(rpc, 4006)
    def works():
        with contextlib.suppress(OSError):
            return exchange(port, b"still") == (digest(b"still"), 0)
        return False
    assert works()
    for part in ("runtime", "proxy", "spawner", "runtime"):
        with contextlib.ExitStack() as stack:
            live = stack.enter_context(socket.create_connection(("127.0.0.1", port), harness.PATIENCE))
            live.sendall(b"0\nhalf ")
            assert works()
            home.kill_part(part)
            until(f"it is reached after the {part} was killed", works)
            if part != "proxy":
                live.sendall(b"done")
                live.shutdown(socket.SHUT_WR)
                assert live.recv(64).decode() == digest(b"half done"), part
        with home.rpc() as rpc:
            listening(rpc, 4006, sandboxId="dev")
            assert listed(rpc)[4006]["hostPort"] == port, listed(rpc)
    with home.rpc() as rpc:
        assert not events(rpc, "port.closed") and len(events(rpc, "port.published")) == 1
        rpc.call("unpublish_port", sandboxId=sandbox, port=4006)
        assert refused(port)
        rpc.end(process)


def test_another_user_cannot_publish():
    if os.geteuid() != 0:
        raise Skip("other users' requests require root")
    from test_ownership import as_user, shared
    with shared() as home, as_user(home, ALICE) as alice, as_user(home, BOB) as bob:
        sandbox = alice.call("create_sandbox", cwd=home.work)
        alice.call("publish_port", sandboxId=sandbox["sandboxId"], port=4007)
        for which in ({"sandboxId": sandbox["sandboxId"]}, {"processId": sandbox["processId"]}):
            bob.fails("publish_port", port=4008, code=NOT_FOUND, **which)
            bob.fails("unpublish_port", port=4007, code=NOT_FOUND, **which)
            bob.fails("list_ports", code=NOT_FOUND, **which)
        assert not bob.call("list_ports")["ports"] and len(alice.call("list_ports")["ports"]) == 1


def test_publish_verbs_of_the_command_line(home):
    port, other = free_port(), free_port()
    sandbox = home.cli("sandbox", "create", "--publish", f"{port}:5000").text.strip()
    process = home.cli("exec", "-d", sandbox, "--", *server(5000)).text.strip()
    with home.rpc() as rpc:
        listening(rpc, 5000)
    assert exchange(port, b"cli") == (digest(b"cli"), 0)
    lines = home.cli("ports", sandbox).text.splitlines()
    assert len(lines) == 2 and lines[1].split()[:5] == [sandbox, "5000", "published", "127.0.0.1", str(port)], lines
    assert home.cli("ports", "--json").json[0]["hostPort"] == port
    home.cli("unpublish", sandbox, "5000")
    assert refused(port)
    assert home.cli("publish", sandbox, f"127.0.0.1:{other}:5000").text == f"127.0.0.1:{other}\n"
    assert exchange(other, b"cli") == (digest(b"cli"), 0)
    # In use, for a second sandbox: nothing is left of it.
    done = home.cli("sandbox", "create", "--publish", f"{other}:5000", status=1)
    assert f"127.0.0.1 port {other} is in use" in done.err.decode(), done.err
    done = home.cli("run", "--publish", f"{other}:5000", "--", "sleep", "1000", status=125)
    assert f"127.0.0.1 port {other} is in use" in done.err.decode(), done.err
    with home.rpc() as rpc:
        assert [s["sandboxId"] for s in rpc.call("list_sandboxes")["sandboxes"]] == [sandbox]
        live = [p["processId"] for p in rpc.call("list_processes", liveOnly=True)["processes"]]
        assert live == [process], live
    for wrong in ("", "x", "::1:80", "70000", "80:0", "99999:80", "[::1:80", ":80"):
        assert "[ADDR:][HOSTPORT:]PORT" in home.cli("publish", sandbox, wrong, status=2).err.decode(), wrong


def test_the_owner_of_a_port_is_found_by_parts_of_its_id_and_by_last(home):
    sandbox = home.cli("sandbox", "create", "--name", "dev").text.strip()
    alone = home.cli("run", "-d", "--", *server(5000)).text.strip()
    with home.rpc() as rpc:
        listening(rpc, 5000)
    for name, owner in ((sandbox[-8:], sandbox), ("dev", sandbox), (alone[-8:], alone), (alone[5:], alone), ("@last", alone)):
        home.cli("publish", name, "0:5000")
        row, = (p for p in home.cli("ports", "--json", name).json if p["status"] == "published")
        assert row["sandboxId" if owner == sandbox else "processId"] == owner, (name, row)
        home.cli("unpublish", name, "5000")
    newer = home.cli("sandbox", "create").text.strip()
    assert home.cli("publish", "--json", "@last", "0:5000").json["processId"] == home.cli("sandbox", "show", "--json", newer).json["processId"]
    error = home.cli("ports", "zzzz", status=1).err.decode()
    assert "no sandbox or process matches 'zzzz'" in error and "bailiff sandbox list" in error, error
    home.cli("kill", alone)


def test_exec_publishes_ports_of_its_sandbox(home):
    sandbox, port = home.cli("sandbox", "create").text.strip(), free_port()
    server_id = home.cli("exec", "-d", "--publish", f"{port}:5000", sandbox, "--", *server(5000)).text.strip()
    with home.rpc() as rpc:
        listening(rpc, 5000)
        exchange(port, b"x", 1)
        # It is the sandbox's port and outlives the command. The error says what to do.
        rpc.call("terminate_process", processId=server_id)
        assert listed(rpc)[5000]["hostPort"] == port, listed(rpc)
        for again in (f"{port}:5000", "0:5000", f"127.0.0.1:{port}:5000"): # the same server is started again
            assert not home.cli("exec", "--publish", again, sandbox, "--", "true").err, again
        assert list(listed(rpc)) == [5000], listed(rpc)
        error = home.cli("exec", "--publish", f"{free_port()}:5000", sandbox, "--", "true", status=125).err.decode()
        assert "unpublish it first" in error and "bailiff ports" in error and "another id" not in error, error
        # The stored reply to create_sandbox is that of the whole request.
        key = {"cwd": home.work, "publish": [{"port": 5000, "hostPort": port}], "idempotencyKey": "k"}
        assert "in use" in str(rpc.fails("create_sandbox", key, code=CONFLICT))
        home.cli("unpublish", sandbox, "5000")
        made = rpc.call("create_sandbox", key)
        assert rpc.call("create_sandbox", key)["sandboxId"] == made["sandboxId"]
        assert listed(rpc, sandboxId=made["sandboxId"])[5000]["hostPort"] == port


def test_single_use_command_can_publish_a_port(home):
    port = free_port()
    run = home.cli_start("run", "--publish", f"{port}:5001", "--", *server(5001), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    def works():
        with contextlib.suppress(OSError):
            return exchange(port, b"one") == (digest(b"one"), 0)
        return False
    until("it is reached", works)
    run.terminate()
    run.communicate(timeout=harness.PATIENCE)
    until("it is closed", lambda: refused(port))


def test_a_port_that_cannot_be_published_keeps_the_command_from_running(home):
    taken, mark = free_port(), os.path.join(home.work, "ran")
    with socket.create_server(("127.0.0.1", taken)):
        for ports, why in (((taken,), "in use on this host"), ((free_port(), taken), "in use on this host"), (("10.1.2.3:5000:5000",), "publishAddresses"),
                           (("5000", "5001:5000"), "named twice")):
            options = [word for port in ports for word in ("--publish", f"{port}:{5000 + ports.index(port)}" if isinstance(port, int) else port)]
            for more in ((), ("-d",)):
                error = home.cli("run", *more, *options, "--", "touch", mark, status=125).err.decode()
                assert why in error, error
    assert "host's network" in home.cli("run", "--net", "host", "--publish", "0:5000", "--", "touch", mark, status=None).err.decode()
    assert not os.path.exists(mark)
    with home.rpc() as rpc:
        assert not rpc.call("list_processes", liveOnly=True)["processes"] and not rpc.call("list_ports")["ports"]
        sandbox = rpc.call("create_sandbox")["sandboxId"]
        assert "publish_port" in rpc.fails("start_process", command=["true"], sandboxId=sandbox, publish=[{"port": 5000}], code=INVALID).message


def test_command_whose_ports_were_not_published_when_the_runtime_died_does_not_run(home):
    mark = os.path.join(home.work, "ran")
    with home.rpc() as rpc:
        first = rpc.start(["sleep", "1000"], publish=[{"port": 5000}])["processId"]   # the proxy runs
        home.kill_part("proxy", signal.SIGSTOP)
        rpc.send("start_process", command=["touch", mark], cwd=home.work, publish=[{"port": 5000}])
        started = until("its start is recorded", lambda: [e for e in rpc.events(types=["process.started"]) if e["processId"] != first])
        assert started[0]["payload"]["publish"] == [{"port": 5000, "hostAddress": "127.0.0.1", "hostPort": 0}], started
        gone = home.kill_part("runtime")
        home.kill_part("proxy", signal.SIGCONT)
    until("there is another runtime", lambda: home.part("runtime") not in (None, gone) and home.answers())
    with home.rpc() as rpc:
        end = rpc.wait(started[0]["processId"])
        reason = [e["payload"]["reason"] for e in rpc.events(processId=started[0]["processId"], types=["process.terminated"])]
        assert end["status"] == "terminated" and len(reason) == 1 and "did not run" in reason[0] and not os.path.exists(mark), (end, reason)
        assert [p["processId"] for p in rpc.call("list_ports")["ports"]] == [first]
        rpc.end(first)


def test_approved_command_gets_its_published_port():
    port = free_port()
    with Home(start=False) as home:
        with open(os.path.join(home.dir, "policy.json"), "w") as f:
            f.write('{"permissions": {"ask": ["Bash(python3:*)"]}}')
        home.start()
        process = home.cli("run", "-d", "--yes", "--publish", f"{port}:5003", "--", *server(5003)).text.strip()
        with home.rpc() as rpc:
            listening(rpc, 5003)
            assert exchange(port, b"asked") == (digest(b"asked"), 0)
            rpc.end(process)


def test_listening_port_is_reported_with_a_hint(home):
    for words in (["run"], ["exec", home.cli("sandbox", "create", "--name", "dev").text.strip()]):
        run = home.cli_start(*words, "--", "sh", "-c", "python3 -m http.server 5002 >/dev/null 2>&1 & sleep 60", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = run.stderr.readline().decode()
        assert line.startswith("bailiff: port 5002 is listening; bailiff publish ") and line.endswith(" 5002:5002 opens it on this host\n"), line
        owner = line.split()[7]
        assert owner.startswith("proc_" if words == ["run"] else "sbx_"), line
        home.cli("publish", owner, "0:5002")
        run.terminate()
        run.communicate(timeout=harness.PATIENCE)


def test_a_command_that_ends_before_its_port_is_open_has_its_own_status():
    """Nothing is left to publish then, and its output and exit status are what its caller waits for."""
    with Home(options=harness.host_policy(ask=["Bash(expr:*)"])) as home, home.rpc() as rpc:
        run = subprocess.Popen([harness.CLI, "run", "--publish", f"{free_port()}:5000", "--", "expr", "1", "+", "2"], cwd=home.work,
                               env=harness.environment(BAILIFF_HOME=home.dir), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        action, = until("it asks", lambda: rpc.call("list_actions", status="pending")["actions"])
        rpc.call("respond_action", actionId=action["actionId"], decision="allow")
        out, err = run.communicate(timeout=harness.PATIENCE)
        assert run.returncode == 0 and out == b"3\n", (run.returncode, err)
        for _ in range(20):                                          # it ends meanwhile
            assert home.cli("run", "--publish", f"{free_port()}:5000", "--", "echo", "x").text == "x\n"


if __name__ == "__main__":
    harness.main(globals())
