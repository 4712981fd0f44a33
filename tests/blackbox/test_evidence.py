"""Exports depend on the log alone: the same events give the same bytes, also after a restart, and a pack can be verified by replay."""

import hashlib
import json
import os
import re
import subprocess

import harness
from harness import until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


def schema(name):
    return harness.schema_validators()[name]


def valid(name, document):
    errors = sorted(schema(name).iter_errors(document), key=str)
    assert not errors, f"{name}: {errors[0].message} at {list(errors[0].path)}\n{json.dumps(document)[:1500]}"


def pack(rpc, result, member="packRef"):
    data = rpc.output(result[member])
    kept = [f for f in result["files"] if f["ref"] == result[member]]
    assert len(kept) == 1 and kept[0]["bytes"] == len(data), (kept, len(data))
    assert hashlib.sha256(data).hexdigest() == kept[0]["sha256"], kept
    return json.loads(data)


def command(line):
    return {"type": "command", "commandLine": line}


def ended(rpc, turn):
    def turn_ended():
        t = [t for t in rpc.call("get_thread_read", threadId=turn["threadId"])["turns"] if t["turnId"] == turn["turnId"]][0]
        return "completedAt" in t and t
    return until("the turn ends", turn_ended)


def work(rpc):
    """A session with a turn that fails, one that a client drives, and a verifier's outcome."""
    session = rpc.call("create_session", title="evidence")["sessionId"]
    loop = rpc.call("submit_turn", sessionId=session, input=[command("echo out; echo err >&2"), command("exit 3")])
    ended(rpc, loop)
    driven = rpc.call("submit_turn", sessionId=session, threadId=loop["threadId"], input=[{"type": "text", "text": "please help"}])
    until("the turn begins", lambda: any(e["type"] == "turn.started" for e in rpc.events(turnId=driven["turnId"])))
    ids = {"threadId": driven["threadId"], "turnId": driven["turnId"], "modelRequestId": "mr_1"}
    rpc.call("emit_events", sessionId=session, events=[
        {"type": "model.requested", **ids, "payload": {"provider": "acme", "model": "large"}},
        {"type": "model.delta", **ids, "payload": {"index": 0, "text": "I will "}},
        {"type": "model.delta", **ids, "payload": {"index": 1, "text": "look."}},
        {"type": "model.completed", **ids, "payload": {"usage": {"inputTokens": 100, "outputTokens": 20}, "stopReason": "stop", "timeToFirstTokenMs": 7}},
    ])
    rpc.call("record_cost", turnId=driven["turnId"], provider="acme", model="large", inputTokens=100, outputTokens=20, costUsd=0.5)
    rpc.call("invoke_tool", turnId=driven["turnId"], toolName="shell", arguments={"commandLine": "echo tool"})
    rpc.call("emit_events", sessionId=session, events=[
        {"type": "evidence.changed", "threadId": driven["threadId"], "turnId": driven["turnId"], "evidenceId": "evd_check",
         "payload": {"verificationOutcomes": [{"name": "tests", "status": "passed"}]}},
    ])
    rpc.call("complete_turn", turnId=driven["turnId"], outcome="done")
    return session, loop, driven


