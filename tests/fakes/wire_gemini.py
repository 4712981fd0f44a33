"""Gemini: POST /v1beta/models/MODEL:streamGenerateContent?alt=sse, and :generateContent."""

import re

from wire import Dialect, NAME, calls_of, event, pieces, require, seal

KNOWN = {"systemInstruction", "system_instruction", "contents", "tools", "toolConfig", "tool_config", "generationConfig", "generation_config", "safetySettings", "safety_settings",
         "cachedContent", "cached_content", "labels", "model"}
SCHEMA = {"type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties", "required", "minProperties", "maxProperties", "minLength", "maxLength",
          "pattern", "example", "anyOf", "propertyOrdering", "default", "items", "minimum", "maximum"}
STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}
PART = {"text", "thought", "thoughtSignature", "functionCall", "functionResponse", "inlineData", "fileData", "executableCode", "codeExecutionResult"}
NO_SIGNATURE = "skip_thought_signature_validator"  # documented for calls that another model made
STOPS = {"max_tokens": "MAX_TOKENS", "max_output_tokens": "MAX_TOKENS", "refusal": "SAFETY", "content_filter": "SAFETY"}


def check_schema(value, where):
    """The subset of OpenAPI that `parameters` takes. parametersJsonSchema takes JSON Schema."""
    if not isinstance(value, dict):
        return
    for key in value:
        require(key in SCHEMA, f"Invalid JSON payload received. Unknown name \"{key}\" at '{where}': Cannot find field.")
    for key, inner in (value.get("properties") or {}).items():
        check_schema(inner, f"{where}.properties[{key}].value")
    check_schema(value.get("items"), f"{where}.items")
    for i, inner in enumerate(value.get("anyOf") or []):
        check_schema(inner, f"{where}.any_of[{i}]")


def calls_in(content, kind="functionCall"):
    return [p[kind] for p in content["parts"] if kind in p]


