"""A thread's past: compaction keeps open turns, rollback reverts turns and files, and a crash leaves neither half done."""

import os

import harness


def thread(rpc, turns=3, **more):
    """A thread with some turns; their ids."""
    session = rpc.call("create_session", title="past")
    made = [rpc.run(["true"], sessionId=session["sessionId"], threadId=session["threadId"], **more)[0]["turnId"] for _ in range(turns)]
    return session["sessionId"], session["threadId"], made


def kinds(rpc, session, word):
    return [e["type"] for e in rpc.events(sessionId=session) if e["type"].startswith(word)]


def test_compaction_in_one_and_in_two_steps(home):
    with home.rpc() as rpc:
        session, thr, turns = thread(rpc)
        rpc.run(["false"], sessionId=session, threadId=thr)
        action = rpc.call("request_action", turnId=rpc.call("submit_turn", sessionId=session, threadId=thr, input=[{"type": "text", "text": "x"}])["turnId"],
                          actionType="input", prompt="which?")["actionId"]
        evidence = rpc.call("export_review", scope={"turnId": turns[0]})["evidenceId"]
        done = rpc.call("compact_context", sessionId=session, threadId=thr, trigger="token_limit", summary="s" * 5000, tokensBefore=900, tokensAfter=30)
        assert rpc.call("read_output", outputRef=done["summaryRef"], length=10000)["data"] == "s" * 5000
        history = rpc.call("get_thread_read", threadId=thr)["history"]["compaction"]
        assert history["status"] == "completed" and history["keptActions"] == [action] and history["tokensAfter"] == 30, history
        assert history["evidenceRefs"] == [evidence], history
        assert [e["payload"]["kind"] for e in rpc.events(threadId=thr) if e["sequence"] > done["sequence"] - 1 and e["type"] == "snapshot.updated"] == ["thread_read_model"]
        assert [i["status"] for i in history["incidents"]] == ["failed"], history
        assert action in [a["actionId"] for a in rpc.call("list_actions")["actions"]], "it is still open"
        rpc.call("compact_context", threadId=thr, trigger="manual", affectedTurns=turns[:2])
        rpc.fails("compact_context", {"threadId": thr, "trigger": "manual"}, code=-32015)
        rpc.call("compact_context", threadId=thr, failure="the model refused")
        assert rpc.call("get_thread_read", threadId=thr)["history"]["compaction"]["failure"] == "the model refused"
        rpc.call("compact_context", threadId=thr, trigger="manual")
    home.kill_part("runtime")
    with home.rpc() as rpc:
        harness.until("the open one failed", lambda: rpc.call("get_thread_read", threadId=thr)["history"]["compaction"]["status"] == "failed")
        assert kinds(rpc, session, "context.compaction") == ["context.compaction." + k for k in ("started", "completed", "started", "failed", "started", "failed")]
        harness.validate(harness.event_validators(), rpc.events(sessionId=session))
        empty = rpc.call("create_session")
        rpc.call("compact_context", threadId=empty["threadId"], trigger="manual", summary="nothing happened")
        assert rpc.fails("compact_context", {"threadId": empty["threadId"], "trigger": "x", "summary": "a", "failure": "b"}).data["field"] == "failure"
        rpc.fails("compact_context", {"threadId": "thr_none", "trigger": "x"}, code=-32004)
        for unknown in ("turn_none", turns[0]):
            affected = {"threadId": empty["threadId"], "trigger": "x", "summary": "s", "affectedTurns": [unknown]}
            assert rpc.fails("compact_context", affected, code=-32004).data["field"] == "affectedTurns", "no turn of this thread"


