"""Channels: a peer connects, acknowledges, disconnects and returns; nothing is sent twice or lost, and silence ends no work."""

import os

import harness


def channel_of(rpc, channel_id):
    return next(c for c in rpc.call("list_channels")["channels"] if c["channelId"] == channel_id)


def connect(rpc, **more):
    return rpc.call("connect_channel", transport="json_rpc", peerRole="client", **more)


def test_reconnect_sends_a_snapshot_and_then_each_event_once(home):
    with home.rpc() as rpc:
        made = connect(rpc, nativeProtocol="json_rpc", capabilities=["resume"], accountRef="acct_1")
        session = made["sessionId"]
        rpc.run(["true"], sessionId=session)
        seen = [e["sequence"] for e in rpc.events(sessionId=session)]
        acked = seen[len(seen) // 2]
        assert rpc.call("ack_events", channelId=made["channelId"], sequence=acked)["lastAckedSequence"] == acked
        assert rpc.call("ack_events", channelId=made["channelId"], sequence=1)["lastAckedSequence"] == acked, "never decreases"
        assert made["resumeToken"] not in str(rpc.events(sessionId=session)), "only its hash is kept"
    with home.rpc() as rpc:
        harness.until("the channel's end", lambda: channel_of(rpc, made["channelId"])["status"] == "disconnected")
        rpc.run(["true"], sessionId=session)
        for wrong in ("", "0" * 64):
            rpc.fails("reconnect_channel", {"channelId": made["channelId"], "lastAckedSequence": acked, "resumeToken": wrong})
        back = rpc.call("reconnect_channel", channelId=made["channelId"], lastAckedSequence=acked, resumeToken=made["resumeToken"])
        assert back["snapshot"]["sessionId"] == session and back["resumedFrom"] == acked and "gap" not in back, back
        expected = [e["sequence"] for e in rpc.events(sessionId=session) if e["sequence"] > acked]
        got = [rpc.event()["sequence"] for _ in expected]
        assert got == expected, (got, expected)
        rpc.fails("reconnect_channel", {"channelId": made["channelId"], "lastAckedSequence": acked, "resumeToken": made["resumeToken"]}, code=-32003)
        kinds = [e["type"] for e in rpc.events(sessionId=session) if e["type"].startswith("channel.")]
        assert kinds == ["channel.connected", "channel.disconnected", "channel.resumed"], kinds
        harness.validate(harness.event_validators(), rpc.events(sessionId=session))


def stored(home):
    """All bytes of the store and its spool, except the key of tokens."""
    found = b""
    for folder, _, names in os.walk(home.dir):
        for name in names:
            path = os.path.join(folder, name)
            if name != "token.key" and os.path.isfile(path) and ("store" in folder or "spool" in folder):
                with open(path, "rb") as f:
                    found += f.read()
    return found


def test_a_token_is_not_stored(home):
    """A repeated request gets the same token, also after a restart, and no file of the store has it."""
    with home.rpc() as rpc:
        made = connect(rpc, idempotencyKey="once")
        assert connect(rpc, idempotencyKey="once") == made
        again = {"channelId": made["channelId"], "lastAckedSequence": made["sequence"], "resumeToken": made["resumeToken"], "idempotencyKey": "twice"}
        back = rpc.call("reconnect_channel", **again)
        assert back["resumeToken"] != made["resumeToken"]
    home.restart()
    with home.rpc() as rpc:
        assert connect(rpc, idempotencyKey="once") == made
        assert rpc.call("reconnect_channel", **again)["resumeToken"] == back["resumeToken"]
        rpc.call("reconnect_channel", channelId=made["channelId"], lastAckedSequence=made["sequence"], resumeToken=back["resumeToken"])
    home.stop()
    text = stored(home)
    assert made["channelId"].encode() in text
    for token in (made["resumeToken"], back["resumeToken"]):
        assert len(token) == 64 and token.encode() not in text
    home.start()


def test_restart_disconnects_bound_channels_and_keeps_those_with_a_heartbeat(home):
    with home.rpc() as rpc:
        bound = connect(rpc)
        beating = connect(rpc, heartbeatMs=600000, sessionId=bound["sessionId"])
        rpc.call("ack_events", channelId=beating["channelId"], sequence=3)
    home.restart()
    with home.rpc() as rpc:
        assert channel_of(rpc, bound["channelId"])["status"] == "disconnected"
        kept = channel_of(rpc, beating["channelId"])
        assert kept["status"] == "connected" and kept["lastAckedSequence"] == 3, kept
        back = rpc.call("reconnect_channel", channelId=bound["channelId"], lastAckedSequence=0, resumeToken=bound["resumeToken"])
        assert back["snapshot"]["channelSummary"]["channels"], back


def test_silent_peer_is_disconnected_and_its_work_continues(home):
    with home.rpc() as rpc:
        made = connect(rpc, heartbeatMs=100)
        work = rpc.start(["sleep", "1000"], sessionId=made["sessionId"])
        gone = harness.until("the missed heartbeat", lambda: [e for e in rpc.events(sessionId=made["sessionId"]) if e["type"] == "channel.disconnected"])
        assert gone[0]["payload"]["reason"] == "no heartbeat arrived" and "lastSeenAt" in gone[0]["payload"], gone
        assert rpc.call("get_process", processId=work["processId"])["status"] == "running"
        rpc.fails("send_channel_message", {"channelId": made["channelId"], "message": "x"}, code=-32011)
        rpc.call("terminate_process", processId=work["processId"])


def test_channel_whose_disconnection_was_rejected_is_still_watched():
    with harness.Home({"storeQuotaBytes": 8 << 20}) as home, home.rpc() as rpc:
        made = connect(rpc, heartbeatMs=60000)
        harness.fill_store(rpc)
        rpc.fails("disconnect_channel", {"channelId": made["channelId"]}, code=-32012)
        rpc.fails("ack_events", {"channelId": made["channelId"], "sequence": 5}, code=-32012)
        rpc.call("prune_store", beforeSequence=rpc.call("initialize")["lastSequence"])
        rpc.call("compact_store")
        assert rpc.call("ack_events", channelId=made["channelId"], sequence=4)["lastAckedSequence"] == 5
        assert channel_of(rpc, made["channelId"])["lastAckedSequence"] == 5
        bound = connect(rpc)
        with home.rpc() as peer:
            closing = connect(peer)
            harness.fill_store(rpc)
            peer.fails("disconnect_channel", {"channelId": closing["channelId"]}, code=-32012)
            rpc.call("prune_store", beforeSequence=rpc.call("initialize")["lastSequence"])
            rpc.call("compact_store")
        harness.until("its connection has ended", lambda: channel_of(rpc, closing["channelId"])["status"] == "disconnected")
        assert channel_of(rpc, bound["channelId"])["status"] == "connected"


def test_damaged_cursor_is_an_error(home):
    with home.rpc() as rpc:
        made = connect(rpc, heartbeatMs=600000)
        rpc.call("ack_events", channelId=made["channelId"], sequence=5)
        rpc.call("compact_store")
    home.stop()
    with open(os.path.join(home.dir, "store", "data.mdb"), "r+b") as f:
        data, key = f.read(), f"u:channel.acked.{made['channelId']}".encode()
        at = data.find(key) + len(key) + 1
        f.seek(at)
        f.write(bytes([data[at] ^ 1]))
    home.start()
    with home.rpc() as rpc:
        rpc.fails("ack_events", {"channelId": made["channelId"], "sequence": 2}, code=-32603)
        error = rpc.fails("list_channels", {}, code=-32603)
        assert made["channelId"] in error.message, error
        rpc.call("disconnect_channel", channelId=made["channelId"])


def test_pruned_events_are_marked_as_a_gap(home):
    with home.rpc() as rpc:
        made = connect(rpc)
        for _ in range(5):
            rpc.run(["true"], sessionId=made["sessionId"])
        last = rpc.events(sessionId=made["sessionId"])[-1]["sequence"]
        rpc.call("prune_store", beforeSequence=last)
        back = rpc.call("reconnect_channel", channelId=made["channelId"], lastAckedSequence=2, resumeToken=made["resumeToken"])
        assert back["gap"] == {"from": 3, "to": last - 1} and back["resumedFrom"] == last - 1, back
        kinds = [e["type"] for e in rpc.call("list_events", afterSequence=last - 1, sessionId=made["sessionId"])["events"]]
        assert "snapshot.repaired" in kinds and "snapshot.updated" in kinds, kinds
        assert rpc.event()["sequence"] >= last


def test_messages_are_recorded_and_invalid_requests_rejected(home):
    with home.rpc() as rpc:
        made = connect(rpc)
        rpc.call("send_channel_message", channelId=made["channelId"], message="hello", kind="notice")
        rpc.call("send_channel_message", channelId=made["channelId"], message="x" * 10000, direction="in")
        messages = [e["payload"] for e in rpc.events(sessionId=made["sessionId"]) if e["type"] == "channel.message"]
        assert [m["direction"] for m in messages] == ["out", "in"] and messages[0]["preview"] == "hello", messages
        assert rpc.call("read_output", outputRef=messages[1]["messageRef"], length=20000)["data"] == "x" * 10000
        error = rpc.fails("connect_channel", {"transport": "json_rpc", "heartbeatMs": 1})
        assert error.data["field"] == "heartbeatMs", error
        rpc.fails("connect_channel", {"transport": "json_rpc", "channelId": made["channelId"]}, code=-32009)
        rpc.fails("connect_channel", {"transport": "json_rpc", "sessionId": "sess_none"}, code=-32004)
        rpc.fails("ack_events", {"channelId": "chan_none", "sequence": 0}, code=-32004)
        rpc.fails("ack_events", {"channelId": made["channelId"], "sequence": 1 << 40}, code=-32602)
        rpc.call("disconnect_channel", channelId=made["channelId"], reason="done")
        rpc.fails("disconnect_channel", {"channelId": made["channelId"]}, code=-32015)


def test_tasks_of_a_disconnected_peer_are_unreachable(home):
    with home.rpc() as rpc:
        made = connect(rpc, heartbeatMs=600000)

        def link(remote, status):
            task = rpc.call("link_peer_task", channelId=made["channelId"], remoteTaskId=remote)["taskId"]
            harness.until("it runs", lambda: rpc.call("get_task", taskId=task)["status"] == "running")
            if status:
                rpc.call("update_peer_task", channelId=made["channelId"], remoteTaskId=remote, remoteStatus=status)
            return task

        states = {link(remote, status): state for remote, status, state in (
            ("r-1", None, "unreachable"), ("r-2", "idle", "unreachable"), ("r-3", "input-required", "unreachable"),
            ("r-4", "completed", "completed_undelivered"), ("r-5", "missing", "missing"))}
        before = {task: rpc.call("get_task", taskId=task)["status"] for task in states}
        rpc.call("disconnect_channel", channelId=made["channelId"])
        for task, state in states.items():
            record = rpc.call("get_task", taskId=task)
            assert record["peer"]["remoteState"] == state and record["status"] == before[task], "not failed, and not completed"
        session = rpc.call("get_task", taskId=next(iter(states)))["sessionId"]
        listed = rpc.call("get_snapshot", kind="channel_summary", sessionId=session)["snapshot"]["peerTasks"]
        assert {t["taskId"]: t["remoteState"] for t in listed} == states and {t["channelId"] for t in listed} == {made["channelId"]}, listed
        rpc.call("update_peer_task", channelId=made["channelId"], remoteTaskId="r-1", remoteStatus="working")
        assert rpc.call("get_task", taskId=next(iter(states)))["peer"]["remoteState"] == "running"
        assert rpc.call("verify_store")["ok"]


def test_approvals_are_forwarded_over_the_channel(home):
    with home.rpc() as rpc, home.rpc() as peer:
        made = connect(rpc, capabilities=["permissions"], heartbeatMs=600000)
        peer.call("initialize", channelId=made["channelId"])

        def ask():
            turn = rpc.call("submit_turn", sessionId=made["sessionId"], input=[{"type": "text", "text": "x"}])["turnId"]
            return turn, rpc.call("request_action", turnId=turn, actionType="approval", prompt="may I?")["actionId"]

        for by, who in ((peer, "peer"), (rpc, "local")):
            turn, action = ask()
            by.call("respond_action", actionId=action, decision="allow")
            facts = {e["type"]: e for e in rpc.events(turnId=turn) if e["type"].startswith("channel.permission")}
            assert facts["channel.permission_forwarded"]["actionId"] == action and facts["channel.permission_forwarded"]["payload"]["about"] == "may I?", facts
            returned = facts["channel.permission_returned"]["payload"]
            assert returned["decidedBy"] == who and returned["outcome"] == "allow" and returned["channelScoped"] == (who == "peer"), returned
            rpc.call("complete_turn", turnId=turn)
        bridge = channel_of(rpc, made["channelId"])["permissionBridge"]
        assert bridge == {"forwarded": 2, "returned": 2, "pending": 0}, bridge


def test_local_task_ends_only_after_the_peers_task(home):
    with home.rpc() as rpc:
        made = connect(rpc, nativeProtocol="a2a", heartbeatMs=600000)
        link = rpc.call("link_peer_task", channelId=made["channelId"], remoteTaskId="r-1", remoteContextId="ctx", nativeProtocol="a2a", objective="look it up")
        task = link["taskId"]
        assert task != "r-1"
        rpc.fails("link_peer_task", {"channelId": made["channelId"], "remoteTaskId": "r-1"}, code=-32009)
        harness.until("it runs", lambda: rpc.call("get_task", taskId=task)["status"] == "running")

        def report_status(status, **more):
            return rpc.call("update_peer_task", channelId=made["channelId"], remoteTaskId="r-1", remoteStatus=status, **more)

        def not_yet(state):
            refused = rpc.fails("complete_task", {"taskId": task, "summary": "early"}, code=-32015)
            assert {"what": "peer_task_unfinished", "id": "r-1"} in refused.data["missing"], (state, refused)

        not_yet("running")
        report_status("unreachable")
        not_yet("unreachable")
        report_status("input-required", message="which one?")
        not_yet("waiting")
        assert rpc.call("get_task", taskId=task)["status"] == "waiting_input"
        report_status("working")
        assert rpc.call("get_task", taskId=task)["status"] == "running"
    home.restart()
    with home.rpc() as rpc:
        rpc.call("update_peer_task", channelId=made["channelId"], remoteTaskId="r-1", remoteStatus="completed", remoteArtifactRefs=["https://peer/a1"])
        record = rpc.call("get_task", taskId=task)
        assert record["status"] == "waiting_resource" and record["nativeStatus"] == "completed", "the peer's end is not ours"
        assert record["peer"]["remoteState"] == "completed_undelivered" and record["peer"]["remoteTaskId"] == "r-1", record
        assert record["peer"]["remoteContextId"] == "ctx" and record["peer"]["nativeProtocol"] == "a2a", "the earlier reports stay"
        assert [r["kind"] for r in record["relationships"]] == ["produced_artifact"], record
        rpc.call("complete_task", taskId=task, summary="taken over")
        assert rpc.call("get_task", taskId=task)["status"] == "completed"
        rpc.fails("update_peer_task", {"channelId": made["channelId"], "remoteTaskId": "r-1", "remoteStatus": "working"}, code=-32015)
        kinds = [e["type"] for e in rpc.events(taskId=task)]
        assert {"task.delegated", "channel.peer_task.linked", "channel.peer_task.updated", "task.updated", "artifact.changed", "task.completed"} <= set(kinds), kinds
        failing = rpc.call("link_peer_task", channelId=made["channelId"], remoteTaskId="r-2")["taskId"]
        harness.until("it runs", lambda: rpc.call("get_task", taskId=failing)["status"] == "running")
        rpc.call("update_peer_task", channelId=made["channelId"], remoteTaskId="r-2", remoteStatus="rejected", message="no")
        harness.until("it failed", lambda: rpc.call("get_task", taskId=failing)["status"] == "failed")
        assert rpc.fails("update_peer_task", {"channelId": made["channelId"], "remoteTaskId": "r-2", "remoteStatus": "x" * 65}).data["field"] == "remoteStatus"


def test_a_peers_task_is_linked_once_by_simultaneous_requests(home):
    with home.rpc() as rpc:
        made = connect(rpc, heartbeatMs=600000)
        link = ("link_peer_task", {"channelId": made["channelId"], "remoteTaskId": "r-1"})
        first, *others = rpc.send_together(link, link, link)
        task = rpc.reply(first)["taskId"]
        for other in others:
            try:
                raise AssertionError(rpc.reply(other))
            except harness.RpcError as e:
                assert e.code == -32009 and task in str(e), e
        assert [t["taskId"] for t in rpc.call("list_tasks", sessionId=made["sessionId"])["tasks"]] == [task]


def test_a_turn_names_the_channel_that_submitted_it(home):
    with home.rpc() as rpc, home.rpc() as peer:
        made = connect(rpc, heartbeatMs=600000)
        peer.call("initialize", channelId=made["channelId"])
        for by, channel in ((peer, made["channelId"]), (rpc, None)):
            turn = by.call("submit_turn", sessionId=made["sessionId"], newThread=True, input=[{"type": "text", "text": "x"}])["turnId"]
            submitted = rpc.events(turnId=turn, types=["turn.submitted"])[0]
            assert submitted.get("channelId") == channel, submitted
            rpc.call("complete_turn", turnId=turn)
        harness.validate(harness.event_validators(), rpc.events(sessionId=made["sessionId"]))


def running_peer_task(rpc, channel, remote):
    task = rpc.call("link_peer_task", channelId=channel, remoteTaskId=remote)["taskId"]
    harness.until("it runs", lambda: rpc.call("get_task", taskId=task)["status"] == "running")
    return task


def test_native_states_are_normalized_and_kept(home):
    with home.rpc() as rpc:
        made = connect(rpc, heartbeatMs=600000)
        task = running_peer_task(rpc, made["channelId"], "r-1")
        for native, state, status in (("TASK_STATE_INPUT_REQUIRED", "waiting", "waiting_input"), ("input_required", "waiting", "waiting_input"),
                                      ("odd", "unreachable", "waiting_input"), ("TASK_STATE_WORKING", "running", "running"), ("odd", "unreachable", "running")):
            assert rpc.call("update_peer_task", channelId=made["channelId"], remoteTaskId="r-1", remoteStatus=native)["remoteState"] == state
            record = rpc.call("get_task", taskId=task)
            assert record["nativeStatus"] == native and record["peer"]["remoteStatus"] == native and record["status"] == status, (native, record)
        rpc.fails("complete_task", {"taskId": task}, code=-32015)


def test_a_peer_that_needs_authorization_asks_a_person(home):
    with home.rpc() as rpc, home.rpc() as peer:
        made = connect(rpc, capabilities=["permissions"], heartbeatMs=600000)
        peer.call("initialize", channelId=made["channelId"])
        task = running_peer_task(rpc, made["channelId"], "r-1")

        def report(status):
            rpc.call("update_peer_task", channelId=made["channelId"], remoteTaskId="r-1", remoteStatus=status, message="sign in")

        def pending():
            return [a for a in rpc.call("list_actions")["actions"] if a.get("taskId") == task and a["status"] == "pending"]

        report("auth-required")
        report("auth-required")
        assert len(pending()) == 1, "asked once"
        action = pending()[0]["actionId"]
        facts = {e["type"]: e for e in rpc.events(sessionId=made["sessionId"]) if e.get("actionId") == action}
        assert {"action.required", "permission.requested", "channel.permission_forwarded"} <= set(facts), facts
        assert facts["channel.permission_forwarded"]["taskId"] == task and facts["permission.requested"]["taskId"] == task, facts
        assert rpc.call("get_task", taskId=task)["status"] == "waiting_permission"
        peer.call("respond_action", actionId=action, decision="allow")
        returned = [e for e in rpc.events(sessionId=made["sessionId"]) if e["type"] == "channel.permission_returned"]
        assert returned[0]["payload"]["decidedBy"] == "peer" and returned[0]["payload"]["outcome"] == "allow", returned
        report("working")
        assert rpc.call("get_task", taskId=task)["status"] == "running"
        report("auth-required")
        assert len(pending()) == 1
        report("working")
        assert not pending(), "the peer no longer waits for it"
        assert rpc.call("verify_store")["ok"]
        harness.validate(harness.event_validators(), rpc.events(sessionId=made["sessionId"]))


def test_reconnected_channel_restores_the_last_reported_state(home):
    with home.rpc() as rpc:
        made = connect(rpc, heartbeatMs=600000)
        tasks = {remote: running_peer_task(rpc, made["channelId"], remote) for remote in ("r-1", "r-2")}
        rpc.call("update_peer_task", channelId=made["channelId"], remoteTaskId="r-2", remoteStatus="idle")
        rpc.call("disconnect_channel", channelId=made["channelId"])
        assert {rpc.call("get_task", taskId=t)["peer"]["remoteState"] for t in tasks.values()} == {"unreachable"}
        rpc.call("reconnect_channel", channelId=made["channelId"], lastAckedSequence=0, resumeToken=made["resumeToken"])
        assert [rpc.call("get_task", taskId=t)["peer"]["remoteState"] for t in tasks.values()] == ["running", "idle"]


if __name__ == "__main__":
    harness.main(globals())
