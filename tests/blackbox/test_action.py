"""Actions: questions to a person. Only an answer, the action's own timeout or the end of its turn closes one."""

import json
import os

import harness
from harness import Skip, until, valid


def text(words):
    return {"type": "text", "text": words}


def turn_of(rpc, turn):
    read = rpc.call("get_thread_read", threadId=turn["threadId"])
    return read, [t for t in read["turns"] if t["turnId"] == turn["turnId"]][0]


def test_turn_waits_until_the_action_is_answered(home):
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[text("ask me")])
        asked = rpc.call("request_action", turnId=turn["turnId"], actionType="input", prompt="Which one?", decisions=["left", "right"],
                         schema={"type": "object"})
        thread, state = turn_of(rpc, turn)
        assert thread["status"] == "blocked" and thread["phase"] == "waiting_input" and state["status"] == "waiting_input", thread
        assert [a["actionId"] for a in thread["pendingRequests"]] == [asked["actionId"]], thread
        assert [s["kind"] for s in state["steps"]] == ["message", "action"], state
        rpc.fails("complete_turn", {"turnId": turn["turnId"]}, code=-32015)
        rpc.fails("respond_action", {"actionId": asked["actionId"], "decision": "up"}, code=-32602)
        rpc.fails("respond_action", {"actionId": "act_none", "decision": "left"}, code=-32004)
        done = rpc.call("respond_action", actionId=asked["actionId"], decision="left", note="because", payload={"n": 1})
        assert done["status"] == "resolved", done
        rpc.fails("respond_action", {"actionId": asked["actionId"], "decision": "right"}, code=-32009)
        thread, state = turn_of(rpc, turn)
        assert thread["status"] == "running" and state["status"] == "running" and not thread["pendingRequests"], thread
        action = thread["actions"][0]
        assert action["decision"] == "left" and action["note"] == "because" and action["response"] == {"n": 1}, action
        rpc.call("complete_turn", turnId=turn["turnId"])
        valid(home, rpc)


def test_answer_must_match_the_type_of_its_action(home):
    schema = {"type": "object", "required": ["path"], "additionalProperties": False,
              "properties": {"path": {"type": "string", "minLength": 1}, "count": {"type": "integer", "format": "int32"}}}
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[text("ask me")])["turnId"]

        def ask(**more):
            return rpc.call("request_action", turnId=turn, actionType="input", prompt="Where?", schema=schema, **more)

        asked = ask()
        assert asked["uncheckedKeywords"] == ["format"], asked
        action = asked["actionId"]
        for payload, field in (({}, "payload.path"), ({"path": 1}, "payload.path"), ({"path": ""}, "payload.path"), ([], "payload"),
                               ({"path": "x", "count": "1"}, "payload.count"), ({"path": "x", "other": 1}, "payload.other")):
            refused = rpc.fails("respond_action", {"actionId": action, "decision": "allow", "payload": payload}, code=-32602)
            assert refused.data["field"] == field, refused
        assert rpc.fails("respond_action", {"actionId": action, "decision": "allow"}, code=-32602).data["field"] == "payload.path", "an empty answer is not an answer"
        assert [a["status"] for a in rpc.call("list_actions")["actions"]] == ["pending"]
    home.restart()
    with home.rpc() as rpc:
        rpc.fails("respond_action", {"actionId": action, "decision": "allow", "payload": {"path": 1}}, code=-32602)
        rpc.call("respond_action", actionId=action, decision="allow", payload={"path": "/x", "count": 3})
        rpc.call("respond_action", actionId=ask()["actionId"], decision="deny")
        chosen = ask(decisions=["send", "cancel"])["actionId"]
        rpc.fails("respond_action", {"actionId": chosen, "decision": "send"}, code=-32602)
        rpc.call("respond_action", actionId=chosen, decision="cancel")
        wrong = {"turnId": turn, "actionType": "input", "schema": {"properties": {"a": {"type": "text"}}}}
        assert rpc.fails("request_action", wrong, code=-32602).data["field"] == "schema.properties.a.type"


def test_denied_approval_fails_a_turn_of_the_execution_loop(home):
    def steps(rpc, turn):
        return [e["payload"]["safeArgs"]["commandLine"] for e in rpc.events(turnId=turn["turnId"]) if e["type"] == "tool.args"]

    with home.rpc() as rpc:
        for answer in ("deny", None, "allow"):
            turn = rpc.call("submit_turn", input=[{"type": "command", "commandLine": c} for c in ("sleep 1", "echo second")])
            until("it runs", lambda: steps(rpc, turn))
            asked = rpc.call("request_action", turnId=turn["turnId"], actionType="approval", prompt="go on?", **({} if answer else {"timeoutMs": 100}))
            if answer:
                rpc.call("respond_action", actionId=asked["actionId"], decision=answer, note="because")
            state = until("it ends", lambda: (t := turn_of(rpc, turn)[1]) and "completedAt" in t and t)
            if answer == "allow":
                assert state["status"] == "completed" and steps(rpc, turn) == ["sleep 1", "echo second"], state
            else:
                assert state["status"] == "failed" and state["category"] == "permission" and steps(rpc, turn) == ["sleep 1"], state
        valid(home, rpc)


