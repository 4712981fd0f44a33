"""Tools: bailiff's own inside the turn's sandbox, registered ones done by their client, and what clients report themselves."""

import base64
import json
import os
import signal
import time

import harness
from harness import until, valid


def text(words):
    return {"type": "text", "text": words}


def call(name, **arguments):
    return {"type": "tool_call", "toolName": name, "arguments": arguments}


def open_turn(rpc, home, **more):
    return rpc.call("submit_turn", input=[text("work")], options={"cwd": home.work, "sandbox": {"workspace": home.work}, **more})


def turn_of(rpc, turn):
    read = rpc.call("get_thread_read", threadId=turn["threadId"])
    return read, [t for t in read["turns"] if t["turnId"] == turn["turnId"]][0]


def ended(rpc, turn):
    return until("the turn ends", lambda: (t := turn_of(rpc, turn)[1]) and "completedAt" in t and t)


def result(rpc, answer):
    return json.loads(rpc.output(answer["resultRef"]))


def test_inventory_lists_tools_with_their_schemas(home):
    with home.rpc() as rpc:
        tools = {t["name"]: t for t in rpc.call("get_tool_inventory")["tools"]}
        assert {"shell", "read_file", "write_file", "list_directory", "apply_patch"} <= set(tools), tools
        assert tools["shell"]["flags"]["isDestructive"] and not tools["shell"]["flags"]["isReadOnly"], tools["shell"]
        assert tools["read_file"]["flags"]["isReadOnly"] and tools["read_file"]["flags"]["isConcurrencySafe"], tools["read_file"]
        assert all(t["inputSchema"]["type"] == "object" and t["description"] and t["owner"]["kind"] == "runtime" for t in tools.values())


def statuses(rpc, **scope):
    return {t["toolName"]: t["policy"].get("status") for t in rpc.call("get_tool_inventory", **scope)["tools"]}


def test_inventory_shows_policy_decisions(home):
    with home.rpc() as rpc:
        turn = open_turn(rpc, home)
        session = turn["sessionId"]
        usual = statuses(rpc, sessionId=session)
        assert usual["shell"] == usual["write_file"] == usual["read_file"] == "sandboxed" and usual["update_plan"] == "allowed", usual
        plan = statuses(rpc, sessionId=session, mode="plan")
        assert (plan["shell"], plan["write_file"], plan["read_file"], plan["ask_user"]) == ("ask", "denied", "sandboxed", "allowed"), plan
        assert statuses(rpc, mode="untrusted")["edit_file"] == "ask"
        assert rpc.fails("get_tool_inventory", {"mode": "none"}, code=-32602).data["field"] == "mode"
        rpc.fails("get_tool_inventory", {"sessionId": "sess_none"}, code=-32004)
        rpc.call("invoke_tool", turnId=turn["turnId"], toolName="shell", arguments={"commandLine": "true"})
        rpc.call("set_permission_mode", sessionId=session, mode="plan")
        assert statuses(rpc, sessionId=session) == plan

        def catalogs():
            return [{t["name"]: t["policy"].get("status") for t in e["payload"]["tools"]} for e in rpc.events() if e["type"] == "tool.catalog.resolved"]

        told = until("the catalogue is told again", lambda: (c := catalogs()) and len(c) == 2 and c)
        assert told[0]["write_file"] in ("sandboxed", "unknown") and told[1] == plan, told
        os.makedirs(os.path.join(home.work, ".bailiff"))
        with open(os.path.join(home.work, ".bailiff", "policy.json"), "w", encoding="utf-8") as f:
            json.dump({"permissions": {"deny": ["apply_patch"], "ask": ["update_plan"]}}, f)
        here = statuses(rpc, cwd=home.work)
        assert (here["apply_patch"], here["update_plan"], here["read_file"]) == ("denied", "ask", "sandboxed"), here
        claims = {"capabilities": ["search"], "runtimeOwner": "mcp", "metadataRef": "doc:1"}
        rpc.call("register_tools", tools=[{"name": "mine", **claims}])
        mine = [t for t in rpc.call("get_tool_inventory")["tools"] if t["toolName"] == "mine"][0]
        assert {k: mine[k] for k in claims} == claims and mine["policy"]["status"] == "allowed", mine
        for name, value in {"capabilities": "search", "runtimeOwner": "me", "metadataRef": 1}.items():
            wrong = rpc.fails("register_tools", {"tools": [{"name": "mine", name: value}]}, code=-32602)
            assert wrong.data["field"] == f"tools[0].{name}", wrong
        valid(home, rpc)


