"""Chat Completions: POST /v1/chat/completions, as OpenAI and the many servers that imitate it speak it.

Quirks of a step, each seen in a released server (default: OpenAI's own way):
    usage_in        "extra" chunk with choices [] | "finish" chunk | "twice"       call_style   "fragments" | "whole" (Groq, Ollama) | "object" arguments
    ids             "missing" | "duplicate" | "per_fragment"                       reasoning_field  "reasoning_content" | "reasoning"
    finish          any finish_reason, whatever the content is                     content_null, role_everywhere, duplicate_finish, done: false
"""

from wire import Dialect, NAME, arguments_text, calls_of, event, pieces, require

STOPS = {"max_tokens": "length", "max_output_tokens": "length"}


def text_of(content):
    return content if isinstance(content, str) else "".join(p.get("text", "") for p in content or [])


def check_pairs(messages):
    waiting, owner = [], None
    for at, m in enumerate(messages):
        role = m.get("role")
        if role == "tool":
            require(owner is not None, "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.", param=f"messages.[{at}].role")
            require(isinstance(m.get("tool_call_id"), str), f"Missing required parameter: 'messages[{at}].tool_call_id'.", param=f"messages.[{at}]", code="missing_required_parameter")
            require(m["tool_call_id"] in waiting, "Invalid parameter: 'tool_call_id' of '%s' not found in 'tool_calls' of previous message." % m["tool_call_id"], param=f"messages.[{at}].tool_call_id")
            waiting.remove(m["tool_call_id"])
            continue
        require(not waiting, unanswered(waiting), param=f"messages.[{at}].role")
        owner = at if m.get("tool_calls") else None
        waiting = [c.get("id") for c in m.get("tool_calls") or []]
        require(len(set(waiting)) == len(waiting), "Duplicate value for 'tool_call_id' of '%s'" % (waiting or [None])[0], param=f"messages.[{at}].tool_calls")
    require(not waiting, unanswered(waiting), param=f"messages.[{len(messages) - 1}].role")


def unanswered(ids):
    return ("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have "
            f"response messages: {', '.join(str(i) for i in ids)}")


