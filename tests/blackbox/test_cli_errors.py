"""What the command line prints when something is wrong: the option and the fix, not a parameter of the socket."""

import json
import os
import subprocess

import harness
from harness import until


def failure(home, *args, status=1):
    return home.cli(*args, cwd=home.work, status=status).err.decode()


def test_errors_name_the_option_that_was_typed(home):
    for option, value in (("--timeout", "0"), ("--net", "lan"), ("--allow-host", "http://x/"), ("--profile", "nope"), ("--hide", ".")):
        said = failure(home, "run", option, value, "--", "true", status=125)
        assert f"option '{option}': " in said, said
    said = failure(home, "job", "create", "--command-timeout", "0", "--item", "a", "--", "true")
    assert "option '--command-timeout': " in said, said
    assert "option '--parallel': must be" in failure(home, "job", "create", "-j", "0", "--item", "a", "--", "true")
    for noun, options in (("task", ("--attempts", "--timeout", "--idle-timeout")), ("job", ("--attempts", "--timeout", "--item-timeout"))):
        for option in options:
            said = failure(home, noun, "create", option, "0", *(("x",) if noun == "task" else ("--item", "a")), "--", "true")
            assert f"option '{option}': must be at least 1" in said, said
    for words, option in (((), "--base-url"), (("--provider", "openai"), "--key-file"), (("--provider", "openai", "--dialect", "x"), "--dialect"),
                          (("--model", "m", "--base-url", "ftp://x"), "--base-url")):
        said = failure(home, "model", "add", "x", *words)
        assert f"option '{option}': " in said and "keyFile" not in said and "baseUrl" not in said, said
    said = failure(home, "model", "test", "nope")
    assert "no model 'nope'" in said and "option" not in said, said
    session = home.cli("session", "create").text.strip()
    assert "give --title, --archive" in failure(home, "session", "update", session, status=2)
    assert "exclude each other" in failure(home, "session", "update", "--archive", "--unarchive", session, status=2)
    home.cli("sandbox", "create", "--name", "dev", cwd=home.work)
    assert "option '--cow': 'true' differs" in failure(home, "run", "--in", "dev", "--cow", "--", "true", status=125)
    terminal = home.cli("run", "-dt", "--", "cat", cwd=home.work).text.strip()
    assert "option '--regex': is not" in failure(home, "screen", "--regex", "(", terminal)


def test_a_job_without_items_is_a_usage_error(home):
    for option in ((), ("--items", "/dev/null")):
        said = failure(home, "job", "create", *option, "--", "true", status=2)
        assert "give --item TEXT" in said and "--items FILE" in said, said
    assert f"{home.work}: Is a directory" in failure(home, "job", "create", "--items", home.work, "--", "true", status=2)
    assert not home.cli("job", "list", "-a", "--json").json


