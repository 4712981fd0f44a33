"""Clients of `bailiff mcp` over stdio: Raw speaks the protocol by itself, in both eras; Sdk drives one of the released clients (mcp_driver.mjs).

Both have structured content sent (--structured) and check that of every result against the schema that the tool promises; `plain`: as by default.
"""

import base64
import contextlib
import functools
import hashlib
import json
import os
import subprocess
import threading
import time

import npm
from harness import CLI, PATIENCE, Skip, environment, until
from mcp import Mcp, McpError, text_of


def links_of(result):
    return {c["name"]: c["uri"] for c in result["content"] if c["type"] == "resource_link"}


@functools.cache
def validator_of(text):
    """A validator of the schema with this JSON text, once it is known to be a schema. Checking that takes long, and all clients get the same ones."""
    try:
        import jsonschema
    except ImportError:
        raise Skip("python3-jsonschema is not installed") from None
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


class Client:
    """The interface that tests use with either."""

    def __init__(self, plain):
        self.schemas = None
        self.plain = plain

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def learn(self):
        self.schemas = {}
        for tool in self.tools():
            validator_of(json.dumps(tool["inputSchema"], sort_keys=True))
            assert ("outputSchema" in tool) != self.plain, tool
            if not self.plain:
                self.schemas[tool["name"]] = validator_of(json.dumps(tool["outputSchema"], sort_keys=True))
        return self.schemas

    def check(self, name, result):
        if self.schemas is None:
            self.learn()
        if self.plain:
            assert "structuredContent" not in result, f"{name}: {result}"
        elif "structuredContent" in result:
            errors = sorted(self.schemas[name].iter_errors(result["structuredContent"]), key=str)
            assert not errors, f"{name}: {errors[0].message} at {list(errors[0].path)}\n{json.dumps(result['structuredContent'])[:2000]}"
        else:
            assert result.get("isError"), f"{name} has no structured content: {result}"
        assert text_of(result), f"{name} tells a model nothing: {result}"
        return result

    def call(self, tool, error=False, **arguments):
        """The result of a tool, with its structured content checked; `error` is what isError must be (None: anything)."""
        result = self.finish(self.begin(tool, **arguments))
        assert error is None or bool(result.get("isError")) == error, f"{tool} {arguments}: isError is {not error}:\n{text_of(result)}"
        return result

    def tell(self, tool, error=False, **arguments):
        """(structured content, text) of a tool's result."""
        result = self.call(tool, error, **arguments)
        return result.get("structuredContent", {}), text_of(result)

    def exec(self, command, error=False, **more):
        return self.tell("exec", error, command=command, **more)


class Raw(Client):
    """Lines on a pipe (mcp.py), in either era. `answer` is what questions are answered with: a dictionary, or a function of the question's
    parameters; None: the client cannot be asked."""

    def __init__(self, home, modern=False, answer=None, args=(), cwd=None, plain=False, env=None):
        super().__init__(plain)
        self.modern, self.answer, self.asked, self.started = modern, answer, [], {}
        self.mcp = Mcp(home, *([] if plain else ["--structured"]), *args, cwd=cwd, env=env)
        self.process = self.mcp.process
        can = {"elicitation": {"form": {}}} if answer else {}
        if modern:
            self.mcp.modern(**can)
        else:
            self.mcp.initialize(**can)

    def close(self):
        self.mcp.close()

    def request(self, method, **params):
        return self.mcp.call(method, **params)

    def fails(self, method, **params):
        return self.mcp.fails(method, **params)

    def tools(self):
        return self.request("tools/list")["tools"]

    def decide(self, params):
        self.asked.append(params)
        return self.answer(params) if callable(self.answer) else self.answer

    def begin(self, tool, progress=False, **arguments):
        params = {"name": tool, "arguments": arguments}
        number = self.mcp.send("tools/call", params, **({"_meta": {"progressToken": f"of-{self.mcp.next_id + 1}"}} if progress else {}))
        self.started[number] = params
        return number

    def pump(self, patience=None):
        came = self.mcp.pump(patience)
        while self.mcp.asked:
            question = self.mcp.asked.pop(0)
            self.mcp.answer(question, self.decide(question["params"]))
        return came

    def finish(self, number):
        params = self.started.pop(number)
        while True:
            while number not in self.mcp.replies:
                assert self.pump(), f"no reply to request {number}"
            result = self.mcp.reply(number)
            if result.get("resultType") != "input_required":
                return self.check(params["name"], result)
            answers = {key: self.decide(q["params"]) for key, q in result["inputRequests"].items()}
            number = self.mcp.send("tools/call", dict(params, inputResponses=answers, requestState=result["requestState"]))

    def progress_of(self, number):
        return [n["params"] for n in self.mcp.notes if n["method"] == "notifications/progress" and n["params"]["progressToken"] == f"of-{number}"]

    def wait_for(self, condition, what):
        def holds():
            while self.pump(0.01):
                pass
            return condition()
        return until(what, holds)

    def cancel(self, number):
        self.mcp.notify("notifications/cancelled", requestId=number, reason="the test says so")

    def resources(self):
        return self.request("resources/list")["resources"]

    def read(self, uri):
        return self.request("resources/read", uri=uri)["contents"]

    def whole(self, uri):
        data, pages = bytearray(), 0
        while uri:
            contents = self.read(uri)
            for c in contents:
                data += c["text"].encode() if "text" in c else base64.b64decode(c["blob"])
            uri, pages = contents[-1].get("_meta", {}).get("bailiff/next"), pages + 1
        return {"bytes": len(data), "pages": pages, "sha256": hashlib.sha256(data).hexdigest()}

    def prompts(self):
        return self.request("prompts/list")["prompts"]

    def prompt(self, name, **arguments):
        return self.request("prompts/get", name=name, arguments=arguments)

    def complete(self, ref, name, value):
        return self.request("completion/complete", ref=ref, argument={"name": name, "value": value})["completion"]["values"]

    def subscribe(self, uri):
        if not self.modern:
            self.request("resources/subscribe", uri=uri)
        else:
            self.mcp.send("subscriptions/listen", notifications={"resourceSubscriptions": [uri]})
            self.mcp.note("notifications/subscriptions/acknowledged")

    def updates(self):
        return [n["params"]["uri"] for n in self.mcp.notes if n["method"] == "notifications/resources/updated"]

    def vanish(self):
        """Kills the gateway itself: no process is left to clean up."""
        self.process.kill()
        self.process.wait()


