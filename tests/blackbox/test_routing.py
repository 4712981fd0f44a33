"""Models are chosen from the policy, limits and costs, and every choice can be explained from its facts, also after a restart."""

import json
import os

import harness

POLICY = {
    "models": [
        {"provider": "acme", "model": "large", "capabilities": ["tools", "vision"], "latency": "slow", "budgetClass": "high",
         "price": {"inputPerMTok": 10, "outputPerMTok": 50}},
        {"provider": "acme", "model": "small", "capabilities": ["tools"], "latency": "fast", "budgetClass": "low",
         "price": {"inputPerMTok": 1, "outputPerMTok": 5, "cachedPerMTok": 0.1}},
        {"provider": "local", "model": "free", "capabilities": ["tools"]},
        {"provider": "local", "model": "gone", "disabled": "retired"},
    ],
    "limits": {"budgets": [{"name": "purse", "usd": 1, "lowMark": 0.5}]},
}


def policy(home, content=POLICY):
    with open(os.path.join(home.dir, "policy.json"), "w") as f:
        json.dump(content, f)


def turn(rpc):
    return rpc.start(["sleep", "1000"])


def kinds(rpc, turn_id):
    return [e["type"] for e in rpc.events(turnId=turn_id) if e["type"].split(".")[0] in
            ("routing", "cost", "quota", "rate_limit", "limit") or e["type"] == "task.profile.resolved"]


def names(error, field):
    assert error.data.get("field") == field, error


def setup(home):
    home.stop()
    policy(home)
    home.start()


def test_routing_choices_are_explained(home):
    setup(home)
    with home.rpc() as rpc:
        t = turn(rpc)
        r = rpc.call("resolve_routing", turnId=t["turnId"], taskProfile={"kind": "code", "requiredCapabilities": ["tools"], "inputTokens": 1000,
                                                                        "outputTokens": 1000})
        assert r["routingDecision"]["selectedModel"] == "large" and r["routingDecision"]["candidateCount"] == 3, r
        assert [c["model"] for c in r["routingDecision"]["fallbackChain"]] == ["small", "free"], r
        assert r["candidateModelSet"]["gaps"] == {"credentials": "unavailable", "network": "unavailable"}, "no key was given for any of them"
        assert r["candidateModelSet"]["excluded"] == [{"provider": "local", "model": "gone", "reason": "disabled", "detail": "retired"}], r
        assert kinds(rpc, t["turnId"]) == ["task.profile.resolved", "routing.candidates.resolved", "routing.decided", "cost.estimated"]
        single = rpc.call("resolve_routing", turnId=t["turnId"], taskId=r["taskId"], taskProfile={"requiredCapabilities": ["vision"]})
        assert single["routingDecision"]["routingMode"] == "single_candidate" and single["taskId"] == r["taskId"], single
        none = rpc.call("resolve_routing", turnId=t["turnId"], taskProfile={"requiredCapabilities": ["smell"]})
        assert none["routingDecision"]["capabilityGap"] == "smell" and "selectedModel" not in none["routingDecision"], none
        fell = rpc.call("resolve_routing", turnId=t["turnId"], failed={"provider": "acme", "model": "large", "reason": "overloaded"})
        assert fell["routingDecision"]["selectedModel"] == "small", fell
        seen = kinds(rpc, t["turnId"])
        assert {"routing.single_candidate", "routing.not_possible", "routing.fallback.applied"} <= set(seen), seen
        thread = rpc.call("get_thread_read", threadId=t["threadId"])
        assert thread["modelRouting"]["routingDecision"]["selectedModel"] == "small" and thread["modelRouting"]["fallbacks"] == 1, thread
        harness.validate(harness.snapshot_validators(), [rpc.call("get_session", sessionId=t["sessionId"])])
        harness.validate(harness.event_validators(), rpc.events(sessionId=t["sessionId"]))
        names(rpc.fails("resolve_routing", {"turnId": "turn_none"}), "turnId")
        rpc.call("terminate_process", processId=t["processId"])
        rpc.fails("resolve_routing", {"turnId": t["turnId"]}, code=-32015)