def test_shell_tool_runs_commands(home):
    with home.rpc() as rpc:
        turn = open_turn(rpc, home)
        done = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="shell", arguments={"command": "echo hello; pwd"})
        assert done["status"] == "completed" and done["preview"] == f"hello\n{home.work}\n" and done["exitCode"] == 0, done
        failed = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="shell", arguments={"command": ["sh", "-c", "echo no; exit 7"]})
        assert failed["status"] == "failed" and failed["error"]["category"] == "exit" and failed["exitCode"] == 7, failed
        late = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="shell", arguments={"commandLine": "sleep 1000", "timeoutMs": 100})
        assert late["status"] == "timed_out" and late["error"]["category"] == "timeout" and late["error"]["retryable"], late
        slow = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="shell", arguments={"commandLine": "sleep 1000"}, toolCallId="call-1", timeoutMs=50)
        assert slow["status"] == "running" and slow["toolCallId"] == "call-1", slow
        rpc.fails("complete_turn", {"turnId": turn["turnId"]}, code=-32015)
        process = until("it has a process", lambda: rpc.call("invoke_tool", turnId=turn["turnId"], toolName="shell", toolCallId="call-1",
                                                             arguments={"commandLine": "sleep 1000"}, timeoutMs=1).get("processId"))
        rpc.call("terminate_process", processId=process)
        again = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="shell", toolCallId="call-1", arguments={"commandLine": "sleep 1000"})
        assert again["status"] == "cancelled", again
        other = {"turnId": turn["turnId"], "toolName": "shell", "toolCallId": "call-1", "arguments": {"commandLine": "x"}}
        assert rpc.fails("invoke_tool", other, code=-32009).data["field"] == "toolCallId", "not the result of the call before"
        rpc.fails("invoke_tool", {"turnId": turn["turnId"], "toolName": "read_file", "toolCallId": "call-1", "arguments": {"path": "x"}}, code=-32009)
        rpc.fails("invoke_tool", {"turnId": turn["turnId"], "toolName": "none"}, code=-32004)
        rpc.fails("invoke_tool", {"turnId": turn["turnId"], "toolName": "shell"}, code=-32602)
        rpc.call("complete_turn", turnId=turn["turnId"])
        rpc.fails("invoke_tool", {"turnId": turn["turnId"], "toolName": "shell", "arguments": {"command": "true"}}, code=-32015)
        valid(home, rpc)


def test_arguments_must_match_the_schema(home):
    with home.rpc() as rpc:
        turn = open_turn(rpc, home)["turnId"]
        wrong = [("read_file", {"path": "x", "offset": "x"}, "arguments.offset"), ("read_file", {"path": "x", "offset": -1}, "arguments.offset"),
                 ("read_file", {}, "arguments.path"), ("read_file", {"path": "x", "ofset": 1}, "arguments.ofset"),
                 ("read_file", {"path": "x", "encoding": "latin1"}, "arguments.encoding"), ("write_file", {"path": "x"}, "arguments.content"),
                 ("list_directory", {"depth": 9}, "arguments.depth"), ("shell", {"commandLine": "true", "timeoutMs": "1"}, "arguments.timeoutMs"),
                 ("shell", {"command": ["true", 1]}, "arguments.command[1]"), ("shell", {"commandLine": "true", "env": {"A": 1}}, "arguments.env.A"),
                 ("shell", {"commandLine": "true", "unheard": 1}, "arguments.unheard")]
        before = len(rpc.events())
        for tool, arguments, field in wrong:
            refused = rpc.fails("invoke_tool", {"turnId": turn, "toolName": tool, "arguments": arguments}, code=-32602)
            assert refused.data["field"] == field, (arguments, refused)
            part = rpc.fails("submit_turn", {"input": [{"type": "tool_call", "toolName": tool, "arguments": arguments}]}, code=-32602)
            assert part.data["field"].startswith("input[0].arguments"), part
        assert len(rpc.events()) == before, "nothing began"