class Sdk(Client):
    """`which`: sdk (1.x, the eras with initialize) or client (2.x, which finds the modern one). `serve`: over HTTP, by this `bailiff serve`."""

    def __init__(self, home, which, answer=None, args=(), mode=None, serve=None, plain=False):
        super().__init__(plain)
        node, packages = npm.node(20), npm.packages("mcp-sdk")
        settings = {"env": environment(BAILIFF_HOME=home.dir, BAILIFF_MCP_HUMAN_MS="0"), "cwd": home.work, "elicitation": answer is not None, "mode": mode or "auto"}
        if serve:
            settings.update(url=f"http://127.0.0.1:{serve.port}/mcp", token=serve.token)
        driver = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mcp_driver.mjs")
        self.process = subprocess.Popen([node, driver, packages, which, json.dumps(settings), CLI, "mcp", *([] if plain else ["--structured"]), *args],
                                        env=environment(), cwd=home.work, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number, self.replies, self.notes, self.names, self.modern = 0, {}, [], {}, which == "client"
        self.shared = bool(serve) and which == "client" and mode != "legacy"    # one session for all of them
        self.changed = threading.Condition()
        self.ended = False
        threading.Thread(target=self.read_all, daemon=True).start()
        first = self.wait_for(lambda: self.notes, "the client to connect")[0]
        assert first["note"] == "connected", first
        self.pid = first.get("pid")
        self.about = self.do("about")
        if answer is not None:
            self.will_answer(answer)

    def wait_for(self, condition, what):
        end = time.monotonic() + PATIENCE
        with self.changed:
            while True:
                value = condition()
                if value:
                    return value
                assert not self.ended, f"the client left while the test waited for {what}"
                left = end - time.monotonic()
                assert left > 0, f"waited {PATIENCE:.0f} s without success: {what}"
                self.changed.wait(min(left, 0.2))

    def close(self):
        with contextlib.suppress(BrokenPipeError, ValueError):
            self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()

    def read_all(self):
        for line in self.process.stdout:
            message = json.loads(line)
            with self.changed:
                if "note" in message:
                    self.notes.append(message)
                else:
                    self.replies[message["id"]] = message
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def send(self, what, **more):
        self.number += 1
        self.process.stdin.write(json.dumps(dict(more, id=self.number, do=what)).encode() + b"\n")
        self.process.stdin.flush()
        return self.number

    def reply(self, number):
        message = self.wait_for(lambda: self.replies.get(number), f"the reply to request {number}")
        del self.replies[number]
        if "error" in message:
            raise McpError(message["error"])
        return message["result"]

    def do(self, what, **more):
        return self.reply(self.send(what, **more))

    def will_answer(self, answer):
        self.do("answer", answer=answer)

    @property
    def asked(self):
        return [n["params"] for n in self.notes if n["note"] == "asked"]

    def tools(self):
        return self.do("tools")["tools"]

    def begin(self, tool, progress=False, **arguments):
        number = self.send("call", params={"name": tool, "arguments": arguments}, progress=progress)
        self.names[number] = tool
        return number

    def finish(self, number):
        return self.check(self.names.pop(number), self.reply(number))

    def progress_of(self, number):
        return [n for n in self.notes if n["note"] == "progress" and n["of"] == number]

    def cancel(self, number):
        self.do("abort", of=number)

    def resources(self):
        return self.do("resources")["resources"]

    def prompts(self):
        return self.do("prompts")["prompts"]

    def prompt(self, name, **arguments):
        return self.do("prompt", params={"name": name, "arguments": arguments})

    def complete(self, ref, name, value):
        return self.do("complete", params={"ref": ref, "argument": {"name": name, "value": value}})["completion"]["values"]

    def read(self, uri):
        return self.do("read", params={"uri": uri})["contents"]

    def whole(self, uri):
        return self.do("whole", uri=uri)

    def subscribe(self, uri):
        return self.do("subscribe", uri=uri)

    def updates(self):
        return [n["params"]["uri"] for n in self.notes if n["note"] == "notification" and n["method"] == "notifications/resources/updated"]

    def vanish(self):
        """Kills client and driver together, as when a machine's session dies: the gateway sees the end of its pipe."""
        self.process.kill()
        self.process.wait()
