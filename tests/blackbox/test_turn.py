"""Turns: run by the execution loop or driven by their client, one at a time on a thread, across restarts."""

import os
import random
import time

import harness
from harness import until, valid


def command(line, **more):
    return {"type": "command", "commandLine": line, **more}


def text(words):
    return {"type": "text", "text": words}


def types(rpc, **about):
    return [e["type"] for e in rpc.events(**about)]


def thread(rpc, turn):
    return rpc.call("get_thread_read", threadId=turn["threadId"])


def turn_of(rpc, turn):
    return [t for t in thread(rpc, turn)["turns"] if t["turnId"] == turn["turnId"]][0]


def ended(rpc, turn):
    return until("the turn ends", lambda: (t := turn_of(rpc, turn)) and "completedAt" in t and t)


def test_parts_of_a_turn_run_in_order(home):
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[command("echo one"), command("echo two"), command("echo three")])
        assert turn["status"] == "accepted", turn
        done = ended(rpc, turn)
        assert done["status"] == "completed" and done["driver"] == "runtime", done
        assert [s["kind"] for s in done["steps"]] == ["command"] * 3 and all(s["status"] == "completed" for s in done["steps"]), done
        calls = thread(rpc, turn)["toolCalls"]
        assert [c["displayPreview"] for c in calls] == ["one\n", "two\n", "three\n"], calls
        assert [rpc.output(c["rawOutputRef"]) for c in calls] == [b"one\n", b"two\n", b"three\n"], calls
        kinds = types(rpc, turnId=turn["turnId"])
        for kind in ("turn.submitted", "turn.started", "context.resolved", "run.status", "tool.catalog.resolved", "turn.completed"):
            assert kinds.count(kind) == 1, (kind, kinds)
        assert kinds.count("tool.started") == kinds.count("tool.args") == kinds.count("tool.result") == 3, kinds
        started = [e for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "turn.started"][0]["payload"]
        assert {"cwd", "shell", "os", "arch", "sandbox", "network", "limits"} <= set(started["executionEnvironment"]), started
        valid(home, rpc)


def test_failed_part_fails_the_turn(home):
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[command("exit 3"), command("echo never")])
        done = ended(rpc, turn)
        assert done["status"] == "failed" and done["category"] == "exit", done
        assert types(rpc, turnId=turn["turnId"]).count("tool.started") == 1
        failed = [e for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "tool.failed"][0]["payload"]
        assert failed["exitCode"] == 3 and failed["advice"] and failed["sandboxRef"] and failed["permissionRef"], failed
        turn = rpc.call("submit_turn", input=[command("exit 3"), command("echo still")], options={"stopOnFailure": False})
        done = ended(rpc, turn)
        assert done["status"] == "failed" and "1 of 2" in done["message"], done
        assert types(rpc, turnId=turn["turnId"]).count("tool.result") == 1
        valid(home, rpc)


def test_turn_with_text_is_driven_by_the_client(home):
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[text("what is the time?"), command("echo 5")])
        until("the command ran", lambda: "tool.result" in types(rpc, turnId=turn["turnId"]))
        state = turn_of(rpc, turn)
        assert state["status"] == "running" and state["driver"] == "client", state
        assert state["steps"][0]["kind"] == "message", state
        process = rpc.start(["sleep", "1000"], turnId=turn["turnId"])["processId"]
        refused = rpc.fails("complete_turn", {"turnId": turn["turnId"]}, code=-32015)
        assert process in str(refused), refused
        rpc.call("terminate_process", processId=process)
        assert rpc.call("complete_turn", turnId=turn["turnId"], summary="five", usage={"inputTokens": 1})["status"] == "completed"
        rpc.fails("complete_turn", {"turnId": turn["turnId"]}, code=-32015)
        turn = rpc.call("submit_turn", input=[text("again")])
        rpc.start(["sleep", "1000"], turnId=turn["turnId"])
        failed = rpc.call("fail_turn", turnId=turn["turnId"], category="model", message="no answer", retryable=True)
        assert failed["status"] == "failed", failed
        assert turn_of(rpc, turn)["category"] == "model", turn_of(rpc, turn)
        loop = rpc.call("submit_turn", input=[command("sleep 1000")])
        rpc.fails("complete_turn", {"turnId": loop["turnId"]}, code=-32015)
        rpc.call("interrupt_turn", turnId=loop["turnId"])
        valid(home, rpc)


