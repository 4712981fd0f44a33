"""The Model Context Protocol over stdio, message by message, in both eras."""

import os
import signal

import harness
from harness import until
from hooks import says
from mcp import LEGACY, META, MODERN, Mcp, McpError, text_of
from test_policy import Policed

FIXTURES = {"program": harness.CONFORMANCE_GATEWAY} # with the tools of the conformance suite
ASK = {"permissions": {"ask": ["Bash(touch:*)"]}}


def running(rpc):
    return rpc.call("list_processes", liveOnly=True)["processes"]


def accept(**content):
    return {"action": "accept", "content": content}


# ---- the handshake, and which era it is ----

def test_a_command_runs(home):
    with Mcp(home) as mcp:
        hello = mcp.initialize()
        assert hello["protocolVersion"] == LEGACY and hello["serverInfo"]["name"] == "bailiff", hello
        assert hello["capabilities"]["tasks"]["requests"] == {"tools": {"call": {}}}, hello
        assert mcp.call("ping") == {}
        tools = {t["name"]: t for t in mcp.call("tools/list")["tools"]}
        assert "command" in tools["exec"]["inputSchema"]["required"], tools["exec"]
        result = mcp.tool("exec", command="echo hi; exit 3")
        assert "hi" in text_of(result) and result["isError"], result
        assert "resultType" not in result, "a legacy result"
        assert mcp.close() == 0
    with home.rpc() as rpc:
        channel = until("it is told that the client left", lambda: [c for c in rpc.call("list_channels")["channels"] if c["status"] == "disconnected"])[0]
        assert channel["nativeProtocol"] == "mcp" and channel["transport"] == "stdio", channel


def test_protocol_version_is_negotiated(home):
    for asked, agreed in (("2024-11-05", "2024-11-05"), ("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-06-18"), (LEGACY, LEGACY),
                          ("1999-01-01", LEGACY), (MODERN, LEGACY)):
        with Mcp(home) as mcp:
            hello = mcp.initialize(asked)
            assert hello["protocolVersion"] == agreed, (asked, hello)
            assert ("tasks" in hello["capabilities"]) == (agreed == LEGACY), hello
            tool = next(t for t in mcp.call("tools/list")["tools"] if t["name"] == "exec")
            assert ("annotations" in tool) == (agreed >= "2025-03-26") and ("title" in tool) == (agreed >= "2025-06-18"), tool
            assert ("execution" in tool) == (agreed == LEGACY), tool
            content = mcp.tool("exec", command="seq 1000", maxOutputBytes=100)["content"]
            assert [one["type"] for one in content] == ["text", "resource_link" if agreed >= "2025-06-18" else "text"], "a kind that this version does not have"
            assert "bailiff://output/" in content[1]["uri" if agreed >= "2025-06-18" else "text"], content
            if agreed >= "2025-06-18":
                link = mcp.tool("exec", command="head -c 100000 /dev/zero", maxOutputBytes=100)["content"][1]
                assert content[1]["mimeType"] == "text/plain" and link["mimeType"] == "application/octet-stream", link
            mcp.fails("initialize", protocolVersion=asked, capabilities={}, clientInfo={}, code=-32600)


def test_invalid_cwd_is_rejected_at_startup(home):
    for folder in ("/no/such/folder", "/etc/hostname"):
        done = home.cli("mcp", "--cwd", folder, status=None)
        assert done.status == 2 and b"--cwd" in done.err and folder.encode() in done.err, vars(done)


def test_requests_before_initialize_are_rejected(home):
    with Mcp(home) as mcp:
        mcp.fails("tools/list", code=-32600)
        assert mcp.call("ping") == {}
        mcp.fails("initialize", protocolVersion=7, code=-32602)
        mcp.initialize()
        mcp.call("tools/list")
        # After that everything is legacy, whatever _meta says.
        assert "resultType" not in mcp.call("tools/list", _meta={META + "protocolVersion": MODERN, META + "clientCapabilities": {}})


