#!/usr/bin/python3
"""Name lookups of a command without the host's network are denied and reported by name, with the option that allows them."""

import harness

NAME = "registry.example.test"


def said(done):
    return [line for line in done.err.decode().splitlines() if line.startswith(("bailiff:", "  "))]


def lookups(rpc, process):
    return [e["payload"] for e in rpc.events(processId=process) if e["type"] == "sandbox.violation"]


def last(rpc):
    return rpc.call("list_processes")["processes"][0]["processId"]


def test_denied_lookup_names_the_host():
    with harness.Home() as home, home.rpc() as rpc:
        for _ in range(4):    # built for the command, generic prebuilt, and dedicated prebuilt
            done = home.cli("run", "--", "getent", "ahosts", NAME.upper(), status=2)
            assert said(done) == [f"bailiff: denied: lookup {NAME} (no network)",
                                  f"  --allow-host {NAME} to let it reach that (where the policy permits it)"], done.err
            fact, = lookups(rpc, last(rpc))
            assert (fact["host"], fact["source"], fact["reason"]) == (NAME, "resolver", "no network"), fact
            assert home.cli("policy", "suggest", last(rpc)).text == f"run --net allow --allow-host {NAME}\n"
        # the suggestion is a valid command-line option
        home.cli("run", "--net", "allow", "--allow-host", NAME, "--", "true")


def test_each_name_is_reported_once_up_to_a_limit():
    names = " ".join(f"host{i}.example.test" for i in range(200))
    with harness.Home() as home, home.rpc() as rpc:
        started, end = rpc.run(f"for n in a.example.test a.example.test {names}; do getent ahosts $n; getent ahosts $n; done; exit 3")
        assert end["exitCode"] == 3, end
        found = [v["host"] for v in lookups(rpc, started["processId"]) if v["operation"] == "lookup"]
        assert found[0] == "a.example.test" and len(found) == len(set(found)) and 10 < len(found) <= 64, found


def test_a_command_that_succeeds_did_not_need_the_name():
    with harness.Home() as home, home.rpc() as rpc:
        done = home.cli("run", "--", "sh", "-c", f"getent ahosts {NAME}; exit 0")
        assert not said(done), done.err
        assert [v["host"] for v in lookups(rpc, last(rpc))] == [NAME], "it is in the log all the same"
        # lookups of its own name and of addresses are not reported
        started, _ = rpc.run("getent ahosts $(uname -n); getent hosts 192.0.2.1; exit 3")
        assert not lookups(rpc, started["processId"]), lookups(rpc, started["processId"])


def test_malformed_queries_are_survived():
    script = """
import random, socket
random.seed(7)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("127.0.0.1", 53))
for i in range(2000):
    s.send(bytes(random.randrange(256) for _ in range(random.randrange(600))))
s.settimeout(1)
question = b"\\x04name\\x04test\\x00\\x00\\x01\\x00\\x01"
answer = b""
while answer[:2] != b"\\x12\\x34":    # what comes too fast is dropped
    s.send(b"\\x12\\x34\\x01\\x00\\x00\\x01" + bytes(6) + question)
    try:
        answer = s.recv(600)
    except TimeoutError:
        pass
assert answer[3] & 15 == 5 and answer[12:] == question, answer
"""
    with harness.Home() as home, home.rpc() as rpc:
        started, end = rpc.run(["python3", "-c", script])
        assert end["exitCode"] == 0, rpc.outputs(started["processId"])
        assert "name.test" in [v.get("host") for v in lookups(rpc, started["processId"])]


def test_lookup_with_a_proxy_is_reported_as_proxy_only():
    with harness.Home() as home, home.rpc() as rpc:
        home.cli("run", "--allow-host", "other.example.test", "--", "getent", "ahosts", NAME, status=2)
        fact, = lookups(rpc, last(rpc))
        assert (fact["host"], fact["reason"]) == (NAME, "only through the proxy"), fact


if __name__ == "__main__":
    harness.main(globals())
