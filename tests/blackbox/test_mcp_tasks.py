"""Calls of `bailiff mcp` that become tasks, in both eras: asked for by the client, or because they take long."""

import os
import signal

import harness
from harness import until
from mcp import META, Mcp, text_of
from test_mcp_protocol import FIXTURES, accept, running

TASKS = {"extensions": {META + "tasks": {}}}


def test_legacy_call_can_be_created_as_a_task(home):
    with Mcp(home, "--structured") as mcp, home.rpc() as rpc:
        mcp.initialize()
        made = mcp.call("tools/call", name="exec", arguments={"command": "sleep 0.3; echo later"}, task={"ttl": 60000})["task"]
        assert made["status"] == "working" and made["ttl"] >= 60000 and made["pollInterval"] > 0, made
        assert mcp.call("tasks/get", taskId=made["taskId"])["status"] in ("working", "completed")
        result = mcp.call("tasks/result", taskId=made["taskId"])
        assert "later" in text_of(result) and result["_meta"][META + "related-task"] == {"taskId": made["taskId"]}, result
        assert mcp.call("tasks/get", taskId=made["taskId"])["status"] == "completed"
        assert made["taskId"] in [t["taskId"] for t in mcp.call("tasks/list")["tasks"]]
        mcp.fails("tasks/cancel", taskId=made["taskId"], code=-32602)
        mcp.fails("tasks/get", taskId="task_none", code=-32602)
        until("the daemon has it", lambda: rpc.call("get_task", taskId=made["taskId"])["status"] == "completed")
        made = mcp.call("tools/call", name="exec", arguments={"command": "sleep 1000"}, task={})["task"]
        until("it runs", lambda: running(rpc))
        assert mcp.call("tasks/cancel", taskId=made["taskId"])["status"] == "cancelled"
        until("it is gone", lambda: not running(rpc))
        mcp.fails("tasks/result", taskId=made["taskId"])


def test_a_task_outlives_its_client(home):
    mark = os.path.join(home.work, "go")
    with home.rpc() as rpc:
        with Mcp(home, "--structured") as mcp:
            mcp.initialize()
            made = mcp.call("tools/call", name="exec", arguments={"command": f"while [ ! -e {mark} ]; do sleep 0.05; done; exit 5", "cwd": home.work}, task={})["task"]
            until("it runs", lambda: running(rpc))
            until("the record knows its process", lambda: rpc.call("get_task", taskId=made["taskId"]).get("scope", {}).get("processId"))
        assert running(rpc), "the client has gone, the task has not"
        with Mcp(home, "--structured") as mcp:
            mcp.initialize()
            assert mcp.call("tasks/get", taskId=made["taskId"])["status"] == "working"
            open(mark, "w").close()
            result = mcp.call("tasks/result", taskId=made["taskId"])
            assert result["isError"] and "Exit code 5" in text_of(result) and result["structuredContent"]["exitCode"] == 5, result
        with Mcp(home, "--structured").modern(**TASKS) as mcp:
            told = mcp.call("tasks/get", taskId=made["taskId"])
            assert told["status"] == "completed" and told["result"]["isError"], told


def test_task_outlives_a_client_that_disconnects_immediately(home):
    """The task was announced before its process started."""
    for i in range(5):
        mark = os.path.join(home.work, f"go{i}")
        with Mcp(home, "--structured") as mcp:
            mcp.initialize()
            made = mcp.call("tools/call", name="exec", arguments={"command": f"while [ ! -e {mark} ]; do sleep 0.05; done; echo over", "cwd": home.work}, task={})["task"]
        with Mcp(home, "--structured") as mcp:
            mcp.initialize()
            assert mcp.call("tasks/get", taskId=made["taskId"])["status"] == "working"
            open(mark, "w").close()
            assert mcp.call("tasks/result", taskId=made["taskId"])["structuredContent"]["stdout"] == "over\n"
            until("it is told as ended everywhere", lambda: {t["taskId"]: t["status"] for t in mcp.call("tasks/list")["tasks"]}[made["taskId"]] == "completed")
    with Mcp(home, "--structured") as mcp:
        mcp.initialize()
        made = mcp.call("tools/call", name="exec", arguments={"command": "sleep 1000"}, task={})["task"]
    with Mcp(home, "--structured") as mcp, home.rpc() as rpc:
        mcp.initialize()
        assert mcp.call("tasks/cancel", taskId=made["taskId"])["status"] == "cancelled"
        until("it is ended", lambda: not running(rpc))
    with Mcp(home, "--structured") as mcp:
        mcp.initialize()
        for task in (5, [], None, {"ttl": "x"}, {"ttl": -1}):
            assert mcp.fails("tools/call", name="exec", arguments={"command": "true"}, task=task, code=-32602).message.startswith("task:")