def test_registered_schemas_are_kept_checked_and_limited(home):
    def tool(**schema):
        return [{"name": "mine", "inputSchema": {"type": "object", **schema}}]

    with home.rpc() as rpc:
        turn = open_turn(rpc, home)["turnId"]
        large = {"p%04d" % i: {"type": "string", "description": "x" * 20} for i in range(400)}
        told = rpc.call("register_tools", tools=tool(properties=large))
        assert "uncheckedKeywords" not in told, told
        kept = [t for t in rpc.call("get_tool_inventory")["tools"] if t["name"] == "mine"][0]["inputSchema"]
        assert kept["properties"] == large and len(json.dumps(kept)) > 16384, "whole"
        refused = rpc.fails("register_tools", {"tools": tool(description="x" * 40000)}, code=-32602)
        assert refused.data["field"] == "tools[0].inputSchema" and "32768" in refused.message, refused
        for wrong, field in (({"properties": {"a": {"type": "strnig"}}}, "properties.a.type"), ({"required": "a"}, "required")):
            assert rpc.fails("register_tools", {"tools": tool(**wrong)}, code=-32602).data["field"] == "tools[0].inputSchema." + field
        told = rpc.call("register_tools", tools=tool(required=["n"], properties={"n": {"type": "integer", "minimum": 1}, "s": {"pattern": "^x"}}))
        assert told["uncheckedKeywords"] == [{"name": "mine", "keywords": ["pattern"]}], told
        for arguments, field in (({}, "n"), ({"n": 0}, "n"), ({"n": "1"}, "n")):
            refused = rpc.fails("invoke_tool", {"turnId": turn, "toolName": "mine", "arguments": arguments}, code=-32602)
            assert refused.data["field"] == "arguments." + field, refused
        assert not [e for e in rpc.events() if e["type"] == "tool.started"], "its owner never sees them"
        asked = rpc.send("invoke_tool", turnId=turn, toolName="mine", toolCallId="c1", arguments={"n": 1})
        until("it was called", lambda: [e for e in rpc.events() if e["type"] == "tool.started"])
        rpc.fails("invoke_tool", {"turnId": turn, "toolName": "mine", "toolCallId": "c1", "arguments": {"n": 2}}, code=-32009)
        rpc.call("report_tool_call", toolCallId="c1", status="completed", result={"r": 1})
        assert rpc.reply(asked)["status"] == "completed"
        assert rpc.call("invoke_tool", turnId=turn, toolName="mine", toolCallId="c1", arguments={"n": 1})["status"] == "completed"
        rpc.fails("invoke_tool", {"turnId": turn, "toolName": "mine", "toolCallId": "c1", "arguments": {"n": 2}}, code=-32009)
    home.restart()
    with home.rpc() as rpc:
        again = {"turnId": turn, "toolName": "mine", "toolCallId": "c1"}
        assert rpc.call("invoke_tool", **again, arguments={"n": 1})["status"] == "completed"
        rpc.fails("invoke_tool", {**again, "arguments": {"n": 2}}, code=-32009)


def test_secrets_of_the_environment_are_not_recorded(home):
    with home.rpc() as rpc:
        turn = open_turn(rpc, home)
        done = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="shell", arguments={"command": "echo $KEY | wc -c", "env": {"KEY": "hunter22"}})
        assert done["preview"].strip() == "9", done
        turn = open_turn(rpc, home, env={"KEY": "hunter22"})
        done = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="shell", arguments={"command": "echo $KEY | wc -c"})
        assert done["preview"].strip() == "9", done
        loop = rpc.call("submit_turn", input=[{"type": "command", "commandLine": "test $KEY = hunter2$TWO"}], options={"env": {"KEY": "hunter22", "TWO": "2"}})
        assert ended(rpc, loop)["status"] == "completed"
        assert "hunter22" not in json.dumps(rpc.events()), "the value stands in an event"


