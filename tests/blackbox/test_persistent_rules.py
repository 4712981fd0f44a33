"""Persistent answers: scope `always` adds a visible rule to the user's own policy file, and nowhere else."""

import json
import os
import stat

import harness
from harness import Home, until, valid
from test_policy import Policed, ask, of, pending, policy

UNTRUSTED = {"permissions": {"defaultMode": "untrusted"}}


def file_of(home):
    return os.path.join(home.dir, "policy.json")


def text_of(home):
    with open(file_of(home)) as f:
        return f.read()


def test_allow_always_writes_a_rule():
    text = '{\n' + '    "permissions": {\n        "defaultMode": "untrusted",\n        "allow": [\n            "Bash(make:*)"\n        ]\n    }\n}\n'
    with Policed(text) as home, home.rpc() as rpc:
        os.chmod(file_of(home), 0o640)
        started = ask(rpc, home, "touch", "made")
        done = rpc.call("respond_action", actionId=started["actionId"], decision="allow", scope="always")
        assert done["rules"] == ["Bash(touch made)"] and done["file"] == file_of(home) and done["line"] == 6, done
        assert rpc.wait(started["processId"])["exitCode"] == 0
        # The rest of the file is unchanged, byte for byte.
        assert text_of(home) == text.replace('"Bash(make:*)"\n', '"Bash(make:*)",\n            "Bash(touch made)"\n'), text_of(home)
        assert stat.S_IMODE(os.stat(file_of(home)).st_mode) == 0o640
        assert not [n for n in os.listdir(home.dir) if n.startswith(".policy")]
        resolved, = of(rpc, started["processId"], "permission.resolved")
        assert resolved["payload"]["scope"] == "always" and resolved["payload"]["file"] == file_of(home) and resolved["payload"]["line"] == 6
        # In effect immediately, in any session, for exactly this command.
        assert rpc.run(["touch", "made"], cwd=home.work)[1]["exitCode"] == 0
        evaluated = rpc.call("evaluate_permission", command=["touch", "made"], cwd=home.work)["permissionDecision"]
        assert evaluated["decisionSource"] == "rule" and evaluated["ruleRefs"][0]["line"] == 6, evaluated
        ask(rpc, home, "touch", "made", "other")
        ask(rpc, home, "touch")
        assert [e for e in rpc.events() if e["type"] == "policy.changed" and e["payload"]["layer"] == "user"]
        home.restart()
        with home.rpc() as again:
            assert again.run(["touch", "made"], cwd=home.work)[1]["exitCode"] == 0
            valid(home, again)


def test_approve_always_creates_a_missing_policy_file():
    with Home() as home, home.rpc() as rpc:
        assert not os.path.exists(file_of(home))
        session = rpc.call("create_session", title="t")["sessionId"]
        rpc.call("set_permission_mode", sessionId=session, mode="untrusted")
        one = ask(rpc, home, "rm", "-r", "gone", sessionId=session)
        home.cli("approve", "--always", one["actionId"])
        rpc.wait(one["processId"])
        assert json.loads(text_of(home)) == {"permissions": {"allow": ["Bash(rm -r gone)"]}}, text_of(home)
        assert stat.S_IMODE(os.stat(file_of(home)).st_mode) == 0o600
        two = ask(rpc, home, "mkdir", "sub", sessionId=session)
        home.cli("deny", "--always", two["actionId"])
        assert rpc.wait(two["processId"])["status"] == "failed"
        assert json.loads(text_of(home))["permissions"]["deny"] == ["Bash(mkdir sub)"], text_of(home)
        rpc.fails("start_process", command=["mkdir", "sub"], cwd=home.work, code=-32010)
        assert rpc.run(["mkdir", "other"], cwd=home.work)[1]["exitCode"] == 0
        valid(home, rpc)


def test_rule_includes_redirections():
    with Policed(UNTRUSTED) as home, home.rpc() as rpc:
        started = rpc.call("start_process", commandLine="echo one >notes 2>/dev/null; echo two >> 'my notes'", cwd=home.work)
        done = rpc.call("respond_action", actionId=started["actionId"], decision="allow", scope="always")
        assert done["rules"] == ["Bash(echo one > notes)", "Bash(echo two >> 'my notes')"], done
        assert rpc.wait(started["processId"])["exitCode"] == 0

        def said(line):
            return rpc.call("evaluate_permission", commandLine=line, cwd=home.work)["permissionDecision"]["decision"]
        assert rpc.run(["sh", "-c", "echo one > notes"], cwd=home.work)[1]["exitCode"] == 0
        assert said("echo one > 'notes'") == said("echo two >> 'my notes'; echo one > notes") == "allow"
        for line in ("echo one > other", "echo one >> notes", "echo other > notes", "echo two > 'my notes'", "echo one > notes > other"):
            assert said(line) == "ask", line
        # Where no rule can cover a command, the message names an alternative, which works.
        started = rpc.call("start_process", commandLine="{ touch a; } > log", cwd=home.work)
        error = rpc.fails("respond_action", actionId=started["actionId"], decision="allow", scope="always", code=-32011)
        wanted = f"Edit(/{os.path.join(home.work, 'log')})"
        assert wanted in error.message, error.message
        rules = json.loads(text_of(home))
        rules["permissions"]["allow"] += [wanted, "Bash(touch a)"]
        policy(home, rules)
        rpc.call("reload_policy")
        assert said("{ touch a; } > log") == "allow" and said("{ touch a; } > log2") == "ask"
        rpc.call("respond_action", actionId=started["actionId"], decision="deny")