def test_long_results_of_tasks_are_complete(home):
    for size in (20_000, 900_000):
        # Not ASCII, and not aligned to any boundary.
        command = f"python3 -c 'import sys; sys.stdout.write((\"äöü€😀 \" * {size})[:{size // 3}])'"
        with Mcp(home, "--structured") as mcp, home.rpc() as rpc:
            mcp.initialize()
            made = mcp.call("tools/call", name="exec", arguments={"command": command, "maxOutputBytes": 1000000}, task={})["task"]["taskId"]
            whole = mcp.call("tasks/result", taskId=made)
            assert len(text_of(whole)) > size // 3, len(text_of(whole))
            record = until("the record has it", lambda: (r := rpc.call("get_task", taskId=made))["status"] == "completed" and r)
            kept = record["outputs"][0]
            assert kept["name"] == "mcp.result" and kept["outputRef"] and kept["bytes"] > size and "content" not in kept, kept
        with Mcp(home, "--structured") as mcp:
            mcp.initialize()
            assert mcp.call("tasks/result", taskId=made) == whole
        with Mcp(home, "--structured").modern(**TASKS) as mcp:
            told = mcp.call("tasks/get", taskId=made)
            assert told["status"] == "completed" and told["result"]["content"] == whole["content"], told["status"]


def test_task_of_another_client_can_be_cancelled(home):
    with home.rpc() as rpc:
        for modern in (False, True):
            with Mcp(home, "--structured") as mcp:
                mcp.initialize()
                made = mcp.call("tools/call", name="exec", arguments={"command": "sleep 1000"}, task={})["task"]["taskId"]
                until("the record knows its process", lambda: rpc.call("get_task", taskId=made).get("scope", {}).get("processId"))
            assert running(rpc)
            with (Mcp(home, "--structured").modern(**TASKS) if modern else Mcp(home, "--structured")) as mcp:
                if not modern:
                    mcp.initialize()
                mcp.call("tasks/cancel", taskId=made)
                until("it is gone", lambda: not running(rpc))
                assert mcp.call("tasks/get", taskId=made)["status"] == "cancelled"


def test_calls_that_end_while_they_become_tasks_leave_no_open_task(home):
    with Mcp(home, **FIXTURES).modern(**TASKS) as mcp, home.rpc() as rpc:
        calls = [mcp.send("tools/call", name="exec", arguments={"command": f"sleep {0.9 + i / 100}"}) for i in range(20)]
        results = [mcp.reply(c) for c in calls]
        assert {r["resultType"] for r in results} <= {"task", "complete"}, results
        for r in results:
            if r["resultType"] == "task":
                until("it ends", lambda: mcp.call("tasks/get", taskId=r["taskId"])["status"] == "completed")
        until("no task is left over", lambda: all(t["status"] == "completed" for t in rpc.call("list_tasks")["tasks"]))


def test_call_cancelled_while_it_becomes_a_task_is_ended(home):
    with Mcp(home, "--structured", env={"BAILIFF_MCP_QUICK_MS": "100", "BAILIFF_MCP_HEARTBEAT_MS": "200"}).modern(**TASKS) as mcp, home.rpc() as rpc:
        mcp.tool("ps")
        runtime = home.kill_part("runtime", signal.SIGSTOP)
        try:
            call = mcp.send("tools/call", name="exec", arguments={"command": "sleep 1000"}, _meta={"progressToken": 1})
            mcp.note("notifications/progress")      # by now the daemon was asked for both, and has not answered
            mcp.notify("notifications/cancelled", requestId=call)
            mcp.fails("ping", code=-32601)
        finally:
            os.kill(runtime, signal.SIGCONT)
        until("the task is cancelled", lambda: [t["status"] for t in rpc.call("list_tasks")["tasks"]] == ["cancelled"])
        until("the process is ended", lambda: [p["status"] for p in rpc.call("list_processes")["processes"]] == ["terminated"])
        assert call not in mcp.replies