class Chat(Dialect):
    name = "openai-chat"

    def paths(self, path):
        return {} if path == "/v1/chat/completions" else None

    def key(self, headers, query):
        value = headers.get("authorization") or ""
        return value[7:] or None if value.startswith("Bearer ") else None

    def error(self, status, message, more):
        if "n_ctx" in more:     # llama.cpp
            return {"error": {"code": 400, "message": message, "type": "exceed_context_size_error", "n_prompt_tokens": more.get("n_prompt_tokens", 0), "n_ctx": more["n_ctx"]}}
        kind = {429: "rate_limit_error"}.get(status, "invalid_request_error" if status < 500 else "server_error")
        return {"error": {"message": message, "type": more.get("type", kind), "param": more.get("param"), "code": more.get("code", {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(status))}}

    def headers(self, request, usage):
        return {"x-request-id": f"req_{request.number}", "x-ratelimit-limit-requests": "10000", "x-ratelimit-remaining-requests": str(10000 - request.number),
                "x-ratelimit-reset-requests": "8.64s", "x-ratelimit-limit-tokens": "200000", "x-ratelimit-remaining-tokens": str(200000 - usage["input"]), "x-ratelimit-reset-tokens": "1m2.5s"}

    def check(self, request):
        body = request.body
        for name in ("model", "messages"):
            require(body.get(name), f"Missing required parameter: '{name}'.", param=name, code="missing_required_parameter")
        require("stream_options" not in body or body.get("stream"), "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options")
        for at, m in enumerate(body["messages"]):
            self.check_message(at, m)
        check_pairs(body["messages"])
        names = []
        for at, tool in enumerate(body.get("tools") or []):
            require(tool.get("type") == "function", f"Invalid value: '{tool.get('type')}'. Supported values are: 'function' and 'custom'.", param=f"tools[{at}].type", code="invalid_value")
            f = tool.get("function") or {}
            require(isinstance(f.get("name"), str) and NAME.match(f["name"]), f"Invalid 'tools[{at}].function.name': string does not match pattern.", param=f"tools[{at}].function.name", code="invalid_value")
            require((f.get("parameters") or {"type": "object"}).get("type") == "object", f"Invalid schema for function '{f['name']}': schema must be a JSON Schema of 'type: \"object\"'.",
                    param=f"tools[{at}].function.parameters", code="invalid_function_parameters")
            names.append(f["name"])
        require(body.get("tools") is None or names, "[] is too short - 'tools'", param="tools")
        require("tool_choice" not in body or names, "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice")

    def check_message(self, at, m):
        role, calls = m.get("role"), m.get("tool_calls")
        require(role in ("system", "developer", "user", "assistant", "tool"), f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
                param=f"messages[{at}].role", code="invalid_value")
        require(calls is None or (role == "assistant" and calls), f"[] is too short - 'messages.{at}.tool_calls'", param=f"messages[{at}].tool_calls", code="empty_array")
        content = m.get("content")
        require(content is not None or (role == "assistant" and calls), "Invalid value for 'content': expected a string, got null.", param=f"messages.[{at}].content")
        require(content is None or isinstance(content, (str, list)), "Invalid type for 'content'.", param=f"messages.[{at}].content", code="invalid_type")
        for i, call in enumerate(calls or []):
            f = call.get("function") or {}
            require(call.get("type") == "function" and isinstance(call.get("id"), str) and call["id"], f"Missing required parameter: 'messages[{at}].tool_calls[{i}].id'.", param=f"messages[{at}].tool_calls[{i}]",
                    code="missing_required_parameter")
            require(isinstance(f.get("name"), str) and f["name"], f"Missing required parameter: 'messages[{at}].tool_calls[{i}].function.name'.", param=f"messages[{at}].tool_calls[{i}]")
            require(isinstance(f.get("arguments"), str), f"Invalid type for 'messages[{at}].tool_calls[{i}].function.arguments': expected a string.", param=f"messages[{at}].tool_calls[{i}]", code="invalid_type")

    def cached_parts(self, body):
        return [body["model"], body.get("tools"), *body["messages"]]

    # ---- answers ----

    def usage(self, step, usage):
        out = {"prompt_tokens": usage["input"], "completion_tokens": usage["output"], "total_tokens": usage["input"] + usage["output"], "prompt_tokens_details": {"cached_tokens": usage["cached"]},
               "completion_tokens_details": {"reasoning_tokens": usage["reasoning"]}}
        return dict(out, **step.get("usage_extra", {}))

    def finish(self, step):
        return step.get("finish") or STOPS.get(step.get("stop"), step.get("stop")) or ("tool_calls" if step.get("calls") else "stop")

    def whole(self, request, step, usage):
        message = {"role": "assistant", "content": step.get("text"), "refusal": None}
        if step.get("reasoning") is not None:
            message[step.get("reasoning_field", "reasoning_content")] = step["reasoning"]
        if step.get("calls"):
            message["tool_calls"] = [{"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": arguments_text(step, c)}} for c in calls_of(step)]
        return {"id": f"chatcmpl-{request.number}", "object": "chat.completion", "created": 1700000000, "model": request.body["model"],
                "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish(step)}], "usage": self.usage(step, usage)}

    def call_deltas(self, step, index, call, size):
        text, ids = arguments_text(step, call), step.get("ids")
        style = step.get("call_style", "fragments")
        ident = {"missing": None, "duplicate": "call_same"}.get(ids, call["id"])
        first = {"index": index, "id": ident, "type": "function", "function": {"name": call["name"], "arguments": ""}}
        if ident is None:
            del first["id"]
        if style == "object":
            first["function"]["arguments"] = call["arguments"]
        if style == "whole":
            first["function"]["arguments"] = text
        yield first
        for n, p in enumerate(pieces(text, size) if style == "fragments" else []):
            yield dict({"index": index, "function": {"arguments": p}}, **({"id": f"{call['id']}-{n}"} if ids == "per_fragment" else {}))

    def deltas(self, step):
        size, null = step.get("piece", 12), {"content": None} if step.get("content_null") else {}
        yield {"role": "assistant", "content": None if null else ""}
        if step.get("reasoning"):
            for p in pieces(step["reasoning"], size):
                yield dict(null, **{step.get("reasoning_field", "reasoning_content"): p})
        if step.get("text"):
            for p in pieces(step["text"], size):
                yield {"content": p}
        for index, call in enumerate(calls_of(step)):
            for d in self.call_deltas(step, index, call, size):
                yield dict(null, tool_calls=[d])

    def stream(self, request, step, usage):
        def chunk(delta, finish=None, **more):
            if step.get("role_everywhere"):
                delta = dict(delta, role="assistant")
            return event(dict({"id": f"chatcmpl-{request.number}", "object": "chat.completion.chunk", "created": 1700000000, "model": request.body["model"],
                               "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}, **more))

        told, where = {"usage": self.usage(step, usage)}, step.get("usage_in", "extra")
        wanted = (request.body.get("stream_options") or {}).get("include_usage") and step.get("usage") != "missing"
        for d in self.deltas(step):
            yield chunk(d), False
        final = chunk({}, self.finish(step), **(told if wanted and where in ("finish", "twice") else {}))
        for _ in range(2 if step.get("duplicate_finish") else 1):
            yield final, True
        if wanted and where in ("extra", "twice"):
            yield event(dict({"id": f"chatcmpl-{request.number}", "object": "chat.completion.chunk", "created": 1700000000, "model": request.body["model"], "choices": []}, **told)), True
        if step.get("done", True):
            yield event("[DONE]"), True

    def stream_error(self, step, sequence):
        yield event(self.error(step.get("status", 502), step.get("message", "Provider returned error"), step))

    def keep_alive(self, step):
        return b": OPENROUTER PROCESSING\n\n"

    # ---- what the request says ----

    def results(self, body):
        out, names = [], {c["id"]: c["function"]["name"] for m in body["messages"] for c in m.get("tool_calls") or []}
        for m in reversed(body["messages"]):
            if m["role"] == "tool":
                out.insert(0, {"id": m["tool_call_id"], "name": names[m["tool_call_id"]], "text": text_of(m["content"]), "isError": False})
            elif m["role"] == "assistant":
                break
        return out

    def texts(self, body):
        return [text_of(m["content"]) for m in body["messages"] if m["role"] == "user"]

    def system(self, body):
        return "".join(text_of(m["content"]) for m in body["messages"] if m["role"] in ("system", "developer"))

    def tools(self, body):
        return [t["function"]["name"] for t in body.get("tools") or []]
