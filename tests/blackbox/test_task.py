"""Tasks: every status and verb, attempts that are kept, edges, cancellation with proof, and all of it across restarts."""

import os
import signal
import time

import harness
from harness import until

ENDED = ("cancelled", "timed_out", "failed", "lost", "completed", "archived")


def make(rpc, objective="work", **more):
    return rpc.call("create_task", objective=objective, **more)["taskId"]


def task(rpc, task_id):
    return rpc.call("get_task", taskId=task_id)


def reaches(rpc, task_id, *statuses):
    return until(f"{task_id} is {statuses}", lambda: (lambda t: t if t["status"] in statuses else None)(task(rpc, task_id)))


def kinds(rpc, task_id):
    return [e["type"] for e in rpc.events(taskId=task_id)]


def edge(record, kind, target):
    return next((r for r in record["relationships"] if (r["kind"], r["targetId"]) == (kind, target)), None)


def check_all(home, rpc):
    """Every event and snapshot is valid, and the store's models equal its log."""
    log = rpc.events()
    harness.validate(harness.event_validators(), log)
    snapshots = harness.snapshot_validators()
    for session in {e["sessionId"] for e in log}:
        snapshot = rpc.call("get_session", sessionId=session)
        harness.validate(snapshots, [snapshot])
        for one in rpc.call("list_tasks", sessionId=session)["tasks"]:
            full = dict(snapshot, tasks=[task(rpc, one["taskId"])])
            harness.validate(snapshots, [full])
    assert home.cli("store", "verify").status == 0


def lose(home):
    """Everything dies at once: the runtime sees nothing of it."""
    os.kill(until("the runtime runs", lambda: home.part("runtime")), signal.SIGSTOP)
    home.stop(signal.SIGKILL)
    home.start()


def crash(home):
    """The runtime is killed under everything; the guard starts it again."""
    home.note_tree()
    pid = home.kill_part("runtime")
    until("another runtime runs", lambda: home.part("runtime") not in (None, pid))
    until("the daemon answers", home.answers)


def test_a_clients_task_from_draft_to_archive(home):
    with home.rpc() as rpc:
        made = rpc.call("create_task", objective="write it", title="t", taskKind="code", taskFamily="dev", visibility="background", priority="high",
                        owner={"kind": "user", "id": "me"}, assignee={"kind": "agent"}, scope={"repo": "x"}, constraints={"cost": 1},
                        taskProfile={"kind": "coding"}, acceptance=["tests pass", {"id": "docs", "required": False}], draft=True)
        id = made["taskId"]
        assert made["status"] == "draft" and id.startswith("task_"), made
        rpc.fails("start_task", {"taskId": id}, code=-32015)
        assert rpc.call("update_task", taskId=id, status="accepted")["status"] == "accepted"
        started = rpc.call("start_task", taskId=id)
        assert started["status"] == "running" and started["runId"].startswith("run_") and started["attemptId"].startswith("att_"), started
        rpc.call("append_task_progress", taskId=id, phase="working", percent=12.5, counters={"files": 3}, summary="going",
                 outputRefs=["out_x", {"outputRef": "out_y", "offset": 7}], plan=[{"step": 1}])
        rpc.call("append_task_progress", taskId=id, percent=50)
        progress = task(rpc, id)["progress"]
        assert progress["phase"] == "working" and progress["percent"] == 50 and progress["counters"] == {"files": 3}, progress
        assert progress["outputRefs"][0] == {"outputRef": "out_x"}, progress
        e = rpc.fails("update_task", {"taskId": id, "status": "waiting_input"}, code=-32602)
        assert "reason" in e.message or e.data.get("field") == "reason", e
        rpc.call("update_task", taskId=id, status="waiting_input", reason="which branch?")
        assert task(rpc, id)["status"] == "waiting_input" and task(rpc, id)["statusReason"] == "which branch?"
        rpc.call("update_task", taskId=id, status="running")
        e = rpc.fails("complete_task", {"taskId": id}, code=-32015)
        assert e.data["missing"] == [{"what": "acceptance_unmet", "id": "a1"}], e.data
        done = rpc.call("complete_task", taskId=id, summary="done", acceptance=[{"id": "a1", "status": "met", "evidenceRef": "evd_1"}],
                        artifacts=["art_1"], evidenceRefs=["evd_1"], outputs=["out_1"])
        assert done["status"] == "completed", done
        record = task(rpc, id)
        assert record["attempts"][0]["status"] == "completed" and record["attempts"][0]["completionSummary"] == "done", record
        assert record["deliveryState"] == {"state": "not_applicable"} and record["artifacts"] == [{"artifactId": "art_1"}], record
        assert record["acceptance"][0]["status"] == "met" and record["evidenceRefs"] == ["evd_1"] and record["endedAt"], record
        rpc.fails("append_task_progress", {"taskId": id, "percent": 1}, code=-32015)
        rpc.call("archive_task", taskId=id, reason="old")
        assert kinds(rpc, id) == ["task.created", "task.accepted", "task.started", "task.attempt.started", "task.progress", "task.progress",
                                  "task.waiting", "task.resumed", "task.attempt.completed", "task.completed", "snapshot.updated", "task.archived"], kinds(rpc, id)
        check_all(home, rpc)


