"""Policy: rules and modes decide before anything runs; approvers are asked once, and exactly the approved command runs."""

import json
import os
import pwd
import signal
import sys
import threading

import harness
from harness import Home, until, valid

ASK = {"permissions": {"ask": ["Bash(touch:*)", "Write"], "deny": ["Bash(rm:*)", "Read(~/.ssh/**)"]}}


def policy(home, what):
    with open(os.path.join(home.dir, "policy.json"), "w") as f:
        f.write(what if isinstance(what, str) else json.dumps(what, indent=1))


class Policed(Home):
    """A daemon that has this policy from its start."""

    def __init__(self, what, **more):
        super().__init__(start=False, **more)
        policy(self, what)
        self.start()


def pending(rpc):
    return rpc.call("list_actions", status="pending")["actions"]


def of(rpc, process, kind=None):
    return [e for e in rpc.events() if e.get("processId") == process and (not kind or e["type"] == kind)]


def ask(rpc, home, *argv, **more):
    started = rpc.call("start_process", command=list(argv), cwd=home.work, **more)
    assert started["status"] == "waiting_permission" and started["decision"] == "ask", started
    return started


def test_denied_command_is_recorded_and_never_runs():
    with Policed(ASK) as home, home.rpc() as rpc:
        keep = os.path.join(home.work, "keep")
        open(keep, "w").close()
        error = rpc.fails("start_process", commandLine="true && rm keep", cwd=home.work, code=-32010)
        decision = error.data["permissionDecision"]
        assert decision["decision"] == "deny" and decision["decisionSource"] == "rule", decision
        assert decision["ruleRefs"] == [{"file": "policy.json", "line": 8, "rule": "Bash(rm:*)", "effect": "deny", "layer": "user"}], decision
        assert os.path.exists(keep)
        process = rpc.call("get_process", processId=error.data["processId"])
        assert process["status"] == "failed" and process["category"] == "permission", process
        assert process["commandLine"] == "true && rm keep", process
        types = [e["type"] for e in of(rpc, process["processId"])]
        assert types == ["permission.evaluated", "process.failed"], types
        rpc.fails("start_process", commandLine="cat ~/.ssh/id", cwd=home.work, code=-32010)
        done = home.cli("run", "--", "rm", "keep", status=None)
        assert done.status not in (0, 1) and b"Bash(rm:*)" in done.err, (done.status, done.err)
        assert rpc.run(["echo", "rm"], cwd=home.work)[1]["exitCode"] == 0
        valid(home, rpc)


def test_command_waits_until_it_is_approved():
    with Policed(ASK) as home, home.rpc() as rpc:
        started = ask(rpc, home, "touch", "made")
        made = os.path.join(home.work, "made")
        process = rpc.call("get_process", processId=started["processId"])
        assert process["status"] == "waiting_permission" and process["actionId"] == started["actionId"], process
        assert rpc.call("wait_process", processId=started["processId"], timeoutMs=50)["timedOut"]
        action, = pending(rpc)
        assert action["actionType"] == "permission" and "touch made" in action["prompt"] and action["processId"] == started["processId"], action
        assert not os.path.exists(made)
        waiting = rpc.send("wait_process", processId=started["processId"])
        assert rpc.call("respond_action", actionId=started["actionId"], decision="allow", note="fine")["status"] == "resolved"
        done = rpc.reply(waiting)
        assert done["status"] == "completed" and done["exitCode"] == 0, done
        assert os.path.exists(made)
        types = [e["type"] for e in of(rpc, started["processId"])]
        for kind in ("permission.evaluated", "permission.requested", "action.required", "action.resolved", "permission.resolved", "process.started",
                     "process.completed"):
            assert kind in types, (kind, types)
        last = of(rpc, started["processId"], "permission.evaluated")[-1]["payload"]["permissionDecision"]
        assert last["decision"] == "allow" and last["decisionSource"] == "user" and last["approvalActionId"] == started["actionId"], last
        # An approval for once applies once.
        ask(rpc, home, "touch", "made")
        rpc.fails("respond_action", actionId=started["actionId"], decision="allow", code=-32009)
        for a in pending(rpc):
            rpc.call("respond_action", actionId=a["actionId"], decision="deny")
        valid(home, rpc)


def test_long_command_can_be_approved():
    with Policed(ASK) as home, home.rpc() as rpc:
        long = [f"{n}-" + "x" * 240 for n in range(4500)]
        started = ask(rpc, home, "touch", *long)
        rpc.call("respond_action", actionId=started["actionId"], decision="allow")
        done = rpc.wait(started["processId"])
        assert done["status"] == "completed" and done["exitCode"] == 0, done
        assert len(os.listdir(home.work)) == len(long)


def test_denied_approval_fails_the_process():
    with Policed(ASK) as home, home.rpc() as rpc:
        started = ask(rpc, home, "touch", "made")
        home.cli("deny", started["actionId"], "--note", "not today")
        done = rpc.wait(started["processId"])
        assert done["status"] == "failed" and done["category"] == "permission" and "not today" in done["message"], done
        assert not os.path.exists(os.path.join(home.work, "made"))
        assert of(rpc, started["processId"], "permission.resolved")[0]["payload"]["outcome"] == "denied"
        valid(home, rpc)


