"""Anthropic: POST /v1/messages."""

import re

from wire import Dialect, NAME, Problem, arguments_text, calls_of, compact, event, pieces, require, seal

KNOWN = {"model", "max_tokens", "messages", "system", "stream", "tools", "tool_choice", "thinking", "output_config", "metadata", "cache_control",
         "stop_sequences", "temperature", "top_k", "top_p", "service_tier", "container", "context_management", "betas", "inference_geo", "speed"}
ERRORS = {400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
          413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 504: "timeout_error", 529: "overloaded_error"}
SERVER_ID = re.compile(r"^[a-zA-Z0-9_-]+$")


def blocks_of(content):
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def merged(messages):
    """Consecutive messages of one role are one."""
    out = []
    for at, m in enumerate(messages):
        if out and out[-1][1] == m["role"]:
            out[-1][2].extend(blocks_of(m["content"]))
        else:
            out.append((at, m["role"], list(blocks_of(m["content"]))))
    return out


def check_message(at, message, last):
    require(isinstance(message, dict), f"messages.{at}: Input should be a valid dictionary")
    extra = set(message) - {"role", "content"}
    require(not extra, f"messages.{at}.{min(extra, default='')}: Extra inputs are not permitted")
    require(message.get("role") in ("user", "assistant"), f"messages.{at}.role: Input should be 'user' or 'assistant'")
    require("content" in message, f"messages.{at}.content: Field required")
    content = message["content"]
    require(content or (last and message["role"] == "assistant"), f"messages.{at}: all messages must have non-empty content except for the optional final assistant message")
    for i, block in enumerate(blocks_of(content)):
        check_block(f"messages.{at}.content.{i}", message["role"], block)


