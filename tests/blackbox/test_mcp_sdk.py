"""The released clients drive `bailiff mcp` over stdio: @modelcontextprotocol/sdk 1.x, and @modelcontextprotocol/client 2.x in both eras that it speaks."""

import hashlib
import json
import os

import harness
from harness import Home, alive, marked, until
from mcp import McpError, text_of
from mcp_clients import Sdk, links_of

CLIENTS = (("sdk", None), ("client", "auto"), ("client", "legacy"))
ALLOW = {"action": "accept", "content": {"decision": "allow_once"}}
SESSION = {"action": "accept", "content": {"decision": "allow_session"}}
DENY = {"action": "accept", "content": {"decision": "deny"}}
DECLINE = {"action": "decline"}


def clients(home, answer=None, **more):
    for which, mode in CLIENTS:
        with Sdk(home, which, answer=answer, mode=mode, **more) as mcp:
            yield mcp


def put(home, name, text=""):
    with open(os.path.join(home.work, name), "w") as f:
        f.write(text)


def test_connect_and_list(home):
    versions = []
    for mcp in clients(home):
        assert mcp.about["server"]["name"] == "bailiff" and mcp.about["capabilities"]["tools"] is not None, mcp.about
        versions.append(mcp.about["version"])
        tools = {t["name"] for t in mcp.tools()}
        assert {"exec", "wait", "write_stdin", "read_output", "kill", "ps", "apply_patch"} <= tools, tools
        assert {p["name"] for p in mcp.prompts()} >= {"run-tests"} and any(r["uri"] == "bailiff://policy" for r in mcp.resources())
        assert "make it" in json.dumps(mcp.prompt("run-tests", command="make it"))
    assert versions[1] == "2026-07-28" and versions[2] == "2025-11-25", versions


def test_results_are_plain_text_by_default(home):
    """A client of the SDK insists on structured content of a tool that has an output schema, and shows it to the model instead of the text."""
    for mcp in clients(home, plain=True):
        mcp.learn()
        result = mcp.call("exec", command="echo plain")
        assert text_of(result).startswith("plain\n") and not links_of(result), result
        assert "Exit code 5" in text_of(mcp.call("exec", error=True, command="exit 5"))


def test_exec_returns_output_and_exit_code(home):
    for mcp in clients(home):
        result = mcp.call("exec", command="echo out; echo err >&2; pwd")
        told = result["structuredContent"]
        assert told["stdout"] == f"out\n{home.work}\n" and told["stderr"] == "err\n" and told["exitCode"] == 0, told
        assert mcp.read(told["outputs"][1]["uri"])[0]["text"] == "err\n" and not links_of(result), result
        result = mcp.call("exec", error=True, command="exit 5")
        assert result["structuredContent"]["exitCode"] == 5 and "Exit code 5" in text_of(result), result
        result = mcp.call("exec", error=True, command="true", nonsense=1)
        assert "nonsense" in text_of(result), result
        try:
            mcp.call("no_such_tool")
            raise AssertionError("an unknown tool")
        except McpError as e:
            assert e.code == -32602, e


def test_background_and_stdin(home):
    for mcp in clients(home):
        told, _ = mcp.exec("while read x; do echo got $x; done; exit 2", background=True, interactive=True)
        process = told["processId"]
        assert told["status"] == "running" and [p["processId"] for p in mcp.tell("ps")[0]["processes"]] == [process]
        told, _ = mcp.tell("write_stdin", processId=process, text="a line\n")
        seen = told["stdout"] or until("its answer", lambda: mcp.tell("wait", processId=process, timeoutMs=100)[0]["stdout"])
        assert seen == "got a line\n", seen
        told, _ = mcp.tell("write_stdin", error=True, processId=process, eof=True, yieldMs=60000)
        assert told["exitCode"] == 2, told


def test_progress_notifications_increase(home):
    for mcp in clients(home):
        call = mcp.begin("exec", progress=True, command="echo step one; while [ ! -e go ]; do sleep 0.05; done")
        mcp.wait_for(lambda: any("step one" in p.get("message", "") for p in mcp.progress_of(call)), "a word of progress")
        put(home, "go")
        assert mcp.finish(call)["structuredContent"]["exitCode"] == 0
        numbers = [p["progress"] for p in mcp.progress_of(call)]
        assert numbers == sorted(set(numbers)), numbers
        os.unlink(os.path.join(home.work, "go"))


def test_cancel_ends_the_command(home):
    for i, mcp in enumerate(clients(home)):
        mark = f"mark-{os.getpid()}-{i}"
        call = mcp.begin("exec", command="sleep 1000 & sleep 1000", env={"MARK": mark})
        until("it runs", lambda: len(marked(mark)) >= 2)
        mcp.cancel(call)
        try:
            mcp.finish(call)
            raise AssertionError("it was cancelled")
        except McpError:
            pass
        until("its whole tree is gone", lambda: not marked(mark))
        assert mcp.exec("echo still here")[0]["stdout"] == "still here\n"


