"""`bailiff acp`: the loop as an agent of an editor. The model is a fake provider, the editor a raw client (acp.py)."""

import base64
import json
import os
import resource
import shutil

import harness
from acp import Acp, calls_of, text_of
from harness import until
from mcp import McpError
from test_agent import call, model
from test_agent_work import by_prompt
import test_mcp_servers as mcp_server

TERMINALS = {"_meta": {"terminal_output": True}}


def policy(home, **permissions):
    with open(os.path.join(home.dir, "policy.json"), "w", encoding="utf-8") as f:
        json.dump({"permissions": permissions}, f)
    with home.rpc() as rpc:
        rpc.call("reload_policy")


def selects(option):
    return lambda request: {"outcome": {"outcome": "selected", "optionId": option}}


def write(home, name, text):
    with open(os.path.join(home.work, name), "w", encoding="utf-8") as f:
        f.write(text)


def read(home, name):
    with open(os.path.join(home.work, name), encoding="utf-8") as f:
        return f.read()


def test_initialize_reports_capabilities_and_rejects_malformed_requests(home):
    with Acp(home) as acp:
        assert acp.hello["protocolVersion"] == 1 and acp.hello["agentInfo"]["name"] == "bailiff", acp.hello
        can = acp.hello["agentCapabilities"]
        assert can["loadSession"] and can["promptCapabilities"] == {"image": True, "audio": False, "embeddedContext": True}, can
        assert acp.call("initialize", protocolVersion=9)["protocolVersion"] == 1, "an unknown version: the client decides"
        acp.fails("initialize", code=-32602)
        acp.fails("session/new", cwd="relative", mcpServers=[], code=-32602)
        for cwd in ({}, {"cwd": None}, {"cwd": ""}, {"cwd": 5}):
            assert "cwd: must be" in str(acp.fails("session/new", mcpServers=[], code=-32602, **cwd))
        missing = os.path.join(home.work, "missing")
        assert acp.fails("session/new", cwd=missing, mcpServers=[], code=-32602).message == f"cwd: '{missing}' does not exist; create it, or open another folder"
        assert "is not a folder" in acp.fails("session/new", cwd="/etc/passwd", mcpServers=[], code=-32602).message
        for method, more in (("session/new", {}), ("session/load", {"sessionId": "ses_none"})):
            assert "mcpServers: is missing; without servers, send an empty array" == acp.fails(method, cwd=home.work, code=-32602, **more).message
        assert acp.call("session/new", cwd=home.work, mcpServers=None)["sessionId"], "clients send null, too"
        acp.fails("session/prompt", sessionId="ses_none", prompt=[], code=-32002)
        acp.fails("session/fly", code=-32601)
        acp.raw(b"{nonsense\n")
        until("a parse error", lambda: acp.pump(1) and acp.odd)
        assert acp.odd[0]["error"]["code"] == -32700, acp.odd
        acp.fails("session/list", cwd=5, code=-32602)
        acp.fails("session/list", cursor=["x"], code=-32602)
        assert acp.call("session/list", cwd=None) == {"sessions": []}
        acp.open(home.work)
        wrong = acp.fails("session/prompt", sessionId=acp.id, prompt=[{"type": "text", "text": "x"}, {"type": "text"}], code=-32602)
        assert "prompt: block 1, of type 'text', is not text with text" in str(wrong), wrong
        modes = acp.session["modes"]
        assert modes["currentModeId"] == "default" and "plan" in [m["id"] for m in modes["availableModes"]], modes
        assert "bypass" not in [m["id"] for m in modes["availableModes"]], "the host's policy does not permit it"
        assert acp.close() == 0


def test_requests_before_initialize_are_rejected(home):
    class Early(Acp):
        def __init__(self, home):
            super(Acp, self).__init__(home)
            self.answer_with, self.seen = None, 0

    with Early(home) as acp:
        acp.fails("session/new", cwd=home.work, mcpServers=[], code=-32600)


