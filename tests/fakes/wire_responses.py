"""OpenAI Responses: POST /v1/responses."""

from wire import Dialect, NAME, arguments_text, calls_of, event, pieces, require, seal

KNOWN = {"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "store", "stream", "stream_options", "include", "reasoning", "text", "max_output_tokens",
         "prompt_cache_key", "prompt_cache_retention", "previous_response_id", "truncation", "context_management", "background", "metadata", "service_tier", "temperature", "top_p",
         "top_logprobs", "user", "safety_identifier", "max_tool_calls", "conversation", "prompt", "client_metadata"}
TYPES = {400: "invalid_request_error", 401: "invalid_request_error", 403: "invalid_request_error", 404: "invalid_request_error", 429: "rate_limit_error", 500: "server_error",
         503: "server_error"}
CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded", 503: "server_is_overloaded"}


def items_of(body):
    value = body.get("input")
    return [{"type": "message", "role": "user", "content": value}] if isinstance(value, str) else value or []


def parts_of(content):
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content or []


def check_message(at, item):
    role = item.get("role")
    require(role in ("user", "assistant", "system", "developer"), f"Invalid value: '{role}'. Supported values are: 'assistant', 'system', 'developer', and 'user'.", param=f"input[{at}]")
    require("content" in item, f"Missing required parameter: 'input[{at}].content'.", param=f"input[{at}].content", code="missing_required_parameter")
    if isinstance(item["content"], str):
        return
    allowed = ("output_text", "refusal") if role == "assistant" else ("input_text", "input_image", "input_file")
    for i, part in enumerate(item["content"]):
        require(part.get("type") in allowed, f"Invalid value: '{part.get('type')}'. Supported values are: {', '.join(repr(a) for a in allowed)}.", param=f"input[{at}].content[{i}]",
                code="invalid_value")


