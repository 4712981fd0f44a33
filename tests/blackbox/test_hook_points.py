"""Hooks and timing: input before and after a command is the same, and a start that is cancelled while a hook runs does not happen."""

import json
import os
import shlex
import signal

import harness
from harness import until, valid
from hooks import Hooked, entry, hooks_of, pre, says
from mcp import text_of
from mcp_clients import Raw


def test_hooks_before_and_after_a_command_get_the_same_input():
    """For commands of any length, with the match at any place: the input is the same before and after, and selects the same hooks."""
    def hooks_writing(when):
        said = {"last": "Bash(true * needle)", "place": "Edit(/made/**)", "home": "Read(~/.profile)", "never": "Bash(true needle)"}
        return [entry(f"cat >{when}", "Bash")] + [entry(f"touch {when}.{name}", "Bash", **{"if": rule}) for name, rule in said.items()]
    with Hooked({"PreToolUse": hooks_writing("before"), "PostToolUse": hooks_writing("after")}) as home, home.rpc() as rpc:
        def hits(*command):
            for name in os.listdir(home.work):
                if name.split(".")[0] in ("before", "after"):
                    os.unlink(home.made(name))
            assert rpc.run(list(command), cwd=home.work)[1]["exitCode"] == 0
            until("the hook ran", lambda: home.text("after") and len(hooks_of(rpc, "hook.completed")) == len(hooks_of(rpc, "hook.started")))
            shown = [json.loads(home.text(name))["tool_input"]["command"] for name in ("before", "after")]
            assert shown[0] == shown[1], [(len(s), s[:100]) for s in shown]
            seen = {when: sorted(n[len(when) + 1:] for n in os.listdir(home.work) if n.startswith(when + ".")) for when in ("before", "after")}
            assert seen["before"] == seen["after"], seen
            return seen["after"], shlex.split(shown[0])
        os.mkdir(home.made("made"))
        for words in (["x"] * 300, ["y" * 5000], ["z" * 1000] * 70, ["a b"] * 3000):
            assert hits("true", *words, "needle") == (["last"], ["true", *words, "needle"]), words[0][:5]
        assert hits("sh", "-c", "touch x", "needle")[0] == []
        assert hits("touch", "made/x")[0] == ["place"]
        assert hits("sh", "-c", "cat ~/.profile >/dev/null 2>&1; true")[0] == ["home"]


CHECKS_INPUT = """#!/bin/bash
INPUT=$(cat)
echo "$INPUT" >> seen
case $(echo "$INPUT" | grep -o '"text":"[^"]*"') in
*secret*) echo "no secrets" >&2; exit 2;;
*loud*) echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": {"text": "quiet\\n"}}}';;
*maybe*) echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask"}}';;
esac
"""


def test_hooks_check_what_an_agent_types_over_mcp():
    """As what the loop's tool of that name types: hooks deny and rewrite it; a question denies, and so does a hook that fails."""
    with Hooked(pre('"$CLAUDE_PROJECT_DIR"/.claude/hooks/input.sh', matcher="write_stdin"), {"input.sh": CHECKS_INPUT}) as home, home.rpc() as rpc, Raw(home) as mcp:
        process = mcp.exec("while read x; do echo got $x; done; echo bye", interactive=True, yieldMs=0)[0]["processId"]
        def type_in(text, **more):
            return mcp.tell("write_stdin", processId=process, text=text, yieldMs=100, **more)[0]["stdout"]
        def refused(text):
            return text_of(mcp.call("write_stdin", error=True, processId=process, text=text))
        assert "no secrets" in refused("secret\n") and "requires a person to type it" in refused("maybe\n")
        seen = type_in("plain\n") + type_in("loud\n")
        while "quiet" not in seen:
            seen += mcp.tell("write_stdin", processId=process, yieldMs=100)[0]["stdout"]
        assert seen == "got plain\ngot quiet\n", seen
        read = [json.loads(line) for line in home.text("seen").splitlines()]
        assert [r["tool_input"].get("text") for r in read] == ["secret\n", "maybe\n", "plain\n", "loud\n"], read
        assert {r["tool_name"] for r in read} == {"write_stdin"} and read[0]["tool_input"]["processId"] == process and read[0]["cwd"] == home.work, read
        home.policy({"hooks": pre("exit 1", matcher="write_stdin")})
        rpc.call("reload_policy")
        assert "failed, which denies" in refused("x\n") and "failed, which denies" in text_of(mcp.call("write_stdin", error=True, processId=process, eof=True))
        home.policy({"hooks": pre(says(permissionDecision="allow"), matcher="write_stdin")})
        rpc.call("reload_policy")
        assert "bye" in mcp.tell("write_stdin", processId=process, eof=True, yieldMs=60000)[0]["stdout"]
        valid(home, rpc)


