"""Makes an archive of tests/prove/stores with the programs of an earlier commit, for old_stores.py.

    BUILD=/path/to/its/build python3 tests/prove/make_old_store.py NAME COMMIT [stopped|killed]...      writes NAME-stopped.tar.xz ...

Run it before a change of STORE_VERSION or VIEW_VERSION is committed, with the programs of the last commit that writes the earlier format. NAME is s, the
version of the store, -v, that of the read models. The archive has the store as an orderly stop left it, or as SIGKILL of everything did, with
facts in the journal; and `expected.json`: what the daemon that wrote it had reported.
"""

import contextlib
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "blackbox"))
import harness                                              # noqa: E402
from harness import Gone, Home, RpcError, until             # noqa: E402

STORES = os.path.join(HERE, "stores")
# Relevant to later formats: every kind of document, small and large output, keys, an approval, what earlier programs had of each.
RUNS = (["echo", "hello"], ["sh", "-c", "seq 1 4000; echo problem >&2; exit 3"], ["sh", "-c", "printf '%0100000d' 7"], ["false"])


def attempt(rpc, method, **params):
    """A call that earlier programs may not have."""
    with contextlib.suppress(RpcError):
        return rpc.call(method, **params)
    return None


def fill(rpc, work, count):
    for n, command in enumerate(RUNS):
        known = rpc.call("start_process", command=command, cwd=work, idempotencyKey=f"key-{n}")["processId"]
        rpc.wait(known)
    for n in range(count):
        rpc.wait(rpc.call("start_process", command=["true"], cwd=work)["processId"])
    session = attempt(rpc, "create_session", title="old", idempotencyKey="session")
    thread = session and session.get("threadId")
    if session:
        turn = attempt(rpc, "submit_turn", sessionId=session["sessionId"], input=[{"type": "text", "text": "do it"}], **({"threadId": thread} if thread else {}))
        if turn:
            attempt(rpc, "emit_events", events=[{"type": "message.delta", "turnId": turn["turnId"], "payload": {"text": "some text"}}])
            attempt(rpc, "complete_turn", turnId=turn["turnId"])
    task = attempt(rpc, "create_task", objective="old", commandLine="echo task", cwd=work, autoComplete=True)
    if task and attempt(rpc, "start_task", taskId=task["taskId"]):
        until("the task ends", lambda: rpc.call("get_task", taskId=task["taskId"])["status"] in ("completed", "failed"))
    job = attempt(rpc, "create_job", items=[{"itemId": "a"}], commandLine="echo {itemId}", cwd=work)
    if job:
        until("the job ends", lambda: rpc.call("get_job", jobId=job["jobId"])["status"] in ("completed", "failed"))
    action = attempt(rpc, "request_action", kind="question", prompt="which?")
    if action:
        attempt(rpc, "respond_action", actionId=action["actionId"], decision="allow")


def sha(data):
    return hashlib.sha256(data).hexdigest()


def describe(rpc, commit):
    """The state that every later program must read from the store."""
    events = rpc.events()
    processes = {}
    for known in {e["processId"]: 1 for e in events if e.get("processId")}:
        record = rpc.call("get_process", processId=known)
        outputs = {name: sha(rpc.output(o["outputRef"])) for name, o in record.get("outputs", {}).items()}
        processes[known] = {"status": record["status"], "exitCode": record.get("exitCode"), "outputs": outputs,
                            "events": [e["sequence"] for e in events if e.get("processId") == known]}
    keys = {e["processId"]: e["sequence"] for e in events if e["type"] == "process.started"}
    assert not any(harness.BUILD in json.dumps(e) for e in events), "an event has a path of this machine"
    return {"commit": commit, "events": [[e["sequence"], e["eventId"], e["type"], sha(json.dumps(e.get("payload"), sort_keys=True).encode())[:8]] for e in events],
            "processes": processes, "started": list(keys)[:len(RUNS)], "uid": os.geteuid()}


def pack(home, name, expected):
    """Files without owners, times and machine paths; what is not data is left out."""
    os.makedirs(STORES, exist_ok=True)
    with tarfile.open(os.path.join(STORES, f"{name}.tar.xz"), "w:xz", preset=9) as archive:
        def add(info, data):
            info.size, info.mtime, info.uid, info.gid, info.uname, info.gname = len(data), 0, 0, 0, "", ""
            archive.addfile(info, io.BytesIO(data))
        add(tarfile.TarInfo("expected.json"), json.dumps(expected).encode())
        for folder in ("store", "spool"):
            for d, _, files in sorted(os.walk(os.path.join(home.dir, folder))):
                for f in sorted(files):
                    path = os.path.join(d, f)
                    if f in ("lock.mdb", "ballast"):
                        continue
                    with open(path, "rb") as data:
                        add(tarfile.TarInfo(os.path.relpath(path, home.dir)), data.read())


def make(name, how, commit):
    for options in (("--audit", "off"), ()):
        home = Home(start=False, options=options)
        try:
            home.start()
            break
        except AssertionError:      # an earlier program lacks the option
            if not options:
                raise
    with home.rpc() as rpc:
        fill(rpc, home.work, 20)
        expected = describe(rpc, commit)
        if how == "killed":
            last = rpc.call("start_process", command=["echo", "last"], cwd=home.work)["processId"]
            rpc.wait(last)
            os.killpg(home.guard.pid, signal.SIGSTOP)
            for pid, _ in harness.descendants_of(home.guard.pid):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGSTOP)
    if how == "stopped":
        home.stop()
    pack(home, f"{name}-{how}", expected)
    if home.guard:
        below = harness.descendants_of(home.guard.pid)
        for pid, _ in [*below, (home.guard.pid, 0)]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        home.guard.wait()
    subprocess.run(["rm", "-rf", home.dir], check=True)


if __name__ == "__main__":
    for how in sys.argv[3:] or ("stopped", "killed"):
        make(sys.argv[1], how, sys.argv[2])
