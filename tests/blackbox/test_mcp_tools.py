"""The tools, resources and prompts of `bailiff mcp`, over raw stdio; most of it in both eras. Structured content is checked in every call."""

import base64
import contextlib
import json
import os

import harness
from harness import Home, Skip, marked, until
from mcp import text_of
from mcp_clients import Raw, links_of

ERAS = (False, True)
ALLOW = {"action": "accept", "content": {"decision": "allow_once"}}
DENY = {"action": "accept", "content": {"decision": "deny"}}
NO = {"action": "decline"}


def agree(question):
    return {"action": "accept", "content": {"decision": question["requestedSchema"]["properties"]["decision"]["enum"][0]}}


@contextlib.contextmanager
def policed_home(policy=None, **more):
    """A daemon with this policy and a workspace."""
    with Home(start=False, **more) as home:
        if policy:
            with open(os.path.join(home.dir, "policy.json"), "w") as f:
                json.dump({"permissions": policy}, f)
        home.start()
        os.mkdir(os.path.join(home.work, ".git"))
        yield home


def put(home, name, text):
    with open(os.path.join(home.work, name), "w") as f:
        f.write(text)


def get(home, name):
    with open(os.path.join(home.work, name)) as f:
        return f.read()


def gone(home, mark):
    until("no process of it is left", lambda: not marked(mark))


# ---- the list ----

def test_tools_have_descriptions_and_plain_schemas(home):
    for modern in ERAS:
        with Raw(home, modern) as mcp:
            tools = {t["name"]: t for t in mcp.tools()}
            assert set(tools) == {"exec", "wait", "write_stdin", "read_output", "screen", "kill", "ps", "read_file", "write_file", "apply_patch",
                                  "changes"}, set(tools)
            mcp.learn()
            for name, tool in tools.items():
                assert tool["title"] and len(tool["description"]) > 40, tool
                schema = tool["inputSchema"]
                assert schema["type"] == "object" and not {"anyOf", "oneOf", "allOf"} & set(schema), f"{name}: providers refuse a composed schema"
                assert tool["annotations"]["readOnlyHint"] == (name in ("wait", "read_output", "screen", "ps", "read_file")), tool
            if not modern:
                assert tools["exec"]["execution"] == {"taskSupport": "optional"}, tools["exec"]


def test_invalid_arguments_are_named(home):
    with Raw(home) as mcp:
        for tool, arguments, word in (("exec", {"command": "true", "timeout": 5}, "timeout"), ("exec", {}, "command"), ("exec", {"command": ["ls"]}, "command"),
                                      ("exec", {"command": "true", "yieldMs": 700000}, "yieldMs"), ("wait", {}, "actionId"),
                                      ("write_stdin", {"processId": "proc_x", "keys": ["Hyper-q-z"], "text": "\0"}, None),
                                      ("exec", {"command": "true", "network": "all"}, "network"), ("read_output", {}, "processId"),
                                      ("wait", {"processId": "proc_nosuch"}, "proc_nosuch"), ("kill", {"processId": "proc_nosuch"}, "proc_nosuch"),
                                      ("wait", {"actionId": "act_nosuch"}, "act_nosuch"), ("screen", {"processId": "proc_nosuch"}, "proc_nosuch")):
            text = text_of(mcp.call(tool, error=True, **arguments))
            assert word is None or word in text, (tool, arguments, text)


