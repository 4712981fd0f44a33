"""The fakes of model providers (tests/fakes) behave like the providers: their official SDKs work against them, in streams and with tools."""

import json
import os
import subprocess
import sys

import harness
import npm
from harness import PATIENCE, ROOT, environment

sys.path.insert(0, os.path.join(ROOT, "tests", "fakes"))
from provider import Provider  # noqa: E402

KEY = "sk-test-0123456789abcdef"
TEXT, THOUGHT = "Let me look: ünïcode 🚀 in a long sentence.", "The user wants a list, so I should run ls."
CALLS = [{"name": "shell", "arguments": {"command": "ls -la \"ä\"\n"}}, {"name": "read", "arguments": {}}]


def react(request):
    """Calls a tool and uses its result."""
    return "; ".join(f"{r['name']}: {r['text']}" for r in request.results) or "no results"


def converse(dialect, **quirks):
    script = [dict(quirks, reasoning=THOUGHT, text=TEXT, calls=CALLS), react, {"status": 429, "retry_after": 7, "message": "slow down"}, "in one piece"]
    node, packages = npm.node(20), npm.packages("model-sdk")
    driver = os.path.join(ROOT, "tests", "fakes", "sdk_driver.mjs")
    with Provider(dialect, script, keys=[KEY]) as p:
        done = subprocess.run([node, driver, packages, dialect, p.origin, KEY], env=environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
        assert done.returncode == 0, (done.stderr.decode(), p.violations)
        assert len(p.requests) == 5 and len(p.violations) == 1 and not p.unscripted, (len(p.requests), p.violations)
        assert [r.status for r in p.requests] == [200, 200, 400, 429, 200], [r.status for r in p.requests]
        assert p.requests[0].texts == ["What is here?"] and p.requests[0].system == "Be brief." and p.requests[0].tools == ["shell", "read"]
        return p, json.loads(done.stdout)


def expect(dialect, stops, rejected, **quirks):
    p, got = converse(dialect, **quirks)
    assert got["text"] == TEXT and got["reasoning"] == THOUGHT, got
    assert [(c["name"], c["arguments"]) for c in got["calls"]] == [(c["name"], c["arguments"]) for c in CALLS], got
    assert len({c["id"] for c in got["calls"]}) == 2
    assert (got["stop"], got["second"]["stop"]) == stops, got
    assert got["second"]["text"] == "shell: output of shell; read: output of read", got
    assert got["usage"]["input"] > 0 and got["usage"]["cached"] == 0 and got["second"]["usage"]["cached"] > 0, got
    assert got["rejected"]["status"] == 400 and rejected in got["rejected"]["message"], got["rejected"]
    assert rejected in p.violations[0], p.violations
    assert got["limited"]["status"] == 429 and "slow down" in got["limited"]["message"], got["limited"]
    assert got["limited"]["retryAfter"] in ("7", None) and got["whole"] == "in one piece", got
    return got


def test_anthropic_sdk_works_with_the_fake():
    got = expect("anthropic", ("tool_use", "end_turn"), "`tool_use` ids were found without `tool_result` blocks")
    assert got["limited"]["retryAfter"] == "7", got
    expect("anthropic", ("tool_use", "end_turn"), "`tool_use` ids", split=1, pad=True, piece=1)
    expect("anthropic", ("tool_use", "end_turn"), "`tool_use` ids", split=1000, comments=True, arguments="none")


def test_openai_sdk_works_with_the_responses_fake():
    got = expect("openai-responses", ("completed", "completed"), "No tool output found for function call")
    assert got["limited"]["retryAfter"] == "7", got
    expect("openai-responses", ("completed", "completed"), "No tool output", split=1, piece=1)
    expect("openai-responses", ("completed", "completed"), "No tool output", comments=True, close=True)


def test_openai_sdk_works_with_the_chat_fake():
    expect("openai-chat", ("tool_calls", "stop"), "must be followed by tool messages")
    expect("openai-chat", ("tool_calls", "stop"), "must be followed by tool messages", split=1, piece=1, comments=True)
    expect("openai-chat", ("tool_calls", "stop"), "must be followed by tool messages", call_style="whole", usage_in="twice", split=3)


def test_gemini_sdk_works_with_the_fake():
    expect("gemini", ("STOP", "STOP"), "thought_signature")
    expect("gemini", ("STOP", "STOP"), "thought_signature", split=1, piece=1, call_style="separate")
    expect("gemini", ("STOP", "STOP"), "thought_signature", finish_alone=True)


if __name__ == "__main__":
    harness.main(globals())
