"""The daemon itself: configuration, one daemon per home, signals, upgrades."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile

import harness
from harness import TALKER, Home, until


def rejected_config(config):
    """The message of bailiffd about a configuration that it must reject."""
    with Home(config, start=False) as home:
        guard = home.spawn()
        status = guard.wait(harness.PATIENCE)
        home.guard = None
        assert status != 0, "it should not start"
        return "".join(home.log())


def test_config_errors_name_the_key():
    for config, word in (('{"stopGraceMs": "soon"}', "stopGraceMs"), ('{"noSuchKey": 1}', "noSuchKey"), ('{"stopGraceMs": -1}', "stopGraceMs"),
                         ('{"maxProcesses": 0}', "maxProcesses"), ('{"inlineBytes": 1e9}', "inlineBytes"), ('{"schemaVersion": 5}', "schemaVersion"),
                         ('{"approvers": {"uids": ["x"]}}', "approvers"), ("{nonsense", "config"), ("[]", "config")):
        said = rejected_config(config)
        assert word in said, f"{config}: {said}"


def test_configuration_takes_effect():
    with Home({"stopGraceMs": 100, "schemaVersion": "lime-profile-0.4.0", "maxProcesses": 3}) as home, home.rpc() as rpc:
        ids = [rpc.start(["sleep", "1000"])["processId"] for _ in range(3)]
        rpc.fails("start_process", {"command": ["true"]}, code=-32012)
        rpc.call("terminate_process", processId=ids[0])
        assert rpc.run(["true"])[1]["exitCode"] == 0


def test_second_daemon_of_a_home_does_not_start(home):
    done = subprocess.run([harness.DAEMON, "--foreground", "--home", home.dir], env=harness.environment(), capture_output=True,
                          timeout=harness.PATIENCE, cwd="/")
    assert done.returncode != 0 and home.dir.encode() in done.stderr, done
    assert home.answers()


def sleeps(pid):
    """The number of its voluntary context switches."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("voluntary_ctxt_switches:"))
    return 0


def test_start_waits_for_the_lock_of_a_dead_guard():
    """A child of the guard inherits the lock and holds it until its exec."""
    with Home(start=False) as home, open(os.path.join(home.dir, "bailiffd.pid"), "w") as left:
        left.write("4194304\n")     # no process can have that
        left.flush()
        fcntl.flock(left, fcntl.LOCK_EX)
        guard = home.spawn()
        until("it looks again and again", lambda: guard.poll() is not None or sleeps(guard.pid) > 40)
        assert guard.poll() is None and not home.answers(), home.log()
        fcntl.flock(left, fcntl.LOCK_UN)
        until("the daemon answers", lambda: guard.poll() is not None or home.answers())
        assert guard.poll() is None, home.log()


def test_bad_options_are_named_in_the_error():
    for args in (["--nonsense"], ["--home"], ["--config", "/no/such/file", "--home", "/tmp/x-none"], ["--log-format", "xml"]):
        done = subprocess.run([harness.DAEMON, "--foreground", *args], env=harness.environment(), capture_output=True, timeout=harness.PATIENCE)
        assert done.returncode != 0 and (args[0].encode() in done.stderr or args[-1].encode() in done.stderr), (args, done)


def test_process_titles_name_the_parts(home):
    assert harness.command_of(home.guard.pid).startswith("bailiffd: guard"), harness.command_of(home.guard.pid)
    for name in ("runtime", "spawner"):
        until(f"{name} has its title", lambda: home.part(name))


def test_the_runtime_has_no_privileges(home):
    with open(f"/proc/{home.part('runtime')}/status") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    assert int(status["CapEff"], 16) == 0 and int(status["CapPrm"], 16) == 0, status["CapEff"]
    assert status["NoNewPrivs"] == "1", status["NoNewPrivs"]