def test_file_tools_read_write_and_patch(home):
    with home.rpc() as rpc:
        turn = open_turn(rpc, home)

        def tool(name, **arguments):
            return rpc.call("invoke_tool", turnId=turn["turnId"], toolName=name, arguments=arguments)
        path = os.path.join(home.work, "a/b.txt")
        done = tool("write_file", path="a/b.txt", content="one\ntwo\nthree\n", createFolders=True)
        assert done["status"] == "completed" and len(done["artifactRefs"]) == 1, done
        assert open(path).read() == "one\ntwo\nthree\n"
        assert result(rpc, tool("read_file", path="a/b.txt", offset=1, limit=1))["content"] == "two\n"
        big = "x" * 300000 + "\n"
        assert tool("write_file", path="big", content=big)["status"] == "completed" and open(os.path.join(home.work, "big")).read() == big
        assert result(rpc, tool("read_file", path="big"))["content"] == big
        names = [e["name"] for e in result(rpc, tool("list_directory", depth=2))["entries"]]
        assert names == ["a", "a/b.txt", "big"], names
        os.chmod(path, 0o750)
        patch = "*** Begin Patch\n*** Update File: a/b.txt\n@@\n one\n-two\n+2\n*** Add File: c\n+new\n*** Delete File: big\n*** End Patch\n"
        done = tool("apply_patch", patch=patch)
        assert done["status"] == "completed" and len(done["artifactRefs"]) == 3, done
        assert open(path).read() == "one\n2\nthree\n" and os.stat(path).st_mode & 0o777 == 0o750
        assert sorted(os.listdir(home.work)) == ["a", "c"]
        done = tool("apply_patch", patch="--- a/c\n+++ b/c\n@@ -1 +1,2 @@\n new\n+newer\n")
        assert done["status"] == "completed" and open(os.path.join(home.work, "c")).read() == "new\nnewer\n", done
        done = tool("apply_patch", patch="*** Begin Patch\n*** Update File: c\n@@\n-old\n+x\n*** Add File: d\n+d\n*** End Patch")
        assert done["status"] == "failed" and done["error"]["category"] == "conflict", done
        assert sorted(os.listdir(home.work)) == ["a", "c"], "nothing is written when one file does not apply"
        missing = tool("read_file", path="none")
        assert missing["status"] == "failed" and missing["error"]["category"] == "not_found" and "none" in missing["error"]["message"], missing
        changed = [e for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "artifact.changed"]
        assert [e["payload"]["change"] for e in changed] == ["created", "created", "modified", "created", "deleted", "modified"], changed
        kinds = [s["kind"] for s in turn_of(rpc, turn)[1]["steps"]]
        assert kinds.count("artifact") == 6 and kinds.count("tool") == 9, kinds
        valid(home, rpc)


def test_moved_file_keeps_its_mode(home):
    with home.rpc() as rpc:
        turn = open_turn(rpc, home)
        script = os.path.join(home.work, "script")
        with open(script, "w", encoding="utf-8") as f:
            f.write("one\n")
        os.chmod(script, 0o755)
        patch = "*** Begin Patch\n*** Update File: script\n*** Move to: bin/script\n@@\n-one\n+two\n*** End Patch\n"
        done = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="apply_patch", arguments={"patch": patch})
        assert done["status"] == "completed", done
        assert os.stat(os.path.join(home.work, "bin/script")).st_mode & 0o777 == 0o755
        assert not os.path.exists(script)


def test_patch_with_two_changes_to_one_path_is_rejected(home):
    with home.rpc() as rpc:
        turn = open_turn(rpc, home)
        for name in "ab":
            with open(os.path.join(home.work, name), "w", encoding="utf-8") as f:
                f.write("one\n")
        move = "*** Update File: {}\n*** Move to: c\n@@\n-one\n+two\n"
        for parts in (move.format("a") + move.format("b"), move.format("a") + "*** Add File: c\n+x\n"):
            done = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="apply_patch", arguments={"patch": f"*** Begin Patch\n{parts}*** End Patch\n"})
            assert done["status"] == "failed" and "changes 'c' more than once" in json.dumps(done), done
            assert sorted(n for n in os.listdir(home.work) if n in "abc") == ["a", "b"]


def test_long_arguments_are_accepted(home):
    with home.rpc() as rpc:
        turn, long = open_turn(rpc, home), "line of a long file\n" * 70000

        def tool(name, **arguments):
            return rpc.call("invoke_tool", turnId=turn["turnId"], toolName=name, arguments=arguments)
        assert tool("write_file", path="long", content=long)["status"] == "completed"
        patch = "*** Begin Patch\n*** Add File: patched\n" + "".join(f"+{line}\n" for line in long.splitlines()) + "*** End Patch\n"
        assert tool("apply_patch", patch=patch)["status"] == "completed"
        for name in ("long", "patched"):
            with open(os.path.join(home.work, name)) as f:
                assert f.read() == long, name
        assert rpc.fails("invoke_tool", turnId=turn["turnId"], toolName="write_file", arguments={"path": "x", "content": long * 4}, code=-32602).data["field"] == "arguments"


