#!/usr/bin/python3
"""What providers reject in a request body: calls without results, results without calls, empty messages, wrong order of roles.
The same rules for the encoders are in tests/unit/runtime/dialect/pairing.h.

    tests/fakes/pairing.py DIALECT FILE...     check bodies that a fake provider received
    pairing.check(dialect, body)               body: bytes, str or parsed; returns None or what is wrong
"""

import json
import re
import sys

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


class Rejected(Exception):
    pass


def require(condition, problem):
    if not condition:
        raise Rejected(problem)


def blank(text):
    return not isinstance(text, str) or not text.strip()


def new_id(used, value):
    require(isinstance(value, str) and NAME.match(value), f"id {value!r}")
    require(value not in used, f"id {value} is used twice")
    used.add(value)


def is_arguments(text):
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError):
        return False


def anthropic(body):
    used, calls, messages = set(), [], body["messages"]
    require(json.dumps(body).count('"cache_control": {') <= 4, "more than four breakpoints")
    require(len(messages) % 2 == 1, "first and last message are the user's")
    for at, message in enumerate(messages):
        content = message["content"]
        require(message["role"] == ("assistant" if at % 2 else "user"), f"role of message {at}")
        require(content, f"message {at} is empty")
        if at % 2 == 0:
            results = [b["tool_use_id"] for b in content if b["type"] == "tool_result"]
            require(results == calls, f"message {at}: results {results} for calls {calls}")
            require(all(b["type"] == "tool_result" for b in content[:len(calls)]), f"message {at}: text before results")
            require(all(not blank(b["text"]) for b in content[len(calls):]), f"message {at}: blank text")
            calls = []
            continue
        for block in content:
            if block["type"] == "tool_use":
                new_id(used, block["id"])
                require(NAME.match(block["name"]) and isinstance(block["input"], dict), "name or input of tool_use")
                calls.append(block["id"])
            elif block["type"] == "text":
                require(not blank(block["text"]) and not calls, f"message {at}: blank text, or text after tool_use")
            else:
                require(block.get("signature") or block.get("data"), "thinking without signature")
        require("thinking" not in content[-1]["type"], "thinking at the end")


def openai_responses(body):
    used, calls, last = set(), set(), {}
    for item in body["input"]:
        kind = item["type"]
        if last.get("type") == "reasoning":
            require(kind != "function_call_output" and item.get("role") != "user", "reasoning without the item after it")
        if kind == "function_call":
            new_id(used, item["call_id"])
            require(NAME.match(item["name"]) and is_arguments(item["arguments"]), "name or arguments")
            calls.add(item["call_id"])
        elif kind == "function_call_output":
            require(item["call_id"] in calls, f"output without call: {item['call_id']}")
            calls.remove(item["call_id"])
        elif kind == "reasoning":
            require(item.get("encrypted_content"), "reasoning that is not encrypted")
        else:
            require(kind == "message" and not blank(item["content"][0]["text"]), "empty message")
            require(item["role"] == "assistant" or not calls, f"calls without output: {calls}")
        last = item
    require(not calls, f"calls without output: {calls}")
    require(last.get("type") == "function_call_output" or last.get("role") == "user", "last item")


def openai_chat(body):
    used, calls, last = set(), [], "system"
    for at, message in enumerate(body["messages"]):
        role = message["role"]
        if calls:
            require(role == "tool" and message["tool_call_id"] == calls.pop(0), f"message {at} is not the next result")
        elif role == "assistant":
            require(last in ("user", "tool"), f"message {at}: assistant after {last}")
            for call in message.get("tool_calls", []):
                new_id(used, call["id"])
                require(NAME.match(call["function"]["name"]) and is_arguments(call["function"]["arguments"]), "name or arguments")
                calls.append(call["id"])
            require(calls or not blank(message["content"]), f"message {at} is empty")
        else:
            require(role == "user" or (role == "system" and at == 0), f"message {at}: role {role}")
            require(at == 0 or last != role, f"message {at}: two messages of {role}")
            require(not blank(message["content"]), f"message {at}: blank text")
        last = role
    require(not calls and last in ("user", "tool"), "last message")


def gemini(body):
    calls, contents = [], body["contents"]
    require(len(contents) % 2 == 1, "first and last content are the user's")
    for at, content in enumerate(contents):
        parts = content["parts"]
        require(content["role"] == ("model" if at % 2 else "user"), f"role of content {at}")
        require(parts, f"content {at} is empty")
        if at % 2:
            calls = [p["functionCall"] for p in parts if "functionCall" in p]
            require(all(NAME.match(c["name"]) and isinstance(c["args"], dict) for c in calls), "name or args")
            continue
        responses = [p["functionResponse"] for p in parts if "functionResponse" in p]
        require([(r["name"], r.get("id")) for r in responses] == [(c["name"], c.get("id")) for c in calls], f"content {at}: responses")
        require(all(not blank(p["text"]) for p in parts[len(calls):]), f"content {at}: blank text, or text before responses")
        calls = []


DIALECTS = {"anthropic": anthropic, "openai-responses": openai_responses, "openai-chat": openai_chat, "gemini": gemini}


def check(dialect, body):
    try:
        DIALECTS[dialect](body if isinstance(body, dict) else json.loads(body))
    except Rejected as problem:
        return str(problem)
    except (KeyError, IndexError, TypeError, ValueError) as problem:
        return f"malformed body: {problem!r}"
    return None


def main():
    failed = False
    for path in sys.argv[2:]:
        with open(path, "rb") as f:
            problem = check(sys.argv[1], f.read())
        failed |= problem is not None
        print(f"{path}: {problem or 'ok'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