def test_repeated_turn_id_returns_the_same_turn(home):
    with home.rpc() as rpc:
        one = rpc.call("submit_turn", turnId="turn-a", input=[command("echo x")])
        ended(rpc, one)
        again = rpc.call("submit_turn", turnId="turn-a", input=[command("echo x")])
        assert again["threadId"] == one["threadId"] and again["status"] == "completed", again
        assert types(rpc, turnId="turn-a").count("turn.submitted") == 1
        rpc.fails("submit_turn", {"turnId": "turn-a", "input": [command("echo y")]}, code=-32009)


def test_invalid_input_names_the_field(home):
    with home.rpc() as rpc:
        for bad, field in (([], "input"), ([{"type": "x"}], "input[0].type"), ([text("a"), {"type": "text"}], "input[1].text"),
                           ([{"type": "command"}], "input[0].command"), ([{"type": "tool_call", "toolName": "no"}], "input[0].toolName"),
                           ([command("x", cwd="relative")], "input[0].cwd")):
            e = rpc.fails("submit_turn", {"input": bad})
            assert e.data.get("field") == field, (bad, e)
        rpc.fails("submit_turn", {"threadId": "thr_none", "input": [text("x")]}, code=-32004)


def test_turns_of_a_thread_are_queued(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        first = rpc.call("submit_turn", sessionId=session, input=[text("first")])
        second, third, fourth = (rpc.call("submit_turn", sessionId=session, input=[command("echo %d" % n)]) for n in (2, 3, 4))
        assert [t["status"] for t in (second, third, fourth)] == ["queued"] * 3 and second["queuedTurnId"] == second["turnId"]
        rpc.fails("submit_turn", {"sessionId": session, "input": [text("x")], "options": {"whenBusy": "reject"}}, code=-32009)
        rpc.fails("start_process", {"command": ["true"], "threadId": first["threadId"]}, code=-32009)
        order = rpc.call("promote_queued_turn", queuedTurnId=fourth["queuedTurnId"])["order"]
        assert order == [fourth["turnId"], second["turnId"], third["turnId"]], order
        assert [q["turnId"] for q in thread(rpc, first)["queuedTurns"]] == order
        queue = rpc.call("get_snapshot", kind="queue_snapshot", threadId=first["threadId"])["snapshot"]
        assert queue["queuePolicy"] == "in_order" and queue["queuedTurns"][0]["source"] == "client" and queue["queuedTurns"][0]["submittedAt"], queue
        assert rpc.fails("remove_queued_turn", {}, code=-32602).data["field"] == "queuedTurnId"
        rpc.fails("remove_queued_turn", {"queuedTurnId": second["turnId"], "turnId": third["turnId"]}, code=-32602)
        removed = rpc.call("remove_queued_turn", turnId=second["turnId"])
        assert removed["order"] == [fourth["turnId"], third["turnId"]], removed
        assert turn_of(rpc, second)["status"] == "cancelled", turn_of(rpc, second)
        rpc.fails("promote_queued_turn", {"turnId": second["turnId"]}, code=-32015)
        rpc.call("complete_turn", turnId=first["turnId"])
        assert ended(rpc, fourth)["startedAt"] < ended(rpc, third)["startedAt"]
        changes = [e["payload"]["change"] for e in rpc.events(sessionId=session) if e["type"] == "queue.changed"]
        assert changes == ["queued"] * 3 + ["promoted", "removed", "taken", "taken"], changes
        valid(home, rpc)


def test_threads_of_a_session_run_independently(home):
    with home.rpc() as rpc:
        first = rpc.call("submit_turn", input=[text("a")])
        beside = rpc.call("submit_turn", sessionId=first["sessionId"], newThread=True, turnId="turn_beside", input=[text("b")])
        assert beside["status"] == "accepted" and beside["threadId"] != first["threadId"], beside
        again = rpc.call("submit_turn", sessionId=first["sessionId"], newThread=True, turnId="turn_beside", input=[text("b")])
        assert again["threadId"] == beside["threadId"], "a retry makes no further thread"
        session = rpc.call("get_session", sessionId=first["sessionId"])
        assert sorted(session["activeThreadIds"]) == sorted([first["threadId"], beside["threadId"]]), session["activeThreadIds"]
        rpc.call("complete_turn", turnId=first["turnId"])
        assert rpc.call("get_session", sessionId=first["sessionId"])["activeThreadIds"] == [beside["threadId"]]
        both = {"threadId": beside["threadId"], "newThread": True, "input": [text("c")]}
        assert rpc.fails("submit_turn", both, code=-32602).data["field"] == "newThread"
        valid(home, rpc)


def test_interrupt_ends_the_running_part(home):
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[command("sleep 1000"), command("echo never")])
        behind = rpc.call("submit_turn", threadId=turn["threadId"], input=[command("echo never")])
        process = until("it runs", lambda: turn_of(rpc, turn)["processes"])[0]["processId"]
        done = rpc.call("interrupt_turn", sessionId=turn["sessionId"], reason="user", clearQueue=True)
        assert done["status"] == "interrupted" and done["processes"] == [process], done
        assert [turn_of(rpc, t)["status"] for t in (turn, behind)] == ["cancelled", "cancelled"], thread(rpc, turn)
        assert rpc.call("get_process", processId=process)["status"] == "terminated"
        events = rpc.events(turnId=turn["turnId"])
        failed = [e for e in events if e["type"] == "tool.failed"][0]
        assert failed["status"] == "cancelled" and failed["payload"]["category"] == "cancelled", failed
        assert [e["payload"]["phase"] for e in events if e["type"] == "run.status"] == ["running", "cancelling"]
        assert rpc.call("interrupt_turn", turnId=turn["turnId"])["status"] == "no_op"
        own = rpc.start(["sleep", "1000"])
        assert rpc.call("interrupt_turn", turnId=own["turnId"])["status"] == "interrupted"
        assert turn_of(rpc, own)["status"] == "cancelled"
        valid(home, rpc)


