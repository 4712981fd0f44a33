"""The rules of a session: the lowest layer, durable, explained by session and number; no agent can widen its own."""

import json
import os
import subprocess

import harness
from harness import Home, Skip, until, valid
from test_workspace_policy import write
from test_policy import Policed, ask, of, pending, policy

RULES = {"deny": ["Bash(shred:*)", "Bash(rm:*)", "Edit(/locked/**)"], "ask": ["Bash(touch:*)"], "allow": ["Bash(mkdir:*)"]}


def session_of(rpc, **permissions):
    return rpc.call("create_session", permissions=permissions)["sessionId"]


def said(rpc, home, session, line, **more):
    return rpc.call("evaluate_permission", commandLine=line, cwd=home.work, sessionId=session, **more)["permissionDecision"]


def answers(rpc, home, session, *lines):
    return [said(rpc, home, session, line)["decision"] for line in lines]


def file_in(home, what, name="session.json"):
    path = os.path.join(home.dir, name)
    with open(path, "w") as f:
        f.write(what if isinstance(what, str) else json.dumps(what, indent=1))
    return path


def test_session_rules_on_the_command_line(home):
    file = file_in(home, name="rules.json", what={"permissions": RULES, "prefixRules": [{"pattern": ["git", "push"], "decision": "forbidden", "justification": "others see it"}]})
    session = home.cli("session", "create", "--title", "t", "--policy", file).text.strip()
    open(os.path.join(home.work, "keep"), "w").close()
    refused = home.cli("run", "--session", session, "--", "rm", "keep", cwd=home.work, status=126)
    assert f"'rm keep' is denied by Bash(rm:*) of session {session} (deny rule 2)" in refused.err.decode(), refused.err
    assert os.path.exists(os.path.join(home.work, "keep"))
    with home.rpc() as rpc:
        process, = [e["processId"] for e in rpc.events(types=["permission.evaluated"])]
        evaluated, = of(rpc, process, "permission.evaluated")
        refs = evaluated["payload"]["permissionDecision"]["ruleRefs"]
        assert refs == [{"sessionId": session, "list": "deny", "number": 2, "rule": "Bash(rm:*)", "effect": "deny", "layer": "session"}], refs
    told = home.cli("policy", "explain", process).text
    assert f"Bash(rm:*)  (deny, session {session}, deny rule 2)" in told, told
    told = home.cli("policy", "suggest", process).text
    assert f"stopped by Bash(rm:*) of session {session}, deny rule 2" in told, told
    told = home.cli("policy", "check", "--session", session, "--", "git", "push", cwd=home.work, status=1).text
    assert "others see it" in told and f"(deny, session {session}, prefix rule 1)" in told, told
    assert "allow" in home.cli("policy", "check", "--", "git", "push", cwd=home.work).text, "in no session"
    shown = home.cli("policy", "show", "--session", session, cwd=home.work).text
    assert any(line.split()[0] == "deny" and "Bash(rm:*)" in line and session in line and " 2 " in line for line in shown.splitlines()), shown
    # Replaced as a whole, and cleared.
    home.cli("session", "update", session, "--policy", file_in(home, {"permissions": {"deny": ["Bash(mv:*)"]}}))
    home.cli("run", "--session", session, "--", "rm", "keep", cwd=home.work)
    home.cli("run", "--session", session, "--", "mv", "a", "b", cwd=home.work, status=126)
    home.cli("session", "update", session, "--no-policy")
    home.cli("run", "--session", session, "--", "sh", "-c", "touch a && mv a b", cwd=home.work)
    assert session not in home.cli("policy", "show", "--session", session, cwd=home.work).text
    # The error names keys that are not allowed here.
    for what, names in (({"hooks": {}}, "hooks"), ({"permissions": {"defaultMode": "plan"}}, "permissions.defaultMode"), ({"profiles": {}}, "profiles"),
                        ("{", "line 1"), ("[]", "object"), ({"permissions": []}, "permissions"), ({"permissions": {"deny": ["Bash(x)", "Bash(x"]}}, "permissions.deny[1]")):
        error = home.cli("session", "update", session, "--policy", file_in(home, what), status=1).err.decode()
        assert names in error, (what, error)
        linted = home.cli("policy", "lint", "--layer", "session", file_in(home, what), status=1).text
        assert names in linted, (what, linted)
    assert "6 rules" in home.cli("policy", "lint", "--layer", "session", file).text
    home.cli("session", "update", session, "--policy", "/nowhere", status=1)
    home.cli("session", "update", session, "--policy", file, "--no-policy", status=2)


