"""Agents behind the tool subagent, attempts of tasks and items of jobs. The model is a fake provider."""

import os
import tempfile

import harness
from harness import until
from test_agent import call, completed, ended, events, model, submit


def by_prompt(**scripts):
    """A model that several agents call in parallel: answers by the first word of the prompt, in order."""
    steps = {word: iter(script) for word, script in scripts.items()}

    def answer(request):
        prompts = [word for word in steps if any(text.startswith(word) for text in request.texts)]
        assert len(prompts) == 1, (prompts, request.texts)
        return next(steps[prompts[0]])
    return answer


def subagents(rpc, turn):
    return rpc.call("list_subagents", sessionId=turn["sessionId"])["subagents"]


def test_subagents_answer_is_the_result_of_its_call(home):
    script = by_prompt(parent=[{"calls": [call("subagent", prompt="child: write it", description="writer")]}, {"text": "It wrote."}],
                       child=[{"calls": [call("write_file", path="made.txt", content="x\n")]}, {"text": "Written: made.txt."}])
    with home.rpc() as rpc, model(home, rpc, script) as p:
        turn = submit(rpc, "parent: let it be written", options={"cwd": home.work})
        end = completed(rpc, turn)
        assert end["payload"]["summary"] == "It wrote.", end
        assert open(os.path.join(home.work, "made.txt")).read() == "x\n"
        assert [r["text"].strip() for r in p.requests[3].results] == ["Written: made.txt."], p.requests[3].results
        names = [[t["name"] for t in r.body["tools"]] for r in p.requests]
        assert "subagent" in names[0] and "subagent" not in names[1], "one level by default"
        child, = subagents(rpc, turn)
        assert (child["status"], child["outcome"], child["nickname"], child["parentTurnId"]) == ("closed", "answered", "writer", turn["turnId"]), child
        assert end["payload"]["usage"]["requests"] == 4, end["payload"]["usage"]
        for method, more in (("resume_subagent", {}), ("report_subagent", {"status": "completed"})):
            rpc.fails(method, {"subagentId": child["subagentId"], **more}, code=-32015)
        harness.validate(harness.event_validators(), rpc.events())
    home.cli("store", "verify")


def test_a_subagent_has_a_share_of_the_limits(home):
    asks = [{"calls": [call("subagent", prompt=f"child {i}")]} for i in range(3)]
    script = by_prompt(parent=[*asks, {"text": "Enough."}], child=[{"calls": [call("shell", command=f": {i}")]} for i in range(9)])
    with home.rpc() as rpc, model(home, rpc, script):
        turn = submit(rpc, "parent", limits={"maxRequests": 6}, options={"cwd": home.work})
        completed_or_limit = ended(rpc, turn)
        assert completed_or_limit["type"] == "turn.failed" and completed_or_limit["payload"]["category"] == "limit", completed_or_limit
        made = [e for e in rpc.events() if e["type"] == "model.requested"]
        assert len(made) <= 6, "the requests of subagents count"
        assert "limit" in str(events(rpc, turn, "tool.failed")), events(rpc, turn, "tool.failed")
    script = by_prompt(parent=[*asks, {"text": "Enough."}], child=[{"text": "Yes."} for i in range(9)])
    with home.rpc() as rpc, model(home, rpc, script):
        turn = submit(rpc, "parent", limits={"maxSubagents": 1}, options={"cwd": home.work})
        completed(rpc, turn)
        assert len(subagents(rpc, turn)) == 1 and len(events(rpc, turn, "tool.failed")) == 2, subagents(rpc, turn)
    with home.rpc() as rpc, model(home, rpc, by_prompt(parent=[{"text": "Alone."}])) as p:
        completed(rpc, submit(rpc, "parent", limits={"subagentDepth": 0}))
        assert "subagent" not in [t["name"] for t in p.requests[0].body["tools"]]


