#!/usr/bin/python3
"""Limits that cgroups enforce on a whole tree (sandbox/plan_limits.def), and what the kernel counted for it."""

import concurrent.futures
import json
import os
import re
import signal
import time

import harness
from harness import Skip, until

UNAVAILABLE = -32011
BUSY = ["timeout", "1.5", "sh", "-c", "while :; do :; done"]


def terminal(rpc, process):
    return next(e for e in reversed(rpc.events(processId=process)) if e["type"] in harness.TERMINAL)


def refused(rpc, **limits):
    """The error about a limit, with its name, the reason and a fix; None where it is enforced."""
    try:
        rpc.run(["true"], cwd=rpc.work, limits=limits)
    except harness.RpcError as e:
        (key,) = limits
        assert e.code == harness_code("unavailable"), (e.code, e.message)
        assert e.data["field"] == f"limits.{key}" and e.data["retryable"] is False and e.data["advice"], e.data
        assert e.message.startswith(f"limits.{key}: cannot be enforced here: "), e.message
        failed = terminal(rpc, e.data["processId"])
        assert failed["type"] == "process.failed" and failed["payload"]["stage"] == "limits", failed
        return e.message
    return None


def harness_code(name):
    return {"unavailable": UNAVAILABLE, "invalid": -32602, "denied": -32010}[name]


def cgroups():
    return {d for d, _, _ in os.walk("/sys/fs/cgroup")}


def client(home):
    rpc = home.rpc()
    rpc.work = home.work
    return rpc


def usage_of(rpc, command, **more):
    started, end = rpc.run(command, cwd=rpc.work, **more)
    return end, terminal(rpc, started["processId"])["payload"]


def assert_slowed(end, cpus):
    """The limit took effect, or the machine is so busy that the tree never got its share."""
    usage = end["usage"]
    share = (usage["userMs"] + usage["systemMs"]) / end["durationMs"]
    assert (usage.get("throttledPeriods", 0) > 0 and usage["throttledMs"] > 0) or share < cpus, end


def test_cpus_limits_the_cpu_time_of_the_tree(home):
    with client(home) as rpc:
        if refused(rpc, cpus=0.2):
            raise Skip("no cgroup limits the processors here")
        began = time.monotonic()
        end, told = usage_of(rpc, BUSY, limits={"cpus": 0.2})
        wall_ms = (time.monotonic() - began) * 1000
        usage = told["usage"]
        used_ms = usage["userMs"] + usage["systemMs"]
        # An upper bound only: on a busy machine it gets less. A period more than its share is what the kernel may let pass.
        assert used_ms < 0.2 * wall_ms + 250, (usage, wall_ms)
        assert_slowed(end, 0.2)
        assert told["status"] == "completed" and "limit" not in told, "throttling does not end a command"
        record = rpc.call("get_process", processId=end["processId"])
        assert record["limits"]["cpus"] == 0.2 and record["usage"] == usage, record
        _, free = usage_of(rpc, ["true"])
        assert "throttledMs" not in free["usage"], free


def test_more_cpus_than_the_daemons_cgroup_has_are_rejected_with_the_reason():
    """Only v1 rejects that: with v2 the smaller limit counts."""
    if os.geteuid() != 0:
        raise Skip("requires root")
    with open("/proc/self/mountinfo") as f:
        mounts = [line.split(" - ") for line in f]
    top = next((left.split()[4] for left, right in mounts if right.startswith("cgroup ") and "cpu" in right.split()[-1].split(",")), None)
    if not top:
        raise Skip("no cgroup v1 limits the processors here")
    folder = os.path.join(top, f"small-{os.getpid()}")
    os.mkdir(folder)
    try:
        with open(os.path.join(folder, "cpu.cfs_quota_us"), "w") as f:
            f.write("50000")
        with harness.Home(through=("sh", "-c", f'echo $$ >{folder}/cgroup.procs && exec "$@"', "sh")) as home, client(home) as rpc:
            why = refused(rpc, cpus=2)
            assert why and why.endswith("the cgroup in which bailiff runs has a smaller limit: use fewer cpus"), why
            assert refused(rpc, cpus=0.25) is None
    finally:
        until("the daemon's cgroup is empty", lambda: not open(os.path.join(folder, "cgroup.procs")).read())
        os.rmdir(folder)