def test_session_rules_allow_ask_and_deny():
    with Policed({"permissions": {"defaultMode": "untrusted"}}) as home, home.rpc() as rpc:
        session = session_of(rpc, **RULES)
        assert answers(rpc, home, session, "ls", "mkdir x", "rm x", "touch x", "cp a b") == ["allow", "allow", "deny", "ask", "ask"]
        assert answers(rpc, home, rpc.call("create_session")["sessionId"], "mkdir x", "rm x") == ["ask", "ask"], "another session's are none of its"
        decision = said(rpc, home, session, "mkdir x")
        assert decision["decisionSource"] == "rule" and f"Bash(mkdir:*) of session {session} (allow rule 1)" in decision["decisionReason"], decision
        assert rpc.run(["mkdir", "x"], cwd=home.work, sessionId=session)[1]["exitCode"] == 0
        # Asked, answered once, and answered for the session.
        first = ask(rpc, home, "touch", "a", sessionId=session)
        assert f"of session {session} (ask rule 1)" in pending(rpc)[0]["prompt"] + json.dumps(of(rpc, first["processId"], "permission.evaluated")), pending(rpc)
        rpc.call("respond_action", actionId=first["actionId"], decision="allow")
        assert rpc.wait(first["processId"])["exitCode"] == 0
        again = ask(rpc, home, "touch", "a", sessionId=session)
        rpc.call("respond_action", actionId=again["actionId"], decision="allow", scope="session")
        assert rpc.wait(again["processId"])["exitCode"] == 0
        assert rpc.run(["touch", "a"], cwd=home.work, sessionId=session)[1]["exitCode"] == 0
        # No persistent answer overrides the session's rule, and the error says so; an answer to a mode's question becomes a user rule.
        lasting = ask(rpc, home, "touch", "b", sessionId=session)
        error = rpc.fails("respond_action", actionId=lasting["actionId"], decision="allow", scope="always")
        assert f"session {session}, ask rule 1" in error.message, error.message
        rpc.call("respond_action", actionId=lasting["actionId"], decision="deny")
        lasting = ask(rpc, home, "cp", "a", "b", sessionId=session)
        assert rpc.call("respond_action", actionId=lasting["actionId"], decision="allow", scope="always")["rules"] == ["Bash(cp a b)"]
        assert rpc.wait(lasting["processId"])["exitCode"] == 0
        # What a session allows does not persist: the persistent rule contains everything that it needs in other sessions.
        lasting = ask(rpc, home, "sh", "-c", "mkdir y && cp a c", sessionId=session)
        assert rpc.call("respond_action", actionId=lasting["actionId"], decision="allow", scope="always")["rules"] == ["Bash(mkdir y)", "Bash(cp a c)"]
        rpc.wait(lasting["processId"])
        # Plan mode permits no changes, whatever is allowed.
        rpc.call("set_permission_mode", sessionId=session, mode="plan")
        assert answers(rpc, home, session, "mkdir z") == ["deny"]
        valid(home, rpc)


def test_deny_over_ask_over_allow_across_the_layers():
    with Policed({"permissions": {"defaultMode": "untrusted", "deny": ["Bash(shred:*)"], "ask": ["Bash(cp:*)"], "allow": ["Bash(mkdir:*)", "Bash(chmod:*)"]}}) as home, \
            home.rpc() as rpc:
        write(home.work, {"permissions": {"deny": ["Bash(mv:*)"], "ask": ["Bash(ln:*)"]}})
        session = session_of(rpc, allow=["Bash"], deny=["Bash(mkdir:*)"], ask=["Bash(chmod:*)"])

        def by(line):
            decision = said(rpc, home, session, line)
            return decision["decision"], decision["ruleRefs"][0]["layer"]
        assert by("shred x") == ("deny", "user") and by("cp a b") == ("ask", "user")
        assert by("mv a b") == ("deny", "workspace") and by("ln a b") == ("ask", "workspace")
        assert by("mkdir x") == ("deny", "session") and by("chmod 1 x") == ("ask", "session")
        assert by("touch x") == ("allow", "session") and by("touch x && mv a b") == ("deny", "workspace")
        policy_layers = {(s["layer"], s.get("sessionId")) for s in rpc.call("get_policy", sessionId=session, cwd=home.work)["sources"]}
        assert ("session", session) in policy_layers and {"user", "workspace"} <= {l for l, _ in policy_layers}, policy_layers
        # The files can restrict sessions to tightening: existing rules are ignored immediately, and new ones rejected.
        policy(home, {"permissions": {"defaultMode": "untrusted", "sessionAllow": False}})
        rpc.call("reload_policy")
        assert answers(rpc, home, session, "touch x", "mkdir x", "chmod 1 x") == ["ask", "deny", "ask"]
        assert any("sessionAllow" in n for n in rpc.call("get_policy", sessionId=session)["notes"])
        error = rpc.fails("update_session", sessionId=session, permissions={"allow": ["Bash", "Bash(touch:*)"]}, code=-32003)
        assert error.data["field"] == "permissions.allow[1]" and "sessionAllow" in error.message, error.message
        rpc.call("update_session", sessionId=session, permissions={"deny": ["Bash(touch:*)"]})
        assert answers(rpc, home, session, "touch x") == ["deny"]