def test_subagents_of_subagents_share_the_limits(home):
    script = by_prompt(top=[{"calls": [call("subagent", prompt="middle")]}, {"text": "Top."}],
                       middle=[{"calls": [call("subagent", prompt="bottom")]}, {"text": "Middle."}], bottom=[{"text": "Bottom."}])
    with home.rpc() as rpc, model(home, rpc, script) as p:
        turn = submit(rpc, "top", limits={"subagentDepth": 2, "maxTokens": 200000}, options={"cwd": home.work})
        assert completed(rpc, turn)["payload"]["usage"]["requests"] == 5
        offered = ["subagent" in [t["name"] for t in r.body["tools"]] for r in p.requests]
        assert offered == [True, True, False, True, True], offered
        shares = [e["payload"]["loopLimits"]["maxTokens"] for e in rpc.events() if e["type"] == "turn.submitted" and "loopLimits" in e["payload"]]
        assert len(shares) == 3 and shares[0] > shares[1] > shares[2] > 0, shares
        harness.validate(harness.event_validators(), rpc.events())


def slow_child():
    return by_prompt(parent=[{"calls": [call("subagent", prompt="child")]}, {"text": "Done."}],
                     child=[{"calls": [call("shell", command="echo x >> count; sleep 1")]}, {"text": "Ran."}])


def test_interrupting_a_turn_ends_its_subagents(home):
    script = by_prompt(parent=[{"calls": [call("subagent", prompt="child")]}], child=[{"calls": [call("shell", command="echo x > begun; sleep 600")]}])
    with home.rpc() as rpc, model(home, rpc, script):
        turn = submit(rpc, "parent", options={"cwd": home.work})
        until("the child's command runs", lambda: os.path.exists(os.path.join(home.work, "begun")))
        rpc.call("interrupt_turn", turnId=turn["turnId"])
        assert ended(rpc, turn)["status"] == "cancelled"
        child, = subagents(rpc, turn)
        assert child["status"] == "closed" and events(rpc, turn, "tool.failed")[0]["status"] == "cancelled", child
        assert not [x for x in rpc.call("list_processes")["processes"] if x["status"] == "running" and x.get("turnId")]
    os.unlink(os.path.join(home.work, "begun"))
    with home.rpc() as rpc, model(home, rpc, by_prompt(parent=[{"calls": [call("subagent", prompt="child")]}, {"text": "Without it."}],
                                                       child=[{"calls": [call("shell", command="echo x > begun; sleep 600")]}])):
        turn = submit(rpc, "parent", options={"cwd": home.work})
        until("the child's command runs", lambda: os.path.exists(os.path.join(home.work, "begun")))
        rpc.call("close_subagent", subagentId=subagents(rpc, turn)[0]["subagentId"])
        assert completed(rpc, turn)["payload"]["summary"] == "Without it.", "the parent continues"


def test_a_subagent_survives_the_death_of_the_runtime(home):
    with home.rpc() as rpc, model(home, rpc, slow_child()) as p:
        turn = submit(rpc, "parent", options={"cwd": home.work})
        until("the child's command runs", lambda: os.path.exists(os.path.join(home.work, "count")))
        home.kill_part("runtime")
        with home.rpc() as again:
            completed(again, turn)
            assert open(os.path.join(home.work, "count")).read() == "x\n", "the tool ran once"
            assert len(p.requests) == 4 and len(subagents(again, turn)) == 1, p.requests
            again.call("verify_store")


def test_the_command_line_answers_for_subagents(home):
    script = by_prompt(parent=[{"calls": [call("subagent", prompt="child")]}, {"text": "Parent's answer."}],
                       child=[{"text": "Asking.", "calls": [call("ask_user", question="Left?")]}, {"text": "Child's answer."}])
    with home.rpc() as rpc, model(home, rpc, script):
        done = home.cli("agent", "-p", "parent", cwd=home.work, status=3)
        assert "Asking." not in done.text, "only the answer of the turn is printed"


def test_an_agent_works_on_a_task(home):
    with home.rpc() as rpc, model(home, rpc, [{"calls": [call("write_file", path="a.txt", content="a\n")]}, {"text": "Wrote a.txt."}]):
        done = home.cli("task", "run", "--agent", "write a file", cwd=home.work)
        assert done.text.strip() == "Wrote a.txt.", (done.text, done.err)
        assert open(os.path.join(home.work, "a.txt")).read() == "a\n"
        task = rpc.call("get_task", taskId=rpc.call("list_tasks")["tasks"][0]["taskId"])
        assert task["status"] == "completed" and task["worker"]["kind"] == "agent", task
        harness.validate(harness.event_validators(), rpc.events())
    home.cli("store", "verify")