def test_turn_and_queue_survive_the_death_of_the_runtime(home):
    """The turn continues where it was; so does its queue, since the turn before it is proved alive."""
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[command("read x < /dev/zero; sleep 0.2; echo one"), command("echo two")])
        behind = rpc.call("submit_turn", threadId=turn["threadId"], input=[command("echo three")])
        until("it runs", lambda: turn_of(rpc, turn)["processes"])
    home.kill_part("runtime")
    until("the runtime is back", home.answers)
    with home.rpc() as rpc:
        assert rpc.call("interrupt_turn", turnId=turn["turnId"])["status"] == "interrupted"
        assert ended(rpc, turn)["status"] == "cancelled"
        assert ended(rpc, behind)["status"] == "completed"
        valid(home, rpc)


def test_client_turn_survives_a_crash_and_its_queue_is_held(home):
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[text("a")])
        behind, last = (rpc.call("submit_turn", threadId=turn["threadId"], input=[command("echo %d" % n)]) for n in (1, 2))
        rpc.call("promote_queued_turn", turnId=last["turnId"])
    for restart in (lambda: home.kill_part("runtime"), home.restart):
        restart()
        until("the daemon is back", home.answers)
        with home.rpc() as rpc:
            state = thread(rpc, turn)
            assert state["resumeState"] == "held" and [q["turnId"] for q in state["queuedTurns"]] == [last["turnId"], behind["turnId"]], state
            assert state["activeTurnId"] == turn["turnId"], state
    with home.rpc() as rpc:
        rpc.call("complete_turn", turnId=turn["turnId"])
        assert turn_of(rpc, last)["status"] == "queued"
        assert rpc.call("resume_thread", threadId=turn["threadId"])["status"] == "resumed"
        ended(rpc, last)
        ended(rpc, behind)
        assert rpc.call("resume_thread", threadId=turn["threadId"])["status"] == "no_op"
        valid(home, rpc)


