"""Tools of clients are judged before they begin: by name, path, host or command; asked about and denied like commands."""

import json
import os

import harness
from harness import Home, until, valid
from test_workspace_policy import write
from test_policy import Policed, pending

RULES = {"permissions": {"deny": ["mcp__tickets__delete", "mcp__secrets", "Read(//etc/shadow)", "Read(secret.txt)", "Edit(/locked/**)",
                                  "WebFetch(domain:*.internal)", "Bash(rm:*)"],
                         "ask": ["mcp__tickets__close", "WebFetch(domain:example.com)", "Bash(git push:*)"]}}


def client_turn(rpc, **options):
    return rpc.call("submit_turn", input=[{"type": "text", "text": "go"}], options=options)


def report(rpc, turn, tool, **arguments):
    return rpc.call("report_tool_call", status="started", turnId=turn["turnId"], toolName=tool, arguments=arguments)


def refused(rpc, turn, tool, **arguments):
    before = rpc.events()[-1]["sequence"]
    error = rpc.fails("report_tool_call", status="started", turnId=turn["turnId"], toolName=tool, arguments=arguments, code=-32010)
    new = [e for e in rpc.events(after=before) if e["type"] not in ("policy.changed", "tool.catalog.resolved")]
    assert [e["type"] for e in new] == ["permission.evaluated"] and new[0]["payload"]["toolName"] == tool, new
    assert new[0]["toolCallId"] == error.data["toolCallId"], new
    decision = error.data["permissionDecision"]
    assert decision["decision"] == "deny", decision
    return decision


def test_rules_match_tools_and_their_arguments():
    with Policed(RULES) as home, home.rpc() as rpc:
        turn = client_turn(rpc, cwd=home.work)
        assert refused(rpc, turn, "mcp__tickets__delete", id=1)["ruleRefs"][0]["rule"] == "mcp__tickets__delete"
        assert refused(rpc, turn, "mcp__secrets__read")["ruleRefs"][0]["rule"] == "mcp__secrets"
        refused(rpc, turn, "Read", file_path="/etc/shadow")
        refused(rpc, turn, "Read", file_path="sub/secret.txt")
        refused(rpc, turn, "Grep", path=os.path.join(home.work, "secret.txt"))
        refused(rpc, turn, "Grep", pattern="root", path="/etc")
        refused(rpc, turn, "Edit", file_path=os.path.join(home.work, "locked/a"))
        refused(rpc, turn, "Write", file_path="locked/a")
        # An edit reads the file, and a patch can move it to another name.
        refused(rpc, turn, "Edit", file_path="secret.txt", old_string="a", new_string="b")
        refused(rpc, turn, "apply_patch", patch="*** Begin Patch\n*** Update File: secret.txt\n*** Move to: out\n@@\n+x\n*** End Patch\n")
        refused(rpc, turn, "WebFetch", url="https://user@db.internal:8443/x?y")
        refused(rpc, turn, "Bash", command="true && rm -rf x")
        # A dry run gives the same decision.
        for tool, arguments in (("mcp__tickets__delete", {}), ("Read", {"file_path": "/etc/shadow"}), ("Grep", {"pattern": "root", "path": "/etc"}),
                                ("Write", {"file_path": "locked/a"}), ("WebFetch", {"url": "https://db.internal/"}), ("Bash", {"command": "rm x"})):
            would = rpc.call("evaluate_permission", toolName=tool, arguments=arguments, cwd=home.work)
            assert would["permissionDecision"]["decision"] == "deny", (tool, would)
        for tool, arguments in (("Read", {"file_path": "open.txt"}), ("WebFetch", {"url": "https://example.org/"}), ("Bash", {"command": "ls"}), ("anything", {})):
            would = rpc.call("evaluate_permission", toolName=tool, arguments=arguments, cwd=home.work)
            assert would["permissionDecision"]["decision"] == "allow" and "tools of clients" in would["permissionDecision"]["decisionReason"], (tool, would)
        for tool, arguments in (("mcp__tickets__list", {}), ("Read", {"file_path": "open.txt"}), ("Edit", {"file_path": "open.txt"}), ("Write", {"file_path": "secret.txt"}),
                                ("WebFetch", {"url": "https://db.internal.example.org/"}), ("Bash", {"command": "ls"}), ("anything", {})):
            done = report(rpc, turn, tool, **arguments)
            assert done["status"] == "running", (tool, done)
            types = [e["type"] for e in rpc.events() if e.get("toolCallId") == done["toolCallId"]]
            assert types == ["permission.evaluated", "tool.started", "tool.args"], types
            rpc.call("report_tool_call", status="completed", toolCallId=done["toolCallId"], result={"ok": True})
        # Where programs do not agree which host that is, it may be the one that a rule is about.
        refused(rpc, turn, "WebFetch", url="https://db.internal./")
        for url in ("https://db.internal\\@example.org/", "https:db.internal/?u=://example.org/", "https:///db.internal/", "https://db%2einternal/",
                    "https://db\u3002internal/", " https://db.internal/"):
            done = report(rpc, turn, "WebFetch", url=url)
            assert done["status"] == "waiting_permission", (url, done)
            rpc.call("respond_action", actionId=done["actionId"], decision="deny")
        rpc.call("complete_turn", turnId=turn["turnId"])
        valid(home, rpc)


