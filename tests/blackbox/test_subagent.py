"""Child agents: a thread and a sandbox of their own, input, waiting, resuming, closing, also across a restart."""

import contextlib
import os

import harness
from test_policy import Policed, pending


def parent(rpc):
    return rpc.call("create_session", title="parent")


def spawn(rpc, p, **more):
    return rpc.call("spawn_subagent", sessionId=p["sessionId"], threadId=p["threadId"], role="worker", **more)


def one(rpc, subagent):
    return next(s for s in rpc.call("list_subagents")["subagents"] if s["subagentId"] == subagent)


def kinds(rpc, session, word="subagent."):
    return [e["type"] for e in rpc.events(sessionId=session) if e["type"].startswith(word)]


def test_subagent_can_be_a_command(home):
    with home.rpc() as rpc:
        p = parent(rpc)
        child = spawn(rpc, p, nickname="ann", command=["cat"], isolation={"profile": "isolated"}, input="one\n", modelPolicy={"only": "small"})
        harness.until("it runs", lambda: one(rpc, child["subagentId"])["status"] == "running")
        rpc.call("send_subagent_input", subagentId=child["subagentId"], input="two\n")
        rpc.call("send_subagent_input", subagentId=child["subagentId"], input="", eof=True)
        done = rpc.call("wait_subagents", subagentIds=[child["subagentId"]], timeoutMs=60000)
        assert not done["timedOut"], done
        s = done["subagents"][0]
        assert s["status"] == "completed" and s["exitCode"] == 0 and s["nickname"] == "ann" and s["isolation"]["profile"] == "isolated", s
        assert rpc.call("read_output", outputRef=s["outputRef"])["data"] == "one\ntwo\n"
        assert s["parentThreadId"] == p["threadId"] and s["threadId"] == child["threadId"] != p["threadId"]
        process = rpc.call("get_process", processId=s["processId"])
        assert process["threadId"] == child["threadId"], process
        assert kinds(rpc, p["sessionId"]).count("subagent.input") == 3
        thread = rpc.call("get_thread_read", threadId=p["threadId"])
        assert [x["subagentId"] for x in thread["subagents"]] == [child["subagentId"]], thread
        harness.validate(harness.event_validators(),
                         [e for e in rpc.events(sessionId=p["sessionId"]) if e["type"] != "subagent.output"])
        harness.validate(harness.snapshot_validators(), [rpc.call("get_session", sessionId=p["sessionId"])])
        rpc.fails("send_subagent_input", {"subagentId": child["subagentId"], "input": "late"}, code=-32015)


def test_the_end_of_input_reaches_a_child_that_has_not_begun(home):
    with home.rpc() as rpc:
        p = parent(rpc)
        for _ in range(5):
            child = spawn(rpc, p, command=["cat"], input="one\n")["subagentId"]
            rpc.call("send_subagent_input", subagentId=child, input="two\n", eof=True)
            done = rpc.call("wait_subagents", subagentIds=[child], timeoutMs=60000)
            assert not done["timedOut"], "cat received the end of input"
            assert rpc.call("read_output", outputRef=done["subagents"][0]["outputRef"])["data"] == "one\ntwo\n"


def test_failed_subagent_can_be_resumed(home):
    with home.rpc() as rpc:
        p = parent(rpc)
        child = spawn(rpc, p, commandLine="read x; exit $x", input="3\n")["subagentId"]
        s = rpc.call("wait_subagents", subagentIds=[child])["subagents"][0]
        assert s["status"] == "failed" and s["exitCode"] == 3 and s["category"] == "exit" and s["resumable"], s
        rpc.call("resume_subagent", subagentId=child, input="0\n")
        s = rpc.call("wait_subagents", subagentIds=[child])["subagents"][0]
        assert s["status"] == "completed" and s["resumes"] == 1, s
        refused = spawn(rpc, p, command=["/nonexistent/program"])["subagentId"]
        s = rpc.call("wait_subagents", subagentIds=[refused])["subagents"][0]
        assert s["status"] == "failed" and s["category"] == "spawn", s


def test_close_ends_the_whole_tree(home):
    with home.rpc() as rpc:
        p = parent(rpc)
        child = spawn(rpc, p, command=["sleep", "1000"])
        grand = rpc.call("spawn_subagent", threadId=child["threadId"], role="helper", command=["sleep", "1000"])
        for s in (child, grand):
            harness.until("it runs", lambda: one(rpc, s["subagentId"])["status"] == "running")
        below = rpc.call("list_subagents", parentThreadId=p["threadId"], descendants=True)["subagents"]
        assert [s["subagentId"] for s in below] == [child["subagentId"], grand["subagentId"]], below
        rpc.call("close_subagent", subagentId=child["subagentId"], reason="enough")
        done = rpc.call("wait_subagents", subagentIds=[child["subagentId"], grand["subagentId"]])["subagents"]
        assert [s["status"] for s in done] == ["closed", "closed"], done
        for s in done:
            assert rpc.call("get_process", processId=s["processId"])["status"] == "terminated"
        rpc.fails("close_subagent", {"subagentId": child["subagentId"]}, code=-32015)


