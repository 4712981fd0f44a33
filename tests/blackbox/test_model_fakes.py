"""The fakes of model providers (tests/fakes) are as strict as the providers, and produce the quirks that scripts request."""

import copy
import http.client
import json
import os
import subprocess
import sys
import urllib.parse

import harness
from harness import ROOT, environment

sys.path.insert(0, os.path.join(ROOT, "tests", "fakes"))
import provider     # noqa: E402
from provider import Provider, check    # noqa: E402
from wire import seal   # noqa: E402

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
KEYS = {"anthropic": {"x-api-key": "key", "anthropic-version": "2023-06-01"}, "gemini": {"x-goog-api-key": "key"}}
PATHS = {"anthropic": "/messages", "openai-responses": "/responses", "openai-chat": "/chat/completions", "gemini": "/models/gemini-3-fake:streamGenerateContent?alt=sse"}
# A conversation with two calls and their results, as each provider accepts it.
GOOD = {
    "anthropic": {"model": "claude-fake", "max_tokens": 100, "stream": True, "system": "s", "tools": [{"name": "shell", "input_schema": SCHEMA}], "messages": [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": seal("thinking", "claude-fake", "t")}, {"type": "text", "text": "ok"},
                                          {"type": "tool_use", "id": "a", "name": "shell", "input": {}}, {"type": "tool_use", "id": "b", "name": "shell", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "1"}, {"type": "tool_result", "tool_use_id": "b", "content": [], "is_error": True},
                                     {"type": "text", "text": "and now?"}]}]},
    "openai-responses": {"model": "gpt-fake", "stream": True, "store": False, "include": ["reasoning.encrypted_content"],
                         "tools": [{"type": "function", "name": "shell", "parameters": SCHEMA}], "input": [
        {"role": "user", "content": "hello"}, {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": seal("reasoning", "gpt-fake")},
        {"type": "function_call", "call_id": "a", "name": "shell", "arguments": "{}"}, {"type": "function_call", "call_id": "b", "name": "shell", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"}, {"type": "function_call_output", "call_id": "b", "output": "2"}]},
    "openai-chat": {"model": "m", "stream": True, "stream_options": {"include_usage": True}, "tools": [{"type": "function", "function": {"name": "shell", "parameters": SCHEMA}}], "messages": [
        {"role": "system", "content": "s"}, {"role": "user", "content": "hello"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": i, "type": "function", "function": {"name": "shell", "arguments": "{}"}} for i in ("a", "b")]},
        {"role": "tool", "tool_call_id": "b", "content": "2"}, {"role": "tool", "tool_call_id": "a", "content": "1"}, {"role": "user", "content": "and now?"}]},
    "gemini": {"tools": [{"functionDeclarations": [{"name": "shell", "parameters": SCHEMA}]}], "contents": [
        {"role": "user", "parts": [{"text": "hello"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "shell", "args": {}}, "thoughtSignature": seal("call", "gemini-3-fake", "shell")}, {"functionCall": {"name": "shell", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "shell", "response": {"output": "1"}}}, {"functionResponse": {"name": "shell", "response": {"output": "2"}}}]}]},
}
# (what is done to the good conversation, the rule that it breaks)
BAD = {
    "anthropic": (
        ("del b['max_tokens']", "max_tokens: Field required"), ("b['surprise'] = 1", "surprise: Extra inputs"), ("b['messages'] = []", "at least one message"),
        ("b['messages'][2]['content'].pop(0)", "without `tool_result` blocks immediately after: a"), ("b['messages'].pop()", "immediately after: a, b"),
        ("b['messages'].pop(1)", "unexpected `tool_use_id`"), ("b['messages'][2]['content'].reverse()", "without `tool_result`"),
        ("b['messages'][1]['content'].append({'type': 'text', 'text': 'x'})", "without `tool_result`"), ("b['messages'][1]['content'][3]['id'] = 'a'", "must be unique"),
        ("b['messages'][2]['content'][1]['tool_use_id'] = 'a'", "single result"), ("b['messages'].append({'role': 'assistant', 'content': 'x'})", "prefill"),
        ("b['messages'].pop(0)", 'first message must use the "user" role'), ("b['messages'][0]['content'] = ''", "non-empty content"), ("b['messages'][1]['content'][1]['text'] = ''", "non-empty"),
        ("b['messages'][1]['content'][1]['text'] = ' '", "non-whitespace"), ("b['messages'][1]['content'][0]['thinking'] = 'changed'", "Invalid `signature`"), ("b['model'] = 'other'", "Invalid `signature`"),
        ("b['thinking'] = {'type': 'enabled', 'budget_tokens': 10}", "1024"), ("b['max_tokens'], b['thinking'] = 4000, {'type': 'enabled', 'budget_tokens': 2000}; b['messages'][1]['content'].pop(0)", "Expected `thinking`"),
        ("b['tools'] = []", "must define tools"), ("b['tools'] *= 2", "unique"), ("b['tools'][0]['name'] = 'a b'", "pattern"), ("del b['tools'][0]['input_schema']", "input_schema"),
        ("b['messages'][0]['role'] = 'system'", "'user' or 'assistant'"), ("b['messages'][2]['role'] = 'assistant'", "can only be in `user`"), ("b['messages'][1]['content'][2]['input'] = '{}'", "valid dictionary"),
        ("b['system'] = [{'type': 'text', 'text': 'x', 'cache_control': {'type': 'ephemeral'}}] * 5", "maximum of 4")),
    "openai-responses": (
        ("b['input'].pop()", "No tool output found for function call b"), ("b['input'].pop(2)", "No tool call found for function call output with call_id a"), ("b['surprise'] = 1", "Unknown parameter: 'surprise'"),
        ("del b['input']", "Missing required parameter: 'input'"), ("b['input'][1]['encrypted_content'] = 'x'", "could not be verified"), ("del b['input'][1]['encrypted_content']", "not persisted"),
        ("b['input'] = b['input'][:2]", "required following item"), ("b['max_output_tokens'] = 5", ">= 16"), ("b['prompt_cache_key'] = 'x' * 65", "64"), ("b['input'][2]['arguments'] = {}", "arguments"),
        ("b['input'].append({'role': 'assistant', 'content': [{'type': 'input_text', 'text': 'x'}]})", "output_text"), ("b['tools'][0]['parameters'] = {}", "type"), ("b['input'][3]['call_id'] = 'a'", "Duplicate"),
        ("b['input'].append(b['input'][-1])", "Duplicate output")),
    "openai-chat": (
        ("b['messages'].pop(3)", "did not have response messages: b"), ("b['messages'].pop(2)", "must be a response to a preceeding message"), ("b['messages'][3]['tool_call_id'] = 'c'", "not found in 'tool_calls'"),
        ("b['messages'][2]['tool_calls'] = []", "too short"), ("b['messages'][1]['content'] = None", "got null"), ("b['messages'].insert(3, {'role': 'user', 'content': 'x'})", "did not have response messages: a, b"),
        ("b['messages'][2]['tool_calls'][0]['function']['arguments'] = {}", "expected a string"), ("b['tools'] = []; b['messages'] = b['messages'][:2]", "too short"), ("b['stream'] = False", "stream_options"),
        ("b['messages'][0]['role'] = 'model'", "Invalid value: 'model'"), ("b['messages'].append(b['messages'][3])", "must be a response")),
    "gemini": (
        ("b['contents'][1]['parts'][0].pop('thoughtSignature')", "missing a thought_signature"), ("b['contents'][1]['parts'][0]['thoughtSignature'] = 'x'", "not valid"), ("b['contents'][2]['parts'].pop()", "number of function response parts"),
        ("b['contents'].pop(1)", "immediately after a function call turn"), ("b['contents'].pop()", "user role"), ("b['contents'][2]['parts'][0]['functionResponse']['name'] = 'x'", "names"), ("b['contents'] = []", "not specified"),
        ("b['contents'][0]['parts'] = []", "must not be empty"), ("b['surprise'] = 1", 'Unknown name "surprise"'), ("b['contents'][0]['role'] = 'assistant'", "valid role"),
        ("b['tools'][0]['functionDeclarations'][0]['parameters'] = dict(b['tools'][0]['functionDeclarations'][0]['parameters'], additionalProperties=False)", 'Unknown name "additionalProperties"'),
        ("b['contents'].pop(0)", "immediately after a user turn")),
}


def post(p, body, path=None, **headers):
    """(status, headers, body, whether the body was complete) of a request."""
    url = urllib.parse.urlsplit(p.url + (path or PATHS[p.dialect.name]))
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=harness.PATIENCE)
    try:
        connection.request("POST", url.path + ("?" + url.query if url.query else ""), json.dumps(body), dict(KEYS.get(p.dialect.name, {"Authorization": "Bearer key"}), **headers))
        response = connection.getresponse()
        try:
            return response.status, dict(response.headers), response.read().decode(), True
        except http.client.IncompleteRead as e:
            return response.status, dict(response.headers), e.partial.decode(), False
    finally:
        connection.close()


def data_of(text):
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


def test_conversations_are_checked_by_the_providers_rules():
    for dialect, good in GOOD.items():
        assert check(dialect, good) is None, (dialect, check(dialect, good))
        for change, words in BAD[dialect]:
            body = copy.deepcopy(good)
            exec(change, {"b": body})
            problem = check(dialect, body)
            assert problem and words in problem, (dialect, change, problem)


def test_a_violation_is_answered_and_recorded():
    for dialect, good in GOOD.items():
        body = copy.deepcopy(good)
        exec(BAD[dialect][0][0], {"b": body})
        with Provider(dialect, ["hello"]) as p:
            status, _, text, _ = post(p, body)
            assert status == 400 and "error" in json.loads(text) and len(p.violations) == 1 and p.requests[0].violation, (dialect, text)
            assert post(p, good)[0] == 200      # the step was not used up
            status, _, text, _ = post(p, good)
            assert status == 400 and "script" in text and p.unscripted, text


def test_fakes_check_the_key():
    for dialect, missing, wrong in (("anthropic", 401, 401), ("openai-responses", 401, 401), ("openai-chat", 401, 401), ("gemini", 403, 400)):
        with Provider(dialect, [], keys=["other"]) as p:
            none = {k: "" for k in KEYS.get(dialect, {"Authorization": ""})}
            assert post(p, GOOD[dialect], **none)[0] == missing and post(p, GOOD[dialect])[0] == wrong, dialect
    with Provider("openai-chat", ["x"], keys=()) as p:
        assert post(p, GOOD["openai-chat"], Authorization="")[0] == 200


def test_errors_have_each_providers_form():
    for dialect, where in (("anthropic", lambda e: (e["error"]["type"], e["error"]["message"])), ("openai-responses", lambda e: (e["error"]["code"], e["error"]["message"])),
                           ("openai-chat", lambda e: (e["error"]["code"], e["error"]["message"])), ("gemini", lambda e: (e["error"]["status"], e["error"]["message"]))):
        with Provider(dialect, [{"status": 429, "message": "slow", "retry_after": 2, "retry_delay": "2s"}]) as p:
            status, headers, text, _ = post(p, GOOD[dialect])
            kind, message = where(json.loads(text))
            assert status == 429 and headers["retry-after"] == "2" and message == "slow" and kind in ("rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"), text
    with Provider("openai-chat", [{"status": 400, "n_ctx": 4096, "n_prompt_tokens": 5000}, {"error_body": True, "error_status": 502}]) as p:
        assert json.loads(post(p, GOOD["openai-chat"])[2])["error"]["type"] == "exceed_context_size_error"
        status, _, text, _ = post(p, GOOD["openai-chat"])
        assert status == 200 and "error" in json.loads(text)


def test_fakes_produce_broken_streams():
    end = {"anthropic": "message_stop", "openai-responses": "response.completed", "openai-chat": "[DONE]", "gemini": "finishReason"}
    for dialect, good in GOOD.items():
        quirks = ({}, {"drop_terminal": True}, {"error_after": 1}, {"malformed_after": 0}, {"cut_after": 30}, {"cut_after": 30, "close": True}, {"comments": True})
        script = [dict(q, text="hello to everybody") for q in quirks]
        with Provider(dialect, script) as p:
            got = [post(p, good) for _ in script]
            assert all(status == 200 for status, *_ in got) and [whole for *_, whole in got] == [True, True, True, True, False, True, True], dialect
            texts = [text for _, _, text, _ in got]
            assert [end[dialect] in t for t in texts] == [True, False, False, True, False, False, True], (dialect, texts)
            assert '"error"' in texts[2] and "{not json" in texts[3] and len(texts[4]) == len(texts[5]) == 30, (dialect, texts)
            assert ("event: ping" if dialect == "anthropic" else "\n: " if dialect == "openai-chat" else ": ") in texts[6]


def chat(**quirks):
    calls = [{"name": "shell", "arguments": {"command": "ls"}}, {"name": "shell", "arguments": {}}]
    with Provider("openai-chat", [dict({"text": "t", "reasoning": "r", "calls": calls}, **quirks)]) as p:
        text = post(p, GOOD["openai-chat"])[2]
    chunks = data_of(text)
    deltas = [c["choices"][0]["delta"] for c in chunks if c["choices"]]
    return text, chunks, deltas, [d["tool_calls"][0] for d in deltas if d.get("tool_calls")]


def test_fake_of_the_chat_dialect_has_its_quirks():
    text, chunks, deltas, calls = chat()
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["prompt_tokens"] and text.endswith("data: [DONE]\n\n") and calls[0]["id"] != [c for c in calls if c["index"] == 1][0]["id"]
    assert [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]][-1] == "tool_calls"
    chunks = chat(usage_in="finish")[1]
    assert chunks[-1]["choices"][0]["finish_reason"] and chunks[-1]["usage"]
    assert sum("usage" in c for c in chat(usage_in="twice")[1]) == 2 and not any("usage" in c for c in chat(usage="missing")[1])
    assert "cost" in chat(usage_extra={"cost": 0.1})[1][-1]["usage"]
    assert [c["function"]["arguments"] for c in chat(call_style="whole")[3]] == ['{"command":"ls"}', "{}"]
    assert chat(call_style="object")[3][0]["function"]["arguments"] == {"command": "ls"}
    assert not any("id" in c for c in chat(ids="missing")[3]) and {c["id"] for c in chat(ids="duplicate")[3] if "id" in c} == {"call_same"}
    assert len({c["id"] for c in chat(ids="per_fragment", piece=2)[3]}) > 4
    assert sum(bool(c["choices"] and c["choices"][0]["finish_reason"]) for c in chat(duplicate_finish=True)[1]) == 2
    assert all("role" in d for d in chat(role_everywhere=True)[2]) and any("reasoning" in d for d in chat(reasoning_field="reasoning")[2])
    assert any("content" in d and d["content"] is None for d in chat(content_null=True)[2]) and "[DONE]" not in chat(done=False)[0]
    assert [c["choices"][0]["finish_reason"] for c in chat(finish="stop")[1] if c["choices"]][-1] == "stop"
    raw = chat(calls=[{"name": "shell", "raw": '{"command": "l'}], finish="tool_calls")[3]
    assert "".join(c["function"].get("arguments", "") for c in raw) == '{"command": "l'


def test_fakes_of_the_other_dialects_have_their_quirks():
    good = GOOD["anthropic"]
    with Provider("anthropic", [{"text": "x", "pad": True, "stop": "max_tokens"}, {"redacted": True, "reasoning": "r", "thinking": "omitted", "text": "x"}, {"calls": [{"name": "shell"}], "arguments": "none"},
                                {"calls": [{"name": "shell", "arguments": {"command": "x"}}], "cut_call": True, "stop": "max_tokens"}, {"text": "x", "usage": {"cached": 7, "written": 5, "input": 20}}]) as p:
        text = post(p, good)[2]
        assert "} " in text and '"stop_reason":"max_tokens"' in text
        assert [b["content_block"]["type"] for b in data_of(post(p, good)[2]) if b["type"] == "content_block_start"] == ["thinking", "redacted_thinking", "text"]
        assert "input_json_delta" not in post(p, good)[2] and "content_block_stop" not in post(p, good)[2]
        usage = data_of(post(p, good)[2])[-2]["usage"]
        assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]) == (8, 7, 5), usage
    good = GOOD["openai-responses"]
    with Provider("openai-responses", [{"text": "x", "stop": "max_tokens"}, {"stop": "failed", "code": "context_length_exceeded"}, {"refusal": "no"}, {"text": "x", "error_after": 2, "error_style": "nested"}]) as p:
        last = [data_of(post(p, good)[2])[-1] for _ in range(4)]
        assert last[0]["type"] == "response.incomplete" and last[0]["response"]["incomplete_details"]["reason"] == "max_output_tokens"
        assert last[1]["type"] == "response.failed" and last[1]["response"]["error"]["code"] == "context_length_exceeded"
        assert last[2]["response"]["output"][0]["content"][0]["type"] == "refusal" and last[3]["error"]["message"] and last[3]["sequence_number"] == 2, last
    good = GOOD["gemini"]
    with Provider("gemini", [{"blocked": "SAFETY"}, {"text": "x", "finish": "MALFORMED_FUNCTION_CALL"}, {"calls": [{"name": "shell"}], "ids": "missing", "signatures": False}, {"text": "x", "finish_alone": True}]) as p:
        got = [data_of(post(p, good)[2]) for _ in range(4)]
        assert got[0][0]["promptFeedback"]["blockReason"] == "SAFETY" and got[1][-1]["candidates"][0]["finishReason"] == "MALFORMED_FUNCTION_CALL"
        part = got[2][0]["candidates"][0]["content"]["parts"][0]
        assert "id" not in part["functionCall"] and "thoughtSignature" not in part and got[2][0]["candidates"][0]["finishReason"] == "STOP"
        assert "finishReason" not in got[3][0]["candidates"][0] and got[3][1]["candidates"][0]["finishReason"] == "STOP"