def check_pairs(items):
    calls, outputs, seen = {}, set(), []
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "function_call":
            require(item.get("call_id") not in seen, f"Duplicate function call with call_id {item.get('call_id')}.", param="input")
            calls[item["call_id"]] = item
            seen.append(item["call_id"])
        elif kind == "function_call_output":
            require(item.get("call_id") in calls, f"No tool call found for function call output with call_id {item.get('call_id')}.", param="input")
            require(item["call_id"] not in outputs, f"Duplicate output for function call with call_id {item['call_id']}.", param="input")
            outputs.add(item["call_id"])
        elif kind == "reasoning":
            follows = items[at + 1].get("type", "message") if at + 1 < len(items) else None
            own = follows in ("function_call", "custom_tool_call", "reasoning") or (follows == "message" and items[at + 1].get("role") == "assistant")
            require(own, f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item.", param="input")
    missing = [c for c in calls if c not in outputs]
    require(not missing, f"No tool output found for function call {missing[0] if missing else ''}.", param="input")


class Responses(Dialect):
    name = "openai-responses"

    def paths(self, path):
        return {} if path == "/v1/responses" else None

    def key(self, headers, query):
        value = headers.get("authorization") or ""
        return value[7:] or None if value.startswith("Bearer ") else None

    def error(self, status, message, more):
        return {"error": {"message": message, "type": more.get("type") or TYPES.get(status, "server_error"), "param": more.get("param"), "code": more.get("code", CODES.get(status))}}

    def headers(self, request, usage):
        return {"x-request-id": f"req_{request.number}", "openai-version": "2020-10-01", "openai-processing-ms": "12", "x-ratelimit-limit-requests": "10000",
                "x-ratelimit-remaining-requests": str(10000 - request.number), "x-ratelimit-reset-requests": "6ms", "x-ratelimit-limit-tokens": "2000000",
                "x-ratelimit-remaining-tokens": str(2000000 - usage["input"]), "x-ratelimit-reset-tokens": "6m0s"}

    def check(self, request):
        body = request.body
        extra = set(body) - KNOWN
        require(not extra, f"Unknown parameter: '{min(extra, default='')}'.", param=min(extra, default=None), code="unknown_parameter")
        for name in ("model", "input"):
            require(body.get(name), f"Missing required parameter: '{name}'.", param=name, code="missing_required_parameter")
        most = body.get("max_output_tokens")
        require(most is None or most >= 16, f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got {most} instead.", param="max_output_tokens",
                code="integer_below_min_value")
        require(len(body.get("prompt_cache_key") or "") <= 64, "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64.", param="prompt_cache_key",
                code="string_above_max_length")
        require("stream_options" not in body or body.get("stream"), "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options")
        for at, item in enumerate(items_of(body)):
            self.check_item(request, at, item)
        check_pairs(items_of(body))
        names = []
        for at, tool in enumerate(body.get("tools") or []):
            if tool.get("type") != "function":
                require(tool.get("type") in ("custom", "shell", "local_shell", "apply_patch", "web_search"), f"Invalid value: '{tool.get('type')}'.", param=f"tools[{at}].type", code="invalid_value")
                continue
            require(tool.get("name"), f"Missing required parameter: 'tools[{at}].name'.", param=f"tools[{at}].name", code="missing_required_parameter")
            require(NAME.match(tool["name"]), f"Invalid 'tools[{at}].name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", param=f"tools[{at}].name",
                    code="invalid_value")
            schema = tool.get("parameters") or {}
            require(schema.get("type") == "object", f"Invalid schema for function '{tool['name']}': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'.",
                    param=f"tools[{at}].parameters", code="invalid_function_parameters")
            if tool.get("strict"):
                require(schema.get("additionalProperties") is False, f"Invalid schema for function '{tool['name']}': In context=(), 'additionalProperties' is required to be supplied and to be false.",
                        param=f"tools[{at}].parameters", code="invalid_function_parameters")
            names.append(tool["name"])
        require(len(set(names)) == len(names), "Duplicate tool names.", param="tools")

    def check_item(self, request, at, item):
        kind = item.get("type", "message")
        if kind == "message":
            check_message(at, item)
        elif kind == "function_call":
            for name in ("call_id", "name", "arguments"):
                require(isinstance(item.get(name), str), f"Missing required parameter: 'input[{at}].{name}'.", param=f"input[{at}].{name}", code="missing_required_parameter")
            require(len(item["call_id"]) <= 64, f"Invalid 'input[{at}].call_id': string too long. Expected a string with maximum length 64.", param=f"input[{at}].call_id",
                    code="string_above_max_length")
        elif kind == "function_call_output":
            for name in ("call_id", "output"):
                require(isinstance(item.get(name), (str, list)), f"Missing required parameter: 'input[{at}].{name}'.", param=f"input[{at}].{name}", code="missing_required_parameter")
        elif kind == "reasoning":
            require("summary" in item, f"Missing required parameter: 'input[{at}].summary'.", param=f"input[{at}].summary", code="missing_required_parameter")
            sealed = item.get("encrypted_content")
            stored = request.body.get("store", True)
            require(sealed or stored, f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.",
                    404, param="input")
            require(not sealed or sealed.startswith(seal("reasoning", request.body["model"])), f"The encrypted content for item {item.get('id')} could not be verified.",
                    code="invalid_encrypted_content")
        else:
            known = ("custom_tool_call", "custom_tool_call_output", "shell_call", "shell_call_output", "apply_patch_call", "apply_patch_call_output", "local_shell_call", "local_shell_call_output", "compaction",
                     "item_reference")
            require(kind in known, f"Invalid value: '{kind}'.", param=f"input[{at}]", code="invalid_value")

    def cached_parts(self, body):
        return [body["model"], body.get("tools"), body.get("instructions"), *items_of(body)]

    # ---- answers ----

    def output(self, request, step):
        out, n = [], request.number
        if step.get("reasoning") is not None:
            rs = f"rs_{n}"
            item = {"id": rs, "type": "reasoning", "summary": [{"type": "summary_text", "text": step["reasoning"]}] if step["reasoning"] else []}
            if "reasoning.encrypted_content" in (request.body.get("include") or []):
                item["encrypted_content"] = seal("reasoning", request.body["model"]) + f"-{n}"
            out.append(item)
        if step.get("text") is not None and not step.get("refusal"):
            out.append({"id": f"msg_{n}", "type": "message", "status": "completed", "role": "assistant",
                        "content": [{"type": "output_text", "text": step["text"], "annotations": [], "logprobs": []}]})
        if step.get("refusal"):
            out.append({"id": f"msg_{n}", "type": "message", "status": "completed", "role": "assistant", "content": [{"type": "refusal", "refusal": step["refusal"]}]})
        for i, call in enumerate(calls_of(step)):
            out.append({"id": f"fc_{n}_{i}", "type": "function_call", "status": "completed", "call_id": call["id"], "name": call["name"], "arguments": arguments_text(step, call)})
        return out

    def usage(self, usage):
        return {"input_tokens": usage["input"], "input_tokens_details": {"cached_tokens": usage["cached"]}, "output_tokens": usage["output"],
                "output_tokens_details": {"reasoning_tokens": usage["reasoning"]}, "total_tokens": usage["input"] + usage["output"]}

    def object(self, request, status, **more):
        body = request.body
        return dict({"id": f"resp_{request.number}", "object": "response", "created_at": 1700000000 + request.number, "status": status, "background": False, "error": None,
                     "incomplete_details": None, "instructions": body.get("instructions"), "max_output_tokens": body.get("max_output_tokens"), "model": body["model"], "output": [],
                     "parallel_tool_calls": body.get("parallel_tool_calls", True), "previous_response_id": None, "prompt_cache_key": body.get("prompt_cache_key"),
                     "reasoning": body.get("reasoning") or {"effort": None, "summary": None}, "store": body.get("store", True), "temperature": 1.0, "text": {"format": {"type": "text"}},
                     "tool_choice": body.get("tool_choice", "auto"), "tools": body.get("tools") or [], "top_p": 1.0, "truncation": "disabled", "usage": None, "user": None, "metadata": {}}, **more)

    def final(self, request, step, usage):
        stop, output = step.get("stop"), self.output(request, step)
        told = None if step.get("usage") == "missing" else self.usage(usage)
        if stop in ("max_output_tokens", "max_tokens", "content_filter"):
            for item in output[-1:]:
                if "status" in item:
                    item["status"] = "incomplete"
            reason = "content_filter" if stop == "content_filter" else "max_output_tokens"
            return "incomplete", self.object(request, "incomplete", output=output, usage=told, incomplete_details={"reason": reason})
        if stop == "failed":
            return "failed", self.object(request, "failed", output=[], error={"code": step.get("code", "server_error"), "message": step.get("message", "The server had an error")})
        return "completed", self.object(request, "completed", output=output, usage=told, completed_at=1700000001 + request.number)

    def whole(self, request, step, usage):
        return self.final(request, step, usage)[1]

    def item_events(self, step, index, item, size):
        """The events of one output item, without sequence numbers."""
        at, kind = {"item_id": item["id"], "output_index": index}, item["type"]
        opened = dict(item, **({"status": "in_progress"} if kind != "reasoning" else {"summary": []}))
        if kind == "message":
            opened["content"] = []
        if kind == "function_call":
            opened["arguments"] = ""
        yield dict(type="response.output_item.added", output_index=index, item=opened)
        if kind == "reasoning":
            for i, part in enumerate(item["summary"]):
                here = dict(at, summary_index=i)
                yield dict(here, type="response.reasoning_summary_part.added", part={"type": "summary_text", "text": ""})
                for p in pieces(part["text"], size):
                    yield dict(here, type="response.reasoning_summary_text.delta", delta=p)
                yield dict(here, type="response.reasoning_summary_text.done", text=part["text"])
                yield dict(here, type="response.reasoning_summary_part.done", part=part)
        if kind == "message":
            part, here = item["content"][0], dict(at, content_index=0)
            text = part.get("text", part.get("refusal"))
            word, field = ("output_text", "text") if part["type"] == "output_text" else ("refusal", "refusal")
            yield dict(here, type="response.content_part.added", part=dict(part, **{field: ""}))
            for p in pieces(text, size):
                yield dict(here, type=f"response.{word}.delta", delta=p, **({"logprobs": []} if word == "output_text" else {}))
            yield dict(here, type=f"response.{word}.done", **{field: text}, **({"logprobs": []} if word == "output_text" else {}))
            yield dict(here, type="response.content_part.done", part=part)
        if kind == "function_call":
            for p in pieces(item["arguments"], size):
                yield dict(at, type="response.function_call_arguments.delta", delta=p)
            if step.get("cut_call"):
                return
            yield dict(at, type="response.function_call_arguments.done", arguments=item["arguments"], name=item["name"])
        yield dict(type="response.output_item.done", output_index=index, item=item)

    def stream(self, request, step, usage):
        ending, final = self.final(request, step, usage)
        events = [(dict(type="response.created", response=self.object(request, "in_progress")), False), (dict(type="response.in_progress", response=self.object(request, "in_progress")), False)]
        for index, item in enumerate(final["output"]):
            events += [(e, False) for e in self.item_events(step, index, item, step.get("piece", 12))]
        events += [(e, False) for e in step.get("unknown_events") or []]
        events += [(dict(type=f"response.{ending}", response=final), True)] * (2 if step.get("duplicate_finish") else 1)
        for number, (e, end) in enumerate(events):
            e = dict(e, sequence_number=number)
            yield event(e, e["type"]), end

    def stream_error(self, step, sequence):
        if step.get("error_style") == "nested":
            data = dict(self.error(step.get("status", 500), step.get("message", "The server had an error"), step), type="error", sequence_number=sequence)
        else:
            data = {"type": "error", "code": step.get("code", "server_error"), "message": step.get("message", "The server had an error"), "param": None, "sequence_number": sequence}
        yield event(data, "error")

    def keep_alive(self, step):
        return b": keep-alive\n\n"

    # ---- what the request says ----

    def results(self, body):
        out, items = [], items_of(body)
        names = {i["call_id"]: i["name"] for i in items if i.get("type") == "function_call"}
        for item in reversed(items):
            if item.get("type") == "function_call_output":
                text = item["output"] if isinstance(item["output"], str) else "".join(p.get("text", "") for p in item["output"])
                out.insert(0, {"id": item["call_id"], "name": names[item["call_id"]], "text": text, "isError": False})
            elif item.get("type", "message") != "message" or item.get("role") == "assistant":
                break
        return out

    def texts(self, body):
        return [p["text"] for i in items_of(body) if i.get("type", "message") == "message" and i["role"] == "user" for p in parts_of(i["content"]) if "text" in p]

    def system(self, body):
        return body.get("instructions") or ""

    def tools(self, body):
        return [t.get("name", t.get("type")) for t in body.get("tools") or []]
