"""The checks that the specification requires of a validator, and its scenarios: each from outside, and again after the runtime was
killed and after an orderly restart; every event and snapshot is checked against its schema."""

import json
import os
import signal

import harness
from harness import until


def text(words):
    return [{"type": "text", "text": words}]


def ways_to_restart(home):
    """The runtime is killed; then the daemon is stopped and started. Everything must be as it was, each time."""
    home.kill_part("runtime")
    until("the daemon answers again", home.answers)
    yield "killed"
    home.restart()
    yield "stopped"


def kinds(rpc, **about):
    return [e["type"] for e in rpc.events(**about)]


def thread_of(rpc, ids):
    return rpc.call("get_thread_read", threadId=ids["threadId"])


def turn_of(rpc, ids):
    return next(t for t in thread_of(rpc, ids)["turns"] if t["turnId"] == ids["turnId"])


def ended(rpc, ids):
    return until("the turn ends", lambda: (t := turn_of(rpc, ids)) and "completedAt" in t and t)


def emit(rpc, ids, *events):
    about = {k: ids[k] for k in ("threadId", "turnId")}
    return rpc.call("emit_events", sessionId=ids["sessionId"], events=[dict(about, **e) for e in events])


def without_times(snapshot):
    """A snapshot without what a start itself adds."""
    return json.loads(json.dumps(snapshot), object_hook=lambda o: {k: v for k, v in o.items() if k not in ("updatedAt", "recoveredAt")})


# ---- 1: ids are stable, and events replay into the read models ----

def test_events_replay_into_the_read_models(home):
    with home.rpc() as rpc:
        # A session sandbox would end with the daemon, which the snapshot shows.
        turn = rpc.call("submit_turn", input=[{"type": "command", "commandLine": "echo one; echo two >&2"}], options={"sandboxId": "own"})
        ended(rpc, turn)
        rpc.call("create_task", objective="keep", sessionId=turn["sessionId"])
        before, snapshot = rpc.events(), rpc.call("get_session", sessionId=turn["sessionId"])
        assert len({e["eventId"] for e in before}) == len(before)
        for event in before:
            assert event["runtimeId"] == before[0]["runtimeId"] and event["sessionId"], event
    for _ in ways_to_restart(home):
        with home.rpc() as rpc:
            assert rpc.events()[:len(before)] == before, "what was written once stays as it was"
            assert without_times(rpc.call("get_session", sessionId=turn["sessionId"])) == without_times(snapshot)
            harness.check_facts(home, rpc)
    with home.rpc() as rpc:
        now = rpc.call("get_session", sessionId=turn["sessionId"])
        rpc.call("rebuild_store")
        assert rpc.call("get_session", sessionId=turn["sessionId"]) == now, "a fresh projection of the log says the same"


# ---- 2: a provider's stream becomes normalised facts ----

def test_provider_streams_become_normalised_events(home):
    request = {"modelRequestId": "mr_1"}
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=text("say something"))
        emit(rpc, turn, dict(request, type="model.requested", payload={"provider": "acme", "model": "large"}),
             dict(request, type="reasoning.delta", payload={"text": "let me see"}),
             dict(request, type="model.delta", payload={"index": 0, "text": "hel"}))
    for how in ways_to_restart(home):
        with home.rpc() as rpc:
            if how == "killed":
                emit(rpc, turn, dict(request, type="model.delta", payload={"index": 1, "text": "lo"}))
            else:
                emit(rpc, turn, dict(request, type="reasoning.summary", payload={"text": "seen"}),
                     dict(request, type="model.completed", payload={"usage": {"inputTokens": 3, "outputTokens": 2}, "stopReason": "end"}))
            harness.check_facts(home, rpc)
    with home.rpc() as rpc:
        try:
            emit(rpc, turn, dict(request, type="model.delta", payload={"index": 2, "text": "late"}))
            raise AssertionError("a part after the end was taken")
        except harness.RpcError:
            pass
        stream = [e for e in rpc.events(turnId=turn["turnId"]) if e.get("modelRequestId") == "mr_1"]
        assert [e["type"] for e in stream] == ["model.requested", "reasoning.delta", "model.delta", "model.delta", "reasoning.summary", "model.completed"]
        assert "".join(e["payload"]["text"] for e in stream if e["type"] == "model.delta") == "hello"
        assert turn_of(rpc, turn)["status"] == "running", "a provider's success does not complete the turn"
        rpc.call("complete_turn", turnId=turn["turnId"], summary="said it")
        assert turn_of(rpc, turn)["status"] == "completed"