def test_pending_approval_survives_restarts():
    with Policed(ASK) as home:
        with home.rpc() as rpc:
            one, two, three = (ask(rpc, home, "touch", name) for name in ("one", "two", "three"))
        home.kill_part("runtime")
        until("it answers", home.answers)
        with home.rpc() as rpc:
            assert rpc.call("get_process", processId=one["processId"])["status"] == "waiting_permission"
            waiting = rpc.send("wait_process", processId=one["processId"])
            rpc.call("respond_action", actionId=one["actionId"], decision="allow")
            assert rpc.reply(waiting)["status"] == "completed"
        home.restart()
        with home.rpc() as rpc:
            assert {a["actionId"] for a in pending(rpc)} == {two["actionId"], three["actionId"]}
            rpc.call("respond_action", actionId=two["actionId"], decision="allow")
            assert rpc.wait(two["processId"])["status"] == "completed"
            rpc.call("respond_action", actionId=three["actionId"], decision="deny")
            assert rpc.wait(three["processId"])["category"] == "permission"
            assert sorted(os.listdir(home.work)) == ["one", "two"], os.listdir(home.work)
            valid(home, rpc)


def test_approved_command_runs_once_if_the_runtime_dies():
    """The answer is in the log, but the start is not: the next runtime starts the command once."""
    with Policed({"permissions": {"ask": ["Bash(touch:*)", "Bash(tee:*)", "Edit(asked.txt)"]}}) as home:
        with home.rpc() as rpc:
            plain = ask(rpc, home, "touch", "plain")
            task = rpc.call("create_task", objective="x", commandLine="echo once | tee -a task", cwd=home.work, autoComplete=True)["taskId"]
            rpc.call("start_task", taskId=task)
            turn = rpc.call("submit_turn", input=[{"type": "tool_call", "toolName": "write_file", "arguments": {"path": "asked.txt", "content": "hello"}}],
                            options={"cwd": home.work})
            actions = until("three are asked about", lambda: len(pending(rpc)) == 3 and pending(rpc))
            spawner = home.kill_part("spawner", signal.SIGSTOP)
            for action in actions:
                rpc.call("respond_action", actionId=action["actionId"], decision="allow")
            rpc.call("get_health")
        home.kill_part("runtime")
        os.kill(spawner, signal.SIGCONT)
        with home.rpc() as rpc:
            assert rpc.wait(plain["processId"])["status"] == "completed"
            until("the task has ended", lambda: rpc.call("get_task", taskId=task)["status"] == "completed")
            until("the turn has ended", lambda: [e for e in rpc.events() if e["type"] == "turn.completed" and e["turnId"] == turn["turnId"]])
            made = {name: open(os.path.join(home.work, name)).read() for name in os.listdir(home.work)}
            assert made == {"plain": "", "task": "once\n", "asked.txt": "hello"}, made
            assert not pending(rpc)
            harness.check_log(rpc.events())
            valid(home, rpc)


def test_approval_is_void_if_the_sandbox_or_rules_changed():
    """Between question and answer the profile became wider: the approval no longer matches the command's sandbox."""
    wider = dict(ASK, profiles={"p": {"writeRoots": ["/opt"]}})
    with Policed(dict(ASK, profiles={"p": {}})) as home, home.rpc() as rpc:
        started = ask(rpc, home, "touch", "made", profile="p")
        policy(home, wider)
        home.guard.send_signal(signal.SIGHUP)
        until("the policy is loaded", lambda: "/opt" in str(rpc.call("get_sandbox", profile="p", cwd=home.work)))
        rpc.call("respond_action", actionId=started["actionId"], decision="allow")
        done = rpc.wait(started["processId"])
        assert done["status"] == "failed" and done["category"] == "permission" and "changed" in done["message"], done
        assert not os.path.exists(os.path.join(home.work, "made"))
        # A rule that denies it in the meantime applies too.
        started = ask(rpc, home, "touch", "made")
        policy(home, {"permissions": {"deny": ["Bash(touch:*)", "Bash(no-such-probe)"]}})
        home.guard.send_signal(signal.SIGHUP)
        until("the policy is loaded", lambda: rpc.fails("start_process", command=["no-such-probe"], cwd=home.work).code == -32010)
        rpc.call("respond_action", actionId=started["actionId"], decision="allow")
        assert rpc.wait(started["processId"])["category"] == "permission"
        valid(home, rpc)


def test_approval_cannot_change_the_command():
    with Policed(ASK) as home, home.rpc() as rpc:
        started = ask(rpc, home, "touch", "made")
        for payload in ({"updatedInput": {"command": "touch other"}}, {"updatedPermissions": []}):
            error = rpc.fails("respond_action", actionId=started["actionId"], decision="allow", payload=payload, code=-32011)
            assert "deny it" in error.message and error.data["field"].startswith("payload.updated"), (error, error.data)
        assert os.listdir(home.work) == [] and [a["actionId"] for a in pending(rpc)] == [started["actionId"]]
        rpc.call("respond_action", actionId=started["actionId"], decision="allow", payload={"comment": "fine"})
        assert rpc.wait(started["processId"])["exitCode"] == 0 and os.listdir(home.work) == ["made"]