def test_long_outputs_are_kept_behind_refs(home):
    with home.rpc() as rpc:
        long, short = "ä€😀" * 400_000, "a" * 2000
        id = make(rpc)
        rpc.call("start_task", taskId=id)
        for outputs, field in (([{"content": "x" * 5000, "outputRef": "out_1"}], "outputs[0].content"),
                               ([{"content": "x" * (5 << 20)}] * 2, "outputs[1].content"), ([{"value": "x" * 9000}], "outputs")):
            assert rpc.fails("complete_task", {"taskId": id, "outputs": outputs}, code=-32602).data["field"] == field
        rpc.call("complete_task", taskId=id, outputs=["out_x", {"name": "long", "mediaType": "text/markdown", "content": long}, {"name": "short", "content": short}])
        outputs = task(rpc, id)["outputs"]
        assert outputs[0] == {"outputRef": "out_x"} and outputs[2] == {"name": "short", "content": short}, outputs
        ref = outputs[1].pop("outputRef")
        assert outputs[1] == {"name": "long", "mediaType": "text/markdown", "bytes": len(long.encode())}, outputs[1]
        assert rpc.output(ref) == long.encode()
        spilled = [e for e in rpc.events() if e["type"] == "output.spilled"]
        assert len(spilled) == 1 and spilled[0]["payload"]["owner"] == {"taskId": id} and spilled[0]["taskId"] == id, spilled
        home.restart()
    with home.rpc() as rpc:
        assert rpc.output(ref) == long.encode()
        check_all(home, rpc)


def test_ids_are_idempotent_and_private(home):
    with home.rpc() as rpc:
        one = rpc.call("create_task", taskId="mine", objective="x")
        assert rpc.call("create_task", taskId="mine", objective="x")["taskId"] == one["taskId"]
        rpc.fails("create_task", {"taskId": "mine", "objective": "y"}, code=-32009)
        assert kinds(rpc, "mine").count("task.created") == 1
        rpc.fails("get_task", {"taskId": "task_none"}, code=-32004)
        rpc.fails("create_task", {"objective": "x", "parentTaskId": "task_none"}, code=-32004)
        rpc.fails("create_task", {"objective": "x" * 9000}, code=-32602)
        rpc.fails("create_task", {"objective": "x", "command": []}, code=-32602)
        rpc.fails("create_task", {}, code=-32602)
        both = [rpc.send("start_task", taskId="mine"), rpc.send("start_task", taskId="mine")]
        rpc.reply(both[0])
        try:
            rpc.reply(both[1])
            raise AssertionError("started twice")
        except harness.RpcError as e:
            assert e.code == -32015, e


def test_task_runs_its_command(home):
    with home.rpc() as rpc:
        id = make(rpc, commandLine="echo hello; sleep 0.1", autoComplete=True, retryPolicy={"maxAttempts": 2})
        started = rpc.call("start_task", taskId=id)
        assert started["processId"].startswith("proc_"), started
        record = reaches(rpc, id, *ENDED)
        assert record["status"] == "completed", record
        process = rpc.call("get_process", processId=started["processId"])
        assert process["taskId"] == id and process["exitCode"] == 0, process
        assert record["attempts"][0]["outputRefs"] and record["attempts"][0]["worker"]["kind"] == "supervisor", record
        assert record["threadId"] == process["threadId"]
        log = kinds(rpc, id)
        assert log.index("task.attempt.started") < log.index("process.started") < log.index("run.status") < log.index("process.completed") < \
            log.index("task.attempt.completed") < log.index("task.completed"), log
        assert "task.progress" in log, log

        waits = make(rpc, commandLine="true")
        rpc.call("start_task", taskId=waits)
        record = reaches(rpc, waits, "waiting_input")
        assert record["waitingFor"] == "complete_task", record
        assert rpc.call("complete_task", taskId=waits)["status"] == "completed"

        unmet = make(rpc, commandLine="true", autoComplete=True, acceptance=["reviewed"])
        rpc.call("start_task", taskId=unmet)
        assert reaches(rpc, unmet, "waiting_input")["waitingFor"] == "acceptance"
        rpc.call("complete_task", taskId=unmet, acceptance=["a1"])

        later = make(rpc)
        rpc.call("start_task", taskId=later, command=["sh", "-c", "exit 3"])
        record = reaches(rpc, later, *ENDED)
        assert record["status"] == "failed" and record["lastError"]["exitCode"] == 3 and record["lastError"]["category"] == "exit", record
        big = make(rpc, command=["sh", "-c", "exit 0", "x" * 20000], autoComplete=True)
        rpc.call("start_task", taskId=big)
        record = reaches(rpc, big, *ENDED)
        assert record["status"] == "completed" and record["commandRef"] and "command" not in record, record
        secret = make(rpc, commandLine='test "$SECRET" = hush', env={"SECRET": "hush"}, autoComplete=True)
        rpc.call("start_task", taskId=secret)
        assert reaches(rpc, secret, *ENDED)["status"] == "completed"
        assert '"hush"' not in str(rpc.events()).replace("'", '"').replace('= hush', ''), "the values of variables stay out of the facts"
        refused = make(rpc, command=["/no/such/program"])
        rpc.call("start_task", taskId=refused)
        record = reaches(rpc, refused, *ENDED)
        assert record["status"] == "failed" and record["lastError"]["category"] == "spawn", record
        check_all(home, rpc)


