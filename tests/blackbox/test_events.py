"""The log as clients see it: subscriptions that resume anywhere, slow readers, what clients may write."""

import random
import socket

import os

import harness
from harness import until


class Model:
    """An independent client: takes events as they come and insists that each is the next one."""

    def __init__(self, after):
        self.last, self.events = after, []

    def take(self, event):
        assert event["sequence"] > self.last, f"sequence {event['sequence']} after {self.last}: twice or out of order"
        assert event["sequence"] == self.last + 1, f"a gap: {event['sequence']} after {self.last}"
        self.last = event["sequence"]
        self.events.append(event)


def take_until(rpc, model, sequence):
    while model.last < sequence:
        event = rpc.event()
        assert event, f"no event after {model.last}, expected up to {sequence}"
        model.take(event)


def last_sequence(rpc):
    return rpc.call("initialize")["lastSequence"]


def test_subscription_sends_the_log_and_then_live_events(home):
    with home.rpc() as rpc, home.rpc() as sub:
        rpc.run("echo a")
        model = Model(0)
        assert sub.call("subscribe_events", afterSequence=0)["subscriptionId"]
        take_until(sub, model, last_sequence(rpc))
        rpc.run("echo b")
        take_until(sub, model, last_sequence(rpc))
        assert model.events == rpc.events()


def test_subscription_without_a_sequence_sends_only_live_events(home):
    with home.rpc() as rpc, home.rpc() as sub:
        rpc.run("echo a")
        last = last_sequence(rpc)
        sub.call("subscribe_events")
        rpc.run("echo b")
        assert sub.event()["sequence"] > last


def test_one_request_starts_and_follows(home):
    with home.rpc() as rpc:
        started = rpc.call("start_process", command=["echo", "hi"], subscribe=True)
        seen = []
        while not seen or seen[-1]["type"] != "process.completed":
            seen.append(rpc.event())
        assert seen == rpc.events(after=started["sequence"], processId=started["processId"])
        rpc.call("unsubscribe_events", subscriptionId=started["subscriptionId"])
        assert rpc.fails("start_process", command=["true"], subscribe=True, yieldMs=10).data["field"] == "subscribe"


def test_resume_from_every_sequence(home):
    with home.rpc() as rpc:
        for n in range(3):
            rpc.run(f"echo {n}; exit {n}")
        log = rpc.events()
        for after in range(0, len(log) + 1):
            with home.rpc() as sub:
                sub.call("subscribe_events", afterSequence=after)
                model = Model(after)
                take_until(sub, model, len(log))
                assert model.events == log[after:]


def test_resume_across_connections_and_restarts(home):
    """A client that is cut off at random resumes where it was: each event once, in order."""
    rng, model = random.Random(4711), Model(0)
    rpc = home.rpc()
    for round_ in range(12):
        for n in range(rng.randrange(1, 4)):
            rpc.run(f"echo {round_}-{n}")
        target = last_sequence(rpc)
        if round_ % 4 == 3:
            rpc.close()
            if round_ % 8 == 3:
                home.kill_part("runtime")
            else:
                home.restart()
            until("it answers", home.answers)
            rpc = home.rpc()
        with home.rpc() as sub:
            sub.call("subscribe_events", afterSequence=model.last)
            stop = target if round_ % 3 else rng.randrange(model.last, target + 1)
            take_until(sub, model, stop)
    with home.rpc() as sub:
        sub.call("subscribe_events", afterSequence=model.last)
        take_until(sub, model, last_sequence(rpc))
    assert model.events == rpc.events()
    rpc.close()


def test_filters_select_events_by_id_and_type(home):
    with home.rpc() as rpc, home.rpc() as sub:
        one, _ = rpc.run("echo one")
        two, _ = rpc.run("echo two")
        log = rpc.events()
        for params, keep in (({"processId": one["processId"]}, lambda e: e.get("processId") == one["processId"]),
                             ({"sessionId": two["sessionId"]}, lambda e: e["sessionId"] == two["sessionId"]),
                             ({"types": ["process.*"]}, lambda e: e["type"].startswith("process.")),
                             ({"types": ["turn.started", "process.completed"]}, lambda e: e["type"] in ("turn.started", "process.completed")),
                             ({"turnId": one["turnId"], "types": ["turn.*"]}, lambda e: e.get("turnId") == one["turnId"] and e["type"].startswith("turn."))):
            expected = [e for e in log if keep(e)]
            assert expected and rpc.events(**params) == expected, params
            sub_id = sub.call("subscribe_events", afterSequence=0, **params)["subscriptionId"]
            got = [sub.event() for _ in expected]
            assert got == expected, params
            sub.call("unsubscribe_events", subscriptionId=sub_id)
        sub.fails("unsubscribe_events", {"subscriptionId": sub_id})


