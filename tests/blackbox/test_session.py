"""Every process belongs to a session, a thread and a turn; events and snapshots match the published schemas."""

import harness
from harness import TALKER


def test_session_and_turn_are_created_if_not_given(home):
    with home.rpc() as rpc:
        one, two = rpc.run(["true"])[0], rpc.run(["false"])[0]
        assert one["sessionId"] != two["sessionId"] and one["turnId"] != two["turnId"]
        kinds = [e["type"] for e in rpc.events(turnId=two["turnId"])]
        assert kinds.count("turn.submitted") == kinds.count("turn.started") == kinds.count("turn.failed") == 1, kinds
        kinds = [e["type"] for e in rpc.events(turnId=one["turnId"])]
        assert kinds.count("turn.completed") == 1 and "turn.failed" not in kinds, kinds


def test_given_session_and_thread_ids_are_used(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session", title="work", workspaceId="w1", scope={"repo": "x"})
        one = rpc.run(["true"], sessionId=session["sessionId"])[0]
        two = rpc.run(["true"], sessionId=session["sessionId"], threadId=one["threadId"])[0]
        assert one["sessionId"] == two["sessionId"] == session["sessionId"]
        assert one["threadId"] == two["threadId"] and one["turnId"] != two["turnId"]
        rpc.fails("start_process", {"command": ["true"], "sessionId": session["sessionId"], "threadId": "thr_none"}, code=-32004)
        rpc.fails("start_process", {"command": ["true"], "turnId": one["turnId"]}, code=-32015)
        created = [e for e in rpc.events(sessionId=session["sessionId"]) if e["type"] == "session.created"]
        assert len(created) == 1 and created[0]["payload"]["title"] == "work", created


def test_session_snapshots_are_valid(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session", title="t")["sessionId"]
        started = rpc.run([TALKER, "talk", "1", "10", "0", "0"], sessionId=session)[0]
        rpc.run(["false"], sessionId=session)
        live = rpc.start(["sleep", "1000"], sessionId=session)
        validators = harness.snapshot_validators()
        snapshot = rpc.call("get_session", sessionId=session)
        harness.validate(validators, [snapshot])
        assert snapshot["sessionId"] == session, snapshot
        thread = rpc.call("get_thread_read", threadId=started["threadId"])
        assert {"sessionId", "runtimeId", "schemaVersion", "updatedAt"} <= set(thread), thread
        assert [t["turnId"] for t in thread["turns"]] == [started["turnId"]], thread
        running = rpc.call("get_thread_read", threadId=live["threadId"])
        assert running["status"] == "running", running
        rpc.call("terminate_process", processId=live["processId"])
        harness.validate(validators, [rpc.call("get_session", sessionId=session)])
        rpc.fails("get_session", {"sessionId": "sess_none"}, code=-32004)
        rpc.fails("get_thread_read", {"threadId": "thr_none"}, code=-32004)


def test_list_sessions_returns_sessions(home):
    with home.rpc() as rpc:
        made = [rpc.call("create_session", title=str(n))["sessionId"] for n in range(5)]
        listed = [s["sessionId"] for s in rpc.call("list_sessions")["sessions"] if s.get("title", "") in "01234" and s.get("title")]
        assert listed == made[::-1], listed
        page = rpc.call("list_sessions", limit=2)
        assert len(page["sessions"]) == 2 and page["nextCursor"], page
        rest = rpc.call("list_sessions", cursor=page["nextCursor"])["sessions"]
        assert [s["sessionId"] for s in rest][:3] == made[2::-1], rest
        for wrong in ("sess_none", "no id", ""):
            assert rpc.fails("list_sessions", {"cursor": wrong}, code=-32602).data["field"] == "cursor", wrong


def test_every_event_is_valid(home):
    """Under both published schemas: completed, failed, terminated, timed out, lost, cut and spilled."""
    with home.rpc() as rpc:
        rpc.run(["true"])
        rpc.run("kill -9 $$")
        rpc.fails("start_process", {"command": ["/no/such"]})
        rpc.run(["sleep", "100"], limits={"wallMs": 50})
        rpc.run([TALKER, "spew", "1", "500000"], limits={"outputBytes": 10000})
        process = rpc.start(["cat"], stdin="pipe")["processId"]
        rpc.call("write_process_stdin", processId=process, data="x")
        rpc.call("terminate_process", processId=process)
        rpc.start(["sleep", "1000"])
        harness.validate(harness.event_validators(), rpc.events())
    import signal
    home.note_tree()
    home.stop(signal.SIGKILL)
    home.start()
    with home.rpc() as rpc:
        log = rpc.events()
        harness.validate(harness.event_validators(), log)
        harness.check_log(log)
        assert [e for e in log if e.get("status") == "lost" and e["type"] == "process.failed"]
        for session in {e["sessionId"] for e in log}:
            harness.validate(harness.snapshot_validators(), [rpc.call("get_session", sessionId=session)])


def test_schemas_reject_malformed_events(home):
    """The known-bad control of every validation here."""
    with home.rpc() as rpc:
        rpc.run(["true"])
        good = next(e for e in rpc.events() if e["type"] == "turn.started")
    validators = harness.event_validators()
    harness.validate(validators, [good])
    for bad in ({k: v for k, v in good.items() if k != "sessionId"}, {k: v for k, v in good.items() if k != "turnId"}, dict(good, type="no.such"),
                dict(good, payload=[]), dict(good, sequence="1"), dict(good, payload={}), dict(good, threadId=5)):
        try:
            harness.validate(validators, [bad])
        except AssertionError:
            continue
        raise AssertionError(f"passes: {bad}")


def test_timestamps_and_ids_have_their_format(home):
    with home.rpc() as rpc:
        rpc.run("echo x")
        log = rpc.events()
        times = [e["timestamp"] for e in log]
        assert all(len(t) == len("2026-01-01T00:00:00.000000Z") and t.endswith("Z") for t in times), times[0]
        for member, prefix in (("eventId", "evt_"), ("sessionId", "sess_"), ("threadId", "thr_"), ("turnId", "turn_"), ("processId", "proc_"), ("runtimeId", "rt_")):
            assert all(e[member].startswith(prefix) for e in log if member in e), member
        ids = [e["eventId"] for e in log]
        assert ids == sorted(ids), "ids sort by time"


if __name__ == "__main__":
    harness.main(globals())