def test_close_reaches_everything_below(home):
    """However deep, and below a child that has ended."""
    with home.rpc() as rpc:
        p = parent(rpc)
        top = spawn(rpc, p)
        chain = [top]
        for _ in range(20):
            chain.append(rpc.call("spawn_subagent", threadId=chain[-1]["threadId"], role="helper"))
        beside = spawn(rpc, p)
        rpc.call("report_subagent", subagentId=chain[10]["subagentId"], status="completed")
        rpc.call("close_subagent", subagentId=top["subagentId"])
        expected = ["closed"] * 10 + ["completed"] + ["closed"] * 10
        assert [one(rpc, s["subagentId"])["status"] for s in chain] == expected
        assert one(rpc, beside["subagentId"])["status"] == "running"


def test_a_close_that_cannot_be_recorded_ends_nothing():
    with harness.Home({"storeQuotaBytes": 8 << 20}) as home, home.rpc() as rpc:
        p = parent(rpc)
        kept, other = spawn(rpc, p, command=["cat"])["subagentId"], spawn(rpc, p)["subagentId"]
        harness.until("it runs", lambda: one(rpc, kept)["status"] == "running")
        harness.fill_store(rpc)
        rpc.fails("close_subagent", {"subagentId": kept}, code=-32012)
        rpc.call("prune_store", beforeSequence=rpc.call("initialize")["lastSequence"])
        rpc.call("compact_store")
        rpc.call("close_subagent", subagentId=other)
        rpc.call("send_subagent_input", subagentId=kept, input="it runs\n", eof=True)
        s = rpc.call("wait_subagents", subagentIds=[kept], timeoutMs=60000)["subagents"][0]
        assert s["status"] == "completed" and rpc.call("read_output", outputRef=s["outputRef"])["data"] == "it runs\n", s


def test_client_can_run_a_subagent_and_report(home):
    with home.rpc() as rpc:
        p = parent(rpc)
        child = spawn(rpc, p)["subagentId"]
        assert one(rpc, child)["status"] == "running" and not one(rpc, child)["supervised"]
        rpc.call("report_subagent", subagentId=child, status="waiting_input", message="which file?")
        rpc.call("send_subagent_input", subagentId=child, input="that one")
        assert rpc.call("wait_subagents", subagentIds=[child], timeoutMs=1)["timedOut"]
        rpc.call("report_subagent", subagentId=child, status="failed", category="quota", message="no tokens left")
        s = rpc.call("wait_subagents", subagentIds=[child])["subagents"][0]
        assert s["status"] == "failed" and s["category"] == "quota" and s["statusReason"] == "no tokens left", s
        rpc.fails("report_subagent", {"subagentId": child, "status": "running"}, code=-32015)
        supervised = spawn(rpc, p, command=["sleep", "1000"])["subagentId"]
        rpc.fails("report_subagent", {"subagentId": supervised, "status": "completed"}, code=-32015)
        rpc.call("close_subagent", subagentId=supervised)


def test_subagents_after_restarts(home):
    with home.rpc() as rpc:
        p = parent(rpc)
        child = spawn(rpc, p, command=["sh", "-c", "read x; echo got $x"])["subagentId"]
        harness.until("it runs", lambda: one(rpc, child)["status"] == "running")
    home.kill_part("runtime")
    with home.rpc() as rpc:
        assert one(rpc, child)["status"] == "running"
        rpc.call("send_subagent_input", subagentId=child, input="it\n")
        s = rpc.call("wait_subagents", subagentIds=[child])["subagents"][0]
        assert s["status"] == "completed" and rpc.call("read_output", outputRef=s["outputRef"])["data"] == "got it\n", s
        other = spawn(rpc, p, command=["sleep", "1000"])["subagentId"]
        harness.until("it runs", lambda: one(rpc, other)["status"] == "running")
    home.restart()
    with home.rpc() as rpc:
        s = one(rpc, other)
        assert s["status"] == "cancelled" and s["resumable"], s
        assert rpc.call("verify_store")["ok"]
        rpc.call("resume_subagent", subagentId=other)
        harness.until("it runs", lambda: one(rpc, other)["status"] == "running")
        rpc.call("close_subagent", subagentId=other)


@contextlib.contextmanager
def asks_for_cat():
    with Policed({"permissions": {"ask": ["Bash(cat:*)"]}}) as home:
        yield home


def question(rpc):
    return harness.until("a person is asked", lambda: pending(rpc))[0]["actionId"]


