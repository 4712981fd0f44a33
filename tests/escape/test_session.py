"""The ways out of test_escape.py, tried from session sandboxes: by a later command, in a copy-on-write layer, after a restore and in a fork.

Leaders are forked from the sandbox's init and lead one command after the other, and restores and forks build sandboxes from stored layers. What a
new sandbox of a single command has, and one of these lacks, shows here.
"""

import contextlib

from test_escape import KERNEL, MOUNTS, PLACES, PROTECTED, TERMINAL, Shared, host_terminal, network_of_the_host, processes_of_the_host
from tries import FILTERED, PROBE, PROFILES, WRITABLE, check, collected, filled, harness, parse, repository, snapshot, words_of


def within(home, name, words, place):
    done = home.cli("exec", name, "--", "sh", "-c", 'cd "$1" && shift && exec /tmp/probe "$@"', "sh", place, *words, status=None, patience=120)
    assert done.status == 0, f"{name}: status {done.status}: {done.err[-400:]}"
    return parse(done.out)


@contextlib.contextmanager
def sandboxes(home, profile):
    """The names of session sandboxes in which a command has run before, and left the probe."""
    names = ["plain"]
    home.cli("sandbox", "create", "--name", "plain", "--profile", profile)
    if profile in WRITABLE:
        home.cli("sandbox", "create", "--cow", "--name", "restored", "--profile", profile)
        home.cli("exec", "restored", "--", "sh", "-c", "echo 1 > before")
        home.cli("sandbox", "checkpoint", "restored", "ready")
        home.cli("exec", "restored", "--", "sh", "-c", "echo 1 > after")
        home.cli("sandbox", "fork", "restored", "ready", "--name", "forked")
        home.cli("sandbox", "restore", "restored", "ready")
        names += ["restored", "forked"]
    with open(PROBE, "rb") as f:
        program = f.read()
    for name in names:
        home.cli("exec", name, "--", "sh", "-c", "cat >/tmp/probe && chmod 700 /tmp/probe", stdin=program)
    yield names
    for name in names:
        home.cli("sandbox", "close", name)


def in_each(home, check_one):
    """check_one(profile, sandbox, what to call it) for every kind in every profile."""
    with collected() as part:
        for profile in PROFILES:
            with sandboxes(home, profile) as names:
                for name in names:
                    with part():
                        check_one(profile, name, f"{profile}, {name}")


def test_kernel_interfaces_stay_out_of_reach(home):
    repository(home)
    rows = KERNEL + [(word, bites, FILTERED) for word, bites in MOUNTS]
    in_each(home, lambda _, name, where: check(rows, within(home, name, words_of(rows), "/tmp"), where, "shut"))


def test_files_stay_out_of_reach(home):
    work = repository(home)
    before = snapshot(work)
    rows = filled(PROTECTED, w=work)

    def check_one(profile, name, where):
        check(PLACES, within(home, name, words_of(PLACES), "/tmp"), where, "shut")
        if profile in WRITABLE:
            check(PLACES, within(home, name, words_of(PLACES), work), f"{where}, in the workspace", "shut")
            check(rows, within(home, name, words_of(rows), work), where, "shut")
        assert snapshot(work) == before, f"{where}: the tree is changed"
    in_each(home, check_one)


def test_the_host_stays_out_of_reach(home):
    """Its processes, shared memory, queues, network and terminals."""
    repository(home)
    with Shared() as shared, processes_of_the_host(home) as processes, network_of_the_host() as (network, datagram), host_terminal() as terminal, home.rpc() as rpc:
        rows = shared.rows() + processes + network
        own = KERNEL + filled(TERMINAL, t=terminal)

        def check_one(_, name, where):
            check(rows, within(home, name, words_of(rows) + datagram, "/tmp"), where, "shut")
            _, end = rpc.run(["/tmp/probe", *words_of(own)], sandboxId=name, cwd="/tmp", tty={"rows": 24, "cols": 200})
            check(own, parse(rpc.output(end["outputs"]["pty"]["outputRef"])), f"{where}, on a terminal", "shut")
            assert home.cli("exec", name, "--", "sh", "-c", "kill -9 -1", status=None).status == 125
            home.cli("exec", name, "--", "true")
        in_each(home, check_one)


if __name__ == "__main__":
    harness.main(globals())