def test_action_stays_open_if_no_rule_can_be_written():
    with Policed({"permissions": {"defaultMode": "untrusted", "ask": ["Bash(git push:*)"]}}) as home, home.rpc() as rpc:
        for line, why in (("git push", "Bash(git push:*)"), ("rm -rf $X", "known only when it runs"), ("touch 'a*'", "contains a *"), ("touch a*", "known only when"), ("eval \"$X\"", "that runs is unknown"),
                          ("echo x > $X", "name the file"), ("f() { touch a; }; f > log", "Edit(/")):
            started = rpc.call("start_process", commandLine=line, cwd=home.work)
            error = rpc.fails("respond_action", actionId=started["actionId"], decision="allow", scope="always", code=-32011)
            assert why in error.message, (line, error.message)
            assert rpc.call("respond_action", actionId=started["actionId"], decision="deny")["status"] == "resolved"
        before = text_of(home)
        started = ask(rpc, home, "touch", "x")
        # A file that is kept elsewhere is not replaced; nor is one that is not well formed.
        os.rename(file_of(home), file_of(home) + ".real")
        os.symlink("policy.json.real", file_of(home))
        error = rpc.fails("respond_action", actionId=started["actionId"], decision="allow", scope="always", code=-32011)
        assert "symbolic link" in error.message and os.path.islink(file_of(home)), error.message
        os.unlink(file_of(home))
        with open(file_of(home), "w") as f:
            f.write("{")
        error = rpc.fails("respond_action", actionId=started["actionId"], decision="allow", scope="always", code=-32011)
        assert "line 1" in error.message and text_of(home) == "{", error.message
        with open(file_of(home), "w") as f:
            f.write(before)
        assert [a["actionId"] for a in pending(rpc)] == [started["actionId"]]
        rpc.call("respond_action", actionId=started["actionId"], decision="allow", scope="always")
        assert rpc.wait(started["processId"])["exitCode"] == 0


def test_only_the_first_answer_writes_a_rule_and_agents_cannot_answer():
    with Policed(UNTRUSTED) as home, home.rpc() as rpc, home.rpc() as other, home.rpc() as agent:
        agent.call("initialize", role="agent")
        started = ask(rpc, home, "touch", "x")
        before = text_of(home)
        agent.fails("respond_action", actionId=started["actionId"], decision="allow", scope="always", code=-32003)
        agent.fails("resolve_permission", actionId=started["actionId"], decision="allow", scope="always", code=-32003)
        assert text_of(home) == before
        asked = [(r, r.send("respond_action", actionId=started["actionId"], decision=d, scope="always"))
                 for r, d in ((rpc, "allow"), (other, "deny"), (rpc, "allow"), (other, "deny"))]
        won = 0
        for r, request in asked:
            try:
                r.reply(request)
                won += 1
            except harness.RpcError as e:
                assert e.code == -32009, e
        assert won == 1
        rules = json.loads(text_of(home))["permissions"]
        assert (rules.get("allow"), rules.get("deny")) in ((["Bash(touch x)"], None), (None, ["Bash(touch x)"])), rules


def test_parallel_answers_each_write_their_rule():
    with Policed(UNTRUSTED) as home, home.rpc() as rpc:
        waiting = [ask(rpc, home, "touch", f"f{i}") for i in range(12)]
        answers = [rpc.send("respond_action", actionId=w["actionId"], decision="allow", scope="always") for w in waiting]
        lines = [rpc.reply(a)["line"] for a in answers]
        rules = json.loads(text_of(home))["permissions"]["allow"]
        assert rules == [f"Bash(touch f{i})" for i in range(12)] and len(set(lines)) == 12, (rules, lines)
        for w in waiting:
            assert rpc.wait(w["processId"])["exitCode"] == 0


def test_a_repeated_answer_after_a_crash_finds_its_rule():
    """The runtime is killed between rule and answer: the action is open, the rule exists once, and the repeated answer is accepted."""
    with Policed(UNTRUSTED) as home:
        with home.rpc() as rpc:
            started = ask(rpc, home, "touch", "x")
        policy(home, {"permissions": {"defaultMode": "untrusted", "allow": ["Bash(touch x)"]}})
        before = text_of(home)
        home.kill_part("runtime")
        until("it answers", home.answers)
        with home.rpc() as rpc:
            done = rpc.call("respond_action", actionId=started["actionId"], decision="allow", scope="always")
            assert done["line"] == 5 and text_of(home) == before, (done, text_of(home))
            assert rpc.wait(started["processId"])["exitCode"] == 0


if __name__ == "__main__":
    harness.main(globals())