def test_list_events_returns_pages_in_both_orders(home):
    with home.rpc() as rpc:
        for n in range(4):
            rpc.run("true")
        log = rpc.events()
        page = rpc.call("list_events", limit=5)
        assert page["events"] == log[:5] and page["hasMore"] is True, page
        assert (page["firstSequence"], page["lastSequence"]) == (1, len(log)) or page["firstSequence"] == 1, page
        page = rpc.call("list_events", afterSequence=5, beforeSequence=9)
        assert page["events"] == log[5:8], [e["sequence"] for e in page["events"]]
        assert rpc.call("list_events", afterSequence=len(log))["events"] == []
        newest, before = [], None
        while before is None or page["hasMore"]:
            page = rpc.call("list_events", order="desc", limit=3, **({} if before is None else {"beforeSequence": before}))
            newest += page["events"]
            before = page["events"][-1]["sequence"]
        assert newest == log[::-1], [e["sequence"] for e in newest]
        rpc.fails("list_events", order="down")


def test_several_subscriptions_on_one_connection(home):
    with home.rpc() as rpc, home.rpc() as sub:
        ids = [sub.call("subscribe_events", afterSequence=0)["subscriptionId"] for _ in range(3)]
        assert len(set(ids)) == 3
        rpc.run("echo x")
        last, seen = last_sequence(rpc), {i: Model(0) for i in ids}
        while any(m.last < last for m in seen.values()):
            assert sub.notes or sub.pump(), "no event"
            if sub.notes:
                note = sub.notes.popleft()["params"]
                seen[note["subscriptionId"]].take(note["event"])


def test_reader_that_never_reads_delays_no_other_client(home):
    with home.rpc() as rpc, home.rpc() as sub:
        session = rpc.call("create_session")["sessionId"]
        stuck = [home.rpc() for _ in range(3)]
        for s in stuck:
            s.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.send("subscribe_events", afterSequence=0)
        runtime = home.part("runtime")
        model, before = Model(0), rss(runtime)
        sub.call("subscribe_events", afterSequence=0)
        body = {"type": "run.status", "payload": {"phase": "running", "title": "x" * 800}}
        for _ in range(60):
            rpc.call("emit_events", sessionId=session, events=[body] * 100)
        take_until(sub, model, last_sequence(rpc))
        grown = rss(runtime) - before
        print(f"# the runtime grew by {grown >> 10} KiB with 3 subscribers that never read 6,000 events")
        # One of them now reads: everything, once, in order.
        late = Model(0)
        take_until(stuck[0], late, model.last)
        assert late.events == model.events
        for s in stuck:
            s.close()


def rss(pid):
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) << 10
    return 0