def test_hooks_of_input_get_the_mode_of_the_process_also_after_a_restart():
    """A policy file gave it the mode; that of the session is another one."""
    hooks = pre("cat >>seen; echo >>seen", matcher="write_stdin")
    with Hooked(hooks, permissions={"defaultMode": "never", "allow": ["Bash"]}) as home, home.rpc() as rpc:
        process = rpc.start(["cat"], cwd=home.work, stdin="pipe", env={"HOME": "/srv/other"})["processId"]
        rpc.call("write_process_stdin", processId=process, data="one\n", runHooks=True)
        home.policy({"hooks": hooks})
        rpc.call("reload_policy")
        rpc.call("write_process_stdin", processId=process, data="two\n", runHooks=True)
        home.kill_part("runtime")
        until("the next runtime answers", home.answers)
        with home.rpc() as later:
            later.call("write_process_stdin", processId=process, data="three\n", runHooks=True)
            known = later.call("get_process", processId=process)
            assert (known["permissionMode"], known["home"]) == ("never", "/srv/other"), known
            later.call("close_process_stdin", processId=process)
            later.wait(process)
            assert later.outputs(process)["stdout"] == b"one\ntwo\nthree\n"
        seen = [json.loads(line) for line in home.text("seen").split()]
        assert [(s["tool_input"]["text"], s["permission_mode"]) for s in seen] == [(t, "dontAsk") for t in ("one\n", "two\n", "three\n")], seen


def terminate_during_policy_read(home, rpc, go):
    """The start by `go` waits for the workspace's policy files, because the spawner is stopped; terminated then, it ends immediately."""
    os.makedirs(home.made(".bailiff"), exist_ok=True)
    spawner = home.kill_part("spawner", signal.SIGSTOP)
    try:
        with open(home.made(".bailiff/policy.json"), "w") as f:
            f.write("{}")   # the file was replaced: it has to be read again
        process = go()
        ended = rpc.call("terminate_process", processId=process, reason="not that")
        assert ended["status"] == "terminated", ended
        end, = [e for e in rpc.events() if e.get("processId") == process and e["type"] == "process.terminated"]
        assert end["payload"]["reason"] == "not that" and not [e for e in rpc.events() if e["type"] == "process.started" and e["processId"] == process], end
    finally:
        os.kill(spawner, signal.SIGCONT)
    assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0   # the request that waited behind it was handled
    assert not os.path.exists(home.made("made"))


def test_waiting_for_an_ended_command_does_not_wait_for_its_hooks():
    """A hook after a command may have to wait for the workspace's policy files; a client that waits for the command does not."""
    with Hooked({"PostToolUse": [entry("cat >after", "Bash")]}) as home, home.rpc() as rpc:
        process = rpc.start(["sh", "-c", "while [ ! -e go ]; do sleep 0.01; done"], cwd=home.work)["processId"]
        spawner = home.kill_part("spawner", signal.SIGSTOP)
        try:
            os.makedirs(home.made(".bailiff"))
            with open(home.made(".bailiff/policy.json"), "w") as f:
                f.write("{}")
            with open(home.made("go"), "w"):
                pass
            until("it has ended", lambda: rpc.call("get_process", processId=process)["status"] == "completed")
            assert rpc.wait(process)["exitCode"] == 0
            assert rpc.fails("terminate_process", processId=process).data["category"] == "invalid_state"
        finally:
            os.kill(spawner, signal.SIGCONT)
        until("the hook ran", lambda: hooks_of(rpc, "hook.completed", "post_tool_use"))