def test_approval_for_the_session_covers_the_same_command():
    with Policed(ASK) as home, home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        started = ask(rpc, home, "touch", "made", sessionId=session)
        rpc.call("respond_action", actionId=started["actionId"], decision="allow", scope="session")
        rpc.wait(started["processId"])
        again = rpc.call("start_process", command=["touch", "made"], cwd=home.work, sessionId=session)
        assert again["status"] == "running", again
        rpc.wait(again["processId"])
        decision = of(rpc, again["processId"], "permission.evaluated")[0]["payload"]["permissionDecision"]
        assert decision["scope"] == "session" and decision["decisionSource"] == "user", decision
        # Other words, another environment, another session: asked again.
        for other in ({"command": ["touch", "other"], "sessionId": session}, {"command": ["touch", "made"], "sessionId": session, "env": {"X": "1"}},
                      {"command": ["touch", "made"]}):
            assert rpc.call("start_process", cwd=home.work, **other)["status"] == "waiting_permission", other
        home.restart()
    # The pending commands end with the daemon; the end of Home checks that nothing is left.


def test_agents_cannot_approve_their_own_commands():
    with Policed(ASK) as home, home.rpc() as agent, home.rpc() as person:
        agent.call("initialize", role="agent")
        started = ask(agent, home, "touch", "made")
        agent.fails("respond_action", actionId=started["actionId"], decision="allow", code=-32003)
        assert person.call("get_process", processId=started["processId"])["status"] == "waiting_permission"
        person.call("respond_action", actionId=started["actionId"], decision="allow")
        assert agent.wait(started["processId"])["status"] == "completed"
        resolver = of(person, started["processId"], "action.resolved")[0]["payload"]["resolver"]
        assert resolver["role"] == "operator", resolver


def test_sandboxed_command_cannot_approve():
    with Policed(ASK) as home, home.rpc() as rpc:
        started = ask(rpc, home, "touch", "made")
        script = ("import socket,json\ns=socket.socket(socket.AF_UNIX)\ns.connect(%r)\ns.sendall(json.dumps({'jsonrpc':'2.0','id':1,'method':"
                  "'respond_action','params':{'actionId':%r,'decision':'allow'}}).encode()+b'\\n')\nprint(s.recv(9999))" % (home.socket, started["actionId"]))
        tried, done = rpc.run([sys.executable, "-c", script], cwd=home.work)
        assert done["exitCode"] != 0 or b"error" in rpc.outputs(tried["processId"])["stdout"], done
        assert rpc.call("get_process", processId=started["processId"])["status"] == "waiting_permission"
        rpc.call("respond_action", actionId=started["actionId"], decision="deny")


def test_first_answer_wins():
    with Policed(ASK) as home, home.rpc() as rpc:
        for _ in range(5):
            started = ask(rpc, home, "touch", "made")
            answers = []

            def answer(decision):
                with home.rpc() as mine:
                    try:
                        mine.call("respond_action", actionId=started["actionId"], decision=decision)
                        answers.append(decision)
                    except harness.RpcError as error:
                        assert error.code == -32009, error
            people = [threading.Thread(target=answer, args=(d,)) for d in ("allow", "deny", "allow", "deny")]
            for p in people:
                p.start()
            for p in people:
                p.join()
            done = rpc.wait(started["processId"])
            assert len(answers) == 1, answers
            assert (done["status"] == "completed") == (answers[0] == "allow"), (answers, done)


def test_approval_times_out_without_an_interactive_client():
    with Policed(ASK) as home, home.rpc() as rpc:
        rpc.call("initialize", interactive=False)
        error = rpc.fails("start_process", command=["touch", "made"], cwd=home.work, code=-32010)
        assert "no person can be asked" in error.data["permissionDecision"]["decisionReason"], error.data
    with Policed(ASK, config={"permissionAloneMs": 200, "permissionTimeoutMs": 300}) as home, home.rpc() as rpc, home.rpc() as alone:
        alone.call("initialize", interactive=False)
        for who in (rpc, alone):
            started = ask(who, home, "touch", "made")
            done = who.wait(started["processId"])
            assert done["status"] == "failed" and done["category"] == "permission" and "timed out" in done["message"], done
            assert of(rpc, started["processId"], "permission.resolved")[0]["payload"]["outcome"] == "timed_out"
        valid(home, rpc)


def test_terminating_the_process_withdraws_its_approval():
    with Policed(ASK) as home, home.rpc() as rpc:
        started = ask(rpc, home, "touch", "made")
        rpc.fails("signal_process", processId=started["processId"], signal="INT", code=-32015)
        gone = rpc.call("terminate_process", processId=started["processId"], reason="changed my mind")
        assert gone["treeEmpty"], gone
        assert rpc.call("get_process", processId=started["processId"])["status"] == "terminated"
        assert not pending(rpc)
        with home.rpc() as other:
            ask(other, home, "touch", "made", onDisconnect="terminate")
        until("no approval is pending", lambda: not pending(rpc))
        valid(home, rpc)


def test_tools_wait_for_approval_and_are_denied_like_commands():
    rules = {"permissions": {"ask": ["Edit(asked.txt)", "Bash(touch:*)"], "deny": ["Edit(never.txt)", "Read(secret/**)"]}}
    with Policed(rules) as home, home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[{"type": "text", "text": "x"}], options={"cwd": home.work})
        os.mkdir(os.path.join(home.work, "secret"))
        denied = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="write_file", arguments={"path": "never.txt", "content": "x"})
        assert denied["status"] == "failed" and denied["error"]["category"] == "permission", denied
        denied = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="read_file", arguments={"path": "secret/x"})
        assert denied["error"]["category"] == "permission", denied
        waiting = rpc.send("invoke_tool", turnId=turn["turnId"], toolName="write_file", arguments={"path": "asked.txt", "content": "hello"})
        with home.rpc() as person:
            action = until("it is asked", lambda: pending(person))[0]
            assert not os.path.exists(os.path.join(home.work, "asked.txt"))
            person.call("respond_action", actionId=action["actionId"], decision="allow")
        done = rpc.reply(waiting)
        assert done["status"] == "completed", done
        assert open(os.path.join(home.work, "asked.txt")).read() == "hello"
        waiting = rpc.send("invoke_tool", turnId=turn["turnId"], toolName="shell", arguments={"command": "touch x"})
        with home.rpc() as person:
            action = until("it is asked", lambda: pending(person))[0]
            person.call("respond_action", actionId=action["actionId"], decision="deny")
        assert rpc.reply(waiting)["error"]["category"] == "permission"
        valid(home, rpc)


