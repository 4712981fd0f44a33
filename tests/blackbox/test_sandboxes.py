"""Session sandboxes: commands share files, loopback and process ids; each has its own output, end and decision; nothing outlives the sandbox."""

import contextlib
import os
import signal
import threading

import harness
from harness import Home, Skip, until

NOT_FOUND, CONFLICT, NOT_ALLOWED, INVALID, DENIED = -32004, -32009, -32003, -32602, -32010
SERVER = ("import http.server,os;os.chdir('/tmp');s=http.server.HTTPServer(('127.0.0.1',0),http.server.SimpleHTTPRequestHandler);"
          "open('/tmp/port','w').write(str(s.server_port));s.serve_forever()")


def create(rpc, home, **more):
    return rpc.call("create_sandbox", **dict({"cwd": home.work}, **more))["sandboxId"]


def run(rpc, sandbox, command, /, **more):
    """(exit code or signal, stdout, stderr) of a command in the sandbox."""
    started = rpc.start(command, sandboxId=sandbox, **more)
    assert started["sandboxId"].startswith("sbx_"), started
    ended = rpc.wait(started["processId"])
    outputs = rpc.outputs(started["processId"])
    return ended.get("exitCode", ended.get("signal")), outputs.get("stdout", outputs.get("pty")), outputs.get("stderr", b"")


def said(rpc, sandbox, command, /, **more):
    status, out, err = run(rpc, sandbox, command, **more)
    assert status == 0, (command, status, out, err)
    return out.decode()


def closed_event(rpc, sandbox):
    return [e for e in rpc.events() if e["type"] == "sandbox.closed" and e["sandboxId"] == sandbox]


def listed(rpc, **more):
    return {s["sandboxId"]: s for s in rpc.call("list_sandboxes", **more)["sandboxes"]}


def test_commands_share_files_and_processes(home):
    with home.rpc() as rpc:
        made = rpc.call("create_sandbox", cwd=home.work, name="dev")
        sandbox = made["sandboxId"]
        assert made["status"] == "open" and made["name"] == "dev" and made["processId"].startswith("proc_"), made
        for folder in ("/tmp", "/var/tmp", "/dev/shm"):
            said(rpc, sandbox, f"echo kept > {folder}/x")
            assert said(rpc, sandbox, ["cat", f"{folder}/x"]) == "kept\n"
            assert not os.path.exists(f"{folder}/x") or open(f"{folder}/x").read() != "kept\n"
        assert said(rpc, sandbox, ["pwd"]).strip() == os.path.realpath(home.work), "the sandbox's directory is the default"
        assert said(rpc, sandbox, ["pwd"], cwd="/tmp") == "/tmp\n"
        first = rpc.start(["sleep", "1000"], sandboxId="dev")
        assert "sleep 1000" in said(rpc, "dev", ["ps", "ax", "-o", "args"])
        assert rpc.call("get_sandbox", sandboxId="dev")["processes"] == [first["processId"]]
        # A command can end another one, as in a terminal.
        said(rpc, sandbox, "kill $(pgrep -x sleep)")
        assert rpc.wait(first["processId"])["signal"] == "TERM"
        assert run(rpc, sandbox, ["pgrep", "-x", "sleep"])[0] == 1
        # A command outside the sandbox sees none of it.
        _, ended = rpc.run(["cat", "/tmp/x"], cwd=home.work)
        assert ended["exitCode"] == 1
        members = rpc.call("list_processes", sandboxId="dev")["processes"]
        assert len(members) > 8 and all(p["sandboxId"] == sandbox for p in members), members
        holders = {p["processId"] for p in rpc.call("list_processes", holders=True)["processes"]} - \
            {p["processId"] for p in rpc.call("list_processes")["processes"]}
        assert holders == {made["processId"]}, holders
        gone = rpc.call("close_sandbox", sandboxId="dev")
        assert gone.pop("sequence") and gone == {"sandboxId": sandbox, "status": "closed", "reason": "closed", "running": []}, gone
        harness.check_facts(home, rpc)


def test_the_start_time_of_a_member_is_its_leaders(home):
    """
    It is recorded without reading /proc unless a clock tick begins meanwhile; ten starts have both cases. The first ten leaders have led
    another member before; next to a command that runs, leaders are new.
    """
    with home.rpc() as rpc:
        sandbox = create(rpc, home)
        said(rpc, sandbox, ["true"])
        for i in range(20):
            process = rpc.start(["sleep", "1000"], sandboxId=sandbox)["processId"]
            fact = [e["payload"] for e in rpc.events(types=["process.started"]) if e.get("processId") == process][0]
            with open(f"/proc/{fact['pid']}/stat") as f:
                assert int(f.read().rsplit(")", 1)[1].split()[19]) == fact["startTime"], fact
            if i < 10:
                rpc.call("terminate_process", processId=process)
                rpc.wait(process)
        rpc.call("close_sandbox", sandboxId=sandbox)