def test_every_file_of_a_patch_is_checked():
    """However it is written and however many there are: what the tool would write is what the rules have seen."""
    update, diff = "@@\n-old\n+new\n", "@@ -1,1 +1,1 @@\n-old\n+new\n"
    made = ["made", "*** Begin Patch\n*** Add File: made\n+-- a comment\n+++ more\n*** End Patch\n"]

    def envelope(*parts):
        return "*** Begin Patch\n" + "".join(parts) + "*** End Patch\n"

    patches = [envelope("*** Update File: locked/key\n", update), envelope("*** Update File:   locked/key  \n", update),
               envelope("*** Update File: odd\t/../locked/key\n", update), envelope("*** Update File: open\n*** Move to:  locked/new\n", update),
               envelope(*(f"*** Add File: f{i}\n+x\n" for i in range(100)), "*** Update File: locked/key\n", update),
               "".join(f"--- /dev/null\n+++ b/f{i}\n@@ -0,0 +1,1 @@\n+x\n" for i in range(100)) + "--- a/locked/key\n+++ b/locked/key\n" + diff,
               "--- locked/key\tyesterday\r\n+++ locked/key\ttoday\r\n" + diff]
    with Policed(RULES) as home, home.rpc() as rpc:
        os.makedirs(os.path.join(home.work, "locked"))
        os.makedirs(os.path.join(home.work, "odd\t"))
        for name in ("locked/key", "open"):
            with open(os.path.join(home.work, name), "w") as f:
                f.write("old\n")
        turn = client_turn(rpc, cwd=home.work)
        for patch in patches:
            done = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="apply_patch", arguments={"patch": patch})
            assert done["status"] == "failed" and "'apply_patch' is denied by Edit(/locked/**)" in done["error"]["message"], (patch[:100], done)
            would = rpc.call("evaluate_permission", toolName="apply_patch", arguments={"patch": patch}, cwd=home.work)
            assert would["permissionDecision"]["decision"] == "deny", (patch[:100], would)
        many = "".join(f"--- f{i}\n+++ f{i}\n" for i in range(3000))
        error = rpc.fails("invoke_tool", turnId=turn["turnId"], toolName="apply_patch", arguments={"patch": many}, code=-32602)
        assert "more than 2048 files" in error.message, error
        rpc.fails("evaluate_permission", toolName="apply_patch", arguments={"patch": many}, cwd=home.work, code=-32602)
        refused(rpc, turn, "apply_patch_too", patch=many)
        assert rpc.call("invoke_tool", turnId=turn["turnId"], toolName="apply_patch", arguments={"patch": made[1]})["status"] == "completed"
        assert os.listdir(os.path.join(home.work, "locked")) == ["key"] and os.path.exists(os.path.join(home.work, made[0]))


def test_approval_for_the_session_covers_the_same_arguments():
    """Bailiff's own tools read what they are to do: an answer is about that, too."""
    with Policed({"permissions": {"defaultMode": "untrusted"}}) as home, home.rpc() as rpc, home.rpc() as person:
        session = rpc.call("create_session")["sessionId"]
        turn = rpc.call("submit_turn", sessionId=session, input=[{"type": "text", "text": "go"}], options={"cwd": home.work})

        def ask(**arguments):
            rpc.send("invoke_tool", turnId=turn["turnId"], toolName="write_file", arguments=arguments)
            return until("it asks", lambda: pending(person))[0]

        first = ask(path="notes", content="mine")
        person.call("respond_action", actionId=first["actionId"], decision="allow", scope="session")
        until("it is written", lambda: os.path.exists(os.path.join(home.work, "notes")))
        until("nothing is asked", lambda: not pending(person))
        for other in ({"path": "Makefile", "content": "mine"}, {"path": "notes", "content": "not mine"}):
            person.call("respond_action", actionId=ask(**other)["actionId"], decision="deny")
            until("nothing is asked", lambda: not pending(person))
        assert not os.path.exists(os.path.join(home.work, "Makefile"))
        with open(os.path.join(home.work, "notes")) as f:
            assert f.read() == "mine"