def test_a_prompt_is_answered(home):
    script = [{"text": "It is five.", "reasoning": "counting"}, *[{"text": "Again."}] * 3]
    with home.rpc() as rpc, model(home, rpc, script) as p, Acp(home) as acp:
        acp.open(home.work)
        stop, updates = acp.run("what is the time?")
        assert stop == "end_turn" and text_of(updates) == "It is five.", updates
        assert text_of(updates, "agent_thought_chunk") == "counting", updates
        link = {"type": "resource_link", "name": "a b", "uri": "file:///src/a%20b.c"}
        embedded = {"type": "resource", "resource": {"uri": "file:///src/c.c", "text": "int c;"}}
        blob = {"type": "resource", "resource": {"uri": "file:///src/e.bin", "blob": "AAAA", "mimeType": "application/octet-stream"}}
        assert acp.run([{"type": "text", "text": "look at "}, link, embedded, blob])[0] == "end_turn"
        said = str(p.requests[1].texts)
        assert "@/src/a b.c" in said and "@/src/e.bin" in said and "int c;" in said and "/src/c.c" in said, said
        assert "what is the time?" in said, "the conversation continues"
        binary = {"type": "resource", "resource": {"uri": "file:///src/d", "text": "one\0two"}}
        for prompt, sent in (([{"type": "text", "text": "a\0b"}], "a\ufffdb"), ([binary], "one\ufffdtwo")):
            assert acp.run(prompt)[0] == "end_turn" and sent in p.requests[-1].texts[-1], (prompt, p.requests[-1].texts[-1])
        acp.fails("session/prompt", sessionId=acp.id, prompt=[{"type": "audio", "data": "", "mimeType": "audio/wav"}], code=-32602)
        acp.fails("session/prompt", sessionId=acp.id, prompt=[], code=-32602)
        session = rpc.call("get_session", sessionId=acp.id)
        assert "test-editor" in str(session) and home.work in str(session), "the session names the editor and its directory"


def test_tools_are_shown(home):
    write(home, "a.c", "int needle;\n")
    patch = "*** Begin Patch\n*** Update File: a.c\n@@\n-int thread;\n+int rope;\n*** Add File: b.c\n+new\n*** End Patch\n"
    script = [{"text": "Looking.", "calls": [call("read_file", path="a.c"), call("update_plan", steps=[{"step": "edit", "status": "in_progress"}])]},
              {"calls": [call("edit_file", path="a.c", oldText="needle", newText="thread")]},
              {"calls": [call("apply_patch", patch=patch)]},
              {"calls": [call("write_file", path="long.txt", content="x" * 10000)]},
              {"calls": [call("shell", command="echo one; echo two >&2; exit 3"), call("no_such_tool", x=1)]},
              {"text": "Done."}]
    with home.rpc() as rpc, model(home, rpc, script), Acp(home) as acp:
        acp.open(home.work)
        stop, updates = acp.run("go")
        assert stop == "end_turn" and text_of(updates) == "Looking.Done.", updates
        reads, edit, patched, long, shell, unknown = calls_of(updates)
        path = os.path.join(home.work, "a.c")
        assert reads["kind"] == "read" and reads["title"] == "Read a.c" and reads["locations"][0]["path"] == path and reads["status"] == "completed", reads
        assert edit["kind"] == "edit" and edit["status"] == "completed", edit
        assert edit["content"] == [{"type": "diff", "path": path, "oldText": "needle", "newText": "thread"}], edit
        assert [(d["path"], d["oldText"], d["newText"]) for d in patched["content"]] == [
            (path, "int thread;\n", "int rope;\n"), (os.path.join(home.work, "b.c"), None, "new\n")], patched
        assert long["content"][0]["newText"] == "x" * 10000, "long arguments are behind a ref"
        assert shell["kind"] == "execute" and shell["title"].startswith("echo one") and shell["status"] == "failed", shell
        assert "one\n" in str(shell["content"][0]["content"]["text"]) and "two" in str(shell["content"]), shell
        assert shell["rawOutput"] == {"exitCode": 3}, shell
        assert unknown["status"] == "failed" and "no_such_tool" in unknown["title"], unknown
        plans = [u for u in updates if u["sessionUpdate"] == "plan"]
        assert plans == [{"sessionUpdate": "plan", "entries": [{"content": "edit", "priority": "medium", "status": "in_progress"}]}], plans
        assert read(home, "a.c") == "int rope;\n" and read(home, "b.c") == "new\n"