def test_a_server_of_one_command_is_reached_by_the_next(home):
    with home.rpc() as rpc:
        sandbox = create(rpc, home)
        server = rpc.start(["python3", "-c", SERVER], sandboxId=sandbox)
        said(rpc, sandbox, "until test -s /tmp/port; do sleep 0.01; done; echo served > /tmp/page")
        fetch = "import sys,urllib.request;print(urllib.request.urlopen('http://127.0.0.1:'+open('/tmp/port').read()+'/page').read().decode(),end='')"
        assert said(rpc, sandbox, ["python3", "-c", fetch]) == "served\n"
        # The loopback is the sandbox's own.
        other = create(rpc, home)
        port = said(rpc, sandbox, ["cat", "/tmp/port"])
        connect = f"import socket;socket.create_connection(('127.0.0.1',{port}),5)"
        assert run(rpc, other, ["python3", "-c", connect])[0] == 1
        assert rpc.call("terminate_process", processId=server["processId"])["treeEmpty"] is True
        assert run(rpc, sandbox, ["python3", "-c", connect])[0] == 1, "its server is gone"
        assert said(rpc, sandbox, ["cat", "/tmp/page"]) == "served\n", "and its files are there"
        for each in (sandbox, other):
            rpc.call("close_sandbox", sandboxId=each)


def test_streams_exit_codes_and_terminals_are_those_of_single_commands(home):
    with home.rpc() as rpc:
        sandbox = create(rpc, home)
        assert run(rpc, sandbox, "echo out; echo err >&2; exit 7") == (7, b"out\n", b"err\n")
        assert run(rpc, sandbox, "kill -9 $$")[0] == "KILL"
        assert run(rpc, sandbox, "echo a; echo b >&2", stderr="merge")[1] == b"a\nb\n"
        assert run(rpc, sandbox, "echo $A-$HOME", env={"A": "b", "HOME": "/h"})[1] == b"b-/h\n"
        e = rpc.fails("start_process", {"command": ["/nowhere/at/all"], "sandboxId": sandbox})
        assert e.data.get("stage") == "exec", e
        e = rpc.fails("start_process", {"command": ["true"], "sandboxId": sandbox, "cwd": "/nowhere"})
        assert e.data.get("stage") == "cwd", e
        size = 3_000_000
        status, out, _ = run(rpc, sandbox, f"head -c {size} /dev/zero | tr '\\0' x")
        assert (status, len(out), set(out)) == (0, size, {ord("x")})
        cat = rpc.start(["cat"], sandboxId=sandbox, stdin="pipe")["processId"]
        rpc.call("write_process_stdin", processId=cat, data="to it")
        rpc.call("close_process_stdin", processId=cat)
        assert rpc.wait(cat)["exitCode"] == 0 and rpc.outputs(cat)["stdout"] == b"to it"
        status, out, _ = run(rpc, sandbox, "tty && stty size", tty={"rows": 20, "cols": 70})
        assert status == 0 and out.endswith(b"20 70\r\n") and out.startswith(b"/dev/pts/"), out
        shell = rpc.start(["sh"], sandboxId=sandbox, tty={"rows": 20, "cols": 70})["processId"]
        rpc.call("write_process_stdin", processId=shell, data="echo typed; exit 3\n")
        assert rpc.wait(shell)["exitCode"] == 3 and b"typed" in rpc.outputs(shell)["pty"]
        slow = rpc.start(["sleep", "1000"], sandboxId=sandbox, limits={"wallMs": 100})["processId"]
        ended = rpc.wait(slow)
        assert ended["limit"] == "wall" and ended["signal"] == "TERM", ended
        assert run(rpc, sandbox, ["true"])[0] == 0, "the sandbox is not affected"
        rpc.call("close_sandbox", sandboxId=sandbox)


def test_the_end_of_one_command_leaves_the_others(home):
    with home.rpc() as rpc:
        sandbox = create(rpc, home)
        trees = [rpc.start("sh -c 'setsid sleep 1000 & exec sleep 1001' & sleep 1002", sandboxId=sandbox)["processId"] for _ in range(2)]
        count = ["sh", "-c", "pgrep -c -x sleep"]
        until("both trees run", lambda: run(rpc, sandbox, count)[1] == b"6\n")
        assert rpc.call("terminate_process", processId=trees[0])["treeEmpty"] is True
        assert said(rpc, sandbox, count) == "3\n"
        assert rpc.call("get_process", processId=trees[1])["status"] == "running"
        rpc.call("signal_process", processId=trees[1], signal="KILL")
        assert rpc.wait(trees[1])["signal"] == "KILL"
        until("what it left is killed with it", lambda: run(rpc, sandbox, count)[0] == 1)
        rpc.call("close_sandbox", sandboxId=sandbox)


def test_closing_terminates_and_lists_running_commands(home):
    with home.rpc() as rpc, home.rpc() as other:
        sandbox = create(rpc, home, name="busy")
        running = [rpc.start(["sleep", str(1000 + i)], sandboxId="busy")["processId"] for i in range(3)]
        waits = [rpc.send("wait_process", processId=p) for p in running]
        gone = other.call("close_sandbox", sandboxId="busy")
        assert gone["reason"] == "closed" and sorted(p["processId"] for p in gone["running"]) == sorted(running), gone
        assert {p["command"] for p in gone["running"]} == {"sleep 1000", "sleep 1001", "sleep 1002"}, gone
        for wait in waits:
            assert rpc.reply(wait)["status"] == "terminated"
        shown = rpc.call("get_sandbox", sandboxId=sandbox)
        assert shown["status"] == "closed" and shown["processes"] == [] and len(shown["running"]) == 3 and "closedAt" in shown, shown
        assert sandbox not in listed(rpc) and listed(rpc, closed=True)[sandbox]["reason"] == "closed"
        rpc.fails("start_process", {"command": ["true"], "sandboxId": sandbox}, code=harness.INVALID_STATE)
        rpc.fails("start_process", {"command": ["true"], "sandboxId": "busy"}, code=NOT_FOUND)
        rpc.fails("close_sandbox", {"sandboxId": sandbox}, code=harness.INVALID_STATE)
        event, = closed_event(rpc, sandbox)
        assert event["payload"]["reason"] == "closed" and event["payload"]["requestedBy"]["uid"] == os.getuid(), event
        assert create(rpc, home, name="busy") != sandbox, "the name is free again"


