"""Child agents, channels, the history of threads and read models from the command line."""

import json

import harness
from harness import until


def parent(home):
    made = home.cli("session", "create", "--title", "parent", "--json").json
    return made["sessionId"], made["threadId"]


def test_subagent_verbs(home):
    session, thread = parent(home)
    child = home.cli("subagent", "spawn", "--thread", thread, "--nickname", "ann", "--input", "one\n", "worker", "--", "cat").text.strip()
    assert home.cli("subagent", "show", child[-8:], "--json").json["subagentId"] == child
    assert "ann" in home.cli("subagent", "list", "--session", session).text
    until("it runs", lambda: home.cli("subagent", "show", child, "--json").json["status"] == "running")
    home.cli("subagent", "send", child, "two\n")
    home.cli("subagent", "send", child, "--eof")
    home.cli("subagent", "send", child, status=2)
    ended = home.cli("subagent", "wait", child, "--json").json
    assert ended[0]["status"] == "completed" and ended[0]["exitCode"] == 0, ended
    with home.rpc() as rpc:
        assert rpc.output(ended[0]["outputRef"]) == b"one\ntwo\n"
    home.cli("subagent", "resume", child)
    home.cli("subagent", "wait", "--timeout", "100ms", child, status=124)
    home.cli("subagent", "close", child, "--reason", "enough")
    assert "closed" in home.cli("subagent", "wait", child).text
    own = home.cli("subagent", "spawn", "--thread", thread, "reviewer").text.strip()
    home.cli("subagent", "report", own, "running")
    home.cli("subagent", "report", own, "failed", "--message", "no", "--category", "client")
    both = home.cli("subagent", "list", "--thread", thread, "--all", "--json").json
    assert {s["subagentId"]: s["status"] for s in both} == {child: "closed", own: "failed"}, both
    home.cli("subagent", "report", own, "sleeping", status=1)
    home.cli("subagent", "show", "sub_none", status=1)
    assert b"ambiguous" in home.cli("subagent", "show", "sub", status=1).err
    home.cli("subagent", "spawn", "worker", status=2)
    home.cli("subagent", "show", status=2)
    home.cli("subagent", status=2)


def test_channel_verbs(home):
    made = home.cli("channel", "connect", "--heartbeat", "1h", "--peer-role", "client", "--protocol", "a2a", "--capability", "resume",
                    "json_rpc", "--json").json
    channel = made["channelId"]
    assert channel in home.cli("channel", "list", "--session", made["sessionId"]).text
    shown = home.cli("channel", "show", channel, "--json").json
    assert shown["status"] == "connected" and shown["capabilities"] == ["resume"] and shown["nativeProtocol"] == "a2a", shown
    last = json.loads(home.cli("events", "--session", made["sessionId"], "--json").text.splitlines()[-1])["sequence"]
    assert home.cli("channel", "ack", channel, str(last)).text.strip() == str(last)
    home.cli("channel", "send", channel, "hello", "--kind", "notice")
    home.cli("channel", "send", channel, "to you too", "--direction", "in")
    home.cli("channel", "disconnect", channel, "--reason", "a pause")
    assert home.cli("channel", "show", channel, "--json").json["status"] == "disconnected"
    home.cli("channel", "reconnect", channel, str(last), "--token", "0" * 64, status=1)
    back = home.cli("channel", "reconnect", channel, str(last), "--token", made["resumeToken"], "--json").json
    assert back["resumedFrom"] == last and back["snapshot"]["sessionId"] == made["sessionId"], back
    with home.rpc() as rpc:
        found = [e["type"] for e in rpc.events(sessionId=made["sessionId"], types=["channel.*"])]
    assert found == ["channel.connected", "channel.message", "channel.message", "channel.disconnected", "channel.resumed"], found
    home.cli("channel", "reconnect", channel, str(last), status=2)
    home.cli("channel", "ack", channel, "many", status=2)
    home.cli("channel", "connect", "json_rpc", status=2)
    home.cli("channel", "connect", "--heartbeat", "1h", "pigeon", status=1)


def test_thread_and_snapshot_verbs(home):
    session, thread = parent(home)
    turns = []
    for text in ("first", "second"):
        turns.append(home.cli("turn", "submit", "--thread", thread, "--text", text).text.strip())
        home.cli("turn", "complete", turns[-1])
    home.cli("thread", "compact", thread, "--trigger", "manual", "--tokens-before", "900")
    home.cli("thread", "compact", thread, "--summary", "what was said", "--tokens-after", "20")
    boundary = home.cli("snapshot", "context_boundary_snapshot", "--thread", thread, "--json").json
    assert "what was said" in json.dumps(boundary), boundary
    home.cli("thread", "rollback", thread, turns[0], "--reason", "try again")
    read = home.cli("thread", "show", thread, "--json").json
    assert "rolled_back" in json.dumps(read) or turns[1] not in [t["turnId"] for t in read["turns"]], read
    assert home.cli("snapshot", "session_snapshot", "--session", session, "--json").json["snapshot"]["sessionId"] == session
    assert "execution" in home.cli("snapshot", "execution_environment_snapshot", "--turn", turns[0]).text.lower()
    home.cli("thread", "compact", thread, "--trigger", "manual", "--tokens-before", "-1", status=2)
    home.cli("thread", "rollback", thread, status=2)
    home.cli("snapshot", status=2)
    home.cli("snapshot", "none", status=1)
    home.cli("snapshot", "session_snapshot", "--session", "sess_none", status=1)


harness.main(globals())
