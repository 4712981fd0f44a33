"""Hooks before and after processes: existing programs check the work, by the common conventions, and their decision applies."""

import hashlib
import json
import os
import signal

import harness
from harness import until, valid
from hooks import NO_RM, VALIDATE, FORMAT, Hooked, decision_of, denied, entry, hooks_of, needs_jq, pre, run_turn, says, script, updates


def test_jq_hook_blocks_rm_and_the_denial_names_its_line():
    needs_jq()
    with Hooked({"PreToolUse": [entry(script("no-rm.sh"), "Bash")]}, {"no-rm.sh": NO_RM}) as home, home.rpc() as rpc:
        os.makedirs(home.made("keep"))
        error = denied(rpc, home, "true && rm -rf keep")
        decision = error.data["permissionDecision"]
        assert "Destructive command blocked by hook" in decision["decisionReason"] and "no-rm.sh" in decision["decisionReason"], decision
        ref, = decision["ruleRefs"]
        assert ref["file"] == "policy.json" and ref["layer"] == "user" and "no-rm.sh" in ref["rule"], ref
        lines = open(os.path.join(home.dir, "policy.json")).read().split("\n")
        assert lines[ref["line"] - 1].strip() == "{" and '"type": "command"' in lines[ref["line"]], (ref, lines)
        assert os.path.isdir(home.made("keep"))
        assert rpc.run(["echo", "rm"], cwd=home.work)[1]["exitCode"] == 0
        done = home.cli("run", "--", "rm", "-rf", "keep", status=126)
        assert b"Destructive command blocked by hook" in done.err and b"no-rm.sh" in done.err, done.err
        process = rpc.call("get_process", processId=error.data["processId"])
        assert process["status"] == "failed" and process["category"] == "permission" and process["commandLine"] == "true && rm -rf keep", process
        started = [e for e in hooks_of(rpc, "hook.started") if e["processId"] == error.data["processId"]]
        completed = [e for e in hooks_of(rpc, "hook.completed") if e["processId"] == error.data["processId"]]
        assert len(started) == len(completed) == 1, (started, completed)
        assert completed[0]["payload"]["decision"] == "deny" and completed[0]["payload"]["status"] == "completed", completed
        assert started[0]["payload"]["hookPoint"] == "pre_tool_use" and started[0]["payload"]["handlerRef"] == f"policy.json:{ref['line']}", started
        own = rpc.call("get_process", processId=started[0]["payload"]["processId"])
        assert own["status"] == "completed" and own["owner"]["kind"] == "hook" and own["sandboxProfile"] == "hook", own
        turn = [e for e in rpc.events() if e["type"] == "turn.failed" and e["turnId"] == process["turnId"]]
        assert len(turn) == 1, turn
        shown = home.cli("policy", "explain", process["processId"]).out
        assert b"no-rm.sh" in shown and b"hook       policy.json:" in shown and b"decided    deny" in shown, shown
        valid(home, rpc)


def test_python_hook_blocks_with_exit_code_2():
    with Hooked({"PreToolUse": [entry(script("validate.py"), "Bash")]}, {"validate.py": VALIDATE}) as home, home.rpc() as rpc:
        error = denied(rpc, home, "grep x file")
        assert "Use 'rg' (ripgrep)" in error.data["permissionDecision"]["decisionReason"], error.data
        assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0
        valid(home, rpc)


def test_hook_input_has_the_fields_of_the_convention():
    with Hooked(pre("cat >seen.json; printenv | sort >seen.env", matcher="*")) as home, home.rpc() as rpc:
        started = rpc.call("start_process", commandLine="echo 'a b'", cwd=home.work, justification="to see", env={"TOKEN": "s3cr3t-value"},
                           limits={"wallMs": 50000})
        rpc.wait(started["processId"])
        seen, env = json.loads(home.text("seen.json")), home.text("seen.env")
        assert seen["hook_event_name"] == "PreToolUse" and seen["tool_name"] == "Bash", seen
        assert seen["tool_input"] == {"command": "echo 'a b'", "description": "to see", "timeout": 50000}, seen
        assert seen["session_id"] == started["sessionId"] and seen["turn_id"] == started["turnId"] and seen["cwd"] == home.work, seen
        assert seen["permission_mode"] == "default" and seen["tool_use_id"] == started["processId"] and os.path.exists(seen["transcript_path"]), seen
        assert f"CLAUDE_PROJECT_DIR={home.work}\n" in env and f"BAILIFF_PROJECT_DIR={home.work}\n" in env, env
        # The command's own environment does not reach the hook.
        assert "s3cr3t-value" not in env and "s3cr3t-value" not in home.text("seen.json"), env
        rpc.run(["echo", "x y"], cwd=home.work)
        assert json.loads(home.text("seen.json"))["tool_input"]["command"] == "echo 'x y'", home.text("seen.json")
        # All of it, however long: a truncated command would not be evaluated completely.
        rpc.run(["true", "x" * 5000, "z" * 5000, "end"], cwd=home.work)
        assert json.loads(home.text("seen.json"))["tool_input"]["command"] == "true " + "x" * 5000 + " " + "z" * 5000 + " end"