def test_failed_attempts_are_retried(home):
    with home.rpc() as rpc:
        id = make(rpc, commandLine="exit 1", retryPolicy={"maxAttempts": 3, "backoffMs": 20, "backoffFactor": 2})
        rpc.call("start_task", taskId=id)
        record = reaches(rpc, id, *ENDED)
        assert record["status"] == "failed" and len(record["attempts"]) == 3, record
        assert len({a["runId"] for a in record["attempts"]}) == 3, record
        log = kinds(rpc, id)
        assert log.count("task.retrying") == 2 and log.count("task.queued") == 2 and log.count("task.attempt.failed") == 3, log
        again = rpc.call("retry_task", taskId=id, reason="once more")
        assert again["attempt"] == 4 and again["runId"], again
        assert len(reaches(rpc, id, *ENDED)["attempts"]) == 4
        never = make(rpc, commandLine="exit 1", retryPolicy={"maxAttempts": 3, "nonRetryable": ["exit"]})
        rpc.call("start_task", taskId=never)
        assert len(reaches(rpc, never, *ENDED)["attempts"]) == 1
        client = make(rpc)
        rpc.call("start_task", taskId=client)
        rpc.call("fail_task", taskId=client, error={"category": "tool_failed", "message": "no"})
        record = task(rpc, client)
        assert record["status"] == "failed" and record["lastError"]["category"] == "tool_failed", record
        rpc.call("retry_task", taskId=client)
        rpc.call("complete_task", taskId=client)
        assert [a["status"] for a in task(rpc, client)["attempts"]] == ["failed", "completed"]
        check_all(home, rpc)


def test_attempts_have_time_limits(home):
    with home.rpc() as rpc:
        wall = make(rpc, commandLine="sleep 100", timeoutMs=100)
        idle = make(rpc, commandLine="sleep 100", idleMs=100)
        each = make(rpc, commandLine="sleep 100", retryPolicy={"maxAttempts": 2, "timeoutMs": 100})
        client = make(rpc, timeoutMs=100)
        constrained = make(rpc, constraints={"timeMs": 100}, timeoutMs=100000)
        quiet = make(rpc, idleMs=100)
        for id in (wall, idle, each, client, quiet, constrained):
            rpc.call("start_task", taskId=id)
        for id, limit, attempts in ((wall, "wall", 1), (idle, "idle", 1), (each, "wall", 2), (client, "task", 1), (constrained, "task", 1), (quiet, "idle", 1)):
            record = reaches(rpc, id, *ENDED)
            assert record["status"] == "timed_out" and len(record["attempts"]) == attempts, record
            assert record["attempts"][0]["status"] == "failed" and record["attempts"][0]["nativeStatus"] == "timed_out", record
            said = [e for e in rpc.events(taskId=id) if e["type"] == "task.timed_out"]
            assert len(said) == 1 and said[0]["payload"]["limit"] == limit, said
        assert rpc.fails("create_task", {"objective": "x", "constraints": {"timeMs": "1 h"}}).data["field"] == "constraints.timeMs"
        check_all(home, rpc)


def test_limits_beyond_all_times_do_not_apply(home):
    """Their sum with the present time would wrap around."""
    longest = 2**64 // 1000 + 1
    with home.rpc() as rpc:
        id = make(rpc, commandLine="sleep 0.2; exit 1", timeoutMs=longest, retryPolicy={"maxAttempts": 2, "maxBackoffMs": longest})
        rpc.call("start_task", taskId=id)
        action = rpc.call("request_action", taskId=id, actionType="input", prompt="?", timeoutMs=longest)["actionId"]
        job = rpc.call("create_job", items=[{"commandLine": "sleep 0.2"}], maxRuntimeMs=longest)["jobId"]
        record = reaches(rpc, id, *ENDED)
        assert record["status"] == "failed" and [a["lastError"]["category"] for a in record["attempts"]] == ["exit", "exit"], record
        until("the job ends", lambda: "endedAt" in rpc.call("get_job", jobId=job))
        assert rpc.call("get_job", jobId=job)["status"] == "completed"
        resolved, = until("the question ends", lambda: [e["payload"] for e in rpc.events() if e["type"] == "action.resolved"])
        assert resolved["decision"] == "cancelled", (action, resolved)


