"""Whole conversations with the fake providers: the dialects encode, bailiff-model sends, the dialects decode. No request may break a provider's rule, whatever
happened before: cut answers, calls without results, another provider in between. SEED=n repeats the choices, ROUNDS=n takes more."""

import base64
import contextlib
import json
import os
import random
import subprocess
import sys

import harness
from harness import BUILD, PATIENCE, ROOT, environment

sys.path.insert(0, os.path.join(ROOT, "tests", "fakes"))
from provider import Provider  # noqa: E402
from test_dialects import Filter  # noqa: E402

MODEL = os.path.join(BUILD, "bailiff-model")
SEED = int(os.environ.get("SEED") or 1)
ROUNDS = int(os.environ.get("ROUNDS") or 25)
DIALECTS = ("anthropic", "openai-responses", "openai-chat", "gemini")
NAMES = {"anthropic": "claude-fake", "openai-responses": "gpt-fake", "openai-chat": "local-fake", "gemini": "gemini-3-fake"}
TOOLS = [{"name": n, "description": "d", "schema": {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": False,
                                                    "properties": {"command": {"type": "string"}, "list": {"type": "array", "items": {"type": "object", "properties": {}}}}, "required": ["command"]}}
         for n in ("shell", "read_file")]
TEXTS = ("hello", "ünïcode 🚀 and \"quotes\" \\ \n lines", "x" * 500, "data: {}\n\n: not a comment\n", "\u2028 and \x7f")


class Sender(Filter):
    """Sends what the dialects encode with bailiff-model."""

    def ask(self, provider, items, piece=0, **more):
        name = provider.dialect.name
        http = self.encode(name, items, baseUrl=provider.url, model=NAMES[name], identity=f"fake/{NAMES[name]}", tools=TOOLS, **more)
        line = dict({k: http[k] for k in ("url", "headers", "keyHeader", "keyPrefix")}, keyCommand="echo sk-0123456789abcdef", direct=True)
        done = subprocess.run([MODEL], env=environment(), input=json.dumps(line).encode() + b"\n" + http["body"].encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE)
        head, _, body = done.stdout.partition(b"\n")
        assert head, done.stderr
        head = json.loads(head)
        return self(decode=name, status=head["status"], headers=head["headers"], body=base64.b64encode(body).decode(), piece=piece)


def assistant(dialect, answer):
    blocks = list(answer["blocks"])
    if "partialText" in answer:
        blocks.append({"type": "text", "text": answer["partialText"]})
    return dict({"type": "assistant", "model": f"fake/{NAMES[dialect]}", "dialect": dialect, "blocks": blocks}, **({} if answer["complete"] else {"interrupted": True}))


def random_step(rng):
    step = {"piece": rng.choice((3, 7, 1000)), "split": rng.choice((None, None, 5, 900)), "comments": rng.random() < 0.2}
    if rng.random() < 0.6:
        step["reasoning"] = rng.choice(TEXTS)
    if rng.random() < 0.7:
        step["text"] = rng.choice(TEXTS)
    if rng.random() < 0.7 or "text" not in step:
        step["calls"] = [{"name": rng.choice(("shell", "read_file")), "arguments": rng.choice(({"command": "ls \"ä\""}, {}, {"command": "x", "list": [{"a": None}, 1.5]}))} for _ in range(rng.choice((1, 1, 2, 3)))]
    return step


def random_fault(rng, step):
    fault = rng.choice(({}, {}, {}, {"drop_terminal": True}, {"cut_after": rng.randrange(20, 2500)}, {"cut_after_events": rng.randrange(1, 9)}, {"error_after": rng.randrange(1, 6)}, {"usage": "missing"},
                        {"duplicate_finish": True}, {"status": 529}, {"ids": "missing"}, {"ids": "duplicate"}, {"call_style": "whole"}, {"stop": "max_tokens"}, {"malformed_after": 2}))
    return dict(step, **fault)


def after_answer(rng, items, answer):
    """Items that can follow an answer in a history: results of some calls, late or repeated, notes, user messages."""
    calls = [b for b in answer["blocks"] if b["type"] == "tool_call"]
    results = [{"type": "tool_result", "id": c["id"], "name": c["name"], "text": rng.choice(TEXTS + ("", " ")), "isError": rng.random() < 0.3} for c in calls if rng.random() < 0.8]
    rng.shuffle(results)
    if results and rng.random() < 0.1:
        results.append(results[0])
    if rng.random() < 0.1:
        results.append({"type": "tool_result", "id": "stray", "name": "shell", "text": "x", "isError": False})
    if rng.random() < 0.3:
        results.insert(rng.randrange(len(results) + 1), {"type": "note", "text": "the turn was interrupted"})
    if not calls or rng.random() < 0.2:
        results.append({"type": "user", "text": rng.choice(TEXTS)})
    items += results


def compare(step, answer, dialect):
    """An answer without faults is what the provider meant."""
    assert answer["complete"], (dialect, step, answer)
    assert answer["sink"] == step.get("text", ""), (dialect, step, answer)
    assert "".join(b["text"] for b in answer["blocks"] if b["type"] == "text") == step.get("text", ""), (dialect, step, answer)
    calls = [(b["name"], b["arguments"]) for b in answer["blocks"] if b["type"] == "tool_call"]
    assert calls == [(c["name"], c["arguments"]) for c in step.get("calls", [])], (dialect, step, answer)
    assert answer["stop"] == ("calls" if calls else "done") and answer["usage"]["known"] and answer["usage"]["input"] > 0, (dialect, step, answer)


@contextlib.contextmanager
def providers(names, reply):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Provider(n, reply)) for n in names]


def converse(names, seed, faults):
    rng, step = random.Random(seed), {}
    with Sender() as sender, providers(names, lambda _: step) as all_of_them:
        items = [{"type": "user", "text": "begin"}]
        for number in range(ROUNDS):
            p = rng.choice(all_of_them)
            plain = random_step(rng)
            step = random_fault(rng, plain) if faults else plain
            answer = sender.ask(p, items, piece=rng.choice((0, 1, 3, 100)), noTools=rng.random() < 0.1)
            assert not p.violations, (seed, number, p.dialect.name, p.violations, json.dumps(p.requests[-1].body)[-3000:])
            assert p.requests[-1].status == step.get("status", 200), (seed, number, p.dialect.name, p.requests[-1].status)
            if not faults:
                compare(plain, answer, p.dialect.name)
            items.append(assistant(p.dialect.name, answer))
            after_answer(rng, items, answer)
            if len(items) > 60:
                items = [{"type": "user", "text": "begin again"}]


def test_each_provider_accepts_every_request():
    for name in DIALECTS:
        converse([name], SEED, faults=False)


def test_requests_after_faults_are_accepted():
    for name in DIALECTS:
        converse([name], SEED + 1, faults=True)


def test_conversation_can_change_its_provider():
    converse(DIALECTS, SEED + 2, faults=False)
    converse(DIALECTS, SEED + 3, faults=True)


if __name__ == "__main__":
    harness.main(globals())