def test_slow_modern_calls_become_tasks(home):
    with Mcp(home, **FIXTURES, env={"BAILIFF_MCP_QUICK_MS": "60000"}).modern(**TASKS) as mcp:
        assert mcp.tool("greet", name="you")["resultType"] == "complete"
        assert mcp.tool("exec", command="echo quick")["resultType"] == "complete", "a quick call is answered directly"
    with Mcp(home, **FIXTURES).modern(elicitation={}, **TASKS) as mcp, home.rpc() as rpc:
        made = mcp.tool("exec", command="sleep 1000")
        assert made["resultType"] == "task" and made["status"] == "working" and "task" not in made and made["pollIntervalMs"] > 0, made
        assert mcp.call("tasks/cancel", taskId=made["taskId"]).keys() <= {"resultType", "_meta"}
        assert mcp.call("tasks/get", taskId=made["taskId"])["status"] == "cancelled"
        assert mcp.call("tasks/cancel", taskId=made["taskId"])["resultType"] == "complete", "repeating it is not an error"
        until("it is gone", lambda: not running(rpc))
        mark = os.path.join(home.work, "go")
        heard = mcp.tool("exec", command=f"while [ ! -e {mark} ]; do sleep 0.05; done; exit 5", cwd=home.work)
        mcp.send("subscriptions/listen", notifications={"taskIds": [heard["taskId"]]})
        mcp.note("notifications/subscriptions/acknowledged")
        open(mark, "w").close()
        told = mcp.note("notifications/tasks")
        assert told["taskId"] == heard["taskId"] and told["status"] == "completed" and told["result"]["isError"], told
        failing = mcp.tool("failing_job")["taskId"]
        until("it ends", lambda: mcp.call("tasks/get", taskId=failing)["status"] == "completed")
        assert mcp.call("tasks/get", taskId=failing)["result"]["isError"]
        broken = mcp.tool("protocol_error_job")
        until("it ends", lambda: mcp.call("tasks/get", taskId=broken["taskId"])["status"] == "failed")
        assert mcp.call("tasks/get", taskId=broken["taskId"])["error"]["code"] == -32603
        mcp.fails("tasks/get", taskId="task_none", code=-32602)
        mcp.fails("tasks/update", taskId="task_none", inputResponses={}, code=-32602)


def test_task_requests_input(home):
    with Mcp(home, **FIXTURES).modern(elicitation={}, **TASKS) as mcp:
        made = mcp.tool("multi_input")["taskId"]

        def get():
            return mcp.call("tasks/get", taskId=made)

        until("it asks", lambda: get()["status"] == "input_required")
        assert set(get()["inputRequests"]) == {"first", "second"} and "requestState" not in get()
        mcp.call("tasks/update", taskId=made, inputResponses={"first": accept(name="n"), "nobody": {}})
        assert set(get()["inputRequests"]) == {"second"}
        mcp.call("tasks/update", taskId=made, inputResponses={"second": accept(confirm="not a boolean")})
        assert set(get()["inputRequests"]) == {"second"}, "that was not a valid answer"
        mcp.call("tasks/update", taskId=made, inputResponses={"second": accept(confirm=True)})
        until("it ends", lambda: get()["status"] == "completed")
        first = mcp.tool("test_tool_with_task")
        assert first["resultType"] == "input_required" and "taskId" not in first, first
        second = mcp.call("tools/call", name="test_tool_with_task", arguments={}, requestState=first["requestState"],
                          inputResponses={"user_name": accept(name="Alice")})
        assert second["resultType"] == "task" and "requestState" not in second, second
        until("it ends", lambda: mcp.call("tasks/get", taskId=second["taskId"])["status"] == "completed")
        assert "Alice" in text_of(mcp.call("tasks/get", taskId=second["taskId"])["result"])
    with Mcp(home, **FIXTURES).modern() as mcp:
        lacks = mcp.fails("tools/call", name="failing_job", arguments={}, code=-32021)
        assert lacks.data == {"requiredCapabilities": TASKS}, lacks.data
        mcp.fails("tasks/get", taskId=made, code=-32021)
        assert mcp.tool("slow_compute", seconds=0)["resultType"] == "complete"


if __name__ == "__main__":
    harness.main(globals())