def test_edges_control_scheduling(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session", title="s")["sessionId"]
        a, b, c = (make(rpc, n, sessionId=session, commandLine="true", autoComplete=True) for n in "abc")
        rpc.call("link_tasks", taskId=b, kind="blocked_by", targetId=a, reason="order")
        rpc.call("link_tasks", taskId=b, kind="blocks", targetId=c)
        for source, kind, target in ((a, "blocked_by", c), (c, "blocks", a), (a, "blocked_by", a), (c, "child", c)):
            rpc.fails("link_tasks", {"taskId": source, "kind": kind, "targetId": target}, code=-32009)
        rpc.fails("link_tasks", {"taskId": a, "kind": "blocks", "targetId": "task_none"}, code=-32004)
        assert edge(task(rpc, a), "blocks", b)["status"] == "active" and edge(task(rpc, b), "blocked_by", a)["reason"] == "order"
        assert rpc.call("start_task", taskId=b)["status"] == "queued"
        assert rpc.call("start_task", taskId=c)["status"] == "queued"
        snapshot = rpc.call("get_session", sessionId=session)
        assert snapshot["taskSummary"]["active"] == 3, snapshot["taskSummary"]
        assert {(e["taskId"], e["kind"], e["targetId"]) for e in snapshot["taskGraph"]["edges"]} >= {(a, "blocks", b), (b, "blocked_by", a)}
        rpc.call("start_task", taskId=a)
        for id in (a, b, c):
            assert reaches(rpc, id, *ENDED)["status"] == "completed"
        assert edge(task(rpc, c), "blocked_by", b)["status"] == "satisfied"
        order = [e["taskId"] for e in rpc.events(sessionId=session) if e["type"] == "task.completed"]
        assert order == [a, b, c], order
        assert rpc.call("get_session", sessionId=session)["taskSummary"]["terminal"] == 3

        bad, after = make(rpc, commandLine="false"), make(rpc, commandLine="true", autoComplete=True)
        rpc.call("link_tasks", taskId=bad, kind="blocks", targetId=after)
        rpc.call("start_task", taskId=after)
        rpc.call("start_task", taskId=bad)
        record = reaches(rpc, after, "blocked")
        assert record["blocker"] == {"kind": "task", "id": bad}, record
        assert [t["taskId"] for t in rpc.call("get_session", sessionId=record["sessionId"])["blockedTasks"]] == [after]
        rpc.call("unlink_tasks", taskId=after, kind="blocked_by", targetId=bad)
        assert reaches(rpc, after, *ENDED)["status"] == "completed"
        rpc.fails("unlink_tasks", {"taskId": after, "kind": "blocked_by", "targetId": bad}, code=-32004)
        rpc.call("link_tasks", taskId=after, kind="produced_artifact", targetId="art_1")
        assert edge(task(rpc, after), "produced_artifact", "art_1")
        check_all(home, rpc)


def test_parent_tasks_wait_for_their_children(home):
    with home.rpc() as rpc:
        parent = make(rpc, "parent")
        rpc.call("start_task", taskId=parent)
        one, two = (make(rpc, n, parentTaskId=parent) for n in ("one", "two"))
        below = make(rpc, "below", parentTaskId=one)
        assert task(rpc, below)["rootTaskId"] == parent and task(rpc, below)["sessionId"] == task(rpc, parent)["sessionId"]
        assert {t["taskId"] for t in rpc.call("list_tasks", parentTaskId=parent)["tasks"]} == {one, two}
        assert [e["payload"]["delegateId"] for e in rpc.events(taskId=parent) if e["type"] == "task.delegated"] == [one, two]
        rpc.fails("link_tasks", {"taskId": below, "kind": "child", "targetId": parent}, code=-32009)
        rpc.fails("link_tasks", {"taskId": below, "kind": "blocked_by", "targetId": parent}, code=-32009)
        assert rpc.fails("complete_task", {"taskId": parent}, code=-32015).data["missing"][0]["what"] == "child_unfinished"
        for id in (below, one, two):
            rpc.call("start_task", taskId=id)
            rpc.call("complete_task", taskId=id)
        record = until("all are counted", lambda: (lambda t: t if t.get("childrenCompleted") == 2 else None)(task(rpc, parent)))
        assert record["progress"]["counters"]["childrenCompleted"] == 2, record
        assert task(rpc, two)["deliveryState"] == {"state": "delivered"}
        rpc.call("complete_task", taskId=parent)
        check_all(home, rpc)


def test_cancellation_is_requested_and_then_proved(home):
    with home.rpc() as rpc:
        parent = make(rpc, "parent")
        rpc.call("start_task", taskId=parent)
        stubborn = make(rpc, "child", parentTaskId=parent, commandLine="trap '' TERM; while :; do sleep 0.05; done")
        waiting = make(rpc, "second", parentTaskId=parent)
        process = rpc.call("start_task", taskId=stubborn)["processId"]
        reaches(rpc, stubborn, "running")
        own = rpc.start(["sleep", "1000"], taskId=parent)["processId"]
        answer = rpc.call("cancel_task", taskId=parent, reason="enough")
        assert answer["status"] == "cancelling", answer
        rpc.fails("create_task", {"objective": "x", "parentTaskId": parent}, code=-32015)
        rpc.fails("start_process", {"command": ["true"], "taskId": parent}, code=-32015)
        for id in (parent, stubborn, waiting):
            assert reaches(rpc, id, *ENDED)["status"] == "cancelled"
        log = rpc.events()
        at = {(e["type"], e.get("taskId"), e.get("processId")): e["sequence"] for e in log}
        for id in (parent, stubborn, waiting):
            assert at["task.cancel_requested", id, None] < at["task.cancelled", id, None] <= at["task.cancelled", parent, None]
        assert at["process.terminated", stubborn, process] < at["task.cancelled", stubborn, None]
        assert at["process.terminated", parent, own] < at["task.cancelled", parent, None]
        assert at["task.cancel_requested", parent, None] < at["process.terminated", parent, own]
        record = task(rpc, parent)
        assert record["attempts"][0]["status"] == "cancelled" and record["statusReason"] == "enough", record
        rpc.fails("retry_task", {"taskId": parent}, code=-32015)
        lone, kept = make(rpc), None
        kept = make(rpc, parentTaskId=lone)
        rpc.call("cancel_task", taskId=lone, propagate=False)
        assert reaches(rpc, lone, *ENDED)["status"] == "cancelled" and task(rpc, kept)["status"] == "accepted"
        assert "parentTaskId" not in task(rpc, kept)
        check_all(home, rpc)


def test_parallel_limit_applies_to_tasks():
    with harness.Home(config={"maxTasks": 2}) as home, home.rpc() as rpc:
        ids = [make(rpc, commandLine="while ! test -e go; do sleep 0.02; done", cwd=home.work, autoComplete=True) for _ in range(5)]
        got = [rpc.call("start_task", taskId=i)["status"] for i in ids]
        assert got == ["preparing"] * 2 + ["queued"] * 3, got
        said = [e["payload"] for e in rpc.events() if e["type"] == "task.queued"]
        assert [p["position"] for p in said] == [1, 2, 3] and {p["reason"] for p in said} == {"parallel_limit"}, said
        rpc.call("cancel_task", taskId=ids[2])
        reaches(rpc, ids[2], "cancelled")
        crash(home)
        open(f"{home.work}/go", "w").close()
        with home.rpc() as again:    # the connection broke with the runtime
            for i in ids[:2] + ids[3:]:
                assert reaches(again, i, *ENDED)["status"] == "completed"
            check_all(home, again)


def test_start_interrupted_by_a_crash_is_repeated(home):
    """If the runtime is killed during starts, the next one repeats those without durable events; remains of the first attempt do no harm."""
    ids = []
    for i in range(25):
        with home.rpc() as rpc:
            ids += [make(rpc, commandLine="true", cwd=home.work, autoComplete=True, cow=n == 2) for n in range(3)]
            for id in ids[-3:]:
                rpc.send("start_task", taskId=id)
            time.sleep(i / 5000)    # varies the moment of the kill; not a wait for a condition
            crash(home)
    with home.rpc() as rpc:
        ended = {i: reaches(rpc, i, "accepted", *ENDED) for i in ids}
        assert {r["status"] for r in ended.values()} <= {"completed", "accepted"}, [r for r in ended.values() if r["status"] not in ("completed", "accepted")]
        check_all(home, rpc)


def test_a_restart_loses_nothing(home):
    """The runtime crashes: supervised attempts continue. The whole daemon is killed: an unproved end is lost, and retried if that is allowed."""
    with home.rpc() as rpc:
        lasting = make(rpc, commandLine="sleep 1000")
        again = make(rpc, commandLine="test -e again && exit 0; echo up; sleep 1000", cwd=home.work, retryPolicy={"maxAttempts": 2}, autoComplete=True)
        never = make(rpc, commandLine="sleep 1000")
        waiting, first = make(rpc, commandLine="true", autoComplete=True), make(rpc)
        rpc.call("link_tasks", taskId=waiting, kind="blocked_by", targetId=first)
        for id in (lasting, again, never, waiting, first):
            rpc.call("start_task", taskId=id)
        for id in (lasting, again, never):
            reaches(rpc, id, "running")
        until("the command has looked", lambda: "process.output" in kinds(rpc, again))
    crash(home)
    with home.rpc() as rpc:
        found = [task(rpc, i)["status"] for i in (lasting, again, never, waiting, first)]
        assert found == ["running"] * 3 + ["queued", "running"], [task(rpc, i) for i in (lasting, again, never)]
        rpc.call("cancel_task", taskId=lasting)
        assert reaches(rpc, lasting, *ENDED)["status"] == "cancelled"
    open(f"{home.work}/again", "w").close()
    lose(home)
    with home.rpc() as rpc:
        record = reaches(rpc, never, *ENDED)
        assert record["status"] == "lost" and record["attempts"][0]["status"] == "unknown" and record["attempts"][0]["nativeStatus"] == "lost", record
        record = reaches(rpc, again, "completed", "failed")
        assert len(record["attempts"]) == 2, record
        assert [t for t in kinds(rpc, again) if t in ("task.lost", "task.retrying")] == ["task.lost", "task.retrying"]
        rpc.call("complete_task", taskId=first)
        assert reaches(rpc, waiting, *ENDED)["status"] == "completed"
        check_all(home, rpc)


def test_orderly_stop_ends_or_retries_attempts(home):
    with home.rpc() as rpc:
        plain = make(rpc, commandLine="sleep 1000")
        again = make(rpc, commandLine="test -e again && exit 0; echo up; sleep 1000", cwd=home.work, retryPolicy={"maxAttempts": 2}, autoComplete=True)
        for id in (plain, again):
            rpc.call("start_task", taskId=id)
            reaches(rpc, id, "running")
        until("the command has looked", lambda: "process.output" in kinds(rpc, again))
    open(f"{home.work}/again", "w").close()
    home.restart()
    with home.rpc() as rpc:
        record = task(rpc, plain)
        assert record["status"] == "failed" and record["lastError"]["category"] == "shutdown", record
        record = until("it was tried again", lambda: (lambda t: t if len(t["attempts"]) == 2 and t["status"] in ("completed", "failed") else None)(task(rpc, again)))
        check_all(home, rpc)


def test_task_of_a_silent_worker_is_lost(home):
    with home.rpc() as rpc:
        id = make(rpc, heartbeatMs=200)
        stays = make(rpc)
        with home.rpc() as worker:
            worker.call("start_task", taskId=id)
            worker.call("start_task", taskId=stays)
            worker.call("append_task_progress", taskId=id, percent=1)
            assert task(rpc, id)["status"] == "running"
        record = reaches(rpc, id, *ENDED)
        assert record["status"] == "lost", record
        said = next(e for e in rpc.events(taskId=id) if e["type"] == "task.lost")
        assert said["payload"]["worker"]["kind"] == "client" and said["payload"]["lastSeenAt"], said
        rpc.fails("append_task_progress", {"taskId": id, "percent": 2}, code=-32015)
        rpc.call("retry_task", taskId=id)
        rpc.call("complete_task", taskId=id)
        assert task(rpc, stays)["status"] == "running"
        check_all(home, rpc)


def test_task_waits_for_its_actions(home):
    with home.rpc() as rpc:
        id = make(rpc)
        rpc.call("start_task", taskId=id)
        one, two = (rpc.call("request_action", taskId=id, actionType="input", prompt=p)["actionId"] for p in ("a?", "b?"))
        record = task(rpc, id)
        assert record["status"] == "waiting_input" and record["openActions"] == sorted([one, two]), record
        assert rpc.fails("complete_task", {"taskId": id}, code=-32015).data["missing"][0]["what"] == "action_open"
        rpc.call("respond_action", actionId=one, decision="allow")
        assert task(rpc, id)["status"] == "waiting_input"
    crash(home)
    with home.rpc() as rpc:
        rpc.call("respond_action", actionId=two, decision="allow")
        assert task(rpc, id)["status"] == "running"
        three = rpc.call("request_action", taskId=id, actionType="input", prompt="c?")["actionId"]
        rpc.call("cancel_task", taskId=id)
        reaches(rpc, id, "cancelled")
        ended = [e for e in rpc.events(taskId=id) if e["type"] == "action.resolved"]
        assert ended[-1]["actionId"] == three and ended[-1]["payload"]["decision"] == "cancelled", ended[-1]
        rpc.fails("request_action", {"taskId": id, "actionType": "input"}, code=-32015)
        check_all(home, rpc)


def test_a_question_changes_no_task_that_has_no_attempt(home):
    with home.rpc() as rpc:
        def asked_and_answered(id):
            action = rpc.call("request_action", taskId=id, actionType="input", prompt="which?")["actionId"]
            asked = task(rpc, id)
            assert asked["openActions"] == [action], asked
            rpc.call("respond_action", actionId=action, decision="allow")
            return asked["status"], task(rpc, id)["status"]

        draft, first = make(rpc, draft=True), make(rpc)
        queued, done = make(rpc, commandLine="true", autoComplete=True), make(rpc, commandLine="echo x >>ran", cwd=home.work)
        rpc.call("link_tasks", taskId=queued, kind="blocked_by", targetId=first)
        for id in (queued, done):
            rpc.call("start_task", taskId=id)
        reaches(rpc, done, "waiting_input")
        assert asked_and_answered(draft) == ("draft", "draft")
        assert asked_and_answered(queued) == ("queued", "queued")
        assert asked_and_answered(done) == ("waiting_input", "waiting_input")
        assert asked_and_answered(first) == ("waiting_input", "accepted"), "its start waits for the answer"
        parent = make(rpc, commandLine="true", autoComplete=True)
        child = make(rpc, parentTaskId=parent)
        rpc.call("start_task", taskId=parent)
        assert reaches(rpc, parent, "waiting_input")["statusReason"] == f"the command succeeded, but the task is not complete: child_unfinished {child}"
        rpc.call("complete_task", taskId=done)
        for verb in ("start_task", "complete_task"):
            rpc.call(verb, taskId=child)
        assert reaches(rpc, parent, *ENDED)["status"] == "completed"
        for verb in ("start_task", "complete_task"):
            rpc.call(verb, taskId=first)
        assert reaches(rpc, queued, *ENDED)["status"] == "completed"
        check_all(home, rpc)


def test_auto_completion_follows_the_end_of_what_was_missing(home):
    with home.rpc() as rpc:
        wait = "while ! test -e go; do sleep 0.02; done"
        asked, kept, judged, parent = (make(rpc, commandLine=wait, cwd=home.work, autoComplete=True, **more) for more in ({}, {}, {"acceptance": ["reviewed"]}, {}))
        for id in (asked, kept, judged, parent):
            rpc.call("start_task", taskId=id)
        one, two = (rpc.call("request_action", taskId=asked, actionType="input", prompt="which?")["actionId"] for _ in range(2))
        three = rpc.call("request_action", taskId=kept, actionType="input", prompt="which?")["actionId"]
        job = rpc.call("create_job", taskId=parent, items=[{"itemId": "x", "input": "x"}])["jobId"]
        with open(os.path.join(home.work, "go"), "w"):
            pass
        for id in (asked, kept, judged, parent):
            until(f"the command of {id} has ended", lambda id=id: "task.attempt.completed" in kinds(rpc, id))
            assert task(rpc, id)["waitingFor"] == "acceptance", task(rpc, id)
        rpc.call("respond_action", actionId=one, decision="allow")
        assert task(rpc, asked)["status"] == "waiting_input", "the other question is still open"
        rpc.call("respond_action", actionId=two, decision="deny")
        assert reaches(rpc, asked, *ENDED)["status"] == "completed"
        rpc.call("update_task", taskId=judged, acceptance=[{"id": "a1", "text": "reviewed", "status": "met"}])
        assert reaches(rpc, judged, *ENDED)["status"] == "completed"
        rpc.call("report_job_item", jobId=job, itemId="x", status="running")
        rpc.call("report_job_item", jobId=job, itemId="x", status="completed")
        assert reaches(rpc, parent, *ENDED)["status"] == "completed"
        ended = [e for e in rpc.events(taskId=parent) if e["type"] == "task.completed"]
        assert len(ended) == 1 and ended[0]["payload"]["declaredBy"] == "auto_complete", ended
    crash(home)
    with home.rpc() as rpc:
        assert task(rpc, kept)["status"] == "waiting_input"
        rpc.call("respond_action", actionId=three, decision="allow")
        assert reaches(rpc, kept, *ENDED)["status"] == "completed"
        check_all(home, rpc)


def test_auto_completion_follows_a_pause_and_reported_progress(home):
    with home.rpc() as rpc:
        resumed, during, reported = (make(rpc, commandLine="true", autoComplete=True, **more) for more in ({}, {}, {"acceptance": ["reviewed"]}))
        children = {id: make(rpc, parentTaskId=id) for id in (resumed, during)}
        for id in (resumed, during, reported):
            rpc.call("start_task", taskId=id)
            reaches(rpc, id, "waiting_input")
        for id in (resumed, during):
            rpc.call("pause_task", taskId=id)
        rpc.call("cancel_task", taskId=children[during])
        assert task(rpc, during)["status"] == "paused"
        for id in (resumed, during):
            rpc.call("resume_task", taskId=id)
        assert reaches(rpc, during, *ENDED)["status"] == "completed"
        assert task(rpc, resumed)["status"] == "waiting_input"
        rpc.call("cancel_task", taskId=children[resumed])
        assert reaches(rpc, resumed, *ENDED)["status"] == "completed"
        rpc.call("append_task_progress", taskId=reported, acceptance=[{"id": "a1", "text": "reviewed", "status": "met"}])
        assert reaches(rpc, reported, *ENDED)["status"] == "completed"
        check_all(home, rpc)


def test_denied_command_blocks_the_task(home):
    with home.rpc() as rpc:
        rpc.call("initialize", role="agent")
        id = make(rpc, commandLine="true", sandbox={"writeRoots": ["/etc"]})
        rpc.call("start_task", taskId=id)
        record = reaches(rpc, id, "blocked", *ENDED)
        assert record["status"] == "blocked" and record["blocker"] == {"kind": "permission"}, record
        assert record["attempts"][0]["lastError"]["category"] == "permission", record
        rpc.call("update_task", taskId=id, commandLine="true", autoComplete=True)
        rpc.call("retry_task", taskId=id)
        assert reaches(rpc, id, *ENDED)["status"] == "completed"
        check_all(home, rpc)


def test_task_verbs_of_the_command_line(home):
    first = home.cli("task", "create", "the first", "--title", "one", "--accept", "it is good").text.strip()
    assert first.startswith("task_")
    second = home.cli("task", "create", "the second", "--after", first, "--auto-complete", "--attempts", "2", "--start", "--", "sh", "-c", "echo hi").text.strip()
    assert "queued" in home.cli("task", "list").text and "one" in home.cli("task", "list").text
    assert home.cli("task", "start", first[5:]).text == "running\n"
    home.cli("task", "progress", first, "--percent", "40", "--phase", "working", "--summary", "so far")
    assert "40%" in home.cli("task", "list").text
    refused = home.cli("task", "complete", first, status=1)
    assert b"acceptance_unmet" in refused.err, refused.err
    assert home.cli("task", "complete", first, "--met", "it is good", "--summary", "done").text == "completed\n"
    with home.rpc() as rpc:
        assert reaches(rpc, second, *ENDED)["status"] == "completed"
    assert "completed" in home.cli("task", "show", first).text
    assert home.cli("task", "show", "--json", first).json["acceptance"][0]["status"] == "met"
    assert home.cli("task", "archive", first).text == "archived\n"
    third = home.cli("task", "create", "x", "--draft", "--parent", home.cli("task", "create", "p").text.strip()).text.strip()
    assert home.cli("task", "update", third, "--status", "accepted", "--title", "t").text == "accepted\n"
    home.cli("task", "link", third, "produced_artifact", "art_1")
    home.cli("task", "unlink", third, "produced_artifact", "art_1")
    assert home.cli("task", "start", third).text == "running\n"
    assert home.cli("task", "pause", third, "--reason", "wait").text == "paused\n"
    assert home.cli("task", "resume", third).text == "running\n"
    assert home.cli("task", "fail", third, "did not work").text == "failed\n"
    assert home.cli("task", "retry", third).text == "running\n"
    home.cli("run", "--task", third[-8:], "--", "true")
    assert [p["taskId"] for p in home.cli("history", "--json", "--limit", "1").json] == [third]
    assert home.cli("task", "cancel", third).text in ("cancelling\n", "cancelled\n")
    assert b"no task matches 'mine'" in home.cli("run", "--task", "mine", "--", "true", status=125).err
    assert b"no task matches" in home.cli("task", "show", "nothing", status=1).err
    home.cli("task", "frobnicate", status=2)
    home.cli("task", "fail", third, status=2)


def test_a_task_takes_the_options_of_run_and_shows_its_output(home):
    made = home.cli("task", "create", "--start", "--auto-complete", "--env", "GREETING=hello", "--cow", "--command-timeout", "1m", "--cpu-time", "40s",
                    "say it", "--", "sh", "-c", "echo $GREETING; echo x > made; sleep 0.2; echo bye").text.strip()
    until("it runs", lambda: home.rpc().call("list_processes", taskId=made)["processes"])
    assert home.cli("task", "logs", "-f", made).text == "hello\nbye\n"
    home.cli("task", "wait", made)
    assert home.cli("task", "logs", made).text == "hello\nbye\n"
    with home.rpc() as rpc:
        process = rpc.call("list_processes", taskId=made)["processes"][0]
        assert process["cow"] is True and process["limits"]["wallMs"] == 60000 and process["limits"]["cpuMs"] == 40000
    stat = home.cli("diff", "--stat", process["processId"]).text
    assert "made | +1 -0" in stat and stat.endswith(" 1 changed, 1 lines added, 0 removed\n"), stat
    failing = home.cli("task", "create", "--start", "--auto-complete", "fail", "--", "false").text.strip()
    home.cli("task", "wait", failing, status=1)
    missing = os.path.join(home.work, "later")
    assert b"'--rw'" in home.cli("task", "create", "--start", "--rw", missing, "write", "--", "true", status=2).err
    made = home.cli("task", "create", "--auto-complete", "--rw", missing, "write", "--", "touch", os.path.join(missing, "file"))
    assert b"does not exist yet; it must when the command starts" in made.err, made.err
    os.mkdir(missing)
    home.cli("task", "start", made.text.strip())
    home.cli("task", "wait", made.text.strip())
    assert os.path.exists(os.path.join(missing, "file"))
    idle = home.cli("task", "create", "nothing yet").text.strip()
    assert b"has run no command" in home.cli("task", "logs", idle, status=1).err


def test_a_job_takes_the_options_of_run(home):
    job = home.cli("job", "create", "--wait", "--item", "a", "--env", "WORD=hi", "--output-limit", "1M", "--", "sh", "-c", "echo $WORD {item}").text.split()[0]
    with home.rpc() as rpc:
        process = rpc.call("get_job", jobId=job)["items"][0]["processId"]
        assert rpc.outputs(process)["stdout"] == b"hi a\n"
        assert rpc.call("get_process", processId=process)["limits"]["outputBytes"] == 1 << 20


def test_a_lease_that_is_not_renewed_ends_its_task(home):
    def refused(method, **params):
        try:
            rpc.call(method, **params)
        except harness.RpcError as e:
            return str(e)
        raise AssertionError(f"{method} {params} is accepted")

    def boot_ms():
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000000

    claim = {"taskId": "t1", "token": 7, "submitter": "alice", "node": "n1", "attempt": 1, "leaseMs": 30000}
    with home.rpc() as rpc:
        assert "leaseUntil" in refused("create_task", objective="x", command=["true"], fleet=claim), "a fleet's task needs a lease"
        assert "leaseUntil" in refused("create_task", objective="x", command=["true"], fleet=claim, leaseUntil=boot_ms() - 1)
        for ahead in (60000, 1 << 44, (1 << 62) - boot_ms()):
            assert "leaseUntil" in refused("create_task", objective="x", command=["true"], fleet=claim, leaseUntil=boot_ms() + ahead)
        for wrong in (0, -1, 600001, 1 << 62, "30000", 1.5, None):
            assert "leaseMs" in refused("create_task", objective="x", command=["true"], fleet={**claim, "leaseMs": wrong}, leaseUntil=boot_ms() + 1000)
        task = rpc.call("create_task", objective="x", command=["sleep", "1000"], fleet=claim, leaseUntil=boot_ms() + 30000)["taskId"]
        rpc.call("start_task", taskId=task)
        until("it runs", lambda: rpc.call("get_task", taskId=task)["status"] == "running")
        for far in (boot_ms() + 60000, 1 << 62, 0):
            assert "leaseUntil" in refused("renew_lease", taskId=task, leaseUntil=far)
        with home.rpc() as agent:
            agent.call("initialize", role="agent")
            assert "operator" in str(agent.fails("renew_lease", taskId=task, leaseUntil=boot_ms() + 20000))
        rpc.call("renew_lease", taskId=task, leaseUntil=boot_ms() + 500)
        until("it is ended", lambda: rpc.call("get_task", taskId=task)["status"] == "cancelled")
        assert rpc.call("get_task", taskId=task)["fleet"] == claim
        assert "renew" in refused("renew_lease", taskId=task, leaseUntil=boot_ms() + 600000)
        process = rpc.call("list_processes", taskId=task)["processes"][0]
        assert process["status"] == "terminated", process
        again = rpc.call("create_task", objective="x", command=["false"], fleet=claim, leaseUntil=boot_ms() + 30000)["taskId"]
        rpc.call("start_task", taskId=again)
        until("it has failed", lambda: rpc.call("get_task", taskId=again)["status"] == "failed")
        assert "bailiff fleet retry" in str(rpc.fails("retry_task", {"taskId": again}, code=-32015))
        late = rpc.call("create_task", objective="x", command=["true"], fleet=claim, leaseUntil=boot_ms() + 300)["taskId"]
        until("its lease is over", lambda: "accepted" != rpc.call("get_task", taskId=late)["status"])
        refused("start_task", taskId=late)
        assert not rpc.call("list_processes", taskId=late)["processes"], "nothing was started"


if __name__ == "__main__":
    harness.main(globals())
