"""External MCP servers as tools: registered once, started for each call, or kept running, in the sandbox of its turn, or reached by a URL."""

import base64
import http.server
import json
import os
import queue
import shutil
import threading

import harness
import npm
from harness import until, valid
from hooks import Hooked, pre, says
from test_agent import call as tool, completed, model, submit
from test_policy import Policed, pending
from test_tool import open_turn, result

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


def test_invalid_servers_are_rejected_with_the_field(home):
    with home.rpc() as rpc:
        for more, why in (({"url": "ftp://mcp.example.com"}, "url"), ({"url": "http://mcp.example.com"}, "https"), ({"url": "https://m.example", "command": ["x"]}, "either"),
                          ({"url": "https://m.example", "env": {"A": "b"}}, "keyFile"), ({"command": ["x"], "keyFile": "/k"}, "envFiles"),
                          ({"command": ["x"], "env": {"TOKEN": "ghp_0123456789abcdef0123456789"}}, "contains a key"), ({"command": ["x"], "env": {"A": None}}, "env.A"),
                          ({"command": ["x"], "envFiles": {"A": "relative"}}, "absolute"), ({"command": ["x"], "envFiles": {"A": 1}}, "envFiles.A")):
            failed = rpc.fails("add_mcp_server", {"name": "x", **more}, code=-32602)
            assert why in str(failed) and "ghp_" not in str(failed), (more, failed)
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


def test_tools_with_conflicting_names_are_left_out(home):
    with home.rpc() as rpc:
        rpc.call("register_tools", tools=[{"name": "mcp__fake__echo"}])
        added = add(rpc, home)
        assert added["tools"] == ["env"] and added["leftOut"][0]["name"] == "echo" and "client" in added["leftOut"][0]["reason"], added
        long = add(rpc, home, "names", name="other")
        assert long["tools"] == ["echo"], long
        assert {x["name"]: x["reason"].split(" ", 2)[2][:10] for x in long["leftOut"]} == {"a.b": "has charac", "n" * 60: "with that ", "echo": "lists this", "bad": "schema is n"[:10]}, long


def test_loop_calls_tools_of_a_server(home):
    with home.rpc() as rpc:
        for form, expected in (("", "from the server\n"), ("structured", '{"text": "from the server"}\n')):
            add(rpc, home, form, replace=True)
            script = [{"calls": [tool("mcp__fake__echo", text="from the server")]}, {"text": "done"}]
            with model(home, rpc, script) as p:
                turn = submit(rpc, "go", options={"cwd": home.work, "sandbox": {"workspace": home.work}})
                completed(rpc, turn)
            assert len(p.requests) == 2 and "mcp__fake__echo" in str(p.requests[0].tools), p.requests[0].tools
            assert [r["text"] for r in p.requests[1].results] == [expected], p.requests[1].results
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


def test_rules_apply_to_tools_of_a_server():
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


def test_approval_is_requested_before_a_server_starts():
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


def test_hooks_see_and_change_arguments_of_a_server():
    with Hooked(pre(says(permissionDecision="allow", updatedInput={"text": "by the hook"}), matcher="mcp__fake__echo")) as home, home.rpc() as rpc:
        add(rpc, home)
        done = echo(rpc, open_turn(rpc, home))
        assert done["status"] == "completed" and result(rpc, done)["result"]["content"][0]["text"] == "by the hook", done
    with Hooked(pre(says(permissionDecision="deny", permissionDecisionReason="no servers"), matcher="mcp__.*")) as home, home.rpc() as rpc:
        assert "no servers" in str(rpc.fails("add_mcp_server", {"name": "fake", "command": ["true"]}))


def test_modes_plan_and_auto_do_not_trust_a_server(home):
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


def test_released_filesystem_server_is_confined_by_the_sandbox(home):
    """A released server, copied into the workspace: the sandbox limits it regardless of its arguments."""
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


def said(rpc, done):
    assert done["status"] == "completed", done
    return result(rpc, done)["result"]["content"][0]["text"]