def test_orderly_stop_holds_the_queue(home):
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[command("sleep 1000"), command("echo never")])
        behind = rpc.call("submit_turn", threadId=turn["threadId"], input=[command("echo later")])
        until("it runs", lambda: turn_of(rpc, turn)["processes"])
    home.restart()
    with home.rpc() as rpc:
        assert ended(rpc, turn)["status"] == "cancelled"
        state = thread(rpc, turn)
        assert state["resumeState"] == "held" and turn_of(rpc, behind)["status"] == "queued", state
        rpc.call("resume_thread", sessionId=turn["sessionId"])
        assert ended(rpc, behind)["status"] == "completed"
        valid(home, rpc)


def test_every_part_runs_once_whenever_the_runtime_dies(home):
    """Killed at moments spread over a turn's life; each part writes a line, and each line is there once."""
    parts, turns = 4, 10
    log = os.path.join(home.work, "log")
    rng = random.Random(5)
    with home.rpc() as rpc:
        begun = time.monotonic()
        probe = rpc.call("submit_turn", input=[command("true") for _ in range(parts)])
        ended(rpc, probe)
        length = time.monotonic() - begun
    for n in range(turns):
        with home.rpc() as rpc:
            turn = rpc.call("submit_turn", turnId=f"turn-{n}", input=[command(f"echo {n}.{k} >> log") for k in range(parts)],
                            options={"cwd": home.work, "sandbox": {"workspace": home.work}})
            time.sleep(rng.random() * length)
        home.kill_part("runtime")
        until("the runtime is back", home.answers)
        with home.rpc() as rpc:
            done = ended(rpc, turn)
            assert done["status"] == "completed", (done["statusReason"], rpc.events(sessionId=turn["sessionId"]))
    lines = open(log).read().split()
    assert lines == [f"{n}.{k}" for n in range(turns) for k in range(parts)], lines
    with home.rpc() as rpc:
        valid(home, rpc)


def test_trace_id_is_in_all_events_of_a_turn(home):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[command("echo x")], traceparent=f"00-{trace}-00f067aa0ba902b7-01")
        ended(rpc, turn)
        events = rpc.events(turnId=turn["turnId"])
        assert {e.get("traceId") for e in events} == {trace}, [e["type"] for e in events if e.get("traceId") != trace]
        own = rpc.run(["true"], traceparent=f"00-{trace}-00f067aa0ba902b7-01")[0]
        events = rpc.events(turnId=own["turnId"])
        assert {e.get("traceId") for e in events} == {trace}, [e["type"] for e in events if e.get("traceId") != trace]
        for bad in ("x", f"00-{'0' * 32}-00f067aa0ba902b7-01", f"00-{trace.upper()}-00f067aa0ba902b7-01"):
            assert rpc.fails("submit_turn", {"input": [command("true")], "traceparent": bad}, code=-32602).data["field"] == "traceparent"
        valid(home, rpc)


