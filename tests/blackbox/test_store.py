"""The store's verbs: verify, stats, backup, compact, rebuild, prune; and corruption, which is reported and never returned as data."""

import json
import os
import re
import secrets
import shutil
import tempfile

import harness
from harness import TALKER, Home, until
from test_workspace_policy import write


def fill(home, count=10):
    with home.rpc() as rpc:
        for n in range(count):
            rpc.run([TALKER, "talk", str(n), "20", "0", str(n)])
        rpc.run([TALKER, "spew", "1", "200000"])
        return rpc.events()


def test_verify_and_stats(home):
    log = fill(home)
    assert home.cli("store", "verify").status == 0
    with home.rpc() as rpc:
        report = rpc.call("verify_store")
        assert report["ok"] is True and report["problems"] == [], report
        assert (report["events"], report["firstSequence"], report["lastSequence"]) == (len(log), 1, len(log)), report
        stats = rpc.call("get_store_stats")
        assert stats.get("events", stats.get("lastSequence")) == len(log), stats
    assert str(len(log)) in home.cli("store", "stats").text.replace(",", "")


def test_rebuild_gives_the_same_read_models(home):
    fill(home)
    with home.rpc() as rpc:
        before = (rpc.call("list_processes"), rpc.call("list_sessions"))
        home.cli("store", "rebuild")
        assert (rpc.call("list_processes"), rpc.call("list_sessions")) == before
        assert rpc.call("verify_store")["ok"] is True


def test_compact_keeps_the_events(home):
    log = fill(home)
    home.cli("store", "compact")
    with home.rpc() as rpc:
        assert rpc.events()[:len(log)] == log
        assert rpc.call("verify_store")["ok"] is True
        assert rpc.run(["true"])[1]["exitCode"] == 0
    home.restart()
    with home.rpc() as rpc:
        assert rpc.events()[:len(log)] == log


def test_backup_can_be_opened(home):
    log = fill(home)
    base = tempfile.mkdtemp(prefix="bl-")
    copy = os.path.join(base, "copy")
    try:
        home.cli("store", "backup", copy)
        done = home.cli("store", "backup", copy, status=None)
        assert done.status != 0 and copy.encode() in done.err, (done.status, done.err)
        assert b"bailiff daemon stop ends it" in home.cli("store", "restore", copy, status=1).err
        with Home(start=False) as other:
            assert b"does not take --json" in other.cli("store", "restore", "--json", copy, status=2).err
            other.cli("store", "restore", copy)
            other.start()
            with other.rpc() as rpc:
                got = rpc.events()
                assert got[:len(log)] == log
                assert rpc.call("verify_store")["ok"] is True, rpc.call("verify_store")
                process = [e["processId"] for e in log if e["type"] == "process.started"][0]
                assert tuple(rpc.outputs(process).values()) == harness.talker_output(0, 20)
    finally:
        shutil.rmtree(base, ignore_errors=True)


def test_prune_removes_old_events_and_outputs(home):
    log = fill(home)
    with home.rpc() as rpc:
        first_process = [e["processId"] for e in log if e["type"] == "process.started"][0]
        refs = rpc.call("get_process", processId=first_process)["outputs"]
        rpc.call("prune_store", beforeSequence=len(log) - 10)
        page = rpc.call("list_events", limit=1)
        assert page["firstSequence"] > 1
        assert rpc.call("verify_store")["ok"] is True, rpc.call("verify_store")
        error = rpc.fails("read_output", {"outputRef": refs["stdout"]["outputRef"]})
        assert error.code in (-32004, -32013, -32011), error
        harness.check_log(rpc.events(after=page["firstSequence"] - 1), first=page["firstSequence"])
        rpc.fails("prune_store", {})
    done = home.cli("store", "prune", "--older-than", "nonsense", status=None)
    assert done.status != 0 and b"--older-than" in done.err, done.err
    home.cli("store", "prune", "--older-than", "30d")