def test_sigterm_ends_processes_and_records_their_ends():
    mark = f"mark-{os.getpid()}-term"
    with Home({"stopGraceMs": 5000}) as home:    # the command that ignores SIGTERM needs the whole grace period
        with home.rpc() as rpc:
            polite = rpc.start("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.02; done")["processId"]
            stubborn = rpc.start([TALKER, "hold", "ignore", mark])["processId"]
            for process in (polite, stubborn):
                until("ready", lambda p=process: b"ready" in rpc.outputs(p)["stdout"])
        home.stop()
        assert not harness.marked(mark)
        home.start()
        with home.rpc() as rpc:
            for process in (polite, stubborn):
                ends = [e for e in rpc.events(processId=process) if e["type"] in harness.TERMINAL]
                assert len(ends) == 1 and ends[0]["type"] == "process.terminated", ends
                assert ends[0]["payload"]["reason"] == "shutdown", ends
            assert rpc.outputs(polite)["stdout"] == b"ready\nbye\n"
            assert rpc.call("verify_store")["ok"] is True


def test_sighup_does_not_disturb_running_commands(home):
    with home.rpc() as rpc:
        process = rpc.start(["cat"], stdin="pipe")["processId"]
        parts = (home.part("runtime"), home.part("spawner"))
        home.guard.send_signal(signal.SIGHUP)
        assert rpc.run(["true"])[1]["exitCode"] == 0
        rpc.call("close_process_stdin", processId=process)
        assert rpc.wait(process)["exitCode"] == 0
        assert (home.part("runtime"), home.part("spawner")) == parts and home.guard.poll() is None


def test_upgrade_in_place_keeps_commands_running(home):
    with home.rpc() as rpc:
        process = rpc.start([TALKER, "talk", "21", "80", "10000", "9"])["processId"]
        held = rpc.start(["cat"], stdin="pipe")["processId"]
    runtime, spawner = home.part("runtime"), home.part("spawner")
    home.guard.send_signal(signal.SIGUSR2)
    until("both are new", lambda: home.part("runtime") not in (None, runtime) and home.part("spawner") not in (None, spawner))
    until("it answers", home.answers)
    with home.rpc() as rpc:
        assert rpc.wait(process)["exitCode"] == 9
        out = rpc.outputs(process)
        assert (out["stdout"], out["stderr"]) == harness.talker_output(21, 80)
        rpc.call("write_process_stdin", processId=held, data="still here")
        rpc.call("close_process_stdin", processId=held)
        assert rpc.wait(held)["exitCode"] == 0 and rpc.outputs(held)["stdout"] == b"still here"
        assert rpc.run("echo new")[1]["exitCode"] == 0
        harness.check_log(rpc.events())
        assert rpc.call("verify_store")["ok"] is True


def test_output_survives_a_change_of_the_inline_limit():
    """Where a stream is stored was decided under the old limit."""
    for before, after in ((256, 16384), (16384, 256)):
        with Home({"inlineBytes": before}) as home:
            with home.rpc() as rpc:
                process = rpc.start(["sh", "-c", "seq 1000; cat; seq 5"], stdin="pipe")["processId"]
                until("its output is recorded", lambda: len(rpc.outputs(process).get("stdout", b"")) == 3893)
            runtime = home.part("runtime")
            home.configure({"inlineBytes": after})
            home.guard.send_signal(signal.SIGUSR2)
            until("the runtime is new", lambda: home.part("runtime") not in (None, runtime))
            until("it answers", home.answers)
            with home.rpc() as rpc:
                if before < after:
                    rpc.call("terminate_process", processId=process, graceMs=0)
                else:
                    rpc.call("close_process_stdin", processId=process)
                rpc.wait(process)
                expected = "".join(f"{n}\n" for n in list(range(1, 1001)) + ([] if before < after else [1, 2, 3, 4, 5]))
                assert rpc.outputs(process)["stdout"].decode() == expected
                assert rpc.call("verify_store")["ok"] is True


def test_restarted_parts_have_the_version_of_the_running_daemon():
    """Program files that are replaced under a running daemon are not used by it, not even for a part that is restarted."""
    with tempfile.TemporaryDirectory(prefix="bl-programs-") as folder, Home(start=False) as home:
        for name in os.listdir(harness.BUILD):
            path = os.path.join(harness.BUILD, name)
            if name.startswith("bailiff") and os.path.isfile(path) and os.access(path, os.X_OK):
                shutil.copy(path, folder)
        daemon, harness.DAEMON = harness.DAEMON, os.path.join(folder, "bailiffd")
        try:
            home.start()
        finally:
            harness.DAEMON = daemon
        for name in os.listdir(folder):
            shutil.copy("/bin/false", os.path.join(folder, "new"))
            os.rename(os.path.join(folder, "new"), os.path.join(folder, name))
        for part in ("spawner", "runtime"):
            old = home.kill_part(part)
            until(f"another {part} runs", lambda: home.part(part) not in (None, old))
            with home.rpc() as rpc:
                assert rpc.run("echo new")[1]["exitCode"] == 0