def test_errors_use_the_terms_of_the_tools(home):
    """Messages for agents do not mention the control socket's parameters and methods."""
    put(home, "text", "one\n")
    put(home, "long", "y" * 5000)
    with open(os.path.join(home.work, "huge"), "wb") as f:
        f.truncate(1 << 30)
    theirs = ("list_methods", "the list methods", "start_process", "commandLine", "sandbox.", "until.", "e+")
    with Raw(home) as mcp:
        process = mcp.exec("sleep 1000", background=True)[0]["processId"]
        for tool, arguments, *words in (
                ("exec", {"command": "true", "timeout": 5}, "timeout: unknown member", "timeoutMs", "yieldMs"), ("exec", {"command": ""}, "command: must not be empty"),
                ("exec", {"command": "true", "timeoutMs": 0}, "timeoutMs: must be at least 1"), ("exec", {"command": "a\0b"}, "command: expected a string without"),
                ("exec", {"command": "true", "profile": ""}, "profile"), ("kill", {"processId": process, "signal": "FOO"}, "signal:"),
                ("write_stdin", {"processId": process, "keys": ["Enter"]}, "keys: it has no terminal"), ("screen", {"processId": process}, "exec with tty: true"), ("write_stdin", {"processId": process, "text": "x"}, "exec with interactive: true"),
                ("screen", {"processId": process, "waitForRegex": "["}, "waitForRegex: is not a POSIX"), ("wait", {"processId": "proc_x"}, "proc_x", "ps with all: true"),
                ("read_output", {"processId": process, "stream": "pty"}, "stream:", "there is stdout, stderr"), ("read_output", {"processId": process, "tail": 3, "offset": 1}, "tail:"),
                ("write_file", {"path": "x", "content": "a\0b"}, "content: must not contain", "base64"), ("read_file", {"path": "a\0b"}, "path: must not contain"),
                ("write_file", {"path": "x", "content": "!", "encoding": "base64"}, "content: is not base64"), ("apply_patch", {"patch": "x"}, "patch: is neither", "*** End Patch"),
                ("read_file", {"path": "."}, "is a directory", "with ls"), ("read_file", {"path": "huge"}, "is larger than", "sed -n"),
                ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: text\n+x\n*** End Patch\n"}, "already exists", "*** Update File"),
                ("apply_patch", {"patch": "*** Begin Patch\n*** Update File: text\n@@\n-two\n+x\n*** End Patch\n"}, "does not apply", "make the patch from that"),
                ("write_file", {"path": "no/such/x", "content": "x"}, "createFolders: true")):
            text = text_of(mcp.call(tool, error=True, **arguments))
            assert all(w in text for w in words) and not any(w in text for w in theirs), (tool, arguments, text)
        os.makedirs(os.path.join(home.work, "repo", ".git"))
        put(home, "repo/.git/config", "[core]\n")
        with Raw(home, cwd=os.path.join(home.work, "repo")) as other:
            assert "needs an operator" in other.tell("write_file", error=True, path=".git/config", content="x")[1]
        assert mcp.tell("read_file", path="text", offset=9)[1] == "(nothing: the file has 1 lines)\n"
        told, text = mcp.tell("read_file", path="long", maxBytes=100)
        assert told["content"] == "y" * 100 and "line 1 is longer than maxBytes and was cut after 100 bytes" in text, text
        with open(os.path.join(home.work, "bytes"), "wb") as f:
            f.write(os.urandom(300_000))
        told, text = mcp.tell("read_file", path="bytes", maxBytes=1000)
        assert told["truncated"] and told["bytes"] == 300_000 and len(base64.b64decode(told["content"])) == 999 and "not all of it" in text, (told, text)
        told, text = mcp.tell("read_file", path="text", encoding="base64")
        assert base64.b64decode(told["content"]) == b"one\n" and not told["truncated"] and "not all" not in text, told
        assert "b25lCg==" in text, "not every client shows its model the structured content"
        for tool, arguments, said, *unsaid in (
                ("exec", {"command": "true", "profile": "nope"}, "there is no profile 'nope'", "ps with"), ("read_file", {"path": "."}, "exec can list it", "correct the"),
                ("changes", {"processId": process}, "exec with cow: true holds changes back", "Try again", "wait and ps"),
                ("changes", {"processId": process, "action": "apply"}, "exec with cow: true", "bailiff apply"),
                ("screen", {"processId": process}, "exec with tty: true gives it one", "wait and ps"), ("write_file", {"path": "/etc/x", "content": "x"}, "a person has to widen the profile"),
                ("apply_patch", {"patch": "*** Begin Patch\n*** Update File: text\n@@\n-none\n+x\n*** End Patch\n"}, "(read_file) and make the patch from that.\nNothing was changed.", "modified"),
                ("apply_patch", {"patch": "*** Begin Patch\n*** Update File: text\n@@\n-one\n+x\n*** Delete File: none\n*** End Patch\n"}, "not changed: text\nNothing was changed.", "deleted"),
                ("exec", {"command": "sleep 1000", "timeoutMs": 100}, "larger timeoutMs", "hint")):
            result = mcp.call(tool, error=True, **arguments)
            text = text_of(result)
            assert said in text and not any(w in text for w in unsaid), (tool, arguments, text)
            assert "structuredContent" not in result or "Nothing was changed" in text or said in json.dumps(result["structuredContent"]), "some clients show only that: " + str(result)
        assert mcp.tell("apply_patch", patch="*** Begin Patch\n*** Update File: text\n*** Move to: moved\n@@\n-one\n+two\n*** End Patch\n", dryRun=True)[1] == \
            "would be moved text to moved\nNothing was changed.\n"
        mcp.tell("write_file", path="/tmp/kept", content="x")
        assert mcp.exec("cat /tmp/kept")[1].startswith("x"), "files and commands share a sandbox"
        assert 'with encoding: "base64"' in mcp.tell("read_file", path="bytes")[1]
        mcp.call("kill", processId=process)
        assert "It had ended before." in text_of(mcp.call("kill", processId=process))
        assert mcp.mcp.call("tools/call", name="ps", arguments=None)["structuredContent"] == {"processes": []}
        assert mcp.mcp.fails("prompts/get", name="run-tests", arguments={"command": 5}).code == -32602
        assert mcp.mcp.fails("prompts/get", name="run-tests", arguments={"comand": "make"}).code == -32602
        assert mcp.mcp.fails("resources/read", uri=f"bailiff://changes/{process}").code == -32002, "it was no copy-on-write run"
        mcp.exec("true " + "é" * 120)
        assert not [r for r in mcp.mcp.call("resources/list")["resources"] if "\ufffd" in r.get("title", "")], "cut within a character"


def test_agent_cannot_choose_another_tree(home):
    """A command can write to the tree of its folder, so choosing the tree is a person's decision."""
    other, inner = os.path.join(home.dir, "other"), os.path.join(home.work, "inner")
    os.makedirs(other)
    os.makedirs(os.path.join(inner, "deep"))
    os.makedirs(os.path.join(home.work, ".git"))
    for modern in ERAS:
        with Raw(home, modern, cwd=inner) as mcp:
            for folder in (other, "../..", "/opt", "/usr"):
                assert mcp.exec("pwd", cwd=folder)[0]["exitCode"] == 0
                told, text = mcp.exec("touch made", error=True, cwd=folder)
                assert told["exitCode"] != 0 and "where this client works" in text and "--cwd" in text and "hint" not in told, text
            assert not os.listdir(other)
            assert "profile" in mcp.exec("true", error=True, cwd=other, profile="workspace")[1]
            for folder in ("..", "deep", home.work, inner + "/deep/.."):
                assert mcp.exec("touch made", cwd=folder)[0]["exitCode"] == 0, "the tree is that of the folder with .git"
        with Raw(home, modern, cwd=inner, args=("--cwd", other)) as mcp:
            assert mcp.exec("touch made", cwd=other)[0]["exitCode"] == 0 and os.listdir(other) == ["made"]
            assert mcp.exec("touch made", error=True, cwd=inner)[0]["exitCode"] != 0
        os.unlink(os.path.join(other, "made"))
        with Raw(home, modern, cwd="/") as mcp:
            assert mcp.exec("touch made", cwd=inner)[0]["exitCode"] == 0, "it was started outside any tree, so the folder must be given"


