#!/usr/bin/python3
"""The kernel's audit is shared: with an audit daemon, with other bailiff daemons, and with programs that change its rules.

Needs root and the host's own namespaces. What a test changes on the host it restores.
"""

import contextlib
import errno
import json
import os
import signal
import socket
import struct
import subprocess
import sys

import harness
from harness import Skip, until
from violations import OFTEN, Peer, exact, finish, paths_of, provoke, servant, taken, until_state

AUDIT_GET, AUDIT_SET, AUDIT_DEL_RULE, AUDIT_LIST_RULES = 1000, 1001, 1012, 1013
NLMSG_ERROR, NLMSG_DONE = 2, 3
STATUS_ENABLED, STATUS_RATE_LIMIT = 1, 8
RULE_BYTES = 3 * 4 + 64 * 4 + 3 * 64 * 4 + 4     # struct audit_rule_data, without the strings behind it

# Becomes the recipient of audit records as an audit daemon would, prints the kernel's answer, and counts the records of sandboxes
# until its stdin ends.
READER = r"""
import json, os, select, socket, struct, sys
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)
def set(mask, enabled, pid):
    status = struct.pack("=10I", mask, enabled, 0, pid, 0, 0, 0, 0, 0, 0)
    s.sendto(struct.pack("=IHHII", 16 + len(status), 1001, 5, 1, 0) + status, (0, 0))   # AUDIT_SET, to be acknowledged
    while True:
        answer = s.recv(9000)
        if struct.unpack_from("=H", answer, 4)[0] == 2:                     # NLMSG_ERROR
            return -struct.unpack_from("=i", answer, 16)[0]
error = set(4, 0, os.getpid())                                              # AUDIT_STATUS_PID
if not error:
    set(1, 1, 0)                                                            # AUDIT_STATUS_ENABLED
print(error, flush=True)
refusals = 0
while True:
    ready, _, _ = select.select([s, sys.stdin], [], [])
    if s in ready:
        record = s.recv(9000)
        refusals += struct.unpack_from("=H", record, 4)[0] == 1300 and b" auid=4294967280 " in record
    elif sys.stdin in ready:
        break
print(json.dumps(refusals), flush=True)
if not error:
    set(4, 0, 0)
"""