def test_close_ends_a_child_that_has_not_begun():
    with asks_for_cat() as home, home.rpc() as rpc:
        p = parent(rpc)
        asked, launched = spawn(rpc, p, command=["cat", "-"])["subagentId"], None
        question(rpc)
        for _ in range(3):
            launched = spawn(rpc, p, command=["sleep", "1000"])["subagentId"]
            rpc.call("close_subagent", subagentId=launched)
            assert [s["status"] for s in rpc.call("wait_subagents", subagentIds=[launched])["subagents"]] == ["closed"]
        assert rpc.call("close_subagent", subagentId=asked)["status"] == "closing"
        assert [s["status"] for s in rpc.call("wait_subagents", subagentIds=[asked])["subagents"]] == ["closed"]
        assert not pending(rpc), "nobody is asked about a command that will not run"
        harness.until("nothing of them is left", lambda: all("endedAt" in x for x in rpc.call("list_processes")["processes"]))
        types = [(e["type"], e.get("subagentId")) for e in rpc.events()]
        assert types.index(("subagent.failed", asked)) < types.index(("subagent.closed", asked)), types
        harness.validate(harness.event_validators(), rpc.events())
        assert rpc.call("verify_store")["ok"]


def test_a_child_gets_only_the_input_of_its_own_run():
    with asks_for_cat() as home, home.rpc() as rpc:
        child = spawn(rpc, parent(rpc), command=["cat", "-"], input="of a start that was denied\n")["subagentId"]
        rpc.call("respond_action", actionId=question(rpc), decision="deny")
        rpc.call("wait_subagents", subagentIds=[child])
        for given in ("one\n", "two\n"):
            rpc.call("resume_subagent", subagentId=child)
            asked = question(rpc)
            rpc.call("send_subagent_input", subagentId=child, input=given, eof=True)
            rpc.call("respond_action", actionId=asked, decision="allow")
            s = rpc.call("wait_subagents", subagentIds=[child])["subagents"][0]
            assert rpc.call("read_output", outputRef=s["outputRef"])["data"] == given, s


def test_a_child_waits_for_permission_across_a_restart():
    with asks_for_cat() as home:
        with home.rpc() as rpc:
            p = parent(rpc)
            child = spawn(rpc, p, commandLine="echo x >>ran; cat <ran", cwd=home.work, isolation={"sandbox": {"workspace": home.work}})["subagentId"]
            asked = question(rpc)
            other = spawn(rpc, p, command=["cat", "-"], input="only in memory\n")["subagentId"]
            harness.until("both are asked about", lambda: len(pending(rpc)) == 2)
        home.kill_part("runtime")
        with home.rpc() as rpc:
            assert one(rpc, child)["status"] == "accepted", one(rpc, child)
            s = rpc.call("wait_subagents", subagentIds=[other])["subagents"][0]
            assert "its input was lost" in s["statusReason"] and s["resumable"], s
            assert [a["actionId"] for a in pending(rpc)] == [asked], pending(rpc)
            rpc.call("respond_action", actionId=asked, decision="allow")
            assert rpc.call("wait_subagents", subagentIds=[child])["subagents"][0]["status"] == "completed"
            with open(os.path.join(home.work, "ran")) as f:
                assert f.read() == "x\n"
            assert rpc.call("verify_store")["ok"]


def test_a_cancelled_task_ends_its_subagents_first(home):
    with home.rpc() as rpc:
        p = parent(rpc)
        task = rpc.call("create_task", objective="x", sessionId=p["sessionId"])["taskId"]
        child = spawn(rpc, p, command=["sleep", "1000"], taskId=task)["subagentId"]
        harness.until("it runs", lambda: one(rpc, child)["status"] == "running")
        rpc.call("cancel_task", taskId=task, reason="enough", propagate=True)
        harness.until("the task's end", lambda: rpc.call("get_task", taskId=task)["status"] == "cancelled")
        assert one(rpc, child)["status"] == "closed"
        order = [e["type"] for e in rpc.events(sessionId=p["sessionId"]) if e["type"] in ("task.cancel_requested", "subagent.closed", "task.cancelled")]
        assert order == ["task.cancel_requested", "subagent.closed", "task.cancelled"], order


def test_invalid_subagent_requests_are_rejected(home):
    with home.rpc() as rpc:
        p = parent(rpc)
        rpc.fails("spawn_subagent", {"threadId": "thr_none", "role": "x"}, code=-32004)
        assert rpc.fails("spawn_subagent", {"threadId": p["threadId"], "role": ""}).data["field"] == "role"
        assert rpc.fails("spawn_subagent", {"threadId": p["threadId"], "role": "x", "command": ["a" * 20000]}).data["field"] == "command"
        rpc.fails("wait_subagents", {"subagentIds": ["sub_none"]}, code=-32004)
        assert rpc.fails("list_subagents", {"descendants": True}).data["field"] == "descendants"


if __name__ == "__main__":
    harness.main(globals())