def test_tool_starts_after_its_approval():
    with Policed(RULES) as home, home.rpc() as rpc:
        turn = client_turn(rpc)
        asked = report(rpc, turn, "mcp__tickets__close", id=7)
        assert asked["status"] == "waiting_permission", asked
        action, = pending(rpc)
        assert action["actionId"] == asked["actionId"] and "mcp__tickets__close" in action["prompt"] and '"id":7' in action["prompt"], action
        assert "tool.started" not in [e["type"] for e in rpc.events() if e.get("toolCallId") == asked["toolCallId"]]
        rpc.call("respond_action", actionId=asked["actionId"], decision="allow")
        until("it begins", lambda: [e for e in rpc.events() if e["type"] == "tool.started" and e["toolCallId"] == asked["toolCallId"]])
        rpc.call("report_tool_call", status="completed", toolCallId=asked["toolCallId"], result="closed")
        # An approval for once applies once; one for the session applies to the same call with the same arguments.
        again = report(rpc, turn, "mcp__tickets__close", id=7)
        assert again["status"] == "waiting_permission"
        rpc.call("respond_action", actionId=again["actionId"], decision="allow", scope="session")
        until("it begins", lambda: [e for e in rpc.events() if e["type"] == "tool.started" and e["toolCallId"] == again["toolCallId"]])
        assert report(rpc, turn, "mcp__tickets__close", id=7)["status"] == "running"
        other = report(rpc, turn, "mcp__tickets__close", id=8)
        assert other["status"] == "waiting_permission"
        rpc.call("respond_action", actionId=other["actionId"], decision="deny", note="keep it")
        ended = [e for e in rpc.events() if e.get("toolCallId") == other["toolCallId"]]
        assert ended[-1]["type"] in ("tool.failed", "permission.resolved") and "tool.started" not in [e["type"] for e in ended], ended
        assert [e for e in ended if e["type"] == "tool.failed"][0]["payload"]["category"] == "permission"
        rpc.fails("respond_action", actionId=other["actionId"], decision="allow", code=-32009)
        # An agent cannot answer for itself.
        with home.rpc() as agent:
            agent.call("initialize", role="agent")
            waiting = report(agent, turn, "mcp__tickets__close", id=9)
            agent.fails("respond_action", actionId=waiting["actionId"], decision="allow", code=-32003)
        with home.rpc() as alone:
            alone.call("initialize", interactive=False)
            alone.fails("report_tool_call", status="started", turnId=turn["turnId"], toolName="mcp__tickets__close", arguments={"id": 10}, code=-32010)
        valid(home, rpc)


def test_end_of_a_denied_call_names_the_decision():
    """tool.failed has the event of the decision, for each way to deny a call: before and after a question, with and without a process."""
    rules = {"deny": ["wipe", "Bash(rm:*)", "Edit(/locked/**)"], "ask": ["ship", "Bash(mv:*)"]}
    with Policed({"permissions": rules}) as home, home.rpc() as rpc, home.rpc() as owner:
        owner.call("register_tools", tools=[{"name": n} for n in ("ship", "wipe")])
        calls = [("wipe", {}), ("ship", {}), ("shell", {"command": "rm x"}), ("shell", {"command": "mv x y"}),
                 ("write_file", {"path": "locked/x", "content": ""})]
        for tool, arguments in calls:
            before = rpc.events()[-1]["sequence"]
            rpc.call("submit_turn", input=[{"type": "tool_call", "toolName": tool, "arguments": arguments}], options={"cwd": home.work})

            def failed():
                for action in pending(rpc):
                    rpc.call("respond_action", actionId=action["actionId"], decision="deny")
                return [e for e in rpc.events(after=before) if e["type"] == "tool.failed"]

            event = until("it is denied", failed)[0]
            decided = [e for e in rpc.events(after=before) if e["type"] == "permission.evaluated"]
            assert event["payload"]["category"] == "permission", event
            assert event["payload"]["permissionRef"] == decided[-1]["eventId"] and event["sequence"] > decided[-1]["sequence"], (tool, event, decided)
            assert decided[-1]["toolCallId"] == event["toolCallId"], decided


