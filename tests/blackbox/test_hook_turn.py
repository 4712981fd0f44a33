"""Hooks of sessions and turns: checks of a prompt, context for a session, and when work may stop."""

import json
import os
import shutil

import harness
from harness import until, valid
from hooks import PROMPT, STOP, Hooked, entry, hooks_of, needs_jq, run_turn, script


def of_turn(rpc, turn, kind):
    return [e for e in rpc.events() if e["type"] == kind and e.get("turnId") == turn["turnId"]]


def test_prompt_hook_blocks_or_adds_context():
    with Hooked({"UserPromptSubmit": [entry(script("prompt.py"))]}, {"prompt.py": PROMPT}) as home, home.rpc() as rpc:
        def submit(text, **more):
            return rpc.call("submit_turn", input=[{"type": "text", "text": text}], options={"cwd": home.work}, **more)
        error = rpc.fails("submit_turn", input=[{"type": "text", "text": "my password: x"}], options={"cwd": home.work}, code=-32010)
        assert "Security policy violation" in error.message and error.data["decision"] == "block", (error.message, error.data)
        events = [e["type"] for e in rpc.events(turnId=error.data["turnId"])]
        assert "turn.failed" in events and "turn.started" not in events, events
        turn = submit("hello", sessionId=error.data["sessionId"])
        assert turn["status"] == "accepted", turn
        resolved, = of_turn(rpc, turn, "context.resolved")
        ref, = resolved["payload"]["refs"]["hookContext"]
        assert rpc.output(ref) == b"Current project: the bailiff"
        # A queued one is checked when its turn starts.
        queued, blocked = submit("next", sessionId=turn["sessionId"]), submit("token= x", sessionId=turn["sessionId"])
        assert queued["status"] == blocked["status"] == "queued"
        rpc.call("complete_turn", turnId=turn["turnId"])
        until("it begins", lambda: of_turn(rpc, queued, "turn.started"))
        rpc.call("complete_turn", turnId=queued["turnId"])
        until("it is blocked", lambda: of_turn(rpc, blocked, "turn.failed"))
        assert submit("last", sessionId=turn["sessionId"])["status"] == "accepted"
        # A turn without text is not a prompt.
        n = len(hooks_of(rpc, "hook.started"))
        assert run_turn(rpc, home, {"type": "command", "commandLine": "true"})["type"] == "turn.completed"
        assert len(hooks_of(rpc, "hook.started")) == n
        valid(home, rpc)


def test_repeated_blocked_prompt_does_not_run_the_hook_again():
    with Hooked({"UserPromptSubmit": [entry("echo x >>looks; echo no >&2; exit 2")]}) as home, home.rpc() as rpc:
        for _ in range(2):
            error = rpc.fails("submit_turn", input=[{"type": "text", "text": "hello"}], options={"cwd": home.work}, idempotencyKey="k", code=-32010)
        assert home.text("looks") == "x\n" and error.data["reason"] == "no", (home.text("looks"), error.data)


def test_interrupt_during_a_prompt_hook_cancels_the_turn():
    with Hooked({"UserPromptSubmit": [entry("touch looking; until [ -e go ]; do sleep 0.01; done")]}) as home, home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        waiting = rpc.send("submit_turn", sessionId=session, turnId="turn-1", input=[{"type": "text", "text": "hello"}], options={"cwd": home.work})
        until("the hook runs", lambda: home.text("looking") is not None)
        # Its thread is busy.
        queued = rpc.call("submit_turn", sessionId=session, input=[{"type": "command", "commandLine": "touch made"}], options={"cwd": home.work})
        assert queued["status"] == "queued", queued
        assert rpc.call("interrupt_turn", turnId="turn-1", sessionId=session, reason="no more")["status"] == "interrupted"
        open(home.made("go"), "w").close()
        try:
            rpc.reply(waiting)
            raise AssertionError("it was accepted")
        except harness.RpcError as e:
            assert "ended before it started" in e.message, e.message
        until("the next has its turn", lambda: of_turn(rpc, queued, "turn.completed"))
        valid(home, rpc)


def test_stop_hook_can_prevent_the_end_of_a_turn():
    needs_jq()
    with Hooked({"Stop": [entry(script("stop.sh"))]}, {"stop.sh": STOP}) as home, home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[{"type": "text", "text": "do it"}], options={"cwd": home.work})
        error = rpc.fails("complete_turn", turnId=turn["turnId"], code=-32015)
        assert "the tests have not passed" in error.message and error.data["decision"] == "block", (error.message, error.data)
        assert rpc.call("complete_turn", turnId=turn["turnId"], summary="done")["status"] == "completed"  # stop_hook_active
        completed, = of_turn(rpc, turn, "turn.completed")
        assert completed["payload"]["summary"] == "done", completed
        # A turn of the execution loop cannot continue.
        ended = run_turn(rpc, home, {"type": "command", "commandLine": "true"})
        assert ended["type"] == "turn.failed" and ended["payload"]["category"] == "hook" and "not passed" in ended["payload"]["message"], ended
        ended = run_turn(rpc, home, {"type": "command", "commandLine": "touch tests-passed"})
        assert ended["type"] == "turn.completed", ended
        # A failure needs no approval by a hook.
        n = len(hooks_of(rpc, "hook.started"))
        assert run_turn(rpc, home, {"type": "command", "commandLine": "false"})["payload"]["category"] == "exit"
        assert len(hooks_of(rpc, "hook.started")) == n
        valid(home, rpc)