def test_command_that_ignores_sigterm_is_killed(home):
    home.stop()
    home.configure({"stopGraceMs": 200})
    home.start()
    with home.rpc() as rpc:
        sandbox = create(rpc, home)
        stubborn = rpc.start("trap '' TERM; echo ready; while :; do sleep 1; done", sandboxId=sandbox)["processId"]
        until("it ignores TERM", lambda: rpc.outputs(stubborn)["stdout"])
        assert [p["processId"] for p in rpc.call("close_sandbox", sandboxId=sandbox)["running"]] == [stubborn]
        assert rpc.wait(stubborn)["signal"] == "KILL"


def test_many_commands_at_once(home):
    with home.rpc() as rpc:
        sandbox = create(rpc, home)
        started = rpc.send_together(*[("start_process", {"commandLine": f"echo {i}; exit {i % 50}", "sandboxId": sandbox}) for i in range(100)])
        for i, request in enumerate(started):
            process = rpc.reply(request)["processId"]
            assert rpc.wait(process)["exitCode"] == i % 50
            assert rpc.outputs(process)["stdout"] == b"%d\n" % i
        assert run(rpc, sandbox, ["pgrep", "-c", "sh"])[1] == b"0\n", "nothing is left of them"
        rpc.call("close_sandbox", sandboxId=sandbox)
        harness.check_log(rpc.events())


def test_new_repositories_do_not_change_the_sandboxs_workspace(home):
    with home.rpc() as rpc:
        sandbox = create(rpc, home)
        said(rpc, sandbox, "git init -q nested && mkdir -p deep/er")
        assert said(rpc, sandbox, ["pwd"], cwd=os.path.join(home.work, "deep/er")).endswith("/deep/er\n")
        said(rpc, sandbox, "cd nested && git init -q . && git status", cwd=home.work)
        rpc.run(["true"], cwd=home.work)
        said(rpc, sandbox, ["true"], cwd=os.path.join(home.work, "nested"))


def test_invalid_names_and_options_are_rejected(home):
    with home.rpc() as rpc:
        limits = {"pids": 500} if os.geteuid() == 0 else {}     # others may have no cgroup
        sandbox = create(rpc, home, name="one", sandbox={"network": "none", "hidden": ["/srv"]}, limits=limits)
        for bad in ("", "a b", "sbx_x", "proc_x", "a:b", "-x", "--", "..", "x" * 65):
            assert rpc.fails("create_sandbox", {"name": bad}, code=INVALID).data["field"] == "name", bad
        e = rpc.fails("create_sandbox", {"name": "one", "cwd": home.work}, code=CONFLICT)
        assert e.data["field"] == "name" and "one" in e.message, e
        assert rpc.fails("create_sandbox", {"profile": "host"}, code=INVALID).data["field"] == "profile"
        assert rpc.fails("create_sandbox", {"sessionId": "sess_none"}, code=NOT_FOUND).data["field"] == "sessionId"
        assert rpc.fails("create_sandbox", {"limits": {"wallMs": 1}}, code=INVALID)
        # What the sandbox has may be repeated; anything else is another sandbox.
        same = {"profile": "workspace", "sandbox": {"network": "none", "hidden": ["/srv"]}, "limits": limits}
        assert run(rpc, "one", ["true"], **same)[0] == 0
        for field, more in (("profile", {"profile": "readonly"}), ("sandbox.network", {"sandbox": {"network": "host"}}),
                            ("sandbox.writeRoots", {"sandbox": {"writeRoots": ["/srv"]}}), ("sandbox.hidden", {"sandbox": {"hidden": ["/opt"]}}),
                            ("cow", {"cow": True}), ("limits.memoryHighBytes", {"limits": {"memoryHighBytes": 1 << 30, "memoryBytes": 1 << 30}}),
                            ("sandbox.tmpBytes", {"sandbox": {"tmpBytes": 1 << 20}})):
            e = rpc.fails("start_process", dict({"command": ["true"], "sandboxId": "one"}, **more), code=INVALID)
            assert e.data["field"] == field, (field, e)
        e = rpc.fails("start_process", {"command": ["true"], "sandboxId": "two"}, code=NOT_FOUND)
        assert e.data["field"] == "sandboxId", e
        rpc.fails("get_sandbox", {"sandboxId": "two"}, code=NOT_FOUND)
        assert rpc.fails("get_sandbox", {"sandboxId": "one", "profile": "ci"}, code=INVALID).data["field"] == "sandboxId"
        shown = rpc.call("get_sandbox", sandboxId="one")
        assert shown["sandboxId"] == sandbox and "/srv" in shown["sandboxProfile"]["hidden"] and shown["idleMs"] == 1800000, shown
        again = rpc.call("create_sandbox", name="twice", cwd=home.work, idempotencyKey="k1")
        assert rpc.call("create_sandbox", name="twice", cwd=home.work, idempotencyKey="k1")["sandboxId"] == again["sandboxId"]
        gone = rpc.call("close_sandbox", sandboxId="one", idempotencyKey="k2")
        assert dict(gone, **rpc.call("close_sandbox", sandboxId="one", idempotencyKey="k2")) == gone


