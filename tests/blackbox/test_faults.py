"""System calls that rarely fail, failing: nothing is lost silently, nothing hangs, nothing crashes."""

import contextlib
import os
import signal

import harness
from faults import Faults
from harness import Home, until

# Freed memory is overwritten, so that a use after free is detected.
POISON = {"MALLOC_PERTURB_": "165"}


def test_stop_with_a_broken_disk_is_orderly():
    """Requests whose events cannot be written are still open: each is rejected before its owner is freed."""
    with Faults() as faults, Home(env=dict(faults.env, **POISON)) as home:
        with home.rpc() as rpc:
            runs = [rpc.run(["sh", "-c", f"echo {i} >f{i}"], cwd=home.work, cow=True)[0]["processId"] for i in range(4)]
            assert all(rpc.call("list_changes", processId=p)["changes"] for p in runs)
            home.kill_part("spawner", signal.SIGSTOP)
            asked = rpc.call("get_health")["store"]["lastSequence"]
            for process in runs:
                rpc.send("discard_changes", {"processId": process})
            until("they are asked for", lambda: rpc.call("get_health")["store"]["lastSequence"] >= asked + len(runs))
            for call in ("fdatasync", "fsync", "pwrite"):
                faults.fail(call, "runtime", "EIO", count=-1)
            home.kill_part("spawner", signal.SIGCONT)
            until("what was done cannot be recorded", lambda: rpc.call("get_health")["store"]["queuedBatches"] >= len(runs))
            home.stop(expect=False)
        log = "".join(home.log())
        assert "killed by signal" not in log and "ERROR: AddressSanitizer" not in log, log
        faults.heal()
        home.start()
        with home.rpc() as rpc:
            assert rpc.call("verify_store")["ok"] is True


LINES = 25
PRINTS = ["sh", "-c", f"i=0; while [ $i -lt {LINES} ]; do echo line $i of some; i=$((i+1)); done"]
PRINTED = "".join(f"line {i} of some\n" for i in range(LINES)).encode()
SPAWNER_LINK = 4    # GUARD_FD_PEER, in the runtime and in the spawner


def killed(home):
    return [line for line in home.log() if "killed by signal" in line and "spawner" not in line]


def runs(rpc):
    started, result = rpc.run(PRINTS)
    assert result["status"] == "completed" and result["exitCode"] == 0, result
    assert result["outputs"]["stdout"]["bytes"] == len(PRINTED) and not result["outputs"]["stdout"]["truncated"], result
    assert rpc.outputs(started["processId"])["stdout"] == PRINTED


def test_starts_are_answered_after_a_failed_receive_from_the_spawner():
    """A transient ENOMEM, a message without its descriptors, and a permanent error: starts are answered in all cases."""
    for error, count, another in (("ENOMEM", 3, False), (0, 1, True), ("EIO", 1, True)):
        with Faults() as faults, Home(env=faults.env) as home, home.rpc() as rpc:
            runs(rpc)
            spawner = home.part("spawner")
            faults.fail("recvmsg", "runtime", error, count=count, fd=SPAWNER_LINK)
            runs(rpc)
            faults.until_done("recvmsg")
            if another:
                until("there is another spawner", lambda: home.part("spawner") not in (None, spawner))
            until("all is well", lambda: rpc.call("get_health")["status"] == "ok")
            assert rpc.call("get_health")["spawner"] == "ok"
            runs(rpc)
            assert not killed(home), home.log()


def test_request_is_answered_if_the_spawner_cannot_send_its_reply():
    """The spawner exits, and the request that waits for it is answered: a start, and an apply of changes."""
    with Faults() as faults, Home(env=faults.env) as home, home.rpc() as rpc:
        changed = rpc.run(["sh", "-c", "echo new >>file"], cwd=home.work, cow=True)[0]["processId"]
        for method, params in (("start_process", {"command": ["true"]}), ("apply_changes", {"processId": changed})):
            faults.fail("sendmsg", "spawner", "ETOOMANYREFS", fd=SPAWNER_LINK)
            request = rpc.send(method, params)
            with contextlib.suppress(harness.RpcError):
                rpc.reply(request)
            faults.until_done("sendmsg")
            until("all is well", lambda: rpc.call("get_health")["spawner"] == "ok")
            runs(rpc)
        with contextlib.suppress(harness.RpcError):     # it may be applied already
            rpc.call("apply_changes", processId=changed)
        with open(os.path.join(home.work, "file")) as f:
            assert f.read() == "new\n"