def owner_answers(owner, seen):
    """The registered tool's owner: does whatever begins."""
    for e in owner.events():
        if e["type"] == "tool.started" and e["payload"].get("runner") == "external" and e["toolCallId"] not in seen:
            seen.append(e["toolCallId"])
            owner.call("report_tool_call", status="completed", toolCallId=e["toolCallId"], result="done")


def test_rules_apply_to_registered_tools_in_turns():
    with Policed({"permissions": {"deny": ["wipe"], "ask": ["ship"]}}) as home, home.rpc() as rpc, home.rpc() as owner:
        owner.call("register_tools", tools=[{"name": n, "isDestructive": n == "ship"} for n in ("look", "ship", "wipe")])
        seen = []
        turn = client_turn(rpc)
        error = rpc.fails("invoke_tool", turnId=turn["turnId"], toolName="wipe", arguments={}, code=-32010)
        assert error.data["permissionDecision"]["ruleRefs"][0]["rule"] == "wipe"
        late = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="ship", arguments={}, timeoutMs=50)
        assert late["status"] == "waiting_permission", late
        rpc.call("respond_action", actionId=pending(rpc)[0]["actionId"], decision="deny")
        assert rpc.call("invoke_tool", turnId=turn["turnId"], toolName="ship", arguments={}, toolCallId=late["toolCallId"])["status"] == "failed"
        waiting = rpc.send("invoke_tool", turnId=turn["turnId"], toolName="ship", arguments={"to": "prod"})
        action = until("it is asked", lambda: [a for a in pending(rpc) if "prod" in a["prompt"]])[0]
        assert action["policy"]["destructive"], action
        owner_answers(owner, seen)
        assert not seen
        rpc.call("respond_action", actionId=action["actionId"], decision="allow")
        until("its owner does it", lambda: owner_answers(owner, seen) or seen)
        assert rpc.reply(waiting)["status"] == "completed"
        rpc.call("complete_turn", turnId=turn["turnId"])
        # A turn of its own: what is denied fails its part, and nothing of it began; what is asked holds the turn up.
        def run(*tools, **options):
            return rpc.call("submit_turn", input=[{"type": "tool_call", "toolName": t, "arguments": {}} for t in tools], options=options)["turnId"]

        def ended(turn):
            owner_answers(owner, seen)
            return [e for e in rpc.events() if e.get("turnId") == turn and e["type"] in ("turn.completed", "turn.failed")]

        failed = until("it ends", lambda t=run("look", "wipe", "look"): ended(t))[0]
        assert failed["type"] == "turn.failed" and failed["payload"]["category"] == "permission", failed
        assert len([e for e in rpc.events() if e.get("turnId") == failed["turnId"] and e["type"] == "tool.started"]) == 1
        one = until("it ends", lambda t=run("wipe", "look", stopOnFailure=False): ended(t))[0]
        assert [e["payload"]["toolName"] for e in rpc.events() if e.get("turnId") == one["turnId"] and e["type"] == "tool.started"] == ["look"]
        turn = run("look", "ship", "look")
        action = until("it is asked", lambda: owner_answers(owner, seen) or [a for a in pending(rpc) if a["turnId"] == turn])[0]
        home.kill_part("runtime")
        until("it answers", home.answers)
        with home.rpc() as rpc2, home.rpc() as owner2:
            owner2.call("register_tools", tools=[{"name": n} for n in ("look", "ship", "wipe")])
            rpc2.call("respond_action", actionId=action["actionId"], decision="allow")

            def over():
                owner_answers(owner2, seen)
                return [e for e in rpc2.events() if e.get("turnId") == turn and e["type"] in ("turn.completed", "turn.failed")]
            assert until("it ends", over)[0]["type"] == "turn.completed"
            for a in pending(rpc2):
                rpc2.call("respond_action", actionId=a["actionId"], decision="deny")
            valid(home, rpc2)


