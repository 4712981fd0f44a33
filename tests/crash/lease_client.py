"""A client that drives turns of its own, with leases, while the daemon's parts are killed (agent_loop.py).

It runs commands as tool calls of its turns and uses each turn far more often than its lease demands. Then it completes the turn, leaves it to another
connection, or falls silent. Whatever was killed: a lease that is used does not expire, one that is not used expires after its time and not before, the turn
then is lost, only one connection holds a lease, and no command runs twice.
"""

import collections
import datetime
import os
import threading
import time
import traceback

import kill_loop
import harness
from harness import Gone, Rpc, RpcError

LEASE_MS = {"complete": 20000, "leave": 20000, "silent": 250}
CONFLICT, STATE = -32009, -32015


class LeaseClient(kill_loop.Retrying, threading.Thread):
    def __init__(self, home, rng, stop):
        super().__init__(daemon=True)
        self.home, self.rng, self.stop, self.error = home, rng, stop, None
        self.effects = os.path.join(home.work, "leases")
        self.turns, self.did, self.figures = 0, set(), collections.Counter()
        self.guards = 0     # deaths of the guard
        open(self.effects, "w").close()

    def use(self, turn, method="claim_turn", **params):
        """Notes when the lease was used last, at the latest known time before that."""
        used = time.time()
        reply = self.call(method, turnId=turn["turnId"], **params)
        self.used = used
        return reply

    def effect(self, turn, n):
        """A command of the turn. The id of the call makes the request repeatable."""
        line, call = f"L{self.turns}.1.{n}", f"lease-{self.turns}-{n}"
        while True:
            reply = self.use(turn, "invoke_tool", toolName="shell", toolCallId=call, timeoutMs=60000,
                             arguments={"commandLine": f"echo {line} >> {self.effects}; sleep 0.0{self.rng.randrange(10)}", "cwd": self.home.work})
            if reply["status"] != "running":
                break
        self.figures[f"lease calls {reply['status']}"] += 1
        if reply["status"] == "completed":
            self.did.add(line)

    def check_exclusive(self, turn):
        """Another connection is rejected while this one lives. After a restart the first one that uses the turn has it."""
        self.use(turn)
        mine = self.link
        try:
            with Rpc(self.home.socket) as other:
                other.call("claim_turn", turnId=turn["turnId"])
        except (Gone, OSError):
            return
        except RpcError as e:
            assert e.code == CONFLICT or e.data.get("retryable"), e
            return
        try:
            mine.call("list_events", turnId=turn["turnId"], limit=1)
        except (Gone, OSError):
            return  # the runtime has restarted
        except RpcError:
            pass
        raise AssertionError(f"a lease was given to a second client while the first was connected: {turn}")

    def take_over(self, turn):
        """Closes the connection; the next one takes the turn over as soon as that is known."""
        self.link.close()
        self.link = None
        since = time.monotonic()
        while True:
            try:
                return self.use(turn)
            except RpcError as e:
                assert e.code == CONFLICT and time.monotonic() - since < harness.PATIENCE, e
                time.sleep(0.01)

    def events(self, turn):
        return self.call("list_events", turnId=turn["turnId"], limit=1000)["events"]

    def wait_lost(self, turn, lease_ms):
        """Silence: stalled after the lease at the earliest, lost after twice that, and never neither."""
        used, since = self.used, time.monotonic()
        while True:
            events = self.events(turn)
            ends = [e for e in events if e["type"] in ("turn.failed", "turn.completed")]
            if ends:
                break
            if not self.stop.is_set():
                since = time.monotonic()    # each restart begins the interval anew
            assert time.monotonic() - since < harness.PATIENCE, f"the lease of {turn} is held forever: {events}"
            time.sleep(0.02)
        end = ends[0]
        assert end["status"] == "lost" and end["payload"]["category"] == "client_gone", end
        stalled = [e for e in events if e["type"] == "run.status" and e["payload"]["phase"] == "stalled"]
        assert stalled, f"lost without having been stalled: {events}"
        for e, least in ((stalled[-1], lease_ms), (end, 2 * lease_ms)):
            after = (when(e) - used) * 1000
            assert after > least - 5, f"{e['type']} after {after:.0f} ms of a lease of {lease_ms} ms"

    def one(self):
        how = self.rng.choice(tuple(LEASE_MS))
        turn = self.use_new(LEASE_MS[how])
        for n in range(1, self.rng.randrange(2, 4) if how != "silent" else 1):
            self.effect(turn, n)
        if how == "silent":
            self.wait_lost(turn, LEASE_MS[how])
        else:
            self.check_exclusive(turn)
            if how == "leave":
                self.take_over(turn)
            self.end(turn)
        self.figures[f"leases {how}"] += 1
        self.turns += 1

    def use_new(self, lease_ms):
        self.used = time.time()
        return self.call("submit_turn", idempotencyKey=f"lease-{self.turns}", input=[{"type": "text", "text": "mine"}], options={"leaseMs": lease_ms})

    def end(self, turn):
        """Completed, and never stalled, because it was used throughout."""
        since = time.monotonic()
        while True:
            try:
                self.use(turn, "complete_turn")
            except RpcError as e:
                assert e.code == STATE and time.monotonic() - since < harness.PATIENCE, e   # the reply was lost, or a process is just ending
            events = self.events(turn)
            if [e for e in events if e["type"] == "turn.completed"]:
                break
            time.sleep(0.01)
        assert [e["status"] for e in events if e["type"] in ("turn.completed", "turn.failed")] == ["completed"], events
        assert not [e for e in events if e["type"] == "run.status" and e["payload"]["phase"] == "stalled"], f"a lease in use has expired: {events}"

    def run(self):
        try:
            while not self.stop.is_set():
                self.one()
        except Exception:
            self.error = traceback.format_exc()

    def check(self):
        with open(self.effects) as f:
            lines = f.read().split()
        missing = self.did - set(lines)
        assert not missing, f"leases: calls that succeeded without an effect: {sorted(missing)}"
        return lines


def when(event):
    """Seconds since 1970 of an event's timestamp."""
    return datetime.datetime.fromisoformat(event["timestamp"].replace("Z", "+00:00")).timestamp()