def test_output_is_streamed_to_a_terminal(home):
    script = [{"calls": [call("shell", command="echo one; exit 4")]}, {"text": "Done."}]
    with home.rpc() as rpc, model(home, rpc, script), Acp(home, capabilities=TERMINALS) as acp:
        acp.open(home.work)
        updates = acp.run("go")[1]
        shell = calls_of(updates)[0]
        assert shell["content"][0] == {"type": "terminal", "terminalId": shell["toolCallId"]}, shell
        meta = [u["_meta"] for u in updates if "_meta" in u]
        assert meta[0]["terminal_info"]["cwd"] == home.work, meta
        assert "".join(m["terminal_output"]["data"] for m in meta if "terminal_output" in m) == "one\n", meta
        assert meta[-1]["terminal_exit"]["exit_code"] == 4, meta


def test_text_that_is_split_within_a_character_is_shown(home):
    """An event of output may end within a character. Only that character is lost in the editor, not the text around it."""
    command = r"printf 'one \303'; sleep 1; printf '\244 zw\303\266lf\n'; sleep 1; printf 'a\377b\n'; sleep 1; printf 'x\000y'"
    for capabilities in (TERMINALS, {}):
        script = [{"calls": [call("shell", command=command)]}, {"text": "Done."}]
        with home.rpc() as rpc, model(home, rpc, script), Acp(home, capabilities=capabilities) as acp:
            acp.open(home.work)
            updates = acp.run("go")[1]
            shown = "".join(u["_meta"]["terminal_output"]["data"] for u in updates if "terminal_output" in u.get("_meta", {})) \
                if capabilities else calls_of(updates)[0]["content"][0]["content"]["text"]
            assert "one " in shown and " zwölf\n" in shown and "a\ufffdb\n" in shown, shown
            assert shown.count("not text") == 1 and "3 bytes that are not text" in shown, shown


def test_permission_is_requested(home):
    policy(home, ask=["Bash(touch *)"])
    for option, exists in (("allow_once", True), ("reject_once", False), ("nonsense", False)):
        name = f"made-{option}"
        script = [{"calls": [call("shell", command=f"touch {name}")]}, {"text": "Done."}]
        with home.rpc() as rpc, model(home, rpc, script), Acp(home, answer=selects(option)) as acp:
            acp.open(home.work)
            assert acp.run("go")[0] == "end_turn"
            asked, = acp.asked
            assert asked["method"] == "session/request_permission" and asked["params"]["sessionId"] == acp.id, asked
            assert name in asked["params"]["toolCall"]["title"], asked
            assert [o["kind"] for o in asked["params"]["options"]][-1] == "reject_once", asked
            assert os.path.exists(os.path.join(home.work, name)) == exists, option
            resolved = [e for e in rpc.events(sessionId=acp.id) if e["type"] == "action.resolved"][-1]
            assert resolved["payload"]["decision"] == ("allow" if exists else "deny"), resolved


def test_an_approver_sees_the_diff(home):
    write(home, "a.c", "int needle;\n")
    policy(home, ask=["edit_file"])
    script = [{"calls": [call("edit_file", path="a.c", oldText="needle", newText="thread")]}, {"text": "Done."}]
    with home.rpc() as rpc, model(home, rpc, script), Acp(home, answer=selects("allow_once")) as acp:
        acp.open(home.work)
        stop, updates = acp.run("go")
        diff = {"type": "diff", "path": os.path.join(home.work, "a.c"), "oldText": "needle", "newText": "thread"}
        shown = acp.asked[0]["params"]["toolCall"]
        assert stop == "end_turn" and diff in shown["content"] and len(shown["content"]) == 2, shown
        edit, = calls_of(updates)
        assert edit["title"] == "Edit a.c" and edit["content"] == [diff] and edit["status"] == "completed", edit
        assert read(home, "a.c") == "int thread;\n"