def test_pack_matches_the_log(home):
    with home.rpc() as rpc:
        session, loop, driven = work(rpc)
        before = rpc.events(sessionId=session)
        result = rpc.call("export_evidence", scope={"sessionId": session})
        p = pack(rpc, result)
        valid("evidence-pack.schema.json", p)
        assert p["events"] == before, (len(p["events"]), len(before))
        harness.validate(harness.event_validators(), p["events"])
        turns = [e["turnId"] for e in before if e["type"] == "turn.submitted" and e["payload"]["source"] != "system"]
        assert turns == [loop["turnId"], driven["turnId"]] and set(turns) <= set(p["runtimeCorrelation"]["turnIds"])
        assert p["runtimeCorrelation"]["sessionId"] == session
        assert [c["toolName"] for c in p["toolCalls"]] == ["shell"] * 3, p["toolCalls"]
        assert [c["exitCode"] for c in p["failedToolCalls"]] == [3], p["failedToolCalls"]
        assert p["verificationOutcomes"][0]["outcome"] == {"name": "tests", "status": "passed"}
        assert p["signals"]["tool_calls"] == p["signals"]["permissions"] == p["signals"]["sandbox"] == p["signals"]["costs"] == "exported"
        assert p["signals"]["hooks"] == "not_applicable" and p["signals"]["routing"] == "not_recorded"
        assert p["signals"]["traces"] == "missing_correlation" and p["signals"]["provider_payloads"] == "unsupported"
        gaps = {g["signal"] for g in p["knownGaps"]}
        assert gaps == {n for n, s in p["signals"].items() if s not in ("exported", "not_applicable")}, gaps
        counts = {}
        for e in before:
            counts[e["type"]] = counts.get(e["type"], 0) + 1
        assert p["runtimeSummary"]["eventCounts"] == counts
        listed = sorted(s for family in p["families"].values() for s in family)
        assert listed == [e["sequence"] for e in before]


def test_same_events_give_the_same_pack(home):
    with home.rpc() as rpc:
        session, loop, _ = work(rpc)
        for sandbox in rpc.call("list_sandboxes", sessionId=session)["sandboxes"]:     # its end would be another event
            rpc.call("close_sandbox", sandboxId=sandbox["sandboxId"])
        first = rpc.call("export_evidence", scope={"sessionId": session})
        rpc.run(["true"])  # in another session
        again = rpc.call("export_evidence", scope={"sessionId": session})
        assert (again["packRef"], again["sha256"], again["evidenceId"]) == (first["packRef"], first["sha256"], first["evidenceId"])
    home.kill_part("runtime")
    with home.rpc() as rpc:
        again = rpc.call("export_evidence", scope={"sessionId": session})
        assert (again["packRef"], again["sha256"]) == (first["packRef"], first["sha256"])
    home.restart()
    with home.rpc() as rpc:
        again = rpc.call("export_evidence", scope={"sessionId": session})
        assert (again["packRef"], again["sha256"]) == (first["packRef"], first["sha256"])
        changed = [e for e in rpc.events(sessionId=session) if e["type"] == "evidence.changed"]
        assert len(changed) == 5 and {e["evidenceId"] for e in changed} == {"evd_check", first["evidenceId"]}
        harness.validate(harness.event_validators(), rpc.events(sessionId=session))
        ended(rpc, rpc.call("submit_turn", sessionId=session, threadId=loop["threadId"], input=[command("true")]))
        other = rpc.call("export_evidence", scope={"sessionId": session})
        assert other["sha256"] != first["sha256"] and other["evidenceId"] != first["evidenceId"]
        snapshot = rpc.call("get_session", sessionId=session)
        assert snapshot["evidenceRefs"] == sorted({"evd_check", first["evidenceId"], other["evidenceId"]}), snapshot["evidenceRefs"]
        thread = rpc.call("get_thread_read", threadId=loop["threadId"])
        assert thread["evidenceSummary"]["evidenceRefs"] == ["evd_check"]
        assert thread["evidenceSummary"]["verificationOutcomes"] == [{"name": "tests", "status": "passed"}]
    home.cli("store", "verify")