def test_session_start_hook_adds_context():
    with Hooked({"SessionStart": [entry("echo 'remember this'", "startup"), entry("echo other", "resume")]}) as home, home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        completed, = hooks_of(rpc, "hook.completed", "session_start")
        ref, = completed["payload"]["additionalContextRefs"]
        assert rpc.output(ref) == b"remember this" and completed["sessionId"] == session
        turn = rpc.call("submit_turn", sessionId=session, input=[{"type": "text", "text": "hello"}], options={"cwd": home.work})
        resolved, = of_turn(rpc, turn, "context.resolved")
        assert resolved["payload"]["refs"]["sessionHookContext"] == [ref], resolved
        started, _ = rpc.run(["true"], cwd=home.work)
        until("that session's, too", lambda: [e for e in hooks_of(rpc, "hook.completed", "session_start") if e["sessionId"] == started["sessionId"]])
        valid(home, rpc)


def test_hooks_apply_to_tools_of_clients():
    needs_jq()
    guard = """jq -e '.tool_input.word == "secret"' >/dev/null && { echo "not that word" >&2; exit 2; }; exit 0"""
    change = """jq '{hookSpecificOutput: {hookEventName: "PreToolUse", updatedInput: (.tool_input | .word |= ascii_upcase)}}'"""
    hooks = {"PreToolUse": [entry(guard, "mcp__dict__.*"), entry(change, "mcp__dict__lookup")], "PostToolUse": [entry("cat >looked.json", "mcp__dict__lookup")]}

    def call(word):
        return {"type": "tool_call", "toolName": "mcp__dict__lookup", "arguments": {"word": word}}
    with Hooked(hooks) as home, home.rpc() as rpc, home.rpc() as owner:
        owner.call("register_tools", tools=[{"name": "mcp__dict__lookup"}])
        ended = run_turn(rpc, home, call("secret"))
        assert ended["type"] == "turn.failed" and ended["payload"]["category"] == "permission" and "not that word" in ended["payload"]["message"], ended
        assert not [e for e in rpc.events() if e["type"] == "tool.started"]
        turn = rpc.call("submit_turn", input=[call("house")], options={"cwd": home.work})
        started = until("it is called", lambda: of_turn(rpc, turn, "tool.started"))[0]
        args, = of_turn(rpc, turn, "tool.args")
        assert args["payload"]["safeArgs"] == {"word": "HOUSE"}, args
        decided = of_turn(rpc, turn, "permission.evaluated")[-1]["payload"]["permissionDecision"]
        assert json.loads(rpc.output(decided["updatedInputRef"])) == {"word": "HOUSE"}, decided
        owner.call("report_tool_call", toolCallId=started["toolCallId"], status="completed", result={"answer": 42})
        until("the turn ends", lambda: of_turn(rpc, turn, "turn.completed"))
        looked = json.loads(home.text("looked.json"))
        assert looked["tool_name"] == "mcp__dict__lookup" and looked["tool_response"] == {"answer": 42} and looked["tool_input"] == {"word": "HOUSE"}, looked
        # Also what a client invokes, or does itself.
        mine = rpc.call("submit_turn", input=[{"type": "text", "text": "hello"}], options={"cwd": home.work})
        error = rpc.fails("invoke_tool", turnId=mine["turnId"], toolName="mcp__dict__lookup", arguments={"word": "secret"}, code=-32010)
        assert error.data["permissionDecision"]["decisionSource"] == "hook", error.data
        rpc.fails("report_tool_call", turnId=mine["turnId"], toolName="mcp__dict__other", arguments={"word": "secret"}, status="started", code=-32010)
        assert rpc.call("report_tool_call", turnId=mine["turnId"], toolName="mcp__dict__other", arguments={"word": "x"}, status="started")["status"] == "running"
        valid(home, rpc)


def test_post_sampling_hook_runs_after_a_model_response():
    with Hooked({"post_sampling": [entry("cat >sampled.json")]}) as home, home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[{"type": "text", "text": "hello"}], options={"cwd": home.work})
        where = {"threadId": turn["threadId"], "turnId": turn["turnId"], "modelRequestId": "req_1"}
        rpc.call("emit_events", sessionId=turn["sessionId"], events=[
            dict(where, type="model.requested", payload={"provider": "p", "model": "m"}), dict(where, type="model.completed", payload={"stopReason": "end_turn"})])
        until("the hook ran", lambda: hooks_of(rpc, "hook.completed", "post_sampling"))
        seen = json.loads(home.text("sampled.json"))
        assert seen["model_response"]["stopReason"] == "end_turn" and seen["turn_id"] == turn["turnId"], seen
        valid(home, rpc)


