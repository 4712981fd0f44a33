"""Processes over the control socket: life, limits, and the end of whole trees."""

import base64
import os
import pathlib
import signal
import time

import harness
from harness import TALKER, Home, RpcError, Skip, until


def terminal(rpc, process):
    ends = [e for e in rpc.events(processId=process) if e["type"] in harness.TERMINAL]
    assert len(ends) == 1, ends
    return ends[0]


def test_one_command_writes_its_events_in_order(home):
    with home.rpc() as rpc:
        started, end = rpc.run(["sh", "-c", "echo hello; echo there >&2; exit 3"])
        assert started["status"] == "running"
        assert {"processId", "sessionId", "threadId", "turnId", "decision", "sandboxProfile", "outputRefs"} <= set(started), started
        assert (end["status"], end["exitCode"], end["timedOut"]) == ("completed", 3, False), end
        assert end["durationMs"] >= 0 and end["usage"]["maxRssBytes"] > 0
        assert end["outputs"]["stdout"]["bytes"] == 6 and end["outputs"]["stdout"]["preview"] == "hello\n", end["outputs"]
        assert rpc.outputs(started["processId"]) == {"stdout": b"hello\n", "stderr": b"there\n"}
        types = [e["type"] for e in rpc.events(sessionId=started["sessionId"])]
        order = ["session.created", "thread.started", "turn.submitted", "turn.started", "permission.evaluated", "sandbox.applied",
                 "process.started", "process.output", "process.completed", "turn.failed"]
        assert [t for t in types if t in order and t != "process.output"] == [t for t in order if t != "process.output"], types
        record = rpc.call("get_process", processId=started["processId"])
        assert record["status"] == "completed" and record["exitCode"] == 3 and record["command"][0] == "sh", record
        assert record["startedAt"] <= record["endedAt"]


def test_command_line_runs_in_a_shell(home):
    with home.rpc() as rpc:
        started, end = rpc.run("echo a | tr a b")
        assert end["exitCode"] == 0 and rpc.outputs(started["processId"])["stdout"] == b"b\n"
        rpc.fails("start_process", {}, code=-32602)
        rpc.fails("start_process", {"command": ["true"], "commandLine": "true"}, code=-32602)
        rpc.fails("start_process", {"command": []}, code=-32602)


def test_permission_event_describes_subcommands_paths_and_harm(home):
    def judged(rpc, command):
        started, _ = rpc.run(command)
        fact = [e for e in rpc.events(processId=started["processId"]) if e["type"] == "permission.evaluated"][0]["payload"]
        return fact["permissionDecision"], fact["command"]

    with home.rpc() as rpc:
        decision, command = judged(rpc, "false && rm -rf /usr; echo x | cat")
        assert decision["destructive"] is True and decision["impact"] and decision["rollbackAdvice"], decision
        assert [c["text"] for c in command["subcommands"]] == ["false", "rm -rf /usr", "echo x", "cat"], command
        assert command["subcommands"][1]["harm"] == "catastrophic" and not command["readOnly"], command
        assert {"path": "/usr", "access": "delete", "recursive": True, "outside": True} in command["paths"], command
        decision, command = judged(rpc, ["sh", "-c", "false && curl https://example.com:444/x"])
        assert decision["destructive"] is False and "impact" not in decision, decision
        assert command["subcommands"][2]["wrappers"] == ["sh"], command
        assert command["network"] == [{"host": "example.com", "port": 444, "intent": "download"}], command
        assert judged(rpc, "ls; pwd")[1]["readOnly"] is True
        command = judged(rpc, "X=true; $X")[1]
        assert command["unknown"] == ["commandName"] and command["subcommands"][0]["unknown"] == ["commandName"], command
        assert judged(rpc, "echo '")[1]["syntaxError"].startswith("1:7"), command


def test_failed_start_is_reported(home):
    with home.rpc() as rpc:
        for params, stage in (({"command": ["/no/such/program"]}, "exec"), ({"command": ["true"], "cwd": "/no/such/dir"}, "cwd")):
            error = rpc.fails("start_process", params)
            assert error.data.get("stage") == stage, error.data
            assert "errno" in error.data or "errnoName" in error.data, error.data
        failed = [e for e in rpc.events() if e["type"] == "process.failed"]
        assert [e["payload"]["category"] for e in failed] == ["spawn", "spawn"], failed
        harness.check_log(rpc.events())


