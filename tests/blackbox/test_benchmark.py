"""Benchmark trials: bound to a run, ended with it, rewarded by an external verifier, compared only where a comparison is meaningful."""

import hashlib
import json
import os

import harness
from harness import until

DATASET = {"datasetId": "tasks", "datasetVersion": "2026-05"}


def valid(name, document):
    errors = sorted(harness.schema_validators()[name].iter_errors(document), key=str)
    assert not errors, f"{name}: {errors[0].message} at {list(errors[0].path)}\n{json.dumps(document)[:1500]}"


def begun(rpc, session=None, command=None, **more):
    """A task with a run and the turn that it works in."""
    session = session or rpc.call("create_session", title="bench")["sessionId"]
    task = rpc.call("create_task", objective="bench", sessionId=session, **(dict(more, commandLine=command, autoComplete=True) if command else {}))["taskId"]
    run = rpc.call("start_task", taskId=task)["runId"]
    if command:
        turn = until("its process has a turn", lambda: [e["turnId"] for e in rpc.events(taskId=task) if e["type"] == "process.started"])[0]
    else:
        turn = rpc.call("submit_turn", sessionId=session, input=[{"type": "text", "text": "do it"}])["turnId"]
    return {"taskId": task, "runId": run, "turnId": turn}, session


def trial(rpc, ids, configuration, role="candidate", **more):
    return rpc.call("start_benchmark_trial", **{**DATASET, "configurationId": configuration, "role": role, **ids, **more})["trialId"]


def status(rpc, trial_id):
    return [e["type"] for e in rpc.events() if e.get("benchmark", {}).get("trialId") == trial_id and e["type"].startswith("benchmark.trial")][-1].split(".")[-1]


def done(rpc, ids):
    rpc.call("complete_turn", turnId=ids["turnId"], outcome="done")
    rpc.call("complete_task", taskId=ids["taskId"])


def facts(rpc, session):
    events = [e for e in rpc.events(sessionId=session)]
    harness.validate(harness.event_validators(), events)
    return [e["type"].split(".", 1)[1] for e in events if e["type"].startswith("benchmark.")]


def test_a_trial_from_its_start_to_its_pack(home):
    with home.rpc() as rpc:
        ids, session = begun(rpc)
        given = {"trialId": "trial-1", "benchmarkTaskId": "tool-approval", "harborJobRef": "jobs/1", "taskTomlRef": "bench/task.toml",
                 "singleChangedVariable": "feedback", "timeoutSec": 60}
        t = trial(rpc, ids, "cand", **given)
        assert t == "trial-1" and facts(rpc, session) == ["dataset.resolved", "configuration.resolved", "trial.started"]
        assert trial(rpc, ids, "cand", **given) == "trial-1" and len(facts(rpc, session)) == 3
        rpc.fails("start_benchmark_trial", {**DATASET, **ids, "configurationId": "other", "role": "candidate", "trialId": "trial-1"}, code=-32009)
    home.kill_part("runtime")
    with home.rpc() as rpc:
        assert status(rpc, t) == "started"
        rpc.call("invoke_tool", turnId=ids["turnId"], toolName="shell", arguments={"commandLine": "echo trial"})
        rpc.call("record_cost", turnId=ids["turnId"], provider="acme", model="large", inputTokens=100, outputTokens=20, costUsd=0.25)
        done(rpc, ids)
        assert status(rpc, t) == "completed"
        started = [e for e in rpc.events(sessionId=session) if e["type"] == "benchmark.trial.started"][0]
        ended = [e for e in rpc.events(sessionId=session) if e["type"] == "benchmark.trial.completed"][0]
        assert ended["benchmark"] == started["benchmark"] and ended["runId"] == ids["runId"] and ended["refs"]["harborJobRef"] == "jobs/1"
    home.restart()
    with home.rpc() as rpc:
        rpc.call("record_benchmark_reward", trialId=t, reward=0.75, criteria=["a", "b"], details={"why": "close"}, verifier="v1")
        recorded = [e for e in rpc.events(sessionId=session) if e["type"] == "benchmark.reward.recorded"][0]
        assert recorded["reward"] == {"value": 0.75, "criteria": ["a", "b"], "failureCategory": "none"} and recorded["taskId"] == ids["taskId"]
        result = rpc.call("export_benchmark_trial", trialId=t)
        data = rpc.output(result["packRef"])
        pack = json.loads(data)
        valid("benchmark-pack.schema.json", pack)
        assert hashlib.sha256(data).hexdigest() == result["sha256"]
        assert pack["benchmark"]["taskId"] == "tool-approval" and pack["benchmark"]["trialId"] == t
        assert {k: v for k, v in pack["runtimeCorrelation"].items() if k in ids} == ids
        assert pack["reward"]["value"] == pack["metrics"]["reward"] == 0.75 and pack["metrics"]["tokens"] == 120 and pack["metrics"]["costUsd"] == 0.25
        assert pack["metrics"]["evidenceComplete"] is True and pack["metrics"]["timeout"] is False and pack["metrics"]["durationMs"] >= 0
        for member, schema in (("trajectoryRef", "trajectory.schema.json"), ("runtimeTranscriptRef", "evidence-pack.schema.json"),
                               ("artifactManifestRef", "evidence-pack.schema.json")):
            inner = rpc.output(result[member])
            assert pack["refs"][member] == "sha256:" + hashlib.sha256(inner).hexdigest()
            valid(schema, json.loads(inner))
        summary = rpc.call("get_snapshot", kind="benchmark_summary", sessionId=session)["snapshot"]
        assert [(x["trialId"], x["status"], x["reward"], x["packRef"]) for x in summary["trials"]] == [(t, "completed", 0.75, result["packRef"])], summary
        again = rpc.call("export_benchmark_trial", trialId=t)
        assert (again["packRef"], again["sha256"]) == (result["packRef"], result["sha256"])
        assert "reward.recorded" in facts(rpc, session)
    home.cli("store", "verify")