# ---- exec ----

def test_exec_reports_output_exit_code_and_limits(home):
    for modern in ERAS:
        with Raw(home, modern) as mcp:
            result = mcp.call("exec", command="echo out; echo err >&2")
            told = result["structuredContent"]
            assert (told["status"], told["exitCode"], told["stdout"], told["stderr"]) == ("completed", 0, "out\n", "err\n"), told
            assert not links_of(result), "nothing was left out"
            told, text = mcp.exec("echo only")
            assert text.startswith("only\n") and "Exit code 0" in text, text
            told, text = mcp.exec("echo no; exit 7", error=True)
            assert told["exitCode"] == 7 and "Exit code 7" in text, text
            told, text = mcp.exec("kill -9 $$", error=True)
            assert told["signal"] == "KILL" and "signal KILL" in text, text
            assert mcp.exec("pwd; echo $X", env={"X": "y"})[0]["stdout"] == f"{home.work}\ny\n"
            os.makedirs(os.path.join(home.work, "sub"), exist_ok=True)
            assert mcp.exec("pwd", cwd="sub")[0]["stdout"] == f"{home.work}/sub\n"
            assert mcp.exec("cat; echo end", stdin="typed\n")[0]["stdout"] == "typed\nend\n"
            told, text = mcp.exec("sleep 100", timeoutMs=200, error=True)
            assert told["limit"] == "wall" and "wall limit" in text, text


def test_long_output_shows_head_and_tail(home):
    with Raw(home) as mcp:
        result = mcp.call("exec", command="seq 100000; echo é >&2", maxOutputBytes=1000)
        told, text = result["structuredContent"], text_of(result)
        assert links_of(result) == {"stdout": f"bailiff://output/{told['processId']}/stdout"}, "a link only to what was cut"
        assert f'read_output with {{"processId":"{told["processId"]}"}}' in text, text
        out = next(o for o in told["outputs"] if o["stream"] == "stdout")
        assert told["stdout"].startswith("1\n2\n") and told["stdout"].endswith("99999\n100000\n") and len(told["stdout"]) < 1100, told["stdout"]
        assert f"{out['omittedBytes']} bytes left out" in told["stdout"] and out["bytes"] == 588895 and out["omittedBytes"] > 587000, out
        assert told["stderr"] == "é\n", "a short stream is not cut for a long one"
        bytes_, text = mcp.exec("head -c 200000 /dev/urandom; echo over >&2")
        assert bytes_["outputs"][0]["omittedBytes"] == 200000 - 256 and "this is not text" in text and len(text) < 2000 and bytes_["stderr"] == "over\n", text
        # The omitted part can be read; nothing is lost or duplicated at the cuts.
        head = told["stdout"].split("[…")[0]
        part, _ = mcp.tell("read_output", processId=told["processId"], stream="stdout", offset=len(head), length=50)
        whole = "".join(f"{i}\n" for i in range(1, 30000))
        assert whole.startswith(head + part["text"]), part
        part, text = mcp.tell("read_output", processId=told["processId"], tail=7)
        assert part["text"] == "100000\n" and part["eof"] and part["nextOffset"] == part["totalBytes"], part


def test_output_is_sanitized(home):
    with Raw(home) as mcp:
        told, _ = mcp.exec(r"printf '\033[31mred\033[0m \001 \377 caf\303\251 \342\200\256x\n'")
        assert "red" in told["stdout"] and "\033" not in told["stdout"] and "café" in told["stdout"], told
        assert "\u202e" not in told["stdout"] and "\\xff" in told["stdout"], told
        assert mcp.read(f"bailiff://output/{told['processId']}/stdout")[0]["blob"], "exact bytes"
        # Characters are not cut in two, wherever the budget ends.
        for budget in range(100, 106):
            told, _ = mcp.exec("for i in $(seq 100); do printf 'é€𝄞'; done", maxOutputBytes=budget)
            assert "\\x" not in told["stdout"] and "�" not in told["stdout"], told["stdout"]


def test_background_command_can_be_waited_for(home):
    for modern in ERAS:
        with Raw(home, modern) as mcp:
            told, text = mcp.exec("echo begun; while [ ! -e go ]; do sleep 0.05; done; echo over; exit 4", background=True)
            process = told["processId"]
            assert told["status"] == "running" and "wait" in told["next"] and process in text, told
            rows, text = mcp.tell("ps")
            assert [(r["processId"], r["status"]) for r in rows["processes"]] == [(process, "running")] and process in text, rows
            until("it has printed", lambda: mcp.tell("read_output", processId=process)[0]["text"] == "begun\n")
            told, _ = mcp.tell("wait", processId=process, timeoutMs=10)
            assert told["status"] == "running" and told["stdout"] == "", "output is shown once"
            put(home, "go", "")
            told, text = mcp.tell("wait", error=True, processId=process)
            assert told["exitCode"] == 4 and told["stdout"] == "over\n" and "bytes 6 to 11" in text, text
            os.unlink(os.path.join(home.work, "go"))
            assert mcp.tell("ps")[0]["processes"] == []
            assert mcp.tell("ps", all=True)[0]["processes"][0]["exitCode"] == 4


def test_call_yields_after_its_time(home):
    with Raw(home) as mcp:
        told, text = mcp.exec("echo first; sleep 1000", yieldMs=300)
        assert told["status"] == "running" and "Still running" in text, text
        told, text = mcp.tell("kill", processId=told["processId"])
        assert told["status"] == "terminated" and "ended by the agent" in text, text
        assert mcp.tell("kill", processId=told["processId"])[0]["status"] == "terminated", "ending it twice is fine"