def test_file_with_nul_bytes_is_rejected_as_binary(home):
    with home.rpc() as rpc:
        turn = open_turn(rpc, home)
        with open(os.path.join(home.work, "zeroes"), "wb") as f:
            f.write(b"a\0b\nc\n")

        def read(**more):
            return result(rpc, rpc.call("invoke_tool", turnId=turn["turnId"], toolName="read_file", arguments={"path": "zeroes", **more}))
        assert read()["encoding"] == "base64" and base64.b64decode(read()["content"]) == b"a\0b\nc\n", read()
        assert read(offset=1)["encoding"] == "utf8" and read(offset=1)["content"] == "c\n"


def test_file_tools_are_confined_by_the_sandbox(home):
    outside = os.path.join(os.path.dirname(home.work), "outside")
    with home.rpc() as rpc:
        turn = open_turn(rpc, home)
        for name, arguments in (("write_file", {"path": "/etc/bailiff-was-here", "content": "x"}), ("write_file", {"path": outside, "content": "x"}),
                                ("read_file", {"path": os.path.join(os.path.dirname(home.work), "config.json")}),
                                ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: ../outside\n+x\n*** End Patch"})):
            done = rpc.call("invoke_tool", turnId=turn["turnId"], toolName=name, arguments=arguments)
            # /tmp is private: files there are gone after the call.
            private = "outside" in json.dumps(arguments) and outside.startswith("/tmp/")
            assert private or done["status"] == "failed" and done["error"]["category"] in ("sandbox", "not_found"), (name, arguments, done)
        assert not os.path.exists("/etc/bailiff-was-here") and not os.path.exists(outside)


def test_file_tool_runs_once_whenever_the_runtime_dies(home):
    """Killed at moments spread over a turn's life: what a tool has to read is there when it begins, and it is done once."""
    parts = [call("write_file", path=f"made.{k}", content="x" * (10 if k % 2 else 200000)) for k in range(4)]
    options = {"cwd": home.work, "sandbox": {"workspace": home.work}}
    with home.rpc() as rpc:
        begun = time.monotonic()
        ended(rpc, rpc.call("submit_turn", input=parts, options=options))
        length = time.monotonic() - begun
    for n in range(16):
        with home.rpc() as rpc:
            turn = rpc.call("submit_turn", input=parts, options=options)
            time.sleep(n / 16 * length)     # the moment, not a condition
        home.kill_part("runtime")
        with home.rpc() as rpc:
            done = ended(rpc, turn)
            assert done["status"] == "completed", done
    assert [os.path.getsize(os.path.join(home.work, f"made.{k}")) for k in range(4)] == [200000, 10] * 2
    with home.rpc() as rpc:
        harness.check_log(rpc.events())
        valid(home, rpc)


def test_read_only_tools_run_in_parallel(home):
    with home.rpc() as rpc:
        open(os.path.join(home.work, "f"), "w").write("x\n")
        parts = [call("read_file", path="f") for _ in range(6)] + [call("write_file", path="g", content="y"), call("list_directory")]
        turn = rpc.call("submit_turn", input=parts, options={"cwd": home.work, "sandbox": {"workspace": home.work}})
        assert ended(rpc, turn)["status"] == "completed"
        events = rpc.events(turnId=turn["turnId"])
        order = [(e["type"], e["payload"].get("part")) for e in events if e["type"] in ("tool.started", "tool.result")]
        started = [n for kind, n in order if kind == "tool.started"]
        assert started == list(range(8)), order
        assert order.index(("tool.started", 1)) < order.index(("tool.result", 0)), "the second began before the first had ended"
        assert all(order.index(("tool.result", n)) < order.index(("tool.started", 6)) for n in range(6)), order
        assert order.index(("tool.result", 6)) < order.index(("tool.started", 7)), order
        valid(home, rpc)


def test_registered_tool_is_called_and_answers(home):
    with home.rpc() as rpc, home.rpc() as owner:
        owner.call("register_tools", tools=[{"name": "lookup", "description": "look up", "isReadOnly": True, "isConcurrencySafe": True}])
        assert "lookup" in [t["name"] for t in rpc.call("get_tool_inventory")["tools"]]
        owner.fails("register_tools", {"tools": [{"name": "shell"}]}, code=-32602)
        rpc.fails("register_tools", {"tools": [{"name": "lookup"}]}, code=-32009)
        turn = rpc.call("submit_turn", input=[call("lookup", word="x"), {"type": "command", "commandLine": "echo after"}])
        found = until("it is called", lambda: [c for c in turn_of(rpc, turn)[0]["toolCalls"] if c["toolName"] == "lookup"])[0]
        assert found["runner"] == "external" and found["safeArgs"] == {"word": "x"}, found
        rpc.fails("report_tool_call", {"toolCallId": found["toolCallId"], "status": "completed"}, code=-32003)
        owner.call("report_tool_call", toolCallId=found["toolCallId"], status="progress", preview="half")
        owner.call("report_tool_call", toolCallId=found["toolCallId"], status="completed", result={"answer": 42})
        owner.fails("report_tool_call", {"toolCallId": found["toolCallId"], "status": "completed"}, code=-32015)
        assert ended(rpc, turn)["status"] == "completed"
        done = [c for c in turn_of(rpc, turn)[0]["toolCalls"] if c["toolName"] == "lookup"][0]
        assert json.loads(rpc.output(done["rawOutputRef"])) == {"answer": 42}, done
        turn = rpc.call("submit_turn", input=[call("lookup", word="y")])
        until("it is called", lambda: turn_of(rpc, turn)[0]["toolCalls"])
        owner.close()
        failed = ended(rpc, turn)
        assert failed["status"] == "lost" and failed["category"] == "owner_gone", failed
        assert "lookup" not in [t["name"] for t in rpc.call("get_tool_inventory")["tools"]]
        rpc.fails("submit_turn", {"input": [call("lookup")]}, code=-32004)
        valid(home, rpc)


def test_clients_report_their_own_tool_calls(home):
    with home.rpc() as rpc:
        turn = open_turn(rpc, home)
        begun = rpc.call("report_tool_call", status="started", turnId=turn["turnId"], toolName="browser", arguments={"url": "x"})
        rpc.call("report_tool_call", status="failed", toolCallId=begun["toolCallId"], category="network", message="no answer", retryable=True)
        done = turn_of(rpc, turn)[0]["toolCalls"][0]
        assert done["runner"] == "client" and done["status"] == "failed" and done["category"] == "network", done
        rpc.fails("report_tool_call", {"status": "started", "toolName": "x"}, code=-32602)
        rpc.fails("report_tool_call", {"status": "completed"}, code=-32602)
        rpc.fails("report_tool_call", {"status": "completed", "toolCallId": "call_none"}, code=-32004)
        rpc.call("complete_turn", turnId=turn["turnId"])
        valid(home, rpc)


def test_running_tool_calls_survive_a_restart_or_are_lost(home):
    """A running call continues; one whose owner's connection died with the runtime is lost, and says so."""
    with home.rpc() as rpc, home.rpc() as owner:
        owner.call("register_tools", tools=[{"name": "lookup"}])
        theirs = rpc.call("submit_turn", input=[call("lookup")])
        until("it is called", lambda: turn_of(rpc, theirs)[0]["toolCalls"])
    with home.rpc() as rpc:
        sleeper = rpc.call("submit_turn", input=[call("shell", commandLine="sleep 1000")])
        process = until("it runs", lambda: turn_of(rpc, sleeper)[1]["processes"])[0]["processId"]
    home.kill_part("runtime")
    until("the runtime is back", home.answers)
    with home.rpc() as rpc:
        lost = ended(rpc, theirs)
        assert lost["status"] == "lost" and lost["category"] == "owner_gone", lost
        state, turn = turn_of(rpc, sleeper)
        assert turn["status"] == "running" and state["toolCalls"][0]["status"] == "running", state
        rpc.call("signal_process", processId=process, signal="TERM")
        assert ended(rpc, sleeper)["status"] == "cancelled"
        valid(home, rpc)
        last = rpc.call("submit_turn", input=[call("shell", commandLine="sleep 1000")])
        until("it runs", lambda: turn_of(rpc, last)[1]["processes"])
    home.note_tree()
    home.stop(signal.SIGKILL)
    home.start()
    with home.rpc() as rpc:
        gone = ended(rpc, last)
        assert gone["status"] == "lost", gone
        assert turn_of(rpc, last)[0]["toolCalls"][0]["status"] == "lost"
        valid(home, rpc)


if __name__ == "__main__":
    harness.main(globals())
