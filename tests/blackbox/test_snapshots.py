"""The read models of the specification: each one answers, also after a restart, and marks missing data."""

import signal

import harness
from test_policy import ASK, Policed

BY = {
    "session_snapshot": "sessionId", "thread_read_model": "threadId", "tool_inventory_snapshot": None, "queue_snapshot": "threadId",
    "task_snapshot": "sessionId", "context_boundary_snapshot": "threadId", "artifact_checkpoint_summary": "sessionId",
    "permission_sandbox_summary": "threadId", "execution_environment_snapshot": "threadId", "routing_limit_summary": "threadId",
    "subagent_job_summary": "sessionId", "channel_summary": "sessionId", "evidence_summary": "sessionId", "benchmark_summary": "sessionId",
}


def kinds(rpc):
    method = next(m for m in rpc.call("list_methods")["methods"] if m["name"] == "get_snapshot")
    kind = next(p for p in method.get("params", method.get("parameters")) if p["name"] == "kind")
    return kind["enum"]


def read_all(rpc, ids):
    found = {}
    for kind in kinds(rpc):
        by = BY.get(kind, "sessionId")
        answer = rpc.call("get_snapshot", kind=kind, **({by: ids[by]} if by else {}))
        assert answer["kind"] == kind and isinstance(answer["snapshot"], dict), answer
        found[kind] = answer["snapshot"]
    return found


def test_environment_of_a_thread_is_that_of_its_latest_command(home):
    """A sandbox of the session has a turn of the system, which is newer but has no environment."""
    with home.rpc() as rpc:
        ids = rpc.call("create_session", title="work")
        work = rpc.start(["sleep", "1000"], sessionId=ids["sessionId"], threadId=ids["threadId"])
        rpc.call("create_sandbox", sessionId=ids["sessionId"])
        turns = rpc.call("get_thread_read", threadId=ids["threadId"])["turns"]
        assert (turns[-1]["source"], turns[-1]["status"]) == ("system", "completed"), "nothing of it is awaited"
        assert rpc.call("get_execution_environment", threadId=ids["threadId"])["turnId"] == work["turnId"]


def test_snapshot_with_a_process_that_waits_for_permission_is_valid():
    with Policed(ASK) as home, home.rpc() as rpc:
        asked = rpc.call("start_process", command=["touch", "x"], cwd=home.work)
        assert asked["status"] == "waiting_permission", asked
        session = rpc.call("get_session", sessionId=asked["sessionId"])
        waiting, = [p for t in session["threads"] for turn in t["turns"] for p in turn["processes"]]
        assert (waiting["processId"], waiting["status"]) == (asked["processId"], "waiting_permission"), waiting
        harness.validate(harness.snapshot_validators(), [session])


def test_every_snapshot_kind_is_the_same_after_a_restart(home):
    with home.rpc() as rpc:
        ids = rpc.call("create_session", title="all")
        work = rpc.start(["sleep", "1000"], sessionId=ids["sessionId"], threadId=ids["threadId"])
        rpc.call("create_task", objective="x", sessionId=ids["sessionId"])
        found = read_all(rpc, ids)
        environment = found["execution_environment_snapshot"]
        assert [p["processId"] for p in environment["activeProcesses"]] == [work["processId"]] and environment["sandboxProfile"], environment
        assert environment["envRef"] == environment["sandboxProfile"]["environmentRef"], environment
        assert found["routing_limit_summary"]["status"] == "not_applicable", "no request was routed"
        assert rpc.call("get_execution_environment", turnId=work["turnId"]) == environment
        permission = found["permission_sandbox_summary"]
        assert permission["permissionState"]["mode"] == "policy" and not permission["permissionState"]["waitsForPerson"], permission
        assert permission["permissionState"]["lastDecision"]["decision"] == "allow" and permission["sandboxState"]["violationCount"] == 0, permission
        assert found["context_boundary_snapshot"]["status"] == "not_applicable"
    home.restart()
    with home.rpc() as rpc:
        after = read_all(rpc, ids)
        assert after["execution_environment_snapshot"]["activeProcesses"] == []
        for kind in ("task_snapshot", "context_boundary_snapshot", "channel_summary", "artifact_checkpoint_summary", "subagent_job_summary"):
            assert after[kind] == found[kind], kind