def test_prompt_fails_if_the_runtime_dies_during_its_hook():
    with Hooked({"UserPromptSubmit": [entry("touch looking; until [ -e go ]; do sleep 0.01; done")]}) as home:
        with home.rpc() as rpc:
            session = rpc.call("create_session")["sessionId"]
            rpc.send("submit_turn", sessionId=session, input=[{"type": "text", "text": "hello"}], options={"cwd": home.work})
            until("the hook runs", lambda: home.text("looking") is not None)
            home.kill_part("runtime")
        until("it answers", home.answers)
        with home.rpc() as rpc:
            failed = until("it is settled", lambda: [e for e in rpc.events() if e["type"] == "turn.failed" and e["sessionId"] == session])
            assert not of_turn(rpc, failed[0], "turn.started")
            open(home.made("go"), "w").close()
            assert rpc.call("submit_turn", sessionId=session, input=[{"type": "text", "text": "again"}], options={"cwd": home.work})["status"] == "accepted"
            valid(home, rpc)


def test_stop_hook_is_repeated_after_the_runtime_died():
    with Hooked({"Stop": [entry("echo x >>looks; until [ -e go ]; do sleep 0.01; done")]}) as home:
        with home.rpc() as rpc:
            turn = rpc.call("submit_turn", input=[{"type": "command", "commandLine": "true"}], options={"cwd": home.work})
            until("the hook runs", lambda: home.text("looks"))
            home.kill_part("runtime")
        until("it answers", home.answers)
        with home.rpc() as rpc:
            until("it is asked again", lambda: home.text("looks") == "x\nx\n")
            open(home.made("go"), "w").close()
            until("the turn ends", lambda: of_turn(rpc, turn, "turn.completed"))
            valid(home, rpc)


def test_prompts_are_denied_if_the_workspace_hooks_cannot_be_read():
    with Hooked({"SessionStart": [entry("touch began")]}) as home, home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[{"type": "text", "text": "hello"}], options={"cwd": home.work})
        other = os.path.join(home.work, "other")
        os.makedirs(os.path.join(other, ".bailiff"))
        with open(os.path.join(other, ".bailiff/policy.json"), "w") as f:
            f.write('{"hooks": {"UserPromptSubmit": [')
        error = rpc.fails("submit_turn", input=[{"type": "text", "text": "hello"}], options={"cwd": other}, code=-32010)
        assert "the hooks cannot be determined" in error.message and ".bailiff/policy.json" in error.message, error.message
        failed, = of_turn(rpc, error.data, "turn.failed")
        assert failed["payload"]["category"] == "hook" and not of_turn(rpc, error.data, "turn.started"), failed
        # A turn that began before.
        bad = os.path.join(home.work, "bad")
        os.makedirs(bad)
        turn = rpc.call("submit_turn", input=[{"type": "text", "text": "hello"}], options={"cwd": bad})
        shutil.copytree(os.path.join(other, ".bailiff"), os.path.join(bad, ".bailiff"))
        error = rpc.fails("complete_turn", turnId=turn["turnId"], code=-32015)
        assert "the hooks cannot be determined" in error.message, error.message
        assert [e for e in rpc.events() if e["type"] == "runtime.warning" and e["payload"].get("code") == "hooks_not_known"]
        shutil.rmtree(os.path.join(bad, ".bailiff"))
        assert rpc.call("complete_turn", turnId=turn["turnId"])["status"] == "completed"
        # A directory that is not a workspace has no hooks of its own, and causes no delay.
        assert rpc.call("submit_turn", input=[{"type": "text", "text": "hello"}], options={"cwd": "/"})["status"] == "accepted"
        valid(home, rpc)


def test_prompt_hook_of_a_workspace_applies_to_the_first_prompt():
    with Hooked({}) as home, home.rpc() as rpc:
        os.makedirs(home.made(".bailiff"))
        with open(home.made(".bailiff/policy.json"), "w") as f:
            json.dump({"hooks": {"UserPromptSubmit": [entry("echo 'not here' >&2; exit 2")]}}, f)
        error = rpc.fails("submit_turn", input=[{"type": "text", "text": "hello"}], options={"cwd": home.work}, code=-32010)
        assert error.data["reason"] == "not here", error.data
        os.unlink(home.made(".bailiff/policy.json"))
        assert rpc.call("submit_turn", input=[{"type": "text", "text": "hello"}], options={"cwd": home.work})["status"] == "accepted"
        valid(home, rpc)


if __name__ == "__main__":
    harness.main(globals())