def test_file_operations_of_gateways_reach_hooks_and_rules():
    tool = os.path.realpath(os.path.join(harness.BUILD, "bailiff-tool"))
    rules = {"deny": ["Read(/secret/**)", "Edit(/locked/**)"]}
    with Hooked(pre("cat >seen.json", matcher="Write"), permissions=rules) as home, home.rpc() as rpc:
        assert rpc.run([tool, "fs", "mkdir", "-", home.made("new")], cwd=home.work)[1]["exitCode"] == 0
        seen = json.loads(home.text("seen.json"))
        assert seen["tool_name"] == "Write" and seen["tool_input"]["file_path"] == home.made("new") and seen["tool_input"]["operation"] == "mkdir", seen
        # A copy reads its source, and a directory stands for everything in it.
        for name in ("secret", "locked", "sub/x"):
            os.makedirs(home.made(name))
        for words in (["copy", "-", home.made("secret/a"), home.made("b")], ["copy", "r", home.work, home.made("sub")],
                      ["copy", "-", home.made("b"), home.made("locked/b")], ["remove", "rf-", home.work], ["remove", "r-", home.made("locked")]):
            error = rpc.fails("start_process", command=[tool, "fs"] + words, cwd=home.work, code=-32010)
            assert error.data["permissionDecision"]["decision"] == "deny", (words, error.data)
        assert rpc.run([tool, "fs", "copy", "-", "/etc/passwd", home.made("p")], cwd=home.work)[1]["exitCode"] == 0
        assert rpc.run([tool, "fs", "remove", "rf-", home.made("sub")], cwd=home.work)[1]["exitCode"] == 0
    with Hooked(pre(says(updatedInput={"file_path": "elsewhere"}), matcher="Write")) as home, home.rpc() as rpc:
        error = rpc.fails("start_process", command=[tool, "fs", "mkdir", "-", home.made("new")], cwd=home.work, code=-32010)
        assert "updatedInput" in str(error) and not os.path.exists(home.made("new")), error


def test_secrets_reach_only_a_hook_that_requests_them():
    with Hooked(pre("printenv TOKEN >token; printenv OTHER >other; exit 0", env=["TOKEN"])) as home, home.rpc() as rpc:
        rpc.run(["true"], cwd=home.work, env={"TOKEN": "s3cr3t-value", "OTHER": "not asked for"})
        assert home.text("token") == "s3cr3t-value\n" and home.text("other") == "", (home.text("token"), home.text("other"))
        assert "s3cr3t-value" not in json.dumps(rpc.events())


def test_allow_of_a_hook_does_not_override_rules():
    rules = {"deny": ["Bash(rm:*)"], "ask": ["Bash(mv:*)"], "defaultMode": "untrusted"}
    with Hooked(pre(says(permissionDecision="allow", permissionDecisionReason="it is fine")), permissions=rules) as home, home.rpc() as rpc:
        started = rpc.call("start_process", command=["touch", "made"], cwd=home.work)
        assert started["status"] == "running" and rpc.wait(started["processId"])["exitCode"] == 0, started
        decision = decision_of(rpc, started["processId"])
        assert decision["decision"] == "allow" and decision["decisionSource"] == "hook" and "it is fine" in decision["decisionReason"], decision
        error = rpc.fails("start_process", command=["rm", "made"], cwd=home.work, code=-32010)
        assert error.data["permissionDecision"]["decisionSource"] == "rule", error.data
        for line in ("mv made other", "eval \"$X\""):
            asked = rpc.call("start_process", commandLine=line, cwd=home.work)
            assert asked["status"] == "waiting_permission", asked
            rpc.call("respond_action", actionId=asked["actionId"], decision="deny")
        assert home.text("made") is not None
        valid(home, rpc)


def test_deny_of_a_hook_applies_in_every_mode():
    for mode in ("default", "on_failure", "never", "plan", "auto", "on_request", "untrusted"):
        with Hooked(pre("echo not this >&2; exit 2"), permissions={"defaultMode": mode, "allow": ["Bash"]}) as home, home.rpc() as rpc:
            error = denied(rpc, home, "cat /dev/null")
            assert "not this" in error.data["permissionDecision"]["decisionReason"], (mode, error.data)


def test_ask_of_a_hook_waits_for_approval_and_hooks_run_once():
    with Hooked(pre("echo x >>count; " + says(permissionDecision="ask", permissionDecisionReason="are you sure?"))) as home, home.rpc() as rpc:
        started = rpc.call("start_process", command=["touch", "made"], cwd=home.work)
        assert started["status"] == "waiting_permission" and "are you sure?" in started["permissionDecision"]["decisionReason"], started
        assert started["permissionDecision"]["decisionSource"] == "hook"
        waiting = rpc.send("wait_process", processId=started["processId"])
        rpc.call("respond_action", actionId=started["actionId"], decision="allow")
        assert rpc.reply(waiting)["exitCode"] == 0 and home.text("made") == ""
        assert home.text("count") == "x\n", home.text("count")
        rpc.call("initialize", interactive=False)
        error = denied(rpc, home, "touch other")
        assert "no person can be asked" in error.data["permissionDecision"]["decisionReason"], error.data
        valid(home, rpc)


def test_strictest_decision_of_several_hooks_wins():
    yes, ask, defer, no = (says(permissionDecision=d, permissionDecisionReason=d + " it") for d in ("allow", "ask", "defer", "deny"))
    for hooks, want in (((yes, ask), "ask"), ((ask, defer, yes), "defer"), ((defer, yes, no), "deny"), ((yes, "true"), "allow")):
        with Hooked(pre(*hooks)) as home, home.rpc() as rpc:
            if want == "deny":
                assert "deny it" in denied(rpc, home, "touch x").data["permissionDecision"]["decisionReason"]
                continue
            started = rpc.call("start_process", commandLine="touch x", cwd=home.work)
            assert started["status"] == ("running" if want == "allow" else "waiting_permission"), started
            if want == "allow":
                rpc.wait(started["processId"])
            else:
                assert want + " it" in started["permissionDecision"]["decisionReason"], (want, started)
                rpc.call("respond_action", actionId=started["actionId"], decision="deny")


def test_updated_input_is_what_runs():
    with Hooked(pre(updates("echo changed >made"))) as home, home.rpc() as rpc:
        started, done = rpc.run(["echo", "as", "it", "was"], cwd=home.work)
        assert done["exitCode"] == 0 and home.text("made") == "changed\n", done
        process = rpc.call("get_process", processId=started["processId"])
        assert process["commandLine"] == "echo changed >made", process
        decision = decision_of(rpc, started["processId"])
        assert json.loads(rpc.output(decision["updatedInputRef"])) == {"command": "echo changed >made"}, decision
        completed, = [e for e in hooks_of(rpc, "hook.completed") if e["processId"] == started["processId"]]
        assert completed["payload"]["updatedInputRef"] == decision["updatedInputRef"], completed
        valid(home, rpc)