def test_cpus_from_the_command_line(home):
    with client(home) as rpc:
        why = refused(rpc, cpus=1.5)
        done = home.cli("run", "--cpus", "1.5", "--", "true", status=None)
        assert (done.status == 0) == (why is None), done.err
        if why:
            assert why.replace("limits.cpus", "option '--cpus'").encode() in done.err, done.err
        else:
            assert rpc.call("list_processes")["processes"][0]["limits"]["cpus"] == 1.5
    for option, value, word in (("--cpus", "x", b"'x' is not a number"), ("--cpus", "0", b"must be at least 0.01"), ("--memory-high", "much", b"is not a size"),
                                ("--io-weight", "10001", b"at most 10000"), ("--io-read", "1", b"at least 4096")):
        done = home.cli("run", option, value, "--", "true", status=None)
        assert done.status == 125 and word in done.err, (option, done.err)
    sandbox = home.cli("sandbox", "create").text.strip()     # a command in a session sandbox has limits of its own
    for option, value, word in (("--memory", "1", b"at least 1048576"), ("--memory-high", "1", b"at least 1048576"), ("--pids", "0", b"at least 1"), ("--cpus", "0", b"at least 0.01"),
                                ("--io-weight", "10001", b"at most 10000"), ("--io-read", "1", b"at least 4096"), ("--io-write", "1", b"at least 4096")):
        assert word in home.cli("exec", option, value, sandbox, "--", "true", status=125).err, option


def test_invalid_values_are_rejected_with_the_field(home):
    with client(home) as rpc:
        for limits, field, words in (
            ({"cpus": 0}, "cpus", "at least 0.01"),
            ({"cpus": -1}, "cpus", "at least 0.01"),
            ({"cpus": 1e9}, "cpus", "at most 10000"),
            ({"cpus": "2"}, "cpus", "a number"),
            ({"ioWeight": 0}, "ioWeight", "at least 1"),
            ({"ioWeight": 10001}, "ioWeight", "at most 10000"),
            ({"ioWeight": 1.5}, "ioWeight", "a whole number"),
            ({"ioReadBps": 100}, "ioReadBps", "at least 4096"),
            ({"ioWriteBps": 0}, "ioWriteBps", "at least 4096"),
            ({"memoryHighBytes": 4096}, "memoryHighBytes", "at least 1048576"),
            ({"memoryBytes": 64 << 20, "memoryHighBytes": 64 << 20}, "memoryHighBytes", "less than memoryBytes"),
            ({"ioWeigth": 1}, "ioWeigth", "did you mean ioWeight"),
        ):
            error = rpc.fails("start_process", command=["true"], cwd=rpc.work, limits=limits, code=harness_code("invalid"))
            assert error.data["field"] == f"limits.{field}" and words in error.message, (limits, error.message)


def test_limit_that_cannot_be_enforced_is_rejected_with_the_fix(home):
    with client(home) as rpc:
        ways = re.compile(r"boot|echo bfq|use |start |delegate|root|systemctl")
        for limits in ({"memoryHighBytes": 64 << 20}, {"ioWeight": 200}, {"ioReadBps": 1 << 20}, {"ioWriteBps": 1 << 20}, {"cpus": 2}, {"memoryBytes": 1 << 30}):
            why = refused(rpc, **limits)
            assert why is None or ways.search(why), why
            if why is None:
                _, told = usage_of(rpc, ["true"], limits=limits)
                assert told["exitCode"] == 0, told
        with open("/proc/self/mountinfo") as f:
            v1 = any(" - cgroup " in line and "memory" in line.rsplit(" ", 1)[1].split(",") for line in f)
        if v1:
            assert "v1" in (refused(rpc, memoryHighBytes=64 << 20) or "") or os.geteuid() != 0
            assert refused(rpc, ioWriteBps=1 << 20), "buffered writes are not limited on v1"


def test_agent_cannot_raise_its_io_weight(home):
    with client(home) as rpc:
        rpc.call("initialize", role="agent")
        error = rpc.fails("start_process", command=["true"], cwd=rpc.work, limits={"ioWeight": 101}, code=harness_code("denied"))
        assert "ioWeight" in error.data.get("field", "") or "101" in error.message, error.message