def test_each_command_is_decided_on_its_own():
    with Home(options=("--audit", "off", *harness.host_policy(deny=["Bash(touch:*)"]))) as home, home.rpc() as rpc:
        sandbox = create(rpc, home)
        assert run(rpc, sandbox, ["true"])[0] == 0
        rpc.fails("start_process", {"command": ["touch", "/tmp/x"], "sandboxId": sandbox}, code=DENIED)
        assert run(rpc, sandbox, ["test", "-e", "/tmp/x"])[0] == 1


def test_turns_and_tools_run_in_a_session_sandbox(home):
    with home.rpc() as rpc:
        sandbox = create(rpc, home, name="dev")
        parts = [{"type": "command", "commandLine": "echo from the turn > /tmp/x"}, {"type": "tool_call", "toolName": "read_file", "arguments": {"path": "/tmp/x"}}]
        turn = rpc.call("submit_turn", input=parts, options={"sandboxId": "dev"})
        until("the turn has ended", lambda: [e for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "turn.completed"])
        started = [e for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "process.started"]
        assert len(started) == 2 and all(e["sandboxId"] == sandbox for e in started), started
        result = [e for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "tool.result"][-1]
        assert "from the turn" in str(result["payload"]), result
        assert said(rpc, "dev", ["cat", "/tmp/x"]) == "from the turn\n"
        rpc.call("close_sandbox", sandboxId="dev")


def turn_ends(rpc, turn):
    return until("the turn has ended", lambda: [e for e in rpc.events(turnId=turn["turnId"]) if e["type"] in ("turn.completed", "turn.failed")])[0]


def started_in(rpc, turn):
    return [e for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "process.started"]


def test_turns_of_a_session_share_a_sandbox(home):
    """Without options; a server that one turn starts is there for the next. Subagents have their own, or their parent's."""
    with home.rpc() as rpc:
        options = {"cwd": home.work}
        line = lambda text: [{"type": "command", "commandLine": text}]
        first = rpc.call("submit_turn", input=line("sleep 1000 & echo $! > /tmp/pid") + line("kill -0 $(cat /tmp/pid)"), options=options)
        assert turn_ends(rpc, first)["type"] == "turn.completed"
        events = rpc.events(turnId=first["turnId"])
        result = [e for e in events if e["type"] == "tool.result"]
        assert [e["payload"]["exitCode"] for e in result] == [0, 0] and "process.command_exited" in {e["type"] for e in events}, events
        sandbox, = {e["sandboxId"] for e in started_in(rpc, first)}
        again = rpc.call("submit_turn", threadId=first["threadId"], options=options,
                         input=line("kill -0 $(cat /tmp/pid)") + [{"type": "tool_call", "toolName": "read_file", "arguments": {"path": "/tmp/pid"}}])
        assert turn_ends(rpc, again)["type"] == "turn.completed" and {e["sandboxId"] for e in started_in(rpc, again)} == {sandbox}
        # Nothing of the session is active because of the sandbox.
        assert rpc.call("interrupt_turn", sessionId=first["sessionId"])["status"] == "no_op"
        single = rpc.call("submit_turn", threadId=first["threadId"], options=dict(options, sandboxId="own"), input=line("test ! -e /tmp/pid"))
        assert turn_ends(rpc, single)["type"] == "turn.completed" and "sandboxId" not in started_in(rpc, single)[0]
        # Interrupting ends what runs, and what waits for the sandbox.
        for wait in (True, False):
            turn = rpc.call("submit_turn", options=options, input=line("sleep 1000 & sleep 1000"))
            until("it runs", lambda: not wait or started_in(rpc, turn))
            rpc.call("interrupt_turn", turnId=turn["turnId"])
            assert turn_ends(rpc, turn)["type"] == "turn.failed"
        child = rpc.call("spawn_subagent", threadId=first["threadId"], role="tester")
        own, parents = (rpc.call("submit_turn", threadId=child["threadId"], options=dict(options, **more), input=line(test))
                        for more, test in (({}, "test ! -e /tmp/pid"), ({"sandboxId": "session"}, "test -e /tmp/pid")))
        assert turn_ends(rpc, own)["type"] == turn_ends(rpc, parents)["type"] == "turn.completed"
        childs, = {e["sandboxId"] for e in started_in(rpc, own)}
        assert childs != sandbox and {e["sandboxId"] for e in started_in(rpc, parents)} == {sandbox}
        rpc.call("close_subagent", subagentId=child["subagentId"])
        until("it ends with the subagent", lambda: childs not in listed(rpc))
        assert closed_event(rpc, childs)[0]["payload"]["reason"] == "subagent_closed" and sandbox in listed(rpc)
        shared = rpc.call("spawn_subagent", threadId=first["threadId"], role="tester", cwd=home.work, command=["test", "-e", "/tmp/pid"], isolation={"sandboxId": "session"})
        until("it has run", lambda: [e for e in rpc.events() if e["type"] == "process.completed" and e.get("subagentId") == shared["subagentId"] and e["payload"]["exitCode"] == 0])
        rpc.call("update_session", sessionId=first["sessionId"], archived=True)
        until("it ends with the session", lambda: sandbox not in listed(rpc))
        harness.check_log(rpc.events())