def test_a_stateful_server_keeps_running_in_the_sandbox_of_its_thread(home):
    with home.rpc() as rpc:
        add(rpc, home, "state", stateful=True)
        turn, other = open_turn(rpc, home), open_turn(rpc, home)
        assert [said(rpc, echo(rpc, turn, t)) for t in "ab"] == ["1 a", "2 b"]
        assert said(rpc, echo(rpc, other, "c")) == "1 c", "another session has its own"
        died = echo(rpc, turn, "crash")
        assert died["status"] == "failed" and "exited before it answered" in died["error"]["message"], died
        assert [said(rpc, echo(rpc, turn, t)) for t in "de"] == ["1 d", "2 e"], "started again"
        assert [said(rpc, echo(rpc, turn, "f")), said(rpc, echo(rpc, other, "f"))] == ["3 f", "2 f"]
        running = echo(rpc, turn, "hang", timeoutMs=1)
        until("it runs", lambda: [e for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "process.started" and e.get("toolCallId") == running["toolCallId"]])
    home.kill_part("runtime")
    with home.rpc() as rpc:
        assert said(rpc, echo(rpc, other, "g")) == "3 g", "it survives the runtime"
        rpc.call("interrupt_turn", turnId=turn["turnId"])
        until("the call is reported", lambda: [e for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "tool.failed" and e["toolCallId"] == running["toolCallId"]])
        add(rpc, home, "state", stateful=True, replace=True)
        assert said(rpc, echo(rpc, other, "h")) == "1 h", "a replaced server is another one"
        calls = [e for e in rpc.events(turnId=other["turnId"]) if e["type"] == "permission.evaluated"]
        assert len(calls) >= 4, "each call is decided"
        valid(home, rpc)


def test_secret_variables_reach_only_the_server(home):
    secret = os.path.join(home.dir, "secret")
    with open(secret, "w", encoding="utf-8") as f:
        f.write("hidden value\n")
    os.chmod(secret, 0o600)
    with home.rpc() as rpc:
        for stateful in (False, True):
            added = add(rpc, home, "state", replace=True, stateful=stateful, env={"PLAIN": "seen"}, envFiles={"SECRET": secret})
            assert added["tools"] == ["echo", "env"], added
            turn = open_turn(rpc, home)
            assert [said(rpc, echo(rpc, turn, t)) for t in ("PLAIN", "SECRET")] == ["1 seen", f"{1 + stateful} hidden value"]
            stolen = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="shell",
                              arguments={"commandLine": f"cat {secret} /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -a 'hidden.value'"})
            assert stolen["status"] == "failed", "a command of the turn reads it neither from the file nor from the server"
        leaks = [e["type"] for e in rpc.events() if "hidden value" in json.dumps(e) and e["type"] not in ("tool.result", "tool.progress", "process.output")]
        assert leaks == [], "only the server's own answer has it"
        with home.rpc() as agent:
            agent.call("initialize", role="agent")
            refused = echo(agent, open_turn(agent, home), "SECRET")
            assert refused["status"] == "failed" and "only turns that an operator requested" in refused["error"]["message"], refused
        os.chmod(secret, 0o640)
        wrong = echo(rpc, open_turn(rpc, home), "SECRET")
        assert wrong["status"] == "failed" and "chmod 600" in wrong["error"]["message"], wrong
        valid(home, rpc)


def test_agent_can_add_a_server_for_its_session_only(home):
    with home.rpc() as rpc, home.rpc() as agent:
        agent.call("initialize", role="agent")
        turn = open_turn(agent, home)
        session = {"sessionId": turn["sessionId"]}
        assert add(agent, home, env={"PLAIN": "hidden value"}, **session)["tools"] == ["echo", "env"]
        assert names(rpc, **session) == ["mcp__fake__echo", "mcp__fake__env"] and names(rpc, sessionId=open_turn(rpc, home)["sessionId"]) == []
        assert echo(agent, turn)["status"] == "completed"
        assert agent.fails("add_mcp_server", {"name": "all", "command": ["x"]}, code=-32003).data["field"] == "sessionId"
        agent.fails("remove_mcp_server", {"name": "fake"}, code=-32003)
        agent.fails("add_mcp_server", {"name": "fake", "command": ["x"], **session}, code=-32009)
        for more in ({"url": "https://m.example"}, {"command": ["x"], "envFiles": {"A": "/a"}}, {"command": ["x"], "stateful": True}):
            field = next(k for k in more if k != "command")
            assert rpc.fails("add_mcp_server", {"name": "other", **session, **more}, code=-32602).data["field"] == field, "neither hosts nor files"
        agent.fails("register_tools", {"tools": [{"name": "mcp__fake__echo"}], **session}, code=-32602)
        assert "hidden value" not in json.dumps(rpc.events()) and rpc.call("list_mcp_servers") == {"servers": []}
        assert rpc.call("remove_mcp_server", name="fake", **session)["removed"] is True and names(rpc, **session) == []
        add(rpc, home)
        taken = rpc.fails("add_mcp_server", {"name": "fake", "command": ["x"], "replace": True, **session}, code=-32009)
        assert "for all sessions" in taken.message, taken
        add(agent, home, name="mine", **session)
        agent.close()
        until("it leaves with its connection", lambda: not [n for n in names(rpc, **session) if "mine" in n])
        valid(home, rpc)