def test_updated_input_is_checked_by_the_rules():
    rules = {"deny": ["Bash(rm:*)"], "ask": ["Bash(mv:*)"]}
    for line in ("rm keep", "true; 'r'm keep", "sh -c 'rm keep'"):
        with Hooked(pre(updates(line)), permissions=rules) as home, home.rpc() as rpc:
            open(home.made("keep"), "w").close()
            error = rpc.fails("start_process", command=["true"], cwd=home.work, code=-32010)
            assert error.data["permissionDecision"]["decisionSource"] == "rule", error.data
            assert home.text("keep") == ""
    with Hooked(pre(updates("mv keep gone")), permissions=rules) as home, home.rpc() as rpc:
        open(home.made("keep"), "w").close()
        started = rpc.call("start_process", command=["true"], cwd=home.work)
        assert started["status"] == "waiting_permission", started
        action, = rpc.call("list_actions", status="pending")["actions"]
        assert "mv keep gone" in action["prompt"], action
        assert rpc.call("get_process", processId=started["processId"])["commandLine"] == "mv keep gone"
        waiting = rpc.send("wait_process", processId=started["processId"])
        rpc.call("respond_action", actionId=started["actionId"], decision="allow")
        assert rpc.reply(waiting)["exitCode"] == 0 and home.text("gone") == "" and home.text("keep") is None
        valid(home, rpc)
    # An entry that is not a command is rejected.
    with Hooked(pre(says(updatedInput={"other": 1}))) as home, home.rpc() as rpc:
        rpc.fails("start_process", command=["touch", "made"], cwd=home.work, code=-32010)
        assert home.text("made") is None


FAILURES = {
    "exit 1": ("echo broken >&2; exit 1", "exit", "exit code 1: broken"),
    "signal": ("kill -9 $$", "exit", ""),
    "bad JSON": ("echo '{\"hookSpecificOutput\": '", "output", "not valid JSON"),
    "wrong answer": ("echo '{\"hookSpecificOutput\": {\"permissionDecision\": \"maybe\"}}'", "output", "permissionDecision must be"),
    "another point": ("echo '{\"hookSpecificOutput\": {\"hookEventName\": \"Stop\"}}'", "output", "hookEventName is not PreToolUse"),
    "not there": ("/no/such/program", "exit", "exit code 127"),
    "flood": ("cat /dev/zero", None, "longer than"),
    "too late": ("sleep 1000", "timeout", "did not answer in time"),
}


def test_failing_hook_denies():
    for name, (command, category, words) in FAILURES.items():
        with Hooked(pre(command, timeout=0.3 if name == "too late" else 60)) as home, home.rpc() as rpc:
            error = denied(rpc, home, "touch made")
            reason = error.data["permissionDecision"]["decisionReason"]
            assert words in reason and "failed" in reason, (name, reason)
            failed, = hooks_of(rpc, "hook.failed", "pre_tool_use")
            assert not failed["payload"]["failedOpen"] and category in (None, failed["payload"]["category"]), (name, failed)
            assert home.text("made") is None
            valid(home, rpc)


def test_hook_that_cannot_be_started_denies():
    with Hooked(pre("true", profile="no-such-profile")) as home, home.rpc() as rpc:
        assert "could not be started" in denied(rpc, home, "touch made").data["permissionDecision"]["decisionReason"]
        failed, = hooks_of(rpc, "hook.failed")
        assert failed["payload"]["category"] == "spawn", failed
        valid(home, rpc)
    with Hooked({"PreToolUse": [{"hooks": [{"type": "command", "command": "/no/such/program", "args": []}]}]}) as home, home.rpc() as rpc:
        denied(rpc, home, "touch made")
        assert home.text("made") is None
    with Hooked(pre("true", profile="host")) as home, home.rpc() as rpc:
        denied(rpc, home, "touch made")


def test_hook_can_be_configured_to_fail_open():
    with Hooked(pre("exit 1", onFailure="allow")) as home, home.rpc() as rpc:
        assert rpc.run(["touch", "made"], cwd=home.work)[1]["exitCode"] == 0
        failed, = hooks_of(rpc, "hook.failed")
        assert failed["payload"]["failedOpen"], failed
        warned = [e["payload"] for e in rpc.events() if e["type"] == "runtime.warning" and e["payload"]["code"] == "hook_failed_open"]
        assert warned and "policy.json:" in warned[0]["detail"], warned
    with Hooked({"UserPromptSubmit": [entry("exit 1", onFailure="block")]}) as home, home.rpc() as rpc:
        rpc.fails("submit_turn", input=[{"type": "text", "text": "hello"}], options={"cwd": home.work}, code=-32010)


def test_hook_arguments_are_passed_without_a_shell():
    with Hooked({"PreToolUse": [{"hooks": [{"type": "command", "command": "/bin/touch", "args": ["${CLAUDE_PROJECT_DIR}/made; touch x"]}]}]}) as home:
        with home.rpc() as rpc:
            rpc.run(["true"], cwd=home.work)
            assert home.text("made; touch x") == "" and home.text("x") is None


