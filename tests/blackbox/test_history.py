"""A thread's past: compaction keeps what is open, rollback takes turns and files back, and a crash leaves neither half done."""

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
        done = rpc.call("compact_context", sessionId=session, threadId=thr, trigger="token_limit", summary="s" * 5000, tokensBefore=900, tokensAfter=30)
        assert rpc.call("read_output", outputRef=done["summaryRef"], length=10000)["data"] == "s" * 5000
        history = rpc.call("get_thread_read", threadId=thr)["history"]["compaction"]
        assert history["status"] == "completed" and history["keptActions"] == [action] and history["tokensAfter"] == 30, history
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


def test_rollback_takes_turns_and_files_back(home):
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
        rpc.call("terminate_process", processId=live["processId"])
        rpc.fails("rollback_thread", {"threadId": thr, "toTurnId": "turn_none"}, code=-32004)
        done = rpc.call("rollback_thread", sessionId=session, threadId=thr, toTurnId=turns[0], reason="wrong way")
        assert done["removedTurns"] == [kept["turnId"], undone["turnId"], live["turnId"]], done
        assert [f["processId"] for f in done["filesRestored"]] == [undone["processId"]], done
        assert [f["processId"] for f in done["notRestored"]] == [kept["processId"]], "what was applied stays, and that is said"
        assert rpc.call("apply_changes", processId=undone["processId"])["applied"] == []
        with open(path) as f:
            assert f.read() == "kept\n"
        read = rpc.call("get_thread_read", threadId=thr)
        assert [t.get("rolledBack", False) for t in read["turns"]] == [False, True, True, True] and read["status"] == "idle", read
        assert set(read["history"]["rollback"]["affected"]["processes"]) == {kept["processId"], undone["processId"], live["processId"]}, read["history"]
        again = rpc.run(["true"], sessionId=session, threadId=thr)[0]
        assert rpc.call("rollback_thread", threadId=thr, toTurnId=turns[0])["removedTurns"] == [again["turnId"]]
        assert kinds(rpc, session, "history.rollback") == ["history.rollback.started", "history.rollback.completed"] * 2
        harness.validate({n: v for n, v in harness.schema_validators().items() if "snapshot" in n}, [rpc.call("get_session", sessionId=session)])
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


def test_older_windows_are_noted_once(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        for _ in range(3):
            rpc.run(["true"], sessionId=session)
        first = rpc.call("get_session", sessionId=session, window={"limit": 2})
        for _ in range(2):
            rpc.call("get_session", sessionId=session, window={"limit": 2, "before": first["historyCursor"]})
        loaded = harness.until("the fact", lambda: [e for e in rpc.events(sessionId=session) if e["type"] == "history.window.loaded"])
        assert len(loaded) == 1 and loaded[0]["payload"]["cursor"] == first["historyCursor"], loaded


if __name__ == "__main__":
    harness.main(globals())