def test_rules_about_commands_apply_to_a_server_that_an_agent_adds():
    """Otherwise an agent could run whatever a rule denies, as the command of a server."""
    with Policed({"permissions": {"deny": ["Bash(touch:*)"]}}) as home, home.rpc() as rpc, home.rpc() as agent:
        agent.call("initialize", role="agent")
        turn = open_turn(agent, home)
        session = {"sessionId": turn["sessionId"]}
        for command in (["touch", "made"], ["sh", "-c", "touch made"], ["env", "A=1", "/usr/bin/touch", "made"]):
            denied = agent.fails("add_mcp_server", {"name": "bad", "command": command, "cwd": home.work, **session}, code=-32010)
            assert denied.data["permissionDecision"]["ruleRefs"][0]["rule"] == "Bash(touch:*)", denied.data
        assert not os.path.exists(os.path.join(home.work, "made"))
        assert add(agent, home, **session)["tools"] == ["echo", "env"] and echo(agent, turn)["status"] == "completed"
        # A rule that was added later applies to the calls.
        rpc.call("update_session", sessionId=turn["sessionId"], permissions={"deny": ["Bash(python3:*)"]})
        later = echo(agent, turn)
        assert later["status"] == "failed" and "Bash(python3:*)" in later["error"]["message"], later
        valid(home, rpc)


def test_hooks_for_commands_see_the_command_of_a_server_that_an_agent_adds():
    """Its command is one like any other: hooks for Bash can deny it, but to allow it is not to allow the tool."""
    only_fake = "grep -q fake_mcp_server || { echo 'only the fake one' >&2; exit 2; }"
    with Hooked(pre(only_fake)) as home, home.rpc() as rpc, home.rpc() as agent:
        agent.call("initialize", role="agent")
        turn = open_turn(agent, home)
        session = {"sessionId": turn["sessionId"]}
        denied = agent.fails("add_mcp_server", {"name": "bad", "command": ["touch", "made"], "cwd": home.work, **session}, code=-32010)
        assert "only the fake one" in denied.message and denied.data["permissionDecision"]["decisionSource"] == "hook", denied
        assert not os.path.exists(os.path.join(home.work, "made")) and names(rpc, **session) == []
        assert add(agent, home, **session)["tools"] == ["echo", "env"] and echo(agent, turn)["status"] == "completed"
        home.policy({"hooks": pre("echo no >&2; exit 2")})
        rpc.call("reload_policy")
        assert echo(agent, turn)["status"] == "failed", "each call starts the server again"
        # An operator's own server is not what an agent chose.
        assert add(rpc, home, name="other")["tools"] == ["echo", "env"]
        home.policy({"hooks": pre(says(permissionDecision="allow", updatedInput={"command": "true"}))})
        rpc.call("reload_policy")
        rewritten = echo(agent, turn)
        assert rewritten["status"] == "failed" and "rewrites the command" in rewritten["error"]["message"], rewritten
        home.policy({"permissions": {"ask": ["mcp__fake"]}, "hooks": pre(says(permissionDecision="allow"))})
        rpc.call("reload_policy")
        echo(agent, turn, timeoutMs=1)
        action = until("a person is asked", lambda: pending(rpc))[0]
        rpc.call("respond_action", actionId=action["actionId"], decision="deny")
        valid(home, rpc)


def test_a_question_about_the_command_of_a_server_suggests_a_rule_about_the_command():
    """A rule about the tool would not help: the next call would ask again."""
    with Policed({"permissions": {"allow": ["mcp__fake"]}}) as home, home.rpc() as rpc, home.rpc() as agent:
        agent.call("initialize", role="agent")
        turn = open_turn(agent, home)
        session = {"sessionId": turn["sessionId"]}
        add(agent, home, **session)
        rpc.call("set_permission_mode", mode="untrusted", **session)
        asked = echo(agent, turn, timeoutMs=1)
        action = until("a person is asked", lambda: pending(rpc))[0]
        answered = rpc.call("respond_action", actionId=action["actionId"], decision="allow", scope="always")
        assert answered["rules"] == [f"Bash(python3 {home.work}/fake_mcp_server.py)"], answered
        until("the call ends", lambda: [e for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "tool.result" and e["toolCallId"] == asked["toolCallId"]])
        assert echo(agent, turn)["status"] == "completed" and pending(rpc) == []
        # No rule that allows is stronger than one that denies, so none is suggested.
        rpc.call("update_session", permissions={"deny": ["Bash(python3:*)"]}, **session)
        assert echo(agent, turn)["status"] == "failed"
        suggested = [e for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "permission.evaluated"][-1]["payload"]["suggestion"]
        assert "allow" not in suggested and "Bash(python3:*)" in suggested["why"], suggested
        valid(home, rpc)