def test_matchers_and_conditions_select_hooks():
    hooks = {"PreToolUse": [
        entry("echo bash >>log", "Bash"), entry("echo write >>log", "Write|Edit"), entry("echo regex >>log", "^(Ba|Wri).*"), entry("echo none >>log", "Bas"),
        entry("echo git >>log", "Bash", **{"if": "Bash(git *)"}), entry("echo all >>log", ""), entry("echo shell >>log", "shell")]}
    with Hooked(hooks) as home, home.rpc() as rpc:
        def log():
            words = sorted((home.text("log") or "").split())
            open(home.made("log"), "w").close()
            return words
        rpc.run(["true"], cwd=home.work)
        assert log() == ["all", "bash", "regex", "shell"]
        rpc.run(["sh", "-c", "true && git --version"], cwd=home.work)
        assert log() == ["all", "bash", "git", "regex", "shell"]
        run_turn(rpc, home, {"type": "tool_call", "toolName": "write_file", "arguments": {"path": "w", "content": "x"}})
        assert log() == ["all", "regex", "write"]


def test_edits_and_searches_have_the_conventions_tool_names():
    with Hooked(pre("cat >seen.json", matcher="Edit|Glob|Grep")) as home, home.rpc() as rpc:
        for tool, arguments, name, members in (
                ("edit_file", {"path": "f", "oldText": "a", "newText": "b"}, "Edit", {"file_path": home.made("f"), "old_string": "a", "new_string": "b"}),
                ("glob", {"pattern": "*", "path": "."}, "Glob", {"pattern": "*", "path": home.work}),
                ("grep", {"pattern": "x", "include": "*.c", "context": 1}, "Grep", {"pattern": "x", "glob": "*.c", "-C": 1})):
            with open(home.made("f"), "w", encoding="utf-8") as f:
                f.write("a")
            assert run_turn(rpc, home, {"type": "tool_call", "toolName": tool, "arguments": arguments})["status"] == "completed"
            seen = json.loads(home.text("seen.json"))
            assert seen["tool_name"] == name and seen["tool_input"] == members, seen
            os.unlink(home.made("seen.json"))
    with Hooked(pre(says(updatedInput={"file_path": "g", "old_string": "a", "new_string": "c"}), matcher="Edit")) as home, home.rpc() as rpc:
        with open(home.made("g"), "w", encoding="utf-8") as f:
            f.write("a")
        run_turn(rpc, home, {"type": "tool_call", "toolName": "edit_file", "arguments": {"path": "f", "oldText": "a", "newText": "b"}})
        assert home.text("g") == "c", "a hook changes an edit"


def test_hooks_do_not_run_for_hooks():
    with Hooked(pre("echo x >>log", matcher="*")) as home, home.rpc() as rpc:
        rpc.run(["true"], cwd=home.work)
        assert home.text("log") == "x\n" and len(hooks_of(rpc, "hook.started")) == 1


def test_hooks_run_in_parallel():
    # Each hook waits for all the others: sequentially they would never end.
    meet = "touch here.{0}; for i in $(seq 0 19); do until [ -e here.$i ]; do sleep 0.01; done; done"
    with Hooked(pre(*[meet.format(i) for i in range(20)])) as home, home.rpc() as rpc:
        assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0
        assert len(hooks_of(rpc, "hook.completed")) == 20
        valid(home, rpc)


def test_hooks_do_not_count_for_the_process_limit():
    hooks = [f"touch seen.{i}; sleep 0.2" for i in range(5)]
    with Hooked(pre(*hooks), config={"maxProcesses": 4}) as home, home.rpc() as rpc:
        sent = [rpc.send("start_process", command=["touch", f"made.{i}"], cwd=home.work) for i in range(4)]
        for request in sent:
            rpc.wait(rpc.reply(request)["processId"])
        assert [home.text(f"made.{i}") for i in range(4)] == [""] * 4
        assert len(hooks_of(rpc, "hook.completed")) == 20


def test_parallel_starts_get_their_own_decisions():
    with Hooked(pre("case $(cat) in *odd*) exit 2;; esac")) as home, home.rpc() as rpc:
        sent = [rpc.send("start_process", commandLine=f"echo {'odd' if i % 2 else 'even'} >made.{i}", cwd=home.work) for i in range(40)]
        allowed = 0
        for i, request in enumerate(sent):
            try:
                rpc.wait(rpc.reply(request)["processId"])
                allowed += 1
                assert i % 2 == 0 and home.text(f"made.{i}") == "even\n", i
            except harness.RpcError as e:
                assert i % 2 and e.code == -32010 and home.text(f"made.{i}") is None, (i, e)
        assert allowed == 20
        valid(home, rpc)


def test_async_hook_does_not_delay_the_start():
    with Hooked(pre("echo '{\"async\": true}'; until [ -e go ]; do sleep 0.01; done; touch went")) as home, home.rpc() as rpc:
        assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0
        assert not hooks_of(rpc, "hook.completed")
        open(home.made("go"), "w").close()
        until("it ends", lambda: hooks_of(rpc, "hook.completed"))
        assert home.text("went") == ""
    with Hooked({"PreToolUse": [entry("sleep 1000", "Bash", **{"async": True})]}) as home, home.rpc() as rpc:
        assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0


def test_permission_request_hook_answers_instead_of_a_person():
    needs_jq()

    def request(command):
        return {"PermissionRequest": [entry(command, "Bash")]}
    yes = """jq -e '.permission_suggestions[0].behavior == "allow"' >/dev/null &&
        echo '{"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}'"""
    no = """echo '{"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "deny", "message": "not here"}}}'"""
    with Hooked(request(yes), permissions={"defaultMode": "untrusted", "ask": ["Bash(mv:*)"]}) as home, home.rpc() as rpc:
        rpc.call("initialize", interactive=False)
        started, done = rpc.run(["touch", "made"], cwd=home.work)
        assert done["exitCode"] == 0 and home.text("made") == "", done
        resolved, = [e for e in rpc.events() if e["type"] == "permission.resolved"]
        assert resolved["payload"]["outcome"] == "allowed" and resolved["payload"]["source"] == "hook" and resolved["processId"] == started["processId"], resolved
        assert rpc.run(["cat", "/dev/null"], cwd=home.work)[1]["exitCode"] == 0
        # Even then a hook's decision does not override a rule that asks.
        rpc.fails("start_process", command=["mv", "made", "x"], cwd=home.work, code=-32010)
        valid(home, rpc)
    with Hooked(request(no), permissions={"defaultMode": "untrusted"}) as home, home.rpc() as rpc:
        assert "not here" in denied(rpc, home, "touch made").data["permissionDecision"]["decisionReason"]
        assert rpc.run(["cat", "/dev/null"], cwd=home.work)[1]["exitCode"] == 0
    with Hooked(request("true"), permissions={"defaultMode": "untrusted"}) as home, home.rpc() as rpc:
        assert rpc.call("start_process", command=["touch", "made"], cwd=home.work)["status"] == "waiting_permission"