def test_unknown_profile_or_missing_hosts_are_rejected(home):
    with home.rpc() as rpc:
        for params in ({"profile": "nosuch"}, {"sandbox": {"network": "allow"}}):
            rpc.fails("start_process", dict(params, command=["true"]))
        assert not [e for e in rpc.events() if e["type"] == "process.started"]


def test_wait_with_a_timeout_returns_early(home):
    with home.rpc() as rpc:
        process = rpc.start(["sleep", "1000"])["processId"]
        assert rpc.call("wait_process", processId=process, timeoutMs=50)["timedOut"] is True
        assert rpc.call("wait_process", processId=process, timeoutMs=0)["timedOut"] is True
        rpc.call("terminate_process", processId=process)
        end = rpc.wait(process)
        assert end["status"] == "terminated" and end["signal"] in (15, "TERM", "SIGTERM"), end


def test_stdin_can_be_written_and_closed(home):
    with home.rpc() as rpc:
        process = rpc.start(["cat"], stdin="pipe")["processId"]
        assert rpc.call("write_process_stdin", processId=process, data="héllo\n")["bytes"] == 7
        raw = bytes(range(256)) * 4000
        assert rpc.call("write_process_stdin", processId=process, data=base64.b64encode(raw).decode(), encoding="base64")["bytes"] == len(raw)
        rpc.call("close_process_stdin", processId=process)
        assert rpc.wait(process)["exitCode"] == 0
        assert rpc.outputs(process)["stdout"] == "héllo\n".encode() + raw
        kinds = [e["payload"]["kind"] for e in rpc.events(processId=process) if e["type"] == "process.input"]
        assert kinds == ["data", "data", "eof"], kinds
        rpc.fails("write_process_stdin", {"processId": process, "data": "x"})
        rpc.fails("write_process_stdin", {"processId": process, "data": "***", "encoding": "base64"}, code=-32602)


def test_stdin_none_is_empty(home):
    with home.rpc() as rpc:
        process = rpc.start(["cat"])["processId"]
        assert rpc.wait(process)["exitCode"] == 0
        process = rpc.start(["sleep", "1000"])["processId"]
        rpc.fails("write_process_stdin", {"processId": process, "data": "x"})
        rpc.call("terminate_process", processId=process)


def test_write_to_a_process_that_does_not_read_blocks_no_other_client(home):
    with home.rpc() as rpc, home.rpc() as other:
        process = rpc.start(["sleep", "1000"], stdin="pipe")["processId"]
        assert "at once" in rpc.fails("write_process_stdin", {"processId": process, "data": "x" * ((8 << 20) + 1)}, code=-32602).message
        waiting = rpc.send("write_process_stdin", processId=process, data="x" * (8 << 20))
        other.call("get_health")
        other.call("terminate_process", processId=process)
        try:
            rpc.reply(waiting)
        except RpcError:
            pass
        assert other.wait(process)["status"] == "terminated"


def test_stderr_can_be_merged_into_stdout(home):
    with home.rpc() as rpc:
        started, _ = rpc.run("echo a; echo b >&2; echo c", stderr="merge")
        assert rpc.outputs(started["processId"]) == {"stdout": b"a\nb\nc\n"}


def test_standard_streams_can_be_opened_by_name(home):
    with home.rpc() as rpc:
        started, end = rpc.run("echo x >/dev/stderr; echo y >/dev/stdout")
        assert end["exitCode"] == 0, rpc.outputs(started["processId"])
        assert rpc.outputs(started["processId"]) == {"stdout": b"y\n", "stderr": b"x\n"}


def test_environment_is_the_requested_one(home):
    with home.rpc() as rpc:
        started, _ = rpc.run(["env"], env={"A": "1", "PATH": None, "B": "x=y"})
        lines = rpc.outputs(started["processId"])["stdout"].decode().splitlines()
        assert "A=1" in lines and "B=x=y" in lines and not any(x.startswith("PATH=") for x in lines), lines
        assert not any(x.startswith("BAILIFF") for x in lines), lines
        for bad in ({"": "1"}, {"A=B": "1"}, {"A": 5}):
            rpc.fails("start_process", {"command": ["true"], "env": bad}, code=-32602)


