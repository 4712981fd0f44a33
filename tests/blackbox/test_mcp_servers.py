"""External MCP servers as tools: registered once, started for each call in the sandbox of its turn."""

import json
import os
import shutil

import harness
import npm
from harness import until
from hooks import Hooked, pre, says
from test_agent import call as tool, completed, model, submit
from test_policy import Policed, pending
from test_tool import open_turn, result, valid

SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_mcp_server.py")


def add(rpc, home, fault="", name="fake", **more):
    """The server is in the workspace, which every sandbox of these tests shows."""
    path = os.path.join(home.work, "fake_mcp_server.py")
    shutil.copyfile(SERVER, path)
    os.chmod(path, 0o644)
    return rpc.call("add_mcp_server", name=name, command=["python3", path, *([fault] if fault else [])], cwd=home.work, **more)


def echo(rpc, turn, text="hello", name="fake", **more):
    return rpc.call("invoke_tool", turnId=turn["turnId"], toolName=f"mcp__{name}__echo", arguments={"text": text}, **more)


def names(rpc, **more):
    return [t["name"] for t in rpc.call("get_tool_inventory", **more)["tools"] if t["name"].startswith("mcp__")]


def test_a_server_is_registered_and_called(home):
    with home.rpc() as rpc:
        added = add(rpc, home)
        assert added["tools"] == ["echo", "env"] and added["serverInfo"] == {"name": "fake", "version": "1"} and "leftOut" not in added, added
        rpc.fails("add_mcp_server", {"name": "fake", "command": ["x"]}, code=-32009)
        assert [s["name"] for s in rpc.call("list_mcp_servers")["servers"]] == ["fake"]
        known = rpc.call("get_mcp_server", name="fake")
        assert known["tools"][0]["inputSchema"]["required"] == ["text"] and known["tools"][0]["description"] == "Returns its text.", known
        assert rpc.call("test_mcp_server", name="fake", cwd=home.work)["changed"] is False
        rows = {t["name"]: t for t in rpc.call("get_tool_inventory")["tools"]}
        assert rows["mcp__fake__echo"]["runtimeOwner"] == "mcp" and rows["mcp__fake__echo"]["policy"]["sandbox"] == "turn", rows["mcp__fake__echo"]
        turn = open_turn(rpc, home)
        done = echo(rpc, turn)
        assert done["status"] == "completed" and result(rpc, done)["result"]["content"][0]["text"] == "hello", done
        started = [e for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "process.started" and e.get("toolCallId")]
        assert len(started) == 1, "a call is a process of the turn"
        rpc.fails("invoke_tool", {"turnId": turn["turnId"], "toolName": "mcp__fake__echo", "arguments": {"text": 1}}, code=-32602)
        wrong = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="mcp__fake__env", arguments={})
        assert wrong["status"] == "failed" and "error -32602: no such tool" in wrong["error"]["message"] and "\x1b" not in wrong["error"]["message"], wrong
        rpc.fails("register_tools", {"tools": [{"name": "mcp__fake__echo"}]}, code=-32602)
        before = rpc.call("get_tool_inventory")
        home.stop()
        home.start()
    with home.rpc() as rpc:
        assert json.dumps(rpc.call("get_tool_inventory")["tools"]) == json.dumps(before["tools"]), "what models are sent survives a restart, byte for byte"
        assert echo(rpc, open_turn(rpc, home))["status"] == "completed"
        assert rpc.call("remove_mcp_server", name="fake")["removed"] is True
        assert names(rpc) == [] and rpc.call("list_mcp_servers") == {"servers": []}
        rpc.fails("remove_mcp_server", {"name": "fake"}, code=-32004)
        valid(home, rpc)


def test_what_cannot_be_registered(home):
    with home.rpc() as rpc:
        assert "url: unavailable" in str(rpc.fails("add_mcp_server", {"name": "x", "url": "https://mcp.example.com"}))
        for name in ("a__b", "_a", "a_", "x" * 33, "a.b"):
            assert "name" in str(rpc.fails("add_mcp_server", {"name": name, "command": ["x"]}, code=-32602))
        assert "command" in str(rpc.fails("add_mcp_server", {"name": "x"}, code=-32602))
        assert "65 texts" in str(rpc.fails("add_mcp_server", {"name": "x", "command": ["x"] * 65}, code=-32602))
        for command, why in ((["no-such-program-here"], "No such file"), (["true"], "exited before it answered"), (["echo", "hi"], "did not list its tools")):
            assert why in str(rpc.fails("add_mcp_server", {"name": "x", "command": command})), command
        path = os.path.join(home.work, "s.py")
        shutil.copyfile(SERVER, path)
        for fault, why in (("exit", "no database"), ("pages", "pages"), ("noise", "JSON")):
            failed = str(rpc.fails("add_mcp_server", {"name": "x", "command": ["python3", path, fault], "cwd": home.work}))
            assert why in failed and "\x1b" not in failed, failed
        assert rpc.call("list_mcp_servers") == {"servers": []} and not [e for e in rpc.events() if e["type"] == "mcp_server.added"]


