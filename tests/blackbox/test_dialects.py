"""The dialects against fakes of the providers, which are as strict as the providers: whole conversations, without a daemon."""

import base64
import http.client
import json
import os
import random
import subprocess
import sys
import urllib.parse

import harness
from harness import BUILD, ROOT

sys.path.insert(0, os.path.join(ROOT, "tests", "fakes"))
from provider import DIALECTS, Provider, check  # noqa: E402

IDENTITY = "acme/gemini-3-fake"
TOOLS = [{"name": n, "description": f"The tool {n}", "schema": {"type": "object", "properties": {"command": {"type": "string"}}}} for n in ("shell", "list")]


class Filter:
    """tests/fakes/dialect_filter.c."""

    def __enter__(self):
        self.process = subprocess.Popen([os.path.join(BUILD, "dialect_filter")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait() == 0

    def __call__(self, **request):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def encode(self, dialect, items, **more):
        made = self(encode=dialect, **dict({"model": "gemini-3-fake", "identity": IDENTITY, "items": items, "tools": TOOLS, "instructions": "Be brief.",
                                            "cacheKey": "thr_1"}, **more))
        assert "error" not in made, made
        return made

    def ask(self, provider, items, piece=0, **more):
        """One request and its answer."""
        dialect = provider.dialect.name
        made = self.encode(dialect, items, baseUrl=provider.url, **more)
        url = urllib.parse.urlsplit(made["url"])
        connection = http.client.HTTPConnection(url.hostname, url.port)
        headers = dict(made["headers"], **{made["keyHeader"]: made["keyPrefix"] + "key"})
        connection.request("POST", url.path + (f"?{url.query}" if url.query else ""), made["body"].encode(), headers)
        response = connection.getresponse()
        try:
            body = response.read()
        except http.client.IncompleteRead as e:
            body = e.partial
        connection.close()
        return self(decode=dialect, status=response.status, headers={k.lower(): v for k, v in response.getheaders()}, body=base64.b64encode(body).decode(), piece=piece)


def assistant(dialect, answer):
    item = {"type": "assistant", "model": IDENTITY, "dialect": dialect, "blocks": list(answer["blocks"])}
    if "partialText" in answer:
        item["blocks"].append({"type": "text", "text": answer["partialText"]})
        item["interrupted"] = True
    return item


def results(answer, text="it worked ✓"):
    return [{"type": "tool_result", "id": b["id"], "name": b["name"], "text": text, "isError": False} for b in answer["blocks"] if b["type"] == "tool_call"]


def of_type(answer, kind):
    return [b for b in answer["blocks"] if b["type"] == kind]


SCRIPT = [
    {"reasoning": "The user wants a list. ", "text": "Looking…", "calls": [{"name": "shell", "arguments": {"command": "ls 'ä b'"}}, {"name": "list", "arguments": {}}]},
    {"reasoning": "Now I know.", "calls": [{"name": "shell", "arguments": {"command": "cat \"x\"\n", "n": [1, 2.5, None]}}], "comments": True},
    {"text": "All done 😀."},
    {"text": "And more.", "piece": 1},
]


def test_conversation_in_each_dialect_violates_no_rule():
    with Filter() as f:
        for dialect in DIALECTS:
            for piece in (0, 1, 7):
                with Provider(dialect, SCRIPT, keys=["key"]) as p:
                    items, cached = [{"type": "user", "text": "What is here? " * 500}], []
                    for n, step in enumerate(SCRIPT):
                        answer = f.ask(p, items, piece)
                        assert answer["complete"] and "failure" not in answer, (dialect, n, answer, p.violations)
                        assert "".join(b["text"] for b in of_type(answer, "text")) == step.get("text", "") == answer["sink"], (dialect, answer)
                        assert [(b["name"], b["arguments"]) for b in of_type(answer, "tool_call")] == [(c["name"], c["arguments"]) for c in step.get("calls", [])], answer
                        assert answer["stop"] == ("calls" if "calls" in step else "done"), (dialect, answer)
                        assert answer["usage"]["known"] and not answer["usage"]["estimated"] and answer["usage"]["input"] > 1000, (dialect, answer)
                        cached.append(answer["usage"]["cached"])
                        items += [assistant(dialect, answer), *results(answer)]
                        if n >= 2:
                            items += [{"type": "note", "text": "The network is off now."}, {"type": "user", "text": "Go on."}]
                    assert not p.violations, (dialect, p.violations)
                    assert cached[0] == 0 and all(cached[1:]), (dialect, cached)


def test_a_thread_moves_between_providers():
    """The history of one model is sent to another, with calls that have no result."""
    with Filter() as f:
        for first in DIALECTS:
            items = [{"type": "user", "text": "Begin."}]
            with Provider(first, SCRIPT) as p:
                for _ in range(2):
                    answer = f.ask(p, items)
                    items += [assistant(first, answer), *results(answer)[1:]]
                assert not p.violations, (first, p.violations)
            for second in DIALECTS:
                more = list(items)
                with Provider(second, SCRIPT) as p:
                    for _ in range(3):
                        answer = f.ask(p, more)
                        assert answer["complete"], (first, second, answer, p.violations)
                        more += [assistant(second, answer), *results(answer)]
                    assert not p.violations, (first, second, p.violations)


def test_conversation_continues_after_a_stream_cut_anywhere():
    step = dict(SCRIPT[0], text="Looking at it…", piece=4)
    with Filter() as f:
        for dialect in DIALECTS:
            with Provider(dialect, lambda request: "continued" if "Continue, please." in request.texts[-1] else dict(step, cut_after=cut)) as p:
                for cut in range(1, 2600, 61):
                    items = [{"type": "user", "text": "Begin."}]
                    answer = f.ask(p, items)
                    if not answer["complete"]:
                        assert answer["failure"]["category"] == "protocol" and answer["failure"]["retryable"], (dialect, cut, answer)
                        assert answer["usage"]["estimated"], answer
                    if answer["complete"] or of_type(answer, "tool_call"):
                        assert {json.dumps(b["arguments"], sort_keys=True) for b in of_type(answer, "tool_call")} <= {'{"command": "ls \'\\u00e4 b\'"}', "{}"}, answer
                    items += [assistant(dialect, answer), {"type": "note", "text": "The answer was interrupted."}, {"type": "user", "text": "Continue, please."}]
                    answer = f.ask(p, items)
                    assert answer["complete"] and answer["sink"] == "continued", (dialect, cut, answer, p.violations)
                assert not p.violations, (dialect, p.violations)


def test_failures_have_a_category():
    cases = [({"status": 401}, "authentication", False), ({"status": 429, "retry_after": 3}, "rate_limit", True), ({"status": 500}, "server", True),
             ({"status": 400, "message": "prompt is too long: 9 tokens > 8 maximum"}, "context_too_long", False), ({"text": "abc", "piece": 1, "error_after": 1}, None, None),
             ({"text": "abc", "drop_terminal": True}, "protocol", True), ({"text": "abc", "piece": 1, "malformed_after": 2}, "protocol", True), ({"error_body": True, "error_status": 429}, None, None)]
    with Filter() as f:
        for dialect in DIALECTS:
            for step, category, retryable in cases:
                with Provider(dialect, [step]) as p:
                    answer = f.ask(p, [{"type": "user", "text": "Begin."}])
                    assert not answer["complete"] and answer["failure"]["category"] and answer["failure"]["message"], (dialect, step, answer)
                    if category:
                        assert (answer["failure"]["category"], answer["failure"]["retryable"]) == (category, retryable), (dialect, step, answer)
                    assert answer["failure"]["retryAfterMs"] == (3000 if "retry_after" in step else 0), (dialect, step, answer)


def test_any_history_is_a_valid_request():
    """Arbitrary items, as after crashes: the fakes' own checks find nothing."""
    def block():
        kind = rng.choice(("text", "reasoning", "tool_call", "tool_call"))
        if kind == "tool_call":
            return {"type": kind, "id": rng.choice(("call_1", "call_2", "", "a b", "x" * 70)), "name": rng.choice(("shell", "list", "functions.x")), "arguments": {"n": 1}}
        return {"type": kind, "text": rng.choice(("", " \n", "hello", "é"))}

    def item():
        kind = rng.choice(("user", "note", "assistant", "assistant", "tool_result", "tool_result"))
        if kind == "assistant":
            return {"type": kind, "model": rng.choice((IDENTITY, "other/m")), "dialect": dialect, "blocks": [block() for _ in range(rng.randrange(5))]}
        if kind == "tool_result":
            return {"type": kind, "id": rng.choice(("call_1", "call_2", "", "a b")), "name": "shell", "text": rng.choice(("", "out")), "isError": rng.random() < 0.5}
        return {"type": kind, "text": rng.choice(("", "do it"))}

    with Filter() as f:
        for dialect in DIALECTS:
            for seed in range(300):
                rng = random.Random(seed)
                items = [item() for _ in range(rng.randrange(1, 14))]
                body = json.loads(f.encode(dialect, items)["body"])
                problem = check(dialect, body)
                assert problem is None, (dialect, seed, problem, items, body)


if __name__ == "__main__":
    harness.main(globals())