def test_approver_sees_the_content_that_a_call_writes(home):
    policy(home, ask=["write_file"])
    written = {"long.txt": b"x" * 10000, "text": "ü\n".encode(), "bytes": b"\0\1\2"}
    script = [{"calls": [call("write_file", path="long.txt", content="x" * 10000)]}]
    script += [{"calls": [call("write_file", path=p, content=base64.b64encode(written[p]).decode(), encoding="base64")]} for p in ("text", "bytes")]
    with home.rpc() as rpc, model(home, rpc, script + [{"text": "Done."}]), Acp(home, answer=selects("allow_once")) as acp:
        acp.open(home.work)
        assert acp.run("go")[0] == "end_turn"
        long, text, binary = (a["params"]["toolCall"]["content"][0] for a in acp.asked)
        assert long["newText"] == "x" * 10000, "arguments behind a ref are read before the question"
        assert text["newText"] == "ü\n", text
        assert "3 bytes that are not text" in binary["content"]["text"], binary
        for name, content in written.items():
            with open(os.path.join(home.work, name), "rb") as f:
                assert f.read() == content, name


def test_a_question_is_asked_again_if_its_answer_is_not_accepted(home):
    policy(home, ask=["Bash(touch *)"])
    file = os.path.join(home.dir, "policy.json")

    def answer(request):
        if len(acp.asked) == 1:
            os.rename(file, file + ".kept")
            os.mkdir(file)      # the rule cannot be saved
            return selects("allow_always")(request)
        os.rmdir(file)
        os.rename(file + ".kept", file)
        return selects("allow_once")(request)

    script = [{"calls": [call("shell", command="touch x")]}, {"text": "Done."}]
    with home.rpc() as rpc, model(home, rpc, script), Acp(home, answer=answer) as acp:
        acp.open(home.work)
        stop, updates = acp.run("go")
        assert stop == "end_turn" and "not accepted" in text_of(updates), updates
        first, second = acp.asked
        assert first["params"] == second["params"] and first["id"] != second["id"], acp.asked
        assert os.path.exists(os.path.join(home.work, "x"))


def test_questions_of_a_subagent_reach_the_editor(home):
    policy(home, ask=["edit_file"])
    write(home, "a.c", "int needle;\n")
    script = by_prompt(parent=[{"calls": [call("subagent", prompt="child: edit", description="editor")]}, {"text": "It did."}],
                       child=[{"text": "Mine.", "calls": [call("edit_file", path="a.c", oldText="needle", newText="thread")]}, {"text": "Edited."}])
    with home.rpc() as rpc, model(home, rpc, script), Acp(home, answer=selects("allow_once")) as acp:
        acp.open(home.work)
        stop, updates = acp.run("parent: go")
        assert stop == "end_turn" and text_of(updates) == "It did.", "the child's answer is the result of a call"
        assert [(c["name"] if "name" in c else c["kind"], c["status"]) for c in calls_of(updates)] == [("other", "completed"), ("edit", "completed")]
        assert acp.asked[0]["params"]["toolCall"]["content"][0]["newText"] == "thread" and read(home, "a.c") == "int thread;\n", acp.asked
        again = Acp(home)
        again.id = acp.id
        acp.call("session/close", sessionId=acp.id)
        again.call("session/load", sessionId=acp.id, cwd=home.work, mcpServers=[])
        assert text_of(again.updates(), "user_message_chunk") == "parent: go", "a child's prompt is not the user's"
        assert [c["status"] for c in calls_of(again.updates())] == ["completed"] * 2
        again.close()


def test_sessions_are_listed(home):
    other = os.path.join(home.work, "other")
    os.mkdir(other)
    with home.rpc() as rpc, model(home, rpc, [{"text": "One."}] * 3), Acp(home) as acp:
        assert acp.call("session/list") == {"sessions": []}
        ids = []
        for cwd, text in ((home.work, "the first"), (other, "the second")):
            acp.open(cwd)
            assert acp.reply(acp.prompt(text))["stopReason"] == "end_turn"
            ids.append(acp.id)
        acp.open(home.work)     # without a prompt: nothing to load
        listed = acp.call("session/list")["sessions"]
        assert [(s["sessionId"], s["cwd"], s["title"]) for s in listed] == [(ids[1], other, "the second"), (ids[0], home.work, "the first")], listed
        assert [s["sessionId"] for s in acp.call("session/list", cwd=other)["sessions"]] == [ids[1]]
        for i in range(26):
            rpc.call("create_session", title=str(i))
        page = acp.call("session/list")
        assert page["sessions"] == [] and len(acp.call("session/list", cursor=page["nextCursor"])["sessions"]) == 2, page


