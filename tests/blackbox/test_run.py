"""bailiff run: streams, exit status and messages."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading

import harness
import window
from harness import TALKER, cli, until


def test_run_copies_output_and_exit_status(home):
    done = home.cli("run", "--", "sh", "-c", "echo out; echo err >&2; exit 0")
    assert (done.out, done.err) == (b"out\n", b"err\n"), (done.out, done.err)


def test_exit_code_is_the_commands(home):
    for code in (1, 3, 77, 255):
        home.cli("run", "--", "sh", "-c", f"exit {code}", status=code)


def test_killed_command_exits_with_128_plus_signal(home):
    for sig in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV):
        home.cli("run", "--", "sh", "-c", f"kill -{int(sig)} $$", status=128 + sig)


def test_run_works_with_a_daemon_of_an_earlier_version(home):
    """It keeps running after an upgrade and does not have the parameter `subscribe` of start_process."""
    rejected = []

    def serve(client):
        with client, socket.socket(socket.AF_UNIX) as daemon, client.makefile("rb") as requests:
            daemon.connect(home.socket)
            threading.Thread(target=copy, args=(daemon, client), daemon=True).start()
            for line in requests:
                request = json.loads(line)
                if "subscribe" not in request.get("params", {}):
                    daemon.sendall(line)
                    continue
                rejected.append(request["method"])
                error = {"code": -32602, "message": "subscribe: unknown parameter", "data": {"field": "subscribe"}}
                client.sendall(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode() + b"\n")

    def copy(daemon, client):
        try:
            while data := daemon.recv(1 << 16):
                client.sendall(data)
        except OSError:
            pass        # the client has ended

    with tempfile.TemporaryDirectory(prefix="bl-") as old, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.join(old, "control.sock"))
        listener.listen()

        def accept():
            for _ in range(2):  # it connects again without the parameter
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
        threading.Thread(target=accept, daemon=True).start()
        done = cli("run", "--", "sh", "-c", "echo out; exit 3", env={"BAILIFF_HOME": old}, cwd=home.work, status=3)
    assert done.out == b"out\n" and rejected == ["start_process"], (done.out, done.err, rejected)


def test_a_command_that_exits_139_was_not_killed(home):
    home.cli("run", "--", "sh", "-c", "exit 139", status=139)
    with home.rpc() as rpc:
        _, end = rpc.run("exit 139")
        assert end["exitCode"] == 139 and end.get("signal") is None, end


def test_missing_and_unexecutable_programs_exit_127_and_126(home):
    done = home.cli("run", "--", "no-such-command-here", status=127)
    assert b"no-such-command-here" in done.err and done.err.startswith(b"bailiff: "), done.err
    path = os.path.join(home.work, "plain.txt")
    with open(path, "w") as f:
        f.write("not a program\n")
    home.cli("run", "--", home.work, status=126)
    missing = os.path.join(home.work, "missing")
    script = os.path.join(home.work, "run-me-here")
    with open(script, "w", opener=lambda name, flags: os.open(name, flags, 0o755)) as f:
        f.write("#!/no/such/interpreter\n")
    for command, status, advice in (("no-such-command-here", 127, "no folder of the sandbox's PATH has it"), (path, 126, f"chmod +x it, or name its interpreter, as in sh {path}"),
                                    ("./plain.txt", 126, "chmod +x it"), (missing, 127, "no such file here either"), (script, 127, "lacks the interpreter"),
                                    ("run-me-here", 127, f"here it is {script}, which is not in the sandbox's PATH")):
        said = home.cli("run", "--", command, status=status, cwd=home.work, env={"PATH": f"{home.work}:/usr/bin:/bin"}).err.decode()
        assert advice in said, (command, said)
    assert b"--allow-host HOST" in home.cli("run", "--net", "allow", "--", "true", status=125).err
    # In a session sandbox: the advice is about the program, not an argument, and a path is relative to the sandbox's folder.
    sandbox = home.cli("sandbox", "create", cwd=home.work).text.strip()
    said = home.cli("exec", sandbox, "no-such-command-here", "python3", status=127).err.decode()
    assert "no folder of the sandbox's PATH has it" in said, said
    said = home.cli("exec", sandbox, "./missing", "/bin/ls", status=127, cwd="/").err.decode()
    assert "exists here" not in said and "here either" not in said, said


def test_time_limits_exit_124(home):
    for option in ("--timeout", "--idle-timeout"):
        done = home.cli("run", option, "200ms", "--", "sleep", "60", status=124)
        assert b"limit" in done.err or b"time" in done.err, done.err
    home.cli("run", "--cpu-time", "200ms", "--", TALKER, "spin", status=124)


def test_errors_of_bailiff_exit_125(home):
    home.cli("run", "--no-such-option", "--", "true", status=125)
    done = home.cli("run", "--timeout", "soon", "--", "true", status=125)
    assert b"--timeout" in done.err, done.err
    done = home.cli("run", status=125)
    assert done.err.startswith(b"bailiff: "), done.err
    done = home.cli("run", "--cwd", "/no/such/folder", "--", "true", status=None)
    assert done.status in (125, 126) and b"/no/such/folder" in done.err, (done.status, done.err)


def test_unsupported_sandbox_options_are_rejected(home):
    for options in (("--profile", "no-such-profile"), ("--net", "allow"), ("--profile", "host", "--cow")):
        done = home.cli("run", *options, "--", "true", status=None)
        assert done.status in (125, 126), f"{options}: {done.status} {done.err}"
        assert done.err.startswith(b"bailiff: "), done.err
    with home.rpc() as rpc:
        assert not [e for e in rpc.events() if e["type"] == "process.started"]


def test_stdin_is_copied_from_a_pipe(home):
    done = home.cli("run", "--", "wc", "-l", stdin=b"a\nb\nc\n")
    assert done.out.split() == [b"3"], done.out


def test_large_stdin_is_complete(home):
    data = os.urandom(1 << 16) * 64
    done = home.cli("run", "--", "sha256sum", stdin=data)
    assert done.out.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_unread_stdin_does_not_block_run(home):
    home.cli("run", "--", "true", stdin=b"x" * (4 << 20))
    home.cli("run", "--", "sh", "-c", "head -c 1 >/dev/null; exit 5", stdin=b"x" * (1 << 20), status=5)


def test_missing_stdin_is_empty(home):
    assert home.cli("run", "--", "cat").out == b""


def test_environment_and_cwd_options_apply(home):
    done = home.cli("run", "--env", "GREETING=hello world", "--cwd", "/usr", "--", "sh", "-c", 'echo "$GREETING"; pwd')
    assert done.text == "hello world\n/usr\n", done.text
    done = home.cli("run", "--env-pass", "CARRIED", "--", "sh", "-c", 'echo "$CARRIED"', env={"CARRIED": "along", "OTHER": "not"})
    assert done.text == "along\n"
    # The last option for a variable counts, as with other options; one that passes nothing changes nothing.
    done = home.cli("run", "--env", "A=1", "--env", "AB=2", "--env", "A=3", "--env-pass", "B", "--env", "B=4", "--env-pass", "UNSET", "--env", "C=5", "--env-pass", "C",
                    "--", "sh", "-c", 'echo "$A $AB $B $C"', env={"B": "1"})
    assert done.text == "3 2 4 5\n", done.text
    home.cli("policy", "check", "--env", "A=1", "--env", "A=2", "--", "true")
    home.cli("task", "create", "x", "--env", "A=1", "--env", "A=2", "--", "true")
    done = home.cli("run", "--", "env", env={"SECRET_TOKEN": "abc"})
    assert b"SECRET_TOKEN" not in done.out and b"BAILIFF_HOME" not in done.out, done.out


def test_callers_directory_is_the_working_directory(home):
    assert home.cli("run", "--", "pwd").text.strip() == os.path.realpath(home.work)


def test_arguments_arrive_as_given(home):
    words = ["", " ", "a b", "$HOME", "`id`", "*", "--", "-x", "ü", "\n", "'\""]
    done = home.cli("run", "--", "printf", "[%s]", *words)
    assert done.text == "".join(f"[{w}]" for w in words), done.text


def test_json(home):
    done = home.cli("run", "--json", "--", "sh", "-c", "echo hello; exit 3", status=3)
    events = [json.loads(line) for line in done.out.splitlines()]
    types = [e["type"] for e in events]
    assert "process.started" in types and "process.output" in types and types.count("process.completed") == 1, types
    assert all(a["sequence"] < b["sequence"] for a, b in zip(events, events[1:]))
    assert [e for e in events if e["type"] == "process.completed"][0]["payload"]["exitCode"] == 3


def test_detach_wait_logs(home):
    process = home.cli("run", "-d", "--", "sh", "-c", "echo one; echo two >&2; exit 7").text.strip()
    assert process.startswith("proc_"), process
    home.cli("wait", process, status=7)
    assert home.cli("logs", "--stream", "stdout", process).out == b"one\n"
    only = home.cli("logs", "--stream", "stderr", process)
    assert only.out + only.err == b"two\n"
    both = home.cli("logs", process)
    assert b"one" in both.out + both.err and b"two" in both.out + both.err


def test_prefix_ids(home):
    process = home.cli("run", "-d", "--", "true").text.strip()
    home.cli("wait", process)
    assert home.cli("logs", process[:-2]).out == b""
    other = home.cli("run", "-d", "--", "true").text.strip()
    done = home.cli("wait", "proc_", status=125)
    assert b"proc_" in done.err and (b"ambiguous" in done.err or b"more than one" in done.err or b"several" in done.err), done.err
    done = home.cli("wait", "proc_zzzz", status=125)
    assert b"proc_zzzz" in done.err, done.err
    home.cli("wait", other)


def test_logs_follow(home):
    process = home.cli("run", "-d", "--", TALKER, "talk", "9", "20", "10000", "0").text.strip()
    follow = home.cli_start("logs", "-f", "--stream", "stdout", process)
    out, err = follow.communicate(timeout=harness.PATIENCE)
    assert follow.returncode == 0 and out == harness.talker_output(9, 20)[0], (follow.returncode, out, err)


def test_input(home):
    process = home.cli("run", "-d", "-i", "--", "cat", status=None).text.strip()
    if not process.startswith("proc_"):
        with home.rpc() as rpc:
            process = rpc.start(["cat"], stdin="pipe")["processId"]
    home.cli("input", process, stdin=b"first\n")
    home.cli("input", process, "--eof", stdin=b"second\n")
    home.cli("wait", process)
    assert home.cli("logs", "--stream", "stdout", process).out == b"first\nsecond\n"


def test_kill_ends_the_whole_tree(home):
    mark = f"mark-{os.getpid()}-kill"
    process = home.cli("run", "-d", "--", TALKER, "hold", "many", mark).text.strip()
    until("the tree is there", lambda: len(harness.marked(mark)) >= 7)
    home.cli("kill", process)
    assert not harness.marked(mark)
    home.cli("wait", process, status=128 + signal.SIGTERM)


def test_kill_with_a_signal_sends_just_that(home):
    process = home.cli("run", "-d", "--", "sh", "-c", "trap 'echo got; exit 9' USR1; echo ready; while :; do sleep 0.05; done").text.strip()
    until("it is ready", lambda: b"ready" in home.cli("logs", process).out)
    home.cli("kill", "-s", "USR1", process)
    home.cli("wait", process, status=9)
    assert home.cli("logs", process).out == b"ready\ngot\n"


def test_ctrl_c_reaches_the_command(home):
    run = home.cli_start("run", "--", "sh", "-c", "trap 'echo bye; exit 4' INT; echo ready; while :; do sleep 0.05; done")
    assert run.stdout.readline() == b"ready\n"
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=harness.PATIENCE)
    assert (run.returncode, out) == (4, b"bye\n"), (run.returncode, out, err)


def test_usr1_and_usr2_are_passed_on(home):
    """Many programs reopen their log or report their progress on them; bailiff itself must not die of one."""
    run = home.cli_start("run", "--", "sh", "-c", "trap 'echo one' USR1; trap 'echo two; exit 5' USR2; echo ready; while :; do sleep 0.05; done")
    assert run.stdout.readline() == b"ready\n"
    run.send_signal(signal.SIGUSR1)
    assert run.stdout.readline() == b"one\n"
    run.send_signal(signal.SIGUSR2)
    out, err = run.communicate(timeout=harness.PATIENCE)
    assert (run.returncode, out) == (5, b"two\n"), (run.returncode, out, err)


def test_two_ctrl_c_end_it(home):
    run = home.cli_start("run", "--", "sh", "-c", "trap '' INT; echo ready; while :; do sleep 0.05; done")
    assert run.stdout.readline() == b"ready\n"
    end = run.poll
    run.send_signal(signal.SIGINT)

    def again():
        if end() is None:
            run.send_signal(signal.SIGINT)
        return end() is not None
    until("run has ended", again)
    assert run.returncode != 0


def test_run_continues_when_the_runtime_is_killed(home):
    run = home.cli_start("run", "--", TALKER, "talk", "5", "60", "10000", "6")
    first = run.stdout.readline()
    home.kill_part("runtime")
    out, err = run.communicate(timeout=harness.PATIENCE)
    expected = harness.talker_output(5, 60)
    assert run.returncode == 6, (run.returncode, err[-500:])
    assert first + out == expected[0]
    assert all(line in err for line in expected[1].splitlines()), err


def test_ps(home):
    process = home.cli("run", "-d", "--", "sleep", "1000").text.strip()
    assert process[-6:] in home.cli("ps").text
    home.cli("kill", process)
    assert process[-6:] not in home.cli("ps").text
    assert process[-6:] in home.cli("ps", "-a").text
    rows = home.cli("ps", "-a", "--json").out
    assert process.encode() in rows
    assert json.loads(rows)[0]["processId"] == process


def piped(home, command, reader="head -1", stream="stdout"):
    """bailiff run … | reader: what the reader printed, and the status of bailiff."""
    out = {stream: subprocess.PIPE}
    run = home.cli_start("run", "--", "sh", "-c", command, **dict(dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), **out))
    read = subprocess.run(reader.split(), stdin=getattr(run, stream), stdout=subprocess.PIPE)
    getattr(run, stream).close()
    return read.stdout, run.wait(harness.PATIENCE)


def test_a_reader_that_leaves_ends_the_writer_as_in_a_pipeline(home):
    assert piped(home, "exec yes") == (b"y\n", 128 + signal.SIGPIPE)
    with home.rpc() as rpc:
        process = rpc.call("list_processes")["processes"][0]
        assert (process["status"], process["signal"]) == ("completed", "PIPE"), process
    # only the writer gets SIGPIPE: the rest of the command continues, and its status is the command's
    assert piped(home, "yes; echo $? > status; exit 7") == (b"y\n", 7)
    with open(os.path.join(home.work, "status")) as f:
        assert f.read() == f"{128 + signal.SIGPIPE}\n"
    assert piped(home, "yes >&2", stream="stderr") == (b"y\n", 128 + signal.SIGPIPE)
    # nothing is written after that, so nothing is ended
    assert piped(home, "echo one; read line; exit 3") == (b"one\n", 3)


def test_an_output_that_is_closed_stays_closed(home):
    """Also for the next runtime."""
    with home.rpc() as rpc:
        process = rpc.start("trap '' PIPE; echo one; read go; echo two || echo failed >&2; exit 0", stdin="pipe")["processId"]
        until("it printed", lambda: rpc.outputs(process)["stdout"] == b"one\n")
        for _ in range(2):
            assert rpc.call("close_process_output", processId=process, stream="stdout")["stream"] == "stdout"
        rpc.fails("close_process_output", processId=process, stream="pty")
    home.kill_part("runtime")
    with home.rpc() as rpc:
        rpc.call("write_process_stdin", processId=process, data="go\n")
        end = rpc.wait(process)
        assert end["exitCode"] == 0 and not end.get("drainTimedOut"), end
        out = rpc.outputs(process)
        assert out["stdout"] == b"one\n" and b"failed" in out["stderr"], out
        kinds = [e["payload"]["kind"] for e in rpc.events(processId=process) if e["type"] == "process.input"]
        assert kinds.count("close_output") == 2, kinds
        tty = rpc.start(["sleep", "1000"], tty={"rows": 24, "cols": 80})["processId"]
        assert "no stdout" in rpc.fails("close_process_output", processId=tty, stream="stdout").message
        rpc.call("terminate_process", processId=tty, graceMs=0)


def test_files_lost_in_a_private_tmp_are_reported(home):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as kept:
        done = home.cli("run", "--", "sh", "-c", "echo a > made", cwd="/tmp")
        assert not os.path.exists("/tmp/made") and b"/tmp was private to the command" in done.err and b"--rw /tmp" in done.err, done.err
        assert b"private" in home.cli("run", "--cwd", "/tmp", "--", "true").err
        # where the folder is the workspace, or is given, files stay
        done = home.cli("run", "--", "sh", "-c", "echo a > made", cwd=kept)
        assert os.path.exists(os.path.join(kept, "made")) and not done.err, done.err
    assert not home.cli("run", "--", "true").err


def test_private_working_directory_causes_a_warning(home):
    """Before the command writes there: one line on a terminal, a member of the reply and of the event; in a session sandbox files last longer."""
    text = "/tmp is private to the command: files written there are gone when it ends"
    with window.Window(home, "run", "--", "sh", "-c", "echo printed", cwd="/tmp") as w:
        w.wait(0)
        lines = [line for line in w.plain().decode().splitlines() if line]
        assert [line.strip() for line in lines] == [f"bailiff: warning: {text}; --rw DIR keeps those in DIR", "printed"], lines
    assert home.cli("run", "-d", "--json", "--", "true", cwd="/tmp").json["warnings"] == [text]
    events = [json.loads(line) for line in home.cli("run", "--json", "--", "true", cwd="/tmp").text.splitlines()]
    assert [e["payload"]["warnings"] for e in events if e.get("type") == "process.started"] == [[text]], events
    with home.rpc() as rpc:
        assert "warnings" not in rpc.start(["true"], cwd=home.work)
    sandbox = home.cli("sandbox", "create").text.strip()
    started = home.cli("run", "--in", sandbox, "--cwd", "/tmp", "-d", "--json", "--", "true").json
    assert started["warnings"] == [f"/tmp belongs to sandbox {sandbox}: files written there are gone when it is closed"], started
    assert home.cli("run", "--in", sandbox, "--cwd", "/tmp", "--", "true").err == b""


def test_closed_stdout_does_not_hang(home):
    run = home.cli_start("run", "--", TALKER, "spew", "1", str(8 << 20))
    run.stdout.read(10)
    run.stdout.close()
    run.stderr.read()
    run.wait(harness.PATIENCE)


@harness.audit_turn()    # a root daemon takes audit by default
def test_daemon_is_started_if_none_runs():
    import tempfile
    import shutil
    base = tempfile.mkdtemp(prefix="bl-")
    try:
        done = cli("run", "--", "sh", "-c", "echo embedded; exit 2", status=2, env={"BAILIFF_HOME": base}, cwd=base)
        assert done.out == b"embedded\n", (done.out, done.err)
        assert cli("run", "--", "echo", "again", env={"BAILIFF_HOME": base}, cwd=base).out == b"again\n"
        doctor = cli("doctor", status=None, env={"BAILIFF_HOME": base}, cwd=base)
        assert base in doctor.text, doctor.text
    finally:
        for pid in harness.all_pids():
            if harness.command_of(pid).startswith("bailiffd: guard") and any(base in x for x in _open_files(pid)):
                os.kill(pid, signal.SIGTERM)
                until("the embedded daemon has gone", lambda: not harness.alive(pid))
        shutil.rmtree(base, ignore_errors=True)


def test_a_home_that_cannot_be_written_is_reported_with_the_fix():
    """As in a container that runs as a uid without an account."""
    if os.geteuid() == 0:
        raise harness.Skip("root's daemon is the system's")
    for env in ({"HOME": "/"}, {"HOME": "/nonexistent"}, {"HOME": ""}):
        done = subprocess.run([harness.CLI, "run", "--", "true"], env={**env, "PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert done.returncode == 125 and b"set BAILIFF_HOME" in done.stderr, (env, done.stderr)


def _open_files(pid):
    names = []
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            names.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    except OSError:
        pass
    return names


def test_help_and_version(home):
    for args in (("--help",), ("run", "--help"), ("--version",), ("ps", "--help")):
        done = home.cli(*args)
        assert done.out and not done.err, args
    assert subprocess.run([harness.DAEMON, "--help"], capture_output=True, env=harness.environment()).returncode == 0


def test_usage_errors_name_the_argument(home):
    for args, word in ((("frobnicate",), b"frobnicate"), (("ps", "--nonsense"), b"--nonsense"), (("logs",), b"PROC"),
                       (("kill", "-s", "NOTASIG", "proc_x"), b"NOTASIG"), (("events", "--since", "abc"), b"--since")):
        done = home.cli(*args, status=None)
        assert done.status != 0 and done.err.startswith(b"bailiff: ") and word in done.err, (args, done.status, done.err)


def test_events_and_call(home):
    home.cli("run", "--", "echo", "hello")
    lines = [json.loads(x) for x in home.cli("events", "--json").out.splitlines()]
    harness.check_log(lines)
    only = [json.loads(x) for x in home.cli("events", "--json", "--type", "process.*").out.splitlines()]
    assert only and all(e["type"].startswith("process.") for e in only)
    assert home.cli("events").text
    health = json.loads(home.cli("call", "get_health").out)
    assert isinstance(health, dict)
    done = home.cli("call", "get_process", '{"processId":"proc_nope"}', status=None)
    assert done.status != 0 and b"proc_nope" in done.err + done.out
    done = home.cli("call", "get_process", "{nonsense", status=None)
    assert done.status != 0 and done.err.startswith(b"bailiff: ")


if __name__ == "__main__":
    harness.main(globals())