def test_every_scope_and_its_idempotency(home):
    with home.rpc() as rpc:
        session, loop, driven = work(rpc)
        for scope, expected in (({"threadId": loop["threadId"]}, {"threadId": loop["threadId"]}), ({"turnId": loop["turnId"]}, {"turnId": loop["turnId"]}),
                                ({"sessionId": session, "turnId": driven["turnId"]}, {"turnId": driven["turnId"]})):
            r = rpc.call("export_evidence", scope=scope)
            p = pack(rpc, r)
            valid("evidence-pack.schema.json", p)
            assert p["scope"] == expected and p["runtimeSummary"]["complete"], p["scope"]
            assert p["events"] == [e for e in rpc.events(**expected) if e["sequence"] <= p["runtimeSummary"]["lastSequence"]]
        task = rpc.call("create_task", objective="make", sessionId=session)["taskId"]
        run = rpc.call("start_task", taskId=task)
        r = rpc.call("export_evidence", scope={"taskId": task})
        p = pack(rpc, r)
        valid("evidence-pack.schema.json", p)
        assert p["runtimeCorrelation"]["taskId"] == task and p["runtimeCorrelation"]["runId"] == run["runId"]
        assert p["signals"]["verification"] == "not_recorded"
        a = rpc.call("export_review", scope={"sessionId": session}, idempotencyKey="k1")
        b = rpc.call("export_review", scope={"sessionId": session}, idempotencyKey="k1")
        assert a == b and rpc.fails("export_review", {"scope": {"taskId": task}, "idempotencyKey": "k1"}, code=-32009)
        assert rpc.fails("export_evidence", {"scope": {}}).data["field"] == "scope"
        assert rpc.fails("export_evidence", {"scope": {"turnId": "turn_none"}}, code=-32004).data["field"] == "scope.turnId"
        assert rpc.fails("export_evidence", {"scope": {"sessionId": "sess_none", "turnId": loop["turnId"]}}).data["field"] == "scope.sessionId"
        assert rpc.fails("export_evidence", {"scope": {"sessionId": session}, "include": ["soup"]}).data["field"] == "include"