def test_modes_and_workspaces_apply_to_tools():
    with Policed({"permissions": {"allow": ["mcp__tickets__list"]}}) as home, home.rpc() as rpc:
        session = rpc.call("create_session", title="t")["sessionId"]
        turn = rpc.call("submit_turn", sessionId=session, input=[{"type": "text", "text": "go"}], options={"cwd": home.work})
        rpc.call("set_permission_mode", sessionId=session, mode="plan")
        refused(rpc, turn, "mcp__tickets__close")
        assert report(rpc, turn, "Read", file_path="x")["status"] == "running"
        rpc.call("set_permission_mode", sessionId=session, mode="untrusted")
        assert report(rpc, turn, "mcp__tickets__list")["status"] == "running"
        asked = report(rpc, turn, "mcp__tickets__close")
        assert asked["status"] == "waiting_permission"
        done = rpc.call("respond_action", actionId=asked["actionId"], decision="allow", scope="always")
        assert done["rules"] == ["mcp__tickets__close"], done
        assert json.load(open(os.path.join(home.dir, "policy.json")))["permissions"]["allow"] == ["mcp__tickets__list", "mcp__tickets__close"]
        until("it begins", lambda: [e for e in rpc.events() if e["type"] == "tool.started" and e["toolCallId"] == asked["toolCallId"]])
        assert report(rpc, turn, "mcp__tickets__close")["status"] == "running"
        write(home.work, {"permissions": {"deny": ["mcp__tickets"]}})
        assert refused(rpc, turn, "mcp__tickets__list")["ruleRefs"][0]["layer"] == "workspace"
        valid(home, rpc)


def test_unknown_paths_are_not_allowed():
    """A file that the call does not name where rules look for it, and a workspace that the turn misnames."""
    with Policed(RULES) as home, home.rpc() as rpc:
        turn = client_turn(rpc, cwd=home.work)
        for tool, arguments in (("Read", {"uri": "secret.txt"}), ("Read", {"file_path": ["secret.txt"]}), ("Edit", {"edits": []}), ("Write", {})):
            done = report(rpc, turn, tool, **arguments)
            assert done["status"] == "waiting_permission", (tool, arguments, done)
            rpc.call("respond_action", actionId=done["actionId"], decision="deny")
        rpc.call("complete_turn", turnId=turn["turnId"])
    with Home() as home, home.rpc() as rpc:
        write(home.work, {"permissions": {"deny": ["mcp__tickets__delete"]}})
        turn = client_turn(rpc, cwd=home.work, sandbox={"workspace": os.path.join(home.dir, "elsewhere")})
        refused(rpc, turn, "mcp__tickets__delete", id=1)


def test_unreadable_policy_denies_everything():
    """Also in a turn that began before: a daemon that comes back to a file that it cannot use knows no rules."""
    with Home() as home:
        with home.rpc() as rpc:
            turn = client_turn(rpc, cwd=home.work)
        home.stop()
        with open(os.path.join(home.dir, "policy.json"), "w") as f:
            f.write("{")
        home.start()
        with home.rpc() as rpc:
            for tool, arguments in (("Bash", {"command": "rm x"}), ("Read", {"file_path": "x"}), ("anything", {})):
                assert "cannot be read" in refused(rpc, turn, tool, **arguments)["decisionReason"]
            rpc.fails("start_process", command=["true"], cwd=home.work)
            assert not [e for e in rpc.events() if e["type"] in ("tool.started", "process.started")]


def test_approval_for_the_session_is_bound_to_its_workspace():
    with Policed({"permissions": {"ask": ["Edit"]}}) as home, home.rpc() as rpc:
        first = client_turn(rpc, cwd=home.work)
        done = report(rpc, first, "Edit", file_path="notes")
        rpc.call("respond_action", actionId=done["actionId"], decision="allow", scope="session")
        until("it begins", lambda: [e for e in rpc.events() if e["type"] == "tool.started"])
        again = report(rpc, first, "Edit", file_path="notes")
        assert again["status"] == "running"
        for call in (done, again):
            rpc.call("report_tool_call", status="completed", toolCallId=call["toolCallId"], result={})
        rpc.call("complete_turn", turnId=first["turnId"])
        other = os.path.join(home.dir, "other")
        os.mkdir(other)
        second = rpc.call("submit_turn", sessionId=first["sessionId"], input=[{"type": "text", "text": "go"}], options={"cwd": other})
        assert report(rpc, second, "Edit", file_path="notes")["status"] == "waiting_permission", "the same name is another file there"


if __name__ == "__main__":
    harness.main(globals())