class Reader:
    """A program that owns audit, as an audit daemon does; `error` is the reason if it does not."""

    def __init__(self):
        self.program = subprocess.Popen([sys.executable, "-I", "-S", "-c", READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.program.pid
        self.error = int(self.program.stdout.readline())
        self.left = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self.left:
            self.leave()

    def leave(self):
        """How many records of sandboxes it received."""
        self.left = True
        self.program.stdin.close()
        refusals = json.loads(self.program.stdout.readline())
        self.program.stdout.close()
        self.program.wait()
        return refusals


class Control:
    """Requests to the kernel's audit."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)
        self.socket.settimeout(harness.PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def ask(self, kind, body=b"", flags=1):
        self.socket.sendto(struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body, (0, 0))
        while True:
            answer = self.socket.recv(9000)
            of, rest = struct.unpack_from("=H", answer, 4)[0], answer[16:]
            if of == NLMSG_ERROR and struct.unpack_from("=i", rest)[0]:
                raise OSError(-struct.unpack_from("=i", rest)[0], "audit")
            yield of, rest
            if of in (NLMSG_ERROR, NLMSG_DONE):
                return

    def status(self):
        """mask, enabled, failure, pid, rate limit, backlog limit, lost, backlog"""
        return next(struct.unpack_from("=8I", rest) for of, rest in self.ask(AUDIT_GET) if of == AUDIT_GET)

    def owner(self):
        return self.status()[3]

    def rules_of(self, home):
        key = f"bailiff-{home.guard.pid}-".encode()
        return [rest for of, rest in self.ask(AUDIT_LIST_RULES) if of == AUDIT_LIST_RULES and rest[RULE_BYTES:].startswith(key)]

    def delete(self, rule):
        list(self.ask(AUDIT_DEL_RULE, rule, 5))

    def limit_rate(self, rate):
        list(self.ask(AUDIT_SET, struct.pack("=10I", STATUS_RATE_LIMIT, 0, 0, 0, rate, 0, 0, 0, 0, 0), 5))

    def is_unused(self):
        return not self.owner() and not [of for of, _ in self.ask(AUDIT_LIST_RULES) if of == AUDIT_LIST_RULES]

    def switch_off(self):
        list(self.ask(AUDIT_SET, struct.pack("=10I", STATUS_ENABLED, 0, 0, 0, 0, 0, 0, 0, 0, 0), 5))


@contextlib.contextmanager
def control():
    if os.geteuid() != 0:
        raise Skip("audit requires root")
    with harness.audit_turn():
        try:
            with Control() as c:
                was_on = c.status()[1]
                yield c
                if not was_on and c.is_unused():
                    c.switch_off()
        except ConnectionRefusedError as e:
            raise Skip("not in the host's own namespaces") from e


def test_an_audit_daemon_keeps_its_records():
    """The audit daemon owns audit when bailiff starts, and still does at the end; both get every record."""
    with control() as c, Reader() as reader:
        if reader.error:
            raise Skip(f"another program owns audit: {os.strerror(reader.error)}")
        with taken(options=OFTEN) as home, Peer(home.socket) as rpc:
            exact(rpc)
            assert c.owner() == reader.pid
            assert reader.leave() >= 2
            until("the daemon keeps records out of the kernel's log", lambda: c.owner() == home.guard.pid)
            exact(rpc)


def test_an_audit_daemon_can_start_later():
    """Its first attempt makes bailiff withdraw, without a gap; when it exits, bailiff is the recipient again."""
    with control() as c, taken(options=OFTEN) as home, Peer(home.socket) as rpc:
        if c.owner() != home.guard.pid:
            raise Skip("another program owns audit")
        runtime, process = home.part("runtime"), servant(rpc)
        provoke(rpc, process, "bailiff-before")

        def come():
            reader = Reader()
            if not reader.error:
                return reader
            assert reader.error == errno.EEXIST, reader.error
            reader.leave()
            return None
        with until("the audit daemon starts", come) as reader:
            exact(rpc)
            provoke(rpc, process, "bailiff-after")
            assert finish(rpc, process, 2)["violationCount"] == 2
            assert c.owner() == reader.pid and home.part("runtime") == runtime
            assert reader.leave() >= 2
        until("bailiff is the recipient again", lambda: c.owner() == home.guard.pid)


def test_rules_that_were_removed_are_added_again():
    """As when an audit daemon loads its rules. Commands that ran meanwhile report their count as a lower bound."""
    with control() as c, taken(options=OFTEN) as home:
        with Peer(home.socket) as rpc:
            process = servant(rpc)
            provoke(rpc, process, "bailiff-first")
            until("it is told", lambda: paths_of(rpc, process))
        rules, runtime = c.rules_of(home), home.part("runtime")
        assert len(rules) >= 5, rules
        home.guard.send_signal(signal.SIGSTOP)  # its check is to find all of them gone
        try:
            for rule in rules:
                c.delete(rule)
        finally:
            home.guard.send_signal(signal.SIGCONT)
        until("another runtime serves", lambda: home.part("runtime") not in (None, runtime) and home.answers())
        until_state(home, "enforced")
        assert len(c.rules_of(home)) >= 5
        with Peer(home.socket) as rpc:
            exact(rpc)
            provoke(rpc, process, "bailiff-again")
            end = finish(rpc, process, 2)
            assert paths_of(rpc, process) == ["/etc/bailiff-first", "/etc/bailiff-again"], paths_of(rpc, process)
            assert end["violationCount"] == 2 and end["violationCountIsLeast"] is True, end


def test_two_daemons_report_only_their_own_denials():
    with control() as c, taken(options=OFTEN) as one, taken(options=OFTEN) as two:
        with Peer(one.socket) as first, Peer(two.socket) as second:
            ids = [servant(first), servant(second)]
            for k in range(3):
                provoke(first, ids[0], f"bailiff-one-{k}")
                provoke(second, ids[1], f"bailiff-two-{k}")
            assert [finish(rpc, p, 3)["violationCount"] for rpc, p in zip((first, second), ids)] == [3, 3]
            assert paths_of(first, ids[0]) == [f"/etc/bailiff-one-{k}" for k in range(3)]
            assert paths_of(second, ids[1]) == [f"/etc/bailiff-two-{k}" for k in range(3)]
            runtime, process = two.part("runtime"), servant(second)
            provoke(second, process, "bailiff-before")
            one.stop()
            exact(second)
            provoke(second, process, "bailiff-after")
            end = finish(second, process, 2)
            assert end["violationCount"] == 2 and "violationCountIsLeast" not in end and two.part("runtime") == runtime, end
            assert c.rules_of(two)


def test_killed_daemon_does_not_affect_another_daemon():
    """Its rules stay behind until the next check of any daemon."""
    with control() as c, taken(options=OFTEN) as one, taken(options=OFTEN) as two:
        one.note_tree()
        rules, pid = c.rules_of(one), one.guard.pid
        one.guard.send_signal(signal.SIGKILL)
        one.guard.wait()
        with Peer(two.socket) as rpc:
            exact(rpc)
        until("its rules are removed", lambda: rules and not c.rules_of(one))
        assert one.guard.pid == pid
        with Peer(two.socket) as rpc:
            exact(rpc)
        one.start()
        with Peer(one.socket) as rpc:
            exact(rpc)


def test_records_that_the_kernel_lost_are_reported():
    """A rate limit that another program has set."""
    with control() as c, taken() as home, Peer(home.socket) as rpc, home.rpc() as root:
        exact(rpc)
        lost = c.status()[6]
        c.limit_rate(1)
        try:
            process = servant(rpc)
            for k in range(5):
                provoke(rpc, process, f"bailiff-lost-{k}")
            until("records are lost", lambda: c.status()[6] > lost)
        finally:
            c.limit_rate(0)
        end = finish(rpc, process, 5)
        assert end["violationCountIsLeast"] is True and end["violationCount"] < 5, end
        assert "violations_lost" in [e["payload"].get("code") for e in root.events(types=["runtime.warning"])]
        exact(rpc)


if __name__ == "__main__":
    harness.main(globals())
