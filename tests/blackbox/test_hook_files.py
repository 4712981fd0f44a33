"""Existing hooks that check files: a tool of the conventions is about one file, with an absolute path."""

import json
import os

import harness
from harness import valid
from hooks import FORMAT, Hooked, entry, hooks_of, needs_jq, script

PROTECT = """#!/usr/bin/env python3
import json, os, sys

data = json.load(sys.stdin)
path = data.get("tool_input", {}).get("file_path", "")
project = os.environ["CLAUDE_PROJECT_DIR"]

if not path.startswith(project + "/") or any(p in path for p in [".env", "package-lock.json", ".git/", "/migrations/"]):
    print(f"{path} is protected", file=sys.stderr)
    sys.exit(2)
"""

TITLE = """#!/usr/bin/env python3
import json, sys

data = json.load(sys.stdin)
data["tool_input"]["content"] = data["tool_input"]["content"].title()
print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": data["tool_input"]}}))
"""

MATCHER = "Edit|MultiEdit|Write"


def envelope(*parts):
    return {"patch": "*** Begin Patch\n" + "".join(parts) + "*** End Patch\n"}


def add(*names):
    return envelope(*(f"*** Add File: {name}\n+some text\n" for name in names))


def invoke(rpc, turn, tool, **arguments):
    return rpc.call("invoke_tool", turnId=turn["turnId"], toolName=tool, arguments=arguments)


def client_turn(rpc, home):
    return rpc.call("submit_turn", input=[{"type": "text", "text": "go"}], options={"cwd": home.work})


def test_protection_hook_sees_every_file_of_a_patch():
    with Hooked({"PreToolUse": [entry(script("protect.py"), MATCHER)]}, {"protect.py": PROTECT}) as home, home.rpc() as rpc:
        os.makedirs(home.made("migrations"))
        os.makedirs(home.made("src"))
        turn = client_turn(rpc, home)
        assert invoke(rpc, turn, "write_file", path="src/one.py", content="x")["status"] == "completed"
        assert invoke(rpc, turn, "write_file", path="./two.py", content="x")["status"] == "completed"
        assert invoke(rpc, turn, "apply_patch", **add("src/three.py", "src/four.py"))["status"] == "completed"
        for tool, arguments in (("write_file", {"path": "migrations/1.sql", "content": "x"}), ("write_file", {"path": "src/../../x", "content": "x"}),
                                ("apply_patch", add("five.py", "migrations/1.sql", "six.py")), ("apply_patch", add("seven.py", ".env")),
                                ("apply_patch", envelope("*** Update File: two.py\n*** Move to: .env\n@@\n-x\n+y\n")),
                                ("apply_patch", {"patch": "--- /dev/null\n+++ .env\n@@ -0,0 +1,1 @@\n+x\n"}),
                                ("apply_patch", {"patch": "--- a/two.py\n+++ b/two.py\n@@ -1,1 +1,1 @@\n-x\n+y\n--- /dev/null\n+++ b/.env\n@@ -0,0 +1,1 @@\n+x\n"})):
            done = invoke(rpc, turn, tool, **arguments)
            assert done["status"] == "failed" and "is protected" in done["error"]["message"], (arguments, done)
        assert not os.listdir(home.made("migrations")) and not os.path.exists(home.made(".env")) and not os.path.exists(home.made("five.py"))
        assert home.text("two.py") == "x"
        valid(home, rpc)


def test_formatter_hook_runs_for_every_file():
    needs_jq()
    with Hooked({"PostToolUse": [entry(script("format.sh"), MATCHER)]}, {"format.sh": FORMAT}) as home, home.rpc() as rpc:
        turn = client_turn(rpc, home)
        assert invoke(rpc, turn, "apply_patch", **add("one", "two", "three"))["status"] == "completed"
        assert [home.text(name) for name in ("one", "two", "three")] == ["SOME TEXT\n"] * 3
        assert len(hooks_of(rpc, "hook.completed", "post_tool_use")) == 3
        valid(home, rpc)


def test_number_of_files_per_call_is_limited_for_hooks():
    """Each hook runs for each file, up to a limit. Beyond it a hook before the call denies; one after the call reports a failure."""
    names = [f"f{i}" for i in range(65)]
    with Hooked({"PreToolUse": [entry("cat >/dev/null", MATCHER)]}) as home, home.rpc() as rpc:
        turn = client_turn(rpc, home)
        done = invoke(rpc, turn, "apply_patch", **add(*names))
        assert done["status"] == "failed" and "names 65 files" in done["error"]["message"], done
        assert invoke(rpc, turn, "apply_patch", **add(*names[:3]))["status"] == "completed"
        assert not os.path.exists(home.made("f64")) and os.path.exists(home.made("f2"))
        valid(home, rpc)
    with Hooked({"PostToolUse": [entry("cat >/dev/null", MATCHER)]}) as home, home.rpc() as rpc:
        assert invoke(rpc, client_turn(rpc, home), "apply_patch", **add(*names))["status"] == "completed"
        failed = hooks_of(rpc, "hook.failed", "post_tool_use")
        assert len(failed) == 1 and "names 65 files" in failed[0]["payload"]["message"], failed
        valid(home, rpc)


def test_unchanged_path_keeps_its_original_form():
    with Hooked({"PreToolUse": [entry(script("title.py"), "Write")]}, {"title.py": TITLE}) as home, home.rpc() as rpc:
        done = invoke(rpc, client_turn(rpc, home), "write_file", path="./made", content="some text")
        assert done["status"] == "completed" and home.text("made") == "Some Text", (done, home.text("made"))
        args = [e for e in rpc.events() if e["type"] == "tool.args" and e["toolCallId"] == done["toolCallId"]][-1]
        told = json.loads(rpc.call("read_output", outputRef=args["payload"]["updatedInputRef"])["data"])
        assert told == {"path": "./made", "content": "Some Text"}, told


if __name__ == "__main__":
    harness.main(globals())