def test_health_reports_a_missing_spawner(home):
    """Until there is another spawner; a stopped guard does not start one."""
    with home.rpc() as rpc:
        assert rpc.call("get_health")["spawner"] == "ok"
        home.guard.send_signal(signal.SIGSTOP)
        try:
            home.kill_part("spawner")
            until("health tells", lambda: rpc.call("get_health")["spawner"] == "restarting")
            assert rpc.call("get_health")["status"] == "degraded"
        finally:
            home.guard.send_signal(signal.SIGCONT)
        until("there is another", lambda: rpc.call("get_health")["spawner"] == "ok")
        runs(rpc)


def test_output_that_cannot_be_watched_is_not_lost():
    """epoll_ctl fails for a command's pipe, or for its status socket and pidfd: never completed with less than was printed."""
    for link in ("pipe:", "anon_inode:", "socket:"):
        with Faults() as faults, Home(env=faults.env) as home:
            with home.rpc() as rpc:
                runs(rpc)
                faults.fail("epoll_ctl", "runtime", "ENOMEM", link=link)
                request = rpc.send("start_process", {"command": PRINTS, "idempotencyKey": "once"})
                faults.until_done("epoll_ctl")
                del request
            with home.rpc() as rpc:
                process = rpc.call("start_process", command=PRINTS, idempotencyKey="once")["processId"]
                result = rpc.wait(process)
                assert result["status"] == "completed" and result["outputs"]["stdout"]["bytes"] == len(PRINTED), (link, result)
                assert rpc.outputs(process)["stdout"] == PRINTED
                runs(rpc)
            assert any("cannot watch descriptor" in line for line in home.log()), home.log()


def test_output_that_cannot_be_read_is_not_lost():
    """Small output is copied from the spool into the database. If it cannot be read it stays in the spool, and the commit reads it again."""
    with Faults() as faults, Home(env=faults.env) as home:
        with home.rpc() as rpc:
            runs(rpc)
            for skip in range(3):
                faults.fail("pread", "runtime", "EIO", link=os.path.realpath(home.dir) + "/spool", skip=skip)
                runs(rpc)
            faults.heal()
            assert rpc.call("verify_store")["ok"] is True
        assert not killed(home), home.log()


def test_the_end_of_a_command_that_cannot_be_received_is_not_lost():
    """A transient ENOMEM at each of the messages about a command; a command in a session sandbox has no pidfd that reports its end."""
    with Faults() as faults, Home(env=faults.env) as home, home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        for more in ({}, {"sandboxId": "session", "sessionId": session}):
            for skip in range(6):
                faults.fail("recv", "runtime", "ENOMEM", skip=skip)
                ended = rpc.run(["true"], cwd=home.work, **more)[1]
                assert ended["status"] == "completed", (more, skip, ended)
        assert not killed(home), home.log()


def test_command_is_killed_if_its_gate_cannot_be_opened():
    """The byte that opens the gate cannot be written. A transient failure has no effect; after a lasting one the command is killed."""
    with Faults() as faults, Home(env=faults.env) as home, home.rpc() as rpc:
        session = rpc.call("create_session")["sessionId"]
        rpc.run(["true"], sandboxId="session", sessionId=session, cwd=home.work)
        faults.fail("write", "runtime", "ENOMEM", link="pipe:", count=3)
        runs(rpc)
        faults.until_done("write")
        for more in ({}, {"sandboxId": "session", "sessionId": session, "cwd": home.work}):
            faults.fail("write", "runtime", "ENOMEM", link="pipe:", count=-1)
            with contextlib.suppress(harness.RpcError):
                ended = rpc.run(["true"], **more)[1]
                assert ended.get("exitCode") != 0, ended
            faults.heal()
            runs(rpc)


