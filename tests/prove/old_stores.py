#!/usr/bin/python3
"""Stores that earlier programs have written (tests/prove/stores, made by make_old_store.py): each opens, verifies and is upgraded.

    old_stores.py [arguments of proof.py]     a case is STORE or STORE:MS, the upgrade being killed after MS milliseconds; or STORE:newer

A daemon of this tree starts on a copy. Every event is there with its id and payload, every process with its status, exit code and the bytes of its
outputs; the events of a process are found by the index; the store verifies. Then it runs commands, is backed up, pruned, compacted and restarted. With
:MS everything is killed during the first start and a second start completes the upgrade. A store of a later version is refused and stays as it is.

Known-bad controls: an upgrade that does nothing, an event that is lost, an output of which a byte has changed.
"""

import contextlib
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import time
import traceback

from proof import BUILD, Proof

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "blackbox"))
import harness                                              # noqa: E402
from harness import Gone, Home, RpcError, until             # noqa: E402

STORES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stores")
STATES = os.path.join(BUILD, "power_states")
KEEP = {"retainDays": 0, "idempotencyKeepDays": 3650, "stopGraceMs": 1000}      # the stores are older every day
KILL_MS = 60                # an upgrade of one of these takes less


def sha(data):
    return hashlib.sha256(data).hexdigest()


def all_stores():
    return sorted(f[:-len(".tar.xz")] for f in os.listdir(STORES) if f.endswith(".tar.xz"))


def unpacked(name):
    """A home with the store, and what its writer had reported. The files belong to whom a daemon gives them."""
    home = Home(KEEP)
    home.stop()
    owners = {d: os.stat(os.path.join(home.dir, d)) for d in ("store", "spool")}
    for d in owners:
        shutil.rmtree(os.path.join(home.dir, d))
    with tarfile.open(os.path.join(STORES, name + ".tar.xz")) as archive:
        expected = json.load(archive.extractfile("expected.json"))
        archive.extractall(home.dir, [m for m in archive if m.isfile() and m.name.split("/")[0] in ("store", "spool") and ".." not in m.name])
    for d, st in owners.items():
        for folder, _, files in os.walk(os.path.join(home.dir, d)):
            os.chmod(folder, st.st_mode & 0o7777)
            for path in [folder, *(os.path.join(folder, f) for f in files)]:
                os.chown(path, st.st_uid, st.st_gid)
    return home, expected


def age(home, version):
    subprocess.run([STATES, "age", os.path.join(home.dir, "store"), str(version)], check=True, env=harness.environment())
    os.unlink(os.path.join(home.dir, "store", "lock.mdb"))      # ours; the runtime has another uid


def files_of(home):
    return {p: sha(open(p, "rb").read()) for d, _, names in os.walk(os.path.join(home.dir, "store")) for n in names
            for p in [os.path.join(d, n)] if n not in ("lock", "lock.mdb", "ballast")}


# ---- checks ----

def check_events(rpc, expected):
    events = {e["sequence"]: e for e in rpc.events(after=None)}
    for sequence, known, kind, payload in expected["events"]:
        event = events.get(sequence)
        assert event, f"event {sequence} is missing"
        assert (event["eventId"], event["type"]) == (known, kind), f"event {sequence} is {event['eventId']} {event['type']}, was {known} {kind}"
        now = sha(json.dumps(event.get("payload"), sort_keys=True).encode())[:8]
        assert now == payload, f"the payload of event {sequence}, {kind}, has changed: {json.dumps(event.get('payload'))[:300]}"
    assert sorted(events) == list(range(1, len(events) + 1)), "the log has a gap"


def check_processes(rpc, expected):
    for known, was in expected["processes"].items():
        record = rpc.call("get_process", processId=known)
        assert (record["status"], record.get("exitCode")) == (was["status"], was["exitCode"]), f"{known}: {record['status']} {record.get('exitCode')}, was {was}"
        for name, digest in was["outputs"].items():
            assert sha(rpc.output(record["outputs"][name]["outputRef"])) == digest, f"{known}: its {name} has changed"
        found = [e["sequence"] for e in rpc.events(processId=known)]
        assert found[:len(was["events"])] == was["events"], f"{known}: the index finds {found}, not {was['events']}"


def verify(rpc):
    report = rpc.call("verify_store")
    assert report["ok"] is True, f"verify: {json.dumps(report)[:400]}"