FORKS = "import os, time\nn = 1\ntry:\n while n < 30:\n  if os.fork() == 0: time.sleep(1000)\n  n += 1\nexcept OSError: pass\nprint(n, flush=True)\nos._exit(9)\n"


def test_a_command_in_a_session_sandbox_has_limits_of_its_own(home):
    with client(home) as rpc:
        if refused(rpc, memoryBytes=64 << 20) or refused(rpc, pids=5):
            raise Skip("no cgroup limits memory and processes here")
        sandbox = rpc.call("create_sandbox", cwd=rpc.work, limits={"pids": 20})["sandboxId"]

        def run(command, **limits):
            started, end = rpc.run(command, sandboxId=sandbox, limits=limits)
            return end, rpc.outputs(started["processId"])["stdout"].decode().strip()
        free = rpc.start(["sleep", "1000"], sandboxId=sandbox)["processId"]
        end, out = run(["python3", "-c", FORKS], pids=5)
        assert end["limit"] == "pids" and out == "5" and end["usage"].get("pidsPeak", 5) == 5, (end, out)
        end, _ = run(["python3", "-c", "bytearray(300 << 20)"], memoryBytes=64 << 20)
        assert end["limit"] == "memory" and end["signal"] == "KILL" and end["usage"]["memoryPeakBytes"] <= 64 << 20, end
        # Without limits of its own it has those of the sandbox, which count all of its commands; a higher one changes nothing.
        for more in ({}, {"pids": 100}):
            end, out = run(["python3", "-c", FORKS], **more)
            assert end["limit"] == "pids" and 10 <= int(out) < 20, (more, end, out)
        # At the same time, each with its own; neither the other command nor the end of one changes that.
        both = [rpc.start(["python3", "-c", FORKS.replace("os._exit", "os.wait(); os._exit")], sandboxId=sandbox, limits={"pids": n})["processId"] for n in (2, 3)]
        for process, n in zip(both, (2, 3)):
            until("all of its processes are there", lambda: rpc.outputs(process)["stdout"])
            assert rpc.outputs(process)["stdout"] == b"%d\n" % n
        for process in both:
            rpc.call("terminate_process", processId=process, graceMs=0)
        assert rpc.call("get_process", processId=free)["status"] == "running"
        if not refused(rpc, cpus=0.2):
            end, _ = run(BUSY, cpus=0.2)
            assert_slowed(end, 0.2)
        for limits in ({"memoryHighBytes": 64 << 20}, {"ioWeight": 200}, {"ioReadBps": 1 << 20}, {"ioWriteBps": 1 << 20}):
            why = refused(rpc, **limits)
            try:
                run(["true"], **limits)
                assert why is None, "a limit was ignored"
            except harness.RpcError as e:
                assert e.code == UNAVAILABLE and e.message == why, (e.message, why)


def test_limits_of_members_survive_the_runtime_and_the_spawner(home):
    with client(home) as rpc:
        if refused(rpc, pids=5):
            raise Skip("no cgroup limits processes here")
        rpc.call("create_sandbox", cwd=rpc.work, name="dev")
        wait = "import os, time\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)\n" + FORKS
        process = rpc.start(["python3", "-c", wait], sandboxId="dev", limits={"pids": 4})["processId"]
    for part in ("runtime", "spawner"):
        home.kill_part(part)
        until("the daemon answers", home.answers)
    with client(home) as rpc:
        _, end = rpc.run(["touch", "/tmp/go"], sandboxId="dev", limits={"pids": 3})
        assert end["exitCode"] == 0, end
        end = rpc.wait(process)
        assert end["limit"] == "pids" and rpc.outputs(process)["stdout"] == b"4\n", end