def test_changes_that_cannot_be_listed_are_not_applied_silently():
    """A folder of the overlay cannot be read, then its subfolder: unread changes are not reported as applied and are still there."""
    with Faults() as faults, Home(env=faults.env) as home, home.rpc() as rpc:
        for skip in range(3):
            process = rpc.run(["sh", "-c", f"mkdir -p d{skip} && echo x > d{skip}/f"], cwd=home.work, cow=True)[0]["processId"]
            file = os.path.join(home.work, f"d{skip}", "f")
            faults.fail("readdir", "spawner", "EIO", count=-1, skip=skip)
            with contextlib.suppress(harness.RpcError):
                applied = rpc.call("apply_changes", processId=process)
                assert applied["conflicts"] or os.path.exists(file), (skip, applied)
            faults.heal()
            if not os.path.exists(file):
                assert not rpc.call("apply_changes", processId=process)["conflicts"]
            assert os.path.exists(file), skip


def test_spawner_killed_at_its_start_does_not_disable_cgroups():
    """It is killed while its first child still probes for cgroups: the next spawner finds the cgroup of that child in use."""
    if os.geteuid() != 0:
        raise harness.Skip("requires root: a plain user may have no cgroups")
    with Home(start=False) as home:
        report = os.path.join(home.dir, "nth")
        home.through = os.path.join(harness.BUILD, "nth"), report, "spawner wait4 1 kill", "spawner exit_group 1 delay 3000", "--"
        home.start()
        with home.rpc() as rpc:
            assert rpc.run(["true"])[1]["status"] == "completed"
            applied, = (e["payload"] for e in rpc.events(types=["sandbox.applied"]))
            assert applied["layers"]["cgroup"] == "enforced", applied["layers"]
        with open(report) as f:
            assert f.read().count("fired ") == 2


def test_transient_error_reading_the_policy_is_retried():
    """ENOMEM is no statement about the file: the read is repeated; if that fails, too, the client gets a retryable error, not a denial."""
    with Faults() as faults, Home(env=faults.env) as home, home.rpc() as rpc:
        assert rpc.run(["true"], cwd=home.work)[1]["status"] == "completed"
        os.mkdir(os.path.join(home.work, ".bailiff"))
        faults.fail("bailiff-policy", "spawner", "ENOMEM")    # the memfd that has its text
        with open(os.path.join(home.work, ".bailiff", "policy.json"), "w") as f:
            f.write('{"permissions": {"deny": ["Bash(false)"]}}')
        assert rpc.run(["true"], cwd=home.work)[1]["status"] == "completed"
        faults.until_done("bailiff-policy")
        rpc.fails("start_process", command=["false"], cwd=home.work)
        faults.fail("bailiff-policy", "spawner", "ENOMEM", count=-1)
        os.utime(f.name)
        error = rpc.fails("start_process", command=["true"], cwd=home.work)
        assert error.data["category"] == "unavailable" and error.data["retryable"] is True, error
        faults.heal()

        def runs_again():
            with contextlib.suppress(harness.RpcError):
                return rpc.run(["true"], cwd=home.work)[1]["status"] == "completed"
        until("the policy is read again", runs_again)
        rpc.fails("start_process", command=["false"], cwd=home.work)


def test_failed_event_loop_is_a_crash_and_commands_survive():
    """The commands keep running, and another runtime takes over."""
    with Faults() as faults, Home(env=faults.env) as home:
        with home.rpc() as rpc:
            live = rpc.start(["cat"], stdin="pipe")["processId"]
            runtime = home.part("runtime")
            faults.fail("epoll_wait", "runtime", "EINVAL")
            until("its loop has failed", lambda: faults.done("epoll_wait") or home.answers() and None)
        until("there is another runtime", lambda: home.guard.poll() is not None or home.part("runtime") not in (None, runtime))
        assert home.guard.poll() is None, home.log()
        with home.rpc() as rpc:
            rpc.call("write_process_stdin", processId=live, data="still here")
            rpc.call("close_process_stdin", processId=live)
            assert rpc.wait(live)["exitCode"] == 0
            assert rpc.outputs(live)["stdout"] == b"still here"


def test_guard_survives_a_failed_poll():
    with Faults() as faults, Home(env=faults.env) as home, home.rpc() as rpc:
        live = rpc.start(["cat"], stdin="pipe")["processId"]
        faults.fail("poll", "guard", "ENOMEM", count=3)
        runs(rpc)
        faults.until_done("poll")
        runs(rpc)
        rpc.call("close_process_stdin", processId=live)
        assert rpc.wait(live)["exitCode"] == 0 and home.guard.poll() is None, home.log()