def test_agents_cannot_use_a_wider_sandbox_of_an_operator(home):
    with home.rpc() as rpc, home.rpc() as agent:
        agent.call("initialize", role="agent")
        wide, plain = create(rpc, home, sandbox={"readRoots": ["/root"]}), create(agent, home)
        assert agent.fails("create_sandbox", {"cwd": home.work, "sandbox": {"readRoots": ["/root"]}}, code=DENIED).data["field"] == "sandbox.readRoots"
        assert run(rpc, wide, ["true"])[0] == 0
        agent.fails("start_process", {"command": ["true"], "sandboxId": wide}, code=DENIED)
        assert run(agent, plain, ["true"])[0] == run(rpc, plain, ["true"])[0] == 0
        # Plan mode allows no writes, and this sandbox has them.
        session = rpc.call("create_session")["sessionId"]
        rpc.call("set_permission_mode", sessionId=session, mode="plan")
        e = rpc.fails("start_process", {"command": ["ls"], "sandboxId": plain, "sessionId": session}, code=harness.INVALID_STATE)
        assert "write access" in e.message and home.work in e.message, e


def test_the_holder_is_not_a_command(home):
    with home.rpc() as rpc:
        made = rpc.call("create_sandbox", cwd=home.work)
        for method, more in (("terminate_process", {}), ("signal_process", {"signal": "TERM"}), ("write_process_stdin", {"data": "x"}),
                             ("close_process_stdin", {}), ("close_process_output", {"stream": "stdout"}), ("resize_process", {"rows": 1, "cols": 1})):
            rpc.fails(method, dict(more, processId=made["processId"]), code=harness.INVALID_STATE)
        assert run(rpc, made["sandboxId"], ["true"])[0] == 0


def test_approved_command_runs_in_its_sandbox():
    with Home(options=("--audit", "off", *harness.host_policy(ask=["Bash(touch:*)"]))) as home:
        with home.rpc() as rpc:
            sandbox, other = create(rpc, home), create(rpc, home)
            asked = rpc.start(["touch", "/tmp/x"], sandboxId=sandbox)
            late = rpc.start(["touch", "/tmp/x"], sandboxId=other)
            assert asked["status"] == late["status"] == "waiting_permission", asked
            # Closing does not wait for the answer.
            gone = rpc.call("close_sandbox", sandboxId=other)
            assert [p["processId"] for p in gone["running"]] == [late["processId"]], gone
            assert rpc.wait(late["processId"])["status"] in ("failed", "terminated")
        home.kill_part("runtime")
        until("the daemon answers", home.answers)
        with home.rpc() as rpc:
            rpc.call("respond_action", actionId=asked["actionId"], decision="allow")
            assert rpc.wait(asked["processId"])["exitCode"] == 0
            said(rpc, sandbox, ["test", "-e", "/tmp/x"])
            # An answer that comes after the end of the sandbox starts nothing.
            again = rpc.start(["touch", "/tmp/x"], sandboxId=sandbox)
            rpc.call("close_sandbox", sandboxId=sandbox)
            rpc.fails("respond_action", {"actionId": again["actionId"], "decision": "allow"})
            assert rpc.wait(again["processId"])["status"] in ("failed", "terminated")
            harness.check_log(rpc.events())


def test_changed_policy_requires_another_sandbox():
    with Home(start=False) as home:
        policy = os.path.join(home.dir, "host.json")
        with open(policy, "w") as f:
            f.write('{"profiles": {"mine": {"extends": "workspace"}, "net": {"extends": "workspace", "network": {"allow": ["a.example"]}}}}')
        home.options = ("--audit", "off", "--host-policy", policy)
        home.start()
        with home.rpc() as rpc:
            sandbox, net = create(rpc, home, profile="mine"), create(rpc, home, profile="net")
            assert run(rpc, sandbox, ["true"])[0] == 0 and run(rpc, net, ["true"])[0] == 0
            with open(policy, "w") as f:
                f.write('{"profiles": {"mine": {"extends": "workspace", "hidden": ["/srv"]},'
                        ' "net": {"extends": "workspace", "network": {"allow": ["b.example"]}}}}')
            rpc.call("reload_policy")

            def rejected():
                with contextlib.suppress(harness.RpcError):
                    return not run(rpc, sandbox, ["true"])
                return rpc.fails("start_process", {"command": ["true"], "sandboxId": sandbox}, code=harness.INVALID_STATE)
            e = until("the new profile is in effect", rejected)
            assert e.data["field"] == "sandboxId" and "/srv" in e.message and "create another" in e.message, e
            e = rpc.fails("start_process", {"command": ["true"], "sandboxId": net}, code=harness.INVALID_STATE)
            assert e.data["field"] == "sandboxId" and "b.example" in e.message, e


def test_autorun_changes_are_reported_as_unexamined_if_the_leader_is_killed(home):
    with home.rpc() as rpc:
        sandbox = create(rpc, home)
        ended = rpc.wait(rpc.start("sleep 0.1; echo x >.envrc; kill -KILL $PPID; sleep 1000", sandboxId=sandbox)["processId"])
        assert ended["signal"] == "KILL" and ended["autorun"]["examined"] == "none", ended