def test_approval_is_asked_of_the_client():
    with Home(start=False) as home:
        with open(os.path.join(home.dir, "policy.json"), "w") as f:
            json.dump({"permissions": {"ask": ["Bash(touch:*)"]}}, f)
        home.start()
        for mcp in clients(home, answer=ALLOW):
            made = os.path.join(home.work, "made")
            told, _ = mcp.exec("touch made", justification="to see")
            assert told["exitCode"] == 0 and os.path.exists(made), told
            assert "touch made" in mcp.asked[-1]["message"] and "to see" in mcp.asked[-1]["message"], mcp.asked
            os.unlink(made)
            for answer in (DENY, DECLINE, {"action": "cancel"}):
                mcp.will_answer(answer)
                told, text = mcp.exec("touch made", error=True)
                assert told["status"] == "denied" and not os.path.exists(made), text
            # Clients of the modern era over HTTP share one session: a lasting permission for one would apply to all of them.
            assert ("allow_session" in json.dumps(mcp.asked[-1])) != mcp.shared, mcp.asked[-1]
            mcp.will_answer(ALLOW if mcp.shared else SESSION)
            mcp.exec("touch made")
            asked = len(mcp.asked)
            mcp.exec("touch made")
            assert len(mcp.asked) == asked + mcp.shared, "allowed for the session, or once"
            os.unlink(made)
        for mcp in clients(home):
            told, text = mcp.exec("touch made")
            assert told["status"] == "waiting_permission" and not mcp.asked and f"bailiff approve {told['actionId']}" in text, text
            waiting = mcp.begin("wait", actionId=told["actionId"])
            home.cli("approve", told["actionId"])
            assert mcp.finish(waiting)["structuredContent"]["exitCode"] == 0
        with home.rpc() as rpc:
            events = rpc.events()
            forwarded = [e for e in events if e["type"] == "channel.permission_forwarded"]
            returned = [e for e in events if e["type"] == "channel.permission_returned"]
            assert len(forwarded) >= 15 and len(returned) >= 15, (len(forwarded), len(returned))
            harness.check_facts(home, rpc)


def test_ten_megabytes_of_output_are_complete(home):
    """Of text, and of bytes that are not text."""
    for mcp in clients(home):
        result = mcp.call("exec", command="seq -f 'line %.0f of a long output, which is read whole' 220000")
        told = result["structuredContent"]
        wanted = b"".join(b"line %d of a long output, which is read whole\n" % i for i in range(1, 220001))
        assert len(wanted) > 10_000_000 and told["outputs"][0]["bytes"] == len(wanted) and len(told["stdout"]) < 31000, told["outputs"]
        whole = mcp.whole(links_of(result)["stdout"])
        assert (whole["bytes"], whole["sha256"]) == (len(wanted), hashlib.sha256(wanted).hexdigest()), whole
        result = mcp.call("exec", command="yes $(printf '\\377\\001') | head -c 3000000")
        whole = mcp.whole(links_of(result)["stdout"])
        assert (whole["bytes"], whole["sha256"]) == (3000000, hashlib.sha256(b"\xff\x01\n" * 1000000).hexdigest()), whole


def test_subscribed_resource_sends_updates(home):
    for mcp in clients(home):
        told, _ = mcp.exec("while read x; do echo got $x; done", interactive=True, yieldMs=0)
        uri = f"bailiff://output/{told['processId']}/stdout"
        mcp.subscribe(uri)
        mcp.call("write_stdin", processId=told["processId"], text="one\n", yieldMs=0)
        mcp.wait_for(lambda: uri in mcp.updates(), "word that the output has changed")


def test_files_are_edited_and_changes_applied(home):
    os.mkdir(os.path.join(home.work, ".git"))
    for mcp in clients(home, answer={"action": "accept", "content": {"decision": "apply"}}):
        mcp.call("write_file", path="f", content="a\nb\n")
        mcp.call("apply_patch", patch="--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n")
        assert mcp.tell("read_file", path="f")[0]["content"] == "a\nB\n"
        told, _ = mcp.exec("echo c >>f", cow=True)
        assert "+c" in mcp.tell("changes", processId=told["processId"])[1]
        assert mcp.tell("changes", processId=told["processId"], action="apply")[0]["status"] == "applied" and "c" in mcp.tell("read_file", path="f")[0]["content"]


def test_call_can_run_as_a_task(home):
    """Tasks of the first client: the call is answered immediately, its result comes later."""
    with Sdk(home, "sdk") as mcp:
        seen = mcp.do("task", params={"name": "exec", "arguments": {"command": "sleep 0.5; echo as a task; exit 3"}})["seen"]
        kinds = [m["type"] for m in seen]
        assert kinds[0] == "taskCreated" and kinds[-1] == "result", seen
        result = seen[-1]["result"]
        assert result["isError"] and result["structuredContent"]["exitCode"] == 3 and "as a task" in text_of(result), result


def test_processes_end_when_the_client_is_killed(home):
    for i, (which, mode) in enumerate(CLIENTS):
        marks = {word: f"mark-{os.getpid()}-{i}-{word}" for word in ("front", "back", "detached")}
        mcp = Sdk(home, which, mode=mode)
        mcp.begin("exec", command="sleep 1000", env={"MARK": marks["front"]})
        mcp.call("exec", command="sleep 1000", env={"MARK": marks["back"]}, background=True)
        told, _ = mcp.exec("sleep 1000", env={"MARK": marks["detached"]}, detached=True)
        until("all run", lambda: all(marked(m) for m in marks.values()))
        mcp.vanish()
        until("nothing but the detached one is left", lambda: not marked(marks["front"]) and not marked(marks["back"]))
        until("the gateway has left", lambda: not alive(mcp.pid))
        assert marked(marks["detached"])
        home.cli("kill", told["processId"])


if __name__ == "__main__":
    harness.main(globals())