def test_thread_snapshot_shows_its_current_state(home):
    with home.rpc() as rpc:
        write = {"type": "tool_call", "toolName": "write_file", "arguments": {"path": "f", "content": "x"}}
        made = rpc.call("submit_turn", input=[write], options={"cwd": home.work, "sandbox": {"workspace": home.work}})
        ids = {"sessionId": made["sessionId"], "threadId": made["threadId"]}
        harness.until("it has ended", lambda: rpc.call("get_thread_read", threadId=ids["threadId"]).get("lastOutcome"))
        rpc.call("set_permission_mode", sessionId=ids["sessionId"], mode="on_request")
        work = rpc.start(["sleep", "1000"], **ids)
        thread = rpc.call("get_thread_read", threadId=ids["threadId"])
        assert thread["lastOutcome"]["turnId"] == made["turnId"] and thread["lastOutcome"]["status"] == "completed", thread["lastOutcome"]
        assert [p["processId"] for p in thread["activeProcesses"]] == [work["processId"]] and thread["activeProcesses"][0]["outputRefs"], thread
        assert [(a["path"], a["turnId"]) for a in thread["artifactRefs"]] == [("f", made["turnId"])], thread["artifactRefs"]
        assert thread["permissionMode"] == "on_request" and thread["permissionState"]["decision"] == "allow" and thread["sandboxProfile"], thread
        assert thread["diagnosticsSummary"]["status"] == "ok" and thread["telemetrySummary"]["joinStatus"] == "missing_correlation", thread
        assert thread["jobs"] == [] and thread["channelSummary"] == {"channels": []}, thread
        task = rpc.call("create_task", objective="x", heartbeatMs=100, **ids)["taskId"]
        with home.rpc() as worker:
            worker.call("start_task", taskId=task)
        harness.until("its worker is lost", lambda: rpc.call("get_thread_read", threadId=ids["threadId"])["diagnosticsSummary"]["lostTasks"] == [task])
        session = rpc.call("get_session", sessionId=ids["sessionId"])
        assert session["artifactRefs"] == thread["artifactRefs"] and ids["threadId"] in session["activeThreadIds"], session
        other = rpc.call("create_task", objective="y", **ids)["taskId"]
        job = rpc.call("create_job", items=[{"input": "a"}], taskId=other)["jobId"]
        channel = rpc.call("connect_channel", transport="json_rpc", peerRole="client", sessionId=ids["sessionId"])["channelId"]
        thread = rpc.call("get_thread_read", threadId=ids["threadId"])
        assert [j["jobId"] for j in thread["jobs"]] == [job] and [c["channelId"] for c in thread["channelSummary"]["channels"]] == [channel], thread
        rpc.call("get_snapshot", kind="permission_sandbox_summary", sessionId=ids["sessionId"])
    home.stop(signal.SIGKILL)
    home.start()
    with home.rpc() as rpc:
        rpc.fails("terminate_process", {"processId": work["processId"]})
        found = rpc.call("get_thread_read", threadId=ids["threadId"])["diagnosticsSummary"]
        assert found["status"] == "attention" and found["lostTurns"] == [work["turnId"]], found
        assert found["warningCount"] == 1 and found["warnings"][0]["code"] == "process_lost", found
        harness.validate(harness.snapshot_validators(), [rpc.call("get_session", sessionId=ids["sessionId"])])
        home.cli("store", "verify")


def test_missing_data_is_not_applicable_or_not_found(home):
    with home.rpc() as rpc:
        empty = rpc.call("create_session")
        environment = rpc.call("get_execution_environment", sessionId=empty["sessionId"])
        assert environment["status"] == "not_applicable" and environment["activeProcesses"] == [], environment
        rpc.fails("get_execution_environment", {"turnId": "turn_none"}, code=-32004)
        rpc.fails("get_snapshot", {"kind": "session_snapshot", "sessionId": "sess_none"}, code=-32004)
        elsewhere = rpc.call("create_task", objective="x")
        for about in ({"taskId": "task_none"}, {"taskId": elsewhere["taskId"], "sessionId": empty["sessionId"]}):
            for kind in ("tool_inventory_snapshot", "task_snapshot"):
                rpc.fails("get_snapshot", {"kind": kind, **about}, code=-32004)
        assert rpc.call("get_snapshot", {"kind": "task_snapshot", "taskId": elsewhere["taskId"], "sessionId": elsewhere["sessionId"]})
        for kind, by in BY.items():
            if by:
                error = rpc.fails("get_snapshot", {"kind": kind}, code=-32602)
                assert error.data["field"] in ("sessionId", "threadId"), error


if __name__ == "__main__":
    harness.main(globals())
