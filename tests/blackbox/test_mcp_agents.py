"""What released agents do with what an MCP server sends: which tools their search finds, what they show a model and their user."""

import json
import os

import harness
from mcp import text_of
from mcp_clients import Raw, links_of

ERAS = (False, True)


def put(home, name, text):
    with open(os.path.join(home.work, name), "w") as f:
        f.write(text)


def test_the_list_of_tools_is_short_and_has_the_words_that_models_search_for(home):
    for modern in ERAS:
        with Raw(home, modern, plain=True) as mcp:
            tools = mcp.tools()
            size = len(json.dumps(tools, separators=(",", ":"), ensure_ascii=False).encode())
            assert size <= 8192, {t["name"]: len(json.dumps(t, separators=(",", ":"))) for t in tools}
            for search in ("run shell command", "bash", "terminal", "execute command", "read file", "edit file", "write file", "kill process"):
                said = {t["name"]: f'{t["name"]} {t["title"]} {t["description"]}'.lower() for t in tools}
                found = [name for name, words in said.items() if all(w in words or w[:4] in name for w in search.split())]
                assert found, search
                if search in ("run shell command", "bash", "terminal"):
                    assert "exec" in found, (search, found)


def test_results_are_plain_text_by_default(home):
    """Many clients hand a model the structured content instead of the text, as escaped JSON."""
    put(home, "text", "one\n")
    with open(os.path.join(home.work, "bytes"), "wb") as f:
        f.write(b"\0\xff" * 300)
    for modern in ERAS:
        with Raw(home, modern, plain=True) as mcp:
            mcp.learn()
            result = mcp.call("exec", command="echo 'a \"quoted\" line'")
            assert [c["type"] for c in result["content"]] == ["text"] and text_of(result).startswith('a "quoted" line\n'), result
            result = mcp.call("exec", error=True, command="echo no >&2; exit 3")
            assert [c["type"] for c in result["content"]] == ["text"] and "Exit code 3" in text_of(result), result
            result = mcp.call("exec", command="seq 100000", maxOutputBytes=1000)
            assert list(links_of(result)) == ["stdout"] and "read_output with" in text_of(result), result
            assert mcp.call("read_file", path="text")["content"] == [{"type": "text", "text": "one\n"}]
            assert 'with encoding: "base64"' in mcp.tell("read_file", path="bytes")[1] and "AP8A" in mcp.tell("read_file", path="bytes", encoding="base64")[1]
            process = mcp.tell("exec", command="sleep 1000", background=True)[1].split("Still running as ")[1].split(".")[0]
            assert process in mcp.tell("ps")[1]
            for tool, arguments in (("kill", {"processId": process}), ("wait", {"processId": process}), ("read_output", {"processId": process})):
                mcp.call(tool, error=None, **arguments)
    with Raw(home, plain=True) as mcp:
        made = mcp.request("tools/call", name="exec", arguments={"command": "echo task"}, task={"ttl": 60000})["task"]
        result = mcp.request("tasks/result", taskId=made["taskId"])
        assert "structuredContent" not in result and text_of(result).startswith("task\n"), result
    with Raw(home, plain=True) as other, Raw(home) as structured:
        assert "structuredContent" not in other.request("tasks/result", taskId=made["taskId"]), "another gateway recalls it"
        assert structured.request("tasks/result", taskId=made["taskId"])["structuredContent"]["stdout"] == "task\n", "and one that has it sent has it"


if __name__ == "__main__":
    harness.main(globals())