def test_a_working_directory_that_is_gone_is_not_blamed_on_an_option(home):
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" run -- true'
    done = subprocess.run(["sh", "-c", script, harness.CLI], cwd=home.work, env=harness.environment(BAILIFF_HOME=home.dir), stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 125 and b"the working directory: No such file" in done.stderr and b"--cwd" not in done.stderr, done


def test_nothing_is_decided_about_a_working_directory_that_is_gone(home):
    """Relative paths of discard would begin at the root, and a policy check would be one without a folder."""
    process = home.cli("run", "-d", "--cow", "--", "sh", "-c", "mkdir -p gone; echo x > gone/made", cwd=home.work).text.strip()
    home.cli("wait", process)
    for verb in (("diff", process, ".."), ("discard", process, ".."), ("apply", process, "made"), ("revert", process, "made"), ("policy", "check", "true"),
                 ("turn", "submit", "true"), ("mcp-server", "test", "x")):
        script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@"'
        done = subprocess.run(["sh", "-c", script, harness.CLI, *verb], cwd=home.work, env=harness.environment(BAILIFF_HOME=home.dir),
                              stdin=subprocess.DEVNULL, capture_output=True)
        assert done.returncode == 1 and not done.stdout and b"the working directory: No such file" in done.stderr, (verb, done)
    assert "the path is empty" in failure(home, "discard", process, "")
    assert "gone/made" in home.cli("diff", process).text


def test_a_relative_working_directory_starts_at_the_present_one(home):
    os.mkdir(os.path.join(home.work, "sub"))
    turn = home.cli("turn", "submit", "--cwd", "sub", "--line", "pwd > out", cwd=home.work).text.strip()
    assert turn
    until("it ran there", lambda: os.path.exists(os.path.join(home.work, "sub", "out")))
    assert "allow" in home.cli("policy", "check", "--cwd", "sub", "true", cwd=home.work).text
    assert "policy: option '--cwd': the path is empty" in failure(home, "policy", "check", "--cwd", "", "true")


def test_paths_that_are_empty_or_missing_are_rejected(home):
    """An empty path is usually an unset variable; accepting it would mean the working directory."""
    for option in ("--ro", "--rw", "--hide", "--cwd"):
        assert f"option '{option}': the path is empty" in failure(home, "run", option, "", "--", "true", status=125)
    missing = os.path.join(home.work, "missing")
    for option in ("--ro", "--rw"):
        assert f"option '{option}': '{missing}' does not exist" in failure(home, "run", option, missing, "--", "true", status=125)


def test_advice_does_not_contradict_the_message(home):
    home.cli("sandbox", "create", "--name", "dev", cwd=home.work)
    said = failure(home, "sandbox", "create", "--name", "dev")
    assert "use another name" in said and "repeat the first command" not in said, said
    said = failure(home, "sandbox", "checkpoint", "dev")
    assert "--cow" in said and "check its status" not in said, said
    said = failure(home, "publish", "dev", "0.0.0.0:0:3000")
    assert "publishAddresses" in said and "as root" not in said, said
    assert "list_ports" not in failure(home, "unpublish", "dev", "3000")
    home.cli("sandbox", "close", "dev")
    said = failure(home, "run", "--profile", "nope", "--", "true", status=125)
    assert "expected one of workspace" in said and "check the id" not in said, said


def test_a_denial_names_the_file_and_line_of_its_rule(home):
    with open(os.path.join(home.dir, "policy.json"), "w", encoding="utf-8") as f:
        f.write('{ "permissions": {\n  "deny": ["Bash(rm -rf *)"] } }\n')
    home.cli("policy", "reload")
    said = failure(home, "run", "--", "rm", "-rf", "x", status=126)
    assert "denied by Bash(rm -rf *)" in said and "policy.json, line 2 (user)" in said, said
    explain = said.split("bailiff policy explain ")[1].split()[0]
    assert "Bash(rm -rf *)" in home.cli("policy", "explain", explain).text


def test_exceeded_limit_is_reported_with_its_option(home):
    assert "ended by its time limit (--timeout)" in failure(home, "run", "--timeout", "200ms", "--", "sleep", "60", status=124)
    assert "without output (--idle-timeout)" in failure(home, "run", "--idle-timeout", "200ms", "--", "sleep", "60", status=124)


def test_malformed_policy_is_reported_with_the_fix(home):
    path = os.path.join(home.dir, "policy.json")
    home.stop()
    with open(path, "w", encoding="utf-8") as f:
        f.write('{ "permissions": {')
    home.start()
    said = failure(home, "run", "--", "true", status=125)
    assert "until the policy is corrected: policy.json: line 1" in said and "bailiff policy lint" in said and "later" not in said, said
    doctor = home.cli("doctor", cwd=home.work, status=1).text
    assert "fix: correct the file; bailiff policy lint" in doctor and "get_health" not in doctor, doctor
    said = failure(home, "policy", "reload")
    assert "no process is started until one is: policy.json: line 1" in said and "stays in effect" not in said, said
    os.unlink(path)
    home.cli("policy", "reload")
    with open(path, "w", encoding="utf-8") as f:
        f.write('{ "permissions": {')
    assert "the previous one stays in effect: policy.json: line 1" in failure(home, "policy", "reload")
    home.cli("run", "--", "true")


def test_missing_or_unknown_sandbox_verb_is_an_error(home):
    assert "missing verb: create" in failure(home, "sandbox", status=2)
    assert "unknown verb 'nope'" in failure(home, "sandbox", "nope", status=2)
    assert "did you mean 'bailiff daemon stop'?" in failure(home, "stop", status=2)
    assert "close: which sandbox?" in failure(home, "sandbox", "close", status=2)
    assert "list: unexpected argument 'x'" in failure(home, "sandbox", "list", "x", status=2)


def test_unknown_verb_gets_only_a_close_suggestion(home):
    for typed, meant in (("rnu", "run"), ("evnets", "events"), ("sandbx", "sandbox"), ("list", "ps"), ("shutdown", "daemon stop"), ("shell", "run -it")):
        assert f"did you mean 'bailiff {meant}'?" in failure(home, typed, status=2), typed
    for typed in ("restart", "xyz", "verbose"):
        assert "did you mean" not in failure(home, typed, status=2), typed


def test_an_option_of_another_subverb_is_not_ignored(home):
    home.cli("run", "true")
    for args, option in ((("session", "list", "--title", "x"), "--title"), (("task", "list", "--timeout", "5s"), "--timeout"),
                         (("task", "show", "--draft", "t"), "--draft"), (("store", "verify", "--older-than", "3d"), "--older-than"),
                         (("task", "create", "--agent", "x"), "--agent"), (("task", "run", "--agent", "--cow", "x"), "--cow"),
                         (("task", "wait", "--timeout", "1s", "t"), "--timeout"), (("job", "create", "--max-cost", "1", "--", "true"), "--max-cost"),
                         (("daemon", "status", "--force"), "--force"), (("daemon", "stop", "--timeout", "1s"), "--timeout"),
                         (("session", "create", "--archive"), "--archive"), (("policy", "explain", "--env", "A=b", "x"), "--env"),
                         (("model", "test", "--replace", "m"), "--replace"), (("mcp-server", "test", "--url", "http://localhost", "m"), "--url"),
                         (("fleet", "list", "--timeout", "1s"), "--timeout"), (("fleet", "run", "--items", "-", "--", "true"), "--items"),
                         (("sandbox", "list", "--memory", "1G"), "--memory"), (("sandbox", "create", "--all"), "--all"),
                         (("sandbox", "close", "--name", "x", "s"), "--name")):
        assert f"{args[1]} does not take {option}" in failure(home, *args, status=2)


def test_an_agent_without_a_prompt_does_not_ask_a_pipe_for_one(home):
    said = failure(home, "agent", status=2)
    assert "no prompt" in said and not said.startswith(">"), said


def test_limits_of_a_model_are_checked(home):
    for args in (("agent", "--max-cost", "abc", "hi"), ("task", "run", "--agent", "--max-requests", "1.5", "hi"), ("job", "run", "--agent", "--max-tokens", "many", "--item", "a")):
        said = failure(home, *args, status=2)
        assert f"option '{args[-3 if args[0] != 'job' else -4]}'" in said and "number" in said, said


def test_messages_name_the_argument_as_typed(home):
    process = home.cli("run", "-d", "--", "sleep", "1000").text.strip()
    for args, status, words in ((("run", "--pids", "-3", "true"), 125, "'-3' is not a whole number"), (("input", process, "x"), 1, "bailiff run -d -i gives it one"),
                                (("resize", process, "9x9"), 1, "bailiff run -t gives it one"), (("history", "--user", "no such user"), 1, "option '--user'"), (("history", "--grep", ""), 1, "option '--grep': must have"),
                                (("events", "--type", "nope.x"), 1, "option '--type'"), (("setup", "--write"), 2, "--write needs a client"), (("ps", "x"), 2, "takes no arguments")):
        assert words in failure(home, *args, status=status), args
    home.cli("kill", process)


def test_command_options_without_a_command_are_rejected(home):
    for args in (("task", "create", "--rw", ".", "something"), ("job", "create", "--rw", ".", "--item", "a")):
        assert "--rw needs a command" in failure(home, *args, status=2)


def test_wait_and_attach_report_their_own_errors_with_125(home):
    """Their other exit statuses are those of the command."""
    for verb in ("wait", "attach"):
        home.cli(verb, status=125)
        home.cli(verb, "--nonsense", status=125)


def test_malformed_id_matches_no_process(home):
    home.cli("run", "true")
    for given in ("", "no such/id", "a" * 5000):
        said = failure(home, "logs", given)
        assert "no process matches" in said and "match:" not in said and len(said) < 200, said


def test_waiting_for_an_unstarted_task_prints_a_hint(home):
    task = home.cli("task", "create", "--auto-complete", "something", "--", "true", cwd=home.work).text.strip()
    with home.cli_start("task", "wait", "--json", task) as waiting:
        notice = json.loads(waiting.stderr.readline())["notice"]
        assert "has not been started" in notice["message"] and f"bailiff task start {task}" in notice["hint"], notice
        home.cli("task", "start", task)
        assert waiting.wait(harness.PATIENCE) == 0


def test_a_missing_write_root_is_an_error_that_names_its_field(home):
    """At the start, not when it is named: what creates it may come before."""
    missing = os.path.join(os.path.dirname(home.work), "later")
    task = home.cli("task", "create", "--auto-complete", "--rw", missing, "something", "--", "touch", os.path.join(missing, "made"), cwd=home.work)
    assert "does not exist yet; it must when the command starts" in task.err.decode(), task.err
    home.cli("task", "start", task.text.strip())
    with home.rpc() as rpc:
        failed = until("it fails", lambda: (lambda t: t["status"] == "failed" and t)(rpc.call("get_task", taskId=task.text.strip())))
        asked = rpc.fails("start_process", command=["true"], cwd=home.work, sandbox={"writeRoots": [missing]}, code=-32014).message
        for message in (failed["lastError"]["message"], asked):
            assert f"sandbox.writeRoots: '{missing}' does not exist" in message and "create it" in message and "--rw" in message, message
        os.mkdir(missing)
        rpc.call("retry_task", taskId=task.text.strip(), reason="it exists")
        until("it completes", lambda: rpc.call("get_task", taskId=task.text.strip())["status"] == "completed")


def test_a_session_sandbox_is_not_shown_with_options_of_another(home):
    home.cli("sandbox", "create", "--name", "dev", cwd=home.work)
    said = failure(home, "sandbox", "show", "--rw", "/", "dev", status=2)
    assert "option '--rw': 'dev' is a session sandbox" in said, said
    home.cli("sandbox", "show", "dev", cwd=home.work)


def test_an_unknown_checkpoint_is_answered_with_those_that_exist(home):
    home.cli("sandbox", "create", "--cow", "--name", "dev", cwd=home.work)
    assert "it has none" in failure(home, "sandbox", "fork", "dev", "nope")
    home.cli("sandbox", "checkpoint", "dev", "base", cwd=home.work)
    said = failure(home, "sandbox", "fork", "dev", "nope")
    assert "which has base" in said and "get_sandbox" not in said, said


def test_a_number_that_is_too_long_is_rejected_by_the_name_of_its_field(home):
    said = home.cli("call", "list_events", '{"limit": 123456789012345678901234567890}', status=1).err.decode()
    assert "limit: must fit into 64 bits" in said, said


def test_task_with_a_successful_command_prints_how_to_complete_it(home):
    task = home.cli("task", "create", "--start", "something", "--", "true", cwd=home.work).text.strip()
    assert f"bailiff task complete {task}" in failure(home, "task", "wait", task, status=3)
    assert home.cli("task", "complete", "--summary", "fine", task).text.strip() == "completed"


def test_what_cannot_be_printed_is_an_error(home):
    """A script must not take an empty list for an answer. A reader that has seen enough is none."""
    home.cli("run", "--", "true")
    env = harness.environment(BAILIFF_HOME=home.dir)
    for words, status in ((("ps",), 1), (("help",), 1), (("version",), 1), (("ps", "--help"), 1), (("ps", "-a", "--json"), 1), (("wait", "--json", "@last"), 125),
                          (("run", "--", "echo", "x"), 125), (("run", "-d", "--", "true"), 125), (("events", "-n", "1"), 1), (("daemon", "status"), 1),
                          (("watch", "--json", home.cli("session", "list", "--json").json[0]["sessionId"]), 1), (("completion", "bash"), 1)):
        for redirection, why in ((">/dev/full", b"No space left on device"), (">&-", b"Bad file descriptor")):
            done = subprocess.run(["sh", "-c", f'exec "$0" "$@" {redirection}', harness.CLI, *words], cwd=home.work, env=env, stdin=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, timeout=harness.PATIENCE)
            assert done.returncode == status and b"write to stdout: " + why in done.stderr and done.stderr.count(b"\n") == 1, (words, redirection, done)
    done = subprocess.run(["sh", "-c", '"$0" ps -a --json | true', harness.CLI], env=env, stderr=subprocess.PIPE, timeout=harness.PATIENCE)
    assert done.returncode == 0 and not done.stderr, done
    done = subprocess.run(["sh", "-c", 'exec "$0" kill "$1" >&-', harness.CLI, home.cli("run", "-d", "--", "sleep", "60").text.strip()], env=env,
                          stderr=subprocess.PIPE, timeout=harness.PATIENCE)
    assert done.returncode == 0, done


if __name__ == "__main__":
    harness.main(globals())