def test_limits_exclude_a_model_until_they_expire(home):
    setup(home)
    with home.rpc() as rpc:
        t = turn(rpc)
        rpc.call("record_limit", turnId=t["turnId"], provider="acme", kind="rate_limit", resetAt="2999-01-01T00:00:00Z")
        assert "rate_limit.hit" in kinds(rpc, t["turnId"])
    home.restart()
    with home.rpc() as rpc:
        t = turn(rpc)
        r = rpc.call("resolve_routing", turnId=t["turnId"])
        assert r["routingDecision"]["selectedModel"] == "free", r
        limited = {c["model"]: c for c in r["candidateModelSet"]["excluded"]}
        assert limited["large"]["reason"] == "rate_limited" and limited["large"]["resetAt"].startswith("2999"), limited
        rpc.call("record_limit", provider="acme", kind="rate_limit", state="ok")
        assert rpc.call("resolve_routing", turnId=t["turnId"])["routingDecision"]["selectedModel"] == "large"
        rpc.call("record_limit", provider="acme", model="large", kind="quota", remaining=0, resetAt="2001-01-01T00:00:00Z")
        assert rpc.call("resolve_routing", turnId=t["turnId"])["routingDecision"]["selectedModel"] == "large", "it has expired"
        names(rpc.fails("record_limit", {"provider": "acme", "kind": "quota", "resetAt": "tomorrow"}), "resetAt")


def test_costs_count_for_budgets(home):
    setup(home)
    with home.rpc() as rpc:
        t = turn(rpc)
        cost = rpc.call("record_cost", turnId=t["turnId"], provider="acme", model="small", inputTokens=100000, outputTokens=20000, cachedTokens=50000)
        assert cost["basis"] == "price_table" and abs(cost["amount"] - (0.05 + 0.005 + 0.1)) < 1e-9, cost
        assert "quota.low" not in kinds(rpc, t["turnId"])
        rpc.call("record_cost", turnId=t["turnId"], provider="else", model="where", costUsd=0.5)
        assert kinds(rpc, t["turnId"]).count("quota.low") == 1
        rpc.call("record_cost", turnId=t["turnId"], provider="else", model="where", costUsd=0.5)
        assert kinds(rpc, t["turnId"]).count("quota.blocked") == 1
        unknown = rpc.call("record_cost", turnId=t["turnId"], provider="else", model="where", inputTokens=5)
        assert unknown["basis"] == "unpriced" and "costUsd" in unknown["advice"], unknown
        names(rpc.fails("record_cost", {"provider": "a", "model": "b", "costUsd": -1}), "costUsd")
        names(rpc.fails("record_cost", {"provider": "a", "model": "b", "inputTokens": 1, "cachedTokens": 2}), "cachedTokens")
    home.restart()
    with home.rpc() as rpc:
        t = turn(rpc)
        r = rpc.call("resolve_routing", turnId=t["turnId"])
        assert r["routingDecision"]["selectedModel"] == "free", "a request without a price uses no budget"
        assert {c["reason"] for c in r["candidateModelSet"]["excluded"] if c["provider"] == "acme"} == {"budget_blocked"}, r
        assert r["routingDecision"]["limitStateSnapshot"]["budgets"][0]["state"] == "blocked", r


def test_model_events_keep_their_order_and_are_priced(home):
    setup(home)

    def event(kind, request="req_1", **payload):
        return {"type": kind, "turnId": t["turnId"], "threadId": t["threadId"], "modelRequestId": request, "payload": payload}

    with home.rpc() as rpc:
        t = turn(rpc)

        def emit(*events):
            return rpc.call("emit_events", sessionId=t["sessionId"], events=list(events))

        def refused(*events):
            rpc.fails("emit_events", {"sessionId": t["sessionId"], "events": list(events)})

        refused(event("model.delta", text="x"))
        emit(event("model.requested", provider="acme", model="small"), event("model.delta", text="he"), event("model.delta", text="llo"))
        refused(event("model.requested", provider="acme", model="small"))
        emit(event("model.completed", usage={"inputTokens": 1000000, "outputTokens": 0}, stopReason="end"))
        refused(event("model.delta", text="late"))
        refused(event("model.failed", category="x"))
        costs = [e for e in rpc.events(turnId=t["turnId"]) if e["type"] == "cost.recorded"]
        assert len(costs) == 1 and costs[0]["payload"]["amount"] == 1 and costs[0]["modelRequestId"] == "req_1", costs
        assert "quota.blocked" in kinds(rpc, t["turnId"])
        emit(event("model.requested", "req_2", provider="acme", model="large"), event("model.failed", "req_2", category="overloaded", retryable=True))
        thread = rpc.call("get_thread_read", threadId=t["threadId"])
        assert thread["costState"]["microUsd"] == 1000000, thread