def test_agent_can_only_tighten_session_rules(home):
    with home.rpc() as rpc, home.rpc() as agent:
        agent.call("initialize", role="agent")
        before = {"deny": ["Bash(rm:*)"], "ask": ["Bash(touch:*)"], "allow": ["Bash(mkdir:*)"],
                  "prefixRules": [{"pattern": ["git", "push"], "decision": "forbidden"}, {"pattern": ["make"], "decision": "allow"}]}
        session = session_of(rpc, **before)

        def refused(field, **permissions):
            error = agent.fails("update_session", sessionId=session, title="mine", permissions=permissions, code=-32003)
            assert error.data["field"] == field and error.message.startswith(field) and "agent" in error.message, (permissions, error.message)
            now = agent.call("get_session", sessionId=session)
            assert now["permissions"] == before and "title" not in now, now
        error = agent.fails("create_session", sessionId="sess_own", permissions={"deny": ["Bash(rm:*)"], "allow": ["Bash(ls)", "Bash"]}, code=-32003)
        assert error.data["field"] == "permissions.allow[0]", error.message
        agent.fails("get_session", sessionId="sess_own", code=-32004)
        refused("permissions.allow[1]", **dict(before, allow=["Bash(mkdir:*)", "Bash(rm:*)"]))
        refused("permissions.deny", **dict(before, deny=[]))
        refused("permissions.deny")
        refused("permissions.deny", **dict(before, deny=["Bash(rm -rf:*)"]))
        refused("permissions.deny", **dict(before, deny=[], ask=before["ask"] + before["deny"]))
        refused("permissions.ask", **dict(before, ask=[]))
        refused("permissions.prefixRules", **dict(before, prefixRules=before["prefixRules"][1:]))
        refused("permissions.prefixRules", **dict(before, prefixRules=[dict(before["prefixRules"][0], decision="prompt"), before["prefixRules"][1]]))
        refused("permissions.prefixRules[2]", **dict(before, prefixRules=before["prefixRules"] + [{"pattern": ["cargo"]}]))
        refused("permissions.prefixRules[2]", **dict(before, prefixRules=before["prefixRules"] + [{"pattern": ["cargo"], "decision": "allow"}]))
        # Other ways fail, too: an agent cannot emit the events, set the mode or answer.
        agent.fails("emit_events", sessionId=session, events=[{"type": "policy.changed", "payload": {"layer": "session", "permissions": {}}}])
        agent.fails("emit_events", sessionId=session, events=[{"type": "session.updated", "payload": {"permissions": {}}}])
        agent.fails("set_permission_mode", sessionId=session, mode="default", code=-32003)
        assert rpc.call("get_session", sessionId=session)["permissions"] == before
        # Tightening is accepted: more denials, deny instead of ask, fewer allow rules.
        after = {"deny": ["Bash(touch:*)", "Bash(rm:*)", "Bash(mv:*)"], "prefixRules": before["prefixRules"][:1]}
        agent.call("update_session", sessionId=session, permissions=after)
        assert agent.call("get_session", sessionId=session)["permissions"] == after
        assert answers(agent, home, session, "touch x", "mv a b", "git push") == ["deny"] * 3
        changed = [e for e in rpc.events(types=["policy.changed"]) if e["sessionId"] == session]
        assert [e["payload"]["by"]["role"] for e in changed] == ["operator", "agent"], changed
        assert changed[1]["payload"]["permissions"] == after and changed[1]["payload"]["oldHash"] == changed[0]["payload"]["newHash"], changed
        own = agent.call("create_session", permissions={"deny": ["Bash(rm:*)"], "ask": ["Bash(mv:*)"]})["sessionId"]
        assert answers(agent, home, own, "rm x", "mv a b") == ["deny", "ask"]
        agent.fails("update_session", sessionId=own, permissions={}, code=-32003)
        rpc.call("update_session", sessionId=own, permissions={})
        assert "permissions" not in rpc.call("get_session", sessionId=own)
        with home.rpc() as observer:
            observer.call("initialize", role="observer")
            observer.fails("update_session", sessionId=session, permissions={"deny": ["Bash"]}, code=-32003)
        valid(home, rpc)


