"""Items: the steps of a turn, for subscribers that need no more; derived from events and never stored."""

import harness


def drain(rpc, last):
    """Events up to sequence `last`, items included."""
    found = []
    while True:
        event = rpc.event()
        assert event, "the stream stopped early"
        found.append(event)
        if event["type"] == "turn.completed" and event["turnId"] == last:
            return found


def work(rpc):
    made = rpc.call("submit_turn", input=[{"type": "text", "text": "look around"}])
    turn, session = made["turnId"], made["sessionId"]
    rpc.call("emit_events", sessionId=session, events=[
        {"type": "model.requested", "turnId": turn, "threadId": made["threadId"], "modelRequestId": "mr_1", "payload": {"provider": "p", "model": "m"}},
        {"type": "reasoning.delta", "turnId": turn, "threadId": made["threadId"], "modelRequestId": "mr_1", "payload": {"text": "hm"}},
        {"type": "reasoning.summary", "turnId": turn, "threadId": made["threadId"], "modelRequestId": "mr_1", "payload": {"text": "thought"}},
        {"type": "model.delta", "turnId": turn, "threadId": made["threadId"], "modelRequestId": "mr_1", "payload": {"index": 0, "text": "hello"}},
        {"type": "model.completed", "turnId": turn, "threadId": made["threadId"], "modelRequestId": "mr_1", "payload": {"stopReason": "tool"}}])
    rpc.call("invoke_tool", turnId=turn, toolName="shell", arguments={"command": "echo hi"})
    rpc.call("invoke_tool", turnId=turn, toolName="shell", arguments={"command": "exit 3"})
    asked = rpc.call("request_action", turnId=turn, actionType="input", prompt="which?")["actionId"]
    rpc.call("respond_action", actionId=asked, decision="allow", payload={"text": "that"})
    rpc.call("emit_events", sessionId=session, events=[
        {"type": "artifact.changed", "turnId": turn, "threadId": made["threadId"], "artifactId": "art_1", "payload": {"change": "created", "path": "/x"}}])
    rpc.call("complete_turn", turnId=turn)
    return made


def test_steps_of_a_turn_are_sent_as_items(home):
    with home.rpc() as rpc, home.rpc() as watch, home.rpc() as bare:
        watch.call("subscribe_events", afterSequence=0, items=True)
        bare.call("subscribe_events", afterSequence=0)
        made = work(rpc)
        found = drain(watch, made["turnId"])
        items = [e for e in found if e["type"].startswith("item.")]
        told = [(e["type"][5:], e["payload"]["item"]["kind"], e["payload"]["item"]["status"]) for e in items]
        calls = [t for t in told if t[1] == "tool_call"]
        assert calls[0] == ("started", "tool_call", "running"), calls
        assert [c for c in calls if c[0] == "completed"] == [("completed", "tool_call", "completed"), ("completed", "tool_call", "failed")], calls
        assert [t for t in told if t[1] == "agent_message"] == [("started", "agent_message", "running"), ("updated", "agent_message", "running"),
                                                                ("completed", "agent_message", "completed")], told
        assert [t[0] for t in told if t[1] == "reasoning"] == ["updated", "completed"], told
        assert [t[0] for t in told if t[1] == "action"] == ["started", "completed"], told
        assert ("completed", "file_change", "completed") in told and told[0] == ("completed", "user_message", "completed"), told
        # An item keeps its id; a command refers to its call; each item follows the event that it is derived from.
        one = [e["payload"]["item"] for e in items if e["payload"]["item"]["kind"] == "tool_call"]
        assert len({i["id"] for i in one}) == 2, one
        commands = [e["payload"]["item"] for e in items if e["payload"]["item"]["kind"] == "command"]
        assert {c["parentItemId"] for c in commands} == {i["id"] for i in one}, commands
        for i, event in enumerate(found):
            if event in items:
                assert found[i - 1]["eventId"] == event["payload"]["item"]["sourceEventId"] and found[i - 1]["sequence"] == event["sequence"], event
        assert len({e["eventId"] for e in found}) == len(found)
        harness.validate({"event-extended.schema.json": harness.schema_validators()["event-extended.schema.json"]}, items)
        # Other subscribers do not get them, they are not stored, and later subscribers get the same ones.
        assert not [e for e in drain(bare, made["turnId"]) if e["type"].startswith("item.")]
        assert not [e for e in rpc.events() if e["type"].startswith("item.")]
    home.kill_part("runtime")
    harness.until("the daemon answers again", home.answers)
    with home.rpc() as rpc:
        middle = items[len(items) // 2]["sequence"]
        rpc.call("subscribe_events", afterSequence=middle, items=True, types=["item.*"], turnId=made["turnId"])
        wanted = [e for e in items if e["sequence"] > middle and e["turnId"] == made["turnId"]]
        assert [rpc.event() for _ in wanted] == wanted
        # Only steps of turns are items; a plan is one, progress without a plan is not.
        rpc.call("unsubscribe_events", subscriptionId="stream_1")
        rpc.call("subscribe_events", items=True, types=["item.*"])
        next_turn = rpc.call("submit_turn", threadId=made["threadId"], input=[{"type": "text", "text": "plan"}])["turnId"]
        task = rpc.call("create_task", objective="x", sessionId=made["sessionId"], threadId=made["threadId"], turnId=next_turn)["taskId"]
        rpc.call("start_task", taskId=task)
        rpc.call("append_task_progress", taskId=task, percent=5)
        rpc.call("append_task_progress", taskId=task, plan=[{"text": "first", "done": False}])
        rpc.call("fail_turn", turnId=next_turn, message="gave up", category="client")
        kinds = []
        while not kinds or kinds[-1][0] != "error":
            item = rpc.event()["payload"]["item"]
            kinds.append((item["kind"], item["status"], item.get("plan"), item.get("message")))
        assert kinds[0][:2] == ("user_message", "completed") and kinds[-1][1] == "failed" and kinds[-1][3] == "gave up", kinds


def test_item_types_are_rejected_as_event_types(home):
    with home.rpc() as rpc:
        for method in ("subscribe_events", "list_events"):
            error = rpc.fails(method, {"types": ["item.*"]}, code=-32602)
            assert error.data["field"] == "types" and "items" in error.message, error
        rpc.fails("list_events", {"items": True}, code=-32602)
        session = rpc.call("create_session")["sessionId"]
        rpc.fails("emit_events", {"sessionId": session, "events": [{"type": "item.started", "payload": {"item": {}}}]}, code=-32003)


harness.main(globals())