def test_command_starts_with_a_clean_process_state(home):
    """Own pid namespace with its own /proc, default signals, only the three standard descriptors, own session."""
    with home.rpc() as rpc:
        started, _ = rpc.run("ls /proc/self/fd; echo --; ls -d /proc/[0-9]*; echo --; grep -E 'SigIgn|SigBlk|NoNewPrivs' /proc/self/status")
        fds, pids, status = rpc.outputs(started["processId"])["stdout"].decode().split("--\n")
        assert set(fds.split()) <= {"0", "1", "2", "3"}, fds
        assert len(pids.split()) < 10, pids
        values = dict(line.split(":\t") for line in status.splitlines())
        assert int(values["SigBlk"], 16) == 0 and int(values["SigIgn"], 16) == 0, values
        assert values["NoNewPrivs"] == "1", values


def test_signals_can_be_sent(home):
    with home.rpc() as rpc:
        process = rpc.start("trap 'echo usr; exit 5' USR1; echo ready; while :; do sleep 0.02; done")["processId"]
        until("ready", lambda: b"ready" in rpc.outputs(process)["stdout"])
        for name in ("NOPE", "", "SIG", "99"):
            rpc.fails("signal_process", {"processId": process, "signal": name}, code=-32602)
        rpc.call("signal_process", processId=process, signal="USR1")
        assert rpc.wait(process)["exitCode"] == 5
        assert [e["payload"].get("signal") for e in rpc.events(processId=process) if e["type"] == "process.input"] != []
        rpc.fails("signal_process", {"processId": process, "signal": "TERM"}, code=-32015)


def test_command_that_kills_itself_is_completed(home):
    with home.rpc() as rpc:
        _, end = rpc.run("kill -SEGV $$")
        assert end["status"] == "completed" and end.get("exitCode") is None and end["signal"] in (11, "SEGV", "SIGSEGV"), end


def test_terminate_answers_after_the_whole_tree_is_gone(home):
    """Each kind of tree is gone when terminate_process answers."""
    with home.rpc() as rpc:
        for kind in ("plain", "setsid", "daemon", "ignore", "many"):
            mark = f"mark-{os.getpid()}-{kind}"
            process = rpc.start([TALKER, "hold", kind, mark])["processId"]
            until(f"{kind} is ready", lambda: b"ready" in rpc.outputs(process)["stdout"])
            assert harness.marked(mark)
            result = rpc.call("terminate_process", processId=process, graceMs=100)
            left = harness.marked(mark)
            assert not left, f"{kind}: {left} survive"
            event = terminal(rpc, process)
            assert event["type"] == "process.terminated" and event["payload"]["treeEmpty"] is True, event
            assert event["payload"]["reason"] == "user" and result["sequence"] >= event["sequence"]


def test_terminate_escalates_to_sigkill(home):
    with home.rpc() as rpc:
        process = rpc.start([TALKER, "hold", "ignore", "x"])["processId"]
        until("ready", lambda: b"ready" in rpc.outputs(process)["stdout"])
        rpc.call("terminate_process", processId=process, graceMs=50, reason="policy")
        end = terminal(rpc, process)["payload"]
        assert (end["reason"], end["cause"]) == ("policy", "user") and end["signal"] in (9, "KILL", "SIGKILL"), end


def test_a_stopped_process_ends_without_its_grace_time():
    """SIGTERM reaches a stopped process only with a SIGCONT."""
    with Home({"stopGraceMs": 600000}) as home, home.rpc() as rpc:
        sandbox = rpc.call("create_sandbox")["sandboxId"]
        for i, more in enumerate(({}, {"sandboxId": sandbox}, {"tty": {"rows": 24, "cols": 80}})):
            duration = f"1000.{os.getpid()}{i}"
            process = rpc.start(f"sleep {duration} & wait", **more)["processId"]
            until("shell and sleep run", lambda: len(harness.marked(duration)) == 2)
            rpc.call("signal_process", processId=process, signal="STOP")
            until("both are stopped", lambda: all(harness.stat_of(pid)[1] == "T" for pid in harness.marked(duration)))
            home.cli("kill", process)
            end = rpc.wait(process)
            assert (end["status"], end["signal"]) == ("terminated", "HUP" if "tty" in more else "TERM"), end


def test_terminate_twice_and_after_the_end(home):
    with home.rpc() as rpc:
        process = rpc.start([TALKER, "hold", "ignore", "x"])["processId"]
        until("ready", lambda: b"ready" in rpc.outputs(process)["stdout"])
        ids = [rpc.send("terminate_process", processId=process, graceMs=200) for _ in range(3)]
        for i in ids:
            try:
                rpc.reply(i)
            except RpcError as e:
                assert e.code == -32015, e
        rpc.fails("terminate_process", {"processId": process}, code=-32015)
        terminal(rpc, process)