class Web(http.server.BaseHTTPRequestHandler):
    """An MCP server on streamable HTTP with sessions; answers as JSON or as a stream."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", kind="application/json", **headers):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        web, m = self.server, json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        session, method = self.headers.get("Mcp-Session-Id"), m.get("method", "an answer")
        web.seen.append((method, session, self.headers.get("MCP-Protocol-Version")))
        if self.headers.get("Authorization") != "Bearer t0ken-of-the-test":
            return self.reply(401, b"who are you?", "text/plain")
        if method == "initialize":
            web.sessions[f"s{len(web.sessions)}"] = 0
            return self.answer(m, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "web", "version": "2"}},
                               Mcp_Session_Id=f"s{len(web.sessions) - 1}")
        if session not in web.sessions:
            return self.reply(404)
        if method == "an answer" or "id" not in m:
            web.told.put((method, m.get("id", m.get("params", {}).get("requestId"))))
            return self.reply(202)
        if method == "ping":
            return self.answer(m, {})
        if method == "tools/list":
            return self.answer(m, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
        web.sessions[session] += 1
        if m["params"]["arguments"]["text"] in ("ask", "hang"):
            return self.wait_for_client(m)
        text = f"{web.sessions[session]} {m['params']['arguments']['text']}"
        return self.answer(m, {"content": [{"type": "text", "text": text}]}, stream=True)

    def wait_for_client(self, m):
        """A stream that asks the client for something, and ends when it has answered or cancelled the call."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        if m["params"]["arguments"]["text"] == "ask":
            self.wfile.write(b'data: {"jsonrpc": "2.0", "id": "p", "method": "ping"}\n\n')
        while not self.server.told.empty():
            self.server.told.get()
        self.server.waits.set()
        told = self.server.told.get(timeout=harness.PATIENCE)
        if told == ("an answer", "p"):
            self.wfile.write(f'data: {json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"content": [{"type": "text", "text": "asked"}]}})}\n\n'.encode())
        else:
            self.server.cancelled.append((told, m["id"]))

    def answer(self, m, result, stream=False, **headers):
        body = json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}, indent=1)
        if stream:
            note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
            body = f": hello\r\n\r\ndata: {note}\n\nevent: message\n" + "".join(f"data: {line}\n" for line in body.split("\n")) + "\n"
        self.reply(200, body.encode(), "text/event-stream" if stream else "application/json", **headers)


def test_a_server_is_reached_by_its_url(home):
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
    web.sessions, web.seen, web.told = {}, [], queue.Queue()
    threading.Thread(target=web.serve_forever, daemon=True).start()
    url, key = f"http://127.0.0.1:{web.server_address[1]}/mcp", os.path.join(home.dir, "token")
    with open(key, "w", encoding="utf-8") as f:
        f.write("t0ken-of-the-test\n")
    os.chmod(key, 0o600)
    with home.rpc() as rpc:
        assert "HTTP status 401" in str(rpc.fails("add_mcp_server", {"name": "web", "url": url}))
        for stateful in (False, True):
            added = rpc.call("add_mcp_server", name="web", url=url, keyFile=key, replace=True, stateful=stateful)
            assert added["tools"] == ["echo"] and added["serverInfo"]["name"] == "web", added
            turn = open_turn(rpc, home)
            answers = [said(rpc, echo(rpc, turn, t, name="web")) for t in "ab"]
            assert answers == ["1 a", f"{1 + stateful} b"], (answers, web.seen)
        assert web.seen[-1] == ("tools/call", f"s{len(web.sessions) - 1}", "2025-06-18"), web.seen[-1]
        web.sessions.clear()
        assert echo(rpc, turn, "c", name="web")["status"] == "failed"
        assert said(rpc, echo(rpc, turn, "d", name="web")) == "1 d", "a session that has ended is begun again"
        assert "t0ken" not in json.dumps(rpc.events())
        web.shutdown()
        web.server_close()
        gone = echo(rpc, open_turn(rpc, home), "e", name="web")
        assert gone["status"] == "failed" and "onnect" in gone["error"]["message"], gone
        valid(home, rpc)