def test_sandbox_ends_when_idle_and_with_its_session(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        bound, idle = create(rpc, home, sessionId=session), create(rpc, home, idleMs=300)
        never = create(rpc, home, idleMs=0)
        work = rpc.start(["sleep", "1000"], sandboxId=idle)["processId"]
        server = rpc.start(["sleep", "1000"], sandboxId=bound)
        assert server["sessionId"] == session
        until("the idle period has passed", lambda: rpc.call("list_sandboxes") and not rpc.call("wait_process", processId=work, timeoutMs=700).get("exitCode"))
        assert idle in listed(rpc), "a command runs in it"
        rpc.call("terminate_process", processId=work)
        until("it is closed", lambda: idle not in listed(rpc))
        assert closed_event(rpc, idle)[0]["payload"]["reason"] == "idle"
        rpc.call("update_session", sessionId=session, archived=True)
        until("it ends with its session", lambda: bound not in listed(rpc))
        event, = closed_event(rpc, bound)
        assert event["payload"]["reason"] == "session_ended" and event["payload"]["running"][0]["processId"] == server["processId"], event
        assert list(listed(rpc)) == [never]


def test_sandbox_ends_with_its_client(home):
    with home.rpc() as rpc:
        with home.rpc() as client:
            bound = create(client, home, onDisconnect="terminate", name="short")
            work = client.start(["sleep", "1000"], sandboxId=bound)["processId"]
            kept = create(client, home)
        assert rpc.wait(work)["status"] == "terminated"
        until("it is closed", lambda: list(listed(rpc)) == [kept])
        assert closed_event(rpc, bound)[0]["payload"]["reason"] == "session_ended"
        client = home.rpc()
        bound = create(client, home, onDisconnect="terminate", name="short")
    home.kill_part("runtime")
    until("the daemon answers", home.answers)
    with home.rpc() as rpc:
        with home.rpc() as client:
            assert said(client, "short", ["echo", "again"]) == "again\n", "using it binds it to the new connection"
        until("it is closed", lambda: list(listed(rpc)) == [kept])


def test_orderly_stop_ends_commands_before_their_sandbox(home):
    with home.rpc() as rpc:
        sandbox = create(rpc, home)
        work = rpc.start("trap 'echo stopped; exit 0' TERM; echo ready; while :; do sleep 0.1; done", sandboxId=sandbox)["processId"]
        until("its trap is set", lambda: rpc.outputs(work)["stdout"])
    home.restart()
    with home.rpc() as rpc:
        assert rpc.outputs(work)["stdout"] == b"ready\nstopped\n", "the command was ended before its sandbox"
        event, = closed_event(rpc, sandbox)
        assert event["payload"]["reason"] == "shutdown" and event["payload"]["running"][0]["processId"] == work, event
        assert listed(rpc) == {}
        harness.check_log(rpc.events())


def test_sandbox_with_limits_leaves_no_cgroup():
    if os.geteuid() != 0:
        raise Skip("requires root: a plain user may have no cgroups")
    with Home() as home, home.rpc() as rpc:     # the end of Home checks that nothing is left
        sandbox = create(rpc, home, limits={"pids": 500})
        rpc.start(["sleep", "1000"], sandboxId=sandbox)


def test_idle_leaders_do_not_count_for_limits(home):
    """While a command runs, no leader waits for another one, unless there is one for each 1,024 processes of the limit, as in the profile."""
    if os.geteuid() != 0:
        raise Skip("requires root: a plain user may have no cgroups")
    with home.rpc() as rpc:
        for limits, most in (({"pids": 500}, 5), ({"memoryBytes": 512 << 20}, 5), ({}, 2)):
            sandbox = create(rpc, home, limits=limits)
            rpc.start(["sleep", "1000"], sandboxId=sandbox)
            leaders = [said(rpc, sandbox, "echo $PPID") for _ in range(5)]
            assert len(set(leaders)) == 5 if most == 5 else len(set(leaders)) <= most, (limits, leaders)


def test_a_command_cannot_change_the_next_one(home):
    with home.rpc() as rpc:
        sandbox = create(rpc, home)
        for change in ("prlimit -p $PPID --nofile=5:5", "prlimit -p $PPID --fsize=4096:4096", "renice 19 -p $PPID"):
            before = said(rpc, sandbox, "ulimit -a; nice")
            said(rpc, sandbox, change)
            assert said(rpc, sandbox, "ulimit -a; nice") == before, change


def test_sandbox_survives_the_runtime_and_the_spawner(home):
    with home.rpc() as rpc:
        sandbox = create(rpc, home, name="lasting")
        said(rpc, sandbox, "echo kept > /tmp/x")
        work = rpc.start("while ! test -e /tmp/go; do sleep 0.05; done; echo done", sandboxId=sandbox)["processId"]
    for part in ("runtime", "spawner", "runtime"):
        home.kill_part(part)
        until("the daemon answers", home.answers)
    with home.rpc() as rpc:
        assert list(listed(rpc)) == [sandbox]
        assert rpc.call("get_process", processId=work)["status"] == "running"
        assert said(rpc, "lasting", ["cat", "/tmp/x"]) == "kept\n"
        said(rpc, "lasting", ["touch", "/tmp/go"])
        ended = rpc.wait(work)
        assert ended["exitCode"] == 0 and rpc.outputs(work)["stdout"] == b"done\n", ended
        rpc.call("close_sandbox", sandboxId="lasting")
        harness.check_log(rpc.events())
        home.cli("store", "verify")


def test_every_start_happens_once_whatever_dies(home):
    """Clients repeat a start with the same key until they get its reply, while the runtime and the spawner are killed."""
    with home.rpc() as rpc:
        create(rpc, home, name="dev")
    started, done = {}, threading.Event()

    def client(name):
        number = 0
        while not done.is_set():
            with contextlib.suppress(harness.Gone, OSError), home.rpc() as rpc:
                while not done.is_set():
                    key = f"{name}-{number}"
                    request = {"commandLine": f"echo {key}; sleep 0.0{number % 7}; exit {number % 7}", "sandboxId": "dev", "idempotencyKey": key}
                    started[key] = (rpc.call("start_process", request)["processId"], number % 7)
                    number += 1
    clients = [threading.Thread(target=client, args=(n,)) for n in range(3)]
    for thread in clients:
        thread.start()
    try:
        for part in ("runtime", "runtime", "spawner") * 3:
            before = len(started)
            until("commands are started", lambda: len(started) > before + 5)
            home.kill_part(part)
    finally:
        done.set()
        for thread in clients:
            thread.join()
    until("the daemon answers", home.answers)
    with home.rpc() as rpc:
        for key, (process, code) in started.items():
            assert rpc.wait(process)["exitCode"] == code and rpc.outputs(process)["stdout"] == f"{key}\n".encode(), key
        # A start that no runtime recorded may still be on its way out.
        until("nothing else runs in it", lambda: said(rpc, "dev", "ps ax -o comm= | sort | uniq -c | awk '$1 > 1'") == "")
        assert rpc.call("close_sandbox", sandboxId="dev")["running"] == []
        harness.check_log(rpc.events())


def test_death_of_the_holder_closes_the_sandbox(home):
    with home.rpc() as rpc:
        made = rpc.call("create_sandbox", cwd=home.work)
        work = rpc.start(["sleep", "1000"], sandboxId=made["sandboxId"])["processId"]
        pid = rpc.call("get_process", processId=made["processId"])["pid"]
        home.note_tree()
        os.kill(pid, signal.SIGKILL)
        assert rpc.wait(work)["status"] in ("failed", "terminated", "lost")
        event, = until("it is closed", lambda: closed_event(rpc, made["sandboxId"]))
        assert event["payload"]["reason"] == "failed", event
        assert listed(rpc) == {}
        harness.check_log(rpc.events())


def test_death_of_the_guard_closes_the_sandbox_as_lost(home):
    with home.rpc() as rpc:
        sandbox = create(rpc, home)
        rpc.start(["sleep", "1000"], sandboxId=sandbox)
    home.stop(signal.SIGKILL)
    home.start()
    with home.rpc() as rpc:
        event, = closed_event(rpc, sandbox)
        assert event["payload"]["reason"] == "lost", event
        assert listed(rpc) == {}
        harness.check_log(rpc.events())


def test_sandbox_is_invisible_to_other_users():
    if os.geteuid() != 0:
        raise Skip("other users' requests require root")
    from test_ownership import ALICE, BOB, as_user, shared
    with shared() as home, as_user(home, ALICE) as alice, as_user(home, BOB) as bob, home.rpc() as root:
        sandbox = create(alice, home, name="mine")
        for given in (sandbox, "mine"):
            bob.fails("start_process", {"command": ["true"], "sandboxId": given}, code=NOT_FOUND)
            bob.fails("close_sandbox", {"sandboxId": given}, code=NOT_FOUND)
            bob.fails("get_sandbox", {"sandboxId": given}, code=NOT_FOUND)
        assert listed(bob) == {} and list(listed(root)) == [sandbox]
        root.fails("start_process", {"command": ["true"], "sandboxId": sandbox}, code=NOT_ALLOWED)
        assert create(bob, home, name="mine") != sandbox, "names are each user's own"
        own = create(root, home, name="mine")
        assert home.cli("sandbox", "show", "mine").text.split()[1] == own and home.cli("exec", "mine", "id", "-u").text != f"{ALICE}\n"
        home.cli("sandbox", "close", "mine")
        assert "ambiguous" in home.cli("sandbox", "close", "mine", status=1).err.decode(), "root sees those of the others"
        assert said(alice, "mine", ["id", "-u"]) == f"{ALICE}\n"
        assert root.call("close_sandbox", sandboxId=sandbox)["status"] == "closed"


def test_sandbox_verbs_of_the_command_line(home):
    sandbox = home.cli("sandbox", "create", "--name", "dev", "--idle", "1h").text.strip()
    assert sandbox.startswith("sbx_"), sandbox
    assert home.cli("sandbox", "create", "--name", "dev", status=1).err
    assert home.cli("run", "--in", "dev", "--", "sh", "-c", "echo one >/tmp/x; exit 3", status=3).out == b""
    assert home.cli("exec", sandbox[:12], "cat", "/tmp/x").text == "one\n"
    assert home.cli("exec", "-i", "dev", "--", "cat", stdin=b"typed").out == b"typed"
    assert home.cli("exec", "dev", "-t", "--", "tty").text.startswith("/dev/pts/")
    work = home.cli("exec", "-d", "dev", "sleep", "1000").text.strip()
    assert home.cli("exec", work, "--", "pgrep", "-x", "sleep").out, "a process names its sandbox"
    rows = home.cli("sandbox", "list").text
    assert sandbox in rows and "dev" in rows and "workspace" in rows, rows
    assert home.cli("sandbox", "list", "--json").json["sandboxes"][0]["processes"] == [work]
    assert sandbox in home.cli("sandbox", "show", "dev").text and home.cli("sandbox", "show", sandbox, "--json").json["name"] == "dev"
    err = home.cli("run", "--in", "dev", "--rw", "/srv", "true", status=125).err.decode()
    assert "option '--rw'" in err, err
    assert "no sandbox matches" in home.cli("exec", "other", "true", status=125).err.decode()
    assert home.cli("exec", "dev", status=125).err and home.cli("exec", status=125).err
    assert work in home.cli("sandbox", "close", "dev").text
    assert home.cli("sandbox", "list", "-a", "--json").json["sandboxes"][0]["reason"] == "closed"
    assert home.cli("sandbox", "close", "dev", status=1).err


def test_a_name_of_a_closed_sandbox_is_reported_with_the_reason(home):
    """One that has ended by itself, after an idle time or a change on the host, is what users look for by its name."""
    first = home.cli("sandbox", "create", "--name", "dev", "--idle", "100ms").text.strip()
    harness.until("it is closed", lambda: not home.cli("sandbox", "list", "--json").json["sandboxes"])
    for words in (("exec", "dev", "true"), ("cp", "dev:/tmp/x", "."), ("publish", "dev", "3000"), ("sandbox", "close", "dev")):
        error = home.cli(*words, status=None).err.decode()
        assert "'dev' is closed (idle)" in error and first in error, error
    shown = home.cli("sandbox", "show", "dev").text
    assert first in shown and "idle" in shown.split("reason", 1)[1].splitlines()[0], shown
    second = home.cli("sandbox", "create", "--name", "dev").text.strip()
    assert second in home.cli("sandbox", "show", "dev").text and home.cli("exec", "dev", "true")
    error = home.cli("sandbox", "create", "--cwd", "/nowhere", status=1).err.decode()
    assert "start the sandbox: cwd: /nowhere: No such file or directory" in error, error


def test_changes_of_a_copy_on_write_sandbox_are_applied(home):
    kept, new = (os.path.join(home.work, name) for name in ("kept", "new"))
    with open(kept, "w") as f:
        f.write("old\n")
    sandbox = home.cli("sandbox", "create", "--cow", "--name", "try").text.strip()
    home.cli("exec", "try", "sh", "-c", "echo more >> kept; echo x > new")
    assert home.cli("exec", "try", "cat", "kept", "new").text == "old\nmore\nx\n", "the next command sees it"
    assert not os.path.exists(new) and open(kept).read() == "old\n"
    with home.rpc() as rpc:
        assert not any(p.get("cow") for p in rpc.call("list_processes", sandboxId="try")["processes"]), "the changes are the sandbox's"
        rpc.fails("apply_changes", {"processId": rpc.call("get_sandbox", sandboxId="try")["processId"]}, code=harness.INVALID_STATE)
    assert sandbox in home.cli("sandbox", "close", "try").err.decode()
    assert "+more" in home.cli("diff", sandbox).text == home.cli("diff", "try").text, "its name still works"
    home.cli("apply", "try", "kept")
    home.cli("discard", sandbox)
    assert not os.path.exists(new) and open(kept).read() == "old\nmore\n"
    other = home.cli("sandbox", "create", "--cow", "--name", "try").text.strip()
    assert home.cli("diff", "try").text == "", "the open one comes first"
    home.cli("sandbox", "close", "try")
    refused = home.cli("diff", "try", status=1).err.decode()
    assert "2 closed sandboxes" in refused and sandbox in refused and other in refused, refused
    denied = home.cli("run", "--in", home.cli("sandbox", "create").text.strip(), "--", "touch", "/srv/x", status=1).err.decode()
    assert "another one (bailiff sandbox create) with --rw /srv" in denied, denied


def test_end_of_a_leader_is_noticed_despite_an_unread_request(home):
    """A leader exits before it has read a signal request; its end is noticed nevertheless."""
    with home.rpc() as rpc, home.rpc() as other:
        sandbox = create(rpc, home)
        for _ in range(100):
            process = rpc.start(["/bin/true"], sandboxId=sandbox)["processId"]
            try:
                other.call("signal_process", processId=process, signal="CONT")
            except harness.RpcError:
                pass    # it had ended
            assert rpc.wait(process)["status"] == "completed"


def test_a_holder_that_dies_with_a_request_unread_ends_its_members(home):
    """The leader has reported the end of its command and is not reaped; the question after a restart stays unread."""
    with home.rpc() as rpc:
        made = rpc.call("create_sandbox", cwd=home.work)
        holder = rpc.call("get_process", processId=made["processId"])["pid"]
        go = os.path.join(home.work, "go")
        # The leader of a command on a terminal exits with it.
        process = rpc.start("until test -e go; do sleep 0.02; done", sandboxId=made["sandboxId"], keepTree=True, tty={"rows": 20, "cols": 70})["processId"]
        leader = rpc.call("get_process", processId=process)["pid"]
    runtime = home.part("runtime")
    os.kill(runtime, signal.SIGSTOP)    # the end of the command is reported to the next one
    os.kill(holder, signal.SIGSTOP)
    open(go, "w").close()
    until("the leader has reported the end", lambda: not harness.alive(leader))
    os.kill(runtime, signal.SIGKILL)
    until("the runtime is back", home.answers)
    with home.rpc() as rpc:
        until("it was taken over", lambda: rpc.call("get_process", processId=process))
        os.kill(holder, signal.SIGKILL)
        assert rpc.wait(process)["exitCode"] == 0
        until("the sandbox is closed", lambda: closed_event(rpc, made["sandboxId"]))


def test_the_end_of_a_holder_is_not_an_item(home):
    """Items are steps of turns: nothing ends that has not begun."""
    with home.rpc() as rpc, home.rpc() as watcher:
        watcher.call("subscribe_events", items=True)
        made = rpc.call("create_sandbox", cwd=home.work)
        said(rpc, made["sandboxId"], ["true"])
        rpc.call("close_sandbox", sandboxId=made["sandboxId"])
        seen = []
        while not seen or seen[-1]["type"] != "sandbox.closed":
            seen.append(watcher.event())
        items = [(e["type"], e["payload"]["item"]["id"]) for e in seen if e["type"].startswith("item.") and e["payload"]["item"]["kind"] == "command"]
        began = {i for kind, i in items if kind == "item.started"}
        assert began and began == {i for kind, i in items if kind == "item.completed"} and made["processId"] not in began, items


if __name__ == "__main__":
    harness.main(globals())
