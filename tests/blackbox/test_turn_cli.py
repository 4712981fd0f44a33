"""Turns, threads, tools and actions from the command line."""

import json

import harness
from harness import until


def test_turn_verbs_submit_list_and_interrupt(home):
    turn = home.cli("turn", "submit", "--line", "echo one", "--", "echo", "two", cwd=home.work).text.strip()
    with home.rpc() as rpc:
        thread = rpc.events(turnId=turn)[0]["threadId"]
        session = rpc.events(turnId=turn)[0]["sessionId"]
    shown = until("it has ended", lambda: (t := home.cli("thread", "show", thread, "--json").json) and t["turns"][0]["status"] == "completed" and t)
    assert [c["displayPreview"] for c in shown["toolCalls"]] == ["one\n", "two\n"], shown
    assert home.work in json.dumps(shown["turns"][0]["executionEnvironment"]), shown
    assert thread in home.cli("thread", "list", session).text
    text = home.cli("turn", "submit", "--thread", thread, "--text", "think").text.strip()
    queued = json.loads(home.cli("turn", "submit", "--session", session, "--line", "true", "--json").text)
    assert queued["status"] == "queued", queued
    home.cli("turn", "submit", "--session", session, "--reject", "--line", "true", status=1)
    other = home.cli("turn", "submit", "--session", session, "--line", "true").text.strip()
    assert home.cli("turn", "promote", other).text.strip() == "queued"
    assert home.cli("turn", "remove", queued["turnId"]).text.strip() == "removed"
    assert home.cli("thread", "resume", thread).text.strip() == "no_op"
    assert home.cli("turn", "complete", text, "--summary", "thought").text.strip() == "completed"
    again = home.cli("turn", "submit", "--thread", thread, "--text", "more").text.strip()
    until("its turn comes", lambda: home.cli("thread", "show", thread, "--json").json.get("activeTurnId") == again)
    assert home.cli("turn", "fail", again, "--message", "no").text.strip() == "failed"
    last = home.cli("turn", "submit", "--line", "sleep 1000").text.strip()
    assert home.cli("turn", "interrupt", last, "--reason", "enough", "--clear-queue").text.strip() == "interrupted"
    home.cli("turn", "submit", status=2)
    home.cli("turn", "complete", status=2)
    home.cli("turn", "complete", "turn_none", status=1)
    home.cli("session", "update", session, "--title", "named", "--archive")
    assert home.cli("session", "show", session, "--json").json["title"] == "named"


def test_turns_are_listed_and_shown(home):
    turn = home.cli("turn", "submit", "--line", "echo one").text.strip()
    with home.rpc() as rpc:
        thread = rpc.events(turnId=turn)[0]["threadId"]
    until("it has ended", lambda: home.cli("turn", "show", turn, "--json").json["status"] == "completed")
    later = [home.cli("turn", "submit", "--thread", thread, "--text", f"question {n}").text.strip() for n in range(3)]
    assert "echo one" in home.cli("turn", "list", thread).text
    listed = home.cli("turn", "list", thread, "--json").json
    assert {turn, *later} <= {t["turnId"] for t in listed}, listed
    newest = home.cli("turn", "list", thread, "--limit", "1", "--json").json
    older = home.cli("turn", "list", thread, "--before", newest[0]["turnId"], "--json").json
    assert len(newest) == 1 and newest[0]["turnId"] not in [t["turnId"] for t in older], (newest, older)
    shown = home.cli("turn", "show", turn, "--json").json
    assert shown == next(t for t in listed if t["turnId"] == turn), shown
    assert "echo one" in home.cli("turn", "show", turn[-8:]).text, "the end of an id is enough"
    assert home.cli("turn", "show", later[2], "--json").json["status"] == "queued"
    assert b"turn_none" in home.cli("turn", "show", "turn_none", status=1).err


def test_turns_beyond_the_first_window_are_shown(home):
    with home.rpc() as rpc:
        first = rpc.call("submit_turn", input=[{"type": "text", "text": "the first"}])
        rpc.call("complete_turn", turnId=first["turnId"])
        for _ in range(210):
            later = rpc.call("submit_turn", threadId=first["threadId"], input=[{"type": "text", "text": "later"}])
            rpc.call("complete_turn", turnId=later["turnId"])
    assert home.cli("turn", "show", first["turnId"], "--json").json["preview"] == "the first"


def test_hints_name_commands(home):
    """The daemon's advice names methods of the socket; a person gets a command."""
    for args, hint in ((("task", "show", "task_01none"), b"bailiff task list"), (("turn", "interrupt", "turn_01none"), b"check the id")):
        said = home.cli(*args, status=1).err
        assert hint in said and b"list methods" not in said, said
    process = home.cli("run", "-d", "sleep", "60").text.strip()
    said = home.cli("screen", process, status=1).err
    assert b"bailiff run -t" in said and b"start_process" not in said, said
    home.cli("kill", process)


def test_tool_verbs_list_and_call(home):
    assert "apply_patch" in home.cli("tool", "list").text
    turn = home.cli("turn", "submit", "--text", "x", "--cwd", home.work).text.strip()
    done = home.cli("tool", "invoke", "--turn", turn, "shell", '{"command":"echo hi"}', "--json").json
    assert done["preview"] == "hi\n", done
    home.cli("tool", "invoke", "shell", status=2)
    home.cli("tool", "invoke", "--turn", turn, "none", status=1)


def test_pending_actions_are_listed_and_answered(home):
    turn = home.cli("turn", "submit", "--text", "x").text.strip()
    with home.rpc() as rpc:
        asked = [rpc.call("request_action", turnId=turn, actionType="approval", prompt=f"question {n}")["actionId"] for n in range(3)]
        assert "question 1" in home.cli("pending").text
        assert home.cli("approve", asked[0], "--note", "fine", "--always").text.strip() == "allow"
        assert home.cli("deny", asked[1][-8:]).text.strip() == "deny"
        home.cli("approve", asked[0], status=1)
        home.cli("approve", "act_", "--json", status=0)
        assert len(home.cli("pending", "--json").json) == 0
        resolved = [e["payload"] for e in rpc.events(turnId=turn) if e["type"] == "action.resolved"]
        assert [(r["decision"], r["scope"]) for r in resolved] == [("allow", "always"), ("deny", "once"), ("allow", "once")], resolved
        home.cli("approve", status=2)


if __name__ == "__main__":
    harness.main(globals())