def test_prunes_at_the_same_time_record_a_removal_once(home):
    fill(home)
    with home.rpc() as rpc:
        last = rpc.call("initialize")["lastSequence"]
        requests = rpc.send_together(*[("prune_store", {"beforeSequence": last})] * 3)
        results = [rpc.reply(r) for r in requests]
        expired = [e["payload"]["outputRef"] for e in rpc.events(after=None) if e["type"] == "output.expired"]
        assert expired and len(expired) == len(set(expired)), expired
        assert [r["outputs"] for r in results] == [len(expired), 0, 0], results


def test_process_started_after_a_prune_is_complete(home):
    """A search for the events of one process must not fail on pruned ones."""
    fill(home)
    with home.rpc() as rpc:
        rpc.call("prune_store", beforeSequence=rpc.call("initialize")["lastSequence"])
        assert rpc.call("list_events", limit=1)["firstSequence"] > 1
        process = rpc.start("printf 'on a screen'; read x", tty={"rows": 5, "cols": 30})["processId"]
        seen = rpc.call("wait_screen", processId=process, until={"text": "on a screen"}, timeoutMs=60000)
        assert "on a screen" in seen["text"] and (seen["rows"], seen["cols"]) == (5, 30), seen
        rpc.call("resize_process", processId=process, rows=6, cols=40)
        assert "on a screen" in rpc.call("get_screen", processId=process)["text"]
        rpc.end(process)
        assert rpc.call("get_screen", processId=process)["rows"] == 6
        turn = rpc.call("submit_turn", input=[{"type": "command", "commandLine": "exit 3"}])["turnId"]
        failed, = until("the call ends", lambda: [e["payload"] for e in rpc.events(after=None, turnId=turn) if e["type"] == "tool.failed"])
        assert failed["sandboxRef"] and failed["permissionRef"], failed
        _, ended = rpc.run("echo 'export A=1' >.envrc", cwd=home.work)
        if "autorun" in ended:
            done = rpc.call("revert_autorun", processId=ended["processId"])
            assert [os.path.basename(p) for p in done["reverted"]] == [".envrc"], done


def test_a_live_process_is_not_pruned(home):
    with home.rpc() as rpc:
        process = rpc.start("echo kept; read x; echo more", stdin="pipe")["processId"]
        harness.until("output", lambda: rpc.outputs(process)["stdout"] == b"kept\n")
        for _ in range(5):
            rpc.run(["true"])
        rpc.call("prune_store", beforeSequence=rpc.call("initialize")["lastSequence"])
        assert rpc.outputs(process)["stdout"] == b"kept\n"
        rpc.call("close_process_stdin", processId=process)
        assert rpc.wait(process)["exitCode"] == 0
        assert rpc.outputs(process)["stdout"] == b"kept\nmore\n"
        assert rpc.call("verify_store")["ok"] is True, rpc.call("verify_store")