def test_agents_cannot_answer_actions(home):
    with home.rpc() as rpc, home.rpc() as agent:
        agent.call("initialize", role="agent")
        turn = agent.call("submit_turn", input=[text("x")])
        asked = agent.call("request_action", turnId=turn["turnId"], actionType="approval")
        assert [a["prompt"] for a in agent.call("list_actions", status="pending")["actions"]] == ["approval requested"], "there is always something to read"
        agent.fails("respond_action", {"actionId": asked["actionId"], "decision": "allow"}, code=-32003)
        assert [a["actionId"] for a in agent.call("list_actions", status="pending")["actions"]] == [asked["actionId"]]
        rpc.call("respond_action", actionId=asked["actionId"], decision="deny")
        assert agent.call("list_actions", status="pending")["actions"] == []
        assert agent.call("list_actions")["actions"][0]["decision"] == "deny"


def test_only_configured_approvers_can_approve():
    with harness.Home(config={"approvers": {"uids": [4242]}}) as home, home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[text("x")])
        asked = rpc.call("request_action", turnId=turn["turnId"], actionType="approval")
        rpc.fails("respond_action", {"actionId": asked["actionId"], "decision": "allow"}, code=-32003)


def test_a_supplementary_group_may_approve():
    """One client is in the configured group and one is not; the group is not the primary group of either."""
    if os.geteuid() != 0:
        raise Skip("requires root")
    with harness.Home(config={"approvers": {"gids": [4242]}}) as home, home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[text("x")])
        asked = rpc.call("request_action", turnId=turn["turnId"], actionType="approval")
        answer = "call", "respond_action", json.dumps({"actionId": asked["actionId"], "decision": "deny"})
        stranger = home.cli_start(*answer, extra_groups=[4343])
        assert b"approvers" in stranger.communicate()[1] and stranger.returncode != 0
        member = home.cli_start(*answer, extra_groups=[4343, 4242])
        assert member.communicate()[1] == b"" and member.returncode == 0
        assert rpc.call("list_actions")["actions"][0]["decision"] == "deny"


def test_action_times_out_as_a_denial(home):
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[text("x")])
        asked = rpc.call("request_action", turnId=turn["turnId"], actionType="approval", timeoutMs=50)
        action = until("the time is over", lambda: [a for a in rpc.call("list_actions", status="timed_out")["actions"]])[0]
        assert action["actionId"] == asked["actionId"] and action["decision"] == "deny" and action["source"] == "timeout", action
        assert turn_of(rpc, turn)[1]["status"] == "running"
        rpc.fails("respond_action", {"actionId": asked["actionId"], "decision": "allow"}, code=-32009)
        rpc.fails("request_action", {"turnId": turn["turnId"], "actionType": "plan", "decisions": ["a"], "defaultDecision": "b"}, code=-32602)
        valid(home, rpc)


def test_pending_actions_survive_restarts(home):
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[text("x")])
        asked = rpc.call("request_action", turnId=turn["turnId"], actionType="credential", prompt="token?")
        timed = rpc.call("request_action", turnId=turn["turnId"], actionType="approval", timeoutMs=4000)
    for restart in (lambda: home.kill_part("runtime"), home.restart):
        restart()
        until("the daemon is back", home.answers)
        with home.rpc() as rpc:
            thread, state = turn_of(rpc, turn)
            assert asked["actionId"] in [a["actionId"] for a in thread["pendingRequests"]], thread
            assert state["status"].startswith("waiting_"), state
            last = [e for e in rpc.events() if e["type"] == "history.reconstructed"][-1]["payload"]
            assert asked["actionId"] in last["openActions"], last
    with home.rpc() as rpc:
        until("the time is over", lambda: timed["actionId"] in [a["actionId"] for a in rpc.call("list_actions", status="timed_out")["actions"]])
        rpc.call("respond_action", actionId=asked["actionId"], decision="allow", scope="session")
        rpc.call("complete_turn", turnId=turn["turnId"])
        valid(home, rpc)


def test_end_of_the_turn_cancels_its_actions(home):
    with home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[text("x")])
        asked = rpc.call("request_action", turnId=turn["turnId"], actionType="approval")
        rpc.call("interrupt_turn", turnId=turn["turnId"])
        action = rpc.call("list_actions")["actions"][0]
        assert action["actionId"] == asked["actionId"] and action["status"] == "cancelled" and action["decision"] == "cancelled", action
        rpc.fails("request_action", {"turnId": turn["turnId"], "actionType": "approval"}, code=-32015)
        rpc.fails("request_action", {"actionType": "approval"}, code=-32602)
        rpc.fails("request_action", {"taskId": "task_none", "actionType": "approval"}, code=-32004)
        valid(home, rpc)


if __name__ == "__main__":
    harness.main(globals())