def test_characters_are_not_split_between_calls(home):
    with Raw(home) as mcp:
        told, _ = mcp.exec("printf 'a\\342\\202'; read x; printf '\\254b'", interactive=True, yieldMs=0)
        process, seen = told["processId"], told["stdout"]
        while seen != "a":
            seen += mcp.tell("wait", processId=process, timeoutMs=100)[0]["stdout"]
        told, _ = mcp.tell("write_stdin", processId=process, text="\n", eof=True)
        seen = told["stdout"]
        while told["status"] == "running":
            told = mcp.tell("wait", processId=process)[0]
            seen += told["stdout"]
        assert seen == "€b", seen
        for offset, length, text, next_offset in ((0, 1, "a", 1), (0, 2, "a", 1), (1, 1, "€", 4), (1, 3, "€", 4), (4, 9, "b", 5)):
            told, _ = mcp.tell("read_output", processId=process, offset=offset, length=length)
            assert (told["text"], told["nextOffset"]) == (text, next_offset), told
        told, _ = mcp.exec("printf '€%.0s' $(seq 1000)", maxOutputBytes=100)
        shown = told["stdout"].count("€") * 3
        assert shown + told["outputs"][0]["omittedBytes"] == 3000 and f"{3000 - shown} bytes left out" in told["stdout"], told
        assert mcp.exec("printf '\\033[0m'")[0]["stdout"] == ""


def test_stdin_can_be_written_and_closed(home):
    for modern in ERAS:
        with Raw(home, modern) as mcp:
            told, _ = mcp.exec("while read x; do echo got $x; done; echo bye; exit 3", interactive=True, yieldMs=0)
            process = told["processId"]
            seen = ""
            told, _ = mcp.tell("write_stdin", processId=process, text="one\ntwo\n", yieldMs=0)
            seen += told["stdout"]
            while "two" not in seen:
                seen += mcp.tell("write_stdin", processId=process, yieldMs=100)[0]["stdout"]
            assert seen == "got one\ngot two\n", seen
            told, _ = mcp.tell("write_stdin", error=True, processId=process, text="three\n", eof=True, yieldMs=60000)
            assert told["stdout"] == "got three\nbye\n" and told["exitCode"] == 3, told
            assert "ended" in text_of(mcp.call("write_stdin", error=True, processId=process, text="late\n"))
            told, _ = mcp.exec("sleep 1000", background=True)
            assert "stdin" not in told["next"] and mcp.call("write_stdin", error=True, processId=told["processId"], text="x")


def test_terminal_can_be_typed_into_and_read(home):
    for modern in ERAS:
        with Raw(home, modern) as mcp:
            told, _ = mcp.exec("printf 'name? '; read n; printf '\\033[2J\\033[3;5Hhello %s' $n; read x", tty=True, yieldMs=0)
            process = told["processId"]
            assert mcp.tell("screen", processId=process, waitForText="name?")[0]["matched"]
            mcp.call("write_stdin", processId=process, text="Ann", keys=["Enter"], yieldMs=0)
            told, text = mcp.tell("screen", processId=process, waitForRegex="hello [A-Z]nn")
            assert told["matched"] and "    hello Ann" in told["text"] and told["cursor"] == {"row": 2, "col": 13} and told["rows"] == 24, told
            assert "row 3, column 14" in text, text
            assert not mcp.tell("screen", processId=process, waitForText="never", timeoutMs=50)[0]["matched"]
            told, _ = mcp.tell("write_stdin", error=True, processId=process, keys=["ctrl-c"], yieldMs=60000)
            assert told["status"] == "completed" and (told.get("signal") == "INT" or told["exitCode"]), told
            assert mcp.tell("screen", processId=process)[0]["ended"]


# ---- denials ----

def test_denial_by_a_rule_is_explained():
    with policed_home({"deny": ["Bash(rm:*)", "Edit(locked/**)"]}) as home:
        for modern in ERAS:
            with Raw(home, modern) as mcp:
                told, text = mcp.exec("rm -rf build", error=True)
                assert told["status"] == "denied" and told["denials"][0]["rules"][0]["rule"] == "Bash(rm:*)", told
                assert "Bash(rm:*)" in text and "policy.json:1" in text and "to allow it" in text, text
                told, text = mcp.tell("write_file", error=True, path="locked/x", content="x", createFolders=True)
                assert told["status"] == "denied" and "Edit(locked/**)" in text and "bailiff-tool" not in text, text


def test_denial_by_the_sandbox_is_explained():
    """With audit, which belongs to one daemon per machine; the other tests do not use it."""
    with harness.audit_turn(), policed_home(options=()) as home:
        with home.rpc() as rpc:
            state = rpc.call("get_health")["violations"]
        if state["state"] != "enforced":
            raise Skip(state["why"])
        with Raw(home) as mcp:
            told, text = mcp.exec("echo x >/srv/made; exit 1", error=True)
            assert any("/srv" in d["what"] and "outside the write roots" in d["what"] for d in told["denials"]), told
            assert "denied: " in text and '{"workspace":{"writeRoots":["/srv"],"extends":"workspace"}}' in told["toAllow"] and told["toAllow"] in text, text


def test_denial_is_hinted_without_audit(home):
    with Raw(home) as mcp:
        told, text = mcp.exec("echo x >/srv/made", error=True)
        assert [(d["what"], d["confidence"]) for d in told["denials"]] == [("create /srv/made (outside the write roots)", "hint")], told
        assert "probably denied" in text and "/srv" in told["toAllow"], text
        told, text = mcp.exec("echo Read-only file system; false", error=True)
        assert "denials" not in told and "perhaps the sandbox" in told["hint"] and told["hint"] in text, told
        assert "hint" not in mcp.exec("echo Read-only file system")[0], "a successful command gets no hint"