def test_formatter_hook_runs_before_the_next_part_of_the_turn():
    needs_jq()
    hooks = {"PostToolUse": [entry(script("format.sh"), "Edit|MultiEdit|Write")]}
    with Hooked(hooks, {"format.sh": FORMAT}) as home, home.rpc() as rpc:
        ended = run_turn(rpc, home, {"type": "tool_call", "toolName": "write_file", "arguments": {"path": "made.txt", "content": "small letters\n"}},
                         {"type": "tool_call", "toolName": "shell", "arguments": {"commandLine": "cp made.txt seen.txt"}})
        assert ended["type"] == "turn.completed", ended
        # The next part of the turn has waited for it.
        assert home.text("made.txt") == home.text("seen.txt") == "SMALL LETTERS\n", (home.text("made.txt"), home.text("seen.txt"))
        patch = "*** Begin Patch\n*** Add File: other.txt\n+more\n*** End Patch\n"
        run_turn(rpc, home, {"type": "tool_call", "toolName": "apply_patch", "arguments": {"patch": patch}})
        assert home.text("other.txt") == "MORE\n", home.text("other.txt")
        started = hooks_of(rpc, "hook.started", "post_tool_use")
        assert len(started) == 2 and all(e.get("toolCallId") for e in started), started
        valid(home, rpc)


def test_post_hook_runs_after_an_approved_command():
    with Hooked({"PostToolUse": [entry("touch looked")]}, permissions={"ask": ["Bash(cat:*)"]}) as home, home.rpc() as rpc:
        asked = rpc.call("start_process", command=["cat", "/dev/null"], cwd=home.work)
        rpc.call("respond_action", actionId=asked["actionId"], decision="allow")
        assert rpc.wait(asked["processId"])["exitCode"] == 0
        until("it looked", lambda: home.text("looked") is not None)


def test_output_of_post_hooks_is_in_the_tool_result():
    answer = {"decision": "block", "reason": "the linter objects", "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "line 3",
                                                                                         "updatedToolOutput": "(hidden)"}}
    with Hooked({"PostToolUse": [entry("echo '%s'" % json.dumps(answer), "Write")]}) as home, home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[{"type": "text", "text": "hello"}], options={"cwd": home.work})
        done = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="write_file", arguments={"path": "made", "content": "x"})
        assert done["status"] == "completed" and done["hookReason"] == "the linter objects", done
        assert rpc.output(done["hookContextRefs"][0]) == b"line 3" and rpc.output(done["updatedResultRef"]) == b'"(hidden)"', done
        valid(home, rpc)


def test_command_cannot_change_hook_scripts():
    with Hooked(pre(script("check.sh")), {"check.sh": "#!/bin/sh\ncase $(cat) in *forbidden*) exit 2;; esac\n"}) as home, home.rpc() as rpc:
        for line in ("echo exit 0 >.claude/hooks/check.sh", "rm .claude/hooks/check.sh", "mv .claude/hooks .claude/h", "mv .claude .c"):
            assert rpc.run(["sh", "-c", line], cwd=home.work)[1]["exitCode"] != 0, line
        denied(rpc, home, "echo forbidden")


def test_input_of_post_hooks_has_output_and_exit_code():
    hooks = {"PostToolUse": [entry("cat >good.json", "Bash")], "PostToolUseFailure": [entry("cat >bad.json", "Bash")]}
    with Hooked(hooks) as home, home.rpc() as rpc:
        started, _ = rpc.run(["sh", "-c", "echo out; echo err >&2"], cwd=home.work)
        until("the hook ran", lambda: hooks_of(rpc, "hook.completed", "post_tool_use"))
        good = json.loads(home.text("good.json"))
        response = good["tool_response"]
        assert response["stdout"] == "out\n" and response["stderr"] == "err\n" and response["exit_code"] == 0 and not response["interrupted"], good
        assert good["hook_event_name"] == "PostToolUse" and good["tool_name"] == "Bash" and isinstance(good["duration_ms"], int), good
        assert rpc.output(response["stdout_ref"]) == b"out\n" and good["tool_use_id"] == started["processId"], good
        rpc.run(["sh", "-c", "exit 3"], cwd=home.work)
        until("the hook ran", lambda: hooks_of(rpc, "hook.completed", "post_tool_failure"))
        bad = json.loads(home.text("bad.json"))
        assert bad["hook_event_name"] == "PostToolUseFailure" and bad["tool_response"]["exit_code"] == 3 and bad["error"] and not bad["is_interrupt"], bad
        assert len(hooks_of(rpc, "hook.started")) == 2
        turn = rpc.call("get_thread_read", threadId=started["threadId"])["turns"][-1]
        run, = turn["hookRuns"]
        assert (run["hookPoint"], run["status"]) == ("post_tool_use", "completed") and run["durationMs"] >= 0 and run["processId"], turn
        valid(home, rpc)


def test_post_hook_can_stop_the_turn():
    hooks = {"PostToolUse": [entry("echo '{\"continue\": false, \"stopReason\": \"enough\"}'", "Bash")]}
    with Hooked(hooks) as home, home.rpc() as rpc:
        ended = run_turn(rpc, home, {"type": "command", "commandLine": "true"}, {"type": "command", "commandLine": "touch made"})
        assert ended["type"] == "turn.failed" and "enough" in ended["payload"]["message"] and home.text("made") is None, ended
        valid(home, rpc)