def test_names_that_clash_are_left_out(home):
    with home.rpc() as rpc:
        rpc.call("register_tools", tools=[{"name": "mcp__fake__echo"}])
        added = add(rpc, home)
        assert added["tools"] == ["env"] and added["leftOut"][0]["name"] == "echo" and "client" in added["leftOut"][0]["reason"], added
        long = add(rpc, home, "names", name="other")
        assert long["tools"] == ["echo"], long
        assert {x["name"]: x["reason"].split(" ", 2)[2][:10] for x in long["leftOut"]} == {"a.b": "has charac", "n" * 60: "with that ", "echo": "lists this", "bad": "schema is n"[:10]}, long


def test_the_loop_calls_it(home):
    with home.rpc() as rpc:
        add(rpc, home)
        script = [{"calls": [tool("mcp__fake__echo", text="from the server")]}, {"text": "done"}]
        with model(home, rpc, script) as p:
            turn = submit(rpc, "go", options={"cwd": home.work, "sandbox": {"workspace": home.work}})
            completed(rpc, turn)
            sent = [json.dumps(r.body) if not isinstance(r.body, (str, bytes)) else str(r.body) for r in p.requests]
        assert len(sent) == 2 and "from the server" in sent[1] and "mcp__fake__echo" in sent[0], sent
        valid(home, rpc)


def test_faults_end_one_call_only(home):
    with home.rpc() as rpc:
        for fault in ("crash", "flood", "long", "iserror"):
            add(rpc, home, fault, replace=True)
            turn = open_turn(rpc, home)
            done = echo(rpc, turn)
            assert done["status"] == "failed", (fault, done)
            expected = {"crash": "exited before it answered", "flood": "messages without an answer", "long": "bytes", "iserror": "it did not work"}[fault]
            assert expected in done["error"]["message"], (fault, done)
            assert rpc.call("invoke_tool", turnId=turn["turnId"], toolName="shell", arguments={"commandLine": "true"})["status"] == "completed", "the sandbox still works"
        add(rpc, home, "ping", replace=True)
        assert echo(rpc, open_turn(rpc, home))["status"] == "completed", "requests of the server are answered"
        add(rpc, home, "hang", replace=True)
        slow = open_turn(rpc, home, limits={"wallMs": 1500})
        done = echo(rpc, slow)
        assert done["status"] == "timed_out", done
        turn = open_turn(rpc, home)
        late = echo(rpc, turn, timeoutMs=1)
        until("the call runs", lambda: [e for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "process.started"])
        rpc.call("interrupt_turn", turnId=turn["turnId"])
        until("the call is cancelled", lambda: [e for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "tool.failed"], )
        assert late["toolCallId"], late
        valid(home, rpc)


def test_rules_apply_to_its_tools():
    with Policed({"permissions": {"ask": ["mcp__fake__echo"], "deny": ["mcp__fake__env", "mcp__bad"]}}) as home, home.rpc() as rpc:
        add(rpc, home)
        assert "denied" in str(rpc.fails("add_mcp_server", {"name": "bad", "command": ["true"]})), "also before it is started"
        turn = open_turn(rpc, home)
        denied = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="mcp__fake__env", arguments={})
        assert denied["status"] == "failed" and denied["error"]["category"] == "permission", denied
        for decision, status in (("deny", "failed"), ("allow", "completed")):
            asked = echo(rpc, turn, text=decision, timeoutMs=1)
            action = until("a person is asked", lambda: pending(rpc))[0]
            rpc.call("respond_action", actionId=action["actionId"], decision=decision)
            end = until("the call ends", lambda: [e for e in rpc.events(turnId=turn["turnId"]) if e["type"] in ("tool.result", "tool.failed")
                                                  and e["toolCallId"] == asked["toolCallId"]])[0]
            assert end["type"] == ("tool.result" if status == "completed" else "tool.failed"), end
        valid(home, rpc)


def test_a_person_is_asked_before_a_server_starts():
    with Policed({"permissions": {"ask": ["mcp__fake"]}}) as home, home.rpc() as rpc, home.rpc() as other:
        path = os.path.join(home.work, "s.py")
        shutil.copyfile(SERVER, path)
        for decision in ("deny", "allow"):
            sent = other.send("add_mcp_server", {"name": "fake", "command": ["python3", path], "cwd": home.work})
            action = until("a person is asked", lambda: pending(rpc))[0]
            rpc.call("respond_action", actionId=action["actionId"], decision=decision)
            try:
                added = other.reply(sent)
            except harness.RpcError:
                assert decision == "deny"
                continue
            assert decision == "allow" and added["tools"] == ["echo", "env"], added
        assert [e["payload"]["name"] for e in rpc.events() if e["type"] == "mcp_server.added"] == ["fake"]


