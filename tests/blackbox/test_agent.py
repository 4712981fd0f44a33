"""The loop: a turn that the daemon drives with a model. The model is a fake provider that checks every request as strictly as the real one."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile

import harness
from harness import until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fakes"))
from provider import Provider   # noqa: E402

KEY = "sk-" + "test-" + "a1b2" * 6
DIALECTS = ("anthropic", "openai-responses", "openai-chat", "gemini")


@contextlib.contextmanager
def model(home, rpc, script, dialect="anthropic", name="fake", **more):
    """A provider with this script, registered under the name."""
    with tempfile.NamedTemporaryFile("w", prefix="bl-key-") as f, Provider(dialect, script, keys=(KEY,)) as p:
        f.write(KEY + "\n")
        f.flush()
        rpc.call("add_model", name=name, baseUrl=p.url, dialect=dialect, model="fake-1", keyFile=f.name, replace=True, **more)
        yield p
        assert p.violations == [], p.violations


def submit(rpc, prompt, **more):
    return rpc.call("submit_turn", driver="loop", input=[{"type": "text", "text": prompt}], **more)


def events(rpc, turn, *types):
    return [e for e in rpc.events(turnId=turn["turnId"]) if not types or e["type"] in types]


def ended(rpc, turn):
    return until("the turn ends", lambda: (e := events(rpc, turn, "turn.completed", "turn.failed")) and e[0])


def completed(rpc, turn):
    end = ended(rpc, turn)
    assert end["type"] == "turn.completed", (end, [(e["type"], e["payload"]) for e in events(rpc, turn, "model.failed", "tool.failed")])
    return end


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


def endless():
    """A model that makes a different call in every answer and never finishes."""
    return lambda request: {"calls": [call("shell", command=f": {request.number}")]}


def test_model_answer_completes_the_turn_and_the_key_is_not_logged(home):
    for dialect in DIALECTS:
        with home.rpc() as rpc, model(home, rpc, [{"text": "It is five.", "reasoning": "counting"}], dialect=dialect) as p:
            turn = submit(rpc, "what is the time?")
            end = completed(rpc, turn)
            assert end["payload"]["summary"] == "It is five.", end
            texts = "".join(e["payload"].get("text", "") for e in events(rpc, turn, "model.delta"))
            assert texts == "It is five.", (dialect, texts)
            assert "".join(e["payload"]["text"] for e in events(rpc, turn, "reasoning.delta")) == "counting", dialect
            done = events(rpc, turn, "model.completed")[0]["payload"]
            assert done["stopReason"] == "done" and done["usage"]["outputTokens"] and rpc.call("read_output", outputRef=done["rawRef"])["data"], done
            assert "what is the time?" in p.requests[0].texts[-1] and p.requests[0].key == KEY, p.requests[0].texts
            shown_by_the_read_model(rpc, turn)
            harness.validate(harness.event_validators(), rpc.events())
    assert KEY not in json.dumps(rpc_dump(home)), "the key is nowhere in the log"
    home.cli("store", "verify")


def test_retention_removes_the_conversation_with_its_session(home):
    with home.rpc() as rpc, model(home, rpc, [{"text": "It is five."}]):
        turn = submit(rpc, "what is the time?")
        completed(rpc, turn)
        seen = events(rpc, turn)
        refs = {e["payload"][m] for e in seen for m in ("itemsRef", "responseRef", "rawRef") if m in e["payload"]}
        tasks = {e["taskId"] for e in seen if e["type"] == "task.created"}
        assert len(refs) == 3 and len(tasks) == 1, (refs, tasks)
        assert all(rpc.call("read_output", outputRef=r)["data"] for r in refs)
        rpc.call("update_session", sessionId=turn["sessionId"], archived=True)
        until("the session is removed", lambda: rpc.call("prune_store", olderThanMs=0) and
              not [s for s in rpc.call("list_sessions")["sessions"] if s["sessionId"] == turn["sessionId"]])
        for ref in refs:
            rpc.fails("read_output", {"outputRef": ref}, code=-32004)
        for task in tasks:
            rpc.fails("get_task", {"taskId": task}, code=-32004)
        assert rpc.call("verify_store")["ok"]


def test_metrics_count_requests_tokens_and_calls(home):
    script = [{"status": 529}, {"calls": [call("shell", command="true")]}, {"text": "Done."}]
    with home.rpc() as rpc, model(home, rpc, script, dialect="anthropic"):
        turn = submit(rpc, "go")
        completed(rpc, turn)
        metrics = rpc.call("get_metrics")
        counters, times = metrics["counters"], metrics["histograms"]
        assert counters["modelRequests"] == {"requested": 3, "completed": 2, "failed": 1, "retried": 1}, counters
        usage = [e["payload"]["usage"] for e in events(rpc, turn, "model.completed")]
        assert counters["tokens"]["input"] == sum(u["inputTokens"] for u in usage) > 0, (counters, usage)
        assert counters["tokens"]["output"] == sum(u["outputTokens"] for u in usage) > 0, (counters, usage)
        assert counters["toolCalls"] == {"started": 1, "completed": 1, "failed": 0}, counters
        assert times["modelLatency"]["count"] == 3 and times["toolDuration"]["count"] == 1 and times["queueWait"]["count"] >= 1, times


def shown_by_the_read_model(rpc, turn):
    """The text of an answer, its reasoning by reference, and the context that was sent."""
    asked = events(rpc, turn, "model.requested", "reasoning.delta", "model.delta", "model.completed")
    assert len({e.get("stepId") for e in asked}) == 1 and "reasoning.delta" in [e["type"] for e in asked], asked
    shown = rpc.call("get_thread_read", threadId=turn["threadId"])["turns"][0]
    step, = [s for s in shown["steps"] if s["kind"] == "model"]
    assert (step["stepId"], step["status"], step["preview"]) == (asked[0]["stepId"], "completed", "It is five."), step
    answer = json.loads(rpc.output(step["responseRef"]))
    assert [b["type"] for b in answer["blocks"]][:2] == ["reasoning", "text"], answer
    boundary = rpc.call("get_snapshot", kind="context_boundary_snapshot", threadId=turn["threadId"])["snapshot"]
    for e in events(rpc, turn, "context.resolved"):
        assert e["payload"] in boundary["context"].values(), (boundary, e)


def test_arguments_that_json_libraries_reject_reach_the_tool(home):
    wrong = call("shell", command="true") | {"raw": '{"command": "true", "yieldMs": 18446744073709551616}'}
    script = [{"calls": [call("shell") | {"raw": '{"command": "printf one\n\tprintf two"}'}, wrong]}, {"text": "Done."}]
    for dialect in ("anthropic", "openai-responses", "openai-chat"):
        with home.rpc() as rpc, model(home, rpc, script, dialect=dialect) as p:
            turn = submit(rpc, "try it", options={"cwd": home.work})
            completed(rpc, turn)
            assert len(p.requests) == 2 and not events(rpc, turn, "model.failed"), dialect
            good, bad = map(str, p.requests[1].results)
            assert "onetwo" in good and "yieldMs" in bad and "integer" in bad, (dialect, good, bad)


def test_a_model_can_correct_arguments_that_are_not_json(home):
    made = os.path.join(home.work, "made")
    script = [{"text": "Now.", "calls": [call("shell") | {"raw": "{'command': 'touch made'}"}, call("shell", command="echo second")]},
              {"calls": [call("shell", command="touch made")]}, {"text": "Done."}]
    for dialect in ("anthropic", "openai-responses", "openai-chat"):
        with home.rpc() as rpc, model(home, rpc, script, dialect=dialect) as p:
            turn = submit(rpc, "try it", options={"cwd": home.work})
            completed(rpc, turn)
            bad, good = map(str, p.requests[1].results)
            assert "not a JSON object" in bad and "second" in good, (dialect, bad, good)
            failed, = events(rpc, turn, "tool.failed")
            assert failed["payload"]["category"] == "arguments" and os.path.exists(made), failed
            assert len(p.requests) == 3 and not events(rpc, turn, "model.failed"), dialect
            os.unlink(made)
            harness.validate(harness.event_validators(), rpc.events())


def test_a_model_can_correct_arguments_that_are_no_object(home):
    wrong = {'["touch made"]': "it is an array", '"touch made"': "it is a string", "3": "it is a number", "true": "it is a boolean"}
    script = [{"calls": [call("shell") | {"raw": raw} for raw in wrong]}, {"text": "Done."}]
    for dialect in ("anthropic", "openai-responses", "openai-chat"):
        with home.rpc() as rpc, model(home, rpc, script, dialect=dialect) as p:
            turn = submit(rpc, "try it", options={"cwd": home.work})
            completed(rpc, turn)
            for said, why in zip(map(str, p.requests[1].results), wrong.values(), strict=True):
                assert "not a JSON object" in said and why in said, (dialect, said)
            assert len(p.requests) == 2 and not events(rpc, turn, "model.failed"), dialect


def test_calls_beyond_the_limit_of_an_answer_have_not_run(home):
    script = [{"calls": [call("read_output", outputRef="out_none") for _ in range(130)]}, {"text": "Done."}]
    for dialect in ("anthropic", "openai-responses", "openai-chat"):
        with home.rpc() as rpc, model(home, rpc, script, dialect=dialect) as p:
            turn = submit(rpc, "try it", options={"cwd": home.work})
            completed(rpc, turn)
            results = [str(r) for r in p.requests[1].results]
            assert len(results) == 130 and not any("may have run" in r for r in results), (dialect, results[-3:])
            assert ["has not run" in r for r in results] == [False] * 128 + [True] * 2, (dialect, results[-3:])


def rpc_dump(home):
    with home.rpc() as rpc:
        return rpc.events()


def test_tool_results_are_sent_to_the_model(home):
    for dialect in DIALECTS:
        script = [{"text": "Looking.", "calls": [call("shell", command="echo one; echo two >&2; exit 3"), call("read_file", path="missing.txt")]},
                  {"text": "Done."}]
        with home.rpc() as rpc, model(home, rpc, script, dialect=dialect) as p:
            turn = submit(rpc, "try it", options={"cwd": home.work})
            completed(rpc, turn)
            results = p.requests[1].results
            assert len(results) == 2 and "one" in str(results[0]) and "two" in str(results[0]) and "3" in str(results[0]), results
            assert "missing.txt" in str(results[1]), results
            order = [e["type"] for e in events(rpc, turn, "model.completed", "tool.started", "tool.result", "tool.failed", "model.requested")]
            assert order.index("tool.started") > order.index("model.completed"), "no tool before the whole answer is durable"
            read = rpc.call("get_thread_read", threadId=turn["threadId"])["turns"][0]
            tool = events(rpc, turn, "tool.started")[-1]["toolCallId"]
            of_tool = [e["payload"] for e in events(rpc, turn, "sandbox.applied", "permission.evaluated") if e.get("toolCallId") == tool]
            shown = {"sandboxProfile": read["sandboxProfile"], "permissionDecision": read["permissionState"]}
            for payload in of_tool:
                for key in shown.keys() & payload.keys():
                    assert payload[key] == shown[key], (key, "output of the tool, not of the program that calls the model")
            assert len(of_tool) >= 2, of_tool
            usage = events(rpc, turn, "model.completed")[0]["payload"]["usage"]
            assert usage["inputTokens"] > 0 and usage["outputTokens"] > 0, usage


def test_unknown_tools_and_invalid_arguments_are_reported_to_the_model(home):
    deep = json.loads("[" * 60 + "]" * 60)
    script = [{"calls": [call("no_such_tool", x=1), call("read_file", file="a"), call("mine", x=deep)]}, {"text": "I see."}]
    with home.rpc() as rpc, model(home, rpc, script) as p:
        rpc.call("register_tools", tools=[{"name": "mine", "description": "Takes anything.", "inputSchema": {"type": "object"}}])
        completed(rpc, submit(rpc, "go"))
        results = p.requests[1].results
        assert "no_such_tool" in str(results[0]) and "path" in str(results[1]) and "48 levels" in str(results[2]), results


def test_a_model_cannot_widen_its_sandbox(home):
    other = tempfile.mkdtemp(prefix="bl-other-", dir="/var/tmp")
    secret = os.path.join(other, "secret")
    with open(secret, "w") as f:
        f.write("hidden words\n")
    script = [{"calls": [call("shell", command=f"cat {secret}", sandbox={"readRoots": [other]}), call("shell", command=f"cat {secret}", profile="host"),
                         call("shell", command="cat secret; echo x > new", cwd=other), call("shell", command="pwd; cat here", cwd="sub")]}, {"text": "No."}]
    os.makedirs(os.path.join(home.work, "sub"))
    with open(os.path.join(home.work, "sub", "here"), "w") as f:
        f.write("found it\n")
    with home.rpc() as rpc, model(home, rpc, script) as p:
        completed(rpc, submit(rpc, "go", options={"cwd": home.work}))
        results = [str(r) for r in p.requests[1].results]
        assert "hidden words" not in str(results) and not os.path.exists(os.path.join(other, "new")), results
        assert "only the user" in results[0] and "only the user" in results[1], results
        assert "found it" in results[3], results
    os.unlink(secret)
    os.rmdir(other)


def test_hooks_can_block_a_prompt_or_add_context(home):
    with open(os.path.join(home.dir, "policy.json"), "w") as f:
        json.dump({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo not today >&2; exit 2"}]}]}}, f)
    with home.rpc() as rpc, model(home, rpc, [{"text": "Never."}]) as p:
        rpc.call("reload_policy")
        refused = rpc.fails("submit_turn", {"driver": "loop", "input": [{"type": "text", "text": "go"}], "options": {"cwd": home.work}})
        assert "not today" in str(refused) and p.requests == [], refused
        with open(os.path.join(home.dir, "policy.json"), "w") as f:
            said = {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "it rains"}}
            json.dump({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": f"echo '{json.dumps(said)}'"}]}]}}, f)
        rpc.call("reload_policy")
        completed(rpc, submit(rpc, "go", options={"cwd": home.work}))
        assert "it rains" in str(p.requests[0].texts), p.requests[0].texts


def test_next_turn_continues_the_conversation_with_the_same_prefix(home):
    for dialect in DIALECTS:
        with home.rpc() as rpc, model(home, rpc, [{"text": "One."}, {"text": "Two."}], dialect=dialect) as p:
            turn = submit(rpc, "first")
            completed(rpc, turn)
            completed(rpc, submit(rpc, "second", sessionId=turn["sessionId"]))
            before, after = p.requests
            assert after.texts[:len(before.texts)] == before.texts and after.system == before.system and after.tools == before.tools, (before.texts, after.texts)
            assert "first" in str(before.texts) and "second" in str(after.texts[len(before.texts):]), after.texts
            assert "One." in p.requests[1].raw.decode(), "the answer is part of the conversation"


def test_conversation_in_memory_equals_the_one_in_the_store(home):
    """Also after a rollback, and in a new runtime, which has to read the conversation from the store."""
    script = [{"text": f"Answer {n}.", "calls": []} for n in range(4)] + [{"calls": [call("shell", command="echo tool")]}, {"text": "Done."}, {"status": 529}, {"text": "End."}]
    with home.rpc() as rpc, model(home, rpc, script, dialect="openai-chat") as p:
        turns = [submit(rpc, "first")]
        where = {"threadId": turns[0]["threadId"]}
        completed(rpc, turns[0])
        for prompt in ("second", "third"):
            turns.append(submit(rpc, prompt, **where))
            completed(rpc, turns[-1])
        rpc.call("rollback_thread", toTurnId=turns[0]["turnId"], **where)
        completed(rpc, submit(rpc, "fourth", **where))
        completed(rpc, submit(rpc, "fifth", options={"cwd": home.work}, **where))
        home.kill_part("runtime")
        until("it answers again", home.answers)
        with home.rpc() as again:
            completed(again, submit(again, "sixth", **where))
    sent = [r.body["messages"] for r in p.requests]
    assert sent[2][:len(sent[1])] == sent[1] and "third" in str(sent[2][-1]), sent[2]
    assert "second" not in str(sent[3:]) and sent[3][:len(sent[0]) + 1] == sent[1][:len(sent[0]) + 1], sent[3]
    for before, after in zip(sent[3:], sent[4:]):
        assert after[:len(before)] == before, (before, after)
    assert len(sent) == 8 and sent[6] == sent[7], "the repeated part of the request is unchanged"


def test_failures_are_retried_and_then_reported(home):
    with home.rpc() as rpc, model(home, rpc, [{"status": 529}, {"status": 429, "retry_after": 0}, {"text": "Now."}]) as p:
        turn = submit(rpc, "go")
        completed(rpc, turn)
        assert len(p.requests) == 3
        failed = events(rpc, turn, "model.failed")
        assert [e["payload"]["retryable"] for e in failed] == [True, True], failed
        assert [e["payload"]["attempt"] for e in events(rpc, turn, "model.requested")] == [1, 2, 3]
    with home.rpc() as rpc, model(home, rpc, [{"status": 401, "echo_key": True}], name="refused") as p:
        turn = submit(rpc, "go", model="refused")
        end = ended(rpc, turn)
        assert end["type"] == "turn.failed" and end["payload"]["category"] == "model" and "authentication" in end["payload"]["message"], end
        assert KEY not in json.dumps(rpc.events())


def test_an_error_of_the_provider_counts_also_if_the_connection_breaks_after_it(home):
    error = {"type": "billing_error", "code": "insufficient_quota", "message": "no money is left", "error_after": 1, "cut": "broken"}
    for dialect in DIALECTS[:3]:
        with home.rpc() as rpc, model(home, rpc, [{"text": "Let me see.", **error}], dialect=dialect) as p:
            turn = submit(rpc, "go")
            end = ended(rpc, turn)
            assert end["type"] == "turn.failed" and "no money is left (billing, attempt 1)" in end["payload"]["message"], (dialect, end)
            assert len(p.requests) == 1, "such an error is not retried"


def test_the_status_of_a_turn_follows_its_requests(home):
    def status(rpc, turn):
        read = rpc.call("get_thread_read", threadId=turn["threadId"])
        assert read["status"] == "running" and not read["stale"], read
        return read["turns"][-1]["status"], read.get("phase"), turn["turnId"] in read["diagnosticsSummary"]["quotaBlockedTurns"]

    with home.rpc() as rpc, model(home, rpc, [{"text": "slow " * 50, "gate_after": 4}], name="slow"):
        home.kill_part("spawner", signal.SIGSTOP)
        turn = submit(rpc, "go", model="slow")
        prepared = status(rpc, turn)
        home.kill_part("spawner", signal.SIGCONT)
        assert prepared == ("preparing", "preparing", False), prepared
        until("text arrives", lambda: status(rpc, turn) == ("streaming", "streaming", False))
        rpc.call("interrupt_turn", turnId=turn["turnId"])
        ended(rpc, turn)
    for code, wanted in ((429, "waiting_resource"), (529, "retrying")):
        with home.rpc() as rpc, model(home, rpc, [{"status": code, "retry_after": 100}], name=f"m{code}"):
            turn = submit(rpc, "go", model=f"m{code}")
            until(f"the answer to {code}", lambda: events(rpc, turn, "model.failed"))
            assert status(rpc, turn) == (wanted, wanted, code == 429), status(rpc, turn)
            rpc.call("interrupt_turn", turnId=turn["turnId"])
            assert ended(rpc, turn)["status"] == "cancelled"
            harness.validate(harness.snapshot_validators(), [rpc.call("get_session", sessionId=turn["sessionId"])])


def test_turn_waits_for_a_rate_limit_that_another_turn_hit(home):
    with home.rpc() as rpc, model(home, rpc, [{"status": 429, "retry_after": 5}, {"text": "Now."}, {"text": "Now."}]) as p:
        first = submit(rpc, "one")
        until("the limit is met", lambda: events(rpc, first, "rate_limit.hit"))
        second = submit(rpc, "two")
        completed(rpc, first)
        completed(rpc, second)
        assert events(rpc, second, "routing.not_possible") and len(p.requests) == 3, p.requests


def test_another_model_is_used_when_one_fails(home):
    with home.rpc() as rpc, model(home, rpc, [{"status": 401}], name="first") as first, model(home, rpc, [{"text": "Second."}], name="second", dialect="openai-chat") as second:
        turn = submit(rpc, "go")
        completed(rpc, turn)
        assert len(first.requests) == 1 and len(second.requests) == 1
        assert [e["payload"]["name"] for e in events(rpc, turn, "model.requested")] == ["first", "second"]
        assert events(rpc, turn, "routing.fallback.applied"), [e["type"] for e in events(rpc, turn)]
        gaps = events(rpc, turn, "routing.candidates.resolved")[0]["payload"]["candidateModelSet"]["gaps"]
        assert gaps == {"credentials": "registered", "network": "unavailable"}, gaps


def test_cost_and_token_limits_stop_requests(home):
    with home.rpc() as rpc, model(home, rpc, [{"text": "Dear."}]) as p:
        end = ended(rpc, submit(rpc, "go", limits={"maxCostUsd": 0.5}))
        assert end["type"] == "turn.failed" and end["payload"]["category"] == "price" and p.requests == [], end
    with home.rpc() as rpc, model(home, rpc, endless()) as p:
        end = ended(rpc, submit(rpc, "go", limits={"maxTokens": 6000}))
        assert end["type"] == "turn.failed" and end["payload"]["category"] == "limit" and len(p.requests) < 10, end


def test_a_broken_stream_runs_no_tool(home):
    script = [{"text": "Working", "calls": [call("shell", command="touch twice; echo x >> twice")], "cut_after_events": 4},
              {"text": "Working", "calls": [call("shell", command="echo x >> count")], "drop_terminal": True},
              {"text": "Fine."}]
    with home.rpc() as rpc, model(home, rpc, script) as p:
        turn = submit(rpc, "go")
        completed(rpc, turn)
        assert events(rpc, turn, "tool.started") == [], "no call of an incomplete answer runs"
        assert len(p.requests) == 3


def test_request_limit_ends_the_turn(home):
    with home.rpc() as rpc, model(home, rpc, endless()) as p:
        end = ended(rpc, submit(rpc, "go", limits={"maxRequests": 3}))
        assert end["type"] == "turn.failed" and end["payload"]["category"] == "limit", end
        assert len(p.requests) == 3


def test_a_model_that_repeats_itself_needs_approval(home):
    with home.rpc() as rpc, model(home, rpc, lambda request: {"calls": [call("shell", command="true")]}) as p:
        turn = submit(rpc, "go")
        for n in (3, 6):
            action = until("a person is asked", lambda: (a := rpc.call("list_actions", status="pending")["actions"]) and a[0])
            assert "same calls" in action["prompt"] and len(p.requests) == n, (action, len(p.requests))
            rpc.call("respond_action", actionId=action["actionId"], decision="allow" if n == 3 else "deny")
            until("it is answered", lambda: not rpc.call("list_actions", status="pending")["actions"] or len(p.requests) > n)
        assert ended(rpc, turn)["payload"]["category"] == "permission"
        assert len(p.requests) == 6


def test_steering_enters_before_the_next_request(home):
    script = [{"calls": [call("shell", command="while ! test -e go; do sleep 0.05; done")]}, {"text": "Ok."}]
    with home.rpc() as rpc, model(home, rpc, script) as p:
        turn = submit(rpc, "go", options={"cwd": home.work})
        until("the tool runs", lambda: events(rpc, turn, "process.output", "tool.started"))
        rpc.call("steer_turn", turnId=turn["turnId"], input="use blue")
        open(os.path.join(home.work, "go"), "w").close()
        completed(rpc, turn)
        assert "use blue" in str(p.requests[1].texts), p.requests[1].texts


def test_steering_while_a_stop_hook_runs_continues_the_turn(home):
    hook = "until test -e go; do sleep 0.05; done"
    with open(os.path.join(home.dir, "policy.json"), "w") as f:
        json.dump({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": hook}]}]}}, f)
    with home.rpc() as rpc, model(home, rpc, [{"text": "One."}, {"text": "Two."}]) as p:
        rpc.call("reload_policy")
        turn = submit(rpc, "go", options={"cwd": home.work})
        until("the hook runs", lambda: events(rpc, turn, "hook.started"))
        rpc.call("steer_turn", turnId=turn["turnId"], input="and then")
        assert len(p.requests) == 1, "the hook decides first"
        open(os.path.join(home.work, "go"), "w").close()
        assert completed(rpc, turn)["payload"]["summary"] == "Two."
        assert "and then" in str(p.requests[1].texts) and len(events(rpc, turn, "model.completed")) == 2


def test_an_interrupted_turn_leaves_a_valid_history(home):
    for dialect in DIALECTS:
        script = [{"calls": [call("shell", command="sleep 600")]}, {"text": "Back."}]
        with home.rpc() as rpc, model(home, rpc, script, dialect=dialect) as p:
            turn = submit(rpc, "go")
            until("the tool runs", lambda: events(rpc, turn, "tool.started"))
            rpc.call("interrupt_turn", turnId=turn["turnId"])
            assert ended(rpc, turn)["status"] == "cancelled"
            completed(rpc, submit(rpc, "again", sessionId=turn["sessionId"]))
            assert len(p.requests) == 2 and "again" in str(p.requests[1].texts), p.requests


def test_a_client_cannot_answer_for_the_model(home):
    with home.rpc() as rpc, model(home, rpc, [{"text": "slow " * 50, "gate_after": 6}]) as p:
        turn = submit(rpc, "go")
        until("the stream began", lambda: events(rpc, turn, "model.delta"))
        forged = {"type": "model.completed", "turnId": turn["turnId"], "threadId": turn["threadId"],
                  "modelRequestId": events(rpc, turn, "model.requested")[0]["payload"]["modelRequestId"],
                  "payload": {"calls": [{"toolCallId": "call_x", "id": "x", "name": "shell"}], "responseRef": "out_x"}}
        rpc.fails("emit_events", {"sessionId": turn["sessionId"], "events": [forged]})
        rpc.call("interrupt_turn", turnId=turn["turnId"])
        assert p.requests


def test_interrupting_a_stream_closes_the_connection(home):
    with home.rpc() as rpc, model(home, rpc, [{"text": "slow " * 50, "gate_after": 6}, {"text": "Next."}]) as p:
        turn = submit(rpc, "go")
        until("the stream began", lambda: events(rpc, turn, "model.delta"))
        rpc.call("interrupt_turn", turnId=turn["turnId"])
        assert ended(rpc, turn)["status"] == "cancelled"
        assert p.requests[0].aborted.wait(harness.PATIENCE), "the provider sees the close"
        completed(rpc, submit(rpc, "again", sessionId=turn["sessionId"]))


def test_the_loop_survives_the_death_of_the_runtime(home):
    script = [{"text": "Look", "calls": [call("shell", command="echo x >> count; sleep 1; cat count")], "gate_after": 2}, {"text": "Done."}]
    with home.rpc() as rpc, model(home, rpc, script) as p:
        turn = submit(rpc, "go", options={"cwd": home.work})
        until("the stream began", lambda: p.requests and p.requests[0].status)
        home.kill_part("runtime")
        with home.rpc() as again:
            for _ in range(20):
                p.release()
            completed(again, turn)
            assert open(os.path.join(home.work, "count")).read() == "x\n", "the tool ran once"
            assert len(p.requests) == 2, [r.body for r in p.requests]
            again.call("verify_store")


def test_a_request_whose_program_is_killed_is_sent_again(home):
    with home.rpc() as rpc, model(home, rpc, [{"text": "slow " * 50, "gate_after": 2}, {"text": "Done."}]) as p:
        turn = submit(rpc, "go")
        until("the stream began", lambda: p.requests and p.requests[0].status)
        for pid, _ in harness.descendants_of(home.guard.pid):
            if os.path.basename(harness.command_of(pid).split(" ")[0]) == "bailiff-model":
                os.kill(pid, 9)
        completed(rpc, turn)
        assert len(p.requests) == 2 and events(rpc, turn, "model.failed")[0]["payload"]["retryable"], p.requests


def test_the_loop_survives_the_death_of_the_guard(home):
    script = [{"calls": [call("shell", command="echo x >> count; sleep 600"), call("shell", command="echo y >> count")]}, {"text": "Done."}]
    with home.rpc() as rpc, model(home, rpc, script) as p:
        turn = submit(rpc, "go", options={"cwd": home.work})
        until("the tool runs", lambda: os.path.exists(os.path.join(home.work, "count")))
        home.note_tree()
        home.guard.kill()
        home.guard.wait()
        home.start()
        with home.rpc() as again:
            completed(again, turn)
            assert "waiting_resource" in [e["payload"]["phase"] for e in events(again, turn, "run.status")], "it waited for its client"
        assert open(os.path.join(home.work, "count")).read() == "x\ny\n", "no call ran twice, and the next one waited for a client"
        assert len(p.requests) == 2 and p.requests[1].results[0]["isError"] and not p.requests[1].results[1]["isError"], p.requests[1].results


def test_the_instruction_files_are_part_of_the_conversation(home):
    work = os.path.join(home.work, "repo")
    os.makedirs(os.path.join(work, "sub"))
    os.mkdir(os.path.join(work, ".git"))
    for path, text in (("AGENTS.md", "Be brief."), ("sub/CLAUDE.md", "Use tabs.")):
        with open(os.path.join(work, path), "w") as f:
            f.write(text)
    with home.rpc() as rpc, model(home, rpc, [{"text": "Yes."}, {"text": "Yes."}]) as p:
        options = {"cwd": os.path.join(work, "sub"), "sandbox": {"workspace": work}}
        turn = submit(rpc, "go", options=options)
        completed(rpc, turn)
        said = str(p.requests[0].texts)
        assert said.index("Be brief.") < said.index("Use tabs."), said
        found = [e["payload"]["refs"]["instructions"] for e in events(rpc, turn, "context.resolved") if "instructions" in e["payload"]["refs"]]
        assert [os.path.basename(f["path"]) for f in found[0]["files"]] == ["AGENTS.md", "CLAUDE.md"], found
        assert events(rpc, turn, "context.resolved")[0]["payload"]["refs"]["policy"] == {"mode": "default", "files": []}, events(rpc, turn, "context.resolved")
        completed(rpc, submit(rpc, "again", sessionId=turn["sessionId"], options=options))
        assert str(p.requests[1].texts).count("Be brief.") == 1, "the same instructions are sent once"


def test_system_prompt_is_versioned_and_replaceable(home):
    def prompt_of(turn):
        found, = [e["payload"]["refs"]["systemPrompt"] for e in events(rpc, turn, "context.resolved") if "systemPrompt" in e["payload"]["refs"]]
        return found
    for dialect in DIALECTS:
        with home.rpc() as rpc, model(home, rpc, ["One.", "Two.", {"calls": [call("shell", command="true")]}, "Three."], dialect=dialect) as p:
            turn = submit(rpc, "go")
            completed(rpc, turn)
            assert prompt_of(turn)["source"] == "built-in" and prompt_of(turn)["version"], prompt_of(turn)
            completed(rpc, submit(rpc, "again", sessionId=turn["sessionId"]))
            assert p.requests[0].system == p.requests[1].system, "the same bytes in every request"
            own = submit(rpc, "go", systemPrompt="Answer in \u00fcppercase.")
            completed(rpc, own)
            assert [str(r.system).count("Answer in \u00fcppercase.") for r in p.requests] == [0, 0, 1, 1], [r.system for r in p.requests]
            assert "sandbox" not in str(p.requests[3].system) and prompt_of(own)["source"] == "turn", prompt_of(own)
    with home.rpc() as rpc:
        for wrong, params in (("systemPrompt", {"driver": "loop", "systemPrompt": ""}), ("systemPrompt", {"systemPrompt": "x"}),
                              ("systemPrompt", {"driver": "loop", "systemPrompt": "x" * 70000})):
            try:
                rpc.call("submit_turn", input=[{"type": "text", "text": "go"}], **params)
            except harness.RpcError as e:
                assert wrong in str(e), e
            else:
                raise AssertionError(f"accepted: {params}")
    path = os.path.join(home.work, "prompt.md")
    with open(path, "w") as f:
        f.write("Be a pirate.")
    with home.rpc() as rpc, model(home, rpc, ["Arr."]) as p:
        home.cli("agent", "-p", "--system-prompt", path, "go", cwd=home.work)
        assert "Be a pirate." in str(p.requests[0].system), p.requests[0].system
        home.cli("agent", "-p", "--system-prompt", path + ".missing", "go", cwd=home.work, status=1)
        assert len(p.requests) == 1


def test_instruction_files_begin_with_those_of_the_home(home):
    user, repo = os.path.join(home.work, "user"), os.path.join(home.work, "repo")
    files = {"user/.config/AGENTS.md": "From home.", "user/.claude/CLAUDE.md": "Not this one.", "user/.config/bailiff/system-prompt.md": "My prompt.",
             "repo/AGENTS.md": "From the root.", "repo/sub/CLAUDE.md": "From the folder.", "repo/sub/deep/AGENTS.md": "x" * 40000}
    os.makedirs(os.path.join(repo, ".git"))
    for path, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(home.work, path)), exist_ok=True)
        with open(os.path.join(home.work, path), "w") as f:
            f.write(text)
    os.symlink("/etc/passwd", os.path.join(repo, "sub/AGENTS.md"))

    def read():
        out = subprocess.run([os.path.join(harness.BUILD, "bailiff-tool"), "instructions"], cwd=os.path.join(repo, "sub/deep"),
                             env={"HOME": user}, capture_output=True, check=True).stdout
        return json.loads(out)
    found = read()
    order = [found["text"].index(t) for t in ("From home.", "From the root.", "From the folder.", "xxx")]
    assert order == sorted(order) and "root:" not in found["text"] and len(found["text"]) < 34000, found["text"][:500]
    assert [f.get("truncated", False) for f in found["files"]] == [False, False, False, True], found["files"]
    omitted = {os.path.relpath(o["path"], home.work): o["reason"] for o in found["omitted"]}
    assert omitted == {"user/.claude/CLAUDE.md": "another_file_applies", "repo/sub/AGENTS.md": "symbolic_link"}, omitted
    assert found["systemPrompt"] == {"path": os.path.join(user, ".config/bailiff/system-prompt.md"), "text": "My prompt."}, found["systemPrompt"]
    with open(os.path.join(user, ".config/bailiff/system-prompt.md"), "w") as f:
        f.write("y" * 70000)
    found = read()
    assert "systemPrompt" not in found and "limit" in [o["reason"] for o in found["omitted"]], found["omitted"]


def test_long_conversation_is_compacted(home):
    big = "x" * 60000
    script = [{"text": "Big. " + big}, {"text": "Bigger. " + big}, {"text": "SUMMARY: we counted to two."}, {"text": "Three."}]
    with home.rpc() as rpc, model(home, rpc, script, contextTokens=32000) as p:
        turn = submit(rpc, "one")
        completed(rpc, turn)
        completed(rpc, submit(rpc, "two", sessionId=turn["sessionId"]))
        third = submit(rpc, "three", sessionId=turn["sessionId"])
        completed(rpc, third)
        assert "SUMMARY: we counted" in p.requests[3].raw.decode() and big not in p.requests[3].raw.decode()
        assert "three" in str(p.requests[3].texts)
        until("the compaction is recorded", lambda: "context.compaction.completed" in [e["type"] for e in rpc.events()])


def test_the_command_line_runs_an_agent(home):
    script = [{"text": "Writing.", "calls": [call("write_file", path="new.txt", content="made\n")]}, {"text": "Wrote new.txt."}]
    with home.rpc() as rpc, model(home, rpc, script):
        done = home.cli("agent", "-p", "write a file", cwd=home.work)
        assert "Wrote new.txt." in done.text and b"write_file" in done.err, done.err
    assert open(os.path.join(home.work, "new.txt")).read() == "made\n"
    with home.rpc() as rpc, model(home, rpc, [{"text": "Again."}]):
        done = home.cli("agent", "--json", "hello", cwd=home.work)
        lines = [json.loads(line) for line in done.text.splitlines()]
        result = lines[-1]
        assert result["type"] == "result" and result["status"] == "completed" and result["text"] == "Again.", result
        assert result["usage"]["inputTokens"] >= 0 and result["turnId"] and result["sessionId"], result
    with home.rpc() as rpc, model(home, rpc, endless()):
        home.cli("agent", "-p", "--max-requests", "2", "go", cwd=home.work, status=124)


if __name__ == "__main__":
    harness.main(globals())