def test_permission_is_asked_of_the_client():
    with policed_home({"ask": ["Bash(touch:*)", "Edit(guarded/**)"]}) as home:
        for modern in ERAS:
            with Raw(home, modern, answer=ALLOW) as mcp:
                told, _ = mcp.exec("touch made", justification="because\nI \033[1mmust")
                assert told["exitCode"] == 0 and os.path.exists(os.path.join(home.work, "made")), told
                question = mcp.asked[-1]
                assert "touch made" in question["message"] and "Bash(touch:*)" in question["message"] and "because" in question["message"], question
                assert "\033" not in question["message"], "text of the model cannot contain control sequences"
                assert mcp.tell("write_file", path="guarded/x", content="x", createFolders=True)[0]["status"] == "completed"
                assert get(home, "guarded/x") == "x" and "guarded/x" in mcp.asked[-1]["message"], mcp.asked[-1]
                for answer in (DENY, NO):
                    mcp.answer = answer
                    told, text = mcp.exec("touch other", error=True)
                    assert told["status"] == "denied" and "Permission was denied" in text, text
                    told, text = mcp.tell("write_file", error=True, path="guarded/y", content="y")
                    assert told["status"] == "denied", text
                assert not os.path.exists(os.path.join(home.work, "other")) and not os.path.exists(os.path.join(home.work, "guarded/y"))
            os.unlink(os.path.join(home.work, "made"))
        with home.rpc() as rpc:
            events = rpc.events()
        for kind in ("channel.permission_forwarded", "channel.permission_returned"):
            assert any(e["type"] == kind for e in events), f"no {kind}: " + str(sorted({e["type"] for e in events}))


def test_a_question_hides_nothing():
    """Padding does not hide the end of a command; the other arguments of a command or file operation are shown."""
    with policed_home({"ask": ["Bash(touch:*)", "Edit(guarded/**)"]}) as home:
        for modern in ERAS:
            with Raw(home, modern, answer=DENY) as mcp:
                def question(tool, **arguments):
                    mcp.call(tool, error=True, **arguments)
                    assert "\033" not in mcp.asked[-1]["message"], mcp.asked[-1]
                    return mcp.asked[-1]["message"]

                asked = question("exec", command="touch head " + "\u00e9 " * 3000 + "; touch the-tail")
                assert "touch head" in asked and "; touch the-tail" in asked, asked
                shown = asked.split(" \u2026 [")[0].split("\n")[1], asked.split("left out] \u2026 ")[1].split("\n")[0]
                left = len(("touch head " + "\u00e9 " * 3000 + "; touch the-tail").encode()) - sum(len(s.encode()) for s in shown)
                assert f"[{left} bytes left out]" in asked and f"\n(NOT ALL OF THIS IS SHOWN: {left} of its" in asked and len(asked) < 4000, asked
                asked = question("exec", command="touch x", env={"LD_PRELOAD": "hidden-value", "B\033": "1"}, stdin="rm everything\n\033[2J" + "y" * 5000 + "last")
                assert "2 environment variables: LD_PRELOAD, B" in asked and "hidden-value" not in asked, asked
                assert "stdin, 5022 bytes: rm everything\\n" in asked and "ylast\n(NOT ALL" in asked, asked
                asked = question("exec", command="touch x")
                assert "NOT ALL" not in asked and "stdin" not in asked and "environment" not in asked, asked
                asked = question("write_file", path="guarded/x", content="#!/bin/sh\nmalice\n" + "#" * 9000)
                assert "guarded/x" in asked and "content, 9017 bytes: #!/bin/sh\\nmalice" in asked and "NOT ALL" in asked, asked
                assert "content, 4 bytes: abc\\x00" in question("write_file", path="guarded/x", content="YWJjAA==", encoding="base64")
                patch = "*** Begin Patch\n*** Add File: guarded/x\n" + "+pad\n" * 3000 + "+the-tail\n*** End Patch\n"
                asked = question("apply_patch", patch=patch)
                assert f"({len(patch)} bytes)" in asked and "Add File: guarded/x" in asked and "+the-tail" in asked and "NOT ALL" in asked, asked


def test_without_elicitation_the_action_waits_for_an_operator():
    """The action waits for an operator; the agent is notified, cannot answer it, and may wait."""
    with policed_home({"ask": ["Bash(touch:*)", "Edit(guarded/**)"]}) as home:
        for modern in ERAS:
            with Raw(home, modern) as mcp:
                told, text = mcp.exec("touch made; echo done")
                action = told["actionId"]
                assert told["status"] == "waiting_permission" and f"bailiff approve {action}" in text, text
                assert mcp.tell("wait", actionId=action, timeoutMs=50)[0]["status"] == "waiting_permission"
                listed, text = mcp.tell("ps")
                assert [(p["status"], p["actionId"]) for p in listed["processes"]] == [("waiting_permission", action)] and "touch made" in text, text
                assert mcp.tell("ps", everySession=True)[0]["processes"] == listed["processes"]
                waiting = mcp.begin("wait", actionId=action)
                home.cli("approve", action)
                told = mcp.finish(waiting)["structuredContent"]
                assert told["exitCode"] == 0 and told["stdout"] == "done\n", told
                told, text = mcp.exec("touch fed; cat", stdin="what it reads\n")
                home.cli("approve", told["actionId"])
                told, text = mcp.tell("wait", actionId=told["actionId"])
                assert told["exitCode"] == 0 and told["stdout"] == "what it reads\n", told
                with Raw(home, modern) as other:
                    later = other.exec("touch kept; cat", stdin="for later\n", detached=True)[0]
                home.cli("approve", later["actionId"])
                assert mcp.tell("wait", processId=later["processId"])[0]["stdout"] == "for later\n", "its input was there before its client left"
                told, text = mcp.exec("touch other")
                waiting = mcp.begin("wait", processId=told["processId"])
                home.cli("deny", told["actionId"], "--note", "not today")
                result = mcp.finish(waiting)
                assert result["isError"] and result["structuredContent"]["status"] == "denied" and "not today" in text_of(result), result
                told, text = mcp.tell("write_file", path="guarded/x", content="x", createFolders=True)
                assert told["status"] == "waiting_permission" and f"bailiff approve {told['actionId']}" in text, text
                home.cli("deny", told["actionId"])
                assert mcp.tell("write_file", path="free", content="x")[0]["status"] == "completed", "others are not held up"