def test_only_approvers_can_add_allow_rules():
    with Home(config={"approvers": {"uids": [4242]}}) as home, home.rpc() as rpc:
        error = rpc.fails("create_session", permissions={"allow": ["Bash"]}, code=-32003)
        assert error.data["field"] == "permissions.allow[0]" and "approvers" in error.message, error.message
        session = session_of(rpc, deny=["Bash(rm:*)"])
        assert "approvers" in rpc.fails("update_session", sessionId=session, permissions={}, code=-32003).message
        rpc.call("update_session", sessionId=session, permissions={"deny": ["Bash(rm:*)"], "ask": ["Bash(mv:*)"]})
        assert answers(rpc, home, session, "rm x", "mv a b") == ["deny", "ask"]


def test_session_of_another_user_is_unknown(home):
    if os.geteuid() != 0:
        raise Skip("needs root to become another user")
    with home.rpc() as rpc:
        session = session_of(rpc, deny=["Bash(rm:*)"])
        os.chmod(home.dir, 0o755)
        os.chmod(home.socket, 0o666)
        code = ("import json,socket,sys\n"
                "s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f=s.makefile('rw')\n"
                "for m,p in (('update_session',{'sessionId':sys.argv[2],'permissions':{}}),('update_session',{'sessionId':sys.argv[2],'permissions':{'deny':['Bash']}}),\n"
                "            ('create_session',{'sessionId':sys.argv[2],'permissions':{}}),('get_policy',{'sessionId':sys.argv[2]})):\n"
                "    f.write(json.dumps({'jsonrpc':'2.0','id':1,'method':m,'params':p})+'\\n'); f.flush(); print(f.readline().strip())\n")
        done = subprocess.run(["setpriv", "--reuid=61235", "--regid=61235", "--clear-groups", "/usr/bin/python3", "-c", code, home.socket, session],
                              capture_output=True, text=True, timeout=harness.PATIENCE)
        replies = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
        if replies and replies[0]["error"]["code"] == -32004:
            assert [r["error"]["code"] for r in replies] == [-32004, -32004, -32009, -32004], replies
        else:
            assert done.returncode or replies[0]["error"]["code"] == -32003, done
        assert rpc.call("get_session", sessionId=session)["permissions"] == {"deny": ["Bash(rm:*)"]}


def test_session_rules_apply_to_everything_in_it_and_after_a_restart():
    with Home() as home:
        with home.rpc() as rpc:
            made = rpc.call("create_session", permissions=RULES)
            session = made["sessionId"]
        for _ in range(2):
            with home.rpc() as rpc:
                assert rpc.call("get_session", sessionId=session)["permissions"] == RULES
                where = {"cwd": home.work, "sessionId": session}

                def denied(**ids):
                    return [e for e in rpc.events(types=["process.failed"]) if e["payload"]["category"] == "permission" and ids.items() <= e.items()]
                for more in ({}, {"tty": {"rows": 24, "cols": 80}}):
                    error = rpc.fails("start_process", commandLine="true; rm x", code=-32010, **where, **more)
                    assert error.data["permissionDecision"]["ruleRefs"][0]["sessionId"] == session, error.data
                task = rpc.call("create_task", objective="o", sessionId=session, cwd=home.work, command=["rm", "x"])["taskId"]
                rpc.call("start_task", taskId=task)
                until("the task was denied", lambda: denied(taskId=task))
                child = rpc.call("spawn_subagent", sessionId=session, threadId=made["threadId"], role="r", command=["rm", "x"], cwd=home.work)
                until("the child was denied", lambda: denied(threadId=child["threadId"]))
                turn = rpc.call("submit_turn", sessionId=session, input=[{"type": "text", "text": "go"}], options={"cwd": home.work})
                for tool, arguments in (("Bash", {"command": "rm x"}), ("Edit", {"file_path": "locked/x"})):
                    error = rpc.fails("report_tool_call", status="started", turnId=turn["turnId"], toolName=tool, arguments=arguments, code=-32010)
                    assert f"of session {session}" in error.data["permissionDecision"]["decisionReason"], error.data
                done = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="write_file", arguments={"path": "locked/x", "content": "y"})
                assert done["status"] == "failed" and not os.path.exists(os.path.join(home.work, "locked")), done
                rpc.call("complete_turn", turnId=turn["turnId"])
                valid(home, rpc)
            home.restart()