def text_turn(rpc, **more):
    return rpc.call("submit_turn", input=[{"type": "text", "text": "x"}], **more)


def model_event(turn, kind, request=None, **payload):
    return {"type": kind, "turnId": turn["turnId"], "threadId": turn["threadId"], "payload": payload, **({"modelRequestId": request} if request else {})}


def test_emitted_costs_count_for_budgets(home):
    setup(home)
    with home.rpc() as rpc:
        t = text_turn(rpc)

        def cost(kind="cost.recorded", **payload):
            return model_event(t, kind, **payload)

        for wrong, field in (({"amount": -1}, "amount"), ({"amount": 1e300}, "amount"), ({"amount": 0.5, "microUsd": 1}, "microUsd"),
                             ({"amount": 1, "currency": "EUR"}, "currency"), ({"amount": 1, "tokens": {"input": -5}}, "tokens.input")):
            for kind in ("cost.recorded", "cost.estimated"):
                refused = rpc.fails("emit_events", {"sessionId": t["sessionId"], "events": [cost(kind, **{"currency": "USD", **wrong})]}, code=-32602)
                assert refused.data["field"] == "events[0].payload." + field, refused
        assert not kinds(rpc, t["turnId"])
        rpc.call("emit_events", sessionId=t["sessionId"], events=[cost(amount=0.3), cost(amount=0.3), cost(amount=0.3)])
        assert kinds(rpc, t["turnId"]) == ["cost.recorded", "limit.changed", "quota.low", "cost.recorded", "cost.recorded"], "the mark of a half, once"
        rpc.call("emit_events", sessionId=t["sessionId"], events=[cost(amount=0.2, tokens={"input": 5})])
        assert kinds(rpc, t["turnId"])[5:] == ["limit.changed", "quota.blocked", "cost.recorded"], kinds(rpc, t["turnId"])
        chosen = rpc.call("resolve_routing", turnId=t["turnId"], taskProfile={"requiredCapabilities": ["tools"]})["routingDecision"]
        assert chosen["selectedModel"] == "free", "nothing is left for priced ones"
        harness.validate(harness.event_validators(), rpc.events())


def test_model_requests_end_with_their_turn(home):
    with home.rpc() as rpc:
        def ask(t, request):
            rpc.call("emit_events", sessionId=t["sessionId"], events=[model_event(t, "model.requested", request, provider="p", model="m")])

        def ends(t):
            return [(e["modelRequestId"], e["status"], e["payload"]["category"]) for e in rpc.events(turnId=t["turnId"]) if e["type"] == "model.failed"]

        for n, end in enumerate(("complete_turn", "fail_turn", "interrupt_turn")):
            t = text_turn(rpc)
            ask(t, "open")
            ask(t, "done")
            rpc.call("emit_events", sessionId=t["sessionId"], events=[model_event(t, "model.completed", "done", stopReason="end")])
            rpc.call(end, turnId=t["turnId"])
            assert ends(t) == [("open", "cancelled", "cancelled")], end
            types = [e["type"] for e in rpc.events(turnId=t["turnId"])]
            assert types.index("model.failed") < types.index("turn.completed" if n == 0 else "turn.failed"), types
            for kind, request in (("model.requested", "new"), ("model.requested", None), ("model.delta", "open"), ("model.completed", "open"),
                                  ("reasoning.delta", None)):
                late = {"sessionId": t["sessionId"], "events": [model_event(t, kind, request)]}
                assert rpc.fails("emit_events", late, code=-32015).data["field"] == "events[0].turnId", kind
            rpc.call("emit_events", sessionId=t["sessionId"], events=[model_event(t, "cost.recorded", amount=0.1)])
        owned = rpc.start(["sleep", "1000"])
        ask(owned, "req-of-process")
        rpc.call("terminate_process", processId=owned["processId"])
        assert ends(owned) == [("req-of-process", "cancelled", "cancelled")]
        assert rpc.call("verify_store")["ok"]