def test_update_session_changes_title_and_archives(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session", title="old")
        rpc.call("update_session", sessionId=session["sessionId"], title="new", pinnedThreadIds=[session["threadId"]], archived=True)
        now = rpc.call("get_session", sessionId=session["sessionId"])
        assert now["title"] == "new" and now["pinnedThreadIds"] == [session["threadId"]] and now["archived"] is True, now
        rpc.fails("update_session", {"sessionId": session["sessionId"]}, code=-32602)
        rpc.fails("update_session", {"sessionId": "sess_none", "title": "x"}, code=-32004)
        valid(home, rpc)


def test_turn_id_of_another_session_is_a_conflict(home):
    with home.rpc() as rpc:
        one, other = rpc.call("create_session"), rpc.call("create_session")
        words = [{"type": "text", "text": "x"}]
        first = rpc.call("submit_turn", sessionId=one["sessionId"], turnId="mine", input=words)
        for place in ({"sessionId": other["sessionId"]}, {"threadId": other["threadId"]}):
            assert rpc.fails("submit_turn", {**place, "turnId": "mine", "input": words}, code=-32009).data["field"] == "turnId"
        for place in ({"sessionId": one["sessionId"]}, {"threadId": one["threadId"]}, {}):
            again = rpc.call("submit_turn", **place, turnId="mine", input=words)
            assert (again["sessionId"], again["threadId"]) == (first["sessionId"], first["threadId"]), again


def test_turn_of_a_disconnected_client_is_lost_and_its_queue_continues():
    words = [{"type": "text", "text": "x"}]

    def status(rpc, turn):
        return next(t["status"] for t in rpc.call("get_thread_read", threadId=turn["threadId"])["turns"] if t["turnId"] == turn["turnId"])

    with harness.Home(config={"turnGraceMs": 300}) as home, home.rpc() as rpc:
        with home.rpc() as gone:
            left = gone.call("submit_turn", input=words)
            behind = rpc.call("submit_turn", threadId=left["threadId"], input=words)
            kept = gone.call("submit_turn", input=words, options={"onDisconnect": "keep"})
            taken = gone.call("submit_turn", input=words)
            busy = gone.call("submit_turn", input=words)
            asked = gone.call("submit_turn", input=words)
            action = gone.call("request_action", turnId=asked["turnId"], actionType="input", prompt="?")["actionId"]
            process = gone.call("start_process", command=["sleep", "1000"], turnId=busy["turnId"])["processId"]
            assert behind["status"] == "queued"
            rpc.call("emit_events", sessionId=taken["sessionId"], events=[{"type": "run.status", "turnId": taken["turnId"], "threadId": taken["threadId"],
                                                                           "payload": {"phase": "running"}}])
        harness.until("it is lost", lambda: status(rpc, left) == "lost")
        assert [e["payload"]["phase"] for e in rpc.events(turnId=left["turnId"]) if e["type"] == "run.status"] == ["running", "stalled"]
        end = [e for e in rpc.events(turnId=left["turnId"]) if e["type"] == "turn.failed"][0]
        assert end["status"] == "lost" and end["payload"]["category"] == "client_gone" and end["payload"]["retryable"], end
        harness.until("the queue continues", lambda: status(rpc, behind) == "running")
        harness.until("a question is no client", lambda: status(rpc, asked) == "lost")
        assert [a["status"] for a in rpc.call("list_actions")["actions"] if a["actionId"] == action] == ["cancelled"]
        assert [status(rpc, t) for t in (kept, taken, busy)] == ["running"] * 3
        rpc.call("terminate_process", processId=process)
        harness.until("nothing of it runs", lambda: status(rpc, busy) == "lost")
        rpc.fails("complete_turn", {"turnId": left["turnId"]}, code=-32015)
        home.restart()
        with home.rpc() as rpc:
            harness.until("nobody came back for it", lambda: status(rpc, taken) == "lost" and status(rpc, behind) == "lost")
            assert status(rpc, kept) == "running"
            rpc.call("complete_turn", turnId=kept["turnId"])
            harness.validate(harness.event_validators(), rpc.events())
            assert rpc.call("verify_store")["ok"]


WORDS = [{"type": "text", "text": "x"}]


def diagnostics(rpc, turn):
    return rpc.call("get_thread_read", threadId=turn["threadId"])["diagnosticsSummary"]


def phases(rpc, turn):
    return [e["payload"]["phase"] for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "run.status"]


def emit(rpc, turn, kind, ids=(), **payload):
    return rpc.call("emit_events", sessionId=turn["sessionId"], events=[{"type": kind, "turnId": turn["turnId"], "threadId": turn["threadId"], **dict(ids), "payload": payload}])


def test_silent_client_loses_its_lease_then_its_turn(home):
    with home.rpc() as rpc, home.rpc() as other:
        turn = rpc.call("submit_turn", input=WORDS, options={"leaseMs": 3000})
        emit(rpc, turn, "model.requested", {"modelRequestId": "mr_1"}, model="m")
        behind = other.call("submit_turn", threadId=turn["threadId"], input=WORDS)
        harness.until("it is stalled", lambda: phases(other, turn)[-1] == "stalled")
        assert diagnostics(other, turn)["stalledTurns"] == [turn["turnId"]], diagnostics(other, turn)
        assert other.call("get_thread_read", threadId=turn["threadId"])["stale"] is True
        assert rpc.call("claim_turn", turnId=turn["turnId"])["leaseMs"] == 3000
        assert phases(other, turn) == ["running", "stalled", "running"], phases(other, turn)
        harness.until("it is lost", lambda: diagnostics(other, turn)["lostTurns"] == [turn["turnId"]])
        ends = [(e["type"], e["status"]) for e in other.events(turnId=turn["turnId"]) if e["type"] in ("model.failed", "turn.failed")]
        assert ends == [("model.failed", "cancelled"), ("turn.failed", "lost")], ends
        harness.until("the queue continues", lambda: phases(other, behind) == ["running"])
        rpc.fails("claim_turn", {"turnId": turn["turnId"]}, code=-32015)
        harness.validate(harness.event_validators(), other.events())


def test_lease_is_exclusive_until_it_expires(home):
    with home.rpc() as rpc, home.rpc() as other:
        turn = rpc.call("submit_turn", input=WORDS, options={"leaseMs": 60000})
        for method, more in (("claim_turn", {}), ("complete_turn", {}), ("fail_turn", {}), ("request_action", {"actionType": "input", "prompt": "?"})):
            e = other.fails(method, {"turnId": turn["turnId"], **more}, code=-32009)
            assert "leased to another client" in str(e), e
        try:
            emit(other, turn, "run.status", phase="running")
            raise AssertionError("an event of another client was accepted")
        except harness.RpcError as e:
            assert "leased to another client" in str(e), e
        rpc.close()
        harness.until("it can be taken over", lambda: "turnId" in taken(other, turn))
        other.call("complete_turn", turnId=turn["turnId"])


def taken(rpc, turn):
    try:
        return rpc.call("claim_turn", turnId=turn["turnId"])
    except harness.RpcError:
        return {}


def test_lease_survives_the_death_of_the_runtime(home):
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=WORDS, options={"leaseMs": 1000})
        kept = rpc.call("submit_turn", input=WORDS, options={"leaseMs": 60000})
    home.kill_part("runtime")
    with home.rpc() as rpc, home.rpc() as other:
        assert rpc.call("claim_turn", turnId=kept["turnId"])["leaseMs"] == 60000
        other.fails("claim_turn", {"turnId": kept["turnId"]}, code=-32009)
        harness.until("it is lost", lambda: diagnostics(rpc, turn)["lostTurns"] == [turn["turnId"]])
        assert phases(rpc, turn) == ["running", "stalled"], phases(rpc, turn)
        rpc.call("complete_turn", turnId=kept["turnId"])


def test_invalid_leases_are_rejected(home):
    with home.rpc() as rpc:
        for wrong in ({"options": {"leaseMs": 1}}, {"options": {"leaseMs": 86400001}}, {"options": {"leaseMs": 1000, "onDisconnect": "keep"}},
                      {"options": {"leaseMs": 1000}, "input": [{"type": "command", "commandLine": "true"}]}, {"options": {"leaseMs": 1000}, "driver": "loop"}):
            rpc.fails("submit_turn", {"input": WORDS, **wrong}, code=-32602)


if __name__ == "__main__":
    harness.main(globals())