def test_a_server_reached_by_its_url_gets_answers_and_cancellations_during_a_call(home):
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
    web.sessions, web.seen, web.told, web.waits, web.cancelled = {}, [], queue.Queue(), threading.Event(), []
    threading.Thread(target=web.serve_forever, daemon=True).start()
    key = os.path.join(home.dir, "token")
    with open(key, "w", encoding="utf-8") as f:
        f.write("t0ken-of-the-test\n")
    os.chmod(key, 0o600)
    with home.rpc() as rpc:
        rpc.call("add_mcp_server", name="web", url=f"http://127.0.0.1:{web.server_address[1]}/mcp", keyFile=key, stateful=True)
        turn = open_turn(rpc, home)
        assert said(rpc, echo(rpc, turn, "ask", name="web")) == "asked"
        web.waits.clear()
        running = echo(rpc, turn, "hang", name="web", timeoutMs=1)
        assert web.waits.wait(harness.PATIENCE), "the call has arrived"
        process, = [e["processId"] for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "process.started" and e.get("toolCallId") == running["toolCallId"]]
        rpc.call("terminate_process", processId=process)
        until("the server has been told", lambda: web.cancelled)
        (method, cancelled), called = web.cancelled[0]
        assert method == "notifications/cancelled" and cancelled == called, web.cancelled
        assert said(rpc, echo(rpc, turn, "next", name="web")) == "3 next", "of the same session"
    web.shutdown()
    web.server_close()


class Resumable(Web):
    """Ends the stream of a call before its answer: the client asks for the rest with GET."""

    def answer(self, m, result, stream=False, **headers):
        if not stream:
            return super().answer(m, result, **headers)
        self.server.result = json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result})
        return self.reply(200, b"id: e-1\nretry: 100\ndata:\n\n", "text/event-stream", Connection="close")

    def do_GET(self):
        last = self.headers.get("Last-Event-ID")
        self.server.resumed.append((last, self.headers.get("Mcp-Session-Id") in self.server.sessions, self.headers.get("Authorization")))
        if len(self.server.resumed) == 1:
            return self.reply(503, b"restarting", "text/plain")
        if last == "e-1":
            note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
            return self.reply(200, f"id: e-2\ndata: {note}\n\nid: e-3\n".encode(), "text/event-stream", Connection="close")
        return self.reply(200, f"id: e-3\ndata: {self.server.result}\n\n".encode(), "text/event-stream")

    def do_DELETE(self):
        self.server.sessions.pop(self.headers.get("Mcp-Session-Id"))
        self.reply(204)


def test_a_stream_that_ends_before_the_answer_is_resumed(home):
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Resumable)
    web.sessions, web.seen, web.told, web.resumed = {}, [], queue.Queue(), []
    threading.Thread(target=web.serve_forever, daemon=True).start()
    key = os.path.join(home.dir, "token")
    with open(key, "w", encoding="utf-8") as f:
        f.write("t0ken-of-the-test\n")
    os.chmod(key, 0o600)
    with home.rpc() as rpc:
        rpc.call("add_mcp_server", name="web", url=f"http://127.0.0.1:{web.server_address[1]}/mcp", keyFile=key)
        assert not web.sessions, "a session that is no longer needed is ended"
        turn = open_turn(rpc, home)
        assert said(rpc, echo(rpc, turn, "a", name="web")) == "1 a"
        good = (True, "Bearer t0ken-of-the-test")
        assert web.resumed == [("e-1", *good), ("e-1", *good), ("e-2", *good)] and not web.sessions, (web.resumed, web.sessions)
        valid(home, rpc)
    web.shutdown()
    web.server_close()