def check_turns(contents):
    before = None
    for at, content in enumerate(contents):
        calls, answers = calls_in(content), calls_in(content, "functionResponse")
        role = content.get("role", "user")
        require(not calls or role == "model", "Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
        require(not answers or role == "user", "Please ensure that function response turn comes immediately after a function call turn.")
        asked = calls_in(before) if before else []
        if answers or asked:
            require(asked, "Please ensure that function response turn comes immediately after a function call turn.")
            require(len(answers) == len(asked), "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
            require(sorted(a["name"] for a in answers) == sorted(c["name"] for c in asked), "Please ensure that the names of function response parts are those of the function call parts.")
        require(not calls or before is not None and before.get("role", "user") == "user",
                "Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
        before = content
    require(not calls_in(contents[-1]), "Please ensure that function call turn comes immediately before a function response turn.")


def check_signatures(model, contents):
    """Gemini 3 wants the signature of the first call of every step of the current turn back; a given one must be its own."""
    current = max([i for i, c in enumerate(contents) if c.get("role", "user") == "user" and any("text" in p for p in c["parts"]) and not calls_in(c, "functionResponse")] or [-1])
    for at, content in enumerate(contents):
        first = True
        for i, part in enumerate(content["parts"]):
            given = part.get("thoughtSignature")
            if "functionCall" in part:
                if first and at > current and model.startswith("gemini-3"):
                    require(given, f"Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded "
                            f"model performance. Additional data, function call `default_api:{part['functionCall']['name']}` , position {i}.")
                first = False
                own = seal("call", model, part["functionCall"]["name"])
            else:
                own = seal("text", model)
            require(given in (None, own, NO_SIGNATURE), f"Thought signature is not valid: contents[{at}].parts[{i}]")


class Gemini(Dialect):
    name = "gemini"
    base = "/v1beta"

    def paths(self, path):
        m = re.match(r"^/v1beta/models/([^/:]+):(streamGenerateContent|generateContent)$", path)
        return {"model": m[1], "stream": m[2] == "streamGenerateContent"} if m else None

    def key(self, headers, query):
        return headers.get("x-goog-api-key") or query.get("key")

    def error(self, status, message, more):
        error = {"code": status, "message": message, "status": more.get("status_name") or STATUS.get(status, "UNKNOWN")}
        details = list(more.get("details") or [])
        if more.get("retry_delay"):
            details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": more["retry_delay"]})
        if details:
            error["details"] = details
        return {"error": error}

    def headers(self, request, usage):
        return {"server-timing": "gfet4t7; dur=12", "vary": "Origin"}

    def check(self, request):
        body = request.body
        for name in body:
            require(name in KNOWN, f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.')
        require(body.get("contents"), "* GenerateContentRequest.contents: contents is not specified\n")
        for at, content in enumerate(body["contents"]):
            require(content.get("role", "user") in ("user", "model"), "Please use a valid role: user, model.")
            require(content.get("parts"), f"* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty.\n")
            for i, part in enumerate(content["parts"]):
                for name in part:
                    require(name in PART, f"Invalid JSON payload received. Unknown name \"{name}\" at 'contents[{at}].parts[{i}]': Cannot find field.")
                require(any(k in part for k in ("text", "functionCall", "functionResponse", "inlineData", "fileData")),
                        f"* GenerateContentRequest.contents[{at}].parts[{i}].data: required oneof field 'data' must have one initialized field\n")
                response = part.get("functionResponse")
                require(response is None or (response.get("name") and isinstance(response.get("response"), dict)),
                        f"* GenerateContentRequest.contents[{at}].parts[{i}].function_response.name: Name cannot be empty.\n")
        require(body["contents"][-1].get("role", "user") == "user", "Please ensure that single turn requests end with a user role or the role field is empty.")
        check_turns(body["contents"])
        check_signatures(request.model, body["contents"])
        names = []
        for t, tool in enumerate(body.get("tools") or []):
            for i, f in enumerate(tool.get("functionDeclarations") or []):
                where = f"tools[{t}].function_declarations[{i}]"
                require(isinstance(f.get("name"), str) and NAME.match(f["name"]), f"* GenerateContentRequest.{where}.name: Invalid function name.\n")
                require(not ("parameters" in f and "parametersJsonSchema" in f), f"{where}: parameters and parameters_json_schema are mutually exclusive")
                check_schema(f.get("parameters"), f"{where}.parameters")
                names.append(f["name"])
        require(len(set(names)) == len(names), f"Duplicate function declaration found: {names[0] if names else ''}")

    def cached_parts(self, body):
        return [body.get("tools"), body.get("systemInstruction"), *body["contents"]]

    # ---- answers ----

    def parts(self, request, step):
        size, out = step.get("piece", 12), []
        if step.get("reasoning"):
            out += [[{"text": p, "thought": True}] for p in pieces(step["reasoning"], size)]
        if step.get("text"):
            out += [[{"text": p}] for p in pieces(step["text"], size)]
        calls = []
        for i, call in enumerate(calls_of(step)):
            part = {"functionCall": {"name": call["name"], "args": call["arguments"]}}
            if step.get("ids") != "missing":
                part["functionCall"]["id"] = call["id"]
            if i == 0 and step.get("signatures", True):
                part["thoughtSignature"] = seal("call", request.model, call["name"])
            calls.append(part)
        if calls:
            out += [[c] for c in calls] if step.get("call_style") == "separate" else [calls]
        elif out and step.get("reasoning") and step.get("signatures", True):
            out.append([{"text": "", "thoughtSignature": seal("text", request.model)}])
        return out or [[{"text": ""}]]

    def finish(self, step):
        return step.get("finish") or STOPS.get(step.get("stop"), step.get("stop")) or "STOP"

    def usage(self, usage):
        out = {"promptTokenCount": usage["input"], "candidatesTokenCount": usage["output"] - usage["reasoning"], "totalTokenCount": usage["input"] + usage["output"],
               "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage["input"]}]}
        if usage["cached"]:
            out["cachedContentTokenCount"] = usage["cached"]
        if usage["reasoning"]:
            out["thoughtsTokenCount"] = usage["reasoning"]
        return out

    def object(self, request, parts, finish, usage):
        candidate = {"content": {"parts": parts, "role": "model"}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        out = {"candidates": [candidate], "modelVersion": request.model, "responseId": f"resp-{request.number}"}
        return dict(out, usageMetadata=self.usage(usage)) if usage else out

    def whole(self, request, step, usage):
        if step.get("blocked"):
            return {"promptFeedback": {"blockReason": step["blocked"]}, "usageMetadata": self.usage(dict(usage, output=0, reasoning=0)), "modelVersion": request.model}
        return self.object(request, [p for group in self.parts(request, step) for p in group], self.finish(step), usage)

    def stream(self, request, step, usage):
        if step.get("blocked"):
            yield event(self.whole(request, step, usage), end="\r\n"), True
            return
        groups = self.parts(request, step)
        told = None if step.get("usage") == "missing" else usage
        for i, parts in enumerate(groups):
            last = i == len(groups) - 1 and not step.get("finish_alone") and not step.get("drop_terminal")
            yield event(self.object(request, parts, self.finish(step) if last else None, told), end="\r\n"), last
        if step.get("finish_alone") or step.get("duplicate_finish"):
            yield event(self.object(request, [{"text": ""}], self.finish(step), told), end="\r\n"), True

    def stream_error(self, step, sequence):
        yield event(self.error(step.get("status", 503), step.get("message", "The model is overloaded. Please try again later."), step), end="\r\n")

    def keep_alive(self, step):
        return b": keep-alive\r\n\r\n"

    # ---- what the request says ----

    def results(self, body):
        return [{"id": r.get("id"), "name": r["name"], "text": "".join(str(v) for v in r["response"].values()), "isError": "error" in r["response"]} for r in calls_in(body["contents"][-1], "functionResponse")]

    def texts(self, body):
        return [p["text"] for c in body["contents"] if c.get("role", "user") == "user" for p in c["parts"] if "text" in p]

    def system(self, body):
        return "".join(p.get("text", "") for p in (body.get("systemInstruction") or {}).get("parts", []))

    def tools(self, body):
        return [f["name"] for t in body.get("tools") or [] for f in t.get("functionDeclarations") or []]