def test_rollback_reverts_turns_and_files(home):
    path = os.path.join(home.work, "file")
    with open(path, "w") as f:
        f.write("before\n")
    with home.rpc() as rpc:
        session, thr, turns = thread(rpc, 1)
        write = {"sessionId": session, "threadId": thr, "cwd": home.work, "cow": True}
        kept = rpc.run(["sh", "-c", "echo kept >file"], **write)[0]
        rpc.call("apply_changes", processId=kept["processId"])
        undone = rpc.run(["sh", "-c", "echo undone >file"], **write)[0]
        harness.until("its changes are known", lambda: rpc.call("list_changes", processId=undone["processId"])["changes"])
        live = rpc.start(["sleep", "1000"], sessionId=session, threadId=thr)
        rpc.fails("rollback_thread", {"threadId": thr, "toTurnId": turns[0]}, code=-32015)
        task = rpc.call("create_task", objective="x", sessionId=session, threadId=thr, turnId=live["turnId"])["taskId"]
        job = rpc.call("create_job", taskId=task, items=[{"itemId": "1", "input": {}}])["jobId"]
        assert [j["jobId"] for j in rpc.call("get_thread_read", threadId=thr)["jobs"]] == [job]
        rpc.call("terminate_process", processId=live["processId"])
        rpc.fails("rollback_thread", {"threadId": thr, "toTurnId": "turn_none"}, code=-32004)
        with home.rpc() as agent:
            agent.call("initialize", role="agent")
            agent.fails("rollback_thread", {"threadId": thr, "toTurnId": turns[0]}, code=-32003)
            assert rpc.call("list_changes", processId=undone["processId"])["changes"], "an agent does not discard what an operator's run changed"
        done = rpc.call("rollback_thread", sessionId=session, threadId=thr, toTurnId=turns[0], reason="wrong way")
        assert done["removedTurns"] == [kept["turnId"], undone["turnId"], live["turnId"]], done
        assert [f["processId"] for f in done["filesRestored"]] == [undone["processId"]], done
        assert [f["processId"] for f in done["notRestored"]] == [live["processId"], kept["processId"]], "applied changes stay, and the reply reports that"
        assert rpc.call("apply_changes", processId=undone["processId"])["applied"] == []
        with open(path) as f:
            assert f.read() == "kept\n"
        read = rpc.call("get_thread_read", threadId=thr)
        assert [t.get("rolledBack", False) for t in read["turns"]] == [False, True, True, True] and read["status"] == "idle", read
        assert set(read["history"]["rollback"]["affected"]["processes"]) == {kept["processId"], undone["processId"], live["processId"]}, read["history"]
        assert read["history"]["rollback"]["affected"]["jobs"] == [job], read["history"]
        again = rpc.run(["true"], sessionId=session, threadId=thr)[0]
        assert rpc.call("rollback_thread", threadId=thr, toTurnId=turns[0])["removedTurns"] == [again["turnId"]]
        assert kinds(rpc, session, "history.rollback") == ["history.rollback.started", "history.rollback.completed"] * 2
        harness.validate(harness.snapshot_validators(), [rpc.call("get_session", sessionId=session)])
    home.restart()
    with home.rpc() as rpc:
        assert rpc.call("get_thread_read", threadId=thr)["history"]["rollback"]["count"] == 2
        assert rpc.call("verify_store")["ok"]


def test_an_open_question_survives_compaction_rollback_and_restart(home):
    with home.rpc() as rpc:
        session, thr, turns = thread(rpc, 2)
        task = rpc.call("create_task", objective="x", sessionId=session)["taskId"]
        action = rpc.call("request_action", taskId=task, actionType="approval", prompt="may it?")["actionId"]

        def is_open(rpc):
            return [a["status"] for a in rpc.call("list_actions")["actions"] if a["actionId"] == action] == ["pending"]

        rpc.call("compact_context", threadId=thr, trigger="manual", summary="so far")
        assert is_open(rpc)
        rpc.call("rollback_thread", threadId=thr, toTurnId=turns[0])
        assert is_open(rpc)
    home.restart()
    with home.rpc() as rpc:
        assert is_open(rpc) and not [e for e in rpc.events(taskId=task) if e["type"] == "action.resolved"]
        rpc.call("respond_action", actionId=action, decision="deny")
        rpc.fails("respond_action", {"actionId": action, "decision": "allow"}, code=-32009)


def test_loading_an_older_window_is_recorded_once(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        for _ in range(3):
            rpc.run(["true"], sessionId=session)
        first = rpc.call("get_session", sessionId=session, window={"limit": 2})
        for _ in range(2):
            rpc.call("get_session", sessionId=session, window={"limit": 2, "before": first["historyCursor"]})
        loaded = harness.until("the fact", lambda: [e for e in rpc.events(sessionId=session) if e["type"] == "history.window.loaded"])
        assert len(loaded) == 1 and loaded[0]["payload"]["cursor"] == first["historyCursor"], loaded


def test_a_resumed_thread_and_a_reconnected_channel_load_their_history(home):
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[{"type": "text", "text": "first"}])
        about = {"sessionId": turn["sessionId"], "threadId": turn["threadId"]}
        rpc.call("submit_turn", about, input=[{"type": "text", "text": "second"}])
        channel = rpc.call("connect_channel", transport="sse", sessionId=turn["sessionId"], heartbeatMs=600000)
    home.restart()
    with home.rpc() as rpc:
        def loaded():
            return [e for e in rpc.events(sessionId=turn["sessionId"]) if e["type"] == "history.window.loaded"]

        assert loaded() == []
        for _ in range(2):  # the second time the queue is not held
            rpc.call("resume_thread", threadId=turn["threadId"])
        assert [e["threadId"] for e in loaded()] == [turn["threadId"]], loaded()
        last = rpc.call("list_events", limit=1)["lastSequence"]
        rpc.call("reconnect_channel", channelId=channel["channelId"], lastAckedSequence=3, resumeToken=channel["resumeToken"])
        assert loaded()[1]["payload"] == {"from": 4, "to": last, "truncated": False} and loaded()[1]["channelId"] == channel["channelId"], loaded()
        harness.check_facts(home, rpc)


def text_turn(rpc, session, turn, **more):
    """A turn with an id given by the caller, completed immediately."""
    rpc.call("submit_turn", sessionId=session["sessionId"], threadId=session["threadId"], turnId=turn, input=[{"type": "text", "text": turn}], **more)
    rpc.call("complete_turn", turnId=turn)