def test_start_is_repeated_if_the_spawner_dies_before_moving_the_command(home):
    """The cgroups exist, but the sandbox has not started the command: the start is repeated, as after any death of the spawner."""
    with client(home) as rpc:
        if refused(rpc, pids=5):
            raise Skip("no cgroup limits processes here")
        rpc.call("create_sandbox", cwd=rpc.work, name="dev")
        assert rpc.run(["true"], sandboxId="dev")[1]["exitCode"] == 0
        holder = rpc.call("get_process", processId=rpc.call("get_sandbox", sandboxId="dev")["processId"])["pid"]
        os.kill(holder, signal.SIGSTOP)
        try:
            before = cgroups()
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                started = pool.submit(lambda: client(home).run(["echo", "it ran"], sandboxId="dev", limits={"pids": 5}))
                until("its cgroup exists", lambda: cgroups() - before)
                home.kill_part("spawner")
                until("the daemon answers", home.answers)
                os.kill(holder, signal.SIGCONT)
                process, end = started.result()
        finally:
            os.kill(holder, signal.SIGCONT)
        assert end["exitCode"] == 0 and rpc.outputs(process["processId"])["stdout"] == b"it ran\n", end


def test_spawner_survives_a_broken_pipe(home):
    """A child that ends before the spawner writes to its pipe; commands get the signal as always."""
    with client(home) as rpc:
        pid = home.part("spawner")
        os.kill(pid, signal.SIGPIPE)
        _, end = rpc.run(["sh", "-c", "kill -PIPE $$; sleep 100"], cwd=rpc.work)
        assert end["signal"] == "PIPE" and home.part("spawner") == pid, end


def test_agent_cannot_raise_its_io_weight_in_a_sandbox(home):
    with client(home) as rpc:
        rpc.call("initialize", role="agent")
        sandbox = rpc.call("create_sandbox", cwd=rpc.work)["sandboxId"]
        error = rpc.fails("start_process", command=["true"], sandboxId=sandbox, limits={"ioWeight": 101}, code=harness_code("denied"))
        assert "ioWeight" in error.message or error.data.get("field") == "limits.ioWeight", error.message


def test_usage_includes_the_whole_tree(home):
    # Children that no process waits for: rusage does not include them.
    unseen = "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n" \
             "for i in range(2):\n if os.fork() == 0:\n  end = time.process_time() + 0.3\n  while time.process_time() < end: pass\n  os._exit(0)\n" \
             "try:\n while True: os.wait()\nexcept ChildProcessError: pass\n"
    with client(home) as rpc:
        _, told = usage_of(rpc, ["python3", "-c", unseen])
        usage = told["usage"]
        assert usage["source"] in ("cgroup", "rusage") and usage["maxRssBytes"] > 0, usage
        if usage["source"] == "rusage":
            raise Skip("no cgroup for sandboxes here")
        assert 550 <= usage["userMs"] + usage["systemMs"] < 10000, usage


def test_peaks_are_reported_where_a_cgroup_counts_them(home):
    many = "import subprocess\nx = bytearray(40 << 20)\nfor p in [subprocess.Popen(['sleep', '0.2']) for i in range(5)]: p.wait()\n"
    with client(home) as rpc:
        if refused(rpc, memoryBytes=256 << 20):
            raise Skip("no cgroup limits memory here")
        _, told = usage_of(rpc, ["python3", "-c", many], limits={"memoryBytes": 256 << 20, "pids": 50})
        usage = told["usage"]
        assert 40 << 20 <= usage["memoryPeakBytes"] <= 256 << 20, usage
        assert 6 <= usage.get("pidsPeak", 6) <= 50, usage


def test_usage_of_a_killed_command_is_reported(home):
    with client(home) as rpc:
        started = rpc.start(["sh", "-c", "while :; do :; done"], cwd=rpc.work)
        process = started["processId"]
        until("it has worked for a while", lambda: cpu_of(home, process))
        rpc.call("terminate_process", processId=process, graceMs=0)
        usage = terminal(rpc, process)["payload"]["usage"]
        assert usage["userMs"] + usage["systemMs"] > 0, usage


def test_usage_does_not_depend_on_the_spawner(home):
    with client(home) as rpc:
        limits = {} if refused(rpc, cpus=0.5) else {"cpus": 0.5}
        process = rpc.start(["sh", "-c", "while :; do :; done"], cwd=rpc.work, limits=limits)["processId"]
        before = home.part("spawner")
        home.kill_part("spawner")
        until("another spawner is there", lambda: home.part("spawner") not in (None, before))
        until("it has worked for a while", lambda: cpu_of(home, process))
        rpc.call("terminate_process", processId=process, graceMs=0)
        usage = terminal(rpc, process)["payload"]["usage"]
        assert usage["userMs"] + usage["systemMs"] > 0 and ("throttledMs" in usage) <= ("cpus" in limits), usage
        _, end = rpc.run(["true"], cwd=rpc.work, limits=limits)
        assert end["status"] == "completed", end


