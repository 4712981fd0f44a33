"""An MCP server on stdio with a fault of choice: python3 fake_mcp_server.py [FAULT]."""

import json
import os
import sys
import time

fault = sys.argv[1] if len(sys.argv) > 1 else ""


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


TOOLS = [{"name": "echo", "description": "Returns its text.", "inputSchema": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}},
         {"name": "env", "inputSchema": {"type": "object"}}]

if fault == "names":
    TOOLS = [TOOLS[0], TOOLS[0], *({"name": n} for n in ("a.b", "n" * 60)), {"name": "bad", "inputSchema": {"type": "array"}}]
if fault == "exit":
    sys.exit("no database\x1b[31m")
if fault == "noise":
    print("Starting\x1b[2J…", flush=True)
calls = 0
for line in sys.stdin:
    m = json.loads(line)
    method, params = m.get("method"), m.get("params", {})
    if fault == "hang" and method == "tools/call":
        time.sleep(1000)
    if fault == "crash" and method == "tools/call":
        os.abort()
    if fault == "flood" and method == "tools/call":
        while True:
            say({"method": "notifications/message", "params": {"level": "info", "data": "x" * 1000}})
    if fault == "long" and method == "tools/call":
        while True:
            sys.stdout.write("x" * 65536)
    if fault == "ping" and method == "tools/call":
        say({"id": "p", "method": "ping"})
        say({"id": "s", "method": "sampling/createMessage", "params": {}})
        answers = [json.loads(sys.stdin.readline()) for _ in range(2)]
        assert answers[0] == {"jsonrpc": "2.0", "id": "p", "result": {}} and answers[1]["error"]["code"] == -32601, answers
    if fault == "stateless":
        if method == "initialize":
            say({"id": m["id"], "error": {"code": -32601, "message": "no such method"}})
            continue
        assert params["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28", m
    if method == "server/discover":
        say({"id": m["id"], "result": {"supportedVersions": ["2026-07-28"], "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "3"}}}})
    elif method == "initialize":
        say({"id": m["id"], "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "fake", "version": "1"}}})
    elif method == "tools/list":
        at = int(params.get("cursor", 0))
        say({"id": m["id"], "result": {"tools": TOOLS[at:at + 1], **({"nextCursor": str(at + (fault != "pages"))} if at + 1 < len(TOOLS) else {})}})
    elif fault == "iserror" and method == "tools/call":
        say({"id": m["id"], "result": {"isError": True, "content": [{"type": "text", "text": "it did not work"}]}})
    elif fault == "structured" and method == "tools/call":
        say({"id": m["id"], "result": {"content": [], "structuredContent": params["arguments"]}})
    elif fault == "state" and method == "tools/call":
        calls += 1
        text = params["arguments"]["text"]
        if text == "crash":
            os.abort()
        if text == "hang":
            time.sleep(1000)
        say({"id": m["id"], "result": {"content": [{"type": "text", "text": f"{calls} {os.environ.get(text, text)}"}]}})
    elif fault == "state" and method == "ping":
        say({"id": m["id"], "result": {}})
    elif method == "tools/call" and params["name"] == "echo":
        say({"id": m["id"], "result": {"content": [{"type": "text", "text": params["arguments"]["text"]}]}})
    elif "id" in m:
        say({"id": m["id"], "error": {"code": -32602, "message": "no such tool\x1b[31m"}})
