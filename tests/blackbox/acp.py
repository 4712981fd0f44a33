"""A raw ACP client (an editor) on `bailiff acp`. Every message of the agent is checked against the protocol's rules."""

import mcp

KINDS = {"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}
CHUNKS = {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"}


def check_content(content):
    for c in content:
        if c["type"] == "content":
            assert c["content"]["type"] == "text" and isinstance(c["content"]["text"], str), c
        elif c["type"] == "diff":
            assert c["path"].startswith("/") and isinstance(c["newText"], str) and isinstance(c.get("oldText"), (str, type(None))), c
        else:
            assert c["type"] == "terminal" and isinstance(c["terminalId"], str), c


def check_call(update, known):
    assert update.get("kind", "other") in KINDS and update.get("status", "pending") in {"pending", "in_progress", "completed", "failed"}, update
    assert all(at["path"].startswith("/") for at in update.get("locations", [])), update
    check_content(update.get("content", []))
    if update["sessionUpdate"] == "tool_call":
        assert isinstance(update["title"], str) and update["toolCallId"] not in known, update
        known.add(update["toolCallId"])
    else:
        assert update["toolCallId"] in known, f"an update of an unknown call: {update}"


class Acp(mcp.Mcp):
    """`answer` is called with each request of the agent and returns its result; None = no answer."""

    verb = "acp"

    def __init__(self, home, *options, capabilities=None, answer=None, **more):
        super().__init__(home, *options, **more)
        self.answer_with, self.seen = answer, 0     # `seen`: requests that were answered
        self.hello = self.call("initialize", protocolVersion=1, clientInfo={"name": "test-editor", "version": "1"}, clientCapabilities=capabilities or {})

    def pump(self, patience=None):
        if not super().pump(patience):
            return False
        while self.seen < len(self.asked):
            request = self.asked[self.seen]
            self.seen += 1
            result = self.answer_with(request) if self.answer_with else None
            if result is not None:
                self.answer(request, result)
        return True

    def open(self, cwd, **more):
        self.session = self.call("session/new", cwd=cwd, mcpServers=[], **more)
        self.id = self.session["sessionId"]
        return self.session

    def prompt(self, text):
        """The number of the request."""
        return self.send("session/prompt", sessionId=self.id, prompt=[{"type": "text", "text": text}] if isinstance(text, str) else text)

    def run(self, text):
        """(stop reason, updates) of a prompt."""
        first = len(self.notes)
        result = self.reply(self.prompt(text))
        return result["stopReason"], self.updates(first)

    def updates(self, first=0):
        """Those after the first `first` notifications; all are checked."""
        found, known = [], set()
        for at, note in enumerate(self.notes):
            if note["method"] != "session/update":
                continue
            assert note["params"]["sessionId"] == self.id, note
            update = note["params"]["update"]
            if update["sessionUpdate"] in CHUNKS:
                assert update["content"]["type"] == "text" and update["content"]["text"], update
            elif update["sessionUpdate"] in ("tool_call", "tool_call_update"):
                check_call(update, known)
            else:
                assert update["sessionUpdate"] in ("plan", "current_mode_update"), update
            if at >= first:
                found.append(update)
        return found


def text_of(updates, kind="agent_message_chunk"):
    return "".join(u["content"]["text"] for u in updates if u["sessionUpdate"] == kind)


def calls_of(updates):
    """The calls as an editor shows them in the end: each update replaces the members that it has."""
    calls = {}
    for u in updates:
        if u["sessionUpdate"] in ("tool_call", "tool_call_update"):
            calls.setdefault(u["toolCallId"], {}).update(u)
    return list(calls.values())