def test_pending_tool_approval_survives_a_restart():
    with Policed({"permissions": {"ask": ["Edit(asked.txt)"]}}) as home:
        with home.rpc() as rpc:
            turn = rpc.call("submit_turn", input=[{"type": "tool_call", "toolName": "write_file", "arguments": {"path": "asked.txt", "content": "hello"}}],
                            options={"cwd": home.work})
            action = until("it is asked", lambda: pending(rpc))[0]
        home.kill_part("runtime")
        until("it answers", home.answers)
        with home.rpc() as rpc:
            rpc.call("respond_action", actionId=action["actionId"], decision="allow")
            until("the turn ended", lambda: [e for e in rpc.events() if e["type"] == "turn.completed" and e["turnId"] == turn["turnId"]])
            assert open(os.path.join(home.work, "asked.txt")).read() == "hello"
            valid(home, rpc)


def test_dry_run_reports_the_decision(home):
    policy(home, ASK)
    with home.rpc() as rpc:
        rpc.call("reload_policy")
        for line, answer in (("rm x", "deny"), ("touch x", "ask"), ("ls", "allow"), ("ls; touch x; rm y", "deny")):
            said = rpc.call("evaluate_permission", commandLine=line, cwd=home.work)
            assert said["permissionDecision"]["decision"] == answer, (line, said)
            assert said["sandboxProfile"]["mode"] == "workspace", said
        said = rpc.call("evaluate_permission", toolName="write_file", arguments={"path": "x"}, cwd=home.work)
        assert said["permissionDecision"]["decision"] == "ask", said
        assert rpc.events()[-1]["type"] == "permission.evaluated" and rpc.events()[-1]["payload"]["dryRun"]
        assert not rpc.call("list_processes")["processes"] and not pending(rpc)
        rpc.fails("evaluate_permission", code=-32602)
        rpc.fails("evaluate_permission", command=["ls"], sessionId="sess_none", code=-32004)
        valid(home, rpc)
    done = home.cli("policy", "check", "--", "rm", "x", status=1)
    assert "deny" in done.text and "Bash(rm:*)" in done.text and "line 8" in done.text, done.text
    home.cli("policy", "check", "--", "ls")
    os.unlink(os.path.join(home.dir, "policy.json"))
    home.cli("policy", "reload")
    home.cli("policy", "check", "--", "rm", "x")


def test_shell_options_and_here_documents_hide_no_denied_command(home):
    policy(home, {"permissions": {"deny": ["Bash(rm:*)", "Bash(git push:*)"]}})
    denied = ["sh -oc errexit 'rm v'", "bash -Oc extglob 'rm v'", "bash -coo pipefail posix 'rm v'", "bash -rcfile x -c 'rm v'", "sh +c 'rm v'", "jobs -x rm v",
              "/usr/lib/git-core/git-push", "ssh host git push", "cat <<EOF\nE\\\nOF\nrm v", "cat <<-EOF\n\tE\\\nOF\nrm v"]
    asked = ["history -s rm v; fc -s", "compgen -W '$(rm v)'", "cat <<'E\nF'\nE\nF\nrm v", "cat <<$'EOF'\nEOF\nrm v", 'cat <<$"EOF"\nEOF\nrm v', "cat <<-'\tE'\nE\nrm v",
             "alias ls=env\nls rm v", "x=PATH; export $x=.; ls", "set -k; ls LD_PRELOAD=./e.so", "bash -c 'x=$(2>f ! rm v)'", "bash -c 'x=$(time >f -p rm v)'",
             "bash -c 'x=$(>f coproc k)'"]
    allowed = ["time >f ls", "time -p 2>f ls v", "bash -c 'x=$(time >f ls)'"]
    with home.rpc() as rpc:
        rpc.call("reload_policy")
        for lines, answer in ((denied, "deny"), (asked, "ask"), (allowed, "allow")):
            for line in lines:
                said = rpc.call("evaluate_permission", commandLine=line, cwd=home.work)["permissionDecision"]
                assert said["decision"] == answer, (line, said)