def test_a_modern_client_needs_no_handshake(home):
    with Mcp(home).modern() as mcp:
        found = mcp.call("server/discover")
        assert found["resultType"] == "complete" and MODERN in found["supportedVersions"] and LEGACY in found["supportedVersions"], found
        assert found["ttlMs"] > 0 and found["cacheScope"] == "private", found
        assert found["_meta"][META + "serverInfo"]["name"] == "bailiff" and META + "tasks" in found["capabilities"]["extensions"], found
        for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
            page = mcp.call(method)
            assert page["resultType"] == "complete" and page["ttlMs"] >= 0 and page["cacheScope"] in ("public", "private"), (method, page)
        result = mcp.tool("exec", command="echo modern")
        assert "modern" in text_of(result) and result["resultType"] == "complete", result
        for method in ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/result", "tasks/list", "nothing/at/all"):
            mcp.fails(method, code=-32601)


def test_modern_request_needs_its_metadata(home):
    with Mcp(home) as mcp:
        full = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
        assert mcp.call("server/discover", _meta=full)["resultType"] == "complete"
        mcp.fails("server/discover", code=-32602)
        mcp.fails("tools/list", code=-32602)
        mcp.fails("tools/list", _meta={META + "protocolVersion": MODERN}, code=-32602)
        mcp.fails("tools/list", _meta={META + "clientCapabilities": {}}, code=-32602)
        wrong = mcp.fails("tools/list", _meta=dict(full, **{META + "protocolVersion": "2099-01-01"}), code=-32022)
        assert wrong.data["requested"] == "2099-01-01" and MODERN in wrong.data["supported"], wrong
        # A probe that found us may still choose the old way.
        assert mcp.initialize()["protocolVersion"] == LEGACY
        assert "resultType" not in mcp.call("tools/list")


# ---- mistakes ----