def test_a_trial_ends_as_its_run_does(home):
    with home.rpc() as rpc:
        failing, session = begun(rpc, command="while ! test -e go; do sleep 0.02; done; exit 3", cwd=home.work)
        t = trial(rpc, failing, "base", "baseline")
        open(os.path.join(home.work, "go"), "w").close()
        until("the trial fails", lambda: status(rpc, t) == "failed")
        failed = [e for e in rpc.events(sessionId=session) if e["type"] == "benchmark.trial.failed"][0]
        assert failed["payload"]["failureCategory"] == "exit" and failed["payload"]["stage"] == "run", failed["payload"]
        rpc.fails("start_benchmark_trial", {**DATASET, **failing, "configurationId": "late", "role": "candidate"}, code=-32015)
        # a success of the verifier does not turn a failed run into a successful one
        rpc.call("record_benchmark_reward", trialId=t, reward=0)
        pack = json.loads(rpc.output(rpc.call("export_benchmark_trial", trialId=t)["packRef"]))
        valid("benchmark-pack.schema.json", pack)
        assert pack["decisionInputs"]["failureCategory"] == "exit" and pack["metrics"]["evidenceComplete"] is True
        cancelled, session = begun(rpc, command="sleep 1000")
        t = trial(rpc, cancelled, "base", "baseline")
        rpc.call("cancel_task", taskId=cancelled["taskId"], reason="enough")
        until("the trial fails", lambda: status(rpc, t) == "failed")
        # the verifier itself failed
        ids, session = begun(rpc)
        t = trial(rpc, ids, "cand")
        done(rpc, ids)
        assert rpc.fails("record_benchmark_reward", {"trialId": t}).data["field"] == "reward"
        assert rpc.call("record_benchmark_reward", trialId=t, verifierStatus="error")["status"] == "failed"
        assert status(rpc, t) == "failed" and facts(rpc, session)
        for wrong, field in (({"runId": "run_none"}, "runId"), ({"turnId": "turn_none"}, "turnId"), ({"threadId": "thr_none"}, "threadId")):
            fresh, _ = begun(rpc)
            error = rpc.fails("start_benchmark_trial", {**DATASET, **fresh, "configurationId": "x", "role": "control", **wrong})
            assert error.data["field"] == field, error
        assert rpc.fails("export_benchmark_trial", {"trialId": "none"}, code=-32004).data["field"] == "trialId"
    home.cli("store", "verify")


def test_only_comparable_trials_are_compared(home):
    with home.rpc() as rpc:
        session = None
        for configuration, role, rewards in (("base", "baseline", (0.5, 0.5)), ("cand", "candidate", (1, 0.5))):
            for i, reward in enumerate(rewards):
                ids, session = begun(rpc, session)
                t = trial(rpc, ids, configuration, role, benchmarkTaskId=f"task-{i}")
                done(rpc, ids)
                rpc.call("record_benchmark_reward", trialId=t, reward=reward, criteria=["same"])
                if i:
                    rpc.call("export_benchmark_trial", trialId=t)
        ids, _ = begun(rpc, session)
        t = trial(rpc, ids, "cand", benchmarkTaskId="task-1")
        rpc.call("fail_turn", turnId=ids["turnId"], category="wrong", message="no")
        rpc.call("fail_task", taskId=ids["taskId"], error="no")
    home.kill_part("runtime")
    with home.rpc() as rpc:
        rpc.call("record_benchmark_reward", trialId=t, reward=0, criteria=["same"], failureCategory="wrong")
        c = rpc.call("compare_benchmark_runs", datasetId="tasks", baseline="base", candidate="cand", decision="revert")["comparison"]
        assert abs(c["meanRewardDelta"]) < 1e-9 and c["timeoutRateDelta"] == 0 and c["evidenceCompletenessRate"] == 0.4, c
        assert c["p0QcGateRegressionCount"] == 1 and c["decision"] == "revert" and c["candidateTrials"]["trials"] == 3, c
        told = [e for e in rpc.events(sessionId=session) if e["type"] == "benchmark.comparison.completed"][0]
        assert told["comparison"] == c and told["benchmark"]["datasetId"] == "tasks"
        assert facts(rpc, session).count("dataset.resolved") == 1 and facts(rpc, session).count("configuration.resolved") == 2
        # other criteria, another version: rejected
        ids, _ = begun(rpc, session)
        other = trial(rpc, ids, "cand")
        done(rpc, ids)
        rpc.call("record_benchmark_reward", trialId=other, reward=1, criteria=["another"])
        assert "criteria" in rpc.fails("compare_benchmark_runs", {"datasetId": "tasks", "baseline": "base", "candidate": "cand"}, code=-32015).message
        ids, _ = begun(rpc, session)
        newer = rpc.call("start_benchmark_trial", **{**DATASET, "datasetVersion": "2026-06", **ids, "configurationId": "next", "role": "candidate"})["trialId"]
        done(rpc, ids)
        rpc.call("record_benchmark_reward", trialId=newer, reward=1, criteria=["same"])
        assert "version" in rpc.fails("compare_benchmark_runs", {"datasetId": "tasks", "baseline": "base", "candidate": "next"}, code=-32015).message
        assert rpc.fails("compare_benchmark_runs", {"datasetId": "tasks", "baseline": "base", "candidate": "none"}).data["field"] == "candidate"
        assert rpc.fails("compare_benchmark_runs", {"datasetId": "tasks", "baseline": "base", "candidate": "base"}).data["field"] == "candidate"
    home.cli("store", "verify")


if __name__ == "__main__":
    harness.main(globals())