def check_block(where, role, block):
    kinds = {"user": {"text", "image", "document", "tool_result", "search_result"}, "assistant": {"text", "tool_use", "thinking", "redacted_thinking", "compaction"}}[role]
    kind = block.get("type")
    if role == "user" and kind == "tool_use":
        raise Problem(f"{where}: `tool_use` blocks can only be in `assistant` messages")
    if role == "assistant" and kind == "tool_result":
        raise Problem(f"{where}: `tool_result` blocks can only be in `user` messages")
    require(kind in kinds, f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {', '.join(sorted(kinds))}")
    if kind == "text":
        require(isinstance(block.get("text"), str), f"{where}.text.text: Field required")
        require(block["text"], "messages: text content blocks must be non-empty")
        require(block["text"].strip(), "messages: text content blocks must contain non-whitespace text")
    if kind == "tool_use":
        require(isinstance(block.get("id"), str) and SERVER_ID.match(block["id"]), f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        require(isinstance(block.get("name"), str) and block["name"], f"{where}.tool_use.name: String should have at least 1 character")
        require(isinstance(block.get("input"), dict), f"{where}.tool_use.input: Input should be a valid dictionary")
    if kind == "tool_result":
        require(isinstance(block.get("tool_use_id"), str), f"{where}.tool_result.tool_use_id: Field required")
        for j, part in enumerate(blocks_of(block.get("content") or [])):
            require(part.get("type") in ("text", "image", "document", "search_result"), f"{where}.tool_result.content.{j}: Input tag '{part.get('type')}' is not expected")
            require(part.get("type") != "text" or part.get("text"), "messages: text content blocks must be non-empty")
    if kind == "thinking":
        require(isinstance(block.get("thinking"), str) and isinstance(block.get("signature"), str), f"{where}.thinking.signature: Field required")
    if kind == "redacted_thinking":
        require(isinstance(block.get("data"), str), f"{where}.redacted_thinking.data: Field required")


def check_pairs(messages):
    """Every call has its result at the beginning of the very next message, and only there."""
    turns, seen = merged(messages), set()
    require(turns and turns[0][1] == "user", 'messages: first message must use the "user" role')
    open_calls = {}
    for index, (at, role, blocks) in enumerate(turns):
        if role == "user":
            results = []
            for i, b in enumerate(blocks):
                if b["type"] != "tool_result":
                    continue
                require(b["tool_use_id"] in open_calls, f"messages.{at}.content.{i}: unexpected `tool_use_id` found in `tool_result` blocks: {b['tool_use_id']}. Each "
                        "`tool_result` block must have a corresponding `tool_use` block in the previous message.")
                require(b["tool_use_id"] not in results, f"messages.{at}.content.{i}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {b['tool_use_id']}")
                require(all(x["type"] == "tool_result" for x in blocks[:i]), missing(at - 1, list(open_calls)))
                results.append(b["tool_use_id"])
            require(set(results) == set(open_calls), missing(at - 1, [c for c in open_calls if c not in results]))
            open_calls = {}
            continue
        for i, b in enumerate(blocks):
            if b["type"] == "tool_use":
                require(b["id"] not in seen, f"messages.{at}.content.{i}: `tool_use` ids must be unique")
                seen.add(b["id"])
                open_calls[b["id"]] = b
            elif open_calls and b["type"] == "text":
                raise Problem(missing(at, list(open_calls)))
        if index == len(turns) - 1 and open_calls:
            raise Problem(missing(at, list(open_calls)))


def missing(at, ids):
    return (f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(ids)}. Each `tool_use` block must have a "
            "corresponding `tool_result` block in the next message.")


def count_breakpoints(value):
    if isinstance(value, dict):
        return ("cache_control" in value and value["cache_control"] is not None) + sum(count_breakpoints(v) for v in value.values())
    return sum(count_breakpoints(v) for v in value) if isinstance(value, list) else 0


def without_breakpoints(value):
    if isinstance(value, dict):
        return {k: without_breakpoints(v) for k, v in value.items() if k != "cache_control"}
    return [without_breakpoints(v) for v in value] if isinstance(value, list) else value


class Anthropic(Dialect):
    name = "anthropic"

    def paths(self, path):
        return {} if path == "/v1/messages" else None

    def key(self, headers, query):
        bearer = headers.get("authorization") or ""
        return headers.get("x-api-key") or (bearer[7:] if bearer.lower().startswith("bearer ") else None)

    def error(self, status, message, more):
        return {"type": "error", "error": {"type": more.get("type") or ERRORS.get(status, "api_error"), "message": message}, "request_id": more.get("request_id", "req_fake")}

    def headers(self, request, usage):
        out = {"request-id": f"req_{request.number}"}
        for kind, limit in (("requests", 4000), ("tokens", 480000), ("input-tokens", 400000), ("output-tokens", 80000)):
            out[f"anthropic-ratelimit-{kind}-limit"] = str(limit)
            out[f"anthropic-ratelimit-{kind}-remaining"] = str(limit - request.number)
            out[f"anthropic-ratelimit-{kind}-reset"] = "2026-11-16T18:00:00Z"
        return out

    def check(self, request):
        body = request.body
        require(request.headers.get("anthropic-version"), "anthropic-version: header is required")
        extra = set(body) - KNOWN
        require(not extra, f"{min(extra, default='')}: Extra inputs are not permitted")
        for name, kind in (("model", str), ("max_tokens", int), ("messages", list)):
            require(name in body, f"{name}: Field required")
            require(isinstance(body[name], kind), f"{name}: Input should be a valid {kind.__name__}")
        require(body["max_tokens"] >= 0, "max_tokens: Input should be greater than or equal to 0")
        require(body["messages"], "messages: at least one message is required")
        for at, message in enumerate(body["messages"]):
            check_message(at, message, at == len(body["messages"]) - 1)
        check_pairs(body["messages"])
        require(body["messages"][-1]["role"] == "user", "This model does not support assistant message prefill. The conversation must end with a user message.")
        self.check_tools(body)
        self.check_thinking(request, body)
        found = count_breakpoints(body)
        require(found <= 4, f"A maximum of 4 blocks with cache_control may be provided. Found {found}.")
        for at, block in enumerate(blocks_of(body.get("system") or [])):
            require(block.get("type") == "text" and block.get("text"), f"system.{at}: text content blocks must be non-empty")

    def check_tools(self, body):
        names = [t.get("name") for t in body.get("tools") or []]
        for at, tool in enumerate(body.get("tools") or []):
            require(isinstance(tool.get("name"), str) and NAME.match(tool["name"]), f"tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
            require(isinstance(tool.get("input_schema"), dict), f"tools.{at}.custom.input_schema: Field required")
            require(tool["input_schema"].get("type") == "object", f"tools.{at}.custom.input_schema.type: Field required")
        require(len(set(names)) == len(names), "tools: Tool names must be unique.")
        used = any(b["type"] in ("tool_use", "tool_result") for m in body["messages"] for b in blocks_of(m["content"]))
        require(names or not used, "Requests which have `tool_use` or `tool_result` blocks in messages must define tools")
        choice = body.get("tool_choice")
        if choice is not None:
            require(choice.get("type") in ("auto", "any", "tool", "none"), f"tool_choice: Input tag '{choice.get('type')}' found using 'type' does not match any of the expected tags")
            require(names, "tool_choice: tool_choice may only be specified while providing tools")
            require(choice["type"] != "tool" or choice.get("name") in names, f"tool_choice: Tool '{choice.get('name')}' not found in provided tools")

    def check_thinking(self, request, body):
        thinking = body.get("thinking") or {"type": "disabled"}
        require(thinking.get("type") in ("enabled", "disabled", "adaptive"), "thinking.type: Input should be 'enabled', 'disabled' or 'adaptive'")
        if thinking["type"] == "enabled":
            budget = thinking.get("budget_tokens")
            require(isinstance(budget, int) and budget >= 1024, "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
            require(budget < body["max_tokens"], "`max_tokens` must be greater than `thinking.budget_tokens`")
        for at, m in enumerate(body["messages"]):
            for i, b in enumerate(blocks_of(m["content"])):
                if b["type"] == "thinking":
                    require(b["signature"] in (seal("thinking", body["model"], b["thinking"]), seal("omitted", body["model"])), f"messages.{at}.content.{i}: Invalid `signature` in `thinking` block")
                if b["type"] == "redacted_thinking":
                    require(b["data"] == seal("redacted", body["model"]), f"messages.{at}.content.{i}: Invalid `data` in `redacted_thinking` block")
        last = [m for m in body["messages"] if m["role"] == "assistant"][-1:]
        in_loop = blocks_of(body["messages"][-1]["content"])[0]["type"] == "tool_result"
        if thinking["type"] == "enabled" and last and in_loop:
            kind = blocks_of(last[0]["content"])[0]["type"]
            require(kind in ("thinking", "redacted_thinking"), f"messages.{body['messages'].index(last[0])}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{kind}`. When "
                    "`thinking` is enabled, a final `assistant` message must start with a thinking block")

    def cached_parts(self, body):
        parts = [body["model"], body.get("tools"), body.get("system")] + [(m["role"], blocks_of(m["content"])) for m in body["messages"]]
        return [without_breakpoints(p if not isinstance(p, tuple) else list(p)) for p in parts] if count_breakpoints(body) else []

    # ---- answers ----

    def blocks(self, request, step):
        out, model = [], request.body["model"]
        if step.get("reasoning") is not None:
            omitted = step.get("thinking") == "omitted"
            text = "" if omitted else step["reasoning"]
            out.append({"type": "thinking", "thinking": text, "signature": seal("omitted", model) if omitted else seal("thinking", model, text)})
        if step.get("redacted"):
            out.append({"type": "redacted_thinking", "data": seal("redacted", model)})
        if step.get("text"):
            out.append({"type": "text", "text": step["text"]})
        for call in calls_of(step):
            out.append({"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["arguments"], "_call": call})
        return out

    def stop(self, step):
        return step.get("stop") or ("tool_use" if step.get("calls") else "end_turn")

    def usage(self, usage, output):
        return {"input_tokens": usage["input"] - usage["cached"] - usage["written"], "cache_creation_input_tokens": usage["written"], "cache_read_input_tokens": usage["cached"],
                "cache_creation": {"ephemeral_5m_input_tokens": usage["written"], "ephemeral_1h_input_tokens": 0}, "output_tokens": output, "service_tier": "standard"}

    def whole(self, request, step, usage):
        content = [{k: v for k, v in b.items() if k != "_call"} for b in self.blocks(request, step)]
        return {"id": f"msg_{request.number}", "type": "message", "role": "assistant", "model": request.body["model"], "content": content, "stop_reason": self.stop(step),
                "stop_sequence": None, "usage": self.usage(usage, usage["output"])}

    def stream(self, request, step, usage):
        def said(data):
            return event(compact(data) + " " * 7 if step.get("pad") else data, data["type"])    # the real one pads at times

        size = step.get("piece", 12)
        start = self.whole(request, {"_id": step["_id"]}, usage)
        start.update(content=[], stop_reason=None, usage=self.usage(usage, 1))
        yield said({"type": "message_start", "message": start}), False
        for index, block in enumerate(self.blocks(request, step)):
            call, kind = block.pop("_call", None), block["type"]
            empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}}}.get(kind, {})
            yield said({"type": "content_block_start", "index": index, "content_block": dict(block, **empty)}), False
            if index == 0 and step.get("ping", True):
                yield said({"type": "ping"}), False
            deltas = []
            if kind == "text":
                deltas = [{"type": "text_delta", "text": p} for p in pieces(block["text"], size)]
            elif kind == "thinking":
                deltas = [{"type": "thinking_delta", "thinking": p} for p in pieces(block["thinking"], size) if p] + [{"type": "signature_delta", "signature": block["signature"]}]
            elif kind == "tool_use":
                text = arguments_text(step, call)
                deltas = [] if text == "{}" and step.get("arguments") == "none" else [{"type": "input_json_delta", "partial_json": p} for p in ["", *pieces(text, size)]]
            for d in deltas:
                yield said({"type": "content_block_delta", "index": index, "delta": d}), False
            if not (step.get("cut_call") and kind == "tool_use"):
                yield said({"type": "content_block_stop", "index": index}), False
        for extra in step.get("unknown_events") or []:
            yield said(extra), False
        final = {"type": "message_delta", "delta": {"stop_reason": self.stop(step), "stop_sequence": None}, "usage": self.usage(usage, usage["output"])}
        if step.get("stop_details"):
            final["delta"]["stop_details"] = step["stop_details"]
        if step.get("usage") == "missing":
            del final["usage"]
        for _ in range(2 if step.get("duplicate_finish") else 1):
            yield said(final), True
        yield said({"type": "message_stop"}), True

    def stream_error(self, step, sequence):
        yield event(self.error(step.get("status", 529), step.get("message", "Overloaded"), step), "error")

    def keep_alive(self, step):
        return event({"type": "ping"}, "ping")

    # ---- what the request says ----

    def results(self, body):
        names = {b["id"]: b["name"] for m in body["messages"] for b in blocks_of(m["content"]) if b["type"] == "tool_use"}
        return [{"id": b["tool_use_id"], "name": names.get(b["tool_use_id"]), "text": "".join(p.get("text", "") for p in blocks_of(b.get("content") or [])), "isError": bool(b.get("is_error"))}
                for b in merged(body["messages"])[-1][2] if b["type"] == "tool_result"]

    def texts(self, body):
        return [b["text"] for m in body["messages"] if m["role"] == "user" for b in blocks_of(m["content"]) if b["type"] == "text"]

    def system(self, body):
        return "".join(b["text"] for b in blocks_of(body.get("system") or []))

    def tools(self, body):
        return [t["name"] for t in body.get("tools") or []]