def test_malformed_messages_are_answered_with_an_error(home):
    with Mcp(home) as mcp:
        for bad, code in ((b"nonsense\n", -32700), (b"{\n", -32700), (b"[]\n", -32600), (b"42\n", -32600), (b'{"jsonrpc":"2.0"}\n', -32600),
                          (b'{"jsonrpc":"1.0","id":"a","method":"ping"}\n', -32600), (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}\n', -32600),
                          (b'{"jsonrpc":"2.0","id":"b","method":7}\n', -32600), (b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n', -32600)):
            mcp.raw(bad)
            until("an answer", lambda: mcp.odd or mcp.pump(1))
            answer = mcp.odd.pop()
            assert answer["error"]["code"] == code and answer.get("id", "a") in ("a", "b"), answer
        mcp.raw(b"   \n\r\n" + b'{"jsonrpc":"2.0","method":"notifications/none"}\n' + b'{"jsonrpc":"2.0","id":"x","result":{}}\n')
        assert mcp.initialize()["protocolVersion"] == LEGACY, "it still serves after all of that"


def test_invalid_json_is_answered_with_its_id(home):
    """Half a character, as programs in JavaScript write it, or a number that is too large: every request gets an answer."""
    with Mcp(home) as mcp:
        mcp.initialize()
        for broken in ('"echo \\ud800"', "1e999", "12345678901234567890"):
            mcp.next_id += 1
            mcp.raw(b'{"jsonrpc": "2.0", "id": %d, "method": "tools/call", "params": {"name": "exec", "arguments": {"command": %s}}}\n' % (mcp.next_id, broken.encode()))
            try:
                mcp.reply(mcp.next_id)
                raise AssertionError("it was carried out")
            except McpError as e:
                assert e.code == -32700 and "bad JSON" in e.message, e
        assert mcp.tool("exec", command="sleep 0.2; echo over", yieldMs=60000.0, timeoutMs=60000.0)["content"][0]["text"].startswith("over\n"), "60000.0 is 60000"


def test_batches_are_accepted_in_one_version_only(home):
    batch = [{"jsonrpc": "2.0", "id": f"b{i}", "method": "ping"} for i in range(3)] + [{"jsonrpc": "2.0", "method": "notifications/none"}, 5]
    for version, answers in (("2025-03-26", 4), ("2025-06-18", 1)):
        with Mcp(home) as mcp:
            mcp.initialize(version)
            mcp.write(batch)
            assert mcp.call("ping") == {}
            assert len(mcp.odd) == answers and sum("result" in m for m in mcp.odd) == answers - 1, mcp.odd


def test_a_line_that_is_too_long_is_skipped(home):
    with Mcp(home) as mcp:
        mcp.initialize()
        mcp.raw(b'{"jsonrpc":"2.0","id":99,"method":"' + b"x" * (17 << 20) + b'"}\n')
        assert mcp.call("ping") == {}
        assert any(m["error"]["code"] == -32600 for m in mcp.odd), mcp.odd


def test_params_are_checked(home):
    with Mcp(home) as mcp:
        mcp.initialize()
        mcp.fails("tools/call", code=-32602)
        mcp.fails("tools/call", name="no_such_tool", code=-32602)
        mcp.fails("tools/call", name="exec", arguments=[1], code=-32602)
        for arguments, named in (({}, "command"), ({"command": 5}, "command"), ({"command": "true", "colour": 1}, "colour")):
            result = mcp.call("tools/call", name="exec", arguments=arguments)
            assert result["isError"] and named in text_of(result), result
        mcp.fails("tools/list", cursor="made up", code=-32602)
        mcp.fails("tools/list", cursor=3, code=-32602)
        mcp.fails("resources/list", cursor=3, code=-32602)
        mcp.fails("resources/read", code=-32602)
        missing = mcp.fails("resources/read", uri="bailiff://nowhere/at/all", code=-32002)
        assert missing.data["uri"] == "bailiff://nowhere/at/all", missing
        mcp.fails("prompts/get", name="no_such_prompt", code=-32602)
        mcp.fails("completion/complete", ref={"type": "ref/prompt", "name": "none"}, argument={"name": "a", "value": ""}, code=-32602)
        mcp.fails("logging/setLevel", level="loud", code=-32602)
        mcp.write({"jsonrpc": "2.0", "id": 1000, "method": "tools/call", "params": [1]})
        until("an answer", lambda: mcp.odd or mcp.pump(1))
        assert mcp.odd.pop()["error"]["code"] == -32602
    with Mcp(home).modern() as mcp:
        assert mcp.fails("resources/read", uri="bailiff://nowhere/at/all", code=-32602).data["uri"] == "bailiff://nowhere/at/all"


def test_id_of_a_pending_request_cannot_be_reused(home):
    with Mcp(home) as mcp:
        mcp.initialize()
        first = mcp.send("tools/call", name="exec", arguments={"command": "sleep 100"})
        with home.rpc() as rpc:
            until("it runs", lambda: running(rpc))
            mcp.write({"jsonrpc": "2.0", "id": first, "method": "ping"})
            try:
                mcp.reply(first)
            except McpError as e:
                assert e.code == -32600, e
            else:
                raise AssertionError("a second request with the id of one under way")
            mcp.notify("notifications/cancelled", requestId=first)
            until("it is gone", lambda: not running(rpc))


# ---- while a call is under way ----

def test_cancellation_ends_the_tree_and_is_not_answered(home):
    with Mcp(home) as mcp, home.rpc() as rpc:
        mcp.initialize()
        first = mcp.send("tools/call", name="exec", arguments={"command": "sleep 1000 & sleep 1000; echo never"})
        until("it runs", lambda: running(rpc))
        process = running(rpc)[0]["processId"]
        mcp.notify("notifications/cancelled", requestId=first, reason="no longer wanted")
        until("it is gone", lambda: not running(rpc))
        assert rpc.call("get_process", processId=process)["status"] == "terminated"
        assert mcp.call("ping") == {}
        assert first not in mcp.replies, "a cancelled request is not answered"
        mcp.notify("notifications/cancelled", requestId=12345)
        mcp.notify("notifications/cancelled")
        assert mcp.call("ping") == {}


def test_cancellation_overtakes_the_start(home):
    with Mcp(home) as mcp, home.rpc() as rpc:
        mcp.initialize()
        mcp.tool("exec", command="true")
        for _ in range(20):
            mcp.notify("notifications/cancelled", requestId=mcp.send("tools/call", name="exec", arguments={"command": "sleep 1000"}))
        assert mcp.call("ping") == {}
        until("nothing runs", lambda: not running(rpc))


def test_progress_increases(home):
    with Mcp(home, **FIXTURES) as mcp:
        mcp.initialize()
        call = mcp.send("tools/call", name="test_tool_with_progress", arguments={}, _meta={"progressToken": "p-1"})
        mcp.reply(call)
        told = [n["params"] for n in mcp.notes if n["method"] == "notifications/progress"]
        assert [t["progress"] for t in told] == [0, 50, 100] and all(t["progressToken"] == "p-1" and t["total"] == 100 for t in told), told
        mcp.notes.clear()
        mcp.tool("test_tool_with_progress")
        assert not mcp.notes, "progress was not requested"


def test_a_silent_call_is_kept_alive(home):
    with Mcp(home, **FIXTURES, env={"BAILIFF_MCP_HEARTBEAT_MS": "50"}) as mcp:
        mcp.initialize()
        call = mcp.send("tools/call", name="slow_compute", arguments={"seconds": 30}, _meta={"progressToken": 7})
        told = [mcp.note("notifications/progress") for _ in range(4)]
        steps = [t["progress"] for t in told]
        assert steps == sorted(set(steps)) and all(t["progressToken"] == 7 and t["message"] for t in told), told
        mcp.notify("notifications/cancelled", requestId=call)
        assert mcp.call("ping") == {}


def test_logging_respects_the_level(home):
    with Mcp(home, **FIXTURES) as mcp:
        mcp.initialize()
        mcp.tool("test_tool_with_logging")
        lines = [n["params"] for n in mcp.notes if n["method"] == "notifications/message"]
        assert len(lines) == 3 and all(l["level"] == "info" and l["logger"] for l in lines), lines
        mcp.notes.clear()
        assert mcp.call("logging/setLevel", level="warning") == {}
        mcp.tool("test_tool_with_logging")
        assert not mcp.notes, mcp.notes
    with Mcp(home, **FIXTURES).modern() as mcp:
        mcp.tool("test_tool_with_logging")
        assert not mcp.notes, "a modern request must ask for it"
        mcp.call("tools/call", name="test_tool_with_logging", arguments={}, _meta={META + "logLevel": "debug"})
        assert [n["method"] for n in mcp.notes] == ["notifications/message"] * 3, mcp.notes


def test_flood_of_calls_is_throttled_and_served(home):
    with Mcp(home, **FIXTURES) as mcp:
        mcp.initialize()
        calls = [mcp.send("tools/call", name="test_tool_with_progress", arguments={}) for _ in range(1500)]
        for call in calls:
            assert mcp.reply(call)["content"]


def test_trace_of_the_client_is_continued(home):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    with Mcp(home) as mcp, home.rpc() as rpc:
        mcp.initialize()
        mcp.call("tools/call", name="exec", arguments={"command": "true"}, _meta={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
        mcp.call("tools/call", name="exec", arguments={"command": "true"}, _meta={"traceparent": "no such thing"})
        traces = [e.get("correlation", {}).get("traceId") or e.get("traceId") for e in rpc.events() if e["type"] == "process.started" and "owner" not in e["payload"]]
        assert traces[0] == trace and traces[1] != trace, traces


# ---- the client disconnects ----

def test_processes_end_when_the_client_disconnects(home):
    with home.rpc() as rpc:
        for how in ("eof", "term", "kill"):
            with Mcp(home) as mcp:
                mcp.initialize()
                mcp.send("tools/call", name="exec", arguments={"command": "sleep 1000"})
                until("it runs", lambda: running(rpc))
                if how == "eof":
                    assert mcp.close() == 0
                else:
                    mcp.process.send_signal(signal.SIGTERM if how == "term" else signal.SIGKILL)
                    mcp.process.wait(harness.PATIENCE)
            until(f"it is gone after {how}", lambda: not running(rpc))


def test_a_restart_of_the_runtime_is_survived(home):
    with Mcp(home) as mcp, home.rpc() as rpc:
        mcp.initialize()
        mark = os.path.join(home.work, "go")
        call = mcp.send("tools/call", name="exec", arguments={"command": f"while [ ! -e {mark} ]; do sleep 0.05; done; echo went on", "cwd": home.work})
        until("it runs", lambda: running(rpc))
        home.kill_part("runtime")
        until("the daemon answers", home.answers)
        open(mark, "w").close()
        assert "went on" in text_of(mcp.reply(call))
        assert "again" in text_of(mcp.tool("exec", command="echo again"))


# ---- questions ----

def test_elicitation_asks_the_client(home):
    with Mcp(home, **FIXTURES) as mcp:
        mcp.initialize(elicitation={})
        call = mcp.send("tools/call", name="test_elicitation", arguments={"message": "who?"})
        asked = mcp.request()
        assert asked["method"] == "elicitation/create" and asked["params"]["message"] == "who?", asked
        mcp.answer(asked, accept(username="u", email="e"))
        assert '"username":"u"' in text_of(mcp.reply(call)) and asked["params"]["mode"] == "form"
        # An answer that violates the schema counts as no answer.
        call = mcp.send("tools/call", name="test_elicitation", arguments={"message": "who?"})
        mcp.answer(mcp.request(), accept(username=7))
        assert "action: none" in text_of(mcp.reply(call))
        for action in ("decline", "cancel"):
            call = mcp.send("tools/call", name="test_elicitation", arguments={"message": "who?"})
            mcp.answer(mcp.request(), {"action": action})
            assert f"action: {action}" in text_of(mcp.reply(call))
        # A call that is cancelled takes its question back.
        call = mcp.send("tools/call", name="test_elicitation", arguments={"message": "who?"})
        asked = mcp.request()
        mcp.notify("notifications/cancelled", requestId=call)
        assert mcp.note("notifications/cancelled")["requestId"] == asked["id"]
        mcp.answer(asked, accept(username="u", email="e"))
        assert mcp.call("ping") == {}
    with Mcp(home, **FIXTURES) as mcp:
        mcp.initialize()
        assert mcp.tool("test_elicitation", message="who?")["isError"], "the client cannot be asked"
    with Mcp(home, **FIXTURES) as mcp:
        mcp.initialize("2025-06-18", elicitation={})
        mcp.send("tools/call", name="test_elicitation", arguments={"message": "who?"})
        assert "mode" not in mcp.request()["params"], "that version has no modes"


def test_unanswered_question_times_out(home):
    with Mcp(home, **FIXTURES, env={"BAILIFF_MCP_ASK_MS": "100"}) as mcp:
        mcp.initialize(elicitation={"form": {}}, sampling={})
        assert "action: none" in text_of(mcp.tool("test_elicitation", message="who?"))
        call = mcp.send("tools/call", name="test_sampling", arguments={"prompt": "say"})
        mcp.request()
        asked = mcp.request()
        mcp.answer(asked, {"role": "assistant", "model": "m", "content": {"type": "text", "text": "said"}})
        assert "LLM response:" in text_of(mcp.reply(call))


def test_input_is_requested_in_rounds(home):
    with Mcp(home, **FIXTURES).modern(elicitation={"form": {}}, sampling={}, roots={}) as mcp:
        tool = "test_input_required_result_multi_round"
        first = mcp.tool(tool)
        assert first["resultType"] == "input_required" and list(first["inputRequests"]) == ["step1"], first

        def again(before, name=tool, **responses):
            return mcp.call("tools/call", name=name, arguments={}, requestState=before["requestState"], inputResponses=responses)

        assert list(again(first)["inputRequests"]) == ["step1"], "missing input is requested again"
        second = again(first, step1=accept(name="Ann"), other=accept(x=1))
        assert list(second["inputRequests"]) == ["step2"] and second["requestState"] != first["requestState"], second
        assert "Ann likes red" in text_of(again(second, step2=accept(color="red")))
        state = second["requestState"]
        for forged in (state + "x", state[:-1], state[::-1], "", "1.a.b", 7, first["requestState"] + second["requestState"], "9" + state):
            mcp.fails("tools/call", name=tool, arguments={}, requestState=forged, inputResponses={"step2": accept(color="red")}, code=-32602)
        mcp.fails("tools/call", name=tool, arguments={"other": 1}, requestState=state, inputResponses={"step2": accept(color="red")}, code=-32602)
        mcp.fails("tools/call", name="test_input_required_result_elicitation", arguments={}, requestState=state, code=-32602)
        mcp.fails("tools/call", name=tool, arguments={}, inputResponses=[1], code=-32602)
        mcp.fails("tools/call", name=tool, arguments={}, requestState=first["requestState"], inputResponses={"step1": accept(name=7)}, code=-32602)
        # Several at once, and of prompts.
        asked = mcp.tool("test_input_required_result_multiple_inputs")
        assert {q["method"] for q in asked["inputRequests"].values()} == {"elicitation/create", "sampling/createMessage", "roots/list"}, asked
        prompt = mcp.call("prompts/get", name="test_input_required_result_prompt")
        done = mcp.call("prompts/get", name="test_input_required_result_prompt", requestState=prompt["requestState"],
                        inputResponses={"user_context": accept(context="c")})
        assert done["messages"] and done["resultType"] == "complete", done
    with Mcp(home, **FIXTURES).modern(sampling={}) as mcp:
        lacks = mcp.fails("tools/call", name="test_input_required_result_elicitation", arguments={}, code=-32021)
        assert lacks.data["requiredCapabilities"] == {"elicitation": {"form": {}}}, lacks.data
        asked = mcp.tool("test_input_required_result_capabilities")
        assert [q["method"] for q in asked["inputRequests"].values()] == ["sampling/createMessage"], asked
    with Mcp(home, **FIXTURES).modern() as other:
        other.fails("tools/call", name=tool, arguments={}, requestState=state, code=-32602)


# ---- permission ----

def facts_of(rpc, kind):
    return [e for e in rpc.events() if e["type"] == kind]


def test_permission_through_a_legacy_client():
    with Policed(ASK) as home, home.rpc() as rpc, Mcp(home) as mcp:
        mcp.initialize(elicitation={})
        for answer, made in (({"action": "decline"}, False), (accept(decision="deny"), False), (accept(decision="allow_once"), True)):
            name = f"made-{made}-{len(rpc.events())}"
            call = mcp.send("tools/call", name="exec", arguments={"command": f"touch {name}", "cwd": home.work})
            asked = mcp.request()
            assert "touch" in asked["params"]["message"] and asked["params"]["requestedSchema"]["required"] == ["decision"], asked
            mcp.answer(asked, answer)
            result = mcp.reply(call)
            assert result.get("isError", False) == (not made) and os.path.exists(os.path.join(home.work, name)) == made, result
        forwarded, returned = facts_of(rpc, "channel.permission_forwarded"), facts_of(rpc, "channel.permission_returned")
        assert len(forwarded) == 3 and [r["payload"]["decidedBy"] for r in returned] == ["peer"] * 3, returned
        assert [r["payload"]["outcome"] for r in returned] == ["deny", "deny", "allow"], returned


def test_question_shows_the_command_that_would_run():
    """A hook may have rewritten the client's request."""
    hooks = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": says(permissionDecision="ask", updatedInput={"command": "touch changed"})}]},
                            {"matcher": "Write", "hooks": [{"type": "command", "command": says(permissionDecision="ask", updatedInput={"file_path": "changed", "content": "other words"})}]}]}
    with Policed({"hooks": hooks}) as home, Mcp(home) as mcp:
        mcp.initialize(elicitation={})
        for tool, arguments, shown in (("exec", {"command": "touch made", "cwd": home.work}, "touch changed"),
                                       ("write_file", {"path": os.path.join(home.work, "made"), "content": "some words"}, "other words")):
            call = mcp.send("tools/call", name=tool, arguments=arguments)
            asked = mcp.request()
            message = asked["params"]["message"]
            assert shown in message and "changed by a hook" in message and "touch made" not in message and "some words" not in message, message
            mcp.answer(asked, accept(decision="deny"))
            assert mcp.reply(call)["isError"]


def test_permission_through_a_modern_client():
    with Policed(ASK) as home, home.rpc() as rpc, Mcp(home).modern(elicitation={"form": {}}) as mcp:
        run = {"name": "exec", "arguments": {"command": "touch made", "cwd": home.work}}
        # An answer that is sent with the first call answers no question.
        first = mcp.call("tools/call", run, inputResponses={"approve": accept(decision="allow_once")})
        assert first["resultType"] == "input_required" and list(first["inputRequests"]) == ["approve"], first
        assert not os.path.exists(os.path.join(home.work, "made"))
        mcp.fails("tools/call", {"name": "exec", "arguments": {"command": "touch other", "cwd": home.work}}, requestState=first["requestState"],
                  inputResponses={"approve": accept(decision="allow_once")}, code=-32602)
        done = mcp.call("tools/call", run, requestState=first["requestState"], inputResponses={"approve": accept(decision="allow_once")})
        assert done["resultType"] == "complete" and os.path.exists(os.path.join(home.work, "made")), done
        assert len(facts_of(rpc, "permission.requested")) == 1, "both rounds are one request"


def test_permission_without_elicitation_waits_for_an_operator():
    with Policed(ASK) as home, home.rpc() as rpc, Mcp(home) as mcp:
        mcp.initialize()
        result = mcp.tool("exec", command="touch made", cwd=home.work)
        action = rpc.call("list_actions", status="pending")["actions"][0]["actionId"]
        assert f"bailiff approve {action}" in text_of(result), result
        assert not facts_of(rpc, "channel.permission_forwarded")
        rpc.call("respond_action", actionId=action, decision="allow")
        until("it was made", lambda: os.path.exists(os.path.join(home.work, "made")))


def test_operators_answer_withdraws_the_question():
    with Policed(ASK) as home, home.rpc() as rpc:
        def decide(decision):
            action = until("it asks", lambda: rpc.call("list_actions", status="pending")["actions"])[0]["actionId"]
            rpc.call("respond_action", actionId=action, decision=decision)

        with Mcp(home) as mcp:
            mcp.initialize(elicitation={})
            for name, decision in (("one", "allow"), ("two", "deny")):
                call = mcp.send("tools/call", name="exec", arguments={"command": f"touch {name}", "cwd": home.work})
                asked = mcp.request()
                decide(decision)
                assert mcp.note("notifications/cancelled")["requestId"] == asked["id"]
                result = mcp.reply(call)
                assert result.get("isError", False) == (decision == "deny") and os.path.exists(os.path.join(home.work, name)) == (decision == "allow"), result
        with Mcp(home).modern(elicitation={}) as mcp:
            run = {"name": "exec", "arguments": {"command": "touch three", "cwd": home.work}}
            first = mcp.call("tools/call", run)
            decide("allow")
            done = mcp.call("tools/call", run, requestState=first["requestState"], inputResponses={"approve": accept(decision="deny")})
            assert not done.get("isError") and os.path.exists(os.path.join(home.work, "three")), done


def test_question_contains_no_control_characters():
    with Policed(ASK) as home, Mcp(home) as mcp:
        mcp.initialize(elicitation={})
        mcp.send("tools/call", name="exec", arguments={"command": "touch x # \u202e\u001b[2J", "cwd": home.work})
        message = mcp.request()["params"]["message"]
        assert "touch x" in message and "\u202e" not in message and "\u001b" not in message, message


# ---- subscriptions ----

def test_modern_subscriptions_notify_until_cancelled(home):
    with Mcp(home, **FIXTURES).modern() as mcp:
        listen = mcp.send("subscriptions/listen", notifications={"toolsListChanged": True, "resourceSubscriptions": ["test://watched-resource"]})
        ack = mcp.note("notifications/subscriptions/acknowledged")
        assert ack["_meta"][META + "subscriptionId"] == listen and ack["notifications"]["toolsListChanged"] is True, ack
        mcp.tool("test_trigger_prompt_change")
        mcp.tool("test_trigger_tool_change")
        assert mcp.note("notifications/tools/list_changed")["_meta"][META + "subscriptionId"] == listen
        assert not any(n["method"] == "notifications/prompts/list_changed" for n in mcp.notes), mcp.notes
        mcp.notify("notifications/cancelled", requestId=listen)
        mcp.tool("test_trigger_tool_change")
        assert not mcp.notes and listen not in mcp.replies, mcp.notes
        mcp.fails("subscriptions/listen", code=-32602)
        mcp.fails("subscriptions/listen", notifications={"resourceSubscriptions": 1}, code=-32602)
        mcp.fails("subscriptions/listen", notifications={"taskIds": ["x"]}, code=-32021)
        for _ in range(64):
            mcp.send("subscriptions/listen", notifications={})
            mcp.note("notifications/subscriptions/acknowledged")
        mcp.fails("subscriptions/listen", notifications={}, code=-32600)
        mcp.notify("notifications/cancelled", requestId=mcp.next_id - 1)
        last = mcp.send("subscriptions/listen", notifications={})
        mcp.note("notifications/subscriptions/acknowledged")
        mcp.process.send_signal(signal.SIGTERM)
        assert mcp.reply(last)["_meta"][META + "subscriptionId"] == last, "the end is reported"


def test_legacy_resources_can_be_subscribed(home):
    with Mcp(home, **FIXTURES) as mcp:
        mcp.initialize()
        assert mcp.call("resources/subscribe", uri="test://watched-resource") == {}
        assert mcp.call("resources/unsubscribe", uri="test://watched-resource") == {}
        mcp.fails("resources/subscribe", uri="test://no-such-thing", code=-32002)
        mcp.tool("test_trigger_tool_change")
        mcp.note("notifications/tools/list_changed")


if __name__ == "__main__":
    harness.main(globals())