def test_a_stop_has_a_deadline():
    """The end of a command cannot be recorded, so the runtime does not exit on its own: the guard ends it."""
    mark = f"mark-{os.getpid()}-deadline"
    with Faults() as faults, Home({"stopGraceMs": 100}, env=faults.env) as home:
        with home.rpc() as rpc:
            rpc.start([harness.TALKER, "hold", "ignore", mark])
            until("it runs", lambda: harness.marked(mark))
            for call in ("fdatasync", "fsync", "pwrite"):
                faults.fail(call, "runtime", "EIO", count=-1)
            assert home.stop(expect=False) == 1
        assert any("did not stop in time" in line for line in home.log()), home.log()
        assert not harness.marked(mark)
        faults.heal()
        home.start()
        with home.rpc() as rpc:
            assert rpc.call("verify_store")["ok"] is True


def test_nothing_is_acknowledged_in_a_compacted_store_whose_name_is_not_durable():
    """A power loss would bring the old file back, and with it a log without the newer events."""
    with Faults() as faults, Home(env=faults.env) as home, home.rpc() as rpc:
        runs(rpc)
        # The copy and the folder are synced before the rename, the folder once more after it.
        faults.fail("fsync", "runtime", "EIO", count=-1, link=os.path.realpath(home.dir) + "/store", skip=2)
        assert "not durable" in rpc.fails("compact_store").message
        before = rpc.call("get_health")["store"]["lastSequence"]
        for _ in range(3):
            rpc.fails("start_process", {"command": ["true"]})
        assert rpc.call("get_health")["store"]["lastSequence"] == before
        faults.heal()
        until("it is durable after all", lambda: started(rpc))
        runs(rpc)
        assert rpc.call("verify_store")["ok"] is True


def started(rpc):
    with contextlib.suppress(harness.RpcError):
        return rpc.run(["true"])


def test_clock_that_jumps_ahead_prunes_nothing():
    """A daemon that starts with a clock a year ahead keeps its events, reports the clock, and continues when it is right again."""
    with Faults() as faults, Home(env=faults.env) as home:
        with home.rpc() as rpc:
            process = rpc.run(["echo", "kept"])[0]["processId"]
            assert rpc.call("get_health")["retention"] == {"state": "ok"}
        home.stop()
        faults.fail("clock", "runtime", 400 * 86400, count=-1)
        home.start()
        with home.rpc() as rpc:
            until("retention has read the clock", lambda: rpc.call("get_health")["retention"]["state"] == "waiting")
            retention = rpc.call("get_health")["retention"]
            assert retention["clockAheadMs"] > 399 * 86400 * 1000 and "prune" in retention["fix"], retention
            until("it is reported", lambda: [e for e in rpc.events() if e["payload"].get("code") == "retention_waits"])
            assert rpc.call("get_health")["store"]["firstSequence"] == 1
            assert rpc.outputs(process)["stdout"] == b"kept\n"
        home.stop()
        faults.heal()
        home.start()
        with home.rpc() as rpc:
            until("the clock is right again", lambda: rpc.call("get_health")["retention"] == {"state": "ok"})
            assert rpc.outputs(process)["stdout"] == b"kept\n"


def test_sessions_of_a_clock_that_was_ahead_expire_with_their_events():
    """By number; by age nothing is pruned until the clock has reached the time of their events."""
    with Faults() as faults, Home(env=faults.env, start=False) as home:
        faults.fail("clock", "runtime", 400 * 86400, count=-1)
        home.start()
        with home.rpc() as rpc:
            ahead = rpc.run(["true"])[0]
        home.stop()
        faults.heal()
        home.start()
        with home.rpc() as rpc:
            assert rpc.call("prune_store", olderThanMs=0)["sessions"] == 0
            rpc.run(["true"])
            result = rpc.call("prune_store", beforeSequence=rpc.call("get_health")["store"]["lastSequence"] + 1)
            assert result["sessions"] == 2, result
            rpc.fails("get_session", {"sessionId": ahead["sessionId"]}, code=-32004)
            assert rpc.call("verify_store")["ok"] is True


if __name__ == "__main__":
    harness.main(globals())