class Stateless(Web):
    """A server of the version without initialize: each request says who sends it, in its body and in its headers."""

    def do_POST(self):
        m = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        meta, method = m.get("params", {}).get("_meta", {}), m["method"]
        said = [self.headers.get(name) for name in ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Session-Id")]
        self.server.seen.append((method, said))
        if method == "initialize":
            return self.fail(404, m, -32601, "no such method")
        name = m["params"].get("name")
        if said[:2] != ["2026-07-28", method] or meta.get("io.modelcontextprotocol/protocolVersion") != "2026-07-28" or "io.modelcontextprotocol/clientCapabilities" not in meta:
            return self.fail(400, m, -32020, "headers and body disagree")
        if name and said[2] != (name if name.isascii() else f"=?base64?{base64.b64encode(name.encode()).decode()}?="):
            return self.fail(400, m, -32020, f"Mcp-Name {said[2]}")
        if method == "server/discover":
            return self.answer(m, {"resultType": "complete", "supportedVersions": self.server.versions, "capabilities": {"tools": {}},
                                   "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "3"}}})
        if method == "tools/list":
            return self.answer(m, {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [{"name": n, "inputSchema": {"type": "object"}} for n in ("echo", "asks")]})
        if name == "asks":
            return self.answer(m, {"resultType": "input_required", "inputRequests": {}, "requestState": "x"})
        return self.answer(m, {"resultType": "complete", "content": [{"type": "text", "text": m["params"]["arguments"]["text"]}]}, stream=True)

    def fail(self, status, m, code, message):
        self.reply(status, json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": code, "message": message}}).encode())


def test_a_server_without_initialize_is_asked_statelessly(home):
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stateless)
    web.seen, web.versions = [], ["2026-07-28"]
    threading.Thread(target=web.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{web.server_address[1]}/mcp"
    with home.rpc() as rpc:
        for stateful in (False, True):
            added = rpc.call("add_mcp_server", name="web", url=url, replace=True, stateful=stateful)
            assert added["tools"] == ["echo", "asks"] and added["serverInfo"] == {"name": "modern", "version": "3"}, added
            turn = open_turn(rpc, home)
            assert [said(rpc, echo(rpc, turn, t, name="web")) for t in "ab"] == ["a", "b"]
            asks = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="mcp__web__asks", arguments={})
            assert asks["status"] == "failed" and "asks for input" in asks["error"]["message"], asks
        assert [m for m, _ in web.seen[:3]] == ["initialize", "server/discover", "tools/list"] and not any(s[3] for _, s in web.seen), web.seen
        web.versions = ["2027-01-01"]
        assert "2026-07-28" in str(rpc.fails("add_mcp_server", {"name": "later", "url": url}))
        web.versions = None
        added = add(rpc, home, "stateless", "stdio")
        assert added["serverInfo"] == {"name": "modern", "version": "3"}, added
        assert said(rpc, echo(rpc, open_turn(rpc, home), "c", name="stdio")) == "c"
        valid(home, rpc)
    web.shutdown()
    web.server_close()


def test_mcp_server_verbs_of_the_command_line(home):
    path = os.path.join(home.work, "s.py")
    shutil.copyfile(SERVER, path)
    assert home.cli("mcp-server", "add", "fake", "--", "python3", path, cwd=home.work).text.split() == ["mcp__fake__echo", "mcp__fake__env"]
    assert "fake" in home.cli("mcp-server", "list").text and "Returns its text." in home.cli("mcp-server", "show", "fake").text
    assert "mcp__fake__env" in home.cli("mcp-server", "test", "fake", cwd=home.work).text
    refused = home.cli("mcp-server", "add", "web", "--url", "http://mcp.example.com", status=1)
    assert "https://" in refused.err.decode(), refused.err
    secret = os.path.join(home.work, "secret")
    with open(secret, "w", encoding="utf-8") as f:
        f.write("hidden value\n")
    os.chmod(secret, 0o644)
    assert "chmod 600" in home.cli("mcp-server", "add", "state", "--env-file", "S=" + secret, "--", "python3", path, "state", cwd=home.work, status=1).err.decode()
    os.chmod(secret, 0o600)
    home.cli("mcp-server", "add", "state", "--env", "A=b", "--env-file", "S=secret", "--stateful", "--", "python3", path, "state", cwd=home.work)
    shown = json.loads(home.cli("mcp-server", "show", "state", "--json").text)
    assert shown["env"] == {"A": "b"} and shown["envFiles"] == {"S": os.path.realpath(secret)} and shown["stateful"] is True, shown
    home.cli("mcp-server", "remove", "state")
    home.cli("mcp-server", "add", "fake", status=2)
    assert "65 texts" in home.cli("mcp-server", "add", "many", "--", *["x"] * 65, status=1).err.decode()
    home.cli("mcp-server", "remove", "fake")
    assert "fake" not in home.cli("mcp-server", "list", "--json").text


if __name__ == "__main__":
    harness.main(globals())
