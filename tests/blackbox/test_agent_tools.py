"""Tools for agents: edits and searches, which are processes in the sandbox, and tools that the engine executes itself."""

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import termios

import agent_run
import harness
from harness import valid
from test_agent import call as tool, completed, model, submit
from test_policy import Policed
from test_tool import call, ended, open_turn, result, turn_of


def write(home, path, content):
    path = os.path.join(home.work, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as f:
        f.write(content)


def read(home, path):
    with open(os.path.join(home.work, path), encoding="utf-8", newline="") as f:
        return f.read()


def test_an_edit_needs_exactly_one_match(home):
    write(home, "a.c", "int f(void)\n{\n\treturn 1;\n}\nint g;\nint g;\n")
    write(home, "dos.txt", "one\r\ntwo\r\nthree\r\n")
    with home.rpc() as rpc:
        turn = open_turn(rpc, home)["turnId"]

        def edit(path, old, new, **more):
            return rpc.call("invoke_tool", turnId=turn, toolName="edit_file", arguments={"path": path, "oldText": old, "newText": new, **more})

        done = edit("a.c", "return 1;", "return 2;")
        assert done["status"] == "completed" and len(done["artifactRefs"]) == 1, done
        assert result(rpc, done)["replacements"] == 1 and "return 2;" in read(home, "a.c")
        twice = edit("a.c", "int g;", "int h;")
        assert twice["status"] == "failed" and twice["error"]["category"] == "conflict", twice
        assert "2 times" in twice["error"]["message"] and "lines 5, 6" in twice["error"]["message"], twice
        assert edit("a.c", "int g;", "int h;", replaceAll=True)["status"] == "completed"
        assert read(home, "a.c").count("int h;") == 2
        near = edit("a.c", "int f(void)\n{\n    return 2;\n}", "x")
        assert near["error"]["category"] == "conflict" and "does not occur" in near["error"]["message"], near
        assert "at line 1:\n     1\tint f(void)" in result(rpc, near)["nearMiss"], near
        assert edit("none", "a", "b")["error"]["category"] == "not_found"
        assert edit("a.c", "int", "int")["error"]["category"] == "tool"
        assert edit("dos.txt", "one\ntwo", "1\n2")["status"] == "completed", "a text with \\n fits a file with \\r\\n"
        assert read(home, "dos.txt") == "1\r\n2\r\nthree\r\n"
        rpc.fails("invoke_tool", {"turnId": turn, "toolName": "edit_file", "arguments": {"path": "a.c", "oldText": "", "newText": "x"}}, code=-32602)
        valid(home, rpc)


def test_searches_skip_ignored_files(home):
    for path, content in {".gitignore": "*.o\n/out/\n!keep.o\n", "src/a.c": "int needle;\nint other;\n", "src/b.h": "NEEDLE (x)\n", "x.o": "needle\n",
                          "keep.o": "needle\n", "out/c": "needle\n", "src/out/d": "no\n", ".git/config": "needle\n", "bin": "a\0needle\n"}.items():
        write(home, path, content)
    os.symlink("..", os.path.join(home.work, "src", "up"))
    with home.rpc() as rpc:
        turn = open_turn(rpc, home)["turnId"]

        def ask(tool, **arguments):
            done = rpc.call("invoke_tool", turnId=turn, toolName=tool, arguments=arguments)
            return result(rpc, done) if done["status"] == "completed" else done["error"]

        assert ask("glob", pattern="*.{c,h}")["entries"] == ["src/a.c", "src/b.h"]
        assert ask("glob", pattern="**/*")["entries"] == [".gitignore", "bin", "keep.o", "src/a.c", "src/b.h", "src/out/d"]
        assert ask("glob", pattern="*", path="src", limit=1) == {"entries": ["src/a.c"], "truncated": True}
        assert "out/c" in ask("glob", pattern="*", includeIgnored=True)["entries"]
        found = ask("grep", pattern="needle")
        assert found["text"] == "keep.o:1:needle\nsrc/a.c:1:int needle;\n" and found["matchingFiles"] == 2 and found["skippedFiles"] == 1, found
        assert ask("grep", pattern="needle", ignoreCase=True, include="*.h")["text"] == "src/b.h:1:NEEDLE (x)\n"
        assert ask("grep", pattern=r"^int\s+\w+;$", path="src/a.c", context=1)["matches"] == 2
        assert ask("grep", pattern="needle", path="src", context=1)["text"] == "src/a.c:1:int needle;\nsrc/a.c-2-int other;\n"
        assert ask("grep", pattern="(x)", literal=True, filesOnly=True)["text"] == "src/b.h\n"
        assert ask("grep", pattern="int", limit=1)["truncated"]
        assert ask("grep", pattern="(x")["category"] == "tool" and ask("grep", pattern="x", path="none")["category"] == "not_found"
        denied = {"permissions": {"deny": ["Read(src/b.h)"]}}
        os.makedirs(os.path.join(home.work, ".bailiff"), exist_ok=True)
        with open(os.path.join(home.work, ".bailiff", "policy.json"), "w", encoding="utf-8") as f:
            json.dump(denied, f)
        refused = ask("grep", pattern="x")
        assert refused["category"] == "permission", "a search reads everything below, also what a rule denies"


def test_a_plan_is_in_the_thread(home):
    steps = [{"step": "read", "status": "completed"}, {"step": "write", "status": "in_progress"}]
    with home.rpc() as rpc:
        turn = open_turn(rpc, home)
        rpc.call("subscribe_events", items=True, types=["item.*"], turnId=turn["turnId"])
        done = rpc.call("invoke_tool", turnId=turn["turnId"], toolName="update_plan", arguments={"steps": steps, "explanation": "why"})
        while (item := rpc.event()["payload"]["item"])["kind"] != "todo_list":
            pass
        assert item["steps"] == steps, item
        assert done["status"] == "completed" and "processId" not in done and result(rpc, done) == {"steps": steps}, done
        assert rpc.call("get_thread_read", threadId=turn["threadId"])["plan"] == steps
        told = [e for e in rpc.events() if e["type"] == "plan.updated"]
        assert [e["payload"] for e in told] == [{"steps": steps, "explanation": "why"}] and told[0]["toolCallId"] == done["toolCallId"], told
        wrong = {"turnId": turn["turnId"], "toolName": "update_plan", "arguments": {"steps": [{"step": "x", "status": "done"}]}}
        assert rpc.fails("invoke_tool", wrong, code=-32602).data["field"] == "arguments.steps[0].status"
        parts = rpc.call("submit_turn", input=[call("update_plan", steps=[])], options={"cwd": home.work})
        assert ended(rpc, parts)["status"] == "completed", "also as a part of a turn that the loop runs"
        valid(home, rpc)


def test_a_question_waits_for_its_answer(home):
    question = {"question": "Which one?", "options": ["left", "right"]}
    with home.rpc() as rpc:
        turn = open_turn(rpc, home)

        def ask(call_id):
            arguments = {"turnId": turn["turnId"], "toolName": "ask_user", "arguments": question, "toolCallId": call_id, "timeoutMs": 50}
            assert rpc.call("invoke_tool", **arguments)["status"] == "running"
            return arguments, [a for a in rpc.call("list_actions")["actions"] if a.get("toolCallId") == call_id]

        asked, actions = ask("call-1")
        assert len(actions) == 1 and actions[0]["actionType"] == "input" and "Which one?\n  1. left\n  2. right" in actions[0]["prompt"], actions
        rpc.fails("respond_action", {"actionId": actions[0]["actionId"], "decision": "answer"}, code=-32602)
    home.stop(signal.SIGKILL)
    home.start()
    with home.rpc() as rpc:
        assert rpc.call("invoke_tool", **asked)["status"] == "running"
        assert len(rpc.call("list_actions")["actions"]) == 1, "asked once, also after a restart"
        rpc.call("respond_action", actionId=actions[0]["actionId"], decision="answer", payload={"answer": "left"})
        done = rpc.call("invoke_tool", **{**asked, "timeoutMs": 10000})
        assert done["status"] == "completed" and result(rpc, done) == {"answer": "left"}, done
        asked, actions = ask("call-2")
        rpc.call("respond_action", actionId=actions[0]["actionId"], decision="deny")
        declined = rpc.call("invoke_tool", **asked)
        assert declined["status"] == "failed" and declined["error"]["category"] == "declined", declined
        asked, actions = ask("call-3")
        rpc.call("interrupt_turn", turnId=turn["turnId"])
        assert [a for a in rpc.call("list_actions")["actions"] if a["status"] == "pending"] == []
        assert turn_of(rpc, turn)[1]["status"] == "cancelled", turn_of(rpc, turn)
        ends = [e for e in rpc.events() if e["type"] == "tool.failed" and e["toolCallId"] == "call-3"]
        assert len(ends) == 1 and ends[0]["status"] == "cancelled", ends
        valid(home, rpc)


def test_read_output_returns_the_truncated_rest(home):
    with home.rpc() as rpc:
        turn = open_turn(rpc, home)["turnId"]
        done = rpc.call("invoke_tool", turnId=turn, toolName="shell", arguments={"commandLine": "seq 100000"})

        def ask(**arguments):
            return rpc.call("invoke_tool", turnId=turn, toolName="read_output", arguments={"ref": done["resultRef"], **arguments})

        part = result(rpc, ask(offset=4, length=4))
        assert part == {"ref": done["resultRef"], "offset": 4, "nextOffset": 8, "totalBytes": 588895, "text": "3\n4\n"}, part
        assert result(rpc, ask(tail=7))["text"] == "100000\n"
        assert result(rpc, ask(offset=588895))["text"] == ""
        missing = rpc.call("invoke_tool", turnId=turn, toolName="read_output", arguments={"ref": "out_none"})
        assert missing["status"] == "failed" and missing["error"]["category"] == "not_found", missing


def test_rules_apply_to_tools_of_the_engine(home):
    with open(os.path.join(home.dir, "policy.json"), "w", encoding="utf-8") as f:
        json.dump({"permissions": {"deny": ["update_plan"], "defaultMode": "plan"}}, f)
    home.restart()
    with home.rpc() as rpc:
        turn = open_turn(rpc, home)["turnId"]
        refused = rpc.fails("invoke_tool", {"turnId": turn, "toolName": "update_plan", "arguments": {"steps": []}}, code=-32010)
        assert "update_plan" in str(refused), refused
        assert rpc.call("invoke_tool", turnId=turn, toolName="read_output", arguments={"ref": "out_none"})["error"]["category"] == "not_found", \
            "mode plan does not restrict what has no effect"


def test_a_model_edits_searches_plans_and_asks(home):
    write(home, "src/a.c", "int needle;\n")
    script = [{"calls": [tool("grep", pattern="needle"), tool("glob", pattern="*.c"), tool("update_plan", steps=[{"step": "edit", "status": "in_progress"}])]},
              {"calls": [tool("edit_file", path="src/a.c", oldText="int missing;", newText="x")]},
              {"calls": [tool("edit_file", path="src/a.c", oldText="needle", newText="thread")]},
              {"calls": [tool("shell", command="seq 20000")]},
              {"calls": [tool("ask_user", question="Go on?")]},
              {"text": "Done."}]
    with home.rpc() as rpc, model(home, rpc, script) as p:
        turn = submit(rpc, "rename it", options={"cwd": home.work, "sandbox": {"workspace": home.work}})
        asked = harness.until("it asks", lambda: [a for a in rpc.call("list_actions")["actions"] if a["status"] == "pending"])
        assert asked[0]["prompt"] == "Go on?" and asked[0]["turnId"] == turn["turnId"], asked
        rpc.call("respond_action", actionId=asked[0]["actionId"], decision="answer", payload={"answer": "yes, please"})
        completed(rpc, turn)
        found = [str(r) for r in p.requests[1].results]
        assert "src/a.c:1:int needle;" in found[0] and "src/a.c" in found[1] and "The plan is recorded." in found[2], found
        assert "does not occur" in str(p.requests[2].results[0]), p.requests[2].results
        assert "modified src/a.c" in str(p.requests[3].results) and read(home, "src/a.c") == "int thread;\n"
        shown = str(p.requests[4].results[0])
        assert "20000" in shown and "bytes are not shown; read_output with" in shown and len(shown) < 20000, shown[-400:]
        assert "yes, please" in str(p.requests[5].results[0]), p.requests[5].results
        assert rpc.call("get_thread_read", threadId=turn["threadId"])["plan"][0]["step"] == "edit"
        valid(home, rpc)


class Terminal:
    """`bailiff agent` on a terminal of its own."""

    def __init__(self, home, *args):
        self.ours, theirs = pty.openpty()
        self.agent = home.cli_start("agent", *args, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                                    preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(theirs)
        self.seen = b""

    def read(self):
        assert select.select([self.ours], [], [], harness.PATIENCE)[0], ("nothing more is shown", self.seen)
        return os.read(self.ours, 4096)

    def expect(self, text):
        """Waits for this text; returns everything up to it and keeps the rest for the next call."""
        while text not in self.seen:
            self.seen += self.read()
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, text):
        os.write(self.ours, text.encode())

    def end(self):
        """The rest of the output, and the exit status."""
        with contextlib.suppress(OSError):      # the end of the terminal
            while part := self.read():
                self.seen += part
        os.close(self.ours)
        return self.seen, self.agent.wait(harness.PATIENCE)


def test_an_approval_is_asked_on_the_terminal():
    with Policed({"permissions": {"ask": ["Bash(touch:*)"]}}) as home:
        for answers, second, made, status in ((("maybe", "y", "n"), "more", ["made"], 0), (("s",), "made", ["made"], 0), (("n", "no"), "more", [], 0),
                                              (("\x03",), "more", [], 130)):
            script = [{"calls": [tool("shell", command="touch made"), tool("shell", command="touch " + second)]}, {"text": "Finished."}]
            for name in ("made", "more"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(home.work, name))
            with home.rpc() as rpc, model(home, rpc, script):
                t = Terminal(home, "go")
                for answer in answers:
                    assert b"touch" in t.expect(b"[n]o  [e]xplain: "), answer
                    t.type(answer if answer == "\x03" else answer + "\n")
                seen, ended = t.end()
                assert ended == status and (b"Finished." in seen) == (status == 0), (answers, ended, seen)
                assert [n for n in ("made", "more") if os.path.exists(os.path.join(home.work, n))] == made, (answers, seen)


def test_interactive_prompt_has_commands(home):
    with home.rpc() as rpc, model(home, rpc, ["One.", "Two."], name="first") as p, model(home, rpc, ["Three."], name="second") as q:
        t = Terminal(home)
        t.expect(b"> ")
        for line, shown in (("/help", b"/session  shows the session"), ("/model", b"(the default one)"), ("/session", b"(none yet)"), ("/nonsense x", b"is not a command"),
                            ("one", b"One."), ("/session", b"session sess_"), ("/etc/passwd is a file", b"Two."), ("/new", b"new session"), ("/model second", b"model second"),
                            ("three", b"Three.")):
            t.type(line + "\n")
            t.expect(shown)
            t.expect(b"> ")
        t.type("/quit\n")
        assert t.end()[1] == 0
        assert "/etc/passwd is a file" in str(p.requests[1].texts) and "one" in str(p.requests[1].texts), p.requests[1].texts
        assert "one" not in q.requests[0].texts, "a new session"
        for words in (("agent", "--model", ""), ("model", "show", "")):
            assert set(home.cli("completion", "words", *words).text.split()) == {"first", "second"}, words


def test_a_question_is_answered_on_the_terminal(home):
    script = [{"calls": [tool("ask_user", question="Which one?", options=["left", "right"])]}, {"text": "Thanks."}]
    with home.rpc() as rpc, model(home, rpc, script) as p:
        t = Terminal(home, "go")
        asked = t.expect(b"declines) > ")
        assert b"Which one?" in asked and b"2. right" in asked, asked
        t.type("die linke, bitte\n")
        seen, status = t.end()
        assert status == 0 and b"Thanks." in seen, seen
        assert "die linke, bitte" in str(p.requests[1].results), p.requests[1].results
    with home.rpc() as rpc, model(home, rpc, script):
        assert b"needs an answer: Which one?" in home.cli("agent", "-p", "go", status=3).err


def test_the_recording_in_the_documentation_is_current():
    with open(agent_run.DOCUMENT) as f:
        written = agent_run.PLACE.search(f.read()).group()
    assert written == agent_run.record(), "run tests/blackbox/agent_run.py --write"


if __name__ == "__main__":
    harness.main(globals())