def test_a_strict_policy_asks_for_code_that_it_cannot_see(home):
    rules = {"deny": ["Bash(git push:*)"], "allow": ["Bash(make test)", "Bash(./tool:*)"]}
    code = ["python3 -c 'print(1)'", "sh script.sh", ". ./script.sh", "make", "ssh host ls", "awk '{print}' f", "npm test", "./other", "unheard-of-program x", "ls; make"]
    plain = ["ls -l", "cat f | sort", "mkdir d && cp f d", "git commit -m x", "sh -c 'ls; rm f'", "make test", "ls; make test", "./tool x", "f() { ls; }; f", "[[ a = b ]] || echo $((1+1))"]
    with home.rpc() as rpc:
        for strict in (False, True):
            policy(home, {"permissions": dict(rules, strict=strict)})
            rpc.call("reload_policy")
            assert rpc.call("get_policy")["strict"] is strict
            assert ("strict" in home.cli("policy", "show").text) is strict
            for lines, answer in ((code, "ask" if strict else "allow"), (plain, "allow"), (["git push"], "deny")):
                for line in lines:
                    said = rpc.call("evaluate_permission", commandLine=line, cwd=home.work)["permissionDecision"]
                    assert said["decision"] == answer, (strict, line, said)
        said = rpc.call("evaluate_permission", commandLine="ls; make", cwd=home.work)["permissionDecision"]
        assert said["decisionReason"].startswith("the policy is strict, and 'make' runs code that its text does not show"), said
        # A workspace can make it strict, and not take it back.
        os.makedirs(os.path.join(home.work, ".bailiff"))
        for user, place in ((False, True), (True, False)):
            policy(home, {"permissions": {"strict": user}})
            with open(os.path.join(home.work, ".bailiff", "policy.json"), "w") as f:
                json.dump({"permissions": {"strict": place}}, f)
            rpc.call("reload_policy")
            started = rpc.call("start_process", commandLine="make", cwd=home.work)
            assert started["status"] == "waiting_permission", (user, place, started)
    wrong = os.path.join(home.dir, "wrong.json")
    for text in ('{"permissions": {"strict": "yes"}}', '{"permissions": {"stricts": true}}'):
        with open(wrong, "w") as f:
            f.write(text)
        done = home.cli("policy", "lint", wrong, status=1)
        assert "strict" in done.text and "line 1" in done.text or "wrong.json:1" in done.text, done.text


def test_untrusted_runs_nothing_that_variables_or_modes_change(home):
    lines = ["x=PATH; export $x=.; ls", "x=PATH; declare $x=.; ls", "x=PATH; printf -v $x .; ls", "set -k; ls LD_PRELOAD=./e.so", "bash -k -c 'ls LD_PRELOAD=./e.so'",
             "cargo --version", ": $((PATH=1)); ls", "exec {PATH}>/dev/null; ls", "alias ls=env\nls touch made", "cat <<E\nE\\\n\ntouch made"]
    with home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        rpc.call("set_permission_mode", sessionId=session, mode="untrusted")
        for line in lines:
            started = rpc.call("start_process", commandLine=line, cwd=home.work, sessionId=session)
            assert started["status"] == "waiting_permission", (line, started)
        said = rpc.call("evaluate_permission", commandLine="set -eu; x=1; export A=$x; ls", cwd=home.work, sessionId=session)
        assert said["permissionDecision"]["decision"] == "allow", said


def test_policy_can_be_shown_and_reloaded(home):
    policy(home, {"permissions": {"deny": ["Bash(rm:*)"], "allow": ["no_such_tool"], "defaultMode": "plan"}})
    with home.rpc() as rpc:
        assert rpc.call("reload_policy")["rules"] == 2
        seen = rpc.call("get_policy")
        assert seen["mode"] == "plan" and seen["modeSource"] == "user" and not seen["bypassPermitted"], seen
        assert [r["rule"] for r in seen["rules"]] == ["Bash(rm:*)", "no_such_tool"] and len(seen["notes"]) == 1, seen
        policy(home, '{\n "permissions": {\n  "deny": ["Bash(rm"]}}')
        error = rpc.fails("reload_policy", code=-32602)
        assert "line 3" in error.message and "permissions.deny" in error.message, error
        assert rpc.call("get_policy")["mode"] == "plan" and "plan" in home.cli("policy", "show").text
        done = home.cli("policy", "lint", os.path.join(home.dir, "policy.json"), status=1)
        assert "line 3" in done.text, done.text
        policy(home, {"permissions": {"allow": ["Bash(make:*)"]}})
        done = home.cli("policy", "lint", "--layer", "workspace", os.path.join(home.dir, "policy.json"))
        assert "may only tighten" in done.text, done.text
        os.unlink(os.path.join(home.dir, "policy.json"))
        rpc.call("reload_policy")
        with home.rpc() as agent:
            agent.call("initialize", role="agent")
            agent.fails("reload_policy", code=-32003)
        valid(home, rpc)


def test_session_modes_decide_as_documented(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]

        def said(line):
            return rpc.call("evaluate_permission", commandLine=line, cwd=home.work, sessionId=session)["permissionDecision"]["decision"]
        expected = {"default": ("allow", "allow", "allow"), "untrusted": ("allow", "ask", "ask"), "on_request": ("allow", "allow", "ask"),
                    "on_failure": ("allow", "allow", "allow"), "never": ("allow", "allow", "allow"), "plan": ("allow", "deny", "deny"),
                    "auto": ("allow", "allow", "ask")}
        for mode, answers in expected.items():
            assert rpc.call("set_permission_mode", sessionId=session, mode=mode)["mode"] == mode
            assert tuple(said(line) for line in ("ls", "touch x", "rm -rf x")) == answers, mode
        rpc.fails("set_permission_mode", sessionId=session, mode="bypassPermissions", code=-32010)
        assert "auto" in rpc.fails("set_permission_mode", sessionId=session, mode="yolo", code=-32602).message
        rpc.fails("set_permission_mode", sessionId="sess_none", mode="plan", code=-32004)
        rpc.call("set_permission_mode", sessionId=session, mode="plan")
        with home.rpc() as agent:
            agent.call("initialize", role="agent")
            agent.fails("set_permission_mode", sessionId=session, mode="default", code=-32003)
            agent.fails("resolve_permission", actionId="act_x", decision="allow", code=-32003)
        rpc.fails("start_process", command=["touch", "x"], cwd=home.work, sessionId=session, code=-32010)
        assert rpc.run(["ls"], cwd=home.work, sessionId=session)[1]["exitCode"] == 0
    home.restart()
    with home.rpc() as rpc:
        assert rpc.call("get_policy", sessionId=session)["mode"] == "plan"
        error = rpc.fails("start_process", command=["rm", "-rf", "x"], cwd=home.work, sessionId=session, code=-32010)
        assert error.data["permissionDecision"]["destructive"] and error.data["permissionDecision"]["impact"], error.data
        valid(home, rpc)