def test_the_rest_of_the_tree_ends_with_the_command(home):
    with home.rpc() as rpc:
        mark = f"mark-{os.getpid()}-rest"
        started, end = rpc.run([TALKER, "left", mark])
        assert end["exitCode"] == 0
        until("nothing is left behind", lambda: not harness.marked(mark))
        assert terminal(rpc, started["processId"])["type"] == "process.completed"


def test_keep_tree_keeps_background_processes(home):
    """Background processes of the command continue, and the process ends with the last of them."""
    with home.rpc() as rpc:
        mark = f"mark-{os.getpid()}-keep"
        process = rpc.start([TALKER, "left", mark], keepTree=True)["processId"]
        until("the child is ready", lambda: b"ready" in rpc.outputs(process)["stdout"])
        assert harness.marked(mark) and rpc.call("get_process", processId=process)["status"] == "running"
        for pid in harness.marked(mark):
            os.kill(pid, signal.SIGKILL)
        end = rpc.wait(process)
        assert (end["status"], end["exitCode"]) == ("completed", 0), end


def test_kept_trees_end_with_terminate(home):
    with home.rpc() as rpc:
        mark = f"mark-{os.getpid()}-kept"
        process = rpc.start([TALKER, "left", mark], keepTree=True)["processId"]
        until("the child is ready", lambda: b"ready" in rpc.outputs(process)["stdout"])
        rpc.call("terminate_process", processId=process, graceMs=50)
        assert not harness.marked(mark)
        terminal(rpc, process)


def test_limits_outlive_the_runtime(home):
    with home.rpc() as rpc:
        process = rpc.start(["sleep", "1000"], limits={"wallMs": 1500})["processId"]
    home.kill_part("runtime")
    with home.rpc() as rpc:
        rpc.wait(process)
        assert terminal(rpc, process)["payload"]["limit"] == "wall"


def test_wall_idle_and_cpu_limits_end_a_process(home):
    with home.rpc() as rpc:
        for limit, command in (("wall", ["sleep", "1000"]), ("idle", ["sh", "-c", "echo x; sleep 1000"]), ("cpu", [TALKER, "spin"])):
            process = rpc.start(command, limits={limit + "Ms": 150})["processId"]
            end = rpc.wait(process)
            event = terminal(rpc, process)
            assert event["type"] == "process.failed" and event["status"] == "timed_out", event
            assert (event["payload"]["category"], event["payload"]["limit"]) == ("timeout", limit), event
            assert end["status"] == "failed", end
        turns = [e["status"] for e in rpc.events() if e["type"] == "turn.failed"]
        assert turns == ["timed_out"] * 3, turns


def test_idle_is_counted_from_the_last_output(home):
    with home.rpc() as rpc:
        _, end = rpc.run([TALKER, "talk", "1", "50", "100000", "0"], limits={"idleMs": 4000})
        assert end["status"] == "completed" and end["exitCode"] == 0, end


def test_stopped_runtime_reads_output_before_it_applies_limits(home):
    """Output while the runtime was stopped counts against idleness, and an end in the meantime was in time."""
    with home.rpc() as rpc:
        talking = [rpc.start([TALKER, "talk", "1", "60", "100000", "0"], limits={"idleMs": 3000})["processId"] for _ in range(40)]
        ended = rpc.start(["sleep", "0.2"], limits={"wallMs": 3500})["processId"]
        runtime = home.kill_part("runtime", signal.SIGSTOP)
        time.sleep(4)
        os.kill(runtime, signal.SIGCONT)
        for process in [ended, *talking]:
            end = rpc.wait(process)
            assert end["status"] == "completed" and end["exitCode"] == 0, end


def test_limits_kill_a_tree_that_ignores_them(home):
    with home.rpc() as rpc:
        mark = f"mark-{os.getpid()}-limit"
        process = rpc.start([TALKER, "hold", "ignore", mark], limits={"wallMs": 200})["processId"]
        rpc.wait(process)
        assert not harness.marked(mark)


def test_rlimits_apply_to_the_command(home):
    with home.rpc() as rpc:
        started, _ = rpc.run("ulimit -n", limits={"openFiles": 77})
        assert rpc.outputs(started["processId"])["stdout"] == b"77\n"
        started, end = rpc.run("head -c 100000 /dev/zero > f; ls -l f | awk '{print $5}'", cwd=home.work, limits={"fileBytes": 4096})
        assert rpc.outputs(started["processId"])["stdout"] == b"4096\n", rpc.outputs(started["processId"])