def test_hooks_see_and_change_its_arguments():
    with Hooked(pre(says(permissionDecision="allow", updatedInput={"text": "by the hook"}), matcher="mcp__fake__echo")) as home, home.rpc() as rpc:
        add(rpc, home)
        done = echo(rpc, open_turn(rpc, home))
        assert done["status"] == "completed" and result(rpc, done)["result"]["content"][0]["text"] == "by the hook", done
    with Hooked(pre(says(permissionDecision="deny", permissionDecisionReason="no servers"), matcher="mcp__.*")) as home, home.rpc() as rpc:
        assert "no servers" in str(rpc.fails("add_mcp_server", {"name": "fake", "command": ["true"]}))


def test_plan_and_auto_do_not_trust_it(home):
    with home.rpc() as rpc:
        add(rpc, home)
        session = open_turn(rpc, home)
        for mode, answer in (("plan", "denied"), ("auto", "ask"), ("default", "sandboxed")):
            rows = {t["name"]: t["policy"]["status"] for t in rpc.call("get_tool_inventory", sessionId=session["sessionId"], mode=mode)["tools"]}
            assert rows["mcp__fake__echo"] == answer, (mode, rows["mcp__fake__echo"])


def test_two_sessions_and_a_crash_of_the_runtime(home):
    with home.rpc() as rpc:
        add(rpc, home)
        first, second = open_turn(rpc, home), open_turn(rpc, home)
        assert first["sessionId"] != second["sessionId"]
        assert [result(rpc, echo(rpc, t, text=w))["result"]["content"][0]["text"] for t, w in ((first, "a"), (second, "b"))] == ["a", "b"]
        add(rpc, home, "hang", replace=True)
        running = echo(rpc, first, timeoutMs=1)
        until("it runs", lambda: [e for e in rpc.events(turnId=first["turnId"]) if e["type"] == "process.started" and e.get("toolCallId") == running["toolCallId"]])
    home.kill_part("runtime")
    with home.rpc() as rpc:
        assert names(rpc) == ["mcp__fake__echo", "mcp__fake__env"]
        rpc.call("interrupt_turn", turnId=first["turnId"])
        until("the call ends", lambda: [e for e in rpc.events(turnId=first["turnId"]) if e["type"] == "tool.failed" and e["toolCallId"] == running["toolCallId"]])
        valid(home, rpc)


def test_the_filesystem_server_of_the_project(home):
    """A released server, copied into the workspace: the sandbox decides what it may do, whatever its arguments say."""
    folder = os.path.join(home.work, "server")
    shutil.copytree(os.path.join(npm.packages("mcp-server"), "node_modules"), os.path.join(folder, "node_modules"), symlinks=True)
    program = os.path.join(folder, "node_modules", "@modelcontextprotocol", "server-filesystem", "dist", "index.js")
    with home.rpc() as rpc:
        added = rpc.call("add_mcp_server", name="files", command=[npm.node(20), program, home.work, "/etc"], cwd=home.work)
        assert {"write_file", "read_text_file", "list_directory"} <= set(added["tools"]) and "leftOut" not in added, added
        turn = open_turn(rpc, home)

        def ask(name, **arguments):
            return rpc.call("invoke_tool", turnId=turn["turnId"], toolName="mcp__files__" + name, arguments=arguments)

        path = os.path.join(home.work, "note")
        assert ask("write_file", path=path, content="from a server")["status"] == "completed"
        with open(path, encoding="utf-8") as f:
            assert f.read() == "from a server"
        assert result(rpc, ask("read_text_file", path=path))["result"]["content"][0]["text"] == "from a server"
        denied = ask("write_file", path="/etc/bailiff-test-mcp", content="x")
        assert denied["status"] == "failed" and not os.path.exists("/etc/bailiff-test-mcp"), denied
        valid(home, rpc)


def test_the_command_line(home):
    path = os.path.join(home.work, "s.py")
    shutil.copyfile(SERVER, path)
    assert home.cli("mcp-server", "add", "fake", "--", "python3", path, cwd=home.work).text.split() == ["mcp__fake__echo", "mcp__fake__env"]
    assert "fake" in home.cli("mcp-server", "list").text and "Returns its text." in home.cli("mcp-server", "show", "fake").text
    assert "mcp__fake__env" in home.cli("mcp-server", "test", "fake", cwd=home.work).text
    refused = home.cli("mcp-server", "add", "web", "--url", "https://mcp.example.com", status=1)
    assert "unavailable" in refused.err.decode(), refused.err
    home.cli("mcp-server", "add", "fake", status=2)
    assert "65 texts" in home.cli("mcp-server", "add", "many", "--", *["x"] * 65, status=1).err.decode()
    home.cli("mcp-server", "remove", "fake")
    assert "fake" not in home.cli("mcp-server", "list", "--json").text


if __name__ == "__main__":
    harness.main(globals())