def test_start_fails_if_the_runtime_dies_during_a_hook():
    with Hooked(pre("touch looking; until [ -e go ]; do sleep 0.01; done")) as home:
        with home.rpc() as rpc:
            rpc.send("start_process", command=["touch", "made"], cwd=home.work)
            until("the hook runs", lambda: home.text("looking") is not None)
            home.kill_part("runtime")
        until("it answers", home.answers)
        with home.rpc() as rpc:
            failed = until("it is settled", lambda: [e for e in rpc.events() if e["type"] == "process.failed" and e["payload"]["category"] == "permission"])
            subject = failed[0]["processId"]
            assert "restarted" in failed[0]["payload"]["message"], failed
            hook = until("the hook has ended", lambda: hooks_of(rpc, "hook.failed"))[0]
            assert hook["processId"] == subject, hook
            until("the turn, too", lambda: [e for e in rpc.events() if e["type"] == "turn.failed" and e["turnId"] == failed[0]["turnId"]])
            assert rpc.call("get_process", processId=subject)["status"] == "failed"
            open(home.made("go"), "w").close()
            assert rpc.run(["touch", "again"], cwd=home.work, sessionId=failed[0]["sessionId"])[1]["exitCode"] == 0
            assert home.text("made") is None
            valid(home, rpc)


def test_start_fails_if_the_daemon_is_killed_during_hooks():
    with Hooked(pre("touch one; sleep 1000", "touch two; sleep 1000")) as home:
        with home.rpc() as rpc:
            rpc.send("start_process", command=["touch", "made"], cwd=home.work)
            until("the hooks run", lambda: home.text("one") is not None and home.text("two") is not None)
        home.stop(signal.SIGKILL)
        home.start()
        with home.rpc() as rpc:
            subject = hooks_of(rpc, "hook.started")[0]["processId"]
            assert [e["payload"]["category"] for e in hooks_of(rpc, "hook.failed")] == ["lost", "lost"]
            assert rpc.call("get_process", processId=subject)["status"] == "failed"
            assert len([e for e in rpc.events() if e["type"] == "process.failed" and e["processId"] == subject]) == 1
            assert len([e for e in rpc.events() if e["type"] == "turn.failed"]) == 1 and home.text("made") is None
            valid(home, rpc)


def test_turn_continues_after_a_restart_and_runs_its_hooks_again():
    with Hooked(pre("echo x >>looks; until [ -e go ]; do sleep 0.01; done")) as home:
        with home.rpc() as rpc:
            turn = rpc.call("submit_turn", input=[{"type": "command", "commandLine": "echo x >>made"}], options={"cwd": home.work})
            until("the hook runs", lambda: home.text("looks"))
            home.kill_part("runtime")
        until("it answers", home.answers)
        with home.rpc() as rpc:
            until("it looks again", lambda: home.text("looks") == "x\nx\n")
            assert home.text("made") is None
            open(home.made("go"), "w").close()
            until("the turn ends", lambda: [e for e in rpc.events() if e["type"] == "turn.completed" and e["turnId"] == turn["turnId"]])
            assert home.text("made") == "x\n"
            valid(home, rpc)


def test_start_is_terminated_by_an_orderly_stop_during_a_hook():
    with Hooked(pre("touch looking; until [ -e go ]; do sleep 0.01; done")) as home:
        with home.rpc() as rpc:
            rpc.send("start_process", command=["touch", "made"], cwd=home.work)
            until("the hook runs", lambda: home.text("looking") is not None)
            home.restart()
        with home.rpc() as rpc:
            subject = hooks_of(rpc, "hook.started")[0]["processId"]
            assert rpc.call("get_process", processId=subject)["status"] == "terminated"
            assert hooks_of(rpc, "hook.failed") and home.text("made") is None
            valid(home, rpc)


def test_interrupt_during_a_hook_cancels_the_start():
    with Hooked(pre("touch looking; sleep 1000")) as home, home.rpc() as rpc:
        turn = rpc.call("submit_turn", input=[{"type": "command", "commandLine": "touch made"}], options={"cwd": home.work})
        until("the hook runs", lambda: home.text("looking") is not None)
        assert rpc.call("interrupt_turn", sessionId=turn["sessionId"], turnId=turn["turnId"], reason="enough")["status"] == "interrupted"
        assert home.text("made") is None
        ended, = [e for e in rpc.events() if e["type"] == "turn.failed" and e["turnId"] == turn["turnId"]]
        assert ended["status"] == "cancelled", ended
        valid(home, rpc)
    # A start ends with its client's connection, if the client requested that.
    with Hooked(pre("touch looking; sleep 1000")) as home:
        with home.rpc() as rpc:
            rpc.send("start_process", command=["touch", "made"], cwd=home.work, onDisconnect="terminate")
            until("the hook runs", lambda: home.text("looking") is not None)
        with home.rpc() as rpc:
            subject = hooks_of(rpc, "hook.started")[0]["processId"]
            until("it is over", lambda: [e for e in rpc.events() if e["type"] == "process.terminated" and e["processId"] == subject])
            assert hooks_of(rpc, "hook.failed")


def workspace_file(home, hooks, **more):
    """Its hash, as a person would trust it."""
    os.makedirs(home.made(".bailiff"), exist_ok=True)
    text = json.dumps(dict(more, hooks=hooks), indent=1).encode()
    with open(home.made(".bailiff/policy.json"), "wb") as f:
        f.write(text)
    return hashlib.sha256(text).hexdigest()


