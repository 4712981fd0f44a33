"""Common tasks of operators: completion, top, doctor, backup and restore, metrics, records of tasks and jobs, Ctrl-C."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile

import harness
from fleet import Server
from harness import CLI, Home, until
from test_fleet import Node, state


def words(home, *line):
    return home.cli("completion", "words", *line).text.split()


def test_completion_offers_values_of_options(home):
    assert words(home, "run", "--net", "") == ["none", "host", "allow"]
    assert words(home, "run", "--net=h") == ["--net=host"]
    assert words(home, "run", "--net", "=", "a") == ["allow"]      # as bash splits it
    assert {"workspace", "readonly", "isolated", "ci"} <= set(words(home, "run", "--profile", ""))
    assert words(home, "run", "--cwd", "") == ["@files"]
    assert "--profile" in words(home, "run", "--pro") and "--detach" not in words(home, "run", "--pro")
    assert words(home, "run", "--", "l") == ["@commands"]


def test_completion_knows_every_verb_subverb_and_option(home):
    verbs = set(re.findall(r"^  (\S+) +\S", home.cli("help").text, re.M))
    assert set(home.cli("completion", "words", "").text.split()) == verbs
    for verb in verbs:
        text = home.cli("help", verb).text
        usage = text.split("\n\n")[0]
        options = set(re.findall(r"^  (?:-., |    )(--[a-z-]+)", text, re.M))
        assert set(home.cli("completion", "words", verb, "--").text.split()) == options | {"--help"}, verb
        subverbs = set(re.findall(rf"(?:\| |usage: bailiff {verb} )([a-z][a-z-]+)(?=\s|$)", usage))
        assert subverbs <= set(home.cli("completion", "words", verb, "").text.split()), verb


def test_completion_offers_subverbs_and_their_arguments(home):
    assert words(home, "store", "back") == ["backup"]
    assert words(home, "store", "backup", "") == ["@files"]
    assert "claude-code" in words(home, "setup", "")
    assert "list_processes" in words(home, "call", "list_pro")
    assert "default" in words(home, "policy", "mode", "s", "")
    with home.rpc() as rpc:
        session = rpc.call("create_session", title="one")["sessionId"]
        assert session in words(home, "session", "show", "")
        task = rpc.call("create_task", objective="x")["taskId"]
        assert words(home, "task", "show", "") == [task] and task not in words(home, "task", "")
        action = rpc.call("request_action", actionType="ask", prompt="?", decisions=["yes", "no"], turnId=turn_of(rpc))["actionId"]
        assert words(home, "approve", "") == [action]
        rpc.call("respond_action", actionId=action, decision="yes")
        assert words(home, "approve", "") == []


def test_completion_offers_only_options_that_the_subverb_takes(home):
    assert words(home, "daemon", "stop", "--") == ["--help", "--force", "--json"]
    assert words(home, "store", "verify", "--") == ["--help", "--json"] and "--older-than" in words(home, "store", "prune", "--")
    assert words(home, "store", "restore", "") == ["@files"] and words(home, "store", "stats", "") == []
    assert "--title" in words(home, "session", "create", "--") and "--archive" not in words(home, "session", "create", "--")
    assert "--archive" in words(home, "session", "update", "x", "--") and "--archive" in words(home, "session", "--")


def turn_of(rpc):
    return rpc.call("submit_turn", input=[{"type": "text", "text": "x"}])["turnId"]


def test_completion_of_kill_offers_only_running_processes(home):
    with home.rpc() as rpc:
        ended = rpc.run(["true"])[0]["processId"]
        alive = rpc.start(["sleep", "1000"])["processId"]
        assert words(home, "kill", "") == [alive]
        assert set(words(home, "logs", "")) == {ended, alive}
        rpc.end(alive)
    assert words(home, "kill", "") == []


def test_completion_offers_the_tasks_of_a_fleet_on_a_node(home):
    assert not words(home, "fleet", "show", ""), "this one is not a node"
    with Server() as s, Node(s, "n1") as n:
        s.fleet("submit", "--id", "nightly", "--", "true")
        until("the node has read the list", lambda: words(n, "fleet", "retry", "") == ["nightly"])
        state(s, "nightly", "completed")
        until("it is described", lambda: n.cli("completion", "described", "fleet", "logs", "ni").text == "nightly\tcompleted\n")
        assert not words(n, "fleet", "show", "x") and not words(n, "fleet", "submit", "nig")


def test_completion_starts_no_daemon():
    with tempfile.TemporaryDirectory() as base:
        done = harness.cli("completion", "words", "kill", "", env={"BAILIFF_HOME": base})
        assert done.out == b"" and os.listdir(base) == []


def test_bash_completion_works(home):
    script = f"""
        bailiff() {{ {CLI} "$@"; }}
        source <(bailiff completion bash)
        try() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _bailiff 2>/dev/null; echo "${{COMPREPLY[*]}}"; }}
        try bailiff run --net ''
        try bailiff sto
        try bailiff store ver
    """
    done = subprocess.run(["bash", "-c", script], env=harness.environment(BAILIFF_HOME=home.dir), stdout=subprocess.PIPE, text=True)
    assert done.stdout.splitlines() == ["none host allow", "store", "verify"], done.stdout


def test_top_counts_the_whole_tree(home):
    busy = "import os\nx = bytearray(150 << 20)\nprint('ready', flush=True)\nwhile True: pass"
    with home.rpc() as rpc:
        process = rpc.start(["sh", "-c", f"/usr/bin/python3 -c \"$1\" & wait", "sh", busy])["processId"]

        def shown():
            for line in home.cli("top").text.splitlines():
                if line.startswith(process):
                    _, _, _, _, _, cpu, memory, *_ = line.split()
                    return cpu, memory
        def busy_and_large():
            cpu, memory = shown()
            return not cpu.endswith("ms") and memory.endswith("M") and float(memory[:-1]) > 150
        until("top shows a second of CPU time and 150 MB", busy_and_large)
        rpc.end(process)


@harness.audit_turn()    # the daemon that doctor starts takes it
def test_doctor_works_before_the_first_run():
    with tempfile.TemporaryDirectory(prefix="bl-") as base:
        try:
            done = harness.cli("doctor", env={"BAILIFF_HOME": base})
            assert "seccomp" in done.text and base in done.text, done.text
        finally:
            with open(os.path.join(base, "bailiffd.pid")) as f:
                pid = int(f.read())
            os.kill(pid, signal.SIGTERM)
            until("the daemon has gone", lambda: not harness.alive(pid))


def test_backup_is_written_with_the_callers_rights_and_restored():
    base = tempfile.mkdtemp(prefix="bl-")           # no other user may enter it, including the runtime's
    copy = os.path.join(base, "copy")
    try:
        with Home() as home:
            with home.rpc() as rpc:
                kept = rpc.run(["echo", "kept"])[0]["processId"]
            home.cli("store", "backup", copy)
            assert sorted(os.listdir(copy)) == ["spool", "store"]
            for folder, _, files in os.walk(copy):
                for name in [folder] + [os.path.join(folder, f) for f in files]:
                    assert os.stat(name).st_uid == os.geteuid(), name
            again = home.cli("store", "backup", copy, status=1)
            assert b"exists; name" in again.err, again.err
            with home.rpc() as rpc:
                later = rpc.run(["echo", "later"])[0]["processId"]
            refused = home.cli("store", "restore", copy, status=1)
            assert b"is running" in refused.err and b"bailiff daemon stop" in refused.err, refused.err
            home.stop()
            nothing = home.cli("store", "restore", base, status=1)
            assert b"not a backup" in nothing.err, nothing.err
            assert "before-restore" in home.cli("store", "restore", copy).text
            home.start()
            with home.rpc() as rpc:
                assert rpc.outputs(kept)["stdout"] == b"kept\n"
                rpc.fails("get_process", processId=later)
                assert rpc.call("verify_store")["ok"] is True
            assert any(name.startswith("store.before-restore-") for name in os.listdir(home.dir))
    finally:
        shutil.rmtree(base, ignore_errors=True)


def test_unchanged_path_is_an_error_of_diff_apply_and_discard(home):
    process = home.cli("run", "-d", "--cow", "--", "sh", "-c", "echo x > made").text.strip()
    home.cli("wait", process)
    for verb in ("diff", "apply", "discard"):
        done = home.cli(verb, process, "mode", status=1)
        assert b"mode: no changes" in done.err, done.err
    assert not os.path.exists(os.path.join(home.work, "made"))
    home.cli("apply", process, "made")
    assert os.path.exists(os.path.join(home.work, "made"))


def test_started_minus_ended_metrics_are_the_running_processes(home):
    with home.rpc() as rpc:
        rpc.run(["true"])
        rpc.fails("start_process", command=["/does/not/exist"])
        process = rpc.start(["sleep", "1000"])["processId"]
        health = rpc.call("get_health")["processes"]
        assert health["started"] - health["ended"] == health["live"] == 1, health
    home.kill_part("runtime")
    until("the next runtime answers", home.answers)
    with home.rpc() as rpc:
        rpc.end(process)
        until("the end is counted", lambda: rpc.call("get_health")["processes"]["live"] == 0)
        health = rpc.call("get_health")["processes"]
        assert health["started"] == health["ended"] == 1, health


def test_task_show_names_the_sandbox_and_job_show_the_items(home):
    with home.rpc() as rpc:
        task = rpc.call("create_task", objective="x", command=["true"], cwd=home.work)["taskId"]
    assert "sandbox: none" not in home.cli("task", "show", task).text
    task = home.cli("task", "create", "y", "--", "true").text.strip()
    assert "sandbox: none" not in home.cli("task", "show", task).text
    job = home.cli("job", "create", "--wait", "--item", "first text", "--item", "second", "--", "echo", "{item}").text.strip()
    shown = home.cli("job", "show", job).text
    assert "first text" in shown and "second" in shown, shown
    pack = home.cli("export", "evidence", job).text
    assert job in pack and all(f'"itemId":"{line.split()[0]}"' in pack for line in shown.splitlines()[1:]), pack[:2000]


def test_keep_tree_returns_with_the_command(home):
    done = home.cli("run", "--keep-tree", "--", "sh", "-c", "echo before; (read x; echo late) <&- & sleep 1000 & exit 3", status=3)
    assert done.out.startswith(b"before\n") and b"keep running" in done.err, (done.out, done.err)
    with home.rpc() as rpc:
        process, = rpc.call("list_processes", status="running")["processes"]
        assert process["commandExited"]["exitCode"] == 3, process
        home.cli("kill", process["processId"])
        record = rpc.call("get_process", processId=process["processId"])
        assert record["status"] == "terminated", record


def test_end_of_a_kept_trees_command_is_recorded_by_the_next_runtime(home):
    gate = os.path.join(home.work, "gate")
    os.mkfifo(gate, 0o666)
    os.chmod(gate, 0o666)
    with home.rpc() as rpc:
        process = rpc.start(f"sleep 1000 & read x <{gate}; exit 5", cwd=home.work, keepTree=True)["processId"]
    runtime = home.kill_part("runtime", signal.SIGSTOP)
    with open(gate, "w") as f:
        f.write("go\n")
    os.kill(runtime, signal.SIGKILL)
    until("the next runtime answers", home.answers)
    with home.rpc() as rpc:
        ended = until("the command's end is told", lambda: rpc.events(types=["process.command_exited"]))
        assert [e["payload"]["commandExited"]["exitCode"] for e in ended] == [5], ended
        home.kill_part("runtime")
        until("the next runtime answers", home.answers)
    with home.rpc() as rpc:
        rpc.end(process)
        assert len(rpc.events(types=["process.command_exited"])) == 1
        assert rpc.call("verify_store")["ok"] is True


def test_lint_names_a_misspelt_key(home):
    for text, meant in (({"permisions": {"deny": ["Bash(rm:*)"]}}, "permissions"), ({"permissions": {"denny": ["Bash(rm:*)"]}}, "deny"),
                        ({"permissions": {"defualtMode": "plan"}}, "defaultMode"), ({"hook": {}}, "hooks")):
        path = os.path.join(home.work, "policy.json")
        with open(path, "w") as f:
            json.dump(text, f)
        done = home.cli("policy", "lint", path, status=1)
        assert f"did you mean '{meant}'?".encode() in done.out + done.err, (text, done.out, done.err)
    for fine in ({"model": "x"}, {"env": {"A": "b"}}, {"permissions": {"additionalDirectories": []}}):
        with open(path, "w") as f:
            json.dump(fine, f)
        assert "is ignored" in home.cli("policy", "lint", path).text, fine


def answers_signals(pid):
    """Whether it reads SIGINT instead of dying of it."""
    with open(f"/proc/{pid}/status") as f:
        blocked = int(next(line for line in f if line.startswith("SigBlk:")).split()[1], 16)
    return blocked & 1 << signal.SIGINT - 1


SERVICE = """mount -t tmpfs none /run && mount -t tmpfs none /etc/systemd || exit 99
mkdir -p /run/systemd/system /etc/systemd/system/multi-user.target.wants
ln -s /nowhere /etc/systemd/system/multi-user.target.wants/bailiff.service
exec "$@"
"""


def test_command_line_does_not_start_a_daemon_instead_of_the_service():
    """A daemon on the service's store would keep the service from starting, as during its restart."""
    if os.geteuid() or not os.path.isdir("/etc/systemd"):
        raise harness.Skip("requires root and /etc/systemd")
    env = {k: v for k, v in os.environ.items() if k != "BAILIFF_HOME"}
    done = subprocess.run(["unshare", "--mount", "sh", "-c", SERVICE, "sh", CLI, "run", "--", "true"], env=env, capture_output=True, text=True, timeout=60)
    if done.returncode == 99:
        raise harness.Skip("no mount namespace: " + done.stderr.strip())
    assert done.returncode == 125 and "systemctl start bailiff" in done.stderr, done


def test_ctrl_c_ends_a_command_that_waits_for_permission():
    with Home(options=("--audit", "off", *harness.host_policy(ask=["Bash(sleep:*)"]))) as home:
        run = home.cli_start("run", "--", "sleep", "1000")
        with home.rpc() as rpc:
            until("it waits", lambda: rpc.call("list_actions", status="pending")["actions"])
            until("bailiff follows it", lambda: answers_signals(run.pid))
            run.send_signal(signal.SIGINT)
            run.communicate(timeout=harness.PATIENCE)
            assert run.returncode not in (0, None)
            until("nothing waits", lambda: not rpc.call("list_actions", status="pending")["actions"])
            assert rpc.events(types=["process.started"]) == []


if __name__ == "__main__":
    harness.main(globals())