# ---- files ----

def test_file_tools(home):
    for modern in ERAS:
        with Raw(home, modern) as mcp:
            told, text = mcp.tell("write_file", path="a/b.txt", content="".join(f"line {i}\n" for i in range(5000)), createFolders=True)
            assert told["files"][0]["path"] == "a/b.txt" and "a/b.txt" in text, text
            told, text = mcp.tell("read_file", path="a/b.txt")
            assert told["lines"] == 5000 and told["truncated"] and told["nextOffset"] == 2000 and "offset 2000" in text, text[-200:]
            told, text = mcp.tell("read_file", path=f"{home.work}/a/b.txt", offset=4998)
            assert told["content"] == "line 4998\nline 4999\n" and not told["truncated"] and text == told["content"], told
            told, _ = mcp.tell("read_file", path="a/b.txt", maxBytes=100)
            assert len(told["content"]) <= 100 and told["content"].endswith("\n") and told["nextOffset"] == told["content"].count("\n"), told
            patch = "*** Begin Patch\n*** Update File: a/b.txt\n@@\n line 6\n-line 7\n+LINE 7\n line 8\n*** Add File: c\n+new\n*** End Patch\n"
            told, text = mcp.tell("apply_patch", patch=patch)
            assert [f["status"] for f in told["files"]] == ["applied", "applied"] and get(home, "c") == "new\n" and "LINE 7" in get(home, "a/b.txt"), told
            told, text = mcp.tell("apply_patch", error=True, patch=patch)
            assert told["status"] == "failed" and "a/b.txt" in text, text
            assert "no such file" in mcp.tell("read_file", error=True, path="/no/such")[1]
            assert "Read-only" in mcp.tell("write_file", error=True, path="/etc/bailiff-was-here", content="x")[1]
            assert mcp.tell("write_file", error=True, path="c", content="x", mustNotExist=True)[0]["status"] == "failed"
            with open(os.path.join(home.work, "binary"), "wb") as f:
                f.write(bytes(range(256)))
            told, text = mcp.tell("read_file", path="binary")
            assert told["encoding"] == "base64" and told["bytes"] == 256 and "is not text" in text, told
        os.unlink(os.path.join(home.work, "c"))
    with home.rpc() as rpc:
        turns = [e for e in rpc.events() if e["type"] in ("turn.completed", "turn.interrupted", "turn.failed")]
        assert any(e["type"] == "turn.completed" for e in turns), "the turn of the file tools ends with the client"


def test_files_are_written_in_parallel(home):
    with Raw(home) as mcp:
        calls = [mcp.begin("write_file", path=f"f{i}", content=str(i)) for i in range(20)]
        for result in [mcp.finish(c) for c in calls]:
            assert not result.get("isError"), text_of(result)
        assert [get(home, f"f{i}") for i in range(20)] == [str(i) for i in range(20)]
        # Another client ends the turn: the next call gets a new one.
        with home.rpc() as rpc:
            record = rpc.call("get_process", processId=result["structuredContent"]["processId"])
            rpc.call("interrupt_turn", sessionId=record["sessionId"], turnId=record["turnId"], reason="to see")
        mcp.call("write_file", path="again", content="x")
        cancelled = mcp.begin("write_file", path="f", content="x")
        mcp.cancel(cancelled)
        mcp.call("write_file", path="after", content="x")


def test_profile_set_by_the_user_stays(home):
    with Raw(home, args=("--profile", "readonly")) as mcp:
        _, text = mcp.exec("echo x >made", error=True, profile="workspace")
        assert "readonly" in text and "the user has set" in text, text
        mcp.exec("echo x >made", error=True)
        assert mcp.exec("echo fine", profile="readonly")[0]["exitCode"] == 0
    assert not os.path.exists(os.path.join(home.work, "made"))


def test_changes_are_reviewed_and_applied_with_approval(home):
    os.mkdir(os.path.join(home.work, ".git"))
    for modern in ERAS:
        put(home, "kept", "one\n")
        with Raw(home, modern, answer=agree) as mcp:
            told, text = mcp.exec("echo two >>kept; echo new >added", cow=True)
            process = told["processId"]
            assert "Call changes" in told["next"] and get(home, "kept") == "one\n", told
            told, text = mcp.tell("changes", processId=process)
            assert {(os.path.basename(c["path"]), c["change"]) for c in told["changes"]} == {("kept", "modified"), ("added", "added")}, told
            assert "+two" in text and "+new" in text, text
            assert "+two" in mcp.read(f"bailiff://changes/{process}")[0]["text"]
            mcp.answer = NO
            assert mcp.tell("changes", error=True, processId=process, action="apply")[0]["status"] == "refused" and get(home, "kept") == "one\n"
            mcp.answer = agree
            told, _ = mcp.tell("changes", processId=process, action="apply", paths=[os.path.join(home.work, "kept")])
            assert told["status"] == "applied" and get(home, "kept") == "one\ntwo\n" and "kept" in mcp.asked[-1]["message"], told
            assert mcp.tell("changes", processId=process, action="discard")[0]["status"] == "discarded"
            assert not os.path.exists(os.path.join(home.work, "added"))
            assert mcp.tell("changes", error=True, processId=process, action="apply")[0]["status"] == "nothing"
            if modern:
                told, _ = mcp.exec("echo unasked >>kept", cow=True)
                call = {"name": "changes", "arguments": {"processId": told["processId"], "action": "apply"}}
                # An approval sent with the first call is ignored, and a state without an answer gets the full question again.
                first = mcp.request("tools/call", **call, inputResponses={"settle": {"action": "accept", "content": {"decision": "apply"}}})
                again = mcp.request("tools/call", **call, requestState=first["requestState"])
                for result in (first, again):
                    assert result["resultType"] == "input_required" and "kept" in result["inputRequests"]["settle"]["params"]["message"], result
                assert get(home, "kept") == "one\ntwo\n"
        with Raw(home, modern) as mcp:
            told, _ = mcp.exec("echo three >>kept", cow=True)
            told, text = mcp.tell("changes", error=True, processId=told["processId"], action="apply")
            assert told["status"] == "needs_person" and "bailiff apply" in text, text