def shown(rpc, thread, **window):
    read = rpc.call("get_thread_read", threadId=thread, **({"window": window} if window else {}))
    return [t["turnId"] for t in read["turns"]], read.get("historyCursor")


def test_turns_are_in_the_order_of_their_submission_whatever_their_ids(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session")
        thr = session["threadId"]
        given = ["turn_z", "turn_a", "m", "turn_b", "0"]
        for turn in given:
            text_turn(rpc, session, turn)
        assert shown(rpc, thr)[0] == given
        done = rpc.call("compact_context", threadId=thr, trigger="manual", summary="so far")
        started = [e for e in rpc.events(sessionId=session["sessionId"]) if e["type"] == "context.compaction.started"]
        assert done["status"] == "completed" and started[0]["turnId"] == "0" and started[0]["payload"]["turns"] == given, started
        assert rpc.call("rollback_thread", threadId=thr, toTurnId="turn_a")["removedTurns"] == ["m", "turn_b", "0"]
        assert rpc.call("get_execution_environment", threadId=thr)["turnId"] == "0", "the newest"
    home.restart()
    with home.rpc() as rpc:
        assert shown(rpc, thr)[0] == given and rpc.call("verify_store")["ok"]


def test_queued_turn_is_ordered_by_its_start(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session")
        thr = session["threadId"]
        for turn in ("first", "second", "third"):
            rpc.call("submit_turn", sessionId=session["sessionId"], threadId=thr, turnId=turn, input=[{"type": "text", "text": turn}])
        rpc.call("promote_queued_turn", turnId="third")
        for turn in ("first", "third", "second"):
            harness.until(turn + " runs", lambda: rpc.call("get_thread_read", threadId=thr).get("activeTurnId") == turn)
            rpc.call("complete_turn", turnId=turn)
        assert shown(rpc, thr)[0] == ["first", "third", "second"]
        assert rpc.call("rollback_thread", threadId=thr, toTurnId="third")["removedTurns"] == ["second"]
        assert rpc.call("verify_store")["ok"]


def test_oversized_rollback_names_an_intermediate_turn(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session")
        thr = session["threadId"]
        ids = [("%03d" % i).ljust(64, "x") for i in range(500)]
        for turn in ids:
            text_turn(rpc, session, turn)
        refused = rpc.fails("rollback_thread", {"threadId": thr, "toTurnId": ids[0]})
        first = [turn for turn in ids if turn in refused.message]
        assert refused.data["field"] == "toTurnId" and len(first) == 1, refused
        done = rpc.call("rollback_thread", threadId=thr, toTurnId=first[0])["removedTurns"]
        assert done + rpc.call("rollback_thread", threadId=thr, toTurnId=ids[0])["removedTurns"] == ids[ids.index(first[0]) + 1:] + ids[1:ids.index(first[0]) + 1]


def test_a_long_thread_is_read_in_windows_and_rolled_back_past_a_thousand_turns(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session")
        thr = session["threadId"]
        ids = ["t%04d" % ((i * 7919) % 10000) for i in range(1050)]
        for at in range(0, len(ids), 50):
            calls = []
            for turn in ids[at:at + 50]:
                calls.append(("submit_turn", {"threadId": thr, "turnId": turn, "input": [{"type": "text", "text": turn}], "options": {"whenBusy": "queue"}}))
                calls.append(("complete_turn", {"turnId": turn}))
            for request in rpc.send_together(*calls):
                rpc.reply(request)
        latest, cursor = shown(rpc, thr)
        assert latest == ids[-50:] and cursor == ids[-50]
        found, before = [], {}
        while True:
            turns, cursor = shown(rpc, thr, limit=400, **before)
            found += turns
            if not cursor:
                break
            assert cursor == turns[-1] and len(turns) == 400
            before = {"before": cursor}
        assert found == ids[::-1]
        cli = home.cli("thread", "show", "--json", "--limit", "2", "--before", ids[10], thr).json
        assert [t["turnId"] for t in cli["turns"]] == [ids[9], ids[8]] and cli["historyCursor"] == ids[8], cli
        for field, window in (("window.before", {"before": "turn_none"}), ("window.limit", {"limit": 0}), ("window.limit", {"limit": 1001})):
            assert rpc.fails("get_thread_read", {"threadId": thr, "window": window}).data["field"] == field, window
        assert rpc.call("rollback_thread", threadId=thr, toTurnId=ids[1047])["removedTurns"] == ids[1048:]
        removed = rpc.call("rollback_thread", threadId=thr, toTurnId=ids[2])["removedTurns"]
        assert removed == ids[3:1048]
        note = [e for e in rpc.events(sessionId=session["sessionId"]) if e["type"] == "history.window.loaded"]
        assert [e["payload"]["cursor"] for e in note][:2] == [ids[650], ids[250]] and note[0]["threadId"] == thr, note


if __name__ == "__main__":
    harness.main(globals())