def test_files_of_the_home_are_private(home):
    for path, _, names in os.walk(home.dir):
        if path.startswith(home.work):
            continue
        for name in names:
            try:
                mode = os.lstat(os.path.join(path, name)).st_mode & 0o777
            except FileNotFoundError:
                continue
            assert name == "log" or mode & 0o077 == 0 or os.stat(path).st_mode & 0o077 == 0, (path, name, oct(mode))
    assert os.path.isdir(os.path.join(home.dir, "store")) and os.path.isdir(os.path.join(home.dir, "spool"))


def test_log_format_json():
    with Home(start=False) as home:
        done = subprocess.Popen([harness.DAEMON, "--foreground", "--home", home.dir, "--log-format", "json", "-v", "--audit", "off"],
                                env=harness.environment(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/")
        until("it answers", home.answers)
        done.terminate()
        for line in done.communicate(timeout=harness.PATIENCE)[1].splitlines():
            json.loads(line)
        assert done.returncode == 0


def test_clients_wait_during_a_restart_of_the_runtime(home):
    home.kill_part("runtime")
    with home.rpc() as rpc:
        assert rpc.run(["true"])[1]["exitCode"] == 0


def test_requests_of_a_killed_spawner_are_repeated_to_the_next(home):
    """A start in a folder that is new to the daemon waits for its policy files; in a known folder it waits for the sandbox."""
    with home.rpc() as rpc:
        for part in ("the look", "the start", "the look of a turn"):
            tree = os.path.join(home.work, "known" if part == "the start" else part)
            os.makedirs(tree, exist_ok=True)
            if part == "the start":
                rpc.run(["true"], cwd=tree)
            spawner = home.kill_part("spawner", signal.SIGSTOP)
            if part == "the look of a turn":
                request = rpc.send("submit_turn", input=[{"type": "command", "commandLine": "echo there"}], options={"cwd": tree})
            else:
                request = rpc.send("start_process", commandLine="echo there", cwd=tree)
            rpc.call("get_health")      # so the request was accepted
            os.kill(spawner, signal.SIGKILL)
            if part == "the look of a turn":
                turn = rpc.reply(request)["turnId"]
                process = until("it runs", lambda: [e for e in rpc.events(turnId=turn) if e["type"] == "process.started"])[0]["processId"]
            else:
                process = rpc.reply(request)["processId"]
            assert rpc.wait(process)["exitCode"] == 0 and rpc.outputs(process)["stdout"] == b"there\n", part


def test_descriptors_do_not_leak(home):
    def count():
        return [len(os.listdir(f"/proc/{p}/fd")) for p in (home.guard.pid, home.part("runtime"), home.part("spawner"))]
    with home.rpc() as rpc:
        for _ in range(5):
            rpc.run("echo warm; echo up >&2", stdin="pipe")
        before = count()
        for _ in range(160):
            rpc.run("echo warm; echo up >&2", stdin="pipe")
            rpc.fails("start_process", {"command": ["/no/such/program"]})
        # When idle, the spawner prebuilds 8 network namespaces (7 descriptors each) and at most 8 kinds of sandboxes, 2 of each (3 descriptors
        # each); a leak would be 160 or more.
        until("hardly more descriptors than before", lambda: all(a <= b + 8 * 7 + 8 * 2 * 3 for a, b in zip(count(), before)))


def test_doctor_names_the_home_and_top_succeeds(home):
    done = home.cli("doctor", status=None)
    assert home.dir in done.text, done.text
    top = home.cli("top", status=None)
    assert top.status == 0, top.err


def test_stop_right_after_start_kills_no_part(home):
    for _ in range(8):
        home.restart()
    assert not [line for line in home.log() if "killed by signal" in line], home.log()


if __name__ == "__main__":
    harness.main(globals())