# ---- progress, cancellation, disconnects ----

def test_progress_shows_the_last_line_of_output(home):
    for modern in ERAS:
        with Raw(home, modern) as mcp:
            call = mcp.begin("exec", progress=True, command="echo compiling; while [ ! -e go ]; do sleep 0.05; done; echo over")
            mcp.wait_for(lambda: any("compiling" in p.get("message", "") for p in mcp.progress_of(call)), "the last line in a word of progress")
            numbers = [p["progress"] for p in mcp.progress_of(call)]
            assert numbers == sorted(set(numbers)), numbers
            put(home, "go", "")
            assert mcp.finish(call)["structuredContent"]["stdout"] == "compiling\nover\n"
            os.unlink(os.path.join(home.work, "go"))


def test_cancelled_call_ends_its_tree(home):
    for modern in ERAS:
        with Raw(home, modern) as mcp:
            mark = f"mark-{os.getpid()}-{modern}"
            call = mcp.begin("exec", command=f"sleep 1000 & (sleep 1000; : {mark}) & wait", env={"MARK": mark})
            until("it runs", lambda: len(marked(mark)) >= 3)
            mcp.cancel(call)
            gone(home, mark)
            until("its end is known", lambda: mcp.tell("ps")[0]["processes"] == [])
            assert call not in mcp.mcp.replies, "a cancelled call is not answered"


def test_only_detached_commands_outlive_the_client(home):
    """Foreground and background commands end with it, detached ones continue; also when the gateway is killed."""
    for way in ("close", "vanish"):
        marks = {word: f"mark-{os.getpid()}-{way}-{word}" for word in ("front", "back", "detached")}
        mcp = Raw(home)
        mcp.begin("exec", command="sleep 1000", env={"MARK": marks["front"]})
        mcp.call("exec", command="sleep 1000", env={"MARK": marks["back"]}, background=True)
        process = mcp.tell("exec", command="sleep 1000", env={"MARK": marks["detached"]}, detached=True)[0]["processId"]
        until("all run", lambda: all(marked(m) for m in marks.values()))
        getattr(mcp, way)()
        for word in ("front", "back"):
            gone(home, marks[word])
        assert marked(marks["detached"])
        with Raw(home) as mcp:
            assert mcp.tell("ps")[0]["processes"] == [], "another session's"
            assert process in [r["processId"] for r in mcp.tell("ps", everySession=True)[0]["processes"]]
            assert mcp.tell("kill", processId=process)[0]["status"] == "terminated"
        gone(home, marks["detached"])


def test_flood_of_calls_delays_no_other_client(home):
    with Raw(home) as mcp, Raw(home) as other:
        for i in range(300):
            mcp.begin("exec", command="sleep 0.05; echo done")
            if i % 60 == 0:
                assert other.exec("echo served")[0]["stdout"] == "served\n"
            with home.rpc() as rpc:
                live = rpc.call("list_processes", liveOnly=True, limit=1000)["processes"]
            assert len(live) <= 70, f"{len(live)} at once"
        assert all(mcp.finish(n)["structuredContent"]["stdout"] == "done\n" for n in list(mcp.started))


# ---- resources, prompts ----

def test_outputs_are_resources(home):
    for modern in ERAS:
        with Raw(home, modern) as mcp:
            told, _ = mcp.exec("seq 3; echo e >&2")
            process = told["processId"]
            listed = {r["uri"]: r for r in mcp.resources()}
            for uri in ("bailiff://processes", "bailiff://events", "bailiff://policy", f"bailiff://process/{process}", f"bailiff://output/{process}/stdout"):
                assert uri in listed, (uri, sorted(listed))
                assert mcp.read(uri)[0]["text"], uri
            assert mcp.read(f"bailiff://output/{process}/stdout")[0]["text"] == "1\n2\n3\n"
            assert mcp.read(f"bailiff://output/{process}/stdout/2")[0]["text"] == "2\n3\n"
            assert mcp.read(f"bailiff://output/{process}/stdout/2-4")[0]["text"] == "2\n"
            assert json.loads(mcp.read(f"bailiff://process/{process}")[0]["text"])["exitCode"] == 0
            assert process in mcp.read("bailiff://processes")[0]["text"]
            events = json.loads(mcp.read("bailiff://events")[0]["text"])
            mine = [e["type"] for e in events if e.get("processId") == process]
            assert "permission.evaluated" in mine and "sandbox.applied" in mine and "process.completed" in mine, mine
            later = json.loads(mcp.read(f"bailiff://events/{events[-2]['sequence']}")[0]["text"])
            assert later[0]["eventId"] == events[-1]["eventId"], later
            assert json.loads(mcp.read("bailiff://policy")[0]["text"])["mode"] == "default"
            templates = {t["uriTemplate"] for t in mcp.request("resources/templates/list")["resourceTemplates"]}
            assert "bailiff://output/{processId}/{stream}" in templates, templates
            for uri in (f"bailiff://output/{process}/nosuch", "bailiff://output/proc_nosuch/stdout", f"bailiff://output/{process}/stdout/x", "bailiff://process/x",
                        f"bailiff://output/{process}/stdout/5-2", f"bailiff://screen/{process}", "bailiff://nothing"):
                assert mcp.fails("resources/read", uri=uri).code == (-32602 if modern else -32002), uri
            ref = {"type": "ref/resource", "uri": "bailiff://output/{processId}/{stream}"}
            assert process in mcp.complete(ref, "processId", process[:12]) and mcp.complete(ref, "stream", "st") == ["stdout", "stderr"]


