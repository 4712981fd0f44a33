"""The released client, @agentclientprotocol/sdk, drives `bailiff acp`; what it receives is checked against the schema that it comes with."""

import json
import os
import subprocess

import harness
import npm
from acp import calls_of, text_of
from test_acp import policy, read, write
from test_agent import call, model

HERE = os.path.dirname(os.path.abspath(__file__))


def validators(packages, *names):
    try:
        import jsonschema
    except ImportError:
        raise harness.Skip("python3-jsonschema is not installed") from None
    with open(os.path.join(packages, "node_modules/@agentclientprotocol/sdk/schema/v1/schema.json"), encoding="utf-8") as f:
        schema = json.load(f)
    return [jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]}) for name in names]


def drive(home, packages, steps, option="allow_once", buffers=None):
    """(results, updates, questions) of requests that the client sends in order."""
    settings = {"env": harness.environment(BAILIFF_HOME=home.dir), "cwd": home.work, "option": option, "buffers": buffers or {}, "steps": steps}
    done = subprocess.run([npm.node(20), os.path.join(HERE, "acp_driver.mjs"), packages, json.dumps(settings), harness.CLI, "acp"], cwd=home.work,
                          env=harness.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=2 * harness.PATIENCE, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [x for x in lines if "method" in x], [x["update"] for x in lines if "update" in x], [x["asked"] for x in lines if "asked" in x]


def test_messages_to_the_released_client_match_its_schema(home):
    packages = npm.packages("acp-sdk")
    write(home, "a.c", "int nothing;\n")     # the needle is not saved yet
    write(home, "b.c", "int b;\n")
    policy(home, ask=["Bash(touch *)"])
    script = [{"text": "Looking.", "reasoning": "hm", "calls": [call("read_file", path="b.c"), call("edit_file", path="a.c", oldText="needle", newText="thread"),
                                                                call("update_plan", steps=[{"step": "edit", "status": "completed"}])]},
              {"calls": [call("shell", command="touch made; echo one")]}, {"text": "Done."}]
    hello = ["initialize", {"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}}]
    here = {"cwd": home.work, "mcpServers": []}
    steps = [hello, ["session/new", here], ["session/prompt", {"sessionId": "$session", "prompt": [{"type": "text", "text": "go"}]}],
             ["session/set_mode", {"sessionId": "$session", "modeId": "plan"}], ["session/close", {"sessionId": "$session"}],
             ["session/load", dict(here, sessionId="$session")], ["session/list", {}]]
    with home.rpc() as rpc, model(home, rpc, script):
        results, updates, asked = drive(home, packages, steps, buffers={os.path.join(home.work, "a.c"): "int needle;\n"})
    assert not [r for r in results if "error" in r], results
    for result, validator in zip(results, validators(packages, "InitializeResponse", "NewSessionResponse", "PromptResponse", "SetSessionModeResponse",
                                                     "CloseSessionResponse", "LoadSessionResponse", "ListSessionsResponse")):
        validator.validate(result["result"])
    notification, question = validators(packages, "SessionNotification", "RequestPermissionRequest")
    for update in updates:
        notification.validate(update)
    for one in asked:
        question.validate(one)
    assert results[2]["result"] == {"stopReason": "end_turn"} and len(asked) == 1 and "touch made" in asked[0]["toolCall"]["title"], (results, asked)
    assert os.path.exists(os.path.join(home.work, "made"))
    shown = [u["update"] for u in updates]
    assert text_of(shown, "user_message_chunk") == "go" and text_of(shown) == "Looking.Done." * 2, "live, and when it is loaded"
    assert len(calls_of(shown)) == 3 and results[-2]["result"]["modes"]["currentModeId"] == "plan", results[-2]
    assert read(home, "a.c") == "int thread;\n", "edited as the editor has it; of the other file the editor gave no text"
    assert [(s["cwd"], s["title"]) for s in results[-1]["result"]["sessions"]] == [(home.work, "go")], results[-1]


if __name__ == "__main__":
    harness.main(globals())
