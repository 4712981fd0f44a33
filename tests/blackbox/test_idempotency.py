"""The same key and body give the stored result; the same key with another body is a conflict; across restarts."""

import harness
from harness import until
from test_policy import Policed


def test_same_key_and_body_give_the_same_result(home):
    with home.rpc() as rpc:
        first = rpc.call("start_process", commandLine="echo once", idempotencyKey="k1")
        again = rpc.call("start_process", commandLine="echo once", idempotencyKey="k1")
        assert first["processId"] == again["processId"] and first["sessionId"] == again["sessionId"], (first, again)
        rpc.wait(first["processId"])
        assert rpc.call("start_process", commandLine="echo once", idempotencyKey="k1")["processId"] == first["processId"]
        assert len([e for e in rpc.events() if e["type"] == "process.started"]) == 1


def test_order_of_json_members_does_not_matter(home):
    with home.rpc() as rpc:
        rpc.raw(b'{"jsonrpc":"2.0","id":9001,"method":"create_session","params":{"title":"a","workspaceId":"w","idempotencyKey":"o"}}\n')
        rpc.raw(b'{"jsonrpc":"2.0","id":9002,"method":"create_session","params":{"idempotencyKey":"o","workspaceId":"w","title":"a"}}\n')
        one, two = rpc.odd_reply(), rpc.odd_reply()
        assert one["result"]["sessionId"] == two["result"]["sessionId"], (one, two)


def test_same_key_with_another_body_is_a_conflict(home):
    with home.rpc() as rpc:
        rpc.call("start_process", commandLine="true", idempotencyKey="k2")
        rpc.fails("start_process", {"commandLine": "false", "idempotencyKey": "k2"}, code=-32009)
        rpc.fails("create_session", {"idempotencyKey": "k2"}, code=-32009)
        assert len([e for e in rpc.events() if e["type"] == "process.started"]) == 1


def test_parallel_requests_with_one_key_run_once(home):
    with home.rpc() as a, home.rpc() as b:
        ids = [(r, r.send("start_process", commandLine="echo x", idempotencyKey="race")) for r in (a, b) * 10]
        results = set()
        for rpc, i in ids:
            try:
                results.add(rpc.reply(i)["processId"])
            except harness.RpcError as e:
                assert e.code == -32009 and e.data["retryable"], e
        assert len(results) == 1, results
        assert len([e for e in a.events() if e["type"] == "process.started"]) == 1


def test_stored_results_survive_restarts(home):
    with home.rpc() as rpc:
        first = rpc.call("start_process", commandLine="echo once", idempotencyKey="k3")
        session = rpc.call("create_session", title="x", idempotencyKey="k4")
        rpc.wait(first["processId"])
    home.kill_part("runtime")
    until("it answers", home.answers)
    with home.rpc() as rpc:
        assert rpc.call("start_process", commandLine="echo once", idempotencyKey="k3")["processId"] == first["processId"]
    home.restart()
    with home.rpc() as rpc:
        assert rpc.call("create_session", title="x", idempotencyKey="k4") == session
        rpc.fails("create_session", {"title": "y", "idempotencyKey": "k4"}, code=-32009)
        assert len([e for e in rpc.events() if e["type"] == "process.started"]) == 1


def same(result):
    """What a repeated reply has in common with the first: the status may be the present one."""
    return {k: v for k, v in result.items() if k not in ("status", "sequence")}