def test_workspace_hooks_run_after_a_process_of_an_earlier_runtime():
    with Hooked({}) as home, home.rpc() as rpc:
        workspace_file(home, {"PostToolUse": [entry("true", "Bash")]})
        process = rpc.start(["sh", "-c", "until test -e go; do sleep 0.05; done"], cwd=home.work)["processId"]
        home.kill_part("runtime")
        until("the runtime is back", home.answers)
        with home.rpc() as again:
            open(home.made("go"), "w").close()
            assert again.wait(process)["exitCode"] == 0
            until("the hook ran", lambda: hooks_of(again, "hook.completed", "post_tool_use"))


def test_workspace_hooks_do_not_run_until_trusted():
    untrusted = {"permissions": {"defaultMode": "untrusted"}}

    def trust(*hashes, code=None):
        home.policy(dict(untrusted, trustedHooks=list(hashes)))
        if code:
            return rpc.fails("reload_policy", code=code)
        return rpc.call("reload_policy")
    with Hooked({}, **untrusted) as home, home.rpc() as rpc:
        assert rpc.run(["cat", "/dev/null"], cwd=home.work)[1]["exitCode"] == 0
        hooks = dict(pre("touch ran", onFailure="allow"), PostToolUse=[entry("touch ran", "Bash")], UserPromptSubmit=[entry("touch ran")],
                     PermissionRequest=[entry("touch ran")], SessionStart=[entry("touch ran")], Stop=[entry("touch ran")])
        hashed = workspace_file(home, hooks)
        # Operations that it would have checked become questions: it might have denied them.
        said = rpc.call("evaluate_permission", command=["cat", "/dev/null"], cwd=home.work)
        assert said["permissionDecision"]["decision"] == "ask" and "unless trusted" in said["permissionDecision"]["decisionReason"], said
        asked = rpc.call("start_process", command=["cat", "/dev/null"], cwd=home.work)
        assert asked["status"] == "waiting_permission", asked
        decision = decision_of(rpc, asked["processId"])
        assert decision["decisionSource"] == "hook" and hashed in decision["decisionReason"], decision
        assert decision["ruleRefs"][0]["file"] == home.made(".bailiff/policy.json"), decision
        rpc.call("respond_action", actionId=asked["actionId"], decision="allow")
        assert rpc.wait(asked["processId"])["exitCode"] == 0
        turn = rpc.call("submit_turn", input=[{"type": "text", "text": "hello"}], options={"cwd": home.work})
        assert rpc.call("complete_turn", turnId=turn["turnId"])["status"] == "completed"
        assert home.text("ran") is None
        until("the second hook ran", lambda: hooks_of(rpc, "hook.failed", "post_tool_use"))
        failed = {e["payload"]["hookPoint"]: e["payload"] for e in hooks_of(rpc, "hook.failed")}
        assert {p["category"] for p in failed.values()} == {"untrusted"}, failed
        assert not failed["pre_tool_use"]["failedOpen"] and failed["stop"]["failedOpen"] and failed["post_tool_use"]["failedOpen"], failed
        # In every other mode the commands run.
        session = rpc.call("create_session")["sessionId"]
        rpc.call("set_permission_mode", sessionId=session, mode="default")
        assert rpc.run(["cat", "/dev/null"], cwd=home.work, sessionId=session)[1]["exitCode"] == 0
        assert home.text("ran") == ""
        until("and afterwards", lambda: hooks_of(rpc, "hook.completed", "post_tool_use"))
        os.unlink(home.made("ran"))
        # Trusted by its hash, it runs; another text is another file.
        trust("0" * 64, hashed)
        assert rpc.run(["cat", "/dev/null"], cwd=home.work)[1]["exitCode"] == 0
        assert home.text("ran") == ""
        workspace_file(home, pre("touch other"), trustedHooks=[hashed])
        asked = rpc.call("start_process", command=["cat", "/dev/null"], cwd=home.work)
        assert asked["status"] == "waiting_permission" and home.text("other") is None, asked
        for bad in ("x", hashed.upper(), 7):
            assert "trustedHooks" in trust(bad, code=-32602).message
        # A trust entry in the workspace's own file has no effect.
        home.policy({})
        rpc.call("reload_policy")
        workspace_file(home, pre("touch other"), permissions={"defaultMode": "untrusted"})
        assert rpc.call("start_process", command=["cat", "/dev/null"], cwd=home.work)["status"] == "waiting_permission"
        assert home.text("other") is None
        valid(home, rpc)


def test_workspace_hooks_can_only_tighten():
    trusted = []

    def write(home, hooks):
        trusted.append(workspace_file(home, hooks))
        home.policy({"permissions": {"defaultMode": "untrusted"}, "trustedHooks": trusted})
        rpc.call("reload_policy")
    with Hooked({}, permissions={"defaultMode": "untrusted"}) as home, home.rpc() as rpc:
        write(home, pre(updates("touch smuggled")))
        asked = rpc.call("start_process", command=["touch", "made"], cwd=home.work)
        assert asked["status"] == "waiting_permission", asked  # its approval has no effect, and it rewrites nothing
        assert rpc.call("get_process", processId=asked["processId"])["command"] == ["touch", "made"]
        write(home, pre("echo 'not in this project' >&2; exit 2"))
        error = denied(rpc, home, "cat /dev/null")
        ref, = error.data["permissionDecision"]["ruleRefs"]
        assert ref["layer"] == "workspace" and ref["file"] == home.made(".bailiff/policy.json") and ref["line"] > 1, ref
        write(home, {"PreToolUse": [{"hooks": [{"type": "http", "url": "http://localhost"}]}]})
        denied(rpc, home, "cat /dev/null")  # a file that cannot be read leaves the previous version in effect
        # It can write only where the checked command can.
        write(home, {"PreToolUse": [entry("touch by-the-hook; true", "Bash")]})
        assert rpc.run(["cat", "/dev/null"], cwd=home.work, profile="readonly")[1]["exitCode"] == 0
        assert home.text("by-the-hook") is None
        assert rpc.run(["cat", "/dev/null"], cwd=home.work)[1]["exitCode"] == 0
        assert home.text("by-the-hook") == ""
        write(home, {"PostToolUse": [entry("touch formatted", "Bash")]})
        assert rpc.run(["cat", "/dev/null"], cwd=home.work)[1]["exitCode"] == 0
        until("it looked", lambda: home.text("formatted") is not None)
        # A plan changes nothing.
        session = rpc.call("create_session")["sessionId"]
        rpc.call("set_permission_mode", sessionId=session, mode="plan")
        write(home, {"PreToolUse": [entry("touch planned; true", "Bash")]})
        assert rpc.run(["cat", "/dev/null"], cwd=home.work, sessionId=session)[1]["exitCode"] == 0
        assert home.text("planned") is None
        valid(home, rpc)