def test_plan_mode_sandbox_is_read_only():
    """In mode plan, a command that passes as reading runs in a read-only sandbox, whatever was requested."""
    with Policed({}) as home, home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        rpc.call("set_permission_mode", sessionId=session, mode="plan")
        where = {"cwd": home.work, "sessionId": session}
        for more in ({}, {"sandbox": {"writeRoots": [home.work]}}):
            done = rpc.run("ls; test ! -w .", **where, **more)
            assert done[1]["exitCode"] == 0, done
            applied, = of(rpc, done[0]["processId"], "sandbox.applied")
            assert applied["payload"]["sandboxProfile"]["writeRoots"] == [], applied
            assert rpc.call("evaluate_permission", commandLine="ls", **where, **more)["sandboxProfile"]["writeRoots"] == []
        # Also where a workspace's own file says so, and no longer once it does not.
        os.mkdir(os.path.join(home.work, ".bailiff"))
        place = os.path.join(home.work, ".bailiff", "policy.json")
        with open(place, "w") as f:
            json.dump({"permissions": {"defaultMode": "plan"}}, f)
        assert rpc.run("test ! -w .", cwd=home.work)[1]["exitCode"] == 0
        os.unlink(place)
        assert rpc.run("test -w .", cwd=home.work)[1]["exitCode"] == 0
        rpc.call("set_permission_mode", sessionId=session, mode="default")
        assert rpc.run("touch made", **where)[1]["exitCode"] == 0
        valid(home, rpc)


def test_pager_on_a_terminal_is_not_treated_as_reading():
    """less runs commands that are typed after an exclamation mark: neither plan nor untrusted accepts it as reading."""
    with Policed({"permissions": {"defaultMode": "untrusted"}}) as home, home.rpc() as rpc:
        with open(os.path.join(home.work, "text"), "w") as f:
            f.write("x\n")
        terminal = {"tty": {"rows": 24, "cols": 80}, "cwd": home.work}
        session = rpc.call("create_session")["sessionId"]
        rpc.call("set_permission_mode", sessionId=session, mode="plan")
        for line in ("less text", "cat text | less", "git log", "man ls"):
            assert rpc.call("start_process", commandLine=line, **terminal)["status"] == "waiting_permission", line
            rpc.fails("start_process", commandLine=line, sessionId=session, code=-32010, **terminal)
        for line, more in (("cat text", terminal), ("less text | cat", terminal), ("less text", {"cwd": home.work})):
            assert rpc.run(line, **more)[1]["exitCode"] in (0, 127), line     # 127: less is not installed


def test_the_command_line_asks_explains_and_suggests():
    with Policed(ASK) as home, home.rpc() as rpc:
        running = home.cli_start("run", "--", "touch", "made")
        action = until("it is asked", lambda: pending(rpc))[0]["actionId"]
        assert action in home.cli("pending").text
        home.cli("approve", "--note", "ok", action)
        assert running.wait(harness.PATIENCE) == 0, running.stderr.read()
        assert b"approve" in running.stderr.read()
        running.stdout.close()
        running.stderr.close()
        home.cli("run", "--yes", "--", "touch", "other")
        assert sorted(os.listdir(home.work)) == ["made", "other"], os.listdir(home.work)
        text = home.cli("policy", "explain", action).text
        for word in ("ask", "Bash(touch:*)", "policy.json", "allowed", "approvalActionId"):
            assert word in text or word == "approvalActionId", (word, text)
        error = rpc.fails("start_process", command=["rm", "x"], cwd=home.work, code=-32010)
        text = home.cli("policy", "suggest", error.data["processId"]).text
        assert "# stopped by Bash(rm:*)" in text and "permissions.allow" not in text, text
        started = ask(rpc, home, "touch", "x")
        error = rpc.fails("respond_action", actionId=started["actionId"], decision="allow", scope="always", code=-32011)
        assert "Bash(touch:*)" in error.message and "no rule that allows is stronger" in error.message, error
        assert rpc.call("resolve_permission", actionId=started["actionId"], decision="deny", note="no")["status"] == "resolved"
        assert of(rpc, started["processId"], "permission.resolved")[0]["payload"]["source"] == "host"
        valid(home, rpc)