def test_an_attempt_of_an_agent_is_repeated_and_has_limits(home):
    fails = {"calls": [call("shell", command="true")]}
    with home.rpc() as rpc, model(home, rpc, [fails, {"text": "Second time."}]) as p:
        task = rpc.call("create_task", objective="try", autoComplete=True, retryPolicy={"maxAttempts": 2},
                        agent={"prompt": "try", "limits": {"maxRequests": 1}}, cwd=home.work)["taskId"]
        rpc.call("start_task", taskId=task)
        until("it is completed", lambda: rpc.call("get_task", taskId=task)["status"] == "completed")
        attempts = [(e["type"], e["payload"].get("failureCategory")) for e in rpc.events(taskId=task) if e["type"].startswith("task.attempt.")]
        assert attempts == [("task.attempt.started", None), ("task.attempt.failed", "limit"), ("task.attempt.started", None), ("task.attempt.completed", None)], attempts
        assert len(p.requests) == 2, p.requests
    with home.rpc() as rpc:
        for wrong in ({"command": ["true"], "agent": {"prompt": "x"}}, {"agent": {"prompt": ""}}, {"agent": {"prompt": "x"}, "cow": True}):
            rpc.fails("create_task", {"objective": "x", **wrong}, code=-32602)


def test_cancelling_a_task_ends_its_agent(home):
    with home.rpc() as rpc, model(home, rpc, [{"calls": [call("shell", command="echo x > begun; sleep 600")]}]):
        task = rpc.call("create_task", objective="wait", agent={"prompt": "wait"}, cwd=home.work)["taskId"]
        rpc.call("start_task", taskId=task)
        until("the command runs", lambda: os.path.exists(os.path.join(home.work, "begun")))
        rpc.fails("pause_task", {"taskId": task}, code=-32015)
        rpc.call("cancel_task", taskId=task)
        until("it is cancelled", lambda: rpc.call("get_task", taskId=task)["status"] == "cancelled")
        types = [e["type"] for e in rpc.events(taskId=task)]
        assert types.index("turn.failed") < types.index("task.cancelled"), types


def test_a_paused_task_of_an_agent_begins_with_the_agent(home):
    with home.rpc() as rpc, model(home, rpc, [{"text": "Done."}]):
        first = rpc.call("create_task", objective="first")["taskId"]
        task = rpc.call("create_task", objective="then", autoComplete=True, agent={"prompt": "then"}, cwd=home.work, blockedBy=[first])["taskId"]
        rpc.call("start_task", taskId=task)
        rpc.call("pause_task", taskId=task)
        rpc.call("unlink_tasks", taskId=task, kind="blocked_by", targetId=first)
        rpc.call("resume_task", taskId=task)
        record = until("it has ended", lambda: (lambda t: t if "endedAt" in t else None)(rpc.call("get_task", taskId=task)))
        assert record["status"] == "completed" and record["worker"]["kind"] == "agent", record


def test_an_attempt_of_an_agent_survives_the_death_of_the_runtime(home):
    with home.rpc() as rpc, model(home, rpc, [{"calls": [call("shell", command="echo x >> count; sleep 1")]}, {"text": "Done."}]) as p:
        task = rpc.call("create_task", objective="run", autoComplete=True, agent={"prompt": "run"}, cwd=home.work)["taskId"]
        rpc.call("start_task", taskId=task)
        until("the command runs", lambda: os.path.exists(os.path.join(home.work, "count")))
        home.kill_part("runtime")
        with home.rpc() as again:
            until("it is completed", lambda: again.call("get_task", taskId=task)["status"] == "completed")
            assert open(os.path.join(home.work, "count")).read() == "x\n" and len(p.requests) == 2


def test_an_attempt_of_an_agent_has_a_time_limit(home):
    with home.rpc() as rpc, model(home, rpc, [{"calls": [call("shell", command="sleep 600")]}]):
        task = rpc.call("create_task", objective="wait", agent={"prompt": "wait"}, retryPolicy={"timeoutMs": 700}, cwd=home.work)["taskId"]
        rpc.call("start_task", taskId=task)
        until("it has timed out", lambda: rpc.call("get_task", taskId=task)["status"] == "timed_out")
        types = [e["type"] for e in rpc.events(taskId=task)]
        assert types.index("turn.failed") < types.index("task.attempt.failed") < types.index("task.timed_out"), types