def limited(rpc, command, **more):
    """The terminal event of what a limit stopped, or None where trees cannot be limited: without root, and no cgroup delegated."""
    try:
        started, _ = rpc.run(command, profile="workspace", **more)
    except harness.RpcError as e:
        if "cgroup" in str(e) and "limits" in more:
            return None
        raise
    return terminal(rpc, started["processId"])


def test_each_limit_has_its_own_reason(home):
    forks = "import os, time\ntry:\n while True:\n  if os.fork() == 0: time.sleep(1000)\nexcept OSError: os._exit(9)\n"
    with home.rpc() as rpc:
        for limit, command, more in (
            ("memory", ["python3", "-c", "bytearray(300 << 20)"], {"limits": {"memoryBytes": 64 << 20}}),
            ("memory", "python3 -c 'bytearray(300 << 20)'; exit $?", {"limits": {"memoryBytes": 64 << 20}}),
            ("pids", ["python3", "-c", forks], {"limits": {"pids": 20}}),
            ("fileBytes", ["dd", "if=/dev/zero", "of=f", "bs=100000", "count=1"], {"limits": {"fileBytes": 4096}}),
            ("fileBytes", "head -c 100000 /dev/zero >f; exit $?", {"limits": {"fileBytes": 4096}}),
            ("tmpBytes", "head -c 3000000 /dev/zero >/tmp/f", {"sandbox": {"tmpBytes": 1 << 20}}),
            ("tmpBytes", "i=0; while : >/dev/shm/$i; do i=$((i+1)); done", {"sandbox": {"tmpBytes": 1 << 20}}),
        ):
            event = limited(rpc, command, cwd=home.work, **more)
            if not event:
                continue
            told = event["payload"]
            assert event["type"] == "process.failed" and (told["category"], told["limit"]) == ("sandbox", limit), (command, told)
            assert told["message"] and ("exitCode" in told or "signal" in told), told
        # A command that copes with the limit has not failed; that it reached the limit is still reported.
        event = limited(rpc, "head -c 3000000 /dev/zero >/tmp/f; exit 0", cwd=home.work, sandbox={"tmpBytes": 1 << 20})
        assert event["type"] == "process.completed" and event["payload"]["limitsHit"]["tmp"] == 1, event
        event = limited(rpc, "head -c 3000000 /dev/zero >/tmp/f; rm /tmp/f; exit 1", cwd=home.work, sandbox={"tmpBytes": 1 << 20})
        assert event["type"] == "process.completed" and event["payload"]["exitCode"] == 1, event


def test_init_does_not_count_for_the_pids_limit(home):
    with home.rpc() as rpc:
        event = limited(rpc, ["true"], cwd=home.work, limits={"pids": 1})
        if not event:
            raise Skip("no cgroup for limits of trees")
        assert event["type"] == "process.completed" and event["payload"]["exitCode"] == 0, event
        event = limited(rpc, "/bin/true; /bin/true", cwd=home.work, limits={"pids": 2})
        assert event["type"] == "process.completed" and event["payload"]["exitCode"] == 0, event


def test_on_disconnect_terminates_or_keeps_the_process(home):
    with home.rpc() as watcher:
        with home.rpc() as rpc:
            kept = rpc.start(["sleep", "1000"])["processId"]
            bound = rpc.start(["sleep", "1000"], onDisconnect="terminate")["processId"]
        watcher.wait(bound)
        event = terminal(watcher, bound)
        assert event["type"] == "process.terminated" and event["payload"]["reason"] == "client_gone", event
        assert watcher.call("get_process", processId=kept)["status"] == "running"
        watcher.call("terminate_process", processId=kept)


def test_list_processes_filters_and_pages(home):
    with home.rpc() as rpc:
        ids = [rpc.run(["true"])[0]["processId"] for _ in range(5)]
        live = rpc.start(["sleep", "1000"])["processId"]
        listed = rpc.call("list_processes")["processes"]
        assert [p["processId"] for p in listed] == [live] + ids[::-1]
        assert [p["processId"] for p in rpc.call("list_processes", status="running")["processes"]] == [live]
        seen, cursor = [], {}
        while True:
            page = rpc.call("list_processes", limit=2, **cursor)
            seen += [p["processId"] for p in page["processes"]]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert seen == [live] + ids[::-1], seen
        rpc.call("terminate_process", processId=live)