def test_lists_at_the_same_time_share_a_connection(home):
    with home.rpc(), Acp(home) as acp:
        assert acp.call("session/list") == {"sessions": []}
        resource.prlimit(acp.process.pid, resource.RLIMIT_NOFILE, (64, 64))
        asked = [acp.send("session/list") for _ in range(200)]
        assert [acp.reply(one) for one in asked] == [{"sessions": []}] * 200
        assert acp.call("session/list") == {"sessions": []}


def test_mcp_servers_of_the_editor_belong_to_its_session(home):
    shutil.copyfile(mcp_server.SERVER, os.path.join(home.work, "server.py"))
    servers = [{"name": "My files", "command": "python3", "args": ["server.py"], "env": [{"name": "TOKEN", "value": "sk-" + "hush-" * 8}]},
               {"name": "gone", "command": "/no/such", "args": [], "env": []},
               {"type": "http", "name": "far", "url": "https://mcp.example.com/x", "headers": [{"name": "Authorization", "value": "Bearer hush"}]}]
    script = [{"calls": [call("mcp__My-files__echo", text="hello"), call("mcp__My-files__env")]}, {"text": "Done."}, {"text": "Again."}, {"text": "Two."}]
    with home.rpc() as rpc, model(home, rpc, script) as p, Acp(home) as acp, Acp(home) as other:
        acp.id = acp.call("session/new", cwd=home.work, mcpServers=servers)["sessionId"]
        said = text_of(acp.run("go")[1])
        assert "hello" in str(p.requests[1].results[0]) and not p.requests[1].results[0]["isError"], p.requests[1].results
        assert "MCP server gone of the editor is not connected" in said and "bailiff mcp-server add far --url https://mcp.example.com/x --key-file FILE" in said, said
        assert said.endswith("Done.") and text_of(acp.run("go")[1]) == "Again.", "once"
        other.open(home.work)
        other.run("go")
        assert "mcp__My-files__echo" in p.requests[0].tools and not [t for t in p.requests[3].tools if t.startswith("mcp__")], "of this session only"
        assert rpc.call("list_mcp_servers")["servers"] == [] and "hush" not in json.dumps(rpc.events()), "values of variables are in no event"
        added = rpc.events(types=["mcp_server.added"])
        assert [(e["payload"]["name"], e["payload"]["sessionId"]) for e in added] == [("My-files", acp.id)], added
        acp.call("session/close", sessionId=acp.id)
        until("they leave with the editor's session", lambda: rpc.events(types=["mcp_server.removed"]))
        assert not [t for t in rpc.call("get_tool_inventory", sessionId=acp.id)["tools"] if t["name"].startswith("mcp__")]
        harness.validate(harness.event_validators(), rpc.events())


def test_malformed_mcp_servers_are_rejected_with_the_name_of_the_field(home):
    good = {"name": "files", "command": "python3", "args": ["server.py"], "env": []}
    with Acp(home) as acp:
        for servers, field in (({"files": good}, "mcpServers: "), ([good, "files"], "mcpServers[1].name: "), ([dict(good, command="")], "mcpServers[0].command: "),
                               ([dict(good, args="server.py")], "mcpServers[0].args: "), ([dict(good, args=["x", 1])], "mcpServers[0].args: "),
                               ([dict(good, env={"A": "b"})], "mcpServers[0].env: "), ([good, dict(good, env=[{"name": "A"}])], "mcpServers[1].env: ")):
            for method, more in (("session/new", {}), ("session/load", {"sessionId": "ses_none"})):
                error = acp.fails(method, cwd=home.work, mcpServers=servers, code=-32602, **more)
                assert error.message.startswith(field), (servers, error)


def test_mcp_servers_of_the_editor_are_restored_after_a_crash(home):
    shutil.copyfile(mcp_server.SERVER, os.path.join(home.work, "server.py"))
    script = [{"text": "One."}, {"calls": [call("mcp__files__echo", text="hello")]}, {"text": "Two."}]
    with home.rpc() as rpc, model(home, rpc, script) as p, Acp(home) as acp:
        acp.id = acp.call("session/new", cwd=home.work, mcpServers=[{"name": "files", "command": "python3", "args": ["server.py"], "env": []}])["sessionId"]
        acp.run("go")
        home.kill_part("runtime")
        until("it is added again", lambda: home.answers() and with_rpc(home, lambda again: len(again.events(types=["mcp_server.added"])) == 2))
        assert text_of(acp.run("go")[1]) == "Two." and not p.requests[2].results[0]["isError"], p.requests[2].results