def test_next_attempt_of_an_agent_waits_for_the_end_of_the_previous_one(home):
    """The command of the first attempt runs for a while after its time limit, which is long enough for the second attempt on a busy machine."""
    slow = call("shell", command="trap 'sleep 0.7; echo last >> log; exit' TERM; echo first >> log; while :; do sleep 0.1; done")
    ended = ("completed", "failed", "timed_out", "cancelled")
    for work in ("task", "job"):
        log = os.path.join(home.work, "log")
        with home.rpc() as rpc, model(home, rpc, [{"calls": [slow]}, {"calls": [call("shell", command="echo second >> log")]}, {"text": "Done."}]):
            policy = {"maxAttempts": 2, "timeoutMs": 6000}
            if work == "task":
                task = rpc.call("create_task", objective="wait", autoComplete=True, agent={"prompt": "wait"}, retryPolicy=policy, cwd=home.work)["taskId"]
                rpc.call("start_task", taskId=task)
                end = until("it has ended", lambda: (t := rpc.call("get_task", taskId=task))["status"] in ended and t)
            else:
                job = rpc.call("create_job", agent={"prompt": "wait"}, items=[{"itemId": "a"}], retryPolicy=policy, cwd=home.work)["jobId"]
                end = until("it has ended", lambda: (j := rpc.call("get_job", jobId=job))["status"] in ended and j)
            assert end["status"] == "completed", (end, rpc.events())
            assert open(log).read().split() == ["first", "last", "second"], open(log).read()
            ends = [e for e in rpc.events() if e["type"] in ("task.attempt.failed", "job.item.failed")]
            assert [(e["status"], e["payload"]["lastError"]["limit"]) for e in ends][-1] == ("timed_out", "attempt"), ends
        os.unlink(log)


def test_agents_work_on_the_items_of_a_job(home):
    script = by_prompt(one=[{"text": "First."}], two=[{"text": "Second."}], three=[{"status": 400, "message": "no"}])
    with home.rpc() as rpc, model(home, rpc, script), tempfile.NamedTemporaryFile("w") as items:
        items.write("one\ntwo\nthree\n")
        items.flush()
        done = home.cli("job", "run", "--agent", "--items", items.name, cwd=home.work, status=1)
        lines = done.text.splitlines()
        assert lines[:2] == ["completed  one: First.", "completed  two: Second."] and lines[2].startswith("failed  three: "), lines
        job = rpc.call("get_job", jobId=rpc.call("list_jobs")["jobs"][0]["jobId"])
        assert rpc.output(job["items"][0]["outputRefs"][0]["outputRef"]) == b"First.", job["items"][0]
        harness.validate(harness.event_validators(), rpc.events())
    home.cli("store", "verify")


def test_cancelling_a_job_ends_its_agents(home):
    with home.rpc() as rpc, model(home, rpc, lambda request: {"calls": [call("shell", command="echo x >> begun; sleep 600")]}):
        job = rpc.call("create_job", agent={"prompt": "item {item}"}, items=[{"input": "a"}, {"input": "b"}, {"input": "c"}], maxParallel=2, cwd=home.work)["jobId"]
        begun = os.path.join(home.work, "begun")
        until("two run", lambda: os.path.exists(begun) and open(begun).read() == "x\nx\n")
        rpc.call("cancel_job", jobId=job)
        until("it is cancelled", lambda: rpc.call("get_job", jobId=job)["status"] == "cancelled")


def test_the_agents_of_a_job_survive_the_death_of_the_runtime(home):
    script = by_prompt(**{word: [{"calls": [call("shell", command=f"echo x >> {word}; sleep 1")]}, {"text": f"{word}."}] for word in ("left", "right")})
    with home.rpc() as rpc, model(home, rpc, script) as p:
        job = rpc.call("create_job", agent={"prompt": "{item}"}, items=[{"input": "left"}, {"input": "right"}], maxParallel=2, cwd=home.work)["jobId"]
        made = [os.path.join(home.work, word) for word in ("left", "right")]
        until("both commands run", lambda: all(os.path.exists(path) for path in made))
        home.kill_part("runtime")
        with home.rpc() as again:
            until("it is completed", lambda: again.call("get_job", jobId=job)["status"] == "completed")
            items = again.call("get_job", jobId=job)["items"]
            assert [(i["summary"], i["attemptCount"]) for i in items] == [("left.", 1), ("right.", 1)], items
        assert [open(path).read() for path in made] == ["x\n", "x\n"] and len(p.requests) == 4, p.requests


if __name__ == "__main__":
    harness.main(globals())