def test_unknown_ids_are_not_found(home):
    with home.rpc() as rpc:
        for method, params in (("get_process", {"processId": "proc_x"}), ("wait_process", {"processId": "proc_x"}),
                               ("signal_process", {"processId": "proc_x", "signal": "TERM"}),
                               ("terminate_process", {"processId": "proc_x"}), ("close_process_stdin", {"processId": "proc_x"}),
                               ("write_process_stdin", {"processId": "proc_x", "data": ""}), ("read_output", {"outputRef": "out_x"}),
                               ("start_process", {"command": ["true"], "sessionId": "sess_x"})):
            rpc.fails(method, params, code=-32004)
        assert not [e for e in rpc.events() if e["type"] == "process.started"]


def test_process_survives_the_death_of_runtime_and_spawner(home):
    with home.rpc() as rpc:
        ids = [rpc.start([TALKER, "talk", str(n), "60", "10000", str(n)])["processId"] for n in range(4)]
        sleeper = rpc.start(["sleep", "1000"])["processId"]
    home.kill_part("runtime")
    until("answers again", home.answers)
    home.kill_part("spawner")
    with home.rpc() as rpc:
        until("the spawner is back", lambda: home.part("spawner"))
        assert rpc.run("echo new")[1]["exitCode"] == 0
        for n, process in enumerate(ids):
            assert rpc.wait(process)["exitCode"] == n
            out = rpc.outputs(process)
            assert (out["stdout"], out["stderr"]) == harness.talker_output(n, 60)
        assert rpc.call("get_process", processId=sleeper)["status"] == "running"
        rebuilt = [e for e in rpc.events() if e["type"] == "history.reconstructed"]
        assert rebuilt and sleeper in [p["processId"] for p in rebuilt[-1]["payload"]["alive"]], rebuilt
        rpc.call("terminate_process", processId=sleeper)
        harness.check_log(rpc.events())


def test_process_that_ended_without_a_runtime_keeps_its_exit_status(home):
    """A command that ends while the runtime is down is distinguished from live ones, and its exit status is kept."""
    with home.rpc() as rpc:
        sleeper, dying = (rpc.start(["sleep", "1000"])["processId"] for _ in range(2))
        init = rpc.call("get_process", processId=dying)["pid"]
    home.kill_part("runtime", signal.SIGSTOP)
    for command in harness.children_of(init) or [init]:
        os.kill(command, signal.SIGUSR1)
    until("its init has ended", lambda: "\nState:\tZ" in pathlib.Path(f"/proc/{init}/status").read_text())
    home.kill_part("runtime")
    until("answers again", home.answers)
    with home.rpc() as rpc:
        ended = rpc.wait(dying)
        assert ended["signal"] == "USR1", ended
        found = [e["payload"] for e in rpc.events() if e["type"] == "history.reconstructed"][-1]
        assert [p["processId"] for p in found["exited"]] == [dying] and found["exitedCount"] == 1, found
        assert [p["processId"] for p in found["alive"]] == [sleeper] and found["lost"] == [] and not found["degraded"], found
        rpc.call("terminate_process", processId=sleeper)
        harness.check_log(rpc.events())


def test_all_processes_die_with_the_guard_and_are_lost(home):
    mark = f"mark-{os.getpid()}-guard"
    with home.rpc() as rpc:
        process = rpc.start([TALKER, "hold", "daemon", mark])["processId"]
        until("ready", lambda: b"ready" in rpc.outputs(process)["stdout"])
    home.note_tree()
    home.stop(signal.SIGKILL)
    until("the sandbox died with the guard", lambda: not harness.marked(mark))
    home.start()
    with home.rpc() as rpc:
        assert rpc.call("get_process", processId=process)["status"] == "lost"
        end = terminal(rpc, process)
        assert (end["type"], end["status"], end["payload"]["category"]) == ("process.failed", "lost", "transport"), end
        for method, more in (("write_process_stdin", {"data": "x"}), ("close_process_stdin", {}), ("signal_process", {"signal": "TERM"}), ("terminate_process", {})):
            refused = rpc.fails(method, {"processId": process, **more}, code=-32011)
            assert refused.data["outcome"] == "unknown" and not refused.data["retryable"], refused
            warning = [e for e in rpc.events(processId=process) if e["type"] == "runtime.warning"][-1]
            assert warning["payload"]["code"] == "process_lost" and warning["payload"]["request"] == method, warning
        assert rpc.outputs(process)["stdout"] == b"ready\n"


if __name__ == "__main__":
    harness.main(globals())