def with_rpc(home, fn):
    with home.rpc() as rpc:
        return fn(rpc)


def test_permission_for_the_session_is_not_requested_again(home):
    policy(home, ask=["Bash(touch *)"])
    script = [{"calls": [call("shell", command="touch x")]}, {"calls": [call("shell", command="touch x")]}, {"text": "Done."}]
    with home.rpc() as rpc, model(home, rpc, script), Acp(home, answer=selects("allow_session")) as acp:
        acp.open(home.work)
        assert acp.run("go")[0] == "end_turn" and len(acp.asked) == 1, acp.asked


def test_a_question_that_another_client_answers_is_withdrawn(home):
    policy(home, ask=["Bash(touch *)"])
    script = [{"calls": [call("shell", command="touch x")]}, {"text": "Done."}]
    with home.rpc() as rpc, model(home, rpc, script), Acp(home) as acp:
        acp.open(home.work)
        prompt = acp.prompt("go")
        until("it asks", lambda: acp.pump(1) and acp.asked)
        action = rpc.call("list_actions", status="pending")["actions"][0]["actionId"]
        rpc.call("respond_action", actionId=action, decision="allow")
        assert acp.reply(prompt)["stopReason"] == "end_turn"
        withdrawn = [n for n in acp.notes if n["method"] == "$/cancel_request"]
        assert [n["params"]["requestId"] for n in withdrawn] == [acp.asked[0]["id"]], acp.notes
        acp.answer(acp.asked[0], {"outcome": {"outcome": "cancelled"}})     # too late
        acp.fails("session/fly", code=-32601)


def test_questions_of_the_model_reach_the_editor(home):
    script = [{"calls": [call("ask_user", question="Which one?", options=["left", "right"])]}, {"text": "Thanks."}]
    with home.rpc() as rpc, model(home, rpc, script) as p, Acp(home, answer=selects("choice_2")) as acp:
        acp.open(home.work)
        assert acp.run("go")[0] == "end_turn"
        assert "Which one?" in acp.asked[0]["params"]["toolCall"]["title"] and "right" in str(p.requests[1].results), p.requests[1].results
    form = {"elicitation": {"form": {}}}
    with home.rpc() as rpc, model(home, rpc, script) as p, \
            Acp(home, capabilities=form, answer=lambda r: {"action": "accept", "content": {"answer": "the middle"}}) as acp:
        acp.open(home.work)
        assert acp.run("go")[0] == "end_turn" and acp.asked[0]["method"] == "elicitation/create", acp.asked
        assert "the middle" in str(p.requests[1].results), p.requests[1].results
    script = [{"calls": [call("ask_user", question="What name?")]}, {"text": "Well."}]
    with home.rpc() as rpc, model(home, rpc, script) as p, Acp(home) as acp:
        acp.open(home.work)
        stop, updates = acp.run("go")
        assert stop == "end_turn" and "What name?" in text_of(updates) and not acp.asked, "an editor that cannot ask for text"


def test_cancel_ends_the_turn_and_keeps_the_session(home):
    script = [{"calls": [call("shell", command="echo begun; sleep 1000")]}, {"text": "Next."}]
    with home.rpc() as rpc, model(home, rpc, script), Acp(home) as acp:
        acp.open(home.work)
        prompt = acp.prompt("go")
        until("the command runs", lambda: acp.pump(1) and "begun" in json.dumps(acp.notes))
        acp.fails("session/prompt", sessionId=acp.id, prompt=[{"type": "text", "text": "more"}], code=-32600)
        acp.notify("session/cancel", sessionId=acp.id)
        assert acp.reply(prompt)["stopReason"] == "cancelled"
        assert calls_of(acp.updates())[0]["status"] == "failed"
        assert acp.run("go on")[0] == "end_turn", "the session continues"