def test_changed_rules_apply_to_pending_approvals(home):
    with home.rpc() as rpc:
        session = session_of(rpc, ask=["Bash(touch:*)"])
        denied, allowed = (ask(rpc, home, "touch", name, sessionId=session) for name in ("denied", "allowed"))
        rpc.call("update_session", sessionId=session, permissions={"deny": ["Bash(touch denied)"]})
        for started in (denied, allowed):
            rpc.call("respond_action", actionId=started["actionId"], decision="allow")
        until("both have ended", lambda: all(rpc.call("get_process", processId=s["processId"])["status"] in ("failed", "completed", "exited") for s in (denied, allowed)))
        assert sorted(os.listdir(home.work)) == ["allowed"]
        decision = of(rpc, denied["processId"], "permission.evaluated")[-1]["payload"]["permissionDecision"]
        assert decision["decision"] == "deny" and decision["ruleRefs"][0]["number"] == 1, decision
        # A change applies to every later decision, even while it is still being written.
        for i in range(10):
            update = rpc.send("update_session", sessionId=session, permissions={"deny": ["Bash(touch:*)"]} if i % 2 else {})
            judged = rpc.send("evaluate_permission", commandLine="touch x", cwd=home.work, sessionId=session)
            assert rpc.reply(judged)["permissionDecision"]["decision"] == ("deny" if i % 2 else "allow")
            rpc.reply(update)


def test_invalid_rules_are_rejected_as_a_whole(home):
    with home.rpc() as rpc:
        session = session_of(rpc, deny=["Bash(rm:*)"])
        long = "Bash(" + "x" * 900 + "{})"
        for permissions, field in (({"deny": ["Bash(a)", "Bash(b"]}, "permissions.deny[1]"), ({"ask": [7]}, "permissions.ask[0]"), ({"allow": "Bash"}, "permissions.allow"),
                                   ({"hooks": {}}, "permissions.hooks"), ({"defaultMode": "plan"}, "permissions.defaultMode"), ({"allowBypass": True}, "permissions.allowBypass"),
                                   ({"deny": ["Bash(" + "x" * 2000 + ")"]}, "permissions.deny[0]"), ({"deny": [f"Bash(c{i})" for i in range(257)]}, "permissions.deny[256]"),
                                   ({"deny": [long.format(i) for i in range(20)]}, "permissions"), ({"prefixRules": [{}]}, "permissions.prefixRules[0].pattern"),
                                   ({"prefixRules": [{"pattern": ["a"], "match": ["b"]}]}, "permissions.prefixRules[0].match"), ([], "permissions"), ("Bash", "permissions")):
            for method, more in (("update_session", {"sessionId": session}), ("create_session", {"sessionId": "sess_new"})):
                error = rpc.fails(method, title="t", permissions=permissions, code=-32602, **more)
                assert error.data["field"] == field and field in error.message, (permissions, error.message)
        for method, more in (("update_session", {"sessionId": session}), ("create_session", {})):
            assert "hooks" in rpc.fails(method, hooks={}, code=-32602, **more).message
        now = rpc.call("get_session", sessionId=session)
        assert now["permissions"] == {"deny": ["Bash(rm:*)"]} and "title" not in now, now
        rpc.fails("get_session", sessionId="sess_new", code=-32004)
        rpc.fails("update_session", sessionId="sess_none", permissions={}, code=-32004)
        system = next(s["sessionId"] for s in rpc.call("list_sessions")["sessions"] if s["kind"] == "system")
        assert "own session" in rpc.fails("update_session", sessionId=system, permissions={"deny": ["Bash"]}, code=-32602).message
        # Repeating it has no effect.
        last = rpc.events()[-1]["sequence"]
        rpc.call("update_session", sessionId=session, permissions={"deny": ["Bash(rm:*)"], "ask": []})
        assert rpc.events()[-1]["sequence"] == last
        assert [e["payload"]["summary"] for e in rpc.events(types=["policy.changed"]) if e["sessionId"] == session] == ["the session's own rules: 1 deny"]


if __name__ == "__main__":
    harness.main(globals())