def test_unchanged_prefix_is_cached():
    for dialect in ("openai-responses", "openai-chat", "gemini", "anthropic"):
        with Provider(dialect, ["x"] * 3) as p:
            good = copy.deepcopy(GOOD[dialect])
            if dialect == "anthropic":
                good["system"] = [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]
            cached = []
            for change in (None, None, "tools"):
                if change:
                    good["tools"] = json.loads(json.dumps(good["tools"]).replace('"shell"', '"bash"'))
                text = post(p, good)[2]
                cached.append(any(f'{name}":' in text and f'{name}":0' not in text for name in ("cached_tokens", "cachedContentTokenCount", "cache_read_input_tokens")))
            assert cached == [False, True, False], (dialect, cached)


def test_fake_runs_as_a_program():
    script = os.path.join(ROOT, "tests", "fakes", "provider.py")
    with harness.tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump([{"text": "hello", "gated": True}, "again"], f)
        f.flush()
        process = subprocess.Popen([sys.executable, script, "--dialect", "openai-chat", "--script", f.name, "--key", "key"], env=environment(), stdout=subprocess.PIPE, text=True)
        try:
            url = urllib.parse.urlsplit(process.stdout.readline().strip())
            connection = http.client.HTTPConnection(url.hostname, url.port, timeout=harness.PATIENCE)
            connection.request("POST", url.path + "/chat/completions", json.dumps(GOOD["openai-chat"]), {"Authorization": "Bearer key"})
            response = connection.getresponse()
            control = http.client.HTTPConnection(url.hostname, url.port, timeout=harness.PATIENCE)
            text = b""
            while b"[DONE]" not in text:
                control.request("POST", "/_release")
                control.getresponse().read()
                text += response.read1()
            control.request("GET", "/_requests")
            seen = json.loads(control.getresponse().read())
            assert len(seen) == 1 and seen[0]["body"] == GOOD["openai-chat"] and seen[0]["violation"] is None, seen
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def test_scripts_see_the_same_in_every_dialect():
    for dialect, good in GOOD.items():
        seen = []
        with Provider(dialect, lambda r: seen.append(r) or "ok") as p:
            post(p, good)
        r = seen[0]
        assert [x["text"] for x in r.results] in (["1", "2"], ["2", "1"], ["1", ""]) and {x["name"] for x in r.results} == {"shell"}, (dialect, r.results)
        assert r.texts[0] == "hello" and r.tools == ["shell"] and r.model and r.stream, dialect


if __name__ == "__main__":
    assert set(GOOD) == set(provider.DIALECTS)
    harness.main(globals())