def test_approval_prompt_shows_both_ends_of_a_long_command():
    """A long command is shown by both ends, so that padding hides nothing, and it can be read completely."""
    with Policed({"permissions": {"defaultMode": "untrusted"}}) as home, home.rpc() as rpc:
        long = ["sh", "-c", "echo " + 20000 * "a" + "; rm -rf ~"]
        started = rpc.call("start_process", command=long, cwd=home.work)
        (action,) = pending(rpc)
        assert action["prompt"].endswith("; rm -rf ~'") and "bytes left out" in action["prompt"] and len(action["prompt"]) < 2500, action["prompt"]
        assert started["prompt"] == action["prompt"] and action["policy"]["destructive"], started
        asked = of(rpc, started["processId"], "permission.requested")[0]["payload"]
        assert json.loads(rpc.call("read_output", outputRef=asked["commandRef"], length=1 << 20)["data"]) == long
        assert all(words in home.cli("policy", "explain", action["actionId"][:-3]).text for words in (20000 * "a" + "; rm -rf ~", "only a backup"))
        padded = rpc.call("start_process", command=["touch", 2500 * "a", "hidden", 2500 * "a"], cwd=home.work)["actionId"]
        assert "hidden" in home.cli("policy", "explain", padded).text and rpc.call("respond_action", actionId=padded, decision="deny")
        # A tool's effect is determined by its input.
        turn = rpc.call("submit_turn", input=[{"type": "text", "text": "go"}], options={"cwd": home.work})
        rpc.send("invoke_tool", turnId=turn["turnId"], toolName="write_file", arguments={"path": "some/file", "content": "some text"})
        written = until("it is asked", lambda: [a for a in pending(rpc) if a["turnId"] == turn["turnId"]])[0]
        assert written["prompt"].startswith(f"write_file in {home.work} ") and "some/file" in written["prompt"] and "some text" in written["prompt"], written
        reported = rpc.call("report_tool_call", status="started", turnId=turn["turnId"], toolName="deploy", arguments={"pad": 9000 * "a", "to": "production"})
        text = home.cli("policy", "explain", reported["actionId"]).text
        assert "deploy" in text and "untrusted" in text, text
        (deploys,) = [a for a in pending(rpc) if a["actionId"] == reported["actionId"]]
        assert deploys["prompt"].endswith('"to":"production"}'), deploys["prompt"]
        # A list that people can work with.
        lines = home.cli("pending").text.splitlines()
        assert len(lines) == 4 and "destructive" in [line for line in lines if action["actionId"] in line][0], lines
        mine = home.cli("pending", "--session", turn["sessionId"], "--json").json
        assert sorted(a["actionId"] for a in mine) == sorted([written["actionId"], reported["actionId"]]), mine
        home.cli("deny", action["actionId"], written["actionId"], reported["actionId"])
        assert home.cli("pending", "--json").json == []
        valid(home, rpc)


def test_command_blocked_by_the_sandbox_can_be_approved_to_run_again():
    """Mode on_failure; denials by the proxy need no audit."""
    # The name resolves to this machine: a resolver could take long to report an unknown name.
    config = {"proxyHosts": {"refused.example": "127.0.0.1"}}
    with Policed({"permissions": {"defaultMode": "on_failure"}}, config=config) as home, home.rpc() as rpc:
        script = ("import os,socket,sys\ns=socket.create_connection(('127.0.0.1',int(os.environ['HTTP_PROXY'].rsplit(':',1)[1])))\n"
                  "s.sendall(b'CONNECT refused.example:443 HTTP/1.1\\r\\nHost: refused.example:443\\r\\n\\r\\n')\nprint(s.recv(99))\nsys.exit(3)")
        one, done = rpc.run([sys.executable, "-c", script], cwd=home.work, sandbox={"network": "allow", "allowHosts": ["allowed.example", "127.0.0.1:443"]})
        assert done["exitCode"] == 3, done
        action = until("it is offered", lambda: pending(rpc))[0]
        assert action["processId"] == one["processId"] and "refused.example:443" in action["prompt"], action
        assert action["scope"]["allowHosts"] == ["refused.example:443"], action
        before = {p["processId"] for p in rpc.call("list_processes")["processes"]}
        rpc.call("respond_action", actionId=action["actionId"], decision="allow")
        again = until("it runs again", lambda: [p for p in rpc.call("list_processes")["processes"] if p["processId"] not in before])[0]
        rpc.wait(again["processId"])
        profile = of(rpc, again["processId"], "sandbox.applied")[0]["payload"]["sandboxProfile"]
        assert set(profile["allowedHosts"]) == {"allowed.example", "127.0.0.1:443", "refused.example:443"}, profile
        assert action["actionId"] in of(rpc, again["processId"], "permission.evaluated")[0]["payload"]["justification"]
        # Nothing is offered for a command that succeeds, or fails for its own reasons.
        rpc.run(["true"], cwd=home.work)
        rpc.run(["false"], cwd=home.work)
        for a in pending(rpc):
            rpc.call("respond_action", actionId=a["actionId"], decision="deny")
        assert not [p for p in rpc.call("list_processes")["processes"] if p["status"] == "running"]
        valid(home, rpc)


def lines_of(home, process):
    return [line for line in home.cli("policy", "suggest", process).text.splitlines() if not line.startswith("#")]