def test_termination_between_hook_and_policy_read_prevents_the_start():
    slow = "while [ ! -e go ]; do sleep 0.01; done; touch said"
    with Hooked(pre(slow, **{"if": "Bash(touch:*)"})) as home, home.rpc() as rpc, home.rpc() as other:
        def go():
            with open(home.made("go"), "w"):
                until("the hook has answered", lambda: hooks_of(rpc, "hook.completed"))
            return process
        request = other.send("start_process", command=["touch", "made"], cwd=home.work)
        process = until("the hook looks", lambda: [e["processId"] for e in hooks_of(rpc, "hook.started")])[0]
        until("it runs", lambda: [p for p in rpc.call("list_processes")["processes"] if p["status"] == "running"])
        terminate_during_policy_read(home, rpc, go)
        try:
            other.reply(request)
            raise AssertionError("it was started")
        except harness.RpcError as e:
            assert "not that" in e.message, e
        valid(home, rpc)


def test_termination_between_approval_and_policy_read_prevents_the_start():
    with Hooked({}, permissions={"ask": ["Bash(touch:*)"]}) as home, home.rpc() as rpc:
        started = rpc.call("start_process", command=["touch", "made"], cwd=home.work)

        def go():
            rpc.call("respond_action", actionId=started["actionId"], decision="allow")
            return started["processId"]
        terminate_during_policy_read(home, rpc, go)
        # And while the answer is being written.
        again = rpc.call("start_process", command=["touch", "made"], cwd=home.work)
        answer, end = rpc.send_together(("respond_action", {"actionId": again["actionId"], "decision": "allow"}),
                                        ("terminate_process", {"processId": again["processId"], "reason": "not that"}))
        rpc.reply(answer)
        assert rpc.reply(end)["status"] == "terminated"
        assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0
        valid(home, rpc)


GATED = "cat >/dev/null; echo x >>looks; until [ -e go ]; do sleep 0.01; done"


def two_parts(rpc, home):
    parts = [{"type": "command", "commandLine": "true"}, {"type": "command", "commandLine": "touch made"}]
    return rpc.call("submit_turn", input=parts, options={"cwd": home.work})["turnId"]


def waits_for_the_hook(rpc, home, turn):
    """Gives the turn an occasion to continue, and checks that it does so only after the hook."""
    other = rpc.call("submit_turn", input=[{"type": "command", "commandLine": "echo other"}])["turnId"]
    until("another turn ends", lambda: [e for e in rpc.events(turnId=other) if e["type"] == "turn.completed"])
    started = [e["type"] for e in rpc.events(turnId=turn)].count("tool.started")
    assert started == 1 and home.text("made") is None, "the next part has begun before the hook has answered"
    open(home.made("go"), "w").close()
    until("the turn ends", lambda: [e for e in rpc.events(turnId=turn) if e["type"] == "turn.completed"])
    assert home.text("made") == ""
    valid(home, rpc)


def test_next_part_waits_for_all_hooks_of_the_previous_one():
    with Hooked({"PostToolUse": [entry("cat >/dev/null", "Bash"), entry(GATED, "Bash", **{"if": "Bash(true)"})]}) as home, home.rpc() as rpc:
        turn = two_parts(rpc, home)
        until("one hook has answered and the other looks", lambda: home.text("looks") and hooks_of(rpc, "hook.completed"))
        waits_for_the_hook(rpc, home, turn)


def test_the_next_part_waits_for_hooks_also_after_a_restart():
    with Hooked({"PostToolUse": [entry(GATED, "Bash", **{"if": "Bash(true)"})]}) as home:
        with home.rpc() as rpc:
            turn = two_parts(rpc, home)
            until("the hook looks", lambda: home.text("looks"))
            home.kill_part("runtime")
        until("it answers", home.answers)
        with home.rpc() as rpc:
            waits_for_the_hook(rpc, home, turn)


if __name__ == "__main__":
    harness.main(globals())