def cpu_of(home, process):
    """What `top` shows for its processor time, once that is something."""
    row = next((line for line in home.cli("top").text.splitlines() if process in line), "")
    return row and row.split()[3] not in ("-", "0ms", "0.0s")


def test_memory_limit_is_the_reason_when_a_leader_is_killed(home):
    """Where no process of a command is larger than its leader, the kernel may choose the leader."""
    with client(home) as rpc:
        if refused(rpc, memoryBytes=64 << 20):
            raise Skip("no cgroup limits memory here")
        sandbox = rpc.call("create_sandbox", cwd=rpc.work, limits={"memoryBytes": 48 << 20})["sandboxId"]
        for _ in range(3):
            end = rpc.run("head -c 100M /dev/zero > /tmp/x", sandboxId=sandbox)[1]
            assert end["status"] == "failed" and end["limit"] == "memory" and end["message"].startswith("the memory limit was reached"), end
        other = rpc.call("create_sandbox", cwd=rpc.work, limits={"memoryBytes": 256 << 20})["sandboxId"]
        end = rpc.run("kill -9 $PPID; sleep 1000", sandboxId=other)[1]
        assert end["status"] == "failed" and end["message"] == "its leader was killed or stopped", end


def test_start_names_the_limit_on_processes(home):
    """When other commands of the sandbox have reached it."""
    fill = "import os, time\ntry:\n  while os.fork(): pass\nexcept OSError: print('full', flush=True)\ntime.sleep(1000)"
    with client(home) as rpc:
        if refused(rpc, pids=30):
            raise Skip("no cgroup limits processes here")
        sandbox = rpc.call("create_sandbox", cwd=rpc.work, limits={"pids": 30})["sandboxId"]
        filling = rpc.start(["python3", "-c", fill], sandboxId=sandbox)["processId"]
        until("no more processes can be created", lambda: b"full" in rpc.outputs(filling)["stdout"])
        e = rpc.fails("start_process", {"command": ["true"], "sandboxId": sandbox})
        assert "clone: limit on processes of the sandbox: Resource temporarily unavailable" in e.message, e
        assert rpc.call("terminate_process", processId=filling, graceMs=0)["treeEmpty"] is True
        assert rpc.run(["true"], sandboxId=sandbox)[1]["exitCode"] == 0


def test_profile_can_set_the_same_limits(home):
    def policy(text):
        with open(os.path.join(home.dir, "policy.json"), "w") as f:
            f.write(text if isinstance(text, str) else json.dumps(text))

    with client(home) as rpc:
        policy({"profiles": {"slow": {"cpus": 0.5, "ioReadBps": "10M"}, "half": {"cpus": 0.5}}})
        rpc.call("reload_policy")
        until("the profile is known", lambda: "slow" in home.cli("sandbox", "list").text)
        limits = rpc.call("get_sandbox", profile="slow", cwd=rpc.work)["sandboxProfile"]["processLimits"]
        assert (limits["cpus"], limits["ioReadBps"]) == (0.5, 10 << 20), limits
        why = refused(rpc, cpus=0.5)
        done = home.cli("run", "--profile", "half", "--cwd", rpc.work, "--", "true", status=None)
        assert (done.status == 0) == (why is None), "a profile's limit is not left out either"
    for text, word in (('{"profiles": {"a": {"cpus": "many"}}}', "profiles.a.cpus: must be a number above 0"),
                       ('{"profiles": {"a": {"ioWeight": 20000}}}', "profiles.a.ioWeight: must be at most 10000"),
                       ('{"profiles": {"a": {"memoryHighBytes": "1K"}}}', "profiles.a.memoryHighBytes: must be at least 1048576")):
        policy(text)
        done = home.cli("policy", "lint", os.path.join(home.dir, "policy.json"), status=None)
        assert word in done.text + done.err.decode(), (word, done.text, done.err)


if __name__ == "__main__":
    harness.main(globals())
