#!/usr/bin/python3
"""Writes docs/fixtures from a run: one document for each thing that the specification shows an example of.

    tests/blackbox/fixtures.py --write | --check

A daemon of its own does the work; ids, times, hashes and what depends on the machine are replaced by fixed ones, so that the files
only change when what bailiff says does. --check compares shapes (members and the types of their values), not texts."""

import json
import os
import re
import sys

import harness

FOLDER = os.path.join(harness.ROOT, "docs", "fixtures")
MACHINE = ("hidden", "readRoots", "writeRoots", "private", "protected", "environment")  # lists that depend on it
POLICY = {"models": [{"provider": "acme", "model": "large", "capabilities": ["tools"], "price": {"inputPerMTok": 10, "outputPerMTok": 50}}]}


def event(rpc, kind, **about):
    return [e for e in rpc.events(**about) if e["type"] == kind][0]


def ended(rpc, task):
    return harness.until("the task ends", lambda: any(e["type"] == "task.failed" for e in rpc.events(taskId=task)))


def collect(home):
    out = {}
    with open(os.path.join(home.dir, "policy.json"), "w") as f:
        json.dump(POLICY, f)
    home.restart()
    with home.rpc() as rpc:
        session = rpc.call("create_session", title="fixtures")["sessionId"]
        turn = rpc.call("submit_turn", sessionId=session, input=[{"type": "text", "text": "Make it build."}])
        about = {"turnId": turn["turnId"]}
        harness.until("the turn begins", lambda: any(e["type"] == "turn.started" for e in rpc.events(**about)))
        out["submit-turn-event"] = event(rpc, "turn.submitted", **about)
        rpc.call("resolve_routing", turnId=turn["turnId"], taskProfile={"kind": "code", "requiredCapabilities": ["tools"]})
        out["routing-single-candidate-event"] = event(rpc, "routing.single_candidate", **about)
        action = rpc.call("request_action", turnId=turn["turnId"], actionType="input", prompt="Which branch?")["actionId"]
        out["action-required-event"] = event(rpc, "action.required", **about)
        rpc.call("respond_action", actionId=action, decision="allow", payload={"branch": "main"})
        rpc.call("invoke_tool", turnId=turn["turnId"], toolName="shell", arguments={"commandLine": "echo built"})
        failing = rpc.call("create_task", objective="Fail twice.", sessionId=session, commandLine="exit 3", retryPolicy={"maxAttempts": 2})["taskId"]
        rpc.call("start_task", taskId=failing)
        ended(rpc, failing)
        out["task-attempt-failed-event"] = event(rpc, "task.attempt.failed", taskId=failing)
        task = rpc.call("create_task", objective="Make it build.", sessionId=session)["taskId"]
        run = rpc.call("start_task", taskId=task)["runId"]
        trial = rpc.call("start_benchmark_trial", datasetId="tasks", datasetVersion="2026-05", configurationId="cand", role="candidate", taskId=task,
                         runId=run, turnId=turn["turnId"], trialId="trial-1", benchmarkTaskId="make-it-build")["trialId"]
        rpc.call("complete_turn", turnId=turn["turnId"], outcome="done")
        rpc.call("complete_task", taskId=task)
        rpc.call("record_benchmark_reward", trialId=trial, reward=1, criteria=["builds"], verifier="make")
        rpc.call("export_evidence", scope={"turnId": turn["turnId"]})
        out["evidence-export-event"] = event(rpc, "evidence.changed", **about)
        out["benchmark-trial-pack"] = json.loads(rpc.output(rpc.call("export_benchmark_trial", trialId=trial)["packRef"]))
        out["thread-read-snapshot"] = rpc.call("get_thread_read", threadId=turn["threadId"])
    return out


class Plain:
    """Replaces values that differ between runs by fixed ones."""

    def __init__(self, home):
        self.home, self.known = home, {}

    def text(self, s):
        s = s.replace(self.home.work, "/workspace").replace(self.home.dir, "/var/lib/bailiff")
        s = re.sub(r"\b([a-z]{2,5})_[0-9a-hjkmnp-tv-z]{26}\b", lambda m: self.known.setdefault(m.group(0), f"{m.group(1)}_{len(self.known) + 1:026d}"), s)
        s = re.sub(r"\b[0-9a-f]{64}\b", lambda m: self.known.setdefault(m.group(0), f"{len(self.known) + 1:064d}"), s)
        return re.sub(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", "2026-11-15T00:00:00.000000Z", s)

    def value(self, v, name=""):
        if isinstance(v, dict):
            return {k: self.value(x, k) for k, x in v.items() if k != "executionEnvironment"}
        if isinstance(v, list):
            if name in MACHINE:
                return ["/workspace"]
            return [self.value(x, name) for x in v]
        if isinstance(v, str):
            return self.text(v)
        if name in ("sequence", "pid", "uid", "durationMs", "bytes", "throughSequence", "events", "inode") and isinstance(v, int):
            return 1
        return v


def shape(v):
    if isinstance(v, dict):
        return {k: shape(x) for k, x in v.items()}
    return [shape(v[0])] if isinstance(v, list) and v else type(v).__name__


def published():
    for name in sorted(os.listdir(FOLDER)):
        with open(os.path.join(FOLDER, name)) as f:
            yield name[:-len(".json")], json.load(f)


def made(home):
    documents, plain = collect(home), Plain(home)
    return {name: plain.value(d) for name, d in documents.items()}


def main():
    if sys.argv[1:] not in (["--write"], ["--check"]):
        sys.exit(__doc__)
    with harness.Home() as home:
        documents = made(home)
    if sys.argv[1] == "--write":
        os.makedirs(FOLDER, exist_ok=True)
        for name, document in documents.items():
            with open(os.path.join(FOLDER, name + ".json"), "w") as f:
                json.dump(document, f, indent=2, ensure_ascii=False)
                f.write("\n")
    kept = dict(published())
    wrong = [name for name in sorted({*kept, *documents}) if shape(kept.get(name)) != shape(documents.get(name))]
    for name in wrong:
        print(f"docs/fixtures/{name}.json: bailiff says something of another shape now; tests/blackbox/fixtures.py --write")
    print(f"{len(documents)} fixtures")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