# ---- 3: tool calls keep input, result, errors and decisions ----

def test_tool_calls_keep_input_result_errors_and_decisions(home):
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=text("use tools"), options={"cwd": home.work})
        good = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="shell", arguments={"command": "printf %s '" + "x" * 20000 + "'"})
        bad = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="shell", arguments={"command": "echo no >&2; exit 9"})
        own = rpc.call("report_tool_call", status="started", turnId=turn["turnId"], toolName="browse", arguments={"url": "about:blank"})["toolCallId"]
        rpc.call("report_tool_call", toolCallId=own, status="failed", category="network", message="no route", retryable=True, advice="try later")
    for _ in ways_to_restart(home):
        with home.rpc() as rpc:
            calls = {c["toolCallId"]: c for c in thread_of(rpc, turn)["toolCalls"]}
            assert rpc.output(calls[good["toolCallId"]]["rawOutputRef"]) == b"x" * 20000
            by_call = {}
            for event in rpc.events(turnId=turn["turnId"]):
                if event["type"].startswith("tool.") and "toolCallId" in event:
                    by_call.setdefault(event["toolCallId"], {})[event["type"]] = event
            events = {e["eventId"]: e for e in rpc.events(turnId=turn["turnId"])}
            for call, last in ((good["toolCallId"], "tool.result"), (bad["toolCallId"], "tool.failed")):
                facts = by_call[call]
                asked = facts["tool.args"]["payload"]
                assert "safeArgs" in asked or "inputRef" in asked, asked
                end = facts[last]["payload"]
                assert events[end["permissionRef"]]["type"] == "permission.evaluated" and events[end["sandboxRef"]]["type"] == "sandbox.applied", end
                assert rpc.output(end["rawOutputRef"]) is not None
            failed = by_call[bad["toolCallId"]]["tool.failed"]["payload"]
            assert failed["exitCode"] == 9 and failed["category"] == "exit" and "retryable" in failed and failed["advice"], failed
            told = by_call[own]["tool.failed"]["payload"]
            assert told["category"] == "network" and told["retryable"] is True and told["advice"] == "try later", told
            harness.check_facts(home, rpc)


# ---- 4: actions pause, and only an answer resumes ----

def test_actions_pause_until_they_are_answered(home):
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=text("ask"))
        action = rpc.call("request_action", turnId=turn["turnId"], actionType="tool_permission", prompt="may I?", decisions=["allow", "deny"])["actionId"]
        asked = next(e for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "action.required")
        assert asked["actionId"] == action and asked["payload"]["actionType"] == "tool_permission", asked
    for _ in ways_to_restart(home):
        with home.rpc() as rpc:
            thread = thread_of(rpc, turn)
            assert thread["status"] == "blocked" and [p["actionId"] for p in thread["pendingRequests"]] == [action], thread
            rpc.fails("complete_turn", {"turnId": turn["turnId"]}, code=-32015)
            rpc.call("compact_context", threadId=turn["threadId"], trigger="manual", summary="so far")
            assert "action.resolved" not in kinds(rpc, turnId=turn["turnId"])
            harness.check_facts(home, rpc)
    with home.rpc() as rpc:
        kept = [e for e in rpc.events(threadId=turn["threadId"]) if e["type"] == "context.compaction.completed"]
        assert all(action in json.dumps(e["payload"]["keptActions"]) for e in kept), kept
        with home.rpc() as agent:
            agent.call("initialize", role="agent")
            agent.fails("respond_action", {"actionId": action, "decision": "allow"}, code=-32003)
        rpc.call("respond_action", actionId=action, decision="deny", note="no")
        assert thread_of(rpc, turn)["status"] == "running"
        resolved = [e["payload"] for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "action.resolved"]
        assert [(r["decision"], r["note"]) for r in resolved] == [("deny", "no")], resolved
        rpc.call("complete_turn", turnId=turn["turnId"])


# ---- 5: the queue survives, and every change of it is an event ----