def test_cancel_withdraws_a_pending_question(home):
    policy(home, ask=["Bash(touch *)"])
    script = [{"calls": [call("shell", command="touch x")]}, {"text": "Done."}]
    with home.rpc() as rpc, model(home, rpc, script[:1]), Acp(home) as acp:
        acp.open(home.work)
        prompt = acp.prompt("go")
        until("it asks", lambda: acp.pump(1) and acp.asked)
        acp.notify("session/cancel", sessionId=acp.id)
        acp.answer(acp.asked[0], {"outcome": {"outcome": "cancelled"}})
        assert acp.reply(prompt)["stopReason"] == "cancelled" and not os.path.exists(os.path.join(home.work, "x"))


def test_turn_ends_when_the_editor_disconnects(home):
    script = [{"calls": [call("shell", command="echo begun; sleep 1000")]}]
    with home.rpc() as rpc, model(home, rpc, script):
        acp = Acp(home)
        acp.open(home.work)
        acp.prompt("go")
        until("the command runs", lambda: acp.pump(1) and "begun" in json.dumps(acp.notes))
        assert acp.close() == 0
        until("the turn has ended", lambda: [e for e in rpc.events(sessionId=acp.id) if e["type"] == "turn.failed"])


def test_limits_refusals_and_provider_errors_have_their_own_stop_reasons(home):
    endless = lambda request: {"calls": [call("shell", command=f": {request.number}")]}    # noqa: E731
    with home.rpc() as rpc, model(home, rpc, [endless] * 5), Acp(home, "--max-requests", "2") as acp:
        acp.open(home.work)
        stop, updates = acp.run("go")
        assert stop == "max_turn_requests" and "limit" in text_of(updates), updates
    with home.rpc() as rpc, model(home, rpc, [{"text": "No.", "stop": "refusal"}]), Acp(home) as acp:
        acp.open(home.work)
        assert acp.run("go")[0] == "refusal"
    with home.rpc() as rpc, model(home, rpc, [{"status": 400, "message": "bad luck"}] * 9), Acp(home) as acp:
        acp.open(home.work)
        failed = acp.fails("session/prompt", sessionId=acp.id, prompt=[{"type": "text", "text": "go"}], code=-32603)
        assert "bad luck" in failed.message and failed.data["category"], failed
    with Acp(home, "--model", "unknown") as acp:
        acp.open(home.work)
        failed = acp.fails("session/prompt", sessionId=acp.id, prompt=[{"type": "text", "text": "go"}], code=-32603)
        assert "unknown" in failed.message, failed


def test_truncated_answer_is_marked(home):
    script = [{"text": "Half of an answer", "piece": 4, "gate_after": 5, "cut_after_events": 6, "cut": "broken"}, {"text": "Whole."}]
    with home.rpc() as rpc, model(home, rpc, script) as p, Acp(home) as acp:
        acp.open(home.work)
        prompt = acp.prompt("go")
        until("a part is shown", lambda: acp.pump(1) and text_of(acp.updates()))
        p.release()
        assert acp.reply(prompt)["stopReason"] == "end_turn"
        text = text_of(acp.updates())
        assert text.startswith("Half") and "broke off" in text and text.endswith("Whole."), text


def test_mode_changes_apply_and_are_announced_to_the_editor(home):
    script = [{"calls": [call("shell", command="touch x")]}, {"text": "Done."}]
    with home.rpc() as rpc, model(home, rpc, script), Acp(home) as acp:
        acp.open(home.work)
        assert acp.call("session/set_mode", sessionId=acp.id, modeId="plan") == {}
        assert rpc.call("get_policy", sessionId=acp.id)["mode"] == "plan"
        assert acp.run("go")[0] == "end_turn" and not os.path.exists(os.path.join(home.work, "x"))
        acp.fails("session/set_mode", sessionId=acp.id, modeId="nonsense", code=-32602)
        rpc.call("set_permission_mode", sessionId=acp.id, mode="never")
        until("the editor is notified", lambda: acp.pump(1) and [u for u in acp.updates() if u.get("currentModeId") == "never"])