def test_suggested_rules_are_sufficient_and_minimal():
    """With all suggested rules the command passes; with any one missing it does not."""
    base = {"permissions": {"defaultMode": "untrusted", "allow": ["Bash(mkdir:*)"]}}
    for line in ("touch a", "touch a && mkdir b && rm -r b; ls", "env X=1 sh -c 'touch \"a b\"; touch c'", "sudo touch x"):
        with Policed(base) as home, home.rpc() as rpc:
            started = rpc.call("start_process", commandLine=line, cwd=home.work)
            assert started["status"] == "waiting_permission", started
            rpc.call("respond_action", actionId=started["actionId"], decision="deny")
            found = lines_of(home, started["processId"])
            assert found and all(one.startswith('permissions.allow "Bash(') for one in found), found
            rules = [json.loads(one.split(" ", 1)[1]) for one in found]
            assert json.loads(home.cli("policy", "suggest", "--json", started["processId"]).text)["permissions"]["allow"] == rules
            for without in [None] + rules:
                kept = [r for r in rules if r != without]
                policy(home, {"permissions": dict(base["permissions"], allow=base["permissions"]["allow"] + kept)})
                rpc.call("reload_policy")
                said = rpc.call("evaluate_permission", commandLine=line, cwd=home.work)["permissionDecision"]["decision"]
                assert said == ("ask" if without else "allow"), (line, without, said)


def own_home():
    """As the password file has it; a user without an entry has none."""
    try:
        return {"HOME": pwd.getpwuid(os.getuid()).pw_dir}
    except KeyError:
        return {}


def test_variables_that_change_what_runs_are_shown_and_bound():
    with Policed({"permissions": {"ask": ["Bash(touch:*)"]}}) as home, home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        start = {"command": ["touch", "made"], "cwd": home.work, "sessionId": session}
        odd = {"LD_PRELOAD": home.work + "/evil one.so", "PATH": home.work + ":/usr/bin", "HARMLESS": "secret-value"}
        asked = rpc.call("start_process", start, env=odd)
        shown = [f"LD_PRELOAD='{home.work}/evil one.so'", f"PATH={home.work}:/usr/bin"]
        action, = pending(rpc)
        for text in (asked["prompt"], action["prompt"], home.cli("pending").text):
            assert not [s for s in shown if s not in text] and "secret-value" not in text, text
        said = home.cli("policy", "explain", action["actionId"]).text
        assert f"with       LD_PRELOAD={home.work}/evil one.so\n" in said and f"with       PATH={home.work}:/usr/bin\n" in said, said
        evaluated = [e["payload"]["command"] for e in rpc.events() if e["type"] == "permission.evaluated" and e.get("processId") == asked["processId"]]
        assert [v["text"].split("=")[0] for v in evaluated[0]["environment"]] == ["LD_PRELOAD", "PATH"], evaluated
        # Only the command with these variables is allowed.
        rpc.call("respond_action", actionId=action["actionId"], decision="allow", scope="session")
        until("it ran", lambda: rpc.call("get_process", processId=asked["processId"])["status"] == "completed")
        for env in ({}, dict(odd, LD_PRELOAD="/another.so"), {"PATH": odd["PATH"], "HARMLESS": odd["HARMLESS"]}):
            assert rpc.call("start_process", start, env=env)["status"] == "waiting_permission", env
        assert rpc.call("start_process", start, env=odd)["status"] == "running"
        valid(home, rpc)


def test_the_users_own_home_and_a_path_that_cannot_be_written_change_nothing():
    """As clients send them along with every command, a rule that denies something else does not make them ask."""
    with Policed({"permissions": {"deny": ["Bash(rm:*)"], "ask": ["Bash(mv:*)"]}}) as home, home.rpc() as rpc:
        usual = {**own_home(), "PATH": "/opt/tools/bin:/usr/local/bin:/usr/bin:/bin:/nonexistent/bin"}

        def answer(**env):
            said = rpc.call("evaluate_permission", command=["ls"], cwd=home.work, env=env)["permissionDecision"]
            return said["decision"], said["decisionReason"]
        assert answer(**usual)[0] == "allow", answer(**usual)
        assert rpc.run(["ls"], cwd=home.work, env=usual)[1]["exitCode"] == 0
        rpc.fails("start_process", command=["rm", "x"], cwd=home.work, env=usual, code=-32010)
        for name, value in (("HOME", home.work), ("PATH", home.work + "/bin:/usr/bin"), ("PATH", "/usr/bin:/tmp/x"), ("PATH", "bin:/usr/bin"), ("PATH", ":/usr/bin"),
                            ("PATH", "/usr/bin:"), ("PATH", "/usr/../" + home.work), ("PATH", home.work), ("LD_PRELOAD", "/usr/lib/x.so")):
            said, why = answer(**{name: value})
            assert said == "ask" and f"the variable {name} is set" in why, (name, value, said, why)
        # Variables inside a command line are named too, and the CLI can evaluate it.
        said = rpc.call("evaluate_permission", commandLine="PATH=. ls", cwd=home.work)["permissionDecision"]
        assert said["decision"] == "ask" and "the variable PATH is set" in said["decisionReason"], said
        said = rpc.call("evaluate_permission", commandLine='export PATH="$HOME/.local/bin:$PATH"; ls', cwd=home.work)["permissionDecision"]
        assert said["decision"] == "allow", said
        said = rpc.call("evaluate_permission", commandLine=f'export PATH="{home.work}/bin:$PATH"; ls', cwd=home.work)["permissionDecision"]
        assert said["decision"] == "ask" and "the variable PATH is set" in said["decisionReason"], said
        home.cli("policy", "check", *(word for k, v in usual.items() for word in ("--env", f"{k}={v}")), "--", "ls")
        text = home.cli("policy", "check", "--env", f"PATH={home.work}", "--", "ls", status=1).text
        assert f"with       PATH={home.work}\n" in text and "the variable PATH is set" in text, text
        home.cli("policy", "check", "--env", "PATH", "--", "ls", status=2)


if __name__ == "__main__":
    harness.main(globals())