def test_long_output_is_read_page_by_page(home):
    with Raw(home) as mcp:
        told, _ = mcp.exec("seq 1000000", maxOutputBytes=100)
        whole = mcp.whole(f"bailiff://output/{told['processId']}/stdout")
        import hashlib
        wanted = "".join(f"{i}\n" for i in range(1, 1000001)).encode()
        assert whole["bytes"] == len(wanted) and whole["sha256"] == hashlib.sha256(wanted).hexdigest() and whole["pages"] >= 7, whole


def test_subscribed_output_sends_updates(home):
    for modern in ERAS:
        with Raw(home, modern) as mcp:
            told, _ = mcp.exec("while read x; do echo got $x; done", interactive=True, yieldMs=0)
            uri = f"bailiff://output/{told['processId']}/stdout"
            mcp.subscribe(uri)
            mcp.call("write_stdin", processId=told["processId"], text="one\n", yieldMs=0)
            mcp.wait_for(lambda: uri in mcp.updates(), "word that the output has changed")
            until("it is there", lambda: mcp.read(uri)[0]["text"] == "got one\n")


def test_prompts_are_listed_and_filled(home):
    for modern in ERAS:
        with Raw(home, modern) as mcp:
            prompts = {p["name"]: p for p in mcp.prompts()}
            assert {"run-tests", "try-safely", "review-changes", "explain-denial", "debug-process", "session-report"} <= set(prompts), prompts
            told, _ = mcp.exec("make-it-so", error=True)
            arguments = {"command": "make check", "processId": told["processId"]}
            for name, prompt in prompts.items():
                given = {a["name"]: arguments[a["name"]] for a in prompt.get("arguments", []) if a["name"] in arguments}
                got = mcp.prompt(name, **given)
                words = json.dumps(got["messages"])
                assert all(v in words for v in given.values()), (name, words)
            assert "make check" in mcp.prompt("run-tests", command="make check")["messages"][0]["content"]["text"]
            record = mcp.prompt("debug-process", processId=told["processId"])["messages"][1]["content"]["resource"]
            assert record["uri"] == f"bailiff://process/{told['processId']}" and json.loads(record["text"])["exitCode"] == 127, record
            assert mcp.fails("prompts/get", name="debug-process", arguments={"processId": "proc_nosuch"}).code == -32602
            assert mcp.fails("prompts/get", name="debug-process", arguments={}).code == -32602
            ref = {"type": "ref/prompt", "name": "run-tests"}
            assert mcp.complete(ref, "command", "make-") == ["make-it-so"]
            assert told["processId"] in mcp.complete({"type": "ref/prompt", "name": "debug-process"}, "processId", "proc_")


# ---- facts ----

def test_calls_write_the_same_events_as_native_starts(home):
    def kinds(rpc, process):
        return [e["type"] for e in rpc.events(processId=process)]
    with home.rpc() as rpc, Raw(home) as mcp:
        native = rpc.run("echo same", cwd=home.work)[0]["processId"]
        foreign = mcp.exec("echo same")[0]["processId"]
        assert kinds(rpc, foreign) == kinds(rpc, native), (kinds(rpc, foreign), kinds(rpc, native))
        a, b = ([e for e in rpc.events(processId=p) if e["type"] == "sandbox.applied"][0]["payload"] for p in (native, foreign))
        assert a["layers"] == b["layers"] and a["sandboxProfile"]["mode"] == b["sandboxProfile"]["mode"], (a, b)
        told, _ = mcp.tell("write_file", path="x", content="x")
        assert {"permission.evaluated", "sandbox.applied", "process.started", "process.completed"} <= set(kinds(rpc, told["processId"]))
        record = rpc.call("get_process", processId=foreign)
        assert record["sessionId"] != rpc.call("get_process", processId=native)["sessionId"] and record["onDisconnect"] == "terminate", record
        harness.check_facts(home, rpc)


# ---- statements about a result are correct ----

def test_results_do_not_mislead():
    with policed_home() as home, Raw(home) as mcp:
        _, text = mcp.exec("true", cow=True)
        assert "changed no files" in text and "held back" not in text, text
        _, text = mcp.exec("echo x >made", cow=True)
        assert "held back" in text, text
        # a lookup that nothing depended on
        _, text = mcp.exec("getent ahosts registry.example.test; exit 0")
        assert "denied" not in text, text
        # one that the output reports, although the end of the pipe succeeds
        _, text = mcp.exec("python3 -c 'import urllib.request as u; u.urlopen(\"http://registry.example.test\")' 2>&1 | tail -1")
        assert "denied: lookup registry.example.test (no network)" in text, text
        _, text = mcp.exec("getent ahosts registry.example.test", error=True)
        assert "denied: lookup registry.example.test (no network)" in text and '"allow":["registry.example.test"]' in text, text
        # /tmp can be written, and does not last
        _, text = mcp.exec("echo x >made && cat made", cwd="/tmp")
        assert "nothing could be written" not in text and "gone" in text, text
        _, text = mcp.exec("ls", cwd="/usr")
        assert "not changed" in text, text
        _, text = mcp.exec("cat /home/other/notes", error=True)
        assert "hidden" in text, text
        _, text = mcp.exec("cat missing", error=True)
        assert "perhaps the sandbox" not in text, text


if __name__ == "__main__":
    harness.main(globals())