def check(home, expected):
    with home.rpc() as rpc:
        verify(rpc)
        check_events(rpc, expected)
        check_processes(rpc, expected)


def use(home, expected):
    """The upgraded store can be used like any other."""
    with home.rpc() as rpc:
        for n in range(3):
            started, ended = rpc.run(["echo", f"number {n}"], idempotencyKey=f"new-{n}")
            assert ended["exitCode"] == 0 and rpc.outputs(started["processId"])["stdout"] == f"number {n}\n".encode()
        with contextlib.suppress(RpcError):     # the same key with another request is an error; with the same one, the same result
            again = rpc.call("start_process", command=["echo", "hello"], cwd=home.work, idempotencyKey="key-0")["processId"]
            assert again == expected["started"][0] if expected["uid"] == os.geteuid() else True, "a key that was used is forgotten"
        rpc.call("compact_store")
        rpc.call("rebuild_store")
        verify(rpc)
    home.cli("store", "backup", os.path.join(home.dir, "copy"))
    home.restart()
    check(home, expected)
    with home.rpc() as rpc:
        rpc.call("prune_store", beforeSequence=expected["events"][-1][0] // 2)
        verify(rpc)
        assert rpc.run(["true"])[1]["exitCode"] == 0


def kill_during_start(home, ms):
    """Everything dies that many milliseconds after the start."""
    home.spawn()
    time.sleep(ms / 1000)
    below = harness.descendants_of(home.guard.pid)
    home.guard.kill()
    home.guard.wait()
    home.guard = None
    until("nothing of it is left", lambda: not [p for p, s in below if harness.alive(p, s)])


def refused(home):
    """A store of a later version."""
    age(home, 4_000_000)
    before = files_of(home)
    home.spawn()
    status = home.guard.wait(harness.PATIENCE)
    home.guard = None
    log = "".join(home.log())
    assert status != 0 and "version" in log, f"a newer store was not refused: {status}\n{log}"
    assert files_of(home) == before, "a newer store was changed"


def run_case(case, damage=None):
    name, _, what = case.partition(":")
    home, expected = unpacked(name)
    with home:
        if damage:
            damage(home, expected)
        if what == "newer":
            return refused(home)
        if what:
            kill_during_start(home, float(what))
        home.start()
        check(home, expected)
        use(home, expected)
    return None


# ---- known-bad controls ----

def no_upgrade(home, _):
    age(home, 5)


def lost_event(_, expected):
    expected["events"].append([len(expected["events"]) + 100000, "evt_lost", "process.started", ""])


def changed_output(home, _):
    folder = os.path.join(home.dir, "spool")
    path = os.path.join(folder, sorted(os.listdir(folder))[0])
    with open(path, "r+b") as f:
        first = f.read(1)
        f.seek(0)
        f.write(bytes([first[0] ^ 1]))


def run_controls(proof, names):
    caught, controls = 0, [(names[0], no_upgrade, "verify"), (names[-1], lost_event, "is missing"), (names[-1], changed_output, "")]
    for name, damage, how in controls[:1] if proof.as_test else controls:
        try:
            with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
                run_case(name, damage)
        except (AssertionError, RpcError) as e:
            print(f"# control {damage.__name__}: {str(e)[:200]}", file=sys.stdout if proof.as_test else sys.stderr)
            caught += how in str(e)
    return caught, 1 if proof.as_test else len(controls)


def cases(proof, names):
    """Every store, then one of a later version, then kills during the upgrade until the time is over."""
    yield from names if not proof.as_test else [names[0], names[-1]]
    yield f"{names[0]}:newer"
    rng = random.Random(proof.seed)
    while not proof.as_test:
        for name in names:
            yield f"{name}:{rng.uniform(1, KILL_MS):.1f}"


def main():
    proof, names = Proof("old_stores"), all_stores()
    if proof.case:
        run_case(proof.case)
        return 0
    control = run_controls(proof, names)
    for case in cases(proof, names):
        if proof.done >= (3 if proof.as_test else len(names) + 1) and (proof.as_test or not proof.has_time()):
            break
        try:
            run_case(case)
        except (AssertionError, RpcError, Gone, OSError, KeyError, subprocess.SubprocessError):
            proof.fail(case, traceback.format_exc())
        proof.add(1, case)
    return proof.finish("stores of earlier programs open, verify and are upgraded", {"stores": len(names), "formats": ", ".join(names)}, control)


if __name__ == "__main__":
    sys.exit(main())
