"""What the fakes of the four dialects share. Each module wire_DIALECT has a class with the members of Dialect."""

import hashlib
import json
import re

NAME = re.compile(r"^[a-zA-Z0-9_-]{1,128}$")


class Problem(Exception):
    """A request that the provider rejects: status, message, and what the dialect puts next to it."""

    def __init__(self, message, status=400, **more):
        super().__init__(message)
        self.status, self.message, self.more = status, message, more


def require(condition, message, status=400, **more):
    if not condition:
        raise Problem(message, status, **more)


def pieces(text, size):
    return [text[i:i + size] for i in range(0, len(text), size)] or [""]


def seal(*parts):
    """A signature, or encrypted content: the provider recognises its own, and notices a changed one."""
    return "seal-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def event(data, name=None, end="\n"):
    """One server-sent event."""
    text = data if isinstance(data, str) else compact(data)
    return ((f"event: {name}{end}" if name else "") + f"data: {text}{end}{end}").encode()


def calls_of(step):
    """The tool calls of a step, with their ids."""
    out = []
    for i, call in enumerate(step.get("calls") or []):
        out.append(dict({"arguments": {}, "id": f"{step['_id']}_{i + 1}"}, **call))
    return out


def arguments_text(step, call):
    if "raw" in call:   # whatever a model may write instead of JSON
        return call["raw"]
    return compact(call["arguments"])


class Dialect:
    name = None
    base = "/v1"

    def paths(self, path):
        """Whether a POST to this path is a request to the model: None, or {"stream": …, "model": …} as far as the path says it."""
        raise NotImplementedError

    def key(self, headers, query):
        """The API key of a request, or None."""
        raise NotImplementedError

    def check(self, request):
        """Raises Problem for a request that the provider would reject."""
        raise NotImplementedError

    def error(self, status, message, more):
        """The body of an error."""
        raise NotImplementedError

    def headers(self, request, usage):
        """Headers of every response: the id, the rate limits."""
        return {}

    def cached_parts(self, body):
        """What a prompt cache compares, in its order."""
        raise NotImplementedError

    def whole(self, request, step, usage):
        """The answer in one piece."""
        raise NotImplementedError

    def stream(self, request, step, usage):
        """The answer as server-sent events: (bytes, whether it belongs to the end)."""
        raise NotImplementedError

    # For scripts that react: the same for every dialect.

    def results(self, body):
        """The tool results at the end of the request: [{"id", "name", "text", "isError"}]."""
        raise NotImplementedError

    def texts(self, body):
        """All texts of users, in order."""
        raise NotImplementedError

    def system(self, body):
        raise NotImplementedError

    def tools(self, body):
        raise NotImplementedError