def test_operator_can_override_limits(home):
    setup(home)
    with home.rpc() as rpc:
        t = turn(rpc)
        rpc.call("record_cost", turnId=t["turnId"], provider="else", model="where", costUsd=1)
        only = {"requested": {"provider": "acme", "model": "large"}, "taskProfile": {"fallbackPolicy": "none"}}
        none = rpc.call("resolve_routing", turnId=t["turnId"], **only)
        assert none["routingDecision"]["requiresUserOverride"] and "selectedModel" not in none["routingDecision"], none
        event = [e for e in rpc.events(turnId=t["turnId"]) if e["type"] == "routing.not_possible"][-1]
        assert {"provider": "acme", "model": "large", "reason": "budget_blocked"} in event["payload"]["excluded"], event
        given = rpc.call("resolve_routing", turnId=t["turnId"], override={"reason": "agreed with the owner of the budget"}, **only)
        assert given["routingDecision"]["selectedModel"] == "large" and given["routingDecision"]["decisionSource"] == "override", given
        assert given["routingDecision"]["overrideReason"].startswith("agreed"), given
        summary = rpc.call("get_snapshot", kind="routing_limit_summary", sessionId=t["sessionId"])["snapshot"]
        assert summary["modelRouting"]["routingDecision"]["selectedModel"] == "large" and summary["costState"]["amount"] == 1, summary
        rpc.call("record_cost", turnId=t["turnId"], provider="acme", model="large", costUsd=0.25, estimate=True)
        summary = rpc.call("get_snapshot", kind="routing_limit_summary", sessionId=t["sessionId"])["snapshot"]
        assert summary["costState"]["amount"] == 1 and summary["costState"]["estimatedMicroUsd"] == 250000, summary
        gap = rpc.call("resolve_routing", turnId=t["turnId"], taskProfile={"requiredCapabilities": ["smell"]}, override={"reason": "x"})
        assert gap["routingDecision"]["capabilityGap"] == "smell", "an override adds no capability"
        names(rpc.fails("resolve_routing", {"turnId": t["turnId"], "override": {}}), "override.reason")
        with home.rpc() as agent:
            agent.call("initialize", role="agent")
            agent.fails("resolve_routing", {"turnId": t["turnId"], "override": {"reason": "please"}}, code=-32003)
        assert rpc.call("verify_store")["ok"]


def test_a_task_without_a_model_is_blocked(home):
    setup(home)
    with home.rpc() as rpc:
        t = turn(rpc)
        task = rpc.call("create_task", objective="think")["taskId"]
        rpc.call("start_task", taskId=task)
        about = {"turnId": t["turnId"], "taskId": task}
        rpc.call("resolve_routing", about, taskProfile={"requiredCapabilities": ["smell"]})
        blocked = rpc.call("get_task", taskId=task)
        assert blocked["status"] == "blocked" and blocked["blocker"]["kind"] == "routing", blocked
        rpc.call("resolve_routing", about)
        assert rpc.call("get_task", taskId=task)["status"] == "running"
        rpc.call("update_task", taskId=task, status="blocked", reason="a holiday")
        rpc.call("resolve_routing", about)
        assert rpc.call("get_task", taskId=task)["status"] == "blocked", "blocked by something else"
        assert rpc.call("verify_store")["ok"]


def test_other_budgets_in_the_policy_are_reported(home):
    setup(home)

    def budgets(rpc):
        return [(e["payload"].get("old", {}).get("limitMicroUsd"), e["payload"].get("new", {}).get("limitMicroUsd"))
                for e in rpc.events() if e["type"] == "limit.changed" and e["payload"]["limit"] == "budget:purse"]
    with home.rpc() as rpc:
        assert budgets(rpc) == [(None, 1000000)]
        policy(home, dict(POLICY, limits={"budgets": [{"name": "purse", "usd": 2}]}))
        rpc.call("reload_policy")
        harness.until("the change is reported", lambda: budgets(rpc) == [(None, 1000000), (1000000, 2000000)])
        rpc.call("reload_policy")
    home.stop()
    policy(home, {})
    home.start()
    with home.rpc() as rpc:
        assert budgets(rpc) == [(None, 1000000), (1000000, 2000000), (2000000, None)], "also across a restart"


if __name__ == "__main__":
    harness.main(globals())