def test_emitted_events_are_appended_and_valid(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session", title="t")["sessionId"]
        result = rpc.call("emit_events", sessionId=session, events=[
            {"type": "run.status", "payload": {"phase": "running", "title": "hello"}},
            {"type": "artifact.changed", "artifactId": "art_1", "payload": {"change": "added"}}])
        events = rpc.events(sessionId=session)
        assert events[-1]["sequence"] == result["sequence"] and events[-1]["type"] == "artifact.changed", events[-1]
        harness.validate(harness.event_validators(), events)


def test_emit_rejects_event_types_of_the_runtime(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        before = rpc.events()
        for kind in ("process.started", "process.completed", "sandbox.applied", "permission.evaluated", "action.resolved", "turn.completed",
                     "session.created", "no.such.type", ""):
            rpc.fails("emit_events", {"sessionId": session, "events": [{"type": "run.status", "payload": {"phase": "x"}},
                                                                      {"type": kind, "payload": {}}]})
        rpc.fails("emit_events", {"sessionId": "sess_none", "events": [{"type": "run.status", "payload": {}}]}, code=-32004)
        rpc.fails("emit_events", {"sessionId": session, "events": [{"payload": {}}]}, code=-32602)
        rpc.fails("emit_events", {"sessionId": session, "events": [5]}, code=-32602)
        rpc.fails("emit_events", {"sessionId": session, "events": [{"type": "run.status", "payload": {"x": "y" * 100000}}]})
        assert rpc.events() == before, "all or none"


def origins():
    """The allowed writers of each event type, by the table in docs/events.md."""
    with open(os.path.join(harness.ROOT, "docs", "events.md"), encoding="utf-8") as f:
        rows = [[c.strip() for c in line.split("|")] for line in f if line.startswith("| `")]
    return {r[1].strip("`").split("`")[0]: r[5] for r in rows}


def test_emit_accepts_exactly_the_event_types_of_clients(home):
    table = origins()
    assert len(table) > 120 and set(table.values()) == {"runtime", "client", "owner"}, sorted(set(table.values()))
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[{"type": "text", "text": "x"}])
        ids = {"threadId": turn["threadId"], "turnId": turn["turnId"], "evidenceId": "ev_1", "artifactId": "art_1"}
        payload = {"phase": "x", "amount": 1, "currency": "USD", "change": "added"}
        refused, before = 0, rpc.events()
        for kind in sorted(table):
            if table[kind] != "client":
                rpc.fails("emit_events", {"sessionId": turn["sessionId"], "events": [dict(ids, type=kind, payload=payload)]}, code=-32003)
                refused += 1
        assert rpc.events() == before and refused > 100, refused
        for kind in sorted(k for k in table if table[k] == "client"):
            rpc.call("emit_events", sessionId=turn["sessionId"], events=[dict(ids, type=kind, payload=payload)])
        said = rpc.events()[len(before):]
        assert {e["type"] for e in said if "emittedBy" in (e.get("correlation") or {})} == {k for k in table if table[k] == "client"}, said
        assert rpc.call("get_thread_read", threadId=turn["threadId"])["turns"][0]["status"] == "running", "an emitted event changes no status"
        harness.validate(harness.event_validators(), said)
    with home.rpc() as rpc:
        rpc.call("initialize", role="observer")
        for method in rpc.call("list_methods")["methods"]:
            if method["role"] != "observer":
                rpc.fails(method["name"], {}, code=-32003)
            else:
                assert method["name"] in ("initialize",) or not method.get("mutating"), method


def test_emit_rejects_ids_of_other_sessions(home):
    with home.rpc() as rpc:
        mine, other = (rpc.call("submit_turn", input=[{"type": "text", "text": "x"}]) for _ in range(2))
        before = rpc.events()
        for ids, field in (({"turnId": other["turnId"], "threadId": mine["threadId"]}, "turnId"), ({"threadId": other["threadId"]}, "threadId"),
                           ({"turnId": "turn_none"}, "turnId"), ({"taskId": "task_none"}, "taskId"), ({"processId": "proc_none"}, "processId")):
            error = rpc.fails("emit_events", {"sessionId": mine["sessionId"], "events": [
                {"type": "run.status", "payload": {"phase": "x"}}, dict(ids, type="run.status", payload={"phase": "x"})]}, code=-32004)
            assert error.data["field"] == f"events[1].{field}", error.data
        assert rpc.events() == before
        # Clients name their requests to models themselves; the same name in another session is another request.
        for turn in (mine, other):
            about = {k: turn[k] for k in ("turnId", "threadId")}
            rpc.call("emit_events", sessionId=turn["sessionId"], events=[dict(about, type="model.requested", modelRequestId="mr", payload={})])
        rpc.call("emit_events", sessionId=mine["sessionId"], events=[dict(type="model.completed", modelRequestId="mr", payload={}, **{
            k: mine[k] for k in ("turnId", "threadId")})])
        rpc.call("emit_events", sessionId=other["sessionId"], events=[dict(about, type="model.delta", modelRequestId="mr", payload={"text": "still"})])


def test_pruned_sequence_is_reported_as_expired(home):
    with home.rpc() as rpc:
        for n in range(10):
            rpc.run("echo x")
        last = last_sequence(rpc)
        rpc.call("prune_store", beforeSequence=last - 5)
        first = rpc.call("list_events", limit=1)["firstSequence"]
        assert first > 1, first
        error = rpc.fails("list_events", {"afterSequence": 0}, code=-32013)
        assert error.data["category"] == "sequence_expired", error.data
        error = rpc.fails("subscribe_events", {"afterSequence": first - 2}, code=-32013)
        assert error.data["firstSequence"] == first and error.data["recoveryMode"] == "snapshot_then_events", error.data
        with home.rpc() as sub:
            sub.call("subscribe_events", afterSequence=first - 1)
            model = Model(first - 1)
            take_until(sub, model, last_sequence(rpc))
        assert rpc.call("verify_store")["ok"] is True, rpc.call("verify_store")
    home.restart()
    with home.rpc() as rpc:
        rpc.fails("list_events", {"afterSequence": 0}, code=-32013)
        assert rpc.call("verify_store")["ok"] is True


def test_events_follow_on_the_command_line(home):
    follow = home.cli_start("events", "-f", "--json", "--since", "0", "--type", "process.*")
    home.cli("run", "--", "echo", "hi")
    import json
    types = []
    while "process.completed" not in types:
        line = follow.stdout.readline()
        assert line, follow.stderr.read()
        types.append(json.loads(line)["type"])
    home.kill_part("runtime")
    until("it answers", home.answers)
    home.cli("run", "--", "echo", "again")
    while types.count("process.completed") < 2:
        line = follow.stdout.readline()
        assert line, follow.stderr.read()
        types.append(json.loads(line)["type"])
    assert types.count("process.started") == 2
    follow.terminate()
    follow.communicate()


if __name__ == "__main__":
    harness.main(globals())
