"""Connections with the role agent never get an operator's rights, not even through processes that an operator started."""

import json
import os

import harness
from harness import Home, until
from mcp import Mcp, text_of

NOT_ALLOWED = -32003


def agent(home):
    rpc = home.rpc()
    rpc.call("initialize", role="agent")
    return rpc


def shell(rpc, home, **more):
    return rpc.call("start_process", **dict(dict(command=["sh"], stdin="pipe", cwd=home.work), **more))["processId"]


def test_agents_cannot_write_to_processes_of_an_operator():
    with Home() as home, home.rpc() as operator, agent(home) as rpc:
        made = os.path.join(home.work, "made")
        typed = f"touch {made}\n"
        for more in ({}, {"stdin": "none", "tty": {"rows": 24, "cols": 80}}):
            process = shell(operator, home, **more)
            assert "operator" in rpc.fails("write_process_stdin", processId=process, data=typed, code=NOT_ALLOWED).message
            rpc.fails("close_process_stdin", processId=process, code=NOT_ALLOWED)
            assert operator.call("get_process", processId=process)["startedBy"]["role"] == "operator"
            operator.call("terminate_process", processId=process)
        assert not os.path.exists(made)
        own = shell(rpc, home)
        rpc.call("write_process_stdin", processId=own, data=typed)
        until("the agent's own shell has run it", lambda: os.path.exists(made))
        operator.call("write_process_stdin", processId=own, data="exit 3\n")
        assert rpc.wait(own)["exitCode"] == 3


def test_agents_still_cannot_write_after_a_restart_of_the_runtime():
    with Home() as home:
        with home.rpc() as operator, agent(home) as rpc:
            theirs, own = shell(operator, home), shell(rpc, home)
        home.kill_part("runtime")
        with agent(home) as rpc:
            rpc.fails("write_process_stdin", processId=theirs, data="exit 3\n", code=NOT_ALLOWED)
            rpc.call("write_process_stdin", processId=own, data="exit 4\n")
            assert rpc.wait(own)["exitCode"] == 4


def test_tool_call_has_the_rights_of_its_caller():
    with Home() as home, home.rpc() as operator, agent(home) as rpc:
        wide = os.path.join(home.dir, "wide")
        os.mkdir(wide)
        made = os.path.join(wide, "made")
        turn = operator.call("submit_turn", input=[{"type": "text", "text": "x"}], options={"cwd": home.work, "sandbox": {"writeRoots": [wide]}})["turnId"]
        call = {"turnId": turn, "toolName": "shell", "arguments": {"command": f"touch {made}"}}
        assert rpc.call("invoke_tool", call)["status"] != "completed" and not os.path.exists(made)
        assert operator.call("invoke_tool", call)["status"] == "completed" and os.path.exists(made)


def test_agents_call_cannot_write_to_a_process_of_an_operators_call():
    with Home() as home, home.rpc() as operator, agent(home) as rpc:
        made = os.path.join(home.work, "made")
        turn = operator.call("submit_turn", input=[{"type": "text", "text": "x"}], options={"cwd": home.work})["turnId"]
        operator.call("invoke_tool", turnId=turn, toolName="shell", arguments={"command": "sh", "interactive": True, "background": True})
        process, = (p["processId"] for p in operator.call("list_processes", status="running")["processes"] if p["command"] == ["sh"] or p.get("commandLine") == "sh")
        call = {"turnId": turn, "toolName": "write_stdin", "arguments": {"processId": process, "text": f"touch {made}\n", "yieldMs": 300}}
        assert rpc.call("invoke_tool", call)["status"] != "completed" and not os.path.exists(made)
        assert operator.call("invoke_tool", call)["status"] == "completed"
        until("the operator's call has written", lambda: os.path.exists(made))


def test_agents_cannot_write_to_the_command_of_an_operators_subagent():
    with Home() as home, home.rpc() as operator, agent(home) as rpc:
        made = os.path.join(home.work, "made")
        thread = operator.call("create_session")["threadId"]
        child = operator.call("spawn_subagent", threadId=thread, role="worker", command=["sh"], cwd=home.work)["subagentId"]
        rpc.fails("send_subagent_input", subagentId=child, input=f"touch {made}\n", code=NOT_ALLOWED)
        operator.call("send_subagent_input", subagentId=child, input="exit 0\n", eof=True)
        operator.call("wait_subagents", subagentIds=[child])
        rpc.fails("resume_subagent", subagentId=child, input=f"touch {made}\n", code=NOT_ALLOWED)
        assert not os.path.exists(made)
        own = rpc.call("spawn_subagent", threadId=thread, role="worker", command=["sh"], cwd=home.work)["subagentId"]
        rpc.call("send_subagent_input", subagentId=own, input=f"touch {made}\n", eof=True)
        until("the agent's own child has run it", lambda: os.path.exists(made))


def test_mcp_clients_cannot_type_where_policy_or_the_role_forbids_it():
    with Home(start=False) as home:
        made = os.path.join(home.work, "made")
        home.start()
        with home.rpc() as operator, Mcp(home, "--structured") as mcp:
            mcp.initialize()

            def typed(process, text, **more):
                result = mcp.tool("write_stdin", dict(more, processId=process, text=text))
                return text_of(result), result.get("isError")

            theirs = shell(operator, home)
            told, failed = typed(theirs, f"touch {made}\n")
            assert failed and "operator" in told, told
            own = mcp.tool("exec", {"command": "while read line; do echo $line; done", "interactive": True, "yieldMs": 0})["structuredContent"]["processId"]
            told, failed = typed(own, "one\n", yieldMs=100)
            assert not failed, told
            for rule, word in (("deny", "denies"), ("ask", "asks")):
                with open(os.path.join(home.dir, "policy.json"), "w") as f:
                    json.dump({"permissions": {rule: ["write_stdin"]}}, f)
                operator.call("reload_policy")
                told, failed = typed(own, "two\n")
                assert failed and word in told, told
            outputs = operator.outputs(own)
            assert b"two" not in outputs["stdout"] and not os.path.exists(made), outputs


if __name__ == "__main__":
    harness.main(globals())