def test_queue_survives_and_its_changes_are_events(home):
    with home.rpc() as rpc:
        first = rpc.call("submit_turn", input=text("first"))
        waiting = [rpc.call("submit_turn", threadId=first["threadId"], input=text(w))["turnId"] for w in ("a", "b", "c")]
        rpc.call("promote_queued_turn", turnId=waiting[2])
        rpc.call("remove_queued_turn", turnId=waiting[0])
        order = [waiting[2], waiting[1]]
    for _ in ways_to_restart(home):
        with home.rpc() as rpc:
            assert [q["turnId"] for q in thread_of(rpc, first)["queuedTurns"]] == order
            changes = [e["payload"] for e in rpc.events(sessionId=first["sessionId"]) if e["type"] == "queue.changed"]
            assert changes[-1]["order"] == order and len(changes) >= 5, changes
            snapshot = rpc.call("get_snapshot", kind="queue_snapshot", threadId=first["threadId"])["snapshot"]
            assert order[0] in json.dumps(snapshot) and "held" in json.dumps(snapshot), snapshot
            harness.check_facts(home, rpc)
    with home.rpc() as rpc:
        rpc.call("complete_turn", turnId=first["turnId"])
        rpc.call("resume_thread", threadId=first["threadId"])
        for turn in order:
            until("its turn comes", lambda: thread_of(rpc, first).get("activeTurnId") == turn)
            rpc.call("complete_turn", turnId=turn)
        assert thread_of(rpc, first)["queuedTurns"] == []


# ---- 6: tasks keep their attempts and edges ----

def test_tasks_keep_their_attempts_and_edges(home):
    with home.rpc() as rpc:
        parent = rpc.call("create_task", objective="whole", acceptance=["it works"], retryPolicy={"maxAttempts": 3})
        child = rpc.call("create_task", objective="part", parentTaskId=parent["taskId"])["taskId"]
        after = rpc.call("create_task", objective="then", sessionId=parent["sessionId"], blockedBy=[child])["taskId"]
        rpc.call("start_task", taskId=child, commandLine="exit 4")
        until("it failed", lambda: rpc.call("get_task", taskId=child)["status"] == "failed")
        rpc.call("link_tasks", taskId=parent["taskId"], kind="produced_artifact", targetId="art_1")
    for n, _ in enumerate(ways_to_restart(home)):
        with home.rpc() as rpc:
            rpc.call("retry_task", taskId=child)
            record = until("the attempt ended", lambda: (t := rpc.call("get_task", taskId=child)) and t["status"] == "failed" and len(t["attempts"]) == n + 2 and t)
            assert [a["status"] for a in record["attempts"]] == ["failed"] * (n + 2) and record["parentTaskId"] == parent["taskId"], record
            failed = [e for e in rpc.events(taskId=child) if e["type"] == "task.attempt.failed"]
            assert len({e["runId"] for e in failed}) == n + 2 and failed[0]["payload"]["failureCategory"], failed
            edges = {(r["kind"], r["targetId"]) for r in rpc.call("get_task", taskId=after)["relationships"]}
            assert ("blocked_by", child) in edges, edges
            edges = {(r["kind"], r["targetId"]) for r in rpc.call("get_task", taskId=parent["taskId"])["relationships"]}
            assert {("child", child), ("produced_artifact", "art_1")} <= edges, edges
            harness.check_facts(home, rpc)
    with home.rpc() as rpc:
        rpc.call("start_task", taskId=parent["taskId"])
        rpc.fails("complete_task", {"taskId": parent["taskId"]})
        rpc.call("cancel_task", taskId=child) if rpc.call("get_task", taskId=child)["status"] not in ("failed", "cancelled") else None
        assert rpc.call("get_task", taskId=parent["taskId"])["status"] != "completed", "not before its acceptance is met"


# ---- 7: old sessions come back by snapshots and windows ----