def test_repeated_ids_return_the_first_result(home):
    """Each method that creates something with an id of the client's: the same request again is the same thing, also after a restart; another one is a conflict."""
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", turnId="turn_mine", input=[{"type": "text", "text": "go"}])
        thread = {"sessionId": turn["sessionId"], "threadId": turn["threadId"]}
        task = rpc.call("create_task", objective="work", sessionId=turn["sessionId"])["taskId"]
        run = rpc.call("start_task", taskId=task)["runId"]
        trial = {"datasetId": "d", "datasetVersion": "1", "configurationId": "c", "role": "candidate", "taskId": task, "runId": run, "turnId": "turn_mine"}
        report = {"status": "started", "turnId": "turn_mine", "toolName": "Look"}
        rows = [("create_session", "sessionId", {"title": "a"}, {"title": "b"}),
                ("submit_turn", "turnId", {"input": [{"type": "text", "text": "a"}]}, {"input": [{"type": "text", "text": "b"}]}),
                ("create_task", "taskId", {"objective": "a"}, {"objective": "b"}),
                ("create_job", "jobId", {"items": [{"input": "a"}]}, {"items": [{"input": "b"}]}),
                ("spawn_subagent", "subagentId", dict(thread, role="a"), dict(thread, role="b")),
                ("report_tool_call", "toolCallId", dict(report, arguments={"a": 1}), dict(report, arguments={"a": 2})),
                ("start_benchmark_trial", "trialId", trial, dict(trial, datasetVersion="2"))]
        made = {m["name"] for m in rpc.call("list_methods")["methods"] for p in m["parameters"] if p["name"] in [r[1] for r in rows] and p["summary"].startswith("its id")}
        assert made == {r[0] for r in rows} - {"report_tool_call"} | {"invoke_tool"}, made
        first = {}
        for method, field, body, other in rows:
            given = f"{field}_given"
            first[method] = rpc.call(method, **body, **{field: given})
            last = rpc.events()[-1]["sequence"]
            again = rpc.call(method, **body, **{field: given})
            assert again[field] == given and same(again) == same(first[method]), (first[method], again)
            error = rpc.fails(method, **other, **{field: given}, code=-32009)
            assert error.data["field"] == field, (method, error.data)
            assert [e["type"] for e in rpc.events(after=last) if e["type"] != "thread.updated"] == [], method
        call = rpc.call("report_tool_call", toolCallId="toolCallId_given", status="completed", result="x")
        assert rpc.call("report_tool_call", **rows[5][2], toolCallId="toolCallId_given")["status"] == call["status"] == "completed"
    home.kill_part("runtime")
    until("it answers", home.answers)
    with home.rpc() as rpc:
        for method, field, body, other in rows:
            given = f"{field}_given"
            again = rpc.call(method, **body, **{field: given})
            assert again[field] == given and same(again) == same(first[method]), (first[method], again)
            rpc.fails(method, **other, **{field: given}, code=-32009)


def test_channel_id_is_no_key(home):
    """The reply belongs to its connection, and has the token that another client must not get."""
    channel = {"transport": "json_rpc", "peerRole": "client", "channelId": "chan_given"}
    with home.rpc() as rpc, home.rpc() as other:
        assert rpc.call("connect_channel", **channel)["resumeToken"]
        for client in (rpc, other):
            assert "resumeToken" not in str(client.fails("connect_channel", channel, code=-32009).data)


def test_repeated_report_of_a_call_that_waits():
    with Policed({"permissions": {"ask": ["Look"]}}) as home, home.rpc() as rpc:
        rpc.call("submit_turn", turnId="turn_mine", input=[{"type": "text", "text": "go"}])
        report = {"status": "started", "turnId": "turn_mine", "toolName": "Look", "toolCallId": "call_mine"}
        asked = rpc.call("report_tool_call", **report)
        assert asked["status"] == "waiting_permission", asked
        again = rpc.call("report_tool_call", **report)
        assert (again["status"], again["actionId"]) == ("waiting_permission", asked["actionId"]), again
        rpc.fails("report_tool_call", **report, arguments={"a": 1}, code=-32009)


def test_id_can_be_used_again_after_its_session_has_expired(home):
    with home.rpc() as rpc:
        first = rpc.call("create_session", sessionId="sess_mine")
        rpc.call("prune_store", beforeSequence=rpc.events()[-1]["sequence"] + 1)
        rpc.fails("get_session", sessionId="sess_mine", code=-32004)
        assert rpc.call("create_session", sessionId="sess_mine")["threadId"] != first["threadId"]
        assert rpc.call("get_session", sessionId="sess_mine")


def test_every_result_has_a_sequence_number(home):
    with home.rpc() as rpc:
        started = rpc.call("start_process", command=["cat"], stdin="pipe")
        process = started["processId"]
        results = [started, rpc.call("create_session"), rpc.call("write_process_stdin", processId=process, data="x"),
                   rpc.call("close_process_stdin", processId=process)]
        last = rpc.call("initialize")["lastSequence"]
        assert all(0 < r["sequence"] <= last for r in results), results
        rpc.wait(process)


if __name__ == "__main__":
    harness.main(globals())