def flip(path, needle=None):
    """Changes one byte: of the needle, wherever it stands (also in pages that are used no more), or in the middle."""
    with open(path, "r+b") as f:
        data = f.read()
        places = [m.start() for m in re.finditer(re.escape(needle), data)] if needle else [len(data) // 2]
        for at in places:
            f.seek(at)
            f.write(bytes([data[at] ^ 0x20]))
    return bool(places)


def test_acknowledged_events_survive_the_death_of_the_runtime(home):
    """Killed while the event is only in the journal: it exists once, and later events follow it."""
    with home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
    for n in range(8):
        with home.rpc() as rpc:
            for k in range(1 + n % 3):
                last = rpc.call("emit_events", sessionId=session, events=[{"type": "run.status", "payload": {"phase": f"{n}-{k}"}}])["sequence"]
            home.kill_part("runtime")
        with home.rpc() as rpc:
            log = rpc.events()
            assert [e["sequence"] for e in log] == list(range(1, len(log) + 1)) and len(log) >= last
            assert log[last - 1]["payload"]["phase"] == f"{n}-{k}", log[last - 1]
    with home.rpc() as rpc:
        assert rpc.call("verify_store")["ok"] is True
        said = [e["payload"]["phase"] for e in rpc.events() if e["type"] == "run.status"]
        assert said == [f"{n}-{k}" for n in range(8) for k in range(1 + n % 3)], said


def test_events_are_durable_without_a_journal(home):
    """If the journal cannot be created, events are as durable but slower, and that is reported."""
    path = os.path.join(home.dir, "store", "journal")
    with home.rpc() as rpc:
        assert rpc.call("get_store_stats")["journalBytes"] == os.path.getsize(path)
    home.stop()
    os.rename(path, path + ".old")
    os.mkdir(path)
    home.start()
    with home.rpc() as rpc:
        assert "journal" in rpc.call("get_health")["store"]["note"]
        assert rpc.run(["true"])[1]["exitCode"] == 0
        stats = rpc.call("get_store_stats")
        assert stats["journalBytes"] == 0 and "journal" in stats["note"], stats
        last = stats["lastSequence"]
    assert "journal" in home.cli("doctor").text
    home.stop()
    os.rmdir(path)
    os.rename(path + ".old", path)
    home.start()
    with home.rpc() as rpc:
        assert "note" not in rpc.call("get_health")["store"]
        assert rpc.call("get_store_stats")["lastSequence"] >= last and rpc.call("verify_store")["ok"] is True


def test_corrupted_event_is_detected(home):
    with home.rpc() as rpc:
        title = "Qx7Kz9Wv3Jp5" # events are compressed, but what occurs nowhere else stays as it is
        session = rpc.call("create_session", title=title)["sessionId"]
        for _ in range(5):
            rpc.call("emit_events", sessionId=session, events=[{"type": "run.status", "payload": {"phase": "running"}}] * 200)
        victim = [e for e in rpc.events() if e["type"] == "session.created" and e["sessionId"] == session][0]
    home.stop()
    # Its first and last characters may be part of a match with other text.
    needle, path = title[2:9].encode(), os.path.join(home.dir, "store", "data.mdb")
    assert flip(path, needle), "the event is in the database file"
    home.start()
    with home.rpc() as rpc:
        report = rpc.call("verify_store")
        assert report["ok"] is False and report["problems"], report
        assert str(victim["sequence"]) in json.dumps(report["problems"]), report
        try:
            got = rpc.events()
            assert not [e for e in got if e["sequence"] == victim["sequence"] and e != victim], "corruption was returned as data"
        except harness.RpcError as e:
            assert e.data["category"], e
    assert home.cli("store", "verify", status=None).status != 0


def damage_document(home, *keys):
    """Flips a bit of each document, while the daemon is stopped."""
    home.stop()
    with open(os.path.join(home.dir, "store", "data.mdb"), "r+b") as f:
        data = f.read()
        for key in keys:
            at = data.find(key) + len(key) + 12
            f.seek(at)
            f.write(bytes([data[at] ^ 1]))
    home.start()


def damage_events(rpc):
    first = rpc.call("get_health")["store"]["firstSequence"]
    return [e for e in rpc.events(after=first - 1) if e["type"] == "runtime.error" and e["payload"]["code"] == "store_damaged"]


def test_damaged_document_is_an_error_until_it_is_rebuilt(home):
    with home.rpc() as rpc:
        session = rpc.call("create_session", title="both")["sessionId"]
        good, bad = (rpc.call("create_task", objective="work", sessionId=session)["taskId"] for _ in range(2))
        rpc.call("compact_store")
    damage_document(home, b"\x50" + bad.encode())       # VIEW_TASK
    with home.rpc() as rpc:
        error = rpc.fails("get_task", {"taskId": bad}, code=-32603)
        rpc.fails("get_task", {"taskId": bad}, code=-32603)
        damage, = until("it is recorded", lambda: damage_events(rpc))
        assert bad in damage["payload"]["detail"] and "store rebuild" in damage["payload"]["advice"], damage
        health = rpc.call("get_health")
        assert health["status"] == "degraded" and health["store"]["damaged"] == 1, health
        assert error.data["category"] == "corrupt" and bad in error.message and "rebuild_store" in error.data["advice"], error
        rpc.fails("cancel_task", {"taskId": bad}, code=-32603)
        assert rpc.call("get_task", taskId=good)["objective"] == "work"
        report = rpc.call("verify_store")
        assert not report["ok"] and bad in json.dumps(report["problems"]), report
        rpc.call("rebuild_store")
        assert rpc.call("verify_store")["ok"] is True
        assert rpc.call("get_task", taskId=bad)["objective"] == "work"
        assert "damaged" not in rpc.call("get_health")["store"] and len(damage_events(rpc)) == 1


def test_a_job_does_not_start_while_its_task_is_damaged(home):
    """How long the task was paused, which extends the job's time limit, is unknown then, and so is whether it is paused."""
    with home.rpc() as rpc:
        task = rpc.call("create_task", objective="work")["taskId"]
        job = rpc.call("create_job", taskId=task, items=[{"itemId": "a"}], maxRuntimeMs=60_000)["jobId"]
        rpc.call("compact_store")
    damage_document(home, b"\x50" + task.encode())
    with home.rpc() as rpc:
        claim = {"jobId": job, "itemId": "a", "status": "running"}
        error = rpc.fails("report_job_item", claim, code=-32603)
        assert task in error.message and "rebuild_store" in error.data["advice"], error
        assert rpc.call("get_job", jobId=job)["status"] == "accepted"
        rpc.call("rebuild_store")
        rpc.call("report_job_item", **claim)
        assert rpc.call("get_job", jobId=job)["status"] == "running"


def test_retention_skips_what_is_damaged(home):
    with home.rpc() as rpc:
        ids = [rpc.run(["echo", str(n)])[0] for n in range(40)]
        rpc.call("compact_store")
    bad = [r["processId"] for r in ids[:20]]
    damage_document(home, *(b"\x05" + p.encode() for p in bad))       # VIEW_PROCESS
    with home.rpc() as rpc:
        def prune():
            kept = rpc.call("create_session")
            return rpc.call("prune_store", beforeSequence=kept["sequence"])

        result = prune()
        assert result["outputs"] >= 20 and result["sessions"] == 20 and result["events"] > 100, result
        health = rpc.call("get_health")["store"]
        assert health["damaged"] == len(bad), health
        rpc.fails("get_process", {"processId": ids[20]["processId"]}, code=-32004)
        rpc.call("rebuild_store")
        assert rpc.call("get_process", processId=bad[0])["status"] == "completed"
        assert prune()["sessions"] == len(bad) + 1
        rpc.fails("get_process", {"processId": bad[0]}, code=-32004)


def test_retention_ends_at_a_damaged_session(home):
    with home.rpc() as rpc:
        before, bad, after = sorted(rpc.call("create_session", title=str(n))["sessionId"] for n in range(3))
        rpc.call("compact_store")
    damage_document(home, b"\x02" + bad.encode())       # VIEW_SESSION
    with home.rpc() as rpc:
        for sessions in (1, 1):     # those before it, with the one whose event is the floor
            kept = rpc.call("create_session")
            result = rpc.call("prune_store", beforeSequence=kept["sequence"])
            print("#", result)
        rpc.fails("get_session", {"sessionId": before}, code=-32004)
        rpc.fails("get_session", {"sessionId": bad}, code=-32603)
        assert rpc.call("get_session", sessionId=after)["title"] == "2"


def test_corrupted_output_is_detected(home):
    with home.rpc() as rpc:
        started, end = rpc.run([TALKER, "spew", "1", "3000000"])
    home.stop()
    files = [os.path.join(d, n) for d, _, names in os.walk(os.path.join(home.dir, "spool")) for n in names]
    big = [p for p in files if os.path.getsize(p) == 3000000] or [max(files, key=os.path.getsize)]
    assert flip(big[0])
    home.start()
    with home.rpc() as rpc:
        report = rpc.call("verify_store")
        assert report["ok"] is False and report["problems"], report
        try:
            data = rpc.outputs(started["processId"])["stdout"]
            raise AssertionError(f"corruption was returned as data ({len(data)} bytes)")
        except harness.RpcError:
            pass
        damage, = until("it is recorded", lambda: damage_events(rpc))
        assert "do not match their checksum" in damage["payload"]["detail"], damage


def test_the_same_log_after_every_kind_of_restart(home):
    log = fill(home, 3)
    home.restart()
    with home.rpc() as rpc:
        now = rpc.events()
        assert now[:len(log)] == log
        assert [e["type"] for e in now[len(log):]].count("history.reconstructed") <= 1
    home.kill_part("runtime")
    harness.until("it answers", home.answers)
    with home.rpc() as rpc:
        assert rpc.events()[:len(now)] == now
        harness.check_log(rpc.events())


def test_full_store_rejects_new_work_and_serves_reads():
    with Home({"storeQuotaBytes": 8 << 20}) as home, home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        error = harness.fill_store(rpc, session)
        assert error.code == -32012, error
        assert rpc.call("list_events", limit=5)["events"], "reading continues"
        assert rpc.call("verify_store")["ok"] is True
        rpc.call("prune_store", beforeSequence=rpc.call("initialize")["lastSequence"])
        home.cli("store", "compact")
        session = rpc.call("create_session")["sessionId"]  # the other one was pruned with its events
        rpc.call("emit_events", sessionId=session, events=[{"type": "run.status", "payload": {"phase": "x"}}])


def test_full_store_delays_output_and_loses_none():
    with Home({"storeQuotaBytes": 8 << 20}) as home, home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        body = {"type": "run.status", "payload": {"phase": "x", "title": secrets.token_hex(15000)}}
        while rpc.call("get_store_stats")["dbBytes"] < 4 << 20:
            rpc.call("emit_events", sessionId=session, events=[body] * 5)

        def errors(code):
            return [e for e in rpc.events(after=None) if e["type"] == "runtime.error" and e["payload"]["code"] == code]

        go = os.path.join(home.work, "go")
        process = rpc.start(f"while [ ! -e {go} ]; do sleep 0.05; done; seq 1000; seq 1000 >&2", cwd=home.work)["processId"]
        follower = home.cli_start("attach", process)
        until("it is followed", lambda: rpc.call("get_health")["subscriptions"])
        harness.fill_store(rpc, session)
        assert rpc.call("get_store_stats")["full"] is True
        open(go, "w").close()
        stalled = until("it is told that output stalls", lambda: errors("output_stalled"))
        assert process in stalled[0]["payload"]["detail"], stalled
        assert stalled[0]["processId"] == process, "followers are notified"
        assert rpc.call("get_process", processId=process)["status"] == "running", "it waits"
        refused = home.cli("run", "--", "true", status=125).err.decode()
        assert "the store is full" in refused and "bailiff store prune" in refused and "storeQuotaBytes" in refused and "Its disk is full" not in refused, refused
        until("both streams stall", lambda: len(errors("output_stalled")) == 2)
        full = errors("store_full")
        assert len(full) == 1 and "quota" in full[0]["payload"]["detail"] and "bailiff store prune" in full[0]["payload"]["advice"], full
        rpc.call("prune_store", beforeSequence=rpc.call("initialize")["lastSequence"])
        home.cli("store", "compact")
        assert rpc.wait(process)["status"] == "completed"
        expected, outputs = "".join(f"{n}\n" for n in range(1, 1001)).encode(), rpc.outputs(process)
        assert outputs["stdout"] == expected and outputs["stderr"] == expected, outputs
        told = follower.communicate(timeout=harness.PATIENCE)[1].decode()
        assert told.count("cannot be written") == 1 and "free disk space or raise the quota" in told, told


def test_live_process_survives_the_prune_of_its_start_event(home):
    with home.rpc() as rpc:
        live = rpc.start(["sh", "-c", "read x; echo got $x; exit 7"], stdin="pipe")
        for _ in range(3):
            rpc.run(["true"])
        rpc.call("prune_store", beforeSequence=rpc.call("initialize")["lastSequence"])
        assert not rpc.call("list_events", afterSequence=rpc.call("initialize")["firstSequence"] - 1, types=["process.started"])["events"]
    home.kill_part("runtime")
    with home.rpc() as rpc:
        found = rpc.call("list_events", afterSequence=rpc.call("initialize")["firstSequence"] - 1, types=["history.reconstructed"])["events"][-1]["payload"]
        assert [p["processId"] for p in found["alive"]] == [live["processId"]] and found["aborted"] == 0 and not found["degraded"], found
        rpc.call("write_process_stdin", processId=live["processId"], data="it\n")
        end = rpc.wait(live["processId"])
        assert (end["status"], end["exitCode"]) == ("completed", 7) and rpc.outputs(live["processId"])["stdout"] == b"got it\n", end
        assert rpc.call("verify_store")["ok"]


def documents(home):
    """How many documents of what clients did the store holds."""
    return json.loads(home.cli("store", "stats", "--json").out)["models"]


def test_retention_bounds_the_store(home):
    """Ended sessions are removed with their documents; active ones stay complete; and the log still matches the read models."""
    with home.rpc() as rpc:
        rpc.run(["true"])
        assert rpc.call("prune_store", olderThanMs=0)["sessions"] >= 1
        small = documents(home)
        live = rpc.start(["cat"], stdin="pipe")
        over = [rpc.run(["sh", "-c", "seq 2000"])[0] for _ in range(20)]
        session = rpc.call("create_session", title="quiet")["sessionId"]
        rpc.call("submit_turn", sessionId=session, input=[{"type": "text", "text": "x" * 5000}])
        task = rpc.call("create_task", sessionId=session, objective="not done yet")["taskId"]
        grown = documents(home)
        assert grown > small + 20 * 5
        result = rpc.call("prune_store", olderThanMs=0)
        assert result["sessions"] == 20, result
        rpc.call("compact_store")
        listed = [p["processId"] for p in rpc.call("list_processes")["processes"]]
        assert listed == [live["processId"]], listed
        assert home.cli("ps", "-a").text.count("proc_") <= 1
        for run in over:
            rpc.fails("get_process", {"processId": run["processId"]}, code=-32004)
            rpc.fails("get_session", {"sessionId": run["sessionId"]}, code=-32004)
        assert rpc.call("get_task", taskId=task)["taskId"] == task
        expired = [e for e in rpc.events(after=rpc.call("get_health")["store"]["firstSequence"] - 1) if e["type"] == "session.expired"]
        assert len(expired) <= 1    # they go, too, but for the newest event
        assert rpc.call("verify_store")["ok"] is True
        after = documents(home)
        rpc.call("rebuild_store")
        assert documents(home) == after and rpc.call("verify_store")["ok"] is True
        # However often: it does not grow.
        sizes = []
        for _ in range(4):
            for _ in range(5):
                rpc.run(["true"])
            rpc.call("prune_store", olderThanMs=0)
            sizes.append(documents(home))
        assert max(sizes) <= min(sizes) + 12, sizes
        rpc.call("close_process_stdin", processId=live["processId"])
        assert rpc.wait(live["processId"])["exitCode"] == 0
        assert rpc.call("verify_store")["ok"] is True
    home.restart()
    with home.rpc() as rpc:
        assert rpc.call("verify_store")["ok"] is True
        assert rpc.run(["true"])[1]["exitCode"] == 0


def database(home):
    """The bytes of the database, without free pages."""
    with home.rpc() as rpc:
        rpc.call("compact_store")
    with open(os.path.join(home.dir, "store", "data.mdb"), "rb") as f:
        return f.read()


def test_retention_removes_what_sessions_leave_elsewhere(home):
    """Benchmark trials, the cursors of channels, and which channel may answer an action."""
    with home.rpc() as rpc:
        rpc.run(["true"])
        assert rpc.call("prune_store", olderThanMs=0)["sessions"] == 1
        small = documents(home)
        channel = rpc.call("connect_channel", transport="json_rpc", capabilities=["permissions"], heartbeatMs=600000)
        session, name = channel["sessionId"], channel["channelId"]
        task = rpc.call("create_task", objective="bench", sessionId=session)["taskId"]
        run = rpc.call("start_task", taskId=task)["runId"]
        turn = rpc.call("submit_turn", sessionId=session, input=[{"type": "text", "text": "do it"}])["turnId"]
        trial = rpc.call("start_benchmark_trial", taskId=task, runId=run, turnId=turn, datasetId="tasks", datasetVersion="1",
                         configurationId="base", role="baseline")["trialId"]
        answered, left = (rpc.call("request_action", turnId=turn, actionType="approval", prompt="may I?")["actionId"] for _ in range(2))
        rpc.call("respond_action", actionId=answered, decision="allow")
        rpc.call("ack_events", channelId=name, sequence=3)
        stored = database(home)
        assert f"channel.acked.{name}".encode() in stored and f"channel.action.{left}".encode() in stored
        assert f"channel.action.{answered}".encode() not in stored, "it was needed until the answer"
        rpc.call("respond_action", actionId=left, decision="deny")
        rpc.call("complete_turn", turnId=turn, outcome="done")
        rpc.call("complete_task", taskId=task)
        rpc.call("disconnect_channel", channelId=name)
        assert rpc.call("prune_store", olderThanMs=0)["sessions"] == 1
        assert documents(home) == small
        stored = database(home)
        assert f"channel.acked.{name}".encode() not in stored and f"channel.action.{left}".encode() not in stored
        rpc.fails("record_benchmark_reward", {"trialId": trial, "reward": 1}, code=-32004)
        assert rpc.call("verify_store")["ok"] is True


def test_retention_removes_what_is_kept_of_policy_files(home):
    """The last recorded hash of a workspace's policy file goes with the event; a file that has changed since then keeps its own."""
    with home.rpc() as rpc:
        folders = [os.path.join(home.work, name) for name in ("old", "changed")]
        for folder in folders:
            os.makedirs(os.path.join(folder, ".git"))
            write(folder, {"permissions": {"deny": ["Bash(rm:*)"]}})
            rpc.run(["true"], cwd=folder)
        floor = rpc.call("create_session")["sequence"]
        write(folders[1], {"permissions": {"deny": ["Bash(mv:*)"]}})

        def changes():
            rpc.run(["true"], cwd=folders[1])
            return [e for e in rpc.events(after=floor) if e["type"] == "policy.changed"]

        last = until("the change is recorded", changes)[-1]
        before = database(home)
        assert before.count(b"policy.workspace.") == 2, before.count(b"policy.workspace.")
        rpc.call("prune_store", beforeSequence=floor)
        assert database(home).count(b"policy.workspace.") == 1
        home.kill_part("runtime")
    until("it answers", home.answers)
    with home.rpc() as rpc:
        for folder in folders:
            rpc.run(["true"], cwd=folder)
        again = [e for e in rpc.events(after=last["sequence"]) if e["type"] == "policy.changed" and e["payload"].get("file")]
        assert [e["payload"]["file"].startswith(folders[0]) for e in again] == [True] and "oldHash" not in again[0]["payload"], again


def test_evidence_about_a_task_of_an_expired_session_stays(home):
    with home.rpc() as rpc:
        kept, over = (rpc.call("create_session")["sessionId"] for _ in range(2))
        live = rpc.start(["cat"], stdin="pipe", sessionId=kept)["processId"]
        task = rpc.call("create_task", objective="over", sessionId=over)["taskId"]
        rpc.call("cancel_task", taskId=task)
        rpc.call("emit_events", sessionId=kept, events=[{"type": "evidence.changed", "evidenceId": "ev-1", "taskId": task,
                                                         "payload": {"kind": "note", "status": "ready"}}])
        assert rpc.call("prune_store", olderThanMs=0)["sessions"] == 1
        rpc.fails("get_task", {"taskId": task}, code=-32004)
        summary = rpc.call("get_snapshot", kind="evidence_summary", sessionId=kept)["snapshot"]
        assert [e["evidenceId"] for e in summary["evidence"]] == ["ev-1"], summary
        rpc.end(live)
        assert rpc.call("verify_store")["ok"] is True


def failed_start(home):
    """The message of a daemon that does not start."""
    said = len(home.log())
    guard = home.spawn()
    status = guard.wait(harness.PATIENCE)
    home.guard = None
    assert status == 1, status
    return "".join(home.log()[said:])


def test_missing_database_is_an_error_not_a_new_store():
    """Missing, empty or blank: if there is a journal or outputs, there was a database, and no new one is created."""
    with Home({"inlineBytes": 256}) as home:
        with home.rpc() as rpc:
            process = rpc.run(["sh", "-c", "seq 1000"])[0]["processId"]
        home.stop()
        store, spool = os.path.join(home.dir, "store"), os.path.join(home.dir, "spool")
        data, journal, aside = os.path.join(store, "data.mdb"), os.path.join(store, "journal"), os.path.join(home.dir, "aside")
        assert os.listdir(spool) and os.path.exists(journal)
        os.rename(data, aside)
        for size in (None, 0, 8192):
            if size is not None:
                with open(data, "wb") as f:
                    f.write(bytes(size))
                shutil.copystat(aside, data)
                os.chown(data, os.stat(aside).st_uid, os.stat(aside).st_gid)
            said = failed_start(home)
            assert "data.mdb" in said and "store restore" in said and home.dir in said and "move" in said, said
            assert os.path.exists(data) == (size is not None) and os.path.exists(journal)
            if size is not None:
                os.unlink(data)
        os.rename(journal, aside + ".journal")
        assert "data.mdb" in failed_start(home)      # the outputs alone say so
        os.rename(aside + ".journal", journal)
        os.rename(spool, aside + ".spool")
        assert "data.mdb" in failed_start(home)      # and so does the journal
        if os.path.isdir(spool):
            os.rmdir(spool)
        os.rename(aside + ".spool", spool)
        os.rename(aside, data)
        home.start()
        with home.rpc() as rpc:
            assert rpc.outputs(process)["stdout"] == "".join(f"{i}\n" for i in range(1, 1001)).encode()
        home.stop()
        for name in ("store", "spool"):         # as it says
            os.rename(os.path.join(home.dir, name), os.path.join(home.dir, name + ".old"))
        home.start()
        with home.rpc() as rpc:
            assert rpc.run(["true"])[1]["exitCode"] == 0


def test_damaged_backup_is_rejected_and_the_store_stays():
    """Wherever data.mdb is damaged: an error that names the file and what to do, at the restore or at the next start."""
    base = tempfile.mkdtemp(prefix="bl-")
    copy, broken = os.path.join(base, "copy"), os.path.join(base, "broken")
    try:
        with Home() as home:
            with home.rpc() as rpc:
                rpc.run(["true"])
                log = rpc.events()
            home.cli("store", "backup", copy)
            home.stop()
            size = os.path.getsize(os.path.join(copy, "store", "data.mdb"))
            for damage in ("cut", "zero", "junk"):
                shutil.rmtree(broken, ignore_errors=True)
                shutil.copytree(copy, broken)
                with open(os.path.join(broken, "store", "data.mdb"), "r+b") as f:
                    f.seek(size // 8192 * 4096)
                    if damage == "cut":
                        f.truncate()
                    else:
                        f.write(bytes(4096) if damage == "zero" else b"\xa5" * 4096)
                done = home.cli("store", "restore", broken, status=1)
                assert f"{broken}/store/data.mdb' is damaged" in done.err.decode() and b"another backup" in done.err, done.err
                assert not [n for n in os.listdir(home.dir) if "restor" in n], os.listdir(home.dir)
            home.start()
            with home.rpc() as rpc:
                assert rpc.events()[:len(log)] == log
            home.stop()
            with open(os.path.join(home.dir, "store", "data.mdb"), "r+b") as f:
                f.seek(size // 8192 * 4096)
                f.write(bytes(4096))
            said = failed_start(home)
            assert f"{home.dir}/store/data.mdb' is damaged" in said and "store restore" in said and "/proc/" not in said, said
            home.cli("store", "restore", copy)
            home.start()
            with home.rpc() as rpc:
                assert rpc.events()[:len(log)] == log
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    harness.main(globals())