def test_old_sessions_are_restored_by_snapshots_and_windows(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session", title="old")
        turns = [rpc.run(["true"], sessionId=session["sessionId"])[0] for _ in range(12)]
    for _ in ways_to_restart(home):
        with home.rpc() as rpc:
            seen, window = [], {"limit": 5}
            while True:
                page = rpc.call("get_session", sessionId=session["sessionId"], window=window)
                seen = [t["threadId"] for t in page["threads"]] + seen
                assert page["truncated"] == ("historyCursor" in page) and page["stale"] is False, page
                if "historyCursor" not in page:
                    break
                window = {"limit": 5, "before": page["historyCursor"]}
            assert seen == [session["threadId"]] + [t["threadId"] for t in turns], seen
            until("the older windows are noted", lambda: kinds(rpc, sessionId=session["sessionId"]).count("history.window.loaded") >= 2)
            events = rpc.events(sessionId=session["sessionId"])
            rpc.call("subscribe_events", afterSequence=events[len(events) // 2]["sequence"], sessionId=session["sessionId"])
            assert rpc.event() == events[len(events) // 2 + 1]
            harness.check_facts(home, rpc)
    with home.rpc() as rpc:
        found = [e["payload"] for e in rpc.events() if e["type"] == "history.reconstructed"]
        assert len(found) >= 2 and all(f["degraded"] is False for f in found), found


# ---- 8: why something was let through, stopped or failed ----

def test_outcomes_are_explained(home):
    with home.rpc() as rpc:
        ids = rpc.call("create_session")
        runs = {"fine": rpc.run(["true"], sessionId=ids["sessionId"])[0], "exit": rpc.run(["false"], sessionId=ids["sessionId"])[0]}
        none = rpc.fails("start_process", {"command": ["/nonexistent/program"], "sessionId": ids["sessionId"]})
        assert none.data["category"], none
        denied = rpc.run(["sh", "-c", "echo x > /etc/bailiff-test"], sessionId=ids["sessionId"])[0]
        held = rpc.start(["sleep", "1000"], sessionId=ids["sessionId"])
        rpc.call("terminate_process", processId=held["processId"], reason="enough")
    for _ in ways_to_restart(home):
        with home.rpc() as rpc:
            events = rpc.events(sessionId=ids["sessionId"])
            for process in [r["processId"] for r in (*runs.values(), denied, held)]:
                facts = {e["type"]: e for e in events if e.get("processId") == process}
                assert facts["permission.evaluated"]["payload"]["permissionDecision"]["decision"] == "allow", facts
                assert facts["sandbox.applied"]["sequence"] < facts["process.started"]["sequence"], facts
                assert facts["sandbox.applied"]["payload"]["planHash"] == facts["process.started"]["payload"]["planHash"], facts
                assert sum(t in facts for t in harness.TERMINAL) == 1, facts
            failed = [e for e in events if e["type"] == "process.failed"]
            assert len(failed) == 1 and failed[0]["payload"]["category"] and failed[0]["payload"]["message"], failed
            ended_by = next(e for e in events if e["type"] == "process.terminated")["payload"]
            assert ended_by["reason"] == "enough" and ended_by["treeEmpty"] is True and ended_by["requestedBy"]["uid"] == os.getuid(), ended_by
            assert rpc.call("get_process", processId=runs["exit"]["processId"])["exitCode"] == 1
            assert rpc.call("get_process", processId=denied["processId"])["exitCode"] != 0 and not os.path.exists("/etc/bailiff-test")
            harness.check_facts(home, rpc)


# ---- 9: why a model was chosen ----

POLICY = {"models": [{"provider": "acme", "model": "large", "capabilities": ["vision"], "price": {"inputPerMTok": 1, "outputPerMTok": 2}},
                     {"provider": "acme", "model": "small", "capabilities": []}]}


def test_model_choices_are_explained(home):
    home.stop()
    with open(os.path.join(home.dir, "policy.json"), "w") as f:
        json.dump(POLICY, f)
    home.start()
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=text("choose"))
        about = {"turnId": turn["turnId"]}
        rpc.call("resolve_routing", about)
        rpc.call("resolve_routing", about, taskProfile={"requiredCapabilities": ["vision"]})
        rpc.call("resolve_routing", about, failed={"provider": "acme", "model": "large", "reason": "overloaded"})
        rpc.call("resolve_routing", about, taskProfile={"requiredCapabilities": ["smell"]})
        rpc.call("record_cost", about, provider="acme", model="large", inputTokens=1000, outputTokens=1000)
        rpc.call("record_limit", about, provider="acme", model="large", kind="rate_limit", resetAt="2999-01-01T00:00:00Z")
    for how in ways_to_restart(home):
        with home.rpc() as rpc:
            facts = {}
            for e in rpc.events(turnId=turn["turnId"]):
                facts.setdefault(e["type"], []).append(e["payload"])
            assert facts["routing.single_candidate"][0]["candidateCount"] == 1 and facts["routing.single_candidate"][0]["selectedModel"] == "large", facts
            assert facts["routing.fallback.applied"][0]["reason"] == "overloaded" and facts["routing.not_possible"][0], facts
            assert len(facts["routing.candidates.resolved"]) == 4 + (how == "stopped") and facts["cost.recorded"][0]["amount"] == 0.003, facts
            assert facts["rate_limit.hit"][0]["resetAt"].startswith("2999"), facts
            if how == "killed":
                limited = rpc.call("resolve_routing", about)
                assert limited["routingDecision"]["selectedModel"] == "small", limited
            summary = rpc.call("get_snapshot", kind="routing_limit_summary", threadId=turn["threadId"])["snapshot"]
            assert "2999" in json.dumps(summary), summary
            harness.check_facts(home, rpc)


# ---- 10: exports come from the same facts ----

def test_exports_come_from_the_same_events(home):
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[{"type": "command", "commandLine": "echo proof"}])
        ended(rpc, turn)
        first = rpc.call("export_evidence", scope={"turnId": turn["turnId"]})
    for _ in ways_to_restart(home):
        with home.rpc() as rpc:
            again = rpc.call("export_evidence", scope={"turnId": turn["turnId"]})
            facts = [e for e in rpc.events() if e["type"] == "evidence.changed"]
            assert facts and facts[-1]["evidenceId"] and facts[-1]["payload"]["packRef"], facts
            pack = json.loads(rpc.output(again["packRef"]))
            assert pack["runtimeCorrelation"]["turnId"] == turn["turnId"] and pack["runtimeCorrelation"]["runtimeId"] == facts[-1]["runtimeId"], pack
            harness.validate({n: v for n, v in harness.schema_validators().items() if "evidence-pack" in n}, [pack])
            events = rpc.events(turnId=turn["turnId"], types=["process.*", "tool.*", "turn.*"])
            for kind in {e["type"] for e in events}:
                assert pack["runtimeSummary"]["eventCounts"].get(kind, 0) == sum(e["type"] == kind for e in events), kind
            harness.check_facts(home, rpc)
    with home.rpc() as rpc:
        # The verifier reports the outcome; only the runtime states which bytes were verified.
        about = {"type": "evidence.changed", "evidenceId": first["evidenceId"]}
        emit(rpc, turn, dict(about, payload={"packRef": "out_other", "verificationOutcomes": [{"name": "tests", "status": "passed"}]}))
        told = thread_of(rpc, turn)["evidenceSummary"]
        assert "passed" in json.dumps(told["verificationOutcomes"]) and first["evidenceId"] in told["evidenceRefs"], told
        summary = rpc.call("get_snapshot", kind="evidence_summary", sessionId=turn["sessionId"])["snapshot"]
        assert first["packRef"] in json.dumps(summary) and "out_other" not in json.dumps(summary), summary


# ---- 11: unknown values are reported as unknown, never guessed ----

def test_unknown_values_are_reported_as_unknown(home):
    with home.rpc() as rpc:
        running = rpc.start(["sleep", "1000"])
        mine = rpc.call("submit_turn", input=text("think"))
        task = rpc.call("create_task", objective="far away", sessionId=mine["sessionId"], heartbeatMs=300)["taskId"]
        rpc.call("start_task", taskId=task)
        empty = rpc.call("create_session")
        assert rpc.call("get_snapshot", kind="context_boundary_snapshot", threadId=empty["threadId"])["snapshot"]["status"] == "not_applicable"
        assert rpc.call("get_execution_environment", sessionId=empty["sessionId"])["status"] == "not_applicable"
    # The whole daemon is killed: no process has seen how the command ended.
    home.stop(signal.SIGKILL)
    home.start()
    with home.rpc() as rpc:
        process = until("it is settled", lambda: (p := rpc.call("get_process", processId=running["processId"])) and p["status"] != "running" and p)
        assert process["status"] in ("lost", "terminated", "failed"), process
        assert "exitCode" not in process or process["status"] == "terminated", process
        lost = until("the task's worker is missed", lambda: (t := rpc.call("get_task", taskId=task)) and t["status"] == "lost" and t)
        assert lost["attempts"][0]["status"] == "unknown" and lost["attempts"][0]["nativeStatus"] == "lost", lost
        assert turn_of(rpc, mine)["status"] == "running", "its client may well come back"
        found = [e["payload"] for e in rpc.events() if e["type"] == "history.reconstructed"][-1]
        assert {"alive", "exited", "lost", "openActions", "queuedTurns", "degraded"} <= set(found), found
        harness.check_facts(home, rpc)
    for _ in ways_to_restart(home):
        with home.rpc() as rpc:
            assert rpc.call("get_process", processId=running["processId"])["status"] == process["status"]
            assert rpc.call("get_task", taskId=task)["status"] == "lost"
            harness.check_facts(home, rpc)


harness.main(globals())