def test_replay_cases_reviews_and_the_rest(home):
    with home.rpc() as rpc:
        session, loop, driven = work(rpc)
        replay = rpc.call("export_replay", scope={"sessionId": session})
        assert replay["replayRef"] == replay["packRef"]
        p = pack(rpc, replay)
        valid("evidence-pack.schema.json", p)
        assert [i["turnId"] for i in p["inputs"]] == [loop["turnId"], driven["turnId"]]
        assert p["inputs"][1]["content"] == [{"type": "text", "text": "please help"}], p["inputs"]
        assert {"kind": "turn_ends", "subject": {"turnId": loop["turnId"]}, "equals": {"status": "failed"}} in p["assertions"], p["assertions"]
        assert any(a["kind"] == "tool_call_ends" and a["equals"].get("exitCode") == 3 for a in p["assertions"])
        review = pack(rpc, rpc.call("export_review", scope={"sessionId": session}), "reviewRef")
        valid("evidence-pack.schema.json", review)
        assert {"permission.evaluated", "sandbox.applied", "turn.failed", "tool.failed"} <= {r["type"] for r in review["auditRefs"]}
        everything = rpc.call("export_evidence", scope={"sessionId": session}, include=["trajectory", "trace", "transcript", "manifest"])
        t = pack(rpc, everything, "trajectoryRef")
        valid("trajectory.schema.json", t)
        assert [s["step_id"] for s in t["steps"]] == list(range(1, len(t["steps"]) + 1))
        assert all(r["source_call_id"] in [c["tool_call_id"] for c in s["tool_calls"]] for s in t["steps"] for r in s.get("observation", {}).get("results", []))
        model = [s for s in t["steps"] if s.get("llm_call_count") == 1]
        assert len(model) == 1 and model[0]["message"] == "I will look." and model[0]["model_name"] == "large"
        assert model[0]["metrics"] == {"prompt_tokens": 100, "completion_tokens": 20}
        assert [s["message"] for s in t["steps"] if s["source"] == "user"][-1] == "please help"
        assert t["final_metrics"]["total_cost_usd"] == 0.5 and t["final_metrics"]["total_prompt_tokens"] == 100
        assert any("tool" in s["observation"]["results"][0]["content"] for s in t["steps"] if "observation" in s)
        valid("evidence-pack.schema.json", pack(rpc, everything, "runtimeTranscriptRef"))
        manifest = pack(rpc, everything, "artifactManifestRef")
        valid("evidence-pack.schema.json", manifest)
        assert hashlib.sha256(b"out\n").hexdigest() in {e.get("sha256") for e in manifest["entries"]}
        trace = pack(rpc, everything, "traceRef")
        spans = trace["resourceSpans"][0]["scopeSpans"][0]["spans"]
        assert {s["name"] for s in spans} >= {"interaction", "tool", "process", "model", "export"}, {s["name"] for s in spans}
        known = {s["spanId"] for s in spans}
        assert len(known) == len(spans) and all(s["parentSpanId"] in known for s in spans if "parentSpanId" in s)
        metrics = {m["name"]: int(m["sum"]["dataPoints"][0]["asInt"]) for m in trace["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]}
        assert metrics["bailiff.tokens.input"] == 100 and metrics["bailiff.cost"] == 500000 and metrics["bailiff.tool.calls"] == 3
        assert metrics["bailiff.model.time_to_first_token"] == 7000 and metrics["bailiff.spans.without_trace"] == len(spans)


def test_replay_verify_recomputes_the_read_models_of_a_pack(home):
    with home.rpc() as rpc:
        session, loop, _ = work(rpc)
    path = os.path.join(home.dir, "pack.json")
    for kind, scope in (("evidence", session), ("replay", loop["turnId"]), ("evidence", "thread=" + loop["threadId"])):
        home.cli("export", kind, scope, "-o", path)
        assert "byte for byte" in home.cli("replay", "--verify", path).text
    home.cli("export", "evidence", session, "-o", path)
    with open(path) as f:
        whole = f.read()
    # another exit code in the events, a changed read model, one too many, one too few, a lost event
    first = re.sub(r'("type":"process.completed".*?"exitCode":)3', r"\g<1>0", whole, count=1)
    doc = json.loads(whole)
    doc["readModels"][0]["document"]["title"] = "another"
    surplus, lacking, lost = json.loads(whole), json.loads(whole), json.loads(whole)
    surplus["readModels"].append({"kind": "artifact", "id": "x", "document": {}})
    lacking["readModels"].pop()
    lost["events"].pop(5)
    dumped = [json.dumps(d, separators=(",", ":"), ensure_ascii=False) for d in (doc, surplus, lacking, lost)]
    for text, says in zip([first] + dumped, ("its events give 0", "title", "do not give it", "is not in the pack", "the events give")):
        assert text != whole
        with open(path, "w") as f:
            f.write(text)
        done = home.cli("replay", "--verify", path, status=1)
        assert says in done.err.decode(), (says, done.err.decode())
    for text, says in (("", "empty"), ("{}", "packKind"), (whole[:len(whole) // 2], ""), ('{"packKind":"review","packVersion":1}', "no events")):
        with open(path, "w") as f:
            f.write(text)
        assert says in home.cli("replay", "--verify", path, status=1).err.decode()


def put(path, data):
    with open(path, "wb") as f:
        f.write(data)


def test_any_changed_byte_of_a_pack_is_detected(home):
    """Also in parts that no read model shows: no byte can be changed, added or removed."""
    with home.rpc() as rpc:
        session, loop, _ = work(rpc)
    path = os.path.join(home.dir, "pack.json")
    for kind, scope in (("evidence", session), ("replay", loop["turnId"])):
        home.cli("export", kind, scope, "-o", path)
        with open(path, "rb") as f:
            whole = f.read()
        home.cli("replay", "--verify", path)
        step = max(1, len(whole) // 60)
        changed = [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1:] for i in list(range(0, len(whole), step)) + list(range(len(whole) - 80, len(whole)))]
        sealed = whole.rindex(b',"seal":')
        changed += [whole + b" ", whole[:-1], whole[:sealed] + b"}\n", whole[:sealed] + b" " + whole[sealed:], whole.replace(b'"signals":', b'"signalz":')]
        changed += [re.sub(rb'"detail":"', rb'"detail":"not ', whole, count=1)] if b'"detail":"' in whole else []
        for text in changed:
            assert text != whole
            put(path, text)
            home.cli("replay", "--verify", path, status=1)


def test_pack_signature_is_verified(home):
    with home.rpc() as rpc:
        session = rpc.run("echo signed")[0]["sessionId"]
    at = lambda name: os.path.join(home.dir, name)
    for name in ("key", "other"):
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", at(name)], check=True, capture_output=True)
        subprocess.run(["openssl", "pkey", "-in", at(name), "-pubout", "-out", at(name + ".pub")], check=True, capture_output=True)
    subprocess.run(["openssl", "genpkey", "-algorithm", "X25519", "-out", at("wrong")], check=True, capture_output=True)
    path = at("pack.json")
    home.cli("export", "evidence", session, "-o", path, "--sign", at("key"))
    assert "signed with the given key" in home.cli("replay", "--verify", path, "--key", at("key.pub")).text
    assert "not checked" in home.cli("replay", "--verify", path).text
    subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", at("key.pub"), "-rawin", "-in", path, "-sigfile", path + ".sig"], check=True, capture_output=True)
    with open(path, "rb") as f:
        whole = f.read()
    # Another's key, and a forger with everything but the key: a different pack, complete and sealed.
    assert "another key" in home.cli("replay", "--verify", path, "--key", at("other.pub"), status=1).err.decode()
    body = whole[:whole.rindex(b',"seal":')].replace(b"signed", b"forged")
    put(path, body + b',"seal":"sha256:' + hashlib.sha256(body).hexdigest().encode() + b'"}\n')
    assert "changed" in home.cli("replay", "--verify", path, "--key", at("key.pub"), status=1).err.decode()
    put(path, whole)
    with open(path + ".sig", "rb") as f:
        signature = f.read()
    for bad in (b"", signature[:-1], signature + b"x", bytes(64)):
        put(path + ".sig", bad)
        home.cli("replay", "--verify", path, "--key", at("key.pub"), status=1)
    os.unlink(path + ".sig")
    assert "pack.json.sig" in home.cli("replay", "--verify", path, "--key", at("key.pub"), status=1).err.decode()
    assert "not a regular file cannot be signed" in home.cli("export", "evidence", session, "-o", "/dev/null", "--sign", at("key"), status=1).err.decode()
    # Invalid keys; nothing is written then.
    for bad in ("wrong", "key.pub", "none"):
        home.cli("export", "evidence", session, "-o", at("never.json"), "--sign", at(bad), status=1)
    home.cli("export", "evidence", session, "--sign", at("key"), status=2)
    home.cli("replay", "--key", at("key.pub"), "x.cast", status=2)
    assert not os.path.exists(at("never.json"))


def test_export_writes_files(home):
    with home.rpc() as rpc:
        started, _ = rpc.run("echo hello")
    for kind in ("evidence", "replay", "review", "trajectory", "trace", "transcript", "manifest"):
        json.loads(home.cli("export", kind, started["processId"]).text)
        json.loads(home.cli("export", kind, started["sessionId"][5:]).text)
    assert "is not a kind of export" in home.cli("export", "soup", started["sessionId"], status=2).err.decode()
    home.cli("export", "evidence", "turn_none", status=1)



def test_a_failed_export_leaves_no_file_and_keeps_an_earlier_one(home):
    home.cli("run", "--", "true")
    path = os.path.join(home.work, "pack")
    for kind in ("evidence", "cast"):
        home.cli("export", kind, "nope", "-o", path, status=1)
        assert not os.path.exists(path), kind
    home.cli("export", "evidence", "@last", "-o", path)
    with open(path, "rb") as f:
        before = f.read()
    for kind in ("evidence", "cast"):
        home.cli("export", kind, "nope", "-o", path, status=1)
        with open(path, "rb") as f:
            assert f.read() == before and before, kind
    home.cli("export", "transcript", "@last", "-o", path)
    assert os.path.getsize(path) < len(before), "a shorter one replaces all of it"


def test_spans_belong_to_the_callers_trace(home):
    parent = f"00-{TRACE}-{SPAN}-01"
    with home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        turn = rpc.call("submit_turn", sessionId=session, input=[command("echo traced")], traceparent=parent)
        ended(rpc, turn)
    home.kill_part("runtime")
    with home.rpc() as rpc:
        whole = rpc.call("export_evidence", scope={"turnId": turn["turnId"]}, include=["trace"], traceparent=parent)
        p = pack(rpc, whole)
        assert p["runtimeCorrelation"]["traceId"] == TRACE and p["signals"]["traces"] == "exported" and not p["knownGaps"], p["knownGaps"]
        spans = {s["name"]: s for s in pack(rpc, whole, "traceRef")["resourceSpans"][0]["scopeSpans"][0]["spans"]}
        assert {s["traceId"] for s in spans.values()} == {TRACE}, spans
        assert spans["interaction"]["parentSpanId"] == SPAN and spans["tool"]["parentSpanId"] == spans["interaction"]["spanId"]
        assert spans["process"]["parentSpanId"] == spans["tool"]["spanId"]
        assert rpc.call("get_session", sessionId=session)["telemetrySummary"] == {"traceIds": [TRACE], "joinStatus": "joined", "turns": 1, "tracedTurns": 1}
        # a second turn without a context: reported as a gap, not guessed
        ended(rpc, rpc.call("submit_turn", sessionId=session, input=[command("true")]))
        p = pack(rpc, rpc.call("export_evidence", scope={"sessionId": session}))
        assert p["signals"]["traces"] == "missing_correlation" and [g["signal"] for g in p["knownGaps"]] == ["traces"]
        assert rpc.call("get_session", sessionId=session)["telemetrySummary"]["joinStatus"] == "partial"
        summary = rpc.call("get_snapshot", kind="evidence_summary", sessionId=session)["snapshot"]
        assert whole["evidenceId"] in summary["evidenceRefs"] and whole["packRef"] in summary["packRefs"] and whole["traceRef"] in summary["traceRefs"]


def test_export_is_repeated_after_a_crash(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        turn = rpc.call("submit_turn", sessionId=session, input=[{"type": "text", "text": "much"}])
        ids = {"threadId": turn["threadId"], "turnId": turn["turnId"], "modelRequestId": "mr_1"}
        rpc.call("emit_events", sessionId=session, events=[{"type": "model.requested", **ids, "payload": {"provider": "a", "model": "b"}}])
        for i in range(10):
            rpc.call("emit_events", sessionId=session, events=[{"type": "model.delta", **ids, "payload": {"index": i * 1000 + k, "text": "words " * 5}}
                                                               for k in range(1000)])
    path, spool = os.path.join(home.dir, "pack.json"), os.path.join(home.dir, "spool")
    for _ in range(2):
        before = set(os.listdir(spool))
        running = home.cli_start("export", "evidence", session, "-o", path)
        until("a file is being written", lambda: set(os.listdir(spool)) - before or running.poll() is not None)
        home.kill_part("runtime")
        out, err = running.communicate(timeout=harness.PATIENCE)  # asks again when the runtime is back
        assert running.returncode == 0, err
        assert "byte for byte" in home.cli("replay", "--verify", path).text
        assert not [f for f in os.listdir(spool) if f.startswith("new.")]
    with home.rpc() as rpc:
        packs = {e["payload"]["packRef"] for e in rpc.events(sessionId=session) if e["type"] == "evidence.changed"}
        large = [f for f in os.listdir(spool) if os.path.getsize(os.path.join(spool, f)) > 1 << 20]
        assert len(packs) == 1 and set(large) == packs, (large, packs)
    home.cli("store", "verify")


if __name__ == "__main__":
    harness.main(globals())