def test_lint_and_reload_report_invalid_hooks():
    with Hooked(pre("exit 2")) as home, home.rpc() as rpc:
        denied(rpc, home, "true")
        for bad, words in (({"PreToolUse": [{"hooks": [{"type": "prompt", "prompt": "x"}]}]}, "prompt\" is unavailable"),
                           ({"PreToolUse": [{"hooks": [{"type": "http", "url": "ftp://x"}]}]}, "url must begin with http"),
                           ({"PreTooluse": []}, "unknown hook point"),
                           ({"PreToolUse": [{"matcher": "(", "hooks": [{"type": "command", "command": "x"}]}]}, "not a valid regular expression"),
                           ({"PreToolUse": [{"hooks": [{"type": "command", "command": "x", "timeout": -1}]}]}, "timeout must be"),
                           ({"PreToolUse": [{"hooks": [{"type": "command", "command": "x", "if": "Bash("}]}]}, "is not a valid rule")):
            home.policy({"hooks": bad})
            done = home.cli("policy", "lint", os.path.join(home.dir, "policy.json"), status=None)
            assert done.status != 0 and words.encode() in done.out and b"line " in done.out, (bad, done.out)
            rpc.fails("reload_policy")
            denied(rpc, home, "true")
        home.policy({"hooks": {"Notification": [entry("true")], "PreToolUse": [entry("true", once=True)]}})
        done = home.cli("policy", "lint", os.path.join(home.dir, "policy.json"))
        assert b"0 rules, 1 hooks" in done.out and b"no such hook point" in done.out and b"'once' is ignored" in done.out, done.out
        rpc.call("reload_policy")
        assert rpc.run(["true"], cwd=home.work)[1]["exitCode"] == 0


def test_dry_run_lists_the_hooks_that_would_run():
    hooks = dict(pre("touch ran"), PermissionRequest=[entry("touch ran", "Write")])
    with Hooked(hooks) as home, home.rpc() as rpc:
        said = rpc.call("evaluate_permission", command=["true"], cwd=home.work)
        hook, = said["hooks"]
        assert hook["file"] == "policy.json" and hook["line"] > 1 and hook["rule"] == "PreToolUse(Bash) touch ran", hook
        assert b"touch ran" in home.cli("policy", "check", "--", "true").out
        assert home.text("ran") is None
        assert [h["rule"] for h in rpc.call("get_policy")["hooks"]] == ["PreToolUse(Bash) touch ran", "PermissionRequest(Write) touch ran"]
        assert b"PermissionRequest(Write) touch ran" in home.cli("policy", "show").out


def test_end_of_a_tool_call_names_the_hooks_that_decided_it():
    failing = {"type": "tool_call", "toolName": "shell", "arguments": {"command": "exit 3"}}
    with Hooked(pre("exit 0", matcher="Bash")) as home, home.rpc() as rpc:
        for part, kind in (({"type": "command", "commandLine": "true"}, "tool.result"), (failing, "tool.failed")):
            run_turn(rpc, home, part)
            events = {e["eventId"]: e for e in rpc.events()}
            end = [e for e in events.values() if e["type"] == kind][-1]
            decided = [events[ref] for ref in end["payload"]["hookRefs"]]
            assert [(e["type"], e["payload"]["hookPoint"], e["toolCallId"]) for e in decided] == [("hook.completed", "pre_tool_use", end["toolCallId"])], decided
        valid(home, rpc)
    with Hooked({}) as home, home.rpc() as rpc:
        run_turn(rpc, home, {"type": "command", "commandLine": "true"})
        assert "hookRefs" not in next(e for e in rpc.events() if e["type"] == "tool.result")["payload"]


def test_rewritten_tool_call_is_checked_by_the_rules():
    needs_jq()
    change = """jq '{hookSpecificOutput: {hookEventName: "PreToolUse", updatedInput: (.tool_input | .content = "by the hook")}}'"""
    move = """jq '{hookSpecificOutput: {hookEventName: "PreToolUse", updatedInput: (.tool_input | .file_path = "secret/x")}}'"""
    part = {"type": "tool_call", "toolName": "write_file", "arguments": {"path": "made", "content": "mine"}}
    with Hooked(pre(change, matcher="Write")) as home, home.rpc() as rpc:
        assert run_turn(rpc, home, part)["type"] == "turn.completed"
        assert home.text("made") == "by the hook"
        args = [e for e in rpc.events() if e["type"] == "tool.args"]
        assert len(args) == 2 and json.loads(rpc.output(args[1]["payload"]["updatedInputRef"])) == {"path": "made", "content": "by the hook"}, args
        valid(home, rpc)
    with Hooked(pre(move, matcher="Write"), permissions={"deny": ["Edit(secret/**)"]}) as home, home.rpc() as rpc:
        os.makedirs(home.made("secret"))
        ended = run_turn(rpc, home, part)
        assert ended["type"] == "turn.failed" and ended["payload"]["category"] == "permission", ended
        assert home.text("secret/x") is None and home.text("made") is None
        valid(home, rpc)


if __name__ == "__main__":
    harness.main(globals())