def test_every_request_is_answered_when_its_session_is_closed(home):
    with Acp(home) as acp:
        acp.open(home.work)
        mode, close = acp.next_id + 1, acp.next_id + 2
        acp.next_id += 2
        lines = [{"jsonrpc": "2.0", "id": i, "method": f"session/{m}", "params": {"sessionId": acp.id, "modeId": "plan"}} for i, m in ((mode, "set_mode"), (close, "close"))]
        acp.raw("".join(json.dumps(line) + "\n" for line in lines).encode())
        assert acp.reply(close) == {}
        try:
            assert acp.reply(mode) == {}
        except McpError as e:
            assert "closed" in str(e), e


def test_loaded_session_replays_its_conversation(home):
    script = [{"text": "Looking.", "reasoning": "hm", "calls": [call("write_file", path="long.txt", content="x" * 10000), call("shell", command="echo one")]},
              {"text": "Done."}, {"text": "Two."}]
    with home.rpc() as rpc, model(home, rpc, script) as p:
        with Acp(home) as first:
            first.open(home.work)
            shown = first.run("the first prompt")[1]
            rpc.call("start_process", command=["true"], sessionId=first.id)     # a turn that is not the editor's
        home.restart()
        with Acp(home) as acp:
            acp.id = first.id
            loaded = acp.call("session/load", sessionId=first.id, cwd=home.work, mcpServers=[])
            assert loaded["modes"]["currentModeId"] == "default", loaded
            again = acp.updates()
            assert text_of(again, "user_message_chunk") == "the first prompt" and text_of(again) == text_of(shown) == "Looking.Done.", again
            assert text_of(again, "agent_thought_chunk") == "hm", again
            old, new = calls_of(shown), calls_of(again)
            assert [c["toolCallId"] for c in old] == [c["toolCallId"] for c in new], (old, new)
            assert [(c["status"], c["title"], c.get("content")) for c in old] == [(c["status"], c["title"], c.get("content")) for c in new], (old, new)
            assert acp.run("the second prompt")[0] == "end_turn"
            assert "the first prompt" in str(p.requests[2].texts), "the conversation continues"
            acp.fails("session/load", sessionId="ses_none", cwd=home.work, mcpServers=[], code=-32002)
            acp.fails("session/load", sessionId=first.id, cwd=home.work, code=-32602)
            acp.call("session/set_mode", sessionId=first.id, modeId="default")     # still open
            first_note = len(acp.notes)
            assert "modes" in acp.call("session/resume", sessionId=first.id, cwd=home.work)
            assert not acp.updates(first_note), "resumed without a replay"
            assert acp.call("session/close", sessionId=first.id) == {}
            acp.fails("session/prompt", sessionId=first.id, prompt=[{"type": "text", "text": "x"}], code=-32002)


def test_two_sessions_run_in_parallel(home):
    script = [lambda request: {"text": "Alpha." if "alpha" in str(request.texts) else "Beta."}] * 2
    with home.rpc() as rpc, model(home, rpc, script), Acp(home) as acp:
        one, two = (acp.call("session/new", cwd=home.work, mcpServers=[])["sessionId"] for _ in range(2))
        prompts = [acp.send("session/prompt", sessionId=i, prompt=[{"type": "text", "text": t}]) for i, t in ((one, "alpha"), (two, "beta"))]
        assert [acp.reply(r)["stopReason"] for r in prompts] == ["end_turn"] * 2
        said = {i: "".join(n["params"]["update"]["content"]["text"] for n in acp.notes if n["params"]["sessionId"] == i) for i in (one, two)}
        assert said == {one: "Alpha.", two: "Beta."}, said


def test_a_prompt_survives_a_restart_of_the_daemon(home):
    script = [{"calls": [call("shell", command="echo begun; sleep 3")]}, {"text": "Done."}]
    with home.rpc() as rpc, model(home, rpc, script), Acp(home) as acp:
        acp.open(home.work)
        prompt = acp.prompt("go")
        until("the command runs", lambda: acp.pump(1) and "begun" in json.dumps(acp.notes))
        home.restart()
        assert acp.reply(prompt)["stopReason"] == "end_turn", "the turn continues: the model receives the note that the command was interrupted"
        assert text_of(acp.updates()) == "Done.", acp.updates()


if __name__ == "__main__":
    harness.main(globals())
